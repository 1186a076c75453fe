"""otattn.jax against the NumPy front, torch's derivatives and finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import otattn
import pytest
import torch

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
jnp = jax.numpy

METHODS = ["softmax", "entmax:1.5", "softmax/exact", "softmax/capped:1.4", "softmax/elastic:0.4,3"]


def arrays(rng: np.random.Generator) -> tuple[list[Any], dict[str, Any]]:
    x = [rng.standard_normal((2, heads, n, 3)) for heads, n in ((4, 5), (2, 6), (2, 6))]
    return x, {"attn_mask": rng.random((5, 6)) < 0.9, "bias": rng.standard_normal((4, 5, 6))}


@pytest.mark.parametrize("method", METHODS)
def test_values_and_gradients(method: str, rng: np.random.Generator) -> None:
    x, pairs = arrays(rng)
    pairs["attn_mask"][:, 0] = True
    temperature = rng.uniform(0.7, 1.2, 4)
    options = {"enable_gqa": True, "method": method, "tolerance": 1e-12}

    def loss(q: Any, k: Any, v: Any, bias: Any, t: Any) -> Any:
        out = otattn.jax.attention(q, k, v, pairs["attn_mask"], bias=bias, temperature=t, **options)
        return jnp.sin(out).sum()

    values = (*x, pairs["bias"], temperature)
    got, found = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2, 3, 4)))(*values)
    leaves = [torch.from_numpy(y).requires_grad_() for y in values]
    out = otattn.attention(
        *leaves[:3], torch.from_numpy(pairs["attn_mask"]), bias=leaves[3], temperature=leaves[4], **options
    )
    expected = torch.autograd.grad(out.sin().sum(), leaves)
    assert abs(float(got) - out.sin().sum().item()) <= 1e-12
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.shape == tuple(theirs.shape) and np.abs(ours - theirs.numpy()).max() <= 1e-9


@pytest.mark.parametrize("method", ["softmax", "softmax/exact"])
def test_vmap(method: str, rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 2, 2, 5, 4))
    mask = rng.random((5, 5)) < 0.8
    mask |= np.eye(5, dtype=bool)
    if method == "softmax/exact":
        mask[...] = True

    def one(q: Any, k: Any) -> Any:
        return otattn.jax.attention(q, k, k, mask, method=method)

    together = jax.vmap(one)(x, x)
    assert np.abs(together - jnp.stack([one(y, y) for y in x])).max() <= 1e-12
    shared = jax.vmap(one, in_axes=(0, None))(x, x[0])
    assert np.abs(shared - jnp.stack([one(y, x[0]) for y in x])).max() <= 1e-12
    single = jax.vmap(jax.vmap(one))(x[0], x[0])
    assert np.abs(single - one(x[0], x[0])).max() <= 1e-12
    slopes = jax.grad(lambda t: jax.vmap(one)(t * x, x).sum())(1.0)
    assert abs(slopes - sum(jax.grad(lambda t, y=y: one(t * y, y).sum())(1.0) for y in x)) <= 1e-9
    cold = jax.vmap(lambda t: otattn.jax.attention(x[0], x[0], x[0], method=method, temperature=t))
    assert cold(jnp.array([0.5, 2.0])).shape == (2, *x[0].shape)


def test_shapes_types_and_refusals(rng: np.random.Generator) -> None:
    q = rng.standard_normal((5, 4))
    assert np.abs(otattn.jax.attention(q, q, q) - otattn.attention(q, q, q)).max() <= 1e-15
    for kind in (jnp.float32, jnp.bfloat16, jnp.float16):
        x = jnp.asarray(q, kind)
        out = otattn.jax.attention(x, x, x, is_causal=True)
        assert out.dtype == kind and out.shape == (5, 4)
    wide = rng.standard_normal((2, 1, 5, 4))
    narrow = rng.standard_normal((3, 5, 4))
    grads = jax.grad(lambda a, b: otattn.jax.attention(a, b, b).sum(), argnums=(0, 1))(wide, narrow)
    assert grads[0].shape == wide.shape and grads[1].shape == narrow.shape
    again = otattn.jax.attention(q, q, q, dropout_p=0.5, dropout_seed=3)
    assert (again == otattn.attention(q, q, q, dropout_p=0.5, dropout_seed=3)).all()
    with pytest.raises(ValueError, match="without dropout_seed"):
        otattn.jax.attention(q, q, q, dropout_p=0.5)
    with pytest.raises(TypeError, match="return_aux is not offered"):
        otattn.jax.attention(q, q, q, return_aux=True)
    with pytest.raises(Exception, match="softmaxx"):
        otattn.jax.attention(q, q, q, method="softmaxx").block_until_ready()
