"""The public call on query, key and value. NumPy here; torch tensors go to _torch."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from types import NoneType
from typing import Any, Literal, overload

from numpy import ndarray

from ._arrays import check_settings, numpy_attention, numpy_repeat
from ._aux import ArrayT, AuxOutput, Request
from ._progress import Progress, word_of_progress
from ._regulariser import Regulariser, word_of
from ._settings import Settings, count, flag, known_names, number, shown, text, whole


def compiling() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.compiler.is_compiling())


def is_torch(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def static(name: str, value: Any) -> float | None:
    """The value as a plain number, or None where it is absent, an array or a tensor."""
    if value is None:
        return None
    if type(value) is float or not hasattr(value, "shape"):
        if isinstance(value, (list, tuple)):
            raise TypeError(f"{name} is a {type(value).__name__}, wanted a number or an array of them")
        return number(name, value)
    if is_torch(value) or value.ndim > 0:
        return None
    return number(name, value)


def _bound(name: str, value: float | None) -> float | None:
    if value is not None and not value >= 0.0:
        raise ValueError(f"{name} is {value!r}, wanted 0 or more")
    return value


# Typed, since 1 and True are equal keys.
@functools.lru_cache(maxsize=512, typed=True)
def settings_from(
    method: str,
    scale: float | None,
    is_causal: bool,
    causal_align: str,
    window: tuple[int, int] | None,
    softcap: float,
    temperature: float | None,
    alpha: float | None,
    cap: float | None,
    strength: float | None,
    lower: float | None,
    upper: float | None,
    rows: str,
    axis: str,
    cost: bool,
    relative_inside: bool,
    rounds: int | None,
    tolerance: float | None,
    max_rounds: int | None,
    allow_partial: bool,
    prune: bool,
    strict: bool,
    solver: str,
    backend: str | None,
    dropout: float,
) -> Settings:
    if not isinstance(method, str):
        raise TypeError(
            f"method is a {type(method).__name__}, wanted a string such as 'softmax/exact' or a Regulariser"
        )
    method = str(method)
    if not isinstance(causal_align, str) or causal_align not in ("top_left", "bottom_right"):
        raise ValueError(f"causal_align is {causal_align!r}, wanted 'top_left' or 'bottom_right'")
    if scale is not None:
        scale = number("scale", scale)
        if scale == 0.0:
            # 0 means 1 / sqrt(width) in the struct; the smallest number makes all scores equal as well.
            scale = sys.float_info.min
    if temperature is not None and not temperature > 0.0:
        raise ValueError(f"temperature is {temperature!r}, wanted more than 0")
    softcap = number("softcap", softcap)
    if softcap < 0.0:
        raise ValueError(f"softcap is {softcap!r}, wanted 0 (none) or more")
    dropout = number("dropout_p", dropout)
    if not 0.0 <= dropout <= 1.0:
        raise ValueError(f"dropout_p is {dropout!r}, wanted 0 to 1")
    tolerance = None if tolerance is None else number("tolerance", tolerance)
    if tolerance is not None and not tolerance > 0.0:
        raise ValueError(f"tolerance is {tolerance!r}, wanted more than 0")
    if not isinstance(backend, (str, NoneType)):
        raise TypeError(f"backend is a {type(backend).__name__}, wanted a string or None")
    left, right = (-1, -1) if window is None else window
    return Settings(
        method,
        scale,
        flag("is_causal", is_causal),
        str(causal_align),
        left,
        right,
        softcap,
        1.0 if temperature is None else temperature,
        alpha,
        cap,
        strength,
        _bound("lower", lower),
        _bound("upper", upper),
        text("rows", rows),
        text("axis", axis),
        flag("cost", cost),
        flag("relative_inside", relative_inside),
        count("rounds", rounds),
        tolerance,
        count("max_rounds", max_rounds, 1),
        flag("allow_partial", allow_partial),
        flag("prune", prune),
        flag("strict", strict),
        text("solver", solver),
        None if backend is None else str(backend),
        dropout,
    )


def limited(
    settings: Settings, workspace_limit: Any, deadline: Any, progress: Any, nonfinite: Any = "raise"
) -> Settings:
    """The settings of a call with limits of its own, and with what is to become of numbers that are none."""
    if nonfinite != "raise":
        if nonfinite != "nan":
            raise ValueError(f"nonfinite is {shown(nonfinite)}, wanted 'raise' or 'nan'")
        if settings.strict:
            raise ValueError("nonfinite is 'nan', but strict raises; leave one of them out")
        settings = settings._replace(nonfinite="nan")
    if workspace_limit is deadline is progress is None:
        return settings
    if deadline is not None:
        deadline = number("deadline", deadline)
        if not deadline > 0.0:
            raise ValueError(f"deadline is {deadline!r}, wanted more than 0 seconds from now")
    if progress is not None:
        if compiling():
            raise ValueError(
                "progress cannot be called from a compiled graph; leave it out, or call outside of it"
            )
        progress = word_of_progress(progress)
    limit = count("workspace_limit", workspace_limit, 1)
    return settings._replace(workspace_limit=limit, deadline=deadline, progress=progress)


def window_of(window: Any, name: str = "window") -> tuple[int, int] | None:
    """(left, right) of an argument that may be any pair of whole numbers; None where both are no limit."""
    if window is None:
        return None
    try:
        sides = [count(name, side, -1) for side in window]
    except TypeError:
        raise TypeError(f"{name} is {window!r}, wanted (left, right), two whole numbers") from None
    left, right = sides if len(sides) == 2 else (None, None)
    if left is None or right is None:
        raise ValueError(f"{name} is {window!r}, wanted (left, right), each -1 (no limit) or more")
    return None if left < 0 and right < 0 else (left, right)


def _settings(*words: Any) -> Settings:
    try:
        return settings_from(*words)
    except TypeError:
        # What cannot be a key gets its sentence too.
        return settings_from.__wrapped__(*words)


def settings_maker() -> Any:
    # torch.compile looks through caches and warns about each; its own is the compiled code.
    return settings_from.__wrapped__ if compiling() else _settings


def _seed(seed: int | None, offset: int) -> tuple[int | None, int]:
    most = (1 << 64) - 1
    return count("dropout_seed", seed, most=most), whole("dropout_offset", offset, most=most)


def prepare(
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    method: str | Regulariser = "softmax",
    temperature: Any = 1.0,
    rounds: int | None = None,
    tolerance: float | None = None,
    max_rounds: int | None = None,
    alpha: Any = None,
    cap: Any = None,
    strength: Any = None,
    lower: Any = None,
    upper: Any = None,
    row_mass: Any = None,
    column_mass: Any = None,
    bias: Any = None,
    alibi_slopes: Any = None,
    window: tuple[int, int] | None = None,
    softcap: float = 0.0,
    sink: Any = None,
    causal_align: str = "top_left",
    key_lengths: Any = None,
    relative_bias: Any = None,
    relative_inside: bool = False,
    rows: str = "hard",
    axis: str = "rows",
    cost: bool = False,
    allow_partial: bool = False,
    prune: bool = False,
    strict: bool = False,
    solver: str = "auto",
    backend: str | None = None,
    start_potential: Any = None,
    dropout_seed: int | None = None,
    dropout_offset: int = 0,
    entry_caps: Any = None,
    workspace_limit: int | None = None,
    deadline: float | None = None,
    progress: Callable[[Progress], Any] | None = None,
    nonfinite: str = "raise",
) -> tuple[Settings, tuple[Any, ...], bool]:
    """The settings and the operands behind query, key and value of a call of `attention`."""
    settings = settings_maker()(
        word_of(method),
        scale,
        is_causal,
        causal_align,
        window_of(window),
        softcap,
        static("temperature", temperature),
        static("alpha", alpha),
        static("cap", cap),
        static("strength", strength),
        static("lower", lower),
        static("upper", upper),
        rows,
        axis,
        cost,
        relative_inside,
        rounds,
        tolerance,
        max_rounds,
        allow_partial,
        prune,
        strict,
        solver,
        backend,
        dropout_p,
    )
    settings = limited(settings, workspace_limit, deadline, progress, nonfinite)
    extra = (
        attn_mask,
        bias,
        relative_bias,
        alibi_slopes,
        sink,
        array_or_none(temperature),
        array_or_none(alpha),
        array_or_none(cap),
        array_or_none(strength),
        array_or_none(lower),
        array_or_none(upper),
        row_mass,
        column_mass,
        key_lengths,
        entry_caps,
        start_potential,
        None if settings.dropout == 0.0 else _seed(dropout_seed, dropout_offset),
    )
    return settings, extra, flag("enable_gqa", enable_gqa)


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
    bias: Any = None,
    alibi_slopes: Any = None,
    window: tuple[int, int] | None = None,
    softcap: float = 0.0,
    sink: Any = None,
    return_aux: Literal[False] | None = None,
    lower: Any = None,
    upper: Any = None,
    causal_align: str = "top_left",
    key_lengths: Any = None,
    relative_bias: Any = None,
    relative_inside: bool = False,
    rows: str = "hard",
    axis: str = "rows",
    cost: bool = False,
    allow_partial: bool = False,
    prune: bool = False,
    strict: bool = False,
    solver: str = "auto",
    backend: str | None = None,
    start_potential: Any = None,
    dropout_seed: int | None = None,
    dropout_offset: int = 0,
    entry_caps: Any = None,
    workspace_limit: int | None = None,
    deadline: float | None = None,
    progress: Callable[[Progress], Any] | None = None,
    nonfinite: str = "raise",
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
    bias: Any = None,
    alibi_slopes: Any = None,
    window: tuple[int, int] | None = None,
    softcap: float = 0.0,
    sink: Any = None,
    return_aux: Request,
    lower: Any = None,
    upper: Any = None,
    causal_align: str = "top_left",
    key_lengths: Any = None,
    relative_bias: Any = None,
    relative_inside: bool = False,
    rows: str = "hard",
    axis: str = "rows",
    cost: bool = False,
    allow_partial: bool = False,
    prune: bool = False,
    strict: bool = False,
    solver: str = "auto",
    backend: str | None = None,
    start_potential: Any = None,
    dropout_seed: int | None = None,
    dropout_offset: int = 0,
    entry_caps: Any = None,
    workspace_limit: int | None = None,
    deadline: float | None = None,
    progress: Callable[[Progress], Any] | None = None,
    nonfinite: str = "raise",
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
    bias: Any = None,
    alibi_slopes: Any = None,
    window: tuple[int, int] | None = None,
    softcap: float = 0.0,
    sink: Any = None,
    return_aux: Any = None,
    lower: Any = None,
    upper: Any = None,
    causal_align: str = "top_left",
    key_lengths: Any = None,
    relative_bias: Any = None,
    relative_inside: bool = False,
    rows: str = "hard",
    axis: str = "rows",
    cost: bool = False,
    allow_partial: bool = False,
    prune: bool = False,
    strict: bool = False,
    solver: str = "auto",
    backend: str | None = None,
    start_potential: Any = None,
    dropout_seed: int | None = None,
    dropout_offset: int = 0,
    entry_caps: Any = None,
    workspace_limit: int | None = None,
    deadline: float | None = None,
    progress: Callable[[Progress], Any] | None = None,
    nonfinite: str = "raise",
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
    bias: Any = None,
    alibi_slopes: Any = None,
    window: tuple[int, int] | None = None,
    softcap: float = 0.0,
    sink: Any = None,
    return_aux: Any = None,
    lower: Any = None,
    upper: Any = None,
    causal_align: str = "top_left",
    key_lengths: Any = None,
    relative_bias: Any = None,
    relative_inside: bool = False,
    rows: str = "hard",
    axis: str = "rows",
    cost: bool = False,
    allow_partial: bool = False,
    prune: bool = False,
    strict: bool = False,
    solver: str = "auto",
    backend: str | None = None,
    start_potential: Any = None,
    dropout_seed: int | None = None,
    dropout_offset: int = 0,
    entry_caps: Any = None,
    workspace_limit: int | None = None,
    deadline: float | None = None,
    progress: Callable[[Progress], Any] | None = None,
    nonfinite: str = "raise",
) -> Any:
    """Attention by any transport method: ``out = P @ value``.

    The first eight arguments are those of ``torch.nn.functional.scaled_dot_product_attention`` and mean the
    same. P minimises ``sum P C + temperature R(P)`` with ``C = -(scale query key^T + biases)`` under the row
    and column rules of `method`; ``docs/users/guide.md`` has the table of methods. Fully masked rows give 0.

    Parameters
    ----------
    query : array, shape (..., heads, queries, width)
        f64, f32, bf16 or f16. NumPy in, NumPy out; torch in, torch out. Any strides: nothing is copied but
        batches of more than one dimension that are broadcast or not contiguous.
    key : array, shape (..., key heads, keys, width)
    value : array, shape (..., key heads, keys, values width)
    attn_mask : array broadcasting to (..., heads, queries, keys), optional
        bool: True takes part (the opposite of ``key_padding_mask``); float: added, and
        ``finfo(dtype).min / 2`` or less (-inf too) forbids. What lies above, as -1e9, is a number: exact
        columns still fill a key that has nothing else, and a warning says so.
    dropout_p : float
        Each weight is dropped with this probability after the solve and the others are scaled up; the
        coupling, statistics and certificates are of the plan before.
    is_causal : bool
        Query i sees keys 0..i; with ``causal_align="bottom_right"`` keys 0..i + keys - queries.
    scale : float, optional
        Multiplies query key^T; default 1 / sqrt(width).
    enable_gqa : bool
        Several query heads share a key head.
    method : str or Regulariser
        ``REGULARISER[/COLUMNS]``: softmax, entmax:A, sparsemax, hard; free, exact, relaxed:R, capped:C,
        bounded:LO,HI, elastic:L,STEPS, prefix, online:C; also ``ceta``, ``assignment`` and options in braces.
        A `Regulariser` is one of your own, on free columns.
    temperature : float or array, shape (heads,)
        Divides the scores.
    rounds, max_rounds : int, optional
        Exactly so many rounds; the limit otherwise (1000).
    tolerance : float, optional
        On the larger of row and column error; default 1e-9 (f64) or 1e-5.
    alpha, cap, strength : float or scalar tensor, optional
        Override the numbers of the method, and get gradients as tensors: order of entmax, cap of capped and
        online columns (units of mass), rho of relaxed ones (units of scores) or lambda of elastic ones.
    lower, upper : float or scalar tensor, optional
        Likewise the bounds of bounded columns, in units of a key's mass: 0 <= lower <= upper, upper > 0.
    row_mass, column_mass : array, shape ([[batch,] heads,] queries) and (..., keys), optional
        Default 1 a query, and their total spread evenly over the usable keys.
    bias : array broadcasting to (..., heads, queries, keys), optional
        Added to the scores.
    alibi_slopes : float or array, shape (heads,), optional
        Subtracts slope * |i - j|.
    window : (int, int), optional
        Keys i - left ... i + right only; -1 is no limit.
    softcap : float
        Scores become softcap * tanh(scores / softcap); 0 is none.
    sink : float or array, shape (heads,), optional
        Logit of one more key without a value; -inf: none.
    return_aux : AuxRequest, bool, name or names of its fields, optional
        Then the result is ``(out, AuxOutput)``. True asks for everything but the coupling.
    causal_align : {"top_left", "bottom_right"}
        Where positions start when there are more keys than queries; windows and alibi follow it.
    key_lengths : int array, shape (batch,), optional
        Keys 0..length-1 take part.
    relative_bias : array, shape ([heads,] queries + keys - 1), optional
        b[i - j + keys - 1], added to the scores, or with `relative_inside` to query key^T.
    rows : str
        ``"hard"``, or ``"relaxed:RHO"`` with relaxed columns.
    axis : {"rows", "columns"}
        ``"columns"`` solves the transposed problem.
    cost : bool
        ``scale * query key^T`` is a cost, to be minimised.
    allow_partial : bool
        Return a plan that did not converge, with a warning.
    prune : bool
        Exact columns on a support without total support: solve on the usable pairs.
    strict : bool
        Rows that are not finite raise instead of being NaN.
    solver : str
        A name of ``otattn.solvers()``.
    backend : str, optional
        A name of ``otattn.backends()``; the first of them by default. ``"plain"`` is double loops in f64,
        slow and independent of the default's kernels: for checks.
    start_potential : array, shape (batch, heads, keys), optional
        Column potential to start from.
    dropout_seed, dropout_offset : int, optional
        Up to 2^64. They and the place of a weight (batch, head, query, key) alone say what is dropped;
        otherwise the seed is drawn from torch's generator, or NumPy's global one.
    entry_caps : number or array broadcasting to (..., heads, queries, keys), optional
        Most that each weight may be, in units of mass, more than 0; inf is none. ``{entry_cap=C}`` behind the
        method is the same cap for all. For softmax, entmax and hard on free columns, softmax and entmax on
        exact, relaxed, capped and bounded ones; caps have no gradient.
    workspace_limit : int, optional
        Bytes that the plan of the call may take; MemoryError names what the smallest one needs.
    deadline : float, optional
        Seconds from the call (and from that of its derivative) on; a solve that takes longer ends.
    progress : function of one `otattn.Progress`, optional
        Called now and then, from any thread, one call at a time. The solve ends when it returns False
        (InterruptedError) or raises, which leaves this call. Not in graphs of torch.compile.
    nonfinite : {"raise", "nan"}
        Where coupled rows meet NaN or infinity: NotFinite, or outputs that are NaN in that head and a
        `NotFiniteWarning`; gradients of tensors are NaN, too, as ``torch.amp.GradScaler`` expects.

    Returns
    -------
    out : array, shape (..., heads, queries, values width)
        Of the query's type; with `return_aux` a pair ``(out, aux)``.

    Raises
    ------
    ValueError, TypeError
        Naming the argument and its shape or type.
    NotConverged, Infeasible, NotFinite
        With a ``certificate`` and one line of ``advice``.
    TimeoutError, InterruptedError, MemoryError
        Past `deadline`, ended by `progress`, beyond `workspace_limit`.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> x = np.arange(12.0).reshape(1, 1, 4, 3) / 12
    >>> otattn.attention(x, x, x, is_causal=True)[0, 0, 0]
    array([0.        , 0.08333333, 0.16666667])
    >>> out, aux = otattn.attention(x, x, x, method="softmax/exact", return_aux=True)
    >>> aux.info.status, bool(abs(aux.receiver - 1).max() < 1e-8)
    ('ok', True)
    """
    if (
        type(method) is type(rows) is type(axis) is type(solver) is str
        and type(temperature) is type(dropout_p) is type(softcap) is float
        and dropout_p == 0.0
        and return_aux is alpha is cap is strength is row_mass is column_mass is None
        and lower is upper is None
        and bias is alibi_slopes is window is sink is key_lengths is relative_bias is start_potential is None
        and entry_caps is workspace_limit is deadline is None
        and progress is None
        and nonfinite == "raise"
        and softcap == 0.0
        and relative_inside is cost is allow_partial is prune is strict is False
        and rows == "hard"
        and axis == "rows"
        and solver == "auto"
        and backend is None
    ):
        # The plain call, whose structs are kept from one to the next.
        words = (
            method,
            is_causal,
            scale,
            enable_gqa,
            temperature,
            rounds,
            tolerance,
            max_rounds,
            causal_align,
        )
        if type(query) is type(key) is type(value) is ndarray and type(attn_mask) in (NoneType, ndarray):
            found = numpy_repeat(words, query, key, value, attn_mask, _prepare_plain)
        elif is_torch(query) and not compiling():
            found = _torch_repeat()(words, query, key, value, attn_mask, _prepare_plain)
        else:
            found = None
        if found is not None:
            return found
    settings, extra, _ = prepare(
        attn_mask,
        dropout_p,
        is_causal,
        scale,
        enable_gqa,
        method,
        temperature,
        rounds,
        tolerance,
        max_rounds,
        alpha,
        cap,
        strength,
        lower,
        upper,
        row_mass,
        column_mass,
        bias,
        alibi_slopes,
        window,
        softcap,
        sink,
        causal_align,
        key_lengths,
        relative_bias,
        relative_inside,
        rows,
        axis,
        cost,
        allow_partial,
        prune,
        strict,
        solver,
        backend,
        start_potential,
        dropout_seed,
        dropout_offset,
        entry_caps,
        workspace_limit,
        deadline,
        progress,
        nonfinite,
    )
    if is_torch(query):
        from ._torch import torch_attention

        return torch_attention(settings, query, key, value, enable_gqa, extra, return_aux)
    return numpy_attention(settings, query, key, value, enable_gqa, extra, return_aux)


def _prepare_plain(words: tuple[Any, ...], mask: Any) -> tuple[Settings, tuple[Any, ...], bool]:
    method, is_causal, scale, enable_gqa, temperature, rounds, tolerance, max_rounds, causal_align = words
    return prepare(
        mask,
        0.0,
        is_causal,
        scale,
        enable_gqa,
        method,
        temperature,
        rounds,
        tolerance,
        max_rounds,
        causal_align=causal_align,
    )


# The names of the arguments of `attention`.
ARGUMENTS = tuple(inspect.signature(attention).parameters)
_OF_ARRAYS = ("query", "key", "value", "return_aux")


def known_arguments(
    what: str, given: Iterable[Any], without: Iterable[str] = _OF_ARRAYS, also: Iterable[str] = ()
) -> None:
    """TypeError for a name that is no argument of `attention`, or one of those `without`.

    `also` are further names that a caller may have meant.
    """
    known_names(what, given, (name for name in ARGUMENTS if name not in without), "otattn.attention", also)


def check_arguments(method: Any, arguments: Mapping[str, Any]) -> None:
    """Raises what a call with these settings would raise, whatever its arrays are."""
    settings, _, _ = prepare(**arguments, method=method)
    check_settings(settings)


@functools.lru_cache(maxsize=1)
def _torch_repeat() -> Any:
    from ._torch_repeat import torch_repeat

    return torch_repeat


def array_or_none(value: Any) -> Any:
    """The value if it has to travel as an array, None if it is absent or a plain number."""
    if value is None or type(value) is float or not hasattr(value, "shape"):
        return None
    return value if is_torch(value) or value.ndim > 0 else None
