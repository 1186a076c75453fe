"""The engine of FlexAttention: every term and mask in functions of a pair, which torch compiles.

    attend     P^ = softmax(S + bias) x, and its LSE; a function of the pair reads the bias, in f32
    gradient   of P^ [V, key term] for [w dO, -w], w = exp(f + LSE), and of the LSE for D - w row term, where
               D = output . gradient is what the kernel takes away:
               dS = P^ (w dO V^T - w key term - D + D - w row term) = P (dO V^T - key term - row term)

It has run on CPUs alone, where torch keeps all pairs and differentiates nothing: there it serves tests, by
name. It has never run on CUDA or XPU. Gradients but those of query, key and value are left to Blocks.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
import torch.nn.attention.flex_attention as flex
from torch import Tensor
from torch.nn.functional import pad

from .fused import PARTS, Attending, parts_of
from .scores import Scores

DEVICES = ("cuda", "xpu")
# Where torch differentiates it.
DIFFERENTIATES = DEVICES
# The least width of an array of the kernel; others are powers of 2.
LEAST_WIDTH = 16
# The most compiled kinds of calls.
MOST_KINDS = 256
# Of (score, batch, head, row, key), and of the last four.
Score: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
Mask: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def score_of(s: Scores) -> Score:
    """From scale q . k to S. It reads arrays, since other numbers would compile again."""

    def of_head(x: Any) -> Tensor:
        return torch.as_tensor(x, dtype=s.wide, device=s.device).flatten().expand(s.heads)

    last, offset = (torch.tensor(x, device=s.device) for x in (s.columns - 1, s.offset))
    steps: list[Score] = []
    relative = s.given.get("relative_bias")
    if relative is not None:
        table = relative.reshape(-1, s.rows + s.columns - 1).expand(s.heads, -1)
        table = table * s.scale if s.spec.relative_inside else table
        steps.append(lambda x, b, h, i, j: x + table[h, last - j + i])
    if s.spec.softcap:
        cap = torch.tensor(s.spec.softcap, dtype=s.wide, device=s.device)
        at = len(steps) if s.spec.relative_inside else 0
        steps.insert(at, lambda x, b, h, i, j: cap * torch.tanh(x / cap))
    slope = s.per_head("alibi_slopes", s.given, s.spec.alibi_slopes)
    if slope is not None:
        slopes = of_head(slope)
        steps.append(lambda x, b, h, i, j: x - slopes[h] * (j - i - offset).abs())
    added = [s.given[name] for name in ("bias", "attn_mask") if name in s.given]
    if added:
        dense = functools.reduce(operator.add, added).expand(s.batch, s.heads, s.rows, s.columns)
        steps.append(lambda x, b, h, i, j: x + dense[b, h, i, j])
    tau = of_head(s.tau(s.given))

    def score(x: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        for step in steps:
            x = step(x, b, h, i, j)
        return x / tau[h]

    return score


def blocks_of(s: Scores, transposed: bool) -> Any:
    """The blocks that have pairs which may carry weight; None: all."""
    parts: list[Mask] = []
    differ: tuple[int | None, int | None] = (None, None)
    low, high = (torch.tensor(x or 0, device=s.device) for x in (s.low, s.high))
    if s.low is not None:
        parts.append(lambda b, h, i, j: j - i >= low)
    if s.high is not None:
        parts.append(lambda b, h, i, j: j - i <= high)
    if s.lengths is not None:
        lengths, differ = s.lengths.to(s.device).flatten().expand(s.batch), (s.batch, None)
        parts.append(lambda b, h, i, j: j < lengths[b])
    if s.masks:
        # As in scores.py.
        each = [x if x.dtype == torch.bool else ~(x <= torch.finfo(x.dtype).min / 2) for x in s.masks]
        mask = functools.reduce(operator.and_, each).expand(s.batch, s.heads, s.rows, s.columns)
        parts.append(lambda b, h, i, j: mask[b, h, i, j])
        differ = (s.batch, s.heads)
    if not parts:
        return None

    def allowed(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        i, j = (j, i) if transposed else (i, j)
        found = parts[0](b, h, i, j)
        for part in parts[1:]:
            found = found & part(b, h, i, j)
        return found

    size = (s.columns, s.rows) if transposed else (s.rows, s.columns)
    return _on(s.device.type, flex.create_block_mask)(allowed, *differ, *size, s.device)


@functools.cache
def _on(device: str, function: Callable[..., Any]) -> Callable[..., Any]:
    # Calls of many kinds share a function; beyond the limit torch would keep all pairs.
    limited = torch._dynamo.config.patch(cache_size_limit=MOST_KINDS)
    return function if device == "cpu" else limited(torch.compile(function, fullgraph=True))


def _attend(q: Tensor, k: Tensor, v: Tensor, score: Score, blocks: Any, scale: float) -> tuple[Tensor, Any]:
    if not hasattr(flex, "AuxRequest"):
        return flex.flex_attention(q, k, v, score, blocks, scale, return_lse=True)
    out, aux = flex.flex_attention(q, k, v, score, blocks, scale, return_aux=flex.AuxRequest(lse=True))
    return out, aux.lse


class Flex(Attending):
    """See engines.py."""

    name = "flex"

    def __init__(self, scores: Scores) -> None:
        self.scores, self.score = scores, score_of(scores)
        self.blocks: dict[bool, Any] = {}
        if scores.device.type not in DIFFERENTIATES:
            self.differentiates = frozenset()

    @staticmethod
    def refuses(scores: Scores) -> str | None:
        kind = scores.device.type
        if kind not in DEVICES and (kind, scores.spec.backend) != ("cpu", "torch:flex"):
            return f"is for CUDA and XPU, and keeps all pairs on {kind}"
        if "key" not in scores.given or (scores.type == torch.float64 and kind != "cpu"):
            return "wants queries and keys that are no f64"
        return None if scores.seed is None else "has no dropout"

    def _padded(self, x: Tensor) -> Tensor:
        """For every head, in the caller's type."""
        width = max(LEAST_WIDTH, 1 << (x.shape[3] - 1).bit_length())
        return pad(self.each(x).to(self.scores.type), (0, width - x.shape[3]))

    def _call(self, arrays: list[Tensor], bias: Tensor, transposed: bool) -> tuple[Tensor, Tensor]:
        s, of_pair = self.scores, self.score

        def score(x: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return (of_pair(x, b, h, j, i) if transposed else of_pair(x, b, h, i, j)) + bias[b, h, j]

        if transposed not in self.blocks:
            self.blocks[transposed] = blocks_of(s, transposed)
        out, lse = _on(s.device.type, _attend)(*arrays, score, self.blocks[transposed], s.scale)
        return out, lse

    def attend(self, bias: Tensor, x: Tensor | None, transposed: bool = False) -> tuple[Tensor, Tensor]:
        s = self.scores
        q, k = self._padded(s.given["query"]), self._padded(s.given["key"])
        asking, asked = (k, q) if transposed else (q, k)
        x = torch.zeros_like(bias)[..., None] if x is None else x
        out, lse = self._call([asking, asked, self._padded(x)], bias, transposed)
        return out[..., : x.shape[3]].to(s.wide), lse.to(s.wide)

    def gradients(self, given: tuple[Tensor, ...], upstream: Tensor | None) -> dict[str, Tensor]:
        s, w, (f, g, row_term, key_term) = self.scores, self.scores.width, given
        moved = f.new_zeros((*f.shape, w)) if upstream is None else upstream
        values = parts_of(key_term, s.type).to(s.wide)
        values = torch.cat([self.each(s.given["value"]), values], 3) if w else values
        leaves = [self._padded(x).requires_grad_() for x in (s.given["query"], s.given["key"], values)]
        with torch.enable_grad():
            out, lse = self._call(leaves, g, False)
        weight = torch.exp(f + lse.detach()).where(lse > -torch.inf, 0.0)
        moved = torch.cat([moved, f.new_full((*f.shape, PARTS), -1.0)], 3)
        moved = self._padded(moved * weight[..., None])
        taken = (out.detach().to(s.wide) * moved).sum(3)
        found = torch.autograd.grad((out, lse), leaves, (moved, (taken - weight * row_term).to(lse.dtype)))
        by_key, by_value = (x.to(s.wide).unflatten(1, (s.key_heads, -1)).sum(2) for x in found[1:])
        depth = s.given["query"].shape[3]
        by_query = found[0][..., :depth].to(s.wide)
        return {"query": by_query, "key": by_key[..., :depth], "value": by_value[..., :w]}
