/* transport.c: numbers of a transport plan, in one call where NumPy and torch take a dozen.
 *
 *     sums(plan, M, a, b) -> six numbers | None   <P, M>, sum P log P, sum P, KL(P | a b^T), KL(P1 | a), KL(P^T 1 | b), where
 *                                                 KL(x | y) = sum x log(x / y) - x + y
 *     hold(M, a, b, plan) -> held | None          their numbers in memory of its own
 *     rest(kept, held, f, g, reg, rows, columns, relative) -> (f, g, value, linear, numbers)
 *                                                 of a problem that was solved by a kept call (kept.c): its potentials, without
 *                                                 the masses where both sides are exact and the entropy is `relative` to
 *                                                 a b^T; its value with penalties of these strengths (inf: exact) and
 *                                                 <P, M>, of M's kind and type; and the numbers of the certificate
 *     linear(plan, M) -> scalar | None            <P, M> alone, of M's kind and type
 *     scalings(f, g, reg, own) -> four | None     f / reg, g / reg (own: in their place) and their exponentials
 *     divided(f, g, reg) -> f, g                  f / reg, g / reg in their place
 *     apart(f, g, a, b, reg) -> two | None        f - reg log a, g - reg log b
 *     centred(u, v, own) -> two | None            u - s, v + s (own: in their place) with s = (mean u - mean v) / 2
 *     against(M, a, b, reg) -> array | None       M_ij - reg log a_i - reg log b_j, of M's type
 *     scalars(like, x, ...) -> tuple | None       numbers as scalars of the kind and type of `like`
 *
 * Shapes: plan, M [n, m], a, f, u [n], b, g, v [m], all in f64 or f32 of any strides; masses are positive. Sums are taken in
 * f64 whatever the type. Potentials come back in f64, as they are given. None: arrays that are not like this. */
#include "native.h"

#include <math.h>

enum { UNLOCKED_FROM = 1 << 12 };

typedef struct numbers {
    array_memory memory;
    int wide;
} numbers;

/* Reads f64 or f32 of so many dimensions; false, without an exception, for all else. */
static int numbers_of(const native_state *state, PyObject *object, int dimensions, numbers *x) {
    if (!memory_of(state, object, &x->memory) || x->memory.dimensions != dimensions) return 0;
    x->wide = memory_is(&x->memory, OTA_F64);
    return x->wide || memory_is(&x->memory, OTA_F32);
}

static double at(const numbers *x, int64_t place) {
    return x->wide ? ((const double *)x->memory.data)[place]
                   : (double)((const float *)x->memory.data)[place];
}

static double at1(const numbers *x, int64_t i) { return at(x, i * x->memory.strides[0]); }

static double at2(const numbers *x, int64_t i, int64_t j) {
    return at(x, i * x->memory.strides[0] + j * x->memory.strides[1]);
}

/* Do the lengths of the vectors fit the matrix? */
static int vectors_fit(const numbers *matrix, const numbers *rows, const numbers *columns) {
    return rows->memory.shape[0] == matrix->memory.shape[0] &&
           columns->memory.shape[0] == matrix->memory.shape[1];
}

/* What a pair adds to <P, M>: nothing where it carries nothing, though its cost be inf. */
static double share(double weight, double cost) { return weight != 0.0 ? weight * cost : 0.0; }

static double divergence(double x, double y) { return (x > 0.0 ? x * log(x / y) : 0.0) - x + y; }

typedef struct plan_sums {
    double linear, entropy, mass, relative, rows, columns;
} plan_sums;

/* Has Ctrl-C ended the call? */
static int is_ended(void) { return __atomic_load_n(native_cancel(), __ATOMIC_RELAXED) != 0; }

/* `scratch`: the sums of the columns and, behind them, the logarithms of b. */
static ota_status sum_plan(const numbers *plan, const numbers *cost, const numbers *a,
                           const numbers *b, double *scratch, int looks, plan_sums *sums) {
    const int64_t n = plan->memory.shape[0], m = plan->memory.shape[1];
    double *column_sums = scratch, *logarithms = scratch + m;
    *sums = (plan_sums){0};
    for (int64_t j = 0; j < m; j++) column_sums[j] = 0.0;
    for (int64_t j = 0; j < m; j++) logarithms[j] = log(at1(b, j));
    for (int64_t i = 0; i < n; i++) {
        if (looks && is_ended()) return OTA_CANCELLED;
        const double mass = at1(a, i), logarithm = log(mass);
        double row = 0.0;
        for (int64_t j = 0; j < m; j++) {
            const double p = at2(plan, i, j);
            const double own = p > 0.0 ? p * log(p) : 0.0;
            sums->linear += share(p, at2(cost, i, j));
            sums->entropy += own;
            sums->relative += own - p * (logarithm + logarithms[j]) - p + mass * at1(b, j);
            row += p;
            column_sums[j] += p;
        }
        sums->mass += row;
        sums->rows += divergence(row, mass);
    }
    for (int64_t j = 0; j < m; j++) sums->columns += divergence(column_sums[j], at1(b, j));
    return OTA_OK;
}

/* 0 with an exception. Few numbers are not worth letting the interpreter's lock go, without which the flag may be another
 * thread's. */
static int sum_unlocked(const numbers *plan, const numbers *cost, const numbers *a,
                        const numbers *b, double *scratch, plan_sums *sums) {
    ota_status status;
    if (plan->memory.shape[0] * plan->memory.shape[1] < UNLOCKED_FROM) {
        status = sum_plan(plan, cost, a, b, scratch, 0, sums);
    } else {
        NATIVE_UNLOCKED(status, sum_plan(plan, cost, a, b, scratch, 1, sums));
    }
    return status == OTA_OK;
}

PyObject *native_sums(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    const native_state *state = PyModule_GetState(module);
    numbers plan, cost, a, b;
    if (count != 4 || !numbers_of(state, arguments[0], 2, &plan) ||
        !numbers_of(state, arguments[1], 2, &cost) || !numbers_of(state, arguments[2], 1, &a) ||
        !numbers_of(state, arguments[3], 1, &b) || !vectors_fit(&plan, &a, &b) ||
        !vectors_fit(&cost, &a, &b))
        Py_RETURN_NONE;
    double *scratch = PyMem_Calloc((size_t)plan.memory.shape[1] + 1, 2 * sizeof *scratch);
    if (scratch == NULL) return PyErr_NoMemory();
    plan_sums sums = {0};
    const int summed = sum_unlocked(&plan, &cost, &a, &b, scratch, &sums);
    PyMem_Free(scratch);
    if (!summed) return NULL;
    return Py_BuildValue("dddddd", sums.linear, sums.entropy, sums.mass, sums.relative, sums.rows,
                         sums.columns);
}

/* A new vector of f64 of the kind and length of x, set into the tuple; NULL with an exception. */
static double *vector_like(const native_state *state, const numbers *x, PyObject *results,
                           Py_ssize_t place) {
    void *data = NULL;
    PyObject *made = memory_new(state, &x->memory, OTA_F64, 1, x->memory.shape, &data);
    if (made != NULL) PyTuple_SetItem(results, place, made);
    return made == NULL ? NULL : data;
}

/* The same, or x itself where it is the caller's own, which is f64. */
static double *vector_in_place(const native_state *state, const numbers *x, PyObject *own,
                               PyObject *results, Py_ssize_t place) {
    if (own == NULL || !x->wide || (x->memory.shape[0] > 1 && x->memory.strides[0] != 1))
        return vector_like(state, x, results, place);
    PyTuple_SetItem(results, place, Py_NewRef(own));
    return x->memory.data;
}

static int read_number(PyObject *object, double *value) {
    *value = PyFloat_AsDouble(object);
    return !(*value == -1.0 && PyErr_Occurred());
}

PyObject *native_scalings(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    const native_state *state = PyModule_GetState(module);
    numbers x[2];
    double reg = 0.0;
    if (count != 4 || !numbers_of(state, arguments[0], 1, &x[0]) ||
        !numbers_of(state, arguments[1], 1, &x[1]))
        Py_RETURN_NONE;
    if (!read_number(arguments[2], &reg)) return NULL;
    PyObject *results = PyTuple_New(4);
    for (int side = 0; results != NULL && side < 2; side++) {
        PyObject *own = arguments[3] == Py_True ? arguments[side] : NULL;
        double *logarithm = vector_in_place(state, &x[side], own, results, side);
        double *scaling =
            logarithm == NULL ? NULL : vector_like(state, &x[side], results, 2 + side);
        if (scaling == NULL) {
            Py_DECREF(results);
            return NULL;
        }
        for (int64_t i = 0; i < x[side].memory.shape[0]; i++) {
            logarithm[i] = at1(&x[side], i) / reg;
            scaling[i] = exp(logarithm[i]);
        }
    }
    return results;
}

PyObject *native_divided(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    const native_state *state = PyModule_GetState(module);
    numbers x;
    double by = 0.0;
    if (count != 3) return PyErr_Format(PyExc_TypeError, "wanted two vectors and a number");
    if (!read_number(arguments[2], &by)) return NULL;
    for (int side = 0; side < 2; side++) {
        if (!numbers_of(state, arguments[side], 1, &x) || !x.wide)
            return PyErr_Format(PyExc_TypeError, "wanted vectors of f64");
        double *f = x.memory.data;
        for (int64_t i = 0; i < x.memory.shape[0]; i++) f[i * x.memory.strides[0]] /= by;
    }
    return PyTuple_Pack(2, arguments[0], arguments[1]);
}

/* Two vectors of f64, each a number less: reg times the logarithms of masses, or one shift where there are none. */
static PyObject *shifted(const native_state *state, const numbers x[2], PyObject *const *own,
                         const numbers *masses, double reg, const double shift[2]) {
    PyObject *results = PyTuple_New(2);
    for (int side = 0; results != NULL && side < 2; side++) {
        double *found =
            vector_in_place(state, &x[side], own == NULL ? NULL : own[side], results, side);
        if (found == NULL) {
            Py_DECREF(results);
            return NULL;
        }
        for (int64_t i = 0; i < x[side].memory.shape[0]; i++)
            found[i] = at1(&x[side], i) -
                       (masses == NULL ? shift[side] : reg * log(at1(&masses[side], i)));
    }
    return results;
}

PyObject *native_apart(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    const native_state *state = PyModule_GetState(module);
    numbers x[4];
    double reg = 0.0;
    if (count != 5) Py_RETURN_NONE;
    for (int k = 0; k < 4; k++)
        if (!numbers_of(state, arguments[k], 1, &x[k])) Py_RETURN_NONE;
    if (x[0].memory.shape[0] != x[2].memory.shape[0] ||
        x[1].memory.shape[0] != x[3].memory.shape[0])
        Py_RETURN_NONE;
    if (!read_number(arguments[4], &reg)) return NULL;
    return shifted(state, x, NULL, x + 2, reg, NULL);
}

PyObject *native_centred(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    const native_state *state = PyModule_GetState(module);
    numbers x[2];
    double mean[2] = {0.0, 0.0};
    if (count != 3) Py_RETURN_NONE;
    for (int side = 0; side < 2; side++) {
        if (!numbers_of(state, arguments[side], 1, &x[side])) Py_RETURN_NONE;
        const int64_t length = x[side].memory.shape[0];
        for (int64_t i = 0; i < length; i++) mean[side] += at1(&x[side], i) / (double)length;
    }
    const double half = (mean[0] - mean[1]) / 2.0;
    PyObject *const *own = arguments[2] == Py_True ? arguments : NULL;
    return shifted(state, x, own, NULL, 0.0, (const double[2]){half, -half});
}

/* M_ij - reg log a_i - reg log b_j into dense memory of M's type; `logarithms` is scratch [m]. */
static void subtract_masses(const numbers *cost, const numbers *a, const numbers *b, double reg,
                            double *logarithms, void *data) {
    const int64_t n = cost->memory.shape[0], m = cost->memory.shape[1];
    for (int64_t j = 0; j < m; j++) logarithms[j] = reg * log(at1(b, j));
    for (int64_t i = 0; i < n; i++) {
        const double row = reg * log(at1(a, i));
        for (int64_t j = 0; j < m; j++) {
            const double found = at2(cost, i, j) - row - logarithms[j];
            if (cost->wide)
                ((double *)data)[i * m + j] = found;
            else
                ((float *)data)[i * m + j] = (float)found;
        }
    }
}

PyObject *native_against(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    const native_state *state = PyModule_GetState(module);
    numbers cost, a, b;
    double reg = 0.0;
    if (count != 4 || !numbers_of(state, arguments[0], 2, &cost) ||
        !numbers_of(state, arguments[1], 1, &a) || !numbers_of(state, arguments[2], 1, &b) ||
        !vectors_fit(&cost, &a, &b))
        Py_RETURN_NONE;
    if (!read_number(arguments[3], &reg)) return NULL;
    double *logarithms = PyMem_Calloc((size_t)cost.memory.shape[1] + 1, sizeof *logarithms);
    if (logarithms == NULL) return PyErr_NoMemory();
    void *data = NULL;
    PyObject *made = memory_new(state, &cost.memory, 0, 2, cost.memory.shape, &data);
    if (made != NULL) subtract_masses(&cost, &a, &b, reg, logarithms, data);
    PyMem_Free(logarithms);
    return made;
}

/* A number as a scalar of this kind and type; NULL with an exception. */
static PyObject *scalar_like(const native_state *state, const array_memory *like, double value) {
    void *data = NULL;
    PyObject *made = memory_new(state, like, 0, 0, NULL, &data);
    if (made == NULL) return NULL;
    if (memory_is(like, OTA_F64))
        *(double *)data = value;
    else
        *(float *)data = (float)value;
    return like->kind == MEMORY_NUMPY ? PyArray_Return((PyArrayObject *)made) : made;
}

static ota_status sum_costs(const numbers *plan, const numbers *cost, int looks, double *sum) {
    *sum = 0.0;
    for (int64_t i = 0; i < plan->memory.shape[0]; i++) {
        if (looks && is_ended()) return OTA_CANCELLED;
        for (int64_t j = 0; j < plan->memory.shape[1]; j++)
            *sum += share(at2(plan, i, j), at2(cost, i, j));
    }
    return OTA_OK;
}

PyObject *native_linear(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    const native_state *state = PyModule_GetState(module);
    numbers plan, cost;
    if (count != 2 || !numbers_of(state, arguments[0], 2, &plan) ||
        !numbers_of(state, arguments[1], 2, &cost) ||
        plan.memory.shape[0] != cost.memory.shape[0] ||
        plan.memory.shape[1] != cost.memory.shape[1])
        Py_RETURN_NONE;
    double sum;
    ota_status status;
    if (plan.memory.shape[0] * plan.memory.shape[1] < UNLOCKED_FROM) {
        status = sum_costs(&plan, &cost, 0, &sum);
    } else {
        NATIVE_UNLOCKED(status, sum_costs(&plan, &cost, 1, &sum));
    }
    return status == OTA_OK ? scalar_like(state, &cost.memory, sum) : NULL;
}

PyObject *native_scalars(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    const native_state *state = PyModule_GetState(module);
    array_memory like;
    if (count < 1 || !memory_of(state, arguments[0], &like) ||
        !(memory_is(&like, OTA_F64) || memory_is(&like, OTA_F32)))
        Py_RETURN_NONE;
    PyObject *results = PyTuple_New(count - 1);
    for (Py_ssize_t k = 0; results != NULL && k < count - 1; k++) {
        double value = 0.0;
        PyObject *made = NULL;
        if (read_number(arguments[1 + k], &value)) made = scalar_like(state, &like, value);
        if (made == NULL) {
            Py_DECREF(results);
            return NULL;
        }
        PyTuple_SetItem(results, k, made);
    }
    return results;
}

/* ---- a solved problem whose numbers are asked for later --------------------------------------- */

enum { HELD_COST, HELD_ROWS, HELD_COLUMNS, HELD_PLAN, HELD };

/* Dense numbers behind the struct, in one block; `kind` of the cost is the caller's. */
typedef struct held_problem {
    numbers x[HELD];
} held_problem;

static const char held_name[] = "otattn.held";

static void free_held(PyObject *capsule) { PyMem_Free(PyCapsule_GetPointer(capsule, held_name)); }

static size_t size_of(const numbers *x) { return x->wide ? sizeof(double) : sizeof(float); }

static size_t count_of(const numbers *x) {
    return (size_t)x->memory.shape[0] *
           (x->memory.dimensions == 2 ? (size_t)x->memory.shape[1] : 1);
}

/* Copies the numbers and makes x tell of the copy; where the next ones go. */
static char *hold_numbers(numbers *x, char *to) {
    memory_copy(&x->memory, size_of(x), to);
    x->memory.data = to;
    x->memory.strides[0] = x->memory.dimensions == 2 ? x->memory.shape[1] : 1;
    x->memory.strides[1] = 1;
    return to + (count_of(x) * size_of(x) + sizeof(double) - 1) / sizeof(double) * sizeof(double);
}

PyObject *native_hold(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    const native_state *state = PyModule_GetState(module);
    held_problem problem;
    if (count != HELD) Py_RETURN_NONE;
    for (int k = 0; k < HELD; k++) {
        const int dimensions = k == HELD_COST || k == HELD_PLAN ? 2 : 1;
        if (!numbers_of(state, arguments[k], dimensions, &problem.x[k])) Py_RETURN_NONE;
    }
    numbers *x = problem.x;
    if (!vectors_fit(&x[HELD_COST], &x[HELD_ROWS], &x[HELD_COLUMNS]) ||
        !vectors_fit(&x[HELD_PLAN], &x[HELD_ROWS], &x[HELD_COLUMNS]))
        Py_RETURN_NONE;
    size_t bytes = sizeof problem;
    for (int k = 0; k < HELD; k++) bytes += (count_of(&x[k]) + 1) * sizeof(double);
    held_problem *held = PyMem_Malloc(bytes);
    if (held == NULL) return PyErr_NoMemory();
    *held = problem;
    char *to = (char *)(held + 1);
    for (int k = 0; k < HELD; k++) to = hold_numbers(&held->x[k], to);
    PyObject *capsule = PyCapsule_New(held, held_name, free_held);
    if (capsule == NULL) PyMem_Free(held);
    return capsule;
}

typedef struct rest_call {
    const held_problem *held;
    numbers potentials[2];
    double reg, strength[2];
    int relative, exact; /* are both sides exact? */
} rest_call;

static double value_of(const rest_call *r, const plan_sums *sums) {
    double value = sums->linear + r->reg * (r->relative ? sums->relative
                                            : r->exact  ? sums->entropy
                                                        : sums->entropy - sums->mass);
    if (isfinite(r->strength[0])) value += r->strength[0] * sums->rows;
    if (isfinite(r->strength[1])) value += r->strength[1] * sums->columns;
    return value;
}

/* The numbers of the certificate; with relaxed sums the reference a b^T is a part of the cost. */
static PyObject *judged_rest(const rest_call *r, PyObject *kept, double *scratch) {
    const numbers *x = r->held->x;
    const void *masses[2] = {x[HELD_ROWS].memory.data, x[HELD_COLUMNS].memory.data};
    const void *potentials[2] = {r->potentials[0].memory.data, r->potentials[1].memory.data};
    const void *cost = x[HELD_COST].memory.data;
    void *other = NULL;
    if (r->relative && !r->exact) {
        other = PyMem_Calloc(count_of(&x[HELD_COST]) + 1, sizeof(double));
        if (other == NULL) return PyErr_NoMemory();
        subtract_masses(&x[HELD_COST], &x[HELD_ROWS], &x[HELD_COLUMNS], r->reg, scratch, other);
        cost = other;
    }
    PyObject *found = kept_certificate(kept, cost, masses, x[HELD_PLAN].memory.data, potentials);
    PyMem_Free(other);
    return found;
}

/* Sets what a function made, if it made it; 0 with an exception. */
static int put_made(PyObject *results, Py_ssize_t place, PyObject *made) {
    if (made != NULL) PyTuple_SetItem(results, place, made);
    return made != NULL;
}

static PyObject *all_of_rest(const native_state *state, const rest_call *r, PyObject *kept,
                             double *scratch, PyObject *const own[2]) {
    const numbers *x = r->held->x;
    plan_sums sums = {0};
    if (!sum_unlocked(&x[HELD_PLAN], &x[HELD_COST], &x[HELD_ROWS], &x[HELD_COLUMNS], scratch,
                      &sums))
        return NULL;
    PyObject *results = PyTuple_New(5);
    const array_memory *like = &x[HELD_COST].memory;
    /* The judge reads the potentials before they change. */
    int made = results != NULL && put_made(results, 4, judged_rest(r, kept, scratch)) &&
               put_made(results, 2, scalar_like(state, like, value_of(r, &sums))) &&
               put_made(results, 3, scalar_like(state, like, sums.linear));
    for (int side = 0; made && side < 2; side++) {
        const numbers *f = &r->potentials[side], *mass = &x[HELD_ROWS + side];
        PyTuple_SetItem(results, side, Py_NewRef(own[side]));
        for (int64_t i = 0; r->relative && r->exact && i < f->memory.shape[0]; i++)
            ((double *)f->memory.data)[i] -= r->reg * log(at1(mass, i));
    }
    if (made) return results;
    Py_XDECREF(results);
    return NULL;
}

PyObject *native_rest(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    const native_state *state = PyModule_GetState(module);
    rest_call r = {0};
    if (count != 8) return PyErr_Format(PyExc_TypeError, "wanted eight arguments");
    r.held = PyCapsule_GetPointer(arguments[1], held_name);
    if (r.held == NULL || !read_number(arguments[4], &r.reg)) return NULL;
    for (int side = 0; side < 2; side++) {
        numbers *f = &r.potentials[side];
        if (!numbers_of(state, arguments[2 + side], 1, f) || !f->wide ||
            f->memory.shape[0] != r.held->x[HELD_ROWS + side].memory.shape[0])
            return PyErr_Format(PyExc_TypeError, "wanted the potentials of the solve");
        if (!read_number(arguments[5 + side], &r.strength[side])) return NULL;
    }
    r.relative = arguments[7] == Py_True;
    r.exact = isinf(r.strength[0]) && isinf(r.strength[1]);
    const size_t columns = (size_t)r.held->x[HELD_COST].memory.shape[1];
    double *scratch = PyMem_Calloc(columns + 1, 2 * sizeof *scratch);
    if (scratch == NULL) return PyErr_NoMemory();
    PyObject *found = all_of_rest(state, &r, arguments[0], scratch, arguments + 2);
    PyMem_Free(scratch);
    return found;
}
