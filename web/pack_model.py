"""The demo model as one .gguf file that a page can carry.

    pack_model.py FOLDER FILE

Embeddings and matrices of attention become Q8_0 (blocks of 32 numbers: one f16 factor, 32 signed bytes),
those of MLPs Q5_1 (two f16, 32 numbers of 5 bits), norms and biases f32. The page reads queries, keys and
weights of attention of short texts: what comes after them in the last block (its output matrix and its MLP)
is written as zeros, which cost nothing once the file is compressed, and positions beyond POSITIONS are left
out.
"""

from __future__ import annotations

import json
import struct
import sys
from array import array
from pathlib import Path

ALIGNMENT = 32
POSITIONS = 64
F32, Q5_1, Q8_0 = 0, 7, 8
UINT32, FLOAT32, STRING, ARRAY = 4, 6, 8, 9
PARTS = {
    "ln_1": "attn_norm",
    "ln_2": "ffn_norm",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}
UNREAD = ("attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj")


def read_tensors(path: Path) -> dict[str, tuple[list[int], array[float]]]:
    """Every tensor of a safetensors file in bf16: its shape and its numbers."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    found = {}
    for name, row in header.items():
        if name == "__metadata__":
            continue
        if row["dtype"] != "BF16":
            sys.exit(f"pack_model: {name} is {row['dtype']}, not BF16")
        begin, end = (8 + length + at for at in row["data_offsets"])
        wide = bytearray(2 * (end - begin))
        wide[2::4] = data[begin:end:2]
        wide[3::4] = data[begin + 1 : end : 2]
        found[name] = row["shape"], array("f", bytes(wide))
    return found


def q8_0(numbers: array[float]) -> bytes:
    packed = bytearray()
    for at in range(0, len(numbers), 32):
        block = numbers[at : at + 32]
        most = max(abs(x) for x in block)
        factor = most / 127
        packed += struct.pack("<e", factor)
        packed += bytes(32) if most == 0 else struct.pack("32b", *(round(x / factor) for x in block))
    return bytes(packed)


def q5_1(numbers: array[float]) -> bytes:
    packed = bytearray()
    for at in range(0, len(numbers), 32):
        block = numbers[at : at + 32]
        least = min(block)
        step = (max(block) - least) / 31
        digits = [0] * 32 if step == 0 else [min(31, round((x - least) / step)) for x in block]
        high = sum((digit >> 4) << place for place, digit in enumerate(digits))
        packed += struct.pack("<eeI", step, least, high)
        packed += bytes((digits[k] & 15) | (digits[k + 16] & 15) << 4 for k in range(16))
    return bytes(packed)


def transposed(shape: list[int], numbers: array[float]) -> array[float]:
    columns = shape[1]
    return array("f", (x for column in range(columns) for x in numbers[column::columns]))


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def pair(key: str, value: int | float | str | list[str]) -> bytes:
    if isinstance(value, str):
        return text(key) + struct.pack("<I", STRING) + text(value)
    if isinstance(value, list):
        return text(key) + struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(map(text, value))
    if isinstance(value, float):
        return text(key) + struct.pack("<If", FLOAT32, value)
    return text(key) + struct.pack("<II", UINT32, value)


def pairs(folder: Path) -> list[bytes]:
    config = json.loads((folder / "config.json").read_text())
    vocabulary = json.loads((folder / "vocab.json").read_text())
    merges = (folder / "merges.txt").read_text(encoding="utf-8").splitlines()
    width = config["n_embd"]
    return [
        pair("general.architecture", "gpt2"),
        pair("gpt2.context_length", POSITIONS),
        pair("gpt2.embedding_length", width),
        pair("gpt2.feed_forward_length", config["n_inner"] or 4 * width),
        pair("gpt2.block_count", config["n_layer"]),
        pair("gpt2.attention.head_count", config["n_head"]),
        pair("gpt2.attention.layer_norm_epsilon", float(config["layer_norm_epsilon"])),
        pair("tokenizer.ggml.model", "gpt2"),
        pair("tokenizer.ggml.pre", "gpt-2"),
        pair("tokenizer.ggml.tokens", sorted(vocabulary, key=vocabulary.__getitem__)),
        pair("tokenizer.ggml.merges", [line for line in merges if line and not line.startswith("#")]),
        pair("tokenizer.ggml.bos_token_id", config["bos_token_id"]),
        pair("tokenizer.ggml.eos_token_id", config["eos_token_id"]),
    ]


def name_of(name: str) -> str:
    fixed = {"wte.weight": "token_embd.weight", "wpe.weight": "position_embd.weight"}
    if name in fixed:
        return fixed[name]
    stem, kind = name.rsplit(".", 1)
    if stem == "ln_f":
        return f"output_norm.{kind}"
    _, layer, part = stem.split(".", 2)
    return f"blk.{layer}.{PARTS[part]}.{kind}"


def main() -> None:
    folder, out = map(Path, sys.argv[1:])
    tensors = read_tensors(folder / "model.safetensors")
    last = max(int(name.split(".")[1]) for name in tensors if name.startswith("h."))
    infos, blocks, offset = [], [], 0
    for name, (shape, numbers) in sorted(tensors.items()):
        if name.startswith(f"h.{last}.") and name.split(".", 2)[2].startswith(UNREAD):
            numbers = array("f", bytes(4 * len(numbers)))
        if name == "wpe.weight":
            shape, numbers = [POSITIONS, shape[1]], numbers[: POSITIONS * shape[1]]
        matrix = len(shape) == 2
        kind = F32 if not matrix else Q5_1 if ".mlp." in name else Q8_0
        if matrix and name.startswith("h."):
            # Safetensors of GPT-2 store [inputs, outputs], gguf a row an output.
            shape, numbers = shape[::-1], transposed(shape, numbers)
        data = numbers.tobytes() if kind == F32 else q5_1(numbers) if kind == Q5_1 else q8_0(numbers)
        infos.append(
            text(name_of(name))
            + struct.pack("<I", len(shape))
            + struct.pack(f"<{len(shape)}Q", *shape[::-1])
            + struct.pack("<IQ", kind, offset)
        )
        data += bytes(-len(data) % ALIGNMENT)
        blocks.append(data)
        offset += len(data)
    keys = pairs(folder)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(keys)) + b"".join(keys) + b"".join(infos)
    out.write_bytes(head + bytes(-len(head) % ALIGNMENT) + b"".join(blocks))


if __name__ == "__main__":
    main()
