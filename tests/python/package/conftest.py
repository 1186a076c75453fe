"""Shared by the tests of the package: random heads and the folder of the repository."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[3]
# What is shared with the tests of the program: requirement ids, the generator of dropout.
sys.path.insert(0, str(ROOT / "tests/python/support"))

settings.register_profile("otattn", deadline=None, max_examples=int(os.environ.get("OTATTN_EXAMPLES", "60")))
settings.load_profile("otattn")


@pytest.fixture
def root() -> Path:
    return ROOT


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)
