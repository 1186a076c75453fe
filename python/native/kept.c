/* kept.c: solves and derivatives by structs that an earlier call filled: a call puts in addresses and numbers, makes its results,
 * and asks the library.
 *
 *     keep(plan, problem, options, arrays, gradients, tangents, result, error, fresh, alone, narrow, given, inputs, outputs) -> kept
 *         Addresses of a plan and of its structs: gradients 0 and tangents 0 for a solve. A call has `given` arrays, some of them
 *         None; `inputs` are (index, field, kind, bound) of those that are read: kind 0 puts the address of the array into the field,
 *         1 its number, which is more than 0, 2 that of 0 or more, 3 any number, 4 two whole ones. The plan is bound again where
 *         what a bound field holds is new, or always (fresh). `outputs` are (field, type, shape, order) of results: field 0 is written by
 *         nobody, type 0 is that of the first array, and with an order, not (), the shape is that of a tensor's memory:
 *         order[k] is the dimension whose size is shape[k]. `alone`: short enough to keep the interpreter's lock. `narrow`: the
 *         judge does without the coupling, which is rounded.
 *     run(kept, x, ...) -> (status, result, ...) | None
 *         None where the plan cannot be bound to these arrays. Arrays have the layout of those that `kept` was made for.
 *     ask(kept) -> status
 *         The same of structs that the caller has filled, and of a plan that is bound to them.
 *     again(kinds, give, token, wants, threads, behind, x, ...)
 *         -> result | (result, ..., object, facts, numbers) | (object, status, result, ...) | None
 *         The same by what `kinds` keeps for (token, wants, threads, layout of the arrays): a list of objects whose `call` is
 *         a kept call. One is taken out and handed to `give` in the end. With 0 behind it the one result
 *         comes alone; 1 puts the object behind, 2 facts (rounds, row error, column error, empty rows, nonfinite rows), too,
 *         and 3 the numbers of the certificate. None where nothing is kept, and where anything but success comes out.
 *         With -1 the object, which the caller gives back, and the status come first, whatever it is: None where
 *         nothing is kept, or where the plan cannot be bound to these arrays.
 *     judge(kept, x, ...) -> (status, numbers)
 *         The certificate of what `run` has just written, or of the arrays and results given here, in the order of run's.
 *
 * The caller owns all structs and lends a kept call to one thread at a time. */
#include "native.h"

enum { KEPT_ARRAYS = 40, KEPT_OUTPUTS = 16 };

typedef enum kept_kind {
    KEPT_ADDRESS,
    KEPT_POSITIVE,
    KEPT_NONNEGATIVE,
    KEPT_NUMBER,
    KEPT_PAIR
} kept_kind;

typedef struct kept_input {
    Py_ssize_t index;
    void *field;
    int kind, bound;
} kept_input;

typedef struct kept_output {
    void **field;
    int type, dimensions, ordered;
    int64_t shape[MEMORY_DIMENSIONS];
    int order[MEMORY_DIMENSIONS]; /* ordered: dimension order[k] of the result is shape[k] long */
} kept_output;

typedef struct kept_call {
    ota_plan *plan;
    const ota_problem *problem;
    const ota_options *options;
    ota_arrays *arrays;
    ota_gradients *gradients;
    ota_tangents *tangents;
    ota_result *result;
    ota_error *error;
    int fresh, alone, narrow, binds;
    int bound_now; /* is the plan bound to what the fields hold? */
    Py_ssize_t given, inputs, outputs;
    kept_input input[KEPT_ARRAYS];
    kept_output output[KEPT_OUTPUTS];
} kept_call;

static const char kept_name[] = "otattn.kept";

static void *pointer_of(PyObject *number) {
    void *found = PyLong_AsVoidPtr(number);
    return found;
}

static int read_input(kept_input *input, PyObject *described) {
    PyObject *field;
    if (!PyArg_ParseTuple(described, "nOii", &input->index, &field, &input->kind, &input->bound))
        return -1;
    input->field = pointer_of(field);
    return PyErr_Occurred() ? -1 : 0;
}

static int read_output(kept_output *output, PyObject *described) {
    PyObject *field, *shape, *order;
    if (!PyArg_ParseTuple(described, "OiO!O!", &field, &output->type, &PyTuple_Type, &shape,
                          &PyTuple_Type, &order))
        return -1;
    output->field = pointer_of(field);
    const Py_ssize_t dimensions = PyTuple_Size(shape);
    if (dimensions > MEMORY_DIMENSIONS) return -1;
    output->dimensions = (int)dimensions;
    for (Py_ssize_t k = 0; k < dimensions; k++)
        output->shape[k] = PyLong_AsLongLong(PyTuple_GetItem(shape, k));
    output->ordered = PyTuple_Size(order) == dimensions && dimensions > 0;
    for (Py_ssize_t k = 0; output->ordered && k < dimensions; k++)
        output->order[k] = (int)PyLong_AsLong(PyTuple_GetItem(order, k));
    return PyErr_Occurred() ? -1 : 0;
}

static void free_kept(PyObject *capsule) { PyMem_Free(PyCapsule_GetPointer(capsule, kept_name)); }

static int read_kept(kept_call *kept, PyObject *arguments) {
    PyObject *at[8], *inputs, *outputs;
    if (!PyArg_ParseTuple(arguments, "OOOOOOOOiiinO!O!", &at[0], &at[1], &at[2], &at[3], &at[4],
                          &at[5], &at[6], &at[7], &kept->fresh, &kept->alone, &kept->narrow,
                          &kept->given, &PyTuple_Type, &inputs, &PyTuple_Type, &outputs))
        return -1;
    kept->plan = pointer_of(at[0]);
    kept->problem = pointer_of(at[1]);
    kept->options = pointer_of(at[2]);
    kept->arrays = pointer_of(at[3]);
    kept->gradients = pointer_of(at[4]);
    kept->tangents = pointer_of(at[5]);
    kept->result = pointer_of(at[6]);
    kept->error = pointer_of(at[7]);
    kept->inputs = PyTuple_Size(inputs);
    kept->outputs = PyTuple_Size(outputs);
    if (PyErr_Occurred() || kept->inputs > KEPT_ARRAYS || kept->outputs > KEPT_OUTPUTS) return -1;
    for (Py_ssize_t k = 0; k < kept->inputs; k++) {
        kept_input *input = &kept->input[k];
        if (read_input(input, PyTuple_GetItem(inputs, k)) < 0) return -1;
        if (input->index < 0 || input->index >= kept->given) return -1;
        kept->binds |= input->bound;
    }
    for (Py_ssize_t k = 0; k < kept->outputs; k++)
        if (read_output(&kept->output[k], PyTuple_GetItem(outputs, k)) < 0) return -1;
    return 0;
}

PyObject *native_keep(PyObject *module, PyObject *arguments) {
    (void)module;
    kept_call *kept = PyMem_Calloc(1, sizeof *kept);
    if (kept == NULL) return PyErr_NoMemory();
    PyObject *capsule = NULL;
    if (read_kept(kept, arguments) == 0) capsule = PyCapsule_New(kept, kept_name, free_kept);
    if (capsule != NULL) return capsule;
    PyMem_Free(kept);
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "more arrays or dimensions than are kept");
    return NULL;
}

static ota_status ask(const kept_call *kept, int rebind) {
    if (rebind) return ota_plan_rebind(kept->plan, kept->problem, kept->error);
    if (kept->gradients != NULL)
        return ota_backward(kept->plan, kept->arrays, kept->gradients, kept->result, kept->error);
    if (kept->tangents != NULL)
        return ota_jvp(kept->plan, kept->arrays, kept->tangents, kept->result, kept->error);
    return ota_forward(kept->plan, kept->arrays, kept->result, kept->error);
}

static ota_status ask_unlocked(const kept_call *kept, int rebind) {
    if (kept->alone) return ask(kept, rebind);
    ota_status status;
    NATIVE_UNLOCKED(status, ask(kept, rebind));
    return status;
}

/* Puts the number of an array into a field; 0: it is none that the field may hold. */
static int put_number(const native_state *state, const kept_input *input, PyObject *array) {
    array_memory x;
    if (!memory_of(state, array, &x)) return 0;
    if (input->kind == KEPT_PAIR) {
        if (!memory_is_whole(&x)) return 0;
        const int64_t *pair = x.data;
        uint64_t *field = input->field;
        field[0] = (uint64_t)pair[0];
        field[1] = (uint64_t)pair[x.strides[0]];
        return 1;
    }
    const int wide = memory_is(&x, OTA_F64);
    if (!wide && !memory_is(&x, OTA_F32)) return 0;
    const double number = wide ? *(const double *)x.data : (double)*(const float *)x.data;
    const int allowed = input->kind == KEPT_NUMBER        ? number == number
                        : input->kind == KEPT_NONNEGATIVE ? number >= 0.0
                                                          : number > 0.0;
    if (allowed) *(double *)input->field = number;
    return allowed;
}

/* Puts the addresses and numbers of the call in place: 1, or 0 where the plan refuses them, or -1 with an exception. */
static int put_inputs(const native_state *state, kept_call *kept, PyObject *const *arrays) {
    int moved = kept->fresh || !kept->bound_now;
    for (Py_ssize_t k = 0; k < kept->inputs; k++) {
        const kept_input *input = &kept->input[k];
        if (input->kind != KEPT_ADDRESS) {
            if (put_number(state, input, arrays[input->index])) continue;
            kept->bound_now = 0;
            return 0;
        }
        void *data = NULL, **field = input->field;
        if (!memory_address(state, arrays[input->index], &data)) return -1;
        if (input->bound && *field != data) moved = 1;
        *field = data;
    }
    if (!moved || !kept->binds) return 1;
    kept->bound_now = ask_unlocked(kept, 1) >= 0;
    return kept->bound_now;
}

/* A tuple of results that are in place, and of empty places around them; NULL with an exception. */
static PyObject *new_results(const native_state *state, const kept_call *kept, PyObject *first,
                             Py_ssize_t before, Py_ssize_t behind) {
    array_memory like;
    if (!memory_of(state, first, &like))
        return PyErr_Format(PyExc_ValueError, "an array that cannot be read as it lies");
    PyObject *results = PyTuple_New(before + kept->outputs + behind);
    if (results == NULL) return NULL;
    for (Py_ssize_t k = 0; k < kept->outputs; k++) {
        const kept_output *output = &kept->output[k];
        void *data = NULL;
        PyObject *made =
            memory_new_in_order(state, &like, output->type, output->dimensions, output->shape,
                                output->ordered ? output->order : NULL, &data);
        if (made == NULL) {
            Py_DECREF(results);
            return NULL;
        }
        PyTuple_SetItem(results, before + k, made);
        if (output->field != NULL) *output->field = data;
    }
    return results;
}

/* Solves into a new tuple of results, with `first` places before and `last` behind them that are empty. NULL without an
 * exception: the plan cannot be bound to these arrays. */
static PyObject *solve(const native_state *state, kept_call *kept, PyObject *const *arrays,
                       Py_ssize_t before, Py_ssize_t behind, ota_status *status) {
    const int ready = put_inputs(state, kept, arrays);
    if (ready < 0) kept->bound_now = 0;
    if (ready <= 0) return NULL;
    PyObject *results = new_results(state, kept, arrays[0], before, behind);
    if (results != NULL) *status = ask_unlocked(kept, 0);
    if (PyErr_Occurred() == NULL) return results;
    Py_XDECREF(results);
    return NULL;
}

PyObject *native_run(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    const native_state *state = PyModule_GetState(module);
    kept_call *kept = count > 1 ? PyCapsule_GetPointer(arguments[0], kept_name) : NULL;
    if (kept == NULL || count != 1 + kept->given) {
        if (PyErr_Occurred()) return NULL;
        return PyErr_Format(PyExc_TypeError, "wanted a kept call and its arrays");
    }
    ota_status found = OTA_OK;
    PyObject *results = solve(state, kept, arguments + 1, 1, 0, &found);
    if (results == NULL) return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    PyObject *status = PyLong_FromLong(found);
    if (status == NULL) {
        Py_DECREF(results);
        return NULL;
    }
    PyTuple_SetItem(results, 0, status);
    return results;
}

PyObject *native_ask(PyObject *module, PyObject *capsule) {
    (void)module;
    const kept_call *kept = PyCapsule_GetPointer(capsule, kept_name);
    if (kept == NULL) return NULL;
    const ota_status status = ask_unlocked(kept, 0);
    return PyErr_Occurred() == NULL ? PyLong_FromLong(status) : NULL;
}

/* Puts arrays and results in place; -1 with an exception. The plan is then bound to none of them. */
static int put_all(const native_state *state, kept_call *kept, PyObject *const *arrays) {
    kept->bound_now = 0;
    for (Py_ssize_t k = 0; k < kept->inputs; k++) {
        const kept_input *input = &kept->input[k];
        PyObject *array = arrays[input->index];
        if (input->kind == KEPT_ADDRESS) {
            if (!memory_address(state, array, input->field)) return -1;
        } else if (!put_number(state, input, array)) {
            PyErr_SetString(PyExc_ValueError, "a number that the problem cannot have");
            return -1;
        }
    }
    for (Py_ssize_t k = 0; k < kept->outputs; k++) {
        void *data = NULL;
        if (!memory_address(state, arrays[kept->given + k], &data)) return -1;
        if (kept->output[k].field != NULL) *kept->output[k].field = data;
    }
    return 0;
}

static PyObject *certificate_numbers(const ota_certificate *found) {
    return Py_BuildValue("dddddddddddddLL", found->row_error, found->column_error, found->primal,
                         found->dual, found->gap, found->value, found->entropy, found->support,
                         found->receiver_max, found->receiver_min, found->delta, found->minimum,
                         found->outside, (long long)found->empty_rows,
                         (long long)found->nonfinite_rows);
}

static ota_status certify(const kept_call *kept, ota_certificate *found) {
    if (!kept->narrow)
        return ota_certify(kept->problem, kept->options, kept->arrays, found, NULL, kept->error);
    ota_arrays arrays = *kept->arrays;
    arrays.coupling = (ota_array){0};
    return ota_certify(kept->problem, kept->options, &arrays, found, NULL, kept->error);
}

static ota_status certify_unlocked(const kept_call *kept, ota_certificate *found) {
    if (kept->alone) return certify(kept, found);
    ota_status status;
    NATIVE_UNLOCKED(status, certify(kept, found));
    return status;
}

PyObject *native_judge(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    const native_state *state = PyModule_GetState(module);
    kept_call *kept = count > 0 ? PyCapsule_GetPointer(arguments[0], kept_name) : NULL;
    if (kept == NULL || (count != 1 && count != 1 + kept->given + kept->outputs)) {
        if (PyErr_Occurred()) return NULL;
        return PyErr_Format(PyExc_TypeError, "wanted a kept call and all of its arrays, or none");
    }
    if (count > 1 && put_all(state, kept, arguments + 1) < 0) return NULL;
    ota_certificate found = {.size = sizeof found};
    const ota_status status = certify_unlocked(kept, &found);
    if (PyErr_Occurred() != NULL) return NULL;
    PyObject *numbers = certificate_numbers(&found);
    PyObject *answer = numbers == NULL ? NULL : Py_BuildValue("iO", (int)status, numbers);
    Py_XDECREF(numbers);
    return answer;
}

/* A dense matrix or vector instead of the one that is described. */
static void put_dense(ota_array *array, const void *data) {
    array->data = (void *)(uintptr_t)data;
    array->stride[3] = 1;
    array->stride[2] = array->size[3];
}

PyObject *kept_certificate(PyObject *capsule, const void *cost, const void *const masses[2],
                           const void *plan, const void *const potentials[2]) {
    const kept_call *kept = PyCapsule_GetPointer(capsule, kept_name);
    if (kept == NULL) return NULL;
    ota_problem problem = *kept->problem;
    ota_arrays arrays = *kept->arrays;
    put_dense(&problem.scores, cost);
    put_dense(&problem.row_mass, masses[0]);
    put_dense(&problem.column_mass, masses[1]);
    put_dense(&arrays.coupling, plan);
    put_dense(&arrays.row_potential, potentials[0]);
    put_dense(&arrays.column_potential, potentials[1]);
    ota_certificate found = {.size = sizeof found};
    ota_error error = {{0}, {0}, {0}};
    ota_status status;
    if (kept->alone) {
        status = ota_certify(&problem, kept->options, &arrays, &found, NULL, &error);
    } else {
        NATIVE_UNLOCKED(status,
                        ota_certify(&problem, kept->options, &arrays, &found, NULL, &error));
    }
    if (PyErr_Occurred() != NULL) return NULL;
    if (status < 0) return PyErr_Format(PyExc_RuntimeError, "%s", error.message);
    return certificate_numbers(&found);
}

/* ---- by what is kept for calls of a name ------------------------------------------------------ */

enum {
    AGAIN_KINDS,
    AGAIN_GIVE,
    AGAIN_TOKEN,
    AGAIN_WANTS,
    AGAIN_THREADS,
    AGAIN_BEHIND,
    AGAIN_FIRST
};

/* An idle object of the name, owned; NULL, without an exception, where there is none. */
static PyObject *take_idle(PyObject *const *arguments, PyObject *layout) {
    PyObject *name = PyTuple_Pack(4, arguments[AGAIN_TOKEN], arguments[AGAIN_WANTS],
                                  arguments[AGAIN_THREADS], layout);
    if (name == NULL) return NULL;
    PyObject *idle = PyDict_GetItemWithError(arguments[AGAIN_KINDS], name);
    Py_DECREF(name);
    const Py_ssize_t count = idle == NULL ? 0 : PyList_Size(idle);
    if (count <= 0) return NULL;
    PyObject *taken = Py_NewRef(PyList_GetItem(idle, count - 1));
    if (PyList_SetSlice(idle, count - 1, count, NULL) == 0) return taken;
    Py_DECREF(taken);
    return NULL;
}

/* How much follows the results; LENT: the object and the status come before them. */
enum { LENT = -1, ALONE, WITH_OBJECT, WITH_FACTS, WITH_CERTIFICATE };

/* Puts so much behind the results; 0: the judge refuses, or an exception. */
static int put_behind(const kept_call *kept, PyObject *taken, long behind, PyObject *results) {
    const ota_result *r = kept->result;
    PyTuple_SetItem(results, kept->outputs, Py_NewRef(taken));
    if (behind == WITH_OBJECT) return 1;
    PyObject *facts = Py_BuildValue("LddLL", (long long)r->rounds, r->row_error, r->column_error,
                                    (long long)r->empty_rows, (long long)r->nonfinite_rows);
    if (facts == NULL) return 0;
    PyTuple_SetItem(results, kept->outputs + 1, facts);
    if (behind == WITH_FACTS) return 1;
    ota_certificate found = {.size = sizeof found};
    if (certify_unlocked(kept, &found) < 0) return 0;
    PyObject *numbers = certificate_numbers(&found);
    if (numbers == NULL) return 0;
    PyTuple_SetItem(results, kept->outputs + 2, numbers);
    return 1;
}

/* What `again` returns; NULL with an exception, or without one where nothing comes of it. */
static PyObject *solve_again(const native_state *state, kept_call *kept, PyObject *taken,
                             long behind, PyObject *const *arrays, Py_ssize_t count) {
    if (count != kept->given) return NULL;
    ota_status status = OTA_OK;
    PyObject *results = behind == LENT ? solve(state, kept, arrays, 2, 0, &status)
                                       : solve(state, kept, arrays, 0, behind, &status);
    if (results == NULL) return NULL;
    if (behind == LENT) {
        PyObject *number = PyLong_FromLong(status);
        PyTuple_SetItem(results, 0, Py_NewRef(taken));
        if (number != NULL && PyTuple_SetItem(results, 1, number) == 0) return results;
    }
    PyObject *found = NULL;
    if (status == OTA_OK && behind == ALONE)
        found = Py_NewRef(PyTuple_GetItem(results, 0));
    else if (status == OTA_OK && behind > ALONE && put_behind(kept, taken, behind, results))
        found = Py_NewRef(results);
    Py_DECREF(results);
    return found;
}

/* Hands it back, whatever exception there is. */
static void give_idle(PyObject *give, PyObject *taken) {
    PyObject *kind = NULL, *value = NULL, *trace = NULL;
    PyErr_Fetch(&kind, &value, &trace);
    PyObject *given = PyObject_CallFunctionObjArgs(give, taken, NULL);
    if (given == NULL) PyErr_Clear();
    PyErr_Restore(kind, value, trace);
    Py_XDECREF(given);
}

PyObject *native_again(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    const native_state *state = PyModule_GetState(module);
    if (count <= AGAIN_FIRST) return PyErr_Format(PyExc_TypeError, "wanted a name and arrays");
    PyObject *const *arrays = arguments + AGAIN_FIRST;
    const long behind = PyLong_AsLong(arguments[AGAIN_BEHIND]);
    if (behind < LENT || behind > WITH_CERTIFICATE)
        return PyErr_Format(PyExc_ValueError, "wanted -1 to 3 behind the results");
    PyObject *layout = native_layout(module, arrays, count - AGAIN_FIRST);
    if (layout == NULL || layout == Py_None) return layout;
    PyObject *taken = take_idle(arguments, layout);
    Py_DECREF(layout);
    if (taken == NULL) return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    PyObject *capsule = PyObject_GetAttr(taken, state->call), *found = NULL;
    kept_call *kept = capsule == NULL ? NULL : PyCapsule_GetPointer(capsule, kept_name);
    if (kept != NULL) found = solve_again(state, kept, taken, behind, arrays, count - AGAIN_FIRST);
    if (found == NULL && !PyErr_Occurred()) found = Py_NewRef(Py_None);
    if (behind != LENT || found == NULL || found == Py_None)
        give_idle(arguments[AGAIN_GIVE], taken);
    Py_XDECREF(capsule);
    Py_DECREF(taken);
    return found;
}
