"""One rank of test_device.py: training under DDP. Arguments: rank, ranks, the store's file."""

from __future__ import annotations

import sys

import otattn.nn
import torch
import torch.distributed as dist


def main() -> None:
    rank, ranks, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    torch.manual_seed(0)
    module = otattn.nn.Attention(8, 2, batch_first=True, method="softmax/exact", rounds=3, backend="torch")
    whole = torch.randn(2 * ranks, 5, 8)
    spread = torch.nn.parallel.DistributedDataParallel(module)
    mine = whole[2 * rank : 2 * rank + 2]
    spread(mine, mine, mine)[0].square().mean().backward()
    found = [x.grad.clone() for x in module.parameters() if x.grad is not None]
    module.zero_grad()
    module(whole, whole, whole)[0].square().mean().backward()
    for x, y in zip(found, (x.grad for x in module.parameters() if x.grad is not None), strict=True):
        assert float((x - y).abs().max()) <= 1e-6 * float(y.abs().max().clamp(min=1.0))
    dist.destroy_process_group()
    print("all well")


main()
