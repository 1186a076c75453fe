/* Late interaction without ctypes (otattn_maxsim.h): the structs are filled here from arrays, or from the views of tensors.
 *
 *     maxsim(queries, documents, offsets, lengths, query_lengths, capacity, top, threads) -> scores | (scores, best) | None
 *
 * Token vectors are arrays of NumPy in f32 or f16, or tuples (address, type, shape, strides in elements). Places and lengths
 * are None or dense int64 arrays. What is anything else, or wrong, is None: the package goes the longer way, which says why. */
#include "native.h"

#include "otattn_maxsim.h"

enum { QUERIES, DOCUMENTS, OFFSETS, LENGTHS, QUERY_LENGTHS, CAPACITY, TOP, THREADS, ARGUMENTS };

/* Products from which on other threads of the interpreter may run meanwhile. */
enum { RELEASE_FROM = 1 << 16 };

/* What a side looks like: [lead,] tokens, width; `lead` is -1 where there are two dimensions. */
typedef struct side {
    ota_array array;
    int64_t lead;
} side;

static void set_dimension(side *x, int at, int64_t size, int64_t stride) {
    x->array.size[at] = size;
    x->array.stride[at] = stride;
}

static int read_array(PyObject *object, side *x) {
    PyArrayObject *array = (PyArrayObject *)object;
    const int type = PyArray_TYPE(array), dimensions = PyArray_NDIM(array);
    if ((type != NPY_FLOAT && type != NPY_HALF) || dimensions < 2 || dimensions > 3) return 0;
    if (!PyArray_ISBEHAVED_RO(array)) return 0;
    const npy_intp item = type == NPY_FLOAT ? 4 : 2;
    x->array.type = type == NPY_FLOAT ? OTA_F32 : OTA_F16;
    x->array.data = PyArray_DATA(array);
    for (int k = 0; k < dimensions; k++) {
        if (PyArray_STRIDE(array, k) % item != 0) return 0;
        set_dimension(x, 4 - dimensions + k, PyArray_DIM(array, k),
                      PyArray_STRIDE(array, k) / item);
    }
    x->lead = dimensions == 3 ? PyArray_DIM(array, 0) : -1;
    return 1;
}

static int read_view(PyObject *view, side *x) {
    if (PyTuple_Size(view) != 4) return 0;
    PyObject *shape = PyTuple_GetItem(view, 2), *strides = PyTuple_GetItem(view, 3);
    const Py_ssize_t dimensions = PyTuple_Check(shape) ? PyTuple_Size(shape) : 0;
    if (dimensions < 2 || dimensions > 3 || !PyTuple_Check(strides)) return 0;
    if (PyTuple_Size(strides) != dimensions) return 0;
    x->array.data = PyLong_AsVoidPtr(PyTuple_GetItem(view, 0));
    x->array.type = (ota_type)PyLong_AsLong(PyTuple_GetItem(view, 1));
    for (Py_ssize_t k = 0; k < dimensions; k++)
        set_dimension(x, (int)(4 - dimensions + k), PyLong_AsLongLong(PyTuple_GetItem(shape, k)),
                      PyLong_AsLongLong(PyTuple_GetItem(strides, k)));
    x->lead = dimensions == 3 ? x->array.size[1] : -1;
    return PyErr_Occurred() == NULL;
}

static int read_side(PyObject *object, side *x) {
    for (int k = 0; k < 4; k++) set_dimension(x, k, 1, 0);
    if (PyArray_CheckExact(object)) return read_array(object, x);
    return PyTuple_Check(object) && read_view(object, x);
}

/* `length` numbers; absent ones are NULL. */
static int read_whole(PyObject *object, int64_t length, const int64_t **to) {
    *to = NULL;
    if (object == Py_None) return 1;
    if (!PyArray_CheckExact(object)) return 0;
    PyArrayObject *array = (PyArrayObject *)object;
    if (PyArray_TYPE(array) != NPY_INT64 || PyArray_NDIM(array) != 1) return 0;
    if (!PyArray_ISCARRAY_RO(array) || PyArray_DIM(array, 0) != length) return 0;
    *to = PyArray_DATA(array);
    return 1;
}

/* Packed documents: offsets say how many there are. */
static int read_packed(PyObject *const *arguments, ota_late_interaction *problem) {
    PyObject *offsets = arguments[OFFSETS];
    if (!PyArray_CheckExact(offsets) || arguments[LENGTHS] != Py_None) return 0;
    if (PyArray_NDIM((PyArrayObject *)offsets) != 1) return 0;
    problem->document_count = PyArray_DIM((PyArrayObject *)offsets, 0) - 1;
    return problem->document_count >= 0 &&
           read_whole(offsets, problem->document_count + 1, &problem->offsets);
}

/* Padded documents one after another in memory, and where each begins, to be freed. */
static int read_padded(PyObject *const *arguments, ota_late_interaction *problem, int64_t **made) {
    ota_array *x = &problem->documents;
    const int64_t documents = x->size[1], tokens = x->size[2];
    if (arguments[OFFSETS] != Py_None) return 0;
    if (documents != 1 && x->stride[1] != tokens * x->stride[2]) return 0;
    if (!read_whole(arguments[LENGTHS], documents, &problem->document_lengths)) return 0;
    int64_t *places = PyMem_Malloc(((size_t)documents + 1) * sizeof *places);
    if (places == NULL) return 0;
    for (int64_t d = 0; d <= documents; d++) places[d] = d * tokens;
    x->size[1] = 1;
    x->size[2] = documents * tokens;
    *made = places;
    problem->offsets = places;
    problem->document_count = documents;
    return 1;
}

static int read_problem(PyObject *const *arguments, ota_late_interaction *problem, int64_t *lead,
                        int64_t **made) {
    side queries, documents;
    if (!read_side(arguments[QUERIES], &queries)) return 0;
    if (!read_side(arguments[DOCUMENTS], &documents)) return 0;
    if (queries.array.type != documents.array.type) return 0;
    problem->queries = queries.array;
    problem->documents = documents.array;
    *lead = queries.lead;
    if (!read_whole(arguments[QUERY_LENGTHS], queries.array.size[1], &problem->query_lengths))
        return 0;
    problem->capacity = PyLong_AsLongLong(arguments[CAPACITY]);
    problem->threads = (int)PyLong_AsLong(arguments[THREADS]);
    if (arguments[TOP] != Py_None) {
        if (!PyLong_CheckExact(arguments[TOP])) return 0;
        problem->top = PyLong_AsLongLong(arguments[TOP]);
        if (problem->top <= 0) return 0;
    }
    if (PyErr_Occurred() != NULL) return 0;
    return documents.lead < 0 ? read_packed(arguments, problem)
                              : read_padded(arguments, problem, made);
}

static ota_status score(const ota_late_interaction *problem, PyObject *scores, PyObject *best) {
    float *to = PyArray_DATA((PyArrayObject *)scores);
    int64_t *documents = best == NULL ? NULL : PyArray_DATA((PyArrayObject *)best);
    const int64_t *offsets = problem->offsets;
    const double products = (double)(offsets[problem->document_count] - offsets[0]) *
                            (double)(problem->queries.size[1] * problem->queries.size[2]) *
                            (double)problem->queries.size[3];
    ota_status status;
    if (products < (double)RELEASE_FROM) return ota_maxsim(problem, to, documents, NULL);
    NATIVE_UNLOCKED(status, ota_maxsim(problem, to, documents, NULL));
    return status;
}

/* Scores, with `top` in a pair with their documents. */
static PyObject *answer(const ota_late_interaction *problem, int64_t lead) {
    const int64_t each = problem->top > 0 ? problem->top : problem->document_count;
    if (problem->top > problem->document_count) Py_RETURN_NONE;
    npy_intp shape[2] = {problem->queries.size[1], each};
    const int dimensions = lead < 0 ? 1 : 2;
    PyObject *scores = PyArray_SimpleNew(dimensions, shape + 2 - dimensions, NPY_FLOAT);
    PyObject *best = NULL, *pair = NULL;
    if (scores != NULL && problem->top > 0) {
        best = PyArray_SimpleNew(dimensions, shape + 2 - dimensions, NPY_INT64);
        pair = best == NULL ? NULL : PyTuple_New(2);
    }
    const int made = scores != NULL && (problem->top == 0 || pair != NULL);
    if (!made || score(problem, scores, best) < 0) {
        Py_XDECREF(scores);
        Py_XDECREF(best);
        Py_XDECREF(pair);
        if (!made || PyErr_Occurred() != NULL) return NULL;
        Py_RETURN_NONE;
    }
    if (pair == NULL) return scores;
    PyTuple_SetItem(pair, 0, scores);
    PyTuple_SetItem(pair, 1, best);
    return pair;
}

PyObject *native_maxsim(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    (void)module;
    ota_late_interaction problem = {.size = sizeof problem, .cancel = native_cancel()};
    int64_t lead = -1, *made = NULL;
    PyObject *found = NULL;
    if (count == ARGUMENTS && read_problem(arguments, &problem, &lead, &made)) {
        found = answer(&problem, lead);
    } else if (PyErr_Occurred() == NULL || PyErr_ExceptionMatches(PyExc_OverflowError) ||
               PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        Py_INCREF(Py_None);
        found = Py_None;
    }
    PyMem_Free(made);
    return found;
}
