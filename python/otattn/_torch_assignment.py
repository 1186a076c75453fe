"""Assignments of a tensor as the operators assign, ranked, bottleneck, for whoever looks on at operators."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from . import _torch  # noqa: F401  (defines the library of operators)
from ._assignment import by_arrays, from_torch
from ._ranked import BottleneckAssignment, RankedAssignments, bottleneck_assignment, k_best_assignments

# What to do where torch.func.vmap cannot stack answers of several sizes.
_STACK = "call it on the whole stack"
_library = torch.library.Library("otattn", "FRAGMENT")
_library.define("assign(Tensor cost, bool maximize, float? limit) -> Tensor[]")
_library.define("ranked(Tensor cost, int k, bool maximize, float? limit, bool certificate) -> Tensor[]")
_library.define("bottleneck(Tensor cost, bool maximize, float? limit) -> Tensor[]")


def _assign(cost: Tensor, maximize: bool, limit: float | None) -> list[Tensor]:
    return list(from_torch(cost, maximize, None, None, limit, False))


def _fake(cost: Tensor, maximize: bool, limit: float | None) -> list[Tensor]:
    del maximize
    *batch, rows, columns = cost.shape
    pairs: Any = torch.sym_min(rows, columns)
    if limit is not None and not batch:
        # How many pairs are left depends on the costs.
        pairs = torch.library.get_ctx().new_dynamic_size()
    return [cost.new_empty((*batch, pairs), dtype=torch.int64) for _ in range(2)]


def _ranked(cost: Tensor, k: int, maximize: bool, limit: float | None, certificate: bool) -> list[Tensor]:
    found = by_arrays(
        cost, lambda x: k_best_assignments(x, k, maximize, cost_limit=limit, certificate=certificate)
    )
    made = [found.rows, found.columns, found.value]
    if certificate:
        made.append(found.bound)
    return made if cost.dim() == 2 else [*made, found.found]


def _ranked_fake(
    cost: Tensor, k: int, maximize: bool, limit: float | None, certificate: bool
) -> list[Tensor]:
    del k, maximize, limit
    *batch, rows, columns = cost.shape
    # How many there are depends on the costs.
    found = torch.library.get_ctx().new_dynamic_size(min=0)
    pairs: Any = torch.sym_min(rows, columns)
    made = [cost.new_empty((*batch, found, pairs), dtype=torch.int64) for _ in range(2)]
    made += [cost.new_empty((*batch, found), dtype=torch.float64) for _ in range(1 + certificate)]
    return [*made, cost.new_empty(batch, dtype=torch.int64)] if batch else made


def _bottleneck(cost: Tensor, maximize: bool, limit: float | None) -> list[Tensor]:
    found = by_arrays(cost, lambda x: bottleneck_assignment(x, maximize, cost_limit=limit))
    if cost.dim() == 3:
        return list(found)
    numbers = torch.tensor(found[2:4], dtype=torch.float64, device=cost.device)
    return [*found[:2], numbers[0].clone(), numbers[1].clone(), *found[4:]]


def _bottleneck_fake(cost: Tensor, maximize: bool, limit: float | None) -> list[Tensor]:
    *batch, rows, columns = cost.shape
    made = _fake(cost, maximize, limit)
    made += [cost.new_empty(batch, dtype=torch.float64) for _ in range(2)]
    sizes = (rows, columns, rows, columns)
    return made + [cost.new_empty((*batch, size), dtype=torch.bool) for size in sizes]


def _same(name: str, counts: Tensor) -> int:
    """How many of something every matrix of a stack has."""
    # One torch.func.vmap inside of another.
    if torch._C._functorch.is_batchedtensor(counts):  # pyright: ignore[reportAttributeAccessIssue]
        raise NotImplementedError(
            f"how many {name} there are is not known under torch.func.vmap twice; {_STACK}"
        )
    least, most = int(counts.amin()), int(counts.amax())
    if least != most:
        raise ValueError(
            f"under torch.func.vmap all matrices must have as many {name}, these have {least} to {most}; "
            + _STACK
        )
    return least


def _apart(op: Any, made: list[Tensor], limited: bool) -> list[Tensor]:
    """What one matrix after the other gives, of the answer for their stack, which fills up with -1."""
    if op is torch.ops.otattn.ranked:
        counts = made.pop()
        found = _same("matchings", counts) if counts.numel() else 0
        return [x[:, :found] for x in made]
    if limited and made[0].shape[0]:
        pairs = _same("pairs", made[0].ge(0).sum(-1))
        made[:2] = [x[:, :pairs] for x in made[:2]]
    return made


def _vmap(op: Any) -> Any:
    """The new dimension is the stack of matrices, or joins it."""

    def vmap(info: Any, dims: Any, cost: Tensor, *words: Any) -> tuple[list[Tensor], list[int]]:
        del info
        cost = cost.movedim(dims[0], 0)
        if cost.dim() > 3:
            size = tuple(cost.shape[:2])
            made = [x.unflatten(0, size) for x in op(cost.flatten(0, 1), *words)]
        else:
            made = _apart(op, list(op(cost, *words)), words[-1] is not None)
        return made, [0] * len(made)

    return vmap


for _name, _function, _of in (
    ("assign", _assign, _fake),
    ("ranked", _ranked, _ranked_fake),
    ("bottleneck", _bottleneck, _bottleneck_fake),
):
    for _device in ("CPU", "CUDA"):
        _library.impl(_name, _function, _device)
    torch.library.register_fake(f"otattn::{_name}", _of, lib=_library)
    torch.library.register_vmap(f"otattn::{_name}", _vmap(getattr(torch.ops.otattn, _name)), lib=_library)


def by_operator(cost: Tensor, maximize: bool, limit: Any) -> tuple[Tensor, ...]:
    """Rows and columns of the pairs."""
    return tuple(torch.ops.otattn.assign(cost.detach(), maximize, _limit(limit)))


def _limit(limit: Any) -> float | None:
    return None if limit is None or limit == math.inf else limit


def ranked_by_operator(
    cost: Tensor, k: int, maximize: bool, limit: float, certificate: bool
) -> RankedAssignments:
    made = torch.ops.otattn.ranked(cost.detach(), k, maximize, _limit(limit), certificate)
    found = made[-1] if cost.dim() == 3 else made[2].shape[0]
    rows, columns, value = made[:3]
    return RankedAssignments(rows, columns, value, made[3] if certificate else None, found)


def bottleneck_by_operator(cost: Tensor, maximize: bool, limit: float) -> BottleneckAssignment:
    return BottleneckAssignment(*torch.ops.otattn.bottleneck(cost.detach(), maximize, _limit(limit)))
