"""Whose plan is this, and what later positions can do to earlier rows: problems given by their scores."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from .. import _structs as c
from .._arrays import view_of
from .._coupling import spec_with
from .._job import Job
from .._settings import OPERANDS, count, flag, number
from .._shapes import dense
from ._call import Dims, Record, call, record

# Methods are tried by dozens.
_MOST_FITS = 1 << 10


def _four(name: str, x: Any) -> Any:
    x = np.asarray(dense(name, x))
    if x.dtype.kind not in "fiub":
        raise TypeError(f"{name} has type {x.dtype}, wanted numbers")
    x = np.ascontiguousarray(x, np.float64)
    if not 2 <= x.ndim <= 4:
        raise ValueError(f"{name} has shape {x.shape}, wanted ([[batch,] heads,] rows, columns)")
    return x.reshape((1,) * (4 - x.ndim) + x.shape)


def _job(scores: Any, **options: Any) -> Job:
    return Job(spec_with(**options), (view_of(scores), *(None,) * (len(OPERANDS) - 1)))


def causality_leak(
    scores: Any,
    method: str,
    position: int,
    move: float = 1.0,
    is_causal: bool = True,
    temperature: float = 1.0,
) -> float:
    """How far rows before `position` move when every later query and key does. [DER-23]

    Parameters
    ----------
    scores : array, shape ([[batch,] heads,] rows, columns)
    method : str
        As in `otattn.attention`.
    position : int
        Queries and keys from here on are moved by plus and minus `move`.
    is_causal : bool
    temperature : float

    Returns
    -------
    float
        Largest l1 change of an earlier row; 0 for free, prefix and online columns under a causal mask.

    Raises
    ------
    ValueError, Infeasible, NotConverged
        As `otattn.coupling`.

    Examples
    --------
    >>> import numpy as np
    >>> from otattn import analysis
    >>> analysis.causality_leak(np.eye(4), "softmax", 2)
    0.0
    """
    scores = _four("scores", scores)
    if not isinstance(method, str):
        raise TypeError(f"method is a {type(method).__name__}, wanted a string")
    causal = flag("is_causal", is_causal)
    job = _job(scores, method=method, is_causal=causal, temperature=number("temperature", temperature))
    job.options.allow_partial = 0
    leak = ctypes.c_double()
    call("causality_leak", job.problem, job.options, position, move, leak)
    return leak.value


def identify(scores: Any, coupling: Any, capacity: int = 8, is_causal: bool = False) -> list[Record]:
    """The methods that explain a coupling best, with their parameters.

    Parameters
    ----------
    scores, coupling : array, shape ([[batch,] heads,] rows, columns)
    capacity : int
        At most so many.
    is_causal : bool

    Returns
    -------
    list of Record
        method, order, strength, cap, temperature, residual, distance, explains, ...: those that explain it
        first, fewest parameters first, then by distance.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> from otattn import analysis
    >>> scores = np.random.default_rng(0).standard_normal((6, 6))
    >>> analysis.identify(scores, otattn.coupling(scores, method="sparsemax"))[0].explains
    1
    """
    scores, coupling = _four("scores", scores), _four("coupling", coupling)
    dims = Dims()
    dims("scores", scores, "batch heads rows columns")
    coupling = dims("coupling", coupling, "batch heads rows columns")
    capacity = min(count("capacity", capacity, 1) or 1, _MOST_FITS)
    fits, found = (c.Fit * capacity)(), ctypes.c_int64()
    job = _job(scores, is_causal=flag("is_causal", is_causal))
    call("identify", job.problem, job.options, coupling, ctypes.addressof(fits), capacity, found)
    return [record(fit) for fit in fits[: found.value]]
