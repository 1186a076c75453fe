"""What the program asks of the kernel, by strace: it writes where it was told to and nowhere else, opens no
connection, starts no other program, and makes no call that packaging/container/seccomp.json lacks."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import run_folders
from program import PROGRAM, ROOT, answer, environment, save

STRACE = shutil.which("strace")
DEMO = ROOT / "data/demo/model"
PARAGRAPH = ROOT / "data/demo/paragraph.txt"
PROFILE = ROOT / "packaging/container/seccomp.json"
CALL = re.compile(r"^(?:\d+\s+)?(\w+)\((.*)\)\s+= (-?\d+|0x[0-9a-f]+|\?)", re.MULTILINE)
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
# Calls that change what a path names, and the strings that are paths.
CHANGE = {
    "rename", "renameat", "renameat2", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "link", "linkat",
    "symlink", "symlinkat", "truncate", "chmod", "fchmodat", "chown", "fchownat", "mknod", "mknodat",
    "utimensat", "setxattr", "creat",
}  # fmt: skip
WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_TMPFILE")
OUTSIDE = {"connect", "bind", "listen", "accept", "sendto", "execve", "execveat", "ptrace", "mount"}
# The only device that is opened for writing: OpenBLAS and glibc ask for no other, the program for none.
HARMLESS = {"/dev/null"}


def can_trace() -> bool:
    if STRACE is None:
        return False
    return subprocess.run([STRACE, "-o", "/dev/null", "true"], capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(not can_trace(), reason="strace is not here, or may not trace")

COMMANDS: dict[str, tuple[list[Any], set[str]]] = {
    "attend": (
        ["attend", "q.npy", "k.npy", "v.npy", "--method", "softmax/capped:1.5", "-o", "out.npz", "--coupling",
         "p.npy", "--grad", "v.npy", "--grad-out", "g.npz"],
        {"out.npz", "p.npy", "g.npz"},
    ),
    "plan": (["plan", "s.npy", "--method", "hard/exact", "-o", "p.safetensors"], {"p.safetensors"}),
    "compare": (["compare", "q.npy", "k.npy", "--methods", "softmax,sparsemax"], set()),
    "assign": (["assign", "s.npy", "-o", "pairs.npy"], {"pairs.npy"}),
    "align": (["align", "s.npy", "p0.npy"], set()),
    "hamming": (["hamming", "a.npy", "b.npy", "--epsilon", "0.5"], set()),
    "certify": (["certify", "--scores", "s.npy", "--coupling", "p0.npy"], set()),
    "demo": (["demo"], set()),
    "doctor": (["doctor"], set()),
    "bench": (["bench", "--random", "50"], set()),
    "tokenize": (["tokenize", DEMO, "--text", "a text"], set()),
    "info": (["info", DEMO], set()),
    "capture": (["capture", DEMO, "--text", "a text", "-o", "c.safetensors"], {"c.safetensors"}),
    "perplexity": (["perplexity", DEMO, "--text", "a text of some words"], set()),
    "generate": (["generate", DEMO, "--prompt", "a text", "--tokens", "2"], set()),
    "lens": (["lens", DEMO, "--text", "a text", "-o", "lens.html"], {"lens.html"}),
    "patch": (
        ["patch", DEMO, "--clean", "the man", "--corrupt", "the way", "-o", "patch.csv"],
        {"patch.csv"},
    ),
    "analyze": (["analyze", DEMO, PARAGRAPH, "-o", "run", "--windows", "1x16"], {"run"}),
    "report": (["report", "analysed", "-o", "page.html"], {"page.html", "analysed"}),
    "verify": (["verify", "--only", "CETA-1*", "-o", "checks.csv"], {"checks.csv"}),
    "completions": (["completions", "bash"], set()),
    "help": (["help", "methods"], set()),
}  # fmt: skip


def trace(folder: Path, words: list[Any]) -> list[tuple[str, str]]:
    """Every call that the program and its threads made: name, arguments."""
    rng = np.random.default_rng(0)
    save(folder, **{name: rng.standard_normal((6, 4)) for name in "qkv"}, s=rng.standard_normal((6, 6)),
         p0=np.full((6, 6), 1 / 6), a=np.full(8, 1 / 8), b=np.arange(1, 9) / 36)  # fmt: skip
    run_folders.write(folder / "analysed", layers=2, heads=2, tokens=12)
    assert STRACE is not None
    log = folder.parent / f"{folder.name}.strace"
    command = [STRACE, "-f", "-s", "512", "-o", log, PROGRAM, *words]
    done = subprocess.run([str(word) for word in command], cwd=folder, capture_output=True, env=environment())
    assert done.returncode == 0, (words, done.stderr.decode())
    text = re.sub(r"<unfinished \.\.\.>$", ") = ?", log.read_text(errors="replace"), flags=re.MULTILINE)
    return [(name, arguments) for name, arguments, _ in CALL.findall(text)][
        1:
    ]  # the first is strace's execve


def written(calls: list[tuple[str, str]]) -> set[str]:
    """Paths that the calls would change; of a file without a name, one in the folder that it is made in."""
    found = set()
    for name, arguments in calls:
        paths = QUOTED.findall(arguments)
        if name == "linkat":  # what is linked stays
            paths = paths[1:]
        if "O_TMPFILE" in arguments:
            paths = [f"{path}/.otattn-nameless" for path in paths]
        if name in CHANGE or (name in ("open", "openat", "openat2") and WRITES.search(arguments)):
            found.update(paths)
    return found - HARMLESS


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_written_elsewhere(tmp_path: Path, command: str) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    words, outputs = COMMANDS[command]
    calls = trace(folder, words)
    # An output is made without a name, or under a temporary one, beside it.
    temporary = re.compile(r"(?:\./)?\.otattn-[^/]*$")
    for path in written(calls):
        inside = path.split("/")[0] in outputs or (bool(outputs) and temporary.match(path))
        assert inside and ".." not in path.split("/"), path
    assert {name for name, _ in calls}.isdisjoint(OUTSIDE)
    allowed = {name for row in json.loads(PROFILE.read_text())["syscalls"] for name in row["names"]}
    assert {name for name, _ in calls} <= allowed


def test_every_subcommand_is_traced(tmp_path: Path) -> None:
    assert {command["name"] for command in answer(tmp_path, "help")["commands"]} == set(COMMANDS)


def test_the_trace_sees_writes() -> None:
    """The check itself: a folder's path and a temporary file elsewhere would be found."""
    made = 'AT_FDCWD, "/tmp/x", O_WRONLY|O_CREAT, 0600'
    assert written([("openat", made), ("read", '3, "a", 1')]) == {"/tmp/x"}
    assert written([("rename", '"a", "/etc/b"')]) == {"a", "/etc/b"}
    assert written([("linkat", 'AT_FDCWD, "/proc/self/fd/3", AT_FDCWD, "/etc/b", 0')]) == {"/etc/b"}
    assert written([("openat", 'AT_FDCWD, "/etc", O_RDWR|O_TMPFILE, 0600')]) == {"/etc/.otattn-nameless"}
    assert written([("openat", 'AT_FDCWD, "/etc/passwd", O_RDONLY|O_CLOEXEC')]) == set()
