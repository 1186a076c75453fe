"""What files of macOS show, read and changed on a machine that runs none: files of a header and names."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

from program import ROOT

DEFINED, EXTERNAL, PRIVATE = 0x0E, 0x01, 0x10
SYMBOLS, BUILD = 0x2, 0x32
OBJECT, PROGRAM, X86 = 1, 2, 0x1000007


def image(kind: int, names: dict[str, int]) -> bytes:
    """A file of that kind whose table holds the names, each with its flags."""
    strings, entries = b"\0", b""
    for name, flags in names.items():
        entries += struct.pack("<IBBHQ", len(strings), flags, 1, 0, 0)
        strings += name.encode() + b"\0"
    build = struct.pack("<6I", BUILD, 24, 1, 11 << 16, 11 << 16, 0)
    begin = 32 + 24 + len(build)
    table = struct.pack("<6I", SYMBOLS, 24, begin, len(names), begin + len(entries), len(strings))
    header = struct.pack("<8I", 0xFEEDFACF, X86, 0, kind, 2, 24 + len(build), 0, 0)
    return header + build + table + entries + strings


def member(name: bytes, data: bytes) -> bytes:
    """As `ar` of macOS writes it, whose names lie before the file."""
    data = name + data
    head = b"#1/%-13d%-12d%-6d%-6d%-8o%-10d`\n" % (len(name), 0, 0, 0, 0o644, len(data))
    return head + data + b"\n" * (len(data) % 2)


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "scripts/mach_o.py", *map(str, words)], capture_output=True, text=True
    )


def test_a_program_that_shows_a_name_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "program"
    names = {"_hidden": DEFINED | EXTERNAL | PRIVATE, "_local": DEFINED, "_printf": EXTERNAL}
    names["__mh_execute_header"] = DEFINED | EXTERNAL
    program.write_bytes(image(PROGRAM, names))
    assert run(program).returncode == 0
    program.write_bytes(image(PROGRAM, names | {"_ota_shown": DEFINED | EXTERNAL}))
    found = run(program)
    assert (found.returncode, "not expected: ota_shown\n" in found.stdout) == (1, True)


def test_names_of_an_archive_are_made_private(tmp_path: Path) -> None:
    shown = {"_ota_first": DEFINED | EXTERNAL, "_malloc": EXTERNAL, "_local": DEFINED}
    hidden = shown | {"_ota_first": DEFINED | EXTERNAL | PRIVATE}
    table = member(b"__.SYMDEF\0\0\0", b"\0" * 9)
    before, after = (
        b"!<arch>\n"
        + table
        + member(b"odd.o", image(OBJECT, names))
        + member(b"even.o\0\0", image(OBJECT, names))
        for names in (shown, hidden)
    )
    archive = tmp_path / "libboth.a"
    for given in (before, after):  # also where they are private already
        archive.write_bytes(given)
        assert run("--hide", archive).returncode == 0
        assert archive.read_bytes() == after
