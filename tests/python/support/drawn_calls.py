"""Calls of the package's public functions with drawn arguments: right ones, and wrong ones of every kind.

case(seed, k) is a function of its numbers alone: a function out of `fronts`, and for parameters a value that
ARGUMENTS draws for its name in a scene of sizes. One argument in ten is spoilt: another rank or size, another
type, NaN, an infinity, zero strides, a misaligned or foreign byte order, a word, None.

A call has to end in a result that `accepts` finds right, or in ValueError, TypeError, NotImplementedError or
the package's own SolveError, whose sentence is one line that names an argument. All else is a finding.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import math
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import drawn_doors
import drawn_objects
import numpy as np
import otattn

Draw: TypeAlias = np.random.Generator


@dataclass
class Scene:
    """Sizes that the arguments of one call share."""

    draw: Draw
    batch: int
    heads: int
    n: int
    m: int
    width: int

    def array(self, *shape: int) -> Any:
        kind = self.draw.integers(8)
        x = self.draw.standard_normal(shape)
        if kind == 0:
            x = np.round(x)
        if kind == 1:
            x = x * 10.0 ** self.draw.integers(-6, 7)
        return x.astype(self.draw.choice(["f4", "f8"]))

    def mass(self, size: int) -> Any:
        x = self.draw.exponential(size=size) + 1e-2
        return x / x.sum()

    def rows(self, *shape: int) -> Any:
        x = self.draw.exponential(size=shape) + 1e-3
        return x / x.sum(-1, keepdims=True)

    def word(self, *words: Any) -> Any:
        return words[self.draw.integers(len(words))]

    def positive(self) -> float:
        return float(10.0 ** self.draw.uniform(-2, 1))

    def bit(self) -> bool:
        return bool(self.draw.integers(2))


def scene_of(draw: Draw) -> Scene:
    batch, heads, n, m, width = (int(x) for x in draw.integers(1, [3, 4, 8, 8, 6]))
    return Scene(draw, batch, heads, n, n if draw.integers(2) else m, width)


METHODS = (
    "softmax", "sparsemax", "entmax:1.5", "sinkhorn", "sinkhorn:5", "softmax/exact", "softmax/elastic:1",
    "softmax/capped:2", "hard", "hard/exact", "online:2", "prefix", "relaxed:1", "softmax/bounded:0.5,2", "",
    "softmax/", "nonsense", "entmax:-1", "capped:nan", "elastic:1,2,3", "\N{SNOWMAN}",
)  # fmt: skip

# Parameter : what is right for it.
ARGUMENTS: dict[str, Callable[[Scene], Any]] = {
    "query": lambda s: s.array(s.batch, s.heads, s.n, s.width),
    "key": lambda s: s.array(s.batch, s.heads, s.m, s.width),
    "value": lambda s: s.array(s.batch, s.heads, s.m, s.width),
    "scores": lambda s: s.array(s.n, s.m),
    "attn_mask": lambda s: s.word(None, s.draw.random((s.n, s.m)) < 0.7),
    "is_causal": Scene.bit,
    "scale": lambda s: s.word(None, s.positive()),
    "method": lambda s: s.word(*METHODS),
    "temperature": Scene.positive,
    "rounds": lambda s: int(s.draw.integers(1, 20)),
    "tolerance": lambda s: s.word(None, 1e-6, 1e-3),
    "max_rounds": lambda s: int(s.draw.integers(1, 2000)),
    "alpha": lambda s: float(s.draw.uniform(1.1, 3)),
    "cap": Scene.positive,
    "strength": Scene.positive,
    "lower": lambda s: float(s.draw.random()),
    "upper": lambda s: float(1 + s.draw.random()),
    "row_mass": lambda s: s.mass(s.n),
    "column_mass": lambda s: s.mass(s.m),
    "window": lambda s: (int(s.draw.integers(0, 4)), int(s.draw.integers(0, 4))),
    "window_size": lambda s: (int(s.draw.integers(-1, 4)), int(s.draw.integers(-1, 4))),
    "sink": lambda s: float(s.draw.standard_normal()),
    "softcap": Scene.positive,
    "axis": lambda s: s.word("rows", "columns"),
    "rows": lambda s: s.word("hard", "relaxed:1"),
    "causal_align": lambda s: s.word("top_left", "bottom_right"),
    "solver": lambda s: s.word(None, *otattn.solvers()),
    "backend": lambda s: s.word(None, *otattn.backends()),
    "entry_caps": lambda s: s.draw.random((s.n, s.m)) + 0.5,
    "bias": lambda s: s.array(s.n, s.m),
    "start_potential": lambda s: s.array(s.m),
    "key_lengths": lambda s: s.draw.integers(0, s.m + 1, size=s.batch),
    "dropout_p": lambda s: float(s.draw.random()),
    "dropout_seed": lambda s: int(s.draw.integers(1 << 40)),
    "cu_seq_q": lambda s: np.array([0, s.n]),
    "cu_seq_k": lambda s: np.array([0, s.m]),
    "queries": lambda s: s.array(s.batch, s.n, s.width).astype("f4"),
    "documents": lambda s: s.array(3, s.m, s.width).astype("f4"),
    "lengths": lambda s: s.draw.integers(0, s.m + 1, size=3),
    "rule": lambda s: s.word("max", "assignment", "capped:2"),
    "top_k": lambda s: int(s.draw.integers(1, 4)),
    "x": lambda s: s.array(2, s.n, s.n),
    "eps": lambda s: 1e-6,
    "order": lambda s: s.word("symmetric", "deepseek"),
    "gradients": lambda s: s.word("unrolled", "implicit"),
    "heads": lambda s: s.heads,
    "cost_matrix": lambda s: s.array(s.n, s.m),
    "cost": lambda s: s.array(s.n, s.n),
    "costs": lambda s: [s.array(s.n, s.n), s.array(s.m, s.m)],
    "maximize": Scene.bit,
    "extend_cost": Scene.bit,
    "cost_limit": lambda s: s.word(math.inf, s.positive()),
    "certificate": Scene.bit,
    "X": lambda s: s.array(s.n, s.m),
    "dim": lambda s: int(s.draw.integers(-1, 1)),
    "budget": lambda s: float(s.draw.uniform(0.5, 1)) * s.m,
    "return_support_size": Scene.bit,
    "target": lambda s: s.draw.integers(s.m, size=s.n),
    "a": lambda s: s.mass(s.n),
    "b": lambda s: s.mass(s.m),
    "M": lambda s: s.draw.random((s.n, s.m)),
    "reg": Scene.positive,
    "reg_m": Scene.positive,
    "unbalanced": Scene.positive,
    "numItermax": lambda s: int(s.draw.integers(1, 2000)),
    "log": Scene.bit,
    "X_a": lambda s: s.array(s.n, s.width),
    "X_b": lambda s: s.array(s.m, s.width),
    "logits": lambda s: s.array(s.n, s.m),
    "k": lambda s: int(s.draw.integers(1, s.m + 1)),
    "capacity": lambda s: s.n,
    "potentials": lambda s: s.array(s.m),
    "q": lambda s: s.array(s.batch, s.n, s.heads, s.width),
    "v": lambda s: s.array(s.batch, s.m, s.heads, s.width),
    "softmax_scale": Scene.positive,
    "causal": Scene.bit,
    "teacher_output": lambda s: s.array(s.n, s.m),
    "teacher_temp": Scene.positive,
    "n_iterations": lambda s: 3,
    "p": lambda s: s.rows(s.n, s.m),
    "utility": lambda s: s.array(s.n, s.m),
    "values": lambda s: s.array(s.m, s.width),
    "coupling": lambda s: s.rows(s.n, s.m),
    "log_kernel": lambda s: s.array(s.n, s.m),
    "before": lambda s: s.array(s.n, s.m),
    "after": lambda s: s.array(s.n, s.m),
    "first": lambda s: s.rows(s.m, s.m),
    "second": lambda s: s.rows(s.n, s.m),
    "u": lambda s: s.array(s.n, s.width),
    "gamma": lambda s: s.array(s.width),
    "beta": lambda s: s.array(s.width),
    "epsilon": Scene.positive,
    "y": lambda s: s.draw.exponential(size=s.m) + 1e-3,
    "matrix": lambda s: s.array(s.n, s.m),
    "weights": lambda s: s.rows(s.n, s.m),
    "errors": lambda s: s.draw.exponential(size=s.n + 3),
    "directions": lambda s: s.array(s.n, s.width),
    "states": lambda s: s.array(s.n, s.width),
    "output": lambda s: s.array(s.n, s.width),
    "slope": Scene.positive,
    "keys": lambda s: s.m,
    "size": lambda s: s.n,
    "spread": Scene.positive,
    "perturbed": lambda s: s.array(s.n, s.m),
}

# A module of `heads` heads, its arrays of f32 as its weights are.
MODULE: dict[str, Callable[[Scene], Any]] = {
    "embed_dim": lambda s: s.heads * 2,
    "num_heads": lambda s: s.heads,
    "dropout": lambda s: 0.0,
    "bias": Scene.bit,
    "add_bias_kv": lambda s: False,
    "kdim": lambda s: s.heads * 2,
    "vdim": lambda s: s.heads * 2,
    "batch_first": lambda s: True,
    "learn": lambda s: s.word((), ("temperature",), ("alpha", "cap"), ("words",)),
    "steps": lambda s: 3,
    "query": lambda s: s.array(s.n, s.batch, s.heads * 2).astype("f4"),
    "key": lambda s: s.array(s.m, s.batch, s.heads * 2).astype("f4"),
    "value": lambda s: s.array(s.m, s.batch, s.heads * 2).astype("f4"),
    "key_padding_mask": lambda s: s.draw.random((s.batch, s.m)) < 0.3,
    "need_weights": Scene.bit,
    "average_attn_weights": Scene.bit,
    "cost": Scene.bit,
}


def _raises(x: float) -> float:
    raise ValueError(f"weight, slope or value was asked at {x}")


def _function(name: str, *right: Callable[[float], Any]) -> Callable[[Scene], Any]:
    """A function of a float, one in five of which is none that can be used."""

    def wrong(x: float, y: float) -> float:
        return x + y

    # Python's own sentence about a call with too few arguments has the function's name.
    wrong.__name__ = wrong.__qualname__ = name
    bad = (
        _raises, wrong, lambda x: None, lambda x: "x", lambda x: math.nan, lambda x: math.inf, lambda x: -1.0,
        lambda x: 1 << 2000, lambda x: np.ones(2), lambda x: 1j, lambda x: -x, lambda x: float(x > 0),
    )  # fmt: skip
    return lambda s: s.word(*bad) if s.draw.random() < 0.2 else s.word(*right)


# Doors of other packages (drawn_doors.py).
DOORS: dict[str, dict[str, Callable[[Scene], Any]]] = {
    "Regulariser": {
        "weight": _function(
            "weight", lambda x: max(x, 0.0), lambda x: max(x, 0.0) ** 2, lambda x: math.exp(min(x, 700.0))
        ),
        "slope": _function("slope", lambda x: float(x > 0.0), lambda x: 2.0 * max(x, 0.0)),
        "value": _function("value", lambda p: p * p / 2.0, lambda p: 0.0),
    },
    "jax": {
        "how": lambda s: s.word("plain", "compiled", "gradient"),
        "return_aux": lambda s: s.word(None, True),
    },
    "hf": {
        "module": lambda s: drawn_doors.attention_module(s.word(None, False, True)),
        "model": lambda s: drawn_doors.model_of(int(s.draw.integers(3))),
        "layers": lambda s: s.word(None, (0,), (0, 1), (2,)),
        "methods": lambda s: tuple(s.word(*METHODS) for _ in range(s.draw.integers(3))),
        "prefix": lambda s: s.word("otattn_", "", "x"),
        "attention_mask": lambda s: s.word(
            None, s.draw.random((s.batch, 1, s.n, s.m)) < 0.7, np.zeros((s.batch, 1, s.n, s.m), "f4")
        ),
        "dropout": lambda s: float(s.draw.random()),
        "scaling": lambda s: s.word(None, s.positive()),
        "options": lambda s: s.word(None, {}, {"temperature": s.positive()}, {"words": 1}),
        "ota_options": lambda s: s.word(None, {}, {"temperature": s.positive()}, {"words": 1}),
        "s_aux": lambda s: s.array(s.heads),
        "position_bias": lambda s: s.array(s.batch, s.heads, s.n, s.m),
        "output_attentions": Scene.bit,
    },
    "distributed": {
        "group": lambda s: None,
        "shares": lambda s: s.word("in_order", "zigzag", "words"),
        "keys": lambda s: s.word("auto", "gathered", "in_ring", "words"),
        "total": lambda s: int(s.draw.integers(0, 20)),
    },
    "activations": {
        "n_iter": lambda s: int(s.draw.integers(1, 60)),
        "ignore_index": lambda s: int(s.draw.integers(-1, s.m)),
        "reduction": lambda s: s.word("elementwise_mean", "sum", "none", "words"),
    },
}

# What parameters of one function or class mean where their name means something else in the others.
OWN: dict[str, dict[str, Callable[[Scene], Any]]] = {
    **DOORS,
    "flash_attn_func": {"k": lambda s: s.array(s.batch, s.m, s.heads, s.width)},
    "attention": {"cost": Scene.bit},
    "coupling": {"cost": Scene.bit},
    "route": {"method": lambda s: s.word("topk", "base", "sinkhorn", "soft", "words")},
    "varlen_attention": {
        "query": lambda s: s.array(s.heads, s.n, s.width),
        "key": lambda s: s.array(s.heads, s.m, s.width),
        "value": lambda s: s.array(s.heads, s.m, s.width),
    },
    "hamming": {"p": lambda s: s.mass(s.m), "q": lambda s: s.mass(s.m)},
    "hamming_divergence": {"p": lambda s: s.mass(s.m), "q": lambda s: s.mass(s.m)},
    **{
        name: {
            "second": lambda s: float(s.draw.uniform(-1, 1)),
            "least": lambda s: float(s.draw.uniform(-1, 1)),
        }
        for name in ("best_one_sided", "best_two_sided", "rate_one_sided")
    },
    "hilbert": {"x": lambda s: s.draw.exponential(size=s.m) + 1e-3},
    "gauge": {"a": lambda s: s.array(s.n, s.m), "b": lambda s: s.array(s.n, s.m)},
    "sinkhorn": {"method": lambda s: s.word("sinkhorn", "sinkhorn_log", "other")},
    "alibi_bias": {"queries": lambda s: s.n},
    "linear_sum_assignment": {"rows": lambda s: None},
    "Plan": {
        "gradients": lambda s: s.draw.random() < 0.8,
        "out_grad": lambda s: s.array(s.batch, s.heads, s.n, s.width),
        "coupling_grad": lambda s: s.array(s.batch, s.heads, s.n, s.m),
        "wrt": lambda s: s.word(
            ("query",), ("key", "value"), ("temperature",), ("bias",), "query", ("words",)
        ),
        "tangents": lambda s: s.word(
            {"query": s.array(s.batch, s.heads, s.n, s.width)}, {"temperature": 1.0}, {"words": 1.0}, {}
        ),
        "coupling": Scene.bit,
        "cost": Scene.bit,
    },
    "BalancedKMeans": {
        "X": lambda s: s.array(s.n + s.m, s.width),
        "n_clusters": lambda s: int(s.draw.integers(1, s.n + 1)),
        "size_min": lambda s: s.word(None, 1),
        "size_max": lambda s: s.word(None, s.m),
        "init": lambda s: s.word("k-means++", "random", "words"),
        "n_init": lambda s: s.word("auto", 2),
        "max_iter": lambda s: int(s.draw.integers(1, 30)),
        "tol": Scene.positive,
        "random_state": lambda s: int(s.draw.integers(5)),
        "refine": Scene.bit,
    },
    "PlanSampler": {
        "method": lambda s: s.word("exact", "sinkhorn", "unbalanced", "words"),
        "normalize_cost": Scene.bit,
        "num_threads": lambda s: s.word(1, "max"),
        "warn": Scene.bit,
        "generator": lambda s: int(s.draw.integers(5)),
        "batched": Scene.bit,
        "x0": lambda s: s.array(s.n, s.n, s.width),
        "x1": lambda s: s.array(s.n, s.n, s.width),
        "y0": lambda s: s.draw.integers(s.m, size=s.n),
        "y1": lambda s: s.draw.integers(s.m, size=s.n),
        "replace": Scene.bit,
        "pi": lambda s: s.rows(s.n, s.n),
        "batch_size": lambda s: s.n,
    },
    "AttentionLayer": {
        **{
            f"{name}_weights": lambda s: s.array(s.width, s.heads * s.batch)
            for name in ("query", "key", "value")
        },
        **{f"{name}_bias": lambda s: s.array(s.heads * s.batch) for name in ("query", "key", "value")},
        "output_weights": lambda s: s.array(s.heads * s.batch, s.width),
        "output_bias": lambda s: s.array(s.width),
        "rotary_base": lambda s: 1e4,
        "x": lambda s: s.array(s.n, s.width),
        "x2": lambda s: s.array(s.n, s.width),
        "context": lambda s: s.array(s.m, s.width),
        "context2": lambda s: s.array(s.m, s.width),
        "norm": lambda s: (s.array(s.width), s.array(s.width), 1e-5),
    },
    **{name: dict(MODULE) for name in ("Attention", "CETA", "ElasticAttention")},
    **{
        name: {"output": lambda s: s.word("indices", "pairs", "others")}
        for name in ("lapjvh", "lapjvh_batch", "lapjvr", "lapjvr_batch")
    },
}


def fronts() -> dict[str, Callable[..., Any]]:
    """Every public function that ARGUMENTS can call: those whose needed parameters it knows."""
    from otattn import activations, analysis, flash, lap, moe, ot

    found: dict[str, Callable[..., Any]] = {}
    for module, names in (
        (otattn, otattn.__all__), (activations, activations.__all__), (ot, ot.__all__), (lap, lap.__all__),
        (moe, moe.__all__), (flash, ["flash_attn_func"]), (analysis, analysis.__all__),
    ):  # fmt: skip
        for name in names:
            call = getattr(module, name)
            if inspect.isfunction(call) and name not in LEFT_OUT and not unknown(name, call):
                found[f"{module.__name__}.{name}"] = call
    return found | drawn_objects.methods() | drawn_doors.calls()


# They change the process, or take results of other calls.
LEFT_OUT = ("set_num_threads", "threads", "release_memory", "show")


def makers_of(name: str) -> dict[str, Callable[[Scene], Any]]:
    """What is drawn for parameters of a call: as everywhere, as in its module or class, or as in it alone."""
    found = dict(ARGUMENTS)
    for word in name.split("."):
        found |= OWN.get(word, {})
    return found


def unknown(name: str, call: Callable[..., Any]) -> list[str]:
    own = makers_of(name)
    return [
        p.name
        for p in inspect.signature(call).parameters.values()
        if p.default is p.empty and p.kind is not p.VAR_KEYWORD and p.name not in own
    ]


# ---- wrong arguments -----------------------------------------------------------------------------


def _with(x: Any, value: float, s: Scene) -> Any:
    x = np.array(x, "f8")
    if x.size:
        x.flat[s.draw.integers(x.size)] = value
    return x


def _unaligned(x: Any, s: Scene) -> Any:
    raw = np.zeros(x.nbytes + 1, np.uint8)
    moved = raw[1:].view(x.dtype).reshape(x.shape)
    moved[...] = x
    return moved


SPOILT_ARRAYS: tuple[Callable[[Any, Scene], Any], ...] = (
    lambda x, s: x[..., None],
    lambda x, s: x[0] if x.ndim and x.shape[0] else x,
    lambda x, s: np.concatenate([x, x], -1) if x.ndim else x,
    lambda x, s: x[..., :0] if x.ndim else x,
    lambda x, s: x[::-1] if x.ndim else x,
    lambda x, s: np.repeat(x, 2, -1)[..., ::2] if x.ndim else x,
    lambda x, s: np.asfortranarray(x),
    lambda x, s: x.T,
    lambda x, s: np.broadcast_to(np.asarray(1.5, x.dtype), x.shape),
    _unaligned,
    lambda x, s: x.astype(x.dtype.newbyteorder()),
    lambda x, s: _with(x, math.nan, s),
    lambda x, s: _with(x, math.inf, s),
    lambda x, s: _with(x, -math.inf, s),
    lambda x, s: _with(x, 1e308, s),
    lambda x, s: -np.abs(x) if x.dtype.kind == "f" else x,
    lambda x, s: np.zeros_like(x),
    lambda x, s: x.astype("f2"),
    lambda x, s: x.astype("i4") if np.isfinite(x).all() else x,
    lambda x, s: x.astype(bool),
    lambda x, s: x.astype("c16"),
    lambda x, s: x.astype(object),
    lambda x, s: x.astype(str),
    lambda x, s: x.tolist(),
    lambda x, s: None,
    lambda x, s: "an array",
    lambda x, s: 2.5,
)
SPOILT_NUMBERS: tuple[Any, ...] = (
    0, -1, 1.5, 1 << 70, -(1 << 70), math.nan, math.inf, -math.inf, 1e308, 5e-324, True, None, "7", "", [1.0],
    np.float32(2), np.array(3.0), np.array([1.0, 2.0]), object(), 1 + 2j, b"x", (1, 2), (None, "a"),
)  # fmt: skip


def spoil(x: Any, s: Scene) -> Any:
    if isinstance(x, np.ndarray):
        return SPOILT_ARRAYS[s.draw.integers(len(SPOILT_ARRAYS))](x, s)
    return SPOILT_NUMBERS[s.draw.integers(len(SPOILT_NUMBERS))]


# ---- a case and its judgement --------------------------------------------------------------------


@dataclass
class Case:
    name: str
    call: Callable[..., Any]
    arguments: dict[str, Any]

    def __str__(self) -> str:
        def shown(x: Any) -> str:
            if hasattr(x, "requires_grad"):
                grad = ", requires_grad" if x.requires_grad else ""
                return f"tensor({x.dtype}, {tuple(x.shape)}, strides {x.stride()}, {x.tolist()}{grad})"
            if not isinstance(x, np.ndarray):
                return repr(x)
            numbers = np.array2string(x, separator=",", threshold=60).replace("\n", "")
            return f"array({x.dtype.str}, {x.shape}, strides {x.strides}, {numbers})"

        inner = ", ".join(f"{name}={shown(x)}" for name, x in self.arguments.items())
        return f"{self.name}({inner})"


def case(seed: int, k: int, known: dict[str, Callable[..., Any]]) -> Case:
    draw = np.random.default_rng([seed, k])
    s = scene_of(draw)
    name = list(known)[draw.integers(len(known))]
    call = known[name]
    makers = makers_of(name)
    arguments = {}
    for p in inspect.signature(call).parameters.values():
        if p.name not in makers or p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL):
            continue
        # Most of what may be left out is: every two options exclude each other somewhere.
        if p.default is not p.empty and draw.random() < 0.85 and p.name != "method":
            continue
        x = makers[p.name](s)
        arguments[p.name] = spoil(x, s) if draw.random() < 0.1 else x
    arrays, tensors = drawn_objects.takes(name)
    if tensors and (not arrays or draw.random() < 0.25):
        derivatives = bool(draw.random() < 0.5)
        arguments = {name: drawn_objects.tensors(x, derivatives) for name, x in arguments.items()}
    return Case(name, call, arguments)


def arrays_of(x: Any) -> list[Any]:
    if isinstance(x, np.ndarray):
        return [x]
    if isinstance(x, (tuple, list)):
        return [a for part in x for a in arrays_of(part)]
    return []


def accepts(of: Case, result: Any) -> str:
    """What is wrong with a result; "" when nothing is."""
    if result is None:
        return "no result"
    result = drawn_objects.arrays(result)
    of = Case(of.name, of.call, {name: drawn_objects.arrays(x) for name, x in of.arguments.items()})
    given = [a for a in arrays_of(list(of.arguments.values())) if a.dtype.kind in "fiub"]
    finite = all(np.isfinite(a).all() and np.abs(a).max(initial=0) < 1e30 for a in given)
    judge = JUDGES.get(of.name.rsplit(".", 1)[1])
    if judge is None or not finite or any(isinstance(x, float) and x > 1e30 for x in of.arguments.values()):
        return ""
    return judge(of, result)


def _rows_sum_to_one(of: Case, result: Any) -> str:
    if not isinstance(result, np.ndarray) or of.arguments.get("dim", -1) != -1 or result.size == 0:
        return ""
    wrong = np.abs(result.astype("f8").sum(-1) - 1).max()
    if result.min() < 0 or not wrong <= result.shape[-1] * 2 * float(np.finfo(result.dtype).eps) + 1e-12:
        return f"rows miss 1 by {wrong}, least weight {result.min()}"
    return ""


def _coupling(of: Case, result: Any) -> str:
    words = {"scores", "method"}
    result = result[0] if isinstance(result, tuple) else result
    plain = ("softmax", "sparsemax", "entmax:1.5", "hard")
    if not set(of.arguments) <= words or of.arguments["method"] not in plain:
        return "" if (np.asarray(result) >= 0).all() else "a weight below 0"
    return _rows_sum_to_one(of, result)


def _emd(of: Case, result: Any) -> str:
    plan = result[0] if isinstance(result, tuple) else result
    if not isinstance(plan, np.ndarray) or plan.ndim != 2:
        return ""
    a: Any = of.arguments.get("a")
    b: Any = of.arguments.get("b")
    if not all(isinstance(x, np.ndarray) and x.dtype == np.float64 and x.size for x in (a, b)):
        return ""
    whole = plan.astype("f8")
    wrong = max(np.abs(whole.sum(1) - a).max(), np.abs(whole.sum(0) - b * a.sum() / b.sum()).max())
    # emd takes masses whose sums agree within 1e-7, and each weight is rounded to the type of the costs.
    allowed = 2e-7 + float(np.finfo(plan.dtype).eps) * max(plan.shape)
    return "" if plan.min() >= 0 and wrong <= allowed * max(1.0, a.sum()) else f"sums miss by {wrong}"


def _assignment(of: Case, result: Any) -> str:
    if isinstance(result, list):
        return next(filter(None, (_assignment(of, one) for one in result)), "")
    rows, columns = (np.atleast_2d(np.asarray(x)) for x in result[:2])
    for i, j in zip(rows.tolist(), columns.tolist(), strict=True):
        if len(i) != len(j) or len(set(i)) < len(i) or len(set(j)) < len(j):
            return "not a matching"
    return ""


JUDGES: dict[str, Callable[[Case, Any], str]] = {
    "softmax": _rows_sum_to_one, "coupling": _coupling, "emd": _emd, "linear_sum_assignment": _assignment,
}  # fmt: skip


# Sentences of the libraries whose calls are stood in for, which programs compare.
KEPT = (
    "matrix contains invalid numeric entries",
    "Square cost array expected",
    # scikit-learn's, of the matrix of points
    "Found array with",
    "Expected 2D array",
    "Complex data not supported",
    "Input X contains",
    "could not convert string to float",
    "float() argument must be a string or a real number",
)


def sentence_is_wrong(of: Case, error: BaseException) -> str:
    text = str(error)
    if not text.strip():
        return "an exception without a sentence"
    if text.startswith(KEPT):
        return ""
    if len(text) > 600 or text.count("\n") > 1:
        return "more than a sentence"
    parameters = inspect.signature(of.call).parameters
    names = [*parameters]
    # What a function hands on to attention it hands on by attention's names.
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        names += inspect.signature(otattn.attention).parameters
    said = re.findall(r"\w+", text)
    if isinstance(error, otattn.SolveError) or any(name in said for name in names):
        return ""
    return "a sentence that names no argument"


def finding(of: Case) -> str:
    """Runs a case; "" when it ends as it should."""
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            with np.errstate(all="ignore"):
                return accepts(of, of.call(**of.arguments))
    except (ValueError, TypeError, NotImplementedError, otattn.SolveError) as error:
        wrong = sentence_is_wrong(of, error)
        return wrong and f"{wrong}: {type(error).__name__}: {error}"
    except MemoryError as error:
        return "" if str(error) else "MemoryError without a sentence"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
