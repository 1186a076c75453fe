"""The call of the package flash-attn, in its layout."""

from __future__ import annotations

from typing import Any

from ._attention import attention
from ._aux import AuxRequest


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
    method: str = "softmax",
    **arguments: Any,
) -> Any:
    """`otattn.attention` with flash-attn's names, layout and bottom-right positions.

    Parameters
    ----------
    q : array or tensor, shape (batch, queries, heads, width)
    k, v : array or tensor, shape (batch, keys, key heads, width)
        The heads of q are a multiple of theirs.
    dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes
        As there; with more keys than queries the last query sees all keys. Slopes have shape (heads,).
    deterministic : bool
        Accepted: results are always the same.
    return_attn_probs : bool
        Then the result is ``(out, lse, coupling)``.
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
        window=None if max(window_size) < 0 else window_size,
        softcap=softcap,
        alibi_slopes=alibi_slopes,
        causal_align="bottom_right",
        return_aux=AuxRequest(coupling=True, lse=True) if return_attn_probs else None,
        **arguments,
    )
    if not return_attn_probs:
        return found.swapaxes(1, 2)
    out, aux = found
    return out.swapaxes(1, 2), aux.lse, aux.coupling
