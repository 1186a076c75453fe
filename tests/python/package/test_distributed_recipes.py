"""The recipes of docs/users/many-machines.md for torchrun: its script, by its own words, on one machine and
by two launchers that stand for two."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available(), reason="torch is built without torch.distributed"
)


@pytest.fixture
def page(root: Path, tmp_path: Path) -> str:
    text = (root / "docs/users/many-machines.md").read_text(encoding="utf-8")
    script = re.search(r"```python\n(.*?distributed\.attention.*?)```", text, re.DOTALL)
    assert script is not None
    assert "4096" in script[1]
    # Fewer tokens; every rank says that it came to the end; and the engine's threads run only where nothing
    # else wants a processor, so that what they still hold at the end of the script is seen.
    start = (
        "\nimport os, threading\nfor t in map(int, os.listdir('/proc/self/task')):\n"
        "    if t != threading.get_native_id(): os.sched_setscheduler(t, os.SCHED_IDLE, os.sched_param(0))\n"
        "rank = dist.get_rank()\nout.sum("
    )
    ended = "\nassert bool(torch.isfinite(q.grad).all())\nprint(f'whole {rank}\\n', end='', flush=True)\n"
    words = script[1].replace("4096", "128").replace("\nout.sum(", start)
    (tmp_path / "script.py").write_text(words + ended, encoding="utf-8")
    return text


def start(words: str, folder: Path, port: int) -> subprocess.Popen[str]:
    given = words.replace("SCRIPT", "script.py").replace("HOST:29500", f"localhost:{port}").split()
    assert given[0] == "torchrun"
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *given[1:]],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("launchers", [1, 2])
def test_the_recipes_run(launchers: int, page: str, tmp_path: Path) -> None:
    recipes = re.findall(r"`(torchrun [^`]*SCRIPT)`", page)
    assert len(recipes) == 2 and "--nnodes 2" in recipes[1]
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    running = [start(recipes[launchers - 1], tmp_path, port) for _ in range(launchers)]
    said = ""
    for process in running:
        words, _ = process.communicate(timeout=240)
        assert process.returncode == 0, words
        said += words
    assert sorted(re.findall(r"whole (\d)", said)) == ["0", "1"]
