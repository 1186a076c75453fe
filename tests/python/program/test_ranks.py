"""`mpirun -n 4 otattn analyze`: the same bytes as one process, also after a kill and --resume.

Needs a program built with OTATTN_MPI, and mpirun: `./dev ranks`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from program import PROGRAM, answer, environment
from test_models import draw_ids, make_model

MPIRUN = shutil.which(os.environ.get("OTATTN_MPIRUN", "mpirun"))
# Containers run as root, and tests on fewer processors than ranks.
ALLOWED = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    if not answer(tmp_path, "doctor")["mpi"]:
        pytest.skip("the program is built without MPI")
    if MPIRUN is None:
        pytest.skip("there is no mpirun")
    make_model(tmp_path / "model", "gpt2")
    np.save(tmp_path / "ids.npy", draw_ids(1, 24 * 7)[0])
    return tmp_path


def analyze(folder: Path, ranks: int, out: str, *words: Any) -> subprocess.CompletedProcess[bytes]:
    command = [PROGRAM, "analyze", "model", "--ids", "ids.npy", "--windows", "7x24", "--threads", "1"]
    launcher = [str(MPIRUN), "-n", str(ranks)] if ranks > 1 else []
    return subprocess.run(
        [*launcher, *command, "-o", out, *map(str, words)],
        cwd=folder, capture_output=True, timeout=120, env=environment(**ALLOWED),
    )  # fmt: skip


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def different(one: dict[str, bytes], other: dict[str, bytes]) -> int:
    return sum(one.get(name) != other.get(name) for name in one.keys() | other.keys())


def test_ranks_give_the_bytes_of_one_process(folder: Path) -> None:
    alone, four = analyze(folder, 1, "one"), analyze(folder, 4, "four")
    assert alone.returncode == 0, alone.stderr.decode()
    assert four.returncode == 0, four.stderr.decode()
    assert four.stdout.count(b"7 windows") == 1  # one process reports
    assert b"4 processes" in four.stderr
    one = files(folder / "one")
    assert sum(name.startswith("windows/") for name in one) == 7
    assert different(one, files(folder / "four")) == 0
    # What a kill left: some records, one of them broken.
    for name in ("000001", "000004", "000006"):
        (folder / "four" / "windows" / f"{name}.bin").unlink()
    broken = folder / "four" / "windows" / "000002.bin"
    broken.write_bytes(broken.read_bytes()[:-3])
    (folder / "four" / "metrics.json").unlink()
    again = analyze(folder, 3, "four", "--resume")
    assert again.returncode == 0, again.stderr.decode()
    assert different(one, files(folder / "four")) == 0


def test_one_failure_ends_all(folder: Path) -> None:
    assert analyze(folder, 4, "run").returncode == 0
    done = analyze(folder, 4, "run")  # it is there
    assert done.returncode == 2 and b"already exists" in done.stderr
    done = analyze(folder, 2, "run", "--resume", "--seed", "5")
    assert done.returncode == 2 and b"was begun with another setting" in done.stderr
    assert len(list((folder / "run" / "windows").iterdir())) == 7
