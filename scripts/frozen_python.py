"""The command line of a Python that was made for frozen programs: its executable imports this as
`__startup__` and calls init and run.

python3 FILE [ARGUMENT...]        python3 -m MODULE [ARGUMENT...]        python3 -c TEXT [ARGUMENT...]

PYTHONPATH is honoured; other options are not known.
"""

from __future__ import annotations

import importlib.machinery
import os
import runpy
import sys
import types
from pathlib import Path


def init() -> None:
    """What the build of a Python writes about it, as far as it is asked for here."""
    name = f"_sysconfigdata_{sys.abiflags}_{sys.platform}_{getattr(sys.implementation, '_multiarch', '')}"
    build = types.ModuleType(name)
    vars(build)["build_time_vars"] = {
        "EXT_SUFFIX": importlib.machinery.EXTENSION_SUFFIXES[0],
        "Py_GIL_DISABLED": int("t" in sys.abiflags),
    }
    sys.modules[name] = build


def run() -> None:
    sys.path[:0] = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    try:
        start(*sys.orig_argv[1:])
    except Exception:
        # The executable would end with 255.
        sys.excepthook(*sys.exc_info())
        sys.exit(1)


def start(how: str, *words: str) -> None:
    sys.argv = list(words)
    if how == "-m":
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    elif how == "-c":
        sys.argv[0] = how
        exec(compile(words[0], "<string>", "exec"), vars(sys.modules["__main__"]))
    else:
        sys.argv.insert(0, how)
        sys.path.insert(0, str(Path(how).resolve().parent))
        runpy.run_path(how, run_name="__main__")
