"""sinkhorn_normalize on tensors: the operators normalize and normalize_gradients of torch.ops.otattn."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import _torch  # noqa: F401  (defines the library of operators)
from . import _torch_scalings as scalings
from ._normalize import Recipe, backward, check_shape, forward, warn_of
from ._normalize_along import along
from ._shapes import shape_text
from ._torch_derivative import no_second, no_setup, register
from ._torch_device import by_torch
from ._torch_watch import is_plain

_TYPES = (torch.float64, torch.float32)
_NARROW = (torch.bfloat16, torch.float16)
# The recipe, and whether torch's operations compute it whatever the device.
_WORDS = "int order, int rounds, float eps, float tolerance, int implicit, bool by_torch"
_library = torch.library.Library("otattn", "FRAGMENT")
_library.define(f"normalize(Tensor scores, {_WORDS}) -> Tensor")
_library.define(f"normalize_gradients(Tensor saved, Tensor plan_grad, {_WORDS}) -> Tensor")
_library.define(f"normalize_tangents(Tensor scores, Tensor tangent, {_WORDS}) -> Tensor")


def _normalize(scores: Tensor, *words: Any) -> Tensor:
    *terms, by_torch = words
    recipe = Recipe(*terms)
    if by_torch:
        plan, open_ = scalings.forward(recipe, scores)
        if scores.is_cpu or open_ is not None:
            # Of fixed rounds on a device nothing is read, which would wait for it.
            warn_of(recipe, bool(plan.isnan().any()), open_ is not None and bool(open_))
        return plan
    return _by_library(recipe, scores)


def _by_library(recipe: Recipe, scores: Tensor) -> Tensor:
    plan: Tensor | None = None if scores.requires_grad else forward(recipe, scores)
    if plan is not None:
        return plan
    dense: Tensor = _of_dense(forward, recipe, scores)
    return dense


def _of_dense(call: Any, recipe: Recipe, *tensors: Tensor) -> Any:
    dense = [x.detach().contiguous() for x in tensors]
    found = call(recipe, *dense)
    # Torch before 2.10 has no table of the memory of tensors.
    return torch.from_numpy(call(recipe, *(x.numpy() for x in dense))) if found is None else found


def _gradients(saved: Tensor, plan_grad: Tensor, *words: Any) -> Tensor:
    *terms, by_torch = words
    if by_torch:
        return scalings.backward(Recipe(*terms), saved, plan_grad)
    found: Tensor = _of_dense(backward, Recipe(*terms), saved, plan_grad)
    return found


def _tangents(scores: Tensor, tangent: Tensor, *words: Any) -> Tensor:
    return along(Recipe(*words[:-1]), scores, tangent)


def _fake(x: Tensor, *others: Any) -> Tensor:
    del others
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    scores, *ctx.words = inputs
    saved = output if Recipe(*ctx.words[:-1]).implicit else scores
    ctx.save_for_backward(saved)
    ctx.save_for_forward(saved)


def _backward(ctx: Any, gradients: Any) -> tuple[Any, ...]:
    (saved,) = ctx.saved_tensors
    found = torch.ops.otattn.normalize_gradients(saved, gradients[0].to(saved.dtype), *ctx.words)
    return (found, *[None] * len(ctx.words))


def _along(ctx: Any, tangents: tuple[Any, ...]) -> Tensor:
    (saved,) = ctx.saved_tensors
    # What the rounds converge to has a symmetric derivative.
    implicit = Recipe(*ctx.words[:-1]).implicit
    op = torch.ops.otattn.normalize_gradients if implicit else torch.ops.otattn.normalize_tangents
    found: Tensor = op(saved, tangents[0].to(saved.dtype), *ctx.words)
    return found


def _vmap(info: Any, dims: Any, scores: Tensor, *words: Any) -> tuple[Tensor, int]:
    """Leading dimensions are the batch already."""
    return torch.ops.otattn.normalize(scores.movedim(dims[0], 0), *words), 0


def _vmap_of_two(op: Any) -> Any:
    def vmap(info: Any, dims: Any, one: Tensor, other: Tensor, *words: Any) -> tuple[Tensor, int]:
        return op(*_batched(info, dims, one, other), *words), 0

    return vmap


def _batched(info: Any, dims: Any, *tensors: Tensor) -> list[Tensor]:
    """All with the dimension of the batch in front."""
    return [
        x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
        for x, dim in zip(tensors, dims, strict=False)
    ]


# Operators of two tensors, which have no derivative.
_SECOND = {"normalize_gradients": _gradients, "normalize_tangents": _tangents}
for _name, _function in {"normalize": _normalize, **_SECOND}.items():
    _library.impl(_name, _function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"otattn::{_name}", _fake, lib=_library)
register(_library, "normalize", _setup, _backward, _along)
torch.library.register_vmap("otattn::normalize", _vmap, lib=_library)
for _name in _SECOND:
    register(_library, _name, no_setup, no_second, no_second)
    _over = _vmap_of_two(getattr(torch.ops.otattn, _name))
    torch.library.register_vmap(f"otattn::{_name}", _over, lib=_library)


def torch_normalize(recipe: Recipe, x: Tensor, backend: str | None) -> Tensor:
    if x.dtype not in _TYPES and x.dtype not in _NARROW:
        raise TypeError(
            f"x has type {x.dtype} and shape {shape_text(x)}, wanted float64, float32, bfloat16 or float16"
        )
    check_shape(x)
    wide = x.float() if x.dtype in _NARROW else x
    if backend is None and is_plain(x) and not (x.requires_grad and torch.is_grad_enabled()):
        # Torch's dispatcher is slower than small batches are.
        plan = _by_library(recipe, wide)
        return plan if plan.dtype is x.dtype else plan.to(x.dtype)
    found: Tensor = torch.ops.otattn.normalize(wide, *recipe, by_torch("x", x, backend))
    return found.to(x.dtype)
