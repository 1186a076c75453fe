"""A regulariser that the library does not have: Omega(p) = p^2 / 2 - mu log p.

Its rows are p = (x + sqrt(x^2 + 4 mu)) / 2 at x = s - t. Large weights grow with their scores linearly, as
those of sparsemax do; small ones fall as mu / |x|, where softmax falls exponentially, and never reach 0.
"""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
import tempfile
from pathlib import Path

import otattn
from torch import Tensor

MU = 0.01

# What the Python functions below say, for a compiler: they are called for every pair, several times a solve.
SOURCE = """
#include <math.h>
double weight(void *user, double x)
{
    double root = sqrt(x * x + 4.0 * MU);
    (void)user;
    return x > 0.0 ? 0.5 * (x + root) : 2.0 * MU / (root - x);
}
double slope(void *user, double x) { return weight(user, x) / sqrt(x * x + 4.0 * MU); }
double value(void *user, double p) { (void)user; return 0.5 * p * p - MU * log(p); }
"""


def weight(x: float) -> float:
    root = math.sqrt(x * x + 4.0 * MU)
    # The first form cancels below 0.
    return 0.5 * (x + root) if x > 0.0 else 2.0 * MU / (root - x)


def slope(x: float) -> float:
    return weight(x) / math.sqrt(x * x + 4.0 * MU)


def value(p: float) -> float:
    return 0.5 * p * p - MU * math.log(p) if p > 0.0 else math.inf


def stiffness(p: Tensor) -> Tensor:
    """1 / Omega''(p): how fast a weight follows its score."""
    return p * p / (p * p + MU)


def interpreted() -> otattn.Regulariser:
    return otattn.Regulariser(weight, slope, value)


def compiled() -> otattn.Regulariser:
    """The same by the machine's C compiler; in Python where it has none."""
    compiler = shutil.which("cc")
    if compiler is None:
        return interpreted()
    function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p, ctypes.c_double)
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "barrier.c"), Path(folder, "barrier.so")
        source.write_text(SOURCE, encoding="utf-8")
        command = [
            compiler,
            "-O2",
            "-shared",
            "-fPIC",
            f"-DMU={MU!r}",
            str(source),
            "-o",
            str(library),
            "-lm",
        ]
        subprocess.run(command, check=True)
        loaded = ctypes.CDLL(str(library))
    return otattn.Regulariser(*(function((name, loaded)) for name in ("weight", "slope", "value")))
