"""Rows on the ranks of torch.distributed (gloo): forward, gradients, DTensor, refusals, a step under DDP."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch is built without torch.distributed")
def test_ranks_give_what_one_process_gives(run_ranks: Callable[[str, int], None]) -> None:
    run_ranks("distributed_worker.py", 2)


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch is built without torch.distributed")
def test_ctrl_c_on_one_rank_ends_all(run_ranks: Callable[[str, int], None]) -> None:
    run_ranks("distributed_interrupt_worker.py", 3)


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch is built without torch.distributed")
def test_a_training_step_is_that_of_one_process(root: Path) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    example = root / "examples/training/context_parallel.py"
    done = subprocess.run([*launcher, str(example)], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if "largest difference" in line]
    assert [line.partition(":")[0] for line in lines] == ["ddp", "fsdp"]
