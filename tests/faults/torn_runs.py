"""Runs that end before their end: killed, interrupted, out of disk, by a clock that jumps, read by nobody.

    kills        SIGKILL before a drawn call to the system (failing_calls.h) or after a drawn time: every
                 output is absent, what it was before, or whole; what can be gone on with ends in the bytes of
                 a run that nobody disturbed
    interrupts   SIGINT in the same places: exit 130 or, where all was done, 0; the same files
    scripts      the studies that go on from a table, killed after a drawn time, again and again
    training     a training example with checkpoints, likewise
    disk         a file system of every size from nothing to enough: exit 6 with a sentence, no file, and with
                 room the same bytes; read-only: exit 6
    clock        the wall clock jumps ten years to and fro with every look: the same bytes
    readers      a pipe whose reader takes one byte: exit 6 or 0, nothing on standard error

    python3 tests/faults/torn_runs.py --program build/otattn --library build/tests/libfailing_calls.so
        [--only PART] [--count N] [--package PYTHON]

--count is the number of kills; interrupts are a third of it. `disk` mounts file systems in memory and needs
root; `training` needs an interpreter with the package and torch, named by --package. What is skipped is said.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fail_each_call import Bench, contents, memory_folder, normal
from golden_commands import COMMANDS, Command
from stand_in import Run, run

ROOT = Path(__file__).resolve().parents[2]
# Share of the kills of each; analyze runs twice for each kill.
TORN = {
    "attend": 5,
    "attend over": 3,
    "attend gradients": 4,
    "capture": 4,
    "report": 2,
    "analyze": 5,
}
OTHERS = ("plan", "perplexity exit", "generate", "verify", "tokenize", "compare")
TIMES = re.compile(rb'"(?:cpu_)?ms": [-+0-9.e]+')
YEARS = str(10 * 365 * 86400)


def is_ours(name: str) -> bool:
    return not Path(name).name.startswith(".otattn-")


class Torn:
    """Commands with what they leave when nobody disturbs them, and what went wrong so far."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench = bench
        self.generator = random.Random(seed)
        self.commands = {command.name: command for command in COMMANDS}
        self.whole: dict[str, tuple[Run, dict[str, bytes], float]] = {}
        self.wrong = 0
        self.ended: Counter[str] = Counter()

    def measure(self, name: str) -> tuple[Run, dict[str, bytes], float]:
        if name not in self.whole:
            begun = time.monotonic()
            done, folder = self.bench.run(self.commands[name], "whole")
            seconds = time.monotonic() - begun
            assert done.code == 0, (name, done.error)
            self.whole[name] = done, contents(folder), seconds
        return self.whole[name]

    def say_wrong(self, what: str) -> None:
        self.wrong += 1
        print(f"WRONG {what}", flush=True)

    def draw_wish(self, name: str, number: int) -> str:
        """A drawn call of the command, with the signal before it."""
        sites = list(self.measure(name)[0].log.sites.values())
        # As many of files as of memory: that is where something can be half done.
        files = [site for site in sites if site.kind not in ("memory", "output", "input")]
        site = self.generator.choice(files if files and self.generator.random() < 0.7 else sites)
        return f"{site.key}:{self.generator.randint(1, site.calls)}:signal {number}"

    def judge_files(self, name: str, before: dict[str, bytes], after: dict[str, bytes]) -> str:
        """Of files beside a folder's own: absent or as before, or whole."""
        whole = self.measure(name)[1]
        for file in before.keys() | after.keys():
            if "/" in file or not is_ours(file) or after.get(file) == before.get(file):
                continue
            if normal(after.get(file, b"")) != normal(whole.get(file, b"no")):
                return f"{file} is half written"
        return ""

    def go_on(self, command: Command, folder: Path, name: str) -> str:
        """The same command again, over what is there, ends as if nobody had disturbed the first."""
        words = [str(self.bench.program), *command.arguments()]
        if "--resume" not in words and "-f" not in words and command.name.split()[0] != "report":
            words.append("-f")
        done = run(self.bench.library, words, folder, self.bench.place / f"{name}.again")
        if done.code != 0:
            return f"again: exit code {done.code}: {done.error.strip()[:200]}"
        wanted = {file: normal(data) for file, data in self.measure(command.name)[1].items()}
        found = {file: normal(data) for file, data in contents(folder).items()}
        if command.name.startswith("analyze") and any(not is_ours(file) for file in found):
            return "again: temporary files are left in the folder"
        different = [file for file in wanted if wanted[file] != found.get(file)]
        return f"again: other bytes in {different}" if different else ""

    def tear(self, command: Command, number: int, name: str, wish: str, seconds: float) -> tuple[int, str]:
        """One run with a signal before a call (`wish`) or after `seconds`; its end, and what is wrong."""
        folder = self.bench.folder(command, name)
        before = contents(folder)
        words = [str(self.bench.program), *command.arguments()]
        if wish:
            done, folder = self.bench.run(command, name, wish)
            code, error = done.code, done.error
        else:
            process = subprocess.Popen(
                words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                close_fds=False,
            )  # fmt: skip
            time.sleep(seconds)
            process.send_signal(number)
            error = process.communicate(timeout=120)[1].decode(errors="replace")
            code = process.returncode
        # Before main has begun, an interrupt ends what is not yet a program of ours.
        allowed = (0, -number) if number == signal.SIGKILL or not wish else (0,)
        if number == signal.SIGINT:
            allowed = (*allowed, 130)
        wrong = "" if code in allowed else f"exit code {code}: {error.strip()[:200]}"
        after = contents(folder)
        wrong = wrong or self.judge_files(command.name, before, after)
        if code == 130 and not wrong and any(not is_ours(file) for file in after):
            wrong = "temporary files are left"
        wrong = wrong or self.go_on(command, folder, name)
        shutil.rmtree(folder, ignore_errors=True)
        return code, wrong

    def signals(self, count: int, number: int, jobs: int) -> None:
        total = sum(TORN.values())
        work = []
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for name, share in TORN.items():
                seconds = self.measure(name)[2]
                for k in range(max(1, round(count * share / total))):
                    wish = self.draw_wish(name, number) if k % 3 else ""
                    after = self.generator.uniform(0, 1.1 * seconds)
                    label = f"torn-{name.replace(' ', '-')}-{number}-{k}"
                    job = pool.submit(self.tear, self.commands[name], number, label, wish, after)
                    work.append((name, wish or f"after {after:.3f} s", job))
            ends: dict[str, Counter[str]] = {}
            for name, where, job in work:
                code, wrong = job.result()
                end = "killed" if code < 0 else "done" if code == 0 else f"exit {code}"
                ends.setdefault(name, Counter())[end] += 1
                if wrong:
                    self.say_wrong(f"{signal.Signals(number).name} {name}, {where}: {wrong}")
        for name, counted in ends.items():
            print(f"{signal.Signals(number).name} {name}: {dict(counted)}", flush=True)
            self.ended.update(counted)


# ---- programs of other languages, killed until they are done ----


@dataclass
class Study:
    name: str
    words: list[str]
    folder: str  # what is compared in the end
    seconds: float  # the longest time until a kill


def comparable(folder: Path) -> dict[str, bytes]:
    """Figures and tables without times; a table's rows are kept in the order in which they came."""
    found = {}
    for name, data in contents(folder).items():
        if name.endswith((".partial", ".pt", ".key", ".npy")):
            continue
        lines = sorted(data.splitlines()) if name.endswith(".csv") else data.splitlines()
        found[name] = TIMES.sub(b"", b"\n".join(lines))
    return found


def kill_until_done(torn: Torn, study: Study, most: int, place: Path) -> int:
    """Kills one study again and again; returns how many kills it took."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    whole = [word.replace("FOLDER", str(place / "whole")) for word in study.words]
    begun = time.monotonic()
    first = subprocess.run(whole, capture_output=True, text=True, env=environment)
    seconds = time.monotonic() - begun
    if first.returncode != 0:
        torn.say_wrong(f"{study.name}: {first.stderr[-300:]}")
        return 0
    words = [word.replace("FOLDER", str(place / "torn")) for word in study.words]
    kills = 0
    while kills < most:
        process = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment, start_new_session=True
        )
        try:
            process.wait(torn.generator.uniform(0.3 * seconds, seconds))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
            continue
        if process.returncode != 0:
            error = process.stderr.read().decode() if process.stderr else ""
            torn.say_wrong(f"{study.name} after {kills} kills: exit {process.returncode}: {error[-300:]}")
            return kills
        shutil.rmtree(place / "torn", ignore_errors=True)
    last = subprocess.run(words, capture_output=True, text=True, env=environment)
    if last.returncode != 0:
        torn.say_wrong(f"{study.name} after {kills} kills: {last.stderr[-300:]}")
    elif comparable(place / "whole" / study.folder) != comparable(place / "torn" / study.folder):
        torn.say_wrong(f"{study.name} after {kills} kills: other figures")
    return kills


def scripts(torn: Torn, count: int, python: str) -> None:
    program, inputs = str(torn.bench.program), torn.bench.inputs
    common = [str(inputs / "gpt2"), str(inputs / "text.txt"), "--program", program, "-o", "FOLDER"]
    few = ["--windows", "1"]
    studies = [
        Study(
            "sink surgery",
            [python, str(ROOT / "scripts/sink_surgery.py"), *common, *few, "--tokens", "8", "--report", "1"],
            "",
            9,
        ),
        Study(
            "early exit",
            [python, str(ROOT / "scripts/early_exit.py"), *common, "--tokens", "20", "--context", "8"],
            "",
            5,
        ),
        Study(
            "certificates",
            [
                python,
                str(ROOT / "scripts/score_certificates.py"),
                *common,
                "--lengths",
                "8,12",
                "--windows",
                "1",
            ]
            + ["--roundings", "bf16", "--temperatures", "0.99"],
            "",
            7,
        ),
    ]
    for study in studies:
        with tempfile.TemporaryDirectory(dir=memory_folder()) as name:
            kills = kill_until_done(torn, study, count, Path(name))
        print(f"SIGKILL {study.name}: {kills} kills", flush=True)
        torn.ended["killed"] += kills


def training(torn: Torn, count: int, package: Path | None) -> None:
    if package is None:
        print("skipped training: --package names no interpreter with the package and torch", flush=True)
        return
    words = [str(package), str(ROOT / "examples/training/tasks.py"), "--folder", "FOLDER", "--steps", "8"]
    words += ["--task", "noise"]
    words += ["--seeds", "1", "--evaluations", "4", "--method", "softmax"]
    with tempfile.TemporaryDirectory(dir=memory_folder()) as name:
        kills = kill_until_done(torn, Study("training", words, "", 10), count, Path(name))
    print(f"SIGKILL training: {kills} kills", flush=True)
    torn.ended["killed"] += kills


# ---- disks, clocks, readers ----


def mount(folder: Path, options: str) -> bool:
    folder.mkdir(exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    return subprocess.run(words, capture_output=True).returncode == 0


def on_small_disk(torn: Torn, name: str, disk: Path) -> None:
    """The outputs on file systems of 4 KiB, 8 KiB ... until the command has room."""
    command = torn.commands[name]
    whole = torn.measure(name)[1]
    size, refused = 4096, 0
    output = command.outputs[0]
    while True:
        if not mount(disk, f"size={size}"):
            print("skipped disk: nothing can be mounted here", flush=True)
            return
        try:
            folder = torn.bench.folder(command, "disk")
            words = [str(torn.bench.program), *command.arguments()]
            words[words.index("-o") + 1] = str(disk / output)
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
            left = contents(disk)
            files = [file for file in left if not file.startswith(f"{output}/")]
            if done.returncode == 6:
                refused += 1
                if "otattn" not in done.stderr:
                    torn.say_wrong(f"disk {name}, {size} bytes: no sentence")
                if files:
                    torn.say_wrong(f"disk {name}, {size} bytes: {files} are left")
                # With room the rest of a run is made from what is there.
                subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
                again = subprocess.run(words, cwd=folder, capture_output=True, text=True)
                if again.returncode != 0:
                    torn.say_wrong(f"disk {name}, {size} bytes, with room: {again.stderr.strip()[:200]}")
            elif done.returncode != 0:
                torn.say_wrong(f"disk {name}, {size} bytes: exit {done.returncode}: {done.stderr[:200]}")
            wanted = {file: normal(data) for file, data in whole.items() if file.split("/")[0] == output}
            found = {file: normal(data) for file, data in contents(disk).items()}
            if not wanted or wanted != found:
                torn.say_wrong(f"disk {name}, {size} bytes: other bytes")
            if done.returncode == 0:
                break
        finally:
            subprocess.run(["umount", str(disk)], check=True)
        size = max(size + 4096, size * 5 // 4 // 4096 * 4096)
    print(f"disk {name}: {refused} sizes too small, then whole at {size} bytes", flush=True)


def on_read_only_disk(torn: Torn, name: str, disk: Path) -> None:
    command = torn.commands[name]
    if not mount(disk, "ro"):
        print("skipped read-only disk: nothing can be mounted here", flush=True)
        return
    try:
        folder = torn.bench.folder(command, "disk")
        words = [str(torn.bench.program), *command.arguments()]
        words[words.index("-o") + 1] = str(disk / command.outputs[0])
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        if done.returncode != 6 or "otattn" not in done.stderr:
            torn.say_wrong(f"read-only {name}: exit {done.returncode}: {done.stderr[:200]}")
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    print(f"read-only {name}: exit {done.returncode}", flush=True)


def disks(torn: Torn) -> None:
    disk = torn.bench.place / "small"
    for name in ("attend", "capture", "analyze"):
        on_small_disk(torn, name, disk)
        on_read_only_disk(torn, name, disk)


def clocks(torn: Torn) -> None:
    names = [*TORN, *OTHERS]
    for name in names:
        done, whole, _ = torn.measure(name)
        jumped, folder = torn.bench.run(torn.commands[name], "clock", OTATTN_CLOCK=YEARS)
        found = {file: normal(data) for file, data in contents(folder).items()}
        same = found == {file: normal(data) for file, data in whole.items()}
        if jumped.code != 0 or not same or normal(jumped.out) != normal(done.out):
            torn.say_wrong(
                f"clock {name}: exit {jumped.code}, the files are {'the same' if same else 'others'}"
            )
    print(f"clock: {len(names)} commands while it jumps", flush=True)


def readers(torn: Torn) -> None:
    ends: Counter[int] = Counter()
    names = [
        "help", "completions", "tokenize", "plan", "compare", "generate", "perplexity", "attend stream",
        "info",
    ]  # fmt: skip
    for name in names:
        command = torn.commands[name]
        folder = torn.bench.folder(command, "reader")
        given = (torn.bench.inputs / command.standard_input).open("rb") if command.standard_input else None
        for taken in (0, 1):
            if given:
                given.seek(0)
            words = [str(torn.bench.program), *command.arguments(), "-f"][: None if command.outputs else -1]
            process = subprocess.Popen(
                words, cwd=folder, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            assert process.stdout is not None and process.stderr is not None
            process.stdout.read(taken)
            process.stdout.close()
            error = process.stderr.read().decode()
            process.wait(60)
            ends[process.returncode] += 1
            # An array that is cut off is worth a sentence, a text is not.
            quiet = not error.strip() or "-o -" in command.words
            if process.returncode not in (0, 6) or not quiet:
                torn.say_wrong(f"reader of {name}: exit {process.returncode}: {error[:200]}")
    print(f"readers: ends {dict(ends)} of {2 * len(names)}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs that end before their end.")
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--package", type=Path, help="an interpreter with the Python package and torch")
    parser.add_argument("--only", default="", help="one part")
    parser.add_argument("--count", type=int, default=900, help="kills of the program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="otattn-torn-", dir=memory_folder()) as name:
        torn = Torn(Bench(options.program.resolve(), options.library.resolve(), Path(name)), options.seed)
        parts: dict[str, Callable[[], None]] = {
            "kills": lambda: torn.signals(options.count, signal.SIGKILL, options.jobs),
            "interrupts": lambda: torn.signals(options.count // 3, signal.SIGINT, options.jobs),
            "scripts": lambda: scripts(torn, max(1, options.count // 25), sys.executable),
            "training": lambda: training(torn, max(1, options.count // 45), options.package),
            "disk": lambda: disks(torn),
            "clock": lambda: clocks(torn),
            "readers": lambda: readers(torn),
        }
        for part, act in parts.items():
            if options.only in ("", part):
                act()
    print(f"ends of torn runs: {dict(torn.ended)}, {torn.wrong} wrong")
    return 1 if torn.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
