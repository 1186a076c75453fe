"""`coupling` on plain torch tensors, and its derivative, by the structs of an earlier call like it."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import _native, _repeat
from ._arrays import output_shape, scratch_of
from ._coupling_repeat import (
    NOTHING,
    ONLY,
    WITH_INFO,
    answer,
    arrays_of,
    behind_of,
    is_taken,
    name_of,
    new_repeat,
    operands_given,
    places_of,
    present,
    same_arrays,
)
from ._shapes import fold_scores
from ._solve import Job, is_implicit, needs_no_forward
from ._spec import Spec
from ._structs import OK
from ._threads import thread_limit
from ._torch_derivative import plain_apply
from ._torch_repeat import is_plain


def torch_coupling_repeat(
    spec: Spec, names: tuple[str, ...], scores: Tensor, given: tuple[Tensor | None, ...]
) -> Any:
    """The coupling, or the pair that `coupling` returns; None: not so."""
    others = () if given is NOTHING else [x for x in given if x is not None]
    if not is_plain(scores, *others) or not is_taken(names, scores):
        return None
    layout = _native.layout(scores, *given)
    if layout is None:
        return None
    derivatives = torch.is_grad_enabled() and (scores.requires_grad or any(x.requires_grad for x in others))
    if derivatives and not _has_derivative(scores, given):
        return None
    name = name_of(spec, (names, "derivatives") if derivatives else names, layout)
    repeat = _repeat.take(name)
    if repeat is None:
        # Backward starts from there.
        also = derivatives and is_implicit(spec) and "column_potential" not in names
        repeat = _new(name, spec, scores, given, (*names, "column_potential") if also else names)
        if repeat is None:
            return None
    try:
        found = repeat.run(*present(scores, given))
        if found is not None and derivatives:
            status, plan, *potentials = found
            way = _way_back(repeat, scores, given)
            spec = way.spec if status == OK else repeat.job.spec
            # No potentials, the two, or that of the columns alone.
            saved = potentials[-1] if way.implicit else None
            inputs, arrays = _inputs(scores, given)
            found = status, _couple_plain((plan, spec, inputs, saved), *arrays), *potentials
        return answer(repeat, names, found)
    finally:
        _repeat.give(repeat)


def couple_again(
    spec: Spec,
    names: tuple[str, ...],
    scores: Tensor,
    given: tuple[Tensor | None, ...],
    value: bool = False,
) -> Any:
    """As `coupling_again`, of plain tensors and with derivatives; None: not so.

    With `value` the sum of coupling times scores is in the place of the coupling.
    """
    alone = names is WITH_INFO or names is ONLY
    behind = 1 if alone else behind_of(names)
    own = (names, "derivatives")
    found = _native.again(_kinds, _give, spec.token, own, thread_limit(), behind, scores, *given)
    if found is None:
        return None
    repeat = found[-behind]
    way = repeat.reverse or _way_back(repeat, scores, given)
    if not (way[2] or _has_derivative(scores, given)):
        return None
    saved = found[-1 - behind] if way[1] else None
    # As `_inputs` says, without a call.
    inputs, arrays = (_TRANSPORT, (scores, *given[1:3])) if way[3] else _inputs(scores, given)
    if value:
        number = _native.linear(found[0], scores)
        if number is None:
            return None
        first = _value_plain((number, way[0], inputs, found[0], saved), *arrays)
    else:
        first = _couple_plain((found[0], way[0], inputs, saved), *arrays)
    return first if alone else (first, *found[1:])


def _has_derivative(scores: Tensor, given: tuple[Tensor | None, ...]) -> bool:
    """Masses of one matrix and of its type are differentiated here; masks and starts are not."""
    mask, rows, columns, start = given
    if mask is start is None and rows is not None and columns is not None:
        # Entropic transport, most often.
        if not (rows.requires_grad or columns.requires_grad):
            return True
    elif any(x is not None and x.requires_grad for x in (mask, start)):
        return False
    masses = [x for x in (rows, columns) if x is not None and x.requires_grad]
    return not masses or (scores.dim() == 2 and all(x.dtype == scores.dtype for x in masses))


def _new(
    name: Any, spec: Spec, scores: Tensor, given: tuple[Tensor | None, ...], names: tuple[str, ...]
) -> _repeat.Repeat | None:
    from ._torch import _floating, _operand, _operands_of, _output_type, _view

    whole, batch, lead = fold_scores(_floating("scores", scores))
    heads, rows, columns = whole.shape[1:]
    others = _operands_of(operands_given(given), batch, (heads, rows, columns), scores)
    views = [_operand(x) for x in (whole, *others)]
    if not same_arrays(views, [0 if x is None else x.data_ptr() for x in (scores, *given)]):
        return None
    job = Job(spec, (views[0], None, None, *views[1:]))
    results = arrays_of(names)
    keep = {
        field: torch.empty(output_shape(field, job.sizes), dtype=_output_type(field, scores.dtype))
        for field in (*results, *scratch_of(job, names))
    }
    outputs = {field: _view(x) for field, x in keep.items()}
    repeat = new_repeat(name, job, given, lead, outputs, results)
    repeat.keep = keep
    return repeat


class _Way(NamedTuple):
    """What the derivatives of one kind of call, whose solves succeeded, have in common."""

    spec: Spec
    implicit: bool
    """Backward starts from the potential of the columns, which is the last result."""
    takes_all: bool
    """`_has_derivative` whichever arrays want one."""
    transport: bool
    """Of the given arrays there are both masses, and nothing else."""


def _way_back(repeat: _repeat.Repeat, scores: Tensor, given: tuple[Tensor | None, ...]) -> _Way:
    spec = _solved(repeat.job.spec)
    mask, rows, columns, start = given
    one_type = all(x is None or x.dtype == scores.dtype for x in (rows, columns))
    takes_all = mask is start is None and scores.dim() == 2 and one_type
    transport = mask is start is None and rows is not None and columns is not None
    repeat.reverse = way = _Way(spec, is_implicit(spec), takes_all, transport)
    return way


# The inputs of a node by the names of their gradients: fewer of them cost less.
_SCORES = ("query",)
_TRANSPORT = ("query", "row_mass", "column_mass")
_ALL = ("query", "attn_mask", "row_mass", "column_mass", "start_potential")


def _inputs(
    scores: Tensor, given: tuple[Tensor | None, ...]
) -> tuple[tuple[str, ...], tuple[Tensor | None, ...]]:
    """Names and arrays."""
    if given is NOTHING:
        return _SCORES, (scores,)
    mask, rows, columns, start = given
    if mask is start is None and rows is not None and columns is not None:
        return _TRANSPORT, (scores, rows, columns)
    return _ALL, (scores, *given)


class _Couple(torch.autograd.Function):
    """A coupling with a derivative outside the operator, whose registration costs several times as much.

    It was solved before: what happens in `forward` costs more than outside.
    """

    @staticmethod
    def forward(ctx: Any, solved: tuple[Any, ...], *arrays: Tensor | None) -> Tensor:
        """`solved` has a coupling that nobody else has."""
        plan: Tensor = solved[0]
        ctx.solved = solved[1:3]
        ctx.save_for_backward(*arrays, solved[3])
        return plan

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        spec, names = ctx.solved
        *arrays, saved = ctx.saved_tensors
        return None, *_gradients(spec, names, ctx.needs_input_grad[1:], arrays, gradients[0], saved)


class _Value(torch.autograd.Function):
    """The sum of such a coupling times the scores."""

    @staticmethod
    def forward(ctx: Any, solved: tuple[Any, ...], *arrays: Tensor | None) -> Tensor:
        """`solved` has a sum that nobody else has."""
        value: Tensor = solved[0]
        ctx.solved = solved[1:3]
        ctx.save_for_backward(*arrays, solved[3], solved[4])
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        spec, names = ctx.solved
        *arrays, plan, saved = ctx.saved_tensors
        needed, gradient = ctx.needs_input_grad[1:], gradients[0]
        # Forbidden pairs, whose cost is inf, carry nothing.
        upstream = gradient * arrays[0].where(arrays[0] < math.inf, 0.0)
        first, *others = _gradients(spec, names, needed, arrays, upstream, saved)
        return None, first + gradient * plan if first is not None else None, *others


def _gradients(
    spec: Spec,
    names: tuple[str, ...],
    needed: tuple[bool, ...],
    arrays: list[Any],
    gradient: Tensor | None,
    saved: Tensor | None,
) -> tuple[Tensor | None, ...]:
    """Those by the inputs of a node, where they are needed, of a coupling with this gradient."""
    from . import _torch

    wanted = tuple(name for name, x in zip(names, needed, strict=True) if x)
    if gradient is None or not wanted:
        return (None,) * len(names)
    scores: Tensor = arrays[0]
    by_name = dict(zip(names, arrays, strict=True))
    given = NOTHING if names is _SCORES else tuple(by_name.get(name) for name in _ALL[1:])
    found = None
    if not torch.is_grad_enabled() and is_plain(gradient, scores):
        found = _reverse(spec, wanted, scores, given, gradient, saved)
    if found is None:
        whole, batch, _ = fold_scores(scores)
        operands = [whole, None, None]
        operands += _torch._operands_of(operands_given(given), batch, tuple(whole.shape[1:]), scores)
        if saved is not None:
            saved = saved.reshape((*whole.shape[:2], 1, whole.shape[3]))
        # The operator sees to negated views and vmap, and says that there is no second derivative.
        upstream = (None, fold_scores(gradient)[0], None, None, saved)
        words = (_torch._text(spec), ",".join(wanted))
        made = torch.ops.otattn.gradients(*operands, *upstream, *words)
        shapes = [by_name[name].shape for name in wanted]
        found = tuple(x.reshape(shape) for x, shape in zip(made, shapes, strict=True))
    left = iter(found)
    return tuple(next(left) if n else None for n in needed)


_couple_plain, _value_plain = plain_apply(_Couple), plain_apply(_Value)
_kinds, _give = _repeat._kinds, _repeat.give


@functools.lru_cache(maxsize=64)
def _solved(spec: Spec) -> Spec:
    """Those of a solve that kept its promises, so that backward may start from it."""
    return spec._replace(allow_partial=False)


def _reverse(
    spec: Spec,
    wanted: tuple[str, ...],
    scores: Tensor,
    given: tuple[Tensor | None, ...],
    gradient: Tensor,
    saved: Tensor | None,
) -> tuple[Any, ...] | None:
    """The gradients by the structs of an earlier backward like this; None: not so."""
    layout = _native.layout(scores, *given, gradient)
    if layout is None:
        return None
    name = name_of(spec, wanted, layout)
    reverse = _repeat.take(name)
    if reverse is None:
        reverse = _new_reverse(name, spec, wanted, scores, given, gradient, saved)
        if reverse is None:
            return None
    try:
        kept = () if saved is None else (saved,)
        found = reverse.run(*present(scores, (*given[:3], None)), *kept, gradient)
    finally:
        _repeat.give(reverse)
    return None if found is None else found[1:]


def _new_reverse(
    name: Any,
    spec: Spec,
    wanted: tuple[str, ...],
    scores: Tensor,
    given: tuple[Tensor | None, ...],
    gradient: Tensor,
    saved: Tensor | None,
) -> _repeat.Repeat | None:
    from ._torch import _operand, _operands_of, _view

    if not needs_no_forward(spec) or (is_implicit(spec) and saved is None):
        return None
    whole, batch, _ = fold_scores(scores)
    upstream = fold_scores(gradient)[0]
    others = _operands_of(operands_given(given), batch, tuple(whole.shape[1:]), scores)
    views = [_operand(x) for x in (whole, *others)]
    addresses = [0 if x is None else x.data_ptr() for x in (scores, *given)]
    if not same_arrays(views, addresses) or upstream.data_ptr() != gradient.data_ptr():
        return None
    job = Job(spec, (views[0], None, None, *views[1:]), gradients=True)
    # The multipliers answer for the solution, wherever its search began.
    job.start = None
    kept = {}
    if saved is not None:
        kept["column_potential"] = _view(saved.reshape((*whole.shape[:2], 1, whole.shape[3])))
    rows, columns = whole.shape[2:]
    shapes = {"query": tuple(scores.shape), "row_mass": (rows,), "column_mass": (columns,)}
    results = {
        field: _view(
            torch.empty(whole.shape if field == "query" else (1, 1, 1, *shapes[field]), dtype=scores.dtype)
        )
        for field in wanted
    }
    bound, _ = places_of(given)
    upstreams = {"coupling_grad": _view(upstream)}
    return _repeat.backward_of(
        name, job, bound, kept, upstreams, results, [shapes[field] for field in wanted]
    )
