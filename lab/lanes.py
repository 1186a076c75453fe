"""Batches of small transport problems: otattn in lanes, a batch of rounds in torch, a loop over POT.

    PYTHONPATH=python python lab/lanes.py

One thread, 20 rounds, f32, costs uniform in [0, 1], temperature .1, microseconds of processor time a
problem; every row alternates the calls in one process and keeps the fastest of each.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np
import ot
import otattn
import torch

ROUNDS, REG = 20, 0.1


def log_rounds(cost: torch.Tensor) -> torch.Tensor:
    scores = -cost / REG
    g = scores.new_zeros(scores.shape[0], 1, scores.shape[2])
    for _ in range(ROUNDS):
        f = -torch.logsumexp(scores + g, 2, keepdim=True)
        g = -torch.logsumexp(scores + f, 1, keepdim=True)
    f = -torch.logsumexp(scores + g, 2, keepdim=True)
    return (scores + f + g).exp()


def scaling_rounds(cost: torch.Tensor) -> torch.Tensor:
    kernel = (-cost / REG).exp()
    v = kernel.new_ones(kernel.shape[0], 1, kernel.shape[2])
    for _ in range(ROUNDS):
        u = 1.0 / (kernel * v).sum(2, keepdim=True)
        v = 1.0 / (kernel * u).sum(1, keepdim=True)
    u = 1.0 / (kernel * v).sum(2, keepdim=True)
    return u * kernel * v


def in_lanes(cost: torch.Tensor) -> torch.Tensor:
    return otattn.coupling(cost, cost=True, method="softmax/exact", temperature=REG, rounds=ROUNDS)


def pot_loop(cost: torch.Tensor) -> list[np.ndarray]:
    mass = np.ones(cost.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [ot.sinkhorn(mass, mass, c, REG, stopThr=0.0, numItermax=ROUNDS) for c in cost.numpy()]


def fastest(calls: list[tuple[Callable[..., object], torch.Tensor]], turns: int) -> list[float]:
    best = [float("inf")] * len(calls)
    for _ in range(turns):
        for k, (call, cost) in enumerate(calls):
            begun = time.process_time()
            call(cost)
            best[k] = min(best[k], (time.process_time() - begun) / len(cost))
    return [1e6 * x for x in best]


def main() -> None:
    torch.set_num_threads(1)
    otattn.set_num_threads(1)
    torch.manual_seed(1)
    print("size    heads   otattn  torch scaling  torch log  POT")
    for n in (4, 8, 16, 32):
        heads = 4096
        cost = torch.rand(heads, n, n)
        found, wanted = in_lanes(cost), log_rounds(cost.double())
        assert float((found - wanted).abs().max()) < 2e-6
        few = cost[:40]
        row = fastest([(in_lanes, cost), (scaling_rounds, cost), (log_rounds, cost), (pot_loop, few)], 7)
        print(f"{n:2} x {n:<2} {heads:6}", *(f"{x:10.3f}" for x in row))


if __name__ == "__main__":
    main()
