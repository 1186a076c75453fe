"""What a wheel must do wherever it was installed: calls of each of its libraries beside their definitions.

    use_wheel.py MODEL

Prints what was used; a difference is an AssertionError.
"""

import math
import platform
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import EXTENSION_SUFFIXES

import numpy as np
import otattn


def main() -> None:
    draw = np.random.default_rng(0)
    queries, keys, values = draw.standard_normal((3, 2, 3, 16, 8))
    scores = queries @ keys.swapaxes(-1, -2) / math.sqrt(8)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    for kind, tolerance in ((np.float64, 1e-12), (np.float32, 1e-5)):
        given = [array.astype(kind) for array in (queries, keys, values)]
        assert np.allclose(otattn.attention(*given), weights @ values, atol=tolerance)
    # Eight threads at once give the bits of one; a Python without its lock keeps doing without.
    alone = otattn.attention(queries, keys, values, method="entmax:1.5")
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(otattn.attention, queries, keys, values, method="entmax:1.5") for _ in range(64)]
    assert all(np.array_equal(alone, call.result()) for call in calls)
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        assert not getattr(sys, "_is_gil_enabled")()  # noqa: B009 that of older versions' types lacks it
    plan = otattn.coupling(scores, method="softmax/exact")
    assert np.allclose(plan.sum(-1), 1, atol=1e-9) and np.allclose(plan.sum(-2), 1, atol=1e-6)
    rows, columns = otattn.linear_sum_assignment(np.eye(7)[:, ::-1], maximize=True)
    assert (columns == rows[::-1]).all()
    model = otattn.Model(sys.argv[1])
    found = model.run("The house").logits
    assert np.isfinite(found).all(), found
    print(otattn.__version__, platform.machine(), EXTENSION_SUFFIXES[0], otattn.get_num_threads())
    print(sys.version)


if __name__ == "__main__":
    main()
