"""`coupling` on plain arrays by the structs of an earlier call like it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _native, _repeat
from ._arrays import floating, operands_of, output_shape, outputs_like, scratch_of, view_of
from ._aux import NO_AUX, AuxOutput, AuxRequest, Potentials
from ._certificate import Certificate
from ._errors import check, status_word
from ._settings import EXTRA, PLACES
from ._shapes import fold_scores
from ._solve import Info, Job, View, judge_outputs
from ._spec import Spec
from ._structs import F64
from ._threads import thread_limit

# The arrays of a call besides its scores, in the order in which callers give them.
GIVEN = ("attn_mask", "row_mass", "column_mass", "start_potential")
_GIVEN_PLACES = tuple(PLACES[name] - 3 for name in GIVEN)
NOTHING: tuple[Any, ...] = (None,) * len(GIVEN)
# What is written. A call with info returns a pair, although only the coupling is an array.
ONLY = ("coupling",)
WITH_INFO = ("coupling", "info")
WITH_POTENTIALS = ("coupling", "row_potential", "column_potential")
WITH_CERTIFICATE = (*WITH_POTENTIALS, "certificate")
_WANTED = {
    NO_AUX: WITH_INFO,
    AuxRequest(potentials=True): WITH_POTENTIALS,
    AuxRequest(potentials=True, certificate=True): WITH_CERTIFICATE,
}
_NO_ARRAYS = ("info", "certificate")


def outputs_wanted(return_aux: AuxRequest | None) -> tuple[str, ...] | None:
    """What such a call writes; None where it needs the longer way."""
    if return_aux is None:
        return ONLY
    return _WANTED.get(return_aux)


def arrays_of(names: Sequence[str]) -> list[str]:
    """Those of the names that the library writes as arrays."""
    return [name for name in names if name not in _NO_ARRAYS]


def is_taken(names: tuple[str, ...], scores: Any) -> bool:
    """The judge of two-byte types is given the potentials alone, which the longer way sees to."""
    return names is not WITH_CERTIFICATE or scores.itemsize >= 4


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


def name_of(spec: Spec, names: Any, layout: bytes) -> tuple[Any, ...]:
    """The name of a call on scores and the arrays of GIVEN, whose layout it is."""
    return spec.token, names, thread_limit(), layout


def answer(repeat: _repeat.Repeat, names: tuple[str, ...], found: tuple[Any, ...] | None) -> Any:
    """What `coupling` returns: the coupling, or a pair; None where the arrays need the longer way."""
    if found is None or names is ONLY:
        return None if found is None else found[1]
    r = repeat.handle.result
    info = Info(status_word(found[0]), r.rounds, r.row_error, r.column_error, r.empty_rows, r.nonfinite_rows)
    if names is WITH_INFO:
        return found[1], AuxOutput(info=info)
    certificate = certificate_now(repeat) if names is WITH_CERTIFICATE else None
    potentials = Potentials(found[2], found[3])
    return found[1], AuxOutput(potentials=potentials, certificate=certificate, info=info)


def certificate_now(repeat: _repeat.Repeat, *arrays: Any) -> Certificate:
    """The judge's word on what the structs have just solved, or on these arrays and results of a solve."""
    status, numbers = _native.judge(repeat.call, *arrays)
    check(status, repeat.handle.error)
    return Certificate._make(numbers)


def new_repeat(
    name: Any,
    job: Job,
    given: tuple[Any, ...],
    lead: tuple[int, ...],
    outputs: dict[str, View],
    results: Sequence[str],
) -> _repeat.Repeat:
    """The structs of a call; `outputs` shows all that is written, `results` names what is new every time."""
    wide = outputs["coupling"][1] == F64
    shapes = {
        field: (*lead, *output_shape(field, job.sizes)[2 if field == "coupling" else 3 :])
        for field in results
    }
    made = [_repeat.Result(field, _repeat.result_type(field, wide), shapes[field]) for field in results]
    return _repeat.forward_of(name, job, *places_of(given), outputs, made)


def _new(
    name: Any, spec: Spec, scores: Any, given: tuple[Any, ...], names: tuple[str, ...]
) -> _repeat.Repeat | None:
    whole, batch, lead = fold_scores(floating("scores", scores))
    keep: list[Any] = []
    heads, rows, columns = whole.shape[1:]
    others = operands_of(operands_given(given), batch, heads, rows, columns, keep)
    view = view_of(whole)
    if not same_arrays((view, *others), [0 if x is None else _native.address(x) for x in (scores, *given)]):
        return None
    job = Job(spec, (view, None, None, *others))
    results = arrays_of(names)
    kept, outputs = outputs_like([*results, *scratch_of(job, names)], job.sizes, scores.dtype)
    repeat = new_repeat(name, job, given, lead, outputs, results)
    repeat.keep = kept
    return repeat


def certificate_again(
    spec: Spec, scores: Any, given: tuple[Any, ...], plan: Any, potentials: tuple[Any, Any]
) -> Certificate:
    """The judge's word on a plan and potentials that a call returned, all of them arrays of their own."""
    whole, batch, _ = fold_scores(floating("scores", scores))
    keep: list[Any] = []
    heads, rows, columns = whole.shape[1:]
    others = operands_of(operands_given(given), batch, heads, rows, columns, keep)
    job = Job(spec, (view_of(whole), None, None, *others))
    shown = zip(WITH_POTENTIALS, (plan, *potentials), strict=True)
    return judge_outputs(job, {name: view_of(x.reshape(output_shape(name, job.sizes))) for name, x in shown})


def present(scores: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arrays of a call in the order of the plan's and forward's fields."""
    if given is NOTHING:
        return (scores,)
    mask, rows, columns, start = given
    if mask is start is None and rows is not None and columns is not None:
        return scores, rows, columns
    return (scores, *[x for x in given if x is not None])


def numpy_coupling_repeat(spec: Spec, names: tuple[str, ...], scores: Any, given: tuple[Any, ...]) -> Any:
    """The coupling, or the pair that `coupling` returns; None: not so."""
    layout = _native.layout(scores, *given)
    if layout is None or not is_taken(names, scores):
        return None
    name = name_of(spec, names, layout)
    repeat = _repeat.take(name)
    if repeat is None:
        repeat = _new(name, spec, scores, given, names)
        if repeat is None:
            return None
    try:
        return answer(repeat, names, repeat.run(*present(scores, given)))
    finally:
        _repeat.give(repeat)


def coupling_again(spec: Spec, names: tuple[str, ...], scores: Any, given: tuple[Any, ...]) -> Any:
    """What `coupling` solves, by the structs of an earlier call with this spec; None: not so.

    The coupling; or with potentials a tuple of coupling, potentials of rows and columns, structs, FACTS, and
    behind them with WITH_CERTIFICATE its numbers. For callers that know their spec. Of tensors the
    caller knows that nobody looks on and that no derivative is wanted. Whatever does not simply succeed goes
    the longer way, too.
    """
    behind = 0 if names is WITH_INFO or names is ONLY else behind_of(names)
    return _native.again(_kinds, _give, spec.token, names, thread_limit(), behind, scores, *given)


def behind_of(names: tuple[str, ...]) -> int:
    """How much `_native.again` puts behind the results: structs and facts, or the certificate as well."""
    return 3 if names is WITH_CERTIFICATE else 2


_kinds, _give = _repeat._kinds, _repeat.give
# What `coupling_again` says of a solve: all of Info but its status, which is ok.
FACTS = ("rounds", "row_error", "column_error", "empty_rows", "nonfinite_rows")


def judged_again(
    spec: Spec, scores: Any, given: tuple[Any, ...], plan: Any, potentials: tuple[Any, Any]
) -> Certificate | None:
    """The judge's word by the structs of an earlier call with potentials; None: not so."""
    layout = _native.layout(scores, *given)
    repeat = None if layout is None else _repeat.take(name_of(spec, WITH_POTENTIALS, layout))
    if repeat is None:
        return None
    try:
        return certificate_now(repeat, *present(scores, given), plan, *potentials)
    finally:
        _repeat.give(repeat)
