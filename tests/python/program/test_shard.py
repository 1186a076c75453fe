"""`otattn attend --shard rows`: what mpirun's processes make together is what one makes alone.

The tests of several processes need a program built with OTATTN_MPI, and mpirun: `./dev ranks`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from program import PROGRAM, answer, environment
from safetensors.numpy import save_file
from test_ranks import ALLOWED, MPIRUN

METHODS = [
    "softmax",
    "entmax:1.5",
    "softmax/exact",
    "softmax/capped:2",
    "softmax/elastic:0.5,4",
    "entmax:1.5/exact",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    draw = np.random.default_rng(4)
    for name in "qkv":
        np.save(tmp_path / f"{name}.npy", draw.standard_normal((2, 3, 45, 8)))
    np.save(tmp_path / "b.npy", draw.standard_normal((45, 45)))
    return tmp_path


def words_of(method: str) -> list[str]:
    """Causal exact columns have no plan."""
    causal = [] if method.endswith("/exact") else ["--causal"]
    return ["--method", method, *causal, "--bias", "b.npy", "--force"]


def attend(
    folder: Path, ranks: int, out: str, *words: Any, queries: str = "q.npy"
) -> subprocess.CompletedProcess[str]:
    if ranks > 1 and not answer(folder, "doctor")["mpi"]:
        pytest.skip("the program is built without MPI")
    if ranks > 1 and MPIRUN is None:
        pytest.skip("there is no mpirun")
    launcher = [str(MPIRUN), "-n", str(ranks)] if ranks > 1 else []
    command = [*launcher, PROGRAM, "attend", queries, "k.npy", "v.npy", "-o", out, "--threads", "1"]
    return subprocess.run(
        [*command, *map(str, words)],
        cwd=folder, capture_output=True, text=True, timeout=120, env=environment(**ALLOWED),
    )  # fmt: skip


def test_without_mpi(folder: Path) -> None:
    """Processes that know nothing of each other would write one file."""
    if answer(folder, "doctor")["mpi"]:
        pytest.skip("the program is built with MPI")
    refused = attend(folder, 1, "no.npy", "--method", "softmax", "--shard", "rows")
    assert refused.returncode == 2 and "built without MPI" in refused.stderr
    assert not (folder / "no.npy").exists()
    # As mpirun -n 2 starts it.
    command = [PROGRAM, "analyze", "no-model", "no-text", "-o", "run"]
    launched = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(OMPI_COMM_WORLD_SIZE="2"),
    )
    assert launched.returncode == 2 and "built without MPI" in launched.stderr, launched.stderr


def test_one_process_shares_with_nobody(folder: Path) -> None:
    if not answer(folder, "doctor")["mpi"]:
        pytest.skip("the program is built without MPI")
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


GRADIENTS = [
    ("softmax", ["--causal", "--bias", "b.npy", "--grad-scores", "--grad-parameters", "--alibi", "0.1"]),
    ("softmax", ["--bias", "line.npy", "--mask", "mask.npy", "--rope"]),
    ("entmax:1.5", ["--bias", "b.npy", "--grad-parameters"]),
    ("softmax/exact", ["--bias", "b.npy"]),
    ("softmax/capped:2", ["--window", "20,20"]),
    ("softmax/exact{rounds=6}", ["--bias", "b.npy"]),
    ("entmax:1.5/relaxed:0.7", ["--causal", "--tolerance", "1e-12"]),
]


def test_gradients_are_those_of_one_process(folder: Path) -> None:
    ranks = 3
    draw = np.random.default_rng(6)
    np.save(folder / "dout.npy", draw.standard_normal((2, 3, 45, 8)))
    np.save(folder / "line.npy", draw.standard_normal((1, 45)))
    np.save(folder / "mask.npy", draw.random((3, 45, 45)) < 0.8)
    for method, words in GRADIENTS:
        asked = ["--method", method, *words, "--force", "--grad", "dout.npy", "--grad-out"]
        alone = attend(folder, 1, "one.npy", *asked, "g1.npz")
        shared = attend(folder, ranks, "all.npy", *asked, "g2.npz", "--shard", "rows")
        assert alone.returncode == 0 and shared.returncode == 0, alone.stderr + shared.stderr
        one, other = np.load(folder / "g1.npz"), np.load(folder / "g2.npz")
        assert sorted(one.files) == sorted(other.files) and len(one.files) >= 3
        for name in one.files:
            # Two implicit gradients, each solved to 1e-10 of its length.
            scale = 1.0 + float(np.abs(one[name]).max())
            np.testing.assert_allclose(other[name], one[name], atol=1e-8 * scale, err_msg=f"{method} {name}")
    refused = attend(folder, ranks, "no.npy", "--grad", "dout.npy", "--advantage", "a.npy", "--shard", "rows")
    assert refused.returncode == 2 and refused.stderr.count("--advantage needs all values") == 1
    assert not (folder / "no.npy").exists() and not (folder / "a.npy").exists()


def test_files_of_every_kind_are_shared_out(folder: Path) -> None:
    """Formats whose lines cannot be read alone are read whole; the results are the same."""
    q, k = (np.load(folder / f"{name}.npy") for name in "qk")
    whole = np.random.default_rng(7).integers(-9, 9, (2, 3, 45, 8))
    kinds = {
        "fortran.npy": np.asfortranarray(q), "swapped.npy": q.astype(">f8"), "bytes.npy": whole.astype("i1"),
        "short.npy": whole.astype(">i2"),
    }  # fmt: skip
    for name, array in kinds.items():
        np.save(folder / name, array)
    np.savez_compressed(folder / "packed.npz", q=q)
    save_file({"q": q.astype("f4"), "w": k}, folder / "q.safetensors")
    np.save(folder / "few.npy", q[:, :, :2])
    names = [*kinds, "packed.npz:q", "q.safetensors:q", "few.npy"]
    for name in names:
        command = ["--method", "softmax", "--dtype", "f64", "--force"]
        alone = attend(folder, 1, "one.npy", *command, queries=name)
        shared = attend(folder, 3, "all.npy", *command, "--shard", "rows", queries=name)
        assert alone.returncode == 0 and shared.returncode == 0, alone.stderr + shared.stderr
        np.testing.assert_allclose(np.load(folder / "all.npy"), np.load(folder / "one.npy"), atol=1e-9)


def test_a_process_reads_only_its_rows(folder: Path) -> None:
    """Bytes that every process and what it started read, by the kernel's own count."""
    if not answer(folder, "doctor")["mpi"] or MPIRUN is None:
        pytest.skip("the program is built without MPI, or there is no mpirun")
    ranks, size = 4, 4 * 4096 * 64 * 4
    draw = np.random.default_rng(8)
    for name in "qkv":
        np.save(folder / f"{name}.npy", draw.standard_normal((1, 4, 4096, 64)).astype("f4"))
    script = (
        f"{PROGRAM} attend q.npy k.npy v.npy --method softmax --shard rows --threads 1 -o out.npy --force; "
        "code=$?; grep rchar /proc/$$/io > read.$$; exit $code"
    )
    done = subprocess.run(
        [str(MPIRUN), "-n", str(ranks), "sh", "-c", script],
        cwd=folder, capture_output=True, text=True, timeout=120, env=environment(**ALLOWED),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    read = [int(path.read_text().split()[1]) for path in folder.glob("read.*")]
    assert len(read) == ranks
    # MPI reads its own settings, and may carry messages by reads: half of a whole array is room for that.
    assert max(read) < 3 * size // ranks + size // 2, read


def test_a_process_holds_only_its_rows(folder: Path) -> None:
    """Outputs go into the file from where their rows are: no process ever holds all of a coupling."""
    if not answer(folder, "doctor")["mpi"] or MPIRUN is None:
        pytest.skip("the program is built without MPI, or there is no mpirun")
    ranks, tokens, heads = 4, 2048, 8
    whole = heads * tokens * tokens * 8  # it is judged, in f64
    draw = np.random.default_rng(9)
    for name in "qkv":
        np.save(folder / f"{name}.npy", draw.standard_normal((heads, tokens, 8)).astype("f4"))
    script = (
        "import os, resource, subprocess, sys; code = subprocess.call(sys.argv[1:]); "
        "most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss; "
        "open(f'held.{os.getpid()}', 'w').write(str(most)); sys.exit(code)"
    )
    command = [PROGRAM, "attend", "q.npy", "k.npy", "v.npy", "-o", "out.npy", "--coupling", "c.npy"]
    words = ["--method", "softmax", "--shard", "rows", "--threads", "1"]
    done = subprocess.run(
        [str(MPIRUN), "-n", str(ranks), sys.executable, "-c", script, *command, *words],
        cwd=folder, capture_output=True, text=True, timeout=120, env=environment(**ALLOWED),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    coupling = np.load(folder / "c.npy")
    assert coupling.shape == (heads, tokens, tokens)
    np.testing.assert_allclose(coupling.sum(-1), 1.0, atol=1e-5)
    held = [1024 * int(path.read_text()) for path in folder.glob("held.*")]
    assert len(held) == ranks
    # A quarter each, and room for what a process of MPI takes for itself.
    assert max(held) < whole // 2, held


def test_a_writer_that_fails_lets_the_others_go(folder: Path) -> None:
    """Process 0 alone meets the full disk; the others wait for its next request."""
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    done = attend(folder, 3, "/dev/full", "--method", "softmax", "--shard", "rows")
    assert done.returncode == 6
    assert done.stderr.count("No space left") == 1


def test_what_one_process_refuses_all_refuse(folder: Path) -> None:
    for words, code in ((("--method", "softmax/online:2"), 2), (("--bias", "none.npy"), 6)):
        done = attend(folder, 3, "no.npy", *words, "--shard", "rows")
        assert done.returncode == code
        assert done.stderr.count("otattn attend:") == 1
        assert not (folder / "no.npy").exists()
