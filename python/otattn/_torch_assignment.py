"""`linear_sum_assignment` of a tensor as the operator assign, for whoever looks on at torch's operators."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from . import _torch  # noqa: F401  (defines the library of operators)
from ._assignment import from_torch

_library = torch.library.Library("otattn", "FRAGMENT")
_library.define("assign(Tensor cost, bool maximize, float? limit) -> Tensor[]")


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


for _device in ("CPU", "CUDA"):
    _library.impl("assign", _assign, _device)
torch.library.register_fake("otattn::assign", _fake, lib=_library)


def by_operator(cost: Tensor, maximize: bool, limit: Any) -> tuple[Tensor, ...]:
    """Rows and columns of the pairs."""
    if limit is not None and limit == math.inf:
        limit = None
    return tuple(torch.ops.otattn.assign(cost.detach(), maximize, limit))
