"""Engines of torch's own attention operators that return their log-sum-exp, for plain scores.

    bias per key   q has three further columns of 1, and k the bias over the scale as a sum of three numbers
                   of the type of the arrays, so that bf16 keeps 24 bits of it
    transposed     q and k change places; causal calls, filled up to a square, are in reversed order
    P x            x in the place of the values, times exp(f + LSE)
    gradient       one reverse call with -f in the place of the LSE: it computes P again from that, not
                   normalised, and takes its output for D_i = dO_i . O_i alone. Values get columns of the
                   key term and dO -1 there; the output is 0 but for minus the row term there:
                   dS = P (dO V^T - row term - key term)

A key that may carry nothing has a bias that no weight survives and that is finite, since kernels make NaN of
infinities; rows that meet only such keys are found by counting. What no operator can do is left to Blocks.

Only the operator for CPUs has run. Those of CUDA, ROCm and XPU have never run on hardware: an operator has to
return what is known of a small call before an engine takes any (`_keeps`).
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from .blocks import Blocks
from .scores import Scores

# Columns of a number, and what widths are multiples of.
PARTS, ALIGNED = 3, 8
# Nats below other scores: the rounding of it stays far from the largest exponents of f32.
SHUT = 1e7
# Of f16: what one column holds, and the fewest nats that it may stand for.
LARGEST_HALF, LEAST_SHUT = 6e4, 1e3
# The most pairs of a square that causal ones are filled up to, over those that there are.
FILLED = 4
_NARROW = (torch.bfloat16, torch.float16)
# Arguments of the operators that are the same in every call, and results that are arguments of other names.
_FIXED = {"dropout_p": 0.0, "attn_bias": None, "compute_log_sumexp": True}
_RENAMED = {"rng_state": "philox_seed", "unused": "philox_offset"}


def _called(name: str, known: Mapping[str, Any]) -> tuple[tuple[Any, ...], list[str]]:
    """The results of an operator, from its arguments by name, and their names."""
    operator = getattr(torch.ops.aten, name).default
    # One of them is called grad_out_.
    names = ((x.name, x.name.rstrip("_")) for x in operator._schema.arguments)
    results = operator(**{given: known[plain] for given, plain in names if plain in known})
    return tuple(results), [_RENAMED.get(x.name or "", x.name or "") for x in operator._schema.returns]


def forward(name: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the reverse: those of the call, `out`, `logsumexp`, and what else there is."""
    known = {**_FIXED, **known}
    results, names = _called(name, known)
    return {**known, **dict(zip(["out", "logsumexp", *names[2:]], results, strict=True))}


def reverse(name: str, known: Mapping[str, Any]) -> tuple[Tensor, ...]:
    """Gradients by query, key and value."""
    return _called(name + "_backward", {"grad_input_mask": [True, True, True, False], **known})[0][:3]


@functools.lru_cache(maxsize=256)
def _keeps(operator: str, device: torch.device, type_: torch.dtype, width: int, causal: bool) -> bool:
    """Whether an operator is there and has the LSE and the reverse that engines count on, of a small call."""
    n, scale = 2 * ALIGNED, width**-0.5
    angles = torch.arange(5.0 * n * width, dtype=torch.float64).reshape(5, 1, 1, n, width)
    narrow = [(x * (1.0 + k)).sin().to(type_) for k, x in enumerate(angles)]
    q, k, v, u, o = (x.double() for x in narrow)
    scores = scale * (q @ k.mT)
    if causal:
        scores = scores.masked_fill(torch.ones(n, n).triu(1) > 0, -torch.inf)
    lse = torch.logsumexp(scores, 3)
    # A potential that normalises nothing, and an output of other values.
    p = torch.exp(scores + 0.5 - lse[..., None])
    ds = scale * p * (u @ v.mT - (u * o).sum(3, keepdim=True))
    expected = (lse, torch.exp(scores - lse[..., None]) @ v, ds @ k, ds.mT @ q, p.mT @ u)
    names = ("query", "key", "value", "grad_out", "out")
    try:
        known: dict[str, Any] = {name: x.to(device) for name, x in zip(names, narrow, strict=True)}
        answer = forward(operator, {**known, "is_causal": causal, "scale": scale})
        moved = (answer["logsumexp"] - 0.5).contiguous()
        found = reverse(operator, {**answer, "out": known["out"], "logsumexp": moved})
        results = (answer["logsumexp"].reshape(1, 1, -1)[..., :n], answer["out"], *found)
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    # Another formula is off by a part of the largest, rounding by some units of the type.
    close = max(16.0 * torch.finfo(type_).eps, 1e-5)
    pairs = zip(results, expected, strict=True)
    return all(bool((x.cpu().double() - y).abs().max() <= close * y.abs().max()) for x, y in pairs)


def parts_of(x: Tensor, type_: torch.dtype) -> Tensor:
    """[..., PARTS]: numbers of a type whose sum is x."""
    found: list[Tensor] = []
    for _ in range(PARTS):
        part = x.clamp(-LARGEST_HALF, LARGEST_HALF) if type_ == torch.float16 else x
        found.append(part.to(type_))
        x = x - found[-1]
    return torch.stack(found, -1)


class Attending(ABC):
    """The calls of an engine that follow from `attend`."""

    name: str
    scores: Scores
    differentiates: frozenset[str] = frozenset(("query", "key", "value"))
    """Operands by which it has gradients; of a call it may be fewer, and the others are left to Blocks"""

    @abstractmethod
    def attend(self, bias: Tensor, x: Tensor | None, transposed: bool = False) -> tuple[Tensor, Tensor]:
        """See engines.py; transposed with rows and columns exchanged."""

    def lse(self, bias: Tensor, transposed: bool = False) -> Tensor:
        return self.attend(bias, None, transposed)[1]

    def product(
        self, f: Tensor, g: Tensor, x: Tensor, transposed: bool = False, dropped: bool = False
    ) -> Tensor:
        bias, outside = (f, g) if transposed else (g, f)
        if x.shape[3] > 1 or self.scores.type not in _NARROW:
            out, lse = self.attend(bias, x, transposed)
            return out * torch.exp(outside + lse)[..., None]
        # Vectors have more bits than the caller's arrays. Only their range is rounded, since the middle is
        # multiplied by sums that are known; f16 has few exponents.
        x = self.each(x)
        low, high = torch.aminmax(x, dim=2, keepdim=True)
        middle, size = (low + high) / 2.0, (high - low) / 2.0
        size = size.where(size > 0.0, 1.0)
        x = parts_of(((x - middle) / size)[..., 0], self.scores.type)
        out, lse = self.attend(bias, x, transposed)
        return (out.sum(3, keepdim=True) * size + middle) * torch.exp(outside + lse)[..., None]

    @abstractmethod
    def gradients(self, given: tuple[Tensor, ...], upstream: Tensor | None) -> dict[str, Tensor]:
        """Of the first four arguments of `backward`: at least by what it `differentiates`."""

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
        if coupling is not None or not self.differentiates.issuperset(wanted):
            return Blocks(self.scores).backward(f, g, row_term, key_term, wanted, upstream, coupling)
        found = self.gradients((f, g, row_term, key_term), upstream)
        return {name: found[name] for name in wanted}

    def each(self, x: Tensor) -> Tensor:
        """For every head, of key heads."""
        return x.repeat_interleave(self.scores.heads // x.shape[1], 1)


class Fused(Attending):
    """See engines.py. The rows of the kernel begin `top` before the first, its keys `left` before theirs."""

    differentiates = Attending.differentiates | {"temperature"}
    operators: ClassVar[Mapping[str, tuple[str, tuple[torch.dtype, ...]]]]
    """By the type of the device: one of torch.ops.aten, whose reverse ends in _backward, and its types"""

    def __init__(self, scores: Scores) -> None:
        s = self.scores = scores
        self.operator = self.operators[s.device.type][0]
        self.width = -(-(max(s.given["query"].shape[3], s.width) + PARTS) // ALIGNED) * ALIGNED
        # A temperature that is no number is in q.
        tau = s.tau(s.given)
        self.tau = tau[..., None] if isinstance(tau, Tensor) and tau.dim() else tau
        self.scale = abs(s.scale) / (1.0 if isinstance(tau, Tensor) else tau)
        self.inside = math.copysign(1.0, s.scale) / (self.tau if isinstance(tau, Tensor) else 1.0)
        self.shut = min(SHUT, PARTS * LARGEST_HALF * self.scale) if s.type == torch.float16 else SHUT
        self.causal = s.high is not None and s.high < s.columns - 1
        high = s.high if self.causal and s.high else 0
        self.top, self.left = max(high, 0), max(-high, 0)
        if {"bias", "attn_mask"} & s.given.keys():
            self.differentiates = Attending.differentiates
        self.pairs: dict[bool, tuple[Tensor, Tensor]] = {}
        self.answer: dict[str, Any] = {}

    @functools.cached_property
    def of_key(self) -> Tensor:
        """[batch, heads, columns]: biases of keys, -inf of those that no row may use."""
        return self.scores.key_biases().where(self.scores.usable[1], -torch.inf)

    @classmethod
    def refuses(cls, scores: Scores) -> str | None:
        s = scores
        if s.type not in cls.operators.get(s.device.type, ("", ()))[1]:
            return f"has no {s.type} on {s.device.type}"
        if "key" not in s.given or s.scale == 0.0:
            return "wants queries and keys, and a scale that is not 0"
        slopes = s.per_head("alibi_slopes", s.given, s.spec.alibi_slopes)
        if s.spec.softcap or slopes is not None or "relative_bias" in s.given:
            return "has no softcap, distances or relative biases"
        if not s.per_key or s.low is not None:
            return "has no masks and biases but those of keys and causal ones"
        if s.seed is not None:
            return "has no dropout"
        it = cls(s)
        if it.causal and (s.rows + it.top) ** 2 > FILLED * s.rows * s.columns:
            return "takes causal pairs as a square, which is far larger here"
        if it.shut < LEAST_SHUT:
            return "cannot leave out keys of this type at this scale"
        if not _keeps(it.operator, s.device, s.type, it.width, it.causal):
            return f"has no operator, or another one, for {s.type} on {s.device.type}"
        return None

    def _placed(self, x: Tensor, keys: bool, transposed: bool = False, otherwise: float = 0.0) -> Tensor:
        """[batch, heads, n, ...] among the kernel's rows or keys; keys behind the last row are cut."""
        if not self.causal:
            return x
        at, count = self.left if keys else self.top, self.scores.rows + self.top
        kept = min(x.shape[2], count - at)
        found = x.new_full((*x.shape[:2], count, *x.shape[3:]), otherwise)
        found[:, :, at : at + kept] = x[:, :, :kept]
        return found.flip(2) if transposed else found

    def _taken(self, x: Tensor, keys: bool, transposed: bool = False) -> Tensor:
        """The reverse, in the type of the arithmetic: 0 of what was cut."""
        s = self.scores
        at, count = (self.left, s.columns) if keys else (self.top, s.rows)
        x = x.flip(2) if transposed and self.causal else x
        found = x[:, :, at : at + count].to(s.wide)
        cut = count - found.shape[2]
        return torch.cat([found, found.new_zeros((*x.shape[:2], cut, *x.shape[3:]))], 2) if cut else found

    def _biased(self, bias: Tensor, transposed: bool) -> tuple[dict[str, Any], Tensor]:
        """Arguments of a call with this bias in what is asked, and which of those that ask meet anything."""
        s = self.scores
        depth = s.given["query"].shape[3]
        if transposed not in self.pairs:
            sides: list[Tensor] = []
            for keys in (transposed, not transposed):
                x = self.each(s.given["key"]) if keys else s.given["query"] * self.inside
                x = self._placed(x, keys, transposed)
                sides.append(x.new_zeros((*x.shape[:3], self.width), dtype=s.type))
                sides[-1][..., :depth] = x
            sides[0][..., depth : depth + PARTS] = 1.0
            self.pairs[transposed] = sides[0], sides[1]
        asking, asked = self.pairs[transposed]
        bias = bias if transposed else bias + self.of_key
        bias = self._placed(bias, not transposed, transposed, -torch.inf)
        open_ = bias != -torch.inf
        asked[..., depth : depth + PARTS] = parts_of(bias.where(open_, -self.shut) / self.scale, s.type)
        met = open_.cumsum(2) > 0 if self.causal else open_.any(2, keepdim=True)
        return {"query": asking, "key": asked, "is_causal": self.causal, "scale": self.scale}, met

    def attend(self, bias: Tensor, x: Tensor | None, transposed: bool = False) -> tuple[Tensor, Tensor]:
        s = self.scores
        known, met = self._biased(bias, transposed)
        values, w = known["key"], 0
        if x is not None:
            values, w = torch.zeros_like(values), x.shape[3]
            values[..., :w] = self._placed(self.each(x), not transposed, transposed)
        answer = forward(self.operator, {**known, "value": values})
        if not transposed:
            self.answer = answer
        lse = answer["logsumexp"].reshape(s.batch, s.heads, -1)[:, :, : known["query"].shape[2]]
        lse = self._taken(lse.where(met, -torch.inf), transposed, transposed)
        lse = lse + self.of_key if transposed else lse
        out = self._taken(answer["out"][..., :w], transposed, transposed)
        return out.where((lse != -torch.inf)[..., None], 0.0), lse

    def gradients(self, given: tuple[Tensor, ...], upstream: Tensor | None) -> dict[str, Tensor]:
        s, (f, g, row_term, key_term) = self.scores, given
        if not self.answer:
            self.lse(g)
        known, met = self._biased(g, False)
        values, moved, out = (torch.zeros_like(known[name]) for name in ("key", "query", "query"))
        depth, w = s.given["query"].shape[3], s.width
        if upstream is not None:
            values[..., :w] = self._placed(self.each(s.given["value"]), True)
            moved[..., :w] = self._placed(upstream, False)
        terms = slice(w, w + PARTS)
        values[..., terms] = parts_of(self._placed(key_term, True), s.type)
        moved[..., terms] = -1.0
        out[..., terms] = -parts_of(self._placed(row_term, False), s.type)
        lse = torch.full_like(self.answer["logsumexp"], SHUT, memory_format=torch.contiguous_format)
        f = self._placed(f, False, otherwise=-torch.inf).where(met, -torch.inf)
        lse.view(s.batch, s.heads, -1)[:, :, : f.shape[2]] = (-f).clamp(max=SHUT)
        more = {"value": values, "grad_out": moved, "out": out, "logsumexp": lse}
        found = reverse(self.operator, {**self.answer, **known, **more})
        by_query = self._taken(found[0][..., :depth], False) * self.inside
        by_key, by_value = (self._taken(x, True).unflatten(1, (s.key_heads, -1)).sum(2) for x in found[1:])
        results = {"query": by_query, "key": by_key[..., :depth], "value": by_value[..., :w]}
        if "temperature" in s.given:
            # The scores over the temperature are linear in q.
            of_head = -(by_query * s.given["query"] / self.tau).sum((0, 2, 3))
            shape = s.given["temperature"].shape
            results["temperature"] = of_head.reshape(shape) if shape else of_head.sum()
        return results


_WIDE = (torch.float32, *_NARROW)


class Flash(Fused):
    name = "flash"
    operators: ClassVar = {
        "cpu": ("_scaled_dot_product_flash_attention_for_cpu", (torch.float64, *_WIDE)),
        "cuda": ("_scaled_dot_product_flash_attention", _NARROW),
    }


class Cudnn(Fused):
    name = "cudnn"
    operators: ClassVar = {"cuda": ("_scaled_dot_product_cudnn_attention", _NARROW)}


class Efficient(Fused):
    name = "efficient"
    operators: ClassVar = {"cuda": ("_scaled_dot_product_efficient_attention", _WIDE)}


class Overrideable(Fused):
    name = "overrideable"
    operators: ClassVar = {"xpu": ("_scaled_dot_product_fused_attention_overrideable", _WIDE)}
