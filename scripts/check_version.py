"""Fails when a file names another version of otattn than CMakeLists.txt, or another address of its sources.

check_version.py [REPOSITORY]     judges a checkout
check_version.py --print          the version
check_version.py --write X.Y.Z    writes the version and CMakeLists.txt's address into every file
check_version.py --self-test      plants one defect after another in a small tree and expects each found

Tools of packages want the version as plain text in files of their own, so that it is written in many places
and judged from one.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from planted import self_test

ROOT = Path(__file__).resolve().parent.parent
SOURCE = "CMakeLists.txt"
VERSION = re.compile(r"\d+\.\d+\.\d+")
# What stands in a place, one of them in each, for the version and the address of the sources.
PARTS = {
    "{version}": r"(?P<version>\d+\.\d+\.\d+)",
    "{major}": r"(?P<major>\d+)",
    "{minor}": r"(?P<minor>\d+)",
    "{patch}": r"(?P<patch>\d+)",
    "{address}": r"(?P<address>https://[^\s\"#]+?)",
}
PLACES = (
    (SOURCE, "project(otattn VERSION {version} "),
    (SOURCE, 'HOMEPAGE_URL "{address}"'),
    ("include/otattn.h", "#define OTA_VERSION_MAJOR {major}\n"),
    ("include/otattn.h", "#define OTA_VERSION_MINOR {minor}\n"),
    ("include/otattn.h", "#define OTA_VERSION_PATCH {patch}\n"),
    ("include/otattn.h", '#define OTA_VERSION_STRING "{version}"\n'),
    ("python/otattn/_structs.py", "VERSION_MAJOR = {major}\n"),
    ("python/otattn/_structs.py", "VERSION_MINOR = {minor}\n"),
    ("python/otattn/_structs.py", "VERSION_PATCH = {patch}\n"),
    ("pyproject.toml", '\nversion = "{version}"\n'),
    ("CITATION.cff", "\nversion: {version}\n"),
    ("CHANGELOG.md", "\n## {version} ("),
    ("packaging/conan/conandata.yml", '  "{version}":\n'),
    ("packaging/conan/conandata.yml", '"{address}/releases/download/v'),
    ("packaging/conan/conandata.yml", "/releases/download/v{version}/"),
    ("packaging/conan/conandata.yml", "/otattn-{version}.tar.gz"),
    ("packaging/conan/conanfile.py", '    version = "{version}"\n'),
    ("packaging/conan/conanfile.py", '    homepage = "{address}"\n'),
    ("packaging/conan/conanfile.py", '    url = "{address}"\n'),
    ("packaging/conda-forge/recipe.yaml", '\n  version: "{version}"\n'),
    ("packaging/conda-forge/recipe.yaml", "  url: {address}/releases/download/v$"),
    ("packaging/conda-forge/recipe.yaml", "homepage: {address}\n"),
    ("packaging/debian/changelog", "otattn ({version}-"),
    ("packaging/debian/control", "\nHomepage: {address}\n"),
    ("packaging/debian/copyright", "\nSource: {address}\n"),
    ("packaging/debian/watch", "\n{address}/releases "),
    ("packaging/homebrew/otattn.rb", '  homepage "{address}"\n'),
    ("packaging/homebrew/otattn.rb", '"{address}/releases/download/v'),
    ("packaging/homebrew/otattn.rb", "/releases/download/v{version}/"),
    ("packaging/homebrew/otattn.rb", "/otattn-{version}.tar.gz"),
    ("packaging/meson/otattn.wrap", "\ndirectory = otattn-{version}\n"),
    ("packaging/meson/otattn.wrap", "= {address}/releases/download/v"),
    ("packaging/meson/otattn.wrap", "/releases/download/v{version}/"),
    ("packaging/meson/otattn.wrap", "/otattn-{version}.tar.gz"),
    ("packaging/meson/otattn.wrap", "\nsource_filename = otattn-{version}.tar.gz\n"),
    ("packaging/nix/package.nix", '  version = "{version}";\n'),
    ("packaging/nix/package.nix", 'url = "{address}/releases/download/v$'),
    ("packaging/nix/package.nix", 'homepage = "{address}";\n'),
    ("packaging/nix/package.nix", 'changelog = "{address}/blob/v$'),
    ("packaging/vcpkg/otattn/portfile.cmake", '"{address}/releases/download/v$'),
    ("packaging/vcpkg/otattn/vcpkg.json", '  "version": "{version}",\n'),
    ("packaging/vcpkg/otattn/vcpkg.json", '  "homepage": "{address}",\n'),
)


def pattern(place: str) -> re.Pattern[str]:
    text = re.escape(place)
    for name, part in PARTS.items():
        text = text.replace(re.escape(name), part)
    return re.compile(text)


def wanted(root: Path) -> dict[str, str]:
    """Every part as CMakeLists.txt has it."""
    text = (root / SOURCE).read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for name, place in PLACES:
        if name == SOURCE and (match := pattern(place).search(text)):
            found.update(match.groupdict())
    if "version" in found:
        found.update(zip(("major", "minor", "patch"), found["version"].split("."), strict=True))
    return found


def version_of(root: Path = ROOT) -> str:
    return wanted(root)["version"]


def found_in(root: Path, name: str, place: str) -> list[re.Match[str]]:
    """Where the file has the place; of a changelog, whose older pages stay, the first alone."""
    path = root / name
    matches = list(pattern(place).finditer(path.read_text(encoding="utf-8"))) if path.exists() else []
    return matches[:1] if is_changelog(name) else matches


def is_changelog(name: str) -> bool:
    return Path(name).stem.lower() == "changelog"


def check(root: Path) -> list[str]:
    want = wanted(root)
    defects = []
    for name, place in PLACES:
        matches = found_in(root, name, place)
        if not matches:
            defects.append(f"{name}: has no `{place.strip()}`")
        for match in matches:
            defects += [
                f"{name}: {part} {text}, but {SOURCE} has {want.get(part)}"
                for part, text in match.groupdict().items()
                if text != want.get(part)
            ]
    return defects


def write(root: Path, version: str) -> None:
    numbers = dict(zip(("major", "minor", "patch"), version.split("."), strict=True))
    parts = {**wanted(root), "version": version, **numbers}
    for name, place in PLACES:
        if is_changelog(name):  # a page is written by people
            continue
        text = (root / name).read_text(encoding="utf-8")
        for match in reversed(found_in(root, name, place)):
            for part in match.groupdict():
                text = text[: match.start(part)] + parts[part] + text[match.end(part) :]
        (root / name).write_text(text, encoding="utf-8")


def self_test_of_places() -> int:
    """Files that hold every place alone, and each place once more with another number or address."""

    def filled(place: str, version: str, address: str) -> str:
        values = {"{version}": version, "{address}": address}
        values |= dict(zip(("{major}", "{minor}", "{patch}"), version.split("."), strict=True))
        for name, value in values.items():
            place = place.replace(name, value)
        return place

    sound: dict[str, str] = {}
    plants = []
    for name, place in PLACES:
        sound[name] = sound.get(name, "") + filled(place, "1.2.3", "https://example.org/a")
        if name != SOURCE and not is_changelog(name):
            plants.append((name, filled(place, "7.8.9", "https://example.org/b"), f"but {SOURCE} has"))
    return self_test("version", check, sound, plants)


def main() -> int:
    words = sys.argv[1:]
    if words[:1] == ["--self-test"]:
        return self_test_of_places()
    if words[:1] == ["--print"]:
        print(version_of())
        return 0
    if words[:1] == ["--write"] and len(words) == 2 and VERSION.fullmatch(words[1]):
        write(ROOT, words[1])
    elif words[:1] == ["--write"] or len(words) > 1:
        print(__doc__)
        return 2
    root = Path(words[0]) if len(words) == 1 else ROOT
    defects = check(root)
    for defect in defects:
        print(f"version: {defect}")
    if not defects:
        print(f"version: {version_of(root)} in {len(PLACES)} places")
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
