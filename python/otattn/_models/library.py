"""The C library of models, which the package holds where the system's packages for it were there.

It is loaded at its first call, so that everything else works without it.
"""

from __future__ import annotations

import functools
from typing import Any

from .._library import FOLDER, file_of, load
from .._model_structs import CALLS, Text

_LONG = (
    "ota_model_open",
    "ota_session_create",
    "ota_session_run",
    "ota_session_logits",
    "ota_model_tokenizer_with",
    "ota_tokenizer_open_with",
    "ota_tokenizer_encode_with",
    "ota_tokenizer_decode_with",
)


@functools.cache
def _loaded() -> Any:
    if not file_of("otattn_model").exists():
        from ..__main__ import missing

        raise ImportError(f"otattn: {missing('models', [FOLDER])}")
    return load("otattn_model", CALLS, _LONG, {"t": Text})


class _Library:
    def __getattr__(self, name: str) -> Any:
        return getattr(_loaded(), name)


library = _Library()
