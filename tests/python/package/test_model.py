"""`otattn.Model` against what the package's program writes of the same model: texts, states, refusals."""

from __future__ import annotations

import copy
import csv
import json
import pickle
import shutil
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
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, cwd=cwd)
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


@pytest.mark.parametrize("variable, folder", [("HF_HOME", "hub"), ("USERPROFILE", ".cache/huggingface/hub")])
def test_a_name_of_the_hub_s_cache(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, folder: str
) -> None:
    snapshots = tmp_path / folder / "models--some--demo/snapshots"
    shutil.copytree(demo, snapshots / "abc")
    refs = snapshots.parent / "refs"
    refs.mkdir()
    (refs / "main").write_text("abc")
    for other in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
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


# ---- looking into runs -----------------------------------------------------------------------------


def test_captured_points_are_the_program_s(model: otattn.Model, demo: Path, tmp_path: Path) -> None:
    right = captured_by_the_program(demo, tmp_path)
    found = model.capture(TEXT, "all")
    assert [*found] == model.points and {*found} >= {*right} - {"logits"}
    for name, x in right.items():
        # Weights that come in blocks of rows are made row by row.
        same = {"rtol": 1e-5, "atol": 1e-6} if "pattern" in name else {"rtol": 0, "atol": 0}
        assert name == "logits" or np.allclose(found[name], x, **same), name
    standard = model.capture(TEXT)
    assert len(standard) == 11 and all((standard[name] == found[name]).all() for name in standard)
    assert standard.tokens == [model.tokenizer.texts(standard.ids[0])]
    assert repr(standard).startswith("Capture(model: 11 points of 1 x 24 tokens, ")
    assert {point.name: point.shape for point in model.points_of(1, 24)} == {
        name: x.shape for name, x in found.items()
    }


def test_names_of_points(model: otattn.Model) -> None:
    found = model.capture(TEXT, ["pattern", "hook_resid_pre", "blocks.3.mlp.hook_post", "ln2.hook_scale"])
    assert len(found) == 4 + 4 + 1 + 4
    names = {
        ("pattern", 2): "blocks.2.attn.hook_pattern",
        ("attn", 2): "blocks.2.attn.hook_pattern",
        ("resid_pre", 0): "blocks.0.hook_resid_pre",
        ("mlp_post", 3): "blocks.3.mlp.hook_post",
        ("scale", 1, "ln2"): "blocks.1.ln2.hook_scale",
    }
    for short, name in names.items():
        assert short in found and found[short] is found[name]  # type: ignore[index]
    assert found["pattern2"] is found["pattern", 2] and [*found.layers("pattern")] == [0, 1, 2, 3]
    with pytest.raises(KeyError, match=r"'pattern', 9\) was not captured"):
        found["pattern", 9]
    with pytest.raises(ValueError, match=r"no point 'patern', .* did you mean 'pattern'"):
        model.capture(TEXT, "patern")
    for layers in (4, [0, 7], []):
        with pytest.raises(ValueError, match="layers"):
            model.capture(TEXT, "pattern", layers=layers)
    assert [*model.capture(TEXT, "pattern", layers=-1)] == ["blocks.3.attn.hook_pattern"]


def test_heads_of_a_capture(model: otattn.Model) -> None:
    points = ["q", "k", "z", "pattern", "attn_scores", "receiver"]
    whole = model.capture(TEXT, points)
    some = model.capture(TEXT, points, layers=[1, 3], heads=[4, 0])
    assert some.heads == (0, 4) and len(some) == 2 * len(points)
    axes = {"hook_q": 2, "hook_z": 2, "hook_pattern": 1, "hook_attn_scores": 1, "hook_receiver": 1}
    for name, x in some.items():
        axis = axes.get(name.rpartition(".")[2])
        right = whole[name] if axis is None else whole[name].take([0, 4], axis)
        assert x.shape == right.shape and np.allclose(x, right, rtol=1e-5, atol=1e-6), name
    with pytest.raises(ValueError, match="heads hold 6, and a layer has 6 heads"):
        model.capture(TEXT, heads=6)


def test_weights_scores_and_received_mass(model: otattn.Model) -> None:
    texts = [TEXT, "Another one."]
    whole = model.capture(texts, ["pattern", "attn_scores"], methods="entmax:1.5@1")
    for scores, name in ((False, "pattern"), (True, "attn_scores")):
        one = model.weights(texts, 1, 4, scores=scores, methods="entmax:1.5@1")
        right = whole[name, 1][:, 4]
        assert one.shape == right.shape and np.allclose(one, right, rtol=1e-5, atol=1e-6, equal_nan=True)
    room = np.zeros((1, 24, 24), np.float32)
    assert model.weights(TEXT, 3, -1, out=room) is room and np.allclose(room.sum(2), 1, atol=1e-5)
    with pytest.raises(ValueError, match="out is float64"):
        model.weights(TEXT, 3, 0, out=room.astype(float))
    mass = model.receiver_mass(TEXT, heads=[1, 2])
    patterns = model.capture(TEXT, "pattern", heads=[1, 2])
    assert mass.shape == (1, 4, 2, 24)
    for layer in range(4):
        assert np.allclose(mass[:, layer], patterns["pattern", layer].sum(2), rtol=1e-5, atol=1e-5)


def test_an_exception_in_a_capture_comes_back(model: otattn.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    room = np.zeros((1, 24, 24), np.float32)
    room.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        model.weights(TEXT, 1, 1, out=room)
    assert model.weights(TEXT, 1, 1).shape == (1, 24, 24)


def test_projections(model: otattn.Model) -> None:
    found, layer = model.capture(TEXT, ["ln1.hook_normalized", "q", "attn_scores", "k"]), 2
    matrices = model.projections(layer)
    assert matrices.output.shape == (192, 192) and matrices.scale == pytest.approx(32**-0.5)
    # GPT-2 has biases besides: differences between tokens have none.
    x, q = found["normalized", layer, "ln1"][0], found["q", layer][0].reshape(24, 192)
    assert np.allclose((x[1:] - x[:1]) @ matrices.query, q[1:] - q[:1], rtol=0, atol=1e-4)
    scores = np.einsum("qhd,khd->hqk", found["q", layer][0], found["k", layer][0]) * matrices.scale
    seen = np.tril(np.ones((24, 24), bool))
    given = found["attn_scores", layer][0]
    assert (
        np.allclose(given[:, seen], scores[:, seen], rtol=0, atol=1e-4) and np.isneginf(given[:, ~seen]).all()
    )


@pytest.mark.parametrize(
    ("family", "more"),
    [
        ("gpt_neox", {"intermediate_size": 24}),
        ("bloom", {}),
        ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1}),
        ("llama", {"num_key_value_heads": 2, "intermediate_size": 24}),
    ],
)
def test_projections_of_families(family: str, more: dict[str, Any], tmp_path: Path) -> None:
    """Whatever the file's order of queries, keys and values: in three of the families it is head by head."""
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 32}
    config = transformers.CONFIG_MAPPING[family](**sizes, bos_token_id=0, eos_token_id=0, **more)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    with otattn.Model(tmp_path) as opened:
        found = opened.capture(np.arange(9)[None], ["ln1.hook_normalized", "q", "k", "v"])
        matrices = opened.projections(1)
    x = found["normalized", 1, "ln1"][0]
    for name, matrix in zip("qkv", (matrices.query, matrices.key, matrices.value), strict=True):
        y = found[name, 1][0].reshape(9, -1)
        assert np.allclose((x[1:] - x[:1]) @ matrix, y[1:] - y[:1], rtol=0, atol=1e-5), name


# ---- edits -----------------------------------------------------------------------------------------


def test_edits(model: otattn.Model) -> None:
    clean = model.capture(TEXT, ["z", "resid_post", "resid_pre"])
    without = model.run(TEXT, edits=[otattn.Edit("z", layer=1, head=[0, 3])])
    assert abs(without.states - model.run(TEXT).states).max() > 0.01
    same = [
        [otattn.Edit("z", "replace", layer=1, head=h, values=0.0) for h in (0, 3)],
        [otattn.Edit("attn.hook_z", "replace", layer=1, head=h, values=np.zeros(32)) for h in (0, 3)],
        [otattn.Edit("blocks.1.attn.hook_z", factor=0.0, head=h) for h in (0, 3)],
    ]
    for edits in same:
        assert (model.run(TEXT, edits=edits).states == without.states).all()
    with model.edited(otattn.Edit("z", layer=1, head=0)):
        with model.edited(otattn.Edit("z", layer=1, head=3)):
            assert (model.run(TEXT).states == without.states).all()
        assert (model.run(TEXT, edits=[otattn.Edit("z", layer=1, head=3)]).states == without.states).all()
    assert (model.run(TEXT).states != without.states).any()
    # The stream of one token put into another run is that run's from there on.
    other = model.capture(TEXT.replace("sun", "moon"), ["resid_pre"])
    whole = otattn.Edit("resid_pre", "replace", layer=2, values=clean["resid_pre", 2])
    patched = model.capture(other.ids, "resid_post", edits=[whole])
    assert (patched["resid_post", 3] == clean["resid_post", 3]).all()


def test_places_of_edits(model: otattn.Model) -> None:
    texts = ["Some words of it", "Other words of it"]
    clean = model.capture(texts, "resid_mid")["resid_mid", 1]
    count = clean.shape[1]
    places: list[tuple[dict[str, Any], Any]] = [
        ({"token": -1}, np.s_[:, count - 1]),
        ({"token": slice(1, 3)}, np.s_[:, 1:3]),
        ({"token": slice(-2, None), "sequence": 0}, np.s_[0, count - 2 :]),
        ({"token": [0, 3], "sequence": 1, "column": range(5, 9)}, np.s_[1, [0, 3], 5:9]),
        ({"sequence": 1}, np.s_[1]),
    ]
    for arguments, place in places:
        edit = otattn.Edit("resid_mid", "add", layer=1, values=2.0, factor=0.5, **arguments)
        right = clean.copy()
        right[place] += 1.0
        assert np.allclose(model.capture(texts, "resid_mid", edits=edit)["resid_mid", 1], right, atol=1e-5)
    mean = model.capture(texts, "resid_mid", edits=otattn.Edit("resid_mid", "mean", layer=1))["resid_mid", 1]
    assert np.allclose(mean, clean.mean(1, keepdims=True), atol=1e-4)
    halved = model.capture(texts, "pattern", edits=otattn.Edit("pattern", layer=0, head=1, factor=0.5))
    assert np.allclose(halved["pattern", 0].sum(3)[:, 1], 0.5, atol=1e-5)


@pytest.mark.parametrize(
    ("edit", "kind", "sentence"),
    [
        (otattn.Edit("zz"), ValueError, "no point 'zz'"),
        (otattn.Edit("z", "double"), ValueError, "kind is 'double', wanted one of scale"),
        (otattn.Edit("z", layer=4), ValueError, "layers"),
        (otattn.Edit("z", head=6), ValueError, "heads 6"),
        (otattn.Edit("z", token=50), ValueError, "tokens 50"),
        (otattn.Edit("z", token=slice(0, 4, 2)), ValueError, "wanted a slice of step 1"),
        (otattn.Edit("z", head=-1), ValueError, "head"),
        (otattn.Edit("z", head=[]), ValueError, "which is nowhere"),
        (otattn.Edit("z", "replace"), ValueError, "needs values"),
        (otattn.Edit("z", "replace", values=np.ones(7)), ValueError, "values"),
        (otattn.Edit("z", "replace", values=np.ones((1, 1, 1, 1, 2))), ValueError, "5 dimensions"),
        (otattn.Edit("z", "replace", head=[0, 2], values=np.ones(32)), ValueError, "not one piece"),
        (otattn.Edit("receiver"), ValueError, "nothing reads it again"),
        ("z", TypeError, "wanted otattn.Edit"),
    ],
)
def test_refused_edits(model: otattn.Model, edit: Any, kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind, match=sentence):
        model.run(np.arange(9), edits=[edit])


# ---- images ----------------------------------------------------------------------------------------


def see(folder: Path) -> Path:
    """A ViT that sees [2, 6, 6] in pieces of 3 and has 5 labels."""
    width, inner, random = 8, 12, np.random.default_rng(3)
    shapes: dict[str, tuple[int, ...]] = {
        "vit.embeddings.cls_token": (1, 1, width),
        "vit.embeddings.position_embeddings": (1, 5, width),
        "vit.embeddings.patch_embeddings.projection.weight": (width, 2, 3, 3),
        "vit.embeddings.patch_embeddings.projection.bias": (width,),
        "classifier.weight": (5, width),
        "classifier.bias": (5,),
    }
    block = "vit.encoder.layer.0."
    linear = {f"{block}attention.attention.{word}": (width, width) for word in ("query", "key", "value")}
    linear |= {f"{block}attention.output.dense": (width, width)}
    linear |= {f"{block}intermediate.dense": (inner, width), f"{block}output.dense": (width, inner)}
    for name, shape in linear.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    for name in (f"{block}layernorm_before", f"{block}layernorm_after", "vit.layernorm"):
        shapes |= {f"{name}.weight": (width,), f"{name}.bias": (width,)}
    header, data = {}, b""
    for name, shape in shapes.items():
        x = random.normal(size=shape).astype(np.float32)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + x.nbytes]}
        data += x.tobytes()
    text = json.dumps(header).encode()
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    settings = {"model_type": "vit", "hidden_size": width, "num_hidden_layers": 1, "num_attention_heads": 2}
    settings |= {"intermediate_size": inner, "image_size": 6, "patch_size": 3, "num_channels": 2}
    labels = {"id2label": {str(k): f"label {k}" for k in range(5)}}
    (folder / "config.json").write_text(json.dumps(settings | labels))
    return folder


def test_images(tmp_path: Path, model: otattn.Model) -> None:
    """Runs and captures of images are what the program writes of the same ones."""
    pixels = np.random.default_rng(4).normal(size=(3, 2, 6, 6)).astype(np.float32)
    np.save(tmp_path / "pixels.npy", pixels)
    out = ("--points", "all,logits", "-f", "-o", "run.npz")
    with otattn.Model(see(tmp_path / "vit")) as sees:
        program("capture", "vit", "--pixels", "pixels.npy", *out, cwd=tmp_path)
        right = dict(np.load(tmp_path / "run.npz"))
        assert sees.facts.image == (2, 6, 6)
        run = sees.run(pixels=pixels)
        assert np.array_equal(run.logits, right["logits"])
        assert np.array_equal(run.last_logits, right["logits"][:, 0])
        assert np.allclose(sees.run(pixels=pixels).last_logits, right["logits"][:, 0], atol=1e-5)
        assert np.allclose(sees.run(pixels=pixels[1]).last_logits, right["logits"][1:2, 0], atol=1e-5)
        found = sees.capture(pixels=pixels, points="all")
        assert {*found} - {"blocks.0.attn.hook_result"} == {*right} - {"logits"}
        for name in {*right} - {"logits"}:
            assert np.allclose(found[name], right[name], atol=1e-5), name
        assert found.tokens[0] == ["image", "0,0", "0,1", "1,0", "1,1"]
        for given, kind, sentence in (
            ({}, TypeError, "a text or pixels"),
            ({"text": "a", "pixels": pixels}, TypeError, "a text or pixels"),
            (
                {"pixels": pixels[..., 1:]},
                ValueError,
                r"shape \(3, 2, 6, 5\), and the model sees \(2, 6, 6\)",
            ),
            ({"text": [1, 2]}, ValueError, "sees images"),
        ):
            with pytest.raises(kind, match=sentence):
                sees.run(**given)
    with pytest.raises(ValueError, match="it reads text"):
        model.run(pixels=pixels)


# ---- continuing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "flags", [(), ("--sample", "--seed", 5), ("--method", "entmax:1.5"), ("--exit", "0.2,1")]
)
def test_continuations_are_the_program_s(model: otattn.Model, demo: Path, flags: tuple[Any, ...]) -> None:
    said = program("generate", demo, "--prompt", TEXT, "--tokens", 12, *flags)
    options: dict[str, Any] = {
        "--sample": {"sample": True, "seed": 5},
        "--method": {"methods": "entmax:1.5"},
        "--exit": {"exit": (0.2, 1)},
    }.get(flags[0] if flags else "", {})
    found = model.generate(TEXT, 12, **options)
    assert found.ids.tolist() == said["ids"] and found.text == said["text"]
    if flags[:1] == ("--exit",):
        assert found.layers_used == pytest.approx(said["exit"]["layers_used"]) and found.layers_used < 4


def test_refused_continuations(model: otattn.Model) -> None:
    with pytest.raises(ValueError, match="do not fit 256 positions"):
        model.generate(TEXT, 250)
    with pytest.raises(ValueError, match="prompt holds 2 texts"):
        model.generate(["a", "b"])
    with pytest.raises(ValueError, match="columns"):
        model.generate(TEXT, 3, methods="softmax/capped:2")
    with pytest.raises(TimeoutError):
        model.generate(TEXT, 3, deadline=1e-9)


# ---- studies ---------------------------------------------------------------------------------------


def test_results_are_shown_as_shapes_and_numbers(model: otattn.Model) -> None:
    """Those with arrays printed them by the page."""
    for found in (
        model.logit_lens(TEXT, top=3),
        model.projections(0),
        model.generate("The sun", 2),
        model.patch("The sun", "The son", answer=" s", other=" r"),
    ):
        shown = repr(found)
        assert shown.startswith(f"{type(found).__name__}(") and "array" not in shown
        assert len(shown) < 400 and "\n" not in shown


def test_the_logit_lens_is_the_program_s(model: otattn.Model, demo: Path) -> None:
    said = program("lens", demo, "--text", TEXT)
    found = model.logit_lens(TEXT, top=3)
    assert found.ids.shape == (5, 1, 24, 3) and found.ids[:, 0, :, 0].tolist() == said["ids"]
    assert np.allclose(found.probabilities[:, 0, :, 0], said["probability"], rtol=1e-4)
    assert (np.diff(found.probabilities, axis=3) <= 0).all() and found.texts[0][0][:2] == ["T", "he"]
    run = model.run(TEXT)
    assert (found.ids[-1, ..., 0] == run.logits.argmax(2)).all()
    several = model.logit_lens([TEXT, "A short one"])
    assert several.ids.shape == (5, 2, 24, 1) and (several.ids[:, 0, :, 0] == found.ids[:, 0, :, 0]).all()


@pytest.mark.parametrize(
    ("point", "by"),
    [
        ("hook_resid_pre", None),
        ("attn.hook_z", None),
        ("attn.hook_z", "position"),
        ("attn.hook_pattern", "head"),
    ],
)
def test_patching_is_the_program_s(model: otattn.Model, demo: Path, point: str, by: str | None) -> None:
    clean, corrupt = "The sun sets over the", "The sea sets over the"
    flags = ["--by", by] if by else []
    prompts = ["--clean", clean, "--corrupt", corrupt, "--answer", " s", "--other", " r"]
    assert model.tokens(clean).size == model.tokens(corrupt).size
    said = program("patch", demo, *prompts, "--point", point, *flags)
    found = model.patch(clean, corrupt, point, by=by, answer=" s", other=" r")
    assert found.by == said["across"] and found.shares.shape == (4, 6 if found.by == "head" else 9)
    assert np.allclose(found.shares, said["restored"], rtol=0, atol=1e-3)
    assert (found.clean, found.corrupt) == pytest.approx((said["clean"], said["corrupt"]), abs=1e-4)
    assert found.tokens == model.tokenizer.texts(model.tokens(corrupt))


@pytest.mark.parametrize(
    ("command", "point"),
    [("lens", ""), ("patch", "hook_resid_pre"), ("patch", "attn.hook_z")],
)
def test_figures_of_studies_are_the_program_s(
    model: otattn.Model, demo: Path, tmp_path: Path, command: str, point: str
) -> None:
    """Rows of the figure, and the table."""
    clean, corrupt = "The sun sets\n over the", "The sea sets\n over the"
    if command == "lens":
        words = ["--text", clean]
        chart = otattn.show(model.logit_lens([corrupt + " river", clean]), batch=1)
    else:
        words = ["--clean", clean, "--corrupt", corrupt, "--answer", " s", "--other", " r", "--point", point]
        chart = otattn.show(model.patch(clean, corrupt, point, answer=" s", other=" r"))
    for file in ("f.vl.json", "f.csv"):
        program(command, demo, *words, "-o", tmp_path / file)
    said = json.loads((tmp_path / "f.vl.json").read_text(encoding="utf-8"))
    rows, drawn = said["datasets"]["rows"], chart.spec["data"]["values"]
    assert [row.keys() for row in drawn] == [row.keys() for row in rows]
    for row, peer in zip(drawn, rows, strict=True):
        assert np.allclose(row.pop("values"), peer.pop("values"), rtol=0, atol=1e-3)
        assert row == peer
    for part in ("encoding", "mark", "layer", "transform"):
        assert chart.spec.get(part) == said.get(part)
    chart.save(tmp_path / "here.csv")
    peer_csv, csv_file = tmp_path / "f.csv", tmp_path / "here.csv"
    with peer_csv.open(encoding="utf-8") as peer_file, csv_file.open(encoding="utf-8") as file:
        there, here = list(csv.DictReader(peer_file)), list(csv.DictReader(file))
    assert chart.table is not None and chart.table.columns == list(there[0]) == list(here[0])
    exact = [name for name in there[0] if name not in ("restored", "probability")]
    assert [[row[name] for name in exact] for row in here] == [[row[name] for name in exact] for row in there]
    pytest.importorskip("vl_convert")
    chart.save(tmp_path / "f.svg")
    assert (tmp_path / "f.svg").read_text().startswith("<svg")


def test_refused_patching(model: otattn.Model) -> None:
    with pytest.raises(ValueError, match="wanted two of equal length"):
        model.patch("The sun", "The suns and more")
    with pytest.raises(ValueError, match="give both"):
        model.patch("The sun", "The son", answer=" s")
    with pytest.raises(ValueError, match="wanted position, or head where"):
        model.patch("The sun", "The son", by="head", answer=" s", other=" r")
    with pytest.raises(ValueError, match="one kind of point of every layer"):
        model.patch("The sun", "The son", "hook_embed", answer=" s", other=" r")
    with pytest.raises(ValueError, match="is 2 tokens, wanted one"):
        model.patch("The sun", "The son", answer=" sun", other=" r")


# ---- memory ----------------------------------------------------------------------------------------

LONG = 6000


def _long_model(folder: Path) -> Path:
    """One layer of two narrow heads over LONG positions, random."""
    from safetensors.numpy import save_file

    rng, width = np.random.default_rng(0), 8
    shapes = {
        "wte.weight": (11, width),
        "wpe.weight": (LONG, width),
        "h.0.attn.c_attn.weight": (width, 3 * width),
        "h.0.attn.c_proj.weight": (width, width),
        "h.0.mlp.c_fc.weight": (width, 4 * width),
        "h.0.mlp.c_proj.weight": (4 * width, width),
    }
    arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    for name, shape in shapes.items():
        if name.startswith("h.0."):
            arrays[name.replace("weight", "bias")] = np.zeros(shape[1], np.float32)
    for name in ("h.0.ln_1", "h.0.ln_2", "ln_f"):
        arrays[f"{name}.weight"], arrays[f"{name}.bias"] = (
            np.ones(width, np.float32),
            np.zeros(width, np.float32),
        )
    save_file(arrays, folder / "model.safetensors")
    config = {"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": width, "vocab_size": 11}
    (folder / "config.json").write_text(json.dumps({**config, "n_positions": LONG, "n_ctx": LONG}))
    return folder


@pytest.mark.skipif(sys.platform == "win32", reason="has no getrusage")
def test_long_texts_take_no_square_of_memory(tmp_path: Path) -> None:
    """A head's weights take 144 MB; mass per key, and weights that nobody keeps, take less than half."""
    script = f"""
import resource, numpy as np, otattn
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
model = otattn.Model({str(_long_model(tmp_path))!r})
ids = np.arange({LONG}) % 11
model.run(ids)
before = peak()
mass = model.receiver_mass(ids)
print(peak() - before, abs(mass.sum(3) - {LONG}).max())
model.weights(ids[:8], 0, 1)
rows = np.lib.format.open_memmap({str(tmp_path / "w.npy")!r}, "w+", np.float32, (1, {LONG}, {LONG}))
lazy = np.zeros({LONG})
class Sums(np.ndarray):
    def __setitem__(self, place, block):
        lazy[:] += block.sum(0)
model.weights(ids, 0, 1, out=rows[:].view(Sums))
print(peak() - before, abs(lazy - mass[0, 0, 1]).max())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        grown, distance = map(float, line.split())
        assert grown < 72 and distance < 0.1, done.stdout
