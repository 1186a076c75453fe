"""`otattn.Model`: a trained transformer that is run, looked into and continued."""

from __future__ import annotations

import ctypes
import functools
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from .. import _model_structs as m
from .._errors import check, new_error
from .._settings import whole
from .library import library
from .session import Asked, RunOptions, Session, Sessions, Settings, Size, settings_of
from .tokens import Tokenizer, ids_of, padded

# Where programs of the hub keep what they downloaded; the first variable that is set decides.
_CACHES = (
    ("HF_HUB_CACHE", ""),
    ("HF_HOME", "/hub"),
    ("XDG_CACHE_HOME", "/huggingface/hub"),
    ("HOME", "/.cache/huggingface/hub"),
)


def _hub_cache() -> bytes | None:
    for variable, tail in _CACHES:
        folder = os.environ.get(variable)
        if folder:
            return os.fsencode(folder + tail)
    return None


class ModelFacts(NamedTuple):
    """What a model is, by its configuration and its file."""

    architecture: str
    format: str
    """ "safetensors" or "gguf"."""
    path: str
    dtype: str
    """The stored type of most parameters."""
    head: str
    """How logits are made: "tied", "own", "mlm" or "none"."""
    layers: int
    heads: int
    kv_heads: int
    width: int
    head_width: int
    inner: int
    vocabulary: int
    positions: int
    parameters: int
    causal: bool
    norm_epsilon: float
    rope_base: float
    """0: learned positions."""


class Point(NamedTuple):
    """A point of a run at which `capture` takes an array."""

    name: str
    layer: int
    """Its block; -1: before all of them, the number of blocks: behind them."""
    shape: tuple[int, ...]
    """Of one text of so many tokens."""


class Projections(NamedTuple):
    """The matrices of one layer's attention, products y = x W, f32."""

    query: NDArray[np.float32]
    """(width, heads * head width)"""
    key: NDArray[np.float32]
    """(width, kv heads * head width); head h reads group h // (heads / kv heads)"""
    value: NDArray[np.float32]
    """As `key`."""
    output: NDArray[np.float32]
    """(heads * head width, width)"""
    scale: float
    """Of q k^T."""


class ModelRun:
    """What a run found.

    Attributes
    ----------
    ids : array, shape (batch, tokens)
    lengths : array, shape (batch,), or None
        Tokens of each text, where these differ.
    states : array, shape (batch, tokens, width)
        f32, behind the last norm.
    layers : array, shape (batch, tokens)
        How many layers every token went through: all, but with `exit`.
    """

    def __init__(
        self,
        model: Model,
        settings: Settings,
        asked: Asked,
        states: NDArray[np.float32],
        layers: NDArray[np.int64],
    ) -> None:
        self._model, self._settings = model, settings
        self.ids, self.lengths = asked.ids, asked.lengths
        self.states, self.layers = states, layers

    @functools.cached_property
    def logits(self) -> NDArray[np.float32]:
        """Shape (batch, tokens, vocabulary), computed when first asked for."""
        return self._model._logits(self._settings, self._size, self.states)

    @functools.cached_property
    def last_logits(self) -> NDArray[np.float32]:
        """Shape (batch, vocabulary): those of every text's last token."""
        known = self.__dict__.get("logits")
        batch, count = self.ids.shape
        last = np.full(batch, count - 1) if self.lengths is None else self.lengths - 1
        rows = (self.states if known is None else known)[np.arange(batch), last]
        return self._model._logits(self._settings, self._size, rows) if known is None else rows

    @property
    def _size(self) -> Size:
        return Size(*self.ids.shape)

    def __repr__(self) -> str:
        batch, count = self.ids.shape
        return f"ModelRun({self._model.facts.architecture}: {batch} x {count} tokens)"


class Generation(NamedTuple):
    """A continuation."""

    text: str
    """Of the new tokens; empty for a model without a tokenizer."""
    ids: NDArray[np.int64]
    """The new tokens."""
    prompt: NDArray[np.int64]
    layers_used: float
    """Layers that a token went through, in the mean."""


class Model:
    """A transformer checkpoint, run with any attention method.

    Parameters
    ----------
    name : str or path
        A folder with config.json and safetensors files, a .gguf file, or the name of a model in the local
        cache of the hub (HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME or HOME say where that is). Nothing is
        downloaded.

    Weights stay in the memory-mapped file; arithmetic is f32. A model may be used by several threads.
    `close`, or the end of a with block, frees it.

    Raises
    ------
    ValueError, OSError
        With one sentence, where the file is no model that can be run.

    Examples
    --------
    >>> import otattn, os
    >>> from pathlib import Path
    >>> folder = Path(os.environ.get("OTATTN_DEMO_MODEL", "data/demo/model"))
    >>> if folder.exists():
    ...     with otattn.Model(folder) as model:
    ...         run = model.run("Attention as transport.")
    ...         assert run.logits.shape == (*run.ids.shape, model.facts.vocabulary)
    """

    def __init__(self, name: str | os.PathLike[str]) -> None:
        pointer = ctypes.c_void_p()
        error, reference = new_error()
        options = m.ModelOptions(size=ctypes.sizeof(m.ModelOptions), hub_cache=_hub_cache())
        status = library.ota_model_open(
            ctypes.byref(pointer), os.fsencode(name), ctypes.byref(options), reference
        )
        check(status, error)
        self.name = os.fspath(name)
        self._pointer = pointer
        self._sessions = Sessions(pointer)
        self._free = weakref.finalize(self, _free, self._sessions, pointer)
        self._tokenizer: Tokenizer | None = None
        self.facts = _facts(pointer)

    # ---- itself ----

    def close(self) -> None:
        """Frees the model; further calls raise."""
        self._sessions.close()
        self._free()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        f = self.facts
        return (
            f"Model({self.name!r}: {f.architecture}, {f.layers} layers of {f.heads} heads, width {f.width}, "
            f"{f.parameters / 1e6:.1f} million parameters, {f.format})"
        )

    def __reduce__(self) -> Any:
        raise TypeError(
            "a Model is a file that this process has mapped and cannot be pickled; "
            f"open it there with otattn.Model({self.name!r})"
        )

    def _open(self) -> ctypes.c_void_p:
        if not self._free.alive:
            raise ValueError("the model is closed")
        return self._pointer

    # ---- tokens ----

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the checkpoint.

        Raises
        ------
        ValueError, OSError
            Where it has none.
        """
        if self._tokenizer is None:
            pointer = ctypes.c_void_p()
            error, reference = new_error()
            check(
                library.ota_model_tokenizer(self._open(), ctypes.byref(pointer), reference),
                error,
            )
            self._tokenizer = Tokenizer._of(pointer, self.name)
        return self._tokenizer

    def tokens(self, text: str | bytes, *, special: bool = True, plain: bool = False) -> NDArray[np.int64]:
        """The token ids of a text, shape (tokens,); `Tokenizer.encode` says what the arguments mean."""
        return self.tokenizer.encode(text, special=special, plain=plain)

    def decode(self, ids: Any, *, special: bool = True) -> str:
        """The text of token ids."""
        return self.tokenizer.decode(ids, special=special)

    def _texts(self, ids: NDArray[np.int64]) -> list[list[str]]:
        """A label for every token."""
        try:
            tokenizer = self.tokenizer
        except (ValueError, OSError):
            return [[str(one) for one in row] for row in ids.tolist()]
        known = len(tokenizer)
        return [[tokenizer.decode([one]) if one < known else str(one) for one in row] for row in ids.tolist()]

    def _asked(self, what: Any) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        """Ids [batch, count] and lengths, of a text, several texts, or ids."""
        if isinstance(what, (str, bytes)):
            what = [what]
        if isinstance(what, (list, tuple)) and what and all(isinstance(x, (str, bytes)) for x in what):
            ids, lengths = padded([self.tokens(text) for text in what])
        elif isinstance(what, (list, tuple)) and what and all(np.ndim(x) == 1 for x in what):
            ids, lengths = padded([ids_of("ids", x) for x in what])
        else:
            ids, lengths = ids_of("ids", what), None
            ids = ids[None] if ids.ndim == 1 else ids
        if ids.ndim != 2 or ids.size == 0 or (lengths is not None and lengths.min() == 0):
            raise ValueError(
                "there is no token; wanted a text, texts, or ids of shape (tokens,) or (batch, tokens)"
            )
        return ids, lengths

    # ---- running ----

    @contextmanager
    def _session(self, settings: Settings, size: Size, seconds: float | None) -> Iterator[Session]:
        session = self._sessions.take(settings, size, seconds)
        try:
            yield session
        finally:
            self._sessions.give(session)

    def run(
        self,
        text: Any,
        *,
        types: Any = None,
        residual: Any = None,
        start_layer: int = 0,
        exit: tuple[float, int] | None = None,
        **options: Unpack[RunOptions],
    ) -> ModelRun:
        """Runs the model over a text.

        Parameters
        ----------
        text : str, list of str, or array of int, shape (tokens,) or (batch, tokens)
            Texts of different lengths are padded behind; nothing sees the padding.
        types : array of int, shape (batch, tokens), optional
            BERT's token types; 0 by default.
        residual : array, shape (batch, tokens, width), optional
            The residual stream that goes into `start_layer`, in the place of the embedding.
        start_layer : int
        exit : (float, int), optional
            A threshold and a number of layers: a token stops once its largest probability was above the
            threshold behind so many layers in a row.
        methods : str, list of str, or dict
            METHOD[@PLACE,...]: an attention method everywhere, or at L (a layer), A-B, L.H (a head), A-B.H;
            the last one wins. A dict has methods by place. "@FILE" reads a JSON file of them. Softmax by
            default.
        temperature : float
            A factor on the model's own.
        rounds, max_rounds, tolerance, window, sink : optional
            As in `otattn.attention`, for every layer.
        allow_nonfinite : bool
            Whether weights may be NaN or infinite.
        deadline : float, optional
            Seconds after which the call ends with TimeoutError.

        Returns
        -------
        run : ModelRun
            With ids, states, layers, logits and last_logits.

        Raises
        ------
        ValueError, TypeError
            For what is out of its range.
        SolveError, TimeoutError, MemoryError
            As `otattn.attention`, with layer and head in the sentence.
        """
        settings, seconds = settings_of(options)
        ids, lengths = self._asked(text)
        shape = (*ids.shape, self.facts.width)
        asked = Asked(
            ids,
            lengths,
            types=_shaped("types", types, ids.shape, np.int64),
            residual=_shaped("residual", residual, shape, np.float32),
            start_layer=whole("start_layer", start_layer),
            exit=None if exit is None else (float(exit[0]), whole("exit", exit[1], 1)),
        )
        states = np.empty(shape, np.float32)
        layers = np.empty(ids.shape, np.int64)
        with self._session(settings, Size(*ids.shape), seconds) as session:
            session.run(asked, states, layers)
        return ModelRun(self, settings, asked, states, layers)

    def _logits(self, settings: Settings, size: Size, states: NDArray[np.float32]) -> NDArray[np.float32]:
        """By a session that such a run left, whose room says how many rows go at once."""
        if self.facts.head == "none":
            raise ValueError(f"{self.name} has no head, so it gives no logits")
        with self._session(settings, size, None) as session:
            return session.logits(states, self.facts.vocabulary)


def _free(sessions: Sessions, pointer: ctypes.c_void_p) -> None:
    sessions.release()
    library.ota_model_free(pointer)


def _facts(pointer: ctypes.c_void_p) -> ModelFacts:
    found = m.ModelFacts(size=ctypes.sizeof(m.ModelFacts))
    error, reference = new_error()
    check(library.ota_model_describe(pointer, ctypes.byref(found), reference), error)
    values = {name: getattr(found, name) for name in ModelFacts._fields}
    words = {name: os.fsdecode(value) for name, value in values.items() if isinstance(value, bytes)}
    return ModelFacts(**{**values, **words, "causal": bool(found.causal)})


def _shaped(name: str, x: Any, shape: tuple[int, ...], dtype: Any) -> NDArray[Any] | None:
    if x is None:
        return None
    found = ids_of(name, x) if dtype is np.int64 else np.ascontiguousarray(x, dtype)
    found = found.reshape(1, *found.shape) if found.ndim == len(shape) - 1 else found
    if found.shape != shape:
        raise ValueError(f"{name} has shape {found.shape}, wanted {shape}")
    return found
