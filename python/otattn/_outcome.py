"""What a solve found out, and what becomes of its status."""

from __future__ import annotations

from collections.abc import Callable

from . import _structs as c
from ._certificate import Certificate
from ._errors import NotFiniteWarning, PartialWarning, raise_status
from ._handle import Handle
from ._job import Job
from ._leaks import warn


class Info:
    """What a solve found out: status, rounds and errors from the solver's own sums."""

    __slots__ = (
        "column_error",
        "empty_rows",
        "nonfinite_rows",
        "rounds",
        "row_error",
        "status",
    )

    def __init__(
        self,
        status: str,
        rounds: int,
        row_error: float,
        column_error: float,
        empty_rows: int,
        nonfinite_rows: int,
    ) -> None:
        self.status = status
        """One word: "ok", "fixed_iters", "partial" or "nonfinite_rows"."""
        self.rounds = rounds
        self.row_error = row_error
        self.column_error = column_error
        self.empty_rows = empty_rows
        self.nonfinite_rows = nonfinite_rows

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"Info({fields})"


def settle(job: Job, handle: Handle, status: int, judged: Callable[[], Certificate]) -> None:
    """Raises or warns as the status of a solve asks. `judged` gives the judge's word on what it wrote."""
    if status in (c.OK, c.FIXED_ITERS):
        return
    sentence = handle.result.sentence.decode()
    if status == c.PARTIAL:
        if job.spec.allow_partial:
            warn(sentence or "the plan did not converge", PartialWarning)
            return
        handle.error.field = b""
        handle.error.message = sentence.encode()[:511]
        handle.error.hint = b"raise max_rounds, tolerance or the temperature, or set allow_partial=True"
        raise_status(c.NOT_CONVERGED, handle.error, _certificate_or_errors(handle, judged))
    if status == c.NONFINITE_ROWS:
        rows = handle.result.nonfinite_rows
        warn(f"{rows} rows met NaN or infinity and are NaN", NotFiniteWarning)
        return
    if status == c.NONFINITE and job.spec.nonfinite == "nan":
        warn(f"{sentence or 'scores are not finite'}; its outputs are NaN", NotFiniteWarning)
        return
    certificate = None
    if status in (c.INFEASIBLE, c.NOT_CONVERGED, c.TOL_UNREACHABLE, c.NONFINITE):
        certificate = errors_only(handle)
    raise_status(status, handle.error, certificate, sentence)


# Share of the mass on pairs that a mask takes far down from which on a plan is told of.
LEAST_MASKED_SHARE = 1e-6


def warn_of_masked(share: float) -> None:
    """Warns of mass on pairs whose mask or bias stands for "forbidden" by a number that does not forbid."""
    if share > LEAST_MASKED_SHARE:
        warn(
            "the columns put mass on pairs to which the mask or bias adds -1e4 or less: a number is no "
            "prohibition; a boolean mask, -inf or finfo(dtype).min is",
            UserWarning,
        )


def errors_only(handle: Handle) -> Certificate:
    result = handle.result
    return Certificate(
        row_error=result.row_error,
        column_error=result.column_error,
        empty_rows=result.empty_rows,
        nonfinite_rows=result.nonfinite_rows,
    )


def _certificate_or_errors(handle: Handle, judged: Callable[[], Certificate]) -> Certificate:
    try:
        return judged()
    except (ValueError, ArithmeticError, TimeoutError):
        return errors_only(handle)
