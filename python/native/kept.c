/* kept.c: solves and derivatives by structs that an earlier call filled: a call puts in addresses, makes its results, and asks
 * the library.
 *
 *     keep(plan, problem, options, arrays, gradients, result, error, fresh, alone, bound, given, outputs) -> kept
 *         Addresses of a plan and of its structs (gradients 0: a solve). `bound` and `given` are the addresses of the fields
 *         that take the arrays of a call in their order; the plan is bound to the first ones again where they moved, or
 *         always (fresh). `outputs` are (field, type, shape) of results: field 0 is written by nobody, type 0 is that of the
 *         first array. `alone`: short enough to keep the interpreter's lock.
 *     run(kept, x, ...) -> (status, result, ...) | None
 *         None where the plan cannot be bound to these arrays. Arrays have the layout of those that `kept` was made for.
 *     judge(kept, x, ...) -> (status, number, ...)
 *         The certificate of what `run` has just written, or of the arrays and results given here, in the order of run's.
 *
 * The caller owns all structs and lends a kept call to one thread at a time. */
#include "native.h"

enum { KEPT_ARRAYS = 12, KEPT_OUTPUTS = 6 };

typedef struct kept_output {
    void **field;
    int type, dimensions;
    int64_t shape[MEMORY_DIMENSIONS];
} kept_output;

typedef struct kept_call {
    ota_plan *plan;
    const ota_problem *problem;
    const ota_options *options;
    ota_arrays *arrays;
    ota_gradients *gradients;
    ota_result *result;
    ota_error *error;
    int fresh, alone;
    int bound_now; /* is the plan bound to what the fields hold? */
    Py_ssize_t bound, inputs, outputs;
    void **fields[KEPT_ARRAYS]; /* of bound arrays, then of the others */
    kept_output output[KEPT_OUTPUTS];
} kept_call;

static const char kept_name[] = "otattn.kept";

static void *pointer_of(PyObject *number) {
    void *found = PyLong_AsVoidPtr(number);
    return found;
}

/* The fields named by a tuple of addresses, from fields[from] on; -1 with an exception. */
static int read_fields(kept_call *kept, PyObject *places, Py_ssize_t from) {
    const Py_ssize_t count = PyTuple_Size(places);
    if (count < 0 || from + count > KEPT_ARRAYS) return -1;
    for (Py_ssize_t k = 0; k < count; k++)
        kept->fields[from + k] = pointer_of(PyTuple_GetItem(places, k));
    return PyErr_Occurred() ? -1 : 0;
}

static int read_output(kept_output *output, PyObject *described) {
    PyObject *field, *shape;
    if (!PyArg_ParseTuple(described, "OiO!", &field, &output->type, &PyTuple_Type, &shape))
        return -1;
    output->field = pointer_of(field);
    const Py_ssize_t dimensions = PyTuple_Size(shape);
    if (dimensions > MEMORY_DIMENSIONS) return -1;
    output->dimensions = (int)dimensions;
    for (Py_ssize_t k = 0; k < dimensions; k++)
        output->shape[k] = PyLong_AsLongLong(PyTuple_GetItem(shape, k));
    return PyErr_Occurred() ? -1 : 0;
}

static void free_kept(PyObject *capsule) { PyMem_Free(PyCapsule_GetPointer(capsule, kept_name)); }

static int read_kept(kept_call *kept, PyObject *arguments) {
    PyObject *at[7], *bound, *given, *outputs;
    if (!PyArg_ParseTuple(arguments, "OOOOOOOiiO!O!O!", &at[0], &at[1], &at[2], &at[3], &at[4],
                          &at[5], &at[6], &kept->fresh, &kept->alone, &PyTuple_Type, &bound,
                          &PyTuple_Type, &given, &PyTuple_Type, &outputs))
        return -1;
    kept->plan = pointer_of(at[0]);
    kept->problem = pointer_of(at[1]);
    kept->options = pointer_of(at[2]);
    kept->arrays = pointer_of(at[3]);
    kept->gradients = pointer_of(at[4]);
    kept->result = pointer_of(at[5]);
    kept->error = pointer_of(at[6]);
    kept->bound = PyTuple_Size(bound);
    kept->inputs = kept->bound + PyTuple_Size(given);
    kept->outputs = PyTuple_Size(outputs);
    if (PyErr_Occurred() || kept->outputs > KEPT_OUTPUTS) return -1;
    if (read_fields(kept, bound, 0) < 0 || read_fields(kept, given, kept->bound) < 0) return -1;
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
    if (kept->gradients == NULL)
        return ota_forward(kept->plan, kept->arrays, kept->result, kept->error);
    return ota_backward(kept->plan, kept->arrays, kept->gradients, kept->result, kept->error);
}

static ota_status ask_unlocked(const kept_call *kept, int rebind) {
    if (kept->alone) return ask(kept, rebind);
    ota_status status;
    Py_BEGIN_ALLOW_THREADS status = ask(kept, rebind);
    Py_END_ALLOW_THREADS return status;
}

/* Puts the addresses of the call in place: 1, or 0 where the plan refuses them, or -1 with an exception. */
static int put_inputs(const native_state *state, kept_call *kept, PyObject *const *arrays) {
    int moved = kept->fresh || !kept->bound_now;
    for (Py_ssize_t k = 0; k < kept->inputs; k++) {
        void *data = NULL;
        if (!memory_address(state, arrays[k], &data)) return -1;
        if (k < kept->bound && *kept->fields[k] != data) moved = 1;
        *kept->fields[k] = data;
    }
    if (!moved) return 1;
    kept->bound_now = ask_unlocked(kept, 1) >= 0;
    return kept->bound_now;
}

/* The tuple of status and results, with the results in place; NULL with an exception. */
static PyObject *new_results(const native_state *state, const kept_call *kept, PyObject *first) {
    array_memory like;
    if (!memory_of(state, first, &like))
        return PyErr_Format(PyExc_ValueError, "an array that cannot be read as it lies");
    PyObject *results = PyTuple_New(1 + kept->outputs);
    if (results == NULL) return NULL;
    for (Py_ssize_t k = 0; k < kept->outputs; k++) {
        const kept_output *output = &kept->output[k];
        void *data = NULL;
        PyObject *made =
            memory_new(state, &like, output->type, output->dimensions, output->shape, &data);
        if (made == NULL) {
            Py_DECREF(results);
            return NULL;
        }
        PyTuple_SetItem(results, 1 + k, made);
        if (output->field != NULL) *output->field = data;
    }
    return results;
}

PyObject *native_run(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    const native_state *state = PyModule_GetState(module);
    kept_call *kept = count > 1 ? PyCapsule_GetPointer(arguments[0], kept_name) : NULL;
    if (kept == NULL || count != 1 + kept->inputs) {
        if (PyErr_Occurred()) return NULL;
        return PyErr_Format(PyExc_TypeError, "wanted a kept call and its arrays");
    }
    const int ready = put_inputs(state, kept, arguments + 1);
    if (ready < 0) kept->bound_now = 0;
    if (ready < 0) return NULL;
    if (!ready) Py_RETURN_NONE;
    PyObject *results = new_results(state, kept, arguments[1]);
    if (results == NULL) return NULL;
    PyObject *status = PyLong_FromLong(ask_unlocked(kept, 0));
    if (status == NULL) {
        Py_DECREF(results);
        return NULL;
    }
    PyTuple_SetItem(results, 0, status);
    return results;
}

/* Puts the addresses of arrays and results in place; -1 with an exception. The plan is then bound to none of them. */
static int put_all(const native_state *state, kept_call *kept, PyObject *const *arrays) {
    kept->bound_now = 0;
    for (Py_ssize_t k = 0; k < kept->inputs + kept->outputs; k++) {
        void *data = NULL;
        if (!memory_address(state, arrays[k], &data)) return -1;
        void **field = k < kept->inputs ? kept->fields[k] : kept->output[k - kept->inputs].field;
        if (field != NULL) *field = data;
    }
    return 0;
}

static ota_status certify(const kept_call *kept, ota_certificate *found) {
    return ota_certify(kept->problem, kept->options, kept->arrays, found, NULL, kept->error);
}

PyObject *native_judge(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    const native_state *state = PyModule_GetState(module);
    kept_call *kept = count > 0 ? PyCapsule_GetPointer(arguments[0], kept_name) : NULL;
    if (kept == NULL || (count != 1 && count != 1 + kept->inputs + kept->outputs)) {
        if (PyErr_Occurred()) return NULL;
        return PyErr_Format(PyExc_TypeError, "wanted a kept call and all of its arrays, or none");
    }
    if (count > 1 && put_all(state, kept, arguments + 1) < 0) return NULL;
    ota_certificate found = {.size = sizeof found};
    ota_status status;
    if (kept->alone) {
        status = certify(kept, &found);
    } else {
        Py_BEGIN_ALLOW_THREADS status = certify(kept, &found);
        Py_END_ALLOW_THREADS
    }
    return Py_BuildValue("idddddddddddddLL", (int)status, found.row_error, found.column_error,
                         found.primal, found.dual, found.gap, found.value, found.entropy,
                         found.support, found.receiver_max, found.receiver_min, found.delta,
                         found.minimum, found.outside, (long long)found.empty_rows,
                         (long long)found.nonfinite_rows);
}
