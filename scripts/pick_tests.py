"""Which tests a name, or a changed file, stands for; a line of kind, tab and name for each.

    pick_tests.py NAME...                    for `./dev test NAME`
    pick_tests.py --changed [--since REV]    for `./dev check`: of files that differ from REV
    pick_tests.py --files [--since REV]      these files themselves

kinds       name
c           a file of C tests, as ctest calls it: test_forward
folder      a folder of C tests: operator
program     a file of pytest that tests the program
package     a file of pytest that tests the Python package or what stands in its place
word        none of these: a word for pytest's -k
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = Path("tests/python")
# Folders of the sources whose C tests have another name, or lie in several folders.
FOLDERS = {
    "masks": ("operator",),
    "terms": ("operator",),
    "regularisers": ("operator",),
    "ranks": ("operator",),
}

Pick = tuple[str, str]


def c_files() -> dict[str, str]:
    """Folder of each file of C tests."""
    return {path.stem: path.parent.name for path in sorted(ROOT.glob("tests/*/test_*.c"))}


def python_files(stem: str) -> list[Pick]:
    found = []
    for kind, folder in (("program", "program"), ("package", "package"), ("package", "outside")):
        path = PYTHON / folder / f"{stem}.py"
        if (ROOT / path).is_file():
            found.append((kind, path.as_posix()))
    return found


def of_name(name: str) -> list[Pick]:
    """What a name given by hand stands for: both C and Python where both have it and no ending decides."""
    path = Path(name)
    stem = path.name.removesuffix(".inc.h").removesuffix(".c").removesuffix(".py")
    test = stem if stem.startswith("test_") else f"test_{stem}"
    files = c_files()
    found: list[Pick] = []
    if path.suffix != ".py":
        if test in files:
            found.append(("c", test))
        elif path.suffix == "" and stem in files.values():
            found.append(("folder", stem))
    if path.suffix not in (".c", ".h"):
        found += [
            pick
            for pick in python_files(test)
            if len(path.parts) == 1 or path.parent.name == Path(pick[1]).parent.name
        ]
    return found or [("word", name)]


def of_change(name: str) -> list[Pick]:
    """The tests beside a changed file."""
    path, parts = Path(name), Path(name).parts
    files = c_files()
    folders = set(files.values())
    if path.suffix in (".c", ".h"):
        if parts[0] == "tests":
            test = path.name.removesuffix(".inc.h").removesuffix(".c")
            return [("c", test)] if test in files else []
        own = f"test_{path.name.split('.')[0]}"
        if own in files:
            return [("c", own)]
        near = parts[1] if parts[0] == "src" else parts[0]
        return [("folder", folder) for folder in FOLDERS.get(near, (near,)) if folder in folders]
    if path.suffix == ".py":
        if parts[:2] == PYTHON.parts:
            return [pick for pick in python_files(path.stem) if pick[1] == name]
        return python_files(f"test_{path.stem.lstrip('_')}")
    return []


def changed(since: str | None) -> list[str]:
    """Files that differ from a commit (by default where the branch left main), and new ones."""

    def git(*words: str) -> list[str]:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.splitlines() if done.returncode == 0 else []

    if since is None:
        bases = [git("merge-base", "HEAD", name) for name in ("origin/main", "main")]
        since = next((base[0] for base in bases if base), "HEAD")
    found = {
        *git("diff", "--name-only", "--diff-filter=d", since),
        *git("ls-files", "-o", "--exclude-standard"),
    }
    return sorted(name for name in found if (ROOT / name).is_file())


def main() -> int:
    parser = argparse.ArgumentParser(description="which tests names or changed files stand for")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--changed", action="store_true")
    parser.add_argument("--files", action="store_true")
    parser.add_argument("--since", metavar="REV")
    words = parser.parse_args()
    if words.files:
        print("\n".join(changed(words.since)))
        return 0
    picks = [pick for name in words.names for pick in of_name(name)]
    if words.changed:
        picks += [pick for name in changed(words.since) for pick in of_change(name)]
    whole = {name for kind, name in picks if kind == "folder"}
    files = c_files()
    for kind, name in dict.fromkeys(picks):
        if kind != "c" or files[name] not in whole:
            print(f"{kind}\t{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
