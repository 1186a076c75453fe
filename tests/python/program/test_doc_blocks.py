"""The runner of the documents' commands, and what the campaign puts before the blocks that take long."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from program import ROOT

RUNNER = ROOT / "scripts" / "run_doc_blocks.py"


def test_blocks_see_what_is_built(tmp_path: Path) -> None:
    """Both environments are there for a block; one that prints something else is counted."""
    for name in ("venv", "venv-python"):
        (tmp_path / "build" / name).mkdir(parents=True)
        (tmp_path / "build" / name / "name").write_text(f"{name}\n")
    show = "cat build/venv/name build/venv-python/name"
    block = f"```sh ci\n{show}\n```\n```output\nvenv\nvenv-python\n```\n"
    (tmp_path / "README.md").write_text(block + block.replace("output\nvenv", "output\nanother"))
    (tmp_path / ".gitignore").write_text("/build/\n")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    command = [sys.executable, str(RUNNER), "ci", "--root", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "1 of 2 blocks tagged ci ran as written" in done.stdout, done.stdout
    assert "FAILED  README.md:9 printed something else" in done.stdout


def test_long_blocks_find_the_package(tmp_path: Path) -> None:
    """Where ./dev runs them, with stand-ins for what installs: `python` is the package's environment's."""
    shutil.copytree(ROOT / "scripts" / "dev", tmp_path / "scripts" / "dev")
    stand_ins = 'must_have_python_packages() { :; }; install_package() { :; }; python3() { echo "$PATH"; }'
    command = f"source scripts/dev/campaign.sh; {stand_ins}; steps=none; long_documents"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.startswith(f"{tmp_path}/build/venv-python/bin:"), done.stdout + done.stderr
