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
        self.scores = scores

    @staticmethod
    def refuses(scores: Scores) -> str | None:
        """Nothing."""
        return None

    def lse(self, bias: Tensor, transposed: bool = False) -> Tensor:
        s = self.scores
        if not transposed:
            parts = [torch.logsumexp(s.block(rows) + bias[..., None, :], 3) for rows in s.slices()]
            return torch.cat(parts, 2) if parts else bias.new_empty((s.batch, s.heads, 0))
        found = bias.new_full((s.batch, s.heads, s.columns), -torch.inf)
        for rows in s.slices():
            found = torch.logaddexp(found, torch.logsumexp(s.block(rows) + bias[:, :, rows, None], 2))
        return found

    def attend(self, bias: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        s = self.scores
        means, sums = [], []
        for rows in s.slices():
            block = s.block(rows) + bias[..., None, :]
            lse = torch.logsumexp(block, 3)
            p = torch.exp(block - lse.where(lse > -torch.inf, 0.0)[..., None])
            means.append(mixed(self._dropped(p, rows), x))
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
            p = torch.exp(s.block(rows) + f[:, :, rows, None] + g[..., None, :])
            p = self._dropped(p, rows) if dropped else p
            if transposed:
                found += p.mT @ x[:, :, rows]
            else:
                found[:, :, rows] = mixed(p, x)
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
        s = self.scores
        names = [name for name in OF_SCORES if name in wanted]
        found = {name: torch.zeros_like(s.given[name]) for name in wanted}
        values = s.given.get("value")
        for rows in s.slices():
            leaves = s.parts(rows)
            for name in names:
                leaves[name] = leaves[name].detach().requires_grad_()
            with torch.enable_grad():
                block = s.block(rows, leaves)
            p = torch.exp(block.detach() + f[:, :, rows, None] + g[..., None, :])
            dp = -row_term[:, :, rows, None] - key_term[..., None, :]
            if coupling is not None:
                dp = dp + coupling[:, :, rows]
            if upstream is not None and values is not None:
                kept = s.kept(rows)
                each = by_groups(upstream[:, :, rows], values) @ values.mT
                each = each.reshape(p.shape)
                dp = dp + (each if kept is None else each * kept)
                if "value" in wanted:
                    dropped = p if kept is None else p * kept
                    found["value"] += by_groups(dropped, values).mT @ by_groups(upstream[:, :, rows], values)
            if names:
                # Of pairs that carry nothing neither infinity nor NaN may come back.
                parts = torch.autograd.grad(
                    block, [leaves[name] for name in names], (p * dp).where(p > 0.0, 0.0)
                )
                for name, part in zip(names, parts, strict=True):
                    if s.by_rows(name):
                        found[name][:, :, rows] = part
                    else:
                        found[name] += part
        return found

    def moments(self, f: Tensor, g: Tensor, coupling: Tensor) -> tuple[Tensor, Tensor]:
        """Sums over columns and over rows of P times a gradient of the coupling."""
        s = self.scores
        by_row, by_column = torch.zeros_like(f), torch.zeros_like(g)
        for rows in s.slices():
            p = torch.exp(s.block(rows) + f[:, :, rows, None] + g[..., None, :])
            each = (p * coupling[:, :, rows]).where(p > 0.0, 0.0)
            by_row[:, :, rows] = each.sum(3)
            by_column += each.sum(2)
        return by_row, by_column


def by_groups(x: Tensor, of: Tensor) -> Tensor:
    """[batch, heads, n, w] as [batch, key heads, heads of each n, w]."""
    return x.reshape(x.shape[0], of.shape[1], x.shape[1] // of.shape[1] * x.shape[2], x.shape[3])


def mixed(p: Tensor, x: Tensor) -> Tensor:
    """P x, with x of each head or of each group of heads."""
    return (by_groups(p, x) @ x).reshape(*p.shape[:3], x.shape[3])
