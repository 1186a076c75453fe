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
from otattn import _orders
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


@pytest.mark.parametrize("orders", [[2.0], [[1.5], [3.5], [2.2]]])
def test_gradcheck_of_the_order_of_normmax(orders: Any) -> None:
    torch.manual_seed(3)
    x = torch.randn(3, 5, dtype=torch.float64)
    alpha = torch.tensor(orders, dtype=torch.float64, requires_grad=True)
    for scores in (x, x.clone().requires_grad_()):
        assert torch.autograd.gradcheck(ours.normmax_bisect, (scores, alpha), eps=1e-6)


@pytest.mark.parametrize("kind", [float, torch.tensor])
def test_numbers_out_of_range(kind: Any) -> None:
    x = torch.zeros(2, 4)
    for name, call, value in (
        ("alpha", ours.normmax_bisect, 0.5),
        ("budget", ours.budget_bisect, 9.0),
        ("budget", ours.budget_bisect, -1.0),
    ):
        with pytest.raises(ValueError, match=f"{name} is .*{value:g}.*, wanted"):
            call(x, kind(value))


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


def test_losses_of_the_order_one() -> None:
    torch.manual_seed(5)
    x, target = torch.randn(3, 5, dtype=torch.float64), torch.tensor([1, 0, 4])
    shannon = torch.nn.functional.cross_entropy(x, target, reduction="none")
    orders = torch.tensor([[1.0], [1.5], [1.0]], dtype=torch.float64)
    right = torch.where(orders[:, 0] == 1, shannon, ours.entmax15_loss(x, target))
    for alpha, wanted in (
        (1.0, shannon),
        (torch.tensor(1.0), shannon),
        (orders, right),
        (orders.numpy(), right),
    ):
        assert (ours.entmax_bisect_loss(x, target, alpha) - wanted).abs().max() <= 1e-14


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
    for name in ("sparsemax", "entmax15", "entmax_bisect", "normmax_bisect", "budget_bisect"):
        p = getattr(ours, name)(x, **({"budget": 1.5} if name == "budget_bisect" else {}))
        assert p[0, 1] == 0 and (p[1] == 0).all() and torch.isfinite(p).all()
        gradient = torch.autograd.grad(p.square().sum(), x)[0]
        assert torch.isfinite(gradient).all() and (gradient[1] == 0).all()


@pytest.mark.parametrize("alpha", [0.05, 0.3, 0.5, 0.9, 0.999, 1.0, 1.001])
@given(st.integers(0, 2**32), st.integers(1, 12), st.sampled_from([0.1, 1.0, 30.0]))
def test_orders_below_one(alpha: float, seed: int, size: int, scale: float) -> None:
    """Every weight is positive, and what its slope leaves of the score is one number a row."""
    x = scale * np.random.default_rng(seed).standard_normal((5, size))
    p = ours.entmax_bisect(x, np.full((5, 1), alpha))
    assert (p > 0.0).all() or alpha >= 1.0
    assert np.abs(p.sum(1) - 1.0).max() <= 1e-14
    s = alpha - 1.0
    with np.errstate(divide="ignore"):
        slope = np.log(p) if s == 0.0 else np.expm1(s * np.log(p)) / s
    left = np.where(p > 0.0, x - slope, np.nan)
    # log p has an error of its own times 1 / s where s is small, and slopes of small weights are large.
    size_of = np.nanmax(np.abs(slope), 1) + np.abs(x).max(1) + 1.0
    assert ((np.nanmax(left, 1) - np.nanmin(left, 1)) <= 1e-12 * size_of).all()
    if alpha < 1.0:
        # The operator's rows: the power multiplies the rounding of its argument by 1 / (1 - alpha).
        assert np.abs(ours.entmax_bisect(x, alpha) - p).max() <= 16.0 * 2.0**-53 / (1.0 - alpha)
        assert np.abs(entmax.entmax_bisect(torch.from_numpy(x), alpha).numpy() - p).max() <= 1e-9


def test_gradients_of_orders_below_one() -> None:
    torch.manual_seed(8)
    for dim, shape in ((-1, (4, 1)), (0, (1, 5)), (1, (4, 1)), (-1, (1,)), (-1, ())):
        x = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
        alpha = (0.05 + 2.4 * torch.rand(shape, dtype=torch.float64)).requires_grad_()
        assert torch.autograd.gradcheck(lambda y, a, d=dim: ours.entmax_bisect(y, a, dim=d), (x, alpha))
    for value in (0.2, 0.999999, 1.0, 1.000001):
        alpha = torch.full((4, 1), value, dtype=torch.float64, requires_grad=True)
        # The slope in the order is smooth through 1.
        assert torch.autograd.gradcheck(ours.entmax_bisect, (x, alpha), atol=1e-6)
    half = torch.randn(3, 4, dtype=torch.bfloat16, requires_grad=True)
    found = ours.entmax_bisect(half, 0.5)
    assert found.dtype == torch.bfloat16
    assert torch.autograd.grad(found.square().sum(), half)[0].dtype == torch.bfloat16


def test_rows_and_orders_at_the_edge() -> None:
    x = np.array([[1.0, -np.inf, 2.0], [-np.inf] * 3, [np.nan, 1.0, 2.0]])
    p = ours.entmax_bisect(x, 0.5)
    assert p[0, 1] == 0.0 and abs(p[0].sum() - 1.0) <= 1e-15 and (p[1] == 0.0).all() and np.isnan(p[2]).all()
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="alpha is"):
            ours.entmax_bisect(x, wrong)
        with pytest.raises(ValueError, match="alpha is"):
            ours.entmax_bisect(torch.from_numpy(x), torch.tensor([[1.5], [wrong], [0.5]]))


def test_support_sizes_and_softmax() -> None:
    torch.manual_seed(9)
    x, target = 2.0 * torch.randn(4, 6, 5), torch.randint(0, 5, (6,))
    for function in (ours.sparsemax, ours.entmax15):
        for dim in (-1, 1):
            p, support = function(x, dim=dim, return_support_size=True)
            assert torch.equal(p, function(x, dim=dim)) and support.dtype == torch.int64
            assert torch.equal(support, (p > 0).sum(dim, keepdim=True))
        _, counts = function(x.numpy(), return_support_size=True)
        assert (counts == function(x, return_support_size=True)[1].numpy()).all()
    for loss in (ours.sparsemax_loss, ours.entmax15_loss):
        value, support = loss(x[0], target, return_support_size=True)
        assert torch.equal(value, loss(x[0], target)) and support.shape == (6, 1)
    assert (ours.softmax(x, dim=1) - torch.softmax(x, 1)).abs().max() <= 1e-6
    assert ours.Sparsemax(return_support_size=True)(x)[1].shape == (4, 6, 1)
    shannon = ours.entmax_bisect_loss(x[0].double(), target, alpha=1)
    assert (
        shannon - torch.nn.functional.cross_entropy(x[0].double(), target, reduction="none")
    ).abs().max() <= 1e-12


def test_the_bend_of_the_slope_in_the_order() -> None:
    q = np.concatenate([np.linspace(-0.02, 0.02, 401), [-3.0, 0.5, 40.0, 600.0]])
    q = q[q != 0.0]
    wide = np.longdouble(q)
    right = (-np.expm1(-wide) - wide) / wide**2
    # 2^-64 over q^2 is what the differences of the formula lose.
    assert (np.abs(_orders._bend(q) - right) <= 1e-13 + 2.0**-62 / q**2).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("above", [1e-4, 1e-5, 1e-7, 1e-9])
def test_normmax_next_to_order_1(above: float, dtype: torch.dtype) -> None:
    # Scores u (alpha - 1) below the top have weights e^-u there, but for terms of alpha - 1.
    below = torch.tensor([0.0, 0.5, 2.0, 3.0, 1e9], dtype=torch.float64)
    x = (1 - above * below).to(dtype).requires_grad_()
    order = 1.0 + above
    u = (x.detach().amax() - x.detach()).double() / (order - 1.0)
    expected = torch.softmax(-u, 0)
    p = ours.normmax_bisect(x, alpha=order)
    close = 32 * above + 8 * torch.finfo(dtype).eps
    assert (p.detach().double() - expected).abs().max() <= close
    (slopes,) = torch.autograd.grad(p[0], x)
    wanted = expected[0] * (torch.eye(5, dtype=torch.float64)[0] - expected) / (order - 1.0)
    assert (slopes.double() - wanted).abs().max() <= close * wanted.abs().max()


@pytest.mark.parametrize(("name", "arguments"), [*LOSSES, ("budget_bisect", {})])
def test_a_common_size_loses_no_digits(name: str, arguments: dict[str, Any]) -> None:
    """Of scores that f32 holds, against f64."""
    generator = torch.Generator().manual_seed(2)
    x, u = torch.randn(6, 9, generator=generator) + 1e4, torch.randn(6, 9, generator=generator)
    targets = [torch.arange(6)] if name.endswith("loss") else []
    found = []
    for kind in (torch.float32, torch.float64):
        scores = x.to(kind).requires_grad_()
        y = getattr(ours, name)(scores, *targets, **arguments)
        weighed = y * (u.to(kind) if y.ndim == 2 else 1.0)
        found.append([y.detach().double(), torch.autograd.grad(weighed.sum(), scores)[0].double()])
    for a, b in zip(*found, strict=True):
        assert float((a - b).abs().max()) <= 16.0 * 2.0**-24 * float(b.abs().max())


@pytest.mark.parametrize(("name", "arguments"), LOSSES)
def test_losses_of_forbidden_classes(name: str, arguments: dict[str, Any]) -> None:
    """A class of -inf has no part in the loss of another, and makes its own infinite."""
    x = torch.tensor([[0.3, -torch.inf, 0.1, -0.2]] * 2, dtype=torch.float64, requires_grad=True)
    loss = getattr(ours, name)(x, torch.tensor([2, 1]), **arguments)
    others = getattr(ours, name)(x[:1, [0, 2, 3]], torch.tensor([1]), **arguments)
    assert float(loss[0] - others[0]) == pytest.approx(0.0, abs=1e-15)
    assert float(loss[1]) == torch.inf
    (gradient,) = torch.autograd.grad(loss[0], x)
    assert bool(torch.isfinite(gradient).all()) and float(gradient[0, 1]) == 0.0
