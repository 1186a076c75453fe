"""A copy of the sources in which mutate.py plants one fault at a time and asks the tests.

What a fault can meet, in this order, until something notices: the C tests that can reach it, few at a time,
first those that are short for what they caught before; the likeliest of them under the address sanitizer;
the random cases of ./dev dump, whose outputs must keep every bit that they had without the fault; the
Python tests of the program that are about the fault's folder.
"""

from __future__ import annotations

import collections
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mutate_build import PLAIN, PLAIN_FOLDER, Build, copy_tree, may_run, objects_of, read_json, symbols
from mutate_cover import Cover
from mutate_places import Fault

# Processor seconds of linking a test, and how many of linking and running go into one batch.
LINK_SECONDS, BATCH_SECONDS = 0.1, 1.5
# The sanitizer's build, how many times longer its tests run at most, and the seconds that one fault is given.
SLOWER, SANITIZED_SECONDS = 6.0, 30.0
SANITIZED = ("-DOTATTN_SANITIZE=address", "-DCMAKE_C_FLAGS_RELEASE=-O1 -DNDEBUG")
# The program of the random cases, where the ranges begin and end that are run one by one, and the sources
# that the cases run.
DUMP, DUMP_RANGES, DUMPED = "dump", (0, 100, 1000, 4000, 10600), "src/"

# What calls a fault seen by the program's tests, processor seconds of one process of them, and the files of
# tests/python/program by the folder of a fault. What tears runs and refuses calls takes long and is left out.
PROGRAM, PROGRAM_SECONDS = "program", 600.0
PROGRAM_TESTS = {
    "models/": "model tokenizer sentencepiece exit",
    "analysis/": "analyze certif align stud sink exit run_report verify",
    "src/": "program gradients shard verify",
}


class Hits:
    """file : test : how often it caught a fault of that file, in earlier runs too."""

    def __init__(self, kept: Path) -> None:
        self.kept = kept
        self.of: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        for file, tests in read_json(kept).items():
            self.of[file].update(tests)

    def add(self, file: str, test: str) -> None:
        self.of[file][test] += 1
        self.kept.write_text(json.dumps(self.of), encoding="utf-8")

    def near(self, file: str) -> collections.Counter[str]:
        found: collections.Counter[str] = collections.Counter()
        for other, hits in list(self.of.items()):
            if Path(other).parent == Path(file).parent:
                found.update(hits)
        return found


@dataclass(frozen=True)
class Limits:
    """What a fault may cost: processor seconds of its tests; whether sanitizer and dump are asked as well; an
    interpreter with the packages of tests/requirements.txt, for the tests of the program."""

    seconds: float
    thorough: bool
    python: Path | None


class Bench:
    """A copy of the tree in FOLDER/tree and its build in FOLDER/build; if thorough, FOLDER/sanitized too.

    `seconds`: what each test takes, where another bench knows it already.
    """

    def __init__(
        self,
        root: Path,
        folder: Path,
        jobs: int,
        limits: Limits,
        hits: Hits,
        seconds: Mapping[str, float] | None = None,
    ) -> None:
        self.root, self.folder, self.tree = root, folder, folder / "tree"
        self.limits, self.hits = limits, hits
        folder.mkdir(parents=True, exist_ok=True)
        copy_tree(root, self.tree)
        self.build = Build(self.tree, folder / "build", jobs)
        if seconds is None:
            self.build.baseline()
        else:
            self.build.seconds = dict(seconds)
        self.clean = self.build.code()
        self.calls = {test: symbols(self.build.path(test)) for test in self.build.tests}
        self.cover: Cover | None = None
        self.sanitized: Build | None = None
        self.dump_seconds: list[float] = []
        self.sound: set[str] = set()  # folders whose tests of the program were seen to pass without a fault
        if limits.thorough:
            self.sanitized = Build(self.tree, folder / "sanitized", jobs, *SANITIZED)
            self.sanitized.seconds = {t: SLOWER * s for t, s in self.build.seconds.items()}
            self.dump_seconds = self.keep_bits()
        self.planted: tuple[Path, str] | None = None

    def linking(self, file: str) -> list[str]:
        """The tests that link the file, or for a header any file of the folder that the header serves."""
        objects = objects_of(file, [str(path) for path in self.build.folder.rglob("*.o")])
        names = frozenset().union(*(symbols(Path(path)) for path in objects))
        return [test for test in self.build.tests if self.calls[test] & names and may_run(test, file)]

    def reaching(self, fault: Fault) -> list[str]:
        """The tests that can see the fault, in the order in which they should be tried."""
        seen = self.cover.tests(fault.file, fault.line) if self.cover else None
        tests = self.linking(fault.file) if seen is None else [t for t in self.build.tests if t in seen]
        near, own = self.hits.near(fault.file), self.hits.of[fault.file]

        def worth(test: str) -> float:
            plain = fault.file.startswith(PLAIN_FOLDER)
            named = test.startswith(PLAIN) if plain else test[5:] in Path(fault.file).stem
            chance = own[test] + 0.05 * near[test] + (1.0 if named else 0.1)
            return chance / (self.build.seconds[test] + LINK_SECONDS)

        return sorted(tests, key=worth, reverse=True)

    def plant(self, fault: Fault) -> None:
        """Writes the fault. The one before it was taken back without a build: one build does both."""
        path = self.tree / fault.file
        text = path.read_text(encoding="utf-8")
        self.planted = path, text
        path.write_text(fault.plant(text), encoding="utf-8")

    def restore(self) -> None:
        if self.planted:
            self.planted[0].write_text(self.planted[1], encoding="utf-8")
            self.planted = None

    def judge(self, fault: Fault) -> str | None:
        """What noticed the fault; empty when nothing did; None when it is no fault."""
        self.plant(fault)
        try:
            return self.judge_planted(fault)
        finally:
            self.restore()

    def judge_planted(self, fault: Fault) -> str | None:
        if not self.build.make(*self.build.libraries()) or self.build.code() == self.clean:
            return None
        tests = self.reaching(fault)
        caught = self.caught(self.build, affordable(self.build, tests, self.limits.seconds))
        if caught and caught.startswith(PLAIN):
            self.acquit(self.build, caught.split()[0])
        if caught:
            self.hits.add(fault.file, caught.split()[0])
        if caught == "" and self.sanitized:
            caught = self.caught(self.sanitized, affordable(self.sanitized, tests, SANITIZED_SECONDS))
            if caught:
                self.acquit(self.sanitized, caught.split()[0])
                caught += " sanitized"
        if caught == "" and self.dump_seconds and fault.file.startswith(DUMPED):
            caught = self.moved_bits()
        if caught == "" and self.limits.python:
            caught = self.program_fails(fault, self.limits.python)
        return caught

    def acquit(self, build: Build, test: str) -> None:
        """A test that was never run without a fault must pass without it."""
        self.restore()
        build.stop.clear()
        if not build.make(test) or build.run(test, 600)[0]:
            raise RuntimeError(f"without any fault, {test} fails in {build.folder}")

    def caught(self, build: Build, tests: list[str]) -> str | None:
        for batch in self.batches(tests, build):
            if not build.make(*batch):
                return None
            failure = build.first_failure(batch)
            if failure:
                return failure
        return ""

    def batches(self, tests: list[str], build: Build) -> list[list[str]]:
        """The likeliest test is linked and run alone, then as many as BATCH_SECONDS holds."""
        found, left = [tests[:1]], 0.0
        for test in tests[1:]:
            cost = build.seconds[test] + LINK_SECONDS
            if cost > left:
                found.append([])
                left = BATCH_SECONDS
            found[-1].append(test)
            left -= cost
        return [batch for batch in found if batch]

    # ---- the bits of the random cases ----

    def dump(self, index: int, what: str, limit: float) -> tuple[str | None, float]:
        """Writes or compares the bits of a range of the cases: how it failed, if it did, and its seconds."""
        first, end = DUMP_RANGES[index : index + 2]
        program, kept = self.build.folder / "tests" / DUMP, self.folder / f"bits-{index}"
        cases = ["--first", str(first), "--count", str(end - first), "--processes", "1"]
        self.build.stop.clear()
        return self.build.execute([str(program), *cases, what, str(kept)], limit)

    def keep_bits(self) -> list[float]:
        """The processor seconds of each range."""
        found = []
        for index in range(len(DUMP_RANGES) - 1):
            how, seconds = self.dump(index, "--write", 3600)
            if how is not None:
                raise RuntimeError(f"without any fault, {DUMP} fails in {self.build.folder}{how}")
            found.append(seconds)
        return found

    def moved_bits(self) -> str | None:
        if not self.build.make(DUMP):
            return None
        for index, took in enumerate(self.dump_seconds):
            how, _ = self.dump(index, "--compare", 10 + 5 * took)
            if how is not None:
                return DUMP + how
        return ""

    # ---- the program's own tests ----

    def program_tests(self, folder: str, python: Path) -> str | None:
        """Builds the program and runs its tests on a folder of the sources: how they failed."""
        if not self.build.make("otattn_program", "test_files"):
            return None
        there = Path("tests", "python", "program")
        words = PROGRAM_TESTS[folder].split()
        names = {f.name for word in words for f in (self.root / there).glob(f"test_*{word}*.py")}
        built = self.build.folder
        environment = {
            **os.environ,
            "OTATTN": str(built / "otattn"),
            "OTATTN_BUILD": str(built),
            "OTATTN_TEST_FILES": str(built / "tests" / "test_files"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = [str(python), "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not long"]
        command += [str(there / name) for name in sorted(names)]
        self.build.stop.clear()
        how, _ = self.build.execute(command, PROGRAM_SECONDS, environment, self.root)
        return "" if how is None else PROGRAM + how

    def program_fails(self, fault: Fault, python: Path) -> str | None:
        folder = next(name for name in PROGRAM_TESTS if fault.file.startswith(name))
        found = self.program_tests(folder, python)
        if found and folder not in self.sound:
            self.restore()
            if self.program_tests(folder, python):
                raise RuntimeError(f"without any fault, the program's tests of {folder} fail in {self.tree}")
            self.sound.add(folder)
        return found


def affordable(build: Build, tests: list[str], seconds: float) -> list[str]:
    """As many of the tests, the likeliest first, as `seconds` hold; the first whatever it takes."""
    kept: list[str] = []
    for test in tests:
        seconds -= build.seconds[test]
        if seconds >= 0 or not kept:
            kept.append(test)
    return kept
