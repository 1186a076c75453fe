"""`maxsim` on tensors: plain ones without ctypes, and the derivative of the scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from . import _native
from . import _structs as c
from ._maxsim import Call
from ._threads import thread_limit
from ._torch_repeat import is_plain

_KINDS = {torch.float32: c.F32, torch.bfloat16: c.BF16, torch.float16: c.F16}


def _numbers(x: Any) -> Any:
    """Places or lengths in memory that NumPy shows."""
    return x.numpy() if type(x) is Tensor and x.is_cpu and not x.requires_grad else x


def plain(
    queries: Tensor,
    documents: Any,
    offsets: Any,
    lengths: Any,
    query_lengths: Any,
    capacity: int,
    top: int | None,
) -> Any:
    """The answer for tensors that lie in memory and need no derivative; None: they are others."""
    if not isinstance(documents, Tensor) or not is_plain(queries, documents):
        return None
    if (queries.requires_grad or documents.requires_grad) and torch.is_grad_enabled():
        return None
    kind = _KINDS.get(queries.dtype)
    if kind is None or documents.dtype is not queries.dtype:
        return None
    found = _native.maxsim(
        (queries.data_ptr(), kind, queries.shape, queries.stride()),
        (documents.data_ptr(), kind, documents.shape, documents.stride()),
        None if offsets is None else _numbers(offsets),
        None if lengths is None else _numbers(lengths),
        None if query_lengths is None else _numbers(query_lengths),
        capacity,
        top,
        thread_limit(),
    )
    if found is None or top is None:
        return None if found is None else torch.from_numpy(found)
    return torch.from_numpy(found[0]), torch.from_numpy(found[1])


class _Scores(torch.autograd.Function):
    """Scores of tensors on this machine in f32, bf16 or f16, padded documents one after another in memory."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, documents: Tensor, *others: Any) -> Tensor:
        call = Call(queries.detach(), documents.detach(), *others)
        (scores,) = call.scores(choices=True)
        ctx.call = call
        # Only their versions count: the call reads the memory itself.
        ctx.save_for_backward(queries, documents)
        return torch.from_numpy(scores)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, score_grad: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        wanted: list[Tensor | None] = [
            torch.empty(x.shape, dtype=torch.float32) if need else None
            for x, need in zip(ctx.saved_tensors, ctx.needs_input_grad, strict=False)
        ]
        given = np.ascontiguousarray(score_grad.numpy(force=True), np.float32)
        ctx.call.gradients(given, *(None if x is None else x.data_ptr() for x in wanted))
        kinds = [x.dtype for x in ctx.saved_tensors]
        found = [None if x is None else x.to(kind) for x, kind in zip(wanted, kinds, strict=True)]
        return (*found, None, None, None, None)


def _readable(x: Tensor) -> Tensor:
    x = x.cpu()
    return x.float() if x.dtype == torch.float64 else x


def differentiable(
    queries: Tensor,
    documents: Tensor,
    offsets: Any,
    lengths: Any,
    query_lengths: Any,
    capacity: int,
    top: int | None,
) -> Any:
    """Scores whose gradients flow to queries and documents; with `top` the best, and their documents."""
    asked, held = _readable(queries), _readable(documents)
    if held.ndim == 3:
        held = held.contiguous()
    others = (offsets, lengths, query_lengths, capacity)
    scores: Tensor = _Scores.apply(asked, held, *others)  # type: ignore[no-untyped-call]
    if top is None:
        return scores.to(queries.device)
    _, order = Call(asked.detach(), held.detach(), *others).scores(top)
    best = torch.from_numpy(order)
    return scores.gather(-1, best).to(queries.device), best.to(queries.device)
