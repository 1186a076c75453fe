"""Doors of the package that need another package, processes, a module or a function: each as one call.

`calls()` gives them by name, "otattn.jax.attention", with a signature of everything they take; `lacking()`
tells which packages are not installed, and so which doors are missing. Nothing of a package is started
before the first call, since drawn calls run in a forked process.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
from collections.abc import Callable
from typing import Any

import otattn

# Door : the package it needs.
NEEDS = {
    "otattn.jax": "jax",
    "otattn.hf": "transformers",
    "otattn.distributed": "torch",
    "otattn.activations": "torch",
}


def lacking() -> dict[str, str]:
    """Doors that cannot be drawn here, with the package that each lacks."""
    return {door: name for door, name in NEEDS.items() if importlib.util.find_spec(name) is None}


def _shown(call: Callable[..., Any], *signatures: inspect.Signature, without: tuple[str, ...] = ()) -> Any:
    """`call`, which takes all by name, with the parameters of several signatures, the first of each name."""
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    found: dict[str, inspect.Parameter] = {}
    for signature in signatures:
        for p in signature.parameters.values():
            if p.kind not in kinds and p.name not in without:
                found.setdefault(p.name, p.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    # What goes on to attention may be named by attention's names.
    handed = any(p.kind is p.VAR_KEYWORD for s in signatures for p in s.parameters.values())
    rest = [inspect.Parameter("more", inspect.Parameter.VAR_KEYWORD)] if handed else []
    call.__signature__ = inspect.Signature([*found.values(), *rest])  # type: ignore[attr-defined]
    return call


def _named(*names: str, **defaults: Any) -> inspect.Signature:
    keyword = inspect.Parameter.KEYWORD_ONLY
    needed = [inspect.Parameter(name, keyword) for name in names]
    return inspect.Signature(
        [*needed, *(inspect.Parameter(k, keyword, default=x) for k, x in defaults.items())]
    )


# ---- modules of activations ----------------------------------------------------------------------


def _modules() -> dict[str, Callable[..., Any]]:
    from otattn import activations

    found = {}
    for name in activations.__all__:
        if inspect.isfunction(getattr(activations, name)):
            continue
        loss = name.endswith("Loss")
        options = (activations._LOSSES if loss else activations._FUNCTIONS)[name][1]
        more = {"ignore_index": -100, "reduction": "elementwise_mean"} if loss else {}
        operands = ("X", "target") if loss else ("X",)

        def call(*, _name: str = name, _operands: tuple[str, ...] = operands, **arguments: Any) -> Any:
            made = getattr(activations, _name)(**{k: x for k, x in arguments.items() if k not in _operands})
            return made(*(arguments[k] for k in _operands))

        found[f"otattn.activations.{name}.forward"] = _shown(call, _named(*operands, **options, **more))
    return found


# ---- functions as regularisers -------------------------------------------------------------------


def _regularised(operator: Callable[..., Any]) -> Callable[..., Any]:
    def call(*, weight: Any, slope: Any, value: Any = None, **arguments: Any) -> Any:
        return operator(method=otattn.Regulariser(weight, slope, value), **arguments)

    own = inspect.signature(operator)
    return _shown(call, _named("weight", "slope", value=None), own, without=("method",))


# ---- JAX -----------------------------------------------------------------------------------------


def _of_jax(name: str) -> Callable[..., Any]:
    """A function on JAX arrays: as it is, compiled, or its gradient by the first operand."""
    whole = getattr(importlib.import_module("otattn.jax"), name)
    first = next(iter(inspect.signature(whole).parameters))

    def call(*, how: str = "plain", **arguments: Any) -> Any:
        import jax
        import jax.numpy as jnp

        rest = {k: x for k, x in arguments.items() if k != first}

        def asked(x: Any) -> Any:
            return whole(**{first: x}, **rest)

        try:
            if how == "plain" or not hasattr(arguments[first], "dtype") or arguments[first].dtype.kind != "f":
                return _numpy(asked(arguments[first]))
            x = jnp.asarray(arguments[first])
            if how == "compiled":
                return _numpy(jax.jit(asked)(x))
            return _numpy(jax.grad(lambda x: jax.tree.leaves(asked(x))[0].astype("float32").sum())(x))
        except jax.errors.JaxRuntimeError as error:
            # What a compiled program says goes by jax's own error, with the library's sentence.
            raise otattn.SolveError(str(error).split("\n")[0]) from error

    shared = (inspect.signature(otattn.attention),) if name != "sinkhorn_normalize" else ()
    without = () if name == "attention" else ("query", "key", "value")
    if name == "coupling":
        shared = (inspect.signature(otattn.coupling),)
    return _shown(call, _named(how="plain"), inspect.signature(whole), *shared, without=without)


def _numpy(x: Any) -> Any:
    import jax
    import numpy as np

    return jax.tree.map(np.asarray, x)


# ---- transformers --------------------------------------------------------------------------------


def attention_module(is_causal: Any) -> Any:
    """What transformers hands to an attention function, as far as that looks at it."""
    import torch

    class DrawnAttention(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            if is_causal is not None:
                self.is_causal = is_causal

    return DrawnAttention()


def model_of(count: int) -> Any:
    """A model of so many attention modules."""
    import torch

    return torch.nn.Sequential(*(attention_module(True) for _ in range(count)))


def _of_hf() -> dict[str, Callable[..., Any]]:
    from otattn import hf

    def register(*, methods: Any, **more: Any) -> Any:
        return hf.register(*(methods if isinstance(methods, tuple) else (methods,)), **more)

    def named(*, method: Any, **more: Any) -> Any:
        return hf.implementation_name(method, **more)

    forward = inspect.signature(hf.attention_forward)

    def attend(**arguments: Any) -> Any:
        return hf.attention_forward(**arguments)

    return {
        "otattn.hf.register": _shown(register, _named("methods"), inspect.signature(hf.register)),
        "otattn.hf.implementation_name": _shown(named, inspect.signature(hf.implementation_name)),
        "otattn.hf.attention_forward": _shown(attend, forward),
        "otattn.hf.set_attention": hf.set_attention,
    }


# ---- processes -----------------------------------------------------------------------------------


@functools.cache
def _world_of_one() -> None:
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


def _of_distributed(name: str) -> Callable[..., Any]:
    from otattn import distributed

    whole = getattr(distributed, name)

    def call(**arguments: Any) -> Any:
        _world_of_one()
        return whole(**arguments)

    shared: list[Callable[..., Any]] = [] if name == "rows_of" else [getattr(otattn, name)]
    return _shown(call, inspect.signature(whole), *(inspect.signature(x) for x in shared))


def calls() -> dict[str, Callable[..., Any]]:
    """All of them that can be made here."""
    missing = lacking()
    found = {
        "otattn.Regulariser.coupling": _regularised(otattn.coupling),
        "otattn.Regulariser.attention": _regularised(otattn.attention),
    }
    if "otattn.activations" not in missing:
        found |= _modules()
    if "otattn.jax" not in missing:
        found |= {f"otattn.jax.{x}": _of_jax(x) for x in ("attention", "coupling", "sinkhorn_normalize")}
    if "otattn.hf" not in missing:
        found |= _of_hf()
    if "otattn.distributed" not in missing:
        names = ("attention", "varlen_attention", "rows_of")
        found |= {f"otattn.distributed.{x}": _of_distributed(x) for x in names}
    return found
