"""One build of the copied tree and the runs of its tests, for mutate.py."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

# All folders are copied but these and the hidden ones: nothing is built of them.
LEFT_OUT = ("build*", ".*", "docs", "packaging", "web")
PARTS = ("-DOTATTN_TESTS=ON",)
# KiB of address space that a test may have: a fault must not take the machine's. The sanitizer maps more.
MEMORY = 16 << 20
# Sanitizers want their shadow where a random layout may have put something else.
FIXED = ("setarch", "-R") if shutil.which("setarch") else ()
# Fresh memory holds 1.4e306, freed memory something else: what is read there by a fault is seen.
FILLED = {"MALLOC_PERTURB_": "128", "ASAN_OPTIONS": "max_malloc_fill_size=1000000000:malloc_fill_byte=127"}

# The prefix of runs on the plain backend.
PLAIN = "plain_"
PLAIN_FOLDER = "src/backend/plain/"
# How many times longer such a run takes; none is timed, since few faults want one.
PLAIN_SLOWER = 6.0


def read_programs(tests: Path) -> list[tuple[str, str, bool]]:
    """Each file of tests, its program, whether it runs on the plain backend too; CMake writes the table."""
    rows = (tests / "programs.tsv").read_text(encoding="utf-8").splitlines()
    return [(file, program, also == "plain") for file, _, program, also in (row.split("\t") for row in rows)]


class Runs:
    """Programs run in `tree` one by one or side by side, each with limits and its processor time taken."""

    def __init__(self, tree: Path, sanitized: bool) -> None:
        self.tree, self.sanitized = tree.resolve(), sanitized
        self.stop = threading.Event()

    def execute(
        self,
        words: Sequence[str],
        limit: float,
        environment: Mapping[str, str] = os.environ,
        there: Path | None = None,
    ) -> tuple[str | None, float]:
        """How the command failed, None when it did not or was stopped, and its processor seconds.

        It runs `there`, or in the tree.
        """
        if self.stop.is_set():
            return None, 0.0
        memory = "" if self.sanitized else f"ulimit -v {MEMORY}; "
        silent = subprocess.DEVNULL
        child = subprocess.Popen(
            ["/bin/sh", "-c", f'ulimit -t {limit:.0f}; {memory}exec "$@"', "sh", *FIXED, *words],
            cwd=there or self.tree,
            env={**environment, **FILLED},
            stdout=silent,
            stderr=silent,
            start_new_session=True,
        )
        # A busy machine takes long for little; only a test that waits for ever reaches this end.
        end, pause, killed = time.monotonic() + 60 + 20 * limit, 0.01, False
        while True:
            done, status, usage = os.wait4(child.pid, os.WNOHANG)
            if done:
                break
            if self.stop.is_set() or time.monotonic() > end:
                killed = True
                os.killpg(child.pid, signal.SIGKILL)
            time.sleep(pause)
            pause = min(0.1, 1.5 * pause)
        child.returncode = os.waitstatus_to_exitcode(status)
        seconds = usage.ru_utime + usage.ru_stime
        if child.returncode == 0 or (killed and self.stop.is_set()):
            return None, seconds
        return " (hung)" if killed else signal_name(child.returncode), seconds


class Build(Runs):
    """`tree` built in `folder` with CMake's `options` as well as PARTS: all of it, or `targets`."""

    def __init__(
        self, tree: Path, folder: Path, jobs: int, *options: str, targets: Sequence[str] = ("all",)
    ) -> None:
        super().__init__(tree, any("SANITIZE" in option for option in options))
        self.folder, self.jobs = folder.resolve(), jobs
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        self.run_or_end("cmake", "-S", str(self.tree), "-B", str(self.folder), *generator, *PARTS, *options)
        rows = read_programs(self.folder / "tests")
        self.programs = {file: program for file, program, _ in rows}
        self.run_or_end("cmake", "--build", str(self.folder), *self.wanted(targets))
        self.seconds: dict[str, float] = {}
        self.tests = sorted(test for test in self.programs if os.access(self.path(test), os.X_OK))
        self.tests += [PLAIN + file for file, _, plain in rows if plain and file in self.tests]

    def run_or_end(self, *command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"mutate: {' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")

    def wanted(self, targets: Sequence[str]) -> list[str]:
        """CMake's words for targets, among them files of tests."""
        names = {name.removeprefix(PLAIN) for name in targets}
        return ["-j", str(self.jobs), "--target", *sorted({self.programs.get(name, name) for name in names})]

    def path(self, test: str) -> Path:
        return self.folder / "tests" / self.programs[test.removeprefix(PLAIN)]

    def command(self, test: str) -> list[str]:
        """The program of a file of tests, and the word that has it run those alone."""
        name, path = test.removeprefix(PLAIN), self.path(test)
        return [str(path)] if path.name == name else [str(path), name]

    def environment(self, test: str) -> dict[str, str]:
        own = {"OTATTN_TEST_BACKEND": "plain"} if test.startswith(PLAIN) else {}
        if test == "test_locale":
            own["LOCPATH"] = str(self.folder / "tests" / "locale")  # as CMake has it for ctest
        return {**os.environ, **own}

    def make(self, *targets: str) -> bool:
        command = ["cmake", "--build", str(self.folder), *self.wanted(targets)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def libraries(self) -> list[str]:
        """The targets whose code counts; otattn_spectra needs LAPACKE, otattn_model jansson."""
        optional = [n for n in ("otattn_spectra", "otattn_model") if (self.folder / f"lib{n}.a").is_file()]
        return ["otattn_static", "otattn_analysis", *optional]

    def code(self) -> str:
        """A digest of the libraries' machine code."""
        digest = hashlib.sha256()
        for library in sorted(self.folder.glob("libotattn*.a")):
            digest.update(library.read_bytes())
        return digest.hexdigest()

    # ---- running tests ----

    def run(self, test: str, limit: float) -> tuple[str, float]:
        """What became of the test, empty when it passed, and its processor seconds, at most `limit`."""
        how, seconds = self.execute(self.command(test), limit, self.environment(test))
        return "" if how is None else test + how, seconds

    def baseline(self) -> None:
        """self.seconds: processor seconds of each test without a fault; unchanged programs keep theirs."""
        file = self.folder / "baseline.json"
        known = read_json(file)
        timed = [test for test in self.tests if not test.startswith(PLAIN)]
        keys = [self.key(test) for test in timed]
        with ThreadPoolExecutor(self.jobs) as pool:
            took = list(pool.map(lambda test, key: self.time(test, known.get(key)), timed, keys))
        file.write_text(json.dumps(dict(zip(keys, took, strict=True))), encoding="utf-8")
        of = dict(zip(timed, took, strict=True))
        self.seconds = {t: of.get(t) or PLAIN_SLOWER * of[t.removeprefix(PLAIN)] for t in self.tests}

    def key(self, test: str) -> str:
        """A digest of what runs for a file of tests."""
        return hashlib.sha256(test.encode() + b"\0" + self.path(test).read_bytes()).hexdigest()

    def time(self, test: str, known: float | None) -> float:
        if known is not None:
            return known
        failure, seconds = self.run(test, 600)
        if failure:
            sys.exit(f"mutate: without any fault, {failure} fails in {self.folder}")
        return seconds

    def first_failure(self, tests: list[str]) -> str:
        """Runs the tests side by side until one fails; empty when none does."""
        self.stop.clear()
        with ThreadPoolExecutor(self.jobs) as pool:
            return next((failure for failure in pool.map(self.notice, tests) if failure), "")

    def notice(self, test: str) -> str:
        failure, _ = self.run(test, 3 + 5 * self.seconds[test])
        if failure:
            self.stop.set()
        return failure


def copy_tree(root: Path, tree: Path) -> None:
    """Brings the copy of the sources up to date, touching only what differs."""
    wanted = set()
    for top in root.iterdir():
        if any(top.match(pattern) for pattern in LEFT_OUT):
            continue
        for path in [top, *top.rglob("*")]:
            if path.is_file() and "__pycache__" not in path.parts:
                wanted.add(path.relative_to(root))
    for path in [p for p in tree.rglob("*") if p.is_file()]:
        if path.relative_to(tree) not in wanted:
            path.unlink()
    for name in wanted:
        target = tree / name
        if not target.is_file() or target.read_bytes() != (root / name).read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, target)


def signal_name(status: int) -> str:
    return f" ({signal.Signals(-status).name})" if status < 0 else ""


def listing(path: Path) -> str:
    done = subprocess.run(["nm", "--defined-only", str(path)], capture_output=True, text=True, check=True)
    return done.stdout


def symbols(path: Path) -> frozenset[str]:
    return frozenset(re.findall(r" [TtRrDdBb] (ota_\w+)", listing(path)))


def objects_of(file: str, objects: list[str]) -> list[str]:
    """A source's own, a header's those of its folder; where that has none, those of the folder above."""
    if file.endswith(".c"):
        return [path for path in objects if f"/{file}.o" in path]
    for folder in Path(file).parents:
        found = [path for path in objects if f"/{folder.as_posix()}/" in path]
        if found:
            return found
    return []


def may_run(test: str, file: str) -> bool:
    """Runs on the plain backend take long, and see elsewhere what the others see."""
    return not test.startswith(PLAIN) or file.startswith(PLAIN_FOLDER)


def read_json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
