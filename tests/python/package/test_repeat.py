"""Calls whose structs are kept: the same numbers as the longer way, whatever came before; their overhead."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import otattn
import pytest
import torch
from otattn import _arrays
from otattn._library import library

METHODS = ["softmax", "sparsemax", "softmax/exact", "softmax/relaxed:0.5", "softmax/exact{rounds=3}", "hard"]
LONG = otattn.AuxRequest(lse=False, receiver=True)


def longer(*arrays: Any, **arguments: Any) -> Any:
    """Whoever asks for more goes the longer way."""
    return otattn.attention(*arrays, **arguments, return_aux=LONG)[0]


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
        assert _arrays.address_of(x) == x.__array_interface__["data"][0] == _arrays._slow_address(x)


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
        handle = plan._handle
        arrays, result = ctypes.byref(handle.arrays), ctypes.byref(handle.result)
        bare, numpy_call, torch_call, numpy_longer, torch_longer = seconds(
            lambda: library.ota_forward(handle.pointer, arrays, result, handle.reference),
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
