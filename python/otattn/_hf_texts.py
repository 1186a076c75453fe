"""Texts of transformers models: prompts and tokens by a tokenizer of transformers, or of `tokenizers`."""

from __future__ import annotations

from typing import Any

import torch

from ._settings import shown, whole
from ._shapes import shape_text


def encoded(name: str, text: str, tokenizer: Any, special: bool = True) -> list[int]:
    """The ids of a text, with what the tokenizer puts around one if `special`."""
    if tokenizer is None:
        raise TypeError(f"{name} is {shown(text)}; give tokenizer=, or its ids")
    found = tokenizer.encode(text, add_special_tokens=special)
    return [int(one) for one in getattr(found, "ids", found)]


def row_of(name: str, given: Any, tokenizer: Any, device: torch.device) -> torch.Tensor:
    """The ids of one prompt, (1, tokens)."""
    plain = encoded(name, given, tokenizer) if isinstance(given, str) else given
    ids = torch.as_tensor(plain, device=device)
    ids = ids[None] if ids.dim() == 1 else ids
    if ids.dim() != 2 or len(ids) != 1 or not ids.numel() or ids.is_floating_point():
        raise ValueError(f"{name} has {shape_text(ids)}, wanted the ids of one prompt, (tokens,)")
    return ids


def token_of(name: str, given: Any, tokenizer: Any, words: int) -> int:
    """An id, or a text of one token."""
    if not isinstance(given, str):
        return whole(name, given, 0, words - 1)
    ids = encoded(name, given, tokenizer, special=False)
    if len(ids) != 1:
        raise ValueError(f"{name} is {shown(given)}, which is {len(ids)} tokens, wanted one")
    return whole(name, ids[0], 0, words - 1)


def texts_of(ids: Any, tokenizer: Any) -> list[list[str]]:
    """Of every token of rows; without a tokenizer its id."""
    rows: list[list[int]] = ids.tolist()
    return [[str(one) if tokenizer is None else tokenizer.decode([one]) for one in row] for row in rows]
