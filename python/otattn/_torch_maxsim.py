"""`maxsim` on tensors: plain ones without ctypes, others by the operators maxsim and maxsim_gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import _native, _torch  # noqa: F401  (_torch defines the library of operators)
from . import _structs as c
from . import _torch_late as late
from ._errors import NotDifferentiable
from ._maxsim import Call
from ._threads import thread_limit
from ._torch_derivative import no_second, no_setup, register
from ._torch_device import by_torch, warn_of_cpu
from ._torch_vmap import looped_vmap
from ._torch_watch import is_plain

_KINDS = {torch.float32: c.F32, torch.bfloat16: c.BF16, torch.float16: c.F16}
# Queries and documents, and where these begin and end.
_ARRAYS = "Tensor queries, Tensor documents, Tensor? offsets, Tensor? lengths, Tensor? query_lengths"
_COUNT = 5
_library = torch.library.Library("otattn", "FRAGMENT")
_library.define(f"maxsim({_ARRAYS}, int capacity, int? top, bool choices, bool by_torch) -> Tensor[]")
_library.define(
    f"maxsim_gradients({_ARRAYS}, Tensor chosen, Tensor score_grad, int capacity, bool[] wanted, "
    "bool by_torch) -> Tensor[]"
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


def _by_torch(arrays: tuple[Any, ...]) -> tuple[Tensor, Any, Any]:
    """Queries [queries, tokens, width], documents and lengths of queries as torch's operations take them."""
    queries, documents = (x.detach() for x in arrays[:2])
    for name, x in (("queries", queries), ("documents", documents)):
        if x.dtype not in (*_KINDS, torch.float64):
            raise TypeError(f"{name} have type {x.dtype}, wanted float32, bfloat16, float16 or float64")
        if x.dim() not in (2, 3):
            raise ValueError(
                f"{name} have shape {tuple(x.shape)}, wanted [tokens, width] or one more in front"
            )
    if documents.dtype != queries.dtype:
        raise TypeError(f"documents have another type than queries ({documents.dtype}, {queries.dtype})")
    if documents.shape[-1] != queries.shape[-1]:
        raise ValueError(
            f"documents have width {documents.shape[-1]} but queries {queries.shape[-1]}; use the same width"
        )
    queries = queries if queries.dim() == 3 else queries[None]
    offsets, lengths, asked = (None if x is None else x.numpy(force=True) for x in arrays[2:])
    held = late.documents_of(documents, offsets, lengths)
    return queries, held, late.query_lengths_of(asked, *queries.shape[:2])


def _scores(*arguments: Any) -> list[Tensor]:
    """Scores, with `top` the best and their documents, with `choices` the pairs of each sum."""
    *arrays, capacity, top, choices, on_device = arguments
    if not on_device:
        found = _call(tuple(arrays), capacity).scores(top, choices)
        return [torch.from_numpy(x) for x in found]
    queries, held, lengths = _by_torch(tuple(arrays))
    if top is not None and not 0 < top <= len(held.counts):
        raise ValueError(f"top_k is {top!r}, wanted 1 to the {len(held.counts)} documents")
    scores, chosen = late.scores(queries, held, lengths, choices)
    answers = (scores,) if top is None else late.best_of(scores, top)
    several = arrays[0].dim() == 3
    made = [x if several else x[0] for x in answers]
    return made if chosen is None else [*made, chosen]


def _scores_fake(*arguments: Any) -> list[Tensor]:
    queries, documents, offsets = arguments[:3]
    top, choices = arguments[-3:-1]
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
    *arrays, chosen, score_grad, capacity, wanted, on_device = arguments
    if on_device:
        queries, held, _ = _by_torch(tuple(arrays))
        slopes = score_grad.reshape(queries.shape[0], -1)
        both = late.gradients(queries, held, chosen, slopes, wanted)
        return [x.view(y.shape).to(y.dtype) for x, y in zip(both, arrays[:2], strict=True) if x is not None]
    call = _call(tuple(arrays), capacity)
    call.choose(np.ascontiguousarray(chosen.numpy(force=True)))
    made = [torch.empty(x.shape, dtype=torch.float32) for x in arrays[:2]]
    given = np.ascontiguousarray(score_grad.numpy(force=True), np.float32)
    call.gradients(given, *(x.data_ptr() if want else None for x, want in zip(made, wanted, strict=True)))
    return [x.to(like.dtype) for x, like, want in zip(made, arrays, wanted, strict=False) if want]


def _gradients_fake(*arguments: Any) -> list[Tensor]:
    wanted = arguments[-2]
    return [
        torch.empty(x.shape, dtype=x.dtype, device=x.device)
        for x, want in zip(arguments, wanted, strict=False)
        if want
    ]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    *arrays, ctx.capacity, _, choices, ctx.by_torch = inputs
    if not choices:
        raise NotDifferentiable("otattn::maxsim without choices has no derivative; call otattn.maxsim")
    ctx.save_for_backward(*arrays, output[-1])
    ctx.mark_non_differentiable(*output[1:])


def _backward(ctx: Any, gradients: Any) -> tuple[Any, ...]:
    *arrays, chosen = ctx.saved_tensors
    wanted = list(ctx.needs_input_grad[:2])
    results: list[Any] = [None] * (_COUNT + 4)
    if any(wanted) and gradients[0] is not None:
        rest = (ctx.capacity, wanted, ctx.by_torch)
        found = iter(torch.ops.otattn.maxsim_gradients(*arrays, chosen, gradients[0], *rest))
        results[:2] = [next(found) if want else None for want in wanted]
    return tuple(results)


def _along(ctx: Any, tangents: Any) -> Any:
    raise NotDifferentiable("otattn.maxsim has no forward mode; use reverse mode")


for _name, _function, _fake in (
    ("maxsim", _scores, _scores_fake),
    ("maxsim_gradients", _gradients, _gradients_fake),
):
    _library.impl(_name, _function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"otattn::{_name}", _fake, lib=_library)
    torch.library.register_vmap(
        f"otattn::{_name}", looped_vmap(getattr(torch.ops.otattn, _name)), lib=_library
    )
register(_library, "maxsim", _setup, _backward, _along)
register(_library, "maxsim_gradients", no_setup, no_second, no_second)


def torch_maxsim(
    queries: Tensor,
    documents: Tensor,
    places: tuple[Any, Any, Any],
    capacity: int,
    top: int | None,
    backend: str | None,
) -> Any:
    """Scores, whose gradients flow to queries and documents; with `top` the best, and their documents.

    The places are offsets, lengths and lengths of queries.
    """
    on_device = by_torch("queries", queries, backend)
    if on_device and 0 < capacity < queries.shape[-2]:
        if not queries.is_cpu:
            warn_of_cpu("the matching of rule 'capped'")
        found = torch_maxsim(queries.cpu(), documents.cpu(), places, capacity, top, None)
        return found.to(queries.device) if top is None else tuple(x.to(queries.device) for x in found)
    arrays = (queries, documents, *(x if x is None else torch.as_tensor(x) for x in places))
    wanted = torch.is_grad_enabled() and (queries.requires_grad or documents.requires_grad)
    if not wanted:
        found = torch.ops.otattn.maxsim(*arrays, capacity, top, False, on_device)
        return found[0] if top is None else tuple(found)
    scores = torch.ops.otattn.maxsim(*arrays, capacity, None, True, on_device)[0]
    if top is None:
        return scores
    given = (queries.detach(), documents.detach(), *arrays[2:])
    best = torch.ops.otattn.maxsim(*given, capacity, top, False, on_device)[1]
    return scores.gather(-1, best), best
