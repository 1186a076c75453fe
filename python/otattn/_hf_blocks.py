"""Where blocks of transformers' models have their branches and norms, by the names of their modules.

What a name means is looked at in every run that asks for it: what branches give must add up to the stream.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

Module = torch.nn.Module
# Hands the tensor of a point on, as edits leave it; and whether anybody asks for a point.
Pass = Callable[[str, torch.Tensor], torch.Tensor]

_NORM_1 = (
    "input_layernorm layer_norm1 norm1 ln_1 attn_norm attention_norm layernorm_before rms_norm1 "
    "operator_norm attention_layernorm self_attn_layer_norm"
)
_NORM_2 = (
    "post_attention_layernorm layer_norm2 norm2 ln_2 mlp_norm ffn_norm layernorm_after rms_norm2 "
    "feedforward_layernorm final_layer_norm pre_feedforward_layernorm ffn_layer_norm"
)
_ATTENTION = "self_attn attention attn self_attention"
_MLP = "mlp feed_forward block_sparse_moe ffn fc2 output.dense"


class _Row(NamedTuple):
    """Names of modules, one of each; none: the block has no such module."""

    form: str
    norm_1: str
    attention: str
    behind_1: str
    norm_2: str
    mlp: str
    behind_2: str
    rest: str = ""


_ROWS = (
    # Norms behind both branches, too.
    _Row(
        "pre",
        "input_layernorm pre_self_attn_layernorm",
        "self_attn",
        "post_attention_layernorm post_self_attn_layernorm",
        "pre_feedforward_layernorm pre_mlp_layernorm",
        "mlp",
        "post_feedforward_layernorm post_mlp_layernorm",
    ),
    _Row(
        "pre",
        "input_layernorm",
        "self_attn",
        "post_self_attn_layernorm",
        "post_attention_layernorm",
        "mlp",
        "post_mlp_layernorm",
    ),
    _Row(
        "pre", "operator_norm", "self_attn", "post_operator_norm", "ffn_norm", "feed_forward", "post_ffn_norm"
    ),
    # Norms behind the branches alone.
    _Row("pre", "", "self_attn", "post_attention_layernorm", "", "mlp", "post_feedforward_layernorm"),
    _Row(
        "pre",
        "layer.0.layer_norm",
        "layer.0.SelfAttention",
        "",
        "layer.1.layer_norm",
        "layer.1.DenseReluDense",
        "",
    ),
    # Norms behind the sums.
    _Row(
        "post",
        "attention.output.LayerNorm",
        "attention.output.dense",
        "",
        "output.LayerNorm",
        "output.dense",
        "",
        "attention.self intermediate",
    ),
    _Row("post", "sa_layer_norm", "attention", "", "output_layer_norm", "ffn", ""),
    _Row("post", "post_attention_layernorm", "self_attn", "", "post_mlp_layernorm", "mlp", ""),
    _Row("pre", _NORM_1, _ATTENTION, "", _NORM_2, _MLP, "", "fc1 intermediate"),
    _Row("parallel", "input_layernorm", _ATTENTION, "", "", "mlp", ""),
)
# Factors of a branch by channels.
_SCALES = (("layer_scale1", "layer_scale2"), ("self_attn_layer_scale", "mlp_layer_scale"))
_FINAL = ("norm", "ln_f", "final_layernorm", "final_layer_norm", "final_norm", "layernorm")
# Norms within attention by their points.
_WITHIN = {
    "attn.q_norm": ("q_norm", "q_layernorm", "query_layernorm"),
    "attn.k_norm": ("k_norm", "k_layernorm", "key_layernorm"),
    "attn.q_latent_norm": ("q_a_layernorm",),
    "attn.kv_latent_norm": ("kv_a_layernorm",),
}
_LATENT = {"attn.q_latent_norm": "attn.hook_q_latent", "attn.kv_latent_norm": "attn.hook_kv_latent"}
_SUMS = ("hook_attn_out", "hook_resid_mid", "hook_mlp_out")


def child(module: Module, names: str | tuple[str, ...]) -> Module | None:
    """The first of these submodules that there is."""
    for name in names.split() if isinstance(names, str) else names:
        try:
            return module.get_submodule(name)
        except AttributeError:
            continue
    return None


class Layout:
    """The modules of one block. form "pre": x + branch(norm x); "post": norm(x + branch x); "parallel": both
    branches read x; "": nothing is known but its ends."""

    def __init__(self, block: Module, attention: Module) -> None:
        self.block, self.attention = block, attention
        self.form = ""
        parts: list[Module | None] = [None] * 6
        for row in _ROWS:
            found = _match(row, block)
            if found is not None:
                self.form, parts = row.form, found
                break
        self.norm_1, self.branch_1, self.behind_1, self.norm_2, self.branch_2, self.behind_2 = parts
        if self.form == "pre":
            if getattr(block, "do_layer_norm_before", True) is False:
                self.form = "post"
            if getattr(block, "use_parallel_residual", False) is True:
                self.form = "parallel"
        # What comes last of a branch.
        self.out_1, self.out_2 = self.behind_1 or self.branch_1, self.behind_2 or self.branch_2
        for pair in _SCALES:
            scales = [child(block, name) for name in pair]
            if self.form and all(scales):
                self.out_1, self.out_2 = scales
        self.factor = float(getattr(block, "residual_multiplier", None) or 1.0)

    def norms(self) -> dict[str, tuple[str, Module]]:
        """By the part of its points: the name of what it makes, and the module."""
        made: dict[str, tuple[str, Module | None]] = {}
        if self.form == "post":
            made["ln1"] = "hook_normalized_resid_mid", self.norm_1
            made["ln2"] = "hook_normalized_resid_post", self.norm_2
        else:
            made["ln1"] = "ln1.hook_normalized", self.norm_1
            made["ln2"] = "ln2.hook_normalized", self.norm_2
        made["ln1_post"] = "ln1_post.hook_normalized", self.behind_1
        made["ln2_post"] = "ln2_post.hook_normalized", self.behind_2
        for part, names in _WITHIN.items():
            made[part] = _LATENT.get(part, f"{part}.hook_normalized"), child(self.attention, names)
        none = (type(None), torch.nn.Identity)
        return {part: (name, norm) for part, (name, norm) in made.items() if not isinstance(norm, none)}

    def words(self, plain: list[str], attention: list[str], mlp: list[str]) -> list[str]:
        """The points of the block in the order of a run; among them those in front of rotary positions, of
        attention, and inside the MLP."""
        norms = self.norms()

        def of(*parts: str) -> list[str]:
            return [x for part in parts if part in norms for x in norm_words(part, *norms[part])]

        latent, norms_of_heads = (
            of("attn.q_latent_norm", "attn.kv_latent_norm"),
            of("attn.q_norm", "attn.k_norm"),
        )
        within = [*latent, *plain, *norms_of_heads, *attention]
        if not self.form:
            return ["hook_resid_pre", *within, "hook_resid_post"]
        if self.form == "post":
            first, second = ["hook_attn_out", "hook_resid_mid", *of("ln1")], [*mlp, "hook_mlp_out"]
            return ["hook_resid_pre", *within, *first, *second, "hook_resid_post", *of("ln2")]
        first = [*of("ln1"), *within, *of("ln1_post"), "hook_attn_out", "hook_resid_mid"]
        return [
            "hook_resid_pre",
            *first,
            *of("ln2"),
            *mlp,
            *of("ln2_post"),
            "hook_mlp_out",
            "hook_resid_post",
        ]


def _match(row: _Row, block: Module) -> list[Module | None] | None:
    """The modules of a row's six names, where the block has them and no other parameters."""
    found = [child(block, names) for names in row[1:7]]
    if any((part is None) != (names == "") for part, names in zip(found, row[1:7], strict=True)):
        return None
    scales = itertools.chain.from_iterable(_SCALES)
    also = [child(block, name) for name in (*row.rest.split(), *scales)]
    known = {id(x) for part in (*found, *also) if part is not None for x in part.parameters()}
    return found if all(id(x) in known for x in block.parameters()) else None


def final_norm(model: Module, block: Module) -> Module | None:
    """The norm behind the last block: beside the list of blocks, or beside what holds that."""
    paths = {id(part): path for path, part in model.named_modules()}
    parts = paths[id(block)].split(".")[:-2]
    for depth in (len(parts), len(parts) - 1):
        found = child(model.get_submodule(".".join(parts[:depth])), _FINAL) if depth >= 0 else None
        if found is not None:
            return found
    return None


# ---- norms ----


def _epsilon(norm: Module) -> float | None:
    names = ("eps", "variance_epsilon", "epsilon", "norm_eps")
    return next((float(getattr(norm, n)) for n in names if isinstance(getattr(norm, n, None), float)), None)


def norm_words(part: str, made: str, norm: Module) -> list[str]:
    """What it divides by, where it says what it adds to the square, and what it makes."""
    return [made] if _epsilon(norm) is None else [f"{part}.hook_scale", made]


def divisor(
    name: str, norm: Module, x: torch.Tensor, out: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor | float]:
    """What a norm divides by, [..., 1], and what it adds behind; which kind it is shows in what it makes."""
    weight, bias, epsilon = getattr(norm, "weight", None), getattr(norm, "bias", None), _epsilon(norm)
    wide = x.detach().double()
    behind = 0.0 if bias is None else bias
    factors = (1.0,) if weight is None else (weight.detach().double(), 1 + weight.detach().double())
    for center in (True, False):
        plain = wide - wide.mean(-1, keepdim=True) if center else wide
        scale = (plain.square().mean(-1, keepdim=True) + (epsilon or 0.0)).sqrt()
        for factor in factors:
            made = plain / scale * factor + (0.0 if bias is None else bias.detach())
            bound = 64 * torch.finfo(out.dtype).eps * made.abs().max()
            if made.shape == out.shape and bool((made - out.detach()).abs().max() <= bound):
                plain = x - x.mean(-1, keepdim=True) if center else x
                return (plain.square().mean(-1, keepdim=True) + (epsilon or 0.0)).sqrt(), behind
    raise RuntimeError(
        f"{name} is unknown: {type(norm).__name__} is neither LayerNorm nor an RMS norm with its weights or "
        f"1 + these"
    )


class Rows:
    """[batch, tokens, width], also of modules that see the tokens of all texts in one row."""

    def __init__(self, batch: int, tokens: int, x: torch.Tensor) -> None:
        self._before, self._flat = (batch, tokens), x.dim() == 2

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(*self._before, x.shape[-1]) if self._flat else x

    def back(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(0, 1) if self._flat else x


class _Heads:
    """Vectors of heads with the tokens first, [batch, tokens, heads, width], however the module has them."""

    def __init__(self, attention: Module, x: torch.Tensor, tokens: int) -> None:
        width = getattr(attention, "head_dim", None) or x.shape[-1]
        self._shape, self._heads = x.shape, x.numel() // (x.shape[0] * tokens * width)
        self._width = width
        self._swapped = x.dim() == 4 and x.shape[1] != tokens
        if x.dim() == 4 and x.shape[1] == x.shape[2]:
            # As many heads as tokens: what is apart further came first before it was transposed.
            self._swapped = x.stride(1) < x.stride(2)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if x.dim() == 4:
            return x.transpose(1, 2) if self._swapped else x
        if x.shape[-1] == 1:
            return x.unsqueeze(2)
        return x.view(*x.shape[:2], self._heads, self._width)

    def back(self, x: torch.Tensor) -> torch.Tensor:
        if len(self._shape) == 4:
            return x.transpose(1, 2) if self._swapped else x
        return x.reshape(*self._shape[:2], x.shape[2] * x.shape[3])


def norm_hook(
    norm: Module,
    names: tuple[str, str],
    wants: Callable[[str], bool],
    pass_on: Pass,
    placing: Callable[[torch.Tensor], Rows | _Heads] | None = None,
) -> Any:
    """Of points (what it divides by, what it makes); `placing`: how a point has what the module has."""
    scale_name, made_name = names

    def behind(
        _: Module, arguments: tuple[Any, ...], named: dict[str, Any], out: torch.Tensor
    ) -> torch.Tensor:
        if not wants(scale_name) and not wants(made_name):
            return out
        x = arguments[0] if arguments else named["hidden_states"]
        places = Rows(0, 0, x) if placing is None else placing(x)
        if wants(scale_name):
            scale, added = divisor(scale_name, norm, x, out)
            given = places(scale)
            left = pass_on(scale_name, given)
            if left is not given:
                out = added + (out - added) * (scale / places.back(left))
        return places.back(pass_on(made_name, places(out)))

    return norm.register_forward_hook(behind, with_kwargs=True)


# ---- streams ----


def _first(out: Any) -> torch.Tensor:
    found: torch.Tensor = out[0] if isinstance(out, tuple) else out
    return found


def _given(arguments: tuple[Any, ...], named: dict[str, Any]) -> torch.Tensor:
    found: torch.Tensor = arguments[0] if arguments else named["hidden_states"]
    return found


class Streams:
    """Hooks of one block: its ends, what its branches add, and the sum between them."""

    def __init__(self, layout: Layout, layer: int, wants: Callable[[str], bool], pass_on: Pass) -> None:
        self._layout, self._layer = layout, layer
        self._asks, self._pass = wants, pass_on
        self._seen: dict[str, torch.Tensor] = {}
        # Texts and tokens of the run.
        self.size: tuple[int, int] = (0, 0)

    def _name(self, word: str) -> str:
        return f"blocks.{self._layer}.{word}"

    def _wants(self, word: str) -> bool:
        return self._asks(self._name(word))

    def _note(self, word: str, x: torch.Tensor) -> torch.Tensor:
        found = self._pass(self._name(word), x) if self._wants(word) else x
        self._seen[word] = found
        return found

    def attach(self) -> list[Any]:
        layout = self._layout
        handles = [
            layout.block.register_forward_pre_hook(self._begin, with_kwargs=True),
            layout.block.register_forward_hook(self._end),
        ]
        if layout.form == "post":
            assert layout.norm_1 is not None and layout.norm_2 is not None
            handles.append(layout.norm_1.register_forward_pre_hook(self._between, with_kwargs=True))
            handles.append(layout.norm_2.register_forward_pre_hook(self._sum, with_kwargs=True))
        elif layout.form == "pre":
            between = layout.norm_2 or layout.branch_2
            assert between is not None
            handles.append(between.register_forward_pre_hook(self._between, with_kwargs=True))
        for part, (made, norm) in layout.norms().items():
            names = self._name(f"{part}.hook_scale"), self._name(made)
            placing = self._heads if part in ("attn.q_norm", "attn.k_norm") else self._rows
            handles.append(norm_hook(norm, names, self._asks, self._pass, placing))
        for word, module in (("hook_attn_out", layout.out_1), ("hook_mlp_out", layout.out_2)):
            if module is not None:
                handles.append(module.register_forward_hook(self._branch(word)))
        if layout.form == "post":
            assert layout.norm_1 is not None
            handles.append(layout.norm_1.register_forward_hook(self._normalized))
        return handles

    def _heads(self, x: torch.Tensor) -> _Heads:
        return _Heads(self._layout.attention, x, self.size[1])

    def _rows(self, x: torch.Tensor) -> Rows:
        return Rows(*self.size, x)

    def _begin(self, _: Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        x = _given(arguments, named)
        self._seen.clear()
        found = self._note("hook_resid_pre", x)
        self.size = (x.shape[0], x.shape[1])
        if arguments:
            return (found, *arguments[1:]), named
        return arguments, {**named, "hidden_states": found}

    def _branch(self, word: str) -> Any:
        factor = self._layout.factor

        def behind(_: Module, __: Any, out: Any) -> Any:
            x = _first(out)
            view = self._rows(x)(x if factor == 1 else x * factor)
            left = self._note(word, view)
            if left is view:
                return out
            left = self._rows(x).back(left if factor == 1 else left / factor)
            return (left, *out[1:]) if isinstance(out, tuple) else left

        return behind

    def _place(self, word: str, x: torch.Tensor) -> None:
        """The block goes on with the same tensor in other places, so an edit is written into it."""
        rows = self._rows(x)
        view = rows(x)
        left = self._note(word, view)
        if left is not view:
            x.copy_(rows.back(left))

    def _between(self, _: Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        x = _given(arguments, named)
        self._adds(("hook_resid_pre", "hook_attn_out"), x)
        self._place("hook_resid_mid", x)

    def _normalized(self, _: Module, __: Any, out: torch.Tensor) -> None:
        self._seen["hook_normalized_resid_mid"] = self._rows(out)(out)

    def _sum(self, _: Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        x = _given(arguments, named)
        self._adds(("hook_normalized_resid_mid", "hook_mlp_out"), x)
        self._place("hook_resid_post", x)

    def _end(self, _: Module, __: Any, out: Any) -> Any:
        found, form = _first(out), self._layout.form
        if form == "post":
            return None
        if form == "pre":
            self._adds(("hook_resid_mid", "hook_mlp_out"), found)
        elif form == "parallel":
            self._adds(("hook_resid_pre", "hook_attn_out", "hook_mlp_out"), found)
            found = self._with_middle(found)
        left = self._note("hook_resid_post", found)
        return (left, *out[1:]) if isinstance(out, tuple) else left

    def _with_middle(self, out: torch.Tensor) -> torch.Tensor:
        """What a parallel block gives, whose sum of the stream and attention is no tensor of the run."""
        if not self._wants("hook_resid_mid"):
            return out
        mid = self._seen["hook_resid_pre"] + self._seen["hook_attn_out"]
        left = self._note("hook_resid_mid", mid)
        return out if left is mid else out + (left - mid)

    def _adds(self, words: tuple[str, ...], whole: torch.Tensor) -> None:
        """That the points are what they are called, in a block that drops nothing out."""
        block = self._layout.block
        asked = [word for word in (*words, "hook_resid_mid") if word in _SUMS and self._wants(word)]
        if not asked or block.training:
            return
        lacking = [word for word in words if word not in self._seen]
        same = False
        if not lacking:
            parts = [self._seen[word].detach() for word in words]
            eps = max(torch.finfo(x.dtype).eps for x in (*parts, whole))
            bound = 16 * eps * max(float(x.abs().max()) for x in parts)
            total = torch.stack([x.double() for x in parts]).sum(0)
            same = float((total - self._rows(whole)(whole.detach()).double()).abs().max()) <= bound
        if not same:
            raise RuntimeError(
                f"{self._name(asked[0])} is no place of {type(block).__name__}, which goes on with something "
                f"else than the sum of {' and '.join(words)}; torch's hooks reach its modules"
            )
