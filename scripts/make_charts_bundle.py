"""Writes the chart library that reports carry: charts.js, and charts.js.gz.b64 beside it.

The bundle (Vega, Vega-Lite, Vega-Embed) comes out of the pinned Python package vl-convert-python, which
carries it; nothing is downloaded. charts.js.gz.b64 is what the program embeds and pages inflate; the
licence notices that every page must keep stand in program/report/NOTICE.txt and at the head of charts.js.

    build/venv/bin/pip install vl-convert-python==1.9.0.post1
    build/venv/bin/python scripts/make_charts_bundle.py build/charts.js
    cmake -B build -DOTATTN_CHARTS=build/charts.js
"""

from __future__ import annotations

import base64
import gzip
import importlib.metadata
import sys
from pathlib import Path

PINNED = "1.9.0.post1"
NOTICE = Path(__file__).resolve().parent.parent / "program" / "report" / "NOTICE.txt"
# A page must stay under 1.5 MB with its data; the bundle is the one part whose size others decide.
LARGEST = 600_000


def replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(data)
    temporary.replace(path)


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(f"usage: {sys.argv[0]} OUTPUT.js")
    output = Path(sys.argv[1])
    found = importlib.metadata.version("vl-convert-python")
    if found != PINNED:
        raise SystemExit(f"vl-convert-python {found} is installed, {PINNED} is what reports are tested with")
    import vl_convert

    notice = NOTICE.read_text(encoding="utf-8")
    if "*/" in notice:
        raise SystemExit(f"{NOTICE} would end the comment it stands in")
    bundle = "/*!\n" + notice + "*/\n" + vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    data = bundle.encode()
    packed = base64.b64encode(gzip.compress(data, compresslevel=9, mtime=0))
    if len(packed) > LARGEST:
        raise SystemExit(f"the packed bundle takes {len(packed)} bytes, more than {LARGEST}")
    output.parent.mkdir(parents=True, exist_ok=True)
    replace(output, data)
    replace(output.with_name(output.name + ".gz.b64"), packed)
    print(f"{output}: {len(data)} bytes, {len(packed)} packed")


if __name__ == "__main__":
    main()
