"""otattn.hf on small random models of transformers: BERT, GPT-2 and a Llama with grouped heads."""

from __future__ import annotations

import functools
import sys
from typing import Any

import otattn
import pytest
import torch
from otattn import _leaks

transformers = pytest.importorskip("transformers")


def model(kind: str, **arguments: Any) -> Any:
    torch.manual_seed(0)
    common = {"vocab_size": 40, "attn_implementation": "eager", **arguments}
    if kind == "bert":
        config = transformers.BertConfig(
            hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=32, **common
        )
        return transformers.BertModel(config).eval()
    if kind == "gpt2":
        config = transformers.GPT2Config(n_embd=24, n_layer=2, n_head=3, n_positions=32, **common)
        return transformers.GPT2LMHeadModel(config).eval()
    config = transformers.LlamaConfig(
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=32,
        **common,
    )
    return transformers.LlamaForCausalLM(config).eval()


@pytest.fixture
def tokens() -> Any:
    torch.manual_seed(1)
    mask = torch.ones(2, 7, dtype=torch.long)
    mask[1, 5:] = 0
    return {"input_ids": torch.randint(0, 40, (2, 7)), "attention_mask": mask}


@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama"])
@pytest.mark.parametrize("padded", [False, True])
def test_softmax_is_eager(kind: str, padded: bool, tokens: Any) -> None:
    otattn.hf.register()
    network = model(kind)
    given = tokens if padded else {"input_ids": tokens["input_ids"]}
    real = tokens["attention_mask"].bool() if padded else torch.ones(2, 7, dtype=torch.bool)
    with torch.no_grad():
        expected = network(**given, output_attentions=True)
        network.set_attn_implementation("otattn_softmax")
        found = network(**given, output_attentions=True)
    assert (expected[0] - found[0])[real].abs().max() <= 1e-5
    assert len(found.attentions) == 2
    for a, b in zip(expected.attentions, found.attentions, strict=True):
        assert (a - b).transpose(1, 2)[real].abs().max() <= 1e-6


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
@pytest.mark.parametrize("method", ["softmax", "entmax:1.5"])
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_generation_with_a_cache(kind: str, method: str, cache: str, tokens: Any) -> None:
    otattn.hf.register()
    network = model(kind)
    network.set_attn_implementation(otattn.hf.implementation_name(method))
    arguments = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    kept = {"cache_implementation": "static"} if cache == "static" else {}
    with torch.no_grad():
        found = network.generate(tokens["input_ids"], **arguments, **kept)
        expected = network.generate(tokens["input_ids"], **arguments, use_cache=False)
    assert torch.equal(found, expected)


def seen_masks(network: Any, monkeypatch: pytest.MonkeyPatch, **given: Any) -> list[Any]:
    """The shapes of the masks that the first layer's calls of attention were given in a forward pass."""
    shapes: list[Any] = []
    solved = otattn.hf.solved_by_tokens

    def watched(spec: Any, wants: Any, operands: Any) -> Any:
        shapes.append(None if operands[3] is None else tuple(operands[3].shape))
        return solved(spec, wants, operands)

    with monkeypatch.context() as patched, torch.no_grad():
        patched.setattr(otattn.hf, "solved_by_tokens", watched)
        network(**given)
    return shapes[:1]


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_masks_that_say_nothing_are_not_made(cache: str, tokens: Any, monkeypatch: Any) -> None:
    """What is causal alone is an argument; a step behind a static cache is not, whose later keys are room."""
    otattn.hf.register("softmax")
    network = model("llama", attn_implementation="otattn_softmax")
    ids = tokens["input_ids"]
    kept = (
        transformers.StaticCache(network.config, max_cache_len=9)
        if cache == "static"
        else transformers.DynamicCache(config=network.config)
    )
    with torch.no_grad():
        whole = network(input_ids=ids).logits[:, -1]
        network.set_attn_implementation("eager")
        expected = network(input_ids=ids).logits[:, -1]
        network.set_attn_implementation("otattn_softmax")
    assert seen_masks(network, monkeypatch, input_ids=ids) == [None]
    assert seen_masks(network, monkeypatch, **tokens) == [(2, 1, 7, 7)]
    first = seen_masks(network, monkeypatch, input_ids=ids[:, :5], past_key_values=kept)
    assert first == ([(2, 1, 5, 9)] if cache == "static" else [None])
    middle = seen_masks(network, monkeypatch, input_ids=ids[:, 5:6], past_key_values=kept)
    assert middle == ([(2, 1, 1, 9)] if cache == "static" else [None])
    with torch.no_grad():
        last = network(input_ids=ids[:, 6:], past_key_values=kept).logits[:, -1]
    assert (whole - expected).abs().max() <= 1e-5
    assert (last - expected).abs().max() <= 1e-5


def test_two_tokens_behind_a_cache_have_a_mask(tokens: Any, monkeypatch: Any) -> None:
    """is_causal=True would see the first corner of the keys."""
    otattn.hf.register("softmax")
    network = model("llama", attn_implementation="otattn_softmax")
    kept = transformers.DynamicCache(config=network.config)
    with torch.no_grad():
        network(input_ids=tokens["input_ids"][:, :5], past_key_values=kept)
    given = {"input_ids": tokens["input_ids"][:, 5:], "past_key_values": kept}
    assert seen_masks(network, monkeypatch, **given) == [(2, 1, 2, 7)]


def test_bidirectional_methods_respect_padding(tokens: Any) -> None:
    otattn.hf.register()
    network = model("bert")
    network.set_attn_implementation("otattn_softmax-exact")
    with torch.no_grad():
        padded = network(**tokens, output_attentions=True)
        alone = network(tokens["input_ids"][1:, :5], output_attentions=True)
    assert (padded[0][1, :5] - alone[0][0]).abs().max() <= 1e-3
    plan = padded.attentions[0][1]
    assert (plan[:, :5, :5].sum(-2) - 1).abs().max() <= 1e-4 and plan[:, :, 5:].abs().max() == 0


def test_causal_models_and_columns(tokens: Any) -> None:
    otattn.hf.register()
    network = model("gpt2")
    ids = tokens["input_ids"]
    _leaks.forget()
    otattn.hf.register("softmax/bounded:0,2")
    network.set_attn_implementation("otattn_softmax-bounded:0,2")
    with torch.no_grad(), pytest.warns(UserWarning, match="later tokens change earlier outputs"):
        network(ids)
    network.set_attn_implementation("otattn_softmax-capped:2")
    _leaks.forget()
    with torch.no_grad(), pytest.warns(UserWarning, match="later tokens change earlier outputs") as caught:
        network(ids)
        network(ids)
    assert len([w for w in caught if "later tokens" in str(w.message)]) == 1
    with torch.no_grad():
        for name in ("otattn_softmax-online:2", "otattn_softmax-prefix"):
            network.set_attn_implementation(name)
            whole, part = network(ids).logits, network(ids[:, :4]).logits
            assert (whole[:, :4] - part).abs().max() <= 1e-4
        with pytest.raises(ValueError, match="use_cache=False"):
            network.generate(ids, max_new_tokens=3, do_sample=False, pad_token_id=0)
        network.set_attn_implementation("otattn_softmax-exact")
        with pytest.raises(otattn.Infeasible):
            network(ids)


TRIANGLE = torch.ones(6, 6, dtype=torch.bool).tril()
PLACE = torch.arange(6)
# Masks of a causal model, and the rows and keys of parts that are problems of their own.
PREFIX_MASKS = {
    "causal": (TRIANGLE, [slice(0, 6)]),
    "window": (TRIANGLE.triu(-2), []),
    "documents": (TRIANGLE & ((PLACE < 2)[:, None] == (PLACE < 2)), [slice(0, 2), slice(2, 6)]),
    "left padding": (TRIANGLE & (PLACE >= 2), [slice(2, 6)]),
    "right padding": (TRIANGLE & (PLACE < 4), [slice(0, 4)]),
}


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize(("mask", "parts"), PREFIX_MASKS.values(), ids=PREFIX_MASKS)
def test_masks_of_prefix_columns(mask: torch.Tensor, parts: list[slice], added: bool) -> None:
    torch.manual_seed(2)
    x = torch.randn(1, 2, 6, 3, dtype=torch.float64)
    given = torch.zeros(6, 6).masked_fill(~mask, torch.finfo(torch.float32).min) if added else mask
    run = functools.partial(
        otattn.hf.attention_forward, torch.nn.Identity(), method="softmax/prefix", output_attentions=True
    )
    weights = run(x, x, x, given.expand(1, 1, 6, 6))[1]
    assert weights is not None and ((weights > 0) == mask & mask.any(0)[:, None]).all()
    for part in parts:
        alone = run(*3 * [x[:, :, part]], None)[1]
        torch.testing.assert_close(weights[:, :, part, part], alone, rtol=1e-8, atol=1e-8)


def test_some_layers_and_options(tokens: Any) -> None:
    otattn.hf.register()
    network = model("bert")
    network.set_attn_implementation("otattn_softmax")
    with torch.no_grad():
        plain = network(**tokens, output_attentions=True).attentions
        assert otattn.hf.set_attention(network, "sparsemax", layers=[1], temperature=0.1) == 1
        mixed = network(**tokens, output_attentions=True).attentions
    assert torch.equal(plain[0], mixed[0]) and (mixed[1][0] == 0).any() and not (plain[1][0] == 0).any()
    with pytest.raises(ValueError, match="layers has 7"):
        otattn.hf.set_attention(network, "softmax", layers=[7])
    with pytest.raises(ValueError, match="softmaxx"):
        otattn.hf.register("softmaxx")


def test_training_reaches_every_parameter(tokens: Any) -> None:
    otattn.hf.register("softmax/relaxed:1")
    network = model("bert").train()
    network.set_attn_implementation("otattn_softmax-relaxed:1")
    network(**tokens)[0].square().sum().backward()
    missing = [n for n, p in network.named_parameters() if p.grad is None and "pooler" not in n]
    assert not missing


def test_aliases_are_registered(tokens: Any) -> None:
    names = otattn.hf.register()
    network = model("bert")
    found = {}
    for name in ("ceta", "sinkhorn", "assignment", "argmax", "entmax15"):
        assert f"otattn_{name}" in names
        network.set_attn_implementation(f"otattn_{name}")
        with torch.no_grad():
            found[name] = network(tokens["input_ids"])[0]
    network.set_attn_implementation("otattn_softmax-exact")
    with torch.no_grad():
        assert torch.equal(found["ceta"], network(tokens["input_ids"])[0])
    assert torch.equal(found["ceta"], found["sinkhorn"])


def encoder_decoder(kind: str) -> Any:
    torch.manual_seed(0)
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    common = {"vocab_size": 40, "d_model": 24, "attn_implementation": "eager", **ids}
    if kind == "t5":
        return transformers.T5ForConditionalGeneration(
            transformers.T5Config(d_kv=8, num_layers=1, num_heads=3, d_ff=32, **common)
        ).eval()
    sides = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in _SIDE.items()}
    if kind == "bart":
        config = transformers.BartConfig(max_position_embeddings=32, **sides, **common)
        return transformers.BartForConditionalGeneration(config).eval()
    sizes = {"num_mel_bins": 8, "max_source_positions": 9, "max_target_positions": 16}
    config = transformers.WhisperConfig(**sizes, **sides, **common)
    return transformers.WhisperForConditionalGeneration(config).eval()


_SIDE = {"layers": 1, "attention_heads": 2, "ffn_dim": 32}


@pytest.mark.parametrize("kind", ["bart", "t5", "whisper"])
def test_cross_attention_is_no_cache(kind: str) -> None:
    otattn.hf.register()
    network = encoder_decoder(kind)
    torch.manual_seed(1)
    mask = torch.ones(2, 9, dtype=torch.long)
    if kind == "whisper":
        given = {"input_features": torch.randn(2, 8, 18)}
    else:
        mask[1, 6:] = 0
        given = {"input_ids": torch.randint(3, 40, (2, 9)), "attention_mask": mask}
    network.set_attn_implementation("otattn_softmax")
    across = [
        k
        for k, (name, _) in enumerate(x for x in network.named_modules() if hasattr(x[1], "is_causal"))
        if "encoder_attn" in name or "EncDec" in name
    ]
    otattn.hf.set_attention(network, "softmax/exact", layers=across)
    # As many queries as keys, too: padding of the encoder is none of the decoder's.
    for queries in (5, 9):
        decoder = torch.randint(3, 40, (2, queries))
        with torch.no_grad():
            (plan,) = network(**given, decoder_input_ids=decoder, output_attentions=True).cross_attentions
        each = queries / mask.sum(1, keepdim=True) * mask
        assert (plan.sum(-1) - 1).abs().max() <= 1e-4
        assert (plan.sum(2) - each[:, None]).abs().max() <= 1e-4
    otattn.hf.set_attention(network, "softmax/relaxed:1")
    with torch.no_grad(), pytest.raises(ValueError, match="use_cache=False"):
        network.generate(**given, max_new_tokens=3, do_sample=False)


@pytest.mark.parametrize(("kind", "name"), [("bert", "softmax-exact"), ("gpt2", "softmax-prefix")])
def test_models_in_one_graph(kind: str, name: str, tokens: Any) -> None:
    otattn.hf.register()
    network = model(kind)
    network.set_attn_implementation(f"otattn_{name}")
    given = dict(tokens) if kind == "bert" else {"input_ids": tokens["input_ids"], "use_cache": False}
    # The structs of the library are not made while tracing: each of those is a break of the graph.
    with torch.no_grad():
        right = network(**given)[0]
        if kind == "bert":
            torch._dynamo.reset()
            found = torch.compile(network, fullgraph=True, backend="eager")(**given)[0]
        else:
            program = torch.export.export(network, (), given, strict=True)
            found = program.module()(**given)[0]
            solves = [x for x in program.graph.nodes if x.target is torch.ops.otattn.solve.default]
            assert len(solves) == 2
    assert (found - right).abs().max() <= 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "method", ["softmax/exact", "softmax/relaxed:1", "softmax/capped:2", "entmax:1.5/exact"]
)
def test_masks_of_the_least_number(method: str, dtype: torch.dtype) -> None:
    """Float masks as models write them, padding and all, are the boolean ones."""
    torch.manual_seed(5)
    q, k, v = (torch.randn(2, 2, 6, 4).to(dtype) for _ in range(3))
    real = torch.ones(2, 6, dtype=torch.bool)
    real[1, 4:] = False
    seen = real[:, None, None, :].expand(2, 1, 6, 6)
    written = torch.zeros(2, 1, 6, 6, dtype=dtype).masked_fill(~seen, torch.finfo(dtype).min)
    module = torch.nn.Module()
    tolerance = max(1e-5 if dtype != torch.float64 else 1e-9, torch.finfo(dtype).eps)
    found = []
    for mask in (seen, written, written + written):
        out, weights = otattn.hf.attention_forward(
            module, q, k, v, mask, is_causal=False, method=method, output_attentions=True
        )
        assert weights is not None and not weights[1, :, :, 4:].any()
        found.append(out)
    for out in found[1:]:
        assert (out - found[0]).abs().max() <= 64 * tolerance


def layer_of(causal: bool) -> torch.nn.Module:
    layer = torch.nn.Module()
    layer.is_causal = causal  # type: ignore[assignment]
    return layer


def tensors(queries: int, keys: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Query, key and value, the query's heads inside of its tokens."""
    made = torch.Generator().manual_seed(queries)
    query = torch.randn(2, queries, 4, 8, generator=made).transpose(1, 2)
    pair = [torch.randn(2, 2, keys, 8, generator=made) for _ in range(2)]
    return [x.to(dtype) for x in (query, *pair)]


KINDS_OF_MASKS = {
    "none": lambda shape: None,
    "padding": lambda shape: torch.arange(shape[1]).lt(shape[1] - 1).view(1, 1, 1, -1),
    "pairs": lambda shape: torch.ones(shape, dtype=torch.bool).tril(shape[1] - shape[0]),
    "numbers": lambda shape: torch.zeros(shape).masked_fill(torch.ones(shape).triu(2) > 0, -torch.inf),
}


@pytest.mark.parametrize("mask", KINDS_OF_MASKS)
@pytest.mark.parametrize("size", [(5, 5), (1, 5), (0, 5)])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("method", ["softmax", otattn.Spec("sparsemax", window=(2, 2))])
def test_layers_call_attention(mask: str, size: tuple[int, int], causal: bool, method: Any) -> None:
    """The numbers of `attention` to the bit, dense by tokens, at first and later, with gradients too."""
    layer, allowed = layer_of(causal), KINDS_OF_MASKS[mask](size)
    inputs = tensors(*size)
    alone = {"is_causal": causal and allowed is None and size[0] > 1, "scale": 0.3, "enable_gqa": True}
    expected = otattn.attention(*inputs, allowed, method=method, **alone).transpose(1, 2)
    for _ in range(3):
        found, weights = otattn.hf.attention_forward(layer, *inputs, allowed, scaling=0.3, method=method)
        assert torch.equal(found, expected) and found.is_contiguous() and weights is None
    leaves = [[x.clone().requires_grad_() for x in inputs] for _ in range(2)]
    found, _ = otattn.hf.attention_forward(layer, *leaves[0], allowed, scaling=0.3, method=method)
    expected = otattn.attention(*leaves[1], allowed, method=method, **alone).transpose(1, 2)
    assert torch.equal(found, expected) and found.is_contiguous()
    for x, y in zip(*(torch.autograd.grad(out.square().sum(), each) for out, each in
                      zip((found, expected), leaves, strict=True)), strict=True):  # fmt: skip
        assert torch.equal(x, y)


def test_what_a_layer_is_asked_for_is_asked_each_time() -> None:
    """A call that was understood before says nothing of the next one."""
    layer, inputs = layer_of(True), tensors(5, 5)

    def found(*given: Any, **named: Any) -> torch.Tensor:
        out: torch.Tensor = otattn.hf.attention_forward(layer, *inputs, *(given or (None,)), **named)[0]
        return out

    def expected(*given: Any, **named: Any) -> torch.Tensor:
        return otattn.attention(*inputs, *given, enable_gqa=True, **named).transpose(1, 2)

    plain = expected(is_causal=True)
    assert torch.equal(found(), plain)
    assert torch.equal(found(is_causal=False), expected())
    assert torch.equal(found(scaling=2), expected(is_causal=True, scale=2))
    with pytest.raises(TypeError):
        found(scaling=True)
    assert torch.equal(found(softcap=1.0), expected(is_causal=True, softcap=1.0))
    assert torch.equal(found(s_aux=torch.ones(4)), expected(is_causal=True, sink=torch.ones(4)))
    bias = torch.randn(1, 4, 5, 5)
    assert torch.equal(found(position_bias=bias), expected(is_causal=True, bias=bias))
    assert torch.equal(found(ota_options={"temperature": 2.0}), expected(is_causal=True, temperature=2.0))
    assert torch.equal(found(options={"temperature": 2.0}), expected(is_causal=True, temperature=2.0))
    weights = otattn.hf.attention_forward(layer, *inputs, None, output_attentions=True)[1]
    assert weights is not None and weights.shape == (2, 4, 5, 5)
    with pytest.raises(NotImplementedError):
        found(sliding_window=3)
    with pytest.raises(NotImplementedError):
        found(block_table=torch.zeros(2))
    with pytest.raises(TypeError, match="key has shape"):
        otattn.hf.attention_forward(layer, inputs[0], inputs[1][0], inputs[2], None)
    with torch.autocast("cpu", torch.bfloat16):
        assert found().dtype == torch.bfloat16
    vmapped = torch.func.vmap(lambda x: otattn.hf.attention_forward(layer, x, x, x, None)[0])
    several = torch.stack([inputs[0], inputs[0] * 0.5])
    each = [otattn.attention(x, x, x, is_causal=True).transpose(1, 2) for x in several]
    assert torch.allclose(vmapped(several), torch.stack(each), atol=1e-6)
    layer._otattn = ("hard", {})  # type: ignore[assignment]
    assert torch.equal(found(), expected(is_causal=True, method="hard"))


def test_a_layer_makes_few_calls() -> None:
    """Between the products of a model each call of Python is fetched from memory again."""
    layer, inputs, mask = layer_of(False), tensors(4, 4), KINDS_OF_MASKS["padding"]((4, 4))
    otattn.hf.register("softmax")

    def called() -> list[str]:
        names: list[str] = []

        def seen(frame: Any, event: str, argument: Any) -> None:
            if event in ("call", "c_call"):
                names.append(frame.f_code.co_name if event == "call" else argument.__name__)

        sys.setprofile(seen)
        try:
            otattn.hf.attention_forward(
                layer, *inputs, mask, dropout=0.0, scaling=0.3, is_causal=False, position_ids=None
            )
        finally:
            sys.setprofile(None)
        return names

    with torch.inference_mode():
        called()
        names = called()
    assert len(names) <= 50, names
