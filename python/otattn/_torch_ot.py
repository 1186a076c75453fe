"""The derivative of the cost of exact transport: the plan by M, the dual variables by the masses."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class PlanCost(torch.autograd.Function):
    """<P, M> of a plan that does not depend on M, a number that is known."""

    @staticmethod
    def forward(ctx: Any, solved: tuple[Tensor, Tensor], M: Tensor) -> Tensor:
        """`solved` are the number, which nobody else has, and the plan."""
        cost, plan = solved
        ctx.save_for_backward(plan)
        return cost

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        (plan,) = ctx.saved_tensors
        return None, gradients[0] * plan


class ExactCost(torch.autograd.Function):
    """<P, M> of the optimal plan, a number that is known, with its gradients [n, m], [n] and [m]."""

    @staticmethod
    def forward(ctx: Any, M: Any, a: Any, b: Any, plan: Tensor, u: Tensor, v: Tensor, cost: Tensor) -> Tensor:
        """Plan, dual variables, and their cost, which nobody else has."""
        ctx.types = tuple(getattr(x, "dtype", None) for x in (M, a, b))
        ctx.save_for_backward(plan, u, v)
        return cost

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        plan, u, v = ctx.saved_tensors
        needed, found = ctx.needs_input_grad, []
        # The total is fixed, so that a constant in a dual variable means nothing.
        for k, x in enumerate((plan, u, v)):
            slope = x - x.mean() if k > 0 and needed[k] else x
            found.append(gradients[0] * slope.to(ctx.types[k]) if needed[k] else None)
        return (*found, None, None, None, None)
