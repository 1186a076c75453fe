"""The operators `solve` and `gradients` on tensors of any device."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from .. import _structs as c
from .._leaks import watch
from .._settings import PLACES
from .._spec import Spec
from .adjoint import Upstream, gradients
from .checks import check_call, check_masses, check_start
from .choice import engine_of
from .entmax import Rows
from .outcome import Results, found_by, settle
from .solver import solve
from .triton_engine import Kernels


def solve_tensors(
    spec: Spec, operands: Sequence[Tensor | None], names: Sequence[str], kept: str, results: Sequence[Tensor]
) -> None:
    """Fills `results`, which have the names, where `kept` is the one that "saved" has."""
    with arithmetic(operands):
        check_call(spec, operands)
        engine = engine_of(spec, operands)
        s = engine.scores
        causal = spec.is_causal or (spec.window is not None and spec.window[1] == 0)
        watch(spec.method, s.problem.columns, causal, s.rows, None)
        check_start(engine)
        check_masses(engine)
        found = found_by(engine, names)
        status, lost = settle(found)
        written = Results(found, lost)
        for name, result in zip(names, results, strict=True):
            if name == "facts":
                judged = "row_potential" in names
                result.copy_(written.facts(status, judged))
            elif name != "saved" or kept:
                result.copy_(written.result(kept if name == "saved" else name).reshape(result.shape))


@contextlib.contextmanager
def arithmetic(operands: Sequence[Tensor | None], recorded: bool = False) -> Iterator[None]:
    """Inside of an operator: no types but those that are asked for; `recorded`: autograd if asked."""
    query = operands[0]
    assert query is not None
    kind = query.device.type if torch.amp.is_autocast_available(query.device.type) else "cpu"
    with contextlib.ExitStack() as stack:
        if recorded:
            included = torch._C._dispatch_tls_local_include_set()
            excluded = torch._C._dispatch_tls_local_exclude_set() & torch._C._after_autograd_keyset
            stack.enter_context(torch._C._ForceDispatchKeyGuard(included, excluded))
        stack.enter_context(torch.autocast(kind, enabled=False))
        stack.enter_context(torch.no_grad())
        try:
            yield
        except torch.OutOfMemoryError as error:
            raise MemoryError(
                f"{query.device} has too little memory for a call with {tuple(query.shape)} queries; give a "
                f"workspace_limit, or fewer heads a call ({error})"
            ) from error


def _gradients(
    spec: Spec,
    operands: Sequence[Tensor | None],
    upstream: Sequence[Tensor | None],
    saved: Tensor | None,
    wanted: Sequence[str],
) -> dict[str, Tensor]:
    # Those that are not wanted are constants, whatever they are to the caller.
    operands = [x if x is None else x.detach() for x in operands]
    needed = wanted if upstream[1] is None else (*wanted, "coupling")
    engine = engine_of(spec, operands, needed)
    s = engine.scores
    from_ = Upstream(s, *upstream)
    if s.problem.regulariser == c.ENTMAX:
        if isinstance(engine, Kernels) and from_.receiver is None and from_.out is not None:
            return engine.entmax_backward(wanted, from_.out)
        return Rows(s).backward(wanted, from_.out, from_.coupling, from_.receiver)
    g = None
    coupled = s.problem.columns != c.COLUMNS_FREE
    if coupled and saved is not None and saved.numel():
        g = (saved[:, :, 0] / s.tau({k: x.double() for k, x in s.given.items()})).to(s.wide)
    elif coupled and not s.options.rounds and s.problem.columns != c.COLUMNS_ELASTIC:
        g = solve(engine).g.to(s.wide)
    return gradients(engine, wanted, from_, g)


def gradients_of_tensors(
    spec: Spec,
    operands: Sequence[Tensor | None],
    upstream: Sequence[Tensor | None],
    saved: Tensor | None,
    wanted: Sequence[str],
) -> list[Tensor]:
    """Those of the operands `wanted`, for gradients of out, coupling and receiver."""
    with arithmetic(operands, recorded=True):
        found = _gradients(spec, operands, upstream, saved, wanted)
        results = []
        for name in wanted:
            x = operands[PLACES[name]]
            assert x is not None
            results.append(found[name].to(x.device, x.dtype).reshape(x.shape))
        return results
