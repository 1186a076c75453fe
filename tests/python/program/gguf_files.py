"""Writes gguf files for the tests, byte by byte so that they may also be wrong; the package gguf makes blocks
from numbers, decodes them and reads files."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType, quants

ALIGNMENT = 32
F32 = np.float32
# What the package decodes, and two types of which it says the sizes alone.
TYPES = [
    kind.name for kind in GGMLQuantizationType if kind.name in ("F32", "F16") or kind in quants._type_traits
]
TYPES += ["F64", "Q8_K"]
# Where the f16 factors of blocks lie that the package cannot make from numbers: d, and e where there is one.
FACTORS = {
    "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ1_S": (0,),
    "IQ1_M": (48,), "IQ2_XXS": (0,), "IQ2_XS": (0,), "IQ2_S": (0,), "IQ3_XXS": (0,), "IQ3_S": (0,),
    "IQ4_NL": (0,), "IQ4_XS": (0,),
}  # fmt: skip
# Of the types that also subtract: the middle of their values.
MIDDLES = {"Q2_K": 1.5, "Q4_K": 7.5, "Q5_K": 15.5}


def sizes(kind: str) -> tuple[int, int]:
    """Elements and bytes of a block."""
    return gguf.GGML_QUANT_SIZES[GGMLQuantizationType[kind]]


def decode(kind: str, data: bytes | np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The f32 values of a tensor's bytes."""
    block, size = sizes(kind)
    rows = np.frombuffer(data, np.uint8).reshape(*shape[:-1], shape[-1] // block * size)
    with np.errstate(all="ignore"):
        if kind == "F64":
            return rows.view("<f8").astype(F32)
        if kind == "Q8_K":
            blocks = rows.reshape(-1, size)
            values = blocks[:, :4].copy().view("<f4") * blocks[:, 4:260].view(np.int8).astype(F32)
            return values.reshape(shape)
        return quants.dequantize(rows, GGMLQuantizationType[kind]).reshape(shape)


def set_half(drawn: np.ndarray, kind: str, which: int, value: np.ndarray) -> None:
    """Factor number `which` of every block, of IQ1_M in the upper ends of four words."""
    half = np.ascontiguousarray(value.astype("<f2")).view("<u2").reshape(-1)
    if kind == "IQ1_M":
        words = drawn[:, 48:56].copy().view("<u2")
        for k in range(4):
            words[:, k] = words[:, k] & 0xFFF | (half >> (4 * k) & 15) << 12
        drawn[:, 48:56] = words.view(np.uint8)
    else:
        at = FACTORS[kind][which]
        drawn[:, at : at + 2] = half.reshape(-1, 1).view(np.uint8)


def blocks(kind: str, count: int, generator: np.random.Generator) -> np.ndarray:
    """Drawn bytes of blocks [count, bytes]: in every third, factors at the ends of what f16 can be."""
    drawn = generator.integers(0, 256, size=(count, sizes(kind)[1]), dtype=np.uint8)
    ends = np.array([0, 0x8000, 1, 0x83FF, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E01, 0xFFFF], "<u2")
    for which in range(len(FACTORS.get(kind, ()))):
        part = drawn[which::3]
        set_half(part, kind, which, generator.choice(ends, len(part)).view("<f2"))
    return drawn


def draw(kind: str, shape: tuple[int, ...], generator: np.random.Generator) -> bytes:
    """Bytes of a tensor with values of about 0.1."""
    values = generator.normal(size=shape) * 0.1
    if kind == "F64":
        return values.astype("<f8").tobytes()
    if kind not in FACTORS and kind not in ("NVFP4", "Q8_K"):
        with np.errstate(all="ignore"):
            return quants.quantize(values.astype(F32), GGMLQuantizationType[kind]).tobytes()
    drawn = blocks(kind, values.size // sizes(kind)[0], generator)
    scale = generator.uniform(0.2, 1, size=len(drawn)).astype("<f2")
    if kind == "NVFP4":
        drawn[:, :4] = generator.integers(0x10, 0x1C, size=(len(drawn), 4))
        return drawn.tobytes()
    if kind == "Q8_K":
        drawn[:, :4] = (scale / 600).astype("<f4").reshape(-1, 1).view(np.uint8)
        return drawn.tobytes()
    # Centred: with a common part in all weights, attention would be ill-conditioned.
    if kind == "Q2_K":
        drawn[:, :16] = drawn[:, :16] & 15 | (drawn[:, :16] & 15) << 4
    if kind in ("Q4_K", "Q5_K"):
        drawn[:, 8:12] = drawn[:, 4:8]
        drawn[:, 12:16] = drawn[:, 12:16] & 15 | (drawn[:, 12:16] & 15) << 4
    for spread in (np.ones(len(drawn)), None):
        if spread is None:
            spread = scale * 0.15 / decode(kind, drawn.tobytes(), shape).std()
        set_half(drawn, kind, 0, spread)
        if kind in MIDDLES:
            set_half(drawn, kind, 1, spread.astype("<f2").astype(F32) * MIDDLES[kind])
    return drawn.tobytes()


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def pair(key: str, value: Any) -> bytes:
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", 6, value)
    if isinstance(value, bool):
        return text(key) + struct.pack("<IB", 7, value)
    if isinstance(value, np.ndarray):
        real = value.dtype.kind == "f"
        data = value.astype("<f4" if real else "<i4").tobytes()
        return text(key) + struct.pack("<IIQ", 9, 6 if real else 5, len(value)) + data
    if isinstance(value, bytes):
        return text(key) + struct.pack("<IIQ", 9, 0, len(value)) + value
    if isinstance(value, list):
        return text(key) + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(text(one) for one in value)
    return text(key) + struct.pack("<II", 4, value)


def pad(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % ALIGNMENT)


def write(
    path: Path,
    pairs: dict[str, Any],
    tensors: dict[str, tuple[str, tuple[int, ...], bytes]],
    version: int = 3,
) -> None:
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(pairs))
    head += b"".join(pair(key, value) for key, value in pairs.items())
    body = b""
    for name, (kind, shape, data) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape))
        head += struct.pack("<IQ", GGMLQuantizationType[kind], len(body))
        body = pad(body + data)
    path.write_bytes(pad(head) + body)


def write_parts(
    folder: Path,
    name: str,
    pairs: dict[str, Any],
    tensors: dict[str, tuple[str, tuple[int, ...], bytes]],
    count: int,
) -> list[str]:
    """The model in files NAME-00001-of-... that share its tensors; their names."""
    names = [f"{name}-{part + 1:05}-of-{count:05}.gguf" for part in range(count)]
    for part in range(count):
        split = {"split.no": part, "split.count": count, "split.tensors.count": len(tensors)}
        own = {key: tensors[key] for key in list(tensors)[part::count]}
        write(folder / names[part], {**(pairs if part == 0 else {}), **split}, own)
    return names


def read(path: Path, tensors: bool = True) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Metadata, and the decoded tensors where they are wanted, by the package."""
    reader = gguf.GGUFReader(path)
    pairs = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    decoded = {}
    for one in reader.tensors if tensors else ():
        shape = tuple(int(size) for size in reversed(one.shape))
        decoded[one.name] = decode(one.tensor_type.name, np.ascontiguousarray(one.data).tobytes(), shape)
    return pairs, decoded
