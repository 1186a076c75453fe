"""Caps of single weights: the method's word, arrays of caps, gradients, and SciPy's linear programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import otattn
import pytest
from scipy.optimize import linprog

torch = pytest.importorskip("torch")


def scores_of(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize(
    "method", ["softmax", "entmax:1.5", "hard", "softmax/exact", "entmax:1.5/capped:0.4"]
)
def test_the_word_and_the_array_are_the_same(method: str) -> None:
    scores = scores_of(1, 2, 7, 40)
    word = otattn.coupling(scores, method=method + "{entry_cap=0.08}")
    array = otattn.coupling(scores, method=method, entry_caps=np.full((7, 40), 0.08))
    number = otattn.coupling(scores, method=method, entry_caps=0.08)
    assert word.max() == 0.08
    assert np.abs(word - array).max() <= 1e-12 and np.array_equal(number, array)
    assert np.abs(word.sum(-1) - 1.0).max() <= 1e-8


def test_torch_is_numpy_and_keeps_the_caps() -> None:
    query, key, value = (scores_of(k, 2, 3, 9, 4) for k in range(3))
    caps = 0.12 + 0.2 * np.random.default_rng(5).random((9, 9))
    ours = otattn.attention(query, key, value, entry_caps=caps, method="softmax/exact")
    tensors = [torch.from_numpy(x) for x in (query, key, value)]
    theirs = otattn.attention(*tensors, entry_caps=torch.from_numpy(caps), method="softmax/exact")
    assert np.array_equal(ours, theirs.numpy())
    narrow = otattn.attention(*[x.to(torch.bfloat16) for x in tensors], entry_caps=torch.from_numpy(caps))
    whole = otattn.attention(*tensors, entry_caps=torch.from_numpy(caps))
    assert (narrow.double() - whole).abs().max() <= 0.03


@pytest.mark.parametrize("method", ["softmax", "entmax:1.5", "softmax/exact", "entmax:1.5/relaxed:0.5"])
def test_gradients_are_those_of_differences(method: str) -> None:
    caps = torch.from_numpy(0.15 + 0.3 * np.random.default_rng(3).random((6, 8)))
    tensors = [
        torch.from_numpy(scores_of(10 + k, 1, 1, 6 + 2 * (k > 0), 3)).requires_grad_() for k in range(3)
    ]

    def run(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return otattn.attention(query, key, value, method=method, entry_caps=caps, tolerance=1e-12)

    assert torch.autograd.gradcheck(run, tensors, atol=1e-5)


def program_of(
    scores: np.ndarray, mass: np.ndarray, room: np.ndarray, caps: np.ndarray, exact: bool, floor: float
) -> Any:
    """HiGHS on the same problem."""
    rows, columns = scores.shape
    of_rows = np.kron(np.eye(rows), np.ones(columns))
    of_columns = np.kron(np.ones(rows), np.eye(columns))
    both = np.concatenate([of_rows, of_columns])
    return linprog(
        -scores.ravel(),
        A_eq=both if exact else of_rows,
        b_eq=np.concatenate([mass, room]) if exact else mass,
        A_ub=None if exact else np.concatenate([of_columns, -of_columns]),
        b_ub=None if exact else np.concatenate([room, -floor * room]),
        bounds=np.stack([np.zeros(scores.size), caps.ravel()], 1),
    )


@pytest.mark.parametrize("kind", ["top-k", "capped", "bounded", "exact"])
def test_hard_plans_are_linear_programs(kind: str) -> None:
    random = np.random.default_rng(7)
    infeasible = 0
    for _ in range(1000 if kind == "top-k" else 150):
        rows, columns = int(random.integers(1, 9)), int(random.integers(3, 9))
        scores = random.normal(size=(rows, columns))
        if kind == "top-k":
            # k experts a token, each once, no expert more than its capacity
            choices = int(random.integers(1, 4))
            mass, caps = np.full(rows, float(choices)), np.ones((rows, columns))
            room = np.full(columns, float(random.integers(1, rows + 1)))
        else:
            mass, caps = random.uniform(0.2, 1.0, rows), random.uniform(0.1, 0.8, (rows, columns))
            room = random.uniform(0.3, 1.5, columns)
            room *= mass.sum() / room.sum() * (1.0 if kind == "exact" else random.uniform(1.0, 2.0))
        floor = float(random.uniform(0.1, 0.9)) if kind == "bounded" else 0.0
        found = program_of(scores, mass, room, caps, kind == "exact", floor)
        method = {"exact": "hard/exact", "bounded": f"hard/bounded:{floor},1"}.get(kind, "hard/capped:1")
        call: dict[str, Any] = {"method": method, "entry_caps": caps, "row_mass": mass, "column_mass": room}
        if found.status == 2:
            infeasible += 1
            with pytest.raises(otattn.Infeasible):
                otattn.coupling(scores, **call)
            continue
        ours = otattn.coupling(scores, **call)
        assert (ours <= caps).all() and (ours >= 0.0).all()
        assert np.abs(ours.sum(1) - mass).max() <= 1e-12
        assert (ours.sum(0) - room).max() <= 1e-12 and (floor * room - ours.sum(0)).max() <= 1e-12
        assert abs(found.fun + (scores * ours).sum()) <= 1e-9
        if kind == "top-k":
            assert np.array_equal(ours, ours.round())
    assert infeasible > 5


@pytest.mark.parametrize(
    ("method", "caps", "words"),
    [
        ("softmax{entry_cap=0.5}", 0.5, "entry_caps is given, but the method"),
        ("softmax", -1.0, "entry_caps is -1"),
        ("softmax/elastic:0.5,3", 0.5, "entry caps with elastic columns are refused"),
    ],
)
def test_refusals(method: str, caps: float, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        otattn.coupling(scores_of(0, 4, 6), method=method, entry_caps=caps)


def test_rows_without_room_are_infeasible() -> None:
    with pytest.raises(otattn.Infeasible):
        otattn.coupling(scores_of(0, 4, 6), entry_caps=0.1)
