"""Late interaction beside the same sums in NumPy, torch and SciPy's matchings."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import otattn
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from torch._subclasses.fake_tensor import FakeTensorMode


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
        ({"offsets": [-1, 5, 7]}, r"offsets\[0\] is -1, outside 0 to 90"),
        ({"offsets": [0, 91]}, r"offsets\[1\] is 91, outside 0 to 90"),
        ({"offsets": []}, "offsets are empty"),
        ({"lengths": [8]}, "packed documents need offsets, and no lengths"),
        ({"documents": np.zeros((2, 4, 24), np.float32)}, "which goes with lengths, not offsets"),
        (
            {"documents": np.zeros((2, 4, 24), np.float32), "offsets": None, "lengths": [4, 5]},
            r"document_lengths\[1\] is 5 of 4 tokens; use 0 to the tokens between the offsets",
        ),
    ],
)
@pytest.mark.parametrize("backend", [None, "torch"])
def test_refusals(change: dict[str, Any], words: str, backend: str | None) -> None:
    call = {"queries": draw(0, 7, 24), "documents": draw(1, 90, 24), "offsets": OFFSETS} | change
    if backend is not None:
        for name in ("queries", "documents"):
            call[name] = call[name] if isinstance(call[name], list) else torch.from_numpy(call[name])
    with pytest.raises(ValueError, match=words):
        otattn.maxsim(**call, backend=backend)


def test_types_are_refused() -> None:
    with pytest.raises(ValueError, match=r"but queries is no tensor; pass torch\.as_tensor"):
        otattn.maxsim(draw(0, 2, 3), draw(0, 4, 3), [0, 4], backend="torch")
    for backend in (None, "torch"):
        with pytest.raises(TypeError, match=r"queries have type torch\.int64, wanted float32"):
            ones = torch.ones((2, 3), dtype=torch.int64)
            otattn.maxsim(ones, torch.ones(4, 3), [0, 4], backend=backend)
        with pytest.raises(TypeError, match="documents have another type than queries"):
            otattn.maxsim(torch.ones(2, 3), torch.ones(4, 3).half(), [0, 4], backend=backend)
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


@st.composite
def searches(draw_one: Any) -> dict[str, Any]:
    """Sizes, documents and options of a call; `strange` has products that are not finite."""
    return {
        "rows": draw_one(st.integers(0, 3)),
        "tokens": draw_one(st.integers(0, 6)),
        "width": draw_one(st.integers(1, 9)),
        "lengths": draw_one(st.lists(st.integers(0, 12), max_size=9)),
        "kind": draw_one(st.sampled_from([torch.float32, torch.bfloat16, torch.float16, torch.float64])),
        "form": draw_one(st.sampled_from(["packed", "padded", "list", "repeated"])),
        "rule": draw_one(st.sampled_from(["max", "max", "max", "capped:6", "capped:2", "assignment"])),
        "whole": draw_one(st.booleans()),
        "strange": draw_one(st.booleans()),
    }


@settings(max_examples=120)
@given(searches(), st.sampled_from([1, 60, 1 << 24]), st.integers(0, 2**31))
def test_operations_of_torch_are_the_library(search: dict[str, Any], block: int, seed: int) -> None:
    """Also with products that equal each other, or are not finite, and in blocks of every size."""
    rows, tokens, width, lengths, kind, form, rule, whole, strange = search.values()
    rng = np.random.default_rng(seed)
    queries = torch.from_numpy(draw(seed, rows, tokens, width) if rows else draw(seed, tokens, width))
    if form == "repeated":
        lengths = lengths[:1] * len(lengths)
    longest = max(lengths, default=0)
    packed = torch.from_numpy(draw(seed + 1, sum(lengths), width))
    if whole:
        queries, packed = queries.round(), packed.round()
    if strange and packed.numel():
        packed[int(rng.integers(len(packed))), 0] = rng.choice([np.nan, np.inf, 3e38])
    queries, packed = queries.to(kind).requires_grad_(), packed.to(kind).requires_grad_()
    words: dict[str, Any] = {"rule": rule}
    if rows and rng.integers(2):
        words["query_lengths"] = rng.integers(0, tokens + 1, rows)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    documents: Any = packed
    if form == "list" and lengths:
        documents = list(packed.split(lengths))
    elif form == "packed" or (form == "list" and not lengths):
        words["offsets"] = torch.from_numpy(offsets)
    else:
        padded = torch.zeros(len(lengths), longest + int(rng.integers(2)), width, dtype=kind)
        for d, x in enumerate(packed.detach().split(lengths)):
            padded[d, : len(x)] = x
        documents = padded.requires_grad_()
        if form == "padded" or padded.shape[1] != longest:
            words["lengths"] = lengths
    leaves = (queries, packed if isinstance(documents, list) else documents)
    top = int(rng.integers(1, len(lengths) + 1)) if lengths and rng.integers(3) == 0 else None
    upstream = torch.from_numpy(draw(seed + 2, *((rows,) if rows else ()), top or len(lengths)))
    upstream[..., ::3] = 0.0
    found = []
    for backend in ("torch", None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("otattn._torch_late.BLOCK", block)
            with torch.no_grad():
                plain_one = otattn.maxsim(queries, documents, **words, top_k=top, backend=backend)
            scores = otattn.maxsim(queries, documents, **words, top_k=top, backend=backend)
            best = None
            if top is not None:
                (scores, best), plain_one = scores, plain_one[0]
            assert torch.equal(scores.nan_to_num(), plain_one.nan_to_num())
            slopes = torch.autograd.grad(scores, leaves, upstream, allow_unused=True)
        found.append((scores.detach(), best, slopes))
    (ours, ours_best, our_slopes), (theirs, their_best, slopes) = found
    assert ours.dtype == torch.float32 and ours.shape == theirs.shape
    assert torch.equal(ours.isnan(), theirs.isnan()) and torch.equal(ours.isinf(), theirs.isinf())
    finite = theirs.isfinite()
    largest = [
        float(x.detach().float().nan_to_num(posinf=0.0).abs().clamp(max=1e30).max()) if x.numel() else 0.0
        for x in leaves
    ]
    unit = torch.finfo(torch.float32).eps
    size = 1.0 if strange else largest[0] * largest[1] * width * max(tokens, 1)
    if not strange:
        assert ((ours - theirs)[finite].abs() <= 4 * unit * size).all()
    if ours_best is not None and (whole or strange):
        # Sums of whole numbers are exact, so that equal scores are.
        assert not whole or strange or torch.equal(ours_best, their_best)
    if strange or (ours_best is not None and not torch.equal(ours_best, their_best)):
        return
    for one, other in zip(our_slopes, slopes, strict=True):
        assert one is not None and one.dtype == kind and one.shape == other.shape
        exact = (
            8 * max(torch.finfo(kind).eps, unit) * (1.0 + float(other.abs().max() if other.numel() else 0.0))
        )
        assert not one.numel() or (one - other).abs().max() <= exact


@pytest.mark.parametrize("form", ["packed", "padded"])
def test_gradcheck_of_operations_of_torch(form: str) -> None:
    """Scores and gradients are in f32, in which steps of 1e-3 leave three digits."""
    queries = torch.from_numpy(draw(20, 2, 2, 3)).double().requires_grad_()
    documents = torch.from_numpy(draw(21, 3, 3, 3)).double()
    words: dict[str, Any] = {"lengths": [3, 0, 2]}
    if form == "packed":
        documents, words = documents.flatten(0, 1), {"offsets": [0, 4, 4, 9]}
    documents.requires_grad_()

    def scores(q: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
        found = otattn.maxsim(q, d, **words, backend="torch")
        return found.masked_fill(found.isinf(), 0.0).double()

    assert torch.autograd.gradcheck(scores, (queries, documents), eps=1e-3, atol=1e-3)


def test_another_device_gives_the_same(other_device: str) -> None:
    from otattn import _torch_late, _torch_maxsim

    queries, documents = torch.from_numpy(draw(22, 2, 5, 8)), torch.from_numpy(draw(23, 90, 8))
    upstream = torch.from_numpy(draw(24, 2, 5))
    right = otattn.maxsim(queries, documents, OFFSETS)
    leaves = [x.clone().requires_grad_() for x in (queries, documents)]
    slopes = torch.autograd.grad(otattn.maxsim(*leaves, OFFSETS), leaves, upstream)
    there = [x.to(other_device) for x in (queries, documents, upstream)]
    asked, held, _ = _torch_maxsim._by_torch((*there[:2], torch.from_numpy(OFFSETS), None, None))
    scores, chosen = _torch_late.scores(asked, held, None, True)
    assert chosen is not None and scores.device.type == chosen.device.type == other_device
    torch.testing.assert_close(scores.cpu(), right)
    best = _torch_late.best_of(scores, 3)
    assert torch.equal(best[1].cpu(), otattn.maxsim(queries, documents, OFFSETS, top_k=3)[1])
    for one, other in zip(
        _torch_late.gradients(asked, held, chosen, there[2], [True, True]), slopes, strict=True
    ):
        assert one is not None
        torch.testing.assert_close(one.cpu(), other)
    with pytest.raises(ValueError, match="documents and queries lie on two devices, cpu and lazy"):
        otattn.maxsim(there[0], documents, OFFSETS)
    with pytest.raises(
        ValueError, match=r"queries and documents lie on two devices, cpu and lazy.*pass torch.as_t"
    ):
        otattn.maxsim(queries.numpy(), there[1], OFFSETS)
    with pytest.warns(UserWarning, match="the matching of rule 'capped' is computed on the CPU"):
        found = otattn.maxsim(*there[:2], OFFSETS, rule="assignment")
    assert found.device.type == other_device
    assert torch.equal(found.cpu(), otattn.maxsim(queries, documents, OFFSETS, rule="assignment"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        otattn.maxsim(*there[:2], OFFSETS, rule="assignment")


def test_scores_read_nothing_from_a_device() -> None:
    from otattn import _torch_late

    with FakeTensorMode():
        queries, documents = torch.empty(2, 5, 8, device="lazy"), torch.empty(90, 8, device="lazy")
        held = _torch_late.Documents(documents, OFFSETS[:-1], np.diff(OFFSETS))
        scores, chosen = _torch_late.scores(queries, held, np.array([5, 3]), True)
        assert chosen is not None
        for x in (
            scores,
            *_torch_late.best_of(scores, 2),
            *_torch_late.gradients(queries, held, chosen, scores, [True, True]),
        ):
            assert x is not None and x.device.type == "lazy"
