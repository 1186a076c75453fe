"""Calls like one before: the plan and its structs are kept, filled; a call changes addresses only.

What a call is like (its name) is everything but the addresses: words and numbers, and shape, strides and type
of every array. Whatever else a call has goes the longer way of `_arrays` and `_torch`.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import _structs as c
from ._errors import raise_status
from ._library import library
from ._solve import IDLE_BYTES, IDLE_PLANS, Handle, Job, View, gradient_field, pool, settle

_put = struct.Struct("@P").pack_into
_rebind, _forward, _backward = library.ota_plan_rebind, library.ota_forward, library.ota_backward
# The mask is the last of the supports.
_FROM_END = ctypes.sizeof(c.Support) - c.Support.array.offset
# Operands whose numbers are checked when a plan is bound to them, so that is done at every call.
_READ_AT_ONCE = ("row_mass", "column_mass")
# What an array without the alignment or layout of the first call comes to.
_REFUSED = (c.EALIGN, c.EINVAL, c.EALIAS)
# A struct of a plan and where in it an address stands.
Place = tuple[Any, int]


class Repeat:
    """A plan with the structs of one kind of call. Not for two threads at once; `take` sees to that."""

    __slots__ = (
        "bound",
        "bound_places",
        "bytes",
        "call",
        "fresh",
        "handle",
        "job",
        "keep",
        "key",
        "kind",
        "pair",
        "places",
        "references",
        "settle",
        "shapes",
    )

    def __init__(
        self,
        key: Any,
        job: Job,
        handle: Handle,
        bound: Sequence[str],
        places: list[Place],
        call: tuple[Callable[..., int], Callable[[Job, Handle, int], None], tuple[Any, ...]],
        shapes: Any,
    ) -> None:
        """`bound` names what the plan is bound to, `places` are the rest; `call` solves or differentiates."""
        self.key, self.job, self.handle, self.shapes = key, job, handle, shapes
        self.bytes = handle.bytes
        self.bound_places = [_bound_place(job, name) for name in bound]
        self.places = places
        self.call, self.settle, self.references = call
        self.pair = (ctypes.byref(job.problem), handle.reference)
        self.fresh = any(name in _READ_AT_ONCE for name in bound)
        self.bound: tuple[int, ...] | None = None
        self.keep: Any = None
        self.kind: _Kind | None = None

    def run(self, bound: tuple[int, ...], *others: int) -> int | None:
        """The status at these addresses; None where they need the longer way. Raises and warns as a solve."""
        if bound != self.bound or self.fresh:
            self.bound = None
            for (record, place), address in zip(self.bound_places, bound, strict=True):
                _put(record, place, address)
            if _rebind(self.handle.pointer, *self.pair) < 0:
                return None
            self.bound = bound
        for (record, place), address in zip(self.places, others, strict=True):
            _put(record, place, address)
        status = self.call(self.handle.pointer, *self.references)
        if status:
            if status in _REFUSED:
                return None
            self.settle(self.job, self.handle, status)
        return status

    def free(self) -> None:
        self.handle.free()


def _bound_place(job: Job, name: str) -> Place:
    if name == "attn_mask":
        supports: Any = job.supports
        return supports, len(supports) * ctypes.sizeof(c.Support) - _FROM_END
    return job.problem, getattr(c.Problem, name).offset


def forward_of(
    key: Any,
    job: Job,
    bound: Sequence[str],
    given: Sequence[str],
    outputs: dict[str, View],
    scratch: dict[str, View],
    shapes: Any,
) -> Repeat:
    """A solve. `given` inputs and `outputs` are at other places at every call; `scratch` stays."""
    handle = Handle(job)
    handle.bind_arrays(job, {**scratch, **outputs})
    arrays = handle.arrays
    places = [(arrays, getattr(c.Arrays, name).offset) for name in (*given, *outputs)]
    references = (ctypes.byref(arrays), ctypes.byref(handle.result), handle.reference)
    return Repeat(key, job, handle, bound, places, (_forward, settle, references), shapes)


def backward_of(
    key: Any,
    job: Job,
    bound: Sequence[str],
    kept: dict[str, View],
    given: dict[str, View],
    wanted: dict[str, View],
    shapes: Any,
) -> Repeat:
    """A backward without a forward of its own. `kept` of forward, `given` and `wanted` gradients move."""
    handle = Handle(job)
    handle.bind_arrays(job, kept)
    arrays = handle.arrays
    gradients = handle.gradients_of(job, given, wanted, True)
    inputs = ["values"] if job.values is not None else []
    places: list[Place] = [(arrays, getattr(c.Arrays, name).offset) for name in (*inputs, *kept)]
    fields: Iterable[str] = (*given, *(_field(job, name) for name in wanted))
    places += [(gradients, getattr(c.Gradients, name).offset) for name in fields]
    references = (
        ctypes.byref(arrays),
        ctypes.byref(gradients),
        ctypes.byref(handle.result),
        handle.reference,
    )
    return Repeat(key, job, handle, bound, places, (_backward, _settle_backward, references), shapes)


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
