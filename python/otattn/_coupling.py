"""The public call on scores. NumPy here; torch tensors go to _torch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import NoneType
from typing import Any, Literal, overload

from numpy import ndarray

from ._arrays import numpy_coupling
from ._attention import (
    array_or_none,
    compiling,
    is_torch,
    limited,
    settings_from,
    settings_maker,
    static,
    window_of,
)
from ._aux import ArrayT, AuxOutput, Request
from ._coupling_repeat import NOTHING, certificate_again, judged_again, numpy_coupling_repeat, outputs_wanted
from ._progress import Progress
from ._regulariser import Regulariser, word_of
from ._settings import Settings

# What the arrays of a call may be.
_ARRAYS = frozenset((ndarray, NoneType))


def _settings_of_words(words: tuple[Any, ...]) -> Settings:
    (method, scale, is_causal, causal_align, window, softcap, *numbers) = words
    names = ("temperature", "alpha", "cap", "strength", "lower", "upper")
    checked = (static(name, x) for name, x in zip(names, numbers, strict=False))
    return settings_from(
        method, scale, is_causal, causal_align, window_of(window), softcap, *checked, *numbers[len(names) :]
    )


@functools.lru_cache(maxsize=1)
def _torch_coupling_repeat() -> Any:
    from ._torch_coupling import torch_coupling_repeat

    return torch_coupling_repeat


def words_of(
    method: str,
    *,
    temperature: float = 1.0,
    rounds: int | None = None,
    tolerance: float | None = None,
    max_rounds: int | None = None,
    rows: str = "hard",
    cost: bool = False,
    allow_partial: bool = False,
) -> tuple[Any, ...]:
    """The words of a call of `coupling`, whose other arguments are as they are by default."""
    numbers = (temperature, None, None, None, None, None)
    limits = (rounds, tolerance, max_rounds)
    return (
        *(method, None, False, "top_left", None, 0.0, *numbers, rows, "rows", cost, False, *limits),
        *(allow_partial, False, False, "auto", None, 0.0),
    )


def judged(words: tuple[Any, ...], scores: Any, given: tuple[Any, ...], plan: Any, potentials: Any) -> Any:
    """The certificate of a plan and of its potentials for the call of `coupling` with these words."""
    found = judged_again(words, scores, given, plan, potentials)
    if found is not None:
        return found
    arrays = [x.numpy() if is_torch(x) else x for x in (scores, plan, *potentials, *given)]
    scores, plan, row, column = arrays[:4]
    return certificate_again(_settings_of_words(words), scores, tuple(arrays[4:]), plan, (row, column))


@overload
def coupling(
    scores: ArrayT,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    method: str | Regulariser = "softmax",
    temperature: Any = 1.0,
    rounds: int | None = None,
    tolerance: float | None = None,
    max_rounds: int | None = None,
    alpha: Any = None,
    cap: Any = None,
    strength: Any = None,
    row_mass: Any = None,
    column_mass: Any = None,
    window: tuple[int, int] | None = None,
    sink: Any = None,
    return_aux: Literal[False] | None = None,
    lower: Any = None,
    upper: Any = None,
    causal_align: str = "top_left",
    rows: str = "hard",
    axis: str = "rows",
    cost: bool = False,
    allow_partial: bool = False,
    prune: bool = False,
    strict: bool = False,
    solver: str = "auto",
    backend: str | None = None,
    start_potential: Any = None,
    entry_caps: Any = None,
    workspace_limit: int | None = None,
    deadline: float | None = None,
    progress: Callable[[Progress], Any] | None = None,
    nonfinite: str = "raise",
) -> ArrayT: ...
@overload
def coupling(
    scores: ArrayT,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    method: str | Regulariser = "softmax",
    temperature: Any = 1.0,
    rounds: int | None = None,
    tolerance: float | None = None,
    max_rounds: int | None = None,
    alpha: Any = None,
    cap: Any = None,
    strength: Any = None,
    row_mass: Any = None,
    column_mass: Any = None,
    window: tuple[int, int] | None = None,
    sink: Any = None,
    return_aux: Request,
    lower: Any = None,
    upper: Any = None,
    causal_align: str = "top_left",
    rows: str = "hard",
    axis: str = "rows",
    cost: bool = False,
    allow_partial: bool = False,
    prune: bool = False,
    strict: bool = False,
    solver: str = "auto",
    backend: str | None = None,
    start_potential: Any = None,
    entry_caps: Any = None,
    workspace_limit: int | None = None,
    deadline: float | None = None,
    progress: Callable[[Progress], Any] | None = None,
    nonfinite: str = "raise",
) -> tuple[ArrayT, AuxOutput]: ...
@overload
def coupling(
    scores: Any,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    method: str | Regulariser = "softmax",
    temperature: Any = 1.0,
    rounds: int | None = None,
    tolerance: float | None = None,
    max_rounds: int | None = None,
    alpha: Any = None,
    cap: Any = None,
    strength: Any = None,
    row_mass: Any = None,
    column_mass: Any = None,
    window: tuple[int, int] | None = None,
    sink: Any = None,
    return_aux: Any = None,
    lower: Any = None,
    upper: Any = None,
    causal_align: str = "top_left",
    rows: str = "hard",
    axis: str = "rows",
    cost: bool = False,
    allow_partial: bool = False,
    prune: bool = False,
    strict: bool = False,
    solver: str = "auto",
    backend: str | None = None,
    start_potential: Any = None,
    entry_caps: Any = None,
    workspace_limit: int | None = None,
    deadline: float | None = None,
    progress: Callable[[Progress], Any] | None = None,
    nonfinite: str = "raise",
) -> Any: ...
def coupling(
    scores: Any,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    method: str | Regulariser = "softmax",
    temperature: Any = 1.0,
    rounds: int | None = None,
    tolerance: float | None = None,
    max_rounds: int | None = None,
    alpha: Any = None,
    cap: Any = None,
    strength: Any = None,
    row_mass: Any = None,
    column_mass: Any = None,
    window: tuple[int, int] | None = None,
    sink: Any = None,
    return_aux: Any = None,
    lower: Any = None,
    upper: Any = None,
    causal_align: str = "top_left",
    rows: str = "hard",
    axis: str = "rows",
    cost: bool = False,
    allow_partial: bool = False,
    prune: bool = False,
    strict: bool = False,
    solver: str = "auto",
    backend: str | None = None,
    start_potential: Any = None,
    entry_caps: Any = None,
    workspace_limit: int | None = None,
    deadline: float | None = None,
    progress: Callable[[Progress], Any] | None = None,
    nonfinite: str = "raise",
) -> Any:
    """The weights P of a matrix of scores, by any transport method.

    Parameters
    ----------
    scores : array, shape (..., rows, columns)
        f64, f32, bf16 or f16. `scale` multiplies it (default 1), `temperature` divides it; with `cost` it is
        minimised.

    The other parameters are those of `attention`.

    Returns
    -------
    coupling : array, the shape and type of `scores`
        With `return_aux` a pair ``(coupling, aux)``.

    Raises
    ------
    ValueError, TypeError, NotConverged, Infeasible, NotFinite, TimeoutError, InterruptedError, MemoryError
        As `attention`.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> otattn.coupling(np.array([[2.0, 0.0], [0.0, 1.0]]), method="assignment")
    array([[1., 0.],
           [0., 1.]])
    """
    names = outputs_wanted(return_aux)
    alone = sink is entry_caps is workspace_limit is deadline is None and progress is None
    alone = alone and nonfinite == "raise"
    if names is not None and alone:
        # Calls whose structs are kept from one to the next.
        words = (
            method,
            scale,
            is_causal,
            causal_align,
            window,
            0.0,
            temperature,
            alpha,
            cap,
            strength,
            lower,
            upper,
            rows,
            axis,
            cost,
            False,
            rounds,
            tolerance,
            max_rounds,
            allow_partial,
            prune,
            strict,
            solver,
            backend,
            0.0,
        )
        given = NOTHING
        if not (attn_mask is row_mass is column_mass is start_potential is None):
            given = (attn_mask, row_mass, column_mass, start_potential)
        if type(scores) is ndarray and (given is NOTHING or _ARRAYS.issuperset(map(type, given))):
            found = numpy_coupling_repeat(words, names, scores, given, _settings_of_words)
        elif (
            is_torch(scores)
            and (given is NOTHING or all(x is None or is_torch(x) for x in given))
            and not compiling()
        ):
            found = _torch_coupling_repeat()(words, names, scores, given, _settings_of_words)
        else:
            found = None
        if found is not None:
            return found
    settings = settings_maker()(
        word_of(method),
        scale,
        is_causal,
        causal_align,
        window_of(window),
        0.0,
        static("temperature", temperature),
        static("alpha", alpha),
        static("cap", cap),
        static("strength", strength),
        static("lower", lower),
        static("upper", upper),
        rows,
        axis,
        cost,
        False,
        rounds,
        tolerance,
        max_rounds,
        allow_partial,
        prune,
        strict,
        solver,
        backend,
        0.0,
    )
    settings = limited(settings, workspace_limit, deadline, progress, nonfinite)
    extra = (
        attn_mask,
        None,
        None,
        None,
        sink,
        array_or_none(temperature),
        array_or_none(alpha),
        array_or_none(cap),
        array_or_none(strength),
        array_or_none(lower),
        array_or_none(upper),
        row_mass,
        column_mass,
        None,
        entry_caps,
        start_potential,
        None,
    )
    if is_torch(scores):
        from ._torch import torch_coupling

        return torch_coupling(settings, scores, extra, return_aux)
    return numpy_coupling(settings, scores, extra, return_aux)
