"""The dropout of otattn.h in plain Python: which weights go, by seed, offset and place."""

from __future__ import annotations

import numpy as np

LOW = (1 << 32) - 1


def philox(counter: list[int], key: int) -> list[int]:
    """Philox 4x32-10: ten rounds of two multiplications, the key stepped by Weyl constants."""
    a, b, c, d = counter
    low, high = key & LOW, key >> 32
    for _ in range(10):
        first, second = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = second >> 32 ^ b ^ low, second & LOW, first >> 32 ^ d ^ high, first & LOW
        low, high = low + 0x9E3779B9 & LOW, high + 0xBB67AE85 & LOW
    return [a, b, c, d]


def dropout_mask(shape: tuple[int, int, int, int], dropout: float, seed: int, offset: int) -> np.ndarray:
    """What every weight of [batch, heads, queries, keys] is multiplied by."""
    found = np.empty(shape)
    for b, h, i, j in np.ndindex(*shape):
        head = philox([offset & LOW, offset >> 32, b, h], seed)
        words = philox([i, 0, j // 4, 0], head[0] | head[1] << 32)
        found[b, h, i, j] = 0.0 if words[j % 4] < int(dropout * 2**32) else 1 / (1 - dropout)
    return found
