"""Dropout: masks from the generator, on every kind of array, with gradients and torch's seeds."""

from __future__ import annotations

import numpy as np
import otattn
import pytest
import torch
from philox import dropout_mask
from torch.utils.checkpoint import checkpoint

METHODS = ["softmax", "entmax:1.5", "softmax/exact", "softmax/elastic:0.4,3", "softmax/capped:1.5"]


@pytest.mark.parametrize("method", METHODS)
def test_the_mask_is_the_generator(method: str) -> None:
    draw = np.random.default_rng(3).standard_normal
    q, k = draw((2, 3, 8, 4)), draw((2, 3, 8, 4))
    identity = np.broadcast_to(np.eye(8), (2, 3, 8, 8))
    seed, offset = 2**63 + 12345, 2**40 + 7
    request = otattn.AuxRequest(coupling=True, receiver=True, certificate=True)
    arguments = {"method": method, "dropout_seed": seed, "dropout_offset": offset}
    out, aux = otattn.attention(q, k, identity, None, 0.3, return_aux=request, **arguments)
    mask = dropout_mask((2, 3, 8, 8), 0.3, seed, offset)
    assert np.abs(out - mask * aux.coupling).max() <= 1e-15
    plain, bare = otattn.attention(q, k, identity, method=method, return_aux=request)
    assert np.abs(aux.coupling - plain).max() <= 1e-15
    assert np.abs(aux.receiver - bare.receiver).max() <= 1e-15
    assert np.allclose(aux.certificate[:7], bare.certificate[:7], rtol=1e-9, atol=1e-12, equal_nan=True)
    tensors = [torch.from_numpy(np.array(x)) for x in (q, k, identity)]
    same = otattn.attention(*tensors, None, 0.3, **arguments)
    assert (same.numpy() == out).all()
    with otattn.threads(3):
        assert (otattn.attention(q, k, identity, None, 0.3, **arguments) == out).all()


@pytest.mark.parametrize("method", METHODS)
def test_gradcheck(method: str) -> None:
    torch.manual_seed(2)
    q, k, v = (torch.randn(1, 2, 5, 3, dtype=torch.float64, requires_grad=True) for _ in range(3))

    def call(*x: torch.Tensor) -> torch.Tensor:
        return otattn.attention(*x, None, 0.4, method=method, tolerance=1e-13, dropout_seed=9)

    assert torch.autograd.gradcheck(call, (q, k, v), atol=1e-6)


def test_seeds_come_from_the_generators() -> None:
    x = torch.randn(2, 3, 40, 8)
    torch.manual_seed(1)
    one, two = (otattn.attention(x, x, x, dropout_p=0.2) for _ in range(2))
    torch.manual_seed(1)
    again = otattn.attention(x, x, x, dropout_p=0.2)
    assert torch.equal(one, again) and not torch.equal(one, two)
    y = x.numpy()
    np.random.seed(1)
    one, two = (otattn.attention(y, y, y, dropout_p=0.2) for _ in range(2))
    np.random.seed(1)
    assert (one == otattn.attention(y, y, y, dropout_p=0.2)).all() and not (one == two).all()


def test_the_mean_over_seeds_is_the_output_without() -> None:
    x = np.random.default_rng(0).standard_normal((1, 1, 6, 4))
    plain = otattn.attention(x, x, x, method="ceta")
    draws = np.stack(
        [otattn.attention(x, x, x, None, 0.25, method="ceta", dropout_seed=s) for s in range(2000)]
    )
    deviation = draws.std(0) / len(draws) ** 0.5
    assert (np.abs(draws.mean(0) - plain) <= 5 * deviation).all()


def test_torch_transformations() -> None:
    torch.manual_seed(4)
    x = torch.randn(2, 2, 9, 4, dtype=torch.float64, requires_grad=True)

    def call(y: torch.Tensor, seed: int | None = 5) -> torch.Tensor:
        return otattn.attention(y, y, y, None, 0.3, method="ceta", dropout_seed=seed)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), call(x))
    (direct,) = torch.autograd.grad(call(x).square().sum(), x)
    (by_graph,) = torch.autograd.grad(compiled(x).square().sum(), x)
    assert torch.equal(direct, by_graph)
    torch.manual_seed(8)
    (plain,) = torch.autograd.grad(call(x, None).square().sum(), x)
    torch.manual_seed(8)
    (kept,) = torch.autograd.grad(checkpoint(call, x, None, use_reentrant=False).square().sum(), x)
    assert torch.equal(plain, kept)
    stacked = torch.vmap(call)(torch.stack([x, x]))
    assert torch.equal(stacked[0], call(x)) and torch.equal(stacked[1], call(x))
    assert compiled(x, None).isfinite().all()


def test_module_drops_in_training_only() -> None:
    torch.manual_seed(0)
    layer = otattn.nn.Attention(8, 2, dropout=0.5, method="softmax/capped:2")
    x = torch.randn(10, 3, 8)
    assert not torch.equal(layer(x, x, x)[0], layer(x, x, x)[0])
    layer.eval()
    assert torch.equal(layer(x, x, x)[0], layer(x, x, x)[0])


def test_plan_keeps_its_mask() -> None:
    x = np.random.default_rng(1).standard_normal((1, 2, 5, 3))
    plan = otattn.Plan(x, x, x, dropout_p=0.5, dropout_seed=3, gradients=True)
    out = plan.forward(x, x, x)
    assert "dropout: 0.5, seed 3, offset 0" in plan.describe()
    assert (out == otattn.attention(x, x, x, dropout_p=0.5, dropout_seed=3)).all()
    ones = np.ones_like(out)
    P = otattn.attention(x, x, np.broadcast_to(np.eye(5), (1, 2, 5, 5)), dropout_p=0.5, dropout_seed=3)
    assert np.abs(plan.backward(ones)["value"] - P.swapaxes(2, 3) @ ones).max() <= 1e-14


def test_seeds_are_whole_numbers_of_any_kind() -> None:
    x = np.ones((1, 2, 6, 4))
    right = otattn.attention(x, x, x, dropout_p=0.5, dropout_seed=3, dropout_offset=2)
    for kind in (float, np.int64, np.uint8, torch.tensor):
        words = {"dropout_seed": kind(3), "dropout_offset": kind(2)}
        for y in (x, torch.from_numpy(x)):
            assert np.array_equal(otattn.attention(y, y, y, dropout_p=0.5, **words), right)
    with pytest.raises(TypeError, match="dropout_offset is None, wanted a whole number"):
        otattn.attention(x, x, x, dropout_p=0.5, dropout_seed=3, dropout_offset=None)


@pytest.mark.parametrize("dropout", [-0.1, 1.5, float("nan")])
def test_refused(dropout: float) -> None:
    x = np.ones((1, 1, 2, 2))
    with pytest.raises(ValueError, match="dropout_p is"):
        otattn.attention(x, x, x, dropout_p=dropout)


@pytest.mark.parametrize("method", METHODS)
def test_all_dropped(method: str, rng: np.random.Generator) -> None:
    """As torch's: nothing comes out and nothing goes back, but the plan stays what it is."""
    x = rng.standard_normal((1, 2, 6, 4))
    request = otattn.AuxRequest(coupling=True)
    out, aux = otattn.attention(x, x, x, None, 1.0, method=method, return_aux=request)
    _, plain = otattn.attention(x, x, x, method=method, return_aux=request)
    assert (out == 0.0).all() and np.abs(aux.coupling - plain.coupling).max() <= 1e-15
    t = torch.from_numpy(x).requires_grad_()
    y = otattn.attention(t, t, t, None, 1.0, method=method)
    assert (y == 0.0).all()
    assert (torch.autograd.grad(y.sum(), t)[0] == 0.0).all()
