"""The structs of a spec before it has seen an array, and what follows from them."""

from __future__ import annotations

import ctypes
import functools
import sys

from . import _structs as c
from ._errors import check, new_error
from ._library import CANCEL, library
from ._regulariser import regulariser_named
from ._settings import is_of_torch
from ._spec import Spec

COUPLED = (c.COLUMNS_EXACT, c.COLUMNS_RELAXED, c.COLUMNS_CAPPED, c.COLUMNS_BOUNDED)
_CORNERS = {"top_left": c.TOP_LEFT, "bottom_right": c.BOTTOM_RIGHT}


def template(spec: Spec) -> tuple[c.Problem, c.Options]:
    """The structs of a call before any array, checked as far as words go."""
    return _template_of_plan(spec.of_plan())


@functools.lru_cache(maxsize=256)
def _template_of_plan(spec: Spec) -> tuple[c.Problem, c.Options]:
    problem, options = c.Problem(), c.Options()
    problem.size, options.size = ctypes.sizeof(problem), ctypes.sizeof(options)
    regulariser = regulariser_named(spec.method)
    if regulariser is not None:
        regulariser.fill(problem)
    else:
        error, reference = new_error()
        check(
            library.ota_method_parse(
                spec.method.encode(), ctypes.byref(problem), ctypes.byref(options), reference
            ),
            error,
        )
    if spec.scale is not None:
        # 0 means 1 / sqrt(width) in the struct; the smallest number makes all scores equal as well.
        problem.scale = spec.scale or sys.float_info.min
    if spec.temperature != 1.0:
        problem.temperature = spec.temperature
    if spec.alpha is not None:
        problem.order = allowed("alpha", spec.alpha, problem.regulariser == c.ENTMAX, spec)
    if spec.cap is not None:
        capped = problem.columns in (c.COLUMNS_CAPPED, c.COLUMNS_ONLINE)
        problem.cap = allowed("cap", spec.cap, capped, spec)
    if spec.strength is not None:
        set_strength(problem, spec.strength, spec)
    for name in ("lower", "upper"):
        bound = getattr(spec, name)
        if bound is not None:
            set_bound(problem, name, bound, spec)
    if spec.is_causal and problem.columns == c.COLUMNS_PREFIX:
        raise ValueError(
            "is_causal is True, but prefix columns are causal by themselves (row i solves on keys 0 to i); "
            "leave it out"
        )
    problem.cost = int(spec.cost)
    problem.corner = _CORNERS[spec.causal_align]
    word, _, amount = spec.rows.partition(":")
    if word == "relaxed" and amount:
        problem.rows, problem.row_strength = c.ROWS_RELAXED, float(amount)
    elif spec.rows != "hard":
        raise ValueError(f"rows is {spec.rows!r}, wanted 'hard' or 'relaxed:RHO'")
    if spec.axis not in ("rows", "columns"):
        raise ValueError(f"axis is {spec.axis!r}, wanted 'rows' or 'columns'")
    problem.axis = c.AXIS_COLUMNS if spec.axis == "columns" else c.AXIS_ROWS
    if spec.rounds is not None:
        options.rounds = spec.rounds if spec.rounds > 0 else c.NO_ROUNDS
    if spec.tolerance is not None:
        options.tolerance = spec.tolerance
    if spec.max_rounds is not None:
        options.max_rounds = spec.max_rounds
    if spec.workspace_limit is not None:
        options.workspace_limit = spec.workspace_limit
    options.prune |= int(spec.prune)
    options.strict = int(spec.strict)
    # A partial plan is what the certificate of NotConverged is judged from.
    options.allow_partial = int(spec.allow_partial or problem.columns in COUPLED)
    if spec.solver != "auto":
        options.solver = spec.solver.encode()
    if spec.backend is not None and not is_of_torch(spec.backend):
        options.backend = spec.backend.encode()
    options.cancel = CANCEL
    return problem, options


def allowed(name: str, value: float, fits: bool, spec: Spec) -> float:
    if not fits:
        raise ValueError(f"{name} is given, but the method {spec.method!r} has none")
    if value <= 0.0:
        # 0 means the default in the struct.
        raise ValueError(f"{name} is {value!r}, wanted more than 0")
    return value


def set_strength(problem: c.Problem, value: float, spec: Spec) -> None:
    if problem.columns == c.COLUMNS_ELASTIC:
        setattr(problem, "lambda", value)
        return
    problem.strength = allowed("strength", value, problem.columns == c.COLUMNS_RELAXED, spec)


def set_bound(problem: c.Problem, name: str, value: float, spec: Spec) -> None:
    if problem.columns != c.COLUMNS_BOUNDED:
        raise ValueError(f"{name} is given, but the method {spec.method!r} has none")
    setattr(problem, name, value)


def columns_of(spec: Spec) -> int:
    """The column rule (a constant of the header) of a method."""
    return int(template(spec)[0].columns)


def regulariser_of(spec: Spec) -> int:
    """The regulariser (a constant of the header) of a method."""
    return int(template(spec)[0].regulariser)


def is_implicit(spec: Spec) -> bool:
    """Whether backward starts from potentials that solve the problem."""
    problem, options = template(spec)
    coupled = problem.columns in COUPLED and options.rounds == 0
    # Columns that are solved alone are rows that are, transposed, whose potentials are the columns'.
    turned = problem.columns == c.COLUMNS_FREE and problem.axis == c.AXIS_COLUMNS
    return bool((coupled or turned) and problem.regulariser != c.HARD)


def is_closed_form(spec: Spec) -> bool:
    """Whether a row's plan is what its log-sum-exp says: softmax on free columns."""
    problem, _ = template(spec)
    free = problem.columns == c.COLUMNS_FREE and problem.axis == c.AXIS_ROWS
    softmax = problem.regulariser == c.SOFTMAX and problem.entry_cap == 0.0
    return bool(free and softmax and problem.rows == c.ROWS_HARD)


def needs_no_forward(spec: Spec) -> bool:
    """Whether backward can do with what an earlier forward wrote."""
    problem, _ = template(spec)
    return bool(problem.axis == c.AXIS_ROWS and not spec.prune and not spec.allow_partial)


def needs_coupling(spec: Spec) -> bool:
    """Whether the judge cannot do with potentials."""
    return regulariser_of(spec) == c.HARD or columns_of(spec) == c.COLUMNS_PREFIX
