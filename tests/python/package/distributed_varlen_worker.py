"""One rank of test_distributed_varlen.py: packed sequences on ranks against one process.

Arguments: rank, ranks, the store's file.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import otattn
import torch
import torch.distributed as dist
from otattn import distributed
from torch import Tensor

HEADS, KEY_HEADS, WIDTH, VALUES = 4, 2, 6, 5
# Sequences that lie on one rank, on two and on all, one without a row, one without a key.
OF_QUERIES, OF_KEYS = [0, 3, 9, 9, 12, 22, 24], [0, 4, 11, 14, 14, 25, 27]
SAME = [0, 3, 9, 9, 12, 22, 24]

CASES: list[tuple[str, list[int], dict[str, Any]]] = [
    ("softmax", OF_KEYS, {"is_causal": True}),
    ("softmax", OF_KEYS, {"window_size": (3, 1), "alibi_slopes": 0.1, "causal_align": "top_left"}),
    ("softmax", SAME, {"dropout_p": 0.3, "dropout_seed": 7, "dropout_offset": 2}),
    ("softmax", SAME, {"keys": "in_ring", "is_causal": True}),
    ("softmax/exact", SAME, {}),
    ("softmax/relaxed:0.5", SAME, {"is_causal": True}),
    ("softmax/relaxed:0.5", SAME, {"rows": "relaxed:0.9"}),
    ("entmax:1.5/exact", SAME, {}),
    ("softmax/elastic:0.5,3", SAME, {"is_causal": True}),
]


def starts_of(total: int, ranks: int, way: str) -> list[int]:
    """Even shares, or all but nothing on the second rank."""
    found = [total * k // ranks for k in range(ranks + 1)]
    if way == "empty" and ranks > 2:
        found[2] = found[1]
    return found


def share(x: Tensor, rank: int, ranks: int, way: str) -> Tensor:
    if way == "zigzag":
        return x[distributed.rows_of(x.shape[0], shares=way)].detach().clone().requires_grad_()
    starts = starts_of(x.shape[0], ranks, way)
    return x[starts[rank] : starts[rank + 1]].detach().clone().requires_grad_()


def close(found: Tensor, wanted: Tensor) -> None:
    # Coupled plans stop at a residual of 1e-9.
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


def one_case(method: str, of_keys: list[int], keywords: dict[str, Any], way: str) -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(3)
    sizes = (
        (OF_QUERIES[-1], HEADS, WIDTH),
        (of_keys[-1], KEY_HEADS, WIDTH),
        (of_keys[-1], KEY_HEADS, VALUES),
    )
    whole = [torch.randn(size, dtype=torch.float64, requires_grad=True) for size in sizes]
    upstream = torch.randn(OF_QUERIES[-1], HEADS, VALUES, dtype=torch.float64)
    heat = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
    alone = {name: value for name, value in keywords.items() if name != "keys"}
    wanted = otattn.varlen_attention(*whole, OF_QUERIES, of_keys, method=method, temperature=heat, **alone)
    wanted.backward(upstream)
    if way == "zigzag":
        keywords = {**keywords, "shares": way}
    mine = [share(x, rank, ranks, way) for x in whole]
    # A ring has no gradient of the temperature.
    part = heat.detach().clone().requires_grad_("keys" not in keywords)
    found = distributed.varlen_attention(
        *mine, torch.tensor(OF_QUERIES), of_keys, method=method, temperature=part, **keywords
    )
    close(found, share(wanted, rank, ranks, way))
    found.backward(share(upstream, rank, ranks, way).detach())
    for x, y in zip(mine, whole, strict=True):
        assert y.grad is not None
        close(torch.zeros_like(x) if x.grad is None else x.grad, share(y.grad, rank, ranks, way))
    if part.requires_grad:
        total = torch.zeros_like(heat) if part.grad is None else part.grad.clone()
        dist.all_reduce(total)
        assert heat.grad is not None
        close(total, heat.grad)


def whole_sequences_take_any_method() -> None:
    """Each rank one sequence: no messages while solving, so hard plans are fine."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    x = torch.randn(4, HEADS, WIDTH)
    bounds = [4 * k for k in range(ranks + 1)]
    found = distributed.varlen_attention(x, x, x, bounds, bounds, method="hard/exact")
    alone = otattn.varlen_attention(x, x, x, [0, 4], [0, 4], method="hard/exact")
    assert torch.equal(found, alone), rank


def on_a_mesh() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(4)
    whole = [torch.randn(24, HEADS, WIDTH, dtype=torch.float64) for _ in range(3)]
    placed = [distribute_tensor(x, mesh, [Shard(0)]) for x in whole]
    found = distributed.varlen_attention(*placed, SAME, SAME, method="softmax/exact")
    assert isinstance(found, DTensor)
    close(found.full_tensor(), otattn.varlen_attention(*whole, SAME, SAME, method="softmax/exact"))


def refused(words: str, bounds: list[int], **keywords: Any) -> None:
    x = torch.randn(4, 1, 3)
    try:
        distributed.varlen_attention(x, x, x, bounds, bounds, **keywords)
    except ValueError as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"{keywords} was not refused")


def main() -> None:
    rank, ranks, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    for method, of_keys, keywords in CASES:
        for way in ("even", "zigzag"):
            one_case(method, of_keys, keywords, way)
    one_case(*CASES[4], "empty")
    whole_sequences_take_any_method()
    on_a_mesh()
    end = 4 * ranks
    refused("cu_seq_q ends at 5, but all ranks together hold", [0, 5])
    refused("rank 1 has other bounds", [0, 4 + (rank == 1), end])
    refused("or another order of shares", [0, end], shares="zigzag" if rank == 1 else "in_order")
    refused("shares is 'even'", [0, end], shares="even")
    refused("cannot share out its rows", [0, end], method="softmax/online:2")
    refused("dropout_seed is None", [0, end], dropout_p=0.1)
    refused("max_q is 3, but the longest sequence has", [0, end], max_q=3)
    dist.barrier()
    dist.destroy_process_group()
    print("all well", flush=True)
    # The group of a DTensor's mesh outlives destroy_process_group(); a thread of it that drops a tensor while
    # Python ends aborts the process.
    os._exit(0)


if __name__ == "__main__":
    main()
