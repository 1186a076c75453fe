"""Fails when a source grows past what the house plan allows.

a file of src/, program/, statements/, analysis/, models/ or bench/ over 600 lines
a folder of src/ with more than 27 files
in src/: a function of more than 8 parameters; an #undef
in src/ outside src/terms/ and the judge: a kind of term named, where its form has to be asked

check_sizes.py [REPOSITORY]     judges a checkout
check_sizes.py --self-test      plants one defect after another in a small tree and expects each found
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

from planted import self_test

MOST_LINES, MOST_FILES, MOST_PARAMETERS = 600, 27, 8
FOLDERS = ("src", "program", "statements", "analysis", "models", "bench")
SUFFIXES = {".c", ".h", ".py"}
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
PARAMETERS = r"\(([^();]*(?:\([^()]*\)[^();]*)*)\)"
# A definition, a declaration or a pointer to a function: a name, then parameters that begin with a type.
FUNCTION = re.compile(r"(?:\b(\w+)|\(\*(\w+)\))\s*" + PARAMETERS + r"\s*[{;]")
TYPED = re.compile(r"\s*(?:const\s+)?(?:struct\s+)?\w+(?:\s+const)?\s+\**\w")
TERM_KINDS = re.compile(r"\bOTA_TERM_(?:DENSE|ALIBI|RELATIVE|RELATIVE_INSIDE|SOFTCAP|SINK)\b")


def count_parameters(text: str) -> int:
    depth = commas = 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        commas += letter == "," and depth == 0
    return commas + 1


def check_text(path: str, text: str) -> list[str]:
    defects = []
    lines = text.count("\n")
    if lines > MOST_LINES:
        defects.append(f"{path}: {lines} lines, more than {MOST_LINES}")
    if not path.startswith("src/") or path.endswith(".py"):
        return defects
    code = COMMENT.sub("", text).replace("\\\n", "\n")
    if re.search(r"^\s*#\s*undef\b", code, re.MULTILINE):
        defects.append(f"{path}: an #undef; pass what differs, or make it a file of its own")
    for name, pointer, parameters in FUNCTION.findall(code):
        count = count_parameters(parameters)
        if count > MOST_PARAMETERS and TYPED.match(parameters):
            defects.append(f"{path}: {name or pointer} takes {count} parameters, more than {MOST_PARAMETERS}")
    if not path.startswith(("src/terms/", "src/judge/")) and TERM_KINDS.search(code):
        defects.append(f"{path}: names a kind of term; ask ota_term_form_of")
    return defects


def check(root: Path) -> list[str]:
    defects = []
    count: Counter[str] = Counter()
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES or not path.is_file():
                continue
            name = path.relative_to(root).as_posix()
            defects += check_text(name, path.read_text(encoding="utf-8"))
            count[name.rpartition("/")[0]] += folder == "src"
    defects += [
        f"{name}/: {many} files, more than {MOST_FILES}" for name, many in count.items() if many > MOST_FILES
    ]
    return defects


NINE = "int a, const int *b, int c, int d, int e, int f, int (*g)(int, int), int h, int i"
PLANTS = [
    ("src/base/long.c", "\n" * 601, "601 lines"),
    ("program/long.c", "\n" * 601, "601 lines"),
    ("src/base/nine.c", f"void nine({NINE}) {{}}\n", "nine takes 9"),
    ("src/base/nine.h", f"void (*nine)({NINE});\n", "nine takes 9"),
    ("src/base/undef.h", "#  undef X\n", "#undef"),
    ("src/operator/kind.c", "int kind = OTA_TERM_ALIBI;\n", "names a kind"),
]
SOUND = {
    "src/base/eight.c": f"void eight({NINE.rpartition(',')[0]}) {{}}\n",
    "src/base/call.c": "int x(void) { return call(1, 2, 3, 4, 5, 6, 7, 8, 9); }\n",
    "src/base/words.c": "/* #undef OTA_TERM_ALIBI */\n",
    "src/terms/alibi.c": "int kind = OTA_TERM_ALIBI;\n",
}


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        return self_test("sizes", check, SOUND, PLANTS)
    defects = check(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve())
    print("\n".join(defects) if defects else "sizes: every file, folder and function is within the plan")
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
