"""Attention over sequences of different lengths packed one behind the other."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Sequence
from typing import Any, Literal, Unpack, overload

import numpy as np

from ._attention import attention, known_arguments
from ._aux import ArrayT, AuxOutput, Request
from ._keywords import window_of
from ._settings import count, number, whole
from ._shapes import shape_text
from ._signature import AttentionOptions, with_signature
from ._spec import Spec


def bounds_of(name: str, cumulative: Any, total: int | None = None) -> list[int]:
    """Where sequences begin and end: 0 = first <= ... <= last = total, where that is known."""
    end = "" if total is None else f" to {total}"
    try:
        found = [int(x) for x in (cumulative.tolist() if hasattr(cumulative, "tolist") else cumulative)]
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} is {cumulative!r}, wanted sorted bounds from 0{end}") from None
    ends = not found or total is None or found[-1] == total
    if not found or found[0] != 0 or not ends or sorted(found) != found:
        raise ValueError(f"{name} is {found}, wanted sorted bounds from 0{end}")
    return found


def check_lengths(bounds: Sequence[list[int]], most: Sequence[int | None]) -> None:
    """As many sequences of queries as of keys, none longer than max_q and max_k say."""
    of_queries, of_keys = bounds
    if len(of_queries) != len(of_keys):
        raise ValueError(f"cu_seq_q has {len(of_queries) - 1} sequences, but cu_seq_k has {len(of_keys) - 1}")
    for name, limit, cumulative in zip(("max_q", "max_k"), most, bounds, strict=True):
        longest = max([0, *(b - a for a, b in itertools.pairwise(cumulative))])
        allowed = count(name, limit)
        if allowed is not None and allowed < longest:
            raise ValueError(f"{name} is {limit}, but the longest sequence has {longest}")


def check_values(key: Any, value: Any) -> None:
    """A value for every key: what lies behind the last bound would be passed over."""
    if value.shape[0] != key.shape[0]:
        raise ValueError(
            f"value has shape {shape_text(value)}, but key has {shape_text(key)}: "
            "wanted as many values as keys"
        )


def _joined(parts: Sequence[Any], like: Any) -> Any:
    if isinstance(like, np.ndarray):
        return np.concatenate(parts)
    if hasattr(like, "new_empty"):
        import torch

        return torch.cat(list(parts))
    return like.__array_namespace__().concat(list(parts))


@overload
def varlen_attention(
    query: ArrayT,
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
    window_size: tuple[int, int] = (-1, -1),
    return_aux: Literal[False] | None = None,
    **options: Unpack[AttentionOptions],
) -> ArrayT: ...
@overload
def varlen_attention(
    query: ArrayT,
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
    window_size: tuple[int, int] = (-1, -1),
    return_aux: Request,
    **options: Unpack[AttentionOptions],
) -> tuple[ArrayT, list[AuxOutput]]: ...
@overload
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
    window_size: tuple[int, int] = (-1, -1),
    return_aux: Any = None,
    **options: Unpack[AttentionOptions],
) -> Any: ...
@with_signature(AttentionOptions, ("window",), causal_align="bottom_right")
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
    window_size: tuple[int, int] = (-1, -1),
    return_aux: Any = None,
    **options: Unpack[AttentionOptions],
) -> Any:
    """`otattn.attention` of sequences packed one behind the other, each a problem of its own.

    Parameters
    ----------
    query : array, shape (total queries, heads, width)
    key : array, shape (total keys, key heads, width)
    value : array, shape (total keys, key heads, values width)
        The heads of `query` are a multiple of theirs.
    cu_seq_q, cu_seq_k : int array, shape (sequences + 1,)
        Bounds of the sequences: 0, then the running total of their lengths.
    max_q, max_k : int, optional
        Accepted for the sake of other packages; only checked.
    window_size : (int, int)
        Keys i - left ... i + right only; -1 is no limit.
    dropout_p, dropout_seed, dropout_offset
        As in `attention`; sequence s has the offset ``dropout_offset + s``.
    causal_align : {"bottom_right", "top_left"}
        Where positions start when a sequence has more keys than queries.
    is_causal, scale, **options
        As in `attention`, and its keywords but `window`; arrays among them must fit every sequence.
    return_aux : AuxRequest, bool, name or names of its fields, optional
        Then the result is ``(out, auxes)`` with one AuxOutput for every sequence, heads first.

    Returns
    -------
    out : array, shape (total queries, heads, values width)

    Raises
    ------
    ValueError, TypeError, NotConverged, Infeasible, NotFinite
        As `attention`.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> x = np.arange(30.0).reshape(5, 2, 3) / 30
    >>> out = otattn.varlen_attention(x, x, x, [0, 2, 5], [0, 2, 5], method="ceta")
    >>> alone = otattn.attention(*3 * [x[2:].swapaxes(0, 1)], method="ceta")
    >>> bool((out[2:] == alone.swapaxes(0, 1)).all())
    True
    """
    known_arguments("varlen_attention", options, _SET, also=("window_size",))
    keywords: dict[str, Any] = {**options}
    for name, x in (("query", query), ("key", key), ("value", value)):
        if not hasattr(x, "shape"):
            raise TypeError(f"{name} is a {type(x).__name__}, wanted an array")
        if len(x.shape) != 3:
            raise ValueError(f"{name} has shape {shape_text(x)}, wanted (total, heads, width)")
    check_values(key, value)
    of_queries = bounds_of("cu_seq_q", cu_seq_q, query.shape[0])
    of_keys = bounds_of("cu_seq_k", cu_seq_k, key.shape[0])
    check_lengths((of_queries, of_keys), (max_q, max_k))
    window, offset = window_of(window_size, "window_size"), keywords.pop("dropout_offset", 0)
    offset = whole("dropout_offset", offset)
    keywords.setdefault("causal_align", "bottom_right")
    own = keywords.get("method")
    dropout = number("dropout_p", dropout_p) or (own.dropout_p if isinstance(own, Spec) else 0.0)
    if dropout != 0.0 and keywords.get("dropout_seed") is None:
        keywords["dropout_seed"] = _drawn_seed(query)
    outs, auxes = [], []
    seconds = keywords.get("deadline")
    end = None if seconds is None else time.monotonic() + number("deadline", seconds)
    for s in range(len(of_queries) - 1):
        if end is not None and s:
            # One deadline for all; the least number is past before the call begins.
            keywords["deadline"] = max(end - time.monotonic(), sys.float_info.min)
        rows, columns = slice(*of_queries[s : s + 2]), slice(*of_keys[s : s + 2])
        found = attention(
            query[rows].swapaxes(0, 1),
            key[columns].swapaxes(0, 1),
            value[columns].swapaxes(0, 1),
            None,
            dropout_p,
            is_causal,
            scale,
            True,
            window=window,
            return_aux=return_aux,
            dropout_offset=offset + s,
            **keywords,
        )
        out, aux = found if return_aux else (found, None)
        outs.append(out.swapaxes(0, 1))
        auxes.append(aux)
    # No rows have the heads of queries and the width of values, and a way back to both.
    joined = _joined(outs, query) if outs else query[:0].sum(-1)[:, :, None] * value[:0, :1]
    return (joined, auxes) if return_aux else joined


# What the arguments of `attention` besides are here.
_SET = (
    *("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa", "return_aux"),
    "window",
)


def _drawn_seed(like: Any) -> int:
    if hasattr(like, "new_empty"):
        import torch

        return int(torch.randint(0, (1 << 63) - 1, (1,)).item())
    return int(np.random.randint(0, 1 << 63, dtype=np.int64))
