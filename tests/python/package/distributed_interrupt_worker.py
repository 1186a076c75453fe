"""One rank of test_distributed.py: Ctrl-C on rank 0 ends all. Arguments: rank, ranks, the store's file."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
from otattn import distributed

# Minutes.
ENDLESS = {"method": "softmax/exact", "rounds": 10**6}


def ended_by(rank: int, silent: bool, keys: str) -> type[BaseException] | None:
    seen: list[int] = []
    signal.signal(signal.SIGINT, (lambda *_: seen.append(1)) if silent else signal.default_int_handler)
    x = torch.randn(1, 1, 200, 8, dtype=torch.float64)
    started = time.monotonic()
    if rank == 0:
        threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT)).start()
    found: type[BaseException] | None = None
    try:
        distributed.attention(x, x, x, keys=keys, **ENDLESS)
    except (KeyboardInterrupt, InterruptedError) as error:
        found = type(error)
    assert time.monotonic() - started < 60.0
    assert len(seen) == int(silent and rank == 0)
    return found


def main() -> None:
    rank, ranks = int(sys.argv[1]), int(sys.argv[2])
    dist.init_process_group("gloo", rank=rank, world_size=ranks, init_method=f"file://{sys.argv[3]}")
    x = torch.randn(1, 1, 20, 8, dtype=torch.float64)
    # The first call imports what the signal is not to meet.
    distributed.attention(x, x, x)
    for keys in ("gathered", "in_ring"):
        assert ended_by(rank, False, keys) is (KeyboardInterrupt if rank == 0 else InterruptedError)
        # A handler that raises nothing: no rank makes the call again, which the others would not make.
        assert ended_by(rank, True, keys) is InterruptedError
    assert torch.isfinite(distributed.attention(x, x, x, method="softmax/exact")).all()
    dist.destroy_process_group()
    print("all well")


main()
