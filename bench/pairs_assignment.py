"""Assignment beside SciPy and lap: single calls from 5 x 5 on, and batches beside a loop of theirs."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lap
import numpy as np
import otattn
from pairs import Pair, Prepared
from scipy.optimize import linear_sum_assignment

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import tracking

SIZES = [(5, 5), (10, 10), (30, 30), (100, 100), (300, 300), (1000, 1000)]
SIZES += [(20, 300), (50, 300), (300, 900), (1000, 4000)]
BATCHES = [(10, 10), (30, 30), (20, 300)]
COUNT = 1000


def uniform(batch: int, rows: int, columns: int) -> Any:
    return np.random.default_rng(0).random((batch, rows, columns))


def integers(batch: int, rows: int, columns: int) -> Any:
    """Whole numbers from 1 to 99, among which most are equal to many others."""
    return np.random.default_rng(0).integers(1, 100, (batch, rows, columns)).astype(float)


def boxes(batch: int, rows: int, columns: int) -> Any:
    """1 - intersection over union of boxes that moved a little and new ones, as a tracker has them."""
    rng = np.random.default_rng(0)
    corner = rng.random((batch, max(rows, columns), 2))
    size = 0.02 + 0.1 * rng.random(corner.shape)
    moved = corner + 0.01 * rng.standard_normal(corner.shape)
    low = np.maximum(corner[:, :rows, None], moved[:, None, :columns])
    high = np.minimum((corner + size)[:, :rows, None], (moved + size)[:, None, :columns])
    shared = np.clip(high - low, 0, None).prod(-1)
    area = size.prod(-1)
    return 1 - shared / (area[:, :rows, None] + area[:, None, :columns] - shared)


@functools.cache
def _detections(frames: int, points: int) -> Any:
    return tracking.sequence("china.jpg", frames, points)[0]


def photograph(batch: int, rows: int, columns: int) -> Any:
    """Overlap and likeness of corners in frames of a camera that pans over a photograph."""
    frames = _detections(batch + 1, max(rows, columns))
    whole = [tracking.costs_of(*pair) for pair in itertools.pairwise(frames)]
    return np.stack([cost[:rows, :columns] for cost in whole])


def total(costs: Any, answers: Any) -> float:
    """The sum of costs of the pairs of all problems."""
    rows, columns = answers
    batch = np.arange(len(costs))[:, None]
    return float(
        costs[batch, np.reshape(rows, (len(costs), -1)), np.reshape(columns, (len(costs), -1))].sum()
    )


def by_lap(cost: Any) -> Any:
    x, _ = lap.lapjv(cost, extend_cost=True, return_cost=False)
    return np.flatnonzero(x >= 0), x[x >= 0]


def prepare(
    make: Callable[..., Any], peer: Callable[[Any], Any], batch: int, shape: tuple[int, int]
) -> Prepared:
    costs = make(batch, *shape)

    def error(mine: Any, other: Any) -> float:
        pairs = other if batch == 1 else ([x[0] for x in other], [x[1] for x in other])
        best = total(costs, pairs)
        return abs(total(costs, mine) - best) / best

    if batch > 1:
        return lambda: otattn.linear_sum_assignment(costs), lambda: [peer(cost) for cost in costs], error
    cost = costs[0]
    return lambda: otattn.linear_sum_assignment(cost), lambda: peer(cost), error


PEERS = {"SciPy": linear_sum_assignment, "lap": by_lap}
PHOTOGRAPH = "assignment, photograph"
INTEGERS = "assignment, integers"
KINDS = {
    "assignment, uniform": uniform,
    INTEGERS: integers,
    "assignment, boxes": boxes,
    PHOTOGRAPH: photograph,
}
# Frames have some 400 corners, and take longer than their matchings.
FEW = {PHOTOGRAPH: {1: [(10, 10), (30, 30), (100, 100), (300, 300), (20, 300)], 100: [(30, 30), (100, 100)]}}
# Ties are what a large problem is slow by.
FEW[INTEGERS] = {1: [(1000, 1000), (2000, 2000)]}
ROWS = [
    Pair(
        kind,
        f"{n}x{m}" if batch == 1 else f"{batch} of {n}x{m}",
        peer if batch == 1 else f"a loop of {peer}",
        lambda kind=kind, peer=peer, batch=batch, n=n, m=m: prepare(KINDS[kind], PEERS[peer], batch, (n, m)),
        1e-10,
    )
    for kind in KINDS
    for batch, sizes in FEW.get(kind, {1: SIZES, COUNT: BATCHES}).items()
    for n, m in sizes
    for peer in PEERS
]
