"""`--grad` of the program against torch autograd: softmax, entmax and Sinkhorn written as torch operations,
differentiated by torch and by nothing of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spec
import torch
from program import answer, run, save

RNG = np.random.default_rng(5)
# Gradients in f64 by numeric policy 3.3; solutions are found to TIGHT.
RELATIVE, ABSOLUTE, TIGHT = 1e-6, 1e-9, 1e-13


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def leaf(array: np.ndarray | float) -> torch.Tensor:
    return torch.tensor(np.asarray(array, dtype=np.float64), requires_grad=True)


def entmax_rows(z: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
    """Rows p = ((alpha - 1) z - t)_+ ^ (1 / (alpha - 1)): t by bisection, then one Newton step that carries
    the derivative of t (implicit differentiation by hand, through autograd)."""
    k = alpha - 1.0
    x = k * z
    with torch.no_grad():
        low, high = x.max(-1, keepdim=True).values - 1.0, x.max(-1, keepdim=True).values
        for _ in range(200):
            middle = 0.5 * (low + high)
            more = ((x - middle).clamp(min=0.0) ** (1.0 / k)).sum(-1, keepdim=True) > 1.0
            low, high = torch.where(more, middle, low), torch.where(more, high, middle)
    inside = x > low
    base = torch.where(inside, x - low, torch.ones_like(x))
    excess = torch.where(inside, base ** (1.0 / k), torch.zeros_like(x)).sum(-1, keepdim=True) - 1.0
    slope = torch.where(inside, base ** (1.0 / k - 1.0) / k, torch.zeros_like(x)).sum(-1, keepdim=True)
    t = low + excess / slope.detach()
    return torch.where(inside, torch.where(inside, x - t, base) ** (1.0 / k), torch.zeros_like(x))


def sinkhorn(
    S: torch.Tensor, tau: torch.Tensor, nu: torch.Tensor, rounds: int, damp: torch.Tensor | float = 1.0
) -> torch.Tensor:
    """Row update, then rounds of a damped column update and a row update, in logarithms."""
    g = torch.zeros_like(S[..., 0, :])
    f = -tau * torch.logsumexp((S + g[..., None, :]) / tau, -1)
    for _ in range(rounds):
        c = torch.logsumexp((S + f[..., :, None]) / tau, -2)
        g = damp * tau * (torch.log(nu) - c)
        f = -tau * torch.logsumexp((S + g[..., None, :]) / tau, -1)
    return torch.exp((S + f[..., :, None] + g[..., None, :]) / tau)


def elastic(S: torch.Tensor, tau: torch.Tensor, weight: torch.Tensor, rounds: int) -> torch.Tensor:
    nu = torch.full_like(S[..., 0, :], S.shape[-2] / S.shape[-1])
    g = torch.zeros_like(S[..., 0, :])
    f = -tau * torch.logsumexp((S + g[..., None, :]) / tau, -1)
    for _ in range(rounds):
        c = torch.logsumexp((S + f[..., :, None]) / tau, -2)
        g = (1.0 - weight) * g + weight * tau * (torch.log(nu) - c)
        f = -tau * torch.logsumexp((S + g[..., None, :]) / tau, -1)
    return torch.exp((S + f[..., :, None] + g[..., None, :]) / tau)


def off(ours: np.ndarray, theirs: torch.Tensor) -> float:
    """The largest error, in units of what is allowed."""
    want = theirs.detach().numpy()
    assert ours.shape == want.shape, (ours.shape, want.shape)
    return float(np.max(np.abs(ours - want) / (RELATIVE * np.abs(want).max() + ABSOLUTE), initial=0.0))


def gradients(folder: Path, *words: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    result = answer(folder, *words, "--grad-out", "gradients.npz", "-f")
    assert result["outputs"]["grad_out"] == "gradients.npz"
    return dict(np.load(folder / "gradients.npz")), result


def attend_case(name: str) -> tuple[list[str], dict[str, torch.Tensor], Any]:
    """Flags, leaves by their names in the file (beside query, key, value), and weights from scores."""
    tau = leaf(0.7)
    flags = ["--temperature", "0.7", "--tolerance", str(TIGHT)]
    if name == "softmax":
        return ["--method", "softmax", *flags], {"temperature": tau}, lambda S: torch.softmax(S / tau, -1)
    if name == "entmax":
        alpha = leaf(1.5)
        leaves = {"temperature": tau, "alpha": alpha}
        return ["--method", "entmax:1.5", *flags], leaves, lambda S: entmax_rows(S / tau, alpha)
    if name == "exact":
        return (
            ["--method", "softmax/exact", *flags],
            {"temperature": tau},
            lambda S: sinkhorn(S, tau, torch.full_like(S[..., 0, :], S.shape[-2] / S.shape[-1]), 400),
        )
    if name == "relaxed":
        rho = leaf(0.9)
        return (
            ["--method", "relaxed:0.9", *flags],
            {"temperature": tau, "strength": rho},
            lambda S: sinkhorn(
                S, tau, torch.full_like(S[..., 0, :], S.shape[-2] / S.shape[-1]), 400, rho / (rho + tau)
            ),
        )
    weight = leaf(0.4)
    return (
        ["--method", "elastic:0.4,3", *flags[:2]],
        {"temperature": tau, "strength": weight},
        lambda S: elastic(S, tau, weight, 3),
    )


# Exact columns under a causal mask leave only the identity.
CASES = [(name, False) for name in ("softmax", "entmax", "exact", "relaxed", "elastic")]
CASES += [(name, True) for name in ("softmax", "entmax", "relaxed", "elastic")]


@pytest.mark.parametrize(("name", "causal"), CASES)
def test_attend(tmp_path: Path, name: str, causal: bool) -> None:
    flags, leaves, weights = attend_case(name)
    n, m, width = 5, 5 if causal else 7, 3
    Q, K, V, bias, upstream = (
        normal(2, 4, n, width),
        normal(2, 2, m, width),
        normal(2, 2, m, 2),
        normal(4, n, m),
        normal(2, 4, n, 2),
    )
    save(tmp_path, q=Q, k=K, v=V, bias=bias, upstream=upstream)
    words = ["attend", "q.npy", "k.npy", "v.npy", *flags, "--bias", "bias.npy", "--grad", "upstream.npy"]
    found, result = gradients(
        tmp_path, *words, "--grad-scores", "--grad-parameters", *(["--causal"] if causal else [])
    )
    assert result["status"] == ("fixed_iters" if name == "elastic" else "ok")
    q, k, v, b = leaf(Q), leaf(K), leaf(V), leaf(bias)
    S = q @ k.repeat_interleave(2, 1).transpose(-1, -2) / width**0.5 + b
    S.retain_grad()
    if causal:
        mask = torch.ones(n, m, dtype=torch.bool).tril()
        masked = torch.where(mask, S, torch.full_like(S, -1e4))
    else:
        masked = S
    P = weights(masked)
    out = P @ v.repeat_interleave(2, 1)
    out.backward(torch.from_numpy(upstream))
    want = {"query": q.grad, "key": k.grad, "value": v.grad, "bias": b.grad, "scores": S.grad}
    want |= {key: tensor.grad for key, tensor in leaves.items()}
    assert set(found) == set(want)
    ids = {"softmax": "LIT-21", "entmax": "DER-12", "exact": "DER-13", "relaxed": "DER-14"}
    for key, tensor in want.items():
        assert tensor is not None
        spec.check(ids.get(name, "DER-15"), off(found[key], tensor), 1.0)


def test_plan_masses_and_advantage(tmp_path: Path) -> None:
    n, m = 6, 4
    S, upstream, mu = normal(n, m), normal(n, m), RNG.uniform(0.5, 1.5, n)
    save(tmp_path, s=S, upstream=upstream, mu=mu)
    words = ["plan", "s.npy", "--grad", "upstream.npy", "--advantage", "a.npy", "-o", "p.npy"]
    found, _ = gradients(tmp_path, *words, "--row-mass", "mu.npy", "--grad-parameters")
    s, masses = leaf(S), leaf(mu)
    P = masses[:, None] * torch.softmax(s, -1)
    P.backward(torch.from_numpy(upstream))
    assert s.grad is not None and masses.grad is not None
    spec.check("LIT-17", off(found["scores"], s.grad), 1.0)
    # Entropy's row sums fix f, so only derivatives along the masses themselves are left.
    spec.check("LIT-17", off(found["row_mass"], masses.grad), 1.0)
    p, advantage = np.load(tmp_path / "p.npy"), np.load(tmp_path / "a.npy")
    u = -upstream
    mean = (p * u).sum(-1, keepdims=True) / p.sum(-1, keepdims=True)
    spec.check("LIT-19", np.abs(advantage - (u - mean)).max(), 1e-14)
    # The update of the scores is the advantage, weighted.
    spec.check("LIT-17 LIT-19", np.abs(found["scores"] + p * advantage).max(), 1e-14)


def test_rope_sink_alibi_relative(tmp_path: Path) -> None:
    n, width = 6, 4
    Q, K, V, upstream = normal(2, n, width), normal(2, n, width), normal(2, n, 3), normal(2, n, 3)
    relative = normal(2 * n - 1)
    save(tmp_path, q=Q, k=K, v=V, upstream=upstream, relative=relative)
    words = ["attend", "q.npy", "k.npy", "v.npy", "--grad", "upstream.npy", "--grad-parameters", "--rope"]
    words += ["--sink", "0.3", "--alibi", "0.5,0.25", "--relative-bias", "relative.npy", "--softcap", "2"]
    found, _ = gradients(tmp_path, *words)
    q, k, v, r = leaf(Q), leaf(K), leaf(V), leaf(relative)
    sink, alibi, cap = leaf(0.3), leaf(np.array([0.5, 0.25])), leaf(2.0)
    angle = torch.arange(n)[:, None] * 10000.0 ** (-torch.arange(0, width, 2) / width)

    def rotate(x: torch.Tensor) -> torch.Tensor:
        a, b, c, s = x[..., 0::2], x[..., 1::2], torch.cos(angle), torch.sin(angle)
        return torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)

    i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
    S = cap * torch.tanh(rotate(q) @ rotate(k).transpose(-1, -2) / width**0.5 / cap)
    S = S - alibi[:, None, None] * (i - j).abs() + r[i - j + n - 1]
    all_keys = torch.cat([S, sink.expand(2, n, 1)], -1)
    out = torch.softmax(all_keys, -1)[..., :n] @ v
    out.backward(torch.from_numpy(upstream))
    want = {
        "query": q,
        "key": k,
        "value": v,
        "sink": sink,
        "alibi": alibi,
        "relative_bias": r,
        "softcap": cap,
    }
    for name, tensor in want.items():
        assert tensor.grad is not None
        spec.check("LIT-21", off(found[name], tensor.grad), 1.0)


def test_types_follow_the_inputs(tmp_path: Path) -> None:
    Q, K, V = (normal(1, 5, 3).astype(np.float32) for _ in range(3))
    save(tmp_path, q=Q, k=K, v=V, upstream=normal(1, 5, 3).astype(np.float32))
    found, _ = gradients(tmp_path, "attend", "q.npy", "k.npy", "v.npy", "--grad", "upstream.npy")
    assert {name: array.dtype for name, array in found.items()} == dict.fromkeys(
        ("query", "key", "value"), np.dtype(np.float32)
    )


REFUSALS = [
    (["--grad", "u.npy"], 2, "grad"),
    (["--grad-out", "g.npz"], 2, "grad-out"),
    (["--advantage", "a.npy"], 2, "advantage"),
    (["--grad", "short.npy", "--grad-out", "g.npz"], 2, "grad"),
    (["--grad", "u.npy", "--grad-out", "g.npz", "--method", "hard"], 3, "method"),
    (["--grad", "u.npy", "--grad-out", "g.npz", "--method", "ceta", "--backward", "unrolled"], 2, "backward"),
    (["--grad", "u.npy", "--grad-out", "g.npz", "--method", "ceta", "--max-rounds", "1"], 3, "tolerance"),
    (["--grad", "missing.npy", "--grad-out", "g.npz"], 6, "grad"),
]


@pytest.mark.parametrize(("words", "code", "field"), REFUSALS)
def test_refusals_leave_no_file(tmp_path: Path, words: list[str], code: int, field: str) -> None:
    S = 3.0 * normal(5, 5)
    save(tmp_path, s=S, u=normal(5, 5), short=normal(5, 4))
    solver = ["--solver", "log"] if "--max-rounds" in words else []
    result = answer(tmp_path, "plan", "s.npy", *words, *solver, code=code)
    assert result["field"] == field
    assert not list(tmp_path.glob("*.npz")) and not (tmp_path / "a.npy").exists()
    if "hard" in words:
        assert result["status"] == "not_differentiable"


def test_help_names_the_flags(tmp_path: Path) -> None:
    text = run(tmp_path, "plan", "--help").stdout.decode()
    for flag in ("--grad ", "--grad-out", "--grad-parameters", "--advantage", "--backward"):
        assert flag in text
