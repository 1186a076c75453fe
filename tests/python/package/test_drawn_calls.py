"""Public functions with drawn arguments, right and wrong: a result, or a sentence that names an argument.

./dev fuzz goes on with more cases (fuzz/fuzz_fronts.py)."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import drawn_doors
import numpy as np
import otattn
import pytest
from drawn_calls import JUDGES, LEFT_OUT, Case, case, finding, fronts
from otattn import activations, analysis, cluster, flash, lap, moe, ot
from otattn._bounded import solve_bounded


def drive(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "fuzz" / "fuzz_fronts.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_drawn_calls_end_well(root: Path) -> None:
    done = drive(root, "--calls", "600", "--seed", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 600 calls" in done.stdout and " 0 wrong" in done.stdout


def test_every_function_is_drawn() -> None:
    """What no case calls is known by name."""
    public = {name for name in otattn.__all__ if type(getattr(otattn, name)).__name__ == "function"}
    known = fronts()
    drawn = {name.rsplit(".", 1)[1] for name in known}
    assert public - drawn == set(LEFT_OUT)
    assert {case(1, k, known).name for k in range(1500)} == set(known)


SQUARE = np.arange(4.0).reshape(2, 2)
HALF = np.full(2, 0.5)
PAIR = np.array([1.0, 2.0])
QUERY = np.arange(8.0).reshape(1, 1, 4, 2)
PACKED = np.arange(8.0).reshape(4, 1, 2)


@pytest.mark.parametrize("wrong", [["x"], PAIR, {}], ids=["list", "array", "dict"])
@pytest.mark.parametrize(
    "name",
    [
        *("rows", "axis", "solver", "backend", "causal_align", "method", "rounds", "max_rounds", "tolerance"),
        "scale",
    ],
)
def test_words_of_another_type_are_named(name: str, wrong: object) -> None:
    """What cannot name a call that is kept, nor be what is wanted."""
    for call in (
        lambda **more: otattn.coupling(SQUARE, **more),
        lambda **more: otattn.attention(QUERY, QUERY, QUERY, **more),
    ):
        with pytest.raises((TypeError, ValueError), match=rf"\b{name}\b"):
            call(**{name: wrong})


@pytest.mark.parametrize("name", ["is_causal", "cost", "allow_partial", "prune", "strict"])
def test_flags_are_true_or_false(name: str) -> None:
    with pytest.raises(TypeError, match=rf"{name} is array.*, wanted True or False"):
        otattn.coupling(SQUARE, **{name: PAIR})
    assert otattn.coupling(SQUARE, **{name: np.array(0)}).shape == (2, 2)


WHOLE: list[tuple[str, Callable[[Any], object]]] = [
    ("k", lambda x: moe.route(QUERY[0, 0], x)),
    ("k", lambda x: solve_bounded(SQUARE, x)),
    ("n_clusters", lambda x: cluster.BalancedKMeans(x, n_init=1, random_state=0).fit(SQUARE)),
    ("num_heads", lambda x: otattn.nn.Attention(2, x)),
    ("ignore_index", lambda x: activations.SparsemaxLoss(ignore_index=x)),
    ("heads", otattn.alibi_slopes),
]


@pytest.mark.parametrize(("name", "call"), WHOLE)
def test_whole_numbers_are_the_same_everywhere(name: str, call: Callable[[Any], object]) -> None:
    torch = pytest.importorskip("torch")
    for right in (2, 2.0, np.int8(2), np.float32(2.0), torch.tensor(2)):
        call(right)
    for wrong in (1.5, True, np.True_, "2", None, torch.tensor(True)):
        with pytest.raises(TypeError, match=rf"^{name} is .*, wanted a whole number"):
            call(wrong)


def layer(**more: Any) -> Any:
    return analysis.AttentionLayer(*4 * [np.eye(2)], **more)


CALLS = {
    "maxsim rule": ("rule", lambda: otattn.maxsim(SQUARE, SQUARE[None], rule=PAIR)),
    "maxsim inf": ("top_k", lambda: otattn.maxsim(SQUARE, SQUARE[None], top_k=float("inf"))),
    "maxsim nan": ("top_k", lambda: otattn.maxsim(SQUARE, SQUARE[None], top_k=float("nan"))),
    "assignment": ("maximize", lambda: otattn.linear_sum_assignment(SQUARE, PAIR)),
    "flash": ("backend", lambda: flash.flash_attn_func(*3 * [QUERY], backend=["cpu"])),
    "varlen flag": (
        "is_causal",
        lambda: otattn.varlen_attention(*3 * [PACKED], *2 * [[0, 4]], is_causal=PAIR),
    ),
    "varlen sides": (
        "window_size",
        lambda: otattn.varlen_attention(*3 * [PACKED], *2 * [[0, 4]], window_size=1.5),
    ),
    "dropout": ("dropout_p", lambda: otattn.varlen_attention(*3 * [PACKED], *2 * [[0, 4]], dropout_p=PAIR)),
    "route flag": ("certificate", lambda: moe.route(SQUARE, 1, certificate=PAIR)),
    "route start": ("potentials", lambda: moe.route(SQUARE, 1, potentials="x", method="soft")),
    "dim": ("dim", lambda: activations.entmax_bisect(SQUARE, dim=PAIR)),
    "support": ("return_support_size", lambda: activations.sparsemax(SQUARE, return_support_size=PAIR)),
    "orders": ("alpha", lambda: activations.entmax_bisect(np.ones((3, 4)), PAIR)),
    "cost of one": ("cost", lambda: lap.lapjvr(SQUARE.astype(complex))),
    "mass alone": ("a", lambda: ot.emd(2.5, HALF, SQUARE)),
    "mass type": ("b", lambda: ot.emd(HALF, HALF.astype(str), SQUARE)),
    "mass below 0": ("b", lambda: ot.emd(HALF, -HALF, SQUARE)),
    "mass without end": ("b", lambda: ot.emd(HALF, np.array([1e308, 0.0]), SQUARE)),
    "costs": ("M", lambda: ot.emd(HALF, HALF, SQUARE.astype(str))),
    "no columns": ("M", lambda: ot.solve(np.empty((2, 0)), unbalanced=1.0)),
    "no costs": ("M", lambda: ot.sinkhorn_unbalanced(HALF, HALF, np.empty((2, 0)), 1.0, 1.0)),
    "reg": ("reg", lambda: ot.sinkhorn_unbalanced(HALF, HALF, SQUARE, None, (1.0, 2.0))),
    "reg_m": ("reg_m", lambda: ot.sinkhorn_unbalanced(HALF, HALF, SQUARE, 1.0, float("nan"))),
    "teacher": ("n_iterations", lambda: ot.sinkhorn_knopp_teacher(SQUARE, 1.0, 1 << 70)),
    "identify list": ("capacity", lambda: analysis.identify(SQUARE, SQUARE, [8])),
    "identify flag": ("is_causal", lambda: analysis.identify(SQUARE, SQUARE, 8, PAIR)),
    "birkhoff tuple": ("capacity", lambda: analysis.birkhoff(np.eye(2), (None, "a"))),
    "birkhoff less": ("capacity", lambda: analysis.birkhoff(np.eye(2), -1)),
    "birkhoff more": ("capacity", lambda: analysis.birkhoff(np.eye(2), 1 << 70)),
    "birkhoff sums": ("coupling", lambda: analysis.birkhoff(SQUARE)),
    "gauge number": ("tolerance", lambda: analysis.gauge(SQUARE, tolerance="x")),
    "gauge word": ("rule", lambda: analysis.gauge(SQUARE, rule=["howard"])),
    "gauge empty": ("a", lambda: analysis.gauge(np.empty((2, 0)))),
    "hamming number": ("epsilon", lambda: analysis.hamming(HALF, HALF, "x")),
    "hamming word": ("solver", lambda: analysis.hamming(HALF, HALF, 1.0, PAIR)),
    "whole": ("max_rounds", lambda: analysis.hamming(HALF, HALF, 1.0, max_rounds=1.5)),
    "spread": ("spread", lambda: analysis.softmax_limits(3, None)),
    "strength": ("strength", lambda: analysis.rate_one_sided("x", 0.5, 0.0)),
    "scaling": ("rounds", lambda: analysis.scaling(SQUARE, HALF, HALF, 2.5)),
    "alibi": ("causal", lambda: analysis.alibi_bias(1.0, 2, 2, causal=PAIR)),
    "window": ("window", lambda: otattn.coupling(SQUARE, window=1.5)),
    "caps": ("entry_caps", lambda: otattn.coupling(SQUARE, method="softmax/elastic:1", entry_caps=0.75)),
    "log": ("log", lambda: ot.emd(HALF, HALF, SQUARE, log=PAIR)),
    "product": ("first", lambda: analysis.compose(SQUARE, np.empty((2, 0)))),
    "layer method": ("method", lambda: layer(method=1.5)),
    "layer order": ("method", lambda: layer(method="entmax:-1")),
    "layer heads": ("heads", lambda: layer(heads=None)),
    "layer base": ("rotary_base", lambda: layer(rotary_base="x")),
    "layer norm": ("norm", lambda: layer().block(SQUARE, norm=1.5)),
    "sampler method": ("method", lambda: ot.PlanSampler(PAIR)),
    "sampler reg": ("reg", lambda: ot.PlanSampler("sinkhorn", "x")),
    "sampler end": ("reg_m", lambda: ot.PlanSampler("sinkhorn", 1.0, float("inf"))),
    "sampler threads": ("num_threads", lambda: ot.PlanSampler("exact", num_threads=1.5)),
    "sampler seed": ("generator", lambda: ot.PlanSampler("exact", generator=-1)),
    "draws": ("batch_size", lambda: ot.PlanSampler("exact").sample_map(SQUARE, -1)),
    "labels": ("y0", lambda: ot.PlanSampler("exact").sample_plan_with_labels(SQUARE, SQUARE, 1.0)),
    "clusters": ("size_max", lambda: cluster.BalancedKMeans(1, size_max=1 << 70).fit(SQUARE)),
    "seed": ("random_state", lambda: cluster.BalancedKMeans(1, random_state=-1).fit(SQUARE)),
    "centres": ("init", lambda: cluster.BalancedKMeans(1, init=(None, "a")).fit(SQUARE)),
    "refine": ("refine", lambda: cluster.BalancedKMeans(1, refine=PAIR).fit(SQUARE)),
    "points": ("X", lambda: cluster.BalancedKMeans(1).fit(SQUARE * 1e300)),
    "rotation": ("width", lambda: analysis.rope_matrix(-2, 1.0)),
}


@pytest.mark.parametrize(("name", "call"), CALLS.values(), ids=CALLS)
def test_the_wrong_argument_is_named(name: str, call: Callable[[], object]) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"(?<!\w){name}(?!\w)"):
        call()


def test_modules_name_what_is_wrong() -> None:
    torch = pytest.importorskip("torch")
    x = torch.zeros(1, 2, 4)
    for name, wrong in (("embed_dim", 4.5), ("num_heads", None), ("kdim", -1), ("method", 3),
                        ("learn", "cap"), ("bias", torch.ones(2)), ("dropout", "x")):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=rf"\b{name}\b"):
            otattn.nn.Attention(**{"embed_dim": 4, "num_heads": 2, name: wrong})
    for name, wrong in (("query", None), ("key", x[..., :1]), ("value", x.double()), ("attn_mask", -1),
                        ("need_weights", torch.ones(2))):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=rf"\b{name}\b"):
            otattn.nn.Attention(4, 2)(**{"query": x, "key": x, "value": x, name: wrong})


def test_losses_and_plans_of_tensors() -> None:
    torch = pytest.importorskip("torch")
    x = torch.zeros(2, 2)
    with pytest.raises(TypeError, match=r"target has type torch\.float32"):
        activations.sparsemax_loss(x, torch.zeros(2))
    with pytest.raises(ValueError, match=r"alpha has shape \(2,\)"):
        activations.entmax_bisect(torch.zeros(2, 3), torch.tensor([1.2, 1.5]))
    with pytest.raises(TypeError, match=r"M has type torch\.complex64"):
        ot.emd(x[0] + 0.5, x[0] + 0.5, x.to(torch.complex64))
    with pytest.raises(TypeError, match="a is a tensor, but M is none"):
        ot.emd(x[0] + 0.5, HALF, SQUARE)
    plan, log = ot.sinkhorn(HALF, HALF, x.half(), 1.0, log=True)
    assert plan.tolist() == [[0.25, 0.25]] * 2 and log["certificate"].row_error < 1e-3


def test_more_than_there_is_gives_all() -> None:
    """Limits on how many results there may be are no sizes."""
    weights, _, rest = analysis.birkhoff(np.eye(3), 1 << 60)
    assert weights.tolist() == [1.0] and rest == 0.0
    scores = np.random.default_rng(0).standard_normal((4, 4))
    found = analysis.identify(scores, otattn.coupling(scores), 1 << 60)
    assert found[0].method.startswith("softmax")


def test_arrays_of_one_element_from_behind() -> None:
    """A stride below 0 that no dimension needs."""
    one = np.array([[1.0]])[:, ::-1][::-1]
    assert min(one.strides) < 0 and activations.budget_bisect(one, 1).tolist() == [[1.0]]


def test_masses_beyond_sums_are_refused_with_a_sentence() -> None:
    with pytest.raises(ValueError, match="head 0: row_mass or column_mass adds up to"):
        otattn.coupling(SQUARE, method="hard/exact", row_mass=HALF, column_mass=np.array([1e308, 1.0]))


@pytest.mark.parametrize(
    ("error", "wrong"),
    [
        (KeyError("x"), "KeyError"),
        (ValueError(""), "an exception without a sentence"),
        (ValueError("it is wrong"), "a sentence that names no argument"),
        (ValueError("x is 3\n\n\n"), "more than a sentence"),
        (ValueError("x is 3, wanted 2"), ""),
        (otattn.Infeasible("no plan meets the masses"), ""),
    ],
)
def test_what_is_a_finding(error: Exception, wrong: str) -> None:
    def call(x: int) -> None:
        raise error

    found = finding(Case("module.call", call, {"x": 3}))
    assert found.startswith(wrong) and bool(found) == bool(wrong)


def test_wrong_results_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones((2, 3))
    assert "rows miss 1" in finding(Case("m.softmax", lambda X: X, {"X": x}))
    assert finding(Case("m.softmax", lambda X: X / 3, {"X": x})) == ""
    assert finding(Case("m.other", lambda X: None, {"X": x})) == "no result"
    assert "not a matching" in JUDGES["linear_sum_assignment"](Case("m", len, {}), (np.zeros(2), np.ones(2)))


def test_a_process_that_dies_is_a_finding(root: Path, tmp_path: Path) -> None:
    """The driver tells its case, and goes on behind it."""
    script = tmp_path / "dies.py"
    script.write_text(
        f"import os, sys; sys.path.insert(0, {str(root / 'fuzz')!r})\n"
        "import fuzz_fronts as f\n"
        "f.drawn_calls.finding = lambda of, kept=f.drawn_calls.case(1, 2, f.drawn_calls.fronts()):"
        " os.abort() if str(of) == str(kept) else ''\n"
        "sys.argv = ['fuzz_fronts', '--calls', '5']\n"
        "sys.exit(f.main())\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert "FINDING 2: the process ended with -6" in done.stdout and " 5 calls" in done.stdout


def wrong_doors() -> dict[str, tuple[str, Callable[[], object]]]:
    """Calls of the doors that need torch, transformers or JAX, each with an argument that is wrong."""
    torch = pytest.importorskip("torch")
    from otattn import distributed, hf

    x, packed = torch.zeros(1, 1, 4, 2), torch.zeros(4, 1, 2)
    ends = [[0, 4], [0, 4]]
    plain = torch.nn.Linear(2, 2)

    def forward(query: Any = x, key: Any = x, **more: Any) -> object:
        return hf.attention_forward(plain, query, key, x, None, **more)

    def varlen(query: Any = packed, **more: Any) -> object:
        return distributed.varlen_attention(query, packed, packed, *ends, **more)

    return {
        "hf name": ("method", lambda: hf.implementation_name(None)),  # type: ignore[arg-type]
        "hf prefix": ("prefix", lambda: hf.implementation_name("softmax", 1.5)),  # type: ignore[arg-type]
        "hf forward method": ("method", lambda: forward(method=[1.0])),
        "hf forward options": ("options has 'words'", lambda: forward(options={"words": 1})),
        "hf forward more": ("ota_options", lambda: forward(ota_options=2.5)),
        "hf forward tensor": ("ota_options", lambda: forward(ota_options=torch.ones(2))),
        "hf query": ("query", lambda: forward(None)),
        "hf key": ("key", lambda: forward(key=x[0])),
        "hf set": ("model", lambda: hf.set_attention(1.5, "softmax")),  # type: ignore[arg-type]
        "hf set method": ("method", lambda: hf.set_attention(plain, None)),  # type: ignore[arg-type]
        "hf set options": ("options has 'words'", lambda: hf.set_attention(plain, "softmax", words=1)),
        "hf layers": ("layers", lambda: hf.set_attention(plain, "softmax", 1.5)),  # type: ignore[arg-type]
        "ranks query": ("query", lambda: distributed.attention(None, x, x)),
        "ranks value": ("value", lambda: distributed.attention(x, x, x.numpy())),
        "ranks group": ("group", lambda: distributed.attention(x, x, x, group=3)),  # type: ignore[arg-type]
        "ranks packed": ("query", lambda: varlen(packed.numpy())),
        "ranks packed group": ("group", lambda: varlen(group=3)),
        "ranks keys": ("keys", lambda: varlen(keys=[1.0])),
        "ranks shares": ("shares", lambda: distributed.rows_of(4, shares=[])),  # type: ignore[arg-type]
        **{
            f"ranks total {total}": ("total", lambda total=total: distributed.rows_of(total))  # type: ignore[misc]
            for total in (None, -1, 1.5, float("inf"), "7", torch.ones(2))
        },
        "mass of objects": (
            "row_mass",
            lambda: otattn.attention(x, x, x, row_mass=np.full(4, 0.25).astype(object)),
        ),
        "lengths": ("key_lengths", lambda: otattn.attention(x, x, x, key_lengths="x")),
        "ignored class": ("ignore_index", lambda: activations.SparsemaxLoss(ignore_index=(1, 2))),
        "reduction": ("reduction", lambda: activations.SparsemaxLoss(reduction=np.ones(2))),
    }


def test_wrong_arguments_of_doors_are_named() -> None:
    for what, (name, call) in wrong_doors().items():
        with pytest.raises((TypeError, ValueError)) as caught:
            call()
        assert re.search(rf"\b{name}(?!\w)", str(caught.value)), (what, str(caught.value))


def test_registering_names_what_is_wrong() -> None:
    pytest.importorskip("transformers")
    from otattn import hf

    for name, call in (
        ("method", lambda: hf.register(None)),  # type: ignore[arg-type]
        ("prefix", lambda: hf.register("softmax", prefix=1.5)),  # type: ignore[arg-type]
        ("options has 'words'", lambda: hf.register("softmax", words=1)),
    ):
        with pytest.raises(TypeError, match=name):
            call()  # type: ignore[no-untyped-call]


def test_jax_names_what_is_no_array() -> None:
    pytest.importorskip("jax")
    import otattn.jax as front

    foreign = HALF.astype(HALF.dtype.newbyteorder())
    x = QUERY.astype("f4")
    for name, call in (
        ("query", lambda: front.attention("an array", x, x)),
        ("key", lambda: front.attention(x, None, x)),
        ("sink", lambda: front.attention(x, x, x, sink="")),
        ("scores", lambda: front.coupling([[1.0], [1.0, 2.0]])),
        ("row_mass", lambda: front.coupling(SQUARE, row_mass=foreign, method="softmax/exact")),
        ("x", lambda: front.sinkhorn_normalize(SQUARE.astype(object))),
    ):
        with pytest.raises(TypeError, match=rf"^{name} is "):
            call()


@pytest.mark.parametrize("name", ["numpy", "torch", "jax.numpy"])
def test_no_pairs_of_any_rank(name: str) -> None:
    """Leading dimensions are one to the library; a size of 0 behind them must not make that size unknown."""
    x = pytest.importorskip(name).zeros((2, 2, 1, 0, 3))
    front = otattn
    if name.startswith("jax"):
        import otattn.jax as front  # type: ignore[no-redef]
    assert tuple(front.attention(x, x, x).shape) == (2, 2, 1, 0, 3)
    assert tuple(front.coupling(x).shape) == (2, 2, 1, 0, 3)


@pytest.mark.parametrize(
    "found", [None, "x", 1j, np.ones(2), 1 << 2000], ids=["none", "word", "complex", "array", "long"]
)
def test_results_of_a_regularisers_functions_are_numbers(found: object) -> None:
    wrong = otattn.Regulariser(lambda x: found, lambda x: 1.0)  # type: ignore[arg-type, return-value]
    with pytest.raises(TypeError, match=r"^weight gave .*, wanted a number$"):
        otattn.coupling(SQUARE, method=wrong)
    slope = otattn.Regulariser(lambda x: max(x, 0.0), lambda x: found)  # type: ignore[arg-type, return-value]
    with pytest.raises(TypeError, match=r"^slope gave .*, wanted a number$"):
        otattn.Plan(QUERY, QUERY, QUERY, method=slope, gradients=True)


def test_doors_that_are_missing_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(drawn_doors.NEEDS, "otattn.jax", "a_package_that_nobody_has")
    assert drawn_doors.lacking() == {"otattn.jax": "a_package_that_nobody_has"}
    assert not any(name.startswith("otattn.jax") for name in drawn_doors.calls())
