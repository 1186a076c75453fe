"""What compilers say about the GPU kernels of the package: registers, spills, shared memory, tensor cores.

    gpu_table.py FILE                   compiles every variant for every target and writes FILE
    gpu_table.py --check FILE ROW...    compiles the rows that begin so and compares them with those of FILE

No GPU is needed, the package must be installed. Kernels are compiled as its functions launch them, on tensors
without memory, for a target that is said to be there.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Before triton is imported: compiled kernels are kept nowhere.
os.environ["TRITON_CACHE_DIR"] = KEPT = tempfile.mkdtemp(prefix="gpu-table-")

import torch
import triton
from otattn._device import triton_backward, triton_entmax, triton_levels, triton_rows, triton_tiles
from triton.backends.compiler import GPUTarget

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
TYPES = {"bf16": torch.bfloat16, "f32": torch.float32}
CAUSAL = {"causal": (None, 0), "full": (None, None)}
# Type, width, band.
FORMS = (
    ("bf16", 64, "full"),
    ("bf16", 64, "causal"),
    ("bf16", 128, "causal"),
    ("f32", 64, "causal"),
)
HEAD = """# Kernels on GPUs, as compilers see them

Written by `./dev gpu` with triton {version}; the tests of the package compare fresh rows with it.

**These kernels have never run on hardware.** They are right in Triton's interpreter
(`tests/python/package/test_device_triton.py`); this is what compilers say of them, for heads of 4,096 queries
and keys with a bias on every key. Registers are a thread's (gfx942: vector registers, of 512), spilled what a
thread keeps in memory instead, shared what a program has, tensor cores how often `mma`, `wgmma` or `mfma` is
in its text. f32 is multiplied in f32 (`ieee`), for which NVIDIA's tensor cores have no instruction. Tiles are
those of `python/otattn/_device/triton_tiles.py`.

| kernel | numbers | width | band | target | registers | spilled, bytes | shared, bytes | tensor cores |
|---|---|---|---|---|---|---|---|---|
"""


class Compiler:
    """Stands in the place of a driver, and of a launch."""

    def __init__(self, target: GPUTarget) -> None:
        self.target = target
        self.compiled: list[Any] = []

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return device

    def start(self, body: Any, programs: int, arguments: tuple[Any, ...], options: dict[str, int]) -> None:
        body.device_caches.clear()
        self.compiled.append(body.warmup(*arguments, grid=(programs,), **options))


def calls(number: str, width: int, band: str) -> dict[str, Callable[[], object]]:
    """The launch of each kernel."""

    def array(*shape: int, dtype: torch.dtype = TYPES[number]) -> torch.Tensor:
        return torch.empty(2, 8, 4096, *shape, dtype=dtype, device="meta")

    q, k, v, dout = (array(width) for _ in range(4))
    f, g, a, b = (array(dtype=torch.float32) for _ in range(4))
    scoring = triton_rows.Scoring(0.125, CAUSAL[band])
    options: dict[str, Any] = {"scale": 0.125, "band": CAUSAL[band], "key_bias": g}
    plan = triton_backward.Plan(f, g, a, b)
    rows, columns = triton_backward.Side(q, dout), triton_backward.Side(k, v)
    back = triton_backward.run
    # Rows of entmax next to order 1, and of order 3, whose slopes may be steep.
    levels = triton_levels.Levels(f, a, f.to(torch.int32))
    found: dict[str, Callable[[], object]] = {}
    for alpha in (1.25, 3.0):
        of = plan._replace(row_bias=None, levels=levels, alpha=alpha, push=a)
        found |= {
            f"entmax {alpha:g}": functools.partial(triton_entmax.entmax_attend, q, k, v, alpha, **options),
            f"terms {alpha:g}": functools.partial(back, "terms", rows, columns, of, scoring),
            f"query {alpha:g}": functools.partial(back, "query", rows, columns, of, scoring),
            f"key {alpha:g}": functools.partial(
                back, "key", columns, rows, of.transposed(), scoring.transposed()
            ),
        }
    # One form of those is enough.
    found = found if (number, width, band) == FORMS[1] else {}
    return found | {
        "sums": lambda: triton_rows.row_lse(q, k, **options),
        "attend": lambda: triton_rows.attend(q, k, v, **options),
        "vector": lambda: triton_rows.apply_plan(q, k, a.unsqueeze(3), row_bias=f, **options),
        "query": lambda: back("query", rows, columns, plan, scoring),
        "key": lambda: back("key", columns, rows, plan.transposed(), scoring.transposed()),
        "entmax 1.5": lambda: triton_entmax.entmax_attend(q, k, v, 1.5, **options),
    }


def measured(kernel: Any) -> list[int]:
    """Registers, spilled, shared, tensor cores."""
    shared = kernel.metadata.shared
    if kernel.metadata.target.backend == "hip":
        text = kernel.asm["amdgcn"]
        found = [
            re.search(rf"\.{name}:\s+(\d+)", text) for name in ("vgpr_count", "private_segment_fixed_size")
        ]
        registers, spilled = (int(x[1]) for x in found if x)
        return [registers, spilled, shared, text.count("v_mfma")]
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    file = Path(KEPT) / "kernel.cubin"
    file.write_bytes(kernel.asm["cubin"])
    said = subprocess.run([tool, "-res-usage", file], capture_output=True, check=True, text=True).stdout
    registers, stack, local = (int(x) for x in re.findall(r"\b(?:REG|STACK|LOCAL):(\d+)", said))
    cores = re.findall(r"\b(?:wgmma\.mma_async|mma\.sync)", kernel.asm["ptx"])
    return [registers, stack + local, shared, len(cores)]


def rows(wanted: Callable[[str], bool]) -> list[str]:
    found = []
    for name, target in TARGETS.items():
        compiler = Compiler(target)
        triton.runtime.driver.set_active(compiler)
        triton_tiles.start = compiler.start
        for form in FORMS:
            for kernel, launch in calls(*form).items():
                row = "| " + " | ".join(map(str, (kernel, *form, name))) + " |"
                if wanted(row):
                    compiler.compiled.clear()
                    launch()
                    numbers = measured(compiler.compiled[0])
                    found.append(row + "".join(f" {number:,} |" for number in numbers))
                    print(found[-1], file=sys.stderr)
    return found


def main() -> int:
    words = sys.argv[1:]
    if words[:1] == ["--check"] and len(words) > 2:
        kept = Path(words[1]).read_text(encoding="utf-8").splitlines()
        found = rows(lambda row: any(row.startswith(word) for word in words[2:]))
        other = [row for row in found if row not in kept]
        print("\n".join([f"not in {words[1]}: {row}" for row in other] or [f"{len(found)} rows as kept"]))
        return int(bool(other) or not found)
    if len(words) != 1:
        print(__doc__)
        return 2
    table = sorted(rows(lambda _: True), key=lambda row: row.split(" | ")[:4])
    text = HEAD.format(version=triton.__version__) + "\n".join(table) + "\n"
    Path(words[0]).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
