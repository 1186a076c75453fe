"""The rounds of `otattn.moe`: Sinkhorn's and the alternating quantiles, as biases of experts."""

from __future__ import annotations

from typing import Any

import numpy as np

QUANTILE_ROUNDS = 100
# What Megatron-LM's recipe adds to the sums it divides by.
_EPS = 1e-8


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
    shifts = -biases
    moved = biases + shifts[:, None]
    values = choices * shifts - np.where(moved > 0, moved * lower, moved * upper).sum(1)
    return biases + shifts[np.argmin(values)]


def sinkhorn(matrix: Any, k: int, start: Any, tolerance: float, limit: int) -> tuple[Any, Any, int, bool]:
    """Rows first, then columns, until the mean change of the column scaling is at most `tolerance`.

    The column scaling begins at 1 and keeps its magnitude, whatever the scale of a row, so rows are divided
    by their largest exponential and logits of any size are safe. Products of a matrix and a vector never
    form the scaled matrix.
    """
    tokens, experts = matrix.shape
    kernel = np.exp(matrix - matrix.max(1, keepdims=True))
    columns = np.ones(experts, matrix.dtype)
    if start is not None:
        columns = np.exp(np.clip(start - start.mean(), -80.0, 80.0)).astype(matrix.dtype)
    done, converged = 0, False
    while done < limit and not converged:
        rows = 1.0 / (tokens * (kernel @ columns + _EPS))
        after = 1.0 / (experts * (rows @ kernel + _EPS))
        converged = bool(np.abs(after - columns).mean(dtype=np.float64) <= tolerance)
        columns = after
        done += 1
    return best(kernel * columns, k), np.log(columns, dtype=np.float64), done, converged


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
