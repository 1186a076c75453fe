"""Failures of the system, a sample of what `./dev faults` tries in full: every call of one command and some
calls of the others fail in turn, runs are killed and gone on with, tables of studies survive half a line."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from program import PROGRAM, ROOT, environment

BUILD = Path(os.environ.get("OTATTN_BUILD", ROOT / "build"))
LIBRARY = BUILD / "tests" / "libfailing_calls.so"


@pytest.fixture
def row_file(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module("row_file")


def drive(name: str, *words: str) -> str:
    if not LIBRARY.exists():
        pytest.skip("this build has no tests/libfailing_calls.so")
    script = ROOT / "tests" / "faults" / name
    command = [sys.executable, str(script), "--program", PROGRAM, "--library", str(LIBRARY), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_call_of_attend_fails_once() -> None:
    out = drive("fail_each_call.py", "--only", "attend over")
    assert "(100.0 %)" in out and " 0 wrong" in out


def test_some_calls_of_every_command_fail() -> None:
    assert " 0 wrong" in drive("fail_each_call.py", "--sample", "1")


def test_some_calls_of_statements_fail() -> None:
    """Also where a check of a printed form, which is to fail, has no memory."""
    only = [word for name in ("CETA-1", "DER-24", "TOT-37") for word in ("--only", f"verify {name}")]
    out = drive("fail_each_call.py", "--statements", "--once", *only, "--sample", "3")
    assert "verify CETA-10: " in out and "verify ELA" not in out and " 0 wrong" in out


def test_a_later_run_leaves_out_what_is_done(tmp_path: Path) -> None:
    """Every call of a C program fails; the record stands in for a second run, with the same last line."""
    words = ("fail_each_call.py", "--only", "calls tensors", "--record", str(tmp_path / "record.csv"))
    first, second = drive(*words), drive(*words)
    assert "(100.0 %)" in first and " 0 wrong" in first
    assert "calls tensors: " in first and "calls tensors: " not in second
    assert first.splitlines()[-1] == second.splitlines()[-1]


def test_a_folder_that_cannot_be_read_on_is_no_short_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables of a run, where the system fails in their folder: a page without them would be wrong."""
    if not LIBRARY.exists():
        pytest.skip("this build has no tests/libfailing_calls.so")
    monkeypatch.syspath_prepend(ROOT / "tests" / "faults")
    golden, each, stand_in = map(importlib.import_module, ("golden_commands", "fail_each_call", "stand_in"))
    bench = each.Bench(Path(PROGRAM), LIBRARY, tmp_path)
    command = next(command for command in golden.COMMANDS if command.name == "report")
    whole, _ = bench.run(command, "whole")
    symbols = stand_in.Symbols(Path(PROGRAM))
    sites = [
        site
        for site in whole.log.sites.values()
        if site.kind == "input" and symbols.stack(site).startswith("ota_folder_next < load_tables")
    ]
    assert whole.code == 0 and len(sites) == 1 and sites[0].calls > 2
    for occurrence in (1, 2, sites[0].calls):
        done, _ = bench.run(command, "torn", f"{sites[0].key}:{occurrence}:5")
        assert done.code == 6 and "cannot be read: Input/output error" in done.error


def test_calls_of_the_library_fail_under_its_tests() -> None:
    if not LIBRARY.exists():
        pytest.skip("this build has no tests/libfailing_calls.so")
    script = ROOT / "tests" / "faults" / "fail_test_programs.py"
    few = ["test_passes", "test_reuse", "test_corners", "test_refusals", "test_figures"]
    words = ["--tests", str(BUILD / "tests"), "--archives", str(BUILD), "--library", str(LIBRARY)]
    words += ["--sample", "4", "--slowest", "60", *(word for name in few for word in ("--only", name))]
    done = subprocess.run([sys.executable, str(script), *words], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("5 programs, ") and " 0 wrong" in done.stdout


def test_one_test_of_a_program_runs_alone() -> None:
    if not LIBRARY.exists():
        pytest.skip("this build has no tests/libfailing_calls.so")
    more = {"LD_PRELOAD": str(LIBRARY), "OTATTN_FAULT_TEST": "test_problems"}
    done = subprocess.run(
        [BUILD / "tests" / "tests_problem", "test_refusals"],
        capture_output=True,
        text=True,
        env={**os.environ, **more},
    )
    assert done.returncode == 0
    assert [line for line in done.stdout.splitlines() if "RUN" in line] == ["[ RUN      ] test_problems"]


def test_killed_runs() -> None:
    assert " 0 wrong" in drive("torn_runs.py", "--only", "kills", "--count", "14")


def test_interrupted_runs() -> None:
    assert " 0 wrong" in drive("torn_runs.py", "--only", "interrupts", "--count", "21")


def test_readers_that_leave() -> None:
    assert " 0 wrong" in drive("torn_runs.py", "--only", "readers")


def test_full_standard_output_is_said() -> None:
    """Also where an early write failed and the last one did not."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [PROGRAM, "completions", "bash"], stdout=full, stderr=subprocess.PIPE, env=environment()
        )
    assert done.returncode == 6
    assert b"standard output cannot be written" in done.stderr


def test_half_a_line_of_a_table_is_none(tmp_path: Path, row_file: Any) -> None:
    table = row_file.RowFile(tmp_path / "table.csv", ["name", "value"])
    assert table.read() == []
    with table.writing([{"name": "a, b", "value": 1}]) as add:
        add({"name": "c", "value": 2})
    text = table.path.read_bytes()
    rows = table.read()
    assert [row["name"] for row in rows] == ["a, b", "c"]
    for size in range(len(text)):
        table.path.write_bytes(text[:size])
        assert table.read() == rows[: max(0, text[:size].count(b"\n") - 1)]
    table.path.write_bytes(text[:-3])
    with table.writing(table.read()) as add:
        add(rows[1])
    assert table.read() == rows


def test_a_text_is_whole_or_as_before(tmp_path: Path, row_file: Any) -> None:
    path = tmp_path / "text"
    row_file.write_whole(path, "first")
    row_file.write_whole(path, "second")
    assert path.read_text() == "second"
    assert list(tmp_path.iterdir()) == [path]
