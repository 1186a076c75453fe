"""Prints which requirement ids were covered by a check that ran, with value and tolerance.

    spec_table.py LOG [GROUP ...]      LOG is what the tests wrote (OTATTN_SPEC_LOG)

An id is covered when at least one check of it ran and none failed. The row shows the check that came
closest to its tolerance; checks of `otattn verify`, which has one of every id, come behind those of
tests, and ids that it alone checks are listed. An id in the log that tests/requirement_ids.txt lacks is
an error.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

IDS = Path(__file__).resolve().parent.parent / "tests" / "requirement_ids.txt"
# Tests that hand on what the program says of itself.
VERIFY = ("tests/python/program/test_verify.py::", "tests/python/program/test_models_verify.py::")


@dataclass
class Check:
    value: float
    relation: str
    tolerance: float
    passed: bool
    test: str

    @property
    def own(self) -> bool:
        return not self.test.startswith(VERIFY)

    def closeness(self) -> tuple[bool, bool, float]:
        """Larger is worse: failures first, then a test's own, then value in units of the tolerance."""
        scale = abs(self.tolerance) or 1.0
        return (not self.passed, self.own, self.value / scale)


def read_ids() -> dict[str, str]:
    lines = IDS.read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return {name: group for name, group in rows}  # noqa: C416 (a row of another length is an error)


def read_log(path: Path) -> dict[str, list[Check]]:
    checks: dict[str, list[Check]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, value, relation, tolerance, passed, test = line.split("\t")
        check = Check(float(value), relation, float(tolerance), passed == "1", test)
        checks.setdefault(name, []).append(check)
    return checks


def main() -> int:
    if len(sys.argv) < 2:
        raise SystemExit("usage: spec_table.py LOG [GROUP ...]")
    log = Path(sys.argv[1])
    if not log.is_file():
        raise SystemExit(f"{log} does not exist: run ./dev test first")
    ids = read_ids()
    groups = sys.argv[2:] or sorted(set(ids.values()))
    checks = read_log(log)
    unknown = sorted(set(checks) - set(ids))
    covered = failed = total = 0
    alone = []
    both = 0
    for group in groups:
        members = [name for name, of_group in ids.items() if of_group == group]
        missing = []
        print(f"Group {group}")
        for name in members:
            total += 1
            runs = checks.get(name, [])
            if not runs:
                missing.append(name)
                continue
            worst = max(runs, key=Check.closeness)
            if not any(check.own for check in runs):
                alone.append(name)
            both += any(check.own for check in runs) and not all(check.own for check in runs)
            covered += worst.passed
            failed += not worst.passed
            word = "holds" if worst.passed else "FAILS"
            print(
                f"  {name:8} {word}  {worst.value:<12.6g} {worst.relation} {worst.tolerance:<12.6g}"
                f" {len(runs):5} checks  {worst.test}"
            )
        if missing:
            print("  not checked: " + " ".join(missing))
    if alone:
        print("by otattn verify alone: " + " ".join(alone))
    if both:
        print(f"{both} ids by otattn verify at the statement and by tests on what it does not see")
    if unknown:
        print("unknown ids in the log: " + " ".join(unknown))
    if failed:
        print(f"{failed} ids fail")
    print(f"{covered}/{total} covered")
    return 1 if failed or unknown else 0


if __name__ == "__main__":
    sys.exit(main())
