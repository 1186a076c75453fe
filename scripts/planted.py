"""The self-test of a check: a small sound tree has no defect, and each planted defect is the one found."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


def self_test(
    title: str,
    check: Callable[[Path], list[str]],
    sound: Mapping[str, str],
    plants: Sequence[tuple[str, str, str]],
) -> int:
    """Plants one defect after another; returns the exit status.

    A plant is the path of a file, the text added to it (the whole file, where the sound tree has none), and
    words of the sentence that has to name the file and the defect.
    """
    failed = 0
    for name, text, words in [("", "", ""), *plants]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            planted = {name: sound.get(name, "") + text} if name else {}
            for path, content in {**sound, **planted}.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(content, encoding="utf-8")
            defects = check(root)
            if len(defects) != bool(name) or not all(name in d and words in d for d in defects):
                failed += 1
                print(f"planted {name or 'nothing'}: expected {words!r}, got {defects}")
    print(f"{title} self-test: {len(plants) + 1 - failed} of {len(plants) + 1} as expected")
    return 1 if failed else 0
