"""What a page of the report says, and what the folder of its run holds."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

from program import answer


def metrics_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "metrics.json").read_text(encoding="utf-8"))


def answers(page: Path) -> list[tuple[str, str | None]]:
    """The sentences at the top, all of them, with the id that each leads to."""
    text = page.read_text(encoding="utf-8")
    found: list[tuple[str, str | None]] = []
    for item in re.findall(r"<li>(.*?)</li>", text, re.DOTALL):
        link = re.search(r' <a href="#([^"]*)">[^<]*</a>$', item)
        found.append((item[: link.start()] if link else item, link and link[1]))
    return found


def told(dom: str) -> dict[str, Any]:
    found = re.search(r'data-said="([^"]*)"', dom)
    assert found is not None
    return dict(json.loads(html.unescape(found[1])))


def said_of(metrics: dict[str, Any], folder: Path) -> dict[str | None, str]:
    """The sentences of the folder with other metrics, by the id that each leads to."""
    (folder / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    answer(folder.parent, "report", folder.name)
    return {name: sentence for sentence, name in answers(folder / "report.html")}


def without_intervals(part: Any) -> Any:
    """As one window leaves it."""
    if isinstance(part, list):
        return [without_intervals(one) for one in part]
    if not isinstance(part, dict):
        return part
    return {name: None if name == "ci95" else without_intervals(one) for name, one in part.items()}
