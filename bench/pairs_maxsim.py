"""Late interaction beside products of all tokens and their maxima in torch, and beside maxsim-cpu."""

from __future__ import annotations

import functools
from typing import Any

import maxsim_cpu
import otattn
import torch
from pairs import Pair, Prepared

WIDTH, TOKENS = 128, 128


def apart(ours: Any, theirs: Any) -> float:
    return float(((ours - theirs.float()).abs() / theirs.float().abs().clamp(min=1.0)).max())


def scores(queries: int, tokens: int, documents: int, kind: torch.dtype = torch.float32) -> Prepared:
    torch.manual_seed(0)
    asked = torch.nn.functional.normalize(torch.randn(queries, tokens, WIDTH), dim=-1).to(kind)
    held = torch.nn.functional.normalize(torch.randn(documents, TOKENS, WIDTH), dim=-1).to(kind)

    def theirs() -> Any:
        return torch.einsum("qiw,djw->qdij", asked, held).amax(-1).float().sum(-1)

    return lambda: otattn.maxsim(asked, held), theirs, apart


def beside_maxsim_cpu(tokens: int, documents: int) -> Prepared:
    torch.manual_seed(0)
    asked = torch.nn.functional.normalize(torch.randn(tokens, WIDTH), dim=-1).numpy()
    held = torch.nn.functional.normalize(torch.randn(documents, TOKENS, WIDTH), dim=-1).numpy()

    def theirs() -> Any:
        return torch.from_numpy(maxsim_cpu.maxsim_scores(asked, held))

    return lambda: torch.from_numpy(otattn.maxsim(asked, held)), theirs, apart


def row(queries: int, tokens: int, documents: int, kind: torch.dtype = torch.float32) -> Pair:
    name = {torch.float32: "maxsim f32", torch.bfloat16: "maxsim bf16", torch.float16: "maxsim f16"}[kind]
    shape = f"{queries} x {tokens} tokens, {documents} documents of {TOKENS}, width {WIDTH}"
    limit = 1e-5 if kind == torch.float32 else 3e-2
    return Pair(name, shape, "torch einsum", lambda: scores(queries, tokens, documents, kind), limit)


ROWS = [
    row(1, 32, 100),
    row(1, 32, 1000),
    row(1, 32, 10000),
    row(8, 32, 1000),
    row(1, 8, 10000),
    row(1, 32, 1000, torch.bfloat16),
    row(1, 32, 1000, torch.float16),
    *(
        Pair(
            "maxsim f32",
            f"1 x 32 tokens, {n} documents of {TOKENS}, width {WIDTH}",
            "maxsim-cpu",
            functools.partial(beside_maxsim_cpu, 32, n),
            1e-5,
        )
        for n in (100, 1000, 10000)
    ),
]
