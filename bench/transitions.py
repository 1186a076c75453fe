"""What analyze measures between two layers, beside the products of logits: processor time of one thread.

    python bench/transitions.py [--calls build/transition_calls] [--before FILE] [--repeat 5]

`transition_calls` (bench/transition_calls.c, a target of the build) runs on random GPT-2 models of 50,000
words. With --before, the same program linked with another build of the library runs in turns with it, and
all figures must be the same bits. Per token and transition, both probes: ms of the products, of rows (ranks,
sums, transition, prediction) and of the exact alignment, and the ratio of the latter two to the products;
then what of the alignment no number of threads makes shorter (all of it in a build without tasks).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings

WORDS = 50000
WIDTHS = (576, 768)
PARTS = ("products", "rows", "alignment")


def make_model(width: int, folder: str) -> None:
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=WORDS, n_positions=1024, n_embd=width, n_layer=1, n_head=width // 64
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)


def measure(program: str, folder: str, tokens: int) -> dict[str, float | str]:
    done = subprocess.run(
        [program, folder, str(tokens), "1"],
        capture_output=True, text=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(done.stderr)
    found: dict[str, float | str] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", default="build/transition_calls")
    parser.add_argument("--before", help="the same program, linked with an older library")
    parser.add_argument("--tokens", type=int, default=128, help="of a window (128)")
    parser.add_argument("--repeat", type=int, default=5, help="turns, of which the least counts (5)")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    sides = {"before": options.before, "now": options.calls} if options.before else {"now": options.calls}
    print(
        f"V = {WORDS}, windows of {options.tokens} tokens, one thread, ms a token and transition, both probes"
    )
    print(f"{'width':>6} {'':8}{'products':>10}{'rows':>10}{'alignment':>11}{'ratio':>8}{'shortest':>10}")
    for width in WIDTHS:
        with tempfile.TemporaryDirectory() as folder:
            make_model(width, folder)
            turns = [
                {side: measure(program, folder, options.tokens) for side, program in sides.items()}
                for _ in range(options.repeat)
            ]
        if len({turn[side]["sum"] for turn in turns for side in sides}) != 1:
            sys.exit(f"width {width}: the figures differ")
        for side in sides:
            least = [min(float(turn[side][part]) for turn in turns) for part in PARTS]
            ratio = (least[1] + least[2]) / least[0]
            shortest = min(float(turn[side].get("shortest", turn[side]["alignment"])) for turn in turns)
            numbers = f"{least[0]:10.3f}{least[1]:10.3f}{least[2]:11.3f}{ratio:8.2f}{shortest:10.3f}"
            print(f"{width:6} {side:8}{numbers}")


if __name__ == "__main__":
    main()
