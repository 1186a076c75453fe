"""The next token of a continuation, as `otattn generate` takes it: a seed gives the same text in both."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Of the mixing function of splitmix64.
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_WORDS = 1 << 64


def _draw(seed: int, index: int) -> float:
    """A number in [0, 1)."""
    word = (seed + (index + 1) * _STEP) % _WORDS
    word = (word ^ word >> 30) * _FIRST % _WORDS
    word = (word ^ word >> 27) * _SECOND % _WORDS
    return float((word ^ word >> 31) >> 11) * 2.0**-53


def next_token(logits: NDArray[np.float32], sample: bool, seed: int, index: int) -> int:
    """The first of the likeliest, or the one that is drawn as the index-th."""
    best = int(logits.argmax())
    if not sample:
        return best
    sums = np.exp(logits - logits[best]).astype(np.float64).cumsum()
    return min(int(np.searchsorted(sums, _draw(seed, index) * sums[-1], "right")), len(logits) - 1)
