"""Forward and backward through torch's autograd, otattn and its peers in turns: f32, width 64, one thread.

    python bench/python_autograd.py [--sizes 64,256,512,1024,2048] [--turns N] [--only WORD]
                                    [--processor-time]

Prints a Markdown table: nanoseconds a pair, the fastest of some turns, their ratio, and the largest error of
otattn's output and gradients, on the tensors that were timed, against the same recipe in f64, as a share of
the largest number there. With --processor-time what the process spends counts, for a machine that others
keep busy.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import otattn
import torch
from timing import entmax_by_torch, fastest, in_turns, sinkhorn_by_torch, softmax_by_torch
from torch import Tensor

WIDTH = 64
LONG = 0.1  # seconds: a call that takes more is the only one of its turn
Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


# Method, name of the peer, the peer.
ROWS: list[tuple[str, str, Attention]] = [
    ("softmax", "torch SDPA", softmax_by_torch),
    ("ceta{rounds=2}", "5 half-steps in torch", sinkhorn_by_torch(5)),
    ("entmax:1.5", "torch + entmax15", entmax_by_torch),
]


def both_ways(attention: Attention, leaves: list[Tensor], upstream: Tensor) -> list[Tensor]:
    out = attention(*leaves)
    return [out.detach(), *torch.autograd.grad(out, leaves, upstream)]


def row(method: str, name: str, peer: Attention, n: int, turns: int, clock: Callable[[], float]) -> str:
    heads = max(1, 1024 // n)
    generator = torch.Generator().manual_seed(n)
    made = [torch.randn(1, heads, n, WIDTH, generator=generator) for _ in range(4)]
    leaves, upstream = [x.requires_grad_() for x in made[:3]], made[3]

    def ours(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return otattn.attention(q, k, v, method=method)

    wide = [x.detach().double().requires_grad_() for x in leaves]
    exact = both_ways(peer, wide, upstream.double())
    found = both_ways(ours, leaves, upstream)
    error = max(((x - y).abs().max() / y.abs().max()).item() for x, y in zip(found, exact, strict=True))
    sides = [
        lambda f=f: fastest(lambda: both_ways(f, leaves, upstream), limit=LONG, clock=clock)
        for f in (ours, peer)
    ]
    mine, theirs = in_turns(sides, turns)
    pairs = heads * n * n / 1e9
    return (
        f"| `{method}` | {heads} of {n} | {mine / pairs:.2f} | {theirs / pairs:.2f}, {name} "
        f"| {theirs / mine:.2f} | {error:.1e} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="64,256,512,1024,2048")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", default="", metavar="WORD", help="methods that contain it")
    parser.add_argument("--processor-time", action="store_true")
    options = parser.parse_args()
    clock = time.process_time if options.processor_time else time.perf_counter
    torch.set_num_threads(1)
    otattn.set_num_threads(1)
    print("| method | heads | otattn, ns a pair | peer | ratio | largest error |\n|---|---|---|---|---|---|")
    for method, name, peer in ROWS:
        for n in map(int, options.sizes.split(",")):
            if options.only in method:
                print(row(method, name, peer, n, options.turns, clock), flush=True)


if __name__ == "__main__":
    main()
