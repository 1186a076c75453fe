"""`otattn analyze --bounds`: measures, bounds and ranks of layers against formulas written here, in double
precision, on projections made here from the weights of transformers' models; and resume.

The program's queries, keys and values are f32, so numbers agree to FIGURE of their size."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
import spec
from program import answer

pytest.importorskip("torch")
pytest.importorskip("transformers")
from model_families import make_model as make_family
from test_analyze import contents, peer_states
from test_models import draw_ids, make_model

FIGURE = 2e-4
TOKENS, WINDOWS = 40, 3
Array: TypeAlias = "np.ndarray[Any, Any]"


# ---- the layer ----


def array(parameter: Any) -> Array:
    return parameter.detach().double().numpy()


class Layer:
    """x W + b of one layer, heads apart: query, key, value [heads, width, head width]."""

    def __init__(self, model: Any, name: str, layer: int) -> None:
        self.name, config = name, model.config
        self.rms, self.rope, self.positions, self.window = name in ("llama", "gemma 3"), 10000.0, 1.0, 0
        self.heads = config.num_attention_heads
        if name == "gpt2":
            block = model.transformer.h[layer]
            parts = np.split(array(block.attn.c_attn.weight), 3, axis=1)
            biases = np.split(array(block.attn.c_attn.bias), 3)
            out, norm = array(block.attn.c_proj.weight), block.ln_1
            self.epsilon, self.output_bias = norm.eps, array(block.attn.c_proj.bias)
        elif name == "bert":
            block = model.bert.encoder.layer[layer].attention
            linear = [block.self.query, block.self.key, block.self.value]
            parts, biases = [array(one.weight).T for one in linear], [array(one.bias) for one in linear]
            out, norm = array(block.output.dense.weight).T, block.output.LayerNorm
            self.epsilon, self.output_bias = norm.eps, array(block.output.dense.bias)
        else:
            block = model.model.layers[layer]
            attention = block.self_attn
            if name == "gemma 3":
                self.head_norms = [1 + array(one.weight) for one in (attention.q_norm, attention.k_norm)]
                self.output_gamma = 1 + array(block.post_attention_layernorm.weight)
                self.local = config.layer_types[layer] == "sliding_attention"
                self.rope = 300.0 if self.local else 5000.0
                self.positions = 1.0 if self.local else 1 / 2.5
                self.window = config.sliding_window if self.local else 0
            parts = [array(one.weight).T for one in (attention.q_proj, attention.k_proj, attention.v_proj)]
            biases = [np.zeros(part.shape[1]) for part in parts]
            out, norm = array(attention.o_proj.weight).T, block.input_layernorm
            self.epsilon, self.output_bias = config.rms_norm_eps, np.zeros(out.shape[1])
        self.gamma = array(norm.weight) + (name == "gemma 3")
        self.beta = np.zeros_like(self.gamma) if self.rms else array(norm.bias)
        self.width = out.shape[0] // self.heads
        self.rate = self.width**-0.5 if name != "gemma 3" else config.query_pre_attn_scalar**-0.5
        self.weights = [self.split(part) for part in parts]
        self.biases = [self.split(bias[None]) for bias in biases]
        self.out = out.reshape(self.heads, self.width, -1)

    def split(self, matrix: Array) -> Array:
        groups = matrix.shape[1] // self.width
        apart = matrix.reshape(-1, groups, self.width).transpose(1, 0, 2)
        return np.repeat(apart, self.heads // groups, axis=0)

    def centred(self, u: Array) -> Array:
        return u if self.rms else u - u.mean(-1, keepdims=True)

    def scale(self, u: Array) -> Array:
        return np.sqrt((self.centred(u) ** 2).mean(-1) + self.epsilon)

    def root(self, u: Array) -> Array:
        return np.sqrt((u**2).mean(-1) + self.epsilon)

    def norm(self, u: Array) -> Array:
        return self.centred(u) / self.scale(u)[..., None] * self.gamma + self.beta

    def rotate(self, x: Array) -> Array:
        if not self.rms:
            return x
        half = self.width // 2
        angles = self.positions * np.arange(x.shape[1])[:, None] * self.rope ** (-np.arange(half) / half)
        a, b = x[..., :half], x[..., half:]
        cosine, sine = np.cos(angles), np.sin(angles)
        return np.concatenate([a * cosine - b * sine, b * cosine + a * sine], axis=-1)

    def run(self, x: Array) -> dict[str, Array]:
        h = x if self.name == "bert" else self.norm(x)
        q, k, v = (h @ w + b for w, b in zip(self.weights, self.biases, strict=True))
        raw = [q, k]
        if self.name == "gemma 3":
            q, k = (
                u / self.root(u)[..., None] * gamma for u, gamma in zip(raw, self.head_norms, strict=True)
            )
        q, k = self.rotate(q), self.rotate(k)
        scores = q @ k.transpose(0, 2, 1) * self.rate
        if self.name != "bert":
            seen = np.tri(x.shape[0], dtype=bool)
            if self.window > 0:
                seen &= ~np.tri(x.shape[0], k=-self.window, dtype=bool)
            scores = np.where(seen, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        mixed = (weights @ v @ self.out).sum(0) + self.output_bias
        added = mixed
        if self.name == "gemma 3":
            added = mixed / self.root(mixed)[..., None] * self.output_gamma
        total = x + added
        block = self.norm(total) if self.name == "bert" else total
        found = {"x": x, "q": q, "k": k, "v": v, "p": weights, "y": mixed, "sum": total, "block": block}
        return {**found, "raw q": raw[0], "raw k": raw[1]}


# ---- the bounds ----


def lengths(x: Array) -> Array:
    return np.linalg.norm(x, axis=-1)


def spectral(x: Array) -> Array:
    return np.linalg.norm(x, 2, axis=(-2, -1))


def worst(measured: Array, printed: Array, sharp: Array) -> list[float]:
    ratios = [np.divide(measured, b, out=np.zeros_like(b), where=b > 0).max() for b in (printed, sharp)]
    return [measured.max(), printed.max(), sharp.max(), *ratios]


def norm_bounds(layer: Layer, u: Array, v: Array) -> tuple[Array, Array, Array]:
    gamma, a, b = np.abs(layer.gamma).max(), layer.scale(u), layer.scale(v)
    printed = gamma * lengths(u - v) / np.minimum(a, b)
    sharp = gamma * 2 * lengths(layer.centred(u) - layer.centred(v)) / (a + b)
    return lengths(layer.norm(u) - layer.norm(v)), printed, sharp


def gains(gamma: Array, a: Array, b: Array) -> list[Array]:
    """How much farther apart a norm of these scales takes two vectors at most, printed and sharp."""
    largest = np.abs(gamma).max()
    return [largest / np.minimum(a, b), largest * 2 / (a + b)]


def expected(layer: Layer, before: Array, after: Array) -> dict[str, list[float]]:
    a, b = layer.run(before), layer.run(after)
    rate, gamma = layer.rate, np.abs(layer.gamma).max()
    place = "sum" if layer.name == "bert" else "x"
    found = {"norm": worst(*norm_bounds(layer, a[place], b[place]))}
    # weights, output
    moved = np.abs(a["p"] - b["p"]).sum(-1)
    change = rate * (a["q"] @ a["k"].transpose(0, 2, 1) - b["q"] @ b["k"].transpose(0, 2, 1))
    seen = a["p"] > 0
    width = np.where(seen, change, -np.inf).max(-1) - np.where(seen, change, np.inf).min(-1)
    reach = rate * (
        lengths(a["k"] - b["k"]).max(-1)[:, None] * lengths(a["q"])
        + lengths(b["k"]).max(-1)[:, None] * lengths(a["q"] - b["q"])
    )
    found["weights"] = worst(moved, reach, 2 * np.tanh(width / 4))
    out, values, drift = spectral(layer.out), a["v"], a["v"] - b["v"]
    forms = [spectral, lambda x: lengths(x).max(-1)]
    bounds = [(out[:, None] * (moved * f(values)[:, None] + f(drift)[:, None])).sum(0) for f in forms]
    found["output"] = worst(lengths(a["y"] - b["y"]), *bounds)
    # block, from inputs and weights alone
    delta = [lengths(before - after)] * 2
    if layer.name != "bert":
        delta = list(norm_bounds(layer, before, after)[1:])
    query, key, value = (spectral(w) for w in layer.weights)
    one = np.ones(a["q"].shape[:2])
    query_gain, key_gain, output_gain = [one, one], [one, one], [one[0], one[0]]
    if layer.name == "gemma 3":
        query_gain, key_gain = (
            gains(weight, layer.root(a[f"raw {part}"]), layer.root(b[f"raw {part}"]))
            for part, weight in zip("qk", layer.head_norms, strict=True)
        )
        output_gain = gains(layer.output_gamma, layer.root(a["y"]), layer.root(b["y"]))
    bounds = []
    for form in range(2):
        far = delta[form].max()
        k_moves = (key_gain[form] * delta[form]).max(-1) * key
        r = rate * (
            lengths(a["q"]) * k_moves[:, None]
            + (lengths(b["k"]).max(-1) * query)[:, None] * query_gain[form] * delta[form]
        )
        w = r if form == 0 else np.minimum(2, 2 * np.tanh(2 * r / 4))
        dv = value * (np.linalg.norm(delta[0]) if form == 0 else far)
        head = out[:, None] * (w * forms[form](values)[:, None] + dv[:, None])
        bounds.append(lengths(before - after) + output_gain[form] * head.sum(0))
    if layer.name == "bert":
        s, t = layer.scale(a["sum"]), layer.scale(b["sum"])
        bounds = [bounds[0] * gamma / np.minimum(s, t), bounds[1] * gamma * 2 / (s + t)]
    found["block"] = worst(lengths(a["block"] - b["block"]), *bounds)
    return found


def log_ratios(p: Array, causal: bool) -> Array:
    part = p[TOKENS // 2 :, : TOKENS // 2] if causal else p
    return np.log(part[:, 1:] / part[:, :1])


def rank(matrix: Array) -> int:
    values = np.linalg.svd(matrix, compute_uv=False)
    return int((values > 1e-10 * values[0]).sum())


def check_rank(told: str, kernels: list[Array], causal: bool) -> int | None:
    """The mean over windows, or none where a kernel has a 0: the most of a window."""
    parts = [p[TOKENS // 2 :, : TOKENS // 2] if causal else p for p in kernels]
    if any((part == 0).any() for part in parts):
        assert told == ""
        return None
    ranks = [rank(log_ratios(p, causal)) for p in kernels]
    spec.check("TOT-61 TOT-62", abs(float(told) - float(np.mean(ranks))), 0)
    return max(ranks)


# ---- tests ----


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open() as stream:
        return list(csv.DictReader(stream))


COLUMNS = ["measured", "printed_bound", "sharp_bound", "printed_tightness", "sharp_tightness"]
IDS = {"norm": "TOT-60", "weights": "TOT-55", "output": "TOT-54", "block": "TOT-60"}


def test_one_norm_of_all_heads_is_refused(tmp_path: Path) -> None:
    """OLMo 2's: bounds take the norm of each head by itself."""
    make_family(tmp_path / "model", "olmo2", 0)
    np.save(tmp_path / "ids.npy", np.arange(1, 9))
    words = ["analyze", "model", "--ids", "ids.npy", "--windows", "1x8", "--bounds", "1"]
    refused = answer(tmp_path, *words, code=2)
    assert "one norm takes all heads" in refused["error"]
    assert refused["hint"] == "analyze it without --bounds"


@pytest.mark.parametrize("name", ["gpt2", "bert", "llama", "gemma 3"])
def test_layers_against_their_bounds(tmp_path: Path, name: str) -> None:
    model = make_model(tmp_path / "model", name).double()
    ids = draw_ids(WINDOWS, TOKENS)
    np.save(tmp_path / "ids.npy", ids.ravel())
    words = ["analyze", "model", "--ids", "ids.npy", "--windows", f"{WINDOWS}x{TOKENS}", "--bounds", "2"]
    answer(tmp_path, *words)
    rows = rows_of(tmp_path / "run/tables/bounds.csv")
    ranks = rows_of(tmp_path / "run/tables/ranks.csv")
    states = [peer_states(model, name, window)[0] for window in ids[:2]]
    count = len(states[0]) - 1
    kernels: list[list[Array]] = []
    for number in range(count):
        layer = Layer(model, name, number)
        found = [expected(layer, *one[number : number + 2]) for one in states]
        kernels.append([layer.run(one[number])["p"] for one in states])
        for row in rows:
            if row["layer"] != str(number) or row["change"] != "next state":
                continue
            wanted = np.mean([one[row["statement"]] for one in found], axis=0)
            told = np.array([float(row[column]) for column in COLUMNS])
            spec.check(IDS[row["statement"]], np.abs(told / wanted - 1).max(), FIGURE)
            assert row["n"] == "2" and row["id"] == IDS[row["statement"]]
        jacobian = next(r for r in rows if r["layer"] == str(number) and r["statement"] == "norm jacobian")
        exact = []
        for one in states:
            inputs = layer.run(one[number])["sum"] if name == "bert" else one[number]
            exact.append(max(spectral(jacobian_of(layer, u)) for u in inputs))
        spec.check("TOT-58 TOT-59", abs(float(jacobian["measured"]) / float(np.mean(exact)) - 1), FIGURE)
        for row in (r for r in ranks if r["layer"] == str(number)):
            head = int(row["head"])
            check_rank(row["one_layer"], [p[head] for p in kernels[number]], name != "bert")
            if row["one_layer"] != "":
                spec.check("TOT-61", float(row["one_layer"]) - layer.width, 0)
            if number == 0:
                assert row["two_layers"] == ""
                continue
            pairs = zip(kernels[number], kernels[number - 1], strict=True)
            both = check_rank(row["two_layers"], [p[head] @ q[head] for p, q in pairs], name != "bert")
            assert both is None or both == int(row["most"]) > layer.width
    for row in rows:
        for form in ("printed", "sharp"):
            if row[f"{form}_violations"] != "":
                spec.check(row["id"], float(row[f"{form}_violations"]), 0)
    assert len(rows) == 9 * (count + 1) + 1 and rows[-1]["statement"] == "coherence"


def jacobian_of(layer: Layer, u: Array) -> Array:
    c, s, d = layer.centred(u), layer.scale(u), len(u)
    mean = 0.0 if layer.rms else 1.0 / d
    return layer.gamma[:, None] * (np.eye(d) - mean - np.outer(c, c) / (s * s * d)) / s


def test_resumed_and_on_other_threads(tmp_path: Path) -> None:
    make_model(tmp_path / "model", "llama")
    np.save(tmp_path / "ids.npy", draw_ids(1, WINDOWS * TOKENS)[0])
    words = ["analyze", "model", "--ids", "ids.npy", "--windows", f"{WINDOWS}x{TOKENS}", "--bounds", "2"]
    answer(tmp_path, *words, "-o", "whole", "--threads", 1)
    whole = contents(tmp_path / "whole")
    answer(tmp_path, *words, "-o", "threads", "--threads", 3)
    assert contents(tmp_path / "threads") == whole
    (tmp_path / "threads/windows/000001.bin").unlink()
    (tmp_path / "threads/tables/bounds.csv").unlink()
    answer(tmp_path, *words, "-o", "threads", "--resume")
    assert contents(tmp_path / "threads") == whole
    said = answer(tmp_path, *words[:-1], "3", "-o", "whole", "--resume", code=2)
    assert "bounds" in said["error"]
    said = answer(tmp_path, *words, "-o", "other", "--method", "softmax/online:2", code=2)
    assert "--bounds" in said["error"]
