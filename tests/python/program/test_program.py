"""The program's contract: flags, files, JSON, exit codes, error sentences, manners.

The sentences are golden: tests/golden/errors.json maps a command to its exit code and sentence.
`PYTHONPATH=tests/python/support python tests/python/program/test_program.py --update` writes it anew; review
the difference."""

from __future__ import annotations

import json
import os
import platform
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import oracles
import pytest
import spec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from program import PROGRAM, ROOT, STATUS_OF_CODE, U64, answer, environment, run, save, solve

GOLDEN = ROOT / "tests" / "golden" / "errors.json"
BUILD = Path(os.environ.get("OTATTN_BUILD", ROOT / "build"))

CERTIFICATE = {
    "row_error", "column_error", "primal", "dual", "gap", "entropy", "support", "receiver_max",
    "receiver_min", "delta", "empty_rows", "nonfinite_rows",
}  # fmt: skip


# Two rounds at a temperature that needs thousands.
ENDLESS = ["-m", "softmax/exact", "-t", "1e-4", "--solver", "sinkhorn", "--max-rounds", "1000000"]
SLOW = [*ENDLESS[:-1], "2"]


def fixed_files(folder: Path) -> None:
    """The files that the golden commands name."""
    draw = np.random.default_rng(7)
    save(
        folder,
        S=draw.normal(size=(6, 6)), R=draw.normal(size=(4, 7)), Q=draw.normal(size=(2, 5, 3)),
        K=draw.normal(size=(2, 8, 3)), V=draw.normal(size=(2, 8, 4)), K4=draw.normal(size=(2, 8, 4)),
        K3heads=draw.normal(size=(3, 8, 3)), V32=draw.normal(size=(2, 8, 4)).astype(np.float32),
        truth=np.ones((6, 6), bool), whole=np.ones((6, 6), np.int64), five=np.zeros((1, 1, 1, 6, 6)),
        bad=np.where(np.eye(6) > 0, np.nan, 0.0), p=np.full(4, 0.25), q=np.full(5, 0.2),
        heavy=np.full(4, 0.3), mass=np.full(6, 2.0), short=np.ones(3),
    )  # fmt: skip
    (folder / "text.npy").write_text("no array at all")
    (folder / "cut.gguf").write_bytes(b"GGUF\x03\0\0\0")
    (folder / "cut.npy").write_bytes((folder / "S.npy").read_bytes()[:-8])
    (folder / "pieces.txt").write_text("[UNK]\na\n##b\n")
    (folder / "twice.txt").write_text("[UNK]\na\na\n")
    (folder / "hole.json").write_text('{"model": {"vocab": {"a": 0, "b": 2}, "merges": []}}')
    (folder / "nested.json").write_text('{"x": ' + "[" * 100)
    (folder / "letters.json").write_text('{"model": {"type": "Letters", "vocab": {"a": 0}}}')


COMMANDS = """
nothing
plna S.npy
plan
plan S.npy R.npy
plan missing.npy
plan text.npy
plan cut.npy
plan truth.npy
plan five.npy
plan S.npy --metod softmax
plan S.npy --epsilon 1
plan S.npy -z
plan S.npy --json=1
plan S.npy --method
plan S.npy -m softmx
plan S.npy -m softmax/exat
plan S.npy -m entmax:1
plan S.npy -m entmax/elastic
plan S.npy -m hard/relaxed:1
plan S.npy -m softmax/capped
plan S.npy -m elastic:2,3
plan S.npy -m softmax/exact{tolrance=1}
plan S.npy -m softmax/exact{rounds=3
plan S.npy -t 0
plan S.npy -t one
plan S.npy -t 1,2
plan S.npy -t 1 --temperature 1
plan S.npy -m softmax/exact{rounds=1,rounds=2}
plan S.npy --rows soft
plan S.npy --axis cols
plan S.npy --window 3
plan S.npy --window -2,3
plan S.npy --strided 0
plan S.npy --block 0
plan S.npy --mask whole.npy
plan S.npy --mask R.npy
plan S.npy --mask missing.npy
plan R.npy --causal
plan R.npy --causal=bottom
plan S.npy --causal=top-left --corner bottom-right
plan S.npy --tolerance 0
plan S.npy --max-rounds 0
plan S.npy --rounds -1
plan S.npy --anneal 3
plan S.npy --relaxation 2
plan S.npy --center mena
plan S.npy --precision f16
plan S.npy --solver newtn
plan S.npy --cpu neno
plan S.npy --threads 9999
plan S.npy --memory 1
plan S.npy -m softmax/exact -c
plan S.npy -m softmax/exact --column-mass mass.npy
plan S.npy -m softmax/exact --column-mass short.npy
plan S.npy --column-mass short.npy
plan bad.npy -m softmax/exact
plan bad.npy --strict
plan S.npy -o S.npy
plan S.npy -o nowhere/P.npy
plan S.npy -o P.npy --coupling P.npy
plan S.npy -o P.txt
plan - --mask -
plan S.npy -o P.npy --out-dtype bf16
attend Q.npy K.npy V.npy --dropout 1.5
attend Q.npy K.npy V.npy --dropout 0
plan S.npy --dropout .5
attend Q.npy K.npy
attend Q.npy K4.npy V.npy
attend Q.npy K3heads.npy V.npy
attend Q.npy K.npy Q.npy
attend Q.npy K.npy V32.npy
compare Q.npy K.npy --methods softmax,sofmax
compare R.npy --methods softmax/exact{tolrance=1}
assign Q.npy
hamming p.npy q.npy -e 1
hamming p.npy p.npy
hamming heavy.npy p.npy -e 1
hamming p.npy p.npy -e 0
hamming p.npy p.npy -e 1 --solver newtown
tokenize
tokenize missing.json
tokenize hole.json --text a
tokenize twice.txt --text a
tokenize nested.json --text a
tokenize letters.json --text a
tokenize pieces.txt missing.txt
tokenize pieces.txt S.npy --text a
tokenize pieces.txt --decode --count
tokenize pieces.txt --decode --text '1 x'
tokenize pieces.txt --decode --text '1 9'
bench --shapes 3x4
bench --small --shapes 8x8x8
bench --random 2 --methods softmax
bench --scaling --threads 2
bench --first 2
help metods
completions tcsh
certify
certify --scores S.npy --perturbed R.npy
certify --scores S.npy --perturbed bad.npy
certify --scores S.npy --perturbed S.npy -m sparsemax
certify --scores S.npy --perturbed S.npy --causal
certify --scores S.npy --coupling R.npy
certify --scores S.npy --coupling S.npy
certify --scores S.npy --coupling bad.npy
certify --scores S.npy --coupling truth.npy --method sofmax
align R.npy S.npy
align bad.npy
align five.npy
info
info nowhere
info S.npy
info cut.gguf
capture cut.gguf
capture cut.gguf --ids whole.npy -o run.safetensors
perplexity cut.gguf
generate cut.gguf --prompt x
""".strip().splitlines()


def without_bytes(text: str) -> str:
    """How many bytes a plan needs depends on the machine's kernels and processors."""
    return re.sub(r"plan here needs \d+", "plan here needs N", text)


def sentence(folder: Path, command: str) -> dict[str, object]:
    done = run(folder, *shlex.split(command), stdin=(folder / "S.npy").read_bytes())
    return {"exit": done.returncode, "sentence": without_bytes(done.stderr.decode())}


def test_error_sentences(tmp_path: Path) -> None:
    fixed_files(tmp_path)
    before = sorted(tmp_path.iterdir())
    golden = json.loads(GOLDEN.read_text())
    assert list(golden) == COMMANDS
    wrong = {command: got for command in COMMANDS if (got := sentence(tmp_path, command)) != golden[command]}
    assert not wrong
    assert sorted(tmp_path.iterdir()) == before


def test_every_error_is_one_sentence_and_one_object(tmp_path: Path) -> None:
    fixed_files(tmp_path)
    for command, want in json.loads(GOLDEN.read_text()).items():
        words = shlex.split(command)
        text = str(want["sentence"])
        assert want["exit"] not in (0, 1), command
        assert text.startswith("otattn") and text.endswith("\n") and text.count("\n") == 1, command
        done = run(tmp_path, words[0], "--json", *words[1:], stdin=(tmp_path / "S.npy").read_bytes())
        assert done.returncode == want["exit"], command
        result = json.loads(done.stdout)
        assert {"command", "status", "error", "field", "hint"} <= set(result), command
        assert without_bytes(result["error"]) in text
        if result["status"] != "unsupported" and done.returncode != 3:
            assert result["status"] == STATUS_OF_CODE[done.returncode], command


# ---- JSON ----


def test_json_of_plan_and_attend(tmp_path: Path) -> None:
    fixed_files(tmp_path)
    result = answer(tmp_path, "plan", "S.npy", "-m", "softmax/exact", "-o", "P.npy", "--per-head")
    assert result["command"] == "plan"
    assert result["method"] == "softmax/exact"
    assert result["problem"] == {"batch": 1, "heads": 1, "queries": 6, "keys": 6, "width": 0, "dtype": "f64"}
    assert set(result["how"]) == {"solver", "kernel", "threads", "bytes"}
    assert set(result["certificate"]) >= CERTIFICATE
    assert result["outputs"] == {"out": "P.npy"}
    assert result["warnings"] == []
    assert len(result["heads"]) == 1
    assert set(result["heads"][0]) >= CERTIFICATE
    result = answer(tmp_path, "attend", "Q.npy", "K.npy", "V.npy", "--per-head", "-m", "sparsemax")
    assert result["problem"] == {"batch": 1, "heads": 2, "queries": 5, "keys": 8, "width": 3, "dtype": "f64"}
    assert len(result["heads"]) == 2
    assert result["outputs"] == {}


def test_threads_of_the_environment(tmp_path: Path) -> None:
    fixed_files(tmp_path)

    def threads(text: str, *flags: str) -> int:
        found = run(tmp_path, "plan", "S.npy", "--json", *flags, OMP_NUM_THREADS=text)
        return int(json.loads(found.stdout)["how"]["threads"])

    whole = threads("")
    assert [threads(text) for text in ("3", " 5,2", "0", "-2", "many", "3x", "1e2")] == [3, 5, *[whole] * 5]
    assert threads("3", "--threads", "2") == 2
    # What doctor says is what other commands take.
    for text, wanted in {"": whole, "3": 3, "5,2": 5, "many": whole}.items():
        found = run(tmp_path, "doctor", "--json", OMP_NUM_THREADS=text)
        assert json.loads(found.stdout)["threads"] == wanted


def test_masks_of_numbers(tmp_path: Path) -> None:
    """The least number of the type forbids; -1e9 does not, and a warning tells where it was meant to."""
    scores = np.random.default_rng(0).normal(size=(5, 5))
    mask = np.zeros((5, 5))
    mask[:, 4] = np.finfo(np.float64).min
    save(tmp_path, mask=mask, allowed=mask == 0)
    right, _ = solve(tmp_path, scores, "--mask", "allowed.npy", "-m", "softmax/exact")
    found, result = solve(tmp_path, scores, "--mask", "mask.npy", "-m", "softmax/exact")
    assert result["warnings"] == [] and abs(found - right).max() <= 1e-8 and not found[:, 4].any()
    save(tmp_path, mask=np.maximum(mask, -1e9))
    found, result = solve(tmp_path, scores, "--mask", "mask.npy", "-m", "softmax/exact")
    assert abs(found.sum(0) - 1).max() <= 1e-8
    assert len(result["warnings"]) == 1 and "0.2 of the mass" in result["warnings"][0]


def test_a_sink_of_minus_infinity_is_none(tmp_path: Path) -> None:
    scores = np.random.default_rng(0).normal(size=(5, 5))
    for method in ("softmax", "softmax/exact", "softmax/prefix"):
        right, _ = solve(tmp_path, scores, "-m", method)
        found, _ = solve(tmp_path, scores, "-m", method, "--sink=-inf")
        assert abs(found - right).max() <= 1e-8
    assert run(tmp_path, "plan", "scores.npy", "--sink", "inf").returncode == 2


def test_certificate_against_the_written_coupling(tmp_path: Path) -> None:
    fixed_files(tmp_path)
    S = np.load(tmp_path / "S.npy")
    for method, tau in [("softmax", 1.0), ("softmax/exact", 0.5), ("sparsemax", 1.0), ("hard/exact", 1.0)]:
        P, result = solve(tmp_path, S, "-m", method, "-t", tau)
        c = result["certificate"]
        columns = P.sum(axis=0)
        positive = P[P > 0]
        near = 100 * U64
        spec.check("DER-27", abs(c["row_error"] - np.abs(P.sum(axis=1) - 1).sum() / 6), near)
        spec.check("DER-27", abs(c["column_error"] - np.abs(columns - 1).sum() / 6), near)
        spec.check("CETA-19", abs(c["receiver_max"] - columns.max()), near)
        spec.check("CETA-19", abs(c["receiver_min"] - columns.min()), near)
        spec.check("CETA-20", abs(c["delta"] - np.abs(columns - 1).max()), near)
        spec.check("LIT-13", abs(c["entropy"] + (positive * np.log(positive)).sum() / 6), near)
        spec.check("LIT-13", abs(c["support"] - np.count_nonzero(P) / 6), 0)
        if method.startswith("softmax"):
            primal = -(P * S).sum() + tau * (positive * (np.log(positive) - 1)).sum()
            spec.check("LIT-02 ELA-01", abs(c["primal"] - primal), 1e3 * U64 * (1 + abs(primal)))
            spec.check("TOT-10", abs(result["value"] - primal - tau * P.sum()), 1e3 * U64 * (1 + abs(primal)))


def test_numbers_are_shortest(tmp_path: Path) -> None:
    fixed_files(tmp_path)
    text = run(tmp_path, "plan", "S.npy", "--json").stdout.decode()
    for number in re.findall(r":(-?[0-9][^,}]*)", text):
        value = float(number)
        spellings = [f"{value:.{digits}g}" for digits in range(1, 18)]
        assert len(number) <= min(len(text) for text in spellings if float(text) == value)


def test_help_json_and_doctor(tmp_path: Path) -> None:
    result = answer(tmp_path, "help")
    assert {row["name"] for row in result["commands"]} >= {
        "attend", "plan", "compare", "assign", "hamming", "demo", "bench", "doctor", "help", "completions",
    }  # fmt: skip
    doctor = answer(tmp_path, "doctor")
    assert set(doctor) >= {
        "version", "cpu", "kernels", "solvers", "methods", "threads", "blas", "cuda", "mpi", "model",
    }  # fmt: skip
    assert "portable" in doctor["kernels"]
    assert "softmax/exact" in doctor["methods"]
    assert all(check["ok"] for check in doctor["checks"])
    save(tmp_path, S=np.eye(4))
    for method in doctor["methods"]:
        answer(tmp_path, "plan", "S.npy", "-m", method)
    for kernel in doctor["kernels"]:
        assert answer(tmp_path, "plan", "S.npy", "--cpu", kernel)["how"]["kernel"] == kernel


def test_compare(tmp_path: Path) -> None:
    fixed_files(tmp_path)
    tight = "softmax/exact{tolerance=1e-12,max-rounds=500}"
    methods = ["softmax", "elastic:.5,4", tight, "entmax/elastic", "hard", "capped:1.5"]
    result = answer(tmp_path, "compare", "S.npy", "--methods", ",".join(methods))
    rows = {row["method"]: row for row in result["methods"]}
    assert list(rows) == methods
    assert rows["entmax/elastic"]["status"] == "unsupported"
    assert rows["entmax/elastic"]["certificate"] is None
    assert rows["softmax"]["distance_to_softmax"] == 0
    exact = rows[tight]
    S = np.load(tmp_path / "S.npy")
    full = np.ones(S.shape, bool)
    softmax, doubly = oracles.by_rows(S, full, 1.0, oracles.softmax_row), oracles.exact(S, full, 1.0)
    spec.check("LIT-13", abs(exact["distance_to_softmax"] - np.abs(softmax - doubly).sum() / 6), 1e-8)
    spec.check("LIT-13", exact["distance_to_exact"], 1e-7)
    hard = oracles.by_rows(S, full, 1.0, oracles.hard_row)
    spec.check("LIT-13", abs(rows["hard"]["distance_to_exact"] - np.abs(hard - doubly).sum() / 6), 1e-7)
    for name in ("Q.npy", "K.npy"), ("Q.npy", "K.npy", "V.npy"):
        assert len(answer(tmp_path, "compare", *name)["methods"]) == 7
    result = answer(tmp_path, "compare", "S.npy", "--methods", "softmax/exact", "-c", code=3)
    assert result["status"] == "infeasible"


def test_bench_checks_what_it_times(tmp_path: Path) -> None:
    words = ["--shapes", "64x48x16", "--repeat", "2", "--methods", "softmax,entmax:1.5,hard"]
    result = answer(tmp_path, "bench", *words)
    rows = {row["name"]: row for row in result["rows"]}
    assert "fma-ceiling" in rows
    for row in result["rows"]:
        assert set(row) >= {
            "name", "shape", "dtype", "threads", "ns_per_pair", "gflops", "peer", "peer_ns_per_pair",
            "ratio", "max_error",
        }  # fmt: skip
    softmax = rows["softmax 64x48x16 f32"]
    # 3.2 of the numeric policy with A <= 6, B <= 16 for these inputs.
    spec.check("LIT-01", softmax["max_error"], 2.0**-24 * 6 * (8 + 4 * 16))


@pytest.mark.parametrize("mask", ["padding", "lengths", "numbers", "far", "causal"])
def test_bench_checks_masked_rows(tmp_path: Path, mask: str) -> None:
    words = ["--shapes", "64x48x16", "--repeat", "1", "--methods", "softmax,hard,sparsemax", "--masked", mask]
    for more in [], ["--gradients"]:
        found = [row for row in answer(tmp_path, "bench", *words, *more)["rows"] if "status" in row]
        assert len(found) == 3
        for row in found:
            assert row["masked"] == mask
            assert row["share_of_ceiling"] is None
            if row["status"] == "ok" and row["max_error"] is not None:
                # 3.2 of the numeric policy with A <= 6 + the largest number, B <= 16 for these inputs; -1e9
                # lies far below the top of every row.
                assert row["max_error"] < 2.0**-24 * 11 * (8 + 4 * 16)
        assert found[0]["status"] == "ok"
        assert found[0]["max_error"] is not None


def test_bench_draws_by_seed_1_where_none_is_given(tmp_path: Path) -> None:
    words = ["bench", "--methods", "softmax", "--shapes", "64x64x16", "--repeat", "1"]
    errors = [
        [row["max_error"] for row in answer(tmp_path, *words, *more)["rows"] if "status" in row]
        for more in ([], ["--seed", "1"], ["--seed", "2"])
    ]
    assert errors[0] == errors[1] != errors[2]


def test_help_of_a_flag_is_that_of_the_command(tmp_path: Path) -> None:
    """Tolerance, rounds and solver are other things of hamming and align than of plan."""
    for command, solver in (("hamming", "newton or sinkhorn"), ("align", "howard, midrange, ls or fast")):
        words = " ".join(run(tmp_path, command, "--help").stdout.decode().split())
        assert solver in words and "otattn doctor" not in words and "row_error" not in words
    for command, partial in (
        ("plan", "write the result"),
        ("compare", "go on with"),
        ("certify", "go on with"),
    ):
        words = " ".join(run(tmp_path, command, "--help").stdout.decode().split())
        assert f"--allow-partial {partial}" in words


def test_random_problems_have_no_wrong_answer(tmp_path: Path) -> None:
    result = answer(tmp_path, "bench", "--random", "300", "--seed", "11")
    assert result["wrong_ok"] == 0
    assert result["wrong_infeasible"] == 0
    assert result["all"]["problems"] == 300
    assert sum(row["problems"] for row in result["decades"]) == 300


def test_random_problems_take_the_level(tmp_path: Path) -> None:
    """--cpu was not read: campaigns at an older level ran at the newest."""
    absent = "avx2" if platform.machine() in ("aarch64", "arm64") else "neon"
    refused = answer(tmp_path, "bench", "--random", "3", "--cpu", absent, code=2)
    assert refused["field"] == "cpu"
    result = answer(tmp_path, "bench", "--random", "3", "--cpu", "portable")
    assert result["all"]["problems"] == 3


def test_a_price_below_the_least_is_no_answer(tmp_path: Path) -> None:
    """A sum a rounding below the least once kept the price of a full key, and all was called ok."""
    result = answer(tmp_path, "bench", "--random", "1", "--first", "2621841", "--seed", "21")
    assert result["wrong_ok"] == 0
    assert result["all"]["statuses"] == {"ok": 1}


# ---- files ----


def test_leading_dimensions_and_types(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    for lead in [(), (3,), (2, 3)]:
        S = draw.normal(size=(*lead, 4, 5)).astype(np.float32)
        P, _ = solve(
            tmp_path, S, "-m", "relaxed:1", "--row-potential", "f.npy", "--column-potential", "g.npy",
            "--receiver", "c.npy", "--out-dtype", "f64",
        )  # fmt: skip
        assert P.shape == S.shape
        assert P.dtype == np.float64
        f, g, c = (np.load(tmp_path / name) for name in ("f.npy", "g.npy", "c.npy"))
        assert f.shape == (*lead, 4)
        assert g.shape == c.shape == (*lead, 5)
        # Potentials are f64 sums of f32 scores.
        assert np.abs(np.exp(S + f[..., None] + g[..., None, :]) - P).max() < 1e-5
        assert np.abs(P.sum(axis=-2) - c).max() < 1e-6
    row, _ = solve(tmp_path, draw.normal(size=5))
    assert row.shape == (5,)
    for stored in ("<f2", ">f4", ">f8", "<i8"):
        S = (4 * draw.normal(size=(4, 5))).astype(stored)
        P, result = solve(tmp_path, np.asfortranarray(S))
        assert P.dtype == (np.float64 if stored == "<i8" else np.dtype(stored).newbyteorder("="))
        want = oracles.by_rows(S.astype(float), np.ones((4, 5), bool), 1.0, oracles.softmax_row)
        assert np.abs(P - want).max() < 1e-3
        assert result["problem"]["dtype"] == {"<f2": "f16", ">f4": "f32"}.get(stored, "f64")


def test_archives_and_streams(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    S = np.random.default_rng(2).normal(size=(4, 5))
    save(tmp_path, S=S)
    np.savez(tmp_path / "a.npz", first=S, second=-S)
    safetensors.save_file({"x": S, "y": -S}, tmp_path / "a.safetensors")
    want = answer(tmp_path, "plan", "S.npy")["value"]
    for name in ("a.npz:first", "a.safetensors:x"):
        assert answer(tmp_path, "plan", name)["value"] == want
    assert answer(tmp_path, "plan", "a.npz", code=2)["field"] == "scores"
    done = run(tmp_path, "plan", "-", "-o", "-", stdin=(tmp_path / "S.npy").read_bytes())
    assert done.returncode == 0
    (tmp_path / "P.npy").write_bytes(done.stdout)
    P = np.load(tmp_path / "P.npy")
    assert np.abs(P.sum(axis=1) - 1).max() < 1e-12
    assert b"softmax" in done.stderr
    answer(tmp_path, "plan", "S.npy", "-o", "P.safetensors")
    assert (safetensors.load_file(tmp_path / "P.safetensors")["out"] == P).all()
    answer(tmp_path, "plan", "S.npy", "-o", "P.npz")
    assert (np.load(tmp_path / "P.npz")["out"] == P).all()


def test_outputs_are_all_or_none(tmp_path: Path) -> None:
    fixed_files(tmp_path)
    save(tmp_path, old=np.zeros(3))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    # Infeasible, unconverged, refused, one of two outputs taken: nothing appears and nothing changes.
    for words in (
        ["-m", "softmax/exact", "-c", "-o", "P.npy"],
        [*SLOW, "-f", "-o", "old.npy"],
        ["-m", "entmax/elastic", "-o", "P.npy"],
        ["-o", "P.npy", "--receiver", "old.npy"],
        ["-o", "P.npy", "--receiver", "nowhere/c.npy"],
    ):
        assert run(tmp_path, "plan", "S.npy", *words).returncode != 0, words
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before, words
    assert run(tmp_path, "plan", "S.npy", "-o", "old.npy", "-f").returncode == 0
    assert np.load(tmp_path / "old.npy").shape == (6, 6)


def test_not_converged_tells_where_it_stopped(tmp_path: Path) -> None:
    fixed_files(tmp_path)
    result = answer(tmp_path, "plan", "S.npy", *SLOW, code=3)
    assert result["status"] == "not_converged"
    assert result["rounds"] == 2
    assert result["certificate"]["column_error"] > 1e-9
    result = answer(tmp_path, "plan", "S.npy", *SLOW, "--allow-partial", "-o", "P.npy")
    assert result["status"] == "partial"
    assert np.isfinite(np.load(tmp_path / "P.npy")).all()
    result = answer(tmp_path, "plan", "S.npy", "-m", "softmax/exact", "--rounds", "3")
    assert result["status"] == "fixed_iters"
    assert result["rounds"] == 3


def test_unreachable_tolerance_is_said_before_the_work(tmp_path: Path) -> None:
    fixed_files(tmp_path)
    result = answer(tmp_path, "plan", "S.npy", "-m", "softmax/exact", "--tolerance", "1e-30", code=3)
    assert result["status"] == "tolerance_unreachable"


def test_nonfinite_rows(tmp_path: Path) -> None:
    S = np.random.default_rng(3).normal(size=(5, 6))
    S[1, 2], S[3, 0] = np.nan, np.inf
    S[4, :] = -np.inf
    P, result = solve(tmp_path, S)
    assert result["status"] == "nonfinite_rows"
    assert result["certificate"]["nonfinite_rows"] == 2
    assert result["certificate"]["empty_rows"] == 1
    assert np.isnan(P[[1, 3]]).all()
    assert (P[4] == 0).all()
    assert np.isfinite(P[[0, 2]]).all()
    assert answer(tmp_path, "plan", "scores.npy", "--strict", code=3)["status"] == "nonfinite"
    assert answer(tmp_path, "plan", "scores.npy", "-m", "ceta", code=3)["status"] == "nonfinite"


def test_braces_are_flags_of_one_method(tmp_path: Path) -> None:
    S = np.random.default_rng(4).normal(size=(6, 6))
    for braces, flags in [
        ("ceta{temperature=.5,rounds=3}", ["-m", "ceta", "-t", ".5", "--rounds", "3"]),
        ("softmax{alibi=.5,softcap=2}", ["-m", "softmax", "--alibi", ".5", "--softcap", "2"]),
        ("ceta{anneal=4:.5:3,keep-v,max_rounds=900}", ["-m", "ceta", "--anneal", "4:.5:3,keep-v"]),
        ("relaxed:1{rows=relaxed:2}", ["-m", "relaxed:1", "--rows", "relaxed:2"]),
        ("ceta{prune,cost}", ["-m", "ceta", "--prune", "--cost"]),
    ]:
        one, first = solve(tmp_path, S, "-m", braces)
        other, second = solve(tmp_path, S, *flags)
        assert (one == other).all(), braces
        assert first["method"] == second["method"]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    shape=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    method=st.sampled_from(["softmax", "sparsemax", "hard"]),
)
def test_any_shape_is_solved(tmp_path_factory: pytest.TempPathFactory, shape: list[int], method: str) -> None:
    folder = tmp_path_factory.mktemp("shape")
    S = np.random.default_rng(0).normal(size=shape)
    P, result = solve(folder, S, "-m", method)
    assert P.shape == S.shape
    assert result["status"] == "ok"
    if S.size:
        assert np.abs(P.sum(axis=-1) - 1).max() < 1e-12


# ---- manners ----


def test_help_names_every_flag_of_a_command(tmp_path: Path) -> None:
    table = answer(tmp_path, "help")
    for command in table["commands"]:
        man = run(tmp_path, "help", command["name"], "--man").stdout.decode().replace("\\-", "-")
        text = run(tmp_path, command["name"], "--help").stdout.decode()
        assert max(len(line) for line in text.splitlines()) <= 90
        words = text.replace("=", " ").replace("[", " ").split()
        taken = {f["name"] for f in table["flags"] if command["name"] in f["commands"]}
        assert set(re.findall(r"^\.B (?:-\w, )?--([\w-]+)", man, re.MULTILINE)) == taken
        for flag in table["flags"]:
            named = f"--{flag['name']}" in words
            assert named == (flag["name"] in taken), (command["name"], flag["name"])
    for topic in table["topics"]:
        assert run(tmp_path, "help", topic["name"]).stdout


def test_man_pages(tmp_path: Path) -> None:
    """otattn(1) names every command and topic; mandoc finds nothing wrong with any page of section 1."""
    table = answer(tmp_path, "help")
    names = [command["name"] for command in table["commands"]]
    pages = [tmp_path / "otattn.1", *(tmp_path / f"otattn-{name}.1" for name in names)]
    for page, words in zip(pages, [[], *([name] for name in names)], strict=True):
        page.write_bytes(run(tmp_path, "help", *words, "--man").stdout)
    whole = pages[0].read_text(encoding="utf-8")
    assert re.findall(r"^\.BR otattn\\-(\w+) \(1\)$", whole, re.MULTILINE) == names
    headings = re.findall(r"^\.SH (.*)$", whole, re.MULTILINE)
    assert {topic["name"].replace("-", " ").upper() for topic in table["topics"]} <= set(headings)
    if shutil.which("mandoc") is None:
        pytest.skip("no mandoc: apt-get install mandoc")
    command = ["mandoc", "-T", "lint", "-W", "warning", *map(str, pages)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    # Pages are of a release, not of a day.
    assert [line for line in said.splitlines() if "missing date" not in line] == []


def test_help_names_every_environment_variable(tmp_path: Path) -> None:
    files = [*(ROOT / "program").rglob("*.c"), ROOT / "src/base/program/system_program_posix.c"]
    texts = [path.read_text(encoding="utf-8") for path in files]
    texts = [text for text in texts if "getenv(" in text or "ota_program_variable(" in text]
    read = {name for text in texts for name in re.findall(r'"([A-Z][A-Z_]+)"', text)}
    topic = run(tmp_path, "help", "environment").stdout.decode()
    assert {"NO_COLOR", "HOME", "LANG", "PMIX_RANK"} <= read and not read - set(re.findall(r"\w+", topic))


def test_completions(tmp_path: Path) -> None:
    script = run(tmp_path, "completions", "bash").stdout
    (tmp_path / "otattn.bash").write_bytes(script)

    def complete(*words: str) -> set[str]:
        listed = " ".join(shlex.quote(word) for word in words)
        state = f"COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}"
        line = f"source ./otattn.bash; {state}; _otattn; echo ${{COMPREPLY[@]}}"
        done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True)
        return set(done.stdout.split())

    assert complete("otattn", "pl") == {"plan"}
    assert complete("otattn", "plan", "--toler") == {"--tolerance", "--tolerance-scaling"}
    assert complete("otattn", "plan", "--axis", "c") == {"columns"}
    assert "softmax/exact" in complete("otattn", "attend", "-m", "soft")
    assert complete("otattn", "completions", "z") == {"zsh"}
    for shell in ("zsh", "fish"):
        text = run(tmp_path, "completions", shell).stdout.decode()
        assert "attend" in text
        assert "column-potential" in text


def interrupt(child: subprocess.Popen[bytes], seconds: float) -> None:
    """Ctrl-C so long after the program has begun to catch it, which takes a while on a busy machine."""
    caught, end = 0, time.monotonic() + 60
    while not caught >> (signal.SIGINT - 1) & 1 and time.monotonic() < end:
        found = re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{child.pid}/status").read_text())
        caught = int(found[1], 16) if found else 0
    time.sleep(seconds)
    child.send_signal(signal.SIGINT)


def test_interrupt_keeps_what_is_finished() -> None:
    words = [PROGRAM, "bench", "--random", "100000000", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        interrupt(child, 1.5)
        out, _ = child.communicate(timeout=30)
    result = json.loads(out)
    assert child.returncode in (130, 3)
    assert result["all"]["problems"] > 0


def test_interrupt_writes_nothing(tmp_path: Path) -> None:
    save(tmp_path, S=np.random.default_rng(6).normal(size=(8, 900, 900)))
    words = [PROGRAM, "plan", "S.npy", *ENDLESS, "-o", "P.npy", "--json"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        interrupt(child, 1.5)
        out, _ = child.communicate(timeout=30)
    assert child.returncode == 130
    assert json.loads(out)["status"] == "cancelled"
    assert [path.name for path in tmp_path.iterdir()] == ["S.npy"]


@pytest.mark.parametrize("words", [["plan", "-", "-o", "P.npy"], ["tokenize", "vocab.txt", "-"]])
def test_interrupt_ends_a_wait_for_input(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "vocab.txt").write_text("[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\na\n")
    before = sorted(path.name for path in tmp_path.iterdir())
    with subprocess.Popen(
        [PROGRAM, *words, "--json"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        interrupt(child, 0.5)
        assert child.wait(timeout=10) == 130
        assert child.stdout and json.loads(child.stdout.read())["status"] == "cancelled"
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def on_terminal(words: list[str], seconds: float, **more: str) -> str:
    """What a terminal sees in the first seconds."""
    mother, daughter = pty.openpty()
    child = subprocess.Popen(
        [PROGRAM, *words], stdin=daughter, stdout=daughter, stderr=daughter, env=environment(**more)
    )
    os.close(daughter)
    seen, end = b"", time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if not select.select([mother], [], [], left)[0]:
            break
        try:
            seen += os.read(mother, 65536)
        except OSError:
            break
    child.send_signal(signal.SIGINT)
    try:
        child.wait(timeout=30)
    finally:
        os.close(mother)
    return seen.decode()


def in_a_log(folder: Path, words: list[str], seconds: float) -> list[str]:
    """The lines that a file gets in the first seconds."""
    with (folder / "log").open("wb") as log:
        child = subprocess.Popen([PROGRAM, *words], stdout=subprocess.DEVNULL, stderr=log, env=environment())
        time.sleep(seconds)
        child.send_signal(signal.SIGINT)
        child.wait(timeout=30)
    return (folder / "log").read_text().splitlines()


def test_progress_on_a_terminal_and_in_a_log(tmp_path: Path) -> None:
    words = ["bench", "--random", "100000000", "--threads", "1"]
    line = re.compile(r"bench: \d+ of 100000000 problems, [\d.e+]+ a second, .* left")
    assert on_terminal(words, 0.7) == ""
    # The first line is after a second, the next one five seconds later.
    lines = in_a_log(tmp_path, words, 1.7)
    assert len(lines) == 1 and line.fullmatch(lines[0])
    assert in_a_log(tmp_path, [*words, "--json"], 2.6) == []
    text = on_terminal(words, 2.0)
    assert "a second" in text
    assert "left" in text
    assert on_terminal(words, 3.0, TERM="dumb") == ""


def test_colours_ask_first(tmp_path: Path) -> None:
    save(tmp_path, S=np.eye(4))
    words = ["plan", str(tmp_path / "S.npy")]
    assert "\033[" in on_terminal(words, 3.0)
    assert "\033[" not in on_terminal(words, 3.0, NO_COLOR="1")
    assert b"\033[" not in run(tmp_path, *words).stdout


@pytest.mark.parametrize("place", ["de_DE.UTF-8", "ps_AF.UTF-8"])
def test_a_library_that_set_the_locale_before(tmp_path: Path, place: str) -> None:
    """Numbers are read and written with points though something preloaded chose commas."""
    locales, compiler = BUILD / "tests" / "locale", shutil.which("cc")
    if compiler is None or not (locales / place).exists():
        pytest.skip("no C compiler, or no such locale in the build")
    (tmp_path / "chosen.c").write_text(
        "#include <locale.h>\n#include <stdlib.h>\n__attribute__((constructor)) static void choose(void) {\n"
        f"if (setlocale(LC_ALL, \"{place}\") == NULL || *localeconv()->decimal_point == '.') abort();\n}}\n"
    )
    words = [compiler, "-shared", "-fPIC", "chosen.c", "-o", "chosen.so"]
    subprocess.run(words, cwd=tmp_path, check=True)
    save(tmp_path, S=np.random.default_rng(1).normal(size=(5, 5)))
    more = {"LD_PRELOAD": str(tmp_path / "chosen.so"), "LOCPATH": str(locales)}
    demo = str(ROOT / "data" / "demo" / "model")
    for command in (
        ["plan", "S.npy", "--cost", "--method", "softmax/exact", "--temperature", "0.25"],
        ["plan", "S.npy", "--method", "entmax:1.5/capped:1.25", "--softcap", "2.5", "--json"],
        ["plan", "S.npy", "--temperature", "0,25"],
        ["assign", "S.npy"],
        ["info", demo, "--json"],
        ["perplexity", demo, "--text", "there was a time", "--json"],
    ):
        found = [
            subprocess.run([PROGRAM, *command], cwd=tmp_path, capture_output=True, env=env)
            for env in (environment(), {**environment(), **more})
        ]
        plain, chosen = [
            (done.returncode, re.sub(rb'"seconds":[^,}]*|time  .*', b"", done.stdout), done.stderr)
            for done in found
        ]
        assert plain == chosen
        assert (plain[0] == 2) == ("0,25" in command)


def test_no_arguments_help_and_version(tmp_path: Path) -> None:
    assert b"Commands" in run(tmp_path).stdout
    assert run(tmp_path, "--help").stdout == run(tmp_path, "help").stdout
    assert re.fullmatch(rb"otattn \d+\.\d+\.\d+\n", run(tmp_path, "--version").stdout)


if __name__ == "__main__" and "--update" in sys.argv:
    with tempfile.TemporaryDirectory() as name:
        fixed_files(Path(name))
        golden = {command: sentence(Path(name), command) for command in COMMANDS}
    GOLDEN.write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n")
