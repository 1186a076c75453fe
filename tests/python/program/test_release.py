"""What keeps a commit from being a release, and the bytes of its tarball."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from program import ROOT

RELEASE = ROOT / "scripts" / "release.py"
PAGE = "# Changelog\n\n## 1.2.3 (2026-01-02)\n\n* One change.\n\n## 1.2.2 (2025-01-02)\n\n* Another.\n"
PROJECT = 'project(otattn VERSION 1.2.3 LANGUAGES C\n    HOMEPAGE_URL "https://example.org/a")\n'


def git(root: Path, *words: str) -> None:
    person = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "-C", str(root), *person, *words], check=True, capture_output=True)


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, RELEASE, *map(str, words)], capture_output=True, text=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "tests/abi").mkdir(parents=True)
    (root / "CMakeLists.txt").write_text(PROJECT)
    (root / "CHANGELOG.md").write_text(PAGE)
    (root / "tests/abi/otattn_1.2.h").write_text("\n")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "Add all")
    return root


def write(name: str, text: str, commit: bool = True) -> Callable[[Path], None]:
    def defect(root: Path) -> None:
        (root / name).write_text(text)
        if commit:
            git(root, "commit", "-qam", "Test")

    return defect


def tagged_before(root: Path) -> None:
    git(root, "tag", "v1.2.3")
    write("CMakeLists.txt", PROJECT + "\n")(root)


def without_header(root: Path) -> None:
    git(root, "rm", "-q", "tests/abi/otattn_1.2.h")
    git(root, "commit", "-qm", "Test")


@pytest.mark.parametrize(
    ("defect", "words"),
    [
        (lambda root: None, ""),
        (lambda root: git(root, "tag", "v1.2.3"), ""),
        (write("CHANGELOG.md", PAGE + "more\n", commit=False), "1 files are not committed, CHANGELOG.md"),
        (write("CHANGELOG.md", PAGE.replace("1.2.3", "1.2.1")), "has no page `## 1.2.3"),
        (
            write("CHANGELOG.md", PAGE.replace("2026-01-02", "unreleased")),
            "of 1.2.3 in CHANGELOG.md has no date",
        ),
        (write("CHANGELOG.md", PAGE.replace("* One change.\n", "")), "has 0 lines"),
        (write("CHANGELOG.md", PAGE.replace("* One change.\n", "* x\n" * 61)), "has 61 lines"),
        (tagged_before, "the tag v1.2.3 is another commit's"),
        (without_header, "tests/abi/otattn_1.2.h is not there"),
    ],
)
def test_a_release_is_refused(tree: Path, defect: Callable[[Path], None], words: str) -> None:
    defect(tree)
    done = run("check", tree)
    said = done.stdout.splitlines()
    assert (done.returncode, len(said)) == ((1, 1) if words else (0, 0)), done.stdout + done.stderr
    assert words in done.stdout


def test_a_page_gets_its_date_once(tree: Path) -> None:
    page = tree / "CHANGELOG.md"
    page.write_text(PAGE.replace("2026-01-02", "unreleased"))
    assert run("prepare", tree).returncode == 0
    text = page.read_text()
    assert (
        "unreleased" not in text and text.replace(text[text.index("(") + 1 :][:10], "2026-01-02", 1) == PAGE
    )
    run("prepare", tree)
    assert page.read_text() == text


def test_files_of_a_release(tree: Path, tmp_path: Path) -> None:
    """The same tarball twice, whatever the dates of the files; recipes with its sums; a list of sums."""
    folder = tree / "packaging"
    (folder / "debian").mkdir(parents=True)
    (folder / "debian/rules").write_text("0" * 64)
    (folder / "recipe").write_text(f"a {'0' * 64}\nb {'0' * 128}\nc {'0' * 65}\n")
    (tree / "scripts").mkdir()
    for name in ("release.py", "check_sizes.py", "check_version.py", "planted.py"):
        (tree / "scripts" / name).write_bytes((ROOT / "scripts" / name).read_bytes())
    git(tree, "add", ".")
    git(tree, "commit", "-qm", "Add more")
    made = []
    for k in range(2):
        os.utime(folder / "recipe", (k * 1e6, k * 1e6))
        out = tmp_path / f"out{k}"
        subprocess.run([sys.executable, tree / "scripts/release.py", "make", out], check=True)
        made.append((out / "otattn-1.2.3.tar.gz").read_bytes())
    assert made[0] == made[1]
    with tarfile.open(out / "otattn-1.2.3.tar.gz") as archive:
        assert "otattn-1.2.3/packaging/debian/rules" in archive.getnames()
    sums = [make(made[0]).hexdigest() for make in (hashlib.sha256, hashlib.sha512)]
    assert (out / "recipes/recipe").read_text() == f"a {sums[0]}\nb {sums[1]}\nc {'0' * 65}\n"
    assert not (out / "recipes/debian").exists() and (out / "CHANGES.md").read_text() == "* One change.\n"
    assert run("sums", out).returncode == 0
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=out, check=True)
    assert len((out / "SHA256SUMS").read_text().splitlines()) == 3
