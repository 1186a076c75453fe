"""Commands that documentation prints and tests run."""

from __future__ import annotations

import re
from pathlib import Path


def commands_of(root: Path, name: str, page: str = "docs/research/study.md") -> list[str]:
    """The commands of the page's block ```sh NAME, lines that end in a backslash joined."""
    found = re.search(rf"^```sh {name}\n(.*?)^```", (root / page).read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None, f"{page} has no block {name}"
    return found[1].replace("\\\n", " ").strip().split("\n")
