"""Small doubly stochastic matrices inside of a program compiled by XLA (`ota_jax_normalize`)."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import jax
import numpy as np

from . import _structs as c
from ._jax_ffi import _shape, is_offered
from ._jax_manual import alike, made_of
from ._library import library
from ._normalize import Recipe
from ._threads import thread_limit

TARGET = "otattn_normalize"


@functools.cache
def _register() -> None:
    capsule: Any = jax.ffi.pycapsule
    jax.ffi.register_ffi_target(TARGET, capsule(library.ota_jax_normalize), platform="cpu")


def _call(recipe: Recipe, *arrays: Any) -> Any:
    """The plans of scores, or with two arrays the gradients; leading dimensions are a batch, vmap's too."""
    if not is_offered():
        raise ValueError("sinkhorn_normalize needs jax.ffi on the CPU; give it NumPy arrays")
    _register()
    problem = c.Normalization(threads=thread_limit(), **recipe._asdict())
    problem.size = ctypes.sizeof(problem)
    arrays = alike(arrays)
    result = _shape(arrays[0].shape, arrays[0].dtype)
    call: Any = jax.ffi.ffi_call(TARGET, result, vmap_method="broadcast_all")
    found: Any = call(*arrays, recipe=np.frombuffer(bytes(problem), np.uint8))
    return made_of(arrays, found)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def normalize(recipe: Recipe, x: Any) -> Any:
    """Plans of scores [..., n, n], f64 or f32."""
    return _call(recipe, x)


def _forward(recipe: Recipe, x: Any) -> tuple[Any, Any]:
    plan = _call(recipe, x)
    return plan, plan if recipe.implicit else x


def _backward(recipe: Recipe, saved: Any, plan_grad: Any) -> tuple[Any]:
    return (_call(recipe, saved, plan_grad.astype(saved.dtype)),)


normalize.defvjp(_forward, _backward)
