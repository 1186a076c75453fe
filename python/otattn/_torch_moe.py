"""`route` of tensors as the operator route, for whoever looks on at torch's operators or makes graphs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import moe
from ._aux import AuxRequest
from ._coupling import coupling
from ._settings import whole
from ._torch import _has_numbers
from ._torch_derivative import no_second, no_setup, register
from ._torch_watch import is_watched

_library = torch.library.Library("otattn", "FRAGMENT")
_library.define(
    "route(Tensor logits, int k, Tensor? capacity, Tensor? least, Tensor? largest, Tensor? potentials, "
    "str method, float tolerance, int? rounds, bool certificate) -> Tensor[]"
)
_FACTS = len(moe.RouteCertificate._fields)


def _route(logits: Tensor, k: int, *others: Any) -> list[Tensor]:
    """Experts, weights, potentials, load, kept, and the numbers of the certificate."""
    capacity, least, largest, potentials, method, *limits = others
    bounds = None if least is None or largest is None else (least.cpu().numpy(), largest.cpu().numpy())
    capacities = None if capacity is None else capacity.cpu().numpy()
    answer, _ = moe.chosen(moe.Asked(logits, k, capacities, bounds, method, potentials, 1.0, *limits))
    made = [torch.from_numpy(x).to(logits.device) for x in answer[:5]]
    made[1] = made[1].to(logits.dtype)
    return [*made, torch.tensor([float(x) for x in answer[5:]], dtype=torch.float64)]


def _fake(logits: Tensor, k: int, *others: Any) -> list[Tensor]:
    del others
    tokens, experts = logits.shape
    shapes = ((tokens, k), (tokens, k), (experts,), (experts,), (tokens, k), (_FACTS,))
    types = (torch.int64, logits.dtype, torch.float64, torch.int64, torch.bool, torch.float64)
    return [logits.new_empty(shape, dtype=kind) for shape, kind in zip(shapes, types, strict=True)]


for _device in ("CPU", "CUDA"):
    _library.impl("route", _route, _device)
torch.library.register_fake("otattn::route", _fake, lib=_library)
register(_library, "route", no_setup, no_second, no_second)


def _tensor(x: Any) -> Tensor | None:
    return None if x is None else torch.as_tensor(x)


def _soft(
    logits: Tensor, k: int, capacity: Any, bounds: Any, potentials: Any, temperature: float
) -> tuple[Tensor, Tensor]:
    """The plan, which has derivatives, and the biases of its choice."""
    tokens, experts = logits.shape
    share, low, high = tokens * k / experts, 1.0, 1.0
    if capacity is not None:
        bounds = (0, capacity)
    if bounds is not None:
        if any(not isinstance(x, int) for x in bounds):
            raise ValueError('"soft" takes capacity and bounds as whole numbers where calls become operators')
        low, high = bounds[0] / share, min(bounds[1], tokens) / share
    start = _tensor(potentials)
    plan, aux = coupling(
        logits,
        method="softmax/bounded:1,1",
        lower=low,
        upper=high,
        temperature=temperature,
        start_potential=None if start is None else start.double() / temperature,
        return_aux=AuxRequest(potentials=True),
    )
    assert aux.potentials is not None
    return plan, aux.potentials.column.detach() * temperature


def route_watched(asked: moe.Asked) -> moe.Routing | None:
    """What `route` returns, where the dispatcher has to see it; None: it has not, or there are no tokens."""
    logits, k, capacity, bounds, method, potentials, temperature, *limits = asked
    if not is_watched() or logits.dim() != 2 or logits.shape[0] == 0:
        return None
    if bounds is not None and (not isinstance(bounds, (tuple, list)) or len(bounds) != 2):
        raise TypeError(f"bounds is {bounds!r}, wanted a pair (least load, largest load)")
    plan = None
    how, start = method, potentials
    if method == "soft":
        plan, start = _soft(logits, whole("k", k, 1), capacity, bounds, potentials, temperature)
        how = "given"
    least, largest = (None, None) if bounds is None else map(_tensor, bounds)
    places = (_tensor(capacity), least, largest, _tensor(start))
    tolerance, rounds, certificate = limits
    words = (how, float(tolerance), rounds, certificate)
    experts, weights, biases, load, kept, facts = torch.ops.otattn.route(logits.detach(), k, *places, *words)
    if plan is not None:
        weights = plan.gather(1, experts) * kept
    elif logits.requires_grad or torch._C._are_functorch_transforms_active():
        weights = moe.differentiable(logits, experts, kept, method == "sinkhorn" and k == 1)
    numbers: Any = facts.unbind()
    if not (torch.compiler.is_compiling() or torch._C._is_tracing()) and _has_numbers(logits):
        value, bound, excess, found, converged = facts.tolist()
        numbers = (value, bound, int(excess), int(found), bool(converged))
    return moe.Routing(experts, weights, biases, load, moe.RouteCertificate(*numbers), kept)
