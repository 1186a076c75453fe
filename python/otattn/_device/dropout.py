"""Which weights dropout leaves, by the library's own numbers: Philox 4x32 of ten rounds, in 64-bit integers.

Pair (i, j) of batch b and head h is dropped when word j mod 4 of philox(words 0 and 1 of philox(seed; offset,
b, h); i, j div 4) is below the probability times 2^32; 64-bit numbers are taken low word first.
"""

from __future__ import annotations

import torch
from torch import Tensor

_WORD = 0xFFFFFFFF
_FACTORS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_Words = tuple[Tensor, Tensor, Tensor, Tensor]


def _product(factor: int, x: Tensor) -> tuple[Tensor, Tensor]:
    """High and low word of a product of two words."""
    both = x * factor
    return (both >> 32) & _WORD, both & _WORD


def _philox(key: tuple[Tensor, Tensor], counter: _Words) -> _Words:
    a, b, c, d = counter
    for k in range(10):
        high, low = _product(_FACTORS[0], a)
        high2, low2 = _product(_FACTORS[1], c)
        first, second = ((x + k * step) & _WORD for x, step in zip(key, _WEYL, strict=True))
        a, b, c, d = high2 ^ b ^ first, low2, high ^ d ^ second, low
    return a, b, c, d


def kept_pairs(seed: Tensor, probability: float, heads: tuple[int, int], rows: slice, keys: slice) -> Tensor:
    """[batch, heads, rows, keys]: which pairs stay. `seed` has seed and offset as int64."""
    shape, device = (*heads, 1, 1), seed.device
    words = [(x >> shift) & _WORD for x in seed.unbind() for shift in (0, 32)]
    batch = torch.arange(heads[0], device=device).reshape(-1, 1, 1, 1).expand(shape)
    head = torch.arange(heads[1], device=device).reshape(1, -1, 1, 1).expand(shape)
    first, second, _, _ = _philox((words[0], words[1]), (words[2], words[3], batch, head))
    i = torch.arange(rows.start, rows.stop, device=device).reshape(-1, 1)
    j = torch.arange(keys.start // 4, (keys.stop + 3) // 4, device=device)
    drawn = _philox((first, second), (i & _WORD, i >> 32, j & _WORD, j >> 32))
    each = torch.stack(torch.broadcast_tensors(*drawn), -1).flatten(-2)
    first_word = keys.start // 4 * 4
    each = each[..., keys.start - first_word : keys.stop - first_word]
    return each >= int(probability * 2.0**32)
