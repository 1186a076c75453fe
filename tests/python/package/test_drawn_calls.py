"""Public functions with drawn arguments, right and wrong: a result, or a sentence that names an argument.

./dev fuzz goes on with more cases (fuzz/fuzz_fronts.py)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import otattn
import pytest
from drawn_calls import JUDGES, LEFT_OUT, Case, case, finding, fronts


def drive(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "fuzz" / "fuzz_fronts.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_drawn_calls_end_well(root: Path) -> None:
    done = drive(root, "--cases", "600", "--seed", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 600 calls" in done.stdout and " 0 wrong" in done.stdout


def test_every_function_is_drawn() -> None:
    """What no case calls is known by name."""
    public = {name for name in otattn.__all__ if type(getattr(otattn, name)).__name__ == "function"}
    known = fronts()
    drawn = {name.rsplit(".", 1)[1] for name in known}
    assert public - drawn == set(LEFT_OUT)
    assert {case(1, k, known).name for k in range(1500)} == set(known)


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
        "sys.argv = ['fuzz_fronts', '--cases', '5']\n"
        "sys.exit(f.main())\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert "FINDING 2: the process ended with -6" in done.stdout and " 5 calls" in done.stdout
