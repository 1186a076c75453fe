"""`route` of tensors as the operator route: on devices, and for whoever sees operators or makes graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import _torch_route, moe
from ._aux import AuxRequest
from ._coupling import coupling
from ._settings import flag, number, whole
from ._torch import _has_numbers
from ._torch_derivative import no_second, no_setup, register
from ._torch_device import by_torch, check_device, warn_of_cpu, wide_type
from ._torch_vmap import looped_vmap
from ._torch_watch import is_watched

_library = torch.library.Library("otattn", "FRAGMENT")
_library.define(
    "route(Tensor logits, int k, Tensor? capacity, Tensor? least, Tensor? largest, Tensor? potentials, "
    "str method, float tolerance, int? rounds, bool certificate, bool by_torch) -> Tensor[]"
)
_FACTS = len(moe.RouteCertificate._fields)


def _whole_numbers(x: Tensor | None) -> Any:
    return None if x is None else x.cpu().numpy()


def _route(logits: Tensor, k: int, *others: Any) -> list[Tensor]:
    """Experts, weights, potentials, load, kept, and the numbers of the certificate."""
    capacity, least, largest, potentials, method, *limits, on_device = others
    bounds = None if least is None or largest is None else (_whole_numbers(least), _whole_numbers(largest))
    places = (_whole_numbers(capacity), bounds)
    if on_device:
        return _by_torch(moe.Asked(logits, k, *places, method, None, 1.0, *limits), potentials)
    answer, _ = moe.chosen(moe.Asked(logits, k, *places, method, potentials, 1.0, *limits))
    made = [torch.from_numpy(x) for x in answer[:5]]
    made[1] = made[1].to(logits.dtype)
    return [*made, torch.tensor([float(x) for x in answer[5:]], dtype=torch.float64)]


def _by_torch(asked: moe.Asked, start: Tensor | None) -> list[Tensor]:
    logits = asked.logits
    x = logits if logits.element_size() > 2 else logits.float()
    terms = moe.terms_of(asked, *x.shape)
    if logits.is_cpu or asked.method in ("sinkhorn", "quantile"):
        # Otherwise nothing waits for the device.
        _check_finite(x)
    if logits.is_cpu and start is not None:
        moe.start_of(start, x.shape[1])
    lower, upper = (torch.from_numpy(np.ascontiguousarray(y)).to(x.device) for y in terms[1:3])
    own = _torch_route.Terms(
        terms.k,
        asked.method,
        lower,
        upper,
        terms.given,
        start,
        terms.tolerance,
        terms.rounds,
        terms.certificate,
    )
    experts, biases, load, kept, numbers = _torch_route.answer(x, own)
    weights = moe.differentiable(logits, experts, kept, asked.method == "sinkhorn" and terms.k == 1)
    return [experts, weights, biases, load, kept, numbers]


def _check_finite(x: Tensor) -> None:
    wrong = ~x.isfinite()
    if bool(wrong.any()):
        row, column = wrong.nonzero()[0].tolist()
        raise ValueError(f"logits[{row}, {column}] is {float(x[row, column])}, wanted finite numbers")


def _fake(logits: Tensor, k: int, *others: Any) -> list[Tensor]:
    del others
    tokens, experts = logits.shape
    wide = wide_type(logits.device)
    shapes = ((tokens, k), (tokens, k), (experts,), (experts,), (tokens, k), (_FACTS,))
    types = (torch.int64, logits.dtype, wide, torch.int64, torch.bool, wide)
    return [logits.new_empty(shape, dtype=kind) for shape, kind in zip(shapes, types, strict=True)]


_library.impl("route", _route, "CompositeExplicitAutograd")
torch.library.register_fake("otattn::route", _fake, lib=_library)
register(_library, "route", no_setup, no_second, no_second)
torch.library.register_vmap("otattn::route", looped_vmap(torch.ops.otattn.route), lib=_library)


def _tensor(x: Any) -> Tensor | None:
    return None if x is None else torch.as_tensor(x)


def _shares(asked: moe.Asked, graphs: bool) -> tuple[float, float]:
    """Bounds of the column sums of the plan of "soft", over their mean."""
    logits, capacity, bounds = asked.logits, asked.capacity, asked.bounds
    tokens, experts = logits.shape
    if not graphs:
        return moe.shares_of(moe.terms_of(asked._replace(potentials=None), tokens, experts), tokens)
    if capacity is not None:
        bounds = (0, capacity)
    if bounds is None:
        return 1.0, 1.0
    if any(not isinstance(x, int) for x in bounds):
        raise ValueError('"soft" takes capacity and bounds as whole numbers where calls become operators')
    share = tokens * whole("k", asked.k, 1) / experts
    return bounds[0] / share, min(bounds[1], tokens) / share


def _soft(
    logits: Tensor, shares: tuple[float, float], start: Tensor | None, temperature: float, on_device: bool
) -> tuple[Tensor, Tensor, int]:
    """The plan, which has derivatives, the biases of its choice, and rounds, where they can be read."""
    plan, aux = coupling(
        logits,
        method="softmax/bounded:1,1",
        lower=shares[0],
        upper=shares[1],
        temperature=temperature,
        start_potential=None if start is None else start / temperature,
        return_aux=AuxRequest(potentials=True),
        backend="torch" if on_device else None,
    )
    assert aux.potentials is not None
    rounds = 0 if aux.info is None else aux.info.rounds
    return plan, aux.potentials.column.detach() * temperature, rounds


def _start(potentials: Any, logits: Tensor) -> Tensor | None:
    """The potentials where torch's operations take them."""
    if potentials is None:
        return None
    if isinstance(potentials, Tensor):
        check_device("potentials", potentials, "logits", logits)
        if potentials.shape != logits.shape[1:]:
            raise ValueError(
                f"potentials has shape {tuple(potentials.shape)}, wanted ({logits.shape[1]},), one number an "
                "expert"
            )
        return potentials.detach().to(wide_type(logits.device))
    found: Tensor = torch.from_numpy(moe.start_of(potentials, logits.shape[1]))
    return found.to(logits.device, wide_type(logits.device))


def _moved(found: moe.Routing, logits: Tensor) -> moe.Routing:
    """The answer where the logits are."""
    moved: list[Any] = [x.to(logits.device) if isinstance(x, Tensor) else x for x in found]
    return moe.Routing(*moved)


def route_watched(asked: moe.Asked) -> moe.Routing | None:
    """What `route` returns where the dispatcher has to see it or torch's operations compute it.

    None: neither, or there are no tokens.
    """
    logits, k, capacity, bounds, method, potentials, temperature, tolerance, rounds, certificate, backend = (
        asked
    )
    on_device = by_torch("logits", logits, backend)
    if on_device and (logits.dim() != 2 or logits.shape[1] == 0 or not logits.is_floating_point()):
        moe.check_tensor(logits)
    if not (on_device or is_watched()) or logits.dim() != 2 or logits.shape[0] == 0:
        return None
    if on_device and isinstance(potentials, Tensor):
        check_device("potentials", potentials, "logits", logits)
    if on_device and method == "base":
        if not logits.is_cpu:
            warn_of_cpu("the exact optimum of method 'base'")
        brought = [x.cpu() if isinstance(x, Tensor) else x for x in (logits, potentials)]
        again = asked._replace(logits=brought[0], potentials=brought[1], backend=None)
        return _moved(moe.route(**again._asdict()), logits)
    if bounds is not None and (not isinstance(bounds, (tuple, list)) or len(bounds) != 2):
        raise TypeError(f"bounds is {bounds!r}, wanted a pair (least load, largest load)")
    graphs = torch.compiler.is_compiling() or torch._C._is_tracing()
    plan, how, ran = None, method, 0
    start = _start(potentials, logits) if on_device else _tensor(potentials)
    if method == "soft":
        start = start if on_device or start is None else start.double()
        shares = _shares(asked, graphs or not on_device)
        plan, start, ran = _soft(logits, shares, start, temperature, on_device)
        start, how = start.to(wide_type(logits.device)), "given"
    least, largest = (None, None) if bounds is None else map(_tensor, bounds)
    places = (_tensor(capacity), least, largest, start)
    words = (
        how,
        float(number("tolerance", tolerance)),
        rounds if rounds is None else whole("rounds", rounds, 1),
    )
    experts, weights, biases, load, kept, facts = torch.ops.otattn.route(
        logits.detach(), whole("k", k, 1), *places, *words, flag("certificate", certificate), on_device
    )
    if plan is not None:
        weights = plan.gather(1, experts) * kept
    elif logits.requires_grad or torch._C._are_functorch_transforms_active():
        weights = moe.differentiable(logits, experts, kept, method == "sinkhorn" and k == 1)
    numbers: Any = facts.unbind()
    if logits.is_cpu and not graphs and _has_numbers(logits):
        value, bound, excess, found, converged = facts.tolist()
        numbers = (value, bound, int(excess), int(found) or ran, bool(converged))
    return moe.Routing(experts, weights, biases, load, moe.RouteCertificate(*numbers), kept)
