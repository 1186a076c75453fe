"""Times `otattn generate` beside transformers on torch: one pass over a prompt, then token by token.

    models.py PROGRAM [--model NAME] [--prompt N] [--tokens N] [--repeat N] [--threads N] [--csv FILE]

Each model has the sizes of one that people run and random f32 weights, which both sides read from one
folder: speed asks for sizes only. Both choose the token of the largest logit on a cache of keys and values;
transformers is asked for the last position's logits alone and runs the prompt once before it is timed.
Turns alternate; the fastest of each counts. Above 1, otattn is faster. The first token that both choose must
be the same, and the share of equal tokens is printed: with random weights the two largest logits may be as
near as rounding.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from timing import write_csv


def gpt2() -> Any:
    import transformers

    return transformers.GPT2LMHeadModel(transformers.GPT2Config(bos_token_id=None, eos_token_id=None))


def smollm2() -> Any:
    import transformers

    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
            num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=2048,
            tie_word_embeddings=True, rope_theta=100000.0, bos_token_id=None, eos_token_id=None,
        )
    )  # fmt: skip


MODELS = {"GPT-2 small": gpt2, "SmolLM2-135M": smollm2}


def ours(program: str, folder: Path, ids: Path, tokens: int, threads: int) -> tuple[float, float, list[int]]:
    command = [program, "generate", str(folder), "--ids", str(ids), "--tokens", str(tokens)]
    made = subprocess.run(
        [*command, "--threads", str(threads), "--json"], check=True, capture_output=True, text=True
    )
    answer = json.loads(made.stdout)
    return answer["prefill_seconds"], answer["decode_seconds"], answer["ids"]


def theirs(model: Any, ids: np.ndarray, tokens: int) -> tuple[float, float, list[int]]:
    import torch

    chosen = []
    with torch.inference_mode():
        begun = time.perf_counter()
        out = model(torch.from_numpy(ids)[None], use_cache=True, logits_to_keep=1)
        chosen.append(int(out.logits[0, -1].argmax()))
        prompt = time.perf_counter() - begun
        begun = time.perf_counter()
        while len(chosen) < tokens:
            last = torch.tensor([[chosen[-1]]])
            out = model(last, past_key_values=out.past_key_values, use_cache=True)
            chosen.append(int(out.logits[0, -1].argmax()))
        return prompt, time.perf_counter() - begun, chosen


def run(name: str, options: argparse.Namespace, folder: Path) -> dict[str, object]:
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    model = MODELS[name]().eval()
    model.save_pretrained(folder)
    generator = np.random.default_rng(0)
    ids = generator.integers(0, model.config.vocab_size, options.prompt)
    np.save(folder / "ids.npy", ids)
    theirs(model, ids, 2)
    best = [[float("inf")] * 2, [float("inf")] * 2]
    for _ in range(options.repeat):
        mine = ours(options.program, folder, folder / "ids.npy", options.tokens, options.threads)
        peer = theirs(model, ids, options.tokens)
        for side, timed in zip(best, (mine, peer), strict=True):
            side[:] = [min(old, new) for old, new in zip(side, timed[:2], strict=True)]
        if mine[2][0] != peer[2][0]:
            sys.exit(f"{name}: the first tokens are {mine[2][0]} and {peer[2][0]}")
        same = sum(a == b for a, b in zip(mine[2], peer[2], strict=True)) / options.tokens
    steps = options.tokens - 1
    return {
        "model": name,
        "prompt_ms": 1e3 * best[0][0],
        "torch_prompt_ms": 1e3 * best[1][0],
        "prompt_ratio": best[1][0] / best[0][0],
        "token_ms": 1e3 * best[0][1] / steps,
        "torch_token_ms": 1e3 * best[1][1] / steps,
        "token_ratio": best[1][1] / best[0][1],
        "same_tokens": same,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program")
    parser.add_argument("--model", choices=list(MODELS), help="this one alone")
    for name, standard in {"prompt": 512, "tokens": 64, "repeat": 3, "threads": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=standard, help=f"({standard})")
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    rows = []
    print(f"{options.prompt} tokens of prompt, {options.tokens} generated, {options.threads} thread(s), f32")
    print(
        f"{'model':14}{'prompt ms':>11}{'torch':>9}{'ratio':>7}{'token ms':>11}{'torch':>9}{'ratio':>7}  same"
    )
    for name in [options.model] if options.model else MODELS:
        with tempfile.TemporaryDirectory() as folder:
            row = run(name, options, Path(folder))
        rows.append(row)
        print(
            f"{name:14}{row['prompt_ms']:11.1f}{row['torch_prompt_ms']:9.1f}{row['prompt_ratio']:7.2f}"
            f"{row['token_ms']:11.2f}{row['torch_token_ms']:9.2f}{row['token_ratio']:7.2f}"
            f"  {row['same_tokens']:.0%}",
            flush=True,
        )
    write_csv(options.csv, [*rows[0]], [[*row.values()] for row in rows])


if __name__ == "__main__":
    main()
