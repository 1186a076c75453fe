"""The logit lens of otattn.hf, beside one made by hand in transformers and beside `otattn.Model`'s."""

from __future__ import annotations

from typing import Any

import numpy as np
import otattn
import pytest
import torch
from otattn import Edit
from test_hf import model
from test_hf_points import FAMILIES, GROUPS, IDS, family

transformers = pytest.importorskip("transformers")

BOUND = 2e-5  # of probabilities, of f32 runs that sum in other orders
WITH_HEADS = [
    *((kind, settings) for kind, settings in FAMILIES if kind != "T5"),
    ("Granite", {**GROUPS, "logits_scaling": 3.0}),
    ("Gemma2", {**GROUPS, "head_dim": 8, "final_logit_softcapping": 5.0}),
]


def by_hand(network: Any, ids: torch.Tensor) -> torch.Tensor:
    """Probabilities (layers + 1, batch, tokens, vocabulary) of a model whose parts have Llama's names."""
    streams: list[torch.Tensor] = []
    handles = [
        layer.register_forward_pre_hook(lambda _, given: streams.append(given[0]))
        for layer in network.model.layers
    ]
    last = network.model.layers[-1]
    handles.append(
        last.register_forward_hook(
            lambda _, __, out: streams.append(out[0] if isinstance(out, tuple) else out)
        )
    )
    network(ids)
    for handle in handles:
        handle.remove()
    logits = network.lm_head(network.model.norm(torch.stack(streams)))
    config = network.config
    cap = getattr(config, "final_logit_softcapping", None)
    logits = cap * torch.tanh(logits / cap) if cap else logits
    logits = logits / (getattr(config, "logits_scaling", None) or 1.0)
    logits = logits * (getattr(config, "logit_scale", None) or 1.0)
    return logits.double().softmax(-1)


@pytest.mark.parametrize(
    ("kind", "settings"), WITH_HEADS, ids=[f"{f}-{k}" for k, (f, _) in enumerate(WITH_HEADS)]
)
def test_lens_of_families(kind: str, settings: dict[str, Any], tmp_path: Any) -> None:
    network, ours = family(kind, settings, tmp_path)
    found = otattn.hf.logit_lens(network, IDS, top=3)
    wanted = ours.logit_lens(IDS.numpy(), top=3)
    assert found.ids.shape == wanted.ids.shape == (3, 2, 6, 3)
    assert np.abs(found.probabilities - wanted.probabilities).max() <= BOUND
    # Where two tokens are nearly as likely either may come first.
    apart = np.abs(np.diff(wanted.probabilities, axis=-1)).min(-1) > 2 * BOUND
    assert apart.mean() > 0.7 and (found.ids[..., 0] == wanted.ids[..., 0])[apart].all()
    assert found.texts[0][1][0] == str(found.ids[0, 1, 0, 0]) and found.tokens[1][:2] == ["35", "8"]
    if hasattr(network, "model") and hasattr(network.model, "layers") and hasattr(network, "lm_head"):
        compare_by_hand(network, found)
    # The last layer is what the model predicts.
    assert np.abs(predicted(network, IDS) - found.probabilities[-1, ..., 0]).max() <= BOUND


@torch.no_grad()
def predicted(network: Any, ids: torch.Tensor) -> Any:
    return network(ids).logits.double().softmax(-1).max(-1).values.numpy()


@torch.no_grad()
def compare_by_hand(network: Any, found: otattn.LogitLens) -> None:
    hand = by_hand(network, IDS).numpy()
    places = np.take_along_axis(hand, found.ids, -1)
    assert np.abs(places - found.probabilities).max() <= BOUND
    assert np.abs(hand.max(-1) - found.probabilities[..., 0]).max() <= BOUND


def test_lens_of_what_model_does_not_read() -> None:
    torch.manual_seed(0)
    size = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
    config = transformers.CohereConfig(vocab_size=40, logit_scale=3.0, **size, **GROUPS)
    network = transformers.CohereForCausalLM(config).eval()
    compare_by_hand(network, otattn.hf.logit_lens(network, IDS, top=2))


def test_long_and_padded_texts_edits_and_figures() -> None:
    network = model("llama")
    ids = torch.arange(2 * 90).view(2, 90) % 40
    whole = otattn.hf.logit_lens(network, ids)
    assert np.abs(predicted(network, ids) - whole.probabilities[-1, ..., 0]).max() <= BOUND
    assert all("forward" not in part.__dict__ for part in network.modules())
    mask = torch.ones_like(ids)
    mask[1, 4:] = 0
    padded = otattn.hf.logit_lens(network, {"input_ids": ids, "attention_mask": mask}, tokenizer=Letters())
    assert [len(tokens) for tokens in padded.tokens] == [90, 4] and padded.tokens[1][3] == "<13>"
    assert padded.texts[0][0][0] == f"<{padded.ids[0, 0, 0, 0]}>"
    chart = otattn.show(padded, batch=1)
    assert chart.table is not None and len(chart.table) == 3 * 4
    assert chart.table[0]["token"] == padded.texts[0][1][0]
    with pytest.raises(ValueError, match="padded on the left"):
        otattn.hf.logit_lens(network, {"input_ids": ids, "attention_mask": mask.flip(1)})
    # An edit changes the run once, not again on the way to the head.
    edit = Edit("resid_post", factor=0.5, layer=1)
    with otattn.hf.edited(network, edit):
        found = otattn.hf.logit_lens(network, ids[:, :5])
        wanted = predicted(network, ids[:, :5])
    assert np.abs(wanted - found.probabilities[-1, ..., 0]).max() <= BOUND
    with otattn.hf.edited(network, Edit("ln_final.hook_normalized", token=3)):
        found = otattn.hf.logit_lens(network, ids[:, :5])
    assert np.abs(found.probabilities - whole.probabilities[:, :, :5]).max() <= BOUND


class Letters:
    def decode(self, ids: list[int]) -> str:
        return "".join(f"<{one}>" for one in ids)


class Other(torch.nn.Module):
    """A head that does more than is behind the blocks."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, input_ids: torch.Tensor, **named: Any) -> Any:
        out = self.network(input_ids, **named)
        out.logits = out.logits + input_ids[..., None]
        return out


def test_models_that_have_no_lens_are_refused_by_name(tmp_path: Any) -> None:
    network = model("llama")
    encoder, _ = family("T5", dict(FAMILIES)["T5"], tmp_path)
    size = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 40}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    both = transformers.BartForConditionalGeneration(
        transformers.BartConfig(**size, **heads, encoder_ffn_dim=16, decoder_ffn_dim=16)
    ).eval()
    for one, kind, words in (
        (network.model, ValueError, "no logits of tokens"),
        (encoder, ValueError, "no logits of tokens"),
        (both, ValueError, "BartForConditionalGeneration has no list of blocks"),
        (Other(network), RuntimeError, "Other makes of the stream behind its last block other logits"),
    ):
        with pytest.raises(kind, match=words):
            otattn.hf.logit_lens(one, IDS)
    with pytest.raises(TypeError, match=r"inputs have ids of list, wanted a tensor \(batch, tokens\)"):
        otattn.hf.logit_lens(network, [3, 4])
    with pytest.raises(ValueError, match="top is 41"):
        otattn.hf.logit_lens(network, IDS, top=41)
