"""The training examples in small form: they run, resume and judge (long runs: docs/research/training.md)."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

SMALL = ["--seeds", "1", "--batch", "8", "--evaluations", "2"]
TINY_TEXT = ["--context", "16", "--width", "16", "--depth", "1", "--heads", "2", "--judged", "200"]
TINY_TEXT += ["--strings", "3", "--rows", "32"]
SIZES = {"width": 16, "heads": 2, "dropout": 0.0, "strings": 3, "rows": 32, "string_dropout": 0.2}


def records(folder: Path, task: str, method: str = "softmax") -> list[dict[str, Any]]:
    text = (folder / task / method / "0.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def without_times(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in ("ms", "cpu_ms")} for row in rows]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text"
    path.write_bytes(b"abcd" * 1000)
    return path


def test_digits_with_every_method(example: Callable[[str], ModuleType], tmp_path: Path) -> None:
    vision = example("vision")
    arguments = [*SMALL, "--steps", "2", "--folder", str(tmp_path)]
    assert vision.main(arguments)
    folders = sorted((tmp_path / "digits").iterdir())
    assert len(folders) == len(vision.METHODS)
    for folder in folders:
        last = records(tmp_path, "digits", folder.name)[-1]
        assert "failed" not in last and last["step"] == 2 and math.isfinite(last["test_loss"])


def test_softmax_trains_as_torch_does(example: Callable[[str], ModuleType], tmp_path: Path) -> None:
    arguments = [*SMALL, "--steps", "10", "--folder", str(tmp_path), "--method", "torch", "softmax"]
    assert example("clouds").main([*arguments, "--points", "16", "--test", "4"])
    ours, theirs = (records(tmp_path, "clouds", method)[1:] for method in ("softmax", "torch"))
    for row, wanted in zip(ours, theirs, strict=True):
        # Rounding in f32 grows over ten steps of training; a wrong gradient moves the third digit.
        assert row["loss"] == pytest.approx(wanted["loss"], rel=1e-4)


def test_a_stopped_run_ends_with_the_same_numbers(
    example: Callable[[str], ModuleType], tmp_path: Path, text: Path
) -> None:
    language, loop = example("language"), example("loop")
    arguments = [*SMALL, *TINY_TEXT, "--steps", "6", "--method", "softmax", "--text", str(text), "--folder"]
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert language.main([*arguments, str(whole)])
    # The clock of the second run passes its budget after four steps, between two evaluations.
    times = iter([0.0, 1.0, 2.0, 3.0, 4.0, 1e9])
    real, loop.time.monotonic = loop.time.monotonic, lambda: next(times)
    try:
        assert not language.main([*arguments, str(stopped), "--budget", "1"])
    finally:
        loop.time.monotonic = real
    assert [row.get("step") for row in records(stopped, "language-16")] == [None, 3]
    lines = stopped / "language-16" / "softmax" / "0.jsonl"
    assert loop.steps_done(lines, 6) == 3 and loop.steps_done(lines.with_name("1.jsonl"), 6) == 0
    assert language.main([*arguments, str(stopped)])
    first, second = (without_times(records(folder, "language-16")) for folder in (whole, stopped))
    assert first == second


def test_another_configuration_is_refused(example: Callable[[str], ModuleType], tmp_path: Path) -> None:
    arguments = [*SMALL, "--method", "softmax", "--points", "8", "--test", "1", "--folder", str(tmp_path)]
    clouds = example("clouds")
    assert clouds.main([*arguments, "--steps", "1"])
    with pytest.raises(SystemExit, match="choose another --folder"):
        clouds.main([*arguments, "--steps", "2"])


def test_a_method_that_fails_is_reported(
    example: Callable[[str], ModuleType], tmp_path: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A causal plan with exact columns is the identity only.
    methods = ["--method", "softmax/exact", "softmax", "--text", str(text)]
    assert example("language").main([*SMALL, *TINY_TEXT, *methods, "--steps", "1", "--folder", str(tmp_path)])
    assert "failed" in records(tmp_path, "language-16", "softmax-exact")[-1]
    shown = capsys.readouterr().out
    assert "| `softmax/exact` | failed: " in shown and "| `softmax` | 1 | 1 | " in shown


@pytest.mark.parametrize("name", ["language", "connections", "moe"])
def test_the_text_is_found_in_either_place(
    example: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    program, language = example(name), example("language")
    monkeypatch.chdir(tmp_path)
    places = [tmp_path / f"place-{number}" for number in range(2)]
    monkeypatch.setattr(language, "TEXTS", tuple(places))
    with pytest.raises(SystemExit, match=f"--text, or put it at {places[0]} or {places[1]}"):
        program.main([])
    # Later places first, so that each that appears must win over those behind it.
    words = [*SMALL, "--context", "16", "--width", "16", "--depth", "1", "--heads", "2", "--judged", "200"]
    words += ["--method", program.METHODS[0], "--steps", "0"]
    for place in reversed(places):
        place.write_bytes(b"abcd" * 100)
        assert program.main([*words, "--folder", str(tmp_path / f"from-{place.name}")])
        lines = next((tmp_path / f"from-{place.name}").glob("*/*/0.jsonl")).read_text(encoding="utf-8")
        assert json.loads(lines.splitlines()[0])["text"] == place.name


def test_bits_count_every_byte_once(example: Callable[[str], ModuleType], text: Path) -> None:
    language = example("language")
    task = language.Language(text, 16, {**SIZES, "depth": 1}, 10**6)
    for length in (17, 18, 16 + 8 * 5 + 1, 60):
        inputs, targets = task.windows(torch.arange(length))
        assert targets[targets >= 0].tolist() == list(range(1, length))
        assert torch.equal(inputs[:, 1:], inputs[:, :-1] + 1)
    # A model that gives every byte the same probability needs eight bits.
    model = task.model("softmax")
    model.head.weight.data.zero_()
    model.head.bias.data.zero_()
    found = task.evaluate(model, True)
    assert found["bits"] == pytest.approx(8.0, abs=1e-5)
    # The first of the 400 bytes has nothing before it.
    assert found["judged_bytes"] == 399


def test_the_causal_model_sees_no_future(example: Callable[[str], ModuleType], text: Path) -> None:
    language = example("language")
    task = language.Language(text, 16, {**SIZES, "depth": 2}, 100)
    one = torch.randint(256, (1, 16))
    other = one.clone()
    other[:, 10:] = torch.randint(256, (1, 6))
    for method in language.METHODS:
        model = task.model(method).eval()
        with torch.no_grad():
            change = (model(one) - model(other)).abs()
        assert change[:, :10].max() < 1e-5 < change[:, 10:].max(), method


def test_hidden_bytes_alone_are_asked_for(example: Callable[[str], ModuleType], text: Path) -> None:
    language = example("language")
    task = language.Cloze(text, 16, {**SIZES, "depth": 1}, 10**6, 0.25)
    inputs, targets = task.windows(task.rest)
    whole = task.rest.view(-1, 16)
    assert torch.equal(torch.where(targets >= 0, targets, inputs), whole)
    assert torch.equal(targets >= 0, inputs == language.HIDDEN)
    for first, second in zip(task.windows(task.rest), (inputs, targets), strict=True):
        assert torch.equal(first, second)
    model = task.model("softmax/elastic:0.5,4")
    model.head.weight.data.zero_()
    model.head.bias.data.zero_()
    found = task.evaluate(model, True)
    assert found["bits"] == pytest.approx(8.0, abs=1e-5)
    assert 60 < found["judged_bytes"] == (targets >= 0).sum() < 140  # of 400, a quarter


def test_what_finds_hidden_bytes_sees_both_sides(example: Callable[[str], ModuleType], text: Path) -> None:
    task = example("language").Cloze(text, 16, {**SIZES, "depth": 1}, 100, 0.25)
    one = torch.randint(256, (1, 16))
    other = one.clone()
    other[:, 8] = (one[:, 8] + 1) % 256
    model = task.model("softmax").eval()
    with torch.no_grad():
        change = (model(one) - model(other)).abs().amax((0, 2))
    assert change[:8].min() > 1e-7 and change[9:].min() > 1e-7


def test_strings_are_known_by_their_last_bytes(example: Callable[[str], ModuleType]) -> None:
    strings = example("language").Strings(4, 1 << 16, 16, 0.5)
    one, other = strings.keys(torch.tensor([list(b"abcde.abcde"), list(b"zbcde.zbcde")]))
    # The strings that end in the first e stand again at the last; of those that end in the d, one has the a.
    for keys in (one, other):
        assert torch.equal(keys[4], keys[10]) and keys[4].unique().numel() == 3
    assert torch.equal(one[4], other[4])
    assert (one[3] == other[3]).tolist() == [True, True, False]
    assert one.max() < strings.table.shape[0]
    assert (one // (1 << 16)).tolist() == [[0, 1, 2]] * 11


def test_clouds_have_the_shapes_that_they_name(example: Callable[[str], ModuleType]) -> None:
    clouds = example("clouds")
    generator = torch.Generator().manual_seed(1)
    x, labels = clouds.draw(3, 50, 0.0, generator)
    assert x.shape == (24, 50, 3) and labels.bincount().tolist() == [3] * 8
    assert torch.allclose(x.mean(1), torch.zeros(()), atol=1e-5)
    assert torch.allclose(x.square().sum(-1).mean(1), torch.ones(()), atol=1e-5)
    shape = (2, 200)
    octahedron, sphere, cube = (clouds.SOLIDS[k](shape, generator).abs() for k in range(3))
    assert torch.allclose(octahedron.sum(-1), torch.ones(()), atol=1e-5)
    assert torch.allclose(sphere.square().sum(-1), torch.ones(()), atol=1e-5)
    assert torch.allclose(cube.amax(-1), torch.ones(()), atol=1e-5)
    ring = clouds.torus(shape, generator)
    tube = (ring[..., :2].square().sum(-1).sqrt() - 1.0).square() + ring[..., 2].square()
    assert torch.allclose(tube, torch.tensor(0.16), atol=1e-5)


@pytest.fixture
def fashion(tmp_path: Path) -> Path:
    for name, count in (("train", 6), ("t10k", 3)):
        pixels, labels = bytes(range(28)) * 28 * count, bytes(range(count))
        (tmp_path / f"{name}-images-idx3-ubyte.gz").write_bytes(gzip.compress(bytes(16) + pixels))
        (tmp_path / f"{name}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(bytes(8) + labels))
    return tmp_path


def test_fashion_reads_idx_files(example: Callable[[str], ModuleType], fashion: Path) -> None:
    images = example("vision").fashion(fashion)
    assert images.pixels.shape == (6, 28, 28) and images.test_labels.tolist() == [0, 1, 2]
    assert abs(images.pixels.mean()) < 1e-5 and abs(images.pixels.std() - 1.0) < 1e-5


def test_fashion_with_its_stem(example: Callable[[str], ModuleType], fashion: Path, tmp_path: Path) -> None:
    arguments = [*SMALL, "--data", "fashion", "--path", str(fashion), "--folder", str(tmp_path)]
    assert example("vision").main([*arguments, "--steps", "2", "--method", "torch", "softmax"])
    ours, theirs = (records(tmp_path, "fashion", method)[-1] for method in ("softmax", "torch"))
    assert ours["step"] == 2 and ours["test_loss"] == pytest.approx(theirs["test_loss"], rel=1e-4)


def test_tokens_are_the_patches(example: Callable[[str], ModuleType]) -> None:
    vision = example("vision")
    seen: list[torch.Tensor] = []
    for data, side in (("digits", 8), ("fashion", 28)):
        model = vision.Transformer("softmax", vision.SIZES[data], side)
        model.embed.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        model(torch.arange(side * side, dtype=torch.float).reshape(1, side, side))
    assert seen[0].shape == (1, 16, 4) and seen[1].shape == (1, 16, 48)
    # Patches of 2 x 2, row by row.
    assert seen[0][0, [0, 1, 4]].tolist() == [[0, 1, 8, 9], [2, 3, 10, 11], [16, 17, 24, 25]]


@pytest.fixture
def tasks(example: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The tasks that separate methods, judged on eight sets each."""
    module = example("tasks")
    real = module.held_out
    monkeypatch.setattr(module, "held_out", lambda draw, sets=8: real(draw, 8))
    return module


@pytest.mark.parametrize("name", ["sort", "match", "hubs", "sinks", "noise", "outliers"])
def test_tasks_with_every_method(tasks: ModuleType, tmp_path: Path, name: str) -> None:
    assert tasks.main([*SMALL, "--steps", "2", "--task", name, "--folder", str(tmp_path)])
    folders = sorted((tmp_path / name).iterdir())
    assert len(folders) == len(tasks.methods(name))
    for folder in folders:
        head, *rows = records(tmp_path, name, folder.name)
        assert rows[-1]["step"] == 2 and 0.0 <= rows[-1]["accuracy"] <= 1.0
        named = {place.rsplit(".", 1)[-1] for place in rows[-1].get("learned", {})}
        assert named == set(tasks.spelling(head["method"]).learn)


def test_answers_of_the_tasks(tasks: ModuleType) -> None:
    generator = torch.Generator().manual_seed(3)
    numbers, order = tasks.sort().batch(generator, 4)
    assert torch.equal(numbers[..., 0].gather(1, order), numbers[..., 0].sort(1).values)
    points, place = tasks.match().batch(generator, 200)
    moved = points[:, 1].gather(1, place[..., None].expand(-1, -1, 3)) - points[:, 0]
    # 9600 draws of deviation 0.3.
    assert moved.std().item() == pytest.approx(0.3, abs=0.01)
    packed, label = tasks.hubs().batch(generator, 4)
    assert torch.equal(packed[:, 16:32, 8:].argmax(-1), label) and packed.shape == (4, 40, 16)
    packed, _ = tasks.noise().batch(generator, 4)
    assert packed.shape == (4, 32, 6)
    tokens, answer = tasks.sinks().batch(generator, 2)
    assert (answer[:, 0] == -100).all()
    for sequence, wanted in zip(tokens, answer, strict=True):
        seen: dict[float, int] = {}
        for token, found in zip(sequence[1:], wanted[1:].tolist(), strict=True):
            key = token[0].item()
            assert found == seen.get(key, 4)
            seen[key] = int(token[12:].argmax())
    cloud, _ = tasks.outliers().batch(generator, 64)
    # Outside the ball of the clouds lie most of a quarter of the points, and few of the others.
    assert (cloud.square().sum(-1) > 4.0).double().mean().item() == pytest.approx(0.24, abs=0.05)


def test_rows_of_a_plan_are_trained_by_squares(tasks: ModuleType) -> None:
    task, wanted = tasks.sort(), torch.tensor([[0, 2, 1]])
    assert task.loss(torch.eye(3)[wanted], wanted).item() == 0.0
    assert task.loss(torch.full((1, 3, 3), 1.0 / 3.0), wanted).item() == pytest.approx(2.0 / 3.0)


def test_spelled_methods(example: Callable[[str], ModuleType]) -> None:
    layers = example("layers")
    found = layers.spelling("softmax/elastic:0.5,4{anneal=4:0.5:1} learn=strength,temperature harden=0.1")
    assert found == ("softmax/elastic:0.5,4{anneal=4:0.5:1}", ("strength", "temperature"), 0.1)
    with pytest.raises(ValueError, match="learns"):
        layers.spelling("softmax learns=temperature")
    model = layers.Block("softmax harden=0.25", 8, 2)
    x = torch.randn(1, 4, 8)
    before = model.weights(x)
    layers.harden(model, 0.5)
    assert model.attention.fixed["temperature"] == pytest.approx(0.5)
    assert torch.allclose(model.weights(x).log().softmax(-1), before.log().mul(2.0).softmax(-1), atol=1e-6)


def test_differences_by_seed(example: Callable[[str], ModuleType]) -> None:
    compare = example("compare")
    rows = [
        {"task": "t", "method": method, "seed": seed, "step": 1, "steps": 1, "accuracy": value}
        for method, values in (("softmax", (0.5, 0.6, 0.7)), ("other", (0.6, 0.7, 0.8)))
        for seed, value in enumerate(values)
    ]
    rows.append({"task": "t", "method": "broken", "seed": 0, "failed": "why"})
    shown = compare.table(rows, "t", "accuracy", "softmax")
    # Every seed gains 0.1, so the interval has no width, whatever the seeds differ by.
    assert "| `other` | 3 | 0.700 ± 0.100 | **+0.1000 (+0.1000 to +0.1000)** | – |" in shown
    assert "| `broken` | 1 failed | – | – | – |" in shown
    assert compare.difference([0.1, -0.1, 0.2]) == "+0.0667 (-0.3128 to +0.4461)"


def test_mixtures_of_experts_resume_and_save_their_logits(
    example: Callable[[str], ModuleType], tmp_path: Path, text: Path
) -> None:
    moe, loop = example("moe"), example("loop")
    sizes = ["--context", "16", "--width", "8", "--depth", "1", "--judged", "200", "--experts", "4"]
    common = [*SMALL, *sizes, "--hidden", "4", "--steps", "4", "--text", str(text)]
    assert moe.main([*common, "--folder", str(tmp_path / "whole")])
    for method in moe.METHODS:
        parts = [*common, "--folder", str(tmp_path / "parts"), "--method", method]
        # The clock passes the budget after two steps, with the first evaluation.
        times = iter([0.0, 1.0, 2.0, 1e9])
        real, loop.time.monotonic = loop.time.monotonic, lambda times=times: next(times)
        try:
            assert not moe.main([*parts, "--budget", "1"])
        finally:
            loop.time.monotonic = real
        assert moe.main(parts)
        whole, stopped = (records(tmp_path / name, "moe-4-2", method) for name in ("whole", "parts"))
        assert without_times(whole) == without_times(stopped)
        assert (tmp_path / "whole" / f"moe-4-2-{method}-0.npy").exists()
    # 8 sequences of 16 tokens, 2 of 4 experts each: equal loads are whole numbers.
    assert records(tmp_path / "whole", "moe-4-2", "base")[-1]["load"] == 1.0


def test_mixtures_of_experts_tune_their_default_methods(
    example: Callable[[str], ModuleType], tmp_path: Path, text: Path
) -> None:
    moe = example("moe")
    methods = list(moe.METHODS)
    sizes = ["--context", "16", "--width", "8", "--depth", "1", "--judged", "200", "--experts", "4"]
    words = [*SMALL, *sizes, "--hidden", "4", "--steps", "1", "--text", str(text), "--folder", str(tmp_path)]
    assert moe.main([*words, "--tune"])
    assert list(moe.METHODS) == methods
    ran = {folder.name for folder in (tmp_path / "moe-4-2").iterdir()}
    grids = {f"{name}-{x:g}" for name, numbers in moe.GRIDS.items() for x in numbers}
    assert ran == {*methods, *grids} - moe.GRIDS.keys()


def test_flows_with_every_pairing(example: Callable[[str], ModuleType], tmp_path: Path) -> None:
    flow = example("flow")
    assert flow.main([*SMALL, "--steps", "2", "--width", "8", "--folder", str(tmp_path)])
    for method in flow.METHODS:
        last = records(tmp_path, "flow", method)[-1]
        assert last["step"] == 2 and last["bend"] >= 0.0 and last["w2_64"] > last["w2_train"] > 0.0
    # A velocity that is the same everywhere moves every point by itself, in any number of steps.
    points = torch.randn(5, 3)
    moved, velocities = flow.path(lambda x: torch.tensor([1.0, 0.0, -1.0]).expand(len(x), 3), points, 7)
    assert torch.allclose(moved, points + torch.tensor([1.0, 0.0, -1.0]), atol=1e-6)
    assert velocities.shape == (7, 5, 3)
    assert flow.distance(moved[[2, 0, 1, 4, 3]], points) == pytest.approx(2.0**0.5, rel=1e-6)
    # Cheapest pairs are not dearer than those at random.
    task = flow.Flow(8, 4.0)
    costs = {}
    for method in flow.METHODS:
        task.model(method)
        costs[method] = float((task.batch(torch.Generator().manual_seed(1), 64)[1] ** 2).sum(1).mean())
    assert costs["exact"] < costs["sinkhorn"] < costs["random"]


def test_streams_between_blocks(example: Callable[[str], ModuleType], tmp_path: Path, text: Path) -> None:
    connections = example("connections")
    sizes = ["--context", "16", "--width", "8", "--depth", "3", "--judged", "200", "--text", str(text)]
    assert connections.main([*SMALL, *sizes, "--steps", "4", "--folder", str(tmp_path)])
    found = {method: records(tmp_path, "connections-3", method)[-1] for method in connections.METHODS}
    assert found["residual"]["gain"] == 1.0 and all(row["gradient"] > 0.0 for row in found.values())
    # Rows end within what twenty rounds leave of 1; free matrices have moved from the identity.
    assert found["normalized"]["gain"] < 1.1 and found["free"]["gain"] != 1.0
    task = connections.Connections(text, 16, {**SIZES, "depth": 2, "strings": 1, "rows": 1}, 100, 4)
    model = task.model("normalized").eval()
    one = torch.randint(256, (1, 16))
    other = one.clone()
    other[:, 10:] = torch.randint(256, (1, 6))
    with torch.no_grad():
        change = (model(one) - model(other)).abs()
    assert change[:, :10].max() < 1e-5 < change[:, 10:].max()


def test_a_transformer_on_any_device(example: Callable[[str], ModuleType]) -> None:
    vit = example("vit_any_device")
    words = ["--device", "cpu", "--steps", "8", "--batch", "32"]
    # The library and torch's operations train alike: of 360 images rounding may turn a few.
    found = [vit.main([*words, "--backend", name]) for name in ("torch", "cpu")]
    assert 0.0 < found[0] <= 1.0 and found[0] == pytest.approx(found[1], abs=0.01)


def test_models_lie_on_the_device_that_is_asked_for(
    example: Callable[[str], ModuleType], tmp_path: Path, other_device: str
) -> None:
    """The hooks move inputs there, and outputs back where a task judges them."""
    loop, clouds = example("loop"), example("clouds")
    words = [*SMALL, "--steps", "1", "--method", "torch", "--folder", str(tmp_path), "--device", other_device]
    flags = loop.parser("", ["torch"], 1, 8, 1e-3)
    options = flags.parse_args(words)
    run = loop.Run(clouds.Clouds(8, 0.0, 1), "torch", 0, options)
    assert run.facts["device"] == other_device
    assert {x.device.type for x in run.model.parameters()} == {other_device}
    inputs, _ = run.task.batch(run.generator, 8)
    assert run.model.train()(inputs).device.type == other_device
    assert run.model.eval()(inputs).device.type == "cpu"
