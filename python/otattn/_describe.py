"""What would compute a call, in words."""

from __future__ import annotations

import ctypes
from typing import Any

from ._arrays import folded_of, operand_of
from ._attention import known_arguments, prepare
from ._handle import Handle
from ._job import Job
from ._library import library
from ._settings import is_torch


def text_of(handle: Handle) -> str:
    """What the library says of a plan."""
    size = library.ota_plan_describe(handle.pointer, None, 0)
    text = ctypes.create_string_buffer(size + 1)
    library.ota_plan_describe(handle.pointer, text, size + 1)
    return text.value.decode()


def describe(query: Any, key: Any, value: Any, **arguments: Any) -> str:
    """What would compute a call of `attention` with these arrays, in a few lines.

    Parameters
    ----------
    query, key, value : array
        As in `attention`; their contents do not matter.
    **arguments
        All others of `attention`, except `return_aux`.

    Returns
    -------
    text : str
        Of arrays on a CPU the library's solver, kernels and memory; of tensors elsewhere, and with
        ``backend="torch"``, the engine, why it and no better one, how often it is called, and its bytes.

    Raises
    ------
    ValueError, TypeError
        As `attention`.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> x = np.zeros((1, 1, 4, 3))
    >>> print(otattn.describe(x, x, x, method="softmax/exact").splitlines()[0])
    method: softmax/exact
    """
    known_arguments("describe", arguments)
    spec, extra, _ = prepare(**arguments)
    named = {**extra, "query": query, "key": key, "value": value}
    if not is_torch(query):
        operands, _ = folded_of(spec, named)
        return _of_plan(Job(spec._replace(dropout_p=0.0), [operand_of(x) for x in operands]))
    from ._device.choice import check_devices, describe_tensors, on_device
    from ._torch_fold import fold_all, under_autocast
    from ._torch_fold import operand_of as operand_of_tensor

    check_devices(named)
    tensors, _ = fold_all(spec, under_autocast(named))
    if on_device(spec, tensors):
        return describe_tensors(spec, tensors)
    return _of_plan(Job(spec._replace(dropout_p=0.0), [operand_of_tensor(x) for x in tensors]))


def _of_plan(job: Job) -> str:
    handle = Handle(job)
    try:
        return text_of(handle)
    finally:
        handle.free()
