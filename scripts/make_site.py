"""Makes the site, a plain folder that needs no server and no network: guides, research, C calls, the program
and the Python package.

make_site.py PROGRAM SOURCES SITE      writes what Sphinx reads into SOURCES and its pages into SITE
make_site.py --self-test               plants one wrong link after another and expects each found

Sphinx reads Markdown as it stands in the repository (docs/, README.md ...), the C library from the comments
of its headers (scripts/public_headers.py), the program from `PROGRAM help --json` and the package from its
docstrings: no page is written for the site alone. Fails on a warning of Sphinx, a public name of C or Python
without a page, a link or an anchor that leads nowhere, and anything that a page would load from elsewhere.
"""

from __future__ import annotations

import html.parser
import importlib
import inspect
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote

from planted import self_test
from public_headers import ROOT, Header, Item, Member, Section, blocks, headers

SETTINGS = ROOT / "docs/site"
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
GROUPS = {"users": "Guides", "research": "Research", "development": "Development", "records": "Records"}
LINK = re.compile(r"(!?)\[((?:[^][]|\[[^][]*\])*)\]\(([^)\s]+)\)")
NAME = re.compile(r"\b(?:ota|OTA)_\w+")
ROLES = {
    "function": "func",
    "struct": "struct",
    "opaque": "type",
    "enum": "enum",
    "macro": "macro",
    "enumerator": "enumerator",
}

# ---- documents -----------------------------------------------------------------------------------


def documents() -> list[str]:
    found = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]
    return [*PAGES, *found]


def place_of(document: str) -> str:
    """README.md is the first page."""
    return "index.md" if document == "README.md" else document


class Documents:
    """The repository's Markdown with links that lead to pages of the site."""

    def __init__(self, sources: Path) -> None:
        self.sources = sources

    def link(self, document: str, match: re.Match[str]) -> str:
        image, text, target = match.groups()
        file, _, anchor = target.partition("#")
        if not file or ":" in target:
            return match[0]
        path = os.path.normpath(Path(document).parent / file)
        if (ROOT / path).is_dir():
            return text
        if path.startswith("include/"):
            path = f"c/{Path(path).stem}.rst"
        elif path in documents():
            path = place_of(path)
        elif path.endswith(".md"):
            write(self.sources / path, f"---\norphan: true\n---\n\n{self.page(path)}")
        else:
            (self.sources / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, self.sources / path)
        to = os.path.relpath(path, Path(place_of(document)).parent)
        return f"{image}[{text}]({to}{'#' + anchor if anchor else ''})"

    def page(self, document: str) -> str:
        text = (ROOT / document).read_text(encoding="utf-8")
        parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
        for number in range(0, len(parts), 2):
            parts[number] = LINK.sub(lambda match: self.link(document, match), parts[number])
        return "".join(parts)

    def write(self) -> None:
        for document in documents():
            text = self.page(document)
            if document == "README.md":
                text += trees()
            write(self.sources / place_of(document), text)


def trees() -> str:
    """What the side of every page lists."""
    overview = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    named = [match[3] for match in LINK.finditer(overview)]
    lists = {"Reference": ["c/index", "program/index", "python/index"]}
    for folder, caption in GROUPS.items():
        there = [f"docs/{folder}/{path.stem}" for path in sorted((ROOT / "docs" / folder).glob("*.md"))]
        order = {f"docs/{name.removesuffix('.md')}": number for number, name in enumerate(named)}
        lists[caption] = sorted(there, key=lambda page: order.get(page, len(order)))
    lists["Research"].append("docs/bibliography")
    lists["Development"] += ["CONTRIBUTING", "SECURITY", "CHANGELOG", "docs/README"]
    captions = [GROUPS["users"], "Reference", *list(GROUPS.values())[1:]]
    return "\n" + "\n".join(
        f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(lists[caption]) + "\n```\n"
        for caption in captions
    )


# ---- reStructuredText ----------------------------------------------------------------------------


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def plain(text: str) -> str:
    return re.sub(r"([\\*`|_])", r"\\\1", text)


def title(text: str, line: str = "=") -> str:
    return f"{plain(text)}\n{line * max(4, len(plain(text)))}\n\n"


def indented(text: str, by: int = 3) -> str:
    return "\n".join(" " * by + line if line else "" for line in text.split("\n"))


def literal(text: str, language: str = "text") -> str:
    return f".. code-block:: {language}\n\n{indented(text)}\n\n"


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r" \[.*", "", text).lower()).strip("-")


def tree(pages: Iterable[str], depth: int = 1, *, hidden: bool = False) -> str:
    options = f"   :maxdepth: {depth}\n" + ("   :hidden:\n" if hidden else "")
    return f".. toctree::\n{options}\n" + "".join(f"   {page}\n" for page in pages) + "\n"


# ---- the C library -------------------------------------------------------------------------------


class Library:
    """Pages of the C library: one of each header, one of each of its sections."""

    def __init__(self) -> None:
        self.headers = headers()
        self.roles: dict[str, str] = {}
        self.owners = {item.name: item for header in self.headers for item in header.items if item.name}
        for header in self.headers:
            for item in header.items:
                self.roles[item.name] = ROLES.get(item.kind, "")
                if item.kind in ("enum", "constants"):
                    names = [member.declarations[0].split(" ")[0] for member in item.members]
                    self.roles.update(dict.fromkeys(names, "enumerator" if item.kind == "enum" else "macro"))
        self.roles.pop("", None)

    def words(self, text: str) -> str:
        """A paragraph, names of the library as links."""
        found, at = "", 0
        for match in NAME.finditer(text):
            role = self.roles.get(match[0])
            found += plain(text[at : match.start()])
            found += f"\\ :c:{role}:`{match[0]}`\\ " if role else plain(match[0])
            at = match.end()
        return found + plain(text[at:])

    def text(self, comment: str) -> str:
        return "".join(
            literal(block.text) if block.kept else self.words(block.text) + "\n\n"
            for block in blocks(comment)
        )

    def members(self, item: Item, directive: str) -> str:
        found = ""
        for member in item.members:
            names = f"\n{' ' * (len(directive) + 9)}".join(member.declarations)
            found += f".. c:{directive}:: {names}\n\n{indented(self.text(member.comment))}\n"
        return found

    def constant(self, member: Member) -> str:
        name, _, value = member.declarations[0].partition(" = ")
        body = (f"``{value}``: " if value else "") + self.text(member.comment)
        return f".. c:macro:: {name}\n\n{indented(body)}\n"

    def item(self, item: Item, above: Item | None) -> str:
        if item.kind == "constants":
            return self.text(item.comment) + "".join(self.constant(member) for member in item.members)
        if item.kind == "macro":
            name = item.text.split()[1]
            return f".. c:macro:: {name}\n\n{indented(literal(item.text, 'c') + self.text(item.comment))}\n"
        prototype = " ".join(item.text.removeprefix("static inline ").split()).rstrip(";")
        declared = {
            "function": f"function:: {prototype}",
            "struct": f"struct:: {item.name}",
            "enum": f"enum:: {item.name}",
            "opaque": f"type:: {item.name}",
        }[item.kind]
        body = self.text(item.comment)
        told = item.described
        if not body and told is not None and told is not above:
            body = self.text(told.comment)
        elif not body and told is not None and told.name:
            body = f"As :c:{self.roles[told.name]}:`{told.name}` says.\n\n"
        if item.kind in ("struct", "enum"):
            body += self.members(item, "member" if item.kind == "struct" else "enumerator")
        return f".. c:{declared}\n\n{indented(body)}\n"

    def section(self, section: Section) -> str:
        found, above = self.text(section.comment), None
        for item in section.items:
            # What two headers declare is described where the last does.
            found += self.item(item, above) if self.owners.get(item.name, item) is item else ""
            above = item
        return found

    def write(self, folder: Path) -> None:
        rows = "".join(
            f"   * - :doc:`{h.name} <{stem(h)}>`\n     - {plain(h.summary)}\n" for h in self.headers
        )
        text = title("The C library") + "Every call and type, from the comments of the headers.\n\n"
        text += f".. list-table::\n   :widths: auto\n\n{rows}\n"
        pages = tree((stem(header) for header in self.headers), 2, hidden=True)
        write(folder / "index.rst", text + pages)
        for header in self.headers:
            self.header(folder, header)

    def header(self, folder: Path, header: Header) -> None:
        text = title(header.name) + f".. code-block:: c\n\n   #include <{header.name}>\n\n"
        if header.package:
            text += f"Link with ``pkg-config --cflags --libs {header.package}``.\n\n"
        text += self.text(header.comment)
        titled = [section for section in header.sections if section.title]
        for section in header.sections:
            if not section.title:
                text += self.section(section)
        if titled:
            text += tree(f"{stem(header)}/{slug(section.title)}" for section in titled)
        write(folder / f"{stem(header)}.rst", text)
        for section in titled:
            name = section.title[0].upper() + section.title[1:]
            page = title(name) + f"Of :doc:`{header.name} <../{stem(header)}>`.\n\n" + self.section(section)
            write(folder / stem(header) / f"{slug(section.title)}.rst", page)


def stem(header: Header) -> str:
    return header.name.removesuffix(".h")


# ---- the program ---------------------------------------------------------------------------------


def write_program(program: str, folder: Path) -> None:
    said = subprocess.run([program, "help", "--json"], capture_output=True, check=True).stdout
    table = json.loads(said)
    text = title("The program") + "What ``otattn help`` says.\n\n.. list-table::\n   :widths: auto\n\n"
    for command in table["commands"]:
        page = command["name"]
        text += f"   * - :doc:`otattn {page} <{page}>`\n     - {plain(command['summary'])}\n"
        write(folder / f"{page}.rst", command_page(command, table["flags"]))
    names = [command["name"] for command in table["commands"]]
    text += "\n" + tree([*names, "topics"], hidden=True)
    for topic in table["topics"]:
        text += f"* :ref:`{topic['name']} <topic-{topic['name']}>`: {plain(topic['summary'])}\n"
    write(folder / "index.rst", text)
    topics = title("Topics")
    for topic in table["topics"]:
        topics += f".. _topic-{topic['name']}:\n\n" + title(topic["name"].replace("-", " ").capitalize(), "-")
        topics += "".join(
            literal(block.text) if block.kept else plain(block.text) + "\n\n"
            for block in blocks(
                re.sub(r"^(?! )(.*)\n(?=[^ \n])", r"\1\n\n", topic["text"], flags=re.MULTILINE)
            )
        )
    write(folder / "topics.rst", topics)


def command_page(command: dict[str, str], flags: list[dict[str, Any]]) -> str:
    text = title(f"otattn {command['name']}") + plain(command["summary"][0].upper() + command["summary"][1:])
    text += ".\n\n" + literal(f"otattn {command['name']} {command['operands']}".rstrip() + " [flags]", "sh")
    text += plain(command["details"]) + "\n\n" + literal(command["example"], "sh")
    group = ""
    for flag in flags:
        if command["name"] not in flag["commands"]:
            continue
        if flag["group"] != group:
            group = flag["group"]
            text += title(group, "-")
        text += f"``{flag['heading']}``\n   {plain(flag['sentence'])}\n\n"
    return text


# ---- the Python package --------------------------------------------------------------------------


def public_names(module: ModuleType) -> list[str]:
    """Those of __all__, or what the module itself defines without an underscore."""
    named = getattr(module, "__all__", None)
    if named is not None:
        return sorted(named)
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
    )


def package() -> dict[str, list[str]]:
    """The public names of every public module."""
    otattn = importlib.import_module("otattn")
    folder = Path(str(otattn.__file__)).parent
    modules = [path.stem for path in folder.glob("[a-z]*.py")]
    modules += [path.parent.name for path in folder.glob("[a-z]*/__init__.py")]
    names = ["otattn", *(f"otattn.{name}" for name in sorted(modules))]
    return {name: public_names(importlib.import_module(name)) for name in names}


def described(value: type, section: str) -> list[str]:
    """The names that a section of a class's text describes."""
    text = inspect.getdoc(value) or ""
    found = re.search(rf"^{section}\n-+\n(.*?)(?=^\S[^\n]*\n-+$|\Z)", text, re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^(\w+(?:, \w+)*)(?= :|$)", found[1], re.MULTILINE) if found else []
    return [name for line in lines for name in line.split(", ")]


def fields_of(value: type) -> list[str]:
    """The fields that a class's own text describes; of a dataclass those are what it is made of, too."""
    made_of = getattr(value, "__dataclass_fields__", {})
    return described(value, "Attributes") + [x for x in described(value, "Parameters") if x in made_of]


# Sections whose lines at the margin are names.
LISTS = {"Parameters": r"\*{0,2}\w+(, \*{0,2}\w+)*( : .*)?", "Raises": r"[\w.]+(, [\w.]+)*"}
LISTS["Attributes"] = LISTS["Parameters"]


def loose_lines(text: str) -> list[str]:
    """Lines of a docstring that stand among names and are none: pages would show them as such."""
    lines, section, found = [*text.splitlines(), ""], "", []
    for line, following in itertools.pairwise(lines):
        if line and re.fullmatch("-{3,}", following):
            section = line
        elif section in LISTS and re.match(r"[^ -]", line) and not re.fullmatch(LISTS[section], line):
            found.append(line)
    return found


def texts(module: str, name: str) -> dict[str, str]:
    """The docstrings of a public name and, of a class, of its public methods."""
    value = getattr(importlib.import_module(module), name)
    members = {name: value}
    if inspect.isclass(value):
        members |= {f"{name}.{key}": x for key, x in vars(value).items() if not key.startswith("_")}
    return {
        key: inspect.getdoc(x) or "" for key, x in members.items() if callable(x) or isinstance(x, property)
    }


def entry(module: str, name: str) -> str:
    value = getattr(importlib.import_module(module), name)
    if inspect.isclass(value):
        text = f".. autoclass:: {module}.{name}\n   :members:\n   :undoc-members:\n"
        fields = fields_of(value)
        return text + (f"   :exclude-members: {', '.join(fields)}\n\n" if fields else "\n")
    kind = "autofunction" if callable(value) else "autodata"
    return f".. {kind}:: {module}.{name}\n\n"


def told(value: object) -> tuple[str, str]:
    """The first paragraph of a docstring, and the others."""
    first, _, others = (inspect.getdoc(value) or "").partition("\n\n")
    return " ".join(first.split()), others


def list_of(module: str, names: Iterable[str]) -> str:
    """Each name as a link, and the first sentence of what it says of itself."""
    rows = ""
    for name in names:
        value = getattr(importlib.import_module(module), name)
        first = told(value)[0] if callable(value) or inspect.ismodule(value) else ""
        sentence = re.split(r"(?<=[.]) ", first)[0]
        rows += f"* :py:obj:`{name} <{module}.{name}>`" + (f": {sentence}\n" if sentence else "\n")
    return rows + "\n"


def files_of(module: str, names: list[str]) -> dict[str, list[str]]:
    """The names of a module by the file that defines them; what stands alone in its file is the module's."""
    values = {name: getattr(importlib.import_module(module), name) for name in names}
    defined = {name: getattr(value, "__module__", module) for name, value in values.items()}
    files = sorted({file for file in defined.values() if re.match(r"otattn\..*\b_", file)})
    shared = {file: [name for name in names if defined[name] == file] for file in files}
    shared = {file: held for file, held in shared.items() if len(held) > 1}
    return {module: [name for name in names if defined[name] not in shared], **shared}


def write_module(folder: Path, module: str, names: list[str]) -> str:
    """Writes pages of the files that a module gathers its names from; returns what its own page lists."""
    files, pages = files_of(module, names), []
    own = files.pop(module)
    text = list_of(module, own) if own else ""
    for file, held in files.items():
        subject = file.split(".")[-1].removeprefix("_").removeprefix(module.removeprefix("otattn.") + "_")
        pages.append(f"{module}/{subject}")
        first, others = told(importlib.import_module(file))
        page = title(f"{module}: {subject}") + f"Of :doc:`{module} <../{module}>`. {first}\n\n{others}\n\n"
        page += list_of(module, held) + "".join(entry(module, name) for name in held)
        write(folder / f"{pages[-1]}.rst", page)
        text += f":doc:`{subject.capitalize()} <{pages[-1]}>`: {first}\n\n" + list_of(module, held)
    return text + (tree(pages, hidden=True) if pages else "") + "".join(entry(module, name) for name in own)


def write_package(folder: Path) -> None:
    rows = ""
    for module, names in package().items():
        first, others = told(importlib.import_module(module))
        rows += f"   * - :doc:`{module}`\n     - {first}\n"
        text = title(module) + f".. py:module:: {module}\n\n{first}\n\n{others}\n\n"
        if module == "otattn":
            # Its calls have long pages: one of each.
            for name in names:
                write(folder / "otattn" / f"{name}.rst", title(f"otattn.{name}") + entry(module, name))
            text += list_of(module, names) + tree((f"otattn/{name}" for name in names), hidden=True)
        else:
            text += write_module(folder, module, names)
        write(folder / f"{module}.rst", text)
    text = title("The Python package") + "Every public name of the installed package, with its types.\n\n"
    text += f".. list-table::\n   :widths: auto\n\n{rows}\n"
    write(folder / "index.rst", text + tree(package(), hidden=True))


# ---- what must hold of the pages -----------------------------------------------------------------


class Outline(html.parser.HTMLParser):
    """The anchors of a page, where its links lead, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.ids.add(value or "")
            elif name == "href" and tag == "a":
                self.links.append(value or "")
            elif name in ("src", "srcset", "data", "poster") or (name == "href" and tag == "link"):
                self.loads.append(value or "")


def wrong_links(site: Path) -> list[str]:
    pages = {path.resolve(): Outline(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    found = []
    for page, outline in pages.items():
        for target in [*outline.links, *outline.loads]:
            if re.match(r"[a-z]+:|//", target):
                if target in outline.loads and not target.startswith("data:"):
                    found.append(f"{page.relative_to(site.resolve())} loads {target}")
                continue
            file, _, anchor = target.partition("#")
            path = (page.parent / unquote(file.split("?")[0])).resolve() if file else page
            if not path.exists():
                found.append(f"{page.relative_to(site.resolve())}: {target} leads nowhere")
            elif anchor and path in pages and unquote(anchor) not in pages[path].ids:
                found.append(f"{page.relative_to(site.resolve())}: {target} has no such anchor")
    for style in site.rglob("*.css"):
        far = re.findall(
            r"(?:url\(|@import) *[\"']?((?:https?:)?//[^\"')]*)", style.read_text(encoding="utf-8")
        )
        found += [f"{style.relative_to(site)} loads {target}" for target in far]
    return found


def documented(site: Path) -> set[str]:
    """The names that the site's inventory has, of C and of Python."""
    packed = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    rows = zlib.decompress(packed).decode("utf-8").splitlines()
    return {row.split(" ")[0] for row in rows if re.match(r"\S+ (?:c|py):", row)}


def missing_names(site: Path) -> list[str]:
    wanted = set(Library().roles)
    for module, names in package().items():
        wanted.update(f"{module}.{name}" for name in names)
    return [f"{name} has no page" for name in sorted(wanted - documented(site))]


def loose_texts() -> list[str]:
    return [
        f"{module}.{name}: '{line}' stands among names; give it a section"
        for module, names in package().items()
        for public in names
        for name, text in texts(module, public).items()
        for line in loose_lines(text)
    ]


def described_twice(site: Path) -> list[str]:
    """Members of classes of the package that the class's own list of fields has, too."""
    found = []
    for page in sorted((site / "python").rglob("*.html")):
        for part in page.read_text(encoding="utf-8").split('<dl class="py class">')[1:]:
            lists = re.findall(r"Variables<span.*?</dd>", part, re.DOTALL)
            fields = set(
                re.findall(r"<li><p><strong>(\w+)</strong>|<p><strong>(\w+)</strong>", "".join(lists))
            )
            for name in re.findall(r'<dt class="sig sig-object py" id="[\w.]+\.(\w+)"', part)[1:]:
                if any(name in pair for pair in fields):
                    found.append(f"{page.relative_to(site)} describes {name} twice")
    return found


SOUND = {
    "index.html": '<h1 id="top"></h1><a href="c/one.html#call"></a><a href="#top"></a><a href="https://x.org"></a>',
    "c/one.html": '<dt id="call"></dt><img src="../index.html"><link href="../index.html">',
}
PLANTS = [
    ("index.html", '<a href="c/two.html"></a>', "c/two.html leads nowhere"),
    ("c/one.html", '<a href="../index.html#bottom"></a>', "#bottom has no such anchor"),
    ("c/one.html", '<img src="two.png">', "two.png leads nowhere"),
    ("c/one.html", '<script src="https://x.org/a.js"></script>', "loads https://x.org/a.js"),
    ("index.html", '<link rel="stylesheet" href="//x.org/a.css">', "loads //x.org/a.css"),
    ("site.css", "a { background: url(https://x.org/a.png) }", "loads https://x.org/a.png"),
]


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        return self_test("site", wrong_links, SOUND, PLANTS)
    if len(sys.argv) != 4:
        print(__doc__)
        return 2
    program, sources, site = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    for folder in (sources, site):
        shutil.rmtree(folder, ignore_errors=True)
    Documents(sources).write()
    Library().write(sources / "c")
    write_program(program, sources / "program")
    write_package(sources / "python")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", f"{sources}-cache"]
    built = subprocess.run([*command, "-c", SETTINGS, "-b", "html", sources, site], check=False)
    if built.returncode != 0:
        return 1
    defects = [*wrong_links(site), *missing_names(site), *described_twice(site), *loose_texts()]
    print("\n".join(defects) if defects else f"site: {len(list(site.rglob('*.html')))} pages in {site}")
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
