"""A plan made once and run many times: all memory is held, forward allocates its outputs only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from . import _native
from . import _structs as c
from ._arrays import (
    expand,
    floating,
    folded_of,
    operand_of,
    operands_of,
    output_shape,
    seed_of,
    type_of,
    wide,
)
from ._attention import known_arguments, prepare
from ._aux import AuxOutput, Request, request_of
from ._call import WHOLE, Wants, aux_of, facts_of, names_of, refused, run_kept, solve_of, wants_of
from ._describe import text_of
from ._errors import SolveError
from ._gradients import Form, Solved, gradients_on, tangents_on
from ._handle import Handle
from ._job import Job
from ._kept import NUMPY, Kept
from ._library import library
from ._settings import DIFFERENTIABLE, OPERANDS, flag
from ._shapes import fold


class _Given(NamedTuple):
    """Query, key and value of one call, and all its operands."""

    operands: list[Any]
    shapes: tuple[tuple[int, ...], ...]
    lead: tuple[int, ...]


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
        self._gradients = flag("gradients", gradients)
        self._given = self._folded(query, key, value)
        self._handle = Handle(self._job(self._given))
        # Structs of forwards on the plan by what they want and the layout of their arrays.
        self._structs: dict[Any, Kept] = {}
        self._solved: Solved | None = None

    def _folded(self, query: Any, key: Any, value: Any) -> _Given:
        named = {**self._extra, "query": query, "key": key, "value": value}
        if self._seed is not None:
            named["dropout_seed"] = seed_of(self._seed)
        operands, lead = folded_of(self._spec, named)
        return _Given(operands, (np.shape(query), np.shape(key), np.shape(value)), lead)

    def _job(self, given: _Given) -> Job:
        job = Job(self._spec, [operand_of(x) for x in given.operands], self._gradients)
        # The plan borrows them until it is bound to others.
        job.keep.append(given)
        return job

    def _structs_of(self, given: _Given, wants: Wants) -> Kept:
        """Structs of a forward; ValueError for arrays that the plan was not made for."""
        arrays = given.operands[: len(WHOLE)]
        layout = _native.layout(*arrays)
        kept = self._structs.get((wants, layout))
        if kept is not None:
            return kept
        job = self._job(given)
        if job.key != self._handle.key:
            query, key, value = given.shapes
            raise ValueError(
                f"query {query}, key {key} and value {value} of type {arrays[0].dtype} are not those "
                "the plan was made for"
            )
        kept = solve_of(NUMPY, job, wants, arrays, (arrays[0], given.lead), None, self._handle)
        kept.lent = True
        if layout is not None:
            self._structs[wants, layout] = kept
        return kept

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
        given, request = self._folded(query, key, value), request_of(return_aux)
        names = names_of("out", request)
        if self._gradients:
            names = (*names, *(x for x in ("column_potential", "row_potential") if x not in names))
        certify = request is not None and request.certificate
        wants = wants_of(names, WHOLE, certify, given.lead)
        kept = self._structs_of(given, wants)
        arrays = given.operands[: len(WHOLE)]
        found = run_kept(NUMPY, kept, self._spec, arrays)
        if found is None:
            self._solved = None
            refused(kept)
        self._given, self._solved = given, Solved(kept, arrays, found)
        try:
            kept.settle(found[1])
        except SolveError:
            # Backward knows and says the same.
            raise
        except BaseException:
            # Of a Regulariser's function, perhaps, and the library takes that for a success.
            self._solved = None
            raise
        if request is None:
            return found[2]
        info, certificate = facts_of(kept, found[1], certify)
        return found[2], aux_of(request, dict(zip(names, found[2:], strict=True)), info, certificate)

    def _last(self) -> Solved:
        """The last forward, for its derivatives."""
        if not self._gradients:
            raise ValueError("gradients is False: make the plan with gradients=True")
        if self._solved is None:
            raise ValueError("there is no forward to differentiate; call it first")
        return self._solved

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
        wrt = tuple(wrt)
        solved = self._last()
        given: dict[str, Any] = {}
        for name, x in (("out_grad", out_grad), ("coupling_grad", coupling_grad)):
            if x is not None:
                whole = output_shape(name.removesuffix("_grad"), solved.kept.job.sizes)
                given[name] = np.broadcast_to(floating(name, x), (*self._given.lead, *whole[2:])).reshape(
                    whole
                )
        wanted: dict[str, Form] = {}
        for name in wrt:
            if name not in OPERANDS:
                raise ValueError(f"wrt has {name!r}, wanted names among {', '.join(DIFFERENTIABLE)}")
            wanted[name] = self._gradient_form(name)
        found = gradients_on(NUMPY, solved, given, wanted)
        return {
            name: x if self._is_array(name) else float(x[0, 0, 0, 0])
            for name, x in zip(wanted, found, strict=True)
        }

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
        solved = self._last()
        job = solved.kept.job
        moving = self._tangents(tangents, job.sizes)
        kind = type_of(solved.arrays[0].dtype)
        coupling = flag("coupling", coupling)
        names = ("out", "coupling") if coupling else ("out",)
        results = tangents_on(
            NUMPY, solved, moving, {name: (kind, output_shape(name, job.sizes)) for name in names}
        )
        found = [x.reshape((*self._given.lead, *x.shape[2:])) for x in results]
        return tuple(found) if coupling else found[0]

    def _tangents(self, tangents: Mapping[str, Any], sizes: tuple[int, ...]) -> dict[str, Any]:
        """Directions in the shapes of the folded operands."""
        batch, heads, queries, keys, _, _ = sizes
        allowed = ("scores", *DIFFERENTIABLE)
        found: dict[str, Any] = {}
        rest: dict[str, Any] = {}
        dtype, shapes = self._given.operands[0].dtype, self._given.shapes
        moved: list[Any] = [np.broadcast_to(np.zeros((), dtype), shape) for shape in shapes]
        for name, value in tangents.items():
            if name not in allowed:
                raise ValueError(f"tangents has {name!r}, wanted names among {', '.join(allowed)}")
            x = wide(name, value)
            if name == "scores":
                whole = (*self._given.lead, queries, keys)
                found[name] = _of_shape(name, x, whole).reshape((batch, heads, queries, keys))
            elif name in OPERANDS[:3]:
                place = OPERANDS.index(name)
                moved[place] = _of_shape(name, x, shapes[place])
            elif x.ndim == 0:
                found[name] = x.astype(np.float64).reshape((1, 1, 1, 1))
            else:
                rest[name] = x
        folded = fold(moved[0], moved[1], moved[2], self._spec.enable_gqa, expand)
        for name, x in zip(OPERANDS[:3], folded[:3], strict=True):
            if name in tangents:
                found[name] = x
        others = operands_of(rest, folded.batch, (heads, queries, keys))
        found |= {
            name: x for name, x in zip(OPERANDS[3:], others, strict=True) if x is not None and x.ndim == 4
        }
        return found

    def _is_array(self, name: str) -> bool:
        x = self._given.operands[OPERANDS.index(name)]
        return x is not None and x.ndim == 4

    def _gradient_form(self, name: str) -> Form:
        """Type and shape."""
        if not self._is_array(name):
            return c.F64, (1, 1, 1, 1)
        shape = self._given.operands[OPERANDS.index(name)].shape
        return type_of(self._given.operands[0].dtype) if name in (*OPERANDS[:3], "bias") else c.F64, shape

    def describe(self) -> str:
        """What the plan chose and why, as lines ``key: value``."""
        return text_of(self._handle)

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
        query, _, value = self._given.operands[:3]
        shape = (*query.shape[:3], value.shape[3])
        return f"Plan(method={self._spec.method!r}, out={shape}, solver={self.solver!r}, bytes={self.bytes})"

    def __reduce__(self) -> Any:
        raise TypeError(
            "a Plan is memory of the C library and cannot be copied or pickled; make another one there"
        )

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None:
            handle.free()


def _of_shape(name: str, x: Any, shape: tuple[int, ...]) -> Any:
    if x.shape != shape:
        raise ValueError(f"the tangent of {name} has shape {x.shape}, wanted {shape}")
    return x
