"""Fails every call that the library makes while a C test program runs, one at a time.

A first run of the program counts its calls by site (failing_calls.h). Sites whose innermost function is the
library's then fail, the first call and the last, with each failure of their kind; what a test itself asks
for is left alone. A test may then fail by its own checks, which is a refusal that it met, or go on as before.
What must not be: a signal (cmocka tells of them), a run that does not end, or, where all tests pass, a block
or descriptor held that the run without failure does not hold. Blocks of tests that a failed check left are
nobody's.

    python3 tests/faults/fail_test_programs.py --tests build/tests --archives build
        --library build/tests/libfailing_calls.so
        [--only NAME]... [--sample N] [--slowest SECONDS] [--record FILE]

Programs that take longer than --slowest are left out, with their names; random tests run every 40th case.
With --record a program whose calls all failed as they should becomes a row of FILE, and later runs of the
same program leave it out but count it.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from fail_each_call import memory_folder
from stand_in import FAILURES, Run, Site, Symbols, run, signal_name

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python" / "support"))

from done_record import DoneRecord, digest

STRIDE = "40"
# Programs that fork, kill or refuse memory themselves.
LEFT_OUT = {
    "test_killed_ranks": "its processes kill each other",
    "test_concurrency": "its forks and threads come in another order every time",
    "test_refused_memory": "it refuses memory itself",
    "test_memory": "it refuses memory itself",
}
HIDDEN = ("short", "4")  # half reads and writes, EINTR


def names_of(archives: Iterable[Path]) -> set[str]:
    """Functions of the project's own archives."""
    listed = subprocess.run(["nm", *map(str, archives)], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in listed.splitlines())
    return {row[2] for row in rows if len(row) == 3 and row[1] in "tT"}


class Program:
    """A test program, its run without failure, and what may fail in it."""

    def __init__(self, path: Path, library: Path, own: set[str], place: Path):
        self.path, self.library, self.place = path, library, place
        self.symbols = Symbols(path)
        begun = time.monotonic()
        self.whole = self.run("whole")
        self.seconds = time.monotonic() - begun
        sites = self.whole.log.sites.values()
        self.sites = [site for site in sites if not site.foreign and self.caller(site) in own]

    def run(self, name: str, wish: str = "") -> Run:
        with tempfile.TemporaryDirectory(dir=self.place) as folder:
            log = self.place / f"{name}.log"
            more = {"OTATTN_TEST_STRIDE": STRIDE, "OMP_NUM_THREADS": "1"}
            return run(self.library, [str(self.path)], Path(folder), log, wish, **more)

    def caller(self, site: Site) -> str:
        """Who called: the innermost function of the program itself."""
        frames = (frame for frame in site.frames if frame.startswith("program+"))
        return next((self.symbols.name(frame) for frame in frames), "")

    def wishes(self) -> list[tuple[Site, str]]:
        return [
            (site, f"{site.key}:{occurrence}:{failure}")
            for site in self.sites
            for failure in FAILURES[site.kind]
            for occurrence in sorted({1, site.calls})
        ]

    def wrong(self, done: Run, wish: str) -> str:
        """What is wrong about a run; "" when nothing is."""
        if done.timed_out:
            return "does not end"
        if done.code < 0:
            return signal_name(done.code)
        if "Test failed with exception" in done.error or b"Test failed with exception" in done.out:
            return "a signal inside a test"
        if done.code != 0:
            hidden = wish.rsplit(":", 1)[1] in HIDDEN
            return "a failure that must not show does" if hidden and done.log.fired else ""
        if not done.log.fired:
            return ""
        held = self.whole.log.sites
        leaks = [
            site
            for site in done.log.sites.values()
            if site.held > (held[site.key].held if site.key in held else 0)
            and not (site.foreign or site.kept)
        ]
        if leaks:
            return f"{leaks[0].held} blocks more held of {self.symbols.stack(leaks[0])}"
        if done.log.descriptors > self.whole.log.descriptors:
            return "a descriptor more"
        return ""


def attempt(program: Program, site: Site, wish: str, name: str) -> tuple[Run, str]:
    done = program.run(name, wish)
    wrong = program.wrong(done, wish)
    if wrong:
        kind = f"{site.kind} {wish.rsplit(':', 1)[1]}, call {wish.split(':')[1]} of {site.calls}"
        print(
            f"WRONG {program.path.name}: {kind}: {wrong}\n    at {program.symbols.stack(site)}\n"
            f"    said: {done.error.strip()[-300:]}",
            flush=True,
        )
    return done, wrong


def main() -> int:
    parser = argparse.ArgumentParser(
        description="every call of the library fails once over the test programs"
    )
    parser.add_argument("--tests", type=Path, required=True, help="folder of the test programs")
    parser.add_argument("--archives", type=Path, required=True, help="folder of the static libraries")
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--sample", type=int, help="so many failures of each program")
    parser.add_argument("--slowest", type=float, default=1.0, metavar="SECONDS")
    parser.add_argument("--record", type=Path, metavar="FILE")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-j", type=int, default=2, dest="jobs")
    options = parser.parse_args()
    archives = [path for path in sorted(options.archives.glob("*.a")) if path.name != "libotattn_reference.a"]
    own, library = names_of(archives), options.library.resolve()
    sums: Counter[str] = Counter()
    late: list[str] = []
    draws = random.Random(options.seed)
    programs = sorted(
        path for path in options.tests.iterdir() if path.name.startswith("test_") and path.is_file()
    )
    with (
        tempfile.TemporaryDirectory(dir=memory_folder()) as scratch,
        concurrent.futures.ThreadPoolExecutor(options.jobs) as pool,
    ):
        for path in programs:
            if path.name in LEFT_OUT or path.suffix or (options.only and path.name not in options.only):
                continue
            build = digest(path, library, Path(__file__)) if options.record else ""
            record = DoneRecord(options.record, build, ("name", "sites", "runs", "met"))
            if row := next((row for row in record.rows if row["name"] == path.name), None):
                sums.update({key: int(row[key]) for key in ("sites", "runs", "met")}, programs=1)
                continue
            program = Program(path.resolve(), library, own, Path(scratch))
            if program.whole.code != 0 or program.whole.timed_out:
                print(f"{path.name} does not pass without a failure:\n{program.whole.error[-600:]}")
                sums["wrong"] += 1
                continue
            if program.seconds > options.slowest:
                late.append(path.name)
                continue
            wishes = program.wishes()
            if options.sample is not None and options.sample < len(wishes):
                wishes = draws.sample(wishes, options.sample)
            done = list(
                pool.map(
                    lambda job: attempt(program, *job[1], f"{path.name}-{job[0]}"),  # noqa: B023
                    enumerate(wishes),
                )
            )
            found = {
                "sites": len({wish.split(":")[0] for _, wish in wishes}),
                "runs": len(wishes),
                "met": sum(run.code > 0 for run, _ in done),
            }
            wrong = sum(bool(what) for _, what in done)
            print(
                f"{path.name}: {len(program.sites)} sites, {found['sites']} failed, {found['runs']} runs: "
                f"{found['met']} ended in a check, {found['runs'] - found['met'] - wrong} as before",
                flush=True,
            )
            sums.update(found, programs=1, wrong=wrong)
            if not wrong and options.sample is None:
                record.add({"name": path.name, **{key: str(value) for key, value in found.items()}})
    for name, why in LEFT_OUT.items():
        print(f"{name} is left out: {why}")
    if late:
        print(f"left out, slower than {options.slowest:g} s: {', '.join(late)}")
    print(
        f"{sums['programs']} programs, {sums['sites']} sites failed, {sums['runs']} runs, "
        f"{sums['met']} ended in a check, {sums['wrong']} wrong"
    )
    return 1 if sums["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
