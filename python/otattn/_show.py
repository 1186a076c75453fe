"""Figures: what a call or a study found out, drawn by the same Vega-Lite files as the program's reports; run
folders."""

from __future__ import annotations

import csv
import html
import importlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ._aux import AuxOutput
from ._library import FOLDER
from ._models.studies import LogitLens, Patching

_FOLDER = FOLDER / "figures"
_MIME = "application/vnd.vegalite.v6+json"
_WIDTH = 480
# More cells than a reader can tell apart.
_MOST_CELLS = 200


class Chart:
    """One Vega-Lite specification with its data inside.

    `spec` is the specification. Notebooks draw it, through altair where that is installed. `table` is the
    Table of a study's numbers, as ``otattn patch`` and ``otattn lens`` write it; None of other charts.
    """

    def __init__(self, spec: dict[str, Any], table: Table | None = None) -> None:
        self.spec, self.table = spec, table

    def to_json(self) -> str:
        """The specification as text."""
        return json.dumps(self.spec)

    def to_altair(self) -> Any:
        """The same as a chart of the package altair."""
        import altair

        return altair.Chart.from_dict(self.spec)

    def save(self, path: Any) -> None:
        """Writes the specification; by its ending a study's table, .csv, or with vl-convert-python installed
        a .svg or .png."""
        path = Path(path)
        kind = path.suffix.lower()
        if kind == ".csv":
            if self.table is None:
                raise ValueError(f"{self!r} has no table to write; save the figure as .json, .svg or .png")
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, self.table.columns, lineterminator="\n")
                writer.writeheader()
                writer.writerows(self.table)
            return
        if kind not in (".svg", ".png"):
            path.write_text(self.to_json(), encoding="utf-8")
            return
        try:
            import vl_convert
        except ImportError as error:
            raise ImportError(
                f"a {kind} file needs vl-convert-python: pip install vl-convert-python"
            ) from error
        if kind == ".svg":
            path.write_text(vl_convert.vegalite_to_svg(self.spec), encoding="utf-8")
        else:
            path.write_bytes(vl_convert.vegalite_to_png(self.spec, scale=2))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        del include, exclude
        try:
            found: Any = self.to_altair()._repr_mimebundle_()
        except ImportError:
            return {_MIME: self.spec, "text/plain": repr(self)}
        return found

    def __repr__(self) -> str:
        parts = self.spec.get("vconcat", [self.spec])
        text = "; ".join(str(part.get("description", "chart")).split(".")[0] for part in parts)
        return f"Chart({text})"


def _figure(name: str, data: str, rows: list[dict[str, Any]], axis: str = "") -> dict[str, Any]:
    """The figure's file with its data; axis: what the values are, where the file leaves that open."""
    text = (_FOLDER / f"{name}.vl.json").read_text(encoding="utf-8")
    spec: dict[str, Any] = json.loads(text.replace('"$axis"', json.dumps(axis)))
    if spec["data"]["name"] != data:
        raise ValueError(f"figure {name} wants the data {spec['data']['name']}, not {data}")
    spec["data"] = {"name": data, "values": rows}
    if not isinstance(spec["width"], dict):
        spec["width"] = _WIDTH
    # Only a page has a container to fit into.
    spec.pop("autosize", None)
    return spec


def _theme() -> dict[str, Any]:
    theme: dict[str, Any] = json.loads((_FOLDER / "theme.json").read_text(encoding="utf-8"))
    light: dict[str, Any] = theme["light"]
    # A page shows through; by itself a figure has the reader's own background.
    return {name: value for name, value in light.items() if value is not None}


def _one_head(name: str, x: Any, tail: int, batch: int, head: int) -> Any:
    """[..., heads, (queries,) keys] of an array or tensor -> the last `tail` dimensions of one head."""
    x = np.asarray(x.detach().to("cpu").double() if hasattr(x, "detach") else x, dtype=np.float64)
    lead = x.ndim - tail
    if lead > 0:
        whole = x.reshape((-1, *x.shape[lead - 1 :]))
        for word, index, size in (("batch", batch, whole.shape[0]), ("head", head, whole.shape[1])):
            if not -size <= index < size:
                raise ValueError(f"{word} is {index}, but {name} has {size}")
        x = whole[batch, head]
    if max(x.shape, default=0) > _MOST_CELLS:
        raise ValueError(
            f"{name} has shape {x.shape}: a figure shows at most {_MOST_CELLS} queries and keys, so pass "
            f"aux._replace({name}=...) with a part of it"
        )
    return x


def _labels(name: str, words: Sequence[Any] | None, count: int) -> list[str]:
    if words is not None and len(words) != count:
        raise ValueError(f"{name} has {len(words)} words for {count} positions")
    return [f"{k} {k if words is None else words[k]}" for k in range(count)]


def show(
    found: AuxOutput | Patching | LogitLens,
    *,
    batch: int = 0,
    head: int = 0,
    queries: Sequence[Any] | None = None,
    keys: Sequence[Any] | None = None,
) -> Chart:
    """Draws coupling, received mass and certificate of one head, or a study of a model with its table.

    Parameters
    ----------
    found : AuxOutput, Patching or LogitLens
        Of a call with ``return_aux=otattn.AuxRequest(coupling=True, receiver=True, certificate=True)``, of
        which is drawn what there is; of `Model.patch`, `hf.patch` or `Model.logit_lens`.
    batch, head : int
        Which text, of a LogitLens too, and head.
    queries, keys : sequences, optional
        Words to label rows and columns with, such as tokens; by default positions. Columns of a study have
        its own tokens by default.

    Returns
    -------
    Chart
        Of a study with `table`.

    Raises
    ------
    TypeError
        For anything else.
    ValueError
        When `found` has nothing to draw, or more than 200 queries or keys.

    Examples
    --------
    >>> import numpy as np, otattn
    >>> x = np.eye(3)[None]
    >>> request = otattn.AuxRequest(coupling=True, receiver=True, certificate=True)
    >>> _, aux = otattn.attention(x, x, x, method="ceta", return_aux=request)
    >>> otattn.show(aux, keys=["we", "see", "it"])
    Chart(One coupling P [queries, keys]: who attends to whom; Column sums of several couplings)
    """
    if isinstance(found, AuxOutput):
        return _call_chart(found, batch, head, queries, keys)
    if not isinstance(found, (Patching, LogitLens)):
        raise TypeError(
            f"otattn.show has a {type(found).__name__}, wanted an AuxOutput, a Patching or a LogitLens"
        )
    if queries is not None or head != 0:
        raise ValueError(f"a {type(found).__name__} is drawn by layer, so it takes neither queries nor head")
    if isinstance(found, LogitLens):
        return _lens_chart(found, batch, keys)
    if batch != 0:
        raise ValueError(f"batch is {batch}, but a Patching has one text")
    return _patching_chart(found, keys)


def _call_chart(
    aux: AuxOutput, batch: int, head: int, queries: Sequence[Any] | None, keys: Sequence[Any] | None
) -> Chart:
    parts = []
    if aux.coupling is not None:
        P = _one_head("coupling", aux.coupling, 2, batch, head)
        rows, columns = _labels("queries", queries, P.shape[0]), _labels("keys", keys, P.shape[1])
        weights = [
            {"query": rows[i], "keys": columns, "weights": [_number(p) for p in P[i]]}
            for i in range(len(rows))
        ]
        parts.append(_figure("heatmap", "weights", weights))
    if aux.receiver is not None:
        mass = _one_head("receiver", aux.receiver, 1, batch, head)
        row = {
            "method": "received",
            "keys": _labels("keys", keys, len(mass)),
            "masses": [_number(p) for p in mass],
        }
        parts.append(_figure("receivers", "receivers", [row]))
        parts[-1]["height"] = 40
    if not parts:
        raise ValueError("aux has neither coupling nor receiver: ask for them with return_aux")
    schema = parts[0]["$schema"]
    for part in parts:
        del part["$schema"]
    spec = {"$schema": schema, **(parts[0] if len(parts) == 1 else {"vconcat": parts})}
    spec["config"] = _theme()
    if aux.certificate is not None:
        said = aux.certificate
        spec["title"] = {
            "text": "certificate" if aux.info is None else f"certificate: {aux.info.status}",
            "subtitle": [
                f"row error {said.row_error:.2g}, column error {said.column_error:.2g}, gap {said.gap:.2g}",
                f"entropy {said.entropy:.4g} nats, support {said.support:.4g}, "
                f"largest received mass {said.receiver_max:.4g} even shares",
            ],
            "anchor": "start",
        }
    return Chart(spec)


def _number(x: float) -> float | None:
    """JSON has no NaN."""
    return float(x) if np.isfinite(x) else None


# As the program's tables show tokens: controls, what takes no place, and what turns the direction of text.
_HIDDEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    r"\U000e0000-\U000e0fff]"
)
_MARKS = str.maketrans({" ": "\u2423", "\n": "\u21b5", "\t": "\u21e5"})
_LONGEST = 30


def _word(token: Any) -> str:
    """A token's text for the eye."""
    text = _HIDDEN.sub(lambda mark: f"\\u{{{ord(mark[0]):x}}}", str(token).translate(_MARKS))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "\u2026"


def _study_chart(
    name: str, layers: range, columns: list[str], cells: dict[str, list[Any]], title: dict[str, Any]
) -> dict[str, Any]:
    """The figure of cells by layer and column, the last layer on top; layer -1 is the embedding."""
    if max(len(layers), len(columns)) > _MOST_CELLS:
        raise ValueError(
            f"the study has {len(layers)} layers and {len(columns)} columns: a figure shows at most "
            f"{_MOST_CELLS} of each, so pass study._replace(...) with a part of it"
        )
    rows = [
        {"row": "emb" if layer < 0 else str(layer), "columns": columns}
        | {word: values[k] for word, values in cells.items()}
        for k, layer in enumerate(layers)
    ]
    spec = _figure(name, "rows", rows[::-1], title.pop("axis"))
    spec["title"] = {"anchor": "start", **title}
    spec["config"] = _theme()
    return spec


def _patching_chart(found: Patching, keys: Sequence[Any] | None) -> Chart:
    shares = np.asarray(found.shares)
    count = shares.shape[1]
    words = keys if keys is not None or found.by == "head" else [_word(token) for token in found.tokens]
    title = {
        "text": "Activation patching",
        "subtitle": [
            f"logit of token {found.answer} less that of {found.other}: clean {found.clean:.4g}, corrupt "
            f"{found.corrupt:.4g}"
        ],
        "axis": "share of the difference of logits restored",
    }
    columns = [str(k) for k in range(count)] if words is None else _labels("keys", words, count)
    cells = {"values": [[_number(x) for x in row] for row in shares]}
    spec = _study_chart("patching", range(len(shares)), columns, cells, title)
    records = [
        {"layer": layer, found.by: k, "restored": float(x)}
        for layer, row in enumerate(shares)
        for k, x in enumerate(row)
    ]
    return Chart(spec, Table(["layer", found.by, "restored"], records))


def _lens_chart(found: LogitLens, batch: int, keys: Sequence[Any] | None) -> Chart:
    texts = len(found.tokens)
    if not -texts <= batch < texts:
        raise ValueError(f"batch is {batch}, but the lens has {texts}")
    count = len(found.tokens[batch])
    best, ids = found.probabilities[:, batch, :count, 0], found.ids[:, batch, :count, 0]
    tokens = [[_word(token) for token in row[batch][:count]] for row in found.texts]
    columns = _labels("keys", [_word(x) for x in found.tokens[batch]] if keys is None else keys, count)
    layers = range(-1, len(best) - 1)
    title = {"text": "Logit lens: the likeliest token by layer and position", "axis": "probability"}
    cells: dict[str, list[Any]] = {"words": tokens, "values": [[_number(x) for x in row] for row in best]}
    spec = _study_chart("grid", layers, columns, cells, title)
    records = [
        {
            "layer": layer,
            "position": k,
            "probability": float(best[row, k]),
            "id": int(ids[row, k]),
            "token": tokens[row][k],
        }
        for row, layer in enumerate(layers)
        for k in range(count)
    ]
    return Chart(spec, Table(["layer", "position", "probability", "id", "token"], records))


class Table(Sequence[dict[str, Any]]):
    """The records of a CSV file: a sequence of dicts whose numbers are numbers and empty cells None."""

    def __init__(self, columns: list[str], records: list[dict[str, Any]]) -> None:
        self.columns = columns
        self.records = records

    def __getitem__(self, index: Any) -> Any:
        return [record[index] for record in self.records] if isinstance(index, str) else self.records[index]

    def __len__(self) -> int:
        return len(self.records)

    def to_pandas(self) -> Any:
        """A pandas.DataFrame of the records."""
        pandas = importlib.import_module("pandas")
        return pandas.DataFrame(self.records, columns=self.columns)

    def __repr__(self) -> str:
        return f"Table({len(self)} records of {', '.join(self.columns)})"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        rows = (
            "<tr>" + "".join(f"<td>{_cell(record[name])}</td>" for name in self.columns) + "</tr>"
            for record in self.records
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _cell(x: Any) -> str:
    return f"{x:.6g}" if isinstance(x, float) else html.escape("" if x is None else str(x))


def _value(text: str | None) -> Any:
    if text is None or text == "":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _table(path: Path) -> Table:
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        records = [{name: _value(x) for name, x in record.items()} for record in reader]
        return Table(list(reader.fieldnames or ()), records)


class _Folder(Mapping[str, Any]):
    """Files NAME + ending of a folder, read when they are asked for."""

    def __init__(self, folder: Path, ending: str, read: Any) -> None:
        self._folder, self._ending, self._read = folder, ending, read

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(path.name[: -len(self._ending)] for path in self._folder.glob(f"*{self._ending}")))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __getitem__(self, name: str) -> Any:
        if name not in list(self):
            raise KeyError(f"{self._folder} has no {name!r}; it has {', '.join(self) or 'nothing'}")
        return self._read(self._folder / f"{name}{self._ending}")

    def __repr__(self) -> str:
        return f"{{{', '.join(self)}}}"


class Run:
    """A folder that ``otattn analyze`` wrote.

    Parameters
    ----------
    folder : path
        With ``metrics.json``, and beside it ``tables/*.csv`` and ``figures/*.vl.json``.

    Attributes
    ----------
    metrics : dict
        metrics.json.
    manifest : dict
        manifest.json, empty where there is none.
    tables : mapping of name to Table
        Such as ``run.tables["drift"]["cosine"]`` or ``.to_pandas()``.
    charts : mapping of name to Chart

    Raises
    ------
    FileNotFoundError
        When the folder has no metrics.json.
    """

    def __init__(self, folder: Any) -> None:
        self.folder = Path(folder)
        path = self.folder / "metrics.json"
        if not path.is_file():
            raise FileNotFoundError(f"{path} does not exist, so {self.folder} is no folder of otattn analyze")
        self.metrics: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        manifest = self.folder / "manifest.json"
        self.manifest: dict[str, Any] = (
            json.loads(manifest.read_text(encoding="utf-8")) if manifest.is_file() else {}
        )
        self.tables: Mapping[str, Table] = _Folder(self.folder / "tables", ".csv", _table)
        self.charts: Mapping[str, Chart] = _Folder(
            self.folder / "figures",
            ".vl.json",
            lambda path: Chart(json.loads(path.read_text(encoding="utf-8"))),
        )

    def chart(self, name: str) -> Chart:
        """The figure NAME of the run."""
        return self.charts[name]

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, tables={self.tables!r}, charts={self.charts!r})"

    def _repr_html_(self) -> str:
        model = html.escape(str(self.metrics.get("model", "")))
        return (
            f"<p><b>{model}</b> in {html.escape(str(self.folder))}<br>tables: {', '.join(self.tables)}"
            f"<br>charts: {', '.join(self.charts)}</p>"
        )
