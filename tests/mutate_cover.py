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

# With a seed of its own every compilation would make another program.
FLAGS = "-O1 -DNDEBUG --coverage -frandom-seed=otattn"
OPTIONS = (f"-DCMAKE_C_FLAGS_RELEASE={FLAGS}", "-DCMAKE_C_COMPILER_LAUNCHER=")
# file : line : whether the test ran it, for every file that the test links
Counts = dict[str, dict[str, bool]]


class Cover:
    """FOLDER beside a kept file: a test is counted anew where it or any watched source has changed."""

    def __init__(self, tree: Path, folder: Path, jobs: int, watched: tuple[str, ...]) -> None:
        self.tree, self.folder, self.watched = tree.resolve(), folder.resolve(), watched
        kept = folder.parent / "cover.json"
        found, sources = read_json(kept), self.digest()
        build = Build(tree, folder, jobs, *OPTIONS)
        # test : what it was counted for, and its counts
        self.counts: dict[str, tuple[str, Counts]] = {}
        with ThreadPoolExecutor(jobs) as pool:
            counted = pool.map(lambda test: self.count(build, test, sources, found.get(test)), build.tests)
            self.counts = dict(zip(build.tests, counted, strict=True))
        kept.write_text(json.dumps(self.counts), encoding="utf-8")

    def tests(self, file: str, line: int) -> set[str] | None:
        """The tests that run a line; None where the counters know nothing of the file."""
        lines = {test: counts[file] for test, (_, counts) in self.counts.items() if file in counts}
        if not lines:
            return None
        if any(str(line) in of for of in lines.values()):
            return {test for test, of in lines.items() if of.get(str(line))}
        return {test for test, of in lines.items() if any(of.values())}

    def digest(self) -> str:
        """Of the watched sources: a comment moves lines and leaves the programs as they are."""
        digest = hashlib.sha256()
        for path in sorted(p for top in self.watched for p in (self.tree / top).rglob("*.[ch]")):
            digest.update(str(path.relative_to(self.tree)).encode() + b"\0" + path.read_bytes())
        return digest.hexdigest()

    def count(
        self, build: Build, test: str, sources: str, known: tuple[str, Counts] | None
    ) -> tuple[str, Counts]:
        key = sources + build.key(test)
        if known and known[0] == key:
            return key, known[1]
        counts: Counts = defaultdict(dict)
        for file, line, ran in self.run(build.command(test), build.environment(test)):
            counts[file][line] = ran
        return key, counts

    def run(self, command: list[str], environment: dict[str, str]) -> set[tuple[str, str, bool]]:
        """(file, line, whether it ran) of all watched lines of the objects that the test ran."""
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            silent = subprocess.DEVNULL
            environment = {**environment, "GCOV_PREFIX": scratch}
            subprocess.run(command, cwd=self.tree, env=environment, stdout=silent, stderr=silent, check=False)
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
