"""What a loss does to the plans of a model: advantages, gradients of the scores and their Fisher norm.

A plan p of scores s (temperature 1) gives the context p V. With u = -dL/dp, every separable regulariser has

    dL/ds_j = -w_j (u_j - sum_k w_k u_k / sum_k w_k),   w = 1 / Omega''(p):

w = p for softmax, where this is the paper's advantage p (u - E_p u). Exact columns add a baseline for every
key: dL/ds_ij = -p_ij (u_ij - a_i - b_j), where a and b make the sums of its rows and columns 0.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import otattn
import torch
import torch.nn.functional as F
from otattn import analysis
from torch import Tensor, nn

CHECKED_ROWS = 32
"""So many rows of a layer are compared with the library's own functions for one row."""


class Seen(NamedTuple):
    """One layer on one batch, in f64: (images, heads, queries, keys)."""

    p: Tensor
    u: Tensor
    """-dL/dp, L being the sum over the images."""
    g: Tensor
    """dL/ds, by torch and the library's backward pass."""
    weights: float
    """Norm of the gradient of the maps to queries and keys, L being the mean over the images."""


def split(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def watch(model: nn.Module, loss: Callable[[], Tensor], images: int) -> list[Seen]:
    """Every attention layer of a model during one loss, which sums over the images; no gradient is kept."""
    layers = [layer for layer in model.modules() if isinstance(layer, otattn.nn.Attention)]
    found: list[dict[str, Tensor]] = [{} for _ in layers]

    def before(kept: dict[str, Tensor], layer: Any, inputs: Any, named: dict[str, Any]) -> Any:
        x = inputs[0]
        # The gradient of zeros that are added to the scores is that of the scores.
        kept["s"] = x.new_zeros(x.shape[0] * layer.num_heads, x.shape[1], x.shape[1], requires_grad=True)
        to_values, bias = layer.in_proj_weight.chunk(3)[2], layer.in_proj_bias.chunk(3)[2]
        kept["V"] = split(F.linear(x, to_values, bias), layer.num_heads)
        named |= {"attn_mask": kept["s"], "need_weights": True, "average_attn_weights": False}
        return inputs, named

    def after(kept: dict[str, Tensor], layer: Any, inputs: Any, outputs: tuple[Tensor, Tensor]) -> None:
        kept["p"] = outputs[1]

    def context(kept: dict[str, Tensor], layer: Any, inputs: tuple[Tensor]) -> None:
        kept["c"] = inputs[0]

    hooks = []
    for layer, kept in zip(layers, found, strict=True):
        hooks += [
            layer.register_forward_pre_hook(functools.partial(before, kept), with_kwargs=True),
            layer.register_forward_hook(functools.partial(after, kept)),
            layer.out_proj.register_forward_pre_hook(functools.partial(context, kept)),
        ]
    try:
        with torch.enable_grad():
            total = loss()
            wanted = [(kept["s"], kept["c"]) for kept in found]
            asked = [x for pair in wanted for x in pair] + [layer.in_proj_weight for layer in layers]
            gradients = torch.autograd.grad(total, asked)
    finally:
        for hook in hooks:
            hook.remove()
    seen = []
    for k, (layer, kept) in enumerate(zip(layers, found, strict=True)):
        p = kept["p"].detach().double()
        g = gradients[2 * k].double().reshape(p.shape)
        u = -split(gradients[2 * k + 1], layer.num_heads).double() @ kept["V"].detach().double().mT
        maps = gradients[2 * len(layers) + k][: 2 * layer.embed_dim]
        seen.append(Seen(p, u, g, maps.norm().item() / images))
    return seen


def over_row(u: Tensor, w: Tensor) -> Tensor:
    """u less its mean by row under the weights w: the advantage where w = p. [LIT-19]"""
    return u - (w * u).sum(-1, keepdim=True) / w.sum(-1, keepdim=True)


def over_row_and_key(u: Tensor, p: Tensor) -> Tensor:
    """u - a_i - b_j with p-weighted sums 0 by row and by column; rows of p sum to 1."""
    r, c = (p * u).sum(-1), (p * u).sum(-2)
    normal = torch.diag_embed(p.sum(-2)) - p.mT @ p
    # b is determined up to a constant, which a takes up.
    b = (torch.linalg.pinv(normal, hermitian=True) @ (c[..., None] - p.mT @ r[..., None])).squeeze(-1)
    a = r - (p @ b[..., None]).squeeze(-1)
    return u - a[..., None] - b[..., None, :]


def scaled(difference: Tensor, g: Tensor) -> float:
    return (difference.abs().max() / g.abs().max()).item()


def by_library(seen: Seen) -> float:
    """Largest difference of dL/ds from the library's advantage, Fisher product and natural gradient.

    Relative to the largest entry of what is compared; for softmax. [LIT-17, LIT-28, LIT-29]
    """
    rows = [x.flatten(0, -2) for x in (seen.p, seen.u, seen.g)]
    chosen = torch.linspace(0, len(rows[0]) - 1, CHECKED_ROWS).long()
    p, u, g = (x[chosen] for x in rows)
    most = 0.0
    for row in range(len(p)):
        # The plan has been rounded to f32, and F to f64 has the sum 1.
        q = (p[row] / p[row].sum()).numpy()
        by_advantage = torch.from_numpy(analysis.advantage(q, u[row].numpy())[1])
        by_fisher = -torch.from_numpy(analysis.fisher_product(q, u[row].numpy()))
        step = torch.from_numpy(analysis.natural_gradient(q, u[row].numpy()))
        back = -torch.from_numpy(analysis.fisher_product(q, step.numpy()))
        most = max(most, *((x - g[row]).abs().max().item() for x in (by_advantage, by_fisher, back)))
    return most / g.abs().max().item()


def measures(seen: Seen, method: str, stiffness: Callable[[Tensor], Tensor] | None) -> dict[str, float]:
    """The trace of a layer; stiffness is 1 / Omega'' of a regulariser with free columns, None: exact ones.

    advantage  mean |u - E_p u|                                       [LIT-19]
    gradient   root mean square over the rows of |dL/ds|
    fisher     the same of sqrt(g^T F^+ g), F the paper's Fisher information at p [LIT-27]: for softmax the
               deviation of u under p
    entropy    mean of -sum p log p
    weights    norm of the gradient of the maps to queries and keys
    printed    largest difference of dL/ds from -p (u - E_p u), over the largest |dL/ds|   [LIT-17]
    identity   the same from the formula of this file
    library    the same from the library's functions (softmax)
    """
    p, u, g = seen.p, seen.u, seen.g
    printed = over_row(u, p)
    if stiffness is None:
        w, own = p, over_row_and_key(u, p)
    else:
        w = stiffness(p)
        own = over_row(u, w)
    # g^T F^+ g = sum g^2 / p over p > 0, as the sum of g is 0 there; no quotient of two roundings.
    norm = (w * own.square() * torch.where(p > 0.0, w / p, 0.0)).sum(-1)
    found = {
        "advantage": printed.abs().mean().item(),
        "gradient": math.sqrt(g.square().sum(-1).mean().item()),
        "fisher": math.sqrt(norm.mean().item()),
        "entropy": -torch.xlogy(p, p).sum(-1).mean().item(),
        "weights": seen.weights,
        "printed": scaled(g + p * printed, g),
        "identity": scaled(g + w * own, g),
    }
    if method == "softmax":
        found["library"] = by_library(seen)
    return found
