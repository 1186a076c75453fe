"""Encoding by the tokenizers of today's models, beside the packages `tokenizers` and `sentencepiece`.

    python bench/tokenizer_families.py [--program build/otattn] [--repeat 3] [FAMILY ...]

The families are those of tests/python/program/test_tokenizer_families.py, with their small trained
vocabularies; the texts are the documentation and drawn texts in sixteen scripts and kinds. MB a second of
processor time, the fastest of --repeat runs in turns: the packages by their call, the program on eight times
the text less a run with an empty one (it encodes twice where there are more ids than half the bytes). Ids are
compared, too.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

# The program reads so much more text than the packages do.
TIMES = 8
ROOT = Path(__file__).resolve().parents[1]
for folder in ("program", "support", "."):
    sys.path.insert(0, str(ROOT / "tests" / "python" / folder))


def used() -> float:
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def seconds(call: Callable[[], Any]) -> float:
    """Processor time, of a program that the call starts, too."""
    begin = used()
    call()
    return used() - begin


def peers(name: str, folder: Path) -> tuple[str, Callable[[str], list[int]]]:
    """The file that the program reads, and the call of the package."""
    import sentencepiece
    import test_tokenizer_families as families

    if name in families.MODELS:
        rule, options = families.MODELS[name]
        data = families.model_of(rule, **options)
        (folder / "tokenizer.model").write_bytes(data)
        processor = sentencepiece.SentencePieceProcessor(model_proto=data)
        return "tokenizer.model", processor.encode
    tokenizer = families.FAMILIES[name]()
    tokenizer.save(str(folder / "tokenizer.json"))
    return "tokenizer.json", lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def measure(name: str, texts: dict[str, str], program: str, repeat: int) -> str:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        file, encode = peers(name, folder)
        cells = [name]
        for text in texts.values():
            (folder / "text").write_text(text)
            (folder / "long").write_text(text * TIMES)
            (folder / "empty").write_text("")
            # The package sentencepiece reads no marks in a text.
            plain = ["--plain"] if file.endswith(".model") else []
            command = [program, "tokenize", str(folder / file), "--no-special", *plain, "--count"]
            ours, theirs, start = [], [], []
            for _ in range(repeat):
                for which, times in (("long", ours), ("empty", start)):
                    words = [*command, str(folder / which)]
                    times.append(
                        seconds(lambda words=words: subprocess.run(words, check=True, capture_output=True))
                    )
                theirs.append(seconds(lambda text=text: encode(text)))
            size = len(text.encode()) / 1e6
            own = max(min(ours) - min(start), 1e-9) / TIMES
            cells += [f"{size / min(theirs):.2f}", f"{size / own:.1f}", f"**{min(theirs) / own:.2g}**"]
        words = [*command[:-1], str(folder / "text")]
        ids = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
        same = ids == [str(one) for one in encode(list(texts.values())[-1])]
    return "| " + " | ".join([*cells, "yes" if same else "no"]) + " |"


def main() -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import test_tokenizer_families as families
    import token_texts

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default=str(ROOT / "build" / "otattn"))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("families", nargs="*", default=[*families.FAMILIES, *families.MODELS])
    chosen = parser.parse_args()
    source = random.Random(3)
    texts = {
        "documentation": "".join(file.read_text() for file in sorted((ROOT / "docs").rglob("*.md"))),
        "drawn": "".join(token_texts.draw(source) + "\n" for _ in range(15000)),
    }
    heads = [f"{name}: package, MB/s | otattn | ratio" for name in texts]
    print("| family |", " | ".join(heads), "| same ids |")
    for name in chosen.families:
        print(measure(name, texts, chosen.program, chosen.repeat), flush=True)


if __name__ == "__main__":
    main()
