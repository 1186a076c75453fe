"""The Python packages of an environment with the hash of the file that pip takes for each.

    lock_packages.py ENVIRONMENT FILE     ENVIRONMENT/bin/python's packages into FILE

FILE is one that `pip install --require-hashes --no-deps -r FILE` takes: NAME==VERSION --hash=sha256:... a
line. pip itself chooses the files (a dry run, which installs nothing), so the hashes are those of this
machine's Python and processor. `OTATTN_LOCKED=1 ./dev WORD` installs from these files and refuses any other.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# What an environment is made with.
TOOLS = {"pip", "setuptools", "wheel", "otattn"}
LINE = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)$")


def pip(python: Path, *words: str) -> str:
    command = [str(python), "-m", "pip", *words]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def packages(python: Path) -> list[str]:
    found = [line for line in pip(python, "list", "--format=freeze").split() if LINE.match(line)]
    return sorted((line for line in found if line.split("==")[0].lower() not in TOOLS), key=str.lower)


def hashes(python: Path, wanted: list[str]) -> dict[str, str]:
    """The sha256 of the file that pip would install, of each NAME==VERSION."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        dry = ("install", "-q", "--dry-run", "--ignore-installed", "--no-deps", "--report", str(report))
        pip(python, *dry, *wanted)
        rows = json.loads(report.read_text(encoding="utf-8"))["install"]
    found = {}
    for row in rows:
        name = re.sub(r"[-_.]+", "-", row["metadata"]["name"]).lower()
        archive = row["download_info"].get("archive_info", {})
        found[name] = archive.get("hashes", {}).get("sha256", "")
    return found


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__)
        return 2
    python, file = Path(sys.argv[1]) / "bin/python", Path(sys.argv[2])
    wanted = packages(python)
    found = hashes(python, wanted)
    lines = [
        f"# Written by scripts/lock_packages.py for CPython {platform.python_version().rsplit('.', 1)[0]}"
        f" on {platform.system()} {platform.machine()}."
    ]
    for line in wanted:
        digest = found[re.sub(r"[-_.]+", "-", line.split("==")[0]).lower()]
        if not digest:
            raise SystemExit(f"pip tells no hash of {line}")
        lines.append(f"{line} --hash=sha256:{digest}")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{file}: {len(wanted)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
