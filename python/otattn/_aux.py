"""What else a call can return besides its output."""

from __future__ import annotations

import html
from typing import Any, NamedTuple

from ._certificate import Certificate
from ._solve import Info


class AuxRequest(NamedTuple):
    """What `return_aux` asks for. Only `coupling` and `coupling`'s own gradient take queries x keys memory.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> x = np.eye(3)
    >>> out, aux = otattn.attention(x, x, x, return_aux=otattn.AuxRequest(receiver=True))
    >>> aux.receiver.round(6)
    array([1., 1., 1.])
    """

    coupling: bool = False
    """The weights P, (..., queries, keys)."""
    potentials: bool = False
    """Row and column potentials, in units of the scores."""
    receiver: bool = False
    """Column sums of P, (..., keys)."""
    row_stats: bool = False
    """Entropy, support, largest weight and sink weight of every row."""
    lse: bool = False
    """log sum exp of every row in nats; entropy methods only."""
    certificate: bool = False
    """The judge's certificate."""


class Potentials(NamedTuple):
    row: Any
    """(..., queries), f64; -inf for an empty row."""
    column: Any
    """(..., keys), f64; 0 where the columns are free."""


class RowStats(NamedTuple):
    """Each of shape (..., queries)."""

    entropy: Any
    """Entropy of the row over its mass, in nats."""
    support: Any
    """Number of positive weights."""
    maximum: Any
    """Largest weight."""
    sink: Any
    """Weight on the sink."""


class AuxOutput(NamedTuple):
    """The fields of AuxRequest, None where not asked for, and what the solver found out.

    Where results have no numbers yet (under torch.compile or vmap, and of meta tensors), `info` and
    `certificate` are None.
    """

    coupling: Any = None
    potentials: Potentials | None = None
    receiver: Any = None
    row_stats: RowStats | None = None
    lse: Any = None
    certificate: Certificate | None = None
    info: Info | None = None

    def _repr_html_(self) -> str:
        found = "" if self.info is None else f"<p>{html.escape(repr(self.info))}</p>"
        arrays = {
            "coupling": self.coupling,
            "receiver": self.receiver,
            "lse": self.lse,
            **({} if self.potentials is None else self.potentials._asdict()),
            **({} if self.row_stats is None else self.row_stats._asdict()),
        }
        shapes = "".join(
            f"<tr><th>{name}</th><td>{tuple(x.shape)} {x.dtype}</td></tr>"
            for name, x in arrays.items()
            if x is not None
        )
        judged = "" if self.certificate is None else self.certificate._repr_html_()
        return f"{found}<table>{shapes}</table>{judged}"


NO_AUX = AuxRequest()
EVERYTHING = AuxRequest(False, True, True, True, True, True)


def request_of(return_aux: Any) -> AuxRequest | None:
    """AuxRequest as it is; True for everything but the coupling; None or False for nothing."""
    if return_aux is None or return_aux is False:
        return None
    if return_aux is True:
        return EVERYTHING
    if isinstance(return_aux, AuxRequest):
        return return_aux
    raise TypeError(f"return_aux is a {type(return_aux).__name__}, wanted otattn.AuxRequest, True or None")


def outputs_of(request: AuxRequest) -> list[str]:
    """Names of ota_arrays that the request needs."""
    names = []
    if request.coupling:
        names.append("coupling")
    if request.potentials or request.certificate:
        names += ["row_potential", "column_potential"]
    if request.lse:
        names.append("lse")
    if request.receiver:
        names.append("receiver")
    if request.row_stats:
        names += ["row_entropy", "row_support", "row_max", "sink"]
    return names
