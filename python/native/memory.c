/* memory.c: the memory of NumPy arrays and of tensors, seen and made without a call of Python.
 *
 *     tensors(type, capsule)          tensors of this type come with this table from now on; None, None: with none
 *     layout(x, ...) -> bytes | None  kind, type, shape and strides of arrays of one kind, None among them; equal bytes for
 *                                     arrays that one set of structs fits but for addresses
 *     address(x) -> int               where the memory of a NumPy array, of a subclass too, or of a tensor begins
 *     derivative(x, ...) -> bool | None
 *                                     does one of these tensors record its derivative? None where they are not all of one
 *                                     type, or where one is a negated view, whose memory says something else
 *     without_zeros(x, ...) -> bool   are these vectors of f64 or f32, none with a 0 in it?
 *     copies(x, ...) -> tuple         dense copies as NumPy arrays, of tensors as well; f64 or f32, at most matrices */
#include "native.h"

#include <string.h>

enum {
    ON_CPU = 1, /* device types and codes of DLPack */
    CODE_INT = 0,
    CODE_FLOAT = 2,
    CODE_BFLOAT = 4,
    CODE_BOOL = 6,
    LAYOUT_ARRAYS = 40,
    LAYOUT_WORDS = 3 + 2 * MEMORY_DIMENSIONS
};

static int numpy_memory(PyArrayObject *array, array_memory *memory) {
    const int dimensions = PyArray_NDIM(array);
    if (dimensions > MEMORY_DIMENSIONS || !PyArray_ISBEHAVED_RO(array)) return 0;
    const npy_intp *shape = PyArray_DIMS(array), *strides = PyArray_STRIDES(array);
    const npy_intp item = PyArray_ITEMSIZE(array);
    if (item <= 0) return 0;
    for (int k = 0; k < dimensions; k++) {
        if (strides[k] % item != 0) return 0;
        memory->shape[k] = shape[k];
        memory->strides[k] = strides[k] / item;
    }
    memory->kind = MEMORY_NUMPY;
    memory->type = PyArray_TYPE(array);
    memory->dimensions = dimensions;
    memory->data = PyArray_DATA(array);
    return 1;
}

static int is_tensor(const native_state *state, PyObject *object) {
    return state->tensor != NULL && PyObject_TypeCheck(object, (PyTypeObject *)state->tensor);
}

static int tensor_memory(const native_state *state, PyObject *object, array_memory *memory) {
    exchange_tensor view;
    if (state->exchange->view_of(object, &view) != 0) {
        PyErr_Clear();
        return 0;
    }
    if (view.device_type != ON_CPU || view.dimensions > MEMORY_DIMENSIONS || view.type.lanes != 1)
        return 0;
    int64_t dense = 1;
    for (int k = view.dimensions; k-- > 0;) {
        memory->shape[k] = view.shape[k];
        memory->strides[k] = view.strides != NULL ? view.strides[k] : dense;
        dense *= view.shape[k];
    }
    memory->kind = MEMORY_TENSOR;
    memory->type = view.type.code * 256 + view.type.bits;
    memory->dimensions = view.dimensions;
    memory->data = (char *)view.data + view.byte_offset;
    return (uintptr_t)memory->data % (view.type.bits / 8) == 0;
}

int memory_of(const native_state *state, PyObject *object, array_memory *memory) {
    if (PyArray_CheckExact(object)) return numpy_memory((PyArrayObject *)object, memory);
    return is_tensor(state, object) && tensor_memory(state, object, memory);
}

int memory_address(const native_state *state, PyObject *object, void **data) {
    if (PyArray_CheckExact(object)) {
        *data = PyArray_DATA((PyArrayObject *)object);
        return 1;
    }
    exchange_tensor view;
    if (!is_tensor(state, object)) {
        PyErr_SetString(PyExc_TypeError, "neither an array nor a tensor");
        return 0;
    }
    if (state->exchange->view_of(object, &view) != 0) return 0;
    *data = (char *)view.data + view.byte_offset;
    return 1;
}

static void allocation_failed(void *context, const char *kind, const char *message) {
    (void)context;
    (void)kind;
    PyErr_SetString(PyExc_MemoryError, message);
}

/* The number of a type by NumPy and, as code * 256 + bits, by DLPack. */
typedef struct type_number {
    int type, numpy, exchange;
} type_number;

static const type_number *number_of(int type) {
    static const type_number numbers[] = {{OTA_F64, NPY_DOUBLE, CODE_FLOAT * 256 + 64},
                                          {OTA_F32, NPY_FLOAT, CODE_FLOAT * 256 + 32},
                                          {OTA_F16, NPY_HALF, CODE_FLOAT * 256 + 16},
                                          {OTA_BF16, NPY_NOTYPE, CODE_BFLOAT * 256 + 16},
                                          {MEMORY_INT64, NPY_INT64, CODE_INT * 256 + 64},
                                          {MEMORY_BOOL, NPY_BOOL, CODE_BOOL * 256 + 8}};
    const type_number *found = numbers;
    while (found->type != type) found++;
    return found;
}

int memory_is(const array_memory *memory, ota_type type) {
    const type_number *number = number_of((int)type);
    return memory->type == (memory->kind == MEMORY_NUMPY ? number->numpy : number->exchange);
}

int memory_is_whole(const array_memory *memory) {
    const type_number *number = number_of(MEMORY_INT64);
    const int type = memory->kind == MEMORY_NUMPY ? number->numpy : number->exchange;
    return memory->type == type && memory->dimensions == 1 && memory->shape[0] == 2;
}

/* The shape and strides of a dense tensor whose dimension order[k] is the k-th in memory, shape[k] long. */
static void permute(int dimensions, const int64_t *shape, const int *order, int64_t *sizes,
                    int64_t *strides) {
    int64_t dense = 1;
    for (int k = dimensions - 1; k >= 0; k--) {
        sizes[order[k]] = shape[k];
        strides[order[k]] = dense;
        dense *= shape[k] > 0 ? shape[k] : 1;
    }
}

PyObject *memory_new(const native_state *state, const array_memory *like, int type, int dimensions,
                     const int64_t *shape, void **data) {
    return memory_new_in_order(state, like, type, dimensions, shape, NULL, data);
}

PyObject *memory_new_in_order(const native_state *state, const array_memory *like, int type,
                              int dimensions, const int64_t *shape, const int *order, void **data) {
    const type_number *number = type == 0 ? NULL : number_of(type);
    if (like->kind == MEMORY_NUMPY) {
        npy_intp sizes[MEMORY_DIMENSIONS];
        for (int k = 0; k < dimensions; k++) sizes[k] = (npy_intp)shape[k];
        PyObject *made =
            PyArray_SimpleNew(dimensions, sizes, number == NULL ? like->type : number->numpy);
        if (made != NULL) *data = PyArray_DATA((PyArrayObject *)made);
        return made;
    }
    int64_t sizes[MEMORY_DIMENSIONS];
    for (int k = 0; k < dimensions; k++) sizes[k] = shape[k];
    const int exchange = number == NULL ? like->type : number->exchange;
    exchange_tensor prototype = {.device_type = ON_CPU,
                                 .dimensions = dimensions,
                                 .type = {(uint8_t)(exchange / 256), (uint8_t)(exchange % 256), 1},
                                 .shape = sizes};
    exchange_owned *own = NULL;
    void *made = NULL;
    if (state->exchange->allocate(&prototype, &own, NULL, allocation_failed) != 0) return NULL;
    *data = (char *)own->tensor.data + own->tensor.byte_offset;
    int64_t strides[MEMORY_DIMENSIONS];
    if (order != NULL) {
        /* Whoever makes the object copies both. */
        permute(dimensions, shape, order, sizes, strides);
        own->tensor.shape = sizes;
        own->tensor.strides = strides;
    }
    return state->exchange->object_of(own, &made) == 0 ? made : NULL;
}

/* ---- calls of the module --------------------------------------------------------------------- */

PyObject *native_tensors(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    native_state *state = PyModule_GetState(module);
    if (count != 2) return PyErr_Format(PyExc_TypeError, "wanted a type and its table");
    const exchange_table *table = NULL;
    PyObject *type = NULL;
    if (arguments[1] != Py_None) {
        table = PyCapsule_GetPointer(arguments[1], "dlpack_exchange_api");
        if (table == NULL) return NULL;
        type = arguments[0];
        if (!PyType_Check(type) || table->version.major != 1 || table->view_of == NULL)
            Py_RETURN_FALSE;
        Py_INCREF(type);
    }
    PyObject *before = state->tensor;
    state->tensor = type;
    state->exchange = table;
    Py_XDECREF(before);
    return PyBool_FromLong(type != NULL);
}

PyObject *native_address(PyObject *module, PyObject *object) {
    void *data = NULL;
    if (PyArray_Check(object))
        data = PyArray_DATA((PyArrayObject *)object);
    else if (!memory_address(PyModule_GetState(module), object, &data))
        return NULL;
    return PyLong_FromVoidPtr(data);
}

PyObject *native_layout(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    const native_state *state = PyModule_GetState(module);
    int64_t words[1 + LAYOUT_ARRAYS * LAYOUT_WORDS];
    size_t used = 1;
    words[0] = 0; /* which of them are there */
    memory_kind kind = MEMORY_NONE;
    if (count > LAYOUT_ARRAYS) Py_RETURN_NONE;
    for (Py_ssize_t k = 0; k < count; k++) {
        array_memory x;
        if (arguments[k] == Py_None) continue;
        words[0] |= (int64_t)1 << k;
        if (!memory_of(state, arguments[k], &x) || (kind != MEMORY_NONE && kind != x.kind))
            Py_RETURN_NONE;
        kind = x.kind;
        words[used++] = x.kind;
        words[used++] = x.type;
        words[used++] = x.dimensions;
        for (int d = 0; d < x.dimensions; d++) {
            words[used++] = x.shape[d];
            words[used++] = x.strides[d];
        }
    }
    return PyBytes_FromStringAndSize((const char *)words, (Py_ssize_t)(used * sizeof *words));
}

void memory_copy(const array_memory *x, size_t item, void *dense) {
    char *to = dense;
    const int last = x->dimensions - 1;
    const int64_t rows = last == 1 ? x->shape[0] : 1, columns = x->shape[last];
    const int64_t row_stride = last == 1 ? x->strides[0] : 0;
    for (int64_t i = 0; i < rows; i++) {
        const char *from = (const char *)x->data + i * row_stride * (int64_t)item;
        if (x->strides[last] == 1) {
            memcpy(to, from, (size_t)columns * item);
            to += (size_t)columns * item;
            continue;
        }
        for (int64_t j = 0; j < columns; j++, to += item)
            memcpy(to, from + j * x->strides[last] * (int64_t)item, item);
    }
}

PyObject *native_copies(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    const native_state *state = PyModule_GetState(module);
    PyObject *copies = PyTuple_New(count);
    for (Py_ssize_t k = 0; copies != NULL && k < count; k++) {
        array_memory x;
        PyObject *made = NULL;
        void *data = NULL;
        if (memory_of(state, arguments[k], &x) &&
            (memory_is(&x, OTA_F64) || memory_is(&x, OTA_F32)) &&
            (x.dimensions == 1 || x.dimensions == 2)) {
            const array_memory like = {.kind = MEMORY_NUMPY};
            const int wide = memory_is(&x, OTA_F64);
            made = memory_new(state, &like, wide ? OTA_F64 : OTA_F32, x.dimensions, x.shape, &data);
            if (made != NULL) memory_copy(&x, wide ? sizeof(double) : sizeof(float), data);
        } else {
            PyErr_SetString(PyExc_TypeError, "wanted matrices and vectors of f64 or f32");
        }
        if (made == NULL) {
            Py_DECREF(copies);
            return NULL;
        }
        PyTuple_SetItem(copies, k, made);
    }
    return copies;
}

/* What a tensor says to a question without arguments (asks) or by an attribute; -1 with an exception. */
static int tensor_says(PyObject *tensor, PyObject *name, int asks) {
    PyObject *found = PyObject_GetAttr(tensor, name);
    if (found != NULL && asks) {
        PyObject *call = found;
        found = PyObject_CallNoArgs(call);
        Py_DECREF(call);
    }
    const int says = found == NULL ? -1 : found == Py_True;
    Py_XDECREF(found);
    return says;
}

PyObject *native_derivative(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    const native_state *state = PyModule_GetState(module);
    int records = 0;
    for (Py_ssize_t k = 0; k < count; k++) {
        PyObject *x = arguments[k];
        if (!is_tensor(state, x) || Py_TYPE(x) != Py_TYPE(arguments[0])) Py_RETURN_NONE;
        const int negated = tensor_says(x, state->is_neg, 1);
        if (negated < 0) return NULL;
        if (negated) Py_RETURN_NONE;
        const int own = tensor_says(x, state->requires_grad, 0);
        if (own < 0) return NULL;
        records |= own;
    }
    return PyBool_FromLong(records);
}

PyObject *native_without_zeros(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    const native_state *state = PyModule_GetState(module);
    for (Py_ssize_t k = 0; k < count; k++) {
        array_memory x;
        if (!memory_of(state, arguments[k], &x) || x.dimensions != 1) Py_RETURN_FALSE;
        const int wide = memory_is(&x, OTA_F64);
        if (!wide && !memory_is(&x, OTA_F32)) Py_RETURN_FALSE;
        for (int64_t i = 0; i < x.shape[0]; i++) {
            const int64_t at = i * x.strides[0];
            if (wide ? ((const double *)x.data)[at] == 0.0 : ((const float *)x.data)[at] == 0.0f)
                Py_RETURN_FALSE;
        }
    }
    Py_RETURN_TRUE;
}
