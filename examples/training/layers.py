"""The layers that the training examples share: only the plan of the attention differs between methods.

A block maps tokens X of shape (batch, tokens, width): X + attention(norm X), then X + two maps (norm X).
"""

from __future__ import annotations

from typing import Any

import otattn
import torch
from torch import Tensor, nn


def attention_layer(method: str, width: int, heads: int) -> nn.Module:
    """otattn.nn.Attention, or for the word torch the module that it replaces."""
    if method == "torch":
        return nn.MultiheadAttention(width, heads, batch_first=True)
    return otattn.nn.Attention(width, heads, batch_first=True, method=method)


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
