"""Folders as `otattn analyze` writes them, made from invented numbers, for tests of the report.

write(folder, layers=12, heads=12, tokens=512, hostile=False, noise=False, seed=0)
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

HOSTILE = [
    "</script><script>window.hit=1</script>",
    '"><img src=x onerror=window.hit=2>',
    "a\u2028b\u2029c",
    "\u202egnp.exe\u202c",
    "\\input{/etc/passwd}%$&#_^~",
    "`window.hit=3`",
    "\u0000\u0007\ud7ff",
    "=HYPERLINK(0)",
]
TRANSITIONS = [
    *("tv", "w1", "kl", "js", "entropy_change", "top1", "top5", "top10", "top100", "spearman"),
    *("relative_l2", "cosine", "max_coordinate_change", "norm_change"),
    *("max_logit_change", "logit_range_half", "logit_correlation", "effective_temperature"),
    *("bound_ratio", "bound_ratio_sharp", "alignment", "alignment_per_sqrt_vocabulary"),
]
LAYERS = [
    *("norm", "entropy", "max_probability", "agreement_with_final", "kl_to_final"),
    *("effective_rank", "mean_cosine", "kurtosis", "massive_ratio"),
]
ATTENTION = ["sink_rate", "first_key_mass", "receiver_max", "gini", "row_entropy", "max_weight", "support"]
# What heads may be called; of one head in three.
NAMES = ["induction", "previous token", "positional"]
# Where a measure lies at depth 0 and at depth 1.
ENDS = {
    "tv": (0.7, 0.2),
    "kl": (2.0, 0.2),
    "js": (0.35, 0.05),
    "entropy_change": (-1.0, -0.1),
    "cosine": (0.6, 0.97),
    "spearman": (0.5, 0.95),
    "logit_correlation": (0.5, 0.97),
    "relative_l2": (1.2, 0.15),
    "norm": (4.0, 180.0),
    "entropy": (9.5, 3.0),
    "max_probability": (0.05, 0.4),
    "agreement_with_final": (0.05, 1.0),
    "kl_to_final": (6.0, 0.0),
    "effective_rank": (200.0, 30.0),
    "kurtosis": (0.2, 40.0),
    "massive_ratio": (12.0, 900.0),
    "mean_cosine": (0.1, 0.6),
    "alignment": (20.0, 70.0),
    "bound_ratio": (0.03, 0.09),
    "bound_ratio_sharp": (0.1, 0.25),
}


def figure(values: np.ndarray) -> dict[str, Any]:
    mean, sd = float(values.mean()), float(values.std(ddof=1))
    p5, median, p95 = (float(x) for x in np.percentile(values, [5, 50, 95]))
    half = 1.96 * sd / len(values) ** 0.5
    return {
        "mean": mean,
        "sd": sd,
        "median": median,
        "p5": p5,
        "p95": p95,
        "ci95": [mean - half, mean + half],
        "n": len(values),
    }


def measured(rng: np.random.Generator, name: str, depth: float, count: int) -> dict[str, Any]:
    begin, end = ENDS.get(name, (0.4, 0.8))
    middle = begin + (end - begin) * depth
    return figure(middle * (1 + 0.15 * rng.standard_normal(count)))


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def pattern(rng: np.random.Generator, count: int, sink: float) -> np.ndarray:
    """A causal pattern whose first key draws the more the larger `sink` is."""
    scores = (
        rng.standard_normal((count, count)) * 2 - np.abs(np.subtract.outer(range(count), range(count))) / 20
    )
    scores[:, 0] += sink
    scores[np.triu_indices(count, 1)] = -np.inf
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def pool(weights: np.ndarray, cells: int) -> np.ndarray:
    count = len(weights)
    block = np.arange(count) * cells // count
    edges = np.searchsorted(block, np.arange(cells))
    return np.maximum.reduceat(np.maximum.reduceat(weights, edges, 0), edges, 1)


def write(
    folder: Path,
    layers: int = 12,
    heads: int = 12,
    tokens: int = 512,
    hostile: bool = False,
    noise: bool = False,
    seed: int = 0,
) -> Path:
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    words = [" the", " of", ",", " cat", "\n", " sat", ".", " naïve", " 船"]
    texts = [(HOSTILE if hostile and k % 3 == 0 else words)[k % 8] for k in range(tokens)]
    count = 4 * tokens

    transitions = []
    for layer in range(layers):
        depth = (layer + 1) / layers
        both = [{name: measured(rng, name, depth, count) for name in TRANSITIONS} for _ in range(2)]
        transitions.append({"layer": layer, **both[0], "raw": both[1]})
    states = []
    for layer in range(layers + 1):
        both = [{name: measured(rng, name, layer / layers, count) for name in LAYERS} for _ in range(2)]
        states.append({"layer": layer, **both[0], "raw": both[1]})
    pull = rng.random((layers, heads)) * np.linspace(0.1, 1, layers)[:, None]
    attention: list[list[dict[str, Any]]] = [
        [
            {
                name: figure(
                    (tokens / 8 if name == "receiver_max" else 1) * pull[layer, head] * rng.random(4)
                )
                for name in ATTENTION
            }
            for head in range(heads)
        ]
        for layer in range(layers)
    ]
    for layer, row in enumerate(attention):
        for head, scores in enumerate(row):
            called = NAMES[(layer + head) % 9 // 3] if (layer + head) % 3 == 0 else None
            for kind in NAMES:
                share = 0.5 + 0.4 * rng.random(4) if kind == called else 0.1 * rng.random(4)
                scores[kind.replace(" ", "_")] = {**figure(share), "chance": 0.03}
            scores["name"] = called
    name = HOSTILE[0] if hostile else "gpt2-invented"
    metrics = {
        "model": f"models/{name}",
        "text_sha256": "0" * 64,
        "probe": "final_norm",
        "windows": 4,
        "tokens": count,
        "transitions": transitions,
        "layers": states,
        "attention": attention,
        "events": {"count": 41, "frequency": 0.0049, "thresholds": [0.9999, 1e-10]},
        "bounds": {"checked": count * layers, "violations": 0, "largest": 0.126},
    }
    (folder / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    manifest = {
        "command": f"otattn analyze models/{name} text.txt -o run",
        "version": "0.1.0",
        "seed": 1,
        "settings": {"windows": "4x512", "saturation": [0.9999, 1e-10], "sample": "first", "store": "f32"},
        "seconds": 12.5,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")

    tables = folder / "tables"
    write_csv(
        tables / "table1.csv",
        [{"layer range": "1-4", name: "0.08 ± 0.02"}, {"layer range": "5-8", name: "0.19 ± 0.03"}],
    )
    write_csv(tables / "table5.csv", [{"epsilon": 1.0, "tolerance": 1e-6, "mean": 3.2, "sd": 0.4, "max": 5}])
    write_csv(
        tables / "events.csv",
        [
            {
                "window": int(rng.integers(4)),
                "layer": int(rng.integers(layers // 3, layers)),
                "position": int(rng.integers(tokens)),
                "token": texts[int(rng.integers(tokens))],
                "max_probability": 0.99995,
                "tv": 3e-11,
            }
            for _ in range(41)
        ],
    )
    write_csv(
        tables / "massive.csv",
        [
            {"state": state, "rank": 1, "ratio": 9.0, "dimension": 7 + state, "token": texts[0], "n": 4}
            for state in range(layers + 1)
        ],
    )
    write_csv(
        tables / "methods.csv",
        [
            {
                "method": method,
                "output_change": change,
                "nll_per_token": nll,
                "perplexity": np.exp(nll),
                "receiver_max": top,
            }
            for method, change, nll, top in (
                ("softmax", 0.0, 3.3, 61.0),
                ("softmax/capped:2", 0.31, 4.1, 2.0),
                ("softmax/online:4", 0.22, 3.7, 4.0),
            )
        ],
    )
    write_csv(
        tables / "temperatures.csv",
        [
            {
                "temperature": t,
                "saturation": 0.005 / t,
                "relative_l2": 0.3 * t,
                "perplexity": 27 + 10 * abs(np.log(t)),
            }
            for t in (0.5, 0.7, 1.0, 1.4, 2.0)
        ],
    )
    cells = min(tokens, 96)
    # Noise packs worse than any pattern.
    maps = (
        rng.random((layers, heads, cells, cells))
        if noise
        else np.stack([np.stack([pool(pattern(rng, tokens, 12 * s), cells) for s in row]) for row in pull])
    )
    lens = [[texts[int(rng.integers(tokens))] for _ in range(tokens)] for _ in range(layers + 1)]
    save_file(
        {
            "max_probability": rng.random((layers + 1, tokens)).astype(np.float32),
            "tv": rng.random((layers, tokens)).astype(np.float32),
            "patterns": maps.astype(np.float16),
        },
        folder / "example.safetensors",
        metadata={"tokens": json.dumps(texts), "lens": json.dumps(lens)},
    )
    return folder
