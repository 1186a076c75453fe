"""Calls for which ctypes takes longer than the work (python/native/calls.c)."""

from typing import Any

def assign(cost: Any, maximize: bool, /) -> tuple[Any, Any] | None: ...
def maxsim(
    queries: Any,
    documents: Any,
    offsets: Any,
    lengths: Any,
    query_lengths: Any,
    capacity: int,
    top: int | None,
    threads: int,
    /,
) -> Any: ...
def release() -> None: ...
