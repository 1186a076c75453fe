"""gguf's kinds `rwkv`, against the package of that name and its vocabulary, and `plamo2`, against a rule."""

from __future__ import annotations

import ast
import functools
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rwkv
import spec
import token_texts
from program import answer, run
from rwkv.rwkv_tokenizer import TRIE_TOKENIZER
from test_gguf_tokenizers import write
from test_tokenizer_families import decoded, ids_of, texts_of

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)
OWN = Path(rwkv.__file__).parent / "rwkv_vocab_v20230424.txt"

# ---- rwkv ----


def escaped(piece: bytes) -> str:
    """As llama.cpp's converter writes it."""
    return repr(piece)[2:-1]


def rwkv_pairs(pieces: list[bytes], unused: int = 2) -> dict[str, Any]:
    texts = ["<s>", *map(escaped, pieces), *(f"[PAD{k}]" for k in range(unused))]
    kinds = [CONTROL, *[NORMAL] * len(pieces), *[UNUSED] * unused]
    return {
        "tokenizer.ggml.model": "rwkv", "tokenizer.ggml.tokens": texts,
        "tokenizer.ggml.token_type": np.array(kinds, np.int32), "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 0,
    }  # fmt: skip


def compare_rwkv(folder: Path, peer: TRIE_TOKENIZER, texts: list[str]) -> None:
    for text in texts:
        wanted = peer.encode(text)
        spec.check("TOT-66", ids_of(folder, "model.gguf", text, "--plain") != wanted, 0)
        assert decoded(folder, "model.gguf", wanted) == text


def test_rwkvs_own_vocabulary(tmp_path: Path) -> None:
    rows = [line.split(" ", 1)[1].rsplit(" ", 1)[0] for line in OWN.read_text("utf-8").splitlines()]
    pieces = [ast.literal_eval(row) for row in rows]
    write(tmp_path / "model.gguf", rwkv_pairs([p.encode() if isinstance(p, str) else p for p in pieces]))
    compare_rwkv(tmp_path, TRIE_TOKENIZER(OWN), [*texts_of("rwkv", 2), "a<s>[PAD0]'\\\"\\x41"])
    assert ids_of(tmp_path, "model.gguf", "<s>a<s>")[::2] == [0, 0]


def test_drawn_pieces_of_bytes(tmp_path: Path) -> None:
    """Pieces that begin and end within characters; what no character is stays what it is."""
    source = random.Random(4)
    pieces = [bytes([byte]) for byte in range(256)]
    for text in token_texts.corpus(200):
        data = text.encode()
        at = source.randrange(len(data))
        pieces.append(data[at : at + source.randrange(2, 7)])
    pieces = list(dict.fromkeys([*pieces, b"a\xe4", b"\xff\xfeb"]))
    write(tmp_path / "model.gguf", rwkv_pairs(pieces))
    lines = [f"{k + 1} {piece!r} {len(piece)}\n" for k, piece in enumerate(pieces)]
    (tmp_path / "vocab.txt").write_text("".join(lines))
    peer = TRIE_TOKENIZER(tmp_path / "vocab.txt")
    compare_rwkv(tmp_path, peer, texts_of("drawn pieces", 3))
    data = b"a\xe4\xff\xfeb\xe4\xb8a\xe4"
    (tmp_path / "text").write_bytes(data)
    assert answer(tmp_path, "tokenize", "model.gguf", "text")["ids"] == peer.encodeBytes(data)


def test_bytes_without_a_piece(tmp_path: Path) -> None:
    pairs = rwkv_pairs([b"a", b"ab", b"abcd", b"c"])
    write(tmp_path / "model.gguf", pairs)
    assert ids_of(tmp_path, "model.gguf", "abcabcda.c") == [2, 4, 3, 1, 4]
    write(tmp_path / "model.gguf", {**pairs, "tokenizer.ggml.unknown_token_id": 5})
    assert ids_of(tmp_path, "model.gguf", "abcabcda.c") == [2, 4, 3, 1, 5, 4]
    write(tmp_path / "model.gguf", {**pairs, "tokenizer.ggml.add_bos_token": True})
    assert ids_of(tmp_path, "model.gguf", "a") == [0, 1]


@pytest.mark.parametrize("piece", ["\\", "a\\", "\\x", "\\x4", "\\x4g", "\\xg4"])
def test_broken_escapes(tmp_path: Path, piece: str) -> None:
    pairs = rwkv_pairs([b"a", b"b"])
    pairs["tokenizer.ggml.tokens"][2] = piece
    write(tmp_path / "model.gguf", pairs)
    said = answer(tmp_path, "tokenize", "model.gguf", "--text", "a", code=4)["error"]
    assert "piece 2 has a backslash without one of t, n, r" in said


# ---- plamo2 ----

SPECIAL = ["<|plamo:unk|>", "<|plamo:bos|>", "<|plamo:eos|>", "<|plamo:pad|>"]


def plamo_pairs(scored: dict[str, float]) -> dict[str, Any]:
    texts = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), *scored, "[PAD1]"]
    kinds = [UNKNOWN, *[CONTROL] * 3, *[BYTE] * 256, *[NORMAL] * len(scored), UNUSED]
    scores = [0.0] * 260 + [*scored.values(), -1000.0]
    return {
        "tokenizer.ggml.model": "plamo2", "tokenizer.ggml.pre": "default", "tokenizer.ggml.tokens": texts,
        "tokenizer.ggml.scores": np.array(scores, np.float32),
        "tokenizer.ggml.token_type": np.array(kinds, np.int32), "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_space_prefix": False,
    }  # fmt: skip


def plamo_ids(scored: dict[str, float], text: str) -> list[int]:
    """The cheapest way to write what begins at each place, from the right."""
    costs = {piece: -int(np.round(np.float64(np.float32(score)) * 1e4)) for piece, score in scored.items()}
    numbers = {piece: 260 + k for k, piece in enumerate(scored)}
    longest = max(map(len, scored))
    text = text.removeprefix("\ufeff")
    best: list[tuple[int, str]] = [(0, "")] * (len(text) + 1)
    for at in reversed(range(len(text))):
        ways = [
            (cost + best[at + size][0], text[at : at + size])
            for size in range(min(longest, len(text) - at), 0, -1)
            if (cost := costs.get(text[at : at + size], 20_000_000)) < 20_000_000
        ]
        # Among equal ones the first, which is the longest; bytes come last.
        ways.append((10_000_000 + best[at + 1][0], ""))
        best[at] = min(ways, key=lambda way: way[0])
    ids: list[int] = []
    at = 0
    while at < len(text):
        piece = best[at][1]
        ids += [numbers[piece]] if piece else [4 + byte for byte in text[at].encode()]
        at += len(piece) or 1
    return ids


@functools.cache
def drawn_scores(seed: int, *, ties: bool) -> dict[str, float]:
    source = random.Random(seed)
    scored: dict[str, float] = {}
    for text in [*token_texts.corpus(500), *token_texts.SCRIPTS.values()]:
        for _ in range(3):
            at = source.randrange(len(text))
            piece = text[at : at + source.choice([1, 1, 2, 3, 4, 8])].replace("\0", "")
            if piece and piece not in SPECIAL:
                choices = [-1.0, -2.0, -3.0] if ties else [source.uniform(-15, 0), source.gauss(-8, 3)]
                scored[piece] = source.choice([*choices, -2500.0, -1500.0] if len(piece) > 3 else choices)
    return scored


@pytest.mark.parametrize("ties", [False, True])
def test_plamo2(tmp_path: Path, ties: bool) -> None:
    scored = drawn_scores(3, ties=ties)
    write(tmp_path / "model.gguf", plamo_pairs(scored))
    for text in [*texts_of("plamo2", 4), "\ufeff\ufeffa\ufeff", "", "[PAD1]"]:
        wanted = plamo_ids(scored, text)
        spec.check("TOT-66", ids_of(tmp_path, "model.gguf", text, "--plain") != wanted, 0)
        assert decoded(tmp_path, "model.gguf", wanted) == text.removeprefix("\ufeff")
    ids = ids_of(tmp_path, "model.gguf", "a<|plamo:eos|>b")
    assert ids == [*plamo_ids(scored, "a"), 2, *plamo_ids(scored, "b")]
    # Bytes that are no characters are their pieces.
    (tmp_path / "text").write_bytes(b"\xff\x80a\xe4\xb8")
    ids = answer(tmp_path, "tokenize", "model.gguf", "text")["ids"]
    assert ids == [4 + 0xFF, 4 + 0x80, *plamo_ids(scored, "a"), 4 + 0xE4, 4 + 0xB8]
    # U+FEFF is left out at the beginning alone, not behind them.
    (tmp_path / "text").write_bytes("\ufeffa".encode() + b"\xff" + "\ufeffa".encode())
    ids = answer(tmp_path, "tokenize", "model.gguf", "text")["ids"]
    assert ids == [*plamo_ids(scored, "a"), 4 + 0xFF, *plamo_ids(scored, "x\ufeffa")[1:]]
    write(tmp_path / "model.gguf", {**plamo_pairs(scored), "tokenizer.ggml.add_bos_token": True})
    assert ids_of(tmp_path, "model.gguf", "") == [1]


ROWS: list[tuple[str, Any, int, str]] = [
    ("scores", np.zeros(3, np.float32), 4, "scores must hold one f32 for each piece"),
    ("scores", np.full(264, 2e5, np.float32), 2, "scores above 100000, or as what is unknown, -1000"),
    ("scores", np.full(264, -1000, np.float32), 2, "scores above 100000, or as what is unknown, -1000"),
    ("scores", np.full(264, np.inf, np.float32), 4, "is no number from -1e30 to 1e30"),
    ("token_type", np.ones(264, np.int32), 4, "PLaMo's pieces must hold the 256 of bytes"),
    ("token_type", np.array([*[BYTE] * 20, *[NORMAL] * 244]), 4, "of the 256 pieces of bytes are there"),
    ("add_space_prefix", True, 2, "add_space_prefix must be false: nothing else is run"),
    ("remove_extra_whitespaces", True, 2, "remove_extra_whitespaces must be false: nothing else is run"),
]


@pytest.mark.parametrize(("key", "value", "code", "sentence"), ROWS)
def test_broken_lists_of_plamo2(tmp_path: Path, key: str, value: Any, code: int, sentence: str) -> None:
    value = value.astype(np.int32) if key == "token_type" else value
    write(
        tmp_path / "model.gguf",
        {**plamo_pairs({"a": -1.0, "b": -2.0, "ab": -4.0}), f"tokenizer.ggml.{key}": value},
    )
    done = run(tmp_path, "tokenize", "model.gguf", "--text", "ab")
    assert (done.returncode, sentence in done.stderr.decode()) == (code, True), done.stderr.decode()
