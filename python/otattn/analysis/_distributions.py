"""Distances of distributions, the geometry of the softmax, certificates of couplings, bounds of rows."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from .. import _structs as c
from .._settings import count, number
from ._call import Dims, Record, call, found_of, matrix_of, plain, record, two


def _same(x: Any) -> tuple[Any, int]:
    """One array f32 or f64, and its type's number."""
    return x, c.F32 if x.dtype == np.float32 else c.F64


# ---- distributions and logits ----------------------------------------------------------------------


def divergence(before: Any, after: Any) -> Record:
    """Distances of two distributions (V,), in nats. [TOT-71..75, LIT-31]

    Returns
    -------
    Record
        tv, w1, kl, kl_reverse, js, entropy_before, entropy_after, entropy_change, hellinger, fisher_rao.

    Raises
    ------
    ValueError
        For arrays that are no distributions.

    Examples
    --------
    >>> from otattn import analysis
    >>> round(analysis.divergence([0.5, 0.5], [1.0, 0.0]).tv, 6)
    0.5
    """
    dims, found = Dims(), c.Divergence()
    b, a = dims("before", before, "V"), dims("after", after, "V")
    call("divergence_of", b, a, len(b), found)
    return record(found)


def divergence_of_logits(before: Any, after: Any, temperature: float = 1.0) -> Record:
    """The same of softmax(before / temperature) and softmax(after / temperature), logits (V,)."""
    b, a, kind = two(Dims(), ("before", before), ("after", after), "V")
    found = c.Divergence()
    call("divergence_of_logits", b, a, kind, len(b), temperature, found)
    return record(found)


def tail(logits: Any, temperature: float = 1.0) -> Record:
    """index, mass, log_mass, margin: what the softmax of logits (V,) leaves beside its top. [TOT-30, 110]"""
    z, kind = _same(Dims()("logits", logits, "V", single=True))
    found = c.Tail()
    call("tail_of", z, kind, len(z), temperature, found)
    return record(found)


def logit_change(before: Any, after: Any) -> Record:
    """max_change, range_half, correlation, effective_temperature of logits (V,). [TOT-81..83]"""
    b, a, kind = two(Dims(), ("before", before), ("after", after), "V")
    found = c.LogitChange()
    call("logit_change_of", b, a, kind, len(b), found)
    return record(found)


def rank_change(before: Any, after: Any, counts: Any = (1, 5, 10, 100)) -> tuple[Any, float]:
    """Overlap of the top counts (one a count) and Spearman's correlation of (V,). [TOT-76, 77]"""
    b, a, kind = two(Dims(), ("before", before), ("after", after), "V")
    tops = np.ascontiguousarray(counts, np.int64)
    overlap, spearman = np.empty(len(tops)), ctypes.c_double()
    change = c.RankChange(counts=tops.ctypes.data, count=len(tops), overlap=overlap.ctypes.data)
    change.spearman = ctypes.addressof(spearman)
    call("rank_change_of", b, a, kind, len(b), change)
    return overlap, spearman.value


def state_change(before: Any, after: Any) -> Record:
    """norm_change, relative_l2, cosine, max_coordinate_change of two states (width,). [TOT-78..80]"""
    b, a, kind = two(Dims(), ("before", before), ("after", after), "width")
    found = c.StateChange()
    call("state_change_of", b, a, kind, len(b), found)
    return record(found)


def summary(values: Any) -> Record:
    """Mean, deviation, quantiles, variation, skewness and kurtosis of (count,). [TOT-27, 86]"""
    values = Dims()("values", values, "count")
    found = c.Summary()
    call("summary_of", values, len(values), found)
    return record(found)


# ---- geometry of the softmax -----------------------------------------------------------------------


def softmax_potential(scores: Any, temperature: float = 1.0) -> tuple[float, Any]:
    """phi = temperature log sum exp(scores / temperature) and its gradient, the softmax (m,). [LIT-22]"""
    s = Dims()("scores", scores, "m")
    phi, weights = ctypes.c_double(), np.empty_like(s)
    call("softmax_potential", s, len(s), temperature, phi, weights)
    return phi.value, weights


def softmax_objective(p: Any, scores: Any, temperature: float = 1.0) -> float:
    """J(p) = -<p, scores> + temperature sum p log p. [LIT-22]"""
    dims = Dims()
    p, s = dims("p", p, "m"), dims("scores", scores, "m")
    return found_of("softmax_objective", p, s, len(p), temperature)


def softmax_dual(scores: Any, temperature: float, level: float) -> float:
    """level - temperature sum exp((scores + level) / temperature - 1). [LIT-24]"""
    s = Dims()("scores", scores, "m")
    return found_of("softmax_dual", s, len(s), temperature, level)


def fenchel(p: Any, scores: Any, temperature: float = 1.0) -> Record:
    """gap, divergence, level, spread of Fenchel's inequality at (p, scores), each (m,). [LIT-25, 26]"""
    dims, found = Dims(), c.Fenchel()
    p, s = dims("p", p, "m"), dims("scores", scores, "m")
    call("fenchel_of", p, s, len(p), temperature, found)
    return record(found)


def advantage(p: Any, utility: Any, temperature: float = 1.0) -> tuple[Any, Any]:
    """u - E_p u and the gradient -(p / temperature) (u - E_p u), each (m,). [LIT-17, 19]"""
    dims = Dims()
    p, u = dims("p", p, "m"), dims("utility", utility, "m")
    found, gradient = np.empty_like(p), np.empty_like(p)
    call("advantage", p, u, len(p), temperature, found, gradient)
    return found, gradient


def fisher_product(p: Any, x: Any, temperature: float = 1.0) -> Any:
    """F x, F = (diag p - p p^T) / temperature^2, (m,). [LIT-18]"""
    dims = Dims()
    p, x = dims("p", p, "m"), dims("x", x, "m")
    product = np.empty_like(p)
    call("fisher_product", p, x, len(p), temperature, product)
    return product


def fisher_matrix(p: Any, temperature: float = 1.0) -> tuple[Any, int]:
    """F (m, m) and its rank. [LIT-27]"""
    p = Dims()("p", p, "m")
    matrix, found = np.empty((len(p), len(p))), ctypes.c_int64()
    call("fisher_matrix", p, len(p), temperature, matrix, found)
    return matrix, found.value


def softmax_jacobian(p: Any, temperature: float = 1.0) -> Any:
    """dp/ds (m, m) at p. [LIT-30]"""
    p = Dims()("p", p, "m")
    matrix = np.empty((len(p), len(p)))
    call("softmax_jacobian", p, len(p), temperature, matrix)
    return matrix


def natural_gradient(p: Any, utility: Any, temperature: float = 1.0) -> Any:
    """The step temperature (u - mean u) over p > 0, (m,). [LIT-29]"""
    dims = Dims()
    p, u = dims("p", p, "m"), dims("utility", utility, "m")
    step = np.empty_like(p)
    call("natural_gradient", p, u, len(p), temperature, step)
    return step


# ---- certificates of a coupling --------------------------------------------------------------------


def _pair(scores: Any, perturbed: Any, temperature: float) -> Any:
    pair = c.ScorePair(scores=scores.ctypes.data, perturbed=perturbed.ctypes.data)
    pair.rows, pair.columns = scores.shape
    pair.temperature = number("temperature", temperature)
    return pair


def score_bounds(scores: Any, perturbed: Any, temperature: float = 1.0, residual: float = math.nan) -> Record:
    """Bounds of the l1 change of a plan when scores (rows, columns) change. [CETA-16, DER-17, DER-18]

    Parameters
    ----------
    scores, perturbed : array, shape (rows, columns)
    temperature : float
    residual : float
        ``gauge(scores, perturbed).residual``, where known.

    Returns
    -------
    Record
        sup, range, residual, printed, sharp, family, rows, row, and row_bounds (rows,).
    """
    dims, found = Dims(), c.ScoreBounds()
    S, T = dims("scores", scores, "rows columns"), dims("perturbed", perturbed, "rows columns")
    bounds = np.empty(dims["rows"])
    call("score_bounds_of", _pair(S, T, temperature), residual, bounds, found)
    return record(found, row_bounds=bounds)


def score_change(scores: Any, perturbed: Any, coupling: Any, other: Any, temperature: float = 1.0) -> Record:
    """l1, row_l1, energy, jeffreys of two plans of two scores, all (rows, columns). [CETA-18]"""
    dims, found = Dims(), c.ScoreChange()
    named = {"scores": scores, "perturbed": perturbed, "coupling": coupling, "other": other}
    arrays = [dims(name, x, "rows columns") for name, x in named.items()]
    S, T, P, Q = arrays
    call("score_change_of", _pair(S, T, temperature), P, Q, found)
    return record(found)


def output_bounds(bounds: Record, values: Any, other: Any) -> Record:
    """Bounds of the output's change from `score_bounds` and values (keys, width). [CETA-17, DER-19]"""
    dims, found, given = Dims(), c.OutputBounds(), c.ScoreBounds()
    for field in c.ScoreBounds._fields_:
        setattr(given, field[0], getattr(bounds, field[0]))
    V, W = dims("values", values, "keys width"), dims("other", other, "keys width")
    call("output_bounds_of", given, V, W, *V.shape, found)
    return record(found)


def row_norm(x: Any, y: Any = None) -> float:
    """Largest 2-norm of a row of x - y (rows, width)."""
    dims = Dims()
    x = dims("x", x, "rows width")
    y = None if y is None else dims("y", y, "rows width")
    return found_of("row_norm", x, y, *x.shape)


def hull_excess(output: Any, values: Any) -> float:
    """How far output (rows, width) leaves the box of values (keys, width). [CETA-13]"""
    dims = Dims()
    out, V = dims("output", output, "rows width"), dims("values", values, "keys width")
    return found_of("hull_excess", out, V, dims["rows"], dims["keys"], dims["width"])


def nonexpansion(coupling: Any, x: Any, y: Any, alpha: float = 1.0) -> float:
    """The ratio by which (1 - alpha) X + alpha A X moves X and Y (keys, width) apart. [CETA-14, 15]"""
    dims = Dims()
    A, X, Y = dims("coupling", coupling, "rows keys"), dims("x", x, "keys width"), dims("y", y, "keys width")
    mixing = c.Mixing(coupling=A.ctypes.data, rows=dims["rows"], keys=dims["keys"])
    mixing.alpha = number("alpha", alpha)
    return found_of("nonexpansion", mixing, X, Y, dims["width"])


def receiver(coupling: Any) -> Record:
    """mass (keys,) and total, largest, smallest, imbalance of a plan (rows, keys). [CETA-19, 20]"""
    A = Dims()("coupling", coupling, "rows keys")
    mass, found = np.empty(A.shape[1]), c.Receiver()
    call("receiver_of", A, *A.shape, mass, found, of="coupling")
    return record(found, mass=mass)


def mean_shift(mass: Any, values: Any, rows: int) -> Any:
    """mean of A V less mean of V (width,), from the receiver mass (keys,). [CETA-12]"""
    dims = Dims()
    mass, V = dims("mass", mass, "keys"), dims("values", values, "keys width")
    shift = np.empty(dims["width"])
    call("mean_shift", mass, V, rows, *V.shape, shift)
    return shift


def birkhoff(coupling: Any, capacity: int | None = None) -> tuple[Any, Any, float]:
    """A doubly stochastic plan (n, n) as permutations. [CETA-05]

    Returns
    -------
    weights : array, shape (terms,)
    columns : int64 array, shape (terms, n)
        Row i of term t sits on column columns[t, i].
    rest : float
        Mass a row that is left.
    """
    P = Dims()("coupling", coupling, "n n")
    n = len(P)
    # Each term empties a pair, so that there are no more of them.
    capacity = min(count("capacity", capacity, 1) or (n - 1) ** 2 + 1, n * n)
    weights, columns = np.empty(capacity), np.empty((capacity, n), np.int64)
    terms = c.Permutations(capacity=capacity, weights=weights.ctypes.data, columns=columns.ctypes.data)
    call("birkhoff", P, n, terms, of="coupling")
    return weights[: terms.count], columns[: terms.count], terms.rest


# ---- bounds of one softmax row -----------------------------------------------------------------------


def lipschitz(before: Any, after: Any, temperature: float = 1.0) -> Record:
    """l1 of two softmax rows (m,), and its printed and sharp bounds. [TOT-21, DER-20]"""
    b, a, kind = two(Dims(), ("before", before), ("after", after), "m")
    found = c.Lipschitz()
    call("lipschitz_of", b, a, kind, len(b), temperature, found)
    return record(found)


def jacobian_norm(p: Any) -> tuple[float, float]:
    """Lower and upper bound of the softmax Jacobian's norm from inf to 1 at p (m,). [TOT-22]"""
    p = Dims()("p", p, "m")
    lower, upper = ctypes.c_double(), ctypes.c_double()
    call("jacobian_norm", p, len(p), lower, upper)
    return lower.value, upper.value


def probe(directions: Any) -> Record:
    """norm, diameter, diameter_exact of a linear probe (tokens, width). [TOT-25, DER-20]"""
    W, kind = _same(Dims()("directions", directions, "tokens width", single=True))
    found = c.Probe()
    call("probe_of", W, kind, *W.shape, found, of="directions")
    return record(found)


def drift_bound(linear_probe: Record, steps: Any) -> tuple[float, float]:
    """Printed and sharp bound of the l1 drift after steps of given norms (layers,). [TOT-24, 26]"""
    given = c.Probe(linear_probe.norm, linear_probe.diameter, int(linear_probe.diameter_exact))
    steps = Dims()("steps", steps, "layers")
    printed, sharp = ctypes.c_double(), ctypes.c_double()
    call("drift_bound", given, steps, len(steps), printed, sharp)
    return printed.value, sharp.value


def saturation(before: Any, after: Any, temperature: float = 1.0) -> Record:
    """A step of logits (m,) seen from its top symbol. [TOT-28..30]"""
    b, a, kind = two(Dims(), ("before", before), ("after", after), "m")
    found = c.Saturation()
    call("saturation_of", b, a, kind, len(b), temperature, found)
    return record(found)


def saturation_event(found: Record, tail: float = 1e-4, tv: float = 1e-3) -> bool:
    """Whether both tails of `saturation` are below `tail` and its tv below `tv`. [TOT-29]"""
    struct = c.Saturation()
    for field in c.Saturation._fields_:
        setattr(struct, field[0], getattr(found, field[0]))
    return bool(plain("saturation_event", ctypes.byref(struct), tail, tv))


def saturated_fraction(scores: Any, temperature: float = 1.0, tail: float = 1e-4) -> float:
    """Fraction of rows (rows, columns) whose softmax leaves less than `tail` beside its top. [TOT-35]"""
    S = Dims()("scores", scores, "rows columns", single=True)
    return found_of("saturated_fraction", matrix_of(S), temperature, tail, of="scores")


def softmax_limits(size: int, spread: float, temperature: float = 1.0) -> Record:
    """What max p and min p can be if max z - min z = spread. [TOT-31]"""
    found = c.SoftmaxLimits()
    call("softmax_limits_of", size, number("spread", spread), temperature, found, of="spread")
    return record(found)


def two_level(size: int, high: int, spread: float, temperature: float = 1.0) -> float:
    """max p of `high` equal logits `spread` above the rest. [TOT-32]"""
    return float(plain("two_level", size, high, number("spread", spread), temperature))


def uniformity(logits: Any, temperature: float = 1.0) -> Record:
    """Entropy and distance from uniform of a softmax row (m,), with bounds. [TOT-33, 34]"""
    z, kind = _same(Dims()("logits", logits, "m", single=True))
    found = c.Uniformity()
    call("uniformity_of", z, kind, len(z), temperature, found)
    return record(found)
