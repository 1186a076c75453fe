"""Loads the C library and declares its calls from the generated table.

ctypes releases the interpreter lock during every call. Calls that may be long have `CANCEL` as `cancel`, that
Ctrl-C raises, and are made by the extension, but for those of models and of the analysis.
"""

import ctypes
import functools
import sys
from pathlib import Path
from typing import Any

from . import _native
from ._structs import CALLS, Array

# What the build made and installed lies beside the compiled module, which in an editable install is another
# folder than that of the Python files.
FOLDER = Path(_native.__file__).parent

# The address of the flag that Ctrl-C raises during a call.
CANCEL: int = _native.cancel()

_TYPES = {
    "n": None,
    "a": Array,
    "b": ctypes.c_bool,
    "i": ctypes.c_int,
    "u": ctypes.c_uint,
    "l": ctypes.c_int64,
    "z": ctypes.c_size_t,
    "d": ctypes.c_double,
    "s": ctypes.c_char_p,
    "p": ctypes.c_void_p,
    "o": ctypes.c_void_p,
}


def file_of(name: str) -> Path:
    """A library of the package."""
    return FOLDER / f"lib{name}{({'win32': '.dll', 'darwin': '.dylib'}).get(sys.platform, '.so')}"


def load(
    name: str, calls: dict[str, str], long: tuple[str, ...] = (), more: dict[str, Any] | None = None
) -> ctypes.CDLL:
    """A library of the package with its calls declared: types by letters, of which `more` are its own.

    Ctrl-C ends the `long` ones.
    """
    path = file_of(name)
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(f"otattn cannot load its library {path}: {error}; reinstall the package") from error
    types = {**_TYPES, **(more or {})}
    for call_name, words in calls.items():
        letters = words.partition(" ")[0]
        call = getattr(loaded, call_name)
        call.restype = types[letters[0]]
        call.argtypes = [types[letter] for letter in letters[1:]]
    for call_name in long:
        setattr(loaded, call_name, functools.partial(_native.watched, getattr(loaded, call_name)))
    return loaded


library = load("otattn_python", CALLS)


def names_of(call: Any) -> list[str]:
    """All names that a call of the library gives by their numbers."""
    found: list[str] = []
    while (name := call(len(found))) is not None:
        found.append(name.decode())
    return found
