"""Points beside a block's sums: embeddings, what every head adds to the stream, and the inside of MLPs.

As in `_hf_blocks` modules are known by their names, and each run that asks checks what they mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch

from ._hf_blocks import Layout, Rows, child

Module = torch.nn.Module
# Texts, tokens and heads of the run.
Size = Callable[[], tuple[int, int, int]]


class Run(Protocol):
    """What is asked of a run (`_hf_points`)."""

    batch: int
    # Squares of queries and keys by the name of their point, (batch, tokens, heads).
    plain: dict[str, torch.Tensor]

    def wants(self, name: str) -> bool: ...

    def edits_at(self, name: str) -> bool: ...

    def pass_on(self, name: str, x: torch.Tensor, /) -> torch.Tensor: ...


def _input(arguments: tuple[Any, ...], named: dict[str, Any]) -> torch.Tensor:
    found: torch.Tensor = arguments[0] if arguments else next(iter(named.values()))
    return found


def _with_input(arguments: tuple[Any, ...], named: dict[str, Any], x: torch.Tensor) -> Any:
    if arguments:
        return (x, *arguments[1:]), named
    return arguments, {**named, next(iter(named)): x}


def same(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Up to the rounding of their type."""
    bound = 64 * torch.finfo(wanted.dtype).eps * float(wanted.detach().abs().max())
    return found.shape == wanted.shape and float((found - wanted).detach().abs().max()) <= bound


# ---- embeddings ----

_POSITIONS = "wpe embed_positions position_embeddings"
_TYPES = "token_type_embeddings"
_NORMS = "LayerNorm norm"


def embeddings(model: Module, layouts: list[Layout]) -> dict[str, tuple[Module, float]]:
    """By the name of the point: the module that makes it, and a factor behind it. Of models with one list of
    blocks."""
    paths = {id(part): path for path, part in model.named_modules()}
    lists = {paths[id(layout.block)].rpartition(".")[0] for layout in layouts}
    if len(lists) != 1:
        return {}
    (blocks,) = lists
    tokens = _tokens(model, blocks)
    if tokens is None or id(tokens) not in paths:
        return {}
    parent = paths[id(tokens)].rpartition(".")[0]
    beside = model.get_submodule(parent)
    factor = float(getattr(beside, "embedding_multiplier", None) or 1.0)
    found: dict[str, Module | None] = {"hook_embed": tokens, "hook_pos_embed": child(beside, _POSITIONS)}
    found["hook_token_type_embed"] = child(beside, _TYPES)
    if not blocks.startswith(f"{parent}." if parent else ""):
        found["hook_full_embed"] = child(beside, _NORMS)
    return {
        name: (part, factor if name == "hook_embed" else 1.0)
        for name, part in found.items()
        if part is not None
    }


def _tokens(model: Module, path: str) -> Module | None:
    """The embedding by the innermost model around the list of blocks: outer ones may have one of the same
    weights that does not run."""
    parts = path.split(".")
    for depth in range(len(parts) - 1, -1, -1):
        given = getattr(model.get_submodule(".".join(parts[:depth])), "get_input_embeddings", None)
        if given is None:
            continue
        try:
            found = given()
        except (AttributeError, NotImplementedError):
            return None
        return found if isinstance(found, torch.nn.Embedding) else None
    return None


def embedding_hook(name: str, part: tuple[Module, float], run: Run) -> Any:
    module, factor = part

    def behind(_: Module, __: Any, out: torch.Tensor) -> torch.Tensor:
        if name == "hook_embed":
            run.batch = out.shape[0]
        if not run.wants(name):
            return out
        # Positions come once for all texts.
        x = out.expand(run.batch, *out.shape[1:]) if out.dim() == 3 and out.shape[0] == 1 else out
        view = x if factor == 1 else x * factor
        left = run.pass_on(name, view)
        return out if left is view else left if factor == 1 else left / factor

    return module.register_forward_hook(behind)


# ---- heads ----

_OUT = "o_proj out_proj c_proj dense out_lin Wo o"


def projection(layout: Layout) -> Module | None:
    """The matrix behind the heads of a block's attention."""
    found = child(layout.attention, _OUT)
    if found is None and layout.form == "post":
        found = layout.branch_1
    return found if found is not None and _matrix(found) is not None else None


def _matrix(module: Module) -> torch.Tensor | None:
    """(in, out) of a linear module."""
    weight = getattr(module, "weight", None)
    if not isinstance(weight, torch.Tensor) or weight.dim() != 2:
        return None
    if isinstance(module, torch.nn.Linear):
        return weight.mT
    return weight if type(module).__name__ == "Conv1D" else None


def result_hook(name: str, module: Module, run: Run, size: Size) -> Any:
    def behind(_: Module, arguments: tuple[Any, ...], named: dict[str, Any], out: torch.Tensor) -> Any:
        if not run.wants(name):
            return out
        x, weight = _input(arguments, named), _matrix(module)
        assert weight is not None
        batch, tokens, heads = size()
        z = x.reshape(batch, tokens, heads, -1)
        result = torch.einsum("bthd,hde->bthe", z, weight.to(x.dtype).view(heads, -1, weight.shape[1]))
        bias = getattr(module, "bias", None)
        whole = result.sum(2) if bias is None else result.sum(2) + bias
        if not same(whole.view(out.shape), out):
            raise RuntimeError(
                f"{name} is unknown: {type(module).__name__} gives something else than x W + b"
            )
        left = run.pass_on(name, result)
        return out if left is result else out + (left - result).sum(2).view(out.shape)

    return module.register_forward_hook(behind, with_kwargs=True)


# ---- queries and keys in front of rotary positions ----


class Plain(NamedTuple):
    """Where the output of a module [..., columns] has the queries or keys: of all heads side by side from a
    column on, or head by head beside the other two."""

    module: Module
    first: int
    heads: int
    width: int
    by_head: bool

    def part(self, x: torch.Tensor) -> torch.Tensor:
        """(..., heads, width), a view."""
        if not self.by_head:
            own = x[..., self.first : self.first + self.heads * self.width]
            found: torch.Tensor = own.unflatten(-1, (self.heads, self.width))
        else:
            found = x.unflatten(-1, (self.heads, 3, self.width))[..., self.first, :]
        return found


def plain(layout: Layout) -> dict[str, Plain]:
    """By the word of the point; keys of latent attention are `LatentKeys`."""
    attention, config = layout.attention, getattr(layout.attention, "config", None)
    heads = getattr(config, "num_attention_heads", None)
    if not isinstance(heads, int):
        return {}
    if child(attention, "kv_a_layernorm kv_a_proj_with_mqa") is not None:
        found, wide = child(attention, "q_b_proj q_proj"), getattr(attention, "qk_head_dim", 0)
        known = found is not None and wide and _columns(found) == heads * wide
        return {"q": Plain(found, 0, heads, wide, False)} if known else {}  # type: ignore[arg-type]
    groups = getattr(config, "num_key_value_heads", None) or heads
    width = getattr(attention, "head_dim", None) or getattr(config, "hidden_size", 0) // heads
    pairs = ("q", "q_proj", heads), ("k", "k_proj", groups)
    single = {word: child(attention, names) for word, names, _ in pairs}
    if all(_columns(single[word]) == count * width for word, _, count in pairs):
        return {word: Plain(single[word], 0, count, width, False) for word, _, count in pairs}  # type: ignore[arg-type]
    several, by_head = child(attention, "qkv_proj Wqkv"), child(attention, "query_key_value")
    if several is not None and _columns(several) == (heads + 2 * groups) * width:
        return {
            "q": Plain(several, 0, heads, width, False),
            "k": Plain(several, heads * width, groups, width, False),
        }
    if by_head is not None and groups == heads and _columns(by_head) == 3 * heads * width:
        return {word: Plain(by_head, k, heads, width, True) for k, word in enumerate("qk")}
    return {}


def _columns(module: Module | None) -> int | None:
    weight = None if module is None else _matrix(module)
    return None if weight is None else weight.shape[1]


def plain_hook(name: str, part: Plain, run: Run, size: Callable[[], tuple[int, int]]) -> Any:
    def behind(_: Module, __: Any, out: torch.Tensor) -> torch.Tensor:
        if not run.wants(name):
            return out
        x = part.part(Rows(*size(), out)(out))
        left = run.pass_on(name, x)
        run.plain[name] = left.detach().float().square().sum(-1)
        if left is x:
            return out
        changed = out.clone()
        part.part(Rows(*size(), changed)(changed)).copy_(left)
        return changed

    return part.module.register_forward_hook(behind)


class LatentKeys:
    """Keys of latent attention in front of rotary positions: a part of every head, and one that all share."""

    def __init__(self, layout: Layout) -> None:
        attention = layout.attention
        sizes = ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "kv_lora_rank")
        self._own, self._shared, self._value, self._rank = (getattr(attention, x, 0) for x in sizes)
        self.modules = child(attention, "kv_a_proj_with_mqa"), child(attention, "kv_b_proj")
        narrow, wide = (_columns(module) for module in self.modules)
        each = self._own + self._value
        self.known = bool(self._own and wide and wide % each == 0 and narrow == self._rank + self._shared)
        self._seen: torch.Tensor | None = None

    def attach(self, name: str, run: Run, size: Callable[[], tuple[int, int]]) -> list[Any]:
        def before(_: Module, __: Any, out: torch.Tensor) -> None:
            self._seen = out[..., self._rank :]

        def behind(_: Module, __: Any, out: torch.Tensor) -> None:
            if not run.wants(name) or self._seen is None:
                return
            batch, tokens = size()
            parts = out.reshape(batch, -1, out.shape[-1])[:, -tokens:]
            own = parts.unflatten(-1, (-1, self._own + self._value))[..., : self._own]
            shared = self._seen.reshape(batch, tokens, 1, -1).expand(*own.shape[:3], -1)
            x = torch.cat((own, shared), -1)
            run.pass_on(name, x)
            run.plain[name] = x.detach().float().square().sum(-1)

        narrow, wide = self.modules
        if not self.known or narrow is None or wide is None:
            return []
        return [narrow.register_forward_hook(before), wide.register_forward_hook(behind)]


# ---- MLPs ----


class _Row(NamedTuple):
    """Names of modules: what makes hook_pre, hook_pre_linear ("": nothing; "half": the second half of the
    first), what reads hook_post, and the function between."""

    pre: str
    linear: str
    post: str
    act: str


_ACT = "act_fn activation_fn act activation"
_ROWS = (
    _Row("gate_proj", "up_proj", "down_proj", _ACT),
    _Row("wi_0", "wi_1", "wo", _ACT),
    _Row("gate_up_proj", "half", "down_proj", _ACT),
    _Row("Wi", "half", "Wo", _ACT),
    _Row("c_fc", "", "c_proj", _ACT),
    _Row("dense_h_to_4h", "", "dense_4h_to_h", _ACT),
    _Row("fc1", "", "fc2", _ACT),
    _Row("up_proj", "", "down_proj", _ACT),
    _Row("lin1", "", "lin2", _ACT),
    _Row("wi", "", "wo", _ACT),
    _Row("intermediate.dense", "", "output.dense", "intermediate.intermediate_act_fn"),
)


class Inside:
    """The modules of a block's MLP, or of what every token has beside experts, where they are known."""

    def __init__(self, layout: Layout, shared: bool = False) -> None:
        self.prefix, self.out = "mlp.shared" if shared else "mlp", _shared(layout) if shared else None
        # What weighs it, and where the weighed one is added.
        self.weigher = None if self.out is None else child(layout.branch_2, "shared_expert_gate")  # type: ignore[arg-type]
        self.around = layout.branch_2
        self.found: tuple[Module, Module | None, Module, Any] | None = None
        self.half = False
        for root in (self.out,) if shared else (layout.branch_2, layout.block):
            if root is None or not layout.form:
                continue
            for row in _ROWS:
                parts = [child(root, name) if name not in ("", "half") else None for name in row[:3]]
                acts = (_member(root, name) for name in row.act.split())
                act = next((one for one in acts if callable(one)), None)
                if parts[0] is None or parts[2] is None or act is None:
                    continue
                if (parts[1] is None) != (row.linear in ("", "half")):
                    continue
                self.found, self.half = (parts[0], parts[1], parts[2], act), row.linear == "half"
                return

    def words(self) -> list[str]:
        if self.found is None:
            return []
        gated = self.half or self.found[1] is not None
        words = ["hook_pre", *(["hook_pre_linear"] if gated else []), "hook_post"]
        words += [] if self.out is None else ["hook_out"]
        return [f"{self.prefix}.{word}" for word in words]


def _shared(layout: Layout) -> Module | None:
    """What every token has beside experts, as it is added."""
    return None if layout.branch_2 is None else child(layout.branch_2, "shared_experts shared_expert")


def _member(root: Any, path: str) -> Any:
    for name in path.split("."):
        root = getattr(root, name, None)
    return root


class InsideHooks:
    """Hooks of one MLP."""

    def __init__(self, inside: Inside, layer: int, run: Run, size: Size) -> None:
        self._inside, self._run, self._size = inside, run, size
        self._names = {word.rpartition(".")[2]: f"blocks.{layer}.{word}" for word in inside.words()}
        self._seen: dict[str, torch.Tensor] = {}

    def attach(self) -> list[Any]:
        if self._inside.found is None:
            return []
        pre, linear, post, _ = self._inside.found
        handles = [pre.register_forward_hook(self._both if self._inside.half else self._behind("hook_pre"))]
        if linear is not None:
            handles.append(linear.register_forward_hook(self._behind("hook_pre_linear")))
        handles.append(post.register_forward_pre_hook(self._before, with_kwargs=True))
        out, weigher, around = self._inside.out, self._inside.weigher, self._inside.around
        if out is not None and weigher is None:
            handles.append(out.register_forward_hook(self._behind("hook_out")))
        elif out is not None and weigher is not None and around is not None:
            handles.append(out.register_forward_hook(self._keep("out")))
            handles.append(weigher.register_forward_hook(self._keep("weight")))
            # Before the branch's, which stands there already.
            handles.append(around.register_forward_hook(self._weighed, prepend=True))
        return handles

    def _keep(self, word: str) -> Any:
        def behind(_: Module, __: Any, out: torch.Tensor) -> None:
            self._seen[word] = out

        return behind

    def _weighed(self, _: Module, __: Any, out: Any) -> Any:
        """What a mixture gives, with the shared MLP as it is weighed and edited."""
        if not self._run.wants(self._names["hook_out"]):
            return out
        x = torch.sigmoid(self._seen["weight"]) * self._seen["out"]
        left = self._note("hook_out", x)
        if left is x:
            return out
        whole = out[0] if isinstance(out, tuple) else out
        whole = whole + (left - x).view(whole.shape)
        return (whole, *out[1:]) if isinstance(out, tuple) else whole

    def _wanted(self) -> bool:
        return any(map(self._run.wants, self._names.values()))

    def _note(self, word: str, x: torch.Tensor) -> torch.Tensor:
        rows, name = Rows(*self._size()[:2], x), self._names[word]
        view = rows(x)
        left = self._run.pass_on(name, view) if self._run.wants(name) else view
        self._seen[word] = x if left is view else rows.back(left)
        return self._seen[word]

    def _behind(self, word: str) -> Any:
        return lambda _, __, out: self._note(word, out) if self._wanted() else out

    def _both(self, _: Module, __: Any, out: torch.Tensor) -> torch.Tensor:
        if not self._wanted():
            return out
        halves = zip(("hook_pre", "hook_pre_linear"), out.chunk(2, -1), strict=True)
        return torch.cat([self._note(word, half) for word, half in halves], -1)

    def _before(self, module: Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if not self._wanted():
            return None
        assert self._inside.found is not None
        x = _input(arguments, named)
        made = self._inside.found[3](self._seen["hook_pre"])
        if "hook_pre_linear" in self._names:
            made = made * self._seen["hook_pre_linear"]
        if not module.training and not same(made, x):
            raise RuntimeError(
                f"{self._names['mlp.hook_post']} is unknown: {type(module).__name__} reads something else "
                f"than the activation of hook_pre, by hook_pre_linear where there is one"
            )
        return _with_input(arguments, named, self._note("hook_post", x))
