"""`otattn certify`: perturbation bounds held against plans of other solvers, and couplings made by torch,
POT and entmax traced back to their method and parameters."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import entmax
import numpy as np
import ot
import pytest
import spec
import torch
from program import U32, answer, run, save


def scaled(scores: np.ndarray, tau: float) -> np.ndarray:
    """The doubly stochastic plan by plain alternating scaling, rows last."""
    log = scores / tau
    for _ in range(20000):
        log = log - np.logaddexp.reduce(log, 0)
        log = log - np.logaddexp.reduce(log, 1)[:, None]
        if np.abs(np.exp(log).sum(0) - 1).max() < 1e-14:
            break
    return np.exp(log)


def softmax(scores: np.ndarray, tau: float) -> np.ndarray:
    return torch.softmax(torch.tensor(scores / tau), -1).numpy()


# ---- --perturbed -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["softmax/exact", "softmax"])
def test_bounds_hold_and_figures_are_right(tmp_path: Path, method: str) -> None:
    generator = np.random.default_rng(1)
    for _ in range(8):
        n, tau = int(generator.integers(2, 9)), float(generator.uniform(0.3, 2))
        s, v = generator.normal(size=(n, n)), generator.normal(size=(n, 3))
        t = s + generator.normal(size=(n, n)) * 10.0 ** generator.uniform(-2, 0.5)
        w = v + 0.1 * generator.normal(size=(n, 3))
        save(tmp_path, s=s, t=t, v=v, w=w)
        told = answer(
            tmp_path, "certify", "--scores", "s.npy", "--perturbed", "t.npy", "--values", "v.npy",
            "--perturbed-values", "w.npy", "--temperature", tau, "--method", method,
            "--tolerance", "1e-12", "--max-rounds", "100000",
        )  # fmt: skip
        solve = scaled if method == "softmax/exact" else softmax
        p, q = solve(s, tau), solve(t, tau)
        spec.check("CETA-16", abs(told["l1"] - np.abs(p - q).sum()), 1e-9)
        moved = np.linalg.norm(p @ v - q @ w, axis=1).max()
        spec.check("CETA-17", abs(told["output_change"] - moved), 1e-9)
        sup = np.abs(s - t).max()
        spec.check("CETA-16", abs(told["bound_printed"] - n * sup / tau), 1e-12 * n * sup / tau)
        printed = np.linalg.norm(v - w, axis=1).max() + n * sup / tau * np.linalg.norm(w, axis=1).max()
        spec.check("CETA-17", abs(told["output_bound_printed"] - printed), 1e-12 * printed)
        apart = max(float(np.linalg.norm(x - y)) for x in w for y in w)
        spec.check("DER-19", abs(told["values_diameter"] - apart), 1e-12 * apart)
        spec.check("DER-17 DER-18", told["l1"] - told["bound"], 1e-9)
        spec.check("DER-19", told["output_change"] - told["output_bound"], 1e-9)
        spec.check("DER-17 DER-18", told["bound"] - told["bound_printed"], 1e-12 * told["bound"])
        if method == "softmax/exact":
            sharp = 2 * n * np.tanh(told["residual"] / (2 * tau))
            spec.check("DER-17", abs(told["bound"] - sharp), 1e-12 * sharp)
            spec.check("CETA-18", abs(told["energy"] - ((s - t) * (p - q)).sum()), 1e-8)
        else:
            assert told["residual"] is None
            osc = np.ptp(s - t, axis=1)
            spec.check("DER-18", abs(told["bound"] - 2 * np.tanh(osc / (4 * tau)).sum()), 1e-12 * n)


@pytest.mark.parametrize("n", [2, 3, 7])
def test_sharp_bound_is_attained_on_cycles(tmp_path: Path, n: int) -> None:
    """Scores on the identity and on a cyclic shift, everything else far below, moved apart."""
    one, other = np.eye(n), np.roll(np.eye(n), 1, axis=1)
    base = np.where(one + other > 0, 0.0, -60.0)
    save(tmp_path, s=base + 0.5 * (one - other), t=base - 0.5 * (one - other))
    told = answer(tmp_path, "certify", "--scores", "s.npy", "--perturbed", "t.npy", "--tolerance", "1e-12")
    spec.check("DER-17 CETA-32", 0.999999 - told["ratio"], 0.0)
    spec.check("DER-17", told["ratio"], 1 + 1e-9)


def test_no_ratio_below_what_plans_are_solved_to(tmp_path: Path) -> None:
    """Shifts of rows and columns move no plan with exact columns: both sides are errors of the solver."""
    s = np.random.default_rng(5).normal(size=(6, 6))
    moved = s + np.arange(6)[None] + 0.2 * np.arange(6)[:, None]
    save(tmp_path, s=np.stack([s, s]), t=np.stack([moved, moved + 0.1 * np.sin(7 * s)]))
    flags = ("certify", "--scores", "s.npy", "--perturbed", "t.npy")
    told = answer(tmp_path, *flags, "--per-head")
    assert told["heads"][0]["ratio"] is None and told["heads"][0]["l1"] < 6e-8
    assert told["head"] == 1 and 0 < told["ratio"] <= 1
    save(tmp_path, s=s, t=moved)
    assert answer(tmp_path, *flags)["ratio"] is None
    said = run(tmp_path, *flags).stdout.decode()
    assert "nearer to 0 than the plans are solved, to 6e-08" in said and "%" not in said


def test_masked_pairs_heads_and_rules(tmp_path: Path) -> None:
    generator = np.random.default_rng(2)
    s = generator.normal(size=(3, 6, 6))
    t = s + generator.normal(size=s.shape) * np.array([0.1, 1.0, 3.0])[:, None, None]
    s[:, 0, 4:] = t[:, 0, 4:] = -np.inf
    save(tmp_path, s=s, t=t, v=generator.normal(size=(6, 2)))
    for method in ["softmax/exact", "softmax/relaxed:0.5", "softmax/capped:1.2", "softmax"]:
        told = answer(
            tmp_path, "certify", "--scores", "s.npy", "--perturbed", "t.npy", "--values", "v.npy",
            "--method", method, "--per-head",
        )  # fmt: skip
        assert told["residual"] is None and len(told["heads"]) == 3
        assert told["ratio"] == max(head["ratio"] for head in told["heads"])
        for head in told["heads"]:
            spec.check("DER-18", head["l1"] - head["bound"], 1e-7)
            spec.check("DER-19", head["output_change"] - head["output_bound"], 1e-7)


def test_what_perturbation_refuses(tmp_path: Path) -> None:
    s = np.arange(12.0).reshape(3, 4)
    nan, half = s.copy(), s.copy()
    nan[0, 1], half[2, 2] = np.nan, -np.inf
    save(tmp_path, s=s, nan=nan, half=half, short=s[:2], v=np.ones((4, 2)), odd=np.ones((5, 2)), one=s[0])
    pair = ("--scores", "s.npy", "--perturbed", "s.npy")
    rows: dict[tuple[str, ...], tuple[str, str]] = {
        (): ("needs --perturbed T or --coupling P", "coupling"),
        ("--perturbed", "s.npy"): ("needs the scores", "scores"),
        (*pair, "--coupling", "s.npy"): ("different certificates", "coupling"),
        ("--scores", "s.npy", "--perturbed", "short.npy"): ("different shapes", "perturbed"),
        ("--scores", "s.npy", "--perturbed", "nan.npy"): ("entry 1 is 1 in the scores and nan", "perturbed"),
        ("--scores", "half.npy", "--perturbed", "s.npy"): ("entry 10 is -inf", "scores"),
        ("--scores", "one.npy", "--perturbed", "one.npy"): ("1 dimensions", "scores"),
        (*pair, "--values", "odd.npy"): ("do not fit", "values"),
        (*pair, "--perturbed-values", "v.npy"): ("needs --values", "values"),
        (*pair, "--causal"): ("--causal would change them", "causal"),
        (*pair, "--temperature", "-1"): ("-1", "temperature"),
    }
    for words, (part, field) in rows.items():
        told = answer(tmp_path, "certify", *words, code=2)
        assert part in told["error"] and told["field"] == field and told["status"] == "invalid", told
    told = answer(tmp_path, "certify", *pair, "--method", "sparsemax", code=2)
    assert told["status"] == "unsupported" and "no perturbation bound is known for sparsemax" in told["error"]
    told = answer(tmp_path, "certify", "--scores", "gone.npy", "--perturbed", "s.npy", code=6)
    assert told["field"] == "scores"


# ---- --coupling --------------------------------------------------------------------------------------


def judged(folder: Path, scores: np.ndarray, coupling: np.ndarray, *words: Any) -> dict[str, Any]:
    save(folder, scores=scores, coupling=coupling)
    return answer(folder, "certify", "--scores", "scores.npy", "--coupling", "coupling.npy", *words)


def named(text: str) -> tuple[str, dict[str, float]]:
    """softmax/relaxed:0.7{temperature=0.1}: the method, and its numbers in order of appearance."""
    method = re.sub(r"[:=][0-9.e+-]+", "", text.partition("{")[0])
    numbers = re.findall(r"([a-z]+)[:=]([0-9][0-9.e+-]*)", text)
    return method, {word: float(value) for word, value in numbers}


GENERATOR = np.random.default_rng(3)
SCORES = GENERATOR.normal(size=(18, 22))
COST = GENERATOR.uniform(size=(20, 20))
ONES = np.ones(20)


def by_entmax(function: Any, tau: float, **more: Any) -> np.ndarray:
    return function(torch.tensor(SCORES / tau), dim=-1, **more).numpy()


# name: scores, coupling, flags, the method and its parameters, how near its plan must come
FOREIGN: dict[str, tuple[np.ndarray, np.ndarray, tuple[str, ...], str, dict[str, float], float]] = {
    "torch softmax f64": (SCORES, softmax(SCORES, 0.37), (), "softmax", {"temperature": 0.37}, 1e-13),
    "torch softmax f32": (
        SCORES.astype(np.float32), softmax(SCORES.astype(np.float32), 0.5), (), "softmax",
        {"temperature": 0.5}, 16 * U32,
    ),
    "torch softmax over queries": (
        SCORES, torch.softmax(torch.tensor(SCORES), 0).numpy(), (), "softmax", {"temperature": 1}, 1e-13,
    ),
    "POT sinkhorn": (
        COST, ot.sinkhorn(ONES / 20, ONES / 20, COST, 0.05, stopThr=1e-14, numItermax=100000), ("--cost",),
        "softmax/exact", {"temperature": 0.05}, 1e-8,
    ),
    "POT unbalanced": (
        COST,
        ot.unbalanced.sinkhorn_unbalanced(
            ONES, ONES, COST, 0.1, (0.7, 0.3), reg_type="entropy", stopThr=1e-15, numItermax=100000
        ),
        ("--cost",), "softmax/relaxed", {"temperature": 0.1, "relaxed": 0.7}, 1e-8,
    ),
    "POT semi-relaxed": (
        COST,
        ot.unbalanced.sinkhorn_unbalanced(
            ONES, ONES, COST, 0.1, (float("inf"), 0.4), reg_type="entropy", stopThr=1e-15, numItermax=100000
        ),
        ("--cost",), "softmax/relaxed", {"temperature": 0.1, "relaxed": 0.4}, 1e-8,
    ),
    "POT exact": (COST, ot.emd(ONES / 20, ONES / 20, COST), ("--cost",), "hard/exact", {}, 1e-14),
    "entmax 1.5": (
        SCORES, by_entmax(entmax.entmax15, 0.8), (), "entmax", {"entmax": 1.5, "temperature": 0.8}, 1e-12,
    ),
    "sparsemax": (SCORES, by_entmax(entmax.sparsemax, 1.6), (), "sparsemax", {"temperature": 1.6}, 1e-12),
    "entmax 1.3": (
        SCORES, by_entmax(entmax.entmax_bisect, 1.0, alpha=1.3, n_iter=90), (), "entmax",
        {"entmax": 1.3, "temperature": 1.0}, 1e-12,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_couplings_are_traced(tmp_path: Path, name: str) -> None:
    scores, coupling, flags, method, numbers, near = FOREIGN[name]
    told = judged(tmp_path, scores, coupling, *flags)
    found, found_numbers = named(told["method"])
    assert found == method, told["fits"]
    for word, value in numbers.items():
        if name == "POT unbalanced" and word == "relaxed":
            assert "relaxed:0.3{" in told["method"] and "rows=relaxed:0.7" in told["method"]
            continue
        # The printed decimal is the one that was put in.
        assert found_numbers[word] == value, told["method"]
    assert told["fits"][0]["explains"] and told["fits"][0]["method"] == told["method"]
    assert told["distance"] <= near
    assert not told["ambiguous"] and told["temperature_known"] == ("temperature" in numbers)
    distances = [fit["distance"] for fit in told["fits"][1:]]
    assert distances == sorted(distances) and all(distance > 1e-3 for distance in distances)


OWN = [
    "softmax/exact", "softmax/relaxed:0.3", "softmax/capped:1.1", "softmax/elastic:0.3,3",
    "softmax/elastic:1,2", "softmax/online:1.4", "entmax:1.5/exact", "entmax:1.7/capped:1.2",
    "sparsemax/relaxed:0.4", "hard", "hard/exact", "hard/capped:1.5",
]  # fmt: skip


@pytest.mark.parametrize("method", OWN)
@pytest.mark.parametrize("flags", [(), ("--window", "9,9", "--alibi", "0.1")])
def test_own_plans_are_traced(tmp_path: Path, method: str, flags: tuple[str, ...]) -> None:
    scores = np.random.default_rng(4).normal(size=(2, 18, 18))
    save(tmp_path, scores=scores)
    words = ("--temperature", "0.4", "--tolerance", "1e-11", "--max-rounds", "100000", *flags)
    answer(tmp_path, "plan", "scores.npy", "-o", "coupling.npy", "--method", method, *words)
    told = judged(tmp_path, scores, np.load(tmp_path / "coupling.npy"), *flags)
    expected = method if method.startswith("hard") else f"{method}{{temperature=0.4}}"
    assert told["method"] == expected, told["fits"]
    spec.check("DER-27", told["distance"], 1e-7)


@pytest.mark.parametrize("method", ["softmax/exact", "softmax/relaxed:0.7", "entmax:1.5/exact", "hard/exact"])
@pytest.mark.parametrize("said", ["nothing", "both"])
def test_plans_of_uneven_masses_are_traced(tmp_path: Path, method: str, said: str) -> None:
    generator = np.random.default_rng(9)
    scores = generator.normal(size=(12, 10))
    save(
        tmp_path,
        scores=scores,
        a=generator.dirichlet(2 * np.ones(12)),
        b=generator.dirichlet(2 * np.ones(10)),
    )
    masses = ("--row-mass", "a.npy", "--column-mass", "b.npy")
    words = ("--temperature", "0.5", "--tolerance", "1e-11", "--max-rounds", "100000", *masses)
    answer(tmp_path, "plan", "scores.npy", "-o", "coupling.npy", "--method", method, *words)
    told = judged(tmp_path, scores, np.load(tmp_path / "coupling.npy"), *(masses if said == "both" else ()))
    expected = method if said == "both" else re.sub("relaxed:0.7", "exact", method)
    assert told["method"] == (expected if method.startswith("hard") else f"{expected}{{temperature=0.5}}")
    assert told["distance"] <= 1e-7 and told["certificate"]["row_error"] <= 1e-7
    assert all(0 <= fit["distance"] <= 2 for fit in told["fits"])
    own = said != "both"
    assert (told["fits"][0]["own_row_mass"], told["fits"][0]["own_column_mass"]) == (own, own)
    assert any("own sums of rows and columns" in warning for warning in told["warnings"]) == own
    done = run(tmp_path, "certify", "--scores", "scores.npy", "--coupling", "coupling.npy")
    assert b"rows and columns" in done.stdout and b"row + column" not in done.stdout


def test_no_masses_of_columns_for_rules_without_any(tmp_path: Path) -> None:
    """Column masses that a search may use are no obstacle where free columns explain the plan."""
    save(tmp_path, b=np.linspace(1, 2, 22))
    told = judged(tmp_path, SCORES, softmax(SCORES, 0.5), "--column-mass", "b.npy")
    assert told["method"] == "softmax{temperature=0.5}" and told["distance"] <= 1e-13


def test_divergences_and_open_temperatures(tmp_path: Path) -> None:
    p, q = softmax(SCORES, 0.5), softmax(SCORES, 0.6)
    told = judged(tmp_path, SCORES, q, "--method", "softmax", "--temperature", "0.5")
    expected = float((q * np.log(q / p)).sum() / 18)
    spec.check("DER-27", abs(told["divergence_nats"] - expected), 1e-12)
    # Permutations that are no plan of these scores: their pairs have row and column effects for any scores.
    said = 0
    for seed in range(6):
        chosen = np.eye(7)[np.random.default_rng(seed).permutation(7)]
        told = judged(tmp_path, SCORES[:7, :7], chosen)
        assert not told["scores_add"]
        text = run(tmp_path, "certify", "--scores", "scores.npy", "--coupling", "coupling.npy").stdout
        assert b"row + column" not in text
        said += b"too few to tell the temperature" in text
    assert said > 0


def test_prefix_plans_are_traced(tmp_path: Path) -> None:
    scores = np.random.default_rng(8).normal(size=(12, 15))
    save(tmp_path, scores=scores)
    answer(tmp_path, "plan", "scores.npy", "-o", "p.npy", "-m", "prefix", "-t", "0.4", "--tolerance", "1e-11")
    told = judged(tmp_path, scores, np.load(tmp_path / "p.npy"))
    assert told["method"] == "softmax/prefix{temperature=0.4}", told["fits"]
    assert told["certificate"]["gap"] is None and told["distance"] <= 1e-7


def test_a_named_method_is_judged(tmp_path: Path) -> None:
    """gap = what the coupling loses to the best plan, for couplings that meet rows and columns."""
    scores = np.random.default_rng(5).normal(size=(9, 9))
    best, uniform = scaled(scores, 0.5), np.full((9, 9), 1 / 9)

    def loss(plan: np.ndarray) -> float:
        return float((0.5 * plan * (np.log(plan) - 1) - plan * scores).sum())

    for coupling in [best, uniform, 0.5 * best + 0.5 * uniform]:
        told = judged(tmp_path, scores, coupling, "--method", "softmax/exact", "--temperature", "0.5")
        certificate = told["certificate"]
        spec.check("DER-27", abs(certificate["gap"] - (loss(coupling) - loss(best))), 1e-9)
        spec.check("DER-27", abs(certificate["row_error"] - np.abs(coupling.sum(1) - 1).sum() / 9), 1e-15)
        spec.check("DER-27", abs(certificate["column_error"] - np.abs(coupling.sum(0) - 1).sum() / 9), 1e-15)
        spec.check("DER-27", abs(told["distance"] - np.abs(coupling - best).sum() / 9), 1e-8)
        assert "fits" not in told
    off = judged(tmp_path, scores, softmax(scores, 0.5), "--method", "softmax/exact", "--temperature", "0.5")
    assert off["certificate"]["column_error"] > 0.1


def test_one_way_out_of_ambiguity(tmp_path: Path) -> None:
    """Where several methods give the same plan, all are named, fewest parameters first."""
    rows = np.add.outer(np.arange(5.0), np.arange(6.0))
    told = judged(tmp_path, rows, np.full((5, 6), 1 / 6))
    assert told["temperature_known"] is False and told["method"].startswith("softmax/exact")
    turns = 2 * np.pi * np.arange(3) / 3
    cyclic = np.cos(np.subtract.outer(turns, turns))
    told = judged(tmp_path, cyclic, softmax(cyclic, 0.3))
    assert told["ambiguous"] and told["method"] == "softmax{temperature=0.3}"
    assert "softmax/exact{temperature=0.3}" in [fit["method"] for fit in told["fits"] if fit["explains"]]
    told = judged(tmp_path, SCORES, np.random.default_rng(6).uniform(size=SCORES.shape))
    assert not any(fit["explains"] for fit in told["fits"])
    done = run(tmp_path, "certify", "--scores", "scores.npy", "--coupling", "coupling.npy")
    assert b"No method explains this coupling." in done.stdout


def test_the_found_method_can_be_given_back(tmp_path: Path) -> None:
    scores, coupling, flags, *_ = FOREIGN["POT unbalanced"]
    told = judged(tmp_path, scores, coupling, *flags)
    answer(tmp_path, "plan", "scores.npy", *flags, "--method", told["method"], "-o", "again.npy")
    assert np.abs(np.load(tmp_path / "again.npy") - coupling).sum() <= 1e-7 * coupling.sum()


def test_what_the_judge_refuses(tmp_path: Path) -> None:
    p = softmax(SCORES, 1.0)
    nan, negative = p.copy(), p.copy()
    nan[1, 2], negative[0, 3] = np.nan, -0.25
    save(tmp_path, s=SCORES, p=p, nan=nan, negative=negative, narrow=p[:, :5], nought=0 * p)
    (tmp_path / "cut.npy").write_bytes((tmp_path / "p.npy").read_bytes()[:-7])
    rows = {
        "nan.npy": (2, "entry 24 of the coupling is nan"),
        "negative.npy": (2, "entry 3 of the coupling is -0.25"),
        "narrow.npy": (2, "does not have the shape of the scores"),
        "nought.npy": (2, "every weight of the coupling is 0"),
        "gone.npy": (6, "gone.npy"),
        "cut.npy": (4, "cut.npy"),
    }
    for file, (code, part) in rows.items():
        told = answer(tmp_path, "certify", "--scores", "s.npy", "--coupling", file, code=code)
        assert part in told["error"] and told["field"] == "coupling", told
        done = run(tmp_path, "certify", "--scores", "s.npy", "--coupling", file)
        assert done.returncode == code and done.stdout == b"" and done.stderr.count(b"\n") == 1
    for value, cost in ((np.nan, False), (np.inf, False), (-np.inf, True)):
        wrong = SCORES.copy()
        wrong[1, 2] = value
        np.save(tmp_path / "nan.npy", wrong)
        flags = ("--scores", "nan.npy", "--coupling", "p.npy", *(["--cost"] if cost else []))
        told = answer(tmp_path, "certify", *flags, code=2)
        assert told["field"] == "scores" and f"entry 24 of the scores is {value}" in told["error"]
    assert json.loads(run(tmp_path, "certify", "--json").stdout)["command"] == "certify"
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".npy"] * 7
