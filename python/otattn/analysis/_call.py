"""How the functions here reach the library: arrays checked by letters of dimensions, records as results."""

from __future__ import annotations

import ctypes
import itertools
import sys
from typing import Any

import numpy as np

from .. import _structs as c
from .._errors import new_error, raise_status, status_word
from .._library import library


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
        return f"Record({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"


class Dims:
    """Sizes by letter: the first array with a letter sets it, later ones must agree."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}

    def __call__(self, name: str, x: Any, letters: str, *, single: bool = False) -> Any:
        """A dense f64 array (f32 stays with `single`) whose dimensions are the words of `letters`."""
        x = np.asarray(x.detach() if hasattr(x, "detach") else x)
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
    try:
        status: int = getattr(library, f"ota_{name}")(*(_argument(x) for x in arguments), reference)
    except ctypes.ArgumentError:
        raise _not_a_number() from None
    if status < 0 and status not in accept:
        given = _given()
        sentence = error.message.decode()
        about = "" if any(name in sentence for name in given) else ", ".join(_arrays_of(given))
        raise_status(status, error, argument=of or about or error.field.decode())
    return status


def plain(name: str, *arguments: Any) -> Any:
    """Calls ota_NAME, which cannot fail, and returns what it returns."""
    try:
        return getattr(library, f"ota_{name}")(*arguments)
    except ctypes.ArgumentError:
        raise _not_a_number() from None


def _not_a_number() -> TypeError:
    """Names the arguments of the public function that are no numbers, where the call refused one."""
    given = _given()
    said = [
        f"{name} is {value!r}"
        for name, value in given.items()
        if not isinstance(value, (int, float, np.number)) and not hasattr(value, "shape")
    ]
    return TypeError(f"{', '.join(said) or ', '.join(given)}: wanted numbers that fit the library's types")


def _given() -> dict[str, Any]:
    """The parameters of the public function whose call this is, for a sentence about one of them."""
    frame = sys._getframe(1)
    code = frame.f_code
    while frame.f_back is not None and (code.co_name.startswith("_") or frame.f_globals is globals()):
        frame = frame.f_back
        code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return {name: frame.f_locals.get(name) for name in names if name != "self"}


def _arrays_of(given: dict[str, Any]) -> list[str]:
    return [name for name, value in given.items() if isinstance(value, np.ndarray)] or list(given)


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


def number(name: str, *arguments: Any, of: str = "") -> float:
    """A call whose last argument is one double that it fills."""
    found = ctypes.c_double()
    call(name, *arguments, found, of=of)
    return found.value


def choice(name: str, value: str, table: dict[str, int]) -> int:
    if value not in table:
        raise ValueError(f"{name} is {value!r}, wanted one of {', '.join(table)}")
    return table[value]
