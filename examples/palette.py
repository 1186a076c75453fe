"""Palettes of a photograph: colours that any number of pixels share, and colours that equally many share.

    python examples/palette.py [--photo china.jpg] [--colours 8] [--spread 0.02] -o palette.png

Pixels are clustered by their colours, once by k-means and once by otattn.cluster.BalancedKMeans with cluster
sizes within `spread` of equal, and drawn in the means of their clusters. The picture shows the photograph and
both, each above its palette, in which a colour is as wide as its share of the pixels. Wants scikit-learn and
pillow (bench/requirements-pairs.txt).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from otattn.cluster import BalancedKMeans
from PIL import Image
from sklearn.datasets import load_sample_image

# Every other pixel each way is kept.
STEP = 2
BAND = 24
GAP = 8


def drawn(pixels: Any, labels: Any, centres: Any, shape: tuple[int, int]) -> Any:
    """The picture in the centres' colours, [rows, columns, 3], above the palette, darkest colour first."""
    rows, columns = shape
    order = np.argsort(centres @ np.array([0.299, 0.587, 0.114]))
    ends = np.round(np.cumsum(np.bincount(labels, minlength=len(centres))[order]) / len(pixels) * columns)
    band = centres[order][np.searchsorted(ends, np.arange(columns), side="right")]
    picture = centres[labels].reshape(rows, columns, 3)
    return np.concatenate((picture, np.full((GAP, columns, 3), 255.0), np.repeat(band[None], BAND, 0)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photo", default="china.jpg", help="of scikit-learn's: china.jpg or flower.jpg")
    parser.add_argument("--colours", type=int, default=8)
    parser.add_argument("--spread", type=float, default=0.02, help="of cluster sizes about equal ones")
    parser.add_argument("-o", "--output", type=Path, default=Path("palette.png"))
    options = parser.parse_args()
    photo = load_sample_image(options.photo)[::STEP, ::STEP].astype(np.float64)
    shape, pixels = photo.shape[:2], photo.reshape(-1, 3)
    equal = len(pixels) / options.colours
    bounds = {
        "any": (None, None),
        "equal": (int(np.floor(equal * (1 - options.spread))), int(np.ceil(equal * (1 + options.spread)))),
    }
    blank = np.full((GAP + BAND, shape[1], 3), 255.0)
    panels = [np.concatenate((photo, blank))]
    print(f"{len(pixels)} pixels of {options.photo}, {options.colours} colours")
    for name, (least, largest) in bounds.items():
        begun = time.perf_counter()
        found = BalancedKMeans(options.colours, size_min=least, size_max=largest, n_init=4, random_state=0)
        labels = found.fit_predict(pixels)
        sizes = np.bincount(labels, minlength=options.colours)
        error = np.sqrt(((pixels - found.cluster_centers_[labels]) ** 2).mean())
        print(
            f"{name} sizes: {sizes.min()} to {sizes.max()} pixels a colour, error {error:.2f} of 255, "
            f"{time.perf_counter() - begun:.2f} s"
        )
        panels.append(drawn(pixels, labels, found.cluster_centers_, shape))
    between = np.full((len(panels[0]), GAP, 3), 255.0)
    whole = np.concatenate([part for panel in panels for part in (between, panel)][1:], 1)
    Image.fromarray(whole.round().astype(np.uint8)).save(options.output, optimize=True)


if __name__ == "__main__":
    main()
