"""Engines of torch's attention kernels against plain operations in f64: each call by itself, and solves."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import otattn
import pytest
import torch
import torch.nn.attention.flex_attention as kernels
from otattn import Spec
from otattn._device import flex, fused
from otattn._device.blocks import Blocks
from otattn._device.engines import Engine
from otattn._device.flex import Flex
from otattn._device.fused import Cudnn, Efficient, Flash, Fused, Overrideable
from otattn._device.scores import Scores
from otattn._settings import OPERANDS
from torch import Tensor

F64, F32, BF16, F16 = torch.float64, torch.float32, torch.bfloat16, torch.float16
# Exponentials of kernels for narrow types have fewer bits than f32.
FAST = 2.0**-14
# Roundings of a weight, of a product with it, of an operand that was split or scaled, of sums, of the result.
ROUNDINGS = 5


@pytest.fixture(autouse=True)
def _differentiating(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """FlexAttention refuses gradients on CPUs, and traces its own calls; its formulas can be run there."""
    monkeypatch.setattr(kernels, "_validate_device", lambda *_: None)
    monkeypatch.setattr(kernels, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    monkeypatch.setattr(flex, "DIFFERENTIATES", ("cpu",))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


class Case(NamedTuple):
    rows: int
    columns: int
    width: int = 5
    values: int = 4
    heads: int = 2
    key_heads: int = 2
    options: Mapping[str, Any] = {}
    operands: Mapping[str, Any] = {}
    wanted: tuple[str, ...] = ("query", "key", "value")


def mask(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(5)) < 0.6


def floats(*shape: int) -> Tensor:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(6), dtype=F64).to(BF16)
    return x.masked_fill(~mask(*shape), -torch.inf)


CAUSAL = {"is_causal": True}
BOTTOM = {"is_causal": True, "causal_align": "bottom_right"}
PLAIN = {
    "ragged": Case(33, 20),
    "grouped": Case(9, 17, 12, 8, heads=4, key_heads=2),
    "long": Case(130, 300, 3, 9),
    "negative scale": Case(9, 12, options={"scale": -0.6}),
    "causal": Case(19, 19, options=CAUSAL),
    "causal wide": Case(13, 21, options=CAUSAL),
    "causal tall": Case(21, 13, heads=4, options=CAUSAL),
    "bottom wide": Case(13, 21, options=BOTTOM),
    "bottom tall": Case(21, 13, options=BOTTOM),
    "lengths": Case(11, 14, operands={"key_lengths": torch.tensor([9, 0])}),
    "causal lengths": Case(14, 14, options=CAUSAL, operands={"key_lengths": torch.tensor([14, 5])}),
    "keys": Case(11, 14, operands={"attn_mask": mask(2, 2, 1, 14)}),
    "causal keys": Case(14, 14, options=CAUSAL, operands={"attn_mask": mask(2, 1, 1, 14)}),
    "floats of keys": Case(11, 14, operands={"attn_mask": floats(2, 2, 1, 14)}),
    "biases of keys": Case(
        11, 14, operands={"bias": floats(1, 2, 1, 14)}, wanted=("query", "key", "value", "bias")
    ),
    "temperature": Case(
        11, 14, operands={"temperature": torch.tensor(0.5)}, wanted=("query", "key", "value", "temperature")
    ),
    "temperatures": Case(
        11, 14, operands={"temperature": torch.tensor([0.5, 2.0])}, wanted=("temperature", "query")
    ),
}
RELATIVE = {"relative_bias": floats(2, 24).nan_to_num(neginf=0.0)}
TERMS = {
    "softcap": Case(11, 14, options={"softcap": 0.7}, operands=RELATIVE),
    "inside": Case(11, 14, options={"softcap": 0.7, "relative_inside": True}, operands=RELATIVE),
    "distances": Case(11, 14, options={"alibi_slopes": 0.25, "causal_align": "bottom_right"}),
    "slopes": Case(
        11, 14, operands={"alibi_slopes": torch.tensor([0.3, 0.1])}, wanted=("alibi_slopes", "key")
    ),
    "window": Case(13, 21, options={"window": (3, 4)}),
    "mask": Case(11, 14, operands={"attn_mask": mask(2, 1, 11, 14), "bias": floats(1, 2, 11, 14)}),
}


class Drawn:
    """A case with drawn arrays of a type; `exact` has the same numbers in f64."""

    def __init__(self, case: Case, kind: type[Any], type_: torch.dtype) -> None:
        generator = torch.Generator().manual_seed(1)
        batch, self.case = 2, case

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator, dtype=F64)

        shapes = {
            "query": (batch, case.heads, case.rows, case.width),
            "key": (batch, case.key_heads, case.columns, case.width),
            "value": (batch, case.key_heads, case.columns, case.values),
        }
        given = {name: normal(*shape).to(type_) for name, shape in shapes.items()}
        spec = Spec("softmax", **case.options, backend=f"torch:{kind.name}")

        def scores(of: torch.dtype) -> Scores:
            named = {**{name: x.to(of) for name, x in given.items()}, **case.operands}
            return Scores(spec, {**dict.fromkeys(OPERANDS), **named})

        self.scores = scores(type_)
        assert kind.refuses(self.scores) is None
        self.engine: Engine = kind(self.scores)
        self.exact = Blocks(scores(F64))
        wide = self.scores.wide
        # A plan whose rows are far from normal, with keys and rows that carry nothing.
        self.g = (2.0 * normal(batch, case.heads, case.columns)).to(wide)
        self.g[:, :, 0] = -torch.inf
        lse = self.exact.lse(self.g.double()).to(wide)
        self.f = (0.5 * normal(*lse.shape)).to(wide) - lse.where(lse > -torch.inf, 0.0)
        self.f[:, :, -1] = -torch.inf
        self.upstream = normal(batch, case.heads, case.rows, case.values).to(type_).to(wide)
        self.row_term, self.key_term = normal(*self.f.shape).to(wide), normal(*self.g.shape).to(wide)
        self.by_row, self.by_key = normal(*self.f.shape, 1).to(wide), normal(*self.g.shape, 1).to(wide)
        # What the scores and the exponents lose, and the relative error of a weight.
        q, k = (x.double().norm(dim=3).max() for x in (given["query"], given["key"]))
        block = self.exact.scores.block(slice(0, case.rows))
        size = float(block.where(block > -torch.inf, 0.0).abs().max() + q * k * abs(self.exact.scores.scale))
        size += float(self.g[..., 1:].abs().max() + self.f[..., :-1].abs().max())
        self.lost = torch.finfo(wide).eps * size * (case.width + 4) + (FAST if type_ in (BF16, F16) else 0.0)
        self.longest = max(case.rows, case.columns)
        self.close = (
            2.0 * self.lost + ROUNDINGS * torch.finfo(type_).eps + self.longest * torch.finfo(wide).eps
        )

    def check(self, found: Tensor, exact: Tensor, size: Tensor, close: float) -> None:
        """Within the error of each number; `size` is the sum of the sizes of what it was summed from."""
        assert found.dtype == self.scores.wide
        apart = (found.double() - exact).abs()
        least = torch.finfo(self.scores.type).smallest_normal * torch.finfo(self.scores.type).eps
        most = close * size + 4.0 * self.longest * least
        assert bool((apart <= most).all()), float((apart / most).max())


SOME = {name: PLAIN[name] for name in ("grouped", "bottom wide", "causal keys", "temperatures")}
ENGINES = {
    f"{kind.name}-{str(type_).removeprefix('torch.')}-{name}": (case, kind, type_)
    for kind, type_, cases in (
        (Flash, F64, SOME),
        (Flash, F32, PLAIN),
        (Flash, BF16, PLAIN),
        (Flash, F16, SOME),
        (
            Flex,
            F64,
            {**SOME, **TERMS, "lengths": PLAIN["lengths"], "floats of keys": PLAIN["floats of keys"]},
        ),
        (Flex, BF16, SOME),
    )
    for name, case in cases.items()
}


@functools.lru_cache(maxsize=1)
def _draw(name: str) -> Drawn:
    return Drawn(*ENGINES[name])


@pytest.fixture(params=ENGINES)
def drawn(request: pytest.FixtureRequest) -> Drawn:
    return _draw(request.param)


def test_calls(drawn: Drawn) -> None:
    engine, exact = drawn.engine, drawn.exact
    f, g = drawn.f, drawn.g
    for bias, transposed in ((g, False), (f, True)):
        found, expected = engine.lse(bias, transposed), exact.lse(bias.double(), transposed)
        assert torch.equal(found == -torch.inf, expected == -torch.inf)
        open_ = expected > -torch.inf
        apart = (found.double() - expected)[open_].abs()
        assert bool((apart <= 2.0 * drawn.lost).all()), float(apart.max() / drawn.lost)
    values = drawn.scores.given["value"]
    mean, lse = engine.attend(g, values)
    expected, row_lse = exact.attend(g.double(), values.double())
    drawn.check(mean, expected, exact.attend(g.double(), values.double().abs())[0], drawn.close)
    assert torch.equal(lse == -torch.inf, row_lse == -torch.inf)
    for x, transposed in (
        (drawn.by_key, False),
        (values, False),
        (drawn.by_row, True),
        (drawn.upstream, True),
    ):
        found = engine.product(f, g, x, transposed)
        expected = exact.product(f.double(), g.double(), x.double(), transposed)
        # Of vectors of narrow types the range is rounded.
        largest = x.double().abs() if x.shape[3] > 1 else 2.0 * x.double().abs().amax(2, True).expand_as(x)
        drawn.check(found, expected, exact.product(f.double(), g.double(), largest, transposed), drawn.close)


@pytest.mark.parametrize("with_values", [True, False])
def test_backward(drawn: Drawn, with_values: bool) -> None:
    wanted = [name for name in drawn.case.wanted if with_values or name != "value"]
    upstream = drawn.upstream if with_values else None
    f, g, a, b = drawn.f, drawn.g, drawn.row_term, drawn.key_term
    found = drawn.engine.backward(f, g, a, b, wanted, upstream)
    wide = None if upstream is None else upstream.double()
    expected = drawn.exact.backward(f.double(), g.double(), a.double(), b.double(), wanted, wide)
    sizes = sizes_of_gradients(drawn, with_values)
    assert sorted(found) == sorted(wanted)
    for name in wanted:
        drawn.check(found[name], expected[name], sizes.get(name, sizes["all"]), drawn.close)


def sizes_of_gradients(drawn: Drawn, with_values: bool) -> dict[str, Tensor]:
    """Sums of the sizes of everything that gradients are sums of."""
    s = drawn.exact.scores
    rows = slice(0, s.rows)
    f, g = drawn.f.double(), drawn.g.double()
    block = f.new_full((s.batch, s.heads, s.rows, s.columns), -torch.inf)
    block[..., s.keys(rows)] = s.block(rows)
    p = torch.exp(block + f[..., None] + g[..., None, :])
    q, k, v = (s.given[name].abs() for name in ("query", "key", "value"))
    k, v = (x.repeat_interleave(s.heads // s.key_heads, 1) for x in (k, v))
    upstream = drawn.upstream.double().abs()
    each = drawn.row_term.double().abs()[..., None] + drawn.key_term.double().abs()[..., None, :]
    each = p * (each + upstream @ v.mT if with_values else each)
    tau = torch.as_tensor(s.tau(s.given), dtype=F64)
    each = each / (tau[..., None] if tau.dim() else tau)

    def grouped(x: Tensor) -> Tensor:
        return x.reshape(len(x), s.key_heads, -1, *x.shape[2:]).sum(2)

    largest = block.where(p > 0.0, 0.0).abs() + abs(s.scale) * (q @ k.mT)
    return {
        "query": abs(s.scale) * each @ k,
        "key": abs(s.scale) * grouped(each.mT @ q),
        "value": grouped(p.mT @ upstream),
        "all": (each * (1.0 + largest)).sum(),
    }


# With whether FlexAttention computes it too, whose tests take longer.
@pytest.mark.parametrize(
    ("method", "options", "both"),
    [
        ("softmax", {}, False),
        ("softmax", CAUSAL, True),
        ("softmax/exact", {}, False),
        ("softmax/exact", {"temperature": 0.7, "key_lengths": torch.tensor([30, 21])}, False),
        ("softmax/exact", {"rounds": 2, "key_lengths": torch.tensor([30, 21])}, True),
        ("softmax/capped:1.5", {}, False),
        ("softmax/capped:2.5", {"rounds": 3, **CAUSAL}, False),
        ("softmax/relaxed:0.7", {}, False),
        ("softmax/relaxed:0.7", {"column_mass": torch.tensor([0.0, *[1.0] * 29])}, False),
    ],
)
def test_against_the_library(method: str, options: Mapping[str, Any], both: bool) -> None:
    generator = torch.Generator().manual_seed(3)
    arrays = [torch.randn(2, h, n, 12, generator=generator) for h, n in ((4, 27), (2, 30), (2, 30))]
    weights = torch.randn(2, 4, 27, 12, generator=generator)

    def results(backend: str | None) -> list[Tensor]:
        leaves = [x.clone().requires_grad_() for x in arrays]
        more: Any = {**options, "tolerance": 1e-6, "method": method, "enable_gqa": True, "backend": backend}
        out = otattn.attention(leaves[0], leaves[1], leaves[2], **more)
        return [out.detach(), *torch.autograd.grad((out * weights).sum(), leaves)]

    expected = results(None)
    for backend in ("torch:flash", "torch:flex")[: 1 + both]:
        for x, y in zip(results(backend), expected, strict=True):
            assert float((x - y).abs().max()) <= 1e-4 * float(y.abs().max())


def test_what_is_refused() -> None:
    x = torch.randn(1, 1, 4, 5)

    def reason(kind: Any, type_: torch.dtype = F32, options: Mapping[str, Any] = {}, **named: Tensor) -> str:
        given = {"query": x.to(type_), "key": x.to(type_), "value": x.to(type_), **named}
        found = kind.refuses(Scores(Spec("softmax", **options), {**dict.fromkeys(OPERANDS), **given}))
        return str(found)

    assert "softcap" in reason(Flash, options={"softcap": 2.0})
    assert "distances" in reason(Flash, options={"alibi_slopes": 0.1})
    assert "relative" in reason(Flash, relative_bias=torch.zeros(1, 7))
    assert "masks" in reason(Flash, attn_mask=torch.ones(1, 1, 4, 4, dtype=torch.bool))
    assert "masks" in reason(Flash, options={"window": (1, 0)})
    assert "scale" in reason(Flash, options={"scale": 0.0})
    assert "scale" in reason(Flash, F16, {"scale": 1e-4})
    long = torch.randn(1, 1, 64, 5)
    assert "square" in reason(Flash, options=BOTTOM, key=long, value=long, query=long[:, :, :2])
    assert "no torch.float32 on cpu" in reason(Cudnn)
    assert "keeps all pairs" in reason(Flex)
    with pytest.raises(ValueError, match="torch:flash', which has no softcap"):
        otattn.attention(x, x, x, softcap=2.0, backend="torch:flash")


class Otherwise(Fused):
    name = "otherwise"
    operators = Flash.operators


@pytest.mark.parametrize("which", ["lse", "out", "reverse", "none"])
def test_operators_that_are_other_ones(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator with another LSE, or a reverse that asks its own output, is not used."""
    x = torch.randn(1, 1, 4, 5)
    scores = Scores(Spec("softmax"), {**dict.fromkeys(OPERANDS), "query": x, "key": x, "value": x})
    forward, reverse = fused.forward, fused.reverse

    def other_forward(name: str, known: Mapping[str, Any]) -> dict[str, Any]:
        found = forward(name, known)
        if which == "lse":
            found["logsumexp"] = found["logsumexp"] * 1.4427
        if which == "none":
            raise NotImplementedError(name)
        return found

    def other_reverse(name: str, known: Mapping[str, Any]) -> tuple[Tensor, ...]:
        known = dict(known)
        if which == "out":
            known["out"] = forward(name, known)["out"]
        if which == "reverse":
            known["logsumexp"] = forward(name, known)["logsumexp"]
        return reverse(name, known)

    fused._keeps.cache_clear()
    assert Otherwise.refuses(scores) is None
    fused._keeps.cache_clear()
    monkeypatch.setattr(fused, "forward", other_forward)
    monkeypatch.setattr(fused, "reverse", other_reverse)
    assert "another one" in str(Otherwise.refuses(scores))
    fused._keeps.cache_clear()


@pytest.mark.parametrize("kind", [Flash, Cudnn, Efficient, Overrideable])
def test_arguments_of_operators(kind: type[Fused]) -> None:
    """Tensors without memory go through an operator and its reverse: each finds its arguments by name."""
    for name, types in kind.operators.values():
        x = torch.empty(2, 3, 16, 24, dtype=types[-1], device="meta")
        known = {"query": x, "key": x, "value": x, "is_causal": True, "scale": 0.5}
        answer = fused.forward(name, known)
        assert answer["out"].shape == x.shape
        assert answer["logsumexp"].shape[:2] == x.shape[:2]
        assert [y.shape for y in fused.reverse(name, {**answer, "grad_out": x})] == [x.shape] * 3


def test_one_compilation_serves_every_potential(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch takes the functions of a pair whole, and numbers of a call are no reason to compile again."""
    graphs = []

    def backend(module: Any, _: Any) -> Any:
        graphs.append(module)
        return module.forward

    @functools.cache
    def compiled(_: str, function: Any) -> Any:
        return torch.compile(function, backend=backend, fullgraph=True)

    monkeypatch.setattr(flex, "_on", compiled)
    for cap in (0.7, 0.9):
        case = TERMS["mask"]._replace(options={"softcap": cap, "window": (3, 4)})
        drawn = Drawn(case, Flex, F32)
        for bias in (drawn.g, drawn.g + 1.0):
            for at, transposed in ((bias, False), (drawn.f, True)):
                found, expected = drawn.engine.lse(at, transposed), drawn.exact.lse(at.double(), transposed)
                open_ = expected > -torch.inf
                assert bool(((found.double() - expected)[open_].abs() <= 2.0 * drawn.lost).all())
    # Both ways, the blocks and the scores.
    assert len(graphs) == 4
