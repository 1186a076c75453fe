"""Models: every hidden state, attention pattern and logit against transformers, on small random
checkpoints that are written here, and the same through gguf files of our own making.

Bounds are those of the project: hidden states within 2e-5 of their largest value at every layer, logits
within 1e-4."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spec
from model_peers import distance, peer_run
from program import ROOT, answer, run
from safetensors.numpy import load_file, save_file

os.environ["HF_HUB_OFFLINE"] = "1"
torch = pytest.importorskip("torch")
safetensors_torch = pytest.importorskip("safetensors.torch")
transformers = pytest.importorskip("transformers")

STATES = 2e-5
LOGITS = 1e-4
VOCABULARY = 61

CONFIGS: dict[str, dict[str, Any]] = {
    "gpt2": {"type": "gpt2", "n_layer": 3, "n_head": 4, "n_embd": 48, "n_positions": 64},
    "gpt2 variants": {
        "type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 24, "n_positions": 40, "n_inner": 40,
        "activation_function": "relu", "scale_attn_by_inverse_layer_idx": True, "layer_norm_epsilon": 1e-3,
    },
    "bert": {
        "type": "bert", "num_hidden_layers": 3, "num_attention_heads": 4, "hidden_size": 40,
        "intermediate_size": 72, "max_position_embeddings": 48,
    },
    "llama": {
        "type": "llama", "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2,
        "hidden_size": 48, "intermediate_size": 80, "max_position_embeddings": 64,
        "tie_word_embeddings": False,
    },
    "llama variants": {
        "type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
        "head_dim": 16, "hidden_size": 32, "intermediate_size": 48, "max_position_embeddings": 64,
        "tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True, "rope_theta": 5000.0,
    },
    "llama linear": {
        "type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "hidden_size": 32, "intermediate_size": 48, "max_position_embeddings": 64,
        "rope_parameters": {"rope_type": "linear", "factor": 2.5, "rope_theta": 10000.0},
    },
    "llama 3": {
        "type": "llama", "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
        "hidden_size": 64, "intermediate_size": 48, "max_position_embeddings": 128,
        "rope_parameters": {
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 40, "rope_theta": 500.0,
        },
    },
    "gemma 3": {
        "type": "gemma3", "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "hidden_size": 48, "intermediate_size": 80, "max_position_embeddings": 64,
        "sliding_window": 7, "sliding_window_pattern": 3, "query_pre_attn_scalar": 20,
        "rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 2.5, "rope_theta": 5000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 300.0},
        },
    },
}  # fmt: skip

CLASSES = {
    "gpt2": ("GPT2Config", "GPT2LMHeadModel"),
    "bert": ("BertConfig", "BertForMaskedLM"),
    "llama": ("LlamaConfig", "LlamaForCausalLM"),
    "gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM"),
}


def make_model(folder: Path, name: str, **how: Any) -> Any:
    """A random model in `folder`, its weights large enough that every part matters."""
    settings = dict(CONFIGS[name])
    config_class, model_class = (getattr(transformers, word) for word in CLASSES[settings.pop("type")])
    torch.manual_seed(3)
    config = config_class(vocab_size=VOCABULARY, bos_token_id=1, eos_token_id=2, pad_token_id=0, **settings)
    config._attn_implementation = "eager"
    model = model_class(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * (0.15 if parameter.dim() > 1 else 0.1))
    model.save_pretrained(folder, **how)
    return model


def draw_ids(batch: int, count: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).integers(3, VOCABULARY, size=(batch, count))


def capture(folder: Path, model: Path, ids: np.ndarray, *words: Any) -> dict[str, np.ndarray]:
    np.save(folder / "ids.npy", ids)
    answer(
        folder, "capture", model, "--ids", "ids.npy", "--points", "all", "-f", "-o", "run.safetensors", *words
    )
    return load_file(folder / "run.safetensors")


def state_names(name: str, layers: int) -> list[str]:
    """What transformers calls hidden_states[0 ... layers], in our names."""
    if CONFIGS[name]["type"] == "bert":
        return ["hook_full_embed"] + [f"blocks.{k}.hook_normalized_resid_post" for k in range(layers)]
    # The last hidden state of transformers is behind the last norm.
    return [f"blocks.{k}.hook_resid_pre" for k in range(layers)] + ["ln_final.hook_normalized"]


@pytest.mark.parametrize("name", CONFIGS)
def test_states_and_patterns(tmp_path: Path, name: str) -> None:
    model = make_model(tmp_path / "model", name)
    ids = draw_ids(2, 33)
    ours = capture(tmp_path, tmp_path / "model", ids)
    peer = peer_run(model, ids)
    layers = len(peer.attentions)
    for layer, state in enumerate(state_names(name, layers)):
        assert distance(ours[state], peer.hidden_states[layer]) <= STATES
    for layer in range(layers):
        assert distance(ours[f"blocks.{layer}.attn.hook_pattern"], peer.attentions[layer]) <= STATES


@pytest.mark.parametrize("seed", range(3))
def test_scaled_rotary_positions(tmp_path: Path, seed: int) -> None:
    """llama3 scaling by random numbers: pairs below, between and above both bounds."""
    generator = np.random.default_rng(seed)
    low = generator.uniform(0.5, 2)
    rope = {
        "rope_type": "llama3", "factor": generator.uniform(1, 32), "low_freq_factor": low,
        "high_freq_factor": low * generator.uniform(1.5, 6), "rope_theta": generator.uniform(100, 1e6),
        "original_max_position_embeddings": int(generator.integers(16, 512)),
    }  # fmt: skip
    CONFIGS["random"] = {**CONFIGS["llama 3"], "rope_parameters": rope}
    model = make_model(tmp_path / "model", "random")
    ids = draw_ids(1, 100)
    ours = capture(tmp_path, tmp_path / "model", ids)
    peer = peer_run(model, ids)
    for layer, state in enumerate(state_names("random", len(peer.attentions))):
        assert distance(ours[state], peer.hidden_states[layer]) <= STATES
    CONFIGS.pop("random")
    settings = json.loads((tmp_path / "model" / "config.json").read_text())
    # Older files have the same under another name, and the base beside it.
    base = settings["rope_parameters"].pop("rope_theta")
    settings["rope_scaling"], settings["rope_theta"] = settings.pop("rope_parameters"), base
    settings["rope_scaling"]["type"] = settings["rope_scaling"].pop("rope_type")
    (tmp_path / "model" / "config.json").write_text(json.dumps(settings))
    again = capture(tmp_path, tmp_path / "model", ids)
    assert all(np.array_equal(ours[name], again[name]) for name in ours)


def test_gpt2_in_double_precision(tmp_path: Path) -> None:
    model = make_model(tmp_path / "model", "gpt2")
    ids = draw_ids(2, 64)
    ours = capture(tmp_path, tmp_path / "model", ids)
    peer = peer_run(model.double(), ids)
    for layer, state in enumerate(state_names("gpt2", len(peer.attentions))):
        spec.check("TOT-68", distance(ours[state], peer.hidden_states[layer]), 1e-5)


def test_older_gemma_settings(tmp_path: Path) -> None:
    """A period in place of a list of layers, and both bases at the top; what is not run is refused."""
    make_model(tmp_path / "model", "gemma 3")
    ids = draw_ids(1, 40)
    ours = capture(tmp_path, tmp_path / "model", ids)
    settings = json.loads((tmp_path / "model" / "config.json").read_text())
    types = settings.pop("layer_types")
    assert types == ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
    rope = settings.pop("rope_parameters")
    settings["sliding_window_pattern"] = 3
    settings["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
    settings["rope_theta"] = rope["full_attention"].pop("rope_theta")
    settings["rope_scaling"] = rope["full_attention"]
    (tmp_path / "model" / "config.json").write_text(json.dumps(settings))
    again = capture(tmp_path, tmp_path / "model", ids)
    assert all(np.array_equal(ours[name], again[name]) for name in ours)
    cases = [
        ({"use_bidirectional_attention": True}, b"such models are not run"),
        ({"layer_types": types[:3]}, b"a list of one word a layer"),
        ({"layer_types": [*types[:3], "chunked_attention"]}, b"sliding_attention or full_attention"),
        ({"sliding_window": 0}, b"outside 1 to"),
        ({"model_type": "gemma3"}, b'"text_config": must be an object'),
        ({"model_type": "gemma9"}, b'the architecture "gemma9" is not known'),
        (
            {
                "rope_parameters": {"sliding_attention": {"rope_type": "linear", "factor": 2.0}},
                "rope_scaling": None,
            },
            b"local layers are not scaled",
        ),
    ]
    for change, part in cases:
        (tmp_path / "model" / "config.json").write_text(json.dumps(settings | change))
        done = run(tmp_path, "info", "model")
        assert done.returncode in (2, 4) and part in done.stderr, (change, done)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "gemma 3"])
def test_padding(tmp_path: Path, name: str) -> None:
    model = make_model(tmp_path / "model", name)
    ids, lengths = draw_ids(3, 20), np.array([20, 7, 13])
    np.save(tmp_path / "lengths.npy", lengths)
    ours = capture(tmp_path, tmp_path / "model", ids, "--lengths", "lengths.npy")
    peer = peer_run(model, ids, lengths)
    rows = np.arange(20)[None] < lengths[:, None]
    for layer, state in enumerate(state_names(name, len(peer.attentions))):
        assert distance(ours[state], peer.hidden_states[layer], rows) <= STATES


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma 3"])
def test_perplexity(tmp_path: Path, name: str) -> None:
    """Windows and strides by the usual protocol, with transformers' own cross entropy."""
    model = make_model(tmp_path / "model", name)
    ids = draw_ids(1, 150)[0]
    np.save(tmp_path / "ids.npy", ids)
    for context, stride in ((40, 40), (40, 16)):
        ours = answer(
            tmp_path, "perplexity", tmp_path / "model", "--ids", "ids.npy",
            "--context", context, "--stride", stride,
        )  # fmt: skip
        total, count, done = 0.0, 0, 1
        for begin in range(0, len(ids), stride):
            window = torch.tensor(ids[begin : begin + context])
            with torch.no_grad():
                logits = model(window[None]).logits[0].double()
            first = max(done, begin + 1)
            losses = torch.nn.functional.cross_entropy(logits[:-1], window[1:], reduction="none")
            losses = losses[first - 1 - begin :]
            total, count, done = total + float(losses.sum()), count + len(losses), begin + len(window)
            if done == len(ids):
                break
        assert ours["tokens"] == count
        assert abs(ours["nll_per_token"] - total / count) <= 1e-5


@pytest.mark.parametrize("name", ["gpt2", "gpt2 variants", "llama", "llama variants", "gemma 3"])
def test_generate_is_greedy(tmp_path: Path, name: str) -> None:
    """The cache gives the tokens that the whole sequence gives."""
    model = make_model(tmp_path / "model", name)
    prompt = draw_ids(1, 9)
    np.save(tmp_path / "ids.npy", prompt[0])
    ours = answer(tmp_path, "generate", tmp_path / "model", "--ids", "ids.npy", "--tokens", 20)
    sequence = torch.tensor(prompt)
    for token in ours["ids"]:
        with torch.no_grad():
            logits = model(sequence).logits[0, -1]
        # A tie within rounding may go either way.
        assert float(logits.max() - logits[token]) <= LOGITS * float(logits.abs().max())
        sequence = torch.cat([sequence, torch.tensor([[token]])], 1)
    again = run(tmp_path, "generate", tmp_path / "model", "--ids", "ids.npy", "--tokens", 20, "--echo")
    assert [int(word) for word in again.stdout.split()] == [*prompt[0].tolist(), *ours["ids"]]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("gpt2", "float16"), ("gpt2", "bfloat16"), ("gpt2", "float64"), ("bert", "float16")],
)
def test_half_weights(tmp_path: Path, name: str, dtype: str) -> None:
    model = make_model(tmp_path / "first", name).to(getattr(torch, dtype))
    model.save_pretrained(tmp_path / "model", max_shard_size="20KB" if name == "bert" else "1GB")
    ids = draw_ids(1, 20)
    ours = capture(tmp_path, tmp_path / "model", ids)
    peer = peer_run(model.float(), ids)
    for layer, state in enumerate(state_names(name, len(peer.attentions))):
        assert distance(ours[state], peer.hidden_states[layer]) <= STATES
    facts = answer(tmp_path, "info", tmp_path / "model")
    assert facts["dtype"] == {"float16": "F16", "bfloat16": "BF16", "float64": "F64"}[dtype]


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2"])
def test_fp8_weights_are_refused_by_name(tmp_path: Path, kind: str) -> None:
    """As a weight in the file, and as what the configuration says of all weights."""
    make_model(tmp_path / "model", "llama")
    path, name = tmp_path / "model" / "model.safetensors", "model.layers.1.mlp.up_proj.weight"
    tensors = safetensors_torch.load_file(path)
    safetensors_torch.save_file(tensors | {name: tensors[name].to(getattr(torch, kind))}, path)
    done = run(tmp_path, "info", "model")
    word = {"float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}[kind]
    assert done.returncode == 2 and f'"{name}" is of type {word}, which is not read'.encode() in done.stderr
    safetensors_torch.save_file(tensors, path)
    config = tmp_path / "model" / "config.json"
    quantized = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
    config.write_text(json.dumps(json.loads(config.read_text()) | quantized))
    done = run(tmp_path, "info", "model")
    assert done.returncode == 2 and b'"quantization_config" is {"quant_method":"fp8",' in done.stderr
    assert b"otattn.hf" in done.stderr


def test_shards(tmp_path: Path) -> None:
    model = make_model(tmp_path / "model", "llama", max_shard_size="20KB")
    assert len(list((tmp_path / "model").glob("*.safetensors"))) > 3
    ids = draw_ids(1, 12)
    ours = capture(tmp_path, tmp_path / "model", ids)
    peer = peer_run(model, ids)
    assert distance(ours["ln_final.hook_normalized"], peer.hidden_states[-1]) <= STATES


def test_hub_cache(tmp_path: Path) -> None:
    snapshot = tmp_path / "hub" / "models--some--model" / "snapshots" / "abc123"
    make_model(snapshot, "llama", max_shard_size="20KB")
    refs = tmp_path / "hub" / "models--some--model" / "refs"
    blobs = tmp_path / "hub" / "models--some--model" / "blobs"
    refs.mkdir()
    blobs.mkdir()
    (refs / "main").write_text("abc123")
    for number, path in enumerate(sorted(snapshot.iterdir())):
        path.rename(blobs / str(number))
        path.symlink_to(Path("../../blobs") / str(number))
    done = run(tmp_path, "info", "some/model", "--json", HF_HUB_CACHE=str(tmp_path / "hub"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["architecture"] == "llama"
    done = run(tmp_path, "info", "some/other", HF_HUB_CACHE=str(tmp_path / "hub"))
    assert done.returncode == 6 and b"hub cache" in done.stderr


def test_info(tmp_path: Path) -> None:
    model = make_model(tmp_path / "model", "llama")
    facts = answer(tmp_path, "info", tmp_path / "model")
    assert facts["parameters"] == sum(parameter.numel() for parameter in model.parameters())
    assert (facts["layers"], facts["heads"], facts["kv_heads"], facts["width"]) == (3, 6, 2, 48)
    assert (facts["vocabulary"], facts["positions"], facts["head"]) == (VOCABULARY, 64, "own")
    assert {entry["name"] for entry in facts["tensors"]} == set(
        load_file(tmp_path / "model" / "model.safetensors")
    )


# ---- methods ----


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def sparsemax(scores: np.ndarray) -> np.ndarray:
    order = -np.sort(-scores, -1)
    total = np.cumsum(order, -1) - 1
    count = np.arange(1, scores.shape[-1] + 1)
    last = np.sum(order * count > total, -1, keepdims=True) - 1
    return np.maximum(scores - np.take_along_axis(total, last, -1) / (last + 1), 0)


def test_methods_by_place(tmp_path: Path) -> None:
    """One layer and one head changed: the pattern there is the method's on the captured queries and keys."""
    make_model(tmp_path / "model", "llama")
    ids = draw_ids(1, 17)
    plain = capture(tmp_path, tmp_path / "model", ids)
    ours = capture(tmp_path, tmp_path / "model", ids, "-m", "sparsemax@0,1.4", "--temperature", 0.5)
    above = np.triu(np.ones((17, 17), bool), 1)
    for layer in range(3):
        query, key = (ours[f"blocks.{layer}.attn.hook_rot_{part}"][0].astype(float) for part in "qk")
        key = np.repeat(key, 3, 1)
        scores = np.einsum("ihd,jhd->hij", query, key) / np.sqrt(8) / 0.5
        scores = np.where(above, -1e30, scores)
        for head in range(6):
            method = sparsemax if layer == 0 or (layer, head) == (1, 4) else softmax
            pattern = ours[f"blocks.{layer}.attn.hook_pattern"][0, head]
            assert np.abs(pattern - method(scores[head])).max() <= 1e-5
    assert np.array_equal(plain["blocks.0.attn.hook_q"], ours["blocks.0.attn.hook_q"])


def test_columns(tmp_path: Path) -> None:
    make_model(tmp_path / "model", "bert")
    ids = draw_ids(1, 16)
    ours = capture(tmp_path, tmp_path / "model", ids, "-m", "softmax/exact@1")
    sums = ours["blocks.1.attn.hook_pattern"].sum(-2)
    assert np.abs(sums - 1).max() <= 1e-4
    assert np.abs(ours["blocks.0.attn.hook_pattern"].sum(-2) - 1).max() > 0.1


def test_online_columns_decode_as_they_run(tmp_path: Path) -> None:
    """Capacity left to keys is carried along the cache: greedy tokens are those of whole runs."""
    make_model(tmp_path / "model", "llama")
    prompt = draw_ids(1, 8)
    np.save(tmp_path / "ids.npy", prompt[0])
    words = ["-m", "softmax/online:1.5"]
    made = answer(tmp_path, "generate", tmp_path / "model", "--ids", "ids.npy", "--tokens", 10, *words)["ids"]
    head = load_file(tmp_path / "model" / "model.safetensors")["lm_head.weight"]
    whole = np.concatenate([prompt[0], made])
    states = capture(tmp_path, tmp_path / "model", whole, *words)["ln_final.hook_normalized"][0]
    for step, token in enumerate(made):
        logits = head @ states[7 + step]
        assert logits.max() - logits[token] <= LOGITS * np.abs(logits).max()


def test_threads_change_no_bit(tmp_path: Path) -> None:
    make_model(tmp_path / "model", "llama")
    ids = draw_ids(2, 40)
    one = capture(tmp_path, tmp_path / "model", ids, "--threads", 1)
    three = capture(tmp_path, tmp_path / "model", ids, "--threads", 3)
    assert all(np.array_equal(one[name], three[name]) for name in one)


def test_levels_agree(tmp_path: Path) -> None:
    make_model(tmp_path / "model", "gpt2")
    ids = draw_ids(1, 30)
    best = capture(tmp_path, tmp_path / "model", ids)
    plain = capture(tmp_path, tmp_path / "model", ids, "--cpu", "portable")
    for name, ours in best.items():
        there = np.isfinite(ours)  # of scores, those that no mask forbids
        assert np.array_equal(there, np.isfinite(plain[name]))
        assert np.abs(ours[there] - plain[name][there]).max() <= STATES * np.abs(ours[there]).max()


def test_capture_chooses_points(tmp_path: Path) -> None:
    make_model(tmp_path / "model", "gpt2")
    np.save(tmp_path / "ids.npy", draw_ids(1, 5)[0])
    words = ["capture", tmp_path / "model", "--ids", "ids.npy", "-f", "-o", "run.safetensors"]
    standard = {entry["name"] for entry in answer(tmp_path, *words)["tensors"]}
    patterns = {f"blocks.{k}.attn.hook_pattern" for k in range(3)}
    assert standard == {
        "hook_embed", "blocks.2.hook_resid_post", "ln_final.hook_normalized", *patterns,
        *(f"blocks.{k}.hook_resid_pre" for k in range(3)),
    }  # fmt: skip
    chosen = answer(
        tmp_path, *words, "--points", "blocks.1.hook_mlp_out,attn.hook_pattern", "--out-dtype", "f16"
    )
    assert {entry["name"] for entry in chosen["tensors"]} == {"blocks.1.hook_mlp_out", *patterns}
    assert load_file(tmp_path / "run.safetensors")["blocks.1.hook_mlp_out"].dtype == np.float16
    every = {entry["name"] for entry in answer(tmp_path, *words, "--points", "all")["tensors"]}
    for points in ("all,logits", "logits,all"):
        more = {entry["name"] for entry in answer(tmp_path, *words, "--points", points)["tensors"]}
        assert more == every | {"logits"} != every
    refused(tmp_path, 2, "no point 'x'", *words, "--points", "all,x")
    refused(tmp_path, 2, "--points is empty (write --points LIST)", *words, "--points", "")


def logits_of(model: Any, ids: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        peer: np.ndarray = model(torch.tensor(ids)).logits.numpy()
    return peer


@pytest.mark.parametrize("name", ["gpt2", "bert", "llama"])
def test_runs_that_begin_at_a_layer(tmp_path: Path, name: str) -> None:
    model = make_model(tmp_path / "model", name)
    ids = draw_ids(2, 9)
    whole = capture(tmp_path, tmp_path / "model", ids)
    (tmp_path / "run.safetensors").rename(tmp_path / "whole.safetensors")
    stream = ["--residual", "whole.safetensors:blocks.1.hook_resid_pre", "--start-at-layer", 1]
    later = capture(tmp_path, tmp_path / "model", ids, *stream)
    before = {key for key in whole if key.startswith(("blocks.0.", "hook_"))}
    assert "hook_embed" in before and set(later) == set(whole) - before
    for key, array in later.items():
        assert np.array_equal(array, whole[key]), key
    # Logits, whole and from the middle, are those of the model; an edited stream gives others.
    words = ["capture", "model", "--ids", "ids.npy", "--points", "logits", "-f", "-o", "logits.safetensors"]
    peer = logits_of(model, ids)
    for how in ([], stream):
        assert answer(tmp_path, *words, *how)["tensors"] == [
            {"name": "logits", "shape": [2, 9, VOCABULARY], "dtype": "f32"}
        ]
        ours = load_file(tmp_path / "logits.safetensors")["logits"]
        assert np.abs(ours - peer).max() <= LOGITS * np.abs(peer).max()
    edited = whole["blocks.1.hook_resid_pre"].copy()
    edited[1] = edited[0]
    np.save(tmp_path / "edited.npy", edited)
    answer(tmp_path, *words, "--residual", "edited.npy", "--start-at-layer", 1)
    patched = load_file(tmp_path / "logits.safetensors")["logits"]
    # The same but for the rounding of rows at other places of a product.
    slack = LOGITS * np.abs(ours).max()
    assert np.abs(patched[1] - ours[0]).max() <= slack < np.abs(ours[1] - ours[0]).max()
    assert np.abs(patched[0] - ours[0]).max() <= slack
    refused(tmp_path, 2, "no layer 3", *words, *stream[:2], "--start-at-layer", 3)
    refused(tmp_path, 2, "with a residual stream only", *words, "--start-at-layer", 1)
    np.save(tmp_path / "short.npy", edited[:, :-1])
    refused(tmp_path, 2, f"is not [2,9,{edited.shape[2]}]", *words, "--residual", "short.npy")


# ---- refusals ----


def refused(folder: Path, code: int, part: str, *words: Any) -> None:
    done = run(folder, *words)
    lines = done.stderr.decode().splitlines()
    assert done.returncode == code and part in lines[-1], lines


def test_refusals(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    make_model(folder, "gpt2")
    np.save(tmp_path / "ids.npy", draw_ids(1, 5)[0])
    np.save(tmp_path / "far.npy", np.array([1, VOCABULARY]))
    config = json.loads((folder / "config.json").read_text())

    def with_config(code: int, part: str, **changes: Any) -> None:
        (folder / "config.json").write_text(json.dumps({**config, **changes}))
        refused(tmp_path, code, part, "info", "model")
        (folder / "config.json").write_text(json.dumps(config))

    with_config(4, "exact integer", n_layer=3.0)
    with_config(4, "outside 1 to 1024", n_layer=4096)
    with_config(4, "no multiple of", n_head=5)
    with_config(4, "holds no tensor", n_layer=4)
    with_config(4, "does not have the shape [61, 24]", n_embd=24)
    with_config(2, "is not known", model_type="mamba")
    with_config(2, "is not known", activation_function="mish")
    with_config(4, "between 0 and 1", layer_norm_epsilon=1)
    with_config(4, '"layer_norm_epsilon": must be above 0', layer_norm_epsilon=0)
    refused(tmp_path, 6, "no such folder or file", "info", "nothing")
    refused(tmp_path, 2, "vocabulary", "capture", "model", "--ids", "far.npy", "-o", "x.safetensors")
    refused(
        tmp_path,
        2,
        "no point",
        "capture",
        "model",
        "--ids",
        "ids.npy",
        "-o",
        "x.safetensors",
        "--points",
        "x",
    )
    refused(
        tmp_path,
        2,
        "not there",
        "capture",
        "model",
        "--ids",
        "ids.npy",
        "-o",
        "x.safetensors",
        "-m",
        "sparsemax@7",
    )
    refused(tmp_path, 2, "token by token", "generate", "model", "--ids", "ids.npy", "-m", "softmax/capped:2")
    slow = "ceta{temperature=.001,max_rounds=1}@1"
    refused(tmp_path, 3, "layer 1", "capture", "model", "--ids", "ids.npy", "-o", "x.safetensors", "-m", slow)
    assert not (tmp_path / "x.safetensors").exists()
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-4])
    refused(tmp_path, 4, "the file holds", "info", "model")


def test_refusals_about_rotary_positions(tmp_path: Path) -> None:
    make_model(tmp_path / "model", "llama 3")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())

    def with_rope(code: int, part: str, **changes: Any) -> None:
        rope = {name: value for name, value in {**config["rope_parameters"], **changes}.items() if value}
        path.write_text(json.dumps({**config, "rope_parameters": rope}))
        refused(tmp_path, code, part, "info", "model")

    with_rope(2, 'of type "ntk" are not known', rope_type="ntk")
    with_rope(2, '"high_freq_factor" in rope_parameters has no effect', rope_type="yarn")
    yarn = {"rope_type": "yarn", "low_freq_factor": None, "high_freq_factor": None}
    with_rope(4, '"beta_slow" and "beta_fast" must be positive and rise', **yarn, beta_fast=0.5)
    with_rope(4, '"truncate": must be true or false', **yarn, truncate=3)
    with_rope(4, '"attention_factor" must lie in 0 to 1000', **yarn, attention_factor=1001.0)
    with_rope(4, '"attention_factor": must be above 0', **yarn, attention_factor=-1.0)
    long = {"rope_type": "longrope", "low_freq_factor": None, "high_freq_factor": None}
    with_rope(4, '"short_factor": must be a list of numbers', **long)
    with_rope(
        4,
        '"long_factor": must be a list of numbers above 0',
        **long,
        short_factor=[1.0] * 16,
        long_factor=[0],
    )
    with_rope(4, "has another length than short_factor", **long, short_factor=[1.0] * 16, long_factor=[1.0])
    with_rope(
        4, "longrope has 3 divisors for 16 frequencies", **long, short_factor=[1.0] * 3, long_factor=[2.0] * 3
    )
    with_rope(4, '"factor" must lie in 1', factor=0.5)
    with_rope(4, '"factor" must lie in 1', factor=None)
    with_rope(4, "must be a number", low_freq_factor="x")
    with_rope(4, "must be positive and rise", high_freq_factor=1.0)
    with_rope(4, "must be positive and rise", low_freq_factor=None)
    with_rope(4, "original_max_position_embeddings", original_max_position_embeddings=-1)


def test_index_is_not_trusted(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    make_model(folder, "llama", max_shard_size="20KB")
    index = folder / "model.safetensors.index.json"
    tree = json.loads(index.read_text())
    name = next(iter(tree["weight_map"]))
    for file, code, part in (("../x", 4, "no name of a file"), ("none.safetensors", 6, "cannot be opened")):
        index.write_text(json.dumps({**tree, "weight_map": {**tree["weight_map"], name: file}}))
        refused(tmp_path, code, part, "info", "model")
    (folder / "link.safetensors").symlink_to(folder / tree["weight_map"][name])
    index.write_text(json.dumps({**tree, "weight_map": {**tree["weight_map"], name: "link.safetensors"}}))
    refused(tmp_path, 4, "symbolic link", "info", "model")
    save_file({"x": np.zeros(1, np.float32)}, folder / "extra.safetensors")
    index.write_text(json.dumps({**tree, "weight_map": {**tree["weight_map"], name: "extra.safetensors"}}))
    refused(tmp_path, 4, "does not hold it", "info", "model")


def test_one_is_no_plural_and_sizes_are_told(tmp_path: Path) -> None:
    make_model(tmp_path / "model", "gpt2")
    for count in (1, 2):
        np.save(tmp_path / "ids.npy", np.zeros(count, np.int64))
        words = ["capture", "model", "--ids", "ids.npy", "--points", "logits", "-f", "-o", "x.safetensors"]
        done = run(tmp_path, *words)
        size = load_file(tmp_path / "x.safetensors")["logits"].nbytes
        told = f"{size / 1e3:.1f} kB" if size >= 1000 else f"{size} bytes"
        assert done.stdout.decode() == f"x.safetensors: 1 tensor, {told}\n"
        assert f" of memory, 1 tensor of {told} to write\n" in done.stderr.decode()
        np.save(tmp_path / "ids.npy", np.zeros(count + 1, np.int64))
        told = run(tmp_path, "perplexity", "model", "--ids", "ids.npy").stdout.decode()
        assert f", {count} token{'s' * (count > 1)} in 1 window of {count + 1}, stride" in told
    done = run(tmp_path, "analyze", "model", "--ids", "ids.npy", "-o", "run")
    assert done.stdout.decode().startswith("1 window, 3 tokens, ")
    table = (tmp_path / "run" / "tables" / "table1.csv").read_text()
    assert "nan" not in table and "±" not in table
    assert " heads, width 48, 1 window of 3 tokens, " in done.stderr.decode()
    facts = answer(tmp_path, "info", "model")
    assert f"parameters   {facts['parameters']}, " in run(tmp_path, "info", "model").stdout.decode()


def test_refusals_about_text(tmp_path: Path) -> None:
    make_model(tmp_path / "model", "gpt2")
    np.save(tmp_path / "ids.npy", draw_ids(1, 5)[0])
    refused(tmp_path, 6, "", "perplexity", "model", "--text", "words")  # no tokenizer files
    demo = ROOT / "data" / "demo" / "model"
    for command, more in (("capture", ["-o", "x.safetensors"]), ("perplexity", []), ("generate", [])):
        refused(tmp_path, 2, "the text has no token (give", command, demo, "--text", "", *more)
    refused(tmp_path, 2, "the text has no token (give", "generate", demo, "--prompt", "")
    assert answer(tmp_path, "tokenize", demo, "--text", "")["ids"] == []
    np.save(tmp_path / "none.npy", np.zeros(0, np.int64))
    refused(tmp_path, 2, "ids 'none.npy' has no token (give", "perplexity", "model", "--ids", "none.npy")
    refused(tmp_path, 2, "two texts", "perplexity", "model", "--text", "words", "--ids", "ids.npy")
    refused(tmp_path, 2, "wanted 2 to 64", "perplexity", "model", "--ids", "ids.npy", "--context", 65)
    refused(tmp_path, 2, "larger than the context", "perplexity", "model", "--ids", "ids.npy", "--stride", 65)
    refused(tmp_path, 2, "do not fit", "generate", "model", "--ids", "ids.npy", "--tokens", 60)
