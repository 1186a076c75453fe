"""One rank of ranks_simulator.py: what the operator does between messages, and how long messages take.

    ranks_log.py RANK RANKS STORE TURNS CASES    a rank of a gloo group; rank 0 writes JSON to standard output
    ranks_log.py --alone RANKS TURNS CASES       a phantom of one rank of RANKS

A phantom is one rank alone, whose communicator answers as if all ranks held what it holds: a sum is its own
times the number of ranks, a gather its own share over and over. So the operator runs as among many, at any
number of ranks, and its log has the seconds of work between any two messages, without waiting.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from otattn import _structs as c
from otattn._library import library

WIDTH, SEED = 32, 3
# Bytes of the messages that are timed, and how many one after another.
SIZES, CHAIN = [64, 32768, 262144], 8
# Bytes of the array that is read for the memory's bandwidth.
READ = 1 << 28
REDUCE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_int
)
GATHER = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 5)
CLOCK = time.perf_counter


def array(x: np.ndarray) -> c.Array:
    one = ctypes.c_int64 * 4
    strides = [step // x.itemsize for step in x.strides]
    return c.Array(x.ctypes.data, c.F32, one(*x.shape), one(*strides))


class Log:
    """Seconds of work before every message of a call, and behind the last; bytes and kind of the messages."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []
        self.work: list[float] = []
        self.since = 0.0

    def begin(self) -> None:
        self.events, self.work, self.since = [], [], CLOCK()

    def message(self, kind: str, size: int, answer: Callable[[], None]) -> int:
        self.work.append(CLOCK() - self.since)
        self.events.append((kind, size))
        answer()
        self.since = CLOCK()
        return 0

    def end(self) -> None:
        self.work.append(CLOCK() - self.since)


def phantom(ranks: int, log: Log, meet: Callable[[], object] = lambda: None) -> c.Communicator:
    """`meet`: what to do, off the clock, at every message."""

    def all_reduce(_user: Any, values: int, count: int, kind: int, reduction: int) -> int:
        width = 8 if kind == c.F64 else 4
        number = ctypes.c_double if width == 8 else ctypes.c_float

        def answer() -> None:
            meet()
            if reduction == c.REDUCE_SUM and count > 0:
                here = np.ctypeslib.as_array((number * count).from_address(values))
                here *= ranks

        return log.message("reduce", count * width, answer)

    def all_gather(_user: Any, mine: int, whole: int, counts: int, offsets: int) -> int:
        sizes = (ctypes.c_int64 * ranks).from_address(counts)
        places = (ctypes.c_int64 * ranks).from_address(offsets)

        def answer() -> None:
            meet()
            for size, place in zip(sizes, places, strict=True):
                ctypes.memmove(whole + place, mine, size)

        return log.message("gather", sizes[0], answer)

    calls = (REDUCE(all_reduce), GATHER(all_gather))
    addresses = [ctypes.cast(call, ctypes.c_void_p) for call in calls]
    found = c.Communicator(ctypes.sizeof(c.Communicator), 0, ranks, c.SHARES_IN_ORDER, *addresses)
    found.calls = calls
    return found


class Plan:
    """A plan of a rank's share of `tokens` queries and keys, f32; `limit`: bytes of workspace, 0 for any."""

    def __init__(self, method: str, tokens: int, ranks: int, link: c.Communicator, limit: int) -> None:
        draw = np.random.default_rng(SEED)
        rows = tokens // ranks
        # All ranks hold the same, so that the phantom's problem is theirs.
        self.kept = [draw.standard_normal((1, 1, rows, WIDTH)).astype(np.float32) for _ in range(3)]
        self.kept.append(np.zeros_like(self.kept[0]))
        self.error, self.plan, self.link = c.Error(), ctypes.c_void_p(), link
        problem, options = c.Problem(ctypes.sizeof(c.Problem)), c.Options(ctypes.sizeof(c.Options))
        problem.queries, problem.keys = array(self.kept[0]), array(self.kept[1])
        options.threads, options.communicator = 1, ctypes.addressof(link)
        options.workspace_limit = limit
        self.checked(library.ota_method_parse, method.encode(), problem, options, self.error)
        self.checked(library.ota_plan_create, self.plan, problem, WIDTH, options, self.error)
        self.arrays = c.Arrays(ctypes.sizeof(c.Arrays))
        self.arrays.values, self.arrays.out = array(self.kept[2]), array(self.kept[3])
        self.result = c.Result(ctypes.sizeof(c.Result))

    def checked(self, call: Any, *arguments: Any) -> None:
        given = [x if isinstance(x, bytes | int) else ctypes.byref(x) for x in arguments]
        if call(*given) < 0:
            sys.exit(self.error.message.decode())

    def forward(self) -> None:
        status = library.ota_forward(
            self.plan, ctypes.byref(self.arrays), ctypes.byref(self.result), ctypes.byref(self.error)
        )
        if status < 0:
            sys.exit(self.error.message.decode())


def least(old: list[float] | None, new: list[float]) -> list[float]:
    return new if old is None else [min(pair) for pair in zip(old, new, strict=True)]


def alone(ranks: int, turns: int, cases: list[Any]) -> list[dict[str, Any]]:
    """The logs of phantoms, with the least seconds of all turns."""
    found = []
    for method, tokens, limit in cases:
        log = Log()
        plan = Plan(method, tokens, ranks, phantom(ranks, log), limit)
        work = None
        for _ in range(turns + 1):
            log.begin()
            plan.forward()
            log.end()
            work = least(work, log.work)
        found.append({"events": log.events, "work": work})
    return found


def chains(link: Any) -> dict[str, list[float]]:
    """Seconds of CHAIN messages of each size, one after another ("reduce", "gather") or each after some work
    ("work, reduce" ...), and of that work alone ("work").

    What a message costs depends on what the processor did before: a rank that worked has cold caches, and the
    others come a little later or earlier.
    """
    import torch.distributed as dist

    values, memory = np.zeros(max(SIZES) // 8), np.zeros(1 << 21)
    whole = np.zeros(max(SIZES) * link.ranks, dtype=np.uint8)
    counts, offsets = np.zeros((2, link.ranks), dtype=np.int64)
    of, into, pieces, places = (x.ctypes.data for x in (values, whole, counts, offsets))

    def timed(working: bool, message: Callable[[], object]) -> float:
        dist.barrier()
        begun = CLOCK()
        for _ in range(CHAIN):
            if working:
                np.add(memory, 1.0, out=memory)
            message()
        return CLOCK() - begun

    found: dict[str, list[float]] = {"work": [timed(True, lambda: None)]}
    for size in SIZES:
        counts[:] = size
        offsets[:] = size * np.arange(link.ranks)
        messages: dict[str, Callable[[], object]] = {
            "reduce": lambda n=size // 8: link.calls[0](None, of, n, c.F64, c.REDUCE_SUM),
            "gather": lambda: link.calls[1](None, of, into, pieces, places),
        }
        for kind, message in messages.items():
            found.setdefault(kind, []).append(timed(False, message))
            found.setdefault(f"work, {kind}", []).append(timed(True, message))
    return found


def reading(memory: Any) -> float:
    """Seconds to read `memory` once."""
    begun = CLOCK()
    memory.max()
    return CLOCK() - begun


def together(rank: int, ranks: int, store: str, turns: int, cases: list[Any]) -> None:
    """Turns of: rank 0's work while the others wait; the work of all, each alone but at the same time; the
    call among all; messages; reading a long array, rank 0 alone and all at once.
    """
    import torch
    import torch.distributed as dist
    from otattn._ranks import link_of

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    # As torchrun does.
    torch.set_num_threads(1)
    link = link_of(None, "in_order", "gathered")
    found: list[dict[str, Any]] = []
    times: dict[str, list[float]] = {}
    # Written once: all pages of zeros that nobody wrote are one page.
    memory, reads = np.ones(READ // 4, dtype=np.float32), [1e9, 1e9]
    for method, tokens, limit in cases:
        log, lone = Log(), Log()
        # Ranks that have a processor each work at the same time, and share the memory, as among all.
        meet = dist.barrier if ranks <= len(os.sched_getaffinity(0)) else lambda: None
        ghost = Plan(method, tokens, ranks, phantom(ranks, log, meet), limit)
        single = Plan(method, tokens, ranks, phantom(ranks, lone), limit)
        real = Plan(method, tokens, ranks, link.struct, limit)
        work, lone_work, best, lone_best, busy = None, None, 1e9, 1e9, 1e9
        for turn in range(turns + 1):
            dist.barrier()
            if rank == 0:
                lone.begin()
                begun = CLOCK()
                single.forward()
                lone_best = min(lone_best, CLOCK() - begun)
                lone.end()
                lone_work = least(lone_work, lone.work)
                reads[0] = min(reads[0], reading(memory))
            dist.barrier()
            reads[1] = min(reads[1], reading(memory))
            dist.barrier()
            log.begin()
            ghost.forward()
            log.end()
            dist.barrier()
            begun, spent = CLOCK(), time.process_time()
            real.forward()
            if turn > 0:
                best, busy = min(best, CLOCK() - begun), min(busy, time.process_time() - spent)
            work = least(work, log.work)
            dist.barrier()
            for kind, seconds in chains(link).items():
                times[kind] = least(times.get(kind), seconds)
        assert work is not None
        all_works: list[Any] = [None] * ranks
        dist.all_gather_object(all_works, work)
        slowest = [max(pieces) for pieces in zip(*all_works, strict=True)]
        bytes_held = int(library.ota_plan_bytes(real.plan))
        found.append(
            {
                "events": log.events,
                "work": slowest,
                "alone": lone_work,
                "alone_seconds": lone_best,
                "seconds": best,
                "busy": busy,
                "bytes": bytes_held,
            }
        )
    if rank == 0:
        json.dump(
            {"cases": found, "sizes": SIZES, "chain": CHAIN, "times": times, "reads": reads}, sys.stdout
        )
    dist.destroy_process_group()


def main() -> None:
    words = sys.argv[1:]
    if words[0] == "--alone":
        json.dump(alone(int(words[1]), int(words[2]), json.loads(words[3])), sys.stdout)
    else:
        together(int(words[0]), int(words[1]), words[2], int(words[3]), json.loads(words[4]))


if __name__ == "__main__":
    main()
