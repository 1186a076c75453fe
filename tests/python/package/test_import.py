"""Importing the package is quick and drags nothing in."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys, time
import numpy
begin = time.process_time()
import otattn
heavy = {"torch", "jax", "transformers", "scipy", "altair"}
print(time.process_time() - begin, *sorted(heavy & set(sys.modules)))
"""


def test_import() -> None:
    found = []
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
        seconds, *dragged = done.stdout.split()
        assert dragged == []
        found.append(float(seconds))
    assert min(found) <= 0.060
