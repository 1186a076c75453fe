"""otattn.sinkhorn_normalize against the recipes as they are written in torch."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
import otattn
import pytest
import spec
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode


def deepseek(x: torch.Tensor, rounds: int = 20, eps: float = 1e-6) -> torch.Tensor:
    x = torch.softmax(x, -1) + eps
    x = x / (x.sum(-2, keepdim=True) + eps)
    for _ in range(rounds - 1):
        x = x / (x.sum(-1, keepdim=True) + eps)
        x = x / (x.sum(-2, keepdim=True) + eps)
    return x


def symmetric(x: torch.Tensor, rounds: int = 20) -> torch.Tensor:
    for _ in range(rounds):
        x = x - x.logsumexp(-1, keepdim=True)
        x = x - x.logsumexp(-2, keepdim=True)
    return x.exp()


RECIPES = {"deepseek": deepseek, "symmetric": symmetric}


@given(
    st.lists(st.integers(0, 5), max_size=2),
    st.sampled_from([*range(1, 17), 17, 31, 40]),
    st.integers(1, 25),
    st.sampled_from(["deepseek", "symmetric"]),
    st.booleans(),
    st.floats(0.01, 20.0),
    st.integers(0, 2**32),
)
def test_recipes(
    lead: list[int], n: int, rounds: int, order: str, double: bool, scale: float, seed: int
) -> None:
    kind = np.float64 if double else np.float32
    x = (scale * np.random.default_rng(seed).standard_normal((*lead, n, n))).astype(kind)
    found = otattn.sinkhorn_normalize(x, rounds, order=order)
    assert found.shape == x.shape and found.dtype == x.dtype
    expected = RECIPES[order](torch.from_numpy(x).double(), rounds).numpy()
    # The exponent s - max is rounded: |s - max| units, 20 sigma of 20 at most.
    spec.check("CETA-07", np.abs(found - expected).max(initial=0.0), 200.0 * np.finfo(kind).eps)


@given(
    st.integers(2, 9), st.integers(1, 12), st.sampled_from(["deepseek", "symmetric"]), st.integers(0, 2**32)
)
def test_gradients_of_rounds(n: int, rounds: int, order: str, seed: int) -> None:
    torch.manual_seed(seed)
    x = torch.randn(3, n, n, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn_like(x)
    (ours,) = torch.autograd.grad(otattn.sinkhorn_normalize(x, rounds, order=order), x, upstream)
    (theirs,) = torch.autograd.grad(RECIPES[order](x, rounds), x, upstream)
    spec.check("DER-15", (ours - theirs).abs().max(), 1e-13)


@pytest.mark.parametrize("order", ["deepseek", "symmetric"])
@pytest.mark.parametrize("rounds", [1, 3, 20])
def test_gradcheck(order: str, rounds: int) -> None:
    torch.manual_seed(1)
    x = torch.randn(2, 4, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: otattn.sinkhorn_normalize(s, rounds, order=order), (x,))


@pytest.mark.parametrize("order", ["deepseek", "symmetric"])
def test_implicit_gradients(order: str) -> None:
    """Where the rounds converge both gradients are the same, up to eps."""
    torch.manual_seed(2)
    x = torch.randn(6, 5, 5, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn_like(x)
    found = [
        torch.autograd.grad(otattn.sinkhorn_normalize(x, 300, 1e-9, order, gradients), x, upstream)[0]
        for gradients in ("truncated", "implicit")
    ]
    spec.check("DER-13", (found[0] - found[1]).abs().max(), 1e-12 if order == "symmetric" else 1e-7)


def test_tolerance() -> None:
    x = 2.0 * np.random.default_rng(3).standard_normal((50, 6, 6))
    plan = otattn.sinkhorn_normalize(x, 10**6, order="symmetric", tolerance=1e-12)
    spec.check("CETA-06", max(np.abs(plan.sum(axis) - 1.0).max() for axis in (-1, -2)), 1e-11)
    turned = otattn.sinkhorn_normalize(np.swapaxes(x, -1, -2), 10**6, order="symmetric", tolerance=1e-12)
    spec.check("CETA-02", np.abs(np.swapaxes(turned, -1, -2) - plan).max(), 1e-8)
    with pytest.warns(otattn.PartialWarning, match="tolerance 1e-12 in 2 rounds"):
        otattn.sinkhorn_normalize(x, 2, order="symmetric", tolerance=1e-12)


def test_wrong_matrices_stay_alone() -> None:
    x = np.random.default_rng(4).standard_normal((9, 4, 4)).astype(np.float32)
    clean = otattn.sinkhorn_normalize(x)
    x[5, 1, 2] = np.nan
    with pytest.warns(otattn.NotFiniteWarning, match="some matrices met NaN"):
        found = otattn.sinkhorn_normalize(x)
    assert np.isnan(found[5]).all()
    assert (np.delete(found, 5, 0) == np.delete(clean, 5, 0)).all()


@pytest.mark.parametrize(
    ("dtype", "limit"), [(torch.bfloat16, 2**-8), (torch.float16, 2**-11), (torch.float64, 1e-15)]
)
def test_types(dtype: torch.dtype, limit: float) -> None:
    x = torch.randn(7, 4, 4).to(dtype).requires_grad_()
    plan = otattn.sinkhorn_normalize(x)
    assert plan.dtype == dtype
    spec.check("CETA-07", (plan - deepseek(x.double())).abs().max(), limit)
    plan.sum().backward()
    assert x.grad is not None and x.grad.dtype == dtype


def test_layouts_and_views() -> None:
    x = torch.randn(4, 3, 5, 5).transpose(0, 1)
    whole = otattn.sinkhorn_normalize(x.contiguous())
    assert torch.equal(otattn.sinkhorn_normalize(x), whole)
    assert np.array_equal(otattn.sinkhorn_normalize(x.numpy()), whole.numpy())
    assert np.array_equal(otattn.sinkhorn_normalize(x.numpy().astype(">f4")), whole.numpy())
    assert torch.equal(otattn.sinkhorn_normalize(x.mT).mT.mT, otattn.sinkhorn_normalize(x.mT.contiguous()))
    assert otattn.sinkhorn_normalize(torch.empty(0, 4, 4)).shape == (0, 4, 4)
    with otattn.threads(2):
        assert torch.equal(otattn.sinkhorn_normalize(x), whole)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torch_transforms() -> None:
    x = torch.randn(6, 4, 4)
    plain = otattn.sinkhorn_normalize(x)
    assert torch.equal(torch.func.vmap(otattn.sinkhorn_normalize)(x), plain)
    compiled = torch.compile(otattn.sinkhorn_normalize, fullgraph=True, backend="aot_eager")
    y, z = x.clone().requires_grad_(), x.clone().requires_grad_()
    upstream = torch.randn_like(x)
    compiled(y).backward(upstream)
    otattn.sinkhorn_normalize(z).backward(upstream)
    assert y.grad is not None and z.grad is not None and torch.equal(y.grad, z.grad)
    assert otattn.sinkhorn_normalize(torch.empty(3, 4, 4, device="meta")).shape == (3, 4, 4)
    (first,) = torch.autograd.grad(otattn.sinkhorn_normalize(y).square().sum(), y, create_graph=True)
    with pytest.raises(otattn.NotDifferentiable, match="first derivatives only"):
        first.sum().backward()


X = np.zeros((2, 4, 4), np.float32)
REFUSALS: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    (np.zeros((4, 3)), {}, ValueError, r"x has shape \(4, 3\), wanted \[..., n, n\] with n from 1 to 128"),
    (np.zeros((3, 0, 0)), {}, ValueError, "wanted"),
    (np.zeros((129, 129)), {}, ValueError, "n from 1 to 128"),
    (np.zeros(4), {}, ValueError, "x has shape"),
    (np.zeros((4, 4), int), {}, TypeError, "x has type int64"),
    (torch.zeros(4, 4, dtype=torch.int32), {}, TypeError, "x has type torch.int32"),
    (torch.zeros(4, 3), {}, ValueError, "x has shape"),
    (X, {"rounds": -1}, ValueError, "rounds is -1, wanted 0 to"),
    (X, {"rounds": 0, "order": "symmetric"}, ValueError, "has nothing but rounds"),
    (X, {"rounds": 2.5}, TypeError, "rounds is 2.5, wanted a whole number"),
    (X, {"rounds": None}, TypeError, "rounds is None"),
    (X, {"rounds": [20]}, TypeError, r"rounds is \[20\]"),
    (X, {"eps": -1e-6}, ValueError, "eps is -1e-06, wanted 0 to 1"),
    (X, {"eps": float("nan")}, ValueError, "eps is NaN"),
    (X, {"eps": "small"}, TypeError, "eps is 'small', wanted a number"),
    (X, {"order": "rows"}, ValueError, "order is 'rows', wanted 'deepseek' or 'symmetric'"),
    (X, {"gradients": True}, ValueError, "gradients is True, wanted 'truncated' or 'implicit'"),
    (X, {"tolerance": 1e-6}, ValueError, "order 'deepseek' runs all its rounds"),
    (X, {"backend": "torch"}, ValueError, "backend is 'torch', but x is no tensor; pass torch.as_tensor"),
    (X, {"backend": "plain"}, ValueError, "backend is 'plain', wanted 'cpu' or 'torch'"),
    (torch.zeros(4, 4), {"backend": 1}, ValueError, "backend is 1, wanted 'cpu' or 'torch'"),
    (torch.zeros(4, 4, device="meta"), {"backend": "cpu"}, ValueError, "x lies on meta; leave backend out"),
    (X, {"order": "symmetric", "tolerance": 2}, ValueError, "tolerance is 2.0, wanted 0 to 1"),
]


@pytest.mark.parametrize(("x", "words", "kind", "sentence"), REFUSALS)
def test_refusals(x: Any, words: dict[str, Any], kind: type[Exception], sentence: str) -> None:
    with warnings.catch_warnings(), pytest.raises(kind, match=sentence):
        warnings.simplefilter("error")
        otattn.sinkhorn_normalize(x, **words)


@pytest.mark.parametrize("gradients", ["truncated", "implicit"])
def test_torch_func(gradients: str) -> None:
    torch.manual_seed(5)
    x = torch.randn(3, 2, 4, 4, dtype=torch.float64)

    def loss(y: torch.Tensor) -> torch.Tensor:
        return otattn.sinkhorn_normalize(y, gradients=gradients).sin().sum()

    leaf = x.clone().requires_grad_()
    (right,) = torch.autograd.grad(loss(leaf), leaf)
    assert (torch.func.grad(loss)(x) - right).abs().max() <= 1e-14
    found = torch.func.vmap(torch.func.vmap(torch.func.grad(loss)), in_dims=1)(x).movedim(0, 1)
    assert (found - right).abs().max() <= 1e-14
    jacobian = torch.func.jacrev(lambda y: otattn.sinkhorn_normalize(y, gradients=gradients))(x[0, 0])
    upstream = otattn.sinkhorn_normalize(x[0, 0]).cos()
    assert ((upstream[..., None, None] * jacobian).sum((0, 1)) - right[0, 0]).abs().max() <= 1e-14
    with pytest.raises(otattn.NotDifferentiable):
        torch.func.grad(lambda y: torch.func.grad(loss)(y).sum())(x)
    with pytest.raises(otattn.NotDifferentiable):
        torch.func.jvp(torch.func.grad(loss), (x,), (x,))


@pytest.mark.parametrize("words", [{}, {"gradients": "implicit"}, {"order": "symmetric", "rounds": 7}])
def test_forward_mode(words: dict[str, Any]) -> None:
    """The product with a direction is that of the Jacobian, in f32 to its rounding."""
    torch.manual_seed(6)
    x = torch.randn(2, 4, 4, dtype=torch.float64)
    direction = torch.randn_like(x)
    plans = functools.partial(otattn.sinkhorn_normalize, **words)
    plan, along = torch.func.jvp(plans, (x,), (direction,))
    assert torch.equal(plan, plans(x))
    expected = torch.einsum("abcdef,def->abc", torch.func.jacrev(plans)(x), direction)
    assert (along - expected).abs().max() <= 1e-14
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, direction)
        assert torch.equal(torch.autograd.forward_ad.unpack_dual(plans(dual)).tangent, along)
    narrow = torch.func.jvp(plans, (x.float(),), (direction.float(),))[1]
    assert narrow.dtype == torch.float32 and (narrow - along).abs().max() <= 1e-5
    assert (torch.func.jacfwd(plans)(x) - torch.func.jacrev(plans)(x)).abs().max() <= 1e-14


def test_forward_mode_stops_with_the_rounds() -> None:
    """Matrices that met the tolerance in different rounds move as their own numbers of rounds do."""
    scales = torch.tensor([0.1, 1.0, 3.0], dtype=torch.float64)
    torch.manual_seed(7)
    x = torch.randn(3, 5, 5, dtype=torch.float64) * scales[:, None, None]
    plans = functools.partial(otattn.sinkhorn_normalize, rounds=2**20, order="symmetric", tolerance=1e-3)
    direction = torch.randn_like(x)
    along = torch.func.jvp(plans, (x,), (direction,))[1]
    expected = torch.einsum("abcde,ade->abc", torch.func.vmap(torch.func.jacrev(plans))(x), direction)
    assert (along - expected).abs().max() <= 1e-14


COMPILED: dict[str, Any] = {
    "grad": lambda f, x: torch.func.grad(lambda y: f(y).sin().sum())(x),
    "vjp": lambda f, x: torch.func.vjp(f, x)[1](x.cos())[0],
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (x.cos(),)),
    "vmap": lambda f, x: torch.func.vmap(f, in_dims=1, out_dims=1)(x),
    "vmap of grad": lambda f, x: torch.func.vmap(torch.func.grad(lambda y: f(y).sin().sum()))(x),
    "jacrev": lambda f, x: torch.func.jacrev(f)(x),
    "jacfwd": lambda f, x: torch.func.jacfwd(f)(x),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("gradients", ["truncated", "implicit"])
@pytest.mark.parametrize("transform", COMPILED)
def test_compile_around_torch_func(transform: str, gradients: str) -> None:
    torch.manual_seed(8)
    x = torch.randn(3, 2, 4, 4, dtype=torch.float64)

    def call(y: torch.Tensor) -> Any:
        return COMPILED[transform](lambda z: otattn.sinkhorn_normalize(z, gradients=gradients), y)

    torch.compiler.reset()
    found = torch.compile(call, fullgraph=True, backend="aot_eager")(x)
    torch.testing.assert_close(found, call(x), rtol=0.0, atol=1e-15)


@pytest.mark.parametrize(
    "words", [(0, 20, 1e-6, 0.0, 0, False), (0, 20, 1e-6, 0.0, 1, False), (1, 9, 0.0, 1e-3, 0, True)]
)
def test_opcheck(words: tuple[Any, ...]) -> None:
    x = torch.randn(2, 3, 3, dtype=torch.float64)
    torch.library.opcheck(torch.ops.otattn.normalize.default, (x.clone().requires_grad_(), *words))
    plan = otattn.sinkhorn_normalize(x)
    torch.library.opcheck(torch.ops.otattn.normalize_gradients.default, (plan, x, *words))
    torch.library.opcheck(torch.ops.otattn.normalize_tangents.default, (x, plan, *words))


def test_no_rounds() -> None:
    """Order "deepseek" without rounds is the softmax of every row + eps, with its gradient."""
    x = torch.randn(3, 5, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64).requires_grad_()
    found, expected = otattn.sinkhorn_normalize(x, 0), torch.softmax(x, -1) + 1e-6
    along = torch.cos(torch.arange(75.0, dtype=torch.float64)).reshape(3, 5, 5)
    torch.testing.assert_close(found, expected)
    (ours,), (theirs,) = (torch.autograd.grad(y, x, along) for y in (found, expected))
    torch.testing.assert_close(ours, theirs)


@st.composite
def options(draw: Any) -> dict[str, Any]:
    """Every keyword of sinkhorn_normalize, as it goes with the others."""
    order = draw(st.sampled_from(["deepseek", "symmetric"]))
    found = {"order": order, "gradients": draw(st.sampled_from(["truncated", "implicit"]))}
    if order == "deepseek":
        found["eps"] = draw(st.sampled_from([0.0, 1e-6, 0.1, 1.0]))
        found["rounds"] = draw(st.integers(0, 12))
        return found
    found["rounds"] = draw(st.integers(1, 40))
    found["tolerance"] = draw(st.sampled_from([None, 1e-2, 1e-5]))
    return found


@settings(max_examples=150)
@given(
    st.lists(st.integers(0, 3), max_size=2),
    st.sampled_from([1, 2, 3, 4, 5, 9, 16, 17, 33, 128]),
    st.sampled_from([torch.float64, torch.float32, torch.bfloat16, torch.float16]),
    options(),
    st.sampled_from(["none", "closed pairs", "closed rows", "nan"]),
    st.integers(0, 2**32),
)
def test_operations_of_torch_are_the_library(
    lead: list[int], n: int, kind: torch.dtype, words: dict[str, Any], trouble: str, seed: int
) -> None:
    torch.manual_seed(seed)
    x = (2.0 * torch.randn(*lead, n, n)).to(kind)
    if trouble == "closed pairs":
        x = x.masked_fill(torch.rand_like(x, dtype=torch.float64) < 0.2, -torch.inf)
    elif x.numel() and trouble != "none":
        x[..., n // 2, :] = -torch.inf if trouble == "closed rows" else torch.nan
    upstream = torch.randn_like(x)
    plans, slopes, said = [], [], []
    for backend in (None, "torch"):
        leaf = x.clone().requires_grad_()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            plan = otattn.sinkhorn_normalize(leaf, backend=backend, **words)
        plans.append(plan.detach())
        said.append({(y.category, str(y.message)) for y in seen})
        slopes.append(torch.autograd.grad(plan, leaf, upstream)[0])
        assert plan.dtype == slopes[-1].dtype == kind and plan.shape == x.shape
    unit = torch.finfo(kind).eps
    # Where a matrix stops by its tolerance rounding decides, so two plans may be a round apart.
    apart = words.get("tolerance") or 0.0
    spec.check(
        "CETA-07",
        (plans[0] - plans[1]).abs().nan_to_num().max().item() if x.numel() else 0.0,
        100.0 * unit + 2.0 * apart,
    )
    assert torch.equal(plans[0].isnan(), plans[1].isnan())
    assert apart or said[0] == said[1]
    if not apart and trouble != "closed pairs" and x.numel():
        size = upstream.abs().amax()
        assert (slopes[0] - slopes[1]).abs().nan_to_num().max() <= 400.0 * n * unit * size
        assert torch.equal(slopes[0].isnan(), slopes[1].isnan())


@pytest.mark.parametrize("words", [{}, {"order": "symmetric"}, {"rounds": 0}, {"rounds": 3, "eps": 0.3}])
def test_gradcheck_of_operations_of_torch(words: dict[str, Any]) -> None:
    torch.manual_seed(1)
    x = torch.randn(2, 4, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda s: otattn.sinkhorn_normalize(s, backend="torch", **words), (x,), check_forward_ad=True
    )


def test_operations_of_torch_stop_where_the_tolerance_is_met() -> None:
    torch.manual_seed(7)
    x = torch.randn(3, 5, 5, dtype=torch.float64) * torch.tensor([0.1, 1.0, 3.0])[:, None, None]
    x.requires_grad_()
    upstream = torch.randn_like(x)
    found = []
    for backend in (None, "torch"):
        plan = otattn.sinkhorn_normalize(x, 2**20, order="symmetric", tolerance=1e-3, backend=backend)
        found.append((plan, torch.autograd.grad(plan, x, upstream)[0]))
    for one, other in zip(*found, strict=True):
        assert (one - other).abs().max() <= 1e-14


def test_batches_go_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(8)
    x = torch.randn(7, 3, 3, requires_grad=True)
    whole = otattn.sinkhorn_normalize(x, backend="torch")
    slope = torch.autograd.grad(whole.sin().sum(), x)[0]
    monkeypatch.setattr("otattn._torch_device.BLOCK", 20)
    parts = otattn.sinkhorn_normalize(x, backend="torch")
    assert torch.equal(parts, whole) and torch.equal(torch.autograd.grad(parts.sin().sum(), x)[0], slope)


@pytest.mark.parametrize("words", [(0, 20, 1e-6, 0.0, 0), (0, 20, 1e-6, 0.0, 1), (1, 9, 0.0, 0.0, 0)])
def test_fixed_rounds_read_nothing_from_a_device(words: tuple[Any, ...]) -> None:
    """Tensors of a device that does not exist here refuse what mixes devices and what needs their numbers."""
    from otattn import _torch_normalize, _torch_scalings

    recipe = otattn._normalize.Recipe(*words)
    with FakeTensorMode():
        x, g = (torch.empty(6, 5, 5, device="lazy") for _ in range(2))
        plan, open_ = _torch_scalings.forward(recipe, x)
        assert open_ is None and plan.device.type == "lazy"
        assert _torch_normalize._normalize(x, *words, True).device.type == "lazy"
        assert _torch_scalings.backward(recipe, x, g).device.type == "lazy"
        found = otattn.sinkhorn_normalize(x.half())
        assert found.device.type == "lazy" and found.dtype == torch.float16


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_operations_of_torch_are_compiled() -> None:
    def layer(y: torch.Tensor) -> torch.Tensor:
        return otattn.sinkhorn_normalize(y, order="symmetric", rounds=9, backend="torch")

    x = torch.randn(6, 4, 4, requires_grad=True)
    torch.compiler.reset()
    found, plain = torch.compile(layer, fullgraph=True, backend="aot_eager")(x), layer(x)
    assert torch.equal(found, plain)
    slopes = [torch.autograd.grad(y.sin().sum(), x)[0] for y in (found, plain)]
    assert torch.equal(*slopes)
    assert torch.equal(torch.func.vmap(layer)(x), plain)
