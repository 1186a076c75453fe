"""Clusters beside k-means-constrained, from equal first centres; without bounds beside scikit-learn.

A row fails where our sum of squared distances is larger by more than its limit, or, without bounds,
another one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from k_means_constrained import KMeansConstrained
from otattn.cluster import BalancedKMeans
from pairs import Pair, Prepared
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_blobs


def digits() -> Any:
    return load_digits().data


def blobs(count: int, width: int) -> Any:
    return make_blobs(count, width, centers=10, cluster_std=2.0, random_state=0)[0]


def prepare(make: Callable[[], Any], apart: int | None) -> Prepared:
    """Ten clusters whose sizes differ from the mean by `apart` at most, or by anything."""
    X = make()
    first = X[np.random.default_rng(0).choice(len(X), 10, replace=False)]
    common: dict[str, Any] = {"init": first, "n_init": 1, "random_state": 0}
    if apart is None:
        ours, theirs = BalancedKMeans(10, **common), KMeans(10, **common)
    else:
        low, high = len(X) // 10 - apart, -(-len(X) // 10) + apart
        ours = BalancedKMeans(10, low, high, **common)
        theirs = KMeansConstrained(10, size_min=low, size_max=high, **common)

    def error(mine: Any, other: Any) -> float:
        worse = mine.inertia_ / other.inertia_ - 1.0
        return abs(worse) if apart is None else max(worse, 0.0)

    return lambda: ours.fit(X), lambda: theirs.fit(X), error


def row(name: str, shape: str, make: Callable[[], Any], apart: int | None, limit: float) -> Pair:
    peer = "scikit-learn" if apart is None else "k-means-constrained"
    return Pair(name, shape, peer, lambda: prepare(make, apart), limit)


ROWS = [
    row("cluster digits", "1797 x 64, 10 of 169 to 190", digits, 10, 1e-12),
    row("cluster", "23000 x 2, 10 of 2250 to 2350", lambda: blobs(23000, 2), 50, 1e-12),
    row("cluster equal", "23000 x 8, 10 of 2300", lambda: blobs(23000, 8), 0, 1e-12),
    row("cluster unbounded", "23000 x 8, 10", lambda: blobs(23000, 8), None, 1e-12),
]
