"""Methods of the package's classes as functions of everything they need: the object is made, then asked.

`methods()` gives them by name, "otattn.Plan.forward"; each takes the arguments of the constructor and of the
method, whose signature it shows. `tensors` hands the same arguments on as torch has them.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import otattn


class Asked(NamedTuple):
    """A class, its methods, what takes its further keywords, and what has to be called before."""

    kind: Any
    methods: tuple[str, ...]
    also: Callable[..., Any] | None = None
    before: str = ""


HAS_TORCH = importlib.util.find_spec("torch") is not None


def _asked() -> list[Asked]:
    from otattn import analysis, cluster, ot

    plan = otattn.Plan
    layer = ("forward", "block", "mean_change", "change")
    found = [
        Asked(plan, ("forward", "describe"), otattn.attention),
        Asked(plan, ("backward", "jvp"), otattn.attention, "forward"),
        Asked(cluster.BalancedKMeans, ("fit",)),
        Asked(cluster.BalancedKMeans, ("predict", "transform", "score"), None, "fit"),
        Asked(ot.PlanSampler, ("get_map", "sample_map", "sample_plan", "sample_plan_with_labels")),
        Asked(analysis.AttentionLayer, layer),
    ]
    if HAS_TORCH:
        from otattn import nn

        found += [
            Asked(nn.Attention, ("forward",), otattn.attention),
            Asked(nn.CETA, ("forward",), nn.Attention),
            Asked(nn.ElasticAttention, ("forward",), nn.Attention),
        ]
    return found


def _parameters(call: Callable[..., Any]) -> list[inspect.Parameter]:
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [
        p for p in inspect.signature(call).parameters.values() if p.name != "self" and p.kind not in kinds
    ]


def _method(of: Asked, name: str) -> Callable[..., Any]:
    own = {p.name: p for p in _parameters(of.kind)}
    handed = {} if of.also is None else {p.name: p for p in _parameters(of.also) if p.name != "return_aux"}
    asked = {p.name: p for p in _parameters(getattr(of.kind, name))}
    first = {p.name: p for p in _parameters(getattr(of.kind, of.before))} if of.before else {}

    def call(**arguments: Any) -> Any:
        made = of.kind(**{x: y for x, y in arguments.items() if x in own or x in handed})
        if of.before:
            getattr(made, of.before)(**{x: y for x, y in arguments.items() if x in first})
        return getattr(made, name)(**{x: y for x, y in arguments.items() if x in asked})

    every = handed | first | asked | own
    keyword = inspect.Parameter.KEYWORD_ONLY
    shown = [p.replace(kind=keyword) for p in every.values()]
    # What the object needs it needs here, too.
    shown = [p if p.name in own | asked | first else p.replace(default=None) for p in shown]
    call.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return call


def methods() -> dict[str, Callable[..., Any]]:
    """All methods that are drawn, by module, class and name."""
    return {
        f"{of.kind.__module__.split('._')[0]}.{of.kind.__name__}.{name}": _method(of, name)
        for of in _asked()
        for name in of.methods
    }


# Calls and methods that do not take tensors, and those that take nothing else.
ONLY_NUMPY = ("Plan", "BalancedKMeans", "AttentionLayer", "analysis", "lap", "jax", "Regulariser")
ONLY_TORCH = ("nn", "hf", "distributed")


def takes(name: str) -> tuple[bool, bool]:
    """Whether a call takes NumPy's arrays, and tensors."""
    words = name.split(".")
    return not any(x in words for x in ONLY_TORCH), HAS_TORCH and not any(x in words for x in ONLY_NUMPY)


def tensors(x: Any, derivatives: bool) -> Any:
    """The same of tensors; arrays that torch cannot hold stay."""
    import torch

    if isinstance(x, (tuple, list)) and not hasattr(x, "_fields"):
        return type(x)(tensors(part, derivatives) for part in x)
    if not isinstance(x, np.ndarray) or x.dtype.kind not in "fiubc" or not x.dtype.isnative:
        return x
    made = torch.from_numpy(x if x.flags.behaved and min(x.strides, default=0) >= 0 else x.copy())
    return made.requires_grad_() if derivatives and made.is_floating_point() else made


def arrays(x: Any) -> Any:
    """The same with NumPy's arrays for tensors."""
    if isinstance(x, (tuple, list)) and not hasattr(x, "_fields"):
        return type(x)(arrays(part) for part in x)
    if hasattr(x, "requires_grad"):
        return (x.float() if str(x.dtype) == "torch.bfloat16" else x).detach().numpy()
    return x
