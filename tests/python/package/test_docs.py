"""The examples of the pages that have `>>>` lines, and README's for Python, run as they stand."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import otattn
import pytest

PAGES = {"python": 15, "assignment": 22, "moe": 23, "install": 5, "weights": 27}


@pytest.mark.parametrize("page", PAGES)
def test_examples_of_the_document(root: Path, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    failed, tried = doctest.testfile(str(root / f"docs/users/{page}.md"), module_relative=False)
    assert tried >= PAGES[page] and failed == 0


def test_readme_runs(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1
    exec(compile(blocks[0], "README.md", "exec"), {})
    assert capsys.readouterr().out == "1.2\n"


def test_calls_of_the_readme(root: Path) -> None:
    """Every call of the table "you have, call" runs on what its first column is."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    draw = torch.randn
    given = {
        "otattn": otattn,
        "path": root / "data/demo/model",
        **dict.fromkeys(("q", "k", "v"), draw(2, 8, 16, 64)),
        "scores": draw(6, 6),
        "costs": draw(50, 60),
        "logits": draw(512, 64),
        "matrices": draw(64, 4, 4),
        "X": draw(5, 9),
        "query": draw(32, 128),
        "documents": draw(300, 128),
        "offsets": [0, 100, 300],
        "x0": draw(64, 2),
        "x1": draw(64, 2),
    }
    text = (root / "README.md").read_text(encoding="utf-8")
    table = text[text.index("| you have | call |") :].split("\n\n")[0]
    calls = re.findall(r"`(otattn\.[^`]*)`", table)
    assert len(calls) >= 16
    for call in calls:
        if call.startswith("otattn.jax"):
            pytest.importorskip("jax")
        if call.startswith("otattn.hf"):
            pytest.importorskip("transformers")
        assert eval(call, {}, given) is not None, call
