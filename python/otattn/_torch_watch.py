"""Who looks on at calls on tensors, and how their results lie in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from . import _native
from ._threads import follow

# How the memory of tensors is seen; torch before 2.10 has no such table, and its calls go the longer way.
_native.tensors(Tensor, getattr(Tensor, "__dlpack_c_exchange_api__", None))
_under_transform = torch._C._are_functorch_transforms_active
_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack
_tracing = torch._C._is_tracing
# Its flag is read; to ask the profiler itself takes as long as all the other questions.
_profiler = torch.autograd.profiler
_compiling = torch.compiler.is_compiling
# As torch's own operators do.
follow(torch.get_num_threads)


def is_watched() -> bool:
    """Whether torch's dispatcher has to see each call.

    A compiler, a transformation or forward mode works on what it sees; a tracer (torch.jit.trace, the ONNX
    exporter of graphs) takes what it does not see for a constant; modes of dispatch and of functions (fake
    tensors, FLOP counters, default devices) stand between; the profiler gives times to operators. All that
    reads and writes the memory of tensors by itself asks here, by `is_plain` or `derivative_wanted`.
    """
    if (
        _compiling()
        or _tracing()
        or _dispatch_modes()
        or _function_modes()
        or _under_transform()
        or _profiler._is_profiler_enabled
    ):
        return True
    return forward_ad._current_level >= 0


def refuse_tracers(what: str) -> None:
    """NotImplementedError where a tracer would take for a constant what is read from memory past it."""
    traced = bool(_tracing())
    if not traced and _dispatch_modes():
        from torch.fx.experimental.proxy_tensor import get_proxy_mode

        traced = get_proxy_mode() is not None
    if traced:
        raise NotImplementedError(
            f"{what} reads numbers past torch's dispatcher, and a tracer would take its results for "
            "constants; call it outside of what is traced"
        )


def is_plain(*tensors: Tensor) -> bool:
    """Memory on this machine, and nobody looking on."""
    if is_watched():
        return False
    for x in tensors:
        if type(x) not in _KINDS or not x.is_cpu or x.layout != torch.strided or x.is_neg():
            return False
    return True


def derivative_wanted(recorded: bool, tensor: Tensor) -> bool | None:
    """Whether one is, by what `_native.derivative` says of plain tensors like this; None: they are not plain.

    What `_native` takes lies in this machine's memory, which therefore is not asked here.
    """
    if type(tensor) not in _KINDS or is_watched():
        return None
    return recorded and torch.is_grad_enabled()


_KINDS = (Tensor, torch.nn.Parameter)


ORDER = (0, 1, 2, 3)


def order_of(query: Tensor) -> tuple[int, ...]:
    """The dimensions [batch, heads, queries, width] of `out` in memory: as the query has them, width last.

    Models keep heads inside of tokens and go on with [batch, tokens, heads * width], which then is no copy.
    """
    strides, sizes = query.stride(), query.shape
    if any(strides[k] == 0 and sizes[k] > 1 for k in range(3)):
        # What is repeated says nothing.
        return ORDER
    return (*sorted(range(3), key=lambda k: -strides[k]), 3)


def empty_in_order(shape: Sequence[Any], order: Sequence[int], like: Tensor, dtype: torch.dtype) -> Tensor:
    """A tensor of this shape whose dimension order[k] is the k-th in memory."""
    strides, dense = [0] * len(shape), 1
    for k in reversed(order):
        strides[k] = dense
        dense = dense * shape[k]
    return like.new_empty_strided(shape, strides, dtype=dtype)
