"""Plans with filled structs, kept for later calls of their kind; and what memory they show."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _native
from . import _structs as c
from ._arrays import folded_of, operand_of
from ._certificate import Certificate
from ._errors import check, raise_status
from ._handle import Handle
from ._job import ADDRESS, PAIR, Job, Moved, Place
from ._outcome import settle, warn_of_masked
from ._spec import Spec
from ._template import columns_of, needs_coupling

# Plans kept for the next call of the same shapes: at most so many, and so many bytes in all.
IDLE_PLANS = 32
IDLE_BYTES = 256 << 20
# Problems of so many products keep the interpreter's lock: giving it away and back takes as long.
_ALONE = 1 << 12
# Operands whose contents no choice and no check of a plan depends on.
_NOT_READ = ("query", "key", "value", "attn_mask", "start_potential")


class Memory(NamedTuple):
    """What arrays of a kind differ in."""

    fold: Callable[[Spec, Mapping[str, Any]], tuple[list[Any], tuple[int, ...]]]
    """All operands in four dimensions, or numbers of none; and the dimensions before those of results."""
    operand: Callable[[Any], Any]
    """An operand for the structs: a view, a number, two whole numbers or None."""
    address: Callable[[Any], int]
    new: Callable[[Any, int, tuple[int, ...], tuple[int, ...]], Any]
    """An array like another one, but of a type of the library's (0: the same), a shape and an order."""
    order: Callable[[Any], tuple[int, ...]]
    """The order of the dimensions of `out` in memory, from the query's; (): as they are."""


def _new_array(like: Any, kind: int, shape: tuple[int, ...], order: tuple[int, ...]) -> Any:
    del order
    return np.empty(shape, _DTYPES[kind] if kind else like.dtype)


_DTYPES = {c.F64: np.float64, c.F32: np.float32, c.F16: np.float16}
NUMPY = Memory(folded_of, operand_of, _native.address, _new_array, lambda query: ())


class Result(NamedTuple):
    """An array that a call makes: its field (None: the library writes nothing), type and shape.

    The type is one of the library's, or 0 for that of the call's first array. With an order the shape is that
    of a tensor's memory, and order[k] the dimension whose size is shape[k].
    """

    field: str | None
    type: int
    shape: tuple[int, ...]
    order: tuple[int, ...] = ()


class Input(NamedTuple):
    """An array that a call reads."""

    place: int
    """Among the arrays of the call."""
    field: int
    """The address of what it is put into."""
    kind: int
    bound: bool
    """Whether the plan is bound to it."""


class Parts(NamedTuple):
    """What the structs of a call are made of."""

    job: Job
    handle: Handle
    arrays: c.Arrays
    moved: Moved | None = None
    """The gradients or tangents of a derivative."""
    keep: Any = None
    """Memory that the structs show."""


class Kept:
    """A plan with the structs of one kind of call. Not for two threads at once; `take` sees to that."""

    __slots__ = (
        "arrays",
        "bytes",
        "call",
        "first",
        "handle",
        "held",
        "inputs",
        "job",
        "keep",
        "key",
        "kind",
        "lent",
        "masked",
        "moved",
        "results",
        "way",
    )

    def __init__(
        self,
        key: Any,
        parts: Parts,
        inputs: Sequence[Input],
        results: Sequence[tuple[int, Result]],
        given: int,
        fresh: bool,
    ) -> None:
        """`results` with the addresses of their fields; `given` is how many arrays a call has."""
        job, handle = parts.job, parts.handle
        self.key, self.job, self.handle, self.arrays, self.moved = key, job, handle, parts.arrays, parts.moved
        self.bytes = handle.bytes
        self.results, self.inputs = results, inputs
        # Of free columns there is no such share.
        coupled = parts.moved is None and columns_of(job.spec) != c.COLUMNS_FREE
        self.masked = coupled and ("attn_mask" in job.places or "bias" in job.places)
        self.keep = parts.keep
        self.kind: _Kind | None = None
        self.first: Kept | None = None  # the forward of a derivative that needs one
        self.lent = False  # the plan is another one's, who gives it back
        self.held: Any = None  # converted arrays of the call that has it now, which the structs show
        self.way: Any = None  # what a derivative of these calls has found out for the next one
        batch, heads, queries, keys, _, width = job.sizes
        # A caller's functions want the lock, in other threads too.
        own = job.failure is None and job.progress is None and job.options.communicator is None
        two_bytes = parts.moved is None and parts.arrays.coupling.type in (c.BF16, c.F16)
        struct = None if parts.moved is None else parts.moved.struct
        self.call = _native.keep(
            handle.pointer,
            ctypes.addressof(job.problem),
            ctypes.addressof(job.options),
            ctypes.addressof(parts.arrays),
            ctypes.addressof(struct) if isinstance(struct, c.Gradients) else 0,
            ctypes.addressof(struct) if isinstance(struct, c.Tangents) else 0,
            ctypes.addressof(handle.result),
            ctypes.addressof(handle.error),
            fresh,
            own and batch * heads * queries * keys * (1 + width) <= _ALONE,
            two_bytes and not needs_coupling(job.spec),
            given,
            tuple((x.place, x.field, x.kind, x.bound) for x in inputs),
            tuple((place, x.type, x.shape, x.order) for place, x in results),
        )

    def run(self, memory: Memory, arrays: Sequence[Any], seen: bool) -> tuple[Any, ...] | None:
        """Status and results; None where the plan cannot be bound to the arrays. `seen`: by the extension."""
        return _native.run(self.call, *arrays) if seen else self._by_hand(memory, arrays)

    def bind(self, memory: Memory, arrays: Sequence[Any]) -> None:
        """Binds the plan to the arrays alone, and raises where it cannot be."""
        for index, field, kind, _ in self.inputs:
            x = arrays[index]
            if kind == ADDRESS:
                ctypes.c_void_p.from_address(field).value = memory.address(x)
            elif kind == PAIR:
                (ctypes.c_int64 * 2).from_address(field)[:] = memory.operand(x)
            else:
                ctypes.c_double.from_address(field).value = memory.operand(x)
        if any(x.bound for x in self.inputs):
            self.handle.rebind(self.job)

    def _by_hand(self, memory: Memory, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """As `_native.run`, of arrays whose memory it does not see."""
        self.bind(memory, arrays)
        made = []
        for place, x in self.results:
            made.append(memory.new(arrays[0], x.type, x.shape, x.order))
            if place:
                ctypes.c_void_p.from_address(place).value = memory.address(made[-1])
        return _native.ask(self.call), *made

    def settle(self, status: int) -> None:
        """Raises or warns as a status asks, while the results are there."""
        self.job.reraise()
        if self.moved is not None:
            if status < 0:
                raise_status(status, self.handle.error, sentence=self.handle.result.sentence.decode())
            return
        settle(self.job, self.handle, status, self.certificate)
        if self.masked:
            warn_of_masked(self.handle.result.masked_share)

    def certificate(self, *arrays: Any) -> Certificate:
        """The judge's word on what was just solved, or on these arrays and results of a solve."""
        self.job.options.deadline_ns = self.handle.until
        try:
            status, numbers = _native.judge(self.call, *arrays)
        finally:
            self.job.options.deadline_ns = 0
        self.job.reraise()
        check(status, self.handle.error)
        return Certificate._make(numbers)

    def free(self) -> None:
        self.handle.free()


def _field(job: Job, arrays: c.Arrays, place: Place) -> int:
    parts = {
        "problem": job.problem,
        "terms": job.terms,
        "supports": job.supports,
        "arrays": arrays,
    }
    return ctypes.addressof(parts[place.part]) + place.offset


def inputs_of(job: Job, struct: c.Arrays, order: Sequence[str], arrays: Sequence[Any]) -> list[Input]:
    """Those of the operands among the arrays of a call."""
    found = []
    for index, (name, x) in enumerate(zip(order, arrays, strict=True)):
        place = job.places.get(name)
        if x is not None and place is not None:
            found.append(Input(index, _field(job, struct, place), place.kind, place.part != "arrays"))
    return found


def is_fresh(job: Job) -> bool:
    """Whether a plan looks at what the arrays hold when it is bound to them."""
    return any(name not in _NOT_READ for name in job.places)


def address_in(record: Any, field: str) -> int:
    offset: int = getattr(type(record), field).offset
    return ctypes.addressof(record) + offset


# ---- keeping ---------------------------------------------------------------------------------------


class _Kind(list[Kept]):
    """The idle plans of one kind of call: one at most, but for an instant. Lists are safe between threads."""

    __slots__ = ("bytes", "kept", "used")

    def __init__(self, size: int) -> None:
        super().__init__()
        self.bytes, self.kept, self.used = size, True, 0


_kinds: dict[Any, _Kind] = {}
_lock = threading.Lock()
_clock = itertools.count(1).__next__


def take(name: Any) -> Kept | None:
    """An idle plan of calls of this name, or None."""
    kind = None if name is None else _kinds.get(name)
    try:
        return kind.pop() if kind else None
    except IndexError:  # another thread was faster
        return None


def give(kept: Kept) -> None:
    """Keeps the plan for the next call of its name, where it has one."""
    kept.held, kept.handle.until = None, 0
    kind = kept.kind
    if kind is None:
        if kept.key is None:
            kept.free()
            return
        kind = kept.kind = _register(kept)
    kind.used = _clock()
    if not kind:
        kind.append(kept)
        if kind.kept:
            return
        _drain(kind)
    else:
        kept.free()


def _register(kept: Kept) -> _Kind:
    """A place for its kind; the kinds that were used last keep theirs."""
    with _lock:
        kind = _kinds.get(kept.key)
        if kind is not None:
            return kind
        kind = _kinds[kept.key] = _Kind(kept.bytes)
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


# A child may have been forked while another thread held the lock.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)


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
    clear()
    for forget in _forgetters:
        forget()
