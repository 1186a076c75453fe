"""Fails when a part of the code, or of what is written about it, grows past what one can hold in mind.

a file over 600 lines; a folder of src/ with more than 27 files
a function of more than 8 parameters, of Python's those that a call may give without their names
a struct of more than 30 members or 4 bools, or with scratch that is told apart by numbers: buffer[0] here,
    buffer[1] there
two files of one name in a library
more than 12 pages for users; 2,000 words, code included, in one of them or in architecture.md; 60 lines of a
    release in CHANGELOG.md
in src/: an #undef; outside src/terms/ and the judge a kind of term named, where its form has to be asked

scripts/sizes_allowed.txt lists what is larger, each with its number and its reason. A line that is no longer
needed, or whose number has fallen, is a defect too, so that the list only shrinks.

check_sizes.py [REPOSITORY]     judges a checkout
check_sizes.py --allow [REPOSITORY]
                                prints the lines that the list would need, without reasons
check_sizes.py --self-test      plants one defect after another in a small tree and expects each found
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from planted import self_test

MOST = {
    "lines": 600,
    "files": 27,
    "parameters": 8,
    "members": 30,
    "bools": 4,
    "numbered": 0,
    "namesakes": 1,
    "undefs": 0,
    "pages": 12,
    "words": 2000,
    "release": 60,
}
WHAT = {
    "lines": "has {} lines, more than {}",
    "files": "holds {} files, more than {}",
    "parameters": "takes {} parameters, more than {}",
    "members": "has {} members, more than {}",
    "bools": "has {} bools, more than {}",
    "numbered": "is told apart by numbers {} times; give each of them a name",
    "undefs": "has {} lines with #undef; pass what differs, or make it a file of its own",
    "namesakes": "has a base name that {} files of its library share",
    "pages": "is one of {} pages, more than {}; let another page say it",
    "words": "has {} words, more than {}; records go to docs/records/",
    "release": "has {} lines, more than the {} of a page",
}
ALLOWED = "scripts/sizes_allowed.txt"
# Where a file may be long: tests tell a story from top to bottom.
SHORT = ("src", "program", "statements", "analysis", "models", "bench")
C_CODE = (*SHORT, "include", "engines", "examples", "fuzz")
PYTHON_CODE = ("python/otattn", "scripts", "tests", "bench", "examples", "fuzz")
ALL = (*C_CODE, "python", "tests", "scripts")
USERS = "docs/users/"
SHORT_PAGES = (USERS, "docs/development/architecture.md")
CHANGES = "CHANGELOG.md"
# Of a page of the changes: its version, and what stands below.
RELEASE = re.compile(r"^## (\S+)[^\n]*\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
# What is linked into one library or program, whose objects and messages are told apart by the names of files.
LIBRARIES = ("src", "program", "statements", "analysis", "models", "python/native")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
PARAMETERS = r"\(([^();]*(?:\([^()]*\)[^();]*)*)\)"
# A definition, a declaration or a pointer to a function: a name, then parameters that begin with a type.
FUNCTION = re.compile(r"(?:\b(\w+)|\(\*(\w+)\))\s*" + PARAMETERS + r"\s*[{;]")
TYPED = re.compile(r"\s*(?:const\s+)?(?:struct\s+)?\w+(?:\s+const)?\s+\**\w")
TERM_KINDS = re.compile(r"\bOTA_TERM_(?:DENSE|ALIBI|RELATIVE|RELATIVE_INSIDE|SOFTCAP|SINK)\b")
STRUCT = re.compile(r"\bstruct\s*(\w*(?:\(\w+\))?)\s*\{")
# A member that is an array of buffers.
NUMBERED = re.compile(
    r"\s*(?:const\s+)?(?:double|float|real|void|unsigned char|int64_t)"
    r"\s*\*\s*(?:.*\*)?(\w+)\s*\[\s*\w+\s*\]\s*",
    re.DOTALL,
)


class Size(NamedTuple):
    rule: str
    place: str
    name: str  # of what lies there; "" for the place itself
    number: int


def split_outside(text: str, separator: str) -> list[str]:
    """The pieces between separators that no bracket encloses."""
    pieces = [""]
    depth = 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == separator and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += letter
    return pieces


def measure_functions(path: str, code: str) -> Iterator[Size]:
    for name, pointer, parameters in FUNCTION.findall(code):
        if TYPED.match(parameters):
            yield Size("parameters", path, name or pointer, len(split_outside(parameters, ",")))


def measure_structs(path: str, code: str) -> Iterator[Size]:
    for match in STRUCT.finditer(code):
        end = match.end()
        depth = 1
        while depth and end < len(code):
            depth += (code[end] == "{") - (code[end] == "}")
            end += 1
        behind = re.match(r"\s*(\w+)", code[end:])
        name = match[1] or (behind[1] if behind else "struct")
        members = bools = 0
        for member in split_outside(code[match.end() : end - 1], ";"):
            count = len(split_outside(member, ",")) if member.strip() else 0
            members += count
            bools += count if re.match(r"\s*bool\b(?!.*\()", member, re.DOTALL) else 0
            array = NUMBERED.fullmatch(member)
            if array:
                # How often a number stands in its brackets is counted over all files.
                yield Size("numbered", path, f"{name}.{array[1]}", 0)
        yield Size("members", path, name, members)
        yield Size("bools", path, name, bools)


def measure_python(path: str, text: str) -> Iterator[Size]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names = [x.arg for x in (*node.args.posonlyargs, *node.args.args)]
            yield Size("parameters", path, node.name, len(names) - (names[:1] in (["self"], ["cls"])))


def measure_document(path: str, text: str) -> Iterator[Size]:
    if path.startswith(SHORT_PAGES):
        yield Size("words", path, "", sum(any(map(str.isalnum, word)) for word in text.split()))
    if path == CHANGES:
        for version, page in RELEASE.findall(text):
            yield Size("release", path, version, len(page.strip().splitlines()))


def measure(path: str, text: str) -> Iterator[Size]:
    if path.endswith(".md"):
        yield from measure_document(path, text)
        return
    if path.startswith(tuple(f"{folder}/" for folder in SHORT)):
        yield Size("lines", path, "", text.count("\n"))
    if path.endswith(".py"):
        if path.startswith(tuple(f"{folder}/" for folder in PYTHON_CODE)):
            yield from measure_python(path, text)
        return
    code = COMMENT.sub("", text).replace("\\\n", "\n")
    if path.startswith("src/"):
        yield Size("undefs", path, "", len(re.findall(r"^\s*#\s*undef\b", code, re.MULTILINE)))
    yield from measure_functions(path, code)
    yield from measure_structs(path, code)


def judge_words(path: str, text: str) -> Iterator[str]:
    if not path.startswith("src/") or path.endswith(".py"):
        return
    code = COMMENT.sub("", text)
    if not path.startswith(("src/terms/", "src/judge/")) and TERM_KINDS.search(code):
        yield f"{path}: names a kind of term; ask ota_term_form_of"


def read(root: Path) -> dict[str, str]:
    found = {}
    for folder in ALL:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in {".c", ".h", ".py"} and path.is_file():
                found[path.relative_to(root).as_posix()] = path.read_text(encoding="utf-8")
    for path in [root / CHANGES, *sorted((root / "docs").rglob("*.md"))]:
        if path.is_file():
            found[path.relative_to(root).as_posix()] = path.read_text(encoding="utf-8")
    return found


def measure_all(files: dict[str, str]) -> Iterator[Size]:
    numbered = []
    for path, text in files.items():
        for size in measure(path, text):
            if size.rule == "numbered":
                numbered.append(size)
            else:
                yield size
    code = "\n".join(COMMENT.sub("", text) for path, text in files.items() if path.endswith((".c", ".h")))
    for size in numbered:
        member = size.name.rpartition(".")[2]
        yield size._replace(number=len(re.findall(rf"(?:->|\.){member}\s*\[\s*\d+\s*\]", code)))
    pages = sorted(path for path in files if path.startswith(USERS))
    yield from (Size("pages", path, "", len(pages)) for path in pages[-1:])
    folders = Counter(path.rpartition("/")[0] for path in files if path.startswith("src/"))
    yield from (Size("files", f"{folder}/", "", count) for folder, count in folders.items())
    for library in LIBRARIES:
        places: dict[str, list[str]] = {}
        for path in files:
            if path.startswith(f"{library}/"):
                places.setdefault(path.rpartition("/")[2], []).append(path)
        yield from (Size("namesakes", paths[-1], "", len(paths)) for name, paths in places.items())


def read_allowed(root: Path) -> dict[tuple[str, str, str], tuple[int, str]]:
    """RULE PLACE [NAME] NUMBER: reason."""
    found = {}
    path = root / ALLOWED
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        if line.strip() and not line.startswith("#"):
            head, _, reason = line.partition(":")
            words = head.split()
            found[words[0], words[1], words[2] if len(words) > 3 else ""] = int(words[-1]), reason.strip()
    return found


def excesses(files: dict[str, str]) -> dict[tuple[str, str, str], int]:
    found: dict[tuple[str, str, str], int] = {}
    for size in measure_all(files):
        if size.number > MOST[size.rule]:
            key = size.rule, size.place, size.name
            found[key] = max(size.number, found.get(key, 0))
    return found


def check(root: Path) -> list[str]:
    files = read(root)
    allowed = read_allowed(root)
    found = excesses(files)
    defects = [defect for path, text in files.items() for defect in judge_words(path, text)]
    for key, number in found.items():
        limit, reason = allowed.get(key, (MOST[key[0]], "none"))
        what = " ".join(key[1:]).rstrip()
        if number > limit:
            defects.append(f"{what}: {WHAT[key[0]].format(number, limit)}")
        elif number < limit:
            defects.append(f"{ALLOWED}: {key[0]} {what} is {number} now; lower the number there")
        elif not reason:
            defects.append(f"{ALLOWED}: {key[0]} {what} lacks its reason")
    for key in allowed.keys() - found.keys():
        defects.append(f"{ALLOWED}: {' '.join(key).rstrip()} is no longer needed; take it out")
    return defects


NINE = "int a, const int *b, int c, int d, int e, int f, int (*g)(int, int), int h, int i"
MEMBERS = " ".join(f"int a{k}, *b{k};" for k in range(15))
PLANTS = [
    ("src/base/long.c", "\n" * 601, "601 lines"),
    ("program/long.c", "\n" * 601, "601 lines"),
    ("src/base/nine.c", f"void nine({NINE}) {{}}\n", "nine: takes 9"),
    ("src/base/nine.h", f"void (*nine)({NINE});\n", "nine: takes 9"),
    ("tests/nine.c", f"void nine({NINE}) {{}}\n", "nine: takes 9"),
    ("include/nine.h", f"void nine({NINE});\n", "nine: takes 9"),
    ("scripts/nine.py", "def nine(a, b, c, d, e, f, g, h, i): ...\n", "nine: takes 9"),
    ("src/base/undef.h", "#  undef X\n", "#undef"),
    ("src/operator/kind.c", "int kind = OTA_TERM_ALIBI;\n", "names a kind"),
    ("src/base/wide.h", f"struct wide {{ {MEMBERS} int last; }};\n", "wide: has 31 members"),
    ("program/wide.c", f"typedef struct {{ {MEMBERS} int last; }} wide;\n", "wide: has 31 members"),
    ("src/base/typed.h", f"struct OF_TYPE(wide) {{ {MEMBERS} int last; }};\n", "has 31 members"),
    ("src/base/flags.h", "struct flags { bool a, b; bool c; bool d, e; };\n", "flags: has 5 bools"),
    ("src/base/scratch.h", "struct s { double *parts[3]; }; x = s->parts[0] + s.parts[ 1 ];\n", "2 times"),
    ("src/operator/eight.c", "\n", "base name that 2 files"),
    ("src/base/large.c", "\n", "602 lines, more than 601"),
    ("docs/users/twelve.md", "# One more\n", "one of 13 pages"),
    ("docs/users/page0.md", "word " * 1999 + "| - |\n\n(2001)", "2001 words"),
    ("docs/development/architecture.md", "word " * 2001, "2001 words"),
    (CHANGES, "* line\n" * 60, "0.1.0: has 61 lines"),
    (ALLOWED, "lines src/base/eight.c 601: tables\n", "eight.c is no longer needed"),
    (ALLOWED, "lines src/base/large.c 602: tables\n", "is 601 now"),
    (ALLOWED, "lines src/base/large.c 601:\n", "lacks its reason"),
]
SOUND = {
    "src/base/eight.c": f"void eight({NINE.rpartition(',')[0]}) {{}}\n",
    "src/base/call.c": "int x(void) { return call(1, 2, 3, 4, 5, 6, 7, 8, 9); }\n",
    "src/base/words.c": "/* #undef OTA_TERM_ALIBI */\n",
    "src/base/narrow.h": f"struct narrow {{ {MEMBERS} }}; // bool a, b, c, d, e;\n",
    "src/base/flags.c": "struct four { bool a, b, c, d; bool (*e)(bool f); };\n",
    "src/base/parts.h": "struct parts { double *part[3]; }; x = s->part[i];\n",
    "program/eight.c": "\n",
    "scripts/keywords.py": "def eight(self, a, b, c, d, e, f, g, h, *, i): ...\n",
    "src/base/large.c": "\n" * 601,
    ALLOWED: "# What is larger.\nlines src/base/large.c 601: tables\n",
    **{f"docs/users/page{k}.md": "# Page | - |\n" for k in range(12)},
    "docs/research/long.md": "word " * 2001,
    CHANGES: "## 0.2.0 (soon)\n\n" + "* line\n" * 60 + "\n## 0.1.0 (2026-01-01)\n\n* line\n",
    "src/terms/alibi.c": "int kind = OTA_TERM_ALIBI;\n",
}


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        return self_test("sizes", check, SOUND, PLANTS)
    root = Path(sys.argv[-1] if len(sys.argv) > 1 and not sys.argv[-1].startswith("-") else ".").resolve()
    if "--allow" in sys.argv:
        for (rule, place, name), number in sorted(excesses(read(root)).items()):
            print(f"{rule} {place} {name} {number}:".replace("  ", " "))
        return 0
    defects = check(root)
    print(
        "\n".join(defects)
        if defects
        else "sizes: files, folders, structs, functions and pages are within the plan"
    )
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
