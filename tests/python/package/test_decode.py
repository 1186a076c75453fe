"""Generation with a cache: steps of `decode` against one causal call over the whole sequence."""

from __future__ import annotations

from typing import Any

import numpy as np
import otattn
import pytest
import torch


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
@pytest.mark.parametrize("method", ["softmax", "entmax:1.5", "softmax/online:1.3", "entmax:1.5/online:1.5"])
@pytest.mark.parametrize("first, step", [(1, 1), (4, 1), (3, 2)])
def test_steps_are_the_whole(kind: Any, method: str, first: int, step: int, rng: np.random.Generator) -> None:
    q, k, v = (kind(rng.standard_normal((2, heads, 9, 4))) for heads in (4, 2, 2))
    words = {"method": method, "temperature": 0.7, "enable_gqa": True}
    whole = otattn.attention(q, k, v, is_causal=True, **words)
    left, at, end = None, 0, first
    while end <= 9:
        before = None if left is None else left + 0
        out, after = otattn.decode(q[:, :, at:end], k[:, :, :end], v[:, :, :end], left, **words)
        assert type(out) is type(q) and abs(out - whole[:, :, at:end]).max() <= 1e-12
        if "online" in method:
            assert after.shape == (2, 4, end) and (after >= 0).all()
            # What was handed in stays as it is, and capacity is only spent.
            assert before is None or ((left == before).all() and (after[..., :at] <= before).all())
        else:
            assert after is None
        left, at, end = after, end, end + step


@pytest.mark.parametrize("method", ["softmax", "sparsemax/online:1.3", "softmax/online:1.5"])
def test_what_steps_return_besides(method: str, rng: np.random.Generator) -> None:
    q, k, v = (rng.standard_normal((2, heads, 9, 4)) for heads in (4, 2, 2))
    words = {"method": method, "enable_gqa": True}
    asked = {"return_aux": ("coupling", "receiver", "row_stats")}
    _, whole = otattn.attention(q, k, v, is_causal=True, **asked, **words)
    left, mass = None, np.zeros((2, 4, 9))
    for begin, end in ((0, 4), (4, 5), (5, 9)):
        out, left, aux = otattn.decode(
            q[:, :, begin:end], k[:, :, :end], v[:, :, :end], left, **asked, **words
        )
        assert abs(aux.coupling - whole.coupling[:, :, begin:end, :end]).max() <= 1e-12
        assert abs(aux.coupling @ v[:, :, :end].repeat(2, 1) - out).max() <= 1e-12
        assert abs(aux.row_stats.entropy - whole.row_stats.entropy[:, :, begin:end]).max() <= 1e-12
        mass[..., :end] += aux.receiver
        assert aux.potentials is None and aux.info.status == "ok"
    assert abs(mass - whole.receiver).max() <= 1e-12


def test_what_decode_refuses(rng: np.random.Generator) -> None:
    x = rng.standard_normal((1, 4, 3))
    for words, said in (
        ({"method": "softmax/exact"}, "columns couple all rows"),
        ({"remaining": np.ones((1, 3))}, "columns of 'softmax' are free"),
        (
            {"method": "softmax/online:2", "remaining": np.ones((1, 2))},
            r"remaining has shape \(1, 2\), wanted \(1, 3\)",
        ),
        ({"method": "softmax/online:2", "remaining": -np.ones((1, 3))}, r"remaining holds -1\.0, wanted"),
        ({"method": "softmax/prefix"}, "method is 'softmax/prefix', whose columns couple all rows"),
        ({"axis": "columns"}, "axis is 'columns', whose columns couple all rows"),
        ({"is_causal": True}, "decode has 'is_causal', which is no argument"),
    ):
        with pytest.raises((ValueError, TypeError), match=said):
            otattn.decode(x[:, 3:], x, x, **words)
    with pytest.raises(ValueError, match="query has 4 rows, but key has 3"):
        otattn.decode(x, x[:, 1:], x[:, 1:], method="softmax/online:2")
