"""Fails every call of the golden commands to the system, one at a time.

For each command a first run counts the calls by kind and site (failing_calls.h). Then every site fails: its
first call and its last, with each failure of its kind. A run has to end in one of two ways:

* as without the failure: the same files, the same standard output (less the times in it), the same exit code;
* refused: the exit code of the kind (5 for memory, 6 for files), a sentence on standard error, a JSON object
  where --json asks for one, no file of its own or all of them whole, what was there untouched or replaced.

Reads and writes that are short or interrupted, and threads that cannot be had, allow the first alone. Either
way no signal, no block of memory and no descriptor held that the run without failure does not hold, no
temporary file.

    python3 tests/faults/fail_each_call.py --program build/otattn --library build/tests/libfailing_calls.so
        [--only NAME]... [--begin NAME] [--sample N] [--once] [--statements] [--record FILE]

With --record a command whose calls all failed as they should becomes a row of FILE, and later runs of the
same program leave it out but count it. With --statements the commands are not those of the table but
`verify --only ID`, for each of its ids.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from golden_commands import COMMANDS, Command, prepare
from stand_in import FAILURES, Run, Site, Symbols, run, signal_name

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python" / "support"))

from done_record import DoneRecord, digest

# Exit codes a failure of a kind may end in; none: it must not show. A folder that cannot be looked at is
# taken for a file, 4.
CODES: dict[str, tuple[int, ...]] = {
    "memory": (5,), "open": (6,), "read": (6,), "input": (6,), "write": (6,), "output": (6,), "sync": (6,),
    "close": (6,), "name": (6,), "look": (4, 6), "map": (6,), "thread": (),
}  # fmt: skip
HIDDEN = ("short", "4")  # half reads and writes, EINTR
NUMBERS = re.compile(
    rb'("?[a-z_]*seconds"?\s*[:=]\s*)[-+0-9.e]+|(time +).*|("how":)\{[^}]*\}|'
    rb"\b[0-9][0-9.e+-]* (?:ms|us|s|min)\b"
)


@dataclass
class Trial:
    command: Command
    site: Site
    occurrence: int
    failure: str


@dataclass
class Whole:
    """What a command leaves without failure."""

    run: Run
    files: dict[str, bytes]


def normal(text: bytes) -> bytes:
    return NUMBERS.sub(rb"\1\2#", text)


def contents(folder: Path) -> dict[str, bytes]:
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def memory_folder() -> str | None:
    """Where files are quick to make: none of them has to last."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Bench:
    """Folders to run in, made from one that holds what the commands read."""

    def __init__(self, program: Path, library: Path, place: Path):
        self.program, self.library, self.place = program, library, place
        self.inputs = place / "inputs"
        self.inputs.mkdir()
        prepare(self.inputs)
        old = [str(program), "analyze", "gpt2", "text.txt", "-o", "old", "--windows", "2x8"]
        made = run(library, old, self.inputs, place / "old.log")
        assert made.code == 0, made.error

    def folder(self, command: Command, name: str) -> Path:
        """Inputs are links, but for what the command replaces."""
        folder = self.place / name
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir()
        for path in self.inputs.iterdir():
            if (path.name in command.outputs and command.before) or path.name == "old":
                shutil.copytree(path, folder / path.name)
            else:
                (folder / path.name).symlink_to(path)
        if command.before and not (folder / command.outputs[0]).exists():
            (folder / command.outputs[0]).write_bytes(b"what was there before")
        return folder

    def path(self, command: Command) -> Path:
        return self.library.parent / command.program if command.program else self.program

    def run(self, command: Command, name: str, wish: str = "", **more: str) -> tuple[Run, Path]:
        folder = self.folder(command, name)
        given = self.inputs / command.standard_input if command.standard_input else None
        words = [str(self.path(command)), *command.arguments()]
        return run(self.library, words, folder, self.place / f"{name}.log", wish, given, **more), folder


def refusal(
    command: Command, trial: Trial, done: Run, before: dict[str, bytes], after: dict[str, bytes], whole: Whole
) -> str:
    """What is wrong about a run that ended with an exit code other than 0; "" when nothing is."""
    codes = () if trial.failure in HIDDEN else CODES[trial.site.kind] + command.codes
    # A call of the C library that opens has no memory of its own.
    if trial.site.kind == "memory" and "Cannot allocate memory" in done.error:
        codes += (6,)
    if done.code not in codes:
        return f"exit code {done.code}"
    if "otattn" not in done.error:
        return "no sentence on standard error"
    writes = trial.site.kind in ("write", "output", "close")
    if "--json" in command.arguments() and not writes:
        try:
            if "error" not in json.loads(done.out):
                return "a JSON object without error"
        except ValueError:
            return f"standard output holds no JSON object: {done.out[:60]!r}"
    # A folder of a run keeps what is finished; what fails once the files have their names leaves them whole.
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    changed = {name for name in changed if "/" not in name and not name.startswith(".otattn-")}
    half = [
        name
        for name in changed
        if name not in after or normal(after[name]) != normal(whole.files.get(name, b""))
    ]
    if half:
        return f"files changed: {sorted(half)}"
    return ""


def success(command: Command, done: Run, after: dict[str, bytes], whole: Whole) -> str:
    if command.goes_on and (done.error.strip() or b"memory" in done.out):
        return ""
    if command.exact and normal(done.out) != normal(whole.run.out):
        return "another standard output"
    if not command.exact and not done.out:
        return "no standard output"
    wanted = {name: normal(data) for name, data in whole.files.items()}
    found = {name: normal(data) for name, data in after.items() if not Path(name).name.startswith(".otattn-")}
    if found != wanted:
        different = [name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name)]
        return f"other files: {sorted(different)}"
    return ""


def leftovers(trial: Trial, done: Run, after: dict[str, bytes], whole: Whole) -> str:
    temporary = [name for name in after if Path(name).name.startswith(".otattn-")]
    # Who cannot remove a file leaves it.
    if temporary and trial.site.kind != "name":
        return f"temporary files: {temporary}"
    held = whole.run.log.sites
    leaks = [
        site
        for site in done.log.sites.values()
        if site.held > 0
        and not (site.foreign or site.kept)
        and (site.key not in held or held[site.key].held < site.held)
    ]
    if leaks:
        return "LEAK " + " ; ".join(site.key for site in leaks[:3])
    if not trial.site.kept and done.log.descriptors > whole.run.log.descriptors:
        return f"{done.log.descriptors - whole.run.log.descriptors} descriptors more"
    return ""


def ends_inside(trial: Trial, code: int) -> bool:
    """Another library than otattn's own ended a program that does not lend it a reserve."""
    return code < 0 and bool(trial.command.program) and trial.site.fragile


def judge(trial: Trial, done: Run, before: dict[str, bytes], after: dict[str, bytes], whole: Whole) -> str:
    if done.timed_out:
        return "does not end"
    if done.code < 0:
        return "" if ends_inside(trial, done.code) else signal_name(done.code)
    if not done.log.fired:
        return "" if done.code == whole.run.code else f"not reached, exit code {done.code}"
    if done.code == whole.run.code:
        wrong = success(trial.command, done, after, whole)
    else:
        wrong = refusal(trial.command, trial, done, before, after, whole)
    return wrong or leftovers(trial, done, after, whole)


def trials(command: Command, whole: Whole) -> list[Trial]:
    found = []
    for site in whole.run.log.sites.values():
        if site.foreign:
            continue
        for failure in FAILURES[site.kind]:
            for occurrence in sorted({1, site.calls}):
                found.append(Trial(command, site, occurrence, failure))
    return found


@dataclass
class Outcome:
    trial: Trial
    wrong: str
    code: int
    fired: bool
    error: str
    leaks: list[Site]


def attempt(bench: Bench, trial: Trial, whole: Whole, name: str) -> Outcome:
    folder = bench.folder(trial.command, name)
    before = contents(folder)
    wish = f"{trial.site.key}:{trial.occurrence}:{trial.failure}"
    done, folder = bench.run(trial.command, name, wish)
    wrong = judge(trial, done, before, contents(folder), whole)
    keys = wrong.removeprefix("LEAK ").split(" ; ") if wrong.startswith("LEAK") else []
    shutil.rmtree(folder, ignore_errors=True)
    return Outcome(
        trial, wrong, done.code, done.log.fired, done.error.strip(), [done.log.sites[key] for key in keys]
    )


def show(outcome: Outcome, symbols: Symbols) -> None:
    trial = outcome.trial
    print(
        f"WRONG {trial.command.name}: {trial.site.kind} {trial.failure}, "
        f"call {trial.occurrence} of {trial.site.calls}: {outcome.wrong}\n"
        f"    at {symbols.stack(trial.site)}\n    said: {outcome.error[:200]}"
    )
    for leak in outcome.leaks:
        print(f"    holds {leak.held} of {symbols.stack(leak)}")
    sys.stdout.flush()


@dataclass
class Sums:
    """What the last line counts, of one command or of all."""

    reached: Counter[str] = field(default_factory=Counter)
    tried: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)  # runs, missed, wrong, inside, foreign

    def add(self, other: Sums) -> None:
        self.reached += other.reached
        self.tried += other.tried
        self.counts += other.counts

    def row(self) -> dict[str, str]:
        return {name: json.dumps(getattr(self, name), sort_keys=True) for name in SUMS}

    @staticmethod
    def of(row: Mapping[str, str]) -> Sums:
        return Sums(*(Counter(json.loads(row[name])) for name in SUMS))

    def show(self) -> None:
        for kind, count in sorted(self.reached.items()):
            print(f"{kind}: {count} sites reached, {self.tried[kind]} tried")
        total, tried, counts = sum(self.reached.values()), sum(self.tried.values()), self.counts
        print(
            f"{total} sites reached, {tried} tried ({100 * tried / max(total, 1):.1f} %), "
            f"{counts['runs']} runs, {counts['missed']} failures not reached again, {counts['wrong']} wrong; "
            f"{counts['inside']} ended inside jansson; "
            f"{counts['foreign']} sites inside other libraries' own beginnings left alone"
        )


SUMS = ("reached", "tried", "counts")


class Driver:
    def __init__(self, bench: Bench, pool: concurrent.futures.Executor, options: argparse.Namespace):
        self.bench, self.pool, self.options = bench, pool, options
        self.generator = random.Random(options.seed)
        self.known: set[str] = set()

    def symbols(self, command: Command) -> Symbols:
        return Symbols(self.bench.path(command))

    def wanted(self, command: Command, whole: Whole) -> list[Trial]:
        found = [
            trial
            for trial in trials(command, whole)
            if not (self.options.once and trial.site.key in self.known)
        ]
        sample = self.options.sample
        return self.generator.sample(found, min(sample, len(found))) if sample else found

    def fail(self, command: Command) -> Sums:
        done, folder = self.bench.run(command, "whole")
        sums = Sums()
        if done.code != 0 or not done.log.sites:
            print(f"WRONG {command.name}: without a failure exit code {done.code}: {done.error}")
            sums.counts["wrong"] += 1
            return sums
        whole = Whole(done, contents(folder))
        work = [
            self.pool.submit(attempt, self.bench, trial, whole, f"run{k}")
            for k, trial in enumerate(self.wanted(command, whole))
        ]
        ended: Counter[str] = Counter()
        fired = set()
        for future in work:
            outcome = future.result()
            ended["as before" if outcome.code == done.code else f"exit {outcome.code}"] += 1
            if outcome.fired or outcome.code < 0:
                fired.add(outcome.trial.site.key)
            else:
                sums.counts["missed"] += 1
            sums.counts["inside"] += ends_inside(outcome.trial, outcome.code)
            if outcome.wrong:
                sums.counts["wrong"] += 1
                show(outcome, self.symbols(command))
        self.known |= fired
        sums.counts["runs"] += len(work)
        for site in done.log.sites.values():
            if site.foreign:
                sums.counts["foreign"] += 1
            else:
                sums.reached[site.kind] += 1
                sums.tried[site.kind] += site.key in self.known
        ways = ", ".join(f"{count} {way}" for way, count in sorted(ended.items()))
        print(f"{command.name}: {len(done.log.sites)} sites, {len(fired)} failed, {len(work)} runs: {ways}")
        sys.stdout.flush()
        return sums


# Ids whose values are times or memory, another in every run.
MEASURED = ("TOT-19", "TOT-112")


def statements(program: Path) -> list[Command]:
    """A command for each id that `verify` checks."""
    done = subprocess.run([program, "verify", "--json"], capture_output=True, text=True, check=True)
    ids = dict.fromkeys(check["id"] for check in json.loads(done.stdout)["checks"])
    return [
        Command(f"verify {name}", f"verify --only {name} --json", exact=name not in MEASURED, codes=(3,))
        for name in ids
    ]


def chosen(options: argparse.Namespace) -> list[Command]:
    commands = statements(options.program) if options.statements else COMMANDS
    names = [command.name for command in commands]
    first = names.index(options.begin) if options.begin else 0
    return [command for command in commands[first:] if command.name.startswith(tuple(options.only or [""]))]


def tested(options: argparse.Namespace) -> str:
    """Digest of all that decides how a command ends: programs, stand-in, drivers with their tables."""
    programs = sorted({command.program for command in COMMANDS if command.program})
    beside = [options.library.parent / name for name in programs]
    drivers = sorted(Path(__file__).parent.glob("*.py"))
    return digest(options.program, options.library, *(path for path in beside if path.exists()), *drivers)


def main() -> int:
    parser = argparse.ArgumentParser(description="Fails every call of the golden commands, one at a time.")
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--only", action="append", help="commands whose name begins so; may be repeated")
    parser.add_argument("--begin", default="", help="the first command")
    parser.add_argument("--sample", type=int, default=0, help="so many trials drawn of each command (all)")
    parser.add_argument(
        "--once", action="store_true", help="a site that failed in one command is not tried in the next"
    )
    parser.add_argument("--statements", action="store_true", help="the commands are verify's ids, one by one")
    parser.add_argument("--record", type=Path, help="a CSV file of the commands that are done")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if options.record and (options.sample or options.once):
        parser.error("--record keeps whole commands; it goes with neither --sample nor --once")
    record = DoneRecord(options.record, tested(options) if options.record else "", ("command", *SUMS))
    done = {row["command"]: Sums.of(row) for row in record.rows}
    total = Sums()
    with (
        tempfile.TemporaryDirectory(prefix="otattn-faults-", dir=memory_folder()) as name,
        concurrent.futures.ThreadPoolExecutor(options.jobs) as pool,
    ):
        driver = Driver(
            Bench(options.program.resolve(), options.library.resolve(), Path(name)), pool, options
        )
        for command in chosen(options):
            sums = done.get(command.name)
            if sums is None:
                sums = driver.fail(command)
                if not sums.counts["wrong"]:
                    record.add({"command": command.name, **sums.row()})
            total.add(sums)
    total.show()
    return 1 if total.counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
