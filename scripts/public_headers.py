"""Reads the public headers with their comments, for man pages (scripts/make_manual.py): the
headers are the manual, and there is no second text.

Reads the small part of C that the headers use: `#define OTA_NAME value`, enums, structs, opaque structs and
prototypes marked OTA_API or inline, each with the comment right above it or behind it on its line. A comment
that begins with `----` begins a section. Anything else stops it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Headers of libraries of their own: what a program links.
PACKAGES = {
    "otattn_analysis.h": "otattn-analysis",
    "otattn_model.h": "otattn-model",
    "otattn_tensors.h": "otattn-model",
    "otattn_tokenizer.h": "otattn-model",
    "otattn_spectra.h": "otattn-spectra",
    "otattn_mpi.h": "",
}
TOKEN = re.compile(
    r"(?P<comment>/\*.*?\*/)"
    r"|(?P<directive>^#(?:[^\n]*\\\n)*[^\n]*)"
    r'|(?P<linkage>extern "C" \{|^\}$)'
    r"|(?P<enum>(?:typedef )?enum(?: \w+)? \{.*?\}(?: (?P<enum_name>\w+))?;)"
    r"|(?P<struct>typedef struct (?P<struct_name>\w+) \{.*?^\} \w+;)"
    r"|(?P<opaque>typedef struct \w+ (?P<opaque_name>\w+);)"
    r"|(?P<function>OTA_API [^;]*?\b(?P<function_name>ota_\w+)\([^;]*;)"
    r"|(?P<inline>static inline [^;{]*?\b(?P<inline_name>ota_\w+)\([^{]*\{.*?^\}$)"
    r"|(?P<blank>\s+)",
    re.DOTALL | re.MULTILINE,
)
LONG = 120
DEFINE = re.compile(r"#define (OTA_[A-Z0-9_]+) (.+)")
PART = re.compile(r"/\*.*?\*/|[^/]+|/", re.DOTALL)


@dataclass
class Block:
    """A paragraph, or lines to be kept as they stand."""

    text: str
    kept: bool = False


@dataclass
class Member:
    """Of a struct (declarations) or an enumeration (a name and its value)."""

    declarations: list[str]
    comment: str = ""


@dataclass
class Item:
    kind: str  # function, struct, opaque, enum, constants, macro
    name: str
    text: str  # as it stands in the header, without OTA_API
    comment: str = ""
    members: list[Member] = field(default_factory=list)
    above: Item | None = None  # of the line before: its comment speaks of this one, too, where it has none

    @property
    def described(self) -> Item | None:
        """The item whose comment describes this one."""
        item: Item | None = self
        while item is not None and not item.comment:
            item = item.above
        return item


@dataclass
class Section:
    title: str
    comment: str = ""
    items: list[Item] = field(default_factory=list)


@dataclass
class Header:
    name: str
    comment: str
    sections: list[Section]

    @property
    def items(self) -> list[Item]:
        return [item for section in self.sections for item in section.items]

    @property
    def summary(self) -> str:
        """What its first line says behind the name."""
        return summary(self.comment).removeprefix(f"{self.name}: ")

    @property
    def package(self) -> str:
        """The name for pkg-config, or nothing."""
        return PACKAGES.get(self.name, "otattn")


def plain(comment: str) -> str:
    """The text of a comment, lines without the stars in front and what they share of blanks."""
    lines = comment.removeprefix("/*").removesuffix("*/").split("\n")
    first = lines[0].strip()
    rest = [re.sub(r"^ *\* ?", "", line).rstrip() for line in lines[1:]]
    if any(line.startswith(" ") and not re.match(r" *\*", line) for line in lines[1:] if line.strip()):
        # Behind a member, or without stars: what every line has is not part of the text.
        shared = min((len(line) - len(line.lstrip()) for line in rest if line.strip()), default=0)
        rest = [line[shared:] for line in rest]
    return "\n".join([first, *rest]).strip()


def blocks(text: str) -> list[Block]:
    found: list[Block] = []
    open_ = False
    for line in text.split("\n"):
        kept = line.startswith("  ")
        if not line:
            open_ = bool(found) and found[-1].kept  # a blank line within kept lines
            if open_:
                found[-1].text += "\n"
            continue
        if found and found[-1].kept == kept and open_:
            found[-1].text += ("\n" if kept else " ") + line
        else:
            found.append(Block(line, kept))
        open_ = True
    for block in found:
        if block.kept:
            lines = block.text.rstrip("\n").split("\n")
            shared = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
            block.text = "\n".join(line[shared:] for line in lines)
    return found


def summary(text: str) -> str:
    """The first sentence, without what stands in brackets at its end."""
    paragraph = next((block.text for block in blocks(text) if not block.kept), "")
    # A sentence ends with a stop, or a semicolon, before a blank or the end; not within brackets.
    depth = 0
    for at, letter in enumerate(paragraph):
        depth += letter in "([{"
        depth -= letter in ")]}"
        ends = paragraph[at + 1 : at + 2] in {"", " "} and paragraph[at - 1] != "."
        # Of a long one, what stands before a colon, too.
        if depth <= 0 and at > 10 and ends and (letter in ".;" or (letter == ":" and len(paragraph) > LONG)):
            paragraph = paragraph[:at]
            break
    return re.sub(r"( \[[A-Z]+-[^]]*\])+$", "", paragraph).rstrip(":.; ")


def one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def declarators(declaration: str) -> list[str]:
    """`double a, b` as `double a` and `double b`."""
    match = re.fullmatch(r"((?:const )?\w+) (.+)", declaration)
    if match is None or "(" in declaration:
        return [declaration]
    return [f"{match[1]} {part.strip()}" for part in match[2].split(",")]


def members(body: str, between: str) -> list[Member]:
    """What stands between the braces, each with the comments above it and behind it on its line."""
    found: list[Member] = []
    waiting: list[str] = []  # comments above the next one
    current = ""
    fresh = True  # nothing but blanks since the line began
    for match in PART.finditer(body):
        part = match[0]
        if part.startswith("/*"):
            text = plain(part)
            if fresh and not current.strip():
                waiting.append(text)
            elif current.strip() or not found:
                waiting.append(text)  # inside of a declaration
            else:
                found[-1].comment = " ".join(filter(None, (found[-1].comment, text)))
            continue
        pieces = part.split(between)
        for number, piece in enumerate(pieces):
            current += piece
            if number < len(pieces) - 1:
                add(found, current, waiting, between)
                current, waiting = "", []
        tail = pieces[-1]
        fresh = "\n" in tail and not tail.rsplit("\n", 1)[1].strip()
    add(found, current, waiting, between)
    return found


def add(found: list[Member], text: str, waiting: list[str], between: str) -> None:
    declaration = one_line(text)
    if declaration:
        names = [declaration] if between == "," else declarators(declaration)
        found.append(Member(names, " ".join(waiting)))


def item_of(kind: str, match: re.Match[str]) -> Item:
    text = match[0]
    if kind == "function":
        return Item(kind, match["function_name"], text.removeprefix("OTA_API ").replace("\n        ", "\n"))
    if kind == "inline":
        return Item("function", match["inline_name"], text[: text.index(" {")] + ";")
    if kind == "opaque":
        return Item(kind, match["opaque_name"], text)
    body = text[text.index("{") + 1 : text.rindex("}")]
    if kind == "struct":
        return Item(kind, match["struct_name"], text, members=members(body, ";"))
    name = match["enum_name"] or ""
    return Item("enum" if name else "constants", name, text, members=members(body, ","))


def read(path: Path) -> Header:
    text = path.read_text(encoding="utf-8")
    header = Header(path.name, "", [Section("")])
    comment, behind = "", None  # a comment not yet given away; the item that ended on this line
    above: Item | None = None
    at = 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            line = text.count("\n", 0, at) + 1
            raise SystemExit(f"{path.name}:{line}: cannot read {text[at : at + 60]!r}")
        at = match.end()
        kind = match.lastgroup or ""
        kind = next(name for name in ("comment", "directive", "linkage", "enum", "struct", "opaque",
                                      "function", "inline", "blank") if match[name] is not None)  # fmt: skip
        if kind == "blank":
            behind = behind if "\n" not in match[0] else None
            if match[0].count("\n") > 1:
                if comment and not header.comment:
                    header.comment = comment
                elif comment:
                    last = header.sections[-1]
                    last.comment = "\n\n".join(filter(None, (last.comment, comment)))
                comment, above = "", None
        elif kind == "comment":
            words = plain(match[0])
            title = re.match(r"---- (.*?) -*(?:\n|$)", words)
            if behind is not None:
                behind.comment = " ".join(filter(None, (behind.comment, words)))
            elif title:
                header.sections.append(Section(title[1].strip(), words[title.end() :].strip()))
                comment = ""
                # A function right below it is described by it.
                above = (
                    Item("section", "", "", words[title.end() :].strip()) if words[title.end() :] else None
                )
            else:
                comment = words
        elif kind == "directive":
            define = DEFINE.match(match[0])
            if not header.comment and comment:
                header.comment = comment
            elif define and define[1] != "OTA_API":
                behind = Item("macro", define[1], match[0], comment)
                tail = re.search(r" *(/\*.*\*/)$", match[0])
                if tail:
                    behind.comment, behind.text = plain(tail[1]), match[0][: tail.start()]
                header.sections[-1].items.append(behind)
            comment = ""
        elif kind != "linkage":
            behind = item_of(kind, match)
            behind.comment, comment = comment, ""
            behind.above, above = above, behind
            header.sections[-1].items.append(behind)
    header.sections = [s for s in header.sections if s.items or s.comment]
    return header


def headers(folder: Path = ROOT / "include") -> list[Header]:
    """All of them, otattn.h first."""
    return [
        read(path) for path in sorted(folder.glob("*.h"), key=lambda path: (path.stem != "otattn", path.name))
    ]
