"""What an engine is, and the table of engines, the best first."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from torch import Tensor

from .. import _structs as c
from .blocks import Blocks
from .flex import Flex
from .fused import Cudnn, Efficient, Flash, Overrideable
from .scores import OF_SCORES, Scores
from .triton_engine import Kernels


class Engine(Protocol):
    """The pairs of one call: S [batch, heads, rows, columns] in nats, never stored as a whole.

    P_ij = exp(S_ij + f_i + g_j) for potentials f [batch, heads, rows] and g [batch, heads, columns]. Where
    the scores have a `common`, f and sums over a row are those of S less that.
    """

    name: str
    differentiates: frozenset[str]
    """Operands by which it has gradients, and "coupling" where it takes gradients of P."""
    scores: Scores

    def __init__(self, scores: Scores) -> None: ...

    @staticmethod
    def refuses(scores: Scores) -> str | None:
        """Why it cannot compute a call; None: it can."""
        raise NotImplementedError

    def lse(self, bias: Tensor, transposed: bool = False) -> Tensor:
        """LSE_j(S_ij + bias_j) [batch, heads, rows]; transposed LSE_i(S_ij + bias_i) [.., columns]."""
        raise NotImplementedError

    def attend(self, bias: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Softmax rows of S_ij + bias_j, less dropout, times x [.., key heads, columns, w]; their LSE."""
        raise NotImplementedError

    def product(
        self, f: Tensor, g: Tensor, x: Tensor, transposed: bool = False, dropped: bool = False
    ) -> Tensor:
        """P x of x [batch, heads or key heads, columns, w]; transposed P^T x of x [batch, heads, rows, w].

        `dropped`: less what dropout takes.
        """
        raise NotImplementedError

    def backward(
        self,
        f: Tensor,
        g: Tensor,
        row_term: Tensor,
        key_term: Tensor,
        wanted: Collection[str],
        upstream: Tensor | None = None,
        coupling: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Gradients of operands of the scores, and of `value`, in the type of the arithmetic.

        Those of the scores are P_ij (upstream_i . value_j + coupling_ij - row_term_i - key_term_j), of an
        upstream gradient of P value, less what dropout takes, and of one of P.
        """
        raise NotImplementedError


# Engines in the order in which they are asked.
ENGINES: tuple[type[Engine], ...] = (Kernels, Flash, Cudnn, Efficient, Overrideable, Flex, Blocks)
# Operands that an engine may be asked for gradients by.
PARTS = (*OF_SCORES, "value", "coupling")


def why_not(kind: type[Engine], scores: Scores) -> str | None:
    """Why an engine cannot compute a call; None: it can."""
    if scores.problem.regulariser == c.ENTMAX and kind not in (Kernels, Blocks):
        return "has rows of softmax only"
    return kind.refuses(scores)


def engine_for(scores: Scores, name: str = "", wanted: Collection[str] = ()) -> Engine:
    """The first engine that takes the call and has the gradients `wanted`, or the one of a name."""
    parts = {x for x in wanted if x in PARTS}
    for kind in ENGINES:
        if name in ("", kind.name):
            reason = why_not(kind, scores)
            if reason is None and not parts <= kind.differentiates:
                # Whoever names an engine means what it has.
                name = ""
                continue
            if reason is None:
                return kind(scores.nearer() if kind is Blocks else scores)
            if name:
                raise ValueError(f"backend is 'torch:{name}', which {reason}; 'torch' chooses another engine")
    known = ", ".join(f"'torch:{kind.name}'" for kind in ENGINES)
    raise ValueError(f"backend is 'torch:{name}', wanted 'torch' or one of {known}")
