"""Has a compiler read every C source of a build, as CMake would call it, without making code.

    check_warnings.py BUILD [--jobs N]

BUILD was configured with CMAKE_EXPORT_COMPILE_COMMANDS and OTATTN_WERROR, and need not be built: sources that
the build itself would write are left out. What clang warns of it finds before it makes code, which is a
sixth of the work. (gcc finds some while it optimises: a build is what shows them.)
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def reading(entry: dict[str, str]) -> list[str]:
    """The entry's command without its output."""
    words = shlex.split(entry["command"])
    at = words.index("-o")
    return [*words[:at], *words[at + 2 :], "-fsyntax-only"]


def complaints(entry: dict[str, str]) -> str:
    done = subprocess.run(reading(entry), cwd=entry["directory"], capture_output=True, text=True, check=False)
    return done.stderr or (f"{entry['file']}: status {done.returncode}\n" if done.returncode else "")


def main() -> int:
    parser = argparse.ArgumentParser(description="what a compiler warns of, without a build")
    parser.add_argument("build", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    words = parser.parse_args()
    entries = json.loads((words.build / "compile_commands.json").read_text(encoding="utf-8"))
    entries = [entry for entry in entries if Path(entry["file"]).is_file()]
    with ThreadPoolExecutor(words.jobs) as pool:
        found = [text for text in pool.map(complaints, entries) if text]
    sys.stdout.write("".join(found))
    print(f"{len(entries)} sources read, {len(found)} with complaints")
    return 1 if found or not entries else 0


if __name__ == "__main__":
    sys.exit(main())
