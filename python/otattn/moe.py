"""Tokens to experts: `route` chooses k experts a token, by several methods under one result.

Every method is a vector of biases, the potentials: a token takes the k experts with the largest
`logits + potentials`. What differs is how the potentials are found, and the certificate says how far the
choice is from the best one within the bounds of the loads.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, overload

import numpy as np

from . import _native
from ._arrays import foreign
from ._aux import AuxRequest
from ._call import WITH_POTENTIALS, coupling_again
from ._coupling import coupling, spec_with
from ._moe_call import CODES, GIVEN, call
from ._ot_problem import torch_ways
from ._settings import compiling, flag, is_torch, number, whole
from ._shapes import dense, repr_of
from ._spec import Spec
from ._threads import thread_limit
from ._torch_device import by_torch

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor
    from typing_extensions import TypeVar

    Array = TypeVar("Array", default=Any)
else:
    from typing import TypeVar

    # The default is for checkers, as in _ranked.py.
    Array = TypeVar("Array")

__all__ = ["METHODS", "RouteCertificate", "Routing", "route"]

METHODS = ("topk", "sinkhorn", "base", "quantile", "soft")

_native_route = _native.route


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


class Routing(NamedTuple, Generic[Array]):
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
        Of tensors on a device, and in graphs (torch.compile, torch.export, torch.jit.trace), its numbers are
        tensors, too.
    kept : bool, shape (tokens, k)
        False for choices beyond the capacity that was given.
    """

    experts: Array
    weights: Array
    potentials: Array
    load: Array
    certificate: RouteCertificate
    kept: Array

    def __repr__(self) -> str:
        return repr_of(self)

    @property
    def dropped(self) -> int:
        """Choices that the capacity had no room for."""
        kept: Any = self.kept
        return int(kept.size - kept.sum()) if isinstance(kept, np.ndarray) else int((~kept).sum())


def _check_shape(shape: Any) -> None:
    if len(shape) != 2:
        raise ValueError(f"logits has shape {tuple(shape)}, wanted (tokens, experts); reshape it")
    if shape[1] == 0:
        raise ValueError(f"logits has shape {tuple(shape)}, wanted at least one expert")


def check_tensor(logits: Any) -> None:
    """TypeError and ValueError for a tensor that are no logits."""
    if not logits.is_floating_point():
        raise TypeError(f"logits has type {logits.dtype}, wanted floating-point numbers")
    _check_shape(logits.shape)


def _matrix(logits: Any) -> Any:
    if is_torch(logits):
        check_tensor(logits)
        found = logits.detach()
        found = (found if found.element_size() > 2 else found.float()).cpu().numpy()
    else:
        found = foreign("logits", logits)
        if found.dtype.kind not in "fiu":
            raise TypeError(f"logits has type {found.dtype}, wanted numbers")
        if found.dtype not in (np.float32, np.float64):
            found = found.astype(np.float32 if found.dtype == np.float16 else np.float64)
        _check_shape(found.shape)
    return np.ascontiguousarray(found)


def _check_finite(matrix: Any) -> None:
    if matrix.size and not (np.isfinite(matrix.min()) and np.isfinite(matrix.max())):
        row, column = np.argwhere(~np.isfinite(matrix))[0]
        raise ValueError(f"logits[{row}, {column}] is {matrix[row, column]}, wanted finite numbers")


def _one_bound(name: str, x: Any, experts: int) -> Any:
    numbers = np.asarray(dense(name, x))
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


def start_of(potentials: Any, experts: int) -> Any:
    """Potentials in f64, of the right shape and finite."""
    if potentials is None:
        return None
    if is_torch(potentials):
        potentials = potentials.detach().double().cpu().numpy()
    found = np.asarray(dense("potentials", potentials))
    if found.dtype.kind not in "fiu":
        raise TypeError(f"potentials has type {found.dtype}, wanted numbers")
    found = np.ascontiguousarray(found, np.float64)
    if found.shape != (experts,):
        raise ValueError(f"potentials has shape {found.shape}, wanted ({experts},), one number an expert")
    if not np.isfinite(found).all():
        raise ValueError(
            f"potentials[{np.argmax(~np.isfinite(found))}] is not finite; pass None to start anew"
        )
    return found


class Terms(NamedTuple):
    """What is asked besides the logits, checked."""

    k: int
    lower: Any
    upper: Any
    given: bool
    start: Any
    tolerance: float
    rounds: int | None
    certificate: bool


def shares_of(terms: Terms, tokens: int) -> tuple[float, float]:
    """Bounds of the column sums of the plan of "soft", over their mean."""
    lower, upper = terms.lower, terms.upper
    if (lower != lower[0]).any() or (upper != upper[0]).any():
        raise ValueError('bounds differ from expert to expert, which "soft" cannot; use one pair, or "base"')
    share = tokens * terms.k / len(lower)
    return (float(lower[0]) / share, float(upper[0]) / share) if terms.given else (1.0, 1.0)


def _soft(logits: Any, matrix: Any, terms: Terms, temperature: float) -> tuple[tuple[Any, ...], Any]:
    """The entropic plan with row sums 1 and bounded loads, by the operator, and its largest entries."""
    low, high = shares_of(terms, len(matrix))
    first = None if terms.start is None else terms.start / temperature
    if first is not None and is_torch(logits):
        import torch

        first = torch.from_numpy(first)
    plan, aux = coupling(
        logits if is_torch(logits) else matrix,
        method=f"softmax/bounded:{low!r},{high!r}",
        temperature=temperature,
        start_potential=first,
        return_aux=AuxRequest(potentials=True),
    )
    assert aux.potentials is not None and aux.info is not None
    column = aux.potentials.column
    column = column.detach().double().numpy() if is_torch(column) else np.asarray(column, np.float64)
    # The entries of a row fall as logits + biases do.
    biases, bounds = column * temperature, (terms.lower, terms.upper)
    found = call(matrix, terms.k, bounds, terms.given, GIVEN, biases, (1.0, None), terms.certificate)
    return (*found[:8], aux.info.rounds, True), plan


def differentiable(logits: Any, experts: Any, kept: Any, sigmoid: bool) -> Any:
    """The weights of a tensor's logits, for its gradients."""
    scores = logits if logits.element_size() > 2 else logits.float()
    found = scores.gather(1, experts).sigmoid() if sigmoid else scores.softmax(1).gather(1, experts)
    return (found * kept).to(logits.dtype)


class Asked(NamedTuple):
    """The arguments of `route`."""

    logits: Any
    k: Any
    capacity: Any = None
    bounds: Any = None
    method: str = "base"
    potentials: Any = None
    temperature: float = 1.0
    tolerance: float = 1e-4
    rounds: Any = None
    certificate: Any = True
    backend: Any = None


@overload
def route(
    logits: NDArray[Any],
    k: int,
    capacity: Any = ...,
    bounds: Any = ...,
    method: str = ...,
    potentials: Any = ...,
    *,
    temperature: float = ...,
    tolerance: float = ...,
    rounds: int | None = ...,
    certificate: bool = ...,
    backend: str | None = ...,
) -> Routing[NDArray[Any]]: ...
@overload
def route(
    logits: Tensor,
    k: int,
    capacity: Any = ...,
    bounds: Any = ...,
    method: str = ...,
    potentials: Any = ...,
    *,
    temperature: float = ...,
    tolerance: float = ...,
    rounds: int | None = ...,
    certificate: bool = ...,
    backend: str | None = ...,
) -> Routing[Tensor]: ...
@overload
def route(
    logits: Any,
    k: int,
    capacity: Any = ...,
    bounds: Any = ...,
    method: str = ...,
    potentials: Any = ...,
    *,
    temperature: float = ...,
    tolerance: float = ...,
    rounds: int | None = ...,
    certificate: bool = ...,
    backend: str | None = ...,
) -> Routing: ...
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
    backend: str | None = None,
) -> Routing:
    """Chooses k experts for every token.

    Parameters
    ----------
    logits : array or tensor, shape (tokens, experts)
        f64, f32, f16 or, as a tensor, bf16; finite. There may be no tokens.
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
    backend : {"cpu", "torch"}, optional
        "cpu": the library, for arrays and for tensors on the CPU, whose default it is. "torch": torch's own
        operations, on whatever device a tensor lies; on others than the CPU there is nothing else, and the
        numbers of the certificate are tensors, for which nothing waits. Logits that are not finite are
        refused there by methods with rounds alone. "base" is searched on the CPU wherever the logits lie.

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
    # Where tensors lie, the calls on plain ones see for themselves.
    plain = backend is None and type(method) is str and type(certificate) is bool
    if plain and type(temperature) in (float, int) and 0 < temperature < float("inf"):
        found = None
        if method in CODES:
            code = CODES[method]
            limits = (tolerance, rounds)
            found = _plain(logits, k, (capacity, bounds), code, potentials, limits, certificate)
        elif method == "soft" and type(tolerance) is float and tolerance > 0 and rounds is None:
            found = _plain_soft(logits, k, capacity, bounds, potentials, float(temperature), certificate)
        if found is not None:
            return found
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(f"method is {method!r}, wanted one of {', '.join(METHODS)}")
    asked = Asked(
        logits, k, capacity, bounds, method, potentials, temperature, tolerance, rounds, certificate, backend
    )
    if backend is not None:
        by_torch("logits", logits, backend)
    if is_torch(logits):
        from ._torch_moe import route_watched

        watched = route_watched(asked)
        if watched is not None:
            return watched
    answer, plan = chosen(asked)
    arrays: tuple[Any, ...] = answer[:5]
    if is_torch(logits):
        import torch

        arrays = tuple(torch.from_numpy(x).to(logits.device) for x in arrays)
    experts, weights, biases, load, kept = arrays
    if plan is not None:
        weights = (plan.gather(1, experts) if is_torch(plan) else np.take_along_axis(plan, experts, 1)) * kept
    elif is_torch(logits):
        weights = (
            differentiable(logits, experts, kept, method == "sinkhorn" and k == 1)
            if logits.requires_grad
            else weights.to(logits.dtype)
        )
    return Routing(experts, weights, biases, load, RouteCertificate(*answer[5:]), kept)


def terms_of(asked: Asked, tokens: int, experts: int) -> Terms:
    """The terms of a call on so many tokens and experts; errors in a sentence."""
    k = whole("k", asked.k, 1)
    if k > experts:
        raise ValueError(f"k is {k}, but there are {experts} experts; wanted 1 to {experts}")
    lower, upper = _bounds(tokens, experts, k, asked.capacity, asked.bounds, asked.method)
    start = start_of(asked.potentials, experts)
    for name, x in (("temperature", asked.temperature), ("tolerance", asked.tolerance)):
        if not 0 < number(name, x) < float("inf"):
            raise ValueError(f"{name} is {x!r}, wanted a number above 0")
    limit = None if asked.rounds is None else whole("rounds", asked.rounds, 1)
    given = asked.capacity is not None or asked.bounds is not None
    certificate = flag("certificate", asked.certificate)
    return Terms(k, lower, upper, given, start, float(asked.tolerance), limit, certificate)


def chosen(asked: Asked) -> tuple[tuple[Any, ...], Any]:
    """Arrays of NumPy and numbers, in the order of `call`, and the plan of "soft".

    The method "given" chooses by the potentials.
    """
    logits, method = asked.logits, asked.method
    matrix = _matrix(logits)
    tokens, experts = matrix.shape
    terms = terms_of(asked, tokens, experts)
    k, start, certificate = terms.k, terms.start, terms.certificate
    bounds = (terms.lower, terms.upper)
    _check_finite(matrix)
    if tokens == 0:
        none, biases = np.empty((0, k), np.int64), np.zeros(experts) if start is None else start
        arrays = (none, none.astype(matrix.dtype), biases, np.zeros(experts, np.int64), none.astype(bool))
        return (*arrays, 0.0, 0.0 if certificate else float("nan"), 0, 0, True), None
    if method == "soft":
        return _soft(logits, matrix, terms, float(asked.temperature))
    code = CODES.get(method, GIVEN)
    limits = (terms.tolerance, terms.rounds)
    return call(matrix, k, bounds, terms.given, code, start, limits, certificate), None


@functools.lru_cache(maxsize=64)
def _soft_spec(
    tokens: int, experts: int, k: int, capacity: Any, bounds: Any, temperature: float
) -> Spec | None:
    """The spec of `_soft`'s call of `coupling` for plain bounds; None: the longer way knows what to say."""
    share, low, high = tokens * k / experts, 1.0, 1.0
    if bounds is not None:
        if capacity is not None:
            return None
        low, high = bounds[0] / share, min(bounds[1], tokens) / share
    elif capacity is not None:
        low, high = 0.0, min(capacity, tokens) / share
    return spec_with(method=f"softmax/bounded:{low!r},{high!r}", temperature=temperature)


def _plain_soft(
    logits: Any,
    k: Any,
    capacity: Any,
    bounds: Any,
    potentials: Any,
    temperature: float,
    certificate: bool,
) -> Routing | None:
    """The answer of "soft" by the structs of an earlier call; None: none, or something is not plain."""
    way: Any = coupling_again
    given, derivatives = logits, False
    if type(logits) is not np.ndarray:
        if compiling():
            return None
        recorded = (
            _native.derivative(logits) if potentials is None else _native.derivative(logits, potentials)
        )
        if recorded is None:
            return None
        ways = torch_ways()
        wanted = ways[0](recorded, logits)
        if wanted is None or (potentials is not None and potentials.requires_grad):
            return None
        if wanted:
            given, way, derivatives = logits.detach(), ways[1], True
    if logits.ndim != 2 or type(k) is not int or type(capacity) not in _WHOLE:
        return None
    if bounds is not None and (type(bounds) is not tuple or [type(x) for x in bounds] != [int, int]):
        return None
    tokens, experts = logits.shape
    if not (0 < k <= experts and tokens > 0):
        return None
    spec = _soft_spec(tokens, experts, k, capacity, bounds, temperature)
    start = potentials
    if start is not None:
        if type(start) is not type(given) or start.itemsize != 8 or start.shape != (experts,):
            return None
        start = start / temperature
    found = None if spec is None else way(spec, WITH_POTENTIALS, logits, (None, None, None, start))
    if found is None:
        return None
    plan, _, column, _, facts = found
    biases = column if temperature == 1.0 else column * temperature
    threads = thread_limit()
    chosen = _native_route(given, k, capacity, bounds, GIVEN, biases, 1.0, None, certificate, threads)
    if chosen is None:
        return None
    own, weights, biases, load, kept, *proof = chosen
    proof[3] = facts[0]
    if derivatives:
        weights = plan.gather(1, own) * kept
    else:
        _native.pick(plan, own, kept, weights)
    return Routing(own, weights, biases, load, RouteCertificate(*proof), kept)


_WHOLE = frozenset((int, type(None)))


def _plain(
    logits: Any,
    k: Any,
    within: tuple[Any, Any],
    code: int,
    potentials: Any,
    limits: tuple[Any, Any],
    certificate: bool,
) -> Routing | None:
    """The answer for arrays or tensors as the library reads them; None: others, or something is wrong."""
    derivatives, given = False, logits
    if type(logits) is not np.ndarray:
        if not is_torch(logits):
            return None
        is_plain = torch_ways()[3]
        if not is_plain(logits) or (potentials is not None and not is_plain(potentials)):
            return None
        derivatives = logits.requires_grad
        given = logits.detach() if derivatives else logits
    # Stars would make a list of all arguments first.
    capacity, bounds = within
    tolerance, rounds = limits
    found = _native_route(
        given,
        k,
        capacity,
        bounds,
        code,
        potentials,
        tolerance,
        rounds,
        certificate,
        thread_limit(),
    )
    if found is None:
        return None
    experts, weights, biases, load, kept, *proof = found
    if derivatives:
        weights = differentiable(logits, experts, kept, code == CODES["sinkhorn"] and k == 1)
    return Routing(experts, weights, biases, load, RouteCertificate(*proof), kept)
