"""Plants the faults of tests/mutants_known.txt in a copy of the sources; the test beside each must fail.

    mutate_known.py [--all] [--folder BUILD] [--jobs J] [--only WORD]

Each was drawn by mutate.py once and is caught since, so that a test that loses its strength is noticed. A row
is file, test, line as it is, line with the fault; the first line of the file that reads so is changed. A row
whose line is gone fails too: another fault of that file takes its place. Rows behind the line "# all"
are planted with --all only, as the campaign does.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from mutate_build import Build, copy_tree

KNOWN, MARK = "tests/mutants_known.txt", "# all"
# Most of the time is the compiler's.
QUICK = "-DCMAKE_C_FLAGS_RELEASE=-O1 -DNDEBUG"


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


def read_known(root: Path, everything: bool) -> list[Known]:
    rows = (root / KNOWN).read_text(encoding="utf-8").splitlines()
    if not everything:
        rows = rows[: rows.index(MARK)]
    return [Known(*row.split("\t")) for row in rows if row and not row.startswith("#")]


def judge(build: Build, known: Known) -> str:
    """What is wrong, empty when the test failed as it must."""
    path = build.tree / known.file
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    planted = known.plant(text)
    if planted is None:
        return "no line reads so any more"
    path.write_text(planted, encoding="utf-8")
    try:
        if not build.make(known.test):
            return "does not compile"
        return "" if build.run(known.test, 60)[0] else "was not caught"
    finally:
        path.write_text(text, encoding="utf-8")


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description="Plants known faults, which the tests named must catch.")
    parser.add_argument("--folder", type=Path, default=root / "build" / "mutants")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="rows that hold this word")
    parser.add_argument("--all", action="store_true", help="also the rows that are too many for CI")
    options = parser.parse_args()
    rows = [
        known
        for known in read_known(root, options.all)
        if any(options.only in part for part in vars(known).values())
    ]
    tests = sorted({known.test for known in rows})
    copy_tree(root, options.folder / "tree")
    build = Build(options.folder / "tree", options.folder / "build", options.jobs, QUICK, targets=tests)
    for test in tests:
        build.time(test, None)  # passes without a fault, or all ends here
    wrong = 0
    for known in rows:
        why = judge(build, known)
        wrong += why != ""
        print(f"{why or 'caught':16} {known.file}  {known.old}  ->  {known.new}  {known.test}", flush=True)
    print(f"{len(rows) - wrong} of {len(rows)} known faults caught")
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
