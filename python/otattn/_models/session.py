"""Sessions of a model: what one is made for, those that wait for the next run, and a run itself."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from .. import _model_structs as m
from .. import _structs as c
from .._errors import check, new_error
from .._handle import moment_of
from .._keywords import seconds_left
from .._leaks import warn
from .._library import CANCEL
from .._settings import count as whole_or_none
from .._settings import number, shown
from .._threads import thread_limit
from .edits import Bound, Edit
from .library import library

Methods = str | Sequence[str] | Mapping[str, str]


class RunOptions(TypedDict, total=False):
    """How a model is run; the keywords of `Model.run`, `capture`, `generate` and their like."""

    methods: Methods
    temperature: float
    rounds: int | None
    max_rounds: int | None
    tolerance: float | None
    window: tuple[int, int] | None
    sink: float | None
    allow_nonfinite: bool
    edits: Sequence[Edit]
    deadline: float | None


class Settings(NamedTuple):
    """What a session is made for, apart from its sizes."""

    methods: tuple[str, ...]
    temperature: float
    rounds: int
    max_rounds: int
    tolerance: float
    window: tuple[int, int] | None
    sink: float | None
    allow_nonfinite: bool
    threads: int

    @property
    def may_be_kept(self) -> bool:
        """Whether a later session would be the same: a file of methods may have changed."""
        return not any(method.startswith("@") for method in self.methods)


def _methods(given: Any) -> tuple[str, ...]:
    if isinstance(given, str):
        return (given,)
    if isinstance(given, Mapping):
        return tuple(f"{method}@{place}" if place else method for place, method in given.items())
    found = tuple(given) if isinstance(given, Iterable) else (given,)
    for one in found:
        if not isinstance(one, str):
            raise TypeError(f"methods hold {shown(one)}, wanted texts METHOD[@PLACE,...]")
    return found


def _window(given: Any) -> tuple[int, int] | None:
    if given is None:
        return None
    sides = tuple(given)
    if len(sides) != 2:
        raise ValueError(f"window is {shown(given)}, wanted two numbers: keys to the left and to the right")
    left, right = (_side(side) for side in sides)
    return left, right


def _side(side: Any) -> int:
    found = number("window", side)
    if found != int(found) or found < -1:
        raise ValueError(f"window holds {shown(side)}, wanted whole numbers, -1 = no limit")
    return int(found)


def settings_of(options: Mapping[str, Any]) -> tuple[Settings, float | None, Sequence[Edit]]:
    """What the keywords of a run say: settings of its session, seconds that it may take, edits."""
    known = RunOptions.__annotations__
    for name in options:
        if name not in known:
            raise TypeError(f"unknown keyword {name!r}; wanted {', '.join(known)}")
    rounds = whole_or_none("rounds", options.get("rounds"))
    sink = options.get("sink")
    settings = Settings(
        _methods(options.get("methods", ())),
        number("temperature", options.get("temperature", 1.0)),
        c.NO_ROUNDS if rounds == 0 else rounds or 0,
        whole_or_none("max_rounds", options.get("max_rounds"), 1) or 0,
        number("tolerance", options.get("tolerance") or 0.0),
        _window(options.get("window")),
        None if sink is None else number("sink", sink),
        bool(options.get("allow_nonfinite", False)),
        thread_limit(),
    )
    if not settings.temperature > 0.0:
        raise ValueError(f"temperature is {settings.temperature!r}, wanted more than 0")
    edits = options.get("edits") or ()
    several = [edits] if isinstance(edits, Edit) else list(edits)
    return settings, seconds_left("deadline", options.get("deadline")), several


class Size(NamedTuple):
    """For how many sequences and tokens a session has room, and how many positions its cache has."""

    batch: int
    tokens: int
    cache: int = 0

    def has_room_for(self, other: Size) -> bool:
        """Whether a session of this size serves another one without holding far more than that needs."""
        if self.cache != other.cache or self.batch < other.batch or self.tokens < other.tokens:
            return False
        return self.batch * self.tokens <= 4 * other.batch * other.tokens


class Asked(NamedTuple):
    """One run: token ids [batch, count] and what stands in ota_model_run beside them."""

    ids: NDArray[np.int64]
    lengths: NDArray[np.int64] | None = None
    types: NDArray[np.int64] | None = None
    first: int = 0
    residual: NDArray[np.float32] | None = None
    start_layer: int = 0
    exit: tuple[float, int] | None = None
    edits: tuple[Bound, ...] = ()
    pixels: NDArray[np.float32] | None = None
    """Images, for which the ids stand."""


class Block(NamedTuple):
    """Rows of a captured array, valid during the call that gets them."""

    name: str
    shape: tuple[int, ...]
    """Of the whole array."""
    first: int
    """The first of these rows, of the array as a matrix."""
    rows: NDArray[np.float32]


class Watcher(NamedTuple):
    """Which points of a run are captured, and what takes blocks of at most so many rows (0: all).

    `heads` are those of weights and scores; None: all.
    """

    wanted: Callable[[str], bool]
    take: Callable[[Block], None]
    heads: frozenset[int] | None = None
    block_rows: int = 0


_WANTED = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_WANTED_HEAD = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64)
_CAPTURE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(m.Capture), ctypes.c_void_p)


class _Callbacks:
    """The functions that a run calls. An exception in one ends the run and is raised behind it."""

    def __init__(self, watcher: Watcher) -> None:
        self.failure: BaseException | None = None
        self.watcher = watcher
        self.wanted = _WANTED(self._wanted)
        self.wanted_head = _WANTED_HEAD(self._wanted_head)
        self.capture = _CAPTURE(self._capture)

    def _wanted(self, user: int | None, name: bytes) -> int:
        del user
        return int(self.failure is None and self._guarded(self.watcher.wanted, name.decode()) is True)

    def _wanted_head(self, user: int | None, name: bytes, head: int) -> int:
        del user, name
        return int(self.watcher.heads is None or head in self.watcher.heads)

    def _capture(self, user: int | None, record: Any, error: int | None) -> int:
        del user, error
        one = record.contents
        memory: Any = (ctypes.c_float * (one.rows * one.columns)).from_address(one.data)
        rows = np.frombuffer(memory, np.float32).reshape(one.rows, one.columns)
        block = Block(one.name.decode(), tuple(one.shape[: one.rank]), one.first_row, rows)
        self._guarded(self.watcher.take, block)
        return c.OK if self.failure is None else c.CANCELLED

    def _guarded(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except BaseException as failure:
            self.failure = failure
            return None


class Session:
    """One ota_session. Not for two threads at once."""

    def __init__(self, model: Any, settings: Settings, size: Size, until: int) -> None:
        self.settings, self.size = settings, size
        texts = (ctypes.c_char_p * len(settings.methods))(*(os.fsencode(text) for text in settings.methods))
        window = None if settings.window is None else (ctypes.c_int64 * 2)(*settings.window)
        sink = None if settings.sink is None else ctypes.c_double(settings.sink)
        options = m.SessionOptions(
            size=ctypes.sizeof(m.SessionOptions),
            batch=size.batch,
            tokens=size.tokens,
            cache=size.cache,
            methods=ctypes.addressof(texts),
            method_count=len(settings.methods),
            temperature=settings.temperature,
            tolerance=settings.tolerance,
            rounds=settings.rounds,
            max_rounds=settings.max_rounds,
            window=None if window is None else ctypes.addressof(window),
            sink=None if sink is None else ctypes.addressof(sink),
            threads=settings.threads,
            cancel=CANCEL,
            allow_nonfinite=settings.allow_nonfinite,
            deadline_ns=until,
        )
        pointer = ctypes.c_void_p()
        self.error, self.reference = new_error()
        status = library.ota_session_create(
            ctypes.byref(pointer), model, ctypes.byref(options), self.reference
        )
        check(status, self.error)
        self.pointer = pointer
        self.free = weakref.finalize(self, library.ota_session_free, pointer)
        said: bytes = library.ota_session_warning(pointer)
        if said:
            warn(said.decode(), UserWarning)

    def run(
        self,
        asked: Asked,
        states: NDArray[np.float32] | None,
        layers: NDArray[np.int64] | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        """Fills states [batch, count, width] and how many layers every token went through [batch, count]."""
        batch, count = asked.ids.shape
        run = m.ModelRun(
            size=ctypes.sizeof(m.ModelRun),
            ids=asked.ids.ctypes.data if asked.pixels is None else None,
            batch=batch,
            count=count,
            lengths=_address(asked.lengths),
            types=_address(asked.types),
            first=asked.first,
            states=_address(states),
            layers=_address(layers),
            residual=_address(asked.residual),
            pixels=_address(asked.pixels),
            start_layer=asked.start_layer,
        )
        if asked.exit is not None:
            run.exit_threshold, run.exit_transitions = asked.exit
        calls = None if watcher is None else _Callbacks(watcher)
        if calls is not None:
            run.wanted = ctypes.cast(calls.wanted, ctypes.c_void_p).value
            run.capture = ctypes.cast(calls.capture, ctypes.c_void_p).value
            run.wanted_head = ctypes.cast(calls.wanted_head, ctypes.c_void_p).value
            run.block_rows = calls.watcher.block_rows
        edits = (m.Edit * len(asked.edits))(*(edit._struct for edit in asked.edits))
        run.edits, run.edit_count = ctypes.addressof(edits), len(asked.edits)
        status = library.ota_session_run(self.pointer, ctypes.byref(run), self.reference)
        if calls is not None and calls.failure is not None:
            raise calls.failure
        check(status, self.error)

    def logits(
        self, states: NDArray[np.float32], vocabulary: int, normalise: bool = False
    ) -> NDArray[np.float32]:
        """[..., vocabulary] of states [..., width]."""
        flat = np.ascontiguousarray(states, np.float32).reshape(-1, states.shape[-1])
        found = np.empty((flat.shape[0], vocabulary), np.float32)
        status = library.ota_session_logits(
            self.pointer, flat.ctypes.data, flat.shape[0], normalise, found.ctypes.data, self.reference
        )
        check(status, self.error)
        return found.reshape(*states.shape[:-1], vocabulary)


def _address(x: NDArray[Any] | None) -> int | None:
    return None if x is None else x.ctypes.data


class Sessions:
    """The sessions of one model: those at work, and at most two that wait for a run like their last."""

    KEPT = 2

    def __init__(self, model: Any) -> None:
        self._model = model
        self._idle: list[Session] = []
        self._lock = threading.Lock()
        self._working = 0
        self._closed = False

    def take(self, settings: Settings, size: Size, seconds: float | None) -> Session:
        """A session for one run, which `give` ends."""
        until = moment_of(seconds)
        with self._lock:
            if self._closed:
                raise ValueError("the model is closed")
            self._working += 1
            for k, session in enumerate(self._idle):
                if session.settings == settings and session.size.has_room_for(size):
                    del self._idle[k]
                    library.ota_session_set_deadline(session.pointer, until)
                    return session
        try:
            return Session(self._model, settings, size, until)
        except BaseException:
            with self._lock:
                self._working -= 1
            raise

    def give(self, session: Session) -> None:
        """Ends the use of a session, and keeps it for the next run where that can be."""
        library.ota_session_set_deadline(session.pointer, 0)
        with self._lock:
            self._working -= 1
            if self._closed or not session.settings.may_be_kept:
                leaving = [session]
            else:
                self._idle.append(session)
                leaving, self._idle = self._idle[: -self.KEPT], self._idle[-self.KEPT :]
        for one in leaving:
            one.free()

    def release(self) -> None:
        """Frees those that wait."""
        with self._lock:
            leaving, self._idle = self._idle, []
        for one in leaving:
            one.free()

    def close(self) -> None:
        """Frees all; no further one is made."""
        with self._lock:
            if self._working:
                raise ValueError("the model cannot be closed while a call of another thread runs it")
            self._closed = True
        self.release()
