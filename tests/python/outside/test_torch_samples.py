"""torch's own samples of scaled_dot_product_attention, from its wheel, answered by otattn.attention."""

from __future__ import annotations

from typing import Any

import otattn
import pytest
import torch
import torch.nn.functional as F

NAME = "nn.functional.scaled_dot_product_attention"


def samples(dtype: torch.dtype) -> list[Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    (info,) = [op for op in op_db if op.name == NAME]
    return list(info.sample_inputs("cpu", dtype, requires_grad=True))


def with_gradients(function: Any, sample: Any) -> tuple[torch.Tensor, list[torch.Tensor | None]]:
    """The output, and the gradients of its sum with fixed weights by every input that wants one."""
    leaves = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in (sample.input, *sample.args)]
    torch.manual_seed(3)
    out = function(*leaves, **sample.kwargs)
    along = torch.cos(torch.arange(out.numel(), dtype=out.dtype)).reshape(out.shape)
    wanted = [x for x in leaves if x.requires_grad]
    return out.detach(), list(torch.autograd.grad(out, wanted, along, allow_unused=True))


def far(x: torch.Tensor, exact: torch.Tensor) -> float:
    return (x.double() - exact).abs().max().item() if x.numel() > 0 else 0.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_samples(dtype: torch.dtype) -> None:
    """As near to the answer in f64 as torch's own, within a factor 2 and roundings of products of inputs.

    Dropout draws other numbers: those samples are compared in shape and type alone.
    """
    found = samples(dtype)
    assert len(found) >= 25
    for k, sample in enumerate(found):
        theirs, their_gradients = with_gradients(F.scaled_dot_product_attention, sample)
        ours, gradients = with_gradients(otattn.attention, sample)
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, k
        if sample.kwargs.get("dropout_p", 0.0) > 0.0:
            continue
        wide = sample.transform(lambda x: x.double() if torch.is_tensor(x) and x.is_floating_point() else x)
        exact, exact_gradients = with_gradients(F.scaled_dot_product_attention, wide)
        largest = max(1.0, *(x.abs().max().item() for x in (sample.input, *sample.args) if x.numel() > 0))
        rounding = 64 * torch.finfo(dtype).eps * largest**2
        for mine, other, right in zip(
            (ours, *gradients), (theirs, *their_gradients), (exact, *exact_gradients), strict=True
        ):
            assert (mine is None) == (other is None), k
            if mine is None or mine.numel() == 0:
                continue
            assert far(mine, right) <= 2 * far(other, right) + rounding, k
