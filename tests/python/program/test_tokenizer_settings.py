"""What lies beside a vocabulary: tokenizer_config.json, special_tokens_map.json, added_tokens.json.

Every folder is opened by the program and by AutoTokenizer of transformers; the ids must be equal. Keys that
neither changes an id nor is known are named in a refusal."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import spec
from program import answer
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

os.environ["HF_HUB_OFFLINE"] = "1"
transformers = pytest.importorskip("transformers")
transformers.logging.set_verbosity_error()

Files = dict[str, Any]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [
    "apfel", "Apfel", "äpfel", "Äpfel", "mass", "moves", "mo", "##ves", "a", "ä", "m", "##a",
    "##b", "b", "中", "文", "##文", "中文", "the", "THE", ".", ",", "!", "e", "é", "##é", "foo",
    "bar", "##bar", "<", "x", ">", "[", "]", "i", "ß", "1", "##2", "don", "'", "t", "word",
    "##s",
]  # fmt: skip
PIECES = [*SPECIAL, *WORDS]
MERGES = ["t h", "th e", "Ġ t", "Ġt h", "Ġth e", "f o", "fo o", "Ġ f", "b a", "1 2", "< |"]
LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())
SYMBOLS = [*LETTERS, *(merge.replace(" ", "") for merge in MERGES), "<|endoftext|>", "<s>", "</s>"]
PARTS = [
    "Äpfel", " ", "  ", "mass", "中文", "中", "\u0301", "e\u0301", "é", "\u200b", "\x07",
    "\u202e", "\t", "\n", "foo", "foobar", "bar", "<x>", "[MASK]", " [MASK] ", "[CLS]",
    "[SEP]", "[NEW]", "<Ä>", "<ä>", "ab cd", "AB CD", "Ápf", "ápf", "word", "sword",
    "THE the", "don't", ".", ",", "!", "İ", "ß", "12", "\u3000", "\ufffd", "x" * 101, " sp",
    "sp ", "<mask>", "[mask]", "[UNK]", "<|endoftext|>", "<s>", "</s>", "##bar",
]  # fmt: skip
TEXT = " ".join(PARTS) + "".join(PARTS)
TOKENS = ["foo", "bar", "<x>", "<Ä>", "[NEW]", "ab cd", "中文", "Ápf", "[MASK]", "[CLS]", "<mask>", "word",
          " sp", "sp ", "##bar", "<s>"]  # fmt: skip


def put(folder: Path, files: Files) -> Path:
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for name, value in files.items():
        (folder / name).write_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return folder


def lines(pieces: list[str] = PIECES) -> Files:
    return {"vocab.txt": "\n".join(pieces) + "\n"}


def pair(symbols: list[str] = SYMBOLS) -> Files:
    return {
        "vocab.json": {piece: k for k, piece in enumerate(symbols)},
        "merges.txt": "#version: 0.2\n" + "\n".join(MERGES) + "\n",
    }


def ids_of(folder: Path, text: str, *words: str) -> list[int]:
    (folder.parent / "text").write_bytes(text.encode())
    return answer(folder.parent, "tokenize", folder.name, "text", *words)["ids"]


def difference(folder: Path, texts: list[str]) -> str:
    """What is unequal, nothing for equal ids with and without the ids around a text."""
    peer = transformers.AutoTokenizer.from_pretrained(str(folder))
    for number, text in enumerate(texts):
        for words in ((), ("--no-special",))[: 2 if number == 0 else 1]:
            ours, theirs = ids_of(folder, text, *words), peer(text, add_special_tokens=not words)["input_ids"]
            if ours != theirs:
                return f"{text!r} {words}: {ours}, transformers {theirs}"
    return ""


def same(folder: Path, files: Files, *texts: str) -> None:
    found = difference(put(folder / "f", files), [*texts] or [TEXT])
    print(found)
    spec.check_true("TOT-66", not found)


def token(content: str, **flags: bool) -> dict[str, Any]:
    return {"__type": "AddedToken", "content": content, **flags}


# name: keys of tokenizer_config.json and the other files beside vocab.txt
BERT: dict[str, tuple[dict[str, Any], Files]] = {
    "nothing": ({}, {}),
    "accents kept": ({"do_lower_case": True, "strip_accents": False}, {}),
    "accents stripped, case kept": ({"do_lower_case": False, "strip_accents": True}, {}),
    "accents as case": ({"do_lower_case": False, "strip_accents": None}, {}),
    "no Chinese": ({"tokenize_chinese_chars": False}, {}),
    "names": ({"unk_token": "foo", "cls_token": "<s>", "sep_token": "[NEW]", "pad_token": "<x>"}, {}),
    "objects": ({"mask_token": token("[MASK]", lstrip=True), "cls_token": token("Ápf", normalized=True)}, {}),
    "no mask": ({"mask_token": None, "pad_token": ""}, {}),
    "an end that is not framed": ({"bos_token": "<s>", "add_bos_token": True, "eos_token": "</s>"}, {}),
    "split": ({"split_special_tokens": True}, {}),
    "slow tokenizers": ({"do_basic_tokenize": False, "never_split": ["Äpfel"]}, {}),
    "extra": ({"additional_special_tokens": ["foo", token("word", single_word=True)]}, {}),
    "extra, newer": ({"extra_special_tokens": ["<x>"], "additional_special_tokens": ["foo"]}, {}),
    "extra by name": ({"extra_special_tokens": {"image_token": "<x>"}, "image_token": "foo"}, {}),
    "decoder": (
        {
            "added_tokens_decoder": {
                "4": {"content": "[MASK]", "lstrip": True, "special": True},
                str(len(PIECES)): {"content": "<Ä>", "normalized": True},
            }
        },
        {"special_tokens_map.json": {"unk_token": "foo"}, "added_tokens.json": {"nowhere": 999}},
    ),
    "map": ({"unk_token": "bar"}, {"special_tokens_map.json": {"unk_token": "foo", "sep_token": "[NEW]"}}),
    "map of objects": (
        {},
        {
            "special_tokens_map.json": {
                "mask_token": {"content": "[MASK]", "lstrip": True, "normalized": True},
                "additional_special_tokens": ["<x>"],
                "image_token": "<s>",
            }
        },
    ),
    "added": (
        {},
        {"added_tokens.json": {"ab cd": len(PIECES), "<Ä>": len(PIECES) + 1, "mass": PIECES.index("mass")}},
    ),
    "added and named": (
        {"pad_token": "<Ä>", "mask_token": token("Ápf")},
        {"added_tokens.json": {"<Ä>": len(PIECES), "Ápf": len(PIECES) + 1}},
    ),
    "model alone": ({}, {"config.json": {"model_type": "distilbert", "tokenizer_class": None}}),
    "idle": (
        {
            "model_max_length": 10**30,
            "padding_side": "left",
            "clean_up_tokenization_spaces": True,
            "chat_template": "x",
            "max_length": 3,
            "truncation_side": "left",
            "pad_token_id": 3,
        },
        {},
    ),
}
GPT2: dict[str, tuple[dict[str, Any], Files]] = {
    "nothing": ({}, {}),
    "blank": ({"add_prefix_space": True}, {}),
    "no blank": ({"add_prefix_space": False, "add_bos_token": False}, {}),
    "begin": ({"add_bos_token": True, "bos_token": "<s>"}, {}),
    "both ends": ({"add_bos_token": True, "add_eos_token": True, "eos_token": token("[NEW]")}, {}),
    "no begin": ({"add_bos_token": True, "bos_token": None, "add_eos_token": None}, {}),
    "names": ({"unk_token": "<x>", "pad_token": token("<s>", rstrip=True), "mask_token": "<mask>"}, {}),
    "split": ({"split_special_tokens": True, "additional_special_tokens": [token("foo")]}, {}),
    "decoder": (
        {"added_tokens_decoder": {str(SYMBOLS.index("foo")): {"content": "foo", "single_word": True}}},
        {},
    ),
    "map": (
        {},
        {"special_tokens_map.json": {"bos_token": {"content": "<s>", "normalized": True, "lstrip": True}}},
    ),
    "added": (
        {"errors": "replace"},
        {"added_tokens.json": {"ab cd": len(SYMBOLS), "<s>": SYMBOLS.index("<s>")}},
    ),
    "model alone": ({}, {"config.json": {"model_type": "gpt2"}}),
}


@pytest.mark.parametrize("name", BERT)
def test_settings_beside_vocab_txt(tmp_path: Path, name: str) -> None:
    keys, others = BERT[name]
    named = {} if "config.json" in others else {"tokenizer_class": "BertTokenizer"}
    same(tmp_path, {**lines(), **others, "tokenizer_config.json": {**named, **keys}})


@pytest.mark.parametrize("name", GPT2)
def test_settings_beside_vocab_json(tmp_path: Path, name: str) -> None:
    keys, others = GPT2[name]
    named = {} if "config.json" in others else {"tokenizer_class": "GPT2TokenizerFast"}
    same(tmp_path, {**pair(), **others, "tokenizer_config.json": {**named, **keys}})


def test_accents_that_lower_case_keeps(tmp_path: Path) -> None:
    pieces = ["[UNK]", "[CLS]", "[SEP]", "apfel", "äpfel", "mass"]
    keys = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "strip_accents": False}
    files = {**lines(pieces), "tokenizer_config.json": keys}
    same(tmp_path, files, "Äpfel mass")
    assert ids_of(tmp_path / "f", "Äpfel mass") == [1, 4, 5, 2]


def test_lines_without_the_white_space_at_their_ends(tmp_path: Path) -> None:
    files = {"vocab.txt": "[UNK]\r\n[CLS]\n[SEP]\na \nb\u3000\nc\u200b\nd\t\n", "tokenizer_config.json": {}}
    same(tmp_path, {**files, "config.json": {"model_type": "bert"}}, "a b c d [PAD]")


@pytest.mark.parametrize("name", ["BertTokenizer", "GPT2Tokenizer"])
def test_folders_that_transformers_saves(tmp_path: Path, name: str) -> None:
    """Every key that it writes is known, a length of 31 digits among them."""
    keys = {
        "additional_special_tokens": ["<x>"],
        "image_token": "foo",
        "mask_token": token("[MASK]", lstrip=True),
    }
    files = {**(lines() if name == "BertTokenizer" else pair())}
    files["tokenizer_config.json"] = {"tokenizer_class": name, "add_prefix_space": True, **keys}
    transformers.AutoTokenizer.from_pretrained(str(put(tmp_path / "f", files))).save_pretrained(
        tmp_path / "g"
    )
    assert "1000000000000000019884624838656" in (tmp_path / "g/tokenizer_config.json").read_text()
    assert not difference(tmp_path / "g", [TEXT])


# ---- beside tokenizer.json ----


def bert_file(lower: bool = True, added: list[AddedToken] | None = None) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece({piece: k for k, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.add_tokens(added or [])
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def bytes_file(prefix: bool = False, added: list[AddedToken] | None = None, begin: bool = False) -> Tokenizer:
    merges = [(left, right) for left, right in (merge.split() for merge in MERGES)]
    tokenizer = Tokenizer(models.BPE({piece: k for k, piece in enumerate(SYMBOLS)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    tokenizer.add_tokens(added or [])
    if begin:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", SYMBOLS.index("<s>"))]
        )
    return tokenizer


ADDED = [
    AddedToken("ab cd"),
    AddedToken("word", single_word=True),
    AddedToken("<Ä>", lstrip=True, special=True),
]
OVER: dict[str, tuple[Tokenizer, Files]] = {
    "nothing": (bert_file(False, ADDED), {}),
    "case by the class": (bert_file(False), {"tokenizer_config.json": {"tokenizer_class": "BertTokenizer"}}),
    "case by the model": (bert_file(False), {"config.json": {"model_type": "bert"}}),
    "case by its key": (
        bert_file(True),
        {"tokenizer_config.json": {"tokenizer_class": "BertTokenizerFast", "do_lower_case": False}},
    ),
    "frames by names": (
        bert_file(True, ADDED),
        {
            "tokenizer_config.json": {
                "tokenizer_class": "BertTokenizer",
                "cls_token": "foo",
                "unk_token": "the",
            }
        },
    ),
    "the file alone": (
        bert_file(True, ADDED),
        {
            "tokenizer_config.json": {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "do_lower_case": False,
                "strip_accents": False,
                "cls_token": "foo",
                "mask_token": "<mask>",
            }
        },
    ),
    "a class that nobody knows": (
        bert_file(True),
        {"tokenizer_config.json": {"tokenizer_class": "XTokenizer", "do_lower_case": False}},
    ),
    "flags said anew": (
        bert_file(True, ADDED),
        {
            "tokenizer_config.json": {
                "added_tokens_decoder": {str(len(PIECES)): {"content": "ab cd", "rstrip": True}}
            }
        },
    ),
    "split": (bert_file(True, ADDED), {"tokenizer_config.json": {"split_special_tokens": True}}),
    "blank by the class": (bytes_file(True), {"tokenizer_config.json": {"tokenizer_class": "GPT2Tokenizer"}}),
    "blank by its key": (
        bytes_file(False),
        {"tokenizer_config.json": {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True}},
    ),
    "no begin by its key": (
        bytes_file(True, ADDED),
        {
            "tokenizer_config.json": {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "add_bos_token": True,
                "bos_token": "<s>",
                "add_prefix_space": False,
            }
        },
    ),
    "a begin all the same": (
        bytes_file(False, ADDED, begin=True),
        {
            "tokenizer_config.json": {
                "tokenizer_class": "GPT2Tokenizer",
                "add_bos_token": False,
                "bos_token": "</s>",
            }
        },
    ),
    "llama": (
        bytes_file(False, ADDED, begin=True),
        {
            "tokenizer_config.json": {
                "tokenizer_class": "LlamaTokenizerFast",
                "add_prefix_space": True,
                "legacy": False,
            },
        },
    ),
}


@pytest.mark.parametrize("name", OVER)
def test_settings_beside_tokenizer_json(tmp_path: Path, name: str) -> None:
    tokenizer, others = OVER[name]
    same(tmp_path, {"tokenizer.json": tokenizer.to_str(), **others})


def test_pieces_that_only_added_tokens_name(tmp_path: Path) -> None:
    """The model does not know them: no word is made of them."""
    tokenizer = bert_file(True, [AddedToken("newt", single_word=True), AddedToken("##on", single_word=True)])
    same(tmp_path, {"tokenizer.json": tokenizer.to_str()}, "newt", "newts", "newton mon", "##on")
    tokenizer = Tokenizer(models.BPE({"a": 0, "b": 1}, [], ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_tokens(
        [AddedToken("c"), AddedToken("ab", single_word=True), AddedToken("d", single_word=True)]
    )
    same(tmp_path, {"tokenizer.json": tokenizer.to_str()}, "ab", "abd ddd", "éab cab")


def test_tokens_in_blanks_that_another_strips(tmp_path: Path) -> None:
    tokenizer = bytes_file(
        False, [AddedToken("<r>", rstrip=True), AddedToken(" b"), AddedToken("  ", rstrip=True)]
    )
    same(
        tmp_path,
        {"tokenizer.json": tokenizer.to_str()},
        "<r> b<r>  b",
        "<r>   <r>     b a",
        "     <r>",
        "<r>  a",
    )


def test_what_was_special_stays_so(tmp_path: Path) -> None:
    """A number that says a token anew does not make its text one that split_special_tokens leaves whole."""
    keys = {
        "split_special_tokens": True,
        "added_tokens_decoder": {"4": {"content": "[MASK]", "rstrip": True}},
    }
    same(tmp_path, {"tokenizer.json": bert_file().to_str(), CONFIG: keys}, "a [MASK] b")


def test_steps_of_tokenizer_json_stand(tmp_path: Path) -> None:
    """Where transformers 5 leaves out steps that GPT-2's own class lacks, the file's own are run."""
    tokenizer = bytes_file()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"\d"), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    keys = {"tokenizer_class": "GPT2Tokenizer"}
    folder = put(tmp_path / "f", {"tokenizer.json": tokenizer.to_str(), "tokenizer_config.json": keys})
    assert ids_of(folder, "the 12") == tokenizer.encode("the 12").ids


def test_a_file_stands_alone(tmp_path: Path) -> None:
    put(tmp_path / "f", {**lines(), "tokenizer_config.json": {"do_lower_case": False, "nonsense": 1}})
    ids = answer(tmp_path, "tokenize", "f/vocab.txt", "--text", "THE")["ids"]
    assert ids == [2, PIECES.index("the"), 3]


# ---- drawn folders ----


def draw_token(r: random.Random, text: str, typed: bool = True) -> Any:
    if typed and r.random() < 0.4:
        return text
    flags = ("lstrip", "rstrip", "single_word", "normalized", "special")
    said = {flag: r.random() < 0.5 for flag in flags if r.random() < 0.4}
    return token(text, **said) if typed else {"content": text, **said}


def draw_settings(r: random.Random, pieces: list[str], switches: list[str]) -> tuple[dict[str, Any], Files]:
    keys: dict[str, Any] = {switch: r.random() < 0.5 for switch in switches if r.random() < 0.5}
    others: Files = {}
    for role in ("bos", "eos", "unk", "sep", "pad", "cls", "mask", "image"):
        if r.random() < 0.2:
            keys[f"{role}_token"] = draw_token(r, r.choice(pieces if role == "unk" else TOKENS))
    for key in ("additional_special_tokens", "extra_special_tokens"):
        if r.random() < 0.2:
            keys[key] = [draw_token(r, text) for text in r.sample(TOKENS, 2)]
    numbers = {text: k for k, text in enumerate(pieces)}
    if r.random() < 0.3:
        chosen = r.sample(TOKENS, r.randint(0, 4))
        decoder = {str(numbers.setdefault(text, len(numbers))): draw_token(r, text, False) for text in chosen}
        keys["added_tokens_decoder"] = decoder
    elif r.random() < 0.4:
        chosen = r.sample(TOKENS, r.randint(0, 4))
        others["added_tokens.json"] = {text: numbers.setdefault(text, len(numbers)) for text in chosen}
    if r.random() < 0.3:
        roles = r.sample(["sep_token", "pad_token", "cls_token", "mask_token", "bos_token"], 2)
        others["special_tokens_map.json"] = {role: r.choice(TOKENS) for role in roles}
        others["special_tokens_map.json"]["additional_special_tokens"] = [r.choice(TOKENS)]
    return keys, others


BERT_SWITCHES = ["do_lower_case", "strip_accents", "tokenize_chinese_chars", "split_special_tokens"]
GPT2_SWITCHES = ["add_prefix_space", "add_bos_token", "add_eos_token", "split_special_tokens"]


def draw_bert(r: random.Random) -> Files:
    pieces = [piece for piece in PIECES if piece == "[UNK]" or r.random() < 0.85]
    keys, others = draw_settings(r, pieces, BERT_SWITCHES)
    return {**lines(pieces), **others, "tokenizer_config.json": {"tokenizer_class": "BertTokenizer", **keys}}


def draw_gpt2(r: random.Random) -> Files:
    symbols = SYMBOLS[: len(SYMBOLS) - r.randint(0, 3)]
    keys, others = draw_settings(r, symbols, GPT2_SWITCHES)
    return {**pair(symbols), **others, "tokenizer_config.json": {"tokenizer_class": "GPT2Tokenizer", **keys}}


@pytest.mark.parametrize("draw", [draw_bert, draw_gpt2])
def test_drawn_settings(tmp_path: Path, draw: Callable[[random.Random], Files]) -> None:
    compared = 0
    for seed in range(25):
        r = random.Random(seed)
        files = draw(r)
        text = "".join(r.choice(PARTS) for _ in range(40))
        try:
            found = difference(put(tmp_path / "f", files), [text])
        except ValueError:
            # A token with a blank in it, which transformers cannot set around a text.
            continue
        assert not found, (seed, files, found)
        compared += 1
    assert compared > 15


# ---- refusals ----

CONFIG, MAP, ADDED_FILE, MODEL = (
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "config.json",
)
# file, its content, exit code, the sentence
REFUSED: list[tuple[str, dict[str, Any], int, str]] = [
    (CONFIG, {"wordy": 1}, 2, 'the key "wordy" is not known here'),
    (CONFIG, {"wordy": None}, 2, 'the key "wordy" is not known here'),
    (CONFIG, {"add_x_token": True}, 2, 'the key "add_x_token" is not known here'),
    (MAP, {"wordy": "a"}, 2, 'the key "wordy" is not known here'),
    (ADDED_FILE, {"wordy": "a"}, 4, '"wordy" must be a token\'s text with an id'),
    (CONFIG, {"do_lower_case": "no"}, 4, "do_lower_case must be true or false"),
    (CONFIG, {"unk_token": 3}, 4, "unk_token: a token must be a text or an object"),
    (CONFIG, {"unk_token": {"content": "a", "wordy": 1}}, 2, 'the member "wordy" of a token is not known'),
    (CONFIG, {"unk_token": {"content": "a", "lstrip": 1}}, 4, '"lstrip" of a token must be true or false'),
    (CONFIG, {"unk_token": {"lstrip": True}}, 4, "unk_token: a token must have a content"),
    (CONFIG, {"unk_token": {"content": "a", "__type": "B"}}, 2, 'the member "__type" of a token'),
    (CONFIG, {"extra_special_tokens": "x"}, 4, "must be a list of tokens or an object with them"),
    (CONFIG, {"extra_special_tokens": [3]}, 4, "extra_special_tokens: a token must be a text or an object"),
    (CONFIG, {"extra_special_tokens": {"a": 3}}, 4, "a: a token must be a text or an object"),
    (CONFIG, {"added_tokens_decoder": []}, 4, "added_tokens_decoder: must be an object"),
    (CONFIG, {"added_tokens_decoder": {"x": {}}}, 4, '"x" is no id from 0 to 1048575'),
    (CONFIG, {"added_tokens_decoder": {"1048576": {}}}, 4, '"1048576" is no id from 0 to 1048575'),
    (CONFIG, {"added_tokens_decoder": {"0": "a"}}, 4, "added_tokens_decoder: a token must be an object"),
    (CONFIG, {"extra_special_tokens": ["x" * 4097]}, 5, "a token has 4097 bytes"),
    (ADDED_FILE, {"mass": 0}, 4, '"mass" has the id 0, but the vocabulary gives it another one'),
    (ADDED_FILE, {"<x>": len(PIECES) + 1}, 4, "but the next id behind the vocabulary is another one"),
    (CONFIG, {"cls_token": None}, 4, "cls_token must be a token, which is set around every text"),
    (MAP, {"sep_token": ""}, 4, "sep_token must be a token, which is set around every text"),
    (CONFIG, {"tokenizer_class": "GPT2Tokenizer"}, 2, '"GPT2Tokenizer" is not run on vocab.txt'),
    (CONFIG, {"tokenizer_class": "MPNetTokenizerFast"}, 2, '"MPNetTokenizerFast" is not run on vocab.txt'),
    (CONFIG, {"tokenizer_class": "XTokenizer"}, 2, '"XTokenizer" is not run on vocab.txt'),
    (MODEL, {"tokenizer_class": "BertJapaneseTokenizer"}, 2, '"BertJapaneseTokenizer" is not run on'),
    (MODEL, {"model_type": "funnel"}, 2, 'model_type "funnel" is not run on vocab.txt'),
    (CONFIG, {"tokenizer_class": 3}, 4, "tokenizer_class must be the name of a class"),
    (CONFIG, {"fast_tokenizer_files": ["t.4.json"]}, 2, "fast_tokenizer_files names another file"),
    (CONFIG, {"auto_map": {"AutoTokenizer": ["a.B", None]}}, 2, "auto_map names a program in Python"),
    (CONFIG, {"init_inputs": ["x"]}, 2, "init_inputs must be empty"),
    (CONFIG, {"extra_ids": 100}, 2, "extra_ids asks for <extra_id_99>, which the vocabulary lacks"),
    (CONFIG, {"extra_ids": "many"}, 2, "extra_ids must be a number"),
]


@pytest.mark.parametrize(("file", "content", "code", "sentence"), REFUSED)
def test_settings_that_are_refused(
    tmp_path: Path, file: str, content: dict[str, Any], code: int, sentence: str
) -> None:
    put(tmp_path / "f", {**lines(), file: content})
    said = answer(tmp_path, "tokenize", "f", "--text", "a", code=code)["error"]
    assert sentence in said and said.startswith(f"f/{file}: "), said


def test_a_map_without_effect_has_known_keys(tmp_path: Path) -> None:
    put(tmp_path / "f", {**lines(), CONFIG: {"added_tokens_decoder": {}}, MAP: {"wordy": "a"}})
    said = answer(tmp_path, "tokenize", "f", "--text", "a", code=2)["error"]
    assert f'f/{MAP}: the key "wordy" is not known here' in said


def test_an_unknown_piece_that_is_none(tmp_path: Path) -> None:
    put(tmp_path / "f", {**lines(), CONFIG: {"unk_token": "nowhere"}})
    said = answer(tmp_path, "tokenize", "f", "--text", "a", code=4)["error"]
    assert said == "f/vocab.txt: WordPiece's pieces must hold nowhere"


def test_lists_of_another_class(tmp_path: Path) -> None:
    put(tmp_path / "f", {**pair(), MODEL: {"model_type": "roberta"}})
    said = answer(tmp_path, "tokenize", "f", "--text", "a", code=2)["error"]
    assert 'model_type "roberta" is not run on vocab.json, which is read as GPT2Tokenizer reads it' in said


def test_contradictions_of_tokenizer_json(tmp_path: Path) -> None:
    named = {"tokenizer_class": "BertTokenizer"}
    other = {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": True}
    bert = {"tokenizer_class": "MPNetTokenizer", "do_lower_case": False}
    lacking = {**named, "added_tokens_decoder": {"1": {"content": "[UNK]"}}}
    plain, words, bare, short = bert_file(), bert_file(), bert_file(), bert_file()
    plain.normalizer = normalizers.Lowercase()
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    bare.normalizer = None
    short.model.max_input_chars_per_word = 9
    for tokenizer, keys, sentence in (
        (bytes_file(), other, "add_prefix_space says otherwise than tokenizer.json, where it is false"),
        (bert_file(), bert, "do_lower_case says otherwise than tokenizer.json, where it is true"),
        (bytes_file(), named, 'tokenizer_class "BertTokenizer" is not one for the model "BPE"'),
        (bert_file(), {"tokenizer_class": "GPT2Tokenizer"}, 'is not one for the model "WordPiece"'),
        (bert_file(), {"tokenizer_class": "T5Tokenizer"}, 'is not one for the model "WordPiece"'),
        (bert_file(), {"tokenizer_class": "ByT5Tokenizer"}, 'is not one for the model "WordPiece"'),
        (bert_file(True, ADDED), lacking, 'added_tokens_decoder lacks "word"'),
        (plain, named, 'the normalizer "Lowercase" is not the BertNormalizer'),
        (words, named, 'the pre_tokenizer "Whitespace" is not the BertPreTokenizer'),
        (bare, named, "has no normalizer, and BertTokenizer"),
        (short, named, "has the prefix ## and words of at most 100 characters"),
    ):
        put(tmp_path / "f", {"tokenizer.json": tokenizer.to_str(), CONFIG: keys})
        assert sentence in answer(tmp_path, "tokenize", "f", "--text", "a", code=2)["error"]
