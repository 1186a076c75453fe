"""Captures as BertViz and CircuitsVis take them, and a model behind TransformerLens's calls.

`tests/python/outside/test_lens_packages.py` has the packages themselves draw and read what is here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import otattn
import pytest
import torch
from otattn.lens import HookedModel

TEXT = "The sun sets over the river."


@pytest.fixture
def model(root: Path) -> Iterator[otattn.Model]:
    with otattn.Model(root / "data/demo/model") as opened:
        yield opened


@pytest.fixture
def lens(model: otattn.Model) -> HookedModel:
    return model.as_transformer_lens()


def test_to_bertviz(model: otattn.Model) -> None:
    texts = [TEXT, "Short."]
    capture = model.capture(texts, "pattern", layers=[0, 2])
    for batch, text in enumerate(texts):
        given = capture.to_bertviz(batch)
        tokens = model.tokenizer.texts(model.tokens(text))
        assert {*given} == {"attention", "tokens"} and given["tokens"] == tokens
        assert len(given["attention"]) == 2
        for layer, x in zip((0, 2), given["attention"], strict=True):
            right = capture["pattern", layer][batch, :, : len(tokens), : len(tokens)]
            assert x.dtype == torch.float32 and (x[0].numpy() == right).all()
    with pytest.raises(ValueError, match=r"no attn\.hook_pattern was captured"):
        model.capture(TEXT, "z").to_bertviz()


def test_to_circuitsvis(model: otattn.Model) -> None:
    capture = model.capture(TEXT, "pattern", layers=[1, 3], heads=[0, 5])
    given = capture.to_circuitsvis()
    assert {*given} == {"attention", "tokens", "attention_head_names", "mask_upper_tri"}
    assert given["attention_head_names"] == ["L1H0", "L1H5", "L3H0", "L3H5"]
    assert (given["attention"][2] == capture["pattern", 3][0, 0]).all() and given["mask_upper_tri"] is True
    assert capture.to_circuitsvis(3)["attention_head_names"] == ["L3H0", "L3H5"]
    with pytest.raises(ValueError, match="layer is 2, and captured are 1, 3"):
        capture.to_circuitsvis(2)


def test_configuration_and_tokens(lens: HookedModel, model: otattn.Model) -> None:
    c, f = lens.cfg, model.facts
    assert (c.n_layers, c.n_heads, c.d_model, c.d_head) == (4, 6, 192, 32) and c.d_vocab == f.vocabulary
    assert (c.normalization_type, c.positional_embedding_type, c.attention_dir) == (
        "LN",
        "standard",
        "causal",
    )
    ids = model.tokens(TEXT)
    assert lens.to_tokens(TEXT).tolist() == [ids.tolist()]
    with_begin = lens.to_tokens(TEXT, prepend_bos=True)
    assert with_begin[0, 1:].tolist() == ids.tolist() and model.tokenizer.is_special(int(with_begin[0, 0]))
    assert lens.to_tokens([TEXT, "A"]).shape == (2, ids.size)
    assert lens.to_tokens("a " * 400).shape == (1, f.positions)
    assert lens.to_string(ids) == TEXT and lens.to_string(lens.to_tokens(TEXT)) == [TEXT]
    for given in (TEXT, lens.to_tokens(TEXT), ids):
        assert "".join(lens.to_str_tokens(given)) == TEXT
    assert lens.to_single_str_token(lens.to_single_token(" the")) == " the"
    with pytest.raises(ValueError, match="tokens, wanted one"):
        lens.to_single_token(TEXT)


def test_runs_with_a_cache(lens: HookedModel, model: otattn.Model) -> None:
    run, capture = model.run(TEXT), model.capture(TEXT, "all")
    logits, cache = lens.run_with_cache(TEXT)
    results = [f"blocks.{k}.attn.hook_result" for k in range(4)]
    assert (logits.numpy() == run.logits).all()
    assert [*cache] == [name for name in model.points if name not in results]
    assert all((cache[name].numpy() == capture[name]).all() for name in cache)
    _, added = lens.run_with_cache(TEXT, names_filter=results, return_type=None)
    assert [*added] == results and (added[results[1]].numpy() == capture[results[1]]).all()
    assert cache["pattern", -1] is cache["blocks.3.attn.hook_pattern"] is cache["attn", 3]
    assert cache.stack_activation("pattern").shape == (4, 1, 6, run.ids.size, run.ids.size)
    _, some = lens.run_with_cache(TEXT, names_filter=lambda name: name.endswith("hook_z"), return_type=None)
    assert [*some] == [f"blocks.{k}.attn.hook_z" for k in range(4)]
    _, one = lens.run_with_cache(TEXT, names_filter="hook_embed", remove_batch_dim=True)
    assert one["embed"].shape == (run.ids.size, 192)
    with pytest.raises(ValueError, match="several texts"):
        lens.run_with_cache(["a", "b"], remove_batch_dim=True)
    both, loss = lens(TEXT, return_type="both")
    right = torch.log_softmax(both, 2)[0, torch.arange(run.ids.size - 1), run.ids[0, 1:]]
    assert float(loss) == pytest.approx(-float(right.mean()), rel=1e-5)
    assert lens(TEXT, return_type=None) is None
    with pytest.raises(ValueError, match="return_type is 'text'"):
        lens(TEXT, return_type="text")
    with pytest.raises(NotImplementedError, match="edits="):
        lens.run_with_hooks(TEXT)


def test_methods_weights_and_continuations(lens: HookedModel, model: otattn.Model) -> None:
    other = model.as_transformer_lens(methods="sparsemax")
    _, cache = other.run_with_cache(TEXT, names_filter="blocks.1.attn.hook_pattern")
    assert (
        cache["pattern", 1].numpy() == model.capture(TEXT, "pattern", methods="sparsemax")["pattern", 1]
    ).all()
    query = model.projections(2).query
    assert (lens.W_Q[2, 3].numpy() == query[:, 96:128]).all() and lens.W_O.shape == (4, 6, 32, 192)
    assert lens.W_K.shape == lens.W_V.shape == (4, 6, 192, 32)
    made = model.generate(TEXT, 5)
    assert lens.generate(TEXT, 5) == TEXT + made.text
    assert np.array_equal(lens.generate(lens.to_tokens(TEXT), 5)[0, -5:], made.ids)


@pytest.mark.parametrize("value", ["no", 2, [True]])
def test_flags_are_true_or_false(lens: HookedModel, value: Any) -> None:
    for name, call in (
        ("prepend_bos", lens.to_tokens),
        ("truncate", lens.to_tokens),
        ("prepend_bos", lens.to_str_tokens),
        ("prepend_bos", lens.forward),
        ("remove_batch_dim", lens.run_with_cache),
        ("return_cache_object", lens.run_with_cache),
        ("do_sample", lens.generate),
        ("scores", lambda text, **flag: lens.model.weights(text, 0, 0, **flag)),
    ):
        with pytest.raises(TypeError, match=rf"{name.removeprefix('do_')} is .*, wanted True or False"):
            call("ab cd", **{name: value})
