"""What a call says besides its arrays: the table of all keywords, and `Spec`, which has them checked once."""

from __future__ import annotations

import ast
import collections
import functools
import inspect
import math
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, TypeVar

from ._progress import Progress, word_of_progress
from ._regulariser import Regulariser, is_word, regulariser_named
from ._settings import count, flag, known_names, number, shown, text

# What the value of a keyword is: an option of a Spec; an option where it is one number, an array of the call
# otherwise; an array; something that one call alone has.
OPTION, NUMBER, ARRAY, CALL = "option", "number", "array", "call"


def compiling() -> bool:
    """Inside of torch.compile or torch.export, which look through what is called here."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.compiler.is_compiling())


def is_torch(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


# ---- checks of single values -----------------------------------------------------------------------


def _method(name: str, value: Any) -> str:
    if isinstance(value, Regulariser):
        return value.word
    if not isinstance(value, str):
        raise TypeError(
            f"{name} is a {type(value).__name__}, wanted a string such as 'softmax/exact', a Regulariser "
            "or a Spec"
        )
    return str(value)


def _number_or_none(name: str, value: Any) -> float | None:
    return None if value is None else number(name, value)


def _more_than_zero(name: str, value: Any) -> float | None:
    found = _number_or_none(name, value)
    if found is not None and not found > 0.0:
        raise ValueError(f"{name} is {found!r}, wanted more than 0")
    return found


def _temperature(name: str, value: Any) -> float:
    found = _more_than_zero(name, value)
    return 1.0 if found is None else found


def _bound(name: str, value: Any) -> float | None:
    found = _number_or_none(name, value)
    if found is not None and not found >= 0.0:
        raise ValueError(f"{name} is {found!r}, wanted 0 or more")
    return found


def _softcap(name: str, value: Any) -> float:
    found = number(name, value)
    if found < 0.0:
        raise ValueError(f"{name} is {found!r}, wanted 0 (none) or more")
    return found


def _probability(name: str, value: Any) -> float:
    found = number(name, value)
    if not 0.0 <= found <= 1.0:
        raise ValueError(f"{name} is {found!r}, wanted 0 to 1")
    return found


def _corner(name: str, value: Any) -> str:
    if not isinstance(value, str) or value not in ("top_left", "bottom_right"):
        raise ValueError(f"{name} is {value!r}, wanted 'top_left' or 'bottom_right'")
    return str(value)


def _nonfinite(name: str, value: Any) -> str:
    if not isinstance(value, str) or value not in ("raise", "nan"):
        raise ValueError(f"{name} is {shown(value)}, wanted 'raise' or 'nan'")
    return str(value)


def _backend(name: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} is a {type(value).__name__}, wanted a string or None")
    return None if value is None else str(value)


def _one_or_more(name: str, value: Any) -> int | None:
    return count(name, value, 1)


def _deadline(name: str, value: Any) -> float | None:
    found = _number_or_none(name, value)
    if found is not None and not found > 0.0:
        raise ValueError(f"{name} is {found!r}, wanted more than 0 seconds from now")
    return found


def _progress(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if compiling():
        raise ValueError(
            f"{name} cannot be called from a compiled graph; leave it out, or call outside of it"
        )
    return word_of_progress(value)


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


def _window(name: str, value: Any) -> tuple[int, int] | None:
    return window_of(value, name)


# ---- the table -------------------------------------------------------------------------------------


class Field(NamedTuple):
    """A keyword of `attention`, its default, and what its plain value is checked by."""

    name: str
    default: Any
    kind: str
    check: Callable[[str, Any], Any] | None = None
    attention_only: bool = False
    """`coupling`, which has no queries, keys and values, does not take it."""


# In the order of the signature; the first five may be given by their places.
FIELDS = (
    Field("attn_mask", None, ARRAY),
    Field("dropout_p", 0.0, OPTION, _probability, True),
    Field("is_causal", False, OPTION, flag),
    Field("scale", None, OPTION, _number_or_none),
    Field("enable_gqa", False, OPTION, flag, True),
    Field("method", "softmax", OPTION, _method),
    Field("temperature", 1.0, NUMBER, _temperature),
    Field("rounds", None, OPTION, count),
    Field("tolerance", None, OPTION, _more_than_zero),
    Field("max_rounds", None, OPTION, _one_or_more),
    Field("alpha", None, NUMBER, _number_or_none),
    Field("cap", None, NUMBER, _number_or_none),
    Field("strength", None, NUMBER, _number_or_none),
    Field("row_mass", None, ARRAY),
    Field("column_mass", None, ARRAY),
    Field("bias", None, ARRAY, None, True),
    Field("alibi_slopes", None, NUMBER, _number_or_none, True),
    Field("window", None, OPTION, _window),
    Field("softcap", 0.0, OPTION, _softcap, True),
    Field("sink", None, NUMBER, _number_or_none),
    Field("return_aux", None, CALL),
    Field("lower", None, NUMBER, _bound),
    Field("upper", None, NUMBER, _bound),
    Field("causal_align", "top_left", OPTION, _corner),
    Field("key_lengths", None, ARRAY, None, True),
    Field("relative_bias", None, ARRAY, None, True),
    Field("relative_inside", False, OPTION, flag, True),
    Field("rows", "hard", OPTION, text),
    Field("axis", "rows", OPTION, text),
    Field("cost", False, OPTION, flag),
    Field("allow_partial", False, OPTION, flag),
    Field("prune", False, OPTION, flag),
    Field("strict", False, OPTION, flag),
    Field("solver", "auto", OPTION, text),
    Field("backend", None, OPTION, _backend),
    Field("start_potential", None, ARRAY),
    Field("dropout_seed", None, CALL, None, True),
    Field("dropout_offset", 0, CALL, None, True),
    Field("entry_caps", None, ARRAY),
    Field("workspace_limit", None, OPTION, _one_or_more),
    Field("deadline", None, CALL, _deadline),
    Field("progress", None, CALL, _progress),
    Field("nonfinite", "raise", OPTION, _nonfinite),
)
BY_NAME = {field.name: field for field in FIELDS}
OPTIONS = tuple(field.name for field in FIELDS if field.kind in (OPTION, NUMBER))
# Of one call, and known to its solve: seconds, and the word of a function that is told of progress; and the
# names of numbers that stand in the operand `numbers`, whose fields have another one of their kind.
_OF_A_CALL = ("deadline", "progress", "moving")
NAMES = (*OPTIONS, *_OF_A_CALL)
DEFAULTS: dict[str, Any] = {
    **{name: BY_NAME[name].default for name in OPTIONS},
    "deadline": None,
    "progress": None,
    "moving": "",
}
# Keywords whose value may be an array.
ARRAYS = tuple(field.name for field in FIELDS if field.kind in (NUMBER, ARRAY))


class CouplingOptions(TypedDict, total=False):
    """The keywords of `coupling`."""

    method: str | Regulariser | Spec
    temperature: Any
    rounds: int | None
    tolerance: float | None
    max_rounds: int | None
    alpha: Any
    cap: Any
    strength: Any
    row_mass: Any
    column_mass: Any
    window: tuple[int, int] | None
    sink: Any
    lower: Any
    upper: Any
    causal_align: str
    rows: str
    axis: str
    cost: bool
    allow_partial: bool
    prune: bool
    strict: bool
    solver: str
    backend: str | None
    start_potential: Any
    entry_caps: Any
    workspace_limit: int | None
    deadline: float | None
    progress: Callable[[Progress], Any] | None
    nonfinite: str


class AttentionOptions(CouplingOptions, total=False):
    """The keywords of `attention`."""

    bias: Any
    alibi_slopes: Any
    softcap: float
    key_lengths: Any
    relative_bias: Any
    relative_inside: bool
    dropout_seed: int | None
    dropout_offset: int


# ---- Spec ------------------------------------------------------------------------------------------


class Spec:
    """Method and options of a call, checked once: `method=` takes it wherever it takes a method.

    Parameters
    ----------
    method : str or Regulariser
        As in `attention`.
    **options
        Keywords of `attention` that are no arrays, with the meaning that they have there: scale, window,
        rounds, ..., and plain numbers for temperature, alpha, cap, strength, lower, upper, sink and
        alibi_slopes. What belongs to one call alone (return_aux, dropout_seed, deadline, progress, ...) is
        refused.

    Raises
    ------
    ValueError, TypeError
        As `attention` of any arrays, naming the option.

    Notes
    -----
    Equal options give the same object, which is hashable, cannot be changed and can be pickled, unless it has
    a Regulariser. An option of a call that differs from its default joins those of its Spec; where the
    Spec has another value for it, the call is refused.

    Examples
    --------
    >>> import otattn
    >>> spec = otattn.Spec("entmax:1.5/capped:2", window=(128, 0))
    >>> spec
    Spec('entmax:1.5/capped:2', window=(128, 0))
    >>> spec.replace(is_causal=True).window, spec == otattn.Spec("entmax:1.5/capped:2", window=[128, 0])
    ((128, 0), True)
    """

    __slots__ = (*NAMES, "__weakref__", "_hash", "_own", "is_plain", "may_be_kept", "token")

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __new__(cls, method: str | Regulariser | Spec = "softmax", /, **options: Any) -> Spec:
        for name in options:
            if name == "method":
                raise TypeError("method is given twice: it is the first argument of a Spec")
            field = BY_NAME.get(name)
            if field is not None and field.kind not in (OPTION, NUMBER):
                what = "an array" if field.kind == ARRAY else "of one call alone"
                raise TypeError(f"{name} is {what}, so it goes to the call and not into a Spec")
        known_names("Spec", options, OPTIONS, "otattn.Spec")
        found = sorted_out({"method": method, **options})
        for name in found.arrays:
            raise TypeError(
                f"{name} is {shown(options[name])}: an array goes to the call, a Spec takes one number"
            )
        made = spec_of(found.values, method if isinstance(method, Regulariser) else None)
        made.check()
        return made

    def check(self) -> None:
        """Raises what any call with these options would raise, whatever its arrays are."""
        from ._arrays import check_spec

        check_spec(self)

    def replace(self, /, **changes: Any) -> Spec:
        """The Spec with other values for some options; `method` among them.

        Examples
        --------
        >>> import otattn
        >>> otattn.Spec("softmax", scale=2.0).replace(scale=None, method="sparsemax")
        Spec('sparsemax')
        """
        method = changes.pop("method", self._own or self.method)
        if isinstance(method, Spec):
            raise TypeError("method is a Spec, wanted a string or a Regulariser")
        kept = {name: x for name, x in self.items() if name != "method" and name not in changes}
        return Spec(method, **{**kept, **changes})

    def items(self) -> Iterator[tuple[str, Any]]:
        """Name and value of the options that are not as they are by default."""
        for name in NAMES:
            value = getattr(self, name)
            if value != DEFAULTS[name]:
                yield name, value

    def _replace(self, **changes: Any) -> Spec:
        """As `replace`, of values that were checked. It keeps no Regulariser alive."""
        return spec_of({**{name: getattr(self, name) for name in NAMES}, **changes})

    def of_plan(self) -> Spec:
        """What a plan depends on."""
        if self.deadline is self.progress is self._own is None:
            return self
        return self._replace(deadline=None, progress=None)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Spec cannot be changed; replace({name}=...) makes another one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Spec cannot be changed; {name} stays")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Spec):
            return NotImplemented
        return self._hash == other._hash and all(getattr(self, x) == getattr(other, x) for x in NAMES)

    def __hash__(self) -> int:
        found: int = self._hash
        return found

    def __repr__(self) -> str:
        method = repr(self.method if self._own is None else self._own)
        words = (f"{name}={_written(x)}" for name, x in self.items() if name != "method")
        return f"Spec({', '.join((method, *words))})"

    def __copy__(self) -> Spec:
        return self

    def __deepcopy__(self, memo: Any) -> Spec:
        return self

    def __reduce__(self) -> Any:
        if regulariser_named(self.method) is not None:
            raise TypeError(f"{self!r} has functions of this process, so it cannot be pickled")
        return _restored, (tuple(self.items()),)


def _written(value: Any) -> str:
    """What Python reads back."""
    return f"float('{value}')" if isinstance(value, float) and math.isinf(value) else repr(value)


def _restored(items: tuple[tuple[str, Any], ...]) -> Spec:
    return spec_of({**DEFAULTS, **dict(items)})


# The same object for the same values as long as there is one.
_made: weakref.WeakValueDictionary[tuple[Any, ...], Spec] = weakref.WeakValueDictionary()


def spec_of(values: Mapping[str, Any], own: Regulariser | None = None) -> Spec:
    """The Spec of checked values by name. `own` is the Regulariser that it keeps."""
    key = tuple(values[name] for name in NAMES)
    # What one call alone has is not kept, since it holds the function that is told of progress.
    of_all = own is values["progress"] is values["deadline"] is None
    found = _made.get(key) if of_all else None
    if found is None:
        found = object.__new__(Spec)
        put = functools.partial(object.__setattr__, found)
        for name, value in zip(NAMES, key, strict=True):
            put(name, value)
        put("_hash", hash(key))
        put("_own", own)
        # Known by its identity, which takes no time to compare.
        put("token", object())
        # Whether a plan may outlive its call, and whether the call tells it nothing more.
        may_be_kept = values["progress"] is None and not is_word(values["method"])
        put("may_be_kept", may_be_kept and not values["moving"])
        put("is_plain", may_be_kept and values["deadline"] is None and not values["moving"])
        if of_all:
            _made[key] = found
    return found


# What a compiler sees in the place of a Spec: the values alone, some of which may be its symbols.
Record: Any = collections.namedtuple("Record", list(NAMES))  # type: ignore[misc]


# ---- from the keywords of a call -------------------------------------------------------------------


class Sorted(NamedTuple):
    """The keywords of a call by what becomes of them."""

    values: dict[str, Any]
    """Of a Spec, all of them, checked."""
    arrays: dict[str, Any]
    calls: dict[str, Any]


def is_array(name: str, value: Any) -> bool:
    """Whether the value of a keyword of the kind NUMBER has to travel as an array."""
    if value is None or type(value) is float or type(value) is int:
        return False
    if not hasattr(value, "shape"):
        if not isinstance(value, (list, tuple)):
            return False
        if name in ("sink", "alibi_slopes"):
            return True
        raise TypeError(f"{name} is a {type(value).__name__}, wanted a number or an array of them")
    return is_torch(value) or value.ndim > 0


def sorted_out(arguments: Mapping[str, Any]) -> Sorted:
    """The known keywords of a call, checked as far as they are no arrays. `method` may be a Spec."""
    method = arguments.get("method", "softmax")
    given = isinstance(method, Spec)
    base = {name: getattr(method, name) for name in NAMES} if given else DEFAULTS
    values, arrays, calls = dict(base), {}, {}
    for field in FIELDS:
        name = field.name
        if name not in arguments or (given and name == "method"):
            continue
        value = arguments[name]
        if field.kind == ARRAY or (field.kind == NUMBER and is_array(name, value)):
            if value is not None:
                arrays[name] = value
            if given and field.kind == NUMBER and base[name] != field.default:
                raise _given_twice(name, base[name], value)
            continue
        if field.check is None:
            calls[name] = value
            continue
        value = field.check(name, value)
        if given and base[name] != field.default:
            if value not in (field.default, base[name]):
                raise _given_twice(name, base[name], value)
            continue
        values[name] = value
    if values["nonfinite"] == "nan" and values["strict"]:
        raise ValueError("nonfinite is 'nan', but strict raises; leave one of them out")
    return Sorted(values, arrays, calls)


def _given_twice(name: str, own: Any, value: Any) -> ValueError:
    return ValueError(
        f"{name} is {shown(value)}, but the Spec that is the method has {name}={own!r}; leave one of them out"
    )


def settled(values: dict[str, Any]) -> Any:
    """What stands for the values: a Spec, and for a compiler a Record."""
    return Record(**values) if compiling() else spec_of(values)


def has_functions(method: Any) -> bool:
    """Whether what `method=` is calls back functions of the caller's."""
    return isinstance(method, Regulariser) or (isinstance(method, Spec) and method._own is not None)


def spec_for(method: Any) -> Spec:
    """The Spec of what `method=` may be."""
    return method if isinstance(method, Spec) else spec_of(sorted_out({"method": method}).values)


# ---- one line of text ------------------------------------------------------------------------------

# What no repr has in it.
_BETWEEN = "\x1f"


def text_of(spec: Any) -> str:
    """One line that `spec_of_text` reads back: name=value for what is not the default."""
    parts = []
    for name in NAMES:
        value = getattr(spec, name)
        if value != DEFAULTS[name]:
            parts.append(f"{name}={value!r}")
    return _BETWEEN.join(parts)


def _value(text: str) -> Any:
    if text[0] in "'\"(":
        return ast.literal_eval(text)
    if text in ("True", "False"):
        return text == "True"
    try:
        return int(text)
    except ValueError:
        return float(text)


@functools.lru_cache(maxsize=512)
def spec_of_text(text: str) -> Spec:
    """The Spec that `text_of` wrote down, whose values are as they were."""
    parts = (part.split("=", 1) for part in text.split(_BETWEEN) if part)
    return spec_of({**DEFAULTS, **{name: _value(value) for name, value in parts}})


def apart(spec: Any, is_moving: Callable[[Any], bool]) -> tuple[Any, list[Any]]:
    """The spec without the numbers that move from call to call of a graph, and these numbers."""
    names, numbers = [], []
    still: dict[str, Any] = {}
    for name in NAMES:
        value = getattr(spec, name)
        if isinstance(value, tuple):
            sides = list(value)
            for k, side in enumerate(sides):
                if is_moving(side):
                    names.append(f"{name}.{k}")
                    numbers.append(side)
                    sides[k] = 1
            still[name] = tuple(sides)
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and is_moving(value):
            names.append(name)
            numbers.append(value)
            still[name] = 1.0 if isinstance(value, float) else 1
    return (spec._replace(**still, moving=",".join(names)) if names else spec), numbers


def with_numbers(spec: Spec, numbers: Sequence[float]) -> Spec:
    """The spec with what `moving` names in its place, which nobody has looked at before."""
    found: dict[str, Any] = {}
    for place, x in zip(spec.moving.split(","), numbers, strict=True):
        name, _, side = place.partition(".")
        value = found.get(name, getattr(spec, name))
        if side:
            sides = list(value)
            sides[int(side)] = int(x)
            found[name] = tuple(sides)
            continue
        if name in ("temperature", "tolerance") and not x > 0.0:
            raise ValueError(f"{name} is {x!r}, wanted more than 0")
        found[name] = int(x) if isinstance(value, int) else x
    return spec._replace(moving="", **found)


# ---- signatures ------------------------------------------------------------------------------------


_Call = TypeVar("_Call", bound=Callable[..., Any])


def with_signature(options: Any, without: tuple[str, ...] = (), **defaults: Any) -> Callable[[_Call], _Call]:
    """A decorator: the signature of a function that takes ``**options``, which `options` types.

    It does not take those `without`, and has other `defaults` than the table.
    """
    kinds = options.__annotations__

    def keyword(name: str) -> inspect.Parameter:
        kind = getattr(kinds[name], "__forward_arg__", kinds[name])
        default = defaults.get(name, BY_NAME[name].default)
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)

    def show(function: _Call) -> _Call:
        own = dict(inspect.signature(function).parameters)
        del own["options"]
        first = [own.pop(p.name) for p in [*own.values()] if p.kind is p.POSITIONAL_OR_KEYWORD]
        taken = {p.name for p in first}.union(without)
        rest = [
            own.pop(name) if name in own else keyword(name)
            for name in BY_NAME
            if name not in taken and (name in kinds or name in own)
        ]
        called: Any = function
        called.__signature__ = inspect.Signature([*first, *own.values(), *rest], return_annotation="Any")
        return function

    return show
