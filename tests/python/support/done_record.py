"""What earlier runs of a long campaign finished without a finding, so that the next run goes on behind it.

record = DoneRecord(path, build, fields)     build: what was tested, a digest of its files (`digest`)
record.rows              the rows that this build finished; those of other builds do not count
record.add({...})        a row, in the file when the call returns

Without a path nothing is kept and nothing is skipped. Several processes may add rows to one file: a row is
one write behind the end.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts"))

from row_file import RowFile


def digest(*files: Path) -> str:
    """Sixteen digits of the SHA-256 of the files' bytes, one behind the other."""
    whole = hashlib.sha256()
    for file in files:
        whole.update(file.read_bytes())
    return whole.hexdigest()[:16]


class DoneRecord:
    def __init__(self, path: str | os.PathLike[str] | None, build: str, fields: Iterable[str]) -> None:
        self.build = build
        self.table = RowFile(Path(path), ["build", *fields]) if path else None
        found = self.table.read() if self.table else []
        self.rows = [row for row in found if row["build"] == build]
        if self.table and not self._ends_whole():
            # Half a line of a killed run would swallow the next row.
            with self.table.writing(found):
                pass

    def _ends_whole(self) -> bool:
        assert self.table is not None
        return self.table.path.exists() and self.table.path.read_bytes().endswith(b"\n")

    def add(self, row: Mapping[str, Any]) -> None:
        whole = {"build": self.build, **row}
        self.rows.append({name: str(value) for name, value in whole.items()})
        if self.table:
            with self.table.path.open("a", newline="") as file:
                file.write(self.table.text([whole], False))


def missing(done: Iterable[tuple[int, int]], last: int) -> list[tuple[int, int]]:
    """The ranges [first, end) of 0 ... last - 1 that no range of `done` covers, in order."""
    found, first = [], 0
    for begin, end in sorted(done):
        if begin > first:
            found.append((first, min(begin, last)))
        first = max(first, end)
        if first >= last:
            return found
    return [*found, (first, last)] if first < last else found
