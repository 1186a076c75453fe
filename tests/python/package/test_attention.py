"""attention and coupling on NumPy arrays: against torch's own attention, plain formulas and the judge."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import numpy as np
import otattn
import pytest
import spec
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

U32, U64 = 2.0**-24, 2.0**-53
METHODS = [
    "softmax",
    "sparsemax",
    "entmax:1.5",
    "hard",
    "softmax/exact",
    "softmax/relaxed:0.5",
    "softmax/capped:1.3",
    "softmax/bounded:0.6,1.5",
    "softmax/elastic:0.5,4",
    "softmax/prefix",
    "softmax/online:1.5",
    "entmax:1.5/exact",
    "entmax:1.5/capped:1.3",
    "assignment",
]


def heads(rng: np.random.Generator, *shape: int, dtype: Any = np.float64) -> Any:
    return rng.standard_normal(shape).astype(dtype)


def bound(query: Any, key: Any, value: Any, scale: float, bias: float = 0.0) -> float:
    """Numeric policy 3.2 for f64, with the largest values of A and B."""
    b = np.abs(query) @ np.swapaxes(np.abs(key), -1, -2) * scale
    return float(U64 * np.abs(value).max() * (8 + 4 * (b.max() + bias)) * 2)


shapes = st.tuples(
    st.integers(1, 2), st.integers(1, 4), st.integers(1, 20), st.integers(1, 20), st.integers(1, 9)
)


@given(
    shapes,
    st.integers(0, 2**32),
    st.sampled_from(["none", "causal", "bool", "bool2", "float", "row"]),
    st.sampled_from([None, 0.3, 2.0]),
    st.sampled_from([4, 3, 2, 5]),
    st.booleans(),
)
def test_softmax_is_sdpa(
    shape: tuple[int, ...], seed: int, mask: str, scale: float | None, rank: int, grouped: bool
) -> None:
    batch, count, queries, keys, width = shape
    rng = np.random.default_rng(seed)
    lead = {2: (), 3: (count,), 4: (batch, count), 5: (2, batch, count)}[rank]
    key_lead = (*lead[:-1], 1) if grouped and rank > 2 else lead
    q, k, v = (
        heads(rng, *lead, queries, width),
        heads(rng, *key_lead, keys, width),
        heads(rng, *key_lead, keys, 3),
    )
    m: Any = None
    if mask == "bool":
        m = rng.random((queries, keys)) < 0.7
    elif mask == "bool2":
        m = rng.random((*lead, queries, keys)) < 0.7
    elif mask == "float":
        m = heads(rng, queries, keys)
    elif mask == "row":
        m = heads(rng, *lead, 1, keys)
    gqa = grouped and rank > 2
    out = otattn.attention(q, k, v, m, is_causal=mask == "causal", scale=scale, enable_gqa=gqa)
    expected = F.scaled_dot_product_attention(
        torch.from_numpy(q),
        torch.from_numpy(k),
        torch.from_numpy(v),
        None if m is None else torch.from_numpy(np.asarray(m)),
        is_causal=mask == "causal",
        scale=scale,
        enable_gqa=gqa,
    ).numpy()
    assert out.shape == expected.shape and out.dtype == expected.dtype
    extra = float(np.abs(m).max()) if mask in ("float", "row") else 0.0
    tolerance = bound(q.reshape(-1, width), k.reshape(-1, width), v, scale or width**-0.5, extra)
    spec.check("LIT-01 LIT-05", np.abs(out - np.nan_to_num(expected)).max(initial=0), tolerance)


@pytest.mark.parametrize("method", METHODS)
def test_coupling_and_output_belong_together(method: str, rng: np.random.Generator) -> None:
    q, k, v = heads(rng, 2, 3, 12, 5), heads(rng, 2, 3, 12, 5), heads(rng, 2, 3, 12, 4)
    request = otattn.AuxRequest(True, True, True, True, "entmax" not in method and "softmax" in method, True)
    out, aux = otattn.attention(q, k, v, method=method, return_aux=request)
    assert np.abs(aux.coupling @ v - out).max() <= 64 * U64 * np.abs(v).max()
    assert np.abs(aux.coupling.sum(-2) - aux.receiver).max() <= 64 * U64 * 12
    assert np.array_equal((aux.coupling > 0).sum(-1), aux.row_stats.support)
    assert np.abs(aux.coupling.max(-1) - aux.row_stats.maximum).max() <= 4 * U64
    assert aux.certificate.row_error <= 64 * U64 and aux.certificate.outside == 0
    assert aux.info.status == ("fixed_iters" if "elastic" in method else "ok")
    if "softmax" in method and method not in ("softmax/prefix", "softmax/online:1.5"):
        scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(5)
        f, g = aux.potentials
        weights = np.exp(scores + f[..., :, None] + g[..., None, :])
        assert np.abs(weights - aux.coupling).max() <= 256 * U64
    if aux.certificate.dual == aux.certificate.dual:
        assert abs(aux.certificate.gap) <= 1e-8 * 72


def test_known_plans() -> None:
    scores = np.array([[3.0, 1.0], [2.0, 0.0]])
    # Both matchings cost the same here, so any doubly stochastic plan of entropy is the uniform one.
    plan = otattn.coupling(scores, method="softmax/exact", tolerance=1e-14)
    assert np.abs(plan - 0.5).max() <= 1e-13
    assert np.array_equal(otattn.coupling(scores, method="hard"), [[1, 0], [1, 0]])
    sparse = otattn.coupling(np.array([[1.0, 0.9, -5.0]]), method="sparsemax")
    spec.check("LIT-10", np.abs(sparse - [[0.55, 0.45, 0.0]]).max(), 4 * U64)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("method", ["softmax", "entmax:1.5", "softmax/exact"])
def test_types(dtype: str, method: str, rng: np.random.Generator) -> None:
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    unit = {"float64": U64, "float32": U32, "float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]
    q, k, v = (heads(rng, 1, 2, 9, 8).astype(kind) for _ in range(3))
    out, aux = otattn.attention(q, k, v, method=method, tolerance=1e-6, return_aux=True)
    wide = otattn.attention(*(x.astype(np.float64) for x in (q, k, v)), method=method, tolerance=1e-9)
    assert out.dtype == kind and aux.receiver.dtype == (np.float64 if dtype == "float64" else np.float32)
    slack = 2e-6 * 9 if "exact" in method else 0.0
    assert np.abs(out.astype(np.float64) - wide).max() <= np.abs(wide).max() * 64 * unit + slack


def test_strides_are_read_in_place(rng: np.random.Generator) -> None:
    base = heads(rng, 2, 7, 3, 2 * 8)
    q = base.transpose(0, 2, 1, 3)[:, :, ::-1, ::2]
    plain = np.ascontiguousarray(q)
    assert np.array_equal(otattn.attention(q, q, q), otattn.attention(plain, plain, plain))
    one = np.broadcast_to(plain[:1, :1], plain.shape)
    assert np.array_equal(otattn.attention(plain, one, one), otattn.attention(plain, one.copy(), one.copy()))
    swapped = plain.astype(">f8")
    assert np.array_equal(otattn.attention(swapped, swapped, swapped), otattn.attention(plain, plain, plain))
    packed = np.zeros(plain.size, dtype=[("a", "i1"), ("x", "f8")])["x"].reshape(plain.shape)
    packed[...] = plain
    assert np.array_equal(otattn.attention(packed, packed, packed), otattn.attention(plain, plain, plain))


def test_inputs_are_not_copied() -> None:
    code = """
import numpy as np, resource, otattn
x = np.ones((1, 1, 1 << 20, 16), np.float32)
q = np.ones((1, 1, 1, 16), np.float32)
otattn.attention(q, x[:, :, :64], x[:, :, :64])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
otattn._arrays.triple(q, x, x)
view = otattn._arrays.view_of(x[:, :, ::2])
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert view[0] == x.ctypes.data and after - before < 1024, after - before
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_term(rng: np.random.Generator) -> None:
    n, m, count = 6, 8, 4
    q, k, v = heads(rng, 2, count, n, 5), heads(rng, 2, count, m, 5), heads(rng, 2, count, m, 3)
    slopes, relative = otattn.alibi_slopes(count), heads(rng, count, n + m - 1)
    temperature, sink = np.array([0.5, 1.0, 2.0, 3.0]), heads(rng, count)
    bias, lengths = heads(rng, 2, 1, n, m), np.array([5, 8])
    out, aux = otattn.attention(
        q,
        k,
        v,
        bias=bias,
        alibi_slopes=slopes,
        relative_bias=relative,
        softcap=1.5,
        temperature=temperature,
        sink=sink,
        window=(3, 2),
        key_lengths=lengths,
        causal_align="bottom_right",
        return_aux=otattn.AuxRequest(coupling=True, row_stats=True, lse=True),
    )
    i, j = np.arange(n)[:, None], np.arange(m)[None, :]
    scores = 1.5 * np.tanh(q @ np.swapaxes(k, -1, -2) / np.sqrt(5) / 1.5) + bias
    scores -= slopes[:, None, None] * np.abs(i + m - n - j)
    scores += relative[:, (i - j + m - 1)]
    allowed = (j >= i + m - n - 3) & (j <= i + m - n + 2) & (j < lengths[:, None, None, None])
    scores = np.where(allowed, scores, -np.inf) / temperature[:, None, None]
    logits = np.concatenate(
        [scores, np.broadcast_to((sink / temperature)[:, None, None], (2, count, n, 1))], -1
    )
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    spec.check("LIT-12 TOT-50", np.abs(aux.coupling - weights[..., :-1]).max(), 256 * U64)
    assert np.abs(aux.row_stats.sink - weights[..., -1]).max() <= 256 * U64
    assert np.abs(out - weights[..., :-1] @ v).max() <= 256 * U64 * np.abs(v).max()


def test_masses_and_parameters(rng: np.random.Generator) -> None:
    q, v = heads(rng, 2, 2, 5, 4), heads(rng, 2, 2, 5, 3)
    row, column = rng.random((2, 1, 5)) + 0.5, rng.random(5) + 0.5
    column *= row.sum(-1)[0, 0] / column.sum()
    row *= column.sum() / row.sum(-1, keepdims=True)
    request = otattn.AuxRequest(coupling=True)
    _, aux = otattn.attention(
        q, q, v, method="softmax/exact", row_mass=row, column_mass=column, return_aux=request, tolerance=1e-12
    )
    assert np.abs(aux.coupling.sum(-1) - row).max() <= 1e-11
    spec.check("ELA-13", np.abs(aux.coupling.sum(-2) - column).max(), 1e-11)
    named = otattn.attention(q, q, v, method="entmax", alpha=1.7)
    assert np.array_equal(named, otattn.attention(q, q, v, method="entmax:1.7"))
    assert np.array_equal(
        otattn.attention(q, q, v, method="softmax/capped:9", cap=1.2),
        otattn.attention(q, q, v, method="capped:1.2"),
    )
    assert np.array_equal(
        otattn.attention(q, q, v, method="relaxed:9", strength=0.3),
        otattn.attention(q, q, v, method="relaxed:0.3"),
    )
    assert np.array_equal(
        otattn.attention(q, q, v, method="bounded:0.2,9", lower=0.8, upper=1.3),
        otattn.attention(q, q, v, method="bounded:0.8,1.3"),
    )
    assert np.array_equal(
        otattn.attention(q, q, v, method="bounded:0.8,1.3", lower=0.0),
        otattn.attention(q, q, v, method="bounded:0,1.3"),
    )
    assert np.array_equal(otattn.attention(q, q, v, method="ceta", rounds=0), otattn.attention(q, q, v))


def test_masked_rows_and_dirt_behind_masks(rng: np.random.Generator) -> None:
    q = heads(rng, 1, 1, 4, 3)
    mask = np.ones((4, 4), bool)
    mask[2] = False
    mask[:, 3] = False
    dirty = q.copy()
    dirty[..., 3, :] = np.nan
    out, aux = otattn.attention(q, dirty, dirty, mask, return_aux=True)
    assert np.isfinite(out).all() and (out[0, 0, 2] == 0).all()
    assert aux.info.empty_rows == 1 and aux.lse[0, 0, 2] == -np.inf
    with pytest.warns(otattn.NotFiniteWarning):
        assert np.isnan(otattn.attention(q, dirty, dirty)).all()
    with pytest.raises(otattn.NotFinite):
        otattn.attention(q, dirty, dirty, method="softmax/exact")
    with pytest.raises(otattn.NotFinite):
        otattn.attention(q, dirty, dirty, strict=True)


MASKED = (
    "softmax/exact",
    "softmax/relaxed:1",
    "softmax/capped:2",
    "softmax/bounded:0.5,2",
    "softmax/elastic:0.5,4",
    "entmax:1.5/exact",
    "entmax:1.5/capped:2",
    "hard/exact",
)


def patterned(size: int) -> Any:
    """Pairs all of which lie on a plan."""
    own = np.eye(size, dtype=bool)
    return own | np.roll(own, 1, 1) | np.roll(own, 3, 1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", MASKED)
def test_numbers_that_stand_for_forbidden(method: str, dtype: str, rng: np.random.Generator) -> None:
    q, k, v = (heads(rng, 1, 2, 6, 4, dtype=dtype) for _ in range(3))
    tolerance = 1e-5 if dtype == "float32" else 1e-9
    least = float(np.finfo(dtype).min)
    for allowed, values in (
        (patterned(6), (least, least / 2, -1e30, -1e9, -1e6)),
        (np.arange(6) < np.full((6, 1), 4), (least, least / 2)),
    ):
        P = otattn.coupling(q @ k.swapaxes(-1, -2), attn_mask=allowed, method=method)
        out = otattn.attention(q, k, v, allowed, method=method)
        for value in values:
            mask = np.where(allowed, 0, value).astype(dtype)
            given = {"attn_mask": mask, "method": method}
            assert abs(otattn.coupling(q @ k.swapaxes(-1, -2), **given) - P).max() <= 64 * tolerance
            for as_torch in (False, True):
                x = [torch.tensor(a) if as_torch else a for a in (q, k, v, mask)]
                for arguments in ({"attn_mask": x[3]}, {"bias": x[3]}):
                    found = np.asarray(otattn.attention(*x[:3], **arguments, method=method))
                    assert abs(found - out).max() <= 64 * tolerance * abs(v).max()
    causal = np.triu(np.full((6, 6), least, dtype), 1)
    if method == "softmax/exact":
        with pytest.raises(otattn.Infeasible):
            otattn.attention(q, k, v, causal, method=method)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("method", [m for m in MASKED if not m.startswith("hard")])
def test_gradients_under_numbers_that_stand_for_forbidden(method: str, dtype: torch.dtype) -> None:
    torch.manual_seed(3)
    given = [torch.randn(1, 2, 6, 4, dtype=dtype) for _ in range(4)]
    allowed = torch.tensor(patterned(6))
    tolerance = 1e-5 if dtype == torch.float32 else 1e-9

    def gradients(mask: torch.Tensor) -> list[torch.Tensor]:
        x = [a.clone().requires_grad_() for a in given[:3]]
        (otattn.attention(*x, mask, method=method) * given[3]).sum().backward()
        return [a.grad for a in x if a.grad is not None]

    right = gradients(allowed)
    for value in (torch.finfo(dtype).min, -1e30, -1e9, -1e6):
        mask = torch.zeros(6, 6, dtype=dtype).masked_fill(~allowed, value)
        for a, b in zip(right, gradients(mask), strict=True):
            assert (a - b).abs().max() <= 256 * tolerance * a.abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_key_of_numbers_that_must_be_filled(dtype: torch.dtype) -> None:
    """Exact columns fill it as if there were no mask, and a warning says so."""
    torch.manual_seed(4)
    given = [torch.randn(1, 2, 6, 4, dtype=dtype) for _ in range(4)]
    tolerance = 1e-5 if dtype == torch.float32 else 1e-9

    def gradients(mask: torch.Tensor | None) -> list[torch.Tensor]:
        x = [a.clone().requires_grad_() for a in given[:3]]
        out = otattn.attention(*x, mask, method="softmax/exact")
        (out * given[3]).sum().backward()
        return [out.detach(), *(a.grad for a in x if a.grad is not None)]

    right = gradients(None)
    for value in (-1e4, -1e6, -1e9):
        mask = torch.zeros(6, dtype=dtype)
        mask[4:] = value
        with pytest.warns(UserWarning, match="a number is no prohibition"):
            found = gradients(mask)
        rounding = -value * torch.finfo(torch.float64).eps
        for a, b in zip(right, found, strict=True):
            assert (a - b).abs().max() <= (256 * tolerance + 16 * rounding) * a.abs().max()
    # Nothing of the scores is left beside -1e30, so nothing can be told of their derivative.
    mask[4:] = -1e30
    x = given[0].clone().requires_grad_()
    with pytest.warns(UserWarning, match="a number is no prohibition"):
        out = otattn.attention(x, *given[1:3], mask, method="softmax/exact")
    with pytest.raises(otattn.NotConverged, match="potentials do not hold the plan"):
        out.sum().backward()
    with pytest.raises(otattn.NotConverged, match="potentials do not hold the plan"):
        torch.func.jvp(
            lambda q: otattn.attention(q, *given[1:3], mask, method="softmax/exact"), (given[0],), (given[3],)
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("block", [1, 3])
def test_gradients_where_numbers_leave_blocks(dtype: torch.dtype, block: int) -> None:
    """What no plan uses is left out, and the potentials say so to backward."""
    torch.manual_seed(5)
    scores, upstream = (torch.randn(6, 6, dtype=dtype) for _ in range(2))
    place = torch.arange(6) // block
    tolerance = 1e-5 if dtype == torch.float32 else 1e-9

    def found(mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = scores.clone().requires_grad_()
        P = otattn.coupling(x, attn_mask=mask, method="softmax/exact")
        (P * upstream).sum().backward()
        assert x.grad is not None
        return P.detach(), x.grad

    right = found(place[:, None] == place[None])
    for value in (-1e9, -1e30):
        mask = torch.zeros(6, 6, dtype=dtype).masked_fill(place[None] > place[:, None], value)
        for a, b in zip(right, found(mask), strict=True):
            assert (a - b).abs().max() <= 256 * tolerance


def test_a_sink_of_minus_infinity_is_none(rng: np.random.Generator) -> None:
    q, k, v = (heads(rng, 2, 3, 5, 4) for _ in range(3))
    none = np.full(3, -np.inf)
    for method in (
        "softmax",
        "entmax:1.5",
        "hard",
        "softmax/capped:2",
        "softmax/online:2",
        "softmax/prefix",
        "softmax/exact",
        "softmax/elastic:0.5,4",
    ):
        out = otattn.attention(q, k, v, method=method)
        for sink in (-np.inf, none):
            assert abs(otattn.attention(q, k, v, method=method, sink=sink) - out).max() <= 1e-8
    some = otattn.attention(q, k, v, sink=np.array([-np.inf, 0.5, -np.inf]))
    assert (some[:, ::2] == otattn.attention(q, k, v)[:, ::2]).all()
    assert (some[:, 1] == otattn.attention(q, k, v, sink=0.5)[:, 1]).all()
    x = [torch.tensor(a, requires_grad=True) for a in (q, k, v, none)]
    otattn.attention(*x[:3], sink=x[3]).sum().backward()
    y = [torch.tensor(a, requires_grad=True) for a in (q, k, v)]
    otattn.attention(*y).sum().backward()
    assert x[3].grad is not None and not x[3].grad.any()
    for a, b in zip(x[:3], y, strict=True):
        assert a.grad is not None and b.grad is not None and (a.grad - b.grad).abs().max() <= 1e-14
    mask = np.zeros((5, 5), bool)
    assert not otattn.attention(q, k, v, mask, sink=-np.inf).any()
    with pytest.raises(ValueError, match="sink"):
        otattn.attention(q, k, v, sink=np.inf)


def test_not_converged_carries_the_certificate(rng: np.random.Generator) -> None:
    q = heads(rng, 1, 2, 9, 4)
    few = {"method": "softmax/exact", "max_rounds": 2, "tolerance": 1e-12, "solver": "sinkhorn"}
    with pytest.raises(otattn.NotConverged, match="max_rounds") as caught:
        otattn.attention(q, q, q, **few)
    assert caught.value.certificate is not None and caught.value.advice
    with pytest.warns(otattn.PartialWarning):
        _, aux = otattn.attention(q, q, q, **few, allow_partial=True, return_aux=True)
    assert aux.info.status == "partial"
    assert abs(aux.certificate.column_error - caught.value.certificate.column_error) <= 1e-12
    assert aux.certificate.column_error > 1e-6


def test_infeasible_says_what_to_do(rng: np.random.Generator) -> None:
    q = heads(rng, 1, 1, 5, 4)
    with pytest.raises(otattn.Infeasible, match="identity") as caught:
        otattn.attention(q, q, q, method="softmax/exact", is_causal=True)
    assert "relaxed" in caught.value.advice and caught.value.certificate is not None
    out = otattn.attention(q, q, q, method="softmax/exact", is_causal=True, prune=True)
    assert np.abs(out - q).max() <= 1e-12


GOOD = np.ones((1, 2, 5, 4))
REFUSED: list[tuple[type[Exception], str, dict[str, Any]]] = [
    (ValueError, r"query has shape \(4,\)", {"query": np.ones(4)}),
    (ValueError, r"key has width 3 in shape \(1, 2, 5, 3\)", {"key": np.ones((1, 2, 5, 3))}),
    (ValueError, r"value has 6 rows in shape \(1, 2, 6, 4\)", {"value": np.ones((1, 2, 6, 4))}),
    (TypeError, "key has type float32, but query has float64", {"key": GOOD.astype(np.float32)}),
    (TypeError, r"query has type int64 and shape \(1, 2, 5, 4\)", {"query": GOOD.astype(np.int64)}),
    (ValueError, r"attn_mask has shape \(1, 1, 4, 5\)", {"attn_mask": np.ones((4, 5), bool)}),
    (TypeError, "attn_mask has type int64", {"attn_mask": np.ones((5, 5), np.int64)}),
    (ValueError, "enable_gqa", {"query": np.ones((1, 4, 5, 4))}),
    (ValueError, "multiple", {"query": np.ones((1, 3, 5, 4)), "enable_gqa": True}),
    (
        ValueError,
        r"batch dimensions of query \(2, 2, 5, 4\), key",
        {"query": np.ones((2, 2, 5, 4)), "key": np.ones((3, 2, 5, 4))},
    ),
    (ValueError, "dropout_seed is -1", {"dropout_p": 0.5, "dropout_seed": -1}),
    (ValueError, "dropout_p is 1.5", {"dropout_p": 1.5}),
    (ValueError, "method", {"method": "softmaxx"}),
    (TypeError, "method is a int", {"method": 3}),
    (ValueError, "temperature is 0.0", {"temperature": 0.0}),
    (ValueError, "temperature is NaN", {"temperature": float("nan")}),
    (ValueError, r"temperature has shape \(3,\)", {"temperature": np.ones(3)}),
    (ValueError, "alpha is given, but the method 'softmax' has none", {"alpha": 1.5}),
    (ValueError, "cap is 0.0", {"cap": 0.0, "method": "capped:1"}),
    (ValueError, "lower is -0.5, wanted 0 or more", {"lower": -0.5, "method": "bounded:0,1"}),
    (ValueError, "lower is given, but the method 'capped:1' has none", {"lower": 0.5, "method": "capped:1"}),
    (ValueError, "upper is given, but the method 'softmax' has none", {"upper": 1.5}),
    (ValueError, r"upper has shape \(2,\)", {"upper": np.ones(2), "method": "bounded:0,1"}),
    (ValueError, "lower is 2, wanted 0 <= it <= 1", {"lower": 2.0, "method": "bounded:0,1"}),
    (ValueError, "tolerance is -1.0", {"tolerance": -1.0}),
    (ValueError, "rounds is -1", {"rounds": -1}),
    (ValueError, "window", {"window": (1, 2, 3)}),
    (ValueError, "causal_align", {"causal_align": "left"}),
    (ValueError, "rows is 'soft'", {"rows": "soft"}),
    (ValueError, r"row_mass has shape \(4,\)", {"row_mass": np.ones(4), "method": "ceta"}),
    (ValueError, "column_mass", {"column_mass": np.ones(5)}),
    (ValueError, "solver", {"solver": "magic"}),
    (TypeError, "return_aux is a int", {"return_aux": 3}),
    (ValueError, r"key_lengths has type int64 and shape \(3,\)", {"key_lengths": np.ones(3, np.int64)}),
    (ValueError, "relative_bias", {"relative_bias": np.ones(5)}),
]


@pytest.mark.parametrize(("kind", "text", "arguments"), REFUSED)
def test_refusals_name_the_argument(kind: type[Exception], text: str, arguments: dict[str, Any]) -> None:
    whole = {"query": GOOD, "key": GOOD, "value": GOOD} | arguments
    with pytest.raises(kind, match=text):
        otattn.attention(**whole)


def test_zero_sizes() -> None:
    for shape in ((0, 2, 5, 4), (1, 0, 5, 4), (1, 2, 0, 4), (1, 2, 5, 0)):
        x = np.ones(shape)
        assert otattn.attention(x, x, x).shape == shape
    empty = otattn.attention(np.ones((1, 1, 3, 2)), np.ones((1, 1, 0, 2)), np.ones((1, 1, 0, 2)))
    assert (empty == 0).all()


def test_plan_reuses_its_memory(rng: np.random.Generator) -> None:
    q, k, v = heads(rng, 1, 2, 9, 4), heads(rng, 1, 2, 9, 4), heads(rng, 1, 2, 9, 3)
    plan = otattn.Plan(q, k, v, method="softmax/exact", gradients=True, tolerance=1e-13)
    held = plan.bytes
    for _ in range(3):
        q, k, v = heads(rng, 1, 2, 9, 4), heads(rng, 1, 2, 9, 4), heads(rng, 1, 2, 9, 3)
        out = plan.forward(q, k, v)
        assert np.array_equal(out, otattn.attention(q, k, v, method="softmax/exact", tolerance=1e-13))
    assert plan.bytes == held and plan.solver in plan.describe() and plan.kernel in otattn.kernels()
    weight = heads(rng, 1, 2, 9, 3)
    found = plan.backward(weight)
    step = 1e-5 * heads(rng, *q.shape)
    change = (plan.forward(q + step, k, v) - plan.forward(q - step, k, v)) / 2
    assert (
        abs((found["query"] * step).sum() - (weight * change).sum())
        <= 1e-8 * np.abs(found["query"] * step).sum()
    )
    plan.forward(q, k, v)
    for others in ((q[:, :, :5], k, v), [x.astype(np.float32) for x in (q, k, v)]):
        with pytest.raises(ValueError, match="not those the plan was made for"):
            plan.forward(*others)
        # What is refused changes nothing.
        again = plan.backward(weight)
        assert all(np.array_equal(again[name], found[name]) for name in found)
    with pytest.raises(ValueError, match="gradients is False"):
        otattn.Plan(q, k, v).backward(weight)
    with pytest.raises(ValueError, match="no forward"):
        otattn.Plan(q, k, v, gradients=True).backward(weight)
    hard = otattn.Plan(q, k, v, method="hard", gradients=True)
    hard.forward(q, k, v)
    with pytest.raises(otattn.NotDifferentiable):
        hard.backward(weight)


def test_plans_hold_what_they_copy_and_shapes_of_one(rng: np.random.Generator) -> None:
    q, k, v = heads(rng, 2, 3, 2, 5, 4), heads(rng, 1, 3, 2, 6, 4), heads(rng, 1, 3, 2, 6, 3)
    plan = otattn.Plan(q, k, v, gradients=True)
    assert np.array_equal(plan.forward(q, k, v), otattn.attention(q, k, v))
    found = plan.backward(heads(rng, 2, 3, 2, 5, 3))
    assert [x.shape for x in found.values()] == [(6, 2, 5, 4), (6, 2, 6, 4), (6, 2, 6, 3)]
    one = np.ones((1, 1, 1, 1))
    plan = otattn.Plan(one, one, one, gradients=True)
    plan.forward(one, one, one)
    found = plan.backward(one, wrt=("query", "value", "temperature"))
    assert [np.shape(x) for x in found.values()] == [one.shape, one.shape, ()]


@pytest.mark.parametrize("layout", ["record", "swapped", "list", "narrow"])
def test_directions_of_any_layout(layout: str, rng: np.random.Generator) -> None:
    x = heads(rng, 1, 2, 5, 3)
    plan = otattn.Plan(x, x, x, method="softmax/exact", gradients=True)
    plan.forward(x, x, x)
    # Numbers that f32 has.
    right = heads(rng, 1, 2, 5, 3).astype(np.float32).astype(np.float64)
    record = np.zeros(x.shape, [("a", "f8"), ("b", "f4")])
    record["a"] = right
    given = {
        "record": record["a"],
        "swapped": right.astype(right.dtype.newbyteorder()),
        "list": right.tolist(),
        "narrow": right.astype(np.float32),
    }[layout]
    expected = plan.backward(right)
    assert all(np.array_equal(g, expected[name]) for name, g in plan.backward(given).items())
    assert np.array_equal(plan.jvp({"query": given}), plan.jvp({"query": right}))
    with pytest.raises(TypeError, match="out_grad has type int64"):
        plan.backward(np.ones(x.shape, np.int64))


def test_eight_threads_at_once(rng: np.random.Generator) -> None:
    cases = [(method, heads(rng, 1, 2, 16 + k, 8)) for k, method in enumerate(METHODS[:8])]
    expected = [otattn.attention(x, x, x, method=method) for method, x in cases]
    failures: list[str] = []

    def work() -> None:
        for _ in range(5):
            for (method, x), right in zip(cases, expected, strict=True):
                if not np.array_equal(otattn.attention(x, x, x, method=method), right):
                    failures.append(method)

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


def test_same_bits_for_any_thread_count(rng: np.random.Generator) -> None:
    x = heads(rng, 1, 2, 80, 8)
    found = []
    for count in (1, 2, 3):
        with otattn.threads(count):
            assert otattn.get_num_threads() == count
            found.append(otattn.attention(x, x, x, method="softmax/capped:1.2"))
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


def test_dlpack_and_lists() -> None:
    class Lent:
        """An array of another library: only DLPack."""

        def __init__(self, x: Any) -> None:
            self.x = x

        def __dlpack__(self, **arguments: Any) -> Any:
            return self.x.__dlpack__(**arguments)

        def __dlpack_device__(self) -> Any:
            return self.x.__dlpack_device__()

    x = np.arange(12.0).reshape(4, 3) / 12
    assert np.array_equal(otattn.attention(Lent(x), Lent(x), Lent(x)), otattn.attention(x, x, x))
    assert np.array_equal(otattn.attention(x.tolist(), x.tolist(), x.tolist()), otattn.attention(x, x, x))


def test_forked_children_compute() -> None:
    code = """
import os, sys, numpy as np, otattn
x = np.random.default_rng(0).standard_normal((2, 4, 64, 8))
otattn.set_num_threads(2)
right = otattn.attention(x, x, x, method="softmax/exact")
for turn in range(20):
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(otattn.attention(x, x, x, method="softmax/exact"), right) else 1)
    assert os.waitpid(child, 0)[1] == 0
assert np.array_equal(otattn.attention(x, x, x, method="softmax/exact"), right)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize(
    "method", ["softmax/prefix", "entmax:1.5/prefix", "entmax:2.5/prefix", "entmax:1.5/prefix{entry_cap=0.9}"]
)
def test_prefix_gradients_of_masses_forced_onto_masked_pairs(method: str, rng: np.random.Generator) -> None:
    """Mass that has no other place than numbers has the gradients of any numbers that are low enough."""
    asked = torch.tensor(
        [[1, 1, 0, 0, 0, 0], [1, 1, 0, 1, 0, 0], [0, 1, 0, 1, 0, 0], [0, 1, 1, 0, 0, 0]], dtype=torch.float64
    )
    allowed = 1 - asked
    given = torch.from_numpy(rng.normal(size=(4, 6))) * allowed
    change, weights = (torch.from_numpy(rng.normal(size=(4, 6))) for _ in range(2))

    def plan_of(scores: torch.Tensor, heat: torch.Tensor, low: float) -> torch.Tensor:
        return otattn.coupling(scores + low * asked, method=method, temperature=heat)

    def derivatives(low: float) -> list[torch.Tensor]:
        scores, heat = (
            given.clone().requires_grad_(),
            torch.tensor(1.0, dtype=torch.float64, requires_grad=True),
        )
        plan = plan_of(scores, heat, low)
        slopes = torch.autograd.grad((plan * weights).sum(), (scores, heat))
        moved = torch.func.jvp(
            lambda x, t: plan_of(x, t, low), (given, heat.detach()), (change, torch.ones_like(heat))
        )
        return [plan.detach(), *slopes, *moved]

    near = derivatives(-300.0)
    for low in (-1e8, -1e9, -1e30):
        for found, wanted in zip(derivatives(low), near, strict=True):
            torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)


def test_values_that_prefix_columns_hide_reach_no_tangent(rng: np.random.Generator) -> None:
    """Key 3 lies beyond the prefixes of the rows before it, whatever its value."""
    x, values = (
        torch.from_numpy(rng.normal(size=(1, 1, 4, 3))),
        torch.from_numpy(rng.normal(size=(1, 1, 4, 2))),
    )
    values[0, 0, 3, 0] = torch.nan

    def run(q: torch.Tensor) -> torch.Tensor:
        return otattn.attention(q, x, values, method="softmax/prefix", nonfinite="nan")

    for found in torch.func.jvp(run, (x,), (torch.ones_like(x),)):
        assert torch.equal(found.isnan()[0, 0].any(-1), torch.tensor([False, False, False, True]))
