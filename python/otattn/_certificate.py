"""The certificate of a plan: how well it solves its problem, recomputed by code apart from the solvers."""

from __future__ import annotations

import math
from typing import NamedTuple


class Certificate(NamedTuple):
    """How well a plan solves its problem; a number that does not exist is NaN.

    Over heads: the largest errors, gap, delta and receiver_max, the smallest receiver_min and minimum, means
    of entropy and support, sums of primal, dual and value. The definitions are those of `ota_certificate`
    in otattn.h.
    """

    row_error: float = math.nan
    """Sum of `|row sum - its mass|` over the total mass (stationarity if rows are relaxed)."""
    column_error: float = math.nan
    """The same of columns: their violated part for caps, the distance to equal masses for free columns."""
    primal: float = math.nan
    """Objective of the plan, in units of the scores."""
    dual: float = math.nan
    """Objective of the potentials; NaN for elastic, prefix and online columns."""
    gap: float = math.nan
    """primal - dual."""
    value: float = math.nan
    """Transport cost minus temperature times entropy."""
    entropy: float = math.nan
    """Mean entropy of a row, in nats."""
    support: float = math.nan
    """Mean number of positive weights of a row."""
    receiver_max: float = math.nan
    """Largest column sum, in units of total mass / keys that mass may reach."""
    receiver_min: float = math.nan
    """Smallest column sum of such a key, in the same units."""
    delta: float = math.nan
    """Largest distance of a column sum from its mass, in the same units."""
    minimum: float = math.nan
    """Smallest weight on the support."""
    outside: float = math.nan
    """Largest weight outside the support, which must be 0."""
    empty_rows: int = 0
    """Rows without any allowed pair."""
    nonfinite_rows: int = 0
    """Rows that met NaN or infinity."""

    def __repr__(self) -> str:
        there = ", ".join(f"{name}={x!r}" for name, x in self.as_dict().items() if not math.isnan(x))
        return f"Certificate({there})"

    def as_dict(self) -> dict[str, float]:
        """The fields by name."""
        return dict(zip(self._fields, self, strict=True))

    def _repr_html_(self) -> str:
        cells = "".join(f"<tr><th>{name}</th><td>{x:.6g}</td></tr>" for name, x in self.as_dict().items())
        return f"<table>{cells}</table>"


def certificate_from_values(values: list[float]) -> Certificate:
    numbers = dict(zip(Certificate._fields, values, strict=True))
    counts = {name: int(numbers.pop(name)) for name in ("empty_rows", "nonfinite_rows")}
    return Certificate(**numbers, **counts)  # type: ignore[arg-type]
