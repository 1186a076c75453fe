"""How shapes of the caller become the library's four dimensions: batch, head, row, column.

Works on NumPy arrays and torch tensors alike; `expand(x, shape)` repeats size-1 dimensions by stride 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

# What an array must have to be taken for one that is sparse or masked.
_SPARSE, _MASKED = ("toarray", "nnz"), ("filled", "mask")


def dense(name: str, x: Any) -> Any:
    """The same; TypeError for an array whose form a plain one loses, with what to pass instead.

    Arrays of NumPy itself, and dense tensors, are asked last.
    """
    if all(hasattr(x, word) for word in _SPARSE):
        raise TypeError(
            f"{name} is sparse (a {type(x).__name__}), wanted a dense array: pass {name}.toarray()"
        )
    if all(hasattr(x, word) for word in _MASKED):
        raise TypeError(f"{name} is a masked array, whose mask would be lost: pass {name}.filled(number)")
    if str(getattr(x, "layout", "")).startswith(("torch.sparse", "torch._mkldnn", "torch.jagged")):
        raise TypeError(
            f"{name} is a tensor of layout {x.layout}, wanted a dense one: pass {name}.to_dense()"
        )
    return x


def of_numbers(name: str, x: Any) -> str:
    """What a sentence adds for an array that a conversion makes an array of floats."""
    kind = str(x.dtype).removeprefix("torch.")
    if kind.startswith(("int", "uint", "bool")):
        return f"; convert it by {name}.{'double()' if 'torch' in str(x.dtype) else 'astype(float)'}"
    return ""


def of_pairs(name: str, x: Any) -> str:
    """What is wrong with a mask that is neither boolean nor floats."""
    call = "bool()" if "torch" in str(x.dtype) else "astype(bool)"
    return (
        f"{name} has type {x.dtype} and shape {shape_text(x)}, wanted bool (True takes part) or floats that "
        f"are added; of 0 and 1 pass {name}.{call}"
    )


Expand = Callable[[Any, tuple[int, ...]], Any]


class Folded(NamedTuple):
    """Query, key and value in four dimensions, and the leading dimensions that results get back."""

    query: Any
    key: Any
    value: Any
    batch: tuple[int, ...]  # before the heads, as the caller has them
    lead: tuple[int, ...]  # of the outputs


def shape_text(x: Any) -> str:
    return str(tuple(x.shape))


def summary(value: Any) -> str:
    """A value in one line: numbers as they are, of arrays the shape and type."""
    shape = getattr(value, "shape", None)
    if shape is None or not hasattr(value, "dtype"):
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            inner = ", ".join(map(summary, value)) if len(value) <= 4 else f"... {len(value)}"
            return f"[{inner}]" if isinstance(value, list) else f"({inner})"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key!r}: {summary(x)}" for key, x in value.items()) + "}"
        return repr(value)
    if math.prod(shape) == 1 and len(shape) == 0 and hasattr(value, "item"):
        try:
            return repr(value.item())
        except (RuntimeError, TypeError, ValueError):  # a tensor or tracer without numbers
            pass
    return f"<{tuple(shape)} {str(value.dtype).removeprefix('torch.')}>"


def repr_of(record: Any) -> str:
    """The repr of a named tuple or a class of data with arrays: what is there, by `summary`."""
    names = getattr(record, "_fields", None) or record.__dataclass_fields__
    parts = ((name, getattr(record, name)) for name in names)
    inside = ", ".join(f"{name}={summary(x)}" for name, x in parts if x is not None)
    return f"{type(record).__name__}({inside})"


def merged(x: Any) -> Any:
    """All dimensions before the last three as one, whose size -1 would leave open where another is 0."""
    return x.reshape((math.prod(x.shape[:-3]), *x.shape[-3:]))


def _common(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The broadcast of shapes of equal rank, or None."""
    result = []
    for sizes in zip(*shapes, strict=True):
        big = [size for size in sizes if size != 1]
        if any(size != big[0] for size in big):
            return None
        result.append(big[0] if big else 1)
    return tuple(result)


def fold(query: Any, key: Any, value: Any, enable_gqa: bool, expand: Expand) -> Folded:
    """Checks ranks and sizes as scaled_dot_product_attention means them, and folds batch dimensions."""
    if query.ndim == 4:
        shape, other, last = query.shape, key.shape, value.shape
        # The common case needs no broadcasting.
        if (
            len(other) == len(last) == 4
            and other[:2] == shape[:2]
            and other[3] == shape[3]
            and last[:3] == other[:3]
        ):
            return Folded(query, key, value, tuple(shape[:1]), tuple(shape[:2]))
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.ndim < 2:
            raise ValueError(
                f"{name} has shape {shape_text(x)}, wanted two dimensions or more: (..., length, width)"
            )
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"key has width {key.shape[-1]} in shape {shape_text(key)}, but query has {query.shape[-1]} "
            f"in {shape_text(query)}"
        )
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(
            f"value has {value.shape[-2]} rows in shape {shape_text(value)}, but key has {key.shape[-2]} "
            f"in {shape_text(key)}"
        )
    outer = max(query.ndim, key.ndim, value.ndim)
    rank = max(4, outer)
    query, key, value = (
        x.reshape((1,) * (rank - x.ndim) + tuple(x.shape)) if x.ndim < rank else x
        for x in (query, key, value)
    )
    batch = _common([tuple(x.shape[:-3]) for x in (query, key, value)])
    if batch is None:
        raise ValueError(
            f"the batch dimensions of query {shape_text(query)}, key {shape_text(key)} and value "
            f"{shape_text(value)} do not broadcast"
        )
    heads, key_heads, value_heads = query.shape[-3], key.shape[-3], value.shape[-3]
    shared = max(key_heads, value_heads) if 0 not in (key_heads, value_heads) else 0
    if key_heads != value_heads and 1 not in (key_heads, value_heads):
        raise ValueError(
            f"value has {value_heads} heads in shape {shape_text(value)}, but key has {key_heads} "
            f"in {shape_text(key)}"
        )
    if heads != shared and 1 not in (heads, shared):
        if not enable_gqa:
            raise ValueError(
                f"key has {shared} heads in shape {shape_text(key)}, but query has {heads} in "
                f"{shape_text(query)}; set enable_gqa=True for grouped heads"
            )
        if shared == 0 or heads % shared:
            raise ValueError(f"query has {heads} heads, which are no multiple of key's {shared}")
    if heads == 1:
        heads = shared
    wanted = ((query, heads), (key, shared), (value, shared))
    query, key, value = (
        x if tuple(x.shape[:-2]) == (*batch, count) else expand(x, (*batch, count, *x.shape[-2:]))
        for x, count in wanted
    )
    lead = (*batch, heads)[rank - outer :]
    if rank > 4:
        query, key, value = (merged(x) for x in (query, key, value))
    return Folded(query, key, value, batch, lead)


def fold_scores(scores: Any) -> tuple[Any, tuple[int, ...], tuple[int, ...]]:
    """Scores in four dimensions, the batch dimensions before the heads, and the leading ones of results."""
    if scores.ndim < 2:
        raise ValueError(f"scores has shape {shape_text(scores)}, wanted two dimensions or more")
    rank = max(4, scores.ndim)
    whole = scores.reshape((1,) * (rank - scores.ndim) + tuple(scores.shape))
    batch = tuple(whole.shape[:-3])
    whole = merged(whole) if rank > 4 else whole
    return whole, batch, tuple(scores.shape[:-2])


def fold_pairs(name: str, x: Any, batch: tuple[int, ...], sizes: tuple[int, int, int], expand: Expand) -> Any:
    """An operand over pairs, broadcast from the right: [batch|1, heads|1, queries|1, keys|1]."""
    whole = (*batch, *sizes)
    if x.ndim > len(whole):
        raise ValueError(f"{name} has shape {shape_text(x)}, which does not broadcast to {whole}")
    if x.ndim < len(whole):
        x = x.reshape((1,) * (len(whole) - x.ndim) + tuple(x.shape))
    for have, want in zip(x.shape, whole, strict=True):
        if have not in (1, want):
            raise ValueError(f"{name} has shape {shape_text(x)}, which does not broadcast to {whole}")
    if len(batch) > 1:
        if all(size == 1 for size in x.shape[:-3]):
            return x.reshape((1, *x.shape[-3:]))
        x = merged(expand(x, (*batch, *x.shape[-3:])))
    return x


def fold_vector(name: str, x: Any, batch: int, heads: int, length: int) -> Any:
    """Masses: [length], [heads|1, length] or [batch|1, heads|1, length] -> [batch|1, heads|1, 1, length]."""
    if not 1 <= x.ndim <= 3 or x.shape[-1] != length:
        raise ValueError(f"{name} has shape {shape_text(x)}, wanted (..., {length})")
    for have, want in zip(reversed(tuple(x.shape[:-1])), (heads, batch), strict=False):
        if have not in (1, want):
            raise ValueError(f"{name} has shape {shape_text(x)}, wanted ({batch}|1, {heads}|1, {length})")
    shape = (1,) * (3 - x.ndim) + tuple(x.shape)
    return x.reshape((shape[0], shape[1], 1, length))


def fold_heads(name: str, x: Any, heads: int) -> Any:
    """One number a head: [heads] -> [1, 1, 1, heads]; one number alone serves all."""
    if x.ndim != 1 or x.shape[0] != heads:
        raise ValueError(f"{name} has shape {shape_text(x)}, wanted one number or ({heads},)")
    return x.reshape((1, 1, 1, heads))


def fold_relative(x: Any, heads: int, queries: int, keys: int) -> Any:
    """Relative bias: [queries + keys - 1] or [heads|1, queries + keys - 1] -> [1, heads|1, 1, ...]."""
    length = max(0, queries + keys - 1)
    if not 1 <= x.ndim <= 2 or x.shape[-1] != length or (x.ndim == 2 and x.shape[0] not in (1, heads)):
        raise ValueError(
            f"relative_bias has shape {shape_text(x)}, wanted ({heads}|1, {length}) or ({length},)"
        )
    return x.reshape((1, x.shape[0] if x.ndim == 2 else 1, 1, length))
