"""The scores of a call in blocks of rows: S / tau in nats, -inf where a pair may carry nothing.

    S = softcap(scale (Q K^T + relative inside)) - slope |i + offset - j| + relative + dense + additive mask

of Q [batch, heads, rows, width] and K [batch, key heads, columns, width], or of a matrix of scores.
"""

from __future__ import annotations

import copy
import functools
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from .. import _structs as c
from .._settings import OPERANDS
from .._spec import Spec
from .._template import template
from .._torch_device import wide_type
from .dropout import kept_pairs

# Operands that the scores depend on, and have derivatives.
OF_SCORES = ("query", "key", "bias", "relative_bias", "alibi_slopes", "temperature")
# Bytes of one block of pairs in the type of the arithmetic, and how many of such a pass holds at once.
BLOCK_BYTES, BLOCKS_AT_ONCE = 32 << 20, 6
# Rows of a block at least, where a narrower band leaves them few keys: a launch takes as long as so many.
BAND_ROWS = 256


class Scores:
    """One call: its operands in the type of the arithmetic, and numbers of its method."""

    def __init__(
        self, spec: Spec, operands: Mapping[str, Tensor | None], wide: torch.dtype | None = None
    ) -> None:
        """`wide` is the type of the arithmetic: f64 for f64, f32 otherwise where it is None."""
        self.spec, self.operands = spec, operands
        self.end = None if spec.deadline is None else time.monotonic() + spec.deadline
        self.problem, self.options = template(spec)
        query, key, value = operands["query"], operands["key"], operands["value"]
        assert query is not None
        self.type, self.device = query.dtype, query.device
        self.wide = wide or (torch.float64 if query.dtype == torch.float64 else torch.float32)
        self.batch, self.heads, self.rows = query.shape[:3]
        self.columns = query.shape[3] if key is None else key.shape[2]
        self.key_heads = self.heads if key is None else key.shape[1]
        self.width = 0 if value is None else value.shape[3]
        scale = self.problem.scale
        if scale == sys.float_info.min:
            scale = 0.0
        elif scale == 0.0:
            scale = 1.0 if key is None or query.shape[3] == 0 else query.shape[3] ** -0.5
        self.scale = -scale if self.problem.cost else scale
        # Weights that leave 0 with an infinite slope, where a number of the type's digits is too coarse.
        self.steep = self.problem.regulariser == c.ENTMAX and self.order > 2.0
        self.offset = self.columns - self.rows if self.problem.corner == c.BOTTOM_RIGHT else 0
        self.low, self.high = self._band()
        # Booleans, and numbers that stand for them, are no operands of a sum.
        self.masks = [x for x in (operands["attn_mask"], operands["bias"]) if x is not None]
        self.lengths = operands["key_lengths"]
        seed = operands["dropout_seed"]
        self.seed = None if seed is None or spec.dropout_p == 0.0 else seed.to(self.device)
        self.given = {
            name: x.to(self.device, self.wide)
            for name, x in operands.items()
            if x is not None and name in OPERANDS and (x.is_floating_point() or x.dim() == 0)
        }
        for name in ("bias", "attn_mask"):
            if name in self.given:
                # As a number it might leave the range of what is made of it.
                x = operands[name]
                assert x is not None
                self.given[name] = self.given[name].where(~_forbids(x), 0.0)
        # What no pair uses may be anything, and kernels make NaN of 0 times infinity: rows that do use such
        # numbers are known by `lost`.
        self.finite: dict[str, Tensor] = {}
        for name in ("query", "key", "value"):
            if name in self.given and (name != "query" or key is not None):
                fits = torch.isfinite(self.given[name])
                self.given[name] = self.given[name].where(fits, 0.0)
                self.finite[name] = fits.all(3)

    # Whether `near_block` takes the largest score of a row off, see `nearer`.
    near = False

    @functools.cached_property
    def order(self) -> float:
        """alpha"""
        alpha = self.operands["alpha"]
        return (self.problem.order or 1.5) if alpha is None else float(alpha)

    def wider(self) -> Scores:
        """The same call in the widest type of its device."""
        kind = wide_type(self.device)
        if self.wide == kind:
            return self
        found = Scores(self.spec, self.operands, kind)
        found.end = self.end
        return found

    def nearer(self) -> Scores:
        """The same call where potentials of rows are those of scores less the largest of their row.

        What scores of a row have in common moves no weight, and beside a number of that size potentials lose
        the digits that weights are made of. Rows whose sum depends on it, and other regularisers, whose
        weights measure from the row's largest score themselves, stay as they are.
        """
        p = self.problem
        if self.near or p.regulariser != c.SOFTMAX or p.rows == c.ROWS_RELAXED:
            return self
        found = copy.copy(self)
        found.near = True
        return found

    @functools.cached_property
    def common(self) -> Tensor | None:
        """[batch, heads, rows]: what rows have taken off, in nats; None: nothing."""
        if not self.near:
            return None
        return self._joined([_top(self.block(rows)) for rows in self.slices()])

    def _joined(self, tops: list[Tensor]) -> Tensor:
        shape = (self.batch, self.heads, self.rows)
        return torch.cat(tops, 2) if tops else torch.zeros(shape, dtype=self.wide, device=self.device)

    def less_common(self, block: Tensor, rows: slice) -> Tensor:
        """Scores of some rows, in nats, less what these have taken off."""
        return block if self.common is None else block - self.common[:, :, rows, None]

    def near_block(self, rows: slice, of: Mapping[str, Tensor] | None = None) -> Tensor:
        """`block` less what its rows have taken off."""
        return self.less_common(self.block(rows, of), rows)

    def near_blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Blocks of rows and their scores, as `near_block`; a first walk finds `common` on its way."""
        if not self.near or "common" in self.__dict__:
            for rows in self.slices():
                yield rows, self.near_block(rows)
            return
        tops: list[Tensor] = []
        for rows in self.slices():
            block = self.block(rows)
            tops.append(_top(block))
            yield rows, block - tops[-1][..., None]
        self.common = self._joined(tops)

    def _band(self) -> tuple[int | None, int | None]:
        """Least and largest j - i of an allowed pair; None is no limit."""
        low = high = None
        if self.spec.window is not None:
            left, right = self.spec.window
            low = self.offset - left if left >= 0 else None
            high = self.offset + right if right >= 0 else None
        if self.spec.is_causal:
            high = self.offset if high is None else min(high, self.offset)
        return low, high

    @functools.cached_property
    def lost(self) -> Tensor:
        """[batch, heads, rows]: rows whose query is NaN or infinite, or that may use a key that is."""
        found = torch.zeros((self.batch, self.heads, self.rows), dtype=torch.bool, device=self.device)
        if "query" in self.finite:
            found = ~self.finite["query"] & self.usable[0]
        return found | self._using("key")

    @functools.cached_property
    def spoiled(self) -> Tensor:
        """The same, or that may use such a value: rows whose output is NaN."""
        return self.lost | self._using("value")

    def _using(self, name: str) -> Tensor:
        shape = (self.batch, self.heads, self.rows)
        if name not in self.finite or (self.device.type == "cpu" and bool(self.finite[name].all())):
            return torch.zeros(shape, dtype=torch.bool, device=self.device)
        bad = (~self.finite[name]).repeat_interleave(self.heads // self.key_heads, 1)[:, :, None]
        parts = []
        for rows in self.slices():
            allowed, here = self.allowed(rows), bad[..., self.keys(rows)]
            pairs = here if allowed is None else here & allowed
            count = rows.stop - rows.start
            parts.append(pairs.expand(*shape[:2], -1, -1).any(3).expand(*shape[:2], count))
        return torch.cat(parts, 2)

    @property
    def per_key(self) -> bool:
        """Whether masks say the same of a key to every query."""
        return all(x.shape[2] == 1 for x in self.masks)

    def _block_bytes(self, rows: int) -> int:
        """A block of so many rows, which with a band has at most so many keys."""
        keys = self.columns
        if self.low is not None and self.high is not None:
            keys = max(1, min(keys, self.high - self.low + rows))
        return self.batch * self.heads * rows * keys * torch.finfo(self.wide).bits // 8

    def block_rows(self) -> int:
        """How many rows make a block."""
        most, each = BLOCK_BYTES, self._block_bytes(1)
        if self.spec.workspace_limit is not None:
            most = min(most, self.spec.workspace_limit // BLOCKS_AT_ONCE)
            if most < each:
                raise MemoryError(
                    f"workspace_limit is {self.spec.workspace_limit} bytes, and one row of pairs of all "
                    f"heads takes {BLOCKS_AT_ONCE * each}; give as many, or fewer heads a call"
                )
        rows = max(1, self.rows)
        if self.low is not None and self.high is not None:
            # Of more rows than the band is wide, most pairs of a block would lie outside.
            rows = min(rows, max(BAND_ROWS, self.high - self.low + 1))
        while rows > 1 and self._block_bytes(rows) > most:
            rows = min(rows - 1, max(1, rows * most // self._block_bytes(rows)))
        return rows

    def bytes(self) -> int:
        """What blocks of pairs take at once."""
        return BLOCKS_AT_ONCE * self._block_bytes(self.block_rows())

    def check_deadline(self) -> None:
        if self.end is not None and time.monotonic() > self.end:
            raise TimeoutError("the call was not done within its deadline; its results hold nothing")

    def slices(self) -> Iterator[slice]:
        step = self.block_rows()
        for begin in range(0, self.rows, step):
            self.check_deadline()
            yield slice(begin, min(begin + step, self.rows))

    def keys(self, rows: slice) -> slice:
        """The keys that the band leaves some rows, and one at least where there are any."""
        low = 0 if self.low is None else max(0, min(rows.start + self.low, self.columns - 1))
        high = self.columns if self.high is None else min(rows.stop + self.high, self.columns)
        return slice(low, max(high, min(low + 1, self.columns)))

    def _distances(self, rows: slice, keys: slice) -> Tensor:
        """[rows, keys]: j - i"""
        i = torch.arange(rows.start, rows.stop, device=self.device)
        return torch.arange(keys.start, keys.stop, device=self.device) - i[:, None]

    def native(self, name: str) -> Tensor:
        """An operand in the caller's type, with 0 for what is not finite."""
        return self.given[name].to(self.type)

    def allowed(self, rows: slice, banded: bool = True) -> Tensor | None:
        """Which pairs of a block may carry weight, broadcasting to [batch, heads, rows, keys]; None: all.

        Unless `banded`, the distance of row and column has no say, and the block has all keys.
        """
        found: list[Tensor] = []
        keys = self.keys(rows) if banded else slice(0, self.columns)
        if banded and (self.low is not None or self.high is not None):
            apart = self._distances(rows, keys)
            if self.low is not None:
                found.append(apart >= self.low)
            if self.high is not None:
                found.append(apart <= self.high)
        if self.lengths is not None:
            counts = self.lengths.to(self.device).reshape(-1, 1, 1, 1)
            found.append(torch.arange(keys.start, keys.stop, device=self.device) < counts)
        for x in self.masks:
            part = (x if x.shape[2] == 1 else x[:, :, rows])[..., keys]
            found.append(part if x.dtype == torch.bool else ~_forbids(part))
        return functools.reduce(torch.logical_and, found) if found else None

    def kept(self, rows: slice) -> Tensor | None:
        """What dropout multiplies the weights of some rows by; None: there is none."""
        if self.seed is None:
            return None
        p: float = self.spec.dropout_p
        if p >= 1.0:
            return torch.zeros((), dtype=self.wide, device=self.device)
        pairs = kept_pairs(self.seed, p, (self.batch, self.heads), rows, self.keys(rows))
        kept: Tensor = pairs.to(self.wide) / (1.0 - p)
        return kept

    @functools.cached_property
    def usable(self) -> tuple[Tensor, Tensor]:
        """Which rows have a pair, [batch, heads, rows], and which columns, [batch, heads, columns]."""
        shape = (self.batch, self.heads)
        rows = torch.full((*shape, self.rows), self.columns > 0, device=self.device)
        columns = torch.full((*shape, self.columns), self.rows > 0, device=self.device)
        if self.allowed(slice(0, 0)) is None:
            return rows, columns
        parts = []
        columns.zero_()
        for each in self.slices():
            allowed = self.allowed(each)
            assert allowed is not None
            allowed = allowed.expand(*shape, each.stop - each.start, allowed.shape[-1])
            parts.append(allowed.any(3))
            columns[..., self.keys(each)] |= allowed.any(2)
        return torch.cat(parts, 2) if parts else rows, columns

    def tau(self, of: Mapping[str, Tensor]) -> Any:
        """The temperature, a number or a tensor that broadcasts over [batch, heads, n]."""
        x = of.get("temperature")
        if x is None:
            return self.problem.temperature or 1.0
        return x if x.dim() == 0 else x.reshape(1, -1, 1)

    def key_biases(self, over_tau: bool = True) -> Tensor:
        """[batch, heads, columns]: masks and biases that are the same for all rows, over tau."""
        tau = self.tau(self.given) if over_tau else 1.0
        found = torch.zeros((self.batch, self.heads, self.columns), dtype=self.wide, device=self.device)
        for name in ("bias", "attn_mask"):
            if name in self.given:
                found = found + self.given[name][:, :, 0] / tau
        return found

    def per_head(self, name: str, of: Mapping[str, Tensor], otherwise: float | None) -> Any:
        """An operand of one number or one a head, as a number or a tensor over [batch, heads, n]; or None."""
        x = of.get(name)
        if x is None:
            return otherwise
        return x if x.dim() == 0 else x.reshape(1, -1, 1)

    @property
    def sink(self) -> Any:
        """The sink's score, not over tau; or None."""
        return self.per_head("sink", self.given, self.spec.sink)

    def place(self, name: str, rows: slice) -> tuple[Any, ...]:
        """Where the part of an operand lies that a block of rows uses."""
        every = slice(None)
        if name in ("key", "value"):
            return every, every, self.keys(rows)
        if name in ("bias", "attn_mask"):
            return every, every, rows if self.given[name].shape[2] > 1 else every, self.keys(rows)
        if name == "query":
            return every, every, rows, every if "key" in self.given else self.keys(rows)
        return (...,)

    def parts(self, rows: slice) -> dict[str, Tensor]:
        """The operands of the scores of some rows."""
        names = (*OF_SCORES, "attn_mask")
        return {name: self.given[name][self.place(name, rows)] for name in names if name in self.given}

    def block(self, rows: slice, of: Mapping[str, Tensor] | None = None, over_tau: bool = True) -> Tensor:
        """[batch, heads, rows, keys]: S / tau of some rows, or S; `of` is what `parts` returns or like it."""
        of = self.parts(rows) if of is None else of
        keys = self.keys(rows)
        x = of["query"]
        if "key" in of:
            key = of["key"]
            many = rows.stop - rows.start
            x = (
                x.reshape(self.batch, self.key_heads, self.heads // self.key_heads * many, x.shape[3])
                @ key.mT
            )
            x = x.reshape(self.batch, self.heads, many, keys.stop - keys.start)
        relative = None
        if "relative_bias" in of:
            at = self.columns - 1 - self._distances(rows, keys)
            relative = of["relative_bias"].reshape(1, -1, self.rows + self.columns - 1)[:, :, at]
            if self.spec.relative_inside:
                x, relative = x + relative, None
        x = x * self.scale
        if self.spec.softcap:
            x = self.spec.softcap * torch.tanh(x / self.spec.softcap)
        slopes = self.per_head("alibi_slopes", of, self.spec.alibi_slopes)
        if slopes is not None:
            far = (self._distances(rows, keys) - self.offset).abs()
            x = x - over_pairs(slopes) * far.to(self.wide)
        if relative is not None:
            x = x + relative
        for name in ("bias", "attn_mask"):
            if name in of:
                x = x + of[name]
        x = x / over_pairs(self.tau(of)) if over_tau else x
        allowed = self.allowed(rows)
        found: Tensor = x if allowed is None else x.masked_fill(~allowed, -torch.inf)
        return found


def _top(block: Tensor) -> Tensor:
    """The largest score of each row, 0 where that is no number."""
    top = block.amax(3) if block.shape[3] else block.new_zeros(block.shape[:3])
    return top.where(torch.isfinite(top), 0.0)


def _forbids(x: Tensor) -> Tensor:
    """Where a number stands for -inf: near the least of its type."""
    return x <= torch.finfo(x.dtype).min / 2


def over_pairs(x: Any) -> Any:
    """A number, or one a head."""
    return x[..., None] if isinstance(x, Tensor) and x.dim() > 0 else x
