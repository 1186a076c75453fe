"""Time and peak memory of attention against the number of tokens, otattn beside torch.

    scaling.py PROGRAM [--largest N] [--threads N] [--repeat N] [--csv FILE]

One head, n queries and keys of width 64, f32, n = 64, 128 ... N. Every measurement is a process of its
own. Time is the fastest of N calls of `PROGRAM bench`, checked against plain loops; above 8192 tokens, where
loops take minutes, of N processes of `attend`, judged by its certificate and with the first touch of memory.
Memory is what `attend` needed at its peak beyond what it needs at n = 64, inputs and outputs included.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from timing import entmax_by_torch, fastest, sinkhorn_by_torch, softmax_by_torch, write_csv

WIDTH = 64
SMALLEST = 64
MOST_DENSE = 8192  # peers that hold several n x n matrices stop here

# What is drawn: name, otattn's method or the peer's recipe, largest n.
OURS = [
    ("otattn softmax", "softmax"),
    ("otattn entmax:1.5", "entmax:1.5"),
    ("otattn exact, 2 rounds", "ceta{rounds=2}"),
]
PEERS = {
    "torch SDPA": softmax_by_torch,
    "torch + entmax15": entmax_by_torch,
    "Sinkformers in torch, 5 half-steps": sinkhorn_by_torch(5),
}


def peer_process(name: str, n: int, threads: int, repeat: int) -> None:
    """Runs in a process of its own; prints the fastest call in seconds."""
    import torch

    torch.set_num_threads(threads)
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 1, n, WIDTH, generator=generator) for _ in range(3))
    call = PEERS[name]
    with torch.no_grad():
        print(fastest(lambda: call(q, k, v), repeat))


def run(words: list[str], environment: dict[str, str]) -> tuple[str, float]:
    """Standard output and peak resident memory in MiB of one process.

    A child's own count begins with the memory of whoever forked it, this interpreter's; `time` is small.
    """
    with tempfile.NamedTemporaryFile("r") as peak:
        timed = ["/usr/bin/time", "-f", "%M", "-o", peak.name, *words]
        done = subprocess.run(timed, stdout=subprocess.PIPE, env=environment, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(words)} ended with {done.returncode}")
        return done.stdout, float(peak.read()) / 1024.0


def ours(program: str, method: str, n: int, options: argparse.Namespace, folder: Path) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    files = [str(folder / f"{name}.npy") for name in "qkv"]
    for file in files:
        np.save(file, rng.standard_normal((n, WIDTH), dtype=np.float32))
    threads = ["--threads", str(options.threads), "--json"]
    solve = [program, "attend", *files, "-m", method, *threads, "-o", str(folder / "out.npy"), "-f"]
    best, peak = float("inf"), float("inf")
    for _ in range(1 if n <= options.checked else options.repeat):
        text, memory = run(solve, dict(os.environ))
        answer = json.loads(text)
        if answer["certificate"]["row_error"] > 1e-5:
            raise SystemExit(f"{method} at n = {n} is wrong: {answer['certificate']}")
        best, peak = min(best, answer["seconds"]), min(peak, memory)
    if n <= options.checked:
        shape = f"{n}x{n}x{WIDTH}"
        words = [program, "bench", "--methods", method, "--shapes", shape]
        words += ["--repeat", str(options.repeat), *threads]
        rows = json.loads(run(words, dict(os.environ))[0])["rows"]
        best = next(row["seconds"] for row in rows if not row["name"].endswith("-ceiling"))
    return best, peak


def theirs(name: str, n: int, options: argparse.Namespace) -> tuple[float, float]:
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
    words = [sys.executable, __file__, options.program, "--peer", name, "--n", str(n)]
    words += ["--threads", str(options.threads), "--repeat", str(options.repeat)]
    text, peak = run(words, environment)
    return float(text), peak


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--largest", type=int, default=16384)
    parser.add_argument(
        "--checked", type=int, default=8192, help="time by bench, against plain loops, up to here"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--csv")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("--n", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        peer_process(options.peer, options.n, options.threads, options.repeat)
        return 0
    table = []
    print(f"{'what':36} {'n':>6} {'ms':>10} {'MiB':>8}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, method in [*OURS, *((peer, "") for peer in PEERS)]:
            first = None
            n = SMALLEST
            while n <= (min(options.largest, MOST_DENSE) if name in [*PEERS][1:] else options.largest):
                seconds, peak = (
                    ours(options.program, method, n, options, Path(folder))
                    if method
                    else theirs(name, n, options)
                )
                first = peak if first is None else first
                beyond = max(0.0, peak - first)
                print(f"{name:36} {n:6} {seconds * 1e3:10.3f} {beyond:8.1f}", flush=True)
                table.append([name, n, seconds * 1e3, beyond])
                n *= 2
    write_csv(options.csv, ["what", "n", "ms", "mib"], table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
