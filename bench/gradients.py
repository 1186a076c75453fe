"""Gradients of sparse plans by what is asked for: ns a pair of the backward pass, one thread.

    python bench/gradients.py [--before FOLDER/libotattn.so] [--sizes 512,2048] [--only WORD,...]

Processor time, the least of some turns. Queries, keys, values and dL/dout of one head are drawn from N(0, 1),
f32, width 64. Every row asks for the gradients of queries, keys and values and for what it is named after.
With --before another build of the library is called in turns with this one, and the last column is the
largest difference of any gradient, or of the output, over the largest entry of all.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from otattn import _structs as c
from timing import in_turns

WIDTH = 64
METHODS = ("entmax:1.5/exact", "sparsemax/exact", "entmax:1.5/capped:1.2")
Floats = Any


def array(x: Floats) -> c.Array:
    """A contiguous array of at most four dimensions, as C sees it."""
    size = (1,) * (4 - x.ndim) + x.shape
    stride = [math.prod(size[k + 1 :]) for k in range(4)]
    kind = {np.dtype(np.float64): c.F64, np.dtype(np.float32): c.F32}[x.dtype]
    return c.Array(x.ctypes.data, kind, (ctypes.c_int64 * 4)(*size), (ctypes.c_int64 * 4)(*stride))


@dataclass
class Wanted:
    """What a row adds to the problem and asks for; it keeps the memory that C borrows."""

    problem: c.Problem
    gradients: c.Gradients
    kept: list[Any] = field(default_factory=list)
    found: list[Floats] = field(default_factory=list)

    def take(self, *shape: int, kind: Any = np.float32) -> c.Array:
        self.found.append(np.zeros(shape, kind))
        return array(self.found[-1])

    def term(self, kind: int, values: Floats | None = None, value: float = 0.0) -> None:
        """One term, and its gradient."""
        terms = (c.Term * 1)(c.Term(kind, c.Array() if values is None else array(values), value))
        wanted = (c.Array * 1)(self.take(*((1,) if values is None else values.shape)))
        self.kept += [terms, wanted, values]
        self.problem.terms, self.problem.term_count = ctypes.addressof(terms), 1
        self.gradients.terms = ctypes.addressof(wanted)


def drop(w: Wanted, n: int) -> None:
    w.problem.dropout, w.problem.dropout_seed = 0.1, 1


def by_plan(w: Wanted, n: int) -> None:
    w.kept.append(np.random.default_rng(2).standard_normal((n, n)).astype(np.float32))
    w.gradients.coupling_grad = array(w.kept[-1])


def sink(w: Wanted, n: int) -> None:
    """A tenth of the mass goes to the sink where columns take the rest."""
    w.term(c.TERM_SINK, value=-3.0)
    if w.problem.columns == c.COLUMNS_EXACT:
        w.kept.append(np.full((1, n), 0.9))
        w.problem.column_mass = array(w.kept[-1])


def field_of(name: str, *shape: str) -> Callable[[Wanted, int], None]:
    def ask(w: Wanted, n: int) -> None:
        setattr(w.gradients, name, w.take(*(n if size == "n" else 1 for size in shape)))

    return ask


def normal(n: int, *shape: int) -> Floats:
    return np.random.default_rng(n).standard_normal(shape).astype(np.float32)


ROWS: dict[str, Callable[[Wanted, int], None]] = {
    "inputs": lambda w, n: None,
    "temperature": field_of("temperature", "1"),
    "bias": lambda w, n: w.term(c.TERM_DENSE, normal(n, n, n)),
    "key bias": lambda w, n: w.term(c.TERM_DENSE, normal(n, 1, n)),
    "alibi": lambda w, n: w.term(c.TERM_ALIBI, value=0.01),
    "relative": lambda w, n: w.term(c.TERM_RELATIVE, normal(n, 2 * n - 1)),
    "softcap": lambda w, n: w.term(c.TERM_SOFTCAP, value=20.0),
    "dropout": drop,
    "sink": sink,
    "order": field_of("order", "1"),
    "scores": field_of("scores", "n", "n"),
    "plan": by_plan,
}


class Library:
    """A build of the library; several can be loaded."""

    def __init__(self, path: str) -> None:
        self.calls = ctypes.CDLL(path)

    def must(self, name: str, *args: Any) -> None:
        error = c.Error()
        status = getattr(self.calls, name)(*args, ctypes.byref(error))
        if status < 0:
            raise RuntimeError(f"{name}: {error.message.decode()}")


class Case:
    """One head, its plan by a library, and room for its gradients."""

    def __init__(self, library: Library, method: str, row: str, n: int) -> None:
        rng = np.random.default_rng(0)
        q, k, v, out_grad = (rng.standard_normal((n, WIDTH)).astype(np.float32) for _ in range(4))
        out, lse = np.zeros((n, WIDTH), np.float32), np.zeros(n)
        potentials = np.zeros((2, n))
        problem, options = c.Problem(), c.Options()
        problem.size, options.size = ctypes.sizeof(problem), ctypes.sizeof(options)
        library.must("ota_method_parse", method.encode(), ctypes.byref(problem), ctypes.byref(options))
        problem.queries, problem.keys = array(q), array(k)
        options.threads, options.gradients = 1, 1
        gradients = c.Gradients(size=ctypes.sizeof(c.Gradients), out_grad=array(out_grad), solved=1)
        self.wanted = Wanted(problem, gradients, [q, k, v, out_grad, out, lse, potentials])
        gradients.queries, gradients.keys, gradients.values = (self.wanted.take(n, WIDTH) for _ in range(3))
        self.wanted.found.append(out)
        ROWS[row](self.wanted, n)
        self.arrays = c.Arrays(size=ctypes.sizeof(c.Arrays), values=array(v), out=array(out))
        self.arrays.row_potential, self.arrays.column_potential = map(array, potentials)
        self.arrays.lse = array(lse)
        self.library, self.plan, self.pairs = library, ctypes.c_void_p(), n * n
        library.must(
            "ota_plan_create", ctypes.byref(self.plan), ctypes.byref(problem), ctypes.c_int64(WIDTH),
            ctypes.byref(options),
        )  # fmt: skip
        library.must("ota_forward", self.plan, ctypes.byref(self.arrays), None)

    def time(self, forward: bool) -> float:
        """ns a pair of one call."""
        wanted = () if forward else (ctypes.byref(self.wanted.gradients),)
        name = "ota_forward" if forward else "ota_backward"
        begin = time.process_time_ns()
        self.library.must(name, self.plan, ctypes.byref(self.arrays), *wanted, None)
        return (time.process_time_ns() - begin) / self.pairs

    def close(self) -> None:
        self.library.calls.ota_plan_free(self.plan)


def apart(found: Sequence[Floats], before: Sequence[Floats]) -> float:
    largest = max(float(np.abs(y).max()) for y in before)
    return max(float(np.abs(x - y).max()) for x, y in zip(found, before, strict=True)) / largest


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--library", default="build/libotattn.so")
    parser.add_argument("--before", help="an older build of the library")
    parser.add_argument("--sizes", default="512,2048", help="queries and keys (512,2048)")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--only", default=",".join(ROWS), help=f"of {', '.join(ROWS)}")
    parser.add_argument("--repeat", type=int, default=5, help="turns, of which the least counts (5)")
    parser.add_argument("--forward", action="store_true", help="time the forward pass")
    options = parser.parse_args()
    sides = [Library(path) for path in (options.before, options.library) if path]
    heads = ("before", "now", "apart") if len(sides) == 2 else ("now",)
    print(f"{'method':24}{'gradient of':14}{'n':>6}" + "".join(f"{head:>10}" for head in heads))
    for method in re.split(r",(?![^{]*})", options.methods):
        for row in options.only.split(","):
            for n in map(int, options.sizes.split(",")):
                cases = [Case(side, method, row, n) for side in sides]
                calls = [partial(case.time, options.forward) for case in cases]
                for call in calls:
                    call()
                least = in_turns(calls, options.repeat)
                line = f"{method:24}{row:14}{n:6}" + "".join(f"{ns:10.2f}" for ns in least)
                if len(cases) == 2:
                    line += f"{apart(cases[1].wanted.found, cases[0].wanted.found):10.1e}"
                print(line, flush=True)
                for case in cases:
                    case.close()


if __name__ == "__main__":
    main()
