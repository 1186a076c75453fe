"""Names of architectures: what a refusal says of one that is not read, and the lists of those that are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import gguf_files
import pytest
from program import ROOT, run

ADVICE = (
    "otattn.hf gives other methods to what transformers runs, where its attention can be replaced; "
    "'otattn help models' lists what is read"
)


def is_known(folder: Path, name: str, kind: str) -> bool:
    """As `model_type` of config.json or as general.architecture of a gguf file."""
    if kind == "gguf":
        gguf_files.write(folder / "model.gguf", {"general.architecture": name}, {})
    else:
        (folder / "config.json").write_text(json.dumps({"model_type": name}))
    done = run(folder, "info", "model.gguf" if kind == "gguf" else ".")
    assert done.returncode in (2, 4, 6), done
    return b"is not known" not in done.stderr


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """What the program takes of all words that the tables of families hold."""
    folder, words = tmp_path_factory.mktemp("names"), set[str]()
    for path in (ROOT / "models" / "checkpoint" / "families").glob("*.c"):
        before, table = path.read_text().split("\nconst ota_architecture ota_", 1)
        found = set(re.findall(r'"([\w-]+)"', table))
        assert found and before, path
        words |= found
    return {kind: {word for word in words if is_known(folder, word, kind)} for kind in ("hub", "gguf")}


def test_the_table_of_architectures_names_those_that_are_read(names: dict[str, set[str]]) -> None:
    page = (ROOT / "docs" / "users" / "models.md").read_text()
    table = page.split("| `model_type` | gguf | what it has |\n|---|---|---|\n")[1].split("\n\n")[0]
    cells = [line.split("|")[1:3] for line in table.splitlines()]
    for column, kind in enumerate(("hub", "gguf")):
        shown = [word for row in cells for word in re.findall(r"`([^`]+)`", row[column])]
        assert set(shown) == names[kind]
        assert kind == "gguf" or len(shown) == len(set(shown))


def test_help_names_the_architectures_that_are_read(tmp_path: Path, names: dict[str, set[str]]) -> None:
    table = json.loads(run(tmp_path, "help", "--json").stdout)
    text = next(topic["text"] for topic in table["topics"] if topic["name"] == "models")
    hub, of_gguf = re.findall(r"\n\n((?:  .*\n)+)", text)[:2]
    assert set(hub.split()) == names["hub"] and set(of_gguf.split()) == names["gguf"]


@pytest.mark.parametrize("kind", ["hub", "gguf"])
def test_a_refused_architecture_has_whole_advice(tmp_path: Path, kind: str) -> None:
    assert not is_known(tmp_path, "mamba", kind)
    at = "model.gguf" if kind == "gguf" else "."
    found = json.loads(run(tmp_path, "info", at, "--json").stdout)
    assert '"mamba"' in found["error"] and found["hint"] == ADVICE


@pytest.mark.parametrize(
    "changes",
    [
        {"add_cross_attention": True},
        {"activation_function": "mish"},
        {"rope_scaling": {"rope_type": "spiral"}},
        {"no_such_key": 3},
    ],
)
def test_a_refused_key_is_named_with_who_may_run_it(tmp_path: Path, changes: dict[str, object]) -> None:
    gpt2 = {"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 8, "vocab_size": 11, "n_positions": 9}
    llama = {
        "model_type": "llama", "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
        "hidden_size": 8, "max_position_embeddings": 9, "vocab_size": 11, "intermediate_size": 8,
    }  # fmt: skip
    key = next(iter(changes))
    settings = (llama if key.startswith("rope") else gpt2) | changes
    (tmp_path / "config.json").write_text(json.dumps(settings))
    found = json.loads(run(tmp_path, "info", ".", "--json").stdout)
    assert f'"{key}"' in found["error"] and "otattn.hf" in found["hint"], found


def test_a_flag_of_another_command_names_all_that_have_it(tmp_path: Path) -> None:
    """Lists in messages are whole."""
    table = json.loads(run(tmp_path, "help", "--json").stdout)
    commands = [command["name"] for command in table["commands"]]
    owners: dict[str, set[str]] = {}
    for flag in table["flags"]:
        owners.setdefault(flag["name"], set()).update(flag["commands"])
    for name, wanted in owners.items():
        for other in [word for word in commands if word not in wanted][:1]:
            done = run(tmp_path, other, f"--{name}")
            found = re.search(rb"it belongs to (.*)\n", done.stderr)
            assert done.returncode == 2 and found and set(found[1].decode().split(", ")) == wanted, done
