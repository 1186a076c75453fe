"""Masked rows of bench/peers.py: what otattn times is checked, and torch's mask hides the same pairs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from program import PROGRAM, ROOT

torch = pytest.importorskip("torch")

WORDS = ["padding", "lengths", "numbers", "causal"]


@pytest.fixture(scope="module")
def peers() -> Iterator[Any]:
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        import peers

        yield peers
    finally:
        sys.path.remove(str(ROOT / "bench"))


@pytest.mark.parametrize("word", WORDS)
def test_torch_hides_what_otattn_hides(peers: Any, word: str) -> None:
    """With values that are a unit matrix attention's output is its weights."""
    n, m = 30, 23
    draw = torch.Generator().manual_seed(0)
    q, k = (torch.randn(1, 1, tokens, 8, generator=draw) for tokens in (n, m))
    weights = peers.softmax_by_torch(q, k, torch.eye(m)[None, None], **peers.hidden_by(word, (n, m, 8)))
    i, j = np.arange(n)[:, None], np.arange(m)[None, :]
    allowed = {"causal": j <= i, "numbers": (i + j) >= 0}.get(word, (j < m - m // 5) & (i >= 0))
    assert np.array_equal(weights[0, 0].numpy() > 0, allowed)


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("begin", ["", "gradients "])
def test_masked_rows_are_checked(peers: Any, monkeypatch: pytest.MonkeyPatch, begin: str, word: str) -> None:
    rows = [row for row in peers.ROWS if row.name == f"{begin}mask {word}"]
    assert [row.shape[0] for row in rows] == [64, 256, 1024, 4096]
    said = []
    run = subprocess.run

    def recorded(*arguments: Any, **named: Any) -> Any:
        said.append(run(*arguments, **named))
        return said[-1]

    monkeypatch.setattr(peers.subprocess, "run", recorded)
    timed = peers.ours(PROGRAM, rows[0], 1)
    found = json.loads(said[0].stdout)["rows"][-1]
    assert found["masked"] == word
    assert (found.get("pass") == "backward") == bool(begin)
    # 3.2 of the numeric policy with A <= 6 + the largest number, B <= 16 for these inputs.
    assert 0.0 < timed.error < 2.0**-24 * 11 * (8 + 4 * 64)
    assert rows[0].prepare(rows[0].shape)() is not None
