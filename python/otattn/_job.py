"""From a spec and views of memory to filled structs: the one place that fills the library's problem.

A view is what the struct ota_array holds: (address, type, four sizes, four strides in elements). Operands
and outputs come as views, numbers as floats, so that NumPy arrays and torch tensors meet here only.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from . import _structs as c
from ._leaks import watch
from ._progress import Watch, watch_named
from ._regulariser import Failure, Regulariser, regulariser_named
from ._settings import DERIVATIVE_FIELDS, is_of_torch
from ._spec import Spec
from ._spec_text import with_numbers
from ._template import allowed, set_bound, set_strength, template
from ._threads import thread_limit

View = tuple[int, ...]
Operand = View | float | None

_WORD = (1 << 64) - 1
_ARRAY = struct.Struct("@Pi4x8q")
ARRAY_BYTES = ctypes.sizeof(c.Array)
pack = _ARRAY.pack_into


def _offsets(kind: type[ctypes.Structure]) -> dict[str, int]:
    return {field[0]: getattr(kind, field[0]).offset for field in kind._fields_}


_PROBLEM = _offsets(c.Problem)
ARRAYS = _offsets(c.Arrays)
GRADIENTS = _offsets(c.Gradients)
_TERM_ARRAY = c.Term.array.offset
_SUPPORT_ARRAY = c.Support.array.offset


def view_like(shape: Sequence[int], kind: int) -> View:
    """The view of a dense array of four dimensions that has no address yet."""
    strides = [1, 1, 1, 1]
    for k in (2, 1, 0):
        strides[k] = strides[k + 1] * max(1, shape[k + 1])
    # Not 0, which is no array.
    return (1, kind, *shape, *strides)


# What is put in the place of an operand: the address of an array, or the number it holds, more than 0, 0 or
# more, or any; or two whole ones.
ADDRESS, POSITIVE, NONNEGATIVE, NUMBER, PAIR = range(5)


class Place(NamedTuple):
    """Where an operand stands."""

    part: str
    """ "problem", its "terms" or "supports", or the "arrays" of a solve."""
    offset: int
    kind: int


class Job:
    """One call, ready for a plan: structs, what they point to, and the key of plans that fit it."""

    __slots__ = (
        "failure",
        "keep",
        "key",
        "operands",
        "options",
        "places",
        "problem",
        "progress",
        "regulariser",
        "sizes",
        "spec",
        "start",
        "supports",
        "term_names",
        "terms",
        "values",
    )

    def __init__(self, spec: Spec, operands: Sequence[Operand], gradients: bool = False) -> None:
        if is_of_torch(spec.backend):
            raise ValueError(
                f"backend is {spec.backend!r}, torch's operations on torch tensors, and this call has none: "
                "leave it out"
            )
        numbers = operands[-1]
        if isinstance(numbers, tuple):
            spec = with_numbers(spec, numbers)
        problem_template, options_template = template(spec)
        problem = c.Problem.from_buffer_copy(problem_template)
        options = c.Options.from_buffer_copy(options_template)
        options.gradients, options.threads = int(gradients), thread_limit()
        (query, key, value, mask, bias, relative, alibi, sink, temperature) = operands[:9]
        (alpha, cap, strength, lower, upper, row_mass, column_mass, lengths, caps, start, seed) = operands[
            9:20
        ]
        # Plain numbers are options, arrays of them operands.
        alibi = spec.alibi_slopes if alibi is None else alibi
        sink = spec.sink if sink is None else sink
        assert isinstance(query, tuple)
        self.spec, self.start, self.operands = spec, start, operands
        # Kept, since the struct only points at its functions.
        self.regulariser: Regulariser | None = regulariser_named(spec.method)
        self.failure = None if self.regulariser is None else Failure(problem)
        self.values = value
        # Where the operands stand: part of the call, offset in it, and what is put there.
        self.places: dict[str, Place] = {}
        width = value[5] if isinstance(value, tuple) else 0
        if isinstance(key, tuple):
            self._put(problem, "query", "queries", query)
            self._put(problem, "key", "keys", key)
            keys, key_heads = key[4], key[3]
        else:
            self._put(problem, "query", "scores", query)
            keys = query[5]
            key_heads = value[3] if isinstance(value, tuple) else query[3]
        # batch, heads, queries, keys, key heads, width of values
        self.sizes = (query[2], query[3], query[4], keys, key_heads, width)
        terms: list[tuple[str, int, Operand]] = []
        if spec.softcap:
            terms.append(("softcap", c.TERM_SOFTCAP, spec.softcap))
        if alibi is not None:
            terms.append(("alibi_slopes", c.TERM_ALIBI, alibi))
        if relative is not None:
            kind = c.TERM_RELATIVE_INSIDE if spec.relative_inside else c.TERM_RELATIVE
            terms.append(("relative_bias", kind, relative))
        if bias is not None:
            terms.append(("bias", c.TERM_DENSE, bias))
        if sink is not None:
            terms.append(("sink", c.TERM_SINK, sink))
        supports: list[tuple[int, View | None, int, int]] = []
        if spec.is_causal:
            supports.append((c.SUPPORT_CAUSAL, None, 0, 0))
        if spec.window is not None:
            supports.append((c.SUPPORT_WINDOW, None, *spec.window))
        if isinstance(lengths, tuple):
            supports.append((c.SUPPORT_LENGTHS, lengths, 0, 0))
        if isinstance(mask, tuple):
            boolean = mask[1] == c.BOOL
            supports.append((c.SUPPORT_BOOLEAN if boolean else c.SUPPORT_ADDITIVE, mask, 0, 0))
        self.keep: list[Any] = [options_template]
        self.term_names = [name for name, _, _ in terms]
        self.terms: Any = None
        if terms:
            self._put_terms(problem, terms)
        self.supports = self._put_supports(problem, supports) if supports else None
        if isinstance(temperature, tuple):
            self._put(problem, "temperature", "temperatures", temperature)
        elif temperature is not None:
            problem.temperature = _positive("temperature", temperature)
            self._put_number("temperature", "temperature", POSITIVE)
        if isinstance(alpha, float):
            problem.order = allowed("alpha", alpha, problem.regulariser == c.ENTMAX, spec)
            self._put_number("alpha", "order", POSITIVE)
        if isinstance(cap, float):
            capped = problem.columns in (c.COLUMNS_CAPPED, c.COLUMNS_ONLINE)
            problem.cap = allowed("cap", cap, capped, spec)
            self._put_number("cap", "cap", POSITIVE)
        if isinstance(strength, tuple):
            if problem.columns != c.COLUMNS_ELASTIC:
                raise ValueError(
                    f"strength is an array, but the method {spec.method!r} has no strength per key"
                )
            self._put(problem, "strength", "lambdas", strength)
        elif strength is not None:
            set_strength(problem, strength, spec)
            elastic = problem.columns == c.COLUMNS_ELASTIC
            self._put_number("strength", "lambda" if elastic else "strength", NUMBER if elastic else POSITIVE)
        for name, bound in (("lower", lower), ("upper", upper)):
            if isinstance(bound, float):
                set_bound(problem, name, bound, spec)
                self._put_number(name, name, NONNEGATIVE)
        if isinstance(row_mass, tuple):
            self._put(problem, "row_mass", "row_mass", row_mass)
        if isinstance(column_mass, tuple):
            self._put(problem, "column_mass", "column_mass", column_mass)
        if isinstance(caps, tuple):
            if problem.entry_cap:
                raise ValueError(f"entry_caps is given, but the method {spec.method!r} has an entry_cap")
            self._put(problem, "entry_caps", "entry_caps", caps)
        if spec.dropout_p > 0.0:
            assert isinstance(seed, tuple)
            problem.dropout = spec.dropout_p
            problem.dropout_seed, problem.dropout_offset = (x & _WORD for x in seed)
            self._put_number("dropout_seed", "dropout_seed", PAIR)
        if isinstance(value, tuple):
            self.places["value"] = Place("arrays", ARRAYS["values"], ADDRESS)
        if isinstance(start, tuple):
            self.places["start_potential"] = Place("arrays", ARRAYS["start_potential"], ADDRESS)
        self.problem, self.options = problem, options
        shapes = tuple(x[1:6] if isinstance(x, tuple) else x for x in operands[:-3])
        self.progress: Watch | None = watch_named(spec.progress)
        if self.progress is not None:
            self.progress.put(options)
        # Threads decide no number, so that a plan goes on with its own.
        self.key = (spec.of_plan(), gradients, shapes)

    def watch(self, mask: Operand) -> None:
        """Warns where the caller may take the rows for causal, and they are not; reads the mask."""
        spec = self.spec
        causal = spec.is_causal or (spec.window is not None and spec.window[1] == 0)
        watch(spec.method, self.problem.columns, causal, self.sizes[2], mask)

    def begin(self, until: int) -> None:
        """Before a call that ends at this moment (0: never)."""
        if self.failure is not None:
            self.failure.until = until
        if self.progress is not None:
            self.progress.begin()

    def reraise(self) -> None:
        """Raises what a function of the caller's raised inside of the library."""
        if self.failure is not None:
            self.failure.reraise()
        if self.progress is not None:
            self.progress.reraise()

    def _put(self, problem: c.Problem, name: str, field: str, view: View) -> None:
        pack(problem, _PROBLEM[field], *view)
        self.places[name] = Place("problem", _PROBLEM[field], ADDRESS)

    def _put_number(self, name: str, field: str, kind: int) -> None:
        self.places[name] = Place("problem", _PROBLEM[field], kind)

    def _put_terms(self, problem: c.Problem, terms: list[tuple[str, int, Operand]]) -> None:
        array = (c.Term * len(terms))()
        for k, (name, kind, operand) in enumerate(terms):
            array[k].kind = kind
            begin = k * ctypes.sizeof(c.Term)
            if isinstance(operand, tuple):
                pack(array, begin + _TERM_ARRAY, *operand)
                self.places[name] = Place("terms", begin + _TERM_ARRAY, ADDRESS)
            elif operand is not None and name != "softcap":
                self.places[name] = Place("terms", begin + c.Term.value.offset, NUMBER)
            if isinstance(operand, tuple):
                continue
            if operand is not None:
                array[k].value = operand
        problem.terms, problem.term_count = ctypes.addressof(array), len(terms)
        self.keep.append(array)
        self.terms = array

    def _put_supports(self, problem: c.Problem, supports: list[tuple[int, View | None, int, int]]) -> Any:
        array = (c.Support * len(supports))()
        for k, (kind, view, left, right) in enumerate(supports):
            array[k].kind, array[k].left, array[k].right = kind, left, right
            if view is not None:
                at = k * ctypes.sizeof(c.Support) + _SUPPORT_ARRAY
                pack(array, at, *view)
                name = "key_lengths" if kind == c.SUPPORT_LENGTHS else "attn_mask"
                self.places[name] = Place("supports", at, ADDRESS)
        problem.supports, problem.support_count = ctypes.addressof(array), len(supports)
        self.keep.append(array)
        return array


def derivative_field(job: Job, name: str) -> int | str:
    """Where the gradient or tangent of an operand stands: a place among the terms, or a field."""
    if name in job.term_names:
        return job.term_names.index(name)
    field = DERIVATIVE_FIELDS.get(name)
    if field is None:
        raise ValueError(f"{name} has no part in this problem, so there is no derivative for it")
    return "matrix" if name == "query" and not job.problem.keys.type else field


def _positive(name: str, value: float) -> float:
    if not value > 0.0:
        raise ValueError(f"{name} is {value!r}, wanted more than 0")
    return value


def arrays_of(job: Job, outputs: Mapping[str, View]) -> c.Arrays:
    """The struct of a forward. `outputs` maps names of ota_arrays to views."""
    arrays = c.Arrays()
    arrays.size = ctypes.sizeof(c.Arrays)
    if isinstance(job.values, tuple):
        pack(arrays, ARRAYS["values"], *job.values)
    if isinstance(job.start, tuple):
        pack(arrays, ARRAYS["start_potential"], *job.start)
    for name, view in outputs.items():
        pack(arrays, ARRAYS[name], *view)
    return arrays


class Moved:
    """A struct ota_gradients or ota_tangents, with the arrays of its terms, which it only points to."""

    __slots__ = ("job", "struct", "terms")

    def __init__(self, kind: type[ctypes.Structure], job: Job) -> None:
        self.job, self.struct = job, kind()
        self.struct.size = ctypes.sizeof(kind)
        self.terms = (c.Array * max(1, len(job.term_names)))()
        self.struct.terms = ctypes.addressof(self.terms)

    def put(self, field: str, view: View) -> int:
        """Describes an array in a field; the address of the field."""
        return self._put(self.struct, getattr(type(self.struct), field).offset, view)

    def put_operand(self, name: str, view: View) -> int:
        """The same of what belongs to an operand (or `scores`)."""
        field = derivative_field(self.job, name)
        if isinstance(field, int):
            return self._put(self.terms, field * ARRAY_BYTES, view)
        return self.put(field, view)

    def _put(self, record: Any, offset: int, view: View) -> int:
        pack(record, offset, *view)
        return ctypes.addressof(record) + offset
