"""Tokens to experts: exact optima against a linear program, recipes against their formulas, and errors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import otattn
import pytest
import spec
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from otattn.moe import METHODS, route
from torch._subclasses.fake_tensor import FakeTensorMode


def normal(tokens: int, experts: int, seed: int, skew: float = 1.0) -> Any:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((tokens, experts)) + skew * rng.standard_normal(experts)


def optimum(logits: Any, k: int, lower: int, upper: int) -> float:
    """The largest value by SciPy's HiGHS, whose vertices are whole."""
    optimize = pytest.importorskip("scipy.optimize")
    n, m = logits.shape
    columns = np.kron(np.ones((1, n)), np.eye(m))
    found = optimize.linprog(
        -logits.ravel(),
        A_ub=np.vstack([columns, -columns]),
        b_ub=np.repeat([upper, -lower], m),
        A_eq=np.kron(np.eye(n), np.ones((1, m))),
        b_eq=np.full(n, k),
        bounds=(0, 1),
        method="highs",
    )
    assert found.status == 0, found.message
    return -float(found.fun)


@settings(max_examples=40)
@given(st.integers(1, 20), st.integers(1, 6), st.integers(0, 10**6), st.data())
def test_base_is_the_optimum(tokens: int, experts: int, seed: int, data: Any) -> None:
    k = data.draw(st.integers(1, experts))
    logits = normal(tokens, experts, seed)
    low, high = tokens * k // experts, -(-tokens * k // experts)
    low, high = max(0, low - data.draw(st.integers(0, 2))), min(tokens, high + data.draw(st.integers(0, 2)))
    found = route(logits, k, bounds=(low, high))
    assert found.load.min() >= low and found.load.max() <= high
    assert found.kept.all() and found.certificate.excess == 0
    best = optimum(logits, k, low, high)
    spec.check("LIT-06", abs(found.certificate.value - best), 1e-9 * (1.0 + abs(best)))
    spec.check("LIT-06", abs(found.certificate.gap), 1e-9 * (1.0 + abs(best)))


@settings(max_examples=40)
@given(st.integers(2, 40), st.integers(2, 8), st.integers(0, 10**6), st.sampled_from(METHODS), st.data())
def test_every_method_chooses_by_its_potentials(
    tokens: int, experts: int, seed: int, method: str, data: Any
) -> None:
    k = data.draw(st.integers(1, experts))
    logits = normal(tokens, experts, seed)
    found = route(logits, k, method=method)
    assert found.experts.shape == found.weights.shape == (tokens, k)
    assert (np.diff(found.experts, axis=1) > 0).all()
    assert found.load.sum() == tokens * k and found.dropped == 0
    biased = logits + found.potentials
    chosen = np.take_along_axis(biased, found.experts, 1).sum(1)
    best = np.sort(biased, 1)[:, experts - k :].sum(1)
    # Prices of the optimum leave ties between experts, and the stop of "soft" is 1e-6 of a share.
    assert np.abs(chosen - best).max() <= (1e-4 if method == "soft" else 1e-9)
    if method == "topk":
        return
    # Weak duality: the bound of any potentials is above the optimum.
    value = route(logits, k).certificate.value
    spec.check("LIT-06", value - found.certificate.bound, 1e-9 * (1.0 + abs(value)))


def recipe(logits: torch.Tensor, k: int, tolerance: float = 1e-4) -> torch.Tensor:
    """Sinkhorn routing as Megatron-LM describes it: rows, columns, stop on the change of the columns."""
    kernel = logits.exp()
    columns, change = torch.ones(kernel.shape[1], dtype=kernel.dtype), float("inf")
    while change > tolerance:
        rows = 1.0 / (len(kernel) * ((kernel * columns).sum(1) + 1e-8))
        after = 1.0 / (kernel.shape[1] * ((kernel * rows[:, None]).sum(0) + 1e-8))
        change, columns = float((after - columns).abs().mean()), after
    return (rows[:, None] * kernel * columns).topk(k, 1).indices.sort(1).values


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_sinkhorn_is_the_recipe(k: int, seed: int) -> None:
    logits = torch.from_numpy(normal(200, 16, seed))
    found = route(logits, k, method="sinkhorn")
    assert found.certificate.converged
    assert torch.equal(found.experts, recipe(logits, k))
    whole = logits.sigmoid() if k == 1 else logits.softmax(1)
    torch.testing.assert_close(found.weights, whole.gather(1, found.experts))


def test_sinkhorn_takes_logits_whose_exponentials_overflow() -> None:
    logits = normal(100, 8, 0)
    moved = logits + 1000.0 * np.arange(100)[:, None]
    wanted = route(logits, 2, method="sinkhorn").experts
    assert (route(moved, 2, method="sinkhorn").experts == wanted).all()


def test_quantiles_approach_the_optimum() -> None:
    logits = normal(512, 16, 1)
    best = route(logits, 2)
    found = route(logits, 2, method="quantile")
    assert found.load.max() <= 1.1 * found.load.mean()
    assert route(logits, 2, method="topk").load.max() > 2.0 * found.load.mean()
    # Moving what an expert has too much to one that has too little loses no more than the spread of a row.
    moved = np.abs(found.load - best.load).sum() / 2
    spread = np.ptp(logits + found.potentials, axis=1).max()
    value = best.certificate.value
    assert -1e-12 * abs(value) <= found.certificate.bound - value <= moved * spread + 1e-12 * abs(value)


@pytest.mark.parametrize("method", ["sinkhorn", "quantile", "base", "soft"])
def test_potentials_start_the_next_call(method: str) -> None:
    logits = normal(512, 16, 2, skew=3.0)
    first = route(logits, 2, method=method)
    again = route(logits, 2, method=method, potentials=first.potentials)
    assert again.certificate.rounds < first.certificate.rounds
    # The bound is convex in the potentials, and what loads are more than even is its slope.
    step = again.potentials - first.potentials
    slopes = [abs((x.load - 512 * 2 / 16) @ step) for x in (first, again)]
    change = again.certificate.bound - first.certificate.bound
    assert abs(change) <= max(slopes) + 1e-12 * abs(first.certificate.bound)
    # They choose the same experts without any round.
    exported = route(logits, 2, method="topk", potentials=again.potentials)
    assert (exported.experts == again.experts).mean() > 0.99


@pytest.mark.parametrize("method", METHODS)
def test_capacity_drops_the_smallest_logits(method: str) -> None:
    logits = normal(64, 4, 3, skew=2.0)
    found = route(logits, 1, capacity=16, method=method)
    kept = np.bincount(found.experts[found.kept], minlength=4)
    assert (kept == np.minimum(found.load, 16)).all()
    assert found.dropped == np.maximum(found.load - 16, 0).sum()
    assert (found.weights[~found.kept] == 0).all()
    assert found.dropped == 0 or method != "base"
    for j in range(4):
        mine = (found.experts == j)[:, 0]
        gone, stay = mine & ~found.kept[:, 0], mine & found.kept[:, 0]
        assert not gone.any() or logits[gone, j].max() <= logits[stay, j].min()


@pytest.mark.parametrize("method", METHODS)
def test_tensors_answer_as_arrays_and_carry_gradients(method: str) -> None:
    logits = normal(24, 4, 4)
    plain = route(logits, 2, method=method)
    tensor = torch.from_numpy(logits).requires_grad_()
    found = route(tensor, 2, method=method)
    assert (found.experts.numpy() == plain.experts).all() and (found.load.numpy() == plain.load).all()
    assert np.abs(found.weights.detach().numpy() - plain.weights).max() <= 1e-9
    side = torch.from_numpy(np.random.default_rng(5).standard_normal((24, 2)))
    (found.weights * side).sum().backward()
    step = 1e-5
    for i, j in ((0, 0), (3, 2), (20, 3)):
        ends = []
        for sign in (1.0, -1.0):
            moved = logits.copy()
            moved[i, j] += sign * step
            end = route(moved, 2, method=method)
            assert (end.experts == plain.experts).all()
            ends.append((end.weights * side.numpy()).sum())
        # Differences of plans that stop at 1e-6 of a share, divided by the step.
        tolerance = 1e-2 if method == "soft" else 1e-8
        assert abs((ends[0] - ends[1]) / (2 * step) - float(tensor.grad[i, j])) <= tolerance


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_types_of_tensors(dtype: Any) -> None:
    found = route(torch.from_numpy(normal(16, 4, 6)).to(dtype), 2)
    assert found.weights.dtype == dtype and found.load.tolist() == [8, 8, 8, 8]


@pytest.mark.parametrize("backend", [None, "torch"])
@pytest.mark.parametrize("method", ["topk", "sinkhorn", "quantile"])
def test_a_common_size_of_logits_loses_no_digits(method: str, backend: str | None) -> None:
    logits = (torch.randn(64, 8, generator=torch.Generator().manual_seed(0)) + 1e4).requires_grad_()
    routing = route(logits, 2, method=method, backend=backend)
    expected = torch.softmax(logits.detach().double(), 1).gather(1, routing.experts)
    assert float((routing.weights.detach().double() - expected).abs().max()) <= 4.0 * 2.0**-24


@pytest.mark.parametrize("method", METHODS)
def test_all_experts_a_token(method: str) -> None:
    found = route(normal(5, 3, 7), 3, method=method)
    assert (found.experts == [0, 1, 2]).all() and found.certificate.excess == 0


GOOD = np.zeros((4, 2))


@pytest.mark.parametrize(
    ("logits", "options", "kind", "words"),
    [
        (np.zeros(4), {"k": 1}, ValueError, "logits has shape (4,), wanted (tokens, experts)"),
        (np.zeros((2, 4, 2)), {"k": 1}, ValueError, "wanted (tokens, experts)"),
        (np.zeros((2, 0)), {"k": 1}, ValueError, "wanted at least one expert"),
        (np.zeros((0, 2)), {"k": 1, "bounds": (1, 4)}, ValueError, "lets expert 0 hold from 1 to 0"),
        (np.array([["a"]]), {"k": 1}, TypeError, "wanted numbers"),
        (torch.zeros(4, 2, dtype=torch.int64), {"k": 1}, TypeError, "wanted floating-point numbers"),
        (np.array([[0.0, np.nan]]), {"k": 1}, ValueError, "logits[0, 1] is nan"),
        (np.array([[0.0, 1.0], [np.inf, 0.0]]), {"k": 1}, ValueError, "logits[1, 0] is inf"),
        (np.array([[0.0, 1e300]]), {"k": 1, "method": "base"}, ValueError, "logits[0, 1] is 1e+300"),
        (GOOD, {"k": 3}, ValueError, "k is 3, but there are 2 experts"),
        (GOOD, {"k": 0}, ValueError, "k is 0, wanted 1 or more"),
        (GOOD, {"k": 1.5}, TypeError, "wanted a whole number"),
        (GOOD, {"k": 1, "capacity": 1}, ValueError, "capacity admits 0 to 2 choices"),
        (GOOD, {"k": 1, "bounds": (3, 4)}, ValueError, "bounds admits 6 to 8 choices"),
        (GOOD, {"k": 1, "bounds": (3, 1)}, ValueError, "lets expert 0 hold from 3 to 1"),
        (GOOD, {"k": 1, "bounds": 3}, TypeError, "wanted a pair"),
        (GOOD, {"k": 1, "bounds": (0, [4, 4, 4])}, ValueError, "bounds[1] has shape (3,)"),
        (GOOD, {"k": 1, "capacity": 2.5}, TypeError, "wanted whole numbers of tokens"),
        (GOOD, {"k": 1, "capacity": 2, "bounds": (0, 2)}, ValueError, "both given"),
        (GOOD, {"k": 1, "method": "best"}, ValueError, "wanted one of topk"),
        (GOOD, {"k": 1, "potentials": [0.0]}, ValueError, "potentials has shape (1,)"),
        (GOOD, {"k": 1, "potentials": [0.0, np.nan]}, ValueError, "potentials[1] is not finite"),
        (GOOD, {"k": 1, "backend": "torch"}, ValueError, "backend is 'torch', but logits is no tensor"),
        (torch.zeros(4, 2), {"k": 1, "backend": "plain"}, ValueError, "wanted 'cpu' or 'torch'"),
        (GOOD, {"k": 1, "temperature": 0.0}, ValueError, "temperature is 0.0"),
        (GOOD, {"k": 1, "method": "soft", "bounds": ([0, 1], 4)}, ValueError, "differ from expert to expert"),
    ],
)
def test_errors_are_one_sentence(logits: Any, options: dict[str, Any], kind: Any, words: str) -> None:
    with pytest.raises(kind) as error:
        route(logits, **options)
    assert words in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_soft_again_is_soft(convert: Any, dtype: Any, rng: np.random.Generator) -> None:
    logits = rng.standard_normal((24, 6)).astype(dtype)
    start = rng.standard_normal(6) / 10
    for arguments in ({}, {"capacity": 9}, {"bounds": (6, 9)}, {"temperature": 0.5, "potentials": start}):
        plain = {name: convert(x) if name == "potentials" else x for name, x in arguments.items()}
        otattn.release_memory()
        # Of the first call nothing is kept; in Fortran's order none is kept at all.
        first = route(convert(logits), 2, method="soft", **plain)
        again = route(convert(logits), 2, method="soft", **plain)
        longer = route(np.asfortranarray(logits), 2, method="soft", **arguments)
        for found in (again, longer):
            assert np.array_equal(found.experts, first.experts) and np.array_equal(found.kept, first.kept)
            assert np.array_equal(found.load, first.load) and found.certificate == first.certificate
            assert np.array_equal(found.weights, first.weights)
            assert np.array_equal(found.potentials, first.potentials)
    leaf = torch.from_numpy(logits).requires_grad_()
    slopes = []
    for _ in range(2):
        found = route(leaf, 2, method="soft", capacity=9)
        slopes.append(torch.autograd.grad((found.weights * found.weights).sum(), leaf)[0])
    assert slopes[0].abs().max() > 0 and torch.allclose(*slopes, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy])
def test_no_tokens(method: str, convert: Any) -> None:
    logits = convert(np.zeros((0, 3)))
    found = route(logits, 2, capacity=4, method=method)
    assert found.experts.shape == found.weights.shape == found.kept.shape == (0, 2)
    assert not found.load.any() and found.load.shape == found.potentials.shape == (3,)
    assert found.dropped == 0 and found.certificate.gap == 0.0 and found.certificate.converged
    assert type(found.weights) is type(logits)


@pytest.mark.parametrize("method", METHODS)
def test_routes_in_one_graph(method: str) -> None:
    def layer(x: torch.Tensor, weight: torch.Tensor) -> Any:
        found = route(x @ weight, 2, capacity=5, method=method)
        return found.experts, found.weights, found.load, found.potentials, found.certificate.value

    weight = torch.from_numpy(normal(6, 4, 1)).requires_grad_()
    x = torch.from_numpy(normal(8, 6, 2))
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for _ in range(2):
        found, right = compiled(x, weight), layer(x, weight)
        for a, b in zip(found, right, strict=True):
            assert (a - b).abs().max() <= 1e-9 if torch.is_tensor(b) else abs(float(a) - b) <= 1e-9
        slopes = [torch.autograd.grad(y[1].square().sum(), weight)[0] for y in (found, right)]
        assert (slopes[0] - slopes[1]).abs().max() <= 1e-6 * slopes[1].abs().max()


def apart(one: torch.Tensor, other: torch.Tensor, method: str) -> float:
    """How far potentials are from each other; of common numbers with the least bound rounding chooses one."""
    away = one - other
    return float((away if method in ("topk", "base") else away - away[0]).abs().max())


BY_TORCH = ("topk", "sinkhorn", "quantile", "soft", "base")


@settings(max_examples=150)
@given(
    st.integers(1, 50),
    st.integers(1, 9),
    st.sampled_from([torch.float64, torch.float32, torch.bfloat16, torch.float16]),
    st.sampled_from(BY_TORCH),
    st.integers(0, 2**31),
    st.data(),
)
def test_operations_of_torch_are_the_library(
    tokens: int, experts: int, kind: torch.dtype, method: str, seed: int, data: Any
) -> None:
    k = data.draw(st.integers(1, experts))
    # Whole numbers meet each other, and what is chosen of equal logits is settled.
    whole = data.draw(st.booleans()) and method != "sinkhorn"
    logits = torch.from_numpy(2.0 * normal(tokens, experts, seed)).to(kind)
    logits = logits.round() if whole else logits
    words: dict[str, Any] = {"certificate": data.draw(st.booleans())}
    if data.draw(st.booleans()) and method != "soft":
        words["potentials"] = torch.from_numpy(normal(experts, 1, seed + 1)[:, 0])
    least, most = tokens * k // experts, -(-tokens * k // experts)
    extra = data.draw(st.integers(0, 3))
    limits = data.draw(st.sampled_from(["none", "capacity", "bounds", "each"]))
    if limits == "capacity":
        words["capacity"] = most + extra
    elif limits == "bounds" or (limits == "each" and method == "soft"):
        words["bounds"] = (max(0, least - extra), most + extra)
    elif limits == "each":
        words["bounds"] = (np.maximum(0, least - np.arange(experts)), torch.arange(experts) % 2 + most)
    if method in ("sinkhorn", "quantile"):
        words["rounds"] = data.draw(st.sampled_from([None, 1, 7]))
        words["tolerance"] = data.draw(st.sampled_from([1e-4, 1e-2]))
    if method == "soft":
        words["temperature"] = data.draw(st.sampled_from([1.0, 0.5]))
    leaves = [logits.clone().requires_grad_() for _ in range(2)]
    ours, theirs = (
        route(x, k, method=method, backend=y, **words) for x, y in zip(leaves, ("torch", None), strict=True)
    )
    unit = torch.finfo(torch.float64 if kind == torch.float64 else torch.float32).eps
    scale = 1.0 + float(logits.detach().abs().max()) + float(theirs.potentials.abs().max())
    close = (1e-4 if method == "soft" else 64 * tokens * unit) * scale
    # Bounds that fill all room leave potentials of "soft" open, which still prove a bound.
    assert method == "soft" or apart(ours.potentials, theirs.potentials, method) <= close
    # Of choices that rounding decides either is right.
    biased = logits.double() + ours.potentials
    best = biased.topk(k, 1).values.sum(1)
    assert (best - biased.gather(1, ours.experts).sum(1)).abs().max() <= 2 * k * close
    same = torch.equal(ours.experts, theirs.experts)
    assert same or method in ("sinkhorn", "soft", "quantile")
    assert ours.weights.dtype == theirs.weights.dtype == kind
    assert ours.load.dtype == torch.int64 and ours.load.sum() == tokens * k
    proofs = [x.certificate for x in (ours, theirs)]
    for name in ("value", "bound"):
        one, other = (float(getattr(x, name)) for x in proofs)
        if (name == "bound" and method != "soft") or same:
            assert one == pytest.approx(other, abs=tokens * k * close, nan_ok=True), name
    assert type(proofs[0].value) is float and type(proofs[0].rounds) is int
    assert proofs[0].rounds == proofs[1].rounds or method == "soft"
    assert proofs[0].converged == proofs[1].converged
    if not same:
        return
    assert torch.equal(ours.load, theirs.load) and proofs[0].excess == proofs[1].excess
    assert torch.equal(ours.kept, theirs.kept)
    tolerance = 16 * torch.finfo(kind).eps + (1e-4 if method == "soft" else 0.0)
    assert (ours.weights - theirs.weights).abs().max() <= tolerance
    upstream = torch.randn(tokens, k, generator=torch.Generator().manual_seed(seed)).to(kind)
    slopes = [
        torch.autograd.grad(x.weights, y, upstream)[0] for x, y in zip((ours, theirs), leaves, strict=True)
    ]
    if method != "soft":
        # Implicit gradients of plans are tested by attention's own tests.
        assert (slopes[0] - slopes[1]).abs().max() <= 10 * k * tolerance


def test_potentials_start_soft_operations_of_torch() -> None:
    logits = torch.from_numpy(normal(64, 6, 2))
    first = route(logits, 2, method="soft", capacity=30, backend="torch")
    again = route(logits, 2, method="soft", capacity=30, backend="torch", potentials=first.potentials)
    assert again.certificate.rounds < first.certificate.rounds
    assert (again.weights - first.weights).abs().max() <= 1e-6


@pytest.mark.parametrize("method", ["topk", "sinkhorn", "quantile"])
@pytest.mark.parametrize("k", [1, 2])
def test_gradcheck_of_operations_of_torch(method: str, k: int) -> None:
    logits = torch.from_numpy(normal(7, 4, 3)).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: route(x, k, capacity=5, method=method, backend="torch").weights, (logits,)
    )


@pytest.mark.parametrize("method", METHODS)
def test_operations_of_torch_go_in_pieces(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    logits = torch.from_numpy(normal(40, 6, 5))
    whole = route(logits, 2, method=method, backend="torch")
    monkeypatch.setattr("otattn._torch_device.BLOCK", 50)
    parts = route(logits, 2, method=method, backend="torch")
    assert torch.equal(parts.experts, whole.experts)
    assert (parts.potentials - whole.potentials).abs().max() <= 1e-12
    assert parts.certificate.bound == pytest.approx(whole.certificate.bound, rel=1e-12)


def test_a_device_is_not_waited_for() -> None:
    """Tensors of a device that does not exist here refuse what mixes devices and what needs their numbers."""
    from otattn import _torch_moe

    with FakeTensorMode():
        logits = torch.empty(12, 5, device="lazy", requires_grad=True)
        start = torch.empty(5, dtype=torch.float64, device="lazy")
        arguments = (logits.detach(), 2, torch.tensor(6), None, None, start, "topk", 1e-4, None, True, True)
        found = _torch_moe._by_torch(otattn.moe.Asked(logits.detach(), 2, np.array(6), None, "topk"), start)
        fakes = torch.ops.otattn.route(*arguments)
        for one, other in zip(found, fakes, strict=True):
            assert (one.device.type, one.dtype, one.shape) == ("lazy", other.dtype, other.shape)
        routed = route(logits, 2, method="topk", potentials=start)
        assert routed.weights.requires_grad and routed.weights.device.type == "lazy"
        assert all(x.device.type == "lazy" for x in (routed.load, routed.certificate.gap))
        with pytest.raises(ValueError, match="potentials and logits lie on two devices, cpu and lazy; pass"):
            route(logits, 2, method="topk", potentials=torch.zeros(5))


@pytest.mark.parametrize("method", ["topk", "sinkhorn", "quantile", "base"])
def test_another_device_gives_the_same(method: str, other_device: str) -> None:
    from otattn import _torch_moe

    logits = torch.from_numpy(normal(30, 6, 8))
    right = route(logits, 2, capacity=12, method=method)
    if method == "base":
        _torch_device_warned().clear()
        with pytest.warns(
            UserWarning, match=f"'{method}' is computed on the CPU: the tensors of the call go"
        ):
            found: Any = route(logits.to(other_device), 2, capacity=12, method=method)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            route(logits.to(other_device), 2, capacity=12, method=method)
        assert found.experts.device.type == other_device and torch.equal(found.experts.cpu(), right.experts)
        assert found.certificate == right.certificate
        return
    asked = otattn.moe.Asked(logits.to(other_device), 2, np.array(12), None, method)
    made = [x.cpu() for x in _torch_moe._by_torch(asked, None)]
    assert apart(made.pop(2), right.potentials, method) <= 1e-12
    for one, other in zip(made, (right.experts, right.weights, right.load, right.kept), strict=False):
        assert one.dtype == other.dtype and (one.double() - other.double()).abs().max() <= 1e-12
    assert made[-1].tolist() == pytest.approx([float(x) for x in right.certificate], rel=1e-12)


def _torch_device_warned() -> set[str]:
    from otattn import _torch_device

    return _torch_device._warned


@pytest.mark.parametrize("method", ["topk", "sinkhorn", "quantile"])
def test_operations_of_torch_in_one_graph(method: str) -> None:
    def layer(x: torch.Tensor) -> Any:
        found = route(x, 2, capacity=5, method=method, backend="torch")
        return found.experts, found.weights, found.load, found.potentials, found.certificate.value

    x = torch.from_numpy(normal(8, 4, 2))
    torch._dynamo.reset()
    for a, b in zip(torch.compile(layer, fullgraph=True, backend="aot_eager")(x), layer(x), strict=True):
        assert (a == b).all() if torch.is_tensor(b) else float(a) == b
