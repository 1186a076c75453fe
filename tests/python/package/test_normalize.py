"""sinkhorn_normalize against the recipe written out, in NumPy and torch, with its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import otattn
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st


def recipe(x: Any, rounds: int, eps: float) -> Any:
    """DeepSeek's order in torch: softmax of rows + eps, columns, then rows and columns."""
    P = x.softmax(-1) + eps
    P = P / (P.sum(-2, keepdim=True) + eps)
    for _ in range(rounds - 1):
        P = P / (P.sum(-1, keepdim=True) + eps)
        P = P / (P.sum(-2, keepdim=True) + eps)
    return P


def symmetric(x: Any, rounds: int) -> Any:
    for _ in range(rounds):
        x = x - x.logsumexp(-1, keepdim=True)
        x = x - x.logsumexp(-2, keepdim=True)
    return x.exp()


@given(st.integers(2, 16), st.integers(0, 40), st.integers(1, 20), st.integers(0, 2**32), st.booleans())
def test_recipes_written_out(side: int, count: int, rounds: int, seed: int, narrow: bool) -> None:
    x = np.random.default_rng(seed).standard_normal((count, side, side))
    x = x.astype(np.float32) if narrow else x
    wide = torch.from_numpy(x.astype(np.float64))
    most = 1e-5 if narrow else 1e-13
    found = otattn.sinkhorn_normalize(x, rounds, 1e-6)
    assert found.dtype == x.dtype
    assert np.abs(found - recipe(wide, rounds, 1e-6).numpy()).max(initial=0.0) <= most
    other = otattn.sinkhorn_normalize(x, rounds, order="symmetric")
    assert np.abs(other - symmetric(wide, rounds).numpy()).max(initial=0.0) <= most
    assert np.array_equal(found, otattn.sinkhorn_normalize(torch.from_numpy(x), rounds, 1e-6).numpy())


@pytest.mark.parametrize("order", ["deepseek", "symmetric"])
@pytest.mark.parametrize("side", [2, 4, 7])
def test_truncated_gradients(order: str, side: int) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(5, side, side, dtype=torch.float64, generator=generator, requires_grad=True)
    assert torch.autograd.gradcheck(lambda y: otattn.sinkhorn_normalize(y, 6, order=order), x)
    along = torch.randn(x.shape, dtype=torch.float64, generator=generator)
    written = recipe(x, 20, 1e-6) if order == "deepseek" else symmetric(x, 20)
    (theirs,) = torch.autograd.grad((written * along).sum(), x)
    (ours,) = torch.autograd.grad((otattn.sinkhorn_normalize(x, order=order) * along).sum(), x)
    assert (ours - theirs).abs().max() <= 1e-12


def test_implicit_gradients_are_those_of_many_rounds() -> None:
    x = torch.randn(
        4, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True
    )
    along = torch.randn(x.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    (theirs,) = torch.autograd.grad((symmetric(x, 400) * along).sum(), x)
    plan = otattn.sinkhorn_normalize(x, 400, order="symmetric", gradients="implicit")
    (ours,) = torch.autograd.grad((plan * along).sum(), x)
    assert (ours - theirs).abs().max() <= 1e-10


def test_one_wrong_matrix_is_its_own() -> None:
    x = np.random.default_rng(3).standard_normal((6, 4, 4)).astype(np.float32)
    right = otattn.sinkhorn_normalize(x)
    x[2, 1, 1] = np.nan
    with pytest.warns(otattn.NotFiniteWarning):
        found = otattn.sinkhorn_normalize(x)
    assert np.isnan(found[2]).all() and np.array_equal(np.delete(found, 2, 0), np.delete(right, 2, 0))
    with otattn.threads(2):
        assert np.array_equal(otattn.sinkhorn_normalize(np.delete(x, 2, 0)), np.delete(right, 2, 0))


@pytest.mark.parametrize(
    ("x", "options", "words"),
    [
        (np.ones((3, 4)), {}, "n, n"),
        (np.ones((17, 17)), {}, "from 2 to 16"),
        (np.ones((4, 4)), {"order": "rows"}, "order is 'rows'"),
        (np.ones((4, 4)), {"gradients": "none"}, "gradients is 'none'"),
        (np.ones((4, 4)), {"rounds": 0}, "rounds is 0"),
        (np.ones((4, 4)), {"eps": -1.0}, "eps is -1.0"),
        (np.ones((4, 4)), {"tolerance": 1e-6}, "runs all its rounds"),
    ],
)
def test_input_is_refused(x: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        otattn.sinkhorn_normalize(x, **options)
