"""The calls of the package flash-attn, in its layout (batch, length, heads, width) with its positions."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from ._attention import attention
from ._aux import ArrayT, AuxRequest
from ._keywords import window_of
from ._regulariser import Regulariser
from ._settings import flag, number
from ._shapes import shape_text
from ._spec import Spec
from ._varlen import varlen_attention

_PROBABILITIES = AuxRequest(coupling=True, lse=True)


def _flags(causal: Any, deterministic: Any, return_attn_probs: Any) -> tuple[bool, bool]:
    flag("deterministic", deterministic)  # whatever it says, the same bits come again
    return flag("causal", causal), flag("return_attn_probs", return_attn_probs)


def _slopes(slopes: Any, batch: int, queries: int, keys: int) -> dict[str, Any]:
    """One slope a head as it is; one a batch and head as the bias it stands for."""
    if slopes is None or len(slopes.shape) == 1:
        return {"alibi_slopes": slopes}
    if tuple(slopes.shape[:1]) != (batch,) or len(slopes.shape) != 2:
        raise ValueError(f"alibi_slopes has shape {shape_text(slopes)}, wanted (heads,) or ({batch}, heads)")
    distance = np.abs(np.arange(queries)[:, None] + (keys - queries) - np.arange(keys))
    # 2-byte numbers hold neither distances from 256 on nor their products.
    if hasattr(slopes, "new_tensor"):
        slopes = slopes.float() if slopes.element_size() < 4 else slopes
        distance = slopes.new_tensor(distance)
    elif slopes.dtype.itemsize < 4:
        slopes = slopes.astype(np.float32)
    return {"bias": -slopes[:, :, None, None] * distance}


@overload
def flash_attn_func(
    q: ArrayT,
    k: Any,
    v: Any,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: Literal[False] = False,
    *,
    method: str | Regulariser | Spec = "softmax",
    **arguments: Any,
) -> ArrayT: ...
@overload
def flash_attn_func(
    q: ArrayT,
    k: Any,
    v: Any,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    *,
    return_attn_probs: Literal[True],
    method: str | Regulariser | Spec = "softmax",
    **arguments: Any,
) -> tuple[ArrayT, ArrayT, ArrayT]: ...
@overload
def flash_attn_func(
    q: Any,
    k: Any,
    v: Any,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    *,
    method: str | Regulariser | Spec = "softmax",
    **arguments: Any,
) -> Any: ...
def flash_attn_func(
    q: Any,
    k: Any,
    v: Any,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    *,
    method: str | Regulariser | Spec = "softmax",
    **arguments: Any,
) -> Any:
    """`otattn.attention` with flash-attn's names, layout and bottom-right positions.

    Parameters
    ----------
    q : array or tensor, shape (batch, queries, heads, width)
    k, v : array or tensor, shape (batch, keys, key heads, width)
        The heads of q are a multiple of theirs.
    dropout_p, softmax_scale, causal, window_size, softcap
        As there; with more keys than queries the last query sees all keys.
    alibi_slopes : array or tensor, shape (heads,) or (batch, heads), optional
    deterministic : bool
        Accepted: results are always the same.
    return_attn_probs : bool
        Then the result is ``(out, lse, coupling)``, the coupling as it is before dropout.
    method, **arguments
        As in `otattn.attention`.

    Returns
    -------
    out : array or tensor, shape (batch, queries, heads, width)

    Raises
    ------
    ValueError, TypeError, NotConverged, Infeasible, NotFinite
        As `otattn.attention`.

    Examples
    --------
    >>> import numpy as np
    >>> from otattn.flash import flash_attn_func
    >>> q, k = np.ones((1, 2, 4, 8)), np.ones((1, 3, 2, 8))
    >>> flash_attn_func(q, k, k, causal=True).shape
    (1, 2, 4, 8)
    """
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not hasattr(x, "shape"):
            raise TypeError(f"{name} is a {type(x).__name__}, wanted an array")
        if len(x.shape) != 4:
            raise ValueError(f"{name} has shape {shape_text(x)}, wanted (batch, length, heads, width)")
    if softmax_scale is not None:
        softmax_scale = number("softmax_scale", softmax_scale)
    window = window_of(window_size, "window_size")
    causal, wanted = _flags(causal, deterministic, return_attn_probs)
    query, key, value = (x.swapaxes(1, 2) for x in (q, k, v))
    found = attention(
        query,
        key,
        value,
        None,
        dropout_p,
        causal,
        softmax_scale,
        True,
        method=method,
        window=window,
        softcap=softcap,
        causal_align="bottom_right",
        return_aux=_PROBABILITIES if wanted else None,
        **_slopes(alibi_slopes, q.shape[0], q.shape[1], k.shape[1]),
        **arguments,
    )
    if not wanted:
        return found.swapaxes(1, 2)
    out, aux = found
    return out.swapaxes(1, 2), aux.lse, aux.coupling


@overload
def flash_attn_qkvpacked_func(
    qkv: ArrayT, *positional: Any, return_attn_probs: Literal[False] = False, **arguments: Any
) -> ArrayT: ...
@overload
def flash_attn_qkvpacked_func(
    qkv: ArrayT, *positional: Any, return_attn_probs: Literal[True], **arguments: Any
) -> tuple[ArrayT, ArrayT, ArrayT]: ...
@overload
def flash_attn_qkvpacked_func(qkv: Any, *positional: Any, **arguments: Any) -> Any: ...
def flash_attn_qkvpacked_func(qkv: Any, *positional: Any, **arguments: Any) -> Any:
    """`flash_attn_func` on one array of shape (batch, length, 3, heads, width).

    Examples
    --------
    >>> import numpy as np
    >>> from otattn.flash import flash_attn_qkvpacked_func
    >>> flash_attn_qkvpacked_func(np.ones((1, 2, 3, 4, 8))).shape
    (1, 2, 4, 8)
    """
    return flash_attn_func(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2], *positional, **arguments)


@overload
def flash_attn_kvpacked_func(
    q: ArrayT, kv: Any, *positional: Any, return_attn_probs: Literal[False] = False, **arguments: Any
) -> ArrayT: ...
@overload
def flash_attn_kvpacked_func(
    q: ArrayT, kv: Any, *positional: Any, return_attn_probs: Literal[True], **arguments: Any
) -> tuple[ArrayT, ArrayT, ArrayT]: ...
@overload
def flash_attn_kvpacked_func(q: Any, kv: Any, *positional: Any, **arguments: Any) -> Any: ...
def flash_attn_kvpacked_func(q: Any, kv: Any, *positional: Any, **arguments: Any) -> Any:
    """`flash_attn_func` with keys and values in one array of shape (batch, keys, 2, key heads, width).

    Examples
    --------
    >>> import numpy as np
    >>> from otattn.flash import flash_attn_kvpacked_func
    >>> flash_attn_kvpacked_func(np.ones((1, 2, 4, 8)), np.ones((1, 3, 2, 2, 8))).shape
    (1, 2, 4, 8)
    """
    return flash_attn_func(q, kv[:, :, 0], kv[:, :, 1], *positional, **arguments)


@overload
def flash_attn_varlen_func(
    q: ArrayT,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: Literal[False] = False,
    *,
    method: str | Regulariser | Spec = "softmax",
    **arguments: Any,
) -> ArrayT: ...
@overload
def flash_attn_varlen_func(
    q: ArrayT,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    *,
    return_attn_probs: Literal[True],
    method: str | Regulariser | Spec = "softmax",
    **arguments: Any,
) -> tuple[ArrayT, ArrayT, list[ArrayT]]: ...
@overload
def flash_attn_varlen_func(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    *,
    method: str | Regulariser | Spec = "softmax",
    **arguments: Any,
) -> Any: ...
def flash_attn_varlen_func(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    *,
    method: str | Regulariser | Spec = "softmax",
    **arguments: Any,
) -> Any:
    """`otattn.varlen_attention` with flash-attn's names.

    Parameters
    ----------
    q : array or tensor, shape (total queries, heads, width)
    k, v : array or tensor, shape (total keys, key heads, width)
    cu_seqlens_q, cu_seqlens_k : int array, shape (sequences + 1,)
    alibi_slopes : array or tensor, shape (heads,), optional
    return_attn_probs : bool
        Then the result is ``(out, lse, couplings)``: lse of shape (heads, total queries), a coupling for
        every sequence.
    dropout_p, softmax_scale, causal, window_size, softcap, deterministic, method, **arguments
        As in `flash_attn_func`.

    Returns
    -------
    out : array or tensor, shape (total queries, heads, width)

    Raises
    ------
    ValueError, TypeError, NotConverged, Infeasible, NotFinite
        As `otattn.varlen_attention`.

    Examples
    --------
    >>> import numpy as np
    >>> from otattn.flash import flash_attn_varlen_func
    >>> q, k = np.ones((5, 4, 8)), np.ones((7, 2, 8))
    >>> flash_attn_varlen_func(q, k, k, [0, 2, 5], [0, 4, 7], 3, 4, causal=True).shape
    (5, 4, 8)
    """
    causal, wanted = _flags(causal, deterministic, return_attn_probs)
    found = varlen_attention(
        q,
        k,
        v,
        cu_seqlens_q,
        cu_seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        dropout_p,
        causal,
        softmax_scale,
        method=method,
        window_size=window_size,
        softcap=softcap,
        alibi_slopes=alibi_slopes,
        return_aux=_PROBABILITIES if wanted else None,
        **arguments,
    )
    if not wanted:
        return found
    out, auxes = found
    parts = [aux.lse.swapaxes(0, 1) for aux in auxes]
    if hasattr(q, "new_empty"):
        import torch

        lse: Any = torch.cat(parts)
    else:
        lse = np.concatenate(parts)
    return out, lse.swapaxes(0, 1), [aux.coupling for aux in auxes]
