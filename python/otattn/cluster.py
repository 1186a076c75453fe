"""Clusters of bounded size, with scikit-learn's conventions; scikit-learn itself need not be installed."""

from __future__ import annotations

import importlib
import inspect
import numbers
from typing import TYPE_CHECKING, Any

import numpy as np

from ._arrays import foreign
from ._bounded import solve_bounded
from ._kmeans import SEEDS, Fit, distances, refine, run
from ._settings import flag, whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BalancedKMeans"]

_MOST = (1 << 62) - 1
# Of coordinates, so that sums of squares stay finite.
_LARGEST = 1e140
_FLOATS: tuple[Any, ...] = (np.float64, np.float32)


def _module(name: str) -> Any:
    """A module of scikit-learn, or None where that is not installed."""
    try:
        return importlib.import_module(f"sklearn.{name}")
    except ImportError:
        return None


class _NotFittedError(ValueError, AttributeError):
    """Raised before `fit` where scikit-learn's own error is not at hand."""


class _Plain:
    """What the estimator needs of scikit-learn's base classes."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        del deep
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Any:
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ValueError(
                    f"{name} is no parameter of {type(self).__name__}, wanted one of {list(known)}"
                )
            setattr(self, name, value)
        return self

    def fit_predict(self, X: Any, y: Any = None) -> NDArray[np.int32]:
        del y
        return self.fit(X).labels_  # type: ignore[attr-defined,no-any-return]

    def fit_transform(self, X: Any, y: Any = None) -> NDArray[Any]:
        del y
        return self.fit(X).transform(X)  # type: ignore[attr-defined,no-any-return]


def _bases() -> tuple[type, ...]:
    base = _module("base")
    if base is None:
        return (_Plain,)
    return base.ClassNamePrefixFeaturesOutMixin, base.TransformerMixin, base.ClusterMixin, base.BaseEstimator


if TYPE_CHECKING:
    _Base = _Plain
else:
    _Base = type("_Base", _bases(), {})


def _numbers_of(estimator: Any, X: Any, fitting: bool) -> Any:
    """X as a matrix of f64 or f32 without NaN and infinities, of the width that was fitted."""
    validation = _module("utils.validation")
    if validation is not None:
        return _below_limit(validation.validate_data(estimator, X, dtype=list(_FLOATS), reset=fitting))
    found = foreign("X", X)
    if found.ndim != 2 or 0 in found.shape:
        raise ValueError(
            f"X has shape {found.shape}, wanted a matrix of points with at least one row and column"
        )
    if found.dtype not in _FLOATS:
        found = found.astype(np.float64)
    if not np.isfinite(found).all():
        raise ValueError("X holds NaN or infinity, wanted finite numbers")
    if fitting:
        estimator.n_features_in_ = found.shape[1]
    elif found.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {found.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input"
        )
    return _below_limit(found)


def _below_limit(found: Any) -> Any:
    if not (float(found.max()) < _LARGEST and float(found.min()) > -_LARGEST):
        raise ValueError(f"X holds a number of {_LARGEST} or more in size, wanted coordinates below that")
    return found


def _random_of(state: Any) -> Any:
    """NumPy's generator of a seed, as scikit-learn understands one."""
    if state is None or state is np.random:
        return np.random.mtrand._rand
    if isinstance(state, numbers.Integral):
        if not 0 <= int(state) < 1 << 32:
            raise ValueError(f"random_state is {state}, wanted 0 to {(1 << 32) - 1}")
        return np.random.RandomState(int(state))
    if isinstance(state, np.random.RandomState):
        return state
    raise ValueError(f"random_state is {state!r}, wanted a whole number, a RandomState or None")


def _sizes(size_min: Any, size_max: Any, clusters: int, points: int) -> tuple[int, int]:
    """Both bounds on the size of a cluster, which some division of the points meets."""
    low = 0 if size_min is None else whole("size_min", size_min, 0, _MOST)
    high = points if size_max is None else whole("size_max", size_max, 1, _MOST)
    if low > high:
        raise ValueError(f"size_min is {low} and size_max {high}, wanted size_min <= size_max")
    if low * clusters > points:
        raise ValueError(
            f"size_min is {low}, but {points} points give each of {clusters} clusters at most "
            f"{points // clusters}"
        )
    if high * clusters < points:
        raise ValueError(
            f"size_max is {high}, but {points} points need {-(-points // clusters)} or more in each of "
            f"{clusters} clusters"
        )
    return low, high


class BalancedKMeans(_Base):
    """k-means in which every cluster has between `size_min` and `size_max` points.

    Each step assigns all points at the least sum of squared distances that these sizes allow, exactly, and
    then moves the centres to the means. Distances are formed as they are needed and never all kept.

    Parameters
    ----------
    n_clusters : int
    size_min, size_max : int, optional
        Bounds on the points of a cluster; without them this is k-means.
    init : "k-means++", "random", array of shape (n_clusters, n_features) or callable
        First centres; a callable takes X, n_clusters and the random state. One random state gives the
        seeds that scikit-learn's KMeans draws.
    n_init : int or "auto"
        Runs from different seeds, of which the best is kept; "auto" is 1, and 10 for "random" and callables.
    max_iter : int
    tol : float
        A run ends where the squared centres' shift is at most `tol` times the mean variance of the features.
    random_state : int, RandomState or None
    refine : bool
        With bounds, and at most 500 points a cluster on average (2^22 pairs in all): where rounds end, try
        the division that counts how means follow a point, and go on as long as `inertia_` falls.

    Attributes
    ----------
    cluster_centers_ : array, shape (n_clusters, n_features)
    labels_ : int32 array, shape (n_samples,)
    inertia_ : float
        Sum of squared distances of the points to the centres of their clusters.
    n_iter_ : int
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from otattn.cluster import BalancedKMeans
    >>> X = np.array([[0.0], [0.1], [0.2], [0.3], [5.0], [5.1]])
    >>> BalancedKMeans(2, size_min=3, init=[[0.0], [5.0]]).fit_predict(X)
    array([0, 0, 0, 1, 1, 1], dtype=int32)
    """

    labels_: NDArray[np.int32]
    cluster_centers_: NDArray[Any]
    inertia_: float
    n_iter_: int

    def __init__(
        self,
        n_clusters: int = 8,
        size_min: int | None = None,
        size_max: int | None = None,
        *,
        init: Any = "k-means++",
        n_init: int | str = "auto",
        max_iter: int = 300,
        tol: float = 1e-4,
        random_state: Any = None,
        refine: bool = True,
    ) -> None:
        self.n_clusters = n_clusters
        self.size_min = size_min
        self.size_max = size_max
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.refine = refine

    def _first_centres(self, X: Any, random: Any) -> Any:
        count = int(self.n_clusters)
        if isinstance(self.init, str):
            if self.init not in SEEDS:
                raise ValueError(f"init is {self.init!r}, wanted {', '.join(SEEDS)}, an array or a callable")
            return SEEDS[self.init](X, count, random)
        centres = self.init(X, count, random_state=random) if callable(self.init) else self.init
        centres = np.asarray(centres)
        if centres.dtype.kind not in "fiu":
            raise TypeError(f"init has type {centres.dtype}, wanted numbers")
        centres = np.array(centres, X.dtype)
        if centres.shape != (count, X.shape[1]):
            raise ValueError(f"init has shape {centres.shape}, wanted {(count, X.shape[1])}")
        if not np.isfinite(centres).all():
            raise ValueError("init holds NaN or infinity, wanted finite numbers")
        return centres

    def _runs(self) -> int:
        if isinstance(self.n_init, str):
            if self.n_init != "auto":
                raise ValueError(f"n_init is {self.n_init!r}, wanted 'auto' or a whole number")
            return 10 if callable(self.init) or (isinstance(self.init, str) and self.init == "random") else 1
        runs = whole("n_init", self.n_init, 1, _MOST)
        return runs if isinstance(self.init, str) or callable(self.init) else 1

    def fit(self, X: Any, y: Any = None) -> BalancedKMeans:
        """Finds the clusters of X, shape (n_samples, n_features); y is not used."""
        del y
        X = _numbers_of(self, X, True)
        count = whole("n_clusters", self.n_clusters, 1, _MOST)
        if len(X) < count:
            raise ValueError(f"n_samples={len(X)} should be >= n_clusters={count}")
        bounds = _sizes(self.size_min, self.size_max, count, len(X))
        rounds = whole("max_iter", self.max_iter, 1, _MOST)
        if not isinstance(self.tol, numbers.Real) or not self.tol >= 0:
            raise ValueError(f"tol is {self.tol!r}, wanted 0 or more")
        tolerance = float(self.tol) * float(X.var(axis=0, dtype=np.float64).mean())
        random = _random_of(self.random_state)
        refines = flag("refine", self.refine)
        best: Fit | None = None
        for _ in range(self._runs()):
            found = run(X, self._first_centres(X, random), bounds, rounds, tolerance)
            if refines and bounds != (0, len(X)):
                found = refine(X, found, bounds, rounds, tolerance)
            if best is None or found.inertia < best.inertia:
                best = found
        assert best is not None
        self.labels_ = best.labels
        self.cluster_centers_ = best.centres
        self.inertia_ = best.inertia
        self.n_iter_ = best.rounds
        self._n_features_out = count
        return self

    def _fitted(self, X: Any) -> Any:
        if not hasattr(self, "cluster_centers_"):
            sentence = f"this {type(self).__name__} is not fitted yet; call fit first"
            exceptions = _module("exceptions")
            raise (_NotFittedError if exceptions is None else exceptions.NotFittedError)(sentence)
        return _numbers_of(self, X, False)

    def predict(
        self, X: Any, size_min: int | str | None = None, size_max: int | str | None = None
    ) -> NDArray[np.int32]:
        """The nearest centre of each row; with bounds, the cheapest clusters of so many rows.

        Bounds of "init" are those that the estimator was made with.
        """
        X = self._fitted(X)
        least, most = (
            own if given == "init" else given
            for given, own in ((size_min, self.size_min), (size_max, self.size_max))
        )
        low, high = _sizes(least, most, len(self.cluster_centers_), len(X))
        found = solve_bounded(points=X, centres=self.cluster_centers_, lower=low, upper=high, proved=False)
        labels: NDArray[np.int32] = found.columns[:, 0].astype(np.int32)
        return labels

    def transform(self, X: Any) -> NDArray[Any]:
        """Distances to the centres, shape (n_samples, n_clusters)."""
        found: NDArray[Any] = distances(self._fitted(X), self.cluster_centers_)
        return found

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the sum of squared distances to the nearest centres."""
        del y
        return -solve_bounded(points=self._fitted(X), centres=self.cluster_centers_, proved=False).cost

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
