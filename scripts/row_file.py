"""Files of a study that a kill at any moment leaves absent or whole: rows as they come, and texts.

table = RowFile(path, fields)
rows = table.read()                  what earlier runs finished; half a line is none
with table.writing(rows) as add:     these rows again, in a new file that takes the old one's place
    add(row)                         a line, in the file when the call returns
write_whole(path, text)
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def write_whole(path: Path, text: str) -> None:
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(text)
    partial.replace(path)


class RowFile:
    """A CSV file with a line of names, rows in the order in which they came."""

    def __init__(self, path: Path, fields: Iterable[str]) -> None:
        self.path, self.fields = path, list(fields)

    def text(self, rows: Iterable[Mapping[str, Any]], heading: bool) -> str:
        out = io.StringIO()
        writer = csv.DictWriter(out, self.fields)
        if heading:
            writer.writeheader()
        writer.writerows(rows)
        return out.getvalue()

    def read(self) -> list[dict[str, str]]:
        if not self.path.exists():
            return []
        whole, _, _ = self.path.read_bytes().decode(errors="replace").rpartition("\n")
        found = list(csv.DictReader(io.StringIO(whole, newline="")))
        return [row for row in found if None not in row and None not in row.values()]

    @contextmanager
    def writing(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[Callable[[Mapping[str, Any]], None]]:
        partial = self.path.with_name(f"{self.path.name}.partial")
        with partial.open("w", newline="") as file:
            file.write(self.text(rows, True))
            file.flush()
            partial.replace(self.path)

            def add(row: Mapping[str, Any]) -> None:
                file.write(self.text([row], False))
                file.flush()

            yield add
