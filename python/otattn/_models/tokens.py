"""Text to token ids and back, as the tokenizer of a trained model does it."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _model_structs as m
from .._errors import check, new_error
from .._library import CANCEL
from .._settings import flag, shown
from .library import library

# A text that is longer than this many bytes in ids is encoded in two calls.
_SPARE = 64


def ids_of(name: str, ids: Any) -> NDArray[np.int64]:
    """Token ids as a dense array of whole numbers."""
    given = np.asarray(ids.detach() if hasattr(ids, "detach") else ids)
    if given.dtype.kind not in "iu" and given.size:
        raise TypeError(f"{name} has type {given.dtype}, wanted whole numbers")
    return np.ascontiguousarray(given, np.int64)


def ending() -> m.TokenOptions:
    """Options of a call that Ctrl-C ends."""
    return m.TokenOptions(size=ctypes.sizeof(m.TokenOptions), cancel=CANCEL)


class Tokenizer:
    """The tokenizer of a model: a folder, its `tokenizer.json` or `vocab.txt`.

    `Model.tokenizer` is that of a checkpoint, a gguf file's included. Any number of threads may use one.

    Parameters
    ----------
    path : str or path

    Raises
    ------
    ValueError, OSError
        With one sentence: file, byte and rule.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        pointer = ctypes.c_void_p()
        error, reference = new_error()
        status = library.ota_tokenizer_open_with(
            ctypes.byref(pointer), os.fsencode(path), ctypes.byref(ending()), reference
        )
        check(status, error)
        self._hold(pointer, os.fspath(path))

    @classmethod
    def _of(cls, pointer: ctypes.c_void_p, source: str) -> Tokenizer:
        own = cls.__new__(cls)
        own._hold(pointer, source)
        return own

    def _hold(self, pointer: ctypes.c_void_p, source: str) -> None:
        self._pointer = pointer
        self._source = source
        self._free = weakref.finalize(self, library.ota_tokenizer_free, pointer)

    @property
    def model(self) -> str:
        """The kind: "bpe", "sentencepiece", "wordpiece", ..."""
        word: bytes = library.ota_tokenizer_model(self._pointer)
        return word.decode()

    def __len__(self) -> int:
        count: int = library.ota_tokenizer_count(self._pointer)
        return count

    def __repr__(self) -> str:
        return f"Tokenizer({self._source!r}: {self.model}, {len(self)} pieces)"

    def __reduce__(self) -> Any:
        raise TypeError("a Tokenizer is memory of the C library and cannot be pickled; open it again there")

    def encode(self, text: str | bytes, *, special: bool = True, plain: bool = False) -> NDArray[np.int64]:
        """The ids of a text, shape (tokens,).

        Parameters
        ----------
        text : str or bytes
        special : bool
            Whether what the model's configuration puts around a text ([CLS], <bos>) is there.
        plain : bool
            Whether `<|endoftext|>` and the like in the text are ordinary characters.

        Notes
        -----
        Ctrl-C ends it within a tenth of a second of work, but for the search for one word of megabytes.
        """
        if not isinstance(text, (str, bytes)):
            raise TypeError(f"text is a {type(text).__name__}, wanted str or bytes")
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        flags = (0 if flag("special", special) else m.ENCODE_NO_SPECIAL) | (
            m.ENCODE_PLAIN if flag("plain", plain) else 0
        )
        options = m.TokenOptions(size=ctypes.sizeof(m.TokenOptions), flags=flags, cancel=CANCEL)
        count, room = ctypes.c_int64(), len(data) // 2 + _SPARE
        error, reference = new_error()
        while True:
            ids = np.empty(room, np.int32)
            status = library.ota_tokenizer_encode_with(
                self._pointer,
                data,
                len(data),
                ctypes.byref(options),
                ids.ctypes.data,
                room,
                ctypes.byref(count),
                reference,
            )
            check(status, error)
            if count.value <= room:
                return ids[: count.value].astype(np.int64)
            room = count.value

    def decode_bytes(self, ids: Any, *, special: bool = True, inner: bool = False) -> bytes:
        """The bytes of a text from its ids; without `special`, special pieces are nothing. `inner`: other ids
        stand before these, so that a blank in front is one of the text."""
        narrow = self._known(ids)
        flags = (0 if flag("special", special) else m.DECODE_NO_SPECIAL) | (
            m.DECODE_INNER if flag("inner", inner) else 0
        )
        options = m.TokenOptions(size=ctypes.sizeof(m.TokenOptions), flags=flags, cancel=CANCEL)
        size, room = ctypes.c_int64(), 8 * narrow.size + _SPARE
        error, reference = new_error()
        while True:
            text = ctypes.create_string_buffer(room)
            status = library.ota_tokenizer_decode_with(
                self._pointer,
                narrow.ctypes.data,
                narrow.size,
                ctypes.byref(options),
                text,
                room,
                ctypes.byref(size),
                reference,
            )
            check(status, error)
            if size.value <= room:
                return text.raw[: size.value]
            room = size.value

    def decode(self, ids: Any, *, special: bool = True, inner: bool = False) -> str:
        """The text of ids; bytes that are no UTF-8 become U+FFFD."""
        return self.decode_bytes(ids, special=special, inner=inner).decode("utf-8", "replace")

    def texts(self, ids: Any) -> list[str]:
        """The text of every id by itself, as labels of rows and columns are made."""
        return [self.decode([one], inner=True) for one in ids_of("ids", ids).ravel().tolist()]

    def piece(self, id: int) -> str:
        """A piece as its file spells it."""
        self._known([id])
        found = library.ota_tokenizer_piece(self._pointer, int(id))
        address = ctypes.c_void_p.from_buffer(found, m.Text.data.offset).value
        return ctypes.string_at(address or 0, found.size).decode("utf-8", "replace")

    def id(self, piece: str) -> int | None:
        """The id of a piece so spelled; None where there is none."""
        data = piece.encode()
        found: int = library.ota_tokenizer_id(self._pointer, m.Text(data, len(data)))
        return None if found < 0 else found

    def is_special(self, id: int) -> bool:
        """Whether a piece is special, as [CLS] and `<|endoftext|>` are."""
        return bool(library.ota_tokenizer_is_special(self._pointer, int(id)))

    def frame(self) -> tuple[list[int], list[int]]:
        """The ids that are set before and behind every text."""
        return self._frame(0), self._frame(1)

    def _frame(self, after: int) -> list[int]:
        ids = np.empty(_SPARE, np.int32)
        count: int = library.ota_tokenizer_frame(self._pointer, after, ids.ctypes.data, ids.size)
        return [int(one) for one in ids[:count]]

    def _known(self, ids: Any) -> NDArray[np.int32]:
        """Ids that the vocabulary has."""
        given = ids_of("ids", ids).ravel()
        wrong = given[(given < 0) | (given >= len(self))]
        if wrong.size:
            raise ValueError(f"ids hold {shown(int(wrong[0]))}, and the vocabulary has {len(self)} pieces")
        return given.astype(np.int32)


def padded(rows: Sequence[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Ids of several texts as one array and their lengths; None: all are equally long."""
    lengths = np.array([row.size for row in rows], np.int64)
    ids = np.zeros((len(rows), int(lengths.max(initial=0))), np.int64)
    for to, row in zip(ids, rows, strict=True):
        to[: row.size] = row
    return ids, None if (lengths == ids.shape[1]).all() else lengths
