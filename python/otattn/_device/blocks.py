"""The engine of plain torch operations, a block of rows at a time: every term, mask and type."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from .scores import OF_SCORES, Scores


class Blocks:
    """See engines.py."""

    name = "blocks"
    differentiates: frozenset[str] = frozenset((*OF_SCORES, "value", "coupling"))

    def __init__(self, scores: Scores) -> None:
        self.scores = scores.wider() if scores.steep else scores

    @staticmethod
    def refuses(scores: Scores) -> str | None:
        """Nothing."""
        return None

    def lse(self, bias: Tensor, transposed: bool = False) -> Tensor:
        s = self.scores
        if not transposed:
            parts = [
                torch.logsumexp(block + bias[..., None, s.keys(rows)], 3) for rows, block in s.near_blocks()
            ]
            return torch.cat(parts, 2) if parts else bias.new_empty((s.batch, s.heads, 0))
        found = bias.new_full((s.batch, s.heads, s.columns), -torch.inf)
        for rows in s.slices():
            keys = s.keys(rows)
            more = torch.logsumexp(s.near_block(rows) + bias[:, :, rows, None], 2)
            found[..., keys] = torch.logaddexp(found[..., keys], more)
        return found

    def attend(self, bias: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        s = self.scores
        means, sums = [], []
        for rows, block in s.near_blocks():
            keys = s.keys(rows)
            block = block + bias[..., None, keys]
            lse = torch.logsumexp(block, 3)
            p = torch.exp(block - lse.where(lse > -torch.inf, 0.0)[..., None])
            means.append(mixed(self._dropped(p, rows), x[:, :, keys]))
            sums.append(lse)
        if not means:
            return bias.new_empty((s.batch, s.heads, 0, x.shape[3])), bias.new_empty((s.batch, s.heads, 0))
        return torch.cat(means, 2), torch.cat(sums, 2)

    def product(
        self, f: Tensor, g: Tensor, x: Tensor, transposed: bool = False, dropped: bool = False
    ) -> Tensor:
        s = self.scores
        count = s.columns if transposed else s.rows
        found = f.new_zeros((s.batch, s.heads, count, x.shape[3]))
        for rows in s.slices():
            keys = s.keys(rows)
            p = torch.exp(s.near_block(rows) + f[:, :, rows, None] + g[..., None, keys])
            p = self._dropped(p, rows) if dropped else p
            if transposed:
                found[:, :, keys] += p.mT @ x[:, :, rows]
            else:
                found[:, :, rows] = mixed(p, x[:, :, keys])
        return found

    def _dropped(self, p: Tensor, rows: slice) -> Tensor:
        kept = self.scores.kept(rows)
        return p if kept is None else p * kept

    def backward(
        self,
        f: Tensor,
        g: Tensor,
        row_term: Tensor,
        key_term: Tensor,
        wanted: Collection[str],
        upstream: Tensor | None = None,
        coupling: Tensor | None = None,
    ) -> dict[str, Tensor]:
        s, sums = self.scores, Pulled(self.scores, wanted)
        for rows in s.slices():
            block, keys = sums.begin(rows), s.keys(rows)
            p = torch.exp(block + f[:, :, rows, None] + g[..., None, keys])
            dp = sums.by_weights(p, upstream, coupling)
            dp = dp - row_term[:, :, rows, None] - key_term[..., None, keys]
            # Of pairs that carry nothing neither infinity nor NaN may come back.
            sums.add((p * dp).where(p != 0.0, 0.0))
        return sums.found

    def moments(self, f: Tensor, g: Tensor, coupling: Tensor) -> tuple[Tensor, Tensor]:
        """Sums over columns and over rows of P times a gradient of the coupling."""
        s = self.scores
        by_row, by_column = torch.zeros_like(f), torch.zeros_like(g)
        for rows in s.slices():
            keys = s.keys(rows)
            p = torch.exp(s.near_block(rows) + f[:, :, rows, None] + g[..., None, keys])
            each = (p * coupling[:, :, rows, keys]).where(p != 0.0, 0.0)
            by_row[:, :, rows] = each.sum(3)
            by_column[..., keys] += each.sum(2)
        return by_row, by_column


class Pulled:
    """Gradients by operands of the scores and by the values, added up over blocks of rows."""

    def __init__(self, scores: Scores, wanted: Collection[str]) -> None:
        self.scores = scores
        self.found = {name: torch.zeros_like(scores.given[name]) for name in wanted}
        self.names = [name for name in OF_SCORES if name in wanted]

    def begin(self, rows: slice) -> Tensor:
        """The scores of some rows, which the next calls are about."""
        self.rows, self.leaves = rows, self.scores.parts(rows)
        for name in self.names:
            self.leaves[name] = self.leaves[name].detach().requires_grad_()
        with torch.enable_grad():
            self.block = self.scores.near_block(rows, self.leaves)
        return self.block.detach()

    def by_weights(self, p: Tensor, upstream: Tensor | None, coupling: Tensor | None) -> Tensor:
        """dL/dP, of an upstream gradient of P value, less what dropout takes, and of one of P."""
        keys = self.scores.keys(self.rows)
        dp = torch.zeros_like(p) if coupling is None else coupling[:, :, self.rows, keys]
        values = self.scores.given.get("value")
        if upstream is None or values is None:
            return dp
        kept = self.scores.kept(self.rows)
        mine = by_groups(upstream[:, :, self.rows], values)
        each = (mine @ values[:, :, keys].mT).reshape(p.shape)
        if "value" in self.found:
            self.found["value"][:, :, keys] += by_groups(p if kept is None else p * kept, values).mT @ mine
        return dp + (each if kept is None else each * kept)

    def add(self, ds: Tensor) -> None:
        """Adds what a gradient of the scores is to their operands."""
        if not self.names:
            return
        parts = torch.autograd.grad(self.block, [self.leaves[name] for name in self.names], ds)
        for name, part in zip(self.names, parts, strict=True):
            self.found[name][self.scores.place(name, self.rows)] += part


def by_groups(x: Tensor, of: Tensor) -> Tensor:
    """[batch, heads, n, w] as [batch, key heads, heads of each n, w]."""
    return x.reshape(x.shape[0], of.shape[1], x.shape[1] // of.shape[1] * x.shape[2], x.shape[3])


def mixed(p: Tensor, x: Tensor) -> Tensor:
    """P x, with x of each head or of each group of heads."""
    return (by_groups(p, x) @ x).reshape(*p.shape[:3], x.shape[3])
