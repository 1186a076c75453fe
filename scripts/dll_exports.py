"""What a DLL exports.

dll_exports.py FILE.dll FILE.def    writes the list of which a linker makes an import library
dll_exports.py FILE.dll FILE.map    fails where it shows other names than FILE.map lists (cmake/otattn.map)
"""

import struct
import sys
from pathlib import Path

from mach_o import names_of_map


def exports(image: bytes) -> list[tuple[str, bool]]:
    """Names, and whether each is data: what lies in a section that does not run."""
    header = struct.unpack_from("<I", image, 0x3C)[0]
    sections, optional = struct.unpack_from("<H", image, header + 6)[0], header + 24
    table = optional + struct.unpack_from("<H", image, header + 20)[0]
    rows = [struct.unpack_from("<8s6I2HI", image, table + 40 * k) for k in range(sections)]

    def section(address: int) -> tuple[int, int]:
        """Where the address lies in the file, and what its section is."""
        for row in rows:
            if row[2] <= address < row[2] + max(row[1], row[3]):
                return address - row[2] + row[4], row[9]
        raise ValueError(f"no section holds {address:#x}")

    def text(address: int) -> str:
        begin = section(address)[0]
        return image[begin : image.index(0, begin)].decode()

    # The directory of a 64-bit image begins behind 112 bytes.
    directory = section(struct.unpack_from("<I", image, optional + 112)[0])[0]
    names, functions, name_table, ordinals = struct.unpack_from("<4I", image, directory + 24)
    found = []
    for k in range(names):
        name = text(struct.unpack_from("<I", image, section(name_table)[0] + 4 * k)[0])
        ordinal = struct.unpack_from("<H", image, section(ordinals)[0] + 2 * k)[0]
        address = struct.unpack_from("<I", image, section(functions)[0] + 4 * ordinal)[0]
        found.append((name, not section(address)[1] & 0x20000000))
    return found


def main() -> int:
    library, target = map(Path, sys.argv[1:])
    found = exports(library.read_bytes())
    if target.suffix == ".map":
        strange = sorted(names_of_map(target) ^ {name for name, _ in found})
        print(f"{library.name}: shows {len(found)} names" + "".join(f"; not expected: {n}" for n in strange))
        return 1 if strange else 0
    lines = [f"LIBRARY {library.name}", "EXPORTS"]
    lines += [f"{name} DATA" if data else name for name, data in found]
    target.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
