"""Draws docs/images/rule.svg: one head of a trained model under three rules, as the program computes them.

draw_rule.py PROGRAM [--check]

The head is the first of data/demo/minilm.safetensors. Colours follow the reader's scheme. --check draws
nothing and fails where the file differs from what would be drawn by more than the last digit of a number,
which processors may round differently.
"""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from safetensors import safe_open

ROOT = Path(__file__).resolve().parents[1]
IMAGE = ROOT / "docs" / "images" / "rule.svg"
RULES = (
    ("softmax", "every query gives 1"),
    ("softmax/capped:2", "and no key receives more than 2"),
    ("softmax/exact", "and every key receives 1"),
)
CELL, LEFT, TOP, GAP, BARS, NAMES = 11, 74, 46, 34, 66, 62
STYLE = """svg { color: #1b1f24; --cell: #0a5fa4; --line: #d8dee4; --faint: #57606a }
@media (prefers-color-scheme: dark) {
svg { color: #e6e9ee; --cell: #6cb6ff; --line: #3d444d; --faint: #9aa4b2 } }
text { font: 9px system-ui, sans-serif; fill: currentColor } .faint { fill: var(--faint) }
.rule { font: 600 13px ui-monospace, monospace }
.cell { fill: var(--cell) } .frame { fill: none; stroke: var(--line) }"""
UNIT = 0.02


def head() -> tuple[list[str], np.ndarray]:
    with safe_open(ROOT / "data" / "demo" / "minilm.safetensors", "numpy") as file:
        q, k = (file.get_tensor(name)[0].astype(np.float64) for name in ("query", "key"))
        return json.loads(file.metadata()["tokens"]), q @ k.T / np.sqrt(q.shape[1])


def plan(program: str, scores: np.ndarray, method: str, folder: Path) -> np.ndarray:
    np.save(folder / "scores.npy", scores)
    words = [program, "plan", "scores.npy", "--method", method, "-f", "-o", "plan.npy"]
    subprocess.run(words, cwd=folder, check=True, capture_output=True)
    return np.load(folder / "plan.npy")


def text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{more}>{html.escape(words)}</text>'


def panel(x: int, weights: np.ndarray, rule: tuple[str, str], tokens: list[str]) -> list[str]:
    size = CELL * len(tokens)
    received = weights.sum(0)
    base = TOP + size + 8 + BARS
    lines = [text(x, 16, rule[0], ' class="rule"'), text(x, 32, rule[1], ' class="faint"')]
    lines.append(f'<rect class="frame" x="{x}" y="{TOP}" width="{size}" height="{size}"/>')
    for i, j in np.ndindex(weights.shape):
        shade = np.sqrt(weights[i, j])
        if shade >= UNIT:
            place = f'x="{x + CELL * j}" y="{TOP + CELL * i}" width="{CELL}" height="{CELL}"'
            lines.append(f'<rect class="cell" {place} opacity="{shade:.2f}"/>')
    for j, mass in enumerate(received):
        height = mass * BARS / 17
        place = f'x="{x + CELL * j + 1}" y="{base - height:.1f}" width="{CELL - 2}" height="{height:.1f}"'
        lines.append(f'<rect class="cell" {place}/>')
        turned = f' class="faint" text-anchor="end" transform="rotate(-90 {x + CELL * j + 8} {base + 5})"'
        lines.append(text(x + CELL * j + 8, base + 5, tokens[j], turned))
    said = f"fullest token: {received.max():.1f}"
    lines.append(text(x + size, TOP + size + 20, said, ' text-anchor="end"'))
    return lines


def picture(program: str) -> str:
    tokens, scores = head()
    size = CELL * len(tokens)
    width = LEFT + len(RULES) * (size + GAP) - GAP + 6
    height = TOP + size + 8 + BARS + NAMES
    said = (
        "Weights of one head of MiniLM on 21 tokens under three rules, and the mass that every token receives"
    )
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{said}">',
        f"<style>{STYLE}</style>",
    ]
    for i, token in enumerate(tokens):
        lines.append(text(LEFT - 6, TOP + CELL * i + 9, token, ' class="faint" text-anchor="end"'))
    lines.append(text(LEFT - 6, TOP + size + 8 + BARS, "received", ' text-anchor="end"'))
    with tempfile.TemporaryDirectory() as folder:
        for number, rule in enumerate(RULES):
            weights = plan(program, scores, rule[0], Path(folder))
            lines += panel(LEFT + number * (size + GAP), weights, rule, tokens)
    return "\n".join([*lines, "</svg>"]) + "\n"


NUMBER = re.compile(r"\d+\.\d+")


def same(one: str, other: str) -> bool:
    """Whether two pictures differ by the last digits of numbers at most."""
    if NUMBER.sub("#", one) != NUMBER.sub("#", other):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    return all(abs(float(a) - float(b)) <= 1.01 * 10.0 ** -len(a.split(".")[1]) for a, b in pairs)


def main(words: list[str]) -> int:
    program = str(Path(words[0]).resolve())
    drawn = picture(program)
    if "--check" not in words:
        IMAGE.write_text(drawn, encoding="utf-8")
        print(IMAGE.relative_to(ROOT))
        return 0
    if same(drawn, IMAGE.read_text(encoding="utf-8")):
        return 0
    print(f"{IMAGE.relative_to(ROOT)} is not what the program computes: ./dev docs --draw", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
