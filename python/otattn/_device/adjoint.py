"""Derivatives of a solution, and of a fixed number of rounds, on an engine.

One round is f = F(l), l = LSE_j(S + g), then g = G(g, L), L = LSE_i(S + f). Its reverse takes gradients
by f and g, written f' and g', to

    l' = dF/dl f',   L' = dG/dL g',    g' += W^T l',  W_ij = exp(S_ij + g_j - l_i)
                                       f' += Q L',    Q_ij = exp(S_ij + f_i - L_j)

and adds W_ij l'_i + Q_ij L'_j to the gradient by the scores; masses, caps, strengths, sinks and the
temperature are inside of F and G. A solution is the fixed point of a round: with a = -l' / rows' sums,
b = -L' / columns' sums C, and r, c the sums of P dL/dP over columns and rows, the gradient by the scores is
P_ij (dL/dP_ij - a_i - b_j), and

    (C / y - P^T X P) b = c - P^T X r,     a = X (r - P b),     y = -dG/dL,  X = -dF/dl / rows' sums

which conjugate gradients solve; keys with y = 0 have b = 0, and of exact columns constants are in the kernel.

A row of mass 0 has no part in any of it; where its mass begins to grow, f' there is the gradient by its mass
if the row's potential is that of a mass of 1, -l with the sink; and of a key of mass 0 g' that by its target
if its potential is -L of the update before (src/operator/mass_limits.h).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from .._errors import NotConverged
from .._torch_device import EVERY
from .blocks import Blocks
from .engines import Engine
from .rules import OF_MARGINALS, RULES, grows, marginals, next_columns, next_rows, with_sink
from .scores import OF_SCORES, Scores
from .solver import Step, begin, solve

# Relative residual of the linear system, of f32 and f64, and the most steps.
CLOSE, CLOSE_WIDE, STEPS = 1e-6, 1e-10, 2000
# Logarithms of sums that may be divided by.
FEWEST = {torch.float32: -80.0, torch.float64: -700.0}


class Upstream:
    """Gradients of the results of a call, in the type of the arithmetic."""

    def __init__(
        self, scores: Scores, out: Tensor | None, coupling: Tensor | None, receiver: Tensor | None
    ) -> None:
        # Rows whose output is NaN have gradients of NaN.
        self.out = None if out is None else out.to(scores.wide).where(~scores.spoiled[..., None], torch.nan)
        self.coupling = None if coupling is None else coupling.to(scores.wide)
        self.receiver = (
            None
            if receiver is None
            else receiver.reshape(scores.batch, scores.heads, scores.columns).to(scores.wide)
        )

    def sums(self, engine: Engine, f: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        """r and c of the text above."""
        r, by_key = torch.zeros_like(f), torch.zeros_like(g)
        if self.out is not None:
            values = engine.scores.given["value"]
            r = r + (self.out * engine.product(f, g, values, dropped=True)).sum(3)
            each = engine.product(f, g, self.out, transposed=True, dropped=True)
            by_key = by_key + (each.unflatten(1, (values.shape[1], -1)) * values[:, :, None]).sum(4).flatten(
                1, 2
            )
        if self.coupling is not None:
            more = Blocks(engine.scores).moments(f, g, self.coupling)
            r, by_key = r + more[0], by_key + more[1]
        if self.receiver is not None:
            r = r + engine.product(f, g, self.receiver[..., None])[..., 0]
            sums = torch.exp(g + engine.lse(f, transposed=True)).where(g > -torch.inf, 0.0)
            by_key = by_key + self.receiver * sums
        return r, by_key

    def pull(
        self, engine: Engine, f: Tensor, g: Tensor, a: Tensor, b: Tensor, names: set[str]
    ) -> dict[str, Tensor]:
        """Gradients of operands of the scores, and of the values, for these a and b."""
        b = b if self.receiver is None else b - self.receiver
        return engine.backward(f, g, a, b, names, self.out, self.coupling)


class Reverse:
    """Rounds in reverse: gradients by operands of the scores and of the marginals, added up."""

    def __init__(self, engine: Engine, wanted: Sequence[str]) -> None:
        s = engine.scores
        self.engine, self.rule = engine, RULES.get(s.problem.columns)
        self.names = {x for x in wanted if x in OF_SCORES}
        self.leaves = {x: s.given[x].detach().requires_grad_() for x in OF_MARGINALS if x in wanted}
        with torch.enable_grad():
            self.marginals = m = marginals(s, {**s.given, **self.leaves})
        self.found: dict[str, Tensor] = {}
        # Rows and keys whose masses of 0 grow, or None.
        self.empty_rows = self._empty("row_mass", m.mass)
        self.empty_keys = self._empty("column_mass", m.target)

    def _empty(self, name: str, masses: Tensor) -> Tensor | None:
        if name not in self.leaves or not grows(self.engine.scores, name):
            return None
        found = masses.detach() == 0.0
        return found if bool(found.any()) else None

    def of_rows(self, f: Tensor, lse: Tensor) -> Tensor:
        """f, of rows whose mass of 0 grows that of a mass of 1."""
        if self.empty_rows is None:
            return f
        return _negative(with_sink(lse, self.marginals).detach()).where(self.empty_rows, f)

    def of_keys(self, g: Tensor, column_lse: Tensor) -> Tensor:
        """The same of keys, once an update has told that they have none."""
        if self.empty_keys is None:
            return g
        return _negative(column_lse).where(self.empty_keys & (g == -torch.inf), g)

    def add(self, more: Mapping[str, Tensor]) -> None:
        for name, x in more.items():
            self.found[name] = self.found[name] + x if name in self.found else x

    def _through(self, output: Tensor, gradient: Tensor, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The gradient by the inputs, and by the leaves, which is added."""
        leaves = list(self.leaves.values())
        parts = torch.autograd.grad(
            output, [*inputs, *leaves], gradient, retain_graph=True, allow_unused=True
        )
        count = len(inputs)
        self.add({n: x for n, x in zip(self.leaves, parts[count:], strict=True) if x is not None})
        return [torch.zeros_like(y) if x is None else x for x, y in zip(parts[:count], inputs, strict=True)]

    def rows(self, row_lse: Tensor, gradient: Tensor) -> Tensor:
        """That by the LSE of a row update."""
        if self.empty_rows is not None:
            self._through(self.marginals.mass, gradient.where(self.empty_rows, 0.0), [])
        row_lse = row_lse.detach().requires_grad_()
        with torch.enable_grad():
            f = next_rows(row_lse, self.marginals)
        return self._through(f, gradient, [row_lse])[0]

    def columns(self, g: Tensor, column_lse: Tensor, gradient: Tensor) -> list[Tensor]:
        """Those by g and by the LSE of a column update."""
        assert self.rule is not None
        if self.empty_keys is not None:
            self._through(self.marginals.target, gradient.where(self.empty_keys, 0.0), [])
        g, column_lse = g.detach().requires_grad_(), column_lse.detach().requires_grad_()
        with torch.enable_grad():
            after = next_columns(self.rule, g, column_lse, self.marginals)
        return self._through(after, gradient, [g, column_lse])

    def start(self, gradient: Tensor) -> None:
        """Adds those by what the first g is made of."""
        with torch.enable_grad():
            g = begin(self.engine, {**self.engine.scores.given, **self.leaves})
        if g.requires_grad:
            self._through(g, gradient, [])

    def round(self, step: Step, gradient: Tensor, last: Tensor | None) -> Tensor:
        """The gradient by g before a round, of that by g after it; `last`: the LSE that g came from."""
        engine, nothing = self.engine, torch.zeros_like
        g, lse, f, column_lse = step
        before, by_lse = self.columns(g, column_lse, gradient)
        share = _negative(column_lse)
        by_f = engine.product(self.of_rows(f, lse), share, by_lse[..., None])[..., 0]
        self.add(engine.backward(f, share, nothing(f), -by_lse, self.names))
        by_row = self.rows(lse, by_f)
        share = _negative(lse)
        self.add(engine.backward(share, g, -by_row, nothing(g), self.names))
        g = g if last is None else self.of_keys(g, last)
        return before + engine.product(share, g, by_row[..., None], transposed=True)[..., 0]


def _negative(lse: Tensor) -> Tensor:
    """The potential that makes sums 1; none where there is nothing to sum."""
    return -lse.where(lse > -torch.inf, torch.inf)


def _over_sums(inside: Tensor) -> Tensor:
    """1 over rows' sums, given their logarithms; 0 where there is nothing to sum.

    A sink may leave a row less than the type holds. Sums are then taken as larger than they are: weights of
    such rows are 0, and the quotient stays finite.
    """
    least = FEWEST[inside.dtype]
    return torch.exp(-inside.clamp(min=least)).where(inside > -torch.inf, 0.0)


def gradients(
    engine: Engine, wanted: Sequence[str], upstream: Upstream, g: Tensor | None
) -> dict[str, Tensor]:
    """By the operands `wanted`, from the column potential of a solution; None: of rounds, which run again."""
    s = engine.scores
    reverse = Reverse(engine, wanted)
    history: list[Step] = []
    solved = g is not None
    if g is None:
        g = solve(engine, history, measured=False).g
    lse = engine.lse(g)
    f = next_rows(lse, marginals(s))
    by_f, by_g = upstream.sums(engine, f, g)
    rows = reverse.of_rows(f, lse)
    by_f = by_f if rows is f else upstream.sums(engine, rows, g)[0]
    if solved and reverse.rule is not None:
        b = _multipliers(engine, reverse, (lse, f, g), by_f, by_g)
        by_f = by_f - engine.product(rows, g, b[..., None])[..., 0]
    else:
        b = torch.zeros_like(g)
    by_lse = reverse.rows(lse, by_f)
    inside = f + lse
    a = -by_lse * _over_sums(inside)
    if reverse.rule is not None:
        keys = g
        if reverse.empty_keys is not None:
            keys = reverse.of_keys(g, history[-1].column_lse if history else engine.lse(f, transposed=True))
            by_g = upstream.sums(engine, f, keys)[1]
        by_g = by_g - engine.product(f, keys, a[..., None], transposed=True)[..., 0]
        if solved:
            reverse.columns(g, _settled(reverse, g), by_g)
    names = reverse.names | ({"value"} & set(wanted))
    reverse.add(upstream.pull(engine, f, g, a, b, names))
    for k, step in reversed(list(enumerate(history))):
        by_g = reverse.round(step, by_g, history[k - 1].column_lse if k else None)
    if history:
        reverse.start(by_g)
    found = reverse.found
    return {name: found[name] if name in found else torch.zeros_like(s.given[name]) for name in wanted}


def _settled(reverse: Reverse, g: Tensor) -> Tensor:
    """The LSE from which a column update comes to this g."""
    assert reverse.rule is not None
    m = reverse.marginals
    open_ = m.log_target > -torch.inf
    return (m.log_target - reverse.rule.ratio(g.where(open_, 0.0), m)).where(open_, 0.0).detach()


def _multipliers(
    engine: Engine, reverse: Reverse, at: tuple[Tensor, Tensor, Tensor], r: Tensor, by_key: Tensor
) -> Tensor:
    """b of the text above."""
    lse, f, g = at
    s = engine.scores
    assert reverse.rule is not None
    with torch.enable_grad():
        row, column = lse.detach().requires_grad_(), _settled(reverse, g).requires_grad_()
        x = -torch.autograd.grad(next_rows(row, reverse.marginals).sum(), row)[0]
        moved = next_columns(reverse.rule, g, column, reverse.marginals)
        y = -torch.autograd.grad(moved.sum(), column)[0]
    inside = f + lse
    weight = x * _over_sums(inside)
    sums = torch.exp(g + engine.lse(f, transposed=True)).where(g > -torch.inf, 0.0)
    moving = (y > 0.0) & (sums > 0.0)
    diagonal = (sums / y.where(moving, 1.0)).where(moving, 1.0)

    # Constants are in the kernel of heads whose rows give all and whose keys all ask for a sum, as where all
    # caps are filled. What they are mapped to is 0 but for rounding, of which narrow types have enough.
    fixed = (moving & (y >= 1.0)) | ~(sums > 0.0)
    closed = fixed.all(2, keepdim=True) & ((x >= 1.0) | ~(inside > -torch.inf)).all(2, keepdim=True)

    def apart(v: Tensor) -> Tensor:
        part = v.sum(2, keepdim=True) / sums.sum(2, keepdim=True).clamp(min=torch.finfo(s.wide).tiny)
        return v - sums * part.where(closed, 0.0)

    def apply(v: Tensor) -> Tensor:
        through = weight * engine.product(f, g, v[..., None])[..., 0]
        back = engine.product(f, g, through[..., None], transposed=True)[..., 0]
        return apart((diagonal * v - back).where(moving, 0.0))

    right = by_key - engine.product(f, g, (weight * r)[..., None], transposed=True)[..., 0]
    right = apart(right.where(moving, 0.0))
    size = engine.product(f, g, (weight * r).abs()[..., None], transposed=True)[..., 0]
    scale = (by_key.abs() + size).where(moving, 0.0).sum(2)
    return conjugate_gradients(apply, right, diagonal, scale, s.check_deadline)


def conjugate_gradients(
    apply: Callable[[Tensor], Tensor],
    right: Tensor,
    diagonal: Tensor,
    scale: Tensor,
    check_deadline: Callable[[], None],
) -> Tensor:
    """The solution of a positive semidefinite system, its residual in units of `scale` [batch, heads]."""
    close = CLOSE_WIDE if right.dtype == torch.float64 else CLOSE
    x, residual = torch.zeros_like(right), right
    z = residual / diagonal
    direction, product = z, (residual * z).sum(2, keepdim=True)
    every = 1 if right.is_cpu else EVERY
    for k in range(STEPS + 1):
        # What is NaN has no solution, and gradients of NaN.
        done = ~(residual.abs().sum(2) > close * scale)[..., None]
        if k % every == 0:
            check_deadline()
            if bool(done.all()):
                # Keys of small sums show in no residual: each is solved beside the others, as they are.
                return x + residual / diagonal
        along = apply(direction)
        curve = (direction * along).sum(2, keepdim=True)
        go = ~done & (curve > 0.0)
        length = (product / curve.where(go, 1.0)).where(go, 0.0)
        x = x + length * direction
        residual = residual - length * along
        z = residual / diagonal
        after = (residual * z).sum(2, keepdim=True)
        direction = z + (after / product.where(go, 1.0)).where(go, 0.0) * direction
        product = after
    raise NotConverged(
        f"the system of the implicit gradient did not come below its residual of {close:g} in {STEPS} steps",
        advice="use f64, a higher temperature, or fixed rounds, whose gradients need no system",
    )
