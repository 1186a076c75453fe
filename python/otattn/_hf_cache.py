"""Online columns behind a cache of transformers: what each key of a layer has left, from one forward pass
to the next.

A layer is not told which sequence it goes on with. So it keeps a number for each key that it has seen, made
of all bits of that key, and goes on where those of the earlier keys are the same: rows of a batch may have
moved (beams), the oldest keys may have left (windows). Anything else is another sequence, or a cache that
rounds keys (quantized), and refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from ._aux import AuxRequest
from ._decode import step
from ._spec import Spec

_WHOLE_NUMBERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


class Step(NamedTuple):
    """A call of the last queries of a causal layer over the keys that its cache holds."""

    operands: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]
    """Query, key, value and mask, without the room that a static cache has for later keys."""
    named: dict[str, Any]
    """Other arguments of `attention`; is_causal: of queries that stand at the end of the keys."""
    left: torch.Tensor | None
    """What the earlier keys have left."""
    marks: torch.Tensor


def begin(
    module: torch.nn.Module,
    operands: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None],
    named: Mapping[str, Any],
) -> Step:
    """The call ``attention(*operands, **named)`` as a step of the layer's sequence."""
    query, key, value, mask = operands
    queries, found = query.shape[2], dict(named)
    if mask is not None and queries < key.shape[2]:
        end = _end(mask, key.shape[2])
        key, value, mask = key[:, :, :end], value[:, :, :end], mask[..., :end]
        bias = found.get("bias")
        if bias is not None and bias.shape[-1] > 1:
            found["bias"] = bias[..., :end]
    earlier = key.shape[2] - queries
    # Masks of some models let a token see later ones (those of one image).
    found["is_causal"] = mask is None or not bool(_allowed(mask).triu(1 + earlier).any())
    marks = _marks(key)
    left = None
    if earlier > 0:
        left = _left(module, named["method"], marks[:, :, :earlier])
    return Step((query, key, value, mask), found, left, marks)


def attend(module: torch.nn.Module, call: Step, request: AuxRequest | None) -> Any:
    """The output (batch, heads, queries, width), with a request and what that asks for; what keys have left
    then is kept."""
    *tensors, mask = call.operands
    named = {**call.named, "attn_mask": mask}
    causal = named.pop("is_causal")
    q, k, v = tensors
    out, left, *aux = step((q, k, v), call.left, request, named, causal)
    module._otattn_left = (named["method"], call.marks, left)  # type: ignore[assignment]
    return (out, *aux) if aux else out


def _allowed(mask: torch.Tensor) -> torch.Tensor:
    return mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2


def _end(mask: torch.Tensor, keys: int) -> int:
    """Where the keys end that the last query may see; behind it a static cache has room for later ones."""
    places = _allowed(mask[:, :, -1]).flatten(0, -2).any(0).nonzero()
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
        "method, so what they have left is not known; begin with the whole sequence, under "
        "torch.no_grad(), and with a cache that gives keys back as they were, which a quantized one does not"
    )
