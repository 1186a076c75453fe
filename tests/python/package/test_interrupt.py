"""Ctrl-C in the middle of a call: it ends soon, by an exception; silent handlers change nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# The child signals itself while the call runs, which would take minutes: small sizes, and many rounds. Where
# it is started in the background the signal is ignored, and Python has no handler of its own.
_CALL = """
import signal, sys, threading, time
import numpy as np
import otattn
signal.signal(signal.SIGINT, signal.default_int_handler)
rng = np.random.default_rng(0)
{setup}
def kick():
    time.sleep(0.3)
    started.append(time.perf_counter())
    interrupt()
started = []
call = lambda: {call}
threading.Thread(target=kick).start()
try:
    while len(started) == 0 or time.perf_counter() < started[0] + 60.0:
        call()
except KeyboardInterrupt:
    print("interrupted", time.perf_counter() - started[0] < 20.0)
"""
_CALLS = {
    "attention": (
        "q = rng.normal(size=(1, 1, 1500, 8))",
        "otattn.attention(q, q, q, method='softmax/exact{rounds=200000}')",
    ),
    "torch": (
        "import torch; q = torch.randn(1, 1, 1500, 8)",
        "otattn.attention(q, q, q, method='softmax/exact{rounds=200000}')",
    ),
    "assignment": (
        "M = np.multiply.outer(np.arange(3000.0), np.arange(3000.0))",
        "otattn.linear_sum_assignment(M)",
    ),
    "ranked": (
        "M = rng.random((400, 400))",
        "otattn.k_best_assignments(M, 100000)",
    ),
    "bounded": (
        "from otattn._bounded import solve_bounded; M = rng.random((400000, 4)), rng.random((400, 4))",
        "solve_bounded(k=3, lower=3000, upper=3000, points=M[0], centres=M[1])",
    ),
    "dist": (
        "x = rng.normal(size=(8000, 300))",
        "otattn.ot.dist(x)",
    ),
    "emd": (
        "M = rng.random((3000, 3000)); a, b = rng.dirichlet(np.ones(3000), 2)",
        "otattn.ot.emd(a, b, M)",
    ),
    "sinkhorn2": (
        "M = rng.random((4000, 4000)); a, b = rng.dirichlet(np.ones(4000), 2)",
        "otattn.ot.sinkhorn2(a, b, M, 0.05, numItermax=3)",
    ),
    "hamming": (
        "p, q = rng.dirichlet(np.ones(20000), 2)",
        "otattn.analysis.hamming(p, q, 0.01, 'sinkhorn', 1e-300, 10**7)",
    ),
    "compose": (
        "p = rng.dirichlet(np.ones(3000), 3000)",
        "otattn.analysis.compose(p, p)",
    ),
    "spectral_norm": (
        "x = rng.normal(size=(3000, 3000))",
        "otattn.analysis.spectral_norm(x)",
    ),
    "normalize": (
        "x = rng.normal(size=(20000, 8, 8))",
        "otattn.sinkhorn_normalize(x, rounds=100000)",
    ),
}


# On Windows os.kill ends a process; there a handler runs in a thread of its own.
_INTERRUPT = """
import os, signal, sys
def interrupt():
    if sys.platform == "win32":
        signal.raise_signal(signal.SIGINT)
    else:
        os.kill(os.getpid(), signal.SIGINT)
"""


def _run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPT + code], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


@pytest.mark.parametrize("name", _CALLS)
def test_ctrl_c_ends_a_call(name: str) -> None:
    """KeyboardInterrupt in the call, not behind the minutes that it would take."""
    if name == "torch":
        pytest.importorskip("torch")
    setup, call = _CALLS[name]
    assert _run(_CALL.format(setup=setup, call=call)) == "interrupted True\n"


@pytest.mark.parametrize(
    ("given", "call"),
    [
        ('"ab cd " * 2000000', "tokenizer.encode(given)"),
        ("np.tile([5, 6], 1000000)", "tokenizer.decode_bytes(given)"),
    ],
    ids=["encoding", "decoding"],
)
def test_ctrl_c_ends_a_tokenizer(tmp_path: Path, given: str, call: str) -> None:
    """Within the call, which by itself takes ten times as long as it is let."""
    (tmp_path / "vocab.txt").write_text("[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\nab\ncd\n")
    code = f"""
import signal, threading, time
import numpy as np
import otattn
signal.signal(signal.SIGINT, signal.default_int_handler)
tokenizer = otattn.Tokenizer({str(tmp_path / "vocab.txt")!r})
given = {given}
began = time.perf_counter()
{call}
whole = time.perf_counter() - began
threading.Timer(0.1 * whole, interrupt).start()
began = time.perf_counter()
try:
    {call}
    print("not interrupted")
except KeyboardInterrupt:
    print("interrupted", time.perf_counter() - began < 0.6 * whole)
"""
    assert _run(code) == "interrupted True\n"


def test_a_handler_that_wants_nothing() -> None:
    """The call is made again where the handler raises nothing, in the main thread and in others."""
    code = """
import signal, threading, time
import numpy as np
import otattn
seen = []
signal.signal(signal.SIGINT, lambda *_: seen.append(1))
q = np.random.default_rng(0).normal(size=(1, 1, 300, 8))
run = lambda: otattn.attention(q, q, q, method="softmax/exact{rounds=3000}")
want = run()
def kick():
    for _ in range(5):
        time.sleep(0.02)
        interrupt()
others = [threading.Thread(target=kick)]
found = []
others.append(threading.Thread(target=lambda: found.append(run())))
for one in others: one.start()
while others[0].is_alive(): found.append(run())
for one in others: one.join()
print(len(seen) > 0, all((x == want).all() for x in found), signal.getsignal(signal.SIGINT) is not None)
"""
    assert _run(code) == "True True True\n"


def test_functions_of_python_lose_no_interrupt() -> None:
    """A signal that comes while a regulariser's function begins is raised by the call, each of twenty."""
    code = """
import signal, threading, time
import numpy as np
import otattn
signal.signal(signal.SIGINT, signal.default_int_handler)
method = otattn.Regulariser(lambda x: max(x, 0.0), lambda x: float(x > 0.0))
scores = np.random.default_rng(0).normal(size=(400, 400))
raised = 0
for turn in range(20):
    came = threading.Event()
    def kick():
        time.sleep(0.02 + 0.003 * turn)
        interrupt()
        came.set()
    threading.Thread(target=kick).start()
    try:
        while not came.is_set():
            otattn.coupling(scores, method=method)
    except KeyboardInterrupt:
        raised += 1
    came.wait()
print("raised", raised)
"""
    assert _run(code) == "raised 20\n"
