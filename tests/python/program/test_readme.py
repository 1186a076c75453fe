"""README's first screen: its picture is what the program computes, its lines of C compile and run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from program import PROGRAM, ROOT

sys.path.insert(0, str(ROOT / "scripts"))
import draw_rule

LIBRARY = Path(PROGRAM).parent / "libotattn.a"


def test_the_picture_is_current(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert draw_rule.main([PROGRAM, "--check"]) == 0
    # It is noticed when a rule, or one number of the picture, is another.
    drawn = draw_rule.IMAGE.read_text(encoding="utf-8")
    changed = tmp_path / "rule.svg"
    changed.write_text(drawn.replace("fullest token: 16.1", "fullest token: 15.9"), encoding="utf-8")
    monkeypatch.setattr(draw_rule, "IMAGE", changed)
    monkeypatch.setattr(draw_rule, "ROOT", tmp_path)
    monkeypatch.setattr(draw_rule, "picture", lambda program: drawn)
    assert draw_rule.main([PROGRAM, "--check"]) == 1
    changed.write_text(drawn.replace("softmax/exact", "softmax/prefix"), encoding="utf-8")
    assert draw_rule.main([PROGRAM, "--check"]) == 1


def test_the_lines_of_c_run(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None or not LIBRARY.exists():
        pytest.skip("no C compiler, or no static library in the build")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```c\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert block.count("\n") == 5
    q, k, v = np.random.default_rng(0).standard_normal((3, 8, 128, 64)).astype(np.float32)
    np.concatenate([q, k, v]).tofile(tmp_path / "qkv")
    (tmp_path / "main.c").write_text(
        "#include <otattn.h>\n#include <stdio.h>\n"
        "static float q[65536], k[65536], v[65536], out[65536];\nint main(void) {\n"
        'ota_error error; ota_result result = {.size = sizeof result};\nFILE *in = fopen("qkv", "rb");\n'
        "if (fread(q, 4, 65536, in) + fread(k, 4, 65536, in) + fread(v, 4, 65536, in) != 196608) return 1;\n"
        f"{block}return fwrite(out, 4, 65536, stdout) != 65536;\n}}\n",
        encoding="utf-8",
    )
    words = [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/include", "main.c", str(LIBRARY)]
    subprocess.run([*words, "-lm", "-pthread", "-o", "main"], cwd=tmp_path, check=True)
    done = subprocess.run(["./main"], cwd=tmp_path, check=True, capture_output=True)
    found = np.frombuffer(done.stdout, np.float32).reshape(8, 128, 64)
    assert np.isfinite(found).all() and np.abs(found).max() > 0.1
    # As the program gives for the same arrays.
    for name, x in (("q", q), ("k", k), ("v", v)):
        np.save(tmp_path / f"{name}.npy", x)
    attend = [PROGRAM, "attend", "q.npy", "k.npy", "v.npy", "--method", "softmax/capped:1.2", "-o", "out.npy"]
    subprocess.run(attend, cwd=tmp_path, check=True, capture_output=True)
    assert np.abs(found - np.load(tmp_path / "out.npy")).max() <= 1e-5
