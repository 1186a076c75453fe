"""What files of macOS need and show, read on any machine: none of them can be run here.

    mach_o.py FILE [MAP]
    mach_o.py --hide ARCHIVE

Fails where FILE needs more than the system's own library and those of its folder, does not look for these
beside itself, needs a system after 11.0, is for ARM and has no signature, where a name of MAP
(cmake/otattn.map) is missing or another is shown, or where a program shows any name.

--hide makes the names of an archive's objects private to what they are linked into, as if they had been
compiled with hidden visibility: a program shows every other one, and Zig's linker takes no list of names.
"""

import re
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

MAGIC, PROGRAM = 0xFEEDFACF, 2
SYMBOLS, LOAD, PLACE, SIGNATURE, BUILD = 0x2, 0xC, 0x1C, 0x1D, 0x32
ARM = 0x100000C  # whose kernel ends a process of a file without a signature
# Of every image, not of a library.
MARKS = {"__dso_handle", "_mh_dylib_header", "_mh_execute_header"}
EXTERNAL, PRIVATE, UNDEFINED, KIND, DEBUG = 0x01, 0x10, 0x0, 0x0E, 0xE0


def load_commands(image: bytes) -> Iterator[tuple[int, int]]:
    """Kind and place of each."""
    at = 32
    for _ in range(struct.unpack_from("<5I", image, 0)[4]):
        kind, size = struct.unpack_from("<2I", image, at)
        yield kind, at
        at += size


def shown(image: bytes, at: int) -> Iterator[tuple[int, str]]:
    """Entries of the table of the command at `at` that other files can link, and their names."""
    table, count, strings = struct.unpack_from("<3I", image, at + 8)
    for entry in range(table, table + 16 * count, 16):
        place, flags = struct.unpack_from("<IB", image, entry)
        if flags & EXTERNAL and not flags & (PRIVATE | DEBUG) and flags & KIND != UNDEFINED:
            begin = strings + place
            yield entry, image[begin : image.index(0, begin)].decode().removeprefix("_")


def read(image: bytes) -> tuple[list[str], list[str], tuple[int, int], set[str], bool]:
    """Libraries, where they are sought, the oldest system, names shown, whether signed if it must be."""
    magic, processor = struct.unpack_from("<2I", image, 0)
    if magic != MAGIC:
        raise ValueError("no file of macOS with 64 bits")
    needs: list[str] = []
    places: list[str] = []
    oldest, names, signed = (0, 0), set[str](), processor != ARM
    for kind, at in load_commands(image):
        if kind & 0x7FFFFFFF in {LOAD, PLACE}:
            begin = at + struct.unpack_from("<I", image, at + 8)[0]
            found = needs if kind & 0x7FFFFFFF == LOAD else places
            found.append(image[begin : image.index(0, begin)].decode())
        elif kind == BUILD:
            version = struct.unpack_from("<I", image, at + 12)[0]
            oldest = (version >> 16, version >> 8 & 0xFF)
        elif kind == SIGNATURE:
            signed = True
        elif kind == SYMBOLS:
            names.update(name for _, name in shown(image, at))
    return needs, places, oldest, names, signed


def names_of_map(path: Path) -> set[str]:
    """What a map of versions lists by name."""
    return set(re.findall(r"^ +(ota_\w+);", path.read_text("utf-8"), re.MULTILINE))


def hide(path: Path) -> None:
    """Marks names in place; neither sizes nor the archive's own table change."""
    archive, at = bytearray(path.read_bytes()), 8
    while at < len(archive):
        name, size = archive[at : at + 16].decode(), int(archive[at + 48 : at + 58])
        begin, end = at + 60, at + 60 + size
        if name.startswith("#1/"):  # a long name lies before the file
            begin += int(name[3:])
        if int.from_bytes(archive[begin : begin + 4], "little") == MAGIC:
            member = bytes(archive[begin:end])
            for kind, command in load_commands(member):
                for entry, _ in shown(member, command) if kind == SYMBOLS else ():
                    archive[begin + entry + 4] |= PRIVATE
        at = end + size % 2
    path.write_bytes(archive)


def main() -> int:
    if sys.argv[1] == "--hide":
        hide(Path(sys.argv[2]))
        return 0
    path = Path(sys.argv[1])
    image = path.read_bytes()
    needs, places, oldest, names, signed = read(image)
    system = f"from macOS {oldest[0]}.{oldest[1]}"
    where = ", ".join(places) or "no place"
    print(f"{path.name}: needs {', '.join(needs)}, in {where}; {system}; shows {len(names)} names")
    strange = [name for name in needs if not name.startswith(("/usr/lib/libSystem", "@rpath/libotattn"))]
    if any(name.startswith("@rpath") for name in needs) and not any(
        p.startswith("@loader_path") for p in places
    ):
        strange.append("no place beside itself")
    if sys.argv[2:]:
        strange += sorted(names_of_map(Path(sys.argv[2])) ^ (names - MARKS))
    elif struct.unpack_from("<I", image, 12)[0] == PROGRAM:
        strange += sorted(names - MARKS)
    strange += [] if signed else ["no signature"]
    if strange:
        print("not expected:", ", ".join(strange))
    return 1 if strange or not (0, 0) < oldest <= (11, 0) else 0


if __name__ == "__main__":
    sys.exit(main())
