"""Weights and key mass of a text of 32,768 tokens, from a model of SmolLM2-135M's shape with random weights.

    python scripts/long_text.py -o build/long-text [--layers 30] [--tokens 32768] [--weights 1:0]

SmolLM2 itself was trained at 8,192 positions, beyond which texts are refused; time and memory do not depend
on what the weights are. Writes FOLDER/model (bf16), captures `--receiver` of all layers and `--weights` of
the given heads, and prints peak memory and processor time of that run. Then it checks what was written:
keys receive as much as there are queries, the captured weights of a head sum to the mass of its keys, and
its rows to 1. The captured file takes 4.3 GB a head at 32,768 tokens and is removed without --keep.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from pathlib import Path

import numpy as np

WIDTH, HEADS, KEY_HEADS, INNER, VOCABULARY = 576, 9, 3, 1536, 49152
HEAD_WIDTH = WIDTH // HEADS
TOLERANCE = 1e-4  # f32, sums of 32,768 of them
LAYER = {
    "input_layernorm.weight": (WIDTH,),
    "post_attention_layernorm.weight": (WIDTH,),
    "self_attn.q_proj.weight": (WIDTH, WIDTH),
    "self_attn.k_proj.weight": (KEY_HEADS * HEAD_WIDTH, WIDTH),
    "self_attn.v_proj.weight": (KEY_HEADS * HEAD_WIDTH, WIDTH),
    "self_attn.o_proj.weight": (WIDTH, WIDTH),
    "mlp.gate_proj.weight": (INNER, WIDTH),
    "mlp.up_proj.weight": (INNER, WIDTH),
    "mlp.down_proj.weight": (WIDTH, INNER),
}


def config(layers: int, positions: int) -> dict[str, object]:
    """SmolLM2-135M's settings, but for layers and positions."""
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": WIDTH,
        "intermediate_size": INNER,
        "num_hidden_layers": layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KEY_HEADS,
        "max_position_embeddings": positions,
        "vocab_size": VOCABULARY,
        "rms_norm_eps": 1e-5,
        "rope_theta": 100000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }


def bf16(x: np.ndarray) -> np.ndarray:
    """Rounded to nearest, as its 16 bits."""
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")


def write_model(folder: Path, layers: int, positions: int) -> None:
    """config.json and model.safetensors, tensor by tensor; normal weights, norms of 1."""
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCABULARY, WIDTH)}
    for layer in range(layers):
        shapes |= {f"model.layers.{layer}.{name}": shape for name, shape in LAYER.items()}
    shapes["model.norm.weight"] = (WIDTH,)
    header, end = {}, 0
    for name, shape in shapes.items():
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(layers, positions), indent=1))
    rng = np.random.default_rng(0)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for shape in shapes.values():
            # In pieces: what this program holds would count as the peak of the one that it starts.
            for first in range(0, shape[0], 2048):
                piece = (min(2048, shape[0] - first), *shape[1:])
                normal = 2.0 / np.sqrt(shape[-1]) * rng.standard_normal(piece)
                file.write(bf16(normal if len(shape) > 1 else np.ones(piece)).tobytes())


def run(command: list[str]) -> tuple[float, float]:
    """Peak memory in GB and seconds of a processor; its progress goes to the terminal."""
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command[0]} ended with {process.returncode}")
    return usage.ru_maxrss * 1024 / 1e9, usage.ru_utime + usage.ru_stime


def read(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file of f32, mapped."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    return {
        name: np.memmap(path, "<f4", "r", 8 + size + entry["data_offsets"][0], tuple(entry["shape"]))
        for name, entry in header.items()
    }


def check(path: Path, tokens: int, weights: dict[int, list[int]]) -> dict[str, float]:
    """The largest distances: of received mass from n, of columns of weights from it, of rows from 1."""
    arrays = read(path)
    receivers = [x for name, x in arrays.items() if name.endswith("hook_receiver")]
    far = {"mass": max(float(np.abs(x.sum(-1, dtype=np.float64) / tokens - 1).max()) for x in receivers)}
    far |= {"columns": 0.0, "rows": 0.0}
    for layer, heads in weights.items():
        mass, pattern = (arrays[f"blocks.{layer}.attn.hook_{name}"][0] for name in ("receiver", "pattern"))
        for place, head in enumerate(heads):
            total = np.zeros(tokens)
            for first in range(0, tokens, 256):
                block = pattern[place, first : first + 256].astype(np.float64)
                far["rows"] = max(far["rows"], float(np.abs(block.sum(1) - 1).max()))
                total += block.sum(0)
            far["columns"] = max(
                far["columns"], float((np.abs(total - mass[head]) / np.maximum(1, total)).max())
            )
    return far


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--program", default="build/otattn")
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--tokens", type=int, default=32768)
    parser.add_argument("--weights", default="1:0", help="LAYER:HEAD,...")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="the captured file stays")
    args = parser.parse_args()
    model, file = args.output / "model", args.output / "captured.safetensors"
    write_model(model, args.layers, args.tokens)
    ids = np.random.default_rng(1).integers(0, VOCABULARY, args.tokens)
    np.save(args.output / "ids.npy", ids)
    command = [args.program, "capture", str(model), "--ids", str(args.output / "ids.npy"), "--receiver"]
    command += ["--weights", args.weights, "--threads", str(args.threads), "-f", "-o", str(file)]
    peak, seconds = run(command)
    written = file.stat().st_size / 1e9
    weights: dict[int, list[int]] = {}
    for place in args.weights.split(","):
        layer, head = (int(part) for part in place.split(":"))
        weights[layer] = sorted([*weights.get(layer, []), head])
    far = check(file, args.tokens, weights)
    if not args.keep:
        file.unlink()
    print(
        f"{args.tokens:,} tokens, {args.layers} layers: peak {peak:.2f} GB, "
        f"{seconds:.0f} s of a processor, {written:.2f} GB written"
    )
    print(f"largest distances: {', '.join(f'{name} {x:.1e}' for name, x in far.items())}")
    if max(far.values()) > TOLERANCE:
        raise SystemExit("the masses do not add up")


if __name__ == "__main__":
    main()
