/* keywords.c: the keywords of a call that was understood before, found again without a look at each of them.
 *
 *     words_are(type, ...)                       objects of these types, too, are known by their value
 *     parse(memo, names, options, x, ...) -> (known, array, ...) | (None, key, array, ...) | None
 *         What the dictionary `memo` keeps for keywords with these values: `options` and, for each of `names`, an x, which counts
 *         where it is not None, False or 0.0. Plain values count by value and type, arrays and tensors as such; these
 *         follow in the order of the options. (None, key, ...) where nothing is kept; None where a value is neither. */
#include "native.h"

enum { KEY_LENGTH = 160, MOST_ARRAYS = 24 };

typedef struct keywords {
    PyObject *key[KEY_LENGTH];     /* borrowed */
    PyObject *arrays[MOST_ARRAYS]; /* borrowed */
    Py_ssize_t used, found;
} keywords;

PyObject *native_words_are(PyObject *module, PyObject *types) {
    native_state *state = PyModule_GetState(module);
    PyObject *before = state->words;
    state->words = Py_NewRef(types);
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

static int is_word(const native_state *state, PyObject *x) {
    const Py_ssize_t count = state->words == NULL ? 0 : PyTuple_Size(state->words);
    for (Py_ssize_t k = 0; k < count; k++)
        if (PyTuple_GetItem(state->words, k) == (PyObject *)Py_TYPE(x)) return 1;
    return 0;
}

/* Whole numbers, whose pairs are windows. */
static int are_whole(PyObject *pair) {
    const Py_ssize_t count = PyTuple_Size(pair);
    for (Py_ssize_t k = 0; k < count; k++)
        if (!PyLong_CheckExact(PyTuple_GetItem(pair, k))) return 0;
    return 1;
}

/* 1: the value belongs to the key, 0: it is an array, -1: neither. */
static int kind_of(const native_state *state, PyObject *x) {
    if (x == Py_None || PyUnicode_CheckExact(x) || PyBool_Check(x) || PyLong_CheckExact(x) ||
        PyFloat_Check(x))
        return 1;
    if (PyArray_CheckExact(x)) return PyArray_NDIM((PyArrayObject *)x) > 0 ? 0 : -1;
    if (state->tensor != NULL && PyObject_TypeCheck(x, (PyTypeObject *)state->tensor)) return 0;
    if (PyTuple_CheckExact(x) && are_whole(x)) return 1;
    return is_word(state, x) ? 1 : -1;
}

static int put(const native_state *state, keywords *words, PyObject *name, PyObject *value) {
    const int kind = kind_of(state, value);
    if (kind < 0 || words->used + 3 > KEY_LENGTH || words->found >= MOST_ARRAYS) return 0;
    words->key[words->used++] = name;
    if (kind == 0) {
        words->arrays[words->found++] = value;
        words->key[words->used++] = Py_Ellipsis;
    } else {
        words->key[words->used++] = value;
        /* 1 and True are equal, and mean different things. */
        words->key[words->used++] = (PyObject *)Py_TYPE(value);
    }
    return 1;
}

static int is_nothing(PyObject *x) {
    return x == Py_None || x == Py_False || (PyFloat_CheckExact(x) && PyFloat_AsDouble(x) == 0.0);
}

static int read_keywords(const native_state *state, keywords *words, PyObject *const *arguments,
                         Py_ssize_t count) {
    for (Py_ssize_t k = 3; k < count; k++)
        if (!is_nothing(arguments[k]) &&
            !put(state, words, PyTuple_GetItem(arguments[1], k - 3), arguments[k]))
            return 0;
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(arguments[2], &at, &name, &value))
        if (!put(state, words, name, value)) return 0;
    return 1;
}

PyObject *native_parse(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    if (count < 3 || !PyDict_Check(arguments[0]) || !PyTuple_Check(arguments[1]) ||
        !PyDict_Check(arguments[2]) || PyTuple_Size(arguments[1]) != count - 3)
        return PyErr_Format(PyExc_TypeError, "wanted a dictionary, names, options and values");
    keywords words = {.used = 0};
    if (!read_keywords(PyModule_GetState(module), &words, arguments, count)) Py_RETURN_NONE;
    PyObject *key = PyTuple_New(words.used);
    if (key == NULL) return NULL;
    for (Py_ssize_t k = 0; k < words.used; k++) PyTuple_SetItem(key, k, Py_NewRef(words.key[k]));
    PyObject *known = PyDict_GetItemWithError(arguments[0], key);
    if (known == NULL && PyErr_Occurred()) {
        Py_DECREF(key);
        return NULL;
    }
    const Py_ssize_t first = known == NULL ? 2 : 1;
    PyObject *answer = PyTuple_New(first + words.found);
    if (answer != NULL) {
        PyTuple_SetItem(answer, 0, Py_NewRef(known == NULL ? Py_None : known));
        if (known == NULL) PyTuple_SetItem(answer, 1, Py_NewRef(key));
        for (Py_ssize_t k = 0; k < words.found; k++)
            PyTuple_SetItem(answer, first + k, Py_NewRef(words.arrays[k]));
    }
    Py_DECREF(key);
    return answer;
}
