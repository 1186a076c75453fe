"""What docs/users/assignment.md says of otattn.cluster beside its times.

clustering.py seeds     sums of squared distances beside k-means-constrained, from the same first centres
clustering.py memory    250,000 points, 100 clusters: time and resident memory of this process
"""

from __future__ import annotations

import resource
import sys
import time
from typing import Any

import numpy as np
import otattn
from otattn.cluster import BalancedKMeans

SEEDS = 40


def data() -> dict[str, tuple[Any, int, int]]:
    """Points, clusters, and by how much their sizes may differ from the mean."""
    from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
    from sklearn.preprocessing import scale

    return {
        "digits": (load_digits().data, 10, 10),
        "iris": (load_iris().data, 6, 2),
        "wine": (scale(load_wine().data), 6, 2),
        "breast cancer": (scale(load_breast_cancer().data), 8, 5),
    }


def about_means(X: Any, labels: Any) -> float:
    """The sum of squared distances of the points to the means of their clusters."""
    return sum(len(X[labels == k]) * X[labels == k].var(axis=0).sum() for k in np.unique(labels))


def seeds() -> None:
    from k_means_constrained import KMeansConstrained

    print(f"{'points':14} {'shape':>10} {'same or less':>13} {'mean':>9} {'best':>9}  of {SEEDS} seeds")
    for name, (X, count, apart) in data().items():
        low, high = len(X) // count - apart, -(-len(X) // count) + apart
        pairs = []
        for seed in range(SEEDS):
            first = X[np.random.default_rng(seed).choice(len(X), count, replace=False)]
            ours = BalancedKMeans(count, low, high, init=first).fit(X)
            theirs = KMeansConstrained(count, size_min=low, size_max=high, init=first, n_init=1).fit(X)
            pairs.append((about_means(X, ours.labels_), about_means(X, theirs.labels_)))
        mine, other = np.array(pairs).T
        less = int((mine <= other * (1 + 1e-12)).sum())
        print(
            f"{name:14} {len(X):4} x {X.shape[1]:3} {less:13} {(mine / other).mean() - 1:+9.4f} "
            f"{mine.min() / other.min() - 1:+9.4f}",
            flush=True,
        )


def memory() -> None:
    width = int(sys.argv[2]) if len(sys.argv) > 2 else 16
    rng = np.random.default_rng(0)
    X = rng.standard_normal((250_000, width))
    X += 3 * rng.standard_normal((60, width))[rng.integers(0, 60, len(X))]
    begin = time.perf_counter()
    found = BalancedKMeans(100, 2400, 2600, max_iter=10, random_state=0).fit(X)
    seconds = time.perf_counter() - begin
    sizes = np.bincount(found.labels_)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"250000 x {width}, 100 clusters of {sizes.min()} to {sizes.max()}: {found.n_iter_} rounds in "
        f"{seconds:.1f} s, {peak:.0f} MiB resident at most, of which {X.nbytes / 2**20:.0f} are the points"
    )


if __name__ == "__main__":
    otattn.set_num_threads(1)
    {"seeds": seeds, "memory": memory}[sys.argv[1]]()
