"""The example of learning dynamics in small form: its traces, its two kinds of steps, its own regulariser."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import otattn
import pytest
import spec
import torch
from otattn import analysis


def test_traces_of_every_method(example: Callable[[str], ModuleType], tmp_path: Path) -> None:
    small = ["--part", "traces", "--seeds", "1", "--batch", "8", "--evaluations", "2", "--probe", "4"]
    dynamics = example("dynamics")
    assert dynamics.main([*small, "--steps", "4", "--folder", str(tmp_path)])
    for method in dynamics.METHODS:
        path = tmp_path / "dynamics" / method.replace(":", "-").replace("/", "-") / "0.jsonl"
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()][1:]
        assert [row["step"] for row in rows] == [2, 4]
        for row in rows:
            for layer in "12":
                ids = "LIT-34" if method == "barrier" else "LIT-17 LIT-19" if method == "softmax" else ""
                # Gradients are f32; exact columns are solved to a tolerance.
                spec.check(ids, row[f"identity_{layer}"], 1e-4 if method == "softmax/exact" else 1e-5)
                if method == "softmax":
                    spec.check("LIT-17 LIT-28 LIT-29", row[f"library_{layer}"], 1e-5)
                else:
                    # The paper's formula is that of softmax: a trace that ignores the method would show it.
                    assert row[f"printed_{layer}"] > 0.01
                assert 0.0 < row[f"entropy_{layer}"] <= math.log(17) + 1e-6
                assert row[f"weights_{layer}"] > 0.0


def test_fisher_norm_is_that_of_the_pseudo_inverse(example: Callable[[str], ModuleType]) -> None:
    probe = example("probe")
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn((2, 1, 3, 6), generator=generator, dtype=torch.float64)
    u = torch.randn((2, 1, 3, 6), generator=generator, dtype=torch.float64)
    for method, stiffness in (("softmax", lambda p: p), ("entmax:1.5", torch.sqrt)):
        p = otattn.coupling(scores, method=method)
        w = stiffness(p)
        g = -w * probe.over_row(u, w)
        squares = []
        for row, slope in zip(p.reshape(-1, 6), g.reshape(-1, 6), strict=True):
            fisher, _ = analysis.fisher_matrix((row / row.sum()).numpy())
            squares.append(slope.numpy() @ np.linalg.pinv(fisher, rcond=1e-9, hermitian=True) @ slope.numpy())
        found = probe.measures(probe.Seen(p, u, g, 1.0), method, stiffness)
        spec.check("LIT-27 LIT-29", abs(found["fisher"] - math.sqrt(np.mean(squares))), 1e-9)


def test_exact_columns_have_a_baseline_for_every_key(example: Callable[[str], ModuleType]) -> None:
    scores = torch.randn((1, 2, 5, 5), generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    scores.requires_grad_()
    p = otattn.coupling(scores, method="softmax/exact", tolerance=1e-13)
    u = torch.randn(p.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    (g,) = torch.autograd.grad(-(p * u).sum(), scores)
    advantage = example("probe").over_row_and_key(u, p.detach())
    assert (g + p.detach() * advantage).abs().max() < 1e-9
    assert g.sum(-2).abs().max() < 1e-9


def test_natural_steps_are_the_library_s(example: Callable[[str], ModuleType]) -> None:
    p = torch.tensor(
        [[0.7, 0.3, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25], [1.0, 0.0, 0.0, 0.0]], dtype=torch.float64
    )
    u = torch.tensor([[1.0, -2.0, 5.0, 0.5]], dtype=torch.float64).expand(3, -1)
    ours = -example("natural").natural_gradient(p, u)
    for row in range(3):
        theirs = analysis.natural_gradient(p[row].numpy(), u[row].numpy())
        spec.check("LIT-29", np.abs(ours[row].numpy() - theirs).max(), 1e-14)


def test_plain_steps_keep_the_gradient(example: Callable[[str], ModuleType]) -> None:
    natural = example("natural")
    torch.manual_seed(0)
    whole, turned = otattn.nn.Attention(8, 2, batch_first=True), natural.Turned(8, 2, batch_first=True)
    turned.load_state_dict(whole.state_dict())
    x, wanted = torch.randn(3, 5, 8), torch.randn(3, 5, 8)

    def gradient(layer: torch.nn.Module) -> Any:
        out = layer(x, x, x, need_weights=False)[0]
        return torch.autograd.grad((out - wanted).square().sum(), layer.in_proj_weight)[0]

    expected = gradient(whole)
    assert (gradient(turned) - expected).abs().max() < 1e-4 * expected.abs().max()
    # The maps to values get the same gradient from both rules, those to queries and keys another one.
    turned.rule = "natural"
    difference = (gradient(turned) - expected).abs() / expected.abs().max()
    assert difference[16:].max() < 1e-4 and difference[:16].max() > 0.1


def test_a_stopped_comparison_goes_on(example: Callable[[str], ModuleType], tmp_path: Path) -> None:
    natural = example("natural")
    sizes = natural.Sizes(2, (0.1, 1.0), 20, 1, (0.1,), (0.25,), 2, 1)
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert natural.run(sizes, whole, math.inf)
    assert not natural.run(sizes, stopped, -math.inf)
    times = iter([0.0] * 5 + [2.0])
    real, natural.time.monotonic = natural.time.monotonic, lambda: next(times)
    try:
        assert not natural.run(sizes, stopped, 1.0)
    finally:
        natural.time.monotonic = real
    assert natural.run(sizes, stopped, math.inf)
    for problem in ("fit-even", "fit-wrong", "model"):
        first, second = (folder / "natural" / f"{problem}.jsonl" for folder in (whole, stopped))
        assert first.read_text(encoding="utf-8") == second.read_text(encoding="utf-8")
    # From rows that start on a wrong key, where p (u - E_p u) all but vanishes, the natural step is longer.
    ledger = natural.Ledger(whole, natural.Fit("wrong", sizes))
    point = natural.Point(0.1, 1.0)
    plain, turned = (ledger.losses(rule, point, range(100, 101))[0] for rule in natural.RULES)
    assert turned < plain - 1.0
    with pytest.raises(SystemExit, match="choose another --folder"):
        natural.run(sizes._replace(fit_steps=21), whole, math.inf)


def test_the_regulariser_of_the_example(example: Callable[[str], ModuleType]) -> None:
    barrier = example("barrier")
    scores = torch.randn((2, 7), generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    scores[0, 0] = 9.0
    plans = []
    for own in (barrier.interpreted(), barrier.compiled()):
        given = scores.clone().requires_grad_()
        p = otattn.coupling(given, method=own)
        (jacobian,) = torch.autograd.grad(p[0, 1], given)
        p = p.detach()
        plans.append((p, jacobian))
        # Omega'(p) = s - t: p - mu / p has the same distance from every score of a row.
        distance = scores - (p - barrier.MU / p)
        spec.check("LIT-34", (distance - distance.mean(-1, keepdim=True)).abs().max(), 1e-9)
        w = barrier.stiffness(p[0])
        expected = -w[1] * w / w.sum()
        expected[1] += w[1]
        spec.check("LIT-34", (jacobian[0] - expected).abs().max(), 1e-9)
    for ours, theirs in zip(*plans, strict=True):
        assert (ours - theirs).abs().max() < 1e-12
    # No weight is 0 where sparsemax has one key only.
    assert plans[0][0][0].min() > 1e-4 and otattn.coupling(scores, method="sparsemax")[0].count_nonzero() == 1
