"""The library's call of `otattn.moe` by its structs, for logits and bounds of every kind (otattn_route.h)."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from . import _native
from . import _structs as c
from ._arrays import address_of, matrix_of
from ._errors import finished
from ._library import CANCEL
from ._threads import thread_limit

CODES = {
    "topk": c.ROUTE_TOPK,
    "sinkhorn": c.ROUTE_SINKHORN,
    "base": c.ROUTE_BASE,
    "quantile": c.ROUTE_QUANTILE,
}
# The choice by potentials that "soft" found.
GIVEN: int = c.ROUTE_GIVEN


def call(
    matrix: Any,
    k: int,
    loads: tuple[Any, Any],
    drops: bool,
    code: int,
    start: Any,
    limits: tuple[float, int | None],
    certificate: bool,
) -> tuple[Any, ...]:
    """Experts, weights, potentials, load, kept, value, bound, excess, rounds, converged.

    Of a dense matrix of f64 or f32, least and largest loads in int64 and a start in f64; the limits are
    tolerance and rounds.
    """
    (tokens, experts), (lower, upper), (tolerance, limit) = matrix.shape, loads, limits
    chosen, kept = np.empty((tokens, k), np.int64), np.ones((tokens, k), bool)
    weights = np.empty((tokens, k), matrix.dtype)
    biases, load, bound = np.empty(experts), np.empty(experts, np.int64), np.full(1, np.nan)
    problem = c.Routing(
        size=ctypes.sizeof(c.Routing),
        logits=matrix_of(matrix),
        take=k,
        start=address_of(start),
        tolerance=tolerance,
        rounds=limit or 0,
        method=code,
        lower=address_of(lower),
        upper=address_of(upper),
    )
    result = c.RoutingResult(
        size=ctypes.sizeof(c.RoutingResult),
        chosen=chosen.ctypes.data,
        weights=weights.ctypes.data,
        potentials=biases.ctypes.data,
        loads=load.ctypes.data,
        bound=bound.ctypes.data if certificate else None,
        kept=kept.ctypes.data if drops else None,
    )
    options = c.Options(size=ctypes.sizeof(c.Options), threads=thread_limit(), cancel=CANCEL)
    finished(_native.ota_route(*map(ctypes.addressof, (problem, options, result))))
    return (
        *(chosen, weights, biases, load, kept),
        *(result.value, float(bound[0]), result.excess, result.rounds, result.converged != 0),
    )
