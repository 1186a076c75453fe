"""The examples of the pages that have `>>>` lines, and README's for Python, run as they stand."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

PAGES = {"python": 15, "assignment": 16, "sampling": 6, "moe": 15, "normalize": 8, "devices": 5}
PAGES["weights"] = 13


@pytest.mark.parametrize("page", PAGES)
def test_examples_of_the_document(root: Path, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    failed, tried = doctest.testfile(str(root / f"docs/users/{page}.md"), module_relative=False)
    assert tried >= PAGES[page] and failed == 0


def test_readme_runs(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    exec(compile("".join(blocks), "README.md", "exec"), {})
    assert capsys.readouterr().out == "1.2\n"
