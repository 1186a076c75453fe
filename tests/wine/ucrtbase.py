"""Windows' C library out of Wine's, with the functions that ucrtbase.c beside this file has.

    ucrtbase.py WINES.dll FOLDER

Writes FOLDER/ucrtwine.dll, the same code without the mark by which Wine takes a file for its own, and
FOLDER/ucrtbase.def, the list of which a linker makes ucrtbase.dll.
"""

import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "scripts"))
from dll_exports import exports  # noqa: E402 found there

MARK = b"Wine builtin DLL"


def main() -> int:
    image, folder = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2])
    assert image.count(MARK) == 1 and image.index(MARK) == 0x40, "not one of Wine's DLLs"
    (folder / "ucrtwine.dll").write_bytes(image.replace(MARK, bytes(len(MARK))))
    listed = re.findall(r"^[A-Z_]+\((c\w+)", (HERE / "ucrtbase.c").read_text(encoding="utf-8"), re.MULTILINE)
    ours = {name + kind for name in listed for kind in ("", "f", "l")}
    names = [name for name, _ in exports(image)]
    assert ours <= set(names), sorted(ours - set(names))
    lines = [f"{name}={name}_" if name in ours else f"{name}=ucrtwine.{name}" for name in names]
    (folder / "ucrtbase.def").write_text("\n".join(["EXPORTS", *lines, ""]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
