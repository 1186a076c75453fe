"""Where mutate.py can plant a fault, and what it puts there.

A fault changes one operator, constant, sign, argument of exp or log, minimum or maximum, or removes one
statement. A comparison keeps its equality where that decides nothing: in a maximum written out, against a
threshold like 1e-7.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDERS = ("src", "analysis", "models")
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

    def lines(self, text: str) -> tuple[str, str]:
        """The line as it is and with the fault."""
        row = self.line - 1
        return text.split("\n")[row].strip(), self.plant(text).split("\n")[row].strip()


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
