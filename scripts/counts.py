"""Adds up what every runner counted and ends with `N passed, N failed, N skipped`.

    counts.py FILE ...     JUnit files of ctest and pytest (.xml), and step files (.tsv): name, tab,
                          passed|failed|skipped, tab, reason
    counts.py --seconds FILE ...     says first how long the tests of each folder took

A cmocka program counts with each of its tests. Skips are listed with their reasons, failures by name.
Exits 1 when anything failed or nothing ran.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

CMOCKA_RUN = re.compile(r"^\[=+\] (\d+) test\(s\) run\.", re.MULTILINE)
CMOCKA_NAMED = re.compile(r"^\[\s*(FAILED|SKIPPED|REASON)\s*\] (\w+)(?:: (.*))?$", re.MULTILINE)
CMOCKA_PASSED = re.compile(r"^\[\s*PASSED\s*\] (\d+) test\(s\)", re.MULTILINE)


@dataclass
class Counts:
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)


def add_cmocka(counts: Counts, program: str, output: str, succeeded: bool) -> None:
    counts.passed += sum(int(count) for count in CMOCKA_PASSED.findall(output))
    named: dict[str, dict[str, str]] = {"FAILED": {}, "SKIPPED": {}, "REASON": {}}
    for word, name, text in CMOCKA_NAMED.findall(output):
        named[word][name] = text
    counts.failed += [f"{program}: {name}" for name in named["FAILED"]]
    for name in named["SKIPPED"]:
        counts.skipped.append((f"{program}: {name}", named["REASON"].get(name) or "no reason given"))
    if not succeeded and not named["FAILED"]:
        counts.failed.append(f"{program}: ended abnormally")


def add_junit(counts: Counts, path: Path) -> None:
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        place = case.get("classname", "")
        name = case.get("name", "")
        label = name if place in ("", name) else f"{place}: {name}"
        skip = case.find("skipped")
        broken = case.find("failure") is not None or case.find("error") is not None
        output = case.findtext("system-out") or ""
        if CMOCKA_RUN.search(output):
            add_cmocka(counts, name, output, not broken)
        elif broken:
            counts.failed.append(label)
        elif case.get("status") == "notrun":  # ctest's word for a program that is not there
            reason = skip.get("message") if skip is not None else ""
            counts.failed.append(f"{label}: {reason or 'did not run'}")
        elif skip is not None or case.get("status") == "disabled":
            reason = skip.get("message") if skip is not None else ""
            counts.skipped.append((label, reason or "no reason given"))
        else:
            counts.passed += 1


def seconds_of(path: Path) -> dict[str, float]:
    """Seconds of each folder: ctest's label `c;...;FOLDER`, pytest's `tests.python.FOLDER.FILE`."""
    found: defaultdict[str, float] = defaultdict(float)
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        labels = [p.get("value", "") for p in case.iter("property") if p.get("name") == "cmake_labels"]
        place = case.get("classname", "").split(".")
        folder = "others of ctest"
        if labels and labels[0]:
            last = labels[0].split(";")[-1]
            folder = last if last == "statements" else f"tests/{last}"
        elif place[0] == "tests":
            folder = "/".join(place[:-1])
        found[folder] += float(case.get("time", 0.0))
    return found


def add_steps(counts: Counts, path: Path) -> None:
    for line in path.read_text(encoding="utf-8").splitlines():
        name, word, reason = (line.split("\t") + ["", ""])[:3]
        if word == "passed":
            counts.passed += 1
        elif word == "skipped":
            counts.skipped.append((name, reason or "no reason given"))
        else:
            counts.failed.append(f"{name}: {reason}" if reason else name)


def main() -> int:
    counts = Counts()
    names = [name for name in sys.argv[1:] if name != "--seconds"]
    seconds: defaultdict[str, float] = defaultdict(float)
    for name in names:
        path = Path(name)
        if not path.is_file():
            counts.failed.append(f"{name}: the runner wrote no results")
        elif path.suffix == ".xml":
            add_junit(counts, path)
            for folder, spent in seconds_of(path).items():
                seconds[folder] += spent
        else:
            add_steps(counts, path)
    if len(names) < len(sys.argv) - 1:
        print(
            "seconds  "
            + ", ".join(
                f"{folder} {spent:.0f}"
                for folder, spent in sorted(seconds.items(), key=lambda item: -item[1])
            )
        )
    for label, reason in counts.skipped:
        print(f"skipped  {label}: {reason}")
    for label in counts.failed:
        print(f"FAILED   {label}")
    print(f"{counts.passed} passed, {len(counts.failed)} failed, {len(counts.skipped)} skipped")
    return 1 if counts.failed or counts.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
