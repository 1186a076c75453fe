"""`coupling` on plain torch tensors, and its derivative, by the structs of an earlier call like it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import _native, _repeat
from ._arrays import output_shape, scratch_of
from ._coupling_repeat import (
    NOTHING,
    ONLY,
    answer,
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
from ._torch_repeat import is_plain


def torch_coupling_repeat(
    words: tuple[Any, ...],
    names: tuple[str, ...],
    scores: Tensor,
    given: tuple[Tensor | None, ...],
    prepare: Any,
) -> Any:
    """The coupling, or the pair that `coupling` returns; None: not so."""
    others = () if given is NOTHING else [x for x in given if x is not None]
    if not is_plain(scores, *others):
        return None
    layout = _native.layout(scores, *given)
    if layout is None:
        return None
    derivatives = torch.is_grad_enabled() and (scores.requires_grad or any(x.requires_grad for x in others))
    if derivatives and (names is not ONLY or any(x.requires_grad for x in others)):
        return None
    name = name_of(words, (names, "derivatives") if derivatives else names, layout)
    repeat = _repeat.take(name)
    if repeat is None:
        settings = prepare(words)
        written = (*names, "column_potential") if derivatives and is_implicit(settings) else names
        repeat = _new(name, settings, scores, given, written)
        if repeat is None:
            return None
    if derivatives:
        return _Couple.apply(repeat, scores, given)  # type: ignore[no-untyped-call]
    try:
        return answer(repeat, names, repeat.run(*present(scores, given)))
    finally:
        _repeat.give(repeat)


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
    results = [field for field in names if field != "info"]
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
        ctx: Any, repeat: _repeat.Repeat, scores: Tensor, given: tuple[Tensor | None, ...]
    ) -> Tensor | None:
        settings = repeat.job.settings
        try:
            found = repeat.run(*present(scores, given))
        finally:
            _repeat.give(repeat)
        if found is None:
            return None
        plan: Tensor = found[1]
        saved = found[2] if len(found) > 2 else None
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
    layout = _native.layout(scores, *given, gradient)
    if layout is None:
        return None
    name = name_of(settings, "gradient", layout)
    reverse = _repeat.take(name)
    if reverse is None:
        reverse = _new_reverse(name, settings, scores, given, gradient, saved)
        if reverse is None:
            return None
    try:
        kept = () if saved is None else (saved,)
        found = reverse.run(*present(scores, given[:3]), *kept, gradient)
    finally:
        _repeat.give(reverse)
    return None if found is None else found[1]


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
    return _repeat.backward_of(
        name, job, bound, kept, {"coupling_grad": _view(upstream)}, wanted, [tuple(scores.shape)]
    )
