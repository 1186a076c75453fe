"""Experts of tokens beside the loops in torch that the literature describes, on logits with popular experts.

Sinkhorn's error is the share of tokens whose experts differ. The peer of the exact assignment is SciPy's
matching with an expert repeated for each of its places, one expert a token: the error is in the value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from otattn.moe import route
from pairs import Pair, Prepared
from scipy.optimize import linear_sum_assignment

TOKENS = 4096
# Of the exact assignment, where SciPy takes a matrix of tokens x tokens.
FEWER = 1024


def logits_of(experts: int) -> Any:
    rng = np.random.default_rng(0)
    return (rng.standard_normal((TOKENS, experts)) + rng.standard_normal(experts)).astype(np.float32)


def recipe(logits: Any, k: int) -> Any:
    """Rows, columns, until the mean change of the column scaling is 1e-4; the k largest scaled entries."""
    kernel = logits.exp()
    columns, change = torch.ones(kernel.shape[1]), float("inf")
    while change > 1e-4:
        rows = 1.0 / (len(kernel) * ((kernel * columns).sum(1) + 1e-8))
        after = 1.0 / (kernel.shape[1] * ((kernel * rows[:, None]).sum(0) + 1e-8))
        change, columns = float((after - columns).abs().mean()), after
    experts = (rows[:, None] * kernel * columns).topk(k, 1).indices
    whole = logits.sigmoid() if k == 1 else logits.softmax(1)
    return experts, whole.gather(1, experts)


def sinkhorn(experts: int, k: int) -> Prepared:
    logits = torch.from_numpy(logits_of(experts))

    def error(mine: Any, other: Any) -> float:
        return float((mine.experts != other[0].sort(1).values).any(1).double().mean())

    return (
        lambda: route(logits, k, method="sinkhorn", certificate=False),
        lambda: recipe(logits, k),
        error,
    )


def exact(experts: int) -> Prepared:
    logits = logits_of(experts)[:FEWER]

    def theirs() -> float:
        repeated = np.repeat(logits, FEWER // experts, 1)
        rows, places = linear_sum_assignment(repeated, maximize=True)
        return float(repeated[rows, places].sum(dtype=np.float64))

    def error(mine: Any, other: float) -> float:
        return abs(mine.certificate.value - other) / abs(other)

    return lambda: route(logits, 1, certificate=False), theirs, error


def sinkhorn_row(experts: int, k: int) -> Pair:
    shape = f"{TOKENS} x {experts}, k = {k}"
    return Pair("moe sinkhorn", shape, "torch recipe", lambda: sinkhorn(experts, k), 1e-3)


ROWS = [
    *(sinkhorn_row(experts, k) for experts in (64, 256) for k in (1, 2, 8)),
    Pair("moe base", f"{FEWER} x 64, k = 1", "SciPy", lambda: exact(64), 1e-9),
]
