"""Lines and branches that tests ran, folder by folder, from a build with gcc's counters.

    coverage.py BUILD [--root REPOSITORY] [--list FOLDER] [--json FILE]

BUILD was compiled with --coverage and its tests and programs have run, also those whose calls to the system
were made to fail (tests/faults): the program writes its counters after main, where no call fails. gcov tells
for every object how often each line ran and each branch was taken. A line of a body that is compiled several
times (a kernel for each instruction-set level, a function of a header for each file) counts as run where one
of its copies ran; of its branches the copy counts whose branches were taken most, after copies of equally
many branches were put together. Only files of the repository's own folders count. --list prints the
lines of FOLDER that did not run, and those with a branch that was never taken.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

FOLDERS = ("src", "analysis", "models", "program", "statements", "engines")


@dataclass
class Line:
    ran: bool = False
    # number of branches of a copy : which of them were taken in any copy of so many
    branches: dict[int, list[bool]] = field(default_factory=dict)

    def add(self, count: int, taken: list[bool]) -> None:
        self.ran |= count > 0
        if taken:
            known = self.branches.setdefault(len(taken), [False] * len(taken))
            self.branches[len(taken)] = [a or b for a, b in zip(known, taken, strict=True)]

    def best(self) -> list[bool]:
        return max(self.branches.values(), key=lambda taken: sum(taken) / len(taken), default=[])


Lines = dict[str, dict[int, Line]]


def gcov(counters: list[Path]) -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run(
            ["gcov", "--json-format", "--branch-probabilities", "--stdout", *map(str, counters)],
            cwd=scratch,
            capture_output=True,
            text=True,
            check=True,
        )
    return [json.loads(text) for text in done.stdout.splitlines() if text.startswith("{")]


def add_file(lines: Lines, root: Path, entry: dict[str, object]) -> None:
    path = Path(str(entry["file"]))
    path = path if path.is_absolute() else root / path
    try:
        name = str(path.resolve().relative_to(root))
    except ValueError:
        return
    if name.split("/", maxsplit=1)[0] not in FOLDERS:
        return
    for row in entry["lines"]:  # type: ignore[attr-defined]
        taken = [branch["count"] > 0 for branch in row["branches"] if not branch["throw"]]
        lines[name][row["line_number"]].add(row["count"], taken)


def measure(build: Path, root: Path) -> Lines:
    lines: Lines = defaultdict(lambda: defaultdict(Line))
    # Objects that no test ran have notes and no counters; gcov takes either.
    notes = [path for path in sorted(build.rglob("*.gcno")) if "/tests/" not in str(path)]
    pieces = [notes[k : k + 16] for k in range(0, len(notes), 16)]
    with ThreadPoolExecutor(2) as pool:
        for documents in pool.map(gcov, pieces):
            for document in documents:
                for entry in document["files"]:  # type: ignore[attr-defined]
                    add_file(lines, root, entry)
    return lines


@dataclass
class Sum:
    lines: int = 0
    ran: int = 0
    branches: int = 0
    taken: int = 0

    def add(self, line: Line) -> None:
        best = line.best()
        self.lines += 1
        self.ran += line.ran
        self.branches += len(best)
        self.taken += sum(best)


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"


def folder_of(name: str) -> str:
    """Two levels of folders tell one subject from another, three below src/backend/cpu."""
    parts = name.split("/")[:-1]
    return "/".join(parts[: 4 if parts[:3] == ["src", "backend", "cpu"] else 2])


def print_table(lines: Lines) -> dict[str, Sum]:
    sums: dict[str, Sum] = defaultdict(Sum)
    for name, of in lines.items():
        for line in of.values():
            sums[folder_of(name)].add(line)
            sums["all"].add(line)
    print("| folder | lines | ran | branches | taken |\n|---|---|---|---|---|")
    for folder in sorted(sums, key=lambda word: (word == "all", word)):
        s = sums[folder]
        shares = f"{share(s.ran, s.lines)} | {s.branches} | {share(s.taken, s.branches)}"
        print(f"| {folder} | {s.lines} | {shares} |")
    return sums


def print_list(lines: Lines, folder: str, root: Path) -> None:
    for name in sorted(lines):
        if not name.startswith(folder):
            continue
        text = (root / name).read_text(encoding="utf-8").splitlines()
        for number in sorted(lines[name]):
            line = lines[name][number]
            missed = line.best().count(False)
            if not line.ran or missed:
                what = "never ran" if not line.ran else f"{missed} of {len(line.best())} branches"
                print(f"{name}:{number}: {what}: {text[number - 1].strip()[:90]}")


def main() -> int:
    parser = argparse.ArgumentParser(description="lines and branches that tests ran")
    parser.add_argument("build", type=Path)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--list", metavar="FOLDER")
    parser.add_argument("--json", type=Path, metavar="FILE")
    words = parser.parse_args()
    root = words.root.resolve()
    lines = measure(words.build.resolve(), root)
    if words.list:
        print_list(lines, words.list, root)
        return 0
    sums = print_table(lines)
    if words.json:
        words.json.write_text(json.dumps({folder: vars(s) for folder, s in sums.items()}), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
