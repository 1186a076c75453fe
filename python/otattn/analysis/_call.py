"""How the functions here reach the library: arrays checked by letters of dimensions, records as results."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np

from .. import _native
from .. import _structs as c
from .._errors import new_error, raise_status, status_word
from .._library import CANCEL, library
from .._settings import shown
from .._shapes import dense, summary


class Record:
    """Named figures of one call; `as_dict` gives them by name.

    Examples
    --------
    >>> from otattn import analysis
    >>> analysis.Record(first=1.0, second=0.5)
    Record(first=1.0, second=0.5)
    """

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"this record has no {name!r}, only {', '.join(self.__dict__)}")

    def as_dict(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __repr__(self) -> str:
        return f"Record({', '.join(f'{name}={summary(value)}' for name, value in self.__dict__.items())})"


class Dims:
    """Sizes by letter: the first array with a letter sets it, later ones must agree."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}

    def __call__(self, name: str, x: Any, letters: str, *, single: bool = False) -> Any:
        """A dense f64 array (f32 stays with `single`) whose dimensions are the words of `letters`."""
        x = np.asarray(x.detach() if hasattr(x, "detach") else dense(name, x))
        if x.dtype.kind not in "fiub":
            raise TypeError(f"{name} has type {x.dtype}, wanted numbers")
        words = letters.split()
        wanted = [self.sizes.get(word, size) for word, size in itertools.zip_longest(words, x.shape)]
        if x.ndim != len(words) or list(x.shape) != wanted:
            sizes = ", ".join(f"{word}={self.sizes[word]}" if word in self.sizes else word for word in words)
            raise ValueError(f"{name} has shape {x.shape}, wanted ({sizes})")
        self.sizes.update(zip(words, x.shape, strict=True))
        dtype = np.float32 if single and x.dtype == np.float32 else np.float64
        return np.ascontiguousarray(x, dtype)

    def __getitem__(self, letter: str) -> int:
        return self.sizes[letter]


def two(dims: Dims, first: tuple[str, Any], second: tuple[str, Any], letters: str) -> tuple[Any, Any, int]:
    """Two arrays of one type, f32 only if both are; the third result is that type's number."""
    a = dims(*first, letters, single=True)
    b = None if second[1] is None else dims(*second, letters, single=True)
    if b is not None and a.dtype != b.dtype:
        a, b = a.astype(np.float64), b.astype(np.float64)
    return a, b, c.F32 if a.dtype == np.float32 else c.F64


def _argument(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return x.ctypes.data
    if isinstance(x, (ctypes.Structure, ctypes._SimpleCData)):
        return ctypes.byref(x)
    return x


def call(name: str, *arguments: Any, accept: tuple[int, ...] = (), of: str = "") -> int:
    """Calls ota_NAME with an error record behind the arguments; raises for a status not accepted.

    `of` is the argument that the sentence is about, where the library calls it otherwise.
    """
    error, reference = new_error()
    status: int = plain(name, *(_argument(x) for x in arguments), error=reference)
    if status < 0 and status not in accept:
        raise_status(status, error, argument=of or error.field.decode())
    return status


# What every call that may be long is told: Ctrl-C raises the flag.
_OPTIONS = c.AnalysisOptions(size=ctypes.sizeof(c.AnalysisOptions), cancel=CANCEL)


def plain(name: str, *arguments: Any, error: Any = None) -> Any:
    """What ota_NAME returns, called with options, where it takes them, and `error` behind; Ctrl-C ends it."""
    if "o" in c.CALLS[f"ota_{name}"].split()[0]:
        arguments += (ctypes.byref(_OPTIONS),)
    if error is not None:
        arguments += (error,)
    try:
        return _native.watched(getattr(library, f"ota_{name}"), *arguments)
    except ctypes.ArgumentError:
        raise _not_a_number(f"ota_{name}", arguments) from None


def _not_a_number(name: str, arguments: tuple[Any, ...]) -> TypeError:
    """Of the arguments of a call those that ctypes would not take, by the header's names."""
    letters, *names = c.CALLS[name].split()
    given = [x for letter, x in zip(letters[1:], arguments, strict=True) if letter in "izld"]
    kinds = [kind for kind in letters[1:] if kind in "izld"]
    said = [
        f"{wanted} is {shown(x)}, wanted a {'' if kind == 'd' else 'whole '}number"
        for wanted, kind, x in zip(names, kinds, given, strict=True)
        if not isinstance(x, (int, float) if kind == "d" else int)
    ]
    return TypeError("; ".join(said))


def matrix_of(x: Any) -> Any:
    """An array (rows, columns) of f32 or f64, borrowed."""
    kind = c.F32 if x.dtype == np.float32 else c.F64
    return c.Matrix(data=x.ctypes.data, type=kind, rows=x.shape[0], columns=x.shape[1])


def record(struct: ctypes.Structure, **more: Any) -> Record:
    """The numbers of a result struct, its status as a word."""
    fields = {}
    for field in struct._fields_:
        value: Any = getattr(struct, field[0])
        if isinstance(value, bytes):
            value = value.decode()
        elif field[0] == "status":
            value = status_word(value)
        fields[field[0]] = value
    return Record(**fields, **more)


def found_of(name: str, *arguments: Any, of: str = "") -> float:
    """A call whose last argument is one double that it fills."""
    found = ctypes.c_double()
    call(name, *arguments, found, of=of)
    return found.value


def choice(name: str, value: str, table: dict[str, int]) -> int:
    if not isinstance(value, str) or value not in table:
        raise ValueError(f"{name} is {shown(value)}, wanted one of {', '.join(table)}")
    return table[value]
