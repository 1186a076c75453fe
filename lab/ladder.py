"""Times the fused kernel against torch's scaled_dot_product_attention, alternating in one run.

    python ladder.py attend_driver.so [--levels avx512,avx2,portable] [--sizes 256,1024,4096] [--width 64]

NOTES.md has the line that builds attend_driver.so. Prints the best of --repeats for both, their
ratio, and the share of the level's own ceiling (`products` on a block in the first cache).
"""

import argparse
import ctypes
import math
import time

import numpy as np
import torch


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--levels", default="avx512")
    parser.add_argument("--sizes", default="256,1024,4096")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--causal", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    library = ctypes.CDLL(arguments.library)
    library.lab_attend.restype = library.lab_ceiling.restype = ctypes.c_double
    pointer = np.ctypeslib.ndpointer(np.float32, flags="C")
    library.lab_attend.argtypes = [ctypes.c_char_p] + [pointer] * 4 + [ctypes.c_int64] * 3 + [ctypes.c_int]
    library.lab_ceiling.argtypes = [ctypes.c_char_p]
    width = arguments.width
    for level in arguments.levels.split(","):
        for size in map(int, arguments.sizes.split(",")):
            rng = np.random.default_rng(size)
            q, k, v = (rng.standard_normal((size, width)).astype(np.float32) for _ in range(3))
            out = np.zeros_like(q)
            heads = [torch.from_numpy(x)[None, None] for x in (q, k, v)]
            ours, theirs, ceiling = [], [], []
            for _ in range(arguments.repeats):
                ours.append(
                    library.lab_attend(level.encode(), q, k, v, out, size, size, width, int(arguments.causal))
                )
                start = time.perf_counter()
                expected = torch.nn.functional.scaled_dot_product_attention(
                    *heads, is_causal=arguments.causal
                )
                theirs.append(time.perf_counter() - start)
                ceiling.append(library.lab_ceiling(level.encode()))
            scores = q.astype(float) @ k.astype(float).T / math.sqrt(width)
            if arguments.causal:
                scores[np.triu_indices(size, 1)] = -np.inf
            weights = np.exp(scores - scores.max(1, keepdims=True))
            exact = weights @ v.astype(float) / weights.sum(1, keepdims=True)
            flops = 4.0 * size * size * width * (0.5 if arguments.causal else 1)
            rate = flops / min(ours)
            print(
                f"{level} n={size} d={width} causal={int(arguments.causal)}: {rate / 1e9:.1f} GF/s, "
                f"{rate / max(ceiling):.3f} of ceiling {max(ceiling) / 1e9:.1f}, torch "
                f"{flops / min(theirs) / 1e9:.1f} GF/s, ratio {min(theirs) / min(ours):.3f}, "
                f"error {abs(out - exact).max():.2e} torch {abs(expected[0, 0].numpy() - exact).max():.2e}"
            )


if __name__ == "__main__":
    main()
