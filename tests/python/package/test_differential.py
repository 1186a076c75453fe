"""The package beside POT, SciPy's HiGHS, torch and entmax on drawn problems: the same optimum, the same
weights, or both refuse.

Problem k is a function of k alone, so a disagreement is repeated by its number. OTATTN_DIFFERENTIAL sets how
many are drawn of each peer (30). The long test draws problems 0 to 24,999 of each (OTATTN_DIFFERENTIAL_LONG),
in ranges of 250: with OTATTN_DIFFERENTIAL_RECORD=FILE each range without a disagreement is a row of that file
once it is done, and a later run of the same library leaves it out."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import otattn
import pytest
from done_record import DoneRecord, digest, missing
from otattn._library import FOLDER

HIGHS_TOLERANCE = 1e-7  # HiGHS calls a row met, and a reduced cost 0, within this
U32 = 2.0**-24

ot = pytest.importorskip("ot")
optimize = pytest.importorskip("scipy.optimize")
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


def against_highs(k: int) -> None:
    """Transport without regulariser, with forbidden pairs: the optimum of a linear program, or no plan."""
    rng = np.random.default_rng([2, k])
    n = int(rng.integers(1, 8))
    scores = rng.integers(-9, 10, size=(n, n)).astype(float) if k % 2 else rng.standard_normal((n, n))
    allowed = rng.random((n, n)) < (1.0 if k % 3 else 0.6)
    rows = np.kron(np.eye(n), np.ones(n))
    columns = np.kron(np.ones(n), np.eye(n))
    bounds = [(0, None if is_in else 0) for is_in in allowed.ravel()]
    peer = optimize.linprog(
        -scores.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.ones(2 * n), bounds=bounds
    )
    try:
        query, key = np.eye(n)[None], np.ascontiguousarray(scores.T)[None]
        _, aux = otattn.attention(
            query, key, np.zeros((1, n, 1)), attn_mask=allowed[None], scale=1.0, method="hard/exact",
            column_mass=np.ones(n), return_aux=otattn.AuxRequest(coupling=True),
        )  # fmt: skip
        value = float((aux.coupling[0] * scores).sum())
    except otattn.Infeasible:
        value = None
    if peer.status == 2:
        assert value is None, (k, value)
    else:
        assert value is not None and abs(value + peer.fun) <= HIGHS_TOLERANCE * (1 + n * 9), (
            k,
            value,
            peer.fun,
        )


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
    for k in range(int(os.environ.get("OTATTN_DIFFERENTIAL", "30"))):
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
