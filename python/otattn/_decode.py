"""One step of generation with a cache of keys: what online columns have left goes from call to call."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from . import _structs as c
from ._arrays import output_shape, view_of
from ._attention import known_arguments, prepare
from ._errors import check
from ._kept import NUMPY, Memory, lent
from ._library import library
from ._shapes import dense, shape_text
from ._solve import Job, columns_of, settle
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
    spec, extra, _ = prepare(is_causal=True, causal_align="bottom_right", **arguments)
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
    named = {**extra, "query": query, "key": key, "value": value}
    named = {name: x.detach() if is_torch(x) else x for name, x in named.items()}
    tensors = is_torch(query)
    memory: Memory = NUMPY
    view: Any = view_of
    if tensors:
        from . import _torch_fold

        memory, view = _torch_fold.TORCH, _torch_fold.view_of
    operands, lead = memory.fold(spec, named)
    heads, queries = operands[0].shape[1:3]
    job = Job(spec, [memory.operand(x) for x in operands])
    job.keep.append(operands)
    keys = job.sizes[3]
    if queries > keys:
        raise ValueError(f"query has {queries} rows, but key has {keys}: the cache holds the new keys, too")
    dtype = operands[0].dtype
    shape = output_shape("out", job.sizes)
    out: Any = query.new_empty(shape, dtype=dtype) if tensors else np.empty(shape, dtype)
    outputs = {"out": view(out)}
    left, earlier = None, 0
    if rule == c.COLUMNS_ONLINE:
        left = np.empty((job.sizes[0], heads, 1, keys))
        earlier = _put(left, remaining, (*lead, keys - queries))
        outputs["remaining"] = view_of(left)
    with lent(job) as handle:
        if left is not None:
            record = _packed(left)
            status = library.ota_decode_capacity(
                handle.pointer, ctypes.byref(record), earlier, keys, handle.reference
            )
            check(status, handle.error)
        settle(job, handle, handle.forward(job, outputs))
    out = out.reshape((*lead, queries, shape[3]))
    if left is None:
        return out, None
    left = left.reshape((*lead, keys))
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
