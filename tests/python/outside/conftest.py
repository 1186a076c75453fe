"""Shared by the suites and clients of other projects: the folder of the repository."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def root() -> Path:
    return Path(__file__).resolve().parents[3]
