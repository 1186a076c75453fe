"""What keys receive: many starve under softmax, none under exact columns, and elastic rounds lie between."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import oracles
import pytest
import spec
from program import U64, solve

# Column error of an exact plan, on masses of the fair share.
TOLERANCE = 1e-12


@pytest.mark.parametrize(("queries", "keys"), [(24, 24), (30, 20)])
def test_keys_that_starve(tmp_path: Path, queries: int, keys: int) -> None:
    generator = np.random.default_rng(4)
    # Some keys are liked by all queries, some by none.
    scores = generator.normal(size=(queries, keys)) + 2.0 * generator.normal(size=keys)
    fair, everything = queries / keys, np.ones(scores.shape, bool)

    def received(*words: str) -> tuple[np.ndarray, float]:
        _, result = solve(tmp_path, scores, "--receiver", "received.npy", *words)
        return np.load(tmp_path / "received.npy"), result["certificate"]["receiver_max"]

    masses, most = received("-m", "softmax")
    wanted = oracles.by_rows(scores, everything, 1.0, oracles.softmax_row).sum(axis=0)
    # Sums of weights up to 1, each within a few units.
    spec.check("ELA-06", np.abs(masses - wanted).max(), queries * 8 * U64)
    # Of the certificate: over the fair share.
    spec.check("ELA-06", abs(most - wanted.max() / fair), queries * 8 * U64)
    assert most > 4
    even, largest = received("-m", "softmax/exact", "--tolerance", str(TOLERANCE))
    spec.check("ELA-06", abs(largest - 1), keys * TOLERANCE)
    for x in (0.1, 0.25, 0.5, 0.9, 1.0 - 2 * keys * TOLERANCE):
        share = np.mean(masses < x * fair)
        spec.check("ELA-06", abs(float(share - np.mean(wanted < x * fair))), 0.0)
        spec.check_true("ELA-06", share > 0)
        spec.check("ELA-06", float(np.mean(even < x * fair)), 0.0)


# lambda: Delta once lambda times rounds is 1, 2, 4, 8, as the errata have it, with up to two digits more.
ELASTIC = {"0.05": (0.4125, 0.1797, 0.0362, 0.0017), "0.5": (0.3407, 0.1239, 0.0182, 0.0005)}


def test_elastic_table_of_the_errata(tmp_path: Path) -> None:
    scores = 1.5 * np.random.default_rng(6).normal(size=(24, 24))
    everything = np.ones(scores.shape, bool)
    for name, table in ELASTIC.items():
        for time, printed in zip((1, 2, 4, 8), table, strict=True):
            rounds = round(time / float(name))
            _, result = solve(tmp_path, scores, "-m", f"elastic:{name},{rounds}")
            found = result["certificate"]["delta"]
            plan = oracles.elastic(scores, everything, 1.0, float(name), rounds)
            spec.check("ELA-17", abs(found / printed - 1), 0.02)
            # Every round is rounded as its sums of 24 weights are, and later ones shrink that.
            spec.check("ELA-17", abs(found - np.abs(plan.sum(axis=0) - 1).max()), rounds * 24 * U64)
    _, result = solve(tmp_path, scores, "-m", "softmax")
    spec.check("ELA-17", abs(result["certificate"]["delta"] / 1.0675 - 1), 0.02)
