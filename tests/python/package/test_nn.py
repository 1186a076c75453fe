"""otattn.nn against torch's own module, weights loaded both ways."""

from __future__ import annotations

import itertools
import sys
import types
import unittest
import warnings
from pathlib import Path

import otattn
import pytest
import torch
from otattn import _leaks
from torch import nn


def pair(**arguments: object) -> tuple[nn.MultiheadAttention, otattn.nn.Attention]:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(12, 3, dtype=torch.float64, **arguments)  # type: ignore[arg-type]
    ours = otattn.nn.Attention(12, 3, dtype=torch.float64, **arguments)  # type: ignore[arg-type]
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.4)
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    return theirs, ours


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("widths", [{}, {"kdim": 5, "vdim": 7}])
def test_forward_is_that_of_multihead_attention(
    batch_first: bool, bias: bool, widths: dict[str, int]
) -> None:
    theirs, ours = pair(batch_first=batch_first, bias=bias, **widths)
    q = torch.randn(2, 4, 12, dtype=torch.float64)
    k = torch.randn(2, 6, widths.get("kdim", 12), dtype=torch.float64)
    v = torch.randn(2, 6, widths.get("vdim", 12), dtype=torch.float64)
    if not batch_first:
        q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    padding = torch.zeros(2, 6, dtype=torch.bool)
    padding[1, 4:] = True
    mask = torch.zeros(4, 6, dtype=torch.bool)
    mask[0, 3:] = True
    added = torch.randn(6, 4, 6, dtype=torch.float64)
    hard = torch.zeros(4, 6, dtype=torch.float64).masked_fill(mask, -torch.inf)
    masks = (None, mask, added, hard)
    for key_padding, attn, average in itertools.product((None, padding), masks, (True, False)):
        if key_padding is not None and attn is not None and attn.dtype != torch.bool:
            key_padding = torch.zeros(2, 6, dtype=torch.float64).masked_fill(padding, -torch.inf)
        arguments = {"key_padding_mask": key_padding, "attn_mask": attn, "average_attn_weights": average}
        expected, found = theirs(q, k, v, **arguments), ours(q, k, v, **arguments)
        assert (expected[0] - found[0]).abs().max() <= 1e-13
        assert (expected[1] - found[1]).abs().max() <= 1e-13
    assert ours(q, k, v, need_weights=False)[1] is None


def test_unbatched_self_attention_and_causal() -> None:
    theirs, ours = pair()
    x = torch.randn(5, 12, dtype=torch.float64)
    for a, b in zip(theirs(x, x, x), ours(x, x, x), strict=True):
        assert (a - b).abs().max() <= 1e-13 and a.shape == b.shape
    mask = nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    expected = theirs(x, x, x, attn_mask=mask, is_causal=True)[0]
    assert (expected - ours(x, x, x, attn_mask=mask, is_causal=True)[0]).abs().max() <= 1e-13
    assert (expected - ours(x, x, x, is_causal=True)[0]).abs().max() <= 1e-13


@pytest.mark.parametrize("added", [{}, {"add_bias_kv": True}, {"add_zero_attn": True}])
def test_a_mask_holds_beside_is_causal(added: dict[str, bool]) -> None:
    """As in torch where weights are asked for; otherwise torch takes the causal one instead, which hides
    the keys that the module adds."""
    theirs, ours = pair(batch_first=True, **added)
    theirs, ours = theirs.eval(), ours.eval()
    x = torch.rand(2, 5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    causal = torch.ones(5, 5).triu(1).bool()
    for mask in (causal, causal.flip(0, 1), causal.T & ~torch.eye(5, dtype=torch.bool)):
        expected = theirs(x, x, x, attn_mask=mask, is_causal=True, need_weights=True)[0]
        assert (expected - theirs(x, x, x, attn_mask=mask, need_weights=False)[0]).abs().max() <= 1e-13
        for need in (True, False):
            found = ours(x, x, x, attn_mask=mask, is_causal=True, need_weights=need)[0]
            assert (expected - found).abs().max() <= 1e-13
        aside = theirs(x, x, x, attn_mask=mask, is_causal=True, need_weights=False)[0]
        assert (aside - expected).abs().max() > 1e-3 or (mask is causal and not added)


STARTS = {"temperature": 1.0, "alpha": 1.5, "cap": 2.0, "strength": 1.0, "lower": 0.5, "upper": 2.0}


@pytest.mark.parametrize(
    ("method", "learn"),
    [
        ("softmax", ("temperature",)),
        ("entmax:1.5", ("temperature", "alpha")),
        ("softmax/capped:2", ("cap",)),
        ("softmax/relaxed:1", ("strength", "temperature")),
        ("softmax/elastic:0.5,4", ("strength",)),
        ("softmax/bounded:0.5,2", ("lower", "upper")),
    ],
)
def test_learned_numbers_get_gradients(method: str, learn: tuple[str, ...]) -> None:
    torch.manual_seed(1)
    start = {
        name: value
        for name, value in (("cap", 1.2), ("strength", 0.7), ("lower", 0.95), ("upper", 1.05))
        if name in learn
    }
    layer = otattn.nn.Attention(8, 2, method=method, learn=learn, dtype=torch.float64, **start)
    x = torch.randn(6, 2, 8, dtype=torch.float64)
    out, _ = layer(x, x, x)
    out.square().sum().backward()
    for name in learn:
        gradient = getattr(layer, f"log_{name}").grad
        number = layer.numbers()[name].detach()
        assert torch.allclose(number, torch.full_like(number, start.get(name, STARTS[name])), atol=1e-6)
        assert gradient is not None and (gradient != 0).any()
    again = otattn.nn.Attention(8, 2, method=method, learn=learn, dtype=torch.float64)
    again.load_state_dict(layer.state_dict())
    assert torch.equal(again(x, x, x)[0], out)


def test_what_is_combined_before_the_call_has_four_bytes() -> None:
    torch.manual_seed(3)
    x = torch.randn(1, 3, 8, dtype=torch.bfloat16)
    layer = otattn.nn.Attention(8, 2, batch_first=True, learn=("temperature",), dtype=torch.bfloat16)
    mask, padding = torch.zeros(3, 3, dtype=torch.bfloat16), torch.zeros(1, 3, dtype=torch.bfloat16)
    mask[:, 0], padding[:, 0], padding[:, 1] = 256.0, 1.0, 256.0
    weights = layer(x, x, x, padding, attn_mask=mask)[1].float()
    # Added in 2 bytes, 257 is 256, so that the first two keys get the same share.
    scores = torch.tensor([257.0, 256.0])
    assert (weights[0, :, :2] - scores.softmax(0)).abs().max() <= 0.2 and (weights[0, :, 0] > 0.5).all()
    assert all(
        number.dtype == torch.float32 for number in layer.numbers().values() if torch.is_tensor(number)
    )


def test_presets() -> None:
    torch.manual_seed(2)
    x = 2 * torch.randn(7, 1, 8, dtype=torch.float64)
    ceta = otattn.nn.CETA(8, 2, dtype=torch.float64, tolerance=1e-12)
    weights = ceta(x, x, x, average_attn_weights=False)[1]
    assert (weights.sum(-2) - 1).abs().max() <= 1e-10
    nothing = otattn.nn.ElasticAttention(8, 2, strength=0.5, steps=0, dtype=torch.float64)
    plain = otattn.nn.Attention(8, 2, dtype=torch.float64)
    plain.load_state_dict(nothing.state_dict())
    assert torch.equal(nothing(x, x, x)[0], plain(x, x, x)[0])
    some = otattn.nn.ElasticAttention(8, 2, strength=1.0, steps=30, dtype=torch.float64)
    some.load_state_dict(ceta.state_dict())
    even = otattn.nn.CETA(8, 2, rounds=30, dtype=torch.float64)
    even.load_state_dict(ceta.state_dict())
    assert (some(x, x, x)[0] - even(x, x, x)[0]).abs().max() <= 1e-10


def test_refusals() -> None:
    for arguments, name in (
        ({"add_zero_attn": True, "sink": 1.0}, "add_zero_attn"),
        ({"learn": ("speed",)}, "learn"),
        ({"learn": ("lower",), "lower": 0.0}, "lower is 0.0, wanted more than 0 and less than 1 to"),
        ({"learn": ("alpha",), "alpha": 1.0}, "alpha is 1.0, wanted more than 1 to learn it"),
        ({"learn": ("cap",), "cap": 1.0}, "cap is 1.0, wanted more than 1 to learn it"),
        (
            {"learn": ("strength",), "strength": 2.0, "method": "softmax/elastic:0.5,4"},
            "strength is 2.0, wanted more than 0 and less than 2 to",
        ),
        (
            {
                "learn": ("strength",),
                "strength": 0.0,
                "method": otattn.Regulariser(lambda x: max(x, 0.0), bool),
            },
            "strength is 0.0, wanted more than 0 to learn it",
        ),
        ({"learn": ("upper",), "upper": float("nan")}, "upper is nan, wanted more than 1"),
    ):
        with pytest.raises(ValueError, match=name):
            otattn.nn.Attention(8, 2, **arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="embed_dim is 8"):
        otattn.nn.Attention(8, 3)
    # A bound of 0 that is not learned stands.
    assert otattn.nn.Attention(8, 2, method="softmax/bounded:0.5,2", lower=0.0).numbers() == {"lower": 0.0}


@pytest.mark.parametrize(
    "arguments, said",
    [
        ({"method": "softmx"}, "did you mean 'softmax'"),
        ({"method": "softmax/elastic:3,2"}, "0 <= LAMBDA < 2"),
        ({"tempreture": 2.0}, "'tempreture'.*did you mean 'temperature'"),
        ({"max_round": 9}, "'max_round'.*did you mean 'max_rounds'"),
        ({"is_causal": True}, "'is_causal', which is no argument"),
        ({"tolerance": -1.0}, "tolerance is -1.0, wanted more than 0"),
        ({"temperature": -1.0}, "temperature is -1.0, wanted more than 0"),
        ({"dropout": 2.0}, "dropout is 2.0, wanted 0 to 1"),
        ({"window": 3}, r"window is 3, wanted \(left, right\)"),
        ({"rows": "soft"}, "rows is 'soft'"),
        ({"solver": "foo"}, r"solver is 'foo', wanted a name of otattn.solvers\(\)"),
        ({"backend": "x"}, r"backend is 'x'.*otattn.backends\(\) lists them"),
        ({"alpha": 1.5}, "alpha is given, but the method 'softmax' has none"),
        ({"learn": ("alpha",)}, "learn has 'alpha'.*'softmax' has none"),
        ({"method": "softmax/bounded:0.5,2", "lower": 3.0}, "lower is 3"),
    ],
)
def test_what_no_call_could_take_is_refused_at_once(arguments: dict[str, object], said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        otattn.nn.Attention(8, 2, **arguments)  # type: ignore[arg-type]
    if not {"dropout", "learn", "is_causal"} & set(arguments):
        options = dict(arguments)
        method = str(options.pop("method", "softmax"))
        with pytest.raises((ValueError, TypeError), match=said):
            otattn.hf.set_attention(nn.Linear(2, 2), method, **options)


def test_the_future_leaks_through_coupled_columns_of_causal_attention() -> None:
    _leaks.forget()
    x = torch.randn(2, 1, 5, 4)
    lower = torch.ones(5, 5).tril().bool()
    added = torch.zeros(5, 5).masked_fill(~lower, -torch.inf)
    least = torch.zeros(5, 5).masked_fill(~lower, torch.finfo(torch.float32).min)
    tokens = torch.randn(5, 1, 8)

    def module(method: str) -> None:
        layer = otattn.nn.Attention(8, 2, method=method)
        layer(tokens, tokens, tokens, attn_mask=~lower, is_causal=True)

    calls = {
        "softmax/capped:2": lambda m: otattn.attention(x, x, x, is_causal=True, method=m),
        "softmax/capped:2.1": lambda m: otattn.attention(*3 * [x.numpy()], is_causal=True, method=m),
        "softmax/relaxed:1": lambda m: otattn.attention(x, x, x, lower, method=m),
        "softmax/relaxed:2": lambda m: otattn.attention(*3 * [x.numpy()], added.numpy(), method=m),
        "softmax/relaxed:3": lambda m: otattn.attention(*3 * [x.bfloat16()], added.bfloat16(), method=m),
        "softmax/elastic:0.5,3": lambda m: otattn.attention(x, x, x, least, method=m),
        "softmax/relaxed:5": lambda m: otattn.attention(x, x, x, window=(2, 0), method=m),
        "softmax/elastic:0.5,2": lambda m: otattn.coupling(x[..., :5, :] @ x.mT, is_causal=True, method=m),
        "softmax/capped:3": module,
    }
    for method, call in calls.items():
        # Once, naming the line that called.
        with pytest.warns(UserWarning, match=f"'{method}' couple the rows.*later tokens") as caught:
            call(method)
            call(method)
        assert len(caught) == 1
        assert "otattn" not in Path(caught[0].filename).parts
    full, padded = torch.ones(5, 5).bool(), lower.clone()
    padded[0] = True
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for mask in (None, full, padded, torch.eye(5).bool()):
            otattn.attention(x, x, x, mask, method="softmax/relaxed:9")
        otattn.attention(x, x, x, is_causal=True, method="softmax/online:9")
        otattn.attention(x[:, :, :1], x, x, is_causal=True, method="softmax/capped:9")


def test_torchs_own_samples_of_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    # Its tables of samples import a package for golden files, of which they need a name.
    stub = types.ModuleType("expecttest")
    stub.TestCase = unittest.TestCase  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "expecttest", stub)
    modules = pytest.importorskip("torch.testing._internal.common_modules")
    (info,) = (x for x in modules.module_db if x.module_cls is nn.MultiheadAttention)
    count = 0
    for training in (True, False):
        words = {"device": "cpu", "dtype": torch.float64, "requires_grad": False, "training": training}
        for sample in info.module_inputs_func(info, **words):
            made, given = sample.constructor_input, sample.forward_input
            theirs = nn.MultiheadAttention(*made.args, **made.kwargs, dtype=torch.float64).train(training)
            ours = otattn.nn.Attention(*made.args, **made.kwargs, dtype=torch.float64).train(training)
            ours.load_state_dict(theirs.state_dict())
            for found, want in zip(
                ours(*given.args, **given.kwargs), theirs(*given.args, **given.kwargs), strict=True
            ):
                assert (found is None) == (want is None), sample.desc
                if want is not None:
                    assert found.shape == want.shape and (found - want).abs().max() <= 1e-13, sample.desc
            count += 1
    assert count >= 128


@pytest.mark.parametrize("own", [{"add_bias_kv": True}, {"add_zero_attn": True}])
def test_more_keys_with_causal_masks_and_gradients(own: dict[str, bool]) -> None:
    theirs, ours = pair(batch_first=True, **own)
    x = torch.randn(2, 5, 12, dtype=torch.float64, requires_grad=True)
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
    want = theirs(x, x, x, attn_mask=hidden)
    found = ours(x, x, x, is_causal=True)
    upstream = [torch.randn_like(y) for y in want]
    for a, b in zip(
        torch.autograd.grad(found, (x, *ours.parameters()), upstream, allow_unused=True),
        torch.autograd.grad(want, (x, *theirs.parameters()), upstream, allow_unused=True),
        strict=True,
    ):
        assert (a - b).abs().max() <= 1e-12
    assert (found[1] - want[1]).abs().max() <= 1e-13


@pytest.mark.parametrize("method", ["softmax", "entmax:1.5", "softmax/exact"])
def test_layers_of_torch_in_evaluation(method: str) -> None:
    torch.manual_seed(4)
    more = {"dtype": torch.float64, "batch_first": True}
    layer = nn.TransformerEncoderLayer(12, 2, 16, dropout=0.0, **more)
    encoder = nn.TransformerEncoder(layer, 2)
    for each in encoder.layers:
        each.self_attn = otattn.nn.Attention(12, 2, method=method, **more)
    x = torch.randn(3, 6, 12, dtype=torch.float64)
    lengths = torch.tensor([6, 4, 1])
    padding = torch.arange(6) >= lengths[:, None]
    right = encoder.train()(x)
    with torch.no_grad():
        assert torch.equal(encoder.eval()(x), right)
        # With padding torch hands on a nested tensor of the sequences alone.
        found = encoder(x, src_key_padding_mask=padding)
        for k, length in enumerate(lengths):
            alone = encoder(x[k : k + 1, :length])
            assert (found[k, :length] - alone[0]).abs().max() <= 1e-7
            assert (found[k, length:] == 0).all()


def test_layers_of_torch_that_are_quantized() -> None:
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(8, 8), otattn.nn.Attention(8, 2)).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        swapped = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    x = torch.randn(3, 1, 8)
    assert type(swapped[0]) is not nn.Linear
    assert torch.equal(swapped[1](x, x, x)[0], model[1](x, x, x)[0])
