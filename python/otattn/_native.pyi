"""Calls for which ctypes takes longer than the work (python/native/)."""

from typing import Any

def assign(cost: Any, maximize: bool, limit: float | None, maps: bool, /) -> tuple[Any, ...] | None: ...
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
def route(
    logits: Any,
    k: Any,
    capacity: Any,
    bounds: Any,
    method: int,
    potentials: Any,
    tolerance: Any,
    rounds: Any,
    certificate: bool,
    threads: int,
    /,
) -> tuple[Any, ...] | None: ...
def release() -> None: ...
def tensors(kind: Any, table: Any, /) -> bool: ...
def layout(*arrays: Any) -> bytes | None: ...
def without_zeros(*arrays: Any) -> bool: ...
def copies(*arrays: Any) -> tuple[Any, ...]: ...
def keep(
    plan: int | None,
    problem: int,
    arrays: int,
    gradients: int,
    result: int,
    error: int,
    fresh: bool,
    alone: bool,
    bound: tuple[int, ...],
    given: tuple[int, ...],
    outputs: tuple[tuple[int, int, tuple[int, ...]], ...],
    /,
) -> Any: ...
def run(kept: Any, /, *arrays: Any) -> tuple[Any, ...] | None: ...
