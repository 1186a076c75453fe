"""Derivatives along one direction: Plan.jvp against differences and backward, torch's forward mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import otattn
import pytest
import spec
import torch
from torch.autograd import forward_ad

METHODS = [
    "softmax",
    "entmax:1.5",
    "softmax/exact",
    "softmax/relaxed:0.7",
    "softmax/capped:1.3",
    "softmax/bounded:0.6,1.5",
    "softmax/elastic:0.4,3",
    "ceta{rounds=3}",
    "softmax/online:1.5",
    "softmax/prefix",
]
STEP = 1e-6


def differences(run: Any, values: dict[str, Any], directions: dict[str, Any]) -> Any:
    """Central differences: error of order step squared and rounding over step."""
    ahead, behind = (
        run({name: x + sign * STEP * directions.get(name, 0.0) for name, x in values.items()})
        for sign in (1.0, -1.0)
    )
    return (ahead - behind) / (2 * STEP)


@pytest.mark.parametrize("method", METHODS)
def test_plan_against_differences(method: str, rng: np.random.Generator) -> None:
    values: dict[str, Any] = {
        "query": rng.standard_normal((2, 4, 5, 3)),
        "key": rng.standard_normal((2, 2, 5, 3)),
        "value": rng.standard_normal((2, 2, 5, 2)),
        "bias": rng.standard_normal((4, 5, 5)),
        "temperature": rng.uniform(0.8, 1.2, 4),
    }
    directions = {name: rng.standard_normal(x.shape) for name, x in values.items()}
    options = {"enable_gqa": True, "method": method, "tolerance": 1e-13}

    def run(at: dict[str, Any]) -> Any:
        return otattn.attention(**at, **options)

    rest = {name: values[name] for name in ("bias", "temperature")}
    plan = otattn.Plan(
        *(values[name] for name in ("query", "key", "value")), gradients=True, **rest, **options
    )
    plan.forward(values["query"], values["key"], values["value"])
    got, change = plan.jvp(directions, coupling=True)
    expected = differences(run, values, directions)
    assert np.abs(got - expected).max() <= 2e-7
    assert got.shape == (2, 4, 5, 2) and change.shape == (2, 4, 5, 5)
    # Rows of every plan keep their mass.
    assert np.abs(change.sum(-1)).max() <= 1e-10
    upstream = rng.standard_normal(got.shape)
    gradients = plan.backward(upstream, wrt=tuple(values))
    along = sum(
        np.vdot(np.reshape(gradients[name], directions[name].shape), directions[name]) for name in values
    )
    assert abs(along - np.vdot(upstream, got)) <= 1e-9 * (1 + abs(along))


def test_hessian_of_the_optimal_value(rng: np.random.Generator) -> None:
    """Second differences of sum_i tau log sum_j exp(S_ij / tau), whose gradient is P."""
    q, direction, tau, step = rng.standard_normal((1, 1, 5, 5)), rng.standard_normal((1, 1, 5, 5)), 0.8, 1e-4
    plan = otattn.Plan(q, np.eye(5)[None, None], q, scale=1.0, temperature=tau, gradients=True)
    plan.forward(q, np.eye(5)[None, None], q)
    _, change = plan.jvp({"scores": direction}, coupling=True)
    value = [tau * np.log(np.exp((q + k * step * direction) / tau).sum(-1)).sum() for k in (-1, 0, 1)]
    second = (value[0] - 2 * value[1] + value[2]) / step**2
    spec.check("LIT-30", abs(np.vdot(direction, change) - second), 2e-6)


def test_masses_and_numbers(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 5, 3))
    values: dict[str, Any] = {"row_mass": rng.uniform(0.5, 1.5, (2, 5)), "strength": 0.6, "temperature": 0.9}
    directions = {"row_mass": rng.standard_normal((2, 5)), "strength": 1.0, "temperature": -0.4}
    options = {"method": "softmax/relaxed:1", "tolerance": 1e-13}
    plan = otattn.Plan(x, x, x, gradients=True, **values, **options)
    plan.forward(x, x, x)
    expected = differences(lambda at: otattn.attention(x, x, x, **at, **options), values, directions)
    assert np.abs(plan.jvp(directions) - expected).max() <= 2e-7
    scores = rng.standard_normal((2, 5, 5))
    by_bias = otattn.Plan(x, x, x, gradients=True, bias=np.zeros((2, 5, 5)), **values, **options)
    by_bias.forward(x, x, x)
    assert np.abs(plan.jvp({"scores": scores}) - by_bias.jvp({"bias": scores})).max() <= 1e-11


def test_bounds(rng: np.random.Generator) -> None:
    """Bounds so tight that columns lie on both."""
    x = 2.0 * rng.standard_normal((1, 1, 6, 3))
    values: dict[str, Any] = {"lower": 0.9, "upper": 1.05}
    directions = {"lower": 0.7, "upper": 1.0}
    options = {"method": "softmax/bounded:0.5,2", "tolerance": 1e-13}
    plan = otattn.Plan(x, x, x, gradients=True, **values, **options)
    _, aux = plan.forward(x, x, x, return_aux=otattn.AuxRequest(receiver=True))
    spec.check("DER-02", max(0.9 - aux.receiver.min(), aux.receiver.max() - 1.05), 1e-11)
    assert aux.receiver.min() <= 0.9 + 1e-9 and aux.receiver.max() >= 1.05 - 1e-9
    expected = differences(lambda at: otattn.attention(x, x, x, **at, **options), values, directions)
    spec.check("DER-02", np.abs(plan.jvp(directions) - expected).max(), 2e-7)
    upstream = rng.standard_normal(x.shape)
    found = plan.backward(out_grad=upstream, wrt=["lower", "upper"])
    along = 0.7 * found["lower"] + found["upper"]
    spec.check("DER-02", abs(along - np.vdot(upstream, plan.jvp(directions))), 1e-10)


def test_refusals(rng: np.random.Generator) -> None:
    x = rng.standard_normal((1, 1, 4, 3))
    plan = otattn.Plan(x, x, x, gradients=True)
    plan.forward(x, x, x)
    with pytest.raises(ValueError, match="tangents has 'quary'"):
        plan.jvp({"quary": x})
    with pytest.raises(ValueError, match=r"tangent of key has shape \(4, 3\)"):
        plan.jvp({"key": x[0, 0]})
    with pytest.raises(ValueError, match="bias has no part"):
        plan.jvp({"bias": 1.0})
    with pytest.raises(ValueError, match="gradients=True"):
        otattn.Plan(x, x, x).jvp({})
    hard = otattn.Plan(x, x, x, method="hard", gradients=True)
    with pytest.raises(otattn.NotDifferentiable):
        hard.forward(x, x, x)
        hard.jvp({"query": x})


@pytest.mark.parametrize("method", METHODS)
def test_torch_forward_mode(method: str) -> None:
    torch.manual_seed(0)
    x = tuple(torch.randn(2, 2, 5, 3, dtype=torch.float64) for _ in range(3))
    directions = tuple(torch.randn_like(y) for y in x)
    options = {"method": method, "tolerance": 1e-13}
    plan = otattn.Plan(*(y.numpy() for y in x), gradients=True, **options)
    plan.forward(*(y.numpy() for y in x))
    named = dict(zip(("query", "key", "value"), (y.numpy() for y in directions), strict=True))
    expected = torch.from_numpy(plan.jvp(named))

    def call(*y: Any) -> Any:
        return otattn.attention(*y, **options)

    out, along = torch.func.jvp(call, x, directions)
    assert torch.equal(out, call(*x)) and (along - expected).abs().max() <= 1e-10
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(y, d) for y, d in zip(x, directions, strict=True)]
        along = forward_ad.unpack_dual(call(*duals)).tangent
        assert along is not None and (along - expected).abs().max() <= 1e-10
        half = call(duals[0], x[1], x[2])
        assert forward_ad.unpack_dual(half).tangent is not None


def test_torch_parameters_coupling_and_jacfwd() -> None:
    torch.manual_seed(0)
    scores = torch.randn(4, 5, dtype=torch.float64)

    def plan(s: Any, t: Any) -> Any:
        return otattn.coupling(s, method="softmax/relaxed:0.5", temperature=t, tolerance=1e-13)

    t = torch.tensor(0.8, dtype=torch.float64)
    forward = torch.func.jacfwd(plan, argnums=(0, 1))(scores, t)
    reverse = torch.func.jacrev(plan, argnums=(0, 1))(scores, t)
    for ours, theirs in zip(forward, reverse, strict=True):
        assert ours.shape == theirs.shape and (ours - theirs).abs().max() <= 1e-9

    def received(s: Any) -> Any:
        request = otattn.AuxRequest(receiver=True)
        return otattn.coupling(s, method="entmax:1.5", return_aux=request)[1].receiver

    direction = torch.randn_like(scores)
    _, along = torch.func.jvp(received, (scores,), (direction,))
    step = (received(scores + STEP * direction) - received(scores - STEP * direction)) / (2 * STEP)
    assert (along - step).abs().max() <= 1e-7
