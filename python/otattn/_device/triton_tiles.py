"""How the kernels of Triton are launched: the tile of each, by widths and types, and where they run.

Tiles were chosen by what compilers say, on no hardware: the largest that spill no registers.
"""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import torch
import triton  # type: ignore[import-untyped, unused-ignore]
from triton import knobs  # type: ignore[import-untyped, unused-ignore]

INTERPRETED: bool = knobs.runtime.interpret


class Tile(NamedTuple):
    rows: int
    columns: int
    warps: int
    stages: int


def backend() -> str:
    """cuda, hip or xpu; under the interpreter cpu."""
    if INTERPRETED:
        return "cpu"
    target: Any = triton.runtime.driver.active.get_current_target()
    return str(target.backend)


# By bytes of a number, then by the most width: rows (sums, attend, apply, vector), query (and terms), key.
CUDA = {
    2: {
        64: {"rows": Tile(128, 64, 8, 2), "query": Tile(128, 64, 8, 2), "key": Tile(128, 64, 8, 2)},
        128: {"rows": Tile(128, 64, 8, 2), "query": Tile(128, 64, 8, 2), "key": Tile(64, 64, 8, 2)},
        256: {"rows": Tile(64, 32, 8, 2), "query": Tile(32, 32, 4, 2), "key": Tile(32, 32, 8, 2)},
    },
    4: {
        64: {"rows": Tile(64, 32, 8, 2), "query": Tile(64, 32, 8, 1), "key": Tile(64, 32, 8, 1)},
        128: {"rows": Tile(32, 32, 8, 1), "query": Tile(32, 32, 8, 1), "key": Tile(32, 32, 8, 1)},
        256: {"rows": Tile(16, 32, 8, 1), "query": Tile(16, 16, 8, 1), "key": Tile(16, 16, 8, 1)},
    },
}
HIP = {
    2: {
        64: {"rows": Tile(128, 64, 4, 2), "query": Tile(64, 64, 4, 2), "key": Tile(64, 32, 4, 2)},
        128: {"rows": Tile(64, 64, 4, 2), "query": Tile(64, 32, 4, 2), "key": Tile(64, 32, 4, 2)},
        256: {"rows": Tile(32, 32, 4, 2), "query": Tile(32, 32, 4, 1), "key": Tile(32, 32, 4, 1)},
    },
    4: {
        64: {"rows": Tile(64, 32, 4, 2), "query": Tile(32, 32, 4, 1), "key": Tile(32, 32, 4, 1)},
        128: {"rows": Tile(64, 16, 4, 2), "query": Tile(32, 32, 4, 1), "key": Tile(32, 32, 4, 1)},
        256: {"rows": Tile(32, 16, 4, 1), "query": Tile(32, 16, 4, 1), "key": Tile(32, 16, 4, 1)},
    },
}
SMALL = Tile(16, 16, 4, 1)  # the interpreter's, so that small problems have several


def tile_of(kind: str, width: int, bytes_: int) -> Tile:
    """The tile of a kernel whose widest operand is so wide; wider ones than the table's take its last row."""
    where = backend()
    if where == "cpu":
        return SMALL
    widths = (HIP if where == "hip" else CUDA)[2 if bytes_ == 2 else 4]
    level = kind == "level"
    if kind == "entmax" or level:
        # Three loops over the keys in one kernel, or gradients with logarithms and powers.
        kind, width = "key", max(width, 128)
    row = min((most for most in widths if width <= most), default=max(widths))
    found = widths[row]["query" if kind == "terms" else kind if kind in ("query", "key") else "rows"]
    return found._replace(columns=max(16, found.columns // 2)) if level else found


def start(body: Any, programs: int, arguments: tuple[Any, ...], options: dict[str, int]) -> None:
    body[(programs,)](*arguments, **options)


def launch(body: Any, programs: int, tile: Tile, own: Any, *arguments: Any) -> None:
    """Runs that many programs on the device of the tensor of their rows; the last argument is the form."""
    if programs == 0:
        return
    device = contextlib.nullcontext()
    place = own.base.device
    if place.type not in ("cpu", "meta"):
        device = torch.get_device_module(place).device(place)
    # A score is the edge of its row where it has the same bits in every pass.
    fused = arguments[-1].weight != "edge"
    options = {"num_warps": tile.warps, "num_stages": tile.stages, "enable_fp_fusion": fused}
    with device:
        start(body, programs, (own, *arguments), options)
