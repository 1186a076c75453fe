"""Writes normalize_vectors.h: matrices, plans and gradients of otattn_normalize.h, in 60 decimal digits.

    python3 tests/reference/make_normalize_vectors.py [--check]

Needs the standard library alone. Derivatives are taken forward, entry by entry, with dual numbers, so they
share nothing with the code in reverse that they judge. --check: fail where the file is not what this script
writes.
"""

from __future__ import annotations

import sys
from decimal import Decimal, getcontext
from pathlib import Path

TARGET = Path(__file__).with_name("normalize_vectors.h")
getcontext().prec = 60
ZERO, ONE = Decimal(0), Decimal(1)
CASES = [
    ("deepseek", 4, 20, "1e-6"),
    ("deepseek", 4, 1, "1e-6"),
    ("deepseek", 2, 3, "0.001"),
    ("deepseek", 3, 20, "0"),
    ("deepseek", 7, 5, "1e-6"),
    ("symmetric", 4, 20, "0"),
    ("symmetric", 3, 2, "0"),
    ("symmetric", 5, 100, "0"),
]
HEAD = """/* Written by make_normalize_vectors.py in 60 digits; do not edit. Engines may copy these numbers:
 * scores [n][n], the plan, and the gradient of the scores of L = sum plan_grad plan. */
#ifndef OTA_NORMALIZE_VECTORS_H
#define OTA_NORMALIZE_VECTORS_H

typedef struct normalize_vector {
    int symmetric, n, rounds;
    double eps;
    double scores[49], plan_grad[49], plan[49], scores_grad[49];
} normalize_vector;

static const normalize_vector NORMALIZE_VECTORS[] = {
"""


class Dual:
    """A number and its derivatives along some directions."""

    def __init__(self, value: Decimal, slopes: list[Decimal]) -> None:
        self.value, self.slopes = value, slopes

    def __add__(self, other: Dual) -> Dual:
        return Dual(self.value + other.value, [a + b for a, b in zip(self.slopes, other.slopes, strict=True)])

    def __truediv__(self, other: Dual) -> Dual:
        ratio = self.value / other.value
        pairs = zip(self.slopes, other.slopes, strict=True)
        return Dual(ratio, [(a - ratio * b) / other.value for a, b in pairs])

    def exp(self) -> Dual:
        power = self.value.exp()
        return Dual(power, [power * a for a in self.slopes])


def sum_of(terms: list[Dual]) -> Dual:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def divided(lines: list[list[Dual]], eps: Dual) -> list[list[Dual]]:
    return [[x / (sum_of(line) + eps) for x in line] for line in lines]


def turned(lines: list[list[Dual]]) -> list[list[Dual]]:
    return [list(line) for line in zip(*lines, strict=True)]


def plan_of(order: str, rounds: int, eps: Dual, scores: list[list[Dual]]) -> list[list[Dual]]:
    none = Dual(ZERO, [ZERO] * len(eps.slopes))
    x = [[s.exp() for s in row] for row in scores]
    if order == "deepseek":
        x = [[weight + eps for weight in row] for row in divided(x, none)]
        x = turned(divided(turned(x), eps))
        rounds -= 1
    for _ in range(rounds):
        x = divided(x, eps)
        x = turned(divided(turned(x), eps))
    return x


def draw(state: int) -> tuple[int, float]:
    """A number within [-4, 4) that f32 holds exactly."""
    state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
    return state, ((state >> 44) - (1 << 19)) / (1 << 17)


def numbers(values: list[float]) -> str:
    return "{" + ", ".join(f"{value!r}" for value in values) + "}"


def case(seed: int, order: str, n: int, rounds: int, eps: str) -> str:
    state, scores, upstream = seed, [], []
    for _ in range(n * n):
        state, score = draw(state)
        state, grad = draw(state)
        scores.append(score)
        upstream.append(grad / 4)
    size = n * n
    along = [[ONE if a == b else ZERO for b in range(size)] for a in range(size)]
    s = [[Dual(Decimal(scores[i * n + j]), along[i * n + j]) for j in range(n)] for i in range(n)]
    found = [x for row in plan_of(order, rounds, Dual(Decimal(eps), [ZERO] * size), s) for x in row]
    grads = [
        float(sum((Decimal(g) * x.slopes[e] for g, x in zip(upstream, found, strict=True)), ZERO))
        for e in range(size)
    ]
    plan = [float(x.value) for x in found]
    fields = ",\n     ".join(numbers(part) for part in (scores, upstream, plan, grads))
    return f"    {{{int(order == 'symmetric')}, {n}, {rounds}, {eps},\n     {fields}}},\n"


def main() -> int:
    body = "".join(case(k + 1, *row) for k, row in enumerate(CASES))
    text = HEAD.replace("/* Written", "/* clang-format off */\n/* Written") + body + "};\n\n#endif\n"
    if "--check" in sys.argv[1:]:
        if TARGET.read_text(encoding="utf-8") != text:
            print(f"{TARGET.name} is not what make_normalize_vectors.py writes")
            return 1
        return 0
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
