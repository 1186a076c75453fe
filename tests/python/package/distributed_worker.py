"""One rank of test_distributed.py: shares against one process. Arguments: rank, ranks, the store's file."""

from __future__ import annotations

import os
import sys
from typing import Any

import otattn
import torch
import torch.distributed as dist
from otattn import distributed
from torch import Tensor

N, WIDTH, HEADS, KEY_HEADS = 23, 8, 4, 2

CASES: list[tuple[str, dict[str, Any], torch.dtype]] = [
    ("softmax", {"is_causal": True}, torch.float64),
    ("softmax", {"window": (5, 2), "alibi_slopes": 0.1, "softcap": 4.0}, torch.float32),
    ("softmax", {"dropout_p": 0.25, "dropout_seed": 3}, torch.float64),
    ("entmax:1.5", {"is_causal": True}, torch.float64),
    ("softmax/exact", {"temperature": 0.7}, torch.float64),
    ("softmax/exact", {}, torch.float32),
    ("softmax/relaxed:0.5", {"is_causal": True}, torch.float64),
    ("softmax/capped:2", {"sink": -1.0}, torch.float64),
    ("softmax/bounded:0.5,1.5", {}, torch.float64),
    ("softmax/elastic:0.5,4", {"is_causal": True}, torch.float64),
    ("softmax/exact", {"rounds": 3}, torch.float32),
    ("entmax:1.5/exact", {}, torch.float64),
    ("softmax/relaxed:0.5", {"rows": "relaxed:0.9", "is_causal": True}, torch.float64),
]
RING: list[tuple[str, dict[str, Any], torch.dtype]] = [
    ("softmax", {"is_causal": True, "keys": "in_ring"}, torch.float32),
    ("softmax/exact", {"temperature": 0.7, "keys": "in_ring"}, torch.float64),
    ("entmax:1.5", {"is_causal": True, "keys": "in_ring"}, torch.float64),
    ("entmax:1.5/capped:2", {"is_causal": True, "keys": "in_ring"}, torch.float64),
]


# Of numbers that all ranks share: their gradients, too, are those of one process.
SHARED: list[tuple[str, dict[str, Any], torch.dtype]] = [
    (method, {**numbers, "keys": keys}, torch.float64)
    for keys in ("gathered", "in_ring")
    for method, numbers in (
        ("softmax", {"temperature": 0.7, "sink": -1.0, "alibi_slopes": 0.1}),
        ("entmax:1.5", {"temperature": 0.7, "sink": -1.0}),
    )
]


def share(x: Tensor, shares: str) -> Tensor:
    return x.index_select(-2, distributed.rows_of(x.shape[-2], shares=shares)).detach().requires_grad_()


def close(found: Tensor, wanted: Tensor, dtype: torch.dtype, method: str) -> None:
    coupled = "/" in method
    tolerance = (1e-7 if coupled else 1e-11) if dtype == torch.float64 else (1e-3 if coupled else 1e-5)
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)


def leaves_of(keywords: dict[str, Any], dtype: torch.dtype) -> dict[str, Tensor]:
    return {
        name: torch.tensor(number, dtype=dtype, requires_grad=True)
        for name, number in keywords.items()
        if isinstance(number, float)
    }


def one_case(
    method: str, keywords: dict[str, Any], dtype: torch.dtype, shares: str, learnt: bool = False
) -> None:
    torch.manual_seed(1)
    q, k, v = (torch.randn(2, h, N, WIDTH, dtype=dtype) for h in (HEADS, KEY_HEADS, KEY_HEADS))
    upstream = torch.randn(2, HEADS, N, WIDTH, dtype=dtype)
    whole = [x.clone().requires_grad_() for x in (q, k, v)]
    alone = {name: value for name, value in keywords.items() if name != "keys"}
    numbers, mine_of = (leaves_of(keywords, dtype) if learnt else {} for _ in range(2))
    wanted = otattn.attention(*whole, enable_gqa=True, method=method, **{**alone, **numbers})
    wanted.backward(upstream)
    mine = [share(x, shares) for x in (q, k, v)]
    found = distributed.attention(
        *mine, enable_gqa=True, shares=shares, method=method, **{**keywords, **mine_of}
    )
    close(found, share(wanted, shares), dtype, method)
    found.backward(share(upstream, shares).detach())
    for x, y in zip(mine, whole, strict=True):
        assert x.grad is not None and y.grad is not None
        close(x.grad, share(y.grad, shares), dtype, method)
    for name, number in numbers.items():
        ours = mine_of[name].grad
        assert ours is not None and number.grad is not None, name
        close(ours, number.grad, dtype, method)


def on_a_mesh() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(2)
    whole = [torch.randn(2, HEADS, 24, WIDTH, dtype=torch.float64) for _ in range(3)]
    placed = [distribute_tensor(x, mesh, [Shard(2)]) for x in whole]
    found = distributed.attention(*placed, method="softmax/exact")
    assert isinstance(found, DTensor)
    close(
        found.full_tensor(), otattn.attention(*whole, method="softmax/exact"), torch.float64, "softmax/exact"
    )


def backward_reads_what_forward_did() -> None:
    """The memory of the operands, which therefore may not change; and it is a first derivative."""
    torch.manual_seed(3)
    x, upstream = (torch.randn(1, 2, 5, 3, dtype=torch.float64) for _ in range(2))
    negated = torch.complex(upstream, upstream).conj().imag
    mine = x.clone().requires_grad_()
    kept = mine * 2
    found = distributed.attention(kept, x, x, method="softmax/exact")
    first, other = (
        torch.autograd.grad(found, mine, g, create_graph=True)[0] for g in (negated, negated.resolve_neg())
    )
    close(first, other, x.dtype, "softmax/exact")
    try:
        torch.autograd.grad(first.sum(), mine)
    except otattn.NotDifferentiable as error:
        assert "first derivatives only" in str(error), error
    else:
        raise AssertionError("a second derivative was not refused")
    with torch.no_grad():
        kept.mul_(3)
    try:
        found.backward(upstream)
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error), error
    else:
        raise AssertionError("an operand that has changed was not refused")


def refused(words: str, **keywords: Any) -> None:
    x = torch.randn(1, 1, 4, 3)
    try:
        distributed.attention(x, x, x, **keywords)
    except ValueError as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"{keywords} was not refused")


def main() -> None:
    rank, ranks, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    for method, keywords, dtype in CASES:
        for shares in ("in_order", "zigzag"):
            one_case(method, keywords, dtype, shares)
    for method, keywords, dtype in RING:
        one_case(method, keywords, dtype, "zigzag")
    for method, keywords, dtype in SHARED:
        one_case(method, keywords, dtype, "zigzag", learnt=True)
    on_a_mesh()
    backward_reads_what_forward_did()
    refused("cannot share out its rows", method="softmax/online:2")
    refused("cannot come round a ring", method="hard/exact", keys="in_ring")
    refused("keys is 'all'", keys="all")
    refused("rank 1 has another temperature than rank 0", temperature=1.0 + (rank == 1))
    dist.barrier()
    dist.destroy_process_group()
    print("all well", flush=True)
    # The group of a DTensor's mesh outlives destroy_process_group(); a thread of it that drops a tensor while
    # Python ends aborts the process.
    os._exit(0)


if __name__ == "__main__":
    main()
