"""The example that follows corners of a photograph, on a picture that needs no file."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import ndimage

FRAMES = 7


@pytest.fixture
def tracking(root: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", [*sys.path, str(root / "examples")])
    return __import__("tracking")


def test_pairs_of_frames(tracking: Any, rng: np.random.Generator) -> None:
    picture = ndimage.gaussian_filter(rng.random((427, 640)), 2.0)
    picture = (picture - picture.min()) / np.ptp(picture)
    # A slow camera: the first frames of a longer path.
    corners = tracking.path(40)[:FRAMES]
    detections = [tracking.detect(tracking.frame(picture, x, k), 40) for k, x in enumerate(corners)]
    right = dict.fromkeys(("match", "match_greedily"), 0)
    pairs = 0
    for (before, after), (here, there) in zip(
        itertools.pairwise(detections), itertools.pairwise(corners), strict=True
    ):
        cost = tracking.costs_of(before, after)
        values = {}
        for name in ("match", "match_by_scipy", "match_greedily"):
            i, j = getattr(tracking, name)(cost)
            values[name] = cost[i, j].sum() - tracking.LIMIT * len(i)
            seen = np.linalg.norm(before[0][i] + here - after[0][j] - there, axis=1) <= tracking.NEAR
            if name in right:
                right[name] += int(seen.sum())
            pairs += len(i) if name == "match" else 0
        assert abs(values["match"] - values["match_by_scipy"]) <= 1e-12
        assert values["match"] <= values["match_greedily"] + 1e-12
    # Most corners are seen again, and few pairs are of two places.
    assert (
        pairs >= 20 * (FRAMES - 1)
        and right["match"] >= 0.9 * pairs
        and right["match"] >= right["match_greedily"]
    )
