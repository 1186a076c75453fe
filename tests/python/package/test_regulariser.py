"""A caller's own regulariser: equal to the built-in methods it spells, differentiable, and its refusals."""

from __future__ import annotations

import copy
import ctypes
import gc
import math
import pickle
import threading
import time
import weakref
from typing import Any

import numpy as np
import otattn
import pytest
import spec
import torch

U64 = 2.0**-53


def entropy() -> otattn.Regulariser:
    return otattn.Regulariser(
        lambda x: math.exp(min(x, 700.0)),
        lambda x: math.exp(min(x, 700.0)),
        lambda p: p * (math.log(p) - 1) if p > 0 else 0.0,
    )


def tsallis(alpha: float) -> otattn.Regulariser:
    power = 1 / (alpha - 1)
    return otattn.Regulariser(
        lambda x: max(0.0, (alpha - 1) * x) ** power,
        lambda x: max(0.0, (alpha - 1) * x) ** (power - 1) if x > 0 else 0.0,
        lambda p: (p**alpha - p) / (alpha * (alpha - 1)),
    )


CASES = {"softmax": entropy, "entmax:1.5": lambda: tsallis(1.5), "sparsemax": lambda: tsallis(2.0)}


@pytest.mark.parametrize("method", CASES)
def test_equals_the_method_it_spells(method: str, rng: np.random.Generator) -> None:
    own = CASES[method]()
    x = [rng.standard_normal((2, heads, n, 3)) for heads, n in ((4, 5), (2, 6), (2, 6))]
    mask = rng.random((5, 6)) < 0.8
    mask[:, 1] = True
    options: dict[str, Any] = {"attn_mask": mask, "enable_gqa": True, "temperature": 0.7, "sink": 0.1}
    options["return_aux"] = otattn.AuxRequest(coupling=True, certificate=True)
    out, aux = otattn.attention(*x, method=own, **options)
    right, judged = otattn.attention(*x, method=method, **options)
    # The row's potential is found to a few units of rounding, which the weights amplify by 1 / tau.
    spec.check("LIT-34", np.abs(aux.coupling - judged.coupling).max(), 1e3 * U64 / 0.7)
    assert np.abs(out - right).max() <= 1e4 * U64
    assert aux.certificate.row_error <= 1e2 * U64
    spec.check("LIT-34", abs(aux.certificate.primal - judged.certificate.primal), 1e-11)
    spec.check("LIT-34", abs(aux.certificate.gap), 1e-9)


@pytest.mark.parametrize("method", CASES)
def test_derivatives(method: str, rng: np.random.Generator) -> None:
    values = [rng.standard_normal((1, 2, 4, 3)) for _ in range(3)]
    upstream = torch.from_numpy(rng.standard_normal((1, 2, 4, 3)))

    def gradients(chosen: Any) -> Any:
        leaves = [torch.from_numpy(x).requires_grad_() for x in values]
        out = otattn.attention(*leaves, method=chosen() if callable(chosen) else chosen)
        # Nothing but the graph holds the regulariser now.
        otattn.release_memory()
        gc.collect()
        return torch.autograd.grad(out, leaves, upstream)

    for ours, theirs in zip(gradients(CASES[method]), gradients(method), strict=True):
        spec.check("LIT-34", (ours - theirs).abs().max().item(), 1e-12)
    own = CASES[method]()
    directions = {name: rng.standard_normal((1, 2, 4, 3)) for name in ("query", "key", "value")}
    found = []
    for chosen in (own, method):
        plan = otattn.Plan(*values, method=chosen, gradients=True)
        plan.forward(*values)
        found.append(plan.jvp({**directions, "temperature": 0.3}))
    assert np.abs(found[0] - found[1]).max() <= 1e-11


def test_compiled_functions_are_called_directly() -> None:
    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p, ctypes.c_double)
    calls = []

    @kind
    def weight(_user: Any, x: float) -> float:
        calls.append(x)
        return max(0.0, x)

    class Compiled:
        """As numba's: a function with an address."""

        address = ctypes.cast(weight, ctypes.c_void_p).value

    scores = np.array([[1.0, 0.5, -2.0]])
    for function in (weight, Compiled()):
        calls.clear()
        plan = otattn.coupling(scores, method=otattn.Regulariser(function, lambda x: float(x > 0)))
        assert np.abs(plan - otattn.coupling(scores, method="sparsemax")).max() <= 8 * U64 and calls


def test_refusals(rng: np.random.Generator) -> None:
    scores = rng.standard_normal((3, 4))
    with pytest.raises(TypeError, match="slope is a int, wanted a function"):
        otattn.Regulariser(math.exp, 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="may not fall"):
        otattn.coupling(scores, method=otattn.Regulariser(lambda x: math.exp(-min(abs(x), 9.0)), abs))

    def broken(x: float) -> float:
        raise KeyError(f"no weight at {x}")

    for _ in range(2):
        with pytest.raises(KeyError, match="no weight at"):
            otattn.coupling(scores, method=otattn.Regulariser(broken, broken))
    failing: list[bool] = []

    def slope(x: float) -> float:
        return broken(x) if failing else float(x > 0)

    late = otattn.Regulariser(lambda x: max(0.0, x), slope)
    leaf = torch.from_numpy(scores).requires_grad_()
    plan = otattn.coupling(leaf, method=late)
    failing.append(True)
    with pytest.raises(KeyError):
        plan.square().sum().backward()
    failing.clear()
    assert np.isfinite(otattn.coupling(scores, method=late)).all()


def test_functions_end_with_the_call(rng: np.random.Generator) -> None:
    """Past a deadline and behind an exception they are called no more, whatever rows are at work."""
    scores = rng.standard_normal((16, 20000))
    late = [0]
    end = time.monotonic() + 0.1 + 0.5  # the deadline, and what a call does before it has one

    def weight(x: float) -> float:
        late[0] += time.monotonic() > end
        return max(0.0, x)

    method = otattn.Regulariser(weight, lambda x: float(x > 0))
    with pytest.raises(TimeoutError, match="deadline"):
        otattn.coupling(scores, method=method, deadline=0.1)
    assert late[0] <= 8
    count = [0]

    def broken(x: float) -> float:
        count[0] += 1
        if count[0] > 5000:
            raise KeyError("no weight")
        return max(0.0, x)

    method = otattn.Regulariser(broken, lambda x: float(x > 0))
    for backend in ("cpu", "plain"):
        count[0] = 0
        with pytest.raises(KeyError, match="no weight"):
            otattn.coupling(scores, method=method, backend=backend)
        # Threads that were in a function.
        assert count[0] <= 5000 + 64
    count[0] = -(10**9)
    assert np.isfinite(otattn.coupling(scores[:1, :50], method=method)).all()


def test_threads_get_their_own_exceptions(rng: np.random.Generator) -> None:
    """Another thread's call fails as a whole while one is in flight that does not."""
    scores = rng.standard_normal((3, 4))
    caught: list[BaseException] = []

    def weight(x: float) -> float:
        if threading.current_thread() is other:
            raise KeyError("of the other thread")
        if other.ident is None:
            other.start()
            other.join(20.0)
        return max(0.0, x)

    def solve() -> None:
        try:
            otattn.coupling(scores, method=shared)
        except KeyError as error:
            caught.append(error)

    shared = otattn.Regulariser(weight, lambda x: float(x > 0))
    other = threading.Thread(target=solve)
    found = otattn.coupling(scores, method=shared)
    assert np.abs(found - otattn.coupling(scores, method="sparsemax")).max() <= 8 * U64 and len(caught) == 1


def test_a_plan_has_no_derivative_after_an_exception(rng: np.random.Generator) -> None:
    x = rng.standard_normal((1, 1, 3, 2))
    sample: list[float] = []
    made: list[otattn.Plan] = []

    def weight(argument: float) -> float:
        if not made:
            sample.append(argument)
        elif argument not in sample:
            raise KeyError("no weight")
        return max(0.0, argument)

    method = otattn.Regulariser(weight, lambda x: float(x > 0))
    made.append(otattn.Plan(x, x, x, method=method, gradients=True))
    with pytest.raises(KeyError, match="no weight"):
        made[0].forward(x, x, x)
    with pytest.raises(ValueError, match="no forward"):
        made[0].backward(x)


def test_it_goes_away(rng: np.random.Generator) -> None:
    own = tsallis(2.0)
    gone = weakref.ref(own)
    x = rng.standard_normal((1, 1, 3, 2))
    otattn.attention(x, x, x, method=own)
    otattn.release_memory()
    del own
    gc.collect()
    assert gone() is None


def test_copies_are_the_same_and_pickles_are_refused() -> None:
    """nn.TransformerEncoder copies its layer."""
    own = tsallis(1.5)
    assert copy.copy(own) is copy.deepcopy(own) is own
    with pytest.raises(TypeError, match="has functions of this process, so it cannot be pickled"):
        pickle.dumps(own)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
    layer.self_attn = otattn.nn.Attention(8, 2, method=own, batch_first=True)
    x = torch.randn(2, 3, 8)
    encoder = torch.nn.TransformerEncoder(layer, 2)
    assert torch.equal(encoder(x), layer(layer(x)))
