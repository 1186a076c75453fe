"""Runs the program for the tests: OTATTN names it, build/otattn is the default."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = os.environ.get("OTATTN", str(ROOT / "build" / "otattn"))
U64 = 2.0**-53
U32 = 2.0**-24

STATUS_OF_CODE = {1: "internal", 2: "invalid", 4: "bad_file", 5: "limit", 6: "io"}


def environment(**more: str) -> dict[str, str]:
    plain = {name: text for name, text in os.environ.items() if name not in ("NO_COLOR", "CLICOLOR_FORCE")}
    return {**plain, "LC_ALL": "C.UTF-8", "TERM": "xterm", **more}


def run(
    folder: Path, *words: Any, stdin: bytes | None = None, timeout: float = 120, **more: str
) -> subprocess.CompletedProcess[bytes]:
    command = [PROGRAM, *(str(word) for word in words)]
    return subprocess.run(
        command, cwd=folder, input=stdin, capture_output=True, timeout=timeout, env=environment(**more)
    )


def refuse_constant(token: str) -> None:
    raise AssertionError(f"{token} is no JSON")


def answer(folder: Path, *words: Any, code: int = 0, timeout: float = 120) -> dict[str, Any]:
    """The one JSON object of a command that must end with `code`."""
    done = run(folder, *words, "--json", timeout=timeout)
    assert done.returncode == code, (words, done.returncode, done.stderr.decode(), done.stdout.decode())
    assert done.stdout.count(b"\n") == 1
    return json.loads(done.stdout, parse_constant=refuse_constant)


def save(folder: Path, **arrays: np.ndarray) -> None:
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)


def solve(folder: Path, scores: np.ndarray, *words: Any) -> tuple[np.ndarray, dict[str, Any]]:
    """`otattn plan`: the coupling and the JSON object."""
    save(folder, scores=scores)
    result = answer(folder, "plan", "scores.npy", "-f", "-o", "coupling.npy", *words)
    return np.load(folder / "coupling.npy"), result
