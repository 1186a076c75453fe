/* native.h: the calls of the module _native, a file each besides calls.c, and the table of NumPy's functions that they share. */
#ifndef OTA_PYTHON_NATIVE_H
#define OTA_PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL ota_native_arrays
#ifndef OTA_NATIVE_IMPORTS
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

PyObject *ota_native_maxsim(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
