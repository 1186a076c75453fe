"""Tensors as the operands of a solve: checked, in four dimensions, and as views of memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import has_static_value

from . import _structs as c
from ._fold import Kind, fold_operands
from ._job import Operand, View
from ._kept import Memory
from ._settings import MASSES, OPERANDS, shown
from ._shapes import (
    Folded,
    dense,
    fold,
    fold_scores,
    of_numbers,
    of_pairs,
    shape_text,
)
from ._spec import Spec
from ._torch_watch import ORDER, empty_in_order, order_of

TYPES = {
    torch.float64: c.F64,
    torch.float32: c.F32,
    torch.bfloat16: c.BF16,
    torch.float16: c.F16,
    torch.bool: c.BOOL,
    torch.int64: c.I64,
}
_FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def view_of(x: Tensor) -> View:
    if x.dim() == 0:
        return (x.data_ptr(), TYPES[x.dtype], 1, 1, 1, 1, 0, 0, 0, 0)
    return (x.data_ptr(), TYPES[x.dtype], *x.shape, *x.stride())


def operand_of(x: Tensor | None) -> Operand:
    if x is None:
        return None
    if x.dim() == 1:
        # Seed and offset of dropout, and numbers.
        return tuple(x.tolist())
    return float(x.detach()) if x.dim() == 0 else view_of(x)


def _expand(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return x.expand(shape)


def _check(name: str, x: Any) -> Tensor:
    if not isinstance(x, torch.Tensor):
        raise TypeError(
            f"{name} is a {type(dense(name, x)).__name__}, but query is a torch tensor: "
            f"pass torch.as_tensor({name})"
        )
    if x.layout != torch.strided:
        dense(name, x)
    return x


def floating(name: str, value: Any) -> Tensor:
    x = _check(name, value)
    if x.dtype not in _FLOATS:
        raise TypeError(
            f"{name} has type {x.dtype} and shape {shape_text(x)}, "
            f"wanted float64, float32, bfloat16 or float16{of_numbers(name, x)}"
        )
    return x


def _numbers(name: str, value: Any, dtype: torch.dtype | None = None) -> Tensor:
    """A tensor of what may be one, a number, a list or an array."""
    if isinstance(value, torch.Tensor):
        return value
    if torch.compiler.is_compiling() and isinstance(value, float) and not has_static_value(value):
        # A product, since graphs take other ways from numbers to tensors for constants.
        return torch.ones((), dtype=dtype or torch.float64) * value
    try:
        return torch.as_tensor(value, dtype=dtype)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise TypeError(f"{name} is {shown(value)}, wanted numbers") from error


def _wide(name: str, value: Any, like: Tensor) -> Tensor:
    x = _check(name, _numbers(name, value, torch.float64))
    if x.dtype in (torch.float32, torch.float64) or (name in MASSES and x.dtype in _FLOATS):
        return x
    return x.to(torch.float64 if like.dtype == torch.float64 or not x.is_floating_point() else torch.float32)


def sum_of(bias: Any, mask: Tensor, kind: torch.dtype) -> Tensor:
    """Both added, in the type of the scores and 4 bytes or more: a sum in a narrower type would be rounded,
    or leave its range."""
    if bias is None:
        return mask
    kind = torch.promote_types(kind, torch.float32)
    return _widened(floating("bias", bias), kind) + _widened(mask, kind)


def _widened(x: Tensor, kind: torch.dtype) -> Tensor:
    wider = torch.promote_types(x.dtype, kind)
    if wider == x.dtype:
        return x
    # What stands for -inf in its own type is a number like others in a wider one.
    return x.to(wider).masked_fill(x <= torch.finfo(x.dtype).min / 2, -torch.inf)


def _signed(x: int) -> int:
    """The int64 of the same 64 bits."""
    return x - (1 << 64) if x >= 1 << 63 else x


def _mask(name: str, x: Any) -> Tensor:
    x = _check(name, x)
    if x.dtype != torch.bool and x.dtype not in _FLOATS:
        raise TypeError(of_pairs(name, x))
    return x  # type: ignore[no-any-return]


def _whole(name: str, x: Any, count: int) -> Tensor:
    x = _check(name, _numbers(name, x))
    if x.is_floating_point() or tuple(x.shape) != (count,):
        raise ValueError(f"{name} has type {x.dtype} and shape {shape_text(x)}, wanted integers ({count},)")
    return x.to(torch.int64)  # type: ignore[no-any-return]


def _is_one(x: Tensor) -> bool:
    return x.numel() == 1


_KIND = Kind(_mask, floating, _wide, _whole, _is_one, _expand)


def operands_of(
    extra: Mapping[str, Any], batch: tuple[int, ...], sizes: tuple[int, int, int], like: Tensor
) -> list[Tensor | None]:
    """The operands behind query, key and value, in their order, in four dimensions or as scalars."""
    found = fold_operands(_KIND, extra, batch, sizes, like)
    mask = extra.get("attn_mask")
    # Not of its view, which has none where nothing is recorded.
    if mask is not None and mask.requires_grad:
        # Only terms have gradients, and there is one of pairs.
        at, bias = OPERANDS.index("attn_mask") - 3, OPERANDS.index("bias") - 3
        found[bias], found[at] = sum_of(found[bias], found[at], like.dtype), None
    return found


def seed_of(seed: tuple[int | None, int]) -> Tensor:
    """Seed and offset of dropout as an operand; a seed of its own where there is none."""
    # One draw: under torch.compile it is part of the graph.
    if seed[0] is None:
        return torch.randint(-(1 << 63), (1 << 63) - 1, (2,))
    return torch.tensor([_signed(seed[0]), _signed(seed[1])])


def under_autocast(named: Mapping[str, Any]) -> Mapping[str, Any]:
    """Query, key and value in the type of autocast where that is on, as torch's own attention takes them.

    Each call asks once, ahead of what autograd records: backward meets other settings, and reads what
    forward read.
    """
    query = named["query"]
    kind = query.device.type
    if "key" not in named or not torch.amp.is_autocast_available(kind) or not torch.is_autocast_enabled(kind):
        return named
    dtype = torch.get_autocast_dtype(kind)
    found = dict(named)
    for name in OPERANDS[:3]:
        x = found[name]
        if isinstance(x, Tensor) and x.is_floating_point() and x.dtype != torch.float64:
            found[name] = x.to(dtype)
    return found


def folded_of(query: Any, key: Any, value: Any, enable_gqa: bool) -> Folded:
    """Checked tensors of one type in four dimensions."""
    query, key, value = floating("query", query), floating("key", key), floating("value", value)
    for name, x in (("key", key), ("value", value)):
        if x.dtype != query.dtype:
            raise TypeError(f"{name} has type {x.dtype}, but query has {query.dtype}")
    return fold(query, key, value, enable_gqa, _expand)


def fold_all(spec: Spec, named: Mapping[str, Any]) -> tuple[list[Tensor | None], tuple[int, ...]]:
    """All operands of the tensors of a call, in four dimensions, and the dimensions before those of results.

    Without `key` and `value` the query is a matrix of scores.
    """
    rest = {name: x for name, x in named.items() if name not in OPERANDS[:3]}
    if "key" not in named:
        scores = floating("scores", named["query"])
        whole, batch, lead = fold_scores(scores)
        return [whole, None, None, *operands_of(rest, batch, tuple(whole.shape[1:]), scores)], lead
    folded = folded_of(named["query"], named["key"], named["value"], spec.enable_gqa)
    heads, queries = folded.query.shape[1:3]
    sizes = (heads, queries, folded.key.shape[2])
    return [*folded[:3], *operands_of(rest, folded.batch, sizes, folded.query)], folded.lead


_OF_TYPE = {number: dtype for dtype, number in TYPES.items()}


def _new(like: Tensor, kind: int, shape: tuple[int, ...], order: tuple[int, ...]) -> Tensor:
    dtype = _OF_TYPE[kind] if kind else like.dtype
    if not order:
        return torch.empty(shape, dtype=dtype)
    sizes = [0] * len(shape)
    for k, size in zip(order, shape, strict=True):
        sizes[k] = size
    return empty_in_order(sizes, order, like, dtype)


def _order(query: Tensor) -> tuple[int, ...]:
    found = order_of(query)
    return () if found == ORDER else found


TORCH = Memory(fold_all, operand_of, Tensor.data_ptr, _new, _order)
