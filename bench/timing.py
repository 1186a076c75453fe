"""What the benches share: the loop of timed calls, the recipes that people write in torch, the CSV."""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any


def fastest(
    call: Callable[[], object],
    calls: int = 3,
    *,
    limit: float = math.inf,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Seconds of the fastest of `calls` after one to warm up; one above `limit` is the only one."""
    best = math.inf
    for turn in range(calls + 1):
        begin = clock()
        call()
        spent = clock() - begin
        if turn > 0 or spent > limit:
            best = min(best, spent)
        if spent > limit:
            break
    return best


def in_turns(sides: Sequence[Callable[[], float]], turns: int) -> list[float]:
    """The least that each side measures; the sides run in turns, so that all meet the same gaps."""
    best = [math.inf] * len(sides)
    for _ in range(turns):
        best = [min(old, side()) for old, side in zip(best, sides, strict=True)]
    return best


def softmax_by_torch(q: Any, k: Any, v: Any, **hidden: Any) -> Any:
    import torch

    return torch.nn.functional.scaled_dot_product_attention(q, k, v, **hidden)


def entmax_by_torch(q: Any, k: Any, v: Any) -> Any:
    from entmax import entmax15

    return entmax15(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, dim=-1) @ v


def sinkhorn_by_torch(half_steps: int) -> Callable[..., Any]:
    def forward(q: Any, k: Any, v: Any) -> Any:
        import torch

        plan = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        for step in range(half_steps):
            plan = plan - torch.logsumexp(plan, dim=-1 - step % 2, keepdim=True)
        return plan.exp() @ v

    return forward


def write_csv(path: str | Path | None, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Nothing where there is no path."""
    if path is None:
        return
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(rows)
