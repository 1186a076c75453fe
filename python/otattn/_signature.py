"""Keywords as types, and signatures of functions that take them as ``**options``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypedDict, TypeVar

from ._keywords import BY_NAME
from ._progress import Progress
from ._regulariser import Regulariser
from ._spec import Spec


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
