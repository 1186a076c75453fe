"""Attention on JAX arrays: traced, compiled, differentiated and mapped like any JAX function.

A compiled program calls the library itself (jax.ffi). Where this jax cannot, Python is called back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, overload

import jax
import jax.numpy as jnp
import numpy as np

from . import _jax_callback, _jax_ffi, _jax_normalize
from ._attention import known_arguments, prepare
from ._aux import (
    EVERYTHING,
    NO_AUX,
    ArrayT,
    AuxOutput,
    AuxRequest,
    Potentials,
    Request,
    RowStats,
    outputs_of,
    request_of,
)
from ._fold import Kind, fold_operands
from ._jax_manual import alike
from ._keywords import BY_NAME, NUMBER
from ._normalize import check_shape, recipe_of
from ._regulariser import Regulariser
from ._settings import OPERANDS, PLACES
from ._shapes import (
    dense,
    fold,
    merged,
    of_numbers,
    of_pairs,
    shape_text,
)
from ._spec import Spec, has_functions

# Arguments that are arrays, or numbers that may be traced.
_ARRAYS = OPERANDS[3 : PLACES["start_potential"] + 1]
_FLOATS = ("float64", "float32", "bfloat16", "float16")


@overload
def attention(
    query: ArrayT,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    method: str | Regulariser | Spec = "softmax",
    return_aux: Literal[False] | None = None,
    **arguments: Any,
) -> ArrayT: ...
@overload
def attention(
    query: ArrayT,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    method: str | Regulariser | Spec = "softmax",
    return_aux: Request,
    **arguments: Any,
) -> tuple[ArrayT, AuxOutput]: ...
@overload
def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    method: str | Regulariser | Spec = "softmax",
    return_aux: Any = None,
    **arguments: Any,
) -> Any: ...
def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    method: str | Regulariser | Spec = "softmax",
    return_aux: Any = None,
    **arguments: Any,
) -> Any:
    """`otattn.attention` as a JAX function: jit, grad, value_and_grad, jacrev and vmap work on it.

    Parameters
    ----------
    query, key, value : jax.Array
        As in `otattn.attention`, layout (..., heads, length, width).
    attn_mask : jax.Array, optional
        Boolean, or floats that are added; floats get no gradient here, those of `bias` do.
    dropout_p : float
        Needs ``dropout_seed=``, an int.
    return_aux : AuxRequest, bool, name or names of its fields, optional
        Then the result is ``(out, AuxOutput)``. `certificate` is not offered and `info` is None. The coupling
        and the received mass have derivatives.
    method, **arguments
        As in `otattn.attention`. Arrays among them (bias, temperature, alpha, cap, strength, lower, upper,
        masses, sink, slopes) may be traced and get gradients; everything else is static. `deadline` is that
        of every solve and of its gradients, from their begin on; Ctrl-C does not end a compiled program, as
        none of XLA's. `progress` is refused.

    Returns
    -------
    out : jax.Array, shape (..., heads, queries, values width)

    Raises
    ------
    ValueError, TypeError
        When the function is traced, as `otattn.attention`.
    Exception
        jax's own, with the library's sentence, where a solve of a compiled program fails.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, otattn.jax
    >>> x = jnp.arange(12.0).reshape(1, 1, 4, 3) / 12
    >>> out = jax.jit(lambda x: otattn.jax.attention(x, x, x, method="softmax/capped:1"))(x)
    >>> out.shape
    (1, 1, 4, 3)
    """
    dropped = dropout_p or (method.dropout_p if isinstance(method, Spec) else 0.0)
    if dropped and arguments.get("dropout_seed") is None:
        raise ValueError("dropout_p is given without dropout_seed, an int")
    given = {"query": query, "key": key, "value": value, "attn_mask": attn_mask}
    arrays, static = _parted(given, arguments, method)
    words = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
    static |= {**words, "method": method}
    if has_functions(method) or not _jax_ffi.is_offered():
        if request_of(return_aux) is not None:
            raise ValueError("return_aux is given where jax.ffi cannot call the library")
        return _jax_callback.attend(arrays, static)
    spec, _, seed = prepare(**static)
    query, key, value = _alike(arrays)
    folded = fold(query, key, value, spec.enable_gqa, jnp.broadcast_to)
    sizes = (folded.query.shape[1], folded.query.shape[2], folded.key.shape[2])
    operands = dict(zip(OPERANDS[:3], folded[:3], strict=True))
    operands |= _others(arrays, folded.batch, sizes)
    return _solved(spec, operands, seed, "out", folded.lead, return_aux)


@overload
def coupling(
    scores: ArrayT,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    method: str | Spec = "softmax",
    return_aux: Literal[False] | None = None,
    **arguments: Any,
) -> ArrayT: ...
@overload
def coupling(
    scores: ArrayT,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    method: str | Spec = "softmax",
    return_aux: Request,
    **arguments: Any,
) -> tuple[ArrayT, AuxOutput]: ...
@overload
def coupling(
    scores: Any,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    method: str | Spec = "softmax",
    return_aux: Any = None,
    **arguments: Any,
) -> Any: ...
def coupling(
    scores: Any,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    method: str | Spec = "softmax",
    return_aux: Any = None,
    **arguments: Any,
) -> Any:
    """`otattn.coupling` as a JAX function: the weights P of a matrix of scores.

    Parameters
    ----------
    scores : jax.Array, shape (..., rows, columns)
        `scale` multiplies it (default 1), `temperature` divides it.
    attn_mask, is_causal, scale, method, return_aux, **arguments
        As in `attention`.

    Returns
    -------
    coupling : jax.Array, the shape and type of `scores`

    Raises
    ------
    ValueError, TypeError, Exception
        As `attention`; ValueError where jax.ffi cannot call the library.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, otattn.jax
    >>> def received(scores):
    ...     return otattn.jax.coupling(scores, method="softmax/relaxed:1").sum(0)
    >>> jax.jacrev(received)(jnp.zeros((2, 3))).shape
    (3, 2, 3)
    """
    arrays, static = _parted({"attn_mask": attn_mask}, arguments, method)
    arrays["query"] = _array("scores", scores)
    if has_functions(method) or not _jax_ffi.is_offered():
        raise ValueError("coupling needs jax.ffi on the CPU, and a method that is a string")
    spec, _, _ = prepare(**static, is_causal=is_causal, scale=scale, method=method)
    (scores,) = _alike(arrays, "scores")
    if scores.ndim < 2:
        raise ValueError(f"scores has shape {shape_text(scores)}, wanted two dimensions or more")
    rank = max(4, scores.ndim)
    whole = scores.reshape((1,) * (rank - scores.ndim) + scores.shape)
    batch = whole.shape[:-3]
    whole = merged(whole)
    operands = {"query": whole, **_others(arrays, batch, whole.shape[1:])}
    return _solved(spec, operands, None, "coupling", scores.shape[:-2], return_aux)


def sinkhorn_normalize(
    x: Any,
    rounds: int = 20,
    eps: float = 1e-6,
    order: str = "deepseek",
    gradients: str = "truncated",
    *,
    tolerance: float | None = None,
) -> jax.Array:
    """`otattn.sinkhorn_normalize` as a JAX function: jit, grad, jacrev and vmap work on it.

    Parameters
    ----------
    x : jax.Array, shape (..., n, n)
        Scores, n from 1 to 128; f64, f32, or bf16 and f16, which are computed in f32.
    rounds, eps, order, gradients, tolerance
        As in `otattn.sinkhorn_normalize`; static.

    Returns
    -------
    jax.Array, shape and type of `x`
        A matrix that met NaN, +inf or a line without weight is NaN throughout. Nothing warns: neither of that
        nor of a tolerance that was not met.

    Raises
    ------
    ValueError, TypeError
        When the function is traced; ValueError where jax.ffi cannot call the library.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, otattn.jax
    >>> mixed = jax.jit(lambda x: (otattn.jax.sinkhorn_normalize(x) ** 2).sum())
    >>> jax.grad(mixed)(jnp.zeros((8, 4, 4))).shape
    (8, 4, 4)
    """
    (x,) = _alike({"query": _array("x", x)}, "x")
    check_shape(x)
    recipe = recipe_of(order, rounds, eps, tolerance, gradients)
    wide = x if str(x.dtype) in ("float64", "float32") else x.astype(jnp.float32)
    found: Any = _jax_normalize.normalize(recipe, wide)
    narrow: jax.Array = found.astype(x.dtype)
    return narrow


def _array(name: str, x: Any) -> Any:
    if not isinstance(x, jax.Array):
        dense(name, x)
    try:
        return jnp.asarray(x)
    except (TypeError, ValueError, OverflowError) as error:
        kind = f" of {x.dtype}" if isinstance(x, np.ndarray) else ""
        raise TypeError(f"{name} is a {type(x).__name__}{kind}, which JAX has no array for") from error


def _parted(
    given: dict[str, Any], arguments: dict[str, Any], method: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arrays and what may be traced by name, and the static rest. Plain numbers of a method are static."""
    arrays = {name: _array(name, x) for name, x in given.items() if x is not None or name != "attn_mask"}
    static: dict[str, Any] = {}
    known_arguments("otattn.jax", arguments)
    if arguments.get("progress") is not None:
        raise ValueError(
            "progress is given, which a program of JAX does not carry; call otattn.attention on arrays"
        )
    own = method.nonfinite if isinstance(method, Spec) else "raise"
    if arguments.get("nonfinite", own) != "raise" or own != "raise":
        raise ValueError("nonfinite is given, which programs of JAX do not carry; call otattn.attention")
    for name, x in arguments.items():
        number = BY_NAME[name].kind == NUMBER and not hasattr(x, "shape")
        if name not in _ARRAYS or number:
            static[name] = x
        elif x is not None:
            arrays[name] = _array(name, x)
    return arrays, static


def _alike(arrays: Mapping[str, Any], first: str = "query") -> list[Any]:
    found = [(name, arrays[name]) for name in OPERANDS[:3] if name in arrays]
    kind = str(found[0][1].dtype)
    if kind not in _FLOATS:
        hint = of_numbers(first, found[0][1])
        raise TypeError(f"{first} has type {kind}, wanted one of {', '.join(_FLOATS)}{hint}")
    for name, x in found:
        if str(x.dtype) != kind:
            raise TypeError(f"{name} has type {x.dtype}, but query has {kind}")
    return [x for _, x in found]


def _wide(name: str, x: Any, like: Any) -> Any:
    """Masses, slopes and the like: f64 or f32, others converted."""
    del name, like
    if str(x.dtype) in ("float64", "float32"):
        return x
    return x.astype(jnp.float64 if _jax_ffi.has_f64() else jnp.float32)


def _mask(name: str, x: Any) -> Any:
    if str(x.dtype) not in ("bool", *_FLOATS):
        raise TypeError(of_pairs(name, x))
    return x


def _whole(name: str, x: Any, count: int) -> Any:
    if x.shape != (count,) or not jnp.issubdtype(x.dtype, jnp.integer):
        raise ValueError(f"{name} has type {x.dtype} and shape {x.shape}, wanted integers ({count},)")
    return x


_KIND = Kind(_mask, lambda name, x: x, _wide, _whole, lambda x: bool(x.size == 1), jnp.broadcast_to)


def _others(arrays: Mapping[str, Any], batch: tuple[int, ...], sizes: tuple[int, int, int]) -> dict[str, Any]:
    """The operands behind query, key and value in four dimensions, or as single numbers."""
    given = {name: arrays.get(name) for name in _ARRAYS}
    folded = fold_operands(_KIND, given, batch, sizes, None)
    found = {name: x for name, x in zip(OPERANDS[3:], folded, strict=True) if x is not None}
    if "key_lengths" in found:
        _shorten(found, sizes[2])
    return found


def _shorten(found: dict[str, Any], keys: int) -> None:
    """Lengths as part of the mask: without x64 JAX lacks the library's type for them."""
    lengths = found.pop("key_lengths").reshape((-1, 1, 1, 1))
    inside = jnp.arange(keys) < lengths
    mask = found.get("attn_mask")
    if mask is None:
        found["attn_mask"] = inside
    elif mask.dtype == jnp.bool_:
        found["attn_mask"] = mask & inside
    else:
        found["attn_mask"] = jnp.where(inside, mask, -jnp.inf)


def _solved(
    spec: Any, operands: dict[str, Any], seed: Any, first: str, lead: tuple[int, ...], return_aux: Any
) -> Any:
    request = request_of(return_aux)
    if request is not None and request.certificate:
        if request is not EVERYTHING:
            raise ValueError("certificate is not offered on JAX arrays; call otattn.attention on NumPy's")
        request = request._replace(certificate=False)
    wanted = outputs_of(request or NO_AUX)
    names = (first, *(name for name in wanted if name != first))
    present = tuple(name for name in OPERANDS if name in operands)
    static = _jax_ffi.Static(spec, names, present, seed)
    found: Any = _jax_ffi.solve(static, alike([operands[name] for name in present]))
    by_name = {
        name: x.reshape((*lead, *x.shape[2 if name in ("out", "coupling") else 3 :]))
        for name, x in zip(names, found, strict=True)
    }
    if request is None:
        return by_name[first]
    return by_name[first], _aux(request, by_name)


def _aux(request: AuxRequest, found: dict[str, Any]) -> AuxOutput:
    # Only these two have derivatives.
    x = {
        name: value if name in ("coupling", "receiver") else jax.lax.stop_gradient(value)
        for name, value in found.items()
    }
    return AuxOutput(
        coupling=x["coupling"] if request.coupling else None,
        potentials=Potentials(x["row_potential"], x["column_potential"]) if request.potentials else None,
        receiver=x["receiver"] if request.receiver else None,
        row_stats=RowStats(x["row_entropy"], x["row_support"], x["row_max"], x["sink"])
        if request.row_stats
        else None,
        lse=x["lse"] if request.lse else None,
    )
