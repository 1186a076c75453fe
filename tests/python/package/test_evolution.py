"""Evolution of predictions, attention patterns, figures and events against NumPy and SciPy formulas."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
import scipy.stats
import spec
from otattn import analysis
from scipy.special import log_softmax, logsumexp, rel_entr, softmax


def close(ids: str, value: Any, wanted: Any, tolerance: float = 1e-12) -> None:
    error = np.abs(np.asarray(value) - np.asarray(wanted)) / (1.0 + np.abs(np.asarray(wanted)))
    spec.check(ids, error.max(), tolerance)


def relative(ids: str, value: float, wanted: float, tolerance: float) -> None:
    spec.check(ids, abs(value - wanted) / abs(wanted), tolerance)


def stack(rng: np.random.Generator, states: int = 5, positions: int = 4, size: int = 400) -> Any:
    """Logits that move less from layer to layer the deeper they are, as f32 in f64."""
    z = 4.0 * rng.standard_normal((1, positions, size))
    steps = rng.standard_normal((states, positions, size)) / np.arange(1, states + 1)[:, None, None]
    return (z + np.cumsum(steps, axis=0)).astype(np.float32).astype(np.float64)


def top(z: Any, k: int) -> set[int]:
    return set(np.argsort(-z, kind="stable")[:k].tolist())


def test_transitions(rng: np.random.Generator) -> None:
    logits = stack(rng)
    logits[3] = np.round(logits[3])  # ties
    transitions, _ = analysis.evolution(logits)
    for layer in range(len(logits) - 1):
        for i in range(logits.shape[1]):
            z, w = logits[layer, i], logits[layer + 1, i]
            p, q = softmax(z), softmax(w)
            t = {name: value[layer, i] for name, value in transitions.as_dict().items()}
            m = 0.5 * (p + q)
            relative("TOT-63 TOT-71 TOT-72", t["tv"], np.abs(q - p).sum() / 2, 1e-12)
            relative("TOT-63 TOT-73", t["kl"], rel_entr(q, p).sum(), 1e-11)
            relative("TOT-63 TOT-74", t["js"], 0.5 * (rel_entr(q, m).sum() + rel_entr(p, m).sum()), 1e-10)
            entropies = [scipy.stats.entropy(x) for x in (p, q)]
            close("TOT-75", t["entropy_change"], entropies[1] - entropies[0])
            for k in (1, 5, 10, 100):
                spec.check("TOT-76", abs(t[f"top{k}"] - len(top(z, k) & top(w, k)) / k), 0.0)
            close("TOT-77", t["spearman"], scipy.stats.spearmanr(p, q).statistic)
            close("TOT-81", t["max_logit_change"], np.abs(w - z).max())
            close("TOT-81", t["logit_range_half"], np.ptp(w - z) / 2)
            close("TOT-82", t["logit_correlation"], np.corrcoef(z, w)[0, 1])
            close("TOT-83", t["effective_temperature"], 1.0 / z.std())
            spec.check("DER-20", t["tv"] - np.tanh(np.ptp(w - z) / 4), 1e-15)
            close("DER-20", t["sharp_ratio"], t["tv"] / np.tanh(np.ptp(w - z) / 4))
            spec.check("TOT-28", t["tv"] - t["saturation_bound"], 1e-15)
            one = analysis.transition(z, w).as_dict()
            spec.check_true("TOT-111", one == {name: t[name] for name in one})
    spec.check("TOT-75", np.abs(transitions.entropy_change.sum(0) - _entropies(logits)).max(), 1e-12)
    with pytest.raises(ValueError, match=r"state 2, position 1: logits\[7\] is nan"):
        logits[2, 1, 7] = math.nan
        analysis.evolution(logits)


def _exact_changes(z: Any, w: Any) -> tuple[Decimal, Decimal, Decimal]:
    """Total variation, KL(after | before) and the change of entropy, in 60 digits."""
    with localcontext() as context:
        context.prec = 60
        sides = []
        for logits in (z, w):
            weights = [Decimal(float(x)).exp() for x in logits]
            total = sum(weights)
            sides.append([x / total for x in weights])
        b, a = sides
        tv = sum((abs(x - y) for x, y in zip(a, b, strict=True)), Decimal(0)) / 2
        kl = sum((x * (x / y).ln() for x, y in zip(a, b, strict=True)), Decimal(0))
        entropies = [-sum((x * x.ln() for x in p), Decimal(0)) for p in sides]
        return tv, kl, entropies[1] - entropies[0]


@pytest.mark.parametrize("kind", ["one", "all", "saturated", "swapped", "even"])
def test_small_changes_keep_their_digits(kind: str, rng: np.random.Generator) -> None:
    """A step of one unit of f32: far below the rounding of two entropies or of two normalisers."""
    z = (4.0 * rng.standard_normal(50)).astype(np.float32)
    if kind == "saturated":
        z[7] += 60.0
    if kind == "even":
        z[:] = 1.0
    w = z.copy()
    change = np.arange(50) % 2 == 0 if kind in ("all", "saturated") else np.arange(50) == 11
    w[change] = np.nextafter(z[change], np.float32(9.0))
    if kind == "swapped":
        z[2], w[2] = 19.0, 19.5
        z[3], z[4] = 20.0, np.nextafter(np.float32(20.0), np.float32(0.0))
        w[3], w[4] = z[4], z[3]  # another leader
    got = analysis.transition(z, w)
    tv, kl, entropy = (float(x) for x in _exact_changes(z, w))
    relative("TOT-71 TOT-109", got.tv, tv, 1e-12)
    relative("TOT-73", got.kl, kl, 1e-12)
    relative("TOT-75", got.entropy_change, entropy, 1e-12)
    wide = analysis.divergence_of_logits(z.astype(np.float64), w.astype(np.float64))
    # Of even weights 1e-7 of the terms is left, each rounded at 1e-16.
    relative("TOT-75", wide.entropy_change, entropy, 1e-12 if kind != "even" else 1e-7)


def _entropies(logits: Any) -> Any:
    p = softmax(logits, axis=-1)
    H = scipy.stats.entropy(p, axis=-1)
    return H[-1] - H[0]


def test_predictions(rng: np.random.Generator) -> None:
    logits = stack(rng)
    transitions, predictions = analysis.evolution(logits, threads=3)
    p, logs = softmax(logits, axis=-1), log_softmax(logits, axis=-1)
    close("TOT-75", predictions.entropy, scipy.stats.entropy(p, axis=-1))
    close("TOT-63", predictions.log_sum_exp, logsumexp(logits, axis=-1))
    close("TOT-29", predictions.max_probability, p.max(-1))
    close("TOT-110", predictions.tail, 1.0 - p.max(-1))
    close("TOT-73", predictions.kl_to_final, (p[-1] * (logs[-1] - logs)).sum(-1))
    close("TOT-26", predictions.drift, np.abs(p - p[0]).sum(-1))
    assert (predictions.index == logits.argmax(-1)).all()
    assert (predictions.agrees == (logits.argmax(-1) == logits[-1].argmax(-1))).all()
    one = analysis.prediction(logits[1, 2], logits[0, 2], logits[-1, 2])
    assert one.kl_to_final == predictions.kl_to_final[1, 2] and one.drift == predictions.drift[1, 2]
    moved, found = analysis.step(logits[1, 2], logits[0, 2], logits[0, 2], logits[-1, 2])
    assert found.as_dict() == one.as_dict() and moved.tv == transitions.tv[0, 2]
    again, _ = analysis.evolution(logits)
    spec.check_true("TOT-111", all((a == b).all() for a, b in _pairs(transitions, again)))
    assert analysis.evolution_bytes(50257, 2) == 2 * analysis.evolution_bytes(50257)


def _pairs(a: analysis.Record, b: analysis.Record) -> Any:
    return zip(a.as_dict().values(), b.as_dict().values(), strict=True)


def test_saturated_steps() -> None:
    z = np.zeros(50)
    z[3] = 60.0
    step = analysis.transition(z, z)
    assert analysis.transition_saturated(step)
    z[4] = 59.0
    assert not analysis.transition_saturated(analysis.transition(z, z))


def test_clouds(rng: np.random.Generator) -> None:
    h = rng.standard_normal((9, 30)) + 0.5
    u = h / np.linalg.norm(h, axis=1, keepdims=True)
    cosines = (u @ u.T)[np.triu_indices(9, 1)]
    s = np.linalg.svd(h, compute_uv=False)
    for x in (h, h.astype(np.float32).astype(np.float64)):
        found = analysis.state_cloud(x, participation=True)
        close("", found.norms, np.linalg.norm(x, axis=1))
        close("", found.mean_norm, np.linalg.norm(x, axis=1).mean())
    found = analysis.state_cloud(h, participation=True)
    close("", found.mean_cosine, cosines.mean())
    close("", found.participation, (s**2).sum() ** 2 / (s**4).sum())
    turned = analysis.state_cloud(h.T, participation=True)
    close("", turned.participation, found.participation)
    assert math.isnan(analysis.state_cloud(h).participation)
    assert math.isnan(analysis.state_cloud(h[:1]).mean_cosine)


def test_patterns(rng: np.random.Generator) -> None:
    scores = np.where(np.tri(12, dtype=bool), 2.0 * rng.standard_normal((12, 12)), -np.inf)
    P = softmax(scores, axis=1)
    P[5] *= 0.25  # a sink took the rest
    P[7] = 0.0  # nothing to attend to
    found = analysis.pattern(P)
    rows = P[P.sum(1) > 0]
    mass = P.sum(0)
    close("CETA-19", found.mass, mass)
    close("", found.first_key_mass, mass[0] / 11)
    assert found.sink_rate == float(mass[0] / 11 > 0.3) and found.rows == 11
    assert analysis.pattern(P, threshold=mass[0] / 11 - 0.01).sink_rate == 1.0
    assert analysis.pattern(P, threshold=mass[0] / 11 + 0.01).sink_rate == 0.0
    close("CETA-19", found.receiver_max, mass.max() * 12 / 11)
    assert found.receiver == mass.argmax()
    differences = np.abs(mass[:, None] - mass).sum()
    close("", found.gini, differences / (2 * 12 * mass.sum()))
    close("", found.row_entropy, scipy.stats.entropy(rows, axis=1).mean())
    close("", found.max_weight, rows.max(1).mean())
    close("", found.support, (rows > 0).sum(1).mean())
    single = analysis.pattern(P.astype(np.float32))
    close("", single.row_entropy, found.row_entropy, 1e-6)
    with pytest.raises(ValueError, match=r"weights\[5, 2\] is -1"):
        P[5, 2] = -1.0
        analysis.pattern(P)


def test_figures(rng: np.random.Generator) -> None:
    x = rng.gamma(2.0, size=600)
    dirty = np.insert(x, [3, 77], [math.nan, math.inf])
    found = analysis.figure(dirty)
    assert found.count == 600 and found.units == 600
    close("TOT-86", found.mean, x.mean())
    close("TOT-86", found.deviation, x.std(ddof=1))
    close("TOT-86", [found.p5, found.median, found.p95], np.quantile(x, [0.05, 0.5, 0.95]))
    wide = 1.96 * x.std(ddof=1) / math.sqrt(600)
    close("", [found.low, found.high], [x.mean() - wide, x.mean() + wide], 0.1 * wide)
    assert analysis.figure(dirty).as_dict() == found.as_dict()
    assert analysis.figure(dirty, seed=1).low != found.low
    # Windows of 30 equal values are 20 values, not 600.
    windows = analysis.figure(np.repeat(x[:20], 30), unit=30, resamples=4000)
    wide = 1.96 * x[:20].std() / math.sqrt(20)
    assert windows.units == 20
    close("", windows.high - windows.low, 2 * wide, 0.2 * wide)
    alone = analysis.figure([2.5])
    assert alone.mean == alone.median == 2.5 and math.isnan(alone.low) and math.isnan(alone.deviation)
    assert analysis.figure([math.nan]).count == 0 and math.isnan(analysis.figure([]).mean)
    same = analysis.figure(np.full(9, 0.1))
    assert same.mean == same.low == same.high == 0.1 and same.deviation == 0.0


def test_tightness(rng: np.random.Generator) -> None:
    steps = rng.uniform(0.1, 2.0, 50)
    l1 = 0.3 * steps * rng.uniform(0.0, 1.0, 50)
    found = analysis.tightness(l1, steps, 0.5)
    close("TOT-27", found.ratios, l1 / (0.5 * steps))
    close("TOT-27", [found.largest, found.ratio.mean], [found.ratios.max(), found.ratios.mean()])
    assert found.violations == 0
    l1[7] = 0.5 * steps[7] + 1e-4
    l1[8] = 0.5 * steps[8] + 1e-7
    spec.check_true("TOT-89", analysis.tightness(l1, steps, 0.5).violations == 1)
    still = analysis.tightness([0.0, 0.1], [0.0, 1.0], 0.5)
    assert still.ratio.count == 1 and still.violations == 0 and still.largest == 0.2
    with pytest.raises(ValueError, match="norm is NaN"):
        analysis.tightness(l1, steps, math.nan)


def test_depth(rng: np.random.Generator) -> None:
    assert analysis.depth_ranges(12) == [(1, 4), (5, 8), (9, 12)]
    assert analysis.depth_ranges(48) == [(1, 4), (5, 8), (9, 12), (13, 24), (25, 48)]
    assert analysis.depth_ranges(60)[-1] == (49, 60) and analysis.depth_ranges(3) == [(1, 3)]
    for printed, at in (
        (1.35, (12, 0.31, 24, 0.79)),
        (0.72, (24, 0.79, 48, 1.30)),
        (1.03, (12, 0.31, 48, 1.30)),
    ):
        spec.check("TOT-85", abs(analysis.scaling_exponent(*at) - printed), 0.005)
    depths = np.arange(1.0, 13.0)
    values = 0.2 * depths**0.8 * np.exp(0.05 * rng.standard_normal(12))
    found = analysis.power_law(np.append(depths, [0.0, 5.0]), np.append(values, [1.0, -1.0]))
    wanted = scipy.stats.linregress(np.log(depths), np.log(values))
    close("TOT-85", [found.exponent, np.log(found.factor)], [wanted.slope, wanted.intercept])
    close("TOT-85", [found.error, found.explained], [wanted.stderr, wanted.rvalue**2], 1e-10)
    assert found.count == 12 and math.isnan(analysis.power_law([2.0], [1.0]).exponent)


def test_trends(rng: np.random.Generator) -> None:
    x = np.round(np.arange(30) / 5 + rng.standard_normal(30))
    found = analysis.trend(x)
    signs = np.sign(x[None, :] - x[:, None])[np.triu_indices(30, 1)]
    ties = np.unique(x, return_counts=True)[1]
    variance = (30 * 29 * 65 - (ties * (ties - 1) * (2 * ties + 5)).sum()) / 18
    assert found.score == signs.sum() and found.decreases == (np.diff(x) < 0).sum()
    close("TOT-91", found.z, (signs.sum() - 1) / math.sqrt(variance))
    close("TOT-91", found.tau, signs.sum() / (30 * 29 / 2))
    assert math.isnan(analysis.trend([1.0, 1.0]).z)


def test_events(rng: np.random.Generator) -> None:
    flags = rng.random((20, 40)) < 0.15
    found = analysis.events(flags)
    lengths = np.zeros(21, int)
    for column in flags.T:
        for run in "".join("x" if flag else " " for flag in column).split():
            lengths[len(run)] += 1
    assert (found.run_lengths == lengths).all() and found.runs == lengths.sum()
    assert found.longest_run == np.flatnonzero(lengths).max()
    assert (found.by_layer == flags.sum(1)).all() and found.events == flags.sum()
    assert found.peak_layer == flags.sum(1).argmax() + 1
    assert found.positions_hit == flags.any(0).sum()
    assert found.outer == flags[:2].sum() + flags[-2:].sum()
    close("TOT-87", found.frequency, flags.mean())
    close("TOT-88", found.mean_run, flags.sum() / lengths.sum())
    layers = np.flatnonzero(flags.any(1)) + 1
    assert (found.first_layer, found.last_layer) == (layers[0], layers[-1])
    none = analysis.events(np.zeros((3, 4)))
    assert none.events == none.peak_layer == none.first_layer == 0 and math.isnan(none.mean_run)
    a, b = rng.random(90) < 0.4, rng.random(90) < 0.3
    close("TOT-87", analysis.phi(a, a | b), np.corrcoef(a, a | b)[0, 1])
    assert math.isnan(analysis.phi(a, np.ones(90)))


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        (" the", {"word start", "letters"}),
        ("ing", {"letters"}),
        (".", {"punctuation", "sentence end"}),
        (" ,", {"word start", "punctuation"}),
        ('."', {"punctuation", "sentence end"}),
        ("…", {"punctuation", "sentence end"}),
        ("—", {"punctuation"}),
        (" 1920", {"word start", "digits"}),
        ("a.", {"letters"}),
        ("été", {"letters"}),
        ("\n\n", {"space"}),
        ("", {"space"}),
        (b"\xe2\x80", {"letters"}),
        (b"\xff", {"letters"}),
        ("\u3002", {"punctuation", "sentence end"}),
    ],
)
def test_token_classes(text: str | bytes, classes: set[str]) -> None:
    spec.check_true("TOT-88", analysis.token_class(text) == classes)
