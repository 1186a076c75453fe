"""Sparse maps to the simplex and their losses, under the names of the package entmax.

Values are exact to rounding: `n_iter` and `k`, which steer entmax's approximations and its speed, are
accepted and change nothing. NumPy arrays and torch tensors; the losses and modules need torch. An entry of
-inf has weight 0, and a row of nothing else is all zeros.
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from ._aux import ArrayT
from ._coupling import coupling
from ._orders import torch_weights, weights
from ._settings import flag, is_torch, number, shown, whole
from ._shapes import dense

if TYPE_CHECKING:
    from torch import Tensor, nn

    BudgetBisect: type[nn.Module]
    Entmax15: type[nn.Module]
    Entmax15Loss: type[nn.Module]
    EntmaxBisect: type[nn.Module]
    EntmaxBisectLoss: type[nn.Module]
    NormmaxBisect: type[nn.Module]
    NormmaxBisectLoss: type[nn.Module]
    Sparsemax: type[nn.Module]
    SparsemaxBisect: type[nn.Module]
    SparsemaxBisectLoss: type[nn.Module]
    SparsemaxLoss: type[nn.Module]

_FUNCTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "Sparsemax": ("sparsemax", {"dim": -1, "k": None, "return_support_size": False}),
    "Entmax15": ("entmax15", {"dim": -1, "k": None, "return_support_size": False}),
    "EntmaxBisect": ("entmax_bisect", {"alpha": 1.5, "dim": -1, "n_iter": 50}),
    "SparsemaxBisect": ("sparsemax_bisect", {"dim": -1, "n_iter": None}),
    "NormmaxBisect": ("normmax_bisect", {"alpha": 2, "dim": -1, "n_iter": 50}),
    "BudgetBisect": ("budget_bisect", {"budget": 2, "dim": -1, "n_iter": 50}),
}
_LOSSES: dict[str, tuple[str, dict[str, Any]]] = {
    "SparsemaxLoss": ("sparsemax_loss", {"k": None}),
    "Entmax15Loss": ("entmax15_loss", {"k": 100}),
    "EntmaxBisectLoss": ("entmax_bisect_loss", {"alpha": 1.5, "n_iter": 50}),
    "SparsemaxBisectLoss": ("sparsemax_bisect_loss", {"n_iter": 50}),
    "NormmaxBisectLoss": ("normmax_bisect_loss", {"alpha": 2, "n_iter": 50}),
}
__all__ = [
    "BudgetBisect",
    "Entmax15",
    "Entmax15Loss",
    "EntmaxBisect",
    "EntmaxBisectLoss",
    "NormmaxBisect",
    "NormmaxBisectLoss",
    "Sparsemax",
    "SparsemaxBisect",
    "SparsemaxBisectLoss",
    "SparsemaxLoss",
    "budget_bisect",
    "entmax15",
    "entmax15_loss",
    "entmax_bisect",
    "entmax_bisect_loss",
    "normmax_bisect",
    "normmax_bisect_loss",
    "softmax",
    "sparsemax",
    "sparsemax_bisect",
    "sparsemax_bisect_loss",
    "sparsemax_loss",
]


def _plain_kinds() -> tuple[Any, ...]:
    """The types of arrays that need no reshaping where their last dimension sums to 1."""
    torch = sys.modules.get("torch")
    return (np.ndarray,) if torch is None else (np.ndarray, torch.Tensor)


def _scores(X: Any, dim: int) -> Any:
    """X, an array or tensor of floating-point numbers that has a dimension `dim` of at least 1."""
    if not is_torch(X):
        try:
            X = X if type(X) is np.ndarray else np.asarray(dense("X", X))
        except ValueError as error:
            raise ValueError(f"X is no array: {error}") from None
    if not (X.is_floating_point() if is_torch(X) else X.dtype.kind == "f"):
        raise TypeError(f"X has type {X.dtype}, wanted floating-point numbers")
    try:
        place = operator.index(dim)
    except TypeError:
        raise TypeError(f"dim is {dim!r}, wanted a whole number") from None
    if isinstance(dim, bool):
        raise TypeError(f"dim is {dim!r}, wanted a whole number")
    if not -X.ndim <= place < X.ndim or X.shape[place] == 0:
        raise ValueError(f"dim is {dim}, but X has shape {tuple(X.shape)}")
    return X


def _rows(X: Any, dim: int) -> tuple[Any, Any]:
    """X with `dim` last, as a matrix, and that array before it became one."""
    X = _scores(X, dim)
    moved = X.movedim(dim, -1) if is_torch(X) else np.moveaxis(np.asarray(X), dim, -1)
    return moved.reshape((-1, moved.shape[-1])), moved


def _back(P: Any, moved: Any, dim: int) -> Any:
    P = P.reshape(moved.shape)
    return P.movedim(-1, dim) if is_torch(P) else np.moveaxis(P, -1, dim)


def _map(X: Any, alpha: Any, dim: int) -> Any:
    X = _scores(X, dim)
    is_number = isinstance(alpha, (int, float))
    several = not is_number and int(np.prod(np.shape(alpha))) > 1
    given: Any = alpha
    value = math.nan if several else number("alpha", given.detach() if is_torch(given) else given)
    if value == 1.0 and is_number:
        return softmax(X, dim)
    if not value > 0.0:
        return _by_row(X, alpha, dim)
    order = alpha if is_number or not is_torch(alpha) else alpha.reshape(())
    if not is_number and not is_torch(alpha):
        order = value
    if dim == -1 and type(X) in _plain_kinds() and X.ndim > 1:
        return coupling(X, method="entmax", alpha=order)
    matrix, moved = _rows(X, dim)
    return _back(coupling(matrix, method="entmax", alpha=order), moved, dim)


def _by_row(X: Any, alpha: Any, dim: int) -> Any:
    """Orders that the operator does not take: one for each row."""
    matrix, moved = _rows(X, dim)
    lead = (*moved.shape[:-1], 1)
    shape = list(X.shape) if hasattr(X, "shape") else list(np.shape(X))
    shape[dim] = 1
    if is_torch(X):
        import torch

        each = torch.as_tensor(alpha, dtype=None if is_torch(alpha) else torch.float64)
        if not bool((each > 0.0).all()):
            raise ValueError(_wrong_order(each.detach().numpy()))
        if each.dim() > len(shape) or any(
            size not in (1, wanted)
            for size, wanted in zip(reversed(each.shape), reversed(shape), strict=False)
        ):
            raise ValueError(f"alpha has shape {tuple(each.shape)}, wanted one that fits {tuple(shape)}")
        each = each.expand(shape).movedim(dim, -1).expand(lead).reshape((-1, 1))
        return _back(torch_weights()(matrix, each), moved, dim)
    try:
        orders = np.broadcast_to(np.asarray(alpha, np.float64), shape)
    except (TypeError, ValueError):
        raise ValueError(f"alpha is {shown(alpha)}, wanted numbers that fit {tuple(shape)}") from None
    if not (orders > 0.0).all():
        raise ValueError(_wrong_order(orders))
    orders = np.moveaxis(orders, dim, -1).reshape((-1, 1))
    found = weights(matrix.astype(np.float64), orders)
    kind = matrix.dtype if matrix.dtype.kind == "f" else np.float64
    return _back(found.astype(kind), moved, dim)


def _wrong_order(orders: Any) -> str:
    least = orders[~(orders > 0.0)].flat[0]
    return f"alpha is {least!s}, wanted more than 0: at 0 and below a weight of 0 has no finite entropy"


def _support(P: Any, dim: int) -> Any:
    """How many weights are positive, with `dim` of size 1, as in entmax."""
    return (P > 0).sum(dim, keepdim=True) if is_torch(P) else (P > 0).sum(dim, keepdims=True)


def softmax(X: ArrayT, dim: int = -1) -> ArrayT:
    """``argmax <x, p> - sum(p log p)``: the map of order 1.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> otattn.activations.softmax(np.zeros(4))
    array([0.25, 0.25, 0.25, 0.25])
    """
    scores = _scores(X, dim)
    if dim == -1 and type(scores) in _plain_kinds() and scores.ndim > 1:
        found: ArrayT = coupling(scores, method="softmax")
        return found
    matrix, moved = _rows(scores, dim)
    found = _back(coupling(matrix, method="softmax"), moved, dim)
    return found


@overload
def sparsemax(
    X: ArrayT, dim: int = -1, k: int | None = None, return_support_size: Literal[False] = False
) -> ArrayT: ...
@overload
def sparsemax(
    X: ArrayT, dim: int = -1, k: int | None = None, *, return_support_size: Literal[True]
) -> tuple[ArrayT, ArrayT]: ...
@overload
def sparsemax(X: Any, dim: int = -1, k: int | None = None, return_support_size: bool = False) -> Any: ...
def sparsemax(X: Any, dim: int = -1, k: int | None = None, return_support_size: bool = False) -> Any:
    """The nearest point of the simplex: ``argmax <x, p> - ||p||^2 / 2``.

    Parameters
    ----------
    X : array or tensor
        Scores.
    dim : int
        Dimension that sums to 1.
    k : int, optional
        Accepted for entmax's signature.
    return_support_size : bool
        Return a pair: the weights, and how many of each row are positive, with `dim` of size 1.

    Returns
    -------
    array or tensor, shape of `X`

    Examples
    --------
    >>> import numpy as np, otattn
    >>> otattn.activations.sparsemax(np.array([1.0, 0.5, -2.0]))
    array([0.75, 0.25, 0.  ])
    """
    P = _map(X, 2.0, dim)
    return (P, _support(P, dim)) if flag("return_support_size", return_support_size) else P


@overload
def entmax15(
    X: ArrayT, dim: int = -1, k: int | None = None, return_support_size: Literal[False] = False
) -> ArrayT: ...
@overload
def entmax15(
    X: ArrayT, dim: int = -1, k: int | None = None, *, return_support_size: Literal[True]
) -> tuple[ArrayT, ArrayT]: ...
@overload
def entmax15(X: Any, dim: int = -1, k: int | None = None, return_support_size: bool = False) -> Any: ...
def entmax15(X: Any, dim: int = -1, k: int | None = None, return_support_size: bool = False) -> Any:
    """`entmax_bisect` with alpha = 1.5; parameters as in `sparsemax`."""
    P = _map(X, 1.5, dim)
    return (P, _support(P, dim)) if flag("return_support_size", return_support_size) else P


def entmax_bisect(
    X: ArrayT, alpha: Any = 1.5, dim: int = -1, n_iter: int = 50, ensure_sum_one: bool = True
) -> ArrayT:
    """Tsallis map ``argmax <x, p> - sum(p^alpha - p) / (alpha (alpha - 1))`` over the simplex.

    Parameters
    ----------
    X : array or tensor
    alpha : float, array or tensor
        More than 0; 1 is softmax, and below 1 every weight is positive. As a tensor it gets a gradient. Its
        shape broadcasts to that of `X` with `dim` of size 1, so that rows may have orders of their own.
    dim : int
    n_iter, ensure_sum_one
        Accepted for entmax's signature; rows always sum to 1.

    Returns
    -------
    array or tensor, shape of `X`

    Raises
    ------
    ValueError
        For an alpha that is not above 0.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> otattn.activations.entmax_bisect(np.array([2.0, 0.0, 0.0]), alpha=2.0)
    array([1., 0., 0.])
    """
    flag("ensure_sum_one", ensure_sum_one)
    found: ArrayT = _map(X, alpha, dim)
    return found


def sparsemax_bisect(
    X: ArrayT, dim: int = -1, n_iter: int | None = 50, ensure_sum_one: bool = True
) -> ArrayT:
    """`sparsemax`; the other parameters are accepted for entmax's signature."""
    flag("ensure_sum_one", ensure_sum_one)
    found: ArrayT = _map(X, 2.0, dim)
    return found


def _bisect(low: Any, high: Any, excess: Any) -> Any:
    """The root of a falling function between two tensors, to the last bit."""
    for _ in range(80):
        middle = low + (high - low) / 2
        above = excess(middle) >= 0
        low, high = middle.where(above, low), high.where(above, middle)
    return low


def _tensor(X: Any) -> Any:
    import torch

    if is_torch(X):
        return X
    # torch has neither foreign byte orders nor strides below 0, which a dimension of 1 keeps in dense arrays.
    X = np.ascontiguousarray(X, X.dtype.newbyteorder("="))
    return torch.from_numpy(X.copy() if min(X.strides, default=0) < 0 else X)


def _held(name: str, value: Any, fits: Callable[[Any], Any], wanted: str) -> Any:
    """A number, or what a tensor of them is without its derivative."""
    held = value.detach() if is_torch(value) else number(name, value)
    found = fits(held)
    if not (bool(found.all()) if is_torch(found) else found):
        raise ValueError(f"{name} is {shown(value)}, wanted {wanted}")
    return held


def _top(z: Any, dim: int) -> Any:
    """The largest entry; 0 of nothing but -inf, below which no level would be a number."""
    top = z.amax(dim, keepdim=True)
    return top.where(top != -math.inf, z.new_zeros(()))


def _total(q: Any, dim: int) -> Any:
    """The sum by which weights are divided; 1 where there is none."""
    total = q.sum(dim, True)
    return total.where(total != 0.0, q.new_ones(()))


def normmax_bisect(X: ArrayT, alpha: Any = 2, dim: int = -1, n_iter: int = 50) -> ArrayT:
    """``argmax <x, p> - ||p||_alpha`` over the simplex.

    The answer is ``p = q / sum q`` with ``q_j = max(0, x_j - t)^(1 / (alpha - 1))`` and ``sum q^alpha = 1``;
    the level obeys ``dt = <p, dx>``, which is what the gradient uses, and moves with alpha.

    Parameters
    ----------
    X : array or tensor
    alpha : float or tensor
        More than 1.
    dim : int
    n_iter : int
        Accepted for entmax's signature.

    Returns
    -------
    array or tensor, shape of `X`

    Examples
    --------
    >>> import numpy as np, otattn
    >>> otattn.activations.normmax_bisect(np.array([1.0, 1.0, -3.0])).round(6)
    array([0.5, 0.5, 0. ])
    """
    x = _tensor(_scores(X, dim))
    order = _held("alpha", alpha, lambda found: found > 1.0, "more than 1")
    power = 1.0 / (order - 1.0)
    z = x.detach()
    top = _top(z, dim)
    # Scores below the top are exact differences, whose powers keep their digits next to order 1, too:
    # q = (r w)^power with r = top - t and w = 1 + below / r.
    below = z - top

    def logarithms(r: Any) -> Any:
        return (below / r).clamp(min=-1.0).log1p() * power

    # One entry alone needs r = 1; m equal ones need r^(alpha power) = 1/m.
    r = -_bisect(
        top * 0.0 - 1.0,
        top * 0.0,
        lambda s: (order * (logarithms(-s) + power * (-s).log())).exp().sum(dim, True) - 1.0,
    )
    q = logarithms(r).exp()
    p = q / _total(q, dim)
    if x.requires_grad or (is_torch(alpha) and alpha.requires_grad):
        # A power below 1 has an infinite slope at 0, where the weight stays 0.
        inside, one, none = p > 0, x.new_ones(()), x.new_zeros(())
        # The slope of <p, x> with nothing added to the level: entries at the threshold feel its last bit.
        mean = (p * x.where(inside, none)).sum(dim, True)
        # Of sum q^alpha = 1, whose power 1 + power falls by power^2 as alpha grows.
        rise = (r + below).where(inside, one)
        bend = (p * rise * rise.log()).sum(dim, True)
        slope = -(power**2) / (1.0 + power) * bend
        moving = (mean - mean.detach()) + slope * (alpha - order)
        share = ((x - top - moving) / r).where(inside, none).log1p()
        q = (share / (alpha - 1.0)).exp().where(inside, none)
        p = q / _total(q, dim)
    found: ArrayT = p if is_torch(X) else p.numpy()
    return found


def budget_bisect(X: ArrayT, budget: Any = 2, dim: int = -1, n_iter: int = 50) -> ArrayT:
    """``argmax <x, p> - ||p||^2 / 2`` with ``0 <= p <= 1`` and ``sum p = budget``.

    The answer is ``p = clip(x - t, 0, 1)``; over the entries strictly between,
    ``dt = mean dx - dbudget / their number``.

    Parameters
    ----------
    X : array or tensor
    budget : float or tensor
        At least 0 and at most the size of `dim`.
    dim : int
    n_iter : int
        Accepted for entmax's signature.

    Returns
    -------
    array or tensor, shape of `X`

    Examples
    --------
    >>> import numpy as np, otattn
    >>> otattn.activations.budget_bisect(np.array([5.0, 1.0, 1.0]), budget=2).round(6)
    array([1. , 0.5, 0.5])
    """
    x = _tensor(_scores(X, dim))
    # A tracer's sizes are tensors.
    size = int(x.shape[dim])
    total = _held("budget", budget, lambda found: (found >= 0.0) & (found <= size), f"0 to {size}")
    # What scores have in common moves no weight.
    x = x - _top(x.detach(), dim)
    z = x.detach()
    high = _top(z, dim)
    low = z.where(z != -math.inf, high).amin(dim, keepdim=True) - 1.0
    level = _bisect(low, high, lambda t: (z - t).clamp(0.0, 1.0).sum(dim, True) - total)
    p = (z - level).clamp(0.0, 1.0)
    if x.requires_grad or (is_torch(budget) and budget.requires_grad):
        free = (p > 0) & (p < 1)
        count = free.sum(dim, True).clamp(min=1)
        change = (x - z).where(free, x.new_zeros(())).sum(dim, True) - (budget - total)
        p = (x - level - change / count).where(free, p)
    found: ArrayT = p if is_torch(X) else p.numpy()
    return found


# ---- losses --------------------------------------------------------------------------------------


def _loss(X: Any, target: Any, p: Any, omega: Any) -> Tensor:
    """Fenchel-Young loss: omega + <p, x> - x_target, whose gradient is p - e_target as p maximises it."""
    if not is_torch(target):
        raise TypeError(f"target is a {type(target).__name__}, wanted a tensor")
    if target.is_floating_point() or target.is_complex() or str(target.dtype) == "torch.bool":
        raise TypeError(f"target has type {target.dtype}, wanted whole numbers")
    if tuple(X.shape[:1]) != tuple(target.shape):
        raise ValueError(f"target has shape {tuple(target.shape)}, but X has {tuple(X.shape)}")
    # Differences first: scores of one size hold more than their products with weights do. Weights of 0 take
    # no part, whatever the score is.
    above = X - X.gather(1, target.long().unsqueeze(1))
    loss: Tensor = omega + (p * above.where(p != 0.0, 0.0)).sum(1)
    return loss


def _weights(function: Any, X: Any, *arguments: Any) -> Any:
    if not is_torch(X):
        raise TypeError(f"X is a {type(X).__name__}, wanted a tensor")
    if X.ndim != 2:
        raise ValueError(f"X has shape {tuple(X.shape)}, wanted (samples, classes)")
    return function(X.detach(), *arguments).detach()


@overload
def sparsemax_loss(
    X: Any, target: Any, k: int | None = None, return_support_size: Literal[False] = False
) -> Tensor: ...
@overload
def sparsemax_loss(
    X: Any, target: Any, k: int | None = None, *, return_support_size: Literal[True]
) -> tuple[Tensor, Tensor]: ...
@overload
def sparsemax_loss(X: Any, target: Any, k: int | None = None, return_support_size: bool = False) -> Any: ...
def sparsemax_loss(X: Any, target: Any, k: int | None = None, return_support_size: bool = False) -> Any:
    """Loss of `sparsemax`, one per row.

    Parameters
    ----------
    X : tensor, shape (samples, classes)
    target : int64 tensor, shape (samples,)
    k : int, optional
        Accepted for entmax's signature.
    return_support_size : bool
        Return a pair: the losses, and how many weights of each row are positive, shape (samples, 1).

    Returns
    -------
    tensor, shape (samples,)
        0 or more; 0 only where all weight lies on the target.

    Examples
    --------
    >>> import torch, otattn
    >>> otattn.activations.sparsemax_loss(torch.tensor([[3.0, 0.0]]), torch.tensor([0]))
    tensor([0.])
    """
    p = _weights(sparsemax, X)
    loss = _loss(X, target, p, (1.0 - (p * p).sum(1)) / 2.0)
    return (loss, _support(p, -1)) if flag("return_support_size", return_support_size) else loss


def sparsemax_bisect_loss(X: Any, target: Any, n_iter: int = 50) -> Tensor:
    """`sparsemax_loss`; `n_iter` is accepted for entmax's signature."""
    return sparsemax_loss(X, target)


@overload
def entmax15_loss(
    X: Any, target: Any, k: int | None = None, return_support_size: Literal[False] = False
) -> Tensor: ...
@overload
def entmax15_loss(
    X: Any, target: Any, k: int | None = None, *, return_support_size: Literal[True]
) -> tuple[Tensor, Tensor]: ...
@overload
def entmax15_loss(X: Any, target: Any, k: int | None = None, return_support_size: bool = False) -> Any: ...
def entmax15_loss(X: Any, target: Any, k: int | None = None, return_support_size: bool = False) -> Any:
    """`entmax_bisect_loss` with alpha = 1.5; parameters as in `sparsemax_loss`."""
    p = _weights(entmax15, X)
    loss = _loss(X, target, p, _tsallis(p, 1.5).squeeze(1))
    return (loss, _support(p, -1)) if flag("return_support_size", return_support_size) else loss


def _tsallis(p: Any, alpha: Any) -> Any:
    """Tsallis entropy of rows that sum to 1, (rows, 1), of one order or of each row's; Shannon's for 1.

    ``-sum p (p^(alpha - 1) - 1) / (alpha - 1) / alpha``: its digits stay next to order 1, those of
    ``(1 - sum p^alpha) / (alpha (alpha - 1))`` do not.
    """
    wide = p.double()
    orders = alpha.double() if is_torch(alpha) else wide.new_tensor(alpha)
    k = orders - 1.0
    one, positive = k == 0, wide > 0
    logarithm = wide.where(positive, wide.new_ones(())).log()
    level = logarithm.where(one, (k * logarithm).expm1() / k.where(~one, k.new_ones(())))
    return -((wide * level).sum(1, True) / orders).to(p.dtype)


def entmax_bisect_loss(X: Any, target: Any, alpha: Any = 1.5, n_iter: int = 50) -> Tensor:
    """Loss of `entmax_bisect`, one per row; parameters as in `sparsemax_loss` and `entmax_bisect`."""
    alpha = alpha.detach() if is_torch(alpha) else alpha
    p = _weights(entmax_bisect, X, alpha)
    return _loss(X, target, p, _tsallis(p, alpha).squeeze(1))


def normmax_bisect_loss(X: Any, target: Any, alpha: Any = 2, n_iter: int = 50) -> Tensor:
    """Loss of `normmax_bisect`, one per row; parameters as in `sparsemax_loss`."""
    alpha = alpha if is_torch(alpha) else number("alpha", alpha)
    p = _weights(normmax_bisect, X, alpha)
    return _loss(X, target, p, 1.0 - (p**alpha).sum(1) ** (1.0 / alpha))


# ---- modules -------------------------------------------------------------------------------------


@functools.cache
def _module(name: str) -> type[nn.Module]:
    """The module of a function, made when it is first asked for, since torch is imported lazily."""
    from torch import nn

    function, defaults = _FUNCTIONS[name]

    class Map(nn.Module):
        def __init__(self, *values: Any, **named: Any) -> None:
            super().__init__()
            self.options = _options(name, defaults, values, named)

        def forward(self, X: Any) -> Any:
            return globals()[function](X, **self.options)

        def extra_repr(self) -> str:
            return ", ".join(f"{key}={value!r}" for key, value in self.options.items())

    Map.__doc__ = f"Module of `{function}` with its parameters."
    return _named(Map, name)


@functools.cache
def _loss_module(name: str) -> type[nn.Module]:
    from torch import nn

    function, defaults = _LOSSES[name]
    both = {**defaults, "ignore_index": -100, "reduction": "elementwise_mean"}

    class Loss(nn.Module):
        def __init__(self, *values: Any, **named: Any) -> None:
            super().__init__()
            self.options = _options(name, both, values, named)
            self.ignore_index = whole("ignore_index", self.options.pop("ignore_index"), -(1 << 63))
            self.reduction = self.options.pop("reduction")
            if not isinstance(self.reduction, str) or self.reduction not in (
                "elementwise_mean",
                "sum",
                "none",
            ):
                raise ValueError(
                    f"reduction is {self.reduction!r}, wanted 'elementwise_mean', 'sum' or 'none'"
                )

        def forward(self, X: Any, target: Any) -> Any:
            """X (samples, classes), target (samples,): losses, their sum, or their mean over what counts."""
            # As in entmax, a negative ignore_index ignores nothing.
            losses = globals()[function](X, target, **self.options)
            counted = target != self.ignore_index
            if self.ignore_index >= 0:
                losses = losses.masked_fill(~counted, 0.0)
            if self.reduction == "none":
                return losses
            if self.reduction == "sum":
                return losses.sum()
            # Their number as a tensor, which a tracer does not take for a constant.
            return losses.sum() / (counted.sum() if self.ignore_index >= 0 else losses.shape[0])

    Loss.__doc__ = f"Module of `{function}` with its parameters, `ignore_index` and `reduction`."
    return _named(Loss, name)


def _options(
    name: str, defaults: dict[str, Any], values: tuple[Any, ...], named: dict[str, Any]
) -> dict[str, Any]:
    unknown = [key for key in named if key not in defaults]
    if unknown or len(values) > len(defaults):
        raise TypeError(f"{name} takes {', '.join(defaults)}, got {unknown or values!r}")
    return {**defaults, **dict(zip(defaults, values, strict=False)), **named}


def _named(kind: type[nn.Module], name: str) -> type[nn.Module]:
    kind.__name__ = kind.__qualname__ = name
    return kind


def __getattr__(name: str) -> Any:
    if name in _FUNCTIONS:
        return _module(name)
    if name in _LOSSES:
        return _loss_module(name)
    raise AttributeError(f"module 'otattn.activations' has no attribute {name!r}")
