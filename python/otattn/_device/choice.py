"""Who computes a call on tensors, an engine here or the library on the CPU, and what it says of itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from torch import Tensor

from .. import _structs as c
from .._regulariser import regulariser_named
from .._settings import OPERANDS, PLACES, is_of_torch
from .._spec import Spec
from .._spec_text import text_of, with_numbers
from .._template import template
from .._torch_device import check_device, warn_of_cpu
from .blocks import Blocks
from .engines import ENGINES, Engine, engine_for, why_not
from .rules import RULES
from .scores import Scores
from .solver import rounds_of, tolerance_of

# The word of `backend` for this arithmetic, before the name of an engine.
WORD = "torch"


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
    """Whether a call is for this folder: of a device that is no CPU, or of the backend of torch."""
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


def engine_of(spec: Spec, operands: Sequence[Tensor | None], wanted: Collection[str] = ()) -> Engine:
    scores = Scores(spec, dict(zip(OPERANDS, operands, strict=True)))
    return engine_for(scores, (spec.backend or WORD).partition(":")[2], wanted)


def describe_tensors(spec: Spec, operands: Sequence[Tensor | None]) -> str:
    """What would compute a call: the engine, why it, its bytes, and its calls."""
    reason = refuses(spec, operands)
    query = operands[0]
    assert query is not None
    if reason is not None:
        return f"the library on the CPU, which alone computes {reason}"
    engine = engine_of(spec, operands)
    s = engine.scores
    lines = [f"engine {engine.name} on {query.device}, in {str(s.wide).removeprefix('torch.')}"]
    for kind in ENGINES:
        if kind.name == engine.name or ":" in (spec.backend or ""):
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
    pairs = s.bytes() if engine.name == Blocks.name else 0
    lines.append(f"bytes: {pairs} at once for pairs, beside vectors of rows and columns")
    return "\n".join(lines)
