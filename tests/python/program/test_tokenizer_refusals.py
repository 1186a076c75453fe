"""Tokenizer files that break one rule each: the exit code, and the sentence with file and rule."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from program import answer, run

ALPHABET = [chr(byte) for byte in range(33, 127)]
BYTES: dict[str, Any] = {
    "added_tokens": [{"id": 96, "content": "<end>"}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
    "model": {
        "type": "BPE",
        "vocab": {piece: k for k, piece in enumerate([*ALPHABET, "th", "the"])},
        "merges": ["t h", ["th", "e"]],
    },
}
WORDS: dict[str, Any] = {
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "the": 3},
    },
}
GONE = object()
SPLIT = {"type": "Split", "pattern": {"Regex": "a"}}
IDS = "the post_processor's ids must be in the vocabulary, at most 16 on each side"
CLS = {"SpecialToken": {"id": "[CLS]"}}


def nested(kind: str, member: str, times: int, inner: Any = None) -> Any:
    tree = inner or {"type": kind, member: []}
    for _ in range(times):
        tree = {"type": kind, member: [tree]}
    return tree


# base, the member that is set (a path of keys), its value, exit code, the end of the sentence
ROWS: list[tuple[dict[str, Any], str, Any, int, str]] = [
    (BYTES, "model", GONE, 4, "a tokenizer must have a model"),
    (BYTES, "model", [], 4, "a JSON object must begin here"),
    (BYTES, "model.vocab", GONE, 4, "a model must have a vocab"),
    (BYTES, "model.vocab", [], 4, "a JSON object must begin here"),
    (BYTES, "model.vocab", {"": 0}, 4, "a piece must not be empty"),
    (BYTES, "model.vocab", {"a" * 4097: 0}, 5, "a piece has 4097 bytes, above the limit of 4096"),
    (
        BYTES,
        "model.vocab",
        {"a": -1},
        4,
        "an integer from 0 to 2^53 must stand here, without sign, leading 0, point or exponent",
    ),
    (BYTES, "model.vocab", {"a": 1 << 20}, 5, "a vocabulary has at most 1048576 pieces"),
    (WORDS, "model.vocab", {"a": 1}, 4, "id 1 leaves a hole: 1 pieces have the ids 0 to 0"),
    (BYTES, "model.vocab", {"a": 0, "b": 0}, 4, "id 0 is given twice"),
    (
        BYTES,
        "model.vocab",
        {"a": 0.5},
        4,
        "an integer from 0 to 2^53 must stand here, without sign, leading 0, point or exponent",
    ),
    (
        BYTES,
        "model.vocab",
        {"a": "0"},
        4,
        "an integer from 0 to 2^53 must stand here, without sign, leading 0, point or exponent",
    ),
    (BYTES, "model.merges", GONE, 4, "a BPE model must have merges"),
    (BYTES, "model.merges", {}, 4, "a JSON list must begin here"),
    (BYTES, "model.merges", ["th"], 4, "a merge must be two pieces with one blank between them"),
    (BYTES, "model.merges", ["t h e"], 4, "a merge must be two pieces with one blank between them"),
    (BYTES, "model.merges", [" h"], 4, "a merge must be two pieces with one blank between them"),
    (BYTES, "model.merges", ["t "], 4, "a merge must be two pieces with one blank between them"),
    (BYTES, "model.merges", [["t"]], 4, "a merge must be two pieces"),
    (BYTES, "model.merges", [["t", "h", "e"]], 4, "a merge must be two pieces"),
    (BYTES, "model.merges", [[]], 4, "a merge must be two pieces"),
    (BYTES, "model.merges", ["a b"], 4, 'a merge needs the piece "ab", which the vocabulary lacks'),
    (BYTES, "model.merges", [["a" * 4000, "b" * 200]], 5, "a merge makes more than 4096 bytes"),
    (BYTES, "model.unk_token", "none", 4, 'the vocabulary lacks unk_token "none"'),
    (BYTES, "model.end_of_word_suffix", "_" * 32, 5, "end_of_word_suffix must be below 32 bytes"),
    (
        BYTES,
        "model",
        {**BYTES["model"], "byte_fallback": True, "end_of_word_suffix": "_"},
        2,
        "byte_fallback beside continuing_subword_prefix or end_of_word_suffix is not run",
    ),
    (
        BYTES,
        "model.type",
        "Letters",
        2,
        'the model "Letters" is not one of BPE, Unigram, WordPiece and WordLevel',
    ),
    (BYTES, "added_tokens", {}, 4, "a JSON list must begin here"),
    (
        BYTES,
        "added_tokens",
        [{"id": 96}],
        4,
        "an added token must have an integer id and a content that is not empty",
    ),
    (
        BYTES,
        "added_tokens",
        [{"id": "a", "content": "b"}],
        4,
        "an added token must have an integer id and a content that is not empty",
    ),
    (
        BYTES,
        "added_tokens",
        [{"id": 96, "content": ""}],
        4,
        "an added token must have an integer id and a content that is not empty",
    ),
    (
        BYTES,
        "added_tokens",
        [{"id": 0, "content": "other"}],
        4,
        "the added token's id 0 belongs to another piece",
    ),
    (BYTES, "added_tokens", [{"id": -1, "content": "other"}], 4, "id -1 is below 0; ids count from 0"),
    (BYTES, "normalizer", {"type": "Words"}, 2, 'the normalizer "Words" is not known here'),
    (
        BYTES,
        "normalizer",
        nested("Sequence", "normalizers", 10),
        5,
        "more than 16 steps, or lists in lists more than 4 deep",
    ),
    (
        BYTES,
        "normalizer",
        {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 40},
        5,
        "more than 16 steps, or lists in lists more than 4 deep",
    ),
    (
        BYTES,
        "pre_tokenizer",
        {"type": "Metaspace", "prepend_scheme": "last"},
        2,
        'the prepend_scheme "last" is not known here',
    ),
    (
        BYTES,
        "pre_tokenizer",
        {"type": "Metaspace", "add_prefix_space": False},
        4,
        'add_prefix_space: false needs prepend_scheme "never" beside it',
    ),
    (
        BYTES,
        "pre_tokenizer",
        {"type": "Metaspace", "replacement": "__"},
        4,
        "the replacement of Metaspace must be one character",
    ),
    (
        BYTES,
        "pre_tokenizer",
        {"type": "FixedLength", "length": 0},
        2,
        "the length of FixedLength must be 1 to 65535",
    ),
    (
        BYTES,
        "pre_tokenizer",
        {"type": "CharDelimiterSplit"},
        4,
        "a pattern must have 1 to 4096 bytes and no NUL",
    ),
    (
        BYTES,
        "pre_tokenizer",
        nested("Sequence", "pretokenizers", 10),
        5,
        "more than 16 steps, or lists in lists more than 4 deep",
    ),
    (
        BYTES,
        "pre_tokenizer",
        {"type": "Sequence", "pretokenizers": [SPLIT] * 40},
        5,
        "more than 16 steps, or lists in lists more than 4 deep",
    ),
    (BYTES, "pre_tokenizer", {**SPLIT, "behavior": "Other"}, 2, 'the behavior "Other" is not known here'),
    (
        BYTES,
        "pre_tokenizer",
        {"type": "Punctuation", "behavior": "Other"},
        2,
        'the behavior "Other" is not known here',
    ),
    (
        BYTES,
        "pre_tokenizer",
        {"type": "Split"},
        4,
        'Split needs a pattern, {"Regex": ...} or {"String": ...}',
    ),
    (
        BYTES,
        "pre_tokenizer",
        {"type": "Split", "pattern": {"Regex": "("}},
        4,
        'the pattern "(": missing closing parenthesis',
    ),
    (
        BYTES,
        "pre_tokenizer",
        {"type": "Split", "pattern": {"Regex": ""}},
        4,
        "a pattern must have 1 to 4096 bytes and no NUL",
    ),
    (
        BYTES,
        "pre_tokenizer",
        {"type": "Split", "pattern": {"Regex": "[a[^b]]"}},
        2,
        "has a class inside a class that is more than a list",
    ),
    *(
        (
            BYTES,
            "pre_tokenizer",
            {"type": "Split", "pattern": {"Regex": pattern}},
            2,
            f'the pattern "{pattern}" uses a class that has another meaning here',
        )
        for pattern in ("\\h", "\\H", "[\\S]", "[\\B]", "[a\\h]")
    ),
    *(
        (
            BYTES,
            "pre_tokenizer",
            {"type": "Split", "pattern": {"Regex": pattern}},
            2,
            f'the pattern "{pattern}" {what}',
        )
        for pattern, what in (
            ("[a&&b]", "intersects classes"),
            ("[a[:alpha:]]", "has a class inside a class that is more than a list"),
            ("[^[-b]]", "has a dash at the edge of a class inside a class"),
            ("[a[b-]]", "has a dash at the edge of a class inside a class"),
        )
    ),
    (
        BYTES,
        "pre_tokenizer",
        {"type": "Split", "pattern": {"Regex": "[\\W]"}},
        2,
        'the pattern "[\\W]" uses a class that has another meaning here',
    ),
    (
        WORDS,
        "normalizer",
        {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 14 + [{"type": "BertNormalizer"}]},
        5,
        "more than 16 steps, or lists in lists more than 4 deep",
    ),
    (
        BYTES,
        "added_tokens",
        [{"id": 96, "content": 7}],
        4,
        "an added token must have an integer id and a content that is not empty",
    ),
    (WORDS, "post_processor", {"type": "BertProcessing", "cls": ["[CLS]", "1"], "sep": ["[SEP]", 2]}, 4, IDS),
    (
        WORDS,
        "post_processor",
        {"type": "TemplateProcessing", "single": [CLS], "special_tokens": {"[CLS]": {"ids": 1}}},
        4,
        'the special token "[CLS]" is not known here',
    ),
    (BYTES, "decoder", 7, 2, 'the decoder "" is not known here'),
    (WORDS, "post_processor", {"type": "Other"}, 2, 'the post_processor "Other" is not known here'),
    (
        WORDS,
        "post_processor",
        nested("Sequence", "processors", 10),
        5,
        "more than 16 steps, or lists in lists more than 4 deep",
    ),
    (
        WORDS,
        "post_processor",
        {"type": "TemplateProcessing", "single": [CLS]},
        4,
        'the special token "[CLS]" is not known here',
    ),
    (
        WORDS,
        "post_processor",
        {"type": "TemplateProcessing", "single": [{"SpecialToken": {}}]},
        4,
        'the special token "" is not known here',
    ),
    (
        WORDS,
        "post_processor",
        {"type": "TemplateProcessing", "single": [CLS], "special_tokens": {"[CLS]": {"ids": [9]}}},
        4,
        IDS,
    ),
    (
        WORDS,
        "post_processor",
        {"type": "TemplateProcessing", "single": [CLS] * 99, "special_tokens": {"[CLS]": {"ids": [1]}}},
        4,
        IDS,
    ),
    (
        WORDS,
        "post_processor",
        {"type": "BertProcessing", "sep": ["[SEP]", 2]},
        4,
        IDS,
    ),
    (
        WORDS,
        "post_processor",
        {"type": "BertProcessing", "cls": ["[CLS]", 1], "sep": ["[SEP]", -2]},
        4,
        IDS,
    ),
    (WORDS, "decoder", {"type": "Other"}, 2, 'the decoder "Other" is not known here'),
    (WORDS, "decoder", {"type": "CTC"}, 2, 'the decoder "CTC" is not known here'),
    (
        WORDS,
        "decoder",
        {"type": "Sequence", "decoders": [{"type": "Fuse"}] * 40},
        5,
        "more than 16 steps, or lists in lists more than 4 deep",
    ),
    (
        WORDS,
        "decoder",
        nested("Sequence", "decoders", 10),
        5,
        "more than 16 steps, or lists in lists more than 4 deep",
    ),
    (
        WORDS,
        "model.continuing_subword_prefix",
        "#" * 32,
        4,
        "continuing_subword_prefix must be below 32 bytes and max_input_chars_per_word above 0",
    ),
    (
        WORDS,
        "model.max_input_chars_per_word",
        0,
        4,
        "continuing_subword_prefix must be below 32 bytes and max_input_chars_per_word above 0",
    ),
    (WORDS, "model.unk_token", "none", 4, 'the vocabulary lacks unk_token "none"'),
]

# base, where an object is that gets the key "wordy", the name of that object
UNKNOWN: list[tuple[dict[str, Any], str, Any, str]] = [
    (BYTES, "wordy", 1, "the file"),
    (WORDS, "model.wordy", None, "a WordPiece model"),
    (BYTES, "model.wordy", 1, "a BPE model"),
    (BYTES, "added_tokens", [{"id": 96, "content": "<end>", "wordy": 1}], "an added token"),
    (BYTES, "pre_tokenizer.wordy", 1, "ByteLevel"),
    (WORDS, "pre_tokenizer.wordy", 1, "BertPreTokenizer"),
    (WORDS, "pre_tokenizer", {"type": "Punctuation", "wordy": 1}, "Punctuation"),
    (WORDS, "pre_tokenizer", {"type": "Sequence", "pretokenizers": [], "wordy": 1}, "a Sequence"),
    (WORDS, "normalizer", {"type": "BertNormalizer", "wordy": 1}, "BertNormalizer"),
    (WORDS, "normalizer", {"type": "NFC", "wordy": 1}, "NFC"),
    (WORDS, "normalizer", {"type": "Sequence", "normalizers": [], "wordy": 1}, "a Sequence"),
    (WORDS, "post_processor", {"type": "ByteLevel", "wordy": 1}, "ByteLevel"),
    (WORDS, "post_processor", {"type": "Sequence", "processors": [], "wordy": 1}, "a Sequence"),
    (WORDS, "decoder", {"type": "WordPiece", "wordy": 1}, "WordPiece"),
    (WORDS, "decoder", {"type": "ByteLevel", "wordy": 1}, "ByteLevel"),
]


@pytest.mark.parametrize(("base", "place", "value", "what"), UNKNOWN)
def test_a_key_that_nobody_reads(
    tmp_path: Path, base: dict[str, Any], place: str, value: Any, what: str
) -> None:
    found, said = refused(tmp_path, spoilt(base, place, value))
    assert (found, f'the key "wordy" of {what} is not known here' in said) == (2, True), said


# base, member, its value, exit code, a part of the sentence
TYPES: list[tuple[dict[str, Any], str, Any, int, str]] = [
    (
        BYTES,
        "pre_tokenizer.add_prefix_space",
        "no",
        4,
        '"add_prefix_space" of ByteLevel must be true or false',
    ),
    (WORDS, "model.continuing_subword_prefix", 7, 4, "must be a text"),
    (WORDS, "model.max_input_chars_per_word", "x", 4, "must be an integer"),
    (WORDS, "truncation", 7, 4, '"truncation" of the file must be an object'),
    (WORDS, "post_processor", {"type": "TemplateProcessing", "single": {}}, 4, "must be a list"),
    (BYTES, "added_tokens", [{"id": 96, "content": "<end>", "lstrip": 1}], 4, "must be true or false"),
    (BYTES, "model.dropout", 0.1, 2, "dropout of merges is drawn by chance and not run"),
    (
        WORDS,
        "post_processor",
        {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}, {"Sequence": {"id": "A"}}]},
        2,
        "single must hold special tokens, and the text once",
    ),
]


@pytest.mark.parametrize(("base", "place", "value", "code", "sentence"), TYPES)
def test_a_member_of_another_kind(
    tmp_path: Path, base: dict[str, Any], place: str, value: Any, code: int, sentence: str
) -> None:
    found, said = refused(tmp_path, spoilt(base, place, value))
    assert (found, sentence in said) == (code, True), said


# text of the whole file, exit code, the end of the sentence
TEXTS: list[tuple[str, int, str]] = [
    ("", 4, "a JSON object must begin here"),
    ("[]", 4, "a JSON object must begin here"),
    ("{} x", 4, "only blanks may follow the JSON value"),
    ('{"model": {}, "model": {}}', 4, "a key is there twice"),
    ('{"a": 1, "a": 2}', 4, "a key is there twice"),
    ('{"a" 1}', 4, "a colon must follow the key"),
    ('{"a": 1 "b": 2}', 4, "not valid JSON: end of file expected near '\"b\"'"),
    ('{"a": }', 4, "a value is missing"),
    ('{"a": -0}', 4, "-0 is no exact integer"),
    ('{"a', 4, "a string is not closed"),
    ('{"a": "b', 4, "a string is not closed"),
    ('{"a\\q": 1}', 4, "JSON has no such escape"),
    ('{"\\u12": 1}', 4, "\\u needs four hexadecimal digits"),
    ('{"\\u12g4": 1}', 4, "\\u needs four hexadecimal digits"),
    ('{"\\u0000": 1}', 4, "a string must not hold U+0000"),
    ('{"\\ud800\\ud800": 1}', 4, "a surrogate stands alone"),
    ('{"\\ud800\\u12": 1}', 4, "a surrogate stands alone"),
    ('{"\\ud800xxxxxx": 1}', 4, "a surrogate stands alone"),
    ('{"\\ud800\\uE000": 1}', 4, "a surrogate stands alone"),
    ('{"a": 1.5e3, "b": -0.5, "c": -0e1, "d": "\\ud83d\\ude00"}', 4, "a tokenizer must have a model"),
    ('{"\\ud83d\\ude00\\u00E9": 1}', 4, "a tokenizer must have a model"),
    ('{"\\udc00": 1}', 4, "a surrogate stands alone"),
    ('{"\\ud800": 1}', 4, "a surrogate stands alone"),
    ('{"\\ud800\\u0041": 1}', 4, "a surrogate stands alone"),
    ('{"a\tb": 1}', 4, "a string holds a control character"),
    ('{"a": ' + "[" * 70 + "]" * 70 + "}", 4, "the JSON is nested more than 64 deep"),
    ('{"a": nonsense}', 4, "not valid JSON: invalid token near 'nonsense'"),
    (
        '{"a": "' + "x" * (1 << 20) + '"}',
        5,
        "members other than vocab, merges and added_tokens hold more than 1048576 bytes",
    ),
]


def spoilt(base: dict[str, Any], place: str, value: Any) -> str:
    tree = copy.deepcopy(base)
    *path, last = place.split(".")
    inner = tree
    for key in path:
        inner = inner[key]
    if value is GONE:
        del inner[last]
    else:
        inner[last] = value
    return json.dumps(tree)


def refused(folder: Path, text: str) -> tuple[int, str]:
    (folder / "tokenizer.json").write_text(text)
    done = run(folder, "tokenize", "tokenizer.json", "--text", "the")
    lines = done.stderr.decode().splitlines()
    return done.returncode, lines[0] if lines else ""


@pytest.mark.parametrize("base", [BYTES, WORDS])
def test_the_files_themselves_are_read(tmp_path: Path, base: dict[str, Any]) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(base))
    assert answer(tmp_path, "tokenize", "tokenizer.json", "--text", "the")["ids"]


@pytest.mark.parametrize(("base", "place", "value", "code", "sentence"), ROWS)
def test_a_broken_member(
    tmp_path: Path, base: dict[str, Any], place: str, value: Any, code: int, sentence: str
) -> None:
    found, said = refused(tmp_path, spoilt(base, place, value))
    assert (found, said.endswith(sentence)) == (code, True), said
    assert "tokenizer.json" in said


def test_members_that_may_be_missing(tmp_path: Path) -> None:
    """The kind of a model follows from its merges; prefix and longest word have their standards."""
    path = tmp_path / "tokenizer.json"
    for base, changes, ids in (
        (BYTES, {"model.type": GONE}, [95]),
        (WORDS, {"model.type": GONE}, [3]),
        (WORDS, {"model.continuing_subword_prefix": "@@", "model.max_input_chars_per_word": 3}, [3]),
        (WORDS, {"model.max_input_chars_per_word": 2}, [0]),
        (WORDS, {"model.continuing_subword_prefix": None, "model.max_input_chars_per_word": None}, [3]),
        (WORDS, {"normalizer": None, "post_processor": None, "decoder": None}, [3]),
        (BYTES, {"decoder": {"type": "ByteLevel"}, "model.vocab.\u00e9": 97}, [95]),
    ):
        tree = base
        for place, value in changes.items():
            tree = json.loads(spoilt(tree, place, value))
        path.write_text(json.dumps(tree))
        assert answer(tmp_path, "tokenize", "tokenizer.json", "--text", "the")["ids"] == ids, changes


def test_texts_that_are_no_files_or_too_long(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(BYTES))
    (tmp_path / "folder").mkdir()
    with (tmp_path / "long.txt").open("wb") as file:
        file.truncate((64 << 20) + 1)
    for name, code, sentence in (
        ("folder", 4, "folder: is a folder, not a file"),
        ("missing", 6, "missing: cannot be opened: No such file or directory"),
        ("long.txt", 5, "long.txt: has more than 67108864 bytes, the limit for a text"),
    ):
        assert answer(tmp_path, "tokenize", "tokenizer.json", name, code=code)["error"] == sentence
    both = answer(tmp_path, "tokenize", "tokenizer.json", "folder", "--text", "the", code=2)
    assert both["error"] == "there are two texts: --text and the file 'folder'"


@pytest.mark.parametrize(("text", "code", "sentence"), TEXTS)
def test_a_broken_text(tmp_path: Path, text: str, code: int, sentence: str) -> None:
    found, said = refused(tmp_path, text)
    assert (found, said.endswith(sentence)) == (code, True), said
    assert "tokenizer.json" in said
