"""Limits of a call: its deadline, what it is told of its progress, and the memory of its plan."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import otattn
import pytest
import torch

# Rounds for longer than anybody waits.
ENDLESS = {"method": "softmax/exact", "rounds": 1 << 40}
KINDS = [np.asarray, torch.tensor, lambda x: torch.tensor(x, requires_grad=True)]


@pytest.mark.parametrize("kind", KINDS)
def test_deadlines_end_calls(kind: Callable[..., Any], rng: np.random.Generator) -> None:
    x = kind(rng.standard_normal((1, 2, 40, 4)))
    scores = x @ x.swapaxes(-1, -2)
    plan = otattn.Plan(*3 * [np.asarray(x.detach() if torch.is_tensor(x) else x)], deadline=0.02, **ENDLESS)
    for call in (
        lambda: otattn.attention(x, x, x, deadline=0.02, **ENDLESS),
        lambda: otattn.coupling(scores, deadline=0.02, **ENDLESS),
        lambda: otattn.varlen_attention(
            *3 * [x[0].swapaxes(0, 1)], [0, 20, 40], [0, 20, 40], deadline=0.02, **ENDLESS
        ),
        lambda: plan.forward(plan_of := np.zeros((1, 2, 40, 4)), plan_of, plan_of),
    ):
        for _ in range(2):
            begin = time.monotonic()
            with pytest.raises(TimeoutError, match="deadline"):
                call()
            assert time.monotonic() - begin < 2.0
    # The same plans go on without, and with one that is far away.
    for seconds in (None, 1e6, np.inf, 600):
        found = otattn.attention(x, x, x, deadline=seconds, method="softmax/exact", rounds=3)
        assert (found == otattn.attention(x, x, x, method="softmax/exact", rounds=3)).all()


def test_deadlines_are_on_the_library_s_clock(
    root: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """time.monotonic is behind it on a macOS that slept, and may be ahead on Windows."""
    x = rng.standard_normal((1, 2, 40, 4))
    with otattn.Model(root / "data/demo/model") as model:
        for apart in (-86_400_000_000_000, 86_400_000_000_000):
            moved = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + apart
            monkeypatch.setattr(time, "monotonic_ns", lambda moved=moved: moved)
            otattn.attention(x, x, x, deadline=600, method="softmax/exact", rounds=3)
            model.run("The house", deadline=600)
            with pytest.raises(TimeoutError, match="deadline"):
                otattn.attention(x, x, x, deadline=0.02, **ENDLESS)


def test_a_plan_has_its_deadline_from_every_call_on(rng: np.random.Generator) -> None:
    x = rng.standard_normal((1, 1, 8, 4))
    plan = otattn.Plan(x, x, x, method="softmax/exact", gradients=True, deadline=0.2)
    first = plan.forward(x, x, x)
    time.sleep(0.25)
    assert (plan.forward(x, x, x) == first).all()
    assert plan.backward(out_grad=first)["query"].shape == x.shape


@pytest.mark.parametrize("kind", KINDS)
def test_deadlines_end_certificates(kind: Callable[..., Any], rng: np.random.Generator) -> None:
    """The judge takes some seconds here, the solve a hundredth."""
    x = kind(rng.standard_normal((1, 1, 5000, 4)))
    wanted = otattn.AuxRequest(certificate=True)
    with otattn.threads(1), pytest.raises(TimeoutError, match="deadline"):
        otattn.attention(x, x, x, deadline=0.4, return_aux=wanted)
    # What the plan was told is forgotten.
    x = x[:, :, :50]
    for seconds in (600.0, 1e-9, None):
        try:
            _, aux = otattn.attention(x, x, x, deadline=seconds, return_aux=wanted)
        except TimeoutError:
            assert seconds == 1e-9
        else:
            assert aux.certificate.row_error < 1e-9 and seconds != 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_progress_is_told_and_ends_calls(kind: Callable[..., Any], rng: np.random.Generator) -> None:
    x = kind(rng.standard_normal((1, 2, 40, 4)))
    scores = x @ x.swapaxes(-1, -2)
    seen: list[otattn.Progress] = []

    def asked(progress: otattn.Progress) -> bool:
        seen.append(progress)
        return len(seen) < 3

    def broken(progress: otattn.Progress) -> None:
        raise KeyError(progress.heads)

    out = otattn.attention(x, x, x, progress=seen.append, method="softmax/exact")
    assert (out == otattn.attention(x, x, x, method="softmax/exact")).all()
    assert seen[-1].heads == 2 and seen[-1].round > 0 and seen[-1].residual >= 0.0
    for call in (
        lambda progress: otattn.attention(x, x, x, progress=progress, **ENDLESS),
        lambda progress: otattn.coupling(scores, progress=progress, **ENDLESS),
    ):
        seen.clear()
        with pytest.raises(InterruptedError, match="cancelled"):
            call(asked)
        # None and True go on.
        assert len(seen) == 3
        with pytest.raises(KeyError, match="2"):
            call(broken)
    alive = weakref.ref(asked)
    del asked
    gc.collect()
    assert alive() is None


def test_progress_may_give_false_of_numpy(rng: np.random.Generator) -> None:
    x = rng.standard_normal((1, 2, 40, 4))
    with pytest.raises(InterruptedError, match="cancelled"):
        otattn.attention(
            x, x, x, progress=lambda told: np.isnan(np.float64(told.round)), deadline=20, **ENDLESS
        )


def test_progress_of_a_plan_and_of_what_no_function_is(rng: np.random.Generator) -> None:
    x = rng.standard_normal((1, 1, 8, 4))
    left = [3]

    def asked(progress: otattn.Progress) -> bool:
        left[0] -= 1
        return left[0] > 0

    plan = otattn.Plan(x, x, x, progress=asked, **ENDLESS)
    for _ in range(2):
        left[0] = 3
        with pytest.raises(InterruptedError):
            plan.forward(x, x, x)
    for wrong, said in (
        ({"progress": 3}, "progress is a int, wanted a function"),
        ({"deadline": 0}, "deadline is 0.0, wanted more than 0 seconds"),
        ({"deadline": "soon"}, "deadline is 'soon', wanted a number"),
        ({"workspace_limit": 0}, "workspace_limit is 0, wanted 1 or more"),
    ):
        for call in (otattn.attention, otattn.Plan):
            with pytest.raises((ValueError, TypeError), match=said):
                call(x, x, x, **wrong)
    compiled = torch.compile(
        lambda y: otattn.attention(y, y, y, progress=print), fullgraph=True, backend="eager"
    )
    with pytest.raises(Exception, match="progress cannot be called from a compiled graph"):
        compiled(torch.tensor(x))


@pytest.mark.parametrize("kind", KINDS)
def test_workspace_limit(kind: Callable[..., Any], rng: np.random.Generator) -> None:
    x = kind(rng.standard_normal((1, 1, 64, 4)))
    scores = x @ x.swapaxes(-1, -2)
    right = otattn.attention(x, x, x, method="softmax/exact")
    with pytest.raises(MemoryError, match="workspace_limit is 1000 bytes but the smallest plan here needs"):
        otattn.attention(x, x, x, method="softmax/exact", workspace_limit=1000)
    with pytest.raises(MemoryError, match="workspace_limit"):
        otattn.coupling(scores, method="softmax/exact", workspace_limit=1000)
    found = otattn.attention(x, x, x, method="softmax/exact", workspace_limit=1 << 30)
    assert (found == right).all()
    if torch.is_tensor(x) and x.requires_grad:
        found.sum().backward()


def test_limits_of_a_call_on_jax() -> None:
    jnp = pytest.importorskip("jax.numpy")
    import otattn.jax

    x = jnp.ones((1, 1, 8, 4))
    right = otattn.jax.attention(x, x, x, method="softmax/exact")
    assert (otattn.jax.attention(x, x, x, method="softmax/exact", workspace_limit=1 << 30) == right).all()
    with pytest.raises(Exception, match="workspace_limit is 1000 bytes"):
        otattn.jax.attention(x, x, x, method="softmax/exact", workspace_limit=1000)
    with pytest.raises(ValueError, match="progress is given, which a program of JAX does not carry"):
        otattn.jax.attention(x, x, x, progress=lambda _: True)


def test_deadlines_end_compiled_programs() -> None:
    jax = pytest.importorskip("jax")
    import otattn.jax

    x = jax.random.normal(jax.random.key(0), (1, 1, 40, 4))
    endless = jax.jit(lambda x: otattn.jax.attention(x, x, x, deadline=0.05, **ENDLESS))
    soon = jax.jit(lambda x: otattn.jax.attention(x, x, x, deadline=60.0, method="softmax/exact"))
    right = otattn.jax.attention(x, x, x, method="softmax/exact")
    for _ in range(2):
        started = time.monotonic()
        with pytest.raises(Exception, match="deadline"):
            endless(x).block_until_ready()
        assert time.monotonic() - started < 30.0
        assert (soon(x) == right).all()
        assert jax.numpy.isfinite(jax.grad(lambda x: soon(x).sum())(x)).all()
