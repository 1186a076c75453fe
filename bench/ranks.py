"""Rows on many ranks against threads of one process, on this machine: time, weak scaling, bytes sent.

    python bench/ranks.py [--repeat 5] [--size 8192] [--json FILE]

Runs `otattn attend --shard rows` under mpirun; OTATTN names a program built with OTATTN_MPI, OTATTN_MPIRUN
the launcher. Every figure is a ratio of times taken side by side, turn by turn; the median of the turns. The
outputs of every pair are compared, and what the ranks sent with the sum that docs/development/ranks.md
promises.
Ranks beyond the processors are run once, for their outputs alone.

Then weak scaling, by `ranks_calls` beside the program: the least seconds of a call of a plan that is kept, of
one rank with its share of the queries over those of two ranks with all; "without messages": two ranks that
each do what the one does, at once.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

# More than 2^28 pairs, so that the program makes no certificate, which would take longest.
HEADS, WIDTH, ROUNDS, SIZE = 5, 32, 10, 8192
METHODS = {"free": "softmax", "rounds": f"softmax/exact{{rounds={ROUNDS}}}"}
# Outputs of f32 may be so far apart.
MOST_APART = 2e-4
# Runs begin in a folder of their own.
PROGRAM = str(Path(os.environ.get("OTATTN", "build/ranks-openmpi/otattn")).resolve())
MPIRUN = os.environ.get("OTATTN_MPIRUN", "mpirun")
CALLS = str(Path(PROGRAM).parent / "ranks_calls")
CALL_SIZES = (1024, 2048, 4096, 8192)
ALLOWED = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1", "OPENBLAS_NUM_THREADS": "1",
}  # fmt: skip


def attend(folder: Path, method: str, ranks: int, threads: int, shared: bool) -> dict[str, Any]:
    """One run; its JSON, with the outputs."""
    launcher = [MPIRUN, "-n", str(ranks)] if shared else []
    out = folder / "out.npy"
    command = [PROGRAM, "attend", "q.npy", "k.npy", "v.npy", "--method", method, "--threads", str(threads)]
    done = subprocess.run(
        [*launcher, *command, *(["--shard", "rows"] if shared else []), "-o", str(out), "--force", "--json"],
        cwd=folder, capture_output=True, text=True, env={**os.environ, **ALLOWED},
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"{method} on {ranks} ranks: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    found["out"] = np.load(out)
    return found


def calls(method: str, size: int, turns: int) -> dict[str, Any]:
    """Least seconds of a call, in one run of two ranks."""
    command = [MPIRUN, "-n", "2", CALLS, method, str(size), str(turns)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **ALLOWED})
    if done.returncode != 0:
        sys.exit(f"{method} of {size}: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    if found["apart"] > MOST_APART:
        sys.exit(f"{method} of {size}: outputs are {found['apart']} apart")
    return found


def weak_scaling(turns: int) -> list[dict[str, Any]]:
    """Prints and returns the second table."""
    table = []
    print(f"\n{'method':10} {'tokens':>6} {'a call ms':>10} {'weak scaling':>12} {'without messages':>16}")
    for word, method in METHODS.items():
        for size in CALL_SIZES:
            found = calls(method, size, turns)
            weak, beside = (found["alone"] / found[of] for of in ("shared", "beside"))
            table.append({"method": method, "tokens": size, "weak": weak, "without_messages": beside})
            print(f"{word:10} {size:6} {1e3 * found['shared']:10.2f} {weak:12.2f} {beside:16.2f}", flush=True)
    return table


def promised(keys: int, ranks: int, rounds: int) -> int:
    """Bytes of rank 0, from docs/development/ranks.md; no mask, no receivers, f32."""
    share = -(-keys // ranks)
    bytes_sent = share * 2 * WIDTH * 4 * HEADS + 32
    if rounds > 0:
        bytes_sent += HEADS * (8 * (keys + 5) * (rounds + 1) + 40)
    return bytes_sent + 8 + 40 * HEADS + 16


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--turns", type=int, default=15, help="of weak scaling")
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    size, table = chosen.size, []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        draw = np.random.default_rng(1)
        for word in ("q", "k", "v"):
            np.save(folder / f"{word}.npy", draw.standard_normal((1, HEADS, size, WIDTH)).astype(np.float32))
        print(f"{'method':10} {'ranks':>5} {'against threads':>15} {'bytes':>12} {'apart':>9}")
        for word, method in METHODS.items():
            for ranks in (1, 2, 4, 8):
                turns = chosen.repeat if ranks <= 2 else 1
                overhead, apart = [], 0.0
                for turn in range(turns):
                    print(f"\r{word}, {ranks} ranks, turn {turn + 1} of {turns}", end="", file=sys.stderr)
                    ours = attend(folder, method, ranks, 1, True)
                    threads = attend(folder, method, 1, ranks, False)
                    overhead.append(ours["seconds"] / threads["seconds"])
                    apart = max(apart, float(np.abs(ours["out"] - threads["out"]).max()))
                print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
                sent = int(ours["how"]["message_bytes"])
                if sent != promised(size, ranks, ROUNDS if word == "rounds" else 0):
                    sys.exit(f"{word} on {ranks} ranks sent {sent} bytes, not what is promised")
                if apart > MOST_APART:
                    sys.exit(f"{word} on {ranks} ranks: outputs are {apart} apart")
                row: dict[str, Any] = {"method": method, "ranks": ranks, "bytes": sent, "apart": apart}
                row["overhead"] = statistics.median(overhead) if ranks <= 2 else None
                table.append(row)
                shown = "-" if row["overhead"] is None else f"{row['overhead']:.2f}"
                print(f"{word:10} {ranks:5} {shown:>15} {sent:12} {apart:9.1e}", flush=True)
    table += weak_scaling(chosen.turns)
    if chosen.json:
        chosen.json.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
