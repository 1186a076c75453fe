"""What mutate.py --self-test runs: one fault of each kind, planted in text, must come out as said."""

from __future__ import annotations

from pathlib import Path

from mutate_build import objects_of
from mutate_places import faults_of

# Lists of faults, and the word of a row that holds the line as it is.
LISTS = (("mutants_known.txt", 2), ("mutants_equivalent.txt", 1))


def stale_rows(text: str, word: int, root: Path) -> list[str]:
    """The rows whose line is no longer in their file: such a row says nothing about the tree."""
    stale = []
    for row in text.splitlines():
        words = row.split("\t")
        if not row or row.startswith("#"):
            continue
        path = root / words[0]
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        if words[word].strip() not in [line.strip() for line in lines]:
            stale.append(f"{words[0]}: {words[word]}")
    return stale


def self_test() -> int:
    cases = [
        ("    x = a + b;", "arithmetic", "    x = a - b;"),
        ("    x *= b;", "assignment", "    x /= b;"),
        ("    if (a < b) f(0);", "comparison", "    if (a <= b) f(0);"),
        ("    if (a == b) f(0);", "equality", "    if (a != b) f(0);"),
        ("    if (a && b) f(0);", "logic", "    if (a || b) f(0);"),
        ("    if (!a) f(0);", "negation", "    if (a) f(0);"),
        ("    x = fmin(a, b);", "extremum", "    x = fmax(a, b);"),
        ("    x = vec_mul(a, b);", "vector", "    x = vec_add(a, b);"),
        ("    x = -a;", "sign", "    x = a;"),
        ("    x = log(a);", "logarithm", "    x = -log(a);"),
        ("    x = exp(f(a) - b);", "exponential", "    x = exp(-(f(a) - b));"),
        ("    x = 0.5;", "constant", "    x = (0.5 * 2.0);"),
        ("    x[i] = a;", "removal", "    ;"),
        ('    x = f("a + b", c);', "removal", "    ;"),
    ]
    wrong = 0
    for line, kind, wanted in cases:
        text = f"{{\n{line} /* a + 1 */\n}}\n"
        made = [fault.plant(text).split("\n")[1].split("/*")[0].rstrip() for fault in faults_of("t.c", text)
                if fault.kind == kind]  # fmt: skip
        if made[:1] != [wanted]:
            wrong += 1
            print(f"FAILED {kind}: {line.strip()} became {made}, not {wanted.strip()}")
    for line in (
        "if (x > best) best = x;",
        "if (y && f(x[i]) > best) best = f(x[i]);",
        "z = x < y ? x : y;",
        "if (x < 1e-7) f(x);",
    ):
        if any(fault.kind == "comparison" for fault in faults_of("t.c", f"{{\n    {line}\n}}\n")):
            wrong += 1
            print(f"FAILED: a tie or threshold was made a fault in {line}")
    for line in ("/* a + b */", '    const char *s = "a + b";', "#define A 1", "    assert(a < b);"):
        if faults_of("t.c", f"{{\n{line}\n}}\n"):
            wrong += 1
            print(f"FAILED: a fault was planted in {line.strip()}")
    objects = ["b/otattn.dir/src/base/a.c.o", "b/otattn.dir/src/k/levels/l.c.o"]
    for file, wanted_objects in (
        ("src/base/a.c", objects[:1]),
        ("src/base/a.h", objects[:1]),
        ("src/k/words/w.h", objects[1:]),
    ):
        if objects_of(file, objects) != wanted_objects:
            wrong += 1
            print(f"FAILED: the objects of {file} are {objects_of(file, objects)}, not {wanted_objects}")
    here = Path(__file__).resolve().parent
    for name, word in LISTS:
        for row in stale_rows((here / name).read_text(encoding="utf-8"), word, here.parent):
            wrong += 1
            print(f"FAILED: {name} has a row whose line is gone: {row}")
    if not stale_rows("src/base/base.h\tno such line\t;\twhy", 1, here.parent):
        wrong += 1
        print("FAILED: a row whose line is gone was not seen")
    count = len(cases) + 8 + 3 + len(LISTS) + 1
    print(f"{count - wrong} of {count} as said")
    return 1 if wrong else 0
