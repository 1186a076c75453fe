"""The generated layouts against a C compiler: every size and every offset."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from otattn import _model_structs, _structs
from otattn._settings import DERIVATIVE_FIELDS, DIFFERENTIABLE, NUMBERS, TERMS


def _headers(root: Path) -> list[str]:
    """The headers that the script reads, by the script's own list."""
    script = runpy.run_path(str(root / "scripts/make_python_structs.py"), run_name="headers")
    headers: list[str] = script["HEADERS"] + script["MODEL_HEADERS"]
    return headers


STRUCTS = {**_structs.STRUCTS, **_model_structs.STRUCTS}
VALUES = {**vars(_structs), **vars(_model_structs)}


def _program(headers: list[str]) -> str:
    lines = [
        "#include <stddef.h>",
        "#include <stdio.h>",
        *(f'#include "{Path(header).name}"' for header in headers),
        "int main(void) {",
    ]
    for name, struct in STRUCTS.items():
        lines.append(f'    printf("{name} %zu\\n", sizeof({name}));')
        lines += [
            f'    printf("{name}.{field[0]} %zu\\n", offsetof({name}, {field[0]}));'
            for field in struct._fields_
        ]
    for name, value in VALUES.items():
        if isinstance(value, int) and not name.startswith("_"):
            lines.append(f'    printf("OTA_{name} %d\\n", (int)OTA_{name});')
    return "\n".join([*lines, "    return 0;", "}"])


def _expected() -> list[str]:
    import ctypes

    lines = []
    for name, struct in STRUCTS.items():
        lines.append(f"{name} {ctypes.sizeof(struct)}")
        lines += [f"{name}.{field[0]} {getattr(struct, field[0]).offset}" for field in struct._fields_]
    for name, value in VALUES.items():
        if isinstance(value, int) and not name.startswith("_"):
            lines.append(f"OTA_{name} {value}")
    return lines


def test_every_size_offset_and_constant(tmp_path: Path, root: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    source = tmp_path / "layout.c"
    source.write_text(_program(_headers(root)))
    program = tmp_path / "layout"
    subprocess.run(
        [compiler, "-std=c11", "-I", str(root / "include"), str(source), "-o", str(program)], check=True
    )
    found = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout.split("\n")[:-1]
    expected = _expected()
    assert len(expected) > 300
    assert found == expected


def test_the_generated_file_is_what_the_headers_give(root: Path) -> None:
    script = root / "scripts/make_python_structs.py"
    assert subprocess.run([sys.executable, str(script), "--check"]).returncode == 0


def test_every_derivative_is_an_operand_s() -> None:
    """Rows of src/problem/fields.c reach Python by themselves; these say what is no operand."""
    rows = {field: (shape, ranks) for field, _, shape, ranks in _structs.DERIVATIVES}
    upstream = {"out_grad", "coupling_grad"}
    assert {field for field, (_, ranks) in rows.items() if ranks == "upstream"} == upstream
    reached = {DERIVATIVE_FIELDS[name] for name in DIFFERENTIABLE if name in DERIVATIVE_FIELDS}
    # Scores are a direction alone, the matrix is the query without keys, and strengths of rows are words.
    assert set(rows) - reached - upstream == {"scores", "matrix", "terms", "row_strength"}
    assert set(DIFFERENTIABLE) - set(DERIVATIVE_FIELDS) == set(TERMS)
    assert all(rows[DERIVATIVE_FIELDS[name]][0] == "number" for name in NUMBERS)
