"""The commands of docs/research/study.md for GPT-2, which were not run on the trained model: the block as it
is printed, on random weights of GPT-2 small's shapes in a hub cache, and a text of a few hundred tokens."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from commands import commands_of
from program import PROGRAM, ROOT

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from test_tokenizers import bytes_tokenizer, train_bytes  # noqa: E402

# Layers as GPT-2 small has them, two of the twelve; fewer words.
SIZES = {"n_layer": 2, "n_embd": 768, "n_head": 12, "vocab_size": 1500, "n_positions": 1024}
# What makes each command short: these values in the place of its own, since no flag may be given twice.
SHORT = {
    "analyze": "--windows 2x48",
    "perplexity": "",
    "scripts/study_tables.py": "",
    "scripts/sink_surgery.py": "--windows 1 --report 1 --tokens 32 --heads 1 --methods softmax/capped:2",
    "scripts/early_exit.py": "--tokens 60 --context 64 --thresholds 0.5 --transitions 1",
    "scripts/score_certificates.py": "--lengths 32 --roundings bf16",
}


def make_cache(folder: Path) -> None:
    snapshot = folder / "models--openai-community--gpt2" / "snapshots" / "0"
    torch.manual_seed(0)
    config = transformers.GPT2Config(**SIZES, initializer_range=0.1, bos_token_id=0, eos_token_id=0)
    transformers.GPT2LMHeadModel(config).save_pretrained(snapshot)
    (folder / "models--openai-community--gpt2" / "refs").mkdir()
    (folder / "models--openai-community--gpt2" / "refs" / "main").write_text("0")
    bytes_tokenizer(train_bytes()).model.save(str(snapshot))  # type: ignore[arg-type]


def test_gpt2(tmp_path: Path) -> None:
    make_cache(tmp_path / "hub")
    text = (ROOT / "docs" / "users" / "methods.md").read_bytes()[:3000]
    (tmp_path / "wikitext-2-raw.test.txt").write_bytes(text)
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "otattn").symlink_to(PROGRAM)
    (tmp_path / "scripts").symlink_to(ROOT / "scripts")
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tmp_path / "python").chmod(0o755)
    environment = {**os.environ, "HF_HUB_CACHE": str(tmp_path / "hub"),
                   "PATH": f"{tmp_path}:{os.environ['PATH']}"}  # fmt: skip
    lines = commands_of(ROOT, "gpt2")
    assert [line.split()[1] for line in lines] == list(SHORT)
    printed = {}
    for line in lines:
        word = line.split()[1]
        for flag in re.findall(r"--[a-z]+", SHORT[word]):
            line = re.sub(rf" {flag} \S+", "", line)
        done = subprocess.run(
            ["bash", "-c", f"{line} {SHORT[word]}"],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, (line, done.stderr)
        printed[word] = done.stdout
    for k in range(1, 6):
        assert (tmp_path / f"gpt2/tables/table{k}.csv").is_file()
    with (tmp_path / "gpt2/tables/bounds.csv").open(newline="") as file:
        assert {row["layer"] for row in csv.DictReader(file)} >= {"0", "1"}
    assert printed["perplexity"].startswith("perplexity ") and "GPT-2" in printed["scripts/study_tables.py"]
    for folder, table in (("surgery", "frontier"), ("exit", "exits"), ("certificates", "certificates")):
        assert (tmp_path / f"gpt2-{folder}/{table}.csv").read_text().count("\n") > 1
