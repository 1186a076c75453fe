"""k-means whose clusters' sizes have bounds: seeds, and Lloyd's steps with exact assignments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ._bounded import solve_bounded

LEAST_GAIN = 1e-5  # of the inertia, for which refining goes on
REFINED_POINTS = 500  # a cluster: means of more hardly follow a point
REFINED_PAIRS = 1 << 22  # whose costs are kept at once: 32 MiB
ROWS_AT_ONCE = 8192  # whose distances to all centres are formed together


class Fit(NamedTuple):
    """One run: labels [n] int32, centres [k, d] and the sum of squared distances between them."""

    labels: Any
    centres: Any
    inertia: float
    rounds: int


class Lengths:
    """Squared distances by a product of matrices, of points around 0 so that little cancels."""

    def __init__(self, X: Any) -> None:
        self.points = X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)
        self.squares = np.einsum("ij,ij->i", self.points, self.points)

    def to(self, places: Any) -> Any:
        """From the points at `places` to all points, [len(places), n]."""
        found = self.points[places] @ self.points.T
        found *= -2.0
        found += self.squares
        found += self.squares[places, None]
        return np.maximum(found, 0.0, out=found)


def spread_seeds(X: Any, count: int, random: Any) -> Any:
    """Rows of X by k-means++ with 2 + log(count) tries a seed.

    Random numbers are drawn in the order of scikit-learn, so that one random state gives the same seeds.
    """
    n = len(X)
    tries = 2 + int(np.log(count))
    lengths = Lengths(X)
    places = [int(random.choice(n, p=np.full(n, 1.0 / n)))]
    nearest = lengths.to(places)[0]
    total = nearest.sum()
    while len(places) < count:
        drawn = random.uniform(size=tries) * total
        tried = np.minimum(np.searchsorted(np.cumsum(nearest), drawn), n - 1)
        nearer = np.minimum(lengths.to(tried), nearest)
        totals = nearer.sum(axis=1)
        best = int(totals.argmin())
        nearest, total = nearer[best], totals[best]
        places.append(int(tried[best]))
    return X[places]


def random_seeds(X: Any, count: int, random: Any) -> Any:
    """Different rows of X."""
    n = len(X)
    return X[random.choice(n, size=count, replace=False, p=np.full(n, 1.0 / n))]


SEEDS: dict[str, Callable[[Any, int, Any], Any]] = {"k-means++": spread_seeds, "random": random_seeds}


def _relocate(X: Any, labels: Any, sizes: Any, centres: Any) -> None:
    """Gives every empty cluster the point that lies farthest from its centre, of clusters of two or more."""
    empty = np.flatnonzero(sizes == 0)
    if not len(empty):
        return
    apart = ((X - centres[labels]) ** 2).sum(axis=1)
    farthest = iter(np.argsort(-apart, kind="stable"))
    for cluster in empty:
        for point in farthest:
            if sizes[labels[point]] > 1:
                sizes[labels[point]] -= 1
                sizes[cluster] = 1
                labels[point] = cluster
                break


def _means(X: Any, labels: Any, centres: Any) -> Any:
    """Means of the clusters; one that stays empty (more clusters than points of it) keeps its centre."""
    count = len(centres)
    sizes = np.bincount(labels, minlength=count)
    if not sizes.all():
        labels = labels.copy()
        _relocate(X, labels, sizes, centres)
    sums = [np.bincount(labels, weights=column, minlength=count) for column in X.T]
    means = np.column_stack(sums) / np.maximum(sizes, 1)[:, None]
    return np.where(sizes[:, None] > 0, means, centres).astype(X.dtype)


def run(X: Any, centres: Any, bounds: tuple[int, int], rounds: int, tolerance: float) -> Fit:
    """Assignments and means in turns until no label changes or the centres move by `tolerance` at most."""
    lower, upper = bounds
    labels: Any = None
    prices: Any = None

    def step(prices: Any) -> Any:
        return solve_bounded(points=X, centres=centres, lower=lower, upper=upper, start=prices, proved=False)

    done = 0
    for done in range(1, rounds + 1):
        found = step(prices)
        before: Any = labels
        labels, prices = found.columns[:, 0], found.prices
        if before is not None and (before == labels).all():
            return Fit(labels.astype(np.int32), centres, found.cost, done)
        moved = _means(X, labels, centres)
        shift = float(((moved - centres).astype(np.float64) ** 2).sum())
        centres = moved
        if shift <= tolerance:
            break
    # Labels and inertia are those of the centres given back.
    found = step(prices)
    return Fit(found.columns[:, 0].astype(np.int32), centres, found.cost, done)


def _moved_costs(X: Any, fit: Fit) -> Any:
    """What each point costs in each cluster once the means have followed it there, or stayed without it.

    With n points, a cluster's sum grows by n / (n + 1) times a new point's squared distance and falls by
    n / (n - 1) times that of one that leaves.
    """
    count = len(fit.centres)
    sizes = np.bincount(fit.labels, minlength=count).astype(np.float64)
    squares = distances(X, _means(X, fit.labels, fit.centres)).astype(np.float64) ** 2
    own = squares[np.arange(len(X)), fit.labels]
    leaving = np.where(sizes > 1, sizes / np.maximum(sizes - 1, 1), 1.0)
    costs = squares * (sizes / (sizes + 1))
    costs[np.arange(len(X)), fit.labels] = own * leaving[fit.labels]
    return costs


def refine(X: Any, fit: Fit, bounds: tuple[int, int], rounds: int, tolerance: float) -> Fit:
    """Goes on from where the rounds of `run` ended, as long as that lowers the inertia.

    There a point stays with the nearest mean, although both means would follow it if it changed; costs that
    count this lead away, and rounds of `run` on from there.
    """
    count = len(fit.centres)
    if len(X) > REFINED_POINTS * count or len(X) * count > REFINED_PAIRS:
        return fit
    while fit.rounds < rounds:
        labels = solve_bounded(_moved_costs(X, fit), 1, *bounds, proved=False).columns[:, 0]
        if (labels == fit.labels).all():
            break
        again = run(X, _means(X, labels, fit.centres), bounds, rounds - fit.rounds, tolerance)
        gain = fit.inertia - again.inertia
        enough = LEAST_GAIN * fit.inertia
        fit = (again if gain > 0.0 else fit)._replace(rounds=fit.rounds + again.rounds)
        if not gain > enough:
            break
    return fit


def distances(X: Any, centres: Any) -> Any:
    """Euclidean distances [n, k] in the type of X."""
    out = np.empty((len(X), len(centres)), X.dtype)
    middle = centres.mean(axis=0, dtype=np.float64)
    to = centres.astype(np.float64) - middle
    squares = (to**2).sum(axis=1)
    for first in range(0, len(X), ROWS_AT_ONCE):
        rows = X[first : first + ROWS_AT_ONCE].astype(np.float64) - middle
        found = (rows**2).sum(axis=1)[:, None] - 2.0 * (rows @ to.T) + squares
        out[first : first + ROWS_AT_ONCE] = np.sqrt(np.maximum(found, 0.0))
    return out
