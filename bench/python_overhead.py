"""What a call from Python costs beyond the library's own forward: one head, 4 queries and keys of width 8.

Then a matching of 30 x 30, in C and from Python, and calls on a matrix of 4 x 4 scores or costs:
`coupling`, the activations and transport; and of late interaction, two tokens and two documents of three,
of width 8 in f32; and experts of eight tokens. Last a layer of transformers, also where the products of a
model lie between its calls, whose code then has to be fetched again: the median of 150 such calls.

    python bench/python_overhead.py

Processor time of this thread, the least of many turns, in microseconds. The empty operator has the schema of
otattn's and does nothing; its derivative is registered by torch.library.register_autograd. The rows
of JAX, where it is installed, are compiled functions in wall time, since XLA works on threads of its own.
"""

from __future__ import annotations

import ctypes
import functools
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import otattn
import otattn.lap
import otattn.moe
import torch
from otattn import _kept, _native
from otattn import _structs as c
from otattn._library import library
from otattn._maxsim import Call
from otattn._moe_call import CODES
from otattn._settings import OPERANDS
from scipy.optimize import linear_sum_assignment
from timing import fastest


def microseconds(
    call: Callable[[], Any], count: int = 500, clock: Callable[[], float] = time.thread_time
) -> float:
    def turn() -> None:
        for _ in range(count):
            call()

    return 1e6 * fastest(turn, 20, clock=clock) / count


def calls_on_matrices(x: Any, masses: Any) -> dict[str, Callable[[], Any]]:
    """The calls by name, on a matrix and masses that are both NumPy's or both torch's."""
    cost = x * x
    return {
        "coupling": lambda: otattn.coupling(x),
        "coupling, exact columns": lambda: otattn.coupling(x, method="softmax/exact"),
        "activations.sparsemax": lambda: otattn.activations.sparsemax(x),
        "activations.entmax_bisect": lambda: otattn.activations.entmax_bisect(x, 1.3),
        "ot.emd": lambda: otattn.ot.emd(masses, masses, cost),
        "ot.sinkhorn": lambda: otattn.ot.sinkhorn(masses, masses, cost, 1.0),
        "ot.solve": lambda: otattn.ot.solve(cost, masses, masses, 1.0),
        "ot.solve, unbalanced": lambda: otattn.ot.solve(cost, masses, masses, 1.0, unbalanced=1.0),
        "ot.sinkhorn_unbalanced": lambda: otattn.ot.sinkhorn_unbalanced(masses, masses, cost, 1.0, 1.0),
        "ot.emd2": lambda: otattn.ot.emd2(masses, masses, cost),
        "ot.emd, log": lambda: otattn.ot.emd(masses, masses, cost, log=True),
        "ot.sinkhorn2": lambda: otattn.ot.sinkhorn2(masses, masses, cost, 1.0),
    }


def judged_calls_on_matrices(x: Any, masses: Any) -> dict[str, Callable[[], Any]]:
    """Those whose plan is judged, too."""
    cost = x * x

    def whole() -> Any:
        found = otattn.ot.solve(cost, masses, masses, 1.0)
        return found.plan, found.potentials, found.value, found.value_linear, found.log

    def unbalanced() -> Any:
        return otattn.ot.sinkhorn_unbalanced(masses, masses, cost, 1.0, 1.0, log=True)

    return {
        "ot.solve, all of it read": whole,
        "ot.sinkhorn, log": lambda: otattn.ot.sinkhorn(masses, masses, cost, 1.0, log=True),
        "ot.sinkhorn_unbalanced, log": unbalanced,
    }


def differentiable_calls_on_matrices(x: Any, masses: Any) -> dict[str, Callable[[], Any]]:
    """Those with a derivative by the cost, forward only."""
    cost = (x * x).requires_grad_()
    return {
        "ot.sinkhorn, derivative": lambda: otattn.ot.sinkhorn(masses, masses, cost, 1.0),
        "ot.emd2, derivative": lambda: otattn.ot.emd2(masses, masses, cost),
        "ot.sinkhorn2, derivative": lambda: otattn.ot.sinkhorn2(masses, masses, cost, 1.0),
    }


def bare_of(call: Callable[[], Any], judged: bool) -> float | None:
    """The library's own part of a call: its forward (and its judge) on the call's own inputs.

    None where the call keeps no structs.
    """
    otattn.release_memory()
    for _ in range(2):
        call()
    if not _kept._kinds:
        return None
    (kind,) = _kept._kinds.values()
    structs, results = kind[0].call, kind[0].results
    # The results that the fields show are gone.
    own = [ctypes.create_string_buffer(8 * math.prod(result.shape)) for _, result in results]
    for (place, _), memory in zip(results, own, strict=True):
        ctypes.c_void_p.from_address(place).value = ctypes.addressof(memory)
    forward = microseconds(lambda: _native.ask(structs))
    if not judged:
        return forward
    return forward + microseconds(lambda: _native.judge(structs))


def rows_of_matrices() -> list[tuple[str, float | None, float]]:
    """Name, the library's own microseconds, and all of the call's."""
    x = np.random.default_rng(0).standard_normal((4, 4))
    masses = np.full(4, 0.25)
    rows = []
    for kind, convert in (("NumPy", np.asarray), ("torch", torch.from_numpy)):
        arrays = convert(x), convert(masses)
        made = [(calls_on_matrices(*arrays), False), (judged_calls_on_matrices(*arrays), True)]
        if kind == "torch":
            made.append((differentiable_calls_on_matrices(*arrays), False))
        for calls, judged in made:
            for name, call in calls.items():
                bare = bare_of(call, judged)
                rows.append((f"{kind}, {name}", bare, microseconds(call, 200)))
    return rows


def rows_of_maxsim() -> list[tuple[str, float, float]]:
    """The same of late interaction, whose library call is timed on the call's own struct."""
    rng = np.random.default_rng(0)
    queries, documents = (rng.standard_normal((n, 8)).astype(np.float32) for n in (2, 6))
    offsets, scores = np.array([0, 3, 6]), np.empty(2, np.float32)
    call = Call(queries, documents, offsets, None, None, 0)
    arguments = (ctypes.addressof(call.problem), scores.ctypes.data, None)
    bare = microseconds(lambda: _native.ota_maxsim(*arguments))
    tensors = torch.from_numpy(queries), torch.from_numpy(documents)
    return [
        ("NumPy, maxsim", bare, microseconds(lambda: otattn.maxsim(queries, documents, offsets))),
        ("torch, maxsim", bare, microseconds(lambda: otattn.maxsim(*tensors, offsets))),
    ]


def rows_of_routing() -> list[tuple[str, float, float]]:
    """Eight tokens to two of four experts, f32: the library's part by a router that is kept."""
    logits = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    tensor = torch.from_numpy(logits)
    pointer, options = ctypes.c_void_p(), c.Options(size=ctypes.sizeof(c.Options), threads=1)
    library.ota_router_create(ctypes.byref(pointer), ctypes.byref(options), None)
    whole = ctypes.c_int64 * 4
    problem = c.Routing(size=ctypes.sizeof(c.Routing), take=2)
    problem.logits = c.Array(
        data=logits.ctypes.data, type=c.F32, size=whole(1, 1, 8, 4), stride=whole(0, 0, 4, 1)
    )
    choices, experts = np.empty((3, 8, 2), np.int64), np.empty((2, 4))
    result = c.RoutingResult(size=ctypes.sizeof(c.RoutingResult))
    result.chosen, result.weights, result.kept = (x.ctypes.data for x in choices)
    result.potentials, result.loads = (x.ctypes.data for x in experts)
    bound = np.empty(1)
    result.bound = bound.ctypes.data
    arguments = (pointer, ctypes.byref(problem), ctypes.byref(result), None)
    rows = []
    for name, code in CODES.items():
        problem.method = code
        bare = microseconds(lambda: library.ota_router_route(*arguments))
        for kind, x in (("NumPy", logits), ("torch", tensor)):
            run = functools.partial(otattn.moe.route, x, 2, method=name)
            rows.append((f"{kind}, moe.route, {name}", bare, microseconds(run, 200)))
    problem.method = c.ROUTE_GIVEN
    choice = microseconds(lambda: library.ota_router_route(*arguments))
    library.ota_router_free(pointer)
    for kind, x in (("NumPy", logits), ("torch", tensor)):
        run = functools.partial(otattn.moe.route, x, 2, method="soft")
        solve = bare_of(run, False)
        assert solve is not None
        rows.append((f"{kind}, moe.route, soft", solve + choice, microseconds(run, 200)))
    return rows


def rows_of_matching() -> list[tuple[str, float]]:
    """One problem of 30 x 30: by an assigner and by a plan, through ctypes, and the package's calls."""
    cost = np.random.default_rng(0).random((30, 30))
    t = torch.from_numpy(cost)
    otattn.release_memory()
    for _ in range(2):
        plan = otattn.coupling(cost, method="assignment", cost=True)
    (kind,) = _kept._kinds.values()
    handle, problem = kind[0].handle, ctypes.byref(kind[0].job.problem)
    ((place, _),) = kind[0].results
    ctypes.c_void_p.from_address(place).value = plan.ctypes.data
    structs = kind[0].call

    def rebound() -> None:
        library.ota_plan_rebind(handle.pointer, problem, handle.reference)
        _native.ask(structs)

    pointer, options = ctypes.c_void_p(), c.Options(size=ctypes.sizeof(c.Options), threads=1)
    library.ota_assigner_create(ctypes.byref(pointer), ctypes.byref(options), None)
    pairs = np.empty((2, 30), np.int64)
    batch = c.Assignments(size=ctypes.sizeof(c.Assignments), count=1, rows=30, columns=30, type=c.F64)
    batch.row_stride, batch.column_stride, batch.costs = 30, 1, cost.ctypes.data
    batch.pair_row, batch.pair_column = pairs[0].ctypes.data, pairs[1].ctypes.data
    calls = {
        "ota_assign": lambda: library.ota_assign(pointer, ctypes.byref(batch), None),
        "ota_plan_rebind and ota_forward": rebound,
        "linear_sum_assignment": lambda: otattn.linear_sum_assignment(cost),
        "linear_sum_assignment, cost_limit": lambda: otattn.linear_sum_assignment(cost, cost_limit=0.5),
        "linear_sum_assignment, certificate": lambda: otattn.linear_sum_assignment(cost, certificate=True),
        "linear_sum_assignment, torch": lambda: otattn.linear_sum_assignment(t),
        "lap.lapjv": lambda: otattn.lap.lapjv(cost),
        "SciPy's": lambda: linear_sum_assignment(cost),
    }
    rows = [(name, microseconds(call, 100)) for name, call in calls.items()]
    library.ota_assigner_free(pointer)
    return rows


def rows_of_jax(x: Any) -> list[tuple[str, float]]:
    try:
        import jax
    except ImportError:
        return []
    from otattn import _jax_callback

    def by_callback(y: Any) -> Any:
        arrays = {"query": y, "key": y, "value": y}
        return _jax_callback.attend(arrays, {"enable_gqa": False, "method": "softmax"})

    def by_handler(y: Any) -> Any:
        return otattn.jax.attention(y, y, y)

    rows = []
    calls = {"nothing but y + 1": lambda y: y + 1, "jax.ffi": by_handler, "callback": by_callback}
    for name, call in calls.items():
        compiled = jax.jit(call)
        y = jax.numpy.asarray(x)
        run = functools.partial(lambda f, y: f(y).block_until_ready(), compiled, y)
        rows.append((f"JAX, {name}", microseconds(run, 50, time.perf_counter)))
        if name != "nothing but y + 1":
            slope = jax.jit(jax.grad(lambda y, call=call: call(y).sum()))
            run = functools.partial(lambda f, y: f(y).block_until_ready(), slope, y)
            rows.append((f"JAX, {name}, forward and backward", microseconds(run, 50, time.perf_counter)))
    return rows


def empty_operator() -> Callable[..., Any]:
    operands = ", ".join(f"Tensor {x}" if x == "query" else f"Tensor? {x}" for x in OPERANDS)
    for_good = torch.library.Library("empty", "DEF")
    for_good.define(f"solve({operands}, str settings, str outputs) -> Tensor[]")
    for_good.impl("solve", lambda *a: [torch.empty_like(a[0])], "CPU")
    torch.library.register_autograd(
        "empty::solve",
        lambda ctx, grads: (*3 * (grads[0],), *(len(OPERANDS) - 1) * (None,)),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs[:-2]),
        lib=for_good,
    )
    nothing = (None,) * (len(OPERANDS) - 3)
    return lambda x: (torch.ops.empty.solve(x, x, x, *nothing, "", "")[0], for_good)[0]


class Nothing(torch.autograd.Function):
    """A derivative's least cost: two tensors are saved, and a new one comes back."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        return y.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0], None


def rows_of_floors() -> list[tuple[str, float]]:
    """What torch alone takes for the parts of such calls, on 4 x 4 numbers."""
    x = torch.ones(4, 4, dtype=torch.float64)
    leaf = x.clone().requires_grad_()
    return [
        ("torch.empty", microseconds(lambda: torch.empty((4, 4)))),
        ("torch.autograd.Function, empty", microseconds(lambda: Nothing.apply(leaf, x))),
        ("torch.sum(x * y)", microseconds(lambda: torch.sum(x * x))),
        ("torch.sum(x * y), derivative", microseconds(lambda: torch.sum(leaf * x))),
    ]


def between_products(call: Callable[[], Any], count: int = 150) -> float:
    """The median microseconds of a call behind products with matrices of a model's size, each time."""
    x, matrices = torch.randn(64, 768), [torch.randn(3072, 768) for _ in range(4)]
    spent = []
    for _ in range(count):
        for matrix in matrices:
            torch.nn.functional.linear(x, matrix).relu_()
        begin = time.thread_time()
        call()
        spent.append(time.thread_time() - begin)
    return 1e6 * statistics.median(spent)


def rows_of_layers() -> list[tuple[str, float, float]]:
    """One new token of a model on its cache of 129: in a loop, and between the products of the model."""
    try:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward
    except ImportError:
        return []
    layer = torch.nn.Module()
    layer.is_causal, layer.num_key_value_groups = True, 3  # type: ignore[assignment]
    query = torch.randn(1, 1, 9, 64).transpose(1, 2)
    operands = (query, *torch.randn(2, 1, 3, 129, 64), None)
    calls = {"otattn.hf": otattn.hf.attention_forward, "sdpa's": sdpa_attention_forward}
    rows = []
    with torch.inference_mode():
        for name, function in calls.items():
            call = functools.partial(function, layer, *operands, dropout=0.0, scaling=0.125)
            rows.append((name, microseconds(call, 100), between_products(call)))
    return rows


def main() -> None:
    torch.set_num_threads(1)
    otattn.set_num_threads(1)
    x = np.random.default_rng(0).standard_normal((1, 1, 4, 8)).astype(np.float32)
    t = torch.from_numpy(x)
    leaf, upstream = t.clone().requires_grad_(), torch.ones_like(t)
    plan = otattn.Plan(x, x, x)
    plan.forward(x, x, x)
    assert plan._solved is not None
    structs = plan._solved.kept.call
    bare = microseconds(lambda: _native.ask(structs))
    empty = empty_operator()
    rows = [
        ("the library's forward, on kept structs", bare),
        ("NumPy, beyond that", microseconds(lambda: otattn.attention(x, x, x)) - bare),
    ]
    with torch.no_grad():
        ours = microseconds(lambda: otattn.attention(t, t, t))
        rows.append(("torch without grad, beyond that", ours - bare))
        sdpa = torch.nn.functional.scaled_dot_product_attention
        rows.append(("torch's own attention, without grad", microseconds(lambda: sdpa(t, t, t))))
    rows += [
        ("torch with grad, forward", microseconds(lambda: otattn.attention(leaf, leaf, leaf), 200)),
        ("empty operator with grad, forward", microseconds(lambda: empty(leaf), 200)),
    ]
    backward = torch.autograd.grad
    rows += [
        (
            "torch, forward and backward",
            microseconds(lambda: backward(otattn.attention(leaf, leaf, leaf), leaf, upstream), 100),
        ),
        (
            "empty operator, forward and backward",
            microseconds(lambda: backward(empty(leaf), leaf, upstream), 100),
        ),
    ]
    rows += rows_of_jax(x)
    for name, value in rows:
        print(f"{name:<38} {value:7.1f}")
    print("\n30 x 30, f64")
    for name, value in rows_of_matching():
        print(f"{name:<38} {value:7.1f}")
    print("\ntorch's own, 4 x 4")
    for name, value in rows_of_floors():
        print(f"{name:<38} {value:7.1f}")
    print(f"\n{'4 x 4, f64':<38} {'call':>7} {'library':>7} {'beyond':>7}")
    for name, bare, whole in (*rows_of_matrices(), *rows_of_maxsim(), *rows_of_routing()):
        parts = "" if bare is None else f" {bare:7.1f} {whole - bare:7.1f}"
        print(f"{name:<38} {whole:7.1f}{parts}")
    print(f"\n{'a layer of transformers':<38} {'loop':>7} {'between products':>17}")
    for name, loop, between in rows_of_layers():
        print(f"{name:<38} {loop:7.1f} {between:17.1f}")


if __name__ == "__main__":
    main()
