"""The examples of docs/users/python.md, run as they stand."""

from __future__ import annotations

import doctest
from pathlib import Path


def test_examples_of_the_document(root: Path) -> None:
    failed, tried = doctest.testfile(str(root / "docs/users/python.md"), module_relative=False)
    assert tried > 15 and failed == 0
