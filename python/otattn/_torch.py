"""torch in, torch out: the operators solve, gradients and tangents of torch.ops.otattn.

All three take the operands of a solve (four-dimensional, or scalars), the spec as one line of text, and
the names of the results that are wanted. Forward keeps nothing but the column potential or, for softmax, the
log-sum-exp of every row; backward differentiates from there, so a training step holds no plan.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import TransformType, get_interpreter_stack
from torch._subclasses.fake_tensor import is_fake
from torch.fx.experimental.symbolic_shapes import has_static_value

from . import _structs as c
from ._arrays import output_shape
from ._aux import AuxRequest
from ._call import (
    FACTS_LENGTH,
    WHOLE,
    aux_of,
    call,
    done,
    facts_of,
    kept_field,
    names_of,
    wants_of,
)
from ._certificate import Certificate, certificate_from_values
from ._device.call import gradients_of_tensors, solve_tensors
from ._device.choice import away, brought, check_devices, on_device, returned, with_moving
from ._errors import NotConverged, NotFinite
from ._gradients import UPSTREAM, gradients
from ._gradients import tangents as along
from ._kept import give
from ._outcome import Info
from ._progress import watch_named
from ._regulariser import regulariser_named
from ._settings import DIFFERENTIABLE, OPERANDS, PLACES
from ._spec import Spec
from ._spec_text import apart, spec_of_text, text_of, with_numbers
from ._template import regulariser_of
from ._torch_derivative import in_forward_mode, no_second, no_setup, register
from ._torch_device import warn_of_cpu, wide_type
from ._torch_fold import TORCH, fold_all, under_autocast
from ._torch_vmap import gradients_vmap, looped_vmap, solve_vmap
from ._torch_watch import empty_in_order, order_of

_COUNT = len(OPERANDS)
# No operand behind query, key, value and mask.
NOTHING = (None,) * (_COUNT - 4)

_operands = ", ".join(f"Tensor {name}" if name == "query" else f"Tensor? {name}" for name in OPERANDS)
_library = torch.library.Library("otattn", "DEF")
_library.define(f"solve({_operands}, str spec, str outputs) -> Tensor[]")
_library.define(
    f"gradients({_operands}, Tensor? out_grad, Tensor? coupling_grad, Tensor? receiver_grad, "
    "Tensor? out, Tensor? saved, str spec, str wanted) -> Tensor[]"
)
_directions = ", ".join(f"Tensor? {name}_tangent" for name in DIFFERENTIABLE)
_library.define(f"tangents({_operands}, {_directions}, str spec, str outputs) -> Tensor[]")


# torch.compile looks through caches and warns about each, so it calls text_of itself.
_text = functools.lru_cache(maxsize=512)(text_of)


def text_for(spec: Spec) -> str:
    """The text of a spec. A cache would hold the function that is told of progress."""
    return _text(spec) if spec.progress is None else text_of(spec)


def _output_type(name: str, dtype: torch.dtype) -> torch.dtype:
    if name in ("out", "coupling"):
        return dtype
    wide = name in ("saved", "facts", "row_potential", "column_potential")
    return torch.float64 if wide or dtype == torch.float64 else torch.float32


def _sizes(query: Tensor, key: Tensor | None, value: Tensor | None) -> tuple[Any, ...]:
    keys, key_heads = (query.shape[3], query.shape[1]) if key is None else (key.shape[2], key.shape[1])
    return (*query.shape[:3], keys, key_heads, 0 if value is None else value.shape[3])


def _allocate(names: list[str], query: Tensor, sizes: tuple[Any, ...], kept: str = "") -> list[Tensor]:
    found = []
    for name in names:
        shape: tuple[Any, ...]
        if name == "facts":
            shape = (FACTS_LENGTH,)
        elif name == "saved" and not kept:
            shape = (0,)
        else:
            shape = output_shape(kept if name == "saved" else name, sizes)
        dtype = _output_type(kept if name == "saved" and kept else name, query.dtype)
        if dtype == torch.float64 and name != "facts":
            dtype = wide_type(query.device)
        if name == "out":
            found.append(empty_in_order(shape, order_of(query), query, dtype))
        elif name == "facts":
            found.append(torch.empty(shape, dtype=dtype))
        else:
            found.append(query.new_empty(shape, dtype=dtype))
    return found


# ---- forward -------------------------------------------------------------------------------------


def _named(spec: Spec, named: Mapping[str, Any]) -> tuple[list[Any], tuple[int, ...]]:
    """Operands of the operator are what they have to be."""
    return [named.get(name) for name in OPERANDS], ()


_MEMORY = TORCH._replace(fold=_named)


def _spec_and_arrays(operands: Sequence[Tensor | None], text: str) -> tuple[Spec, list[Tensor | None]]:
    """With the numbers of a graph in the place of the spec's own, which no plan is kept for."""
    spec, *arrays = spec_of_text(text), *operands[: len(WHOLE)]
    numbers = operands[PLACES["numbers"]]
    return (spec if numbers is None else with_numbers(spec, numbers.tolist())), arrays


def _solve(*arguments: Any) -> list[Tensor]:
    *operands, text, wanted = arguments
    spec = spec_of_text(text)
    if not on_device(spec, operands):
        return _solve_cpu(*arguments)
    spec = with_moving(spec, operands)
    if away(spec, operands):
        return returned(_solve_cpu(*brought(arguments, spec)), operands[0])
    names = wanted.split(",")
    kept = kept_field(spec, names)
    results = _solve_fake(*arguments)
    solve_tensors(spec, operands, names, kept, results)
    return results


def _solve_cpu(*arguments: Any) -> list[Tensor]:
    *operands, text, wanted = arguments
    spec, arrays = _spec_and_arrays(operands, text)
    names = tuple(wanted.split(","))
    wants = wants_of(names, WHOLE, "facts" in names and "row_potential" in names, None, "operator")
    found = call(_MEMORY, spec, wants, arrays, operands[PLACES["numbers"]] is None)
    kept = found[0]
    try:
        done(found)
        results = dict(zip(names, found[2:], strict=True))
        if "facts" in results:
            info, certificate = facts_of(kept, found[1], wants.certify)
            numbers = (info.rounds, info.row_error, info.column_error, info.empty_rows, info.nonfinite_rows)
            record = [_WORDS.index(info.status), *numbers, *(certificate or Certificate())]
            results["facts"].copy_(torch.tensor(record, dtype=torch.float64))
        if "saved" in results and (field := kept_field(spec, names)) in results:
            # Results of an operator may not share memory.
            results["saved"].copy_(results[field])
    finally:
        give(kept)
    return list(results.values())


_WORDS = ("ok", "fixed_iters", "partial", "nonfinite_rows")


def _solve_fake(*arguments: Any) -> list[Tensor]:
    *operands, text, wanted = arguments
    query, key, value = operands[:3]
    names = wanted.split(",")
    return _allocate(names, query, _sizes(query, key, value), kept_field(spec_of_text(text), names))


# ---- backward ------------------------------------------------------------------------------------


def _is_hard(spec: Spec) -> bool:
    return regulariser_of(spec) == c.HARD


def _weights_of(operands: list[Any], text: str) -> Tensor:
    """[batch, heads, queries, keys]: what multiplies the values, behind dropout: the output of unit ones."""
    unit = torch.eye(operands[2].shape[2], dtype=operands[2].dtype)
    values = unit.expand(*operands[2].shape[:2], -1, -1)
    found: Tensor = _solve_cpu(*operands[:2], values, *operands[3:], text, "out")[0]
    return found


def _value_gradient(operands: list[Any], out_grad: Tensor | None, text: str) -> Tensor:
    """P^T times the upstream gradient, over the heads of each key head: all that plans which jump have."""
    value: Tensor = operands[2]
    if out_grad is None:
        return torch.zeros_like(value)
    wide = torch.float64 if value.dtype == torch.float64 else torch.float32
    each = _weights_of(operands, text).mT.to(wide) @ out_grad.to(wide)
    found: Tensor = each.unflatten(1, (value.shape[1], -1)).sum(2).to(value.dtype)
    return found


def _gradients(*arguments: Any) -> list[Tensor]:
    *operands, out_grad, coupling_grad, receiver_grad, _, saved, text, wanted = arguments
    spec = spec_of_text(text)
    if not on_device(spec, operands):
        return _gradients_cpu(*arguments)
    spec = with_moving(spec, operands)
    if away(spec, operands):
        return returned(_gradients_cpu(*brought(arguments, spec)), operands[0])
    upstream = (out_grad, coupling_grad, receiver_grad)
    return gradients_of_tensors(spec, operands, upstream, saved, wanted.split(","))


def _gradients_cpu(*arguments: Any) -> list[Tensor]:
    *operands, out_grad, coupling_grad, receiver_grad, out, saved, text, wanted = arguments
    spec, names = spec_of_text(text), wanted.split(",")
    if names == ["value"] and _is_hard(spec):
        return [_value_gradient(operands, out_grad, text)]
    if operands[PLACES["numbers"]] is not None:
        spec = with_numbers(spec, operands[PLACES["numbers"]].tolist())
    query: Tensor = operands[0]
    if saved is not None:
        # vmap repeats with stride 0, which no output of the library may have.
        saved, out = saved.contiguous(), out if out is None else out.contiguous()
    if saved is not None and saved.numel() == 0:
        saved = None
    if receiver_grad is not None:
        # A column sum has the same derivative in every row: stride 0, no matrix.
        sizes = _sizes(*operands[:3])
        every = receiver_grad.to(query.dtype).expand(output_shape("coupling", sizes))
        coupling_grad = every if coupling_grad is None else coupling_grad + every
    arrays = [*operands[: len(WHOLE)], out_grad, coupling_grad, out, saved]
    wants = wants_of(tuple(names), (*WHOLE, *UPSTREAM), False, None, "gradients")
    try:
        found = gradients(_MEMORY, spec, wants, arrays)
    except (NotConverged, NotFinite):
        if spec.nonfinite != "nan" or _are_finite(*operands[:3], out_grad, coupling_grad, saved):
            raise
        # No linear system of such numbers has a solution; whoever scales losses looks for NaN.
        return [x.fill_(torch.nan) for x in _gradients_fake(*arguments)]
    assert found is not None
    return list(found)


def _are_finite(*tensors: Tensor | None) -> bool:
    return all(bool(x.isfinite().all()) for x in tensors if x is not None)


def _gradients_fake(*arguments: Any) -> list[Tensor]:
    wanted: str = arguments[-1]
    return [
        torch.empty(x.shape, dtype=x.dtype, device=x.device)
        for x in (arguments[PLACES[name]] for name in wanted.split(","))
    ]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    *operands, text, wanted = inputs
    names = wanted.split(",")
    out = saved = None
    kept = kept_field(spec_of_text(text), names) if "saved" in names else ""
    if kept:
        saved = output[names.index("saved")]
    if kept == "lse":
        out = output[names.index("out")]
    ctx.save_for_backward(*operands, out, saved)
    ctx.save_for_forward(*operands)
    ctx.text, ctx.names = text, names
    # Neither upstream gradients nor tangents of zeros, which are derivatives to compute.
    ctx.set_materialize_grads(False)
    # A graph may be all that still holds it.
    spec = spec_of_text(text)
    ctx.regulariser, ctx.progress = regulariser_named(spec.method), watch_named(spec.progress)
    ctx.mark_non_differentiable(
        *(x for name, x in zip(names, output, strict=True) if name not in ("out", "coupling", "receiver"))
    )


def _backward(ctx: Any, gradients: Sequence[Tensor | None]) -> tuple[Any, ...]:
    *operands, out, saved = ctx.saved_tensors
    given = dict(zip(ctx.names, gradients, strict=True))
    wanted = [
        name
        for name, needed, x in zip(OPERANDS, ctx.needs_input_grad, operands, strict=False)
        if needed and x is not None and name in DIFFERENTIABLE
    ]
    results: list[Tensor | None] = [None] * (_COUNT + 2)
    upstream = [given.get(name) for name in ("out", "coupling", "receiver")]
    if not wanted or all(x is None for x in upstream):
        return tuple(results)
    found = torch.ops.otattn.gradients(*operands, *upstream, out, saved, ctx.text, ",".join(wanted))
    for name, gradient in zip(wanted, found, strict=True):
        results[PLACES[name]] = gradient
    return tuple(results)


# ---- forward mode --------------------------------------------------------------------------------


def _tangents(*arguments: Any) -> list[Tensor]:
    """Forward mode is the library's alone."""
    spec = spec_of_text(arguments[-2])
    if not on_device(spec, arguments[:_COUNT]):
        return _tangents_cpu(*arguments)
    if not arguments[0].is_cpu:
        warn_of_cpu("forward mode")
    return returned(_tangents_cpu(*brought(arguments, spec)), arguments[0])


def _tangents_cpu(*arguments: Any) -> list[Tensor]:
    *both, text, wanted = arguments
    operands, tangents = both[:_COUNT], both[_COUNT:]
    moving = [name for name, x in zip(DIFFERENTIABLE, tangents, strict=True) if x is not None]
    if moving == ["value"] and wanted == "out" and _is_hard(spec_of_text(text)):
        # What is linear has itself along a tangent.
        values = tangents[DIFFERENTIABLE.index("value")]
        return _solve_cpu(*operands[:2], values, *operands[3:], text, "out")
    spec, arrays = _spec_and_arrays(operands, text)
    wants = wants_of(tuple(wanted.split(",")), _ALONG, False, None, "tangents")
    return list(along(_MEMORY, spec, wants, [*arrays, *tangents]))


_ALONG = (*WHOLE, *(f"{name}_tangent" for name in DIFFERENTIABLE))


def _tangents_fake(*arguments: Any) -> list[Tensor]:
    query, key, value = arguments[:3]
    return _allocate(arguments[-1].split(","), query, _sizes(query, key, value))


def _along(ctx: Any, tangents: tuple[Any, ...]) -> tuple[Tensor | None, ...]:
    """The tangents of what a solve returned, None for what has no derivative."""
    given = [
        None if x is None or tangent is None else tangent.to(x.dtype)
        for x, tangent in zip(ctx.saved_tensors, tangents, strict=False)
    ]
    wanted = [name for name in ("out", "coupling", "receiver") if name in ctx.names]
    fields = dict.fromkeys("out" if name == "out" else "coupling" for name in wanted)
    places = [PLACES[name] for name in DIFFERENTIABLE]
    moved = torch.ops.otattn.tangents(
        *ctx.saved_tensors[:_COUNT], *(given[k] for k in places), ctx.text, ",".join(fields)
    )
    found = dict(zip(fields, moved, strict=True))
    if "receiver" in wanted:
        found["receiver"] = found["coupling"].sum(2, keepdim=True)
    return tuple(found.get(name) if name in wanted else None for name in ctx.names)


# ---- the operators -------------------------------------------------------------------------------

# Of tensors of any device.
_library.impl("solve", _solve, "CompositeExplicitAutograd")
_library.impl("gradients", _gradients, "CompositeExplicitAutograd")
_library.impl("tangents", _tangents, "CompositeExplicitAutograd")
torch.library.register_fake("otattn::solve", _solve_fake, lib=_library)
torch.library.register_fake("otattn::gradients", _gradients_fake, lib=_library)
torch.library.register_fake("otattn::tangents", _tangents_fake, lib=_library)
register(_library, "solve", _setup, _backward, _along)
register(_library, "gradients", no_setup, no_second, no_second)
register(_library, "tangents", no_setup, no_second, no_second)
torch.library.register_vmap("otattn::solve", solve_vmap, lib=_library)
torch.library.register_vmap("otattn::gradients", gradients_vmap, lib=_library)
torch.library.register_vmap("otattn::tangents", looped_vmap(torch.ops.otattn.tangents), lib=_library)


# ---- the public calls on tensors -----------------------------------------------------------------


def _apart(spec: Spec) -> tuple[Spec, Tensor | None]:
    """What is the same in all calls of a graph, and the numbers that change from one to the next."""
    still, numbers = apart(spec, _is_moving)
    if not numbers:
        return spec, None
    one = torch.ones((), dtype=torch.float64)
    return still, torch.stack([one * x for x in numbers])


def _is_moving(x: Any) -> bool:
    return not has_static_value(x)


def _call(
    spec: Spec,
    operands: list[Tensor | None],
    first: str,
    lead: tuple[int, ...],
    request: AuxRequest | None,
) -> Any:
    names = [*names_of(first, request)]
    compiling = torch.compiler.is_compiling()
    needs_grad = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in operands)
    if needs_grad:
        names.append("saved")
    if request is not None and not compiling and _has_numbers(operands[0]):
        names.append("facts")
    # needs_grad does not see through the wrappers of torch.func.
    transformed = torch._C._are_functorch_transforms_active() or (not compiling and in_forward_mode())
    if transformed and "saved" not in names:
        names.append("saved")
    if compiling:
        spec, operands[PLACES["numbers"]] = _apart(spec)
    # A cache would hold the function that is told of progress.
    text = text_of(spec) if compiling or spec.progress is not None else _text(spec)
    found = torch.ops.otattn.solve(*operands, text, ",".join(names))
    if request is None:
        return _back(first, found[0], lead)
    kept = {
        name: x if name in ("facts", "saved") else _back(name, x, lead)
        for name, x in zip(names, found, strict=True)
    }
    info = certificate = None
    if "facts" in kept:
        info, certificate = _facts(kept["facts"].tolist())
    return kept[first], aux_of(request, kept, info, certificate)


def _has_numbers(x: Tensor | None) -> bool:
    """Whether results of a call on this can be read now: not of shapes alone, nor of many calls at once."""
    if x is None or x.is_meta or is_fake(x):
        return False
    return all(level.key() != TransformType.Vmap for level in get_interpreter_stack() or ())


def _back(name: str, x: Tensor, lead: tuple[int, ...]) -> Tensor:
    tail = x.shape[2:] if name in ("out", "coupling") else x.shape[3:]
    return x if tuple(x.shape[:-2]) == lead and len(tail) == 2 else x.reshape((*lead, *tail))


def _facts(numbers: list[float]) -> tuple[Info, Certificate]:
    status, rounds, row_error, column_error, empty, nonfinite, *rest = numbers
    info = Info(
        status=_WORDS[int(status)],
        rounds=int(rounds),
        row_error=row_error,
        column_error=column_error,
        empty_rows=int(empty),
        nonfinite_rows=int(nonfinite),
    )
    return info, certificate_from_values(rest)


def by_operator(spec: Spec, named: dict[str, Any], first: str, request: AuxRequest | None) -> Any:
    """A call on tensors that torch's dispatcher sees."""
    check_devices(named)
    operands, lead = fold_all(spec, under_autocast(named))
    return _call(spec, operands, first, lead, request)
