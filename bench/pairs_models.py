"""Whole models of transformers, otattn's softmax beside sdpa with the same weights: f32.

Sizes are those of models that people run, with four layers, which have the shares of all twelve. Of each
there is a row without attention: the model whose layers hand their queries on, which is what any attention
could gain at most.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import otattn
import torch
from pairs import Pair, Prepared
from torch import Tensor

LAYERS = 4


def bert(batch: int, tokens: int) -> tuple[Any, dict[str, Any]]:
    """Sequences from half of the tokens to all of them, padded on the right."""
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig(num_hidden_layers=LAYERS))
    mask = torch.ones(batch, tokens, dtype=torch.long)
    for k in range(batch):
        mask[k, tokens - k * tokens // (2 * max(1, batch - 1)) :] = 0
    return model, {"input_ids": torch.randint(1, 30000, (batch, tokens)), "attention_mask": mask}


def llama(tokens: int) -> tuple[Any, dict[str, Any]]:
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=8192, hidden_size=576, intermediate_size=1536, num_hidden_layers=LAYERS,
            num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=4096,
            tie_word_embeddings=True, bos_token_id=None, eos_token_id=None,
        )
    )  # fmt: skip
    return model, {"input_ids": torch.randint(0, 8192, (1, tokens)), "use_cache": True}


def vit(batch: int) -> tuple[Any, dict[str, Any]]:
    from transformers import ViTConfig, ViTModel

    return ViTModel(ViTConfig(num_hidden_layers=LAYERS)), {"pixel_values": torch.randn(batch, 3, 224, 224)}


def forward(model: Any, inputs: dict[str, Any]) -> Tensor:
    out = model(**inputs)
    found: Tensor = out.logits[:, -1] if "logits" in out else out.last_hidden_state
    if "attention_mask" in inputs:
        found = found * inputs["attention_mask"].unsqueeze(-1)
    return found


def generate(model: Any, inputs: dict[str, Any], tokens: int) -> Tensor:
    """Ids of greedy tokens on a cache; the two largest of random logits are seldom near."""
    found: Tensor = model.generate(
        **inputs, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, pad_token_id=0
    )
    return found


def no_attention(module: Any, query: Tensor, *others: Any, **named: Any) -> tuple[Tensor, None]:
    """What an attention that takes no time would return, by its shape."""
    del module, others, named
    return query.transpose(1, 2), None


OURS, NOTHING = "otattn_softmax", "nothing"


def prepare(name: str, make: Callable[[], tuple[Any, dict[str, Any]]], run: Callable[..., Any]) -> Prepared:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    torch.manual_seed(0)
    otattn.hf.register("softmax")
    AttentionInterface.register(NOTHING, no_attention)
    AttentionMaskInterface.register(NOTHING, sdpa_mask)
    model, inputs = make()
    sides = []
    for implementation in (name, "sdpa"):
        side = copy.deepcopy(model).eval()
        side.set_attn_implementation(implementation)
        sides.append(side)

    def call(side: Any) -> Any:
        with torch.inference_mode():
            return run(side, inputs)

    def error(ours: Tensor, theirs: Tensor) -> float:
        return 0.0 if name == NOTHING else (ours - theirs).abs().max().item()

    ours, theirs = sides
    return lambda: call(ours), lambda: call(theirs), error


def rows(
    name: str,
    shape: str,
    make: Callable[[], tuple[Any, dict[str, Any]]],
    run: Callable[..., Any] = forward,
    limit: float = 1e-4,
) -> list[Pair]:
    return [
        Pair(
            f"{words}, {name}",
            f"{shape}, {LAYERS} layers",
            "sdpa",
            functools.partial(prepare, implementation, make, run),
            limit,
        )
        for words, implementation in (("model", OURS), ("model without attention", NOTHING))
    ]


ROWS = [
    pair
    for several in (
        *(
            rows("BERT padded", f"{batch} x {tokens} tokens", functools.partial(bert, batch, tokens))
            for batch, tokens in ((4, 64), (4, 128), (4, 256), (2, 512))
        ),
        *(
            rows("Llama prompt", f"1 x {tokens} tokens", functools.partial(llama, tokens))
            for tokens in (128, 512, 2048)
        ),
        *(
            rows(
                "Llama generate",
                f"16 tokens behind {tokens}",
                functools.partial(llama, tokens),
                functools.partial(generate, tokens=16),
                0.0,
            )
            for tokens in (128, 1024)
        ),
        *(rows("ViT", f"{batch} x 197 tokens", functools.partial(vit, batch)) for batch in (1, 4)),
    )
    for pair in several
]
