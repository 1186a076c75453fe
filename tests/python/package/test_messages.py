"""A refusal is a sentence with the argument as the caller wrote it, its value and a remedy."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import otattn
import pytest
import torch

X = np.random.default_rng(3).standard_normal((1, 1, 4, 4))
T = torch.tensor(X)
LOWER = np.tril(np.ones((4, 4), int))


@pytest.mark.parametrize(
    "x, lower, call", [(X, LOWER, "astype\\(bool\\)"), (T, torch.tensor(LOWER), "bool\\(\\)")]
)
def test_masks_of_whole_numbers(x: Any, lower: Any, call: str) -> None:
    said = (
        rf"attn_mask has type .*int64 and shape \(4, 4\), wanted bool \(True takes part\).*attn_mask\.{call}"
    )
    for method in ("softmax", "softmax/capped:2"):
        with pytest.raises(TypeError, match=said):
            otattn.attention(x, x, x, lower, method=method)
        with pytest.raises(TypeError, match=said):
            otattn.coupling(x, lower, method=method)
    if x is X:
        jax = pytest.importorskip("jax")
        y = jax.numpy.asarray(x)
        with pytest.raises(
            TypeError, match=r"attn_mask has type int(32|64) .*wanted bool.*attn_mask\.astype\(bool\)"
        ):
            importlib.import_module("otattn.jax").attention(y, y, y, lower)
    else:
        layer = otattn.nn.Attention(4, 1, dtype=torch.float64)
        for name in ("attn_mask", "key_padding_mask"):
            mask = lower if name == "attn_mask" else lower[:1]
            with pytest.raises(
                TypeError, match=rf"{name} has type torch.int64, wanted bool \(True forbids\)"
            ):
                layer(T[:, 0], T[:, 0], T[:, 0], **{name: mask})


@pytest.mark.parametrize("x", [X, T])
@pytest.mark.parametrize(
    "arguments, said",
    [
        ({"method": "softmax/prefix", "is_causal": True}, "is_causal is True, but prefix columns are causal"),
        ({"temperature": [1.0, 2.0]}, "temperature is a list, wanted a number or an array"),
        ({"key_lengths": [7]}, r"key_lengths\[0\] is 7"),
        ({"solver": "none", "method": "softmax/exact"}, r"otattn\.solvers\(\) lists them"),
        ({"backend": "none"}, r"otattn\.backends\(\) lists them"),
        ({"method": "softmax/exat"}, "did you mean 'exact'"),
        ({"return_aux": "couplings"}, "return_aux has 'couplings'.*did you mean 'coupling'"),
    ],
)
def test_sentences(x: Any, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        otattn.attention(x, x, x, **arguments)


def test_arrays_of_other_types() -> None:
    for call, said in (
        (lambda: otattn.attention(None, X, X), "query is None, wanted an array"),
        (lambda: otattn.attention(LOWER, LOWER, LOWER), r"query has type int64.*query\.astype\(float\)"),
        (lambda: otattn.coupling(torch.tensor(LOWER)), r"scores has type torch.int64.*scores\.double\(\)"),
        (lambda: otattn.attention(T, X, T), r"key is a ndarray, but query is .*torch\.as_tensor\(key\)"),
        (lambda: otattn.attention(T, T, T, LOWER > 0), r"pass torch\.as_tensor\(attn_mask\)"),
        (lambda: otattn.linear_sum_assignment([1.0, 2.0]), r"got a 1-D array as cost_matrix, shape \(2,\)"),
        (lambda: otattn.ot.solve_sample([1.0], [[1.0]]), r"X_a has shape \(1,\), wanted points \(n, width\)"),
        (
            lambda: otattn.ot.solve_sample(X[0, 0], X[0, 0, :, :2]),
            r"X_b has shape \(4, 2\), wanted points \(n, 4\) as X_a has",
        ),
        (lambda: otattn.Plan(X, X, X, tempreture=2.0), "Plan has 'tempreture'.*did you mean 'temperature'"),
    ):
        with pytest.raises((TypeError, ValueError), match=said):
            call()


MATRIX = np.array([[1.0, 2.0], [3.0, 4.0]])
HALF = [0.5, 0.5]
# Calls that take a matrix, with the name it has there.
MATRICES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "attention": ("query", lambda x: otattn.attention(x, MATRIX, MATRIX)),
    "attn_mask": ("attn_mask", lambda x: otattn.attention(MATRIX, MATRIX, MATRIX, x)),
    "bias": ("bias", lambda x: otattn.attention(MATRIX, MATRIX, MATRIX, bias=x)),
    "attn_mask on tensors": ("attn_mask", lambda x: otattn.attention(*3 * [torch.tensor(MATRIX)], x)),
    "coupling": ("scores", otattn.coupling),
    "Plan": ("query", lambda x: otattn.Plan(x, x, x)),
    "assignment": ("cost_matrix", otattn.linear_sum_assignment),
    "lapjv": ("cost", otattn.lap.lapjv),
    "emd": ("M", lambda x: otattn.ot.emd(HALF, HALF, x)),
    "emd2": ("M", lambda x: otattn.ot.emd2(HALF, HALF, x)),
    "sinkhorn": ("M", lambda x: otattn.ot.sinkhorn(HALF, HALF, x, 0.1)),
    "solve": ("M", otattn.ot.solve),
    "solve_sample": ("X_a", lambda x: otattn.ot.solve_sample(x, MATRIX)),
    "masses": ("a", lambda x: otattn.ot.emd(x[0], HALF, MATRIX)),
    "activations": ("X", otattn.activations.sparsemax),
    "route": ("logits", lambda x: otattn.moe.route(x, 1)),
    "maxsim": ("queries", lambda x: otattn.maxsim(x, x)),
    "normalize": ("x", otattn.sinkhorn_normalize),
    "identify": ("scores", lambda x: otattn.analysis.identify(x, MATRIX)),
}


@pytest.mark.parametrize("of", MATRICES)
def test_sparse_and_masked_arrays(of: str) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    name, call = MATRICES[of]
    for kind in (sparse.csr_matrix, sparse.coo_array):
        if of != "masses" or kind is sparse.csr_matrix:
            with pytest.raises(TypeError, match=rf"{name} is sparse .*pass {name}\.toarray\(\)"):
                call(kind(MATRIX))
    with pytest.raises(TypeError, match=rf"{name} is a masked array.*pass {name}\.filled\(number\)"):
        call(np.ma.masked_array(MATRIX, mask=MATRIX > 3.0))


def test_sparse_tensors() -> None:
    sparse = torch.tensor(MATRIX).to_sparse()
    x = torch.tensor(MATRIX)
    for name, call in (
        ("scores", lambda: otattn.coupling(sparse)),
        ("attn_mask", lambda: otattn.attention(x, x, x, sparse.bool())),
        ("M", lambda: otattn.ot.emd(HALF, HALF, sparse)),
    ):
        with pytest.raises(TypeError, match=rf"{name} is a tensor of layout .*pass {name}\.to_dense\(\)"):
            call()


def test_results_are_shown_by_shapes_and_numbers() -> None:
    x = np.random.default_rng(0).standard_normal((300, 4))
    request = otattn.AuxRequest(*6 * [True])
    cost = x[:, :1] - x[:, 0]
    results = [
        otattn.attention(x, x, x, method="softmax/exact", return_aux=request)[1],
        otattn.attention(*3 * [torch.tensor(x)], return_aux=request)[1],
        otattn.attention(x, x, x, return_aux=request)[1].row_stats,
        otattn.attention(x, x, x, return_aux=request)[1].potentials,
        otattn.ot.solve(np.abs(cost), reg=0.5),
        otattn.ot.solve(torch.tensor(np.abs(cost)), reg=0.5),
        otattn.linear_sum_assignment(cost, certificate=True)[2],
        otattn.moe.route(x, 2),
        otattn.analysis.divergence([0.5, 0.5], [0.9, 0.1]),
        otattn.analysis.identify(x, otattn.coupling(x))[0],
        otattn.lap.lapjv(cost)[0],
    ]
    for result in results:
        text = repr(result)
        assert len(text) < 1200 and "\n" not in text and "array(" not in text and "tensor(" not in text
    assert "coupling=<(300, 300) float64>" in repr(results[0]) and "receiver=<(300,)" in repr(results[0])
    assert "certificate=Certificate(row_error=" in repr(results[0]) and "nan" not in repr(results[1])
    assert repr(results[4]).startswith("OTResult(plan=<(300, 300) float64>, value=")
    assert repr(results[7]).startswith("Routing(experts=<(300, 2) int64>, weights=<(300, 2) float64>")


def test_names_of_results() -> None:
    for names in ("receiver", ("receiver", "lse"), ["receiver"], {"lse", "receiver"}):
        found = otattn.attention(X, X, X, return_aux=names)[1]
        assert found.receiver is not None and found.coupling is None
        assert (found.lse is None) == (names in ("receiver", ["receiver"]))
    assert otattn.Plan(X, X, X).forward(X, X, X, "coupling")[1].coupling.shape == (1, 1, 4, 4)
    assert otattn.coupling(T, return_aux="receiver")[1].receiver.shape == (1, 1, 4)
    with pytest.raises(
        TypeError, match=r"return_aux is a int, wanted an otattn\.AuxRequest, names of its fields"
    ):
        otattn.attention(X, X, X, return_aux=3)


@pytest.mark.parametrize("value", ["no", "False", b"", [], [False], {}, 2, 0.5, np.nan, len])
def test_flags_are_true_or_false(value: Any) -> None:
    """Words and lists were taken by their truth: `is_causal="no"` was causal."""
    cost, half = X[0, 0] ** 2, np.full(4, 0.25)
    partial = otattn.ot.partial
    calls: list[tuple[str, Callable[..., Any]]] = [
        ("is_causal", lambda **flag: otattn.attention(X, X, X, **flag)),
        ("is_causal", lambda **flag: otattn.attention(T, T, T, **flag)),
        ("is_causal", lambda **flag: otattn.coupling(X, **flag)),
        ("prune", lambda **flag: otattn.Spec("softmax", **flag)),
        ("cost", lambda **flag: otattn.nn.Attention(4, 2, **flag)),
        ("add_zero_attn", lambda **flag: otattn.nn.Attention(4, 2, **flag)),
        ("maximize", lambda **flag: otattn.linear_sum_assignment(cost, **flag)),
        ("certificate", lambda **flag: otattn.moe.route(cost, 1, **flag)),
        ("log", lambda **flag: otattn.ot.emd(half, half, cost, **flag)),
        ("log", lambda **flag: partial.partial_wasserstein(half, half, cost, m=0.5, **flag)),
        ("log", lambda **flag: partial.partial_wasserstein2(half, half, cost, m=0.5, **flag)),
        ("return_support_size", lambda **flag: otattn.activations.sparsemax(cost, **flag)),
        ("extend_cost", lambda **flag: otattn.lap.lapjv(cost[:3], **flag)),
        ("jvx_like", lambda **flag: otattn.lap.lapjvs(cost, **flag)),
        ("extend_cost", lambda **flag: otattn.lap.lapjvs(cost, **flag)),
        ("gradients", lambda **flag: otattn.Plan(X, X, X, **flag)),
        ("participation", lambda **flag: otattn.analysis.state_cloud(cost, **flag)),
        ("ensure_sum_one", lambda **flag: otattn.activations.entmax_bisect(cost, **flag)),
        ("ensure_sum_one", lambda **flag: otattn.activations.sparsemax_bisect(cost, **flag)),
        ("check_marginals", lambda **flag: otattn.ot.emd(half, half, cost, **flag)),
        ("check_marginals", lambda **flag: otattn.ot.emd2(half, half, cost, **flag)),
        ("center_dual", lambda **flag: otattn.ot.emd2(half, half, cost, **flag)),
        ("warn", lambda **flag: otattn.ot.sinkhorn2(half, half, cost, 0.5, **flag)),
        ("verbose", lambda **flag: otattn.ot.solve(cost, reg=0.5, **flag)),
        ("verbose", lambda **flag: otattn.ot.sinkhorn_unbalanced(half, half, cost, 0.5, 1.0, **flag)),
    ]
    calls += [
        ("verbose", lambda f=f, **flag: f(half, half, cost, 0.5, **flag))
        for f in (otattn.ot.sinkhorn, otattn.ot.sinkhorn2, partial.entropic_partial_wasserstein)
    ]
    calls += [
        (name, lambda **flag: otattn.flash.flash_attn_func(T, T, T, **flag))
        for name in ("causal", "deterministic", "return_attn_probs")
    ]
    lap = otattn.lap
    calls += [
        ("return_cost", lambda f=f, **flag: f(cost, **flag))
        for f in (lap.lapjv, lap.lapjvx, lap.lapjvxa, lap.lapjvs, lap.lapjvsa, lap.lapjvc, lap.lapjvr)
    ]
    for name, call in calls:
        with pytest.raises(TypeError, match=rf"{name} is .*, wanted True or False"):
            call(**{name: value})


@pytest.mark.parametrize("name", otattn.AuxRequest._fields)
def test_fields_of_a_request_are_true_or_false(name: str) -> None:
    request = otattn.AuxRequest(**{name: "no"})
    plan = otattn.Plan(X, X, X)
    for call in (
        lambda aux: otattn.attention(X, X, X, return_aux=aux),
        lambda aux: otattn.coupling(T, return_aux=aux),
        lambda aux: plan.forward(X, X, X, return_aux=aux),
    ):
        with pytest.raises(TypeError, match=rf"return_aux\.{name} is 'no', wanted True or False"):
            call(request)
        call(otattn.AuxRequest(**{name: 1}))


@pytest.mark.parametrize("value", [None, 0, 0.0, np.bool_(False), np.int64(0), torch.tensor(False)])
def test_flags_that_are_no_bools(value: Any) -> None:
    """Numbers 0 and 1, bools of NumPy and torch, and None, which is False."""
    assert (otattn.attention(X, X, X, is_causal=value) == otattn.attention(X, X, X)).all()
    if value is not None:
        causal = otattn.attention(X, X, X, is_causal=True)
        assert (otattn.attention(X, X, X, is_causal=value == 0) == causal).all()
