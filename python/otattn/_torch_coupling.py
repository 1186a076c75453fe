"""`coupling` on plain torch tensors, and its derivative, by the structs of an earlier call like it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import _repeat
from ._arrays import output_shape, scratch_of
from ._coupling_repeat import NOTHING, aux_of, operands_given, places_of, same_arrays
from ._settings import Settings
from ._shapes import fold_scores
from ._solve import Job, is_implicit, needs_no_forward
from ._threads import thread_limit
from ._torch_repeat import is_plain


def _name_of(words: Any, names: Any, scores: Tensor, given: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
    likes = None
    if given is not NOTHING:
        likes = tuple(None if x is None else (x.dtype, x.shape, x.stride()) for x in given)
    return words, names, thread_limit(), scores.dtype, scores.shape, scores.stride(), likes


def torch_coupling_repeat(
    words: tuple[Any, ...],
    names: tuple[str, ...],
    scores: Tensor,
    given: tuple[Tensor | None, ...],
    prepare: Any,
) -> Any:
    """The coupling, or with potentials the pair that `coupling` returns; None: not so."""
    others = [x for x in given if x is not None]
    if not is_plain(scores, *others):
        return None
    derivatives = torch.is_grad_enabled() and (scores.requires_grad or any(x.requires_grad for x in others))
    if derivatives and (len(names) > 1 or any(x.requires_grad for x in others)):
        return None
    name = _name_of(words, (names, derivatives), scores, given)
    repeat = _repeat.take(name)
    if repeat is None:
        settings = prepare(words)
        if derivatives and is_implicit(settings):
            names = (*names, "column_potential")
        repeat = _new(name, settings, scores, given, names)
        if repeat is None:
            return None
    if derivatives:
        return _Couple.apply(repeat, scores, given)  # type: ignore[no-untyped-call]
    return _run(repeat, scores, given)


def _new(
    name: Any, settings: Settings, scores: Tensor, given: tuple[Tensor | None, ...], names: tuple[str, ...]
) -> _repeat.Repeat | None:
    from ._torch import _floating, _operand, _operands_of, _output_type, _view

    whole, batch, lead = fold_scores(_floating("scores", scores))
    heads, rows, columns = whole.shape[1:]
    others = _operands_of(operands_given(given), batch, (heads, rows, columns), scores)
    views = [_operand(x) for x in (whole, *others)]
    if not same_arrays(views, [0 if x is None else x.data_ptr() for x in (scores, *given)]):
        return None
    job = Job(settings, (views[0], None, None, *views[1:]))
    shapes, outputs = [], {}
    for field in names:
        shape, kind = output_shape(field, job.sizes), _output_type(field, scores.dtype)
        outputs[field] = _view(torch.empty(shape, dtype=kind))
        shapes.append(((*lead, *shape[2 if field == "coupling" else 3 :]), kind))
    keep = {x: torch.empty(output_shape(x, job.sizes), dtype=torch.float64) for x in scratch_of(job, names)}
    scratch = {field: _view(x) for field, x in keep.items()}
    repeat = _repeat.forward_of(name, job, *places_of(given), outputs, scratch, shapes)
    repeat.keep = keep
    return repeat


def _addresses(scores: Tensor, given: tuple[Tensor | None, ...]) -> tuple[int, ...]:
    return (scores.data_ptr(), *(x.data_ptr() for x in given[:3] if x is not None))


def _run(repeat: _repeat.Repeat, scores: Tensor, given: tuple[Tensor | None, ...]) -> Any:
    """What was asked for, in new tensors; None where these need the longer way."""
    try:
        if given is NOTHING and len(repeat.shapes) == 1:
            # In half the time of a shape and a type.
            plan = torch.empty_like(scores, memory_format=torch.contiguous_format)
            return None if repeat.run((scores.data_ptr(),), plan.data_ptr()) is None else plan
        outputs = [torch.empty(shape, dtype=kind) for shape, kind in repeat.shapes]
        others = [x.data_ptr() for x in outputs]
        if given[3] is not None:
            others.insert(0, given[3].data_ptr())
        status = repeat.run(_addresses(scores, given), *others)
        if status is None:
            return None
        if len(outputs) == 3:
            return outputs[0], aux_of(repeat, status, outputs[1], outputs[2])
        return outputs if len(outputs) == 2 else outputs[0]
    finally:
        _repeat.give(repeat)


class _Couple(torch.autograd.Function):
    """A coupling with a derivative outside the operator, whose registration costs several times as much."""

    @staticmethod
    def forward(
        ctx: Any, repeat: _repeat.Repeat, scores: Tensor, given: tuple[Tensor | None, ...]
    ) -> Tensor | None:
        settings = repeat.job.settings
        found = _run(repeat, scores, given)
        plan: Tensor | None
        plan, saved = found if isinstance(found, list) else (found, None)
        ctx.settings = settings
        ctx.save_for_backward(scores, *given, saved)
        return plan

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        from . import _torch

        gradient: Tensor | None = gradients[0]
        scores, *rest, saved = ctx.saved_tensors
        if gradient is None:
            return None, None, None
        given = NOTHING if all(x is None for x in rest) else tuple(rest)
        found = None
        if not torch.is_grad_enabled() and is_plain(gradient, scores):
            found = _reverse(ctx.settings, scores, given, gradient, saved)
        if found is None:
            whole, batch, _ = fold_scores(scores)
            operands = [whole, None, None]
            operands += _torch._operands_of(operands_given(given), batch, tuple(whole.shape[1:]), scores)
            if saved is not None:
                saved = saved.reshape((*whole.shape[:2], 1, whole.shape[3]))
            # With create_graph the operator says that there is no second derivative.
            call = torch.ops.otattn.gradients if torch.is_grad_enabled() else _torch._gradients_cpu
            upstream = (None, fold_scores(gradient)[0], None, None, saved)
            found = call(*operands, *upstream, _torch._text(ctx.settings), "query")[0].reshape(scores.shape)
        return None, found, None


def _reverse(
    settings: Settings,
    scores: Tensor,
    given: tuple[Tensor | None, ...],
    gradient: Tensor,
    saved: Tensor | None,
) -> Tensor | None:
    """The gradient by the structs of an earlier backward like this; None: not so."""
    name = _name_of(settings, ("gradient", gradient.dtype, gradient.stride()), scores, given)
    reverse = _repeat.take(name)
    if reverse is None:
        reverse = _new_reverse(name, settings, scores, given, gradient, saved)
        if reverse is None:
            return None
    try:
        found = torch.empty(scores.shape, dtype=scores.dtype)
        others = [x.data_ptr() for x in (saved, gradient, found) if x is not None]
        status = reverse.run(_addresses(scores, given), *others)
    finally:
        _repeat.give(reverse)
    return None if status is None else found


def _new_reverse(
    name: Any,
    settings: Settings,
    scores: Tensor,
    given: tuple[Tensor | None, ...],
    gradient: Tensor,
    saved: Tensor | None,
) -> _repeat.Repeat | None:
    from ._torch import _operand, _operands_of, _view

    if not needs_no_forward(settings) or (is_implicit(settings) and saved is None):
        return None
    whole, batch, _ = fold_scores(scores)
    upstream = fold_scores(gradient)[0]
    others = _operands_of(operands_given(given), batch, tuple(whole.shape[1:]), scores)
    views = [_operand(x) for x in (whole, *others)]
    addresses = [0 if x is None else x.data_ptr() for x in (scores, *given)]
    if not same_arrays(views, addresses) or upstream.data_ptr() != gradient.data_ptr():
        return None
    job = Job(settings, (views[0], None, None, *views[1:]), gradients=True)
    # The multipliers answer for the solution, wherever its search began.
    job.start = None
    kept = {}
    if saved is not None:
        kept["column_potential"] = _view(saved.reshape((*whole.shape[:2], 1, whole.shape[3])))
    wanted = {"query": _view(torch.empty(whole.shape, dtype=scores.dtype))}
    bound, _ = places_of(given)
    return _repeat.backward_of(name, job, bound, kept, {"coupling_grad": _view(upstream)}, wanted, None)
