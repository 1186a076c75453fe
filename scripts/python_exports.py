"""The list of what python3.dll exports, for a linker, from CPython's source.

python_exports.py SOURCE FILE.def     SOURCE: where it lists them
"""

import re
import sys
from pathlib import Path

source, target = map(Path, sys.argv[1:])
text = source.read_text(encoding="utf-8")
lines = ["LIBRARY python3.dll", "EXPORTS"]
lines += re.findall(r"^EXPORT_FUNC\((\w+)\)", text, re.MULTILINE)
lines += [f"{name} DATA" for name in re.findall(r"^EXPORT_DATA\((\w+)\)", text, re.MULTILINE)]
target.write_text("\n".join([*lines, ""]), encoding="utf-8")
