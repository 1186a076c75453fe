"""Plants one-line faults in copies of the sources and asks whether the C tests notice.

    mutate.py [--count N] [--seed S] [--since REV] [--only PATTERN] [--thorough] [--seconds T]
              [--folder BUILD] [--jobs J] [--table FILE [--again]] [--python PYTHON]
    mutate.py --list          prints every place where a fault can be planted
    mutate.py --self-test     one fault of each kind, planted in text, must come out as said

Faults are drawn from src, analysis and models (mutate_places.py), with --since from lines that changed since
that commit, with --only from files whose path the pattern matches, and judged side by side in J copies, each
built incrementally (mutate_bench.py). A fault that does not compile or leaves the machine code as it was is
none, and another is drawn. The tests that can reach the fault are linked and run few at a time, first those
that are short for what they caught before, until one fails. These are the tests that link the changed file;
with --thorough, those that a build with counters has seen run the changed line, and what they do not notice
meets the likeliest once more under the address sanitizer and, in src, the random cases of ./dev dump, which
must keep their bits. With --python, an environment with tests/requirements.txt, survivors meet the Python
tests of the program on the fault's folder too. With --seconds a fault meets only as many of these tests as
take so long together. Verdicts that the table holds already stand; with --again, survivors are judged anew.
With less than 85 % caught the exit status is 1; survivors are listed. Faults that no test could see stand
with their reason in tests/mutants_equivalent.txt.
"""

from __future__ import annotations

import argparse
import collections
import os
import queue
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mutate_bench import DUMP, PROGRAM, Bench, Hits, Limits
from mutate_cover import Cover
from mutate_places import FOLDERS, Fault, all_faults
from mutate_self_test import self_test

EQUIVALENT = "tests/mutants_equivalent.txt"
LEAST_CAUGHT = 0.85
# How many faults beyond the one whose verdict is waited for are judged, for each copy.
AHEAD = 16


@dataclass
class Verdict:
    fault: Fault
    old_line: str
    new_line: str
    outcome: str  # caught, survived, equivalent, none
    by: str


# ---- judging side by side ---------------------------------------------------------------------------


def make_benches(root: Path, folder: Path, jobs: int, limits: Limits) -> list[Bench]:
    """One for each job. The first is built and timed by all processors."""
    hits = Hits(folder / "hits.json")
    first = Bench(root, folder, jobs, limits, hits)
    benches = [first]
    for index in range(1, jobs):
        benches.append(Bench(root, folder / f"copy-{index}", jobs, limits, hits, first.build.seconds))
    cover = Cover(first.tree, folder / "cover", jobs, FOLDERS) if limits.thorough else None
    for bench in benches:
        bench.cover, bench.build.jobs = cover, 1
    return benches


class Draw:
    """Verdicts on `faults` in their order, each judged by whichever bench is free."""

    def __init__(self, benches: list[Bench], equivalent: dict[tuple[str, str, str], str],
                 known: dict[tuple[str, str, str], tuple[str, str]]) -> None:  # fmt: skip
        self.benches, self.equivalent, self.known = benches, equivalent, known
        self.free: queue.SimpleQueue[Bench] = queue.SimpleQueue()
        for bench in benches:
            self.free.put(bench)

    def judge(self, fault: Fault, lines: tuple[str, str]) -> tuple[str, str]:
        """Outcome, and by which test or why."""
        old, new = lines
        why = self.equivalent.get((fault.file, old, new)) or self.equivalent.get((fault.file, old, "*"))
        if why:
            return "equivalent", why
        kept = self.known.get((f"{fault.file}:{fault.line}", old, new))
        if kept:
            return kept
        bench = self.free.get()
        try:
            found = bench.judge(fault)
        finally:
            self.free.put(bench)
        return "none" if found is None else "caught" if found else "survived", found or ""

    def verdicts(self, faults: list[Fault]) -> Iterator[Verdict]:
        texts = {
            fault.file: (self.benches[0].tree / fault.file).read_text(encoding="utf-8") for fault in faults
        }
        left = iter(faults)
        waiting: collections.deque[tuple[Fault, tuple[str, str], Future[tuple[str, str]]]] = (
            collections.deque()
        )
        with ThreadPoolExecutor(len(self.benches)) as pool:
            try:
                while True:
                    while len(waiting) < AHEAD * len(self.benches) and (fault := next(left, None)):
                        lines = fault.lines(texts[fault.file])
                        waiting.append((fault, lines, pool.submit(self.judge, fault, lines)))
                    if not waiting:
                        return
                    fault, lines, judged = waiting.popleft()
                    yield Verdict(fault, *lines, *judged.result())
            finally:
                pool.shutdown(cancel_futures=True)


def changed_lines(root: Path, revision: str) -> set[tuple[str, int]]:
    """Lines of the sources that are not as they were then."""
    command = ["git", "-C", str(root), "diff", "-U0", "--no-ext-diff", revision, "--", *FOLDERS]
    found: set[tuple[str, int]] = set()
    file = ""
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        if line.startswith("+++ "):
            file = line.removeprefix("+++ b/")
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            found.update((file, number) for number in range(first, first + count))
    return found


# ---- the program ------------------------------------------------------------------------------------


def read_equivalent(root: Path) -> dict[tuple[str, str, str], str]:
    """(file, line as it is, line with the fault or *) : reason."""
    path = root / EQUIVALENT
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        if line and not line.startswith("#"):
            file, old, new, reason = line.split("\t")
            found[file, old, new] = reason
    return found


HEAD = ("outcome", "place", "kind", "before", "after", "by or why")


def write_table(verdicts: list[Verdict], table: Path) -> None:
    rows = [
        (v.outcome, f"{v.fault.file}:{v.fault.line}", v.fault.kind, v.old_line, v.new_line, v.by)
        for v in verdicts
    ]
    table.write_text("".join("\t".join(row) + "\n" for row in [HEAD, *rows]), encoding="utf-8")


def read_table(table: Path | None, again: bool) -> dict[tuple[str, str, str], tuple[str, str]]:
    """(place, line as it is, line with the fault) : outcome, by or why."""
    found = {}
    if table and table.is_file():
        for row in table.read_text(encoding="utf-8").splitlines()[1:]:
            outcome, place, _, old, new, by = row.split("\t")
            if not (again and outcome == "survived"):
                found[place, old, new] = outcome, by
    return found


def report(verdicts: list[Verdict], least: float) -> int:
    survivors = [v for v in verdicts if v.outcome == "survived"]
    for v in survivors:
        print(f"SURVIVED {v.fault.file}:{v.fault.line}\n    {v.old_line}\n    {v.new_line}")
    equivalent = sum(v.outcome == "equivalent" for v in verdicts)
    none = sum(v.outcome == "none" for v in verdicts)
    judged = len(verdicts) - equivalent - none
    caught = judged - len(survivors)
    alone = collections.Counter(v.by.split()[0] for v in verdicts if v.outcome == "caught")
    share = caught / judged if judged else 0.0
    print(
        f"{caught} of {judged} faults caught ({100 * share:.1f} %; {100 * least:.0f} % must be), "
        f"{alone[DUMP]} of them by the bits of {DUMP} alone, {alone[PROGRAM]} by the program's tests; "
        f"{equivalent} more are listed as harmless, {none} were none"
    )
    return 0 if share >= least else 1


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description="Plants one-line faults in a copy and runs the C tests.")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--since", metavar="REV", help="draws from lines that changed since this commit")
    parser.add_argument(
        "--only", metavar="PATTERN", default="", help="draws from files whose path it matches"
    )
    parser.add_argument("--folder", type=Path, default=root / "build" / "mutants")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--least", type=float, default=LEAST_CAUGHT, help="share that must be caught")
    parser.add_argument("--table", type=Path, help="keeps the verdicts; goes on from what it holds")
    parser.add_argument("--again", action="store_true", help="judges the table's survivors anew")
    parser.add_argument("--thorough", action="store_true", help="pays from about 20 faults on")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="processor time of the tests that a fault meets"
    )
    parser.add_argument(
        "--python", type=Path, help="has tests/requirements.txt: what survives meets the program's tests too"
    )
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    if options.list:
        for fault in all_faults(root):
            print(
                f"{fault.file}:{fault.line}:{fault.column + 1} {fault.kind}: {fault.before} -> {fault.after}"
            )
        return 0
    folder: Path = options.folder.resolve()
    # Not resolved: an environment's interpreter is known by its link.
    python = options.python.absolute() if options.python else None
    folder.mkdir(parents=True, exist_ok=True)
    benches = make_benches(root, folder, options.jobs, Limits(options.seconds, options.thorough, python))
    faults = all_faults(benches[0].tree)
    if options.since:
        changed = changed_lines(root, options.since)
        faults = [fault for fault in faults if (fault.file, fault.line) in changed]
    faults = [fault for fault in faults if re.search(options.only, fault.file)]
    random.Random(options.seed).shuffle(faults)
    draw = Draw(benches, read_equivalent(root), read_table(options.table, options.again))
    verdicts: list[Verdict] = []
    for v in draw.verdicts(faults):
        verdicts.append(v)
        if options.table:
            write_table(verdicts, options.table)
        if v.outcome != "none":
            print(
                f"{v.outcome:10} {v.fault.file}:{v.fault.line}  {v.old_line}  ->  {v.new_line}  {v.by}",
                flush=True,
            )
        if sum(v.outcome in ("caught", "survived") for v in verdicts) >= options.count:
            break
    return report(verdicts, options.least)


if __name__ == "__main__":
    sys.exit(main())
