"""The package beside POT, SciPy's HiGHS, torch and entmax on drawn problems: the same optimum, the same
weights, or both refuse.

Problem k is a function of k alone, so a disagreement is repeated by its number. OTATTN_DIFFERENTIAL sets how
many are drawn of each peer (40). The long test draws problems 0 to 24,999 of each (OTATTN_DIFFERENTIAL_LONG),
in ranges of 250: with OTATTN_DIFFERENTIAL_RECORD=FILE each range without a disagreement is a row of that file
once it is done, and a later run of the same library leaves it out."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import otattn
import pytest
from done_record import DoneRecord, digest, missing
from otattn._library import FOLDER

HIGHS_TOLERANCE = 1e-10  # of the plan's mass times the largest score; none of 3,000 problems took 1e-14
U32 = 2.0**-24

ot = pytest.importorskip("ot")
optimize = pytest.importorskip("scipy.optimize")
sparse = pytest.importorskip("scipy.sparse")
torch = pytest.importorskip("torch")
entmax = pytest.importorskip("entmax")


def masses(rng: np.random.Generator, count: int) -> np.ndarray:
    drawn = rng.exponential(size=count) + 1e-3
    return drawn / drawn.sum()


def against_pot(k: int) -> None:
    """Entropic transport of random masses: plans within what two residuals of 1e-9 and 1e-10 leave open."""
    rng = np.random.default_rng([1, k])
    n, m = rng.integers(1, 13, size=2)
    costs, a, b = rng.random((n, m)), masses(rng, n), masses(rng, m)
    strength = float(10 ** rng.uniform(-1.3, 1))
    ours = otattn.ot.sinkhorn(a, b, costs, strength, numItermax=100000, stopThr=1e-10)
    peer = ot.sinkhorn(a, b, costs, strength, method="sinkhorn_log", numItermax=100000, stopThr=1e-11)
    # A residual r moves the plan by at most r e^(range / strength) in the l1 norm of its scalings.
    allowed = 1e-9 * np.exp(min((costs.max() - costs.min()) / strength, 15.0))
    assert np.abs(ours - peer).sum() <= allowed, (k, np.abs(ours - peer).sum(), allowed)


def drawn_masses(rng: np.random.Generator, count: int, kind: int) -> np.ndarray | None:
    """None, whole numbers with ties, sixteenths, or any."""
    if kind == 1:
        return rng.integers(1, 5, size=count).astype(float)
    if kind == 2:
        return rng.integers(1, 33, size=count) / 16
    return None if kind == 0 else rng.exponential(size=count) + 1e-3


def hard_problem(k: int) -> tuple[np.ndarray, tuple[float, float], dict[str, Any]]:
    """Scores, the least and most that a column takes in units of its mass, and the call; some have no plan.

    Without a mass that is 1 for capped columns, and otherwise an even share of the rows' mass.
    """
    rng = np.random.default_rng([2, k])
    n, m = (int(x) for x in rng.integers(1, 25, size=2))
    if k % 2:
        scores = rng.integers(-9, 10, size=(n, m)).astype(float)
    else:
        scores = rng.standard_normal((n, 4)) @ rng.standard_normal((4, m))
    kind = ("exact", "capped", "bounded", "free")[int(rng.choice(4, p=[0.4, 0.3, 0.25, 0.05]))]
    low, high = float(rng.choice([0.0, 0.25, 0.5, 1.0])), float(rng.choice([1.0, 1.25, 1.5, 3.0]))
    low, high, method = {
        "exact": (1.0, 1.0, "hard/exact"),
        "capped": (0.0, high, f"hard/capped:{high}"),
        "bounded": (low, high, f"hard/bounded:{low},{high}"),
        "free": (0.0, np.inf, "hard/free"),
    }[kind]
    row_mass = drawn_masses(rng, n, int(rng.integers(4)))
    column_mass = None if kind == "free" else drawn_masses(rng, m, int(rng.integers(4)))
    rows = np.ones(n) if row_mass is None else row_mass
    if column_mass is not None:
        column_mass *= rows.sum() / column_mass.sum()
    if column_mass is not None and rng.random() < 0.5:
        # Sums of masses of rows: some of both sides coincide, and a plan of few pairs has them.
        column_mass = np.bincount(rng.integers(m, size=n), rows, minlength=m)
    call: dict[str, Any] = {"method": method, "row_mass": row_mass, "column_mass": column_mass}
    if k % 3 == 0:
        allowed = rng.random((n, m)) < rng.choice([0.5, 0.9])
        if kind != "exact":
            # A row without a key is left out there, as in no linear program.
            allowed[np.arange(n), rng.integers(m, size=n)] = True
        call["attn_mask"] = allowed
    if k % 5 < 2:
        caps = rng.integers(1, 65, size=(n, m)) / 64 * rng.choice([0.5, 2.0, 4.0])
        call["entry_caps"] = caps if k % 5 else float(caps[0, 0])
    return scores, (low, high), call


def program_of(scores: np.ndarray, low: float, high: float, call: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The sums of rows and of columns between their bounds, and the bounds of the pairs."""
    n, m = scores.shape
    allowed = call.get("attn_mask", np.ones((n, m), bool))
    a = np.ones(n) if call["row_mass"] is None else call["row_mass"]
    usable = allowed.any(0)
    share = 1.0 if "capped" in call["method"] else a.sum() / max(usable.sum(), 1)
    b = usable * share if call["column_mass"] is None else call["column_mass"]
    pair = np.arange(n * m)
    rows = sparse.csr_array((np.ones(n * m), (pair // m, pair)), shape=(n, n * m))
    columns = sparse.csr_array((np.ones(n * m), (pair % m, pair)), shape=(m, n * m))
    most = np.full(m, np.inf) if high == np.inf else high * b
    return (
        optimize.LinearConstraint(rows, a, a),
        optimize.LinearConstraint(columns, low * b, most),
        optimize.Bounds(0, np.where(allowed, call.get("entry_caps", np.inf), 0.0).ravel()),
    )


def against_highs(k: int) -> None:
    """Transport without regulariser, with masks, masses, caps and bounds: the optimum of a linear program, or
    no plan."""
    scores, column_bounds, call = hard_problem(k)
    rows, columns, pairs = program_of(scores, *column_bounds, call)
    peer = optimize.milp(-scores.ravel(), constraints=[rows, columns], bounds=pairs)
    assert peer.status in (0, 2), (k, peer.message)
    try:
        plan = otattn.coupling(scores, **call).ravel()
    except otattn.Infeasible:
        plan = None
    assert (plan is None) == (peer.status == 2), (k, plan, peer.fun)
    if plan is None:
        return
    for name, sums, limits in (
        ("row", rows.A @ plan, rows), ("column", columns.A @ plan, columns), ("pair", plan, pairs),
    ):  # fmt: skip
        beyond = np.maximum(limits.lb - sums, sums - limits.ub).max()
        assert beyond <= 1e-12 * plan.sum(), (k, name, beyond)
    value = float((plan * scores.ravel()).sum())
    allowed = HIGHS_TOLERANCE * plan.sum() * float(np.abs(scores).max())
    assert abs(value + peer.fun) <= allowed, (k, value, peer.fun)


def against_torch(k: int) -> None:
    """Softmax attention with masks in f32: within the forward tolerance of f32."""
    rng = np.random.default_rng([3, k])
    n, m, width = (int(x) for x in rng.integers(1, 20, size=3))
    q, key, v = (
        torch.tensor(rng.standard_normal((2, rows, width)), dtype=torch.float32) for rows in (n, m, m)
    )
    mask = torch.tensor(rng.random((n, m)) < 0.7) if k % 2 else None
    if mask is not None:
        mask[:, 0] = True
    ours = otattn.attention(q, key, v, attn_mask=mask)
    peer = torch.nn.functional.scaled_dot_product_attention(q, key, v, attn_mask=mask)
    products = (q.abs() @ key.abs().transpose(1, 2)).max() / width**0.5
    allowed = 2 * U32 * float(v.abs().max()) * (8 + 4 * float(products))
    assert float((ours - peer).abs().max()) <= allowed, k


def against_entmax(k: int) -> None:
    """Rows of sparsemax and entmax 1.5 in f64, ties included."""
    rng = np.random.default_rng([4, k])
    rows, count = (int(x) for x in rng.integers(1, 30, size=2))
    scores = rng.standard_normal((rows, count)) * float(10 ** rng.uniform(-1, 1.5))
    if k % 3 == 0:
        scores = np.round(scores)
    tensor = torch.tensor(scores)
    for ours, peer in ((otattn.activations.sparsemax, entmax.sparsemax),
                       (otattn.activations.entmax15, entmax.entmax15)):  # fmt: skip
        distance = float((ours(tensor, dim=-1) - peer(tensor, dim=-1)).abs().max())
        # The peer's threshold is a difference of sums of scores, whose rounding the weights carry.
        assert distance <= 1e-13 * (1 + float(np.abs(scores).max())) ** 2, (k, distance)


PEERS: dict[str, Callable[[int], None]] = {
    "POT": against_pot, "HiGHS": against_highs, "torch": against_torch, "entmax": against_entmax,
}  # fmt: skip


@pytest.mark.parametrize("peer", PEERS)
def test_drawn_problems_agree(peer: str) -> None:
    for k in range(int(os.environ.get("OTATTN_DIFFERENTIAL", "40"))):
        PEERS[peer](k)


RANGE = 250


def draw_missing(peer: str, last: int, record: DoneRecord) -> int:
    """Draws what the record lacks of problems 0 ... last - 1; returns how many there were."""
    done = [(int(row["first"]), int(row["end"])) for row in record.rows if row["peer"] == peer]
    drawn = 0
    for first, end in missing(done, last):
        for begin in range(first, end, RANGE):
            stop = min(begin + RANGE, end)
            for k in range(begin, stop):
                PEERS[peer](k)
            record.add({"peer": peer, "first": begin, "end": stop})
            drawn += stop - begin
    return drawn


def test_a_later_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges that were done stay done, those of another library do not count, a disagreement is no row."""
    seen: list[int] = []

    def stand_in(k: int) -> None:
        seen.append(k)
        assert k != 700 or wrong != "there"

    monkeypatch.setitem(PEERS, "POT", stand_in)
    path, fields = tmp_path / "record.csv", ("peer", "first", "end")
    wrong = "there"
    with pytest.raises(AssertionError):
        draw_missing("POT", 1000, DoneRecord(path, "one", fields))
    assert seen == list(range(701))
    seen.clear()
    wrong = ""
    path.write_bytes(path.read_bytes() + b"one,POT,50")  # a run that was killed in its write
    assert draw_missing("POT", 1000, DoneRecord(path, "one", fields)) == 500
    assert seen == list(range(500, 1000))
    assert draw_missing("POT", 1100, DoneRecord(path, "one", fields)) == 100
    assert draw_missing("POT", 1000, DoneRecord(path, "another", fields)) == 1000
    assert draw_missing("HiGHS", 0, DoneRecord(path, "one", fields)) == 0


@pytest.mark.long
@pytest.mark.parametrize("peer", PEERS)
def test_many_drawn_problems_agree(peer: str) -> None:
    library = FOLDER / "libotattn_python.so"
    record = DoneRecord(
        os.environ.get("OTATTN_DIFFERENTIAL_RECORD"), digest(library), ("peer", "first", "end")
    )
    draw_missing(peer, int(os.environ.get("OTATTN_DIFFERENTIAL_LONG", "25000")), record)
