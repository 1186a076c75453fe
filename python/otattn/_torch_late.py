"""`maxsim` by torch's operations, on whatever device its tensors lie: blocks of documents of similar lengths.

Beside arguments and results a call holds the products of one block and its tokens, filled up by each
document's last one, which changes neither a largest product nor the first token that has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ._maxsim import whole_numbers
from ._torch_device import BLOCK, wide_type


class Documents(NamedTuple):
    """Tokens one after another, and where each document begins and how many it has, on the host."""

    tokens: Tensor
    begins: Any
    counts: Any


def documents_of(documents: Tensor, offsets: Any, lengths: Any) -> Documents:
    """Packed or padded documents; ValueError and TypeError as the library has them."""
    if documents.dim() == 3:
        if offsets is not None:
            raise ValueError(
                f"documents have shape {tuple(documents.shape)}, which goes with lengths, not offsets"
            )
        count, room, width = documents.shape
        begins = np.arange(count, dtype=np.int64) * room
        counts = np.full(count, room, np.int64)
        if lengths is not None:
            counts = whole_numbers("lengths", lengths, count)
            _check_lengths("document_lengths", counts, room, "between the offsets", "of {} tokens")
        return Documents(documents.reshape(count * room, width), begins, counts)
    if offsets is None or lengths is not None:
        raise ValueError("packed documents need offsets, and no lengths")
    if len(offsets) == 0:
        raise ValueError("offsets are empty, wanted one more than documents")
    places = whole_numbers("offsets", offsets, len(offsets))
    tokens = documents.shape[0]
    least = np.concatenate([[0], places[:-1]])
    wrong = (places < least) | (places > tokens)
    if wrong.any():
        d = int(np.argmax(wrong))
        raise ValueError(
            f"offsets[{d}] is {places[d]}, outside {least[d]} to {tokens}; "
            "let them rise from 0 or more to at most the tokens"
        )
    return Documents(documents, places[:-1], np.diff(places))


def query_lengths_of(lengths: Any, rows: int, tokens: int) -> Any:
    """Those of queries, or None."""
    if lengths is None:
        return None
    found = whole_numbers("query_lengths", lengths, rows)
    _check_lengths("query_lengths", found, tokens, "of queries", "of {} tokens")
    return found


def _check_lengths(name: str, found: Any, room: int, where: str, of: str) -> None:
    wrong = (found < 0) | (found > room)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ValueError(f"{name}[{k}] is {found[k]} {of.format(room)}; use 0 to the tokens {where}")


def _blocks(counts: Any, width: int) -> Iterator[tuple[int, int]]:
    """Ranges of rising counts whose documents, filled up to the longest, stay within a block."""
    most, first = max(1, BLOCK // width), 0
    while first < len(counts):
        near = counts[first : first + most]
        sizes = np.arange(1, len(near) + 1) * near
        last = first + max(1, int(np.searchsorted(sizes, most, "right")))
        yield first, last
        first = last


def _tokens(held: Documents, order: Any, longest: int) -> Tensor:
    """[documents, longest, width] in f32: of each its tokens, and the last one again."""
    begins, counts = held.begins[order], held.counts[order]
    width = held.tokens.shape[1]
    if (counts == longest).all() and (np.diff(begins) == longest).all():
        found = held.tokens[begins[0] : begins[0] + len(order) * longest]
    else:
        places = begins[:, None] + np.minimum(np.arange(longest), counts[:, None] - 1)
        found = held.tokens[torch.from_numpy(places.reshape(-1)).to(held.tokens.device)]
    return found.float().view(len(order), longest, width)


def _inside(lengths: Any, rows: int, tokens: int, device: torch.device) -> Tensor:
    """[rows, tokens, 1]: whether a token is one of its query."""
    if lengths is None:
        return torch.ones((rows, tokens, 1), dtype=torch.bool, device=device)
    found = np.arange(tokens) < lengths[:, None]
    return torch.from_numpy(found).to(device)[..., None]


def scores(queries: Tensor, held: Documents, lengths: Any, choices: bool) -> tuple[Tensor, Tensor | None]:
    """Scores [queries, documents] in f32 and, with `choices`, the token that each token of a query takes."""
    rows, tokens, width = queries.shape
    device, count = queries.device, len(held.counts)
    found = torch.full((rows, count), -torch.inf, dtype=torch.float32, device=device)
    chosen = torch.full((rows, count, tokens), -1, dtype=torch.int64, device=device) if choices else None
    inside = _inside(lengths, rows, tokens, device)
    order = np.argsort(held.counts, kind="stable")
    order = order[held.counts[order] > 0]
    largest = int(held.counts[order[-1]]) if len(order) else 1
    step = max(1, BLOCK // max(1, tokens * largest))
    wide = queries.float()
    for first, last in _blocks(held.counts[order], max(width, min(rows, step) * tokens, 1)):
        block = order[first:last]
        longest = int(held.counts[block[-1]])
        near = _tokens(held, block, longest).view(-1, width).mT
        places = torch.from_numpy(block).to(device)
        for row in range(0, rows, step):
            part = slice(row, min(row + step, rows))
            products = wide[part].reshape(-1, width) @ near
            products = products.view(part.stop - part.start, tokens, len(block), longest)
            score, taken = _of_block(products, inside[part], choices)
            found[part, places] = score
            if chosen is not None and taken is not None:
                chosen[part, places] = taken
    # A query without tokens scores 0, whatever the document.
    return found.masked_fill_(~inside.any(1), 0.0), chosen


def _of_block(products: Tensor, inside: Tensor, choices: bool) -> tuple[Tensor, Tensor | None]:
    """Of products [queries, tokens, documents, tokens of these]."""
    least, most = products.aminmax(dim=-1)
    wrong = (~(least.isfinite() & most.isfinite()) & inside).any(1)
    sums = most.masked_fill(~inside, 0.0).sum(1, dtype=wide_type(products.device))
    score = sums.float().masked_fill_(wrong, torch.nan)
    if not choices:
        return score, None
    longest = products.shape[-1]
    places = torch.arange(longest, device=products.device)
    first = places.where(products == most[..., None], longest).amin(-1)
    return score, first.masked_fill_(~inside | wrong[:, None], -1).mT


def best_of(found: Tensor, top: int) -> tuple[Tensor, Tensor]:
    """The largest scores, falling, and their documents: equal ones by number and NaN last."""
    order = found.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    places = order.sort(dim=-1, descending=True, stable=True).indices
    last = found.isnan().gather(-1, places).to(torch.uint8).sort(dim=-1, stable=True).indices
    places = places.gather(-1, last)[..., :top]
    return found.gather(-1, places), places


def gradients(
    queries: Tensor, held: Documents, chosen: Tensor, score_grad: Tensor, wanted: list[bool]
) -> list[Tensor | None]:
    """Those of queries and of the tokens of documents in f32, of scores with choices. Sums are in f64."""
    (rows, tokens, width), device = queries.shape, queries.device
    wide = wide_type(device)
    by_query = torch.zeros(queries.shape, dtype=wide, device=device) if wanted[0] else None
    by_token = torch.zeros(held.tokens.shape, dtype=torch.float32, device=device) if wanted[1] else None
    count, each = len(held.counts), max(1, tokens * width)
    row_step = max(1, min(rows, BLOCK // each))
    step = max(1, BLOCK // (row_step * each))
    for first in range(0, count if len(held.tokens) else 0, step):
        part = slice(first, min(first + step, count))
        base, end = int(held.begins[part][0]), int((held.begins + held.counts)[part].max())
        begins = torch.from_numpy(held.begins[part]).to(device)[:, None]
        sums = (
            torch.zeros((end - base + 1, width), dtype=wide, device=device) if by_token is not None else None
        )
        for row in range(0, rows, row_step):
            asked = slice(row, min(row + row_step, rows))
            taken, slope = chosen[asked, part], score_grad[asked, part, None].to(wide)
            used = (taken >= 0) & (slope != 0.0)
            slope = slope.where(used, 0.0)[..., None]
            places = begins + taken
            if by_query is not None:
                vectors = held.tokens[places.where(used, 0)].to(wide)
                by_query[asked] += (vectors * slope).where(used[..., None], 0.0).sum(1)
            if sums is not None:
                given = (queries[asked, None].to(wide) * slope).where(used[..., None], 0.0)
                # What is not used goes behind the tokens.
                sums.index_add_(0, (places - base).where(used, end - base).flatten(), given.flatten(0, 2))
        if by_token is not None and sums is not None:
            by_token[base:end] = sums[: end - base].float()
    return [None if by_query is None else by_query.float(), by_token]
