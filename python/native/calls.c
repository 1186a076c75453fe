/* Calls of the package for which ctypes takes longer than the work: CPython's own interface, within its limited part, and
 * NumPy's arrays. What a call does not know how to take is None, and the package goes the longer way.
 *
 *     assign(cost, maximize, limit, maps)                   one assignment problem, [n, m] in f64 or f32 of any strides:
 *         -> (rows, columns) | (value, x, y) | None         pairs, or with `maps` lap's two maps in 32 bits
 *     ota_assign, ota_maxsim, ...                           calls that may be long, by addresses of what the caller described
 *                                                           (long_calls.c)
 *     is_matrix, ranked, bottleneck                         the k cheapest matchings, and those of the cheapest dearest pair
 *                                                           (matchings.c)
 *     normalize, normalize_gradients                        small doubly stochastic matrices (normalize.c)
 *     words_are, parse                                      keywords of calls (keywords.c)
 *     tensors, address, layout, derivative, without_zeros, copies
 *                                                           the memory of arrays and tensors (memory.c)
 *     keep, run, ask, again, judge                          solves by the structs of an earlier one (kept.c)
 *     hold, rest, sums, linear, scalings, divided, apart, centred, against, scalars
 *                                                           numbers of a transport plan (transport.c)
 *     route(...), pick(...)                                 tokens to experts (route.c)
 *     cancel() -> address, watched(call, ...) -> status     Ctrl-C (interrupt.c): the flag for `cancel`, and a call that it ends
 *     once(says)                                            whether this thread's calls are never made again
 *     maxsim(...)                                           late interaction (late_interaction.c)
 *
 * An assigner is kept for each module and lent to one call at a time. The interpreter's lock is released where a problem is
 * large enough to be worth it; what threads share is changed by atomic words, since some interpreters have no such lock. */
#define NATIVE_MAKES_NUMPY_TABLE
#include "native.h"

#include <math.h>

enum { RELEASE_FROM = 1 << 12, ALONE_UP_TO = 1 << 18 };

static ota_assigner *borrow(native_state *state) {
    ota_assigner *own = __atomic_exchange_n(&state->idle, NULL, __ATOMIC_ACQ_REL);
    if (own != NULL) return own;
    const ota_options options = {.size = sizeof options, .threads = 1};
    return ota_assigner_create(&own, &options, NULL) < 0 ? NULL : own;
}

static void give_back(native_state *state, ota_assigner *own) {
    ota_assigner_free(__atomic_exchange_n(&state->idle, own, __ATOMIC_ACQ_REL));
}

/* Fills the batch with the matrix; false: it is none that is taken here. */
static int read_matrix(PyObject *object, ota_assignments *batch) {
    if (!PyArray_CheckExact(object)) return 0;
    PyArrayObject *array = (PyArrayObject *)object;
    const int type = PyArray_TYPE(array);
    if (PyArray_NDIM(array) != 2 || (type != NPY_DOUBLE && type != NPY_FLOAT)) return 0;
    if (!PyArray_ISBEHAVED_RO(array)) return 0;
    const npy_intp *shape = PyArray_DIMS(array), *strides = PyArray_STRIDES(array);
    const npy_intp item = type == NPY_DOUBLE ? 8 : 4;
    if (strides[0] % item != 0 || strides[1] % item != 0) return 0;
    if (shape[0] > ALONE_UP_TO || shape[1] > ALONE_UP_TO || shape[0] * shape[1] > ALONE_UP_TO)
        return 0;
    batch->rows = shape[0];
    batch->columns = shape[1];
    batch->row_stride = strides[0] / item;
    batch->column_stride = strides[1] / item;
    batch->type = type == NPY_DOUBLE ? OTA_F64 : OTA_F32;
    batch->costs = PyArray_DATA(array);
    return 1;
}

/* The limit of a call: None and inf are none. 0: the longer way knows what to say. */
static int read_limit(PyObject *object, ota_assignments *batch) {
    if (object == Py_None) return 1;
    const double limit = PyFloat_Check(object) ? PyFloat_AsDouble(object) : NAN;
    if (isnan(limit) || limit == -INFINITY) return 0;
    batch->limited = limit < INFINITY;
    batch->cost_limit = batch->limited ? limit : 0.0;
    return !(batch->limited && batch->maximize);
}

static PyObject *narrow(const int64_t *from, npy_intp length) {
    PyObject *made = PyArray_SimpleNew(1, &length, NPY_INT32);
    int32_t *to = made == NULL ? NULL : PyArray_DATA((PyArrayObject *)made);
    for (npy_intp k = 0; made != NULL && k < length; k++) to[k] = (int32_t)from[k];
    return made;
}

/* What a call returns of two arrays of 64-bit numbers; NULL with an exception. */
static PyObject *answer_of(const ota_assignments *batch, PyObject *first, PyObject *second,
                           int maps, int64_t pairs, double value) {
    if (maps) {
        PyObject *x = narrow(batch->column_of, (npy_intp)batch->rows);
        PyObject *y = narrow(batch->row_of, (npy_intp)batch->columns);
        PyObject *answer = x == NULL || y == NULL ? NULL : Py_BuildValue("dOO", value, x, y);
        Py_XDECREF(x);
        Py_XDECREF(y);
        return answer;
    }
    if (!batch->limited) return PyTuple_Pack(2, first, second);
    PyObject *i = PySequence_GetSlice(first, 0, (Py_ssize_t)pairs);
    PyObject *j = PySequence_GetSlice(second, 0, (Py_ssize_t)pairs);
    PyObject *answer = i == NULL || j == NULL ? NULL : PyTuple_Pack(2, i, j);
    Py_XDECREF(i);
    Py_XDECREF(j);
    return answer;
}

static ota_status assign_unlocked(ota_assigner *own, const ota_assignments *batch) {
    if (batch->rows * batch->columns < RELEASE_FROM) return ota_assign(own, batch, NULL);
    ota_status status;
    NATIVE_UNLOCKED(status, ota_assign(own, batch, NULL));
    return status;
}

static PyObject *assign(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    native_state *state = PyModule_GetState(module);
    ota_assignments batch = {.size = sizeof batch, .count = 1, .cancel = native_cancel()};
    if (count != 4 || !read_matrix(arguments[0], &batch)) Py_RETURN_NONE;
    batch.maximize = arguments[1] == Py_True;
    if (!batch.maximize && arguments[1] != Py_False) Py_RETURN_NONE;
    const int maps = arguments[3] == Py_True;
    if (!read_limit(arguments[2], &batch)) Py_RETURN_NONE;
    int64_t pairs = 0;
    double value = 0.0;
    const int64_t least = batch.rows < batch.columns ? batch.rows : batch.columns;
    npy_intp first_length = (npy_intp)(maps ? batch.rows : least);
    npy_intp second_length = (npy_intp)(maps ? batch.columns : least);
    PyObject *first = PyArray_SimpleNew(1, &first_length, NPY_INT64);
    PyObject *second = first == NULL ? NULL : PyArray_SimpleNew(1, &second_length, NPY_INT64);
    ota_assigner *own = second == NULL ? NULL : borrow(state);
    PyObject *answer = NULL;
    if (own == NULL) {
        if (!PyErr_Occurred()) PyErr_NoMemory();
    } else {
        int64_t *one = PyArray_DATA((PyArrayObject *)first);
        int64_t *two = PyArray_DATA((PyArrayObject *)second);
        if (maps) {
            batch.column_of = one, batch.row_of = two, batch.value = &value;
        } else {
            batch.pair_row = one, batch.pair_column = two, batch.pairs = &pairs;
        }
        const ota_status status = assign_unlocked(own, &batch);
        give_back(state, own);
        if (status == OTA_OK)
            answer = answer_of(&batch, first, second, maps, pairs, value);
        else if (PyErr_Occurred() == NULL)
            answer = Py_NewRef(Py_None);
    }
    Py_XDECREF(first);
    Py_XDECREF(second);
    return answer;
}

static PyObject *release(PyObject *module, PyObject *unused) {
    (void)unused;
    give_back(PyModule_GetState(module), NULL);
    native_keep_router(PyModule_GetState(module), NULL, 0);
    Py_RETURN_NONE;
}

static int start(PyObject *module) {
    native_state *state = PyModule_GetState(module);
    state->is_neg = PyUnicode_InternFromString("is_neg");
    state->requires_grad = PyUnicode_InternFromString("requires_grad");
    state->call = PyUnicode_InternFromString("call");
    if (state->is_neg == NULL || state->requires_grad == NULL || state->call == NULL) return -1;
    return native_start_interrupts() < 0 ? -1 : PyArray_ImportNumPyAPI();
}

static void end(void *module) {
    native_state *state = PyModule_GetState(module);
    if (state == NULL) return;
    give_back(state, NULL);
    native_keep_router(state, NULL, 0);
    PyObject **const owned[] = {&state->tensor, &state->is_neg, &state->requires_grad, &state->call,
                                &state->words};
    for (size_t k = 0; k < sizeof owned / sizeof owned[0]; k++) {
        PyObject *object = *owned[k];
        *owned[k] = NULL;
        Py_XDECREF(object);
    }
}

PyMODINIT_FUNC PyInit__native(void);

PyMODINIT_FUNC PyInit__native(void) {
    static PyMethodDef calls[] = {
        {"assign", (PyCFunction)(void (*)(void))assign, METH_FASTCALL,
         "assign(cost, maximize, limit, maps)"},
        {"ota_assign", (PyCFunction)(void (*)(void))native_ota_assign, METH_FASTCALL,
         "ota_assign(assigner, batch)"},
        {"ota_assign_bounded", (PyCFunction)(void (*)(void))native_ota_assign_bounded,
         METH_FASTCALL, "ota_assign_bounded(problem, options, result)"},
        {"ota_maxsim", (PyCFunction)(void (*)(void))native_ota_maxsim, METH_FASTCALL,
         "ota_maxsim(problem, scores, best)"},
        {"ota_maxsim_backward", (PyCFunction)(void (*)(void))native_ota_maxsim_backward,
         METH_FASTCALL, "ota_maxsim_backward(problem, score_grad, query_grad, document_grad)"},
        {"ota_route", (PyCFunction)(void (*)(void))native_ota_route, METH_FASTCALL,
         "ota_route(problem, options, result)"},
        {"is_matrix", native_is_matrix, METH_O, "is_matrix(x)"},
        {"ranked", (PyCFunction)(void (*)(void))native_ranked, METH_FASTCALL,
         "ranked(costs, sizes, k, maximize, limit, certificate, threads)"},
        {"bottleneck", (PyCFunction)(void (*)(void))native_bottleneck, METH_FASTCALL,
         "bottleneck(costs, sizes, maximize, limit, threads)"},
        {"normalize", (PyCFunction)(void (*)(void))native_normalize, METH_FASTCALL,
         "normalize(recipe, scores, threads)"},
        {"normalize_gradients", (PyCFunction)(void (*)(void))native_normalize_gradients,
         METH_FASTCALL, "normalize_gradients(recipe, saved, plan_grad, threads)"},
        {"maxsim", (PyCFunction)(void (*)(void))native_maxsim, METH_FASTCALL,
         "maxsim(queries, documents, offsets, lengths, query_lengths, capacity, top, threads)"},
        {"route", (PyCFunction)(void (*)(void))native_route, METH_FASTCALL,
         "route(logits, k, capacity, bounds, method, potentials, tolerance, rounds, certificate, "
         "threads)"},
        {"pick", (PyCFunction)(void (*)(void))native_pick, METH_FASTCALL,
         "pick(plan, chosen, kept, weights)"},
        {"cancel", native_cancel_address, METH_NOARGS, "cancel()"},
        {"watched", native_watched, METH_VARARGS, "watched(call, ...)"},
        {"once", native_once, METH_O, "once(says)"},
        {"release", release, METH_NOARGS, "Frees what is kept."},
        {"tensors", (PyCFunction)(void (*)(void))native_tensors, METH_FASTCALL,
         "tensors(type, capsule)"},
        {"address", native_address, METH_O, "address(x)"},
        {"layout", (PyCFunction)(void (*)(void))native_layout, METH_FASTCALL, "layout(x, ...)"},
        {"words_are", native_words_are, METH_VARARGS, "words_are(type, ...)"},
        {"parse", (PyCFunction)(void (*)(void))native_parse, METH_FASTCALL,
         "parse(memo, names, options, x, ...)"},
        {"derivative", (PyCFunction)(void (*)(void))native_derivative, METH_FASTCALL,
         "derivative(x, ...)"},
        {"without_zeros", (PyCFunction)(void (*)(void))native_without_zeros, METH_FASTCALL,
         "without_zeros(x, ...)"},
        {"copies", (PyCFunction)(void (*)(void))native_copies, METH_FASTCALL, "copies(x, ...)"},
        {"keep", native_keep, METH_VARARGS,
         "keep(plan, problem, options, arrays, gradients, result, error, fresh, alone, bound, "
         "given, outputs)"},
        {"run", (PyCFunction)(void (*)(void))native_run, METH_FASTCALL, "run(kept, x, ...)"},
        {"ask", native_ask, METH_O, "ask(kept)"},
        {"again", (PyCFunction)(void (*)(void))native_again, METH_FASTCALL,
         "again(kinds, give, words, names, threads, behind, x, ...)"},
        {"judge", (PyCFunction)(void (*)(void))native_judge, METH_FASTCALL, "judge(kept, x, ...)"},
        {"hold", (PyCFunction)(void (*)(void))native_hold, METH_FASTCALL, "hold(M, a, b, plan)"},
        {"rest", (PyCFunction)(void (*)(void))native_rest, METH_FASTCALL,
         "rest(kept, held, f, g, reg, rows, columns, relative)"},
        {"sums", (PyCFunction)(void (*)(void))native_sums, METH_FASTCALL, "sums(plan, M, a, b)"},
        {"linear", (PyCFunction)(void (*)(void))native_linear, METH_FASTCALL, "linear(plan, M)"},
        {"scalings", (PyCFunction)(void (*)(void))native_scalings, METH_FASTCALL,
         "scalings(f, g, reg, own)"},
        {"divided", (PyCFunction)(void (*)(void))native_divided, METH_FASTCALL,
         "divided(f, g, reg)"},
        {"apart", (PyCFunction)(void (*)(void))native_apart, METH_FASTCALL,
         "apart(f, g, a, b, reg)"},
        {"centred", (PyCFunction)(void (*)(void))native_centred, METH_FASTCALL,
         "centred(u, v, own)"},
        {"against", (PyCFunction)(void (*)(void))native_against, METH_FASTCALL,
         "against(M, a, b, reg)"},
        {"scalars", (PyCFunction)(void (*)(void))native_scalars, METH_FASTCALL,
         "scalars(like, x, ...)"},
        {NULL, NULL, 0, NULL}};
    static PyModuleDef_Slot slots[] = {
        {Py_mod_exec, (void *)(uintptr_t)start},
#if defined(Py_GIL_DISABLED)
        {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
        {0, NULL}
    };
    static PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT,
                                     .m_name = "otattn._native",
                                     .m_size = sizeof(native_state),
                                     .m_methods = calls,
                                     .m_slots = slots,
                                     .m_free = end};
    return PyModuleDef_Init(&definition);
}
