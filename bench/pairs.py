"""Times calls of the Python package beside other libraries' calls of the same meaning, in turns.

    pairs.py [--repeat N] [--threads N] [--csv FILE] [--only NAME] [--processor-time]
             [--before FOLDER] [--most-seconds S]

A row makes its data once, `prepare`, and gives two callables without arguments and a measure of how far the
results of the timed calls are apart; a row whose results are too far apart fails the run.
The files named pairs and a subject have rows as ROWS. Prints the fastest of each side in microseconds and
their ratio: above 1, otattn is faster. With --processor-time what the process spends counts, on all threads:
for one thread on a machine that others keep busy.

With --before, the peer of every row is another build of the package, which `pip install --no-deps --target
FOLDER WHEEL` laid there: two processes make the row's data, each its own, and time otattn's call in turns.
Beside the ratio of the fastest turns stands the median of the ratios turn by turn. --most-seconds leaves out
rows whose call takes longer.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from timing import fastest, in_turns, write_csv

LONG = 1.0  # seconds: one call that takes more is the only one of its turn
SHORT = 2e-3  # seconds: calls are repeated so often in a turn

Call = Callable[[], Any]
Prepared = tuple[Call, Call, Callable[[Any, Any], float]]


@dataclass(frozen=True)
class Pair:
    """`prepare()` returns ours, theirs and `error(our_result, their_result)`, at most `limit`."""

    name: str
    shape: str
    peer: str
    prepare: Callable[[], Prepared]
    limit: float


@dataclass(frozen=True)
class Timed:
    """Seconds of one call of either side, and the error of the results that the last turns left."""

    ours: float
    theirs: float
    error: float


def all_pairs() -> list[Pair]:
    """The rows of all subjects, by the names of their files."""
    found: list[Pair] = []
    for path in sorted(Path(__file__).parent.glob("pairs_*.py")):
        found += importlib.import_module(path.stem).ROWS
    return found


def turn_of(call: Call, clock: Callable[[], float]) -> Callable[[], float]:
    """Seconds of a call: the fastest of a few rows of calls."""
    # The first call of a kind makes what later ones find, and would pass for a long one.
    call()
    begin = clock()
    call()
    count = max(1, math.ceil(SHORT / max(clock() - begin, 1e-7)))

    def often() -> None:
        for _ in range(count):
            call()

    return lambda: fastest(often, limit=LONG, clock=clock) / count


def time_pair(pair: Pair, repeat: int, clock: Callable[[], float] = time.perf_counter) -> Timed:
    """The fastest of `repeat` turns of each side; ValueError where their results are too far apart."""
    ours, theirs, error = pair.prepare()
    kept: dict[str, Any] = {}

    def turn(side: str, call: Call) -> Callable[[], float]:
        def keep() -> None:
            kept[side] = call()

        return turn_of(keep, clock)

    their_seconds, our_seconds = in_turns([turn("theirs", theirs), turn("ours", ours)], repeat)
    found = error(kept["ours"], kept["theirs"])
    if not found <= pair.limit:
        raise ValueError(f"{pair.name} {pair.shape}: the results of the timed calls differ by {found:.3g}")
    return Timed(our_seconds, their_seconds, found)


# ---- another build of the package -----------------------------------------------------------------


def serve(clock: Callable[[], float]) -> int:
    """Times otattn's call of the row whose number comes in, once for each empty line behind it."""
    rows, turn = all_pairs(), None
    for line in sys.stdin:
        try:
            if line.strip():
                turn = turn_of(rows[int(line)].prepare()[0], clock)
            if turn is None:
                raise ValueError("no row was named")
            print(f"seconds {turn()}", flush=True)
        except Exception as error:  # what an older package lacks
            print(f"lacks {error!r}", flush=True)
    return 0


class Package:
    """A process that has one of the two packages."""

    def __init__(self, folder: str | None, words: list[str]) -> None:
        path = [*([folder] if folder else []), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        )

    def ask(self, line: str) -> float | None:
        """Seconds; None where the package has no such call."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None and stdout is not None
        stdin.write(f"{line}\n")
        stdin.flush()
        while True:
            word, _, rest = stdout.readline().partition(" ")
            if word == "seconds":
                return float(rest)
            if word in ("lacks", ""):
                return None

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def compare(options: argparse.Namespace, rows: list[Pair]) -> int:
    """Prints otattn's calls now and before; rows that differ by their peers alone are one."""
    words = ["--threads", str(options.threads), *(["--processor-time"] if options.processor_time else [])]
    sides = [Package(None, words), Package(options.before, words)]
    print(f"{'row':28} {'shape':44} {'now us':>11} {'before us':>11} {'ratio':>7} {'median':>7}", flush=True)
    table, seen = [], set[tuple[str, str]]()
    for number, pair in enumerate(rows):
        wanted = not options.only or any(word in pair.name for word in options.only)
        if not wanted or (pair.name, pair.shape) in seen:
            continue
        seen.add((pair.name, pair.shape))
        turns = [[side.ask(str(number)) for side in sides]]
        if None in turns[0] or max(x or 0.0 for x in turns[0]) > options.most_seconds:
            continue
        turns += [[side.ask("") for side in sides] for _ in range(options.repeat - 1)]
        now, before = (1e6 * min(found) for found in zip(*turns, strict=True))  # type: ignore[type-var]
        middle = statistics.median(old / new for new, old in turns)  # type: ignore[operator]
        print(
            f"{pair.name:28} {pair.shape:44} {now:11.2f} {before:11.2f} {before / now:6.2f}x {middle:6.2f}x",
            flush=True,
        )
        table.append([pair.name, pair.shape, now, before, before / now, middle])
    for side in sides:
        side.end()
    write_csv(options.csv, ["row", "shape", "now_us", "before_us", "ratio", "median"], table)
    return 0


# ---- the program ------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--csv")
    parser.add_argument("--only", action="append", help="rows whose name holds this; may be given again")
    parser.add_argument("--processor-time", action="store_true")
    parser.add_argument("--before", metavar="FOLDER", help="holds another build of the package")
    parser.add_argument("--most-seconds", type=float, default=math.inf, help="with --before: of a call")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    clock = time.process_time if options.processor_time else time.perf_counter
    wanted = dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"), str(options.threads)
    )
    # The libraries read these when they are loaded.
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted})
    import otattn
    import torch

    torch.set_num_threads(options.threads)
    otattn.set_num_threads(options.threads)
    if options.serve:
        return serve(clock)
    if options.before:
        return compare(options, all_pairs())
    print(
        f"{'row':28} {'shape':28} {'otattn us':>11} {'peer us':>11} {'ratio':>7}  {'error':>7}  peer",
        flush=True,
    )
    table = []
    wrong = 0
    for pair in all_pairs():
        if options.only and not any(word in pair.name for word in options.only):
            continue
        try:
            timed = time_pair(pair, options.repeat, clock)
        except ValueError as error:
            print(error, flush=True)
            wrong += 1
            continue
        mine, other = 1e6 * timed.ours, 1e6 * timed.theirs
        print(
            f"{pair.name:28} {pair.shape:28} {mine:11.2f} {other:11.2f} {other / mine:6.2f}x"
            f"  {timed.error:7.1e}  {pair.peer}",
            flush=True,
        )
        table.append([pair.name, pair.shape, mine, other, other / mine, timed.error, pair.peer])
    write_csv(options.csv, ["row", "shape", "otattn_us", "peer_us", "ratio", "error", "peer"], table)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
