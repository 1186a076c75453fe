"""scripts/long_text.py on a short text: what it writes is a model, what it says is measured and adds up."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from program import PROGRAM, ROOT

pytest.importorskip("transformers")
SCRIPT = ROOT / "scripts" / "long_text.py"


def test_a_short_text(tmp_path: Path) -> None:
    words = ["--layers", "2", "--tokens", "300", "--weights", "1:7,0:2,1:4", "--keep", "--program", PROGRAM]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "-o", str(tmp_path / "out"), *words], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    line = r"^300 tokens, 2 layers: peak (0\.\d\d) GB, \d+ s of a processor, 0\.00 GB written$"
    found = re.search(line, done.stdout, re.M)
    assert found is not None and 0.01 < float(found[1]) < 0.3, done.stdout
    sys.path.insert(0, str(SCRIPT.parent))
    try:
        import long_text
    finally:
        sys.path.pop(0)
    file = tmp_path / "out" / "captured.safetensors"
    far = long_text.check(file, 300, {0: [2], 1: [4, 7]})
    assert max(far.values()) < long_text.TOLERANCE
    # Another head's weights are not what its keys received.
    assert long_text.check(file, 300, {0: [3], 1: [4, 7]})["columns"] > 0.01
    bits = long_text.bf16(np.array([1.0, -2.5, 1.0 + 2.0**-8, 1.0 + 3 * 2.0**-8]))
    assert (bits.astype(np.uint32) << 16).view(np.float32).tolist() == [1.0, -2.5, 1.0, 1.015625]
