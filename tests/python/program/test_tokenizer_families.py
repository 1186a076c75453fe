"""The tokenizers of today's models: their steps as tokenizer.json has them, over small trained vocabularies,
against the package `tokenizers` on drawn texts in many scripts, ids and decoded texts."""

from __future__ import annotations

import functools
import io
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import spec
import test_gguf_tokenizers
import token_texts
from program import ROOT, answer, run
from test_sentencepiece import field
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

BLANK = "\u2581"
SHORT = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"
LETTERS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
UPPER_LOWER = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
UPPERS = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
LLAMA3 = rf"{SHORT}|{LETTERS}|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{TAIL}"
QWEN2 = rf"{SHORT}|{LETTERS}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{TAIL}"
QWEN35 = (
    rf"{SHORT}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{TAIL}"
)
O200K = rf"{UPPER_LOWER}{SHORT}?|{UPPERS}{SHORT}?|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{TAIL}"
TEKKEN = rf"{UPPER_LOWER}|{UPPERS}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{TAIL}"
DEEPSEEK = [
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{TAIL}",
]
CODER = [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥\u0800-一가-\ud7ff]+"]
CASED = [r"[\r\n]", r"\s?[\p{Lu}\p{Ll}\p{Lt}]+", "\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+", r"\s+$", CODER[3]]
BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"
CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
Bytes = functools.partial(pre_tokenizers.ByteLevel, add_prefix_space=False)
Metaspace = pre_tokenizers.Metaspace


@functools.cache
def trained(kind: str) -> str:
    """The member "model" of a tokenizer that was trained on drawn texts."""
    special = ["<unk>", "<s>", "</s>"]
    options: dict[str, Any] = {"show_progress": False, "special_tokens": special}
    tokenizer = Tokenizer(models.Unigram() if kind == "unigram" else models.BPE(unk_token="<unk>"))
    if kind == "bytes":
        tokenizer.pre_tokenizer = Bytes()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer: Any = trainers.BpeTrainer(vocab_size=900, initial_alphabet=alphabet, **options)
    elif kind == "unigram":
        tokenizer.normalizer = normalizers.Precompiled(charsmap("nmt_nfkc"))
        tokenizer.pre_tokenizer = Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=900, unk_token="<unk>", **options)
    else:
        more: dict[str, Any] = {"end_of_word_suffix": "</w>"} if kind == "suffix" else {}
        more = {"continuing_subword_prefix": "##"} if kind == "prefix" else more
        tokenizer = Tokenizer(models.BPE(unk_token="<unk>", **more))
        # Fewer letters than there are, so that some become bytes or the unknown piece.
        tokenizer.normalizer = normalizers.Replace(" ", BLANK)
        tokenizer.pre_tokenizer = pre_tokenizers.Split(BLANK, "merged_with_next")
        trainer = trainers.BpeTrainer(vocab_size=700, limit_alphabet=150, **options, **more)
    tokenizer.train_from_iterator(token_texts.corpus(), trainer)
    return json.dumps(json.loads(tokenizer.to_str())["model"])


@functools.cache
def model_of(rule: str, **options: Any) -> bytes:
    out = io.BytesIO()
    settings = {"vocab_size": 700, "minloglevel": 2, "hard_vocab_limit": False, "num_threads": 1, **options}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(token_texts.corpus()),
        model_writer=out,
        normalization_rule_name=rule,
        **settings,
    )
    return out.getvalue()


def number_at(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
        if byte < 128:
            return value, at


def members(data: bytes, wanted: int) -> list[bytes]:
    """The fields of that number of a message of protocol buffers, those that hold bytes."""
    found, at = [], 0
    while at < len(data):
        tag, at = number_at(data, at)
        size = {1: 8, 5: 4}.get(tag & 7)
        if tag & 7 == 0:
            _, at = number_at(data, at)
            continue
        if size is None:
            size, at = number_at(data, at)
        if tag >> 3 == wanted:
            found.append(data[at : at + size])
        at += size
    return found


def numbered(data: bytes) -> Iterator[tuple[int, int]]:
    """The fields of a message that are numbers."""
    at = 0
    while at < len(data):
        tag, at = number_at(data, at)
        value, at = (0, at) if tag & 7 in (1, 5) else number_at(data, at)
        at += {0: 0, 1: 8, 2: value, 5: 4}[tag & 7]
        if tag & 7 == 0:
            yield tag >> 3, value


@functools.cache
def charsmap(rule: str) -> bytes:
    return members(members(model_of(rule, model_type="bpe"), 3)[0], 2)[0]


def with_model(kind: str, fallback: bool = False, **settings: Any) -> Tokenizer:
    model = json.loads(trained(kind))
    if fallback:
        names = [f"<0x{byte:02X}>" for byte in range(256)]
        if kind == "unigram":
            model["vocab"] += [[name, -30.0] for name in names]
        else:
            model["vocab"].update({name: len(model["vocab"]) + k for k, name in enumerate(names)})
        model["byte_fallback"] = True
    model.update(settings)
    return Tokenizer.from_str(json.dumps({"added_tokens": [], "model": model}))


def put(
    tokenizer: Tokenizer, normal: Any, cut: Any, decoder: Any, post: Any = None, added: Any = ()
) -> Tokenizer:
    for name, step in (
        ("normalizer", normal),
        ("pre_tokenizer", cut),
        ("decoder", decoder),
        ("post_processor", post),
    ):
        if step is not None:
            setattr(tokenizer, name, step)
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.add_tokens(list(added))
    return tokenizer


def begin(sequence: str = "<s> $A") -> Any:
    return processors.TemplateProcessing(single=sequence, special_tokens=[("<s>", 1), ("</s>", 2)])


def pieces_of(*steps: Any) -> Any:
    """The decoder of models of SentencePiece."""
    return decoders.Sequence([decoders.Replace(BLANK, " "), decoders.ByteFallback(), decoders.Fuse(), *steps])


def scored(normal: Any, cut: Any, *, front: bool, **settings: Any) -> Tokenizer:
    """BPE on characters with bytes for those that have no piece: Llama 2, Mistral, Gemma, Phi 3."""
    chosen = {"fallback": True, "fuse_unk": True, **settings}
    strip = [decoders.Strip(" ", 1, 0)] if front else []
    added = [
        AddedToken("[INST]", normalized=False),
        AddedToken("naïve", normalized=True),
        AddedToken("fox", rstrip=True),
    ]
    return put(with_model("characters", **chosen), normal, cut, pieces_of(*strip), begin(), added)


def patterned(
    *patterns: str, digits: bool = False, normal: Any = None, post: Any = None, **settings: Any
) -> Tokenizer:
    """Byte-level BPE of words that regular expressions cut."""
    steps: list[Any] = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    steps += [pre_tokenizers.Digits(individual_digits=True)] if digits else []
    cut = pre_tokenizers.Sequence([*steps, Bytes(use_regex=False)])
    return put(with_model("bytes", **settings), normal, cut, decoders.ByteLevel(), post)


def bytes_after(*steps: Any, normal: Any = None, post: Any = None) -> Tokenizer:
    cut = pre_tokenizers.Sequence([*steps, Bytes()]) if steps else Bytes()
    return put(with_model("bytes"), normal, cut, decoders.ByteLevel(), post)


def unigram(normal: Any, cut: Any, decoder: Any, post: Any = None, **settings: Any) -> Tokenizer:
    return put(with_model("unigram", **settings), normal, cut, decoder, post)


def words(model: Any, normal: Any, cut: Any, decoder: Any = None) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer, tokenizer.pre_tokenizer = normal, cut
    texts = token_texts.corpus()
    special: dict[str, Any] = {"show_progress": False, "special_tokens": ["[UNK]", "<s>", "</s>"]}
    kind = trainers.WordLevelTrainer if isinstance(model, models.WordLevel) else trainers.WordPieceTrainer
    tokenizer.train_from_iterator(texts, kind(vocab_size=700, **special))
    return put(tokenizer, None, None, decoder)


def sequence(*steps: Any) -> Any:
    return (normalizers if isinstance(steps[0], normalizers.Normalizer) else pre_tokenizers).Sequence(
        list(steps)
    )


def t5() -> Any:
    steps = [normalizers.Strip(left=False), normalizers.Replace(Regex(" {2,}"), BLANK)]
    return normalizers.Sequence([normalizers.Precompiled(charsmap("nmt_nfkc")), *steps])


def albert() -> Any:
    steps = [
        normalizers.Replace("``", '"'),
        normalizers.NFKD(),
        normalizers.StripAccents(),
        normalizers.Lowercase(),
    ]
    return normalizers.Sequence([*steps, normalizers.Precompiled(charsmap("nmt_nfkc"))])


def blanks() -> Any:
    return normalizers.Replace(" ", BLANK)


FALCON = (
    pre_tokenizers.Punctuation("contiguous"),
    Bytes(),
    pre_tokenizers.Digits(individual_digits=False),
    pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated"),
)
FAMILIES: dict[str, Callable[[], Tokenizer]] = {
    "Llama 2": lambda: scored(sequence(normalizers.Prepend(BLANK), blanks()), None, front=True),
    "Mistral": lambda: scored(None, Metaspace(prepend_scheme="first", split=False), front=True),
    "Phi 3": lambda: scored(sequence(normalizers.Prepend(BLANK), blanks()), None, front=True, fuse_unk=False),
    "Gemma": lambda: scored(blanks(), pre_tokenizers.Split(" ", "merged_with_previous"), front=False),
    "Mistral, later": lambda: scored(None, Metaspace(prepend_scheme="always"), front=True, fallback=False),
    "Llama 3": lambda: patterned(
        LLAMA3, ignore_merges=True, post=processors.Sequence([processors.ByteLevel(), begin()])
    ),
    "Qwen 2": lambda: patterned(QWEN2, normal=normalizers.NFC(), post=processors.ByteLevel()),
    "Qwen 3.5": lambda: patterned(QWEN35, normal=normalizers.NFC()),
    "gpt-oss": lambda: patterned(O200K, ignore_merges=True, post=begin()),
    "Mistral tekken": lambda: patterned(TEKKEN, ignore_merges=True, post=begin()),
    "DeepSeek V3": lambda: patterned(*DEEPSEEK, post=begin()),
    "DeepSeek coder": lambda: patterned(*CODER, digits=True),
    "DeepSeek LLM": lambda: patterned(*CASED, digits=True),
    "BLOOM": lambda: patterned(BLOOM),
    "OLMo 2": lambda: patterned(LLAMA3),
    "Falcon": lambda: put(with_model("bytes"), None, sequence(*FALCON), decoders.ByteLevel()),
    "GPT-NeoX": lambda: bytes_after(normal=normalizers.NFC(), post=begin()),
    "ModernBERT": lambda: bytes_after(normal=normalizers.NFC(), post=begin("<s> $A </s>")),
    "StarCoder": lambda: bytes_after(pre_tokenizers.Digits(individual_digits=True)),
    "OPT": lambda: bytes_after(post=begin()),
    "RoBERTa": lambda: bytes_after(post=processors.RobertaProcessing(("</s>", 2), ("<s>", 1))),
    "CLIP": lambda: put(
        with_model("suffix"),
        sequence(normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()),
        sequence(pre_tokenizers.Split(Regex(CLIP), "removed", invert=True), Bytes()),
        decoders.ByteLevel(),
    ),
    "GPT": lambda: put(
        with_model("suffix"),
        normalizers.BertNormalizer(),
        pre_tokenizers.BertPreTokenizer(),
        decoders.BPEDecoder(),
    ),
    "prefixes": lambda: put(with_model("prefix"), None, pre_tokenizers.WhitespaceSplit(), None),
    "T5": lambda: unigram(t5(), Metaspace(), decoders.Metaspace(), begin("$A </s>")),
    "XLM-R": lambda: unigram(
        normalizers.Precompiled(charsmap("nmt_nfkc")),
        sequence(pre_tokenizers.WhitespaceSplit(), Metaspace()),
        decoders.Metaspace(),
        begin("<s> $A </s>"),
    ),
    "ALBERT": lambda: unigram(albert(), Metaspace(), decoders.Metaspace()),
    "Unigram with bytes": lambda: unigram(
        sequence(normalizers.Nmt(), normalizers.Strip()),
        Metaspace(prepend_scheme="first"),
        decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")]),
        fallback=True,
    ),
    "scripts": lambda: unigram(None, sequence(pre_tokenizers.UnicodeScripts(), Metaspace()), None),
    "bytes before": lambda: put(
        with_model("bytes"),
        normalizers.ByteLevel(),
        pre_tokenizers.Split("Ġ", "merged_with_next"),
        decoders.ByteLevel(),
    ),
    "delimiters": lambda: put(
        with_model("characters"),
        None,
        sequence(pre_tokenizers.CharDelimiterSplit("о"), pre_tokenizers.FixedLength(length=3)),
        None,
    ),
    "MPNet": lambda: words(
        models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=9),
        normalizers.BertNormalizer(strip_accents=False),
        pre_tokenizers.BertPreTokenizer(),
        decoders.WordPiece(cleanup=False),
    ),
    "whole words": lambda: words(
        models.WordLevel(unk_token="[UNK]"), normalizers.NFKC(), pre_tokenizers.Whitespace()
    ),
}


def ids_of(folder: Path, model: str, text: str, *flags: str) -> list[int]:
    (folder / "text").write_bytes(text.encode())
    return answer(folder, "tokenize", model, "text", *flags)["ids"]


def decoded(folder: Path, model: str, ids: list[int], *flags: str) -> str:
    (folder / "ids").write_text(" ".join(map(str, ids)))
    done = run(folder, "tokenize", model, "ids", "--decode", *flags)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode(errors="replace")


def texts_of(name: str, count: int) -> list[str]:
    """A long text and some short ones."""
    source = random.Random(name)
    return [
        "".join(token_texts.draw(source) for _ in range(400)),
        *(token_texts.draw(source) for _ in range(count)),
    ]


@pytest.mark.parametrize("name", FAMILIES)
def test_ids_and_texts_of_a_family(tmp_path: Path, name: str) -> None:
    tokenizer = FAMILIES[name]()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    for number, text in enumerate(texts_of(name, 4)):
        bare = number % 2 == 1
        flags = ["--no-special"] if bare else []
        wanted = tokenizer.encode(text, add_special_tokens=not bare).ids
        spec.check("TOT-66", ids_of(tmp_path, "tokenizer.json", text, *flags) != wanted, 0)
        assert decoded(tmp_path, "tokenizer.json", wanted, *flags) == tokenizer.decode(
            wanted, skip_special_tokens=bare
        )


USERS = ["<b>", "foo bar", BLANK * 2, "ñ", "Ⅷ", "ﬁ"]
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "unigram": ("nmt_nfkc", {"model_type": "unigram", "character_coverage": 0.99}),
    "unigram with bytes": (
        "nfkc_cf",
        {"model_type": "unigram", "byte_fallback": True, "character_coverage": 0.98},
    ),
    "unigram as it is": (
        "identity",
        {
            "model_type": "unigram",
            "add_dummy_prefix": False,
            "remove_extra_whitespaces": False,
            "user_defined_symbols": ",".join(USERS),
            "character_coverage": 0.98,
        },
    ),
    "bpe": ("nmt_nfkc", {"model_type": "bpe", "character_coverage": 0.98}),
    "bpe of Llama 2": (
        "identity",
        {
            "model_type": "bpe",
            "byte_fallback": True,
            "remove_extra_whitespaces": False,
            "character_coverage": 0.98,
        },
    ),
    "bpe with users": (
        "nmt_nfkc_cf",
        {"model_type": "bpe", "byte_fallback": True, "user_defined_symbols": ",".join(USERS)},
    ),
    "characters": ("nmt_nfkc", {"model_type": "char", "character_coverage": 0.98}),
    "characters with bytes and users": (
        "identity",
        {
            "model_type": "char",
            "byte_fallback": True,
            "remove_extra_whitespaces": False,
            "user_defined_symbols": ",".join(USERS),
            "character_coverage": 0.98,
        },
    ),
}


# What files of gguf have no word for.
FILES: dict[str, tuple[str, dict[str, Any]]] = {
    **MODELS,
    "words": ("nmt_nfkc", {"model_type": "word"}),
    "words with bytes and users": (
        "identity",
        {
            "model_type": "word",
            "byte_fallback": True,
            "remove_extra_whitespaces": False,
            "user_defined_symbols": ",".join([*USERS, BLANK, BLANK + "the"]),
        },
    ),
    "words without a blank in front": (
        "nfkc_cf",
        {"model_type": "word", "add_dummy_prefix": False, "treat_whitespace_as_suffix": True},
    ),
    "unigram with a blank of a user": (
        "nmt_nfkc",
        {"model_type": "unigram", "user_defined_symbols": " ,<b>"},
    ),
    "bpe with a blank of a user": ("nmt_nfkc", {"model_type": "bpe", "user_defined_symbols": " ,a b"}),
    "unigram with blanks behind": ("nmt_nfkc", {"model_type": "unigram", "treat_whitespace_as_suffix": True}),
    "bpe with blanks behind": (
        "identity",
        {
            "model_type": "bpe",
            "byte_fallback": True,
            "treat_whitespace_as_suffix": True,
            "remove_extra_whitespaces": False,
            "character_coverage": 0.98,
        },
    ),
    "characters with blanks behind": ("nmt_nfkc", {"model_type": "char", "treat_whitespace_as_suffix": True}),
    "words with blanks behind": ("nmt_nfkc", {"model_type": "word", "treat_whitespace_as_suffix": True}),
}


@pytest.mark.parametrize("name", FILES)
def test_models_of_sentencepiece(tmp_path: Path, name: str) -> None:
    """tokenizer.model against the package that trained it, which reads <s> in a text as characters."""
    rule, options = FILES[name]
    (tmp_path / "tokenizer.model").write_bytes(model_of(rule, **options))
    peer = sentencepiece.SentencePieceProcessor(model_proto=model_of(rule, **options))
    for text in [*texts_of(name, 5), "", " ", "   \n ", "the the  zz zz the"]:
        wanted = peer.encode(text)
        spec.check("TOT-66", ids_of(tmp_path, "tokenizer.model", text, "--plain") != wanted, 0)
        # The package writes a sign for what is unknown.
        assert decoded(tmp_path, ".", wanted) == peer.decode(wanted).replace(" \u2047 ", "<unk>")


@pytest.mark.parametrize("name", ["unigram", "unigram as it is"])
def test_sums_of_long_texts(tmp_path: Path, name: str) -> None:
    """Scores are added in f32, anew from where they are far from 0: their roundings choose ids."""
    rule, options = MODELS[name]
    (tmp_path / "tokenizer.model").write_bytes(model_of(rule, **options))
    peer = sentencepiece.SentencePieceProcessor(model_proto=model_of(rule, **options))
    source = random.Random(3)
    text = "".join(token_texts.draw(source) for _ in range(6000))
    spec.check("TOT-66", ids_of(tmp_path, "tokenizer.model", text, "--plain") != peer.encode(text), 0)


def lists_of_model(data: bytes) -> dict[str, Any]:
    """The lists of a gguf file of a model of SentencePiece, as llama.cpp converts it."""
    peer = sentencepiece.SentencePieceProcessor(model_proto=data)
    rows = [dict(numbered(piece)) for piece in members(data, 1)]
    return {
        "tokenizer.ggml.tokens": [peer.id_to_piece(k) for k in range(len(rows))],
        "tokenizer.ggml.scores": np.array([peer.get_score(k) for k in range(len(rows))], np.float32),
        "tokenizer.ggml.token_type": np.array([row.get(3, 1) for row in rows], np.int32),
        "tokenizer.ggml.unknown_token_id": peer.unk_id(),
        "tokenizer.ggml.bos_token_id": peer.bos_id(),
        "tokenizer.ggml.eos_token_id": peer.eos_id(),
    }


@pytest.mark.parametrize("name", MODELS)
def test_models_of_sentencepiece_in_gguf_files(tmp_path: Path, name: str) -> None:
    """The same lists and the same normalisation; BPE by scores begins a text, Unigram ends one."""
    rule, options = MODELS[name]
    data = model_of(rule, **options)
    peer = sentencepiece.SentencePieceProcessor(model_proto=data)
    unigram = options["model_type"] == "unigram"
    pairs = {
        **lists_of_model(data),
        "tokenizer.ggml.model": "t5" if unigram else "llama",
        "tokenizer.ggml.add_space_prefix": options.get("add_dummy_prefix", True),
        "tokenizer.ggml.remove_extra_whitespaces": options.get("remove_extra_whitespaces", True),
    }
    found = members(members(data, 3)[0], 2)
    if found:
        pairs["tokenizer.ggml.precompiled_charsmap"] = found[0]
    test_gguf_tokenizers.write(tmp_path / "model.gguf", pairs)
    for text in texts_of(name, 3):
        wanted = [*peer.encode(text), 2] if unigram else [1, *peer.encode(text)]
        spec.check("TOT-66", ids_of(tmp_path, "model.gguf", text, "--plain") != wanted, 0)


def test_what_a_gguf_file_does_not_say(tmp_path: Path) -> None:
    """BPE by scores has a blank in front and keeps runs of blanks."""
    rule, options = MODELS["bpe of Llama 2"]
    data = model_of(rule, **options)
    peer = sentencepiece.SentencePieceProcessor(model_proto=data)
    test_gguf_tokenizers.write(
        tmp_path / "model.gguf", {**lists_of_model(data), "tokenizer.ggml.model": "llama"}
    )
    for text in texts_of("unsaid", 3):
        assert ids_of(tmp_path, "model.gguf", text, "--plain") == [1, *peer.encode(text)]


PRE: dict[str, tuple[str, bool, bool]] = {
    "qwen2": ("Qwen 2", False, False),
    "deepseek-r1-qwen": ("Qwen 2", False, False),
    "qwen35": ("Qwen 3.5", False, False),
    "gpt-4o": ("gpt-oss", False, False),
    "llama4": ("gpt-oss", False, False),
    "tekken": ("Mistral tekken", True, True),
    "deepseek-v3": ("DeepSeek V3", False, False),
    "deepseek-coder": ("DeepSeek coder", False, False),
    "deepseek-llm": ("DeepSeek LLM", False, False),
    "falcon": ("Falcon", False, False),
    "bloom": ("BLOOM", False, False),
    "olmo": ("OPT", False, False),
    "mpt": ("OPT", False, False),
    "dbrx": ("OLMo 2", False, False),
    "llama-bpe": ("Llama 3", True, True),
    "falcon3": ("Llama 3", True, True),
    "starcoder": ("StarCoder", False, False),
    "command-r": ("StarCoder", False, False),
    "stablelm2": ("Qwen 2", False, False),
}


@pytest.mark.parametrize("pre", PRE)
def test_pre_tokenizers_of_gguf_files(tmp_path: Path, pre: str) -> None:
    """The steps of the family that the name stands for, without its normalisation."""
    family, whole, begins = PRE[pre]
    tree = json.loads(FAMILIES[family]().to_str())
    tree.update(normalizer=None, post_processor=None)
    tree["model"]["ignore_merges"] = whole
    tokenizer = Tokenizer.from_str(json.dumps(tree))
    vocabulary = tree["model"]["vocab"]
    test_gguf_tokenizers.write(
        tmp_path / "model.gguf",
        {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": pre,
            "tokenizer.ggml.tokens": sorted(vocabulary, key=lambda piece: vocabulary[piece]),
            "tokenizer.ggml.token_type": np.array([2, 3, 3, *[1] * (len(vocabulary) - 3)], np.int32),
            "tokenizer.ggml.merges": [" ".join(pair) for pair in tree["model"]["merges"]],
            "tokenizer.ggml.bos_token_id": 1,
        },
    )
    for text in texts_of(pre, 2):
        wanted = [*([1] if begins else []), *tokenizer.encode(text).ids]
        spec.check("TOT-66", ids_of(tmp_path, "model.gguf", text) != wanted, 0)


def test_every_pre_tokenizer_that_is_named_cuts(tmp_path: Path) -> None:
    source = (ROOT / "models" / "tokenizer" / "model_tokenizer.c").read_text("utf-8")
    rows = source.split("} pre_rows[] = {")[1].split("};")[0]
    names = [
        name for row in rows.split("{")[1:] for name in "".join(re.findall(r'"([^"]*)"', row)[1:]).split()
    ]
    assert len(names) > 60 and {"deepseek-llm", "default", "llada-moe"} <= set(names)
    bytes_of = test_gguf_tokenizers.BYTES
    (tmp_path / "text").write_text(" ".join(token_texts.SCRIPTS.values()), "utf-8")
    for name in names:
        test_gguf_tokenizers.write(tmp_path / "model.gguf", {**bytes_of, "tokenizer.ggml.pre": name})
        assert answer(tmp_path, "tokenize", "model.gguf", "text")["ids"], name


def test_a_folder_with_a_model(tmp_path: Path) -> None:
    """Llama's class begins a text, and another class is refused."""
    rule, options = MODELS["bpe of Llama 2"]
    (tmp_path / "tokenizer.model").write_bytes(model_of(rule, **options))
    ids = ids_of(tmp_path, ".", "the fox")
    for config, wanted in (
        ({"tokenizer_class": "LlamaTokenizer"}, [1, *ids]),
        ({"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": False, "add_eos_token": True}, [*ids, 2]),
        ({"add_eos_token": True}, [*ids, 2]),
    ):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
        assert ids_of(tmp_path, ".", "the fox") == wanted, config
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "T5Tokenizer"}')
    done = run(tmp_path, "tokenize", ".", "--text", "a")
    assert done.returncode == 2 and b"is not run on tokenizer.model" in done.stderr


PIECE = field(1, b"<unk>") + field(3, 2)
REFUSED: list[tuple[bytes, int, str]] = [
    (b"", 4, "there are no pieces"),
    (b"\xff" * 20, 4, "no field of a message lies here"),
    (field(1, PIECE)[:-1], 4, "no field of a message lies here"),
    (field(1, field(3, 9)), 4, "a piece is a text, a score and a kind from 1 to 6"),
    (field(1, field(1, b"a")), 4, "one piece must be of kind 2, unknown"),
    (
        field(1, PIECE) + field(2, field(3, 5)),
        2,
        "model_type of trainer_spec is none of 1, Unigram, 2, BPE, 3, words, and 4, characters",
    ),
    (
        field(1, PIECE) + field(2, field(35, 1)),
        4,
        "byte_fallback must be true where there are pieces of bytes",
    ),
    (field(1, PIECE) + field(3, field(5, 0)), 2, "escape_whitespaces: false is not run"),
    (field(1, PIECE) + field(3, field(9, 0)), 2, "a field of normalizer_spec is not known here"),
    (field(1, PIECE) + field(3, field(2, b"1234")), 4, "precompiled_charsmap must be the size of an array"),
    (field(1, PIECE) + field(5, field(2, b"1234")), 2, "a denormalizer_spec with replacements is not run"),
    (field(1, PIECE) + field(7, b""), 2, "a field of the model is not known here"),
    (field(1, PIECE) * 2, 4, 'piece "<unk>" is there twice'),
    (field(1, PIECE) + field(1, b""), 4, "a piece must not be empty"),
    (
        field(1, PIECE) + field(1, field(1, b"a") + field(2, float("nan"))),
        4,
        "is no number from -1e30 to 1e30",
    ),
]


@pytest.mark.parametrize(("data", "code", "sentence"), REFUSED)
def test_a_broken_model(tmp_path: Path, data: bytes, code: int, sentence: str) -> None:
    (tmp_path / "tokenizer.model").write_bytes(data)
    done = run(tmp_path, "tokenize", "tokenizer.model", "--text", "a")
    assert (done.returncode, sentence in done.stderr.decode()) == (code, True), done.stderr.decode()
    assert done.stderr.count(b"\n") == 1
