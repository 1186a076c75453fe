"""Families of models: hidden states, weights, logits and greedy words against transformers, on small random
checkpoints whose configurations are drawn over their options.

Bounds: hidden states, weights and logits within 2e-5 of their largest value."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from program import answer, run
from safetensors.numpy import load_file, save_file
from test_models import distance, peer_run

os.environ["HF_HUB_OFFLINE"] = "1"
torch = pytest.importorskip("torch")
safetensors_torch = pytest.importorskip("safetensors.torch")
transformers = pytest.importorskip("transformers")

BOUND = 2e-5
VOCABULARY = 53
POSITIONS = 64

Settings = dict[str, Any]


class Family(NamedTuple):
    config: str
    model: str
    draw: Callable[[np.random.Generator], Settings]
    causal: bool = True


def pick(generator: np.random.Generator, *choices: Any) -> Any:
    return choices[int(generator.integers(len(choices)))]


def truth(generator: np.random.Generator) -> bool:
    return bool(generator.integers(2))


def scaled_rope(generator: np.random.Generator, width: int) -> Settings:
    """Rotary positions of a drawn kind; `width` numbers of a head are rotated."""
    kind = pick(generator, "default", "linear", "llama3", "yarn", "longrope", "dynamic")
    rope: Settings = {"rope_type": kind, "rope_theta": float(generator.uniform(100, 1e5))}
    if kind in ("linear", "dynamic"):
        rope |= {"factor": float(generator.uniform(1, 8))}
    elif kind == "llama3":
        rope |= {
            "factor": float(generator.uniform(1, 16)),
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": int(generator.integers(16, 400)),
        }
    elif kind == "yarn":
        rope |= {
            "factor": float(generator.uniform(1, 16)),
            "original_max_position_embeddings": int(generator.integers(16, 400)),
        }
        if truth(generator):
            rope |= {
                "beta_fast": float(generator.uniform(8, 40)),
                "beta_slow": float(generator.uniform(0.5, 4)),
            }
        if truth(generator):
            rope |= {"attention_factor": float(generator.uniform(0.5, 1.5))}
        elif truth(generator):
            rope |= {
                "mscale": float(generator.uniform(0.5, 2)),
                "mscale_all_dim": float(generator.uniform(0.5, 2)),
            }
    elif kind == "longrope":
        rope |= {
            "factor": float(generator.uniform(1, 8)),
            "original_max_position_embeddings": pick(generator, 16, 48),
            "short_factor": generator.uniform(1, 3, width // 2).tolist(),
            "long_factor": generator.uniform(1, 9, width // 2).tolist(),
        }
    return rope


def llama_like(generator: np.random.Generator, **more: Any) -> Settings:
    heads = pick(generator, 2, 4, 6)
    width = pick(generator, 8, 16)
    return {
        "num_hidden_layers": pick(generator, 2, 3),
        "num_attention_heads": heads,
        "num_key_value_heads": pick(generator, 1, 2, heads),
        "hidden_size": heads * width,
        "intermediate_size": pick(generator, 24, 40),
        "max_position_embeddings": POSITIONS,
        "tie_word_embeddings": truth(generator),
        "rms_norm_eps": pick(generator, 1e-6, 1e-4),
        "rope_parameters": scaled_rope(generator, width),
        **more,
    }


def draw_mistral(generator: np.random.Generator) -> Settings:
    settings = llama_like(generator, sliding_window=pick(generator, None, 1, 7, 100))
    if truth(generator):
        settings["head_dim"] = settings["hidden_size"] // settings["num_attention_heads"]
    return settings


def draw_qwen2(generator: np.random.Generator) -> Settings:
    return llama_like(
        generator,
        use_sliding_window=truth(generator),
        sliding_window=pick(generator, 5, 20),
        max_window_layers=pick(generator, 0, 1, 2),
    )


def draw_qwen3(generator: np.random.Generator) -> Settings:
    settings = draw_qwen2(generator) | {
        "attention_bias": truth(generator),
        "head_dim": pick(generator, 8, 24),
    }
    return settings | {"rope_parameters": scaled_rope(generator, settings["head_dim"])}


def draw_phi3(generator: np.random.Generator) -> Settings:
    settings = llama_like(generator, sliding_window=pick(generator, None, 9), pad_token_id=0)
    width = settings["hidden_size"] // settings["num_attention_heads"]
    share = pick(generator, 0.5, 1.0)
    rope: Settings = {"rope_type": "default", "rope_theta": 1000.0, "partial_rotary_factor": share}
    if truth(generator):
        pairs = int(width * share) // 2
        rope |= {
            "rope_type": "longrope",
            "short_factor": generator.uniform(1, 3, pairs).tolist(),
            "long_factor": generator.uniform(1, 9, pairs).tolist(),
        }
    return settings | {"rope_parameters": rope, "original_max_position_embeddings": pick(generator, 16, 48)}


def draw_olmo2(generator: np.random.Generator) -> Settings:
    return llama_like(generator, attention_bias=truth(generator))


def draw_smollm3(generator: np.random.Generator) -> Settings:
    return llama_like(
        generator,
        num_hidden_layers=4,
        attention_bias=truth(generator),
        mlp_bias=truth(generator),
        use_sliding_window=truth(generator),
        sliding_window=pick(generator, 5, 20),
        no_rope_layer_interval=pick(generator, 2, 4),
        pad_token_id=0,
    )


def draw_granite(generator: np.random.Generator) -> Settings:
    return llama_like(
        generator,
        attention_bias=truth(generator),
        mlp_bias=truth(generator),
        embedding_multiplier=float(generator.uniform(0.5, 4)),
        logits_scaling=float(generator.uniform(0.5, 4)),
        residual_multiplier=float(generator.uniform(0.3, 1)),
        attention_multiplier=float(generator.uniform(0.1, 1)),
    )


def draw_gemma(generator: np.random.Generator) -> Settings:
    settings = llama_like(generator, head_dim=pick(generator, 8, 16), attention_bias=truth(generator))
    return settings | {
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0},
        "hidden_act": pick(generator, "gelu", "gelu_pytorch_tanh"),
    }


def draw_gemma2(generator: np.random.Generator) -> Settings:
    settings = draw_gemma(generator)
    settings.pop("hidden_act")
    return settings | {
        "query_pre_attn_scalar": pick(generator, 16, 30),
        "sliding_window": pick(generator, 5, 20),
        "attn_logit_softcapping": pick(generator, None, 5.0),
        "final_logit_softcapping": pick(generator, None, 3.0),
    }


def draw_gemma3(generator: np.random.Generator) -> Settings:
    settings = draw_gemma(generator)
    settings |= {
        "hidden_activation": settings.pop("hidden_act"),
        "query_pre_attn_scalar": pick(generator, 8, 40),
    }
    theta = float(generator.uniform(100, 1e5))
    return settings | {
        "sliding_window": pick(generator, 1, 7, 100),
        "sliding_window_pattern": pick(generator, 1, 2, 3),
        "final_logit_softcapping": pick(generator, None, 3.0),
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": theta},
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
        },
    }


def gpt_like(generator: np.random.Generator, **more: Any) -> Settings:
    heads, width = pick(generator, 2, 3, 6), pick(generator, 8, 16)
    return {
        "num_hidden_layers": pick(generator, 2, 3),
        "num_attention_heads": heads,
        "hidden_size": heads * width,
        "tie_word_embeddings": truth(generator),
        **more,
    }


def draw_gpt_neo(generator: np.random.Generator) -> Settings:
    settings = gpt_like(generator, num_hidden_layers=4)
    kinds = pick(generator, [[["global", "local"], 2]], [[["global"], 1], [["local", "global", "local"], 1]])
    return {
        "num_layers": 4,
        "num_heads": settings["num_attention_heads"],
        "hidden_size": settings["hidden_size"],
        "attention_types": kinds,
        "window_size": pick(generator, 1, 7, 20),
        "max_position_embeddings": POSITIONS,
        "intermediate_size": pick(generator, None, 40),
        "tie_word_embeddings": settings["tie_word_embeddings"],
    }


def draw_gptj(generator: np.random.Generator) -> Settings:
    settings = gpt_like(generator)
    width = settings["hidden_size"] // settings["num_attention_heads"]
    return {
        "n_layer": settings["num_hidden_layers"],
        "n_head": settings["num_attention_heads"],
        "n_embd": settings["hidden_size"],
        "n_positions": POSITIONS,
        "rotary_dim": pick(generator, 4, width),
        "n_inner": pick(generator, None, 40),
    }


def draw_gpt_neox(generator: np.random.Generator) -> Settings:
    share = pick(generator, 0.25, 0.5, 1.0)
    return gpt_like(
        generator,
        intermediate_size=pick(generator, 24, 40),
        max_position_embeddings=POSITIONS,
        use_parallel_residual=truth(generator),
        attention_bias=truth(generator),
        hidden_act=pick(generator, "gelu", "gelu_fast"),
        rope_parameters={"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": share},
    )


def draw_opt(generator: np.random.Generator) -> Settings:
    return gpt_like(
        generator,
        ffn_dim=pick(generator, 24, 40),
        max_position_embeddings=POSITIONS,
        do_layer_norm_before=truth(generator),
        word_embed_proj_dim=pick(generator, None, 5),
        enable_bias=truth(generator),
        pad_token_id=1,
        activation_function=pick(generator, "relu", "gelu"),
    )


def draw_bloom(generator: np.random.Generator) -> Settings:
    settings = gpt_like(generator)
    return {
        "n_layer": settings["num_hidden_layers"],
        "n_head": settings["num_attention_heads"],
        "hidden_size": settings["hidden_size"],
    }


def draw_falcon(generator: np.random.Generator) -> Settings:
    settings = gpt_like(
        generator,
        max_position_embeddings=POSITIONS,
        multi_query=truth(generator),
        parallel_attn=truth(generator),
        new_decoder_architecture=truth(generator),
        bias=truth(generator),
        ffn_hidden_size=pick(generator, 24, 40),
        rope_parameters={"rope_type": "default", "rope_theta": 300.0},
    )
    if settings["new_decoder_architecture"]:
        settings["parallel_attn"] = True
        settings["num_kv_heads"] = pick(generator, 1, settings["num_attention_heads"])
        settings["num_ln_in_parallel_attn"] = pick(generator, None, 1, 2)
    return settings


def bert_like(generator: np.random.Generator, **more: Any) -> Settings:
    settings = gpt_like(generator)
    return settings | {
        "intermediate_size": pick(generator, 24, 40),
        "max_position_embeddings": POSITIONS,
        "hidden_act": pick(generator, "gelu", "relu"),
        "tie_word_embeddings": True,
        **more,
    }


def draw_roberta(generator: np.random.Generator) -> Settings:
    return bert_like(generator, pad_token_id=pick(generator, 0, 1), type_vocab_size=pick(generator, 1, 2))


def draw_electra(generator: np.random.Generator) -> Settings:
    settings = bert_like(generator, type_vocab_size=pick(generator, 1, 2), pad_token_id=0)
    return settings | {"embedding_size": pick(generator, 5, settings["hidden_size"])}


def draw_distilbert(generator: np.random.Generator) -> Settings:
    settings = gpt_like(generator)
    return {
        "n_layers": settings["num_hidden_layers"],
        "n_heads": settings["num_attention_heads"],
        "dim": settings["hidden_size"],
        "hidden_dim": pick(generator, 24, 40),
        "max_position_embeddings": POSITIONS,
        "activation": pick(generator, "gelu", "relu"),
    }


def draw_modernbert(generator: np.random.Generator) -> Settings:
    settings = bert_like(generator, num_hidden_layers=4, pad_token_id=0)
    settings.pop("hidden_act")
    return settings | {
        "local_attention": pick(generator, 6, 11, 20),
        "global_attn_every_n_layers": pick(generator, 2, 3),
        "attention_bias": truth(generator),
        "mlp_bias": truth(generator),
        "norm_bias": truth(generator),
        "classifier_bias": truth(generator),
        "classifier_activation": pick(generator, "gelu", "relu"),
        "hidden_activation": pick(generator, "gelu", "gelu_pytorch_tanh"),
    }


def draw_mixtral(generator: np.random.Generator) -> Settings:
    experts = pick(generator, 1, 3, 5)
    settings = llama_like(
        generator,
        num_local_experts=experts,
        num_experts_per_tok=pick(generator, 1, min(2, experts), experts),
        sliding_window=pick(generator, None, 7),
    )
    # Without it, the class cannot make yarn's frequencies.
    return settings | {"head_dim": settings["hidden_size"] // settings["num_attention_heads"]}


def some_dense_layers(generator: np.random.Generator) -> Settings:
    return {
        "num_hidden_layers": 4,
        "decoder_sparse_step": pick(generator, 1, 2),
        "mlp_only_layers": pick(generator, [], [0], [1, 3], [2]),
    }


def draw_qwen2_moe(generator: np.random.Generator) -> Settings:
    settings = draw_qwen2(generator) | some_dense_layers(generator)
    return settings | {
        "num_experts": pick(generator, 2, 6),
        "num_experts_per_tok": pick(generator, 1, 2),
        "moe_intermediate_size": pick(generator, 8, 48),
        "shared_expert_intermediate_size": pick(generator, 16, 56),
        "norm_topk_prob": truth(generator),
        "qkv_bias": truth(generator),
    }


def draw_qwen3_moe(generator: np.random.Generator) -> Settings:
    experts = pick(generator, 2, 6)
    settings = llama_like(
        generator,
        num_experts=experts,
        num_experts_per_tok=pick(generator, 1, 2),
        moe_intermediate_size=pick(generator, 8, 48),
        norm_topk_prob=truth(generator),
        attention_bias=truth(generator),
    )
    return settings | some_dense_layers(generator)


def draw_deepseek(generator: np.random.Generator, **more: Any) -> Settings:
    heads, groups = pick(generator, 2, 4), pick(generator, 2, 4)
    rope: Settings = {"rope_type": "default", "rope_theta": float(generator.uniform(100, 1e5))}
    if truth(generator):
        rope |= {"rope_type": "yarn", "factor": float(generator.uniform(1, 16))}
        rope |= {"original_max_position_embeddings": int(generator.integers(16, 400))}
        if truth(generator):
            rope |= {"mscale": float(generator.uniform(0.5, 2))}
            rope |= {"mscale_all_dim": float(generator.uniform(0.5, 2))}
    return {
        "num_hidden_layers": 3,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "hidden_size": heads * pick(generator, 8, 16),
        "intermediate_size": pick(generator, 24, 40),
        "max_position_embeddings": POSITIONS,
        "tie_word_embeddings": truth(generator),
        "rms_norm_eps": pick(generator, 1e-6, 1e-4),
        "rope_parameters": rope,
        "q_lora_rank": pick(generator, None, 12, 70),
        "kv_lora_rank": pick(generator, 8, 20),
        "qk_nope_head_dim": pick(generator, 6, 16),
        "qk_rope_head_dim": pick(generator, 4, 8),
        "v_head_dim": pick(generator, 5, 8, 40),
        "attention_bias": truth(generator),
        "first_k_dense_replace": pick(generator, 0, 1, 2),
        "n_routed_experts": 3 * groups,
        "n_group": groups,
        "topk_group": pick(generator, 1, 2),
        "num_experts_per_tok": pick(generator, 1, 3),
        "n_shared_experts": pick(generator, 1, 2),
        "moe_intermediate_size": pick(generator, 8, 24),
        "routed_scaling_factor": float(generator.uniform(0.5, 3)),
        **more,
    }


def draw_deepseek_v2(generator: np.random.Generator) -> Settings:
    method = pick(generator, "greedy", "group_limited_greedy")
    return draw_deepseek(generator, topk_method=method, mlp_bias=truth(generator))


def draw_deepseek_v3(generator: np.random.Generator) -> Settings:
    return draw_deepseek(generator, norm_topk_prob=truth(generator), rope_interleave=truth(generator))


def draw_gpt_oss(generator: np.random.Generator) -> Settings:
    experts = pick(generator, 2, 5)
    return llama_like(
        generator,
        num_hidden_layers=2,
        head_dim=pick(generator, 8, 16),
        num_local_experts=experts,
        num_experts_per_tok=pick(generator, 1, 2),
        sliding_window=pick(generator, 5, 20),
        swiglu_limit=pick(generator, 0.5, 7.0),
        swiglu_alpha=pick(generator, 1.702, 1.0),
        rope_parameters={
            "rope_type": "yarn",
            "rope_theta": 1500.0,
            "factor": 4.0,
            "original_max_position_embeddings": 32,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "truncate": truth(generator),
        },
    )


def draw_mpnet(generator: np.random.Generator) -> Settings:
    return bert_like(generator, pad_token_id=1)


def draw_t5(generator: np.random.Generator) -> Settings:
    heads = pick(generator, 2, 3)
    return {
        "num_layers": pick(generator, 2, 3),
        "num_heads": heads,
        "d_kv": pick(generator, 4, 8),
        "d_model": pick(generator, 16, 24),
        "d_ff": pick(generator, 24, 40),
        "relative_attention_num_buckets": pick(generator, 8, 32),
        "relative_attention_max_distance": pick(generator, 20, 128),
        "feed_forward_proj": pick(generator, "relu", "gated-gelu", "gated-silu"),
        "pad_token_id": 0,
    }


FAMILIES = {
    "llama": Family("LlamaConfig", "LlamaForCausalLM", llama_like),
    "mistral": Family("MistralConfig", "MistralForCausalLM", draw_mistral),
    "qwen2": Family("Qwen2Config", "Qwen2ForCausalLM", draw_qwen2),
    "qwen3": Family("Qwen3Config", "Qwen3ForCausalLM", draw_qwen3),
    "phi3": Family("Phi3Config", "Phi3ForCausalLM", draw_phi3),
    "olmo2": Family("Olmo2Config", "Olmo2ForCausalLM", draw_olmo2),
    "smollm3": Family("SmolLM3Config", "SmolLM3ForCausalLM", draw_smollm3),
    "granite": Family("GraniteConfig", "GraniteForCausalLM", draw_granite),
    "gemma": Family("GemmaConfig", "GemmaForCausalLM", draw_gemma),
    "gpt_neo": Family("GPTNeoConfig", "GPTNeoForCausalLM", draw_gpt_neo),
    "gptj": Family("GPTJConfig", "GPTJForCausalLM", draw_gptj),
    "gpt_neox": Family("GPTNeoXConfig", "GPTNeoXForCausalLM", draw_gpt_neox),
    "opt": Family("OPTConfig", "OPTForCausalLM", draw_opt),
    "bloom": Family("BloomConfig", "BloomForCausalLM", draw_bloom),
    "falcon": Family("FalconConfig", "FalconForCausalLM", draw_falcon),
    "roberta": Family("RobertaConfig", "RobertaForMaskedLM", draw_roberta, False),
    "xlm-roberta": Family("XLMRobertaConfig", "XLMRobertaForMaskedLM", draw_roberta, False),
    "camembert": Family("CamembertConfig", "CamembertForMaskedLM", draw_roberta, False),
    "electra": Family("ElectraConfig", "ElectraForMaskedLM", draw_electra, False),
    "distilbert": Family("DistilBertConfig", "DistilBertForMaskedLM", draw_distilbert, False),
    "modernbert": Family("ModernBertConfig", "ModernBertForMaskedLM", draw_modernbert, False),
    "mixtral": Family("MixtralConfig", "MixtralForCausalLM", draw_mixtral),
    "qwen2_moe": Family("Qwen2MoeConfig", "Qwen2MoeForCausalLM", draw_qwen2_moe),
    "qwen3_moe": Family("Qwen3MoeConfig", "Qwen3MoeForCausalLM", draw_qwen3_moe),
    "deepseek_v2": Family("DeepseekV2Config", "DeepseekV2ForCausalLM", draw_deepseek_v2),
    "deepseek_v3": Family("DeepseekV3Config", "DeepseekV3ForCausalLM", draw_deepseek_v3),
    "gpt_oss": Family("GptOssConfig", "GptOssForCausalLM", draw_gpt_oss),
    "mpnet": Family("MPNetConfig", "MPNetForMaskedLM", draw_mpnet, False),
    "t5": Family("T5Config", "T5EncoderModel", draw_t5, False),
    "gemma2": Family("Gemma2Config", "Gemma2ForCausalLM", draw_gemma2),
    "gemma3": Family("Gemma3TextConfig", "Gemma3ForCausalLM", draw_gemma3),
}


def draw_model(name: str, seed: int, **changes: Any) -> Any:
    """A random model, its weights large enough that every part matters."""
    family = FAMILIES[name]
    settings = family.draw(np.random.default_rng([seed, *name.encode()])) | changes
    torch.manual_seed(seed)
    config = getattr(transformers, family.config)(vocab_size=VOCABULARY, **{"pad_token_id": None} | settings)
    config._attn_implementation = "eager"
    model = getattr(transformers, family.model)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            # The scores of GPT-Neo and T5 are not divided by anything, and large ones are ill-conditioned.
            matrices = 0.07 if name in ("gpt_neo", "t5") else 0.15
            parameter.add_(torch.randn_like(parameter) * (matrices if parameter.dim() > 1 else 0.1))
        for word, buffer in model.named_buffers():
            if word.endswith("e_score_correction_bias"):
                buffer.add_(torch.randn_like(buffer) * 0.1)
    return model


def make_model(folder: Path, name: str, seed: int, **changes: Any) -> Any:
    model = draw_model(name, seed, **changes)
    model.save_pretrained(folder)
    return model


def save_drawn(folder: Path, model: Any, generator: np.random.Generator) -> None:
    """In a drawn type, whose numbers the model then has itself, and in one file or several."""
    kind = pick(generator, torch.float32, torch.float16, torch.bfloat16, torch.float64)
    shards = kind == torch.float32 or truth(generator)
    state = model.state_dict()
    model.load_state_dict(
        {name: x.to(kind).to(x.dtype) if x.is_floating_point() else x for name, x in state.items()}
    )
    model.save_pretrained(folder, max_shard_size="8KB" if shards else "1GB")
    paths = list(folder.glob("*.safetensors"))
    assert (len(paths) > 1) == shards
    for path in paths:
        tensors = safetensors_torch.load_file(path)
        kept = {name: x.to(kind) if x.is_floating_point() else x for name, x in tensors.items()}
        safetensors_torch.save_file(kept, path)
    types = answer(folder.parent, "info", folder.name)["types"]
    assert list(types) == [
        {"float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16"}[str(kind)[6:]]
    ]


def expect_same(folder: Path, model: Any, ids: np.ndarray, lengths: np.ndarray | None = None) -> None:
    words = []
    if lengths is not None:
        np.save(folder / "lengths.npy", lengths)
        words = ["--lengths", "lengths.npy"]
    np.save(folder / "ids.npy", ids)
    peer = peer_run(model, ids, lengths)
    points = "all,logits" if hasattr(peer, "logits") else "all"
    out = ("-f", "-o", "run.safetensors")
    answer(folder, "capture", "model", "--ids", "ids.npy", "--points", points, *out, *words)
    ours = load_file(folder / "run.safetensors")
    rows = None if lengths is None else np.arange(ids.shape[1])[None] < lengths[:, None]
    layers = len(peer.attentions)
    if "blocks.0.hook_normalized_resid_post" in ours:
        names = [
            "blocks.0.hook_resid_pre",
            *(f"blocks.{k}.hook_normalized_resid_post" for k in range(layers)),
        ]
    else:
        names = [f"blocks.{k}.hook_resid_pre" for k in range(layers)]
    if "ln_final.hook_normalized" in ours:
        names.append("ln_final.hook_normalized")
    for layer, state in enumerate(names):
        # The last ones of OPT with narrow embeddings are as narrow.
        if ours[state].shape != peer.hidden_states[layer].shape:
            continue
        assert distance(ours[state], peer.hidden_states[layer], rows) <= BOUND, state
    for layer in range(layers):
        pattern = np.moveaxis(ours[f"blocks.{layer}.attn.hook_pattern"], 1, 2)
        assert distance(pattern, peer.attentions[layer].transpose(1, 2), rows) <= BOUND, layer
    if hasattr(peer, "logits"):
        assert distance(ours["logits"], peer.logits, rows) <= BOUND


def expect_same_words(folder: Path, model: Any, prompt: np.ndarray) -> None:
    """Word for word from a cache, as the peer's: longrope turns to other divisors at its original context."""
    np.save(folder / "ids.npy", prompt)
    ours = answer(folder, "generate", "model", "--ids", "ids.npy", "--tokens", 12)["ids"]
    given, past = torch.tensor(prompt[None]), None
    for token in ours:
        with torch.no_grad():
            found = model(given, past_key_values=past, use_cache=True)
        past, logits = found.past_key_values, found.logits[0, -1]
        # A tie within rounding may go either way.
        assert float(logits.max() - logits[token]) <= BOUND * float(logits.abs().max())
        given = torch.tensor([[token]])


@pytest.mark.parametrize("seed", range(int(os.environ.get("OTATTN_FAMILY_SEEDS", "1"))))
@pytest.mark.parametrize("name", FAMILIES)
def test_family(tmp_path: Path, name: str, seed: int) -> None:
    model = draw_model(name, seed)
    save_drawn(tmp_path / "model", model, np.random.default_rng([seed, *name.encode(), 1]))
    generator = np.random.default_rng(seed)
    ids = generator.integers(3, VOCABULARY, size=(2, 33))
    expect_same(tmp_path, model, ids)
    expect_same(tmp_path, model, ids[:, :20], np.array([20, 7]))
    if FAMILIES[name].causal:
        expect_same_words(tmp_path, model, ids[0, :9])


@pytest.mark.parametrize("name", FAMILIES)
def test_family_is_analyzed(tmp_path: Path, name: str) -> None:
    """Gemma 2, whose logits are capped, was refused. ELECTRA's embeddings may be narrower than its states."""
    changes = {"final_logit_softcapping": 3.0} if name == "gemma2" else {}
    make_model(tmp_path / "model", name, 1, **changes)
    np.save(tmp_path / "ids.npy", np.random.default_rng(0).integers(3, VOCABULARY - 5, size=64))
    done = run(tmp_path, "analyze", "model", "--ids", "ids.npy", "--windows", "2x16", "-o", "found")
    narrow = name == "electra" and b"rows of the probe are narrower than states" in done.stderr
    assert done.returncode == 0 or narrow, done.stderr
    assert narrow or json.loads((tmp_path / "found" / "metrics.json").read_text())


@pytest.mark.parametrize("name", ["mixtral", "gpt_oss"])
def test_experts_that_are_no_numbers(tmp_path: Path, name: str) -> None:
    """Weights of experts are looked at like all others; those in one tensor are found within it."""
    make_model(tmp_path / "model", name, 1)
    path = tmp_path / "model" / "model.safetensors"
    tensors = load_file(path)
    last = sorted(tensor for tensor in tensors if ".experts." in tensor and "bias" not in tensor)[-1]
    tensors[last].reshape(-1)[-1] = np.nan
    save_file(tensors, path)
    np.save(tmp_path / "ids.npy", np.arange(3, 9))
    done = run(tmp_path, "capture", "model", "--ids", "ids.npy", "-o", "run.safetensors")
    assert done.returncode == 3, done
    assert f'"{last}" holds NaN or infinity'.encode() in done.stderr


VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def test_packed_experts(tmp_path: Path) -> None:
    """MXFP4 as hub folders of gpt-oss have it: the numbers of the same matrices in f32."""
    make_model(tmp_path / "model", "gpt_oss", 1, hidden_size=96, intermediate_size=64, num_local_experts=3)
    (tmp_path / "packed").mkdir()
    settings = json.loads((tmp_path / "model" / "config.json").read_text())
    tensors, generator = load_file(tmp_path / "model" / "model.safetensors"), np.random.default_rng(2)
    packed = dict(tensors)
    for name in [name for name in tensors if name.endswith(("gate_up_proj", "down_proj"))]:
        experts, inputs, outputs = tensors[name].shape
        codes = generator.integers(0, 256, (experts, outputs, inputs // 32, 16), dtype=np.uint8)
        scales = generator.integers(122, 126, (experts, outputs, inputs // 32), dtype=np.uint8)
        both = np.stack([VALUES[codes & 15], VALUES[codes >> 4]], -1).reshape(*scales.shape, 32)
        dense = np.ldexp(both, scales[..., None].astype(np.int32) - 127).reshape(experts, outputs, inputs)
        tensors[name] = np.ascontiguousarray(dense.swapaxes(1, 2).astype(np.float32))
        del packed[name]
        packed[f"{name}_blocks"], packed[f"{name}_scales"] = codes, scales
    save_file(tensors, tmp_path / "model" / "model.safetensors")
    save_file(packed, tmp_path / "packed" / "model.safetensors")
    settings["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    (tmp_path / "packed" / "config.json").write_text(json.dumps(settings))
    ids = np.random.default_rng(1).integers(3, VOCABULARY, size=(2, 33))
    model = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "model", attn_implementation="eager"
    ).eval()
    expect_same(tmp_path, model, ids)
    found = [load_file(tmp_path / "run.safetensors")]
    out = ("--points", "all,logits", "-f", "-o", "run.safetensors")
    answer(tmp_path, "capture", "packed", "--ids", "ids.npy", *out)
    found.append(load_file(tmp_path / "run.safetensors"))
    for name in found[0]:
        assert (
            np.array_equal(found[0][name], found[1][name])
            or "hook_attn_scores" in name
            or np.allclose(found[0][name], found[1][name], rtol=1e-5, atol=1e-5)
        ), name
    assert answer(tmp_path, "info", "packed")["parameters"] == answer(tmp_path, "info", "model")["parameters"]
    settings["quantization_config"]["quant_method"] = "gptq"
    (tmp_path / "packed" / "config.json").write_text(json.dumps(settings))
    assert b"quant_method other than mxfp4" in run(tmp_path, "info", "packed").stderr
    settings["quantization_config"]["quant_method"] = "mxfp4"
    (tmp_path / "packed" / "config.json").write_text(json.dumps(settings))
    name = next(name for name in packed if name.endswith("_scales"))
    save_file(packed | {name: packed[name][:, :-1]}, tmp_path / "packed" / "model.safetensors")
    assert b"is not the bytes of" in run(tmp_path, "info", "packed").stderr


def test_text_of_a_model_that_sees_images(tmp_path: Path) -> None:
    """Folders of gemma3: the text has settings in an object of their own and tensors of longer names."""
    settings = FAMILIES["gemma2"].draw(np.random.default_rng(4))
    for key in ("attn_logit_softcapping", "final_logit_softcapping", "rope_parameters"):
        settings.pop(key)
    text: Settings = {"vocab_size": VOCABULARY, "pad_token_id": 0, "tie_word_embeddings": True} | settings
    text["layer_types"] = ["sliding_attention", "full_attention", "sliding_attention"][
        : text["num_hidden_layers"]
    ]
    eye = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.Gemma3Config(
        text_config=text, vision_config={**eye, "image_size": 8, "patch_size": 4}, mm_tokens_per_image=1
    )
    config._attn_implementation = config.text_config._attn_implementation = "eager"
    torch.manual_seed(4)
    model = transformers.Gemma3ForConditionalGeneration(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(tmp_path / "model")
    ids = np.random.default_rng(1).integers(3, VOCABULARY - 5, size=(2, 33))
    expect_same(tmp_path, model, ids)
    path = tmp_path / "model" / "config.json"
    outer: Settings = json.loads(path.read_text())
    path.write_text(json.dumps(outer | {"text_scale": 2}))
    assert b'"text_scale" is no key' in run(tmp_path, "info", "model").stderr


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


def test_edited_weights_of_values_of_another_width(tmp_path: Path) -> None:
    """Weights that an edit leaves as they are make what the plan makes."""
    make_model(tmp_path / "model", "deepseek_v3", 2, v_head_dim=9)
    np.save(tmp_path / "ids.npy", np.arange(3, 25))
    found = []
    for edit in ((), ("--edit", "attn.hook_pattern*=1")):
        out = ("--points", "all,logits,attn.hook_result", "-f", "-o", "run.safetensors")
        answer(tmp_path, "capture", "model", "--ids", "ids.npy", *edit, *out)
        found.append(load_file(tmp_path / "run.safetensors"))
    for name, x in found[0].items():
        both = np.isfinite(x)
        assert np.abs(found[1][name][both] - x[both]).max() <= BOUND * np.abs(x[both]).max(), name
    z = found[0]["blocks.0.attn.hook_z"]
    assert z.shape[-1] == 9 and found[0]["blocks.0.attn.hook_v"].shape[-1] == 9
    total = found[0]["blocks.0.attn.hook_result"].sum(2)
    bias = load_file(tmp_path / "model" / "model.safetensors").get("model.layers.0.self_attn.o_proj.bias", 0)
    assert np.allclose(total + bias, found[0]["blocks.0.hook_attn_out"], rtol=1e-4, atol=1e-5)


def test_dynamic_rotary_positions(tmp_path: Path) -> None:
    """Texts beyond the trained length have frequencies of their own length; with a cache every step has those
    of its own end, and keys stay as they were rotated, as in a model that has seen nothing longer."""
    rope = {"rope_type": "dynamic", "rope_theta": 500.0, "factor": 3.0}
    name = "llama"
    for length in (20, 16, 40):
        model = make_model(tmp_path / "model", name, 5, max_position_embeddings=16, rope_parameters=rope)
        expect_same(tmp_path, model, np.random.default_rng(1).integers(3, VOCABULARY, size=(2, length)))
    for length in (9, 16, 20):
        model = make_model(tmp_path / "model", name, 5, max_position_embeddings=16, rope_parameters=rope)
        expect_same_words(tmp_path, model, np.random.default_rng(1).integers(3, VOCABULARY, size=length))
    assert answer(tmp_path, "info", "model")["positions"] == 48


def test_narrow_embeddings(tmp_path: Path) -> None:
    """Where the head reads fewer numbers than states have, states have no logits as they are."""
    for name, settings in (("electra", {"embedding_size": 5}), ("opt", {"word_embed_proj_dim": 5})):
        model = make_model(tmp_path / "model", name, 3, **settings)
        expect_same(tmp_path, model, np.random.default_rng(1).integers(3, VOCABULARY, size=(2, 20)))
        done = run(tmp_path, "analyze", "model", "--ids", "ids.npy", "--windows", "1x20", "-o", "run")
        assert (done.returncode, b"narrower than" in done.stderr) == (
            (2, True) if name == "electra" else (0, False)
        )
        (tmp_path / "ids.npy").unlink()
    settings = json.loads((tmp_path / "model" / "config.json").read_text())
    wide = settings | {"word_embed_proj_dim": settings["hidden_size"] + 1}
    (tmp_path / "model" / "config.json").write_text(json.dumps(wide))
    assert b"are not run" in run(tmp_path, "info", "model").stderr


@pytest.mark.parametrize("seed", range(2))
def test_falcon_with_slopes_of_keys(tmp_path: Path, seed: int) -> None:
    """As transformers has it with sdpa: its eager attention adds what slopes make twice."""
    model = make_model(
        tmp_path / "model", "falcon", 3 * seed, alibi=True, num_attention_heads=6, hidden_size=48
    )
    model.config._attn_implementation = "sdpa"
    ids = np.random.default_rng(seed).integers(3, VOCABULARY, size=(2, 33))
    lengths = np.array([33, 11])
    np.save(tmp_path / "ids.npy", ids)
    np.save(tmp_path / "lengths.npy", lengths)
    rows = np.arange(33)[None] < lengths[:, None]
    with torch.no_grad():
        peer = model(torch.tensor(ids), attention_mask=torch.tensor(rows).long(), output_hidden_states=True)
    out = ("--points", "hook_resid_pre,logits", "-f", "-o", "run.safetensors")
    answer(tmp_path, "capture", "model", "--ids", "ids.npy", "--lengths", "lengths.npy", *out)
    ours = load_file(tmp_path / "run.safetensors")
    for layer in range(model.config.num_hidden_layers):
        assert distance(ours[f"blocks.{layer}.hook_resid_pre"], peer.hidden_states[layer], rows) <= BOUND
    assert distance(ours["logits"], peer.logits, rows) <= BOUND
    expect_same_words(tmp_path, model, ids[0, :9])


def test_lens_of_a_norm_and_a_transform(tmp_path: Path) -> None:
    """ModernBERT has both before the last product."""
    model = make_model(tmp_path / "model", "modernbert", 1)
    ids = np.random.default_rng(1).integers(3, VOCABULARY, size=20)
    np.save(tmp_path / "ids.npy", ids)
    answer(tmp_path, "lens", "model", "--ids", "ids.npy", "-o", "lens.csv")
    found = np.genfromtxt(tmp_path / "lens.csv", delimiter=",", skip_header=1, usecols=(0, 1, 2, 3))
    states = peer_run(model, ids[None]).hidden_states
    for layer in (1, 2):
        with torch.no_grad():
            logits = model.decoder(model.head(model.model.final_norm(states[layer])))[0]
        most, best = logits.softmax(-1).max(-1)
        rows = found[found[:, 0] == layer - 1]
        assert np.array_equal(rows[:, 3], best.numpy()), layer
        assert np.allclose(rows[:, 2], most.numpy(), rtol=1e-4), layer


@pytest.mark.parametrize("seed", range(2))
def test_images(tmp_path: Path, seed: int) -> None:
    """ViT: pixels in the place of words; its class token has the image's logits. Texts are refused."""
    generator = np.random.default_rng(seed)
    heads, pieces, patch = pick(generator, 2, 3), pick(generator, 2, 3), pick(generator, 3, 5)
    channels, labels = pick(generator, 1, 3), pick(generator, 2, 7)
    config = transformers.ViTConfig(
        hidden_size=8 * heads, num_hidden_layers=2, num_attention_heads=heads, intermediate_size=40,
        hidden_act=pick(generator, "gelu", "relu"), layer_norm_eps=pick(generator, 1e-12, 1e-5),
        image_size=pieces * patch + pick(generator, 0, 1), patch_size=patch, num_channels=channels,
        qkv_bias=truth(generator), num_labels=labels, attn_implementation="eager",
    )  # fmt: skip
    torch.manual_seed(seed)
    model = transformers.ViTForImageClassification(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.15)
    save_drawn(tmp_path / "model", model, generator)
    pixels = generator.normal(size=(2, channels, config.image_size, config.image_size)).astype(np.float32)
    np.save(tmp_path / "pixels.npy", pixels)
    with torch.no_grad():
        peer = model(torch.tensor(pixels), output_hidden_states=True, output_attentions=True)
    out = ("--points", "all,logits", "-f", "-o", "run.safetensors")
    answer(tmp_path, "capture", "model", "--pixels", "pixels.npy", *out)
    ours = load_file(tmp_path / "run.safetensors")
    for layer in range(2):
        assert distance(ours[f"blocks.{layer}.hook_resid_pre"], peer.hidden_states[layer]) <= BOUND
        assert distance(ours[f"blocks.{layer}.attn.hook_pattern"], peer.attentions[layer]) <= BOUND
    assert distance(ours["logits"][:, 0], peer.logits) <= BOUND
    np.save(tmp_path / "one.npy", pixels[1])
    answer(tmp_path, "capture", "model", "--pixels", "one.npy", *out)
    assert np.allclose(load_file(tmp_path / "run.safetensors")["logits"][0], ours["logits"][1], atol=1e-6)
    assert answer(tmp_path, "info", "model")["vocabulary"] == labels
    np.save(tmp_path / "ids.npy", np.arange(5))
    for words in (
        ("perplexity", "model", "--ids", "ids.npy"),
        ("generate", "model", "--ids", "ids.npy"),
        ("analyze", "model", "--text", "a", "-o", "run"),
        ("capture", "model", "--ids", "ids.npy", "-o", "run.npz"),
        ("lens", "model", "--text", "a"),
        ("patch", "model", "--clean", "a", "--corrupt", "b", "--answer", "c"),
    ):
        assert b"sees images" in run(tmp_path, *words).stderr, words
    np.save(tmp_path / "one.npy", pixels[1][:, 1:])
    assert b"the pixels are not [" in run(tmp_path, "capture", "model", "--pixels", "one.npy", *out).stderr
    settings = json.loads((tmp_path / "model" / "config.json").read_text())
    for changes, part in (
        ({"image_size": 1}, b"in pieces of"),
        ({"image_size": [8, 8]}, b"must be an exact integer"),
        ({"num_channels": channels + 1}, b"does not have the shape"),
    ):
        (tmp_path / "model" / "config.json").write_text(json.dumps(settings | changes))
        assert part in run(tmp_path, "info", "model").stderr, changes
    make_model(tmp_path / "text", "opt", 1)
    done = run(tmp_path, "capture", "text", "--pixels", "pixels.npy", *out)
    assert done.returncode == 2 and b"sees no images" in done.stderr
