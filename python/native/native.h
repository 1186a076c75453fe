/* native.h: what the files of the package's own extension share: its state, and how it sees the memory of NumPy arrays and of
 * tensors.
 *
 * NumPy's arrays are read by its C interface. Tensors are read, and made, by the table of functions that DLPack 1.3 calls the
 * C exchange API, which their type offers (torch from 2.10 on); its structs are written down here as far as they are used.
 */
#ifndef OTATTN_NATIVE_H
#define OTATTN_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
/* One table of NumPy's functions for all files; calls.c fills it. */
#define PY_ARRAY_UNIQUE_SYMBOL otattn_native_numpy
#ifndef NATIVE_MAKES_NUMPY_TABLE
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>
#if NPY_ABI_VERSION < 0x02000000 /* headers of NumPy 1, whose modules run with NumPy 1 alone */
#define PyArray_ImportNumPyAPI _import_array
#endif

#include "otattn_assignment.h"
#include "otattn_route.h"

typedef struct exchange_type {
    uint8_t code, bits;
    uint16_t lanes;
} exchange_type;

typedef struct exchange_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t dimensions;
    exchange_type type;
    int64_t *shape, *strides; /* strides in elements, NULL where the memory is dense */
    uint64_t byte_offset;
} exchange_tensor;

typedef struct exchange_version {
    uint32_t major, minor;
} exchange_version;

typedef struct exchange_owned {
    exchange_version version;
    void *context;
    void (*free)(struct exchange_owned *own);
    uint64_t flags;
    exchange_tensor tensor;
} exchange_owned;

typedef struct exchange_table {
    exchange_version version;
    void *older;
    int (*allocate)(exchange_tensor *like, exchange_owned **own, void *context,
                    void (*fail)(void *context, const char *kind, const char *message));
    int (*own_of)(void *object, exchange_owned **own);
    int (*object_of)(exchange_owned *own, void **object);
    int (*view_of)(void *object, exchange_tensor *view);
    int (*stream_of)(int device_type, int32_t device_id, void **stream);
} exchange_table;

typedef struct native_state {
    ota_assigner *idle;
    ota_router *router; /* NULL while a call has it */
    int router_threads;
    PyObject *tensor;               /* a type, owned; NULL where no library offers its table */
    const exchange_table *exchange; /* of that type */
    PyObject *is_neg, *requires_grad, *call; /* names of attributes, owned */
    PyObject *words; /* types whose objects are known by their value, owned; NULL: none */
} native_state;

enum { MEMORY_DIMENSIONS = 8 };

typedef enum memory_kind { MEMORY_NONE, MEMORY_NUMPY, MEMORY_TENSOR } memory_kind;

/* Memory as its owner describes it; whoever made the object owns all of it. */
typedef struct array_memory {
    memory_kind kind;
    void *data;
    int type;       /* NumPy's number, or a tensor's code * 256 + bits */
    int dimensions; /* at most MEMORY_DIMENSIONS */
    int64_t shape[MEMORY_DIMENSIONS], strides[MEMORY_DIMENSIONS]; /* strides in elements */
} array_memory;

/* Describes a NumPy array or a tensor in memory that can be read as it lies (aligned, native, on this machine). False, without
 * an exception, for everything else. */
int memory_of(const native_state *state, PyObject *object, array_memory *memory);

/* The address alone, for an object that memory_of took before; NULL with an exception where it is gone. */
int memory_address(const native_state *state, PyObject *object, void **data);

/* Are the numbers OTA_F64, or OTA_F32? */
int memory_is(const array_memory *memory, ota_type type);

/* Two whole numbers of 64 bits? */
int memory_is_whole(const array_memory *memory);

/* Writes a matrix or vector of elements of so many bytes row by row. */
void memory_copy(const array_memory *memory, size_t item, void *to);

/* Types of new arrays beside the library's. */
enum { MEMORY_INT64 = -1, MEMORY_BOOL = -2 };

/* A new dense array of the kind of `like`: of its type (type 0), of OTA_F64 or OTA_F32, or one of these. NULL with an
 * exception. */
PyObject *memory_new(const native_state *state, const array_memory *like, int type, int dimensions,
                     const int64_t *shape, void **data);

/* The same of a tensor whose dimension order[k] is the k-th in memory and shape[k] long. Of NumPy's arrays, and without an
 * order (NULL), as above. */
PyObject *memory_new_in_order(const native_state *state, const array_memory *like, int type,
                              int dimensions, const int64_t *shape, const int *order, void **data);

/* Keeps a router, or none, and frees the one before. */
void native_keep_router(native_state *state, ota_router *own, int threads);

/* The numbers of the certificate of a plan for the problem of a kept call (kept.c) of a cost matrix with masses: rows and
 * columns, all arrays dense, of its shapes and types. The kept call stays as it is. NULL with an exception. */
PyObject *kept_certificate(PyObject *capsule, const void *cost, const void *const masses[2],
                           const void *plan, const void *const potentials[2]);

/* interrupt.c: the flag that calls of the package have as `cancel`; a call that may be long between enter and leave, both with
 * the interpreter's lock. leave: whether to make the cancelled call again; else an exception may be set. */
int native_start_interrupts(void);
const int *native_cancel(void);
void native_enter(void);
int native_leave(int cancelled);

/* status = call, without the interpreter's lock, while Ctrl-C cancels it. */
#define NATIVE_UNLOCKED(status, call)                                                              \
    do {                                                                                           \
        native_enter();                                                                            \
        Py_BEGIN_ALLOW_THREADS(status) = (call);                                                   \
        Py_END_ALLOW_THREADS                                                                       \
    } while (native_leave((status) == OTA_CANCELLED))

/* long_calls.c: the status, or in a pair with its error where it is negative; NULL with an exception. */
PyObject *native_status(ota_status status, const ota_error *error);

PyObject *native_cancel_address(PyObject *module, PyObject *unused);
PyObject *native_watched(PyObject *module, PyObject *arguments);
PyObject *native_once(PyObject *module, PyObject *says);

/* Calls of the module, in the other files. */
PyObject *native_ota_assign(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_ota_assign_bounded(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_ota_maxsim(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_ota_maxsim_backward(PyObject *module, PyObject *const *arguments,
                                     Py_ssize_t count);
PyObject *native_ota_route(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_is_matrix(PyObject *module, PyObject *object);
PyObject *native_ranked(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_bottleneck(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_normalize(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_normalize_gradients(PyObject *module, PyObject *const *arguments,
                                     Py_ssize_t count);
PyObject *native_route(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_pick(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_maxsim(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_tensors(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_parse(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_words_are(PyObject *module, PyObject *types);
PyObject *native_address(PyObject *module, PyObject *object);
PyObject *native_layout(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_derivative(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_without_zeros(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_copies(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_keep(PyObject *module, PyObject *arguments);
PyObject *native_run(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_ask(PyObject *module, PyObject *capsule);
PyObject *native_again(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_judge(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_hold(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_rest(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_sums(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_linear(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_scalings(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_divided(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_apart(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_centred(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_against(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *native_scalars(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
