"""The public call on scores. NumPy here; torch tensors go to _torch."""

from __future__ import annotations

from typing import Any, Literal, Unpack, overload

from numpy import ndarray

from ._arrays import folded_of, operand_of, output_shape, view_of
from ._attention import Front
from ._aux import ArrayT, AuxOutput, Request
from ._call import COUPLING, WITH_POTENTIALS, judged_again
from ._handle import Handle
from ._job import Job, arrays_of
from ._kept import Kept, Parts
from ._keywords import DEFAULTS
from ._settings import compiling, is_torch
from ._signature import CouplingOptions, with_signature
from ._spec import Spec, spec_of


def spec_with(**options: Any) -> Spec:
    """The Spec of options as a check would leave them."""
    return spec_of({**DEFAULTS, **options})


def judged(spec: Spec, scores: Any, given: tuple[Any, ...], plan: Any, potentials: Any) -> Any:
    """The certificate of a plan and of its potentials for the call of `coupling` with this spec."""
    found = judged_again(spec, scores, given, plan, potentials)
    if found is not None:
        return found
    scores, plan, row, column, *given_arrays = [
        x.numpy() if is_torch(x) else x for x in (scores, plan, *potentials, *given)
    ]
    named = {n: x for n, x in zip(COUPLING, (scores, *given_arrays), strict=True) if x is not None}
    operands, _ = folded_of(spec, named)
    job = Job(spec, [operand_of(x) for x in operands])
    shown = zip(WITH_POTENTIALS.wants.names, (plan, row, column), strict=True)
    outputs = {name: view_of(x.reshape(output_shape(name, job.sizes))) for name, x in shown}
    kept = Kept(None, Parts(job, Handle(job), arrays_of(job, outputs)), [], [], 0, False)
    try:
        return kept.certificate()
    finally:
        kept.free()


@overload
def coupling(
    scores: ArrayT,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    return_aux: Literal[False] | None = None,
    **options: Unpack[CouplingOptions],
) -> ArrayT: ...
@overload
def coupling(
    scores: ArrayT,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    return_aux: Request,
    **options: Unpack[CouplingOptions],
) -> tuple[ArrayT, AuxOutput]: ...
@overload
def coupling(
    scores: Any,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    return_aux: Any = None,
    **options: Unpack[CouplingOptions],
) -> Any: ...
@with_signature(CouplingOptions)
def coupling(
    scores: Any,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    return_aux: Any = None,
    **options: Unpack[CouplingOptions],
) -> Any:
    """The weights P of a matrix of scores, by any transport method.

    Parameters beside `scores` are those of `attention`.

    Parameters
    ----------
    scores : array, shape (..., rows, columns)
        f64, f32, bf16 or f16. `scale` multiplies it (default 1), `temperature` divides it; with `cost` it is
        minimised.

    Returns
    -------
    coupling : array, the shape and type of `scores`
        With `return_aux` a pair ``(coupling, aux)``.

    Raises
    ------
    ValueError, TypeError, NotConverged, Infeasible, NotFinite, TimeoutError, InterruptedError, MemoryError
        As `attention`.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> otattn.coupling(np.array([[2.0, 0.0], [0.0, 1.0]]), method="assignment")
    array([[1., 0.],
           [0., 1.]])
    """
    tensors = type(scores) is not ndarray and is_torch(scores)
    graph = tensors and compiling()
    known, others = _front.known(graph, options, is_causal, scale, return_aux)
    arrays: tuple[Any, ...]
    if known.slots is None:
        arrays = (scores, attn_mask, *others)
    elif others:
        arrays = (scores, attn_mask, *(None if k < 0 else others[k] for k in known.slots))
    else:
        arrays = (scores, attn_mask, None, None, None)
    if tensors:
        return _front.of_tensors(known, arrays, graph)
    return _front.of_arrays(known, arrays)


_PLACED = ("is_causal", "scale", "return_aux")
_front = Front(
    "coupling", [*_PLACED, *CouplingOptions.__annotations__], _PLACED, "coupling", ("query", "attn_mask")
)
