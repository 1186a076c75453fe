"""Small and middling calls of attention and coupling beside torch's softmax and POT: what a call costs."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import ot
import otattn
import torch
import torch.nn.functional as F
from pairs import Pair, Prepared

SIZES = [(8, 16), (64, 64), (256, 64)]
MATRICES = [4, 64, 256]


def distance(ours: Any, theirs: Any) -> float:
    return float(np.abs(np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)).max())


def heads(n: int, width: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(1, 1, n, width, generator=generator) for _ in range(3)]


def of_numpy(n: int, width: int) -> Prepared:
    tensors = heads(n, width)
    arrays = [x.numpy() for x in tensors]
    return (
        lambda: otattn.attention(*arrays),
        lambda: F.scaled_dot_product_attention(*tensors),
        distance,
    )


def of_torch(n: int, width: int) -> Prepared:
    tensors = heads(n, width)
    return (
        lambda: otattn.attention(*tensors),
        lambda: F.scaled_dot_product_attention(*tensors),
        distance,
    )


def with_gradients(n: int, width: int) -> Prepared:
    leaves = [x.requires_grad_() for x in heads(n, width)]
    along = torch.ones_like(leaves[0])

    def through(call: Any) -> torch.Tensor:
        return torch.autograd.grad(call(*leaves), leaves, along)[0]

    return (
        lambda: through(otattn.attention),
        lambda: through(F.scaled_dot_product_attention),
        distance,
    )


def of_scores(n: int) -> Prepared:
    x = np.random.default_rng(0).standard_normal((n, n))
    tensor = torch.from_numpy(x)
    return lambda: otattn.coupling(x), lambda: torch.softmax(tensor, -1), distance


def of_costs(n: int) -> Prepared:
    x = np.random.default_rng(0).standard_normal((n, n))
    mass = np.full(n, 1.0 / n)
    return (
        lambda: otattn.coupling(x, method="softmax/exact"),
        lambda: n * ot.sinkhorn(mass, mass, -x, 1.0, stopThr=1e-10),
        distance,
    )


ROWS = [
    Pair(f"call, {name}", f"{n} x {width}", "torch SDPA", partial(prepare, n, width), 1e-5)
    for name, prepare in (
        ("attention", of_numpy),
        ("attention, torch", of_torch),
        ("gradients, torch", with_gradients),
    )
    for n, width in SIZES
]
ROWS += [Pair("call, coupling", f"{n}x{n}", "torch softmax", partial(of_scores, n), 1e-12) for n in MATRICES]
ROWS += [
    Pair("call, coupling, exact", f"{n}x{n}", "POT sinkhorn", partial(of_costs, n), 1e-6) for n in MATRICES
]
