"""Checks that carry requirement ids: the Python half of tests/support/spec.h.

Each check asserts value <= tolerance and, when OTATTN_SPEC_LOG names a file, appends one line per id:
ID, value, relation, tolerance, 1 or 0, test name, separated by tabs. The line is written before the
assertion, so that a failing check is on record too.
"""

from __future__ import annotations

import os


def _log(ids: str, value: float, tolerance: float, passed: bool) -> None:
    path = os.environ.get("OTATTN_SPEC_LOG")
    if not path:
        return
    test = os.environ.get("PYTEST_CURRENT_TEST", "").split(" ")[0]
    names = ids.replace(",", " ").split()
    lines = [f"{name}\t{value:.17g}\t<=\t{tolerance:.17g}\t{int(passed)}\t{test}\n" for name in names]
    # One write in append mode keeps lines whole when tests run side by side.
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, "".join(lines).encode())
    finally:
        os.close(descriptor)


def check(ids: str, value: float, tolerance: float) -> None:
    """Asserts value <= tolerance (a NaN on either side fails) for one or several ids: "LIT-06 ELA-04"."""
    value, tolerance = float(value), float(tolerance)
    passed = value <= tolerance
    _log(ids, value, tolerance, passed)
    assert passed, f"{ids}: {value!r} is not <= {tolerance!r}"


def check_true(ids: str, condition: object) -> None:
    """For facts that are true or false: logged as 0 <= 0, or 1 <= 0."""
    check(ids, 0.0 if condition else 1.0, 0.0)
