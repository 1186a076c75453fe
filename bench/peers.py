"""Times otattn beside the libraries people use today, turn by turn in one run.

    peers.py PROGRAM [--repeat N] [--threads N] [--csv FILE] [--only NAME] [--up-to N]
        [--before PROGRAM]

Each row alternates `PROGRAM bench` (fastest of three inside, answers checked against plain loops there)
with the peer's own call on data of the same shape, N times, and prints the fastest of each and their
ratio: above 1, otattn is faster. Machines are noisy: only the ratio means something. The CSV also holds
the machine and what its units reach in the same run: fused products, and reads of the row's matrix.

--only takes the rows whose name holds NAME, --up-to those of at most N queries and keys.

With --before, the peer of every row is another build of the program itself: what a change of the library
cost or gained on the rows that the peers are held against. The ratio is that of the fastest turns; the
median of the ratios turn by turn stands beside it.

Plain transport stops at rounds or at an error: a peer that stops by a norm of its own is given, before it
is timed, the least number of rounds (in tens) after which the l1 error of its columns is the same.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from timing import entmax_by_torch, fastest, in_turns, sinkhorn_by_torch, softmax_by_torch, write_csv

MOST_ROUNDS = 20000
USAGE = 2  # exit code of a program that lacks a flag
LONG = 1.0  # seconds: one call of a peer that takes more is the only one


@dataclass(frozen=True)
class Row:
    """What otattn runs, and the peer's call, on `[n, m, d]`; d = 0: on costs `[n, m]`."""

    name: str
    method: str
    shape: tuple[int, int, int]
    peer: str
    prepare: Callable[[tuple[int, int, int]], Callable[[], object]]
    dtype: str = "f32"
    masked: str = ""


@dataclass(frozen=True)
class Timed:
    """Nanoseconds a pair, the largest error of the timed output, and the ceilings of that run."""

    nanoseconds: float
    error: float
    fma: float | None = None
    read: float | None = None


def torch_data(shape: tuple[int, int, int], kind: str = "float32"):
    import torch

    n, m, d = shape
    generator = torch.Generator().manual_seed(0)
    make = lambda rows: torch.randn(1, 1, rows, d, generator=generator).to(getattr(torch, kind))  # noqa: E731
    return torch, make(n), make(m), make(m)


def torch_forward(
    forward: Callable[..., object], kind: str = "float32"
) -> Callable[[tuple[int, int, int]], Callable[[], object]]:
    def prepare(shape: tuple[int, int, int]) -> Callable[[], object]:
        _, q, k, v = torch_data(shape, kind)
        return lambda: forward(q, k, v)

    return prepare


def torch_backward(
    forward: Callable[..., object], kind: str = "float32"
) -> Callable[[tuple[int, int, int]], Callable[[], object]]:
    """The backward pass alone, on a graph made once."""

    def prepare(shape: tuple[int, int, int]) -> Callable[[], object]:
        torch, *inputs = torch_data(shape, kind)
        leaves = [x.requires_grad_() for x in inputs]
        out = forward(*leaves)
        along = torch.randn_like(out)
        return lambda: torch.autograd.grad(out, leaves, along, retain_graph=True)

    return prepare


def hidden_by(word: str, shape: tuple[int, int, int]) -> dict[str, Any]:
    """What torch's SDPA calls --masked WORD; it has no lengths, which are padding there."""
    import torch

    n, m, _ = shape
    if word == "causal":
        return {"is_causal": True}
    if word == "numbers":
        return {"attn_mask": torch.randn(n, m, generator=torch.Generator().manual_seed(1))}
    return {"attn_mask": (torch.arange(m) < m - m // 5).view(1, 1, 1, m)}


def masked_rows() -> list[Row]:
    """Softmax with a mask beside torch's SDPA, forward and gradients."""

    def torch_masked(direction: Callable[..., Any], word: str) -> Callable[[tuple[int, int, int]], Any]:
        def prepare(shape: tuple[int, int, int]) -> Callable[[], object]:
            hidden = hidden_by(word, shape)
            return direction(lambda q, k, v: softmax_by_torch(q, k, v, **hidden))(shape)

        return prepare

    return [
        Row(
            f"{begin}mask {word}",
            "softmax",
            (n, n, 64),
            "torch SDPA f32",
            torch_masked(direction, word),
            masked=word,
        )
        for begin, direction in (("", torch_forward), ("gradients ", torch_backward))
        for word in ("padding", "lengths", "numbers", "causal")
        for n in (64, 256, 1024, 4096)
    ]


def onnx_attention(shape: tuple[int, int, int]) -> Callable[[], object]:
    """ONNX Runtime's fused MultiHeadAttention with one head, as a model of one node."""
    import onnxruntime
    from onnx import TensorProto, helper

    n, m, d = shape
    kind = TensorProto.FLOAT
    rows = {"query": n, "key": m, "value": m}
    takes = [helper.make_tensor_value_info(name, kind, [1, size, d]) for name, size in rows.items()]
    gives = [helper.make_tensor_value_info("output", kind, [1, n, d])]
    node = helper.make_node("MultiHeadAttention", list(rows), ["output"], domain="com.microsoft", num_heads=1)
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "attention", takes, gives)
    model = helper.make_model(graph, opset_imports=sets, ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    _, *inputs = torch_data(shape)
    data = {name: x[0].numpy() for name, x in zip(rows, inputs, strict=True)}
    return lambda: session.run(None, data)


def pot_sinkhorn(shape: tuple[int, int, int]) -> Callable[[], object]:
    import ot

    n, m, d = shape
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((rows, d)) for rows in (n, m, m))
    a, b = np.full(n, 1.0 / n), np.full(m, 1.0 / m)

    def run() -> object:
        cost = -(q @ k.T) / np.sqrt(d)
        return n * ot.sinkhorn(a, b, cost - cost.min(), 1.0, stopThr=1e-5, numItermax=1000) @ v

    return run


def plane_costs(shape: tuple[int, int, int], dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Masses and squared distances of points of the unit square, as `otattn bench` draws for d = 0."""
    n, m, _ = shape
    rng = np.random.default_rng(0)
    x, y = rng.random((n, 2)), rng.random((m, 2))
    cost = ((x[:, None] - y) ** 2).sum(-1)
    kind = {"f32": np.float32, "f64": np.float64}[dtype]
    return np.full(n, 1.0 / n, kind), np.full(m, 1.0 / m, kind), cost.astype(kind)


def quiet(call: Callable[[], object]) -> Callable[[], object]:
    """A peer that is stopped early on purpose warns of it every time."""

    def run() -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call()

    return run


def pot_rounds(dtype: str, temperature: float, rounds: int):
    def prepare(shape: tuple[int, int, int]) -> Callable[[], object]:
        import ot

        a, b, cost = plane_costs(shape, dtype)
        return quiet(lambda: ot.sinkhorn(a, b, cost, temperature, stopThr=0.0, numItermax=rounds))

    return prepare


def pot_to(dtype: str, temperature: float, tolerance: float, method: str):
    def prepare(shape: tuple[int, int, int]) -> Callable[[], object]:
        import ot

        a, b, cost = plane_costs(shape, dtype)

        def run(rounds: int) -> np.ndarray:
            return ot.sinkhorn(a, b, cost, temperature, method=method, stopThr=0.0, numItermax=rounds)

        def missed(rounds: int) -> bool:
            plan = np.asarray(quiet(lambda: run(rounds))(), np.float64)
            return not np.abs(plan.sum(0) - b).sum() + np.abs(plan.sum(1) - a).sum() <= tolerance

        high = 10
        while missed(high) and high < MOST_ROUNDS:
            high *= 2
        low = high // 2
        while high - low > 10:
            middle = (low + high) // 20 * 10
            low, high = (middle, high) if missed(middle) else (low, middle)
        return quiet(lambda: run(high))

    return prepare


def ott_rounds(temperature: float, rounds: int):
    def prepare(shape: tuple[int, int, int]) -> Callable[[], object]:
        import jax
        from ott.geometry import geometry
        from ott.problems.linear import linear_problem
        from ott.solvers.linear import sinkhorn

        a, b, cost = plane_costs(shape, "f32")
        solver = sinkhorn.Sinkhorn(
            threshold=0.0, min_iterations=rounds, max_iterations=rounds, inner_iterations=rounds
        )

        @jax.jit
        def run(cost, a, b):
            problem = linear_problem.LinearProblem(geometry.Geometry(cost, epsilon=temperature), a=a, b=b)
            return solver(problem).matrix

        return lambda: run(cost, a, b).block_until_ready()

    return prepare


def costs(shape: tuple[int, int, int]) -> np.ndarray:
    """Squared distances of random points in eight dimensions, f32 `[n, m]`."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((rows, 8)) for rows in shape[:2])
    square = (x**2).sum(1)[:, None] + (y**2).sum(1) - 2.0 * x @ y.T
    return np.maximum(square, 0.0).astype(np.float32)


def uniform_costs(shape: tuple[int, int, int]) -> np.ndarray:
    """Numbers from 0 to 1, f32 `[n, m]`."""
    return np.random.default_rng(0).random(shape[:2], dtype=np.float32)


COSTS = {"assignment 8-d": costs, "assignment uniform": uniform_costs}


def scipy_assignment(kind: str) -> Callable[[tuple[int, int, int]], Callable[[], object]]:
    def prepare(shape: tuple[int, int, int]) -> Callable[[], object]:
        from scipy.optimize import linear_sum_assignment

        cost = COSTS[kind](shape)
        return lambda: linear_sum_assignment(cost)

    return prepare


def lap_assignment(kind: str) -> Callable[[tuple[int, int, int]], Callable[[], object]]:
    def prepare(shape: tuple[int, int, int]) -> Callable[[], object]:
        import lap

        cost = COSTS[kind](shape)
        return lambda: lap.lapjv(cost, extend_cost=True)

    return prepare


CACHES = {1024: "decode 1k", 16384: "decode 16k", 65536: "decode 64k"}

ROWS = [
    *masked_rows(),
    *(
        Row("softmax", "softmax", (n, n, 64), "torch SDPA f32", torch_forward(softmax_by_torch))
        for n in (64, 256, 1024, 4096)
    ),
    *(Row("softmax", "softmax", (n, n, 64), "ONNX Runtime f32", onnx_attention) for n in (256, 1024, 4096)),
    *(
        Row(
            name,
            "softmax",
            (n, n, 64),
            "torch SDPA bf16",
            direction(softmax_by_torch, "bfloat16"),
            "bf16",
        )
        for name, direction in (("softmax bf16", torch_forward), ("gradients softmax bf16", torch_backward))
        for n in (256, 1024, 4096)
    ),
    *(
        Row("entmax:1.5", "entmax:1.5", (n, n, 64), "torch + entmax15 f32", torch_forward(entmax_by_torch))
        for n in (256, 1024, 4096)
    ),
    *(
        Row("gradients softmax", "softmax", (n, n, 64), "torch SDPA f32", torch_backward(softmax_by_torch))
        for n in (64, 256, 1024, 4096)
    ),
    Row(
        "gradients entmax:1.5",
        "entmax:1.5",
        (1024, 1024, 64),
        "torch + entmax15 f32",
        torch_backward(entmax_by_torch),
    ),
    *(
        Row(
            "gradients exact",
            "ceta{rounds=2}",
            (n, n, 64),
            "5 half-steps in torch f32",
            torch_backward(sinkhorn_by_torch(5)),
        )
        for n in (256, 1024)
    ),
    *(
        Row("decode", name, (1, n, 64), "torch SDPA f32", torch_forward(softmax_by_torch))
        for n, name in CACHES.items()
    ),
    *(
        Row(
            "exact, 2 rounds",
            "ceta{rounds=2}",
            (n, n, 64),
            "5 half-steps in torch f32",
            torch_forward(sinkhorn_by_torch(5)),
        )
        for n in (256, 1024, 2048)
    ),
    *(
        Row(
            "exact, 10 rounds",
            "ceta{rounds=10}",
            (n, n, 64),
            "21 half-steps in torch f32",
            torch_forward(sinkhorn_by_torch(21)),
        )
        for n in (1024, 2048)
    ),
    Row("exact to 1e-5", "ceta", (1024, 1024, 64), "POT sinkhorn f64", pot_sinkhorn),
    *(
        Row(
            f"plain, 50 rounds {dtype}",
            "ceta{temperature=.1,rounds=50}",
            (n, n, 0),
            f"POT sinkhorn {dtype}",
            pot_rounds(dtype, 0.1, 50),
            dtype,
        )
        for n in (512, 1024, 2048)
        for dtype in ("f32", "f64")
    ),
    *(
        Row(
            f"plain, 50 rounds {dtype}",
            "ceta{temperature=.1,rounds=50}",
            (n, n, 0),
            "OTT-JAX f32",
            ott_rounds(0.1, 50),
            dtype,
        )
        for n in (512, 1024)
        for dtype in ("f32",)
    ),
    *(
        Row(
            f"plain to {tolerance:g}, {temperature:g}",
            f"ceta{{temperature={temperature},tolerance={tolerance}}}",
            (n, n, 0),
            f"POT sinkhorn {dtype}",
            pot_to(dtype, temperature, tolerance, "sinkhorn"),
            dtype,
        )
        for n in (512, 1024)
        for dtype, temperature, tolerance in (("f32", 0.1, 1e-4), ("f64", 0.1, 1e-9), ("f64", 0.02, 1e-9))
    ),
    Row(
        "plain to 1e-5, 0.001",
        "ceta{temperature=.001,tolerance=1e-5}",
        (256, 256, 0),
        "POT sinkhorn_log f64",
        pot_to("f64", 0.001, 1e-5, "sinkhorn_log"),
        "f64",
    ),
    *(
        Row(kind, "assign", (n, m, 0), peer, prepare(kind))
        for kind in COSTS
        for n, m in ((1000, 1000), (2000, 2000), (4000, 4000), (1000, 4000), (4000, 1000), (3000, 4000))
        for peer, prepare in (("SciPy f64", scipy_assignment), ("lap f64", lap_assignment))
    ),
]


def ours(program: str, row: Row, threads: int) -> Timed:
    if row.method == "assign":
        return our_assignment(program, row, threads)
    if row.name == "decode":
        return our_decode(program, row, threads)
    shape = "x".join(map(str, row.shape))
    words = [program, "bench", "--json", "--methods", row.method, "--shapes", shape]
    if row.name.startswith("gradients"):
        words.append("--gradients")
    if row.masked:
        words += ["--masked", row.masked]
    words += ["--repeat", "3", "--threads", str(threads), "--dtype", row.dtype]
    found = json.loads(subprocess.run(words, capture_output=True, check=True, text=True).stdout)
    ceilings = {r["name"]: r for r in found["rows"] if r["name"].endswith("-ceiling")}
    timed = next(r for r in found["rows"] if r["name"] not in ceilings)
    return Timed(
        timed["ns_per_pair"],
        timed["max_error"],
        timed["ceiling"] if "ceiling" in timed else ceilings.get("fma-ceiling", {}).get("gflops"),
        ceilings.get("read-ceiling", {}).get("gbytes"),
    )


def our_decode(program: str, row: Row, threads: int) -> Timed:
    """One query against a cache that is not packed."""
    words = [program, "bench", "--small", "--json", "--threads", str(threads)]
    found = json.loads(subprocess.run(words, capture_output=True, check=True, text=True).stdout)
    timed = next(r for r in found["rows"] if r["name"] == row.method)
    return Timed(timed["microseconds"] * 1e3 / row.shape[1], timed["max_error"], None, None)


def our_assignment(program: str, row: Row, threads: int) -> Timed:
    """The whole call with its plan and workspace; the error is the duality gap, relative."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "cost.npy")
        np.save(file, COSTS[row.name](row.shape))
        words = [program, "assign", str(file), "--json", "--threads", str(threads)]
        found = json.loads(subprocess.run(words, capture_output=True, check=True, text=True).stdout)
    pairs = row.shape[0] * row.shape[1]
    return Timed(found["seconds"] * 1e9 / pairs, abs(found["gap"] / found["value"]))


def against_before(program: str, before: str, rows: list[Row], repeat: int, threads: int) -> None:
    """Prints a line for each row that differs in more than its peer; the two programs take turns."""
    print(f"{'row':22} {'shape':13} {'now ns':>10} {'before ns':>10} {'ratio':>6} {'median':>7}", flush=True)
    once = {(row.name, row.method, row.shape, row.dtype, row.masked): row for row in rows}
    for row in once.values():
        shape = "x".join(map(str, row.shape))
        try:
            ours(before, row, threads)
        except subprocess.CalledProcessError as error:
            if error.returncode != USAGE:
                raise
            print(f"{row.name:22} {shape:13} the program before has no such row", flush=True)
            continue
        turns = [
            [ours(which, row, threads).nanoseconds for which in ((program, before), (before, program))[k % 2]]
            for k in range(repeat)
        ]
        pairs = [pair if k % 2 == 0 else pair[::-1] for k, pair in enumerate(turns)]
        now, then = (min(side) for side in zip(*pairs, strict=True))
        median = statistics.median(b / a for a, b in pairs)
        print(
            f"{row.name:22} {shape:13} {now:10.3f} {then:10.3f} {then / now:5.2f}x {median:6.2f}x", flush=True
        )


def machine() -> str:
    """Model and number of processors, as far as the system says."""
    found = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                found = line.split(":", 1)[1].strip()
                break
    return f"{found}, {os.cpu_count()} processors"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--csv")
    parser.add_argument("--only", default="")
    parser.add_argument("--up-to", type=int, default=1 << 30, metavar="N")
    parser.add_argument("--before", metavar="PROGRAM")
    options = parser.parse_args()
    wanted = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(options.threads))
    # The libraries read these when they are loaded, which NumPy's is already.
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted})
    rows = [row for row in ROWS if options.only in row.name and max(row.shape) <= options.up_to]
    if options.before:
        against_before(options.program, options.before, rows, options.repeat, options.threads)
        return 0
    import torch

    torch.set_num_threads(options.threads)
    table = []
    box = machine()
    print(box, flush=True)
    head = f"{'row':22} {'shape':13} {'otattn ns':>10} {'peer ns':>9} {'ratio':>6}  {'error':>7}  peer"
    print(head, flush=True)
    for row in rows:
        call = row.prepare(row.shape)
        timed: list[Timed] = []

        def our_turn(row: Row = row, timed: list[Timed] = timed) -> float:
            timed.append(ours(options.program, row, options.threads))
            return timed[-1].nanoseconds

        def their_turn(row: Row = row, call: Callable[[], object] = call) -> float:
            return 1e9 * fastest(call, limit=LONG) / (row.shape[0] * row.shape[1])

        other, mine = in_turns([their_turn, our_turn], options.repeat)
        last = timed[-1]
        shape = "x".join(map(str, row.shape))
        print(
            f"{row.name:22} {shape:13} {mine:10.3f} {other:9.3f} {other / mine:5.2f}x"
            f"  {last.error:7.1e}  {row.peer}",
            flush=True,
        )
        table.append(
            [row.name, shape, mine, other, other / mine, last.error, row.peer, last.fma, last.read, box]
        )
    head = "row shape otattn_ns peer_ns ratio max_error peer fma_gflops read_gbytes machine"
    write_csv(options.csv, head.split(), table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
