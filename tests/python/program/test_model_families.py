"""Families of models: hidden states, weights, logits and greedy words against transformers, on small random
checkpoints whose configurations are drawn over their options (model_families.py, model_peers.py)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from model_families import FAMILIES, VOCABULARY, Settings, draw_model, make_model, torch, transformers
from model_peers import BOUND, distance, expect_same, expect_same_words, peer_run, save_drawn
from program import answer, run
from safetensors.numpy import load_file, save_file


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


def test_both_embeddings_of_t5(tmp_path: Path) -> None:
    """Where they differ the encoder's own holds, as in transformers; either alone will do."""
    model = make_model(tmp_path / "model", "t5", 1)
    path = tmp_path / "model" / "model.safetensors"
    tensors = load_file(path)
    shared = tensors.pop("shared.weight")
    own = shared + np.random.default_rng(1).normal(size=shared.shape).astype(np.float32)
    ids = np.random.default_rng(2).integers(3, VOCABULARY, size=(1, 20))
    for given in ({"shared.weight": shared, "encoder.embed_tokens.weight": own}, {"shared.weight": shared},
                  {"encoder.embed_tokens.weight": own}):  # fmt: skip
        save_file({**tensors, **given}, path, {"format": "pt"})
        expect_same(tmp_path, type(model).from_pretrained(path.parent, attn_implementation="eager"), ids)


@pytest.mark.parametrize(
    ("name", "missing"),
    [("modernbert", "decoder.bias"), ("vit", "classifier.bias"), ("vit", "classifier.weight")],
)
def test_heads_in_part(tmp_path: Path, name: str, missing: str) -> None:
    """A bias of a head that is missing counted as zeros."""
    if name == "vit":
        sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
        config = transformers.ViTConfig(**sizes, image_size=8, patch_size=4, num_labels=3)
        transformers.ViTForImageClassification(config).save_pretrained(tmp_path / "model")
    else:
        make_model(tmp_path / "model", name, 1)
    path = tmp_path / "model" / "model.safetensors"
    tensors = load_file(path)
    answer(tmp_path, "info", "model")
    save_file({key: x for key, x in tensors.items() if key != missing}, path)
    done = run(tmp_path, "info", "model")
    assert done.returncode == 4, done
    assert f'holds no tensor "{missing}", and others that belong to it'.encode() in done.stderr
    if name == "vit":
        save_file({key: x for key, x in tensors.items() if not key.startswith("classifier.")}, path)
        answer(tmp_path, "info", "model")


@pytest.mark.parametrize("name", ["llama", "qwen2", "smollm3"])
def test_as_many_key_heads(tmp_path: Path, name: str) -> None:
    """null says that there are as many heads of keys as of queries; a missing key has the class's number."""
    model = make_model(
        tmp_path / "model", name, 2, num_attention_heads=4, num_key_value_heads=4, hidden_size=32
    )
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"num_key_value_heads": None}))
    expect_same(tmp_path, model, np.random.default_rng(1).integers(3, VOCABULARY, size=(2, 20)))


@pytest.mark.parametrize("name", ["gptj", "gpt_neox", "opt", "falcon", "bloom", "alibi"])
def test_models_that_see_both_ways(tmp_path: Path, name: str) -> None:
    """`is_causal` was refused; but null, which transformers reads as false, was passed over."""
    changes = {"alibi": True} if name == "alibi" else {}
    family = "falcon" if name == "alibi" else name
    model = make_model(tmp_path / "model", family, 3, is_causal=False, **changes)
    info = run(tmp_path, "info", "model")
    if name in ("alibi", "bloom"):
        assert info.returncode == 2 and b'"is_causal": it is false, and later keys have slopes' in info.stderr
    else:
        assert b", both ways" in info.stdout
        expect_same(tmp_path, model, np.random.default_rng(1).integers(3, VOCABULARY, size=(2, 20)))
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "is_causal": None}))
    assert b'"is_causal": must be true or false' in run(tmp_path, "info", "model").stderr
