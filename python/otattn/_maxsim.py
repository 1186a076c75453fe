"""Late interaction: for each token of a query the largest product with a document's tokens, summed."""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from . import _native
from . import _structs as c
from ._arrays import foreign, type_of
from ._errors import finished
from ._job import pack
from ._library import CANCEL
from ._settings import count as whole_number
from ._settings import is_torch
from ._shapes import dense, shape_text
from ._threads import thread_limit
from ._torch_device import by_torch, check_device

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

_FLOATS = (c.F32, c.BF16, c.F16)
_PLACES = {"queries": c.LateInteraction.queries.offset, "documents": c.LateInteraction.documents.offset}
_native_maxsim = _native.maxsim


def _capacity(rule: Any) -> int:
    if not isinstance(rule, str):
        raise TypeError(f"rule is {rule!r}, wanted a string")
    if rule == "max":
        return 0
    if rule == "assignment":
        return 1
    word, _, number = rule.partition(":")
    if word == "capped" and number.isdecimal() and 0 < int(number) < 1 << 62:
        return int(number)
    raise ValueError(
        f"rule is {rule!r}, wanted 'max', 'capped:C' with a whole number C >= 1, or 'assignment'"
    )


def whole_numbers(name: str, x: Any, count: int) -> Any:
    """Whole numbers as the library reads them."""
    numbers = np.asarray(dense(name, x))
    if numbers.dtype.kind not in "iu" and numbers.size:
        raise TypeError(f"{name} has type {numbers.dtype}, wanted whole numbers")
    if numbers.shape != (count,):
        raise ValueError(f"{name} has shape {shape_text(numbers)}, wanted ({count},)")
    return np.ascontiguousarray(numbers, np.int64)


class _Tokens:
    """Token vectors of one side: their address, type, shape and strides, whatever holds them."""

    def __init__(self, name: str, x: Any) -> None:
        torch = sys.modules.get("torch")
        self.device: Any = None
        if torch is not None and isinstance(x, torch.Tensor):
            kinds = {torch.float32: c.F32, torch.bfloat16: c.BF16, torch.float16: c.F16}
            self.device = x.device
            x = x.detach().cpu().resolve_neg()
            x = x.float() if x.dtype == torch.float64 else x
            if x.dtype not in kinds:
                raise TypeError(f"{name} have type {x.dtype}, wanted float32, bfloat16, float16 or float64")
            self.kind, self.address = kinds[x.dtype], x.data_ptr()
            self.shape, self.steps = tuple(x.shape), x.stride()
        else:
            x = foreign(name, x)
            if x.dtype == np.float64 or not x.dtype.isnative or not x.flags.aligned:
                x = np.ascontiguousarray(x, np.float32 if x.dtype.kind == "f" and x.itemsize > 4 else None)
            self.kind = type_of(x.dtype)
            if self.kind not in _FLOATS:
                raise TypeError(f"{name} have type {x.dtype}, wanted float32, bfloat16, float16 or float64")
            self.address, self.shape = _native.address(x), x.shape
            self.steps = tuple(step // x.itemsize for step in x.strides)
        self.kept = x
        if len(self.shape) not in (2, 3):
            raise ValueError(f"{name} have shape {self.shape}, wanted [tokens, width] or one more in front")

    def put(self, problem: c.LateInteraction, field: str, *packed: int) -> None:
        """Writes the array into its field of the struct; `packed`: as that many tokens of that width."""
        sizes = (1, 1, *packed) if packed else (1,) * (4 - len(self.shape)) + self.shape
        steps = (0,) * (4 - len(self.steps)) + tuple(self.steps)
        if packed:
            steps = (0, 0, *steps[-2:])
        pack(problem, _PLACES[field], self.address, self.kind, *sizes, *steps)


def _packed(documents: Any) -> tuple[Any, Any]:
    """A list of documents one after another, and where each begins."""
    counts = [len(x) for x in documents]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(documents[0], torch.Tensor):
        return torch.cat(list(documents)), offsets
    return np.concatenate([foreign("documents", x) for x in documents]), offsets


class Call:
    """One call's struct, with the arrays that it points to."""

    def __init__(
        self, queries: Any, documents: Any, offsets: Any, lengths: Any, query_lengths: Any, capacity: int
    ) -> None:
        asked, found = _Tokens("queries", queries), _Tokens("documents", documents)
        if found.kind != asked.kind:
            raise TypeError(
                f"documents have another type than queries ({found.kept.dtype}, {asked.kept.dtype})"
            )
        self.keep: list[Any] = [asked, found]
        self.problem = problem = c.LateInteraction(capacity=capacity, threads=thread_limit(), cancel=CANCEL)
        problem.size = ctypes.sizeof(problem)
        asked.put(problem, "queries")
        self.device, self.several = asked.device, len(asked.shape) == 3
        self.rows = asked.shape[0] if self.several else 1
        self.tokens = asked.shape[-2]
        if len(found.shape) == 3:
            self._put_padded(found, offsets, lengths)
        else:
            self._put_packed(found, offsets, lengths)
        if query_lengths is not None:
            problem.query_lengths = self._address(whole_numbers("query_lengths", query_lengths, self.rows))

    def _address(self, x: Any) -> int:
        self.keep.append(x)
        return _native.address(x)

    def _put_padded(self, found: _Tokens, offsets: Any, lengths: Any) -> None:
        problem = self.problem
        if offsets is not None:
            raise ValueError(f"documents have shape {found.shape}, which goes with lengths, not offsets")
        count, tokens, width = found.shape
        if count > 1 and found.steps[0] != tokens * found.steps[1]:
            x = found.kept
            found = _Tokens("documents", np.ascontiguousarray(x) if found.device is None else x.contiguous())
            self.keep.append(found)
        found.put(problem, "documents", count * tokens, width)
        problem.offsets = self._address(np.arange(count + 1, dtype=np.int64) * tokens)
        problem.document_count = count
        if lengths is not None:
            problem.document_lengths = self._address(whole_numbers("lengths", lengths, count))

    def _put_packed(self, found: _Tokens, offsets: Any, lengths: Any) -> None:
        if offsets is None or lengths is not None:
            raise ValueError("packed documents need offsets, and no lengths")
        count = len(offsets) - 1
        if count < 0:
            raise ValueError("offsets are empty, wanted one more than documents")
        found.put(self.problem, "documents")
        self.problem.offsets = self._address(whole_numbers("offsets", offsets, count + 1))
        self.problem.document_count = count

    def choose(self, chosen: Any) -> None:
        """Where the pairs of each sum stand, or will."""
        self.problem.chosen = self._address(chosen)

    def scores(self, top: int | None = None, choices: bool = False) -> list[Any]:
        """Scores, with `top` and their documents, with `choices` and the pairs, which `gradients` reads."""
        problem = self.problem
        count = problem.document_count
        if top is not None:
            found = whole_number("top_k", top)
            if found is None or not 0 < found <= count:
                raise ValueError(f"top_k is {top!r}, wanted 1 to the {count} documents")
            problem.top = top = found
        chosen = np.empty((self.rows, count, self.tokens), np.int64) if choices else None
        if chosen is not None:
            self.choose(chosen)
        shape = (self.rows, count if top is None else top)
        scores = np.empty(shape, np.float32)
        best = None if top is None else np.empty(shape, np.int64)
        finished(_native.ota_maxsim(ctypes.addressof(problem), scores, best))
        answers = [x if self.several else x[0] for x in (scores, best) if x is not None]
        return answers if chosen is None else [*answers, chosen]

    def gradients(self, score_grad: Any, query_grad: int | None, document_grad: int | None) -> None:
        """Writes gradients in f32 to these addresses, of the scores that were made with choices."""
        problem = ctypes.addressof(self.problem)
        finished(_native.ota_maxsim_backward(problem, score_grad, query_grad, document_grad))


# Without torch's types tensors and arrays are the same.
@overload
def maxsim(
    queries: NDArray[Any],
    documents: Any,
    offsets: Any = None,
    lengths: Any = None,
    *,
    query_lengths: Any = None,
    rule: str = "max",
    top_k: None = None,
    backend: str | None = None,
) -> NDArray[np.float32]: ...
@overload
def maxsim(
    queries: NDArray[Any],
    documents: Any,
    offsets: Any = None,
    lengths: Any = None,
    *,
    query_lengths: Any = None,
    rule: str = "max",
    top_k: int,
    backend: str | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.int64]]: ...
@overload
def maxsim(  # type: ignore[overload-cannot-match, unused-ignore]
    queries: Tensor,
    documents: Any,
    offsets: Any = None,
    lengths: Any = None,
    *,
    query_lengths: Any = None,
    rule: str = "max",
    top_k: None = None,
    backend: str | None = None,
) -> Tensor: ...
@overload
def maxsim(  # type: ignore[overload-cannot-match, unused-ignore]
    queries: Tensor,
    documents: Any,
    offsets: Any = None,
    lengths: Any = None,
    *,
    query_lengths: Any = None,
    rule: str = "max",
    top_k: int,
    backend: str | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def maxsim(
    queries: Any,
    documents: Any,
    offsets: Any = None,
    lengths: Any = None,
    *,
    query_lengths: Any = None,
    rule: str = "max",
    top_k: int | None = None,
    backend: str | None = None,
) -> Any: ...
def maxsim(
    queries: Any,
    documents: Any,
    offsets: Any = None,
    lengths: Any = None,
    *,
    query_lengths: Any = None,
    rule: str = "max",
    top_k: int | None = None,
    backend: str | None = None,
) -> Any:
    """Scores of documents by late interaction, as ColBERT has it.

    Of tensors that require gradients the scores do, too, through the pairs that were chosen.

    Parameters
    ----------
    queries : array or tensor, shape (tokens, width) or (queries, tokens, width)
        f32, bf16 or f16, read where they lie; f64 is converted to f32.
    documents : array, tensor or list
        Packed, shape (tokens of all documents, width), with `offsets`; padded, shape (documents, tokens,
        width), with `lengths` or all tokens; or a list of (tokens, width), which is packed first.
    offsets : int array, shape (documents + 1,), optional
        Document d has the packed tokens offsets[d] ... offsets[d + 1] - 1.
    lengths : int array, shape (documents,), optional
        Tokens of padded documents.
    query_lengths : int array, shape (queries,), optional
    rule : str
        "max": the sum over query tokens of the largest product. "capped:C": the largest sum where each query
        token takes one document token and none serves more than C; "assignment" is C = 1.
    top_k : int, optional
        Only the best so many documents.
    backend : {"cpu", "torch"}, optional
        "cpu": the library, for arrays and for tensors on the CPU, whose default it is. "torch": torch's own
        operations, on whatever device tensors lie; on others than the CPU there is nothing else. The
        matchings of "capped:C" are searched on the CPU wherever they lie.

    Returns
    -------
    scores : float32 array or tensor, shape ([queries,] documents)
        With `top_k` a pair of scores, falling, and documents, shape ([queries,] top_k) each. An empty
        document scores -inf, a query without tokens 0; products that are not finite give NaN.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and what is wanted.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> query = np.eye(2, dtype=np.float32)
    >>> documents = np.array([[1, 0], [0.5, 0], [0, 0.5], [0.75, 0.875]], np.float32)
    >>> otattn.maxsim(query, documents, offsets=[0, 1, 4])
    array([1.   , 1.625], dtype=float32)
    >>> otattn.maxsim(query, documents, offsets=[0, 1, 4], rule="assignment")
    array([1.   , 1.375], dtype=float32)
    """
    capacity = _capacity(rule)
    torch: Any = sys.modules.get("torch")
    tensors = torch is not None and isinstance(queries, torch.Tensor)
    if backend is not None:
        by_torch("queries", queries, backend)
    elif queries.__class__ is np.ndarray:
        found = _native_maxsim(
            queries, documents, offsets, lengths, query_lengths, capacity, top_k, thread_limit()
        )
        if found is not None:
            return found
    elif tensors:
        from ._torch_maxsim import plain

        found = plain(queries, documents, offsets, lengths, query_lengths, capacity, top_k)
        if found is not None:
            return found
    if isinstance(documents, (list, tuple)):
        if offsets is not None or lengths is not None or not documents:
            raise ValueError("documents is a list: it may not be empty, nor go with offsets or lengths")
        documents, offsets = _packed(documents)
    if is_torch(documents) and not documents.is_cpu:
        check_device("queries", queries, "documents", documents)
    elif is_torch(queries) and not queries.is_cpu:
        check_device("documents", documents, "queries", queries)
    if backend == "torch" and torch is not None:
        documents = torch.as_tensor(documents)
    if tensors and is_torch(documents):
        from ._torch_maxsim import torch_maxsim

        top = whole_number("top_k", top_k)
        places = (offsets, lengths, query_lengths)
        return torch_maxsim(queries, documents, places, capacity, top, backend)
    call = Call(queries, documents, offsets, lengths, query_lengths, capacity)
    answers = call.scores(top_k)
    if torch is not None and call.device is not None:
        answers = [torch.from_numpy(x).to(call.device) for x in answers]
    return answers[0] if top_k is None else tuple(answers)
