/* matchings.c: the k cheapest matchings, and those whose dearest pair is cheapest, of one matrix, a stack or a list of them.
 *
 *     is_matrix(x) -> bool            an array of f64 or f32 that is read where it lies?
 *     ranked(costs, sizes, k, maximize, limit, certificate, threads)
 *         -> (rows, columns, value, bound | None, found) | (status, error)
 *     bottleneck(costs, sizes, maximize, limit, threads)
 *         -> (rows, columns, value, bound, marked_rows, marked_columns, covered_rows, covered_columns, pairs)
 *            | (status, error)
 *
 * costs: such an array, a matrix or a stack of them. Or a vector of matrices one behind the other, with sizes = (rows,
 * columns, offsets), vectors of whole numbers; outputs then lie one problem behind the other, too. Of one matrix alone,
 * numbers are Python's and arrays have as many matchings or pairs as there are. limit: inf is none. */
#include "native.h"

#include <math.h>

enum { RELEASE_FROM = 1 << 12, MOST_OUTPUTS = 9 };

/* What both structs begin with. */
typedef struct matrices {
    int stacked; /* whether outputs have [count] in front */
    int64_t count, rows, columns, strides[3];
    const int64_t *rows_of, *columns_of, *offsets; /* NULL but of a list */
    int64_t all_rows, all_columns, all_pairs;      /* of a list: sums */
    const void *costs;
    ota_type type;
    int maximize, threads;
    double limit;
} matrices;

#define OF_MATRICES(m, unlocked)                                                                   \
    .rows = (m)->rows, .columns = (m)->columns, .costs = (m)->costs, .type = (m)->type,            \
    .row_stride = (m)->strides[1], .column_stride = (m)->strides[2], .maximize = (m)->maximize,    \
    .count = (m)->count, .problem_stride = (m)->strides[0], .rows_of = (m)->rows_of,               \
    .columns_of = (m)->columns_of, .offsets = (m)->offsets, .limited = (m)->limit < INFINITY,      \
    .cost_limit = (m)->limit < INFINITY ? (m)->limit : 0.0, .threads = (m)->threads,               \
    .cancel = (unlocked) ? native_cancel() : NULL

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int is_read(const native_state *state, PyObject *object, array_memory *memory) {
    return PyArray_CheckExact(object) && memory_of(state, object, memory) &&
           (memory_is(memory, OTA_F64) || memory_is(memory, OTA_F32));
}

PyObject *native_is_matrix(PyObject *module, PyObject *object) {
    array_memory memory;
    return PyBool_FromLong(is_read(PyModule_GetState(module), object, &memory));
}

static int read_sizes(const native_state *state, PyObject *sizes, matrices *to) {
    const int64_t **const vectors[] = {&to->rows_of, &to->columns_of, &to->offsets};
    for (int k = 0; k < 3; k++) {
        PyObject *own = PyTuple_GetItem(sizes, k);
        array_memory memory;
        if (own == NULL || !memory_of(state, own, &memory) || memory.dimensions != 1) return 0;
        *vectors[k] = memory.data;
        to->count = memory.shape[0];
    }
    for (int64_t p = 0; p < to->count; p++) {
        to->all_rows += to->rows_of[p];
        to->all_columns += to->columns_of[p];
        to->all_pairs += least(to->rows_of[p], to->columns_of[p]);
    }
    return 1;
}

/* costs, sizes, then maximize, limit, threads. False with an exception. */
static int read_matrices(const native_state *state, PyObject *const *given, PyObject *const *how,
                         PyObject *threads, matrices *to) {
    array_memory costs;
    *to = (matrices){.count = 1};
    to->maximize = PyObject_IsTrue(how[0]);
    to->limit = PyFloat_AsDouble(how[1]);
    to->threads = (int)PyLong_AsLong(threads);
    if (PyErr_Occurred() != NULL) return 0;
    const int listed = given[1] != Py_None;
    if (!is_read(state, given[0], &costs) || costs.dimensions < (listed ? 1 : 2) ||
        costs.dimensions > (listed ? 1 : 3) || (listed && !read_sizes(state, given[1], to))) {
        PyErr_SetString(PyExc_TypeError, "wanted one matrix, a stack, or a vector with sizes");
        return 0;
    }
    to->costs = costs.data;
    to->type = memory_is(&costs, OTA_F64) ? OTA_F64 : OTA_F32;
    to->stacked = listed || costs.dimensions == 3;
    if (listed) return 1;
    const int64_t *shape = costs.shape + costs.dimensions - 2;
    const int64_t *strides = costs.strides + costs.dimensions - 2;
    to->rows = shape[0], to->columns = shape[1];
    to->strides[1] = strides[0], to->strides[2] = strides[1];
    if (to->stacked) to->count = costs.shape[0], to->strides[0] = costs.strides[0];
    return 1;
}

/* ---- outputs --------------------------------------------------------------------------------- */

static void *made(PyObject **array, int type, int dimensions, const npy_intp *shape) {
    npy_intp own[3];
    for (int k = 0; k < dimensions; k++) own[k] = shape[k];
    *array = PyArray_SimpleNew(dimensions, own, type);
    return *array == NULL ? NULL : PyArray_DATA((PyArrayObject *)*array);
}

/* [count, ...] of a stack, [...] of one matrix. */
static void *made_of(const matrices *m, PyObject **array, int type, int dimensions, int64_t first,
                     int64_t second) {
    const npy_intp shape[3] = {(npy_intp)m->count, (npy_intp)first, (npy_intp)second};
    return m->stacked ? made(array, type, 1 + dimensions, shape)
                      : made(array, type, dimensions, shape + 1);
}

/* Of a list `total`; else [count, each] or [each]. */
static void *made_along(const matrices *m, PyObject **array, int type, int64_t total,
                        int64_t each) {
    const npy_intp flat = (npy_intp)total;
    return m->offsets != NULL ? made(array, type, 1, &flat) : made_of(m, array, type, 1, each, 0);
}

static int shorten(PyObject **array, int64_t length) {
    if (PyArray_DIM((PyArrayObject *)*array, 0) <= length) return 1;
    PyObject *slice = PySequence_GetSlice(*array, 0, (Py_ssize_t)length);
    if (slice == NULL) return 0;
    Py_DECREF(*array);
    *array = slice;
    return 1;
}

static void drop(PyObject **outputs, int count) {
    for (int k = 0; k < count; k++) {
        Py_XDECREF(outputs[k]);
        outputs[k] = NULL;
    }
}

/* Takes over the outputs, NULL where one is; they are dropped where the call failed. */
static PyObject *answer(PyObject **outputs, int count, ota_status status, const ota_error *error) {
    PyObject *answer = NULL;
    if (status < 0)
        answer = native_status(status, error);
    else if (PyErr_Occurred() == NULL)
        answer = PyTuple_New(count);
    for (int k = 0; answer != NULL && status >= 0 && k < count; k++) {
        PyTuple_SetItem(answer, k, outputs[k]);
        outputs[k] = NULL;
    }
    drop(outputs, count);
    return answer;
}

/* Is the work so long that other threads should run, and Ctrl-C be heard? */
static int is_long(const matrices *m, int64_t times) {
    const double pairs = m->offsets != NULL
                             ? (double)m->all_rows * (double)m->all_columns
                             : (double)m->count * (double)m->rows * (double)m->columns;
    return (double)times * pairs >= (double)RELEASE_FROM;
}

/* ---- the k cheapest -------------------------------------------------------------------------- */

/* k, or how many matchings there are at most. Exact below 2^53, above which no arrays have room. */
static int64_t at_most(int64_t k, int64_t rows, int64_t columns, int limited) {
    const int64_t n = least(rows, columns), m = rows + columns - n;
    double count = 1.0, own = 1.0;
    for (int64_t pairs = 0; pairs < n && count < (double)k; pairs++) {
        own *= (double)(m - pairs);
        /* Those of one pair more: an ordered choice of columns for a choice of rows. */
        if (limited) own = own * (double)(n - pairs) / (double)(pairs + 1);
        count = limited ? count + own : own;
    }
    return count < (double)k ? (int64_t)count : k;
}

static int64_t most_of(const matrices *m, int64_t k) {
    const int limited = m->limit < INFINITY;
    int64_t most = m->offsets == NULL ? at_most(k, m->rows, m->columns, limited) : 0;
    for (int64_t p = 0; m->offsets != NULL && p < m->count && most < k; p++) {
        const int64_t own = at_most(k, m->rows_of[p], m->columns_of[p], limited);
        most = own > most ? own : most;
    }
    return most;
}

static ota_status rank(ota_ranked_assignments *problem, ota_error *error) {
    if (problem->cancel == NULL) return ota_assign_ranked(problem, error);
    ota_status status;
    NATIVE_UNLOCKED(status, ota_assign_ranked(problem, error));
    return status;
}

/* One matrix alone has as many matchings as there are. */
static void end_ranks(PyObject **outputs, int64_t found) {
    for (int k = 0; k < 4; k++)
        if (outputs[k] != Py_None && !shorten(&outputs[k], found)) return;
    outputs[4] = PyLong_FromLongLong(found);
}

PyObject *native_ranked(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    enum { COSTS, SIZES, K, MAXIMIZE, LIMIT, CERTIFICATE, THREADS, ARGUMENTS };
    enum { ROWS, COLUMNS, VALUE, BOUND, FOUND, OUTPUTS };
    matrices m;
    if (count != ARGUMENTS) return PyErr_Format(PyExc_TypeError, "wanted 7 arguments");
    if (!read_matrices(PyModule_GetState(module), arguments + COSTS, arguments + MAXIMIZE,
                       arguments[THREADS], &m))
        return NULL;
    int64_t k = PyLong_AsLongLong(arguments[K]), found = 0;
    if (PyErr_Occurred() != NULL) return NULL;
    k = most_of(&m, k);
    if (m.offsets != NULL && k > 0 && m.all_pairs > PY_SSIZE_T_MAX / k) return PyErr_NoMemory();
    ota_ranked_assignments problem = {.size = sizeof problem, OF_MATRICES(&m, is_long(&m, k))};
    PyObject *outputs[MOST_OUTPUTS] = {NULL};
    const int64_t pairs = least(m.rows, m.columns), total = k * m.all_pairs;
    problem.wanted = k;
    for (int side = ROWS; side <= COLUMNS; side++) {
        int64_t **const to = side == ROWS ? &problem.pair_row : &problem.pair_column;
        *to = m.offsets != NULL ? made_along(&m, &outputs[side], NPY_INT64, total, 0)
                                : made_of(&m, &outputs[side], NPY_INT64, 2, k, pairs);
    }
    problem.value = made_of(&m, &outputs[VALUE], NPY_DOUBLE, 1, k, 0);
    if (arguments[CERTIFICATE] == Py_True)
        problem.bound = made_of(&m, &outputs[BOUND], NPY_DOUBLE, 1, k, 0);
    else
        outputs[BOUND] = Py_NewRef(Py_None);
    problem.found = m.stacked ? made_of(&m, &outputs[FOUND], NPY_INT64, 0, 0, 0) : &found;
    ota_status status = OTA_OK;
    ota_error error = {.field = ""};
    if (PyErr_Occurred() == NULL && m.count > 0) status = rank(&problem, &error);
    if (PyErr_Occurred() == NULL && status >= 0 && !m.stacked) end_ranks(outputs, found);
    return answer(outputs, OUTPUTS, status, &error);
}

/* ---- the cheapest dearest pair ---------------------------------------------------------------- */

static ota_status narrow(ota_bottleneck *problem, ota_error *error) {
    if (problem->cancel == NULL) return ota_assign_bottleneck(problem, error);
    ota_status status;
    NATIVE_UNLOCKED(status, ota_assign_bottleneck(problem, error));
    return status;
}

PyObject *native_bottleneck(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    enum { COSTS, SIZES, MAXIMIZE, LIMIT, THREADS, ARGUMENTS };
    enum { ROWS, COLUMNS, VALUE, BOUND, MARKED, COVERED = 6, PAIRS = 8, OUTPUTS };
    matrices m;
    if (count != ARGUMENTS) return PyErr_Format(PyExc_TypeError, "wanted 5 arguments");
    if (!read_matrices(PyModule_GetState(module), arguments + COSTS, arguments + MAXIMIZE,
                       arguments[THREADS], &m))
        return NULL;
    ota_bottleneck problem = {.size = sizeof problem, OF_MATRICES(&m, is_long(&m, 1))};
    PyObject *outputs[MOST_OUTPUTS] = {NULL};
    const int64_t least_side = least(m.rows, m.columns);
    double value = 0.0, bound = 0.0;
    int64_t pairs = 0;
    problem.pair_row = made_along(&m, &outputs[ROWS], NPY_INT64, m.all_pairs, least_side);
    problem.pair_column = made_along(&m, &outputs[COLUMNS], NPY_INT64, m.all_pairs, least_side);
    problem.value = m.stacked ? made_of(&m, &outputs[VALUE], NPY_DOUBLE, 0, 0, 0) : &value;
    problem.bound = m.stacked ? made_of(&m, &outputs[BOUND], NPY_DOUBLE, 0, 0, 0) : &bound;
    problem.pairs = m.stacked ? made_of(&m, &outputs[PAIRS], NPY_INT64, 0, 0, 0) : &pairs;
    uint8_t **const marks[][2] = {{&problem.row_marked, &problem.column_marked},
                                  {&problem.row_covered, &problem.column_covered}};
    for (int k = 0; k < 2; k++) {
        PyObject **const to = outputs + (k == 0 ? MARKED : COVERED);
        *marks[k][0] = made_along(&m, to, NPY_BOOL, m.all_rows, m.rows);
        *marks[k][1] = made_along(&m, to + 1, NPY_BOOL, m.all_columns, m.columns);
    }
    ota_status status = OTA_OK;
    ota_error error = {.field = ""};
    if (PyErr_Occurred() == NULL && m.count > 0) status = narrow(&problem, &error);
    if (PyErr_Occurred() == NULL && status >= 0 && !m.stacked && shorten(&outputs[ROWS], pairs) &&
        shorten(&outputs[COLUMNS], pairs)) {
        outputs[VALUE] = PyFloat_FromDouble(value);
        outputs[BOUND] = PyFloat_FromDouble(bound);
        outputs[PAIRS] = PyLong_FromLongLong(pairs);
    }
    return answer(outputs, OUTPUTS, status, &error);
}
