"""A regulariser of the caller's: R(P) = sum_ij Omega(P_ij), given by the functions that the rows need."""

from __future__ import annotations

import ctypes
import itertools
import math
import weakref
from collections.abc import Callable
from typing import Any, cast

from . import _structs as c
from ._library import CANCEL
from ._progress import now
from ._settings import shown

_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p, ctypes.c_double)
_PREFIX = "custom:"
_numbers = itertools.count()
# Settings travel as text, so a regulariser is known by a word that is never used twice.
_known: weakref.WeakValueDictionary[str, Regulariser] = weakref.WeakValueDictionary()


# Calls from several threads may use one regulariser at once: each is known by a number in custom.user.
_calls: weakref.WeakValueDictionary[int, Failure] = weakref.WeakValueDictionary()


# Those that have ended: until the library has come back, every function gives NaN at once.
_ended: set[int | None] = set()
# Not 0 from Ctrl-C on, until the call that it ends has come back.
_interrupted = ctypes.c_int.from_address(CANCEL)
# Calls of a function between two looks at the clock, less 1.
_LOOKS = 7


class Failure:
    """What ended functions inside of the library during one caller's calls: an exception, or the deadline."""

    def __init__(self, problem: c.Problem) -> None:
        self.error: BaseException | None = None
        self.until = 0
        """When the call has to end, on the library's clock; 0: never."""
        problem.custom.user = self._number = next(_numbers) + 1
        _calls[self._number] = self

    def look(self) -> None:
        """Raises past the deadline."""
        if self.until and now() > self.until:
            raise TimeoutError("The deadline passed before the run was done.")

    def end(self, error: BaseException) -> None:
        # No exception can cross the library: it is raised when the call has come back.
        _ended.add(self._number)
        if self.error is None:
            self.error = error

    def reraise(self) -> None:
        error, self.error = self.error, None
        _ended.discard(self._number)
        if error is not None:
            raise error


class Regulariser:
    """A separable regulariser for `method=`: weights are ``weight((S_ij + f_i) / temperature)``.

    P minimises ``sum P C + temperature sum Omega(P_ij)`` with row sums fixed and columns free, f_i being what
    meets the row's mass; masks, biases, sinks and gradients work as with any method. [LIT-34]

    Parameters
    ----------
    weight : function of a float
        The inverse of Omega', clipped at 0: never negative, never falling, continuous, for any finite
        argument. Argument and result are pure numbers (score over temperature, mass).
    slope : function of a float
        The derivative of `weight`, 0 where that is clipped. Only derivatives use it.
    value : function of a float, optional
        Omega(p) up to a constant, for p >= 0. Without it the certificate has no primal, dual and gap.

    Notes
    -----
    The functions are called for every pair, several times a solve and from several threads, one at a time.
    A function compiled by ``numba.cfunc`` as ``float64(voidptr, float64)``, or a ctypes function
    of that type, is called without Python between.

    Raises
    ------
    TypeError
        What is given cannot be called.
    ValueError
        At the first solve, when a sample of arguments shows that `weight` is negative, falls or jumps.
    Exception
        Whatever the functions raise leaves the call that used them.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> sparse = otattn.Regulariser(lambda x: max(x, 0.0), lambda x: float(x > 0.0), lambda p: p * p / 2)
    >>> otattn.coupling(np.array([[1.0, 0.5, -2.0]]), method=sparse)
    array([[0.75, 0.25, 0.  ]])
    """

    def __init__(
        self,
        weight: Callable[[float], float],
        slope: Callable[[float], float],
        value: Callable[[float], float] | None = None,
    ) -> None:
        self._functions = [self._compiled("weight", weight), self._compiled("slope", slope)]
        self._functions.append(_FUNCTION() if value is None else self._compiled("value", value))
        self.word = f"{_PREFIX}{next(_numbers)}"
        """What stands for it in settings."""
        _known[self.word] = self

    def _compiled(self, name: str, function: Any) -> Any:
        if isinstance(function, _FUNCTION):
            return function
        if isinstance(address := getattr(function, "address", None), int):
            # A callback of numba.
            return _FUNCTION(address)
        if not callable(function):
            raise TypeError(f"{name} is a {type(function).__name__}, wanted a function of a float")

        plain = cast(Callable[[float], float], function)
        count = itertools.count().__next__

        def call(user: int | None, x: float) -> float:
            if user in _ended or _interrupted.value:
                return math.nan
            try:
                if not count() & _LOOKS and (watched := _calls.get(user or 0)) is not None:
                    watched.look()
                found = plain(x)
                try:
                    return float(found)
                except (TypeError, ValueError, OverflowError) as error:
                    raise TypeError(f"{name} gave {shown(found)}, wanted a number") from error
            except BaseException as error:
                if (failure := _calls.get(user or 0)) is not None:
                    failure.end(error)
                return math.nan

        return _FUNCTION(call)

    def fill(self, problem: c.Problem) -> None:
        """Makes it the regulariser of a problem, which does not keep it alive."""
        problem.regulariser = c.CUSTOM
        for name, function in zip(("weight", "slope", "value"), self._functions, strict=True):
            setattr(problem.custom, name, ctypes.cast(function, ctypes.c_void_p).value)

    def __repr__(self) -> str:
        return f"<otattn.Regulariser {self.word}>"

    def __copy__(self) -> Regulariser:
        return self

    def __deepcopy__(self, memo: Any) -> Regulariser:
        return self

    def __reduce__(self) -> Any:
        raise TypeError(f"{self!r} has functions of this process, so it cannot be pickled")


def is_word(method: str) -> bool:
    """Whether a method is the word of a regulariser."""
    return method.startswith(_PREFIX)


def regulariser_named(word: str) -> Regulariser | None:
    """The regulariser that a method's word stands for; None where the word is one of the library's."""
    if not word.startswith(_PREFIX):
        return None
    found = _known.get(word)
    if found is None:
        raise ValueError(f"method is {word!r}, whose Regulariser no longer exists")
    return found
