/* Small doubly stochastic matrices (otattn_normalize.h) of NumPy arrays and of tensors in one call.
 *
 *     normalize(recipe, scores, threads) -> (status, plan) | (status, error) | None
 *     normalize_gradients(recipe, saved, plan_grad, threads) -> the same with the gradients of the scores; `saved` are
 *                                                               the scores or, for implicit gradients, the plan
 *
 * The recipe is a tuple of order, rounds, eps, tolerance and implicit; arrays are dense [..., n, n] in f64 or f32, and what comes
 * back is of their kind and type; error, behind a negative status, the bytes of ota_error. None: arrays that are not like this. */
#include "native.h"

#include "otattn_normalize.h"

enum { SIDE_MOST = 128, RECIPE = 5 };

/* Numbers times rounds from which on other threads of the interpreter may run meanwhile. */
enum { RELEASE_FROM = 1 << 14 };

/* A dense array in f64 or f32; false, without an exception, for all else. */
static int read_dense(const native_state *state, PyObject *object, array_memory *x) {
    if (!memory_of(state, object, x) || x->dimensions < 2) return 0;
    if (!memory_is(x, OTA_F64) && !memory_is(x, OTA_F32)) return 0;
    for (int k = 0; k < x->dimensions; k++)
        if (x->shape[k] == 0) return 1;
    int64_t dense = 1;
    for (int k = x->dimensions - 1; k >= 0; k--) {
        if (x->shape[k] != 1 && x->strides[k] != dense) return 0;
        dense *= x->shape[k];
    }
    return 1;
}

/* 0 with an exception. */
static int read_recipe(PyObject *recipe, PyObject *threads, ota_normalization *problem) {
    if (!PyTuple_Check(recipe) || PyTuple_Size(recipe) != RECIPE) {
        PyErr_SetString(PyExc_TypeError, "wanted a recipe");
        return 0;
    }
    problem->order = (ota_normalize_order)PyLong_AsLong(PyTuple_GetItem(recipe, 0));
    problem->rounds = PyLong_AsLongLong(PyTuple_GetItem(recipe, 1));
    problem->eps = PyFloat_AsDouble(PyTuple_GetItem(recipe, 2));
    problem->tolerance = PyFloat_AsDouble(PyTuple_GetItem(recipe, 3));
    problem->implicit = (int)PyLong_AsLong(PyTuple_GetItem(recipe, 4));
    problem->threads = (int)PyLong_AsLong(threads);
    return PyErr_Occurred() == NULL;
}

/* Of how many matrices; false: no side that is served. */
static int read_shape(const array_memory *x, ota_normalization *problem) {
    const int last = x->dimensions - 1;
    const int64_t side = x->shape[last];
    if (side != x->shape[last - 1] || side < 1 || side > SIDE_MOST) return 0;
    problem->type = memory_is(x, OTA_F64) ? OTA_F64 : OTA_F32;
    problem->side = side;
    problem->count = 1;
    for (int k = 0; k < last - 1; k++) problem->count *= x->shape[k];
    return 1;
}

static int is_short(const ota_normalization *problem) {
    const double rounds = problem->rounds > 0 ? (double)problem->rounds : 1.0;
    return rounds * (double)(problem->count * problem->side * problem->side) < (double)RELEASE_FROM;
}

static ota_status normalize_unlocked(ota_normalization *problem, const void *scores, void *plan,
                                     ota_error *error) {
    ota_status status;
    /* Who keeps the interpreter's lock is not cancelled: the flag may be another thread's. */
    if (is_short(problem)) return ota_normalize(problem, scores, plan, error);
    problem->cancel = native_cancel();
    NATIVE_UNLOCKED(status, ota_normalize(problem, scores, plan, error));
    return status;
}

/* What was made, or why it was not; NULL with an exception. Takes `made`. */
static PyObject *answer_of(ota_status status, PyObject *made, const ota_error *error) {
    if (PyErr_Occurred() == NULL && status >= 0) return Py_BuildValue("iN", (int)status, made);
    Py_DECREF(made);
    return native_status(status, error);
}

PyObject *native_normalize(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    const native_state *state = PyModule_GetState(module);
    ota_normalization problem = {.size = sizeof problem};
    array_memory x;
    void *plan = NULL;
    if (count != 3) return PyErr_Format(PyExc_TypeError, "wanted three arguments");
    if (!read_dense(state, arguments[1], &x) || !read_shape(&x, &problem)) Py_RETURN_NONE;
    if (!read_recipe(arguments[0], arguments[2], &problem)) return NULL;
    PyObject *made = memory_new(state, &x, 0, x.dimensions, x.shape, &plan);
    if (made == NULL) return NULL;
    ota_error error = {.field = ""};
    const ota_status status = normalize_unlocked(&problem, x.data, plan, &error);
    return answer_of(status, made, &error);
}

static int are_alike(const array_memory *a, const array_memory *b) {
    int alike = a->type == b->type && a->dimensions == b->dimensions;
    for (int k = 0; alike && k < a->dimensions; k++) alike = a->shape[k] == b->shape[k];
    return alike;
}

PyObject *native_normalize_gradients(PyObject *module, PyObject *const *arguments,
                                     Py_ssize_t count) {
    const native_state *state = PyModule_GetState(module);
    ota_normalization problem = {.size = sizeof problem, .cancel = native_cancel()};
    array_memory x, grad;
    void *to = NULL;
    if (count != 4) return PyErr_Format(PyExc_TypeError, "wanted four arguments");
    if (!read_dense(state, arguments[1], &x) || !read_dense(state, arguments[2], &grad) ||
        !are_alike(&x, &grad) || !read_shape(&x, &problem))
        Py_RETURN_NONE;
    if (!read_recipe(arguments[0], arguments[3], &problem)) return NULL;
    PyObject *made = memory_new(state, &x, 0, x.dimensions, x.shape, &to);
    if (made == NULL) return NULL;
    ota_error error = {.field = ""};
    ota_status status;
    NATIVE_UNLOCKED(status,
                    ota_normalize_backward(&problem, x.data, x.data, grad.data, to, &error));
    return answer_of(status, made, &error);
}
