"""Fails when a function of the library calls upward, or is declared in another folder than it is defined in.

Includes cannot show either: a header may declare what a folder above defines. So symbols are read, from
the objects of a build: whoever needs a symbol may include the folder that defines it (check_layers.py), and
a header of src/ declares what its own folder defines. Pointers in tables are symbols, too.
scripts/calls_allowed.txt lists the symbols that a folder knows though they are defined higher up, each with
its reason; a line that is no longer needed is a defect.

check_calls.py BUILD [REPOSITORY]   judges the objects of a build of a checkout
check_calls.py --self-test          plants a call upward and a declaration elsewhere, and expects each found
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import check_layers

ALLOWED = "scripts/calls_allowed.txt"
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
DECLARED = re.compile(r"\b(ota_\w+)\s*\(")
SYMBOL = re.compile(r"^(.*):\s*(?:[0-9a-f]+)?\s+([A-Za-z])\s+(\S+)$")


def read_objects(build: Path, root: Path) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Which sources define each symbol, and which need it."""
    defined: dict[str, set[str]] = defaultdict(set)
    needed: dict[str, set[str]] = defaultdict(set)
    sources = {}
    for path in build.glob("CMakeFiles/*.dir/src/**/*.o"):
        source = "src/" + path.as_posix().split(".dir/src/", 1)[1].removesuffix(".o")
        # Objects of files that are gone lie on in an old build.
        if (root / source).is_file():
            sources[path.as_posix()] = source
    if not sources:
        sys.exit(f"{build}: no objects of src/; build first")
    found = subprocess.run(["nm", "-A", "-g", *sources], capture_output=True, text=True, check=True)
    for line in found.stdout.splitlines():
        match = SYMBOL.match(line)
        if match:
            side = needed if match[2] == "U" else defined
            side[match[3]].add(sources[match[1]])
    return defined, needed


def judge_calls(defined: dict[str, set[str]], needed: dict[str, set[str]]) -> list[tuple[str, str]]:
    defects = []
    for symbol, users in needed.items():
        for place in sorted(defined.get(symbol, ())):
            for user in sorted(users):
                reason = check_layers.judge_source(user, place)
                if reason is not None:
                    defects.append((symbol, f"{user}: calls {symbol} of {place}, which {reason}"))
    return defects


def judge_headers(root: Path, defined: dict[str, set[str]]) -> list[tuple[str, str]]:
    defects = []
    for path in sorted((root / "src").rglob("*.h")):
        name = path.relative_to(root).as_posix()
        if name.endswith(".inc.h"):
            continue
        code = COMMENT.sub("", path.read_text(encoding="utf-8"))
        # Only what stands outside of every body.
        while re.search(r"\{[^{}]*\}", code):
            code = re.sub(r"\{[^{}]*\}", ";", code)
        for symbol in dict.fromkeys(DECLARED.findall(code)):
            places = defined.get(symbol, set()) or defined.get(f"{symbol}_f32", set())
            folders = {place.rpartition("/")[0] for place in places}
            if folders and name.rpartition("/")[0] not in folders:
                where = " and ".join(sorted(places))
                defects.append(
                    (symbol, f"{name}: declares {symbol}, which {where} defines; declare it there")
                )
    return defects


def read_allowed(root: Path) -> dict[str, str]:
    path = root / ALLOWED
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return {
        line.partition(":")[0].strip(): line.partition(":")[2].strip()
        for line in lines
        if line.strip() and not line.startswith("#")
    }


def check(build: Path, root: Path) -> list[str]:
    defined, needed = read_objects(build, root)
    allowed = read_allowed(root)
    found = judge_calls(defined, needed) + judge_headers(root, defined)
    defects = [defect for symbol, defect in found if not allowed.get(symbol)]
    unused = allowed.keys() - {symbol for symbol, _ in found}
    return defects + [f"{ALLOWED}: {symbol} is no longer needed; take it out" for symbol in sorted(unused)]


SOUND = {
    "src/base/base.h": "int ota_low(void);\n",
    "src/base/base.c": "int ota_low(void) { return 1; }\n",
    "src/operator/plan.h": "int ota_high(void); static inline int ota_in(void) { return ota_high(); }\n",
    "src/operator/plan.c": "int ota_low(void);\nint ota_high(void) { return ota_low(); }\n",
    "src/operator/table.c": "const int ota_table[] = {1};\n",
    "src/base/known.c": "extern const int ota_table[];\nint ota_known(void) { return ota_table[0]; }\n",
    ALLOWED: "# Tables.\nota_table: the first row\n",
}
PLANTS = [
    ("", "", ""),
    ("src/base/up.c", "int ota_high(void);\nint ota_up(void) { return ota_high(); }\n", "calls ota_high"),
    ("src/problem/lost.h", "int ota_low(void);\n", "declares ota_low"),
    (ALLOWED, "# Tables.\nota_table: the first row\nota_low: why\n", "ota_low is no longer needed"),
    (ALLOWED, "# Tables.\nota_table:\n", "calls ota_table"),
]


def self_test() -> int:
    compiler = shutil.which("cc") or shutil.which("gcc") or "clang"
    wrong = 0
    for name, text, words in PLANTS:
        with tempfile.TemporaryDirectory() as folder:
            root, build = Path(folder), Path(folder) / "build"
            for path, content in {**SOUND, **({name: text} if name else {})}.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(content, encoding="utf-8")
            for source in root.glob("src/**/*.c"):
                made = build / "CMakeFiles/x.dir" / f"{source.relative_to(root).as_posix()}.o"
                made.parent.mkdir(parents=True, exist_ok=True)
                subprocess.run([compiler, "-c", source, "-o", made], check=True)
            defects = check(build, root)
        if len(defects) != bool(name) or not all(words in defect for defect in defects):
            wrong += 1
            print(f"planted {name or 'nothing'}: expected {words!r}, got {defects}")
    print(f"calls self-test: {len(PLANTS) - wrong} of {len(PLANTS)} as expected")
    return 1 if wrong else 0


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) < 2:
        sys.exit(str(__doc__))
    defects = check(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else ".").resolve())
    print(
        "\n".join(defects) if defects else "calls: every call points down, every function is declared at home"
    )
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
