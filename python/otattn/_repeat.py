"""Calls like one before: the plan and its structs are kept, filled; a call changes addresses only.

What a call is like (its name) is everything but the addresses: words and numbers, and what `_native.layout`
says of its arrays, NumPy's or torch's: shape, strides and type. Whatever else a call has goes the longer way
of `_arrays` and `_torch`.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from . import _native
from . import _structs as c
from ._errors import raise_status
from ._solve import (
    IDLE_BYTES,
    IDLE_PLANS,
    Handle,
    Job,
    View,
    gradient_field,
    pool,
    settle,
    warn_of_masked,
)

# The mask is the last of the supports.
_FROM_END = ctypes.sizeof(c.Support) - c.Support.array.offset
# Operands whose numbers are checked when a plan is bound to them, so that is done at every call.
_READ_AT_ONCE = ("row_mass", "column_mass")
# What an array without the alignment or layout of the first call comes to.
_REFUSED = (c.EALIGN, c.EINVAL, c.EALIAS)
# Problems of so many products keep the interpreter's lock: giving it away and back takes as long.
_ALONE = 1 << 12


class Result(NamedTuple):
    """An array that a call makes: its field (None: the library writes nothing), type and shape.

    The type is one of the library's, or 0 for that of the call's first array. With an order the shape is that
    of a tensor's memory, and order[k] the dimension whose size is shape[k].
    """

    field: str | None
    type: int
    shape: tuple[int, ...]
    order: tuple[int, ...] = ()


def result_type(field: str, wide: bool) -> int:
    """The type of an output of a solve, where `wide` says that the arrays are f64."""
    if field in ("out", "coupling"):
        return 0
    return c.F64 if wide or field.endswith("potential") else c.F32


class Repeat:
    """A plan with the structs of one kind of call. Not for two threads at once; `take` sees to that."""

    __slots__ = (
        "bytes",
        "call",
        "handle",
        "job",
        "keep",
        "key",
        "kind",
        "masked",
        "results",
        "reverse",
        "settle",
    )

    def __init__(
        self,
        key: Any,
        job: Job,
        handle: Handle,
        bound: Sequence[str],
        given: Sequence[int],
        results: Sequence[tuple[int, Result]],
        gradients: Any,
    ) -> None:
        """`bound` names what the plan is bound to, `given` are the addresses of the fields of the rest."""
        self.key, self.job, self.handle = key, job, handle
        self.bytes = handle.bytes
        self.results = results
        self.settle = settle if gradients is None else _settle_backward
        self.masked = gradients is None and "attn_mask" in bound
        self.keep: Any = gradients
        self.kind: _Kind | None = None
        self.reverse: Any = None  # what a derivative of these calls has found out for the next one
        batch, heads, queries, keys, _, width = job.sizes
        self.call = _native.keep(
            handle.pointer,
            ctypes.addressof(job.problem),
            ctypes.addressof(job.options),
            ctypes.addressof(handle.arrays),
            0 if gradients is None else ctypes.addressof(gradients),
            ctypes.addressof(handle.result),
            ctypes.addressof(handle.error),
            any(name in _READ_AT_ONCE for name in bound),
            batch * heads * queries * keys * (1 + width) <= _ALONE,
            tuple(_bound_place(job, name) for name in bound),
            tuple(given),
            tuple((place, x.type, x.shape, x.order) for place, x in results),
        )

    def run(self, *arrays: Any) -> tuple[Any, ...] | None:
        """Status and results; None where the arrays need the longer way. Raises and warns as a solve."""
        found = _native.run(self.call, *arrays)
        if found is None:
            return None
        status = found[0]
        if status:
            if status in _REFUSED:
                return None
            self.settle(self.job, self.handle, status)
        if self.masked:
            warn_of_masked(self.handle)
        return found

    def free(self) -> None:
        self.handle.free()


def _bound_place(job: Job, name: str) -> int:
    if name == "attn_mask":
        supports: Any = job.supports
        return ctypes.addressof(supports) + len(supports) * ctypes.sizeof(c.Support) - _FROM_END
    offset: int = getattr(c.Problem, name).offset
    return ctypes.addressof(job.problem) + offset


def _places(record: Any, names: Sequence[str]) -> list[int]:
    begin = ctypes.addressof(record)
    return [begin + getattr(type(record), name).offset for name in names]


def forward_of(
    key: Any,
    job: Job,
    bound: Sequence[str],
    given: Sequence[str],
    outputs: dict[str, View],
    results: Sequence[Result],
) -> Repeat:
    """A solve. `given` inputs and `results` are at other places at every call; other `outputs` stay."""
    handle = Handle(job)
    handle.bind_arrays(job, outputs)
    arrays = handle.arrays
    made = [(_places(arrays, [x.field])[0] if x.field else 0, x) for x in results]
    return Repeat(key, job, handle, bound, _places(arrays, given), made, None)


def backward_of(
    key: Any,
    job: Job,
    bound: Sequence[str],
    kept: dict[str, View],
    given: dict[str, View],
    wanted: dict[str, View],
    shapes: Sequence[tuple[int, ...]],
) -> Repeat:
    """A backward without a forward of its own. `kept` of forward, `given` and `wanted` gradients move."""
    handle = Handle(job)
    handle.bind_arrays(job, kept)
    gradients = handle.gradients_of(job, given, wanted, True)
    inputs = ["values"] if job.values is not None else []
    places = [*_places(handle.arrays, [*inputs, *kept]), *_places(gradients, [*given])]
    results = [Result(_field(job, name), 0, shape) for name, shape in zip(wanted, shapes, strict=True)]
    made = [(_places(gradients, [x.field])[0] if x.field else 0, x) for x in results]
    return Repeat(key, job, handle, bound, places, made, gradients)


def _field(job: Job, name: str) -> str:
    found = gradient_field(job, name)
    assert isinstance(found, str)
    return found


def _settle_backward(job: Job, handle: Handle, status: int) -> None:
    del job
    if status < 0:
        raise_status(status, handle.error, sentence=handle.result.sentence.decode())


class _Kind(list[Repeat]):
    """The idle plans of one kind of call: one at most, but for an instant. Lists are safe between threads."""

    __slots__ = ("bytes", "kept", "used")

    def __init__(self, size: int) -> None:
        super().__init__()
        self.bytes, self.kept, self.used = size, True, 0


_kinds: dict[Any, _Kind] = {}
_lock = threading.Lock()
_clock = itertools.count(1).__next__


def take(name: Any) -> Any:
    """An idle plan of calls of this name, or None."""
    kind = _kinds.get(name)
    try:
        return kind.pop() if kind else None
    except IndexError:  # another thread was faster
        return None


def give(repeat: Repeat) -> None:
    """Keeps the plan for the next call of its name."""
    kind = repeat.kind
    if kind is None:
        kind = repeat.kind = _register(repeat)
    kind.used = _clock()
    if not kind:
        kind.append(repeat)
        if kind.kept:
            return
        _drain(kind)
    else:
        repeat.free()


def _register(repeat: Repeat) -> _Kind:
    """A place for its kind; the kinds that were used last keep theirs."""
    with _lock:
        kind = _kinds.get(repeat.key)
        if kind is not None:
            return kind
        kind = _kinds[repeat.key] = _Kind(repeat.bytes)
        kind.used = _clock()
        held = sum(x.bytes for x in _kinds.values())
        leaving = []
        for name, other in sorted(_kinds.items(), key=lambda item: item[1].used):
            # A plan that fills most of the room would drive out all the others.
            large = other is kind and kind.bytes > IDLE_BYTES // 4
            if large or (other is not kind and (held > IDLE_BYTES or len(_kinds) > IDLE_PLANS)):
                held -= other.bytes
                leaving.append(_kinds.pop(name))
    for other in leaving:
        _drain(other)
    return kind


def _drain(kind: _Kind) -> None:
    kind.kept = False
    with contextlib.suppress(IndexError):
        while True:
            kind.pop().free()


def clear() -> None:
    """Frees all idle plans; those at work are freed when they are given back."""
    with _lock:
        leaving = list(_kinds.values())
        _kinds.clear()
    for kind in leaving:
        _drain(kind)


def _new_lock() -> None:
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()


# As in `_solve`: a child may have been forked while another thread held the lock.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)


def same_memory(views: Sequence[Any], addresses: Sequence[int]) -> bool:
    """Do the views of a job show the caller's own memory, without a copy between?"""
    return all(
        (view[0] if isinstance(view, tuple) else 0) == address
        for view, address in zip(views, addresses, strict=True)
    )


# Called by release_memory: what other modules keep.
_forgetters: list[Callable[[], None]] = []


def forget_by(call: Callable[[], None]) -> None:
    """Has `release_memory` call this, too."""
    _forgetters.append(call)


def release_memory() -> None:
    """Frees what is kept for later calls: plans of shapes seen before, threads and memory of assignments.

    Examples
    --------
    >>> import otattn
    >>> otattn.release_memory()
    """
    pool.clear()
    clear()
    for forget in _forgetters:
        forget()
