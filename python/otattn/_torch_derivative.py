"""Derivatives of operators for autograd, torch.func and torch.compile of either.

`torch.library.register_autograd` makes a function that torch.func refuses for want of a `setup_context`. Here
the level of torch.func that a call has reached records one node of autograd, as it does for torch's own
operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad

from ._errors import NotDifferentiable

_under_transform = torch._C._are_functorch_transforms_active


def in_forward_mode() -> bool:
    """Inside of torch.autograd.forward_ad.dual_level, where tensors may carry tangents."""
    return forward_ad._current_level >= 0


def plain_apply(function: type[torch.autograd.Function]) -> Any:
    """`function.apply` of one level: without the search for wrappers of torch.func."""
    return super(torch.autograd.Function, function).apply  # type: ignore[misc]


def no_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """What an operator without derivatives keeps."""
    del ctx, inputs, output


def no_second(ctx: Any, gradients: Any) -> Any:
    """The derivative of what is a derivative itself."""
    raise NotDifferentiable("otattn has first derivatives only; call it without create_graph=True")


def register(
    library: torch.library.Library,
    name: str,
    setup: Callable[[Any, tuple[Any, ...], Any], None],
    backward: Callable[[Any, Sequence[Tensor | None]], tuple[Any, ...]],
    along: Callable[[Any, tuple[Any, ...]], Any],
) -> None:
    """Registers the derivatives of `otattn::name`, which has one overload and no keyword-only arguments.

    `setup(ctx, inputs, output)` keeps what is needed, `backward(ctx, gradients)` returns one gradient an
    input and `along(ctx, tangents)`, for forward mode, one tangent an output.
    """
    operator = getattr(torch.ops.otattn, name).default
    several = operator._schema.returns[0].type.kind() == "ListType"

    def below(keys: Any, inputs: Sequence[Any]) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return operator.redispatch(keys & torch._C._after_autograd_keyset, *inputs)

    class Node(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs_and_keys: Any) -> Any:
            # Behind the inputs, so that ctx.needs_input_grad has their places.
            *inputs, keys = inputs_and_keys
            if _under_transform():
                # Inside of a node nothing is recorded, but the levels of torch.func below this one do.
                with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
                    found = below(keys, inputs)
            else:
                found = below(keys, inputs)
            setup(ctx, tuple(inputs), found)
            return tuple(found) if several else found

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return (*backward(ctx, gradients), None)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            return along(ctx, tangents[:-1])

    node = plain_apply(Node)

    def call(keys: Any, *inputs: Any) -> Any:
        found: Any
        if _under_transform():
            # What a level of forward mode gives to its tensors is not seen from here.
            with enable_single_level_autograd_function():
                found = node(*inputs, keys)
        elif in_forward_mode() or (torch.is_grad_enabled() and torch._C._any_requires_grad(*inputs)):
            found = node(*inputs, keys)
        else:
            return below(keys, inputs)
        return list(found) if several else found

    library.impl(name, call, "Autograd", with_keyset=True)
