"""Packed sequences on the ranks of torch.distributed (gloo): forward, gradients, DTensor, refusals."""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch is built without torch.distributed")
def test_packed_sequences_give_what_one_process_gives(run_ranks: Callable[[str, int], None]) -> None:
    run_ranks("distributed_varlen_worker.py", 3)
