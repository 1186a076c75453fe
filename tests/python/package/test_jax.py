"""otattn.jax against the NumPy front, torch's derivatives and finite differences."""

from __future__ import annotations

import concurrent.futures
import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path
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
    with pytest.raises(ValueError, match="softmaxx"):
        otattn.jax.attention(q, q, q, method="softmaxx")
    with pytest.raises(ValueError, match="certificate is not offered"):
        otattn.jax.attention(q, q, q, return_aux=otattn.AuxRequest(certificate=True))
    with pytest.raises(TypeError, match="key has type float32, but query has float64"):
        otattn.jax.attention(q, q.astype(np.float32), q)
    with pytest.raises(TypeError, match="query has type int64"):
        otattn.jax.attention(*3 * [np.ones((2, 2), np.int64)])
    steep = 40 * rng.standard_normal((6, 6))
    with pytest.raises(Exception, match="after 2 rounds the residual is"):
        otattn.jax.attention(steep, steep, steep, method="softmax/exact", max_rounds=2)
    # The next call is none the worse for it.
    assert np.isfinite(otattn.jax.attention(q, q, q)).all()


REQUEST = otattn.AuxRequest(coupling=True, potentials=True, receiver=True, row_stats=True, lse=True)


def test_gradients_of_columns_that_are_solved(rng: np.random.Generator) -> None:
    scores, weight = rng.standard_normal((2, 4, 5))
    found = jax.grad(lambda x: (otattn.jax.coupling(x, axis="columns") * weight).sum())(scores)
    plan = jax.nn.softmax(scores, axis=0)
    np.testing.assert_allclose(found, plan * (weight - (plan * weight).sum(0)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("method", ["softmax", "softmax/relaxed:0.7"])
def test_coupling_statistics_and_their_gradients(method: str, rng: np.random.Generator) -> None:
    x, pairs = arrays(rng)
    pairs["attn_mask"][:, 0] = True
    options = {"enable_gqa": True, "method": method, "tolerance": 1e-12}
    right, expected = otattn.attention(*x, **pairs, **options, return_aux=REQUEST)
    out, aux = jax.jit(lambda *y: otattn.jax.attention(*y, **pairs, **options, return_aux=REQUEST))(*x)
    assert (out == right).all() and (aux.coupling == expected.coupling).all() and aux.info is None
    for ours, theirs in (
        (aux.potentials, expected.potentials),
        (aux.row_stats, expected.row_stats),
        ((aux.receiver, aux.lse), (expected.receiver, expected.lse)),
    ):
        for a, b in zip(ours, theirs, strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype and (a == b).all()

    scores, weight = rng.standard_normal((3, 5, 6)), rng.standard_normal((3, 5, 6))

    def plan_and_sums(s: Any, w: Any) -> Any:
        plan, more = otattn.jax.coupling(s, method=method, tolerance=1e-12, return_aux=REQUEST)
        # Statistics have no derivative and take none away.
        return (plan * w).sum() + jnp.sin(more.receiver).sum() + more.lse.sum()

    leaf = torch.from_numpy(scores).requires_grad_()
    plan, more = otattn.coupling(leaf, method=method, tolerance=1e-12, return_aux=REQUEST)
    loss = (plan * torch.from_numpy(weight)).sum() + more.receiver.sin().sum()
    (wanted,) = torch.autograd.grad(loss, leaf)
    assert np.abs(jax.grad(plan_and_sums)(scores, weight) - wanted.numpy()).max() <= 1e-9
    mapped = jax.vmap(jax.grad(plan_and_sums), in_axes=0)(scores, weight)
    assert np.abs(mapped - wanted.numpy()).max() <= 1e-9
    sums = otattn.jax.attention(*x, **pairs, **options, return_aux=True)[1]
    assert sums.coupling is None and sums.certificate is None and sums.receiver is not None


@pytest.mark.parametrize("method", ["softmax", "softmax/exact", "softmax/online:2", "softmax/bounded:0,9"])
def test_every_operand_against_the_callback(method: str, rng: np.random.Generator) -> None:
    """The same numbers as Python called back, and the same gradients: two ways to the library."""
    x, pairs = arrays(rng)
    pairs["attn_mask"] = np.where(rng.random((5, 6)) < 0.9, 0.0, -1.0)
    values = {
        **dict(zip(("query", "key", "value"), x, strict=True)),
        **pairs,
        "alibi_slopes": rng.uniform(0, 0.3, 4),
        "relative_bias": rng.standard_normal((4, 10)),
        "temperature": np.float64(0.8),
        "row_mass": np.full((4, 5), 0.9),
    }
    if method == "softmax":
        values["sink"] = rng.standard_normal(4)
    else:
        values["column_mass"] = np.full(6, 0.75)
    if "bounded" in method:
        values |= {"lower": np.float64(0.9), "upper": np.float64(1.1)}
    static = {"enable_gqa": True, "method": method, "tolerance": 1e-12, "causal_align": "bottom_right"}
    given = {name: jnp.asarray(y) for name, y in values.items()}
    upstream = rng.standard_normal((2, 4, 5, 3))

    def by_handler(y: Any) -> Any:
        return (otattn.jax.attention(**y, **static) * upstream).sum()

    def by_callback(y: Any) -> Any:
        return (otattn.jax._jax_callback.attend(y, static) * upstream).sum()

    ours, theirs = (jax.value_and_grad(f)(given) for f in (by_handler, by_callback))
    assert abs(ours[0] - theirs[0]) <= 1e-11
    for name in values:
        a, b = ours[1][name], theirs[1][name]
        assert a.shape == b.shape and np.abs(a - b).max() <= 1e-9, name


def test_lengths_and_vmap_over_what_all_share(rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 2, 5, 4))
    lengths = np.array([5, 2, 3])
    right = otattn.attention(x, x, x, key_lengths=lengths)
    for mask in (None, np.ones((5, 5), bool), np.zeros((5, 5))):
        assert (otattn.jax.attention(x, x, x, mask, key_lengths=lengths) == right).all()
    bias = rng.standard_normal((5, 5))

    def loss(y: Any, b: Any) -> Any:
        return jnp.sin(otattn.jax.attention(y, y, y, bias=b)).sum()

    together = jax.vmap(jax.grad(loss, argnums=(0, 1)), in_axes=(0, None))(x, bias)
    for k in range(3):
        single = jax.grad(loss, argnums=(0, 1))(x[k], bias)
        for a, b in zip(together, single, strict=True):
            assert np.abs(a[k] - b).max() <= 1e-12
    drop = jax.vmap(lambda y: otattn.jax.attention(y, y, y, dropout_p=0.5, dropout_seed=3))(x)
    for k in range(3):
        assert (drop[k] == otattn.attention(x[k], x[k], x[k], dropout_p=0.5, dropout_seed=3)).all()


def test_without_f64() -> None:
    """In a process of its own: the switch is read when jax starts."""
    code = """
import jax, numpy as np, otattn, otattn.jax
assert not jax.config.jax_enable_x64
x = np.random.default_rng(0).standard_normal((2, 2, 5, 4)).astype(np.float32)
for method in ("softmax", "softmax/exact", "softmax/relaxed:1"):
    def loss(y, **aux):
        found = otattn.jax.attention(y, y, y, method=method, **aux)
        return ((found[0] if aux else found) ** 2).sum()
    request = otattn.AuxRequest(potentials=True, lse=True)
    plain, asked = jax.grad(loss)(x), jax.grad(lambda y: loss(y, return_aux=request))(x)
    y = x.astype(float)
    wide = otattn.Plan(y, y, y, method=method, gradients=True, tolerance=1e-12)
    right = sum(wide.backward(2 * wide.forward(y, y, y)).values())
    assert plain.dtype == np.float32
    assert max(abs(plain - right).max(), abs(asked - right).max()) <= 1e-4 * abs(right).max(), method
"""
    environment = {**os.environ, "JAX_ENABLE_X64": "0"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_gradients_through_shard_map() -> None:
    """In a process of its own, with two devices; the check of what varies over the mesh is the default."""
    code = """
import jax, jax.numpy as jnp, numpy as np, otattn, otattn.jax
from jax.sharding import Mesh, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("i",))
rng = np.random.default_rng(0)
x, w = (jnp.asarray(rng.standard_normal((size, 2, 6, 4)), jnp.float32) for size in (2, 1))
own = otattn.Regulariser(lambda t: max(t, 0.0), lambda t: float(t > 0))
calls = {
    "exact": lambda x, w: otattn.jax.attention(x, x + w, x, method="softmax/exact"),
    "shared": lambda x, w: otattn.jax.attention(x, w, w, jnp.zeros((6, 6)), temperature=2 + w[0, 0, 0, 0]),
    "coupling": lambda x, w: otattn.jax.coupling(x @ (x + w).mT, method="softmax/relaxed:1"),
    "vmap": lambda x, w: jax.vmap(lambda y: otattn.jax.attention(y, y + w, y))(x[None])[0],
    "callback": lambda x, w: otattn.jax.attention(x, x + w, x, method=own),
    "normalize": lambda x, w: otattn.jax.sinkhorn_normalize((x + w)[..., :4, :4]),
}
for name, call in calls.items():
    sharded = jax.shard_map(call, mesh=mesh, in_specs=(P("i"), P()), out_specs=P("i"))
    losses = [lambda x, w, f=f: (f(x, w) ** 2).sum() for f in (sharded, call)]
    found, right = (jax.grad(loss, (0, 1))(x, w) for loss in losses)
    for a, b in zip(found, right):
        assert abs(a - b).max() <= 1e-4 * abs(b).max() and abs(b).max() > 0, name
"""
    flags = "--xla_force_host_platform_device_count=2"
    environment = {**os.environ, "JAX_ENABLE_X64": "0", "XLA_FLAGS": flags}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_a_regulariser_and_an_old_jax_go_by_callback(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = rng.standard_normal((1, 2, 4, 3))
    own = otattn.Regulariser(lambda t: max(t, 0.0), lambda t: float(t > 0))
    sparse = otattn.attention(x, x, x, method="sparsemax")
    assert np.abs(otattn.jax.attention(x, x, x, method=own) - sparse).max() <= 1e-14
    monkeypatch.setattr(otattn.jax._jax_ffi, "is_offered", lambda: False)
    assert np.abs(otattn.jax.attention(x, x, x, method="sparsemax") - sparse).max() <= 1e-14
    with pytest.raises(ValueError, match=r"jax\.ffi cannot call"):
        otattn.jax.attention(x, x, x, return_aux=True)


# Of the handler : of jaxlib's header, and the fields that the handler reads.
@pytest.mark.parametrize("order", ["deepseek", "symmetric"])
@pytest.mark.parametrize("gradients", ["truncated", "implicit"])
def test_small_matrices(order: str, gradients: str, rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 2, 4, 4))
    words = {"rounds": 30, "order": order, "gradients": gradients}

    def plan(y: Any) -> Any:
        return otattn.jax.sinkhorn_normalize(y, **words)

    def loss(y: Any) -> Any:
        return jnp.sin(plan(y)).sum()

    right = otattn.sinkhorn_normalize(x, **words)
    assert (plan(x) == right).all() and (jax.jit(plan)(x) == right).all()
    assert (jax.vmap(plan, in_axes=2)(x.transpose(1, 2, 0, 3)) == right).all()
    leaf = torch.from_numpy(x).requires_grad_()
    (slope,) = torch.autograd.grad(otattn.sinkhorn_normalize(leaf, **words).sin().sum(), leaf)
    for found in (jax.grad(loss)(x), jax.jit(jax.vmap(jax.grad(loss)))(x)):
        assert np.abs(found - slope.numpy()).max() <= 1e-14
    assert jax.jacrev(plan)(x[0, 0]).shape == (4, 4, 4, 4)
    for kind in (jnp.float32, jnp.bfloat16):
        narrow = jnp.asarray(x, kind)
        assert plan(narrow).dtype == kind and jax.grad(loss)(narrow).dtype == kind
    broken = x.copy()
    broken[1, 0, 2, 2] = np.nan
    assert np.isnan(plan(broken)).any((2, 3)).sum() == 1


def test_small_matrices_that_are_refused() -> None:
    for wrong, words, kind in (
        (np.ones((2, 3)), {}, ValueError),
        (np.ones((129, 129)), {}, ValueError),
        (np.ones((4, 4), np.int64), {}, TypeError),
        (np.ones((4, 4)), {"rounds": -1}, ValueError),
        (np.ones((4, 4)), {"order": "sinkhorn"}, ValueError),
    ):
        with pytest.raises(kind):
            otattn.jax.sinkhorn_normalize(wrong, **words)


LAYOUTS = {
    "extension": ("Extension_Base", "size=struct_size type next"),
    "version": (
        "Api_Version",
        "size=struct_size extension=extension_start major=major_version minor=minor_version",
    ),
    "new_error": ("Error_Create_Args", "size=struct_size message code=errc"),
    "api": ("Api", "version=api_version internal=internal_api new_error=XLA_FFI_Error_Create"),
    "buffer": ("Buffer", "type=dtype data rank sizes=dims"),
    "buffers": ("Args", "count=size types buffers=args"),
    "text": ("ByteSpan", "data=ptr length=len"),
    "array": ("Array", "type=dtype count=size data"),
    "attributes": ("Attrs", "count=size types names values=attrs"),
    "frame": (
        "CallFrame",
        "extension=extension_start api context=ctx stage arguments=args results=rets attributes=attrs",
    ),
    "metadata": ("Metadata", "size=struct_size version=api_version traits state_type=state_type_id"),
    "metadata_extension": ("Metadata_Extension", "base=extension_base metadata"),
}
NUMBERS = {
    "XLA_METADATA": "Extension_Metadata",
    "XLA_F32": "DataType_F32",
    "XLA_F64": "DataType_F64",
    "XLA_INVALID_ARGUMENT": "Error_Code_INVALID_ARGUMENT",
    "XLA_INTERNAL": "Error_Code_INTERNAL",
}


def test_structs_are_those_of_the_header(tmp_path: Path, root: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    lines = [f'#include "{root}/python/native/jax_handler.c"', '#include "xla/ffi/api/c_api.h"']
    for ours, (theirs, fields) in LAYOUTS.items():
        for field in fields.split():
            here, _, there = field.partition("=")
            left = f"offsetof(xla_{ours}, {here})"
            right = f"offsetof(struct XLA_FFI_{theirs}, {there or here})"
            lines.append(f'_Static_assert({left} == {right}, "{ours}.{here}");')
    lines += [
        f'_Static_assert((int){here} == (int)XLA_FFI_{there}, "{here}");' for here, there in NUMBERS.items()
    ]
    source = tmp_path / "layout.c"
    source.write_text("\n".join(lines))
    folders = ["-I", str(root / "include"), "-I", str(root), "-I", str(jax.ffi.include_dir())]
    subprocess.run([compiler, "-std=c11", "-fsyntax-only", *folders, str(source)], check=True)


@pytest.mark.parametrize("more", [{"allow_partial": True}, {"axis": "columns"}, {}])
def test_gradients_from_a_start_of_the_callers(more: dict[str, Any], rng: np.random.Generator) -> None:
    """Where a backward solves again, it starts as the library does."""
    x = jnp.asarray(rng.standard_normal((1, 1, 4, 3)))
    start = {} if "axis" in more else {"start_potential": jnp.zeros(4)}

    def loss(x: Any, **start: Any) -> Any:
        return (otattn.jax.attention(x, x, x, method="softmax/exact", **more, **start) ** 2).sum()

    found, right = jax.grad(lambda x: loss(x, **start))(x), jax.grad(loss)(x)
    assert jnp.abs(found - right).max() <= 1e-3


@pytest.mark.parametrize("method", ["softmax/exact", "softmax/relaxed:0.7", "entmax:1.5"])
def test_plans_are_kept_between_calls(method: str, rng: np.random.Generator) -> None:
    """By programs in turns, on several threads, after a refusal and after what is kept was released."""
    programs = {}
    for n in (3, 5):

        @jax.jit
        def both(x: Any, t: Any) -> Any:
            run = functools.partial(otattn.jax.attention, method=method)
            out, back = jax.vjp(lambda y: run(y, y, y, temperature=t), x)
            return out, back(jnp.sin(out))[0]

        programs[n] = both

    def once(n: int, temperature: float, x: Any) -> None:
        out, gradient = programs[n](x, temperature)
        leaf = torch.from_numpy(x).requires_grad_()
        expected = otattn.attention(leaf, leaf, leaf, method=method, temperature=temperature)
        assert np.array_equal(out, expected.detach().numpy())
        (wanted,) = torch.autograd.grad(expected, leaf, expected.sin())
        assert np.abs(gradient - wanted.numpy()).max() <= 1e-12

    calls = [(int(rng.choice((3, 5))), float(rng.uniform(0.5, 2.0))) for _ in range(12)]
    for k, (n, temperature) in enumerate(calls):
        if k == 6:
            with pytest.raises(Exception, match="temperature is -1"):
                programs[n](rng.standard_normal((1, 2, n, 4)), -1.0)[0].block_until_ready()
        if k == 9:
            otattn.release_memory()
        once(n, temperature, rng.standard_normal((1, 2, n, 4)))
    inputs = [(3, 1.0, rng.standard_normal((1, 2, 3, 4))) for _ in range(24)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda given: once(*given), inputs))


@pytest.mark.parametrize("method", ["softmax/exact", "entmax:1.5/exact", "softmax/capped:2"])
def test_gradients_by_masses_of_zero(method: str) -> None:
    rng = np.random.default_rng(2)
    q, k, v, w = (rng.standard_normal((4, 3)).astype(np.float32) for _ in range(4))
    a = np.array([0.0, 0.3, 0.3, 0.4], np.float32)
    b = np.array([0.25, 0.25, 0.5, 0.0], np.float32)

    def value(rows: Any, columns: Any) -> Any:
        return (otattn.jax.attention(q, k, v, method=method, row_mass=rows, column_mass=columns) * w).sum()

    rows, columns = (torch.from_numpy(x).requires_grad_() for x in (a, b))
    given = (torch.from_numpy(x)[None, None] for x in (q, k, v))
    out = otattn.attention(*given, method=method, row_mass=rows, column_mass=columns)[0, 0]
    expected = torch.autograd.grad((out * torch.from_numpy(w)).sum(), (rows, columns))
    for found in (jax.grad(value, (0, 1))(a, b), jax.jit(jax.grad(value, (0, 1)))(a, b)):
        for one, other in zip(found, expected, strict=True):
            assert np.abs(np.asarray(one) - other.numpy()).max() <= 1e-4
