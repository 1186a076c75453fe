"""The studies of `otattn verify -o`: each writes a table and a figure, and its points are what a formula
written here predicts, or lie where the claim it belongs to puts them."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import oracles
import pytest
import spec
from program import U64, answer

# Table of a study: the id that it belongs to, and its columns.
STUDIES = {
    "contraction": ("TOT-97", "vectors,bound,measured"),
    "iterations": ("TOT-90", "series,epsilon,rounds"),
    "tolerances": ("TOT-90", "series,tolerance,rounds"),
    "elastic": ("ELA-17", "lambda,round,delta"),
    "sink": ("CETA-33", "method,shift,delta"),
    "tightness": ("DER-17", "bound,change,use"),
    "cycle": ("CETA-32", "quantity,change,share"),
    "cold": ("CETA-23", "quantity,temperature,share"),
    "collapse": ("CETA-31", "method,n,delta"),
    "stability": ("ELA-15", "series,lambda,rate"),
    "annealing": ("ELA-16", "series,epsilon,rounds"),
    "relaxed": ("ELA-18", "lambda,round,share"),
    "annealed": ("ELA-19", "series,round,delta"),
    "time": ("DER-06", "lambda,time,distance"),
    "variance": ("LIT-04", "scores,width,variance"),
    "reinforce": ("LIT-20", "estimator,draws,error"),
    "complexity": ("TOT-19", "problem,keys,seconds"),
    "saturated": ("TOT-35", "deviation,temperature,share"),
    "probe": ("TOT-92", "quantity,factor,change"),
    "lipschitz": ("TOT-117", "bound,step,share"),
    "counterexample": ("TOT-118", "series,step,change"),
    "example_c4": ("TOT-113", "source,cell,weight"),
    "example_shift": ("TOT-114", "quantity,shift,change"),
    "example_balanced": ("TOT-115", "source,cell,weight"),
    "example_c3": ("TOT-116", "source,cell,weight"),
    "gallery": ("LIT-33", "method,key,weight"),
    "post": ("BLOG-04", "source,cell,weight"),
}
C4 = np.array([[1.0, 0.0, 1.0, -1.0], [0.0, 1.0, -1.0, 1.0], [1.0, 1.0, 0.0, 0.0]])

LOW = 2**64 - 1
Points = dict[str, dict[str, float]]


def table(folder: Path, name: str) -> Points:
    """series -> x -> y, x as it is written."""
    with (folder / f"{name}.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == STUDIES[name][1].split(",")
    points: Points = {}
    for series, x, y in rows[1:]:
        points.setdefault(series, {})[x] = float(y)
    return points


def curve(points: Points, series: str) -> tuple[np.ndarray, np.ndarray]:
    return np.array([float(x) for x in points[series]]), np.array(list(points[series].values()))


def curve_of(points: Points, series: str) -> np.ndarray:
    return np.array(list(points[series].values()))


def drawn_normals(requirement: str, study: str, count: int) -> np.ndarray:
    """What a study draws first at seed 1: SplitMix64 from a hash of its id and name, then Box and Muller."""
    state = 0xCBF29CE484222325
    for letter in (requirement + study).encode():
        state = (state ^ letter) * 0x100000001B3 & LOW
    state = state + 0xD1342543DE82EF95 & LOW
    state = (state ^ state >> 32) * 0xD6E8FEB86659FD93 & LOW
    state ^= state >> 32
    uniform = np.empty((count, 2))
    for place in np.ndindex(*uniform.shape):
        state = state + 0x9E3779B97F4A7C15 & LOW
        mixed = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & LOW
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & LOW
        uniform[place] = ((mixed ^ mixed >> 31) >> 11) * 2.0**-53
    return np.sqrt(-2 * np.log(1 - uniform[:, 0])) * np.cos(2 * np.pi * uniform[:, 1])


def softmax(s: np.ndarray) -> np.ndarray:
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything at its usual size, once."""
    above = tmp_path_factory.mktemp("studies")
    answer(above, "verify", "-o", "run", timeout=600)
    return above / "run"


def test_every_study_has_a_table_and_a_figure(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    files = {f"{name}{end}" for name in STUDIES for end in (".csv", ".vl.json")}
    assert names == files | {"checks.csv", "verify.html"}
    page = (folder / "verify.html").read_text(encoding="utf-8")
    assert page.count("<figure") == len(STUDIES)
    for name, (_, columns) in STUDIES.items():
        figure = json.loads((folder / f"{name}.vl.json").read_text(encoding="utf-8"))
        (points,) = figure["datasets"].values()
        assert {tuple(point) for point in points} == {tuple(columns.split(","))}
        with (folder / f"{name}.csv").open(newline="") as file:
            assert len(points) == len(list(csv.DictReader(file))) > 3
        assert len(table(folder, name)) > 1
        assert f"{STUDIES[name][0]}: " in page
        titles = [figure["encoding"][axis]["title"] for axis in "xy"]
        assert all(titles)


@pytest.mark.parametrize("requirement", sorted({requirement for requirement, _ in STUDIES.values()}))
def test_one_id_writes_its_own_studies(tmp_path: Path, requirement: str) -> None:
    result = answer(tmp_path, "verify", "--only", requirement, "-o", "run")
    own = {name for name, (belongs, _) in STUDIES.items() if belongs == requirement}
    assert {path.stem for path in (tmp_path / "run").glob("*.csv")} == own | {"checks"}
    assert result["warnings"] == []


def test_an_id_without_a_study_says_so(tmp_path: Path) -> None:
    result = answer(tmp_path, "verify", "--only", "DER-13", "-o", "run")
    assert result["warnings"] == ["no id that --only 'DER-13' chooses has a study: run holds checks alone"]
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["checks.csv", "verify.html"]


def test_contraction_stays_below_its_bound(folder: Path) -> None:
    points = table(folder, "contraction")
    for series in ("random vectors", "two-level vectors"):
        bound, measured = curve(points, series)
        spec.check("TOT-97", max(measured / bound), 1 + 1e-9)
    bound, measured = curve(points, "two-level vectors")
    spec.check("TOT-97", max(1 - measured / bound), 1e-2)


def possible(epsilon: float, error: float) -> int:
    """1 + t for the least t with (2/eps) tanh(1/2 eps)^(2(t - 1)) <= log(1 + error)."""
    rate = math.tanh(0.5 / epsilon) ** 2
    return 2 + math.ceil(math.log(math.log1p(error) * epsilon / 2) / math.log(rate))


def test_table_five_is_out_of_reach(folder: Path) -> None:
    points = table(folder, "iterations")
    most = points["possible at most"]
    assert most["1"] == possible(1.0, 1e-6) == 12
    for series in ("independent pair", "near pair"):
        spec.check("TOT-90 TOT-101", max(y / most[x] for x, y in points[series].items()), 1.0)
    points = table(folder, "tolerances")
    errors, rounds = curve(points, "possible at most")
    limit = dict(zip(errors, rounds, strict=True))
    assert [limit[error] for error in (1e-6, 1e-8, 1e-10)] == [12, 15, 18]
    spec.check("TOT-90", max(abs(y - possible(1.0, x)) for x, y in limit.items()), 0.0)
    printed = [limit[x] for x in curve(points, "printed in table 5")[0]]
    assert curve_of(points, "printed in table 5").tolist() == [42.3, 58.7, 75.1]
    assert all(curve_of(points, "printed in table 5") > 3 * np.array(printed))
    measured = zip(*curve(points, "independent pair"), strict=True)
    spec.check("TOT-90", max(y / limit[x] for x, y in measured), 1.0)


def test_elastic_rounds_end_at_the_rate_of_the_second_mode(folder: Path) -> None:
    points = table(folder, "elastic")
    assert len(set(points["0"].values())) == 1
    # 1 - rate is lambda (1 - sigma_2^2): the same for both but for lambda.
    slope = {name: (1 - points[name]["16"] / points[name]["15"]) / float(name) for name in ("0.25", "0.5")}
    spec.check("ELA-17", abs(slope["0.25"] / slope["0.5"] - 1), 0.05)
    spec.check("ELA-17", points["1"]["16"], 1e-10)


def test_a_sink_takes_all_of_softmax(folder: Path) -> None:
    points = table(folder, "sink")
    spec.check("CETA-33", abs(points["softmax"]["16"] / 23 - 1), 1e-3)
    spec.check("CETA-33", max(points["softmax/exact"].values()), 1e-6)


def test_elastic_rounds_hold_a_sink_back(folder: Path) -> None:
    points = table(folder, "sink")
    soft, exact = curve_of(points, "softmax"), curve_of(points, "softmax/exact")
    shifts, elastic = curve(points, "elastic:0.5,4")
    scores = drawn_normals("CETA-33", "sink", 24 * 24).reshape(24, 24)
    everything, raised = np.ones(scores.shape, bool), np.arange(24) == 3
    moved = [scores + shift * raised for shift in shifts]
    # Four rounds of sums of 24 weights, each weight within a few units.
    near = 4 * 24 * 8 * U64
    wanted = [oracles.elastic(s, everything, 1.0, 0.5, 4).sum(0) - 1 for s in moved]
    spec.check("CETA-33", np.abs(elastic - np.abs(wanted).max(-1)).max(), near)
    wanted = [softmax(s).sum(0) - 1 for s in moved]
    spec.check("CETA-33", np.abs(soft - np.abs(wanted).max(-1)).max(), near)
    spec.check_true("CETA-33", all(exact < elastic) and all(elastic < soft))


def test_two_permutations_meet_the_sharp_bound(folder: Path) -> None:
    points = table(folder, "cycle")
    change, share = curve(points, "measured")
    spec.check("CETA-32", max(abs(share - np.tanh(change / 2))), 1e-9)
    spec.check("CETA-32 DER-17", max(abs(curve(points, "sharp bound")[1] - np.tanh(change / 2))), 1e-12)
    spec.check("CETA-16", max(abs(curve(points, "printed bound")[1] - change / 2)), 1e-12)
    points = table(folder, "cold")
    tau, share = curve(points, "measured")
    assert share[0] < 1e-3 and share[-1] > 0.9999
    spec.check("CETA-23", max(abs(share - np.tanh(5e-4 / tau))), 1e-8)
    spec.check("CETA-23", max(abs(curve(points, "printed bound")[1] * tau / 5e-4 - 1)), 1e-10)


def test_collapsed_receivers(folder: Path) -> None:
    points = table(folder, "collapse")
    n, delta = curve(points, "softmax")
    spec.check("CETA-31", max(abs(delta - (n - 1))), 1e-9)
    spec.check("CETA-31", max(curve(points, "softmax/exact")[1] / n), 1e-11)


def test_relaxation_is_stable_up_to_its_limit(folder: Path) -> None:
    points = table(folder, "stability")
    limit = float(next(iter(points["stable near the plan below"])))
    everywhere = float(next(iter(points["stable from any start below"])))
    assert 1 <= everywhere <= 2 <= limit
    factor, predicted = curve(points, "predicted")
    measured = curve(points, "measured")[1]
    # 1 - sigma_n^2 = 2 / limit; the least singular value is the one that fails first.
    late = factor > 1.5
    spec.check("ELA-15", max(abs(predicted[late] - (2 * factor[late] / limit - 1))), 1e-12)
    spec.check("ELA-15 DER-07", max(abs(measured - predicted)), 0.03)
    assert all(measured[factor > limit + 0.02] > 1) and all(measured[factor < limit - 0.03] < 1)


def test_annealing_saves_rounds_only_late(folder: Path) -> None:
    points = table(folder, "annealing")
    for epsilon, rounds in points["direct, error 1e-6"].items():
        spec.check("ELA-16", 0.8 * rounds, points["annealed, error 1e-6"][epsilon])
    saved = {
        float(x): 1 - points["annealed, error 1e-2"][x] / y for x, y in points["direct, error 1e-2"].items()
    }
    assert saved[0.05] < 0 and saved[0.001] > 0.2


def test_elastic_plans_are_near_relaxed_ones(folder: Path) -> None:
    points = table(folder, "relaxed")
    spec.check("ELA-18", max(max(series.values()) for series in points.values()), 0.11)
    assert points["1"]["1"] > 1e-3
    # One small step is near the relaxed optimum that moves as little: what is left is of second order.
    spec.check("ELA-18", points["0.1"]["1"] / points["0.25"]["1"], 0.25)
    # The fixed point is the exact plan, which the relaxed ones end in.
    spec.check("ELA-18", points["1"]["16"], 1e-8)


def test_kept_potentials_keep_the_progress(folder: Path) -> None:
    points = table(folder, "annealed")
    golden = {"0.25": (0.33, 0.89), "0.5": (0.15, 0.67), "1": (0.07, 0.35)}
    for name, values in golden.items():
        kept, lost = points[f"g kept, lambda {name}"], points[f"v kept, lambda {name}"]
        # One round knows of no stage before it.
        spec.check("ELA-19", abs(kept["1"] - lost["1"]), 0.0)
        for path, value in zip((kept, lost), values, strict=True):
            spec.check("ELA-19", abs(math.log(path["60"] / value)), math.log(1.5))
        assert kept["60"] < 0.7 * lost["60"]


def test_lambda_times_rounds_is_a_time(folder: Path) -> None:
    points = table(folder, "time")
    assert len({series["0"] for name, series in points.items() if name[0] != "s"}) == 1
    for time, tolerance in (("1", 1.6e-2), ("4", 3.6e-3)):
        spec.check("DER-06", abs(points["0.25"][time] - points["0.05"][time]), tolerance)
    # The line's slope gives 1 - sigma_2^2, and with it the factor of 20 rounds of .05 and of one of 1.
    line = points["slowest mode alone"]
    gap = math.log(line["7"] / line["8"])
    spec.check("DER-06", points["0.05"]["8"] / points["0.05"]["7"], (1 - 0.05 * gap) ** 20)
    spec.check("DER-06", abs(points["1"]["8"] / points["1"]["7"] / (1 - gap) - 1), 0.05)


def test_variance_of_scores_is_their_width(folder: Path) -> None:
    points = table(folder, "variance")
    width, plain = curve(points, "as they are")
    assert list(width) == [2.0**k for k in range(1, 10)]
    # Keys and queries are 128 vectors each: the mean of |k|^2 is off by about sqrt(2 / 128 d).
    spec.check("LIT-04", max(abs(plain / width - 1) / (5 * np.sqrt(4 / (128 * width) + 2 / 128**2))), 1.0)
    spec.check("LIT-04", max(abs(curve(points, "divided by sqrt(d)")[1] / (plain / width) - 1)), 1e-9)


def test_a_baseline_narrows_the_estimate(folder: Path) -> None:
    points = table(folder, "reinforce")
    for name in ("no baseline", "baseline E u"):
        draws, error = curve(points, name)
        formula = curve(points, f"{name}, by formula")[1]
        spec.check("LIT-20", max(abs(formula * np.sqrt(draws / draws[0]) / formula[0] - 1)), 1e-12)
        spec.check("LIT-20", max(abs(error / formula - 1)), 0.3)
    assert all(curve(points, "baseline E u")[1] < 0.5 * curve(points, "no baseline")[1])


def test_rows_cost_their_keys_and_rounds_the_square(folder: Path) -> None:
    points = table(folder, "complexity")
    for name, slope in (("8 softmax rows of V keys", 1.0), ("4 balanced rounds, V x V", 2.0)):
        keys, seconds = curve(points, name)
        found = math.log(seconds[-1] / seconds[1]) / math.log(keys[-1] / keys[1])
        assert abs(found - slope) <= 0.5


def test_saturation_falls_with_temperature(folder: Path, tmp_path: Path) -> None:
    for series in table(folder, "saturated").values():
        assert list(series.values()) == sorted(series.values(), reverse=True)
    # Two keys: saturated when the scores, N(0, 2 d^2) apart, are T log(9999) apart.
    answer(tmp_path, "verify", "--only", "TOT-35", "--size", 2, "--samples", 10000, "-o", "run")
    for name, series in table(tmp_path / "run", "saturated").items():
        for temperature, share in series.items():
            formula = math.erfc(float(temperature) * math.log(9999.0) / (2 * float(name)))
            spec.check("TOT-35", abs(share - formula), 5 * math.sqrt(0.25 / 10000))


def test_the_probe_scales_its_bound(folder: Path) -> None:
    points = table(folder, "probe")
    factor, printed = curve(points, "printed bound")
    spec.check("TOT-92", max(abs(printed / np.minimum(2, factor / factor[0] * printed[0]) - 1)), 1e-12)
    sharp, measured = curve(points, "sharp bound")[1], curve(points, "measured")[1]
    spec.check("TOT-92 DER-20", max(np.maximum(measured / sharp, sharp / printed)), 1.0)


def test_the_lipschitz_bound_is_met_across_the_middle(folder: Path) -> None:
    points = table(folder, "lipschitz")
    e, share = curve(points, "printed bound, from the middle")
    spec.check("TOT-117", max(abs(share - np.tanh(e) / e)), 1e-12)
    spec.check("TOT-117", 1 - share[0], 1e-4)
    spec.check(
        "TOT-117", max(abs(curve(points, "printed bound, across it")[1] - 2 * np.tanh(e / 2) / e)), 1e-12
    )
    spec.check("DER-20", max(abs(curve(points, "sharp bound, across it")[1] - 1)), 1e-12)


def test_a_kept_maximum_bounds_nothing(folder: Path) -> None:
    points = table(folder, "counterexample")
    x, change = curve(points, "l1 change")
    eps, after = sigmoid(-10.0), sigmoid(x - 10)
    spec.check("TOT-118", max(abs(change - 2 * (after - eps))), 1e-14)
    spec.check("TOT-118", max(abs(curve(points, "printed: 2 eps")[1] - 2 * eps)), 1e-15)
    spec.check("TOT-118", max(change / curve(points, "2 max(eps, eps')")[1]), 1.0)
    assert change[x <= 10][-1] > 0.99


def test_worked_examples(folder: Path) -> None:
    cells = [f"{i},{j}" for i in (1, 2, 3) for j in (1, 2, 3, 4)]
    points = table(folder, "example_c4")
    rows = np.array([points["softmax"][cell] for cell in cells])
    spec.check("TOT-113", max(abs(rows - softmax(C4).ravel())), 1e-15)
    spec.check("TOT-113", abs(points["printed"]["1,all"] - 0.988), 1e-12)
    points = table(folder, "example_shift")
    shift, change = curve(points, "potential of row 1")
    spec.check("TOT-114", max(abs(change - shift)), 1e-14)
    spec.check("TOT-114", max(curve(points, "largest weight")[1]), 1e-15)
    balanced = table(folder, "example_balanced")["softmax/exact"]
    golden = [0.316858, 0.116565, 0.499039, 0.067538]
    spec.check("TOT-115", max(abs(balanced[f"1,{j + 1}"] - golden[j]) for j in range(4)), 5e-7)
    spec.check("TOT-115", max(abs(balanced[f"all,{j + 1}"] - 0.75) for j in range(4)), 1e-9)
    first = np.array([[0.40, 0.35, 0.25], [0.25, 0.40, 0.35]])
    second = np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]])
    product = table(folder, "example_c3")
    spec.check("TOT-116", max(abs(curve_of(product, "S1 S2") - (first @ second).ravel())), 1e-15)
    assert max(abs(curve_of(product, "printed S2 S1") - (first @ second).ravel())) > 0.05


def test_regularisers_and_the_post(folder: Path) -> None:
    points = table(folder, "gallery")
    s = np.array([1.0, 0.5, 0.2, -1.0])
    spec.check("LIT-33", max(abs(curve_of(points, "softmax") - softmax(s))), 1e-15)
    spec.check("LIT-33", max(abs(curve_of(points, "sparsemax") - [0.75, 0.25, 0, 0])), 1e-15)
    golden = [0.592807227494524, 0.270337349616227, 0.136855422889249, 0]
    spec.check("LIT-33", max(abs(curve_of(points, "entmax:1.5") - golden)), 1e-14)
    alibi = softmax(s - 0.5 * np.arange(4))
    spec.check("LIT-33", max(abs(curve_of(points, "softmax with ALiBi 0.5") - alibi)), 1e-15)
    points = table(folder, "post")
    scores = np.array([[1.0, 0.0], [2.0, 0.0]])
    spec.check("BLOG-04", max(abs(curve_of(points, "rows sum to 1") - softmax(scores).ravel())), 1e-15)
    columns = softmax(scores.T).T.ravel()
    spec.check("BLOG-04", max(abs(curve_of(points, "printed: columns sum to 1") - columns)), 1e-15)


@pytest.mark.parametrize(
    ("only", "flags", "table", "rows", "caption"),
    [
        ("CETA-32", ("--size", 3, "--samples", 5), "cycle", 3 * 5, "n = 3."),
        ("CETA-23", ("--size", 3, "--samples", 5), "cold", 3 * 5, "n = 3."),
        ("CETA-31", ("--size", 8), "collapse", 3 * 7, "n = 2 to 8,"),
        ("ELA-15", ("--size", 5, "--samples", 6, "--rounds", 9), "stability", 2 * 6 + 4, "most 9 rounds"),
        ("ELA-16", ("--size", 32, "--samples", 2), "annealing", 20, "mean over 2 matrices"),
        ("ELA-18", ("--size", 5, "--rounds", 3), "relaxed", 4 * 3, "n = 5."),
        ("ELA-19", ("--size", 5, "--rounds", 7), "annealed", 6 * 7, "in 7 stages"),
        ("DER-06", ("--size", 5, "--rounds", 4), "time", 6 * 5, "n = 5."),
        ("LIT-04", ("--size", 8, "--samples", 10), "variance", 3 * 3, "of 10 queries"),
        ("LIT-20", ("--size", 4, "--samples", 9, "--rounds", 32), "reinforce", 4 * 3, "over 9 repeats"),
        ("TOT-19", ("--size", 128), "complexity", 2 * 2, "up to 128"),
        ("TOT-35", ("--size", 4, "--samples", 9), "saturated", 3 * 25, "9 rows of 4"),
        ("TOT-92", ("--size", 5, "--samples", 4), "probe", 3 * 4, "0.1, 5 symbols"),
        ("TOT-117", ("--samples", 4), "lipschitz", 4 * 4, "against the step e"),
        ("TOT-118", ("--samples", 4), "counterexample", 3 * 4, "against x"),
        ("TOT-114", ("--samples", 5), "example_shift", 2 * 5, "against c"),
        (
            "TOT-97",
            ("--size", 3, "--samples", 5, "--rounds", 10),
            "contraction",
            3 * 5,
            "5 kernels of 3 x 3, 10 pairs",
        ),
        ("TOT-90", ("--size", 50, "--samples", 4), "iterations", 3 * 4 + 3, "vocabulary of 50,"),
        ("ELA-17", ("--size", 9, "--rounds", 5), "elastic", 4 * 6, "n = 9."),
        ("CETA-33", ("--size", 5, "--samples", 3), "sink", 4 * 3, "n = 5."),
        ("DER-17", ("--size", 4, "--samples", 8), "tightness", 2 * 8, "n = 4."),
    ],
)
def test_sizes_of_the_studies_are_flags(
    tmp_path: Path, only: str, flags: tuple[str | int, ...], table: str, rows: int, caption: str
) -> None:
    answer(tmp_path, "verify", "--only", only, *flags, "-o", "run")
    with (tmp_path / "run" / f"{table}.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == rows
    assert caption in (tmp_path / "run" / "verify.html").read_text(encoding="utf-8")


def test_most_rounds_end_a_study_of_rounds(tmp_path: Path) -> None:
    answer(tmp_path, "verify", "--only", "TOT-90", "--size", 50, "--rounds", 3, "-o", "run")
    with (tmp_path / "run" / "iterations.csv").open(newline="") as file:
        pairs = [row for row in csv.DictReader(file) if row["series"].endswith("pair")]
    assert all(float(row["rounds"]) <= 3 for row in pairs)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--size", 9), "--size belongs to the studies, and none is written"),
        (("--samples", 9, "-o", "checks.csv"), "--samples belongs to the studies, and none is written"),
        (("--rounds", 9, "--self-test"), "--rounds belongs to the studies, and none is written"),
        (("--only", "ELA-17", "--samples", 9, "-o", "run"), "no study among the chosen ids has a --samples"),
        (
            ("--only", "ELA-17", "--size", 513, "-o", "run"),
            "--size 513 lies outside 2 ... 512 of the study of ELA-17",
        ),
        (
            ("--only", "CETA-33", "--size", 3, "-o", "run"),
            "--size 3 lies outside 4 ... 512 of the study of CETA-33",
        ),
        (("--only", "ELA-17", "--size", 0, "-o", "run"), "--size"),
    ],
)
def test_sizes_that_no_study_takes_are_refused(
    tmp_path: Path, words: tuple[str | int, ...], sentence: str
) -> None:
    refused = answer(tmp_path, "verify", *words, code=2)
    assert refused["status"] == "invalid" and sentence in refused["error"]
    assert not list(tmp_path.iterdir())
