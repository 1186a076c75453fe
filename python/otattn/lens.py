"""Models of this package behind TransformerLens's calls: `Model.as_transformer_lens`.

Code that asks a HookedTransformer for tokens, logits and a cache of activations reads gguf files and models
under any attention method with it. Tensors are torch's. What differs: weights are those of the file
(TransformerLens's `from_pretrained_no_processing`), and a run is changed by `edits=`, not by Python hooks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import torch

from ._models.capture import point_name
from ._models.model import Model
from ._models.session import RunOptions
from ._settings import flag, shown

__all__ = ["HookedModel", "LensCache", "LensConfig"]

# What a tokenizer calls the piece before a text, where its settings put none there.
_BEGINNINGS = ("<bos>", "<s>", "<|begin_of_text|>", "<|endoftext|>", "[CLS]")
NamesFilter = str | Iterable[str] | Callable[[str], bool] | None


@dataclass(frozen=True)
class LensConfig:
    """The fields of HookedTransformerConfig that a checkpoint says."""

    model_name: str
    n_layers: int
    n_heads: int
    n_key_value_heads: int
    d_model: int
    d_head: int
    d_mlp: int
    d_vocab: int
    n_ctx: int
    eps: float
    normalization_type: str
    positional_embedding_type: str
    attention_dir: str
    default_prepend_bos: bool
    n_params: int
    device: str = "cpu"
    dtype: torch.dtype = torch.float32
    use_attn_result: bool = False
    use_split_qkv_input: bool = False
    use_hook_mlp_in: bool = False
    attn_only: bool = False
    parallel_attn_mlp: bool = False


class LensCache(Mapping[Any, torch.Tensor]):
    """Activations by name: ``cache["pattern", 0]``, ``cache["blocks.0.attn.hook_pattern"]``.

    ``transformer_lens.ActivationCache(cache.cache_dict, model)`` has all of TransformerLens's own methods.
    """

    def __init__(
        self, cache_dict: dict[str, torch.Tensor], model: HookedModel, has_batch_dim: bool = True
    ) -> None:
        self.cache_dict, self.model = cache_dict, model
        self.has_batch_dim = flag("has_batch_dim", has_batch_dim)

    def __getitem__(self, name: Any) -> torch.Tensor:
        parts = list(name) if isinstance(name, tuple) else [name]
        if len(parts) > 1 and isinstance(parts[1], int) and parts[1] < 0:
            parts[1] += self.model.cfg.n_layers
        full = parts[0] if parts[0] in self.cache_dict else point_name(*parts)
        if full not in self.cache_dict:
            raise KeyError(f"{shown(name)} is not in the cache")
        return self.cache_dict[full]

    def __iter__(self) -> Iterator[str]:
        return iter(self.cache_dict)

    def __len__(self) -> int:
        return len(self.cache_dict)

    def __repr__(self) -> str:
        return f"LensCache({len(self)} activations of {self.model.cfg.model_name})"

    def remove_batch_dim(self) -> LensCache:
        """Without the dimension of the batch, which must be 1."""
        if self.has_batch_dim:
            if any(x.shape[0] != 1 for x in self.cache_dict.values()):
                raise ValueError("the cache holds a batch of several texts, whose dimension cannot go")
            self.cache_dict = {name: x[0] for name, x in self.cache_dict.items()}
            self.has_batch_dim = False
        return self

    def stack_activation(self, name: str, layer: int = -1, part: str | None = None) -> torch.Tensor:
        """One activation of all layers before `layer` (-1: all), as one tensor."""
        count = self.model.cfg.n_layers if layer == -1 else layer
        return torch.stack([self[name, k, part] for k in range(count)])


class HookedModel:
    """A `Model` with the calls and the `cfg` of a HookedTransformer.

    Parameters
    ----------
    model : Model
    **options
        Of `Model.run`, for every run: methods, edits, ...

    Examples
    --------
    >>> import otattn, pathlib
    >>> if pathlib.Path("data/demo/model").exists():
    ...     lens = otattn.Model("data/demo/model").as_transformer_lens()
    ...     logits, cache = lens.run_with_cache("Mass moves.")
    ...     assert cache["pattern", 0].shape == (1, lens.cfg.n_heads, logits.shape[1], logits.shape[1])
    """

    def __init__(self, model: Model, **options: Unpack[RunOptions]) -> None:
        self.model, self.options = model, options
        f = model.facts
        record = model.projections(0)
        self.cfg = LensConfig(
            model_name=model.name,
            n_layers=f.layers,
            n_heads=f.heads,
            n_key_value_heads=f.kv_heads,
            d_model=f.width,
            d_head=f.head_width,
            d_mlp=f.inner,
            d_vocab=f.vocabulary,
            n_ctx=f.positions,
            eps=f.norm_epsilon,
            normalization_type="RMS" if record.rms else "LN",
            positional_embedding_type="rotary" if f.rope_base else "standard",
            attention_dir="causal" if f.causal else "bidirectional",
            default_prepend_bos=bool(self._frame[0]),
            n_params=f.parameters,
        )

    def __repr__(self) -> str:
        return f"HookedModel({self.model!r})"

    # ---- tokens ----

    @functools.cached_property
    def _frame(self) -> tuple[list[int], list[int]]:
        try:
            return self.model.tokenizer.frame()
        except (ValueError, OSError):
            return [], []

    @property
    def tokenizer(self) -> Any:
        """The `Tokenizer` of the model."""
        return self.model.tokenizer

    def _beginning(self) -> list[int]:
        if self._frame[0]:
            return self._frame[0]
        found = (self.tokenizer.id(piece) for piece in _BEGINNINGS)
        return [next((one for one in found if one is not None), 0)]

    def to_tokens(
        self, text: str | Sequence[str], prepend_bos: bool | None = None, truncate: bool = True
    ) -> torch.Tensor:
        """Token ids, shape (batch, tokens); texts of several lengths are padded with 0 behind.

        `prepend_bos`: None leaves what stands before a text to the settings of the tokenizer.
        """
        rows, truncate = [], flag("truncate", truncate)
        framed = prepend_bos is None
        prepend_bos = flag("prepend_bos", prepend_bos)
        for one in [text] if isinstance(text, str) else text:
            ids = self.model.tokens(one, special=framed).tolist()
            if prepend_bos:
                ids = [*self._beginning(), *ids]
            rows.append(ids[: self.cfg.n_ctx] if truncate else ids)
        most = max(map(len, rows), default=0)
        return torch.tensor([[*ids, *[0] * (most - len(ids))] for ids in rows], dtype=torch.long)

    def to_string(self, tokens: Any) -> Any:
        """The text of ids (tokens,), or texts of (batch, tokens)."""
        ids = torch.as_tensor(tokens)
        if ids.ndim == 2:
            return [self.model.decode(row) for row in ids]
        return self.model.decode(ids.reshape(-1))

    def to_str_tokens(self, text: Any, prepend_bos: bool | None = None) -> Any:
        """The text of every token by itself."""
        prepend_bos = _or_none("prepend_bos", prepend_bos)
        if isinstance(text, list) and text and isinstance(text[0], str):
            return [self.to_str_tokens(one, prepend_bos) for one in text]
        ids = self.to_tokens(text, prepend_bos)[0] if isinstance(text, str) else torch.as_tensor(text)
        if ids.ndim == 2 and ids.shape[0] == 1:
            ids = ids[0]
        return self.tokenizer.texts(ids)

    def to_single_token(self, text: str) -> int:
        """The id of a text that is one token."""
        ids = self.model.tokens(text, special=False)
        if ids.size != 1:
            raise ValueError(f"{shown(text)} is {ids.size} tokens, wanted one")
        return int(ids[0])

    def to_single_str_token(self, token: int) -> str:
        """The text of one id."""
        return self.model.decode([token])

    # ---- runs ----

    def _ids(self, given: Any, prepend_bos: bool | None) -> Any:
        prepend_bos = _or_none("prepend_bos", prepend_bos)
        texts = isinstance(given, str) or (isinstance(given, (list, tuple)) and isinstance(given[0], str))
        ids = self.to_tokens(given, prepend_bos) if texts else torch.as_tensor(given)
        return ids[None] if ids.ndim == 1 else ids

    def _answer(self, ids: torch.Tensor, logits: Any, return_type: str | None) -> Any:
        kinds: dict[str | None, Callable[[], Any]] = {
            None: lambda: None,
            "logits": lambda: logits,
            "loss": lambda: _loss(ids, logits),
            "both": lambda: (logits, _loss(ids, logits)),
        }
        if return_type not in kinds:
            raise ValueError(f"return_type is {shown(return_type)}, wanted logits, loss, both or None")
        return kinds[return_type]()

    def forward(
        self,
        input: Any,
        return_type: str | None = "logits",
        prepend_bos: bool | None = None,
        **options: Unpack[RunOptions],
    ) -> Any:
        """Logits (batch, tokens, vocabulary), the mean loss of the next tokens, both, or None."""
        ids = self._ids(input, prepend_bos)
        given: RunOptions = {**self.options, **options}
        run = self.model.run(ids, **given)
        return self._answer(ids, None if return_type is None else torch.from_numpy(run.logits), return_type)

    __call__ = forward

    def run_with_cache(
        self,
        input: Any,
        *,
        return_type: str | None = "logits",
        names_filter: NamesFilter = None,
        remove_batch_dim: bool = False,
        return_cache_object: bool = True,
        prepend_bos: bool | None = None,
        **options: Unpack[RunOptions],
    ) -> tuple[Any, Any]:
        """What `forward` returns, and activations: all, those of these names, or those that a call allows.

        As in TransformerLens without `use_attn_result`, what every head adds to the stream
        (`attn.hook_result`) comes only where `names_filter` asks for it.
        """
        remove_batch_dim = flag("remove_batch_dim", remove_batch_dim)
        return_cache_object = flag("return_cache_object", return_cache_object)
        ids = self._ids(input, prepend_bos)
        names = self.model.points
        if callable(names_filter):
            wanted = [name for name in names if names_filter(name)]
        elif names_filter is None:
            wanted = [name for name in names if not name.endswith("attn.hook_result")]
        else:
            wanted = [names_filter] if isinstance(names_filter, str) else list(names_filter)
        given: RunOptions = {**self.options, **options}
        found = self.model.capture(ids, wanted, **given) if wanted else {}
        cache = LensCache({name: torch.from_numpy(x) for name, x in found.items()}, self)
        if remove_batch_dim:
            cache.remove_batch_dim()
        answer = self.forward(ids, return_type, **options) if return_type is not None else None
        return answer, cache if return_cache_object else cache.cache_dict

    def run_with_hooks(self, *arguments: Any, **options: Any) -> Any:
        """Refused: no Python function takes part in a run."""
        raise NotImplementedError("a run takes no Python hooks; change it with edits=[otattn.Edit(...)]")

    def generate(self, input: Any, max_new_tokens: int = 10, do_sample: bool = False, seed: int = 1) -> Any:
        """The prompt with its continuation: text of text, ids of ids."""
        ids = self._ids(input, None)
        made = self.model.generate(ids, max_new_tokens, sample=do_sample, seed=seed, **self.options)
        whole = torch.cat([ids[0], torch.from_numpy(made.ids)])
        return self.model.decode(whole) if isinstance(input, str) else whole[None]

    # ---- weights ----

    @functools.cached_property
    def _matrices(self) -> dict[str, torch.Tensor]:
        f = self.model.facts
        layers = [self.model.projections(layer) for layer in range(f.layers)]
        group = f.heads // f.kv_heads
        found = {}
        for name, heads in (("query", f.heads), ("key", f.kv_heads), ("value", f.kv_heads)):
            x = np.stack([getattr(layer, name).reshape(f.width, heads, f.head_width) for layer in layers])
            x = x.transpose(0, 2, 1, 3)
            found[name] = torch.from_numpy(np.repeat(x, group, 1) if heads < f.heads else x)
        output = np.stack([layer.output.reshape(f.heads, f.head_width, f.width) for layer in layers])
        found["output"] = torch.from_numpy(output)
        return found

    @property
    def W_Q(self) -> torch.Tensor:
        """(layers, heads, width, head width)"""
        return self._matrices["query"]

    @property
    def W_K(self) -> torch.Tensor:
        """As `W_Q`; grouped keys come once for every head."""
        return self._matrices["key"]

    @property
    def W_V(self) -> torch.Tensor:
        """As `W_K`."""
        return self._matrices["value"]

    @property
    def W_O(self) -> torch.Tensor:
        """(layers, heads, head width, width)"""
        return self._matrices["output"]


def _or_none(name: str, value: Any) -> bool | None:
    return None if value is None else flag(name, value)


def _loss(ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """The mean over tokens of what predicting the next one costs, in nats."""
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
