"""Transport at Hamming cost, gauges, composition, the Hilbert metric and rates of Sinkhorn."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from .. import _structs as c
from .._settings import count, number
from ._call import Dims, Record, call, choice, found_of, plain, record, two

_SOLVERS = {"newton": c.HAMMING_NEWTON, "sinkhorn": c.HAMMING_SINKHORN}
_RULES = {
    "howard": c.GAUGE_HOWARD,
    "midrange": c.GAUGE_MIDRANGE,
    "least_squares": c.GAUGE_LEAST_SQUARES,
    "fast": c.GAUGE_FAST,
}


def hamming_matvec(epsilon: float, x: Any) -> Any:
    """The kernel exp(-C/epsilon) of Hamming cost times x (V,), in O(V). [TOT-15]"""
    x = Dims()("x", x, "V")
    y = np.empty_like(x)
    plain("hamming_matvec", epsilon, x.ctypes.data, y.ctypes.data, len(x))
    return y


def _hamming_options(solver: str, tolerance: float, max_rounds: int, **arrays: Any) -> Any:
    options = c.HammingOptions()
    options.size, options.solver = ctypes.sizeof(options), choice("solver", solver, _SOLVERS)
    options.tolerance = number("tolerance", tolerance)
    options.max_rounds = count("max_rounds", max_rounds) or 0
    for name, x in arrays.items():
        setattr(options, name, x.ctypes.data)
    return options


def _matrix(a: Any, b: Any) -> tuple[Any, tuple[Any, Any]]:
    """A gauge's matrix a - b (rows, columns), and the arrays that it borrows."""
    a, b, kind = two(Dims(), ("a", a), ("b", b), "rows columns")
    matrix = c.GaugeMatrix(type=kind, rows=a.shape[0], columns=a.shape[1])
    matrix.a, matrix.b = (None if x is None else x.ctypes.data for x in (a, b))
    return matrix, (a, b)


def hamming(
    p: Any, q: Any, epsilon: float, solver: str = "newton", tolerance: float = 0.0, max_rounds: int = 0
) -> Record:
    """Entropic transport between p and q (V,) at Hamming cost. [TOT-15..18, DER-05, DER-28]

    Parameters
    ----------
    p, q : array, shape (V,)
        Distributions.
    epsilon : float
        Entropic weight.
    solver : {"newton", "sinkhorn"}
    tolerance, max_rounds
        Of Sinkhorn; 0: 1e-10 and 1000.

    Returns
    -------
    Record
        status, rounds, theta, cost, objective, marginal_error, tv, and the scalings u, v (V,).

    Raises
    ------
    ValueError
        Naming the argument.

    Examples
    --------
    >>> from otattn import analysis
    >>> round(analysis.hamming([0.5, 0.5], [0.2, 0.8], 0.01).cost, 6)
    0.3
    """
    dims = Dims()
    p, q = dims("p", p, "V"), dims("q", q, "V")
    u, v, result = np.empty_like(p), np.empty_like(p), c.HammingResult()
    options = _hamming_options(solver, tolerance, max_rounds, u=u, v=v)
    call("hamming", p, q, len(p), epsilon, options, result, accept=(c.NOT_CONVERGED,))
    return record(result, u=u, v=v)


def hamming_errors(p: Any, q: Any, epsilon: float, tolerance: float = 0.0, max_rounds: int = 1000) -> Record:
    """`hamming` by Sinkhorn, with `errors` (rounds,): l1 error of the columns, round by round. [TOT-16, 90]

    Examples
    --------
    >>> from otattn import analysis
    >>> found = analysis.hamming_errors([0.5, 0.5], [0.2, 0.8], 1.0, tolerance=1e-6)
    >>> int((found.errors > 1e-3).sum()), found.rounds
    (4, 8)
    """
    dims = Dims()
    p, q = dims("p", p, "V"), dims("q", q, "V")
    u, v, result = np.empty_like(p), np.empty_like(p), c.HammingResult()
    max_rounds = count("max_rounds", max_rounds) or 0
    errors = np.empty(max(max_rounds, 1))
    options = _hamming_options("sinkhorn", tolerance, max_rounds, u=u, v=v, errors=errors)
    call("hamming", p, q, len(p), epsilon, options, result, accept=(c.NOT_CONVERGED,))
    return record(result, u=u, v=v, errors=errors[: result.rounds])


def hamming_divergence(
    p: Any, q: Any, epsilon: float, solver: str = "newton", tolerance: float = 0.0, max_rounds: int = 0
) -> Record:
    """`hamming` less the mean of its two self-transports, as `divergence` of its record. [TOT-17]"""
    dims = Dims()
    p, q = dims("p", p, "V"), dims("q", q, "V")
    u, v, result = np.empty_like(p), np.empty_like(p), c.HammingResult()
    options = _hamming_options(solver, tolerance, max_rounds, u=u, v=v)
    call("hamming_divergence", p, q, len(p), epsilon, options, result)
    return record(result, u=u, v=v)


def hamming_diameter(epsilon: float) -> float:
    """Projective diameter 2 / epsilon of the Hamming kernel. [TOT-102]"""
    return float(plain("hamming_diameter", epsilon))


def gauge(a: Any, b: Any = None, rule: str = "howard", tolerance: float = 0.0, max_passes: int = 0) -> Record:
    """Row and column shifts that bring ``a - b`` nearest to 0. [TOT-37..41, DER-21, DER-22]

    Parameters
    ----------
    a, b : array, shape (rows, columns)
        f64 or f32; b absent: 0.
    rule : {"howard", "midrange", "least_squares", "fast"}
        The first two find the minimax residual.
    tolerance, max_passes
        0: the library's defaults.

    Returns
    -------
    Record
        residual, residual_lower, rms, per_sqrt_columns, per_normal_maximum, passes, status; row_shift,
        column_shift, row_residual; cycle_rows and cycle_columns, the closed walk of the lower bound.

    Examples
    --------
    >>> from otattn import analysis
    >>> analysis.gauge([[1.0, 2.0], [3.0, 6.0]]).residual
    0.5
    """
    matrix, keep = _matrix(a, b)
    options, arrays, result = c.GaugeOptions(), c.GaugeArrays(), c.GaugeResult()
    options.size = ctypes.sizeof(options)
    options.rule, options.tolerance = choice("rule", rule, _RULES), number("tolerance", tolerance)
    options.max_passes = count("max_passes", max_passes) or 0
    rows, columns = keep[0].shape
    row, column, rest = np.empty(rows), np.empty(columns), np.empty(rows)
    cycle = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    arrays.row_shift, arrays.column_shift, arrays.row_residual = (x.ctypes.data for x in (row, column, rest))
    arrays.cycle_rows, arrays.cycle_columns = (x.ctypes.data for x in cycle)
    call("gauge", matrix, options, arrays, result, accept=(c.NOT_CONVERGED,), of="a")
    del keep
    length = result.cycle_length
    return record(
        result,
        row_shift=row,
        column_shift=column,
        row_residual=rest,
        cycle_rows=cycle[0][:length],
        cycle_columns=cycle[1][:length],
    )


def gauge_rest(a: Any, b: Any, row_shift: Any, column_shift: Any) -> Any:
    """``a - b - row_shift - column_shift`` (rows, columns) in f64; b may be None. [TOT-37]"""
    matrix, keep = _matrix(a, b)
    dims = Dims()
    dims.sizes["rows"], dims.sizes["columns"] = keep[0].shape
    k, v = dims("row_shift", row_shift, "rows"), dims("column_shift", column_shift, "columns")
    rest = np.empty(keep[0].shape)
    call("gauge_rest", matrix, k, v, rest)
    del keep
    return rest


def gauge_four_cycle(a: Any, b: Any = None) -> float:
    """R4 of ``a - b`` (rows, columns): R4 <= minimax residual <= 2 R4. [DER-21]"""
    matrix, keep = _matrix(a, b)
    found = found_of("gauge_four_cycle", matrix, of="a")
    del keep
    return found


def gauge_coherence(start: Any, moves: Any, row_shift: Any, column_shift: Any) -> tuple[Any, Any]:
    """How far positions end from where the common moves alone would bring them. [TOT-42]

    Parameters
    ----------
    start : array, shape (rows, columns)
    moves : array, shape (layers, rows, columns)
    row_shift, column_shift : array, shapes (layers, rows) and (layers, columns)

    Returns
    -------
    distance, bound : array, shape (rows,)
    """
    dims = Dims()
    start, moves = dims("start", start, "rows columns"), dims("moves", moves, "layers rows columns")
    k = dims("row_shift", row_shift, "layers rows")
    v = dims("column_shift", column_shift, "layers columns")
    distance, bound = np.empty(dims["rows"]), np.empty(dims["rows"])
    chain = c.GaugeChain(layers=dims["layers"], rows=dims["rows"], columns=dims["columns"])
    chain.start, chain.moves, chain.row_shift, chain.column_shift = (
        x.ctypes.data for x in (start, moves, k, v)
    )
    call("gauge_coherence", chain, distance, bound)
    return distance, bound


def compose(second: Any, first: Any) -> Any:
    """``second first`` of row-stochastic (rows, inner) and (inner, columns). [TOT-62]"""
    dims = Dims()
    second, first = dims("second", second, "rows inner"), dims("first", first, "inner columns")
    product = np.empty((dims["rows"], dims["columns"]))
    call("compose", second, first, dims["rows"], dims["inner"], dims["columns"], product, of="first")
    return product


def log_ratios(coupling: Any) -> Any:
    """``log P[:, 1:] - log P[:, :1]`` of a positive P (rows, columns). [TOT-61]"""
    P = Dims()("coupling", coupling, "rows columns")
    ratio = np.empty((P.shape[0], max(0, P.shape[1] - 1)))
    call("log_ratios", P, *P.shape, ratio, of="coupling")
    return ratio


def rank(matrix: Any, tolerance: float = 1e-12) -> tuple[int, Any]:
    """Rank by complete pivoting, and the sizes of the pivots (min(rows, columns),)."""
    matrix = Dims()("matrix", matrix, "rows columns").copy()
    pivots, found = np.empty(min(matrix.shape)), ctypes.c_int64()
    call("rank", matrix, *matrix.shape, tolerance, pivots, found, of="matrix")
    return found.value, pivots


def hilbert(x: Any, y: Any) -> float:
    """Hilbert distance of two positive vectors (V,). [TOT-94]"""
    dims = Dims()
    x, y = dims("x", x, "V"), dims("y", y, "V")
    return found_of("hilbert", x, y, len(x))


def hilbert_log(log_x: Any, log_y: Any) -> float:
    """The same from logarithms (V,)."""
    dims = Dims()
    x, y = dims("log_x", log_x, "V"), dims("log_y", log_y, "V")
    return found_of("hilbert_log", x, y, len(x))


def contraction(log_kernel: Any) -> Record:
    """diameter, rate, entry_range, entry_rate of a kernel's logarithm (rows, columns). [TOT-96..98]"""
    L = Dims()("log_kernel", log_kernel, "rows columns")
    found = c.Contraction()
    call("contraction_of", L, *L.shape, found, of="log_kernel")
    return record(found)


def iterations_conservative(log_sum_over_min: float, delta: float) -> float:
    """4 delta^-2 log(sum K / min K). [TOT-100]"""
    return float(plain("iterations_conservative", log_sum_over_min, delta))


def iterations_geometric(first: float, rate: float, delta: float) -> float:
    """Least t with expm1(first rate^(2 (t - 1))) <= delta. [TOT-101]"""
    return float(plain("iterations_geometric", first, rate, delta))


def scaling(
    log_kernel: Any,
    p: Any,
    q: Any,
    rounds: int = 1000,
    tolerance: float = 0.0,
    row_relaxation: float = 1.0,
    column_relaxation: float = 1.0,
    plain: int = 0,
) -> Record:
    """Log-domain Sinkhorn P = exp(L + f + g) with its history. [ELA-09, DER-07..09]

    Parameters
    ----------
    log_kernel : array, shape (rows, columns)
    p, q : array, shapes (rows,) and (columns,)
    rounds : int
        At most so many.
    tolerance : float
        Stop once the l1 error is at most this.
    row_relaxation, column_relaxation : float
        1 is Sinkhorn.
    plain : int
        So many first rounds are not relaxed.

    Returns
    -------
    Record
        f (rows,), g (columns,), errors and changes (rounds,), rounds.
    """
    dims = Dims()
    L = dims("log_kernel", log_kernel, "rows columns")
    p, q = dims("p", p, "rows"), dims("q", q, "columns")
    rounds = count("rounds", rounds, 1) or 1
    errors, changes = np.empty(rounds), np.empty(rounds)
    f, g, run = np.zeros(len(p)), np.zeros(len(q)), c.ScalingRun()
    run.row_relaxation = number("row_relaxation", row_relaxation)
    run.column_relaxation = number("column_relaxation", column_relaxation)
    run.plain, run.tolerance, run.most = count("plain", plain), number("tolerance", tolerance), rounds
    run.errors, run.changes, run.f, run.g = (x.ctypes.data for x in (errors, changes, f, g))
    call("scaling", L, p, q, *L.shape, run)
    return Record(f=f, g=g, errors=errors[: run.rounds], changes=changes[: run.rounds], rounds=run.rounds)


def rate_measured(errors: Any) -> float:
    """exp(slope of log errors) over the last half of a history (rounds,). [TOT-103]"""
    errors = Dims()("errors", errors, "rounds")
    return found_of("rate_measured", errors, len(errors), of="errors")


def coupling_spectrum(coupling: Any, max_rounds: int = 0) -> Record:
    """second, least and their residuals of a coupling (rows, columns). [TOT-103]"""
    P = Dims()("coupling", coupling, "rows columns")
    found = c.CouplingSpectrum()
    call("coupling_spectrum_of", P, *P.shape, max_rounds, found, of="coupling")
    return record(found)


def rate_one_sided(strength: float, second: float, least: float) -> float:
    """Rate of column updates relaxed by `strength`. [DER-07]"""
    return float(plain("rate_one_sided", number("strength", strength), second, least))


def best_one_sided(second: float, least: float) -> tuple[float, float]:
    """The best such strength, and its rate. [DER-08]"""
    rate = ctypes.c_double()
    return float(plain("best_one_sided", second, least, ctypes.byref(rate))), rate.value


def best_two_sided(second: float) -> tuple[float, float]:
    """The best over-relaxation of both sides, and its rate. [DER-09]"""
    rate = ctypes.c_double()
    return float(plain("best_two_sided", second, ctypes.byref(rate))), rate.value
