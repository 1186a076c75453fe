/* interrupt.c: Ctrl-C during a call of the library.
 *
 * Python notes a signal and acts on it when its own code runs on, which it does not while the library computes. So a call that
 * may be long, made by the main thread, has its own handler of SIGINT in the place of Python's for as long as it lasts: it raises
 * the flag that every call of the package has as `cancel`. The call then ends with OTA_CANCELLED within a tenth of a second, the
 * signal is passed on, and Python raises what its handler wants, KeyboardInterrupt by default. Not before: functions of Python
 * that the library calls (a regulariser's) would raise it where they begin, and nobody could catch it. Where the handler wants
 * nothing, and in other threads, whose calls see the same flag, the call is made again once the flag is down.
 *
 * The main thread alone touches the handler; what all threads share is changed by atomic words, since some interpreters have no
 * lock. A call must see the flag up until it returns, so it comes down when none is in flight. */
#include "native.h"

#include "src/base/program/system_interrupts.h"

#include <math.h>

static int asked; /* the flag */
static int in_flight, in_main;
static bool installed;
static _Thread_local int once; /* calls that other processes make, too, are not made again */
static unsigned long main_thread;

/* A call that ends by the flag raises or is made again: nobody reads what it has written. */
static void on_interrupt(void) {
    enum { AND_READS_NOTHING = 2 };
    __atomic_store_n(&asked, AND_READS_NOTHING, __ATOMIC_RELAXED);
}

static void install(void) { installed = ota_interrupts_begin(on_interrupt); }

static void uninstall(void) {
    if (installed) ota_interrupts_end();
    installed = false;
}

/* A child has the thread that forked alone, and none of the calls that others had in flight. */
static void forget(void) {
    uninstall();
    in_flight = in_main = 0;
    __atomic_store_n(&asked, 0, __ATOMIC_RELAXED);
    main_thread = PyThread_get_thread_ident();
}

int native_start_interrupts(void) {
    PyObject *threading = PyImport_ImportModule("threading");
    PyObject *first =
        threading == NULL ? NULL : PyObject_CallMethod(threading, "main_thread", NULL);
    PyObject *ident = first == NULL ? NULL : PyObject_GetAttrString(first, "ident");
    if (ident != NULL) main_thread = PyLong_AsUnsignedLong(ident);
    Py_XDECREF(threading);
    Py_XDECREF(first);
    Py_XDECREF(ident);
    static int prepared;
    if (!prepared) prepared = ota_forks_tell(forget);
    return PyErr_Occurred() == NULL ? 0 : -1;
}

const int *native_cancel(void) { return &asked; }

void native_enter(void) {
    (void)__atomic_add_fetch(&in_flight, 1, __ATOMIC_ACQ_REL);
    if (PyThread_get_thread_ident() == main_thread && in_main++ == 0) install();
}

/* Until no call is in flight that a raised flag has ended. */
static void wait_for_others(void) {
    while (__atomic_load_n(&asked, __ATOMIC_RELAXED) != 0 &&
           __atomic_load_n(&in_flight, __ATOMIC_ACQUIRE) > 0) {
        Py_BEGIN_ALLOW_THREADS ota_sleep_ms(1);
        Py_END_ALLOW_THREADS
    }
}

int native_leave(int cancelled) {
    const int by_flag = cancelled && __atomic_load_n(&asked, __ATOMIC_RELAXED) != 0;
    if (PyThread_get_thread_ident() == main_thread) {
        if (--in_main == 0) uninstall();
        ota_interrupts_pass();
    }
    if (__atomic_sub_fetch(&in_flight, 1, __ATOMIC_ACQ_REL) == 0)
        __atomic_store_n(&asked, 0, __ATOMIC_RELAXED);
    if (!by_flag || PyErr_CheckSignals() < 0 || once) return 0;
    wait_for_others();
    return 1;
}

PyObject *native_cancel_address(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyLong_FromVoidPtr(&asked);
}

/* A status, or the NaN of a call without one. */
static int says_cancelled(PyObject *found) {
    if (PyLong_Check(found)) return PyLong_AsLong(found) == OTA_CANCELLED;
    return PyFloat_Check(found) && isnan(PyFloat_AsDouble(found));
}

PyObject *native_watched(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *call = PyTuple_GetItem(arguments, 0);
    if (call == NULL) return NULL;
    PyObject *own = PyTuple_GetSlice(arguments, 1, PyTuple_Size(arguments)), *status = NULL;
    int again = own != NULL;
    while (again) {
        native_enter();
        Py_XDECREF(status);
        status = PyObject_Call(call, own, NULL);
        again = native_leave(status != NULL && says_cancelled(status));
    }
    Py_XDECREF(own);
    if (PyErr_Occurred() == NULL) return status;
    Py_XDECREF(status);
    return NULL;
}

PyObject *native_once(PyObject *module, PyObject *says) {
    (void)module;
    once = PyObject_IsTrue(says);
    Py_RETURN_NONE;
}
