"""Packages of another system, processor or C library: one sentence each."""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import numpy as np
import otattn
import pytest

INSTALLED = Path(otattn.__file__).parent
PROGRAM = INSTALLED / "bin/otattn"
EMULATOR = shutil.which("qemu-x86_64")
MUSL = "-musl" in EXTENSION_SUFFIXES[0]
linux = pytest.mark.skipif(sys.platform != "linux", reason="files of Linux are changed")
emulated = pytest.mark.skipif(
    EMULATOR is None or platform.machine() != "x86_64", reason="emulates older processors"
)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package in a folder of its own, whose files may be changed."""
    return Path(shutil.copytree(INSTALLED, tmp_path / "otattn"))


def wants_newer_libc(path: Path) -> str:
    """Asks for versions of glibc that no system has, or for a name that musl lacks, whose names have no
    versions; returns what the loader says of it."""
    asked, instead, said = rb"\0GLIBC_2\.(?=\d)", b"\0GLIBC_9.", "version `GLIBC_9."
    if MUSL:
        asked, instead, said = rb"\0memcpy\0", b"\0memcpz\0", "memcpz: symbol not found"
    data = path.read_bytes()
    changed = re.sub(asked, instead, data)
    assert changed != data
    path.unlink()
    path.write_bytes(changed)
    path.chmod(0o755)
    return said


def imports(folder: Path, line: str) -> str:
    """The last line of what Python says, which fails."""
    done = subprocess.run(
        [sys.executable, "-c", line],
        cwd=folder,
        env={"PYTHONPATH": os.pathsep.join([str(folder), str(Path(np.__file__).parents[1])])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stdout
    return done.stderr.splitlines()[-1]


@linux
@pytest.mark.parametrize("name", ["_native*.so", "libotattn_python.so"])
def test_an_older_libc_is_a_sentence(copy: Path, name: str) -> None:
    (file,) = copy.glob(name)
    reason = wants_newer_libc(file)
    said = imports(copy.parent, "import otattn")
    assert said.startswith("ImportError: otattn cannot load its compiled module: ")
    assert reason in said and str(file) in said and said.endswith("; reinstall the package")


@linux
def test_an_older_libc_for_models_is_a_sentence(copy: Path, root: Path) -> None:
    file = copy / "libotattn_model.so"
    reason = wants_newer_libc(file)
    said = imports(copy.parent, f"import otattn; otattn.Model({str(root / 'data/demo/model')!r})")
    assert said.startswith(f"ImportError: otattn cannot load its library {file}: ")
    assert reason in said and said.endswith("; reinstall the package")


def test_a_package_without_its_module_is_a_sentence(copy: Path) -> None:
    for file in copy.glob("_native*"):
        file.unlink()
    assert imports(copy.parent, "import otattn") == (
        "ImportError: otattn cannot load its compiled module: No module named 'otattn._native'; "
        "reinstall the package"
    )


@linux
def test_a_program_of_another_machine_is_a_sentence(copy: Path) -> None:
    program = copy / "bin/otattn"
    data = bytearray(program.read_bytes())
    data[18:20] = (0xBEEF).to_bytes(2, "little")  # e_machine
    program.unlink()
    program.write_bytes(data)
    program.chmod(0o755)
    done = subprocess.run(
        [sys.executable, copy / "__main__.py", "--version"],
        env={"PYTHONPATH": str(copy.parent)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 6
    assert done.stderr == (
        f"otattn: {program} does not run here: Exec format error; install the package again "
        "(pip install --force-reinstall --no-deps .)\n"
    )


@emulated
def test_an_old_processor_runs_the_portable_kernels(tmp_path: Path) -> None:
    """One without vectors of 32 bytes, beside this one told to do as it does; it refuses other levels."""
    np.save(tmp_path / "scores.npy", np.random.default_rng(0).standard_normal((40, 30)))
    plan = [PROGRAM, "plan", "scores.npy", "-m", "entmax:1.5/exact"]
    old = [str(EMULATOR), "-cpu", "Nehalem"]
    for words in ([*old, *plan, "-o", "old.npy"], [*plan, "--cpu", "portable", "-o", "own.npy"]):
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0 and "on portable" in done.stdout, done.stderr
    assert (tmp_path / "old.npy").read_bytes() == (tmp_path / "own.npy").read_bytes()
    done = subprocess.run(
        [*old, *plan, "--cpu", "avx2", "-o", "none.npy"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr == (
        "otattn plan: this machine has no 'avx2' kernels (doctor lists the levels of this machine)\n"
    )


@emulated
def test_the_package_works_on_an_old_processor() -> None:
    line = (
        "import numpy, otattn; x = numpy.eye(5); print(otattn.coupling(x, method='softmax/exact').sum(0), "
        "otattn.linear_sum_assignment(x, maximize=True)[1])"
    )
    done = subprocess.run(
        [str(EMULATOR), "-cpu", "Nehalem", sys.executable, "-c", line],
        env={},  # without OPENBLAS_CORETYPE, by which NumPy's library runs what a newer one has
        capture_output=True,
        text=True,
    )
    assert done.stdout == "[1. 1. 1. 1. 1.] [0 1 2 3 4]\n", done.stderr


@linux
def test_on_windows_ctrl_c_is_the_program_s(tmp_path: Path) -> None:
    """There a process waits for the program, which has the signal, too, and ends in order in its own time."""
    program = tmp_path / "otattn.exe"
    program.write_text(
        f"#!{sys.executable}\nimport signal, sys, time\n"
        "def ends(*_):\n    time.sleep(1)\n    print('ended in order')\n    sys.exit(130)\n"
        "signal.signal(signal.SIGINT, ends)\nprint('begun', flush=True)\ntime.sleep(60)\n"
    )
    program.chmod(0o755)
    line = (
        "import pathlib, sys; from otattn import __main__ as entry; "
        f"entry._folders = lambda: [pathlib.Path({str(tmp_path)!r})]; sys.platform = 'win32'; entry.main()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", line],
        env={"PYTHONPATH": str(INSTALLED.parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        os.killpg(process.pid, signal.SIGINT)
        out, said = process.communicate()
    assert (process.returncode, out, said) == (130, "ended in order\n", "")
