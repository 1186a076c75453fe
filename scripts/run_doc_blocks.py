"""Runs the commands that the documents show, so that no document shows one that fails.

    run_doc_blocks.py TAG [--root REPOSITORY] [--steps FILE]

A block opens with ```sh followed by words; one of them must be TAG (`ci` or `long`). The blocks of one
document run in order, with `bash -eu`, in one scratch copy of the repository (the built program and
libraries linked into its build folder) and so see each other's files. A block that ```output follows must
print exactly that. With --steps a line `name <tab> passed|failed <tab> reason` is appended for each block.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BLOCK = re.compile(
    r"^```sh[ \t]+(?P<tags>[^\n]*)\n(?P<text>.*?)^```[ \t]*$(?:\n+```output\n(?P<output>.*?)^```[ \t]*$)?",
    re.MULTILINE | re.DOTALL,
)
# What a copy finds built already; a block that configures a build of its own there still can.
BUILT = ("otattn", "libotattn*", "charts.js*", "venv", "venv-python")
TIME_LIMIT = {"ci": 300, "long": 7200}


def find_blocks(document: Path, tag: str) -> list[tuple[int, str, str | None]]:
    """(line of the first command, commands, what they must print) of each block with the tag."""
    text = document.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, match.start("text")) + 1, match["text"], match["output"])
        for match in BLOCK.finditer(text)
        if tag in match["tags"].split()
    ]


def make_copy(root: Path, folder: Path) -> Path:
    copy = folder / "otattn"
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        check=True,
        text=True,
    ).stdout.split("\0")
    for name in filter(None, tracked):
        source = root / name
        if source.is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy / name)
    (copy / "build").mkdir()
    for pattern in BUILT:
        for path in (root / "build").glob(pattern):
            (copy / "build" / path.name).symlink_to(path.resolve())
    return copy


def run_block(text: str, wanted: str | None, folder: Path, limit: int) -> str:
    """What went wrong, or an empty string."""
    try:
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", text],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=limit,
            check=False,
            text=True,
            errors="replace",
            env=os.environ | {"NO_COLOR": "1"},
        )
    except subprocess.TimeoutExpired:
        return f"ran longer than {limit} s"
    if done.returncode == 0 and wanted in (None, done.stdout):
        return ""
    sys.stdout.write(done.stdout[-4000:])
    return f"exit status {done.returncode}" if done.returncode else "printed something else"


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs the tagged command blocks of the documents.")
    parser.add_argument("tag", choices=sorted(TIME_LIMIT))
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--steps", type=Path)
    options = parser.parse_args()
    root = options.root.resolve()
    documents = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]
    failed = ran = 0
    for document in filter(Path.is_file, documents):
        blocks = find_blocks(document, options.tag)
        if not blocks:
            continue
        with tempfile.TemporaryDirectory(prefix="otattn-docs-") as folder:
            copy = make_copy(root, Path(folder))
            for line, text, wanted in blocks:
                name = f"{document.relative_to(root)}:{line}"
                reason = run_block(text, wanted, copy, TIME_LIMIT[options.tag])
                ran += 1
                failed += bool(reason)
                print(f"{'FAILED' if reason else 'ok':7} {name} {reason}".rstrip(), flush=True)
                if options.steps:
                    with options.steps.open("a", encoding="utf-8") as steps:
                        steps.write(f"{name}\t{'failed' if reason else 'passed'}\t{reason}\n")
    print(f"{ran - failed} of {ran} blocks tagged {options.tag} ran as written")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
