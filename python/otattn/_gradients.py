"""Gradients by kept structs, of NumPy's arrays and of tensors."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

from . import _native
from . import _structs as c
from ._arrays import output_shape
from ._call import LENT, Wants, are_own, name_of, run_kept
from ._kept import Input, Kept, Memory, Parts, Result, _kinds, address_in, give, inputs_of, is_fresh, take
from ._settings import PLACES
from ._solve import (
    ADDRESS,
    Handle,
    Job,
    gradient_field,
    is_implicit,
    needs_no_forward,
    view_like,
)
from ._spec import Spec
from ._threads import thread_limit

# Behind the operands of a call: gradients of its results, and what forward kept.
UPSTREAM = ("out_grad", "coupling_grad", "out", "saved")


def gradients(memory: Memory, spec: Spec, wants: Wants, arrays: Sequence[Any]) -> tuple[Any, ...] | None:
    """Gradients by the names of `wants`, of operands in its order with UPSTREAM behind; None: converted ones.

    A forward runs first where the solve has left nothing that backward starts from.
    """
    if spec.is_plain:
        found = _native.again(_kinds, give, spec.token, wants, thread_limit(), LENT, *arrays)
        if found is not None:
            return _differentiated(found)
    name = name_of(spec, wants, arrays)
    twice = None if name is None else (*name, "forward and backward")
    kept = take(twice) or _make_gradients(memory, spec, wants, arrays, name, twice)
    if kept is None:
        return None
    if kept.first is not None:
        try:
            found = run_kept(memory, kept.first, spec, arrays)
            if found is not None and found[1] < 0:
                kept.first.settle(found[1])
        except BaseException:
            give(kept)
            raise
        if found is None:
            give(kept)
            return None
    found = run_kept(memory, kept, spec, arrays)
    return None if found is None else _differentiated(found)


def _differentiated(found: tuple[Any, ...]) -> tuple[Any, ...]:
    kept = found[0]
    try:
        kept.settle(found[1])
        return found[2:]
    finally:
        give(kept)


def _make_gradients(
    memory: Memory, spec: Spec, wants: Wants, arrays: Sequence[Any], name: Any, twice: Any
) -> Kept | None:
    """The structs of a backward, and of the forward that it needs; the names of one alone, and of both."""
    given = {n: x for n, x in zip(wants.order, arrays, strict=True) if x is not None}
    named = {n: x for n, x in given.items() if n not in UPSTREAM}
    operands, _lead = memory.fold(spec, named)
    if not are_own(memory, named, operands):
        return None
    views = [memory.operand(x) for x in operands]
    job = Job(spec, views, gradients=True)
    implicit, saved = is_implicit(spec), given.get("saved")
    solved = needs_no_forward(spec) and (saved is not None or not implicit)
    kept: dict[str, str] = {}
    if implicit:
        # The multipliers answer for the solution, wherever its search began.
        job.start = None
        job.places.pop("start_potential", None)
        if solved:
            kept = {"saved": "column_potential"}
        elif saved is not None and spec.axis == "rows":
            kept = {"saved": "start_potential"}
    elif saved is not None and given.get("out") is not None:
        kept = {"saved": "lse", "out": "out"}
    whole = {n: output_shape(field, job.sizes) for n, field in kept.items() if field != "start_potential"}
    outputs = {field: _shown(memory, given[n], whole[n]) for n, field in kept.items() if n in whole}
    keep: dict[str, Any] = {}
    if implicit and not solved:
        for field in ("row_potential", "column_potential"):
            keep[field] = memory.new(operands[0], c.F64, output_shape(field, job.sizes), ())
            outputs[field] = memory.operand(keep[field])
    if kept.get("saved") == "start_potential":
        job.start = memory.operand(saved)
    upstream: dict[str, Any] = {
        n: _shown(memory, given[n], output_shape(n.removesuffix("_grad"), job.sizes))
        for n in ("out_grad", "coupling_grad")
        if n in given
    }
    if None in (*outputs.values(), *upstream.values()):
        return None
    handle = Handle(job)
    handle.bind_arrays(job, outputs)
    results, wanted = [], {}
    for n in wants.names:
        x, view = named[n], views[PLACES[n]]
        kind = memory.operand(x.reshape((1, 1, 1, -1)))[1] if not isinstance(view, tuple) else view[1]
        size = view[2:6] if isinstance(view, tuple) else (1, 1, 1, 1)
        if math.prod(size) != math.prod(x.shape):
            # The operand repeats the array, whose gradient is a sum: autograd's to make.
            return None
        wanted[n] = view_like(size, kind)
        results.append(Result(n, 0 if kind == views[0][1] else kind, tuple(x.shape)))
    record = handle.gradients_of(job, upstream, wanted, solved)
    made = [(_gradient_address(job, handle, record, x.field), x) for x in results]
    inputs = inputs_of(job, handle, wants.order, arrays)
    for index, (n, x) in enumerate(zip(wants.order, arrays, strict=True)):
        if x is not None and n in kept:
            inputs.append(Input(index, address_in(handle.arrays, kept[n]), ADDRESS, False))
        elif x is not None and n in upstream:
            inputs.append(Input(index, address_in(record, n), ADDRESS, False))
    fresh = is_fresh(job)
    if solved:
        return Kept(name, Parts(job, handle, record, keep), inputs, made, len(arrays), fresh)
    # Both by one plan, which the forward binds, and the backward gives back.
    second = Kept(
        twice,
        Parts(job, handle, record, keep),
        [x for x in inputs if not x.bound],
        made,
        len(arrays),
        False,
    )
    second.first = Kept(None, Parts(job, handle, None, keep), inputs, [], len(arrays), fresh)
    second.first.lent = True
    return second


def _shown(memory: Memory, x: Any, shape: tuple[int, ...]) -> Any:
    """The view of an array that a caller has in another number of dimensions; None: only a copy would do."""
    whole = x if tuple(x.shape) == shape else x.reshape(shape)
    return memory.operand(whole) if memory.address(whole) == memory.address(x) else None


def _gradient_address(job: Job, handle: Handle, record: Any, name: str | None) -> int:
    field = gradient_field(job, name or "")
    if isinstance(field, int):
        return ctypes.addressof(handle.terms) + field * ctypes.sizeof(c.Array)
    return address_in(record, field)
