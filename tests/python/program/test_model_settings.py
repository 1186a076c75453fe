"""Settings of config.json: read as the classes of transformers read them, or refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from model_families import VOCABULARY, Settings, make_model, torch
from model_peers import expect_same
from program import answer, run
from safetensors.numpy import load_file, save_file


def test_rotary_numbers_that_would_pass_for_none(tmp_path: Path) -> None:
    """A 0 that is said is not one that is not said; an original context may be said twice, and differ."""
    longer = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "factor": 2.0}
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1}
    for name in ("llama", "phi3"):
        make_model(tmp_path / name, name, 1, **sizes, rope_parameters={"rope_theta": 90.0})
    for name, rope, outside, part in (
        ("llama", longer | {"factor": 0.0}, None, '"factor": must be above 0'),
        ("llama", longer | {"attention_factor": 0.0}, None, '"attention_factor": must be above 0'),
        ("llama", yarn | {"attention_factor": 0}, None, '"attention_factor": must be above 0'),
        ("llama", yarn | {"attention_factor": 1.0}, None, ""),
        ("llama", longer | {"original_max_position_embeddings": 1}, None, "must lie in 2 to 1e9"),
        ("phi3", longer | {"factor": None}, 1, "must lie in 2 to 1e9"),
        ("phi3", longer | {"original_max_position_embeddings": 32}, 48, "is 32 in the object"),
        ("phi3", longer | {"original_max_position_embeddings": 32}, None, "and 4096 outside of it"),
        ("phi3", longer | {"original_max_position_embeddings": 32}, 32, ""),
        ("phi3", longer, 32, ""),
    ):
        path = tmp_path / name / "config.json"
        settings = json.loads(path.read_text())
        settings.pop("original_max_position_embeddings", None)
        own = {} if outside is None else {"original_max_position_embeddings": outside}
        path.write_text(json.dumps(settings | {"rope_parameters": {"rope_theta": 90.0, **rope}} | own))
        done = run(tmp_path, "info", name)
        assert done.returncode == (4 if part else 0) and part in done.stderr.decode(), (rope, done)


def test_factors_that_would_pass_for_none(tmp_path: Path) -> None:
    """A factor of 0 was taken for 1 or for what is usual, and one below 0 like that."""
    for name in ("granite", "gemma2"):
        make_model(tmp_path / name, name, 1, rope_parameters={"rope_theta": 90.0})
    for name, key, number in (
        ("granite", "attention_multiplier", 0.0),
        ("granite", "attention_multiplier", -0.5),
        ("granite", "embedding_multiplier", 0),
        ("granite", "residual_multiplier", 0.0),
        ("granite", "logits_scaling", -1.0),
        ("granite", "rms_norm_eps", 0.0),
        ("gemma2", "attn_logit_softcapping", 0.0),
        ("gemma2", "final_logit_softcapping", -2.0),
    ):
        path = tmp_path / name / "config.json"
        settings = json.loads(path.read_text())
        path.write_text(json.dumps(settings | {key: number}))
        done = run(tmp_path, "info", name)
        path.write_text(json.dumps(settings))
        assert done.returncode == 4 and f'"{key}": must be above 0' in done.stderr.decode(), (key, done)


YARN = {"rope_type": "yarn", "rope_theta": 300.0, "factor": 4.0, "original_max_position_embeddings": 16}


SHORT = {"rope_type": "yarn", "rope_theta": 300.0, "factor": 4.0, "beta_fast": 3.3, "beta_slow": 0.4}


LINEAR = {"rope_type": "linear", "rope_theta": 300.0, "factor": 3.0}


FALCON = {"new_decoder_architecture": False, "num_kv_heads": None, "num_ln_in_parallel_attn": None}


# Settings of config.json that classes read in ways of their own.
READ: list[tuple[str, Settings]] = [
    ("gptj", {"rope_scaling": LINEAR}),
    ("gptj", {"rope_parameters": LINEAR}),
    ("deepseek_v2", {"head_dim": 2}),
    ("deepseek_v3", {"norm_topk_prob": None}),
    ("deepseek_v3", {"rope_interleave": None}),
    ("gpt_oss", {"rope_parameters": None}),
    ("gpt_oss", {"rope_parameters": {}}),
    ("gpt_oss", {"rope_parameters": None, "rope_scaling": LINEAR}),
    ("gpt_oss", {"rope_parameters": YARN | {"beta_fast": 1.7, "beta_slow": 0.2, "truncate": None}}),
    ("gpt_oss", {"rope_parameters": SHORT, "initial_context_length": 20}),
    ("mpnet", {"is_decoder": True}),
    ("distilbert", {"is_decoder": True}),
    ("t5", {"feed_forward_proj": "relu", "dense_act_fn": "silu", "is_gated_act": False}),
    ("t5", {"feed_forward_proj": "relu", "dense_act_fn": "tanh", "is_gated_act": True}),
    ("t5", {"feed_forward_proj": "gated-gelu", "dense_act_fn": "gelu", "is_gated_act": True}),
    ("t5", {"feed_forward_proj": "gated-gelu", "dense_act_fn": "relu", "is_gated_act": None}),
    ("gemma3", {"attn_logit_softcapping": 2.0}),
    ("falcon", FALCON | {"multi_query": None, "parallel_attn": True}),
    ("falcon", FALCON | {"multi_query": True, "parallel_attn": None}),
]


@pytest.mark.parametrize(("name", "changes"), READ, ids=[f"{n}-{k}" for k, (n, _) in enumerate(READ)])
def test_settings_are_read_as_the_class_reads_them(tmp_path: Path, name: str, changes: Settings) -> None:
    """The model is that of the file: a configuration made in Python may lose what the file says."""
    model = make_model(tmp_path / "model", name, 1)
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    kind = type(model)
    torch.manual_seed(3)
    config = kind.config_class.from_pretrained(tmp_path / "model")
    config._attn_implementation = "eager"
    again = kind(config).eval()
    with torch.no_grad():
        for parameter in again.parameters():
            matrices = 0.07 if name == "t5" else 0.15
            parameter.add_(torch.randn_like(parameter) * (matrices if parameter.dim() > 1 else 0.1))
    again.save_pretrained(tmp_path / "other")
    (tmp_path / "other" / "model.safetensors").replace(tmp_path / "model" / "model.safetensors")
    expect_same(tmp_path, again, np.random.default_rng(1).integers(3, VOCABULARY, size=(2, 33)))


def test_settings_that_no_class_runs_are_refused(tmp_path: Path) -> None:
    """Null is not true; a head of DeepSeek V3 is rotated as wide as it is."""
    for name, changes, part in (
        ("deepseek_v3", {"head_dim": 1}, b'"head_dim" is 1, and '),
        ("deepseek_v3", {"head_dim": 2}, b'"head_dim" is 2, and '),
        ("gpt_oss", {"swiglu_limit": 0}, b'"swiglu_limit": must be above 0'),
        ("gpt_neox", {"use_parallel_residual": None}, b'"use_parallel_residual": must be true or false'),
        ("opt", {"do_layer_norm_before": None}, b'"do_layer_norm_before": must be true or false'),
        ("t5", {"is_decoder": True}, b'"is_decoder" is true, and such models are not run'),
    ):
        if not (tmp_path / name).exists():
            make_model(tmp_path / name, name, 1)
        path = tmp_path / name / "config.json"
        settings = json.loads(path.read_text())
        path.write_text(json.dumps(settings | changes))
        done = run(tmp_path, "info", name)
        assert done.returncode in (2, 4, 5) and part in done.stderr, (name, changes, done)
        path.write_text(json.dumps(settings))


def test_buckets_that_are_none(tmp_path: Path) -> None:
    make_model(tmp_path / "model", "t5", 1)
    path = tmp_path / "model" / "config.json"
    settings = json.loads(path.read_text())
    for changes, part in (
        ({"relative_attention_num_buckets": 2}, b"outside 4 to 4096"),
        ({"relative_attention_max_distance": 1}, b"have buckets of their own"),
    ):
        path.write_text(json.dumps(settings | changes))
        done = run(tmp_path, "info", "model")
        assert done.returncode == 4 and part in done.stderr, done


def test_a_list_of_layers_holds_over_layers_without_positions(tmp_path: Path) -> None:
    """SmolLM 3: a list that names no local layer holds; without one, layers without positions are local."""
    changes = {"use_sliding_window": True, "sliding_window": 5, "layer_types": ["full_attention"] * 4}
    model = make_model(tmp_path / "model", "smollm3", 1, **changes)
    ids = np.random.default_rng(1).integers(3, VOCABULARY, size=(1, 30))
    expect_same(tmp_path, model, ids)


def test_deepseek_that_is_refused(tmp_path: Path) -> None:
    """Settings that are run otherwise or not at all; layers that predict further tokens are left alone."""
    for name in ("deepseek_v2", "deepseek_v3"):
        method = "group_limited_greedy" if name == "deepseek_v2" else "noaux_tc"
        make_model(tmp_path / name, name, 1, topk_method=method)
    settings = json.loads((tmp_path / "deepseek_v2" / "config.json").read_text())
    linear = {"rope_type": "linear", "rope_theta": 100.0, "factor": 2.0}
    for changes, part in (
        ({"moe_layer_freq": 2}, b'"moe_layer_freq" is 2'),
        ({"norm_topk_prob": True}, b'"norm_topk_prob" is true'),
        ({"topk_method": "noaux_tc"}, b"must be greedy or group_limited_greedy"),
        ({"topk_group": settings["n_group"] + 1}, b"do not come from"),
        ({"n_routed_experts": 3 * settings["n_group"] + 1}, b"do not come from"),
        ({"num_key_value_heads": 1}, b"as many key heads as heads"),
        ({"rope_parameters": linear}, b"otherwise than by yarn"),
        ({"kv_lora_rank": settings["kv_lora_rank"] + 1}, b"does not have the shape"),
    ):
        (tmp_path / "deepseek_v2" / "config.json").write_text(json.dumps(settings | changes))
        done = run(tmp_path, "info", "deepseek_v2")
        assert done.returncode in (2, 4, 5) and part in done.stderr, done
    path = tmp_path / "deepseek_v3" / "model.safetensors"
    tensors = load_file(path)
    further = {name.replace(".2.", ".3."): x for name, x in tensors.items() if ".layers.2." in name}
    save_file(tensors | further | {"model.layers.3.eh_proj.weight": np.zeros((2, 2), np.float32)}, path)
    settings = json.loads((tmp_path / "deepseek_v3" / "config.json").read_text())
    (tmp_path / "deepseek_v3" / "config.json").write_text(
        json.dumps(settings | {"num_nextn_predict_layers": 1})
    )
    assert answer(tmp_path, "info", "deepseek_v3")["layers"] == 3
    (tmp_path / "deepseek_v3" / "config.json").write_text(
        json.dumps(settings | {"num_nextn_predict_layers": 0})
    )
    assert b"models of 3 layers do not have" in run(tmp_path, "info", "deepseek_v3").stderr
