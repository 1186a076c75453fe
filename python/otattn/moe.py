"""Tokens to experts: `route` chooses k experts a token, by several methods under one result.

Every method is a vector of biases, the potentials: a token takes the k experts with the largest
`logits + potentials`. What differs is how the potentials are found, and the certificate says how far the
choice is from the best one within the bounds of the loads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ._arrays import foreign
from ._attention import is_torch
from ._aux import AuxRequest
from ._bounded import solve_bounded
from ._coupling import coupling
from ._errors import NotFinite
from ._moe_rounds import QUANTILE_ROUNDS, best, largest, level, quantile, sinkhorn
from ._settings import number

__all__ = ["METHODS", "RouteCertificate", "Routing", "route"]

METHODS = ("topk", "sinkhorn", "base", "quantile", "soft")


class RouteCertificate(NamedTuple):
    """How good a choice is.

    Attributes
    ----------
    value : float
        Sum of the logits of the chosen experts.
    bound : float
        What the potentials prove: no choice whose loads keep the bounds has a larger value.
    excess : int
        Choices beyond the upper bounds, plus those missing to the lower ones. Where it is 0,
        `bound - value` is the distance from the optimum at most.
    rounds : int
        Of the method; paths that were searched for "base".
    converged : bool
        False where the rounds ended before the method's own stop.
    """

    value: float
    bound: float
    excess: int
    rounds: int
    converged: bool

    @property
    def gap(self) -> float:
        """`bound - value`; negative where loads beyond the bounds gained more than these allow."""
        return self.bound - self.value


class Routing(NamedTuple):
    """What `route` found; arrays of NumPy, or tensors where the logits are a tensor.

    Attributes
    ----------
    experts : int64, shape (tokens, k)
        The experts of each token, rising.
    weights : shape (tokens, k)
        The softmax of the token's logits at these experts (their sigmoid for "sinkhorn" with k = 1, entries
        of the plan for "soft"); 0 where dropped. Gradients of a tensor's logits go through these.
    potentials : float64, shape (experts,)
        Biases to start the next call with; kept out of the weights.
    load : int64, shape (experts,)
        Tokens that chose each expert, before any is dropped.
    certificate : RouteCertificate
    kept : bool, shape (tokens, k)
        False for choices beyond the capacity that was given.
    """

    experts: Any
    weights: Any
    potentials: Any
    load: Any
    certificate: RouteCertificate
    kept: Any

    @property
    def dropped(self) -> int:
        """Choices that the capacity had no room for."""
        return (
            int(self.kept.size - self.kept.sum())
            if isinstance(self.kept, np.ndarray)
            else int((~self.kept).sum())
        )


class _Found(NamedTuple):
    experts: Any
    biases: Any
    rounds: int
    converged: bool
    # What the method's own call has found already.
    load: Any = None
    value: float | None = None
    shares: Any = None


def _whole(name: str, x: Any, least: int) -> int:
    if isinstance(x, bool) or not isinstance(x, (int, np.integer)):
        raise TypeError(f"{name} is {x!r}, wanted a whole number")
    if x < least:
        raise ValueError(f"{name} is {x}, wanted at least {least}")
    return int(x)


def _matrix(logits: Any) -> Any:
    if is_torch(logits):
        if not logits.is_floating_point():
            raise TypeError(f"logits has type {logits.dtype}, wanted floating-point numbers")
        found = logits.detach()
        found = (found if found.element_size() > 2 else found.float()).cpu().numpy()
    else:
        found = foreign("logits", logits)
        if found.dtype.kind not in "fiu":
            raise TypeError(f"logits has type {found.dtype}, wanted numbers")
        if found.dtype not in (np.float32, np.float64):
            found = found.astype(np.float32 if found.dtype == np.float16 else np.float64)
    if found.ndim != 2:
        raise ValueError(f"logits has shape {tuple(found.shape)}, wanted (tokens, experts); reshape it")
    if 0 in found.shape:
        raise ValueError(
            f"logits has shape {tuple(found.shape)}, wanted at least one token and expert; skip empty batches"
        )
    return np.ascontiguousarray(found)


def _check_finite(matrix: Any) -> None:
    if not (np.isfinite(matrix.min()) and np.isfinite(matrix.max())):
        row, column = np.argwhere(~np.isfinite(matrix))[0]
        raise ValueError(f"logits[{row}, {column}] is {matrix[row, column]}, wanted finite numbers")


def _one_bound(name: str, x: Any, experts: int) -> Any:
    numbers = np.asarray(x)
    if numbers.dtype.kind not in "iu":
        raise TypeError(f"{name} has type {numbers.dtype}, wanted whole numbers of tokens")
    if numbers.shape not in ((), (experts,)):
        raise ValueError(f"{name} has shape {numbers.shape}, wanted one number or ({experts},)")
    return np.broadcast_to(numbers, (experts,)).astype(np.int64)


def _bounds(tokens: int, experts: int, k: int, capacity: Any, bounds: Any, method: str) -> tuple[Any, Any]:
    """Least and largest loads, that some choice can keep."""
    if capacity is not None and bounds is not None:
        raise ValueError("capacity and bounds are both given, wanted one; capacity C is bounds (0, C)")
    if capacity is not None:
        lower, upper = np.zeros(experts, np.int64), _one_bound("capacity", capacity, experts)
    elif bounds is not None:
        if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
            raise TypeError(f"bounds is {bounds!r}, wanted a pair (least load, largest load)")
        lower, upper = (_one_bound(f"bounds[{i}]", bounds[i], experts) for i in (0, 1))
    elif method == "topk":
        lower, upper = np.zeros(experts, np.int64), np.full(experts, tokens)
    else:
        lower, upper = np.full(experts, tokens * k // experts), np.full(experts, -(-tokens * k // experts))
    name = "bounds" if bounds is not None else "capacity"
    upper = np.minimum(upper, tokens)
    if (lower < 0).any() or (lower > upper).any():
        worst = int(np.argmax((lower < 0) | (lower > upper)))
        raise ValueError(
            f"{name} lets expert {worst} hold from {lower[worst]} to {upper[worst]} of {tokens} tokens; "
            "wanted 0 <= least <= largest"
        )
    if not lower.sum() <= tokens * k <= upper.sum():
        raise ValueError(
            f"{name} admits {lower.sum()} to {upper.sum()} choices, but {tokens} tokens make {k} each, "
            f"{tokens * k}; widen it"
        )
    return lower, upper


def _start(potentials: Any, experts: int) -> Any:
    if potentials is None:
        return None
    if is_torch(potentials):
        potentials = potentials.detach().double().cpu().numpy()
    found = np.ascontiguousarray(potentials, np.float64)
    if found.shape != (experts,):
        raise ValueError(f"potentials has shape {found.shape}, wanted ({experts},), one number an expert")
    if not np.isfinite(found).all():
        raise ValueError(
            f"potentials[{np.argmax(~np.isfinite(found))}] is not finite; pass None to start anew"
        )
    return found


def _exact(logits: Any, k: int, lower: Any, upper: Any, start: Any) -> _Found:
    """The best choice within the bounds; all that is asked of the solver of bounded assignments."""
    found = solve_bounded(-logits, k, lower, upper, start=None if start is None else -start, proved=False)
    return _Found(found.columns, 0.0 - found.prices, found.paths, True)


def _sinkhorn(logits: Any, k: int, start: Any, tolerance: float, limit: int) -> _Found:
    try:
        found = sinkhorn(logits, k, start, tolerance, limit)
    except NotFinite:
        _check_finite(logits)
        raise
    return _Found(
        found.experts, found.biases, found.rounds, found.converged, found.load, found.value, found.shares
    )


def _soft(
    logits: Any, k: int, lower: Any, upper: Any, start: Any, temperature: float, default: bool
) -> tuple[_Found, Any]:
    """The entropic plan with row sums 1 and bounded loads, by the operator, and its largest entries."""
    tokens, experts = logits.shape
    share = tokens * k / experts
    low, high = (1.0, 1.0) if default else (float(lower[0]) / share, float(upper[0]) / share)
    if (lower != lower[0]).any() or (upper != upper[0]).any():
        raise ValueError('bounds differ from expert to expert, which "soft" cannot; use one pair, or "base"')
    first = None if start is None else start / temperature
    if first is not None and is_torch(logits):
        import torch

        first = torch.from_numpy(first)
    plan, aux = coupling(
        logits,
        method=f"softmax/bounded:{low!r},{high!r}",
        temperature=temperature,
        start_potential=first,
        return_aux=AuxRequest(potentials=True),
    )
    column = aux.potentials.column
    column = column.detach().double().numpy() if is_torch(column) else np.asarray(column, np.float64)
    plain = plan.detach().numpy() if is_torch(plan) else plan
    return _Found(best(plain, k), column * temperature, aux.info.rounds, True), plan


def _bound(logits: Any, k: int, lower: Any, upper: Any, biases: Any) -> float:
    """What `biases` prove no choice within the bounds can exceed."""
    top = largest(logits + biases, k)[1]
    least = np.where(biases > 0, biases * lower, biases * upper)
    return float(top.sum() - least.sum())


def _kept(logits: Any, experts: Any, load: Any, upper: Any) -> Any:
    """All but the choices of the smallest logits of an expert that too many tokens chose."""
    kept = np.ones(experts.shape, bool)
    for j in np.flatnonzero(load > upper):
        rows, places = np.nonzero(experts == j)
        spare = np.argsort(logits[rows, j], kind="stable")[: load[j] - upper[j]]
        kept[rows[spare], places[spare]] = False
    return kept


def _weights(logits: Any, experts: Any, kept: Any, sigmoid: bool, shares: Any) -> Any:
    """The softmax of the logits, or their sigmoid, at the experts; `shares`: that softmax, if known."""
    if is_torch(logits):
        if shares is not None and not sigmoid and not logits.requires_grad:
            import torch

            return (torch.from_numpy(shares).to(logits.device) * kept).to(logits.dtype)
        scores = logits if logits.element_size() > 2 else logits.float()
        chosen = scores.gather(1, experts)
        found = chosen.sigmoid() if sigmoid else (chosen - scores.logsumexp(1, keepdim=True)).exp()
        return (found * kept).to(logits.dtype)
    chosen = np.take_along_axis(logits, experts, 1)
    if sigmoid:
        return kept * np.exp(-np.logaddexp(0, -chosen))
    if shares is not None:
        return (kept * shares).astype(logits.dtype)
    top = logits.max(1, keepdims=True)
    return kept * np.exp(chosen - top) / np.exp(logits - top).sum(1, keepdims=True)


def route(
    logits: Any,
    k: int,
    capacity: Any = None,
    bounds: Any = None,
    method: str = "base",
    potentials: Any = None,
    *,
    temperature: float = 1.0,
    tolerance: float = 1e-4,
    rounds: int | None = None,
    certificate: bool = True,
) -> Routing:
    """Chooses k experts for every token.

    Parameters
    ----------
    logits : array or tensor, shape (tokens, experts)
        f64, f32, f16 or, as a tensor, bf16; finite.
    k : int
        Experts a token.
    capacity : int or integers of shape (experts,), optional
        Tokens an expert can take: the bounds (0, capacity).
    bounds : pair of such, optional
        Least and largest load. Default, but for "topk", which has none: equal loads, tokens * k / experts
        rounded down and up. Methods that do not keep given bounds drop what is beyond the upper ones.
    method : str
        "topk": the largest logits + potentials. "sinkhorn": Megatron-LM's recipe. "base": the exact optimum
        within the bounds (equal loads: BASE layers). "quantile": alternating quantiles. "soft": the entropic
        plan within the bounds, whose entries are the weights.
    potentials : shape (experts,), optional
        Of an earlier call, to start with.
    temperature : float
        Of "soft".
    tolerance, rounds : float, int
        "sinkhorn" stops where the mean change of its column scaling is at most `tolerance`, "quantile" where
        that of a bias is; either after `rounds` (1000 and 100).
    certificate : bool
        False leaves the bound NaN, which saves a pass over the logits.

    Returns
    -------
    Routing

    Examples
    --------
    >>> import numpy as np
    >>> from otattn.moe import route
    >>> found = route(np.array([[2.0, 0.0], [1.0, 0.5], [3.0, 0.0], [1.0, 0.0]]), 1)
    >>> found.experts.ravel(), found.load
    (array([0, 1, 0, 1]), array([2, 2]))
    >>> found.certificate.value, found.certificate.bound
    (5.5, 5.5)
    """
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(f"method is {method!r}, wanted one of {', '.join(METHODS)}")
    matrix = _matrix(logits)
    tokens, experts = matrix.shape
    k = _whole("k", k, 1)
    if k > experts:
        raise ValueError(f"k is {k}, but there are {experts} experts; wanted 1 to {experts}")
    lower, upper = _bounds(tokens, experts, k, capacity, bounds, method)
    start = _start(potentials, experts)
    for name, x in (("temperature", temperature), ("tolerance", tolerance)):
        if not 0 < number(name, x) < float("inf"):
            raise ValueError(f"{name} is {x!r}, wanted a number above 0")
    limit = None if rounds is None else _whole("rounds", rounds, 1)
    plan = None
    # The library reads the logits of "sinkhorn" itself.
    if method != "sinkhorn":
        _check_finite(matrix)
    if method == "topk":
        biases = np.zeros(experts) if start is None else start
        found = _Found(best(matrix if start is None else matrix + biases, k), biases, 0, True)
    elif method == "sinkhorn":
        found = _sinkhorn(matrix, k, start, tolerance, limit or 1000)
    elif method == "quantile":
        found = _Found(*quantile(matrix, k, lower, upper, start, tolerance, limit or QUANTILE_ROUNDS))
    elif method == "base":
        found = _exact(matrix, k, lower, upper, start)
    else:
        scores = logits if is_torch(logits) else matrix
        default = capacity is None and bounds is None
        found, plan = _soft(scores, k, lower, upper, start, float(temperature), default)
    load = np.bincount(found.experts.ravel(), minlength=experts) if found.load is None else found.load
    value = found.value
    if value is None:
        value = float(np.take_along_axis(matrix, found.experts, 1).sum(dtype=np.float64))
    biases = found.biases
    if method in ("sinkhorn", "quantile", "soft"):
        biases = level(biases, tokens * k, lower, upper)
    given = capacity is not None or bounds is not None
    kept = _kept(matrix, found.experts, load, upper) if given else np.ones(found.experts.shape, bool)
    proof = RouteCertificate(
        value,
        _bound(matrix, k, lower, upper, biases) if certificate else float("nan"),
        int(np.maximum(load - upper, 0).sum() + np.maximum(lower - load, 0).sum()),
        found.rounds,
        found.converged,
    )
    chosen: Any = found.experts
    if is_torch(logits):
        import torch

        chosen, biases, load, kept = (
            torch.from_numpy(x).to(logits.device) for x in (chosen, biases, load, kept)
        )
    if plan is None:
        scores = logits if is_torch(logits) else matrix
        weights = _weights(scores, chosen, kept, method == "sinkhorn" and k == 1, found.shares)
    elif is_torch(plan):
        weights = plan.gather(1, chosen) * kept
    else:
        weights = np.take_along_axis(plan, chosen, 1) * kept
    return Routing(chosen, weights, biases, load, proof, kept)
