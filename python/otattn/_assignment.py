"""Assignment problems under SciPy's name, one or many in a call (include/otattn_assignment.h)."""

from __future__ import annotations

import ctypes
import functools
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, overload

import numpy as np

from . import _native
from . import _structs as c
from ._errors import finished, new_error, raise_status
from ._kept import forget_by
from ._library import CANCEL, library
from ._settings import flag, is_torch, number
from ._shapes import dense, repr_of
from ._threads import thread_limit

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

# The fields of c.Assignments in their order, packed in one go.
_RECORD = struct.Struct("@NqqqPiqqqPPPiidPqPPPPPPPPPP")
assert _RECORD.size == ctypes.sizeof(c.Assignments)
_INT = np.dtype(np.int64)
_assign = _native.assign
KINDS = {np.dtype(np.float64): c.F64, np.dtype(np.float32): c.F32}
_OUTPUTS = (
    "column_of",
    "row_of",
    "pair_row",
    "pair_column",
    "pairs",
    "value",
    "row_potential",
    "column_potential",
    "bound",
    "status",
)


@dataclass(frozen=True, repr=False)
class AssignmentCertificate:
    """What proves an answer: prices, and the bound that they give by code that no search shares.

    Arrays have the leading batch dimension of the costs where there is one; of a ragged batch this is a list.

    Attributes
    ----------
    value : float or array, shape (batch,)
        The sum of the costs of the pairs.
    bound : float or array, shape (batch,)
        No matching costs less (more, where maximised). With `cost_limit` it bounds
        ``value + cost_limit * (min(rows, columns) - pairs)``.
    row_potential, column_potential : arrays, shapes (..., rows) and (..., columns)
        u and v with ``u_i + v_j <= cost_ij`` (>= where maximised), equal on pairs.
    gap : float or array
        How far value and bound are apart: 0 to rounding.
    """

    value: Any
    bound: Any
    row_potential: Any
    column_potential: Any
    gap: Any

    def __repr__(self) -> str:
        return repr_of(self)


class _Assigner:
    """The library's threads and memory, with the record of a call. Not for two threads at once."""

    __slots__ = ("addresses", "pointer", "record", "threads")

    def __init__(self, threads: int) -> None:
        self.threads = threads
        error, reference = new_error()
        pointer = ctypes.c_void_p()
        options = c.Options()
        options.size = ctypes.sizeof(options)
        options.threads = threads
        status = library.ota_assigner_create(ctypes.byref(pointer), ctypes.byref(options), reference)
        if status < 0:
            raise_status(status, error)
        self.pointer = pointer
        self.record = ctypes.create_string_buffer(_RECORD.size)
        self.addresses = pointer.value or 0, ctypes.addressof(self.record)

    def __del__(self, free: Any = library.ota_assigner_free) -> None:
        # When the interpreter ends, the names of modules may be gone.
        if getattr(self, "pointer", None) is not None:
            free(self.pointer)


_idle: list[_Assigner] = []
_KEPT = 4
forget_by(_idle.clear)
forget_by(_native.release)


def _run(inputs: tuple[Any, ...], outputs: dict[str, Any], maximize: bool, limit: float) -> None:
    """One call."""
    threads = thread_limit()
    try:
        assigner = _idle.pop()
    except IndexError:
        assigner = _Assigner(threads)
    if assigner.threads != threads:
        assigner = _Assigner(threads)
    limited = limit < math.inf
    places = [0 if (x := outputs.get(name)) is None else _native.address(x) for name in _OUTPUTS]
    end = (limit if limited else 0.0, CANCEL, 0)
    _RECORD.pack_into(assigner.record, 0, _RECORD.size, *inputs, maximize, limited, *end, *places)
    finished(_native.ota_assign(*assigner.addresses), raise_failure)
    if len(_idle) < _KEPT:
        _idle.append(assigner)


def raise_failure(status: int, error: Any) -> NoReturn:
    """The library's sentence, behind SciPy's words where it has some."""
    sentence = error.message.decode()
    if status == c.INFEASIBLE:
        raise ValueError(f"cost matrix is infeasible: {sentence}; {error.hint.decode()}")
    if status == c.NONFINITE:
        raise ValueError(f"matrix contains invalid numeric entries: {sentence}")
    raise_status(status, error)


def matrix_of_costs(name: str, x: Any, dimensions: tuple[int, ...]) -> Any:
    """The array in f64 or f32; a copy only of other types."""
    if _native.is_matrix(x) and x.ndim in dimensions:
        return x
    try:
        found = x if type(x) is np.ndarray else np.asarray(dense(name, x))
    except ValueError as error:
        raise ValueError(f"{name} is no array: {error}") from None
    except RuntimeError as error:
        raise hidden(error) from None
    if found.ndim not in dimensions:
        raise ValueError(
            f"expected a matrix (2-D array), got a {found.ndim}-D array as {name}, shape {found.shape}"
        )
    if found.dtype.kind not in "fiub":
        raise TypeError(f"Cannot cast array data of {name} from type {found.dtype}, wanted numbers")
    return found if _native.is_matrix(found) else found.astype(np.float64)


def hidden(error: RuntimeError) -> Exception:
    """The error of a tensor whose numbers could not be read."""
    if "data pointer" not in str(error):
        return error
    return NotImplementedError(
        "the numbers of a tensor under torch.func or a compiler cannot be read here; pass a whole stack of "
        "matrices outside of it"
    )


def limit_of(cost_limit: float | None, maximize: bool) -> float:
    limit = math.inf if cost_limit is None else number("cost_limit", cost_limit)
    if limit == -math.inf:
        raise ValueError(f"cost_limit is {limit}, wanted a number or inf")
    if maximize and limit < math.inf:
        raise ValueError("cost_limit does not go with maximize; negate the costs")
    return limit


def solve_equal(costs: Any, wanted: tuple[str, ...], maximize: bool, limit: float) -> dict[str, Any]:
    """Outputs of problems [batch, rows, columns], each with the batch in front."""
    batch, rows, columns = costs.shape
    item = costs.itemsize
    s = costs.strides
    pairs = (batch, min(rows, columns))
    outputs = _outputs(wanted, batch, (batch, rows), (batch, columns), pairs)
    inputs = (
        batch, rows, columns, _native.address(costs), KINDS[costs.dtype],
        s[0] // item, s[1] // item, s[2] // item, 0, 0, 0,
    )  # fmt: skip
    _run(inputs, outputs, maximize, limit)
    return outputs


_Shape: TypeAlias = int | tuple[int, int]
_FLOATS = ("value", "bound", "row_potential", "column_potential")


def _outputs(
    wanted: tuple[str, ...], count: int, rows: _Shape, columns: _Shape, pairs: _Shape
) -> dict[str, Any]:
    """Arrays of what is wanted, of these shapes; what a problem has one of, of shape (count,)."""
    if wanted is _PAIRS:
        return {name: np.empty(pairs, _INT) for name in _PAIRS}
    shapes = {"column_of": rows, "row_potential": rows, "row_of": columns, "column_potential": columns}
    shapes |= {"pair_row": pairs, "pair_column": pairs}
    return {
        name: np.empty(shapes.get(name, count), np.float64 if name in _FLOATS else _INT) for name in wanted
    }


def solve_ragged(
    flat: Any, rows: Any, columns: Any, offsets: Any, wanted: tuple[str, ...], maximize: bool, limit: float
) -> dict[str, Any]:
    """Outputs of a ragged batch, one problem behind the other; offsets count elements of `flat`."""
    pairs = int(np.minimum(rows, columns).sum())
    outputs = _outputs(wanted, len(rows), int(rows.sum()), int(columns.sum()), pairs)
    inputs = (
        len(rows), 0, 0, _native.address(flat), KINDS[flat.dtype], 0, 0, 0,
        _native.address(rows), _native.address(columns), _native.address(offsets),
    )  # fmt: skip
    _run(inputs, outputs, maximize, limit)
    return outputs


def _sizes(name: str, x: Any) -> Any:
    found = np.asarray(dense(name, x))
    if found.ndim != 1 or (found.dtype.kind not in "iu" and found.size > 0):
        raise ValueError(
            f"{name} has shape {found.shape} and type {found.dtype}, wanted a list of whole numbers"
        )
    found = np.ascontiguousarray(found, _INT)
    if (found < 0).any():
        raise ValueError(f"{name} holds {found.min()}, wanted 0 or more")
    return found


_PAIRS = ("pair_row", "pair_column")
_PROOF = ("value", "bound", "row_potential", "column_potential")


def _certificates(found: dict[str, Any], maximize: bool, limit: float, pairs: Any) -> AssignmentCertificate:
    missing = 0.0 if limit == math.inf else limit * (pairs - found["pairs"])
    gap = found["value"] + missing - found["bound"]
    return AssignmentCertificate(
        found["value"],
        found["bound"],
        found["row_potential"],
        found["column_potential"],
        -gap if maximize else gap,
    )


def _one(cost: Any, maximize: bool, limit: float, certificate: bool) -> tuple[Any, ...]:
    limited = limit < math.inf
    wanted = (*_PAIRS, *_PROOF, "pairs") if certificate else (*_PAIRS, "pairs") if limited else _PAIRS
    found = solve_equal(cost[None], wanted, maximize, limit)
    i, j = found["pair_row"][0], found["pair_column"][0]
    if limited:
        i, j = i[: found["pairs"][0]], j[: found["pairs"][0]]
    if not certificate:
        return i, j
    own = {name: x[0].tolist() if x.ndim == 1 else x[0] for name, x in found.items()}
    return i, j, _certificates(own, maximize, limit, min(cost.shape))


def one_behind_the_other(matrices: list[Any]) -> tuple[Any, Any, Any, Any]:
    """The costs in one array, how many rows and columns each has, and where it begins."""
    kind = np.result_type(*(x.dtype for x in matrices)) if matrices else np.dtype(np.float64)
    shapes = np.array([x.shape for x in matrices], _INT).reshape(-1, 2)
    rows, columns = np.ascontiguousarray(shapes[:, 0]), np.ascontiguousarray(shapes[:, 1])
    flat = np.concatenate([x.ravel() for x in matrices], dtype=kind) if matrices else np.empty(0, kind)
    return flat, rows, columns, np.cumsum(rows * columns) - rows * columns


def _ragged(matrices: list[Any], maximize: bool, limit: float, certificate: bool) -> list[tuple[Any, ...]]:
    flat, rows, columns, offsets = one_behind_the_other(matrices)
    wanted = (*_PAIRS, "pairs", *(_PROOF if certificate else ()))
    found = solve_ragged(flat, rows, columns, offsets, wanted, maximize, limit)
    answers: list[tuple[Any, ...]] = []
    begin, row, column = 0, 0, 0
    for k, (n, m) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        end = begin + found["pairs"][k]
        answer: tuple[Any, ...] = (found["pair_row"][begin:end], found["pair_column"][begin:end])
        if certificate:
            own = {name: found[name][k] for name in ("value", "bound", "pairs")}
            own["row_potential"] = found["row_potential"][row : row + n]
            own["column_potential"] = found["column_potential"][column : column + m]
            answer += (_certificates(own, maximize, limit, min(n, m)),)
        answers.append(answer)
        begin, row, column = begin + min(n, m), row + n, column + m
    return answers


def _packed(
    cost: Any, rows: Any, columns: Any, maximize: bool, limit: float, certificate: bool
) -> tuple[Any, ...]:
    flat = np.ascontiguousarray(matrix_of_costs("cost_matrix", cost, (1,)))
    rows, columns = _sizes("rows", rows), _sizes("columns", columns)
    if len(rows) != len(columns):
        raise ValueError(
            f"rows has {len(rows)} sizes and columns {len(columns)}, wanted one of each a problem"
        )
    if (total := int((rows * columns).sum())) != len(flat):
        raise ValueError(f"cost_matrix has {len(flat)} costs, wanted the {total} of rows and columns")
    offsets = np.cumsum(rows * columns) - rows * columns
    wanted = ("pair_row", "pair_column", "pairs", *(_PROOF if certificate else ()))
    found = solve_ragged(flat, rows, columns, offsets, wanted, maximize, limit)
    smaller = np.minimum(rows, columns)
    ends = np.concatenate(([0], np.cumsum(smaller)))
    answer: tuple[Any, ...] = (found["pair_row"], found["pair_column"], ends)
    return (*answer, _certificates(found, maximize, limit, smaller)) if certificate else answer


# Without NumPy's and torch's types, as where scripts alone are checked, tensors and arrays are the same.
@overload
def linear_sum_assignment(
    cost_matrix: NDArray[Any],
    maximize: bool = False,
    *,
    rows: None = None,
    columns: None = None,
    cost_limit: float | None = None,
    certificate: Literal[False] = False,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
@overload
def linear_sum_assignment(
    cost_matrix: NDArray[Any],
    maximize: bool = False,
    *,
    rows: None = None,
    columns: None = None,
    cost_limit: float | None = None,
    certificate: Literal[True],
) -> tuple[NDArray[np.int64], NDArray[np.int64], AssignmentCertificate]: ...
@overload
def linear_sum_assignment(
    cost_matrix: NDArray[Any],
    maximize: bool = False,
    *,
    rows: Any,
    columns: Any,
    cost_limit: float | None = None,
    certificate: Literal[False] = False,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...
@overload
def linear_sum_assignment(
    cost_matrix: NDArray[Any],
    maximize: bool = False,
    *,
    rows: Any,
    columns: Any,
    cost_limit: float | None = None,
    certificate: Literal[True],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], AssignmentCertificate]: ...
@overload
def linear_sum_assignment(  # type: ignore[overload-cannot-match, unused-ignore]
    cost_matrix: Tensor,
    maximize: bool = False,
    *,
    rows: None = None,
    columns: None = None,
    cost_limit: float | None = None,
    certificate: Literal[False] = False,
) -> tuple[Tensor, Tensor]: ...
@overload
def linear_sum_assignment(  # type: ignore[overload-cannot-match, unused-ignore]
    cost_matrix: Tensor,
    maximize: bool = False,
    *,
    rows: None = None,
    columns: None = None,
    cost_limit: float | None = None,
    certificate: Literal[True],
) -> tuple[Tensor, Tensor, AssignmentCertificate]: ...
@overload
def linear_sum_assignment(  # type: ignore[overload-cannot-match, unused-ignore]
    cost_matrix: Tensor,
    maximize: bool = False,
    *,
    rows: Any,
    columns: Any,
    cost_limit: float | None = None,
    certificate: Literal[False] = False,
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def linear_sum_assignment(  # type: ignore[overload-cannot-match, unused-ignore]
    cost_matrix: Tensor,
    maximize: bool = False,
    *,
    rows: Any,
    columns: Any,
    cost_limit: float | None = None,
    certificate: Literal[True],
) -> tuple[Tensor, Tensor, Tensor, AssignmentCertificate]: ...
@overload
def linear_sum_assignment(  # type: ignore[overload-cannot-match, unused-ignore]
    cost_matrix: Sequence[NDArray[Any]],
    maximize: bool = False,
    *,
    rows: None = None,
    columns: None = None,
    cost_limit: float | None = None,
    certificate: Literal[False] = False,
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]: ...
@overload
def linear_sum_assignment(  # type: ignore[overload-cannot-match, unused-ignore]
    cost_matrix: Sequence[NDArray[Any]],
    maximize: bool = False,
    *,
    rows: None = None,
    columns: None = None,
    cost_limit: float | None = None,
    certificate: Literal[True],
) -> list[tuple[NDArray[np.int64], NDArray[np.int64], AssignmentCertificate]]: ...
@overload
def linear_sum_assignment(  # type: ignore[overload-cannot-match, unused-ignore]
    cost_matrix: Sequence[Tensor],
    maximize: bool = False,
    *,
    rows: None = None,
    columns: None = None,
    cost_limit: float | None = None,
    certificate: Literal[False] = False,
) -> list[tuple[Tensor, Tensor]]: ...
@overload
def linear_sum_assignment(  # type: ignore[overload-cannot-match, unused-ignore]
    cost_matrix: Sequence[Tensor],
    maximize: bool = False,
    *,
    rows: None = None,
    columns: None = None,
    cost_limit: float | None = None,
    certificate: Literal[True],
) -> list[tuple[Tensor, Tensor, AssignmentCertificate]]: ...
@overload
def linear_sum_assignment(
    cost_matrix: Any,
    maximize: bool = False,
    *,
    rows: Any = None,
    columns: Any = None,
    cost_limit: float | None = None,
    certificate: bool = False,
) -> Any: ...
def linear_sum_assignment(
    cost_matrix: Any,
    maximize: bool = False,
    *,
    rows: Any = None,
    columns: Any = None,
    cost_limit: float | None = None,
    certificate: bool = False,
) -> Any:
    """The cheapest matching of min(rows, columns) pairs, with the signature of SciPy's, or many of them.

    The interpreter lock is released; problems of a batch run on threads (`set_num_threads`), with the same
    answers for any number.

    Parameters
    ----------
    cost_matrix : array, shape (rows, columns) or (batch, rows, columns), or list of matrices
        +inf (-inf when maximising) forbids a pair. Float32 and float64 are read where they lie, whatever the
        strides; other numbers become float64. With `rows` and `columns`, 1-D: the matrices one behind the
        other, each row by row. Torch tensors are taken, too, and those of a GPU are moved once each way.
    maximize : bool
        Look for the dearest matching instead.
    rows, columns : int arrays, shape (batch,)
        The shapes of the matrices in a 1-D `cost_matrix`.
    cost_limit : float, optional
        Pairs that cost as much or more stay apart, and each pair that is left out counts as this cost.
    certificate : bool
        Return the proof, too.

    Returns
    -------
    row_ind, col_ind : int64 arrays, shape (min(rows, columns),) or (batch, min(rows, columns))
        The pairs, by rising row; with `cost_limit` those that are left, -1 behind them in a batch. Of a list
        of matrices, a list of such pairs; of packed ones, both arrays with the pairs of problem k at
        ``offsets[k]`` to ``offsets[k + 1]`` and `offsets` as a third array.
    certificate : AssignmentCertificate
        Last, where it is wanted.

    Raises
    ------
    ValueError
        For a matrix that is none, holds NaN or the other infinity, or has no matching, with the number of the
        first such problem; sizes that do not fit.
    TypeError
        For strings, objects and complex numbers.

    Notes
    -----
    Jonker and Volgenant's algorithm [jonker1987] on dense matrices, a search over few candidates of each row
    on large ones [ELA-14, LIT-06].

    Examples
    --------
    >>> import otattn
    >>> otattn.linear_sum_assignment([[4, 1, 3], [2, 0, 5], [3, 2, 2]])
    (array([0, 1, 2]), array([1, 0, 2]))
    """
    if rows is columns is None and certificate is False:
        pairs = _assign(cost_matrix, maximize, cost_limit, False)
        if pairs is not None:
            return pairs
    maximize, certificate = flag("maximize", maximize), flag("certificate", certificate)
    limit = limit_of(cost_limit, maximize)
    if is_torch(cost_matrix):
        from ._torch_watch import refuse_tracers

        is_watched, operators = torch_operators()
        if is_watched() and rows is columns is None and not certificate and cost_matrix.ndim in (2, 3):
            return operators.by_operator(cost_matrix, maximize, cost_limit)
        refuse_tracers("linear_sum_assignment with these arguments")
        return from_torch(cost_matrix, maximize, rows, columns, cost_limit, certificate)
    if rows is not None or columns is not None:
        if rows is None or columns is None:
            raise ValueError("rows and columns go together; give both")
        return _packed(cost_matrix, rows, columns, maximize, limit, certificate)
    if isinstance(cost_matrix, (list, tuple)) and all(getattr(x, "ndim", 0) == 2 for x in cost_matrix):
        if any(is_torch(x) for x in cost_matrix):
            from ._torch_watch import refuse_tracers

            refuse_tracers("linear_sum_assignment of a list")
            return from_torch(list(cost_matrix), maximize, None, None, cost_limit, certificate)
        matrices = [matrix_of_costs(f"cost_matrix[{k}]", x, (2,)) for k, x in enumerate(cost_matrix)]
        if matrices:
            return _ragged(matrices, maximize, limit, certificate)
    cost = matrix_of_costs("cost_matrix", cost_matrix, (2, 3))
    if cost.ndim == 2:
        return _one(cost, maximize, limit, certificate)
    wanted = (*_PAIRS, *_PROOF, "pairs") if certificate else _PAIRS
    found = solve_equal(cost, wanted, maximize, limit)
    answer = found["pair_row"], found["pair_column"]
    if not certificate:
        return answer
    return (*answer, _certificates(found, maximize, limit, min(cost.shape[1:])))


@functools.lru_cache(maxsize=1)
def torch_operators() -> tuple[Any, Any]:
    from . import _torch_assignment
    from ._torch_watch import is_watched

    return is_watched, _torch_assignment


def from_torch(
    cost: Any, maximize: bool, rows: Any, columns: Any, limit: float | None, certificate: bool
) -> Any:
    """The same of tensors."""
    sizes = [x if x is None or not is_torch(x) else x.detach().cpu().numpy() for x in (rows, columns)]
    return by_arrays(
        cost,
        lambda given: linear_sum_assignment(
            given, maximize, rows=sizes[0], columns=sizes[1], cost_limit=limit, certificate=certificate
        ),
    )


def by_arrays(cost: Any, call: Callable[[Any], Any]) -> Any:
    """What a call gives of NumPy's views of tensors, or of a GPU's copy: tensors on their device."""
    import torch

    first = next(x for x in cost if is_torch(x)) if isinstance(cost, list) else cost
    narrow = (torch.bfloat16, torch.float16)
    # Every call that finds nothing to do takes torch a microsecond.
    away = first.device if first.device.type != "cpu" else None

    def seen(x: Any) -> Any:
        if not is_torch(x):
            return x
        if x.requires_grad:
            x = x.detach()
        if x.dtype in narrow:
            x = x.float()
        try:
            return (x if away is None else x.cpu()).numpy()
        except RuntimeError as error:
            raise hidden(error) from None

    def back(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            x = torch.from_numpy(x)
            return x if away is None else x.to(away)
        if isinstance(x, (list, tuple)):
            parts = [back(part) for part in x]
            return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
        if isinstance(x, AssignmentCertificate):
            return AssignmentCertificate(*(back(getattr(x, name)) for name in x.__dataclass_fields__))
        return x

    return back(call([seen(x) for x in cost] if isinstance(cost, list) else seen(cost)))
