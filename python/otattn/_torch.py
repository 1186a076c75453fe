"""torch in, torch out: the operators solve, gradients and tangents of torch.ops.otattn.

All three take the operands of a solve (four-dimensional, or scalars), the spec as one line of text, and
the names of the results that are wanted. Forward keeps nothing but the column potential or, for softmax, the
log-sum-exp of every row; backward differentiates from there, so a training step holds no plan.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import TransformType, get_interpreter_stack
from torch._subclasses.fake_tensor import is_fake
from torch.fx.experimental.symbolic_shapes import has_static_value

from . import _structs as c
from ._arrays import output_shape
from ._aux import AuxOutput, AuxRequest, Potentials, RowStats, outputs_of
from ._certificate import Certificate, certificate_from_values
from ._errors import NotConverged, NotFinite
from ._progress import watch_named
from ._regulariser import regulariser_named
from ._settings import DIFFERENTIABLE, EXTRA, OPERANDS, PLACES, shown
from ._shapes import (
    Folded,
    dense,
    fold,
    fold_heads,
    fold_pairs,
    fold_relative,
    fold_scores,
    fold_vector,
    of_numbers,
    of_pairs,
    shape_text,
)
from ._solve import (
    Info,
    Job,
    Operand,
    View,
    differentiate,
    differentiate_along,
    is_closed_form,
    is_implicit,
    needs_coupling,
    needs_no_forward,
    regulariser_of,
    solve,
)
from ._spec import Spec, apart, spec_of_text, text_of
from ._torch_derivative import in_forward_mode, no_second, no_setup, register
from ._torch_repeat import empty_in_order, operator_repeat, order_of
from ._torch_vmap import gradients_vmap, solve_vmap, tangents_vmap

_TYPES = {
    torch.float64: c.F64,
    torch.float32: c.F32,
    torch.bfloat16: c.BF16,
    torch.float16: c.F16,
    torch.bool: c.BOOL,
    torch.int64: c.I64,
}
_FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
_COUNT = len(OPERANDS)
# No operand behind query, key, value and mask.
NOTHING = (None,) * (_COUNT - 4)
_FACTS = 6 + len(Certificate._fields)

_operands = ", ".join(f"Tensor {name}" if name == "query" else f"Tensor? {name}" for name in OPERANDS)
_library = torch.library.Library("otattn", "DEF")
_library.define(f"solve({_operands}, str spec, str outputs) -> Tensor[]")
_library.define(
    f"gradients({_operands}, Tensor? out_grad, Tensor? coupling_grad, Tensor? receiver_grad, "
    "Tensor? out, Tensor? saved, str spec, str wanted) -> Tensor[]"
)
_tangents = ", ".join(f"Tensor? {name}_tangent" for name in DIFFERENTIABLE)
_library.define(f"tangents({_operands}, {_tangents}, str spec, str outputs) -> Tensor[]")


# torch.compile looks through caches and warns about each, so it calls text_of itself.
_text = functools.lru_cache(maxsize=512)(text_of)


def _view(x: Tensor) -> View:
    if x.dim() == 0:
        return (x.data_ptr(), _TYPES[x.dtype], 1, 1, 1, 1, 0, 0, 0, 0)
    return (x.data_ptr(), _TYPES[x.dtype], *x.shape, *x.stride())


def _operand(x: Tensor | None) -> Operand:
    if x is None:
        return None
    if x.dim() == 1:
        # Seed and offset of dropout, and numbers.
        return tuple(x.tolist())
    return float(x) if x.dim() == 0 else _view(x)


def _output_type(name: str, dtype: torch.dtype) -> torch.dtype:
    if name in ("out", "coupling"):
        return dtype
    wide = name in ("saved", "facts", "row_potential", "column_potential")
    return torch.float64 if wide or dtype == torch.float64 else torch.float32


def _sizes(query: Tensor, key: Tensor | None, value: Tensor | None) -> tuple[Any, ...]:
    keys, key_heads = (query.shape[3], query.shape[1]) if key is None else (key.shape[2], key.shape[1])
    return (*query.shape[:3], keys, key_heads, 0 if value is None else value.shape[3])


def _kept(spec: Spec, names: list[str]) -> str:
    """The output of forward that backward starts from, or ""."""
    if is_implicit(spec):
        return "column_potential"
    return "lse" if "out" in names and is_closed_form(spec) else ""


def _allocate(names: list[str], query: Tensor, sizes: tuple[Any, ...], kept: str = "") -> list[Tensor]:
    found = []
    for name in names:
        shape: tuple[Any, ...]
        if name == "facts":
            shape = (_FACTS,)
        elif name == "saved" and not kept:
            shape = (0,)
        else:
            shape = output_shape(kept if name == "saved" else name, sizes)
        dtype = _output_type(kept if name == "saved" and kept else name, query.dtype)
        if name == "out":
            found.append(empty_in_order(shape, order_of(query), query, dtype))
        else:
            found.append(query.new_empty(shape, dtype=dtype))
    return found


# ---- forward -------------------------------------------------------------------------------------


def _solve_cpu(*arguments: Any) -> list[Tensor]:
    *operands, text, wanted = arguments
    repeated = operator_repeat(operands, text, wanted)
    if repeated is not None:
        return repeated
    spec, names = spec_of_text(text), wanted.split(",")
    job = Job(spec, [_operand(x) for x in operands])
    query: Tensor = operands[0]
    kept = _kept(spec, names)
    found = dict(zip(names, _allocate(names, query, job.sizes, kept), strict=True))
    whole = dict(found)
    facts, saved = whole.pop("facts", None), whole.pop("saved", None)
    separate = kept in names
    if saved is not None and kept and not separate:
        whole[kept] = saved
    if job.options.allow_partial:
        # NotConverged judges its certificate from the potentials.
        missing = [name for name in ("row_potential", "column_potential") if name not in whole]
        whole |= zip(missing, _allocate(missing, query, job.sizes), strict=True)
    certify = facts is not None and "row_potential" in whole
    if certify and needs_coupling(spec) and "coupling" not in whole:
        whole["coupling"] = _allocate(["coupling"], query, job.sizes)[0]
    info, certificate = solve(job, {name: _view(x) for name, x in whole.items()}, certify)
    if facts is not None:
        numbers = (info.rounds, info.row_error, info.column_error, info.empty_rows, info.nonfinite_rows)
        record = [_WORDS.index(info.status), *numbers, *(certificate or Certificate())]
        facts.copy_(torch.tensor(record, dtype=torch.float64))
    if saved is not None and separate:
        # Results of an operator may not share memory.
        saved.copy_(found[kept])
    return [found[name] for name in names]


_WORDS = ("ok", "fixed_iters", "partial", "nonfinite_rows")


def _solve_fake(*arguments: Any) -> list[Tensor]:
    *operands, text, wanted = arguments
    query, key, value = operands[:3]
    names = wanted.split(",")
    return _allocate(names, query, _sizes(query, key, value), _kept(spec_of_text(text), names))


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


def _gradients_cpu(*arguments: Any) -> list[Tensor]:
    *operands, out_grad, coupling_grad, receiver_grad, out, saved, text, wanted = arguments
    spec, names = spec_of_text(text), wanted.split(",")
    if names == ["value"] and _is_hard(spec):
        return [_value_gradient(operands, out_grad, text)]
    job = Job(spec, [_operand(x) for x in operands], gradients=True)
    query: Tensor = operands[0]
    implicit = is_implicit(spec)
    solved = needs_no_forward(spec) and (saved is not None or not implicit)
    outputs: dict[str, Any] = {}
    if saved is not None:
        # vmap repeats with stride 0, which no output of the library may have.
        saved, out = saved.contiguous(), out if out is None else out.contiguous()
    if implicit:
        names_of = ["column_potential", "row_potential"]
        outputs = dict(zip(names_of, _allocate(names_of, query, job.sizes), strict=True))
        # The multipliers answer for the solution, wherever its search began.
        job.start = None
        if solved:
            outputs = {"column_potential": saved}
        elif saved is not None and spec.axis == "rows":
            job.start = _view(saved)
    elif saved is not None and out is not None:
        outputs = {"out": out, "lse": saved}
    given: dict[str, View] = {}
    if out_grad is not None:
        given["out_grad"] = _view(out_grad)
    if receiver_grad is not None:
        # A column sum has the same derivative in every row: stride 0, no matrix.
        every = receiver_grad.to(query.dtype).expand(output_shape("coupling", job.sizes))
        coupling_grad = every if coupling_grad is None else coupling_grad + every
    if coupling_grad is not None:
        given["coupling_grad"] = _view(coupling_grad)
    results = _gradients_fake(*arguments)
    try:
        differentiate(
            job,
            {name: _view(x) for name, x in outputs.items()},
            given,
            {name: _view(x) for name, x in zip(names, results, strict=True)},
            solved,
        )
    except (NotConverged, NotFinite):
        if spec.nonfinite != "nan" or _are_finite(*operands[:3], out_grad, coupling_grad, saved):
            raise
        # No linear system of such numbers has a solution; whoever scales losses looks for NaN.
        for x in results:
            x.fill_(torch.nan)
    return results


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
    kept = _kept(spec_of_text(text), names) if "saved" in names else ""
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


def _tangents_cpu(*arguments: Any) -> list[Tensor]:
    *both, text, wanted = arguments
    operands, tangents = both[:_COUNT], both[_COUNT:]
    moving = [name for name, x in zip(DIFFERENTIABLE, tangents, strict=True) if x is not None]
    if moving == ["value"] and wanted == "out" and _is_hard(spec_of_text(text)):
        # What is linear has itself along a tangent.
        values = tangents[DIFFERENTIABLE.index("value")]
        return _solve_cpu(*operands[:2], values, *operands[3:], text, "out")
    job = Job(spec_of_text(text), [_operand(x) for x in operands], gradients=True)
    names = ["row_potential", "column_potential"]
    kept = dict(zip(names, _allocate(names, operands[0], job.sizes), strict=True))
    given = {name: x for name, x in zip(DIFFERENTIABLE, tangents, strict=True) if x is not None}
    results = _tangents_fake(*arguments)
    differentiate_along(
        job,
        {name: _view(x) for name, x in kept.items()},
        {name: _view(x) for name, x in given.items()},
        {name: _view(x) for name, x in zip(wanted.split(","), results, strict=True)},
    )
    return results


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

_library.impl("solve", _solve_cpu, "CPU")
_library.impl("gradients", _gradients_cpu, "CPU")
_library.impl("tangents", _tangents_cpu, "CPU")
torch.library.register_fake("otattn::solve", _solve_fake, lib=_library)
torch.library.register_fake("otattn::gradients", _gradients_fake, lib=_library)
torch.library.register_fake("otattn::tangents", _tangents_fake, lib=_library)
register(_library, "solve", _setup, _backward, _along)
register(_library, "gradients", no_setup, no_second, no_second)
register(_library, "tangents", no_setup, no_second, no_second)
torch.library.register_vmap("otattn::solve", solve_vmap, lib=_library)
torch.library.register_vmap("otattn::gradients", gradients_vmap, lib=_library)
torch.library.register_vmap("otattn::tangents", tangents_vmap, lib=_library)


# ---- the public calls on tensors -----------------------------------------------------------------


def _expand(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return x.expand(shape)


def _check(name: str, x: Any) -> Tensor:
    if not isinstance(x, torch.Tensor):
        raise TypeError(
            f"{name} is a {type(dense(name, x)).__name__}, but query is a torch tensor: "
            f"pass torch.as_tensor({name})"
        )
    if x.layout != torch.strided:
        dense(name, x)
    if x.device.type not in ("cpu", "meta"):
        raise ValueError(f"{name} lies on {x.device}; otattn computes on CPUs, so call {name}.cpu() first")
    return x


def _floating(name: str, value: Any) -> Tensor:
    x = _check(name, value)
    if x.dtype not in _FLOATS:
        raise TypeError(
            f"{name} has type {x.dtype} and shape {shape_text(x)}, "
            f"wanted float64, float32, bfloat16 or float16{of_numbers(name, x)}"
        )
    return x


def _numbers(name: str, value: Any, dtype: torch.dtype | None = None) -> Tensor:
    """A tensor of what may be one, a number, a list or an array."""
    if isinstance(value, torch.Tensor):
        return value
    if torch.compiler.is_compiling() and isinstance(value, float) and not has_static_value(value):
        # A product, since graphs take other ways from numbers to tensors for constants.
        return torch.ones((), dtype=dtype or torch.float64) * value
    try:
        return torch.as_tensor(value, dtype=dtype)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise TypeError(f"{name} is {shown(value)}, wanted numbers") from error


def _wide(name: str, value: Any, like: Tensor) -> Tensor:
    x = _check(name, _numbers(name, value, torch.float64))
    if x.dtype in (torch.float32, torch.float64):
        return x
    return x.to(torch.float64 if like.dtype == torch.float64 or not x.is_floating_point() else torch.float32)


def sum_of(bias: Any, mask: Tensor) -> Tensor:
    """Both added, in 4 bytes or more: a sum of 2-byte numbers would be rounded, or leave their range."""
    return mask if bias is None else _four_bytes(_floating("bias", bias)) + _four_bytes(mask)


def _four_bytes(x: Tensor) -> Tensor:
    return x.float() if x.element_size() < 4 else x


def _scalar(name: str, x: Tensor) -> Tensor:
    if x.numel() != 1:
        raise ValueError(f"{name} has shape {shape_text(x)}, wanted one number")
    return x.reshape(())


def _signed(x: int) -> int:
    """The int64 of the same 64 bits."""
    return x - (1 << 64) if x >= 1 << 63 else x


def _operands_of(
    extra: tuple[Any, ...], batch: tuple[int, ...], sizes: tuple[int, int, int], like: Tensor
) -> list[Tensor | None]:
    """The operands behind query, key and value, in their order, in four dimensions or as scalars."""
    (mask, bias, relative, alibi, sink, temperature, alpha, cap, strength) = extra[:9]
    (lower, upper, row_mass, column_mass, lengths, caps, start, seed) = extra[9:17]
    heads, queries, keys = sizes
    total = 1
    for size in batch:
        total *= size
    found: list[Tensor | None] = [None] * EXTRA
    if bias is not None:
        found[1] = fold_pairs("bias", _floating("bias", bias), batch, sizes, _expand)
    if mask is not None:
        mask = _check("attn_mask", mask)
        if mask.dtype != torch.bool:
            if mask.dtype not in _FLOATS:
                raise TypeError(of_pairs("attn_mask", mask))
            mask = _floating("attn_mask", mask)
        mask = fold_pairs("attn_mask", mask, batch, sizes, _expand)
        if mask.requires_grad:
            # Only terms have gradients, and there is one of pairs.
            found[1] = sum_of(found[1], mask)
        else:
            found[0] = mask
    if relative is not None:
        found[2] = fold_relative(_wide("relative_bias", relative, like), heads, queries, keys)
    for k, name, x in ((3, "alibi_slopes", alibi), (4, "sink", sink), (5, "temperature", temperature)):
        if x is not None:
            x = _wide(name, x, like)
            found[k] = x.reshape(()) if x.numel() == 1 else fold_heads(name, x, heads)
    for k, name, x in ((6, "alpha", alpha), (7, "cap", cap), (9, "lower", lower), (10, "upper", upper)):
        if x is not None:
            found[k] = _scalar(name, _wide(name, x, like))
    if strength is not None:
        strength = _wide("strength", strength, like)
        found[8] = (
            strength.reshape((1, 1, 1, keys))
            if strength.shape == (keys,) and keys > 1
            else _scalar("strength", strength)
        )
    for k, name, x, length in ((11, "row_mass", row_mass, queries), (12, "column_mass", column_mass, keys)):
        if x is not None:
            found[k] = fold_vector(name, _wide(name, x, like), total, heads, length)
    if lengths is not None:
        lengths = _check("key_lengths", _numbers("key_lengths", lengths))
        if lengths.is_floating_point() or tuple(lengths.shape) != (total,):
            raise ValueError(
                f"key_lengths has type {lengths.dtype} and shape {shape_text(lengths)}, "
                f"wanted integers ({total},)"
            )
        found[13] = lengths.to(torch.int64).reshape((1, 1, 1, total))
    if caps is not None:
        found[14] = fold_pairs("entry_caps", _wide("entry_caps", caps, like), batch, sizes, _expand)
    if start is not None:
        start = fold_vector("start_potential", _wide("start_potential", start, like), total, heads, keys)
        found[15] = start.expand(total, heads, 1, keys)
    if seed is not None:
        # One draw: under torch.compile it is part of the graph.
        found[16] = (
            torch.randint(-(1 << 63), (1 << 63) - 1, (2,))
            if seed[0] is None
            else torch.tensor([_signed(seed[0]), _signed(seed[1])])
        )
    return found


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
    names = [first]
    if request is not None:
        names += [name for name in outputs_of(request) if name != first]
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
    return kept[first], AuxOutput(
        coupling=kept["coupling"] if request.coupling else None,
        potentials=Potentials(kept["row_potential"], kept["column_potential"])
        if request.potentials
        else None,
        receiver=kept["receiver"] if request.receiver else None,
        row_stats=RowStats(*(kept[name] for name in ("row_entropy", "row_support", "row_max", "sink")))
        if request.row_stats
        else None,
        lse=kept["lse"] if request.lse else None,
        certificate=certificate if request.certificate else None,
        info=info,
    )


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


def folded_of(query: Any, key: Any, value: Any, enable_gqa: bool) -> Folded:
    """Checked tensors of one type in four dimensions."""
    query, key, value = _floating("query", query), _floating("key", key), _floating("value", value)
    if torch.is_autocast_enabled("cpu"):
        kind = torch.get_autocast_dtype("cpu")
        query, key, value = (x.to(kind) if x.dtype != torch.float64 else x for x in (query, key, value))
    for name, x in (("key", key), ("value", value)):
        if x.dtype != query.dtype:
            raise TypeError(f"{name} has type {x.dtype}, but query has {query.dtype}")
    return fold(query, key, value, enable_gqa, _expand)


def torch_attention(
    spec: Spec,
    query: Any,
    key: Any,
    value: Any,
    extra: tuple[Any, ...],
    request: AuxRequest | None,
) -> Any:
    folded = folded_of(query, key, value, spec.enable_gqa)
    heads, queries = folded.query.shape[1:3]
    sizes = (heads, queries, folded.key.shape[2])
    others = _operands_of(extra, folded.batch, sizes, folded.query)
    operands = [folded.query, folded.key, folded.value, *others]
    return _call(spec, operands, "out", folded.lead, request)


def torch_coupling(spec: Spec, scores: Any, extra: tuple[Any, ...], request: AuxRequest | None) -> Any:
    scores = _floating("scores", scores)
    whole, batch, lead = fold_scores(scores)
    heads, rows, columns = whole.shape[1:]
    others = _operands_of(extra, batch, (heads, rows, columns), scores)
    return _call(spec, [whole, None, None, *others], "coupling", lead, request)
