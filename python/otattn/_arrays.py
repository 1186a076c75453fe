"""NumPy arrays (and whatever speaks DLPack) to views of memory, and the calls on them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _native, _repeat
from . import _structs as c
from ._aux import NO_AUX, AuxOutput, AuxRequest, Potentials, RowStats, outputs_of
from ._errors import check, new_error
from ._library import library, names_of
from ._settings import EXTRA
from ._shapes import (
    dense,
    fold,
    fold_heads,
    fold_pairs,
    fold_relative,
    fold_scores,
    fold_vector,
    of_numbers,
    of_pairs,
    shape_text,
)
from ._solve import Handle, Job, Operand, View, needs_coupling, solve, solve_on
from ._spec import Spec
from ._threads import thread_limit

_TYPES: dict[Any, int] = {
    np.dtype(np.float64): c.F64,
    np.dtype(np.float32): c.F32,
    np.dtype(np.float16): c.F16,
    np.dtype(np.bool_): c.BOOL,
    np.dtype(np.int64): c.I64,
}
_FLOATS = (c.F64, c.F32, c.F16, c.BF16)
# No operand behind query, key and value.
_ABSENT = (None,) * EXTRA


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
    """Native byte order, aligned, strides of whole elements: else a copy."""
    size = x.dtype.itemsize
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
    if type_of(x.dtype) in (c.F64, c.F32):
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


def operands_of(
    extra: tuple[Any, ...], batch: tuple[int, ...], heads: int, queries: int, keys: int, keep: list[Any]
) -> tuple[Operand, ...]:
    """Views of all operands behind query, key and value, in their order; `keep` holds what they show."""

    if all(x is None for x in extra):
        return _ABSENT

    def lend(x: Any) -> View:
        keep.append(x)
        return view_of(x)

    (mask, bias, relative, alibi, sink, temperature, alpha, cap, strength) = extra[:9]
    (lower, upper, row_mass, column_mass, lengths, caps, start, seed) = extra[9:17]
    sizes = (heads, queries, keys)
    total = 1
    for size in batch:
        total *= size
    found: list[Operand] = [None] * EXTRA
    if mask is not None:
        mask = _ready(foreign("attn_mask", mask))
        if mask.dtype != np.bool_:
            if type_of(mask.dtype) not in _FLOATS:
                raise TypeError(of_pairs("attn_mask", mask))
            mask = floating("attn_mask", mask)
        found[0] = lend(fold_pairs("attn_mask", mask, batch, sizes, expand))
    if bias is not None:
        found[1] = lend(fold_pairs("bias", floating("bias", bias), batch, sizes, expand))
    if relative is not None:
        found[2] = lend(fold_relative(floating("relative_bias", relative), heads, queries, keys))
    for k, name, x in ((3, "alibi_slopes", alibi), (4, "sink", sink), (5, "temperature", temperature)):
        if x is not None:
            x = wide(name, x)
            found[k] = float(x) if x.ndim == 0 else lend(fold_heads(name, x, heads))
    for k, name, x in ((6, "alpha", alpha), (7, "cap", cap), (9, "lower", lower), (10, "upper", upper)):
        if x is not None:
            if x.size != 1:
                raise ValueError(f"{name} has shape {shape_text(x)}, wanted one number")
            found[k] = float(x.reshape(()))
    if strength is not None:
        strength = wide("strength", strength)
        if strength.shape != (keys,):
            raise ValueError(f"strength has shape {shape_text(strength)}, wanted one number or ({keys},)")
        found[8] = lend(strength.reshape((1, 1, 1, keys)))
    for k, name, x, length in ((11, "row_mass", row_mass, queries), (12, "column_mass", column_mass, keys)):
        if x is not None:
            found[k] = lend(fold_vector(name, wide(name, x), total, heads, length))
    if lengths is not None:
        lengths = _ready(foreign("key_lengths", lengths))
        if lengths.dtype.kind not in "iu" or lengths.shape != (total,):
            raise ValueError(
                f"key_lengths has type {lengths.dtype} and shape {shape_text(lengths)}, "
                f"wanted integers ({total},)"
            )
        found[13] = lend(lengths.astype(np.int64, copy=False).reshape((1, 1, 1, total)))
    if caps is not None:
        found[14] = lend(fold_pairs("entry_caps", wide("entry_caps", caps), batch, sizes, expand))
    if start is not None:
        start = wide("start_potential", start)
        whole = np.broadcast_to(
            fold_vector("start_potential", start, total, heads, keys), (total, heads, 1, keys)
        )
        found[15] = lend(whole)
    if seed is not None:
        drawn = int(np.random.randint(0, 1 << 63, dtype=np.int64)) if seed[0] is None else seed[0]
        found[16] = (drawn, seed[1])
    return tuple(found)


def check_spec(spec: Spec) -> None:
    """Raises what the library says of a spec before it has seen an array."""
    if spec.solver != "auto" and spec.solver not in names_of(library.ota_solver_name):
        raise ValueError(f"solver is {spec.solver!r}, wanted a name of otattn.solvers()")
    x = view_of(np.zeros((1, 1, 2, 1), np.float32))
    job = Job(spec._replace(dropout_p=0.0), (x, x, x, *_ABSENT))
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


def outputs_like(
    names: list[str], sizes: tuple[int, ...], dtype: Any
) -> tuple[dict[str, Any], dict[str, View]]:
    keep: dict[str, Any] = {}
    views = {}
    for name in names:
        if name in ("out", "coupling"):
            kind = dtype
        elif name.endswith("potential") or dtype == np.float64:
            kind = np.float64
        else:
            kind = np.float32
        views[name] = _new(keep, name, output_shape(name, sizes), kind)
    return keep, views


def run_on(
    job: Job,
    handle: Handle | None,
    request: AuxRequest,
    first: str,
    dtype: Any,
    lead: tuple[int, ...],
    also: list[str],
) -> tuple[Any, AuxOutput, dict[str, Any]]:
    """Solves on `handle`, or a plan from the pool, and gives results the caller's leading dimensions back."""
    names = [first, *(name for name in outputs_of(request) if name != first), *also]
    if request.certificate and needs_coupling(job.spec):
        names.append("coupling")
    if job.options.allow_partial:
        # NotConverged judges its certificate from the potentials.
        names += ["row_potential", "column_potential"]
    keep, views = outputs_like(list(dict.fromkeys(names)), job.sizes, dtype)
    if handle is None:
        info, certificate = solve(job, views, request.certificate)
    else:
        info, certificate = solve_on(handle, job, views, request.certificate)

    def back(name: str) -> Any:
        x = keep[name]
        return x.reshape((*lead, *(x.shape[2:] if name in ("out", "coupling") else x.shape[3:])))

    aux = AuxOutput(
        coupling=back("coupling") if request.coupling else None,
        potentials=Potentials(back("row_potential"), back("column_potential"))
        if request.potentials
        else None,
        receiver=back("receiver") if request.receiver else None,
        row_stats=RowStats(*(back(name) for name in ("row_entropy", "row_support", "row_max", "sink")))
        if request.row_stats
        else None,
        lse=back("lse") if request.lse else None,
        certificate=certificate,
        info=info,
    )
    return back(first), aux, keep


def numpy_attention(
    spec: Spec,
    query: Any,
    key: Any,
    value: Any,
    extra: tuple[Any, ...],
    request: AuxRequest | None,
) -> Any:
    origin = query
    query, key, value = triple(query, key, value)
    folded = fold(query, key, value, spec.enable_gqa, expand)
    heads, queries = folded.query.shape[1:3]
    keep: list[Any] = []
    others = operands_of(extra, folded.batch, heads, queries, folded.key.shape[2], keep)
    job = Job(spec, (view_of(folded.query), view_of(folded.key), view_of(folded.value), *others))
    out, aux, _ = run_on(job, None, request or NO_AUX, "out", query.dtype, folded.lead, [])
    out = _like(origin, out)
    return out if request is None else (out, aux)


def _new_repeat(name: Any, spec: Spec, query: Any, key: Any, value: Any, mask: Any) -> _repeat.Repeat | None:
    arrays = triple(query, key, value)
    folded = fold(*arrays, spec.enable_gqa, expand)
    sizes = (folded.query.shape[1], folded.query.shape[2], folded.key.shape[2])
    keep: list[Any] = []
    others = operands_of((mask, *_ABSENT[1:]), folded.batch, *sizes, keep)
    views = (view_of(folded.query), view_of(folded.key), view_of(folded.value))
    addresses = (
        *(_native.address(x) for x in (query, key, value)),
        0 if mask is None else _native.address(mask),
    )
    if not _repeat.same_memory((*views, others[0]), addresses):
        return None
    job = Job(spec, (*views, *others))
    scratch, outputs = outputs_like(scratch_of(job, ()), job.sizes, query.dtype)
    whole = output_shape("out", job.sizes)
    outputs["out"] = view_of(np.empty(whole, query.dtype))
    bound = ["queries", "keys"] if mask is None else ["queries", "keys", "attn_mask"]
    results = [_repeat.Result("out", 0, (*folded.lead, *whole[2:]))]
    repeat = _repeat.forward_of(name, job, bound, ["values"], outputs, results)
    repeat.keep = scratch
    return repeat


def scratch_of(job: Job, names: Sequence[str]) -> list[str]:
    """What a solve that may be partial writes besides `names`: NotConverged judges from the potentials."""
    needed = ("row_potential", "column_potential") if job.options.allow_partial else ()
    return [name for name in needed if name not in names]


def numpy_repeat(spec: Spec, query: Any, key: Any, value: Any, mask: Any) -> Any:
    """`attention` on plain arrays, by the structs of an earlier call where there was one; None: not so."""
    layout = _native.layout(query, key, value, mask)
    if layout is None:
        return None
    name = (spec.token, thread_limit(), layout)
    repeat = _repeat.take(name)
    if repeat is None:
        repeat = _new_repeat(name, spec, query, key, value, mask)
        if repeat is None:
            return None
    try:
        # In the order of the plan's and forward's fields.
        found = repeat.run(query, key, value) if mask is None else repeat.run(query, key, mask, value)
    finally:
        _repeat.give(repeat)
    return None if found is None else found[1]


def numpy_coupling(spec: Spec, scores: Any, extra: tuple[Any, ...], request: AuxRequest | None) -> Any:
    origin = scores
    scores = floating("scores", scores)
    whole, batch, lead = fold_scores(scores)
    keep: list[Any] = []
    heads, rows, columns = whole.shape[1:]
    others = operands_of(extra, batch, heads, rows, columns, keep)
    job = Job(spec, (view_of(whole), None, None, *others))
    plan, aux, _ = run_on(job, None, request or NO_AUX, "coupling", scores.dtype, lead, [])
    plan = _like(origin, plan)
    return plan if request is None else (plan, aux)


def _like(origin: Any, result: Any) -> Any:
    """Results for a foreign array are handed back through its own library's from_dlpack."""
    if isinstance(origin, np.ndarray) or not hasattr(origin, "__array_namespace__"):
        return result
    return origin.__array_namespace__().from_dlpack(result)
