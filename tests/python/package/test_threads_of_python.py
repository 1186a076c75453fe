"""Threads of Python that call the package at once get the bits that one alone gets, with and without the
interpreter's lock."""

from __future__ import annotations

import threading

import numpy as np
import otattn
from otattn import lap

METHODS = ("softmax/exact", "entmax:1.5", "softmax", "hard/exact")


def test_eight_threads_get_the_bits_of_one() -> None:
    draw = np.random.default_rng(0)
    x, costs = draw.standard_normal((2, 3, 24, 8)), draw.random((30, 30))

    def answers() -> list[bytes]:
        found = [np.asarray(otattn.coupling(x, x, method=method)).tobytes() for method in METHODS]
        return [*found, *(np.asarray(part).tobytes() for part in lap.lapjv(costs))]

    wanted, wrong = answers(), []

    def work() -> None:
        for _ in range(20):
            if answers() != wanted:
                wrong.append(True)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
