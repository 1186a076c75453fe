"""Weights and scores of chosen heads in blocks of rows: no [n, n] numbers are held beside what is kept.

Rows of free columns are made from their scores, those of online columns by `decode` from what the rows
before left, those of coupled columns whose plan ends in rows from the potentials of one solve,
P = rows(S + g). The weights of other methods (prefix columns, hard or relaxed rows, caps of weights) are
one plan of all rows: head by head.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from . import _structs as c
from ._attention import attention
from ._aux import AuxRequest
from ._decode import step
from ._spec import Spec, spec_for
from ._template import COUPLED, template

# Numbers of a block.
_NUMBERS = 1 << 20
# Options that say the same of some rows; those of a solve of columns, which rows behind it do not read.
_OF_ROWS = frozenset(
    ("is_causal", "scale", "enable_gqa", "method", "temperature", "softcap", "bias", "row_mass")
)
_OF_FREE_ROWS = _OF_ROWS | {"sink", "tolerance", "strict", "nonfinite", "deadline"}
_OF_COLUMNS = frozenset(("tolerance", "rounds", "max_rounds", "solver", "allow_partial", "prune", "deadline"))
# How rows are made.
_ALONE, _IN_ORDER, _BY_POTENTIAL, _TOGETHER = "alone", "in order", "by potential", "together"

Put = Callable[[int, slice, Tensor], None]


def of_heads(x: Any, heads: list[int], count: int) -> Any:
    """These query heads of a tensor (..., heads, rows, columns) with one entry a query head, a key head, or
    one for all; None stays."""
    if x is None or x.dim() < 3 or x.shape[-3] == 1:
        return x
    group = count // x.shape[-3]
    return x.index_select(-3, torch.tensor([head // group for head in heads], device=x.device))


def options_of_heads(named: Mapping[str, Any], heads: list[int], count: int) -> dict[str, Any]:
    """Options of a call on some heads, of which a model's own terms have some for each head."""
    found = dict(named)
    if found.get("bias") is not None:
        found["bias"] = of_heads(found["bias"], heads, count)
    sink = found.get("sink")
    if isinstance(sink, Tensor) and sink.numel() > 1:
        found["sink"] = sink[..., heads]
    return found


def seen(mask: Tensor | None, causal: bool | None, size: tuple[int, int], rows: slice, like: Tensor) -> Any:
    """Which pairs of some rows a score is of; None: all."""
    if mask is not None:
        part = rows_of(mask, rows)
        return part if part.dtype == torch.bool else part > torch.finfo(part.dtype).min / 2
    if not causal:
        return None
    first, last, _ = rows.indices(size[0])
    plain = torch.ones(last - first, size[1], dtype=torch.bool, device=like.device)
    return plain.tril(size[1] - size[0] + first)


def rows_of(x: Tensor, rows: slice) -> Tensor:
    """Of (..., queries or 1, keys)."""
    return x if x.shape[-2] == 1 else x[..., rows, :]


def blocks(batch: int, queries: int, keys: int) -> Iterator[slice]:
    """Of the rows of one head of all texts."""
    height = max(1, _NUMBERS // (batch * keys))
    for first in range(0, queries, height):
        yield slice(first, min(first + height, queries))


def scores(
    pair: tuple[Tensor, Tensor], rows: slice, scale: float | None, softcap: float | None, bias: Tensor | None
) -> Tensor:
    """Of some rows of heads that have a key each, without their mask."""
    query, key = pair
    found = query[..., rows, :] @ key.mT * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if softcap is not None:
        found = softcap * torch.tanh(found / softcap)
    return found if bias is None else found + rows_of(bias, rows)


def weights(
    put: Put,
    heads: list[int],
    operands: tuple[Any, ...],
    named: Mapping[str, Any],
    left: Tensor | None = None,
) -> None:
    """Hands the weights of these heads over, those of a call ``attention(*operands, **named)``; left: what
    online columns' earlier keys have left, (batch, heads, keys)."""
    query = operands[0]
    method, kind = _row_method(named)
    if torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in operands):
        kind = _TOGETHER
    for place, head in enumerate(heads):
        own = tuple(of_heads(x, [head], query.shape[1]) for x in operands)
        part = options_of_heads(named, [head], query.shape[1])
        if kind == _IN_ORDER or left is not None:
            before = None if left is None else left[:, [head]]
            _in_order(functools.partial(put, place), own, part, before, kind == _IN_ORDER)
        elif kind == _TOGETHER:
            _, aux = attention(*own, return_aux=AuxRequest(coupling=True), **part)
            put(place, slice(0, query.shape[2]), aux.coupling)
        else:
            _by_rows(functools.partial(put, place), own, part, method, kind == _BY_POTENTIAL)


def _by_rows(
    put: Callable[[slice, Tensor], None],
    operands: tuple[Any, ...],
    part: dict[str, Any],
    method: str,
    potential: bool,
) -> None:
    """Rows that are made alone, of one head."""
    q, k, v, mask = operands
    size = q.shape[2], k.shape[2]
    # Nothing is mixed.
    v = v[..., :1]
    columns = None
    if potential:
        solved: Any = attention(q, k, v, mask, return_aux=AuxRequest(potentials=True), **part)[1]
        columns = solved.potentials.column.to(torch.promote_types(q.dtype, torch.float32))[..., None, :]
    causal = part.get("is_causal")
    keep = _OF_ROWS if potential else _OF_FREE_ROWS
    part = {name: x for name, x in part.items() if name in keep and name != "is_causal"}
    for rows in blocks(len(q), *size):
        here = {**part, "method": method, **_some(part, rows)}
        if columns is not None:
            here["bias"] = columns if here.get("bias") is None else columns + here["bias"]
        allowed = rows_of(mask, rows) if mask is not None else seen(None, causal, size, rows, q)
        _, aux = attention(q[..., rows, :], k, v, allowed, return_aux=AuxRequest(coupling=True), **here)
        put(rows, aux.coupling)


def _in_order(
    put: Callable[[slice, Tensor], None],
    operands: tuple[Any, ...],
    part: dict[str, Any],
    left: Tensor | None,
    several: bool,
) -> None:
    """Rows of online columns of one head, each block behind the one before; in one block unless `several`."""
    q, k, v, mask = operands
    queries, keys = q.shape[2], k.shape[2]
    v, causal = v[..., :1], bool(part.pop("is_causal", False))
    for rows in blocks(len(q), queries, keys) if several else (slice(0, queries),):
        end = keys - queries + rows.stop if causal else keys
        here = {**part, **_some(part, rows)}
        if here.get("bias") is not None and here["bias"].shape[-1] > 1:
            here["bias"] = here["bias"][..., :end]
        if mask is not None:
            here["attn_mask"] = rows_of(mask, rows)[..., :end]
        known = None if left is None else left.shape[-1]
        tensors = q[..., rows, :], k[..., :end, :], v[..., :end, :]
        _, left, aux = step(tensors, left, AuxRequest(coupling=True), here, causal, known)
        put(rows, aux.coupling)


def _some(named: Mapping[str, Any], rows: slice) -> dict[str, Any]:
    found = {}
    if named.get("bias") is not None:
        found["bias"] = rows_of(named["bias"], rows)
    mass = named.get("row_mass")
    if mass is not None:
        found["row_mass"] = mass[..., rows] if mass.shape[-1] > 1 else mass
    return found


def _row_method(named: Mapping[str, Any]) -> tuple[str, str]:
    """By which method rows are made, and how."""
    given = {name for name, x in named.items() if x is not None}
    method = named["method"]
    if isinstance(method, Spec):
        return "", _TOGETHER
    problem, _ = template(spec_for(method))
    alone = problem.rows == c.ROWS_HARD and problem.axis == c.AXIS_ROWS and not problem.entry_cap > 0
    if not alone or problem.end != c.SIDE_ROWS:
        return "", _TOGETHER
    if problem.columns in (c.COLUMNS_FREE, c.COLUMNS_ONLINE):
        kind = _ALONE if problem.columns == c.COLUMNS_FREE else _IN_ORDER
        return (method, kind) if given <= _OF_FREE_ROWS else ("", _TOGETHER)
    plain = "{" not in method and "/" in method and problem.regulariser != c.HARD
    if problem.columns not in COUPLED or not plain or not given <= _OF_ROWS | _OF_COLUMNS:
        return "", _TOGETHER
    return method.partition("/")[0], _BY_POTENTIAL
