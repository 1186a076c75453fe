"""The plain call on torch tensors, and the operator's, by the structs of an earlier call like it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from . import _native, _repeat
from . import _structs as c
from ._arrays import output_shape, scratch_of
from ._regulariser import regulariser_named
from ._settings import EXTRA
from ._solve import Job, is_implicit, needs_no_forward, regulariser_of
from ._spec import Spec, spec_of_text
from ._threads import follow, thread_limit
from ._torch_derivative import plain_apply

# How the memory of tensors is seen; torch before 2.10 has no such table, and its calls go the longer way.
_native.tensors(Tensor, getattr(Tensor, "__dlpack_c_exchange_api__", None))
_under_transform = torch._C._are_functorch_transforms_active
_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack
_tracing = torch._C._is_tracing
# Its flag is read; to ask the profiler itself takes as long as all the other questions.
_profiler = torch.autograd.profiler
_compiling = torch.compiler.is_compiling
# As torch's own operators do.
follow(torch.get_num_threads)


def is_watched() -> bool:
    """Whether torch's dispatcher has to see each call.

    A compiler, a transformation or forward mode works on what it sees; a tracer (torch.jit.trace, the ONNX
    exporter of graphs) takes what it does not see for a constant; modes of dispatch and of functions (fake
    tensors, FLOP counters, default devices) stand between; the profiler gives times to operators. All that
    reads and writes the memory of tensors by itself asks here, by `is_plain` or `derivative_wanted`.
    """
    if (
        _compiling()
        or _tracing()
        or _dispatch_modes()
        or _function_modes()
        or _under_transform()
        or _profiler._is_profiler_enabled
    ):
        return True
    return forward_ad._current_level >= 0


def is_plain(*tensors: Tensor) -> bool:
    """Memory on this machine, and nobody looking on."""
    if is_watched():
        return False
    for x in tensors:
        if type(x) not in _KINDS or not x.is_cpu or x.layout != torch.strided or x.is_neg():
            return False
    return True


def derivative_wanted(recorded: bool, tensor: Tensor) -> bool | None:
    """Whether one is, by what `_native.derivative` says of plain tensors like this; None: they are not plain.

    What `_native` takes lies in this machine's memory, which therefore is not asked here.
    """
    if type(tensor) not in _KINDS or is_watched():
        return None
    return recorded and torch.is_grad_enabled()


_WITH_SAVED = ["out", "saved"]
_KINDS = (Tensor, torch.nn.Parameter)


ORDER = (0, 1, 2, 3)


def order_of(query: Tensor) -> tuple[int, ...]:
    """The dimensions [batch, heads, queries, width] of `out` in memory: as the query has them, width last.

    Models keep heads inside of tokens and go on with [batch, tokens, heads * width], which then is no copy.
    """
    strides, sizes = query.stride(), query.shape
    if any(strides[k] == 0 and sizes[k] > 1 for k in range(3)):
        # What is repeated says nothing.
        return ORDER
    return (*sorted(range(3), key=lambda k: -strides[k]), 3)


def empty_in_order(shape: Sequence[Any], order: Sequence[int], like: Tensor, dtype: torch.dtype) -> Tensor:
    """A tensor of this shape whose dimension order[k] is the k-th in memory."""
    strides, dense = [0] * len(shape), 1
    for k in reversed(order):
        strides[k] = dense
        dense = dense * shape[k]
    return like.new_empty_strided(shape, strides, dtype=dtype)


def new_repeat(
    name: Any,
    spec: Spec,
    operands: list[Any],
    given: tuple[Tensor | None, ...],
    names: Sequence[str],
    lead: tuple[int, ...] | None = None,
) -> _repeat.Repeat | None:
    """Structs for calls like this; None where the operands (views and numbers) are not the given memory.

    `lead`, where it is given, are the dimensions of `out` before its last two.
    """
    addresses = [0 if x is None else x.data_ptr() for x in given]
    if not _repeat.same_memory(operands[:4], addresses):
        return None
    from ._torch import _kept, _output_type, _view

    job = Job(spec, operands)
    query = given[0]
    assert query is not None
    order = order_of(query) if query.dim() == 4 and len(lead or (0, 0)) == 2 else ORDER
    wide = query.dtype == torch.float64
    results, outputs = [], {}
    for wanted in names:
        field = _kept(spec, list(names)) if wanted == "saved" else wanted
        whole = output_shape(field, job.sizes) if field else (0,)
        kind = _repeat.result_type(field, wide) if field else c.F64
        shape = whole if lead is None or field != "out" else (*lead, *whole[2:])
        placed = order if field == "out" and order != ORDER else ()
        shape = tuple(shape[k] for k in placed) or shape
        results.append(_repeat.Result(field or None, kind, shape, placed))
        if field:
            like = _output_type(field, query.dtype)
            outputs[field] = _view(empty_in_order(whole, placed or range(len(whole)), query, like))
    keep = {
        field: torch.empty(output_shape(field, job.sizes), dtype=torch.float64)
        for field in scratch_of(job, tuple(outputs))
    }
    outputs |= {field: _view(x) for field, x in keep.items()}
    bound = ["queries", "keys"] if given[3] is None else ["queries", "keys", "attn_mask"]
    repeat = _repeat.forward_of(name, job, bound, ["values"], outputs, results)
    repeat.keep = keep
    return repeat


def run(repeat: _repeat.Repeat, given: tuple[Tensor | None, ...]) -> tuple[Any, ...] | None:
    """Solves into new tensors and hands the structs back; None where these need the longer way."""
    query, key, value, mask = given
    try:
        # In the order of the plan's and forward's fields.
        found = repeat.run(query, key, value) if mask is None else repeat.run(query, key, mask, value)
    finally:
        _repeat.give(repeat)
    return None if found is None else found[1:]


def torch_repeat(spec: Spec, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor | None:
    """`attention` on plain tensors without derivatives; None: not so."""
    given = (query, key, value, mask)
    present = (query, key, value) if mask is None else (query, key, value, mask)
    if torch.is_autocast_enabled("cpu") or not is_plain(*present):
        return None
    layout = _native.layout(*given)
    if layout is None:
        return None
    derivatives = torch.is_grad_enabled() and any(x.requires_grad for x in present)
    if derivatives and mask is not None and mask.requires_grad:
        # No name says that: the node has no gradient of a mask.
        return None
    name = (spec.token, derivatives, thread_limit(), layout)
    repeat = _repeat.take(name)
    if repeat is None:
        repeat = _first(name, spec, given, derivatives)
        if repeat is None:
            return None
    if derivatives:
        if repeat.reverse is None:
            from ._torch import _kept

            repeat.reverse = _kept(repeat.job.spec, _WITH_SAVED)
        kept = repeat.reverse
        outputs = run(repeat, given)
        if outputs is None:
            return None
        out, saved = outputs
        found: Tensor = _solve_plain((out, spec, kept == "lse", saved if kept else None), *given)
        return found
    outputs = run(repeat, given)
    return None if outputs is None else outputs[0]


class _Solve(torch.autograd.Function):
    """A solve with derivatives outside the operator, whose registration costs several times as much.

    It was solved before: what happens in `forward` costs more than outside.
    """

    @staticmethod
    def forward(ctx: Any, solved: tuple[Tensor, Spec, bool, Tensor | None], *given: Tensor | None) -> Tensor:
        """`solved` has an output that nobody else has."""
        out, ctx.spec, with_out, saved = solved
        ctx.save_for_backward(*given, out if with_out else None, saved)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        from . import _torch

        gradient: Tensor | None = gradients[0]

        *given, out, saved = ctx.saved_tensors
        wanted = [
            name
            for name, needed in zip(("query", "key", "value"), ctx.needs_input_grad[1:4], strict=True)
            if needed
        ]
        if gradient is None or not wanted:
            return (None,) * 5
        if not torch.is_grad_enabled() and is_plain(gradient, given[0]):
            repeated = _reverse(ctx.spec, tuple(wanted), tuple(given), gradient, out, saved)
            if repeated is not None:
                left = iter(repeated)
                return (None, *(next(left) if n else None for n in ctx.needs_input_grad[1:4]), None)
        if given[3] is not None:
            given[3] = given[3][(None,) * (4 - given[3].dim())]
        operands = [*given, *_torch.NOTHING]
        # The operator sees to negated views and vmap, and says that there is no second derivative.
        upstream = (gradient, None, None, out, saved)
        words = (_torch._text(ctx.spec), ",".join(wanted))
        found = iter(torch.ops.otattn.gradients(*operands, *upstream, *words))
        return (None, *(next(found) if name in wanted else None for name in ("query", "key", "value")), None)


_solve_plain = plain_apply(_Solve)


def _reverse(
    spec: Spec,
    wanted: tuple[str, ...],
    given: tuple[Tensor | None, ...],
    gradient: Tensor,
    out: Tensor | None,
    saved: Tensor | None,
) -> tuple[Any, ...] | None:
    """Gradients by the structs of an earlier backward like this; None: not so."""
    query, key, value, mask = given
    kept = [x for x in (out, saved) if x is not None]
    # What forward kept has one layout for a problem and a type.
    layout = _native.layout(query, key, value, mask, gradient)
    if layout is None:
        return None
    name = ("backward", spec.token, wanted, thread_limit(), layout)
    reverse = _repeat.take(name)
    if reverse is None:
        reverse = _first_reverse(name, spec, wanted, given, gradient, kept)
        if reverse is None:
            return None
    try:
        bound = (query, key) if mask is None else (query, key, mask)
        found = reverse.run(*bound, value, *kept, gradient)
    finally:
        _repeat.give(reverse)
    return None if found is None else found[1:]


def _first_reverse(
    name: Any,
    spec: Spec,
    wanted: tuple[str, ...],
    given: tuple[Tensor | None, ...],
    gradient: Tensor,
    kept: list[Tensor],
) -> _repeat.Repeat | None:
    from . import _torch

    hard = regulariser_of(spec) == c.HARD
    if hard or not needs_no_forward(spec) or (is_implicit(spec) and not kept):
        return None
    mask = given[3]
    whole = None if mask is None else mask[(None,) * (4 - mask.dim())]
    views = [_torch._operand(x) for x in (*given[:3], whole, *_torch.NOTHING)]
    job = Job(spec, views, gradients=True)
    # The multipliers answer for the solution, wherever its search began.
    job.start = None
    fields = ("column_potential",) if len(kept) == 1 else ("out", "lse")
    shapes = [
        tuple(x.shape)
        for n, x in zip(("query", "key", "value"), given, strict=False)
        if n in wanted and x is not None
    ]
    results = {
        n: _torch._view(torch.empty(shape, dtype=gradient.dtype))
        for n, shape in zip(wanted, shapes, strict=True)
    }
    return _repeat.backward_of(
        name,
        job,
        ["queries", "keys"] if mask is None else ["queries", "keys", "attn_mask"],
        {field: _torch._view(x) for field, x in zip(fields, kept, strict=bool(kept))},
        {"out_grad": _torch._view(gradient)},
        results,
        shapes,
    )


def _first(name: Any, spec: Spec, given: Any, derivatives: bool) -> _repeat.Repeat | None:
    from . import _torch

    query, key, value = given[:3]
    folded = _torch.folded_of(query, key, value, spec.enable_gqa)
    heads, queries = folded.query.shape[1:3]
    others = _torch._operands_of(
        _only_mask(given[3]), folded.batch, (heads, queries, folded.key.shape[2]), given[0]
    )
    views = [_torch._operand(x) for x in (folded.query, folded.key, folded.value, *others)]
    names = _WITH_SAVED if derivatives else ["out"]
    shapes = [tuple(x.shape) for x in (folded.query, folded.key, folded.value)]
    if derivatives and shapes != [tuple(x.shape) for x in given[:3]]:
        # Gradients have the shapes of the operands, not of what they were broadcast from.
        return None
    return new_repeat(name, spec, views, given, names, folded.lead)


def _only_mask(mask: Tensor | None) -> tuple[Any, ...]:
    return (mask, *(None,) * (EXTRA - 1))


def operator_repeat(operands: list[Tensor | None], text: str, wanted: str) -> list[Tensor] | None:
    """The same for the operator `solve` with four-dimensional query, key, value and mask alone."""
    given = (operands[0], operands[1], operands[2], operands[3])
    query, key, value = given[:3]
    if wanted not in ("out", "out,saved") or key is None or value is None:
        return None
    assert query is not None
    spec = spec_of_text(text)
    if (
        any(x is not None for x in operands[4:])
        or spec.deadline is not None
        or spec.progress is not None
        or regulariser_named(spec.method)
        or not (query.dim() == key.dim() == value.dim() == 4)
    ):
        return None
    layout = _native.layout(*given)
    if layout is None:
        return None
    name = (text, wanted, thread_limit(), layout)
    repeat = _repeat.take(name)
    if repeat is None:
        from . import _torch

        views = [_torch._operand(x) for x in operands]
        repeat = new_repeat(name, spec, views, given, wanted.split(","))
        if repeat is None:
            return None
    found = run(repeat, given)
    return None if found is None else list(found)
