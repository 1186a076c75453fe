"""One step of generation with a cache of keys: what online columns have left goes from call to call."""

from __future__ import annotations

import ctypes
from typing import Any, Literal, overload

import numpy as np

from . import _structs as c
from ._attention import attention, known_arguments, prepare
from ._aux import ArrayT, AuxOutput, AuxRequest, Request, request_of
from ._call import WHOLE, done, name_of, names_of, pair_of, refused, run_kept, solve_of, wants_of
from ._errors import check
from ._job import Job
from ._kept import NUMPY, Kept, Memory, give, take
from ._library import library
from ._settings import compiling, is_torch
from ._shapes import dense, shape_text
from ._spec import Spec, spec_for
from ._template import columns_of

_SET = ("query", "key", "value", "is_causal", "causal_align", "dropout_p", "dropout_seed")


@overload
def decode(
    query: ArrayT,
    key: Any,
    value: Any,
    remaining: Any = None,
    *,
    return_aux: Literal[False] | None = None,
    **arguments: Any,
) -> tuple[ArrayT, Any]: ...
@overload
def decode(
    query: ArrayT, key: Any, value: Any, remaining: Any = None, *, return_aux: Request, **arguments: Any
) -> tuple[ArrayT, Any, AuxOutput]: ...
@overload
def decode(
    query: Any, key: Any, value: Any, remaining: Any = None, *, return_aux: Any = None, **arguments: Any
) -> tuple[Any, ...]: ...
def decode(
    query: Any, key: Any, value: Any, remaining: Any = None, *, return_aux: Any = None, **arguments: Any
) -> tuple[Any, ...]:
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
    return_aux : AuxRequest, name or names of its fields, optional
        Then what it asks for comes behind the other two, of the new rows: the coupling is (..., heads, new,
        keys), the receiver what keys got from them.
    **arguments
        Of `attention`: method (free or online columns), temperature, attn_mask, scale, ...

    Returns
    -------
    out : array, shape (..., heads, new, values width)
    remaining : array, shape (..., heads, keys), or None
        f64: the capacity that each key has left, for the next call. None for free columns, which need none.
    aux : AuxOutput
        With `return_aux` alone.

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
    if is_torch(query):
        from ._torch_watch import is_watched, refuse_tracers

        free = columns_of(spec_for(arguments.get("method", "softmax"))) == c.COLUMNS_FREE
        if free and remaining is None and is_watched():
            arrays: Any = [x.detach() if is_torch(x) else x for x in (query, key, value)]
            how: Any = {"is_causal": True, "causal_align": "bottom_right", **arguments}
            call: Any = attention
            found: Any = call(*arrays, return_aux=return_aux, **how)
            return (found[0], None, found[1]) if isinstance(found, tuple) else (found, None)
        if compiling():
            from ._torch_decode import decode_outside

            broken: tuple[Any, ...] = decode_outside(
                query, key, value, remaining, return_aux=return_aux, **arguments
            )
            return broken
        refuse_tracers("decode of online columns")
    return step((query, key, value), remaining, request_of(return_aux), arguments)


def step(
    tensors: tuple[Any, Any, Any],
    remaining: Any,
    request: AuxRequest | None,
    arguments: dict[str, Any],
    causal: bool = True,
    known: int | None = None,
) -> tuple[Any, ...]:
    """As `decode`, of queries that see all keys unless `causal`; `known`: of how many keys `remaining` is,
    where these are not all but the new ones."""
    query, key, value = tensors
    own = spec_for(arguments.get("method", "softmax"))
    rule = columns_of(own)
    if rule not in (c.COLUMNS_FREE, c.COLUMNS_ONLINE):
        raise ValueError(
            f"method is {own.method!r}, whose columns couple all rows; decode takes free and online ones"
        )
    spec, extra, _ = prepare(is_causal=causal, causal_align="bottom_right", **arguments)
    if spec.dropout_p:
        raise ValueError(
            f"the Spec that is the method has dropout_p={spec.dropout_p!r}, which decode does not take"
        )
    if spec.axis != "rows":
        raise ValueError(f"axis is {spec.axis!r}, whose columns couple all rows; decode takes axis='rows'")
    if rule == c.COLUMNS_FREE and remaining is not None:
        raise ValueError(f"remaining is given, but the columns of {spec.method!r} are free; leave it out")
    named = {**extra, "query": query, "key": key, "value": value}
    named = {name: x.detach() if is_torch(x) else x for name, x in named.items()}
    of_torch = is_torch(query)
    memory: Memory = NUMPY
    if of_torch:
        from ._torch_fold import TORCH, under_autocast

        memory, named = TORCH, dict(under_autocast(named))
    operands, lead = memory.fold(spec, named)
    batch, heads, queries, _ = operands[0].shape
    keys = operands[1].shape[2]
    if queries > keys:
        raise ValueError(f"query has {queries} rows, but key has {keys}: the cache holds the new keys, too")
    left, earlier = None, 0
    if rule == c.COLUMNS_ONLINE:
        left = memory.new(operands[0], c.F64, (batch, heads, 1, keys), ())
        wanted = (*lead, keys - queries if known is None else known)
        earlier = _put(left.numpy() if of_torch else left, remaining, wanted)
    arrays = (*operands[: len(WHOLE)], left)
    out, aux = _solved(memory, spec, arrays, (operands[0], lead), earlier, request)
    after = None if left is None else left.reshape((*lead, keys))
    return (out, after) if request is None else (out, after, aux)


def _solved(
    memory: Memory,
    spec: Spec,
    arrays: tuple[Any, ...],
    shown: tuple[Any, tuple[int, ...]],
    earlier: int,
    request: AuxRequest | None,
) -> tuple[Any, AuxOutput | None]:
    """The output of a solve, and what is asked for besides; its last array says what so many earlier keys
    have left, and learns the rest."""
    left = arrays[-1]
    certify = request is not None and request.certificate
    wants = wants_of(names_of("out", request), (*WHOLE, "remaining"), certify, shown[1], "decode")
    name = name_of(spec, wants, arrays)
    kept = take(name)
    if kept is None:
        job = Job(spec, [memory.operand(x) for x in (*arrays[:-1], None)])
        kept = solve_of(
            memory, job, wants, arrays, shown, name, None, {} if left is None else {"remaining": left}
        )
    kept.held = arrays
    if left is not None:
        _begin(memory, kept, arrays, earlier)
    found = run_kept(memory, kept, spec, arrays)
    if found is None:
        refused(kept)
    try:
        done(found)
        return (found[2], None) if request is None else pair_of(wants, request, found)
    finally:
        give(kept)


def _begin(memory: Memory, kept: Kept, arrays: tuple[Any, ...], earlier: int) -> None:
    """Puts in what keys have left that no earlier call has seen."""
    left, handle = arrays[-1], kept.handle
    address, kind, *rest = memory.operand(left)
    four = ctypes.c_int64 * 4
    record = c.Array(data=address, type=kind, size=four(*rest[:4]), stride=four(*rest[4:]))
    try:
        kept.bind(memory, arrays)
        check(
            library.ota_decode_capacity(
                handle.pointer, ctypes.byref(record), earlier, left.shape[3], handle.reference
            ),
            handle.error,
        )
    except BaseException:
        # It may be bound to other arrays than its structs show.
        kept.free()
        raise


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
        raise ValueError(f"remaining holds {float(x.min())!r}, wanted 0 or more")
    left[..., 0, : wanted[-1]] = x.reshape((*left.shape[:2], wanted[-1]))
    return wanted[-1]
