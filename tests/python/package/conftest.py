"""Shared by the tests of the package: random heads and the folder of the repository."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import otattn
import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples/training"
# What is shared with the tests of the program: requirement ids, the generator of dropout.
sys.path.insert(0, str(ROOT / "tests/python/support"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", help="the torch device of test_device.py; cpu by default")


def pytest_configure(config: pytest.Config) -> None:
    # Workers of xdist have it, too.
    if config.getoption("--device", None):
        os.environ["OTATTN_DEVICE"] = config.getoption("--device")


settings.register_profile("otattn", deadline=None, max_examples=int(os.environ.get("OTATTN_EXAMPLES", "60")))
settings.load_profile("otattn")


@pytest.fixture
def root() -> Path:
    return ROOT


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def other_device() -> str:
    """A device that is not the CPU for torch, whose tensors are computed on this processor in the end."""
    from torch._lazy import ts_backend

    ts_backend.init()
    return "lazy"


@pytest.fixture
def run_ranks(tmp_path: Path) -> Callable[[str, int], None]:
    """Runs a worker of this folder as so many ranks, each of which must end well and say so."""

    def run(worker: str, ranks: int) -> None:
        words = [sys.executable, str(Path(__file__).with_name(worker))]
        running = [
            subprocess.Popen(
                [*words, str(rank), str(ranks), str(tmp_path / "store")],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )
            for rank in range(ranks)
        ]  # fmt: skip
        said = [process.communicate(timeout=240)[0] for process in running]
        ended = [process.returncode for process in running]
        assert not any(ended) and all("all well" in text for text in said), "\n".join(said)

    return run


@pytest.fixture(scope="module")
def example() -> Iterator[Callable[[str], ModuleType]]:
    """Loads a program of the examples by name, as a script beside the others sees it."""
    import torch

    sys.path.insert(0, str(EXAMPLES))
    threads = torch.get_num_threads()
    yield importlib.import_module
    sys.path.remove(str(EXAMPLES))
    torch.set_num_threads(threads)
    otattn.set_num_threads(0)
