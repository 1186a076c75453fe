"""What else a call can return besides its output."""

from __future__ import annotations

import html
from collections.abc import Collection
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from ._certificate import Certificate
from ._outcome import Info
from ._settings import flag, nearest
from ._shapes import repr_of


class Shaped(Protocol):
    """An array of any library."""

    @property
    def shape(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...


# What a call returns has the type of its first array.
ArrayT = TypeVar("ArrayT", bound=Shaped)


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


# What `return_aux` may be where it asks for anything.
Request = AuxRequest | Literal[True] | str | Collection[str]


class Potentials(NamedTuple):
    row: Any
    """(..., queries), f64; -inf for an empty row."""
    column: Any
    """(..., keys), f64; 0 where the columns are free."""

    def __repr__(self) -> str:
        return repr_of(self)


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

    def __repr__(self) -> str:
        return repr_of(self)


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

    def __repr__(self) -> str:
        return repr_of(self)

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
    """AuxRequest as it is; names of its fields; True for all but the coupling; None or False for nothing."""
    if return_aux is None or return_aux is False:
        return None
    if return_aux is True:
        return EVERYTHING
    if isinstance(return_aux, AuxRequest):
        named = zip(AuxRequest._fields, return_aux, strict=True)
        return AuxRequest(*(x if type(x) is bool else flag(f"return_aux.{name}", x) for name, x in named))
    names = [return_aux] if isinstance(return_aux, str) else return_aux
    if not isinstance(names, (list, tuple, set, frozenset)):
        raise TypeError(
            f"return_aux is a {type(return_aux).__name__}, wanted an otattn.AuxRequest, names of its fields, "
            "True or None"
        )
    for name in names:
        if name not in AuxRequest._fields:
            hint = nearest(name, AuxRequest._fields) if isinstance(name, str) else ""
            raise ValueError(
                f"return_aux has {name!r}, wanted names among {', '.join(AuxRequest._fields)}{hint}"
            )
    return AuxRequest(**dict.fromkeys(names, True))


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
