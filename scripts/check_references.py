"""Fails when a document or a comment names a file, flag, function or anchor that does not exist.

documents (*.md)    relative links and their #anchors; files, flags and names_of_code in code spans, flags and
                    ota_ names in blocks
comments            of *.c *.h *.py *.sh, CMake files and ./dev: files and ota_ names
[key]               of a name and a year, in either: an entry of docs/bibliography.md, where each is cited
                    elsewhere, and the first part of each requirement id, but DER, has one; no other page
                    has entries, and no text a name and a year without brackets

A file is named by its path, the end of its path, or its bare name, where that is one file alone, of the
repository or of the library at hand, or lies beside the file that names it; `*` and words in capitals
(NAME.c) stand for anything. Folders are found by looking, so the check survives a move.

check_references.py [REPOSITORY]     judges a checkout
check_references.py --self-test      plants one defect after another in a small tree and expects each found
"""

from __future__ import annotations

import fnmatch
import io
import os
import re
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from planted import self_test

# Documents that tell what was: the names in them may be gone. Their links are checked.
HISTORY = ("CHANGELOG.md", "docs/records/")
# What a run writes, and names of TransformerLens that documents say are missing.
OTHERS = {"windows/", "hook_attn_scores", "hook_scale"}
# Flags of other programs that a document quotes beside ours.
OTHER_FLAGS = {"--help"}
# What every folder may have.
EVERYWHERE = {"README.md", "CMakeLists.txt", "__init__.py"}
WORD = r"(?:[\w*]|\{[\w,]*\})(?:[\w.*-]|\{[\w,]*\})*"
PATH = re.compile(rf"(?<![\w./*}}])((?:\.\.?/)*(?:{WORD}/)*(?:{WORD})?)(?![\w(])")
CODE_FILE = re.compile(r"\w.*\.(?:c|h|cu|py|sh|md|cmake)$")
OTA_NAME = re.compile(r"(?<![\w/-])(ota_[a-z0-9_]+|OTA_[A-Z0-9_]+)(\*?)")
WITH_UNDERSCORE = re.compile(r"[A-Za-z][A-Za-z0-9]*_\w*")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
PLACEHOLDER = re.compile(r"(?<![a-zA-Z])[A-Z][A-Z]+(?![a-zA-Z])")
FENCE = re.compile(r"^(```+)([^\n]*)\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(`+)(.+?)\1", re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6}[ \t]+(.*?)[ \t]*#*$", re.MULTILINE)
OURS = re.compile(r"(?:(?:^|[\s(/])otattn|\./dev|\.py)(?=\s)([^|;&\n]*)")
C_TOKEN = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
SHELL_COMMENT = re.compile(r"(?:^|(?<=\s))#(?!!)[^\n]*", re.MULTILINE)
BIBLIOGRAPHY = "docs/bibliography.md"
CITED = re.compile(r"\[([a-z]+(?:19|20)\d\d[a-z]?)\](?!\()")
ENTRY = re.compile(r"^\* \[([a-z]+(?:19|20)\d\d[a-z]?|[A-Z]+)\]: \S", re.MULTILINE)
# A key without its brackets, or a source in words, which nobody could look up.
UNCITED = re.compile(
    r"\(([a-z]+(?:19|20)\d\d[a-z]?)[,;:)]|\b([A-Z][a-z]+(?: et al\.| and [A-Z][a-z]+),? (?:19|20)\d\d)\b"
)
REQUIREMENT = re.compile(r"^([A-Z]+)-\d+", re.MULTILINE)
SKIPPED = re.compile(r"^(\.git|\.\w*cache|build.*|__pycache__|\.venv)$")


def find_files(root: Path) -> list[str]:
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not SKIPPED.match(name)]
        found += [Path(folder, name).relative_to(root).as_posix() for name in names]
    return sorted(found)


def split_c(text: str) -> tuple[str, list[tuple[int, str]]]:
    """The code without comments, and (line, text) of each comment."""
    code = C_TOKEN.sub(lambda match: " " if match[0][0] == "/" else match[0], text)
    found = [match for match in C_TOKEN.finditer(text) if match[0][0] == "/"]
    return code, [(text.count("\n", 0, match.start()) + 1, match[0]) for match in found]


def split_shell(text: str) -> tuple[str, list[tuple[int, str]]]:
    found = SHELL_COMMENT.finditer(text)
    comments = [(text.count("\n", 0, match.start()) + 1, match[0]) for match in found]
    return SHELL_COMMENT.sub("", text), comments


def split_python(text: str) -> tuple[str, list[tuple[int, str]]]:
    """As split_c; docstrings are comments."""
    starts_statement = True
    code, comments = [], []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and starts_statement):
            comments.append((token.start[0], token.string))
        elif token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            starts_statement = True
        elif token.type != tokenize.NL:
            starts_statement = False
            code.append(token.string)
    return " ".join(code), comments


class Repository:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = find_files(root)
        self.folders = {parent.as_posix() for path in self.files for parent in Path(path).parents} - {"."}
        self.top = {folder for folder in self.folders if "/" not in folder}
        self.paths = set(self.files) | self.folders
        self.by_name: dict[str, list[str]] = {}
        for path in sorted(self.paths):
            self.by_name.setdefault(path.rpartition("/")[2], []).append(path)
        self.names = {name for name in OTHERS if WITH_UNDERSCORE.fullmatch(name)}
        self.flags = set(OTHER_FLAGS)
        self.comments: list[tuple[str, int, str]] = []
        for path in self.files:
            self.read_code(path)
        self.exists = cache(self.exists_uncached)

    def text(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8", errors="replace")

    def read_code(self, path: str) -> None:
        """Collects the names and flags that a file of code defines, and its comments."""
        if path.endswith((".c", ".h", ".cu")):
            code, comments = split_c(self.text(path))
            # A row of a table of flags: how it is parsed, then its name.
            rows = re.findall(r'\bFLAG\(\w+,\s*"([a-z][a-z0-9-]*)",', code)
            self.flags.update("--" + word for word in rows)
        elif path.endswith(".py"):
            code, comments = split_python(self.text(path))
            self.flags.update(re.findall(r'"(--[a-z][a-z0-9-]*)"', code))
        elif path in ("dev", ".ci/run") or path.endswith((".sh", ".cmake", "CMakeLists.txt")):
            code, comments = split_shell(self.text(path))
            self.flags.update(FLAG.findall(code))
        else:
            return
        self.names.update(WITH_UNDERSCORE.findall(code))
        self.comments += [(path, line, comment) for line, comment in comments]

    def meant(self, name: str, home: str) -> list[str]:
        """The files that a path, its end, or a file name may mean, those of one's own library first."""
        last = name.rpartition("/")[2]
        found = [path for path in self.by_name.get(last, ()) if path == name or path.endswith("/" + name)]
        near = [path for path in found if path.startswith(home.partition("/")[0] + "/")]
        return [] if last in EVERYWHERE else near or found

    def exists_uncached(self, name: str) -> bool:
        """Whether a path, the end of a path, or a file name is one of the repository's; wildcards allowed."""
        if choice := re.search(r"\{([^{}]*)\}", name):
            return all(
                self.exists(name[: choice.start()] + word + name[choice.end() :])
                for word in choice[1].split(",")
            )
        name = name.rstrip("/")
        last = name.rpartition("/")[2]
        if any(path == name or path.endswith("/" + name) for path in self.by_name.get(last, ())):
            return True
        pattern = PLACEHOLDER.sub("*", name)
        if "*" not in pattern:
            return False
        return any(fnmatch.fnmatchcase(path, p) for path in self.paths for p in (pattern, "*/" + pattern))

    def judge_files(self, text: str, home: str) -> Iterator[str]:
        """What is said in `text` of files and folders that are not there."""
        for match in PATH.finditer(text):
            name = match[1].rstrip(".").removeprefix("./")
            is_file = CODE_FILE.search(name) and not name.startswith("build/")
            is_folder = name in (text, f"./{text}") and name.endswith("/") and not name.startswith("build/")
            if not (is_file or is_folder or ("/" in name and name.partition("/")[0] in self.top)):
                continue
            beside = os.path.normpath(f"{home}/{name}") in self.paths
            if name in OTHERS or beside:
                continue
            if not self.exists(name):
                yield f"{name} is no file or folder of the repository"
            elif is_file and len(self.meant(name, home)) > 1:
                yield f"{name} may be {' or '.join(self.meant(name, home))}; name its folder, too"

    def judge_names(self, text: str) -> Iterator[str]:
        for match in OTA_NAME.finditer(text):
            name, capitals, _ = match[1].partition("NAME")
            star = match[2] or (capitals and "*")
            open_ended = star or name.endswith("_")
            if not (any(n.startswith(name) for n in self.names) if open_ended else name in self.names):
                yield f"{name}{star} is no name of the code"

    def judge_flags(self, text: str) -> Iterator[str]:
        for flag in FLAG.findall(text):
            if flag not in self.flags:
                yield f"{flag} is no flag"


def slugs(text: str) -> set[str]:
    """The anchors that GitHub gives the headings of a document."""
    found: dict[str, int] = {}
    for match in HEADING.finditer(FENCE.sub("", text)):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1])
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        count = found[slug] = found.get(slug, -1) + 1
        found[f"{slug}-{count}" if count else slug] = 0
    return set(found)


def judge_links(repository: Repository, path: str, prose: str) -> Iterator[str]:
    for match in LINK.finditer(prose):
        target, _, anchor = match[1].partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        other = os.path.normpath(f"{Path(path).parent.as_posix()}/{target}") if target else path
        if other not in repository.paths:
            yield f"link to {target}, which does not exist"
        elif anchor and anchor not in slugs(repository.text(other)):
            yield f"link to {other}#{anchor}, which has no such heading"


def check_document(repository: Repository, path: str) -> list[str]:
    text = repository.text(path)
    home = Path(path).parent.as_posix()
    pieces = [(match.start(3), match[3], True) for match in FENCE.finditer(text)]
    # Blanks keep every offset, so that lines can be counted.
    without = FENCE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    pieces += [(match.start(2), match[2], False) for match in SPAN.finditer(without)]
    prose = SPAN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), without)
    found = [(0, defect) for defect in judge_links(repository, path, prose)]
    for offset, piece, is_block in () if path.startswith(HISTORY) else pieces:
        line = text.count("\n", 0, offset) + 1
        defects = list(repository.judge_names(piece))
        word = piece.partition("(")[0].removeprefix("lib")
        if not is_block:
            defects += repository.judge_files(piece, home)
            if not defects and WITH_UNDERSCORE.fullmatch(word) and word not in repository.names:
                defects.append(f"{word} is no name of the code")
        joined = piece.replace("\\\n", " ")
        whole = not is_block and piece.startswith("--")
        for words in [joined] if whole else OURS.findall(joined):
            defects += repository.judge_flags(words)
        found += [(line, defect) for defect in defects]
    return [f"{path}:{line}: {defect}" if line else f"{path}: {defect}" for line, defect in sorted(found)]


def judge_citations(repository: Repository) -> Iterator[str]:
    """What is cited, against the entries of the bibliography."""
    if BIBLIOGRAPHY not in repository.files:
        return
    entries = set(ENTRY.findall(repository.text(BIBLIOGRAPHY)))
    places = [(path, repository.text(path)) for path in repository.files if path.endswith(".md")]
    places += [(f"{path}:{line}", comment) for path, line, comment in repository.comments]
    cited = set()
    for place, text in places:
        words = SPAN.sub(" ", text)
        for key in CITED.findall(ENTRY.sub("", words)):
            cited.add(key) if place != BIBLIOGRAPHY else None
            if key not in entries:
                yield f"{place}: [{key}] has no entry in {BIBLIOGRAPHY}"
        if place == BIBLIOGRAPHY:
            continue
        yield from (f"{place}: the entry [{key}] belongs into {BIBLIOGRAPHY}" for key in ENTRY.findall(words))
        yield from (f"{place}: {a or b} is no [key] of {BIBLIOGRAPHY}" for a, b in UNCITED.findall(words))
    yield from (f"{BIBLIOGRAPHY}: [{k}] is cited nowhere" for k in sorted(entries - cited) if k[0].islower())
    if "tests/requirement_ids.txt" in repository.files:
        groups = set(REQUIREMENT.findall(repository.text("tests/requirement_ids.txt"))) - {"DER"}
        words = f"has no entry in {BIBLIOGRAPHY}, and ids stand for it"
        yield from (f"tests/requirement_ids.txt: [{k}] {words}" for k in sorted(groups - entries))


def check(root: Path) -> list[str]:
    repository = Repository(root)
    defects = list(judge_citations(repository))
    for path in repository.files:
        if path.endswith(".md"):
            defects += check_document(repository, path)
    for path, line, comment in repository.comments:
        found = [
            *repository.judge_files(comment, Path(path).parent.as_posix()),
            *repository.judge_names(comment),
        ]
        defects += [f"{path}:{line}: {defect}" for defect in found]
    return defects


SOUND = {
    "docs/bibliography.md": "* [doe2001]: Doe, *On rows*, 2001.\n* [ABC]: *A source*.\n",
    "tests/requirement_ids.txt": "ABC-01\tA\nDER-01\tA\n",
    "engine/cited.c": "/* Rows as in [doe2001], statement [ABC-01]. */\n",
    "include/otattn.h": "/* See engine/rows.c and docs/guide.md */ int ota_solve(void); enum { OTA_OK };\n",
    "engine/rows.c": '/* Rows, as ota_solve wants them (rows.h); ota_so* */ FLAG(text, "causal", x);\n',
    "engine/cpu/rows.c": "/* rows.c */\n",
    "engine/rows.h": "// S/tau and forward/backward are no paths\n",
    "dev": "#!/bin/sh\n# engine/rows.c\nexec --seconds\n",
    "tool.py": '"""Reads engine/rows.h."""\nx = add("--only")  # rows.h\n',
    "CHANGELOG.md": "`gone.c` went, with `ota_gone` and `--gone`\n",
    "docs/guide.md": "# A *first* look: 1, 2\n\n[here](#a-first-look-1-2), [there](../README.md)\n",
    "README.md": "[guide](docs/guide.md#a-first-look-1-2) `engine/` `NAME.c` `engine/*.h` `ota_solve`\n"
    "`OTA_*` `--causal` `{rows,NAME}.c` `run/x.csv`\n"
    "```sh\nbuild/otattn x --causal | head --lines\npython3 tool.py --only\n```\n",
}
# A defect planted in a sound tree: file, what is added to it, and a word of the complaint it must cause.
PLANTS = [
    ("docs/guide.md", "As in [roe1999].\n", "[roe1999] has no entry"),
    ("engine/rows.c", "/* [roe1999] */\n", "[roe1999] has no entry"),
    ("docs/bibliography.md", "* [roe1999]: Roe.\n", "[roe1999] is cited nowhere"),
    ("docs/guide.md", "* [roe1999]: Roe.\n", "the entry [roe1999] belongs into"),
    ("engine/rows.c", "/* (doe2001) */\n", "doe2001 is no [key]"),
    ("engine/rows.c", "/* (Roe and Doe 1999) */\n", "Roe and Doe 1999 is no [key]"),
    ("tests/requirement_ids.txt", "XYZ-01\tA\n", "[XYZ] has no entry"),
    ("README.md", "[x](docs/gone.md)\n", "docs/gone.md, which does not exist"),
    ("docs/guide.md", "[x](#no-such)\n", "#no-such, which has no such heading"),
    ("README.md", "[x](docs/guide.md#look)\n", "#look, which has no such heading"),
    ("CHANGELOG.md", "![x](gone.png)\n", "gone.png, which does not exist"),
    ("README.md", "`gone.c`\n", "gone.c is no file or folder"),
    ("README.md", "`wrong/rows.c`\n", "wrong/rows.c is no file or folder"),
    ("README.md", "`engine/gone`\n", "engine/gone is no file or folder"),
    ("README.md", "`gone_function(x)`\n", "gone_function is no name"),
    ("README.md", "`gone/`\n", "gone/ is no file or folder"),
    ("README.md", "`{rows,gone}.c`\n", "{rows,gone}.c is no file or folder"),
    ("README.md", "`engine/gone*.inc.h`\n", "engine/gone*.inc.h is no file or folder"),
    ("README.md", "`ota_gone(x)`\n", "ota_gone is no name"),
    ("README.md", "```c\nota_gone();\n```\n", "ota_gone is no name"),
    ("README.md", "`OTA_GONE_*`\n", "OTA_GONE_* is no name"),
    ("README.md", "`--gone 3`\n", "--gone is no flag"),
    ("README.md", "```sh\nbuild/otattn y \\\n  --gone\n```\n", "--gone is no flag"),
    ("engine/rows.c", "/* as in gone.inc.h */\n", "gone.inc.h is no file or folder"),
    ("engine/rows.h", '// "x" engine/gone', "engine/gone is no file or folder"),
    ("engine/rows.h", "/* ota_gone */\n", "ota_gone is no name"),
    ("tool.py", "# gone.py\n", "gone.py is no file or folder"),
    ("docs/guide.md", "`rows.c`\n", "rows.c may be engine/cpu/rows.c or engine/rows.c"),
    ("dev", "# docs/gone.md\n", "docs/gone.md is no file or folder"),
]


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        return self_test("references", check, SOUND, PLANTS)
    defects = check(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve())
    print("\n".join(defects) if defects else "references: every file, flag, function and anchor exists")
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
