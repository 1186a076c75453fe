"""`otattn analyze --store`: states measured as f16 keeps them, against NumPy's rounding of what
`otattn capture` gives, and what that rounding does to logits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import spec
from program import ROOT, U32, U64, answer
from safetensors.numpy import load_file, save_file

TYPES = {"f32": np.float32, "f16": np.float16}


def metrics_of(folder: Path, model: Path | str, store: str) -> dict[str, Any]:
    """Of ids.npy, one window."""
    window = f"1x{np.load(folder / 'ids.npy').size}"
    answer(folder, "analyze", model, "--ids", "ids.npy", "--windows", window, "--store", store, "-o", store)
    return json.loads((folder / store / "metrics.json").read_text())


def measures(h: np.ndarray) -> dict[str, np.ndarray]:
    """Of states [layers + 1, tokens, width]: a row a state, or a row a transition."""
    norm, move = np.linalg.norm(h, axis=-1), np.diff(h, axis=0)
    moved = np.linalg.norm(move, axis=-1)
    return {
        "norm": norm,
        "norm_change": moved,
        "relative_l2": moved / norm[:-1],
        "cosine": (h[1:] * h[:-1]).sum(-1) / norm[1:] / norm[:-1],
        "max_coordinate_change": np.abs(move).max(-1),
    }


def test_states_are_rounded_as_numpy_rounds_them(tmp_path: Path) -> None:
    model, points = ROOT / "data" / "demo" / "model", [f"blocks.{layer}.hook_resid_pre" for layer in range(4)]
    points.append("blocks.3.hook_resid_post")
    np.save(tmp_path / "ids.npy", np.random.default_rng(1).integers(0, 768, size=16))
    words = ("--ids", "ids.npy", "--points", ",".join(points), "-o", "states.safetensors")
    answer(tmp_path, "capture", model, *words)
    captured = load_file(tmp_path / "states.safetensors")
    states = np.stack([captured[point][0] for point in points])
    for store, kind in TYPES.items():
        figures = metrics_of(tmp_path, model, store)
        for key, rows in measures(states.astype(kind).astype(np.float64)).items():
            objects = figures["layers" if key == "norm" else "transitions"]
            means = np.array([one[key]["mean"] for one in objects])
            # Sums in f64 of 192 coordinates, a few at a time, then of 16 tokens.
            spec.check("TOT-69", np.abs(means / rows.mean(-1) - 1).max(), 100 * U64)


def write_model(folder: Path, states: np.ndarray, head: np.ndarray) -> None:
    """A Llama whose every token takes these states [layers + 1, width], by the biases of its MLPs alone."""
    symbols, width = head.shape
    layers = len(states) - 1
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": layers,
        "hidden_size": width, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 2,
        "intermediate_size": 1, "mlp_bias": True, "hidden_act": "silu", "vocab_size": symbols,
        "max_position_embeddings": 8, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "tie_word_embeddings": False,
    }  # fmt: skip
    shapes = {
        "self_attn.q_proj.weight": (2, width), "self_attn.k_proj.weight": (2, width),
        "self_attn.v_proj.weight": (2, width), "self_attn.o_proj.weight": (width, 2),
        "mlp.gate_proj.weight": (1, width), "mlp.gate_proj.bias": (1,), "mlp.up_proj.weight": (1, width),
        "mlp.up_proj.bias": (1,), "mlp.down_proj.weight": (width, 1),
    }  # fmt: skip
    embedding = np.broadcast_to(states[0], (symbols, width))
    tensors = {
        "model.embed_tokens.weight": embedding,
        "lm_head.weight": head,
        "model.norm.weight": np.ones(width),
    }
    for layer, step in enumerate(np.diff(states, axis=0)):
        block = f"model.layers.{layer}"
        tensors |= {f"{block}.{name}": np.zeros(shape) for name, shape in shapes.items()}
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{block}.{norm}.weight"] = np.ones(width)
        tensors[f"{block}.mlp.down_proj.bias"] = step
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    plain = {name: np.ascontiguousarray(tensor, np.float32) for name, tensor in tensors.items()}
    save_file(plain, folder / "model.safetensors")


def sphere(generator: np.random.Generator, count: int, width: int, norm: float) -> np.ndarray:
    x = generator.normal(size=(count, width))
    return norm * x / np.linalg.norm(x, axis=-1, keepdims=True)


def test_what_f16_does_to_logits(tmp_path: Path) -> None:
    """|h| = 150, |W_j| = 3, width 1600. States are f16(h), h of one draw after another: f32 states move
    logits at every other layer by W (h - f16(h)), the error that storage makes, and f16 states by nothing.
    W f16(h) = 0, so that predictions are even there and twice the divergence is the variance of the move."""
    width, symbols, draws, generator = 1600, 250, 8, np.random.default_rng(2)
    # Whole multiples of 2^-18 below 32: every state, and every step from one to the next, is exact in f32.
    h = np.round(sphere(generator, draws, width, 150.0) * 2**18) / 2**18
    stored = h.astype(np.float16).astype(np.float64)
    head = sphere(generator, symbols, width, 3.0)
    head -= head @ np.linalg.pinv(stored) @ stored
    write_model(tmp_path / "model", np.stack([stored, h], axis=1).reshape(-1, width), head)
    np.save(tmp_path / "ids.npy", np.zeros(2, np.int64))
    moves = {store: metrics_of(tmp_path, "model", store)["transitions"][::2] for store in TYPES}

    def means(store: str, key: str) -> np.ndarray:
        return np.array([one["raw"][key]["mean"] for one in moves[store]])

    for key in ("max_logit_change", "kl", "tv"):
        spec.check("TOT-69", means("f16", key).max(), 0.0)
    most, deviation = means("f32", "max_logit_change"), np.sqrt(2 * means("f32", "kl"))
    error = (h - stored) @ head.T
    # Logits are sums in f32 of products whose size is |W_j| |h| = 450 at most.
    spec.check("TOT-69", np.abs(most - np.abs(error).max(-1)).max(), 450 * U32)
    spec.check("TOT-69", np.abs(deviation - error.std(-1)).max(), 450 * U32)
    # Printed for 2000 logits too. Their rms is known to 1.6 %: three of these, and half the last digit.
    spec.check("TOT-69", abs(np.sqrt((deviation**2).mean()) / 2.4e-3 - 1), 0.07)
    # The largest of 2000 normal numbers is 3.4 deviations give or take a tenth, there and here.
    spec.check("TOT-69", abs(most.max() / 9e-3 - 1), 0.25)
    # Storage alone moves a prediction that is not saturated by more than the threshold of saturation.
    spec.check("TOT-69", 1e-10, means("f32", "tv").min())
