"""Families of models from gguf files: written from random checkpoints by the Python package gguf, with its
names of tensors and what its converter does to them, they give the numbers of the folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf_files
import numpy as np
import pytest
from model_families import VOCABULARY, make_model
from program import answer, run
from safetensors.numpy import load_file

gguf = pytest.importorskip("gguf")
pytest.importorskip("torch")

BOUND = 2e-6

# name of the format, whether queries and keys are stored in pairs (2k, 2k + 1)
FAMILIES = {
    "llama": ("llama", True),
    "qwen2": ("qwen2", False),
    "qwen3": ("qwen3", False),
    "phi3": ("phi3", False),
    "olmo2": ("olmo2", False),
    "smollm3": ("smollm3", True),
    "granite": ("granite", True),
    "gemma": ("gemma", False),
    "gemma2": ("gemma2", False),
    "gptj": ("gptj", False),
    "gpt_neox": ("gptneox", False),
    "bloom": ("bloom", False),
    "mixtral": ("llama", True),
    "qwen2_moe": ("qwen2moe", False),
    "qwen3_moe": ("qwen3moe", False),
    "gpt_oss": ("gpt-oss", False),
    "deepseek_v2": ("deepseek2", False),
    "deepseek_v3": ("deepseek2", False),
    "deepseek_v3_apart": ("deepseek2", False),
    "falcon": ("falcon", False),
    "falcon_groups": ("falcon", False),
    "t5": ("t5encoder", False),
    "t5_gated": ("t5encoder", False),
    "roberta": ("bert", False),
    "xlm-roberta": ("bert", False),
    "camembert": ("bert", False),
    "distilbert": ("bert", False),
    "modernbert": ("modern-bert", False),
}
# Their heads have no names in the format.
HEADLESS = ("t5", "t5_gated", "roberta", "xlm-roberta", "camembert", "distilbert", "modernbert")
ROBERTAS = ("roberta", "xlm-roberta", "camembert")


def pairs(matrix: np.ndarray, heads: int) -> np.ndarray:
    """Rows (k, k + half) of every head become (2k, 2k + 1)."""
    return matrix.reshape(heads, 2, -1, *matrix.shape[1:]).swapaxes(1, 2).reshape(matrix.shape)


def parted(matrix: np.ndarray, heads: int, groups: int) -> np.ndarray:
    """Rows of [groups][its queries, k, v] become q | k | v."""
    parts = matrix.reshape(groups, heads // groups + 2, -1, *matrix.shape[1:])
    rows = (parts[:, :-2], parts[:, -2], parts[:, -1])
    return np.concatenate([part.reshape(-1, *matrix.shape[1:]) for part in rows])


def key_heads(name: str, config: Any) -> int:
    if config.new_decoder_architecture:
        return config.num_kv_heads
    return 1 if config.multi_query else config.num_attention_heads


def converted(name: str, tensor: str, data: np.ndarray, config: Any) -> np.ndarray:
    heads = config.num_attention_heads
    if FAMILIES[name][1] and ".q_proj." in tensor:
        return pairs(data, heads)
    if FAMILIES[name][1] and ".k_proj." in tensor:
        return pairs(data, config.num_key_value_heads)
    if name.startswith("gemma") and tensor.endswith("norm.weight"):
        return data + np.float32(1)
    if ".query_key_value." in tensor:
        return parted(data, heads, key_heads(name, config) if name.startswith("falcon") else heads)
    if name in ROBERTAS and tensor.endswith("position_embeddings.weight"):
        return data[config.pad_token_id + 1 :]
    return data[0] if tensor.endswith(".shared_expert_gate.weight") else data


def tensors_of(name: str, model: Any, folder: Path) -> dict[str, np.ndarray]:
    """By the names that the file has them under."""
    config = model.config
    names = gguf.get_tensor_name_map(
        {word: arch for arch, word in gguf.MODEL_ARCH_NAMES.items()}[FAMILIES[name][0]],
        config.num_hidden_layers,
    )
    found: dict[str, np.ndarray] = {}
    experts: dict[str, dict[int, np.ndarray]] = {}
    for tensor, data in load_file(folder / "model.safetensors").items():
        if tensor.endswith("e_score_correction_bias"):
            found[f"blk.{tensor.split('.')[2]}.exp_probs_b.bias"] = data
        elif name.endswith("apart") and ".kv_b_proj." in tensor:
            layer, plain = tensor.split(".")[2], config.qk_nope_head_dim
            both = data.reshape(config.num_attention_heads, plain + config.v_head_dim, config.kv_lora_rank)
            found[f"blk.{layer}.attn_k_b.weight"] = np.ascontiguousarray(both[:, :plain].swapaxes(1, 2))
            found[f"blk.{layer}.attn_v_b.weight"] = np.ascontiguousarray(both[:, plain:])
        elif ".experts." in tensor and name.startswith(("mixtral", "qwen2_moe", "qwen3_moe", "deepseek")):
            before, after = tensor.split(".experts.")
            number, rest = after.split(".", 1)
            experts.setdefault(f"{before}.experts.{rest}", {})[int(number)] = data
        elif ".mlp.experts.gate_up_proj" in tensor:
            layer = tensor.split(".")[2]
            end = "bias" if tensor.endswith("bias") else "weight"
            for word, part in (("gate", data[..., ::2]), ("up", data[..., 1::2])):
                turned = part if end == "bias" else part.swapaxes(1, 2)
                found[f"blk.{layer}.ffn_{word}_exps.{end}"] = np.ascontiguousarray(turned)
        elif ".mlp.experts.down_proj" in tensor:
            layer = tensor.split(".")[2]
            if tensor.endswith("bias"):
                found[f"blk.{layer}.ffn_down_exps.bias"] = data
            else:
                found[f"blk.{layer}.ffn_down_exps.weight"] = np.ascontiguousarray(data.swapaxes(1, 2))
        else:
            inside = tensor.removeprefix("transformer.") if name == "bloom" else tensor
            for prefix in ("roberta.", "distilbert.", "model." if name == "modernbert" else "roberta."):
                inside = inside.removeprefix(prefix)
            if name in HEADLESS and inside.startswith(("lm_head", "vocab_", "head.", "decoder.")):
                continue
            word = names.get_name(inside, try_suffixes=(".weight", ".bias"))
            if word is None and tensor.endswith("self_attn.sinks"):
                word = f"blk.{tensor.split('.')[2]}.attn_sinks.weight"
            assert word is not None, tensor
            word = word if word.endswith((".weight", ".bias")) else f"{word}.weight"
            found[word] = np.ascontiguousarray(converted(name, tensor, data, config))
    for tensor, parts in experts.items():
        word = names.get_name(tensor, try_suffixes=(".weight",))
        found[word] = np.stack([parts[k] for k in range(len(parts))])
    return found


def add_latent(writer: Any, name: str, config: Any) -> None:
    """Files with matrices apart cache what is behind the norm, so their heads are as wide as that."""
    width, rotated = config.qk_nope_head_dim + config.qk_rope_head_dim, config.qk_rope_head_dim
    apart = name.endswith("apart")
    writer.add_head_count_kv(1 if apart else config.num_attention_heads)
    writer.add_key_length(config.kv_lora_rank + rotated if apart else width)
    writer.add_value_length(config.kv_lora_rank if apart else config.v_head_dim)
    if apart:
        writer.add_key_length_mla(width)
        writer.add_value_length_mla(config.v_head_dim)
    writer.add_rope_dimension_count(rotated)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_kv_lora_rank(config.kv_lora_rank)
    if config.q_lora_rank:
        writer.add_q_lora_rank(config.q_lora_rank)
    writer.add_leading_dense_block_count(config.first_k_dense_replace)
    writer.add_expert_count(getattr(config, "num_local_experts", 0) or config.n_routed_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_expert_shared_count(config.n_shared_experts)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    if name == "deepseek_v2":
        if config.topk_method == "group_limited_greedy":
            writer.add_expert_group_count(config.n_group)
            writer.add_expert_group_used_count(config.topk_group)
        return
    writer.add_expert_weights_norm(config.norm_topk_prob)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_expert_group_count(config.n_group)
    writer.add_expert_group_used_count(config.topk_group)


def write(path: Path, name: str, model: Any) -> None:
    config = model.config
    writer = gguf.GGUFWriter(path, FAMILIES[name][0])
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_embedding_length(config.hidden_size)
    before = config.pad_token_id + 1 if name in ROBERTAS else 0
    writer.add_context_length(getattr(config, "max_position_embeddings", 64) - before)
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    inner = next(
        (getattr(config, key)
         for key in ("intermediate_size", "ffn_hidden_size", "d_ff", "hidden_dim", "n_inner")
         if getattr(config, key, None)), 4 * config.hidden_size)  # fmt: skip
    writer.add_feed_forward_length(inner)
    if name.startswith("falcon"):
        writer.add_head_count_kv(key_heads(name, config))
        writer.add_tensor_data_layout("jploski")
    if name.startswith("t5"):
        writer.add_key_length(config.d_kv)
        writer.add_value_length(config.d_kv)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
        writer.add_layer_norm_rms_eps(config.layer_norm_epsilon)
        writer.add_relative_attn_buckets_count(config.relative_attention_num_buckets)
    elif name in ("gptj", "gpt_neox", "bloom", *ROBERTAS, "distilbert", "modernbert") or name.startswith(
        "falcon"
    ):
        found = (getattr(config, key, None) for key in ("layer_norm_epsilon", "norm_eps", "layer_norm_eps"))
        writer.add_layer_norm_eps(next((epsilon for epsilon in found if epsilon), 1e-12))
    elif name.startswith("deepseek"):
        add_latent(writer, name, config)
    else:
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_key_length(width)
        writer.add_value_length(width)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    rope = getattr(config, "rope_parameters", None)
    if name == "gptj":
        writer.add_rope_dimension_count(config.rotary_dim)
    if name in ROBERTAS:
        writer.add_token_type_count(config.type_vocab_size)
    if name == "modernbert" and rope:
        writer.add_sliding_window(config.local_attention)
        writer.add_sliding_window_pattern(config.global_attn_every_n_layers)
        writer.add_rope_freq_base(rope["full_attention"]["rope_theta"])
        writer.add_rope_freq_base_swa(rope["sliding_attention"]["rope_theta"])
        writer.add_causal_attention(False)
    elif rope:
        writer.add_rope_freq_base(rope["rope_theta"])
        if not name.startswith("deepseek"):
            writer.add_rope_dimension_count(int(width * rope.get("partial_rotary_factor", 1.0)))
        elif rope["rope_type"] == "yarn":
            writer.add_rope_scaling_yarn_log_mul(0.1 * rope["mscale_all_dim"])
        if rope["rope_type"] == "yarn":
            writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
            writer.add_rope_scaling_factor(rope["factor"])
            writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if name == "gpt_neox":
        writer.add_parallel_residual(config.use_parallel_residual)
    if name == "granite":
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_attention_scale(config.attention_multiplier)
        writer.add_logit_scale(config.logits_scaling)
    if name == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if name in ("gemma2", "gpt_oss") or (name == "phi3" and config.sliding_window):
        writer.add_sliding_window(config.sliding_window)
    if name in ("mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss"):
        writer.add_expert_count(config.num_experts if name == "qwen2_moe" else config.num_local_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
    if name in ("qwen2_moe", "qwen3_moe", "gpt_oss"):
        writer.add_expert_feed_forward_length(
            config.intermediate_size if name == "gpt_oss" else config.moe_intermediate_size
        )
    if name == "qwen2_moe":
        writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)
    for word, data in tensors_of(name, model, path.parent / "model").items():
        writer.add_tensor(word, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# What the format does not say of a family, and scalings that its files write otherwise.
SETTINGS: dict[str, dict[str, Any]] = {
    "qwen2": {"use_sliding_window": False},
    "qwen3": {"use_sliding_window": False},
    "smollm3": {"use_sliding_window": False, "no_rope_layer_interval": 4},
    "gemma": {"tie_word_embeddings": True},
    "gemma2": {"tie_word_embeddings": True, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0},
    "mixtral": {"sliding_window": None},
    "qwen2_moe": {
        "norm_topk_prob": False,
        "use_sliding_window": False,
        "qkv_bias": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    },
    "qwen3_moe": {"norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": []},
    "gpt_oss": {"swiglu_limit": 7.0, "swiglu_alpha": 1.702},
    "deepseek_v2": {"attention_bias": False, "mlp_bias": False, "q_lora_rank": None},
    "deepseek_v3": {"attention_bias": False, "rope_interleave": True, "q_lora_rank": 12},
    "deepseek_v3_apart": {"attention_bias": False, "rope_interleave": True},
    "falcon": {
        "new_decoder_architecture": False,
        "multi_query": True,
        "parallel_attn": True,
        "bias": False,
        "num_attention_heads": 4,
        "hidden_size": 32,
    },
    "falcon_groups": {
        "new_decoder_architecture": True,
        "num_kv_heads": 2,
        "num_attention_heads": 4,
        "hidden_size": 32,
        "bias": False,
    },
    "t5": {"feed_forward_proj": "relu", "relative_attention_max_distance": 128},
    "t5_gated": {"feed_forward_proj": "gated-gelu", "relative_attention_max_distance": 128},
    **{name: {"hidden_act": "gelu", "type_vocab_size": 1} for name in ROBERTAS},
    "distilbert": {"activation": "gelu"},
    "modernbert": {
        "attention_bias": False,
        "mlp_bias": False,
        "norm_bias": False,
        "hidden_activation": "gelu",
    },
}


@pytest.mark.parametrize("name", FAMILIES)
def test_family_from_gguf(tmp_path: Path, name: str) -> None:
    changes = dict(SETTINGS.get(name, {}))
    if name == "phi3":
        changes["rope_parameters"] = {
            "rope_type": "default",
            "rope_theta": 900.0,
            "partial_rotary_factor": 0.5,
        }
    elif name == "gpt_oss":
        changes["rope_parameters"] = {
            "rope_type": "yarn", "rope_theta": 900.0, "factor": 4.0, "original_max_position_embeddings": 32,
            "truncate": True,
        }  # fmt: skip
    elif name.startswith("deepseek"):
        changes["rope_parameters"] = {
            "rope_type": "yarn", "rope_theta": 900.0, "factor": 4.0, "original_max_position_embeddings": 32,
            "mscale": 0.7, "mscale_all_dim": 0.7,
        }  # fmt: skip
    elif name not in ("bloom", "gptj", "gpt_neox", *HEADLESS):
        changes["rope_parameters"] = {"rope_type": "default", "rope_theta": 900.0}
    if name == "gemma2":
        # The format says it by the number of layers alone.
        changes["query_pre_attn_scalar"] = 16
        changes["head_dim"] = 16
    family = {"falcon_groups": "falcon", "t5_gated": "t5", "deepseek_v3_apart": "deepseek_v3"}.get(name, name)
    model = make_model(tmp_path / "model", family, 3, **changes)
    write(tmp_path / "model.gguf", name, model)
    ids = np.random.default_rng(1).integers(3, VOCABULARY, size=(2, 33))
    np.save(tmp_path / "ids.npy", ids)
    found = []
    for at in ("model", "model.gguf"):
        points = "all" if name in HEADLESS else "all,logits"
        words = ("--ids", "ids.npy", "--points", points, "-f", "-o", "run.safetensors")
        answer(tmp_path, "capture", at, *words)
        found.append(load_file(tmp_path / "run.safetensors"))
    first, second = found
    assert set(first) == set(second)
    for point in first:
        # Pairs lie elsewhere in the heads of some.
        if FAMILIES[name][1] and ("hook_q" in point or "hook_k" in point or "hook_rot" in point):
            continue
        scale = np.abs(first[point][np.isfinite(first[point])]).max()
        both = np.isfinite(first[point]) & np.isfinite(second[point])
        assert np.array_equal(np.isfinite(first[point]), np.isfinite(second[point])), point
        assert (
            np.abs(first[point] - second[point], where=both, out=np.zeros_like(first[point])).max()
            <= BOUND * scale
        ), point


def test_longrope_from_gguf(tmp_path: Path) -> None:
    """Its two lists are tensors; a file without them is refused."""
    generator = np.random.default_rng(2)
    lists = {"short": generator.uniform(1, 3, 4), "long": generator.uniform(1, 9, 4)}
    rope = {
        "rope_type": "longrope",
        "rope_theta": 900.0,
        "short_factor": lists["short"].tolist(),
        "long_factor": lists["long"].tolist(),
        "attention_factor": 1.25,
    }
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "sliding_window": None}
    changes = {**sizes, "rope_parameters": rope, "original_max_position_embeddings": 16}
    model = make_model(tmp_path / "model", "phi3", 3, **changes)

    def write_with(
        tensors: dict[str, np.ndarray],
        kind: str | None = "longrope",
        context: int = 16,
        factors: tuple[float, ...] = (),
    ) -> None:
        config, writer = model.config, gguf.GGUFWriter(tmp_path / "model.gguf", "phi3")
        writer.add_block_count(config.num_hidden_layers)
        writer.add_head_count(4)
        writer.add_head_count_kv(2)
        writer.add_embedding_length(32)
        writer.add_context_length(config.max_position_embeddings)
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_rope_freq_base(900.0)
        writer.add_rope_dimension_count(8)
        if kind is not None:
            writer.add_string("phi3.rope.scaling.type", kind)
        for key, factor in zip(("scaling.factor", "scale_linear"), factors, strict=False):
            writer.add_float32(f"phi3.rope.{key}", factor)
        writer.add_rope_scaling_attn_factors(1.25 if kind in (None, "longrope") else 1.0)
        writer.add_rope_scaling_orig_ctx_len(context)
        for name, data in {**tensors_of("phi3", model, tmp_path / "model"), **tensors}.items():
            writer.add_tensor(name, data)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    np.save(tmp_path / "ids.npy", generator.integers(3, VOCABULARY, size=(1, 30)))
    words = ("--ids", "ids.npy", "--points", "logits", "-f", "-o", "run.safetensors")
    answer(tmp_path, "capture", "model", *words)
    wanted = load_file(tmp_path / "run.safetensors")["logits"]
    tensors = {f"rope_factors_{word}.weight": data.astype(np.float32) for word, data in lists.items()}
    # Converters write the lists and no type.
    for kind in ("longrope", None):
        write_with(tensors, kind, factors=(1.0, 1.0))
        answer(tmp_path, "capture", "model.gguf", *words)
        found = load_file(tmp_path / "run.safetensors")["logits"]
        assert np.abs(found - wanted).max() <= BOUND * np.abs(wanted).max(), kind

    def refuses(sentence: str, code: int = 4) -> None:
        done = run(tmp_path, "info", "model.gguf")
        assert done.returncode == code and sentence.encode() in done.stderr, (sentence, done)

    write_with({})
    refuses('holds no tensor "rope_factors_short.weight"')
    names = sorted(tensors)
    for kind in ("longrope", None):
        for name, other in (names, names[::-1]):
            write_with({name: tensors[name]}, kind)
            refuses(f'holds no tensor "{other}", and others that belong to it')
    for kind in ("linear", "none"):
        for given in ([names[0]], [names[1]], names):
            write_with({name: tensors[name] for name in given}, kind, factors=(2.0,))
            refuses(f'"{given[0]}" is a tensor that phi3 models')
    for kind in ("longrope", None):
        # It passed without a word; llama.cpp divides by it beside the lists.
        write_with(tensors, kind, factors=(2.0, 2.0))
        refuses('"phi3.rope.scaling.factor" is not 1 beside longrope', 2)
    write_with(tensors, None, 1)
    refuses('"original_max_position_embeddings" must lie in 2 to 1e9')


def test_latent_attention_without_half_of_its_matrices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model(tmp_path / "model", "deepseek_v3", 3, attention_bias=False)
    whole = tensors_of
    lack = lambda *given: {k: x for k, x in whole(*given).items() if k != "blk.1.attn_v_b.weight"}  # noqa: E731
    monkeypatch.setitem(globals(), "tensors_of", lack)
    write(tmp_path / "model.gguf", "deepseek_v3_apart", model)
    done = run(tmp_path, "info", "model.gguf")
    assert done.returncode in (4, 5) and b'neither "blk.1.attn_kv_b.weight" nor' in done.stderr, done


def rewrite(folder: Path, changes: dict[str, Any], tensors: dict[str, np.ndarray] | None = None) -> None:
    """model.gguf as new.gguf with other keys, of which ... takes one out, and other tensors."""
    pairs, whole = gguf_files.read(folder / "model.gguf")
    pairs = {key: value for key, value in {**pairs, **changes}.items() if value is not ...}
    parts = {
        name: ("F32", data.shape, data.astype("<f4").tobytes())
        for name, data in {**whole, **(tensors or {})}.items()
    }
    gguf_files.write(folder / "new.gguf", pairs, parts)


def states_of(folder: Path) -> np.ndarray:
    np.save(folder / "ids.npy", np.random.default_rng(1).integers(3, VOCABULARY, size=(1, 33)))
    words = ("--ids", "ids.npy", "--points", "ln_final.hook_normalized", "-f", "-o", "run.safetensors")
    answer(folder, "capture", "new.gguf", *words)
    return load_file(folder / "run.safetensors")["ln_final.hook_normalized"]


def test_windows_of_modernbert(tmp_path: Path) -> None:
    """In a window of one token each sees itself, whatever queries and keys are; and the base that a file does
    not say is llama.cpp's."""
    changes = {"num_hidden_layers": 2, "global_attn_every_n_layers": 2, "layer_types": None}
    model = make_model(tmp_path / "model", "modernbert", 3, **SETTINGS["modernbert"], **changes)
    write(tmp_path / "model.gguf", "modernbert", model)
    name, window = "blk.1.attn_qkv.weight", "modern-bert.attention.sliding_window"
    matrix = gguf_files.read(tmp_path / "model.gguf")[1][name].copy()
    matrix[: 2 * len(matrix) // 3] *= -0.5
    found = {}
    for size in (1, 3):
        for parts in ({}, {name: matrix}):
            rewrite(tmp_path, {window: size}, parts)
            found[size, len(parts)] = states_of(tmp_path)
    assert np.array_equal(found[1, 0], found[1, 1])
    assert np.abs(found[3, 0] - found[3, 1]).max() > 0.01 < np.abs(found[3, 0] - found[1, 0]).max()
    base = "modern-bert.rope.freq_base"
    rewrite(tmp_path, {base: ...})
    unsaid = states_of(tmp_path)
    rewrite(tmp_path, {base: 10000.0})
    assert np.array_equal(unsaid, states_of(tmp_path))


def test_yarn_of_latent_attention(tmp_path: Path) -> None:
    """What the file leaves out, programs of the format fill in otherwise than the model's class."""
    rope = {
        "rope_type": "yarn", "rope_theta": 900.0, "factor": 4.0, "original_max_position_embeddings": 32,
        "mscale": 0.7, "mscale_all_dim": 0.7,
    }  # fmt: skip
    changes = {**SETTINGS["deepseek_v3"], "rope_parameters": rope}
    model = make_model(tmp_path / "model", "deepseek_v3", 3, **changes)
    write(tmp_path / "model.gguf", "deepseek_v3", model)
    key = "deepseek2.rope.scaling."
    for value in (..., 0.0):
        rewrite(tmp_path, {f"{key}yarn_log_multiplier": value})
        done = run(tmp_path, "info", "new.gguf")
        assert done.returncode == 2 and b'yarn_log_multiplier" is missing or 0 beside yarn' in done.stderr
    rewrite(tmp_path, {f"{key}attn_factor": 0.5})
    done = run(tmp_path, "info", "new.gguf")
    assert done.returncode == 2 and b'"deepseek2.rope.scaling.attn_factor" is not 1' in done.stderr
    rewrite(tmp_path, {f"{key}attn_factor": 1.0})
    assert run(tmp_path, "info", "new.gguf").returncode == 0


def test_the_switch_of_granites_positions(tmp_path: Path) -> None:
    """llama.cpp takes a key of scalings for it."""
    model = make_model(tmp_path / "model", "granite", 3, attention_bias=False, mlp_bias=False)
    write(tmp_path / "model.gguf", "granite", model)
    for value, code in ((True, 0), (False, 2), (1, 2)):
        rewrite(tmp_path, {"granite.rope.scaling.finetuned": value})
        done = run(tmp_path, "info", "new.gguf")
        assert done.returncode == code, done.stderr
        assert code == 0 or b'"granite.rope.scaling.finetuned" is "' in done.stderr
