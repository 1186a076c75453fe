"""How many threads a solve may use. Results do not depend on it."""

from __future__ import annotations

import contextlib
import contextvars
import os
from collections.abc import Callable, Iterator

from ._library import library

# 0: as many as the process may use.
_limit: contextvars.ContextVar[int] = contextvars.ContextVar("otattn_threads", default=0)
_process_limit = 0
_THREADS_MAX = 4096


def _wanted(text: str | None) -> int:
    """The number in OMP_NUM_THREADS, of a list of them the first, or 0 where there is none."""
    first = (text or "").partition(",")[0].strip()
    return min(int(first), _THREADS_MAX) if first.isascii() and first.isdecimal() else 0


# As OpenMP does: read once, in the beginning.
_environment = _wanted(os.environ.get("OMP_NUM_THREADS"))


def _nobody() -> int:
    return 0


_followed: Callable[[], int] = _nobody


def follow(number: Callable[[], int]) -> None:
    """Takes the number of threads from there where the caller has set none: torch's, once it has tensors."""
    global _followed  # noqa: PLW0603
    _followed = number


def thread_limit() -> int:
    """What goes into the library's options: 0 leaves the choice to it."""
    return _limit.get() or _process_limit or _followed() or _environment


def set_num_threads(n: int) -> None:
    """Sets the number of threads of later calls of this process.

    0, as it is at first, means torch's own number (``torch.set_num_threads``) from the first call with
    tensors on. Before, it means the number in the environment variable OMP_NUM_THREADS as the package is
    imported, and without one all processors that the process may use: its affinity mask, bounded by the
    quota of its control groups.

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
    return thread_limit() or int(library.ota_processors())


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
