"""A trained vision transformer under other methods: predictions against softmax's, and who receives.

    python scripts/study_vit.py MODEL PIXELS -o FOLDER [--method softmax softmax/exact ...] [--labels LABELS]

MODEL is a folder or a name on the hub (google/vit-base-patch16-224), run through transformers with otattn's
methods. PIXELS is an .npy file [images, channels, side, side], as the model's image processor makes them,
LABELS one of whole numbers [images]. FOLDER gets

    methods.csv     a line a method: agreement of the likeliest class with softmax, mean KL divergence from
                    softmax's prediction, accuracy where there are labels
    receivers.csv   a line a method, layer and head: largest receiver mass (1 is an even share) and the
                    mass of the class token, means over images
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np
import otattn
import torch
from transformers import AutoModelForImageClassification

METHODS = [
    "softmax",
    "softmax/capped:2",
    "softmax/relaxed:1",
    "softmax/elastic:0.5,4",
    "softmax/exact",
    "entmax:1.5",
]


def run(model: Any, pixels: torch.Tensor, batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities [images, classes] and receiver masses [images, layers, heads, keys]."""
    outputs, masses = [], []
    with torch.no_grad():
        for part in pixels.split(batch):
            found = model(part, output_attentions=True)
            outputs.append(found.logits.double().log_softmax(-1))
            masses.append(torch.stack([layer.double().sum(-2) for layer in found.attentions], 1))
    return torch.cat(outputs), torch.cat(masses)


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("pixels", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--method", nargs="+", default=METHODS, metavar="M")
    parser.add_argument("--labels", type=Path)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    otattn.set_num_threads(options.threads)
    pixels = torch.from_numpy(np.load(options.pixels).astype(np.float32))
    labels = torch.from_numpy(np.load(options.labels)) if options.labels else None
    if pixels.ndim != 4 or (labels is not None and labels.shape != pixels.shape[:1]):
        parser.error("PIXELS must be [images, channels, side, side], and LABELS [images]")
    methods = ["softmax", *(method for method in options.method if method != "softmax")]
    names = dict(zip(methods, otattn.hf.register(*methods), strict=True))
    model = AutoModelForImageClassification.from_pretrained(
        options.model, attn_implementation=names["softmax"]
    ).eval()
    whole: torch.Tensor | None = None
    rows: list[dict[str, Any]] = []
    receivers: list[dict[str, Any]] = []
    for method in methods:
        model.set_attn_implementation(names[method])
        logs, mass = run(model, pixels, options.batch)
        whole = logs if whole is None else whole
        row: dict[str, Any] = {"method": method, "images": len(logs)}
        row["agreement"] = (logs.argmax(-1) == whole.argmax(-1)).double().mean().item()
        row["kl"] = (whole.exp() * (whole - logs)).sum(-1).mean().item()
        row["accuracy"] = "" if labels is None else (logs.argmax(-1) == labels).double().mean().item()
        rows.append(row)
        print(", ".join(f"{name} {value}" for name, value in row.items() if value != ""))
        most, first = mass.amax(-1).mean(0), mass[..., 0].mean(0)
        receivers += [
            {"method": method, "layer": layer, "head": head, "largest": most[layer, head].item(),
             "class_token": first[layer, head].item()}
            for layer in range(most.shape[0]) for head in range(most.shape[1])
        ]  # fmt: skip
    options.output.mkdir(parents=True, exist_ok=True)
    write(options.output / "methods.csv", rows)
    write(options.output / "receivers.csv", receivers)


if __name__ == "__main__":
    main()
