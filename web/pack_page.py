"""The playground as one page: modules, model, styles and scripts of this folder put into playground.html.

    pack_page.py BUILT MODEL.gguf PAGE

BUILT is the folder of scripts/dev/playground.sh. The plain module is packed whole, that with vector
instructions as pieces of it and bytes of its own (`patched` in module.js): what is not a kernel is the same
in both.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
import struct
import sys
from pathlib import Path

WEB = Path(__file__).resolve().parent
ROOT = WEB.parent
SCRIPTS = ("module.js", "draw.js", "sources.js", "playground.js")
LARGEST = 3_000_000
BLOCK = 16
SHORTEST = 32
LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?_~()[]{}@%$#,"


def encode(data: bytes) -> str:
    """To the base 85, highest digit first, in letters that are plain text in HTML."""
    padded = data + bytes(-len(data) % 4)
    pairs = [first + second for first in LETTERS for second in LETTERS]
    words = []
    for (word,) in struct.iter_unpack(">I", padded):
        high, low = divmod(word, 85 * 85)
        higher, middle = divmod(high, 85 * 85)
        words.append(LETTERS[higher] + pairs[middle] + pairs[low])
    return "".join(words)


def matches(base: bytes, target: bytes) -> list[tuple[int, int, bytes]]:
    """The target as (offset in base, length, bytes of its own behind them)."""
    places: dict[bytes, int] = {}
    for at in range(0, len(base) - BLOCK, BLOCK):
        places.setdefault(base[at : at + BLOCK], at)
    rows: list[tuple[int, int, bytes]] = []
    offset = length = own = at = shift = 0
    while at + BLOCK <= len(target):
        block = target[at : at + BLOCK]
        # Where the last match would go on comes first: pieces keep their order.
        found = at + shift if base[at + shift : at + shift + BLOCK] == block else places.get(block)
        if found is None:
            at += 1
            continue
        begin, from_ = at, found
        while begin > own and from_ > 0 and target[begin - 1] == base[from_ - 1]:
            begin, from_ = begin - 1, from_ - 1
        end, to = at + BLOCK, found + BLOCK
        while end < len(target) and to < len(base) and target[end] == base[to]:
            end, to = end + 1, to + 1
        if end - begin < SHORTEST:
            at += 1
            continue
        rows.append((offset, length, target[own:begin]))
        offset, length, own, at, shift = from_, end - begin, end, end, to - end
    return [*rows, (offset, length, target[own:])]


def patch(base: bytes, target: bytes) -> bytes:
    rows = matches(base, target)
    made = b"".join(base[offset : offset + length] + own for offset, length, own in rows)
    if made != target:
        sys.exit("pack_page: the patch does not make the module")
    head = struct.pack("<II", len(rows), len(target))
    table = b"".join(struct.pack("<III", offset, length, len(own)) for offset, length, own in rows)
    return head + table + b"".join(own for _, _, own in rows)


def captured(path: Path) -> dict:
    """The heads of data/demo/minilm.safetensors: queries and keys in f32, and what they belong to."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    words = header["__metadata__"]
    heads, count, width = header["query"]["shape"]

    def head(name: str, index: int) -> str:
        begin = 8 + length + header[name]["data_offsets"][0] + index * count * width * 4
        return base64.b64encode(data[begin : begin + count * width * 4]).decode()

    layers, numbers = json.loads(words["layers"]), json.loads(words["heads"])
    return {
        "sentence": words["sentence"],
        "model": words["model"],
        "tokens": json.loads(words["tokens"]),
        "width": width,
        "heads": [
            {"layer": layers[at], "head": numbers[at], "query": head("query", at), "key": head("key", at)}
            for at in range(heads)
        ],
    }


def licences(built: Path) -> str:
    """Those of the libraries that the module holds, as their sources have them."""
    texts = []
    for line in (ROOT / "scripts" / "libraries" / "libraries.txt").read_text().splitlines():
        name = line.split()[0]
        folder = built.parent / "sources" / name
        if not (built / name).is_dir():
            continue
        file = next(path for name in ("LICENSE", "LICENCE", "LICENSE.md") if (path := folder / name).exists())
        texts.append(f"{folder.name}\n\n{file.read_text(encoding='utf-8').strip()}\n")
    texts.append((WEB / "NOTICE.txt").read_text(encoding="utf-8"))
    return "\n\n".join(texts)


def main() -> None:
    built, model, page = map(Path, sys.argv[1:])
    plain, vectors = (
        (built / kind / "web" / "playground.wasm").read_bytes() for kind in ("plain", "vectors")
    )
    theme = json.loads((ROOT / "program" / "report" / "theme.json").read_text())
    parts = {
        "STYLE": (ROOT / "program" / "report" / "page.css").read_text()
        + (WEB / "playground.css").read_text(),
        "SCRIPT": "\n".join((WEB / name).read_text() for name in SCRIPTS),
        "THEME": json.dumps(theme, separators=(",", ":")),
        "LICENCES": html.escape(licences(built)),
        "CAPTURED": json.dumps(
            captured(ROOT / "data" / "demo" / "minilm.safetensors"), separators=(",", ":")
        ),
    }
    for name, data in (("MODULE", plain), ("VECTORS", patch(plain, vectors)), ("MODEL", model.read_bytes())):
        packed = gzip.compress(data, 9, mtime=0)
        parts[name] = encode(packed)
        parts[f"{name}_SIZE"] = str(len(packed))
        print(f"{name.lower()}: {len(data)} bytes, {len(packed)} packed")
    template = (WEB / "playground.html").read_text()
    text = re.sub(r"@([A-Z_]+)@", lambda place: parts[place[1]], template)
    size = len(text.encode())
    if size >= LARGEST:
        sys.exit(f"pack_page: {page} would have {size} bytes, {LARGEST} or more")
    page.write_text(text, encoding="utf-8")
    print(f"{page}: {size} bytes")


if __name__ == "__main__":
    main()
