"""The engine of our own kernels in Triton: triton_rows.py and triton_backward.py."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .. import _structs as c
from .scores import Scores

if TYPE_CHECKING:
    from .triton_levels import Levels

# Where a device runs kernels in Triton, and widths of heads that they have.
DEVICES, NARROWEST, WIDEST = ("cuda", "xpu"), 16, 256


@functools.lru_cache(maxsize=1)
def _is_interpreted() -> bool:
    """Whether kernels run in Triton's interpreter, which takes tensors of CPUs."""
    from triton import knobs  # type: ignore[import-untyped, unused-ignore]

    return bool(knobs.runtime.interpret)


class Kernels:
    """See engines.py. Takes slopes, softcap, bands, and masks that are the same for all rows."""

    name = "triton"
    differentiates: frozenset[str] = frozenset(("query", "key", "value"))

    @staticmethod
    def refuses(scores: Scores) -> str | None:
        s = scores
        if importlib.util.find_spec("triton") is None:
            return "needs the package triton (pip install triton)"
        if s.device.type not in DEVICES and not _is_interpreted():
            return f"does not run on {s.device.type}"
        if s.wide == torch.float64:
            return "has no f64"
        if "key" not in s.given:
            return "does not take a matrix of scores"
        if max(s.given["query"].shape[3], s.width) > WIDEST:
            return f"takes heads of at most {WIDEST} wide"
        if "relative_bias" in s.given or not s.per_key:
            return "takes no biases and masks of pairs"
        if s.spec.dropout_p:
            return "has no dropout"
        if s.problem.regulariser == c.ENTMAX:
            own = {"alpha", "sink", "row_mass"} & s.given.keys()
            if own or s.spec.sink is not None or "value" not in s.given:
                return "takes entmax of values, of a number alpha, without masses and sinks"
        per_head = isinstance(s.tau(s.given), Tensor) and s.tau(s.given).dim() > 0
        if per_head and (s.type != torch.float32 or s.spec.softcap):
            return "takes one temperature for all heads of narrow types, and with a softcap"
        return None

    def __init__(self, scores: Scores) -> None:
        self.scores = s = scores
        tau: Any = s.tau(s.given)
        tau = tau.item() if isinstance(tau, Tensor) and tau.dim() == 0 else tau
        self.query, self.key = s.native("query"), s.native("key")
        # Differences of scores of entmax are taken before these are divided by the temperature, which rounds.
        per_head = isinstance(tau, Tensor)
        after = s.problem.regulariser == c.ENTMAX and not per_head
        over = 1.0 if after else tau
        slopes = s.per_head("alibi_slopes", s.given, s.spec.alibi_slopes)
        if slopes is not None:
            slopes = (torch.zeros((1, s.heads, 1), dtype=s.wide, device=s.device) + slopes / over).reshape(-1)
        if per_head:
            self.query, over = self.query / tau[..., None], 1.0
        self.options: dict[str, Any] = {
            "scale": s.scale / over,
            "band": (s.low, s.high),
            "softcap": s.spec.softcap / over,
            "slopes": slopes,
            "offset": s.offset,
        }
        self.temperature = float(tau) if after else 1.0
        # What masks and lengths say of keys: a term of their potentials.
        self.terms = s.key_biases(over_tau=not after)
        allowed = s.allowed(slice(0, 1), banded=False)
        if allowed is not None:
            self.terms = self.terms.masked_fill(~allowed[:, :, 0], -torch.inf)

    def lse(self, bias: Tensor, transposed: bool = False) -> Tensor:
        from .triton_rows import column_lse, row_lse

        if transposed:
            return column_lse(self.query, self.key, row_bias=bias, **self.options) + self.terms
        return row_lse(self.query, self.key, key_bias=bias + self.terms, **self.options)

    def attend(self, bias: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        from .triton_rows import attend

        values = x.to(self.scores.type)
        out, lse = attend(self.query, self.key, values, key_bias=bias + self.terms, **self.options)
        return out.to(self.scores.wide), lse

    def product(
        self, f: Tensor, g: Tensor, x: Tensor, transposed: bool = False, dropped: bool = False
    ) -> Tensor:
        from .triton_rows import apply_plan, apply_transposed

        # Vectors keep their type; what was narrow before loses nothing.
        x = x if x.shape[3] == 1 else x.to(self.scores.type)
        biases: dict[str, Any] = {"row_bias": f, "key_bias": g + self.terms}
        call = apply_transposed if transposed else apply_plan
        return call(self.query, self.key, x, **biases, **self.options)

    def _entmax(self) -> tuple[Tensor, Levels]:
        from .triton_entmax import entmax_attend

        s = self.scores
        arrays = (self.query, self.key, s.native("value"))
        tau = self.temperature
        return entmax_attend(*arrays, s.order, key_bias=self.terms, temperature=tau, **self.options)

    def entmax(self) -> tuple[Tensor, Tensor]:
        """P V of rows of entmax, and their potentials."""
        from .triton_entmax import potentials

        out, levels = self._entmax()
        f = potentials(levels, self.scores.order, self.temperature)
        return out.to(self.scores.wide), f.where(~self.scores.lost, torch.nan)

    def entmax_backward(self, wanted: Collection[str], upstream: Tensor) -> dict[str, Tensor]:
        """Gradients of rows of entmax, whose levels are found again."""
        from .triton_entmax import entmax_backward

        s = self.scores
        _, levels = self._entmax()
        levels = levels._replace(weight=levels.weight.where(~s.lost, torch.nan))
        arrays = (self.query, self.key, s.native("value"), upstream.to(s.type), levels)
        tau = self.temperature
        found = entmax_backward(*arrays, s.order, key_bias=self.terms, temperature=tau, **self.options)
        return self._named(found, wanted)

    def _named(self, found: tuple[Tensor, Tensor, Tensor], wanted: Collection[str]) -> dict[str, Tensor]:
        by_query, by_key, by_value = found
        tau = self.scores.tau(self.scores.given)
        if isinstance(tau, Tensor) and tau.dim() > 0:
            by_query = by_query / tau[..., None]
        by_name = {"query": by_query, "key": by_key, "value": by_value}
        return {name: by_name[name].to(self.scores.wide) for name in wanted}

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
        from .triton_backward import backward

        s = self.scores
        if upstream is None or "value" not in s.given:
            nothing = self.key.new_zeros(())
            values = nothing.expand(s.batch, s.key_heads, s.columns, NARROWEST)
            out = nothing.expand(s.batch, s.heads, s.rows, NARROWEST)
        else:
            values, out = s.native("value"), upstream.to(s.type)
        plan: dict[str, Any] = {
            "row_bias": f,
            "key_bias": g + self.terms,
            "row_term": row_term,
            "key_term": key_term,
        }
        return self._named(backward(self.query, self.key, values, out, **plan, **self.options), wanted)
