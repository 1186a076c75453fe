"""Couplings and outputs of the program against other implementations: NumPy by definition (oracles.py),
SciPy, POT, entmax and torch; every method with every kind of mask."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import oracles
import pytest
import spec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from program import U64, answer, save, solve
from scipy.optimize import linear_sum_assignment

# The program is asked for this residual; a plan of a problem whose temperature is within a decade of its
# score range then lies within a few of these, times its size, of the exact one.
RESIDUAL = 1e-12
NEAR = 1e3 * RESIDUAL
SIZE = 12


def rng(*seed: Any) -> np.random.Generator:
    return np.random.default_rng([sum(map(ord, str(part))) for part in seed])


# ---- masks: flags, files, and what they allow ----


def indices(n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(n)[:, None], np.arange(m)[None, :]


def mask_none(folder: Path, n: int, m: int) -> tuple[list[str], np.ndarray]:
    return [], np.ones((n, m), bool)


def mask_causal(folder: Path, n: int, m: int) -> tuple[list[str], np.ndarray]:
    i, j = indices(n, m)
    return ["--causal=bottom-right"], j <= i + m - n


def mask_top_left(folder: Path, n: int, m: int) -> tuple[list[str], np.ndarray]:
    i, j = indices(n, m)
    return ["--causal=top-left"], j <= i


def mask_window(folder: Path, n: int, m: int) -> tuple[list[str], np.ndarray]:
    i, j = indices(n, m)
    return ["--window", "3,2"], (i - 3 <= j) & (j <= i + 2)


def mask_strided(folder: Path, n: int, m: int) -> tuple[list[str], np.ndarray]:
    i, j = indices(n, m)
    return ["--strided", "3"], (i - j) % 3 == 0


def mask_block(folder: Path, n: int, m: int) -> tuple[list[str], np.ndarray]:
    i, j = indices(n, m)
    return ["--block", "4"], i // 4 == j // 4


def mask_blocks(folder: Path, n: int, m: int) -> tuple[list[str], np.ndarray]:
    save(folder, blocks=np.array([3, 0, 4, n - 7]))
    block = np.repeat([0, 2, 3], [3, 4, n - 7])
    return ["--block", "blocks.npy"], block[:, None] == block[None, :]


def mask_boolean(folder: Path, n: int, m: int) -> tuple[list[str], np.ndarray]:
    draw = rng("boolean", n, m)
    allowed = draw.random((n, m)) < 0.4
    # A few permutations, so that coupled columns have a plan with every allowed pair positive.
    if n == m:
        allowed = np.zeros((n, m), bool)
        for _ in range(4):
            allowed[np.arange(n), draw.permutation(n)] = True
    allowed[np.arange(n), np.arange(n) % m] |= n != m
    save(folder, mask=allowed)
    return ["--mask", "mask.npy"], allowed


def mask_additive(folder: Path, n: int, m: int) -> tuple[list[str], np.ndarray]:
    allowed = mask_boolean(folder, n, m)[1]
    save(folder, mask=np.where(allowed, 0.0, -np.inf))
    return ["--mask", "mask.npy"], allowed


def mask_lengths(folder: Path, n: int, m: int) -> tuple[list[str], np.ndarray]:
    save(folder, lengths=np.array([m - 2]))
    return ["--lengths", "lengths.npy"], np.broadcast_to(np.arange(m) < m - 2, (n, m))


def mask_composed(folder: Path, n: int, m: int) -> tuple[list[str], np.ndarray]:
    i, j = indices(n, m)
    flags, allowed = mask_lengths(folder, n, m)
    return ["--causal=top-left", "--window", "5,-1", *flags], allowed & (j <= i) & (j >= i - 5)


Mask = Callable[[Path, int, int], tuple[list[str], np.ndarray]]
MASKS: list[Mask] = [
    mask_none, mask_causal, mask_top_left, mask_window, mask_strided, mask_block, mask_blocks, mask_boolean,
    mask_additive, mask_lengths, mask_composed,
]  # fmt: skip
# Those whose allowed pairs all carry weight in some doubly stochastic plan.
TOTAL: list[Mask] = [
    mask_none, mask_window, mask_strided, mask_block, mask_blocks, mask_boolean, mask_additive,
]  # fmt: skip


def named(masks: list[Mask]) -> Any:
    return pytest.mark.parametrize("mask", masks, ids=lambda mask: mask.__name__)


# ---- free columns ----

ROWS = {
    "softmax": (oracles.softmax_row, "LIT-05 TOT-01 TOT-03 ELA-02"),
    "sparsemax": (oracles.entmax_row(2.0), "LIT-10 LIT-14"),
    "entmax:1.5": (oracles.entmax_row(1.5), "LIT-11 LIT-14"),
    "entmax:1.2": (oracles.entmax_row(1.2), "LIT-11"),
    "entmax:3": (oracles.entmax_row(3.0), "LIT-11"),
    "hard": (oracles.hard_row, "LIT-08"),
}


# Block sizes that cover both sides need n = m.
SHAPES = [(mask, shape) for shape in [(SIZE, SIZE), (9, 14), (13, 8)] for mask in MASKS
          if shape[0] == shape[1] or mask is not mask_blocks]  # fmt: skip


@pytest.mark.parametrize(("mask", "shape"), SHAPES, ids=lambda part: getattr(part, "__name__", str(part)))
@pytest.mark.parametrize("method", ROWS)
def test_free_columns(tmp_path: Path, mask: Mask, method: str, shape: tuple[int, int]) -> None:
    n, m = shape
    S = rng(method, shape).normal(size=shape)
    flags, allowed = mask(tmp_path, n, m)
    row, ids = ROWS[method]
    P, result = solve(tmp_path, S, "-m", method, "-t", "0.7", *flags)
    want = oracles.by_rows(S, allowed, 0.7, row)
    assert result["status"] == "ok"
    # f64 and 8 + 3 |s| / tau <= 100 in the numeric policy; the root of an order above 2 halves the digits
    # next to the edge of the support.
    tolerance = np.sqrt(100 * U64) if method == "entmax:3" else 100 * U64
    spec.check(ids, np.abs(P - want).max(), tolerance)
    assert (P[~allowed] == 0.0).all()
    spec.check("TOT-03", abs(result["certificate"]["empty_rows"] - (~allowed.any(axis=1)).sum()), 0)


def test_entmax_agrees_with_the_entmax_package(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    entmax = pytest.importorskip("entmax")
    S = rng("entmax").normal(size=(40, 30)) * 3.0
    z = torch.tensor(S)
    for method, want in {
        "sparsemax": entmax.sparsemax(z, dim=-1),
        "entmax:1.5": entmax.entmax15(z, dim=-1),
        "entmax:1.3": entmax.entmax_bisect(z, 1.3, dim=-1, n_iter=100),
    }.items():
        P, _ = solve(tmp_path, S, "-m", method)
        spec.check("LIT-10 LIT-11 LIT-14", np.abs(P - want.numpy()).max(), 1e-12)


# ---- coupled columns, entropy ----

COUPLED = {
    "softmax/exact": (lambda S, allowed: oracles.exact(S, allowed, 0.8), "CETA-02 CETA-06 TOT-12 ELA-03"),
    "softmax/relaxed:0.6": (lambda S, allowed: oracles.relaxed(S, allowed, 0.8, 0.6), "DER-01 DER-10"),
    "softmax/capped:1.1": (lambda S, allowed: oracles.capped(S, allowed, 0.8, 1.1), "DER-02"),
    "softmax/bounded:0.8,1.2": (lambda S, allowed: oracles.bounded(S, allowed, 0.8, 0.8, 1.2), "DER-02"),
    "elastic:0.4,5": (lambda S, allowed: oracles.elastic(S, allowed, 0.8, 0.4, 5), "ELA-09"),
    "softmax/online:1.3": (lambda S, allowed: oracles.online(S, allowed, 0.8, 1.3), "CETA-26"),
}


@named(TOTAL)
@pytest.mark.parametrize("method", COUPLED)
def test_coupled_columns(tmp_path: Path, mask: Mask, method: str) -> None:
    S = rng(method).normal(size=(SIZE, SIZE))
    flags, allowed = mask(tmp_path, SIZE, SIZE)
    oracle, ids = COUPLED[method]
    P, result = solve(tmp_path, S, "-m", method, "-t", "0.8", "--tolerance", RESIDUAL, *flags)
    assert result["status"] in ("ok", "fixed_iters")
    spec.check(ids, np.abs(P - oracle(S, allowed)).max(), NEAR)
    assert (P[~allowed] == 0.0).all()


@pytest.mark.parametrize("shape", [(1, 1), (1, 6), (6, 1), (7, 11), (11, 7)])
def test_rectangles(tmp_path: Path, shape: tuple[int, int]) -> None:
    S = rng("rectangle", shape).normal(size=shape)
    P, _ = solve(tmp_path, S, "-m", "softmax/exact", "--tolerance", RESIDUAL)
    spec.check("DER-03", np.abs(P - oracles.exact(S, np.ones(shape, bool), 1.0)).max(), NEAR)
    if shape[0] <= shape[1]:
        P, _ = solve(tmp_path, S, "-m", "prefix", "--tolerance", RESIDUAL)
        spec.check("DER-04", np.abs(P - oracles.prefix(S, 1.0)).max(), NEAR)


def test_sinkhorn_agrees_with_pot(tmp_path: Path) -> None:
    ot = pytest.importorskip("ot")
    draw = rng("pot")
    C = draw.random((20, 15))
    mu, nu = draw.random(20) + 0.1, draw.random(15) + 0.1
    nu *= mu.sum() / nu.sum()
    save(tmp_path, mu=mu, nu=nu)
    masses = ["--cost", "-t", "0.1", "--row-mass", "mu.npy", "--column-mass", "nu.npy"]
    masses += ["--tolerance", str(RESIDUAL)]
    P, _ = solve(tmp_path, C, "-m", "softmax/exact", *masses)
    want = ot.sinkhorn(mu, nu, C, 0.1, method="sinkhorn_log", stopThr=1e-15, numItermax=100000)
    spec.check("TOT-08 TOT-12", np.abs(P - want).max(), NEAR)
    P, _ = solve(tmp_path, C, "-m", "softmax/relaxed:0.5", "--rows", "relaxed:0.3", *masses)
    want = ot.unbalanced.sinkhorn_unbalanced(
        mu, nu, C, 0.1, (0.3, 0.5), method="sinkhorn_stabilized", reg_type="entropy", stopThr=1e-15,
        numItermax=100000,
    )  # fmt: skip
    spec.check("DER-01", np.abs(P - want).max(), NEAR)


def test_printed_golden_values(tmp_path: Path) -> None:
    S = np.array([[1.0, 0, 0], [0, 2, 0], [1, 1, 0]])
    # Printed with 15 digits.
    digits = 1e-14
    P, result = solve(tmp_path, S)
    spec.check("TOT-01", abs(P[0, 0] - 0.576116884765829), digits)
    spec.check("CETA-20", abs(result["certificate"]["delta"] - 0.52618905996675), digits)
    P, _ = solve(tmp_path, S, "-m", "ceta", "--tolerance", 1e-14)
    want = np.array([0.480972506559231, 0.12063642777399, 0.398391065666778])
    spec.check("CETA-02", np.abs(P[0] - want).max(), 1e-13)
    P, result = solve(tmp_path, S, "-m", "elastic:.5,2")
    want = np.array([0.503371415180791, 0.149448862475477, 0.347179722343732])
    spec.check("ELA-09 DER-26", np.abs(P[0] - want).max(), digits)
    spec.check("ELA-09", abs(result["certificate"]["delta"] - 0.164449395355411), digits)
    P, _ = solve(tmp_path, S, "-m", "relaxed:1", "--tolerance", 1e-14)
    want = np.array([0.533960420320068, 0.168282800438745, 0.297756779241187])
    spec.check("DER-01", np.abs(P[0] - want).max(), 1e-13)
    z = np.array([[1, 0.5, 0.2, -1.0]])
    P, _ = solve(tmp_path, z, "-m", "sparsemax")
    spec.check("LIT-10", np.abs(P - [[0.75, 0.25, 0, 0]]).max(), digits)
    P, _ = solve(tmp_path, z, "-m", "entmax15")
    want = np.array([[0.592807227494524, 0.270337349616227, 0.136855422889249, 0.0]])
    spec.check("LIT-11", np.abs(P - want).max(), digits)
    P, _ = solve(tmp_path, np.diag([2.0, 1.0]), "-m", "ceta", "--tolerance", 1e-14)
    spec.check("CETA-02", abs(P[0, 0] - 0.817574476193644), 1e-13)


def test_infeasible_supports_say_so(tmp_path: Path) -> None:
    save(tmp_path, scores=rng("causal").normal(size=(SIZE, SIZE)))
    result = answer(tmp_path, "plan", "scores.npy", "-m", "softmax/exact", "-c", code=3)
    assert result["status"] == "infeasible"
    spec.check_true("CETA-24 DER-24", "identity" in result["error"])
    for word in ("relaxed", "capped", "online"):
        assert word in result["error"]
    P, result = solve(tmp_path, np.load(tmp_path / "scores.npy"), "-m", "softmax/exact", "-c", "--prune")
    spec.check("DER-24", np.abs(P - np.eye(SIZE)).max(), NEAR)
    assert result["warnings"]
    # Judged, too, when no plan is asked for: the potentials alone do not know what was pruned.
    result = answer(tmp_path, "plan", "scores.npy", "-m", "softmax/exact", "-c", "--prune")
    assert result["status"] == "ok" and result["certificate"]["column_error"] <= NEAR


# ---- Tsallis with coupled columns: optimality, since nobody else solves these ----


@named(TOTAL)
@pytest.mark.parametrize("order", [1.5, 2.0])
@pytest.mark.parametrize("columns", ["exact", "capped:1.1", "bounded:0.9,1.1", "relaxed:0.5"])
def test_sparse_coupled_plans_are_optimal(tmp_path: Path, mask: Mask, order: float, columns: str) -> None:
    S = rng(order, columns).normal(size=(SIZE, SIZE))
    flags, allowed = mask(tmp_path, SIZE, SIZE)
    tau = 0.7
    P, result = solve(
        tmp_path, S, "-m", f"entmax:{order}/{columns}", "-t", tau, *flags,
        "--row-potential", "f.npy", "--column-potential", "g.npy",
    )  # fmt: skip
    f, g = np.load(tmp_path / "f.npy"), np.load(tmp_path / "g.npy")
    c, target = P.sum(axis=0), oracles.shares(allowed)
    level = (order - 1.0) * (S + f[:, None] + g) / tau
    again = np.where(allowed, np.maximum(0.0, level) ** (1.0 / (order - 1.0)), 0.0)
    spec.check("LIT-11", np.abs(P - again).max(), 1e-12)
    spec.check("LIT-11", np.abs(P.sum(axis=1) - 1.0).sum() / SIZE, 1e-9)
    if columns == "exact":
        spec.check("TOT-08", np.abs(c - target).sum() / SIZE, 1e-9)
    elif columns.startswith("capped"):
        spec.check("DER-02", np.maximum(0.0, c - 1.1).sum() / SIZE, 1e-9)
        # Complementary slackness: a key below its cap has no price.
        spec.check("DER-02", np.maximum(0.0, g).max(), 1e-12)
        spec.check("DER-02", np.abs(g[c < 1.1 - 1e-7]).max(initial=0.0), 1e-7)
    elif columns.startswith("bounded"):
        full, bare = 1.1 * target - c, c - 0.9 * target
        spec.check("DER-02", (np.maximum(0.0, -full) + np.maximum(0.0, -bare)).sum() / SIZE, 1e-9)
        spec.check("DER-02", np.maximum(0.0, -g)[full > 1e-7].max(initial=0.0), 1e-7)
        spec.check("DER-02", np.maximum(0.0, g)[bare > 1e-7].max(initial=0.0), 1e-7)
    else:
        spec.check("DER-01", np.abs(c - target * np.exp(-g / 0.5)).sum() / SIZE, 1e-9)
    assert result["status"] == "ok"


# ---- hard plans ----


def test_assignment_agrees_with_scipy(tmp_path: Path) -> None:
    draw = rng("assignment")
    for n, m in [(1, 1), (2, 5), (5, 2), (9, 9), (30, 41), (41, 30)]:
        C = draw.normal(size=(n, m))
        save(tmp_path, cost=C)
        result = answer(tmp_path, "assign", "cost.npy")
        rows, columns = linear_sum_assignment(C)
        want = C[rows, columns].sum()
        spec.check("ELA-14 LIT-06", abs(result["value"] - want), 1e-12 * (1 + np.abs(C).sum()))
        spec.check("ELA-14", abs(result["gap"]), 1e-12 * (1 + np.abs(C).sum()))
        matched = [(i, j) for i, j in enumerate(result["permutation"]) if j >= 0]
        assert len({j for _, j in matched}) == len(matched) == min(n, m)
        spec.check("ELA-14", abs(sum(C[pair] for pair in matched) - result["value"]), 1e-12 * (1 + abs(want)))


def test_forbidden_cells(tmp_path: Path) -> None:
    draw = rng("forbidden")
    C = draw.normal(size=(12, 15))
    C[draw.random(C.shape) < 0.5] = np.inf
    save(tmp_path, cost=C)
    rows, columns = linear_sum_assignment(C)
    result = answer(tmp_path, "assign", "cost.npy")
    spec.check("ELA-14", abs(result["value"] - C[rows, columns].sum()), 1e-12)
    C[0] = np.inf
    save(tmp_path, cost=C)
    assert answer(tmp_path, "assign", "cost.npy", code=3)["status"] == "infeasible"


def test_sparse_costs_match_or_are_refused_as_scipy_does(tmp_path: Path) -> None:
    draw = rng("sparse costs")
    refused = 0
    for _ in range(60):
        n, m = draw.integers(1, 6, 2)
        C = draw.integers(0, 4, (n, m)).astype(float)
        C[draw.random(C.shape) < 0.55] = np.inf
        save(tmp_path, cost=C)
        try:
            rows, columns = linear_sum_assignment(C)
        except ValueError:
            assert answer(tmp_path, "assign", "cost.npy", code=3)["status"] == "infeasible"
            refused += 1
            continue
        result = answer(tmp_path, "assign", "cost.npy")
        matched = [j for j in result["permutation"] if j >= 0]
        assert len(set(matched)) == len(matched) == min(n, m)
        spec.check("ELA-14", abs(result["value"] - C[rows, columns].sum()), 0.0)
    assert 5 < refused < 55


@pytest.mark.parametrize("rule", ["exact", "capped:1.7", "bounded:0.6,1.7"])
def test_transport_agrees_with_linear_programming(tmp_path: Path, rule: str) -> None:
    draw = rng(rule)
    for n, m in [(6, 6), (5, 9), (10, 4)]:
        C = draw.normal(size=(n, m))
        mu, nu = draw.random(n) + 0.2, draw.random(m) + 0.2
        nu *= mu.sum() / nu.sum()
        save(tmp_path, mu=mu, nu=nu)
        words = ["--cost", "--row-mass", "mu.npy", "--column-mass", "nu.npy", "-m", f"hard/{rule}"]
        P, result = solve(tmp_path, C, *words)
        least = 0.6 * nu if rule.startswith("bounded") else None
        most = nu if rule == "exact" else 1.7 * nu
        want = oracles.transport_value(C, mu, most, rule == "exact", least)
        spec.check("LIT-06 ELA-14", abs((P * C).sum() - want), 1e-9)
        spec.check("LIT-06", abs(result["certificate"]["gap"]), 1e-12 * np.abs(C).sum())


# ---- laws ----


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(n=st.integers(1, 20), m=st.integers(1, 20), tau=st.floats(0.05, 20.0), seed=st.integers(0, 10**6))
def test_laws_of_the_exact_plan(
    tmp_path_factory: pytest.TempPathFactory, n: int, m: int, tau: float, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("laws")
    draw = np.random.default_rng(seed)
    S = draw.normal(size=(n, m))
    words = ["-m", "softmax/exact", "-t", repr(tau), "--tolerance", "1e-10"]
    P, result = solve(folder, S, *words)
    near = 1e-6
    spec.check("CETA-11 DER-03", np.abs(P.sum(axis=0) - n / m).sum() / n, 1e-10 + n * U64)
    spec.check("DER-26", np.abs(P.sum(axis=1) - 1.0).max(), 8 * m * U64)
    shifted, _ = solve(folder, S + draw.normal(size=(n, 1)) + draw.normal(size=m), *words)
    spec.check("TOT-06", np.abs(P - shifted).max(), near)
    order, other = draw.permutation(n), draw.permutation(m)
    permuted, _ = solve(folder, S[order][:, other], *words)
    spec.check("CETA-10", np.abs(P[order][:, other] - permuted).max(), near)
    turned, _ = solve(folder, S.T, *words, "--axis", "columns")
    spec.check("BLOG-02", np.abs(turned.T - P).max(), near)
    assert result["certificate"]["receiver_max"] <= 1.0 + m * 1e-9


def test_column_axis_is_the_softmax_of_columns(tmp_path: Path) -> None:
    S = rng("axis").normal(size=(7, 9))
    P, _ = solve(tmp_path, S, "--axis", "columns")
    want = oracles.by_rows(S.T, np.ones((9, 7), bool), 1.0, oracles.softmax_row).T
    spec.check("BLOG-02", np.abs(P - want).max(), 20 * U64)


def test_powers_of_two_change_no_bit(tmp_path: Path) -> None:
    S = rng("scale").normal(size=(16, 16))
    for method, unit in [("softmax/exact", ""), ("relaxed:", "0.5"), ("entmax:1.5", "")]:
        one, _ = solve(tmp_path, S, "-m", method + unit, "-t", "0.5")
        larger = method + (str(8 * float(unit)) if unit else "")
        eight, _ = solve(tmp_path, 8.0 * S, "-m", larger, "-t", "4")
        spec.check("TOT-09", float(np.count_nonzero(one != eight)), 0)


def test_zero_rounds_and_zero_lambda_are_softmax_bit_for_bit(tmp_path: Path) -> None:
    S = rng("zero").normal(size=(16, 16))
    P, _ = solve(tmp_path, S)
    for words in (["-m", "ceta", "--rounds", "0"], ["-m", "elastic:0,5"], ["-m", "elastic:.5,0"]):
        other, result = solve(tmp_path, S, *words)
        assert result["status"] == "fixed_iters"
        spec.check("ELA-07", float(np.count_nonzero(other != P)), 0)


def test_threads_change_no_bit(tmp_path: Path) -> None:
    S = rng("threads").normal(size=(3, 4, 50, 60))
    for method in ("softmax", "softmax/exact", "entmax:1.5", "softmax/capped:1.2"):
        one, _ = solve(tmp_path, S, "-m", method, "-j", "1")
        three, _ = solve(tmp_path, S, "-m", method, "-j", "3")
        spec.check("TOT-20", float(np.count_nonzero(one != three)), 0)


# ---- attend ----


def torch_attention(Q: np.ndarray, K: np.ndarray, V: np.ndarray, **options: Any) -> np.ndarray:
    torch = pytest.importorskip("torch")
    mask = options.pop("mask", None)
    if mask is not None:
        options["attn_mask"] = torch.tensor(mask)
    attention = torch.nn.functional.scaled_dot_product_attention
    return attention(*(torch.tensor(x) for x in (Q, K, V)), **options).numpy()


@pytest.mark.parametrize("case", ["plain", "causal", "boolean", "additive", "grouped"])
def test_attend_agrees_with_torch(tmp_path: Path, case: str) -> None:
    draw = rng(case)
    batch, heads, n, m, d, w = 2, 4, 33, 33, 24, 17
    kv = 2 if case == "grouped" else heads
    Q, K, V = (
        draw.normal(size=size).astype(np.float32)
        for size in [(batch, heads, n, d), (batch, kv, m, d), (batch, kv, m, w)]
    )
    save(tmp_path, Q=Q, K=K, V=V)
    words: list[str] = []
    options: dict[str, Any] = {}
    allowed, bias = np.ones((n, m), bool), np.zeros((n, m))
    if case == "causal":
        words, options, allowed = ["-c"], {"is_causal": True}, np.tril(allowed)
    elif case == "boolean":
        allowed = draw.random((n, m)) < 0.5
        allowed[:, 0] = True
        save(tmp_path, mask=allowed)
        words, options = ["--mask", "mask.npy"], {"mask": allowed}
    elif case == "additive":
        bias = draw.normal(size=(n, m))
        save(tmp_path, mask=bias.astype(np.float32))
        bias = bias.astype(np.float32).astype(np.float64)
        words, options = ["--mask", "mask.npy"], {"mask": bias.astype(np.float32)}
    elif case == "grouped":
        options = {"enable_gqa": True}
    result = answer(tmp_path, "attend", "Q.npy", "K.npy", "V.npy", "-o", "out.npy", *words)
    out = np.load(tmp_path / "out.npy")
    assert out.dtype == np.float32
    assert out.shape == (batch, heads, n, w)
    want, bound = oracles.attend(Q, K, V, allowed, bias)
    spec.check("CETA-03 LIT-15", (np.abs(out - want) / bound).max(), 1.0)
    # torch keeps to the same bound, so the two differ by at most twice that.
    spec.check("CETA-03", (np.abs(out - torch_attention(Q, K, V, **options)) / bound).max(), 2.0)
    assert result["problem"] == {"batch": 2, "heads": 4, "queries": n, "keys": m, "width": d, "dtype": "f32"}


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_narrow_types_compute_on_rounded_inputs(tmp_path: Path, dtype: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    narrow = ml_dtypes.bfloat16 if dtype == "bf16" else np.float16
    draw = rng(dtype)
    Q, K, V = (draw.normal(size=(1, 2, 40, 16)).astype(np.float32) for _ in range(3))
    save(tmp_path, Q=Q, K=K, V=V)
    result = answer(tmp_path, "attend", "Q.npy", "K.npy", "V.npy", "-o", "out.npy", "--dtype", dtype)
    out = np.load(tmp_path / "out.npy")
    assert result["problem"]["dtype"] == dtype
    assert out.dtype == np.float32
    Q, K, V = (x.astype(narrow).astype(np.float32) for x in (Q, K, V))
    want, bound = oracles.attend(Q, K, V, np.ones((40, 40), bool))
    spec.check("CETA-03", (np.abs(out - want) / bound).max(), 1.0)


def test_mean_conservation_and_hull(tmp_path: Path) -> None:
    Q, K, V = (rng("mean").normal(size=(24, 8)) for _ in range(3))
    save(tmp_path, Q=Q, K=K, V=V)
    answer(tmp_path, "attend", "Q.npy", "K.npy", "V.npy", "-m", "ceta", "-o", "out.npy", "--tolerance", 1e-13)
    out = np.load(tmp_path / "out.npy")
    spec.check("CETA-12", np.abs(out.mean(axis=0) - V.mean(axis=0)).max(), 1e-12)
    beyond = max((out - V.max(axis=0)).max(), (V.min(axis=0) - out).max())
    spec.check("CETA-13", beyond, 4 * U64 * np.abs(V).max())


def test_biases(tmp_path: Path) -> None:
    draw = rng("biases")
    heads, n, m, d = 3, 9, 11, 6
    Q, K = draw.normal(size=(heads, n, d)), draw.normal(size=(heads, m, d))
    V = np.broadcast_to(np.eye(m), (heads, m, m)).copy()
    dense, relative = draw.normal(size=(n, m)), draw.normal(size=(heads, n + m - 1))
    save(tmp_path, Q=Q, K=K, V=V, dense=dense, relative=relative)
    i, j = indices(n, m)
    S = Q @ K.transpose(0, 2, 1) / np.sqrt(d)
    shifted = relative[:, i - j + m - 1]
    slopes = 2.0 ** (-8.0 * np.arange(1, heads + 1) / heads)
    cases = {
        "dense": (["--bias", "dense.npy"], S + dense, ""),
        "relative": (["--relative-bias", "relative.npy"], S + shifted, "TOT-50"),
        "inside": (["--relative-bias", "relative.npy:inside"], S + shifted / np.sqrt(d), "TOT-50"),
        "alibi": (["--alibi", "auto"], S - slopes[:, None, None] * np.abs(i - j), "LIT-12 LIT-32"),
        "softcap": (["--softcap", "0.8"], 0.8 * np.tanh(S / 0.8), ""),
        "cost": (["--cost"], -S, "ELA-05"),
        "all": (
            ["--bias", "dense.npy", "--relative-bias", "relative.npy", "--alibi", "0.3", "--softcap", "0.8"],
            0.8 * np.tanh(S / 0.8) - 0.3 * np.abs(i - j) + shifted + dense, "LIT-32 TOT-50",
        ),
    }  # fmt: skip
    for words, scores, ids in cases.values():
        answer(tmp_path, "attend", "Q.npy", "K.npy", "V.npy", "-f", "-o", "out.npy", "-t", "0.5,1,2", *words)
        out = np.load(tmp_path / "out.npy")
        tau = np.array([0.5, 1.0, 2.0])[:, None, None]
        want = np.exp(scores / tau) / np.exp(scores / tau).sum(axis=-1, keepdims=True)
        spec.check(ids, np.abs(out - want).max(), 200 * U64)
    answer(tmp_path, "attend", "Q.npy", "K.npy", "V.npy", "-f", "-o", "out.npy", "--sink", "0.5")
    want = np.exp(S) / (np.exp(S).sum(axis=-1, keepdims=True) + np.exp(0.5))
    spec.check("", np.abs(np.load(tmp_path / "out.npy") - want).max(), 200 * U64)


def test_rope(tmp_path: Path) -> None:
    draw = rng("rope")
    n, d = 7, 6
    Q, K, V = draw.normal(size=(n, d)), draw.normal(size=(n, d)), np.eye(n)
    save(tmp_path, Q=Q, K=K, V=V)
    angle = np.arange(n)[:, None] * 100.0 ** (-2.0 * np.arange(d // 2) / d)

    def turn(x: np.ndarray) -> np.ndarray:
        z = (x[:, 0::2] + 1j * x[:, 1::2]) * np.exp(1j * angle)
        return np.stack([z.real, z.imag], axis=-1).reshape(n, d)

    S = turn(Q) @ turn(K).T / np.sqrt(d)
    answer(tmp_path, "attend", "Q.npy", "K.npy", "V.npy", "-o", "out.npy", "--rope=100")
    want = oracles.by_rows(S, np.ones((n, n), bool), 1.0, oracles.softmax_row)
    spec.check("TOT-51", np.abs(np.load(tmp_path / "out.npy") - want).max(), 200 * U64)


# ---- hamming ----


def test_hamming_agrees_with_a_dense_plan(tmp_path: Path) -> None:
    ot = pytest.importorskip("ot")
    draw = rng("hamming")
    p, q = draw.dirichlet(np.ones(20)), draw.dirichlet(np.ones(20))
    save(tmp_path, p=p, q=q)
    C = 1.0 - np.eye(20)
    result = answer(tmp_path, "hamming", "p.npy", "q.npy", "-e", "0.5")
    P = ot.sinkhorn(p, q, C, 0.5, method="sinkhorn_log", stopThr=1e-15, numItermax=10000)
    spec.check("DER-05 TOT-18", abs(result["cost"] - (P * C).sum()), 1e-12)
    spec.check("DER-05", abs(result["objective"] - (P * C).sum() - 0.5 * (P * np.log(P)).sum()), 1e-12)
    spec.check("TOT-36 TOT-72", abs(result["tv"] - 0.5 * np.abs(p - q).sum()), 4 * U64)
    other = answer(tmp_path, "hamming", "p.npy", "q.npy", "-e", "0.5", "--solver", "sinkhorn")
    spec.check("TOT-16", abs(result["divergence"] - other["divergence"]), 1e-9)
    spec.check("TOT-16", other["marginal_error"], 1e-10)
