"""Trains a small vision transformer whose attention is doubly stochastic, on whatever device there is.

vit_any_device.py [--device cuda] [--steps 400] [--method softmax/exact]

Without --device it takes CUDA or ROCm, XPU or MPS where torch has one, and the CPU else, where the same
operations of torch run (backend="torch"; --backend cpu takes the library instead). The images are the 1797
digits of scikit-learn, 8 x 8 pixels in patches of 2 x 2; 360 of them are the test set. A minute on a CPU ends
above 0.9. It has never run on any device but a CPU.
"""

from __future__ import annotations

import argparse
import sys
import time

import otattn
import torch
from torch import Tensor, nn
from vision import digits

WIDTH, HEADS, DEPTH = 32, 2, 2


def best_device() -> str:
    """The first that is there of those that torch runs on."""
    for name in ("cuda", "xpu", "mps"):
        if getattr(torch, name).is_available():
            return name
    return "cpu"


class Block(nn.Module):
    """Tokens (batch, tokens, width) plus attention of their norm, plus two maps of their norm."""

    def __init__(self, method: str, backend: str) -> None:
        super().__init__()
        self.options = {"method": method, "backend": backend}
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.into, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.maps = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        parts = self.into(self.first(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = otattn.attention(q, k, v, **self.options)
        x = x + self.out(mixed.transpose(1, 2).flatten(-2))
        y: Tensor = x + self.maps(self.second(x))
        return y


class Transformer(nn.Module):
    """Pixels (batch, 8, 8) to logits (batch, 10), by the mean of the tokens."""

    def __init__(self, method: str, backend: str) -> None:
        super().__init__()
        self.embed = nn.Linear(4, WIDTH)
        self.places = nn.Parameter(0.5 * torch.randn(16, WIDTH))
        self.blocks = nn.Sequential(*(Block(method, backend) for _ in range(DEPTH)))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 10))

    def forward(self, pixels: Tensor) -> Tensor:
        patches = pixels.unfold(1, 2, 2).unfold(2, 2, 2).flatten(3).flatten(1, 2)
        y: Tensor = self.head(self.blocks(self.embed(patches) + self.places).mean(1))
        return y


def main(arguments: list[str] | None = None) -> float:
    flags = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    flags.add_argument("--device", default=best_device(), help="of torch (the best there is)")
    flags.add_argument("--steps", type=int, default=400)
    flags.add_argument("--batch", type=int, default=64)
    flags.add_argument("--rate", type=float, default=5e-3)
    flags.add_argument("--method", default="softmax/exact{rounds=4}")
    flags.add_argument("--backend", default="torch", help="'torch', or on a CPU 'cpu'")
    flags.add_argument("--threads", type=int, default=1, help="of the CPU")
    flags.add_argument("--seed", type=int, default=0)
    options = flags.parse_args(arguments)
    torch.set_num_threads(options.threads)
    otattn.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    images = digits()
    pixels, labels, test_pixels, test_labels = (x.to(options.device) for x in images)
    model = Transformer(options.method, options.backend).to(options.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.rate, options.steps + 1)
    begun, accuracy = time.perf_counter(), 0.0
    for step in range(1, options.steps + 1):
        # Drawn on the CPU, so that a seed gives the same batches on every device.
        chosen = torch.randint(len(labels), (options.batch,)).to(options.device)
        loss = nn.functional.cross_entropy(model(pixels[chosen]), labels[chosen])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % max(1, options.steps // 8) == 0 or step == options.steps:
            with torch.no_grad():
                accuracy = float((model(test_pixels).argmax(-1) == test_labels).float().mean())
            seconds = time.perf_counter() - begun
            print(
                f"{options.device} step {step}: loss {loss.item():.4f}, test accuracy {accuracy:.3f}, "
                f"{seconds:.1f} s",
                flush=True,
            )
    return accuracy


if __name__ == "__main__":
    main()
    sys.exit(0)
