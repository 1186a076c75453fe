"""Fails when a public call has no man page, no words of its own, or a page that mandoc finds fault with.

The calls are those that headers declare (OTA_API) and those that cmake/otattn.map exports. A call's words are
the comment right above it or above the item on the line before. Without mandoc pages are made, not read.

check_manual.py [REPOSITORY]           judges a checkout
check_manual.py --installed FOLDER     expects a page of every call and type of the headers in its include/
check_manual.py --self-test            plants one defect after another and expects each found
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from check_abi import FUNCTION
from make_manual import PAGED, pages
from planted import self_test
from public_headers import headers

# Pages are of a release, not of a day.
NO_DATE = "missing date"


def lint(texts: dict[str, str]) -> list[str]:
    """What mandoc says about the pages."""
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, text in texts.items():
            files.append(Path(folder) / f"{name}.3")
            files[-1].write_text(text, encoding="utf-8")
        command = ["mandoc", "-T", "lint", "-W", "warning", *map(str, files)]
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return [
        re.sub(r"^mandoc: .*/(.*?)\.3:\S* ", r"\1: its page: ", line)
        for line in said.splitlines()
        if NO_DATE not in line
    ]


def check(root: Path) -> list[str]:
    read = headers(root / "include")
    texts = pages(read)
    described = {item.name for header in read for item in header.items if item.described}
    declared = {}
    for path in sorted((root / "include").glob("*.h")):
        declared.update(
            dict.fromkeys(FUNCTION.findall(path.read_text(encoding="utf-8")), f"include/{path.name}")
        )
    exported = re.findall(r"\b(ota_\w+);", (root / "cmake/otattn.map").read_text(encoding="utf-8"))
    places = {**dict.fromkeys(exported, "cmake/otattn.map"), **declared}
    defects = [f"{place}: {name} has no page" for name, place in places.items() if name not in texts]
    defects += [
        f"{place}: {name} has no comment above it"
        for name, place in declared.items()
        if name in texts and name not in described
    ]
    return defects + (lint(texts) if shutil.which("mandoc") else [])


def missing_pages(folder: Path) -> list[str]:
    names = [
        item.name for header in headers(folder / "include") for item in header.items if item.kind in PAGED
    ]
    found = {path.name.split(".3")[0] for path in folder.rglob("man3/*.3*")}
    return [f"{folder}: {name} has no page" for name in names if name not in found]


SOUND = {
    "include/otattn.h": """/* otattn.h: calls.
 *
 *     a formula
 */
#include <stddef.h>

/* ---- plans ------- */

/* A plan. */
typedef struct ota_plan ota_plan;
/* Makes one. */
OTA_API ota_plan *ota_create(size_t bytes);
OTA_API void ota_free(ota_plan *plan);
""",
    "cmake/otattn.map": "OTATTN_0.1 { global: ota_create; ota_free; };\n",
}
PLANTS = [
    ("include/otattn.h", "\nOTA_API int ota_bare(void);\n", "ota_bare has no comment above it"),
    ("cmake/otattn.map", "OTATTN_0.2 { global: ota_gone; };\n", "ota_gone has no page"),
]


def main() -> int:
    words = sys.argv[1:]
    if words == ["--self-test"]:
        return self_test("manual", check, SOUND, PLANTS)
    if words[:1] == ["--installed"]:
        defects = missing_pages(Path(words[1]))
    else:
        defects = check(Path(words[0] if words else ".").resolve())
    read = "" if shutil.which("mandoc") else ", which nothing has read: there is no mandoc"
    print("\n".join(defects) if defects else f"manual: every call has its page{read}")
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
