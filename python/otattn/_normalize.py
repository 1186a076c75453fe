"""Batches of small square matrices made doubly stochastic, as hyper-connections mix residual streams."""

from __future__ import annotations

import functools
import operator
import sys
from typing import Any, NamedTuple, overload

import numpy as np

from . import _native
from . import _structs as c
from ._arrays import floating
from ._aux import ArrayT
from ._errors import NotFiniteWarning, PartialWarning, finished
from ._leaks import warn
from ._settings import number
from ._shapes import shape_text
from ._threads import thread_limit
from ._torch_device import by_torch

ORDERS = {"deepseek": c.NORMALIZE_DEEPSEEK, "symmetric": c.NORMALIZE_SYMMETRIC}
GRADIENTS = {"truncated": 0, "implicit": 1}
_WARNED = (c.NONFINITE_ROWS, c.PARTIAL)


class Recipe(NamedTuple):
    """What a call asks for besides its matrices, as the header has it."""

    order: int
    rounds: int
    eps: float
    tolerance: float
    implicit: int


def _choice(name: str, value: Any, known: dict[str, int]) -> int:
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name} is {value!r}, wanted {' or '.join(repr(word) for word in known)}")
    return known[value]


def _share(name: str, value: Any) -> float:
    found = number(name, value)
    if not 0.0 <= found <= 1.0:
        raise ValueError(f"{name} is {found!r}, wanted 0 to 1")
    return found


@functools.lru_cache(maxsize=256, typed=True)
def _recipe(order: Any, rounds: Any, eps: Any, tolerance: Any, gradients: Any) -> Recipe:
    chosen = _choice("order", order, ORDERS)
    implicit = _choice("gradients", gradients, GRADIENTS)
    if isinstance(rounds, bool) or not hasattr(rounds, "__index__"):
        raise TypeError(f"rounds is {rounds!r}, wanted a whole number")
    if not 0 <= rounds <= 1 << 20:
        raise ValueError(f"rounds is {rounds}, wanted 0 to 1048576")
    if rounds == 0 and chosen == c.NORMALIZE_SYMMETRIC:
        raise ValueError("rounds is 0, but order 'symmetric' has nothing but rounds; use 1 or more")
    added = _share("eps", eps)
    least = 0.0 if tolerance is None else _share("tolerance", tolerance)
    if chosen == c.NORMALIZE_DEEPSEEK and least > 0.0:
        raise ValueError(f"tolerance is {least!r}, but order 'deepseek' runs all its rounds; use 'symmetric'")
    return Recipe(
        chosen,
        operator.index(rounds) or c.NO_ROUNDS,
        added if chosen == c.NORMALIZE_DEEPSEEK else 0.0,
        least,
        implicit,
    )


def recipe_of(*words: Any) -> Recipe:
    """The recipe of order, rounds, eps, tolerance and gradients; ValueError and TypeError in a sentence."""
    try:
        return _recipe(*words)
    except TypeError:
        # What cannot be a key gets its sentence too.
        return _recipe.__wrapped__(*words)


def check_shape(x: Any) -> None:
    """ValueError unless x is [..., n, n] with n from 1 to 128."""
    shape = x.shape
    if len(shape) < 2 or shape[-1] != shape[-2] or not 1 <= shape[-1] <= 128:
        raise ValueError(f"x has shape {shape_text(x)}, wanted [..., n, n] with n from 1 to 128")


def warn_of(recipe: Recipe, nonfinite: bool, open_: bool) -> None:
    """Warns of matrices that are NaN, or else of those that did not meet the tolerance."""
    if nonfinite:
        warn("some matrices met NaN, infinity or a line without weight and are NaN", NotFiniteWarning)
    elif open_:
        warn(
            f"some matrices did not meet tolerance {recipe.tolerance:g} in {recipe.rounds} rounds",
            PartialWarning,
        )


def forward(recipe: Recipe, scores: Any) -> Any:
    """The plans of dense arrays or tensors, None of others; warns of those that are NaN or not converged."""
    found = _native.normalize(recipe, scores, thread_limit())
    if found is None:
        return None
    status, plan = found
    if status in _WARNED:
        warn_of(recipe, status == c.NONFINITE_ROWS, status == c.PARTIAL)
    elif status < 0:
        finished(found)
    return plan


def backward(recipe: Recipe, saved: Any, plan_grad: Any) -> Any:
    """The gradients of scores alike; `saved` are the scores or, for implicit gradients, the plan."""
    found = _native.normalize_gradients(recipe, saved, plan_grad, thread_limit())
    if found is None:
        return None
    if found[0] < 0:
        finished(found)
    return found[1]


def _numpy(recipe: Recipe, x: Any) -> Any:
    plan = forward(recipe, x)
    if plan is not None:
        return plan
    x = floating("x", x)
    check_shape(x)
    plan = forward(recipe, np.ascontiguousarray(x, np.float64 if x.dtype == np.float64 else np.float32))
    return plan if plan.dtype == x.dtype else plan.astype(x.dtype)


@overload
def sinkhorn_normalize(
    x: ArrayT,
    rounds: int = 20,
    eps: float = 1e-6,
    order: str = "deepseek",
    gradients: str = "truncated",
    *,
    tolerance: float | None = None,
    backend: str | None = None,
) -> ArrayT: ...
@overload
def sinkhorn_normalize(
    x: Any,
    rounds: int = 20,
    eps: float = 1e-6,
    order: str = "deepseek",
    gradients: str = "truncated",
    *,
    tolerance: float | None = None,
    backend: str | None = None,
) -> Any: ...
def sinkhorn_normalize(
    x: Any,
    rounds: int = 20,
    eps: float = 1e-6,
    order: str = "deepseek",
    gradients: str = "truncated",
    *,
    tolerance: float | None = None,
    backend: str | None = None,
) -> Any:
    """Doubly stochastic matrices from matrices of scores, many small ones at once.

    Parameters
    ----------
    x : array or tensor, shape (..., n, n)
        Scores, n from 1 to 128. f64 and f32 are computed as they are, f16 and bf16 in f32. A score of -inf
        has weight 0. A tensor on another device is computed there.
    rounds : int
        Divisions of the rows and of the columns. With 0, order "deepseek" is the softmax of every row + eps.
    eps : float
        Added to the softmax and to every sum; order "symmetric" has none.
    order : {"deepseek", "symmetric"}
        "deepseek": softmax of every row + eps, columns, then rounds - 1 times rows and columns, as published
        models of manifold-constrained hyper-connections do it. "symmetric": rows and columns of exp(x),
        `rounds` times. Both end on columns.
    gradients : {"truncated", "implicit"}
        "truncated" differentiates the rounds that ran; "implicit" what they converge to, at the plan that was
        reached, and keeps the plan alone.
    tolerance : float, optional
        Order "symmetric": a matrix stops where its rows sum to 1 within this, after `rounds` at the latest.
    backend : {"cpu", "torch"}, optional
        "cpu": the library, for arrays and for tensors on the CPU, whose default it is. "torch": torch's own
        operations, on whatever device a tensor lies; on others than the CPU there is nothing else.

    Returns
    -------
    array or tensor, shape and type of `x`
        A matrix that met NaN, +inf or a line without weight is NaN throughout, the others are right.

    Raises
    ------
    ValueError, TypeError
        For other shapes, types and values, in one sentence.

    Warns
    -----
    NotFiniteWarning
        Where a matrix is NaN; not of fixed rounds on a device, which would have to be waited for.
    PartialWarning
        Where a matrix did not meet the tolerance.

    Notes
    -----
    A matrix has the same bits alone, in any batch and for any number of threads, but for backend "torch".

    Examples
    --------
    >>> import numpy as np, otattn
    >>> P = otattn.sinkhorn_normalize(np.array([[2.0, 0.0], [0.0, 1.0]]))
    >>> P.round(4)
    array([[0.8176, 0.1824],
           [0.1824, 0.8176]])
    """
    recipe = recipe_of(order, rounds, eps, tolerance, gradients)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        from ._torch_normalize import torch_normalize

        return torch_normalize(recipe, x, backend)
    if backend is not None:
        by_torch("x", x, backend)
    return _numpy(recipe, x)
