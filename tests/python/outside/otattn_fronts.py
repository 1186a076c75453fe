"""A pytest plugin that puts otattn's fronts in the places of another package's own functions.

Loaded by name (-p otattn_fronts) with OTATTN_FRONTS, a key of FRONTS, before the other package's tests.
"""

from __future__ import annotations

import importlib
import operator
import os
from typing import Any

import pytest

ENTMAX = {
    "entmax.activations": ["sparsemax", "entmax15", "Sparsemax", "Entmax15"],
    "entmax.root_finding": [
        "sparsemax_bisect",
        "entmax_bisect",
        "normmax_bisect",
        "budget_bisect",
        "SparsemaxBisect",
        "EntmaxBisect",
        "NormmaxBisect",
        "BudgetBisect",
    ],
    "entmax.losses": [
        "sparsemax_loss",
        "entmax15_loss",
        "sparsemax_bisect_loss",
        "entmax_bisect_loss",
        "normmax_bisect_loss",
        "SparsemaxLoss",
        "SparsemaxBisectLoss",
        "Entmax15Loss",
        "EntmaxBisectLoss",
        "NormmaxBisectLoss",
    ],
}
POT = {
    "ot": ["sinkhorn", "sinkhorn2", "sinkhorn_unbalanced", "emd", "emd2", "solve", "solve_sample"],
    "ot.bregman": ["sinkhorn", "sinkhorn2"],
    "ot.partial": [
        "partial.partial_wasserstein",
        "partial.partial_wasserstein2",
        "partial.entropic_partial_wasserstein",
    ],
}

SCIPY = {"scipy.optimize": ["linear_sum_assignment"]}
LAP = {"lap": ["lapjv", "lapmod"]}
# Whose tests: the module of otattn that stands in, and the names it stands in for.
FRONTS = {
    "entmax": ("otattn.activations", ENTMAX),
    "pot": ("otattn.ot", POT),
    "scipy": ("otattn", SCIPY),
    "lap": ("otattn.lap", LAP),
}


# POT's tests skip some backends and arguments by marks that its repository defines and its archive lacks.
def _skip_backend(name: str, reason: str = "") -> Any:
    return pytest.mark.skip_backend(name, reason)


def _skip_argument(argument: Any, value: Any, reason: str = "", getter: Any = lambda x: x) -> Any:
    return pytest.mark.skip_argument(argument, value, reason, getter)


@pytest.fixture(params=["numpy", "torch"])
def nx(request: Any) -> Any:
    """The backends whose arrays otattn takes as they are."""
    from ot.backend import get_backend_list

    for mark in request.node.iter_markers("skip_backend"):
        if mark.args[0] == request.param:
            pytest.skip(mark.args[1])
    (found,) = (x for x in get_backend_list() if x.__name__ == request.param)
    return found


def pytest_runtest_setup(item: Any) -> None:
    for mark in item.iter_markers("skip_argument"):
        names, values, reason, getter = mark.args
        several = isinstance(names, (tuple, list))
        wanted = dict(zip(names, values, strict=True)) if several else {names: values}
        given = getattr(item, "callspec", None)
        if given and all(getter(given.params.get(name)) == value for name, value in wanted.items()):
            pytest.skip(reason)


def pytest_configure(config: Any) -> None:
    del config
    vars(pytest).update(skip_backend=_skip_backend, skip_arg=_skip_argument)
    which = os.environ["OTATTN_FRONTS"]
    front, places = FRONTS[which]
    ours = importlib.import_module(front)
    for module, names in places.items():
        theirs = importlib.import_module(module)
        for name in names:
            setattr(theirs, name.rpartition(".")[2], operator.attrgetter(name)(ours))
    if which == "pot":
        # What the tests' own comparison reads of a result.
        backend = importlib.import_module("ot.backend").get_backend
        ours.OTResult._backend = property(lambda result: backend(result.plan))
