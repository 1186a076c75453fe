"""The public call on scores. NumPy here; torch tensors go to _torch."""

from __future__ import annotations

import functools
from types import NoneType
from typing import Any, Literal, Unpack, overload

from numpy import ndarray

from ._arrays import numpy_coupling
from ._attention import Front, extra_of
from ._aux import ArrayT, AuxOutput, Request
from ._coupling_repeat import (
    GIVEN,
    NOTHING,
    certificate_again,
    judged_again,
    numpy_coupling_repeat,
    outputs_wanted,
)
from ._spec import DEFAULTS, CouplingOptions, Spec, compiling, is_torch, spec_of, with_signature

# What the arrays of a call may be.
_ARRAYS = frozenset((ndarray, NoneType))


@functools.lru_cache(maxsize=1)
def _torch_coupling_repeat() -> Any:
    from ._torch_coupling import torch_coupling_repeat

    return torch_coupling_repeat


def spec_with(**options: Any) -> Spec:
    """The Spec of options as a check would leave them."""
    return spec_of({**DEFAULTS, **options})


def judged(spec: Spec, scores: Any, given: tuple[Any, ...], plan: Any, potentials: Any) -> Any:
    """The certificate of a plan and of its potentials for the call of `coupling` with this spec."""
    found = judged_again(spec, scores, given, plan, potentials)
    if found is not None:
        return found
    arrays = [x.numpy() if is_torch(x) else x for x in (scores, plan, *potentials, *given)]
    scores, plan, row, column = arrays[:4]
    return certificate_again(spec, scores, tuple(arrays[4:]), plan, (row, column))


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

    Parameters
    ----------
    scores : array, shape (..., rows, columns)
        f64, f32, bf16 or f16. `scale` multiplies it (default 1), `temperature` divides it; with `cost` it is
        minimised.

    The other parameters are those of `attention`.

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
    known, others = _front.known(options, is_causal, scale, return_aux)
    names = outputs_wanted(known.request)
    if names is not None and known.is_plain:
        # Calls whose structs are kept from one to the next.
        given: Any = NOTHING
        if not (attn_mask is None and not others):
            given = _given_of(attn_mask, known.arrays, others)
        found = None
        if given is None:
            pass
        elif type(scores) is ndarray:
            if given is NOTHING or _ARRAYS.issuperset(map(type, given)):
                found = numpy_coupling_repeat(known.spec, names, scores, given)
        elif (
            is_torch(scores)
            and (given is NOTHING or all(x is None or is_torch(x) for x in given))
            and not compiling()
        ):
            found = _torch_coupling_repeat()(known.spec, names, scores, given)
        if found is not None:
            return found
    arrays = dict(zip(known.arrays, others, strict=True))
    if attn_mask is not None:
        arrays["attn_mask"] = attn_mask
    extra = extra_of(known, arrays)
    if is_torch(scores):
        from ._torch import torch_coupling

        return torch_coupling(known.spec, scores, extra, known.request)
    return numpy_coupling(known.spec, scores, extra, known.request)


def _given_of(mask: Any, names: tuple[str, ...], arrays: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Those of GIVEN; None where there are others."""
    found = dict(zip(names, arrays, strict=True))
    rest = tuple(found.pop(name, None) for name in GIVEN[1:])
    return None if found else (mask, *rest)


_PLACED = ("is_causal", "scale", "return_aux")
_front = Front("coupling", [*_PLACED, *CouplingOptions.__annotations__], _PLACED)
