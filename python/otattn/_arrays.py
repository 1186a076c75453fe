"""NumPy arrays (and whatever speaks DLPack) to views of memory, and the calls on them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import _native
from . import _structs as c
from ._errors import check, new_error
from ._fold import Kind, fold_operands
from ._job import Job, Operand, View
from ._library import library, names_of
from ._settings import EXTRA, MASSES, OPERANDS, is_of_torch
from ._shapes import (
    dense,
    fold,
    fold_scores,
    of_numbers,
    of_pairs,
    shape_text,
)
from ._spec import Spec

_TYPES: dict[Any, int] = {
    np.dtype(np.float64): c.F64,
    np.dtype(np.float32): c.F32,
    np.dtype(np.float16): c.F16,
    np.dtype(np.bool_): c.BOOL,
    np.dtype(np.int64): c.I64,
}
_FLOATS = (c.F64, c.F32, c.F16, c.BF16)


def type_of(dtype: Any) -> int:
    """The library's number of a NumPy type; 0 for what it does not know."""
    found = _TYPES.get(dtype)
    if found is None:
        # bfloat16 is a type of the package ml_dtypes, which need not be there.
        found = c.BF16 if dtype.name == "bfloat16" else c.NO_TYPE
        if dtype.isnative:
            _TYPES[dtype] = found
    return found


def view_of(x: Any) -> View:
    """The view of a four-dimensional array whose type the library knows."""
    bytes_each = x.dtype.itemsize
    shape = x.shape
    s0, s1, s2, s3 = x.strides
    return (
        _native.address(x),
        _TYPES[x.dtype],
        *shape,
        s0 // bytes_each,
        s1 // bytes_each,
        s2 // bytes_each,
        s3 // bytes_each,
    )


def matrix_of(x: Any) -> c.Array:
    """The struct of a matrix, which has to outlive it."""
    each, four = x.dtype.itemsize, ctypes.c_int64 * 4
    return c.Array(
        data=x.ctypes.data,
        type=_TYPES[x.dtype],
        size=four(1, 1, *x.shape),
        stride=four(0, 0, *(stride // each for stride in x.strides)),
    )


def address_of(x: Any) -> int | None:
    """Where an array that may be absent lies."""
    return None if x is None else x.ctypes.data


def _new(keep: dict[str, Any], name: str, shape: tuple[int, ...], dtype: Any) -> View:
    keep[name] = x = np.empty(shape, dtype)
    return view_of(x)


def foreign(name: str, x: Any) -> Any:
    """Anything array-like as a NumPy array, without a copy where it can lend its memory."""
    if type(x) is np.ndarray or isinstance(dense(name, x), np.ndarray):
        return x
    if hasattr(x, "__dlpack__"):
        device = x.__dlpack_device__()[0]
        if int(device) not in (1, 3):
            raise ValueError(f"{name} lies on a device (DLPack type {int(device)}); otattn computes on CPUs")
        return np.from_dlpack(x)
    try:
        found = np.asarray(x)
    except ValueError as error:
        raise ValueError(f"{name} is no array: {error}") from None
    if found.dtype == object and found.ndim == 0:
        raise TypeError(f"{name} is {'None' if x is None else f'a {type(x).__name__}'}, wanted an array")
    return found


def _ready(x: Any) -> Any:
    """Native byte order, aligned, strides of whole elements: else a copy. No subclass."""
    size = x.dtype.itemsize
    x = x if type(x) is np.ndarray else np.asarray(x)
    if x.flags.aligned and x.dtype.isnative and not any(stride % size for stride in x.strides):
        return x
    return np.array(x, dtype=x.dtype.newbyteorder("="), order="C")


def floating(name: str, x: Any) -> Any:
    """A float array the library can read; TypeError for anything else."""
    x = _ready(foreign(name, x))
    if type_of(x.dtype) not in _FLOATS:
        raise TypeError(
            f"{name} has type {x.dtype} and shape {shape_text(x)}, "
            f"wanted float64, float32, bfloat16 or float16{of_numbers(name, x)}"
        )
    return x


def wide(name: str, x: Any) -> Any:
    """Masses, slopes and the like: f64 or f32, others converted."""
    x = _ready(foreign(name, x))
    if type_of(x.dtype) in (c.F64, c.F32) or (name in MASSES and type_of(x.dtype) in (c.F16, c.BF16)):
        return x
    if x.dtype.kind not in "fiu" and type_of(x.dtype) != c.BF16:
        raise TypeError(f"{name} has type {x.dtype} and shape {shape_text(x)}, wanted numbers")
    return x.astype(np.float64)


def triple(query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
    query, key, value = floating("query", query), floating("key", key), floating("value", value)
    for name, x in (("key", key), ("value", value)):
        if x.dtype != query.dtype:
            raise TypeError(f"{name} has type {x.dtype}, but query has {query.dtype}")
    return query, key, value


def expand(x: Any, shape: tuple[int, ...]) -> Any:
    return np.broadcast_to(x, shape)


def _mask(name: str, x: Any) -> Any:
    x = _ready(foreign(name, x))
    if x.dtype == np.bool_:
        return x
    if type_of(x.dtype) not in _FLOATS:
        raise TypeError(of_pairs(name, x))
    return x


def _whole(name: str, x: Any, count: int) -> Any:
    x = _ready(foreign(name, x))
    if x.dtype.kind not in "iu" or x.shape != (count,):
        raise ValueError(f"{name} has type {x.dtype} and shape {shape_text(x)}, wanted integers ({count},)")
    return x.astype(np.int64, copy=False)


_KIND = Kind(
    mask=_mask,
    floating=floating,
    wide=lambda name, x, like: floating(name, x) if name == "relative_bias" else wide(name, x),
    whole=_whole,
    is_one=lambda x: bool(x.ndim == 0),
    expand=expand,
)


def operands_of(extra: Mapping[str, Any], batch: tuple[int, ...], sizes: tuple[int, int, int]) -> list[Any]:
    """All operands behind query, key and value, in their order: in four dimensions, or numbers of none."""
    return fold_operands(_KIND, extra, batch, sizes, None)


def operand_of(x: Any) -> Operand:
    """What a struct is filled with for an operand."""
    if x is None:
        return None
    if x.ndim == 1:
        return tuple(x.tolist())
    return float(x) if x.ndim == 0 else view_of(x)


def seed_of(seed: tuple[int | None, int]) -> Any:
    """Seed and offset of dropout as an operand; a seed of its own where there is none."""
    drawn = int(np.random.randint(0, 1 << 63, dtype=np.int64)) if seed[0] is None else seed[0]
    return np.array([drawn, seed[1]], np.uint64).view(np.int64)


def folded_of(spec: Spec, named: Mapping[str, Any]) -> tuple[list[Any], tuple[int, ...]]:
    """All operands of the arrays of a call, in four dimensions, and the dimensions before those of results.

    Without `key` and `value` the query is a matrix of scores.
    """
    rest = {name: x for name, x in named.items() if name not in OPERANDS[:3]}
    if "key" not in named:
        whole, batch, lead = fold_scores(floating("scores", named["query"]))
        heads, rows, columns = whole.shape[1:]
        return [whole, None, None, *operands_of(rest, batch, (heads, rows, columns))], lead
    query, key, value = triple(named["query"], named["key"], named["value"])
    folded = fold(query, key, value, spec.enable_gqa, expand)
    heads, queries = folded.query.shape[1:3]
    others = operands_of(rest, folded.batch, (heads, queries, folded.key.shape[2]))
    return [*folded[:3], *others], folded.lead


def check_spec(spec: Spec) -> None:
    """Raises what the library says of a spec before it has seen an array."""
    if spec.solver != "auto" and spec.solver not in names_of(library.ota_solver_name):
        raise ValueError(f"solver is {spec.solver!r}, wanted a name of otattn.solvers()")
    x = view_of(np.zeros((1, 1, 2, 1), np.float32))
    backend = None if is_of_torch(spec.backend) else spec.backend
    job = Job(spec._replace(dropout_p=0.0, backend=backend), (x, x, x, *(None,) * EXTRA))
    error, reference = new_error()
    status = library.ota_check(ctypes.byref(job.problem), ctypes.byref(job.options), reference)
    job.reraise()
    check(status, error)


def output_shape(name: str, sizes: tuple[int, ...]) -> tuple[int, int, int, int]:
    batch, heads, queries, keys, _, width = sizes
    if name == "out":
        return (batch, heads, queries, width)
    if name == "coupling":
        return (batch, heads, queries, keys)
    return (batch, heads, 1, keys if name in ("receiver", "column_potential") else queries)


def like(origin: Any, result: Any) -> Any:
    """Results for a foreign array are handed back through its own library's from_dlpack."""
    if isinstance(origin, np.ndarray) or not hasattr(origin, "__array_namespace__"):
        return result
    return origin.__array_namespace__().from_dlpack(result)
