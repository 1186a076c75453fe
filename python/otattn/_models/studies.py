"""Studies of a model that take several runs or many logits: the logit lens, activation patching."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._settings import shown, whole
from .._shapes import repr_of
from .capture import chosen, layer_of, part_of
from .edits import Bound, Edit, bound
from .session import Asked, RunOptions, Session, Size, settings_of

if TYPE_CHECKING:
    from .model import Model

# Rows of logits, and tokens of a batch, at a time.
ROWS, _TOKENS = 64, 1024


class LogitLens(NamedTuple):
    """What the model's head makes of the stream in front of every layer, and behind the last.

    The first layer is the embedding, the last what the model predicts.
    """

    ids: NDArray[np.int64]
    """(layers + 1, batch, tokens, top): the likeliest next tokens, best first."""
    probabilities: NDArray[np.float64]
    """Theirs."""
    texts: list[list[list[str]]]
    """(layers + 1, batch, tokens): the likeliest one's text."""
    tokens: list[list[str]]
    """Of each text its own tokens."""

    def __repr__(self) -> str:
        return repr_of(self)


class Patching(NamedTuple):
    """What comes back of a clean prompt's answer where one place of the corrupt run is the clean run's."""

    shares: NDArray[np.float64]
    """(layers, positions) or (layers, heads): 0 as the corrupt prompt, 1 as the clean one."""
    clean: float
    """Logit of `answer` minus that of `other` behind the last token."""
    corrupt: float
    answer: int
    other: int
    by: str
    """ "position" or "head"."""

    def __repr__(self) -> str:
        return repr_of(self)

    tokens: list[str]
    """The corrupt prompt's."""


def streams_of(names: Sequence[str]) -> list[str]:
    """Of all points those in front of every layer and behind the last."""
    before = [name for name in names if part_of(name) == "hook_resid_pre"]
    ends = ("hook_resid_post", "hook_normalized_resid_post")
    last = [name for name in names if part_of(name) in ends][-1]
    return [*before, last]


def logit_lens(model: Model, text: Any, top: int, options: RunOptions) -> LogitLens:
    """`Model.logit_lens`."""
    settings, seconds, _ = settings_of(options)
    points, normed = streams_of(model.points), "ln_final.hook_normalized" in model.points
    found = model.capture(text, points, **options)
    words, most = model.facts.vocabulary, whole("top", top, 1, model.facts.vocabulary)
    shape = (len(points), *found.ids.shape, most)
    ids, probabilities = np.empty(shape, np.int64), np.empty(shape)
    flat = ids.reshape(len(points), -1, most), probabilities.reshape(len(points), -1, most)
    with model._session(settings, Size(*found.ids.shape), seconds) as session:
        for layer, name in enumerate(points):
            states = found[name].reshape(-1, model.facts.width)
            for first in range(0, len(states), ROWS):
                place = np.s_[layer, first : first + ROWS]
                logits = session.logits(states[first : first + ROWS], words, normed)
                best = np.argsort(-logits, 1, kind="stable")[:, :most]
                tops = np.take_along_axis(logits, best, 1).astype(np.float64)
                sums = np.exp(logits.astype(np.float64) - tops[:, :1]).sum(1, keepdims=True)
                flat[0][place], flat[1][place] = best, np.exp(tops - tops[:, :1]) / sums
    counts = [found.ids.shape[1]] * len(found.ids) if found.lengths is None else found.lengths
    own = [tokens[:count] for tokens, count in zip(found.tokens, counts, strict=True)]
    return LogitLens(ids, probabilities, [model._texts(each[..., 0]) for each in ids], own)


def _cells(model: Model, name: str, by: str | None, count: int) -> tuple[str, int, int]:
    """What is patched one by one, how many, and their dimension in the point's array of one text."""
    (shape,) = (point.shape for point in model.points_of(1, count) if point.name == name)
    pairs = part_of(name) in ("attn.hook_pattern", "attn.hook_attn_scores")
    if by is None:
        by = "head" if len(shape) == 4 else "position"
    if by not in ("position", "head") or (by == "head" and len(shape) != 4):
        raise ValueError(f"by is {shown(by)}, wanted position, or head where the point has heads")
    axis = (1 if by == "position" else 0) if pairs else (0 if by == "position" else 1)
    return by, shape[1 + axis], axis


def _edits(name: str, by: str, cells: range, clean: NDArray[np.float32], axis: int) -> list[Bound]:
    """Sequence b of a batch gets the clean numbers of the b-th cell."""
    found: list[Bound] = []
    for sequence, cell in enumerate(cells):
        values = np.take(clean, [cell], axis)
        edit = Edit(
            name,
            "replace",
            sequence=sequence,
            token=cell if by == "position" else None,
            head=cell if by == "head" else None,
            values=values,
        )
        found += bound(edit, [name], 0)
    return found


def _difference(
    model: Model, session: Session, states: NDArray[np.float32], answers: tuple[int, int]
) -> NDArray[np.float64]:
    logits = session.logits(np.ascontiguousarray(states[:, -1]), model.facts.vocabulary).astype(np.float64)
    return logits[:, answers[0]] - logits[:, answers[1]]


def _token(model: Model, name: str, given: Any) -> int:
    """An id, or a text of one token."""
    if not isinstance(given, str):
        return whole(name, given, 0, model.facts.vocabulary - 1)
    ids = model.tokens(given, special=False)
    if ids.size != 1:
        raise ValueError(f"{name} is {shown(given)}, which is {ids.size} tokens, wanted one")
    return int(ids[0])


def patch(
    model: Model,
    prompts: tuple[Any, Any],
    point: str,
    by: str | None,
    answers: tuple[Any, Any],
    options: RunOptions,
) -> Patching:
    """`Model.patch`."""
    settings, seconds, edits = settings_of(options)
    clean_ids, corrupt_ids = (model._asked(prompt)[0] for prompt in prompts)
    if clean_ids.shape != corrupt_ids.shape or len(clean_ids) != 1:
        raise ValueError(
            f"the prompts are {clean_ids.size} and {corrupt_ids.size} tokens, wanted two of equal length"
        )
    runs = [model.run(ids, **options) for ids in (clean_ids, corrupt_ids)]
    if (answers[0] is None) != (answers[1] is None):
        raise ValueError(
            "one of answer and other is given; give both, or none for the prompts' own predictions"
        )
    chosen_answers = tuple(
        int(run.last_logits[0].argmax()) if given is None else _token(model, name, given)
        for run, given, name in zip(runs, answers, ("answer", "other"), strict=True)
    )
    pair = (chosen_answers[0], chosen_answers[1])
    if pair[0] == pair[1]:
        raise ValueError("both prompts predict the same token; give answer and other")
    whole_clean, whole_corrupt = (
        float(run.last_logits[0, pair[0]] - run.last_logits[0, pair[1]]) for run in runs
    )
    names = [name for name in chosen(point, model.points) if layer_of(name) is not None]
    if len(names) != model.facts.layers:
        raise ValueError(f"point is {shown(point)}, wanted one kind of point of every layer")
    count = clean_ids.shape[1]
    by, cells, axis = _cells(model, names[0], by, count)
    clean = model.capture(clean_ids, names, **options)
    streams = model.capture(corrupt_ids, "hook_resid_pre", **options)
    around = model._bound(edits, count)
    shares = np.empty((len(names), cells))
    batch = max(1, min(cells, _TOKENS // count))
    with model._session(settings, Size(batch, count), seconds) as session:
        for layer, name in enumerate(names):
            for first in range(0, cells, batch):
                some = range(first, min(first + batch, cells))
                states = np.empty((len(some), count, model.facts.width), np.float32)
                asked = Asked(
                    np.repeat(corrupt_ids, len(some), 0),
                    residual=np.repeat(streams["resid_pre", layer], len(some), 0),
                    start_layer=layer,
                    edits=(*around, *_edits(name, by, some, clean[name][0], axis)),
                )
                session.run(asked, states)
                found = _difference(model, session, states, pair)
                shares[layer, first : first + len(some)] = (found - whole_corrupt) / (
                    whole_clean - whole_corrupt
                )
    return Patching(shares, whole_clean, whole_corrupt, *pair, by, model._texts(corrupt_ids)[0])
