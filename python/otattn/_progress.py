"""What a long call tells on its way, and how that ends it: `progress=` of `attention` and its like."""

from __future__ import annotations

import ctypes
import itertools
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np

from . import _structs as c


def now() -> int:
    """The nanosecond on the library's clock.

    time.monotonic is another clock on macOS, where it stands still while the machine sleeps, and on
    Windows before Python 3.13.
    """
    return time.perf_counter_ns() if sys.platform == "win32" else time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Progress(NamedTuple):
    """How far a solve has come."""

    heads_done: int
    """Heads (of all batches) that are finished."""
    heads: int
    """All of them."""
    round: int
    """The round of one head that is at work."""
    residual: float
    """What is left of its row and column error."""


_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(c.Progress))
_PREFIX = "progress:"
_numbers = itertools.count()
# Settings travel as text, so what watches a call is known by a word that is never used twice.
_known: weakref.WeakValueDictionary[str, Watch] = weakref.WeakValueDictionary()


class Watch:
    """The caller's function with the flag that ends the call; of one call, and of its derivatives."""

    def __init__(self, progress: Callable[[Progress], Any]) -> None:
        self._flag = ctypes.c_int(0)
        self._error: BaseException | None = None
        # The function must not hold the watch, which would hold itself.
        told = weakref.proxy(self)

        def tell(user: int | None, record: Any) -> None:
            del user
            told.tell(progress, record.contents)

        self._function = _FUNCTION(tell)
        self.word = f"{_PREFIX}{next(_numbers)}"
        _known[self.word] = self

    def tell(self, progress: Callable[[Progress], Any], record: Any) -> None:
        """Calls the function; False or an exception ends the call."""
        if self._flag.value:
            return
        try:
            going = progress(Progress(record.heads_done, record.heads, record.round, record.residual))
            # Comparisons of NumPy's numbers give its own False.
            self._flag.value = int(isinstance(going, (bool, np.bool_)) and not going)
        except BaseException as error:
            # No exception can cross the library: it is raised when the call has come back.
            self._error = error
            self._flag.value = 1

    def put(self, options: c.Options) -> None:
        """Into the options of a plan, which borrows it."""
        options.progress = ctypes.cast(self._function, ctypes.c_void_p).value
        options.cancel = ctypes.addressof(self._flag)

    def begin(self) -> None:
        """Before a call."""
        self._flag.value, self._error = 0, None

    def reraise(self) -> None:
        """Raises what the function raised."""
        error, self._error = self._error, None
        if error is not None:
            raise error


class Word(str):
    """The word of a watch in the settings of the call that made it, which it keeps alive."""

    __slots__ = ("watch",)
    watch: Watch


def word_of_progress(progress: Any) -> str:
    """The word of a function that is called on the way."""
    if not callable(progress):
        raise TypeError(f"progress is a {type(progress).__name__}, wanted a function of one otattn.Progress")
    watch = Watch(cast(Callable[[Progress], Any], progress))
    word = Word(watch.word)
    word.watch = watch
    return word


def watch_named(word: str | None) -> Watch | None:
    """The watch that a word stands for; None where there is none, or nobody has it any more."""
    return None if word is None else _known.get(str(word))
