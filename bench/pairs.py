"""Times calls of the Python package beside other libraries' calls of the same meaning, in turns.

    pairs.py [--repeat N] [--threads N] [--csv FILE] [--only NAME] [--processor-time]

A row makes its data once, `prepare`, and gives two callables without arguments and a measure of how far the
results of the timed calls are apart; a row whose results are too far apart fails the run.
The files named pairs and a subject have rows as ROWS. Prints the fastest of each side in microseconds and
their ratio: above 1, otattn is faster. With --processor-time what the process spends counts, on all threads:
for one thread on a machine that others keep busy.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
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


def time_pair(pair: Pair, repeat: int, clock: Callable[[], float] = time.perf_counter) -> Timed:
    """The fastest of `repeat` turns of each side; ValueError where their results are too far apart."""
    ours, theirs, error = pair.prepare()
    kept: dict[str, Any] = {}

    def turn(side: str, call: Call) -> Callable[[], float]:
        def keep() -> None:
            kept[side] = call()

        # The first call of a kind makes what later ones find, and would pass for a long one.
        keep()
        begin = clock()
        keep()
        count = max(1, math.ceil(SHORT / max(clock() - begin, 1e-7)))

        def often() -> None:
            for _ in range(count):
                keep()

        return lambda: fastest(often, limit=LONG, clock=clock) / count

    their_seconds, our_seconds = in_turns([turn("theirs", theirs), turn("ours", ours)], repeat)
    found = error(kept["ours"], kept["theirs"])
    if not found <= pair.limit:
        raise ValueError(f"{pair.name} {pair.shape}: the results of the timed calls differ by {found:.3g}")
    return Timed(our_seconds, their_seconds, found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--csv")
    parser.add_argument("--only", default="")
    parser.add_argument("--processor-time", action="store_true")
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
    print(
        f"{'row':28} {'shape':28} {'otattn us':>11} {'peer us':>11} {'ratio':>7}  {'error':>7}  peer",
        flush=True,
    )
    table = []
    wrong = 0
    for pair in all_pairs():
        if options.only not in pair.name:
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
