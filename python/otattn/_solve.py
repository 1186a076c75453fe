"""From a spec and views of memory to a solved plan: the one place that fills the library's structs.

A view is what the struct ota_array holds: (address, type, four sizes, four strides in elements). Operands
and outputs come as views, numbers as floats, so that NumPy arrays and torch tensors meet here only.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from . import _structs as c
from ._certificate import Certificate, judge
from ._errors import (
    NotFiniteWarning,
    PartialWarning,
    check,
    new_error,
    raise_status,
    status_word,
)
from ._leaks import warn, watch
from ._library import CANCEL, library
from ._progress import Watch, watch_named
from ._regulariser import Failure, Regulariser, regulariser_named
from ._spec import Spec, with_numbers
from ._threads import thread_limit

View = tuple[int, ...]
Operand = View | float | None

# Plans kept for the next call of the same shapes: at most so many, and so many bytes in all.
IDLE_PLANS = 32
IDLE_BYTES = 256 << 20

_WORD = (1 << 64) - 1
# More seconds from now than a deadline holds.
_FAR = 9e8
_ARRAY = struct.Struct("@Pi4x8q")
_pack = _ARRAY.pack_into
_DOUBLE = struct.Struct("@d")


def _offsets(kind: type[ctypes.Structure]) -> dict[str, int]:
    return {field[0]: getattr(kind, field[0]).offset for field in kind._fields_}


_PROBLEM = _offsets(c.Problem)
_ARRAYS = _offsets(c.Arrays)
_GRADIENTS = _offsets(c.Gradients)
_TANGENTS = _offsets(c.Tangents)
_TERM_ARRAY = c.Term.array.offset
_SUPPORT_ARRAY = c.Support.array.offset
_COUPLED = (c.COLUMNS_EXACT, c.COLUMNS_RELAXED, c.COLUMNS_CAPPED, c.COLUMNS_BOUNDED)
_CORNERS = {"top_left": c.TOP_LEFT, "bottom_right": c.BOTTOM_RIGHT}
# Gradients by operand, where the names differ or the operand is no term.
_GRADIENT_FIELDS = {
    "query": "queries",
    "key": "keys",
    "value": "values",
    "temperature": "temperature",
    "alpha": "order",
    "cap": "cap",
    "strength": "strength",
    "lower": "lower",
    "upper": "upper",
    "row_mass": "row_mass",
    "column_mass": "column_mass",
    # Of tangents only.
    "scores": "scores",
}


def view_like(shape: Sequence[int], kind: int) -> View:
    """The view of a dense array of four dimensions that has no address yet."""
    strides = [1, 1, 1, 1]
    for k in (2, 1, 0):
        strides[k] = strides[k + 1] * max(1, shape[k + 1])
    # Not 0, which is no array.
    return (1, kind, *shape, *strides)


def _template(spec: Spec) -> tuple[c.Problem, c.Options]:
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
        problem.order = _allowed("alpha", spec.alpha, problem.regulariser == c.ENTMAX, spec)
    if spec.cap is not None:
        capped = problem.columns in (c.COLUMNS_CAPPED, c.COLUMNS_ONLINE)
        problem.cap = _allowed("cap", spec.cap, capped, spec)
    if spec.strength is not None:
        _set_strength(problem, spec.strength, spec)
    for name in ("lower", "upper"):
        bound = getattr(spec, name)
        if bound is not None:
            _set_bound(problem, name, bound, spec)
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
    options.allow_partial = int(spec.allow_partial or problem.columns in _COUPLED)
    if spec.solver != "auto":
        options.solver = spec.solver.encode()
    if spec.backend is not None:
        options.backend = spec.backend.encode()
    options.cancel = CANCEL
    return problem, options


def _allowed(name: str, value: float, fits: bool, spec: Spec) -> float:
    if not fits:
        raise ValueError(f"{name} is given, but the method {spec.method!r} has none")
    if value <= 0.0:
        # 0 means the default in the struct.
        raise ValueError(f"{name} is {value!r}, wanted more than 0")
    return value


def _set_strength(problem: c.Problem, value: float, spec: Spec) -> None:
    if problem.columns == c.COLUMNS_ELASTIC:
        setattr(problem, "lambda", value)
        return
    problem.strength = _allowed("strength", value, problem.columns == c.COLUMNS_RELAXED, spec)


def _set_bound(problem: c.Problem, name: str, value: float, spec: Spec) -> None:
    if problem.columns != c.COLUMNS_BOUNDED:
        raise ValueError(f"{name} is given, but the method {spec.method!r} has none")
    setattr(problem, name, value)


def columns_of(spec: Spec) -> int:
    """The column rule (a constant of the header) of a method."""
    return int(_template(spec)[0].columns)


def regulariser_of(spec: Spec) -> int:
    """The regulariser (a constant of the header) of a method."""
    return int(_template(spec)[0].regulariser)


def is_implicit(spec: Spec) -> bool:
    """Whether backward starts from potentials that solve the problem."""
    problem, options = _template(spec)
    coupled = problem.columns in _COUPLED and options.rounds == 0
    # Columns that are solved alone are rows that are, transposed, whose potentials are the columns'.
    turned = problem.columns == c.COLUMNS_FREE and problem.axis == c.AXIS_COLUMNS
    return bool((coupled or turned) and problem.regulariser != c.HARD)


def is_closed_form(spec: Spec) -> bool:
    """Whether a row's plan is what its log-sum-exp says: softmax on free columns."""
    problem, _ = _template(spec)
    free = problem.columns == c.COLUMNS_FREE and problem.axis == c.AXIS_ROWS
    softmax = problem.regulariser == c.SOFTMAX and problem.entry_cap == 0.0
    return bool(free and softmax and problem.rows == c.ROWS_HARD)


def needs_no_forward(spec: Spec) -> bool:
    """Whether backward can do with what an earlier forward wrote."""
    problem, _ = _template(spec)
    return bool(problem.axis == c.AXIS_ROWS and not spec.prune and not spec.allow_partial)


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
        numbers = operands[-1]
        if isinstance(numbers, tuple):
            spec = with_numbers(spec, numbers)
        problem_template, options_template = _template(spec)
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
            problem.order = _allowed("alpha", alpha, problem.regulariser == c.ENTMAX, spec)
            self._put_number("alpha", "order", POSITIVE)
        if isinstance(cap, float):
            capped = problem.columns in (c.COLUMNS_CAPPED, c.COLUMNS_ONLINE)
            problem.cap = _allowed("cap", cap, capped, spec)
            self._put_number("cap", "cap", POSITIVE)
        if isinstance(strength, tuple):
            if problem.columns != c.COLUMNS_ELASTIC:
                raise ValueError(
                    f"strength is an array, but the method {spec.method!r} has no strength per key"
                )
            self._put(problem, "strength", "lambdas", strength)
        elif strength is not None:
            _set_strength(problem, strength, spec)
            elastic = problem.columns == c.COLUMNS_ELASTIC
            self._put_number("strength", "lambda" if elastic else "strength", NUMBER if elastic else POSITIVE)
        for name, bound in (("lower", lower), ("upper", upper)):
            if isinstance(bound, float):
                _set_bound(problem, name, bound, spec)
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
            self.places["value"] = Place("arrays", _ARRAYS["values"], ADDRESS)
        if isinstance(start, tuple):
            self.places["start_potential"] = Place("arrays", _ARRAYS["start_potential"], ADDRESS)
        self.problem, self.options = problem, options
        shapes = tuple(x[1:6] if isinstance(x, tuple) else x for x in operands[:-3])
        self.progress: Watch | None = watch_named(spec.progress)
        if self.progress is not None:
            self.progress.put(options)
        self.key = (spec.of_plan(), gradients, options.threads, shapes)

    def watch(self, mask: Operand) -> None:
        """Warns where the caller may take the rows for causal, and they are not; reads the mask."""
        spec = self.spec
        causal = spec.is_causal or (spec.window is not None and spec.window[1] == 0)
        watch(spec.method, self.problem.columns, causal, self.sizes[2], mask)

    def reraise(self) -> None:
        """Raises what a function of the caller's raised inside of the library."""
        if self.failure is not None:
            self.failure.reraise()
        if self.progress is not None:
            self.progress.reraise()

    def _put(self, problem: c.Problem, name: str, field: str, view: View) -> None:
        _pack(problem, _PROBLEM[field], *view)
        self.places[name] = Place("problem", _PROBLEM[field], ADDRESS)

    def _put_number(self, name: str, field: str, kind: int) -> None:
        self.places[name] = Place("problem", _PROBLEM[field], kind)

    def _put_terms(self, problem: c.Problem, terms: list[tuple[str, int, Operand]]) -> None:
        array = (c.Term * len(terms))()
        for k, (name, kind, operand) in enumerate(terms):
            array[k].kind = kind
            begin = k * ctypes.sizeof(c.Term)
            if isinstance(operand, tuple):
                _pack(array, begin + _TERM_ARRAY, *operand)
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
                _pack(array, at, *view)
                name = "key_lengths" if kind == c.SUPPORT_LENGTHS else "attn_mask"
                self.places[name] = Place("supports", at, ADDRESS)
        problem.supports, problem.support_count = ctypes.addressof(array), len(supports)
        self.keep.append(array)
        return array


def gradient_field(job: Job, name: str) -> int | str:
    """Where the gradient or tangent of an operand stands: a place among the terms, or a field."""
    if name in job.term_names:
        return job.term_names.index(name)
    field = _GRADIENT_FIELDS.get(name)
    if field is None:
        raise ValueError(f"{name} has no part in this problem, so there is no derivative for it")
    return "matrix" if name == "query" and not job.problem.keys.type else field


def _positive(name: str, value: float) -> float:
    if not value > 0.0:
        raise ValueError(f"{name} is {value!r}, wanted more than 0")
    return value


class Handle:
    """One ota_plan and the structs of its calls. Not for two threads at once."""

    __slots__ = ("arrays", "bytes", "error", "key", "pointer", "reference", "result", "terms", "timed")

    def __init__(self, job: Job) -> None:
        job.watch(job.operands[3])
        self.error, self.reference = new_error()
        pointer = ctypes.c_void_p()
        status = library.ota_plan_create(
            ctypes.byref(pointer),
            ctypes.byref(job.problem),
            job.sizes[5],
            ctypes.byref(job.options),
            self.reference,
        )
        job.reraise()
        check(status, self.error)
        self.pointer: int | None = pointer.value
        self.key = job.key
        self.bytes: int = library.ota_plan_bytes(pointer)
        self.result = c.Result()
        self.result.size = ctypes.sizeof(c.Result)
        self.arrays = c.Arrays()
        self.timed = False

    def begin(self, seconds: float | None, progress: Watch | None) -> None:
        """Before a call of the library that may take long: its deadline, and what it is watched by."""
        if seconds is not None:
            end = time.monotonic_ns() + int(min(seconds, _FAR) * 1e9)
            library.ota_plan_set_deadline(self.pointer, end)
            self.timed = True
        if progress is not None:
            progress.begin()

    def end(self) -> None:
        """Behind such a call, which may have had a deadline."""
        if self.timed:
            library.ota_plan_set_deadline(self.pointer, 0)
            self.timed = False

    def ask(self, gradients: c.Gradients | None) -> int:
        """The status of a solve, or of a backward, by structs that are filled."""
        arrays, result = ctypes.byref(self.arrays), ctypes.byref(self.result)
        if gradients is None:
            return library.ota_forward(self.pointer, arrays, result, self.reference)  # type: ignore[no-any-return]
        record = ctypes.byref(gradients)
        return library.ota_backward(self.pointer, arrays, record, result, self.reference)  # type: ignore[no-any-return]

    def rebind(self, job: Job) -> None:
        job.watch(job.operands[3])
        status = library.ota_plan_rebind(self.pointer, ctypes.byref(job.problem), self.reference)
        job.reraise()
        check(status, self.error)

    def bind_arrays(self, job: Job, outputs: Mapping[str, View]) -> None:
        """Fills the struct of the next forward. `outputs` maps names of ota_arrays to views."""
        self.arrays = _arrays_of(job, outputs)

    def forward(self, job: Job, outputs: Mapping[str, View]) -> int:
        """Solves; the library's status."""
        self.bind_arrays(job, outputs)
        self.begin(job.spec.deadline, job.progress)
        status: int = library.ota_forward(
            self.pointer, ctypes.byref(self.arrays), ctypes.byref(self.result), self.reference
        )
        job.reraise()
        return status

    def backward(
        self, job: Job, given: Mapping[str, View], wanted: Mapping[str, View], solved: bool = False
    ) -> None:
        """Gradients of the last forward. `given`: out_grad, coupling_grad; `wanted`: by operand."""
        gradients = self.gradients_of(job, given, wanted, solved)
        self.begin(job.spec.deadline, job.progress)
        status = library.ota_backward(
            self.pointer,
            ctypes.byref(self.arrays),
            ctypes.byref(gradients),
            ctypes.byref(self.result),
            self.reference,
        )
        job.reraise()
        if status < 0:
            raise_status(status, self.error, sentence=self.result.sentence.decode())

    def gradients_of(
        self, job: Job, given: Mapping[str, View], wanted: Mapping[str, View], solved: bool
    ) -> c.Gradients:
        """The struct of a backward, which lives no longer than the handle."""
        gradients = c.Gradients()
        gradients.size = ctypes.sizeof(c.Gradients)
        gradients.solved = int(solved)
        for name, view in given.items():
            _pack(gradients, _GRADIENTS[name], *view)
        self._put(job, gradients, _GRADIENTS, wanted)
        return gradients

    def along(self, job: Job, tangents: Mapping[str, View], outputs: Mapping[str, View]) -> None:
        """Derivatives of out and coupling along tangents by operand (or `scores`)."""
        record = c.Tangents()
        record.size = ctypes.sizeof(c.Tangents)
        for name, view in outputs.items():
            _pack(record, _TANGENTS[name], *view)
        self._put(job, record, _TANGENTS, tangents)
        self.begin(job.spec.deadline, job.progress)
        status = library.ota_jvp(
            self.pointer,
            ctypes.byref(self.arrays),
            ctypes.byref(record),
            ctypes.byref(self.result),
            self.reference,
        )
        job.reraise()
        if status < 0:
            raise_status(status, self.error, sentence=self.result.sentence.decode())

    def _put(self, job: Job, record: Any, offsets: dict[str, int], views: Mapping[str, View]) -> None:
        """Views by operand into the fields of ota_gradients or ota_tangents, which have the same names."""
        terms = (c.Array * max(1, len(job.term_names)))()
        for name, view in views.items():
            field = gradient_field(job, name)
            if isinstance(field, int):
                _pack(terms, field * ctypes.sizeof(c.Array), *view)
            else:
                _pack(record, offsets[field], *view)
        record.terms = ctypes.addressof(terms)
        # The struct holds an address only.
        self.terms = terms

    def free(self) -> None:
        if self.pointer is not None:
            library.ota_plan_free(self.pointer)
            self.pointer = None


def _arrays_of(job: Job, outputs: Mapping[str, View]) -> c.Arrays:
    arrays = c.Arrays()
    arrays.size = ctypes.sizeof(c.Arrays)
    if isinstance(job.values, tuple):
        _pack(arrays, _ARRAYS["values"], *job.values)
    if isinstance(job.start, tuple):
        _pack(arrays, _ARRAYS["start_potential"], *job.start)
    for name, view in outputs.items():
        _pack(arrays, _ARRAYS[name], *view)
    return arrays


class Info:
    """What a solve found out: status, rounds and errors from the solver's own sums."""

    __slots__ = (
        "column_error",
        "empty_rows",
        "nonfinite_rows",
        "rounds",
        "row_error",
        "status",
    )

    def __init__(
        self,
        status: str,
        rounds: int,
        row_error: float,
        column_error: float,
        empty_rows: int,
        nonfinite_rows: int,
    ) -> None:
        self.status = status
        """One word: "ok", "fixed_iters", "partial" or "nonfinite_rows"."""
        self.rounds = rounds
        self.row_error = row_error
        self.column_error = column_error
        self.empty_rows = empty_rows
        self.nonfinite_rows = nonfinite_rows

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"Info({fields})"


def settle(job: Job, handle: Handle, status: int) -> None:
    """Raises or warns as the status asks. The arrays of the last forward are still there."""
    if status in (c.OK, c.FIXED_ITERS):
        return
    sentence = handle.result.sentence.decode()
    if status == c.PARTIAL:
        if job.spec.allow_partial:
            warn(sentence or "the plan did not converge", PartialWarning)
            return
        handle.error.field = b""
        handle.error.message = sentence.encode()[:511]
        handle.error.hint = b"raise max_rounds, tolerance or the temperature, or set allow_partial=True"
        raise_status(c.NOT_CONVERGED, handle.error, _certificate_or_errors(job, handle))
    if status == c.NONFINITE_ROWS:
        rows = handle.result.nonfinite_rows
        warn(f"{rows} rows met NaN or infinity and are NaN", NotFiniteWarning)
        return
    if status == c.NONFINITE and job.spec.nonfinite == "nan":
        warn(f"{sentence or 'scores are not finite'}; its outputs are NaN", NotFiniteWarning)
        return
    certificate = None
    if status in (c.INFEASIBLE, c.NOT_CONVERGED, c.TOL_UNREACHABLE, c.NONFINITE):
        certificate = errors_only(handle)
    raise_status(status, handle.error, certificate, sentence)


# Share of the mass on pairs that a mask takes far down from which on a plan is told of.
LEAST_MASKED_SHARE = 1e-6


def warn_of_masked(handle: Handle) -> None:
    """Warns of mass on pairs whose mask or bias stands for "forbidden" by a number that does not forbid."""
    if handle.result.masked_share > LEAST_MASKED_SHARE:
        warn(
            "the columns put mass on pairs to which the mask or bias adds -1e4 or less: a number is no "
            "prohibition; a boolean mask, -inf or finfo(dtype).min is",
            UserWarning,
        )


def errors_only(handle: Handle) -> Certificate:
    result = handle.result
    return Certificate(
        row_error=result.row_error,
        column_error=result.column_error,
        empty_rows=result.empty_rows,
        nonfinite_rows=result.nonfinite_rows,
    )


def _certificate_or_errors(job: Job, handle: Handle) -> Certificate:
    try:
        return judge(job.problem, job.options, handle.arrays)
    except (ValueError, ArithmeticError):
        return errors_only(handle)


def solve_on(
    handle: Handle, job: Job, outputs: Mapping[str, View], certify: bool
) -> tuple[Info, Certificate | None]:
    """The same on a plan that the job is bound to."""
    status = handle.forward(job, outputs)
    settle(job, handle, status)
    warn_of_masked(handle)
    r = handle.result
    lost = status == c.NONFINITE
    word = status_word(c.NONFINITE_ROWS if lost else status)
    info = Info(word, r.rounds, r.row_error, r.column_error, r.empty_rows, r.nonfinite_rows)
    certificate = None
    if certify:
        certificate = errors_only(handle) if lost else judge(job.problem, job.options, _judged(job, handle))
    job.reraise()
    return info, certificate


def judge_outputs(job: Job, outputs: Mapping[str, View]) -> Certificate:
    """The certificate of outputs that an earlier solve of the job wrote."""
    return judge(job.problem, job.options, _arrays_of(job, outputs))


def _judged(job: Job, handle: Handle) -> c.Arrays:
    """What the judge reads: a coupling rounded to two bytes is left out if potentials define it."""
    arrays = c.Arrays.from_buffer_copy(handle.arrays)
    if arrays.coupling.type in (c.BF16, c.F16) and not needs_coupling(job.spec):
        arrays.coupling = c.Array()
    return arrays


def needs_coupling(spec: Spec) -> bool:
    """Whether the judge cannot do with potentials."""
    return regulariser_of(spec) == c.HARD or columns_of(spec) == c.COLUMNS_PREFIX
