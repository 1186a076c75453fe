"""Plants one-line faults in a copy of the sources and asks whether the C tests notice.

    mutate.py [--count N] [--seed S] [--thorough] [--seconds T] [--folder BUILD] [--jobs J]
              [--table FILE [--again]]
    mutate.py --list          prints every place where a fault can be planted
    mutate.py --self-test     one fault of each kind, planted in text, must come out as said

A fault changes one operator, constant, sign, argument of exp or log, minimum or maximum, or removes one
statement, in src, analysis or models. The copy is built incrementally; a fault that does not
compile or leaves the machine code as it was is none, and another is drawn. The tests that can reach the
fault are linked and run few at a time, first those that are short for what they caught before, until one
fails. These are the tests that link the changed file; with --thorough, those that a build with counters has
seen run the changed line, and what they do not notice meets the likeliest once more under the address
sanitizer. With --seconds a fault meets only as many of these tests as take so long together. Verdicts
that the table holds already stand; with --again, survivors are judged anew.
A comparison keeps its equality where that decides nothing: in a maximum written out, against a threshold
like 1e-7. With less than 85 % caught the exit status is 1; survivors are listed. Faults that no test could
see stand with their reason in tests/mutants_equivalent.txt.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from mutate_build import PLAIN, PLAIN_FOLDER, Build, copy_tree, may_run, objects_of, read_json, symbols
from mutate_cover import Cover

FOLDERS = ("src", "analysis", "models")
EQUIVALENT = "tests/mutants_equivalent.txt"
LEAST_CAUGHT = 0.85
# Processor seconds of linking a test, and how many of linking and running go into one batch.
LINK_SECONDS, BATCH_SECONDS = 0.1, 1.5
# The sanitizer's build, how many times longer its tests run at most, and the seconds that one fault is given.
SLOWER, SANITIZED_SECONDS = 6.0, 30.0
SANITIZED = ("-DOTATTN_SANITIZE=address", "-DCMAKE_C_FLAGS_RELEASE=-O1 -DNDEBUG")
# What a file's name says of the processor it is for : the feature that lets it run.
FEATURES = {"avx2": "avx2", "avx512": "avx512f", "amx": "amx_tile", "neon": "asimd"}

# kind, what is replaced, by what. The house style puts binary operators between spaces.
SWAPS = [
    ("arithmetic", r"(?<=[\w)\]] )[-+*/](?= )", {"+": "-", "-": "+", "*": "/", "/": "*"}),
    ("assignment", r"(?<= )[-+*/]=(?= )", {"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*="}),
    ("comparison", r"(?<= )(?:<=|>=|<|>)(?= )", {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}),
    ("equality", r"(?<= )[=!]=(?= )", {"==": "!=", "!=": "=="}),
    ("logic", r"(?<= )(?:&&|\|\|)(?= )", {"&&": "||", "||": "&&"}),
    ("negation", r"(?<=[( ])!(?=[\w(])", {"!": ""}),
    ("extremum", r"\bfm(?:in|ax)(?=\()", {"fmin": "fmax", "fmax": "fmin"}),
    ("extremum", r"\bvec_m(?:in|ax)(?=\()", {"vec_min": "vec_max", "vec_max": "vec_min"}),
    ("extremum", r"\b(?:smaller|larger)(?=\()", {"smaller": "larger", "larger": "smaller"}),
    (
        "vector",
        r"\bvec_(?:add|sub|mul)(?=\()",
        {"vec_add": "vec_sub", "vec_sub": "vec_add", "vec_mul": "vec_add"},
    ),
    ("sign", r"(?:(?<=[=(,?:] )|(?<=\()|(?<=return ))-(?=[\w(])", {"-": ""}),
    ("logarithm", r"\blog(?:1p|2)?(?=\()", {"log": "-log", "log1p": "-log1p", "log2": "-log2"}),
]
EXPONENTIAL = re.compile(r"\b(?:exp|exp2|expm1)\(")
NUMBER = re.compile(r"(?<![\w.])(\d+\.\d*(?:e[+-]?\d+)?|\d+)(?![\w.])")
STATEMENT = re.compile(
    r"\s+(?:\(?\*?\w[\w>.\[\]()*+ -]*? [-+*/|&]?= [^;]*|\w[\w>.-]*\([^;]*\)|\w+(?:\+\+|--)|break|continue);$"
)
DECLARES = re.compile(
    r"\s+(?:const|static|return|typedef|(?:un)?signed|int\w*|double|float|real|vec|size_t|ota_\w+|char|bool) "
)
# A maximum or minimum written out: ties may go either way.
TIE = re.compile(
    r"(?P<a>[\w\[\]().>*+ -]+?) (?P<sign>[<>]=?) (?P<b>[\w\[\]().>-]+?)"
    r"(?:\) (?P=b) = (?P=a);| \? (?:(?P=a) : (?P=b)|(?P=b) : (?P=a))(?![\w\[.]))"
)
# A threshold such as 1e-7 : `<` and `<=` part at one number among all.
THRESHOLD = re.compile(r"[<>]=? -?\d[\d.]*e[+-]?\d+(?![\w.])")
STRING = re.compile(r'"(?:\\.|[^"\\])*"' + r"|'(?:\\.|[^'\\])*'")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


@dataclass(frozen=True, order=True)
class Fault:
    file: str
    line: int  # from 1
    column: int  # from 0
    kind: str
    before: str
    after: str

    def plant(self, text: str) -> str:
        lines = text.split("\n")
        old = lines[self.line - 1]
        end = self.column + len(self.before)
        # Texts are blank in what is to go.
        assert all(
            was in (here, " ") for was, here in zip(self.before, old[self.column : end], strict=True)
        ), self
        lines[self.line - 1] = old[: self.column] + self.after + old[end:]
        return "\n".join(lines)


@dataclass
class Verdict:
    fault: Fault
    old_line: str
    new_line: str
    outcome: str  # caught, survived, equivalent, none
    by: str


# ---- where faults can be --------------------------------------------------------------------------


def blank(text: str) -> str:
    """Code without comments, texts and preprocessor lines; every place stays where it was."""

    def spaces(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    text = COMMENT.sub(spaces, text)
    text = STRING.sub(spaces, text)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", spaces, text, flags=re.MULTILINE)


def closing(code: str, start: int) -> int:
    """Index of the parenthesis that closes the one before `start`, or -1 when it is on another line."""
    depth = 1
    for index in range(start, len(code)):
        depth += {"(": 1, ")": -1}.get(code[index], 0)
        if depth == 0:
            return index
    return -1


def other_number(word: str) -> list[str]:
    if "." in word:
        return ["1.0"] if float(word) == 0 else [f"({word} * 2.0)"]
    return [str(int(word) + 1)] + ([str(int(word) - 1)] if int(word) > 0 else [])


def faults_of_line(file: str, number: int, code: str, previous: str) -> list[Fault]:
    found = []
    ties = {match.start("sign") for match in TIE.finditer(code)}
    for kind, pattern, instead in SWAPS:
        for match in re.finditer(pattern, code):
            if match.start() in ties or THRESHOLD.match(code, match.start()):
                continue
            found.append(Fault(file, number, match.start(), kind, match[0], instead[match[0]]))
    for match in EXPONENTIAL.finditer(code):
        end = closing(code, match.end())
        if end > 0:
            before = code[match.end() : end]
            found.append(Fault(file, number, match.end(), "exponential", before, f"-({before})"))
    for match in NUMBER.finditer(code):
        found += [Fault(file, number, match.start(), "constant", match[0], w) for w in other_number(match[0])]
    # Only a whole statement can go: the line before must not run on into this one.
    whole = previous.rstrip().endswith((";", "{", "}", ")", "else", ":")) or not previous.strip()
    if whole and STATEMENT.fullmatch(code.rstrip()) and not DECLARES.match(code):
        start = len(code) - len(code.lstrip())
        found.append(Fault(file, number, start, "removal", code[start:].rstrip(), ";"))
    return found


def faults_of(file: str, text: str) -> list[Fault]:
    code = blank(text).split("\n")
    found: list[Fault] = []
    for index, line in enumerate(code):
        if "assert(" not in line and not line.lstrip().startswith("_Static"):
            found += faults_of_line(file, index + 1, line, code[index - 1] if index else "")
    return found


def runs_here(file: str) -> bool:
    words = re.findall(r"[a-z0-9]+", Path(file).name)
    try:
        features = set(re.findall(r"\w+", Path("/proc/cpuinfo").read_text(encoding="utf-8")))
    except OSError:
        return True
    return all(FEATURES.get(word, word) in features for word in words if word in FEATURES)


def all_faults(root: Path) -> list[Fault]:
    found: list[Fault] = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.[ch]")):
            name = path.relative_to(root).as_posix()
            if runs_here(name):
                found += faults_of(name, path.read_text(encoding="utf-8"))
    return found


# ---- the copy, its builds and its tests -------------------------------------------------------------


class Bench:
    """A copy of the tree in FOLDER/tree, built in FOLDER/build; if thorough, twice more."""

    def __init__(self, root: Path, folder: Path, jobs: int, thorough: bool, most: float) -> None:
        self.folder, self.tree, self.most = folder, folder / "tree", most
        copy_tree(root, self.tree)
        self.build = Build(self.tree, folder / "build", jobs)
        self.build.baseline()
        self.clean = self.build.code()
        self.calls = {test: symbols(self.build.path(test)) for test in self.build.tests}
        self.cover: Cover | None = None
        self.sanitized: Build | None = None
        if thorough:
            self.cover = Cover(self.tree, folder / "cover", jobs, FOLDERS)
            self.sanitized = Build(self.tree, folder / "sanitized", jobs, *SANITIZED)
            self.sanitized.seconds = {t: SLOWER * s for t, s in self.build.seconds.items()}
        # file : test : how often it caught a fault of that file, in earlier runs too
        self.hits: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        for file, tests in read_json(folder / "hits.json").items():
            self.hits[file].update(tests)
        self.planted: tuple[Path, str] | None = None

    def linking(self, file: str) -> list[str]:
        """The tests that link the file, or for a header any file of the folder that the header serves."""
        objects = objects_of(file, [str(path) for path in self.build.folder.rglob("*.o")])
        names = frozenset().union(*(symbols(Path(path)) for path in objects))
        return [test for test in self.build.tests if self.calls[test] & names and may_run(test, file)]

    def reaching(self, fault: Fault) -> list[str]:
        """The tests that can see the fault, in the order in which they should be tried."""
        seen = self.cover.tests(fault.file, fault.line) if self.cover else None
        tests = self.linking(fault.file) if seen is None else [t for t in self.build.tests if t in seen]
        near: collections.Counter[str] = collections.Counter()
        for file, hits in self.hits.items():
            if Path(file).parent == Path(fault.file).parent:
                near.update(hits)
        own = self.hits[fault.file]

        def worth(test: str) -> float:
            plain = fault.file.startswith(PLAIN_FOLDER)
            named = test.startswith(PLAIN) if plain else test[5:] in Path(fault.file).stem
            chance = own[test] + 0.05 * near[test] + (1.0 if named else 0.1)
            return chance / (self.build.seconds[test] + LINK_SECONDS)

        return sorted(tests, key=worth, reverse=True)

    def plant(self, fault: Fault) -> None:
        """Writes the fault. The one before it was taken back without a build: one build does both."""
        path = self.tree / fault.file
        text = path.read_text(encoding="utf-8")
        self.planted = path, text
        path.write_text(fault.plant(text), encoding="utf-8")

    def restore(self) -> None:
        if self.planted:
            self.planted[0].write_text(self.planted[1], encoding="utf-8")
            self.planted = None

    def judge(self, fault: Fault) -> str | None:
        """The test that caught the fault; empty when none did; None when it is no fault."""
        self.plant(fault)
        if not self.build.make(*self.build.libraries()) or self.build.code() == self.clean:
            return None
        tests = self.reaching(fault)
        caught = self.caught(self.build, affordable(self.build, tests, self.most))
        if caught and caught.startswith(PLAIN):
            self.acquit(self.build, caught.split()[0])
        if caught:
            self.hits[fault.file][caught.split()[0]] += 1
            (self.folder / "hits.json").write_text(json.dumps(self.hits), encoding="utf-8")
        elif caught == "" and self.sanitized:
            caught = self.caught(self.sanitized, affordable(self.sanitized, tests, SANITIZED_SECONDS))
            if caught:
                self.acquit(self.sanitized, caught.split()[0])
                caught += " sanitized"
        return caught

    def acquit(self, build: Build, test: str) -> None:
        """A test that was never run without a fault must pass without it."""
        self.restore()
        build.stop.clear()
        if not build.make(test) or build.run(test, 600)[0]:
            sys.exit(f"mutate: without any fault, {test} fails in {build.folder}")

    def caught(self, build: Build, tests: list[str]) -> str | None:
        for batch in self.batches(tests, build):
            if not build.make(*batch):
                return None
            failure = build.first_failure(batch)
            if failure:
                return failure
        return ""

    def batches(self, tests: list[str], build: Build) -> list[list[str]]:
        """The likeliest test is linked and run alone, then as many as BATCH_SECONDS holds."""
        found, left = [tests[:1]], 0.0
        for test in tests[1:]:
            cost = build.seconds[test] + LINK_SECONDS
            if cost > left:
                found.append([])
                left = BATCH_SECONDS
            found[-1].append(test)
            left -= cost
        return [batch for batch in found if batch]


def affordable(build: Build, tests: list[str], seconds: float) -> list[str]:
    """As many of the tests, the likeliest first, as `seconds` hold; the first whatever it takes."""
    kept = []
    for test in tests:
        seconds -= build.seconds[test]
        if seconds >= 0 or not kept:
            kept.append(test)
    return kept


# ---- the program ------------------------------------------------------------------------------------


def read_equivalent(root: Path) -> dict[tuple[str, str, str], str]:
    """(file, line as it is, line with the fault or *) : reason."""
    path = root / EQUIVALENT
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        if line and not line.startswith("#"):
            file, old, new, reason = line.split("\t")
            found[file, old, new] = reason
    return found


def lines_of(tree: Path, fault: Fault) -> tuple[str, str]:
    text = (tree / fault.file).read_text(encoding="utf-8")
    row = fault.line - 1
    return text.split("\n")[row].strip(), fault.plant(text).split("\n")[row].strip()


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
    for file, wanted in (
        ("src/base/a.c", objects[:1]),
        ("src/base/a.h", objects[:1]),
        ("src/k/words/w.h", objects[1:]),
    ):
        if objects_of(file, objects) != wanted:
            wrong += 1
            print(f"FAILED: the objects of {file} are {objects_of(file, objects)}, not {wanted}")
    count = len(cases) + 8 + 3
    print(f"{count - wrong} of {count} as said")
    return 1 if wrong else 0


HEAD = ("outcome", "place", "kind", "before", "after", "by or why")


def write_table(verdicts: list[Verdict], table: Path) -> None:
    rows = [
        (v.outcome, f"{v.fault.file}:{v.fault.line}", v.fault.kind, v.old_line, v.new_line, v.by)
        for v in verdicts
    ]
    table.write_text("".join("\t".join(row) + "\n" for row in [HEAD, *rows]), encoding="utf-8")


def read_table(table: Path | None, again: bool) -> dict[tuple[str, str, str], tuple[str, str]]:
    """(place, line as it is, line with the fault) : outcome, by or why."""
    found = {}
    if table and table.is_file():
        for row in table.read_text(encoding="utf-8").splitlines()[1:]:
            outcome, place, _, old, new, by = row.split("\t")
            if not (again and outcome == "survived"):
                found[place, old, new] = outcome, by
    return found


def report(verdicts: list[Verdict], least: float) -> int:
    survivors = [v for v in verdicts if v.outcome == "survived"]
    for v in survivors:
        print(f"SURVIVED {v.fault.file}:{v.fault.line}\n    {v.old_line}\n    {v.new_line}")
    equivalent = sum(v.outcome == "equivalent" for v in verdicts)
    none = sum(v.outcome == "none" for v in verdicts)
    judged = len(verdicts) - equivalent - none
    caught = judged - len(survivors)
    share = caught / judged if judged else 0.0
    print(
        f"{caught} of {judged} faults caught ({100 * share:.1f} %; {100 * least:.0f} % must be); "
        f"{equivalent} more are listed as harmless, {none} were none"
    )
    return 0 if share >= least else 1


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description="Plants one-line faults in a copy and runs the C tests.")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=root / "build" / "mutants")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--least", type=float, default=LEAST_CAUGHT, help="share that must be caught")
    parser.add_argument("--table", type=Path, help="keeps the verdicts; goes on from what it holds")
    parser.add_argument("--again", action="store_true", help="judges the table's survivors anew")
    parser.add_argument("--thorough", action="store_true", help="pays from about 20 faults on")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="processor time of the tests that a fault meets"
    )
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    if options.list:
        for fault in all_faults(root):
            print(
                f"{fault.file}:{fault.line}:{fault.column + 1} {fault.kind}: {fault.before} -> {fault.after}"
            )
        return 0
    options.folder.mkdir(parents=True, exist_ok=True)
    equivalent = read_equivalent(root)
    bench = Bench(root, options.folder.resolve(), options.jobs, options.thorough, options.seconds)
    faults = all_faults(bench.tree)
    random.Random(options.seed).shuffle(faults)
    known = read_table(options.table, options.again)
    verdicts: list[Verdict] = []
    for fault in faults:
        if sum(v.outcome in ("caught", "survived") for v in verdicts) >= options.count:
            break
        bench.restore()
        old, new = lines_of(bench.tree, fault)
        why = equivalent.get((fault.file, old, new)) or equivalent.get((fault.file, old, "*"))
        if why:
            outcome, by = "equivalent", why
        elif (f"{fault.file}:{fault.line}", old, new) in known:
            outcome, by = known[f"{fault.file}:{fault.line}", old, new]
        else:
            found = bench.judge(fault)
            outcome, by = "none" if found is None else "caught" if found else "survived", found or ""
        verdicts.append(Verdict(fault, old, new, outcome, by))
        if options.table:
            write_table(verdicts, options.table)
        if outcome != "none":
            print(f"{outcome:10} {fault.file}:{fault.line}  {old}  ->  {new}  {by}", flush=True)
    bench.restore()
    return report(verdicts, options.least)


if __name__ == "__main__":
    sys.exit(main())
