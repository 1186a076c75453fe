"""torch tensors: derivatives by finite differences, the operators' own checks, compile, vmap, torch.func."""

from __future__ import annotations

import contextlib
import functools
import io
import warnings
from typing import Any

import numpy as np
import otattn
import otattn.nn
import pytest
import torch
import torch.nn.functional as F
from otattn import _torch as operators
from otattn._settings import DIFFERENTIABLE, EXTRA
from otattn._spec_text import text_of
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import gradcheck
from torch.fx.experimental.proxy_tensor import make_fx
from torch.library import opcheck

METHODS = [
    "softmax",
    "entmax:1.5",
    "softmax/exact",
    "softmax/relaxed:0.5",
    "softmax/capped:1.3",
    "softmax/bounded:0.6,1.5",
    "softmax/elastic:0.5,4",
    "softmax/prefix",
    "softmax/online:1.5",
    "ceta{rounds=3}",
    "entmax:1.5/exact",
    "entmax:1.5/capped:1.3",
]
COUPLED = [
    m for m in METHODS if any(word in m for word in ("exact", "relaxed", "capped", "bounded", "elastic"))
]
CHECK = {"eps": 1e-5, "atol": 1e-7, "rtol": 1e-5}
TIGHT = 1e-13


def tensors(count: int, *shape: int, seed: int = 0, grad: bool = True) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_(grad)
        for _ in range(count)
    ]


@pytest.mark.parametrize("method", METHODS)
def test_gradients_of_query_key_value(method: str) -> None:
    q, k, v = tensors(3, 1, 2, 5, 3)
    assert gradcheck(lambda *x: otattn.attention(*x, method=method, tolerance=TIGHT), (q, k, v), **CHECK)


@pytest.mark.parametrize("method", METHODS)
def test_gradients_of_coupling_and_receiver(method: str) -> None:
    (scores,) = tensors(1, 2, 4, 5)

    def both(x: torch.Tensor) -> Any:
        request = otattn.AuxRequest(receiver=True)
        plan, aux = otattn.coupling(x, method=method, tolerance=TIGHT, return_aux=request)
        return plan, aux.receiver

    assert gradcheck(both, (scores,), **CHECK)


def number(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


PARAMETERS: list[tuple[str, str, torch.Tensor]] = [
    *((method, "temperature", number(0.8)) for method in METHODS),
    ("softmax", "temperature", torch.tensor([0.8, 1.3], dtype=torch.float64, requires_grad=True)),
    ("entmax:1.5", "alpha", number(1.6)),
    ("entmax:1.5/exact", "alpha", number(1.6)),
    ("softmax/capped:2", "cap", number(1.2)),
    ("softmax/online:2", "cap", number(1.4)),
    ("softmax/relaxed:2", "strength", number(0.7)),
    ("softmax/elastic:0.5,3", "strength", number(0.6)),
    ("softmax/bounded:0.5,2", "lower", number(0.9)),
    ("softmax/bounded:0.5,2", "upper", number(1.1)),
    ("entmax:1.5/bounded:0.5,2", "upper", number(1.1)),
    ("softmax", "sink", number(0.3)),
    ("entmax:1.5", "sink", torch.tensor([0.3, -0.2], dtype=torch.float64, requires_grad=True)),
    ("softmax/relaxed:2", "alibi_slopes", torch.tensor([0.3, 0.1], dtype=torch.float64, requires_grad=True)),
    ("softmax", "relative_bias", torch.linspace(-1, 1, 9, dtype=torch.float64).requires_grad_()),
    ("softmax/relaxed:2", "row_mass", torch.linspace(0.5, 1.5, 5, dtype=torch.float64).requires_grad_()),
    ("softmax/relaxed:2", "column_mass", torch.linspace(0.5, 1.5, 5, dtype=torch.float64).requires_grad_()),
    ("softmax/exact", "bias", torch.linspace(-1, 1, 25, dtype=torch.float64).reshape(5, 5).requires_grad_()),
    ("softmax", "attn_mask", torch.linspace(-1, 1, 5, dtype=torch.float64).reshape(1, 5).requires_grad_()),
]


@pytest.mark.parametrize(("method", "name", "parameter"), PARAMETERS)
def test_gradients_of_parameters(method: str, name: str, parameter: torch.Tensor) -> None:
    q, k, v = tensors(3, 1, 2, 5, 3, grad=False)

    def call(x: torch.Tensor) -> Any:
        return otattn.attention(q, k, v, method=method, tolerance=TIGHT, **{name: x})

    assert gradcheck(call, (parameter,), **CHECK)


def test_softmax_and_its_gradients_are_those_of_sdpa() -> None:
    for seed in range(8):
        causal = seed % 2 == 1
        found, expected = [], []
        for call, to in ((otattn.attention, found), (F.scaled_dot_product_attention, expected)):
            q, k, v = tensors(3, 2, 4, 9, 8, seed=seed)
            key, value = k[:, :2], v[:, :2]
            out = call(q, key, value, is_causal=causal, enable_gqa=True)  # type: ignore[operator]
            (out * torch.linspace(-1, 1, 8, dtype=torch.float64)).sum().backward()
            to += [out.detach(), q.grad, k.grad, v.grad]
        for a, b in zip(found, expected, strict=True):
            assert (a - b).abs().max() <= 1e-14 * b.abs().max() * 64


def test_masked_rows_have_zero_gradients() -> None:
    q, k, v = tensors(3, 1, 1, 4, 3)
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[1] = False
    out = otattn.attention(q, k, v, mask, method="entmax:1.5")
    out.sum().backward()
    assert (out[0, 0, 1] == 0).all() and (q.grad[0, 0, 1] == 0).all()  # type: ignore[index]


def operands(method: str, parameter: bool) -> tuple[Any, ...]:
    q, k, v = tensors(3, 1, 2, 4, 3)
    rest: list[Any] = [None] * EXTRA
    if parameter:
        rest[5] = number(0.9)
    return (q, k, v, *rest, text_of(otattn.Spec(method, tolerance=TIGHT)), "out,coupling,saved")


@pytest.mark.parametrize("method", METHODS)
def test_opcheck(method: str) -> None:
    assert operators
    for parameter in (False, True):
        opcheck(torch.ops.otattn.solve.default, operands(method, parameter))


@pytest.mark.parametrize("method", ["softmax", "softmax/exact"])
def test_opcheck_of_the_gradients(method: str) -> None:
    *arrays, text, _ = operands(method, False)
    plain = [x.detach() if isinstance(x, torch.Tensor) else x for x in arrays]
    arguments = (*plain, torch.ones(1, 2, 4, 3, dtype=torch.float64), *[None] * 4, text, "query,key,value")
    opcheck(torch.ops.otattn.gradients.default, arguments)
    tangents = [torch.ones_like(x) for x in plain[:3]] + [None] * (len(DIFFERENTIABLE) - 3)
    opcheck(torch.ops.otattn.tangents.default, (*plain, *tangents, text, "out,coupling"))


@pytest.mark.parametrize("method", ["softmax", "softmax/exact", "entmax:1.5"])
def test_compile_in_one_graph(method: str) -> None:
    q, k, v = tensors(3, 1, 2, 6, 4)
    temperature = number(0.9)

    def layer(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        request = otattn.AuxRequest(receiver=True)
        out, aux = otattn.attention(
            q, k, v, method=method, temperature=t, tolerance=1e-12, return_aux=request
        )
        receiver: torch.Tensor = aux.receiver
        result: torch.Tensor = out.sin().sum() + receiver.square().sum()
        return result

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = torch.autograd.grad(compiled(q, k, v, temperature), (q, k, v, temperature))
    expected = torch.autograd.grad(layer(q, k, v, temperature), (q, k, v, temperature))
    for a, b in zip(found, expected, strict=True):
        assert (a - b).abs().max() <= 1e-12


_MOVING: dict[str, Any] = {
    "scale": lambda x, s: otattn.attention(x, x, x, scale=s),
    "temperature": lambda x, s: otattn.attention(x, x, x, temperature=s, method="softmax/exact"),
    "cap": lambda x, s: otattn.attention(x, x, x, cap=1.0 + s, method="softmax/capped:2"),
    "softcap": lambda x, s: otattn.attention(x, x, x, softcap=s, sink=s),
    "dropout": lambda x, s: otattn.attention(x, x, x, dropout_p=0.1 * s, dropout_seed=3),
    "window": lambda x, s: otattn.attention(x, x, x, window=(int(4 * s), 1)),
    "sizes": lambda x, s: otattn.attention(*3 * [x[:, :, : int(4 * s)]], method="softmax/relaxed:1"),
}


@pytest.mark.parametrize("name", _MOVING)
def test_compile_with_numbers_that_change(name: str) -> None:
    (x,) = tensors(1, 1, 2, 8, 3, grad=True)
    torch._dynamo.reset()
    made = []

    def backend(graph: Any, inputs: Any) -> Any:
        made.append(graph)
        return graph.forward

    compiled = torch.compile(_MOVING[name], fullgraph=True, backend=backend)
    for number in (0.5, 0.75, 1.0, 1.25, 1.5, 1.75):
        found, right = compiled(x, number), _MOVING[name](x, number)
        assert torch.equal(found, right)
        assert torch.equal(torch.autograd.grad(found.sum(), x)[0], torch.autograd.grad(right.sum(), x)[0])
    # One for the first number, and one for all others.
    assert len(made) <= 2
    torch._dynamo.reset()
    compiled = torch.compile(_MOVING[name], fullgraph=True, backend="eager", dynamic=True)
    assert torch.equal(compiled(x, 0.5), _MOVING[name](x, 0.5))


@pytest.mark.parametrize("method", ["softmax", "softmax/exact", "entmax:1.5/capped:1.3"])
def test_vmap_and_func(method: str) -> None:
    q, k, v = tensors(3, 3, 2, 5, 4, grad=False)

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = otattn.attention(q, k, v, method=method, tolerance=TIGHT)
        return result

    found = torch.func.vmap(call, in_dims=(0, None, 0))(q, k[0], v)
    expected = torch.stack([call(q[i], k[0], v[i]) for i in range(3)])
    assert torch.equal(found, expected)
    per_sample = torch.func.vmap(
        torch.func.grad(lambda *x: call(*x).square().sum(), argnums=(0, 1)), in_dims=(0, None, 0)
    )
    for i, (a, b) in enumerate(zip(*per_sample(q, k[0], v), strict=True)):
        x, y = q[i].clone().requires_grad_(), k[0].clone().requires_grad_()
        right = torch.autograd.grad(call(x, y, v[i]).square().sum(), (x, y))
        assert (a - right[0]).abs().max() <= 1e-10 and (b - right[1]).abs().max() <= 1e-10
    jacobian = torch.func.jacrev(call)(q[0], k[0], v[0])
    right = torch.autograd.functional.jacobian(lambda x: call(x, k[0], v[0]), q[0])
    assert (jacobian - right).abs().max() <= 1e-10


COMPILED: dict[str, Any] = {
    "grad": lambda f, q, k, v: torch.func.grad(lambda *x: f(*x).sin().sum(), argnums=(0, 1, 2))(q, k, v),
    "vjp": lambda f, *x: torch.func.vjp(f, *x)[1](x[0].cos()),
    "jvp": lambda f, *x: torch.func.jvp(f, x, x),
    "vmap": lambda f, q, k, v: torch.func.vmap(f, in_dims=(0, 0, None))(q, k, v[0]),
    "vmap of grad": lambda f, *x: torch.func.vmap(torch.func.grad(lambda *y: f(*y).sin().sum()))(*x),
    "jacrev": lambda f, *x: torch.func.jacrev(f)(*x),
    "jacfwd": lambda f, *x: torch.func.jacfwd(f)(*x),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("method", ["softmax", "softmax/exact", "entmax:1.5/capped:1.3"])
@pytest.mark.parametrize("transform", COMPILED)
def test_compile_around_torch_func(transform: str, method: str) -> None:
    x = tensors(3, 2, 2, 4, 3, grad=False)

    def call(*x: torch.Tensor) -> Any:
        return COMPILED[transform](lambda *y: otattn.attention(*y, method=method, tolerance=1e-12), *x)

    torch.compiler.reset()
    found = torch.compile(call, fullgraph=True, backend="aot_eager")(*x)
    torch.testing.assert_close(found, call(*x), rtol=0.0, atol=1e-10)


Q, K, V = tensors(3, 1, 2, 4, 3, seed=5)
(COST,) = tensors(1, 3, 4, seed=6)
QUARTERS, THIRDS = torch.full((4,), 0.25, dtype=torch.float64), torch.full((3,), 1 / 3, dtype=torch.float64)
ASKED = torch.arange(12, dtype=torch.float32).reshape(4, 3).sin()
# What reads a tensor's memory, each with the type and the shape of the tensor.
READERS: dict[str, tuple[torch.dtype, tuple[int, ...], Any]] = {
    "query": (torch.float64, (1, 2, 4, 3), lambda x: otattn.attention(x, K, V)),
    "out_grad": (
        torch.float64,
        (1, 2, 4, 3),
        lambda x: torch.autograd.grad(otattn.attention(Q, K, V), Q, x)[0],
    ),
    "plan_grad": (torch.float64, (3, 4), lambda x: torch.autograd.grad(otattn.coupling(COST), COST, x)[0]),
    "documents": (torch.float32, (9, 3), lambda x: otattn.maxsim(ASKED, x, [0, 4, 9])),
    "orders": (torch.float64, (3, 4), lambda x: otattn.activations.entmax_bisect(x, torch.full((3, 1), 1.5))),
    "sinkhorn2": (torch.float64, (3, 4), lambda x: otattn.ot.sinkhorn2(THIRDS, QUARTERS, x, 1.0)),
    "emd2": (torch.float64, (3, 4), lambda x: otattn.ot.emd2(THIRDS, QUARTERS, x)),
}


@pytest.mark.parametrize(("kind", "shape", "call"), READERS.values(), ids=READERS)
def test_negated_views_are_read_with_their_sign(kind: torch.dtype, shape: tuple[int, ...], call: Any) -> None:
    parts = torch.stack(tensors(2, *shape, seed=7, grad=False)).to(kind)
    negated = torch.complex(*parts).conj().imag
    assert negated.is_neg()
    # The parts of a complex number lie two apart.
    torch.testing.assert_close(call(negated), call(-parts[1]), rtol=1e-13, atol=1e-13)


def test_vmap_over_what_comes_back() -> None:
    upstream = torch.stack(tensors(3, 1, 2, 4, 3, seed=8, grad=False))
    for out, x in ((otattn.attention(Q, K, V), Q), (otattn.coupling(Q), Q)):

        def pulled(g: torch.Tensor, out: Any = out, x: Any = x) -> torch.Tensor:
            return torch.autograd.grad(out, x, g, retain_graph=True)[0]

        each = torch.stack([pulled(g) for g in upstream])
        torch.testing.assert_close(torch.func.vmap(pulled)(upstream), each, rtol=1e-13, atol=1e-13)


def test_vmap_over_a_parameter() -> None:
    q, k, v = tensors(3, 2, 5, 4, grad=False)
    several = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    found = torch.func.vmap(lambda t: otattn.attention(q, k, v, temperature=t))(several)
    for k_, t in enumerate(several):
        assert torch.equal(found[k_], otattn.attention(q, k, v, temperature=float(t)))


def test_aux_of_what_has_no_numbers_yet() -> None:
    """Under vmap, and of shapes alone, there are arrays without info."""
    (x,) = tensors(1, 3, 1, 2, 5, 4, grad=False)

    def both(y: torch.Tensor) -> Any:
        out, aux = otattn.attention(y, y, y, method="softmax/exact", return_aux=True)
        assert aux.info is aux.certificate is None
        return out, aux.receiver

    each = [otattn.attention(y, y, y, method="softmax/exact", return_aux=True) for y in x]
    out, receiver = torch.func.vmap(both)(x)
    for k, (right, aux) in enumerate(each):
        torch.testing.assert_close(out[k], right, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(receiver[k], aux.receiver, rtol=1e-9, atol=1e-9)
    assert both(x[0].to("meta"))[1].shape == (1, 2, 5)
    with FakeTensorMode():
        assert both(torch.empty(1, 2, 5, 4))[1].shape == (1, 2, 5)


@pytest.mark.parametrize("method", ["softmax", "entmax:1.5", "softmax/exact"])
@pytest.mark.parametrize("inside", [False, True])
def test_gradients_under_autocast(method: str, inside: bool) -> None:
    """Each call asks whether autocast is on, whatever was called before; backward, inside of it or outside,
    reads what forward read."""
    drawn = [x.detach().float() for x in tensors(3, 1, 2, 5, 4)]
    on = lambda: torch.autocast("cpu", dtype=torch.bfloat16)  # noqa: E731

    def gradients(kinds: list[torch.dtype], forward: Any, backward: Any, made: torch.dtype) -> list[Any]:
        given = [x.to(kind, copy=True).requires_grad_() for x, kind in zip(drawn, kinds, strict=True)]
        with forward():
            out = otattn.attention(*given, method=method)
        assert out.dtype == made
        with backward():
            out.float().square().sum().backward()
        return [x.grad.float() for x in given]

    off, low, full = contextlib.nullcontext, torch.bfloat16, torch.float32
    around = on if inside else off
    wanted = gradients([low] * 3, off, off, low)
    plain = gradients([full] * 3, off, off, full)
    for kinds in ([full] * 3, [low, full, full], [full, full, low]):
        found = gradients(kinds, on, around, low)
        assert all(torch.equal(x, y) for x, y in zip(found, wanted, strict=True))
    found = gradients([full] * 3, off, around, full)
    assert all(torch.equal(x, y) for x, y in zip(found, plain, strict=True))
    x = torch.randn(2, 3, 8)
    attention = otattn.nn.Attention(8, 2, method=method, batch_first=True, add_bias_kv=True)
    with on():
        out = attention(x, x, x)[0]
    with around():
        out.float().sum().backward()
    assert attention.bias_k is not None and attention.bias_k.grad is not None


def test_checkpointing_autocast_and_types() -> None:
    from torch.utils.checkpoint import checkpoint

    q, k, v = tensors(3, 1, 2, 5, 4)
    out = checkpoint(lambda *x: otattn.attention(*x, method="softmax/exact"), q, k, v, use_reentrant=False)
    again = torch.autograd.grad(out.sum(), q)[0]
    right = torch.autograd.grad(otattn.attention(q, k, v, method="softmax/exact").sum(), q)[0]
    assert torch.equal(again, right)
    narrow = [x.detach().float() for x in (q, k, v)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = otattn.attention(*narrow)
        assert out.dtype == torch.bfloat16
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        x, y, z = (x.detach().to(dtype).requires_grad_() for x in (q, k, v))
        out = otattn.attention(x, y, z)
        out.sum().backward()
        assert out.dtype == dtype and x.grad is not None and x.grad.dtype == dtype


@pytest.mark.parametrize(
    ("name", "value", "method"),
    [
        ("tolerance", np.float64(1e-3), "softmax/exact"),
        ("method", np.str_("softmax/relaxed:3"), "softmax"),
        ("causal_align", np.str_("bottom_right"), "softmax"),
        ("backend", np.str_("plain"), "softmax"),
    ],
)
def test_settings_may_be_scalars_of_numpy(name: str, value: Any, method: str) -> None:
    (x,) = tensors(1, 1, 2, 5, 3, grad=False)
    bias = x @ x.mT
    y = x.numpy()
    for words in ({name: value}, {name: value.item()}):
        given = {"method": method, **words}
        # The longer way, of arrays first: they share what is kept of settings.
        found = otattn.attention(y, y, y, bias=bias.numpy(), **given)
        assert np.array_equal(otattn.attention(x, x, x, bias=bias, **given), found)


def test_settings_arrive_as_they_were_said() -> None:
    (x,) = tensors(1, 1, 2, 5, 3, grad=False)
    with pytest.raises(ValueError, match="'a;b=1'"):
        otattn.attention(x, x, x, solver="a;b=1")
    otattn.attention(x, x, x, method="softmax/exact", softcap=2.0, rounds=1)
    for wrong in (True, np.True_):
        with pytest.raises(TypeError, match=r"rounds is .*True"):
            otattn.attention(x, x, x, method="softmax/exact", softcap=2.0, rounds=wrong)


def test_aux_on_tensors() -> None:
    q, k, v = tensors(3, 1, 2, 5, 4)
    out, aux = otattn.attention(q, k, v, method="softmax/exact", return_aux=True)
    assert out.requires_grad and aux.receiver.requires_grad and not aux.lse.requires_grad
    assert aux.info.status == "ok" and aux.certificate.column_error <= 1e-9
    assert (aux.receiver - 1).abs().max() <= 1e-8
    array = otattn.attention(
        *(x.detach().numpy() for x in (q, k, v)), method="softmax/exact", return_aux=True
    )[1]
    assert array.certificate == aux.certificate


@pytest.mark.parametrize("method", ["hard", "assignment", "hard/capped:1", "hard{entry_cap=0.5}"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_values_of_hard_plans_have_gradients(method: str, dropout: float) -> None:
    q, k = tensors(2, 2, 4, 5, 3, grad=False)
    (v,) = tensors(1, 2, 2, 5, 3, seed=1)
    k = k[:, ::2]
    call = {"method": method, "enable_gqa": True, "dropout_p": dropout}
    call |= {"dropout_seed": 7} if dropout else {}
    run = functools.partial(otattn.attention, q, k, **call)
    weights = run(torch.eye(5, dtype=torch.float64).expand(2, 2, 5, 5)).reshape(2, 2, 2, 5, 5)
    upstream = torch.randn(2, 4, 5, 3, dtype=torch.float64)
    right = (weights.mT @ upstream.reshape(2, 2, 2, 5, 3)).sum(2)
    for _ in range(2):
        (found,) = torch.autograd.grad(run(v), v, upstream)
        assert (found - right).abs().max() <= 1e-14
    moved = torch.func.jvp(run, (v.detach(),), (v.detach(),))[1]
    assert (moved - run(v.detach())).abs().max() <= 1e-14
    moving = q.clone().requires_grad_()
    with pytest.raises(otattn.NotDifferentiable):
        otattn.attention(moving, k, v, **call).sum().backward()


@pytest.mark.parametrize("method", ["softmax/exact", "entmax:1.5/relaxed:1", "softmax/exact{rounds=4}"])
def test_nan_for_what_is_not_finite(method: str) -> None:
    q, k, v = tensors(3, 1, 2, 5, 4)
    call = {"method": method, "nonfinite": "nan"}
    right = otattn.attention(q, k, v, **call)
    assert torch.equal(right, otattn.attention(q, k, v, method=method))
    bad = q.detach().clone()
    bad[0, 1, 2, 0] = torch.inf
    bad.requires_grad_()
    with pytest.raises(otattn.NotFinite):
        otattn.attention(bad, k, v, method=method)
    with pytest.warns(otattn.NotFiniteWarning):
        out, aux = otattn.attention(bad, k, v, **call, return_aux=True)
    assert torch.equal(out[:, 0], right[:, 0]) and out[:, 1].isnan().all()
    assert aux.info.status == "nonfinite_rows"
    with pytest.warns(otattn.NotFiniteWarning):
        array = otattn.attention(*(x.detach().numpy() for x in (bad, k, v)), **call)
    assert np.array_equal(array, out.detach().numpy(), equal_nan=True)
    assert all(x.isnan().any() for x in torch.autograd.grad(out.sum(), (bad, k, v)))
    # Upstream gradients that overflow, as a scaled loss in f16 has them.
    for x in torch.autograd.grad(right, (q, k, v), torch.full_like(right, torch.inf)):
        assert not x.isfinite().all()
    with pytest.raises(ValueError, match="nonfinite is 'none', wanted 'raise' or 'nan'"):
        otattn.attention(q, k, v, nonfinite="none")
    with pytest.raises(ValueError, match="strict raises"):
        otattn.attention(q, k, v, nonfinite="nan", strict=True)


def test_a_scaler_skips_steps_that_are_not_finite() -> None:
    layer = otattn.nn.Attention(8, 2, method="softmax/exact", nonfinite="nan")
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0, growth_interval=1)
    x = torch.randn(5, 1, 8)
    for scale, bad in ((32.0, False), (16.0, True), (32.0, False)):
        before = layer.in_proj_weight.detach().clone()
        optimizer.zero_grad()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", otattn.NotFiniteWarning)
            scaler.scale(layer(*3 * [x * torch.inf if bad else x])[0].square().sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == scale
        assert torch.equal(before, layer.in_proj_weight) == bad


def test_the_number_of_threads_is_torchs() -> None:
    (x,) = tensors(1, 1, 1, 4, 3, grad=False)
    right = otattn.attention(x, x, x)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert otattn.get_num_threads() == 3 and torch.equal(otattn.attention(x, x, x), right)
        otattn.set_num_threads(2)
        assert otattn.get_num_threads() == 2
        with otattn.threads(5):
            assert otattn.get_num_threads() == 5
    finally:
        otattn.set_num_threads(0)
        torch.set_num_threads(before)


def test_what_is_refused() -> None:
    q, k, v = tensors(3, 1, 2, 5, 4)
    with pytest.raises(otattn.NotDifferentiable):
        otattn.attention(q, k, v, method="hard").sum().backward()
    first = torch.autograd.grad(otattn.attention(q, k, v).sum(), q, create_graph=True)[0]
    with pytest.raises(otattn.NotDifferentiable, match="first derivatives"):
        first.sum().backward()
    with pytest.raises(TypeError, match="key is a ndarray"):
        otattn.attention(q, k.detach().numpy(), v)
    with pytest.raises(TypeError, match=r"query has type torch.int64 and shape \(1, 2, 5, 4\)"):
        otattn.attention(q.detach().long(), k, v)


def test_a_step_of_training_lowers_the_loss() -> None:
    torch.manual_seed(0)
    q, k, v = tensors(3, 1, 2, 8, 4)
    target = torch.randn(1, 2, 8, 4, dtype=torch.float64)
    for method in COUPLED:
        loss = (otattn.attention(q, k, v, method=method, tolerance=1e-12) - target).square().mean()
        gradients = torch.autograd.grad(loss, (q, k, v))
        moved = [x - 0.1 * g for x, g in zip((q, k, v), gradients, strict=True)]
        assert (otattn.attention(*moved, method=method, tolerance=1e-12) - target).square().mean() < loss


@pytest.mark.parametrize("method", ["softmax", "entmax:1.5", "softmax/exact", "softmax/capped:2{rounds=3}"])
def test_gradients_of_columns_that_are_solved(method: str) -> None:
    q, k, v = tensors(3, 1, 2, 5, 3)
    assert gradcheck(
        lambda *x: otattn.attention(*x, method=method, axis="columns", tolerance=TIGHT), (q, k, v), **CHECK
    )
    scores = torch.randn(2, 4, 5, dtype=torch.float64, requires_grad=True)
    assert gradcheck(
        lambda x: otattn.coupling(x, method=method, axis="columns", tolerance=TIGHT), (scores,), **CHECK
    )


@pytest.mark.parametrize("backend", [None, "plain"])
@pytest.mark.parametrize(
    ("method", "rounds"),
    [
        ("softmax/elastic:1,3", None),
        ("softmax/exact", 3),
        ("softmax/relaxed:1", 2),
        ("softmax/capped:2", 3),
    ],
)
def test_rounds_beside_scores_that_hide_potentials(
    method: str, rounds: int | None, backend: str | None
) -> None:
    """Gradients of such rows were NaN in f32, without a word."""
    numbers = [1.125, -3.875, -2.125, 2.125, -3.75, -2000, 1.375, 2.125, 2.375, -2.25, -2.25, -2.875]
    keys, values = [1.25, 2.375, 1.875, 0.75, 2.5, 1.625, 0.125, 3], [1.5, -2, 0.25, 3]
    found = []
    for kind in (torch.float32, torch.float64):
        q, k, v = (
            torch.tensor(x, dtype=kind).reshape(1, 1, -1, width).requires_grad_()
            for x, width in ((numbers, 4), (keys, 4), (values, 2))
        )
        out, aux = otattn.attention(q, k, v, method=method, temperature=0.1, scale=0.5, rounds=rounds,
                                    backend=backend, return_aux="coupling")  # fmt: skip
        upstream = torch.arange(6, dtype=kind).reshape(1, 1, 3, 2)
        ((aux.coupling + out) * upstream).sum().backward()
        found.append([x.grad.double() for x in (q, k, v)])
    for narrow, wide in zip(*found, strict=True):
        assert torch.isfinite(narrow).all()
        assert (narrow - wide).abs().max() <= 1e-2 * wide.abs().max()


@pytest.mark.parametrize("axis", ["rows", "columns"])
@pytest.mark.parametrize(
    "method", ["softmax", "entmax:1.5", "sparsemax", "entmax:3", "softmax/exact", "entmax:1.5/capped:2"]
)
@pytest.mark.parametrize("temperature", [1e33, 1e45, 3e150])
def test_temperatures_beyond_f32_are_carried(method: str, axis: str, temperature: float) -> None:
    """Plans of f32 scores whose potentials, or 1 / temperature, f32 does not hold: as those of f64 scores."""
    scores = torch.tensor([[0.0, 1.0, 2.0], [3.0, -1.0, 0.5], [0.0, 0.0, 4.0]])
    scores[0, 1] = -torch.inf
    grad = torch.arange(9.0).reshape(3, 3) - 4
    found = []
    for dtype in (torch.float32, torch.float64):
        s = (scores.to(dtype) * (temperature / 4 if temperature < 1e38 else 1)).requires_grad_()
        plan = otattn.coupling(s, method=method, axis=axis, temperature=temperature)
        (plan * grad.to(dtype)).sum().backward()
        found.append((plan.detach(), s.grad))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other.float(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_a_mask_with_a_gradient_is_added_in_four_bytes(kind: torch.dtype) -> None:
    q, k = torch.zeros(1, 1, 1, 2, dtype=kind), torch.zeros(1, 1, 2, 2, dtype=kind)
    v = torch.tensor([[1.5, 1.0], [0.0, 0.0]], dtype=kind)[None, None]
    most = 60000.0 if kind == torch.float16 else 1e30
    for mask, bias in (([most, most], [most, 0.0]), ([2048.0, 0.0], [1.0, 2040.0])):
        given = [torch.tensor([x], dtype=kind) for x in (mask, bias)]
        wanted = otattn.attention(q, k, v, given[0], bias=given[1])
        found = otattn.attention(q, k, v, given[0].requires_grad_(), bias=given[1])
        assert torch.equal(found, wanted) and found.isfinite().all()
        (gradient,) = torch.autograd.grad(found.sum(), given[0])
        assert gradient.dtype == kind and gradient.isfinite().all()


@pytest.mark.parametrize("narrow", [torch.float32, torch.float16, torch.bfloat16])
def test_a_mask_with_a_gradient_is_added_in_the_type_of_the_scores(narrow: torch.dtype) -> None:
    """Beside queries in f64, both were added in f32. The least number of their own type stays a -inf."""
    generator = torch.Generator().manual_seed(5)
    q, k, v = (torch.randn(1, 2, 6, 4, generator=generator, dtype=torch.float64) for _ in range(3))
    mask, bias = (torch.randn(6, 6, generator=generator).to(kind) for kind in (torch.float32, narrow))
    bias[1:3, 0] = torch.finfo(narrow).min
    mask[3:5, 1] = torch.finfo(torch.float32).min
    forbids = torch.zeros(6, 6, dtype=torch.bool)
    forbids[1:3, 0], forbids[3:5, 1] = True, True
    summed = (mask.double() + bias.double()).masked_fill(forbids, -torch.inf)
    for method in ("softmax", "softmax/exact", "entmax:1.5/capped:1.5"):
        wanted = otattn.attention(q, k, v, summed, method=method)
        found = otattn.attention(q, k, v, mask.clone().requires_grad_(), bias=bias, method=method)
        assert (found - wanted).abs().max() <= 2.0**-48 * v.abs().max() * 6, method
    torch.manual_seed(1)
    layer = otattn.nn.Attention(8, 2, batch_first=True, method="softmax/exact", dtype=torch.float64)
    x, padding = q.reshape(2, 3, 8), torch.zeros(2, 3, dtype=narrow)
    padding[0, 0] = 0.3
    added = padding[:, None].double() + mask[3:, 3:].double()
    wanted = layer(x, x, x, attn_mask=added.repeat_interleave(2, 0))[0]
    assert (layer(x, x, x, padding, attn_mask=mask[3:, 3:])[0] - wanted).abs().max() <= 2.0**-44


def test_the_old_exporter_of_onnx_names_the_operator() -> None:
    """A module that was called before is no constant in its graph, which ONNX has no words for."""
    module = otattn.nn.Attention(8, 2, batch_first=True, method="softmax/capped:2").eval()
    x = torch.randn(2, 5, 8)
    for _ in range(3):
        module(x, x, x)
    with pytest.raises(Exception, match="otattn::solve"):
        torch.onnx.export(module, (x, x, x), io.BytesIO(), dynamo=False)


BY = otattn.ot
EIGHT = torch.arange(1.0, 9.0, dtype=torch.float64) / 36
# What a tracer of torch may take for a constant, of a tensor [2, 2, 6, 8].
TRACED: dict[str, Any] = {
    "emd2": lambda z: BY.emd2(z[0, 0, :, 0].softmax(0), EIGHT, z[0, 0].abs()),
    "solve": lambda z: BY.solve(z[0, 0].abs(), z[0, 0, :, 0].softmax(0), EIGHT).value,
    "solve_sample": lambda z: BY.solve_sample(z[0, 0], z[0, 1]).value,
    "decode": lambda z: otattn.decode(z[:, :, -1:], z, z, method="entmax:1.5")[0],
    "budget": lambda z: otattn.activations.budget_bisect(z[0, 0]),
    "loss": lambda z: otattn.activations.SparsemaxLoss(ignore_index=0)(z[0, 0], z[0, 1].argmax(-1)),
}
REFUSED: dict[str, Any] = {
    "partial": lambda z: BY.partial.partial_wasserstein(None, None, z[0, 0].abs(), 0.5),
    "entropic partial": lambda z: BY.partial.entropic_partial_wasserstein(None, None, z[0, 0].abs(), 1, 0.5),
    "decode": lambda z: otattn.decode(z[:, :, -1:], z, z, method="softmax/online:2")[0],
    "certificate": lambda z: otattn.linear_sum_assignment(z[0, 0], certificate=True)[1],
    "list": lambda z: otattn.linear_sum_assignment([z[0, 0]])[0][1],
    "ranked list": lambda z: otattn.k_best_assignments([z[0, 0]], 2)[0].columns,
    "bottleneck list": lambda z: otattn.bottleneck_assignment([z[0, 0]])[0].columns,
}


def _jit(call: Any, x: torch.Tensor) -> Any:
    return torch.jit.trace(call, x, check_trace=False)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", TRACED)
def test_tracers_take_nothing_for_a_constant(name: str, grad: bool) -> None:
    call = TRACED[name]
    x, y = tensors(2, 2, 2, 6, 8, grad=grad)
    for _ in range(3):
        call(x)
    assert (_jit(lambda z: call(z) + 0.0 * z.sum(), x)(y) - call(y)).abs().max() <= 1e-13


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_what_a_tracer_would_take_for_a_constant_is_refused(name: str) -> None:
    call = REFUSED[name]
    (x,) = tensors(1, 2, 2, 6, 8, grad=False)
    call(x)
    for trace in (_jit, lambda call, x: make_fx(call)(x)):
        with pytest.raises(NotImplementedError, match="a tracer would take its results for constants"):
            trace(lambda z: call(z) + 0.0 * z.sum(), x)


@pytest.mark.parametrize(
    "call",
    [
        lambda z: otattn.decode(z[:, :, -1:], z, z, method="softmax/online:2")[0],
        lambda z: BY.sinkhorn(None, None, z[0, 0].abs(), 0.5),
        lambda z: BY.solve(z[0, 0].abs(), reg=0.5).value,
        lambda z: BY.solve(z[0, 0].abs(), reg=0.5, unbalanced=1.0).plan,
    ],
    ids=["decode", "sinkhorn", "solve", "unbalanced"],
)
def test_calls_that_break_a_graph_are_right(call: Any) -> None:
    (x,) = tensors(1, 2, 2, 6, 8, grad=False)
    compiled = torch.compile(lambda z: 2.0 * call(z + 1.0), backend="eager")
    assert (compiled(x) - 2.0 * call(x + 1.0)).abs().max() <= 1e-12


def test_packed_sequences_in_one_graph() -> None:
    x = torch.randn(12, 2, 4)
    bounds = [0, 5, 12]
    compiled = torch.compile(
        lambda z: otattn.varlen_attention(z, z, z, bounds, bounds), fullgraph=True, backend="eager"
    )
    assert torch.equal(compiled(x), otattn.varlen_attention(x, x, x, bounds, bounds))


FOUR = torch.tensor([0.3, 0.0, 0.4, 0.3], dtype=torch.float64)


@pytest.mark.parametrize("what", ["coupling", "attention"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    "method",
    [
        "softmax",
        "softmax/exact",
        "softmax/capped:2",
        "softmax/bounded:0.5,2",
        "entmax:1.5/exact",
        "entmax:1.5/capped:1.5",
        "sparsemax",
        "sparsemax/exact",
        "softmax/exact{rounds=5}",
    ],
)
def test_gradients_by_masses_of_zero(method: str, dtype: torch.dtype, what: str) -> None:
    # Those of a mass that begins to grow: of a difference from there, for rows and for columns.
    generator = torch.Generator().manual_seed(3)
    s, w, v = (torch.randn(4, 4, dtype=torch.float64, generator=generator) for _ in range(3))
    coupled = "/" in method

    def value(a: Any, b: Any, kind: torch.dtype = torch.float64) -> Any:
        masses = {"row_mass": a.to(kind)} | ({"column_mass": b.to(kind)} if coupled else {})
        options = {} if "rounds" in method or not coupled or kind != torch.float64 else {"tolerance": 1e-13}
        if what == "coupling":
            return (otattn.coupling(s.to(kind), method=method, **masses, **options) * w).sum()
        q, k, x = (x.to(kind)[None, None] for x in (s, s.T, v))
        return (otattn.attention(q, k, x, method=method, **masses, **options) * w).sum()

    a, b = FOUR.clone().requires_grad_(), FOUR.flip(0).clone().requires_grad_()
    slopes = torch.autograd.grad(value(a, b, dtype), (a, b) if coupled else (a,))
    for x, slope in zip((a, b), slopes, strict=False):
        empty = int((x == 0).nonzero()[0])
        step = torch.zeros(4, dtype=torch.float64)
        step[empty], step[3 - empty] = 1e-7, -1e-7
        with torch.no_grad():
            moved = value(a + step, b) if x is a else value(a, b + step)
            growth = (moved - value(a, b)) / 1e-7
        close = 2e-5 if dtype == torch.float64 else 5e-3
        assert abs(float(slope[empty] - slope[3 - empty] - growth)) <= close * (1 + abs(float(growth)))
    # Along a direction, too.
    if dtype == torch.float64 and what == "coupling":
        direction = (step, torch.zeros_like(step)) if not coupled else (torch.zeros_like(step), step)
        _, along = torch.func.jvp(value, (a.detach(), b.detach()), direction)
        if coupled:
            assert abs(float(along) - float((slopes[1] * step).sum())) <= 1e-11


@pytest.mark.parametrize(
    "method", ["softmax", "softmax/exact", "softmax/capped:2", "entmax:1.5/exact", "sparsemax"]
)
def test_plans_and_devices_have_the_limits_of_masses_of_zero(method: str) -> None:
    # What the operator of torch gives, which the test above compares with differences.
    generator = torch.Generator().manual_seed(5)
    q, k, v, w = (torch.randn(1, 1, 4, 4, dtype=torch.float64, generator=generator) for _ in range(4))
    names = ["row_mass", "column_mass"] if "/" in method else ["row_mass"]
    masses = dict(zip(names, (FOUR.clone(), FOUR.flip(0).clone()), strict=False))

    def slopes(**options: Any) -> list[torch.Tensor]:
        given = {name: x.clone().requires_grad_() for name, x in masses.items()}
        out = otattn.attention(q, k, v, method=method, **given, **options)
        return list(torch.autograd.grad((out * w).sum(), list(given.values())))

    right = slopes()
    arrays = [x.numpy() for x in (q, k, v)]
    given = {name: x.numpy() for name, x in masses.items()}
    plan = otattn.Plan(*arrays, method=method, gradients=True, **given)
    plan.forward(*arrays)
    found = plan.backward(out_grad=w.numpy(), wrt=["query", *names])
    step = {names[-1]: (masses[names[-1]] == 0) * 0.5 - (masses[names[-1]].flip(0) == 0) * 0.5}
    along = plan.jvp({name: x.numpy() for name, x in step.items()})
    for name, wanted in zip(names, right, strict=True):
        assert abs(torch.from_numpy(found[name]).flatten() - wanted).max() <= 1e-9
    assert abs((along * w.numpy()).sum() - float((right[-1] * step[names[-1]]).sum())) <= 1e-7
    # Its own forward stays what it was.
    again = plan.backward(out_grad=w.numpy())
    assert set(again) == {"query", "key", "value"}
    if method != "entmax:1.5/exact":
        on_device = slopes(backend="torch")
        for x, wanted in zip(on_device, right, strict=True):
            assert abs(x - wanted).max() <= 1e-6, (x, wanted)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_totals_of_narrow_masses_differ_by_their_rounding(kind: torch.dtype) -> None:
    scores = torch.randn(7, 3, generator=torch.Generator().manual_seed(5))
    a, b = torch.full((7,), 1 / 7, dtype=kind), torch.tensor([0.1, 0.7, 0.2], dtype=kind)
    assert abs(float(a.double().sum() - b.double().sum())) > 1e-4
    rows, columns = a.clone().requires_grad_(), b.clone().requires_grad_()
    plan = otattn.coupling(scores, method="softmax/exact", row_mass=rows, column_mass=columns)
    assert (plan.sum(1) - a.float()).abs().max() <= 1e-5
    slopes = torch.autograd.grad((plan * scores).sum(), (rows, columns))
    assert all(x.dtype == kind and x.isfinite().all() for x in slopes)
    with pytest.raises(otattn.Infeasible):
        otattn.coupling(scores, method="softmax/exact", row_mass=a, column_mass=b * 1.05)
