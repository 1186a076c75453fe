"""The list of what python3.dll exports, for a linker, from CPython's source.

python_exports.py SOURCE FILE.def [LIBRARY]    SOURCE: where it lists them
                                               LIBRARY: the DLL that has them, named for each then
"""

import re
import sys
from pathlib import Path

source, target = map(Path, sys.argv[1:3])
text = source.read_text(encoding="utf-8")
names = [(name, "") for name in re.findall(r"^EXPORT_FUNC\((\w+)\)", text, re.MULTILINE)]
names += [(name, " DATA") for name in re.findall(r"^EXPORT_DATA\((\w+)\)", text, re.MULTILINE)]
lines = ["LIBRARY python3.dll", "EXPORTS"]
lines += [f"{name}={sys.argv[3]}.{name}{data}" if sys.argv[3:] else f"{name}{data}" for name, data in names]
target.write_text("\n".join([*lines, ""]), encoding="utf-8")
