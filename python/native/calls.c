/* Calls of the package for which ctypes takes longer than the work: CPython's own interface, within its limited part, and
 * NumPy's arrays. What a call does not know how to take is None, and the package goes the longer way.
 *
 *     assign(cost, maximize) -> (rows, columns) | None      one assignment problem, [n, m] in f64 or f32 of any strides
 *     tensors, layout, without_zeros, copies                the memory of arrays and tensors (memory.c)
 *     keep, run                                             solves by the structs of an earlier one (kept.c)
 *     maxsim(...)                                           late interaction (late_interaction.c)
 *
 * An assigner is kept for each module and lent to one call at a time; the interpreter's lock guards the slot, and is
 * released where a problem is large enough to be worth it. */
#define NATIVE_MAKES_NUMPY_TABLE
#include "native.h"

enum { RELEASE_FROM = 1 << 12, ALONE_UP_TO = 1 << 18 };

static ota_assigner *borrow(native_state *state) {
    ota_assigner *own = state->idle;
    state->idle = NULL;
    if (own != NULL) return own;
    const ota_options options = {.size = sizeof options, .threads = 1};
    return ota_assigner_create(&own, &options, NULL) < 0 ? NULL : own;
}

static void give_back(native_state *state, ota_assigner *own) {
    ota_assigner *other = state->idle;
    state->idle = own;
    ota_assigner_free(other);
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

static PyObject *assign(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    native_state *state = PyModule_GetState(module);
    ota_assignments batch = {.size = sizeof batch, .count = 1};
    if (count != 2 || !read_matrix(arguments[0], &batch)) Py_RETURN_NONE;
    batch.maximize = PyObject_IsTrue(arguments[1]);
    if (batch.maximize < 0) return NULL;
    npy_intp length = batch.rows < batch.columns ? batch.rows : batch.columns;
    PyObject *rows = PyArray_SimpleNew(1, &length, NPY_INT64);
    PyObject *columns = rows == NULL ? NULL : PyArray_SimpleNew(1, &length, NPY_INT64);
    ota_assigner *own = columns == NULL ? NULL : borrow(state);
    if (own == NULL) {
        Py_XDECREF(rows);
        Py_XDECREF(columns);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    batch.pair_row = PyArray_DATA((PyArrayObject *)rows);
    batch.pair_column = PyArray_DATA((PyArrayObject *)columns);
    ota_status status;
    if (batch.rows * batch.columns < RELEASE_FROM) {
        status = ota_assign(own, &batch, NULL);
    } else {
        Py_BEGIN_ALLOW_THREADS status = ota_assign(own, &batch, NULL);
        Py_END_ALLOW_THREADS
    }
    give_back(state, own);
    PyObject *pair = status == OTA_OK ? PyTuple_New(2) : NULL;
    if (pair == NULL) {
        Py_DECREF(rows);
        Py_DECREF(columns);
        if (PyErr_Occurred()) return NULL;
        Py_RETURN_NONE;
    }
    PyTuple_SetItem(pair, 0, rows);
    PyTuple_SetItem(pair, 1, columns);
    return pair;
}

static PyObject *release(PyObject *module, PyObject *unused) {
    (void)unused;
    give_back(PyModule_GetState(module), NULL);
    Py_RETURN_NONE;
}

static int start(PyObject *module) {
    (void)module;
    return PyArray_ImportNumPyAPI();
}

static void end(void *module) {
    native_state *state = PyModule_GetState(module);
    if (state == NULL) return;
    give_back(state, NULL);
    PyObject *tensor = state->tensor;
    state->tensor = NULL;
    Py_XDECREF(tensor);
}

PyMODINIT_FUNC PyInit__native(void);

PyMODINIT_FUNC PyInit__native(void) {
    static PyMethodDef calls[] = {
        {"assign", (PyCFunction)(void (*)(void))assign, METH_FASTCALL, "assign(cost, maximize)"},
        {"maxsim", (PyCFunction)(void (*)(void))ota_native_maxsim, METH_FASTCALL,
         "maxsim(queries, documents, offsets, lengths, query_lengths, capacity, top, threads)"},
        {"release", release, METH_NOARGS, "Frees what is kept."},
        {"tensors", (PyCFunction)(void (*)(void))native_tensors, METH_FASTCALL,
         "tensors(type, capsule)"},
        {"layout", (PyCFunction)(void (*)(void))native_layout, METH_FASTCALL, "layout(x, ...)"},
        {"without_zeros", (PyCFunction)(void (*)(void))native_without_zeros, METH_FASTCALL,
         "without_zeros(x, ...)"},
        {"copies", (PyCFunction)(void (*)(void))native_copies, METH_FASTCALL, "copies(x, ...)"},
        {"keep", native_keep, METH_VARARGS,
         "keep(plan, problem, arrays, gradients, result, error, fresh, alone, bound, given, "
         "outputs)"},
        {"run", (PyCFunction)(void (*)(void))native_run, METH_FASTCALL, "run(kept, x, ...)"},
        {NULL, NULL, 0, NULL}};
    static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)start}, {0, NULL}};
    static PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT,
                                     .m_name = "otattn._native",
                                     .m_size = sizeof(native_state),
                                     .m_methods = calls,
                                     .m_slots = slots,
                                     .m_free = end};
    return PyModuleDef_Init(&definition);
}
