"""Hostile checkpoints: weights that are no numbers, folders that hold something else than files, and names
that are code to the reader of a page."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from program import ROOT, answer, run
from safetensors.numpy import save_file

DEMO = ROOT / "data/demo/model"
COMMANDS: dict[str, list[Any]] = {
    "capture": ["-o", "out.safetensors", "-f"],
    "perplexity": [],
    "generate": ["--tokens", 2],
    "analyze": ["-o", "out", "-f", "--windows", "1x32"],
}


def copy_demo(folder: Path) -> Path:
    model = folder / "model"
    shutil.copytree(DEMO, model)
    return model


def demo_weights() -> dict[str, np.ndarray]:
    """Every tensor of the demo model, which holds bf16, as f32."""
    stored = (DEMO / "model.safetensors").read_bytes()
    size = int.from_bytes(stored[:8], "little")
    tensors = {}
    for name, entry in json.loads(stored[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        assert entry["dtype"] == "BF16"
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        halves = np.frombuffer(stored[begin:end], "<u2").astype(np.uint32)
        tensors[name] = (halves << 16).view(np.float32).reshape(entry["shape"])
    return tensors


def damage(folder: Path, name: str, value: float, dtype: Any = np.float32) -> tuple[Path, int]:
    """The demo model with `value` in the middle of one tensor; the model and the element."""
    model = copy_demo(folder)
    tensors = {key: tensor.astype(dtype) for key, tensor in demo_weights().items()}
    flat = tensors[name].reshape(-1)
    flat[flat.size // 2] = value
    save_file(tensors, model / "model.safetensors")
    return model, flat.size // 2


def words(command: str, model: Path) -> list[Any]:
    return [command, model, "--text", "one two three four five six seven " * 12, *COMMANDS[command]]


# ---- weights that are no numbers ----


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_nonfinite_weights_are_refused(tmp_path: Path, command: str, value: float) -> None:
    names = sorted(demo_weights())
    name = names[len(names) // 2]
    model, place = damage(tmp_path, name, value)
    refused = answer(tmp_path, *words(command, model), code=3)
    assert refused["status"] == "nonfinite"
    assert f'"{name}" holds NaN or infinity at element {place}' in refused["error"]
    assert "--allow-nonfinite" in refused["hint"]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_every_tensor_counts(tmp_path: Path) -> None:
    for k, name in enumerate(sorted(demo_weights())):
        model, _ = damage(tmp_path, name, np.inf, (np.float16, np.float32)[k % 2])
        assert f'"{name}"' in answer(tmp_path, *words("perplexity", model), code=3)["error"]
        shutil.rmtree(model)


def test_allowed_nonfinite_weights_run(tmp_path: Path) -> None:
    # The last norm: no attention sees it, so that what runs is as far as it gets.
    model, _ = damage(tmp_path, next(name for name in demo_weights() if "ln_f" in name), np.nan)
    assert answer(tmp_path, *words("capture", model), "--allow-nonfinite")["tensors"]


def test_verify_names_the_tensor(tmp_path: Path) -> None:
    name = sorted(demo_weights())[0]
    model, _ = damage(tmp_path, name, np.nan)
    assert f'"{name}"' in answer(tmp_path, "verify", "--model", model, code=3)["error"]


# ---- folders that hold something else than files ----

LIMIT = 64 << 20  # numeric policy: a hostile file is answered within a second and 64 MiB


def as_folder(path: Path) -> None:
    path.mkdir()


def as_pipe(path: Path) -> None:
    os.mkfifo(path)


def as_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def as_loop(path: Path) -> None:
    path.symlink_to(path.name)


def as_dangling_link(path: Path) -> None:
    path.symlink_to("/nowhere/at/all")


def as_strange_file(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def as_ten_gigabytes(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 << 30)


STRANGE = (
    as_folder, as_pipe, as_device, as_loop, as_dangling_link, as_strange_file, as_ten_gigabytes,
)  # fmt: skip
# The file, and a command that reads it.
READ = {
    "config.json": "info",
    "model.safetensors": "info",
    "model.safetensors.index.json": "info",
    "vocab.json": "tokenize",
    "merges.txt": "tokenize",
    "tokenizer.json": "tokenize",
}


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("strange", STRANGE, ids=lambda make: make.__name__)
def test_strange_files_are_refused_at_once(
    tmp_path: Path, name: str, strange: Callable[[Path], None]
) -> None:
    model = copy_demo(tmp_path)
    (model / name).unlink(missing_ok=True)
    if name == "model.safetensors.index.json":
        (model / "model.safetensors").unlink()
    strange(model / name)
    begin = time.monotonic()
    done = run(
        tmp_path, READ[name], model, *(["--text", "a text"] if READ[name] == "tokenize" else []),
        "--limit-memory", LIMIT, timeout=20,
    )  # fmt: skip
    # Two seconds where the policy says one: the machine is shared.
    assert time.monotonic() - begin < 2
    lines = done.stderr.decode().splitlines()
    if done.returncode == 0:
        # A link to nowhere is as good as no file where the model can do without it.
        assert name == "tokenizer.json" and strange in (as_dangling_link, as_loop)
        return
    assert done.returncode in (4, 5, 6) and len(lines) == 1, (done.returncode, lines)
    # An index that leads nowhere is none: the sentence is about the file that it would stand in for.
    assert name.removesuffix(".index.json") in lines[0]
    assert "root:" not in lines[0]


def test_an_honest_sparse_file_opens_at_once(tmp_path: Path) -> None:
    """10 GB of zeros in a tensor that no forward pass uses: nobody reads them."""
    model = copy_demo(tmp_path)
    stored = (model / "model.safetensors").read_bytes()
    size = int.from_bytes(stored[:8], "little")
    header = json.loads(stored[8 : 8 + size])
    end = len(stored) - 8 - size
    more = 10 << 30
    header["h.0.attn.masked_bias"] = {"dtype": "U8", "shape": [more], "data_offsets": [end, end + more]}
    text = json.dumps(header).encode()
    with (model / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + stored[8 + size :])
        file.truncate(8 + len(text) + end + more)
    begin = time.monotonic()
    told = answer(tmp_path, "info", model, "--limit-memory", LIMIT)
    answer(tmp_path, "capture", model, "--text", "a text", "-o", "out.safetensors")
    assert time.monotonic() - begin < 10
    assert told["parameters"] == answer(tmp_path, "info", DEMO)["parameters"]


def test_names_that_differ_in_case_are_different(tmp_path: Path) -> None:
    """Twins of files, told apart by case alone, change nothing; that of a tensor is another tensor."""
    model = copy_demo(tmp_path)
    tensors = demo_weights()
    words = ("capture", model, "--text", "a text", "--points", "logits", "-f", "-o", "out.safetensors")
    save_file(tensors, model / "model.safetensors")
    answer(tmp_path, *words)
    wanted = (tmp_path / "out.safetensors").read_bytes()
    for name in ("config.json", "model.safetensors", "vocab.json", "merges.txt"):
        (model / name.upper()).write_bytes(b"{}")
    answer(tmp_path, *words)
    assert (tmp_path / "out.safetensors").read_bytes() == wanted
    tensors["WTE.weight"] = np.full_like(tensors["wte.weight"], 9)
    save_file(tensors, model / "model.safetensors")
    done = run(tmp_path, *words)
    assert done.returncode == 4 and b'"WTE.weight" is a tensor that gpt2 models' in done.stderr


# ---- names that are code to the reader of a page ----

CODE = "</script></title><img src=x onerror=alert(1)><!--'\"&\\"
MARK = "onerror=alert(1)"


class Skeleton(HTMLParser):
    """Tags with the names of their attributes, and what stands inside scripts."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.scripts: list[str] = []
        self.inside = False

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(sorted(name for name, _ in attributes))))
        self.inside = tag == "script"
        if self.inside:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.scripts[-1] += data


def skeleton(page: Path) -> Skeleton:
    parser = Skeleton()
    parser.feed(page.read_text(encoding="utf-8"))
    parser.close()
    return parser


def model_whose_token_is(folder: Path, token: str) -> Path:
    """The demo model in a folder of that name, its last token spelled so."""
    model = folder / token.replace("/", "|")
    shutil.copytree(DEMO, model)
    vocabulary = json.loads((model / "vocab.json").read_text(encoding="utf-8"))
    merges = (model / "merges.txt").read_text(encoding="utf-8").splitlines()[1:]
    del vocabulary["<|endoftext|>"]
    tokenizer = {
        "version": "1.0",
        "added_tokens": [
            {
                "id": 768, "content": token, "special": True, "single_word": False, "lstrip": False,
                "rstrip": False, "normalized": False,
            }
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True},
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
            "end_of_word_suffix": "", "fuse_unk": False,
            "vocab": {**vocabulary, token: 768}, "merges": merges,
        },
    }  # fmt: skip
    (model / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    for name in ("vocab.json", "merges.txt"):
        (model / name).unlink()
    return model


def analysed(folder: Path, token: str) -> Path:
    model = model_whose_token_is(folder, token)
    text = folder / f"{token.replace('/', '|')}.txt"
    text.write_text(f"one {token} two {token} three four " * 12, encoding="utf-8")
    out = folder / ("run of " + token.replace("/", "|"))
    answer(folder, "analyze", model, text, "-o", out, "--windows", "2x24", "--methods", "softmax,sparsemax")
    return out


def test_pages_hold_no_code_of_models_and_texts(tmp_path: Path) -> None:
    hostile, plain = analysed(tmp_path, CODE), analysed(tmp_path, "[end-of-a-text]")
    page, other = skeleton(hostile / "report.html"), skeleton(plain / "report.html")
    assert any(MARK in text for text in page.scripts)  # the token is in the page's data
    # Two runs have other numbers of rows, but are made of the same elements.
    assert set(page.tags) == set(other.tags) and len(page.scripts) == len(other.scripts)
    for text in page.scripts:
        if text.lstrip().startswith(("{", "[")):
            json.loads(text)
    for path in hostile.rglob("*.json"):
        json.loads(path.read_text(encoding="utf-8"))
    # A page of two runs carries the names of both.
    answer(tmp_path, "report", hostile, "--compare", plain)
    first = skeleton(hostile / "report.html")
    answer(tmp_path, "report", plain, "--compare", plain)
    second = skeleton(plain / "report.html")
    assert set(first.tags) == set(second.tags) and len(first.scripts) == len(second.scripts)


# ---- memory ----


@pytest.mark.parametrize("limit", [1, 300_000, 1_000_000, 2_000_000, 4_000_000, 16_000_000])
def test_a_limit_of_memory_ends_with_a_sentence(tmp_path: Path, limit: int) -> None:
    """Whatever fails first: exit 5 and one object, or the whole result; nothing waits for memory."""
    np.save(tmp_path / "s.npy", np.random.default_rng(0).standard_normal((2, 200, 200)))
    commands: list[list[Any]] = [
        ["plan", "s.npy", "--method", "softmax/exact", "-o", "out.npy", "-f", "-j", 2],
        words("capture", DEMO),
        words("perplexity", DEMO),
    ]
    for command in commands:
        for path in tmp_path.glob("out.*"):
            path.unlink()
        done = run(tmp_path, *command, "--limit-memory", limit, "--json", timeout=30)
        told = json.loads(done.stdout)
        if done.returncode == 0:
            assert limit > 300_000 and told["status"] == "ok"
        else:
            assert done.returncode == 5 and told["status"] in ("limit", "no_memory"), told
            assert not list(tmp_path.glob("*out.*"))
        assert not list(tmp_path.glob(".otattn-*"))
