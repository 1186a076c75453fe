"""`otattn align` against the linear program it replaces, solved by SciPy, and its answers to bad input."""

from __future__ import annotations

import json
import resource
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
import spec
from program import PROGRAM, answer, environment, run, save
from scipy import sparse
from scipy.optimize import linprog


def by_linear_program(matrix: np.ndarray) -> float:
    """min R with -R <= matrix - k - v <= R; the variables are k, v, R."""
    n, m = matrix.shape
    row, column = np.divmod(np.arange(n * m), m)
    place = np.arange(n * m)
    shifts = sparse.coo_matrix(
        (np.ones(2 * n * m), (np.r_[place, place], np.r_[row, n + column])), shape=(n * m, n + m)
    )
    bound = -np.ones((n * m, 1))
    inequalities = sparse.vstack([sparse.hstack([-shifts, bound]), sparse.hstack([shifts, bound])])
    price = np.zeros(n + m + 1)
    price[-1] = 1.0
    limits = [(None, None)] * (n + m) + [(0, None)]
    right = np.r_[-matrix.ravel(), matrix.ravel()]
    return float(linprog(price, A_ub=inequalities.tocsr(), b_ub=right, bounds=limits, method="highs").fun)


def drawn(kind: str, generator: np.random.Generator) -> np.ndarray:
    n, m = (int(size) for size in generator.integers(2, 12, 2))
    if kind == "normal":
        return generator.normal(size=(n, m))
    if kind == "common":
        return (
            generator.normal(size=(1, m)) * 3
            + generator.normal(size=(n, 1))
            + generator.normal(size=(n, m)) / 3
        )
    if kind == "heavy":
        return generator.standard_t(2.5, size=(n, m))
    return generator.integers(0, 5, size=(n, m)).astype(float)


@pytest.mark.parametrize("kind", ["normal", "common", "heavy", "integer"])
def test_residual_is_the_linear_program(tmp_path: Path, kind: str) -> None:
    generator = np.random.default_rng(len(kind))
    for _ in range(12):
        a = drawn(kind, generator)
        b = generator.normal(size=a.shape)
        save(tmp_path, a=a, b=b)
        told = answer(tmp_path, "align", "a.npy", "b.npy")
        scale = np.abs(a - b).max()
        spec.check("TOT-38 TOT-39", abs(told["residual"] - by_linear_program(a - b)), 1e-12 * scale)
        spec.check("TOT-38", told["residual"] - told["residual_lower"], 1e-12 * scale)
        rest = a - b - np.array(told["row_shift"])[:, None] - np.array(told["column_shift"])
        spec.check("TOT-37 TOT-38", abs(np.abs(rest).max() - told["residual"]), 1e-12 * scale)
        walk = told["cycle"]
        steps = zip(walk, walk[1:] + walk[:1], strict=True)
        weights = [(a - b)[i, j] - (a - b)[k, j] for (i, j), (k, _) in steps]
        spec.check("TOT-38", abs(np.mean(weights) / 2 - told["residual_lower"]), 1e-12 * scale)


def test_other_rules_and_types(tmp_path: Path) -> None:
    a = np.random.default_rng(3).normal(size=(9, 14)).astype(np.float16)
    save(tmp_path, a=a)
    best = answer(tmp_path, "align", "a.npy")["residual"]
    exact = a.astype(float)
    spec.check("TOT-38", abs(best - by_linear_program(exact)), 1e-12)
    centred = exact - exact.mean(1, keepdims=True) - exact.mean(0) + exact.mean()
    squares = answer(tmp_path, "align", "a.npy", "--solver", "ls")
    spec.check("DER-22", abs(squares["residual"] - np.abs(centred).max()), 1e-12)
    spec.check("DER-22", abs(squares["rms"] - np.sqrt((centred**2).mean())), 1e-12)
    sweeps = answer(
        tmp_path, "align", "a.npy", "--solver", "midrange", "--tolerance", "1e-9", "--max-rounds", "9999"
    )
    spec.check("TOT-40", sweeps["residual"] - best, 1e-9 * best)
    fast = answer(tmp_path, "align", "a.npy", "--solver", "fast")
    spec.check("DER-21", best - fast["residual"], 0.0)
    spec.check("DER-21", fast["residual"] - 2 * best, 1e-12)


def test_rounds_that_ran_out_name_the_flags(tmp_path: Path) -> None:
    """Not what the library's fields and rules are called."""
    draw = np.random.default_rng(5)
    save(tmp_path, a=draw.normal(size=(9, 14)), p=draw.dirichlet(np.ones(6)), q=draw.dirichlet(np.ones(6)))
    for words, hint in (
        (["align", "a.npy"], "raise --max-rounds"),
        (["align", "a.npy", "--solver", "midrange"], "raise --max-rounds, or take --solver howard"),
        (
            ["hamming", "p.npy", "q.npy", "-e", "0.1", "--solver", "sinkhorn"],
            "raise --max-rounds, or take --solver newton",
        ),
    ):
        refused = answer(tmp_path, *words, "--max-rounds", "1", code=3)
        assert (refused["field"], refused["hint"]) == ("max_rounds", hint)


def test_vocabulary_size_within_half_as_much_again(tmp_path: Path) -> None:
    """256 x 50,257 in f32, with no more address space than 1.5 times the matrix and 20 MiB of program."""
    generator = np.random.default_rng(7)
    matrix = generator.normal(size=(256, 50257)).astype(np.float32)
    matrix += 3 * generator.normal(size=(1, 50257)).astype(np.float32)
    save(tmp_path, matrix=matrix)
    most = matrix.nbytes * 3 // 2 + (20 << 20)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    done = subprocess.run(
        [PROGRAM, "align", "matrix.npy", "--json"],
        cwd=tmp_path, capture_output=True, timeout=120, env=environment(), preexec_fn=limit,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    scale = float(np.abs(matrix).max())
    spec.check("TOT-38 TOT-41", told["residual"] - told["residual_lower"], 1e-12 * scale)
    rest = matrix - np.array(told["row_shift"])[:, None] - np.array(told["column_shift"])
    spec.check("TOT-37", abs(np.abs(rest).max() - told["residual"]), 1e-12 * scale)


def test_more_than_the_machine_has_is_refused_with_the_bytes(tmp_path: Path) -> None:
    rows, columns = 512, 10**9
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}"
    header = text.ljust(117).encode() + b"\n"
    with (tmp_path / "huge.npy").open("wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        file.truncate(10 + len(header) + 4 * rows * columns)
    told = answer(tmp_path, "align", "huge.npy", code=5)
    assert told["status"] == "limit" and f"needs {4 * rows * columns} bytes" in told["error"]


def test_bad_input(tmp_path: Path) -> None:
    a = np.zeros((3, 4))
    nan = a.copy()
    nan[1, 2] = np.nan
    save(tmp_path, a=a, nan=nan, narrow=a[:, :3], deep=a[None], empty=a[:0])
    rows = {
        ("nan.npy",): ("entry (1, 2) of a is nan", "a"),
        ("a.npy", "nan.npy"): ("entry (1, 2) of a - b is nan", "a - b"),
        ("a.npy", "narrow.npy"): ("a is 3 x 4 but b is 3 x 3", "b"),
        ("deep.npy",): ("has 3 dimensions", "a"),
        ("empty.npy",): ("0 entries", "a"),
        ("a.npy", "--solver", "howrd"): ("'howrd'", "solver"),
    }
    for words, (part, field) in rows.items():
        told = answer(tmp_path, "align", *words, code=2)
        assert part in told["error"] and told["field"] == field and told["status"] == "invalid", told
    assert run(tmp_path, "align").returncode == 2
