"""sinkhorn_normalize on tensors: the operators normalize and normalize_gradients of torch.ops.otattn."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import _structs as c
from . import _torch  # noqa: F401  (defines the library of operators)
from ._errors import NotDifferentiable
from ._normalize import Recipe, backward, check_shape, forward
from ._shapes import shape_text

_TYPES = {torch.float64: c.F64, torch.float32: c.F32}
_NARROW = (torch.bfloat16, torch.float16)
_WORDS = "int order, int rounds, float eps, float tolerance, int implicit"
_library = torch.library.Library("otattn", "FRAGMENT")
_library.define(f"normalize(Tensor scores, {_WORDS}) -> Tensor")
_library.define(f"normalize_gradients(Tensor saved, Tensor plan_grad, {_WORDS}) -> Tensor")
_DEVICES = ("CPU", "CUDA")


def _dense(x: Tensor) -> Tensor:
    """The matrices in memory that the library reads."""
    return x.detach().cpu().contiguous()


def _normalize(scores: Tensor, *words: Any) -> Tensor:
    x = _dense(scores)
    plan = torch.empty_like(x)
    side = x.shape[-1]
    forward(Recipe(*words), _TYPES[x.dtype], x.numel() // (side * side), side, x.data_ptr(), plan.data_ptr())
    return plan.to(scores.device)


def _gradients(saved: Tensor, plan_grad: Tensor, *words: Any) -> Tensor:
    x, g = _dense(saved), _dense(plan_grad)
    scores_grad = torch.empty_like(x)
    side = x.shape[-1]
    backward(
        Recipe(*words),
        _TYPES[x.dtype],
        x.numel() // (side * side),
        side,
        x.data_ptr(),
        g.data_ptr(),
        scores_grad.data_ptr(),
    )
    return scores_grad.to(saved.device)


def _fake(x: Tensor, *others: Any) -> Tensor:
    del others
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    scores, *ctx.words = inputs
    ctx.save_for_backward(output if ctx.words[-1] else scores)


def _backward(ctx: Any, plan_grad: Tensor) -> tuple[Any, ...]:
    (saved,) = ctx.saved_tensors
    found = torch.ops.otattn.normalize_gradients(saved, plan_grad.to(saved.dtype), *ctx.words)
    return (found, *[None] * len(ctx.words))


def _no_second(ctx: Any, gradient: Any) -> Any:
    raise NotDifferentiable("otattn has first derivatives only; call it without create_graph=True")


def _no_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    del ctx, inputs, output


def _vmap(info: Any, dims: Any, scores: Tensor, *words: Any) -> tuple[Tensor, int]:
    """Leading dimensions are the batch already."""
    return torch.ops.otattn.normalize(scores.movedim(dims[0], 0), *words), 0


def _vmap_gradients(
    info: Any, dims: Any, saved: Tensor, plan_grad: Tensor, *words: Any
) -> tuple[Tensor, int]:
    return torch.ops.otattn.normalize_gradients(*_batched(info, dims, saved, plan_grad), *words), 0


def _batched(info: Any, dims: Any, *tensors: Tensor) -> list[Tensor]:
    """All with the dimension of the batch in front."""
    return [
        x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
        for x, dim in zip(tensors, dims, strict=False)
    ]


for _device in _DEVICES:
    _library.impl("normalize", _normalize, _device)
    _library.impl("normalize_gradients", _gradients, _device)
torch.library.register_fake("otattn::normalize", _fake, lib=_library)
torch.library.register_fake("otattn::normalize_gradients", _fake, lib=_library)
torch.library.register_autograd("otattn::normalize", _backward, setup_context=_setup, lib=_library)
torch.library.register_autograd(
    "otattn::normalize_gradients", _no_second, setup_context=_no_setup, lib=_library
)
torch.library.register_vmap("otattn::normalize", _vmap, lib=_library)
torch.library.register_vmap("otattn::normalize_gradients", _vmap_gradients, lib=_library)


class _Normalize(torch.autograd.Function):
    """The operator for torch.func, whose transformations want the set-up apart from the forward."""

    @staticmethod
    def forward(x: Tensor, words: Any) -> Tensor:
        found: Tensor = torch.ops.otattn.normalize(x, *words)
        return found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _setup(ctx, (inputs[0], *inputs[1]), output)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (saved,) = ctx.saved_tensors
        found = _Gradients.apply(saved, gradients[0].to(saved.dtype), ctx.words)  # type: ignore[no-untyped-call]
        return found, None

    @staticmethod
    def vmap(  # pyright: ignore[reportIncompatibleMethodOverride]
        info: Any, dims: Any, x: Tensor, words: Any
    ) -> Any:
        del info
        return _Normalize.apply(x.movedim(dims[0], 0), words), 0  # type: ignore[no-untyped-call]


class _Gradients(torch.autograd.Function):
    @staticmethod
    def forward(saved: Tensor, plan_grad: Tensor, words: Any) -> Tensor:
        found: Tensor = torch.ops.otattn.normalize_gradients(saved, plan_grad, *words)
        return found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _no_setup(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return _no_second(ctx, gradients)

    @staticmethod
    def vmap(  # pyright: ignore[reportIncompatibleMethodOverride]
        info: Any, dims: Any, saved: Tensor, plan_grad: Tensor, words: Any
    ) -> Any:
        both = _batched(info, dims, saved, plan_grad)
        return _Gradients.apply(*both, words), 0  # type: ignore[no-untyped-call]


def _is_plain(x: Tensor) -> bool:
    """Nobody watches this call, so it need not pass torch's dispatcher, slower than small batches are."""
    return (
        type(x) is Tensor
        and x.device.type == "cpu"
        and not (x.requires_grad and torch.is_grad_enabled())
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()
        and torch._C._len_torch_dispatch_stack() == 0
    )


def torch_normalize(recipe: Recipe, x: Tensor) -> Tensor:
    if x.dtype not in _TYPES and x.dtype not in _NARROW:
        raise TypeError(
            f"x has type {x.dtype} and shape {shape_text(x)}, wanted float64, float32, bfloat16 or float16"
        )
    check_shape(x)
    if x.device.type not in ("cpu", "cuda", "meta"):
        raise ValueError(f"x lies on {x.device}; call it with x.cpu()")
    wide = x.float() if x.dtype in _NARROW else x
    if _is_plain(x):
        return _normalize(wide, *recipe).to(x.dtype)
    if torch._C._are_functorch_transforms_active():
        found: Tensor = _Normalize.apply(wide, tuple(recipe))  # type: ignore[no-untyped-call]
    else:
        found = torch.ops.otattn.normalize(wide, *recipe)
    return found.to(x.dtype)
