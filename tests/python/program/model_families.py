"""Families of models: configurations drawn over their options, and small random checkpoints of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
torch = pytest.importorskip("torch")
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
