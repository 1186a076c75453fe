"""Draws the folders of the tree as boxes by layer, by their lines, and what may include what.

Layers and arrows are those of check_layers.py, lines those of the tree, rounded to hundreds.

draw_house.py [-o FILE]    writes docs/development/house.svg, or FILE
draw_house.py --check      fails where the kept picture has other folders or arrows than the tree, lines that
                           are off by more than a fifth and 300, or an arrow behind a box
draw_house.py --self-test  plants one difference after another and expects each found
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from html import escape
from pathlib import Path

import check_layers

ROOT = Path(__file__).resolve().parent.parent
KEPT = "docs/development/house.svg"
CODE = {".c", ".h", ".py", ".pyi", ".cu", ".cuh"}
WIDTH, MARGIN, TALL, GAP, STEP = 960, 20, 46, 10, 78
JUDGE_WIDTH = 112
Arrow = tuple[str, str]
Place = tuple[float, float, float]


def count_lines(root: Path, folder: str) -> int:
    """Lines of code below a folder, to the hundred; of "backend/*.h" those of the folder itself."""
    own = folder.endswith("/*.h")
    base = root / folder.removesuffix("/*.h")
    files = base.iterdir() if own else base.rglob("*")
    found = (
        path for path in files if path.suffix in CODE and path.is_file() and "__pycache__" not in path.parts
    )
    lines = sum(path.read_bytes().count(b"\n") for path in found)
    return max(100, round(lines, -2))


def find_rows(root: Path) -> list[list[str]]:
    """The rows of the picture from the top; folders of src/ by their height, each as a path."""
    outside = [folder for folder in check_layers.OUTSIDE if (root / folder).is_dir()]
    above = [
        folder
        for folder in outside
        if any(target.rstrip("/") in outside for target in check_layers.OUTSIDE[folder])
    ]
    rows = [above, [folder for folder in outside if folder not in above], ["include"]]
    for height in sorted(set(check_layers.HEIGHTS.values()), reverse=True):
        row = []
        for name in sorted(name for name, own in check_layers.HEIGHTS.items() if own == height):
            if not (root / "src" / name).is_dir():
                continue
            if name == "backend":
                row.append("src/backend/*.h")
                row += [
                    f"src/backend/{sub.name}"
                    for sub in sorted((root / "src/backend").iterdir())
                    if sub.is_dir()
                ]
            else:
                row.append(f"src/{name}")
        rows.append(row)
    return rows


def header_of(folder: str) -> str:
    return folder.replace("*.h", "x.h") if folder.endswith("*.h") else f"{folder}/x.h"


def may_include(folder: str, other: str) -> bool:
    """Whether check_layers lets a file of the folder include one of the other."""
    source = header_of(folder)
    if other == "include":
        return True
    if folder in ("include", other):
        return False
    if folder.startswith("src/"):
        # A folder below a seam is the seam's own.
        if folder.startswith("src/backend") and other.startswith("src/backend"):
            return other.endswith("*.h")
        return check_layers.judge_source(source, header_of(other)) is None
    return check_layers.judge_outside(source, header_of(other)) is None


def find_arrows(folders: list[str]) -> list[Arrow]:
    """The includes that are allowed, less those that follow from others and those of include/ by src/."""
    allowed = {
        (a, b)
        for a in folders
        for b in folders
        if a != b and may_include(a, b) and not (a.startswith("src/") and b == "include")
    }
    reach = set(allowed)
    for middle in folders:
        reach |= {(a, c) for a, b in reach if b == middle for b2, c in reach if b2 == middle}
    kept = {
        (a, b)
        for a, b in allowed
        if not any((a, c) in reach and (c, b) in reach for c in folders if c not in (a, b))
    }
    return sorted(kept)


def box(x: float, y: float, width: float, tall: float, fill: str) -> str:
    place = f"x='{x:.0f}' y='{y:.0f}' width='{width:.0f}' height='{tall:.0f}'"
    return f"<rect {place} rx='5' fill='{fill}' stroke='#668'/>"


def is_far(folder: str, other: str) -> bool:
    """Whether an arrow would run over half of the picture; the box says it in words."""
    return not folder.startswith("src/") and other.startswith("src/")


class Picture:
    def __init__(self, root: Path) -> None:
        self.rows = [row for row in find_rows(root) if row]
        self.folders = [folder for row in self.rows for folder in row] + ["src/judge"]
        self.free = sorted(folder for folder in check_layers.FREE - {"include"} if (root / folder).is_dir())
        self.lines = {folder: count_lines(root, folder) for folder in [*self.folders, *self.free]}
        self.arrows = find_arrows(self.folders)

    def describe(self) -> tuple[dict[str, int], set[Arrow]]:
        return self.lines, set(self.arrows)

    def width_of(self, folder: str) -> float:
        return 420.0 if folder == "include" else max(84.0, 1.3 * math.sqrt(self.lines[folder]))

    def place(self) -> dict[str, Place]:
        """x, y and width of each box: rows from the top, widths as the root of the lines."""
        places: dict[str, Place] = {}
        rows = [self.free, *self.rows]
        for number, row in enumerate(rows):
            inside = row[0].startswith("src/")
            left = MARGIN + (JUDGE_WIDTH + 3 * GAP if inside else 0) + (GAP if inside else 0)
            room = WIDTH - MARGIN - left - (GAP if inside else 0)
            wanted = [self.width_of(folder) for folder in row]
            scale = min(1.0, (room - GAP * (len(row) - 1)) / sum(wanted))
            widths = [max(width * scale, 70) for width in wanted]
            x = left + (room - sum(widths) - GAP * (len(row) - 1)) / 2
            for folder, width in zip(row, widths, strict=True):
                places[folder] = (x, MARGIN + number * STEP, width)
                x += width + GAP
        solvers = next(place for folder, place in places.items() if folder == "src/solvers")
        places["src/judge"] = (MARGIN + GAP, solvers[1], JUDGE_WIDTH)
        return places

    def bands(self) -> list[list[str]]:
        return [self.free, *self.rows, ["src/judge"]]

    def write(self) -> str:
        places = self.place()
        tall = MARGIN * 2 + TALL + (len(self.rows)) * STEP
        style = "font-family='Helvetica,Arial,sans-serif'"
        out = [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {tall}' width='{WIDTH}' {style}>",
            "<title>Folders by layer, and what may include what</title>",
            "<defs><marker id='tip' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' markerHeight='7'"
            " orient='auto'><path d='M0 0L8 4L0 8z' fill='#556'/></marker></defs>",
            f"<rect width='{WIDTH}' height='{tall}' fill='#fff'/>",
        ]
        first = min(y for folder, (_, y, _) in places.items() if folder.startswith("src/"))
        backend = [place for folder, place in places.items() if folder.startswith("src/backend/")]
        left, right = min(x for x, _, _ in backend) - 5, max(x + width for x, _, width in backend) + 5
        out += [
            box(MARGIN - 6, first - 22, WIDTH - 2 * MARGIN + 12, tall - first + 14, "#f4f6fa"),
            f"<text x='{MARGIN + 4}' y='{first - 6}' font-size='13' fill='#445'>src/: libotattn</text>",
            box(left, backend[0][1] - 5, right - left, TALL + 10, "#e3eaf6"),
        ]
        out += self.draw_arrows(places)
        for folder, (x, y, width) in places.items():
            name = folder.removeprefix("src/")
            name = name if name.endswith("*.h") else name.removeprefix("backend/") + "/"
            fill = "#fff7e0" if folder == "src/judge" else "#eee" if folder in self.free else "#fff"
            middle, size = f"{x + width / 2:.0f}", min(14.0, 1.75 * width / len(name))
            far = [b.removeprefix("src/") for a, b in self.arrows if a == folder and is_far(a, b)]
            note = f"{self.lines[folder]:,}" + "".join(f", sees {b}/" for b in far)
            out += [
                f"<g data-folder='{folder}' data-lines='{self.lines[folder]}' text-anchor='middle'>",
                box(x, y, width, TALL, fill),
                f"<text x='{middle}' y='{y + 20}' font-size='{size:.0f}'>{escape(name)}</text>",
                f"<text x='{middle}' y='{y + 37}' font-size='11' fill='#556'>{note}</text></g>",
            ]
        x, y, _ = places[self.free[0]]
        out.append(f"<text x='{x - 8:.0f}' y='{y + 27}' font-size='12' text-anchor='end'>see all:</text>")
        out += [f"<desc data-from='{a}' data-to='{b}'/>" for a, b in self.arrows]
        return "\n".join([*out, "</svg>"]) + "\n"

    def line_of(self, places: dict[str, Place], a: str, b: str) -> tuple[float, float]:
        """Where the arrow leaves the box and where it ends, beside the boxes between the two."""
        (ax, ay, aw), (bx, by, bw) = places[a], places[b]
        between = [(x, width) for x, y, width in places.values() if min(ay, by) < y < max(ay, by)]
        low, high = bx + 12, bx + bw - 12
        wanted = min(max(ax + aw / 2, low), high)
        ends = sorted((low + step for step in range(int(high - low) + 1)), key=lambda x: abs(x - wanted))
        for to in [wanted, *ends]:
            start = min(max(to, ax + 12), ax + aw - 12)
            sides = min(start, to) - 6, max(start, to) + 6
            if not any(x < sides[1] and sides[0] < x + width for x, width in between):
                return start, to
        return min(max(wanted, ax + 12), ax + aw - 12), wanted

    def find_hidden(self) -> list[str]:
        """Arrows that would run behind a box."""
        places = self.place()
        found = []
        for a, b in self.arrows:
            ay, by = places[a][1], places[b][1]
            if ay == by or is_far(a, b) or a == "src/judge":
                continue
            start, to = self.line_of(places, a, b)
            for folder, (x, y, width) in places.items():
                low, high = sorted((start, to))
                if min(ay, by) < y < max(ay, by) and x < high and low < x + width:
                    found.append(f"the arrow {a} -> {b} runs behind {folder}")
        return found

    def draw_arrows(self, places: dict[str, Place]) -> list[str]:
        """A line from each box down to the box that it may include; backends stand beside their seam."""
        out = []
        for a, b in self.arrows:
            (ax, ay, aw), (bx, by, _) = places[a], places[b]
            if ay == by or is_far(a, b):
                continue
            start, to = self.line_of(places, a, b)
            path = f"M{start:.0f} {ay + TALL}L{to:.0f} {by}"
            if a == "src/judge":
                path = f"M{ax + aw / 2:.0f} {ay + TALL}V{by + TALL / 2}H{bx:.0f}"
            out.append(
                f"<path d='{path}' fill='none' stroke='#556' stroke-width='1.2' marker-end='url(#tip)'/>"
            )
        return out


def read_kept(text: str) -> tuple[dict[str, int], set[Arrow]]:
    lines = {
        name: int(count) for name, count in re.findall(r"data-folder='([^']*)' data-lines='(\d+)'", text)
    }
    return lines, set(re.findall(r"data-from='([^']*)' data-to='([^']*)'", text))


def compare(kept: tuple[dict[str, int], set[Arrow]], found: tuple[dict[str, int], set[Arrow]]) -> list[str]:
    defects = [
        f"{KEPT} has {folder}, the tree does not" for folder in sorted(kept[0].keys() - found[0].keys())
    ]
    defects += [f"{KEPT} lacks {folder}" for folder in sorted(found[0].keys() - kept[0].keys())]
    defects += [
        f"{KEPT} and check_layers.py differ in the arrow {a} -> {b}" for a, b in sorted(kept[1] ^ found[1])
    ]
    for folder in sorted(kept[0].keys() & found[0].keys()):
        drawn, lines = kept[0][folder], found[0][folder]
        if abs(drawn - lines) > 300 + lines / 5:
            defects.append(f"{KEPT} has {drawn} lines of {folder}, the tree {lines}")
    return [f"{defect}; draw it anew by scripts/draw_house.py" for defect in defects]


def self_test(found: tuple[dict[str, int], set[Arrow]]) -> int:
    lines, arrows = found
    folder, arrow = "src/solvers", min(arrows)
    plants = [
        ({**lines, "src/gone": 100}, arrows, "src/gone, the tree does not"),
        ({name: count for name, count in lines.items() if name != folder}, arrows, f"lacks {folder}"),
        ({**lines, folder: lines[folder] // 2}, arrows, f"lines of {folder}"),
        (lines, arrows - {arrow}, f"the arrow {arrow[0]} -> {arrow[1]}"),
        (lines, arrows | {("src/base", folder)}, f"the arrow src/base -> {folder}"),
        ({**lines, folder: lines[folder] + 100}, arrows, ""),
    ]
    failed = 0
    for kept_lines, kept_arrows, words in plants:
        defects = compare((kept_lines, kept_arrows), found)
        failed += len(defects) != bool(words) or not all(words in defect for defect in defects)
    print(f"house self-test: {len(plants) - failed} of {len(plants)} as expected")
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Draws the folders of the tree by layer.")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / KEPT)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    picture = Picture(ROOT)
    if options.self_test:
        return self_test(picture.describe())
    if not options.check:
        options.output.write_text(picture.write(), encoding="utf-8")
        return 0
    defects = compare(read_kept((ROOT / KEPT).read_text(encoding="utf-8")), picture.describe())
    defects += picture.find_hidden()
    print("\n".join(defects) if defects else "house: the kept picture is the tree's")
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
