"""Assignment beside SciPy, lap, lapx, lapcpp, laprust and fastlap: single calls from 5 x 5 on, and batches.

Also the k cheapest matchings and those whose dearest pair is cheapest, beside fastlap's. lapx is a module
`lap`, too, and holds lap's solver beside its own, so it stands in its place, in a folder of its own.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastlap
import lapcpp
import laprust
import numpy as np
import otattn
from pairs import Pair, Prepared
from scipy.optimize import linear_sum_assignment

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "build" / "lapx"))
import lap  # noqa: E402

sys.path.insert(0, str(ROOT / "examples"))
import tracking  # noqa: E402

SIZES = [(5, 5), (10, 10), (30, 30), (100, 100), (300, 300), (1000, 1000)]
SIZES += [(20, 300), (50, 300), (300, 900), (1000, 4000)]
LARGE = [(1000, 1000), (1448, 1448), (1449, 1449), (2000, 2000), (4000, 4000)]
ROOMY = [(1500, 1600), (2000, 3500)]
BATCHES = [(5, 5), (10, 10), (30, 30), (20, 300)]
COUNT = 1000


def uniform(batch: int, rows: int, columns: int) -> Any:
    return np.random.default_rng(0).random((batch, rows, columns))


def integers(batch: int, rows: int, columns: int) -> Any:
    """Whole numbers from 1 to 99, among which most are equal to many others."""
    return np.random.default_rng(0).integers(1, 100, (batch, rows, columns)).astype(float)


def zero_one(batch: int, rows: int, columns: int) -> Any:
    return np.random.default_rng(0).integers(0, 2, (batch, rows, columns)).astype(float)


def few_zeros(batch: int, rows: int, columns: int) -> Any:
    """1 but for four pairs of a row, on average, that cost nothing."""
    return (np.random.default_rng(0).random((batch, rows, columns)) >= 4.0 / columns).astype(float)


def sparse(batch: int, rows: int, columns: int) -> Any:
    """A twentieth of the pairs and a permutation are allowed."""
    rng = np.random.default_rng(0)
    costs = rng.random((batch, rows, columns))
    allowed = rng.random(costs.shape) < 0.05
    allowed[:, np.arange(rows), rng.permutation(columns)[:rows]] = True
    return np.where(allowed, costs, np.inf)


def distances(batch: int, rows: int, columns: int) -> Any:
    """Of points in 8 dimensions."""
    rng = np.random.default_rng(0)
    a, b = rng.random((batch, rows, 8)), rng.random((batch, columns, 8))
    squares = (a**2).sum(-1)[:, :, None] + (b**2).sum(-1)[:, None] - 2 * a @ b.swapaxes(1, 2)
    return np.sqrt(np.maximum(squares, 0))


def products(batch: int, rows: int, columns: int) -> Any:
    """Rank one, for which rows compete for every column, and a hundredth of noise."""
    rng = np.random.default_rng(0)
    return rng.random((batch, rows, 1)) * rng.random((batch, 1, columns)) + 0.01 * rng.random(
        (batch, rows, columns)
    )


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


def _loop(peer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Of a stack: lists of rows and of columns."""

    def run(costs: Any) -> Any:
        found = [peer(cost) for cost in costs]
        return [x[0] for x in found], [x[1] for x in found]

    return run


def by_lap(cost: Any) -> Any:
    x, _ = lap.lapjv(cost, extend_cost=True, return_cost=False)
    return np.flatnonzero(x >= 0), x[x >= 0]


def by_fastlap(cost: Any) -> Any:
    return fastlap.lapjvx(cost, return_cost=False)


def _batch(solve: Callable[..., Any]) -> Callable[[Any], Any]:
    """Of a stack by a peer's own call on one thread."""
    return lambda costs: solve(costs, extend_cost=True, return_cost=False, n_threads=1)


def _single(solve: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda cost: solve(cost, extend_cost=True, return_cost=False)


def prepare(
    make: Callable[..., Any], peer: Callable[[Any], Any], batch: int, shape: tuple[int, int]
) -> Prepared:
    costs = make(batch, *shape)

    def error(mine: Any, other: Any) -> float:
        best = total(costs, other)
        return abs(total(costs, mine) - best) / max(best, 1.0)

    if batch > 1:
        return lambda: otattn.linear_sum_assignment(costs), lambda: peer(costs), error
    cost = costs[0]
    return lambda: otattn.linear_sum_assignment(cost), lambda: peer(cost), error


# Each with the call of a matrix, and of a stack.
PEERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "SciPy": (linear_sum_assignment, _loop(linear_sum_assignment)),
    "lap": (by_lap, _loop(by_lap)),
    "lapjvr": (_single(lap.lapjvr), _batch(lap.lapjvr_batch)),
    "lapjvh": (_single(lap.lapjvh), _batch(lap.lapjvh_batch)),
    "lapcpp": (_single(lapcpp.lapjv), _batch(lapcpp.lapjv_batch)),
    "laprust": (_single(laprust.lapjv), _batch(laprust.lapjv_batch)),
    "fastlap": (by_fastlap, _loop(by_fastlap)),
}
PHOTOGRAPH = "assignment, photograph"
KINDS = {
    "assignment, uniform": uniform,
    "assignment, integers": integers,
    "assignment, zero or one": zero_one,
    "assignment, few zeros": few_zeros,
    "assignment, distances": distances,
    "assignment, products": products,
    "assignment, sparse": sparse,
    "assignment, boxes": boxes,
    PHOTOGRAPH: photograph,
}
# Frames have some 400 corners, and take longer than their matchings. Ties, and what is far from uniform, are
# what a large problem is slow by; products take all peers minutes beyond.
FEW = {
    PHOTOGRAPH: {1: [(10, 10), (30, 30), (100, 100), (300, 300), (20, 300)], 100: [(30, 30), (100, 100)]},
    "assignment, uniform": {1: [*SIZES, *LARGE[1:], *ROOMY], COUNT: BATCHES},
    "assignment, integers": {1: [(10, 10), (100, 100), *LARGE], COUNT: [(30, 30)]},
    "assignment, zero or one": {1: [(10, 10), (100, 100), *LARGE]},
    "assignment, few zeros": {1: [(10, 10), (100, 100), *LARGE]},
    "assignment, distances": {1: [(10, 10), (100, 100), *LARGE[:-1], *ROOMY]},
    "assignment, products": {1: [(10, 10), (100, 100), (1000, 1000)]},
    "assignment, sparse": {1: [(100, 100), *LARGE[:-1]]},
    "assignment, boxes": {1: [*SIZES, *ROOMY], COUNT: BATCHES},
}
# Seconds and minutes a call beyond that.
SLOW = {"fastlap": 300 * 300, "SciPy": 2000 * 2000}
# Matrices without a matching to it.
REFUSES = {("lap", "assignment, sparse"), ("fastlap", "assignment, sparse")}


# ---- ranks and bottlenecks -------------------------------------------------------------------------

# Square ones: of others fastlap 0.4 misses matchings that are better, as the proofs here show.
RANKS = [((10, 10), 10), ((30, 30), 10), ((100, 100), 10), ((30, 30), 100)]
NARROW = [(10, 10), (30, 30), (100, 100), (300, 300), (1000, 1000)]


def prepare_ranks(shape: tuple[int, int], k: int) -> Prepared:
    cost = uniform(1, *shape)[0]

    def error(mine: Any, other: Any) -> float:
        return float(np.abs(mine.value - [found[0] for found in other]).max())

    return (
        lambda: otattn.k_best_assignments(cost, k),
        lambda: fastlap.solve_lap_kbest(cost, k=k),
        error,
    )


def prepare_bottleneck(shape: tuple[int, int]) -> Prepared:
    cost = uniform(1, *shape)[0]
    return (
        lambda: otattn.bottleneck_assignment(cost),
        lambda: fastlap.solve_lbap(cost),
        lambda mine, other: abs(
            mine.value - max(cost[i, j] for i, j in enumerate(other[1]) if j is not None)
        ),
    )


ROWS = [
    Pair(
        kind,
        f"{n}x{m}" if batch == 1 else f"{batch} of {n}x{m}",
        peer,
        lambda kind=kind, peer=peer, batch=batch, n=n, m=m: prepare(
            KINDS[kind], PEERS[peer][batch > 1], batch, (n, m)
        ),
        1e-10,
    )
    for kind in KINDS
    for batch, sizes in FEW.get(kind, {1: SIZES, COUNT: BATCHES}).items()
    for n, m in sizes
    for peer in PEERS
    if n * m <= SLOW.get(peer, n * m) and (peer, kind) not in REFUSES
]
ROWS += [
    Pair(
        "k best assignments",
        f"{k} of {shape[0]}x{shape[1]}",
        "fastlap",
        lambda shape=shape, k=k: prepare_ranks(shape, k),
        1e-12,
    )
    for shape, k in RANKS
]
ROWS += [
    Pair(
        "bottleneck assignment",
        f"{n}x{m}",
        "fastlap",
        lambda n=n, m=m: prepare_bottleneck((n, m)),
        0.0,
    )
    for n, m in NARROW
]
