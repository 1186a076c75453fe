"""`otattn verify --model`: the statements about models on checkpoints of every architecture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import spec
from program import answer, run
from test_models import make_model

pytest.importorskip("torch")

ANY = {"TOT-64", "TOT-65", "TOT-66", "TOT-67", "TOT-68", "TOT-88", "TOT-91", "TOT-93"}
# Exits need a head; temperatures and the checkpoints of a training a GPT-2.
CASES = [
    ("gpt2", ANY | {"TOT-35", "TOT-119", "TOT-120"}),
    ("gpt2 variants", ANY | {"TOT-119"}),
    ("llama", ANY | {"TOT-119"}),
    ("bert", ANY),
]


@pytest.mark.parametrize(("name", "ids"), CASES)
def test_the_statements_about_models_hold_on(tmp_path: Path, name: str, ids: set[str]) -> None:
    make_model(tmp_path / "model", name)
    result = answer(tmp_path, "verify", "--model", "model")
    wrong = {check["id"] for check in result["checks"] if check["holds"] != check["expected"]}
    assert not wrong
    assert {check["id"] for check in result["checks"]} == ids
    assert result["ids_ok"] == len(ids)
    for one in sorted(ids):
        spec.check_true(one, one not in wrong)


def test_a_planted_fault_is_noticed_on_a_model(tmp_path: Path) -> None:
    make_model(tmp_path / "model", "llama")
    result = answer(tmp_path, "verify", "--model", "model", "--self-test")
    assert result["ids_noticed"] == result["ids_checked"] == len(ANY) + 1


def test_the_written_out_forward_pass_meets_its_own_kind_only(tmp_path: Path) -> None:
    make_model(tmp_path / "model", "gpt2")
    words = ["verify", "--model", "model", "--only", "TOT-68"]
    assert len(answer(tmp_path, *words)["checks"]) == 3
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"activation_function": "relu"}))
    assert len(answer(tmp_path, *words)["checks"]) == 1


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    result = answer(tmp_path, "verify", "--model", "nothing", code=6)
    assert result["error"]
    make_model(tmp_path / "model", "bert")
    result = answer(tmp_path, "verify", "--model", "model", "--only", "CETA-*", code=2)
    assert result["error"]


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = run(tmp_path, "verify", "--only", "TOT-*", TMPDIR=str(tmp_path / "empty"))
    assert done.returncode == 0
    assert not list((tmp_path / "empty").iterdir())
