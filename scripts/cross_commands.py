"""Commands of the program that another system's build runs, beside the same commands of this machine's.

    cross_commands.py NATIVE PROGRAM [WORD ...]     WORDs: what the program runs under: wine64, qemu-aarch64

Arrays are compared as numbers, sentences and tables as text. Paths hold letters beyond ASCII. Prints a line a
command; exits with 1 where an answer differs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
DEMO = "data/demo/model"
TEXT = "data/demo/paragraph.txt"


# Statements that a system has no room for, by what its programs run under: TOT-67 maps a file of 6 GB.
NO_ROOM = {"qemu-arm": {"TOT-67"}}


class Machine:
    """A program, what it runs under, a folder of its own, and the statements that nobody asks of it."""

    def __init__(self, words: list[str], folder: Path, left_out: set[str]) -> None:
        self.words, self.folder, self.left_out = words, folder, left_out

    def run(self, *arguments: str, stdin: bytes = b"", **variables: str) -> tuple[int, str, str]:
        words = [*self.words, *(word.replace("@", str(self.folder)) for word in arguments)]
        environment = os.environ | {
            name: value.replace("@", str(self.folder)) for name, value in variables.items()
        }
        done = subprocess.run(words, cwd=ROOT, env=environment, input=stdin, capture_output=True)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def array(self, name: str) -> object:
        return np.load(self.folder / name)


def scores(machine: Machine) -> None:
    draw = np.random.default_rng(7)
    for name in "qkv":
        np.save(machine.folder / f"{name}ä.npy", draw.standard_normal((2, 3, 24, 8)).astype(np.float32))


def attends(machine: Machine) -> object:
    code, _, said = machine.run(
        "attend", "@/qä.npy", "@/kä.npy", "@/vä.npy", "-m", "softmax/exact", "-o", "@/öut.npy"
    )
    assert code == 0, said
    return machine.array("öut.npy")


def writes_archives(machine: Machine) -> object:
    code, _, said = machine.run(
        "attend", "@/qä.npy", "@/kä.npy", "@/vä.npy", "-m", "entmax:1.5", "-o", "@/ü.npz"
    )
    assert code == 0, said
    code, _, said = machine.run("plan", "@/ü.npz", "-m", "sparsemax", "-o", "@/ψ.safetensors")
    assert code == 0, said
    with np.load(machine.folder / "ü.npz") as found:
        return next(iter(found.values()))


def replaces(machine: Machine) -> object:
    words = ("attend", "@/qä.npy", "@/kä.npy", "@/vä.npy", "-o", "@/öut.npy")
    refused, _, said = machine.run(*words)
    forced, _, _ = machine.run(*words, "-f")
    left = sorted(path.name for path in machine.folder.iterdir() if path.name.startswith(".otattn"))
    return refused, "already exists" in said, forced, left


def refuses(machine: Machine) -> object:
    answers = [
        machine.run("attend", "@/none.npy", "@/kä.npy", "@/vä.npy"),
        machine.run("plan", "data/demo"),
        machine.run("plan", "@/qä.npy", "-m", "softmx"),
        machine.run("nothing"),
    ]
    return [(code, said.replace(str(machine.folder), "").splitlines()[:1]) for code, _, said in answers]


def reads_standard_input(machine: Machine) -> object:
    code, _, said = machine.run("plan", "-", "-o", "@/p.npy", stdin=(machine.folder / "qä.npy").read_bytes())
    assert code == 0, said
    return machine.array("p.npy")


def tokenizes(machine: Machine) -> object:
    return machine.run("tokenize", DEMO, "--text", "Ein Satz über Öl, naïve façade")[:2]


def generates(machine: Machine) -> object:
    return machine.run("generate", DEMO, "--prompt", "The ", "--tokens", "12", "--seed", "1")[:2]


def describes(machine: Machine) -> object:
    code, said, _ = machine.run("info", DEMO, "--json")
    found = json.loads(said)
    return code, found["architecture"], found["layers"]


def finds_names(machine: Machine) -> object:
    """By a variable of the environment that holds letters which no code page has together."""
    model = machine.folder / "hüb ψ" / "hub" / "models--some--demo"
    shutil.copytree(ROOT / DEMO, model / "snapshots" / "abc")
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("abc")
    code, said, failed = machine.run("info", "some/demo", "--json", HF_HUB_CACHE="", HF_HOME="@/hüb ψ")
    assert code == 0, failed
    return json.loads(said)["architecture"]


def analyzes(machine: Machine) -> object:
    words = ("analyze", DEMO, TEXT, "--windows", "2x32", "-o", "@/rün")
    code, _, said = machine.run(*words)
    assert code == 0, said
    again, _, _ = machine.run(*words)
    resumed, _, _ = machine.run(*words, "--resume")
    page, _, said = machine.run("report", "@/rün", "-o", "@/page.html")
    assert page == 0, said
    metrics = json.loads((machine.folder / "rün" / "metrics.json").read_text())
    model = json.loads((machine.folder / "rün" / "manifest.json").read_text())["model"]
    tables = sorted(path.name for path in (machine.folder / "rün" / "tables").iterdir())
    return again, resumed, sorted(metrics), json.dumps(model, sort_keys=True), tables


def verifies(machine: Machine) -> object:
    """Statements on models and their files, and of one source; times are another matter under emulation."""
    found = []
    for ids in ("TOT-6*", "CETA*"):
        code, said, _ = machine.run("verify", "--only", ids, "--json")
        checks = [c for c in json.loads(said)["checks"] if c["id"] not in machine.left_out]
        assert code == 0 or machine.left_out, said
        found.append(sorted(c["claim"] for c in checks if c["holds"]))
    return found


def same(here: object, there: object) -> bool:
    if isinstance(here, np.ndarray):
        return (
            isinstance(there, np.ndarray)
            and here.shape == there.shape
            and bool(np.allclose(here, there, rtol=1e-5, atol=1e-6))
        )
    return here == there


CHECKS = (
    attends, writes_archives, replaces, refuses, reads_standard_input, tokenizes, generates, describes,
    finds_names, analyzes, verifies,
)  # fmt: skip


def main() -> int:
    native, program, *under = sys.argv[1:]
    left_out = NO_ROOM.get(Path(under[0]).name if under else "", set())
    failed = 0
    for claim in sorted(left_out):
        print(f"skipped  {claim}: no room in 32 bits")
    with tempfile.TemporaryDirectory() as place:
        machines = []
        for name, words in (("here", [native]), ("there", [*under, program])):
            folder = Path(place) / f"{name} ö"
            folder.mkdir()
            machines.append(Machine(words, folder, left_out))
            scores(machines[-1])
        for check in CHECKS:
            try:
                answers = [check(machine) for machine in machines]
            except (AssertionError, OSError, ValueError, KeyError) as error:
                answers = [str(error), None]
            fits = same(*answers)
            failed += not fits
            print(f"{'ok' if fits else 'differs'}  {check.__name__}")
            if not fits:
                print(f"    here:  {str(answers[0])[:400]}\n    there: {str(answers[1])[:400]}")
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ.setdefault("WINEDEBUG", "-all")
    sys.exit(main())
