"""Modules for torch: `Attention` in place of nn.MultiheadAttention, with two presets."""

from __future__ import annotations

import inspect
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from ._attention import attention, check_arguments, known_arguments
from ._aux import AuxRequest
from ._regulariser import Regulariser
from ._settings import flag, number, shown, whole
from ._spec import Spec, spec_for
from ._structs import COLUMNS_FREE
from ._template import columns_of
from ._torch_fold import sum_of
from ._torch_watch import is_watched

_LEARNABLE = {"temperature": 1.0, "alpha": 1.5, "cap": 2.0, "strength": 1.0, "lower": 0.5, "upper": 2.0}
# Arguments of `attention` that forward gives, or that have a place of their own here.
_ITS_OWN = (
    *("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "return_aux"),
    "method",
    *_LEARNABLE,
)
# Options that forward and training decide.
_OF_FORWARD = ("dropout_p", "is_causal")
# Of a width or a number of heads.
_LARGEST = 1 << 24


def _range(name: str, method: str | Regulariser | Spec) -> tuple[float, float]:
    """The open interval that a learned number stays in: where there is a plan."""
    if name in ("alpha", "cap", "upper"):
        return 1.0, math.inf
    if name == "lower":
        return 0.0, 1.0
    return 0.0, 2.0 if name == "strength" and "elastic" in spec_for(method).method else math.inf


class Attention(nn.Module):
    """nn.MultiheadAttention with a `method`: the same forward, and state_dicts that load into each other.

    Parameters
    ----------
    embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first
        As in ``torch.nn.MultiheadAttention``. The key of `add_bias_kv` stands behind the others and is never
        masked; `add_zero_attn` is a sink of logit 0, whose weight is the last of those that are returned.
        Weights that are returned are those before dropout.
    method : str, Regulariser or Spec
        As in `otattn.attention`; a Spec without is_causal and dropout_p, which are arguments of their own.
    temperature, alpha, cap, strength, lower, upper : float, optional
        As in `otattn.attention`.
    learn : tuple of str
        Names among temperature (one a head), alpha, cap, strength, lower and upper that become parameters of
        the module ``log_temperature``, ``log_alpha``, ``log_cap``, ``log_strength``, ``log_lower``,
        ``log_upper``. Each stays where there is a plan: the logarithm is that of what the number is above 1
        (alpha, cap, upper) or above 0, and for lower, below 1, and the strength of elastic columns, below 2,
        that over what is left. They start at the number given here, which must be inside, or at 1, 1.5, 2,
        1, 0.5 and 2.
    **arguments
        Others of `otattn.attention`: rounds, tolerance, max_rounds, window, softcap, ...

    Raises
    ------
    ValueError, TypeError
        For a method, a name or a number that no call could take, and arguments without a meaning here.

    Examples
    --------
    >>> import torch, otattn
    >>> layer = otattn.nn.Attention(8, 2, method="entmax:1.5", batch_first=True)
    >>> out, weights = layer(*3 * [torch.zeros(1, 3, 8)])
    >>> out.shape, weights.shape
    (torch.Size([1, 3, 8]), torch.Size([1, 3, 3]))
    """

    # torch's fused layers for evaluation compute a softmax of their own where this says True.
    _qkv_same_embed_dim = False

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        method: str | Regulariser | Spec = "softmax",
        temperature: float | None = None,
        alpha: float | None = None,
        cap: float | None = None,
        strength: float | None = None,
        lower: float | None = None,
        upper: float | None = None,
        learn: tuple[str, ...] = (),
        **arguments: Any,
    ) -> None:
        super().__init__()
        embed_dim = whole("embed_dim", embed_dim, 1, _LARGEST)
        num_heads = whole("num_heads", num_heads, 1, _LARGEST)
        kdim = embed_dim if kdim is None else whole("kdim", kdim, 1, _LARGEST)
        vdim = embed_dim if vdim is None else whole("vdim", vdim, 1, _LARGEST)
        if not isinstance(method, (str, Regulariser, Spec)):
            raise TypeError(f"method is a {type(method).__name__}, wanted a string, a Regulariser or a Spec")
        if isinstance(learn, str) or not isinstance(learn, (tuple, list)):
            raise TypeError(f"learn is {shown(learn)}, wanted names in a tuple")
        dropout, bias = number("dropout", dropout), flag("bias", bias)
        if not 0.0 <= dropout <= 1.0:
            raise ValueError(f"dropout is {dropout!r}, wanted 0 to 1")
        if embed_dim % num_heads:
            raise ValueError(f"embed_dim is {embed_dim}, no multiple of num_heads {num_heads}")
        self.add_zero_attn = flag("add_zero_attn", add_zero_attn)
        if self.add_zero_attn:
            if arguments.get("sink") is not None:
                raise ValueError("add_zero_attn is a sink of logit 0, so it does not go with sink; give one")
            arguments["sink"] = 0.0
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.batch_first = flag("batch_first", batch_first)
        self.head_dim = embed_dim // num_heads
        self.kdim, self.vdim = kdim, vdim
        self.method, self.arguments = method, arguments
        self.dropout = dropout
        where = {"device": device, "dtype": dtype}
        self._same = self.kdim == embed_dim and self.vdim == embed_dim
        if self._same:
            self.in_proj_weight = nn.Parameter(torch.empty((3 * embed_dim, embed_dim), **where))
            for name in ("q", "k", "v"):
                self.register_parameter(f"{name}_proj_weight", None)
        else:
            self.q_proj_weight = nn.Parameter(torch.empty((embed_dim, embed_dim), **where))
            self.k_proj_weight = nn.Parameter(torch.empty((embed_dim, self.kdim), **where))
            self.v_proj_weight = nn.Parameter(torch.empty((embed_dim, self.vdim), **where))
            self.register_parameter("in_proj_weight", None)
        if bias:
            self.in_proj_bias = nn.Parameter(torch.empty(3 * embed_dim, **where))
        else:
            self.register_parameter("in_proj_bias", None)
        # Its weight and bias are read here, so tools that swap linear layers leave it.
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **where)
        self.bias_k: nn.Parameter | None = None
        self.bias_v: nn.Parameter | None = None
        if flag("add_bias_kv", add_bias_kv):
            self.bias_k = nn.Parameter(torch.empty((1, 1, embed_dim), **where))
            self.bias_v = nn.Parameter(torch.empty((1, 1, embed_dim), **where))
        given_numbers = {
            "temperature": temperature,
            "alpha": alpha,
            "cap": cap,
            "strength": strength,
            "lower": lower,
            "upper": upper,
        }
        numbers = {
            name: x if x is None or isinstance(x, float) else number(name, x)
            for name, x in given_numbers.items()
        }
        self.fixed = {
            name: value for name, value in numbers.items() if value is not None and name not in learn
        }
        self.learn = tuple(learn)
        known_arguments(type(self).__name__, arguments, _ITS_OWN, _NAMED)
        if isinstance(method, Spec):
            for name, value in method.items():
                if name in (*_OF_FORWARD, *learn):
                    raise ValueError(
                        f"the Spec that is the method has {name}={value!r}, which the module has itself"
                    )
        check_arguments(method, {**arguments, **self.fixed})
        for name in learn:
            if not isinstance(name, str) or name not in _LEARNABLE:
                raise ValueError(f"learn has {shown(name)}, wanted names among {', '.join(_LEARNABLE)}")
            chosen = numbers[name]
            value = _LEARNABLE[name] if chosen is None else float(chosen)
            least, most = _range(name, method)
            # The logarithm of 0 is a point that no step of training leaves.
            if not least < value < most:
                wanted = f"more than {least:g}" + ("" if most == math.inf else f" and less than {most:g}")
                raise ValueError(f"{name} is {value!r}, wanted {wanted} to learn it")
            try:
                check_arguments(method, {**arguments, **self.fixed, name: value})
            except ValueError as error:
                raise ValueError(f"learn has {name!r}: {error}") from None
            start = torch.tensor((value - least) / (1.0 if most == math.inf else most - value)).log()
            start = start.expand(num_heads).clone() if name == "temperature" else start
            self.register_parameter(f"log_{name}", nn.Parameter(start.to(**where)))
        self._reset()

    def _reset(self) -> None:
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            weight = getattr(self, name)
            if weight is not None:
                nn.init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            nn.init.zeros_(self.in_proj_bias)
            nn.init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                nn.init.xavier_normal_(bias)

    def numbers(self) -> dict[str, Any]:
        """The method's numbers as they stand: fixed floats and learned tensors, by name."""
        found: dict[str, Any] = dict(self.fixed)
        for name in self.learn:
            (least, most), number = _range(name, self.method), getattr(self, f"log_{name}")
            number = number if number.element_size() >= 4 else number.float()
            number = number.exp() if most == math.inf else (most - least) * number.sigmoid()
            found[name] = least + number
        return found

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if self._same and query is key and key is value:
            q, k, v = F.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)
            return q, k, v
        if self._same:
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None, None, None) if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        q, k, v = (F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))
        return q, k, v

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """As ``nn.MultiheadAttention.forward``, and with its meaning of masks: True forbids.

        Parameters
        ----------
        query : tensor, shape (queries, batch, embed_dim), (batch, queries, embed_dim) or (queries, embed_dim)
            With `batch_first` also a nested tensor, where it is key and value, too, and there are no masks.
        key, value : tensor, likewise
        key_padding_mask : tensor, shape (batch, keys), optional
        attn_mask : tensor, shape (queries, keys) or (batch * num_heads, queries, keys), optional
        is_causal : bool
            The causal mask; a hint beside an `attn_mask`, which then holds.

        Returns
        -------
        out : tensor, shape of `query`
        weights : tensor or None
            (batch, queries, keys), or with heads if ``average_attn_weights=False``.
        """
        if isinstance(query, Tensor) and query.is_nested:
            same = query is key and key is value and key_padding_mask is attn_mask is None
            if not (same and self.batch_first):
                raise ValueError(
                    "query is nested, wanted query, key and value to be one tensor, batch_first and no mask"
                )
            return self._nested(query, need_weights, average_attn_weights, is_causal)
        masks = (key_padding_mask, attn_mask)
        return self._run(query, key, value, masks, need_weights, average_attn_weights, is_causal)

    def _run(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        masks: tuple[Tensor | None, Tensor | None],
        need_weights: bool,
        average_attn_weights: bool,
        is_causal: bool,
        row_mass: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        key_padding_mask, attn_mask = masks
        for name, x, width in (
            ("query", query, self.embed_dim),
            ("key", key, self.kdim),
            ("value", value, self.vdim),
        ):
            self._check(name, x, width)
        for name, mask in (("attn_mask", attn_mask), ("key_padding_mask", key_padding_mask)):
            if mask is not None and not isinstance(mask, Tensor):
                raise TypeError(f"{name} is a {type(mask).__name__}, wanted a tensor")
        need_weights = flag("need_weights", need_weights)
        is_causal = flag("is_causal", is_causal)
        average_attn_weights = flag("average_attn_weights", average_attn_weights)
        batched = query.dim() == 3
        swapped = batched and not self.batch_first
        if not batched:
            same = query is key and key is value
            query = query.unsqueeze(0)
            key, value = (query, query) if same else (key.unsqueeze(0), value.unsqueeze(0))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        projected = self._project(query, key, value)
        if swapped:
            q, k, v = (x.unflatten(-1, (self.num_heads, -1)).permute(1, 2, 0, 3) for x in projected)
        else:
            q, k, v = (x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for x in projected)
        allowed, added = self._masks(attn_mask, key_padding_mask, q)
        causal = is_causal and attn_mask is None
        if self.bias_k is not None and self.bias_v is not None:
            if causal:
                allowed, causal = self._causal(q.shape[2], k.shape[2], allowed), False
            k, v = (self._with_key(x, own) for x, own in ((k, self.bias_k), (v, self.bias_v)))
            allowed = None if allowed is None else F.pad(allowed, (0, 1), value=True)
            added = None if added is None else F.pad(added, (0, 1))
        extra: dict[str, Any] = {**self.arguments, **self.numbers()}
        if row_mass is not None:
            extra.setdefault("row_mass", row_mass)
        if added is not None:
            extra["bias"] = sum_of(extra.get("bias"), added, q.dtype)
        request = AuxRequest(coupling=True) if need_weights else None
        dropout = self.dropout if self.training else 0.0
        found = attention(q, k, v, allowed, dropout, causal, method=self.method, return_aux=request, **extra)
        weights = None
        if need_weights:
            found, aux = found
            weights = aux.coupling
            if self.add_zero_attn:
                left = 1.0 - weights.sum(-1, keepdim=True)
                weights = torch.cat([weights, left.clamp(min=0.0)], -1)
            weights = weights.mean(1) if average_attn_weights else weights
            weights = weights if batched else weights.squeeze(0)
        out = found.permute(2, 0, 1, 3) if swapped else found.transpose(1, 2)
        out = self.out_proj(out.flatten(-2))
        return (out if batched else out.squeeze(0)), weights

    def _nested(
        self, nested: Tensor, need_weights: bool, average_attn_weights: bool, is_causal: bool
    ) -> tuple[Tensor, Tensor | None]:
        """The same for sequences of several lengths, whose padding is neither query nor key."""
        parts = nested.unbind()
        padded = torch.nested.to_padded_tensor(nested, 0.0)
        lengths = torch.tensor([x.shape[0] for x in parts], device=padded.device)
        padding = torch.arange(padded.shape[1], device=padded.device) >= lengths[:, None]
        coupled = columns_of(spec_for(self.method)) != COLUMNS_FREE
        mass = (~padding[:, None]).to(torch.float32) if coupled else None
        masks = (padding, None)
        out, weights = self._run(
            padded, padded, padded, masks, need_weights, average_attn_weights, is_causal, mass
        )
        left = [x[: len(part)] for x, part in zip(out, parts, strict=True)]
        return torch.nested.as_nested_tensor(left, layout=nested.layout), weights

    def _with_key(self, x: Tensor, own: Tensor) -> Tensor:
        """[batch, heads, keys, width] with one more key, that of add_bias_kv."""
        one = own.reshape(1, self.num_heads, 1, self.head_dim).expand(x.shape[0], -1, -1, -1)
        return torch.cat([x, one], 2)

    def _causal(self, queries: int, keys: int, allowed: Tensor | None) -> Tensor:
        corner = keys - queries if self.arguments.get("causal_align") == "bottom_right" else 0
        past = torch.ones(queries, keys, dtype=torch.bool, device=self.out_proj.weight.device).tril(corner)
        return past if allowed is None else past & allowed

    def _check(self, name: str, x: Any, width: int) -> None:
        if not isinstance(x, Tensor):
            raise TypeError(f"{name} is a {type(x).__name__}, wanted a tensor")
        if x.dim() not in (2, 3) or x.shape[-1] != width:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}, wanted two or three sizes, the last {width}"
            )
        kind = self.out_proj.weight.dtype
        if x.dtype != kind and not torch.is_autocast_enabled(x.device.type):
            raise TypeError(f"{name} has type {x.dtype}, but the module's weights have {kind}")

    def _masks(
        self, attn_mask: Tensor | None, padding: Tensor | None, q: Tensor
    ) -> tuple[Tensor | None, Tensor | None]:
        """Both masks as one boolean (True takes part) and one that is added."""
        allowed: Tensor | None = None
        added: Tensor | None = None
        masks = []
        if attn_mask is not None:
            attn_mask = (
                attn_mask.unflatten(0, (q.shape[0], self.num_heads)) if attn_mask.dim() == 3 else attn_mask
            )
            masks.append(attn_mask)
        if padding is not None:
            masks.append(padding[:, None, None, :])
        for mask in masks:
            if mask.dtype != torch.bool and not mask.is_floating_point():
                name = "attn_mask" if mask is attn_mask else "key_padding_mask"
                raise TypeError(
                    f"{name} has type {mask.dtype}, wanted bool (True forbids) or floats that are added; "
                    f"of 0 and 1 pass {name}.bool()"
                )
            if mask.dtype == torch.bool:
                allowed = ~mask if allowed is None else allowed & ~mask
                continue
            # Whoever makes a graph gets one for all masks.
            if is_watched() or torch.isneginf(mask).any():
                finite = ~torch.isneginf(mask)
                allowed = finite if allowed is None else allowed & finite
                mask = mask.masked_fill(~finite, 0.0)
            added = sum_of(added, mask, q.dtype)
        return allowed, added

    def extra_repr(self) -> str:
        return f"{self.embed_dim}, {self.num_heads}, method={self.method!r}, learn={self.learn}"


# The names of the module's own arguments.
_NAMED = tuple(inspect.signature(Attention).parameters)[:-1]


class CETA(Attention):
    """Doubly stochastic attention, ``softmax/exact``: every key receives the same mass.

    Parameters
    ----------
    embed_dim, num_heads : int
    rounds : int, optional
        Exactly so many Sinkhorn rounds; by default to the tolerance.
    **arguments
        Those of `Attention`.

    Examples
    --------
    >>> import torch, otattn
    >>> layer = otattn.nn.CETA(8, 2, rounds=3)
    >>> layer(*3 * [torch.zeros(5, 1, 8)], need_weights=False)[0].shape
    torch.Size([5, 1, 8])
    """

    def __init__(
        self, embed_dim: int, num_heads: int, *, rounds: int | None = None, **arguments: Any
    ) -> None:
        super().__init__(embed_dim, num_heads, method="softmax/exact", rounds=rounds, **arguments)


class ElasticAttention(Attention):
    """Elastic columns: `steps` damped column updates of strength `strength` from softmax.

    Parameters
    ----------
    embed_dim, num_heads : int
    strength : float
        lambda, at least 0 and less than 2.
    steps : int
    **arguments
        Those of `Attention`.

    Examples
    --------
    >>> import torch, otattn
    >>> layer = otattn.nn.ElasticAttention(8, 2, strength=0.5, steps=4)
    >>> layer(*3 * [torch.zeros(5, 1, 8)], need_weights=False)[0].shape
    torch.Size([5, 1, 8])
    """

    def __init__(
        self, embed_dim: int, num_heads: int, *, strength: float = 0.5, steps: int = 4, **arguments: Any
    ) -> None:
        method = f"softmax/elastic:{strength!r},{steps}"
        super().__init__(embed_dim, num_heads, method=method, strength=strength, **arguments)
