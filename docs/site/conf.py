"""Sphinx's settings for the site that scripts/make_site.py makes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.domains.python import PyObject

header = Path(__file__).resolve().parents[2] / "include/otattn.h"
found = re.search(r'OTA_VERSION_STRING "(.*)"', header.read_text(encoding="utf-8"))

project = "otattn"
version = release = found[1] if found else ""
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
smartquotes = False  # two hyphens begin a flag
default_role = "literal"  # docstrings write names in single backticks
add_function_parentheses = False
highlight_language = "text"

# Anchors of headings as the repository's links spell them.
myst_heading_anchors = 4

# "int64 array, shape (rows, columns)" is a sentence: its words are no names of the package.
napoleon_use_ivar = True
for field in PyObject.doc_field_types:
    if field.name != "exceptions":
        field.typerolename = field.bodyrolename = ""

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_maximum_signature_line_length = 88
c_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"otattn {version}"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_show_sourcelink = html_copy_source = html_show_copyright = html_show_sphinx = False
html_use_index = True
# A page that is read from a folder cannot read the others, from which a summary would come.
html_show_search_summary = False


def of_others(_app: Any, _what: str, _name: str, member: Any, skip: bool, _options: Any) -> bool:
    """Passes over what the class of another package put into a class."""
    module = getattr(member, "__module__", None) or "otattn"
    return bool(skip) or not module.startswith(("otattn", "builtins"))


def without_places(_app: Any, _what: str, _name: str, _member: Any, _options: Any, lines: list[str]) -> None:
    """Python's own text of a tuple's field says where it stands and nothing else."""
    if len(lines) > 0 and lines[0].startswith("Alias for field number "):
        lines.clear()


ONE_SENTENCE: dict[str, list[str]] = {}


def keep_sentence(_app: Any, what: str, name: str, _member: Any, _options: Any, lines: list[str]) -> None:
    """The text of a field or property, of which napoleon would take what stands before a colon for a type."""
    if what in ("attribute", "data", "property") and not any(re.fullmatch("-{3,}", line) for line in lines):
        ONE_SENTENCE[name] = list(lines)


def give_sentence(_app: Any, _what: str, name: str, _member: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = ONE_SENTENCE.pop(name, lines)


def one_by_one(_app: Any, what: str, _name: str, _member: Any, _options: Any, lines: list[str]) -> None:
    """Attributes that share an entry get one each, as parameters do: napoleon takes names for a type."""
    if what != "class":
        return
    entries: list[list[str]] = [[]]
    for line in lines:
        if line and not line.startswith(" "):
            entries.append([])
        entries[-1].append(line)
    lines.clear()
    section = ""
    for entry, following in zip(entries, [*entries[1:], [""]], strict=True):
        head = entry[0] if entry else ""
        if head and re.fullmatch("-+", following[0]):
            section = head
        shared = re.fullmatch(r"(\w+(?:, \w+)+) : (.*)", head)
        if section == "Attributes" and shared:
            for name in shared[1].split(", "):
                lines += [f"{name} : {shared[2]}", *entry[1:]]
        else:
            lines += entry


def dashes(_app: Any, document: nodes.document) -> None:
    """Between an argument and what is said of it; in sentences two hyphens stay."""
    for text in list(document.findall(nodes.Text)):
        if text == " -- ":
            text.parent.replace(text, nodes.Text(" \N{EN DASH} "))


def setup(app: Any) -> None:
    app.connect("autodoc-skip-member", of_others)
    # Napoleon's own has the priority 500.
    for priority, handler in (
        (300, without_places),
        (400, one_by_one),
        (400, keep_sentence),
        (600, give_sentence),
    ):
        app.connect("autodoc-process-docstring", handler, priority=priority)
    app.connect("doctree-read", dashes)
