"""Tokens that stop early (--exit, TOT-119) against a slow formula: hooks on transformers' blocks that put the
states of stopped tokens back, in f64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spec
from program import answer, run
from test_models import LOGITS, draw_ids, make_model

torch = pytest.importorskip("torch")


class Exits:
    """While it is entered, tokens of `model` stop behind the block where p_max > theta, or with `targets`
    where their likeliest next token is that one, has held behind `transitions` blocks in a row."""

    def __init__(self, model: Any, theta: float, transitions: int, targets: Any = None) -> None:
        core = getattr(model, "transformer", None) or model.model
        self.blocks = core.h if hasattr(core, "h") else core.layers
        self.norm = core.ln_f if hasattr(core, "ln_f") else core.norm
        self.head, self.theta, self.transitions = model.lm_head, theta, transitions
        self.targets = targets
        self.streak: Any = 0
        self.kept: Any = None

    def __enter__(self) -> Exits:
        self.hooks = [
            block.register_forward_hook(
                lambda _module, _inputs, output, layer=layer: self.behind(layer, output)
            )
            for layer, block in enumerate(self.blocks)
        ]
        return self

    def __exit__(self, *_reason: object) -> None:
        for hook in self.hooks:
            hook.remove()

    def behind(self, layer: int, output: Any) -> Any:
        state = output[0] if isinstance(output, tuple) else output
        last = len(self.blocks)
        if layer == 0:
            self.streak = torch.zeros(state.shape[:2])
            self.layers = torch.full(state.shape[:2], last)
            self.kept = state
        state = torch.where((self.layers < last)[..., None], self.kept, state)
        if layer + 1 < last:
            most = self.head(self.norm(state)).softmax(-1).max(-1)
            settled = most.values > self.theta if self.targets is None else most.indices == self.targets
            self.streak = torch.where(settled, self.streak + 1, 0)
            stops = (self.layers == last) & (self.streak >= self.transitions)
            self.layers = torch.where(stops, layer + 1, self.layers)
            self.kept = torch.where(stops[..., None], state, self.kept)
        return (state, *output[1:]) if isinstance(output, tuple) else state


def slow_run(
    model: Any, ids: np.ndarray, theta: float, transitions: int, targets: Any = None
) -> tuple[Any, Any]:
    """logits [count, vocabulary] and layers [count]."""
    with torch.no_grad(), Exits(model, theta, transitions, targets) as exits:
        return model(torch.tensor(ids)[None]).logits[0], exits.layers[0]


CASES: list[tuple[str, float | str, int]] = [
    ("gpt2", "oracle", 1),
    ("llama", "oracle", 2),
    ("llama", "oracle", 1),
    ("gpt2", 0.2, 1),
    ("gpt2", 0.12, 2),
    ("gpt2 variants", 0.08, 1),
    ("llama", 0.13, 1),
    ("llama", 0.1, 2),
]


@pytest.mark.parametrize(("name", "theta", "transitions"), CASES)
def test_perplexity_with_exits(tmp_path: Path, name: str, theta: float | str, transitions: int) -> None:
    model = make_model(tmp_path / "model", name).double()
    ids = draw_ids(1, 32)[0]
    np.save(tmp_path / "ids.npy", ids)
    words = ["perplexity", tmp_path / "model", "--ids", "ids.npy"]
    ours = answer(tmp_path, *words, "--exit", f"{theta},{transitions}")
    whole, _ = slow_run(model, ids, 1, 1)
    oracle = isinstance(theta, str)
    targets = whole.argmax(-1)[None] if oracle else None
    logits, layers = slow_run(model, ids, 1 if isinstance(theta, str) else theta, transitions, targets)
    after = torch.tensor(ids[1:])
    nll = torch.nn.functional.cross_entropy(logits[:-1], after).item()
    change = nll - torch.nn.functional.cross_entropy(whole[:-1], after).item()
    used = layers[:-1].double().mean().item()
    agreed = (logits.argmax(-1) == whole.argmax(-1))[:-1].double().mean().item()
    assert transitions < used < ours["exit"]["layers"]  # some stop and some do not
    assert ours["exit"]["rule"] == ("oracle" if oracle else "threshold")
    assert (ours["exit"]["threshold"] is None) == oracle
    spec.check("TOT-119", abs(ours["exit"]["layers_used"] - used), 1e-12)
    spec.check("TOT-119", abs(ours["exit"]["agreement"] - agreed), 1e-12)
    spec.check("TOT-119", abs(ours["nll_per_token"] - nll), 1e-5)
    spec.check("TOT-119", abs(ours["exit"]["nll_change"] - change), 1e-5)
    assert abs(ours["exit"]["layers_saved"] - (1 - used / ours["exit"]["layers"])) <= 1e-12


def test_threshold_one_changes_nothing(tmp_path: Path) -> None:
    make_model(tmp_path / "model", "llama")
    np.save(tmp_path / "ids.npy", draw_ids(1, 40)[0])
    words = ["perplexity", tmp_path / "model", "--ids", "ids.npy", "--context", 16]
    plain, ours = answer(tmp_path, *words), answer(tmp_path, *words, "--exit", "1,1")
    spec.check("TOT-119", abs(ours["nll_per_token"] - plain["nll_per_token"]), 0)
    assert ours["exit"]["layers_used"] == 3 and ours["exit"]["agreement"] == 1
    assert ours["exit"]["nll_change"] == 0 and "exit" not in plain


@pytest.mark.parametrize(("name", "theta"), [("gpt2", 0.2), ("llama", 0.13)])
def test_generate_with_exits(tmp_path: Path, name: str, theta: float) -> None:
    """On the cache, where a stopped token leaves keys in layers it does not reach."""
    model = make_model(tmp_path / "model", name).double()
    prompt = draw_ids(1, 9)[0]
    np.save(tmp_path / "ids.npy", prompt)
    words = ["generate", tmp_path / "model", "--ids", "ids.npy", "--tokens", 16, "--exit", theta]
    ours = answer(tmp_path, *words)
    logits, layers = slow_run(model, np.concatenate([prompt, ours["ids"]]), theta, 1)
    for step, token in enumerate(ours["ids"]):
        row = logits[8 + step]
        assert float(row.max() - row[token]) <= LOGITS * float(row.abs().max())
    used = layers[8:-1].double().mean().item()
    assert 1 < used < ours["exit"]["layers"]
    spec.check("TOT-119", abs(ours["exit"]["layers_used"] - used), 1e-12)
    assert b"layers used" in run(tmp_path, *words).stderr


@pytest.mark.parametrize("text", ["0,1", "1.5,1", "0.5,0", "0.5,1.5", "x", "0.5,1,2", "oracle,0", "oracle1"])
def test_bad_exits(tmp_path: Path, text: str) -> None:
    make_model(tmp_path / "model", "gpt2")
    np.save(tmp_path / "ids.npy", draw_ids(1, 5)[0])
    done = run(tmp_path, "perplexity", "model", "--ids", "ids.npy", "--exit", text)
    assert done.returncode == 2 and b"--exit" in done.stderr


def test_generate_knows_no_oracle(tmp_path: Path) -> None:
    make_model(tmp_path / "model", "gpt2")
    np.save(tmp_path / "ids.npy", draw_ids(1, 5)[0])
    done = run(tmp_path, "generate", "model", "--ids", "ids.npy", "--exit", "oracle")
    assert done.returncode == 2 and b"not written yet" in done.stderr
