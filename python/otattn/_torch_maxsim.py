"""`maxsim` on tensors: plain ones without ctypes, others by the operators maxsim and maxsim_gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import _native, _torch  # noqa: F401  (_torch defines the library of operators)
from . import _structs as c
from ._errors import NotDifferentiable
from ._maxsim import Call
from ._threads import thread_limit
from ._torch_derivative import no_second, no_setup, register
from ._torch_watch import is_plain

_KINDS = {torch.float32: c.F32, torch.bfloat16: c.BF16, torch.float16: c.F16}
# Queries and documents, and where these begin and end.
_ARRAYS = "Tensor queries, Tensor documents, Tensor? offsets, Tensor? lengths, Tensor? query_lengths"
_COUNT = 5
_library = torch.library.Library("otattn", "FRAGMENT")
_library.define(f"maxsim({_ARRAYS}, int capacity, int? top, bool choices) -> Tensor[]")
_library.define(
    f"maxsim_gradients({_ARRAYS}, Tensor chosen, Tensor score_grad, int capacity, bool[] wanted) -> Tensor[]"
)


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


def _call(arrays: tuple[Any, ...], capacity: int) -> Call:
    queries, documents = (x.detach() for x in arrays[:2])
    offsets, lengths, asked = (None if x is None else x.numpy(force=True) for x in arrays[2:])
    return Call(queries, documents, offsets, lengths, asked, capacity)


def _scores(*arguments: Any) -> list[Tensor]:
    """Scores, with `top` the best and their documents, with `choices` the pairs of each sum."""
    *arrays, capacity, top, choices = arguments
    found = _call(tuple(arrays), capacity).scores(top, choices)
    return [torch.from_numpy(x).to(arrays[0].device) for x in found]


def _scores_fake(*arguments: Any) -> list[Tensor]:
    queries, documents, offsets = arguments[:3]
    top, choices = arguments[-2:]
    if documents.dim() == 2 and offsets is None:
        raise ValueError("packed documents need offsets, and no lengths")
    count = documents.shape[0] if documents.dim() == 3 else offsets.shape[0] - 1
    shape = (*queries.shape[:-2], count if top is None else top)
    found = [queries.new_empty(shape, dtype=torch.float32)]
    if top is not None:
        found.append(queries.new_empty(shape, dtype=torch.int64))
    if choices:
        rows = queries.shape[0] if queries.dim() == 3 else 1
        found.append(queries.new_empty((rows, count, queries.shape[-2]), dtype=torch.int64))
    return found


def _gradients(*arguments: Any) -> list[Tensor]:
    *arrays, chosen, score_grad, capacity, wanted = arguments
    call = _call(tuple(arrays), capacity)
    call.choose(np.ascontiguousarray(chosen.numpy(force=True)))
    made = [torch.empty(x.shape, dtype=torch.float32) for x in arrays[:2]]
    given = np.ascontiguousarray(score_grad.numpy(force=True), np.float32)
    call.gradients(given, *(x.data_ptr() if want else None for x, want in zip(made, wanted, strict=True)))
    return [
        x.to(like.device, like.dtype) for x, like, want in zip(made, arrays, wanted, strict=False) if want
    ]


def _gradients_fake(*arguments: Any) -> list[Tensor]:
    wanted = arguments[-1]
    return [
        torch.empty(x.shape, dtype=x.dtype, device=x.device)
        for x, want in zip(arguments, wanted, strict=False)
        if want
    ]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    *arrays, ctx.capacity, _, choices = inputs
    if not choices:
        raise NotDifferentiable("otattn::maxsim without choices has no derivative; call otattn.maxsim")
    ctx.save_for_backward(*arrays, output[-1])
    ctx.mark_non_differentiable(*output[1:])


def _backward(ctx: Any, gradients: Any) -> tuple[Any, ...]:
    *arrays, chosen = ctx.saved_tensors
    wanted = list(ctx.needs_input_grad[:2])
    results: list[Any] = [None] * (_COUNT + 3)
    if any(wanted) and gradients[0] is not None:
        found = iter(torch.ops.otattn.maxsim_gradients(*arrays, chosen, gradients[0], ctx.capacity, wanted))
        results[:2] = [next(found) if want else None for want in wanted]
    return tuple(results)


def _along(ctx: Any, tangents: Any) -> Any:
    raise NotDifferentiable("otattn.maxsim has no forward mode; use reverse mode")


for _name, _function, _fake in (
    ("maxsim", _scores, _scores_fake),
    ("maxsim_gradients", _gradients, _gradients_fake),
):
    for _device in ("CPU", "CUDA"):
        _library.impl(_name, _function, _device)
    torch.library.register_fake(f"otattn::{_name}", _fake, lib=_library)
register(_library, "maxsim", _setup, _backward, _along)
register(_library, "maxsim_gradients", no_setup, no_second, no_second)


def torch_maxsim(
    queries: Tensor,
    documents: Tensor,
    offsets: Any,
    lengths: Any,
    query_lengths: Any,
    capacity: int,
    top: int | None,
) -> Any:
    """Scores, whose gradients flow to queries and documents; with `top` the best, and their documents."""
    places = [x if x is None else torch.as_tensor(x) for x in (offsets, lengths, query_lengths)]
    wanted = torch.is_grad_enabled() and (queries.requires_grad or documents.requires_grad)
    if not wanted:
        found = torch.ops.otattn.maxsim(queries, documents, *places, capacity, top, False)
        return found[0] if top is None else tuple(found)
    scores = torch.ops.otattn.maxsim(queries, documents, *places, capacity, None, True)[0]
    if top is None:
        return scores
    given = (queries.detach(), documents.detach())
    best = torch.ops.otattn.maxsim(*given, *places, capacity, top, False)[1]
    return scores.gather(-1, best), best
