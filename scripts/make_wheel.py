"""Packs what a build installed and the Python files of the package into a wheel, the same bytes every time.

    make_wheel.py STAGE TAG FOLDER [SOURCES]   STAGE: what `cmake --install --component python` left
                                               TAG: cp311-abi3-PLATFORM
                                               SOURCES: where those of libraries within lie, NAME-VERSION each

The metadata is pyproject.toml's. Entries are sorted and dated 1980, modes are of two kinds, and a file that
names a folder of this machine is refused.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATE = (1980, 1, 1, 0, 0, 0)


def metadata(project: dict[str, object], readme: str) -> str:
    """METADATA of a wheel."""
    lines = ["Metadata-Version: 2.4"]
    pairs = (
        ("Name", "name"),
        ("Version", "version"),
        ("Summary", "description"),
        ("License-Expression", "license"),
    )
    lines += [f"{key}: {project[member]}" for key, member in pairs]
    lines += [f"License-File: {name}" for name in project["license-files"]]  # type: ignore[attr-defined]
    lines += [f"Classifier: {name}" for name in project["classifiers"]]  # type: ignore[attr-defined]
    lines.append(f"Requires-Python: {project['requires-python']}")
    lines += [f"Requires-Dist: {name}" for name in project["dependencies"]]  # type: ignore[attr-defined]
    for extra, names in project["optional-dependencies"].items():  # type: ignore[attr-defined]
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {name}; extra == "{extra}"' for name in names]
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", readme])


def licences(sources: Path) -> dict[str, bytes]:
    """Those of the libraries that lie within, by library."""
    found: dict[str, bytes] = {}
    for path in sorted(sources.glob("*/*")):
        if path.name.startswith(("LICENSE", "LICENCE", "COPYING")):
            name = f"{path.parent.name}.txt"
            # The longest, since one may only name the other.
            found[name] = max(found.get(name, b""), path.read_bytes(), key=len)
    return found


def entries(
    stage: Path, tag: str, project: dict[str, object], sources: Path | None
) -> dict[str, tuple[bytes, bool]]:
    """What the wheel holds by name, and whether it is to be run."""
    name = f"{project['name']}-{project['version']}"
    found: dict[str, tuple[bytes, bool]] = {}
    for top in (ROOT / "python", stage):
        for path in sorted((top / "otattn").rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                found[path.relative_to(top).as_posix()] = (path.read_bytes(), path.parent.name == "bin")
    info = f"{name}.dist-info"
    for path in sorted((stage / "data").rglob("*")):
        if path.is_file():
            found[f"{name}.data/{path.relative_to(stage).as_posix()}"] = (path.read_bytes(), False)
    if "-win" in tag:
        # A script without an ending is none there; pip makes a command of this.
        found[f"{info}/entry_points.txt"] = (b"[console_scripts]\notattn = otattn.__main__:main\n", False)
    else:
        for path in sorted((stage / "scripts").glob("*")):
            found[f"{name}.data/scripts/{path.name}"] = (path.read_bytes(), True)
    for library, licence in licences(sources).items() if sources else ():
        found[f"{info}/licenses/{library}"] = (licence, False)
    wheel = "Wheel-Version: 1.0\nGenerator: otattn scripts/make_wheel.py\nRoot-Is-Purelib: false\n"
    python, abi, platforms = tag.split("-")
    wheel += "".join(f"Tag: {python}-{abi}-{platform}\n" for platform in platforms.split("."))
    text = metadata(project, (ROOT / "README.md").read_text("utf-8"))
    found[f"{info}/METADATA"] = (text.encode(), False)
    found[f"{info}/WHEEL"] = (wheel.encode(), False)
    found[f"{info}/licenses/LICENSE"] = ((ROOT / "LICENSE").read_bytes(), False)
    return found


def pack(stage: Path, tag: str, folder: Path, sources: Path | None = None) -> Path:
    """Writes the wheel."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found = entries(stage, tag, project, sources)
    if named := [name for name, (data, _) in found.items() if str(ROOT).encode() in data]:
        raise ValueError(f"{ROOT} stands in {', '.join(named)}")
    record = f"{project['name']}-{project['version']}.dist-info/RECORD"
    rows = []
    for name, (data, _) in sorted(found.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(data)}\n")
    found[record] = ("".join([*rows, f"{record},,\n"]).encode(), False)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{project['name']}-{project['version']}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (data, runs) in sorted(found.items(), key=lambda row: (".dist-info/" in row[0], row[0])):
            entry = zipfile.ZipInfo(name, DATE)
            entry.create_system = 3
            entry.external_attr = (0o100755 if runs else 0o100644) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, 9)
    return path


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    print(pack(Path(sys.argv[1]), sys.argv[2], *map(Path, sys.argv[3:])))
