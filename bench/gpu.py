"""Attention on a GPU beside its peers, in turns: `./dev bench --gpu`, or

    python bench/gpu.py [--device cuda] [--sizes 1024,4096,16384] [--turns 5] [--long] [--csv FILE]

Rows: exact columns at 5 half-steps beside the recipe that people write in torch (Sinkformers'), point
clouds beside flash-sinkhorn, entmax:1.5 beside adasplash, softmax beside torch's SDPA; forward, and
forward with backward. Each has the fastest of some turns, their ratio, the largest error of ours on the
buffers that were timed, as a share of the largest number there and against the recipe in f64 at the
smallest size, and the most memory of each side. A last line says what share of the device's rate of
matrix products a round has. `--long`: 1,048,576 tokens, too.

A peer that is not installed, or does not run on the device, has a row that says so. Without a GPU all
this runs on the CPU, which shows that it runs and nothing else.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import otattn
import torch
from timing import in_turns, sinkhorn_by_torch, softmax_by_torch, write_csv
from torch import Tensor

HEADS, WIDTH, ROUNDS, POINTS = 16, 64, 2, 3
LONG = 1 << 20
HEAD = ("row", "tokens", "type", "ours ms", "theirs ms", "theirs / ours", "error", "ours MiB", "theirs MiB")


class Row(NamedTuple):
    """Two calls on the same tensors, and what both are to find in f64."""

    name: str
    ours: Callable[..., Tensor]
    theirs: Callable[..., Tensor]
    exact: Callable[..., Tensor]
    type: torch.dtype
    backward: bool


def ours_by(method: str, **options: Any) -> Callable[..., Tensor]:
    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return otattn.attention(q, k, v, method=method, backend="torch", **options)

    return call


def entmax_by_adasplash(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    from adasplash import adasplash_no_block_mask

    found: Tensor = adasplash_no_block_mask(q, k, v, alpha=1.5)
    return found


def entmax_exactly(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return otattn.attention(q.cpu(), k.cpu(), v.cpu(), method="entmax:1.5").to(q.device)


def points_by_otattn(x: Tensor, y: Tensor, rounds: int, eps: float) -> Tensor:
    """Means of the potentials of two clouds by squared distances: scores 2 x.y, a start of -|y|^2."""
    n, m = x.shape[2], y.shape[2]
    mass = torch.full((n,), 1.0 / n, device=x.device)
    start = -y.square().sum(3)
    _, aux = otattn.attention(
        x, y, y, method="softmax/exact", scale=2.0, temperature=eps, row_mass=mass, rounds=rounds,
        start_potential=start, backend="torch", return_aux="potentials",
        column_mass=torch.full((m,), 1.0 / m, device=x.device),
    )  # fmt: skip
    f, g = aux.potentials
    return (f + x.square().sum(3)).mean() + (g + y.square().sum(3)).mean()


def points_by_flash_sinkhorn(x: Tensor, y: Tensor, rounds: int, eps: float) -> Tensor:
    from flash_sinkhorn.sinkhorn_solvers import sinkhorn_flashstyle_alternating

    n, m = x.shape[2], y.shape[2]
    masses = torch.full((n,), 1.0 / n, device=x.device), torch.full((m,), 1.0 / m, device=x.device)
    f, g = sinkhorn_flashstyle_alternating(
        x[0, 0], y[0, 0], *masses, eps=eps, n_iters=rounds, ott_convention=True, allow_tf32=False
    )
    return f.mean() + g.mean()


def rows_of(type_: torch.dtype) -> list[Row]:
    recipe = sinkhorn_by_torch(2 * ROUNDS + 1)
    exact = ours_by("softmax/exact", rounds=ROUNDS)
    found = []
    for backward in (False, True):
        more = " and backward" if backward else ""
        found += [
            Row(f"exact columns, 5 half-steps{more}", exact, recipe, recipe, type_, backward),
            Row(f"softmax{more}", ours_by("softmax"), softmax_by_torch, softmax_by_torch, type_, backward),
            Row(
                f"entmax:1.5{more}",
                ours_by("entmax:1.5"),
                entmax_by_adasplash,
                entmax_exactly,
                type_,
                backward,
            ),
        ]
    return found


# ---- timing ----------------------------------------------------------------------------------------


class Clock:
    """Seconds of calls on a device, and the memory that they take."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.module: Any = getattr(torch, device.type, None)
        self.waits = device.type != "cpu" and hasattr(self.module, "synchronize")

    def wait(self) -> None:
        if self.waits:
            self.module.synchronize()

    def fastest(self, call: Callable[[], object], calls: int = 3) -> float:
        call()
        times = []
        for _ in range(calls):
            self.wait()
            begin = time.perf_counter()
            call()
            self.wait()
            times.append(time.perf_counter() - begin)
        return min(times)

    def mebibytes(self, call: Callable[[], object]) -> float | None:
        if not hasattr(self.module, "reset_peak_memory_stats"):
            return None
        self.module.reset_peak_memory_stats()
        before = self.module.memory_allocated()
        call()
        self.wait()
        return float(self.module.max_memory_allocated() - before) / 2**20


def results(call: Callable[..., Tensor], leaves: Sequence[Tensor], backward: bool) -> list[Tensor]:
    if not backward:
        with torch.no_grad():
            return [call(*leaves)]
    leaves = [x.detach().requires_grad_() for x in leaves]
    out = call(*leaves)
    return [out.detach(), *torch.autograd.grad(out.float().square().sum(), leaves)]


def error_of(row: Row, leaves: Sequence[Tensor]) -> float:
    wide = results(row.exact, [x.double() for x in leaves], row.backward)
    found = results(row.ours, leaves, row.backward)
    return max(float((x.double() - y).abs().max() / y.abs().max()) for x, y in zip(found, wide, strict=True))


def measure(row: Row, n: int, clock: Clock, turns: int, judged: bool) -> tuple[Any, ...]:
    torch.manual_seed(n)
    leaves = [torch.randn(1, HEADS, n, WIDTH, device=clock.device).to(row.type) for _ in range(3)]
    calls = [lambda f=f: results(f, leaves, row.backward) for f in (row.ours, row.theirs)]
    memory = [clock.mebibytes(call) for call in calls]
    mine, theirs = in_turns([lambda c=c: clock.fastest(c) for c in calls], turns)
    error = f"{error_of(row, leaves):.1e}" if judged else ""
    name = str(row.type).removeprefix("torch.")
    return (row.name, n, name, 1e3 * mine, 1e3 * theirs, theirs / mine, error, *memory)


def measure_points(n: int, clock: Clock, turns: int) -> tuple[Any, ...]:
    torch.manual_seed(n)
    x, y = (torch.rand(1, 1, n, POINTS, device=clock.device) for _ in range(2))
    sides = (points_by_otattn, points_by_flash_sinkhorn)
    calls = [lambda f=f: f(x, y, 10, 0.1) for f in sides]
    values = [float(call()) for call in calls]
    mine, theirs = in_turns([lambda c=c: clock.fastest(c) for c in calls], turns)
    memory = [clock.mebibytes(call) for call in calls]
    error = f"{abs(values[0] - values[1]) / abs(values[1]):.1e}"
    return ("point clouds, 10 rounds", n, "float32", 1e3 * mine, 1e3 * theirs, theirs / mine, error, *memory)


def share_of_rate(n: int, clock: Clock, type_: torch.dtype) -> str:
    """A round is two passes of 2 n n d flops a head; the rate is that of one product of large matrices."""
    size = 8192 if clock.waits else 512
    a = torch.randn(size, size, device=clock.device).to(type_)
    rate = 2.0 * size**3 / clock.fastest(lambda: a @ a)
    x = torch.randn(1, HEADS, n, WIDTH, device=clock.device).to(type_)
    many, few = (ours_by("softmax/exact", rounds=k) for k in (12, 2))
    spent = (clock.fastest(lambda: many(x, x, x)) - clock.fastest(lambda: few(x, x, x))) / 10
    flops = 4.0 * HEADS * n * n * WIDTH
    return f"a round of {n} tokens, {type_}: {flops / spent / rate:.2f} of {rate / 1e12:.2f} Tflop/s"


def shown(values: Sequence[Any]) -> str:
    return " | ".join("-" if x is None else f"{x:.3g}" if isinstance(x, float) else str(x) for x in values)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = [
        x for x in ("cuda", "xpu", "mps") if getattr(torch, x, None) and getattr(torch, x).is_available()
    ]
    parser.add_argument("--device", default=(kinds or ["cpu"])[0])
    parser.add_argument("--sizes", default="1024,4096")
    parser.add_argument("--types", default="bfloat16,float32")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--long", action="store_true", help="exact columns of 1,048,576 tokens, too")
    parser.add_argument("--csv")
    chosen = parser.parse_args()
    clock = Clock(torch.device(chosen.device))
    sizes = [int(x) for x in chosen.sizes.split(",")]
    table: list[tuple[Any, ...]] = []
    print("| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD), flush=True)

    def add(name: str, n: int, make: Callable[[], tuple[Any, ...]]) -> None:
        try:
            table.append(make())
        except (ImportError, NotImplementedError, RuntimeError, ValueError, MemoryError) as error:
            table.append(
                (name, n, f"not measured: {type(error).__name__}: {str(error).splitlines()[0][:120]}")
            )
        print(f"| {shown(table[-1])} |", flush=True)

    for type_ in (getattr(torch, x) for x in chosen.types.split(",")):
        for row in rows_of(type_):
            for n in sizes:
                add(row.name, n, lambda r=row, n=n: measure(r, n, clock, chosen.turns, n == sizes[0]))
    for n in sizes:
        add("point clouds, 10 rounds", n, lambda n=n: measure_points(n, clock, chosen.turns))
    if chosen.long:
        x = torch.randn(1, 1, LONG, WIDTH, device=clock.device).to(torch.bfloat16)
        call = ours_by("softmax/exact", rounds=ROUNDS)
        seconds, memory = clock.fastest(lambda: call(x, x, x), 1), clock.mebibytes(lambda: call(x, x, x))
        table.append(
            (
                "exact columns, 5 half-steps, one head",
                LONG,
                "bfloat16",
                1e3 * seconds,
                None,
                None,
                "",
                memory,
                None,
            )
        )
        print(f"| {shown(table[-1])} |", flush=True)
    print(share_of_rate(sizes[-1], clock, getattr(torch, chosen.types.split(",")[0])))
    device = torch.cuda.get_device_name() if clock.device.type == "cuda" else clock.device
    print(f"torch {torch.__version__}, {device}")
    write_csv(chosen.csv, HEAD, table)


if __name__ == "__main__":
    main()
