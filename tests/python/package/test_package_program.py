"""The program that the package brings: its two commands, exit codes, and what is said without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import otattn
import pytest
from otattn import __main__ as entry

SCRIPT = Path(sys.executable).parent / "otattn"
# What pip makes of an entry point on Windows is another file.
script = pytest.mark.skipif(sys.platform == "win32", reason="a script without an ending is none there")
WAYS = [
    pytest.param([str(SCRIPT)], marks=script, id="script"),
    pytest.param([sys.executable, "-m", "otattn"], id="module"),
]


def run(way: list[str], *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*way, *arguments], capture_output=True, encoding="utf-8", cwd=cwd)


@pytest.mark.parametrize("way", WAYS)
def test_it_runs_and_passes_exit_codes_on(way: list[str], tmp_path: Path) -> None:
    assert run(way, "--version", cwd=tmp_path).stdout == f"otattn {otattn.__version__}\n"
    scores = np.random.default_rng(0).standard_normal((5, 6))
    np.save(tmp_path / "scores.npy", scores)
    done = run(way, "plan", "scores.npy", "--method", "softmax/exact", "-o", "plan.npy", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    right = otattn.coupling(scores, method="softmax/exact")
    assert np.allclose(np.load(tmp_path / "plan.npy"), right, rtol=0, atol=1e-9)
    done = run(way, "nonsense", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("otattn: unknown command 'nonsense'")
    assert run(way, "plan", "absent.npy", cwd=tmp_path).returncode == 6


@script
def test_the_command_does_not_import_the_package(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", str(SCRIPT), "--version"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.stdout == f"otattn {otattn.__version__}\n"
    assert "numpy" not in done.stderr and "otattn._" not in done.stderr


def test_a_package_without_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(entry, "_folders", lambda: [tmp_path])
    lines = "models: libjansson-dev\nprogram: libjansson-dev libzip-dev\n"
    for text, words in (
        (lines, "sudo apt-get install libjansson-dev libzip-dev, then install"),
        ("", "; install"),
    ):
        (tmp_path / "missing.txt").write_text(text)
        with pytest.raises(SystemExit) as ended:
            entry.main()
        assert ended.value.code == 6
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and words in said
        assert "this installation of the Python package has no program" in said
        assert "pip install --force-reinstall --no-deps ." in said


def test_charts_are_pinned_once(root: Path) -> None:
    """What pip builds the program with is what `./dev build` makes its charts from."""
    pinned = next(
        line for line in (root / "scripts/requirements.txt").read_text().splitlines() if "==" in line
    )
    assert f'"{pinned}; ' in (root / "pyproject.toml").read_text()
