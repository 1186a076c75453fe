"""The logit lens of transformers models.

What stands between the last block and the logits (norms, heads, caps, factors) is the model's own code: its
blocks are replaced by ones that hand out the streams of an earlier run, a few tokens at a time. That the last
stream gives the logits of that run is looked at each time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from . import _hf_points
from ._hf_texts import row_of, texts_of
from ._models.studies import ROWS, LogitLens, streams_of
from ._settings import whole
from ._shapes import shape_text

Module = torch.nn.Module


class _Behind:
    """The model behind its blocks."""

    def __init__(self, model: Module, blocks: list[Module], tuples: bool, tokens: int) -> None:
        self._model, self._blocks, self._tuples = model, blocks, tuples
        # Tokens of a text and texts of a run; no longer than the first run's, whose positions there are.
        self._tokens = min(ROWS, tokens)
        self._texts = max(1, ROWS // tokens)
        self.rows = self._tokens * self._texts

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Logits (rows, vocabulary) of at most `self.rows` vectors of a stream."""
        texts = -(-len(rows) // self._tokens)
        given = rows.new_zeros(texts * self._tokens, rows.shape[1])
        given[: len(rows)] = rows
        stream = given.view(texts, self._tokens, -1)
        ids = torch.zeros(stream.shape[:2], dtype=torch.long, device=next(self._model.parameters()).device)
        with _replaced(self._blocks, (stream, None) if self._tuples else stream):
            out = self._model(input_ids=ids, attention_mask=torch.ones_like(ids))
        found: torch.Tensor = out.logits.flatten(0, 1)[: len(rows)]
        return found


@contextlib.contextmanager
def _replaced(blocks: list[Module], out: Any) -> Iterator[None]:
    """Each of the blocks returns this. Wrappers of others stand in the same place of a module."""
    before = [block.__dict__.get("forward") for block in blocks]
    for block in blocks:
        block.__dict__["forward"] = lambda *_, **__: out
    try:
        yield
    finally:
        for block, forward in zip(blocks, before, strict=True):
            del block.__dict__["forward"]
            if forward is not None:
                block.__dict__["forward"] = forward


def _last_list(model: Module) -> tuple[list[Module], int]:
    """The blocks of the model's last list, and how many layers are counted before (those of images, say)."""
    blocks = [layout.block for layout in _hf_points.layouts(model)]
    if not blocks:
        raise ValueError(
            f"{type(model).__name__} has no list of blocks with one attention module each, so no stream that "
            f"a lens could show to its head"
        )
    paths = {id(part): path.rpartition(".")[0] for path, part in model.named_modules()}
    same = [block for block in blocks if paths[id(block)] == paths[id(blocks[-1])]]
    return same, len(blocks) - len(same)


def _counts(inputs: Any, ids: torch.Tensor) -> list[int]:
    """Tokens of each text."""
    mask = inputs.get("attention_mask") if isinstance(inputs, Mapping) else None
    if not isinstance(mask, torch.Tensor) or mask.dim() != 2:
        return [ids.shape[1]] * len(ids)
    real = mask.bool()
    if bool((real[:, 1:] & ~real[:, :-1]).any()):
        raise ValueError(
            "texts are padded on the left, and a lens counts from their first token; pad on the right"
        )
    counts: list[int] = real.sum(1).tolist()
    return counts


def logit_lens(model: Module, inputs: Any, top: int, tokenizer: Any) -> LogitLens:
    """`otattn.hf.logit_lens`, of a model that runs on otattn."""
    if isinstance(inputs, str):
        inputs = row_of("inputs", inputs, tokenizer, next(model.parameters()).device)
    ids = inputs.get("input_ids") if isinstance(inputs, Mapping) else inputs
    if not isinstance(ids, torch.Tensor) or ids.dim() != 2:
        kind = shape_text(ids) if isinstance(ids, torch.Tensor) else type(ids).__name__
        raise TypeError(f"inputs have ids of {kind}, wanted a tensor (batch, tokens), or input_ids in a dict")
    counts = _counts(inputs, ids)
    blocks, before = _last_list(model)
    names = streams_of(_hf_points.points(model))[before:]
    forms: list[bool] = []
    handle = blocks[-1].register_forward_hook(lambda _, __, out: forms.append(isinstance(out, tuple)))
    try:
        out, found = _hf_points.capture(model, inputs, names, None)
    finally:
        handle.remove()
    logits = _hf_points.logits_of(out)
    if logits.shape[:2] != ids.shape or len(found) != len(names) or len(forms) != 1:
        raise ValueError(
            f"{type(model).__name__} gives logits of shape {shape_text(logits)} for ids {shape_text(ids)}, "
            f"which its stream of {len(found)} layers does not lead to token by token"
        )
    words, most = logits.shape[2], whole("top", top, 1, logits.shape[2])
    shape = (len(names), *ids.shape, most)
    best, shares = np.empty(shape, np.int64), np.empty(shape)
    flat = best.reshape(len(names), -1, most), shares.reshape(len(names), -1, most)
    behind = _Behind(model, blocks, forms[0], ids.shape[1])
    with _hf_points.unedited(model) as edits_behind:
        for layer, name in enumerate(names):
            rows = found[name].flatten(0, 1)
            for first in range(0, len(rows), behind.rows):
                place = slice(first, first + behind.rows)
                made = behind(rows[place])
                if layer == len(names) - 1 and not edits_behind:
                    _check(model, made, logits.reshape(-1, words)[place])
                order = made.float().sort(dim=1, descending=True, stable=True)
                tops = order.values.double()
                sums = (tops - tops[:, :1]).exp().sum(1, keepdim=True)
                flat[0][layer, place] = order.indices[:, :most].cpu().numpy()
                flat[1][layer, place] = ((tops[:, :most] - tops[:, :1]).exp() / sums).cpu().numpy()
    own = [row[:count] for row, count in zip(texts_of(ids, tokenizer), counts, strict=True)]
    return LogitLens(best, shares, [texts_of(each[..., 0], tokenizer) for each in best], own)


def _check(model: Module, made: torch.Tensor, wanted: torch.Tensor) -> None:
    bound = min(1024 * torch.finfo(wanted.dtype).eps, 0.05) * float(wanted.abs().max())
    if not float((made - wanted).abs().max()) <= bound:
        raise RuntimeError(
            f"{type(model).__name__} makes of the stream behind its last block other logits than it "
            f"returned, so a lens would show something else than its head does"
        )
