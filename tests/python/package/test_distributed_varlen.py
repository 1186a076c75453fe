"""Packed sequences on the ranks of torch.distributed (gloo): forward, gradients, DTensor, refusals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch is built without torch.distributed")
def test_packed_sequences_give_what_one_process_gives(tmp_path: Path) -> None:
    ranks = 3
    worker = Path(__file__).with_name("distributed_varlen_worker.py")
    running = [
        subprocess.Popen(
            [sys.executable, str(worker), str(rank), str(ranks), str(tmp_path / "store")],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in range(ranks)
    ]  # fmt: skip
    said = [process.communicate(timeout=240)[0] for process in running]
    assert all("all well" in x for x in said), "\n".join(said)
