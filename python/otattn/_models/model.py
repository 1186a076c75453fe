"""`otattn.Model`: a trained transformer that is run, looked into and continued."""

from __future__ import annotations

import contextvars
import ctypes
import functools
import itertools
import os
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from .. import _model_structs as m
from .._errors import check, new_error
from .._library import CANCEL
from .._settings import flag, number, shown, whole
from .._shapes import repr_of
from . import studies
from .capture import HEAD_AXES, Capture, chosen, head_set, part_of, point_name
from .edits import Bound, Edit, bound
from .library import library
from .sampling import next_token
from .session import Asked, Block, RunOptions, Session, Sessions, Settings, Size, Watcher, settings_of
from .studies import LogitLens, Patching
from .tokens import Tokenizer, ending, ids_of, padded

if TYPE_CHECKING:
    from ..lens import HookedModel

# Where programs of the hub keep what they downloaded; the first variable that is set decides.
_CACHES = (
    ("HF_HUB_CACHE", ""),
    ("HF_HOME", "/hub"),
    ("XDG_CACHE_HOME", "/huggingface/hub"),
    ("HOME", "/.cache/huggingface/hub"),
    ("USERPROFILE", "/.cache/huggingface/hub"),
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
    image: tuple[int, int, int]
    """Channels, height and width of the images that it sees; 0: it reads text."""


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
    rms: bool
    """Whether the norm of this attention is RMSNorm, else LayerNorm."""

    def __repr__(self) -> str:
        return repr_of(self)


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
        """Shape (batch, vocabulary): of every text's last token, of images the first, which is their own."""
        known = self.__dict__.get("logits")
        batch, count = self.ids.shape
        last = np.full(batch, count - 1) if self.lengths is None else self.lengths - 1
        last = np.zeros_like(last) if self._model.facts.image[0] else last
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

    def __repr__(self) -> str:
        return repr_of(self)


class Model:
    """A transformer checkpoint, run with any attention method.

    Parameters
    ----------
    name : str or path
        A folder with config.json and safetensors files, a .gguf file, or the name of a model in the local
        cache of the hub (HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, HOME or USERPROFILE say where that is).
        Nothing is downloaded.

    Raises
    ------
    ValueError, OSError
        With one sentence, where the file is no model that can be run.

    Notes
    -----
    Weights stay in the memory-mapped file; arithmetic is f32. A model may be used by several threads.
    `close`, or the end of a with block, frees it.

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
        options = m.ModelOptions(
            size=ctypes.sizeof(m.ModelOptions),
            hub_cache=_hub_cache(),
            tensors=m.TensorLimits(cancel=CANCEL),
        )
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
            status = library.ota_model_tokenizer_with(
                self._open(), ctypes.byref(pointer), ctypes.byref(ending()), reference
            )
            check(status, error)
            self._tokenizer = Tokenizer._of(pointer, self.name)
        return self._tokenizer

    def tokens(self, text: str | bytes, *, special: bool = True, plain: bool = False) -> NDArray[np.int64]:
        """The token ids of a text, shape (tokens,); `Tokenizer.encode` says what the arguments mean."""
        return self.tokenizer.encode(text, special=special, plain=plain)

    def decode(self, ids: Any, *, special: bool = True) -> str:
        """The text of token ids."""
        return self.tokenizer.decode(ids, special=special)

    def _texts(self, ids: NDArray[np.int64]) -> list[list[str]]:
        """A label for every token; pieces of images are counted by rows and columns."""
        if self.facts.image[0]:
            side = round((ids.shape[1] - 1) ** 0.5)
            return [["image", *(f"{k // side},{k % side}" for k in range(side * side))] for _ in ids]
        try:
            tokenizer = self.tokenizer
        except (ValueError, OSError):
            return [[str(one) for one in row] for row in ids.tolist()]
        known = len(tokenizer)
        return [
            [tokenizer.decode([one], inner=True) if one < known else str(one) for one in row]
            for row in ids.tolist()
        ]

    def _seen(self, text: Any, pixels: Any) -> Asked:
        """What a run reads: a text, texts or ids, or images."""
        if (text is None) == (pixels is None):
            raise TypeError("a run takes a text or pixels, one of them")
        if pixels is None:
            return Asked(*self._asked(text))
        found = np.ascontiguousarray(pixels, np.float32)
        found = found[None] if found.ndim == 3 else found
        if found.ndim != 4 or found.shape[1:] != self.facts.image or found.shape[0] == 0:
            wanted = f"{self.facts.image}" if self.facts.image[0] else "none: it reads text"
            raise ValueError(f"pixels have the shape {np.shape(pixels)}, and the model sees {wanted}")
        places = np.arange(self.facts.positions, dtype=np.int64)
        return Asked(np.ascontiguousarray(np.tile(places, (len(found), 1))), pixels=found)

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
        text: Any = None,
        *,
        pixels: Any = None,
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
        pixels : array, shape (channels, height, width) or (batch, channels, height, width)
            In the place of a text, of a model that sees images (`facts.image`), scaled as it was trained with
            them. Its tokens are the one of the whole image, and the pieces row by row.
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
        settings, seconds, edits = settings_of(options)
        asked = self._seen(text, pixels)
        ids = asked.ids
        shape = (*ids.shape, self.facts.width)
        asked = asked._replace(
            types=_shaped("types", types, ids.shape, np.int64),
            residual=_shaped("residual", residual, shape, np.float32),
            start_layer=whole("start_layer", start_layer),
            exit=_exit(exit),
            edits=self._bound(edits, ids.shape[1]),
        )
        states = np.empty(shape, np.float32)
        layers = np.empty(ids.shape, np.int64)
        with self._session(settings, Size(*ids.shape), seconds) as session:
            session.run(asked, states, layers)
        return ModelRun(self, settings, asked, states, layers)

    # ---- looking into a run ----

    @functools.cached_property
    def points(self) -> list[str]:
        """The names of the points at which `capture` takes arrays and an `Edit` changes them, in order."""
        return [point.name for point in self.points_of(1, 1)]

    def points_of(self, batch: int, tokens: int) -> list[Point]:
        """The points with the shapes of a run of so many texts and tokens."""
        found, record = [], m.CapturePoint()
        for index in itertools.count():
            if not library.ota_model_point(self._open(), index, batch, tokens, ctypes.byref(record)):
                break
            found.append(Point(record.name.decode(), record.layer, tuple(record.shape[: record.rank])))
        return found

    def _bound(self, edits: Sequence[Edit], tokens: int) -> tuple[Bound, ...]:
        """What the library does for the edits of a call and those of `edited` around it."""
        found: list[Bound] = []
        for edit in (*_edited.get().get(id(self), ()), *edits):
            if not isinstance(edit, Edit):
                raise TypeError(f"edits hold {shown(edit)}, wanted otattn.Edit")
            found += bound(edit, chosen(edit.point, self.points, edit.layer), tokens)
        return tuple(found)

    @contextmanager
    def edited(self, *edits: Edit) -> Iterator[Model]:
        """Has every run of this thread or task within the with block make the edits.

        Examples
        --------
        >>> import otattn, pathlib
        >>> if pathlib.Path("data/demo/model").exists():
        ...     model = otattn.Model("data/demo/model")
        ...     with model.edited(otattn.Edit("z", layer=1, head=2)):
        ...         without = model.run("Mass moves.").last_logits
        ...     assert (without != model.run("Mass moves.").last_logits).any()
        """
        known = _edited.get()
        token = _edited.set({**known, id(self): (*known.get(id(self), ()), *edits)})
        try:
            yield self
        finally:
            _edited.reset(token)

    def capture(
        self,
        text: Any = None,
        points: str | Iterable[str] | None = None,
        *,
        layers: int | Iterable[int] | None = None,
        heads: int | Iterable[int] | None = None,
        pixels: Any = None,
        types: Any = None,
        **options: Unpack[RunOptions],
    ) -> Capture:
        """The arrays at points inside a run.

        Parameters
        ----------
        text : str, list of str, or array of int
            As in `run`.
        points : str or list of str, optional
            Names of `Model.points`, names without "blocks.L." (every layer), short words ("pattern",
            "resid_pre", "q"), or "all". By default the embedding, the stream before every layer and behind
            the last, the attention weights of every head, and the last norm.
        layers, heads : int or list of int, optional
            Of what; all by default. `heads` are those of arrays with one entry a query head; of keys and
            values all groups come.
        pixels, types : optional
            As in `run`.
        **options
            Of `run`.

        Returns
        -------
        capture : Capture
            A mapping from names to f32 arrays with the shapes of `docs/users/models.md`, the batch first.
        """
        settings, seconds, edits = settings_of(options)
        asked = self._seen(text, pixels)
        ids, lengths = asked.ids, asked.lengths
        names = chosen(_standard(self.points) if points is None else points, self.points, layers)
        kept = None if heads is None else head_set(heads, self.facts.heads)
        wanted = set(names)
        arrays: dict[str, NDArray[np.float32]] = {}

        def take(block: Block) -> None:
            if block.first == 0:
                arrays[block.name] = np.empty(block.shape, np.float32)
            to = arrays[block.name].reshape(-1, block.rows.shape[1])
            to[block.first : block.first + len(block.rows)] = block.rows

        asked = asked._replace(
            types=_shaped("types", types, ids.shape, np.int64),
            edits=self._bound(edits, ids.shape[1]),
        )
        some = None if kept is None else frozenset(kept)
        watcher = Watcher(wanted.__contains__, take, some, 0 if some is None else _BLOCK)
        with self._session(settings, Size(*ids.shape), seconds) as session:
            session.run(asked, None, None, watcher)
        if kept is not None:
            arrays = {name: _of_heads(name, x, kept, self.facts) for name, x in arrays.items()}
        return Capture(
            {name: arrays[name] for name in names if name in arrays},
            ids,
            lengths,
            self._texts(ids),
            heads=kept,
            model=Path(self.name).name,
            causal=self.facts.causal,
        )

    def receiver_mass(
        self,
        text: Any,
        *,
        layers: int | Iterable[int] | None = None,
        heads: int | Iterable[int] | None = None,
        **options: Unpack[RunOptions],
    ) -> NDArray[np.float32]:
        """The mass that every key receives in every head, without ever holding (tokens, tokens) numbers.

        Parameters
        ----------
        text, layers, heads, **options
            As in `capture`.

        Returns
        -------
        mass : array, shape (batch, layers, heads, keys)
        """
        found = self.capture(text, "attn.hook_receiver", layers=layers, heads=heads, **options)
        return np.stack(list(found.values()), 1)

    def weights(
        self,
        text: Any,
        layer: int,
        head: int,
        *,
        scores: bool = False,
        out: NDArray[np.float32] | None = None,
        **options: Unpack[RunOptions],
    ) -> NDArray[np.float32]:
        """The attention weights of one head, made in blocks of rows: no other head's are held.

        Parameters
        ----------
        text : str, list of str, or array of int
            As in `run`.
        layer, head : int
        scores : bool
            Whether the scores come in place of weights: before the division by the temperature, -inf where a
            mask forbids.
        out : array, shape (batch, tokens, tokens), f32, optional
            Where they go, a `numpy.memmap` for instance.
        **options
            Of `run`.

        Returns
        -------
        weights : array, shape (batch, queries, keys)
        """
        settings, seconds, edits = settings_of(options)
        ids, lengths = self._asked(text)
        number = whole("layer", layer, 0, self.facts.layers - 1)
        name = point_name("attn_scores" if flag("scores", scores) else "pattern", number)
        shape = (len(ids), ids.shape[1], ids.shape[1])
        found = np.empty(shape, np.float32) if out is None else out
        if found.shape != shape or found.dtype != np.float32:
            raise ValueError(f"out is {found.dtype} of shape {found.shape}, wanted float32 of shape {shape}")
        kept = head_set(whole("head", head, -self.facts.heads), self.facts.heads)

        def take(block: Block) -> None:
            sequence, row = divmod(block.first, ids.shape[1])
            found[sequence, row : row + len(block.rows)] = block.rows

        asked = Asked(ids, lengths, edits=self._bound(edits, ids.shape[1]))
        watcher = Watcher(name.__eq__, take, frozenset(kept), _BLOCK)
        with self._session(settings, Size(*ids.shape), seconds) as session:
            session.run(asked, None, None, watcher)
        return found

    def projections(self, layer: int) -> Projections:
        """The matrices of one layer's attention."""
        f, number = self.facts, whole("layer", layer, 0, self.facts.layers - 1)
        query, group = f.heads * f.head_width, f.kv_heads * f.head_width
        shapes = {"query": (f.width, query), "key": (f.width, group), "value": (f.width, group)}
        shapes["output"] = (query, f.width)
        arrays = {name: np.empty(shape, np.float32) for name, shape in shapes.items()}
        record = m.ModelAttention(size=ctypes.sizeof(m.ModelAttention))
        for name, x in arrays.items():
            setattr(record, name, x.ctypes.data)
        error, reference = new_error()
        status = library.ota_model_attention_of(self._open(), number, ctypes.byref(record), reference)
        check(status, error)
        return Projections(**arrays, scale=record.scale, rms=bool(record.rms))

    def logit_lens(self, text: Any, top: int = 1, **options: Unpack[RunOptions]) -> LogitLens:
        """The likeliest next tokens by what the head makes of the stream at every layer and position.

        Parameters
        ----------
        text : str, list of str, or array of int
            As in `run`.
        top : int
            How many tokens of each place.
        **options
            Of `run`.

        Returns
        -------
        lens : LogitLens
            With ids, probabilities, and texts of the likeliest.
        """
        return studies.logit_lens(self, text, top, options)

    def patch(
        self,
        clean: Any,
        corrupt: Any,
        point: str = "hook_resid_pre",
        *,
        by: str | None = None,
        answer: str | int | None = None,
        other: str | int | None = None,
        **options: Unpack[RunOptions],
    ) -> Patching:
        """Activation patching: which places of a run carry what makes two prompts differ.

        The corrupt prompt runs for every layer and position, or head, with the clean run's numbers there.

        Parameters
        ----------
        clean, corrupt : str or array of int, shape (tokens,)
            Prompts of equally many tokens.
        point : str
            A point of every layer: "hook_resid_pre", "z", "pattern", "mlp_out", ...
        by : str, optional
            "position", or "head" (the default where the point has heads).
        answer, other : str or int, optional
            Two tokens whose logits behind the last position are compared; each prompt's own prediction unless
            given.
        **options
            Of `run`.

        Returns
        -------
        patching : Patching
            Its `shares` are (layers, positions) or (layers, heads): 0 as the corrupt prompt, 1 as the
            clean one.
        """
        return studies.patch(self, (clean, corrupt), point, by, (answer, other), options)

    def as_transformer_lens(self, **options: Unpack[RunOptions]) -> HookedModel:
        """The model behind the calls of a HookedTransformer: `cfg`, `to_tokens`, `run_with_cache` and more.

        Needs torch. `options` are those of `run`, for all its runs.
        """
        from ..lens import HookedModel

        return HookedModel(self, **options)

    # ---- continuing a text ----

    def generate(
        self,
        prompt: Any,
        tokens: int = 32,
        *,
        sample: bool = False,
        seed: int = 1,
        exit: tuple[float, int] | None = None,
        **options: Unpack[RunOptions],
    ) -> Generation:
        """Continues a prompt token by token, on a cache of keys and values.

        Parameters
        ----------
        prompt : str or array of int, shape (tokens,)
        tokens : int
            How many are made.
        sample : bool
            Whether tokens are drawn from their probabilities, by `seed`; else the likeliest is taken.
        exit : (float, int), optional
            As in `run`.
        **options
            Of `run`; methods with free or online columns.

        Returns
        -------
        generation : Generation
            With text, ids, prompt and layers_used.
        """
        settings, seconds, edits = settings_of(options)
        ids, _ = self._asked(prompt)
        f, count, wanted = self.facts, ids.shape[1], whole("tokens", tokens, 1)
        sample = flag("sample", sample)
        if not f.causal:
            raise ValueError(f"{f.architecture} looks both ways, so it continues no text")
        if len(ids) != 1:
            raise ValueError(f"prompt holds {len(ids)} texts, wanted one")
        if wanted > f.positions - count:
            raise ValueError(
                f"{wanted} tokens after a prompt of {count} do not fit {f.positions} positions; ask for fewer"
            )
        asked = Asked(ids, exit=_exit(exit), edits=self._bound(edits, count))
        made = np.empty(wanted, np.int64)
        used = 0
        states = np.empty((1, count, f.width), np.float32)
        layers = np.empty((1, count), np.int64)
        with self._session(settings, Size(1, count, count + wanted), seconds) as session:
            for k in range(wanted):
                new = asked if k == 0 else asked._replace(ids=made[None, k - 1 : k], first=count + k - 1)
                last = new.ids.shape[1] - 1
                session.run(new, states, layers)
                logits = session.logits(states[0, last : last + 1], f.vocabulary)[0]
                made[k] = next_token(logits, sample, seed, k)
                used += int(layers[0, last])
        try:
            text = self.tokenizer.decode(made, inner=True)
        except (ValueError, OSError):
            text = ""
        return Generation(text, made, ids[0], used / wanted)

    def _logits(self, settings: Settings, size: Size, states: NDArray[np.float32]) -> NDArray[np.float32]:
        """By a session that such a run left, whose room says how many rows go at once."""
        if self.facts.head == "none":
            raise ValueError(f"{self.name} has no head, so it gives no logits")
        with self._session(settings, size, None) as session:
            return session.logits(states, self.facts.vocabulary)


# Edits of the with blocks around a call, by the identity of their model.
_edited: contextvars.ContextVar[dict[int, tuple[Edit, ...]]] = contextvars.ContextVar("edited", default={})  # noqa: B039
# Rows of weights that are made at once where only some are kept.
_BLOCK = 256


def _standard(names: list[str]) -> list[str]:
    """What `otattn capture` writes by itself."""
    ends = ("hook_resid_post", "hook_normalized_resid_post")
    last = [name for name in names if part_of(name) in ends][-1:]
    kinds = ("hook_embed", "ln_final.hook_normalized", "hook_resid_pre", "attn.hook_pattern")
    return [name for name in names if part_of(name) in kinds or name in last]


def _exit(given: Any) -> tuple[float, int] | None:
    if given is None:
        return None
    threshold, transitions = given
    return number("exit", threshold), whole("exit", transitions, 1)


def _of_heads(
    name: str, x: NDArray[np.float32], heads: tuple[int, ...], facts: ModelFacts
) -> NDArray[np.float32]:
    """The heads of an array that came with all of them."""
    axis = HEAD_AXES.get(part_of(name))
    if axis is None or x.shape[axis] != facts.heads:
        return x
    return np.take(x, heads, axis)


def _free(sessions: Sessions, pointer: ctypes.c_void_p) -> None:
    sessions.release()
    library.ota_model_free(pointer)


def _facts(pointer: ctypes.c_void_p) -> ModelFacts:
    found = m.ModelFacts(size=ctypes.sizeof(m.ModelFacts))
    error, reference = new_error()
    check(library.ota_model_describe(pointer, ctypes.byref(found), reference), error)
    values = {name: getattr(found, name) for name in ModelFacts._fields}
    words = {name: os.fsdecode(value) for name, value in values.items() if isinstance(value, bytes)}
    return ModelFacts(**{**values, **words, "causal": bool(found.causal), "image": tuple(found.image)})


def _shaped(name: str, x: Any, shape: tuple[int, ...], dtype: Any) -> NDArray[Any] | None:
    if x is None:
        return None
    found = ids_of(name, x) if dtype is np.int64 else np.ascontiguousarray(x, dtype)
    found = found.reshape(1, *found.shape) if found.ndim == len(shape) - 1 else found
    if found.shape != shape:
        raise ValueError(f"{name} has shape {found.shape}, wanted {shape}")
    return found
