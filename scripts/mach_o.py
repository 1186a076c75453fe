"""What files of macOS need and show, read on any machine: none of them can be run here.

    mach_o.py FILE [MAP]

Fails where FILE needs more than the system's own library and those of its folder, does not look for these
beside itself, needs a system after 11.0, is for ARM and has no signature, or where a name of MAP
(cmake/otattn.map) is missing or another is shown.
"""

import re
import struct
import sys
from pathlib import Path

SYMBOLS, LOAD, PLACE, SIGNATURE, BUILD = 0x2, 0xC, 0x1C, 0x1D, 0x32
ARM = 0x100000C  # whose kernel ends a process of a file without a signature
# Of every image, not of a library.
MARKS = {"__dso_handle", "_mh_dylib_header", "_mh_execute_header"}
EXTERNAL, PRIVATE, UNDEFINED, KIND = 0x01, 0x10, 0x0, 0x0E


def read(image: bytes) -> tuple[list[str], list[str], tuple[int, int], set[str], bool]:
    """Libraries, where they are sought, the oldest system, names shown, whether signed if it must be."""
    magic, processor, _, _, commands = struct.unpack_from("<5I", image, 0)
    if magic != 0xFEEDFACF:
        raise ValueError("no file of macOS with 64 bits")
    needs: list[str] = []
    places: list[str] = []
    oldest, names, signed, at = (0, 0), set(), processor != ARM, 32
    for _ in range(commands):
        kind, size = struct.unpack_from("<2I", image, at)
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
            table, count, strings = struct.unpack_from("<3I", image, at + 8)
            for k in range(count):
                place, flags = struct.unpack_from("<IB", image, table + 16 * k)
                if flags & EXTERNAL and not flags & PRIVATE and flags & KIND != UNDEFINED:
                    begin = strings + place
                    names.add(image[begin : image.index(0, begin)].decode().removeprefix("_"))
        at += size
    return needs, places, oldest, names, signed


def names_of_map(path: Path) -> set[str]:
    """What a map of versions lists by name."""
    return set(re.findall(r"^ +(ota_\w+);", path.read_text("utf-8"), re.MULTILINE))


def main() -> int:
    path = Path(sys.argv[1])
    needs, places, oldest, names, signed = read(path.read_bytes())
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
    strange += [] if signed else ["no signature"]
    if strange:
        print("not expected:", ", ".join(strange))
    return 1 if strange or not (0, 0) < oldest <= (11, 0) else 0


if __name__ == "__main__":
    sys.exit(main())
