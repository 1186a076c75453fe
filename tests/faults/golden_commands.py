"""The commands whose every call fails once, and what they read: arrays of every format, and models of a few
numbers with every kind of tokenizer."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python" / "program"))

import gguf_files  # noqa: E402

TEXT = "The harbour was quiet; the ferry, 17 minutes late, was not."


@dataclass(frozen=True)
class Command:
    """`outputs` are what it writes, files or folders. `exact`: standard output is the same in every run once
    times are taken out. `before`: a file that is there already and that -f replaces."""

    name: str
    words: str
    outputs: tuple[str, ...] = ()
    exact: bool = True
    before: bool = False
    standard_input: str = ""
    codes: tuple[int, ...] = ()  # exit codes of its own beside those of the kind
    goes_on: bool = False  # without a part that memory was refused for, which it says
    program: str = ""  # one that the tests built beside the stand-in, instead of otattn

    def arguments(self) -> list[str]:
        return [word.replace("~", " ") for word in self.words.split()]


def command(name: str, words: str, *outputs: str, **more: object) -> Command:
    return Command(name, words, tuple(outputs), **more)  # type: ignore[arg-type]


COMMANDS = [
    command("attend", "attend q.npy k.npy v.npy --method softmax/capped:2 --json -o out.npy", "out.npy"),
    command("attend over", "attend q.npy k.npy v.npy -f -o out.npy", "out.npy", before=True),
    command("attend stream", "attend - k.npy v.npy -o -", standard_input="q.npy"),
    command(
        "attend gradients",
        "attend q.npy k.npy v.npy --method entmax:1.5 --grad v.npy --grad-out g.npz --grad-parameters"
        " --coupling p.npy --receiver r.npy --row-potential f.npy --advantage a.npy -o out.npy --json",
        *("g.npz", "p.npy", "r.npy", "f.npy", "a.npy", "out.npy"),
    ),
    command(
        "attend archive", "attend b.npz:q b.npz:k b.npz:v --method online:3 --causal -o out.npy", "out.npy"
    ),
    command(
        "attend tensors",
        "attend b.safetensors:q b.safetensors:k b.safetensors:v --out-dtype f16 -o out.npy",
        "out.npy",
    ),
    command(
        "attend terms",
        "attend q.npy k.npy v.npy --mask mask.npy --bias s.npy --alibi auto --rope --softcap 20 --sink 0.5"
        " --lengths lengths.npy --dtype bf16 -o out.npy",
        "out.npy",
    ),
    command("plan", "plan s.npy --method sinkhorn --solver newton -o p.npy --json", "p.npy"),
    command("plan prefix", "plan s.npy --method prefix --threads 2 -o p.npy", "p.npy"),
    command(
        "plan transport",
        "plan s.npy --method hard/exact --row-mass row.npy --column-mass row.npy -o p.npy",
        "p.npy",
    ),
    command("plan order", "plan fortran.npy --cost --method relaxed:2 --rows relaxed:3 -o p.npy", "p.npy"),
    command("plan elastic", "plan big.npy --method elastic:0.5,4 --threads 2 -o p.npy", "p.npy"),
    command("plan deflated", "plan deflated.npz:s --method entmax:1.5/exact -o p.npy", "p.npy"),
    command("plan entries", "plan s.npy --entry-cap caps.npy -o p.npy", "p.npy"),
    command(
        "compare",
        "compare q.npy k.npy v.npy --methods softmax,sparsemax,sinkhorn,online:2 --json",
        goes_on=True,
    ),
    command("certify perturbed", "certify --scores s.npy --perturbed t.npy --values w.npy --json"),
    command("certify coupling", "certify --coupling coupling.npy --scores s.npy --json"),
    command("align", "align s.npy t.npy --json"),
    command("align least squares", "align s.npy t.npy --solver ls"),
    command("hamming", "hamming h.npy i.npy --epsilon 0.1 --json"),
    command("assign", "assign s.npy --json"),
    command("demo", "demo"),
    # It names the file of the tokenizer that can be read.
    command("info", "info gpt2 --json", exact=False),
    command("info folder", "info bert"),
    command("info gguf", "info gemma.gguf --json"),
    command("info parts", "info gemma-00001-of-00003.gguf --json"),
    command("tokenize", "tokenize gpt2 text.txt --json"),
    command("tokenize words", "tokenize bert text.txt --pieces"),
    command("tokenize pieces", "tokenize gemma.gguf --text The~quiet~sea --json"),
    command("tokenize back", "tokenize gpt2 --decode ids.txt"),
    command("capture", "capture gpt2 short.txt -o states.safetensors --json", "states.safetensors"),
    command(
        "capture edited",
        "capture bert --ids ids.npy --points all --method sparsemax@0 -o states.safetensors",
        "states.safetensors",
    ),
    command(
        "capture from a layer",
        "capture gpt2 --ids ids.npy --residual residual.npy --start-at-layer 1 --points logits"
        " -o states.safetensors",
        "states.safetensors",
    ),
    command(
        "capture weights",
        "capture gpt2 --ids ids.npy --weights 1:0 --scores 0 --receiver --edit attn.hook_pattern[key=0]*=0"
        " -o states.safetensors",
        "states.safetensors",
    ),
    command(
        "patch",
        "patch gpt2 --clean The~sea --corrupt The~sky --answer a --other e --point attn.hook_z -o p.html",
        "p.html",
    ),
    command("lens", "lens gpt2 --text The~sea -o lens.vl.json --json", "lens.vl.json"),
    command("generate", "generate gpt2 --prompt The~sea --tokens 3 --json"),
    command("generate drawn", "generate gemma.gguf --prompt The~sea --tokens 3 --sample --method online:4"),
    command("perplexity", "perplexity gpt2 text.txt --json"),
    command("perplexity exit", "perplexity gpt2 text.txt --context 16 --stride 8 --exit 0.5,1"),
    command(
        "analyze",
        "analyze gpt2 text.txt -o run --windows 2x8 --methods softmax,sparsemax --temperatures 0.5,1"
        " --bounds 1 --resume --threads 1",
        "run",
    ),
    command(
        "analyze again", "analyze gpt2 text.txt -o old --windows 2x8 --resume --json", "old", before=True
    ),
    command("report", "report old -o page.html", "page.html"),
    command("report compare", "report old --compare old -o both.html --json", "both.html"),
    command("verify", "verify --only CETA-02 --json", codes=(3,)),
    command("verify page", "verify --only ELA-09 -o page.html", "page.html", codes=(3,), goes_on=True),
    command("doctor", "doctor --json", exact=False),
    command("bench", "bench --random 4 --json", exact=False),
    command("help", "help methods"),
    command("completions", "completions bash"),
    # Models and tokenizers by their C calls.
    *(
        command(f"calls {name}", words, program="model_calls")
        for name, words in {
            "gpt2": "model gpt2",
            "bert": "model bert",
            "gemma": "model gemma.gguf",
            "bytes": "tokenizer gpt2 the~quiet~sea",
            "words": "tokenizer bert The~quiet~harbour,~m\u00e9",
            "lists": "tokenizer vocab.txt the~harbour",
            "tensors": "safetensors b.safetensors format",
        }.items()
    ),
]


def save_gpt2(folder: Path) -> None:
    """Two layers in two shards, and the 256 bytes with a few merges."""
    generator = np.random.default_rng(3)
    width, layers, positions = 8, 2, 32
    folder.mkdir()
    letters = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in letters]
    alphabet = [chr(byte) for byte in letters] + [chr(256 + k) for k in range(len(others))]
    merges = ["t h", "th e", "\u0120 t", "e r", "\u0120 a"]
    pieces = [*alphabet, *(merge.replace(" ", "") for merge in merges), "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({piece: k for k, piece in enumerate(pieces)}))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    config = {
        "model_type": "gpt2", "n_layer": layers, "n_head": 2, "n_embd": width, "n_positions": positions,
        "vocab_size": len(pieces), "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new",
        "bos_token_id": len(pieces) - 1, "eos_token_id": len(pieces) - 1, "tie_word_embeddings": True,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))

    def draw(*shape: int) -> np.ndarray:
        return (0.4 * generator.standard_normal(shape)).astype(np.float32)

    first = {"wte.weight": draw(len(pieces), width), "wpe.weight": draw(positions, width)}
    second = {"ln_f.weight": 1 + draw(width), "ln_f.bias": draw(width)}
    for layer, part in enumerate((first, second)):
        begin = f"h.{layer}."
        for name, rows, columns in (
            ("attn.c_attn", width, 3 * width),
            ("attn.c_proj", width, width),
            ("mlp.c_fc", width, 4 * width),
            ("mlp.c_proj", 4 * width, width),
        ):
            part[f"{begin}{name}.weight"] = draw(rows, columns)
            part[f"{begin}{name}.bias"] = draw(columns)
        for norm in ("ln_1", "ln_2"):
            part[f"{begin}{norm}.weight"] = 1 + draw(width)
            part[f"{begin}{norm}.bias"] = draw(width)
    names = {}
    for k, part in enumerate((first, second), 1):
        file = f"model-{k:05d}-of-00002.safetensors"
        save_file(part, folder / file)
        names.update(dict.fromkeys(part, file))
    index = {"metadata": {}, "weight_map": names}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def save_bert(folder: Path) -> None:
    """One layer, without a head, and words cut into pieces."""
    generator = np.random.default_rng(4)
    width = 8
    folder.mkdir()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [
        "the",
        "harbour",
        "was",
        "quiet",
        "ferry",
        "not",
        "##te",
        "la",
        "17",
        ",",
        ";",
        ".",
        "m",
        "##inutes",
    ]
    pieces = [*specials, *words]
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [
            {
                "id": k, "content": name, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": True,
            }
            for k, name in enumerate(specials)
        ],
        "normalizer": {
            "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": {piece: k for k, piece in enumerate(pieces)},
        },
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    config = {
        "model_type": "bert", "num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": width,
        "intermediate_size": 12, "max_position_embeddings": 32, "vocab_size": len(pieces),
        "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu", "pad_token_id": 0,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))

    def draw(*shape: int) -> np.ndarray:
        return (0.4 * generator.standard_normal(shape)).astype(np.float32)

    tensors = {}
    for name, rows in (("word", len(pieces)), ("position", 32), ("token_type", 2)):
        tensors[f"embeddings.{name}_embeddings.weight"] = draw(rows, width)
    norms = ["embeddings.LayerNorm"]
    begin = "encoder.layer.0."
    for name, rows, columns in (
        ("attention.self.query", width, width),
        ("attention.self.key", width, width),
        ("attention.self.value", width, width),
        ("attention.output.dense", width, width),
        ("intermediate.dense", 12, width),
        ("output.dense", width, 12),
    ):
        tensors[f"{begin}{name}.weight"] = draw(rows, columns)
        tensors[f"{begin}{name}.bias"] = draw(rows)
    norms += [f"{begin}attention.output.LayerNorm", f"{begin}output.LayerNorm"]
    for norm in norms:
        tensors[f"{norm}.weight"] = 1 + draw(width)
        tensors[f"{norm}.bias"] = draw(width)
    save_file(tensors, folder / "model.safetensors")


def save_gemma(path: Path) -> None:
    """One layer, and pieces of SentencePiece; once more in three files."""
    generator = np.random.default_rng(5)
    pieces = ["<pad>", "</s>", "<s>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [3, 3, 3, 2, *[6] * 256]
    words = ["\u2581", "T", "h", "e", "s", "a", "q", "u", "i", "t", "he", "The", "\u2581s", "ea", "\u2581sea"]
    pieces += words
    kinds += [1] * len(words)
    pairs = {
        "general.architecture": "gemma3", "gemma3.block_count": 1, "gemma3.context_length": 64,
        "gemma3.embedding_length": 8, "gemma3.feed_forward_length": 8, "gemma3.attention.head_count": 1,
        "gemma3.attention.head_count_kv": 1, "gemma3.attention.key_length": 8,
        "gemma3.attention.value_length": 8, "gemma3.attention.sliding_window": 16,
        "gemma3.attention.layer_norm_rms_epsilon": 1e-6, "gemma3.rope.freq_base": 1e6,
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.add_space_prefix": False,
        "tokenizer.ggml.tokens": pieces, "tokenizer.ggml.scores": np.arange(len(pieces), dtype=np.float32),
        "tokenizer.ggml.token_type": np.array(kinds, np.int32), "tokenizer.ggml.unknown_token_id": 3,
        "tokenizer.ggml.bos_token_id": 2, "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.eos_token_id": 1, "tokenizer.ggml.add_eos_token": False,
    }  # fmt: skip
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (len(pieces), 8), "output_norm.weight": (8,)}
    for part in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_gate", "ffn_down"):
        shapes[f"blk.0.{part}.weight"] = (8, 8)
    norms = ("attn_norm", "attn_q_norm", "attn_k_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm")
    for part in norms:
        shapes[f"blk.0.{part}.weight"] = (8,)
    tensors = {
        name: ("F32", shape, gguf_files.draw("F32", shape, generator)) for name, shape in shapes.items()
    }
    gguf_files.write(path, pairs, tensors)
    gguf_files.write_parts(path.parent, path.stem, pairs, tensors, 3)


def save_arrays(folder: Path) -> None:
    generator = np.random.default_rng(1)

    def draw(*shape: int) -> np.ndarray:
        return generator.standard_normal(shape)

    heads = {name: draw(2, 8, 4).astype(np.float32) for name in "qkv"}
    scores = draw(8, 8)
    weights = np.exp(scores)
    arrays = {
        **heads, "s": scores, "t": scores + 0.01 * draw(8, 8), "w": draw(8, 3), "big": draw(96, 80),
        "mask": np.tril(np.ones((8, 8), bool)), "lengths": np.array([7]), "row": np.full(8, 0.5),
        "caps": np.full((8, 8), 0.4), "h": np.full(40, 1 / 40), "i": np.arange(1, 41) / 820,
        "coupling": weights / weights.sum(1, keepdims=True), "residual": draw(1, 5, 8).astype(np.float32),
        "ids": np.array([5, 7, 9, 11, 13]),
    }  # fmt: skip
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    np.save(folder / "fortran.npy", np.asfortranarray(scores.astype(">f8")))
    np.savez(folder / "b.npz", **heads)
    np.savez_compressed(folder / "deflated.npz", s=scores)
    save_file(heads, folder / "b.safetensors")
    (folder / "ids.txt").write_text("5 7 9 11 13\n")
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\nharbour\n")
    (folder / "text.txt").write_text(TEXT)
    (folder / "short.txt").write_text(TEXT[:23])


def prepare(folder: Path) -> None:
    """Everything that COMMANDS read."""
    save_arrays(folder)
    save_gpt2(folder / "gpt2")
    save_bert(folder / "bert")
    save_gemma(folder / "gemma.gguf")
