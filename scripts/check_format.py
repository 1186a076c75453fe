"""Fails when a formatter may touch Markdown, or Markdown lies where formatters go.

clang-format takes a Markdown file for C and joins its lines; nobody sees it. So no command line that formats
names *.md, and folders of C code hold none: what a README would say is the first comment of a folder's main
header.

check_format.py [REPOSITORY]     judges a checkout
check_format.py --self-test      plants one defect after another in a small tree and expects each found
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from planted import self_test

CODE = ("src", "program", "statements", "analysis", "models", "engines")
COMMANDS = ("dev", ".ci/run", ".pre-commit-config.yaml")
FORMATTER = re.compile(r"clang-format|ruff format")


def check(root: Path) -> list[str]:
    defects = []
    for folder in CODE:
        for path in sorted((root / folder).rglob("*.md")):
            name = path.relative_to(root).as_posix()
            defects.append(f"{name}: Markdown among code; let the folder's main header say it")
    commands = [root / name for name in COMMANDS] + sorted((root / "scripts").glob("*.sh"))
    for path in commands:
        for number, line in enumerate(
            path.read_text(encoding="utf-8").splitlines() if path.is_file() else (), 1
        ):
            if FORMATTER.search(line) and re.search(r"\bmd\b|markdown", line):
                name = path.relative_to(root).as_posix()
                defects.append(f"{name}:{number}: a formatter that is given Markdown")
    return defects


SOUND = {
    "README.md": "# A\n",
    "docs/guide.md": "# B\n",
    "dev": "files c h | xargs clang-format -i\nfiles md | wc\n",
    ".pre-commit-config.yaml": "- id: clang-format\n  types_or: [c]\n",
}
PLANTS = [
    ("src/base/README.md", "# C\n", "Markdown among code"),
    ("dev", "files c h md | xargs clang-format -i\n", "given Markdown"),
    (".ci/run", "clang-format -i *.md\n", "given Markdown"),
    ("scripts/tidy.sh", "ruff format . --preview --extension md:python\n", "given Markdown"),
]


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        return self_test("format", check, SOUND, PLANTS)
    defects = check(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve())
    print("\n".join(defects) if defects else "format: no formatter sees Markdown")
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
