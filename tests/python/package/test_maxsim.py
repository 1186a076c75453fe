"""Late interaction beside the same sums in NumPy, torch and SciPy's matchings."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import otattn
import pytest
from scipy.optimize import linear_sum_assignment

torch = pytest.importorskip("torch")


def draw(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


OFFSETS = np.array([0, 3, 3, 20, 51, 90])


def plain(query: Any, documents: Any) -> Any:
    parts = [documents[a:b] for a, b in itertools.pairwise(OFFSETS)]
    return np.array([(query @ x.T).max(1).sum() if len(x) else -np.inf for x in parts])


def test_packed_padded_and_listed_documents_score_alike() -> None:
    query, packed = draw(0, 7, 24), draw(1, 90, 24)
    parts = [packed[a:b] for a, b in itertools.pairwise(OFFSETS)]
    padded = np.zeros((5, 39, 24), np.float32)
    for k, x in enumerate(parts):
        padded[k, : len(x)] = x
    found = otattn.maxsim(query, packed, OFFSETS)
    np.testing.assert_allclose(found, plain(query, packed), rtol=1e-5)
    lengths = np.diff(OFFSETS)
    assert np.array_equal(found, otattn.maxsim(query, padded, lengths=lengths))
    assert np.array_equal(found, otattn.maxsim(query, padded[:, ::1, ::1][:, :39], lengths=lengths))
    assert np.array_equal(found, otattn.maxsim(query, parts))
    assert np.array_equal(found, otattn.maxsim(query.astype(np.float64), packed.astype(np.float64), OFFSETS))
    wide = np.zeros((5, 50, 24), np.float32)
    wide[:, :39] = padded
    assert np.array_equal(found, otattn.maxsim(query, wide[:, :39], lengths=lengths))


def test_several_queries_of_several_lengths() -> None:
    queries, packed = draw(2, 4, 9, 16), draw(3, 90, 16)
    found = otattn.maxsim(queries, packed, OFFSETS, query_lengths=[9, 0, 4, 1])
    for k, length in enumerate((9, 0, 4, 1)):
        want = plain(queries[k, :length], packed) if length else np.zeros(5)
        np.testing.assert_allclose(found[k], want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_tensors(kind: Any) -> None:
    query, documents = (
        torch.from_numpy(draw(4, 2, 8, 32)).to(kind),
        torch.from_numpy(draw(5, 6, 11, 32)).to(kind),
    )
    found = otattn.maxsim(query, documents)
    wide = (query.double()[:, None] @ documents.double().mT[None]).amax(-1).sum(-1)
    assert found.dtype == torch.float32 and (found - wide).abs().max() <= 2e-5
    scores, best = otattn.maxsim(query, documents, top_k=3)
    assert torch.equal(scores, found.sort(descending=True).values[:, :3])
    assert torch.equal(found.gather(1, best), scores)


@pytest.mark.parametrize(
    ("rule", "copies"), [("assignment", 1), ("capped:1", 1), ("capped:2", 2), ("capped:9", 9)]
)
def test_capacities_are_matchings(rule: str, copies: int) -> None:
    query, packed = draw(6, 8, 12), draw(7, 90, 12)
    found = otattn.maxsim(query, packed, OFFSETS, rule=rule)
    for d in range(5):
        products = np.repeat(query @ packed[OFFSETS[d] : OFFSETS[d + 1]].T, copies, 1)
        if products.shape[1]:
            assert abs(products[linear_sum_assignment(-products)].sum() - found[d]) <= 1e-4
    if copies == 9:
        np.testing.assert_allclose(found, otattn.maxsim(query, packed, OFFSETS), rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rule": "capped:0"}, "rule is 'capped:0', wanted"),
        ({"offsets": [0, 5, 4]}, r"offsets\[2\] is 4, outside 5 to 90"),
        ({"offsets": None}, "packed documents need offsets"),
        ({"top_k": 6}, "top_k is 6, wanted 1 to the 5 documents"),
        ({"query_lengths": [8]}, r"query_lengths\[0\] is 8 of 7 tokens"),
        ({"documents": np.zeros((90, 3), np.float32)}, "documents have width 3 but queries 24"),
        ({"documents": []}, "documents is a list"),
    ],
)
def test_refusals(change: dict[str, Any], words: str) -> None:
    call = {"queries": draw(0, 7, 24), "documents": draw(1, 90, 24), "offsets": OFFSETS} | change
    with pytest.raises(ValueError, match=words):
        otattn.maxsim(**call)


def test_types_are_refused() -> None:
    with pytest.raises(TypeError, match="queries have type int64"):
        otattn.maxsim(np.ones((2, 3), np.int64), draw(0, 4, 3), [0, 4])
    with pytest.raises(TypeError, match="offsets has type float64"):
        otattn.maxsim(draw(1, 2, 3), draw(0, 4, 3), np.array([0.0, 4.0]))
    with pytest.raises(TypeError, match="documents have another type than queries"):
        otattn.maxsim(draw(1, 2, 3), draw(0, 4, 3).astype(np.float16), np.array([0, 4]))


@pytest.mark.parametrize("top", [None, 2])
@pytest.mark.parametrize("lengths", [None, [7, 2, 3]])
def test_the_short_way_is_the_long_way(lengths: Any, top: Any) -> None:
    """Plain arrays and tensors go to the library without ctypes, lists of numbers by it."""
    queries, documents = draw(8, 3, 7, 12), draw(9, 5, 11, 12)
    packed, flat = np.arange(6) * 11, documents.reshape(-1, 12)
    places = None if lengths is None else np.array(lengths)
    want = otattn.maxsim(queries, flat, packed.tolist(), query_lengths=lengths, top_k=top)
    for documents_given, offsets in ((flat, packed), (documents, None)):
        found = otattn.maxsim(queries, documents_given, offsets, query_lengths=places, top_k=top)
        assert all(map(np.array_equal, np.atleast_2d(found), np.atleast_2d(want)))
        tensors = torch.from_numpy(queries), torch.from_numpy(documents_given)
        shown = None if offsets is None else torch.from_numpy(offsets)
        found = otattn.maxsim(*tensors, shown, query_lengths=places, top_k=top)
        found = found.numpy() if top is None else tuple(x.numpy() for x in found)
        assert all(map(np.array_equal, np.atleast_2d(found), np.atleast_2d(want)))
    # One query, and documents whose tokens lie apart, or every other document.
    one = otattn.maxsim(queries[0], flat, packed)
    apart = np.zeros((55, 2, 12), np.float32)
    apart[:, 0] = flat
    assert np.array_equal(one, otattn.maxsim(queries[0], apart[:, 0], packed))
    assert np.array_equal(one[::2], otattn.maxsim(queries[0], documents[::2]))


def plain_scores(query: Any, documents: Any, rule: str) -> Any:
    """The same with autograd of torch: products, and a maximum or the matching that SciPy finds."""
    scores = []
    for document in documents:
        products = query @ document.mT
        if rule == "max":
            scores.append(products.amax(-1).sum(-1))
            continue
        copies = int(rule.partition(":")[2] or 1)
        wide = products.detach().repeat_interleave(copies, -1).numpy()
        each = [linear_sum_assignment(-x) for x in wide]
        scores.append(
            torch.stack([x[i, j // copies].sum() for x, (i, j) in zip(products, each, strict=True)])
        )
    return torch.stack(scores, -1)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("rule", ["max", "assignment", "capped:2"])
def test_gradients_are_those_of_autograd(rule: str, kind: Any) -> None:
    sides = torch.from_numpy(draw(10, 3, 6, 16)).to(kind), torch.from_numpy(draw(11, 40, 16)).to(kind)
    query, packed = (x.requires_grad_() for x in sides)
    lengths, upstream = [4, 16, 9, 11], torch.from_numpy(draw(12, 3, 4))
    documents = packed.split(lengths)
    found = otattn.maxsim(query, list(documents), rule=rule)
    got = torch.autograd.grad(found, (query, packed), upstream)
    wide = plain_scores(query.float(), [x.float() for x in documents], rule)
    want = torch.autograd.grad(wide, (query, packed), upstream)
    # Sums of a few products are rounded to f32, and then both sides to the type.
    unit = max(torch.finfo(kind).eps, torch.finfo(torch.float32).eps)
    for x, y in zip(got, want, strict=True):
        assert x.dtype == kind
        assert (x - y).abs().max() <= 8 * unit * y.abs().max()


def test_gradients_of_the_best_and_of_padded_documents() -> None:
    query = torch.from_numpy(draw(13, 5, 8)).requires_grad_()
    documents = torch.from_numpy(draw(14, 6, 8, 7)).mT.requires_grad_()
    lengths = [7, 7, 0, 3, 7, 1]
    scores, best = otattn.maxsim(query, documents, lengths=lengths, top_k=3)
    got = torch.autograd.grad(scores.sum(), (query, documents))
    shown = [documents[k, : lengths[k]] for k in best.tolist()]
    wide = torch.stack([(query @ x.T).amax(-1).sum() for x in shown])
    for x, y in zip(got, torch.autograd.grad(wide.sum(), (query, documents)), strict=True):
        torch.testing.assert_close(x, y)
    with torch.no_grad():
        assert torch.equal(otattn.maxsim(query, documents, lengths=lengths)[best], scores)
    weights = torch.ones(6, requires_grad=True)
    (once,) = torch.autograd.grad(otattn.maxsim(query, documents), query, weights, create_graph=True)
    with pytest.raises(otattn.NotDifferentiable, match="first derivatives only"):
        once.sum().backward()


def test_what_is_not_finite_is_said() -> None:
    documents = draw(1, 2, 4, 6)
    documents[1, 2, 3] = np.nan
    found = otattn.maxsim(draw(0, 3, 6), documents)
    assert np.isfinite(found[0]) and np.isnan(found[1])
