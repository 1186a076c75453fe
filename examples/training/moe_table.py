"""Prints how every method of otattn.moe routes the logits that moe.py saved, as a Markdown table.

moe_table.py FILE.npy ...

Takes the last layer of each file, 4096 tokens. Of optimum is the sum of the chosen logits over the one of the
exact optimum with equal loads, both above the sum of the mean logits; above 1 where loads are not kept.
Dropped is the share of choices beyond the mean load rounded up. ms is the fastest of three calls without a
certificate; warm starts from the potentials of the first half of the tokens, cold from none.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import Any

import numpy as np
import otattn
from otattn.moe import METHODS, route

TURNS = 3


def fastest(call: Any) -> float:
    times = []
    for _ in range(TURNS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def main() -> None:
    otattn.set_num_threads(1)
    print("| experts | k | method | of optimum | load | dropped | rounds | ms cold | ms warm |")
    print("|---|---|---|---|---|---|---|---|---|")
    for path in sys.argv[1:]:
        logits = np.load(path)[-1]
        tokens, experts = logits.shape
        for k in (1, 2, 8):
            floor = tokens * k * float(logits.mean(dtype=np.float64))
            best = route(logits, k).certificate.value - floor
            for method in METHODS:
                found = route(logits, k, method=method)
                start = route(logits[: tokens // 2], k, method=method).potentials
                over = np.maximum(found.load - -(-tokens * k // experts), 0).sum() / (tokens * k)
                cold = fastest(partial(route, logits, k, method=method, certificate=False))
                warm = fastest(partial(route, logits, k, method=method, potentials=start, certificate=False))
                print(
                    f"| {experts} | {k} | `{method}` | {(found.certificate.value - floor) / best:.4f} "
                    f"| {found.load.max() / found.load.mean():.3f} | {100 * over:.2f} % "
                    f"| {found.certificate.rounds} | {cold:.1f} | {warm:.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
