"""torch.func.vmap over the operators: the new dimension joins the batch, or is gone through one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ._settings import OPERANDS, PLACES, UNBATCHED

_COUNT = len(OPERANDS)
# A batch of these cannot be folded into the batch dimension.
_LOOPED = (*UNBATCHED, "dropout_seed", "numbers")


def _one_by_one(op: Callable[..., list[Tensor]], size: int, dims: Any, arguments: Any) -> Any:
    parts = [
        op(*(x if dim is None else x.select(dim, k) for x, dim in zip(arguments, dims, strict=True)))
        for k in range(size)
    ]
    return [torch.stack(list(part)) for part in zip(*parts, strict=True)]


def _folded(x: Tensor | None, dim: int | None, size: int, batch: int) -> Tensor | None:
    """[size, batch|1, ...] or [batch|1, ...] -> [size * batch, ...]."""
    if x is None:
        return None
    x = x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)
    return x.expand(size, batch, *x.shape[2:]).flatten(0, 1)


def _vmap(op: Callable[..., list[Tensor]], tensors: int, info: Any, dims: Any, arguments: Any) -> Any:
    size: int = info.batch_size
    text, names = arguments[-2], arguments[-1].split(",")
    looped = any(dims[PLACES[name]] is not None for name in _LOOPED)
    looped |= any(arguments[PLACES[name]] is not None for name in ("key_lengths", "dropout_seed"))
    looped |= "facts" in names
    looped |= tensors > _COUNT and any(name not in ("query", "key", "value") for name in names)
    if looped or size == 0:
        found = _one_by_one(op, size, dims, arguments)
        return found, [0] * len(found)
    query, dim = arguments[0], dims[0]
    batch = query.shape[0] if dim is None else query.movedim(dim, 0).shape[1]
    folded = [
        x if OPERANDS[k : k + 1] and OPERANDS[k] in _LOOPED else _folded(x, dims[k], size, batch)
        for k, x in enumerate(arguments[:tensors])
    ]
    found = [
        x.unflatten(0, (size, batch)) if x.dim() > 1 else x.new_empty((size, 0))
        for x in op(*folded, text, arguments[-1])
    ]
    return found, [0] * len(found)


def solve_vmap(info: Any, dims: Any, *arguments: Any) -> Any:
    return _vmap(torch.ops.otattn.solve, _COUNT, info, dims, arguments)


def gradients_vmap(info: Any, dims: Any, *arguments: Any) -> Any:
    return _vmap(torch.ops.otattn.gradients, _COUNT + 5, info, dims, arguments)


def looped_vmap(op: Callable[..., list[Tensor]]) -> Callable[..., Any]:
    """The rule of an operator that takes no such dimension."""

    def vmap(info: Any, dims: Any, *arguments: Any) -> Any:
        found = _one_by_one(op, info.batch_size, dims, arguments)
        return found, [0] * len(found)

    return vmap
