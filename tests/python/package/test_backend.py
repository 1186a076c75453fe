"""`backend=`: every front reaches it, and the plain backend finds the numbers of the default."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import otattn
import otattn.jax
import otattn.nn
import pytest
import torch
from otattn import analysis

METHODS = ["softmax", "entmax:1.5", "softmax/exact", "softmax/capped:1.5", "softmax/prefix"]
METHODS += ["softmax/online:2"]


@pytest.fixture(autouse=True, scope="module")
def _f64() -> Any:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def heads(rng: np.random.Generator) -> list[Any]:
    return [rng.standard_normal((2, 2, 6, 4)) for _ in range(3)]


def test_names() -> None:
    assert otattn.backends() == ["cpu", "plain", "torch"]


@pytest.mark.parametrize("method", METHODS)
def test_numpy(method: str, rng: np.random.Generator) -> None:
    x = heads(rng)
    options = {"method": method, "tolerance": 1e-12}
    default = otattn.attention(*x, **options)
    assert np.array_equal(otattn.attention(*x, **options, backend="cpu"), default)
    assert np.abs(otattn.attention(*x, **options, backend="plain") - default).max() <= 1e-9
    scores = x[0] @ x[1].swapaxes(-1, -2)
    p = otattn.coupling(scores, **options, backend="plain")
    assert np.abs(p - otattn.coupling(scores, **options)).max() <= 1e-9


def test_plan(rng: np.random.Generator) -> None:
    plan = otattn.Plan(*heads(rng), method="softmax/exact", backend="plain")
    assert "backend: plain" in plan.describe()


@pytest.mark.parametrize("method", METHODS)
def test_torch(method: str, rng: np.random.Generator) -> None:
    found = []
    x = heads(rng)
    for backend in (None, "plain"):
        leaves = [torch.from_numpy(y).requires_grad_() for y in x]
        out = otattn.attention(*leaves, method=method, tolerance=1e-12, backend=backend)
        found.append([out.detach(), *torch.autograd.grad(out.sin().sum(), leaves)])
    for ours, theirs in zip(*found, strict=True):
        assert (ours - theirs).abs().max() <= 1e-8


def test_modules(rng: np.random.Generator) -> None:
    x = torch.from_numpy(rng.standard_normal((1, 5, 8)))
    layers = [
        otattn.nn.Attention(8, 2, method="softmax/exact", batch_first=True, dtype=torch.float64, backend=name)
        for name in (None, "plain")
    ]
    layers[1].load_state_dict(layers[0].state_dict())
    first, second = (layer(x, x, x)[0] for layer in layers)
    assert (first - second).abs().max() <= 1e-7


@pytest.mark.parametrize("method", METHODS)
def test_jax(method: str, rng: np.random.Generator) -> None:
    def loss(backend: str | None, *x: Any) -> Any:
        return jnp.sin(otattn.jax.attention(*x, method=method, tolerance=1e-12, backend=backend)).sum()

    x = heads(rng)
    both = [jax.jit(jax.grad(lambda *y, b=b: loss(b, *y), argnums=(0, 1, 2)))(*x) for b in (None, "plain")]
    for ours, theirs in zip(*both, strict=True):
        assert np.abs(ours - theirs).max() <= 1e-8


def test_layer(rng: np.random.Generator) -> None:
    one, x = np.eye(4), rng.standard_normal((5, 4))
    both = [
        analysis.AttentionLayer(one, one, one, one, method="softmax/exact", backend=name).forward(x)
        for name in (None, "plain")
    ]
    assert np.abs(both[0].out - both[1].out).max() <= 1e-7
    with pytest.raises(ValueError, match="backend is 'abacus'"):
        analysis.AttentionLayer(one, one, one, one, backend="abacus").forward(x)


def test_refusals(rng: np.random.Generator) -> None:
    x = heads(rng)
    with pytest.raises(ValueError, match="backend is 'abacus'"):
        otattn.attention(*x, backend="abacus")
    with pytest.raises(jax.errors.JaxRuntimeError, match="backend is 'abacus'"):
        otattn.jax.attention(*x, backend="abacus")
    with pytest.raises(ValueError, match=r"otattn\.backends"):
        otattn.jax.attention(*x, backend="a name that is longer than any backend's")
    with pytest.raises(TypeError, match="backend is a int"):
        otattn.attention(*x, backend=3)
