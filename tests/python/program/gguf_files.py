"""Writes gguf files for the tests and decodes their blocks with NumPy, from the format note alone."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

ALIGNMENT = 32
# name: ggml's number, elements and bytes of a block
TYPES = {
    "F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22),
    "Q5_1": (7, 32, 24), "Q8_0": (8, 32, 34), "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176),
    "Q6_K": (14, 256, 210), "BF16": (30, 1, 2),
}  # fmt: skip
NAMES = {number: name for name, (number, _, _) in TYPES.items()}

F32 = np.float32


def halves(blocks: np.ndarray, at: int) -> np.ndarray:
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(F32)


def nibbles(blocks: np.ndarray) -> np.ndarray:
    return np.concatenate([blocks & 15, blocks >> 4], 1).astype(np.int32)


def fifths(blocks: np.ndarray) -> np.ndarray:
    return np.unpackbits(np.ascontiguousarray(blocks), axis=1, bitorder="little").astype(np.int32) << 4


def decode_k(blocks: np.ndarray, five: bool) -> np.ndarray:
    """The values [block, 256] of blocks of Q4_K or Q5_K, element by element of a block."""
    d, e = blocks[:, :4].copy().view("<f2").astype(F32).T
    packed = blocks[:, 4:16]
    values = np.empty((len(blocks), 256), F32)
    for k in range(256):
        part = k // 32
        if part < 4:
            factor, shift = packed[:, part] & 63, packed[:, part + 4] & 63
        else:
            factor = packed[:, part + 4] & 15 | packed[:, part - 4] >> 6 << 4
            shift = packed[:, part + 4] >> 4 | packed[:, part] >> 6 << 4
        q = blocks[:, (48 if five else 16) + part // 2 * 32 + k % 32] >> (4 * (part % 2)) & 15
        if five:
            q = q | (blocks[:, 16 + k % 32] >> part & 1) << 4
        values[:, k] = d * factor.astype(F32) * q.astype(F32) - e * shift.astype(F32)
    return values


def decode(name: str, data: bytes | np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The f32 values of a tensor's bytes."""
    raw = np.frombuffer(data, np.uint8)
    if name == "F32":
        return raw.view("<f4").reshape(shape)
    if name == "F16":
        return raw.view("<f2").astype(F32).reshape(shape)
    if name == "BF16":
        return (raw.view("<u2").astype(np.uint32) << 16).view(F32).reshape(shape)
    blocks = raw.reshape(-1, TYPES[name][2])
    if name in ("Q4_K", "Q5_K"):
        return decode_k(blocks, name == "Q5_K").reshape(shape)
    scale = halves(blocks, 208 if name == "Q6_K" else 0)
    if name == "Q8_0":
        values = scale * blocks[:, 2:].view(np.int8).astype(F32)
    elif name == "Q4_0":
        values = scale * (nibbles(blocks[:, 2:]) - 8).astype(F32)
    elif name == "Q4_1":
        values = scale * nibbles(blocks[:, 4:]).astype(F32) + halves(blocks, 2)
    elif name == "Q5_0":
        values = scale * ((nibbles(blocks[:, 6:]) | fifths(blocks[:, 2:6])) - 16).astype(F32)
    elif name == "Q5_1":
        values = scale * (nibbles(blocks[:, 8:]) | fifths(blocks[:, 4:8])).astype(F32) + halves(blocks, 2)
    else:
        low = blocks[:, :128].reshape(-1, 2, 64)
        high = blocks[:, 128:192].reshape(-1, 2, 1, 32)
        four = np.concatenate([low & 15, low >> 4], 2).reshape(-1, 2, 4, 32)
        two = (high >> np.array([0, 2, 4, 6], np.uint8).reshape(4, 1)) & 3
        whole = (four | (two << 4)).astype(np.int32).reshape(-1, 16, 16) - 32
        scales = blocks[:, 192:208].view(np.int8).astype(F32)
        values = (scale * scales)[:, :, None] * whole.astype(F32)
    return values.astype(F32).reshape(shape)


def draw(name: str, shape: tuple[int, ...], generator: np.random.Generator) -> bytes:
    """Bytes of a tensor with values of about 0.1."""
    _, block, size = TYPES[name]
    count = int(np.prod(shape))
    values = generator.normal(size=count) * 0.1
    if name == "F32":
        return values.astype("<f4").tobytes()
    if name == "F16":
        return values.astype("<f2").tobytes()
    if name == "BF16":
        return (values.astype(F32).view(np.uint32) >> 16).astype("<u2").tobytes()
    blocks = generator.integers(0, 256, size=(count // block, size), dtype=np.uint8)
    spread = {
        "Q8_0": 600,
        "Q4_0": 40,
        "Q4_1": 40,
        "Q5_0": 80,
        "Q5_1": 80,
        "Q6_K": 16000,
        "Q4_K": 2400,
        "Q5_K": 5000,
    }[name]
    scale = (generator.uniform(0.2, 1, size=(len(blocks), 1)) / spread).astype("<f2").view(np.uint8)
    at = 208 if name == "Q6_K" else 0
    blocks[:, at : at + 2] = scale
    if name in ("Q4_1", "Q5_1"):
        # Centred: with a common part in all weights, attention would be ill-conditioned.
        middle = {"Q4_1": 7.5, "Q5_1": 15.5}[name]
        blocks[:, 2:4] = (-middle * scale.view("<f2").astype(F32)).astype("<f2").view(np.uint8)
    if name in ("Q4_K", "Q5_K"):
        # Shifts by the middle of q and about the middle of the factors.
        middle = {"Q4_K": 7.5, "Q5_K": 15.5}[name]
        blocks[:, 2:4] = (middle * scale.view("<f2").astype(F32)).astype("<f2").view(np.uint8)
        blocks[:, 8:12] = blocks[:, 4:8]
        blocks[:, 12:16] = blocks[:, 12:16] & 15 | (blocks[:, 12:16] & 15) << 4
    return blocks.tobytes()


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
        head += struct.pack("<IQ", TYPES[kind][0], len(body))
        body = pad(body + data)
    path.write_bytes(pad(head) + body)


def read(path: Path, tensors: bool = True) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Metadata, and the decoded tensors where they are wanted."""
    data = path.read_bytes()
    at = 24
    tensor_count, pair_count = struct.unpack("<QQ", data[8:24])

    def take(form: str) -> Any:
        nonlocal at
        (value,) = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize(form)
        return value

    def take_text() -> str:
        nonlocal at
        size = take("Q")
        at += size
        return data[at - size : at].decode("utf8", "replace")

    def take_value(kind: int) -> Any:
        if kind == 8:
            return take_text()
        if kind == 9:
            inner, count = take("I"), take("Q")
            return [take_value(inner) for _ in range(count)]
        return take(
            {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}[kind]
        )

    pairs = {}
    for _ in range(pair_count):
        key = take_text()
        pairs[key] = take_value(take("I"))
    entries = []
    for _ in range(tensor_count):
        name = take_text()
        shape = tuple(reversed([take("Q") for _ in range(take("I"))]))
        entries.append((name, shape, NAMES[take("I")], take("Q")))
    begin = (at + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    decoded = {}
    for name, shape, kind, offset in entries if tensors else ():
        _, block, size = TYPES[kind]
        count = int(np.prod(shape)) // block * size
        decoded[name] = decode(kind, data[begin + offset : begin + offset + count], shape)
    return pairs, decoded
