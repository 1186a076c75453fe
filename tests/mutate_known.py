"""Plants the faults of tests/mutants_known.txt one by one; the test beside each must fail.

    mutate_known.py [--all] [--build BUILD] [--jobs J] [--only WORD] [--names]

Each was drawn by mutate.py once and is caught since, so that a test that loses its strength is noticed. A row
is file, test, line as it is, line with the fault; the first line of the file that reads so is changed. A test
is a file of C tests, plain_FILE on the plain backend, or FILE:PATTERN for those of its tests whose names
match. A row whose line is gone fails too: another fault of that file takes its place. Rows behind the line
"# all" are planted with --all only, as the campaign does. --names also prints the tests that failed.

BUILD is built by make, with tests (./dev test does): only what a fault changes is compiled again, from a copy
of the sources, and linked before the libraries. A header's fault meets the test file first, and where that
alone does not notice, everything that includes it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

from mutate_build import PLAIN, Runs, copy_tree, read_programs

KNOWN, MARK = "tests/mutants_known.txt", "# all"
# Most of the time is the compiler's. What the fault leaves unused is no error.
QUICK = ("-O1", "-w")
# Processor seconds that a test may take.
LIMIT = 60.0
FAILED = re.compile(r"^\[  FAILED  \] (\w+)$", re.MULTILINE)
STARTED = re.compile(r"^\[ RUN +\] (\w+)$", re.MULTILINE)


@dataclass(frozen=True)
class Known:
    file: str
    test: str
    old: str
    new: str

    def plant(self, text: str) -> str | None:
        """The text with the fault; None where no line reads as the row says."""
        lines = text.split("\n")
        for index, line in enumerate(lines):
            if line.strip() == self.old:
                lines[index] = line.replace(self.old, self.new)
                return "\n".join(lines)
        return None


@dataclass(frozen=True)
class Object:
    """What CMake compiles a source into: the command, where it runs, and the sources it read."""

    command: tuple[str, ...]
    folder: Path
    output: Path

    def read(self) -> set[str]:
        """Paths that the compiler noted; a compiler cache may have made them relative."""
        notes = Path(f"{self.output}.d")
        names = notes.read_text(encoding="utf-8").split() if notes.is_file() else []
        return {os.path.normpath(self.folder / name) for name in names}


def read_known(root: Path, everything: bool) -> list[Known]:
    rows = (root / KNOWN).read_text(encoding="utf-8").splitlines()
    if not everything:
        rows = rows[: rows.index(MARK)]
    return [Known(*row.split("\t")) for row in rows if row and not row.startswith("#")]


def read_objects(build: Path) -> list[Object]:
    found = []
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        words = shlex.split(entry["command"])
        folder = Path(entry["directory"])
        found.append(Object(tuple(words), folder, folder / words[words.index("-o") + 1]))
    return found


class Bench:
    """A copy of the sources in a folder of its own, and the build whose objects and libraries it uses."""

    def __init__(self, root: Path, build: Path, objects: list[Object], folder: Path) -> None:
        self.root, self.build, self.objects, self.folder = root, build, objects, folder
        self.tree = folder / "tree"
        self.programs = {file: program for file, program, _ in read_programs(build / "tests")}
        copy_tree(root, self.tree)
        self.runs = Runs(root, sanitized=False)
        # Whether the names of tests that the last fault made fail are wanted, and they.
        self.named, self.failed = False, list[str]()

    def judge(self, known: Known) -> str:
        """What is wrong, empty when the test failed as it must."""
        path = self.tree / known.file
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        planted = known.plant(text)
        if planted is None:
            return "no line reads so any more"
        path.write_text(planted, encoding="utf-8")
        try:
            return self.judge_planted(known)
        finally:
            path.write_text(text, encoding="utf-8")

    def judge_planted(self, known: Known) -> str:
        run, _, pattern = known.test.partition(":")
        test = run.removeprefix(PLAIN)
        program = self.programs[test]
        environment = dict(os.environ)
        if run != test:
            environment["OTATTN_TEST_BACKEND"] = "plain"
        # A file that is a program of its own takes no words.
        words = [] if program == test else [test, pattern or "*"]
        how, seconds = self.runs.execute([str(self.build / "tests" / program), *words], LIMIT, environment)
        if how is not None:
            return "fails without it"
        limit = 3 + 5 * seconds  # a fault may have it never end
        own, others = self.dependent(known.file, program, test)
        for objects in ([own] if own else []) + ([own + others] if others else []):
            path = self.link(program, objects)
            if path is None:
                return "does not compile"
            if self.runs.execute([str(path), *words], limit, environment)[0] is not None:
                self.names(path, words)
                return ""
        return "was not caught"

    def names(self, path: Path, words: list[str]) -> None:
        """Keeps the names of the tests that fail; where one does not end, its own."""
        if not self.named:
            return
        ask = ["timeout", "20", str(path), *words]
        done = subprocess.run(ask, cwd=self.root, capture_output=True, text=True, check=False)
        text = done.stdout + done.stderr
        self.failed = list(dict.fromkeys(FAILED.findall(text) or STARTED.findall(text)[-1:]))

    def dependent(self, file: str, program: str, test: str) -> tuple[list[Object], list[Object]]:
        """The object of the file of tests, and those of the libraries, that are made from a source."""
        read = [o for o in self.objects if str(self.root / file) in o.read()]
        inside = [o for o in read if f"{os.sep}{program}.dir{os.sep}" in str(o.output)]
        libraries = [o for o in read if o.folder == self.build and o.output.is_file()]
        return [o for o in inside if o.output.name == f"{test}.c.o"], libraries

    def link(self, program: str, objects: list[Object]) -> Path | None:
        """The program with these objects made from the copy, before the libraries that hold the others."""
        notes = self.build / "tests" / "CMakeFiles" / f"{program}.dir" / "link.txt"
        words = shlex.split(notes.read_text(encoding="utf-8"))
        at = words.index("-o")
        more = []
        for number, one in enumerate(objects):
            made = self.folder / f"{number}.o"
            if not self.compile(one, made):
                return None
            name = os.path.relpath(one.output, self.build / "tests")
            if name in words:
                words[words.index(name)] = str(made)
            else:
                more.append(str(made))
        path = self.folder / program
        words[at : at + 2] = [*more, "-o", str(path)]
        done = subprocess.run(words, cwd=self.build / "tests", capture_output=True, check=False)
        return path if done.returncode == 0 else None

    def compile(self, one: Object, made: Path) -> bool:
        words = [self.copied(word) for word in one.command]
        words[words.index("-o") + 1] = str(made)
        if "-MF" in words:
            words[words.index("-MF") + 1] = f"{made}.d"
        return (
            subprocess.run([*words, *QUICK], cwd=one.folder, capture_output=True, check=False).returncode == 0
        )

    def copied(self, word: str) -> str:
        """A word of the compiler that names the sources, for the copy of them; what the build wrote stays."""
        return word if str(self.build) in word else word.replace(str(self.root), str(self.tree))


def judge_all(root: Path, build: Path, rows: list[Known], jobs: int, names: bool) -> int:
    """Prints a line for each row, in order; how many are wrong."""
    objects, wrong = read_objects(build), 0
    with tempfile.TemporaryDirectory(dir=build) as scratch, ThreadPoolExecutor(jobs) as pool:
        benches: Queue[Bench] = Queue()
        for job in range(jobs):
            benches.put(Bench(root, build, objects, Path(scratch, str(job))))

        def judge(known: Known) -> tuple[str, list[str]]:
            bench = benches.get()
            try:
                bench.named, bench.failed = names, []
                return bench.judge(known), bench.failed
            finally:
                benches.put(bench)

        for known, (why, failed) in zip(rows, pool.map(judge, rows), strict=True):
            wrong += why != ""
            print(
                f"{why or 'caught':16} {known.file}  {known.old}  ->  {known.new}  {known.test}", flush=True
            )
            if names:
                print(f"{'':16} {' '.join(failed)}")
    return wrong


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description="Plants known faults, which the tests named must catch.")
    parser.add_argument("--build", type=Path, default=root / "build")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="rows that hold this word")
    parser.add_argument("--all", action="store_true", help="also the rows that are too many for CI")
    parser.add_argument("--names", action="store_true", help="print the tests that failed")
    options = parser.parse_args()
    rows = [
        known
        for known in read_known(root, options.all)
        if any(options.only in part for part in vars(known).values())
    ]
    wrong = judge_all(root, options.build.resolve(), rows, options.jobs, options.names)
    print(f"{len(rows) - wrong} of {len(rows)} known faults caught")
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
