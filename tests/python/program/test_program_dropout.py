"""`attend --dropout`: the masks of otattn.h, forward and backward, and nothing else touched."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from philox import dropout_mask
from program import U64, answer, save

METHODS = ["softmax", "entmax:1.5", "softmax/exact", "softmax/online:2"]


@pytest.mark.parametrize("method", METHODS)
def test_the_mask_is_the_generator(method: str, tmp_path: Path) -> None:
    draw = np.random.default_rng(5).standard_normal
    q, k, v, upstream = draw((2, 3, 6, 4)), draw((2, 3, 6, 4)), draw((2, 3, 6, 5)), draw((2, 3, 6, 5))
    save(tmp_path, q=q, k=k, v=v, upstream=upstream)
    command = ["attend", "q.npy", "k.npy", "v.npy", "-m", method, "-f", "-o", "o.npy", "--coupling", "p.npy"]
    plain = answer(tmp_path, *command)
    before, out = np.load(tmp_path / "p.npy"), np.load(tmp_path / "o.npy")
    assert np.abs(before @ v - out).max() <= 64 * U64 * np.abs(v).max()
    for words, seed in (([], 1), (["--seed", "9"], 9), (["--seed", str(2**62 + 3)], 2**62 + 3)):
        more = ["--dropout", "0.3", *words, "--grad", "upstream.npy", "--grad-out", "g.npz"]
        told = answer(tmp_path, *command, *more)
        mask = dropout_mask((2, 3, 6, 6), 0.3, seed, 0)
        assert np.abs(np.load(tmp_path / "p.npy") - before).max() <= 16 * U64
        kept = mask * before
        assert np.abs(kept @ v - np.load(tmp_path / "o.npy")).max() <= 64 * U64 * np.abs(v).max() / 0.7
        gradient = np.load(tmp_path / "g.npz")["value"]
        assert np.abs(np.swapaxes(kept, -1, -2) @ upstream - gradient).max() <= 1e-13
        assert told["certificate"] == plain["certificate"]
