"""What training loops ask for: pairs drawn from plans of minibatches, and a teacher's balanced targets."""

from __future__ import annotations

import math
import warnings
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ._assignment import linear_sum_assignment
from ._aux import ArrayT, AuxRequest
from ._coupling import coupling
from ._errors import NotConverged, PartialWarning
from ._settings import count, flag, is_torch, number, shown
from ._shapes import dense
from ._threads import threads

_METHODS = ("exact", "sinkhorn", "unbalanced")
_MOST_ROUNDS = 1000
_MOST_PAIRS = 1 << 32
_MOST_THREADS = 1 << 10
# An error of the column sums, relative to the mass, that draws might show.
_SEEN = 1e-4


def _weight(name: str, value: Any) -> float:
    found = number(name, value)
    # Of less there is no arithmetic.
    if not float(np.finfo(np.float64).tiny) <= found < math.inf:
        raise ValueError(f"{name} is {found!r}, wanted a finite number above 0")
    return found


def _array(name: str, x: Any) -> Any:
    """NumPy's view of an array or tensor, without its graph."""
    return x.detach().cpu().numpy() if is_torch(dense(name, x)) else np.asarray(x)


def _draws(generator: Any, shape: tuple[int, ...]) -> Any:
    """Uniform numbers in [0, 1) from a generator of NumPy or torch, or NumPy's global one."""
    if generator is None:
        return np.random.random_sample(shape)
    if hasattr(generator, "random_sample"):
        return generator.random_sample(shape)
    if isinstance(generator, np.random.Generator):
        return generator.random(shape)
    import torch

    if not isinstance(generator, torch.Generator):
        raise TypeError(
            f"generator is a {type(generator).__name__}, wanted a generator of NumPy or torch, an int or None"
        )
    return torch.rand(shape, generator=generator, dtype=torch.float64, device=generator.device).cpu().numpy()


def _choose(weights: Any, u: Any) -> Any:
    """For rows of weights (..., m), the places where shares u (..., draws) of their sums are reached."""
    ends = np.cumsum(weights, -1)
    ends /= ends[..., -1:]
    flat = ends.reshape(-1, ends.shape[-1])
    draws = u.reshape(len(flat), -1)
    found = np.stack([row.searchsorted(x, side="right") for row, x in zip(flat, draws, strict=True)])
    return found.reshape(u.shape)


class PlanSampler:
    """Draws pairs of two minibatches from their transport plan, under the names of torchcfm's OTPlanSampler.

    Costs are squared distances of the flattened samples, masses are equal. Arrays or tensors in, the same
    kind out; nothing is differentiated through the choice of pairs.

    Parameters
    ----------
    method : {"exact", "sinkhorn", "unbalanced"}
        The cheapest matching; entropic transport of weight `reg`; the same with sums relaxed by `reg_m`.
    reg, reg_m : float
    normalize_cost : bool
        Divide the costs by the largest one.
    num_threads : int or "max"
    warn : bool
        Warn of an entropic plan that did not converge, and of an unbalanced one that has no mass, for which
        the even plan stands.
    generator : numpy.random.Generator, RandomState, torch.Generator or int, optional
        Where draws come from: NumPy's global state by default, with the same uniform numbers as torchcfm's.
    batched : bool
        The first dimension counts problems of their own: (problems, samples, ...). Matchings and entropic
        plans of all problems are one call.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> sampler = otattn.ot.PlanSampler("exact", generator=0)
    >>> x0, x1 = np.array([[0.0], [1.0], [2.0]]), np.array([[2.1], [0.1], [1.1]])
    >>> a, b = sampler.sample_plan(x0, x1, replace=False)
    >>> (b - a).round(6).tolist()
    [[0.1], [0.1], [0.1]]
    """

    def __init__(
        self,
        method: str,
        reg: float = 0.05,
        reg_m: float = 1.0,
        normalize_cost: bool = False,
        num_threads: int | str = 1,
        warn: bool = True,
        *,
        generator: Any = None,
        batched: bool = False,
    ) -> None:
        if not isinstance(method, str) or method not in _METHODS:
            raise ValueError(f"method is {shown(method)}, wanted {', '.join(map(repr, _METHODS))}")
        self.method, self.reg, self.reg_m = method, _weight("reg", reg), _weight("reg_m", reg_m)
        self.normalize_cost = flag("normalize_cost", normalize_cost)
        self.warn, self.batched = flag("warn", warn), flag("batched", batched)
        most = isinstance(num_threads, str) and num_threads == "max"
        self.threads = 0 if most else count("num_threads", num_threads, 0, _MOST_THREADS) or 0
        if isinstance(generator, int):
            generator = np.random.default_rng(count("generator", generator))
        self.generator = generator

    # ---- plans -----------------------------------------------------------------------------------

    def _points(self, x0: Any, x1: Any) -> tuple[Any, Any]:
        """Both as (problems, samples, width) in f32 or f64."""
        lead = 2 if self.batched else 1
        found = []
        for name, x in (("x0", x0), ("x1", x1)):
            # NumPy has no bfloat16.
            y = _array(name, x.float() if is_torch(x) and x.element_size() < 4 else x)
            if y.ndim < lead or 0 in y.shape[:lead]:
                wanted = "(problems, samples, ...)" if self.batched else "(samples, ...)"
                raise ValueError(f"{name} has shape {y.shape}, wanted {wanted} with samples")
            if y.dtype.kind not in "fiub":
                raise TypeError(f"{name} has type {y.dtype}, wanted numbers")
            if y.dtype not in (np.float32, np.float64):
                y = y.astype(np.float64 if y.dtype.kind in "iub" else np.float32)
            y = y.reshape((*y.shape[:lead], -1))
            found.append(y if self.batched else y[None])
        a, b = found
        if a.shape[2] != b.shape[2] or len(a) != len(b):
            raise ValueError(
                f"x1 has shape {np.shape(x1)}, but x0 has {np.shape(x0)}: only the samples may differ"
            )
        return a, b

    def _costs(self, a: Any, b: Any) -> Any:
        """Squared distances (problems, n, m), never negative; NaN and infinity are refused."""
        M = -2.0 * (a @ b.swapaxes(1, 2))
        M += (a * a).sum(2)[:, :, None]
        M += (b * b).sum(2)[:, None, :]
        if not np.isfinite(M).all():
            raise ValueError(
                "x0 or x1 holds NaN, infinity or numbers whose squares overflow; give finite ones"
            )
        np.maximum(M, 0.0, out=M)
        if self.normalize_cost:
            M /= np.maximum(M.max((1, 2), keepdims=True), np.finfo(M.dtype).tiny)
        return M

    def _matching(self, a: Any, b: Any) -> Any:
        """The column of each row (problems, n) of the cheapest matchings of equally many samples."""
        # What belongs to one row or column changes no matching: squares and means stay out of the costs.
        M = (a - a.mean(1, keepdims=True)) @ (b - b.mean(1, keepdims=True)).swapaxes(1, 2)
        if not np.isfinite(M).all():
            raise ValueError(
                "x0 or x1 holds NaN, infinity or numbers whose squares overflow; give finite ones"
            )
        with threads(self.threads):
            return linear_sum_assignment(M, maximize=True)[1]

    def _plans(self, a: Any, b: Any) -> Any:
        """Plans (problems, n, m) of total 1 (unbalanced ones: whatever they have)."""
        n, m = a.shape[1], b.shape[1]
        if self.method == "exact" and n == m:
            plan = np.zeros((len(a), n, n))
            np.put_along_axis(plan, self._matching(a, b)[:, :, None], 1.0 / n, 2)
            return plan
        M = self._costs(a, b)
        with threads(self.threads):
            if self.method == "exact":
                rows, columns = np.full(n, 1.0 / n), np.full(m, 1.0 / m)
                M = M.astype(np.float64)
                return coupling(M, method="hard/exact", cost=True, row_mass=rows, column_mass=columns)
            if self.method == "unbalanced":
                from .ot import sinkhorn_unbalanced

                equal = np.full(n, 1.0 / n), np.full(m, 1.0 / m)
                return self._massive(
                    np.stack([sinkhorn_unbalanced(*equal, C, self.reg, self.reg_m) for C in M])
                )
            return self._entropic(M, n, m)

    def _massive(self, plans: Any) -> Any:
        """The same plans, but the even one, with a warning, where samples so far apart keep no mass."""
        empty = ~plans.any((1, 2))
        if empty.any():
            if self.warn:
                warnings.warn(
                    "the plan of x0 and x1 has no mass, and the even plan stands for it; raise reg_m",
                    PartialWarning,
                    stacklevel=4,
                )
            plans[empty] = 1.0 / plans[0].size
        return plans

    def _entropic(self, M: Any, n: int, m: int) -> Any:
        how: dict[str, Any] = {"method": "softmax/exact", "temperature": self.reg, "cost": True}
        how |= {"row_mass": np.full(n, 1.0 / n), "column_mass": np.full(m, 1.0 / m)}
        how |= {"allow_partial": True, "return_aux": AuxRequest(potentials=True)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PartialWarning)
            try:
                plan, aux = coupling(M, **how)
            except NotConverged:
                # No arithmetic of this type reaches the tolerance at such a small reg.
                plan, aux = coupling(M.astype(np.float64), **how, rounds=_MOST_ROUNDS)
        if self.warn and aux.info.column_error > _SEEN:
            warnings.warn(
                f"after {aux.info.rounds} rounds the column error is {aux.info.column_error:.3g}; raise reg",
                PartialWarning,
                stacklevel=4,
            )
        return plan

    def get_map(self, x0: Any, x1: Any) -> NDArray[Any]:
        """The plan of two minibatches as a NumPy array, shape (samples of x0, samples of x1)."""
        plan: NDArray[Any] = self._plans(*self._points(x0, x1))
        return plan if self.batched else plan[0]

    # ---- draws -----------------------------------------------------------------------------------

    def sample_map(
        self, pi: Any, batch_size: int, replace: bool = True
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Places (i, j) of `batch_size` pairs drawn from a plan; int64 arrays.

        Without `replace`, no pair twice; ValueError where the plan has fewer pairs.
        """
        pi = _array("pi", pi)
        if pi.dtype.kind not in "fiub" or pi.ndim < 2 or pi.size == 0:
            raise ValueError(f"pi has type {pi.dtype} and shape {pi.shape}, wanted a plan of numbers")
        if (batch_size := count("batch_size", batch_size, 1, _MOST_PAIRS) or 0) == 0:
            raise TypeError("batch_size is None, wanted a whole number")
        replace = flag("replace", replace)
        pi = pi.astype(np.float64)
        flat = pi.reshape((*pi.shape[:-2], -1))
        if not (flat >= 0.0).all() or not (flat.sum(-1) > 0.0).all():
            raise ValueError("pi holds NaN or a negative number, or has no mass; give weights of pairs")
        if replace:
            share = flat / flat.sum(-1, keepdims=True)
            found = _choose(share, _draws(self.generator, (*flat.shape[:-1], batch_size)))
        else:
            pairs = (flat > 0.0).sum(-1).min()
            if pairs < batch_size:
                raise ValueError(f"batch_size is {batch_size}, but the plan has {pairs} pairs with mass")
            # The smallest of exponential times with these rates: one draw after another from what is left.
            with np.errstate(divide="ignore"):
                times = -np.log1p(-_draws(self.generator, flat.shape)) / flat
            found = np.argpartition(times, batch_size - 1, -1)[..., :batch_size]
            found = np.take_along_axis(found, np.take_along_axis(times, found, -1).argsort(-1), -1)
        return found // pi.shape[-1], found % pi.shape[-1]

    def _pairs(self, x0: Any, x1: Any, replace: bool) -> tuple[Any, Any]:
        a, b = self._points(x0, x1)
        n = a.shape[1]
        if self.method == "exact" and n == b.shape[1]:
            columns = self._matching(a, b)
            u = _draws(self.generator, (len(a), n))
            # Every pair has the same mass, so that a share of the mass is a share of the rows.
            i = np.minimum((u * n).astype(np.int64), n - 1) if replace else u.argsort(-1)
            j = np.take_along_axis(columns, i, 1)
        else:
            i, j = self.sample_map(self._plans(a, b), n, replace)
        return (i, j) if self.batched else (i[0], j[0])

    def _take(self, name: str, x: Any, places: Any) -> Any:
        if x is None:
            return None
        lead = 2 if self.batched else 1
        if len(np.shape(x)) < lead or np.shape(x)[lead - 1] <= places.max():
            raise ValueError(f"{name} has shape {tuple(np.shape(x))}, wanted one for each sample")
        each: Any = np.arange(len(places))[:, None]
        if is_torch(x):
            import torch

            places, each = (torch.from_numpy(y).to(x.device) for y in (places, each))
        else:
            x = np.asarray(dense(name, x))
        return x[each, places] if self.batched else x[places]

    @overload
    def sample_plan(self, x0: ArrayT, x1: ArrayT, replace: bool = True) -> tuple[ArrayT, ArrayT]: ...
    @overload
    def sample_plan(self, x0: Any, x1: Any, replace: bool = True) -> tuple[Any, Any]: ...
    def sample_plan(self, x0: Any, x1: Any, replace: bool = True) -> tuple[Any, Any]:
        """As many pairs as `x0` has samples: ``(x0[i], x1[j])`` with (i, j) drawn from the plan."""
        return self.sample_plan_with_labels(x0, x1, replace=replace)[:2]

    @overload
    def sample_plan_with_labels(
        self, x0: ArrayT, x1: ArrayT, y0: Any = None, y1: Any = None, replace: bool = True
    ) -> tuple[ArrayT, ArrayT, Any, Any]: ...
    @overload
    def sample_plan_with_labels(
        self, x0: Any, x1: Any, y0: Any = None, y1: Any = None, replace: bool = True
    ) -> tuple[Any, Any, Any, Any]: ...
    def sample_plan_with_labels(
        self, x0: Any, x1: Any, y0: Any = None, y1: Any = None, replace: bool = True
    ) -> tuple[Any, Any, Any, Any]:
        """The same with what belongs to the samples: ``(x0[i], x1[j], y0[i], y1[j])``, None where absent."""
        i, j = self._pairs(x0, x1, flag("replace", replace))
        given = (("x0", x0, i), ("x1", x1, j), ("y0", y0, i), ("y1", y1, j))
        a, b, c, d = (self._take(*one) for one in given)
        return a, b, c, d

    @overload
    def sample_trajectory(self, X: ArrayT) -> ArrayT: ...
    @overload
    def sample_trajectory(self, X: Any) -> Any: ...
    def sample_trajectory(self, X: Any) -> Any:
        """Chains through `X` (samples, times, ...), where a plan pairs each time with the next."""
        if self.batched:
            raise ValueError(
                "batched is True, but trajectories are drawn of one problem; use a sampler without"
            )
        if X.ndim < 2:
            raise ValueError(f"X has shape {tuple(X.shape)}, wanted (samples, times, ...)")
        places = [np.arange(X.shape[0])]
        for time in range(X.shape[1] - 1):
            plan = self.get_map(X[:, time], X[:, time + 1])[places[-1]]
            places.append(_choose(plan, _draws(self.generator, (len(plan), 1)))[:, 0])
        chains = [self._take("X", X[:, time], place) for time, place in enumerate(places)]
        if is_torch(X):
            import torch

            return torch.stack(chains, 1)
        return np.stack(chains, 1)


@overload
def sinkhorn_knopp_teacher(
    teacher_output: ArrayT,
    teacher_temp: float,
    n_iterations: int = 3,
    n_masked_patches_tensor: Any = None,
) -> ArrayT: ...
@overload
def sinkhorn_knopp_teacher(
    teacher_output: Any,
    teacher_temp: float,
    n_iterations: int = 3,
    n_masked_patches_tensor: Any = None,
) -> Any: ...
def sinkhorn_knopp_teacher(
    teacher_output: Any,
    teacher_temp: float,
    n_iterations: int = 3,
    n_masked_patches_tensor: Any = None,
) -> Any:
    """Assignments of samples to prototypes that use every prototype alike, with DINOv2's arguments.

    With ``Q = exp(teacher_output / teacher_temp)``, every iteration divides the columns (prototypes) by K / B
    of their sums and then the rows (samples) by theirs; relative to the largest entry of each column, and on
    logarithms where that is too small a scale, so that nothing overflows. Nothing is differentiated. Sums are
    over the samples of one process, DINOv2's over all processes.

    Parameters
    ----------
    teacher_output : array or tensor, shape (samples, prototypes)
    teacher_temp : float
    n_iterations : int
    n_masked_patches_tensor
        Accepted for the signature of the patches' loss; it cancels in the result.

    Returns
    -------
    array or tensor, shape (samples, prototypes)
        Float32, or float64 for float64. Rows sum to 1.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> Q = otattn.ot.sinkhorn_knopp_teacher(np.array([[900.0, 800.0], [900.0, 0.0]]), 0.1)
    >>> Q.round(3).tolist(), bool(np.isfinite(Q).all())
    ([[0.143, 0.857], [1.0, 0.0]], True)
    """
    temperature = number("teacher_temp", teacher_temp)
    if not 0.0 < temperature < math.inf:
        raise ValueError(f"teacher_temp is {teacher_temp!r}, wanted a finite number above 0")
    n_iterations = count("n_iterations", n_iterations, 1) or 1
    if is_torch(teacher_output):
        import torch

        x: Any = teacher_output.detach()
        x = x if x.dtype == torch.float64 else x.float()
    else:
        x = np.asarray(dense("teacher_output", teacher_output))
        if x.dtype.kind not in "fiub":
            raise TypeError(f"teacher_output has type {x.dtype}, wanted numbers")
        x = x if x.dtype == np.float64 else x.astype(np.float32)
    if x.ndim != 2 or 0 in x.shape:
        raise ValueError(f"teacher_output has shape {tuple(x.shape)}, wanted (samples, prototypes)")
    samples, prototypes = x.shape
    mass = samples / prototypes
    top = x.amax(0) if is_torch(x) else x.max(0)
    # Every column's largest entry is 1, so that no sum of a column overflows or vanishes.
    scaled = x - top
    scaled *= 1.0 / temperature
    scaled = scaled.exp_() if is_torch(x) else np.exp(scaled, out=scaled)
    first = columns = scaled.sum(0)
    weights, rows = first, first
    # Below it, entries that were rounded to 0 might have counted in a row.
    least = 1e-20 if first.dtype.itemsize == 4 else 1e-200
    for k in range(n_iterations):
        weights = mass / columns
        rows = scaled @ weights
        if not rows.min() > least:
            # Only logarithms tell the entries of such a row apart.
            logarithms = first.log() if is_torch(x) else np.log(first)
            return _teacher_in_logarithms(x, temperature, n_iterations, -top - temperature * logarithms)
        if k + 1 < n_iterations:
            columns = (1.0 / rows) @ scaled
    scaled *= weights
    scaled /= rows[:, None]
    return scaled


def _teacher_in_logarithms(x: Any, temperature: float, n_iterations: int, start: Any) -> Any:
    """From the potentials of the first division of the columns; rows follow, and then whole rounds."""
    if n_iterations == 1:
        return coupling(x + start, temperature=temperature)
    samples, prototypes = x.shape
    mass = samples / prototypes
    column_mass = x.new_full((prototypes,), mass) if is_torch(x) else np.full(prototypes, mass)
    return coupling(
        x,
        method="softmax/exact",
        temperature=temperature,
        rounds=n_iterations - 1,
        start_potential=start,
        column_mass=column_mass,
    )
