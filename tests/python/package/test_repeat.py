"""Calls whose structs are kept: the same numbers as the longer way, whatever came before; their overhead."""

from __future__ import annotations

import copy
import math
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import otattn
import pytest
import torch
from otattn import _kept, _native
from otattn._kept import IDLE_PLANS
from otattn._settings import EXTRA

METHODS = ["softmax", "sparsemax", "softmax/exact", "softmax/relaxed:0.5", "softmax/exact{rounds=3}", "hard"]


def ignored(progress: otattn.Progress) -> None:
    """Of a call with progress nothing is kept."""


def longer(*arrays: Any, **arguments: Any) -> Any:
    """On a plan of its own."""
    return otattn.attention(*arrays, **arguments, progress=ignored)


def draw(rng: np.random.Generator, dtype: Any = np.float64) -> tuple[list[Any], Any]:
    batch, heads, n, m, d, e = (int(x) for x in rng.integers(1, 5, 6))
    m = n if rng.random() < 0.5 else m
    arrays = [
        rng.standard_normal((batch, heads, rows, width)).astype(dtype)
        for rows, width in ((n, d), (m, d), (m, e))
    ]
    kind = rng.integers(5)
    if kind == 1:
        arrays = [np.asfortranarray(x) for x in arrays]
    if kind == 2:
        arrays = [x[0] for x in arrays]
    if kind == 3:
        arrays = [np.repeat(x, 2, -1)[..., ::2] for x in arrays]
    if kind == 4:
        arrays = [x[0, 0] for x in arrays]
    mask = None
    if rng.random() < 0.5:
        mask = rng.random((n, m)) < 0.8
        mask[:, 0] = True
        mask = (
            mask if rng.random() < 0.5 else np.where(mask, rng.standard_normal((n, m)), -np.inf).astype(dtype)
        )
    return arrays, mask


def moved(x: Any) -> Any:
    """The same numbers with the same strides at another place."""
    base = x if x.base is None else x.base
    return np.lib.stride_tricks.as_strided(base.copy("K"), x.shape, x.strides)


@pytest.mark.parametrize("method", METHODS)
def test_the_same_as_the_longer_way(method: str, rng: np.random.Generator) -> None:
    kinds = [draw(rng, [np.float32, np.float64][k % 2]) for k in range(12)]
    rounds = 2 if method == "softmax/exact" else None
    for _ in range(3):
        for arrays, mask in kinds:
            fresh = [moved(x) for x in arrays]
            call = {"method": method, "attn_mask": mask, "rounds": rounds}
            right = longer(*fresh, **call)
            for _ in range(2):
                out = otattn.attention(*fresh, **call)
                assert out.shape == right.shape and out.dtype == right.dtype
                assert (out == right).all()
            tensors = [torch.from_numpy(x) for x in fresh]
            call["attn_mask"] = None if mask is None else torch.from_numpy(mask)
            assert (otattn.attention(*tensors, **call).numpy() == right).all()


@pytest.mark.parametrize("method", ["softmax", "softmax/exact", "entmax:1.5"])
def test_the_same_gradients_as_the_operator(method: str) -> None:
    torch.manual_seed(0)
    for shape in ((2, 2, 5, 4), (1, 3, 7, 4), (2, 2, 5, 4)):
        for wanted in ((True, True, True), (False, True, False)):
            x = [torch.randn(shape, dtype=torch.float64, requires_grad=w) for w in wanted]
            leaves = [y for y in x if y.requires_grad]
            mask = torch.rand(shape[2], shape[2]) < 0.9
            mask[:, 0] = True
            theirs = longer(*x, attn_mask=mask, method=method)
            # The first backward makes the structs that the others use, at other addresses.
            for layout in (torch.clone, torch.clone, lambda y: y.transpose(2, 3).clone().transpose(2, 3)):
                upstream = layout(torch.randn_like(theirs))
                moved = [y.detach().clone().requires_grad_(y.requires_grad) for y in x]
                to = [y for y in moved if y.requires_grad]
                found = torch.autograd.grad(
                    otattn.attention(*moved, mask.clone(), method=method), to, upstream
                )
                right = torch.autograd.grad(theirs, leaves, upstream, retain_graph=True)
                for a, b in zip(found, right, strict=True):
                    assert (a - b).abs().max() <= 1e-14
    again = otattn.attention(*x, method=method)
    (first,) = torch.autograd.grad(again.sum(), leaves, create_graph=True)
    if first.requires_grad:
        with pytest.raises(otattn.NotDifferentiable):
            torch.autograd.grad(first.sum(), leaves)


def test_memory_that_is_not_aligned_or_native() -> None:
    raw = np.zeros(8 * 24 + 1, np.uint8)
    odd = raw[1:].view(np.float64).reshape(1, 2, 4, 3)
    odd[...] = np.random.default_rng(0).standard_normal(odd.shape)
    even = odd.copy()
    right = otattn.attention(even, even, even)
    assert (otattn.attention(odd, odd, odd) == right).all()
    assert (otattn.attention(even, even, odd) == right).all()
    swapped = even.astype(even.dtype.newbyteorder())
    assert (otattn.attention(swapped, swapped, swapped) == right).all()
    even.flags.writeable = False
    assert (otattn.attention(even, even, even) == right).all()
    with pytest.raises(TypeError, match="query has type int64"):
        otattn.attention(*3 * [np.ones((1, 1, 2, 2), np.int64)])


def test_failures_do_not_stick(rng: np.random.Generator) -> None:
    x = rng.standard_normal((1, 1, 6, 4))
    for _ in range(2):
        with pytest.raises(otattn.NotConverged) as caught:
            otattn.attention(9 * x, x, x, method="softmax/exact", max_rounds=2, tolerance=1e-14)
        assert caught.value.certificate is not None
        with pytest.raises(otattn.Infeasible):
            otattn.attention(x, x, x, method="softmax/exact", is_causal=True)
        broken = x.copy()
        broken[0, 0, 2] = np.nan
        with pytest.warns(otattn.NotFiniteWarning):
            out = otattn.attention(broken, x, x)
        assert np.isnan(out[0, 0]).all(1).tolist() == [False, False, True, False, False, False]
        assert np.isfinite(otattn.attention(x, x, x)).all()


def test_threads_share_nothing(rng: np.random.Generator) -> None:
    x = [rng.standard_normal((1, 2, 40, 8)) for _ in range(8)]
    right = [longer(y, y, y) for y in x]
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(50):
            if (otattn.attention(x[k], x[k], x[k]) != right[k]).any():
                wrong.append(k)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_addresses() -> None:
    for x in (
        np.zeros(0),
        np.zeros((3, 4))[1:, ::-1],
        np.broadcast_to(np.ones(1), (4, 4)),
        np.ones(2, np.float16),
    ):
        assert _native.address(x) == x.__array_interface__["data"][0]
    tensor = torch.ones(3, 4)[1:, 2:]
    assert _native.address(tensor) == tensor.data_ptr()
    with pytest.raises(TypeError, match="neither an array nor a tensor"):
        _native.address([1.0])


def seconds(*calls: Callable[[], Any], count: int = 150, turns: int = 40) -> list[float]:
    """Processor time of this thread, in turns, the least of each: others on the machine do not count."""
    best = [float("inf")] * len(calls)
    for _ in range(turns):
        for k, call in enumerate(calls):
            begin = time.thread_time()
            for _ in range(count):
                call()
            best[k] = min(best[k], (time.thread_time() - begin) / count)
    return best


def test_overhead_of_a_call() -> None:
    """What is kept between calls saves most of the longer way, however fast the machine is just now."""
    x = np.random.default_rng(0).standard_normal((1, 1, 4, 8)).astype(np.float32)
    t = torch.from_numpy(x)
    with otattn.threads(1), torch.no_grad():
        plan = otattn.Plan(x, x, x)
        plan.forward(x, x, x)
        assert plan._solved is not None
        structs = plan._solved.kept.call
        bare, numpy_call, torch_call, numpy_longer, torch_longer = seconds(
            lambda: _native.ask(structs),
            lambda: otattn.attention(x, x, x),
            lambda: otattn.attention(t, t, t),
            lambda: longer(x, x, x),
            lambda: longer(t, t, t),
        )
    # A tenth of it in both cases; all of it and half of it where nothing is kept.
    assert numpy_call - bare <= 0.25 * (numpy_longer - bare)
    assert torch_call - bare <= 0.25 * (torch_longer - bare)


def test_another_mask_for_the_same_arrays(rng: np.random.Generator) -> None:
    x = rng.standard_normal((1, 2, 5, 3))
    masks = [rng.random((5, 5)) < 0.7 for _ in range(4)]
    for mask in masks:
        mask[:, 1] = True
        assert (otattn.attention(x, x, x, mask) == longer(x, x, x, attn_mask=mask)).all()


def test_a_mask_that_wants_a_gradient_after_one_that_does_not() -> None:
    torch.manual_seed(0)
    q = torch.randn(1, 2, 4, 3, dtype=torch.float64, requires_grad=True)
    masks = [torch.randn(4, 4, dtype=torch.float64, requires_grad=wanted) for wanted in (False, False, True)]
    for mask in masks:
        otattn.attention(q, q, q, mask).square().sum().backward()
    (right,) = torch.autograd.grad(longer(q, q, q, attn_mask=masks[2]).square().sum(), masks[2])
    assert masks[2].grad is not None and torch.equal(masks[2].grad, right)


def coupled_longer(scores: Any, **arguments: Any) -> Any:
    return otattn.coupling(scores, **arguments, progress=ignored)


@pytest.mark.parametrize("method", [*METHODS, "entmax:1.3", "softmax/bounded:0.1,3"])
def test_couplings_are_the_same_as_the_longer_way(method: str, rng: np.random.Generator) -> None:
    for _ in range(3):
        for shape in ((4, 4), (3, 5, 5), (2, 3, 4, 4), (2, 1, 2, 3, 3)):
            for dtype in (np.float64, np.float32):
                x = rng.standard_normal(shape).astype(dtype)
                mass = np.ones(shape[-1])
                mask = rng.random(shape[-2:]) < 0.9
                mask[np.arange(shape[-2]), np.arange(shape[-2])] = True
                rounds = 3 if method == "softmax/exact" else None
                masses = {"row_mass": mass, "column_mass": mass} if "/exact" in method else {"row_mass": mass}
                # Not every support has a doubly stochastic plan.
                for given in ({}, masses) if "/exact" in method else ({}, masses, {"attn_mask": mask}):
                    call = {"method": method, "rounds": rounds, **given}
                    right = coupled_longer(x, **call)
                    found = otattn.coupling(x, **call)
                    assert found.shape == right.shape and found.dtype == right.dtype
                    assert (found == right).all()
                    turned = x.swapaxes(-1, -2).copy().swapaxes(-1, -2)
                    assert (otattn.coupling(turned, **call) == right).all()
                    tensors = {
                        name: torch.from_numpy(y) if isinstance(y, np.ndarray) else y
                        for name, y in call.items()
                    }
                    assert (otattn.coupling(torch.from_numpy(x), **tensors).numpy() == right).all()


def test_potentials_of_couplings_and_masses_that_change_in_place(rng: np.random.Generator) -> None:
    x, mass = rng.standard_normal((4, 4)), np.ones(4)
    wanted = otattn.AuxRequest(potentials=True)
    every = otattn.AuxRequest(potentials=True, receiver=True)
    call = {"method": "softmax/exact", "row_mass": mass, "column_mass": mass}
    for _ in range(4):
        mass[:] = rng.random(4) + 0.5
        plan, aux = otattn.coupling(x, **call, return_aux=wanted)
        right, full = otattn.coupling(x, **call, return_aux=every)
        assert (plan == right).all() and repr(aux.info) == repr(full.info)
        for a, b in zip(aux.potentials, full.potentials, strict=True):
            assert (a == b).all()
        tensors = {name: torch.from_numpy(y) if name != "method" else y for name, y in call.items()}
        again, other = otattn.coupling(torch.from_numpy(x), **tensors, return_aux=wanted)
        assert (again.numpy() == right).all() and (other.potentials[1].numpy() == full.potentials[1]).all()
    otattn.coupling(x, row_mass=mass)
    mass[0] = -1.0
    # Masses are checked when a plan is bound to them.
    for arguments in (call, {"row_mass": mass}):
        with pytest.raises(ValueError, match="row_mass"):
            otattn.coupling(x, **arguments)


@pytest.mark.parametrize("method", ["softmax", "entmax:1.5", "softmax/exact", "softmax/exact{rounds=3}"])
def test_the_same_gradients_of_couplings(method: str) -> None:
    torch.manual_seed(1)
    for shape in ((5, 5), (2, 5, 5), (2, 1, 3, 4, 4)):
        for _ in range(3):
            x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
            weight = torch.randn_like(x)
            for upstream in (weight, weight.transpose(-1, -2), torch.ones((), dtype=torch.float64)):
                right = torch.autograd.grad((coupled_longer(x, method=method) * upstream).sum(), x)[0]
                found = torch.autograd.grad((otattn.coupling(x, method=method) * upstream).sum(), x)[0]
                assert (found - right).abs().max() <= 1e-14
            # An expanded gradient, whose strides are 0.
            found = torch.autograd.grad(otattn.coupling(x, method=method)[..., 0].sum(), x)[0]
            right = torch.autograd.grad(coupled_longer(x, method=method)[..., 0].sum(), x)[0]
            assert (found - right).abs().max() <= 1e-14
    (first,) = torch.autograd.grad((otattn.coupling(x, method=method) ** 2).sum(), x, create_graph=True)
    with pytest.raises(otattn.NotDifferentiable):
        torch.autograd.grad(first.sum(), x)


@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_transport_again_and_when_it_changes_in_place(convert: Any, rng: np.random.Generator) -> None:
    otattn.release_memory()
    for shape in ((4, 4), (3, 5), (4, 4)):
        for dtype in (np.float64, np.float32):
            for layout in (np.ascontiguousarray, np.asfortranarray):
                M = layout(rng.random(shape).astype(dtype))
                a, b = (rng.random(n) + 0.1 for n in shape)
                a, b = (a / a.sum()).astype(dtype), (b / b.sum()).astype(dtype)
                arrays = [convert(x) for x in (M, a, b)]
                cost, rows, columns = arrays
                tolerance = 1e-12 if dtype == np.float64 else 1e-6
                longer_way = {
                    "cost": True,
                    "row_mass": rows,
                    "column_mass": columns,
                    "return_aux": otattn.AuxRequest(receiver=True, potentials=True, certificate=True),
                }
                entropic = {"method": "softmax/exact", "temperature": 0.5, "tolerance": tolerance}
                right, aux = otattn.coupling(cost, **entropic, **longer_way)
                exact = otattn.coupling(cost, method="hard/exact", **longer_way)[0]
                for _ in range(2):
                    assert (otattn.ot.sinkhorn(rows, columns, cost, 0.5, stopThr=tolerance) == right).all()
                    assert (otattn.ot.emd(rows, columns, cost) == exact).all()
                    # Summed in f64 here and in the type of the costs there, at most 16 numbers below 1.
                    value = float(otattn.ot.emd2(rows, columns, cost))
                    assert abs(value - float((exact * cost).sum())) <= 16 * np.finfo(dtype).eps
                    results = [
                        otattn.ot.solve(cost, rows, columns, reg, reg_type=kind, tol=tolerance)
                        for reg, kind in ((0.5, "entropy"), (0.5, "KL"), (None, "KL"))
                    ]
                    values = [
                        otattn.ot.solve(cost, rows, columns, reg, reg_type=kind, tol=tolerance).value
                        for reg, kind in ((0.5, "entropy"), (0.5, "KL"), (None, "KL"))
                    ]
                # A result is that of the arrays as they were, whenever it is read.
                kept = np.asarray(results[0].plan).copy()
                cost *= 2
                rows *= 3
                results[0].plan[...] = 0.0
                results[2].plan[...] = 0.0
                f, g = results[0].potentials
                assert (f == aux.potentials.row).all() and (g == aux.potentials.column).all()
                assert [x.value for x in results] == values
                assert results[0].log["certificate"] == aux.certificate
                assert type(results[0].value) is type(values[0]) and results[0].status == "ok"
                # M shares the memory of `cost`, which was doubled.
                P = np.exp((np.asarray(f)[:, None] + np.asarray(g) - M / 2) / 0.5)
                assert np.abs(P - kept).max() <= 1e-6
                u, v = results[2].potentials
                assert abs(float((u * rows / 3).sum() + (v * columns).sum()) - float(values[2])) <= 1e-6


@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_logs_of_transport_again(convert: Any, dtype: Any, rng: np.random.Generator) -> None:
    """Kept calls say what the longer way says, and what formulas of NumPy make of its potentials."""
    otattn.release_memory()
    # Sums and exponentials are rounded to the type, once each.
    close = 64 * float(np.finfo(dtype).eps)
    for layout in (np.ascontiguousarray, np.asfortranarray):
        M = layout(rng.random((3, 5)).astype(dtype))
        a, b = ((x / x.sum()).astype(dtype) for x in (rng.random(n) + 0.1 for n in (3, 5)))
        b *= a.sum() / b.sum()
        cost, rows, columns = (convert(x) for x in (M, a, b))
        request = otattn.AuxRequest(receiver=True, potentials=True, certificate=True)
        masses = {"cost": True, "row_mass": rows, "column_mass": columns, "return_aux": request}
        tolerance = 1e-12 if dtype == np.float64 else 1e-6
        entropic = {"method": "softmax/exact", "temperature": 0.5, "tolerance": tolerance}
        plan, aux = otattn.coupling(cost, **entropic, allow_partial=True, **masses)
        f, g = (np.asarray(x) for x in aux.potentials)
        exact, duals = otattn.coupling(cost, method="hard/exact", **masses)
        u, v = (np.asarray(x) for x in duals.potentials)
        shift = (u.mean() - v.mean()) / 2
        for _ in range(3):
            found, log = otattn.ot.sinkhorn(rows, columns, cost, 0.5, stopThr=tolerance, log=True)
            assert (found == plan).all() and log["certificate"] == aux.certificate
            assert log["niter"] == aux.info.rounds and log["status"] == "ok"
            for name, x in (("log_u", f / 0.5), ("log_v", g / 0.5)):
                assert (np.asarray(log[name]) == x).all()
                again = np.asarray(log[name[4:]])
                assert np.abs(again / np.exp(x) - 1).max() <= close
            found, log = otattn.ot.emd(rows, columns, cost, log=True)
            assert (found == exact).all() and type(log["u"]) is type(rows)
            assert np.abs(np.asarray(log["u"]) - (u - shift)).max() <= close
            assert np.abs(np.asarray(log["v"]) - (v + shift)).max() <= close
            value = float((np.asarray(exact) * M).sum(dtype=np.float64))
            assert abs(float(log["cost"]) - value) <= close
            assert log["cost"] == otattn.ot.emd2(rows, columns, cost) and log["cost"].dtype == cost.dtype


@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
@pytest.mark.parametrize("reg_type", ["KL", "entropy"])
@pytest.mark.parametrize("unbalanced", [None, 0.7, (0.4, 2.0), (math.inf, 0.5), (0.5, math.inf)])
def test_values_of_transport_at_once(convert: Any, reg_type: str, unbalanced: Any, rng: Any) -> None:
    """`solve` of plain arrays is that with a reference or a start, which goes the longer way."""
    M, a, b = rng.random((3, 4)), rng.random(3) + 0.1, rng.random(4) + 0.1
    b *= a.sum() / b.sum()
    cost, rows, columns = (convert(x) for x in (M, a, b))
    how = {"reg": 0.3, "reg_type": reg_type, "unbalanced": unbalanced, "tol": 1e-12}
    reference = {"c": rows[:, None] * columns} if reg_type == "KL" and unbalanced else {"method": "sinkhorn"}
    expected = otattn.ot.solve(cost, rows, columns, **how, **reference)
    for _ in range(3):
        found = otattn.ot.solve(cost, rows, columns, **how)
        # The first differs in the last bits of its cost, all in the order of its sums.
        assert np.abs(np.asarray(found.plan) - np.asarray(expected.plan)).max() <= 1e-11
        assert abs(float(found.value - expected.value)) <= 1e-11
        assert abs(float(found.value_linear - expected.value_linear)) <= 1e-11
        for x, y in zip(found.potentials, expected.potentials, strict=True):
            assert np.abs(np.asarray(x) - np.asarray(y)).max() <= 1e-9
        for name, x in found.log["certificate"].as_dict().items():
            assert x == pytest.approx(getattr(expected.log["certificate"], name), rel=1e-9, abs=1e-9), name
        if unbalanced is not None:
            plan = otattn.ot.sinkhorn_unbalanced(
                rows, columns, cost, 0.3, unbalanced, reg_type=reg_type, stopThr=1e-12
            )
            assert (plan == found.plan).all()


def test_gradients_of_transport_again() -> None:
    torch.manual_seed(0)
    M, upstream = torch.rand(4, 5, dtype=torch.float64), torch.randn(4, 5, dtype=torch.float64)
    a, b = torch.rand(4, dtype=torch.float64) + 0.1, torch.rand(5, dtype=torch.float64) + 0.1
    b *= a.sum() / b.sum()
    leaves = [x.requires_grad_() for x in (M, a, b)]
    masses = {"cost": True, "row_mass": a, "column_mass": b, "return_aux": otattn.AuxRequest(receiver=True)}
    longer, _ = otattn.coupling(M, method="softmax/exact", temperature=0.5, tolerance=1e-13, **masses)
    expected = torch.autograd.grad((longer * upstream).sum(), leaves)
    for wanted in (leaves, leaves[:1], leaves[1:]):
        for x in leaves:
            x.requires_grad_(any(x is y for y in wanted))
        for _ in range(3):
            plan = otattn.ot.sinkhorn(a, b, M, 0.5, stopThr=1e-13)
            assert torch.equal(plan, longer)
            found = torch.autograd.grad((plan * upstream).sum(), wanted)
            for x, y in zip(leaves, expected, strict=True):
                places = [k for k, leaf in enumerate(wanted) if leaf is x]
                if places:
                    assert (found[places[0]] - y).abs().max() <= 1e-10
        plan, log = otattn.ot.sinkhorn(a, b, M, 0.5, stopThr=1e-13, log=True)
        assert plan.requires_grad and not log["u"].requires_grad and log["certificate"].column_error <= 1e-12


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_gradients_of_costs_again(dtype: torch.dtype) -> None:
    """<P, M> in one node: as torch's own sum of the longer way's plan times M."""
    torch.manual_seed(1)
    otattn.release_memory()
    M, a, b = (torch.rand(shape, dtype=torch.float64) + 0.1 for shape in ((4, 5), 4, 5))
    b *= a.sum() / b.sum()
    leaves = [x.to(dtype).requires_grad_() for x in (M, a, b)]
    M, a, b = leaves
    small = 1e-9 if dtype == torch.float64 else 1e-5
    stop = 1e-12 if dtype == torch.float64 else 1e-6
    masses = {"cost": True, "row_mass": a, "column_mass": b, "return_aux": otattn.AuxRequest(receiver=True)}
    longer, _ = otattn.coupling(M, method="softmax/exact", temperature=0.5, tolerance=stop, **masses)
    right = (longer * M).sum()
    expected = torch.autograd.grad(3.0 * right, leaves)
    for wanted in (leaves, leaves[:1], leaves[1:]):
        for x in leaves:
            x.requires_grad_(any(x is y for y in wanted))
        for turn in range(6):
            value = otattn.ot.sinkhorn2(a, b, M, 0.5, stopThr=stop, log=turn % 2 == 1)
            if turn % 2 == 1:
                value, log = value
                assert not log["u"].requires_grad and log["certificate"].column_error <= 10.0 * stop
            assert value.dtype == dtype and abs(value - right) <= small
            # Twice, as a graph that is kept.
            for _ in range(2):
                found = torch.autograd.grad(value, wanted, 3.0 * torch.ones_like(value), retain_graph=True)
                places = [k for k, x in enumerate(leaves) if any(x is y for y in wanted)]
                for x, k in zip(found, places, strict=True):
                    assert (x - expected[k]).abs().max() <= 30.0 * small
    M.requires_grad_()
    value = otattn.ot.sinkhorn2(a, b, M, 0.5, stopThr=stop)
    (first,) = torch.autograd.grad(value, M, create_graph=True)
    with pytest.raises(otattn.NotDifferentiable):
        torch.autograd.grad(first.sum(), M)
    value = otattn.ot.sinkhorn2(a, b, M, 0.5, stopThr=stop)
    with torch.no_grad():
        M += 1.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.backward()
    # By the cost alone the derivative of exact transport is its plan.
    a, b = a.detach(), b.detach()
    for _ in range(3):
        value = otattn.ot.emd2(a, b, M)
        (found_,) = torch.autograd.grad(value, M)
        assert torch.equal(found_, otattn.ot.emd(a, b, M.detach()))
        assert abs(value - (found_ * M).sum()) <= small


def test_which_tensors_record_derivatives() -> None:
    x = torch.ones(2)
    leaf = x.clone().requires_grad_()
    assert _native.derivative(x, x) is False and _native.derivative(x, leaf) is True
    negated = torch.ones(2, dtype=torch.complex64).conj().imag
    for other in (negated, torch.nn.Parameter(x), np.ones(2), None):
        assert _native.derivative(x, other) is None
    assert _native.derivative(np.ones(2)) is None


def test_numbers_of_a_plan(rng: np.random.Generator) -> None:
    P, M, a, b = rng.random((3, 4)), rng.random((3, 4)), rng.random(3) + 0.1, rng.random(4) + 0.1
    P[1, 2] = 0.0

    def kl(x: Any, y: Any) -> float:
        return float((np.where(x > 0, x * np.log(np.where(x > 0, x, 1) / y), 0.0) - x + y).sum())

    entropy = float(np.where(P > 0, P * np.log(np.where(P > 0, P, 1)), 0.0).sum())
    expected = [(P * M).sum(), entropy, P.sum(), kl(P, np.outer(a, b)), kl(P.sum(1), a), kl(P.sum(0), b)]
    for convert in (np.asarray, torch.from_numpy, np.asfortranarray):
        arrays = [convert(x) for x in (P, M, a, b)]
        assert np.allclose(_native.sums(*arrays), expected, rtol=1e-13)
        assert abs(float(_native.linear(*arrays[:2])) - expected[0]) <= 1e-13
        cost = _native.against(*arrays[1:], 0.3)
        assert np.abs(np.asarray(cost) - (M - 0.3 * np.log(np.outer(a, b)))).max() <= 1e-14
        for x, y in zip(_native.apart(*arrays[2:], *arrays[2:], 0.3), (a, b), strict=True):
            assert np.abs(np.asarray(x) - (y - 0.3 * np.log(y))).max() <= 1e-14
    assert [type(x) for x in _native.scalars(M.astype(np.float32), 1.0, 2.0)] == [np.float32, np.float32]
    nothing = [
        _native.sums(P, M, b, a),
        _native.sums(P, M, a.astype(int), b),
        _native.linear(P, M.T),
        _native.against(M, b, a, 1.0),
        _native.apart(a, b, b, a, 1.0),
        _native.scalings(P, a, 1.0, False),
        _native.centred(a, "b", False),
        _native.scalars("x", 1.0),
    ]
    assert nothing == [None] * len(nothing)
    for call, arguments in (
        (_native.judge, ()),
        (_native.judge, (P,)),
        (_native.scalings, (a, b, "x", False)),
    ):
        with pytest.raises((TypeError, ValueError)):
            call(*arguments)


def test_masses_that_become_zero(rng: np.random.Generator) -> None:
    M, a, b = rng.random((3, 3)), np.full(3, 1 / 3), np.full(3, 1 / 3)
    otattn.ot.sinkhorn(a, b, M, 1.0)
    a[:] = (0.0, 0.5, 0.5)
    plan = otattn.ot.sinkhorn(a, b, M, 1.0)
    assert (plan[0] == 0).all() and np.abs(plan.sum(0) - b).max() <= 1e-9
    result = otattn.ot.solve(M, a, b, 1.0)
    assert np.isfinite(result.value) and (result.plan[0] == 0).all()
    a[:] = (-0.5, 1.0, 0.5)
    with pytest.raises(ValueError, match="a is array"):
        otattn.ot.sinkhorn(a, b, M, 1.0)


def test_what_the_extension_takes(rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 4))
    layouts = {
        _native.layout(y)
        for y in (x, x.T, x[:, ::2], x.astype(np.float32), torch.from_numpy(x), torch.from_numpy(x).T)
    }
    assert len(layouts) == 6 and None not in layouts
    assert _native.layout(x, None) == _native.layout(x.copy(), None) != _native.layout(None, x)
    # Other kinds of memory go the longer way.
    packed = np.zeros(8 * 4 + 1, np.uint8)[1:].view(np.float64)
    for other in ([1.0], "x", packed, x.astype(">f8"), np.ma.array(x), np.zeros((1,) * 9)):
        assert _native.layout(other) is None
    assert (
        _native.layout(x, torch.from_numpy(x)) is None
        and _native.layout(torch.empty(2, device="meta")) is None
    )
    assert _native.layout(*41 * [x]) is None
    assert _native.without_zeros(x[0], x[:, 1]) and not _native.without_zeros(np.array([1.0, 0.0]))
    assert not _native.without_zeros(np.ones((2, 2))) and not _native.without_zeros(np.ones(2, np.int64))
    for y in (x, x.T, x[::-1, ::-2], x[0], x[0, ::3], x.astype(np.float32)):
        (copy,) = _native.copies(y)
        assert (copy == y).all() and copy.flags.c_contiguous and not np.shares_memory(copy, y)
        assert (_native.copies(torch.from_numpy(y.copy()))[0] == y).all()
    for call, arguments in (
        (_native.copies, (np.ones(2, np.int64),)),
        (_native.run, ()),
        (_native.run, (x, x)),
        (_native.ask, (x,)),
        (_native.keep, (1,)),
        (_native.tensors, (1,)),
    ):
        with pytest.raises((TypeError, ValueError)):
            call(*arguments)


def test_plans_that_are_kept_have_a_limit(rng: np.random.Generator) -> None:
    otattn.release_memory()
    for size in range(2, 2 + 2 * IDLE_PLANS):
        otattn.coupling(rng.standard_normal((size, size)))
    assert len(_kept._kinds) == IDLE_PLANS
    sizes = {kind[0].job.sizes[2] for kind in _kept._kinds.values()}
    assert sizes == set(range(2 + IDLE_PLANS, 2 + 2 * IDLE_PLANS))
    otattn.release_memory()
    assert not _kept._kinds


def test_overhead_of_a_coupling() -> None:
    """The same for one 4 x 4 matrix, and for the activations above it."""
    x = np.random.default_rng(0).standard_normal((4, 4))
    t = torch.from_numpy(x)
    with otattn.threads(1), torch.no_grad():
        found = seconds(
            lambda: otattn.coupling(x),
            lambda: otattn.coupling(t),
            lambda: otattn.activations.sparsemax(x),
            lambda: otattn.activations.sparsemax(t),
            lambda: coupled_longer(x),
            lambda: coupled_longer(t),
        )
    # An eighth of the longer way, which keeps nothing but the plan.
    assert max(found[0], found[2]) <= 0.3 * found[4]
    assert max(found[1], found[3]) <= 0.3 * found[5]


def test_overhead_of_transport() -> None:
    x, mass = np.random.default_rng(0).random((4, 4)), np.full(4, 0.25)
    t, weight = torch.from_numpy(x), torch.from_numpy(mass)
    masses = {"cost": True, "row_mass": mass, "column_mass": mass}
    weights = {"cost": True, "row_mass": weight, "column_mass": weight}
    with otattn.threads(1), torch.no_grad():
        *found, numpy_longer, torch_longer = seconds(
            lambda: otattn.ot.emd(mass, mass, x),
            lambda: otattn.ot.sinkhorn(mass, mass, x, 1.0),
            lambda: otattn.ot.solve(x, mass, mass, 1.0),
            lambda: otattn.ot.emd(weight, weight, t),
            lambda: otattn.ot.sinkhorn(weight, weight, t, 1.0),
            lambda: otattn.ot.solve(t, weight, weight, 1.0),
            lambda: coupled_longer(x, method="softmax/exact", **masses),
            lambda: coupled_longer(t, method="softmax/exact", **weights),
            turns=20,
        )
    # A fifth of the longer way alone, on which transport did still more.
    assert max(found[:3]) <= 0.4 * numpy_longer and max(found[3:]) <= 0.4 * torch_longer


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (2, 0, 1, 3)])
def test_outputs_lie_in_memory_as_queries_do(order: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    plain = [torch.randn(2, 3, 5, 4, dtype=torch.float64) for _ in range(3)]
    back = [order.index(k) for k in range(4)]
    for wanted in (False, True):
        given = [x.permute(order).contiguous().permute(back).requires_grad_(wanted) for x in plain]
        dense = [x.clone().requires_grad_(wanted) for x in plain]
        settings, names = "method='softmax/relaxed:1'", "out,saved" if wanted else "out"
        for _ in range(2):
            right = otattn.attention(*dense, method="softmax/relaxed:1")
            at_once = otattn.attention(*given, method="softmax/relaxed:1")
            (out, *_) = torch.ops.otattn.solve(*given, *[None] * EXTRA, settings, names)
            for found in (at_once, out, longer(*given, method="softmax/relaxed:1")):
                assert torch.equal(found, right) and found.permute(order).is_contiguous()
        if wanted:
            upstream = torch.randn_like(plain[0])
            want = torch.autograd.grad(right, dense, upstream)
            for found in (at_once, out):
                for x, y in zip(torch.autograd.grad(found, given, upstream), want, strict=True):
                    assert (x - y).abs().max() <= 1e-12


# ---- every operand, by kept structs ----------------------------------------------------------------

SHAPE = (1, 2, 4, 3)
OPERANDS_OF: dict[str, tuple[str, Callable[[np.random.Generator], Any]]] = {
    "attn_mask": ("softmax/relaxed:1", lambda rng: rng.standard_normal((4, 4))),
    "bias": ("softmax/exact", lambda rng: rng.standard_normal((2, 4, 4))),
    "relative_bias": ("softmax", lambda rng: rng.standard_normal((2, 7))),
    "alibi_slopes": ("softmax", lambda rng: rng.random(2)),
    "sink": ("softmax", lambda rng: rng.standard_normal(2)),
    "temperature": ("softmax/exact", lambda rng: rng.random(2) + 0.5),
    "alpha": ("entmax:1.5", lambda rng: rng.random(1) + 1.1),
    "cap": ("softmax/capped:2", lambda rng: rng.random(1) + 1.1),
    "strength": ("softmax/elastic:0.5,3", lambda rng: rng.random(4)),
    "lower": ("softmax/bounded:0.5,2", lambda rng: 0.5 * rng.random(1)),
    "upper": ("softmax/bounded:0.5,2", lambda rng: rng.random(1) + 1.1),
    "row_mass": ("softmax/relaxed:1", lambda rng: rng.random((2, 4)) + 0.5),
    "column_mass": ("softmax/relaxed:1", lambda rng: rng.random(4) + 0.5),
    "key_lengths": ("softmax", lambda rng: rng.integers(1, 5, 1)),
    "entry_caps": ("softmax", lambda rng: rng.random((4, 4)) + 0.4),
    "start_potential": ("softmax/exact", lambda rng: 0.1 * rng.standard_normal((2, 4))),
}


@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
@pytest.mark.parametrize("name", OPERANDS_OF)
def test_every_operand_is_kept(name: str, convert: Any) -> None:
    """A second call finds the structs of the first, whatever arrays it has, and reads what they hold now."""
    rng = np.random.default_rng(3)
    method, draw = OPERANDS_OF[name]
    wanted = otattn.AuxRequest(potentials=True, receiver=True, row_stats=True, certificate=True)
    otattn.release_memory()
    for k in range(4):
        x, value = rng.standard_normal(SHAPE), draw(rng)
        call = {name: convert(value), "method": method}
        arrays = [convert(y) for y in (x, x + 1, x - 1)]
        right = longer(*arrays, **call)
        out = otattn.attention(*arrays, **call)
        assert (np.asarray(out) == np.asarray(right)).all()
        again, aux = otattn.attention(*arrays, **call, return_aux=wanted)
        assert (np.asarray(again) == np.asarray(right)).all() and aux.info.status in ("ok", "fixed_iters")
        assert tuple(aux.receiver.shape) == (1, 2, 4) == tuple(aux.row_stats.entropy.shape)
        if name != "key_lengths":
            # In place, at the same address.
            value[...] = draw(rng)
            assert (
                np.asarray(otattn.attention(*arrays, **call)) == np.asarray(longer(*arrays, **call))
            ).all()
        assert len(_kept._kinds) == 2, k


@pytest.mark.parametrize(
    "name", [x for x in OPERANDS_OF if x not in ("key_lengths", "entry_caps", "strength")]
)
def test_gradients_of_every_operand_are_the_operators(name: str) -> None:
    """Of one strength, too; those of keys have none."""
    rng = np.random.default_rng(4)
    method, draw = OPERANDS_OF[name]
    names = [] if name in ("attn_mask", "start_potential") else [name]
    for _ in range(2):
        leaves = {n: torch.from_numpy(rng.standard_normal(SHAPE)) for n in ("query", "key", "value")}
        leaves[name] = torch.from_numpy(draw(rng))
        for n in ("query", "value", *names):
            leaves[n].requires_grad_()
        wanted = [leaves[n] for n in ("query", "value", *names)]
        upstream = torch.from_numpy(rng.standard_normal(SHAPE))
        # Whoever asks for the coupling gets the operator.
        right = otattn.attention(**leaves, method=method, return_aux="coupling")[0]
        out = otattn.attention(**leaves, method=method)
        assert torch.equal(out, right)
        found = torch.autograd.grad(out, wanted, upstream)
        for a, b, x in zip(found, torch.autograd.grad(right, wanted, upstream), wanted, strict=True):
            assert a.shape == x.shape and (a - b).abs().max() <= 1e-12


def test_memory_that_the_extension_does_not_see(rng: np.random.Generator) -> None:
    """Tensors of torch before 2.10, whose addresses go in by hand."""
    x = torch.from_numpy(rng.standard_normal(SHAPE))
    call = {"method": "softmax/capped:2", "cap": torch.tensor(1.5), "dropout_p": 0.5, "dropout_seed": 3}
    weight = x.clone().requires_grad_()
    right = otattn.attention(weight, x, x, **call)
    (slope,) = torch.autograd.grad(right.square().sum(), weight)
    table = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    _native.tensors(None, None)
    try:
        assert _native.layout(x) is None
        for _ in range(2):
            out = otattn.attention(weight, x, x, **call)
            assert torch.equal(out, right)
            assert torch.equal(torch.autograd.grad(out.square().sum(), weight)[0], slope)
            plan, aux = otattn.coupling(x[0], method="softmax/exact", return_aux="potentials")
            assert plan.shape == (2, 4, 3) and aux.potentials.row.shape == (2, 4)
    finally:
        _native.tensors(torch.Tensor, table)


def test_converted_arrays_are_kept_by_what_they_become(rng: np.random.Generator) -> None:
    x = rng.standard_normal(SHAPE)
    otattn.release_memory()
    for _ in range(3):
        mass = rng.integers(1, 4, 4).astype(np.float16)
        call = {"method": "softmax/relaxed:1", "row_mass": mass}
        assert (otattn.attention(x, x, x, **call) == longer(x, x, x, **call)).all()
        # The certificate is of the converted masses.
        _, aux = otattn.attention(x, x, x, **call, return_aux="certificate")
        assert aux.certificate.row_error < 1e-6
    assert len(_kept._kinds) == 2


def test_deadlines_share_plans_and_leave_none_behind(rng: np.random.Generator) -> None:
    x = rng.standard_normal(SHAPE)
    otattn.release_memory()
    right = otattn.attention(x, x, x, method="softmax/exact")
    for _ in range(2):
        assert (otattn.attention(x, x, x, method="softmax/exact", deadline=60.0) == right).all()
    with pytest.raises(TimeoutError):
        otattn.attention(x, x, x, method="softmax/exact", deadline=1e-9)
    assert len(_kept._kinds) == 1
    assert (otattn.attention(x, x, x, method="softmax/exact") == right).all()


@pytest.mark.parametrize("method", ["softmax", "entmax:1.5", "softmax/exact"])
def test_arrays_repeated_over_a_batch_get_the_sum_of_its_gradients(method: str) -> None:
    """A query, bias and mass without the batch dimension: their gradients have their own shapes."""
    torch.manual_seed(0)
    query, bias = torch.randn(3, 5, 8), torch.randn(5, 6)
    key, value = torch.randn(4, 3, 6, 8), torch.randn(4, 3, 6, 8)
    leaves = [x.requires_grad_() for x in (query, key, value, bias)]
    for _ in range(3):
        out = otattn.attention(query, key, value, bias=bias, method=method)
        found = torch.autograd.grad(out.sin().sum(), leaves)
        whole = query.expand(4, 3, 5, 8), key, value
        out = otattn.attention(*whole, bias=bias.expand(4, 3, 5, 6).contiguous(), method=method)
        right = torch.autograd.grad(out.sin().sum(), leaves)
        for mine, theirs in zip(found, right, strict=True):
            assert mine.shape == theirs.shape
            assert (mine - theirs).abs().max() <= 1e-4 * (1.0 + theirs.abs().max())


def test_plans_are_not_copied(rng: np.random.Generator) -> None:
    """Two of them would free the same memory."""
    x = rng.standard_normal((1, 1, 4, 3))
    plan = otattn.Plan(x, x, x)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a Plan is memory of the C library and cannot be copied"):
            copied(plan)
