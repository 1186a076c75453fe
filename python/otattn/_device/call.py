"""The operators `solve` and `gradients` on tensors of any device, and what goes to the CPU instead."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import _structs as c
from .._certificate import Certificate
from .._errors import (
    Infeasible,
    NotConverged,
    NotFinite,
    NotFiniteWarning,
    PartialWarning,
    check,
    new_error,
)
from .._job import Job, view_like
from .._leaks import warn, watch
from .._library import library
from .._outcome import warn_of_masked
from .._regulariser import regulariser_named
from .._settings import OPERANDS, PLACES, is_of_torch
from .._spec import Spec
from .._spec_text import text_of, with_numbers
from .._template import template
from .._torch_device import check_device, warn_of_cpu
from .._torch_fold import TYPES
from .adjoint import Upstream, gradients
from .blocks import Blocks
from .engines import ENGINES, Engine, engine_for, why_not
from .entmax import Rows
from .judge import Judge
from .rules import RULES, marginals, next_rows
from .scores import Scores
from .solver import Solution, begin, rounds_of, solve, tolerance_of
from .triton_engine import Kernels

# The word of `backend` for this arithmetic, before the name of an engine.
WORD = "torch"
# What a mask adds to pairs that its maker may have meant to forbid.
LOW = -1e4


def refuses(spec: Spec, operands: Sequence[Tensor | None]) -> str | None:
    """What of a call is computed by the library alone, on the CPU; None: nothing."""
    p, options = template(spec)
    named = dict(zip(OPERANDS, operands, strict=True))
    coupled = p.columns != c.COLUMNS_FREE
    if regulariser_named(spec.method) is not None:
        return "a Regulariser"
    if p.regulariser not in (c.SOFTMAX, c.ENTMAX):
        return "a hard method"
    if p.regulariser == c.ENTMAX and coupled:
        return "entmax with coupled columns"
    if p.regulariser == c.ENTMAX and not (p.order or 1.5) > 1.0:
        return "an order of 1 or less"
    if coupled and p.columns not in RULES:
        return "prefix or online columns"
    if p.entry_cap or named["entry_caps"] is not None:
        return "entry caps"
    if p.axis == c.AXIS_COLUMNS:
        return "axis='columns'"
    if options.prune:
        return "prune"
    if options.anneal_start or options.relaxation or options.tolerance_scaling:
        return "an option in the braces of the method"
    if spec.solver != "auto":
        return "a solver by name"
    if spec.progress is not None:
        return "progress"
    query = operands[0]
    assert query is not None
    if any(x is not None and 0 in x.shape for x in operands[:3]):
        return "an empty array"
    return None


def on_device(spec: Spec, operands: Sequence[Tensor | None]) -> bool:
    """Whether a call is for this file: of a device that is no CPU, or of the backend of torch."""
    query = operands[0]
    assert query is not None
    return not query.is_cpu or is_of_torch(spec.backend)


def away(spec: Spec, operands: Sequence[Tensor | None]) -> bool:
    """Whether the library has to compute a call, for which its tensors go to the CPU and back."""
    reason = refuses(spec, operands)
    query = operands[0]
    assert query is not None
    if reason is not None and not query.is_cpu:
        warn_of_cpu(reason)
    return reason is not None


def check_devices(named: Mapping[str, Any]) -> None:
    """Raises where tensors of a call lie on two devices; numbers may lie anywhere."""
    query = named["query"]
    for name, x in named.items():
        if isinstance(x, Tensor) and x.dim() > 0:
            check_device(name, x, "query", query)


def brought(arguments: Sequence[Any], spec: Spec) -> list[Any]:
    """The arguments of an operator with tensors on the CPU, for the library."""
    *given, _, names = arguments
    spec = spec._replace(backend=None) if is_of_torch(spec.backend) else spec
    return [*(x.cpu() if isinstance(x, Tensor) else x for x in given), text_of(spec), names]


def returned(results: Sequence[Tensor], like: Tensor) -> list[Tensor]:
    """The results where the caller's tensors are; facts, the only vector, stay on the CPU."""
    return [x if x.dim() == 1 and x.numel() else x.to(like.device) for x in results]


def with_moving(spec: Spec, operands: Sequence[Tensor | None]) -> Spec:
    """With the numbers of a graph that change from call to call."""
    numbers = operands[PLACES["numbers"]]
    return spec if numbers is None else with_numbers(spec, numbers.tolist())


def describe_tensors(spec: Spec, operands: Sequence[Tensor | None]) -> str:
    """What would compute a call: the engine, why it, its bytes, and its calls."""
    reason = refuses(spec, operands)
    query = operands[0]
    assert query is not None
    if reason is not None:
        return f"the library on the CPU, which alone computes {reason}"
    engine = _engine(spec, operands)
    s = engine.scores
    lines = [f"engine {engine.name} on {query.device}, in {str(s.wide).removeprefix('torch.')}"]
    for kind in ENGINES:
        if kind.name == engine.name:
            break
        lines.append(f"  not {kind.name}, which {why_not(kind, s)}")
    entmax = s.problem.regulariser == c.ENTMAX
    asked = rounds_of(engine)
    if entmax or s.problem.columns == c.COLUMNS_FREE:
        lines.append("calls: 1 forward, 2 backward")
    elif asked is not None:
        lines.append(f"calls: {2 * asked + 1} forward ({asked} rounds of 2), {6 * asked + 6} backward")
    else:
        tolerance = tolerance_of(engine)
        lines.append(
            f"calls: 2 a round to {tolerance:g}, 1 forward; 2 a step of the implicit gradient, 8 backward"
        )
    lines.append(f"bytes: {engine_bytes(engine)} at once for pairs, beside vectors of rows and columns")
    return "\n".join(lines)


def engine_bytes(engine: Engine) -> int:
    """What an engine takes for pairs at once."""
    return engine.scores.bytes() if engine.name == Blocks.name else 0


def engine_name(spec: Spec) -> str:
    """The engine that `backend` names, or ""."""
    return (spec.backend or WORD).partition(":")[2]


class Found(NamedTuple):
    """A solved call."""

    engine: Engine
    solution: Solution
    f: Tensor
    out: Tensor | None
    row_lse: Tensor | None
    """LSE_j(S + g) with the sink, of softmax"""


def _engine(spec: Spec, operands: Sequence[Tensor | None], wanted: Collection[str] = ()) -> Engine:
    scores = Scores(spec, dict(zip(OPERANDS, operands, strict=True)))
    return engine_for(scores, engine_name(spec), wanted)


def _forward(engine: Engine, names: Sequence[str]) -> Found:
    s = engine.scores
    if s.problem.regulariser == c.ENTMAX:
        out, f = engine.entmax() if isinstance(engine, Kernels) else Rows(s).forward()
        return Found(engine, Solution(engine, begin(engine), f, 0, None, c.OK), f, out, None)
    solution = solve(engine, measured="facts" in names)
    engine = solution.engine
    s = engine.scores
    m = marginals(s)
    lse: Tensor | None = None
    out = None
    values = s.given.get("value") if "out" in names else None
    if values is not None:
        mean, lse = engine.attend(solution.g, values)
        f = next_rows(lse, m)
        total = f + lse
        out = mean * torch.exp(total)[..., None]
        # A row without any pair gives 0; a finite row sum has the value of its values.
        out = out.where((total > -torch.inf)[..., None] | torch.isnan(total)[..., None], 0.0)
    else:
        lse = engine.lse(solution.g)
        f = next_rows(lse, m)
    if lse is not None and m.sink is not None:
        lse = torch.logaddexp(lse, m.sink.expand_as(lse))
    assert f is not None
    return Found(engine, solution, f, out, lse)


# ---- what a solve may end in -----------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _check(spec: Spec, layout: tuple[Any, ...]) -> None:
    """Raises what the library says of a call with arrays of such shapes and types; it reads no large one."""
    memory: list[Any] = []
    operands: list[Any] = []
    for name, known in zip(OPERANDS, layout, strict=True):
        if known is None or isinstance(known, float):
            operands.append(known)
            continue
        shape, kind = known
        # Vectors are read: of ones, whatever the caller's hold on their device.
        small = name not in ("query", "key", "value", "attn_mask", "bias")
        dtype = torch.int64 if kind == c.I64 else torch.float64 if kind == c.F64 else torch.float32
        x = torch.ones(math.prod(shape) if small else 1, dtype=dtype)
        memory.append(x)
        operands.append((x.data_ptr(), *view_like(shape, kind)[1:]))
    job = Job(spec, operands)
    error, reference = new_error()
    status = library.ota_check(ctypes.byref(job.problem), ctypes.byref(job.options), reference)
    job.reraise()
    check(status, error)


def _layout(operands: Sequence[Tensor | None]) -> tuple[Any, ...]:
    found: list[Any] = []
    for name, x in zip(OPERANDS, operands, strict=True):
        if x is None or name in ("dropout_seed", "numbers"):
            found.append(None)
        elif x.dim() == 0:
            found.append(float(x) if x.is_cpu else 1.0)
        else:
            found.append((tuple(x.shape), TYPES[x.dtype]))
    return tuple(found)


def _check_feasible(engine: Engine) -> None:
    """Raises where totals of masses can never agree, or a key with mass has no pair."""
    s = engine.scores
    rule = RULES.get(s.problem.columns)
    asked = rounds_of(engine)
    if rule is None or rule.feasible is None or asked == 0 or (asked and s.device.type != "cpu"):
        # For fixed rounds no device waits.
        return
    m = marginals(s)
    target = torch.exp(m.log_target)
    _, used = s.usable
    mass, total = torch.exp(m.log_mass).sum(2), target.where(used, 0.0).sum(2)
    close = 1e-12 if s.type == torch.float64 and "row_mass" not in s.given else 1e-6
    fits = rule.feasible(mass, total, m, close) | torch.isnan(mass)
    bound = rule.balanced & (target > 0.0) & ~used
    if bool((fits & ~bound.any(2)).all()):
        return
    if bool(bound.any()):
        raise Infeasible(
            "a key that no query may use has mass", advice="set its column_mass to 0, or use relaxed columns"
        )
    raise Infeasible(
        f"the rows have a mass of {float(mass.reshape(-1)[0]):g} and the columns ask for "
        f"{float(total.reshape(-1)[0]):g}",
        advice="make the totals agree, or use relaxed columns",
    )


def _settle(found: Found) -> tuple[int, int]:
    """Raises or warns as a solve ended; its status, and how many rows are NaN."""
    s, solution = found.engine.scores, found.solution
    spec = s.spec
    if s.device.type != "cpu" and solution.status != c.PARTIAL and not spec.strict:
        # Nothing waits for the device.
        return solution.status, 0
    lost = int(torch.isnan(found.f).sum())
    if lost and (solution.status == c.PARTIAL or s.problem.columns != c.COLUMNS_FREE):
        sentence = "scores are NaN or infinite, and coupled columns have no plan of such"
        if spec.nonfinite == "nan":
            warn(f"{sentence}; its outputs are NaN", NotFiniteWarning)
            return c.NONFINITE_ROWS, lost
        raise NotFinite(
            sentence, Certificate(nonfinite_rows=lost), "look for NaN among query, key and biases"
        )
    if lost and spec.strict:
        raise NotFinite(
            f"{lost} rows met NaN or infinity",
            Certificate(nonfinite_rows=lost),
            "look for NaN among the inputs",
        )
    if lost:
        warn(f"{lost} rows met NaN or infinity and are NaN", NotFiniteWarning)
        return c.NONFINITE_ROWS, lost
    if solution.status != c.PARTIAL:
        if s.device.type == "cpu" or solution.status == c.OK:
            warn_of_masked(_masked_share(found))
        return solution.status, 0
    assert solution.error is not None
    sentence = (
        f"after {solution.rounds} rounds the columns are {float(solution.error.max()):.3g} off, "
        f"more than the tolerance {tolerance_of(found.engine):g}"
    )
    if spec.allow_partial:
        warn(sentence, PartialWarning)
        return c.PARTIAL, 0
    raise NotConverged(
        sentence,
        Judge(s, found.f, solution.g).certificate(),
        "raise max_rounds, tolerance or the temperature, or set allow_partial=True",
    )


def _masked_share(found: Found) -> float:
    """The mass on pairs to which a mask or bias adds -1e4 or less, over all mass, of coupled columns."""
    s = found.engine.scores
    low = [x for x in (s.given.get(name) for name in ("bias", "attn_mask")) if x is not None]
    if s.problem.columns == c.COLUMNS_FREE or not any(bool((x <= LOW).any()) for x in low):
        return 0.0
    judge, total, masked = Judge(s, found.f, found.solution.g), 0.0, 0.0
    for rows in s.slices():
        p = judge.plan(rows)[1][..., :-1]
        far = [(x if x.shape[2] == 1 else x[:, :, rows]) <= LOW for x in low]
        total += float(p.sum())
        masked += float(p.where(functools.reduce(torch.logical_or, far), 0.0).sum())
    return masked / total if total > 0.0 else 0.0


# ---- the operators ---------------------------------------------------------------------------------


def solve_tensors(
    spec: Spec, operands: Sequence[Tensor | None], names: Sequence[str], kept: str, results: Sequence[Tensor]
) -> None:
    """Fills `results`, which have the names, where `kept` is the one that "saved" has."""
    with arithmetic(operands):
        _check(spec._replace(dropout_p=0.0, deadline=None, backend=None), _layout(operands))
        engine = _engine(spec, operands)
        s = engine.scores
        causal = spec.is_causal or (spec.window is not None and spec.window[1] == 0)
        watch(spec.method, s.problem.columns, causal, s.rows, None)
        _check_feasible(engine)
        found = _forward(engine, names)
        status, lost = _settle(found)
        written = _Written(found, lost)
        for name, result in zip(names, results, strict=True):
            if name == "facts":
                judged = "row_potential" in names
                result.copy_(written.facts(status, judged))
            elif name != "saved" or kept:
                result.copy_(written.result(kept if name == "saved" else name).reshape(result.shape))


@contextlib.contextmanager
def arithmetic(operands: Sequence[Tensor | None], recorded: bool = False) -> Iterator[None]:
    """Inside of an operator: no types but those that are asked for; `recorded`: autograd if asked."""
    query = operands[0]
    assert query is not None
    kind = query.device.type if torch.amp.is_autocast_available(query.device.type) else "cpu"
    with contextlib.ExitStack() as stack:
        if recorded:
            included = torch._C._dispatch_tls_local_include_set()
            excluded = torch._C._dispatch_tls_local_exclude_set() & torch._C._after_autograd_keyset
            stack.enter_context(torch._C._ForceDispatchKeyGuard(included, excluded))
        stack.enter_context(torch.autocast(kind, enabled=False))
        stack.enter_context(torch.no_grad())
        try:
            yield
        except torch.OutOfMemoryError as error:
            raise MemoryError(
                f"{query.device} has too little memory for a call with {tuple(query.shape)} queries; give a "
                f"workspace_limit, or fewer heads a call ({error})"
            ) from error


class _Written:
    """Results of a solved call by name."""

    def __init__(self, found: Found, lost: int) -> None:
        self.found, self.lost = found, lost
        self.judge = Judge(found.engine.scores, found.f, found.solution.g)
        self._statistics: Any = None

    def result(self, name: str) -> Tensor:
        found, s = self.found, self.found.engine.scores
        tau = s.tau(s.given)
        if name == "out":
            assert found.out is not None
            return found.out
        if name == "row_potential":
            potential: Tensor = found.f * tau
            return potential
        if name == "column_potential":
            # What no query may use has none.
            columns: Tensor = found.solution.g * tau
            return columns.where(s.usable[1], 0.0)
        if name == "coupling":
            return self.judge.coupling()
        if name == "lse":
            # Of softmax only.
            return found.row_lse if found.row_lse is not None else torch.full_like(found.f, torch.nan)
        if self._statistics is None:
            self._statistics = self.judge.statistics()
        places = {"row_entropy": 0, "row_support": 1, "row_max": 2, "sink": 3, "receiver": 4}
        statistic: Tensor = self._statistics[places[name]]
        return statistic

    def facts(self, status: int, judged: bool) -> Tensor:
        solution = self.found.solution
        error = 0.0 if solution.error is None else float(solution.error.max())
        certificate = self.judge.certificate() if judged else Certificate()
        empty = int((~self.judge.open).sum())
        words = {c.OK: 0, c.FIXED_ITERS: 1, c.PARTIAL: 2, c.NONFINITE_ROWS: 3}
        record = [words[status], solution.rounds, 0.0, error, empty, self.lost, *certificate]
        return torch.tensor(record, dtype=torch.float64)


def gradients_of_tensors(
    spec: Spec,
    operands: Sequence[Tensor | None],
    upstream: Sequence[Tensor | None],
    saved: Tensor | None,
    wanted: Sequence[str],
) -> list[Tensor]:
    """Those of the operands `wanted`, for gradients of out, coupling and receiver."""
    with arithmetic(operands, recorded=True):
        needed = wanted if upstream[1] is None else (*wanted, "coupling")
        engine = _engine(spec, operands, needed)
        s = engine.scores
        from_ = Upstream(s, *upstream)
        if s.problem.regulariser == c.ENTMAX:
            if isinstance(engine, Kernels) and from_.receiver is None and from_.out is not None:
                found = engine.entmax_backward(wanted, from_.out)
            else:
                found = Rows(s).backward(wanted, from_.out, from_.coupling, from_.receiver)
        else:
            g = None
            if s.problem.columns == c.COLUMNS_FREE:
                g = None
            elif saved is not None and saved.numel():
                g = (saved[:, :, 0] / s.tau({k: x.double() for k, x in s.given.items()})).to(s.wide)
            elif not s.options.rounds and s.problem.columns != c.COLUMNS_ELASTIC:
                g = solve(engine).g.to(s.wide)
            found = gradients(engine, wanted, from_, g)
        results = []
        for name in wanted:
            x = operands[PLACES[name]]
            assert x is not None
            results.append(found[name].to(x.device, x.dtype).reshape(x.shape))
        return results
