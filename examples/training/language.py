"""Trains a causal model of bytes on a text, with any attention method that a causal model can use.

The first 90 % of the text train; bits a byte are reported on the rest, every byte of it once, with at
least half a context before it (the first ones excepted). sink_rate is the share of heads whose
queries give the first key more than 0.3 of their mass on average, first_key that mass averaged over heads.

language.py --hidden 0.25    hides so many bytes at random, to be found from those before and behind them

takes any method, since no query is kept from any key; bits are those of the hidden bytes alone.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from layers import Block
from loop import Batch, classified, parser, run_all
from torch import Tensor, nn

METHODS = ["torch", "softmax", "entmax:1.5", "softmax/online:4", "softmax/prefix"]
SINK = 0.3
HIDDEN = 256  # what stands for a hidden byte
# The raw test part of WikiText-2: where it lies beside the checkout, or in the folder of the call.
TEXTS = (Path("../shared/data/text/wikitext-2-raw.test.txt"), Path("wikitext-2-raw.test.txt"))


class Strings(nn.Module):
    """Bytes (batch, context) to the sum of learned vectors of the strings of 2, 3, ... bytes that end there.

    A hash picks the row of a string, in a table of its own for every length. A text as short as this has
    most long strings once or twice, so their vectors are left out at random lest the model learn it by heart.
    """

    STEP = 5.0

    def __init__(self, longest: int, rows: int, width: int, dropout: float) -> None:
        super().__init__()
        self.longest, self.rows, self.dropout = longest, rows, dropout
        # AdamW moves an entry by about the learning rate; rows that are seldom met get STEP times that.
        self.table = nn.Parameter(0.02 / self.STEP * torch.randn((longest - 1) * rows, width // 2))
        self.out = nn.Linear(width // 2, width, bias=False)

    def keys(self, text: Tensor) -> Tensor:
        """(batch, context, lengths): rows in the table."""
        found, key = [], text
        for k in range(1, self.longest):
            before = nn.functional.pad(text, (k, 0))[:, : text.shape[1]]
            key = (key * 1_000_000_007 + before) % (2**31 - 1)
            found.append(key % self.rows + (k - 1) * self.rows)
        return torch.stack(found, -1)

    def forward(self, text: Tensor) -> Tensor:
        keys = self.keys(text).flatten(0, 1)
        steps = torch.full(keys.shape, self.STEP, device=text.device)
        kept = nn.functional.dropout(steps, self.dropout, self.training)
        x = nn.functional.embedding_bag(keys, self.table, per_sample_weights=kept, mode="sum")
        return self.out(x).unflatten(0, text.shape)


class Transformer(nn.Module):
    """Bytes (batch, context) to logits of the next or hidden ones (batch, context, 256)."""

    def __init__(
        self,
        method: str,
        context: int,
        width: int,
        depth: int,
        heads: int,
        dropout: float,
        strings: int,
        rows: int,
        string_dropout: float,
        causal: bool = True,
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(HIDDEN if causal else HIDDEN + 1, width)
        # Bytes mean little by themselves: a sum over the last four, each with its own map of channels.
        self.near = nn.Conv1d(width, width, 4, groups=width)
        self.places = nn.Parameter(0.1 * torch.randn(context, width))
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(method, width, heads, causal=causal, dropout=dropout) for _ in range(depth)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256)
        self.strings = Strings(strings, rows, width, string_dropout) if strings > 1 else None

    def tokens(self, text: Tensor) -> Tensor:
        x = self.embed(text)
        near = self.near(nn.functional.pad(x.transpose(1, 2), (3, 0))).transpose(1, 2)
        x = x + near + self.places[: text.shape[1]]
        return self.drop(x if self.strings is None else x + self.strings(text))

    def forward(self, text: Tensor) -> Tensor:
        x = self.tokens(text)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def first_key_mass(self, text: Tensor) -> Tensor:
        """(layers, heads): mean weight on the first key over the batch and the queries behind the first."""
        x, found = self.tokens(text.to(self.places.device)), []
        for block in self.blocks:
            assert isinstance(block, Block)
            found.append(block.weights(x)[:, :, 1:, 0].double().mean((0, 2)))
            x = block(x)
        return torch.stack(found)


class Language:
    metric = "bits"

    def __init__(self, path: Path, context: int, sizes: dict[str, Any], judged: int) -> None:
        if not path.is_file():
            places = " or ".join(map(str, TEXTS))
            raise SystemExit(f"{path} is missing; give the text with --text, or put it at {places}")
        text = torch.from_numpy(np.fromfile(path, np.uint8)).long()
        cut = len(text) * 9 // 10
        self.train, self.rest = text[:cut], text[cut:]
        self.name = f"language-{context}"
        self.context, self.sizes, self.judged = context, sizes, judged
        self.facts = {"text": path.name, "bytes": len(text), "context": context, "judged": judged, **sizes}

    def model(self, method: str) -> nn.Module:
        return Transformer(method, self.context, **self.sizes)

    def batch(self, generator: torch.Generator, size: int) -> Batch:
        starts = torch.randint(len(self.train) - self.context, (size, 1), generator=generator)
        windows = self.train[starts + torch.arange(self.context + 1)]
        return windows[:, :-1], windows[:, 1:]

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return classified(outputs, targets)

    def evaluate(self, model: nn.Module, last: bool) -> dict[str, float]:
        text = self.rest if last else self.rest[: self.judged]
        inputs, targets = self.windows(text)
        assert isinstance(model, Transformer)
        nats = torch.zeros((), dtype=torch.float64)
        for part, wanted in zip(inputs.split(16), targets.split(16), strict=True):
            loss = nn.functional.cross_entropy(model(part).flatten(0, 1), wanted.flatten(), reduction="none")
            nats += loss.double().sum()
        counted = int((targets >= 0).sum())
        mass = model.first_key_mass(inputs[:4]).cpu()
        return {
            "bits": nats.item() / counted / math.log(2.0),
            "judged_bytes": counted,
            "sink_rate": (mass > SINK).double().mean().item(),
            "first_key": mass.mean().item(),
        }

    def windows(self, text: Tensor) -> Batch:
        """Windows that begin every half context, one at the end; targets of the window before are -100."""
        end = len(text) - 1 - self.context
        starts = torch.tensor([*range(0, end, self.context // 2), end])
        found = text[starts[:, None] + torch.arange(self.context + 1)]
        inputs, targets = found[:, :-1], found[:, 1:].clone()
        seen = (self.context - starts.diff())[:, None] > torch.arange(self.context)
        targets[1:] = targets[1:].masked_fill(seen, -100)
        return inputs, targets


class Cloze(Language):
    """Bytes hidden at random, to be found from those that are not."""

    def __init__(self, path: Path, context: int, sizes: dict[str, Any], judged: int, hidden: float) -> None:
        super().__init__(path, context, sizes, judged)
        self.name, self.hidden = f"cloze-{context}", hidden
        self.facts["hidden"] = hidden

    def model(self, method: str) -> nn.Module:
        return Transformer(method, self.context, **self.sizes, causal=False)

    def hide(self, windows: Tensor, generator: torch.Generator) -> Batch:
        """The windows without the hidden bytes, and targets that are -100 at all others."""
        hidden = torch.rand(tuple(windows.shape), generator=generator) < self.hidden
        return windows.masked_fill(hidden, HIDDEN), windows.masked_fill(~hidden, -100)

    def batch(self, generator: torch.Generator, size: int) -> Batch:
        return self.hide(super().batch(generator, size)[0], generator)

    def windows(self, text: Tensor) -> Batch:
        """Windows side by side, without the rest of the text; the same bytes are hidden for every model."""
        found = text[: len(text) // self.context * self.context].view(-1, self.context)
        return self.hide(found, torch.Generator().manual_seed(10**6))


def add_text(flags: argparse.ArgumentParser) -> None:
    """--text, by default the first of TEXTS that is there."""
    found = next(filter(Path.is_file, TEXTS), TEXTS[-1])
    flags.add_argument("--text", type=Path, default=found, metavar="FILE", help=f"bytes to learn ({found})")


def main(arguments: list[str] | None = None) -> bool:
    flags = parser(__doc__.splitlines()[0], METHODS, 700, 16, 4e-3)
    add_text(flags)
    flags.add_argument("--context", type=int, default=128)
    flags.add_argument("--width", type=int, default=128)
    flags.add_argument("--depth", type=int, default=2)
    flags.add_argument("--heads", type=int, default=4)
    flags.add_argument("--dropout", type=float, default=0.0)
    flags.add_argument("--strings", type=int, default=6, help="longest string with a vector of its own, or 1")
    flags.add_argument("--rows", type=int, default=16384, help="of the table of each length of strings")
    flags.add_argument("--string-dropout", type=float, default=0.3)
    flags.add_argument(
        "--judged", type=int, default=10000, help="bytes judged before the last step, which judges all"
    )
    flags.add_argument(
        "--hidden", type=float, default=0.0, help="share of bytes to be found; 0: the next byte is"
    )
    options = flags.parse_args(arguments)
    names = ("width", "depth", "heads", "dropout", "strings", "rows", "string_dropout")
    sizes = {name: getattr(options, name) for name in names}
    if options.hidden > 0.0:
        task: Language = Cloze(options.text, options.context, sizes, options.judged, options.hidden)
    else:
        task = Language(options.text, options.context, sizes, options.judged)
    return run_all(task, options)


if __name__ == "__main__":
    sys.exit(0 if main() else 3)
