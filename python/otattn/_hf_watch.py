"""That a model of transformers which names one of our implementations runs it, in each attention layer.

Transformers asks an implementation for nothing but its function: a family that computes attention itself
(BLOOM, Falcon, GPT-J, XLNet, ...) takes any name and goes on with its softmax, at most with a log line. So
`watch` looks at models when they are made and when their implementation is set. Families whose file never
asks for the name are refused then; of the others each layer is followed: one that computes weights by itself,
or ends without having called `otattn.hf.attention_forward`, raises in the first forward pass that comes
there.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import threading
from collections.abc import Collection
from typing import Any

import torch

# What the text of a class shows: that it asks for the implementation, or makes weights of its own.
_ASKS = re.compile(r"ALL_ATTENTION_FUNCTIONS|AttentionInterface\b")
_MAKES = re.compile(r"[sS]oftmax|logsumexp|scaled_dot_product_attention|multi_head_attention_forward")
_ATTENTION = re.compile(r"Att(entio)?n(?!Map)|Attentive")
# A family whose layers are a table's by name: transformers' own names only.
_TABLE = re.compile(r"_CLASSES\[(self\.)?config\._attn_implementation\]")
# Attention whose text has none of these words, as it calls functions of its file: by hashing, by samples, by
# resolutions.
_OTHERS = ("LSHSelfAttention", "YosoSelfAttention", "MraSelfAttention")

OWN, ASKS = "own", "asks"
_kinds: dict[type, str | None] = {}


class _State(threading.local):
    """Calls of our function in this thread, and how many there were when a layer began."""

    def __init__(self) -> None:
        self.count = 0
        self.before: dict[int, int] = {}


_calls = _State()
# Names of implementations, and for each the classes and layers that may keep their own attention.
_names: dict[str, tuple[str, ...]] = {}
_watching: list[type] = []
# Configurations by name whose models know no masks but eager's, which are added to scores (DeepSeek V4 puts
# more behind them).
adding: set[str] = set()


def called() -> bool:
    """Our function runs: counted, for the layer that waits for it. False where a compiler looks on."""
    if torch.compiler.is_compiling():
        return False
    _calls.count += 1
    return True


def kind_of(kind: type) -> str | None:
    """ASKS for classes that ask for the implementation, OWN for those that make weights themselves."""
    known = _kinds.get(kind, "")
    if known == "":
        known = _kinds[kind] = _kind(kind)
    return known


def _kind(kind: type) -> str | None:
    text = ""
    for base in kind.__mro__:
        if base is torch.nn.Module or not issubclass(base, torch.nn.Module):
            break
        try:
            text += inspect.getsource(base)
        except (OSError, TypeError):
            # Without a text only what runs can say: it is followed as one that asks.
            return ASKS if _ATTENTION.search(kind.__name__) else None
    if _ASKS.search(text):
        return ASKS
    if kind.__name__ in _OTHERS or (_ATTENTION.search(kind.__name__) and _MAKES.search(text)):
        return OWN
    return None


def is_ours(name: Any) -> bool:
    """Whether `register` gave this name."""
    return name in _names


def layers_of(model: torch.nn.Module) -> list[torch.nn.Module]:
    """The layers of a model that ask for the implementation, in the order of its modules."""
    if "transformers" in sys.modules:
        # Before, nobody knows which modules are models, whose text asks as layers do.
        watch((), ())
    return [m for m in model.modules() if not _is_model(m) and kind_of(type(m)) == ASKS]


def watch(names: Collection[str], keep: Collection[str]) -> None:
    """Follows models of these implementations from now on; `keep`: classes or layers that stay as they
    are."""
    from transformers import PreTrainedModel as Model

    _names.update(dict.fromkeys(names, tuple(keep)))
    if _watching:
        return
    _watching.append(Model)
    # The places that every model passes: transformers offers no event for them.
    models: Any = Model
    made, put = models.post_init, models.set_attn_implementation
    chosen = models.get_correct_attn_implementation

    @functools.wraps(made)
    def post_init(self: Any, *arguments: Any, **named: Any) -> Any:
        found = made(self, *arguments, **named)
        follow(self)
        return found

    @functools.wraps(put)
    def set_attn_implementation(self: Any, attn_implementation: Any, *arguments: Any, **named: Any) -> Any:
        ours = isinstance(attn_implementation, str) and attn_implementation in _names
        if ours:
            # Before, so that a refusal leaves the model as it was.
            refuse_families(self, attn_implementation)
        found = put(self, attn_implementation, *arguments, **named)
        if ours and self.config._attn_implementation != attn_implementation:
            raise RuntimeError(
                f"{type(self).__name__} was given {attn_implementation!r} and has "
                f"{self.config._attn_implementation!r}: it refuses other implementations than its own"
            )
        follow(self)
        return found

    @functools.wraps(chosen)
    def get_correct_attn_implementation(
        self: Any, requested_attention: Any, *arguments: Any, **named: Any
    ) -> Any:
        # While a model is made its layers do not exist yet.
        _refuse_family(self, "", requested_attention)
        return chosen(self, requested_attention, *arguments, **named)

    models.post_init = post_init
    models.get_correct_attn_implementation = get_correct_attn_implementation
    models.set_attn_implementation = set_attn_implementation


def _is_model(module: torch.nn.Module) -> bool:
    return bool(_watching) and isinstance(module, _watching[0])


def refuse_families(model: torch.nn.Module, name: str | None = None) -> None:
    """Raises for a model, or a part that is one, whose file computes attention without asking for the
    name."""
    for path, part in model.named_modules():
        if _is_model(part):
            _refuse_family(part, path, name or getattr(part.config, "_attn_implementation", None))


def _refuse_family(model: Any, path: str, name: str | None) -> None:
    if name not in _names or _kept(name, path, model):
        return
    file = sys.modules.get(type(model).__module__)
    if model._can_set_attn_implementation() and not (file and _TABLE.search(_text_of(file))):
        return
    raise NotImplementedError(
        f"{type(model).__name__} computes attention itself, in {type(model).__module__}: {name!r} would "
        f"not run in it; take a "
        "model whose layers ask ALL_ATTENTION_FUNCTIONS for attn_implementation, or put otattn.attention "
        "into its layers"
    )


@functools.cache
def _text_of(thing: Any) -> str:
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        return ""


def _kept(name: str, path: str, module: torch.nn.Module) -> bool:
    kinds = {base.__name__ for base in type(module).__mro__}
    return any(k in kinds or path == k or path.endswith("." + k) for k in _names.get(name, ()))


def follow(model: torch.nn.Module) -> None:
    """Refuses a model whose family computes attention itself, else has each of its layers followed."""
    parts = [(path, part) for path, part in model.named_modules() if _is_model(part)]
    if not any(getattr(part.config, "_attn_implementation", None) in _names for _, part in parts):
        return
    refuse_families(model)
    adding.update(type(part.config).__name__ for _, part in parts if not part._supports_sdpa)
    if "_otattn_first" not in model.__dict__:
        model.__dict__["_otattn_first"] = model.register_forward_hook(_after_the_first)
    for path, layer in model.named_modules():
        kind = None if _is_model(layer) else kind_of(type(layer))
        if kind is None:
            continue
        # The nearest model around it has the configuration that says what runs here.
        around = [p for p in parts if not p[0] or path.startswith(p[0] + ".")]
        where = (max(around, key=lambda p: len(p[0]))[1].config, path, type(model).__name__)
        for handle in layer.__dict__.pop("_otattn_followed", ()):
            handle.remove()
        layer.__dict__["_otattn_followed"] = (
            layer.register_forward_pre_hook(functools.partial(_enter, kind, where)),
            layer.register_forward_hook(functools.partial(_leave, kind, where)),
        )


def _after_the_first(model: torch.nn.Module, _: Any, __: Any) -> None:
    """Raises for layers that a model put in while it ran: nobody has followed them (BigBirdPegasus with few
    tokens)."""
    if torch.compiler.is_compiling():
        return
    for path, layer in model.named_modules():
        if _is_model(layer) or kind_of(type(layer)) is None or "_otattn_followed" in layer.__dict__:
            continue
        name = _implementation(layer, (getattr(model, "config", None), path, ""))
        if name is not None:
            raise RuntimeError(
                f"{path} ({type(layer).__name__} of {type(model).__name__}) was put in while the model "
                f"ran, so nobody knows "
                f"whether {name!r} ran in it; set_attn_implementation({name!r}) once more"
            )
    model.__dict__.pop("_otattn_first").remove()


def _implementation(layer: torch.nn.Module, where: tuple[Any, str, str]) -> str | None:
    """The name of ours that this layer is to run, if it is to run one."""
    name = getattr(getattr(layer, "config", None), "_attn_implementation", None)
    if name is None:
        name = getattr(where[0], "_attn_implementation", None)
    if name not in _names or (_names[name] and _kept(name, where[1], layer)):
        return None
    return str(name)


def _enter(kind: str, where: tuple[Any, str, str], layer: torch.nn.Module, _: Any) -> None:
    if kind == OWN:
        name = _implementation(layer, where)
        if name is not None:
            raise NotImplementedError(
                f"{where[1]} ({type(layer).__name__} of {where[2]}) computes attention itself, so "
                f"{name!r} would not "
                f"run in it; otattn.hf.register(..., keep=[{type(layer).__name__!r}]) leaves such layers "
                f"as they are"
            )
    elif not torch.compiler.is_compiling():
        _calls.before[id(layer)] = _calls.count


def _leave(kind: str, where: tuple[Any, str, str], layer: torch.nn.Module, _: Any, __: Any) -> None:
    if kind == OWN or torch.compiler.is_compiling():
        return
    if _calls.before.pop(id(layer), -1) == _calls.count and (name := _implementation(layer, where)):
        raise RuntimeError(
            f"{where[1]} ({type(layer).__name__} of {where[2]}) ended without a call of "
            f"otattn.hf.attention_forward, "
            f"though its implementation is {name!r}: what it returned is not by that method"
        )
