"""Attention whose rows lie on many processes, over `torch.distributed`.

Each rank calls `attention` with its share of the tokens: its queries, keys and values. Rounds of Sinkhorn and
gradients go over the process group; results are those of one process that had all tokens. `varlen_attention`
does so for packed sequences.

See ``docs/users/many-machines.md`` for what moves when.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from ._attention import attention as one_process
from ._keywords import window_of
from ._ranks import Members, check_group, check_keys, check_shares, check_tensors, link_of, solve
from ._settings import number, whole
from ._shapes import shape_text
from ._varlen import bounds_of, check_lengths, check_values

__all__ = ["attention", "rows_of", "varlen_attention"]


def _on_mesh(query: Any, group: Any, rows: int) -> tuple[Any, Any]:
    """The mesh and placements of a DTensor sharded by dimension `rows`, and its process group; or nothing."""
    from torch.distributed.tensor import DTensor, Shard

    if not isinstance(query, DTensor):
        return None, group
    placements = tuple(query.placements)
    if query.device_mesh.ndim != 1 or placements != (Shard(rows),):
        raise ValueError(
            f"query is a DTensor with placements {placements}, wanted (Shard({rows}),) on a mesh "
            "of one dimension"
        )
    return (query.device_mesh, placements), query.device_mesh.get_group()


def attention(
    query: Any,
    key: Any,
    value: Any,
    *,
    group: dist.ProcessGroup | None = None,
    shares: str = "in_order",
    keys: str = "auto",
    **keywords: Any,
) -> Any:
    """Attention by any method that can share out its rows; every rank of the group makes the call.

    Parameters
    ----------
    query : Tensor or DTensor, shape (..., heads, queries of this rank, width)
        float64, float32, bfloat16 or float16. A DTensor is sharded by its rows (dimension -2) on a mesh of
        one dimension, whose group is taken; so is then the result.
    key : Tensor, shape (..., key heads, keys of this rank, width)
    value : Tensor, shape (..., key heads, keys of this rank, values width)
    group : ProcessGroup, optional
        Default: all processes. Any backend; tensors on a GPU are computed on the CPU.
    shares : {"in_order", "zigzag"}
        Which tokens a rank holds: `rows_of` tells. "zigzag" gives all ranks equal work on causal rows.
    keys : {"auto", "gathered", "in_ring"}
        How the keys and values of other ranks come: all at once, or one rank's share at a time. "auto"
        gathers.
    **keywords
        Those of `otattn.attention` but `return_aux`: method, is_causal, window, attn_mask and bias (this
        rank's rows and all keys), alibi_slopes, sink, temperature, dropout_p with dropout_seed ... A vector
        over the keys (column_mass, start_potential) has all keys.

    Returns
    -------
    Tensor, shape (..., heads, queries of this rank, values width)
        With gradients for query, key, value and every other operand of `otattn.attention` that has one; in a
        ring but for matrices of scores. A gradient of what all ranks share (temperature, slopes,
        column_mass) is the whole sum on every rank.

    Raises
    ------
    ValueError
        On every rank alike, where a method cannot share out its rows or the ranks differ in anything.
    RuntimeError
        Where the process group failed.

    Notes
    -----
    Source: the identity of docs/development/architecture.md; requirement DER-26.
    """
    if keywords.get("return_aux"):
        raise ValueError("return_aux is given; a rank has no part of it but its rows, so ask for none")
    keywords.pop("return_aux", None)
    check_tensors(query, key, value)
    mesh, group = _on_mesh(query, group, query.dim() - 2)
    if mesh is not None:
        query, key, value = (x.to_local() for x in (query, key, value))
    out = solve(link_of(group, shares, keys), query, key, value, **keywords)
    if mesh is None:
        return out
    from torch.distributed.tensor import DTensor

    return DTensor.from_local(out, *mesh, run_check=False)


_Pieces = tuple[range, range]


def _pieces_of(counts: Sequence[int], shares: str) -> list[_Pieces]:
    """The rows that every rank holds, one piece behind the other; in order the second is empty."""
    first = [(x + 1) // 2 if shares == "zigzag" else x for x in counts]
    rest = [x - half for x, half in zip(counts, first, strict=True)]
    begins = list(itertools.accumulate(first, initial=0))
    found = []
    for rank, (half, other) in enumerate(zip(first, rest, strict=True)):
        second = begins[-1] + sum(rest[rank + 1 :])
        found.append((range(begins[rank], begins[rank] + half), range(second, second + other)))
    return found


def _shared_out(
    group: Any, rows: int, keys: int, bounds: Sequence[list[int]], shares: str
) -> list[list[_Pieces]]:
    """Where every rank's queries and keys lie; bounds that differ are refused."""
    ranks = dist.get_world_size(group)
    cuda = dist.get_backend(group) == "nccl"
    device = torch.device("cuda", torch.cuda.current_device()) if cuda else torch.device("cpu")
    mine = torch.tensor([rows, keys, zlib.crc32(repr((bounds, shares)).encode())], device=device)
    all_ranks = [torch.empty_like(mine) for _ in range(ranks)]
    dist.all_gather(all_ranks, mine, group=group)
    counts = [x.tolist() for x in all_ranks]
    for rank, count in enumerate(counts):
        if count[2] != counts[0][2]:
            raise ValueError(
                f"rank {rank} has other bounds in cu_seq_q or cu_seq_k, or another order of shares, than "
                "rank 0; give all the same"
            )
    for name, cumulative, k in zip(("cu_seq_q", "cu_seq_k"), bounds, range(2), strict=True):
        held = sum(x[k] for x in counts)
        if cumulative[-1] != held:
            raise ValueError(f"{name} ends at {cumulative[-1]}, but all ranks together hold {held} rows")
    return [_pieces_of([x[k] for x in counts], shares) for k in range(2)]


class _Held(NamedTuple):
    """Of a sequence what lies in the first and in the second piece of a rank, as slices of its rows."""

    first: slice
    second: slice

    def lengths(self) -> tuple[int, int]:
        return self.first.stop - self.first.start, self.second.stop - self.second.start

    def of(self, x: Tensor) -> Tensor:
        if self.lengths()[1] == 0:
            return x[self.first]
        return x[self.second] if self.lengths()[0] == 0 else torch.cat((x[self.first], x[self.second]))


def _held(begin: int, end: int, pieces: _Pieces) -> _Held:
    slices, at = [], 0
    for piece in pieces:
        low, high = max(begin, piece.start), min(end, piece.stop)
        slices.append(slice(at + low - piece.start, at + max(low, high) - piece.start))
        at += len(piece)
    return _Held(*slices)


class _Sequence(NamedTuple):
    """One sequence that has rows or keys here."""

    number: int
    members: list[int]
    rows: _Held  # of this rank's queries
    keys: _Held


def _sequences_of(rank: int, bounds: Sequence[list[int]], pieces: list[list[_Pieces]]) -> list[_Sequence]:
    """In an order that is the same on all ranks: first those that ranks share, beginning with neighbours
    (0, 1), (2, 3) ..., which can be solved side by side; then those that are one rank's alone."""
    found = []
    for s in range(len(bounds[0]) - 1):
        held = [
            [_held(cumulative[s], cumulative[s + 1], of_rank) for of_rank in of_kind]
            for cumulative, of_kind in zip(bounds, pieces, strict=True)
        ]
        some = [sum(rows.lengths() + keys.lengths()) > 0 for rows, keys in zip(*held, strict=True)]
        members = [k for k, holds in enumerate(some) if holds]
        if rank in members and bounds[0][s + 1] > bounds[0][s]:
            found.append(_Sequence(s, members, held[0][rank], held[1][rank]))
    return sorted(found, key=lambda x: (len(x.members) == 1, x.members[0] % 2, x.number))


def _told_once(x: Any, tells: bool) -> Any:
    """An operand that all members share: one of them has its gradient, the others zeros."""
    if tells or not isinstance(x, Tensor) or not x.requires_grad:
        return x
    silent = x.view_as(x)
    silent.register_hook(torch.zeros_like)
    return silent


def varlen_attention(
    query: Any,
    key: Any,
    value: Any,
    cu_seq_q: Any,
    cu_seq_k: Any,
    max_q: int | None = None,
    max_k: int | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    group: dist.ProcessGroup | None = None,
    shares: str = "in_order",
    keys: str = "auto",
    window_size: tuple[int, int] = (-1, -1),
    causal_align: str = "bottom_right",
    dropout_seed: int | None = None,
    dropout_offset: int = 0,
    **keywords: Any,
) -> Any:
    """`otattn.varlen_attention` of packed rows that lie on many ranks.

    A sequence that lies on one rank is solved there, without a message, by any method; one that lies on more
    by those ranks alone, by any method that can share out its rows.

    Parameters
    ----------
    query : Tensor or DTensor, shape (queries of this rank, heads, width)
        A DTensor is sharded by its first dimension.
    key : Tensor, shape (keys of this rank, key heads, width)
    value : Tensor, shape (keys of this rank, key heads, values width)
    cu_seq_q, cu_seq_k : int array, shape (sequences + 1,)
        Bounds of the sequences among the rows of all ranks, the same on every rank.
    group : ProcessGroup, optional
        Default: all processes.
    shares : {"in_order", "zigzag"}
        Which of all packed rows a rank holds: `rows_of` tells. "zigzag" gives all ranks equal work on causal
        rows where sequences are as long as ranks' shares or longer.
    keys : {"auto", "gathered", "in_ring"}
        As in `attention`, of sequences on more than one rank.
    max_q, max_k, dropout_p, is_causal, scale, window_size, causal_align, dropout_offset, **keywords
        As in `otattn.varlen_attention`, less return_aux.
    dropout_seed : int, optional
        Needed with dropout, the same on every rank.

    Returns
    -------
    Tensor, shape (queries of this rank, heads, values width)
        With gradients. That of what all rows share (temperature, slopes ...) is a part on every rank, like
        the gradients of a layer's parameters: their sum over the ranks is the whole.

    Raises
    ------
    ValueError
        On every rank alike, where the bounds do not fit or differ; on the ranks of a sequence, where its
        method cannot share out its rows.
    RuntimeError
        Where the process group failed.
    """
    if keywords.pop("return_aux", None):
        raise ValueError("return_aux is given; a rank has no part of it but its rows, so ask for none")
    check_tensors(query, key, value)
    check_group(group)
    check_keys(keys)
    mesh, group = _on_mesh(query, group, 0)
    if mesh is not None:
        query, key, value = (x.to_local() for x in (query, key, value))
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.dim() != 3:
            raise ValueError(f"{name} has shape {shape_text(x)}, wanted (total, heads, width)")
    check_values(key, value)
    bounds = [bounds_of("cu_seq_q", cu_seq_q), bounds_of("cu_seq_k", cu_seq_k)]
    check_lengths(bounds, (max_q, max_k))
    check_shares(shares)
    pieces = _shared_out(group, query.shape[0], key.shape[0], bounds, shares)
    if number("dropout_p", dropout_p) != 0.0 and dropout_seed is None:
        raise ValueError(
            "dropout_seed is None; give every rank the same number, or they drop different pairs"
        )
    rank = dist.get_rank(group)
    window, offset = window_of(window_size, "window_size"), whole("dropout_offset", dropout_offset)
    outs: dict[tuple[int, int], Tensor] = {}
    for s in _sequences_of(rank, bounds, pieces):
        held = (s.rows.of(query), s.keys.of(key), s.keys.of(value))
        q, k, v = (x.swapaxes(0, 1) for x in held)
        settings: dict[str, Any] = {
            "dropout_p": dropout_p,
            "is_causal": is_causal,
            "scale": scale,
            "enable_gqa": True,
            "window": window,
            "causal_align": causal_align,
            "dropout_seed": dropout_seed,
            "dropout_offset": offset + s.number,
        }
        if len(s.members) == 1:
            out = one_process(q, k, v, **settings, **keywords)
        else:
            tells = rank == s.members[0]
            once = {name: _told_once(x, tells) for name, x in keywords.items()}
            first = (s.rows.lengths()[0], s.keys.lengths()[0]) if shares == "zigzag" else None
            link = Members(group, s.members, shares, keys, first)
            out = solve(link, q, k, v, **settings, **once)
        for piece, rows in enumerate(out.swapaxes(0, 1).split(s.rows.lengths())):
            outs[piece, s.number] = rows
    empty = query.new_zeros((0, query.shape[1], value.shape[2]))
    # Of no rows and no keys, so that backward finds a way to every operand.
    empty = empty + (query[:0].sum() + key[:0].sum() + value[:0].sum())
    out = torch.cat([empty, *(outs[s] for s in sorted(outs))])
    if mesh is None:
        return out
    from torch.distributed.tensor import DTensor

    return DTensor.from_local(out, *mesh, run_check=False)


def rows_of(total: int, *, group: dist.ProcessGroup | None = None, shares: str = "in_order") -> Tensor:
    """Which of `total` rows this rank holds when they are shared out evenly.

    Parameters
    ----------
    total : int
        Rows of all ranks.
    group : ProcessGroup, optional
        Default: all processes.
    shares : {"in_order", "zigzag"}

    Returns
    -------
    Tensor of int64, shape (rows of this rank,)
        In the order in which `attention` wants them: ``x.index_select(-2, rows_of(n))`` is the share.
    """
    check_group(group)
    check_shares(shares)
    rows = whole("total", total)
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    counts = [rows * (k + 1) // ranks - rows * k // ranks for k in range(ranks)]
    pieces = _pieces_of(counts, shares)[rank]
    return torch.cat([torch.arange(piece.start, piece.stop) for piece in pieces])
