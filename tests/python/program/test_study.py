"""scripts/study.py: steps in order, what is there is left out, what is missing is said."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from program import PROGRAM, ROOT

SCRIPT = ROOT / "scripts" / "study.py"
UNFINISHED = 3


def study(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, SCRIPT, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))


def test_steps_resume_and_say_what_is_left(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text((ROOT / "data" / "demo" / "paragraph.txt").read_text() * 12)
    valid = tmp_path / "valid.txt"
    valid.write_text(text.read_text()[::-1])
    given: list[str | Path] = [
        text,
        "-o",
        tmp_path / "out",
        "--program",
        PROGRAM,
        "--only",
        "demo",
        "demo-valid",
        "texts",
    ]

    first = study(*given, "--valid", valid, "--budget", "0")
    assert first.returncode == UNFINISHED
    assert "step 1 of 2: demo, " in first.stderr
    assert "left out: texts: minilm-test is not there" in first.stderr
    assert not (tmp_path / "out" / "demo").exists()

    second = study(*given)
    assert second.returncode == 0, second.stderr
    assert "left out: demo-valid: no --valid text" in second.stderr
    table = tmp_path / "out" / "demo" / "tables" / "table1.csv"
    kept = table.stat().st_mtime_ns

    third = study(*given, "--valid", valid)
    assert third.returncode == 0, third.stderr
    assert "1 steps are there, 1 to do" in third.stderr
    assert table.stat().st_mtime_ns == kept
    assert (tmp_path / "out" / "demo-valid" / "report.html").exists()


def test_a_step_that_fails_is_named(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("")
    done = study(text, "-o", tmp_path / "out", "--program", PROGRAM, "--only", "demo")
    assert done.returncode == 1
    assert "study: demo: status " in done.stderr
    assert not (tmp_path / "out" / "ended" / "demo").exists()
