"""The layers that the training examples share: only the plan of the attention differs between methods.

A block maps tokens X of shape (batch, tokens, width): X + attention(norm X), then X + two maps (norm X).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import otattn
import torch
from torch import Tensor, nn


class Spelling(NamedTuple):
    """A method as the programs write it: `METHOD [learn=NAME,...] [harden=T]`."""

    method: str
    learn: tuple[str, ...]
    """Numbers of the method that are parameters of the model, as `learn` of otattn.nn.Attention."""
    harden: float
    """The temperature at the last step; it falls from 1 geometrically."""


def spelling(text: str) -> Spelling:
    method, *words = text.split(" ")
    given = dict(word.split("=", 1) for word in words)
    learn = tuple(given.pop("learn").split(",")) if "learn" in given else ()
    harden = float(given.pop("harden", 1.0))
    if given:
        raise ValueError(f"{text!r} has {', '.join(given)}, wanted learn=NAME,... or harden=TEMPERATURE")
    return Spelling(method, learn, harden)


def attention_layer(text: str, width: int, heads: int) -> nn.Module:
    """otattn.nn.Attention, or for the word torch the module that it replaces."""
    if text == "torch":
        return nn.MultiheadAttention(width, heads, batch_first=True)
    method, learn, harden = spelling(text)
    layer = otattn.nn.Attention(width, heads, batch_first=True, method=method, learn=learn)
    layer.harden = harden
    return layer


def harden(model: nn.Module, share: float) -> None:
    """Sets the temperature of the layers that harden, after a share of all steps."""
    for layer in model.modules():
        if isinstance(layer, otattn.nn.Attention) and getattr(layer, "harden", 1.0) != 1.0:
            layer.fixed["temperature"] = layer.harden**share


def learned(model: nn.Module) -> dict[str, list[float]]:
    """What `learn=` made of the numbers, by layer and name: one a head, or one."""
    return {
        f"{place}.{name}": layer.numbers()[name].detach().reshape(-1).tolist()
        for place, layer in model.named_modules()
        if isinstance(layer, otattn.nn.Attention)
        for name in layer.learn
    }


class Block(nn.Module):
    def __init__(
        self, method: str, width: int, heads: int, *, causal: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.attention = attention_layer(method, width, heads)
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.map = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(dropout)
        self.causal = causal
        self.method = method

    def weights(self, x: Tensor) -> Tensor:
        """(batch, heads, queries, keys) for the tokens x (batch, tokens, width) that the block is given."""
        x = self.first_norm(x)
        return self.attention(x, x, x, need_weights=True, average_attn_weights=False, **self.mask(x))[1]

    def mask(self, x: Tensor) -> dict[str, Any]:
        # Prefix columns are causal by themselves: query i takes part in the plan of the first i + 1 tokens.
        if not self.causal or self.method.endswith("/prefix"):
            return {}
        if self.method == "torch":
            future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
            return {"attn_mask": future, "is_causal": True}
        return {"is_causal": True}

    def forward(self, x: Tensor) -> Tensor:
        y = self.first_norm(x)
        x = x + self.dropout(self.attention(y, y, y, need_weights=False, **self.mask(y))[0])
        return x + self.dropout(self.map(self.second_norm(x)))
