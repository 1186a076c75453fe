"""How many threads a solve may use. Results do not depend on it."""

from __future__ import annotations

import contextlib
import contextvars
import os
from collections.abc import Callable, Iterator

# 0: as many as the process may use.
_limit: contextvars.ContextVar[int] = contextvars.ContextVar("otattn_threads", default=0)
_process_limit = 0


def _nobody() -> int:
    return 0


_followed: Callable[[], int] = _nobody


def follow(number: Callable[[], int]) -> None:
    """Takes the number of threads from there where the caller has set none: torch's, once it has tensors."""
    global _followed  # noqa: PLW0603
    _followed = number


def thread_limit() -> int:
    """What goes into the library's options: 0 leaves the choice to it."""
    return _limit.get() or _process_limit or _followed()


def set_num_threads(n: int) -> None:
    """Sets the number of threads of later calls of this process.

    0, as it is at first, means torch's own number (``torch.set_num_threads``) from the first call with
    tensors on, and all CPUs that the process may use before.

    Examples
    --------
    >>> import otattn
    >>> otattn.set_num_threads(2)
    >>> otattn.get_num_threads()
    2
    >>> otattn.set_num_threads(0)
    """
    global _process_limit  # noqa: PLW0603
    _process_limit = _checked(n)


def get_num_threads() -> int:
    """The number of threads a call made here would use."""
    return thread_limit() or _available()


@contextlib.contextmanager
def threads(n: int) -> Iterator[None]:
    """Sets the number of threads inside a with block, for this thread or task only.

    Examples
    --------
    >>> import otattn
    >>> with otattn.threads(1):
    ...     otattn.get_num_threads()
    1
    """
    token = _limit.set(_checked(n))
    try:
        yield
    finally:
        _limit.reset(token)


def _checked(n: int) -> int:
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeError(f"n is a {type(n).__name__}, wanted an int")
    if n < 0 or n > 1 << 20:
        raise ValueError(f"n is {n}, wanted 0 (all) or more")
    return n


def _available() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
