"""Clusters of bounded size: scikit-learn's conventions, its seeds, and exact steps."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import spec
from hypothesis import given, settings
from hypothesis import strategies as st
from otattn._kmeans import distances, spread_seeds
from otattn.cluster import BalancedKMeans


def blobs(n: int, d: int, seed: int, dtype: Any = np.float64) -> Any:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, d)) + 4.0 * rng.standard_normal((5, d))[rng.integers(0, 5, n)]).astype(
        dtype
    )


def test_every_check_of_scikit_learn_passes() -> None:
    pytest.importorskip("sklearn")
    from sklearn.utils.estimator_checks import check_estimator

    checks = check_estimator(BalancedKMeans(), on_fail=None, on_skip=None)
    assert len(checks) > 40
    assert [check["check_name"] for check in checks if check["status"] == "failed"] == []


@pytest.mark.filterwarnings("error")
def test_points_in_f32_warn_of_nothing() -> None:
    """The limit of coordinates lies beyond f32, of which NumPy warned."""
    X = blobs(40, 2, 1, np.float32)
    found = BalancedKMeans(4, size_min=5, random_state=0).fit(X)
    assert found.cluster_centers_.dtype == np.float32
    assert found.predict(X, size_min="init").shape == found.labels_.shape


@pytest.mark.parametrize("seed", range(4))
def test_seeds_are_those_of_scikit_learn(seed: int) -> None:
    cluster = pytest.importorskip("sklearn.cluster")
    X = blobs(500, 3, seed)
    theirs, _ = cluster.kmeans_plusplus(X, 12, random_state=seed)
    assert (spread_seeds(X, 12, np.random.RandomState(seed)) == theirs).all()


@pytest.mark.parametrize("seed", range(4))
def test_without_bounds_it_is_k_means(seed: int) -> None:
    cluster = pytest.importorskip("sklearn.cluster")
    X = blobs(400, 4, seed)
    theirs = cluster.KMeans(7, n_init=1, tol=0.0, random_state=seed).fit(X)
    ours = BalancedKMeans(7, n_init=1, tol=0.0, random_state=seed).fit(X)
    assert (ours.labels_ == theirs.labels_).all()
    assert abs(ours.inertia_ - theirs.inertia_) <= 1e-10 * theirs.inertia_
    assert (ours.predict(X) == theirs.predict(X)).all()
    assert np.abs(ours.transform(X) - theirs.transform(X)).max() <= 1e-10


@given(
    n=st.integers(1, 60),
    clusters=st.integers(1, 9),
    d=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
    narrow=st.booleans(),
    apart=st.integers(0, 5),
    copies=st.booleans(),
)
@settings(deadline=None)
def test_sizes_lie_between_their_bounds(
    n: int, clusters: int, d: int, seed: int, narrow: bool, apart: int, copies: bool
) -> None:
    clusters = min(clusters, n)
    X = np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32 if narrow else np.float64)
    if copies:
        X = np.round(X)
    low, high = max(0, n // clusters - apart), -(-n // clusters) + apart
    found = BalancedKMeans(clusters, low, high, random_state=seed % 1000).fit(X)
    sizes = np.bincount(found.labels_, minlength=clusters)
    assert low <= sizes.min()
    assert sizes.max() <= high
    assert found.cluster_centers_.dtype == X.dtype
    apart_squared = ((X.astype(np.float64) - found.cluster_centers_[found.labels_]) ** 2).sum()
    assert abs(found.inertia_ - apart_squared) <= 1e-12 * (1.0 + apart_squared)
    again = BalancedKMeans(clusters, low, high, random_state=seed % 1000).fit(X)
    assert (again.labels_ == found.labels_).all()


def test_a_step_is_the_best_that_the_sizes_allow() -> None:
    optimize = pytest.importorskip("scipy.optimize")
    X = blobs(60, 2, 3)
    found = BalancedKMeans(6, 10, 10, random_state=0).fit(X)
    # Ten places in every cluster make it a matching.
    cost = np.repeat(((X[:, None] - found.cluster_centers_) ** 2).sum(2), 10, axis=1)
    rows, places = optimize.linear_sum_assignment(cost)
    spec.check("LIT-06", abs(found.inertia_ - cost[rows, places].sum()), 1e-10 * found.inertia_)


def test_refining_lowers_the_inertia() -> None:
    falls = 0
    for seed in range(10):
        X = blobs(150, 3, seed)
        plain = BalancedKMeans(6, 23, 27, random_state=seed, refine=False).fit(X)
        found = BalancedKMeans(6, 23, 27, random_state=seed).fit(X)
        assert found.inertia_ <= plain.inertia_
        assert found.n_iter_ >= plain.n_iter_
        falls += found.inertia_ < plain.inertia_ * (1 - 1e-9)
    assert falls >= 3


def test_predict_is_nearest_or_within_sizes() -> None:
    X, later = blobs(300, 3, 1), blobs(90, 3, 2)
    found = BalancedKMeans(5, 50, 70, random_state=0).fit(X)
    assert (found.predict(later) == found.transform(later).argmin(1)).all()
    assert (np.bincount(found.predict(later, 18, 18)) == 18).all()
    assert found.score(later) <= 0.0


def test_an_empty_cluster_takes_the_farthest_point() -> None:
    X = np.array([[0.0], [1.0], [2.0], [10.0]])
    found = BalancedKMeans(2, init=np.array([[1.0], [1000.0]])).fit(X)
    assert found.cluster_centers_.ravel().tolist() == [1.0, 10.0]


def test_distances_of_points_far_from_zero() -> None:
    X = 1e6 + blobs(50, 3, 4)
    exact = np.sqrt(((X[:, None] - X[None, :7]) ** 2).sum(2))
    assert np.abs(distances(X, X[:7]) - exact).max() <= 1e-6


def test_initial_centres_and_restarts() -> None:
    X = blobs(200, 2, 5)
    given = BalancedKMeans(4, 40, 60, init=X[:4]).fit(X)
    called = BalancedKMeans(4, 40, 60, n_init=1, init=lambda X, count, random_state: X[:count]).fit(X)
    assert (given.labels_ == called.labels_).all()
    one = BalancedKMeans(4, 40, 60, n_init=1, random_state=3).fit(X)
    many = BalancedKMeans(4, 40, 60, n_init=8, random_state=3).fit(X)
    assert many.inertia_ <= one.inertia_
    assert (pickle.loads(pickle.dumps(many)).predict(X) == many.predict(X)).all()


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"size_min": 4}, ValueError, "size_min is 4, but 10 points give each of 3 clusters at most 3"),
    ({"size_max": 3}, ValueError, "size_max is 3, but 10 points need 4 or more in each of 3 clusters"),
    ({"size_min": 3, "size_max": 2}, ValueError, "size_min is 3 and size_max 2"),
    ({"size_min": -1}, ValueError, "size_min is -1, wanted 0 or more"),
    ({"size_min": 0.5}, TypeError, "size_min is 0.5, wanted a whole number"),
    ({"n_clusters": 11}, ValueError, "n_samples=10 should be >= n_clusters=11"),
    ({"n_clusters": 0}, ValueError, "n_clusters is 0, wanted 1 or more"),
    ({"init": "k++"}, ValueError, "init is 'k\\+\\+', wanted k-means\\+\\+, random, an array or a callable"),
    ({"init": np.zeros((2, 2))}, ValueError, r"init has shape \(2, 2\), wanted \(3, 2\)"),
    ({"init": np.full((3, 2), np.nan)}, ValueError, "init holds NaN or infinity"),
    ({"n_init": 0}, ValueError, "n_init is 0"),
    ({"n_init": "many"}, ValueError, "n_init is 'many'"),
    ({"max_iter": 0}, ValueError, "max_iter is 0"),
    ({"tol": -1.0}, ValueError, "tol is -1.0"),
    ({"random_state": "a"}, ValueError, "random_state is 'a'"),
]


@pytest.mark.parametrize(("arguments", "kind", "sentence"), REFUSED)
def test_one_sentence_says_what_is_wrong(
    arguments: dict[str, Any], kind: type[Exception], sentence: str
) -> None:
    with pytest.raises(kind, match=sentence):
        BalancedKMeans(**{"n_clusters": 3, **arguments}).fit(blobs(10, 2, 0))


WITHOUT = """
import sys
sys.modules["sklearn"] = None
import numpy as np
from otattn.cluster import BalancedKMeans
X = np.random.default_rng(0).standard_normal((60, 2))
found = BalancedKMeans(3, 20, 20, random_state=0)
try:
    found.predict(X)
except ValueError as error:
    assert "not fitted yet" in str(error)
assert (np.bincount(found.fit_predict(X)) == 20).all()
assert found.fit_transform(X).shape == (60, 3)
assert found.set_params(n_clusters=4).get_params()["n_clusters"] == 4
for wrong in (X[:, 0], X[:0], np.full((60, 2), np.nan)):
    try:
        found.fit(wrong)
    except ValueError as error:
        assert str(error).startswith("X h")
    else:
        raise AssertionError
"""


def test_scikit_learn_need_not_be_installed() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT], check=True)


def test_predict_with_bounds_of_init() -> None:
    """As k-means-constrained has it, "init" stands for the bounds that the estimator was made with."""
    x = np.array([[0.0], [0.1], [0.2], [0.3], [5.0], [5.1]])
    model = BalancedKMeans(2, size_min=3, size_max=3, init=[[0.0], [5.0]]).fit(x)
    np.testing.assert_array_equal(np.bincount(model.predict(x)), [4, 2])
    np.testing.assert_array_equal(np.bincount(model.predict(x, size_min="init", size_max="init")), [3, 3])
