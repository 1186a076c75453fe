"""Tensors on any torch device: which way a call goes, and what is said of calls that go to the CPU.

Nothing here imports torch: a tensor brings it along.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ._leaks import warn
from ._settings import is_torch

if TYPE_CHECKING:
    import torch

# Rounds between two looks at what tells a loop to stop: each look waits for the device.
EVERY = 4
# Elements that temporaries of one step have at most.
BLOCK = 1 << 24


def by_torch(name: str, x: Any, backend: Any) -> bool:
    """Whether torch's own operations compute a call on x; ValueError for a backend that x cannot have."""
    away = is_torch(x) and not x.is_cpu
    if backend is None:
        return away
    if not isinstance(backend, str) or backend not in ("cpu", "torch"):
        raise ValueError(f"backend is {backend!r}, wanted 'cpu' or 'torch'")
    if backend == "torch" and not is_torch(x):
        raise ValueError(f"backend is 'torch', but {name} is no tensor; pass torch.as_tensor({name})")
    if backend == "cpu" and away:
        raise ValueError(
            f"backend is 'cpu', but {name} lies on {x.device}; leave backend out, or pass {name}.cpu()"
        )
    return backend == "torch"


def check_device(name: str, x: Any, other: str, like: Any) -> None:
    """ValueError for an array or tensor x that lies on another device than the tensor `like`."""
    here, there = str(x.device) if is_torch(x) else "cpu", str(like.device)
    if here != there:
        moved = f"{name}.to({there!r})" if is_torch(x) else f"torch.as_tensor({name}, device={there!r})"
        raise ValueError(f"{name} and {other} lie on two devices, {here} and {there}; pass {moved}")


def wide_type(device: torch.device) -> torch.dtype:
    """f64, or f32 where a device has no such numbers."""
    import torch

    if device.type == "mps":
        return torch.float32
    if device.type == "xpu" and not torch.xpu.get_device_properties(device).has_fp64:
        return torch.float32
    return torch.float64


def pieces(count: int, elements: int) -> Iterator[slice]:
    """Slices of `count` things of so many elements each, of a block or one thing."""
    step = max(1, BLOCK // max(1, elements))
    for first in range(0, count, step):
        yield slice(first, min(first + step, count))


_warned: set[str] = set()


def warn_of_cpu(what: str) -> None:
    """Says once of each reason that tensors go to the CPU."""
    if what not in _warned:
        _warned.add(what)
        warn(f"{what} is computed on the CPU: the tensors of the call go there and back", UserWarning)
