"""A Spec as one line of text, as graphs carry it, and the numbers of it that move from call to call."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Sequence
from typing import Any

from ._keywords import DEFAULTS, NAMES
from ._spec import Spec, spec_of

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
