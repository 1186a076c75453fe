"""Generated calls of scaled_dot_product_attention: outputs and gradients against torch's math backend in f64.

Bounds are those of the numeric policy, for every element (u = unit roundoff of the arithmetic):

    |out - ref|  <= u A (8 + 4 B) + ulp / 2        A = P |V|,  B = max_j scale |q_i| |k_j| + |bias_ij|
    |grad - ref| <= u M (32 + 8 B) + ulp / 2       M = the gradient's formula with every term's absolute value
"""

from __future__ import annotations

from typing import Any, NamedTuple

import otattn
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel

EXAMPLES = 600
ROUNDOFF = {
    torch.float64: 2.0**-53,
    torch.float32: 2.0**-24,
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
}
checked = {"calls": 0}


class Case(NamedTuple):
    batch: tuple[int, ...]
    heads: int
    key_heads: int
    queries: int
    keys: int
    width: int
    values: int
    dtype: torch.dtype
    mask: str
    mask_rank: int
    scale: float | None
    layout: str
    spread: float
    seed: int


@st.composite
def cases(draw: Any) -> Case:
    key_heads = draw(st.sampled_from([1, 1, 2, 3]))
    heads = key_heads * draw(st.sampled_from([1, 1, 2, 4]))
    keys = draw(st.integers(1, 40))
    mask = draw(st.sampled_from(["none", "causal", "boolean", "float", "learned", "shut rows"]))
    return Case(
        draw(st.sampled_from([(), (1,), (2,), (3,), (2, 2)])),
        heads,
        key_heads,
        keys if mask == "causal" else draw(st.integers(1, 40)),
        keys,
        draw(st.sampled_from([1, 3, 8, 16, 31])),
        draw(st.sampled_from([1, 4, 8, 17])),
        draw(st.sampled_from([torch.float32] * 3 + [torch.float64] * 2 + [torch.bfloat16, torch.float16])),
        mask,
        draw(st.integers(2, 4)),
        draw(st.sampled_from([None, None, 0.3, 1.0])),
        draw(st.sampled_from(["dense", "heads inside", "widths outside", "every other"])),
        draw(st.sampled_from([0.1, 1.0, 1.0, 3.0])),
        draw(st.integers(0, 2**31)),
    )


def arranged(x: torch.Tensor, layout: str) -> torch.Tensor:
    if layout == "heads inside" and x.dim() > 3:
        return x.transpose(-3, -2).contiguous().transpose(-3, -2)
    if layout == "widths outside":
        return x.transpose(-2, -1).contiguous().transpose(-2, -1)
    if layout == "every other":
        return x.repeat_interleave(2, -2)[..., ::2, :]
    return x


def drawn(case: Case) -> tuple[list[torch.Tensor], torch.Tensor | None, torch.Tensor]:
    generator = torch.Generator().manual_seed(case.seed)

    def normal(*shape: int) -> torch.Tensor:
        return (case.spread * torch.randn(shape, generator=generator, dtype=torch.float64)).to(case.dtype)

    lead = case.batch
    tensors = [
        arranged(normal(*lead, heads, n, width), case.layout).detach().requires_grad_()
        for heads, n, width in (
            (case.heads, case.queries, case.width),
            (case.key_heads, case.keys, case.width),
            (case.key_heads, case.keys, case.values),
        )
    ]
    mask: torch.Tensor | None = None
    whole = (*lead, case.heads, case.queries, case.keys)
    shape = whole[max(0, len(whole) - case.mask_rank) :]
    if case.mask in ("boolean", "shut rows"):
        mask = torch.rand(shape, generator=generator) < (0.7 if case.mask == "boolean" else 0.15)
    elif case.mask in ("float", "learned"):
        mask = torch.randn(shape, generator=generator).to(case.dtype)
        if case.mask == "float":
            mask = mask.masked_fill(torch.rand(shape, generator=generator) < 0.2, float("-inf"))
        mask.requires_grad_(case.mask == "learned")
    return tensors, mask, normal(*lead, case.heads, case.queries, case.values)


def summed(x: torch.Tensor, like: torch.Tensor, groups: int = 1) -> torch.Tensor:
    """Sums repeated heads and broadcast dimensions away."""
    if groups > 1:
        x = x.unflatten(-3, (-1, groups)).sum(-3)
    return x.sum_to_size(like.shape)


def compare(name: str, found: torch.Tensor, right: torch.Tensor, bound: torch.Tensor) -> None:
    if found.dtype in (torch.float16, torch.bfloat16):
        bound = 2 * bound + ROUNDOFF[found.dtype] * right.abs()
    # Below this, weights and results of the arithmetic underflow.
    bound = bound + torch.finfo(found.dtype).smallest_normal
    excess = ((found.double() - right).abs() - bound).max() if found.numel() else torch.tensor(0.0)
    assert excess <= 0.0, f"{name}: {(found.double() - right).abs().max():.3g} off, {bound.max():.3g} allowed"


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    database=None,
)
@given(cases())
def test_outputs_and_gradients(case: Case) -> None:
    event(case.mask)
    torch.set_num_threads(1)
    with otattn.threads(1):
        check(case)


def check(case: Case) -> None:
    tensors, mask, upstream = drawn(case)
    causal, gqa = case.mask == "causal", case.heads != case.key_heads
    out = otattn.attention(*tensors, mask, 0.0, causal, case.scale, gqa)
    leaves = [*tensors, *([mask] if case.mask == "learned" and mask is not None else [])]
    found = torch.autograd.grad(out, leaves, upstream)

    wide = [x.detach().double().requires_grad_() for x in leaves]
    added = wide[3] if len(wide) > 3 else mask
    if added is not None and added.is_floating_point():
        added = added.double()
    with sdpa_kernel(SDPBackend.MATH):
        right = F.scaled_dot_product_attention(
            *wide[:3], added, 0.0, causal, scale=case.scale, enable_gqa=gqa
        )
    expected = torch.autograd.grad(right, wide, upstream.double())

    # In f64 the other side rounds as much.
    u = 2 * ROUNDOFF[torch.float64] if case.dtype == torch.float64 else ROUNDOFF[torch.float32]
    groups = case.heads // case.key_heads
    with torch.no_grad():
        q, k, v = wide[0], *(x.repeat_interleave(groups, -3) for x in wide[1:3])
        scale = case.scale or case.width**-0.5
        scores, sizes = scale * q @ k.mT, scale * q.abs() @ k.abs().mT
        allowed = torch.ones(scores.shape, dtype=torch.bool)
        if causal:
            allowed = allowed.tril()
        elif added is not None and added.dtype == torch.bool:
            allowed = allowed & added
        elif added is not None:
            allowed = allowed & ~torch.isneginf(added)
            scores = scores + added
            sizes = sizes + added.abs().nan_to_num(posinf=0.0)
        P = scores.masked_fill(~allowed, float("-inf")).softmax(-1).nan_to_num()
        B = sizes.masked_fill(~allowed, 0.0).amax(-1, keepdim=True)
        # bf16 weights and slopes may be rounded to bf16 before they are multiplied
        # (docs/development/numerics.md).
        rounded = ROUNDOFF[torch.bfloat16] if case.dtype == torch.bfloat16 else 0.0
        reach = P @ v.abs()
        compare(
            "out", out, right, u * reach * (8 + 4 * B) + u * right.abs() + rounded * (reach + right.abs())
        )
        U = upstream.double().abs() @ v.abs().mT
        # Two-byte inputs: backward reads an out that was rounded to them.
        narrow = ROUNDOFF[case.dtype] if case.dtype in (torch.float16, torch.bfloat16) else 0.0
        G = P * (U + (P * U).sum(-1, keepdim=True)) * ((32 + 8 * B) * u + narrow + rounded)
        bounds = [
            scale * G @ k.abs(),
            summed(scale * G.mT @ q.abs(), tensors[1], groups),
            summed((P * ((32 + 8 * B) * u + rounded)).mT @ upstream.double().abs(), tensors[2], groups),
            *([summed(G, leaves[3])] if len(leaves) > 3 else []),
        ]
    for name, ours, theirs, bound in zip(
        ("query", "key", "value", "mask"), found, expected, bounds, strict=False
    ):
        assert ours.dtype == case.dtype and ours.shape == theirs.shape
        compare(name, ours, theirs, bound + u * theirs.abs())
    checked["calls"] += 1


def test_enough_calls_were_compared() -> None:
    assert checked["calls"] >= 500
