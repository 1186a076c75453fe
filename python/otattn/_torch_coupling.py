"""`coupling` on plain torch tensors, and its derivative, by the structs of an earlier call like it."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from . import _native, _repeat
from ._arrays import output_shape, scratch_of
from ._coupling_repeat import (
    NOTHING,
    ONLY,
    WITH_CERTIFICATE,
    WITH_INFO,
    answer,
    arrays_of,
    certificate_now,
    is_taken,
    name_of,
    new_repeat,
    operands_given,
    places_of,
    present,
    same_arrays,
)
from ._settings import Settings
from ._shapes import fold_scores
from ._solve import Job, is_implicit, needs_no_forward
from ._structs import OK
from ._torch_repeat import is_plain, plain_apply


def torch_coupling_repeat(
    words: tuple[Any, ...],
    names: tuple[str, ...],
    scores: Tensor,
    given: tuple[Tensor | None, ...],
    prepare: Any,
) -> Any:
    """The coupling, or the pair that `coupling` returns; None: not so."""
    others = () if given is NOTHING else [x for x in given if x is not None]
    if not is_plain(scores, *others) or not is_taken(names, scores):
        return None
    layout = _native.layout(scores, *given)
    if layout is None or not _native.plain(words):
        return None
    derivatives = torch.is_grad_enabled() and (scores.requires_grad or any(x.requires_grad for x in others))
    if derivatives and not _has_derivative(scores, given):
        return None
    name = name_of(words, (names, "derivatives") if derivatives else names, layout)
    repeat = _repeat.take(name)
    if repeat is None:
        settings = prepare(words)
        # Backward starts from there.
        also = derivatives and is_implicit(settings) and "column_potential" not in names
        repeat = _new(name, settings, scores, given, (*names, "column_potential") if also else names)
        if repeat is None:
            return None
    try:
        found = _couple(repeat, scores, given, True) if derivatives else repeat.run(*present(scores, given))
        return answer(repeat, names, found)
    finally:
        _repeat.give(repeat)


def couple_again(
    words: tuple[Any, ...], names: tuple[str, ...], scores: Tensor, given: tuple[Tensor | None, ...]
) -> Any:
    """As `coupling_again`, of plain tensors and with derivatives; None: not so."""
    layout = _native.layout(scores, *given)
    if layout is None or not _has_derivative(scores, given):
        return None
    repeat = _repeat.take(name_of(words, (names, "derivatives"), layout))
    if repeat is None:
        return None
    try:
        found = _couple(repeat, scores, given, False)
        if found is None:
            return None
        if names is ONLY or names is WITH_INFO:
            return found[1]
        r = repeat.handle.result
        facts = (r.rounds, r.row_error, r.column_error, r.empty_rows, r.nonfinite_rows)
        judged = (tuple(certificate_now(repeat)),) if names is WITH_CERTIFICATE else ()
        return (*found[1:], facts, *judged)
    finally:
        _repeat.give(repeat)


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


def _couple(
    repeat: _repeat.Repeat, scores: Tensor, given: tuple[Tensor | None, ...], settles: bool
) -> tuple[Any, ...] | None:
    """Status and results. What does not simply succeed is settled, or None."""
    statuses: list[int] = []
    found = _couple_plain(repeat, statuses, settles, scores, *given)
    return None if found is None else (*statuses, *found)


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
    results = arrays_of(names)
    keep = {
        field: torch.empty(output_shape(field, job.sizes), dtype=_output_type(field, scores.dtype))
        for field in (*results, *scratch_of(job, names))
    }
    outputs = {field: _view(x) for field, x in keep.items()}
    repeat = new_repeat(name, job, given, lead, outputs, results)
    repeat.keep = keep
    return repeat


class _Couple(torch.autograd.Function):
    """A coupling with a derivative outside the operator, whose registration costs several times as much."""

    @staticmethod
    def forward(
        ctx: Any,
        repeat: _repeat.Repeat,
        statuses: list[int],
        settles: bool,
        scores: Tensor,
        *given: Tensor | None,
    ) -> tuple[Tensor, ...] | None:
        arrays = present(scores, given)
        found = repeat.run(*arrays) if settles else _native.run(repeat.call, *arrays)
        if found is None or (found[0] != OK and not settles):
            return None
        status, *results = found
        statuses.append(status)
        # Behind the coupling there are no results, the two potentials, or that of the columns alone.
        potentials = results[1:]
        if status != OK:
            ctx.settings, implicit = repeat.job.settings, is_implicit(repeat.job.settings)
        else:
            if repeat.reverse is None:
                settings = _solved(repeat.job.settings)
                repeat.reverse = settings, is_implicit(settings)
            ctx.settings, implicit = repeat.reverse
        saved = potentials[-1] if potentials and implicit else None
        ctx.mark_non_differentiable(*potentials)
        ctx.save_for_backward(scores, *given, saved)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        from . import _torch

        gradient: Tensor | None = gradients[0]
        scores, *rest, saved = ctx.saved_tensors
        needed = ctx.needs_input_grad[3:]
        names = ("query", "attn_mask", "row_mass", "column_mass", "start_potential")
        wanted = tuple(name for name, x in zip(names, needed, strict=True) if x)
        if gradient is None or not wanted:
            return (None,) * 8
        given = NOTHING if all(x is None for x in rest) else tuple(rest)
        found = None
        if not torch.is_grad_enabled() and is_plain(gradient, scores):
            found = _reverse(ctx.settings, wanted, scores, given, gradient, saved)
        if found is None:
            whole, batch, _ = fold_scores(scores)
            operands = [whole, None, None]
            operands += _torch._operands_of(operands_given(given), batch, tuple(whole.shape[1:]), scores)
            if saved is not None:
                saved = saved.reshape((*whole.shape[:2], 1, whole.shape[3]))
            # With create_graph the operator says that there is no second derivative.
            call = torch.ops.otattn.gradients if torch.is_grad_enabled() else _torch._gradients_cpu
            upstream = (None, fold_scores(gradient)[0], None, None, saved)
            made = call(*operands, *upstream, _torch._text(ctx.settings), ",".join(wanted))
            shapes = [x.shape for x, n in zip((scores, *rest), needed, strict=True) if n]
            found = tuple(x.reshape(shape) for x, shape in zip(made, shapes, strict=True))
        left = iter(found)
        return (None, None, None, *(next(left) if n else None for n in needed))


_couple_plain = plain_apply(_Couple)


@functools.lru_cache(maxsize=64)
def _solved(settings: Settings) -> Settings:
    """Those of a solve that kept its promises, so that backward may start from it."""
    return settings._replace(allow_partial=False)


def _reverse(
    settings: Settings,
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
    name = name_of(settings, wanted, layout)
    reverse = _repeat.take(name)
    if reverse is None:
        reverse = _new_reverse(name, settings, wanted, scores, given, gradient, saved)
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
    settings: Settings,
    wanted: tuple[str, ...],
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
