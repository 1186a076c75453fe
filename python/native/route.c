/* Tokens to experts without ctypes (otattn_route.h): one call of a router that is kept from call to call.
 *
 *     route(logits, k, capacity, bounds, method, potentials, tolerance, rounds, certificate, threads)
 *         -> (experts, weights, potentials, load, kept, value, bound, excess, rounds, converged) | None
 *
 *     pick(plan, chosen, kept, weights)           into the weights of a choice that route made, [tokens, k]: the entries of a
 *                                                 plan [tokens, experts] of their type at its experts; 0 where not kept
 *
 * Logits are a NumPy array or a tensor [tokens, experts] in f64 or f32 with the experts of a token side by side, potentials None
 * or f64 of either kind, capacity and bounds None or whole numbers. The arrays that come back are of the kind of the logits.
 * What is anything else, or wrong, is None: the package goes the longer way, which says why. */
#include "native.h"

#include <math.h>

#include "otattn_route.h"

enum {
    LOGITS,
    TAKE,
    CAPACITY,
    BOUNDS,
    METHOD,
    POTENTIALS,
    TOLERANCE,
    ROUNDS,
    CERTIFICATE,
    THREADS,
    ARGUMENTS
};

/* Pairs from which on other threads of the interpreter may run meanwhile. */
enum { RELEASE_FROM = 1 << 12 };

enum { CHOSEN, WEIGHTS, BIASES, LOADS, KEPT, ARRAYS };

typedef struct call {
    array_memory logits;
    ota_routing problem;
    ota_routing_result result;
    int64_t *loads; /* [2][experts] bounds, to be freed; NULL: none were given */
    double bound;
    int threads;
    PyObject *made[ARRAYS];
} call;

/* A whole number of at least `least`; 0: it is none. */
static int read_whole(PyObject *object, int64_t least, int64_t *to) {
    if (!PyLong_CheckExact(object)) return 0;
    *to = PyLong_AsLongLong(object);
    return *to >= least;
}

static int read_logits(const native_state *state, PyObject *object, call *x) {
    array_memory *m = &x->logits;
    if (!memory_of(state, object, m) || m->dimensions != 2) return 0;
    const int wide = memory_is(m, OTA_F64);
    if (!wide && !memory_is(m, OTA_F32)) return 0;
    if (m->shape[1] > 1 && m->strides[1] != 1) return 0;
    x->problem.logits =
        ota_array_of(m->data, wide ? OTA_F64 : OTA_F32, 1, 1, m->shape[0], m->shape[1]);
    x->problem.logits.stride[2] = m->strides[0];
    return m->shape[0] > 0 && m->shape[1] > 0;
}

/* Bounds of every expert, the same ones. */
static int read_bounds(PyObject *capacity, PyObject *bounds, call *x) {
    int64_t lower = 0, upper = 0;
    if (capacity == Py_None && bounds == Py_None) return 1;
    if (bounds == Py_None) {
        if (!read_whole(capacity, 0, &upper)) return 0;
    } else {
        if (capacity != Py_None || !PyTuple_CheckExact(bounds) || PyTuple_Size(bounds) != 2)
            return 0;
        if (!read_whole(PyTuple_GetItem(bounds, 0), 0, &lower)) return 0;
        if (!read_whole(PyTuple_GetItem(bounds, 1), 0, &upper)) return 0;
    }
    const int64_t experts = x->logits.shape[1];
    if ((size_t)experts > PY_SSIZE_T_MAX / (2 * sizeof *x->loads)) return 0;
    x->loads = PyMem_Malloc(2 * (size_t)experts * sizeof *x->loads);
    if (x->loads == NULL) return 0;
    for (int64_t j = 0; j < experts; j++) {
        x->loads[j] = lower;
        x->loads[experts + j] = upper;
    }
    x->problem.lower = x->loads;
    x->problem.upper = x->loads + experts;
    return 1;
}

static int read_start(const native_state *state, PyObject *object, call *x) {
    array_memory m;
    if (object == Py_None) return 1;
    if (!memory_of(state, object, &m) || !memory_is(&m, OTA_F64) || m.dimensions != 1) return 0;
    if (m.shape[0] != x->logits.shape[1] || (m.shape[0] > 1 && m.strides[0] != 1)) return 0;
    x->problem.start = m.data;
    return 1;
}

static int read_call(const native_state *state, PyObject *const *arguments, call *x) {
    ota_routing *p = &x->problem;
    int64_t method = 0;
    if (!read_logits(state, arguments[LOGITS], x)) return 0;
    if (!read_whole(arguments[TAKE], 1, &p->take) || p->take > x->logits.shape[1]) return 0;
    if (!read_whole(arguments[METHOD], 0, &method)) return 0;
    p->method = (ota_route_method)method;
    if (!PyFloat_CheckExact(arguments[TOLERANCE])) return 0;
    p->tolerance = PyFloat_AsDouble(arguments[TOLERANCE]);
    if (!(p->tolerance > 0.0) || isinf(p->tolerance)) return 0;
    if (arguments[ROUNDS] != Py_None && !read_whole(arguments[ROUNDS], 1, &p->rounds)) return 0;
    if (!read_start(state, arguments[POTENTIALS], x)) return 0;
    x->threads = (int)PyLong_AsLong(arguments[THREADS]);
    const int certified = PyObject_IsTrue(arguments[CERTIFICATE]);
    x->bound = NAN;
    x->result.bound = certified > 0 ? &x->bound : NULL;
    if (certified < 0 || PyErr_Occurred() != NULL) return 0;
    return read_bounds(arguments[CAPACITY], arguments[BOUNDS], x);
}

/* The arrays of the answer; 0 with an exception. */
static int make_arrays(const native_state *state, call *x) {
    const array_memory *like = &x->logits;
    const int64_t choices[2] = {like->shape[0], x->problem.take}, experts = like->shape[1];
    const struct {
        int type, dimensions;
        const int64_t *shape;
    } wanted[ARRAYS] = {[CHOSEN] = {MEMORY_INT64, 2, choices},
                        [WEIGHTS] = {0, 2, choices},
                        [BIASES] = {OTA_F64, 1, &experts},
                        [LOADS] = {MEMORY_INT64, 1, &experts},
                        [KEPT] = {MEMORY_BOOL, 2, choices}};
    void *data[ARRAYS];
    for (int k = 0; k < ARRAYS; k++) {
        x->made[k] = memory_new(state, like, wanted[k].type, wanted[k].dimensions, wanted[k].shape,
                                &data[k]);
        if (x->made[k] == NULL) return 0;
    }
    x->result.chosen = data[CHOSEN];
    x->result.weights = data[WEIGHTS];
    x->result.potentials = data[BIASES];
    x->result.loads = data[LOADS];
    x->result.kept = data[KEPT];
    return 1;
}

/* The router that is kept, if it has as many threads, or a new one; NULL: none can be had. */
static ota_router *borrow(native_state *state, int threads) {
    ota_router *own = state->router;
    state->router = NULL;
    if (own != NULL && state->router_threads == threads) return own;
    ota_router_free(own);
    const ota_options options = {
        .size = sizeof options, .threads = threads, .cancel = native_cancel()};
    return ota_router_create(&own, &options, NULL) < 0 ? NULL : own;
}

void native_keep_router(native_state *state, ota_router *own, int threads) {
    ota_router *other = state->router;
    state->router = own;
    state->router_threads = threads;
    ota_router_free(other);
}

static ota_status route_unlocked(ota_router *own, call *x) {
    const int64_t pairs = x->logits.shape[0] * x->logits.shape[1];
    if (pairs < RELEASE_FROM) return ota_router_route(own, &x->problem, &x->result, NULL);
    ota_status status;
    NATIVE_UNLOCKED(status, ota_router_route(own, &x->problem, &x->result, NULL));
    return status;
}

/* Without bounds of the caller nothing is dropped: all are kept, whatever the loads. */
static ota_status solve(native_state *state, call *x) {
    uint8_t *kept = x->result.kept;
    if (x->loads == NULL) x->result.kept = NULL;
    ota_router *own = borrow(state, x->threads);
    if (own == NULL) return OTA_ENOMEM;
    const ota_status status = route_unlocked(own, x);
    native_keep_router(state, own, x->threads);
    const int64_t choices = x->logits.shape[0] * x->problem.take;
    for (int64_t k = 0; x->loads == NULL && k < choices; k++) kept[k] = 1;
    return status;
}

static PyObject *answer(const call *x) {
    const ota_routing_result *r = &x->result;
    return Py_BuildValue("OOOOOddLLO", x->made[CHOSEN], x->made[WEIGHTS], x->made[BIASES],
                         x->made[LOADS], x->made[KEPT], r->value, x->bound, (long long)r->excess,
                         (long long)r->rounds, r->converged != 0 ? Py_True : Py_False);
}

PyObject *native_route(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    native_state *state = PyModule_GetState(module);
    call x = {.problem = {.size = sizeof x.problem}, .result = {.size = sizeof x.result}};
    PyObject *found = NULL;
    if (count == ARGUMENTS && read_call(state, arguments, &x)) {
        const ota_status status = make_arrays(state, &x) ? solve(state, &x) : OTA_ENOMEM;
        if (PyErr_Occurred() == NULL) found = status >= 0 ? answer(&x) : Py_NewRef(Py_None);
    } else {
        PyErr_Clear();
        found = Py_NewRef(Py_None);
    }
    for (int k = 0; k < ARRAYS; k++) Py_XDECREF(x.made[k]);
    PyMem_Free(x.loads);
    return found;
}

PyObject *native_pick(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    const native_state *state = PyModule_GetState(module);
    array_memory plan, chosen, kept, weights;
    if (count != 4 || !memory_of(state, arguments[0], &plan) ||
        !memory_of(state, arguments[1], &chosen) || !memory_of(state, arguments[2], &kept) ||
        !memory_of(state, arguments[3], &weights) || plan.dimensions != 2 ||
        chosen.dimensions != 2 || weights.type != plan.type)
        return PyErr_Format(PyExc_TypeError, "wanted a plan and a choice that route made");
    const int wide = memory_is(&plan, OTA_F64);
    const int64_t take = chosen.shape[1];
    for (int64_t at = 0; at < chosen.shape[0] * take; at++) {
        const int64_t from =
            at / take * plan.strides[0] + ((const int64_t *)chosen.data)[at] * plan.strides[1];
        const int stays = ((const uint8_t *)kept.data)[at];
        if (wide)
            ((double *)weights.data)[at] = stays ? ((const double *)plan.data)[from] : 0.0;
        else
            ((float *)weights.data)[at] = stays ? ((const float *)plan.data)[from] : 0.0F;
    }
    Py_RETURN_NONE;
}
