"""`otattn patch` and `otattn lens` on small random checkpoints: patched runs against transformers with hooks,
cell by cell, and what the head reads at every layer against its own head on the same hidden states."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from program import ROOT, answer, run
from test_edits import hooked
from test_models import draw_ids, make_model

torch = pytest.importorskip("torch")

FIGURES = ROOT / "program" / "report" / "figures"
LAYER = 1  # that `hooked` patches
SHARES = 2e-3  # of a difference of logits that is at least a twentieth of the largest logit: 1e-4 of that


def prompts(folder: Path, count: int = 9) -> np.ndarray:
    both = np.concatenate([draw_ids(1, count)] * 2)
    both[1, [2, 5]] = [7, 11]
    np.save(folder / "both.npy", both)
    return both


@pytest.mark.parametrize("name", ["gpt2", "llama"])
@pytest.mark.parametrize(
    ("point", "by"), [("hook_resid_pre", None), ("attn.hook_z", None), ("attn.hook_z", "position")]
)
def test_patches_against_hooks(tmp_path: Path, name: str, point: str, by: str | None) -> None:
    model = make_model(tmp_path / "model", name)
    clean, corrupt = prompts(tmp_path)[:, None]
    words = ["patch", "model", "--ids", "both.npy", "--answer", 5, "--other", 9, "--point", point]
    found = answer(tmp_path, *words, *(["--by", by] if by else []), "-o", "cells.csv")
    seen: list[Any] = []

    def keep(x: Any) -> Any:
        seen.append(x.clone())
        return x

    def difference(ids: np.ndarray) -> float:
        with torch.no_grad():
            logits = model(torch.tensor(ids)).logits[0, -1]
        return float(logits[5] - logits[9])

    with hooked(model, point, keep):
        before = difference(clean)
    after = difference(corrupt)
    assert abs(before - after) > 0.05 * 4
    by_head = point == "attn.hook_z" and by is None
    assert found["across"] == ("head" if by_head else "position")
    for cell, share in enumerate(found["restored"][LAYER]):

        def patched(x: Any, cell: int = cell) -> Any:
            x = x.clone()
            index = (slice(None), slice(None), cell) if by_head else (slice(None), cell)
            x[index] = seen[0][index]
            return x

        with hooked(model, point, patched):
            wanted = (difference(corrupt) - after) / (before - after)
        assert abs(share - wanted) <= SHARES, (cell, share, wanted)
    with (tmp_path / "cells.csv").open() as file:
        rows = list(csv.DictReader(file))
    table = np.array([float(row["restored"]) for row in rows]).reshape(np.shape(found["restored"]))
    assert np.array_equal(table, np.array(found["restored"]))


def test_a_patched_stream_restores_all(tmp_path: Path) -> None:
    """Behind the last block the last position alone counts; before the prompts differ nothing does."""
    make_model(tmp_path / "model", "gpt2")
    prompts(tmp_path)
    found = answer(tmp_path, "patch", "model", "--ids", "both.npy", "--answer", 5, "--other", 9)
    restored = np.array(found["restored"])
    assert np.abs(restored[:, [0, 1]]).max() <= SHARES
    whole = answer(
        tmp_path, "patch", "model", "--ids", "both.npy", "--answer", 5, "--other", 9,
        "--point", "hook_resid_post",
    )  # fmt: skip
    last = np.array(whole["restored"])[-1]
    assert abs(last[-1] - 1) <= SHARES and np.abs(last[:-1]).max() <= SHARES


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert"])
def test_lens_against_the_head(tmp_path: Path, name: str) -> None:
    model = make_model(tmp_path / "model", name)
    ids = draw_ids(1, 13)
    np.save(tmp_path / "ids.npy", ids)
    found = answer(tmp_path, "lens", "model", "--ids", "ids.npy", "-o", "lens.csv")
    with torch.no_grad():
        peer = model(torch.tensor(ids), output_hidden_states=True)
        layers = len(peer.hidden_states) - 1
        for layer, state in enumerate(peer.hidden_states):
            if name == "bert":
                logits = model.cls(state)
            else:
                norm = model.transformer.ln_f if name == "gpt2" else model.model.norm
                logits = model.lm_head(state if layer == layers else norm(state))
            best, token = logits.softmax(-1).max(-1)
            assert found["ids"][layer] == token[0].tolist()
            assert np.abs(np.array(found["probability"][layer]) - best[0].numpy()).max() <= 1e-4
    with (tmp_path / "lens.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["layer"]) for row in rows] == [k // 13 - 1 for k in range((layers + 1) * 13)]
    shown = run(tmp_path, "lens", "model", "--ids", "ids.npy").stdout.decode().splitlines()
    assert [line.split()[0] for line in shown[1:]] == ["emb", *map(str, range(layers))]
    told = " ".join(run(tmp_path, "help", "lens").stdout.decode().split())
    assert "by the layer that the stream leaves; emb, in tables and JSON -1, is the embedding" in told


def test_pages_and_figures(tmp_path: Path) -> None:
    make_model(tmp_path / "model", "gpt2")
    both = prompts(tmp_path)
    np.save(tmp_path / "ids.npy", both[:1])
    patch = ["patch", "model", "--ids", "both.npy", "--answer", 5, "--other", 9]
    for words in (patch, ["lens", "model", "--ids", "ids.npy"]):
        found = answer(tmp_path, *words, "-f", "-o", "f.vl.json")
        figure = json.loads((tmp_path / "f.vl.json").read_text())
        drawn = figure["datasets"]["rows"]
        values = found["probability"] if "restored" not in found else found["restored"]
        # Figure and numbering are the report's: rows by the layer that a state leaves, the last on top.
        lens = words[0] == "lens"
        assert found["layer"] == list(range(-1 if lens else 0, len(values) - (1 if lens else 0)))
        labels = ["emb" if layer < 0 else str(layer) for layer in found["layer"]]
        assert [row["row"] for row in drawn] == labels[::-1]
        assert [row["values"] for row in drawn] == values[::-1]
        assert [row.get("words") for row in drawn] == [
            [str(token) for token in ids] if lens else None for ids in (found.get("ids") or values)[::-1]
        ]
        peer = json.loads((FIGURES / f"{'grid' if lens else 'patching'}.vl.json").read_text())
        assert figure["description"] == peer["description"]
        done = run(tmp_path, *words, "-f", "-o", "f.html")
        assert done.returncode == 0 and b"wrote f.html" in done.stdout
        assert "<html" in (tmp_path / "f.html").read_text()


def refused(folder: Path, part: str, *words: Any) -> None:
    done = run(folder, *words)
    text = done.stderr.decode()
    assert done.returncode == 2 and part in text and text.count("\n") == 1, text


def test_refusals(tmp_path: Path) -> None:
    make_model(tmp_path / "model", "gpt2")
    make_model(tmp_path / "bert", "bert")
    both = prompts(tmp_path)
    np.save(tmp_path / "ids.npy", both[:1])
    np.save(tmp_path / "same.npy", both[[0, 0]])
    np.save(tmp_path / "far.npy", both + 60)
    patch = ["patch", "model", "--ids"]
    refused(tmp_path, "two sequences", *patch, "ids.npy")
    refused(tmp_path, "vocabulary has 61", *patch, "far.npy")
    refused(tmp_path, "predict the same token", *patch, "same.npy")
    refused(tmp_path, "same difference", *patch, "same.npy", "--answer", 5, "--other", 9)
    refused(tmp_path, "needs two tokens", *patch, "both.npy", "--answer", 5)
    refused(tmp_path, "no token of the vocabulary", *patch, "both.npy", "--answer", 61, "--other", 9)
    refused(tmp_path, "no point 'hook_embed'", *patch, "both.npy", "--point", "hook_embed")
    refused(tmp_path, "no heads", *patch, "both.npy", "--point", "hook_mlp_out", "--by", "head")
    answers = ["--answer", 5, "--other", 9]
    refused(tmp_path, "cannot be edited", *patch, "both.npy", "--point", "attn.hook_receiver", *answers)
    refused(tmp_path, "two prompts", "patch", "model", "--clean", "x")
    refused(tmp_path, "looks both ways", "patch", "bert", "--ids", "both.npy")
    refused(tmp_path, "no page, table or figure", "lens", "model", "--ids", "ids.npy", "-o", "f.png")
    refused(tmp_path, "2 sequences", "lens", "model", "--ids", "both.npy")
    (tmp_path / "there.csv").write_text("mine")
    refused(tmp_path, "exists", "lens", "model", "--ids", "ids.npy", "-o", "there.csv")
    assert (tmp_path / "there.csv").read_text() == "mine"
