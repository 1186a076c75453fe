"""Couplings from the definitions, by plain NumPy: each of these would be right with any other solver.

Scores S [n, m] in f64, allowed [n, m] bool, tau the temperature. Rows have mass 1 and columns the target
nu [m] unless said. Iterations run until nothing moves any more.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import linprog
from scipy.special import logsumexp

Row = Callable[[np.ndarray], np.ndarray]


def softmax_row(z: np.ndarray) -> np.ndarray:
    return np.exp(z - logsumexp(z))


def entmax_row(order: float) -> Row:
    """p = ((order - 1) z - t)_+ ^ (1/(order - 1)), t by bisection to the last bit."""

    def row(z: np.ndarray) -> np.ndarray:
        x = (order - 1.0) * (z - z.max())
        low, high = -1.0, 0.0  # at t = -1 the largest weight alone is 1
        for _ in range(200):
            middle = 0.5 * (low + high)
            total = np.sum(np.maximum(0.0, x - middle) ** (1.0 / (order - 1.0)))
            low, high = (middle, high) if total > 1.0 else (low, middle)
        return np.maximum(0.0, x - high) ** (1.0 / (order - 1.0))

    return row


def hard_row(z: np.ndarray) -> np.ndarray:
    return (np.arange(z.size) == np.argmax(z)).astype(float)


def by_rows(S: np.ndarray, allowed: np.ndarray, tau: float, row: Row) -> np.ndarray:
    P = np.zeros_like(S)
    for i in range(S.shape[0]):
        if allowed[i].any():
            P[i, allowed[i]] = row(S[i, allowed[i]] / tau)
    return P


def shares(allowed: np.ndarray) -> np.ndarray:
    """The default target: total mass over usable keys, 0 for the others."""
    usable = allowed.any(axis=0)
    return usable * (allowed.any(axis=1).sum() / usable.sum())


def scaling(
    S: np.ndarray,
    allowed: np.ndarray,
    tau: float,
    update: Callable[[np.ndarray, np.ndarray], np.ndarray],
    rounds: int = 20000,
) -> np.ndarray:
    """Row updates f = -tau LSE and column updates g <- update(g, log column sums of the current plan),
    ended by a row update, until g stands still (or exactly `rounds`)."""
    M = np.where(allowed, S, -np.inf)
    g = np.zeros(S.shape[1])
    f = -tau * logsumexp((M + g) / tau, axis=1)
    for _ in range(rounds):
        with np.errstate(divide="ignore"):
            columns = logsumexp((M + f[:, None] + g) / tau, axis=0)
        new = update(g, columns)
        moved = np.abs(new - g)[np.isfinite(new)].max(initial=0.0)
        g = new
        f = -tau * logsumexp((M + g) / tau, axis=1)
        if moved <= 1e-15 * (1.0 + np.abs(g[np.isfinite(g)]).max(initial=0.0)):
            break
    return np.exp((M + f[:, None] + g) / tau)


def exact(S: np.ndarray, allowed: np.ndarray, tau: float, nu: np.ndarray | None = None) -> np.ndarray:
    with np.errstate(divide="ignore"):
        target = np.log(shares(allowed) if nu is None else nu)

    def update(g: np.ndarray, c: np.ndarray) -> np.ndarray:
        return np.where(np.isfinite(target), g + tau * (target - c), -np.inf)

    return scaling(S, allowed, tau, update)


def elastic(S: np.ndarray, allowed: np.ndarray, tau: float, weight: float, steps: int) -> np.ndarray:
    target = np.log(shares(allowed))
    M = np.where(allowed, S, -np.inf)
    g = np.zeros(S.shape[1])
    f = -tau * logsumexp(M / tau, axis=1)
    for _ in range(steps):
        g = g - weight * tau * (logsumexp((M + f[:, None] + g) / tau, axis=0) - target)
        f = -tau * logsumexp((M + g) / tau, axis=1)
    return np.exp((M + f[:, None] + g) / tau)


def relaxed(S: np.ndarray, allowed: np.ndarray, tau: float, rho: float) -> np.ndarray:
    """Stationarity: g = -rho log(c / nu), c the column sums."""
    target = np.log(shares(allowed))
    damp = rho / (rho + tau)
    return scaling(S, allowed, tau, lambda g, c: damp * (g + tau * (target - c)))


def capped(S: np.ndarray, allowed: np.ndarray, tau: float, cap: float) -> np.ndarray:
    """g <= 0, and g = 0 where a key is below its cap."""
    return scaling(S, allowed, tau, lambda g, c: np.minimum(0.0, g + tau * (np.log(cap) - c)))


def bounded(S: np.ndarray, allowed: np.ndarray, tau: float, lower: float, upper: float) -> np.ndarray:
    """g < 0 only where a key has its largest sum, g > 0 only where it has its least one, else 0."""
    with np.errstate(divide="ignore"):
        low, high = np.log(lower * shares(allowed)), np.log(upper * shares(allowed))

    def update(g: np.ndarray, c: np.ndarray) -> np.ndarray:
        full, bare = g + tau * (high - c), g + tau * (low - c)
        return np.where(full < 0.0, full, np.where(bare > 0.0, bare, 0.0))

    return scaling(S, allowed, tau, update)


def prefix(S: np.ndarray, tau: float) -> np.ndarray:
    n, m = S.shape
    P = np.zeros_like(S)
    for i in range(n):
        keys = m - n + i + 1
        P[i, :keys] = exact(S[: i + 1, :keys], np.ones((i + 1, keys), bool), tau)[-1]
    return P


def online(S: np.ndarray, allowed: np.ndarray, tau: float, cap: float) -> np.ndarray:
    """Row i maximises its own problem with p <= what earlier rows left: p = min(left, e^(z + t))."""
    n, m = S.shape
    P = np.zeros_like(S)
    left = np.full(m, cap)
    for i in range(n):
        z = np.where(allowed[i], S[i] / tau, -np.inf)
        low, high = -z.max() - 60.0, -z[np.isfinite(z)].min() + 60.0
        for _ in range(200):
            middle = 0.5 * (low + high)
            total = np.minimum(left, np.exp(z + middle)).sum()
            low, high = (low, middle) if total > 1.0 else (middle, high)
        P[i] = np.minimum(left, np.exp(z + low))
        left = np.maximum(0.0, left - P[i])
    return P


def transport_value(
    C: np.ndarray, mu: np.ndarray, nu: np.ndarray, equal: bool, least: np.ndarray | None = None
) -> float:
    """Least <P,C> with rows mu and columns = nu, or <= nu, or between least and nu."""
    n, m = C.shape
    rows = np.kron(np.eye(n), np.ones((1, m)))
    columns = np.kron(np.ones((1, n)), np.eye(m))
    finite = np.isfinite(C).ravel()
    bounds = [(0, None if use else 0) for use in finite]
    cost = np.where(finite, C.ravel(), 0.0)
    if equal:
        done = linprog(cost, A_eq=np.vstack([rows, columns]), b_eq=np.concatenate([mu, nu]), bounds=bounds)
    else:
        sides = columns if least is None else np.vstack([columns, -columns])
        ends = nu if least is None else np.concatenate([nu, -least])
        done = linprog(cost, A_ub=sides, b_ub=ends, A_eq=rows, b_eq=mu, bounds=bounds)
    assert done.success
    return float(done.fun)


def attend(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, allowed: np.ndarray, bias: np.ndarray | float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Softmax attention [batch, heads, n, w] in f64 with grouped heads, and the bound of the numeric policy
    3.2 on what f32 may be off by: u (sum p |v|)(8 + 4 B), B = max over allowed keys of sum |q||k| scale."""
    Q, K, V = (x.astype(np.float64) for x in (Q, K, V))
    group = Q.shape[1] // K.shape[1]
    K, V = np.repeat(K, group, axis=1), np.repeat(V, group, axis=1)
    scale = 1.0 / np.sqrt(Q.shape[-1])
    S = np.where(allowed, scale * Q @ np.swapaxes(K, -1, -2) + bias, -np.inf)
    P = np.exp(S - logsumexp(S, axis=-1, keepdims=True))
    size = scale * np.abs(Q) @ np.swapaxes(np.abs(K), -1, -2) + np.abs(bias)
    worst = np.where(allowed, size, 0.0).max(axis=-1, keepdims=True)
    return P @ V, 2.0**-24 * (P @ np.abs(V)) * (8.0 + 4.0 * worst)
