"""Tracers, modes and the profiler see every call on tensors as an operator, whatever calls came before."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import otattn
import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

torch.manual_seed(0)
_layer = otattn.nn.Attention(8, 2, batch_first=True).eval()
_even = torch.full((6,), 1 / 6)
# Each takes a tensor (2, 6, 8) and gives one.
FRONTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "attention": lambda x: otattn.attention(x, x, x, is_causal=True),
    "exact": lambda x: otattn.attention(x, x, x, method="softmax/exact"),
    "module": lambda x: _layer(x, x, x, need_weights=False)[0],
    "coupling": lambda x: otattn.coupling(x, method="softmax/exact"),
    "entmax": otattn.activations.entmax15,
    "normalize": lambda x: otattn.sinkhorn_normalize(x[:, :, :6]),
    "maxsim": lambda x: otattn.maxsim(x, x),
    "assignment": lambda x: otattn.linear_sum_assignment(x)[1],
    "route": lambda x: otattn.moe.route(x[0], 2).potentials,
    "soft": lambda x: otattn.moe.route(x[0], 2, method="soft").weights,
    "emd": lambda x: otattn.ot.emd(_even, _even, x[0, :, :6]),
    "emd_log": lambda x: otattn.ot.emd(_even, _even, x[0, :, :6], log=True)[1]["u"],
    "emd2": lambda x: otattn.ot.emd2(_even, _even, x[0, :, :6]),
    "sinkhorn": lambda x: otattn.ot.sinkhorn(_even, _even, x[0, :, :6], 0.5),
    "sinkhorn_log": lambda x: otattn.ot.sinkhorn(_even, _even, x[0, :, :6], 0.5, log=True)[1]["log_u"],
    "sinkhorn2": lambda x: otattn.ot.sinkhorn2(_even, _even, x[0, :, :6], 0.5),
    "solve": lambda x: otattn.ot.solve(x[0, :, :6], _even, _even, reg=0.5).value,
}


def same(found: torch.Tensor, right: torch.Tensor) -> bool:
    """But for sums of the 36 terms of a plan, which torch rounds at every step."""
    if not right.is_floating_point():
        return torch.equal(found, right)
    room = 36 * torch.finfo(right.dtype).eps * max(1.0, float(right.detach().abs().max()))
    return bool((found - right).abs().max() <= room)


class _Front(torch.nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.layer, self.call = _layer, FRONTS[name]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.call(x)


def drawn(seed: int) -> torch.Tensor:
    return torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(params=list(FRONTS))
def front(request: Any) -> _Front:
    """One that was called before, so that the structs of its calls are kept."""
    found = _Front(request.param)
    with torch.no_grad():
        for seed in range(3):
            found(drawn(seed))
    return found


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
def test_traced_graphs_follow_their_input(front: _Front) -> None:
    with torch.no_grad():
        traced = torch.jit.trace(front, (drawn(3),), check_trace=False)
        file = io.BytesIO()
        torch.jit.save(traced, file)
        file.seek(0)
        loaded = torch.jit.load(file)
        for seed in (3, 4):
            right = front(drawn(seed))
            assert same(traced(drawn(seed)), right)
            assert same(loaded(drawn(seed)), right)
    assert "otattn::" in str(traced.inlined_graph)


class _Functions(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


class _Operators(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [_Functions, _Operators])
def test_modes_see_operators(front: _Front, mode: Any) -> None:
    right = front(drawn(3))
    with torch.no_grad(), mode() as watcher:
        found = front(drawn(3))
    assert same(found, right)
    assert any("otattn" in name for name in watcher.seen), watcher.seen


def test_the_profiler_names_operators(front: _Front) -> None:
    with torch.no_grad(), torch.profiler.profile() as profile:
        front(drawn(3))
    assert any(event.key.startswith("otattn::") for event in profile.key_averages())
