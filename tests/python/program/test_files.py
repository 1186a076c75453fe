"""The array files of the program against NumPy and the safetensors package, and hostile files.

The files go through a small program around program/files/files.h (build/tests/test_files with arguments).
Each hostile file must be answered within a second, in one sentence, with the contract's exit code, never by
a signal, and within 64 MiB above the limits of the numeric policy.
"""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(os.environ.get("OTATTN_TEST_FILES", ROOT / "build" / "tests" / "test_files"))
if not PROGRAM.exists():
    pytest.skip(f"{PROGRAM} is not built", allow_module_level=True)

MIB = 1 << 20
USAGE, BAD_FILE, LIMIT, IO = 2, 4, 5, 6


class Answer:
    """Exit code, output, sentence, hint, peak bytes of memory and processor seconds of one run."""

    def __init__(self, *words: object, stdin: bytes | int | None = None, user: int | None = None):
        source = stdin if isinstance(stdin, int) else subprocess.PIPE
        child = subprocess.Popen(
            [str(PROGRAM), *map(str, words)],
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            user=user,
        )
        self.out, error = child.communicate(stdin if isinstance(stdin, bytes) else None, timeout=60)
        self.code = child.returncode
        assert self.code >= 0, f"ended by signal {-self.code}"
        lines = error.decode().split("\n")
        self.message, self.hint = lines[0], lines[1]
        self.peak, self.seconds = int(lines[2].split()[0]) * 1024, float(lines[3])


def copy(spec: object, out: object = "-", **options: Any) -> np.ndarray:
    answer = Answer("--copy", spec, out, **options)
    assert answer.code == 0, answer.message
    return np.load(io.BytesIO(answer.out))


def refuse(spec: object, code: int, part: str, **options: Any) -> Answer:
    answer = Answer("--copy", spec, "-", **options)
    assert answer.code == code, (answer.code, answer.message)
    assert part in answer.message
    assert answer.seconds < 1.0
    assert answer.peak < 64 * MIB
    assert answer.out == b""
    return answer


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def same(left: np.ndarray, right: np.ndarray) -> None:
    assert left.dtype == right.dtype
    assert left.shape == right.shape
    assert left.tobytes() == right.tobytes()


# ---- NumPy both ways ----

RANDOM = np.random.default_rng(20260728)
KINDS = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "b1"]
SHAPES = [(), (1,), (7,), (3, 4), (0, 5), (2, 3, 4), (2, 1, 3, 2), (1, 2, 1, 2, 1, 2, 1, 3)]


def sample(kind: str, shape: tuple[int, ...]) -> np.ndarray:
    if kind == "b1":
        return RANDOM.integers(0, 2, shape).astype(bool)
    if kind[0] == "f":
        return (RANDOM.standard_normal(shape) * 3).astype(kind)
    bounds = np.iinfo(kind)
    return RANDOM.integers(bounds.min, min(bounds.max, 2**63 - 1), shape, dtype=kind, endpoint=True)


def in_memory(array: np.ndarray) -> np.ndarray:
    """What the program makes of an array: C order, native order, one integer type."""
    kind = "<i8" if array.dtype.kind in "iu" else array.dtype.newbyteorder("<")
    return np.ascontiguousarray(array.astype(kind)).reshape(array.shape)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", KINDS)
def test_npy_of_every_type_order_and_shape(tmp_path: Path, kind: str, order: str) -> None:
    path = tmp_path / "a.npy"
    for shape in SHAPES:
        array = sample(kind, shape).astype(order + kind)
        for layout in (np.ascontiguousarray, np.asfortranarray):
            for version in ((1, 0), (2, 0), (3, 0)):
                with path.open("wb") as file:
                    laid = layout(array).reshape(shape, order="A")
                    np.lib.format.write_array(file, laid, version=version)
                same(copy(path), in_memory(array))


@pytest.mark.parametrize("kind", ["f8", "f4", "f2", "i8", "b1"])
def test_our_npy_is_numpys_byte_for_byte(tmp_path: Path, kind: str) -> None:
    for shape in SHAPES:
        array = sample(kind, shape)
        np.save(tmp_path / "a.npy", array)
        answer = Answer("--copy", tmp_path / "a.npy", "-")
        assert answer.out == (tmp_path / "a.npy").read_bytes()


def test_special_values_keep_their_bits(tmp_path: Path) -> None:
    for kind, word in (("f8", "u8"), ("f4", "u4"), ("f2", "u2")):
        bits = np.array([0, 1, 2 ** (8 * int(kind[1]) - 1)], dtype=word)
        values = np.array([np.nan, np.inf, -np.inf], dtype=kind)
        array = np.concatenate([bits.view(kind), values])
        np.save(tmp_path / "a.npy", array)
        same(copy(tmp_path / "a.npy"), array)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_from_numpy(tmp_path: Path, save) -> None:
    arrays = {kind: sample(kind, (5, 7)) for kind in KINDS} | {"größe ü": sample("f8", (300, 300))}
    save(tmp_path / "a.npz", **arrays)
    for name, array in arrays.items():
        same(copy(f"{tmp_path}/a.npz:{name}"), in_memory(array))
    save(tmp_path / "one.npz", only=arrays["f4"])
    same(copy(tmp_path / "one.npz"), arrays["f4"])
    listed = Answer("--list", tmp_path / "a.npz").out.decode().splitlines()
    assert [line.split("\t")[0] for line in listed] == list(arrays)
    assert {line.split("\t")[3] for line in listed} == {"5,7", "300,300"}


def test_npz_written_to_a_pipe(tmp_path: Path) -> None:
    """Sizes and checksum after the data: what a writer that cannot seek leaves."""

    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.bytes = bytearray()

        def writable(self) -> bool:
            return True

        def write(self, data) -> int:
            self.bytes += bytes(data)
            return len(data)

    pipe = Pipe()
    array = sample("f8", (40, 3))
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        pipe.bytes.clear()
        with zipfile.ZipFile(pipe, "w", method) as archive:  # type: ignore[arg-type]
            buffer = io.BytesIO()
            np.save(buffer, array)
            archive.writestr("x.npy", buffer.getvalue())
        (tmp_path / "a.npz").write_bytes(pipe.bytes)
        same(copy(tmp_path / "a.npz"), array)


def test_npz_for_numpy(tmp_path: Path) -> None:
    arrays = [sample("f8", (3, 4)), sample("f2", (0, 2)), sample("b1", (5,)), sample("i8", ())]
    for i, array in enumerate(arrays):
        np.save(tmp_path / f"{i}.npy", array)
    out = tmp_path / "out.npz"
    words = [tmp_path / f"{i}.npy" for i in range(len(arrays))]
    assert Answer("--pack", out, *words).code == 0
    first = out.read_bytes()
    with zipfile.ZipFile(out) as archive:
        assert archive.testzip() is None
    with np.load(out) as loaded:
        assert sorted(loaded.files) == [f"array{i}" for i in range(len(arrays))]
        for i, array in enumerate(arrays):
            same(loaded[f"array{i}"], array)
    assert Answer("--pack", "-f", out, *words).code == 0
    assert out.read_bytes() == first
    assert names_in(tmp_path) == ["0.npy", "1.npy", "2.npy", "3.npy", "out.npz"]


# ---- the safetensors package both ways ----


def test_safetensors_package_both_ways(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    kinds = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "b1"]
    arrays = {f"blocks.{i}.attn.hook_{k}": sample(k, (i, 3)) for i, k in enumerate(kinds)}
    path = tmp_path / "a.safetensors"
    safetensors.save_file(arrays, path, metadata={"origin": 'caf\u00e9 "x"', "b": "\n"})
    for name, array in arrays.items():
        same(copy(f"{path}:{name}"), in_memory(array))
    listed = Answer("--list", path).out.decode().splitlines()
    assert sorted(line.split("\t")[0] for line in listed) == sorted(arrays)
    assert Answer("--metadata", path, "origin").out.decode() == 'caf\u00e9 "x"'
    specs = [f"{path}:{name}" for name in arrays]
    assert Answer("--pack", tmp_path / "b.safetensors", *specs).code == 0
    loaded = safetensors.load_file(tmp_path / "b.safetensors")
    assert list(loaded) and set(loaded) == set(arrays)
    for name, array in arrays.items():
        same(loaded[name], in_memory(array))


def safetensors_bytes(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(kind: str, shape: list[int], begin: int, end: int) -> dict:
    return {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}


def test_bfloat16_keeps_its_bits(tmp_path: Path) -> None:
    data = bytes(range(12))
    header = {"x": entry("BF16", [2, 3], 0, 12)}
    path, out = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    path.write_bytes(safetensors_bytes(header, data))
    assert Answer("--copy", path, out).code == 0
    assert out.read_bytes()[-12:] == data
    refuse(path, USAGE, "bfloat16")


# ---- streams ----


def npy_bytes(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def test_standard_input_and_output() -> None:
    array = sample("f8", (400, 500))
    same(copy("-", stdin=npy_bytes(array)), array)
    refuse("-", BAD_FILE, "standard input", stdin=b"")
    refuse("-", BAD_FILE, "too early", stdin=npy_bytes(array)[:-1])
    refuse("-", BAD_FILE, "follow the end", stdin=npy_bytes(array) + b"x")
    with Path("/dev/zero").open("rb") as zero:
        refuse("-", BAD_FILE, "must start", stdin=zero.fileno())


def test_stdin_that_promises_more_than_it_sends() -> None:
    header = npy_bytes(np.zeros((), "f8"))[:-8].replace(b"()", b"(281474976710656,)")
    header = header.replace(b" " * 20 + b"\n", b" " * 3 + b"\n")
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) - 10) + header[10:]
    refuse("-", LIMIT, "memory", stdin=start)


# ---- hostile files ----


def test_special_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npy")
    (tmp_path / "loop.npy").symlink_to("loop.npy")
    (tmp_path / "folder.npz").mkdir()
    refuse(tmp_path / "pipe.npy", BAD_FILE, "is a pipe")
    refuse(tmp_path / "loop.npy", IO, "cannot be opened")
    refuse(tmp_path / "folder.npz", BAD_FILE, "is a folder")
    refuse(f"{tmp_path}/folder.npz:x", BAD_FILE, "is a folder")
    refuse("/dev/zero", BAD_FILE, "not a regular file")
    refuse(tmp_path / "missing.npy", IO, "No such file")
    refuse(f"{tmp_path}/{'n' * 300}.npy", IO, "cannot be opened")


def test_permission_denied(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.zeros(3))
    path.chmod(0)
    user = None
    if os.geteuid() == 0:
        user = 65534
        for folder in (tmp_path, *tmp_path.parents[:-2]):
            folder.chmod(0o755)
    try:
        refuse(path, IO, "Permission denied", user=user)
    except PermissionError:
        pytest.skip("another user may not run the program in this folder")
    answer = Answer("--copy", "-", tmp_path / "b.npy", stdin=npy_bytes(np.zeros(3)), user=user)
    assert user is None or (answer.code == IO and "cannot be written" in answer.message)


def test_sparse_file_larger_than_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f8", "fortran_order": False, "shape": (2**40,)}
        )
        try:
            os.truncate(path, file.tell() + 2**43)
        except OSError:
            pytest.skip("the file system has no files of 8 TiB")
    refuse(path, LIMIT, "memory")
    header = safetensors_bytes({"x": entry("F64", [2**40], 0, 2**43)})
    path = tmp_path / "a.safetensors"
    path.write_bytes(header)
    os.truncate(path, len(header) + 2**43)
    refuse(path, LIMIT, "memory")


def zip_of(*entries: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in entries:
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return buffer.getvalue()


def test_zip_bomb(tmp_path: Path) -> None:
    """9 GiB of zeros that an honest archive of 9 MB really holds."""
    header = io.BytesIO()
    count = 9 * 2**27
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (count,)})
    path = tmp_path / "a.npz"
    # Deflated blocks end at byte borders after a full flush, so a block may be repeated.
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = packer.compress(header.getvalue()) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(2**26)) + packer.flush(zlib.Z_FULL_FLUSH)
    data = first + block * (count * 8 // 2**26) + packer.flush()
    size = len(header.getvalue()) + count * 8
    wide = struct.pack("<HHQQ", 1, 16, size, len(data))
    common = struct.pack("<HHHHHIII", 45, 0, 8, 0, 0x21, 0, len(data), 0xFFFFFFFF)
    wide = struct.pack("<HHQ", 1, 8, size)
    local_wide = struct.pack("<HHQQ", 1, 16, size, len(data))
    local = b"PK\3\4" + common[:14] + struct.pack("<II", 0xFFFFFFFF, 0xFFFFFFFF)
    local += struct.pack("<HH", 5, len(local_wide)) + b"x.npy" + local_wide
    central = b"PK\1\2" + struct.pack("<H", 45) + common
    central += struct.pack("<HHHHHII", 5, len(wide), 0, 0, 0, 0, 0) + b"x.npy" + wide
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local) + len(data), 0)
    path.write_bytes(local + data + central + end)
    assert path.stat().st_size < 16 * MIB
    refuse(path, LIMIT, "inflated bytes")


def test_archive_that_lies_about_its_size(tmp_path: Path) -> None:
    good = zip_of(("x.npy", npy_bytes(np.zeros(1000))))
    at, local = good.index(b"PK\1\2"), good.index(b"PK\3\4")
    lie = bytearray(good)
    lie[at + 24 : at + 28] = lie[local + 22 : local + 26] = struct.pack("<I", 2**30)
    (tmp_path / "a.npz").write_bytes(lie)
    refuse(tmp_path / "a.npz", BAD_FILE, "cannot hold")
    for size in (8127, 8129):  # one byte less and more than there are
        lie[at + 24 : at + 28] = lie[local + 22 : local + 26] = struct.pack("<I", size)
        (tmp_path / "a.npz").write_bytes(lie)
        refuse(tmp_path / "a.npz", BAD_FILE, "a.npz")


def test_archives_that_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    data = npy_bytes(np.zeros(5))
    cases = [
        (zip_of(("x.npy", data), method=zipfile.ZIP_BZIP2), "not STORED or DEFLATE"),
        (zip_of(("x.npy", data), method=zipfile.ZIP_LZMA), "not STORED or DEFLATE"),
        (zip_of(("x.txt", data)), "holds no array"),
        (zip_of(), "holds no array"),
        (zip_of(("", data)), "no name of 1 to 1024"),
        (zip_of(("x.npy", data + b"x")), "needs"),
        (zip_of(("x.npy", b"no npy")), "too early"),
        (zip_of(("x.npy", zip_of(("y.npy", data)))), "must start"),
        (zip_of(("a\x1bb.npy", data)), "control characters"),
        (zip_of(("n" * 1025 + ".npy", data)), "no name of 1 to 1024"),
        (data, "must start as a zip"),
        (b"", "too short"),
        (b"PK\5\6", "too short"),
        (b"x" + zip_of(("x.npy", data)), "must start as a zip"),
    ]
    with pytest.warns(UserWarning, match="Duplicate"):
        cases.append((zip_of(("x.npy", data), ("x.npy", data)), "two entries of one name"))
    for content, part in cases:
        path.write_bytes(content)
        refuse(path, BAD_FILE, part)


def with_wide_end(archive: bytes, offset: int = 0, mark: bytes = b"PK\6\6", count: int = 0) -> bytes:
    """The archive with a 64-bit end record and its locator, which points `offset` bytes beside it."""
    end = archive.index(b"PK\5\6")
    entries, size, begin = struct.unpack_from("<10xHII", archive, end)
    record = mark + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, *[count or entries] * 2, size, begin)
    locator = b"PK\6\7" + struct.pack("<IQI", 0, end + offset, 1)
    return archive[:end] + record + locator + archive[end:]


def test_archives_with_a_wide_end(tmp_path: Path) -> None:
    path, array = tmp_path / "a.npz", np.arange(5.0)
    good = zip_of(("x.npy", npy_bytes(array)))
    path.write_bytes(with_wide_end(good))
    same(copy(path), array)
    for change, code, part in (
        ({"offset": 1}, BAD_FILE, "64-bit end record lies outside the file"),
        ({"offset": 2**62}, BAD_FILE, "64-bit end record lies outside the file"),
        ({"offset": -1}, BAD_FILE, "64-bit end record does not start with PK 6 6"),
        ({"mark": b"PK\6\5"}, BAD_FILE, "64-bit end record does not start with PK 6 6"),
        ({"count": 2**40}, LIMIT, "declares 1099511627776 entries in 51 directory bytes"),
    ):
        path.write_bytes(with_wide_end(good, **change))  # type: ignore[arg-type]
        refuse(path, code, part)


def test_what_an_archive_lists(tmp_path: Path) -> None:
    """Arrays alone: other entries are none, and one bad array ends the list."""
    path, data = tmp_path / "a.npz", npy_bytes(np.arange(5.0))
    path.write_bytes(zip_of(("x.npy", data), (".npy", data), ("notes.txt", b"x")))
    assert Answer("--list", path).out.decode().split("\t")[0] == "x"
    same(copy(path), np.arange(5.0))
    path.write_bytes(zip_of(("x.npy", data), ("y.npy", data[:-1])))
    answer = Answer("--list", path)
    assert answer.code == BAD_FILE and "the shape needs 40 bytes" in answer.message


def test_archive_entries_at_their_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    data = npy_bytes(np.arange(3.0))
    for count in (65535, 65536):
        with zipfile.ZipFile(path, "w") as archive:
            for i in range(count - 1):
                archive.writestr(zipfile.ZipInfo(f"{i}"), b"")
            archive.writestr(zipfile.ZipInfo("x.npy"), data)
        if count == 65535:
            same(copy(f"{path}:x"), np.arange(3.0))
        else:
            refuse(f"{path}:x", LIMIT, "65536 entries")


def overlapping_archive(count: int) -> bytes:
    """`count` directory entries, each naming the one local file: the overlap bomb."""
    good = zip_of(("x.npy", npy_bytes(np.zeros(100000))))
    at, end = good.index(b"PK\1\2"), good.index(b"PK\5\6")
    directory = good[at:end]
    tail = struct.pack("<HHHHIIH", 0, 0, count, count, len(directory) * count, at, 0)
    return good[:at] + directory * count + b"PK\5\6" + tail


def test_overlapping_entries(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(overlapping_archive(60000))
    answer = Answer("--copy", f"{tmp_path}/a.npz:x", "-")
    assert answer.code in (BAD_FILE, LIMIT)
    assert answer.seconds < 1.0
    assert answer.peak < 64 * MIB


def test_hostile_safetensors_headers(tmp_path: Path) -> None:
    """Headers of 20 MB and 100 MB shaped to cost a parser the most memory or time."""
    size = 20_000_000
    cases = [
        (b'{"a":{"shape":[' + b"{}," * (size // 3) + b"{}]}}", LIMIT, "65,536 bytes"),
        (b'{"__metadata__":{"a":[' + b"[]," * (size // 3) + b"[]]}}", BAD_FILE, "strings only"),
        (b'{"a":' + b"[" * size, BAD_FILE, "64 deep"),
        (b'{"a":"' + b"\\" * size, BAD_FILE, "not closed"),
        (b"{" + b" " * size, BAD_FILE, "not closed"),
        (b"{}" + b" " * size + b"x", BAD_FILE, "only blanks"),
        (b'{"' + b"n" * size + b'":{}}', LIMIT, "65,536 bytes"),
        (b"{" + b"0," * size, BAD_FILE, "not valid JSON"),
        (b"{" + b'"":{},' * (size // 6), BAD_FILE, "a name must be"),
        (struct.pack("<Q", 2**63) + b"{}", None, "beyond the end"),
    ]
    path = tmp_path / "a.safetensors"
    for text, code, part in cases:
        path.write_bytes(text if code is None else safetensors_bytes(text))
        answer = Answer("--list", path)
        assert (answer.code, part in answer.message) == (code or BAD_FILE, True), answer.message
        assert answer.seconds < 1 + 60e-9 * len(text)
        assert answer.peak < 12 * len(text) + 64 * MIB
    path.write_bytes(struct.pack("<Q", 100_000_001) + b"{}")
    os.truncate(path, 100_000_010)
    refuse(path, LIMIT, "above the limit of 100000000")


def test_metadata_of_many_keys(tmp_path: Path) -> None:
    pairs = ",".join(f'"{i:x}":""' for i in range(1_500_000))
    text = f'{{"__metadata__":{{{pairs}}}}}'.encode()
    (tmp_path / "a.safetensors").write_bytes(safetensors_bytes(text))
    answer = Answer("--list", tmp_path / "a.safetensors")
    assert answer.code == 0, answer.message
    assert answer.seconds < 1 + 60e-9 * len(text)
    assert answer.peak < 12 * len(text) + 64 * MIB


@pytest.mark.parametrize("extra", [0, 1])
def test_a_million_tensors(tmp_path: Path, extra: int) -> None:
    """The most tensors, in the order that sorting by offset likes least, and one more."""
    count = 1_000_000 + extra
    order = range(count - 1, -1, -1)
    tail = '"shape":[],"data_offsets"'
    parts = (f'"{i:x}":{{"dtype":"U8",{tail}:[{i},{i + 1}]}}' for i in order)
    text = ("{" + ",".join(parts) + "}").encode()
    path = tmp_path / "a.safetensors"
    path.write_bytes(safetensors_bytes(text, bytes(count)))
    answer = Answer("--copy", f"{path}:f423f", tmp_path / "out.npy")
    assert answer.code == (LIMIT if extra else 0), answer.message
    assert answer.seconds < 1 + 60e-9 * len(text)
    assert answer.peak < 12 * len(text) + 64 * MIB


def test_names_that_would_trick_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    names = ["\x9b2Jred", "ok"]
    header = {name: entry("U8", [1], i, i + 1) for i, name in enumerate(names)}
    path.write_bytes(safetensors_bytes(header, b"ab"))
    answer = refuse(path, USAGE, "holds 2 arrays and none was named")
    assert "\x9b" not in answer.hint and "ok" in answer.hint
    refuse(tmp_path / "\x1b[31m\udcff.npy", IO, "?[31m?.npy")


# ---- outputs ----


def test_outputs_never_overwrite_unasked(tmp_path: Path) -> None:
    source, out = tmp_path / "a.npy", tmp_path / "b.npy"
    np.save(source, np.arange(3.0))
    out.write_bytes(b"precious")
    answer = Answer("--copy", source, out)
    assert answer.code == USAGE and "already exists" in answer.message and "-f" in answer.hint
    assert out.read_bytes() == b"precious"
    assert Answer("--copy", "-f", source, out).code == 0
    same(np.load(out), np.arange(3.0))
    assert Answer("--copy", source, tmp_path / "missing" / "b.npy").code == IO
    assert names_in(tmp_path) == ["a.npy", "b.npy"]


def test_closed_pipe_and_full_disk(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(100000))
    words = [str(PROGRAM), "--copy", str(tmp_path / "a.npy"), "-"]
    reader, writer = os.pipe()
    os.close(reader)
    answer = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, timeout=60)
    os.close(writer)
    assert answer.returncode == IO and b"Broken pipe" in answer.stderr
    with Path("/dev/full").open("wb") as full:
        answer = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert answer.returncode == IO and b"No space left" in answer.stderr


def test_failed_write_leaves_nothing(tmp_path: Path) -> None:
    """The file-size limit stops each writer in the middle."""
    np.save(tmp_path / "a.npy", np.zeros(100000))
    for name in ("b.npy", "b.npz", "b.safetensors"):
        command = 'trap "" XFSZ; ulimit -f 100; exec "$0" --copy "$1" "$2"'
        words = ["bash", "-c", command, str(PROGRAM), str(tmp_path / "a.npy"), str(tmp_path / name)]
        answer = subprocess.run(words, stderr=subprocess.PIPE, timeout=60)
        assert answer.returncode == IO, answer.stderr
        assert b"cannot be written" in answer.stderr
        assert names_in(tmp_path) == ["a.npy"]
