"""Writes the man pages of section 3 from the comments of the public headers: one of every call, struct and
enumeration, and one of every header.

make_manual.py FOLDER [HEADER...]      writes FOLDER/NAME.3, of these headers or all

A page of a call has its prototype, its comment or that of the line above, the types of its section that the
prototype names, and what the section says. Pages have no date, so that two builds have the same bytes.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from public_headers import ROOT, Header, Item, Section, blocks, headers, summary

NAME = re.compile(r"\bota_\w+")
KINDS = {"function": "a call", "struct": "a struct", "opaque": "an opaque struct", "enum": "an enumeration"}
PAGED = tuple(KINDS)


def roff(text: str, *, kept: bool = False) -> str:
    """Letters as they are; what roff would read as its own, or print as another sign, escaped."""
    found = text.replace("\\", "\\e").replace("-", "\\-")
    for letter, escape in (("'", "\\(aq"), ("`", "\\(ga"), ("^", "\\(ha"), ("~", "\\(ti")):
        found = found.replace(letter, escape)
    lines = [f"\\&{line}" if line.startswith(".") else line for line in found.split("\n")]
    return "\n".join(lines if kept else (line.strip() for line in lines))


def kept(text: str) -> str:
    return f".nf\n{roff(text, kept=True)}\n.fi"


def paragraphs(text: str) -> str:
    found = []
    for number, block in enumerate(blocks(text)):
        if block.kept:
            found.append(
                f".PP\n.RS 4\n{kept(block.text)}\n.RE" if number else f".RS 4\n{kept(block.text)}\n.RE"
            )
        else:
            found.append(f".PP\n{roff(block.text)}" if number else roff(block.text))
    return "\n".join(found)


def heading(text: str) -> str:
    return f'.SH "{roff(text.upper())}"'


def version() -> str:
    text = (ROOT / "include/otattn.h").read_text(encoding="utf-8")
    return re.search(r'OTA_VERSION_STRING "(.*)"', text)[1]  # type: ignore[index]


def top(name: str, said: str) -> str:
    title = f'.TH {roff(name.upper())} 3 "" "otattn {version()}" "Library Functions"'
    return f"{title}\n.SH NAME\n{roff(name)} \\- {roff(said)}\n"


def link_of(header: Header) -> str:
    package = header.package
    if not package:
        return "cc \\fIfile\\fR.c \\-lotattn_mpi \\-lotattn"
    return f"cc \\fIfile\\fR.c $(pkg\\-config \\-\\-cflags \\-\\-libs {roff(package)})"


def synopsis(header: Header, text: str) -> str:
    include = f"#include <{header.name}>" + (f"\n\n{text}" if text else "")
    return f".SH SYNOPSIS\n{kept(include)}\n.PP\n{link_of(header)}\n"


def see_also(names: list[str]) -> str:
    lines = [f".BR {roff(name)} (3)" for name in names]
    return ".SH SEE ALSO\n" + ",\n".join(lines) + "\n" if lines else ""


def name_line(item: Item) -> str:
    """What it is, in a line."""
    told = item.described
    text = summary(told.comment) if told is not None else ""
    return text or KINDS[item.kind]


def joined(parts: list[str]) -> str:
    return "\n.PP\n".join(filter(None, parts)) + "\n"


def page(header: Header, section: Section, item: Item, known: dict[str, Item]) -> str:
    told = item.described
    text = top(item.name, name_line(item)) + synopsis(header, item.text)
    if told is not None:
        text += f".SH DESCRIPTION\n{paragraphs(told.comment)}\n"
    named = [n for n in dict.fromkeys(NAME.findall(item.text)) if n != item.name and n in known]
    near = {other.name for other in section.items if other.kind in ("struct", "enum")}
    shown = [known[n] for n in named if n in near and item.kind == "function"]
    if shown:
        parts = []
        for other in shown:
            parts += [
                paragraphs(other.comment) if other.comment and other is not told else "",
                kept(other.text),
            ]
        text += ".SH TYPES\n" + joined(parts)
    if section.comment and (told is None or told.comment != section.comment):
        text += f"{heading(section.title or header.name)}\n{paragraphs(section.comment)}\n"
    elif not section.title and told is not None:
        text += f"{heading(header.name)}\n{paragraphs(header.comment)}\n"
    words = f"{told.comment if told is not None else ''} {section.comment}"
    rest = dict.fromkeys([*named, *(n for n in NAME.findall(words) if n in known)])
    return text + see_also([n for n in rest if n != item.name and known[n] not in shown] + [header.name])


def header_page(header: Header) -> str:
    text = top(header.name, header.summary) + synopsis(header, "")
    text += f".SH DESCRIPTION\n{paragraphs(header.comment)}\n"
    for section in header.sections:
        text += f"{heading(section.title or 'calls and types')}\n"
        parts = [paragraphs(section.comment)] if section.comment else []
        for item in section.items:
            if item.kind in ("macro", "constants"):
                parts += [paragraphs(item.comment) if item.comment else "", kept(item.text)]
        named = [item for item in section.items if item.kind in PAGED]
        text += joined(parts) if parts else ""
        text += "".join(f".TP\n.BR {roff(item.name)} (3)\n{roff(name_line(item))}\n" for item in named)
    return text + see_also(["otattn.h"] if header.name != "otattn.h" else [])


def pages(all_headers: list[Header]) -> dict[str, str]:
    """The text of every page by its name."""
    known = {item.name: item for header in all_headers for item in header.items if item.kind in PAGED}
    found = {}
    for header in all_headers:
        found[header.name] = header_page(header)
        for section in header.sections:
            for item in section.items:
                if item.kind in PAGED and known[item.name] is item:
                    found[item.name] = page(header, section, item, known)
    return found


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    folder, wanted = Path(sys.argv[1]), {Path(name).name for name in sys.argv[2:]}
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.3"):
        old.unlink()
    known = [header for header in headers() if not wanted or header.name in wanted]
    for name, text in pages(known).items():
        (folder / f"{name}.3").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
