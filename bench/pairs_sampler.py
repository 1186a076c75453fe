"""Rows of pairs.py: pairs drawn from plans of minibatches, and DINOv2's balanced targets.

The other side of the pairs is torchcfm's recipe on POT: the plan of the squared distances, then a choice
among all of its pairs; the other side of the targets is DINOv2's, in torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import otattn
import torch
from pairs import Pair, Prepared

REG = 1.0
TEMPERATURE = 0.07


def _clouds(samples: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x0 = torch.randn((samples, width), generator=generator)
    return x0, 0.5 + 1.5 * torch.randn((samples, width), generator=generator)


def _recipe(x0: torch.Tensor, x1: torch.Tensor, method: str) -> Any:
    import ot

    equal = ot.unif(len(x0))
    M = torch.cdist(x0, x1).square().numpy()
    if method == "exact":
        plan = ot.emd(equal, equal, M)
    else:
        plan = ot.sinkhorn(equal, equal, M, REG, method=method, stopThr=1e-5, warn=False)
    p = plan.flatten()
    choices = np.random.choice(p.size, p=p / p.sum(), size=len(x0), replace=True)
    i, j = np.divmod(choices, len(x1))
    return x0[i], x1[j], (plan * M).sum()


def _pairs(samples: int, width: int, method: str) -> Prepared:
    x0, x1 = _clouds(samples, width)
    sampler = otattn.ot.PlanSampler("exact" if method == "exact" else "sinkhorn", reg=REG, warn=False)

    def error(ours: Any, theirs: Any) -> float:
        # Draws differ; the plans that they come from must cost the same, and ours must be pairs of its own.
        M = torch.cdist(x0.double(), x1.double()).square().numpy()
        cost = float((sampler.get_map(x0, x1) * M).sum())
        assert all(ours[k].shape == x.shape for k, x in enumerate((x0, x1)))
        return abs(cost - float(theirs[2])) / float(theirs[2])

    return lambda: sampler.sample_plan(x0, x1), lambda: _recipe(x0, x1, method), error


def _teacher(samples: int, prototypes: int) -> Prepared:
    # Logits of a head whose features and prototypes have length 1.
    x = 0.3 * torch.randn((samples, prototypes), generator=torch.Generator().manual_seed(1))

    def recipe() -> torch.Tensor:
        Q = torch.exp(x.float() / TEMPERATURE).t()
        rows, columns = Q.shape
        Q /= Q.sum()
        for _ in range(3):
            Q /= Q.sum(1, keepdim=True)
            Q /= rows
            Q /= Q.sum(0, keepdim=True)
            Q /= columns
        Q *= columns
        return Q.t()

    def error(ours: torch.Tensor, theirs: torch.Tensor) -> float:
        return float((ours - theirs).abs().max())

    return lambda: otattn.ot.sinkhorn_knopp_teacher(x, TEMPERATURE), recipe, error


ROWS = [
    Pair(
        name=f"sampler {method}",
        shape=f"{samples} samples of width {width}",
        peer=f"torchcfm's recipe, POT {peer}",
        prepare=lambda samples=samples, width=width, peer=peer: _pairs(samples, width, peer),
        limit=1e-5 if method == "exact" else 1e-3,
    )
    for method, peer, samples, width in (
        ("exact", "exact", 128, 784),
        ("exact", "exact", 256, 3072),
        ("exact", "exact", 512, 2),
        # POT's plain method fails on clouds as wide as images.
        ("sinkhorn", "sinkhorn_log", 128, 784),
        ("sinkhorn", "sinkhorn_log", 256, 3072),
        ("sinkhorn", "sinkhorn", 512, 2),
    )
] + [
    Pair(
        name="teacher",
        shape=f"{samples} x {prototypes}, f32",
        peer="DINOv2's recipe in torch",
        prepare=lambda samples=samples, prototypes=prototypes: _teacher(samples, prototypes),
        limit=1e-4,
    )
    for samples, prototypes in ((64, 1024), (128, 8192), (64, 65536))
]
