"""Points of mixtures: what their routers choose, and what is within the chosen experts.

A router of transformers returns logits, the weights of the chosen experts and which these are. While one
runs, its own calls of `linear` and of softmax or sigmoid pass through here, so that it chooses by what edits
leave.
Of experts, one module with weights of three dimensions, nothing comes out but the sum: what they make of each
token is made once more, and its sum compared with the module's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ._hf_blocks import Layout, Rows, child
from ._hf_parts import Run, Size, same

Module = torch.nn.Module

OF_ROUTERS = ("router_logits", "expert_weights", "expert_indices", "chosen_weights")
OF_EXPERTS = ("pre", "pre_linear", "post", "out")


class Mixture:
    """The router and the experts of a block's MLP, where they are modules of these kinds."""

    def __init__(self, layout: Layout) -> None:
        mlp = layout.branch_2 if layout.form else None
        router = None if mlp is None else child(mlp, "gate router")
        experts = None if mlp is None else child(mlp, "experts")
        self.router = router if router is not None and _is_router(router) else None
        self.experts = experts if self.router is not None and _are_experts(experts) else None

    def words(self) -> list[str]:
        words = [f"mlp.hook_{word}" for word in OF_ROUTERS] if self.router is not None else []
        return words + (
            [f"mlp.experts.hook_{word}" for word in OF_EXPERTS] if self.experts is not None else []
        )


def _is_router(module: Module) -> bool:
    weight = getattr(module, "weight", None)
    plain = isinstance(weight, torch.Tensor) and weight.dim() == 2 and not isinstance(module, torch.nn.Linear)
    return plain and isinstance(getattr(module, "top_k", None), int)


def _are_experts(module: Any) -> bool:
    weights = (getattr(module, name, None) for name in ("gate_up_proj", "down_proj"))
    three = all(isinstance(x, torch.Tensor) and x.dim() == 3 and x.is_floating_point() for x in weights)
    gated = getattr(module, "has_gate", False) and not getattr(module, "has_post_expert_norm", False)
    return three and gated and callable(getattr(module, "_apply_gate", None))


class _Calls(TorchFunctionMode):
    """Hands what a router calls to its hooks."""

    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self._call = call

    def __torch_function__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._call(func, args, kwargs or {})


class MixtureHooks:
    """Hooks of one mixture."""

    def __init__(self, mixture: Mixture, layer: int, run: Run, size: Size) -> None:
        self._mixture, self._run, self._size = mixture, run, size
        self._names = {word.rpartition("hook_")[2]: f"blocks.{layer}.{word}" for word in mixture.words()}
        self._mode = _Calls(self._call)
        self._clear()

    def attach(self) -> list[Any]:
        router, experts = self._mixture.router, self._mixture.experts
        if router is None:
            return []
        handles = [
            router.register_forward_pre_hook(self._before),
            router.register_forward_hook(self._behind, always_call=True),
        ]
        if experts is not None:
            handles.append(experts.register_forward_hook(self._inside, with_kwargs=True))
        return handles

    def _clear(self) -> None:
        self._logits: torch.Tensor | None = None
        self._weights: torch.Tensor | None = None
        self._order: torch.Tensor | None = None

    def _wanted(self, words: tuple[str, ...] = (*OF_ROUTERS, *OF_EXPERTS)) -> bool:
        return any(self._run.wants(self._names[word]) for word in words if word in self._names)

    def _note(self, word: str, x: torch.Tensor) -> torch.Tensor:
        rows, name = Rows(*self._size()[:2], x), self._names[word]
        if not self._run.wants(name):
            return x
        view = rows(x)
        left = self._run.pass_on(name, view)
        return x if left is view else rows.back(left)

    # ---- the router ----

    def _before(self, _: Module, __: Any) -> None:
        self._clear()
        if self._wanted():
            self._mode.__enter__()  # type: ignore[no-untyped-call]

    def _call(self, func: Any, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        word = getattr(func, "__name__", "")
        if word == "topk" and given and self._chooses_by_logits(given[0]):
            # Those that choose weigh the chosen alone, by softmax.
            found = torch.softmax(given[0].float(), -1)
            self._weights = self._note("expert_weights", found)
            if self._weights is not found:
                if bool((self._weights < 0).any()):
                    raise ValueError(f"{self._names['expert_weights']} is below 0 as edits leave it")
                given = (self._weights.log().to(given[0].dtype), *given[1:])
        out = func(*given, **named)
        if word == "linear" and self._logits is None:
            out = self._logits = self._note("router_logits", out)
        elif word in ("softmax", "sigmoid") and self._chooses_by_logits(out):
            out = self._weights = self._note("expert_weights", out)
        return out

    def _chooses_by_logits(self, x: torch.Tensor) -> bool:
        return self._logits is not None and self._weights is None and x.shape == self._logits.shape

    def _behind(self, router: Module, _: Any, out: Any) -> Any:
        if not self._wanted():
            return out
        self._mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        if out is None:
            # It raised.
            return out
        weights, logits = self._weights, self._logits
        three = isinstance(out, tuple) and len(out) == 3 and logits is not None
        shape = None if weights is None else (len(weights), router.top_k)
        if not three or weights is None or not out[1].shape == out[2].shape == shape:
            raise RuntimeError(
                f"{self._names['router_logits']} is unknown: {type(router).__name__} does something else "
                f"than to choose by softmax or sigmoid of what one product gives"
            )
        indices, correction = out[2], getattr(router, "e_score_correction_bias", None)
        rank = weights if correction is None else weights + correction.to(weights.dtype)
        # The largest first, of equal ones the first.
        order = indices.argsort(-1)
        ranked = rank.detach().gather(-1, indices.gather(-1, order))
        order = order.gather(-1, ranked.sort(dim=-1, descending=True, stable=True).indices)
        self._order = order
        self._note("expert_indices", indices.gather(-1, order))
        taken = out[1].gather(-1, order)
        left = self._note("chosen_weights", taken)
        return out if left is taken else (out[0], out[1].scatter(-1, order, left.to(out[1].dtype)), indices)

    # ---- experts ----

    def _inside(
        self, experts: Module, given: tuple[Any, ...], named: dict[str, Any], out: torch.Tensor
    ) -> torch.Tensor:
        if not self._wanted(OF_EXPERTS):
            return out
        x, indices, weights = (*given, *named.values())[:3]
        assert self._order is not None
        places, taken = indices.gather(-1, self._order), weights.gather(-1, self._order)
        made = functools.partial(_sum, experts, x, places, taken)
        edited = any(self._run.edits_at(self._names[word]) for word in OF_EXPERTS)
        total = made(_as_is if edited else self._slots)
        if not same(total.to(out.dtype), out):
            raise RuntimeError(
                f"{self._names['out']} is unknown: {type(experts).__name__} gives something else than the "
                f"sum of its gated experts"
            )
        return made(self._slots).to(out.dtype) if edited else out

    def _slots(self, word: str, x: torch.Tensor) -> torch.Tensor:
        """(tokens, chosen, width)."""
        name = self._names[word]
        if not self._run.wants(name):
            return x
        view = x.view(*self._size()[:2], *x.shape[1:])
        left = self._run.pass_on(name, view)
        return x if left is view else left.reshape(x.shape)


def _as_is(_: str, x: torch.Tensor) -> torch.Tensor:
    return x


def _sum(
    experts: Any,
    x: torch.Tensor,
    places: torch.Tensor,
    taken: torch.Tensor,
    note: Callable[[str, torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """What the chosen experts give to rows; `note` takes what is within them, (rows, chosen, width)."""
    both = _linear(experts, "gate_up_proj", x[:, None].expand(-1, places.shape[1], -1), places)
    joined = getattr(experts, "is_concatenated", True)
    pre, linear = both.chunk(2, -1) if joined else (both[..., ::2], both[..., 1::2])
    halves = note("pre", pre), note("pre_linear", linear)
    if halves[0] is not pre or halves[1] is not linear:
        both = torch.cat(halves, -1) if joined else torch.stack(halves, -1).flatten(-2)
    post = note("post", experts._apply_gate(both))
    out = note("out", _linear(experts, "down_proj", post, places))
    return (out * taken[..., None]).sum(1)


def _linear(experts: Any, name: str, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """x W + b by the expert of each place."""
    weight = getattr(experts, name)
    bias = getattr(experts, f"{name}_bias") if getattr(experts, "has_bias", False) else None
    turned = getattr(experts, "is_transposed", False)
    made = x.new_zeros(*places.shape, weight.shape[2 if turned else 1])
    for expert in places.unique().tolist():
        # Places of experts of other processes lie behind those of this one.
        if expert < len(weight):
            at = (places == expert).nonzero(as_tuple=True)
            rows = x[at] @ (weight[expert] if turned else weight[expert].mT)
            made[at] = rows if bias is None else rows + bias[expert]
    return made
