"""What calls of many ranks are made of: the library's communicator over a process group of
`torch.distributed`, or over some of its ranks, and a solve whose rows they share, with its gradients.

`distributed` has the calls themselves.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from . import _native
from . import _structs as c
from ._attention import prepare
from ._call import WHOLE, run_kept, solve_of, wants_of
from ._errors import raise_status
from ._gradients import Solved, gradients_on
from ._handle import Handle
from ._job import Job
from ._settings import DIFFERENTIABLE, OPERANDS, PLACES
from ._spec import Spec
from ._template import is_implicit
from ._torch import _back
from ._torch_derivative import no_second
from ._torch_fold import TORCH, TYPES, folded_of, operand_of, operands_of, seed_of, under_autocast

_REDUCE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_int
)
_GATHER = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)
_PASS_ON = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_int64,
)
_KEYS = {"auto": c.KEYS_AUTO, "gathered": c.KEYS_GATHERED, "in_ring": c.KEYS_IN_RING}
SHARES = {"in_order": c.SHARES_IN_ORDER, "zigzag": c.SHARES_ZIGZAG}


def _memory(address: int, count: int, dtype: torch.dtype) -> Tensor:
    """A tensor over memory of the library, which outlives the call."""
    if count == 0:
        return torch.empty(0, dtype=dtype)
    size = count * torch.empty(0, dtype=dtype).element_size()
    return torch.frombuffer((ctypes.c_char * size).from_address(address), dtype=dtype)


def check_group(group: Any) -> None:
    """What stands for a process that is in no group has its own sentence."""
    if group is None or isinstance(group, dist.ProcessGroup) or group is dist.GroupMember.NON_GROUP_MEMBER:
        return
    raise TypeError(f"group is a {type(group).__name__}, wanted a ProcessGroup or None")


def check_tensors(query: Any, key: Any, value: Any) -> None:
    for name, x in (("query", query), ("key", key), ("value", value)):
        if not isinstance(x, Tensor):
            raise TypeError(f"{name} is a {type(x).__name__}, wanted a tensor")


def check_shares(shares: Any) -> None:
    if not isinstance(shares, str) or shares not in SHARES:
        raise ValueError(f"shares is {shares!r}, wanted 'in_order' or 'zigzag'")


def check_keys(keys: Any) -> None:
    if not isinstance(keys, str) or keys not in _KEYS:
        raise ValueError(f"keys is {keys!r}, wanted 'auto', 'gathered' or 'in_ring'")


class Link:
    """The struct ota_communicator over a process group, and the exception that a call of it met."""

    def __init__(
        self,
        group: dist.ProcessGroup | None,
        shares: str,
        keys: str,
        first_pieces: tuple[int, int] | None = None,
    ) -> None:
        check_shares(shares)
        check_keys(keys)
        self.group, self.shares = group, shares
        self.rank, self.ranks = self._place()
        if self.rank < 0:
            raise ValueError("group: this process is not in it")
        cuda = dist.get_backend(group) == "nccl"
        self.device = torch.device("cuda", torch.cuda.current_device()) if cuda else torch.device("cpu")
        self.failure: BaseException | None = None
        self.calls = (
            _REDUCE(self._guarded(self._reduce)),
            _GATHER(self._guarded(self._gather)),
            _PASS_ON(self._guarded(self._send_receive)),
        )
        # Of this rank's queries and keys, where zigzag shares are not cut into halves.
        self.first_pieces = None if first_pieces is None else (ctypes.c_int64 * 2)(*first_pieces)
        reduce, gather, pass_on = (ctypes.cast(call, ctypes.c_void_p) for call in self.calls)
        self.struct = c.Communicator(
            ctypes.sizeof(c.Communicator),
            self.rank,
            self.ranks,
            SHARES[shares],
            reduce,
            gather,
            None,
            pass_on,
            _KEYS[keys],
            None if self.first_pieces is None else ctypes.addressof(self.first_pieces),
        )

    def _place(self) -> tuple[int, int]:
        return dist.get_rank(self.group), dist.get_world_size(self.group)

    def _guarded(self, call: Callable[..., None]) -> Callable[..., int]:
        def guarded(_user: Any, *arguments: Any) -> int:
            try:
                call(*arguments)
            except BaseException as failure:
                self.failure = failure
                return 1
            return 0

        return guarded

    def _reduce(self, values: int, count: int, kind: int, reduction: int) -> None:
        here = _memory(values, count, torch.float64 if kind == c.F64 else torch.float32)
        there = here.to(self.device)
        operation = dist.ReduceOp.SUM if reduction == c.REDUCE_SUM else dist.ReduceOp.MAX
        dist.all_reduce(there, op=operation, group=self.group)
        if there is not here:
            here.copy_(there)

    def _gather(self, mine: int, whole: int, counts: int, offsets: int) -> None:
        sizes = _memory(counts, self.ranks, torch.int64).tolist()
        places = _memory(offsets, self.ranks, torch.int64).tolist()
        most = max(sizes)
        # Engines gather equal pieces.
        padded = torch.zeros(most, dtype=torch.uint8)
        ctypes.memmove(padded.data_ptr(), mine, sizes[self.rank])
        pieces = [torch.empty(most, dtype=torch.uint8, device=self.device) for _ in sizes]
        dist.all_gather(pieces, padded.to(self.device), group=self.group)
        for place, size, piece in zip(places, sizes, pieces, strict=True):
            here = piece.cpu()
            ctypes.memmove(whole + place, here.data_ptr(), size)

    def _send_receive(self, to: int, given: int, count: int, source: int, wanted: int, room: int) -> None:
        sent = _memory(given, count, torch.uint8).to(self.device)
        here = _memory(wanted, room, torch.uint8)
        there = here if self.device.type == "cpu" else torch.empty_like(here, device=self.device)
        self._pass([(self._global(to), sent)], [(self._global(source), there)])
        if there is not here:
            here.copy_(there)

    def _pass(self, sent: Sequence[tuple[int, Tensor]], landing: Sequence[tuple[int, Tensor]]) -> None:
        """Tensors to and from ranks of the world; of no bytes none."""
        sent, landing = ([(peer, x) for peer, x in pairs if x.numel() > 0] for pairs in (sent, landing))
        works: list[Any]
        if self.device.type == "cpu":
            works = [dist.isend(x, peer, self.group) for peer, x in sent]
            works += [dist.irecv(x, peer, self.group) for peer, x in landing]
        else:
            # One by one they could wait for each other.
            pairs = [dist.P2POp(dist.isend, x, peer, self.group) for peer, x in sent]
            pairs += [dist.P2POp(dist.irecv, x, peer, self.group) for peer, x in landing]
            works = dist.batch_isend_irecv(pairs) if pairs else []
        for work in works:
            work.wait()

    def _global(self, rank: int) -> int:
        return rank if self.group is None else dist.get_global_rank(self.group, rank)

    def total(self, count: int) -> int:
        """The sum of a count over the ranks."""
        numbers = torch.tensor([count], dtype=torch.int64, device=self.device)
        dist.all_reduce(numbers, group=self.group)
        return int(numbers.item())


class Members(Link):
    """Some ranks of a group, or both of two, who reach each other one to one: no group of their own has to be
    made, and a sum of two ranks takes half the time of the engine's.

    Every member sends what it has to every other and sums in the members' order: the same bits on all.
    """

    def __init__(
        self,
        group: dist.ProcessGroup | None,
        members: Sequence[int],
        shares: str = "in_order",
        keys: str = "auto",
        first_pieces: tuple[int, int] | None = None,
    ) -> None:
        self.members = list(members)
        super().__init__(group, shares, keys, first_pieces)

    def _place(self) -> tuple[int, int]:
        return self.members.index(dist.get_rank(self.group)), len(self.members)

    def _global(self, rank: int) -> int:
        return super()._global(self.members[rank])

    def _exchange(self, given: Tensor, pieces: Sequence[Tensor]) -> None:
        """What member r gives goes to pieces[r], which has its size, on all members."""
        sent = given.to(self.device)
        landing = [x if x.device == self.device else torch.empty_like(x, device=self.device) for x in pieces]
        others = [k for k in range(self.ranks) if k != self.rank]
        peers = [self._global(k) for k in others]
        # By no thread of torch's pool, which would stand in the way of the work that follows.
        ctypes.memmove(pieces[self.rank].data_ptr(), given.data_ptr(), given.numel() * given.element_size())
        self._pass(
            [(peer, sent) for peer in peers],
            [(peer, landing[k]) for peer, k in zip(peers, others, strict=True)],
        )
        for piece, landed in zip(pieces, landing, strict=True):
            if piece is not landed and piece is not pieces[self.rank]:
                piece.copy_(landed)

    def _reduce(self, values: int, count: int, kind: int, reduction: int) -> None:
        here = _memory(values, count, torch.float64 if kind == c.F64 else torch.float32)
        pieces = [torch.empty_like(here) for _ in self.members]
        self._exchange(here, pieces)
        merge = torch.add if reduction == c.REDUCE_SUM else torch.maximum
        here.copy_(functools.reduce(merge, pieces))

    def _gather(self, mine: int, whole: int, counts: int, offsets: int) -> None:
        sizes = _memory(counts, self.ranks, torch.int64).tolist()
        places = _memory(offsets, self.ranks, torch.int64).tolist()
        pieces = [
            _memory(whole + place, size, torch.uint8) for place, size in zip(places, sizes, strict=True)
        ]
        self._exchange(_memory(mine, sizes[self.rank], torch.uint8), pieces)

    def total(self, count: int) -> int:
        counts = [torch.empty(1, dtype=torch.int64) for _ in self.members]
        self._exchange(torch.tensor([count]), counts)
        return sum(int(x) for x in counts)


def link_of(group: dist.ProcessGroup | None, shares: str, keys: str) -> Link:
    """All ranks of a group."""
    check_group(group)
    if dist.get_world_size(group) == 2:
        return Members(group, [0, 1], shares, keys)
    return Link(group, shares, keys)


@contextlib.contextmanager
def _deferred_interrupts() -> Iterator[None]:
    """Python's handler of SIGINT runs behind a call of all ranks, which none of them makes again.

    In the middle of a message it would leave the others waiting; the flag that the signal raises ends the
    call on all of them, by their next sum.
    """
    before = signal.getsignal(signal.SIGINT)
    defers = threading.current_thread() is threading.main_thread() and callable(before)
    noted: list[tuple[int, FrameType | None]] = []
    if defers:
        signal.signal(signal.SIGINT, lambda number, frame: noted.append((number, frame)))
    _native.once(True)
    try:
        yield
    finally:
        _native.once(False)
        if defers:
            signal.signal(signal.SIGINT, before)
        for number, frame in noted:
            if callable(before):
                before(number, frame)


class _Solved:
    """A plan of this rank and everything that its structs point to, from forward to backward."""

    def __init__(
        self, link: Link, spec: Spec, keys: int, operands: Sequence[Tensor | None], grad: bool
    ) -> None:
        self.link, self.operands = link, operands
        job = Job(spec, [operand_of(x) for x in operands], gradients=grad)
        job.options.communicator = ctypes.addressof(link.struct)
        job.options.allow_partial = int(spec.allow_partial)
        # Results are those of all keys.
        job.sizes = (*job.sizes[:3], keys, *job.sizes[4:])
        names = ("out", "column_potential") if grad and is_implicit(spec) else ("out",)
        wants, arrays = wants_of(names, WHOLE, False, (), "operator"), operands[: len(WHOLE)]
        self.handle: Handle = self._checked(lambda: Handle(job))
        kept = solve_of(TORCH, job, wants, arrays, (operands[0], ()), None, self.handle)
        kept.lent = True
        found = self._checked(lambda: run_kept(TORCH, kept, spec, arrays))
        self.solved = Solved(kept, arrays, found)
        self.out: Tensor = found[2]
        if found[1] < 0:
            self._checked(lambda: raise_status(found[1], self.handle.error, None))

    def _checked(self, call: Callable[[], Any]) -> Any:
        try:
            with _deferred_interrupts():
                return call()
        except Exception as error:
            if self.link.failure is None:
                raise
            raise RuntimeError(f"the process group failed: {error}") from self.link.failure

    def gradients(self, out_grad: Tensor, names: Sequence[str]) -> tuple[Tensor, ...]:
        upstream = {"out_grad": out_grad.resolve_neg()}
        wanted = {}
        for name in names:
            x = self.operands[PLACES[name]]
            assert x is not None
            wanted[name] = TYPES[x.dtype], tuple(x.shape)
        found: tuple[Tensor, ...] = self._checked(lambda: gradients_on(TORCH, self.solved, upstream, wanted))
        return found

    def __del__(self) -> None:
        handle = getattr(self, "handle", None)
        if handle is not None:
            handle.free()


class _Gradients(torch.autograd.Function):
    """The first so many tensors, which came from the others and have no derivative."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Tensor | None) -> tuple[Any, ...]:
        return tuple(None if x is None else x.view_as(x) for x in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return no_second(ctx, gradients)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, link: Link, spec: Spec, keys: int, *operands: Tensor | None) -> Tensor:
        # Other outputs of autograd may change what it hands in, never the memory.
        plain = [None if x is None else x.detach().resolve_neg() for x in operands]
        needed = any(ctx.needs_input_grad)
        solved = _Solved(link, spec, keys, plain, needed)
        ctx.solved = solved if needed else None
        if needed:
            # Only their versions count: the plan reads the memory itself.
            ctx.save_for_backward(*operands)
        return solved.out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        names = [
            name
            for name, needed in zip(OPERANDS, ctx.needs_input_grad[3:], strict=True)
            if needed and name in DIFFERENTIABLE
        ]
        results: list[Tensor | None] = [None] * (3 + len(OPERANDS))
        operands = ctx.saved_tensors
        found = ctx.solved.gradients(gradients[0], names)
        if torch.is_grad_enabled():
            found = _Gradients.apply(len(found), *found, gradients[0], *operands)  # type: ignore[no-untyped-call]
        for name, gradient in zip(names, found, strict=True):
            results[3 + PLACES[name]] = gradient
        return tuple(results)


def solve(link: Link, query: Tensor, key: Tensor, value: Tensor, /, **keywords: Any) -> Tensor:
    """The rows of this rank, on its device; keywords are those of `otattn.attention` less return_aux."""
    device = query.device
    if device.type != "cpu":
        query, key, value = (x.cpu() for x in (query, key, value))
    spec, extra, seed = prepare(**keywords)
    if seed is not None:
        if seed[0] is None:
            raise ValueError(
                "dropout_seed is None; give every rank the same number, or they drop different pairs"
            )
        extra["dropout_seed"] = seed_of(seed)
    given = under_autocast({"query": query, "key": key, "value": value})
    folded = folded_of(given["query"], given["key"], given["value"], spec.enable_gqa)
    heads, queries = folded.query.shape[1:3]
    keys = link.total(folded.key.shape[2])
    others = operands_of(extra, folded.batch, (heads, queries, keys), folded.query)
    found = _Attention.apply(link, spec, keys, folded.query, folded.key, folded.value, *others)  # type: ignore[no-untyped-call]
    return _back("out", found, folded.lead).to(device)
