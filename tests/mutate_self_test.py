"""What mutate.py --self-test runs: one fault of each kind, planted in text, must come out as said."""

from __future__ import annotations

from mutate_build import objects_of
from mutate_places import faults_of


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
    count = len(cases) + 8 + 3
    print(f"{count - wrong} of {count} as said")
    return 1 if wrong else 0
