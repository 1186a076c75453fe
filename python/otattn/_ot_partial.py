"""Transport of a part of the mass, under the names of POT's module ``partial``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._ot_exact import emd
from ._ot_problem import cost_of, cost_with, linear_cost, mass_of
from ._settings import is_torch, number

__all__ = ["partial_wasserstein", "partial_wasserstein2"]


def partial_wasserstein(a: Any, b: Any, M: Any, m: Any = None, nb_dummies: int = 1, log: bool = False) -> Any:
    """The cheapest plan that carries the mass `m` at row sums of at most `a` and column sums of at most `b`.

    One more row and column take what stays where it is, at no cost, and may not exchange mass: `emd` of that
    problem is exact.

    Parameters
    ----------
    a : array or tensor, shape (n,)
    b : array or tensor, shape (m,)
    M : array or tensor, shape (n, m)
        Costs, in f32 or f64; those of pairs that stay apart do not count.
    m : float, optional
        Mass to carry, 0 to the smaller total; by default that total.
    nb_dummies : int
        Accepted for POT's signature: one is exact here.
    log : bool
        Then the result is ``(plan, dict)`` with cost and partial_w_dist, which are the same number.

    Returns
    -------
    plan : array or tensor, shape (n, m)
        Nothing is differentiated through it.

    Raises
    ------
    ValueError
        For a mass out of range, or what `emd` refuses.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> M = np.array([[0.0, 9.0], [9.0, 1.0]])
    >>> otattn.ot.partial.partial_wasserstein([0.5, 0.5], [0.5, 0.5], M, m=0.7)
    array([[0.5, 0. ],
           [0. , 0.2]])
    """
    del nb_dummies
    M = cost_with(cost_of(M), a, b)
    a, b = mass_of("a", a, M.shape[0], M), mass_of("b", b, M.shape[1], M)
    rows, columns, cost = (np.asarray(x.detach().cpu() if is_torch(x) else x, np.float64) for x in (a, b, M))
    least = min(rows.sum(), columns.sum())
    mass = float(least) if m is None else number("m", m)
    # As much as rounding of the totals may add is taken for the total.
    if not 0.0 <= mass <= least * (1.0 + 1e-12):
        raise ValueError(f"m is {mass!r}, wanted 0 to the smaller total of a and b, {float(least)!r}")
    mass = min(mass, float(least))
    wider = np.zeros((len(rows) + 1, len(columns) + 1))
    wider[:-1, :-1] = cost
    wider[-1, -1] = np.inf
    taken = emd(np.append(rows, columns.sum() - mass), np.append(columns, rows.sum() - mass), wider)
    found: Any = taken[:-1, :-1]
    if is_torch(M):
        import torch

        found = torch.from_numpy(np.ascontiguousarray(found)).to(M)
    else:
        found = found.astype(M.dtype)
    if not log:
        return found
    value = linear_cost(found, M)
    return found, {"cost": value, "partial_w_dist": value}


def partial_wasserstein2(
    a: Any, b: Any, M: Any, m: Any = None, nb_dummies: int = 1, log: bool = False
) -> Any:
    """The cost of `partial_wasserstein`'s plan; parameters as there, and with `log` its plan as T.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> M = np.array([[0.0, 9.0], [9.0, 1.0]])
    >>> float(otattn.ot.partial.partial_wasserstein2([0.5, 0.5], [0.5, 0.5], M, m=0.75))
    0.25
    """
    plan, entry = partial_wasserstein(a, b, M, m, nb_dummies, log=True)
    return (entry["cost"], {**entry, "T": plan}) if log else entry["cost"]
