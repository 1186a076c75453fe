"""Trains a step of a small causal model whose tokens lie on many processes, under DDP and under FSDP.

torchrun --nproc-per-node 2 examples/training/context_parallel.py

Every rank holds some tokens of every sequence (zigzag shares, so that causal rows cost all ranks the same)
and calls otattn.distributed.attention; everything else of the model works on tokens one by one. The
parameters after a step are compared with those of one process that had all tokens. Exit status 1 where they
differ by more than 1e-7.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import otattn
import torch
import torch.distributed as dist
from otattn import distributed
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

TOKENS, WIDTH, HEADS, SEQUENCES = 61, 32, 4, 3
METHOD = "softmax/relaxed:1"
MOST = 1e-7


class Block(nn.Module):
    """Attention and a feed-forward layer on the tokens of this process, [sequences, tokens, width]."""

    def __init__(self, shared: bool) -> None:
        super().__init__()
        self.shared = shared
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.into, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        parts = self.into(self.first(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        keywords: dict[str, Any] = {"method": METHOD, "is_causal": True}
        if self.shared:
            mixed = distributed.attention(q, k, v, shares="zigzag", **keywords)
        else:
            mixed = otattn.attention(q, k, v, **keywords)
        x = x + self.out(mixed.transpose(1, 2).flatten(-2))
        y: Tensor = x + self.feed(self.second(x))
        return y


def model_of(shared: bool) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(Block(shared), Block(shared), nn.Linear(WIDTH, WIDTH)).double()


def step(model: nn.Module, x: Tensor, goal: Tensor, scale: float) -> float:
    """One step of SGD on this process's tokens; the loss's part of them."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = ((model(x) - goal) ** 2).sum() / (SEQUENCES * TOKENS)
    (scale * loss).backward()
    optimizer.step()
    return loss.item()


def main() -> int:
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    ranks = dist.get_world_size()
    torch.manual_seed(2)
    x, goal = torch.randn(2, SEQUENCES, TOKENS, WIDTH, dtype=torch.float64)
    alone = model_of(False)
    loss = step(alone, x, goal, 1.0)
    mine = distributed.rows_of(TOKENS, shares="zigzag")
    worst = 0.0
    for name in ("ddp", "fsdp"):
        model = model_of(True)
        if name == "ddp":
            wrapped: nn.Module = nn.parallel.DistributedDataParallel(model)
        else:
            wrapped = fully_shard(model, mesh=init_device_mesh("cpu", (ranks,)))
        # Both take the mean of the ranks' gradients; a loss over all tokens wants their sum.
        part = step(wrapped, x[:, mine], goal[:, mine], float(ranks))
        whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
        apart = max((p - q).abs().max().item() for p, q in zip(whole, alone.parameters(), strict=True))
        total = torch.tensor(part, dtype=torch.float64)
        dist.all_reduce(total)
        worst = max(worst, apart)
        if dist.get_rank() == 0:
            print(f"{name}: {ranks} ranks, loss {total.item():.12f} ({loss:.12f} in one process), "
                  f"largest difference of a parameter {apart:.1e}")  # fmt: skip
    dist.destroy_process_group()
    return int(worst > MOST)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # FSDP's mesh keeps the group's threads; one that drops a tensor while Python ends aborts the process.
    os._exit(status)
