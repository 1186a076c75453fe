"""The examples of the pages that have `>>>` lines, run as they stand."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

PAGES = {"python": 15, "assignment": 8, "clustering": 8, "sampling": 6, "moe": 6, "normalize": 8, "maxsim": 9}


@pytest.mark.parametrize("page", PAGES)
def test_examples_of_the_document(root: Path, page: str) -> None:
    failed, tried = doctest.testfile(str(root / f"docs/users/{page}.md"), module_relative=False)
    assert tried >= PAGES[page] and failed == 0
