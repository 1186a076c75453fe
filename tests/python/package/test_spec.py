"""`Spec`: every option checked once, the same object for the same options, taken by every front as a method;
and the table of all keywords, which every front takes or refuses by name."""

from __future__ import annotations

import copy
import inspect
import pickle
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import otattn
import pytest
import torch
from otattn import Spec
from otattn._keywords import ARRAY, BY_NAME, CALL, FIELDS, NUMBER, OPTIONS

# A value that is not the default, of a problem that has a plan.
OTHER: dict[str, Any] = {
    "dropout_p": 0.5,
    "is_causal": True,
    "scale": 0.25,
    "enable_gqa": True,
    "method": "softmax/capped:1.5",
    "temperature": 2.0,
    "rounds": 3,
    "tolerance": 1e-3,
    "max_rounds": 50,
    "alpha": 1.25,
    "cap": 3.0,
    "strength": 0.5,
    "alibi_slopes": 0.125,
    "window": (2, 0),
    "softcap": 4.0,
    "sink": float("-inf"),
    "lower": 0.25,
    "upper": 1.5,
    "causal_align": "bottom_right",
    "relative_inside": True,
    "rows": "relaxed:1.0",
    "axis": "columns",
    "cost": True,
    "allow_partial": True,
    "prune": True,
    "strict": True,
    "solver": "sinkhorn",
    "backend": "plain",
    "workspace_limit": 1 << 30,
    "nonfinite": "nan",
}
# The method that has such a number or such rows.
METHOD = {
    "alpha": "entmax:1.5",
    "cap": "softmax/capped:2",
    "strength": "softmax/relaxed:1",
    "lower": "softmax/bounded:0.5,2",
    "upper": "softmax/bounded:0.5,2",
    "rows": "softmax/relaxed:1",
    "solver": "softmax/exact",
}


def spec_with(name: str, value: Any) -> Spec:
    if name == "method":
        return Spec(value)
    return Spec(METHOD.get(name, "softmax"), **{name: value})


def test_the_table_has_a_case_for_each_option() -> None:
    assert set(OTHER) == set(OPTIONS) <= set(BY_NAME)
    assert [field.name for field in FIELDS] == list(inspect.signature(otattn.attention).parameters)[3:]
    shown = inspect.signature(otattn.coupling).parameters
    assert [x.name for x in FIELDS if not x.attention_only and x.name not in shown] == []
    assert [x.name for x in FIELDS if x.attention_only and x.name in shown] == []
    for name, parameter in shown.items():
        assert name == "scores" or parameter.default == BY_NAME[name].default


@pytest.mark.parametrize("name", OPTIONS)
def test_options_are_kept_written_and_read(name: str) -> None:
    spec = spec_with(name, OTHER[name])
    assert getattr(spec, name) == OTHER[name] and dict(spec.items())[name] == OTHER[name]
    assert eval(repr(spec), {"Spec": Spec}) is spec is pickle.loads(pickle.dumps(spec))
    assert copy.deepcopy(spec) is copy.copy(spec) is spec and hash(spec) == hash(spec_with(name, OTHER[name]))
    assert spec != Spec() and len({spec, Spec(), spec_with(name, OTHER[name])}) == 2
    assert spec.replace(**{name: BY_NAME[name].default}) is spec_with("method", METHOD.get(name, "softmax"))


def test_the_same_options_are_the_same_object() -> None:
    spec = Spec("entmax:1.5/capped:2", window=[128, 0], temperature=2)
    assert repr(spec) == "Spec('entmax:1.5/capped:2', temperature=2.0, window=(128, 0))"
    assert Spec("entmax:1.5/capped:2", temperature=np.float32(2.0), window=(128, 0)) is spec is Spec(spec)
    assert Spec("softmax", window=(-1, -1), softcap=0) is Spec()
    # Equal, but not what it says: a flag is no number.
    with pytest.raises(TypeError, match="rounds is True"):
        Spec(rounds=True)
    for change in ("method", "window", "token"):
        with pytest.raises(AttributeError, match="cannot be changed"):
            setattr(spec, change, None)
        with pytest.raises(AttributeError, match="cannot be changed"):
            delattr(spec, change)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: Spec("nonsense"), ValueError, "'nonsense' is unknown"),
        (lambda: Spec(3), TypeError, "method is a int"),
        (lambda: Spec("softmax", method="hard"), TypeError, "method is given twice"),
        (lambda: Spec("softmax", tempreature=2.0), TypeError, "did you mean 'temperature'"),
        (
            lambda: Spec("softmax", temperature=np.ones(2)),
            TypeError,
            "temperature is array.*: an array goes to the call",
        ),
        (lambda: Spec("softmax", temperature=[1.0]), TypeError, "temperature is a list"),
        (lambda: Spec("softmax", temperature=0.0), ValueError, "temperature is 0.0"),
        (lambda: Spec("softmax", alpha=1.5), ValueError, "alpha is given, but the method 'softmax' has none"),
        (lambda: Spec("softmax", solver="x"), ValueError, "solver is 'x'"),
        (lambda: Spec("softmax", axis="x"), ValueError, "axis is 'x'"),
        (lambda: Spec("softmax", window=(1,)), ValueError, "window is"),
        (lambda: Spec("softmax", nonfinite="nan", strict=True), ValueError, "nonfinite"),
        (lambda: Spec("softmax/prefix", is_causal=True), ValueError, "is_causal is True"),
        (lambda: Spec().replace(window=3), TypeError, "window is 3"),
        (lambda: Spec().replace(method=Spec("hard")), TypeError, "method is a Spec"),
    ],
)
def test_refusals(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("name", [x.name for x in FIELDS if x.kind in (ARRAY, CALL)])
def test_what_belongs_to_a_call_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=rf"^{name} is .* goes to the call"):
        Spec(**{name: BY_NAME[name].default})


def test_a_regulariser() -> None:
    own = otattn.Regulariser(lambda x: max(x, 0.0), lambda x: float(x > 0.0))
    spec = Spec(own, scale=2.0)
    scores = np.array([[1.0, 0.5, -2.0]])
    right = otattn.coupling(scores, method=own, scale=2.0)
    del own
    assert (otattn.coupling(scores, method=spec) == right).all() and "Regulariser" in repr(spec)
    assert spec == spec.replace(scale=2.0) and hash(spec) == hash(spec.replace(scale=2.0))
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(spec)


# ---- fronts ----------------------------------------------------------------------------------------

RNG = np.random.default_rng(5)
QUERY = RNG.standard_normal((1, 2, 4, 3))
PACKED = RNG.standard_normal((4, 2, 3))


def layered(method: Any, **options: Any) -> Any:
    torch.manual_seed(0)
    layer = otattn.nn.Attention(4, 2, method=method, **options)
    return layer.eval()(*3 * [torch.ones(3, 1, 4)], need_weights=False)[0].detach()


def by_jax(method: Any, **options: Any) -> Any:
    front = pytest.importorskip("jax") and otattn.jax
    x = QUERY.astype(np.float32)
    return np.asarray(front.attention(x, x, x, method=method, **options))


def by_hf(method: Any, **options: Any) -> Any:
    from otattn import hf

    x, plain = torch.from_numpy(QUERY), torch.nn.Linear(2, 2)
    plain.is_causal = False  # type: ignore[assignment]
    return hf.attention_forward(plain, x, x, x, None, method=method, options=options)[0]


FRONTS: dict[str, Callable[..., Any]] = {
    "attention": lambda method, **x: otattn.attention(QUERY, QUERY, QUERY, method=method, **x),
    "tensors": lambda method, **x: otattn.attention(*3 * [torch.from_numpy(QUERY)], method=method, **x),
    "coupling": lambda method, **x: otattn.coupling(QUERY[0, 0] @ QUERY[0, 1].T, method=method, **x),
    "varlen": lambda method, **x: otattn.varlen_attention(*3 * [PACKED], [0, 4], [0, 4], method=method, **x),
    "flash": lambda method, **x: otattn.flash.flash_attn_func(*3 * [PACKED[None]], method=method, **x),
    "plan": lambda method, **x: otattn.Plan(QUERY, QUERY, QUERY, method=method, **x).forward(*3 * [QUERY]),
    "decode": lambda method, **x: otattn.decode(*3 * [QUERY], method=method, **x)[0],
    "nn": layered,
    "hf": by_hf,
    "jax": by_jax,
}
# What a front has by another name, or sets itself, and so is told of a Spec alone.
ALONE = {
    "varlen": {"is_causal", "scale", "dropout_p", "enable_gqa", "window"},
    "flash": {"is_causal", "scale", "dropout_p", "enable_gqa", "window", "softcap", "causal_align"}
    | {"alibi_slopes"},
    "hf": {"is_causal", "scale", "dropout_p", "enable_gqa", "softcap"},
    "decode": {"is_causal", "causal_align", "dropout_p"},
    "nn": {"is_causal", "dropout_p", "enable_gqa", "scale"},
    "coupling": {x.name for x in FIELDS if x.attention_only},
}


def outcome(call: Callable[[], Any]) -> Any:
    """Numbers, or the sentence of a refusal."""
    np.random.seed(0)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.asarray(call())
        except (ValueError, TypeError, otattn.SolveError) as error:
            return str(error)


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("name", OPTIONS)
def test_fronts_take_an_option_by_a_spec_as_by_its_name(front: str, name: str) -> None:
    call, method = FRONTS[front], METHOD.get(name, "softmax")
    spec = spec_with(name, OTHER[name])
    more = {"dropout_seed": 1} if name == "dropout_p" and front not in ("nn", "decode", "coupling") else {}
    found = outcome(lambda: call(spec, **more))
    if name in ALONE.get(front, ()):
        # Taken, or refused by its name.
        assert not isinstance(found, str) or name in found, found
        return
    options = {} if name == "method" else {name: OTHER[name]}
    right = outcome(lambda: call(OTHER[name] if name == "method" else method, **options, **more))
    assert type(found) is type(right)
    if isinstance(right, str):
        assert found == right or name in found
    else:
        assert np.array_equal(found, right, equal_nan=True)


@pytest.mark.parametrize("name", OPTIONS)
def test_options_given_twice(name: str) -> None:
    spec = spec_with(name, OTHER[name])
    if name == "method":
        return
    right = outcome(lambda: FRONTS["attention"](spec, dropout_seed=1))
    # As in the Spec, and as by default: the Spec's.
    for value in (OTHER[name], BY_NAME[name].default):
        found = outcome(lambda value=value: FRONTS["attention"](spec, dropout_seed=1, **{name: value}))
        assert np.array_equal(found, right)
    third = {"nonfinite": "raise", "solver": "newton"}.get(name)
    if isinstance(OTHER[name], float):
        third = 0.375
    if third is not None and third != BY_NAME[name].default:
        with pytest.raises(ValueError, match=rf"^{name} is .*, but the Spec that is the method has {name}="):
            FRONTS["attention"](spec, **{name: third})
    if BY_NAME[name].kind == NUMBER and name != "alibi_slopes":
        with pytest.raises(ValueError, match=rf"^{name} is array"):
            FRONTS["attention"](spec, **{name: np.full(2, 0.5)})
    # What the Spec leaves open is the call's.
    plain = Spec(METHOD.get(name, "softmax"))
    joined = outcome(lambda: FRONTS["attention"](plain, dropout_seed=1, **{name: OTHER[name]}))
    assert np.array_equal(joined, right)


def test_a_compiled_graph_takes_a_spec() -> None:
    spec = Spec("softmax/capped:2", window=(2, 1), temperature=0.5)
    x = torch.from_numpy(QUERY).requires_grad_()
    compiled = torch.compile(lambda y: otattn.attention(y, y, y, method=spec), fullgraph=True)
    assert torch.equal(compiled(x), otattn.attention(x, x, x, method=spec))


def test_threads_make_one_spec() -> None:
    found: list[Spec] = []
    many = [threading.Thread(target=lambda: found.append(Spec("softmax", scale=0.123))) for _ in range(8)]
    for one in many:
        one.start()
    for one in many:
        one.join()
    assert len(set(found)) == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda **x: otattn.attention(QUERY, QUERY, QUERY, **x),
        lambda **x: otattn.coupling(QUERY, **x),
        lambda **x: otattn.varlen_attention(*3 * [PACKED], [0, 4], [0, 4], **x),
        lambda **x: otattn.Plan(QUERY, QUERY, QUERY, **x),
        lambda **x: otattn.decode(QUERY, QUERY, QUERY, **x),
        lambda **x: otattn.nn.Attention(4, 2, **x),
    ],
)
def test_unknown_keywords(call: Callable[..., Any]) -> None:
    for _ in range(2):
        with pytest.raises(TypeError, match=r"'tempreature'.*did you mean 'temperature'"):
            call(tempreature=2.0)
