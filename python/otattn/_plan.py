"""A plan made once and run many times: all memory is held, forward allocates its outputs only."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from . import _structs as c
from ._arrays import (
    expand,
    floating,
    folded_of,
    operand_of,
    operands_of,
    output_shape,
    seed_of,
    view_of,
    wide,
)
from ._attention import known_arguments, prepare
from ._aux import NO_AUX, AuxOutput, AuxRequest, Request, request_of
from ._call import aux_of, names_of, scratch_of
from ._errors import SolveError
from ._library import library
from ._settings import DIFFERENTIABLE, OPERANDS
from ._shapes import fold
from ._solve import Handle, Job, View, solve_on


class _Given(NamedTuple):
    """Query, key and value of one call."""

    job: Job
    shapes: tuple[tuple[int, ...], ...]
    lead: tuple[int, ...]
    dtype: Any


class Plan:
    """The choices and the memory of one attention problem, for NumPy arrays of fixed shapes.

    Parameters
    ----------
    query, key, value : array
        As in `attention`; their shapes and type are fixed by this, their contents are not.
    gradients : bool
        Also hold the workspace of `backward`.
    **arguments
        All others of `attention`, except `return_aux`. Masks, biases and masses stay as given here.

    Raises
    ------
    ValueError, TypeError
        As `attention`.

    Notes
    -----
    A plan serves one thread at a time; different plans may run side by side.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> x = np.arange(12.0).reshape(1, 1, 4, 3) / 12
    >>> plan = otattn.Plan(x, x, x, method="entmax:1.5", gradients=True)
    >>> out = plan.forward(x, x, x)
    >>> gradients = plan.backward(out_grad=np.ones_like(out))
    >>> sorted(gradients), gradients["value"].shape
    (['key', 'query', 'value'], (1, 1, 4, 3))
    """

    def __init__(
        self, query: Any, key: Any, value: Any, *, gradients: bool = False, **arguments: Any
    ) -> None:
        known_arguments("Plan", arguments, also=("gradients",))
        self._spec, self._extra, self._seed = prepare(**arguments)
        self._gradients = gradients
        given = self._given(query, key, value)
        self._handle = Handle(given.job)
        self._hold(given)

    def _given(self, query: Any, key: Any, value: Any) -> _Given:
        """What a call with these arrays is, which nothing of the plan knows yet."""
        named = {**self._extra, "query": query, "key": key, "value": value}
        if self._seed is not None:
            named["dropout_seed"] = seed_of(self._seed)
        operands, lead = folded_of(self._spec, named)
        job = Job(self._spec, [operand_of(x) for x in operands], self._gradients)
        # Of more than four dimensions the folded ones may be copies.
        job.keep.append((query, key, value, operands))
        return _Given(job, (np.shape(query), np.shape(key), np.shape(value)), lead, operands[0].dtype)

    def _hold(self, given: _Given) -> None:
        """From now on the arrays of the last forward."""
        self._job, self._shapes, self._lead, self._dtype = given
        self._potentials: dict[str, Any] = {}

    @overload
    def forward(
        self, query: Any, key: Any, value: Any, return_aux: Literal[False] | None = None
    ) -> NDArray[Any]: ...
    @overload
    def forward(
        self, query: Any, key: Any, value: Any, return_aux: Request
    ) -> tuple[NDArray[Any], AuxOutput]: ...
    def forward(self, query: Any, key: Any, value: Any, return_aux: Any = None) -> Any:
        """As `attention` with the arguments of the plan; the arrays must have the plan's shapes and type.

        Returns
        -------
        out : array, shape (..., heads, queries, values width)
            With `return_aux` a pair ``(out, aux)``.
        """
        given = self._given(query, key, value)
        job = given.job
        if job.key != self._handle.key:
            raise ValueError(
                f"query {np.shape(query)}, key {np.shape(key)} and value {np.shape(value)} of type "
                f"{given.dtype} are not those the plan was made for"
            )
        self._handle.rebind(job)
        self._hold(given)
        request = request_of(return_aux)
        names = ["column_potential", "row_potential"] if self._gradients else []
        try:
            out, aux, self._potentials = _run_on(
                self._handle, job, request or NO_AUX, self._dtype, self._lead, names
            )
        except SolveError:
            # Backward knows and says the same.
            raise
        except BaseException:
            # Of a Regulariser's function, perhaps, and the library takes that for a success.
            self._handle.arrays = c.Arrays()
            raise
        return out if request is None else (out, aux)

    def _solved(self) -> Job:
        """That of the last forward, for its derivatives."""
        if not self._gradients:
            raise ValueError("gradients is False: make the plan with gradients=True")
        if not self._handle.arrays.size:
            raise ValueError("there is no forward to differentiate; call it first")
        return self._job

    def backward(
        self,
        out_grad: Any = None,
        coupling_grad: Any = None,
        wrt: Iterable[str] = ("query", "key", "value"),
    ) -> dict[str, Any]:
        """Gradients of the last `forward`.

        Parameters
        ----------
        out_grad : array, shape of out, optional
        coupling_grad : array, shape (..., heads, queries, keys), optional
        wrt : names among query, key, value, bias, sink, alibi_slopes, relative_bias, temperature, alpha, cap,
            strength, lower, upper, row_mass and column_mass

        Returns
        -------
        dict
            Name to gradient: four-dimensional for arrays, a float for numbers.

        Raises
        ------
        NotDifferentiable
            For hard plans.
        NotConverged
            When forward, or the linear system of the derivative, did not converge.
        """
        job = self._solved()
        given: dict[str, View] = {}
        keep = []
        for name, x in (("out_grad", out_grad), ("coupling_grad", coupling_grad)):
            if x is not None:
                whole = output_shape("out" if name == "out_grad" else "coupling", job.sizes)
                x = np.broadcast_to(floating(name, x), (*self._lead, *whole[2:])).reshape(whole)
                keep.append(x)
                given[name] = view_of(x)
        results: dict[str, Any] = {}
        wanted: dict[str, View] = {}
        for name in wrt:
            if name not in OPERANDS:
                raise ValueError(f"wrt has {name!r}, wanted names among {', '.join(DIFFERENTIABLE)}")
            shape, dtype = self._gradient_shape(name)
            results[name] = np.zeros(shape, dtype)
            wanted[name] = view_of(results[name])
        self._handle.backward(job, given, wanted)
        return {name: x if self._is_array(name) else float(x[0, 0, 0, 0]) for name, x in results.items()}

    def jvp(self, tangents: Mapping[str, Any], coupling: bool = False) -> Any:
        """Derivative of the last `forward` along one direction.

        Parameters
        ----------
        tangents : dict
            Name to the direction of that argument, an array of the argument's shape (a number where that is
            one): query, key, value, bias, sink, alibi_slopes, relative_bias, temperature, alpha, cap,
            strength, lower, upper, row_mass, column_mass. What is absent stands still. ``scores``,
            (..., heads, queries, keys), is a direction of the final scores themselves. Units are those of the
            argument.
        coupling : bool
            Also return the derivative of the weights P.

        Returns
        -------
        array, shape of out
            ``dP value + P dvalue``; with `coupling` a pair with dP, (..., heads, queries, keys).

        Raises
        ------
        NotDifferentiable
            For hard plans.
        NotConverged
            When forward or the linear system of the derivative did not converge, or no plan exists that way.

        Notes
        -----
        Computed in f64 whatever the type. For entropy plans in tolerance mode dP is the product of the
        direction of the scores with the Hessian of the optimal value [LIT-30, DER-16].

        Examples
        --------
        >>> import numpy as np, otattn
        >>> x = np.arange(12.0).reshape(1, 1, 4, 3) / 12
        >>> plan = otattn.Plan(x, x, x, method="softmax/exact", gradients=True)
        >>> out = plan.forward(x, x, x)
        >>> _, change = plan.jvp({"temperature": 1.0}, coupling=True)
        >>> bool(abs(change.sum(-1)).max() < 1e-12)
        True
        """
        job = self._solved()
        keep: list[Any] = []
        views = self._tangents(tangents, keep)
        results = {
            name: np.zeros(output_shape(name, job.sizes), self._dtype)
            for name in (("out", "coupling") if coupling else ("out",))
        }
        self._handle.along(job, views, {name: view_of(x) for name, x in results.items()})
        found = [x.reshape((*self._lead, *x.shape[2:])) for x in results.values()]
        return tuple(found) if coupling else found[0]

    def _tangents(self, tangents: Mapping[str, Any], keep: list[Any]) -> dict[str, View]:
        """Views of directions in the shapes of the folded operands; `keep` holds what they show."""

        def lend(x: Any) -> View:
            keep.append(x)
            return view_of(x)

        batch, heads, queries, keys, _, _ = self._job.sizes
        allowed = ("scores", *DIFFERENTIABLE)
        found: dict[str, View] = {}
        rest: dict[str, Any] = {}
        moved: list[Any] = [np.broadcast_to(np.zeros((), self._dtype), shape) for shape in self._shapes]
        for name, value in tangents.items():
            if name not in allowed:
                raise ValueError(f"tangents has {name!r}, wanted names among {', '.join(allowed)}")
            x = wide(name, value)
            if name == "scores":
                whole = (*self._lead, queries, keys)
                found[name] = lend(_of_shape(name, x, whole).reshape((batch, heads, queries, keys)))
            elif name in OPERANDS[:3]:
                place = OPERANDS.index(name)
                moved[place] = _of_shape(name, x, self._shapes[place])
            elif x.ndim == 0:
                found[name] = lend(x.astype(np.float64).reshape((1, 1, 1, 1)))
            else:
                rest[name] = x
        folded = fold(moved[0], moved[1], moved[2], self._spec.enable_gqa, expand)
        for name, x in zip(OPERANDS[:3], folded[:3], strict=True):
            if name in tangents:
                found[name] = lend(x)
        others = operands_of(rest, folded.batch, (heads, queries, keys))
        found |= {
            name: lend(x)
            for name, x in zip(OPERANDS[3:], others, strict=True)
            if x is not None and x.ndim == 4
        }
        return found

    def _is_array(self, name: str) -> bool:
        return isinstance(self._job.operands[OPERANDS.index(name)], tuple)

    def _gradient_shape(self, name: str) -> tuple[tuple[int, ...], Any]:
        operand = self._job.operands[OPERANDS.index(name)]
        if isinstance(operand, tuple):
            return operand[2:6], self._dtype if name in ("query", "key", "value", "bias") else np.float64
        return (1, 1, 1, 1), np.float64

    def describe(self) -> str:
        """What the plan chose and why, as lines ``key: value``."""
        size = library.ota_plan_describe(self._handle.pointer, None, 0)
        text = ctypes.create_string_buffer(size + 1)
        library.ota_plan_describe(self._handle.pointer, text, size + 1)
        return text.value.decode()

    @property
    def bytes(self) -> int:
        """All bytes the plan holds."""
        return self._handle.bytes

    @property
    def solver(self) -> str:
        """Name of the solver."""
        name: bytes = library.ota_plan_solver(self._handle.pointer)
        return name.decode()

    @property
    def kernel(self) -> str:
        """Name of the instruction-set level."""
        name: bytes = library.ota_plan_kernel(self._handle.pointer)
        return name.decode()

    @property
    def threads(self) -> int:
        """Number of threads."""
        return int(library.ota_plan_threads(self._handle.pointer))

    def __repr__(self) -> str:
        shape = output_shape("out", self._job.sizes)
        return f"Plan(method={self._spec.method!r}, out={shape}, solver={self.solver!r}, bytes={self.bytes})"

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None:
            handle.free()


def _of_shape(name: str, x: Any, shape: tuple[int, ...]) -> Any:
    if x.shape != shape:
        raise ValueError(f"the tangent of {name} has shape {x.shape}, wanted {shape}")
    return x


def _run_on(
    handle: Handle, job: Job, request: AuxRequest, dtype: Any, lead: tuple[int, ...], also: list[str]
) -> tuple[Any, AuxOutput, dict[str, Any]]:
    """Solves into new arrays, and gives results the caller's leading dimensions back."""
    names = [*names_of("out", request), *also]
    names += scratch_of(job, names, request.certificate)
    keep = {}
    for name in dict.fromkeys(names):
        wide_type = name.endswith("potential") or dtype == np.float64
        kind = dtype if name in ("out", "coupling") else np.float64 if wide_type else np.float32
        keep[name] = np.empty(output_shape(name, job.sizes), kind)
    info, certificate = solve_on(handle, job, {n: view_of(x) for n, x in keep.items()}, request.certificate)
    found = {
        name: x.reshape((*lead, *(x.shape[2:] if name in ("out", "coupling") else x.shape[3:])))
        for name, x in keep.items()
    }
    return found["out"], aux_of(request, found, info, certificate), keep
