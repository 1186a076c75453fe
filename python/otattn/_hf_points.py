"""Points of transformers models that run on otattn: captures, edits and patching by `otattn.Model`'s names.

Queries, keys, values, scores, weights and mixed values pass through `otattn.hf.attention_forward`, which
hands them to the module's `Tap`; the stream, what blocks add to it, norms and what is within MLPs go through
hooks of torch (`_hf_blocks`, `_hf_parts`).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from . import _hf_blocks, _hf_experts, _hf_parts, _hf_rows, _hf_watch
from ._hf_texts import row_of, texts_of, token_of
from ._models.capture import HEAD_AXES, chosen, head_set, layer_of, part_of, point_name
from ._models.edits import KINDS, Edit, ranges_of
from ._models.studies import Patching
from ._models.views import TextWeights
from ._settings import shown, whole
from ._shapes import shape_text

_LISTER = "otattn.hf.points(model)"
# Of points that `otattn.Model` has, why they are not here.
_ELSEWHERE = {
    "logits": "the model returns them",
    "attn.hook_q": "its attention has no module whose outputs they are, or turns them itself",
    "attn.hook_k": "its attention has no module whose outputs they are, or turns them itself",
    **dict.fromkeys(
        (
            *(f"mlp.hook_{word}" for word in _hf_experts.OF_ROUTERS),
            *(f"mlp.experts.hook_{word}" for word in _hf_experts.OF_EXPERTS),
        ),
        "its layers have no router that returns logits, weights and indices, or no experts in one module "
        "that is not quantised",
    ),
}
# Points that nothing reads again, and what to edit in their places.
_UNREAD = {
    "attn.hook_receiver": "nothing reads it again; edit attn.hook_pattern",
    "mlp.hook_expert_indices": "it follows from mlp.hook_expert_weights; edit those",
}
_PAIRS = ("attn.hook_attn_scores", "attn.hook_pattern")
# Tokens of a batch of patched runs.
_TOKENS = 1024


class Points(Mapping[str, torch.Tensor]):
    """Tensors of one run by the name of their point; ``points["pattern", 3]`` is the short way."""

    def __init__(self, found: dict[str, torch.Tensor], heads: Sequence[int] | None = None) -> None:
        self._found, self._heads = found, heads

    def __getitem__(self, name: str | tuple[Any, ...]) -> torch.Tensor:
        return self._found[point_name(*name) if isinstance(name, tuple) else name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def _weights(self, tokens: Sequence[str], batch: int) -> TextWeights:
        named = {
            name: x for name, x in self._found.items() if part_of(name) == part_of(point_name("pattern", 0))
        }
        if not named:
            raise ValueError("no attn.hook_pattern was captured; ask for points='pattern'")
        layers = {}
        batch = whole("batch", batch, 0, len(next(iter(named.values()))) - 1)
        for name, x in named.items():
            if not len(tokens) == x.shape[2] == x.shape[3]:
                raise ValueError(
                    f"tokens are {len(tokens)}, and {name} has {x.shape[2]} queries and {x.shape[3]} keys; "
                    "give one for each position of the text, padding too, of a run without a cache"
                )
            layers[layer_of(name) or 0] = x[batch].detach().float().cpu().numpy()
        causal = not any(np.triu(x, 1).any() for x in layers.values())
        return TextWeights(layers, list(tokens), self._heads, causal)

    def to_bertviz(self, tokens: Sequence[str], batch: int = 0) -> dict[str, Any]:
        """What ``bertviz.head_view(**...)`` and ``model_view(**...)`` take, of one text.

        Parameters
        ----------
        tokens : sequence of str
            One a position: ``tokenizer.convert_ids_to_tokens(ids[batch])``.
        batch : int
            Which of the texts.

        Returns
        -------
        attention : tuple of tensors, shape (1, heads, tokens, tokens), one a captured layer
        tokens : list of str

        Raises
        ------
        ValueError
            Without weights among the points, or of as many positions.
        """
        return self._weights(tokens, batch).for_bertviz()

    def to_circuitsvis(
        self, tokens: Sequence[str], layer: int | None = None, batch: int = 0
    ) -> dict[str, Any]:
        """What ``circuitsvis.attention.attention_heads(**...)`` takes, of one text.

        Parameters
        ----------
        tokens, batch
            As in `to_bertviz`.
        layer : int, optional
            One of the captured; all, layer by layer, without it.

        Returns
        -------
        attention : array, shape (heads, queries, keys)
        tokens : list of str
        attention_head_names : list of str
            "L3H0", ...
        mask_upper_tri : bool
            Whether no token sees a later one.

        Raises
        ------
        ValueError
            As in `to_bertviz`, and of a layer that was not captured.
        """
        return self._weights(tokens, batch).for_circuitsvis(layer)


class _Run:
    """What is asked of the runs of one model while its hooks stand."""

    def __init__(self) -> None:
        self.edits: list[tuple[Edit, frozenset[str]]] = []
        self.wanted: frozenset[str] = frozenset()
        self.found: dict[str, torch.Tensor] = {}
        # Heads that a capture asks for, as given; None: all.
        self.heads: Any = None
        # Where the weights or scores of one head go; None: to a tensor of their own.
        self.out: Any = None
        self.handles: list[Any] = []
        self.uses = 0
        # Texts of the run, from its embedding on.
        self.batch = 1
        self.plain: dict[str, torch.Tensor] = {}

    def wants(self, name: str) -> bool:
        return name in self.wanted or self.edits_at(name)

    def edits_at(self, name: str) -> bool:
        return any(name in names for _, names in self.edits)

    def pass_on(self, name: str, x: torch.Tensor, alike: bool = True) -> torch.Tensor:
        """The tensor as edits leave it, which is what a capture holds; alike: rows of pairs see the same
        keys."""
        for edit, names in self.edits:
            if name in names:
                x = changed(edit, name, x, alike)
        if name in self.wanted:
            pairs = self.heads is not None and part_of(name) in _PAIRS
            self.keep(name, x[:, list(head_set(self.heads, x.shape[1]))] if pairs else x)
        return x

    def keep(self, name: str, x: torch.Tensor) -> None:
        """For the capture."""
        if name in self.found:
            raise RuntimeError(f"{name} was passed twice in one run, so a capture would hold the last alone")
        self.found[name] = x

    def of_heads(self, count: int) -> dict[str, torch.Tensor]:
        """What was found, of the heads that were asked for; a layer has so many."""
        if self.heads is None:
            return self.found
        kept = torch.tensor(head_set(self.heads, count))
        axes = {name: HEAD_AXES.get(part_of(name)) for name in self.found}
        return {
            name: x if axis is None or x.shape[axis] != count else x.index_select(axis, kept.to(x.device))
            for (name, x), axis in zip(self.found.items(), axes.values(), strict=True)
        }

    def begin(self, _: Any, arguments: Any, named: dict[str, Any]) -> None:
        """Refuses what an edit of tokens cannot mean."""
        past = named.get("past_key_values")
        behind = past is not None and past.get_seq_length() > 0
        if behind and any(edit.token is not None or edit.kind == "mean" for edit, _ in self.edits):
            raise ValueError("edits of tokens want the whole text in one run; generate with use_cache=False")
        mask = named.get("attention_mask")
        padded = isinstance(mask, torch.Tensor) and mask.dim() == 2 and not bool(mask.bool().all())
        if padded and any(edit.kind == "mean" for edit, _ in self.edits):
            raise ValueError("a mean over the tokens of a text would count its padding; run texts one by one")


class Tap:
    """The points of one attention module."""

    def __init__(self, run: _Run, layer: int, factor: float | None, normed: bool) -> None:
        """`factor`: what rotary positions multiply by; None: there are none. `normed`: norms stand before
        them."""
        self._run, self._layer = run, layer
        self._rotated, self._factor, self._normed = "" if factor is None else "rot_", factor or 1.0, normed
        self._alike = True
        self.heads = 0

    def _name(self, word: str) -> str:
        return f"blocks.{self._layer}.attn.hook_{word}"

    def wants(self, word: str) -> bool:
        return self._run.wants(self._name(word))

    def few(self, word: str) -> list[int] | None:
        """The heads, where only a capture asks for this point and not for all."""
        name, run = self._name(word), self._run
        alone = run.heads is not None and name in run.wanted and not run.edits_at(name)
        return list(head_set(run.heads, self.heads)) if alone else None

    def sink(self, word: str, heads: int, query: torch.Tensor, keys: int) -> _hf_rows.Put:
        """What takes blocks of rows of the pairs of so many heads that a capture asks for."""
        run, name = self._run, self._name(word)
        if run.out is not None:
            # Passed, and not held.
            run.keep(name, query.new_empty(0))
            return functools.partial(_put, shaped(run.out, (len(query), query.shape[2], keys)))
        whole = query.new_zeros(len(query), heads, query.shape[2], keys)
        run.keep(name, whole)

        def put(place: int, rows: slice, block: torch.Tensor) -> None:
            whole[:, place : place + 1, rows, : block.shape[-1]] = block

        return put

    def __call__(self, word: str, x: torch.Tensor) -> torch.Tensor:
        return self._run.pass_on(self._name(word), x, self._alike)

    def inputs(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, factor: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Of (batch, heads, length, width); points have the tokens first. factor: by which the module has
        multiplied its queries already (OPT, BART)."""
        self.heads = query.shape[1]
        self._turned("q", query)
        self._turned("k", key)
        named = ((f"{self._rotated}q", query, factor), (f"{self._rotated}k", key, 1.0), ("v", value, 1.0))
        found = []
        for word, x, by in named:
            if self.wants(word):
                plain = x.transpose(1, 2) / by if by != 1 else x.transpose(1, 2)
                left = self(word, plain)
                x = x if left is plain else (left * by if by != 1 else left).transpose(1, 2)
            found.append(x)
        return found[0], found[1], found[2]

    def _turned(self, word: str, x: torch.Tensor) -> None:
        """That what was captured in front of rotary positions is what they turned."""
        plain = self._run.plain.pop(self._name(word), None)
        if plain is None or self._normed:
            return
        found = x.detach().float().square().sum(-1).transpose(1, 2)
        near = 64 * torch.finfo(x.dtype).eps * float(plain.max())
        least, most = sorted((1.0, self._factor**2))
        low, high, tokens = least * plain - near, most * plain + near, plain.shape[1]
        # Behind a cache they are among its keys, in a static one at any place.
        wide = found[:, : max(0, found.shape[1] - tokens + 1)]
        fits = wide.shape[::2] == plain.shape[::2]
        begins = ((wide >= low[:, :1]) & (wide <= high[:, :1])).all(2).all(0) if fits else torch.zeros(0)
        places = (found[:, k : k + tokens] for k in begins.nonzero().flatten().tolist())
        if not any(bool(((part >= low) & (part <= high)).all()) for part in places):
            raise RuntimeError(
                f"{self._name(word)} is unknown: what the module of that name gives is not what is turned"
            )

    def scores(
        self,
        pair: tuple[torch.Tensor, torch.Tensor],
        scale: float | None,
        softcap: float | None,
        seen: Callable[[slice], torch.Tensor | None],
        bias: torch.Tensor | None,
    ) -> torch.Tensor | None:
        """The bias with what edits of the scores come to; seen: which pairs of some rows these are of."""
        whole, allowed = slice(None), None
        if any(self._run.edits_at(self._name(word)) for word in ("attn_scores", "pattern")):
            allowed = seen(whole)
            self._alike = allowed is None or bool((allowed == allowed[..., :1, :]).all())
        if not self.wants("attn_scores"):
            return bias
        few = self.few("attn_scores")
        if few is not None:
            put = self.sink("attn_scores", len(few), pair[0], pair[1].shape[2])
            for place, head in enumerate(few):
                query, key, own = (_hf_rows.of_heads(x, [head], self.heads) for x in (*pair, bias))
                for rows in _hf_rows.blocks(len(query), query.shape[2], key.shape[2]):
                    plain = _hf_rows.scores((query, key), rows, scale, softcap, own)
                    put(place, rows, _masked(plain, _hf_rows.of_heads(seen(rows), [head], self.heads)))
            return bias
        query, key = pair
        key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
        allowed = seen(whole) if allowed is None else allowed
        plain = _masked(_hf_rows.scores((query, key), whole, scale, softcap, bias), allowed)
        edited = self("attn_scores", plain)
        if edited is plain:
            return bias
        more = torch.where(plain == -torch.inf, 0, edited - plain)
        return more if bias is None else bias + more

    def mixed(
        self, weights: torch.Tensor, value: torch.Tensor, out: torch.Tensor, dropout: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Weights as edits leave them, and the values mixed by these."""
        edited = self("pattern", weights)
        if edited is weights:
            return out, weights
        if dropout:
            raise ValueError("edited weights are mixed without dropout; call model.eval()")
        value = value.repeat_interleave(edited.shape[1] // value.shape[1], 1)
        return edited.to(value.dtype) @ value, edited


def _masked(scores: torch.Tensor, allowed: torch.Tensor | None) -> torch.Tensor:
    return scores if allowed is None else scores.masked_fill(~allowed, -torch.inf)


def shaped(out: Any, shape: tuple[int, int, int]) -> Any:
    """An array that gets the pairs of one head, where it has room for them."""
    if isinstance(out, torch.Tensor):
        fits = out.is_floating_point()
    else:
        fits = getattr(out, "dtype", None) == np.float32
    if not fits or tuple(out.shape) != shape:
        raise ValueError(f"out is {shown_array(out)}, wanted float32 of shape {shape}")
    return out


def shown_array(x: Any) -> str:
    return f"{x.dtype} of shape {tuple(x.shape)}" if hasattr(x, "dtype") else f"a {type(x).__name__}"


def _put(out: Any, _: int, rows: slice, block: torch.Tensor) -> None:
    found: Any = block[:, 0].detach()
    if not isinstance(out, torch.Tensor):
        found = found.float().cpu().numpy()
    out[:, rows, : block.shape[-1]] = found
    out[:, rows, block.shape[-1] :] = 0


def _places(name: str, given: Any, size: int, point: str) -> torch.Tensor:
    found: list[int] = []
    for first, count in ranges_of(name, given, size):
        end = first + count if count else size
        if not 0 <= first < end <= size:
            raise ValueError(f"{name} is {shown(given)}, and {point} has {size}")
        found += range(first, end)
    return torch.tensor(found)


def changed(edit: Edit, point: str, x: torch.Tensor, alike: bool = True) -> torch.Tensor:
    """The tensor of a point as the edit leaves it; gradients go through. alike: rows of weights see the same
    keys."""
    pairs = part_of(point) in _PAIRS
    tokens, heads = (2, 1) if pairs else (1, 2 if x.dim() == 4 else None)
    mesh = []
    for name, dim in (("sequence", 0), ("token", tokens), ("head", heads), ("column", x.dim() - 1)):
        given = getattr(edit, name)
        if dim is None:
            if given is not None:
                raise ValueError(f"{name} is {shown(given)}, and {point} has no heads")
            continue
        places = _places(name, given, x.shape[dim], point).to(x.device)
        mesh.append((dim, places.view([-1 if k == dim else 1 for k in range(x.dim())])))
    index = tuple(places for _, places in sorted(mesh, key=lambda pair: pair[0]))
    part = x[index]
    factor = edit.factor if edit.factor is not None else 1.0 if edit.kind == "add" else 0.0
    if edit.kind == "scale":
        return x.index_put(index, part * factor)
    if edit.kind == "mean":
        if pairs and not alike:
            raise ValueError(f"rows of {point} see different keys, so they have no mean")
        return x.index_put(index, x.mean(tokens, keepdim=True).expand_as(x)[index])
    if edit.values is None:
        raise ValueError(f"{edit!r} has no values, which kind {shown(edit.kind)} wants")
    values = torch.as_tensor(edit.values, dtype=x.dtype, device=x.device)
    try:
        values = values.broadcast_to(part.shape)
    except RuntimeError:
        raise ValueError(
            f"values have shape {shape_text(values)}, and the places of {point} {shape_text(part)}"
        ) from None
    return x.index_put(index, values if edit.kind == "replace" else part + factor * values)


def _blocks(model: torch.nn.Module) -> list[torch.nn.Module]:
    """The block of each attention module: the outermost element of a list of modules around it."""
    paths = {id(part): path for path, part in model.named_modules()}
    found = []
    for layer in _hf_watch.layers_of(model):
        parts = paths[id(layer)].split(".")
        for depth in range(1, len(parts)):
            if isinstance(model.get_submodule(".".join(parts[:depth])), torch.nn.ModuleList):
                found.append(model.get_submodule(".".join(parts[: depth + 1])))
                break
    return found


def layouts(model: torch.nn.Module) -> list[_hf_blocks.Layout]:
    """Of each block, of models with one attention module a block."""
    blocks, layers = _blocks(model), _hf_watch.layers_of(model)
    if not len({id(block) for block in blocks}) == len(blocks) == len(layers):
        return []
    return [_hf_blocks.Layout(*pair) for pair in zip(blocks, layers, strict=True)]


def _final(model: torch.nn.Module, known: list[_hf_blocks.Layout]) -> torch.nn.Module | None:
    """The norm behind all blocks, of models with one list of them whose streams end in one."""
    if not known or known[-1].form in ("", "post"):
        return None
    found = [_hf_blocks.final_norm(model, layout.block) for layout in known]
    return found[0] if all(norm is found[0] for norm in found) else None


def _rotary(model: torch.nn.Module) -> float | None:
    """What rotary positions multiply by; None: the model has none."""
    found = [part for part in model.modules() if "Rotary" in type(part).__name__]
    factors = [getattr(part, "attention_scaling", None) for part in found]
    return max((float(x) for x in factors if isinstance(x, (int, float))), default=1.0) if found else None


def _latent_keys(model: torch.nn.Module) -> dict[str, str]:
    """Keys of latent attention, and why they cannot be edited."""
    why = "heads share a part of it, which is turned before; edit attn.hook_rot_k or attn.hook_kv_latent"
    return {
        f"blocks.{layer}.attn.hook_k": why
        for layer, layout in enumerate(layouts(model))
        if _hf_parts.LatentKeys(layout).known
    }


def _plain_words(layout: _hf_blocks.Layout) -> list[str]:
    words = [*_hf_parts.plain(layout), *(["k"] if _hf_parts.LatentKeys(layout).known else [])]
    return [f"attn.hook_{word}" for word in words]


def points(model: torch.nn.Module) -> list[str]:
    """`otattn.hf.points`."""
    rotated = "" if _rotary(model) is None else "rot_"
    attention = (f"{rotated}q", f"{rotated}k", "v", "attn_scores", "pattern", "receiver", "z")
    words = [f"attn.hook_{word}" for word in attention]
    known = layouts(model)
    blocks = [
        layout.words(
            _plain_words(layout) if rotated else [],
            [*words, *(["attn.hook_result"] if _hf_parts.projection(layout) else [])],
            [
                *_hf_parts.Inside(layout).words(),
                *_hf_experts.Mixture(layout).words(),
                *_hf_parts.Inside(layout, shared=True).words(),
            ],
        )
        for layout in known
    ] or len(_hf_watch.layers_of(model)) * [words]
    last = _final(model, known)
    names = [*_hf_parts.embeddings(model, known)]
    names += [f"blocks.{layer}.{word}" for layer, block in enumerate(blocks) for word in block]
    return names + (_hf_blocks.norm_words("ln_final", "ln_final.hook_normalized", last) if last else [])


def _chosen(words: Any, names: list[str], layers: Any) -> list[str]:
    """`chosen`, which says why a point of `otattn.Model` is not here."""
    for word in [words] if isinstance(words, str) else words:
        part = part_of(word) if isinstance(word, str) else ""
        for known, why in _ELSEWHERE.items():
            same = part in (known, known.removeprefix("attn.")) or part_of(point_name(part, 0)) == known
            if part and same and not any(part_of(name) == known for name in names):
                raise ValueError(
                    f"otattn.hf has no point {shown(word)} of this model: {why}; otattn.Model may have it, "
                    f"{_LISTER} lists those that there are"
                )
    return chosen(words, names, layers, _LISTER)


def _size(streams: _hf_blocks.Streams, tap: Tap) -> tuple[int, int, int]:
    return streams.size[0], streams.size[1], tap.heads


def _texts(streams: _hf_blocks.Streams) -> tuple[int, int]:
    return streams.size


def _attach(model: torch.nn.Module) -> _Run:
    run = _Run()
    factor, known = _rotary(model), layouts(model)
    taps = []
    for layer, module in enumerate(_hf_watch.layers_of(model)):
        normed = bool(known) and bool({"attn.q_norm", "attn.k_norm"} & known[layer].norms().keys())
        module.__dict__["_otattn_tap"] = tap = Tap(run, layer, factor, normed)
        taps.append(tap)
    run.handles.append(model.register_forward_pre_hook(run.begin, with_kwargs=True))
    for name, part in _hf_parts.embeddings(model, known).items():
        run.handles.append(_hf_parts.embedding_hook(name, part, run))
    for layer, layout in enumerate(known):
        streams = _hf_blocks.Streams(layout, layer, run.wants, run.pass_on)
        size = functools.partial(_size, streams, taps[layer])
        behind = _hf_parts.projection(layout)
        if behind is not None:
            # Before the branch, which may end in the same module.
            name = f"blocks.{layer}.attn.hook_result"
            run.handles.append(_hf_parts.result_hook(name, behind, run, size))
        if factor is not None:
            texts = functools.partial(_texts, streams)
            run.handles += [
                _hf_parts.plain_hook(f"blocks.{layer}.attn.hook_{word}", part, run, texts)
                for word, part in _hf_parts.plain(layout).items()
            ]
            run.handles += _hf_parts.LatentKeys(layout).attach(f"blocks.{layer}.attn.hook_k", run, texts)
        run.handles += streams.attach()
        run.handles += _hf_experts.MixtureHooks(_hf_experts.Mixture(layout), layer, run, size).attach()
        for inside in (_hf_parts.Inside(layout), _hf_parts.Inside(layout, shared=True)):
            run.handles += _hf_parts.InsideHooks(inside, layer, run, size).attach()
    last = _final(model, known)
    if last is not None:
        names = "ln_final.hook_scale", "ln_final.hook_normalized"
        run.handles.append(_hf_blocks.norm_hook(last, names, run.wants, run.pass_on))
    return run


@contextlib.contextmanager
def attached(model: torch.nn.Module) -> Iterator[_Run]:
    """The run of a model, whose hooks stand as long as anybody uses it."""
    run = model.__dict__.get("_otattn_run")
    if run is None:
        run = model.__dict__["_otattn_run"] = _attach(model)
    run.uses += 1
    try:
        yield run
    finally:
        run.uses -= 1
        if run.uses == 0:
            del model.__dict__["_otattn_run"]
            for handle in run.handles:
                handle.remove()
            for module in _hf_watch.layers_of(model):
                module.__dict__.pop("_otattn_tap", None)


@contextlib.contextmanager
def edited(model: torch.nn.Module, edits: Iterable[Edit]) -> Iterator[None]:
    """`otattn.hf.edited`, of a model that runs on otattn."""
    names = points(model)
    unread = _latent_keys(model)
    known: list[tuple[Edit, frozenset[str]]] = []
    for edit in edits:
        if not isinstance(edit, Edit):
            raise TypeError(f"an edit is a {type(edit).__name__}, wanted otattn.Edit")
        if edit.kind not in KINDS:
            raise ValueError(f"kind is {shown(edit.kind)}, wanted one of {', '.join(KINDS)}")
        places = frozenset(_chosen(edit.point, names, edit.layer))
        for name in filter(places.__contains__, names):
            why = unread.get(name, _UNREAD.get(part_of(name)))
            if why is not None:
                raise ValueError(f"{name} cannot be edited: {why}")
        known.append((edit, places))
    with attached(model) as run:
        before = len(run.edits)
        run.edits += known
        try:
            yield
        finally:
            del run.edits[before:]


@contextlib.contextmanager
def unedited(model: torch.nn.Module) -> Iterator[bool]:
    """Runs without the edits around it; whether any of these is of what comes behind all blocks."""
    with attached(model) as run:
        before, run.edits = run.edits, []
        try:
            yield any(name.startswith(("ln_final.", "logits")) for _, names in before for name in names)
        finally:
            run.edits = before


def _ran(model: torch.nn.Module, inputs: Any) -> Any:
    if isinstance(inputs, Mapping):
        return model(**inputs)
    if not isinstance(inputs, torch.Tensor):
        raise TypeError(
            f"inputs are a {type(inputs).__name__}, wanted a tensor of ids (batch, tokens), or a dict of all "
            f"arguments, as a tokenizer returns it with return_tensors='pt'"
        )
    return model(inputs)


def capture(
    model: torch.nn.Module, inputs: Any, words: Any, layers: Any, heads: Any = None
) -> tuple[Any, Points]:
    """What the model returned, and `otattn.hf.capture`."""
    names = _chosen(words, points(model), layers)
    with attached(model) as run:
        run.wanted, run.found, run.heads = frozenset(names), {}, heads
        try:
            out = _ran(model, inputs)
            taps = [layer.__dict__["_otattn_tap"] for layer in _hf_watch.layers_of(model)]
            count = max((tap.heads for tap in taps), default=0)
            found = run.of_heads(count)
            chosen_heads = None if heads is None else head_set(heads, count)
            return out, Points({name: found[name] for name in names if name in found}, chosen_heads)
        finally:
            run.wanted, run.found, run.heads = frozenset(), {}, None


def weights(model: torch.nn.Module, inputs: Any, place: tuple[Any, Any], scores: bool, out: Any) -> Any:
    """`otattn.hf.weights`, of a model that runs on otattn."""
    layer = whole("layer", place[0], 0, len(_hf_watch.layers_of(model)) - 1)
    name = point_name("attn_scores" if scores else "pattern", layer)
    head = whole("head", place[1], -(1 << 31))
    with attached(model) as run:
        run.wanted, run.found, run.heads, run.out = frozenset((name,)), {}, head, out
        try:
            _ran(model, inputs)
            found = run.found.get(name)
        finally:
            run.wanted, run.found, run.heads, run.out = frozenset(), {}, None, None
    if found is None:
        raise ValueError(f"layer {layer} did not run with these inputs")
    if found.dim() == 1:
        return out
    # Edited weights are those of all heads.
    one = found[:, 0] if found.shape[1] == 1 else found[:, head]
    if out is None:
        return one
    _put(shaped(out, (len(one), one.shape[1], one.shape[2])), 0, slice(None), one[:, None])
    return out


def logits_of(out: Any) -> torch.Tensor:
    """(batch, tokens, vocabulary), of what a model returned."""
    logits = getattr(out, "logits", None)
    if logits is None or logits.dim() != 3:
        raise ValueError("the model has no logits of tokens; take one with a head, such as ...ForCausalLM")
    found: torch.Tensor = logits
    return found


def _behind_last(out: Any) -> torch.Tensor:
    return logits_of(out)[:, -1].double()


def patch(
    model: torch.nn.Module,
    prompts: tuple[Any, Any],
    point: str,
    by: str | None,
    answers: tuple[Any, Any],
    tokenizer: Any,
) -> Patching:
    """`otattn.hf.patch`, of a model that runs on otattn."""
    device = next(model.parameters()).device
    named = zip(("clean", "corrupt"), prompts, strict=True)
    clean, corrupt = (row_of(name, given, tokenizer, device) for name, given in named)
    if clean.shape != corrupt.shape:
        raise ValueError(f"the prompts are {clean.numel()} and {corrupt.numel()} tokens, wanted equally many")
    if (answers[0] is None) != (answers[1] is None):
        raise ValueError(
            "one of answer and other is given; give both, or none for the prompts' own predictions"
        )
    names = _chosen(point, points(model), None)
    layers = len(_hf_watch.layers_of(model))
    if len(names) != layers:
        raise ValueError(f"point is {shown(point)}, wanted one kind of point of every layer")
    out, there = capture(model, clean, names, None)
    logits = [_behind_last(out), _behind_last(model(corrupt))]
    pair = [
        int(x[0].argmax()) if given is None else token_of(name, given, tokenizer, x.shape[1])
        for x, given, name in zip(logits, answers, ("answer", "other"), strict=True)
    ]
    if pair[0] == pair[1]:
        raise ValueError("both prompts predict the same token; give answer and other")
    ends = [float(x[0, pair[0]] - x[0, pair[1]]) for x in logits]
    first = there[names[0]]
    if by is None:
        by = "head" if first.dim() == 4 else "position"
    if by not in ("position", "head") or (by == "head" and first.dim() != 4):
        raise ValueError(f"by is {shown(by)}, wanted position, or head where the point has heads")
    dim = (2 if by == "position" else 1) if part_of(names[0]) in _PAIRS else (1 if by == "position" else 2)
    cells, count = first.shape[dim], clean.shape[1]
    shares = np.empty((layers, cells))
    batch = max(1, min(cells, _TOKENS // count))
    for name in names:
        for begin in range(0, cells, batch):
            some = range(begin, min(begin + batch, cells))
            edits = [
                Edit(
                    name,
                    "replace",
                    sequence=place,
                    token=cell if by == "position" else None,
                    head=cell if by == "head" else None,
                    values=there[name].narrow(dim, cell, 1),
                )
                for place, cell in enumerate(some)
            ]
            with edited(model, edits):
                found = _behind_last(model(corrupt.repeat(len(some), 1)))
            difference = (found[:, pair[0]] - found[:, pair[1]]).cpu().numpy()
            shares[layer_of(name), begin : begin + len(some)] = (difference - ends[1]) / (ends[0] - ends[1])
    return Patching(shares, ends[0], ends[1], pair[0], pair[1], by, texts_of(corrupt, tokenizer)[0])
