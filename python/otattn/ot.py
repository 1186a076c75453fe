"""Transport between histograms under the names of the package POT (Python Optimal Transport).

``a`` (rows) and ``b`` (columns) are masses, ``M`` is a cost, ``reg`` the entropic weight. Potentials are in
units of the cost. NumPy arrays or torch tensors; with torch, plans and values have gradients.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ._attention import is_torch
from ._ot_entropic import sinkhorn, sinkhorn2
from ._ot_exact import emd, emd2
from ._ot_result import OTResult
from ._ot_solve import sinkhorn_unbalanced, solve
from ._sampler import PlanSampler, sinkhorn_knopp_teacher

__all__ = [
    "OTResult",
    "PlanSampler",
    "emd",
    "emd2",
    "from_geomloss",
    "from_ott",
    "sinkhorn",
    "sinkhorn2",
    "sinkhorn_knopp_teacher",
    "sinkhorn_unbalanced",
    "solve",
    "solve_sample",
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
) -> OTResult:
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
    X_a, X_b = _widened(X_a), _widened(X_b)
    difference = X_a[:, None, :] - X_b[None, :, :]
    M = (difference * difference).sum(-1)
    if metric == "euclidean":
        M = _root(M)
    return solve(M, a, b, reg, **arguments)


def _widened(x: Any) -> Any:
    """Points in 4 bytes or more: squares of f16 leave its range at 256, and differences of uint8 wrap."""
    if is_torch(x):
        if not x.is_floating_point():
            return x.double()
        return x.float() if x.element_size() < 4 else x
    x = np.asarray(x)
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
