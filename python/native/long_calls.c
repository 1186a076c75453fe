/* long_calls.c: calls of the library that may be long, by addresses of structs and arrays that the package described.
 *
 *     ota_NAME(address, ...) -> status | (status, error)      the arguments of the C call but for its error, which
 *                                                             comes as the bytes of ota_error behind a negative status
 *
 * An address is a number, None for NULL, bytes, or an array or tensor, whose memory it is. Ctrl-C ends the calls (interrupt.c). */
#include "native.h"

#include "otattn_bounded.h"
#include "otattn_maxsim.h"

enum { MOST_ADDRESSES = 4 };

static int read_address(const native_state *state, PyObject *object, void **to) {
    if (PyLong_CheckExact(object)) {
        *to = PyLong_AsVoidPtr(object);
        return *to != NULL || PyErr_Occurred() == NULL;
    }
    *to = NULL;
    if (object == Py_None) return 1;
    if (PyBytes_CheckExact(object)) *to = PyBytes_AsString(object);
    return *to != NULL || memory_address(state, object, to);
}

static int read_addresses(PyObject *module, PyObject *const *arguments, Py_ssize_t count,
                          Py_ssize_t wanted, void **to) {
    if (count != wanted) {
        PyErr_Format(PyExc_TypeError, "wanted %zd addresses", wanted);
        return 0;
    }
    const native_state *state = PyModule_GetState(module);
    for (Py_ssize_t k = 0; k < wanted; k++)
        if (!read_address(state, arguments[k], &to[k])) return 0;
    return 1;
}

PyObject *native_status(ota_status status, const ota_error *error) {
    if (PyErr_Occurred() != NULL) return NULL;
    if (status >= 0) return PyLong_FromLong(status);
    return Py_BuildValue("iy#", (int)status, (const char *)error, (Py_ssize_t)sizeof *error);
}

/* A call of the module that makes one of the library, whose arguments are at[0], ... and &error. */
#define LONG_CALL(name, wanted, ...)                                                               \
    PyObject *native_##name(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {      \
        void *at[MOST_ADDRESSES];                                                                  \
        if (!read_addresses(module, arguments, count, wanted, at)) return NULL;                    \
        ota_error error = {.field = ""};                                                           \
        ota_status status;                                                                         \
        NATIVE_UNLOCKED(status, name(__VA_ARGS__, &error));                                        \
        return native_status(status, &error);                                                      \
    }

LONG_CALL(ota_assign, 2, at[0], at[1])
LONG_CALL(ota_assign_bounded, 3, at[0], at[1], at[2])
LONG_CALL(ota_maxsim, 3, at[0], at[1], at[2])
LONG_CALL(ota_maxsim_backward, 4, at[0], at[1], at[2], at[3])
LONG_CALL(ota_route, 3, at[0], at[1], at[2])
