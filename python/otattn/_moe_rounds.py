"""The rounds of `otattn.moe`: Sinkhorn's and the alternating quantiles, as biases of experts."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

from . import _structs as c
from ._errors import new_error, raise_status
from ._library import library
from ._threads import thread_limit

QUANTILE_ROUNDS = 100


# Up to this k so many passes over the scores, each at the speed of memory, take less than a partition.
_PASSES = 16


def largest(scores: Any, k: int) -> tuple[Any, Any]:
    """Columns and values of the k largest scores of each row, falling; of equal ones the first column."""
    every = np.arange(len(scores))
    if k > _PASSES:
        columns = np.argpartition(scores, -k, 1)[:, -k:]
        values = np.take_along_axis(scores, columns, 1)
        order = np.argsort(-values, 1)
        return np.take_along_axis(columns, order, 1), np.take_along_axis(values, order, 1)
    columns, values = np.empty((len(scores), k), np.int64), np.empty((len(scores), k), scores.dtype)
    rest = scores.copy() if k > 1 else scores
    for place in range(k):
        found = rest.argmax(1)
        columns[:, place], values[:, place] = found, rest[every, found]
        if place + 1 < k:
            rest[every, found] = -np.inf
    return columns, values


def best(scores: Any, k: int) -> Any:
    """The columns of the k largest scores of each row, rising."""
    return np.sort(largest(scores, k)[0], 1)


def level(biases: Any, choices: int, lower: Any, upper: Any) -> Any:
    """Biases plus the number that makes their bound the least; choices do not depend on it."""
    order = np.argsort(-biases)
    falling, low, high = biases[order], lower[order], upper[order]
    shifts = -falling

    def before(x: Any) -> Any:
        return np.cumsum(x) - x

    # With the shift -b the biases above b are positive and those below it negative.
    positive = before(low * falling) + shifts * before(low)
    negative = (before((high * falling)[::-1]) + shifts[::-1] * before(high[::-1]))[::-1]
    return biases + shifts[np.argmin(choices * shifts - positive - negative)]


class Rounds(NamedTuple):
    """What Sinkhorn's rounds found, all of it from one call of the library."""

    experts: Any
    shares: Any
    biases: Any
    load: Any
    value: float
    rounds: int
    converged: bool


def sinkhorn(matrix: Any, k: int, start: Any, tolerance: float, limit: int) -> Rounds:
    """Rows first, then columns, until the mean change of the column scaling is at most `tolerance`.

    The column scaling begins at 1 and keeps its magnitude, whatever the scale of a row, so rows are divided
    by their largest exponential and logits of any size are safe.
    """
    tokens, experts = matrix.shape
    chosen, shares = np.empty((tokens, k), np.int64), np.empty((tokens, k))
    biases, load = np.empty(experts), np.empty(experts, np.int64)
    whole = ctypes.c_int64 * 4
    logits = c.Array(
        data=matrix.ctypes.data,
        type=c.F32 if matrix.dtype == np.float32 else c.F64,
        size=whole(1, 1, tokens, experts),
        stride=whole(0, 0, experts, 1),
    )
    problem = c.Routing(
        size=ctypes.sizeof(c.Routing),
        logits=logits,
        take=k,
        start=None if start is None else start.ctypes.data,
        tolerance=tolerance,
        rounds=limit,
    )
    result = c.RoutingResult(
        size=ctypes.sizeof(c.RoutingResult),
        chosen=chosen.ctypes.data,
        shares=shares.ctypes.data,
        potentials=biases.ctypes.data,
        loads=load.ctypes.data,
    )
    options = c.Options(size=ctypes.sizeof(c.Options), threads=thread_limit())
    error, reference = new_error()
    status = library.ota_route(ctypes.byref(problem), ctypes.byref(options), ctypes.byref(result), reference)
    if status < 0:
        raise_status(status, error)
    return Rounds(chosen, shares, biases, load, result.value, result.rounds, result.converged != 0)


def quantile(
    matrix: Any, k: int, lower: Any, upper: Any, start: Any, tolerance: float, limit: int
) -> tuple[Any, Any, int, bool]:
    """Alternates the thresholds of tokens and the biases of experts, each the best for the others.

    A token's threshold lies between its k-th and next largest biased logit. An expert's bias is the one
    nearest 0 with which as many tokens exceed their thresholds as its bounds allow. The rounds lower the
    dual of the relaxed problem and can stop above its least value.
    """
    tokens, experts = matrix.shape
    biases = np.zeros(experts) if start is None else start.copy()
    if k == experts:
        return best(matrix, k), biases, 0, True
    across = np.ascontiguousarray(matrix.T)
    done, converged = 0, False
    # Places in the rising list of biases an expert needs to be taken by 1, 2, ... tokens.
    low, high = np.maximum(lower - 1, 0), np.minimum(upper, tokens - 1)
    places = sorted({*low.tolist(), *high.tolist()})
    every = np.arange(experts)
    while done < limit and not converged:
        top = largest(matrix + biases.astype(matrix.dtype), k + 1)[1]
        thresholds = 0.5 * (top[:, k - 1] + top[:, k])
        needed = np.partition(thresholds - across, places, 1)
        least = np.where(lower > 0, needed[every, low], -np.inf)
        most = np.where(upper < tokens, needed[every, high], np.inf)
        # Equal loads leave the open interval from `least` to `most`.
        middle = 0.5 * (least + most)
        after = np.where(lower == upper, middle, np.clip(0.0, least, most))
        after = np.where(np.isfinite(after), after, 0.0)
        change = after - biases
        # A common shift of all biases changes no choice.
        converged = bool(np.abs(change - change.mean()).mean() <= tolerance)
        biases = after
        done += 1
    return best(matrix + biases, k), biases, done, converged
