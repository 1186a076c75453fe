"""`python -m otattn ARGUMENTS`: the program, in the place of this process.

The command `otattn` runs this file too, without importing the package: what it needs stands here.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

# The contract's code of a file that is missing.
EXIT_IO = 6
AGAIN = "install the package again (pip install --force-reinstall --no-deps .)"


def _folders() -> list[Path]:
    """Where the package's files lie: more than one folder where it is installed in editable mode."""
    spec = importlib.util.find_spec("otattn")
    return [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []


def missing(word: str, folders: list[Path]) -> str:
    """The sentence that says why the package has no `word` ("program" or "models"), and what to do."""
    packages = ""
    for folder in folders:
        found = folder / "missing.txt"
        for line in found.read_text(encoding="utf-8").splitlines() if found.exists() else ():
            name, _, rest = line.partition(":")
            packages = rest.strip() if name == word else packages
    begin = f"this installation of the Python package has no {word}"
    if not packages:
        return f"{begin}; {AGAIN}"
    return (
        f"{begin}, since packages of the system were missing when it was built; "
        f"sudo apt-get install {packages}, then {AGAIN}"
    )


def main() -> None:
    """Runs the program, whose exit code is this process's."""
    folders = _folders()
    for folder in folders:
        program = folder / ("otattn.exe" if sys.platform == "win32" else "bin/otattn")
        if program.exists():
            sys.stdout.flush()
            try:
                if sys.platform == "win32":  # where exec ends this process before the program has ended
                    # Ctrl-C reaches the program, too, which ends in order; here it would kill it.
                    signal.signal(signal.SIGINT, signal.SIG_IGN)
                    raise SystemExit(subprocess.call([program, *sys.argv[1:]]))
                os.execv(program, ["otattn", *sys.argv[1:]])
            except OSError as error:  # it is of another system
                print(f"otattn: {program} does not run here: {error.strerror}; {AGAIN}", file=sys.stderr)
                raise SystemExit(EXIT_IO) from None
    print(f"otattn: {missing('program', folders)}", file=sys.stderr)
    raise SystemExit(EXIT_IO)


if __name__ == "__main__":
    main()
