"""`otattn.Model` against what the package's program writes of the same model: texts, states, refusals."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import otattn
import pytest

TEXT = "The sun sets over the river, and all of it is read twice."


@pytest.fixture(scope="module")
def demo() -> Path:
    return Path(__file__).resolve().parents[3] / "data/demo/model"


@pytest.fixture
def model(demo: Path) -> Iterator[otattn.Model]:
    with otattn.Model(demo) as opened:
        yield opened


def program(*arguments: Any, cwd: Path | None = None) -> Any:
    """What the program says with --json."""
    command = [sys.executable, "-m", "otattn", *map(str, arguments), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=cwd)
    return json.loads(done.stdout)


def captured_by_the_program(demo: Path, folder: Path, *arguments: Any) -> dict[str, Any]:
    """The arrays that `otattn capture` writes."""
    from safetensors.numpy import load_file

    file = folder / "captured.safetensors"
    program("capture", demo, "--text", TEXT, "--points", "all,logits", "-f", "-o", file, *arguments)
    return load_file(file)


def test_what_a_model_says_of_itself(model: otattn.Model, demo: Path) -> None:
    said = program("info", demo)
    for name in (
        "architecture",
        "layers",
        "heads",
        "kv_heads",
        "width",
        "vocabulary",
        "positions",
        "parameters",
    ):
        assert getattr(model.facts, name) == said[name], name
    assert model.facts.causal is True and model.facts.format == "safetensors"
    assert repr(model) == (
        f"Model({str(demo)!r}: gpt2, 4 layers of 6 heads, width 192, 2.0 million parameters, safetensors)"
    )


def test_tokens_are_the_program_s(model: otattn.Model, demo: Path) -> None:
    said = program("tokenize", demo, "--text", TEXT)
    ids = model.tokens(TEXT)
    assert ids.dtype == np.int64 and ids.tolist() == said["ids"]
    assert [model.tokenizer.piece(one) for one in ids] == said["pieces"]
    assert model.decode(ids) == TEXT == "".join(model.tokenizer.texts(ids))
    assert model.tokenizer.decode_bytes(model.tokenizer.encode(b"\xff a")) == b"\xff a"
    assert model.tokenizer.id(said["pieces"][3]) == said["ids"][3] and model.tokenizer.id("no piece") is None
    assert model.tokens("").size == 0 and model.decode([]) == ""
    long = "x" * 3000
    assert model.decode(model.tokens(long)) == long
    assert len(model.tokenizer) == 769 and "bpe" in repr(model.tokenizer)
    assert len(otattn.Tokenizer(demo)) == 769
    with pytest.raises(ValueError, match="ids hold 769, and the vocabulary has 769 pieces"):
        model.decode([5, 769])
    with pytest.raises(TypeError, match="text is a int, wanted str or bytes"):
        model.tokens(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("methods", [(), ("entmax:1.5",), ("sparsemax@1", "softmax/online:2@2.3")])
def test_states_and_logits_are_the_program_s(
    model: otattn.Model, demo: Path, tmp_path: Path, methods: tuple[str, ...]
) -> None:
    flags = [word for method in methods for word in ("--method", method)]
    right = captured_by_the_program(demo, tmp_path, *flags)
    run = model.run(TEXT, methods=methods)
    assert run.states.dtype == np.float32 and (run.states == right["ln_final.hook_normalized"]).all()
    assert run.logits.shape == (1, run.ids.size, 769)
    assert (run.logits == right["logits"]).all() and (run.layers == 4).all()
    assert np.allclose(model.run(TEXT, methods=methods).last_logits, run.logits[:, -1], atol=1e-4)


def test_methods_by_place(model: otattn.Model, tmp_path: Path) -> None:
    right = model.run(TEXT, methods=["entmax:1.5", "sparsemax@1.2", "hard@3"]).states
    assert (
        model.run(TEXT, methods={"": "entmax:1.5", "1.2": "sparsemax", "3": "hard"}).states == right
    ).all()
    file = tmp_path / "methods.json"
    for method in ("hard", "sparsemax"):
        # A file of methods is read each time.
        methods = [{"place": "1.2", "method": method}]
        file.write_text(json.dumps({"format": "otattn methods", "version": 1, "methods": methods}))
        from_file = model.run(TEXT, methods=f"@{file}").states
        assert (from_file == model.run(TEXT, methods=f"{method}@1.2").states).all()


def test_texts_of_several_lengths(model: otattn.Model) -> None:
    texts = [TEXT, "A", "Some more of it"]
    run = model.run(texts)
    assert run.lengths is not None and run.lengths.tolist() == [model.tokens(text).size for text in texts]
    for k, text in enumerate(texts):
        alone = model.run(text)
        # Sums over rows come in another order.
        assert np.allclose(run.states[k, : run.lengths[k]], alone.states[0], rtol=0, atol=2e-5)
        assert np.allclose(run.last_logits[k], alone.last_logits[0], rtol=0, atol=2e-4)
    assert np.allclose(run.logits[np.arange(3), run.lengths - 1], run.last_logits, rtol=0, atol=2e-4)


def test_ids_and_streams(model: otattn.Model, demo: Path, tmp_path: Path) -> None:
    whole = model.run(TEXT)
    ids = whole.ids[0]
    for given in (ids, ids.tolist(), ids[None], ids.astype(np.int32), [ids]):
        assert (model.run(given).states == whole.states).all()
    stream = captured_by_the_program(demo, tmp_path)["blocks.2.hook_resid_pre"]
    assert (model.run(ids, residual=stream, start_layer=2).states == whole.states).all()
    assert (model.run(ids, residual=stream[0], start_layer=2).states == whole.states).all()
    early = model.run(ids, exit=(0.01, 1))
    assert early.layers.min() < 4 and (model.run(ids, exit=(1.0, 1)).states == whole.states).all()


def test_settings_change_what_they_say(model: otattn.Model) -> None:
    right = model.run(TEXT).states
    assert (model.run(TEXT, temperature=1, tolerance=None, rounds=None, window=None).states == right).all()
    assert (model.run(TEXT, window=(-1, -1)).states == right).all()
    for changed in ({"temperature": 0.5}, {"window": (2, 0)}, {"sink": 0.0}):
        assert abs(model.run(TEXT, **changed).states - right).max() > 0.01  # type: ignore[arg-type]
    with otattn.threads(1):
        assert (model.run(TEXT).states == right).all()


@pytest.mark.parametrize(
    ("arguments", "kind", "sentence"),
    [
        ({"methods": "nonsense"}, ValueError, "method 'nonsense' is unknown"),
        ({"methods": [3]}, TypeError, "methods hold 3, wanted texts"),
        ({"methods": "softmax@9"}, ValueError, "9"),
        ({"temperature": 0}, ValueError, "temperature is 0.0, wanted more than 0"),
        ({"window": (1, 2, 3)}, ValueError, "window is"),
        ({"window": (1.5, 0)}, ValueError, "window holds 1.5, wanted whole numbers"),
        ({"rounds": 1.5}, TypeError, "rounds"),
        ({"max_rounds": 0}, ValueError, "max_rounds"),
        ({"method": "softmax"}, TypeError, "unknown keyword 'method'; wanted methods"),
        ({"deadline": 0}, ValueError, "deadline"),
        ({"deadline": 1e-9}, TimeoutError, "deadline"),
        ({"start_layer": 2}, ValueError, "start_layer is 2, and residual is NULL"),
        ({"residual": np.zeros((1, 2, 3))}, ValueError, "residual has shape"),
        ({"exit": (0.5, 0)}, ValueError, "exit"),
        ({"types": np.full(19, 7)}, ValueError, "type"),
        ({"methods": "softmax/exact"}, otattn.Infeasible, "layer 0: exact columns"),
    ],
)
def test_refusals(
    model: otattn.Model, arguments: dict[str, Any], kind: type[Exception], sentence: str
) -> None:
    ids = np.arange(19)
    with warnings.catch_warnings(), pytest.raises(kind, match=sentence):
        warnings.simplefilter("ignore", UserWarning)
        model.run(ids, **arguments)
    # And the model goes on.
    assert np.isfinite(model.run(ids).states).all()


@pytest.mark.parametrize("text", ["", [], [[]], ["a", ""], np.zeros((1, 1, 1), int), np.array([769]), [1.5]])
def test_what_is_no_text(model: otattn.Model, text: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"no token|vocabulary has 769|wanted whole numbers"):
        model.run(text)


def test_methods_that_leak_warn(model: otattn.Model) -> None:
    with pytest.warns(UserWarning, match="later tokens change") as told:
        model.run(TEXT, methods="softmax/capped:3")
    assert told[0].filename == __file__


def test_a_model_ends(demo: Path) -> None:
    model = otattn.Model(demo)
    run = model.run(TEXT)
    model.close()
    model.close()
    for call in (lambda: model.run(TEXT), lambda: run.logits, lambda: model.run(np.arange(3)), model.tokens):
        with pytest.raises((ValueError, TypeError)):
            call()
    with pytest.raises(ValueError, match="the model is closed"), model:
        model.run(np.arange(3))


def test_a_model_is_not_pickled(model: otattn.Model) -> None:
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"open it there with otattn\.Model"):
            copied(model)
        with pytest.raises(TypeError, match="cannot be pickled"):
            copied(model.tokenizer)


def test_what_is_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises((OSError, ValueError), match="nothing-here"):
        otattn.Model("somebody/nothing-here")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="model_type"):
        otattn.Model(tmp_path)
    (tmp_path / "broken.gguf").write_bytes(b"GGUF nothing")
    with pytest.raises(ValueError, match=r"broken\.gguf"):
        otattn.Model(tmp_path / "broken.gguf")


def test_a_name_of_the_hub_s_cache(demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshots = tmp_path / "hub/models--some--demo/snapshots"
    snapshots.mkdir(parents=True)
    (snapshots / "abc").symlink_to(demo)
    refs = snapshots.parent / "refs"
    refs.mkdir()
    (refs / "main").write_text("abc")
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with otattn.Model("some/demo") as found:
        assert found.facts.layers == 4


def test_threads_share_a_model(model: otattn.Model) -> None:
    right = model.run(TEXT).states
    found: list[bool] = []

    def work() -> None:
        for _ in range(5):
            found.append(bool((model.run(TEXT).states == right).all()))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == [True] * 20
