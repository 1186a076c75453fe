"""Tokenizers inside .gguf files: byte-level BPE gives the ids of the same vocabulary in tokenizer.json, and
what breaks one rule of their lists is refused with its sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf_files
import numpy as np
import pytest
from program import answer, run

LETTERS = [*range(33, 127), *range(161, 173), *range(174, 256)]
OTHERS = [byte for byte in range(256) if byte not in LETTERS]
MERGES = ["t h", "th e", "\u0120 t", "\u0120t h", "1 2"]
PIECES = [
    *(chr(letter) for letter in LETTERS),
    *(chr(256 + k) for k in range(len(OTHERS))),
    *(merge.replace(" ", "") for merge in MERGES),
    "<s>",
    "</s>",
]
KINDS = [1] * (len(PIECES) - 2) + [3, 3]
BYTES: dict[str, Any] = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.tokens": PIECES,
    "tokenizer.ggml.token_type": np.array(KINDS, np.int32),
    "tokenizer.ggml.merges": MERGES,
    "tokenizer.ggml.bos_token_id": len(PIECES) - 2,
    "tokenizer.ggml.eos_token_id": len(PIECES) - 1,
}
SCORED = ["<unk>", "<s>", "</s>", "\u2581", "a", "b", "ab"]
SENTENCES: dict[str, Any] = {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.add_space_prefix": False,
    "tokenizer.ggml.tokens": SCORED,
    "tokenizer.ggml.scores": np.arange(len(SCORED), dtype=np.float32),
    "tokenizer.ggml.token_type": np.array([2, 3, 3, 1, 1, 1, 1], np.int32),
    "tokenizer.ggml.unknown_token_id": 0,
    "tokenizer.ggml.bos_token_id": 1,
}
GONE = object()
KINDS_READ = "is not one of gpt2, llama, t5, rwkv, plamo2 and bert"


def write(path: Path, words: dict[str, Any]) -> None:
    """A Llama of one layer with this tokenizer."""
    pairs = {
        "general.architecture": "llama", "llama.block_count": 1, "llama.context_length": 16,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.embedding_length": 8, "llama.feed_forward_length": 8, "llama.attention.head_count": 2,
        **{key: value for key, value in words.items() if value is not GONE},
    }  # fmt: skip
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (len(PIECES), 8), "output_norm.weight": (8,)}
    for part in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_gate", "ffn_down"):
        shapes[f"blk.0.{part}.weight"] = (8, 8)
    for part in ("attn_norm", "ffn_norm"):
        shapes[f"blk.0.{part}.weight"] = (8,)
    zeros = {name: ("F32", shape, bytes(4 * int(np.prod(shape)))) for name, shape in shapes.items()}
    gguf_files.write(path, pairs, zeros)


@pytest.mark.parametrize(
    ("cut", "whole_words"),
    [
        (GONE, False),
        ("default", False),
        ("gpt-2", False),
        ("smollm", False),
        ("llama-bpe", True),
        ("llama3", True),
    ],
)
def test_ids_are_those_of_the_file_of_tokenizers(tmp_path: Path, cut: Any, whole_words: bool) -> None:
    """The rules that cut a text into words, as tokenizers' own steps; llama's texts have a begin."""
    write(tmp_path / "model.gguf", {**BYTES, "tokenizer.ggml.pre": cut})
    pattern = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    bytes_alone = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    steps: list[dict[str, Any]] = [{**bytes_alone, "use_regex": True}]
    if cut in (GONE, "default"):
        # Where no cut is named, what llama.cpp does.
        gpt2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
        patterns = [r"[\p{P}\$\+<=>\^~\|]+", gpt2, r"\p{N}+", "[0-9][0-9][0-9]"]
        steps = [{"type": "Split", "pattern": {"Regex": one}, "behavior": "Isolated"} for one in patterns]
        steps.append(bytes_alone)
    if cut == "smollm":
        steps = [{"type": "Digits", "individual_digits": True}, *steps]
    if whole_words:
        steps = [{"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"}, bytes_alone]
    model = {
        "type": "BPE", "merges": MERGES, "vocab": {piece: k for k, piece in enumerate(PIECES)},
        "ignore_merges": whole_words,
    }  # fmt: skip
    added = [{"id": len(PIECES) - k, "content": PIECES[-k], "special": True} for k in (2, 1)]
    sequence = {"type": "Sequence", "pretokenizers": steps}
    tree = {"model": model, "pre_tokenizer": sequence, "added_tokens": added}
    (tmp_path / "tokenizer.json").write_text(json.dumps(tree))
    for text in (
        "the 1212 then",
        "  the\n\nt h e's",
        "\u00e9 </s>the<s>",
        "I'LL 12,123 the.",
        "a+b<12121212 the$ t.h",
    ):
        words = ("--text", text)
        ids = answer(tmp_path, "tokenize", "tokenizer.json", *words)["ids"]
        begin = [len(PIECES) - 2] if whole_words else []
        assert answer(tmp_path, "tokenize", "model.gguf", *words)["ids"] == begin + ids, text


def test_frames_of_both_ends(tmp_path: Path) -> None:
    ends = {"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_eos_token": True}
    write(tmp_path / "model.gguf", {**BYTES, **ends})
    ids = answer(tmp_path, "tokenize", "model.gguf", "--text", "the")["ids"]
    assert ids == [PIECES.index(piece) for piece in ("<s>", "the", "</s>")]
    # An id outside of the vocabulary names no piece; without the wish for one that is no fault.
    write(tmp_path / "model.gguf", {**BYTES, "tokenizer.ggml.eos_token_id": len(PIECES)})
    assert answer(tmp_path, "tokenize", "model.gguf", "--text", "the")["ids"] == ids[1:2]
    # Whole numbers of other types are ids, too.
    write(tmp_path / "model.gguf", {**BYTES, **ends, "tokenizer.ggml.eos_token_id": np.int64(ids[2])})
    assert answer(tmp_path, "tokenize", "model.gguf", "--text", "the")["ids"] == ids
    kinds = {"tokenizer.ggml.token_type": np.array(KINDS, np.uint32)}
    write(tmp_path / "model.gguf", {**BYTES, **kinds})
    assert answer(tmp_path, "tokenize", "model.gguf", "--text", "<s>")["ids"] == ids[:1]


ROWS: list[tuple[dict[str, Any], str, Any, int, str]] = [
    (BYTES, "model", GONE, 2, KINDS_READ),
    (BYTES, "model", "gemma4", 2, KINDS_READ),
    (BYTES, "model", 7, 2, KINDS_READ),
    (BYTES, "pre", "o200k", 2, 'the pre-tokenizer "o200k" is not known'),
    (BYTES, "pre", "x" * 99, 2, f'the pre-tokenizer "{"x" * 40}" is not known'),
    (BYTES, "merges", ["a b"], 4, 'a merge needs the piece "ab", which the vocabulary lacks'),
    (BYTES, "merges", ["ab"], 4, "a merge must be two pieces with one blank between them"),
    (BYTES, "tokens", np.zeros(3, np.int32), 4, "tokenizer.ggml.tokens must be a list of texts"),
    (BYTES, "tokens", GONE, 4, "tokenizer.ggml.tokens must be a list of texts"),
    (BYTES, "tokens", PIECES[:3], 4, "tokenizer.ggml.token_type must hold one i32 for each piece"),
    (BYTES, "merges", GONE, 4, "tokenizer.ggml.merges must be a list of texts"),
    (BYTES, "merges", np.zeros(3, np.int32), 4, "tokenizer.ggml.merges must be a list of texts"),
    (SENTENCES, "add_space_prefix", 1, 4, "tokenizer.ggml.add_space_prefix must be true or false"),
    (SENTENCES, "remove_extra_whitespaces", 1, 4, "remove_extra_whitespaces must be true or false"),
    (SENTENCES, "precompiled_charsmap", np.zeros(1, np.int32), 4, "must be a list of bytes"),
    (SENTENCES, "precompiled_charsmap", bytes(7), 4, "precompiled_charsmap must be the size of"),
    (SENTENCES, "precompiled_charsmap", "", 4, "precompiled_charsmap must be a list"),
    (BYTES, "precompiled_charsmap", bytes(7), 2, "precompiled_charsmap is not run"),
    (SENTENCES, "wordy", 1, 2, 'the key "tokenizer.ggml.wordy" is not known here'),
    (BYTES, "wordy", 1, 2, 'the key "tokenizer.ggml.wordy" is not known here'),
    (BYTES, "add_space_prefix", True, 2, "add_space_prefix must be false: nothing else is run"),
    (BYTES, "add_sep_token", True, 2, "add_sep_token must be false: nothing else is run"),
    (BYTES, "normalizer.lowercase", True, 2, "normalizer.lowercase must be false: nothing else is run"),
    (BYTES, "add_bos_token", 1, 4, "tokenizer.ggml.add_bos_token must be true or false"),
    (BYTES, "bos_token_id", "1", 4, "tokenizer.ggml.bos_token_id must be a whole number"),
    (BYTES, "pre", 7, 4, "tokenizer.ggml.pre must be a text"),
    (BYTES, "merges", "t h", 4, "tokenizer.ggml.merges must be a list"),
    (BYTES, "token_type", np.ones(3, np.int32), 4, "token_type must hold one i32 for each piece"),
    (BYTES, "token_type", np.ones(len(PIECES), np.float32), 4, "token_type must hold one i32 for each piece"),
    (BYTES, "token_type", np.full(len(PIECES), 7, np.int32), 2, "piece 0 is of no kind from 0 to 6"),
    (SENTENCES, "token_type", GONE, 4, "tokenizer.ggml.token_type must hold one i32 for each piece"),
    (SENTENCES, "token_type", np.ones(3, np.int32), 4, "token_type must hold one i32 for each piece"),
    (SENTENCES, "scores", GONE, 4, "tokenizer.ggml.scores must hold one f32 for each piece"),
    (SENTENCES, "scores", np.zeros(3, np.float32), 4, "scores must hold one f32 for each piece"),
    (SENTENCES, "scores", np.full(len(SCORED), np.nan, np.float32), 4, "is no number from -1e30 to 1e30"),
]  # fmt: skip


@pytest.mark.parametrize(("base", "key", "value", "code", "sentence"), ROWS)
def test_a_broken_list(
    tmp_path: Path, base: dict[str, Any], key: str, value: Any, code: int, sentence: str
) -> None:
    write(tmp_path / "model.gguf", {**base, f"tokenizer.ggml.{key}": value})
    done = run(tmp_path, "tokenize", "model.gguf", "--text", "ab")
    assert (done.returncode, sentence in done.stderr.decode()) == (code, True), done.stderr.decode()


@pytest.mark.parametrize(("end", "index"), [("bos", 1 << 20), ("bos", GONE), ("eos", GONE)])
def test_an_end_that_no_id_names(tmp_path: Path, end: str, index: Any) -> None:
    keys = {f"tokenizer.ggml.add_{end}_token": True, f"tokenizer.ggml.{end}_token_id": index}
    write(tmp_path / "model.gguf", {**BYTES, **keys})
    said = answer(tmp_path, "tokenize", "model.gguf", "--text", "ab", code=4)["error"]
    assert f"add_{end}_token is true, and tokenizer.ggml.{end}_token_id names no piece" in said


def test_a_begin_that_no_id_names(tmp_path: Path) -> None:
    """Texts of Llama 3 begin with a piece where the file does not say; one without its number is refused."""
    keys = {"tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.bos_token_id": GONE}
    write(tmp_path / "model.gguf", {**BYTES, **keys})
    said = answer(tmp_path, "tokenize", "model.gguf", "--text", "ab", code=4)["error"]
    assert "add_bos_token is true where it is not said, and tokenizer.ggml.bos_token_id names no" in said
    write(tmp_path / "model.gguf", {**BYTES, **keys, "tokenizer.ggml.add_bos_token": False})
    assert answer(tmp_path, "tokenize", "model.gguf", "--text", "the")["ids"] == [PIECES.index("the")]


@pytest.mark.parametrize("index", [GONE, len(SCORED), np.uint32(2**32 - 1)])
def test_pieces_of_sentencepiece_that_no_id_names(tmp_path: Path, index: Any) -> None:
    """Its numbers of <unk>, <s> and </s>, as in llama.cpp: 0, 1, 2 of BPE by scores; 2 and 1 of Unigram."""
    keys = dict.fromkeys(("bos_token_id", "eos_token_id", "unknown_token_id"), index)
    gone = {f"tokenizer.ggml.{key}": value for key, value in keys.items()}
    write(tmp_path / "model.gguf", {**SENTENCES, **gone, "tokenizer.ggml.add_eos_token": True})
    assert answer(tmp_path, "tokenize", "model.gguf", "--text", "abx")["ids"] == [1, 6, 0, 2]
    kinds = {"tokenizer.ggml.token_type": np.array([3, 3, 2, 1, 1, 1, 1], np.int32)}
    write(tmp_path / "model.gguf", {**SENTENCES, **gone, **kinds, "tokenizer.ggml.model": "t5"})
    assert answer(tmp_path, "tokenize", "model.gguf", "--text", "abx")["ids"] == [4, 5, 2, 1]


def test_keys_without_effect(tmp_path: Path) -> None:
    idle = {
        "ggml.padding_token_id": 1, "ggml.mask_token_id": 1, "ggml.eot_token_id": 1,
        "ggml.fim_pre_token_id": 1, "ggml.token_type_count": 2, "ggml.add_sep_token": False,
        "ggml.add_space_prefix": False, "ggml.scores": np.zeros(3, np.float32), "chat_template": "x",
        "chat_template.tool": "y", "huggingface.json": "{}",
    }  # fmt: skip
    write(tmp_path / "model.gguf", {**BYTES, **{f"tokenizer.{key}": value for key, value in idle.items()}})
    assert answer(tmp_path, "tokenize", "model.gguf", "--text", "the")["ids"] == [PIECES.index("the")]


def test_scored_pieces_are_read(tmp_path: Path) -> None:
    write(tmp_path / "model.gguf", {**SENTENCES, "tokenizer.ggml.remove_extra_whitespaces": False})
    assert answer(tmp_path, "tokenize", "model.gguf", "--text", "ab a")["ids"] == [1, 6, 3, 4]
    # A kind that nobody said is the ordinary one.
    odd = np.array([2, 3, 3, 1, 0, 0, 1], np.int32)
    write(tmp_path / "model.gguf", {**SENTENCES, "tokenizer.ggml.token_type": odd})
    assert answer(tmp_path, "tokenize", "model.gguf", "--text", "ab a")["ids"] == [1, 6, 3, 4]
