"""Writes what others know of the public headers from these, so that they stay the only truth about structs.

    python/otattn/_structs.py     structs, constants and calls, and the derivatives of src/problem/fields.c
    python/otattn/_model_structs.py         those of models and tokenizers, a library of its own
    tests/problem/members.h       names of members, with which test_fields.c compares the tables of fields.c

make_python_structs.py [--check]      --check: fail when a file is not what the headers give

Reads the small part of C that the headers use and nothing else: `#define OTA_NAME (integer)`, enums,
structs of scalars, pointers, fixed arrays and other structs, function pointers, and prototypes marked
OTA_API. Inline functions are passed over. Anything else stops it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADERS = [
    "include/otattn.h",
    "include/otattn_analysis.h",
    "include/otattn_assignment.h",
    "include/otattn_bounded.h",
    "include/otattn_maxsim.h",
    "include/otattn_normalize.h",
    "include/otattn_route.h",
]
MODEL_HEADERS = [
    "include/otattn_tensors.h",
    "include/otattn_model.h",
    "include/otattn_tokenizer.h",
]
TARGET = ROOT / "python/otattn/_structs.py"
MODEL_TARGET = ROOT / "python/otattn/_model_structs.py"
FIELDS = ROOT / "src/problem/fields.c"
MEMBERS = ROOT / "tests/problem/members.h"
# Structs whose members have a row each in fields.c.
LISTED = ("ota_problem", "ota_options", "ota_gradients", "ota_tangents")
DERIVATIVE = re.compile(r"\[OTA_D_\w+\] = (UPSTREAM|MOVES)\((\w+), (\w+), (\w+)\)")
SCALARS = {
    "int": "ctypes.c_int",
    "double": "ctypes.c_double",
    "int64_t": "ctypes.c_int64",
    "uint64_t": "ctypes.c_uint64",
    "size_t": "ctypes.c_size_t",
    "char": "ctypes.c_char",
    "bool": "ctypes.c_bool",
    "unsigned": "ctypes.c_uint",
}
# One letter a type in the table of calls.
LETTERS = {
    "None": "n",
    "Array": "a",
    "Text": "t",
    "ctypes.c_bool": "b",
    "ctypes.c_uint": "u",
    "ctypes.c_int": "i",
    "ctypes.c_int64": "l",
    "ctypes.c_size_t": "z",
    "ctypes.c_double": "d",
    "ctypes.c_char_p": "s",
    "ctypes.c_void_p": "p",
    "options": "o",
}
HEAD = '''"""The structs, constants and calls of the C headers, written by scripts/make_python_structs.py.

Do not edit. A call is its result and its arguments, one letter each: n nothing, a Array, t Text, b bool,
i int, u unsigned, l int64, z size_t, d double, s text, p pointer, o options of the analysis; then the names
of the arguments that are numbers.
"""

import ctypes

'''


class Reader:
    def __init__(self) -> None:
        self.constants: list[tuple[str, int]] = []
        self.values: dict[str, int] = {}
        self.enums: set[str] = set()
        self.structs: list[tuple[str, list[tuple[str, str]]]] = []
        self.opaque: set[str] = set()
        self.known: set[str] = set()  # structs of headers that these include
        self.calls: list[tuple[str, str, list[tuple[str, str]]]] = []

    def constant(self, name: str, value: int) -> None:
        self.constants.append((name, value))
        self.values[name] = value

    def type_of(self, text: str) -> str:
        """The ctypes spelling of a C type without declarator."""
        text = re.sub(r"\b(const|struct)\b", " ", text)
        words = text.replace("*", " * ").split()
        name, stars = words[0], words.count("*")
        if [word for word in words[1:] if word != "*"]:
            raise SystemExit(f"cannot read the type {text!r}")
        if stars == 1 and name == "char":
            return "ctypes.c_char_p"
        if stars:
            return "ctypes.c_void_p"
        if name in SCALARS:
            return SCALARS[name]
        if name in self.enums:
            return "ctypes.c_int"
        if name in self.known or name in (struct for struct, _ in self.structs):
            return class_name(name)
        if name == "void":
            return "None"
        raise SystemExit(f"unknown type {name!r}")

    def enum(self, name: str, body: str) -> None:
        following = 0
        for item in filter(None, (part.strip() for part in body.split(","))):
            match = re.fullmatch(r"(\w+)(?:\s*=\s*(-?\d+|0x[0-9A-F]+))?", item)
            if match is None:
                raise SystemExit(f"cannot read {item!r} of {name}")
            value = int(match[2], 0) if match[2] else following
            self.constant(match[1], value)
            following = value + 1
        self.enums.add(name)

    def struct(self, name: str, body: str) -> None:
        fields: list[tuple[str, str]] = []
        for item in filter(None, (part.strip() for part in body.split(";"))):
            pointer = re.fullmatch(r"\w+ \(\*(\w+)\)\(.*\)", item)
            if pointer:
                fields.append((pointer[1], "ctypes.c_void_p"))
                continue
            match = re.fullmatch(r"((?:const )?\w+) (.+)", item)
            if match is None:
                raise SystemExit(f"cannot read {item!r} of {name}")
            for declarator in (part.strip() for part in match[2].split(",")):
                found = re.fullmatch(r"(\**)\s*(\w+)(?:\[(\w+)\])?", declarator.replace("*const *", "**"))
                if found is None:
                    raise SystemExit(f"cannot read {declarator!r} of {name}")
                kind = self.type_of(match[1] + " " + found[1])
                length = self.values.get(found[3], found[3])
                fields.append((found[2], f"{kind} * {length}" if length else kind))
        self.structs.append((name, fields))

    def call(self, result: str, name: str, arguments: str) -> None:
        taken = []
        if arguments.strip() != "void":
            # A function pointer has commas of its own.
            flat = re.sub(r"\(\*(\w+)\)\([^()]*\)", r"*\1", arguments)
            for argument in flat.split(","):
                match = re.fullmatch(r"(.*?)(\w+)", argument.strip())
                if match is None:
                    raise SystemExit(f"cannot read {argument!r} of {name}")
                options = match[1].strip() == "const ota_analysis_options *"
                taken.append((match[2], "options" if options else self.type_of(match[1])))
        self.calls.append((name, self.type_of(result), taken))

    def read(self, text: str) -> None:
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
        for name, value in re.findall(r"^#define (OTA_\w+) \(?(-?\d+)\)?\s*$", text, flags=re.MULTILINE):
            self.constant(name, int(value))
        text = re.sub(r"^static inline .*?^\}", " ", text, flags=re.MULTILINE | re.DOTALL)
        text = re.sub(r"^#.*$|extern \"C\" \{", " ", text, flags=re.MULTILINE)
        text = re.sub(r"\s+", " ", text)
        pattern = re.compile(
            r"typedef enum (?P<enum>\w+) \{(?P<items>[^}]*)\} (?P=enum);"
            r"|enum \{(?P<loose>[^}]*)\};"
            r"|typedef struct (?P<struct>\w+) \{(?P<fields>[^}]*)\} (?P=struct);"
            r"|typedef struct (?P<opaque>\w+) (?P=opaque);"
            r"|OTA_API (?P<result>(?:const )?\w+ \*?) ?(?P<call>\w+)\((?P<arguments>[^;]*)\);"
        )
        place = 0
        for match in pattern.finditer(text):
            between = text[place : match.start()].strip(" }")
            if between:
                raise SystemExit(f"cannot read {between[:80]!r}")
            place = match.end()
            if match["enum"]:
                self.enum(match["enum"], match["items"])
            elif match["loose"]:
                self.enum("", match["loose"])
            elif match["struct"]:
                self.struct(match["struct"], match["fields"])
            elif match["opaque"]:
                self.opaque.add(match["opaque"])
            else:
                self.call(match["result"], match["call"], match["arguments"])
        if text[place:].strip(" }"):
            raise SystemExit(f"cannot read {text[place : place + 80]!r}")


def class_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_")[1:])


def derivatives() -> list[tuple[str, str, str, str]]:
    """Rows of fields.c: names in ota_gradients and ota_tangents, shape, and how ranks share the gradient.

    What stands upstream of a number is shared as "upstream".
    """
    rows = []
    for kind, first, second, third in DERIVATIVE.findall(FIELDS.read_text(encoding="utf-8")):
        if kind == "UPSTREAM":
            rows.append((first, second, third.lower(), "upstream"))
        else:
            rows.append((first, first, second.lower(), third.lower()))
    return rows


def render_members(reader: Reader) -> str:
    out = [
        "/* members.h: the members of structs whose tables test_fields.c judges. Written by\n"
        " * scripts/make_python_structs.py. */\n/* clang-format off */\n"
        "#ifndef TESTS_MEMBERS_H\n#define TESTS_MEMBERS_H\n\n#include <stddef.h>\n"
    ]
    for name, fields in reader.structs:
        if name not in LISTED:
            continue
        out.append(f"\nstatic const char *const members_of_{name[4:]}[] = {{\n")
        out += [f'    "{field}",\n' for field, _ in fields]
        out.append("    NULL};\n")
    out.append("\n#endif\n")
    return "".join(out)


def render(reader: Reader) -> str:
    used = {kind for _, fields in reader.structs for _, kind in fields}
    borrowed = sorted(used & {class_name(name) for name in reader.known})
    out = [HEAD, *(f"from ._structs import {', '.join(borrowed)}\n\n" for _ in borrowed[:1])]
    out += [f"{name[4:]} = {value}\n" for name, value in reader.constants]
    for name, fields in reader.structs:
        out.append(f"\n\nclass {class_name(name)}(ctypes.Structure):\n    _fields_ = (\n")
        out += [f'        ("{field}", {kind}),\n' for field, kind in fields]
        out.append("    )\n")
    out.append("\n\nSTRUCTS: dict[str, type[ctypes.Structure]] = {\n")
    out += [f'    "{name}": {class_name(name)},\n' for name, _ in reader.structs]
    out.append("}\n\nCALLS = {\n")
    for name, result, taken in reader.calls:
        letters = "".join(LETTERS[kind] for kind in [result, *(kind for _, kind in taken)])
        numbers = [argument for argument, kind in taken if LETTERS[kind] in "izld"]
        out.append(f'    "{name}": "{" ".join([letters, *numbers])}",\n')
    out.append("}\n")
    return "".join(out)


def render_derivatives() -> str:
    out = [
        "\n# Names in Gradients and in Tangents, shape, and how ranks share the gradient.\nDERIVATIVES = (\n"
    ]
    out += [f'    ("{a}", "{b}", "{c}", "{d}"),\n' for a, b, c, d in derivatives()]
    out.append(")\n")
    return "".join(out)


def read_headers(headers: list[str], known: Reader | None = None) -> Reader:
    """What the headers say, where `known` are the words of others that they include."""
    reader = Reader()
    if known is not None:
        reader.enums = set(known.enums)
        reader.known = {name for name, _ in known.structs}
    for header in headers:
        reader.read((ROOT / header).read_text(encoding="utf-8"))
    return reader


def main() -> int:
    core = read_headers(HEADERS)
    models = read_headers(MODEL_HEADERS, core)
    written = {
        TARGET: render(core) + render_derivatives(),
        MODEL_TARGET: render(models),
        MEMBERS: render_members(core),
    }
    for target, text in written.items():
        if "--check" not in sys.argv[1:]:
            target.write_text(text, encoding="utf-8")
        elif target.read_text(encoding="utf-8") != text:
            print(f"{target.name} is not what the headers give; run scripts/make_python_structs.py")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
