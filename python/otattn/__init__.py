"""Attention as optimal transport.

`attention` has the arguments of torch's scaled_dot_product_attention and a `method`: softmax, sparse, capped,
elastic, doubly stochastic and hard attention are one convex problem. NumPy in, NumPy out; torch in, torch
out.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

try:  # first of all: every other file takes it for granted
    importlib.import_module("._native", __name__)
except ImportError as _error:
    raise ImportError(f"otattn cannot load its compiled module: {_error}; reinstall the package") from _error

from . import _structs as _c
from ._attention import attention
from ._aux import AuxOutput, AuxRequest, Potentials, RowStats
from ._certificate import Certificate
from ._coupling import coupling
from ._errors import (
    Infeasible,
    NotConverged,
    NotDifferentiable,
    NotFinite,
    NotFiniteWarning,
    PartialWarning,
    SolveError,
)
from ._kept import release_memory
from ._library import library as _core
from ._library import names_of as _names_of
from ._outcome import Info
from ._progress import Progress
from ._regulariser import Regulariser
from ._signature import AttentionOptions, CouplingOptions
from ._spec import Spec
from ._threads import get_num_threads, set_num_threads, threads

if TYPE_CHECKING:
    from . import activations as activations
    from . import analysis as analysis
    from . import cluster as cluster
    from . import flash as flash
    from . import hf as hf
    from . import jax as jax
    from . import lap as lap
    from . import lens as lens
    from . import moe as moe
    from . import nn as nn
    from . import ot as ot
    from ._assignment import AssignmentCertificate, linear_sum_assignment
    from ._decode import decode
    from ._describe import describe
    from ._maxsim import maxsim
    from ._models.edits import Edit
    from ._models.model import Model
    from ._models.tokens import Tokenizer
    from ._normalize import sinkhorn_normalize
    from ._plan import Plan
    from ._ranked import (
        BottleneckAssignment,
        RankedAssignments,
        bottleneck_assignment,
        k_best_assignments,
    )
    from ._show import Chart, Run, show
    from ._varlen import varlen_attention

__version__ = f"{_c.VERSION_MAJOR}.{_c.VERSION_MINOR}.{_c.VERSION_PATCH}"

__all__ = [
    "AssignmentCertificate",
    "AttentionOptions",
    "AuxOutput",
    "AuxRequest",
    "BottleneckAssignment",
    "Certificate",
    "Chart",
    "CouplingOptions",
    "Edit",
    "Infeasible",
    "Info",
    "Model",
    "NotConverged",
    "NotDifferentiable",
    "NotFinite",
    "NotFiniteWarning",
    "PartialWarning",
    "Plan",
    "Potentials",
    "Progress",
    "RankedAssignments",
    "Regulariser",
    "RowStats",
    "Run",
    "SolveError",
    "Spec",
    "Tokenizer",
    "alibi_slopes",
    "attention",
    "backends",
    "bottleneck_assignment",
    "coupling",
    "decode",
    "describe",
    "get_num_threads",
    "k_best_assignments",
    "kernels",
    "linear_sum_assignment",
    "maxsim",
    "release_memory",
    "set_num_threads",
    "show",
    "sinkhorn_normalize",
    "solvers",
    "threads",
    "varlen_attention",
]

# Names and modules that are imported when they are first asked for.
_LATER = {
    "AssignmentCertificate": "._assignment",
    "BottleneckAssignment": "._ranked",
    "Chart": "._show",
    "Edit": "._models.edits",
    "Model": "._models.model",
    "Plan": "._plan",
    "RankedAssignments": "._ranked",
    "Run": "._show",
    "Tokenizer": "._models.tokens",
    "bottleneck_assignment": "._ranked",
    "decode": "._decode",
    "describe": "._describe",
    "k_best_assignments": "._ranked",
    "linear_sum_assignment": "._assignment",
    "maxsim": "._maxsim",
    "show": "._show",
    "sinkhorn_normalize": "._normalize",
    "varlen_attention": "._varlen",
}
_MODULES = ("activations", "analysis", "cluster", "flash", "hf", "jax", "lap", "lens", "moe", "nn", "ot")


def __getattr__(name: str) -> Any:
    if name in _LATER:
        found = getattr(importlib.import_module(_LATER[name], __name__), name)
        # The next one finds it without coming here, which takes longer than a small problem.
        return globals().setdefault(name, found)
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'otattn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_MODULES, "__version__"]


def solvers() -> list[str]:
    """Names of the solvers that `solver=` takes.

    Examples
    --------
    >>> import otattn
    >>> "sinkhorn" in otattn.solvers()
    True
    """
    return _names_of(_core.ota_solver_name)


def backends() -> list[str]:
    """Names of the backends that `backend=` takes, the default first; the last is of torch tensors only.

    Examples
    --------
    >>> import otattn
    >>> otattn.backends()
    ['cpu', 'plain', 'torch']
    """
    return [*_names_of(_core.ota_backend_name), "torch"]


def kernels() -> list[str]:
    """Instruction-set levels this CPU can run, oldest first.

    Examples
    --------
    >>> import otattn
    >>> otattn.kernels()[0]
    'portable'
    """
    return _names_of(_core.ota_kernel_name)


def alibi_slopes(heads: int) -> NDArray[np.float64]:
    """The slopes 2^(-8 h / heads), h = 1 ... heads, as an f64 array of shape (heads,).

    Raises
    ------
    ValueError, TypeError
        For what is not 1 to 1048576 heads.

    Examples
    --------
    >>> import otattn
    >>> otattn.alibi_slopes(4)
    array([0.25      , 0.0625    , 0.015625  , 0.00390625])
    """
    import numpy as np

    from ._settings import whole

    found = whole("heads", heads, 1, 1 << 20)
    slopes = np.empty(found)
    _core.ota_alibi_slopes(found, slopes.ctypes.data)
    return slopes
