"""Runs a program with the stand-in of failing_calls.h: what it called where, and what a failing call made of
it."""

from __future__ import annotations

import bisect
import errno
import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

# What a call of a kind fails with; `short` reads or writes half.
FAILURES: dict[str, tuple[str, ...]] = {
    "memory": (str(errno.ENOMEM),),
    "open": (str(errno.EMFILE),),
    "read": (str(errno.EIO), str(errno.EINTR), "short"),
    "input": (str(errno.EIO),),
    "write": (str(errno.ENOSPC), str(errno.EINTR), "short"),
    "output": (str(errno.ENOSPC),),
    "sync": (str(errno.EIO),),
    "close": (str(errno.EIO),),
    # EINVAL is what a file system says that cannot exchange two names, or keep one that is there.
    "name": (str(errno.EACCES), str(errno.EINVAL)),
    "look": (str(errno.EACCES),),
    "map": (str(errno.ENOMEM),),
    "thread": (str(errno.EAGAIN),),
}


# libzip starts OpenSSL, which keeps what it made; what that does without memory is its own affair.
# OpenBLAS is opened when a session begins, and the libraries it brings end the process where they have none.
FOREIGN = ("libcrypto", "libgfortran", "libquadmath", "libopenblas")
# Without memory these write where they have none. The program lends them a reserve; a library cannot, since
# their allocator is one for the process.
FRAGILE = ("libjansson",)
# What these hold when their own call failed they keep to themselves; nobody outside can free it.
KEEPERS = ("libzip",)


@dataclass(frozen=True)
class Site:
    kind: str
    key: str
    calls: int
    held: int
    frames: tuple[str, ...]

    @property
    def foreign(self) -> bool:
        modules = [frame.split("+")[0] for frame in self.frames]
        opens = "libc.so.6" in modules and any(
            module.startswith("ld-") for module in modules[modules.index("libc.so.6") :]
        )
        return opens or any(module.startswith(FOREIGN) for module in modules)

    @property
    def fragile(self) -> bool:
        return self.kind == "memory" and bool(self.frames) and self.frames[0].startswith(FRAGILE)

    @property
    def kept(self) -> bool:
        """Called inside a library that keeps what it held, or by the C library for the stack of a thread."""
        if self.frames and self.frames[0].startswith("ld-"):
            return True
        others = [frame for frame in self.frames if not frame.startswith("libc.")]
        return bool(others) and others[0].startswith(KEEPERS)


@dataclass
class Log:
    sites: dict[str, Site] = field(default_factory=dict)
    descriptors: int = -1
    fired: bool = False


def read_log(path: Path) -> Log:
    log = Log()
    for line in path.read_text().splitlines() if path.exists() else []:
        words = line.split()
        if words[0] == "site":
            site = Site(words[1], words[2], int(words[3]), int(words[4]), tuple(words[6:]))
            log.sites[site.key] = site
        elif words[0] == "descriptors":
            log.descriptors = int(words[1])
        elif words[0] == "fired":
            log.fired = words[1] == "1"
    return log


@dataclass
class Run:
    code: int  # negative: the signal that ended it
    out: bytes
    error: str
    log: Log
    timed_out: bool = False


def run(
    library: Path,
    words: list[str],
    folder: Path,
    log: Path,
    wish: str = "",
    standard_input: Path | None = None,
    seconds: float = 120,
    **more: str,
) -> Run:
    """`wish` is the value of OTATTN_FAULT."""
    log.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "OTATTN_FAULT_LOG": str(log),
        "OPENBLAS_NUM_THREADS": "1",
        "OPENSSL_CONF": "/dev/null",
        "LC_ALL": "C.UTF-8",
        **more,
    }
    if wish:
        environment["OTATTN_FAULT"] = wish
    source = standard_input.open("rb") if standard_input else subprocess.DEVNULL
    process = subprocess.Popen(
        words,
        cwd=folder,
        stdin=source,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        close_fds=False,
    )
    if standard_input:
        source.close()  # type: ignore[union-attr]
    timed_out = False
    try:
        out, error = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        timed_out = True
        process.kill()
        out, error = process.communicate()
    return Run(process.returncode, out, error.decode(errors="replace"), read_log(log), timed_out)


class Symbols:
    """Names of the functions of a program by offset."""

    def __init__(self, program: Path):
        listed = subprocess.run(["nm", "-n", str(program)], capture_output=True, text=True, check=True).stdout
        rows = [line.split() for line in listed.splitlines()]
        found = [(int(row[0], 16), row[2]) for row in rows if len(row) == 3 and row[1] in "tT"]
        self.begins = [begin for begin, _ in found]
        self.names = [name for _, name in found]

    def name(self, frame: str) -> str:
        module, _, offset = frame.rpartition("+")
        if module != "program":
            return module
        # A return address may lie behind the function that called.
        at = bisect.bisect_right(self.begins, int(offset, 16) - 1) - 1
        return self.names[at] if at >= 0 else "?"

    def stack(self, site: Site) -> str:
        names: list[str] = []
        for frame in site.frames:
            name = self.name(frame)
            if not names or names[-1] != name:
                names.append(name)
        return " < ".join(names)


def signal_name(code: int) -> str:
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
