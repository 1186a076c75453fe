"""otattn.hf against transformers' eager attention over drawn families, and what it refuses; online columns
behind a cache."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import otattn
import pytest
import torch
from otattn import _hf_rows, _hf_watch

transformers = pytest.importorskip("transformers")

TEXTS = Path(transformers.__file__).parent / "models"
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
SIZES = {
    "hidden_size": 32,
    "d_model": 32,
    "num_hidden_layers": 2,
    "num_layers": 2,
    "num_attention_heads": 4,
    "num_heads": 4,
    "intermediate_size": 48,
    "d_ff": 48,
    "d_kv": 8,
    "head_dim": 8,
    "vocab_size": 64,
    "max_position_embeddings": 64,
    "num_local_experts": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "word_embed_proj_dim": 32,
    **{
        f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in (("layers", 1), ("ffn_dim", 48))
    },
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    **IDS,
}


def config_of(family: str, **changes: Any) -> Any:
    config = transformers.CONFIG_MAPPING[family]()
    for name, value in {**SIZES, **changes}.items():
        member = getattr(type(config), name, None)
        fixed = (isinstance(member, property) and not member.fset) or value == -1
        if (name in changes or hasattr(config, name)) and not fixed:
            setattr(config, name, value)
    kinds = list(dict.fromkeys(getattr(config, "layer_types", None) or ()))
    if kinds:
        config.layer_types = (2 * kinds)[:2]
    return config


def drawn(family: str, name: str = "otattn_softmax", **changes: Any) -> Any:
    """A small model of a family with drawn parameters, the same for each implementation."""
    torch.manual_seed(0)
    kind = transformers.AutoModel
    if family in ("llama", "gpt2", "gemma3_text", "mistral"):
        kind = transformers.AutoModelForCausalLM
    model = kind.from_config(config_of(family, **changes), attn_implementation=name).eval()
    with torch.no_grad():
        for x in model.parameters():
            if x.dim() > 1:
                x.normal_(0, 0.3)
    return model


def given(model: Any) -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[1, :3] = 0
    named = {"input_ids": torch.randint(5, 60, (2, 12)), "attention_mask": mask}
    if model.config.is_encoder_decoder:
        named["decoder_input_ids"] = torch.randint(5, 60, (2, 7))
    return named


def windowed(width: int) -> dict[str, Any]:
    return {"sliding_window": width, "use_sliding_window": True}


LATENT = {
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "num_key_value_heads": 4,
    "n_routed_experts": 4,
    "n_group": 1,
    "topk_group": 1,
    "n_shared_experts": 1,
}

# Family, what its configuration has of its own, and why it is here.
SERVED = [
    ("bert", {}),
    ("gpt2", {"n_embd": 32, "n_layer": 2, "n_head": 4}),
    ("gpt2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "scale_attn_by_inverse_layer_idx": True}),
    ("llama", {"num_key_value_heads": 2}),
    ("mistral", {"num_key_value_heads": 2, **windowed(4)}),
    ("gemma2", {"num_key_value_heads": 2, "attn_logit_softcapping": 2.0, **windowed(4)}),
    ("gemma3_text", {"num_key_value_heads": 2, **windowed(4)}),
    ("gpt_oss", {"num_key_value_heads": 2, **windowed(4)}),
    ("granite_swa", {"num_key_value_heads": 2, **windowed(4)}),
    ("gpt_neox", {}),
    ("opt", {"ffn_dim": 48}),
    ("modernbert", {"local_attention": 4}),
    ("t5", {"num_decoder_layers": 2}),
    ("bart", {}),
    ("deepseek_v4", {"sliding_window": 4}),
    ("glm_moe_dsa", {**LATENT, "index_topk": 3, "index_n_heads": 2, "index_head_dim": 8}),
]


@pytest.fixture(autouse=True)
def _registered() -> None:
    otattn.hf.register()


def distance(a: Any, b: Any, named: dict[str, torch.Tensor]) -> float:
    real = named["attention_mask"].bool()
    worst = 0.0
    for name in a:
        x, y = a[name], b[name]
        if isinstance(x, torch.Tensor):
            if x.shape[:2] == real.shape:
                x, y = x[real], y[real]
            worst = max(worst, float((x - y).abs().max() / x.abs().max()))
    return worst


@pytest.mark.parametrize(("family", "changes"), SERVED, ids=[f"{f}-{k}" for k, (f, _) in enumerate(SERVED)])
def test_softmax_of_drawn_families_is_eager(family: str, changes: dict[str, Any]) -> None:
    plain = drawn(family, "eager", **changes)
    named = given(plain)
    ours = drawn(family, **changes)
    with torch.no_grad():
        expected = plain(**named)
        assert distance(expected, ours(**named), named) <= 1e-4
        # And that the layers are ours: another method moves every one of these models.
        assert otattn.hf.set_attention(ours, "hard") == len(_hf_watch.layers_of(ours)) >= 2
        assert distance(expected, ours(**named), named) > 1e-3


OWN = {
    "bloom": {"n_layer": 1, "n_head": 4},
    "falcon": {},
    "gptj": {"n_embd": 32, "n_layer": 1, "n_head": 4},
    "gpt_neo": {"attention_layers": ["global", "local"], "attention_types": [[["global", "local"], 1]]},
    "codegen": {"n_embd": 32, "n_layer": 1, "n_head": 4, "rotary_dim": 8},
    "mpt": {"n_layers": 1, "n_heads": 4},
    "xlnet": {"n_layer": 1, "n_head": 4, "d_inner": 48, "max_position_embeddings": -1},
    "xlm": {"emb_dim": 32, "n_layers": 1, "n_heads": 4},
    "rembert": {"input_embedding_size": 8, "output_embedding_size": 8},
}


@pytest.mark.parametrize("family", OWN)
def test_families_of_their_own_are_refused(family: str) -> None:
    match = rf"computes attention itself, in transformers\.models\.{family}"
    with pytest.raises(NotImplementedError, match=match):
        drawn(family, **OWN[family])
    model = drawn(family, "eager", **OWN[family])
    for put in (model.set_attn_implementation, lambda name: otattn.hf.set_attention(model, "softmax/exact")):
        with pytest.raises(NotImplementedError, match=match):
            put("otattn_softmax-exact")
        assert model.config._attn_implementation == "eager"


def texts() -> dict[str, str]:
    return {
        file.stem.removeprefix("modeling_"): file.read_text()
        for file in sorted(TEXTS.glob("*/modeling_*.py"))
    }


# Classes with a softmax and a product that are no attention over values: routers and indexers, similarities
# of pictures
# and texts, mixtures of documents, maps of masks.
NO_ATTENTION = re.compile(
    r"(Indexer|IndexerScorer|HyperConnection|MHAttentionMap|CDMoE|FeaturesToDepth|MatchAssignmentLayer|KeypointMatching"
    r"|LanguageModelEncoder|ConfidenceHead|ImageTextRetrieval|ForGeneration|^DiffusionGemmaDecoderModel"
    r"|^(Aimv2|Align|AltCLIP|ChineseCLIP|Clap|CLIP|CLIPSeg|MetaClip2|Owlv2|OwlViT|Tipsv2|VisionTextDualEncoder|XCLIP)Model)$"
)


def test_every_family_asks_or_is_refused() -> None:
    """A walk through the files of all models: what makes weights asks for them, is refused by name, or is
    followed."""
    refused, followed, unseen = set(), set(), []
    for name, text in texts().items():
        asks = "ALL_ATTENTION_FUNCTIONS.get_interface(" in text
        if (
            re.search(r"^class \w*Attention\w*\(nn\.Module\):", text, re.M) and not asks
        ) or _hf_watch._TABLE.search(text):
            refused.add(name)
            continue
        for part in re.split(r"^(?=class |def |@)", text, flags=re.M):
            kind = re.match(r"class (\w+)\(", part)
            if not kind or _hf_watch._ASKS.search(part) or not _hf_watch._MAKES.search(part):
                continue
            if _hf_watch._ATTENTION.search(kind[1]):
                followed.add(name)
            elif re.search(r"matmul|bmm|einsum| @ ", part) and not NO_ATTENTION.search(kind[1]):
                unseen.append((name, kind[1]))
    assert not unseen
    assert {
        *OWN,
        "reformer",
        "funnel",
        "big_bird",
        "longformer",
        "deberta_v2",
        "wavlm",
        "git",
        "sam",
    } <= refused
    assert {"bigbird_pegasus", "clap", "longt5", "pegasus_x", "informer"} <= followed


def test_layers_put_in_while_a_model_runs_are_refused() -> None:
    # With few tokens this encoder swaps its layers for others, which compute attention themselves.
    changes = {"attention_type": "block_sparse", "block_size": 4, "num_random_blocks": 1}
    model = drawn("bigbird_pegasus", **changes)
    with (
        torch.no_grad(),
        pytest.raises(RuntimeError, match=r"encoder\.layers\.0.*put in while the model ran|layers\.0"),
    ):
        model(**given(model))


# What layers hand to their attention function, over all families: a new name is looked at before it is
# believed.
KNOWN = {
    *(
        "module",
        "query",
        "key",
        "value",
        "attention_mask",
        "dropout",
        "scaling",
        "is_causal",
        "softcap",
        "s_aux",
    ),
    *("position_bias", "output_attentions", "indices", "sliding_window", *otattn.hf._REFUSED),
    # Of flash attention alone, which packs sequences by them; refused without a mask.
    *("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k"),
    # Of no function's scores: masks hold the positions already.
    *("position_ids", "deterministic"),
}


def test_no_family_hands_down_what_is_passed_over() -> None:
    unknown = {}
    for name, text in texts().items():
        for call in re.finditer(r"= attention_interface\(\n(.*?)\n +\)\n", text, re.S):
            words = set(re.findall(r"^\s+(\w+)=", call[1], re.M))
            if words - KNOWN:
                unknown[name] = words - KNOWN
    assert not unknown
    assert sum(len(re.findall(r"= attention_interface\(", text)) for text in texts().values()) > 300


class Lying(torch.nn.Module):
    """A layer that asks for ALL_ATTENTION_FUNCTIONS and then goes another way."""

    is_causal = True

    def forward(self, hidden_states: Any, **_: Any) -> Any:
        return torch.softmax(hidden_states, -1), None


class OwnAttention(torch.nn.Module):
    def forward(self, hidden_states: Any, **_: Any) -> Any:
        return torch.softmax(hidden_states, -1), None


def test_layers_are_followed() -> None:
    model = drawn("llama", num_key_value_heads=2)
    ids = {"input_ids": torch.arange(6)[None]}
    right = model.model.layers[1].self_attn
    for layer, match, kind in (
        (Lying(), r"model\.layers\.1\.self_attn \(Lying of .*without a call", RuntimeError),
        (
            OwnAttention(),
            r"model\.layers\.1\.self_attn \(OwnAttention .*keep=\['OwnAttention'\]",
            NotImplementedError,
        ),
    ):
        model.model.layers[1].self_attn = layer
        model.set_attn_implementation("otattn_sparsemax")
        with pytest.raises(kind, match=match):
            model(**ids)
        model.set_attn_implementation("sdpa")
        model(**ids)
    (kept,) = otattn.hf.register("softmax", prefix="kept_", keep=["OwnAttention"])
    model.set_attn_implementation(kept)
    model(**ids)
    model.model.layers[1].self_attn = right
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with torch.no_grad():
            assert torch.equal(twin(**ids).logits, model(**ids).logits)


@pytest.mark.parametrize("loaded", ["eager", "sdpa"])
def test_set_attention_switches_the_model(loaded: str) -> None:
    model, named = drawn("gpt2", loaded, n_embd=32, n_layer=2, n_head=4), {"input_ids": torch.arange(8)[None]}
    with torch.no_grad():
        plain = model(**named).logits
        # One layer at a temperature of 1 is nothing new; the other one keeps softmax.
        assert otattn.hf.set_attention(model, "softmax", layers=[1]) == 1
        assert (model(**named).logits - plain).abs().max() <= 1e-4 * plain.abs().max()
        otattn.hf.set_attention(model, "hard", layers=[1])
        one = model(**named).logits
        otattn.hf.set_attention(model, "hard")
        assert (one - plain).abs().max() > 1e-3 and (one - model(**named).logits).abs().max() > 1e-3
    transformers.AttentionInterface.register("somebodys", otattn.hf.attention_forward)
    other = drawn("gpt2", "somebodys", n_embd=32, n_layer=2, n_head=4)
    with pytest.raises(ValueError, match="runs 'somebodys'"):
        otattn.hf.set_attention(other, "hard", layers=[0])
    assert (
        otattn.hf.set_attention(other, "hard") == 2 and other.config._attn_implementation == "otattn_softmax"
    )


@pytest.mark.parametrize(("queries", "keys"), [(6, 6), (3, 7), (1, 7)])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("mask", ["none", "bool", "float"])
def test_is_causal_masks_and_biases_mean_what_sdpa_says(
    queries: int, keys: int, causal: bool, bias: bool, mask: str
) -> None:
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    torch.manual_seed(7)
    module = torch.nn.Module()
    module.num_key_value_groups = 2  # type: ignore[assignment]
    q, (k, v) = torch.randn(2, 4, queries, 5), (torch.randn(2, 2, keys, 5) for _ in range(2))
    allowed = torch.rand(2, 1, queries, keys) < 0.7
    allowed[..., 0] = True
    given = {
        "none": None,
        "bool": allowed,
        "float": torch.zeros(2, 1, queries, keys).masked_fill(~allowed, -3.4e38),
    }
    added = torch.randn(1, 4, queries, keys) if bias else None
    found = otattn.hf.attention_forward(module, q, k, v, given[mask], is_causal=causal, position_bias=added)[
        0
    ]
    expected = sdpa_attention_forward(module, q, k, v, given[mask], is_causal=causal, position_bias=added)[0]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_keys_that_an_indexer_chose() -> None:
    torch.manual_seed(8)
    q, k, v = (torch.randn(2, 3, 6, 4) for _ in range(3))
    chosen = torch.stack([torch.randperm(6)[:3] for _ in range(12)]).reshape(2, 6, 3)
    chosen[0, 0] = torch.tensor([0, 4, -1])
    chosen[..., 0] = 0
    seen = torch.zeros(2, 1, 6, 7, dtype=torch.bool).scatter(
        -1, chosen[:, None].where(chosen[:, None] >= 0, 6), True
    )[..., :6]
    causal = torch.ones(6, 6, dtype=torch.bool).tril()
    written = torch.zeros(6, 6).masked_fill(~causal, torch.finfo(torch.float32).min).expand(2, 1, 6, 6)
    run = otattn.hf.attention_forward
    expected = run(torch.nn.Module(), q, k, v, seen & causal)[0]
    for mask in (None, causal.expand(2, 1, 6, 6), written):
        found = run(torch.nn.Module(), q, k, v, mask, indices=chosen.int())[0]
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "named",
    [{"sinks": 1}, {"block_indices": 1}, {"cache": 1}, {"cu_seq_lens_q": [0, 2, 4]}, {"sliding_window": 2}],
)
def test_what_is_not_carried_out_is_refused(named: dict[str, Any]) -> None:
    x = torch.randn(1, 2, 4, 3)
    with pytest.raises(
        NotImplementedError, match=next(iter(named)) if "sliding_window" not in named else "window of 2"
    ):
        otattn.hf.attention_forward(torch.nn.Module(), x, x, x, None, **named)


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("gpt2", {"n_embd": 32, "n_layer": 2, "n_head": 4}),
        ("llama", {"num_key_value_heads": 2}),
        ("gemma3_text", {"num_key_value_heads": 2, **windowed(5)}),
    ],
)
@pytest.mark.parametrize("how", [{}, {"cache_implementation": "static"}, {"num_beams": 3}])
def test_online_columns_generate_with_a_cache(
    family: str, changes: dict[str, Any], how: dict[str, Any]
) -> None:
    model = drawn(family, "sdpa", **changes)
    assert otattn.hf.set_attention(model, "softmax/online:1.5") == 2
    named = given(model)
    options = {**named, "max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
    with torch.no_grad():
        found = model.generate(**options, **how)
        beams = {k: v for k, v in how.items() if k == "num_beams"}
        expected = model.generate(**options, **beams, use_cache=False)
        logits = model(found).logits
        otattn.hf.set_attention(model, "softmax")
        assert torch.equal(found, expected) and (logits - model(found).logits).abs().max() > 1e-3


CACHES: dict[str, dict[str, Any]] = {
    "static": {"cache_implementation": "static"},
    "hybrid": {"cache_implementation": "hybrid"},
    "sliding": {"cache_implementation": "sliding_window"},
    "offloaded": {"cache_implementation": "offloaded"},
    "offloaded-static": {"cache_implementation": "offloaded_static"},
    "fp8": {"cache_implementation": "quantized", "cache_config": {"backend": "fp8"}},
    "quanto": {
        "cache_implementation": "quantized",
        "cache_config": {"backend": "quanto", "q_group_size": 32, "residual_length": 4},
    },
    "hqq": {
        "cache_implementation": "quantized",
        "cache_config": {
            "backend": "hqq", "axis_key": 1, "axis_value": 1, "q_group_size": 32, "residual_length": 4,
        },
    },
}  # fmt: skip


@pytest.mark.parametrize("how", CACHES)
@pytest.mark.parametrize(("family", "beams"), [("gpt2", 1), ("llama", 3), ("gemma3_text", 1)])
def test_caches_of_generate(family: str, beams: int, how: str) -> None:
    """Softmax is no farther from eager attention than sdpa is; online columns go on where keys come back as
    they were, and refuse a cache that rounds them; capped columns refuse any."""
    if "offloaded" in how and not torch.cuda.is_available():
        pytest.skip("transformers offloads caches from a CUDA device alone")
    if how in ("quanto", "hqq"):
        pytest.importorskip({"quanto": "optimum.quanto", "hqq": "hqq"}[how])
    quantized = CACHES[how]["cache_implementation"] == "quantized"
    if quantized and family == "gemma3_text":
        pytest.skip("transformers quantizes no cache of layers with windows")
    changes: dict[str, Any] = {
        "gpt2": {"n_embd": 64, "n_layer": 2, "n_head": 2},
        "llama": {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1},
        "gemma3_text": {"num_key_value_heads": 2, **windowed(5)},
    }[family]
    model = drawn(family, "sdpa", **changes)
    options = {
        **given(model), "max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "pad_token_id": 0,
        "num_beams": beams, "output_logits": True, "return_dict_in_generate": True,
    }  # fmt: skip
    with torch.no_grad():
        made = {}
        for name in ("eager", "sdpa"):
            model.set_attn_implementation(name)
            made[name] = model.generate(**options, **CACHES[how])
        otattn.hf.set_attention(model, "softmax")
        found = model.generate(**options, **CACHES[how])
        assert torch.equal(found.sequences, made["eager"].sequences)
        for a, b, c in zip(found.logits, made["sdpa"].logits, made["eager"].logits, strict=True):
            assert (a - c).abs().max() <= 1e-5 + 4 * (b - c).abs().max()
        otattn.hf.set_attention(model, "softmax/online:1.5")
        if quantized:
            with pytest.raises(ValueError, match="keys back as they were, which a quantized one does not"):
                model.generate(**options, **CACHES[how])
        else:
            expected = model.generate(**options, use_cache=False)
            assert torch.equal(model.generate(**options, **CACHES[how]).sequences, expected.sequences)
        otattn.hf.set_attention(model, "softmax/capped:2")
        with pytest.raises(ValueError, match="use_cache=False"):
            model.generate(**options, **CACHES[how])


@pytest.mark.parametrize("how", ["dynamic", "static"])
@pytest.mark.parametrize("padded", [False, True])
def test_weights_of_online_columns_behind_a_cache(how: str, padded: bool, monkeypatch: Any) -> None:
    """Behind a cache, in blocks of few rows, they are those of the whole text at once."""
    monkeypatch.setattr(_hf_rows, "_NUMBERS", 20)
    model = drawn("llama", "sdpa", num_key_value_heads=2)
    otattn.hf.set_attention(model, "softmax/online:1.2", temperature=0.7)
    ids = torch.arange(2 * 9).reshape(2, 9) + 3
    mask = torch.ones_like(ids)
    mask[1, :2] = int(not padded)
    config = model.config
    cache = (
        transformers.DynamicCache(config=config)
        if how == "dynamic"
        else transformers.StaticCache(config=config, max_cache_len=12)
    )
    with torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, torch.nn.Linear):
                layer.weight.mul_(3)
        whole = otattn.hf.capture(model, {"input_ids": ids, "attention_mask": mask}, ["pattern", "receiver"])
        plain = model(ids, attention_mask=mask, output_attentions=True)
        mass = 0
        for begin, end in ((0, 4), (4, 5), (5, 9)):
            given = {
                "input_ids": ids[:, begin:end],
                "attention_mask": mask[:, :end],
                "position_ids": torch.arange(begin, end)[None],
                "past_key_values": cache,
            }
            words = ["receiver", "pattern"]
            found = otattn.hf.capture(model, given, words, heads=[1, 2] if begin < 5 else None)
            wanted = whole["pattern", 1][:, 1:3] if begin < 5 else whole["pattern", 1]
            rows = found["pattern", 1]
            assert rows.shape[-1] == (end if how == "dynamic" else 12)
            assert (rows[..., :end] - wanted[:, :, begin:end, :end]).abs().max() <= 2e-5
            assert not rows[..., end:].any()
            mass = found["receiver", 1][:, -2 if begin < 5 else 2, :9]
        # Keys are held to their cap, so what rows before have left was heard of.
        assert (whole["receiver", 1] <= 1.2 + 1e-5).all() and (mass >= 0).all()
        assert (plain.attentions[1] - whole["pattern", 1]).abs().max() <= 1e-6
        made = model.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=3,
            min_new_tokens=3,
            do_sample=False,
            pad_token_id=0,
            output_attentions=True,
            return_dict_in_generate=True,
            cache_implementation=how,
        )
        again = model(
            made.sequences,
            attention_mask=torch.cat([mask, torch.ones(2, 3, dtype=mask.dtype)], 1),
            output_attentions=True,
        )
        for step in (1, 2):
            weights = made.attentions[step][1]
            wanted = again.attentions[1][:, :, 8 + step : 9 + step, : 9 + step]
            assert (weights[..., : 9 + step] - wanted).abs().max() <= 2e-5
            assert not weights[..., 9 + step :].any()


def test_online_columns_heed_masks_that_look_ahead() -> None:
    """As models have them whose tokens of one image see each other."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 6, 4) for _ in range(3))
    mask = torch.ones(6, 6, dtype=torch.bool).tril()
    mask[1:4, 1:4] = True
    layer = torch.nn.Module()
    method = {"method": "softmax/online:1.2"}
    with torch.no_grad():
        found, _ = otattn.hf.attention_forward(layer, q, k, v, mask[None, None], is_causal=True, **method)
        wanted = otattn.attention(q, k, v, mask, **method)
        assert (found.transpose(1, 2) - wanted).abs().max() <= 1e-6
        assert (wanted - otattn.attention(q, k, v, is_causal=True, **method)).abs().max() > 1e-3


def test_online_columns_refuse_a_cache_of_other_tokens() -> None:
    otattn.hf.register("softmax/online:1.5")
    model = drawn("gpt2", "otattn_softmax-online:1.5", n_embd=32, n_layer=2, n_head=4)
    ids = torch.arange(12)[None]
    with torch.no_grad():
        first, second = model(ids[:, :5]), model(ids[:, 6:11])
        model(ids[:, 11:], past_key_values=second.past_key_values)
        with pytest.raises(ValueError, match="5 earlier keys that are not those"):
            model(ids[:, 5:6], past_key_values=first.past_key_values)
    tail = model(ids[:, :5]).past_key_values
    with pytest.raises(ValueError, match="behind a cache with gradients"):
        model(ids[:, 5:6], past_key_values=tail)
