"""Calls public functions of the Python package with drawn arguments (tests/python/support/drawn_calls.py).

    python fuzz/fuzz_fronts.py [--calls 6000 | --seconds N] [--seed 1] [--first 0] [--record FILE]

The calls depend on the seed and their number alone; with --seconds, what fits into the time is run.

Cases run in a process of their own, which says the number of each before it runs: a process that dies, or
stays at one case for a minute, is a finding with a number, and the next process goes on behind it. With
--record each thousand cases without a finding is a row of FILE, and later runs of the same library and drawer
leave it out. `--calls 1 --first K` repeats case K.
"""

from __future__ import annotations

import argparse
import mmap
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python" / "support"))

import drawn_calls
import drawn_doors
import drawn_objects
import otattn
from done_record import DoneRecord, digest, missing
from otattn._library import FOLDER

BLOCK = 1000
PATIENCE = 60.0  # seconds that one case may take on a busy machine


def work(place: Any, seed: int, first: int, end: int, findings: Any) -> None:
    known = drawn_calls.fronts()
    for k in range(first, end):
        place[:8] = k.to_bytes(8, "little")
        of = drawn_calls.case(seed, k, known)
        if wrong := drawn_calls.finding(of):
            findings.put((k, str(of)[:400], wrong))
    place[:8] = end.to_bytes(8, "little")


def block(seed: int, first: int, end: int, until: float) -> tuple[int, int]:
    """Runs cases first ... end - 1; returns how many ran and how many were findings."""
    place = mmap.mmap(-1, 8)
    wrong, at = 0, first
    while at < end and time.monotonic() < until:
        findings = multiprocessing.SimpleQueue()
        place[:8] = at.to_bytes(8, "little")
        process = multiprocessing.get_context("fork").Process(
            target=work, args=(place, seed, at, end, findings)
        )
        process.start()
        died = watch(process, place, until)
        while not findings.empty():
            k, of, what = findings.get()
            wrong += 1
            print(f"FINDING {k}: {what}\n    {of}", flush=True)
        at = int.from_bytes(place[:8], "little")
        if died:
            wrong += 1
            print(f"FINDING {at}: {died}\n    {drawn_calls.case(seed, at, drawn_calls.fronts())}", flush=True)
            at += 1
    return at - first, wrong


def watch(process: Any, place: Any, until: float) -> str:
    """Waits for the end of a process; says what was wrong with it."""
    seen, since = place[:8], time.monotonic()
    while process.is_alive():
        process.join(0.2)
        if place[:8] != seen:
            seen, since = place[:8], time.monotonic()
        late, stuck = time.monotonic() > until, time.monotonic() - since > PATIENCE
        if (late or stuck) and process.is_alive():
            process.kill()
            process.join()
            return "does not end" if stuck else ""
    return f"the process ended with {process.exitcode}" if process.exitcode else ""


def main() -> int:
    parser = argparse.ArgumentParser(description="calls of the package with drawn arguments")
    parser.add_argument("--calls", type=int, default=6000)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--record", type=Path)
    words = parser.parse_args()
    library = FOLDER / "libotattn_python.so"
    package = sorted(Path(otattn.__file__).parent.rglob("*.py"))
    build = (
        digest(
            library,
            *map(Path, (drawn_calls.__file__, drawn_doors.__file__, drawn_objects.__file__)),
            *package,
        )
        if words.record
        else ""
    )
    record = DoneRecord(words.record, build, ("seed", "first", "end"))
    done = [(int(r["first"]), int(r["end"])) for r in record.rows if int(r["seed"]) == words.seed]
    end = words.first + words.calls if words.seconds is None else 1 << 40
    until = time.monotonic() + (1e9 if words.seconds is None else words.seconds)
    ran = wrong = 0
    done.append((0, words.first))
    for begin, stop in missing(done, end):
        for first in range(begin, stop, BLOCK):
            if time.monotonic() >= until:
                break
            count, found = block(words.seed, first, min(first + BLOCK, stop), until)
            ran, wrong = ran + count, wrong + found
            if not found and count == BLOCK:
                record.add({"seed": words.seed, "first": first, "end": first + BLOCK})
    before = sum(last - first for first, last in done[:-1])
    functions = len(drawn_calls.fronts())
    for door, package in drawn_doors.lacking().items():
        print(f"{door} is not drawn: {package} is not installed")
    print(f"{functions} functions, {ran} calls with drawn arguments, {before} before, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
