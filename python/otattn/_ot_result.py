"""What `ot.solve` returns: the plan at once, the rest at once or when somebody reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic

from ._shapes import summary

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from ._aux import Shaped

    Array = TypeVar("Array", bound=Shaped, default=Any)
else:
    from typing import TypeVar

    # Defaults are for checkers, which know typing_extensions; typing has them from Python 3.13 on.
    Array = TypeVar("Array")

# Potentials, value, value_linear and log.
Rest = tuple[tuple[Any, Any] | None, Any, Any, Any]


class OTResult(Generic[Array]):
    """A solved problem: the fields of POT's result object that exist here, the others None.

    Attributes
    ----------
    plan : array, shape (n, m)
    potential_a, potential_b : array, shapes (n,) and (m,)
        Dual potentials in units of the cost, whatever the solver, None where there are none: the plan is
        ``c exp((f + g - M) / reg)`` with the reference c (1 for entropy). POT's own are those of its solvers:
        logarithms for `sinkhorn`, with c inside.
    value : float
        The objective; value_linear : the cost part alone.
    status : str
        The library's word, ``"ok"`` when every promise is kept.
    log : dict
        ``niter``, ``err`` and ``certificate``.
    """

    lazy_plan: Any = None
    sparse_plan: Any = None

    def __init__(
        self,
        plan: Array,
        potentials: tuple[Array, Array] | None,
        value: Any,
        value_linear: Any,
        status: str,
        log: Any,
    ) -> None:
        self.plan: Array = plan
        self.status = status
        self._rest: Rest | Callable[[], Rest] = (potentials, value, value_linear, log)

    @classmethod
    def _with_rest(cls, plan: Array, status: str, rest: Callable[[], Rest]) -> OTResult[Array]:
        """All but plan and status when they are first read; `rest` has arrays that nobody else changes."""
        found = cls.__new__(cls)
        found.plan, found.status, found._rest = plan, status, rest
        return found

    def _read(self, place: int) -> Any:
        if callable(self._rest):
            self._rest = self._rest()
        return self._rest[place]

    def _sums(self, axis: int) -> Array:
        plan: Any = self.plan
        found: Array = plan.sum(axis)
        return found

    @property
    def potentials(self) -> tuple[Array, Array] | None:
        """Both, or None."""
        found: tuple[Array, Array] | None = self._read(0)
        return found

    @property
    def potential_a(self) -> Array | None:
        """Of rows, shape (n,)."""
        return None if self.potentials is None else self.potentials[0]

    @property
    def potential_b(self) -> Array | None:
        """Of columns, shape (m,)."""
        return None if self.potentials is None else self.potentials[1]

    @property
    def value(self) -> Any:
        """The objective."""
        return self._read(1)

    @property
    def value_linear(self) -> Any:
        """The cost part alone."""
        return self._read(2)

    @property
    def log(self) -> Any:
        """``niter``, ``err`` and ``certificate``."""
        return self._read(3)

    @property
    def marginal_a(self) -> Array:
        """Row sums of the plan, shape (n,)."""
        return self._sums(1)

    @property
    def marginal_b(self) -> Array:
        """Column sums of the plan, shape (m,)."""
        return self._sums(0)

    @property
    def marginals(self) -> tuple[Array, Array]:
        """Both."""
        return self.marginal_a, self.marginal_b

    def __repr__(self) -> str:
        fields = {"plan": self.plan, "value": self.value, "value_linear": self.value_linear}
        inside = ", ".join(f"{name}={summary(x)}" for name, x in fields.items())
        return f"OTResult({inside}, status={self.status!r})"
