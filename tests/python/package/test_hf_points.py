"""Points, edits and patching through otattn.hf, beside `otattn.Model` on the same checkpoint."""

from __future__ import annotations

import warnings
from typing import Any, cast

import numpy as np
import otattn
import pytest
import torch
from otattn import Edit, _hf_watch
from test_hf import model

transformers = pytest.importorskip("transformers")

BOUND = 2e-5  # relative, of f32 runs that sum in other orders
IDS = torch.tensor([[3, 14, 15, 9, 26, 5], [35, 8, 9, 7, 9, 32]])
STREAMS = ("hook_resid_pre", "hook_resid_post")


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, otattn.Model]:
    network = model(request.param, bos_token_id=1, eos_token_id=2)
    with torch.no_grad():
        for weights in network.parameters():
            if weights.dim() > 1:
                weights.normal_(0, 0.3)
    folder = tmp_path_factory.mktemp(request.param)
    network.save_pretrained(folder)
    return network, otattn.Model(folder)


def near(found: Any, wanted: Any) -> bool:
    a, b = (np.asarray(x.detach() if isinstance(x, torch.Tensor) else x, np.float64) for x in (found, wanted))
    same = np.isinf(a) == np.isinf(b)
    scale = np.abs(b[np.isfinite(b)]).max()
    return bool(same.all()) and np.abs(np.where(np.isinf(b), 0, a - b)).max() <= BOUND * scale


def test_points_hold_what_model_captures(pair: tuple[Any, otattn.Model]) -> None:
    network, ours = pair
    names = otattn.hf.points(network)
    assert set(names) <= set(ours.points) and len(names) == 2 * 8
    wanted = ours.capture(IDS.numpy(), names)
    found = otattn.hf.capture(network, IDS, "all")
    assert list(found) == names
    for name in names:
        assert found[name].shape == wanted[name].shape and near(found[name], wanted[name]), name
    assert list(otattn.hf.capture(network, {"input_ids": IDS}, ["z", "pattern"], layers=1)) == [
        "blocks.1.attn.hook_pattern",
        "blocks.1.attn.hook_z",
    ]


def test_layers_are_counted_before_anything_was_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models ask for the implementation, too; that they are no layers is known from the first call on."""
    kind = transformers.PreTrainedModel
    for name in ("post_init", "get_correct_attn_implementation", "set_attn_implementation"):
        monkeypatch.setattr(kind, name, getattr(kind, name))
    monkeypatch.setattr(_hf_watch, "_watching", [])
    network = model("gpt2")
    assert len(otattn.hf.points(network)) == 16
    monkeypatch.setattr(_hf_watch, "_watching", [])
    assert otattn.hf.set_attention(network, "softmax") == 2


def places(shape: tuple[int, ...], pairs: bool) -> dict[str, Any]:
    heads = {"head": [0, 1]} if len(shape) == 4 else {}
    return (
        {"sequence": 1, "token": slice(-4, -1), "column": slice(0, 2), **heads}
        if pairs or heads
        else {
            "sequence": slice(0, 2),
            "token": [0, 3, 5],
            "column": range(2, 7),
        }
    )


@pytest.mark.parametrize("kind", ["scale", "replace", "add", "mean"])
def test_edits_are_those_of_model(pair: tuple[Any, otattn.Model], kind: str) -> None:
    network, ours = pair
    generator = np.random.default_rng(4)
    otattn.hf.set_attention(network, "softmax")
    plain = network(IDS).logits
    shapes = {name: x.shape for name, x in otattn.hf.capture(network, IDS, "all", layers=0).items()}
    for name, shape in shapes.items():
        if kind in ("add", "mean") and not name.endswith(("resid_pre", "hook_v")):
            continue
        pairs = name.endswith(("scores", "pattern"))
        where = {"column": slice(1, 3)} if kind == "mean" else places(shape, pairs)
        values = None
        if kind in ("replace", "add"):
            # Several pieces take one number.
            lists = isinstance(where.get("token"), list)
            values = np.float32(0.7) if lists else generator.normal(size=where["column"].stop).astype("f")
        edits = [Edit(name, kind, values=values, factor=0.5 if kind in ("scale", "add") else None, **where)]
        with otattn.hf.edited(network, *edits):
            found = network(IDS).logits
        assert near(found, ours.run(IDS.numpy(), edits=edits).logits), name
        assert (found - plain).abs().max() > 100 * BOUND * plain.abs().max() or name.endswith("resid_post")
    assert torch.equal(network(IDS).logits, plain) and not network._forward_pre_hooks


def test_edits_stack_and_every_layer_is_meant(pair: tuple[Any, otattn.Model]) -> None:
    network, ours = pair
    edits = [Edit("z", head=0), Edit("resid_pre", "add", layer=1, values=np.ones(24, "f"))]
    with otattn.hf.edited(network, edits[0]):
        with otattn.hf.edited(network, edits[1]):
            found = network(IDS).logits
        inner = otattn.hf.capture(network, IDS, "z")
        outer = network(IDS).logits
    assert near(found, ours.run(IDS.numpy(), edits=edits).logits)
    assert near(outer, ours.run(IDS.numpy(), edits=edits[:1]).logits)
    assert all(bool((x[:, :, 0] == 0).all()) for x in inner.values()) and len(inner) == 2


@pytest.mark.parametrize(("point", "by"), [("resid_pre", None), ("z", None), ("pattern", "head")])
def test_patching_is_that_of_model(pair: tuple[Any, otattn.Model], point: str, by: str | None) -> None:
    network, ours = pair
    given: dict[str, Any] = {"by": by, "answer": 5, "other": 9}
    found = otattn.hf.patch(network, IDS[0], IDS[1], point, **given)
    wanted = ours.patch(IDS[0].numpy(), IDS[1].numpy(), point, **given)
    assert (found.by, found.answer, found.other) == (wanted.by, 5, 9)
    assert found.tokens == [str(int(token)) for token in IDS[1]]
    ends = abs(wanted.clean) + abs(wanted.corrupt) + 10
    assert np.abs(found.shares - wanted.shares).max() <= 10 * BOUND * ends / abs(
        wanted.clean - wanted.corrupt
    )
    assert np.abs(wanted.shares).max() > 0.01


@pytest.mark.parametrize("method", ["softmax/online:2", "entmax:1.5", "softmax/relaxed:1"])
def test_other_methods_have_points(method: str) -> None:
    network = model("gpt2")
    otattn.hf.set_attention(network, method)
    with torch.no_grad(), warnings.catch_warnings():
        # Later tokens change earlier ones, which is said once a process.
        warnings.simplefilter("ignore", UserWarning)
        plain = network(IDS, output_attentions=True)
        found = otattn.hf.capture(network, IDS, ["pattern", "z", "v"])
        # What nobody changed is the same, and values are mixed by weights as they are left.
        with otattn.hf.edited(network, Edit("pattern", factor=1.0)):
            again = network(IDS).logits
    assert torch.allclose(found["pattern", 1], plain.attentions[1], atol=1e-6)
    mixed = found["pattern", 0] @ found["v", 0].transpose(1, 2)
    assert torch.allclose(mixed.transpose(1, 2), found["z", 0], atol=1e-5)
    assert torch.allclose(again, plain.logits, atol=1e-4)


def test_gradients_go_through_edits(pair: tuple[Any, otattn.Model]) -> None:
    network, _ = pair
    values = torch.zeros(24, requires_grad=True)

    def loss() -> torch.Tensor:
        with otattn.hf.edited(network, Edit("resid_pre", "add", layer=1, token=2, values=values)):
            return network(IDS).logits.square().sum()

    (slope,) = torch.autograd.grad(loss(), values)
    step = torch.zeros(24)
    step[3] = 1e-2
    with torch.no_grad():
        ends = []
        for sign in (1, -1):
            values += sign * step
            ends.append(float(loss()))
            values -= sign * step
    assert float(slope[3]) == pytest.approx((ends[0] - ends[1]) / 2e-2, rel=2e-2)


def test_what_an_edit_cannot_mean_is_refused(pair: tuple[Any, otattn.Model]) -> None:
    network, _ = pair
    for edit, words in (
        (Edit("mlp_out"), "no point 'mlp_out'"),
        (Edit("z", layer=2), "layers 0 to 1"),
        (Edit("z", "times"), "wanted one of scale, replace, add, mean"),
        (Edit("z", head=7), "head is 7"),
        (Edit("pattern", "mean"), "have no mean"),
        (Edit("resid_pre", head=0), "has no heads"),
        (Edit("z", "replace"), "has no values"),
        (Edit("z", "replace", values=np.ones(5)), "values have shape"),
    ):
        with pytest.raises(ValueError, match=words), otattn.hf.edited(network, edit):
            network(IDS)
    generate = {"max_new_tokens": 3, "do_sample": False, "pad_token_id": 0}
    with otattn.hf.edited(network, Edit("z", token=1)):
        with pytest.raises(ValueError, match="use_cache=False"):
            network.generate(IDS, **generate)
        network.generate(IDS, use_cache=False, **generate)
    mask = torch.ones_like(IDS)
    mask[0, 5:] = 0
    with otattn.hf.edited(network, Edit("z", "mean")), pytest.raises(ValueError, match="padding"):
        network(IDS, attention_mask=mask)
    with otattn.hf.edited(network, Edit("z", head=0)):
        # Whole heads need no token: a cache is the same as none.
        assert torch.equal(
            network.generate(IDS, **generate), network.generate(IDS, use_cache=False, **generate)
        )
    with pytest.raises(ValueError, match="equally many"):
        otattn.hf.patch(network, IDS[0], IDS[1, :4])
    with pytest.raises(ValueError, match="one of answer and other is given"):
        otattn.hf.patch(network, IDS[0], IDS[1], answer=3)
    with pytest.raises(TypeError, match=r"wanted otattn\.Edit"), otattn.hf.edited(network, cast(Any, "z")):
        pass
    assert not network._forward_pre_hooks
    with pytest.raises(ValueError, match="no logits of tokens"):
        otattn.hf.patch(network.base_model, IDS[0], IDS[1])
