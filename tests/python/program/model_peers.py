"""A model of transformers beside ours in its folder: every state, weight and logit, and greedy words.

Bounds: hidden states, weights and logits within 2e-5 of their largest value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_families import pick, truth
from program import answer
from safetensors.numpy import load_file

torch = pytest.importorskip("torch")
safetensors_torch = pytest.importorskip("safetensors.torch")

BOUND = 2e-5


def peer_run(model: Any, ids: np.ndarray, lengths: np.ndarray | None = None) -> Any:
    mask = None
    if lengths is not None:
        mask = torch.tensor(np.arange(ids.shape[1])[None] < lengths[:, None]).long()
    with torch.no_grad():
        return model(
            torch.tensor(ids), attention_mask=mask, output_hidden_states=True, output_attentions=True
        )


def distance(ours: np.ndarray, peer: Any, rows: np.ndarray | None = None) -> float:
    """Largest difference, relative to the largest value; `rows` chooses [batch, count]."""
    wanted = peer.numpy()
    difference = np.abs(ours - wanted)
    if rows is not None:
        difference, wanted = difference[rows], wanted[rows]
    return float(difference.max() / np.abs(wanted).max())


def save_drawn(folder: Path, model: Any, generator: np.random.Generator) -> None:
    """In a drawn type, whose numbers the model then has itself, and in one file or several."""
    kind = pick(generator, torch.float32, torch.float16, torch.bfloat16, torch.float64)
    shards = kind == torch.float32 or truth(generator)
    state = model.state_dict()
    model.load_state_dict(
        {name: x.to(kind).to(x.dtype) if x.is_floating_point() else x for name, x in state.items()}
    )
    model.save_pretrained(folder, max_shard_size="8KB" if shards else "1GB")
    paths = list(folder.glob("*.safetensors"))
    assert (len(paths) > 1) == shards
    for path in paths:
        tensors = safetensors_torch.load_file(path)
        kept = {name: x.to(kind) if x.is_floating_point() else x for name, x in tensors.items()}
        safetensors_torch.save_file(kept, path)
    types = answer(folder.parent, "info", folder.name)["types"]
    assert list(types) == [
        {"float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16"}[str(kind)[6:]]
    ]


def expect_same(folder: Path, model: Any, ids: np.ndarray, lengths: np.ndarray | None = None) -> None:
    words = []
    if lengths is not None:
        np.save(folder / "lengths.npy", lengths)
        words = ["--lengths", "lengths.npy"]
    np.save(folder / "ids.npy", ids)
    peer = peer_run(model, ids, lengths)
    points = "all,logits" if hasattr(peer, "logits") else "all"
    out = ("-f", "-o", "run.safetensors")
    answer(folder, "capture", "model", "--ids", "ids.npy", "--points", points, *out, *words)
    ours = load_file(folder / "run.safetensors")
    rows = None if lengths is None else np.arange(ids.shape[1])[None] < lengths[:, None]
    layers = len(peer.attentions)
    if "blocks.0.hook_normalized_resid_post" in ours:
        names = [
            "blocks.0.hook_resid_pre",
            *(f"blocks.{k}.hook_normalized_resid_post" for k in range(layers)),
        ]
    else:
        names = [f"blocks.{k}.hook_resid_pre" for k in range(layers)]
    if "ln_final.hook_normalized" in ours:
        names.append("ln_final.hook_normalized")
    for layer, state in enumerate(names):
        # The last ones of OPT with narrow embeddings are as narrow.
        if ours[state].shape != peer.hidden_states[layer].shape:
            continue
        assert distance(ours[state], peer.hidden_states[layer], rows) <= BOUND, state
    for layer in range(layers):
        pattern = np.moveaxis(ours[f"blocks.{layer}.attn.hook_pattern"], 1, 2)
        assert distance(pattern, peer.attentions[layer].transpose(1, 2), rows) <= BOUND, layer
    if hasattr(peer, "logits"):
        assert distance(ours["logits"], peer.logits, rows) <= BOUND


def expect_same_words(folder: Path, model: Any, prompt: np.ndarray) -> None:
    """Word for word from a cache, as the peer's: longrope turns to other divisors at its original context."""
    np.save(folder / "ids.npy", prompt)
    ours = answer(folder, "generate", "model", "--ids", "ids.npy", "--tokens", 12)["ids"]
    given, past = torch.tensor(prompt[None]), None
    for token in ours:
        with torch.no_grad():
            found = model(given, past_key_values=past, use_cache=True)
        past, logits = found.past_key_values, found.logits[0, -1]
        # A tie within rounding may go either way.
        assert float(logits.max() - logits[token]) <= BOUND * float(logits.abs().max())
        given = torch.tensor([[token]])
