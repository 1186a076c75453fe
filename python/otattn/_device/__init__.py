"""Attention on tensors of any torch device, by composition over attention kernels that return log-sum-exps.

From the ground up, each file using those before it:

    scores.py      the scores S / tau of a call in blocks of rows, and what it is asked for besides
    engines.py     what an engine is: five calls on scores and potentials; the table of engines
    blocks.py      the engine of plain torch operations: every term, mask and type, wherever torch runs
    fused.py       engines of torch's operators of attention; flex.py: of its FlexAttention
    triton_*.py    the engine of our own kernels in Triton
    rules.py       column rules: one update of the column potential each
    solver.py      rounds to a tolerance or of a number
    adjoint.py     derivatives of a solution, and of rounds
    entmax.py      rows of entmax on free columns
    judge.py       certificate and statistics of rows
    choice.py      who computes a call: an engine, or the library on the CPU
    checks.py      what is refused before a solve; outcome.py: what one ended in, and results by name
    call.py        the operators `solve` and `gradients` for such tensors

Potentials are in nats here: those of the header over the temperature. What has the size of the pairs exists
for a block of rows at a time.
"""
