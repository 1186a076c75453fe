"""One call: (spec, layout of the arrays, what is wanted) to a plan with filled structs, which is kept.

NumPy's arrays and torch's tensors come the same way; what differs is in `Memory`. The name of a plan is
everything but addresses and numbers: the spec, what `_native.layout` says of the arrays (shape, strides and
type) and what is wanted. A later call of the name changes addresses and numbers only. Arrays that the
library cannot read as they lie are converted first, and the name is that of the converted ones. What cannot
be kept (a Regulariser, progress, memory that the extension does not see) runs in the same way on a plan that
is not put back.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from . import _native
from . import _structs as c
from ._arrays import output_shape
from ._aux import AuxOutput, AuxRequest, Potentials, RowStats, outputs_of
from ._certificate import Certificate
from ._errors import status_word
from ._handle import Handle, moment_of
from ._job import ADDRESS, ARRAYS, Job, Place, View, arrays_of, view_like
from ._kept import (
    Kept,
    Memory,
    Parts,
    Result,
    _kinds,
    address_in,
    give,
    inputs_of,
    is_fresh,
    take,
)
from ._outcome import Info, errors_only
from ._settings import OPERANDS, PLACES
from ._spec import Spec
from ._template import is_closed_form, is_implicit, needs_coupling
from ._threads import thread_limit

# With -1 `_native.again` lends its plan.
LENT = -1


class Wants:
    """What a call is to find, known by its identity: results by name, of arrays in an order."""

    __slots__ = ("certify", "kind", "lead", "names", "order")

    def __init__(
        self,
        names: tuple[str, ...],
        order: tuple[str, ...],
        certify: bool,
        lead: tuple[int, ...] | None,
        kind: str,
    ) -> None:
        self.names, self.order, self.certify = names, order, certify
        self.lead = lead
        """Dimensions of results before their last one or two; None: as the arrays say."""
        self.kind = kind
        """ "solve", "tokens" (whose `out` is (batch, queries, heads, width)), "operator" (of results in four
        dimensions), "gradients" or "tangents"."""


_wants = functools.lru_cache(maxsize=1024)(Wants)


def wants_of(
    names: tuple[str, ...],
    order: tuple[str, ...],
    certify: bool = False,
    lead: tuple[int, ...] | None = None,
    kind: str = "solve",
) -> Wants:
    """The one object of these."""
    # However it is called: the cache tells positions from names.
    return _wants(names, order, certify, lead, kind)


# Arrays of `attention` and of `coupling`, in the order of their calls.
ATTENTION = ("query", "key", "value", "attn_mask")
COUPLING = ("query", "attn_mask", "row_mass", "column_mass", "start_potential")
# Status, rounds, errors, empty and nonfinite rows of a solve, and the numbers of its certificate.
FACTS_LENGTH = 6 + len(Certificate._fields)
# All operands of a solve but numbers that only a graph has apart.
WHOLE = OPERANDS[: PLACES["numbers"]]


class Ask(NamedTuple):
    """What `coupling_again` is asked for, and how much `_native.again` puts behind the results."""

    wants: Wants
    behind: int


# The coupling alone; with potentials, the structs and FACTS; with the numbers of the certificate, too.
ONLY = Ask(wants_of(("coupling",), COUPLING), 0)
WITH_POTENTIALS = Ask(wants_of(("coupling", "row_potential", "column_potential"), COUPLING), 2)
WITH_CERTIFICATE = Ask(WITH_POTENTIALS.wants, 3)
# What `coupling_again` says of a solve: all of Info but its status, which is ok.
FACTS = ("rounds", "row_error", "column_error", "empty_rows", "nonfinite_rows")


def result_type(field: str, wide: bool) -> int:
    """The type of an output of a solve, where `wide` says that the arrays are f64."""
    if field in ("out", "coupling"):
        return 0
    return c.F64 if wide or field.endswith("potential") else c.F32


# ---- making ----------------------------------------------------------------------------------------


def scratch_of(job: Job, names: Sequence[str], certify: bool) -> list[str]:
    """What a solve writes besides `names`: for the judge, of plans that may be partial, too."""
    needed = ["row_potential", "column_potential"] if job.options.allow_partial else []
    if certify and needs_coupling(job.spec):
        needed.append("coupling")
    return [name for name in needed if name not in names]


def kept_field(spec: Spec, names: Sequence[str]) -> str:
    """The output of forward that backward starts from, or ""."""
    if is_implicit(spec):
        return "column_potential"
    return "lse" if "out" in names and is_closed_form(spec) else ""


# The dimensions of `out` in memory where all heads of a token lie together.
_TOKENS = (0, 2, 1, 3)


def _result(memory: Memory, job: Job, wants: Wants, name: str, query: Any, lead: Any) -> Result | None:
    """The result of a name, where "saved" is what backward starts from; None: it is another one, or nothing.

    The operator has a result for each name, "facts" among them, and none that shares memory.
    """
    operator = wants.kind == "operator"
    if name == "facts":
        return Result(None, c.F64, (FACTS_LENGTH,))
    field: str | None = kept_field(job.spec, wants.names) if name == "saved" else name
    if name == "saved" and not operator and (not field or field in wants.names):
        return None
    if not field:
        return Result(None, c.F64, (0,))
    whole: tuple[int, ...] = output_shape(field, job.sizes)
    kind = result_type(field, query.itemsize == 8)
    tail = whole[2:] if field in ("out", "coupling") else whole[3:]
    shape = whole if operator or name == "saved" else (*lead, *tail)
    if field == "out" and wants.kind == "tokens":
        return Result(field, kind, tuple(whole[k] for k in _TOKENS))
    order = memory.order(query) if field == "out" and len(shape) == 4 else ()
    if name == "saved" and field in wants.names:
        field = None
    return Result(field, kind, tuple(shape[k] for k in order) or shape, order)


def solve_of(
    memory: Memory,
    job: Job,
    wants: Wants,
    arrays: Sequence[Any],
    shown: tuple[Any, tuple[int, ...]],
    key: Any = None,
    handle: Handle | None = None,
    both: Mapping[str, Any] | None = None,
) -> Kept:
    """The structs of a solve of arrays, by a plan of their own or a `handle`.

    `shown` are the query in four dimensions and the dimensions before those of results; `both` are arrays
    that are read and written, by names of ota_arrays.
    """
    query, lead = shown
    handle = Handle(job) if handle is None else handle
    found = [_result(memory, job, wants, name, query, lead) for name in wants.names]
    results = [x for x in found if x is not None]
    outputs: dict[str, View] = {name: memory.operand(x) for name, x in (both or {}).items()}
    for name in outputs:
        job.places[name] = Place("arrays", ARRAYS[name], ADDRESS)
    for x in results:
        if x.field is not None:
            kind = x.type or _type_of(job)
            outputs[x.field] = view_like(output_shape(x.field, job.sizes), kind)
            order = _TOKENS if wants.kind == "tokens" and x.field == "out" else x.order
            if order:
                outputs[x.field] = ordered(outputs[x.field], order)
    keep = {}
    for field in scratch_of(job, [x.field for x in results if x.field], wants.certify):
        keep[field] = memory.new(
            query, result_type(field, query.itemsize == 8), output_shape(field, job.sizes), ()
        )
        outputs[field] = memory.operand(keep[field])
    struct = arrays_of(job, outputs)
    made = [(address_in(struct, x.field) if x.field else 0, x) for x in results]
    inputs = inputs_of(job, struct, wants.order, arrays)
    return Kept(key, Parts(job, handle, struct, None, keep), inputs, made, len(arrays), is_fresh(job))


def _type_of(job: Job) -> int:
    """Of the query, or of scores."""
    query = job.operands[0]
    assert isinstance(query, tuple)
    return query[1]


def ordered(view: View, order: tuple[int, ...]) -> View:
    """The view of an array whose dimension order[k] is the k-th in memory."""
    sizes, strides, dense = view[2:6], [0] * 4, 1
    for k in reversed(order):
        strides[k] = dense
        dense *= max(1, sizes[k])
    return (*view[:6], *strides)


# ---- running ---------------------------------------------------------------------------------------


def call(
    memory: Memory, spec: Spec, wants: Wants, arrays: Sequence[Any], keep: bool = True
) -> tuple[Any, ...]:
    """(structs, status, result, ...) of a call. The caller settles the status and gives the structs back.

    Unless `keep`, they are for this call alone.
    """
    if keep and spec.is_plain:
        found = _native.again(_kinds, give, spec.token, wants, thread_limit(), LENT, *arrays)
        if found is not None:
            return found  # type: ignore[no-any-return]
    return _call_first(memory, spec, wants, arrays, keep)


def name_of(spec: Spec, wants: Wants, arrays: Sequence[Any]) -> Any:
    """That of a plan; None where it cannot be kept."""
    layout = _native.layout(*arrays) if spec.may_be_kept else None
    return None if layout is None else (spec.of_plan().token, wants, thread_limit(), layout)


def _call_first(
    memory: Memory, spec: Spec, wants: Wants, arrays: Sequence[Any], keep: bool
) -> tuple[Any, ...]:
    """As `call`, with whatever a call may need."""
    if keep and not spec.is_plain:
        # Of a deadline the plan knows nothing.
        kept = take(name_of(spec, wants, arrays))
        if kept is not None:
            found = run_kept(memory, kept, spec, arrays)
            if found is not None:
                return found
    made, arrays = _make(memory, spec, wants, arrays, keep)
    made.held = arrays
    found = run_kept(memory, made, spec, arrays)
    return refused(made) if found is None else found


def refused(kept: Kept) -> NoReturn:
    """Says why a plan could not be bound to what its structs show."""
    kept.handle.rebind(kept.job)
    raise ValueError("the arrays cannot be read as they lie")


def run_kept(
    memory: Memory, kept: Kept, spec: Spec, arrays: Sequence[Any], until: int | None = None
) -> tuple[Any, ...] | None:
    """(structs, status, result, ...); None where the plan cannot be bound to these arrays, and is back.

    `until` is when a call ends that has begun before; None: this is its begin.
    """
    found = None
    try:
        kept.handle.begin(moment_of(spec.deadline) if until is None else until, kept.job)
        try:
            found = kept.run(memory, arrays, _native.layout(*arrays) is not None)
        finally:
            kept.handle.end()
            kept.job.reraise()
    finally:
        if found is None and not kept.lent:
            give(kept)
    return None if found is None else (kept, *found)


def _make(
    memory: Memory, spec: Spec, wants: Wants, arrays: Sequence[Any], keep: bool
) -> tuple[Kept, Sequence[Any]]:
    """New structs, or kept ones of the converted arrays; and the arrays for them."""
    named = named_of(wants.order, arrays)
    operands, lead = memory.fold(spec, named)
    name = name_of(spec, wants, arrays) if keep else None
    if name is None or not are_own(memory, named, operands):
        wants = wants_of(wants.names, WHOLE, wants.certify, lead, wants.kind)
        arrays = operands[: len(WHOLE)]
        name = name_of(spec, wants, arrays) if keep else None
        kept = take(name)
        if kept is not None:
            return kept, arrays
    job = Job(spec, [memory.operand(x) for x in operands])
    return solve_of(memory, job, wants, arrays, (operands[0], lead), name), arrays


def are_own(memory: Memory, named: Mapping[str, Any], operands: Sequence[Any]) -> bool:
    """Whether all operands are the caller's own memory."""
    return all(_is_own(memory, named.get(name), x) for name, x in zip(OPERANDS, operands, strict=True))


def _is_own(memory: Memory, given: Any, operand: Any) -> bool:
    """Whether an operand is the caller's own memory, or a number that is read from there."""
    if given is None or operand is None:
        return given is operand is None
    if memory.address(given) != memory.address(operand):
        return False
    return bool(given.dtype == operand.dtype)


def done(found: tuple[Any, ...]) -> None:
    """Settles the status of what `call` found; the structs go on to the caller."""
    kept = found[0]
    if found[1] or kept.masked or kept.job.failure is not None:
        kept.settle(found[1])


def answer(wants: Wants, request: AuxRequest | None, found: tuple[Any, ...]) -> Any:
    """What a call returns: its first result, or with a request a pair. The structs are given back."""
    try:
        done(found)
        return found[2] if request is None else pair_of(wants, request, found)
    finally:
        give(found[0])


def pair_of(wants: Wants, request: AuxRequest, found: tuple[Any, ...]) -> tuple[Any, AuxOutput]:
    """The first result of a settled call, and what was asked for besides."""
    info, certificate = facts_of(found[0], found[1], request.certificate)
    # "saved" may be behind the others.
    return found[2], aux_of(request, dict(zip(wants.names, found[2:], strict=False)), info, certificate)


def facts_of(kept: Kept, status: int, certify: bool) -> tuple[Info, Certificate | None]:
    """What a solve found out, and the judge's word on it if it is wanted."""
    r = kept.handle.result
    lost = status == c.NONFINITE
    word = status_word(c.NONFINITE_ROWS if lost else status)
    info = Info(word, r.rounds, r.row_error, r.column_error, r.empty_rows, r.nonfinite_rows)
    if not certify:
        return info, None
    return info, errors_only(kept.handle) if lost else kept.certificate()


def named_of(order: Sequence[str], arrays: Sequence[Any]) -> dict[str, Any]:
    """The arrays of a call by name; of a call with keys and values these are there, whatever they are."""
    return {
        name: x
        for name, x in zip(order, arrays, strict=True)
        if x is not None or (name in OPERANDS[:3] and order != WHOLE)
    }


def names_of(first: str, request: AuxRequest | None) -> tuple[str, ...]:
    """The results of a call, the first one of them its own."""
    if request is None:
        return (first,)
    return (first, *(name for name in outputs_of(request) if name != first))


def aux_of(
    request: AuxRequest, found: Mapping[str, Any], info: Info | None, certificate: Certificate | None
) -> AuxOutput:
    """What was asked for, of results by name."""
    return AuxOutput(
        coupling=found["coupling"] if request.coupling else None,
        potentials=Potentials(found["row_potential"], found["column_potential"])
        if request.potentials
        else None,
        receiver=found["receiver"] if request.receiver else None,
        row_stats=RowStats(*(found[name] for name in ("row_entropy", "row_support", "row_max", "sink")))
        if request.row_stats
        else None,
        lse=found["lse"] if request.lse else None,
        certificate=certificate if request.certificate else None,
        info=info,
    )


def coupling_again(spec: Spec, ask: Ask, scores: Any, given: tuple[Any, ...]) -> Any:
    """What `coupling` solves, by the structs of an earlier call with this spec; None: not so.

    The coupling; or with potentials a tuple of coupling, potentials of rows and columns, structs, FACTS, and
    behind them with WITH_CERTIFICATE its numbers. For callers that know their spec. Of tensors the
    caller knows that nobody looks on and that no derivative is wanted. What does not simply succeed is for
    `coupling` itself.
    """
    return _native.again(_kinds, give, spec.token, ask.wants, thread_limit(), ask.behind, scores, *given)


def judged_again(
    spec: Spec, scores: Any, given: tuple[Any, ...], plan: Any, potentials: tuple[Any, Any]
) -> Certificate | None:
    """The judge's word by the structs of an earlier call with potentials; None: not so."""
    kept = take(name_of(spec, WITH_POTENTIALS.wants, (scores, *given)))
    if kept is None:
        return None
    try:
        return kept.certificate(scores, *given, plan, *potentials)
    finally:
        give(kept)
