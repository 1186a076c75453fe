"""What otattn is made with, as CycloneDX 1.5: libraries that it links, Python packages, tools of its tests.

    bill_of_materials.py [-o FILE]      writes the bill, else prints it

Read are `packages_*` of scripts/dev/common.sh (Debian's packages) and the locks of Python packages with their
hashes. The scope tells what a component is for: required (part of the program), optional (OpenBLAS, MPI),
excluded (building and testing only).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

from check_version import version_of

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ("tests/packages.lock", "python/packages.lock", "docs/site/packages.lock")
# Debian's development packages whose libraries the program holds or loads, and their licences.
LINKED = {
    "libjansson-dev": ("required", "MIT"),
    "libmd-dev": ("required", "BSD-3-Clause"),
    "libpcre2-dev": ("required", "BSD-3-Clause"),
    "libutf8proc-dev": ("required", "MIT"),
    "libzip-dev": ("required", "BSD-3-Clause"),
    "zlib1g-dev": ("required", "Zlib"),
    "liblapacke-dev": ("optional", "BSD-3-Clause"),
    "libopenblas-dev": ("optional", "BSD-3-Clause"),
    "openmpi-bin": ("optional", "BSD-3-Clause"),
    "libopenmpi-dev": ("optional", "BSD-3-Clause"),
    "mpich": ("optional", "mpich2"),
    "libmpich-dev": ("optional", "mpich2"),
}
# Python packages of which a part ships: the package imports NumPy, reports hold vl-convert's bundle.
SHIPPED = {"numpy": ("required", "BSD-3-Clause"), "vl-convert-python": ("required", "BSD-3-Clause")}
LOCKED = re.compile(
    r"^(?P<name>[^=#\s]+)==(?P<version>\S+) --hash=sha256:(?P<hash>[0-9a-f]{64})$", re.MULTILINE
)
PACKAGES = re.compile(r"^(?:declare -A )?packages_\w+=\((?P<names>[^)]*)\)", re.MULTILINE)


def debian_packages(text: str) -> list[str]:
    names: set[str] = set()
    for match in PACKAGES.finditer(text):
        names.update(re.findall(r"[a-z][a-z0-9+.-]+", re.sub(r"\[\w+\]=", "", match["names"])))
    return sorted(names)


def component(
    kind: str, name: str, version: str | None, scope: str, licence: str | None
) -> dict[str, object]:
    at = f"@{version}" if version else ""
    made: dict[str, object] = {
        "type": "library",
        "name": name,
        "scope": scope,
        "purl": f"pkg:{kind}/{name}{at}",
    }
    if version:
        made["version"] = version
    if licence:
        # An identifier of SPDX's list, or the name by which Debian calls the licence.
        key = "name" if licence == "mpich2" else "id"
        made["licenses"] = [{"license": {key: licence}}]
    return made


def bill() -> dict[str, object]:
    components = []
    for name in debian_packages((ROOT / "scripts" / "dev" / "common.sh").read_text(encoding="utf-8")):
        scope, licence = LINKED.get(name, ("excluded", None))
        components.append(component("deb/debian", name, None, scope, licence))
    locked: dict[tuple[str, str], str] = {}
    for lock in LOCKS:
        for name, number, digest in LOCKED.findall((ROOT / lock).read_text(encoding="utf-8")):
            locked[name.lower(), number] = digest
    for (name, number), digest in sorted(locked.items()):
        scope, licence = SHIPPED.get(name, ("excluded", None))
        made = component("pypi", name, number, scope, licence)
        made["hashes"] = [{"alg": "SHA-256", "content": digest}]
        components.append(made)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": "otattn",
                "version": version_of(),
                "licenses": [{"license": {"id": "MIT"}}],
            }
        },
        "components": components,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="what otattn is made with, as CycloneDX")
    parser.add_argument("-o", "--out", type=Path)
    words = parser.parse_args()
    text = json.dumps(bill(), indent=1) + "\n"
    if words.out:
        words.out.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
