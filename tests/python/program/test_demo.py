"""`otattn demo`: its numbers against NumPy and SciPy on the same captured arrays, its text, its manners."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
import spec
from scipy.optimize import linear_sum_assignment
from scipy.special import softmax

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("OTATTN_BUILD", ROOT / "build"))
PROGRAM = Path(os.environ.get("OTATTN", BUILD / "otattn"))
DATA = ROOT / "data" / "demo" / "minilm.safetensors"
# The judge and NumPy sum the same f64 numbers in different orders: 21 terms of at most 1.
ROUNDING = 21 * 8 * 2.0**-53
TOLERANCE = 1e-9


def demo(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    plain = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "CLICOLOR_FORCE")}
    plain.update({"LC_ALL": "C.UTF-8", "COLUMNS": "80", **environment})
    return subprocess.run([PROGRAM, "demo", *words], capture_output=True, text=True, timeout=60, env=plain)


def captured() -> tuple[np.ndarray, list[str]]:
    """Scores [heads, n, n] in f64 and the tokens, read without the package's reader."""
    data = DATA.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    arrays = {}
    for name in ("query", "key"):
        begin, end = header[name]["data_offsets"]
        flat = np.frombuffer(data[8 + length + begin : 8 + length + end], "<f4")
        arrays[name] = flat.reshape(header[name]["shape"]).astype(np.float64)
    width = arrays["query"].shape[-1]
    scores = arrays["query"] @ arrays["key"].transpose(0, 2, 1) / np.sqrt(width)
    return scores, json.loads(header["__metadata__"]["tokens"])


@pytest.fixture(scope="module")
def told() -> dict:
    answer = demo("--json")
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def by_rule(told: dict, head: int) -> dict[str, dict]:
    return {row["rule"]: row for row in told["heads"][head]["methods"]}


def test_data_is_what_the_provenance_says() -> None:
    assert DATA.stat().st_size < 200_000
    scores, tokens = captured()
    assert scores.shape == (2, 21, 21)
    received = softmax(scores[0], axis=-1).sum(0)
    assert tokens[int(received.argmax())] == "[CLS]"
    spec.check("", abs(received.max() - 16.11), 0.005)


def test_softmax_and_assignment_agree_with_scipy(told: dict) -> None:
    scores, tokens = captured()
    for head in range(2):
        received = softmax(scores[head], axis=-1).sum(0)
        rows = by_rule(told, head)
        assert rows["softmax"]["receiver"] == tokens[int(received.argmax())]
        spec.check(
            "ELA-02 CETA-19", abs(rows["softmax"]["received"] - received.max()) / received.max(), ROUNDING
        )
        best = scores[head][linear_sum_assignment(-scores[head])].sum()
        found = -rows["hard assignment"]["certificate"]["primal"]
        spec.check("ELA-14", abs(found - best) / abs(best), ROUNDING)


def test_each_rule_keeps_its_promise(told: dict) -> None:
    for head in range(2):
        rows = by_rule(told, head)
        for row in rows.values():
            spec.check("", row["certificate"]["row_error"], TOLERANCE)
        for rule in ("doubly stochastic", "hard assignment"):
            spec.check("CETA-19", abs(rows[rule]["received"] - 1), 21 * TOLERANCE)
        spec.check("DER-02", rows["capped at 2"]["received"] - 2, 21 * TOLERANCE)
        # lambda = 0 is softmax, and more of it evens the keys out.
        assert rows["elastic 0"]["received"] == rows["softmax"]["received"]
        path = [rows[f"elastic {word}"]["received"] for word in ("0", "0.25", "0.5", "1")]
        spec.check_true("ELA-09", path == sorted(path, reverse=True))
        assert rows["sparsemax"]["certificate"]["support"] < rows["entmax 1.5"]["certificate"]["support"] < 21
        for rule in ("softmax", "doubly stochastic", "hard assignment", "capped at 2", "relaxed, rho = 1"):
            assert rows[rule]["status"] == "ok"
            # Weak duality: the plan's value and the bound meet as far as the sums keep their promise,
            # in units of the largest potential difference, about the range of the scores.
            assert abs(rows[rule]["certificate"]["gap"]) <= 21 * 21 * TOLERANCE * np.ptp(captured()[0][head])


def test_text_fits_a_terminal_and_is_plain_when_piped() -> None:
    answer = demo()
    assert answer.returncode == 0
    lines = answer.stdout.splitlines()
    assert "\x1b" not in answer.stdout
    assert max(len(line) for line in lines[1:]) <= 80
    assert any("[CLS] 16.11 of the 21 units" in line for line in lines)
    assert sum(line.endswith(("  ok", "  fixed_iters")) for line in lines) == 12
    assert answer.stderr == ""


def test_text_follows_locale_and_colour_wishes() -> None:
    ascii_only = demo(LC_ALL="C").stdout
    assert ascii_only.isascii()
    coloured = demo(CLICOLOR_FORCE="1", COLORTERM="truecolor").stdout
    assert coloured.count("\x1b[48;2;") == 3 * 21 * 21
    assert "\x1b[48;5;" in demo(CLICOLOR_FORCE="1", COLORTERM="", TERM="xterm-256color").stdout
    wide = demo(COLUMNS="160").stdout.splitlines()
    assert max(len(line) for line in wide) > 120
