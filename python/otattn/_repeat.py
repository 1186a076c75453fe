"""Calls like one before: the plan and its structs are kept, filled; a call changes addresses only.

What a call is like (its name) is everything but the addresses: words and numbers, and shape, strides and type
of query, key, value and mask. Whatever else a call has goes the longer way of `_arrays` and `_torch`.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

from . import _structs as c
from ._errors import raise_status
from ._library import library
from ._solve import Handle, Job, View, pool, settle

_put = struct.Struct("@P").pack_into
_rebind, _forward, _backward = library.ota_plan_rebind, library.ota_forward, library.ota_backward
_QUERIES, _KEYS = c.Problem.queries.offset, c.Problem.keys.offset
_VALUES = c.Arrays.values.offset
# The mask is the last of the supports.
_FROM_END = ctypes.sizeof(c.Support) - c.Support.array.offset
_FIELDS = {"query": "queries", "key": "keys", "value": "values"}
# What an array without the alignment or layout of the first call comes to.
_REFUSED = (c.EALIGN, c.EINVAL, c.EALIAS)


class Repeat:
    """A plan with the structs of one kind of call. Not for two threads at once; `pool` sees to that."""

    __slots__ = (
        "arrays",
        "bound",
        "bytes",
        "handle",
        "job",
        "keep",
        "key",
        "places",
        "pointer",
        "problem",
        "references",
        "shapes",
        "supports",
    )

    def __init__(
        self, key: Any, job: Job, outputs: dict[str, View], scratch: dict[str, View], keep: Any, shapes: Any
    ) -> None:
        """`outputs` are new at every call, in this order; `scratch` is memory that `keep` keeps alive."""
        self.key, self.job, self.keep, self.shapes = key, job, keep, shapes
        self.handle = handle = Handle(job)
        self.bytes, self.pointer = handle.bytes, handle.pointer
        handle.bind_arrays(job, {**scratch, **outputs})
        self.places = tuple(getattr(c.Arrays, name).offset for name in outputs)
        self.problem, self.arrays = job.problem, handle.arrays
        self.supports: Any = job.supports
        self.references = (
            ctypes.byref(handle.arrays),
            ctypes.byref(handle.result),
            handle.reference,
            ctypes.byref(job.problem),
        )
        self.bound: tuple[int, int, int] | None = None

    def run(self, query: int, key: int, value: int, mask: int, *outputs: int) -> bool:
        """Solves at these addresses; False where they need the longer way."""
        arrays, result, error, problem = self.references
        bound = (query, key, mask)
        if bound != self.bound:
            _put(self.problem, _QUERIES, query)
            _put(self.problem, _KEYS, key)
            if mask:
                _put(self.supports, len(self.supports) * ctypes.sizeof(c.Support) - _FROM_END, mask)
            self.bound = None
            if _rebind(self.pointer, problem, error) < 0:
                return False
            self.bound = bound
        _put(self.arrays, _VALUES, value)
        for place, address in zip(self.places, outputs, strict=True):
            _put(self.arrays, place, address)
        status: int = _forward(self.pointer, arrays, result, error)
        if status:
            if status in _REFUSED:
                return False
            settle(self.job, self.handle, status)
        return True

    def free(self) -> None:
        self.handle.free()


class Reverse:
    """The same of a backward that needs no forward of its own. Not for two threads at once either."""

    __slots__ = ("bound", "bytes", "gradients", "handle", "job", "key", "places", "references", "shapes")

    def __init__(
        self,
        key: Any,
        job: Job,
        kept: dict[str, View],
        given: dict[str, View],
        wanted: dict[str, View],
        shapes: Any,
    ) -> None:
        """`kept` of forward, `given` gradients and `wanted` ones are at other places at every call."""
        self.key, self.job, self.shapes = key, job, shapes
        self.handle = handle = Handle(job)
        self.bytes = handle.bytes
        handle.bind_arrays(job, kept)
        self.gradients = gradients = handle.gradients_of(job, given, wanted, True)
        arrays = handle.arrays
        self.places: list[tuple[Any, int]] = [(arrays, _VALUES)]
        self.places += [(arrays, getattr(c.Arrays, name).offset) for name in kept]
        self.places += [(gradients, getattr(c.Gradients, name).offset) for name in given]
        self.places += [(gradients, getattr(c.Gradients, _FIELDS[name]).offset) for name in wanted]
        self.references = (
            ctypes.byref(arrays),
            ctypes.byref(gradients),
            ctypes.byref(handle.result),
            handle.reference,
            ctypes.byref(job.problem),
        )
        self.bound: tuple[int, int, int] | None = None

    def run(self, query: int, key: int, mask: int, *others: int) -> bool:
        """Differentiates at these addresses (value, kept, given, wanted); False: needs the longer way."""
        arrays, gradients, result, error, problem = self.references
        bound = (query, key, mask)
        if bound != self.bound:
            self.bound = None
            _put(self.job.problem, _QUERIES, query)
            _put(self.job.problem, _KEYS, key)
            if mask:
                supports: Any = self.job.supports
                _put(supports, len(supports) * ctypes.sizeof(c.Support) - _FROM_END, mask)
            if _rebind(self.handle.pointer, problem, error) < 0:
                return False
            self.bound = bound
        for (record, place), address in zip(self.places, others, strict=True):
            _put(record, place, address)
        status: int = _backward(self.handle.pointer, arrays, gradients, result, error)
        if status in _REFUSED:
            return False
        if status < 0:
            raise_status(status, self.handle.error, sentence=self.handle.result.sentence.decode())
        return True

    def free(self) -> None:
        self.handle.free()


def take(key: Any) -> Any:
    """What `give` was given last under this key, or None."""
    return pool.take(key)


def give(repeat: Repeat | Reverse) -> None:
    pool.give(repeat)


def same_memory(views: Sequence[Any], addresses: Sequence[int]) -> bool:
    """Do the views of a job show the caller's own memory, without a copy between?"""
    return all(
        (view[0] if isinstance(view, tuple) else 0) == address
        for view, address in zip(views, addresses, strict=True)
    )
