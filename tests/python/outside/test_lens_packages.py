"""TransformerLens, BertViz and CircuitsVis on what the package hands them: a model, a cache, captures.

`HookedTransformer` runs the shipped model itself; the rest is each package's own code on ours.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import otattn
import pytest
import torch

pytestmark = pytest.mark.long
TEXT = "The sun sets over the river, and the sun sets over the sea."


@pytest.fixture
def model(root: Path) -> Iterator[otattn.Model]:
    with otattn.Model(root / "data/demo/model") as opened:
        yield opened


@pytest.fixture(scope="module")
def lens() -> Any:
    return pytest.importorskip("transformer_lens")


def _shipped(root: Path) -> Any:
    """The shipped model in transformers."""
    from transformers import GPT2Config, GPT2LMHeadModel

    folder = root / "data/demo/model"
    config = GPT2Config.from_pretrained(folder)
    return GPT2LMHeadModel.from_pretrained(folder, config=config, dtype=torch.float32)


def _theirs(lens: Any, model: otattn.Model, source: Any) -> Any:
    """A GPT-2 of transformers as a HookedTransformer, its weights as they are."""
    f = model.facts
    cfg = lens.HookedTransformerConfig(
        n_layers=f.layers,
        n_heads=f.heads,
        d_model=f.width,
        d_head=f.head_width,
        d_mlp=f.inner,
        d_vocab=f.vocabulary,
        n_ctx=f.positions,
        eps=f.norm_epsilon,
        act_fn="gelu_new",
        normalization_type="LN",
        original_architecture="GPT2LMHeadModel",
        device="cpu",
    )
    weights = importlib.import_module("transformer_lens.pretrained.weight_conversions.gpt2")
    made = lens.HookedTransformer(cfg)
    made.load_and_process_state_dict(
        weights.convert_gpt2_weights(source, cfg),
        fold_ln=False,
        center_writing_weights=False,
        center_unembed=False,
        fold_value_biases=False,
    )
    return made


def _compare_all(theirs: Any, ours: Any, tokens: torch.Tensor) -> None:
    """Logits and every activation of both."""
    right, activations = theirs.run_with_cache(tokens)
    cache = dict(activations)
    for name, x in cache.items():
        # Theirs are before the weights of the norm.
        if name.endswith("hook_normalized"):
            norm = theirs.get_submodule(name.removesuffix(".hook_normalized"))
            cache[name] = x * norm.w + norm.b
    logits, found = ours.run_with_cache(tokens)
    assert torch.allclose(logits, right, rtol=0, atol=2e-4)
    own = {"attn.hook_receiver"}
    compared = 0
    for name in found:
        if name.partition(".attn.")[2] and name.split(".", 2)[2] in own:
            continue
        mine, other = found[name], cache[name]
        if name.endswith("hook_attn_scores"):
            assert torch.isneginf(mine).equal(torch.isneginf(other)), name
            mine, other = mine.nan_to_num(neginf=0.0), other.nan_to_num(neginf=0.0)
        scale = float(other.abs().max())
        assert mine.shape == other.shape and float((mine - other).abs().max()) <= 2e-5 * scale, name
        compared += 1
    # The input of the last product is the last norm's, and its output the logits.
    assert {*cache} - {*found} == {"unembed.hook_in", "unembed.hook_out"} and compared == len(found) - 4


def test_every_activation_is_transformer_lens_s(lens: Any, model: otattn.Model, root: Path) -> None:
    theirs, ours = _theirs(lens, model, _shipped(root)), model.as_transformer_lens()
    tokens = ours.to_tokens(TEXT)
    _compare_all(theirs, ours, tokens)
    for name in ("W_Q", "W_K", "W_V", "W_O"):
        assert torch.allclose(getattr(ours, name), getattr(theirs, name), rtol=0, atol=1e-6)
    assert float(ours(tokens, "loss")) == pytest.approx(float(theirs(tokens, return_type="loss")), abs=1e-5)
    for name in (
        "n_layers",
        "n_heads",
        "d_model",
        "d_head",
        "d_mlp",
        "d_vocab",
        "n_ctx",
        "eps",
        "attention_dir",
    ):
        assert getattr(ours.cfg, name) == getattr(theirs.cfg, name), name


def test_transformer_lens_s_own_code_takes_it(lens: Any, model: otattn.Model, root: Path) -> None:
    theirs, ours = _theirs(lens, model, _shipped(root)), model.as_transformer_lens()
    tokens = ours.to_tokens(TEXT)
    theirs.to_tokens = lambda text, **_: ours.to_tokens(text)
    _, found = ours.run_with_cache(tokens)
    _, right = theirs.run_with_cache(tokens)
    cache = lens.ActivationCache(found.cache_dict, ours)
    other = lens.ActivationCache(dict(right.cache_dict), theirs)
    for call in ("accumulated_resid", "decompose_resid"):
        mine, said = getattr(cache, call)(return_labels=True)
        theirs_found, labels = getattr(other, call)(return_labels=True)
        assert said == labels and torch.allclose(mine, theirs_found, rtol=0, atol=1e-3), call
    detector = importlib.import_module("transformer_lens.head_detector")
    capture = model.capture(TEXT, "pattern")
    for kind, share in (
        ("previous_token_head", "previous_share"),
        ("duplicate_token_head", "duplicate_share"),
        ("induction_head", "induction_share"),
    ):
        mine = detector.detect_head(ours, TEXT, kind)
        assert torch.allclose(mine, detector.detect_head(theirs, TEXT, kind), atol=1e-4), kind
        for layer, heads in enumerate(mine):
            patterns = capture["pattern", layer][0]
            for pattern, score in zip(patterns, heads, strict=True):
                own = getattr(otattn.analysis.head_scores(pattern, tokens[0].numpy()), share)
                assert own == pytest.approx(float(score), abs=1e-5), (kind, layer)


# llama.cpp's names of GPT-2's tensors, those of blocks, and whether transformers has the matrix transposed.
GGUF_NAMES = {
    "transformer.wte": "token_embd",
    "transformer.wpe": "position_embd",
    "transformer.ln_f": "output_norm",
}
GGUF_BLOCKS = {
    "ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
    "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
}  # fmt: skip


def _write_gguf(gguf: Any, path: Path, source: Any, folder: Path) -> None:
    """The model and its tokenizer as a Q8_0 file; matrices of `source` become those that it decodes to."""
    config = source.config
    writer = gguf.GGUFWriter(path, "gpt2")
    writer.add_context_length(config.n_positions)
    writer.add_embedding_length(config.n_embd)
    writer.add_feed_forward_length(4 * config.n_embd)
    writer.add_block_count(config.n_layer)
    writer.add_head_count(config.n_head)
    writer.add_layer_norm_eps(config.layer_norm_epsilon)
    pieces: dict[str, int] = json.loads((folder / "vocab.json").read_text())
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(sorted(pieces, key=lambda piece: pieces[piece]))
    writer.add_token_merges(
        [line for line in (folder / "merges.txt").read_text().splitlines() if line[0] != "#"]
    )
    writer.add_bos_token_id(config.bos_token_id)
    writer.add_eos_token_id(config.eos_token_id)
    kind = gguf.GGMLQuantizationType.Q8_0
    for name, weight in source.named_parameters():
        module, _, end = name.rpartition(".")
        if module in GGUF_NAMES:
            own = GGUF_NAMES[module]
        else:
            _, _, block, part = module.split(".", 3)
            own = f"blk.{block}.{GGUF_BLOCKS[part]}"
        x, turned = weight.detach().numpy(), ".c_" in module and end == "weight"
        if x.ndim == 2 and own != "position_embd":
            rows = np.ascontiguousarray(x.T if turned else x)
            data = gguf.quants.quantize(rows, kind)
            back = gguf.quants.dequantize(data, kind)
            weight.data = torch.from_numpy(np.ascontiguousarray(back.T if turned else back))
            writer.add_tensor(f"{own}.{end}", data, raw_dtype=kind)
        else:
            writer.add_tensor(f"{own}.{end}", x.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_gguf_file_s_patterns(lens: Any, root: Path, tmp_path: Path) -> None:
    """From a text to patterns through the calls of a HookedTransformer, of a quantised file."""
    gguf = pytest.importorskip("gguf")
    folder, path, source = root / "data/demo/model", tmp_path / "demo.gguf", _shipped(root)
    before = source.transformer.h[0].mlp.c_fc.weight.clone()
    _write_gguf(gguf, path, source, folder)
    assert not torch.equal(before, source.transformer.h[0].mlp.c_fc.weight)
    with otattn.Model(path) as model, otattn.Model(folder) as shipped:
        theirs, ours = _theirs(lens, model, source), model.as_transformer_lens()
        tokens = ours.to_tokens(TEXT)
        assert torch.equal(tokens, shipped.as_transformer_lens().to_tokens(TEXT))
        assert ours.to_str_tokens(TEXT) == shipped.as_transformer_lens().to_str_tokens(TEXT)
        _compare_all(theirs, ours, tokens)
        _, found = ours.run_with_cache(TEXT, names_filter=lambda name: name.endswith("hook_pattern"))
        _, right = theirs.run_with_cache(tokens)
        for layer in range(4):
            assert torch.allclose(found["pattern", layer], right["pattern", layer], rtol=0, atol=2e-5), layer
        theirs.to_tokens = lambda text, **_: ours.to_tokens(text)
        detector = importlib.import_module("transformer_lens.head_detector")
        kind = "previous_token_head"
        mine = detector.detect_head(ours, TEXT, kind)
        assert torch.allclose(mine, detector.detect_head(theirs, TEXT, kind), atol=1e-4)


def test_bertviz_draws_a_capture(model: otattn.Model) -> None:
    bertviz = pytest.importorskip("bertviz")
    capture = model.capture(TEXT, "pattern")
    for view in (bertviz.head_view, bertviz.model_view):
        page = view(**capture.to_bertviz(), html_action="return").data
        assert " over" in page and f"{float(capture['pattern', 3][0, 5, 9, 4]):.6}"[:6] in page


def test_circuitsvis_draws_a_capture(model: otattn.Model) -> None:
    pytest.importorskip("circuitsvis")
    attention = importlib.import_module("circuitsvis.attention")
    capture = model.capture(TEXT, "pattern", layers=[1, 2], heads=[0, 3])
    page = str(attention.attention_heads(**capture.to_circuitsvis()))
    assert "L1H0" in page and "L2H3" in page and " over" in page
    one = capture.to_circuitsvis(2)
    assert '"L1H0"' not in str(attention.attention_heads(**one)) and one["attention"].shape == (2, 25, 25)
    assert np.allclose(one["attention"].sum(2), 1, atol=1e-5)
