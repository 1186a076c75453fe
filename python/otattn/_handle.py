"""One plan of the library."""

from __future__ import annotations

import ctypes

from . import _structs as c
from ._errors import check, new_error
from ._job import Job
from ._library import library
from ._progress import now

# More seconds from now than a deadline holds.
FAR = 9e8


def moment_of(seconds: float | None) -> int:
    """The nanosecond on the library's clock so many seconds from now; 0: never."""
    return 0 if seconds is None else now() + int(min(seconds, FAR) * 1e9)


class Handle:
    """One ota_plan, with the records of what its calls found. Not for two threads at once."""

    __slots__ = ("bytes", "error", "key", "pointer", "reference", "result", "timed", "until")

    def __init__(self, job: Job) -> None:
        job.watch(job.operands[3])
        self.error, self.reference = new_error()
        pointer = ctypes.c_void_p()
        status = library.ota_plan_create(
            ctypes.byref(pointer),
            ctypes.byref(job.problem),
            job.sizes[5],
            ctypes.byref(job.options),
            self.reference,
        )
        job.reraise()
        check(status, self.error)
        self.pointer: int | None = pointer.value
        self.key = job.key
        self.bytes: int = library.ota_plan_bytes(pointer)
        self.result = c.Result()
        self.result.size = ctypes.sizeof(c.Result)
        self.timed = False
        # The deadline of the last call, for the judge of what it found; 0: none.
        self.until = 0

    def begin(self, until: int, job: Job) -> None:
        """Before a call of the library that may take long, of the plan's job: its `moment_of` end."""
        self.until = until
        if until:
            library.ota_plan_set_deadline(self.pointer, self.until)
            self.timed = True
        job.begin(until)

    def end(self) -> None:
        """Behind such a call, which may have had a deadline."""
        if self.timed:
            library.ota_plan_set_deadline(self.pointer, 0)
            self.timed = False

    def rebind(self, job: Job) -> None:
        """Goes on with the problem of a job."""
        job.watch(job.operands[3])
        status = library.ota_plan_rebind(self.pointer, ctypes.byref(job.problem), self.reference)
        job.reraise()
        check(status, self.error)

    def free(self) -> None:
        if self.pointer is not None:
            library.ota_plan_free(self.pointer)
            self.pointer = None
