"""What a run hands over at its points, by TransformerLens's names, and as others draw it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._settings import nearest, shown, whole
from .views import TextWeights

# TransformerLens's short words, as its ActivationCache takes them: cache["pattern", 3].
_ALIASES = {
    "attn": "pattern",
    "attn_logits": "attn_scores",
    "key": "k",
    "query": "q",
    "value": "v",
    "mlp_pre": "pre",
    "mlp_mid": "mid",
    "mlp_post": "post",
    "normalised": "normalized",
}
_OF_ATTENTION = ("k", "v", "q", "z", "pattern", "attn_scores", "receiver", "rot_k", "rot_q", "result")
_OF_ROUTER = ("router_logits", "expert_weights", "expert_indices", "chosen_weights")
_OF_MLP = ("pre", "post", "pre_linear", *_OF_ROUTER)
_BLOCK = re.compile(r"blocks\.(\d+)\.(.+)")


def point_name(word: str, layer: int | None = None, part: str | None = None) -> str:
    """The full name of a point, of a short word as TransformerLens's `get_act_name` takes them.

    "pattern", 3 is blocks.3.attn.hook_pattern; "resid_pre", 0 is blocks.0.hook_resid_pre; "scale", 1, "ln2"
    is blocks.1.ln2.hook_scale.
    """
    if "hook_" in word:
        return f"blocks.{layer}.{word}" if layer is not None and not word.startswith("blocks.") else word
    found = re.fullmatch(r"([a-z]+)(\d+)([a-z]?.*)", word)
    if layer is None and found and found[1] in (*_OF_ATTENTION, *_OF_MLP, *_ALIASES):
        word, layer = found[1], int(found[2])
    word = _ALIASES.get(word, word)
    if word in _OF_ATTENTION:
        part = "attn"
    elif word in _OF_MLP:
        part = "mlp"
    if part in ("a", "attn", "m", "mlp"):
        part = {"a": "attn", "m": "mlp"}.get(part, part)
    if layer is None:
        return f"ln_final.hook_{word}" if word in ("scale", "normalized") else f"hook_{word}"
    return f"blocks.{layer}.{part + '.' if part else ''}hook_{word}"


def part_of(name: str) -> str:
    """The name of a point without its block."""
    found = _BLOCK.fullmatch(name)
    return found[2] if found else name


def layer_of(name: str) -> int | None:
    """The block of a point; None for those of no block."""
    found = _BLOCK.fullmatch(name)
    return int(found[1]) if found else None


def chosen(words: Any, names: Sequence[str], layers: Any = None, lister: str = "Model.points") -> list[str]:
    """The points that words mean, in the order of the run, those of blocks of these layers alone.

    A word is a full name, one without "blocks.L.", a short one ("pattern"), or "all". `lister` is what a user
    calls for the names.
    """
    listed = [words] if isinstance(words, str) else list(words)
    kept = None if layers is None else layer_set("layers", layers, names)
    found: set[str] = set()
    for word in listed:
        if not isinstance(word, str):
            raise TypeError(f"points hold {shown(word)}, wanted names")
        same = [name for name in names if _means(word, name)]
        if not same:
            known = {part_of(name) for name in names}
            known |= {name.rpartition("hook_")[2] for name in known}
            raise ValueError(
                f"the model has no point {shown(word)}, {lister} lists them{nearest(word, known)}"
            )
        found.update(same)
    return [name for name in names if name in found and (kept is None or layer_of(name) in (*kept, None))]


def _means(word: str, name: str) -> bool:
    layer = layer_of(name)
    if word in ("all", name, part_of(name)):
        return True
    return "hook_" not in word and name == point_name(word, None if "." in word else layer)


def layer_set(name: str, given: Any, names: Sequence[str]) -> set[int]:
    """Layers, of a model with points of these names."""
    count = 1 + max(layer_of(each) or 0 for each in names)
    several = [given] if np.ndim(given) == 0 else given
    found = {whole(name, one, -count) for one in several}
    wrong = [one for one in found if one >= count]
    if wrong or not found:
        raise ValueError(f"{name} is {shown(given)}, and the model has layers 0 to {count - 1}")
    return {one % count for one in found}


def head_set(given: Any, count: int) -> tuple[int, ...]:
    """Heads, of so many of a layer."""
    several = [given] if np.ndim(given) == 0 else given
    found = tuple(sorted({whole("heads", one, -count) % count for one in several if _below(one, count)}))
    if not found:
        raise ValueError("heads is empty, wanted at least one")
    return found


def _below(head: Any, count: int) -> bool:
    if whole("heads", head, -count) >= count:
        raise ValueError(f"heads hold {shown(head)}, and a layer has {count} heads")
    return True


# Where arrays that come with all heads, of queries, have them.
HEAD_AXES = {
    "attn.hook_receiver": 1,
    "attn.hook_q": 2,
    "attn.q_norm.hook_scale": 2,
    "attn.q_norm.hook_normalized": 2,
    "attn.hook_rot_q": 2,
    "attn.hook_z": 2,
    "attn.hook_result": 2,
}


class Capture(Mapping[str, NDArray[np.float32]]):
    """Arrays of one run by the name of their point, in the order of the run.

    ``capture["blocks.3.attn.hook_pattern"]`` and ``capture["pattern", 3]`` are the same.

    Attributes
    ----------
    ids : array, shape (batch, tokens)
    lengths : array, shape (batch,), or None
        Tokens of each text, where these differ.
    tokens : list of lists of str
        The text of every token; of ids without a tokenizer, the ids.
    heads : tuple of int, or None
        The heads that arrays with a dimension of heads hold; None: all.
    model : str
    causal : bool
    """

    def __init__(
        self,
        arrays: dict[str, NDArray[np.float32]],
        ids: NDArray[np.int64],
        lengths: NDArray[np.int64] | None,
        tokens: list[list[str]],
        *,
        heads: tuple[int, ...] | None,
        model: str,
        causal: bool,
    ) -> None:
        self._arrays = arrays
        self.ids, self.lengths, self.tokens = ids, lengths, tokens
        self.heads, self.model, self.causal = heads, model, causal

    def __getitem__(self, name: str | tuple[Any, ...]) -> NDArray[np.float32]:
        full = point_name(*name) if isinstance(name, tuple) else name
        if full not in self._arrays and not isinstance(name, tuple):
            full = point_name(name)
        if full not in self._arrays:
            raise KeyError(f"{shown(name)} was not captured{nearest(full, self._arrays)}")
        return self._arrays[full]

    def __contains__(self, name: object) -> bool:
        return (point_name(*name) if isinstance(name, tuple) else name) in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        batch, count = self.ids.shape
        size = sum(x.nbytes for x in self._arrays.values()) / 1e6
        return f"Capture({self.model}: {len(self)} points of {batch} x {count} tokens, {size:.1f} MB)"

    def layers(self, part: str) -> dict[int, NDArray[np.float32]]:
        """The arrays of one kind of point by layer: "attn.hook_pattern", or "pattern" in short."""
        tail = part_of(part if "hook_" in part else point_name(part, 0))
        found = {layer_of(name): x for name, x in self._arrays.items() if part_of(name) == tail}
        return {layer: x for layer, x in found.items() if layer is not None}

    def _weights(self, batch: int) -> TextWeights:
        """Those of one text, as long as it is."""
        layers = self.layers("pattern")
        if not layers:
            raise ValueError("no attn.hook_pattern was captured; ask for points='pattern'")
        count = self.ids.shape[1] if self.lengths is None else int(self.lengths[batch])
        own = {layer: x[batch, :, :count, :count] for layer, x in layers.items()}
        return TextWeights(own, self.tokens[batch][:count], self.heads, self.causal)

    def to_bertviz(self, batch: int = 0) -> dict[str, Any]:
        """What ``bertviz.head_view(**...)`` and ``model_view(**...)`` take, of one text.

        Returns
        -------
        attention : tuple of torch tensors, shape (1, heads, tokens, tokens), one a captured layer
        tokens : list of str
        """
        return self._weights(batch).for_bertviz()

    def to_circuitsvis(self, layer: int | None = None, batch: int = 0) -> dict[str, Any]:
        """What ``circuitsvis.attention.attention_heads(**...)`` takes, of one text.

        Returns
        -------
        attention : array, shape (heads, queries, keys)
            Of one layer, or of all captured ones, layer by layer.
        tokens : list of str
        attention_head_names : list of str
            "L3H0", ...
        mask_upper_tri : bool
            Whether the model is causal.
        """
        return self._weights(batch).for_circuitsvis(layer)
