"""The test suites of entmax, POT, SciPy and lap, run against otattn's fronts by the plugin otattn_fronts.

entmax, SciPy and lap carry their tests in their wheels; POT's come in its source archive, which pip fetches
into build/. With -s the numbers of tests that passed are printed, by the version of the package.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest

HERE = Path(__file__).parent

# Of POT: what is another problem or an approximation of one.
POT_LEFT_OUT = [
    "gromov",  # Gromov-Wasserstein
    "bary",  # barycentres
    "lazy",  # cost matrices that are never stored
    "sample_methods or bsp",  # approximations: sliced, Gaussian, low rank, 1d, ...
    "debias or scaler",  # Sinkhorn divergence, scaling of the cost
    "NotImplemented",  # its list of refusals, not ours
    "geomloss",  # its wrapper of that package
    "device",  # tensorflow, jax and GPUs
    "sparse",  # cost matrices in sparse formats
    "mass_mismatch",  # asks for AssertionError where ours is a ValueError naming the argument
    "num_threads",  # asks for DeprecationWarning
    "nan_warning",  # reg = 0, which is refused
    "logscale or entropic_partial_wasserstein_gradient",  # one call for both domains; no gradients of it
]
POT_TAKEN = (
    "test_sinkhorn or test_solve or emd or dual or zero_mass or bad_method or implemented_method "
    "or (convergence_warning and not bary) or partial_wasserstein or raise_errors"
)
POT_FILES = ["test_ot.py", "test_bregman.py", "test_solvers.py", "test_partial.py"]


# Of lap: what differs by design.
LAP_LEFT_OUT = [
    "infs_unsolvable or inf_col or inf_row or all_inf",  # cost inf there, a ValueError here
    "(test_square and cost5)",  # several matchings are best, and the test wants lap's own
]


def run(front: str, folder: Path, *arguments: str) -> int:
    """Runs pytest on them; the number of tests that passed, when none failed."""
    environment = dict(os.environ, OTATTN_FRONTS=front, OMP_NUM_THREADS="1")
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    for name in ("JAX", "TENSORFLOW", "CUPY"):
        environment[f"POT_BACKEND_DISABLE_{name}"] = "1"
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-p", "otattn_fronts", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    found = re.search(r"(\d+) passed", done.stdout)
    assert found is not None, done.stdout[-2000:]
    return int(found.group(1))


def test_entmax(tmp_path: Path) -> None:
    names = [f"entmax.test_{name}" for name in ("losses", "mask", "root_finding", "topk")]
    passed = run("entmax", tmp_path, "--pyargs", *names)
    print(f"\nentmax {version('entmax')}: {passed} passed, none left out")
    assert passed >= 127


def archive_of_pot(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    wanted = f"POT=={version('POT')}"
    found = sorted(folder.glob("pot-*.tar.gz"))
    if not found:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "POT"]
        done = subprocess.run(
            [*command, "-d", str(folder), wanted], capture_output=True, text=True, timeout=600
        )
        found = sorted(folder.glob("pot-*.tar.gz"))
        if not found:
            pytest.skip(f"pip could not download the source of {wanted}: {done.stderr[-200:]}")
    return found[-1]


def test_pot(root: Path) -> None:
    folder = root / "build/suites"
    with tarfile.open(archive_of_pot(folder)) as archive:
        for member in archive.getmembers():
            if member.isfile() and Path(member.name).name in POT_FILES:
                content = archive.extractfile(member)
                assert content is not None
                (folder / Path(member.name).name).write_bytes(content.read())
    chosen = f"({POT_TAKEN}) and " + " and ".join(f"not ({name})" for name in POT_LEFT_OUT)
    passed = run("pot", folder, *POT_FILES, "-k", chosen)
    print(f"\nPOT {version('POT')}: {passed} passed of those of the calls offered")
    assert passed >= 100


def test_scipy(tmp_path: Path) -> None:
    passed = run("scipy", tmp_path, "--pyargs", "scipy.optimize.tests.test_linear_assignment")
    print(f"\nSciPy {version('scipy')}: {passed} passed, none left out")
    assert passed >= 22


@pytest.mark.long
def test_lap(tmp_path: Path) -> None:
    pytest.importorskip("lap")
    names = [f"lap.tests.test_{name}" for name in ("lapjv", "lapmod", "simple", "arr_loop")]
    chosen = " and ".join(f"not ({name})" for name in LAP_LEFT_OUT)
    passed = run("lap", tmp_path, "--pyargs", *names, "-k", chosen)
    print(f"\nlap {version('lap')}: {passed} passed of those of the calls offered")
    assert passed >= 48
