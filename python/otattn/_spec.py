"""`Spec`: what a call says besides its arrays, checked once; and the keywords of a call, which become one."""

from __future__ import annotations

import collections
import functools
import math
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ._keywords import ARRAY, BY_NAME, DEFAULTS, FIELDS, NAMES, NUMBER, OPTION, OPTIONS
from ._regulariser import Regulariser, is_word, regulariser_named
from ._settings import compiling, is_torch, known_names, shown


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
