"""Calls on plain tensors that nobody looks on at: as NumPy's, with one node of autograd for derivatives."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import _native
from . import _structs as c
from ._aux import AuxRequest
from ._call import (
    ATTENTION,
    COUPLING,
    Ask,
    Wants,
    answer,
    call,
    done,
    kept_field,
    pair_of,
    wants_of,
)
from ._gradients import UPSTREAM, gradients
from ._kept import Kept, give
from ._kept import _kinds as kinds
from ._progress import watch_named
from ._regulariser import regulariser_named
from ._settings import DIFFERENTIABLE, PLACES, is_of_torch
from ._spec import Spec
from ._template import is_implicit, regulariser_of
from ._threads import thread_limit
from ._torch_derivative import plain_apply
from ._torch_fold import TORCH, under_autocast
from ._torch_watch import derivative_wanted, is_plain

# Whether it is on for any device, which costs least to ask.
_autocast = torch._C._is_any_autocast_enabled


class Way(NamedTuple):
    """What the derivatives of one kind of call have in common."""

    spec: Spec
    """Of a solve that kept its promises, so that backward may start from it."""
    saved: int | None
    """Which result backward starts from."""
    with_out: bool
    """Backward reads the first result, too."""
    by_operator: bool
    """Backward is more than a call of the library."""


def _way_of(kept: Kept, wants: Wants) -> Way:
    spec = kept.job.spec
    field = kept_field(spec, wants.names)
    names = [name for name in wants.names if name != "saved"]
    saved = None if not field else names.index(field) if field in names else len(names)
    hard = regulariser_of(spec) == c.HARD
    kept.way = way = Way(
        spec._replace(allow_partial=False) if "coupling" in names[:1] else spec,
        saved,
        field == "lse",
        hard or spec.nonfinite != "raise",
    )
    return way


def solved(spec: Spec, wants: tuple[Wants, Wants], arrays: Sequence[Any], request: AuxRequest | None) -> Any:
    """What a call on tensors returns, its first result and those that `wants` has for derivatives.

    `NotImplemented` where torch's dispatcher has to see the call.
    """
    if _autocast():
        if not all(x is None or isinstance(x, Tensor) for x in arrays):
            return NotImplemented
        arrays = tuple(under_autocast(dict(zip(wants[0].order, arrays, strict=True))).values())
    present = [x for x in arrays if x is not None]
    wanted = _is_wanted(present)
    if wanted is None or is_of_torch(spec.backend):
        return NotImplemented
    if not wanted:
        return answer(wants[0], request, call(TORCH, spec, wants[0], arrays))
    if request is not None and (request.receiver or (request.coupling and wants[0].names[0] != "coupling")):
        # They have derivatives of their own.
        return NotImplemented
    found = call(TORCH, spec, wants[1], arrays)
    kept, status, first, *rest = found
    try:
        done(found)
        way = kept.way or _way_of(kept, wants[1])
        saved = None if way.saved is None else found[2 + way.saved]
        order, given = wants[1].order, arrays
        if len(present) == 1:
            order, given = order[:1], arrays[:1]
        used = way.spec if status == c.OK else spec
        made = _solved_plain((first, (used, order, wants[1].names[0], way), saved), *given)
        return made if request is None else pair_of(wants[1], request, (kept, status, made, *rest))
    finally:
        give(kept)


def _is_wanted(present: list[Any]) -> bool | None:
    """Whether a derivative of these arrays is; None where torch's dispatcher has to see the call."""
    recorded = _native.derivative(*present)
    wanted = None if recorded is None else derivative_wanted(recorded, present[0])
    if wanted is None:
        if not all(isinstance(x, Tensor) for x in present) or not is_plain(*present):
            return None
        return torch.is_grad_enabled() and any(x.requires_grad for x in present)
    for x in present:
        if not x.is_cpu:
            return None
    return wanted


_BY_TOKENS = wants_of(("out",), ATTENTION, False, None, "tokens")


def solved_by_tokens(spec: Spec, wants: tuple[Wants, Wants], arrays: Sequence[Any]) -> Any:
    """The output (batch, queries, heads, width), dense, of query, key and value with heads before tokens.

    `NotImplemented` where torch's dispatcher has to see the call, and under autocast.
    """
    wanted = None if _autocast() else _is_wanted([x for x in arrays if x is not None])
    if wanted is None or is_of_torch(spec.backend):
        return NotImplemented
    if wanted:
        found = solved(spec, wants, arrays, None)
        return found if found is NotImplemented else found.transpose(1, 2).contiguous()
    # What does not simply succeed is solved once more, and says why.
    found = _native.again(kinds, give, spec.token, _BY_TOKENS, thread_limit(), 0, *arrays)
    return answer(_BY_TOKENS, None, call(TORCH, spec, _BY_TOKENS, arrays)) if found is None else found


class _Solved(torch.autograd.Function):
    """A solve with derivatives outside the operator, whose registration costs several times as much.

    It was solved before: what happens in `forward` costs more than outside.
    """

    @staticmethod
    def forward(ctx: Any, solved: tuple[Any, ...], *arrays: Tensor | None) -> Tensor:
        """`solved` has a result that nobody else has."""
        first: Tensor = solved[0]
        ctx.node = solved[1]
        spec, way = solved[1][0], solved[1][3]
        if not spec.is_plain:
            # What a word of the spec stands for.
            ctx.alive = regulariser_named(spec.method), watch_named(spec.progress)
        ctx.save_for_backward(*arrays, first if way.with_out else None, solved[2])
        return first

    @staticmethod
    def backward(ctx: Any, *upstream: Any) -> tuple[Any, ...]:
        *arrays, out, saved = ctx.saved_tensors
        return None, *_gradients(ctx.node, ctx.needs_input_grad[1:], arrays, upstream[0], (out, saved))


class _Value(torch.autograd.Function):
    """The sum of a coupling times the scores."""

    @staticmethod
    def forward(ctx: Any, solved: tuple[Any, ...], *arrays: Tensor | None) -> Tensor:
        """`solved` has a sum that nobody else has."""
        value: Tensor = solved[0]
        ctx.node = solved[1]
        ctx.save_for_backward(*arrays, solved[2], solved[3])
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        *arrays, plan, saved = ctx.saved_tensors
        gradient = gradients[0]
        # Forbidden pairs, whose cost is inf, carry nothing.
        upstream = gradient * arrays[0].where(arrays[0] < math.inf, 0.0)
        needed = ctx.needs_input_grad[1:]
        first, *others = _gradients(ctx.node, needed, arrays, upstream, (None, saved))
        return None, first + gradient * plan if first is not None else None, *others


_solved_plain, _value_plain = plain_apply(_Solved), plain_apply(_Value)


def _gradients(
    node: tuple[Spec, tuple[str, ...], str, Way],
    needed: tuple[bool, ...],
    arrays: list[Any],
    gradient: Tensor | None,
    left: tuple[Tensor | None, Tensor | None],
) -> tuple[Tensor | None, ...]:
    """Those of a node's arrays that are needed, for an upstream gradient and what forward left."""
    spec, order, first, way = node
    wanted = tuple(name for name, x in zip(order, needed, strict=True) if x)
    if gradient is None or not wanted:
        return (None,) * len(order)
    upstream = (gradient, None) if first == "out" else (None, gradient)
    found: Sequence[Tensor | None] | None = None
    if not way.by_operator and not torch.is_grad_enabled() and is_plain(gradient, arrays[0]):
        wants = wants_of(wanted, (*order, *UPSTREAM), False, None, "gradients")
        found = gradients(TORCH, spec, wants, (*arrays, *upstream, *left))
    if found is None:
        found = _through_operator(node, needed, arrays, gradient, left)
    results = iter(found)
    return tuple(next(results) if x else None for x in needed)


def _through_operator(
    node: tuple[Spec, tuple[str, ...], str, Way],
    needed: tuple[bool, ...],
    arrays: list[Any],
    gradient: Tensor,
    left: tuple[Tensor | None, Tensor | None],
) -> Sequence[Tensor | None]:
    """The same of arrays that are converted, negated or looked on at; no second derivative follows."""
    from ._torch import text_for

    spec, order, first, _ = node
    named = {name: x for name, x in zip(order, arrays, strict=True) if x is not None}
    with torch.enable_grad():
        operands, _ = TORCH.fold(spec, named)
    names = [name for name in DIFFERENTIABLE if (x := operands[PLACES[name]]) is not None and x.requires_grad]
    query, value = operands[0], operands[2]
    assert query is not None
    whole = (*query.shape[:3], query.shape[3] if value is None else value.shape[3])
    gradient, (out, saved) = gradient.reshape(whole), left
    if saved is not None:
        keys = query.shape[3] if operands[1] is None else operands[1].shape[2]
        length = keys if is_implicit(spec) else query.shape[2]
        saved = saved.reshape((*query.shape[:2], 1, length))
    upstream = (gradient, None, None) if first == "out" else (None, gradient, None)
    out = None if out is None else out.reshape(whole)
    found = torch.ops.otattn.gradients(*operands, *upstream, out, saved, text_for(spec), ",".join(names))
    by_name = dict(zip(names, found, strict=True))
    wanted = [(name, x) for name, x, n in zip(order, arrays, needed, strict=True) if n]
    if all(name in by_name and by_name[name].shape == x.shape for name, x in wanted):
        return [by_name[name] for name, _ in wanted]
    # Back through what made operands of the arrays.
    outputs = [operands[PLACES[name]] for name in names]
    inputs, again = [x for _, x in wanted], torch.is_grad_enabled()
    return torch.autograd.grad(outputs, inputs, list(found), create_graph=again, allow_unused=True)


# ---- by the structs of an earlier call -------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _derived(wants: Wants) -> Wants:
    return wants_of((*wants.names, "saved"), wants.order)


# The inputs of a node by the names of their gradients: fewer of them cost less.
_TRANSPORT = ("query", "row_mass", "column_mass")


def couple_again(
    spec: Spec, ask: Ask, scores: Tensor, given: tuple[Tensor | None, ...], value: bool = False
) -> Any:
    """As `coupling_again`, of plain tensors and with derivatives; None: not so.

    With `value` the sum of coupling times scores is in the place of the coupling.
    """
    behind = ask.behind or 1
    wants = _derived(ask.wants)
    found = _native.again(kinds, give, spec.token, wants, thread_limit(), behind, scores, *given)
    if found is None:
        return None
    kept = found[-behind]
    way = kept.way or _way_of(kept, wants)
    saved = None if way.saved is None else found[way.saved]
    mask, rows, columns, start = given
    order: tuple[str, ...] = COUPLING
    arrays: tuple[Tensor | None, ...] = (scores, *given)
    if mask is start is None and rows is not None and columns is not None:
        order, arrays = _TRANSPORT, (scores, rows, columns)
    node = (way.spec, order, "coupling", way)
    if value:
        number = _native.linear(found[0], scores)
        if number is None:
            return None
        first = _value_plain((number, node, found[0], saved), *arrays)
    else:
        first = _solved_plain((found[0], node, saved), *arrays)
    if ask.behind == 0:
        return first
    results = found[1 : len(ask.wants.names)]
    return (first, *results, *found[-behind:])
