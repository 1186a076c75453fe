"""Predictions and attention from layer to layer: transitions, patterns, figures over many of them, events."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from .. import _structs as c
from .._library import library
from .._settings import count, flag, number
from ._call import Dims, Record, call, found_of, matrix_of, plain, record
from ._distributions import _same

_TOKEN_WORDS = {
    "space": c.TOKEN_SPACE,
    "word start": c.TOKEN_WORD_START,
    "letters": c.TOKEN_LETTERS,
    "digits": c.TOKEN_DIGITS,
    "punctuation": c.TOKEN_PUNCTUATION,
    "sentence end": c.TOKEN_SENTENCE_END,
}


class _Row:
    """One row of logits with the memory that the library keeps beside it."""

    def __init__(self, name: str, logits: Any, dims: Dims) -> None:
        self.logits = dims(name, logits, "V").astype(np.float32)
        size = len(self.logits)
        self.memory = np.empty(library.ota_evolve_row_bytes(size) // 8 + 1)
        self.scratch = np.empty(library.ota_evolve_scratch_bytes(size) // 8 + 1)
        self.row = c.EvolveRow()
        call("evolve_row_of", self.logits, size, self.memory, self.scratch, self.row)


def transition(before: Any, after: Any) -> Record:
    """From softmax(before) to softmax(after), logits (V,) that are taken as f32. [TOT-71..77, 81..83]

    Returns
    -------
    Record
        tv, w1, kl, js, entropy_change, top1, top5, top10, top100, spearman, max_logit_change,
        logit_range_half, logit_correlation, effective_temperature, sharp_ratio, tail_before, tail_after,
        saturation_bound, index_before, index_after.

    Examples
    --------
    >>> from otattn import analysis
    >>> round(analysis.transition([0.0, 0.0], [0.0, 60.0]).tv, 6)
    0.5
    """
    dims, found = Dims(), c.Transition()
    b, a = _Row("before", before, dims), _Row("after", after, dims)
    call("evolve_transition", b.row, a.row, found)
    return record(found)


def prediction(logits: Any, first: Any, final: Any) -> Record:
    """What logits (V,) predict, seen from those of the first and of the final state. [TOT-26, 110]

    Returns
    -------
    Record
        entropy, max_probability, tail, log_sum_exp, kl_to_final, drift, index, agrees.
    """
    dims, found = Dims(), c.Prediction()
    rows = [_Row(name, x, dims) for name, x in (("logits", logits), ("first", first), ("final", final))]
    call("evolve_prediction", *(row.row for row in rows), found)
    return record(found)


def prediction_distance(shifted: Any, logits: Any) -> float:
    """l1 distance of softmax(shifted), taken as f64, and of what logits (V,) predict. [TOT-42]

    Examples
    --------
    >>> from otattn import analysis
    >>> round(analysis.prediction_distance([0.0, 0.0], [0.0, 60.0]), 6)
    1.0
    """
    dims, found = Dims(), ctypes.c_double()
    row, x = _Row("logits", logits, dims), dims("shifted", shifted, "V")
    call("evolve_distance", x, row.row, found)
    return found.value


def step(logits: Any, before: Any, first: Any, final: Any) -> tuple[Record, Record]:
    """`transition(before, logits)` and `prediction(logits, first, final)` in one call and in less time."""
    dims, moved, found = Dims(), c.Transition(), c.Prediction()
    rows = [_Row(name, x, dims) for name, x in (("before", before), ("first", first), ("final", final))]
    own = _Row("logits", logits, dims)
    others = c.EvolveOthers(*(ctypes.addressof(row.row) for row in rows))
    call("evolve_step", own.logits, others, own.memory, own.scratch, own.row, moved, found)
    return record(moved), record(found)


def _columns(structs: Any, kind: type, shape: tuple[int, ...]) -> Record:
    table: Any = np.frombuffer(structs, np.dtype(kind), math.prod(shape))
    return Record(**{name: table[name].reshape(shape).copy() for name in table.dtype.names or ()})


def evolution(logits: Any, threads: int = 1) -> tuple[Record, Record]:
    """Transitions and predictions of every state at every position. [TOT-63..83]

    Parameters
    ----------
    logits : array, shape (states, positions, V)
        Taken as f32; state 0 is the embedding, the last one the model's own prediction.
    threads : int
        How many work; the numbers do not depend on it.

    Returns
    -------
    transitions, predictions : Record
        The fields of `transition`, each (states - 1, positions), and of `prediction`, (states, positions).
    """
    dims = Dims()
    z = dims("logits", logits, "states positions V", single=True).astype(np.float32)
    states, positions, size = z.shape
    rows = (ctypes.c_void_p * max(1, states))(*(state.ctypes.data for state in z))
    transitions = (c.Transition * max(1, (states - 1) * positions))()
    predictions = (c.Prediction * max(1, states * positions))()
    e = c.Evolution()
    e.size = ctypes.sizeof(e)
    e.states, e.positions, e.vocabulary, e.threads = states, positions, size, count("threads", threads, 1)
    e.logits = ctypes.cast(rows, ctypes.c_void_p)
    e.transitions = ctypes.cast(transitions, ctypes.c_void_p)
    e.predictions = ctypes.cast(predictions, ctypes.c_void_p)
    call("evolve", e)
    return (
        _columns(transitions, c.Transition, (states - 1, positions)),
        _columns(predictions, c.Prediction, (states, positions)),
    )


def evolution_bytes(vocabulary: int, threads: int = 1) -> int:
    """Bytes that `evolution` works in, beside its arguments and results."""
    return int(plain("evolve_bytes", vocabulary, threads))


def transition_saturated(step: Record, tail: float = 1e-4, tv: float = 1e-10) -> bool:
    """Both states certain to `tail` and the step below `tv`, of a Record of `transition`. [TOT-29]"""
    struct = c.Transition(**step.as_dict())
    return bool(plain("transition_saturated", ctypes.byref(struct), tail, tv))


def state_cloud(states: Any, *, participation: bool = False) -> Record:
    """Norms and directions of states (tokens, width).

    Returns
    -------
    Record
        norms (tokens,), mean_norm, mean_cosine over pairs of tokens, and participation, the number of
        directions (sum s^2)^2 / sum s^4 over singular values s (NaN unless asked for).
    """
    dims = Dims()
    h = dims("states", states, "tokens width", single=True)
    norms, found = np.empty(dims["tokens"]), c.StateCloud()
    call("state_cloud_of", matrix_of(h), int(flag("participation", participation)), norms, found, of="states")
    return record(found, norms=norms)


def pattern(weights: Any, threshold: float = 0.3) -> Record:
    """What one head does with its keys: weights (queries, keys) of 0 or more.

    Returns
    -------
    Record
        first_key_mass, sink_rate (1.0 if that exceeds `threshold`, else 0.0), receiver_max, gini,
        row_entropy, max_weight, support, receiver, rows, and mass (keys,), the column sums.

    Examples
    --------
    >>> from otattn import analysis
    >>> analysis.pattern([[1.0, 0.0], [0.5, 0.5]]).first_key_mass
    0.75
    """
    dims = Dims()
    p = dims("weights", weights, "queries keys", single=True)
    mass, found = np.empty(dims["keys"]), c.Pattern()
    call("pattern_of", matrix_of(p), threshold, mass, found, of="weights")
    return record(found, mass=mass)


def head_scores(
    weights: Any,
    ids: Any,
    *,
    causal: bool = True,
    reach: int | None = None,
    local: int = 8,
    value_norms: Any = None,
) -> Record:
    """What one head does: weights (n, n) of 0 or more over tokens ids (n,), or None for the scores of chance.

    Parameters
    ----------
    causal : bool
        Query i sees no key behind it.
    reach : int or None
        It sees none that is farther away either.
    local : int
        Keys that are nearer than this count as near.
    value_norms : array, shape (n,), or None
        2-norms of the values that the head reads; NaN without: nop_sink, broadcast_sink, value_ratio.

    Returns
    -------
    Record
        previous_token, duplicate_token, induction, positional, local, sink, nop_sink, broadcast_sink, each
        0 to 1 and NaN where no row could; previous_share, duplicate_share, induction_share, which are
        TransformerLens' detect_head; distance, value_ratio, sink_key, offset, rows, duplicate_rows,
        induction_rows.

    Examples
    --------
    >>> import numpy as np
    >>> from otattn import analysis
    >>> analysis.head_scores(np.eye(4, k=-1), [5, 6, 5, 6]).previous_token
    1.0
    """
    dims = Dims()
    given = dims("ids", ids, "n")
    tokens = np.ascontiguousarray(given, np.int64)
    if not np.array_equal(tokens, given):
        raise ValueError("ids has entries that are no whole numbers")
    view = c.HeadView()
    view.size, view.causal = ctypes.sizeof(view), int(flag("causal", causal))
    view.ids, view.tokens = tokens.ctypes.data, len(tokens)
    view.reach = 0 if reach is None else count("reach", reach, 1)
    view.local = count("local", local, 1)
    p, norms, found = None, None, c.HeadScores()
    if weights is not None:
        p, view.type = _same(dims("weights", weights, "n n", single=True))
        view.weights = p.ctypes.data
    if value_norms is not None:
        norms = dims("value_norms", value_norms, "n")
        view.value_norms = norms.ctypes.data
    call("head_scores_of", view, found, of="weights")
    return record(found)


def outliers(states: Any, most: int = 5) -> Record:
    """The entries of states (tokens, width) that are largest in size, and how heavy each state's tails are.

    Returns
    -------
    Record
        value, ratio (of its size to the median size of all entries), token and dimension, each (most,),
        falling in size; kurtosis (tokens,), 0 for coordinates that are normally distributed.

    Examples
    --------
    >>> import numpy as np
    >>> from otattn import analysis
    >>> analysis.outliers(np.array([[1.0, -1.0, 2.0], [1.0, -300.0, 2.0]]), 1).value
    array([-300.])
    """
    dims = Dims()
    h = dims("states", states, "tokens width", single=True)
    size = min(count("most", most, 1), h.size)
    largest, kurtosis = (c.Outlier * max(1, size))(), np.empty(len(h))
    call("outliers_of", matrix_of(h), size, largest, kurtosis, of="states")
    return Record(**_columns(largest, c.Outlier, (size,)).as_dict(), kurtosis=kurtosis)


# ---- figures over many values ----------------------------------------------------------------------


def figure(values: Any, unit: int = 1, resamples: int = 1000, seed: int = 0) -> Record:
    """Mean with its 95 % bootstrap interval, deviation and quantiles of the finite ones of (count,).

    Parameters
    ----------
    unit : int
        Neighbouring values that depend on one another are drawn together: the tokens of a window.
    resamples, seed : int
        Draws, and what decides them.

    Returns
    -------
    Record
        mean, deviation, median, p5, p95, low, high, count, units.
    """
    x, found = Dims()("values", values, "count"), c.Figure()
    call("figure_of", x, len(x), unit, resamples, seed, found)
    return record(found)


def tightness(
    l1: Any,
    steps: Any,
    norm: float,
    *,
    allowance: float = 1e-6,
    unit: int = 1,
    resamples: int = 1000,
    seed: int = 0,
) -> Record:
    """l1 changes (count,) over norm * steps (count,). [TOT-24, 27, 89]

    Returns
    -------
    Record
        ratios (count,), their `figure` as ratio, largest, violations.
    """
    dims, found = Dims(), c.Tightness()
    changes, moves = dims("l1", l1, "count"), dims("steps", steps, "count")
    ratios = np.empty(len(changes))
    given = c.MeasuredChanges(l1=changes.ctypes.data, steps=moves.ctypes.data, count=len(changes))
    given.norm, given.allowance = number("norm", norm), number("allowance", allowance)
    call("tightness_of", given, unit, resamples, seed, ratios, found)
    return Record(
        ratios=ratios, ratio=record(found.ratio), largest=found.largest, violations=found.violations
    )


def depth_ranges(layers: int) -> list[tuple[int, int]]:
    """The rows of the sources' table 1 for so many layers: (1, 4), (5, 8), (9, 12), (13, 24), … [TOT-84]"""
    ranges: list[tuple[int, int]] = []
    first, last = ctypes.c_int64(), ctypes.c_int64()
    while library.ota_depth_range(len(ranges), layers, ctypes.byref(first), ctypes.byref(last)):
        ranges.append((first.value, last.value))
    return ranges


def scaling_exponent(depth_from: float, value_from: float, depth_to: float, value_to: float) -> float:
    """log(value_to / value_from) / log(depth_to / depth_from). [TOT-85]"""
    return float(plain("scaling_exponent", depth_from, value_from, depth_to, value_to))


def power_law(depths: Any, values: Any) -> Record:
    """values = factor depths^exponent (count,) by least squares of logarithms. [TOT-85]"""
    dims, found = Dims(), c.PowerLaw()
    x, y = dims("depths", depths, "count"), dims("values", values, "count")
    call("power_law_of", x, y, len(x), found)
    return record(found)


def trend(values: Any) -> Record:
    """decreases, and the Mann-Kendall score, tau and z of values (count,). [TOT-91]"""
    x, found = Dims()("values", values, "count"), c.Trend()
    call("trend_of", x, len(x), found)
    return record(found)


# ---- saturation events -----------------------------------------------------------------------------


def _flags(dims: Dims, name: str, x: Any, letters: str) -> Any:
    return np.ascontiguousarray(dims(name, x, letters) != 0, np.uint8)


def events(flags: Any) -> Record:
    """Counts and runs of events, flags (transitions, positions). [TOT-87, 88]

    Returns
    -------
    Record
        events, positions_hit, frequency, position_frequency, first_layer, last_layer, peak_layer, outer,
        runs, longest_run, mean_run; by_layer (transitions,) and run_lengths (transitions + 1,).
    """
    dims, found = Dims(), c.EventSummary()
    x = _flags(dims, "flags", flags, "transitions positions")
    by_layer, lengths = np.zeros(len(x), np.int64), np.zeros(len(x) + 1, np.int64)
    call("events_of", x, *x.shape, by_layer, lengths, found)
    return record(found, by_layer=by_layer, run_lengths=lengths)


def phi(a: Any, b: Any) -> float:
    """Correlation of two yes-no series (count,); NaN if one never varies. [TOT-87]"""
    dims = Dims()
    x, y = _flags(dims, "a", a, "count"), _flags(dims, "b", b, "count")
    return found_of("phi_of", x, y, len(x)) if len(x) else math.nan


def token_class(text: str | bytes) -> set[str]:
    """Which of space, word start, letters, digits, punctuation, sentence end a token's text is. [TOT-88]

    Examples
    --------
    >>> from otattn import analysis
    >>> sorted(analysis.token_class(" word"))
    ['letters', 'word start']
    """
    data = text if isinstance(text, bytes) else text.encode()
    found = library.ota_token_class(data, len(data))
    return {word for word, bit in _TOKEN_WORDS.items() if found & bit}
