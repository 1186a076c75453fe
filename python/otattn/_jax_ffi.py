"""The solve inside of a program compiled by XLA: a handler of the library called by jax.ffi.

What Python would fill into the library's structs at a call is filled here when the function is traced: the
structs travel as bytes in the program, and with them the places where addresses and traced numbers belong,
which a `Job` knows. The handler (python/native/jax_handler.c) puts the buffers there.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from . import _structs as c
from ._arrays import output_shape
from ._handle import FAR
from ._jax_manual import alike, made_of, zeros_like
from ._job import (
    ADDRESS,
    ARRAY_BYTES,
    ARRAYS,
    GRADIENTS,
    Job,
    Operand,
    View,
    derivative_field,
    pack,
    view_like,
)
from ._kept import forget_by
from ._library import library
from ._settings import DIFFERENTIABLE, OPERANDS, UNBATCHED
from ._spec import Spec
from ._template import is_closed_form, is_implicit, needs_no_forward

TARGET = "otattn"
_TERMS, _SUPPORTS, _NAME = 6, 4, 32
_ADDRESS, _NUMBER = 0, 1
# What stands for a traced number until the program runs: every check lets it pass.
_ANY_NUMBER = 1.5
# Below so many products of numbers, starting threads takes longer than the work.
_SMALL = 1 << 20
_TYPES = {"float64": c.F64, "float32": c.F32, "bfloat16": c.BF16, "float16": c.F16, "bool": c.BOOL}
_SEED = OPERANDS.index("dropout_seed")
UPSTREAM = ("out", "coupling", "receiver")


class Call(ctypes.Structure):
    """The struct `call` of the handler."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("values_width", ctypes.c_int64),
        ("forward", ctypes.c_int64),
        ("backward", ctypes.c_int64),
        ("budget_ns", ctypes.c_int64),
        ("problem", c.Problem),
        ("options", c.Options),
        ("arrays", c.Arrays),
        ("gradients", c.Gradients),
        ("terms", c.Term * _TERMS),
        ("supports", c.Support * _SUPPORTS),
        ("term_gradients", c.Array * _TERMS),
        ("solver", ctypes.c_char * _NAME),
        ("backend", ctypes.c_char * _NAME),
    )


class Static(NamedTuple):
    """What of a solve is fixed when it is traced."""

    spec: Spec
    names: tuple[str, ...]
    """Outputs, by their names in ota_arrays, in the order of the results."""
    operands: tuple[str, ...]
    """The operands that are there."""
    seed: tuple[int, int] | None


# jax declares no attributes of its configuration.
_config: Any = jax.config


def has_f64() -> bool:
    """Whether JAX computes in f64 where it is asked to."""
    return bool(_config.jax_enable_x64)


@functools.cache
def is_offered() -> bool:
    """Whether this jax compiles calls of the handler; registers it."""
    register = getattr(getattr(jax, "ffi", None), "register_ffi_target", None)
    if register is None or jax.default_backend() != "cpu":
        return False
    capsule: Any = jax.ffi.pycapsule
    register(TARGET, capsule(library.ota_jax_handler), platform="cpu")
    # The handler keeps plans, too.
    forget_by(library.ota_jax_release)
    return True


# ---- the bytes of a call -------------------------------------------------------------------------


Places = list[tuple[int, int]]
"""Kind and offset in a call."""


def _view(x: Any, kind: int | None = None) -> View:
    """A dense view of four dimensions somewhere."""
    shape = tuple(x.shape) or (1, 1, 1, 1)
    return view_like(shape, _TYPES[str(x.dtype)] if kind is None else kind)


def _operand(x: Any) -> Operand:
    return _ANY_NUMBER if x.ndim == 0 else _view(x)


def _job(static: Static, present: Sequence[Any], gradients: bool) -> Job:
    by_name = {name: _operand(x) for name, x in zip(static.operands, present, strict=True)}
    operands: list[Any] = [by_name.get(name) for name in OPERANDS]
    operands[_SEED] = static.seed
    return Job(static.spec, operands, gradients)


def _places_of(job: Job, names: Sequence[str]) -> Places:
    """Those of operands."""
    parts = {
        "problem": Call.problem.offset,
        "terms": Call.terms.offset,
        "supports": Call.supports.offset,
        "arrays": Call.arrays.offset,
    }
    found = [job.places[name] for name in names]
    return [(_ADDRESS if x.kind == ADDRESS else _NUMBER, parts[x.part] + x.offset) for x in found]


def _put(call: Call, offset: int, view: View) -> tuple[int, int]:
    """Describes an array there; its place."""
    pack(call, offset, *view)
    return _ADDRESS, offset


def _call_of(job: Job) -> Call:
    call = Call()
    call.size, call.values_width = ctypes.sizeof(Call), job.sizes[5]
    call.problem, call.options = job.problem, job.options
    terms, supports = job.problem.term_count, job.problem.support_count
    for k in range(terms):
        call.terms[k] = (c.Term * terms).from_address(job.problem.terms)[k]
    for k in range(supports):
        call.supports[k] = (c.Support * supports).from_address(job.problem.supports)[k]
    for name in ("solver", "backend"):
        word = getattr(job.options, name) or b""
        if len(word) >= _NAME:
            raise ValueError(f"{name} is {word.decode()!r}, wanted a name of otattn.{name}s()")
        setattr(call, name, word)
        setattr(call.options, name, None)
    call.problem.terms = call.problem.supports = None
    # A compiled program outlives this process's flag.
    call.options.cancel = None
    if job.spec.deadline is not None:
        call.budget_ns = int(min(job.spec.deadline, FAR) * 1e9)
    # NotConverged of a compiled program carries no certificate, which is what a partial plan is kept for.
    call.options.allow_partial = int(job.spec.allow_partial)
    batch, heads, queries, keys, _, width = job.sizes
    query = job.operands[0]
    assert isinstance(query, tuple)
    work = batch * heads * queries * keys * (width + query[5])
    if not job.options.threads and work <= _SMALL:
        call.options.threads = 1
    call.arrays.size, call.gradients.size = ctypes.sizeof(c.Arrays), ctypes.sizeof(c.Gradients)
    if isinstance(job.values, tuple):
        pack(call, Call.arrays.offset + ARRAYS["values"], *job.values)
    if isinstance(job.start, tuple):
        pack(call, Call.arrays.offset + ARRAYS["start_potential"], *job.start)
    return call


def _run(call: Call, present: Sequence[Any], results: Sequence[Any], places: Places) -> tuple[Any, ...]:
    assert len(places) == len(present) + len(results)
    attributes = {"call": np.frombuffer(bytes(call), np.uint8), "places": np.array(places, np.int64).ravel()}
    present = alike(present)
    found = jax.ffi.ffi_call(TARGET, tuple(results))(*present, **attributes)
    return tuple(made_of(present, found))


# jax gives its constructor no types.
_shape: Any = jax.ShapeDtypeStruct


# ---- forward and backward on present operands ----------------------------------------------------


def _pairs(whole: tuple[int, ...]) -> Any:
    """Memory for f64 numbers, also where JAX has none."""
    return _shape((*whole, 2), np.uint32)


def _forward(static: Static, *present: Any) -> tuple[Any, ...]:
    job = _job(static, present, False)
    job.watch(None)
    call = _call_of(job)
    call.forward = 1
    dtype = present[0].dtype
    results = []
    places = _places_of(job, static.operands)
    for name in static.names:
        field = "column_potential" if name == "saved" else name
        whole = output_shape(field, job.sizes)
        kind = dtype if name in ("out", "coupling") else _vector_type(field, dtype)
        results.append(_pairs(whole) if name == "saved" else _shape(whole, kind))
        view = _view(_shape(whole, kind), c.F64 if name == "saved" else None)
        places.append(_put(call, Call.arrays.offset + ARRAYS[field], view))
    return _run(call, present, results, places)


def _vector_type(field: str, dtype: Any) -> Any:
    wide = str(dtype) == "float64" or (field.endswith("potential") and has_f64())
    return np.dtype(np.float64 if wide else np.float32)


class Backward(NamedTuple):
    """What of a gradient is fixed when it is traced."""

    static: Static
    wanted: tuple[str, ...]
    upstream: tuple[str, ...]
    """Which of out, coupling and receiver have a gradient coming in."""
    kept: tuple[str, ...]
    """What forward left for it, by names of ota_arrays."""


def _backward(fixed: Backward, *arrays: Any) -> tuple[Any, ...]:
    """arrays: the operands, then upstream gradients, then what was kept."""
    static = fixed.static
    count, ups = len(static.operands), len(fixed.upstream)
    present, upstream, kept = arrays[:count], arrays[count : count + ups], arrays[count + ups :]
    job = _job(static, present, True)
    given: dict[str, Any] = dict(zip(fixed.upstream, upstream, strict=True))
    if "receiver" in given:
        # A column sum has the same derivative in every row.
        every = jnp.broadcast_to(
            given.pop("receiver").astype(present[0].dtype), output_shape("coupling", job.sizes)
        )
        given["coupling"] = every + given.get("coupling", 0)
    call = _call_of(job)
    implicit = is_implicit(static.spec)
    solved = needs_no_forward(static.spec) and (bool(kept) or not implicit)
    call.backward, call.forward, call.gradients.solved = 1, int(not solved), int(solved)
    # The multipliers answer for the solution, wherever its search began.
    ctypes.memset(ctypes.byref(call, Call.arrays.offset + ARRAYS["start_potential"]), 0, ARRAY_BYTES)
    names = [name for name in static.operands if name != "start_potential"]
    inputs = [x for name, x in zip(static.operands, present, strict=True) if name in names]
    places = _places_of(job, names)
    for name, x in given.items():
        inputs.append(x)
        places.append(_put(call, Call.gradients.offset + GRADIENTS[f"{name}_grad"], _view(x)))
    results: list[Any] = []
    if solved:
        for name, x in zip(fixed.kept, kept, strict=False):
            kind = c.F64 if name == "column_potential" else None
            view = _view(_shape(output_shape(name, job.sizes), x.dtype), kind)
            inputs.append(x)
            places.append(_put(call, Call.arrays.offset + ARRAYS[name], view))
    else:
        for name in ("row_potential", "column_potential") if implicit else ():
            whole = output_shape(name, job.sizes)
            view = _view(_shape(whole, np.float32), c.F64)
            places.append(_put(call, Call.arrays.offset + ARRAYS[name], view))
            results.append(_pairs(whole))
    scratch = len(results)
    for name in fixed.wanted:
        x = present[static.operands.index(name)]
        results.append(_shape(x.shape, x.dtype))
        field = derivative_field(job, name)
        if isinstance(field, int):
            offset = Call.term_gradients.offset + field * ARRAY_BYTES
        else:
            offset = Call.gradients.offset + GRADIENTS[field]
        places.append(_put(call, offset, _view(x)))
    return _run(call, inputs, results, places)[scratch:]


# ---- vmap ----------------------------------------------------------------------------------------


def _mapped(run: Callable[..., Any], looped: Callable[[Sequence[bool]], bool], names: Sequence[str]) -> Any:
    """`run` with a batching rule: into the batch dimension, or one after another where `looped` says so.

    `names` are those of its arguments; whatever is no operand has a batch dimension first."""
    mapped: Any = jax.custom_batching.custom_vmap(run)

    @mapped.def_vmap  # type: ignore[untyped-decorator]
    def rule(size: int, batched: Sequence[bool], *arrays: Any) -> tuple[Any, Any]:
        if looped(batched):
            moving = [x for x, is_moving in zip(arrays, batched, strict=True) if is_moving]

            def one(slices: Any) -> Any:
                left = iter(slices)
                return mapped(*(next(left) if b else x for x, b in zip(arrays, batched, strict=True)))

            found = jax.lax.map(one, moving)
            return found, tuple(True for _ in found)
        first = arrays[0].shape[1:] if batched[0] else arrays[0].shape
        folded = []
        for name, x, is_moving in zip(names, arrays, batched, strict=True):
            if name in UNBATCHED:
                folded.append(x)
                continue
            x = x if is_moving else jnp.broadcast_to(x, (size, *x.shape))
            x = jnp.broadcast_to(x, (size, first[0], *x.shape[2:]))
            folded.append(x.reshape((-1, *x.shape[2:])))
        found = tuple(x.reshape((size, first[0], *x.shape[1:])) for x in mapped(*folded))
        return found, tuple(True for _ in found)

    return mapped


def _any_looped(names: Sequence[str], batched: Sequence[bool], seed: Any) -> bool:
    # What dropout drops depends on the place in the batch.
    return seed is not None or any(b and name in UNBATCHED for name, b in zip(names, batched, strict=True))


@functools.lru_cache(maxsize=512)
def _solver(static: Static) -> Any:
    return _mapped(
        functools.partial(_forward, static),
        lambda batched: _any_looped(static.operands, batched, static.seed),
        static.operands,
    )


@functools.lru_cache(maxsize=512)
def _differentiator(fixed: Backward) -> Any:
    static = fixed.static
    names = (
        *static.operands,
        *(f"{name}_grad" for name in fixed.upstream),
        *(f"{x} kept" for x in fixed.kept),
    )

    def looped(batched: Sequence[bool]) -> bool:
        # The gradient of what all share would be the sum over the batch.
        shared = any(name not in OPERANDS[:3] for name in fixed.wanted)
        return shared or _any_looped(names, batched, static.seed)

    return _mapped(functools.partial(_backward, fixed), looped, names)


# ---- with derivatives ----------------------------------------------------------------------------


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def solve(static: Static, present: tuple[Any, ...]) -> tuple[Any, ...]:
    """The outputs `static.names` of a solve of the operands `static.operands`, in four dimensions."""
    return tuple(_solver(static)(*present))


def _kept_of(static: Static) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Outputs that forward adds for backward, and all that backward gets, by names of ota_arrays."""
    names = static.names
    if is_implicit(static.spec):
        if has_f64():
            return () if "column_potential" in names else ("column_potential",), ("column_potential",)
        return ((), ()) if "column_potential" in names else (("saved",), ("column_potential",))
    if "out" in names and is_closed_form(static.spec):
        return () if "lse" in names else ("lse",), ("out", "lse")
    return (), ()


def _solve_forward(static: Static, present: tuple[Any, ...]) -> Any:
    also, kept = _kept_of(static)
    whole = static._replace(names=(*static.names, *also))
    found = dict(zip(whole.names, _solver(whole)(*present), strict=True))
    left = tuple(found.get(name, found.get("saved")) for name in kept)
    return tuple(found[name] for name in static.names), (present, left)


def _solve_backward(static: Static, left: Any, gradients: tuple[Any, ...]) -> Any:
    present, kept = left
    given = dict(zip(static.names, gradients, strict=True))
    upstream = tuple(name for name in UPSTREAM if name in given)
    wanted = tuple(name for name in static.operands if name in DIFFERENTIABLE)
    fixed = Backward(static, wanted, upstream, _kept_of(static)[1])
    arriving = [given[name] for name in upstream]

    slopes = _differentiator(fixed)(*present, *arriving, *kept)
    found = dict(zip(wanted, slopes, strict=True))
    pairs = zip(static.operands, present, strict=True)
    return (tuple(found[name] if name in found else _nothing(x) for name, x in pairs),)


def _nothing(x: Any) -> Any:
    floating = jnp.issubdtype(x.dtype, jnp.floating)
    return zeros_like(x) if floating else np.zeros(x.shape, jax.dtypes.float0)


solve.defvjp(_solve_forward, _solve_backward)
