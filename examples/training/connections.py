"""Trains a deep causal model of bytes whose layers are joined by streams, mixed with and without bounds.

Every token has STREAMS vectors X (streams x width). A block reads one vector from them, r X, and joins its
answer y [zhu2025]:

    X <- A X + w y        A (streams x streams), r and w from the token itself

Methods say what A is. residual: one stream, X + y; free: I + scores; normalized: sinkhorn_normalize(scores),
doubly stochastic [xie2025]. A product of doubly stochastic matrices is one; of free ones, it may
grow with the depth. `gain` is the largest sum of absolute entries of a row or column of A_L ... A_1, over
the tokens of judged text; `gradient` the largest norm of a gradient in training since the last judgement,
before it is cut to 1.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import otattn
import torch
from language import Language, Transformer, add_text
from layers import Block
from loop import parser, run_all
from torch import Tensor, nn

METHODS = ["residual", "free", "normalized"]
# By how much scores differ at first: the mixing matrix's diagonal, and the stream that a block reads.
APART = 4.0


class Streams(nn.Module):
    """A block between streams (batch, tokens, streams, width)."""

    def __init__(self, method: str, width: int, heads: int, streams: int, place: int) -> None:
        super().__init__()
        self.method, self.streams = method, streams
        self.block = Block("softmax", width, heads, causal=True)
        self.norm = nn.LayerNorm(streams * width)
        self.read = nn.Linear(streams * width, streams * (streams + 2))
        # Nothing depends on the token at first, and blocks read the streams in turn.
        nn.init.zeros_(self.read.weight)
        nn.init.zeros_(self.read.bias)
        with torch.no_grad():
            self.read.bias[place % streams] = APART
        self.mixed: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        n = self.streams
        into, out, scores = self.read(self.norm(x.flatten(-2))).split([n, n, n * n], -1)
        scores = scores.unflatten(-1, (n, n))
        unit = torch.eye(n, device=x.device)
        mix = unit + scores if self.method == "free" else otattn.sinkhorn_normalize(scores + APART * unit)
        self.mixed = mix.detach()
        y = (into.softmax(-1).unsqueeze(-1) * x).sum(-2)
        # A block is x + f(x); the streams keep x themselves.
        y = self.block(y) - y
        mixed: Tensor = mix @ x + 2.0 * out.sigmoid().unsqueeze(-1) * y.unsqueeze(-2)
        return mixed


class Deep(Transformer):
    """The model of language.py with streams between its blocks."""

    largest: Tensor
    """Norm of a gradient since the last judgement."""

    def __init__(self, method: str, context: int, streams: int, sizes: dict[str, Any]) -> None:
        super().__init__("softmax", context, **sizes)
        self.streams = streams
        # A buffer, so that a stopped run goes on with it.
        self.register_buffer("largest", torch.zeros(()))
        if method != "residual":
            for k in range(len(self.blocks)):
                self.blocks[k] = Streams(method, sizes["width"], sizes["heads"], streams, k)

    def forward(self, text: Tensor) -> Tensor:
        x = self.tokens(text)
        if not isinstance(self.blocks[0], Streams):
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))
        x = x.unsqueeze(-2).expand(-1, -1, self.streams, -1)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x.mean(-2)))

    def first_key_mass(self, text: Tensor) -> Tensor:
        return torch.zeros(1)

    def gain(self) -> float:
        """Of the last forward; 1 where there is one stream."""
        product: Tensor | None = None
        for block in self.blocks:
            if isinstance(block, Streams):
                assert block.mixed is not None
                product = block.mixed if product is None else block.mixed @ product
        if product is None:
            return 1.0
        return float(torch.maximum(product.abs().sum(-1).amax(), product.abs().sum(-2).amax()))


class Connections(Language):
    """The task of language.py."""

    def __init__(self, path: Path, context: int, sizes: dict[str, Any], judged: int, streams: int) -> None:
        super().__init__(path, context, sizes, judged)
        self.name, self.streams = f"connections-{sizes['depth']}", streams
        self.facts["streams"] = streams

    def model(self, method: str) -> nn.Module:
        if method not in METHODS:
            raise SystemExit(f"method is {method!r}, wanted one of {', '.join(METHODS)}")
        model = Deep(method, self.context, self.streams, self.sizes)
        squares: list[Tensor] = []

        def note(parameter: Tensor) -> None:
            assert parameter.grad is not None
            squares.append((parameter.grad.detach() ** 2).sum())
            if len(squares) == count:
                model.largest.clamp_(min=torch.stack(squares).sum().sqrt())
                squares.clear()

        count = len(list(model.parameters()))
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(note)
        return model

    def evaluate(self, model: nn.Module, last: bool) -> dict[str, float]:
        found = super().evaluate(model, last)
        assert isinstance(model, Deep)
        model(self.windows(self.rest[: self.judged])[0][:16])
        largest = model.largest.item()
        model.largest.zero_()
        return {
            "bits": found["bits"],
            "judged_bytes": found["judged_bytes"],
            "gain": model.gain(),
            "gradient": largest,
        }


def main(arguments: list[str] | None = None) -> bool:
    flags = parser(__doc__.splitlines()[0], METHODS, 300, 16, 4e-3)
    add_text(flags)
    flags.add_argument("--context", type=int, default=64)
    flags.add_argument("--width", type=int, default=48)
    flags.add_argument("--depth", type=int, default=12)
    flags.add_argument("--heads", type=int, default=2)
    flags.add_argument("--streams", type=int, default=4)
    flags.add_argument("--judged", type=int, default=10000)
    options = flags.parse_args(arguments)
    sizes = {"width": options.width, "depth": options.depth, "heads": options.heads, "dropout": 0.0}
    sizes |= {"strings": 1, "rows": 1, "string_dropout": 0.0}
    return run_all(
        Connections(options.text, options.context, sizes, options.judged, options.streams), options
    )


if __name__ == "__main__":
    sys.exit(0 if main() else 3)
