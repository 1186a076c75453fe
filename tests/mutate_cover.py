"""Which tests run a line of the sources, for mutate.py: a build with gcc's counters, each test run once.

A line whose code runs in no test cannot show a fault. A line that makes no code of its own (a constant's
definition, the end of a long statement) counts as run wherever its file is.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mutate_build import Build, read_json

OPTIONS = ("-DCMAKE_C_FLAGS_RELEASE=-O1 -DNDEBUG --coverage", "-DCMAKE_C_COMPILER_LAUNCHER=")
# file : line : the tests that run it
Lines = dict[str, dict[str, list[str]]]


class Cover:
    def __init__(self, tree: Path, folder: Path, jobs: int, watched: tuple[str, ...]) -> None:
        self.tree, self.folder, self.watched = tree.resolve(), folder.resolve(), watched
        kept, key = folder.parent / "cover.json", self.digest()
        found = read_json(kept)
        if found.get("key") != key:
            found = {"key": key, "lines": self.measure(Build(tree, folder, jobs, *OPTIONS))}
            kept.write_text(json.dumps(found), encoding="utf-8")
        self.lines: Lines = found["lines"]

    def tests(self, file: str, line: int) -> set[str] | None:
        """The tests that run a line; None where the counters know nothing of the file."""
        lines = self.lines.get(file)
        if lines is None:
            return None
        if str(line) in lines:
            return set(lines[str(line)])
        return {test for tests in lines.values() for test in tests}

    def digest(self) -> str:
        digest = hashlib.sha256()
        for path in sorted(self.tree.rglob("*.[ch]")):
            digest.update(str(path.relative_to(self.tree)).encode() + b"\0" + path.read_bytes())
        return digest.hexdigest()

    def measure(self, build: Build) -> Lines:
        lines: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        with ThreadPoolExecutor(build.jobs) as pool:
            runs = pool.map(lambda test: self.run(build.path(test), build.environment(test)), build.tests)
            for test, seen in zip(build.tests, runs, strict=True):
                for file, line, count in seen:
                    lines[file][line] |= {test} if count else set()
        return {f: {n: sorted(tests) for n, tests in of.items()} for f, of in lines.items()}

    def run(self, test: Path, environment: dict[str, str]) -> set[tuple[str, str, bool]]:
        """(file, line, whether it ran) of all watched lines of the objects that the test ran."""
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            silent = subprocess.DEVNULL
            environment = {**environment, "GCOV_PREFIX": scratch}
            subprocess.run(
                [str(test)], cwd=self.tree, env=environment, stdout=silent, stderr=silent, check=False
            )
            # Counters lie under their objects' paths; gcov wants the notes of the compiler beside them.
            counters = list(Path(scratch).rglob("*.gcda"))
            for path in counters:
                notes = Path("/") / path.relative_to(scratch).with_suffix(".gcno")
                shutil.copyfile(notes, path.with_suffix(".gcno"))
            done = subprocess.run(
                ["gcov", "--json-format", "--stdout", *map(str, counters)],
                cwd=self.folder,
                capture_output=True,
                text=True,
                check=True,
            )
        ran: dict[tuple[str, str], bool] = defaultdict(bool)
        for text in done.stdout.splitlines():
            for file in json.loads(text)["files"] if text.startswith("{") else []:
                name = self.name(file["file"])
                if name.startswith(self.watched):
                    for line in file["lines"]:
                        ran[name, str(line["line_number"])] |= line["count"] > 0
        return {(name, line, seen) for (name, line), seen in ran.items()}

    def name(self, file: str) -> str:
        path = Path(self.folder, file).resolve()
        return path.relative_to(self.tree).as_posix() if path.is_relative_to(self.tree) else file
