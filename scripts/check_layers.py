"""Fails when an include points upward, a folder is unknown, or the list of sources is not the folders.

base <- problem <- {regularisers, columns, terms, masks} <- validation <- backend <- solvers <- operator
operator <- ranks
solvers, operator, ranks and batches see src/backend/*.h and src/backend/blocks, and no folder of a backend;
blocks know no backend
batches: a wing, an option of the build: base, problem, validation, src/backend/*.h and the searches of
    solvers/matching; nothing of src/ sees it, and each of its calls has a public header of its own
judge: base, problem, validation and otattn.h only, so that it can disagree
analysis, models, statements, program, engines, examples, packaging, python, web: public headers, their own
    folder, and analysis and models src/base, program statements, program, statements, python and web
    src/base/system.h, program and statements src/base/program/system_program.h and src/base/integers.h,
    program src/base/fault.h, src/base/half.h, src/base/little_endian.h and src/problem/fields.h, python
    src/base/program/system_interrupts.h
tests, fuzz, bench: anything

check_layers.py [REPOSITORY]     judges a checkout
check_layers.py --includes [REPOSITORY]
                                 includes alone, as builds do: files of the user's own may lie beside ours
check_layers.py --self-test      plants one defect after another in a small tree and expects each found
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from planted import self_test

# Folders of src/ and how high they stand; folders of the same height do not see each other.
HEIGHTS = {
    "base": 0,
    "problem": 1,
    "regularisers": 2,
    "columns": 2,
    "terms": 2,
    "masks": 2,
    "validation": 3,
    "backend": 4,
    "solvers": 5,
    "operator": 6,
    "batches": 6,
    "ranks": 7,
}
# What the judge sees, itself among it.
JUDGED = ("base", "problem", "validation", "judge")
# What the batches see, themselves among it.
WING = (
    "src/base/",
    "src/problem/",
    "src/validation/",
    "src/backend/",
    "src/solvers/matching/",
    "src/batches/",
)
# The public headers of the library itself.
LIBRARY_HEADERS = {
    "otattn.h",
    "otattn_assignment.h",
    "otattn_bounded.h",
    "otattn_maxsim.h",
    "otattn_normalize.h",
    "otattn_route.h",
}
# A folder outside src/ : what it may see besides public headers and itself.
OUTSIDE = {
    "analysis": ("src/base/",),
    "models": ("src/base/",),
    "statements": ("src/base/integers.h", "src/base/system.h", "src/base/program/system_program.h"),
    "program": (
        "statements/",
        "src/base/integers.h",
        "src/base/fault.h",
        "src/base/half.h",
        "src/base/little_endian.h",
        "src/base/system.h",
        "src/base/program/system_program.h",
        "src/problem/fields.h",
    ),
    "engines": (),
    "examples": (),
    "packaging": (),
    "python": ("src/base/system.h", "src/base/program/system_interrupts.h"),
    "web": ("src/base/system.h",),
}
FREE = {"tests", "fuzz", "bench", "include"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
SUFFIXES = {".c", ".h", ".cu", ".cuh"}
SOURCE_LIST = "cmake/sources.cmake"
# Folders whose every .c file must be built, less exceptions.
LISTED = ("src", "analysis", "models", "statements", "engines", "program", "tests")
UNLISTED = {"program/main.c", "tests/wine/bcryptprimitives.c", "tests/wine/python.c", "tests/wine/ucrtbase.c"}


def top_folder(path: str) -> str:
    return path.partition("/")[0]


def is_public(name: str, root: Path) -> bool:
    return "/" not in name and (root / "include" / name).is_file()


def layer_of(path: str) -> str | None:
    """The layer of a file under src/, its folder there; None when unknown."""
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and (parts[1] in HEIGHTS or parts[1] == "judge") else None


def resolve(including: str, name: str, root: Path) -> str | None:
    """The repository path an include in quotes means; None for the system's own headers."""
    for folder in (str(Path(including).parent), "src", "tests", "tests/support", "."):
        candidate = (root / folder / name).resolve()
        if candidate.is_file() and candidate.is_relative_to(root.resolve()):
            return candidate.relative_to(root.resolve()).as_posix()
    return None


def judge_source(path: str, target: str) -> str | None:
    """Why a file under src/ may not include `target`, or None."""
    own = layer_of(path)
    if not target.startswith("src/"):
        return "lies outside the library"
    other = layer_of(target)
    if other is None:
        return "belongs to no layer"
    if own == "judge":
        return None if other in JUDGED else f"the judge may not see {other}/"
    if other == "judge":
        return None if own == "operator" else "only the operator may call the judge"
    backends = ("src/backend/cpu/", "src/backend/plain/")
    if path.startswith("src/backend/blocks/") and target.startswith(backends):
        return "makes blocks know a backend"
    if own is None or own == other:
        return None
    if other == "batches":
        return "is of the batches, and a build may leave the batches out"
    if own == "batches" and not target.startswith(WING):
        return f"points upward or aside: the batches may not see {target}"
    inside = target.split("/")[2] if other == "backend" and target.count("/") > 2 else None
    if inside not in (None, "blocks") and own != "backend":
        return "goes behind the seam: a backend is known by src/backend/*.h only"
    if HEIGHTS[other] >= HEIGHTS[own]:
        return f"points upward, from {own} to {other}"
    return None


def judge_outside(path: str, target: str) -> str | None:
    folder = top_folder(path)
    if target.startswith((f"{folder}/", *OUTSIDE[folder])):
        return None
    return f"is not for {folder}/, which may see {', '.join(('public headers', *OUTSIDE[folder]))} and itself"


def check_includes(root: Path, files: list[str]) -> list[str]:
    defects = []
    for path in files:
        top = top_folder(path)
        if top not in OUTSIDE and top != "src":
            continue
        if top == "src" and layer_of(path) is None:
            defects.append(f"{path}: unknown place in src/; layers are {', '.join(HEIGHTS)} and the judge")
            continue
        text = (root / path).read_text(encoding="utf-8", errors="replace")
        for match in INCLUDE.finditer(text):
            quote, name = match.groups()
            if is_public(name, root):
                if top == "src" and name not in LIBRARY_HEADERS:
                    defects.append(f"{path}: includes {name}, which is of another library")
                continue
            target = resolve(path, name, root)
            if target is None:
                if quote == '"':
                    defects.append(f'{path}: "{name}" is not found')
                continue
            reason = judge_source(path, target) if top == "src" else judge_outside(path, target)
            if reason is not None:
                defects.append(f"{path}: include of {name} {reason}")
    return defects


def check_folders(files: list[str]) -> list[str]:
    known = {*FREE, *OUTSIDE, "src"}
    return [
        f"{path}: unknown folder {top_folder(path)}/; the house plan has no such place"
        for path in files
        if top_folder(path) not in known
    ]


def check_list(root: Path, files: list[str]) -> list[str]:
    """Every .c file is built: it stands in the list of sources, in order, and nothing else does."""
    listing = root / SOURCE_LIST
    if not listing.is_file():
        return [f"{SOURCE_LIST} is missing"]
    defects = []
    listed: list[str] = []
    for block in re.findall(r"set\(OTATTN_\w+_SOURCES([^)]*)\)", listing.read_text(encoding="utf-8")):
        names = block.split()
        if names != sorted(names):
            defects.append(f"{SOURCE_LIST}: a list is not sorted: {next(iter(names), '')} ...")
        listed += names
    wanted = {
        path for path in files if path.endswith(".c") and top_folder(path) in LISTED and path not in UNLISTED
    }
    defects += [f"{path}: not in {SOURCE_LIST}, so it is not built" for path in sorted(wanted - set(listed))]
    defects += [f"{SOURCE_LIST}: {path} does not exist" for path in sorted(set(listed) - wanted)]
    return defects


def find_files(root: Path) -> list[str]:
    found = []
    for path in root.rglob("*"):
        relative = path.relative_to(root)
        hidden_or_built = relative.parts[0].startswith((".", "build"))
        if path.suffix in SUFFIXES and path.is_file() and not hidden_or_built:
            found.append(relative.as_posix())
    return sorted(found)


def check(root: Path) -> list[str]:
    files = find_files(root)
    return check_folders(files) + check_includes(root, files) + check_list(root, files)


def check_build(root: Path) -> list[str]:
    return check_includes(root, find_files(root))


# A defect planted in a sound tree: file, its text, and a word of the complaint it must cause.
PLANTS = [
    ("src/base/bad.h", '#include "problem/problem.h"\n', "points upward"),
    ("src/problem/bad.h", '#include "../solvers/solver.h"\n', "points upward"),
    ("src/columns/bad.h", '#include "masks/masks.h"\n', "points upward"),
    ("src/backend/cpu/bad.h", '#include "solvers/solver.h"\n', "points upward"),
    ("src/solvers/bad.h", '#include "operator/plan.h"\n', "points upward"),
    ("src/judge/scores.h", '#include "backend/cpu/kernels.h"\n', "the judge may not see"),
    ("src/judge/dual.h", '#include "solvers/solver.h"\n', "the judge may not see"),
    ("src/operator/kernels.h", '#include "backend/cpu/kernels.h"\n', "behind the seam"),
    ("src/batches/kernels.h", '#include "backend/cpu/kernels.h"\n', "behind the seam"),
    ("src/batches/plan.h", '#include "operator/plan.h"\n', "points upward"),
    ("src/ranks/kernels.h", '#include "backend/cpu/kernels.h"\n', "behind the seam"),
    ("src/operator/ranks.h", '#include "ranks/ranks.h"\n', "points upward"),
    ("src/backend/blocks/kernels.h", '#include "backend/cpu/kernels.h"\n', "know a backend"),
    ("src/batches/solver.h", '#include "solvers/solver.h"\n', "may not see"),
    ("src/operator/batch.h", '#include "batches/batch.h"\n', "may leave the batches out"),
    ("src/solvers/kernels.h", '#include "backend/cpu/kernels.h"\n', "behind the seam"),
    ("src/solvers/worse.h", '#include "judge/certificate.h"\n', "only the operator"),
    ("src/base/worse.h", "#  include <otattn_analysis.h>\n", "of another library"),
    ("src/helpers/new.h", "\n", "unknown place"),
    ("src/stray.h", "\n", "unknown place"),
    ("misc/new.h", "\n", "unknown folder"),
    ("program/bad.h", '#include "base/base.h"\n', "is not for"),
    ("analysis/bad.h", '#include "../program/program.h"\n', "is not for"),
    ("models/bad.h", '#include "statements/check.h"\n', "is not for"),
    ("statements/bad.h", '#include "program/program.h"\n', "is not for"),
    ("examples/bad.h", '#include "../src/base/base.h"\n', "is not for"),
    ("src/base/lost.h", '#include "nowhere.h"\n', "is not found"),
    ("src/base/unlisted.c", "\n", "not built"),
]

SOUND = {
    "include/otattn.h": "",
    "include/otattn_analysis.h": "",
    "src/base/base.h": '#include "otattn.h"\n#include <stdint.h>\n',
    "src/base/base.c": '#include "base.h"\n',
    "src/problem/problem.h": '#include "base/base.h"\n',
    "src/backend/cpu/kernels.h": '#include "problem/problem.h"\n',
    "src/masks/masks.h": '#include "problem/problem.h"\n',
    "src/backend/backend.h": '#include "problem/problem.h"\n',
    "src/solvers/solver.h": '#include "backend/backend.h"\n',
    "src/backend/blocks/blocks.h": '#include "backend/backend.h"\n',
    "src/ranks/ranks.h": '#include "operator/plan.h"\n#include "backend/blocks/blocks.h"\n',
    "src/solvers/matching/search.h": '#include "base/base.h"\n',
    "src/batches/batch.h": '#include "backend/backend.h"\n#include "solvers/matching/search.h"\n',
    "src/operator/plan.h": '#include "solvers/solver.h"\n#include "judge/certificate.h"\n',
    "src/judge/certificate.h": '#include "problem/problem.h"\n',
    "tests/test_x.h": '#include "solvers/solver.h"\n',
    "program/program.h": '#include <otattn.h>\n#include "otattn_analysis.h"\n',
    "program/report/report.h": '#include "program/program.h"\n#include "../program.h"\n',
    "statements/check.h": '#include "otattn_analysis.h"\n',
    "program/verify/verify.h": '#include "statements/check.h"\n',
    "analysis/analysis.h": '#include "base/base.h"\n',
    SOURCE_LIST: "set(OTATTN_LIBRARY_SOURCES\n    src/base/base.c)\n",
}


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        beside = {**SOUND, "mine.c": '#include "gone.h"\n', "prefix/include/otattn.h": ""}
        return self_test("layers", check, SOUND, PLANTS) or self_test("includes", check_build, beside, [])
    root = Path(sys.argv[-1] if len(sys.argv) > 1 else ".").resolve()
    defects = check_build(root) if "--includes" in sys.argv else check(root)
    print("\n".join(defects) if defects else "layers: every include points down, every source is listed")
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
