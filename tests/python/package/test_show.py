"""Figures of a call, rich representations, and run folders as the program's contract describes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import otattn
import pytest
import torch
from otattn._models.studies import LogitLens, Patching

EVERYTHING = otattn.AuxRequest(*6 * [True])


def solved(rng: np.random.Generator, n: int = 5) -> Any:
    x = rng.standard_normal((2, 3, n, 4))
    return otattn.attention(x, x, x, method="softmax/capped:1.2", return_aux=EVERYTHING)[1]


def test_the_data_are_those_of_the_head(rng: np.random.Generator) -> None:
    aux = solved(rng)
    words = ["we", "see", "it", "we", "do"]
    chart = otattn.show(aux, batch=1, head=2, keys=words)
    weights, receivers = chart.spec["vconcat"]
    rows = weights["data"]["values"]
    assert [row["weights"] for row in rows] == aux.coupling[1, 2].tolist()
    assert rows[0]["keys"] == ["0 we", "1 see", "2 it", "3 we", "4 do"]
    assert [row["query"] for row in rows] == [f"{k} {k}" for k in range(5)]
    assert receivers["data"]["values"][0]["masses"] == aux.receiver[1, 2].tolist()
    assert "ok" in chart.spec["title"]["text"]
    assert json.loads(chart.to_json()) == chart.spec
    assert "NaN" not in otattn.show(aux._replace(receiver=np.full((2, 3, 5), np.nan))).to_json()


def test_vega_draws_it(rng: np.random.Generator, tmp_path: Path) -> None:
    converter = pytest.importorskip("vl_convert")
    chart = otattn.show(solved(rng), keys=["we", "see", "it", "too", "do"])
    svg = converter.vegalite_to_svg(chart.spec)
    assert svg.count("see") >= 2 and "certificate: ok" in svg
    chart.save(tmp_path / "one.svg")
    assert "certificate: ok" in (tmp_path / "one.svg").read_text()
    chart.save(tmp_path / "one.vl.json")
    assert json.loads((tmp_path / "one.vl.json").read_text()) == chart.spec


def test_tensors_and_single_heads() -> None:
    x = torch.randn(4, 3, requires_grad=True)
    _, aux = otattn.attention(x, x, x, return_aux=otattn.AuxRequest(receiver=True))
    assert len(otattn.show(aux).spec["data"]["values"][0]["masses"]) == 4


def test_refusals(rng: np.random.Generator) -> None:
    aux = solved(rng)
    with pytest.raises(ValueError, match="head is 3, but coupling has 3"):
        otattn.show(aux, head=3)
    with pytest.raises(ValueError, match="keys has 1 words for 5 positions"):
        otattn.show(aux, keys=["a"])
    with pytest.raises(ValueError, match="neither coupling nor receiver"):
        otattn.show(otattn.AuxOutput())
    with pytest.raises(ValueError, match="at most 200"):
        otattn.show(otattn.AuxOutput(receiver=np.ones((1, 1, 201))))
    for other in (np.eye(3), None, aux.coupling):
        with pytest.raises(TypeError, match="wanted an AuxOutput, a Patching or a LogitLens"):
            otattn.show(other)
    with pytest.raises(ValueError, match="has no table to write"):
        otattn.show(aux).save("one.csv")


def test_studies() -> None:
    shares = np.array([[0.0, 1.0], [np.nan, -0.5]])
    study = Patching(shares, 2.0, -1.0, 7, 8, "position", ["a\n", "\u202eb" + 40 * "c"])
    chart = otattn.show(study)
    rows = chart.spec["data"]["values"]
    assert [row["row"] for row in rows] == ["1", "0"] and rows[0]["values"] == [None, -0.5]
    assert rows[0]["columns"][0] == "0 a\u21b5" and rows[0]["columns"][1].startswith("1 \\u{202e}bc")
    assert "token 7 less that of 8: clean 2, corrupt -1" in chart.spec["title"]["subtitle"][0]
    assert chart.table is not None and chart.table["restored"][:2] == [0.0, 1.0]
    assert otattn.show(study, keys=["x", "y"]).spec["data"]["values"][0]["columns"] == ["0 x", "1 y"]
    assert otattn.show(study._replace(by="head")).spec["data"]["values"][0]["columns"] == ["0", "1"]
    lens = LogitLens(np.ones((3, 1, 2, 1), int), np.full((3, 1, 2, 1), 0.5), 3 * [[["x", "y"]]], [["a", "b"]])
    assert [row["row"] for row in otattn.show(lens).spec["data"]["values"]] == ["1", "0", "emb"]
    for given, words, match in (
        (study, {"batch": 1}, "a Patching has one text"),
        (study, {"head": 1}, "neither queries nor head"),
        (lens, {"queries": ["a", "b"]}, "neither queries nor head"),
        (lens, {"batch": 1}, "batch is 1, but the lens has 1"),
        (lens, {"keys": ["a"]}, "keys has 1 words for 2 positions"),
        (study._replace(shares=np.ones((2, 201)), by="head"), {}, "at most 200 of each"),
    ):
        with pytest.raises(ValueError, match=match):
            otattn.show(given, **words)


def test_notebooks(rng: np.random.Generator) -> None:
    aux = solved(rng)
    page = aux._repr_html_()
    assert "(2, 3, 5, 5) float64" in page and "column_error" in page and "status=&#x27;ok&#x27;" in page
    bundle = otattn.show(aux)._repr_mimebundle_()
    assert any(
        "vegalite" in kind or "html" in kind for kind in (bundle[0] if isinstance(bundle, tuple) else bundle)
    )


@pytest.fixture
def folder(tmp_path: Path, rng: np.random.Generator) -> Path:
    (tmp_path / "tables").mkdir()
    (tmp_path / "figures").mkdir()
    figure = {"mean": 0.25, "sd": 0.1, "median": 0.2, "p5": 0.1, "p95": 0.4, "ci95": [0.2, 0.3], "n": 8}
    metrics = {"model": "tiny", "probe": "final_norm", "windows": 8, "transitions": [{"tv": figure}]}
    (tmp_path / "metrics.json").write_text(json.dumps(metrics))
    (tmp_path / "manifest.json").write_text('{"schema": 1}')
    (tmp_path / "tables/drift.csv").write_text('layer,cosine,note\n0,0.5,"a, b"\n1,,\n2,1e-3,<c>\n')
    otattn.show(solved(rng)).save(tmp_path / "figures/drift.vl.json")
    return tmp_path


def test_run(folder: Path) -> None:
    run = otattn.Run(folder)
    assert run.metrics["transitions"][0]["tv"]["mean"] == 0.25 and run.manifest == {"schema": 1}
    table = run.tables["drift"]
    assert list(run.tables) == ["drift"] and table.columns == ["layer", "cosine", "note"]
    assert table["cosine"] == [0.5, None, 0.001] and table["layer"] == [0, 1, 2]
    assert table[0] == {"layer": 0, "cosine": 0.5, "note": "a, b"} and len(table) == 3
    assert "&lt;c&gt;" in table._repr_html_()
    assert run.chart("drift").spec == json.loads((folder / "figures/drift.vl.json").read_text())
    assert "drift" in repr(run) and "tiny" in run._repr_html_()
    with pytest.raises(KeyError, match="has no 'other'; it has drift"):
        run.chart("other")
    with pytest.raises(FileNotFoundError, match="is no folder of otattn analyze"):
        otattn.Run(folder / "tables")
