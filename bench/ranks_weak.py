"""What bounds two ranks on one machine: rounds alone and side by side, against what the memory gives.

    python bench/ranks_weak.py [--turns 6]

One head of f32, width 32, as many queries as keys, of which a rank holds half. "a round": the least seconds
of work between two sums, of one rank while the other waits, and of both at once; "GB/s": of its kernel by
each of both. "work": ten rounds with output, pieces between messages added up, by one rank with half the
queries over two ranks at once. "a call": the least seconds of the whole call of that one rank, whose messages
cost nothing, over those of two ranks with messages over gloo; "CPU": the same with the processor time of the
rank and its threads below the line. Reading a long array by one process and by two is the ceiling of rounds
on a stored kernel, which read it once.
"""

from __future__ import annotations

import argparse
import sys

from ranks_log import READ
from ranks_simulator import real

METHOD = "softmax/exact{rounds=10}"
# Tokens, and whether the kernel is stored.
SIZES = {True: (512, 1024, 2048, 4096, 8192, 16384), False: (2048, 4096, 8192)}
CASES = [(n, stored) for stored, sizes in SIZES.items() for n in sizes]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--turns", type=int, default=6)
    chosen = parser.parse_args()
    # Less than a stored kernel needs, so that the plan streams it.
    cases = [[METHOD, n, 0 if stored else int(2.4 * n * n // 2)] for n, stored in CASES]
    found = real(2, chosen.turns, cases)
    alone, both = (READ / seconds / 1e9 for seconds in found["reads"])
    print(f"reading: {alone:.1f} GB/s by one process, {both:.1f} each by two: {both / alone:.2f}\n")
    names = ("kernel", "MiB a rank", "a round ms", "of both", "ratio", "GB/s", "work", "a call", "CPU")
    print("tokens" + "".join(f"{name:>11}" for name in names))
    for (n, stored), case in zip(CASES, found["cases"], strict=True):
        sums = [k for k, (_, size) in enumerate(case["events"]) if size >= 8 * n]
        if len(sums) < 10:
            sys.exit(f"{n} tokens: {len(sums)} sums of keys are too few")
        # The first forms the kernel, the last makes the output.
        middle = sums[2:-1]
        one, two = (min(case[of][k] for k in middle) for of in ("alone", "work"))
        size = n // 2 * n * 4
        rate = f"{size / two / 1e9:11.1f}" if stored else f"{'-':>11}"
        work = sum(case["alone"]) / sum(case["work"])
        call, busy = (case["alone_seconds"] / case[of] for of in ("seconds", "busy"))
        print(
            f"{n:6}{'stored' if stored else 'streamed':>11}{case['bytes'] / 2**20:11.1f}"
            f"{1e3 * one:11.3f}{1e3 * two:11.3f}{one / two:11.2f}{rate}{work:11.2f}{call:11.2f}{busy:11.2f}"
        )


if __name__ == "__main__":
    main()
