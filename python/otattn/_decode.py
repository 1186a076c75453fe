"""One step of generation with a cache of keys: what online columns have left goes from call to call."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from . import _structs as c
from ._arrays import expand, operands_of, output_shape, triple, view_of
from ._attention import known_arguments, prepare
from ._errors import check
from ._library import library
from ._shapes import Folded, dense, fold, shape_text
from ._solve import Job, acquire, columns_of, pool, settle
from ._spec import is_torch

_SET = ("query", "key", "value", "return_aux", "is_causal", "causal_align", "dropout_p", "dropout_seed")


def decode(query: Any, key: Any, value: Any, remaining: Any = None, **arguments: Any) -> tuple[Any, Any]:
    """`attention` of the last queries over all keys that a cache holds so far, without gradients.

    The queries stand at the end of the keys, each sees those up to its own. Step by step the outputs are
    those of one causal call over the whole sequence.

    Parameters
    ----------
    query : array or tensor, shape (..., heads, new, width)
    key : array or tensor, shape (..., key heads, keys, width)
        The new keys are the last ones.
    value : array or tensor, shape (..., key heads, keys, values width)
    remaining : array or tensor, shape (..., heads, earlier keys), optional
        What the call before returned; None at the first. Units of mass.
    **arguments
        Of `attention`: method (free or online columns), temperature, attn_mask, scale, ...

    Returns
    -------
    out : array, shape (..., heads, new, values width)
    remaining : array, shape (..., heads, keys), or None
        f64: the capacity that each key has left, for the next call. None for free columns, which need none.

    Raises
    ------
    ValueError, TypeError, NotConverged, Infeasible, NotFinite
        As `attention`; ValueError for columns that couple all rows.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> x = np.random.default_rng(0).standard_normal((1, 6, 4))
    >>> whole = otattn.attention(x, x, x, is_causal=True, method="softmax/online:1.5")
    >>> left, steps = None, []
    >>> for k in range(6):
    ...     seen = x[:, : k + 1]
    ...     out, left = otattn.decode(seen[:, k:], seen, seen, left, method="softmax/online:1.5")
    ...     steps.append(out)
    >>> bool(abs(np.concatenate(steps, 1) - whole).max() < 1e-12), left.shape
    (True, (1, 6))
    """
    known_arguments("decode", arguments, _SET)
    spec, extra, enable_gqa = prepare(is_causal=True, causal_align="bottom_right", **arguments)
    if spec.dropout_p:
        raise ValueError(
            f"the Spec that is the method has dropout_p={spec.dropout_p!r}, which decode does not take"
        )
    rule = columns_of(spec)
    if rule not in (c.COLUMNS_FREE, c.COLUMNS_ONLINE) or spec.axis != "rows":
        raise ValueError(
            f"method is {spec.method!r}, whose columns couple all rows; decode takes free and online ones"
        )
    if rule == c.COLUMNS_FREE and remaining is not None:
        raise ValueError(f"remaining is given, but the columns of {spec.method!r} are free; leave it out")
    query, key, value = (x.detach() if is_torch(x) else x for x in (query, key, value))
    extra = tuple(x.detach() if is_torch(x) else x for x in extra)
    tensors = is_torch(query)
    folded: Folded
    keep: list[Any] = []
    view: Any = view_of
    if tensors:
        from . import _torch

        view = _torch._view
        folded = _torch.folded_of(query, key, value, enable_gqa)
        heads, queries = folded.query.shape[1:3]
        sizes = (heads, queries, folded.key.shape[2])
        operands: list[Any] = _torch._operands_of(extra, folded.batch, sizes, folded.query)
        keep += [*folded[:3], *operands]
        views = [_torch._operand(x) for x in keep]
    else:
        query, key, value = triple(query, key, value)
        folded = fold(query, key, value, enable_gqa, expand)
        heads, queries = folded.query.shape[1:3]
        others = operands_of(extra, folded.batch, heads, queries, folded.key.shape[2], keep)
        views = [*map(view_of, folded[:3]), *others]
    job = Job(spec, views)
    job.keep.append(keep)
    keys = job.sizes[3]
    if queries > keys:
        raise ValueError(f"query has {queries} rows, but key has {keys}: the cache holds the new keys, too")
    dtype = folded.query.dtype
    shape = output_shape("out", job.sizes)
    out: Any = query.new_empty(shape, dtype=dtype) if tensors else np.empty(shape, dtype)
    outputs = {"out": view(out)}
    left, earlier = None, 0
    if rule == c.COLUMNS_ONLINE:
        left = np.empty((job.sizes[0], heads, 1, keys))
        earlier = _put(left, remaining, (*folded.lead, keys - queries))
        outputs["remaining"] = view_of(left)
    handle = acquire(job)
    try:
        if left is not None:
            record = _packed(left)
            status = library.ota_decode_capacity(
                handle.pointer, ctypes.byref(record), earlier, keys, handle.reference
            )
            check(status, handle.error)
        settle(job, handle, handle.forward(job, outputs))
    finally:
        pool.give(handle, job)
    out = out.reshape((*folded.lead, queries, shape[3]))
    if left is None:
        return out, None
    left = left.reshape((*folded.lead, keys))
    if tensors:
        import torch

        return out, torch.from_numpy(left)
    return out, left


def _packed(x: Any) -> c.Array:
    four = ctypes.c_int64 * 4
    strides = [step // x.itemsize for step in x.strides]
    return c.Array(data=x.ctypes.data, type=c.F64, size=four(*x.shape), stride=four(*strides))


def _put(left: Any, remaining: Any, wanted: tuple[int, ...]) -> int:
    """Copies what earlier keys have left, and says how many these are."""
    if remaining is None:
        return 0
    x = dense("remaining", remaining.detach() if is_torch(remaining) else remaining)
    x = x.cpu().double().numpy() if is_torch(x) else np.asarray(x, np.float64)
    if tuple(x.shape) != wanted:
        raise ValueError(
            f"remaining has shape {shape_text(x)}, wanted {wanted}: that of the call before, "
            "whose keys are all but the new ones"
        )
    if x.size and not (x >= 0.0).all():
        raise ValueError(f"remaining holds {x.min()!r}, wanted 0 or more")
    left[..., 0, : wanted[-1]] = x.reshape((*left.shape[:2], wanted[-1]))
    return wanted[-1]
