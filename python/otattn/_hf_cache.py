"""Online columns behind a cache of transformers: what each key of a layer has left, from one forward pass
to the next.

A layer is not told which sequence it goes on with. So it keeps a number for each key that it has seen, made
of all bits of that key, and goes on where those of the earlier keys are the same: rows of a batch may have
moved (beams), the oldest keys may have left (windows). Anything else is another sequence, and refused.
"""

from __future__ import annotations

from typing import Any

import torch

from ._decode import decode
from ._spec import Spec

_WHOLE_NUMBERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def attend(
    module: torch.nn.Module,
    tensors: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    mask: torch.Tensor | None,
    **arguments: Any,
) -> torch.Tensor:
    """The output (batch, heads, queries, width) of the last queries of a causal layer over the keys that
    its cache holds."""
    query, key, value = tensors
    queries = query.shape[2]
    if mask is not None and queries < key.shape[2]:
        end = _end(mask, key.shape[2])
        key, value, mask = key[:, :, :end], value[:, :, :end], mask[..., :end]
    method = arguments["method"]
    marks = _marks(key)
    earlier = key.shape[2] - queries
    left = None
    if earlier > 0:
        left = _left(module, method, marks[:, :, :earlier])
    out, left = decode(query, key, value, left, attn_mask=mask, **arguments)
    module._otattn_left = (method, marks, left)  # type: ignore[assignment]
    found: torch.Tensor = out
    return found


def _end(mask: torch.Tensor, keys: int) -> int:
    """Where the keys end that the last query may see; behind it a static cache has room for later ones."""
    last = mask[:, :, -1] if mask.dtype == torch.bool else mask[:, :, -1] > torch.finfo(mask.dtype).min / 2
    places = last.flatten(0, -2).any(0).nonzero()
    return int(places[-1]) + 1 if len(places) else keys


def _marks(key: torch.Tensor) -> torch.Tensor:
    """One number a key, (batch, key heads, keys): sums of its bits, each dimension by an odd factor, modulo
    2^64."""
    x = key.detach().contiguous().view(_WHOLE_NUMBERS[key.element_size()]).long()
    factors = torch.arange(1, x.shape[-1] + 1, device=x.device) * -7046029254386353131 | 1
    x = x * factors
    return ((x ^ (x >> 29)) * -4658895280553007687).sum(-1)


def _left(module: torch.nn.Module, method: str | Spec, marks: torch.Tensor) -> Any:
    kept = getattr(module, "_otattn_left", None)
    earlier = marks.shape[2]
    if kept is not None and kept[0] == method and kept[1].shape[2] >= earlier:
        known = kept[1][:, :, -earlier:].to(marks.device)
        same = (marks[:, None] == known[None]).flatten(2).all(-1)
        if bool(same.any(1).all()):
            return kept[2][same.int().argmax(1).to(kept[2].device)][:, :, -earlier:]
    raise ValueError(
        f"the cache holds {earlier} earlier keys that are not those this layer saw last with this "
        f"method, so what they have "
        "left is not known; begin with the whole sequence, under torch.no_grad() and without "
        "output_attentions"
    )
