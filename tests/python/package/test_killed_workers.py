"""Workers of torch.distributed (gloo), of which one is killed before or after any message: the call of every
other one raises within the time-out of the group, and nobody gets a result that is not whole.

Four kills, times OTATTN_TEST_SCALE; OTATTN_KILLS_SEED draws others. Workers are forked, so that torch is
loaded once."""

from __future__ import annotations

import datetime
import os
import random
import signal
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

RANKS, SECONDS = 3, 20.0
ALL_WELL, RAISED, WRONG = 0, 7, 8


def work(rank: int, store: Path, victim: int, message: int, before: bool) -> int:
    """What a worker ends with; the victim does not end so."""
    import torch.distributed as dist
    from otattn import distributed

    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS,
        timeout=datetime.timedelta(seconds=SECONDS),
    )  # fmt: skip
    calls = {name: getattr(dist, name) for name in ("all_reduce", "all_gather")}
    count = 0

    def counted(name: str) -> object:
        def call(*arguments: object, **keywords: object) -> object:
            nonlocal count
            count += 1
            lost = rank == victim and count == message
            if lost and before:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = calls[name](*arguments, **keywords)
            if lost:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return call

    for name in calls:
        setattr(dist, name, counted(name))
    torch.manual_seed(rank)
    q, k, v = (torch.randn(1, 2, 16, 8, requires_grad=True) for _ in range(3))
    try:
        # About thirty messages a turn, more than `message` in all.
        for _ in range(4):
            out = distributed.attention(q, k, v, method="softmax/exact{rounds=6}")
            if not bool(torch.isfinite(out).all()):
                return WRONG
            out.sum().backward()
    except RuntimeError:
        return RAISED
    return ALL_WELL


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch is built without torch.distributed")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of fork in a process that has threads
def test_no_worker_waits_for_a_lost_one(tmp_path: Path) -> None:
    import otattn.distributed  # noqa: F401  loaded before the forks

    draw = random.Random(int(os.environ.get("OTATTN_KILLS_SEED", "1")))
    kills, longest = 4 * int(os.environ.get("OTATTN_TEST_SCALE", "1")), 0.0
    for kill in range(kills):
        victim, message, before = draw.randrange(RANKS), draw.randint(1, 60), draw.random() < 0.5
        workers = []
        for rank in range(RANKS):
            pid = os.fork()
            if pid == 0:
                code = WRONG
                try:
                    code = work(rank, tmp_path / f"store{kill}", victim, message, before)
                finally:
                    os._exit(code)
            workers.append(pid)
        assert os.WIFSIGNALED(os.waitpid(workers[victim], 0)[1]), "the victim ended before its message"
        lost = time.monotonic()
        for rank, pid in enumerate(workers):
            if rank == victim:
                continue
            while (found := os.waitpid(pid, os.WNOHANG))[0] == 0:
                assert time.monotonic() < lost + SECONDS + 20.0, "a worker waits"
                time.sleep(0.002)
            assert os.waitstatus_to_exitcode(found[1]) == RAISED, (kill, victim, message, before)
        longest = max(longest, time.monotonic() - lost)
        (tmp_path / f"store{kill}").unlink(missing_ok=True)
    assert list(tmp_path.iterdir()) == []
    print(f"{kills} kills of gloo's workers, the others raised after at most {longest:.2f} s")
