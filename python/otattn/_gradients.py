"""Derivatives by kept structs, of NumPy's arrays and of tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from . import _native
from . import _structs as c
from ._arrays import output_shape
from ._call import LENT, WHOLE, Wants, are_own, name_of, ordered, run_kept
from ._handle import Handle, moment_of
from ._job import ADDRESS, Job, Moved, View, arrays_of, view_like
from ._kept import Input, Kept, Memory, Parts, Result, _kinds, address_in, give, inputs_of, is_fresh, take
from ._settings import DIFFERENTIABLE, PLACES
from ._spec import Spec
from ._template import is_implicit, needs_no_forward
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
            return _settled(found)
    return _differentiated(memory, spec, wants, arrays, _make_gradients)


def tangents(memory: Memory, spec: Spec, wants: Wants, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """The derivatives of out and coupling that `wants` names, along tangents.

    Of WHOLE operands in four dimensions with the tangents of those that are DIFFERENTIABLE behind.
    """
    found = _differentiated(memory, spec, wants, arrays, _make_tangents)
    assert found is not None
    return found


Form = tuple[int, tuple[int, ...]]
"""Type and shape."""


class Names(NamedTuple):
    """Those of a derivative alone, and of one with the forward that it needs."""

    once: Any
    twice: Any


def _differentiated(
    memory: Memory, spec: Spec, wants: Wants, arrays: Sequence[Any], make: Callable[..., Kept | None]
) -> tuple[Any, ...] | None:
    """The results of a derivative, whose forward runs first where it has one; None: see `gradients`."""
    name = name_of(spec, wants, arrays)
    names = Names(name, None if name is None else (*name, "forward and backward"))
    # A plan that was kept for other numbers may not be bound to these: an order of 1 is another method.
    found = _run_both(memory, take(names.twice), spec, arrays)
    if found is None:
        found = _run_both(memory, make(memory, spec, wants, arrays, names), spec, arrays)
    return None if found is None else _settled(found)


def _run_both(memory: Memory, kept: Kept | None, spec: Spec, arrays: Sequence[Any]) -> tuple[Any, ...] | None:
    """What `run_kept` returns, of a derivative whose forward runs first where it has one."""
    if kept is None:
        return None
    until = moment_of(spec.deadline)
    if kept.first is not None:
        try:
            found = run_kept(memory, kept.first, spec, arrays, until)
            if found is not None and found[1] < 0:
                kept.first.settle(found[1])
        except BaseException:
            give(kept)
            raise
        if found is None:
            give(kept)
            return None
    return run_kept(memory, kept, spec, arrays, until)


def _settled(found: tuple[Any, ...]) -> tuple[Any, ...]:
    kept = found[0]
    try:
        kept.settle(found[1])
        return found[2:]
    finally:
        give(kept)


def _make_gradients(
    memory: Memory, spec: Spec, wants: Wants, arrays: Sequence[Any], names: Names
) -> Kept | None:
    """The structs of a backward, and of the forward that it needs."""
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
    keep = _potentials(memory, job, operands[0], outputs) if implicit and not solved else {}
    if kept.get("saved") == "start_potential":
        job.start = memory.operand(saved)
    upstream: dict[str, Any] = {
        n: _shown(memory, given[n], output_shape(n.removesuffix("_grad"), job.sizes))
        for n in ("out_grad", "coupling_grad")
        if n in given
    }
    if None in (*outputs.values(), *upstream.values()):
        return None
    moved = Moved(c.Gradients, job)
    moved.struct.solved = int(solved)
    fields = {n: moved.put(n, view) for n, view in upstream.items()}
    made = []
    for n in wants.names:
        x, view = named[n], views[PLACES[n]]
        kind = memory.operand(x.reshape((1, 1, 1, -1)))[1] if not isinstance(view, tuple) else view[1]
        size = view[2:6] if isinstance(view, tuple) else (1, 1, 1, 1)
        if math.prod(size) != math.prod(x.shape):
            # The operand repeats the array, whose gradient is a sum: autograd's to make.
            return None
        place = moved.put_operand(n, view_like(size, kind))
        made.append((place, Result(n, 0 if kind == views[0][1] else kind, tuple(x.shape))))
    struct = arrays_of(job, outputs)
    inputs = inputs_of(job, struct, wants.order, arrays)
    for index, (n, x) in enumerate(zip(wants.order, arrays, strict=True)):
        if x is not None and n in kept:
            inputs.append(Input(index, address_in(struct, kept[n]), ADDRESS, False))
        elif n in fields:
            inputs.append(Input(index, fields[n], ADDRESS, False))
    parts = Parts(job, Handle(job), struct, moved, keep)
    if solved:
        return Kept(names.once, parts, inputs, made, len(arrays), is_fresh(job))
    return _with_forward(names, parts, inputs, made, len(arrays))


def _potentials(memory: Memory, job: Job, query: Any, outputs: dict[str, View]) -> dict[str, Any]:
    """Memory for what a derivative starts from, which joins the outputs of its forward."""
    keep = {}
    for field in ("row_potential", "column_potential"):
        keep[field] = memory.new(query, c.F64, output_shape(field, job.sizes), ())
        outputs[field] = memory.operand(keep[field])
    return keep


def _with_forward(
    names: Names, parts: Parts, inputs: list[Input], made: list[tuple[int, Result]], given: int
) -> Kept:
    """Both by one plan, which the forward binds, and the derivative gives back."""
    made_twice = Kept(names.twice, parts, [x for x in inputs if not x.bound], made, given, False)
    forward = parts._replace(moved=None)
    made_twice.first = Kept(None, forward, inputs, [], given, is_fresh(parts.job))
    made_twice.first.lent = True
    return made_twice


def _make_tangents(memory: Memory, spec: Spec, wants: Wants, arrays: Sequence[Any], names: Names) -> Kept:
    """The structs of a forward and of a jvp."""
    operands, tangents = [*arrays[: len(WHOLE)], None], arrays[len(WHOLE) :]
    job = Job(spec, [memory.operand(x) for x in operands], gradients=True)
    outputs: dict[str, View] = {}
    keep = _potentials(memory, job, operands[0], outputs)
    struct = arrays_of(job, outputs)
    moved = Moved(c.Tangents, job)
    inputs = inputs_of(job, struct, wants.order, arrays)
    for index, (n, x) in enumerate(zip(DIFFERENTIABLE, tangents, strict=True)):
        if x is not None:
            place = moved.put_operand(n, _shown(memory, x, tuple(x.shape) or (1, 1, 1, 1)))
            inputs.append(Input(len(WHOLE) + index, place, ADDRESS, False))
    made = [_along(memory, moved, name, operands[0]) for name in wants.names]
    return _with_forward(names, Parts(job, Handle(job), struct, moved, keep), inputs, made, len(arrays))


def _along(memory: Memory, moved: Moved, name: str, query: Any) -> tuple[int, Result]:
    """The place and the result of a derivative of an output, which lies in memory as the output does."""
    shape = output_shape(name, moved.job.sizes)
    order = memory.order(query) if name == "out" else ()
    dense = tuple(shape[k] for k in order) or shape
    view = view_like(shape, memory.operand(query)[1])
    return moved.put(name, ordered(view, order) if order else view), Result(name, 0, dense, order)


def _shown(memory: Memory, x: Any, shape: tuple[int, ...]) -> Any:
    """The view of an array that a caller has in another number of dimensions; None: only a copy would do."""
    whole = x if tuple(x.shape) == shape else x.reshape(shape)
    return memory.operand(whole) if memory.address(whole) == memory.address(x) else None


# ---- on a plan that has solved ---------------------------------------------------------------------


class Solved(NamedTuple):
    """The structs of a solve that was run, the arrays that it read, in its order, and whatever they show."""

    kept: Kept
    arrays: Sequence[Any]
    shown: Any


def gradients_on(
    memory: Memory,
    solved: Solved,
    upstream: Mapping[str, Any],
    wanted: Mapping[str, Form],
) -> tuple[Any, ...]:
    """Gradients of what was solved last on its plan; of `wanted` operands.

    The upstream arrays, by names of ota_gradients, have four dimensions.
    """
    return _on(memory, solved, Moved(c.Gradients, solved.kept.job), (upstream, {}), ({}, wanted))


def tangents_on(
    memory: Memory,
    solved: Solved,
    moving: Mapping[str, Any],
    wanted: Mapping[str, Form],
) -> tuple[Any, ...]:
    """Derivatives of outputs, of which type and shape are given, along tangents by operand (or `scores`)."""
    return _on(memory, solved, Moved(c.Tangents, solved.kept.job), ({}, moving), (wanted, {}))


def _on(
    memory: Memory,
    solved: Solved,
    moved: Moved,
    given: tuple[Mapping[str, Any], Mapping[str, Any]],
    wanted: tuple[Mapping[str, Form], Mapping[str, Form]],
) -> tuple[Any, ...]:
    """Results of a derivative: what is given and what is wanted are fields, and then what operands have."""
    solve = solved.kept
    # The query comes first, for what results are made like.
    arrays, inputs, made = [solved.arrays[0]], [], []
    own = memory.operand(solved.arrays[0])[1]
    for items, put in zip(given, (moved.put, moved.put_operand), strict=True):
        for name, x in items.items():
            inputs.append(Input(len(arrays), put(name, memory.operand(x)), ADDRESS, False))
            arrays.append(x)
    for found, put in zip(wanted, (moved.put, moved.put_operand), strict=True):
        for name, (kind, shape) in found.items():
            made.append(
                (
                    put(name, view_like(shape or (1, 1, 1, 1), kind)),
                    Result(name, 0 if kind == own else kind, shape),
                )
            )
    parts = Parts(solve.job, solve.handle, solve.arrays, moved, solved)
    kept = Kept(None, parts, inputs, made, len(arrays), False)
    kept.lent = True
    result = run_kept(memory, kept, solve.job.spec, arrays)
    assert result is not None
    kept.settle(result[1])
    return result[2:]
