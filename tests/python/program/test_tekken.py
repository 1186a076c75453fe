"""tekken.json of Mistral against the package `mistral-common`: a file of its own and small drawn ones, on
texts in many scripts; what is refused, by name."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any

import mistral_common
import pytest
import spec
import token_texts
from mistral_common.tokens.tokenizers.tekken import SpecialTokenPolicy, Tekkenizer
from program import answer, run
from test_tokenizer_families import TEKKEN, decoded, ids_of, texts_of

OWN = Path(mistral_common.__file__).parent / "data" / "tekken_240911.json"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CUTS = {"tekken": TEKKEN, "gpt-2": GPT2, "letters alone": r"\p{L}+|\p{N}{1,2}", "all": r"(?s:.+)"}


def drawn(seed: int, cut: str, special: list[str] | None = None, **config: Any) -> dict[str, Any]:
    """The bytes, and stretches of drawn texts that merges may or may not reach."""
    source = random.Random(seed)
    pieces = [bytes([byte]) for byte in range(256)]
    known = set(pieces)
    for text in token_texts.corpus(300):
        data = text.encode()
        for _ in range(8):
            at = source.randrange(len(data))
            piece = data[at : at + source.choice([2, 2, 2, 3, 3, 4, 6, 9])]
            if piece not in known:
                known.add(piece)
                pieces.append(piece)
    listed = None
    if special is not None:
        listed = [{"rank": k, "token_str": text, "is_control": k < 3} for k, text in enumerate(special)]
    vocab = [
        {"rank": k, "token_bytes": base64.b64encode(piece).decode(), "token_str": None}
        for k, piece in enumerate(pieces)
    ]
    settings = {
        "pattern": CUTS[cut], "num_vocab_tokens": len(pieces), "default_num_special_tokens": 30,
        "default_vocab_size": len(pieces) - 70, "version": "v3" if special is None else "v13", **config,
    }  # fmt: skip
    return {"config": settings, "vocab": vocab, **({} if listed is None else {"special_tokens": listed})}


def put(folder: Path, tree: dict[str, Any]) -> Tekkenizer:
    (folder / "tekken.json").write_text(json.dumps(tree))
    return Tekkenizer.from_file(folder / "tekken.json")


def compare(folder: Path, model: str, peer: Tekkenizer, texts: list[str]) -> None:
    for text in texts:
        wanted = peer.encode(text, bos=True, eos=False)
        spec.check("TOT-66", ids_of(folder, model, text, "--plain") != wanted, 0)
        assert decoded(folder, model, wanted, "--no-special") == peer.decode(wanted)
        kept = peer.decode(wanted, SpecialTokenPolicy.KEEP)
        assert decoded(folder, model, wanted) == kept


def test_mistrals_own_file(tmp_path: Path) -> None:
    peer = Tekkenizer.from_file(OWN)
    long, *_ = texts_of("own", 0)
    compare(tmp_path, str(OWN), peer, [long, "a" * 3000 + "<s>[INST] a [/INST]"])
    # Special pieces of a text are read where it is not plain.
    ids = ids_of(tmp_path, str(OWN), "[INST]a[/INST]</s>")
    names = ("<s>", "[INST]", "[/INST]", "</s>")
    begin, first, last, end = (peer.get_special_token(name) for name in names)
    assert ids == [begin, first, *peer.encode("a", bos=False, eos=False), last, end]


@pytest.mark.parametrize("cut", CUTS)
def test_ids_of_drawn_files(tmp_path: Path, cut: str) -> None:
    peer = put(tmp_path, drawn(len(cut), cut))
    compare(tmp_path, ".", peer, texts_of(cut, 3))


def test_special_tokens_of_the_file(tmp_path: Path) -> None:
    """A file of a later version lists them; what it says about images and the like changes nothing."""
    tree = drawn(5, "tekken", ["<unk>", "<s>", "</s>", "[THINK]", "caf\u00e9"])
    peer = put(tmp_path, {**tree, "image": {"image_patch_size": 16, "max_image_size": 1024}, "version": 1})
    compare(tmp_path, "tekken.json", peer, texts_of("special", 2))
    assert ids_of(tmp_path, ".", "[THINK]caf\u00e9<SPECIAL_7>") == [1, 3, 4, 7]


GONE = object()
CONFIG, PIECE, SPECIAL, TOP = "config", "piece", "special", "top"
ROWS: list[tuple[str, str, Any, int, str]] = [
    (TOP, "extra", 1, 2, 'the key "extra" of the file is not known here'),
    (TOP, "config", GONE, 4, "tekken.json must have config and vocab"),
    (TOP, "vocab", GONE, 4, "tekken.json must have config and vocab"),
    (TOP, "vocab", {}, 4, "a JSON list must begin here"),
    (TOP, "config", [], 4, "config must be an object"),
    (TOP, "special_tokens", None, 4, "files of this version must have special_tokens"),
    (TOP, "special_tokens", [], 4, "special_tokens must hold <s>, which begins a text"),
    (TOP, "special_tokens", {}, 4, "a JSON list must begin here"),
    (CONFIG, "extra", 1, 2, 'the key "extra" of config is not known here'),
    (CONFIG, "pattern", 1, 4, '"pattern" of config must be a text'),
    (CONFIG, "pattern", None, 4, "config must have a pattern"),
    (CONFIG, "pattern", r"\\\w", 2, r"a pattern of tekken.json with \w, \W, \b or \B is not run"),
    (CONFIG, "pattern", "(", 4, 'the pattern "("'),
    (CONFIG, "version", "v99", 2, "version of config must be one of"),
    (CONFIG, "version", GONE, 2, "version of config must be one of"),
    (CONFIG, "default_vocab_size", 100, 4, "default_vocab_size at least 256 above it"),
    (CONFIG, "default_vocab_size", 100000, 4, "vocab must hold as many pieces"),
    (CONFIG, "default_vocab_size", 1 << 40, 5, "a vocabulary has at most 1048576 pieces"),
    (CONFIG, "default_num_special_tokens", 0, 4, "default_num_special_tokens must be above 0"),
    (CONFIG, "default_num_special_tokens", 2, 4, "below default_num_special_tokens"),
    (PIECE, "extra", 1, 4, "a piece has rank, token_bytes and token_str, each once"),
    (PIECE, "token_bytes", "x", 4, "token_bytes must be in base64"),
    (PIECE, "token_bytes", GONE, 4, "a piece must have rank and token_bytes"),
    (PIECE, "token_bytes", "", 4, "a piece must not be empty"),
    (PIECE, "token_bytes", "AA==", 4, 'is there twice'),
    (PIECE, "rank", 5, 4, "ranks must be 0, 1, 2 ... in order"),
    (SPECIAL, "extra", 1, 2, 'the key "extra" of an element of special_tokens is not known here'),
    (SPECIAL, "rank", 3, 4, "special_tokens must have a token_str and the ranks 0, 1, 2 ... in order"),
    (SPECIAL, "token_str", None, 4, "special_tokens must have a token_str and the ranks"),
    (SPECIAL, "token_str", "<s>", 4, 'piece "<s>" is there twice'),
    (SPECIAL, "token_str", "<SPECIAL_9>", 4, 'piece "<SPECIAL_9>" is there twice'),
    (SPECIAL, "is_control", 3, 4, '"is_control" of an element of special_tokens must be true or false'),
]  # fmt: skip


@pytest.mark.parametrize(("where", "key", "value", "code", "sentence"), ROWS)
def test_what_is_refused(tmp_path: Path, where: str, key: str, value: Any, code: int, sentence: str) -> None:
    tree = drawn(7, "tekken", ["<unk>", "<s>", "</s>"])
    whole = {CONFIG: tree["config"], PIECE: tree["vocab"][300], SPECIAL: tree["special_tokens"][2], TOP: tree}
    whole[where][key] = value
    if value is GONE:
        del whole[where][key]
    (tmp_path / "tekken.json").write_text(json.dumps(tree))
    done = run(tmp_path, "tokenize", ".", "--text", "a")
    assert (done.returncode, sentence in done.stderr.decode()) == (code, True), done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_bytes_in_another_order(tmp_path: Path) -> None:
    tree = drawn(7, "tekken")
    for k, other in ((3, 4), (4, 3)):
        tree["vocab"][k]["token_bytes"] = base64.b64encode(bytes([other])).decode()
    (tmp_path / "tekken.json").write_text(json.dumps(tree))
    said = answer(tmp_path, "tokenize", ".", "--text", "a", code=4)["error"]
    assert "the first 256 pieces must be the bytes" in said


def test_early_files_need_room(tmp_path: Path) -> None:
    (tmp_path / "tekken.json").write_text(json.dumps(drawn(7, "tekken", default_num_special_tokens=19)))
    said = answer(tmp_path, "tokenize", ".", "--text", "a", code=4)["error"]
    assert "default_num_special_tokens must be 20 at least" in said


@pytest.mark.parametrize("name", ["tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"])
def test_settings_beside(tmp_path: Path, name: str) -> None:
    put(tmp_path, drawn(7, "tekken"))
    (tmp_path / name).write_text("{}")
    said = answer(tmp_path, "tokenize", ".", "--text", "a", code=2)["error"]
    assert f"{name}: is not run beside tekken.json" in said
    assert answer(tmp_path, "tokenize", "tekken.json", "--text", "a")["ids"][0] == 1
