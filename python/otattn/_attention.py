"""The public call on query, key and value. NumPy here; torch tensors go to _torch."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, Unpack, overload

from numpy import ndarray

from . import _native
from ._arrays import like, seed_of
from ._aux import ArrayT, AuxOutput, AuxRequest, Request, request_of
from ._call import ATTENTION, COUPLING, answer, call, named_of, names_of, wants_of
from ._kept import NUMPY
from ._keywords import BY_NAME
from ._settings import compiling, count, is_torch, known_names, whole
from ._signature import AttentionOptions, with_signature
from ._spec import Spec, has_functions, settled, sorted_out

# Keyword arguments whose values a call is known by, beside numbers and words.
_native.words_are(Spec, AuxRequest)
# How many calls are known.
_MOST = 512


class Known(NamedTuple):
    """The keywords of a call, understood."""

    spec: Any
    """A Spec; where a compiler looks on, a Record."""
    request: AuxRequest | None
    arrays: tuple[str, ...]
    """Names of the operands among them, in the order in which they were given."""
    seed: tuple[int | None, int] | None
    """Seed and offset of dropout, where there is any."""
    order: tuple[str, ...]
    """Of the arrays of the call, all of them."""
    wants: Any
    """What it wants without and with derivatives; None where a compiler looks on."""
    slots: tuple[int, ...] | None
    """Where `coupling` finds the arrays that it has places for among those given; None: they are others."""


def understood(given: Mapping[str, Any]) -> tuple[Known, dict[str, Any]]:
    """The keywords of a call with known names, and the operands among them."""
    values, arrays, calls = sorted_out(given)
    spec = settled(values)
    request = request_of(calls.get("return_aux"))
    seed = None
    if values["dropout_p"] != 0.0:
        most = (1 << 64) - 1
        seed = (
            count("dropout_seed", calls.get("dropout_seed"), most=most),
            whole("dropout_offset", calls.get("dropout_offset", 0), most=most),
        )
    names = tuple(name for name in given if name in arrays)
    return Known(spec, request, names, seed, (), None, None), arrays


def prepare(**arguments: Any) -> tuple[Any, dict[str, Any], tuple[int | None, int] | None]:
    """The spec of a call of `attention`, its operands behind query, key and value, and dropout's seed."""
    known, arrays = understood(arguments)
    return known.spec, arrays, known.seed


class Front:
    """A public function of keywords: their names, and the calls of it that were understood before."""

    def __init__(
        self, name: str, names: Iterable[str], placed: tuple[str, ...], first: str, order: tuple[str, ...]
    ) -> None:
        """`placed` keywords have places of their own; `first` is the result, of arrays in an `order`."""
        self.name, self.names, self.placed = name, tuple(names), placed
        self.first, self.order = first, order
        self.memo: dict[Any, Known] = {}

    def known(self, graph: bool, options: Mapping[str, Any], *placed: Any) -> tuple[Known, tuple[Any, ...]]:
        """The call with these keywords, and with values for the names `placed`; operands among them.

        `graph`: a compiler looks on, which cannot look into what was understood before.
        """
        found = None if graph else _native.parse(self.memo, self.placed, options, *placed)
        if found is not None and found[0] is not None:
            return found[0], found[1:]
        known_names(self.name, options, self.names, f"otattn.{self.name}")
        known, arrays = understood({**dict(zip(self.placed, placed, strict=True)), **options})
        self.check(options.get("method"))
        known = self.completed(known, graph)
        others = tuple(arrays[name] for name in known.arrays)
        spec = known.spec
        alone = known.seed is not None or spec.deadline is not None or spec.progress is not None
        alone = alone or has_functions(options.get("method"))
        if found is not None and not alone and [*map(id, others)] == [*map(id, found[2:])]:
            if len(self.memo) >= _MOST:
                self.memo.clear()
            self.memo[found[1]] = known
        return known, others

    def completed(self, known: Known, graph: bool) -> Known:
        """With the order of its arrays, and what it wants."""
        slots = None
        order: tuple[str, ...] = (*self.order, *known.arrays)
        if self.first == "coupling" and set(known.arrays).issubset(COUPLING):
            slots = tuple(known.arrays.index(x) if x in known.arrays else -1 for x in COUPLING[2:])
            order = COUPLING
        if known.seed is not None:
            order = (*order, "dropout_seed")
        if graph:
            return known._replace(order=order, slots=slots)
        names, request = names_of(self.first, known.request), known.request
        certify = request is not None and request.certificate and "coupling" not in names
        wants = wants_of(names, order, certify), wants_of((*names, "saved"), order, certify)
        return known._replace(order=order, wants=wants, slots=slots)

    def check(self, method: Any) -> None:
        """Raises for an option of a Spec that this front does not take."""
        if isinstance(method, Spec):
            for name, value in method.items():
                if name not in self.names:
                    raise ValueError(
                        f"the Spec that is the method has {name}={value!r}, which otattn.{self.name} "
                        "does not take"
                    )

    def of_arrays(self, known: Known, arrays: tuple[Any, ...]) -> Any:
        """What a call on NumPy's arrays, and what it can make such, returns."""
        if known.seed is not None:
            arrays = (*arrays, seed_of(known.seed))
        wants = known.wants[0]
        found = answer(wants, known.request, call(NUMPY, known.spec, wants, arrays))
        if type(arrays[0]) is ndarray:
            return found
        return like(arrays[0], found) if known.request is None else (like(arrays[0], found[0]), found[1])

    def of_tensors(self, known: Known, arrays: tuple[Any, ...], graph: bool) -> Any:
        """What a call on torch's tensors returns."""
        solved, by_operator, draw = _torch_ways()
        if known.seed is not None:
            arrays = (*arrays, draw(known.seed))
        if not graph:
            found = solved(known.spec, known.wants, arrays, known.request)
            if found is not NotImplemented:
                return found
        named = named_of(known.order, arrays)
        return by_operator(known.spec, named, self.first, known.request)


@functools.lru_cache(maxsize=1)
def _cached_torch_ways() -> Any:
    from ._torch import by_operator
    from ._torch_call import solved
    from ._torch_fold import seed_of as draw

    return solved, by_operator, draw


def _torch_ways() -> Any:
    # torch.compile looks through caches and warns about each.
    return _cached_torch_ways.__wrapped__() if compiling() else _cached_torch_ways()


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
    return_aux: Literal[False] | None = None,
    **options: Unpack[AttentionOptions],
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
    return_aux: Request,
    **options: Unpack[AttentionOptions],
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
    return_aux: Any = None,
    **options: Unpack[AttentionOptions],
) -> Any: ...
@with_signature(AttentionOptions)
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
    return_aux: Any = None,
    **options: Unpack[AttentionOptions],
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
    method : str, Regulariser or Spec
        ``REGULARISER[/COLUMNS]``: softmax, entmax:A, sparsemax, hard; free, exact, relaxed:R, capped:C,
        bounded:LO,HI, elastic:L,STEPS, prefix, online:C; also ``ceta``, ``assignment`` and options in braces.
        A `Regulariser` is one of your own, on free columns; a `Spec` brings options of the call along.
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
        Subtracts slope * `|i - j|`.
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
        slow and independent of the default's kernels: for checks. ``"torch"`` is torch's own operations
        where the tensors lie, by the best of its engines or the one of ``"torch:NAME"``: all that tensors of
        other devices than CPUs have. Rules that it lacks (docs/users/install.md) go to the CPU and back.
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
    tensors = type(query) is not ndarray and is_torch(query)
    graph = tensors and compiling()
    known, others = _front.known(graph, options, dropout_p, is_causal, scale, enable_gqa, return_aux)
    arrays = (query, key, value, attn_mask, *others)
    if tensors:
        return _front.of_tensors(known, arrays, graph)
    return _front.of_arrays(known, arrays)


# The names of the arguments of `attention`.
ARGUMENTS = ("query", "key", "value", *BY_NAME)
_OF_ARRAYS = ("query", "key", "value", "return_aux")
_PLACED = ("dropout_p", "is_causal", "scale", "enable_gqa", "return_aux")
_front = Front("attention", [x for x in BY_NAME if x != "attn_mask"], _PLACED, "out", ATTENTION)


def known_call(options: Mapping[str, Any], is_causal: bool, scale: float | None, enable_gqa: bool) -> Known:
    """What a call of `attention` with these keywords, no arrays among them, is; nobody compiles."""
    return _front.known(False, options, 0.0, is_causal, scale, enable_gqa, None)[0]


def known_arguments(
    what: str, given: Iterable[Any], without: Iterable[str] = _OF_ARRAYS, also: Iterable[str] = ()
) -> None:
    """TypeError for a name that is no argument of `attention`, or one of those `without`.

    `also` are further names that a caller may have meant.
    """
    known_names(what, given, (name for name in ARGUMENTS if name not in without), "otattn.attention", also)


def check_arguments(method: Any, arguments: Mapping[str, Any]) -> None:
    """Raises what a call with these keywords would raise, whatever its arrays are."""
    known, _ = understood({**arguments, "method": method})
    known.spec.check()
