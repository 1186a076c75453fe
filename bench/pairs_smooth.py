"""Transport with a quadratic penalty beside POT's solvers of the smooth dual and semi-dual.

Squared distances of normal points in the plane over their largest, equal masses of total 1. At a strength of
n a fifth of the pairs or more have weight, at a tenth of that about a tenth. POT's solvers stop where L-BFGS
finds no step, with masses that are off: a row is solved to our own tolerance, also with the certificate read,
or to the error of the peer's plan. ott-jax 0.6.0 has no solver of such plans.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import ot
import otattn
from pairs import Pair, Prepared

SIZES = (128, 256, 512)
STRENGTHS = (1.0, 0.1)  # times n
ASKED = ("plan", "certificate", "peer's error")
PEERS: dict[str, Callable[..., Any]] = {
    "POT smooth dual": ot.smooth.smooth_ot_dual,
    "POT smooth semi-dual": ot.smooth.smooth_ot_semi_dual,
}


def squares(n: int) -> Any:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((n, 2)), rng.standard_normal((n, 2))
    costs = ((x[:, None] - y) ** 2).sum(-1)
    return costs / costs.max()


def missed(plan: Any, masses: Any) -> float:
    """The mass that the sums of the plan miss, of rows and columns together."""
    return float(np.abs(plan.sum(1) - masses).sum() + np.abs(plan.sum(0) - masses).sum())


def prepare(n: int, strength: float, peer: str, asked: str) -> Prepared:
    costs, masses, reg = squares(n), np.full(n, 1.0 / n), strength * n
    theirs = partial(PEERS[peer], masses, masses, costs, reg, reg_type="l2")
    loose = missed(theirs(), masses)
    to_peer = asked == "peer's error"

    def ours() -> Any:
        tolerance = loose if to_peer else None
        result = otattn.ot.solve(costs, masses, masses, reg=reg, reg_type="L2", tol=tolerance)
        if asked == "certificate":
            _ = result.log["certificate"]
        return result.plan

    def value(plan: Any) -> float:
        return float((plan * costs).sum() + 0.5 * reg * (plan**2).sum())

    def error(mine: Any, other: Any) -> float:
        """Of the value, by more than masses that the peer misses may move it, and of our own masses."""
        apart = abs(value(mine) - value(other)) / value(mine)
        beyond = missed(mine, masses) - (loose if to_peer else 1e-7)
        return max(apart - loose, beyond, -float(mine.min()), 0.0)

    return ours, theirs, error


ROWS = [
    Pair(
        f"smooth, {asked}, {strength:g} n",
        f"{n}x{n}",
        peer,
        lambda n=n, strength=strength, peer=peer, asked=asked: prepare(n, strength, peer, asked),
        1e-6,
    )
    for asked in ASKED
    for strength in STRENGTHS
    for n in SIZES
    for peer in PEERS
]
