"""scripts/study_tables.py: what it makes of the tables of a run."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from program import ROOT


def test_receivers_by_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    script = importlib.import_module("study_tables")
    heads = {"a": [(0, 2.5), (0, 3.5), (1, 12.0)], "b": [(0, 1.25)]}
    for name, rows in heads.items():
        (tmp_path / name / "tables").mkdir(parents=True)
        lines = [f"{layer},{head},{mass}" for head, (layer, mass) in enumerate(rows)]
        text = "\n".join(["layer,head,receiver_max", *lines])
        (tmp_path / name / "tables" / "attention.csv").write_text(text + "\n")
    script.receivers({name: tmp_path / name for name in heads})
    wanted = [
        "| layer | a | b |",
        "|---|---|---|",
        "| 0 | 3 (3.5) | 1.25 (1.25) |",
        "| 1 | 12 (12) | – (–) |",
    ]
    assert capsys.readouterr().out.split("\n")[:4] == wanted
