"""Attention on JAX arrays by calling Python back from the compiled program (jax.pure_callback).

For a jax without jax.ffi, another backend than the CPU's, and regularisers given as Python functions.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._arrays import seed_of
from ._attention import attention as on_arrays
from ._attention import prepare
from ._call import wants_of
from ._gradients import UPSTREAM, gradients
from ._jax_manual import alike, made_of, zeros_like
from ._kept import NUMPY
from ._plan import Plan
from ._settings import DIFFERENTIABLE, OPERANDS

# Arguments of `attention` that are arrays, in the order of the traced operands.
_NAMES = OPERANDS[: OPERANDS.index("key_lengths") + 1]
_PAIRS = ("attn_mask", "bias")
_WITHOUT_GRADIENT = tuple(name for name in _NAMES if name not in DIFFERENTIABLE)


def _call(static: Any, operands: Any, run: Any, result: Any) -> Any:
    """`run(arrays by name)` outside of the program. Whole batches at once where every array can have one."""
    names = [name for name, x in zip(_NAMES, operands, strict=True) if x is not None]
    plain = all(name in _NAMES[:5] for name in names)

    def outside(*arrays: Any) -> Any:
        return run(static, {name: np.asarray(x) for name, x in zip(names, arrays, strict=True)})

    present = [x for x in operands if x is not None]
    found: Any = jax.pure_callback(
        outside, result, *present, vmap_method="broadcast_all" if plain else "sequential"
    )
    return made_of(present, found)


def _forward(static: Any, arrays: Mapping[str, Any]) -> Any:
    return on_arrays(**arrays, **dict(static))


def _backward(static: Any, arrays: Mapping[str, Any], gradient: Any) -> Any:
    wanted = tuple(name for name in arrays if name in DIFFERENTIABLE)
    spec, _, seed = prepare(**dict(static))
    given = dict(arrays) if seed is None else {**arrays, "dropout_seed": seed_of(seed)}
    wants = wants_of(wanted, (*given, *UPSTREAM), False, None, "gradients")
    by_name = {"out_grad": gradient}
    direct = gradients(NUMPY, spec, wants, (*given.values(), *(by_name.get(name) for name in UPSTREAM)))
    if direct is not None:
        return direct
    query, key, value = (arrays[name] for name in _NAMES[:3])
    rest = {name: x for name, x in arrays.items() if name not in _NAMES[:3]}
    plan = Plan(query, key, value, gradients=True, **rest, **dict(static))
    plan.forward(query, key, value)
    found = plan.backward(gradient, wrt=wanted)
    lead = gradient.shape[:-2]
    return tuple(_shaped(found[name], arrays[name], lead) for name in wanted)


def _shaped(found: Any, operand: Any, lead: tuple[int, ...]) -> Any:
    """A gradient in the shape of its operand: summed where that was repeated."""
    found = np.asarray(found)
    if found.size != operand.size:
        whole = found.reshape((*lead, *found.shape[-2:]))
        whole = whole.sum(tuple(range(whole.ndim - operand.ndim)))
        repeated = tuple(k for k, size in enumerate(operand.shape) if size == 1 and whole.shape[k] > 1)
        found = whole.sum(repeated, keepdims=True)
    return found.reshape(operand.shape).astype(operand.dtype)


# jax gives its constructor no types.
_shape: Any = jax.ShapeDtypeStruct


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(static: Any, operands: Any) -> Any:
    query, key, value = operands[:3]
    lead = jnp.broadcast_shapes(query.shape[:-3], key.shape[:-3], value.shape[:-3])
    heads = () if query.ndim == key.ndim == value.ndim == 2 else (_heads(operands),)
    shape = (*lead, *heads, query.shape[-2], value.shape[-1])
    return _call(static, operands, _forward, _shape(shape, query.dtype))


def _heads(operands: Any) -> int:
    return max(int(x.shape[-3]) if x.ndim > 2 else 1 for x in operands[:3])


def _attend_forward(static: Any, operands: Any) -> Any:
    return _attend(static, operands), operands


def _attend_backward(static: Any, operands: Any, gradient: Any) -> Any:
    wanted = [k for k, x in enumerate(operands) if x is not None and _NAMES[k] not in _WITHOUT_GRADIENT]
    shapes = tuple(_shape(operands[k].shape, operands[k].dtype) for k in wanted)
    names = [name for name, x in zip(_NAMES, operands, strict=True) if x is not None]
    plain = all(name in _NAMES[:5] for name in names)

    def outside(upstream: Any, *arrays: Any) -> Any:
        by_name = {name: np.asarray(x) for name, x in zip(names, arrays, strict=True)}
        return _backward(static, by_name, np.asarray(upstream))

    present = [x for x in operands if x is not None]
    found = jax.pure_callback(
        outside, shapes, gradient, *present, vmap_method="broadcast_all" if plain else "sequential"
    )
    result: list[Any] = [None] * len(operands)
    for k, x in zip(wanted, made_of(present, found), strict=True):
        result[k] = x
    for k, name in enumerate(_NAMES):
        if operands[k] is not None and name in _WITHOUT_GRADIENT:
            floating = jnp.issubdtype(operands[k].dtype, jnp.floating)
            result[k] = (
                zeros_like(operands[k]) if floating else np.zeros(operands[k].shape, jax.dtypes.float0)
            )
    return (tuple(result),)


_attend.defvjp(_attend_forward, _attend_backward)


def attend(arrays: Mapping[str, Any], static: Mapping[str, Any]) -> Any:
    """attention(**arrays, **static), the arrays by name being JAX's."""
    given: dict[str, Any] = {name: arrays.get(name) for name in _NAMES}
    rank = given["query"].ndim
    for name in _PAIRS:
        x = given[name]
        if x is not None and x.ndim < rank:
            # Of the query's rank, so that a batch dimension of vmap comes before all of them.
            given[name] = jnp.reshape(x, (1,) * (rank - x.ndim) + x.shape)
    there = [name for name in _NAMES if given[name] is not None]
    given |= zip(there, alike([given[name] for name in there]), strict=True)
    return _attend(tuple(sorted(static.items())), tuple(given[name] for name in _NAMES))
