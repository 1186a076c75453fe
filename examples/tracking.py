"""Follows points of a photograph that a camera pans over: detections of frames, matched.

    python examples/tracking.py [--photo china.jpg] [--frames 40] [--points 100]

A frame is a window of one of scikit-learn's photographs, moved by fractions of a pixel, with its brightness
drifting and the noise of a sensor. Detections are the strongest corners, boxes of 24 pixels around them; the
cost of a pair is

    cost = w (1 - intersection / union of the boxes) + (1 - w) (1 - correlation of the patches) / 2

and pairs that cost `LIMIT` or more stay apart. Since the path of the camera is known, so is which pairs are
right. Wants scikit-learn, SciPy and pillow (bench/requirements-pairs.txt). `./dev bench --pairs --only
photograph` times solvers on these costs.
"""

from __future__ import annotations

import argparse
import itertools
import time
from typing import Any

import numpy as np
import otattn
from scipy import ndimage
from scipy.optimize import linear_sum_assignment

HEIGHT, WIDTH = 240, 400
BOX = 24
# Of the boxes; the rest is the patches'.
SHARE = 0.5
LIMIT = 0.6
# A pair is right where both boxes show the same place of the photograph, in pixels.
NEAR = 2.0


def photograph(name: str) -> Any:
    """Brightness, [rows, columns], 0 to 1."""
    from sklearn.datasets import load_sample_image

    return load_sample_image(name) @ np.array([0.299, 0.587, 0.114]) / 255


def path(frames: int) -> Any:
    """Where the window's corner is in every frame, [frames, 2]: a slow sweep that trembles."""
    time_of = np.linspace(0.0, 1.0, frames)
    sweep = np.stack((90 * np.sin(3 * time_of) ** 2, 200 * time_of), 1)
    return 20 + sweep + np.random.default_rng(1).normal(0.0, 1.0, (frames, 2))


def frame(photo: Any, corner: Any, number: int) -> Any:
    """The window at a corner between pixels, as a sensor sees it."""
    rows = corner[0] + np.arange(HEIGHT)[:, None] + np.zeros(WIDTH)
    columns = corner[1] + np.arange(WIDTH) + np.zeros((HEIGHT, 1))
    seen = ndimage.map_coordinates(photo, (rows, columns), order=1)
    noise = np.random.default_rng(number).normal(0.0, 0.01, seen.shape)
    return (1 + 0.1 * np.sin(number / 5)) * seen + noise


def detect(image: Any, points: int) -> tuple[Any, Any]:
    """Centres [points, 2] and patches [points, BOX * BOX] of mean 0 and norm 1, by falling strength."""
    smooth = ndimage.gaussian_filter(image, 1.0)
    down, right = np.gradient(smooth)
    a, b, c = (ndimage.gaussian_filter(x, 2.0) for x in (down * down, down * right, right * right))
    strength = (a + c) / 2 - np.sqrt((a - c) ** 2 / 4 + b * b)
    half = BOX // 2
    inner = np.zeros(image.shape, bool)
    inner[half : HEIGHT - half, half : WIDTH - half] = True
    peak = inner & (strength == ndimage.maximum_filter(strength, 5))
    centres = np.argwhere(peak)
    order = np.argsort(-strength[peak], kind="stable")[:points]
    centres = centres[order]
    offsets = np.arange(-half, half)
    patches = image[(centres[:, 0, None] + offsets)[:, :, None], (centres[:, 1, None] + offsets)[:, None, :]]
    patches = patches.reshape(len(centres), -1)
    patches = patches - patches.mean(1, keepdims=True)
    return centres, patches / (np.linalg.norm(patches, axis=1, keepdims=True) + 1e-9)


def costs_of(before: tuple[Any, Any], after: tuple[Any, Any]) -> Any:
    """The cost of every pair of detections of two frames."""
    apart = np.abs(before[0][:, None] - after[0][None])
    shared = np.clip(BOX - apart, 0, None).prod(-1)
    overlap = shared / (2 * BOX * BOX - shared)
    return SHARE * (1 - overlap) + (1 - SHARE) * (1 - before[1] @ after[1].T) / 2


def sequence(name: str, frames: int, points: int) -> tuple[list[tuple[Any, Any]], Any]:
    """Detections of every frame, and the path."""
    photo, corners = photograph(name), path(frames)
    return [detect(frame(photo, corner, k), points) for k, corner in enumerate(corners)], corners


def match(cost: Any) -> tuple[Any, Any]:
    pairs: tuple[Any, Any] = otattn.linear_sum_assignment(cost, cost_limit=LIMIT)
    return pairs


def match_by_scipy(cost: Any) -> tuple[Any, Any]:
    """The same: costs cut at the limit, then the pairs at the limit dropped."""
    rows, columns = linear_sum_assignment(np.minimum(cost, LIMIT))
    near = cost[rows, columns] < LIMIT
    return rows[near], columns[near]


def match_greedily(cost: Any) -> tuple[Any, Any]:
    """The cheapest pair that is left, again and again."""
    left, pairs = np.where(cost < LIMIT, cost, np.inf), []
    while left.size and np.isfinite(cheapest := left.min()):
        i, j = np.argwhere(left == cheapest)[0]
        pairs.append((i, j))
        left[i], left[:, j] = np.inf, np.inf
    found = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photo", default="china.jpg", choices=("china.jpg", "flower.jpg"))
    parser.add_argument("--frames", type=int, default=40)
    parser.add_argument("--points", type=int, default=100)
    given = parser.parse_args()
    # Times are of this thread's processor, so that other work on the machine counts less.
    otattn.set_num_threads(1)
    detections, corners = sequence(given.photo, given.frames, given.points)
    costs = [costs_of(*pair) for pair in itertools.pairwise(detections)]
    places = [centres + corner for (centres, _), corner in zip(detections, corners, strict=True)]
    possible = sum(
        int((np.linalg.norm(p[:, None] - q[None], axis=-1).min(1) <= NEAR).sum())
        for p, q in itertools.pairwise(places)
    )
    print(
        f"{given.photo}: {given.frames} frames, {sum(map(len, places))} detections, "
        f"{possible} of them seen again in the next frame"
    )
    print(f"{'':<10} {'pairs':>6} {'right':>6} {'cost':>8} {'us a frame':>11}")
    for name, way in (("otattn", match), ("SciPy", match_by_scipy), ("greedy", match_greedily)):
        way(costs[0])
        begin = time.thread_time()
        answers = [way(cost) for cost in costs]
        spent = 1e6 * (time.thread_time() - begin) / len(costs)
        right, pairs, value = 0, 0, 0.0
        for (i, j), cost, (p, q) in zip(answers, costs, itertools.pairwise(places), strict=True):
            right += int((np.linalg.norm(p[i] - q[j], axis=1) <= NEAR).sum())
            pairs += len(i)
            value += float(cost[i, j].sum()) + LIMIT * (min(cost.shape) - len(i))
        print(f"{name:<10} {pairs:>6} {right:>6} {value:>8.3f} {spent:>11.1f}")


if __name__ == "__main__":
    main()
