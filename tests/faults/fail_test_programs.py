"""Fails every call that the library makes while a C test runs, one at a time.

The tests of a file run one by one (OTATTN_FAULT_TEST of failing_calls.h). A first run of each counts its
calls by site. Sites whose innermost function is the library's then fail, the first call and the last, with
each failure of their kind; what a test itself asks for is left alone. Where several tests of a file
reach a site, the quickest has its calls failed. A test may then fail by its own checks, which is a refusal
that it met, or go on as before. What must not be: a signal (cmocka tells of them), a run that does not end,
or, where the test passes, a block or descriptor held that the run without failure does not hold. Blocks of
a test that a failed check left are nobody's; runs that jansson ends, which a library cannot lend a reserve,
are counted.

    python3 tests/faults/fail_test_programs.py --tests build/tests --archives build
        --library build/tests/libfailing_calls.so
        [--only NAME]... [--sample N] [--slowest SECONDS] [--record FILE]

Tests that take longer than --slowest are left out, with their names; random tests run every 40th case.
With --record a file of tests whose calls all failed as they should becomes a row of FILE, and later runs of
the same program leave it out but count it.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
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
# Tests that would judge the stand-in, not the library.
LEFT_OUT_TESTS = {
    "test_memory_is_given_back": "it weighs the memory of the process",
    "test_hostile_files_are_answered_at_once": "it times the processor",
}
HIDDEN = ("short", "4")  # half reads and writes, EINTR


def names_of(archives: Iterable[Path]) -> set[str]:
    """Functions of the project's own archives."""
    listed = subprocess.run(["nm", *map(str, archives)], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in listed.splitlines())
    return {row[2] for row in rows if len(row) == 3 and row[1] in "tT"}


class Program:
    """A file of tests in its program, and how one of them is run."""

    def __init__(self, file: str, path: Path, library: Path, own: set[str], place: Path):
        self.file, self.path, self.library, self.own, self.place = file, path, library, own, place
        self.command = [str(path)] if path.name == file else [str(path), file]
        self.symbols = Symbols(path)

    def run(self, name: str, test: str = "*", wish: str = "") -> Run:
        with tempfile.TemporaryDirectory(dir=self.place) as folder:
            log = self.place / f"{self.file}-{name}.log"
            more = {"OTATTN_TEST_STRIDE": STRIDE, "OMP_NUM_THREADS": "1", "OTATTN_FAULT_TEST": test}
            return run(self.library, self.command, Path(folder), log, wish, **more)

    def tests(self) -> tuple[list[Test], bool]:
        """The tests that it says it runs, the quickest first, and whether it came to its end."""
        done = self.run("all")
        names = re.findall(r"^\[ RUN +\] (\w+)$", done.out.decode(errors="replace"), re.MULTILINE)
        tests = [Test(self, name) for name in dict.fromkeys(names) if name not in LEFT_OUT_TESTS]
        return sorted(tests, key=lambda test: test.seconds), not done.timed_out

    def calls(self, site: Site) -> bool:
        """Whether the innermost function of the program itself is the library's."""
        frames = (frame for frame in site.frames if frame.startswith("program+"))
        return next((self.symbols.name(frame) for frame in frames), "") in self.own


class Test:
    """One test, its run without failure, and what may fail in it."""

    def __init__(self, program: Program, name: str):
        self.program, self.name = program, name
        begun = time.monotonic()
        self.whole = program.run("whole", name)
        self.seconds = time.monotonic() - begun
        sites = self.whole.log.sites.values()
        self.sites = [site for site in sites if not site.foreign and program.calls(site)]

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
            return f"{leaks[0].held} blocks more held of {self.program.symbols.stack(leaks[0])}"
        if done.log.descriptors > self.whole.log.descriptors:
            return "a descriptor more"
        return ""


@dataclass
class Trial:
    test: Test
    site: Site
    wish: str  # of OTATTN_FAULT

    def ends_inside(self, done: Run) -> bool:
        """Whether a library that writes where it has no memory ended the run."""
        return self.site.fragile and done.code < 0

    def attempt(self, name: str) -> tuple[Run, str]:
        program = self.test.program
        done = program.run(name, self.test.name, self.wish)
        wrong = "" if self.ends_inside(done) else self.test.wrong(done, self.wish)
        if wrong:
            _, call, what = self.wish.split(":")
            print(
                f"WRONG {program.file}, {self.test.name}: {self.site.kind} {what}, "
                f"call {call} of {self.site.calls}: {wrong}\n    at {program.symbols.stack(self.site)}\n"
                f"    said: {done.error.strip()[-300:]}",
                flush=True,
            )
        return done, wrong


def trials(tests: Iterable[Test]) -> list[Trial]:
    """Each site in the first of the tests that reaches it."""
    found, known = [], set()
    for test in tests:
        for site in test.sites:
            if site.key in known:
                continue
            known.add(site.key)
            for failure in FAILURES[site.kind]:
                for occurrence in sorted({1, site.calls}):
                    found.append(Trial(test, site, f"{site.key}:{occurrence}:{failure}"))
    return found


class Driver:
    def __init__(self, options: argparse.Namespace, pool: concurrent.futures.Executor, place: Path):
        self.options, self.pool, self.place = options, pool, place
        archives = sorted(options.archives.glob("*.a"))
        self.own = names_of(path for path in archives if path.name != "libotattn_reference.a")
        self.library = options.library.resolve()
        self.draws = random.Random(options.seed)
        self.late: list[str] = []

    def programs(self) -> list[tuple[str, Path]]:
        """Files of tests that were built, with their programs (tests/CMakeLists.txt writes the table)."""
        rows = (self.options.tests / "programs.tsv").read_text(encoding="utf-8").splitlines()
        found = sorted((row.split("\t")[0], self.options.tests / row.split("\t")[2]) for row in rows)
        return [
            (file, path)
            for file, path in found
            if path.is_file() and file not in LEFT_OUT
            and (not self.options.only or file in self.options.only)
        ]  # fmt: skip

    def fail(self, file: str, path: Path) -> Counter[str]:
        """Fails the calls of one file of tests; the counts are those of FIELDS."""
        tests, bad = [], []
        listed, ended = Program(file, path.resolve(), self.library, self.own, self.place).tests()
        if not ended:
            self.late.append(f"{file}, of which not all tests were listed")
        for test in listed:
            if test.whole.code != 0 or test.whole.timed_out:
                bad.append(test.name)
                print(f"WRONG {file}, {test.name}: does not pass by itself: {test.whole.error[-600:]}")
            elif test.seconds > self.options.slowest:
                self.late.append(f"{file} {test.name}")
            else:
                tests.append(test)
        wanted = trials(tests)
        if self.options.sample is not None and self.options.sample < len(wanted):
            wanted = self.draws.sample(wanted, self.options.sample)
        begun = [self.pool.submit(trial.attempt, str(k)) for k, trial in enumerate(wanted)]
        runs = [future.result() for future in begun]
        found = Counter(
            tests=len(tests),
            sites=len({trial.site.key for trial in wanted}),
            runs=len(runs),
            met=sum(done.code > 0 for done, _ in runs),
            inside=sum(trial.ends_inside(done) for trial, (done, _) in zip(wanted, runs, strict=True)),
            wrong=sum(bool(wrong) for _, wrong in runs) + len(bad),
        )
        print(
            f"{file}: {found['tests']} tests, {found['sites']} sites failed, {found['runs']} runs: "
            f"{found['met']} ended in a check, {found['inside']} inside jansson, {found['wrong']} wrong",
            flush=True,
        )
        return found


FIELDS = ("tests", "sites", "runs", "met", "inside", "wrong")


def main() -> int:
    parser = argparse.ArgumentParser(
        description="every call of the library fails once over the test programs"
    )
    parser.add_argument("--tests", type=Path, required=True, help="folder of the test programs")
    parser.add_argument("--archives", type=Path, required=True, help="folder of the static libraries")
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--sample", type=int, help="so many failures of each file of tests")
    parser.add_argument("--slowest", type=float, default=2.0, metavar="SECONDS")
    parser.add_argument("--record", type=Path, metavar="FILE")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-j", type=int, default=2, dest="jobs")
    options = parser.parse_args()
    sums: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory(dir=memory_folder()) as scratch,
        concurrent.futures.ThreadPoolExecutor(options.jobs) as pool,
    ):
        driver = Driver(options, pool, Path(scratch))
        for file, path in driver.programs():
            build = digest(path, driver.library, Path(__file__)) if options.record else ""
            record = DoneRecord(options.record, build, ("name", *FIELDS))
            row = next((row for row in record.rows if row["name"] == file), None)
            found = Counter({name: int(row[name]) for name in FIELDS}) if row else driver.fail(file, path)
            sums.update(found, programs=1)
            if not (row or found["wrong"]) and options.sample is None:
                record.add({"name": file, **{name: str(found[name]) for name in FIELDS}})
    for name, why in (LEFT_OUT | LEFT_OUT_TESTS).items():
        print(f"{name} is left out: {why}")
    if driver.late:
        print(f"left out, slower than {options.slowest:g} s: {', '.join(driver.late)}")
    print(
        f"{sums['programs']} programs, {sums['tests']} tests, {sums['sites']} sites failed, "
        f"{sums['runs']} runs, {sums['met']} ended in a check, {sums['inside']} inside jansson, "
        f"{sums['wrong']} wrong"
    )
    return 1 if sums["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
