"""Six small tasks on which the theory expects attention methods to differ, trained with equal budgets.

tasks.py --task sort        rank the numbers of a set
tasks.py --task match       find each point's noisy copy in another set
tasks.py --task hubs        look values up among keys that every query resembles
tasks.py --task sinks       causal recall where half of the rows have nothing to recall; also 4 times longer
tasks.py --task noise       label points by neighbours of which 30 % carry a wrong label
tasks.py --task outliers    tell clouds of points apart of which a quarter are outliers

docs/research/training.md gives each task's reason and what it was expected to show before it was run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import clouds
import otattn
import torch
import torch.nn.functional as F
from layers import Block, attention_layer, spelling
from loop import Batch, parser, run_all
from torch import Tensor, nn

METHODS = [
    "softmax",
    "entmax:1.5",
    "entmax:1.5 learn=alpha",
    "softmax/exact",
    "softmax/relaxed:1",
    "softmax/capped:2",
    "softmax/capped:2 learn=cap",
    "softmax/elastic:0.5,4",
    "softmax/elastic:0.5,4{anneal=4:0.5:1}",
    "softmax/elastic:0.5,4 learn=strength,temperature",
]
HARDENED = ["softmax harden=0.1", "softmax/exact harden=0.1"]
# Columns of a plan whose rows are causal: these do not let later tokens change earlier rows.
CAUSAL = [
    "softmax",
    "softmax learn=temperature",
    "entmax:1.5",
    "entmax:1.5 learn=alpha",
    "softmax/online:2",
    "softmax/online:8",
]
WIDTH = 32


def steep(inputs: int, width: int = WIDTH) -> nn.Sequential:
    """Numbers (..., inputs) to tokens (..., width)."""
    return nn.Sequential(nn.Linear(inputs, 2 * width), nn.GELU(), nn.Linear(2 * width, width))


class Plan(nn.Module):
    """The plan (batch, queries, keys) of one head from tokens, and what it makes of given values."""

    def __init__(self, method: str) -> None:
        super().__init__()
        # Its maps of queries and keys and its learned numbers; values are not mapped.
        self.attention = attention_layer(method, WIDTH, 1)
        self.method = spelling(method).method

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Tokens (batch, n, WIDTH), (batch, m, WIDTH), values (batch, m, e) to (batch, n, e)."""
        to_queries, to_keys, _ = self.attention.in_proj_weight.chunk(3)
        q, k = (F.linear(x, w)[:, None] for x, w in ((queries, to_queries), (keys, to_keys)))
        found = otattn.attention(q, k, values[:, None], method=self.method, **self.attention.numbers())
        return found[:, 0]


# ---- the models: what is judged is a row of weights over keys, or what it makes of their labels ----


class Ranker(nn.Module):
    """Numbers (batch, n, 1) to a plan (batch, ranks, numbers)."""

    def __init__(self, method: str, size: int) -> None:
        super().__init__()
        self.embed, self.block = steep(1), Block(method, WIDTH, 2)
        self.ranks = nn.Parameter(torch.randn(size, WIDTH))
        self.plan = Plan(method)

    def forward(self, numbers: Tensor) -> Tensor:
        tokens = self.block(self.embed(4.0 * numbers - 2.0))
        each = torch.eye(numbers.shape[1], device=numbers.device).expand(numbers.shape[0], -1, -1)
        return self.plan(self.ranks.expand(numbers.shape[0], -1, -1), tokens, each)


class Matcher(nn.Module):
    """Two sets of points as (batch, 2, n, 3) to a plan (batch, n, n) from the first to the second."""

    def __init__(self, method: str) -> None:
        super().__init__()
        self.embed, self.plan = steep(3), Plan(method)

    def forward(self, points: Tensor) -> Tensor:
        first, second = (self.embed(x) for x in points.unbind(1))
        each = torch.eye(points.shape[2], device=points.device).expand(points.shape[0], -1, -1)
        return self.plan(first, second, each)


class Labeller(nn.Module):
    """Queries, keys and one-hot labels of keys as (batch, n + m, e + c) to label weights (batch, n, c)."""

    def __init__(self, method: str, queries: int, inputs: int) -> None:
        super().__init__()
        self.queries, self.inputs = queries, inputs
        self.embed, self.plan = steep(inputs), Plan(method)

    def forward(self, packed: Tensor) -> Tensor:
        tokens = self.embed(packed[..., : self.inputs])
        n = self.queries
        return self.plan(tokens[:, :n], tokens[:, n:], packed[:, n:, self.inputs :])


class Recaller(nn.Module):
    """Tokens (batch, tokens, inputs), each a key and a value, to logits (batch, tokens, values + 1)."""

    def __init__(self, method: str, inputs: int, values: int) -> None:
        super().__init__()
        self.embed = nn.Linear(inputs, WIDTH)
        self.first, self.second = (Block(method, WIDTH, 2, causal=True) for _ in range(2))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, values + 1))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.second(self.first(self.embed(tokens))))


# ---- the tasks ----


class Task(NamedTuple):
    """What `loop.Task` asks for, in parts."""

    name: str
    metric: str
    facts: dict[str, Any]
    make: Callable[[str], nn.Module]
    draw: Callable[[torch.Generator, int], Batch]
    """Inputs, and for each row of weights the number of its key or label (-100: not counted)."""
    logits: bool = False
    tests: dict[str, Batch] | None = None
    """Judged apart; the first is the task's measure."""

    def model(self, method: str) -> nn.Module:
        return self.make(method)

    def batch(self, generator: torch.Generator, size: int) -> Batch:
        return self.draw(generator, size)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        rows, wanted = outputs.flatten(0, -2), targets.flatten()
        if self.logits:
            return F.cross_entropy(rows, wanted)
        # Squares, since a weight may be exactly 0.
        return (rows - F.one_hot(wanted, rows.shape[-1])).square().sum(-1).mean()

    def evaluate(self, model: nn.Module, last: bool) -> dict[str, float]:
        found: dict[str, float] = {}
        for name, (inputs, targets) in (self.tests or {}).items():
            outputs = torch.cat([model(part) for part in inputs.split(64)])
            counted = targets >= 0
            right = (outputs.argmax(-1) == targets)[counted].double().mean().item()
            found[name] = right
            if not self.logits:
                found[f"{name}_peak"] = outputs.amax(-1).double().mean().item()
        return found


def uniform(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.rand(shape, generator=generator)


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator)


def held_out(draw: Callable[[torch.Generator, int], Batch], sets: int = 512) -> Batch:
    """The same for every method and seed."""
    return draw(torch.Generator().manual_seed(10**6), sets)


def sort() -> Task:
    size = 16

    def draw(generator: torch.Generator, batch: int) -> Batch:
        numbers = uniform(generator, batch, size)
        return numbers[..., None], numbers.argsort(1)

    tests = {"accuracy": held_out(draw)}
    return Task("sort", "accuracy", {"size": size}, lambda m: Ranker(m, size), draw, tests=tests)


def match() -> Task:
    size, noise = 16, 0.3

    def draw(generator: torch.Generator, batch: int) -> Batch:
        first = normal(generator, batch, size, 3)
        order = uniform(generator, batch, size).argsort(1)
        moved = first + noise * normal(generator, batch, size, 3)
        second = moved.gather(1, order[..., None].expand(-1, -1, 3))
        return torch.stack((first, second), 1), order.argsort(1)

    tests = {"accuracy": held_out(draw)}
    return Task("match", "accuracy", {"size": size, "noise": noise}, Matcher, draw, tests=tests)


def hubs() -> Task:
    size, hub_count, inputs, labels = 16, 8, 8, 8

    def draw(generator: torch.Generator, batch: int) -> Batch:
        keys = normal(generator, batch, size, inputs)
        # A common direction, another in each batch entry, so that no map can leave it out.
        common = normal(generator, batch, 1, inputs)
        keys = keys + common
        queries = keys + 0.5 * normal(generator, batch, size, inputs)
        distractors = common + 0.3 * normal(generator, batch, hub_count, inputs)
        label = torch.randint(labels, (batch, size + hub_count), generator=generator)
        tokens = torch.cat((queries, keys, distractors), 1)
        named = F.one_hot(torch.cat((torch.zeros_like(label[:, :size]), label), 1), labels)
        return torch.cat((tokens, named.float()), -1), label[:, :size]

    facts = {"size": size, "hubs": hub_count, "inputs": inputs, "labels": labels}
    tests = {"accuracy": held_out(draw)}
    return Task("hubs", "accuracy", facts, lambda m: Labeller(m, size, inputs), draw, tests=tests)


def noise() -> Task:
    size, labels, wrong = 32, 4, 0.3

    def points(generator: torch.Generator, batch: int) -> Batch:
        centres = 1.5 * normal(generator, batch, labels, 2)
        label = torch.randint(labels, (batch, size), generator=generator)
        where = centres.gather(1, label[..., None].expand(-1, -1, 2))
        return where + 0.7 * normal(generator, batch, size, 2), label

    def flipped(generator: torch.Generator, label: Tensor, share: float) -> Tensor:
        other = torch.randint(labels, tuple(label.shape), generator=generator)
        return torch.where(uniform(generator, *label.shape) < share, other, label)

    def drawn(generator: torch.Generator, batch: int, share: float) -> Batch:
        where, label = points(generator, 2 * batch)
        # The same centres for the neighbours as for the queries: both come from one draw of 2 size points.
        where, label = where[:batch], label[:batch]
        queries, keys = where[:, : size // 2], where[:, size // 2 :]
        asked, known = label[:, : size // 2], flipped(generator, label[:, size // 2 :], wrong)
        named = F.one_hot(torch.cat((torch.zeros_like(asked), known), 1), labels).float()
        tokens = torch.cat((queries, keys), 1)
        return torch.cat((tokens, named), -1), flipped(generator, asked, share)

    facts = {"size": size, "labels": labels, "wrong": wrong}
    tests = {"accuracy": held_out(lambda g, b: drawn(g, b, 0.0))}
    return Task(
        "noise",
        "accuracy",
        facts,
        lambda m: Labeller(m, size // 2, 2),
        lambda g, b: drawn(g, b, wrong),
        tests=tests,
    )


def sinks() -> Task:
    length, inputs, values = 64, 12, 4

    def drawn(generator: torch.Generator, batch: int, tokens: int) -> Batch:
        # Every key stands at two places. The second is to recall the value at the first; the first has
        # nothing to recall, and its answer is the last class. Before them stands a token of its own kind.
        half = tokens // 2
        place = uniform(generator, batch, tokens).argsort(1)
        key = torch.arange(half).repeat(2).expand(batch, -1).gather(1, place)
        value = torch.randint(values, (batch, tokens), generator=generator)
        same = (key[:, :, None] == key[:, None, :]).tril(-1)
        answer = torch.where(same.any(-1), (same.long() * value[:, None, :]).sum(-1), values)
        vectors = normal(generator, batch, half, inputs).gather(1, key[..., None].expand(-1, -1, inputs))
        pairs = torch.cat((vectors, 2.0 * F.one_hot(value, values + 1).float()), -1)
        begin = torch.zeros(batch, 1, inputs + values + 1)
        begin[..., -1] = 2.0
        return torch.cat((begin, pairs), 1), F.pad(answer, (1, 0), value=-100)

    def draw(generator: torch.Generator, batch: int) -> Batch:
        return drawn(generator, batch, length)

    tests = {
        "accuracy": held_out(draw, 128),
        "longer": held_out(lambda g, b: drawn(g, b, 4 * length), 64),
    }
    facts = {"length": length, "inputs": inputs, "values": values}
    sizes = inputs + values + 1, values
    return Task("sinks", "accuracy", facts, lambda m: Recaller(m, *sizes), draw, True, tests)


def outliers() -> Task:
    points, share, sizes = 64, 0.25, {"width": WIDTH, "depth": 2, "heads": 2}

    def draw(generator: torch.Generator, batch: int) -> Batch:
        cloud, label = clouds.draw(max(1, batch // len(clouds.SOLIDS)), points, 0.05, generator)
        stray = 6.0 * uniform(generator, *cloud.shape) - 3.0
        chosen = uniform(generator, *cloud.shape[:2], 1) < share
        return torch.where(chosen, stray, cloud), label

    facts = {"points": points, "share": share, **sizes}
    tests = {"accuracy": held_out(draw, 800)}
    return Task("outliers", "accuracy", facts, lambda m: clouds.SetTransformer(m, **sizes), draw, True, tests)


TASKS = {"sort": sort, "match": match, "hubs": hubs, "sinks": sinks, "noise": noise, "outliers": outliers}


def methods(task: str) -> list[str]:
    if task == "sinks":
        return CAUSAL
    return METHODS + (HARDENED if task in ("sort", "match") else [])


def main(arguments: list[str] | None = None) -> bool:
    flags = parser(__doc__.splitlines()[0], [], 400, 32, 4e-3)
    flags.add_argument("--task", nargs="+", choices=sorted(TASKS), default=list(TASKS))
    flags.set_defaults(seeds=5, evaluations=4)
    options = flags.parse_args(arguments)
    asked = options.method
    for name in options.task:
        options.method = asked or methods(name)
        if not run_all(TASKS[name](), options):
            return False
    return True


if __name__ == "__main__":
    sys.exit(0 if main() else 3)
