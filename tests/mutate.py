"""Plants one-line faults in a copy of the sources and asks whether the C tests notice.

    mutate.py [--count N] [--seed S] [--folder BUILD] [--jobs J] [--table FILE]
    mutate.py --list          prints every place where a fault can be planted
    mutate.py --self-test     one fault of each kind, planted in text, must come out as said

A fault changes one operator, constant, sign, argument of exp or log, minimum or maximum, or removes one
statement, in src/solver, src/backend or analysis. The copy is built incrementally; a fault that does not
compile or leaves the machine code as it was is none, and another is drawn. The tests that link the changed
file run, short ones first, until one fails. With less than 85 % caught the exit status is 1; survivors are
listed. Faults that no test could see stand with their reason in tests/mutants_equivalent.txt.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

FOLDERS = ("src/solver", "src/backend", "analysis")
COPIED = ("CMakeLists.txt", "LICENSE", "cmake", "include", "src", "analysis", "scripts", "tests", "data")
EQUIVALENT = "tests/mutants_equivalent.txt"
LEAST_CAUGHT = 0.85
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
        assert old[self.column : end] == self.before, self
        lines[self.line - 1] = old[: self.column] + self.after + old[end:]
        return "\n".join(lines)


@dataclass
class Verdict:
    fault: Fault
    old_line: str
    new_line: str
    outcome: str  # caught, survived, equivalent
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
            if match.start() in ties:
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


# ---- the copy, its build and its tests --------------------------------------------------------------


class Bench:
    """A copy of the tree in FOLDER/tree, built in FOLDER/build."""

    def __init__(self, root: Path, folder: Path, jobs: int) -> None:
        self.tree, self.build, self.jobs = folder / "tree", folder / "build", jobs
        self.known_file = folder / "baseline.json"
        self.known: dict[str, float] = {}
        if self.known_file.is_file():
            self.known = json.loads(self.known_file.read_text(encoding="utf-8"))
        self.stop = threading.Event()
        self.copy(root)
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        parts = ["-DOTATTN_PROGRAM=OFF", "-DOTATTN_MODEL=OFF", "-DOTATTN_TESTS=ON"]
        self.must(["cmake", "-S", str(self.tree), "-B", str(self.build), *generator, *parts])
        if not self.make():
            sys.exit("mutate: the copy does not build")
        self.tests = sorted(
            p for p in (self.build / "tests").glob("test_*") if p.is_file() and os.access(p, os.X_OK)
        )
        self.calls = {test: self.symbols(test) for test in self.tests}
        self.seconds = self.baseline()

    def copy(self, root: Path) -> None:
        """Brings the copy up to date, touching only what differs."""
        wanted = set()
        for top in COPIED:
            for path in [root / top, *(root / top).rglob("*")]:
                if path.is_file() and "__pycache__" not in path.parts:
                    wanted.add(path.relative_to(root))
        for path in [p for p in self.tree.rglob("*") if p.is_file()]:
            if path.relative_to(self.tree) not in wanted:
                path.unlink()
        for name in wanted:
            target = self.tree / name
            if not target.is_file() or target.read_bytes() != (root / name).read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(root / name, target)

    def must(self, command: list[str]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"mutate: {' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")

    def make(self, *targets: str) -> bool:
        command = ["cmake", "--build", str(self.build), "-j", str(self.jobs)]
        if targets:
            command += ["--target", *targets]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def libraries(self) -> list[str]:
        """The targets whose code counts; without LAPACKE there is no otattn_spectra."""
        optional = [name for name in ("otattn_spectra",) if (self.build / f"lib{name}.a").is_file()]
        return ["otattn_static", "otattn_analysis", *optional]

    def code(self) -> str:
        """A digest of the libraries' machine code."""
        digest = hashlib.sha256()
        for library in sorted(self.build.glob("libotattn*.a")):
            digest.update(library.read_bytes())
        return digest.hexdigest()

    def symbols(self, path: Path) -> frozenset[str]:
        text = subprocess.run(
            ["nm", "--defined-only", str(path)], capture_output=True, text=True, check=True
        ).stdout
        return frozenset(re.findall(r" [TtRrDdBb] (ota_\w+)", text))

    def reaching(self, file: str) -> list[Path]:
        """The tests that link the file, or for a header any file of its folder; short ones first."""
        objects = [
            path
            for path in self.build.rglob("*.o")
            if (f"/{file}.o" in str(path) if file.endswith(".c") else f"/{Path(file).parent}/" in str(path))
        ]
        names = frozenset().union(*(self.symbols(path) for path in objects))
        tests = [test for test in self.tests if self.calls[test] & names]
        if not tests:
            sys.exit(f"mutate: no test links {file}")
        # A test named after the file is the likeliest to notice.
        return sorted(tests, key=lambda test: (test.stem[5:] not in Path(file).stem, self.seconds[test]))

    def run(self, test: Path, limit: float) -> str:
        """Empty when the test passed; else what became of it."""
        if self.stop.is_set():
            return ""
        silent = subprocess.DEVNULL
        with subprocess.Popen(
            [str(test)], cwd=self.tree, stdout=silent, stderr=silent, start_new_session=True
        ) as child:
            end = time.monotonic() + limit
            while child.poll() is None and time.monotonic() < end and not self.stop.is_set():
                try:
                    child.wait(0.2)
                except subprocess.TimeoutExpired:
                    continue
            if child.poll() is not None:
                return "" if child.returncode == 0 else f"{test.name}" + signal_name(child.returncode)
            os.killpg(child.pid, signal.SIGKILL)
            return "" if self.stop.is_set() else f"{test.name} (ran over {limit:.0f} s)"

    def time(self, test: Path, key: str) -> float:
        if key not in self.known:
            begin = time.monotonic()
            failure = self.run(test, 600)
            if failure:
                sys.exit(f"mutate: without any fault, {failure} fails")
            self.known[key] = time.monotonic() - begin
        return self.known[key]

    def baseline(self) -> dict[Path, float]:
        """Seconds of each test without a fault; what is known of an unchanged program is kept."""
        seconds, found = {}, {}
        with ThreadPoolExecutor(self.jobs) as pool:
            keys = [hashlib.sha256(test.read_bytes()).hexdigest() for test in self.tests]
            for test, key, took in zip(self.tests, keys, pool.map(self.time, self.tests, keys), strict=True):
                seconds[test] = found[key] = took
        self.known_file.write_text(json.dumps(found), encoding="utf-8")
        return seconds

    def judge(self, fault: Fault) -> str | None:
        """The test that caught the fault; empty when none did; None when it is no fault."""
        path = self.tree / fault.file
        text, clean = path.read_text(encoding="utf-8"), self.code()
        path.write_text(fault.plant(text), encoding="utf-8")
        try:
            if not self.make(*self.libraries()) or self.code() == clean:
                return None
            tests = self.reaching(fault.file)
            if not self.make(*(test.name for test in tests)):
                return None
            self.stop.clear()
            caught: list[str] = []
            with ThreadPoolExecutor(self.jobs) as pool:
                for failure in pool.map(lambda t: self.notice(t, caught), tests):
                    if failure:
                        break
            return caught[0] if caught else ""
        finally:
            path.write_text(text, encoding="utf-8")
            self.make(*self.libraries())

    def notice(self, test: Path, caught: list[str]) -> str:
        failure = self.run(test, 20 + 5 * self.seconds[test])
        if failure:
            caught.append(failure)
            self.stop.set()
        return failure


def signal_name(status: int) -> str:
    return f" ({signal.Signals(-status).name})" if status < 0 else ""


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


def lines_of(root: Path, fault: Fault) -> tuple[str, str]:
    text = (root / fault.file).read_text(encoding="utf-8")
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
    ]
    wrong = 0
    for line, kind, wanted in cases:
        text = f"{{\n{line} /* a + 1 */\n}}\n"
        made = [fault.plant(text).split("\n")[1].split("/*")[0].rstrip() for fault in faults_of("t.c", text)
                if fault.kind == kind]  # fmt: skip
        if made[:1] != [wanted]:
            wrong += 1
            print(f"FAILED {kind}: {line.strip()} became {made}, not {wanted.strip()}")
    for line in ("if (x > best) best = x;", "if (y && f(x[i]) > best) best = f(x[i]);", "z = x < y ? x : y;"):
        if any(fault.kind == "comparison" for fault in faults_of("t.c", f"{{\n    {line}\n}}\n")):
            wrong += 1
            print(f"FAILED: a tie was made a fault in {line}")
    for line in ("/* a + b */", '    const char *s = "a + b";', "#define A 1", "    assert(a < b);"):
        if faults_of("t.c", f"{{\n{line}\n}}\n"):
            wrong += 1
            print(f"FAILED: a fault was planted in {line.strip()}")
    count = len(cases) + 7
    print(f"{count - wrong} of {count} as said")
    return 1 if wrong else 0


def report(verdicts: list[Verdict], drawn: int, table: Path | None, least: float) -> int:
    if table:
        rows = [
            (v.outcome, f"{v.fault.file}:{v.fault.line}", v.fault.kind, v.old_line, v.new_line, v.by)
            for v in verdicts
        ]
        head = ("outcome", "place", "kind", "before", "after", "by or why")
        table.write_text("".join("\t".join(row) + "\n" for row in [head, *rows]), encoding="utf-8")
    survivors = [v for v in verdicts if v.outcome == "survived"]
    for v in survivors:
        print(f"SURVIVED {v.fault.file}:{v.fault.line}\n    {v.old_line}\n    {v.new_line}")
    equivalent = sum(v.outcome == "equivalent" for v in verdicts)
    judged = len(verdicts) - equivalent
    caught = judged - len(survivors)
    share = caught / judged if judged else 0.0
    print(
        f"{caught} of {judged} faults caught ({100 * share:.1f} %; {100 * least:.0f} % must be); "
        f"{equivalent} more are listed as harmless, {drawn - len(verdicts)} were none"
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
    parser.add_argument("--table", type=Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    faults = all_faults(root)
    if options.list:
        for fault in faults:
            print(
                f"{fault.file}:{fault.line}:{fault.column + 1} {fault.kind}: {fault.before} -> {fault.after}"
            )
        return 0
    random.Random(options.seed).shuffle(faults)
    options.folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(root, options.folder.resolve(), options.jobs)
    equivalent = read_equivalent(root)
    verdicts: list[Verdict] = []
    drawn = 0
    for fault in faults:
        if sum(v.outcome != "equivalent" for v in verdicts) >= options.count:
            break
        drawn += 1
        old, new = lines_of(root, fault)
        why = equivalent.get((fault.file, old, new)) or equivalent.get((fault.file, old, "*"))
        by = None if why else bench.judge(fault)
        if why is None and by is None:
            continue
        outcome = "equivalent" if why else "caught" if by else "survived"
        verdicts.append(Verdict(fault, old, new, outcome, why or by or ""))
        print(f"{outcome:10} {fault.file}:{fault.line}  {old}  ->  {new}  {why or by or ''}", flush=True)
    return report(verdicts, drawn, options.table, options.least)


if __name__ == "__main__":
    sys.exit(main())
