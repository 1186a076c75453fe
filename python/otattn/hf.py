"""Every method as ``attn_implementation="otattn_METHOD"`` of transformers.

A slash in a method is written ``-`` (``otattn_softmax-exact``), since transformers takes a slash for a kernel
on its hub. Masks come from transformers' own ``sdpa`` mask function.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from . import _hf_cache, _hf_lens, _hf_points, _hf_rows, _hf_watch
from . import _structs as c
from ._attention import Known, attention, check_arguments, known_arguments, known_call
from ._aux import AuxRequest
from ._hf_points import Points
from ._leaks import LEAKING, warn_of_leaks
from ._models.edits import Edit
from ._models.studies import LogitLens, Patching
from ._settings import flag, shown, text
from ._shapes import shape_text
from ._spec import Spec, spec_for
from ._template import columns_of
from ._torch_call import solved_by_tokens

MASK_FUNCTION = "sdpa"

# What `register` offers by itself; any other method by its name. The last ones are other names of these.
METHODS = (
    "softmax",
    "sparsemax",
    "entmax:1.5",
    "hard",
    "softmax/exact",
    "softmax/relaxed:1",
    "softmax/capped:2",
    "softmax/elastic:0.5,4",
    "softmax/prefix",
    "softmax/online:2",
    "entmax:1.5/exact",
    "entmax:1.5/capped:2",
    "ceta",
    "sinkhorn",
    "argmax",
    "entmax15",
    "assignment",
)
# Those to which a query that may see nothing would send mass.
_WITH_MASSES = (*LEAKING, c.COLUMNS_PREFIX)


def implementation_name(method: str | Spec, prefix: str = "otattn_") -> str:
    """The name under which a method is registered.

    Examples
    --------
    >>> import otattn
    >>> otattn.hf.implementation_name("softmax/exact")
    'otattn_softmax-exact'
    """
    return text("prefix", prefix) + _word(method).replace("/", "-")


def _options(name: str, options: Any) -> dict[str, Any]:
    """Arguments of `attention`, which an error of Python's own would not name."""
    if not isinstance(options, Mapping):
        raise TypeError(
            f"{name} is a {type(options).__name__}, wanted a dict of arguments of otattn.attention"
        )
    known_arguments(name, options)
    return dict(options)


# Column rules by method: whoever compiles a model reads them here, where the library is not asked.
_rules: dict[str, int] = {}
# transformers.utils.output_capturing, where it exists, from `register` on.
_capturing: Any = None


def _word(method: Any) -> str:
    return method.method if isinstance(method, Spec) else text("method", method)


def _checked(method: Any) -> str | Spec:
    return method if isinstance(method, Spec) else text("method", method)


def _columns(method: Any) -> int:
    word = _word(method)
    rule = _rules.get(word)
    if rule is None:
        rule = _rules[word] = columns_of(spec_for(word))
    return rule


def register(
    *methods: str | Spec, prefix: str = "otattn_", keep: Iterable[str] = (), **options: Any
) -> list[str]:
    """Registers attention and mask functions with transformers.

    A model that gets one of the names afterwards, at its making or by ``set_attn_implementation``, is
    followed: a family that computes attention itself (BLOOM, Falcon, GPT-J, XLNet, ...) is refused, and so
    is each layer that does, or that ends without a call of `attention_forward`, in the first forward pass
    that comes there.

    Parameters
    ----------
    *methods : str or Spec
        Methods of `otattn.attention`; none: those of `METHODS`. A Spec has the name of its method.
    prefix : str
        Of the names.
    keep : str, several
        Classes of modules, or layers by the ends of their names, whose own attention stays.
    **options
        Arguments of `otattn.attention` for all of them: temperature, tolerance, rounds, ...

    Returns
    -------
    list of str
        The names, for ``attn_implementation=`` or ``model.set_attn_implementation``.

    Raises
    ------
    ValueError
        For a method that does not exist.

    Examples
    --------
    >>> import otattn
    >>> "otattn_softmax-exact" in otattn.hf.register()
    True
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask, sdpa_mask

    global _capturing  # noqa: PLW0603
    names = []
    options = _options("options", options)
    with contextlib.suppress(ImportError):
        from transformers.utils import output_capturing

        _capturing = output_capturing
    for method in methods or METHODS:
        check_arguments(_checked(method), options)
        name = implementation_name(method, prefix)
        AttentionInterface.register(
            name, functools.partial(attention_forward, method=method, options=options)
        )
        AttentionMaskInterface.register(name, functools.partial(_mask, sdpa_mask, eager_mask))
        names.append(name)
    _hf_watch.watch(names, [keep] if isinstance(keep, str) else [text("keep", k) for k in keep])
    return names


def _mask(sdpa: Callable[..., Any], eager: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    if not _ends_together(**named):
        named["allow_is_causal_skip"] = False
    adds = type(named.get("config")).__name__ in _hf_watch.adding
    return (eager if adds else sdpa)(*arguments, **named)


def _ends_together(
    q_length: Any = None, kv_length: Any = None, q_offset: Any = 0, kv_offset: Any = 0, **others: Any
) -> bool:
    """Whether is_causal=True, or one query that sees all keys, says what a causal mask would.

    With a longer cache is_causal=True would mean another corner here than there, and a static cache has room
    for later keys, which transformers forgets.
    """
    del others
    sizes = (q_length, kv_length, q_offset, kv_offset)
    if not all(type(x) is int for x in sizes):
        return False
    return q_length in (1, kv_length) and q_offset + q_length == kv_offset + kv_length


def attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    *,
    method: str | Spec = "softmax",
    options: dict[str, Any] | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    position_bias: torch.Tensor | None = None,
    output_attentions: bool | None = None,
    ota_options: dict[str, Any] | None = None,
    indices: torch.Tensor | None = None,
    sliding_window: int | None = None,
    **others: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """What transformers calls: tensors (batch, heads, length, width), output (batch, length, heads, width).

    In cross attention a column rule binds the queries of a call to all keys of the encoder.

    Parameters
    ----------
    method, options
        From `register`, unless `set_attention` has said otherwise for this module.
    softcap, s_aux, position_bias
        The models' own: cap of the scores, logits of a sink, added scores.
    indices : tensor, (batch, queries, chosen)
        The keys that a query may see, of those that its mask allows.
    output_attentions : bool
        Return the weights, (batch, heads, queries, keys).
    ota_options : dict, optional
        Arguments of `otattn.attention` for this call.

    Raises
    ------
    ValueError
        When a causal layer has a cache longer than its queries and the columns of the method couple all rows.
    NotImplementedError
        For what a model asks of its attention and otattn has not: pages of a cache, packed sequences
        without a mask, sinks of each query.
    """
    counted, own = _hf_watch.called(), module.__dict__
    method, chosen = own.get("_otattn", (method, {} if options is None else options))
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if (
        counted
        and isinstance(chosen, dict)
        and not chosen
        and (ota_options is None or (isinstance(ota_options, dict) and not ota_options))
        and (softcap is None and s_aux is None and position_bias is None and indices is None)
        and (sliding_window is None or attention_mask is not None)
        and _LOOKED_AT.isdisjoint(others)
        and "_otattn_tap" not in own
        and not (_weights_are_collected() if output_attentions is None else output_attentions)
    ):
        found = _plainly((query, key, value, attention_mask), method, dropout, scaling, causal)
        if found is not NotImplemented:
            return found, None
    extra = {
        **_options("options", chosen),
        **({} if ota_options is None else _options("ota_options", ota_options)),
    }
    for name, x in (("query", query), ("key", key)):
        if not isinstance(x, torch.Tensor) or x.dim() != 4:
            kind = f"shape {shape_text(x)}" if isinstance(x, torch.Tensor) else f"type {type(x).__name__}"
            raise TypeError(f"{name} has {kind}, wanted a tensor (batch, heads, length, width)")
    queries, keys = query.shape[2], key.shape[2]
    rule = _columns(method)
    _refuse(others, attention_mask)
    if sliding_window is not None and attention_mask is None and keys > max(1, int(sliding_window)):
        raise NotImplementedError(
            f"the layer has a window of {sliding_window} and no mask for {keys} keys, and otattn takes "
            f"windows from masks"
        )
    if indices is not None:
        attention_mask, causal = _chosen(indices, attention_mask, causal, (queries, keys)), False
    online = rule == c.COLUMNS_ONLINE and bool(causal)
    if queries < keys and causal and rule not in (c.COLUMNS_FREE, c.COLUMNS_ONLINE):
        raise ValueError(
            f"{queries} queries meet a cache of {keys} keys, but the columns of {_word(method)!r} need all "
            "queries at once; generate with use_cache=False, or use a method with free or online columns"
        )
    if causal and rule in LEAKING and not torch.compiler.is_compiling():
        warn_of_leaks(_word(method))
    if rule == c.COLUMNS_PREFIX:
        # Row i of a prefix plan sees keys up to i by itself.
        attention_mask, causal = _within_prefixes(attention_mask), False
    alone = rule in _WITH_MASSES and queries == keys and not causal
    if attention_mask is not None and alone and not _is_across(module):
        # Padding is no query either: without this it would send mass.
        extra.setdefault("row_mass", _real(attention_mask))
    if softcap is not None:
        extra["softcap"] = softcap
    if s_aux is not None:
        extra["sink"] = s_aux
    if position_bias is not None:
        extra["bias"] = position_bias
    if output_attentions is None:
        output_attentions = _weights_are_collected()
    tap = own.get("_otattn_tap")
    if tap is not None:
        scaled = getattr(module, "scaling", None) if scaling == 1 else None
        query, key, value = tap.inputs(query, key, value, scaled if isinstance(scaled, float) else 1.0)
        size = query.shape[2], key.shape[2]
        seen = functools.partial(_hf_rows.seen, attention_mask, causal, size, like=query)
        bias = tap.scores((query, key), scaling, softcap, seen, extra.get("bias"))
        extra.update({} if bias is None else {"bias": bias})
    few = None
    if tap is not None and not output_attentions and not _of_arrays(chosen, ota_options):
        few = tap.few("pattern")
    wanted = bool(output_attentions) or (few is None and tap is not None and tap.wants("pattern"))
    received = tap is not None and tap.wants("receiver")
    named = {
        "is_causal": bool(causal) and attention_mask is None and queries > 1,
        "scale": scaling,
        "enable_gqa": True,
        "method": method,
        **extra,
    }
    operands, step = (query, key, value, attention_mask), None
    if online and _steps(module, (query, key, value), dropout):
        step = _hf_cache.begin(module, operands, named)
        operands, named = step.operands, step.named
    if tap is not None and few is not None:
        put = tap.sink("pattern", len(few), query, keys)
        _hf_rows.weights(put, few, operands, named, None if step is None else step.left)
    request = AuxRequest(coupling=wanted, receiver=received) if wanted or received else None
    if step is not None:
        found = _hf_cache.attend(module, step, request)
    else:
        found = attention(*operands, dropout, return_aux=request, **named)
    weights = None
    if wanted or received:
        found, aux = found
        weights, mass = _wide(aux.coupling, keys), _wide(aux.receiver, keys)
        if tap is not None and wanted:
            plan = weights
            found, weights = tap.mixed(weights, value, found, dropout)
            mass = mass if weights is plan else weights.sum(2)
        if tap is not None and received:
            tap("receiver", mass)
    return _given(tap, found), weights if output_attentions else None


# Calls of `_plainly` that were understood before; None: of columns that ask for more.
_calls: dict[Any, Known | None] = {}
_CALLS = 512
_METHODS = (str, Spec)


def _plainly(
    operands: tuple[Any, ...], method: Any, dropout: Any, scaling: Any, causal: Any
) -> torch.Tensor | Any:
    """The output of a layer that hands down a mask at most, where the columns of its method are free.

    (batch, length, heads, width), dense. NotImplemented where a call has more to it.
    """
    query, key, _, mask = operands
    for x in (query, key):
        if type(x) is not torch.Tensor or x.dim() != 4:
            return NotImplemented
    if dropout != 0.0 or not (scaling is None or type(scaling) is float) or type(method) not in _METHODS:
        return NotImplemented
    name = method, scaling, mask is None and bool(causal) and query.shape[2] > 1
    call = _calls.get(name, ...)
    if call is ...:
        known = known_call({"method": method}, name[2], scaling, True)
        call = known if _columns(method) == c.COLUMNS_FREE and known.spec.is_plain else None
        if len(_calls) >= _CALLS:
            _calls.clear()
        _calls[name] = call
    return NotImplemented if call is None else solved_by_tokens(call.spec, call.wants, operands)


def _wide(x: torch.Tensor | None, keys: int) -> Any:
    """With zeros for keys that a static cache has room for."""
    if x is None or x.shape[-1] == keys:
        return x
    return torch.nn.functional.pad(x, (0, keys - x.shape[-1]))


def _of_arrays(*options: Mapping[str, Any] | None) -> bool:
    """Whether an option may have an entry a head."""
    return any(hasattr(x, "__array__") for given in options if given is not None for x in given.values())


def _given(tap: _hf_points.Tap | None, found: torch.Tensor) -> torch.Tensor:
    # Dense already where the query has its heads inside of its tokens.
    out = found.transpose(1, 2).contiguous()
    return out if tap is None else tap("z", out)


def _steps(module: torch.nn.Module, tensors: tuple[torch.Tensor, ...], dropout: float) -> bool:
    """Whether a call of online columns remembers what its keys have left; a call behind a cache must."""
    if torch.compiler.is_compiling() or dropout:
        why = "in a compiled graph" if torch.compiler.is_compiling() else "with dropout"
    elif torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        why = "with gradients"
    else:
        return True
    module._otattn_left = None  # type: ignore[assignment]
    queries, keys = tensors[0].shape[2], tensors[1].shape[2]
    if queries < keys:
        raise ValueError(
            f"{queries} queries meet a cache of {keys} keys, and online columns do not go on behind a "
            f"cache {why}; "
            "pass use_cache=False, or leave that out"
        )
    return False


# What models hand down of which the scores or the places of keys depend, and what it is.
_REFUSED = {
    "block_indices": "keys chosen by blocks",
    "sinks": "sinks of each query",
    "cache": "a cache in pages",
    "block_table": "a cache in pages",
}


_LOOKED_AT = frozenset((*_REFUSED, "cu_seq_lens_q"))


def _refuse(others: Mapping[str, Any], mask: torch.Tensor | None) -> None:
    """Raises for arguments of a model that change its attention, where otattn does not carry them out."""
    for name, what in _REFUSED.items():
        if others.get(name) is not None:
            raise NotImplementedError(
                f"the layer asks for {name}, {what}, which otattn.hf does not carry out"
            )
    ends = others.get("cu_seq_lens_q")
    if mask is None and ends is not None and len(ends) > 2:
        raise NotImplementedError(
            f"the layer has {len(ends) - 1} sequences in one row (cu_seq_lens_q) and no mask that parts "
            f"them; pass "
            "position_ids that begin again with each, without cu_seq_lens_q"
        )


def _chosen(
    indices: torch.Tensor, mask: torch.Tensor | None, causal: bool | None, size: tuple[int, int]
) -> torch.Tensor:
    """The mask under which a query sees the keys that an indexer chose, and of those what its mask allows."""
    queries, keys = size
    chosen = torch.zeros(*indices.shape[:-1], keys + 1, dtype=torch.bool, device=indices.device)
    # Places that the indexer left empty are below 0: they go to a column that is cut off.
    chosen = chosen.scatter(-1, indices.long().where(indices >= 0, keys), True)[..., :keys].unsqueeze(1)
    if mask is None:
        return chosen.tril(keys - queries) if causal else chosen
    return (
        chosen & mask if mask.dtype == torch.bool else mask.masked_fill(~chosen, torch.finfo(mask.dtype).min)
    )


def _is_across(module: torch.nn.Module) -> bool:
    """Whether the keys of a layer that is not causal are an encoder's, by the marks that models set."""
    marks = (getattr(module, name, False) for name in ("is_decoder", "is_cross_attention"))
    return any(marks) or "Cross" in type(module).__name__


def _weights_are_collected() -> bool:
    """Whether the model that is running was asked for attentions; some models do not hand the flag down."""
    collector = getattr(_capturing, "_active_collector", None)
    if collector is None:
        return False
    # Of a context variable dynamo knows nothing; while it traces, a plain one takes its place.
    hidden = torch.compiler.is_compiling() and torch.compiler.is_dynamo_compiling()
    wanted = getattr(collector, "global_var", None) if hidden else collector.get()
    return wanted is not None and any("attentions" in name for name in wanted)


def _allowed(mask: torch.Tensor) -> torch.Tensor:
    return mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2


def _real(mask: torch.Tensor) -> torch.Tensor:
    """1 for positions that any query may use, else 0: (batch, 1, keys)."""
    return _allowed(mask).any(2).to(torch.float32)[:, :1]


def _within_prefixes(mask: torch.Tensor | None) -> torch.Tensor | None:
    """What a mask, causal or not, means to the plans of prefixes, which are not causal inside; None: nothing.

    Below the diagonal, which is all that row i reads, it stays as it is. Windows and documents are mirrored
    there; padding is neither query nor key.
    """
    if mask is None or mask.shape[-2] != mask.shape[-1]:
        return mask
    allowed = _allowed(mask)
    both = (allowed | allowed.mT.triu(1)) & allowed.any(-2, keepdim=True)
    if mask.dtype != torch.bool:
        return torch.where(allowed, mask, mask.mT).masked_fill(~both, -torch.inf)
    return None if not torch.compiler.is_compiling() and bool(both.all()) else both


# Implementations that compute softmax, as the layers of a switched model go on to do.
_SOFTMAX = re.compile("eager|sdpa|flex_attention|flash_attention_[0-9]+")


def _switch(model: torch.nn.Module, all_layers: bool) -> None:
    """Gives the models of transformers in here that run another implementation otattn's softmax."""
    from transformers import PreTrainedModel

    _hf_watch.watch((), ())
    models = [m for m in model.modules() if isinstance(m, PreTrainedModel)]
    for part in models:
        name = part.config._attn_implementation
        if _hf_watch.is_ours(name):
            continue
        if not all_layers and not (name is None or _SOFTMAX.fullmatch(name)):
            raise ValueError(
                f"{type(part).__name__} runs {name!r}, and otattn cannot leave that in the layers that "
                f"are not named; "
                f'set_attn_implementation("{implementation_name("softmax")}") first, or name all layers'
            )
        if part.config._attn_implementation == name:
            part.set_attn_implementation(register("softmax")[0])
    for part in models:
        _hf_watch.follow(part)


def set_attention(
    model: torch.nn.Module, method: str | Spec, layers: Iterable[int] | None = None, **options: Any
) -> int:
    """Gives some layers of a model a method of their own.

    A model that runs another implementation (eager, sdpa, flash) is switched to otattn's first; its layers
    that are not named then go on with softmax.

    Parameters
    ----------
    model : module
        A transformers model, or a module that holds some.
    method : str or Spec
        Method of `otattn.attention`.
    layers : ints, optional
        Which attention modules, those that ask for an implementation, in the order of ``model.modules()``;
        default all.
    **options
        Arguments of `otattn.attention`.

    Returns
    -------
    int
        How many modules were set.

    Raises
    ------
    ValueError
        For a method that does not exist, a layer that the model does not have, or some layers of a model
        whose implementation is neither otattn's nor softmax.
    NotImplementedError
        For a model that computes attention itself.

    Examples
    --------
    >>> import otattn, torch
    >>> otattn.hf.set_attention(torch.nn.Linear(2, 2), "softmax")
    0
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model is a {type(model).__name__}, wanted a module")
    options = _options("options", options)
    check_arguments(_checked(method), options)
    found = _hf_watch.layers_of(model)
    try:
        wanted = list(range(len(found)) if layers is None else map(operator.index, layers))
    except TypeError:
        raise TypeError(f"layers is {shown(layers)}, wanted whole numbers") from None
    for layer in wanted:
        if not 0 <= layer < len(found):
            raise ValueError(f"layers has {layer}, but the model has {len(found)} attention modules")
    _switch(model, len(set(wanted)) == len(found))
    for layer in wanted:
        found[layer]._otattn = (method, options)  # type: ignore[assignment]
    return len(wanted)


def _on_otattn(model: Any) -> torch.nn.Module:
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model is a {type(model).__name__}, wanted a module")
    _switch(model, False)
    return model


def points(model: torch.nn.Module) -> list[str]:
    """The points of a transformers model that `edited`, `capture` and `patch` take, in the order of a run.

    They are those of `otattn.Model`: attn.hook_q and hook_k (of models with rotary positions these where a
    module makes them, and hook_rot_q and hook_rot_k), hook_v, hook_attn_scores, hook_pattern,
    hook_receiver, hook_z; of models with one attention module a block hook_resid_pre and hook_resid_post,
    hook_embed, hook_pos_embed and what else the embeddings have, and where the modules of a block are known
    by name attn.hook_result, hook_attn_out, hook_resid_mid, mlp.hook_pre, mlp.hook_pre_linear and
    mlp.hook_post, those of routers, experts and what all tokens have beside, hook_mlp_out and its norms,
    ln1.hook_scale and ln1.hook_normalized, ln2, ln1_post, ln2_post, attn.q_norm, attn.k_norm, latents, and
    ln_final. A run that asks for what the branches give raises RuntimeError where these do not add up to the
    stream, or their insides not to what they give. Layers are counted as `set_attention` counts them. Other
    places are modules, which torch's own hooks reach.

    Examples
    --------
    >>> import otattn, torch
    >>> otattn.hf.points(torch.nn.Linear(2, 2))
    []
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model is a {type(model).__name__}, wanted a module")
    return _hf_points.points(model)


def edited(model: torch.nn.Module, *edits: Edit) -> contextlib.AbstractContextManager[None]:
    """Runs of a transformers model within ``with`` have their numbers changed at some points.

    A model that runs another implementation (eager, sdpa, flash) is switched to otattn's, as by
    `set_attention`, and stays there. Gradients go through edits.

    Parameters
    ----------
    model : module
    *edits : Edit
        As `otattn.Model` takes them; values may be tensors. Tokens are counted in the run, so that edits of
        tokens refuse a cache.

    Raises
    ------
    ValueError
        For a point, layer or place that the model does not have, for kind "mean" with padding, and of weights
        and scores whose rows see different keys.

    Examples
    --------
    >>> import otattn, torch
    >>> with otattn.hf.edited(torch.nn.Linear(2, 2)):
    ...     pass
    """
    return _hf_points.edited(_on_otattn(model), edits)


def capture(
    model: torch.nn.Module, inputs: Any, points: Any = "pattern", layers: Any = None, heads: Any = None
) -> Points:
    """Tensors of one run of a transformers model at some points, as edits leave them.

    Parameters
    ----------
    model : module
        Switched to otattn as by `edited`.
    inputs : tensor or dict
        Ids (batch, tokens), or all arguments by name as a tokenizer returns them.
    points : str, or several
        Names of `points(model)`, or short words: "z", "resid_pre", "all".
    layers, heads : int or several, optional
        Of these alone. `heads` are those of arrays with one entry a query head; weights and scores of others
        are not made.

    Returns
    -------
    Points
        Tensors by name, ``found["pattern", 1]`` in short: (batch, tokens, width), (batch, tokens, heads,
        width), scores and weights (batch, heads, queries, keys), "receiver" (batch, heads, keys). They hold
        their graph unless ``torch.no_grad()``.

    Notes
    -----
    Behind a cache (``past_key_values`` among the inputs) what is made of keys is of all that the cache hands
    to attention, a static one's room for later tokens included: hook_v, hook_rot_k, hook_k of models without
    rotary positions, and the columns of scores and weights. All else is of the new tokens. TransformerLens
    has all keys in hook_rot_k, too, and the new tokens' in hook_k and hook_v.
    """
    return _hf_points.capture(_on_otattn(model), inputs, points, layers, heads)[1]


@torch.no_grad()
def weights(
    model: torch.nn.Module, inputs: Any, layer: int, head: int, *, scores: bool = False, out: Any = None
) -> Any:
    """The attention weights of one head, made in blocks of rows: no other head's are held.

    Of prefix columns, hard or relaxed rows and caps of weights a plan is of all rows: of these
    [queries, keys] numbers of the head are held beside what is kept.

    Parameters
    ----------
    model : module
        Switched to otattn as by `edited`.
    inputs : tensor or dict
        Ids (batch, tokens), or all arguments by name as a tokenizer returns them.
    layer, head : int
        Layers are counted as `points` counts them.
    scores : bool
        Whether the scores come in place of weights: before the division by the temperature, -inf where a
        mask forbids.
    out : array or tensor, shape (batch, queries, keys), optional
        Where they go, f32: a `numpy.memmap` for instance.

    Returns
    -------
    tensor, shape (batch, queries, keys), or `out`

    Examples
    --------
    >>> import otattn
    >>> otattn.hf.weights.__name__
    'weights'
    """
    return _hf_points.weights(_on_otattn(model), inputs, (layer, head), flag("scores", scores), out)


@torch.no_grad()
def patch(
    model: torch.nn.Module,
    clean: Any,
    corrupt: Any,
    point: str = "hook_resid_pre",
    *,
    by: str | None = None,
    answer: int | str | None = None,
    other: int | str | None = None,
    tokenizer: Any = None,
) -> Patching:
    """Activation patching: which places of a run carry what makes two prompts differ.

    The corrupt prompt runs for every layer and position, or head, with the clean run's numbers there.

    Parameters
    ----------
    model : module
        A model with a head for the next token, switched to otattn as by `edited`.
    clean, corrupt : str, or ids, shape (tokens,) or (1, tokens)
        Prompts of equally many tokens.
    point : str
        A point of every layer: "hook_resid_pre", "z", "pattern", ...
    by : str, optional
        "position", or "head" (the default where the point has heads).
    answer, other : int or str, optional
        Two tokens whose logits behind the last position are compared; each prompt's own prediction unless
        given.
    tokenizer : optional
        Whose `encode` makes ids of texts and whose `decode` gives the texts of tokens; without one they are
        ids.

    Returns
    -------
    Patching
        As `otattn.Model.patch` returns it; `otattn.show` draws it.
    """
    return _hf_points.patch(_on_otattn(model), (clean, corrupt), point, by, (answer, other), tokenizer)


@torch.no_grad()
def logit_lens(model: torch.nn.Module, inputs: Any, top: int = 1, *, tokenizer: Any = None) -> LogitLens:
    """The likeliest next tokens by what the model makes of the stream at every layer and position.

    The stream in front of every block, and behind the last, goes through what the model itself runs behind
    its blocks: norms, head, caps and factors.

    Parameters
    ----------
    model : module
        A model with a head for tokens and one list of blocks, switched to otattn as by `edited`; of models
        with parts for images the last list.
    inputs : tensor, dict or str
        Ids (batch, tokens), or all arguments by name as a tokenizer returns them, or one text.
    top : int
        How many tokens of each place.
    tokenizer : optional
        Whose `encode` makes ids of a text and whose `decode` gives the texts of tokens; without one they are
        ids.

    Returns
    -------
    LogitLens
        As `otattn.Model.logit_lens` returns it; `otattn.show` draws it.

    Raises
    ------
    ValueError, TypeError
        For a model without logits of tokens or a list of blocks, and for padding on the left.
    RuntimeError
        Where the last stream does not give the logits that the model returned.
    """
    return _hf_lens.logit_lens(_on_otattn(model), inputs, top, tokenizer)
