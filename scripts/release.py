"""What of a release is files and git; `./dev release` (docs/development/releasing.md) builds the rest.

release.py check [REPOSITORY]     says what keeps the checkout from being a release
release.py prepare [REPOSITORY]   puts today's date on the page of CHANGELOG.md
release.py make FOLDER            the tarball of HEAD, its page, and the recipes with its sums
release.py sums FOLDER            SHA256SUMS of what lies there
"""

from __future__ import annotations

import gzip
import hashlib
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from check_sizes import MOST
from check_version import ROOT, version_of

# In the recipes of packaging/ there stand as many zeros, since a tarball cannot hold its own sum.
SUMS = {"0" * 64: hashlib.sha256, "0" * 128: hashlib.sha512}
# What recipes are not: the files of Debian, what containers take, and what describes the folder.
OTHERS = ("debian", "container", "README.md")


def git(root: Path, *words: str) -> bytes:
    return subprocess.run(["git", "-C", str(root), *words], capture_output=True, check=True).stdout


def heading(version: str) -> re.Pattern[str]:
    return re.compile(rf"^## {re.escape(version)} \((?P<date>[^)]*)\)\n(?P<page>.*?)(?=^## |\Z)", re.M | re.S)


def page_of(root: Path, version: str) -> re.Match[str] | None:
    return heading(version).search((root / "CHANGELOG.md").read_text(encoding="utf-8"))


def check(root: Path) -> list[str]:
    version = version_of(root)
    defects = []
    changed = git(root, "status", "--porcelain").decode().splitlines()
    if changed:
        defects.append(f"{len(changed)} files are not committed, {changed[0][3:]} among them")
    page = page_of(root, version)
    if page is None:
        defects.append(f"CHANGELOG.md has no page `## {version} (...)`")
    else:
        lines = len(page["page"].strip().splitlines())
        if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", page["date"]):
            defects.append(
                f"the page of {version} in CHANGELOG.md has no date; `./dev release --prepare` gives it"
            )
        if not 0 < lines <= MOST["release"]:
            defects.append(
                f"the page of {version} in CHANGELOG.md has {lines} lines; 1 to {MOST['release']} are a page"
            )
    header = f"tests/abi/otattn_{version.rpartition('.')[0]}.h"
    if not (root / header).exists():
        defects.append(f"{header} is not there; `./dev release --prepare` writes it")
    tag = f"v{version}"
    if git(root, "tag", "--list", tag):
        at, head = (git(root, "rev-parse", f"{name}^{{commit}}") for name in (tag, "HEAD"))
        if at != head:
            defects.append(f"the tag {tag} is another commit's; a release has a version of its own")
    return defects


def prepare(root: Path) -> None:
    path = root / "CHANGELOG.md"
    page = page_of(root, version_of(root))
    if page is None:
        sys.exit(f"release: CHANGELOG.md has no page of {version_of(root)}; write it first")
    text = path.read_text(encoding="utf-8")
    if page["date"] == "unreleased":
        today = time.strftime("%Y-%m-%d", time.gmtime())
        path.write_text(text[: page.start("date")] + today + text[page.end("date") :], encoding="utf-8")


def tarball(root: Path, folder: Path) -> Path:
    """Names, modes and dates are git's, the frame has neither name nor date."""
    name = f"otattn-{version_of(root)}"
    packed = git(root, "archive", "--format=tar", f"--prefix={name}/", "HEAD")
    path = folder / f"{name}.tar.gz"
    path.write_bytes(gzip.compress(packed, compresslevel=9, mtime=0))
    return path


def recipes(root: Path, folder: Path, archive: Path) -> int:
    """packaging/ with the sums of the tarball."""
    sums = {zeros: make(archive.read_bytes()).hexdigest() for zeros, make in SUMS.items()}
    shutil.rmtree(folder, ignore_errors=True)
    filled = 0
    for path in sorted((root / "packaging").rglob("*")):
        at = path.relative_to(root / "packaging")
        if not path.is_file() or at.parts[0] in OTHERS:
            continue
        text = path.read_text(encoding="utf-8")
        for zeros, digest in sums.items():
            text, count = re.subn(rf"\b{zeros}\b", digest, text)
            filled += count
        (folder / at).parent.mkdir(parents=True, exist_ok=True)
        (folder / at).write_text(text, encoding="utf-8")
    return filled


def make(root: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    archive = tarball(root, folder)
    print(f"{archive.name}: {archive.stat().st_size} bytes")
    if (root / "packaging").exists():
        print(f"recipes: {recipes(root, folder / 'recipes', archive)} sums")
    page = page_of(root, version_of(root))
    if page is not None:
        (folder / "CHANGES.md").write_text(page["page"].strip() + "\n", encoding="utf-8")


def sums(folder: Path) -> None:
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n"
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "SHA256SUMS"
    ]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def main() -> int:
    words = sys.argv[1:]
    at = Path(words[1]).resolve() if len(words) == 2 else ROOT
    match words[:1], len(words):
        case ["check"], 1 | 2:
            defects = check(at)
            for defect in defects:
                print(f"release: {defect}")
            return 1 if defects else 0
        case ["prepare"], 1 | 2:
            prepare(at)
        case ["make"], 2:
            make(ROOT, at)
        case ["sums"], 2:
            sums(at)
        case _:
            print(__doc__)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
