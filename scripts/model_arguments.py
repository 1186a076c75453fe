"""What the programs that measure a model take alike: the model, a text or ids, a folder, a figure."""

from __future__ import annotations

import argparse
from pathlib import Path


def model_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser of `model [text] -o FOLDER [--program P] [--ids FILE] [--title T] [--svg]`."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("text", nargs="?")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--program", default="build/otattn")
    parser.add_argument("--ids", help="token ids, .npy, in the place of TEXT")
    parser.add_argument("--title", help="of the figure; the name of the model's folder or file")
    parser.add_argument("--svg", action="store_true", help="draw the figure, too")
    return parser


def parse_model(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The arguments, with the folder made; a usage error unless exactly one of text and ids is given."""
    args = parser.parse_args()
    if (args.text is None) == (args.ids is None):
        parser.error("give TEXT or --ids")
    args.output.mkdir(parents=True, exist_ok=True)
    return args
