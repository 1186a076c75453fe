"""Runs with their reports (run_folders.py), made once a file of tests."""

from __future__ import annotations

from pathlib import Path

import pytest
import run_folders
from program import answer


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 layers x 12 heads x 512 tokens, whose patterns are noise: nothing packs worse."""
    folder = run_folders.write(tmp_path_factory.mktemp("whole") / "run", noise=True, seed=1)
    assert answer(folder.parent, "report", "run")["report"] == "run/report.html"
    return folder


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = run_folders.write(
        tmp_path_factory.mktemp("hostile") / "run", layers=3, heads=4, tokens=40, hostile=True
    )
    answer(folder.parent, "report", "run")
    return folder


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, and both.html beside them."""
    folder = tmp_path_factory.mktemp("both")
    for name, seed in (("a", 3), ("b", 4)):
        run_folders.write(folder / name, layers=4, heads=3, tokens=40, seed=seed)
    answer(folder, "report", "a", "--compare", "b", "-o", "both.html")
    return folder


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """80 layers, whose page is as tall as that of few."""
    folder = run_folders.write(tmp_path_factory.mktemp("deep") / "run", layers=80, heads=8, tokens=24)
    answer(folder.parent, "report", "run")
    return folder


@pytest.fixture(params=["whole", "hostile", "both"])
def page(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.getfixturevalue(request.param)
    return folder / ("both.html" if request.param == "both" else "report.html")
