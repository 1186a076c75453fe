"""`--entry-cap`: number, word of the method and array say the same; what cannot be capped is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from program import answer, run, save


def test_number_word_and_array(tmp_path: Path) -> None:
    scores = np.random.default_rng(3).standard_normal((2, 7, 9))
    save(tmp_path, s=scores, caps=np.full((7, 9), 0.2))
    plans = []
    for words in (
        ["--entry-cap", "0.2"],
        ["--entry-cap", "caps.npy"],
        ["--method", "softmax/exact{entry_cap=0.2}"],
    ):
        words = words if "--method" in words else [*words, "--method", "softmax/exact"]
        told = answer(tmp_path, "plan", "s.npy", *words, "-f", "-o", "p.npy")
        assert abs(told["certificate"]["gap"]) <= 1e-8
        plans.append(np.load(tmp_path / "p.npy"))
    assert plans[0].max() == 0.2
    assert np.array_equal(plans[0], plans[2]) and np.abs(plans[0] - plans[1]).max() <= 1e-12


def test_refusals(tmp_path: Path) -> None:
    save(tmp_path, s=np.zeros((4, 6)))
    for words, code, sentence in (
        (["--entry-cap", "0.1"], 3, "the entry caps of a row add up to less than its mass"),
        (
            ["--entry-cap", "0.1", "-m", "softmax/online:1"],
            3,
            "what a row's entry caps and the capacities left allow",
        ),
        (["--entry-cap", "0"], 2, "--entry-cap is 0"),
        (
            ["--entry-cap", "1", "-m", "softmax/elastic:0.5,3"],
            2,
            "entry caps with elastic columns are refused",
        ),
    ):
        found = run(tmp_path, "plan", "s.npy", *words)
        assert found.returncode == code and sentence.encode() in found.stderr
