"""What the library's statuses become in Python: one exception class a kind of failure."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from . import _structs as c
from ._library import library
from ._settings import ARGUMENTS

if TYPE_CHECKING:
    from ._certificate import Certificate


class SolveError(ArithmeticError):
    """A problem was well stated and has no trustworthy answer; the base of the classes below.

    Attributes
    ----------
    certificate : Certificate or None
        How far the solve came (numbers that do not exist are NaN).
    advice : str
        One line: what to do about it.
    """

    def __init__(self, message: str, certificate: Certificate | None = None, advice: str = "") -> None:
        super().__init__(f"{message}; {advice}" if advice else message)
        self.certificate = certificate
        self.advice = advice


class NotConverged(SolveError):
    """The rounds ran out before the tolerance was met, or the tolerance lies below what f64 can reach."""


class Infeasible(SolveError):
    """No plan meets the masses on this support."""


class NotFinite(SolveError):
    """A coupled method, or strict mode, met NaN or infinity."""


class NotDifferentiable(SolveError):
    """The plan jumps where the scores change, so it has no derivative."""


class PartialWarning(UserWarning):
    """A plan that did not converge was returned because `allow_partial` was set."""


class NotFiniteWarning(RuntimeWarning):
    """Some rows met NaN or infinity and are NaN; the others are right."""


# What the library's remedies point to : where that is found from Python.
_REMEDIES = {
    "doctor lists the backends": "otattn.backends() lists them",
    "doctor lists the solvers": "otattn.solvers() lists them",
    "doctor lists the levels of this machine": "otattn.kernels() lists those of this machine",
    "use a name of ota_kernel_name": "otattn.kernels() lists those of this machine",
    "see the list of braces options in 'help methods'": "docs/users/methods.md lists them",
    "see 'help methods'": "see docs/users/methods.md",
    "see the method table": "see docs/users/methods.md",
}
_CLASSES: dict[int, type[Exception]] = {
    c.ENOMEM: MemoryError,
    c.ELIMIT: MemoryError,
    c.NOT_CONVERGED: NotConverged,
    c.TOL_UNREACHABLE: NotConverged,
    c.INFEASIBLE: Infeasible,
    c.NONFINITE: NotFinite,
    c.NOT_DIFFERENTIABLE: NotDifferentiable,
    c.CANCELLED: InterruptedError,
    c.TIMEOUT: TimeoutError,
    c.EINTERNAL: RuntimeError,
}


@functools.cache
def status_word(status: int) -> str:
    """The status in one word: "ok", "fixed_iters", "not_converged", ..."""
    word: bytes = library.ota_status_word(status)
    return word.decode()


def raise_status(
    status: int, error: c.Error, certificate: Any = None, sentence: str = "", argument: str = ""
) -> NoReturn:
    """Raises what a negative status means, with the library's own sentence."""
    field = error.field.decode()
    message = error.message.decode() or sentence
    hint: str = error.hint.decode()
    hint = _REMEDIES.get(hint, hint)
    if not message:
        text: bytes = library.ota_status_text(status)
        message = text.decode()
    kind = _CLASSES.get(status, ValueError)
    if issubclass(kind, SolveError):
        raise kind(message, certificate, hint)
    argument = argument or ARGUMENTS.get(field) or field
    # A sentence about the field is one about the argument.
    message = re.sub(rf"^{re.escape(field)}(?=\[| is | has )", argument, message) if field else message
    if argument and not re.search(rf"(?<!\w){re.escape(argument)}(?!\w)", message):
        message = f"{argument}: {message}"
    raise kind(f"{message}; {hint}" if hint else message)


def check(status: int, error: c.Error) -> int:
    """Raises for a negative status and returns the others."""
    if status < 0:
        raise_status(status, error)
    return status


def finished(found: int | tuple[int, bytes], fail: Callable[[int, c.Error], NoReturn] = raise_status) -> int:
    """The status of a call of the library by `_native`; `fail` raises a negative one."""
    if isinstance(found, tuple):
        fail(found[0], c.Error.from_buffer_copy(found[1]))
    return found


def new_error() -> tuple[c.Error, Any]:
    """An empty error record and a reference to it for a call."""
    error = c.Error()
    return error, ctypes.byref(error)
