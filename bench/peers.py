"""Times otattn beside the libraries people use today, turn by turn in one run.

    peers.py PROGRAM [--repeat N] [--threads N] [--csv FILE] [--only NAME]

Each row alternates `PROGRAM bench` (fastest of three inside, answers checked against plain loops there)
with the peer's own call on data of the same shape, N times, and prints the fastest of each and their
ratio: above 1, otattn is faster. Machines are noisy: only the ratio means something.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Row:
    """What otattn runs, and the peer's call, on `[n, m, d]`; d = 0: on costs `[n, m]`."""

    name: str
    method: str
    shape: tuple[int, int, int]
    peer: str
    prepare: Callable[[tuple[int, int, int]], Callable[[], object]]


def torch_data(shape: tuple[int, int, int]):
    import torch

    n, m, d = shape
    generator = torch.Generator().manual_seed(0)
    make = lambda rows: torch.randn(1, 1, rows, d, generator=generator)  # noqa: E731
    return torch, make(n), make(m), make(m)


def torch_softmax(shape: tuple[int, int, int]) -> Callable[[], object]:
    torch, q, k, v = torch_data(shape)
    return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)


def torch_entmax(shape: tuple[int, int, int]) -> Callable[[], object]:
    _, q, k, v = torch_data(shape)
    from entmax import entmax15

    scale = shape[2] ** -0.5
    return lambda: entmax15(q @ k.transpose(-1, -2) * scale, dim=-1) @ v


def torch_sinkhorn(half_steps: int) -> Callable[[tuple[int, int, int]], Callable[[], object]]:
    def prepare(shape: tuple[int, int, int]) -> Callable[[], object]:
        torch, q, k, v = torch_data(shape)
        scale = shape[2] ** -0.5

        def run() -> object:
            plan = q @ k.transpose(-1, -2) * scale
            for step in range(half_steps):
                plan = plan - torch.logsumexp(plan, dim=-1 - step % 2, keepdim=True)
            return plan.exp() @ v

        return run

    return prepare


def pot_sinkhorn(shape: tuple[int, int, int]) -> Callable[[], object]:
    import ot

    n, m, d = shape
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((rows, d)) for rows in (n, m, m))
    a, b = np.full(n, 1.0 / n), np.full(m, 1.0 / m)

    def run() -> object:
        cost = -(q @ k.T) / np.sqrt(d)
        return n * ot.sinkhorn(a, b, cost - cost.min(), 1.0, stopThr=1e-5, numItermax=1000) @ v

    return run


def costs(shape: tuple[int, int, int]) -> np.ndarray:
    """Squared distances of random points in eight dimensions, f32 `[n, m]`."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((rows, 8)) for rows in shape[:2])
    square = (x**2).sum(1)[:, None] + (y**2).sum(1) - 2.0 * x @ y.T
    return np.maximum(square, 0.0).astype(np.float32)


def scipy_assignment(shape: tuple[int, int, int]) -> Callable[[], object]:
    from scipy.optimize import linear_sum_assignment

    cost = costs(shape)
    return lambda: linear_sum_assignment(cost)


def lap_assignment(shape: tuple[int, int, int]) -> Callable[[], object]:
    import lap

    cost = costs(shape)
    return lambda: lap.lapjv(cost)


CACHES = {1024: "decode 1k", 16384: "decode 16k", 65536: "decode 64k"}

ROWS = [
    *(Row("softmax", "softmax", (n, n, 64), "torch SDPA f32", torch_softmax) for n in (64, 256, 1024, 4096)),
    *(Row("entmax:1.5", "entmax:1.5", (n, n, 64), "torch + entmax15 f32", torch_entmax) for n in (256, 1024, 4096)),
    *(Row("decode", name, (1, n, 64), "torch SDPA f32", torch_softmax) for n, name in CACHES.items()),
    *(
        Row("exact, 2 rounds", "ceta{rounds=2}", (n, n, 64), "5 half-steps in torch f32", torch_sinkhorn(5))
        for n in (256, 1024, 2048)
    ),
    Row("exact to 1e-5", "ceta", (1024, 1024, 64), "POT sinkhorn f64", pot_sinkhorn),
    *(Row("assignment", "assign", (n, n, 0), "SciPy f64", scipy_assignment) for n in (1000, 2000, 4000)),
    *(Row("assignment", "assign", (n, n, 0), "lap f64", lap_assignment) for n in (1000, 2000, 4000)),
]


def ours(program: str, row: Row, threads: int) -> tuple[float, float]:
    """Nanoseconds a pair, and the largest error of the timed output."""
    if row.method == "assign":
        return our_assignment(program, row, threads)
    if row.name == "decode":
        return our_decode(program, row, threads)
    shape = "x".join(map(str, row.shape))
    words = [program, "bench", "--json", "--methods", row.method, "--shapes", shape]
    words += ["--repeat", "3", "--threads", str(threads)]
    found = json.loads(subprocess.run(words, capture_output=True, check=True, text=True).stdout)
    timed = next(r for r in found["rows"] if r["name"] != "fma-ceiling")
    return timed["ns_per_pair"], timed["max_error"]


def our_decode(program: str, row: Row, threads: int) -> tuple[float, float]:
    """One query against a cache that is not packed."""
    words = [program, "bench", "--small", "--json", "--threads", str(threads)]
    found = json.loads(subprocess.run(words, capture_output=True, check=True, text=True).stdout)
    timed = next(r for r in found["rows"] if r["name"] == row.method)
    return timed["microseconds"] * 1e3 / row.shape[1], timed["max_error"]


def our_assignment(program: str, row: Row, threads: int) -> tuple[float, float]:
    """The whole call with its plan and workspace; the error is the duality gap, relative."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "cost.npy")
        np.save(file, costs(row.shape))
        words = [program, "assign", str(file), "--json", "--threads", str(threads)]
        found = json.loads(subprocess.run(words, capture_output=True, check=True, text=True).stdout)
    return found["seconds"] * 1e9 / (row.shape[0] * row.shape[1]), abs(found["gap"] / found["value"])


def theirs(call: Callable[[], object], shape: tuple[int, int, int]) -> float:
    best = float("inf")
    call()
    for _ in range(3):
        begin = time.perf_counter_ns()
        call()
        best = min(best, float(time.perf_counter_ns() - begin))
    return best / (shape[0] * shape[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--csv")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(options.threads)
    import torch

    torch.set_num_threads(options.threads)
    table = []
    head = f"{'row':16} {'shape':13} {'otattn ns':>10} {'peer ns':>9} {'ratio':>6}  {'error':>7}  peer"
    print(head, flush=True)
    for row in (r for r in ROWS if options.only in r.name):
        call = row.prepare(row.shape)
        mine, other, error = float("inf"), float("inf"), 0.0
        for _ in range(options.repeat):
            other = min(other, theirs(call, row.shape))
            here, error = ours(options.program, row, options.threads)
            mine = min(mine, here)
        shape = "x".join(map(str, row.shape))
        print(
            f"{row.name:16} {shape:13} {mine:10.3f} {other:9.3f} {other / mine:5.2f}x"
            f"  {error:7.1e}  {row.peer}",
            flush=True,
        )
        table.append([row.name, shape, mine, other, other / mine, error, row.peer])
    if options.csv:
        with Path(options.csv).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["row", "shape", "otattn_ns", "peer_ns", "ratio", "max_error", "peer"])
            writer.writerows(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
