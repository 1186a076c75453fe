"""`otattn attend --shard rows`: what mpirun's processes make together is what one makes alone.

The tests of several processes need a program built with OTATTN_MPI, and mpirun: `./dev ranks`."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from program import PROGRAM, answer, environment
from test_ranks import ALLOWED, MPIRUN

METHODS = ["softmax", "entmax:1.5", "softmax/exact", "softmax/capped:2", "softmax/elastic:0.5,4"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    draw = np.random.default_rng(4)
    for name in "qkv":
        np.save(tmp_path / f"{name}.npy", draw.standard_normal((2, 3, 45, 8)))
    np.save(tmp_path / "b.npy", draw.standard_normal((45, 45)))
    return tmp_path


def words_of(method: str) -> list[str]:
    """Causal exact columns have no plan."""
    causal = [] if method == "softmax/exact" else ["--causal"]
    return ["--method", method, *causal, "--bias", "b.npy", "--force"]


def attend(folder: Path, ranks: int, out: str, *words: Any) -> subprocess.CompletedProcess[str]:
    if ranks > 1 and not answer(folder, "doctor")["mpi"]:
        pytest.skip("the program is built without MPI")
    if ranks > 1 and MPIRUN is None:
        pytest.skip("there is no mpirun")
    launcher = [str(MPIRUN), "-n", str(ranks)] if ranks > 1 else []
    command = [*launcher, PROGRAM, "attend", "q.npy", "k.npy", "v.npy", "-o", out, "--threads", "1"]
    return subprocess.run(
        [*command, *map(str, words)],
        cwd=folder, capture_output=True, text=True, timeout=120, env=environment(**ALLOWED),
    )  # fmt: skip


def test_one_process_shares_with_nobody(folder: Path) -> None:
    for method in METHODS:
        words = words_of(method)
        alone, shared = (
            attend(folder, 1, "one.npy", *words),
            attend(folder, 1, "all.npy", *words, "--shard", "rows"),
        )
        assert alone.returncode == 0 and shared.returncode == 0, shared.stderr
        np.testing.assert_allclose(np.load(folder / "all.npy"), np.load(folder / "one.npy"), atol=1e-9)
    refused = attend(folder, 1, "no.npy", "--method", "softmax/prefix", "--shard", "rows")
    assert refused.returncode == 2 and "cannot share out its rows" in refused.stderr
    assert not (folder / "no.npy").exists()


@pytest.mark.parametrize("ranks", [2, 5])
def test_processes_give_what_one_gives(folder: Path, ranks: int) -> None:
    for method in METHODS:
        words = [*words_of(method), "--receiver"]
        alone = attend(folder, 1, "one.npy", *words, "r1.npy")
        shared = attend(folder, ranks, "all.npy", *words, "r2.npy", "--shard", "rows", "--json")
        assert alone.returncode == 0 and shared.returncode == 0, shared.stderr
        # One object: only rank 0 tells.
        assert shared.stdout.count('"command"') == 1
        for one, other in (("one.npy", "all.npy"), ("r1.npy", "r2.npy")):
            np.testing.assert_allclose(np.load(folder / other), np.load(folder / one), atol=1e-8)


def test_what_one_process_refuses_all_refuse(folder: Path) -> None:
    for words, code in ((("--method", "softmax/online:2"), 2), (("--bias", "none.npy"), 6)):
        done = attend(folder, 3, "no.npy", *words, "--shard", "rows")
        assert done.returncode == code
        assert done.stderr.count("otattn attend:") == 1
        assert not (folder / "no.npy").exists()


def test_a_killed_process_ends_all(folder: Path) -> None:
    if MPIRUN is None or not answer(folder, "doctor")["mpi"]:
        pytest.skip("the program is built without MPI")
    draw = np.random.default_rng(5)
    for name in "qkv":
        np.save(folder / f"{name}.npy", draw.standard_normal((1, 8, 1200, 16)))
    command = [PROGRAM, "attend", "q.npy", "k.npy", "v.npy", "-o", "out.npy", "--threads", "1"]
    words = ["--method", "softmax/exact{rounds=100000}", "--shard", "rows"]
    running = subprocess.Popen(
        [str(MPIRUN), "-n", "3", *command, *words],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(**ALLOWED),
    )  # fmt: skip
    time.sleep(3.0)
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    workers = [pid for pid in children if "attend" in Path(f"/proc/{pid}/cmdline").read_text()]
    assert workers, "mpirun has started nothing"
    os.kill(int(workers[-1]), signal.SIGKILL)
    assert running.wait(timeout=60) != 0
    assert not list(folder.glob("*out.npy*"))
