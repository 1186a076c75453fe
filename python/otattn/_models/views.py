"""Attention weights of one text as BertViz and CircuitsVis take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._settings import shown


class TextWeights(NamedTuple):
    """The weights of one text."""

    layers: dict[int, NDArray[np.float32]]
    """Of captured layers, shape (heads, tokens, tokens)."""
    tokens: list[str]
    heads: Sequence[int] | None
    """Which heads these are; None: all."""
    causal: bool

    def for_bertviz(self) -> dict[str, Any]:
        """Tensors (1, heads, tokens, tokens), one a layer, and the tokens."""
        import torch

        attention = tuple(torch.from_numpy(np.ascontiguousarray(x))[None] for x in self.layers.values())
        return {"attention": attention, "tokens": self.tokens}

    def for_circuitsvis(self, layer: int | None) -> dict[str, Any]:
        """The heads of a layer, or of all, with their names."""
        layers = self.layers
        if layer is not None:
            if layer not in layers:
                raise ValueError(f"layer is {shown(layer)}, and captured are {', '.join(map(str, layers))}")
            layers = {layer: layers[layer]}
        heads = range(next(iter(layers.values())).shape[0]) if self.heads is None else self.heads
        return {
            "attention": np.concatenate(list(layers.values())),
            "tokens": self.tokens,
            "attention_head_names": [f"L{k}H{head}" for k in layers for head in heads],
            "mask_upper_tri": self.causal,
        }
