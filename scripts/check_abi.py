"""Fails when what programs see of the built shared library is not what tests/abi/abi.txt says, or breaks
programs that were built with a header of tests/abi/ (docs/users/abi.md).

abidw of libabigail reads functions, members of structs with their offsets and numbers of enumerations from
debugging information of a file that names all of the public headers, since the library has none; symbol
versions are the library's. The text is ours, a line each: abidw's own has ten times the size, and every line
of a header that moves changes it.

check_abi.py BUILD_FOLDER          judges the library and the headers of this checkout
check_abi.py --write BUILD_FOLDER  writes tests/abi/abi.txt anew, which announces the changes
check_abi.py --header              writes the public headers of this version into tests/abi/
check_abi.py --assertions          prints a C source that compiles where headers are as abi.txt says
check_abi.py --self-test           changes a header in one way after another and expects each judged
"""

from __future__ import annotations

import difflib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path

from check_version import version_of

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "abi"
KEPT = FOLDER / "abi.txt"
FUNCTION = re.compile(r"OTA_API [^;{]*?\b(ota_[a-z0-9_]+) *\(")
UNKNOWN = "unknown_void"
WRITE = "python3 scripts/check_abi.py --write"


@dataclass
class Item:
    """A function, struct, enumeration or type."""

    head: str
    size: int = 0
    rows: dict[str, tuple[int, str]] = field(default_factory=dict)  # name: offset or number, type

    @property
    def may_grow(self) -> bool:
        return self.rows.get("size") == (0, "size_t")


# ---- reading -------------------------------------------------------------------------------------


class Reader:
    """What abidw wrote."""

    def __init__(self, text: str) -> None:
        self.tree = ET.fromstring(text)
        self.types = {e.get("id"): e for e in self.tree.iter() if e.get("id")}

    def name(self, id: str | None) -> str:
        e = self.types[id]
        if e.tag == "pointer-type-def":
            to = self.types[e.get("type-id")]
            if to.tag == "function-type":
                return self.signature(to, " (*)")
            return f"{self.name(e.get('type-id'))} *".replace("* *", "**")
        if e.tag == "qualified-type-def":
            plain = self.name(e.get("type-id"))
            return f"{plain}const" if plain.endswith("*") else f"const {plain}"
        if e.tag == "array-type-def":
            lengths = "".join(f"[{s.get('length')}]" for s in e.findall("subrange"))
            return self.name(e.get("type-id")) + lengths
        name = e.get("name", "?")
        return "void" if name == UNKNOWN else name

    def signature(self, e: ET.Element, between: str = " ") -> str:
        given = [
            "..." if p.get("is-variadic") else self.name(p.get("type-id")) for p in e.findall("parameter")
        ]
        result = e.find("return")
        gives = self.name(result.get("type-id")) if result is not None else "void"
        return f"{gives}{between}({', '.join(given) or 'void'})"

    def items(self) -> dict[str, Item]:
        found: dict[str, Item] = {}
        for e in self.tree.iter():
            name = e.get("name", "")
            if e.tag == "var-decl" and name.startswith("call_"):
                pointed = self.types[self.types[e.get("type-id")].get("type-id")]
                found[f"function {name[5:]}"] = Item(self.signature(pointed))
            if not name.startswith("ota_"):
                continue
            if e.tag == "class-decl" and not e.get("is-declaration-only"):
                found[f"struct {name}"] = self.struct(e)
            elif e.tag == "enum-decl":
                numbers = {n.get("name", ""): (int(n.get("value", "0")), "") for n in e.findall("enumerator")}
                found[f"enum {name}"] = Item("", 0, numbers)
            elif e.tag == "typedef-decl" and self.types[e.get("type-id")].get("name") != name:
                found[f"type {name}"] = Item(self.name(e.get("type-id")))
        return found

    def struct(self, e: ET.Element) -> Item:
        members = {}
        for member in e.findall("data-member"):
            variable = member.find("var-decl")
            assert variable is not None
            at = int(member.get("layout-offset-in-bits", "0")) // 8
            members[variable.get("name", "")] = (at, self.name(variable.get("type-id")))
        size = int(e.get("size-in-bits", "0")) // 8
        return Item(f"{size} bytes", size, members)


def described(headers: list[Path]) -> dict[str, Item]:
    """What the headers declare. Copies of them are read in which `const void` is of a struct, since abidw
    leaves that const out."""
    texts = {h.name: h.read_text(encoding="utf-8") for h in headers}
    names = sorted({n for text in texts.values() for n in FUNCTION.findall(text)})
    source = f"typedef struct {UNKNOWN} {UNKNOWN};\n"
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            (Path(folder) / name).write_text(re.sub(r"\bconst void\b", f"const {UNKNOWN}", text), "utf-8")
            source += f'#include "{folder}/{name}"\n'
        source += "".join(f"__typeof__({n}) *call_{n};\n" for n in names)
        library = Path(folder) / "headers.so"
        words = ["cc", "-g", "-fPIC", "-shared", "-fno-eliminate-unused-debug-types", "-x", "c", "-"]
        subprocess.run([*words, "-o", str(library)], input=source, text=True, check=True)
        command = ["abidw", "--load-all-types", str(library)]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return Reader(text).items()


def of_library(path: Path) -> tuple[str, dict[str, str]]:
    """The soname, and each exported function's version."""

    def said(*words: str) -> str:
        return subprocess.run([*words, str(path)], capture_output=True, text=True, check=True).stdout

    soname = re.search(r"SONAME.*\[(.*)\]", said("readelf", "-W", "-d"))
    symbols = re.findall(r" [TW] (\w+)(?:@@?(\S+))?$", said("nm", "-D", "--defined-only"), re.MULTILINE)
    return soname[1] if soname else "none", dict(symbols)


def public_headers() -> list[Path]:
    lists = re.findall(
        r"set\(OTATTN_(?:LIBRARY|BATCH)_HEADERS([^)]*)\)",
        (ROOT / "cmake/sources.cmake").read_text(encoding="utf-8"),
    )
    return [ROOT / name for words in lists for name in words.split()]


# ---- the header of a release -----------------------------------------------------------------------


def release_of(version: str) -> str:
    return version.rpartition(".")[0]


NUMBER = re.compile("OTA_(?!VERSION_)")  # of a definition that callers may have used


def bare(text: str) -> str:
    """A header's declarations and numbers: no comments, nothing that the preprocessor may leave out."""
    text = re.sub(r'/\*.*?\*/|//[^\n]*|("(?:\\.|[^"\\])*")', lambda m: m[1] or " ", text, flags=re.DOTALL)
    lines = []
    depth = 0
    for line in re.sub(r"\\\n", " ", text).splitlines():
        words = line.replace("#", "# ", 1).split() if line.lstrip().startswith("#") else []
        if words[1:2] and words[1].startswith("if"):
            depth += 1
        elif words[1:2] == ["endif"]:
            depth -= 1
        elif depth == 1 and (not words or (words[1] == "define" and NUMBER.match(words[2]))):
            lines.append(line.rstrip())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def header_of_release(texts: list[str], release: str) -> str:
    guard = f"OTATTN_{release.replace('.', '_')}_H"
    return "\n".join(
        [
            f"/* The public headers of release {release} in one file, without their comments: what programs",
            "   built with it were compiled from. Never changed; docs/users/abi.md. */",
            f"#ifndef {guard}",
            f"#define {guard}",
            "#include <stddef.h>",
            "#include <stdint.h>",
            "",
            "#define OTA_API",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            *(f"\n{bare(text)}" for text in texts),
            "",
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "#endif",
            "",
        ]
    )


def write_header() -> int:
    release = release_of(version_of())
    path = FOLDER / f"otattn_{release}.h"
    text = header_of_release([h.read_text(encoding="utf-8") for h in public_headers()], release)
    text = subprocess.run(
        ["clang-format", f"--assume-filename={path}"], input=text, capture_output=True, text=True, check=True
    ).stdout
    if path.exists() and path.read_text(encoding="utf-8") != text:
        print(f"abi: {path.relative_to(ROOT)} stays, and is not what the headers are now")
        return 1
    path.write_text(text, encoding="utf-8")
    print(f"abi: wrote {path.relative_to(ROOT)}")
    return 0


# ---- judging -------------------------------------------------------------------------------------


def written(items: dict[str, Item], soname: str, versions: dict[str, str]) -> str:
    lines = [
        f"# What programs see of the shared library on x86-64; `{WRITE} build` writes it.",
        f"soname {soname}",
    ]
    for key, item in sorted(items.items()):
        kind, name = key.split(" ", 1)
        version = f"@{versions.get(name) or 'none'}" if kind == "function" else ""
        grows = ", may grow" if item.may_grow else ""
        lines.append(f"{key}{version}: {item.head}{grows}".removesuffix(": "))
        lines += [
            f"    {at} {kind_} {row}".replace("  ", " ", 1) if kind_ else f"    {row} {at}"
            for row, (at, kind_) in item.rows.items()
        ]
    return "\n".join(lines) + "\n"


def shown(place: tuple[int, str]) -> str:
    return f"{place[1]} at {place[0]}" if place[1] else str(place[0])


def broken(old: dict[str, Item], new: dict[str, Item]) -> list[str]:
    """What a program built with the old headers would find changed."""
    found = []
    for key, was in old.items():
        item = new.get(key)
        if item is None:
            found.append(f"{key} is gone")
            continue
        if not was.rows and was.head != item.head:
            found.append(f"{key} was {was.head}, is {item.head}")
        for row, place in was.rows.items():
            now = item.rows.get(row)
            if now is None:
                found.append(f"{key}: {row} is gone")
            elif now != place:
                found.append(f"{key}: {row} was {shown(place)}, is {shown(now)}")
        if key.startswith("struct"):
            found += grown_wrongly(key, was, item)
    return found


def grown_wrongly(key: str, was: Item, item: Item) -> list[str]:
    if not was.may_grow:
        return [] if was.size == item.size else [f"{key} has {item.size} bytes, callers give {was.size}"]
    added = {row: at for row, (at, _) in item.rows.items() if row not in was.rows}
    return [
        f"{key}: {row} lies at {at}, within the {was.size} bytes of older callers"
        for row, at in added.items()
        if at < was.size
    ]


def misversioned(released: dict[str, dict[str, Item]], versions: dict[str, str], coming: str) -> list[str]:
    """Functions whose version is not that of the first release that had them, or of the release to come."""
    found = []
    first: dict[str, str] = {}
    for release in sorted(released, key=lambda text: [int(n) for n in text.split(".")]):
        for key in released[release]:
            kind, name = key.split(" ", 1)
            if kind == "function":
                first.setdefault(name, f"OTATTN_{release}")
    nodes = {f"OTATTN_{release}" for release in released}
    for name, version in sorted(versions.items()):
        if name in first and version != first[name]:
            found.append(f"function {name} has the version {version or 'none'} and came with {first[name]}")
        elif name not in first and (version in nodes or not version):
            found.append(f"function {name} is newer than {version or 'none'}, and no release had it")
        elif name not in first and version != f"OTATTN_{coming}":
            found.append(f"function {name} has the version {version}, and comes with {coming}")
    return found


def judge(build: Path, write: bool) -> int:
    soname, versions = of_library(build / "libotattn.so")
    today = described(public_headers())
    text = written(today, soname, versions)
    if write:
        KEPT.write_text(text, encoding="utf-8")
        print(f"abi: wrote {KEPT.relative_to(ROOT)}")
    released = {}
    for header in sorted(FOLDER.glob("otattn_*.h")):
        release = header.stem.removeprefix("otattn_")
        if soname == f"libotattn.so.{release.split('.')[0]}":
            released[release] = described([header])
    wrong = [f"{line} ({release})" for release, items in released.items() for line in broken(items, today)]
    wrong += misversioned(released, versions, release_of(version_of()))
    kept = KEPT.read_text(encoding="utf-8").splitlines() if KEPT.exists() else []
    differing = list(difflib.unified_diff(kept, text.splitlines(), "announced", "built", lineterm="", n=0))
    for line in wrong:
        print(f"abi: {line}")
    if wrong:
        print(
            "abi: programs built with a released header go wrong here: take the change back, name a new "
            "function in a newer version of cmake/otattn.map, or raise the major version"
        )
    for line in differing:
        print(line)
    if differing:
        print(f"abi: nobody announced this change; `{WRITE} {build}` and a line of CHANGELOG.md do")
    if not wrong and not differing:
        types = len(today) - len(versions)
        print(f"abi: {len(versions)} functions and {types} types as announced; kept: {', '.join(released)}")
    return 1 if wrong or differing else 0


def pointer_to(type_: str) -> str:
    """Of a type as abi.txt writes it, of a function's too."""
    if result := re.match(r"(?:[^(]* )?(?=\((?!\*\)))", type_):
        return f"{result[0]}(*){type_[result.end() :]}"
    if "(*)" in type_:
        return type_.replace("(*)", "(**)", 1)
    plain, bracket, lengths = type_.partition("[")
    return f"{plain} (*)[{lengths}" if bracket else f"{type_} *"


def assertions(kept: str, headers: list[Path]) -> str:
    """Of abi.txt, which was read on one system, for compilers of others: types and numbers, and where
    pointers have 64 bits as there sizes and offsets."""
    lines = [f'#include "{header.name}"' for header in headers] + [
        "#include <stddef.h>",
        "#include <stdint.h>",
    ]
    wide = ["#if UINTPTR_MAX > 0xFFFFFFFF"]

    def typed(what: str, address: str, type_: str) -> None:
        lines.append(f'_Static_assert(_Generic({address}, {pointer_to(type_)}: 1, default: 0), "{what}");')

    struct = ""
    for line in kept.splitlines():
        if head := re.fullmatch(r"struct (\w+): (\d+) bytes.*", line):
            struct = head[1]
            wide.append(f'_Static_assert(sizeof({struct}) == {head[2]}, "{struct}");')
        elif not line.startswith(" "):
            struct = ""
            if item := re.fullmatch(r"(function|type) (\w+)(?:@\w*\.?\w*)?: (.*)", line):
                address = f"&{item[2]}" if item[1] == "function" else f"({item[2]} *)0"
                typed(item[2], address, item[3])
        elif struct and (member := re.fullmatch(r" +(\d+) (.*?) *(\w+)", line)):
            text = f"offsetof({struct}, {member[3]}) == {member[1]}"
            wide.append(f'_Static_assert({text}, "{struct}.{member[3]}");')
            typed(f"{struct}.{member[3]}", f"&(({struct} *)0)->{member[3]}", member[2])
        elif number := re.fullmatch(r" +(OTA_\w+) (-?\d+)", line):
            lines.append(f'_Static_assert({number[1]} == {number[2]}, "{number[1]}");')
    return "\n".join([*lines, *wide, "#endif", ""])


# ---- self-test -----------------------------------------------------------------------------------

HEADER = """
#define OTA_API
#include <stddef.h>
typedef enum ota_kind { OTA_ONE = 1, OTA_TWO } ota_kind;
typedef struct ota_fixed { double x; int y; } ota_fixed;
typedef struct ota_sized { size_t size; int a; ota_kind kind; const char *name; } ota_sized;
typedef int (*ota_told)(void *user, double x);
OTA_API int ota_call(const ota_sized *given, ota_fixed *out, ota_told told);
OTA_API void ota_free(void *memory);
"""
# What is changed: from, to, whether older programs stay right.
PLANTED = {
    "nothing": ("", "", True),
    "a member at the end": ("const char *name;", "const char *name; double more;", True),
    "a number at the end": ("OTA_TWO }", "OTA_TWO, OTA_THREE }", True),
    "a new function": ("OTA_API void", "OTA_API int ota_new(int x);\nOTA_API void", True),
    "a function gone": ("OTA_API void ota_free(void *memory);", "", False),
    "another parameter": ("(void *memory)", "(void *memory, int how)", False),
    "another result": ("OTA_API void ota_free", "OTA_API int ota_free", False),
    "memory that is only read": ("(void *memory)", "(const void *memory)", False),
    "another parameter of a callback": ("void *user, double x", "void *user, float x", False),
    "a member of another type": ("int a;", "float a;", False),
    "a member in the middle": ("int a;", "int a; double more;", False),
    "members in turn": ("double x; int y;", "int y; double x;", False),
    "a member of another name, with a size": ("const char *name;", "const char *text;", False),
    "a struct without size that grows": ("int y;", "int y; double z;", False),
    "another number": ("OTA_ONE = 1", "OTA_ONE = 3", False),
    "a number gone": (", OTA_TWO }", " }", False),
    "a member of another name": ("int y;", "int z;", False),
}
# Those that no line of the text of before says.
UNLISTED = {"nothing", "a number at the end", "a new function"}
# What a header has around its declarations; nothing that says OTHER is part of a release's header.
GUARDED = """/* OTHER */
#ifndef OTHER_H
#define OTHER_H
#include <OTHER.h>
#define OTA_VERSION_OTHER 1
#if defined(OTHER)
#define OTA_OTHER __attribute__((other))
#endif
#ifdef __cplusplus
extern "C" { // OTHER
#endif
HERE
#ifdef __cplusplus
}
#endif
#endif
"""
PADDED = ("const char *name; } ota_sized", "const char *name; int last; } ota_sized")


def self_test() -> int:
    failed = 0

    def expect(what: str, held: bool) -> None:
        nonlocal failed
        if not held:
            failed += 1
            print(f"abi: {what} was not judged as it should be")

    with tempfile.TemporaryDirectory() as name:
        header = Path(name) / "planted.h"

        def read(text: str) -> dict[str, Item]:
            header.write_text(text, encoding="utf-8")
            return described([header])

        old = read(HEADER)
        for what, (there, instead, stays) in PLANTED.items():
            assert there in HEADER
            new = read(HEADER.replace(there, instead, 1))
            expect(what, (not broken(old, new)) == stays)
            same = written(old, "", {}) == written(new, "", {})
            expect(f"{what}, in the text,", same == (what == "nothing"))
            source = assertions(written(old, "", {}), [header])
            words = ["cc", "-std=c11", "-fsyntax-only", f"-I{name}", "-x", "c", "-"]
            compiled = subprocess.run(words, input=source, text=True, capture_output=True).returncode == 0
            expect(f"{what}, by a compiler,", compiled == (what in UNLISTED))
        padded = HEADER.replace(*PADDED)
        filled = read(padded.replace("last;", "last, most;"))
        expect("a member in the padding at the end", bool(broken(read(padded), filled)))
        header.write_text(header_of_release([GUARDED.replace("HERE", HEADER)], "0.1"), encoding="utf-8")
        expect("the header of a release", described([header]) == old)
        expect("what a header of a release leaves out", "OTHER" not in header.read_text(encoding="utf-8"))
    both = {"ota_call": "OTATTN_0.1", "ota_free": "OTATTN_0.1"}
    released = {"0.1": old}
    for what, versions, stays in (
        ("the versions of the release", both, True),
        ("a newer function", {**both, "ota_new": "OTATTN_0.2"}, True),
        ("a newer function in an old version", {**both, "ota_new": "OTATTN_0.1"}, False),
        ("a newer function in a later version", {**both, "ota_new": "OTATTN_0.3"}, False),
        ("an old function in a newer version", {**both, "ota_free": "OTATTN_0.2"}, False),
    ):
        expect(what, (not misversioned(released, versions, "0.2")) == stays)
    print(f"abi: {3 * len(PLANTED) + 8 - failed} of {3 * len(PLANTED) + 8} planted changes judged right")
    return 1 if failed else 0


def main() -> int:
    words = sys.argv[1:]
    if words == ["--self-test"]:
        return self_test()
    if words == ["--header"]:
        return write_header()
    if words == ["--assertions"]:
        print(assertions(KEPT.read_text(encoding="utf-8"), public_headers()), end="")
        return 0
    write = words[:1] == ["--write"]
    if len(words) != 1 + write:
        print(__doc__)
        return 2
    return judge(Path(words[-1]), write)


if __name__ == "__main__":
    sys.exit(main())
