"""Transport between histograms under the names of the package POT (Python Optimal Transport).

``a`` (rows) and ``b`` (columns) are masses, ``M`` is a cost, ``reg`` the entropic weight. Potentials are in
units of the cost. NumPy arrays or torch tensors; with torch, plans and values have gradients.
"""

from __future__ import annotations

import math
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from . import _ot_partial as partial
from ._aux import ArrayT
from ._ot_entropic import sinkhorn, sinkhorn2
from ._ot_exact import emd, emd2
from ._ot_result import OTResult
from ._ot_solve import sinkhorn_unbalanced, solve
from ._sampler import PlanSampler, sinkhorn_knopp_teacher
from ._settings import count, is_torch
from ._shapes import dense
from ._torch_device import pieces

__all__ = [
    "OTResult",
    "PlanSampler",
    "dist",
    "emd",
    "emd2",
    "from_geomloss",
    "from_ott",
    "partial",
    "sinkhorn",
    "sinkhorn2",
    "sinkhorn_knopp_teacher",
    "sinkhorn_unbalanced",
    "solve",
    "solve_sample",
    "unif",
]


_APPROXIMATIONS = (
    "1d",
    "bsp",
    "factored",
    "gaussian",
    "gaussian_hd",
    "geomloss",
    "geomloss_auto",
    "geomloss_multiscale",
    "geomloss_online",
    "geomloss_tensorized",
    "lowrank",
    "max_sliced",
    "nystroem",
    "sliced",
)


@overload
def unif(n: int, type_as: None = None) -> NDArray[np.float64]: ...
@overload
def unif(n: int, type_as: ArrayT) -> ArrayT: ...
@overload
def unif(n: int, type_as: Any = None) -> Any: ...
def unif(n: int, type_as: Any = None) -> Any:
    """`n` equal masses of sum 1: f64, or of the type and device of `type_as`.

    Examples
    --------
    >>> import otattn
    >>> otattn.ot.unif(4)
    array([0.25, 0.25, 0.25, 0.25])
    """
    n = count("n", n, 1) or 0
    if n == 0:
        raise TypeError("n is None, wanted a whole number")
    if is_torch(type_as):
        return type_as.new_full((n,), 1.0 / n)
    return np.full(n, 1.0 / n, None if type_as is None else np.asarray(type_as).dtype)


_METRICS = ("sqeuclidean", "euclidean", "cityblock")


@overload
def dist(
    x1: ArrayT,
    x2: Any = None,
    metric: str = "sqeuclidean",
) -> ArrayT: ...
@overload
def dist(
    x1: Any,
    x2: Any = None,
    metric: str = "sqeuclidean",
) -> Any: ...
def dist(x1: Any, x2: Any = None, metric: str = "sqeuclidean") -> Any:
    """Distances of all pairs of points, shape (n, m).

    Parameters
    ----------
    x1 : array or tensor, shape (n, width)
    x2 : array or tensor, shape (m, width), optional
        `x1` by default.
    metric : {"sqeuclidean", "euclidean", "cityblock"}
        A gradient at points that coincide is 0.

    Raises
    ------
    NotImplementedError
        For other metrics: scipy.spatial.distance.cdist has them.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> otattn.ot.dist(np.array([[0.0, 0.0], [3.0, 4.0]]), metric="euclidean")
    array([[0., 5.],
           [5., 0.]])
    """
    if metric not in _METRICS:
        raise NotImplementedError(
            f"metric is {metric!r}, wanted {', '.join(map(repr, _METRICS))}; give other costs yourself"
        )
    x1, x2 = _alike("x1", x1, "x2", x1 if x2 is None else x2)
    # Between blocks of rows Ctrl-C is heard.
    blocks = [_distances(x1[rows], x2, metric) for rows in pieces(len(x1), x2.shape[0] * x2.shape[1])]
    if len(blocks) < 2:
        return blocks[0] if blocks else _distances(x1, x2, metric)
    return _joined(blocks)


@overload
def solve_sample(
    X_a: ArrayT,
    X_b: Any,
    a: Any = None,
    b: Any = None,
    metric: str = "sqeuclidean",
    reg: float | None = None,
    *,
    method: str | None = None,
    **arguments: Any,
) -> OTResult[ArrayT]: ...
@overload
def solve_sample(
    X_a: Any,
    X_b: Any,
    a: Any = None,
    b: Any = None,
    metric: str = "sqeuclidean",
    reg: float | None = None,
    *,
    method: str | None = None,
    **arguments: Any,
) -> OTResult[Any]: ...
def solve_sample(
    X_a: Any,
    X_b: Any,
    a: Any = None,
    b: Any = None,
    metric: str = "sqeuclidean",
    reg: float | None = None,
    *,
    method: str | None = None,
    **arguments: Any,
) -> OTResult[Any]:
    """`solve` with ``M`` the squared (or plain) Euclidean distances of two point clouds.

    Parameters
    ----------
    X_a : array, shape (n, width)
    X_b : array, shape (m, width)
    metric : {"sqeuclidean", "euclidean"}
    method : str, optional
        Approximations by name are not offered.
    a, b, reg, **arguments
        As in `solve`.

    Returns
    -------
    OTResult

    Raises
    ------
    NotImplementedError
        Naming the argument that is not offered.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> float(otattn.ot.solve_sample(np.array([[0.0], [1.0]]), np.array([[1.0], [3.0]])).value)
    2.5
    """
    if metric not in ("sqeuclidean", "euclidean"):
        raise NotImplementedError(f"metric is {metric!r}, wanted 'sqeuclidean' or 'euclidean'")
    if method in _APPROXIMATIONS:
        raise NotImplementedError(
            f"method is {method!r}, an approximation; here the problem itself is solved"
        )
    if method is not None:
        raise ValueError(f"method is {method!r}, which does not exist")
    for name in ("lazy", "batch_size", "rank", "n_projections", "scaler", "debias"):
        if arguments.pop(name, None):
            raise NotImplementedError(f"{name} is not offered: the whole cost matrix is solved as it is")
    X_a, X_b = _alike("X_a", X_a, "X_b", X_b)
    return solve(dist(X_a, X_b, metric), a, b, reg, **arguments)


def _distances(x1: Any, x2: Any, metric: str) -> Any:
    difference = x1[:, None, :] - x2[None, :, :]
    if metric == "cityblock":
        return abs(difference).sum(-1)
    squares = (difference * difference).sum(-1)
    return _root(squares) if metric == "euclidean" else squares


def _joined(blocks: list[Any]) -> Any:
    """Blocks of rows as one array."""
    if not is_torch(blocks[0]):
        return np.concatenate(blocks)
    import torch

    return torch.cat(blocks)


def _alike(first: str, x1: Any, second: str, x2: Any) -> tuple[Any, Any]:
    """Points of one width in one library."""
    x1, x2 = _points(first, x1), _points(second, x2)
    if x2.shape[1] != x1.shape[1]:
        raise ValueError(
            f"{second} has shape {tuple(x2.shape)}, wanted points (n, {x1.shape[1]}) as {first} has"
        )
    if is_torch(x1) != is_torch(x2):
        raise TypeError(f"{second} is a {type(x2).__name__}, but {first} is a {type(x1).__name__}")
    return x1, x2


def _points(name: str, x: Any) -> Any:
    """Points in 4 bytes or more: squares of f16 leave its range at 256, and differences of uint8 wrap."""
    x = dense(name, x) if is_torch(x) else np.asarray(dense(name, x))
    if x.ndim != 2:
        raise ValueError(f"{name} has shape {tuple(x.shape)}, wanted points (n, width)")
    if is_torch(x):
        if not x.is_floating_point():
            return x.double()
        return x.float() if x.element_size() < 4 else x
    if x.dtype.kind in "iub":
        return x.astype(np.float64)
    return x.astype(np.float32) if x.dtype == np.float16 else x


def _root(x: Any) -> Any:
    """Square roots, whose gradient is 0 at 0: of a norm, 0 is a subgradient there."""
    if not is_torch(x):
        return np.sqrt(x)
    apart = x > 0
    return x.where(apart, x.new_ones(())).sqrt().where(apart, x)


# ---- other libraries' parameters -----------------------------------------------------------------


def from_ott(epsilon: float, tau_a: float = 1.0, tau_b: float = 1.0) -> dict[str, Any]:
    """OTT-JAX's epsilon and taus as arguments of `solve`: tau = rho / (rho + epsilon), 1 is exact.

    Examples
    --------
    >>> import otattn
    >>> otattn.ot.from_ott(0.5, tau_b=0.5)
    {'reg': 0.5, 'unbalanced': (inf, 0.5)}
    """
    strengths = []
    for name, tau in (("tau_a", tau_a), ("tau_b", tau_b)):
        if not 0.0 < tau <= 1.0:
            raise ValueError(f"{name} is {tau!r}, wanted more than 0 and at most 1")
        strengths.append(math.inf if tau == 1.0 else epsilon * tau / (1.0 - tau))
    relaxed = None if all(math.isinf(x) for x in strengths) else tuple(strengths)
    return {"reg": epsilon, "unbalanced": relaxed}


def from_geomloss(blur: float, reach: float | None = None, p: int = 2) -> dict[str, Any]:
    """GeomLoss's blur and reach as arguments of `solve`: reg = blur^p, strength = reach^p.

    GeomLoss's cost for p = 2 is half the squared distance: give `solve` that ``M``.

    Examples
    --------
    >>> import otattn
    >>> otattn.ot.from_geomloss(0.5, reach=2.0)
    {'reg': 0.25, 'unbalanced': 4.0}
    """
    return {"reg": blur**p, "unbalanced": None if reach is None else reach**p}
