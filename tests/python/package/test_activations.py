"""otattn.activations against the package entmax: values, gradients, losses, modules."""

from __future__ import annotations

from typing import Any

import entmax
import numpy as np
import pytest
import spec
import torch
from hypothesis import given
from hypothesis import strategies as st
from otattn import activations as ours

MAPS: list[tuple[str, dict[str, Any]]] = [
    ("sparsemax", {}),
    ("entmax15", {}),
    ("entmax_bisect", {"alpha": 1.3}),
    ("entmax_bisect", {"alpha": 2.7}),
    ("sparsemax_bisect", {}),
    ("normmax_bisect", {"alpha": 2}),
    ("normmax_bisect", {"alpha": 3.5}),
    ("budget_bisect", {"budget": 2}),
]
LOSSES = [
    ("sparsemax_loss", {}),
    ("sparsemax_bisect_loss", {}),
    ("entmax15_loss", {}),
    ("entmax_bisect_loss", {"alpha": 1.7}),
    ("normmax_bisect_loss", {"alpha": 2.5}),
]


@pytest.mark.parametrize(("name", "arguments"), MAPS)
@given(
    st.integers(0, 2**32), st.integers(2, 12), st.sampled_from([-1, 0, 1]), st.sampled_from([0.3, 1.0, 4.0])
)
def test_values_and_gradients(
    name: str, arguments: dict[str, Any], seed: int, size: int, dim: int, scale: float
) -> None:
    torch.manual_seed(seed)
    shape = [3, 4, 2]
    shape[dim] = size
    x = (scale * torch.randn(shape, dtype=torch.float64)).requires_grad_()
    weight = torch.randn(shape, dtype=torch.float64)
    found, expected = (getattr(module, name)(x, dim=dim, **arguments) for module in (ours, entmax))
    ids = "LIT-11 LIT-14" if "max" in name and "normmax" not in name else ""
    spec.check(ids, (found - expected).detach().abs().max(), 1e-12)
    a, b = (torch.autograd.grad((y * weight).sum(), x)[0] for y in (found, expected))
    assert (a - b).abs().max() <= 1e-7 * (1 + b.abs().max())
    if "budget" not in name:
        assert (found.sum(dim) - 1).abs().max() <= 1e-14 * size
    array = getattr(ours, name)(x.detach().numpy(), dim=dim, **arguments)
    assert isinstance(array, np.ndarray) and np.abs(array - found.detach().numpy()).max() <= 64 * 2.0**-53


@pytest.mark.parametrize(("name", "arguments"), MAPS)
def test_gradcheck(name: str, arguments: dict[str, Any]) -> None:
    torch.manual_seed(3)
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda y: getattr(ours, name)(y, **arguments), (x,), eps=1e-6)


def test_an_alpha_for_each_row() -> None:
    torch.manual_seed(4)
    x = torch.randn(4, 6, dtype=torch.float64)
    alpha = torch.tensor([1.2, 1.5, 1.2, 2.5], dtype=torch.float64).reshape(4, 1)
    expected = entmax.entmax_bisect(x, alpha)
    assert (ours.entmax_bisect(x, alpha) - expected).abs().max() <= 1e-12
    assert np.abs(ours.entmax_bisect(x.numpy(), alpha.numpy()) - expected.numpy()).max() <= 1e-12
    learned = alpha.clone().requires_grad_()
    weight = torch.randn(4, 6, dtype=torch.float64)
    found = torch.autograd.grad((ours.entmax_bisect(x, learned) * weight).sum(), learned)[0]
    again = alpha.clone().requires_grad_()
    right = torch.autograd.grad((entmax.entmax_bisect(x, again) * weight).sum(), again)[0]
    assert (found - right).abs().max() <= 1e-9
    assert torch.equal(ours.entmax_bisect(x, 1), torch.softmax(x, -1)) or (
        (ours.entmax_bisect(x, 1) - torch.softmax(x, -1)).abs().max() <= 64 * 2.0**-53
    )


@pytest.mark.parametrize(("name", "arguments"), LOSSES)
def test_losses(name: str, arguments: dict[str, Any]) -> None:
    torch.manual_seed(5)
    for _ in range(20):
        x = (2 * torch.randn(6, 5, dtype=torch.float64)).requires_grad_()
        target = torch.randint(0, 5, (6,))
        found, expected = (getattr(module, name)(x, target, **arguments) for module in (ours, entmax))
        assert (found - expected).abs().max() <= 1e-12 and (found >= -1e-15).all()
        weight = torch.rand(6, dtype=torch.float64)
        a, b = (torch.autograd.grad((y * weight).sum(), x)[0] for y in (found, expected))
        assert (a - b).abs().max() <= 1e-12


def test_modules() -> None:
    torch.manual_seed(6)
    x, target = torch.randn(6, 5, dtype=torch.float64), torch.randint(0, 5, (6,))
    for name in ("Sparsemax", "Entmax15", "EntmaxBisect", "SparsemaxBisect", "NormmaxBisect", "BudgetBisect"):
        arguments = {} if name != "SparsemaxBisect" else {"n_iter": 50}
        found, expected = (getattr(module, name)(**arguments)(x) for module in (ours, entmax))
        assert (found - expected).abs().max() <= 1e-12
    for name in (
        "SparsemaxLoss",
        "Entmax15Loss",
        "EntmaxBisectLoss",
        "SparsemaxBisectLoss",
        "NormmaxBisectLoss",
    ):
        for reduction in ("elementwise_mean", "sum", "none"):
            for ignore in (-100, 2):
                arguments = {"reduction": reduction, "ignore_index": ignore}
                found, expected = (getattr(module, name)(**arguments)(x, target) for module in (ours, entmax))
                assert (found - expected).abs().max() <= 1e-12
    with pytest.raises(TypeError, match="speed"):
        ours.Sparsemax(speed=3)
    with pytest.raises(ValueError, match="reduction"):
        ours.SparsemaxLoss(reduction="mean")


def test_masked_entries_and_rows() -> None:
    x = torch.tensor([[1.0, -torch.inf, 0.5], [-torch.inf] * 3], requires_grad=True)
    for name in ("sparsemax", "entmax15", "entmax_bisect"):
        p = getattr(ours, name)(x)
        assert p[0, 1] == 0 and (p[1] == 0).all() and torch.isfinite(p).all()
        gradient = torch.autograd.grad(p.square().sum(), x)[0]
        assert torch.isfinite(gradient).all() and (gradient[1] == 0).all()
