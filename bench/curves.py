"""Time a pair of every cell of the table of methods against the number of tokens.

    curves.py PROGRAM [--largest N] [--most-seconds S] [--threads N] [--repeat N] [--csv FILE]

One head, n queries and keys of width 64, f32, n = 64, 128 ... N. Rows are timed by `PROGRAM bench`, which
checks every result against plain loops, up to --checked tokens, and above by `PROGRAM attend`, which judges
it (scaling.py). A method whose next call would last longer than S seconds, by its growth so far, ends
there. Beside the curves stands what the products alone take at the ceiling of the machine's vector units.
At last come the cells that cost more than ten times softmax on free columns.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from scaling import SMALLEST, WIDTH, ours, run
from timing import write_csv

COLUMNS = ("", "/exact", "/relaxed:0.5", "/capped:1.2", "/bounded:0.5,1.5", "/prefix", "/online:1.5")
FAMILIES = {
    "softmax": [f"softmax{columns}" for columns in (*COLUMNS, "/elastic")],
    "entmax": [f"entmax:1.5{columns}" for columns in COLUMNS],
    "entmax-1.3": ["entmax:1.3", "entmax:1.3/exact"],
    "sparsemax": [f"sparsemax{columns}" for columns in COLUMNS],
    "hard": ["hard", "hard/exact", "hard/capped:2", "hard/bounded:0.5,1.5", "hard/prefix", "hard/online:1.5"],
}
FLOPS_A_PAIR = 4 * WIDTH
DEAR = 10.0


def ceiling(options: argparse.Namespace) -> float:
    """Nanoseconds a pair of the two products at the rate of the machine's fused products."""
    words = [options.program, "bench", "--methods", "softmax", "--shapes", f"64x64x{WIDTH}", "--json"]
    rows = json.loads(run([*words, "--threads", str(options.threads)], dict(os.environ))[0])["rows"]
    return FLOPS_A_PAIR / next(row["gflops"] for row in rows if row["name"] == "fma-ceiling")


def curve(method: str, options: argparse.Namespace, folder: Path) -> list[tuple[int, float]]:
    """Pairs of tokens and nanoseconds a pair."""
    points: list[tuple[int, float]] = []
    seconds = [0.0]
    n = SMALLEST
    while n <= options.largest:
        growth = max(4.0, seconds[-1] / seconds[-2]) if len(seconds) > 2 else 4.0
        if seconds[-1] * growth > options.most_seconds:
            break
        seconds.append(ours(options.program, method, n, options, folder)[0])
        points.append((n, seconds[-1] * 1e9 / n**2))
        n *= 2
    return points


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--largest", type=int, default=16384)
    parser.add_argument("--checked", type=int, default=2048, help="time by bench up to here")
    parser.add_argument("--most-seconds", type=float, default=4.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--csv")
    options = parser.parse_args()
    table: list[list[object]] = []
    softmax: dict[int, float] = {}
    dear: list[str] = []
    products = ceiling(options)
    with tempfile.TemporaryDirectory() as folder:
        for family, methods in FAMILIES.items():
            for method in methods:
                points = curve(method, options, Path(folder))
                if method == "softmax":
                    softmax = dict(points)
                table += [[family, method, n, nanoseconds] for n, nanoseconds in points]
                told = "  ".join(f"{n}: {nanoseconds:.2f}" for n, nanoseconds in points)
                print(f"{method:24} {told}", flush=True)
                n, nanoseconds = points[-1]
                if nanoseconds > DEAR * softmax[n]:
                    dear.append(f"{method:24} {nanoseconds / softmax[n]:8.1f} times softmax at {n}")
            table += [[family, "products at the ceiling", n, products] for n in softmax]
    print(f"products at the ceiling  {products:.2f}")
    print("\n".join(["", f"more than {DEAR:g} times softmax at the last size timed:", *dear]))
    write_csv(options.csv, ["family", "method", "n", "ns"], table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
