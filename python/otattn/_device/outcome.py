"""What a call on tensors comes to: its solve, how that ended, and results by name."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .. import _structs as c
from .._certificate import Certificate
from .._errors import NotConverged, NotFinite, NotFiniteWarning, PartialWarning
from .._leaks import warn
from .._outcome import warn_of_masked
from .engines import Engine
from .entmax import Rows
from .judge import Judge
from .rules import marginals, next_rows
from .solver import Solution, begin, solve, tolerance_of
from .triton_engine import Kernels

# What a mask adds to pairs that its maker may have meant to forbid.
LOW = -1e4
# Names of results in the order of `Statistics`.
STATISTICS = ("row_entropy", "row_support", "row_max", "sink", "receiver")


class Found(NamedTuple):
    """A solved call."""

    engine: Engine
    solution: Solution
    f: Tensor
    out: Tensor | None
    row_lse: Tensor | None
    """LSE_j(S + g) with the sink, of softmax"""


def found_by(engine: Engine, names: Sequence[str]) -> Found:
    s = engine.scores
    if s.problem.regulariser == c.ENTMAX:
        out, f = engine.entmax() if isinstance(engine, Kernels) else Rows(s).forward()
        out = out if out is None else out.where(~s.spoiled[..., None], torch.nan)
        return Found(engine, Solution(engine, begin(engine), 0, None, c.OK), f, out, None)
    solution = solve(engine, measured="facts" in names)
    engine = solution.engine
    s = engine.scores
    m = marginals(s)
    lse: Tensor | None = None
    out = None
    values = s.given.get("value") if "out" in names else None
    if values is not None:
        mean, lse = engine.attend(solution.g, values)
        f = next_rows(lse, m)
        total = f + lse
        out = mean * torch.exp(total)[..., None]
        # A row without any pair gives 0; a finite row sum has the value of its values.
        out = out.where((total > -torch.inf)[..., None] | torch.isnan(total)[..., None], 0.0)
        out = out.where(~s.spoiled[..., None], torch.nan)
    else:
        lse = engine.lse(solution.g)
        f = next_rows(lse, m)
    if s.problem.columns != c.COLUMNS_FREE:
        # Coupled columns have no plan of such rows: the whole head is NaN.
        gone = torch.isnan(f).any(2, keepdim=True)
        f, g = f.where(~gone, torch.nan), solution.g.where(~gone, torch.nan)
        solution = solution._replace(g=g)
        out = out if out is None else out.where(~gone[..., None], torch.nan)
    if lse is not None and m.sink is not None:
        lse = torch.logaddexp(lse, m.sink.expand_as(lse))
    return Found(engine, solution, f, out, lse)


def settle(found: Found) -> tuple[int, int]:
    """Raises or warns as a solve ended; its status, and how many rows are NaN."""
    s, solution = found.engine.scores, found.solution
    spec = s.spec
    if s.device.type != "cpu" and solution.status != c.PARTIAL and not spec.strict:
        # Nothing waits for the device.
        return solution.status, 0
    lost = int(torch.isnan(found.f).sum())
    spoiled = int((torch.isnan(found.f) | s.spoiled).sum())
    if lost and (solution.status == c.PARTIAL or s.problem.columns != c.COLUMNS_FREE):
        sentence = "scores are NaN or infinite, and coupled columns have no plan of such"
        if spec.nonfinite == "nan":
            warn(f"{sentence}; its outputs are NaN", NotFiniteWarning)
            return c.NONFINITE_ROWS, lost
        raise NotFinite(
            sentence, Certificate(nonfinite_rows=lost), "look for NaN among query, key and biases"
        )
    if spoiled and spec.strict:
        raise NotFinite(
            f"{spoiled} rows met NaN or infinity",
            Certificate(nonfinite_rows=spoiled),
            "look for NaN among the inputs",
        )
    if spoiled and solution.status != c.PARTIAL:
        warn(f"{spoiled} rows met NaN or infinity and are NaN", NotFiniteWarning)
        return c.NONFINITE_ROWS, spoiled
    if solution.status != c.PARTIAL:
        if s.device.type == "cpu" or solution.status == c.OK:
            warn_of_masked(_masked_share(found))
        return solution.status, 0
    assert solution.error is not None
    sentence = (
        f"after {solution.rounds} rounds the columns are {float(solution.error.max()):.3g} off, "
        f"more than the tolerance {tolerance_of(found.engine):g}"
    )
    if spec.allow_partial:
        warn(sentence, PartialWarning)
        return c.PARTIAL, 0
    raise NotConverged(
        sentence,
        Judge(s, found.f, solution.g).certificate(),
        "raise max_rounds, tolerance or the temperature, or set allow_partial=True",
    )


def _masked_share(found: Found) -> float:
    """The mass on pairs to which a mask or bias adds -1e4 or less, over all mass, of coupled columns."""
    s = found.engine.scores
    low = [x for x in (s.given.get(name) for name in ("bias", "attn_mask")) if x is not None]
    if s.problem.columns == c.COLUMNS_FREE or not any(bool((x <= LOW).any()) for x in low):
        return 0.0
    judge, total, masked = Judge(s, found.f, found.solution.g), 0.0, 0.0
    for rows in s.slices():
        p = judge.plan(rows)[1][..., :-1]
        far = [(x if x.shape[2] == 1 else x[:, :, rows])[..., s.keys(rows)] <= LOW for x in low]
        total += float(p.sum())
        masked += float(p.where(functools.reduce(torch.logical_or, far), 0.0).sum())
    return masked / total if total > 0.0 else 0.0


class Results:
    """Results of a solved call by name."""

    def __init__(self, found: Found, lost: int) -> None:
        self.found, self.lost = found, lost
        self.judge = Judge(found.engine.scores, found.f, found.solution.g)

    def result(self, name: str) -> Tensor:
        found, s = self.found, self.found.engine.scores
        tau = s.tau(s.given)
        if name == "out":
            assert found.out is not None
            return found.out
        if name == "row_potential":
            potential: Tensor = (found.f if s.common is None else found.f - s.common) * tau
            return potential
        if name == "column_potential":
            # What no query may use has none.
            columns: Tensor = found.solution.g * tau
            return columns.where(s.usable[1], 0.0)
        if name == "coupling":
            return self.judge.coupling()
        if name == "lse":
            # Of softmax only.
            if found.row_lse is None:
                return torch.full_like(found.f, torch.nan)
            return found.row_lse if s.common is None else found.row_lse + s.common
        return self.judge.statistics[STATISTICS.index(name)]

    def facts(self, status: int, judged: bool) -> Tensor:
        solution = self.found.solution
        error = 0.0 if solution.error is None else float(solution.error.max())
        certificate = self.judge.certificate() if judged else Certificate()
        empty = int((~self.judge.open).sum())
        words = {c.OK: 0, c.FIXED_ITERS: 1, c.PARTIAL: 2, c.NONFINITE_ROWS: 3}
        record = [words[status], solution.rounds, 0.0, error, empty, self.lost, *certificate]
        return torch.tensor(record, dtype=torch.float64)
