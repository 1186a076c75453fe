"""Fails when a program or shared library lacks the hardening that cmake/hardening.cmake asks for.

    position-independent   the file can be loaded at any address (a program: PIE)
    read-only tables       a GNU_RELRO segment, and BIND_NOW, so that the tables of addresses end up in it
    no executable data     the stack is not executable, and no segment is both writable and executable
    no text relocations    code is never written to when it is loaded
    no search path         neither RPATH nor RUNPATH, by which a library could be found in a strange folder
    stack protector        __stack_chk_fail is called
    checked calls          a *_chk function of libc is called

check_hardening.py FILE...      judges ELF files with binutils' readelf
check_hardening.py --self-test  compiles a program without one of them after another and expects each missed
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

DYNAMIC = re.compile(r"\((\w+)\)\s+(.*)")
SEGMENT = re.compile(r"^\s+(\w+)\s+(?:0x[0-9a-f]+\s+){5}([R ][W ][E ])", re.MULTILINE)


def readelf(option: str, path: Path) -> str:
    return subprocess.run(
        ["readelf", "-W", option, str(path)], capture_output=True, check=True, text=True
    ).stdout


def missing(path: Path) -> list[str]:
    """What the file lacks, a phrase each."""
    dynamic = DYNAMIC.findall(readelf("-d", path))
    tags = {tag for tag, _ in dynamic}
    flags = " ".join(text for tag, text in dynamic if tag in ("FLAGS", "FLAGS_1"))
    segments = SEGMENT.findall(readelf("-l", path))
    symbols = readelf("--dyn-syms", path)
    is_program = any(kind == "INTERP" for kind, _ in segments)
    stack = [access for kind, access in segments if kind == "GNU_STACK"]
    # Bit 5 of DT_FLAGS is "BIND_NOW", bit 0 of DT_FLAGS_1 "NOW".
    bound = "BIND_NOW" in tags or "NOW" in flags.replace("BIND_NOW", "NOW").split()
    wanted = {
        "position-independent": "DYN" in readelf("-h", path) and (not is_program or "PIE" in flags),
        "read-only tables of addresses": any(kind == "GNU_RELRO" for kind, _ in segments) and bound,
        "stack that is not executable": bool(stack) and all("E" not in access for access in stack),
        "no segment both writable and executable": all("W" not in a or "E" not in a for _, a in segments),
        "no text relocations": "TEXTREL" not in tags and "TEXTREL" not in flags,
        "no search path of libraries": not tags & {"RPATH", "RUNPATH"},
        "stack protector": "__stack_chk_fail" in symbols,
        "checked calls of libc": re.search(r"__\w+_chk\b", symbols) is not None,
    }
    return [phrase for phrase, holds in wanted.items() if not holds]


# A frame with an array, and a call whose size the compiler knows and whose length it does not.
SOURCE = """
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
    char text[16];
    strcpy(text, argv[argc - 1]);
    return puts(text) < 0;
}
"""
HARD = (
    "-O2 -fPIE -pie -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 "
    "-Wl,-z,relro,-z,now,-z,noexecstack"
)
PLANTED = {
    "position-independent": ("-fPIE -pie", "-fno-pie -no-pie"),
    "read-only tables of addresses": ("-z,now", "-z,lazy"),
    "stack that is not executable": ("-z,noexecstack", "-z,execstack"),
    "stack protector": ("-fstack-protector-strong", "-fno-stack-protector"),
    "checked calls of libc": (" -D_FORTIFY_SOURCE=2", ""),
    "no search path of libraries": ("-O2", "-O2 -Wl,-rpath,/nowhere"),
}


def self_test() -> int:
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        source, program = Path(name) / "program.c", Path(name) / "program"
        source.write_text(SOURCE, encoding="utf-8")
        for phrase, (there, instead) in {"nothing": ("", ""), **PLANTED}.items():
            flags = HARD.replace(there, instead, 1) if there else HARD
            subprocess.run(["cc", *flags.split(), "-o", str(program), str(source)], check=True)
            found = missing(program)
            if (phrase not in found) if phrase != "nothing" else found:
                failed += 1
                print(f"hardening: lacking {phrase}, the check found {found}")
    print(f"hardening: {len(PLANTED) + 1 - failed} of {len(PLANTED) + 1} programs judged as they were built")
    return failed


def main() -> int:
    words = sys.argv[1:]
    if words == ["--self-test"]:
        return 1 if self_test() else 0
    failed = 0
    for path in map(Path, words):
        lacking = missing(path)
        failed += len(lacking)
        for phrase in lacking:
            print(f"{path}: lacks: {phrase}")
    if not failed:
        print(f"hardening: {len(words)} files have all of it")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
