"""What rows on many ranks cost where there are not that many machines: the operator's own log, replayed.

    python bench/ranks_simulator.py [--turns 6] [--cores 64] [--csv FILE]

First the check, on this machine: 2 and 4 real ranks over gloo against what the model says of them. It adds
the work between messages of a phantom's log (ranks_log.py) to the measured costs of the messages; where ranks
outnumber processors all work takes as much longer. Off by more than 15 % ends it with 1.

Then 8 to 1,024 ranks and 1M to 128M tokens on networks that are stated here, not measured. The log of a
phantom with a streamed kernel (no rank could store one of that size) gives the work of every step for each
pair of a query and a key, and the messages; a rank stands for --cores of this machine's cores that share
nothing. Messages cost, with latency a, bandwidth b, R ranks and S bytes of each, whichever is less of

    sum      ring 2 (R - 1) (a + S / (R b))     halving and doubling 2 log2(R) a + 2 (R - 1) / R S / b
    gather   ring (R - 1) (a + S / b)           doubling log2(R) a + (R - 1) S / b

Sums of keys go in pieces of PIECE numbers, as the library sends them. The column "ring" is a formula alone:
what passing the keys around in every round would add, (R - 1) (a + S / b), S the bytes of a share of keys, if
no work hid it.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

WORKER = Path(__file__).with_name("ranks_log.py")
METHODS = {"free": "softmax", "exact": "softmax/exact{rounds=10}", "capped": "softmax/capped:1.2"}
WIDTH, PIECE, MOST_OFF = 32, 1 << 14, 0.15
# What is less is no piece of work but the way from one message to the next.
SOME_WORK = 2e-4
# Latency in seconds, bytes a second in each direction.
NETWORKS = {
    "NVLink 4": (5e-6, 450e9), "InfiniBand NDR": (3e-6, 50e9),
    "100 Gb Ethernet": (15e-6, 12.5e9), "25 Gb Ethernet": (20e-6, 3.125e9),
}  # fmt: skip
RANKS, TOKENS = (8, 32, 128, 512, 1024), (1 << 20, 1 << 23, 1 << 25, 1 << 27)


def asked(words: list[str]) -> Any:
    done = subprocess.run([sys.executable, str(WORKER), *words], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{WORKER.name} {' '.join(words)} failed")
    return json.loads(done.stdout)


def real(ranks: int, turns: int, cases: list[Any]) -> Any:
    """What rank 0 of `ranks` processes found."""
    with tempfile.TemporaryDirectory() as folder:
        rest = [str(ranks), str(Path(folder, "store")), str(turns), json.dumps(cases)]
        others = [
            subprocess.Popen([sys.executable, str(WORKER), str(rank), *rest]) for rank in range(1, ranks)
        ]
        found = asked(["0", *rest])
        if any(other.wait() != 0 for other in others):
            sys.exit("a rank failed")
    return found


def costs_of(found: Any, slower: float) -> dict[str, list[float]]:
    """Seconds of a message of each size, behind work and without, from chains of both."""
    work, chain = found["times"].pop("work")[0] * slower, found["chain"]
    return {
        kind: [(seconds - (work if kind.startswith("work") else 0.0)) / chain for seconds in times]
        for kind, times in found["times"].items()
    }


def predicted(
    case: Any, sizes: list[int], costs: dict[str, list[float]], slower: float
) -> tuple[float, float]:
    """Seconds of a call, and of its messages."""
    messages = 0.0
    for (kind, size), work in zip(case["events"], case["work"][:-1], strict=True):
        behind = f"work, {kind}" if work > SOME_WORK else kind
        messages += float(np.interp(size, sizes, costs[behind]))
    return slower * sum(case["work"]) + messages, messages


def check(turns: int) -> bool:
    print(f"{'ranks':>5} {'method':8} {'measured ms':>12} {'predicted':>10} {'messages':>9} {'ratio':>6}")
    fits, cpus = True, len(os.sched_getaffinity(0))
    for ranks in (2, 4):
        found = real(ranks, turns, [[method, 4096, 0] for method in METHODS.values()])
        slower = max(1.0, ranks / cpus)
        costs = costs_of(found, slower)
        for name, case in zip(METHODS, found["cases"], strict=True):
            seconds, messages = predicted(case, found["sizes"], costs, slower)
            ratio = seconds / case["seconds"]
            fits = fits and abs(ratio - 1.0) <= MOST_OFF
            shown = [1e3 * x for x in (case["seconds"], seconds, messages)]
            print(f"{ranks:5} {name:8} {shown[0]:12.2f} {shown[1]:10.2f} {shown[2]:9.2f} {ratio:6.2f}")
    return fits


# ---- beyond this machine ----------------------------------------------------------------------------


def sum_seconds(ranks: int, size: float, latency: float, bandwidth: float) -> float:
    ring = 2 * (ranks - 1) * (latency + size / ranks / bandwidth)
    halving = 2 * math.log2(ranks) * latency + 2 * (ranks - 1) / ranks * size / bandwidth
    return min(ring, halving)


def gather_seconds(ranks: int, size: float, latency: float, bandwidth: float) -> float:
    ring = (ranks - 1) * (latency + size / bandwidth)
    return min(ring, math.log2(ranks) * latency + (ranks - 1) * size / bandwidth)


def message_seconds(kind: str, size: int, logged: int, keys: int, ranks: int, network: Any) -> float:
    """A message of the log, of a problem with `logged` keys, in one with `keys`."""
    if kind == "gather":
        # Shares of keys and values grow with them; what else is gathered does not.
        share = keys // ranks * WIDTH * 4
        return gather_seconds(ranks, share if size >= logged else size, *network)
    if size < 8 * logged:
        return sum_seconds(ranks, size, *network)
    whole, rest = divmod(keys, PIECE)
    pieces = whole * sum_seconds(ranks, 8 * PIECE, *network)
    return pieces + sum_seconds(ranks, 8 * rest + size - 8 * logged, *network)


def replayed(log: Any, tokens: int, ranks: int, network: Any, cores: int) -> dict[str, float]:
    """Seconds of work and messages of a call and of one of its rounds."""
    logged, growth = log["keys"], tokens * tokens / ranks / log["pairs"] / cores
    work = [x * growth if x > SOME_WORK else x for x in log["work"]]
    messages = [
        message_seconds(kind, size, logged, tokens, ranks, network)
        for (kind, size), x in zip(log["events"], log["work"][:-1], strict=True)
    ]
    # The sums of keys end the rounds; the first also formed what the rounds need.
    rounds = [k for k, (kind, size) in enumerate(log["events"]) if kind == "reduce" and size >= 8 * logged]
    middle = rounds[len(rounds) // 2] if rounds else None
    return {
        "work": sum(work),
        "messages": sum(messages),
        "round_work": 0.0 if middle is None else work[middle],
        "round_messages": 0.0 if middle is None else messages[middle],
    }


def logs(turns: int) -> dict[str, Any]:
    ranks, tokens = 8, 8192
    pairs = tokens * tokens // ranks
    # Less than a stored kernel needs, so that the plan streams it.
    found = asked(
        [
            "--alone",
            str(ranks),
            str(turns),
            json.dumps([[m, tokens, int(2.4 * pairs)] for m in METHODS.values()]),
        ]
    )
    return {name: {**log, "keys": tokens, "pairs": pairs} for name, log in zip(METHODS, found, strict=True)}


def beyond(turns: int, cores: int) -> list[dict[str, Any]]:
    table = []
    for name, log in logs(turns).items():
        print(
            f"\n{name}: {len(log['events'])} messages, {1e9 * sum(log['work']) / log['pairs']:.2f} ns a pair "
            f"and call on a core, a rank of {cores}"
        )
        print(
            f"{'network':16} {'ranks':>5} {'tokens':>7} {'a round s':>10} {'messages':>9} {'a call s':>10} "
            f"{'messages':>9} {'keys of all GiB':>15} {'ring s':>8}"
        )
        for network, (latency, bandwidth) in NETWORKS.items():
            for ranks in RANKS:
                for tokens in TOKENS:
                    found = replayed(log, tokens, ranks, (latency, bandwidth), cores)
                    turn = found["round_work"] + found["round_messages"]
                    call = found["work"] + found["messages"]
                    ring = (ranks - 1) * (latency + tokens / ranks * WIDTH * 4 / bandwidth)
                    row = {
                        "method": name, "network": network, "ranks": ranks, "tokens": f"{tokens >> 20}M",
                        "round": turn, "round_share": found["round_messages"] / turn if turn > 0 else 0.0,
                        "call": call, "call_share": found["messages"] / call,
                        "memory": 2 * tokens * WIDTH * 4 / 2**30, "ring": ring,
                    }  # fmt: skip
                    table.append(row)
                    print(
                        f"{network:16} {ranks:5} {row['tokens']:>7} {turn:10.3g} {row['round_share']:9.1%} "
                        f"{call:10.3g} {row['call_share']:9.1%} {row['memory']:15.2f} {ring:8.2g}"
                    )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--cores", type=int, default=64)
    parser.add_argument("--csv", type=Path)
    chosen = parser.parse_args()
    fits = check(chosen.turns)
    table = beyond(chosen.turns, chosen.cores)
    if chosen.csv:
        with chosen.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(table[0]))
            writer.writeheader()
            writer.writerows(table)
    if not fits:
        sys.exit(f"a prediction is off by more than {MOST_OFF:.0%}")


if __name__ == "__main__":
    main()
