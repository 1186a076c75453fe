"""A plan made once and run many times: all memory is held, forward allocates its outputs only."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

import numpy as np

from ._arrays import expand, operands_of, output_shape, run_on, triple, view_of
from ._attention import prepare
from ._aux import NO_AUX, request_of
from ._library import library
from ._settings import OPERANDS
from ._shapes import fold
from ._solve import Handle, Job, View


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
        self._settings, self._extra, self._gqa = prepare(**arguments)
        self._gradients = gradients
        job = self._bind(query, key, value)
        self._handle = Handle(job)

    def _bind(self, query: Any, key: Any, value: Any) -> Job:
        query, key, value = triple(query, key, value)
        folded = fold(query, key, value, self._gqa, expand)
        heads, queries = folded.query.shape[1:3]
        keep: list[Any] = [query, key, value]
        others = operands_of(self._extra, folded.batch, heads, queries, folded.key.shape[2], keep)
        views = (view_of(folded.query), view_of(folded.key), view_of(folded.value))
        job = Job(self._settings, (*views, *others), self._gradients)
        job.keep.append(keep)
        self._job, self._lead, self._dtype = job, folded.lead, query.dtype
        self._potentials: dict[str, Any] = {}
        return job

    def forward(self, query: Any, key: Any, value: Any, return_aux: Any = None) -> Any:
        """As `attention` with the arguments of the plan; the arrays must have the plan's shapes and type.

        Returns
        -------
        out : array, shape (..., heads, queries, values width)
            With `return_aux` a pair ``(out, aux)``.
        """
        shapes = self._handle.key
        job = self._bind(query, key, value)
        if job.key != shapes:
            raise ValueError(
                f"query {np.shape(query)}, key {np.shape(key)} and value {np.shape(value)} of type "
                f"{self._dtype} are not those the plan was made for"
            )
        self._handle.rebind(job)
        request = request_of(return_aux)
        names = ["column_potential", "row_potential"] if self._gradients else []
        out, aux, self._potentials = run_on(
            job, self._handle, request or NO_AUX, "out", self._dtype, self._lead, names
        )
        return out if request is None else (out, aux)

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
            strength, row_mass and column_mass

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
        if not self._gradients:
            raise ValueError("gradients is False: make the plan with gradients=True")
        job = self._job
        given: dict[str, View] = {}
        keep = []
        for name, x in (("out_grad", out_grad), ("coupling_grad", coupling_grad)):
            if x is not None:
                whole = output_shape("out" if name == "out_grad" else "coupling", job.sizes)
                x = np.broadcast_to(np.asarray(x), (*self._lead, *whole[2:])).reshape(whole)
                keep.append(x)
                given[name] = view_of(x)
        results: dict[str, Any] = {}
        wanted: dict[str, View] = {}
        for name in wrt:
            if name not in OPERANDS:
                raise ValueError(f"wrt has {name!r}, wanted names among {', '.join(OPERANDS[:14])}")
            shape, dtype = self._gradient_shape(name)
            results[name] = np.zeros(shape, dtype)
            wanted[name] = view_of(results[name])
        self._handle.backward(job, given, wanted)
        return {name: float(x[0, 0, 0, 0]) if x.size == 1 else x for name, x in results.items()}

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
        return (
            f"Plan(method={self._settings.method!r}, out={shape}, solver={self.solver!r}, bytes={self.bytes})"
        )

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None:
            handle.free()
