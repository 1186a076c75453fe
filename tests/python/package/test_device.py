"""`backend="torch"`, which serves tensors of any device, on CPU tensors against the library."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import otattn
import otattn.nn
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from otattn import Spec, _torch_device
from otattn._device import adjoint, call, solver
from otattn._device.blocks import Blocks
from otattn._device.scores import Scores
from otattn._settings import OPERANDS
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

ROWS = ["softmax", "sparsemax", "entmax:1.5", "entmax:1.2", "entmax:2.5"]
# No drawn number of rows fills all caps: then the gradient by a cap has two sides.
COUPLED = [
    "softmax/exact",
    "softmax/relaxed:0.7",
    "softmax/capped:1.6",
    "softmax/bounded:0.5,1.6",
    "softmax/elastic:0.4,5",
]
# Of each: the number of a Spec, and what may be a tensor instead.
NUMBERS = {
    "softmax/relaxed:0.7": ("strength",),
    "softmax/capped:1.6": ("cap",),
    "softmax/bounded:0.5,1.6": ("lower", "upper"),
    "softmax/elastic:0.4,5": ("strength",),
    "entmax:1.5": ("alpha",),
}
VALUES = {"cap": 1.6, "lower": 0.5, "upper": 1.6, "alpha": 1.5}
# Where the torch side of drawn calls lies: pytest --device cuda.
DEVICE = os.environ.get("OTATTN_DEVICE", "cpu")
# A unit of rounding of each type times what a short sum of products makes of it.
CLOSE = {torch.float64: 1e-7, torch.float32: 2e-4, torch.bfloat16: 4e-2, torch.float16: 6e-3}


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # So that windows of the small calls here take many blocks.
    monkeypatch.setattr("otattn._device.scores.BAND_ROWS", 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


class Case:
    """A drawn call: query, key, value, and its keywords, tensors among them."""

    def __init__(self, draw: st.DrawFn, methods: list[str], types: list[torch.dtype]) -> None:
        self.method = draw(st.sampled_from(methods))
        self.type = draw(st.sampled_from(types))
        generator = torch.Generator().manual_seed(draw(st.integers(0, 1 << 30)))
        batch, groups, each = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
        n, m = draw(st.integers(1, 7)), draw(st.integers(1, 8))
        width, values = draw(st.integers(1, 5)), draw(st.integers(1, 4))
        heads = groups * each

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator, dtype=torch.float64)

        self.arrays = [
            x.to(self.type)
            for x in (
                normal(batch, heads, n, width),
                normal(batch, groups, m, width),
                normal(batch, groups, m, values),
            )
        ]
        options: dict[str, Any] = {"enable_gqa": True, "max_rounds": 300}
        coupled = "/" in self.method
        kinds = (
            ["none", "lengths", "mask"]
            if coupled
            else ["none", "lengths", "mask", "causal", "window", "float"]
        )
        kind = draw(st.sampled_from(kinds))
        if kind == "lengths":
            options["key_lengths"] = torch.randint(1, m + 1, (batch,), generator=generator)
        elif kind in ("mask", "float"):
            mask = torch.rand((batch, 1, n, m), generator=generator) > 0.25
            if coupled:
                # A cross of pairs leaves every total possible.
                mask[..., 0], mask[..., 0, :] = True, True
            least = torch.finfo(self.type).min
            options["attn_mask"] = (
                mask if kind == "mask" else torch.full_like(mask, 0.3, dtype=self.type).where(mask, least)
            )
        elif kind == "causal":
            options["is_causal"] = True
            options["causal_align"] = draw(st.sampled_from(["top_left", "bottom_right"]))
        elif kind == "window":
            options["window"] = (draw(st.integers(-1, 3)), draw(st.integers(-1, 3)))
        terms = {
            "bias": lambda: normal(1, heads, n, m).to(self.type),
            "alibi_slopes": lambda: normal(heads).abs(),
            "relative_bias": lambda: normal(heads, n + m - 1),
            "temperature": lambda: 0.6 + normal(heads).abs(),
            "row_mass": lambda: 0.5 + normal(n).abs(),
            "softcap": lambda: 2.0,
            "cost": lambda: True,
            "sink": lambda: normal(heads),
        }
        if "exact" in self.method or "bounded" in self.method:
            # The sink needs masses that leave it a share.
            del terms["sink"]
        for name in draw(st.lists(st.sampled_from(sorted(terms)), max_size=3, unique=True)):
            options[name] = terms[name]()
        if "relative_bias" in options:
            options["relative_inside"] = draw(st.booleans())
        if coupled and "elastic" not in self.method and draw(st.booleans()):
            options["rounds"] = draw(st.integers(0, 4))
        if draw(st.booleans()):
            for name in NUMBERS.get(self.method, ()):
                value = 0.4 if "elastic" in self.method else VALUES.get(name, 0.7)
                options[name] = torch.tensor(value, dtype=torch.float64)
        if not coupled and draw(st.booleans()):
            options.update(dropout_p=0.4, dropout_seed=5, dropout_offset=draw(st.integers(0, 9)))
        if self.type == torch.float64:
            options["tolerance"] = 1e-12 if "bounded" not in self.method else 1e-10
        self.options = options
        shape = (batch, heads, n, values)
        self.upstream = normal(*shape), normal(batch, heads, m)

    def __repr__(self) -> str:
        shapes = [tuple(x.shape) for x in self.arrays]
        options = {n: tuple(x.shape) if isinstance(x, Tensor) else x for n, x in self.options.items()}
        return f"{self.method} {self.type} {shapes} {options}"

    def run(self, backend: str | None) -> tuple[Tensor, Any, dict[str, Tensor]]:
        """The output, what else there is, and gradients by name."""
        where = DEVICE if backend else "cpu"
        leaves = {
            name: x.to(where, copy=True).requires_grad_()
            for name, x in {**dict(zip("qkv", self.arrays, strict=True)), **self.options}.items()
            if isinstance(x, Tensor) and x.is_floating_point() and name != "attn_mask"
        }
        options = {
            name: leaves.get(name, x.to(where) if isinstance(x, Tensor) else x)
            for name, x in self.options.items()
        }
        out, aux = otattn.attention(
            leaves["q"],
            leaves["k"],
            leaves["v"],
            method=self.method,
            backend=backend,
            return_aux=True,
            **options,
        )
        by_out, by_receiver = self.upstream
        loss = (out.cpu().double() * by_out).sum()
        if "rounds" not in options and "dropout_p" not in options:
            loss = loss + (aux.receiver.cpu().double() * by_receiver).sum()
        grads = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        return out, aux, {name: x for name, x in zip(leaves, grads, strict=True) if x is not None}


@st.composite
def cases(draw: st.DrawFn, methods: list[str], types: list[torch.dtype]) -> Case:
    return Case(draw, methods, types)


def distance(x: Tensor, y: Tensor) -> float:
    """The largest difference, in units of the largest number, of what is finite in both."""
    x, y = x.detach().cpu().double(), y.detach().cpu().double()
    assert torch.equal(torch.isnan(x), torch.isnan(y))
    apart = (x - y).abs().where((x != y) & ~torch.isnan(x), 0.0)
    size = y.abs().where(torch.isfinite(y), 0.0)
    return float(apart.max() / size.max().clamp(min=1.0)) if x.numel() else 0.0


def compare(case: Case) -> None:
    close = CLOSE[case.type]
    try:
        out, aux, grads = case.run(None)
    except otattn.SolveError as error:
        if "positive weights" in str(error):
            # Pairs that no feasible plan can use are not looked for; whatever comes meets its tolerance.
            return
        with pytest.raises(otattn.SolveError):
            case.run("torch")
        return
    found, more, again = case.run("torch")
    assert found.dtype == out.dtype
    assert found.stride() == out.stride()
    assert distance(found, out) <= close
    assert more.info.status == aux.info.status
    assert distance(more.receiver, aux.receiver) <= close
    for name in ("entropy", "maximum", "sink"):
        assert distance(getattr(more.row_stats, name), getattr(aux.row_stats, name)) <= close
    if not any(rule in case.method for rule in ("exact", "capped", "bounded")):
        # There a constant may go from the rows' potentials to the columns'.
        assert distance(more.potentials.row, aux.potentials.row) <= 10.0 * close
    assert again.keys() == grads.keys()
    for name, x in grads.items():
        assert again[name].dtype == x.dtype
        assert distance(again[name], x) <= 5.0 * close, name


@given(cases(ROWS, [torch.float64]))
def test_free_columns(case: Case) -> None:
    compare(case)


@settings(max_examples=25)
@given(cases(COUPLED, [torch.float64]))
def test_coupled_columns(case: Case) -> None:
    compare(case)


@given(
    cases(
        ["softmax", "entmax:1.5", "softmax/exact", "softmax/capped:1.6"],
        [torch.float32, torch.bfloat16, torch.float16],
    )
)
def test_narrow_types(case: Case) -> None:
    # Gradients of rounded sums jump where bounds begin to bind.
    close = CLOSE[case.type]
    try:
        out, _, _ = case.run(None)
    except otattn.SolveError:
        return
    found, _, _ = case.run("torch")
    assert distance(found, out) <= close


@pytest.mark.parametrize("method", [*ROWS, *COUPLED])
def test_certificates(method: str) -> None:
    torch.manual_seed(1)
    q, k, v = (torch.randn(2, 2, n, 4, dtype=torch.float64) for n in (6, 7, 7))
    options: dict[str, Any] = {"method": method, "temperature": 0.7, "return_aux": True, "tolerance": 1e-12}
    _, aux = otattn.attention(q, k, v, **options)
    _, more = otattn.attention(q, k, v, backend="torch", **options)
    for name, x in aux.certificate.as_dict().items():
        y = more.certificate.as_dict()[name]
        assert x == pytest.approx(y, rel=1e-7, abs=1e-9, nan_ok=True), name
    p = otattn.coupling(q @ k.mT, backend="torch", **{**options, "return_aux": None})
    assert distance(p, otattn.coupling(q @ k.mT, **{**options, "return_aux": None})) <= 1e-9


@pytest.mark.parametrize("rounds", [None, 3])
@pytest.mark.parametrize("method", ["softmax/exact", "softmax/capped:1.3", "softmax/relaxed:1"])
def test_gradcheck(method: str, rounds: int | None) -> None:
    torch.manual_seed(3)
    leaves = [torch.randn(1, 1, n, 2, dtype=torch.float64, requires_grad=True) for n in (3, 4, 4)]

    def run(*x: Tensor) -> Any:
        return otattn.attention(*x, method=method, rounds=rounds, tolerance=1e-13, backend="torch:blocks")

    assert torch.autograd.gradcheck(run, leaves, rtol=1e-6, atol=1e-8)


def masses(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


EDGES: dict[str, tuple[str, dict[str, Any]]] = {
    "exact, sink": (
        "softmax/exact",
        {"column_mass": masses(0.5, 1, 0.3, 0.9, 0.6), "sink": masses(0.5, 1.0)},
    ),
    "exact, one sink": (
        "softmax/relaxed:0.7",
        {"temperature": masses(0.5, 0.9), "sink": masses(-torch.inf, 1.0)},
    ),
    "no sink": ("softmax", {"temperature": masses(0.5, 0.9), "sink": masses(-torch.inf, -torch.inf)}),
    "bounded, masses": ("softmax/bounded:0.5,1.6", {"row_mass": masses(0, 2, 0, 1)}),
    "relaxed, lengths": (
        "softmax/relaxed:0.7",
        {"key_lengths": torch.tensor([5, 2]), "column_mass": masses(1, 2, 1, 1, 1), "start_potential": 1.0},
    ),
    "lengths": ("softmax", {"key_lengths": torch.tensor([0, 3])}),
    "no keys": ("sparsemax", {"key_lengths": torch.tensor([0, 0])}),
    "relaxed, no keys": ("softmax/relaxed:0.7", {"key_lengths": torch.tensor([0, 3])}),
    "capped, one key": (
        "softmax/capped:1.6",
        {
            "key_lengths": torch.tensor([1, 1]),
            "start_potential": -1.3734050015215664,
            "row_mass": masses(0.9656, 0, 0.8156, 0),
            "column_mass": masses(1.6273, 1, 1, 1, 1),
        },
    ),
    "heads": ("entmax:1.5", {"row_mass": masses(1, 2, 1, 1, 0, 0, 1, 2).reshape(2, 4)}),
    "a start and rounds": (
        "softmax/capped:1.2",
        {"start_potential": -1.3, "rounds": 2, "temperature": masses(0.5, 0.9), "sink": masses(1.0, -1.0)},
    ),
    "not finite": ("softmax/exact", {"start_potential": torch.inf}),
    "low temperature": ("entmax:1.5", {"temperature": 1e-30}),
}


@pytest.mark.parametrize("name", EDGES)
def test_edges(name: str) -> None:
    torch.manual_seed(9)
    method, given_ = EDGES[name]
    options: dict[str, Any] = {**given_, "tolerance": 1e-12}
    if "start_potential" in options:
        options["start_potential"] = torch.full((2, 2, 5), options["start_potential"], dtype=torch.float64)
    arrays = [torch.randn(2, 2, n, 3, dtype=torch.float64) for n in (4, 5, 5)]
    up = torch.randn(2, 2, 4, 3, dtype=torch.float64)
    found = []
    for backend in (None, "torch:blocks"):
        named = dict(zip(("query", "key", "value"), arrays, strict=True)) | options
        leaves = {
            n: x.clone().requires_grad_()
            for n, x in named.items()
            if isinstance(x, Tensor) and x.is_floating_point() and n != "start_potential"
        }
        out, aux = otattn.attention(
            **{**named, **leaves}, method=method, backend=backend, return_aux="certificate"
        )
        grads = torch.autograd.grad((out * up).sum(), list(leaves.values()))
        found.append(([out, *grads], aux))
    for word, x, y in zip(("out", *leaves), found[1][0], found[0][0], strict=True):
        assert distance(x, y) <= 1e-7, word
    assert found[1][1].info.status == found[0][1].info.status
    if "temperature" in name:
        # Its numbers are beyond rounding.
        return
    for word, x in found[0][1].certificate.as_dict().items():
        assert found[1][1].certificate.as_dict()[word] == pytest.approx(x, rel=1e-6, abs=1e-8, nan_ok=True), (
            word
        )


@pytest.mark.parametrize(
    ("method", "rounds"),
    [
        *((rows, None) for rows in ("softmax", "entmax:1.5", "entmax:3", "entmax:0.5")),
        *itertools.product(
            ("softmax/exact", "softmax/capped:1.6", "softmax/bounded:0.5,1.6", "softmax/relaxed:0.7"),
            (None, 3),
        ),
    ],
)
@pytest.mark.parametrize("sink", [False, True])
def test_masses_of_0(method: str, rounds: int | None, sink: bool) -> None:
    """Derivatives are those of a mass that begins to grow, as the library has them in closed form."""
    coupled = "/" in method
    torch.manual_seed(10)
    x = [torch.randn(2, 2, n, 3, dtype=torch.float64) for n in (6, 5, 5)]
    up, receiver = torch.randn(2, 2, 6, 3, dtype=torch.float64), torch.randn(2, 2, 5, dtype=torch.float64)
    rows, keys = masses(1.1, 0, 0.9, 0, 1.3, 0.7), masses(0.8, 0, 1.2, 1.1, 0.9)
    options: dict[str, Any] = {"row_mass": rows}
    if coupled:
        options["column_mass"] = keys
    if sink and "column_mass" in options:
        options["column_mass"] = keys * (0.5 if method.endswith("exact") else 1.0)
    if sink:
        options["sink"] = masses(0.3, -0.4)
    found = []
    for backend in (None, "torch:blocks"):
        leaves = {n: y.clone().requires_grad_() for n, y in options.items()}
        out, aux = otattn.attention(
            *x,
            method=method,
            backend=backend,
            rounds=rounds,
            tolerance=1e-13 if coupled and rounds is None else None,
            return_aux="receiver" if coupled else "lse",
            is_causal=sink,
            **leaves,
        )
        loss = (out * up).sum() + ((aux.receiver * receiver).sum() if coupled else 0.0)
        found.append(torch.autograd.grad(loss, list(leaves.values())))
    for word, library, blocks in zip(options, *found, strict=True):
        assert distance(blocks, library) <= 1e-8, word


NAN = float("nan")


@pytest.mark.parametrize(
    ("error", "match", "method", "options"),
    [
        (ValueError, "row_mass", "softmax", {"row_mass": masses(1, -1, 1, 1)}),
        (ValueError, "column_mass", "softmax/relaxed:1", {"column_mass": masses(1, NAN, 1, 1)}),
        (ValueError, "strength", "softmax/elastic:0.5,3", {"strength": masses(1, 1, 2.5, 1)}),
        (ValueError, "key_lengths", "softmax", {"key_lengths": torch.tensor([7])}),
        (ValueError, "start_potential", "softmax", {"start_potential": torch.zeros(1, 1, 4)}),
        (
            ValueError,
            "start_potential",
            "softmax/exact",
            {"start_potential": torch.zeros(1, 1, 4), "rounds": 0},
        ),
        (otattn.Infeasible, "no key", "softmax/exact", {"key_lengths": torch.tensor([0])}),
        (otattn.Infeasible, "no key", "softmax/exact", {"key_lengths": torch.tensor([0]), "rounds": 2}),
        (
            otattn.Infeasible,
            "no query",
            "softmax/bounded:0.5,3",
            {"row_mass": masses(0, 0, 1, 0), "window": (0, 1), "column_mass": masses(1, 1, 1, 1)},
        ),
        (
            otattn.Infeasible,
            "positive column mass",
            "softmax/relaxed:1",
            {"column_mass": masses(0, 1, 1, 1), "is_causal": True, "rounds": 2},
        ),
        (
            otattn.Infeasible,
            "capacities|columns ask",
            "softmax/capped:0.5",
            {"sink": masses(-torch.inf)},
        ),
        (TimeoutError, "deadline", "sparsemax", {"deadline": 1e-9}),
        (TimeoutError, "deadline", "softmax/exact", {"deadline": 1e-9}),
    ],
)
def test_what_both_refuse(error: Any, match: str, method: str, options: Mapping[str, Any]) -> None:
    x = torch.randn(1, 1, 4, 3, dtype=torch.float64)
    for backend in (None, "torch:blocks"):
        with pytest.raises(error, match=match):
            otattn.attention(x, x, x, method=method, backend=backend, **options)


@pytest.mark.parametrize("name", ["query", "value"])
@pytest.mark.parametrize("method", ["softmax", "entmax:1.5", "softmax/exact", "softmax/capped:1.5"])
def test_gradients_of_what_is_not_finite(method: str, name: str) -> None:
    """Values spoil outputs, not the plan; gradients of such rows are NaN, by which losses are scaled."""
    torch.manual_seed(4)
    arrays = {n: torch.randn(1, 1, 4, 3, dtype=torch.float64) for n in ("query", "key", "value")}
    arrays[name][0, 0, 2, 1] = NAN
    found = []
    for backend in (None, "torch:blocks"):
        leaves = {n: x.clone().requires_grad_() for n, x in arrays.items()}
        out, aux = otattn.attention(
            **leaves, method=method, backend=backend, nonfinite="nan", return_aux="receiver"
        )
        grads = torch.autograd.grad(out.sum(), list(leaves.values()))
        found.append((out, aux, [bool(x.isnan().any()) for x in grads]))
    if "entmax" not in method:
        assert torch.equal(found[1][0].isnan(), found[0][0].isnan())
    if name == "value":
        assert found[1][1].info.nonfinite_rows == 4
        assert distance(found[1][1].receiver, found[0][1].receiver) <= 1e-8
    assert found[1][1].info.status == found[0][1].info.status
    assert found[1][2] == found[0][2]


# ---- citizens of torch -----------------------------------------------------------------------------


def test_compile_and_autocast() -> None:
    torch.manual_seed(2)
    q, k, v = (torch.randn(1, 2, 5, 4, requires_grad=True) for _ in range(3))

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return otattn.attention(q, k, v, method="softmax/exact", rounds=3, backend="torch") * 2.0

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    assert distance(compiled(q, k, v), run(q, k, v)) <= 1e-6
    compiled(q, k, v).sum().backward()
    assert q.grad is not None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert run(q, k, v).dtype == torch.bfloat16
    again = torch.utils.checkpoint.checkpoint(run, q, k, v, use_reentrant=False)
    assert distance(again, run(q, k, v)) == 0.0


def operands(**named: Any) -> dict[str, Any]:
    return dict.fromkeys(OPERANDS) | named


@pytest.mark.parametrize(
    "options",
    [{}, {"is_causal": True}, {"softcap": 3.0}, {"temperature": 0.5}, {"window": (3, 3)}, {"sink": 1.0}],
)
@pytest.mark.parametrize("method", ["softmax", "entmax:1.5", "softmax/capped:2", "softmax/elastic:0.4,5"])
def test_fixed_rounds_read_nothing(method: str, options: Mapping[str, Any]) -> None:
    """Tensors without memory stop whatever waits for a number of theirs."""
    spec = Spec(method, **options, **({"rounds": 4} if "capped" in method else {}))
    x = torch.empty(1, 2, 8, 4, device="meta")
    given_ = list(operands(query=x, key=x, value=x).values())
    out = torch.empty_like(x)
    call.solve_tensors(spec, given_, ["out"], "", [out])
    grads = call.gradients_of_tensors(spec, given_, (x, None, None), None, ["query", "key", "value"])
    assert [g.shape for g in grads] == [x.shape] * 3


class Largest(TorchDispatchMode):
    """The largest tensor that an operator makes."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for x in found if isinstance(found, (tuple, list)) else [found]:
            if isinstance(x, Tensor):
                self.bytes = max(self.bytes, x.untyped_storage().nbytes())
        return found


def test_no_pairs_are_stored() -> None:
    """Of 65,536 keys, forward and backward: nothing but blocks of pairs has the size of two dimensions."""
    torch.manual_seed(0)
    n, m = 16, 65536
    spec = Spec("softmax/exact", rounds=2, workspace_limit=6 << 20, backend="torch:blocks")
    query, key = torch.randn(1, 1, n, 2), torch.randn(1, 1, m, 2)
    given_ = list(operands(query=query, key=key, value=key).values())
    with Largest() as seen:
        call.solve_tensors(spec, given_, ["out"], "", [torch.empty(1, 1, n, 2)])
        call.gradients_of_tensors(spec, given_, (query, None, None), None, ["query", "key", "value"])
    assert seen.bytes <= 1 << 20 < n * m * 4


@pytest.mark.parametrize("method", ["softmax/exact", "entmax:1.5"])
def test_a_window_makes_its_pairs_alone(method: str) -> None:
    """Of 2,048 tokens in a window of 9: blocks as wide as the band of their rows, forward and backward."""
    torch.manual_seed(0)
    n = 2048
    spec = Spec(method, rounds=2 if "/" in method else None, window=(4, 4), backend="torch:blocks")
    x = torch.randn(1, 1, n, 2)
    given_ = list(operands(query=x, key=x, value=x).values())
    with Largest() as seen:
        call.solve_tensors(spec, given_, ["out"], "", [torch.empty(1, 1, n, 2)])
        call.gradients_of_tensors(spec, given_, (x, None, None), None, ["query", "key", "value"])
    assert seen.bytes <= n * 2 * 4 * 4


CALLS = {
    # Of a forward and of a backward: lse, attend, product, backward.
    "softmax": ((0, 1, 0, 0), (1, 0, 2, 1)),
    "softmax/elastic:0.4,5": ((10, 1, 0, 0), (11, 0, 13, 11)),
}


@pytest.mark.parametrize("method", CALLS)
def test_calls_of_the_engine(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("lse", "attend", "product", "backward")
    counts = dict.fromkeys(names, 0)

    def counted(name: str) -> Any:
        real = getattr(Blocks, name)

        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            counts[name] += 1
            return real(self, *args, **kwargs)

        return run

    for name in names:
        monkeypatch.setattr(Blocks, name, counted(name))
    x = torch.randn(1, 2, 8, 4, requires_grad=True)
    out = otattn.attention(x, x, x, method=method, backend="torch:blocks")
    assert tuple(counts.values()) == CALLS[method][0]
    counts.update(dict.fromkeys(names, 0))
    out.sum().backward()
    assert tuple(counts.values()) == CALLS[method][1]


@pytest.mark.parametrize(
    ("method", "options", "most"),
    [
        ("softmax/exact", {}, 12),
        ("softmax/exact", {"temperature": 0.3}, 60),
        ("softmax/capped:1.6", {"is_causal": True}, 40),
        ("softmax/relaxed:10", {}, 20),
        ("softmax/exact", {"window": (8, 8)}, 60),
    ],
)
def test_rounds_to_a_tolerance(method: str, options: Mapping[str, Any], most: int) -> None:
    """Causal caps took 358 plain rounds."""
    torch.manual_seed(0)
    q, k = (torch.randn(1, 2, 128, 32, dtype=torch.float64) for _ in range(2))
    scores = Scores(Spec(method, **options), operands(query=1.5 * q, key=k))
    found = solver.solve(Blocks(scores))
    assert found.status == 0
    assert found.rounds <= most


@pytest.mark.parametrize("method", ["bounded:0.8,1", "bounded:0.8,1.1", "bounded:1,1.3", "capped:6", "exact"])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_starts_on_one_side_of_the_kink(method: str, columns: int, dtype: torch.dtype) -> None:
    """A constant in the potential is free: no start is too far off, and none runs away."""
    torch.manual_seed(8)
    scores = torch.randn(5, columns, dtype=dtype)
    options = {"method": f"softmax/{method}", "backend": "torch"}
    right = otattn.coupling(scores, **options)
    for side in (1.167, -1.167, 60.0, -60.0):
        x = scores.clone().requires_grad_()
        start = side + 0.125 * torch.arange(columns, dtype=dtype)
        P, aux = otattn.coupling(x, **options, start_potential=start, return_aux="potentials")
        (P * torch.arange(P.numel(), dtype=dtype).reshape(P.shape)).sum().backward()
        assert (P - right).abs().max() <= (64e-5 if dtype == torch.float32 else 64e-9)
        assert x.grad is not None and torch.isfinite(x.grad).all()
        assert all(v.abs().max() <= 70.0 for v in aux.potentials)


def test_what_f32_does_not_reach() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 1, 24, 8) for _ in range(3))
    options: dict[str, Any] = {"method": "softmax/exact", "tolerance": 1e-9}
    _, aux = otattn.attention(q, k, v, backend="torch", return_aux="certificate", **options)
    assert aux.certificate.column_error <= 1e-6
    assert aux.info.column_error <= 1e-9


# ---- bad input -------------------------------------------------------------------------------------


def test_sentences() -> None:
    x = torch.randn(1, 1, 4, 3)
    with pytest.raises(ValueError, match="key and query lie on two devices"):
        otattn.attention(x, x.to("meta"), x)
    with pytest.raises(ValueError, match="wanted 'torch' or one of"):
        otattn.attention(x, x, x, backend="torch:none")
    with pytest.raises(ValueError, match="torch tensors"):
        otattn.attention(x.numpy(), x.numpy(), x.numpy(), backend="torch")
    with pytest.raises(MemoryError, match="workspace_limit"):
        otattn.attention(x, x, x, backend="torch:blocks", workspace_limit=8)
    with pytest.raises(otattn.NotConverged, match="rounds"):
        otattn.attention(x, x, x, method="softmax/exact", max_rounds=1, tolerance=1e-12, backend="torch")
    with pytest.raises(otattn.Infeasible, match="mass"):
        mass = torch.full((4,), 2.0)
        otattn.attention(x, x, x, method="softmax/exact", column_mass=mass, backend="torch")
    with pytest.raises(otattn.NotFinite):
        otattn.attention(x * float("nan"), x, x, method="softmax/exact", backend="torch")
    with pytest.raises(ValueError, match="column_mass"):
        otattn.attention(x, x, x, method="softmax/exact", sink=1.0, backend="torch")
    assert (
        distance(
            otattn.attention(x, x, x, method="hard/exact", backend="torch"),
            otattn.attention(x, x, x, method="hard/exact"),
        )
        == 0.0
    )


def test_describe() -> None:
    x = torch.randn(1, 1, 4, 3)
    assert "blocks on cpu" in otattn.describe(x, x, x, backend="torch:blocks")
    assert "a hard method" in otattn.describe(x, x, x, method="hard", backend="torch")
    assert otattn.describe(x, x, x) == otattn.Plan(x.numpy(), x.numpy(), x.numpy()).describe()


def test_systems_that_do_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adjoint, "STEPS", 0)
    x = torch.randn(1, 1, 5, 3, requires_grad=True)
    out = otattn.attention(x, x, x, method="softmax/exact", backend="torch")
    with pytest.raises(otattn.NotConverged, match="implicit gradient"):
        (out * torch.randn_like(out)).sum().backward()


# ---- fronts ----------------------------------------------------------------------------------------


def test_fronts() -> None:
    torch.manual_seed(4)
    x = torch.randn(2, 6, 8)
    module = otattn.nn.Attention(8, 2, batch_first=True, method="softmax/exact", backend="torch")
    plain = otattn.nn.Attention(8, 2, batch_first=True, method="softmax/exact")
    plain.load_state_dict(module.state_dict())
    assert distance(module(x, x, x)[0], plain(x, x, x)[0]) <= 1e-4
    packed = torch.randn(9, 4, 8)
    bounds = [0, 2, 9]
    options: dict[str, Any] = {"method": "softmax/capped:1.6", "is_causal": True}
    found = otattn.varlen_attention(packed, packed, packed, bounds, bounds, backend="torch", **options)
    assert distance(found, otattn.varlen_attention(packed, packed, packed, bounds, bounds, **options)) <= 1e-4
    spec = Spec("softmax/relaxed:1", backend="torch")
    scores = torch.randn(5, 6)
    assert (
        distance(otattn.coupling(scores, method=spec), otattn.coupling(scores, method="softmax/relaxed:1"))
        <= 1e-5
    )


def test_bf16_beside_torch() -> None:
    """At most twice the error of torch's own operator, both from f64."""
    torch.manual_seed(5)
    wide = [torch.randn(1, 4, 64, 32, dtype=torch.float64).bfloat16().double() for _ in range(3)]
    right = torch.nn.functional.scaled_dot_product_attention(*wide)
    narrow = [x.bfloat16() for x in wide]
    theirs = distance(torch.nn.functional.scaled_dot_product_attention(*narrow), right)
    assert distance(otattn.attention(*narrow, backend="torch"), right) <= 2.0 * theirs


@pytest.mark.parametrize("engine", ["blocks", "flash"])
def test_bf16_gradients_of_exact_columns(engine: str) -> None:
    """The system of their multipliers has constants in its kernel, to which rounding must not add."""
    torch.manual_seed(8)
    wide = [torch.randn(1, 2, 96, 32).bfloat16().float() for _ in range(3)]
    grads = []
    for arrays, backend in ((wide, None), ([x.bfloat16() for x in wide], f"torch:{engine}")):
        leaves = [x.clone().requires_grad_() for x in arrays]
        out = otattn.attention(*leaves, method="softmax/exact", backend=backend)
        out.square().sum().backward()
        grads.append([x.grad.float() for x in leaves if x.grad is not None])
    for x, y in zip(*grads, strict=True):
        assert float((x - y).abs().max() / y.abs().max()) <= 3e-2


def test_ranks_train_together(run_ranks: Callable[[str, int], None]) -> None:
    run_ranks("device_ddp_worker.py", 2)


@pytest.mark.parametrize("method", ["hard/exact", "entmax:1.5/exact", "softmax/prefix"])
def test_there_and_back(method: str, other_device: str) -> None:
    """What the library alone computes goes to the CPU, says so once, and comes back."""
    torch.manual_seed(6)
    here = [torch.randn(1, 2, 5, 4, requires_grad="hard" not in method) for _ in range(3)]
    there = [x.detach().to(other_device).requires_grad_(x.requires_grad) for x in here]
    expected = otattn.attention(*here, method=method)
    _torch_device._warned.clear()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        out = otattn.attention(*there, method=method)
        otattn.attention(*there, method=method)
    assert len([x for x in seen if "go there and back" in str(x.message)]) == 1
    assert out.device.type == other_device
    assert distance(out.cpu(), expected) == 0.0
    if "hard" not in method:
        expected.square().sum().backward()
        out.square().sum().backward()
        for x, y in zip(here, there, strict=True):
            assert x.grad is not None
            assert y.grad is not None
            assert distance(y.grad.cpu(), x.grad) == 0.0


def test_a_number_is_no_prohibition() -> None:
    x = torch.randn(1, 1, 4, 3)
    mask = torch.zeros(4, 4)
    mask[:, 0] = -1e9
    with pytest.warns(UserWarning, match="no prohibition"):
        otattn.attention(x, x, x, mask, method="softmax/exact", backend="torch")


_TRITON = """
import otattn, torch, warnings
warnings.simplefilter("ignore")
torch.manual_seed(0)
q, k, v = torch.randn(1, 4, 9, 16), torch.randn(1, 2, 7, 16), torch.randn(1, 2, 7, 5)
cases = [
    {"method": "softmax/exact", "rounds": 1, "temperature": 0.7, "key_lengths": torch.tensor([5])},
    {"is_causal": True, "softcap": 2.0, "alibi_slopes": torch.rand(4), "sink": torch.randn(4)},
    {"method": "entmax:1.5", "is_causal": True, "key_lengths": torch.tensor([5]), "temperature": 0.7},
    {"temperature": torch.tensor([0.5, 1.0, 2.0, 3.0]), "attn_mask": torch.randn(1, 1, 1, 7)},
]
for options in cases:
    found = []
    for backend in (None, "torch:triton"):
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        out = otattn.attention(*leaves, backend=backend, enable_gqa=True, **options)
        (out * torch.linspace(-1, 1, out.numel()).reshape(out.shape)).sum().backward()
        found.append([out.detach(), *(x.grad for x in leaves)])
    for x, y in zip(*found):
        apart = float((x - y).abs().max() / y.abs().max())
        assert apart <= 1e-5, (options, apart)
assert "engine triton" in otattn.describe(q, k, v, enable_gqa=True, backend="torch")
capped = otattn.Spec("softmax", softcap=2.0, backend="torch")
why = otattn.describe(q, k, v, enable_gqa=True, method=capped, temperature=torch.rand(4) + 0.5)
assert "not triton, which takes one temperature" in why
print("equal")
"""


def test_kernels_in_the_interpreter() -> None:
    """The whole call on kernels in Triton, which are tested by themselves elsewhere."""
    pytest.importorskip("triton")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    run = subprocess.run(
        [sys.executable, "-c", _TRITON], env=environment, capture_output=True, text=True, check=False
    )
    assert run.stdout.strip() == "equal", run.stderr
    x = torch.randn(1, 1, 4, 3)
    with pytest.raises(ValueError, match="'torch:triton', which does not run on cpu"):
        otattn.attention(x, x, x, backend="torch:triton")


@pytest.mark.parametrize("engine", ["blocks", "flash"])
@pytest.mark.parametrize("name", ["q", "k", "v"])
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"key_lengths": torch.tensor([5])}])
def test_what_is_not_finite(engine: str, name: str, options: Mapping[str, Any]) -> None:
    """Rows that use such a number are NaN, and no others."""
    torch.manual_seed(7)
    arrays = {x: torch.randn(1, 2, 6, 4) for x in "qkv"}
    arrays[name][0, 1, 3, 2] = torch.nan
    if "key_lengths" in options:
        arrays["k"][0, :, 5], arrays["v"][0, :, 5] = torch.inf, torch.nan
    found, expected = (
        otattn.attention(*arrays.values(), backend=backend, **options)
        for backend in (f"torch:{engine}", None)
    )
    assert bool(expected.isnan().any())
    assert distance(found, expected) <= 1e-5


@pytest.mark.parametrize("sink", [None, 0.5])
@pytest.mark.parametrize("size", [1e2, 1e4, -1e6])
@pytest.mark.parametrize("method", ["softmax", *COUPLED])
def test_a_common_size_of_a_row_loses_no_digits(method: str, size: float, sink: float | None) -> None:
    """Of scores that f32 holds, against f64: outputs, gradients, and the potentials with the size back in."""
    torch.manual_seed(3)
    rows = torch.tensor([1.0, -0.5, 1.25, 0.75, 2.0, 1.0, 0.25])[:, None]
    s, v, u = torch.randn(7, 9) + size * rows, torch.rand(9, 3) + 1.0, torch.randn(7, 3)
    options: dict[str, Any] = {"method": method, "sink": None if sink is None else sink + size}
    if method in COUPLED and "elastic" not in method:
        options["rounds"] = 12
    if sink is not None and method == "softmax/exact":
        options["column_mass"] = torch.full((9,), 0.5)
    found = []
    for kind in (torch.float32, torch.float64):
        leaves = [x.to(kind)[None, None].requires_grad_() for x in (s, v)]
        scores, values = leaves
        zero, zeros = values.new_zeros(1, 1, 7, 2), values.new_zeros(1, 1, 9, 2)
        out = otattn.attention(zero, zeros, values, scores, backend="torch:blocks", **options)
        by = torch.autograd.grad((out * u.to(kind)).sum(), leaves)
        aux = otattn.AuxRequest(potentials=True, row_stats=True)
        plan, more = otattn.coupling(scores.detach(), backend="torch:blocks", return_aux=aux, **options)
        results = (out, *by, plan, more.potentials.row, more.row_stats.maximum)
        found.append([x.detach().double() for x in results])
    for x, y in zip(*found, strict=True):
        assert float((x - y).abs().max()) <= 64.0 * 2.0**-24 * float(y.abs().max())


@pytest.mark.parametrize("engine", ["torch:blocks", "torch", None])
def test_a_sink_that_takes_all_leaves_gradients_of_0(engine: str | None) -> None:
    """What it leaves a row is less than f32 holds, and nothing is divided by that."""
    torch.manual_seed(5)
    leaves = [torch.randn(1, 1, 4, 3, requires_grad=True) for _ in range(3)]
    out = otattn.attention(*leaves, sink=200.0, backend=engine)
    assert all(bool((x == 0.0).all()) for x in torch.autograd.grad(out.sum(), leaves))
