"""`coupling` on plain arrays by the structs of an earlier call like it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _repeat
from ._arrays import address_of, floating, operands_of, outputs_like, scratch_of, view_of
from ._aux import AuxOutput, AuxRequest, Potentials
from ._errors import status_word
from ._settings import EXTRA, PLACES, Settings
from ._shapes import fold_scores
from ._solve import Info, Job
from ._threads import thread_limit

# The arrays of a call besides its scores, in the order in which callers give them.
GIVEN = ("attn_mask", "row_mass", "column_mass", "start_potential")
_GIVEN_PLACES = tuple(PLACES[name] - 3 for name in GIVEN)
NOTHING: tuple[Any, ...] = (None,) * len(GIVEN)
_ONLY = ("coupling",)
_WITH_POTENTIALS = ("coupling", "row_potential", "column_potential")


def outputs_wanted(return_aux: Any) -> tuple[str, ...] | None:
    """What such a call writes; None where it needs the longer way."""
    if return_aux is None:
        return _ONLY
    return _WITH_POTENTIALS if return_aux == AuxRequest(potentials=True) else None


def operands_given(given: Sequence[Any]) -> tuple[Any, ...]:
    """All operands behind scores, absent but for the arrays of the call."""
    extra: list[Any] = [None] * EXTRA
    for place, x in zip(_GIVEN_PLACES, given, strict=True):
        extra[place] = x
    return tuple(extra)


def places_of(given: Sequence[Any]) -> tuple[list[str], list[str]]:
    """What the plan is bound to, and what forward reads besides: the names of the arrays that are there."""
    bound = ["scores", *(name for name, x in zip(GIVEN[:3], given, strict=False) if x is not None)]
    return bound, [] if given[3] is None else ["start_potential"]


def same_arrays(views: Sequence[Any], addresses: Sequence[int]) -> bool:
    """Do scores and operands of a job show the memory of scores and the given arrays?"""
    shown = (views[0], *(views[place + 1] for place in _GIVEN_PLACES))
    return _repeat.same_memory(shown, addresses)


def aux_of(repeat: _repeat.Repeat, status: int, row: Any, column: Any) -> AuxOutput:
    r = repeat.handle.result
    info = Info(status_word(status), r.rounds, r.row_error, r.column_error, r.empty_rows, r.nonfinite_rows)
    return AuxOutput(potentials=Potentials(row, column), info=info)


def _new(
    name: Any, settings: Settings, scores: Any, given: tuple[Any, ...], names: tuple[str, ...]
) -> _repeat.Repeat | None:
    whole, batch, lead = fold_scores(floating("scores", scores))
    keep: list[Any] = []
    heads, rows, columns = whole.shape[1:]
    others = operands_of(operands_given(given), batch, heads, rows, columns, keep)
    view = view_of(whole)
    if not same_arrays((view, *others), [0 if x is None else address_of(x) for x in (scores, *given)]):
        return None
    job = Job(settings, (view, None, None, *others))
    kept, outputs = outputs_like(list(names), job.sizes, scores.dtype)
    shapes = [((*lead, *x.shape[2 if field == "coupling" else 3 :]), x.dtype) for field, x in kept.items()]
    scratch, scratch_views = outputs_like(scratch_of(job, names), job.sizes, scores.dtype)
    repeat = _repeat.forward_of(name, job, *places_of(given), outputs, scratch_views, shapes)
    repeat.keep = scratch
    return repeat


def numpy_coupling_repeat(
    words: tuple[Any, ...], names: tuple[str, ...], scores: Any, given: tuple[Any, ...], prepare: Any
) -> Any:
    """The coupling, or with potentials the pair that `coupling` returns; None: not so."""
    name = (words, names, thread_limit(), scores.dtype, scores.shape, scores.strides, _likes(given))
    repeat = _repeat.take(name)
    if repeat is None:
        repeat = _new(name, prepare(words), scores, given, names)
        if repeat is None:
            return None
    try:
        if given is NOTHING and len(names) == 1:
            plan = np.empty(scores.shape, scores.dtype)
            return None if repeat.run((address_of(scores),), address_of(plan)) is None else plan
        outputs = [np.empty(shape, kind) for shape, kind in repeat.shapes]
        bound = (address_of(scores), *(address_of(x) for x in given[:3] if x is not None))
        others = [] if given[3] is None else [address_of(given[3])]
        others += [address_of(x) for x in outputs]
        status = repeat.run(bound, *others)
        if status is None or len(outputs) == 1:
            return None if status is None else outputs[0]
        return outputs[0], aux_of(repeat, status, outputs[1], outputs[2])
    finally:
        _repeat.give(repeat)


def _likes(given: tuple[Any, ...]) -> Any:
    if given is NOTHING:
        return None
    return tuple(None if x is None else (x.dtype, x.shape, x.strides) for x in given)
