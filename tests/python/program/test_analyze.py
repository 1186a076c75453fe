"""`otattn analyze`: every figure against formulas written here on states that transformers computes in
double precision, and the folder: kills, resume, locks, replaced inputs.

Figures are means over tokens; the program works on f32 states and logits, so they agree to FIGURE times the
size of the measure, and those that count ranks to what one pair out of order in a row of a window makes."""

from __future__ import annotations

import contextlib
import csv
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spec
from program import PROGRAM, answer, environment, run

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from scipy import optimize, sparse, stats  # noqa: E402
from test_models import VOCABULARY, draw_ids, make_model  # noqa: E402

FIGURE = 2e-4
WINDOWS, TOKENS = 3, 24
Measure = Callable[[np.ndarray, np.ndarray], np.ndarray]
MODELS = ["gpt2", "bert", "llama", "gemma 3"]


# ---- the peer ----


def last_block(model: Any) -> Any:
    return model.model.layers[-1] if hasattr(model, "model") else model.transformer.h[-1]


def lens(model: Any, name: str, state: Any) -> Any:
    """What the head multiplies."""
    if name == "bert":
        return model.cls.predictions.transform(state)
    return model.transformer.ln_f(state) if name == "gpt2" else model.model.norm(state)


def head(model: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    decoder = model.cls.predictions.decoder if name == "bert" else model.lm_head
    bias = decoder.bias
    offset = np.zeros(VOCABULARY) if bias is None else bias.detach().numpy()
    return decoder.weight.detach().numpy(), offset


def peer_states(model: Any, name: str, ids: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """States 0 ... layers of one window [n, d], none behind the last norm; patterns [layers, heads, n, n]."""
    kept: list[Any] = []
    handle = None
    if name != "bert":
        handle = last_block(model).register_forward_hook(
            lambda module, inputs, output: kept.append(output if torch.is_tensor(output) else output[0])
        )
    with torch.no_grad():
        result = model(torch.tensor(ids[None]), output_hidden_states=True, output_attentions=True)
    states = [state[0].numpy() for state in result.hidden_states]
    if handle is not None:
        handle.remove()
        states[-1] = kept[0].reshape(states[0].shape).numpy()
    return states, np.stack([one[0].numpy() for one in result.attentions])


# ---- the measures ----


def log_softmax(z: np.ndarray) -> np.ndarray:
    z = z - z.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def top(z: np.ndarray, count: int) -> set[int]:
    return set(np.argsort(-z, kind="stable")[:count].tolist())


def overlap(count: int) -> Measure:
    return lambda z, y: np.array(
        [len(top(a, count) & top(b, count)) / count for a, b in zip(z, y, strict=True)]
    )


def each(measure: Callable[[np.ndarray, np.ndarray], float]) -> Measure:
    return lambda z, y: np.array([measure(a, b) for a, b in zip(z, y, strict=True)])


def kl(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return (p * np.log(p / q)).sum(-1)


def js(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    p, q = np.exp(log_softmax(z)), np.exp(log_softmax(y))
    return (kl(p, (p + q) / 2) + kl(q, (p + q) / 2)) / 2


def entropy(z: np.ndarray) -> np.ndarray:
    return -(np.exp(log_softmax(z)) * log_softmax(z)).sum(-1)


def tv(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.abs(np.exp(log_softmax(z)) - np.exp(log_softmax(y))).sum(-1) / 2


def half_range(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.ptp(y - z, axis=-1) / 2


LOGITS: dict[str, Measure] = {
    "tv": tv,
    "w1": tv,
    "kl": lambda z, y: kl(np.exp(log_softmax(y)), np.exp(log_softmax(z))),
    "js": js,
    "entropy_change": lambda z, y: entropy(y) - entropy(z),
    "top1": overlap(1),
    "top5": overlap(5),
    "top10": overlap(10),
    "spearman": each(lambda a, b: float(stats.spearmanr(a, b).statistic)),
    "max_logit_change": lambda z, y: np.abs(y - z).max(-1),
    "logit_range_half": half_range,
    "logit_correlation": each(lambda a, b: float(np.corrcoef(a, b)[0, 1])),
    "effective_temperature": lambda z, y: 1 / z.std(-1),
    "bound_ratio_sharp": lambda z, y: tv(z, y) / np.tanh(half_range(z, y) / 2),
}
IDS = {
    "tv": "TOT-71", "w1": "TOT-72", "kl": "TOT-73", "js": "TOT-74", "entropy_change": "TOT-75",
    "top10": "TOT-76", "spearman": "TOT-77", "relative_l2": "TOT-78", "cosine": "TOT-79",
    "max_coordinate_change": "TOT-80", "max_logit_change": "TOT-81", "logit_correlation": "TOT-82",
    "effective_temperature": "TOT-83", "bound_ratio": "TOT-27", "top1": "TOT-76", "top5": "TOT-76",
    "alignment": "TOT-41", "receiver_max": "CETA-19", "entropy": "TOT-64", "kl_to_final": "TOT-64",
}  # fmt: skip
STATES: dict[str, Measure] = {
    "relative_l2": lambda h, g: np.linalg.norm(g - h, axis=-1) / np.linalg.norm(h, axis=-1),
    "norm_change": lambda h, g: np.linalg.norm(g - h, axis=-1),
    "cosine": lambda h, g: (g * h).sum(-1) / np.linalg.norm(g, axis=-1) / np.linalg.norm(h, axis=-1),
    "max_coordinate_change": lambda h, g: np.abs(g - h).max(-1),
}


def gini(masses: np.ndarray) -> float:
    return float(np.abs(np.subtract.outer(masses, masses)).sum() / (2 * len(masses) ** 2 * masses.mean()))


HEADS: dict[str, Callable[[np.ndarray], float]] = {
    "first_key_mass": lambda p: float(p[:, 0].mean()),
    "sink_rate": lambda p: float(p[:, 0].mean() > 0.3),
    "receiver_max": lambda p: float(p.sum(0).max()),
    "gini": lambda p: gini(p.sum(0)),
    "row_entropy": lambda p: float(-(p * np.log(np.where(p > 0, p, 1))).sum(-1).mean()),
    "max_weight": lambda p: float(p.max(-1).mean()),
    "support": lambda p: float((p > 0).sum(-1).mean()),
}


def on_pairs(pairs: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray, np.ndarray], float]:
    """Mean weight of rows on the pairs of ids that they see, over rows that see any."""

    def score(p: np.ndarray, ids: np.ndarray) -> float:
        mask = pairs(np.equal.outer(ids, ids)) & (p > 0)
        return float(np.where(mask, p, 0).sum(1)[mask.any(1)].mean())

    return score


def behind(same: np.ndarray) -> np.ndarray:
    shifted = np.roll(same & ~np.eye(len(same), dtype=bool), 1, axis=1)
    shifted[:, 0] = False
    return shifted


def near(p: np.ndarray, ids: np.ndarray) -> float:
    apart = abs(np.subtract.outer(np.arange(len(p)), np.arange(len(p))))
    rows = ((p > 0) & (apart >= 8)).any(1)
    return float(np.where(apart < 8, p, 0).sum(1)[rows].mean()) if rows.any() else np.nan


def sink(p: np.ndarray, ids: np.ndarray) -> float:
    others = (p > 0) & ~np.eye(len(p), dtype=bool)
    seen = others.sum(0)
    means = np.where(others, p, 0).sum(0) / np.maximum(seen, 1)
    return float(means[seen >= seen.max() / 2].max())


KINDS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "previous_token": on_pairs(lambda same: np.eye(len(same), k=-1, dtype=bool)),
    "duplicate_token": on_pairs(lambda same: same & ~np.eye(len(same), dtype=bool)),
    "induction": on_pairs(behind),
    "local": near,
    "sink": sink,
}


def value_norms(model: Any, name: str, ids: np.ndarray) -> np.ndarray:
    """[layers, heads, n]: norms of what attention multiplies with its weights."""
    kept: list[np.ndarray] = []
    ends = {"gpt2": "attn.c_attn", "bert": "self.value"}.get(name, "self_attn.v_proj")
    hooks = [
        module.register_forward_hook(lambda module, inputs, output: kept.append(output[0].numpy()))
        for path, module in model.named_modules()
        if path.endswith(ends)
    ]
    with torch.no_grad():
        model(torch.tensor(ids[None]))
    for hook in hooks:
        hook.remove()
    heads = model.config.num_attention_heads
    groups = getattr(model.config, "num_key_value_heads", None) or heads
    values = [one[:, -one.shape[1] // 3 :] if name == "gpt2" else one for one in kept]
    norms = [np.linalg.norm(v.reshape(len(ids), groups, -1), axis=2).T for v in values]
    return np.stack([one.repeat(heads // groups, axis=0) for one in norms])


def minimax(a: np.ndarray) -> float:
    """min R with |a_ij - k_i - v_j| <= R, a linear program."""
    rows, columns = a.shape
    i, j = (index.ravel() for index in np.indices(a.shape))
    one = np.zeros((a.size, rows + columns))
    one[np.arange(a.size), i] = one[np.arange(a.size), rows + j] = 1
    one = sparse.csr_array(one)
    last = sparse.csr_array(-np.ones((a.size, 1)))
    sides = sparse.hstack([sparse.vstack([one, -one]), sparse.vstack([last, last])])
    cost = np.zeros(rows + columns + 1)
    cost[-1] = 1
    found = optimize.linprog(cost, sides, np.r_[a.ravel(), -a.ravel()], bounds=[(None, None)] * len(cost))
    return float(found.fun)


def gather(model: Any, name: str, ids: np.ndarray) -> dict[str, Any]:
    """logits[probe][state] and inputs alike [windows * n, ...], states, patterns[window]."""
    weight, offset = head(model, name)
    windows = [peer_states(model, name, one) for one in ids]
    states = [np.concatenate([one[0][k] for one in windows]) for k in range(len(windows[0][0]))]
    with torch.no_grad():
        normed = [lens(model, name, torch.tensor(state)).numpy() for state in states]
    inputs = {"final_norm": normed, "raw": states}
    logits = {probe: [x @ weight.T + offset for x in list_] for probe, list_ in inputs.items()}
    patterns = [one[1] for one in windows]
    return {"weight": weight, "states": states, "inputs": inputs, "logits": logits, "patterns": patterns}


@pytest.mark.parametrize("name", MODELS)
def test_figures(tmp_path: Path, name: str) -> None:
    model = make_model(tmp_path / "model", name).double()
    ids = draw_ids(WINDOWS, TOKENS)
    np.save(tmp_path / "ids.npy", ids.ravel())
    answer(tmp_path, "analyze", "model", "--ids", "ids.npy", "--windows", f"{WINDOWS}x{TOKENS}")
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    peer = gather(model, name, ids)
    assert metrics["tokens"] == WINDOWS * TOKENS and metrics["windows"] == WINDOWS
    spec.check_true("TOT-70", metrics["transition_count"] == WINDOWS * TOKENS * (len(peer["states"]) - 1))
    worst: dict[str, float] = {}

    def compare(key: str, figure: dict[str, Any], values: Any, slack: float = 0.0) -> None:
        values = np.asarray(values, dtype=float)
        scale = np.abs(values).max() + 1e-12
        wrong = max(0.0, abs(figure["mean"] - values.mean()) - slack) / scale
        worst[key] = max(worst.get(key, 0.0), wrong)
        assert figure["n"] == values.size, key
        if values.size > 1 and not slack:
            worst[key] = max(worst[key], abs(figure["sd"] - values.std(ddof=1)) / scale)
            for word, share in (("median", 50), ("p5", 5), ("p95", 95)):
                worst[key] = max(worst[key], abs(figure[word] - np.percentile(values, share)) / scale)
            assert figure["ci95"][0] <= figure["mean"] <= figure["ci95"][1], key

    for layer, object_ in enumerate(metrics["transitions"]):
        for key, measure in STATES.items():
            compare(key, object_[key], measure(*peer["states"][layer : layer + 2]))
        for probe, figures in (("final_norm", object_), ("raw", object_["raw"])):
            z, y = peer["logits"][probe][layer : layer + 2]
            for key, measure in LOGITS.items():
                counts = key.startswith("top") or key == "spearman"
                compare(key, figures[key], measure(z, y), 0.5 / (WINDOWS * TOKENS) if counts else 0.0)
            x, w = peer["inputs"][probe][layer : layer + 2]
            bound = np.linalg.norm(peer["weight"], axis=1).max() * np.linalg.norm(w - x, axis=1)
            compare("bound_ratio", figures["bound_ratio"], 2 * tv(z, y) / bound)
            if layer == 0:
                exact = np.array([minimax(move) for move in (y - z).reshape(WINDOWS, TOKENS, -1)])
                compare("alignment", figures["alignment"], exact)
                compare("alignment", figures["alignment_per_sqrt_vocabulary"], exact / VOCABULARY**0.5)
    norms = [value_norms(model, name, one) for one in ids]
    with (tmp_path / "run" / "tables" / "heads.csv").open(newline="") as file:
        for line in csv.DictReader(file):
            layer, number = int(line["layer"]), int(line["head"])
            if float(line["sink_key_share"]) < 1:
                continue
            place = int(line["sink_key"])
            ratios = [
                one[layer, number, place] / np.median(np.delete(one[layer, number], place)) for one in norms
            ]
            assert float(line["value_ratio"]) == pytest.approx(np.mean(ratios), rel=FIGURE)
            both = float(line["nop_sink"]) + float(line["broadcast_sink"])
            assert both == pytest.approx(float(line["sink"]), rel=1e-12)
    with (tmp_path / "run" / "tables" / "massive.csv").open(newline="") as file:
        for line in csv.DictReader(file):
            states = np.abs(peer["states"][int(line["state"])].reshape(WINDOWS, -1))
            tops = np.sort(states, axis=1)[:, -int(line["rank"])]
            assert float(line["size"]) == pytest.approx(tops.mean(), rel=FIGURE)
            assert float(line["ratio"]) == pytest.approx(
                (tops / np.median(states, axis=1)).mean(), rel=FIGURE
            )
    for state, object_ in enumerate(metrics["layers"]):
        compare("norm", object_["norm"], np.linalg.norm(peer["states"][state], axis=1))
        compare("kurtosis", object_["kurtosis"], stats.kurtosis(peer["states"][state], axis=1))
        for probe, figures in (("final_norm", object_), ("raw", object_["raw"])):
            z, final = peer["logits"][probe][state], peer["logits"][probe][-1]
            compare("entropy", figures["entropy"], entropy(z))
            compare("max_probability", figures["max_probability"], np.exp(log_softmax(z)).max(-1))
            wanted = kl(np.exp(log_softmax(final)), np.exp(log_softmax(z)))
            compare("kl_to_final", figures["kl_to_final"], wanted, 1e-6)
            agrees = z.argmax(-1) == final.argmax(-1)
            compare("agreement_with_final", figures["agreement_with_final"], agrees, 0.5 / agrees.size)
    for layer, row in enumerate(metrics["attention"]):
        for number, figures in enumerate(row):
            for key, per_head in HEADS.items():
                compare(key, figures[key], [per_head(one[layer, number]) for one in peer["patterns"]])
            for kind, of in KINDS.items():
                windows = zip(peer["patterns"], ids, strict=True)
                scores = [of(p[layer, number], one) for p, one in windows]
                if np.isnan(scores).all():  # a layer's window holds no far key
                    assert figures[kind]["mean"] is None and figures[kind]["chance"] is None
                    continue
                compare(kind, figures[kind], scores)
                assert 0 <= figures[kind]["chance"] < 1
    for key, wrong in worst.items():
        spec.check(IDS.get(key, ""), wrong, FIGURE)
    spec.check("TOT-24 TOT-89", metrics["bounds"]["violations"], 0)
    spec.check("TOT-42", metrics["bounds"]["coherence_violations"], 0)
    if name != "bert":
        z = peer["logits"]["final_norm"][-1].reshape(WINDOWS, TOKENS, -1)[:, :-1]
        nll = -np.take_along_axis(log_softmax(z), ids[:, 1:, None], -1)
        assert abs(metrics["nll_per_token"]["mean"] - nll.mean()) <= 1e-4 * nll.mean()


# ---- the folder ----


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("analyze")
    make_model(folder / "model", "gpt2")
    np.save(folder / "ids.npy", draw_ids(1, 12 * 48)[0])
    return folder


WORDS = ["analyze", "model", "--ids", "ids.npy", "--windows", "12x48", "--methods", "softmax/online:2"]


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def whole(place: Path) -> dict[str, bytes]:
    answer(place, *WORDS, "-o", "whole", "--threads", 1)
    return contents(place / "whole")


def test_threads_make_no_difference(place: Path, whole: dict[str, bytes]) -> None:
    answer(place, *WORDS, "-o", "threads", "--threads", 3)
    assert contents(place / "threads") == whole


def test_a_model_s_files_are_hashed_side_by_side(place: Path) -> None:
    """Two large files keep two threads busy; the hashes are those of one thread."""
    shutil.copytree(place / "model", place / "large")
    for name in ("one.txt", "two.txt"):
        with (place / "large" / name).open("wb") as file:
            file.truncate(50_000_000)
    words = ["analyze", "large", *WORDS[2:5], "1x8"]
    files = {}
    for threads in (1, 3):
        process = subprocess.Popen(
            [PROGRAM, *words, "-o", f"large-{threads}", "--threads", str(threads)], cwd=place,
            stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        ticks: dict[str, int] = {}
        while process.poll() is None:
            for task in Path(f"/proc/{process.pid}/task").glob("*"):
                with contextlib.suppress(OSError, IndexError):
                    ticks[task.name] = int((task / "stat").read_text().rpartition(")")[2].split()[11])
        manifest = json.loads((place / f"large-{threads}" / "manifest.json").read_text())
        files[threads] = manifest["model"]["files"]
        busy = [count for count in ticks.values() if 4 * count > sum(ticks.values())]
        assert process.returncode == 0 and len(busy) == min(threads, 2), (threads, ticks)
    assert files[1] == files[3] and {file["name"] for file in files[1]} >= {"one.txt", "two.txt"}
    whole = hashlib.sha256(bytes(50_000_000)).hexdigest()
    assert [file["sha256"] for file in files[1] if file["name"] == "two.txt"] == [whole]


@pytest.mark.parametrize("records", [0, 1, 4, 9, 12])
def test_killed_and_resumed(place: Path, whole: dict[str, bytes], records: int) -> None:
    """SIGKILL once so many records are there; what is left is gone on with to the same bytes."""
    folder = place / f"killed-{records}"
    process = subprocess.Popen(
        [PROGRAM, *WORDS, "-o", folder.name], cwd=place, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    end = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < end:
        if folder.exists() and len(list(folder.glob("windows/*.bin"))) >= records:
            break
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = {path.name: path.stat().st_mtime_ns for path in folder.glob("windows/*.bin")}
    answer(place, *WORDS, "-o", folder.name, "--resume")
    assert contents(folder) == whole
    assert all((folder / "windows" / name).stat().st_mtime_ns == at for name, at in before.items())


def test_damaged_records_are_measured_again(place: Path, whole: dict[str, bytes]) -> None:
    folder = place / "damaged"
    shutil.copytree(place / "whole", folder)
    one, two = folder / "windows" / "000003.bin", folder / "windows" / "000007.bin"
    damaged = bytearray(one.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    one.write_bytes(damaged)
    two.write_bytes(two.read_bytes()[:-5])
    (folder / "metrics.json").unlink()
    answer(place, *WORDS, "-o", folder.name, "--resume")
    assert contents(folder) == whole


def test_a_manifest_that_cannot_be_read_loses_nothing(place: Path, whole: dict[str, bytes]) -> None:
    folder = place / "unread"
    shutil.copytree(place / "whole", folder)
    manifest = folder / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:-9])
    before = contents(folder)
    result = answer(place, *WORDS, "-o", folder.name, "--resume", code=4)
    assert "manifest.json: is damaged" in result["error"] and "-f starts over" in result["hint"]
    assert contents(folder) == before
    manifest.unlink()
    manifest.mkdir()
    assert "cannot be read" in answer(place, *WORDS, "-o", folder.name, "--resume", code=6)["error"]
    assert {k: v for k, v in contents(folder).items() if k in before} == {
        k: v for k, v in before.items() if k != "manifest.json"
    }


def test_interrupted_keeps_what_is_done(place: Path, whole: dict[str, bytes]) -> None:
    folder = place / "interrupted"
    process = subprocess.Popen(
        [PROGRAM, *WORDS, "-o", folder.name, "--json"], cwd=place, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, env=environment(),
    )  # fmt: skip
    end = time.monotonic() + 60
    while len(list(folder.glob("windows/*.bin"))) < 3 and time.monotonic() < end:
        pass
    process.send_signal(signal.SIGINT)
    output = process.communicate()[0]
    if process.returncode == 130:
        assert "windows are kept" in json.loads(output)["error"]
    answer(place, *WORDS, "-o", folder.name, "--resume")
    assert contents(folder) == whole


def test_one_writer(place: Path) -> None:
    (place / "locked").mkdir()
    with (place / "locked" / ".lock").open("w") as lock:
        # Even to a reader's lock a writer's must give way.
        fcntl.flock(lock, fcntl.LOCK_SH)
        result = answer(place, *WORDS, "-o", "locked", code=6)
    assert "another run writes" in result["error"]


def test_existing_folder(place: Path, whole: dict[str, bytes]) -> None:
    result = answer(place, *WORDS, "-o", "whole", code=2)
    assert "--resume" in result["hint"]
    result = answer(place, *WORDS[:-1], "softmax/online:3", "-o", "whole", "--resume", code=2)
    assert "methods" in result["error"]
    assert contents(place / "whole") == whole
    shutil.copytree(place / "whole", place / "forced")
    (place / "forced" / "windows" / "note.txt").write_text("mine")
    answer(place, *WORDS[:5], "2x48", "-o", "forced", "-f")
    found = {path.name for path in (place / "forced" / "windows").iterdir()}
    assert found == {"000000.bin", "000001.bin", "note.txt"}
    assert not (place / "forced" / "tables" / "methods.csv").exists()
    answer(place, *WORDS, "-o", "model", code=2)
    assert not (place / "model" / ".lock").exists()


@pytest.mark.parametrize("what", ["model", "text"])
def test_replaced_input(place: Path, whole: dict[str, bytes], what: str) -> None:
    copy = place / f"replaced-{what}"
    copy.mkdir()
    for name in ("model", "whole"):
        shutil.copytree(place / name, copy / name)
    shutil.copy(place / "ids.npy", copy / "ids.npy")
    changed = copy / ("model/model.safetensors" if what == "model" else "ids.npy")
    data = bytearray(changed.read_bytes())
    data[-8] ^= 1
    changed.write_bytes(data)
    result = answer(copy, *WORDS, "-o", "whole", "--resume", code=4)
    assert result["status"] == "mismatch" and f"another {what}" in result["error"]
    assert contents(copy / "whole") == whole


def test_example_and_variants(place: Path, whole: dict[str, bytes]) -> None:
    from safetensors.numpy import load_file

    example = load_file(place / "whole" / "example.safetensors")
    layers, heads = example["patterns"].shape[:2]
    assert example["max_probability"].shape == (layers + 1, 48) and heads == 4
    assert np.all(example["patterns"].max((-1, -2)) <= 1)
    rows = whole["tables/methods.csv"].decode().splitlines()
    assert [row.split(",")[0] for row in rows] == ["method", "softmax", "softmax/online:2"]
    table = dict(zip(rows[0].split(","), rows[2].split(","), strict=True))
    assert float(table["output_tv"]) > 0
    metrics = json.loads(whole["metrics.json"])
    first = dict(zip(rows[0].split(","), rows[1].split(","), strict=True))
    assert float(first["perplexity"]) == pytest.approx(metrics["perplexity"])


def test_temperature_one_is_the_run(place: Path) -> None:
    answer(place, *WORDS[:5], "4x48", "--temperatures", "0.5,1,2", "-o", "temperatures")
    table = (place / "temperatures" / "tables" / "temperatures.csv").read_text()
    rows = [line.split(",") for line in table.splitlines()]
    tv_at = rows[0].index("output_tv")
    assert [row[0] for row in rows[1:]] == ["0.5", "1", "2"]
    cold, same, hot = (float(row[tv_at]) for row in rows[1:])
    spec.check_true("TOT-35", same == 0 and cold > 0 and hot > 0)


def read_table(place: Path, run: str, name: str) -> dict[str, dict[str, float]]:
    with (place / run / "tables" / f"{name}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {row["temperature"]: {k: float(v or "nan") for k, v in row.items()} for row in rows}


def test_probe_temperatures(place: Path) -> None:
    """The probe alone is hotter or colder: states, attention and drift stay, predictions do not."""
    words = [*WORDS[:5], "4x48", "--saturation", "0.05,0.9"]
    answer(place, *words, "--probe-temperatures", "0.5,1,4", "-o", "probe")
    rows = read_table(place, "probe", "probe_temperatures")
    assert [*rows] == ["0.5", "1", "4"]
    cold, plain, hot = rows.values()
    for name in ("relative_l2", "cosine", "row_entropy", "receiver_max"):
        spec.check("TOT-35", max(abs(x[name] - plain[name]) for x in rows.values()), 0)
    spec.check_true(
        "TOT-35",
        cold["saturated_states"] > hot["saturated_states"]
        and cold["saturated_states"] >= plain["saturated_states"] >= hot["saturated_states"],
    )
    assert cold["tv"] > plain["tv"] > hot["tv"] and plain["output_tv"] == 0 < cold["output_tv"]
    for row in rows.values():
        for name in ("nll_per_token", "tv", "relative_l2", "saturation", "saturated_states"):
            assert row[f"{name}_low"] <= row[name] + 1e-12 and row[name] <= row[f"{name}_high"] + 1e-12


def test_the_embedding_does_not_count_as_saturated(place: Path) -> None:
    """State 0 of a tied head predicts its own token; the share is counted over the states behind layers."""
    answer(place, *WORDS[:5], "4x48", "--saturation", "0.02,0.9", "--temperatures", "1", "-o", "behind")
    share = read_table(place, "behind", "temperatures")["1"]["saturated_states"]
    tails = []
    for layers in ("0-1", "1-1"):
        answer(
            place, *WORDS[:5], "4x48", "--saturation", "0.02,0.9", "--temperatures", "1", "--layers", layers,
            "-o", f"some{layers}",
        )  # fmt: skip
        tails.append(read_table(place, f"some{layers}", "temperatures")["1"]["saturated_states"])
    # States 1 and 2, by the run from the embedding on and by the run that begins behind it.
    spec.check("TOT-35", abs(tails[0] - tails[1]), 0)
    assert share > 0


@pytest.mark.parametrize(
    ("words", "code", "field"),
    [
        (["--probe-temperatures", "1,-2"], 2, "probe-temperatures"),
        (["--probe-temperatures", "x"], 2, "probe-temperatures"),
        (["--windows", "4"], 2, "windows"),
        (["--windows", "4x65"], 2, "windows"),
        (["--layers", "2-1"], 2, "layers"),
        (["--layers", "0-3"], 2, "layers"),
        (["--saturation", "1,2"], 2, "saturation"),
        (["--temperatures", "0"], 2, "temperatures"),
        (["--measure", "everything"], 2, "measure"),
        (["--measure", "alignment", "--methods", "softmax/online:2"], 2, "measure"),
        (["--measure", "alignment", "--bounds", "1"], 2, "measure"),
        (["--methods", "nonsense"], 2, None),
        (["-o", "missing/run"], 6, None),
    ],
)
def test_refusals(place: Path, words: list[str], code: int, field: str | None) -> None:
    result = answer(place, "analyze", "model", "--ids", "ids.npy", *words, code=code)
    assert field is None or result["field"] == field
    assert not (place / "run").exists()


def test_sinkhorn_rounds(whole: dict[str, bytes]) -> None:
    rows = [line.split(",") for line in whole["tables/table5.csv"].decode().splitlines()]
    assert [row[5] for row in rows[1:]] == ["48"] * 9
    for row in rows[1:4]:
        spec.check("TOT-90", float(row[4]), float(row[8]))
    assert [float(row[2]) for row in rows[1:7]] == sorted(float(row[2]) for row in rows[1:7])


def test_some_layers(place: Path) -> None:
    answer(place, *WORDS[:5], "2x48", "--layers", "1-1", "-o", "some")
    answer(place, *WORDS[:5], "2x48", "-o", "all")
    some, every = (json.loads((place / name / "metrics.json").read_text()) for name in ("some", "all"))
    assert len(some["transitions"]) == 1 and some["first_layer"] == 1
    assert some["transitions"][0]["tv"] == every["transitions"][1]["tv"]
    assert some["attention"][0] == every["attention"][1]
    # Ranges of Table 1 are the model's, from 1.
    tables = [(place / name / "tables" / "table1.csv").read_text().splitlines() for name in ("some", "all")]
    assert [table[1].split(",")[0] for table in tables] == ["2-2", "1-3"]
    assert "position_share,token,token_share,n" in (place / "all" / "tables" / "massive.csv").read_text()


def test_alignment_alone_is_that_of_the_whole_run(place: Path, whole: dict[str, bytes]) -> None:
    """Tables 1 to 3 to the last digit, but for the raw probe; --resume goes on and knows the setting."""
    words = [*WORDS[:6], "--measure", "alignment", "-o", "alignment"]
    answer(place, *words)
    found = contents(place / "alignment")
    names = [f"tables/table{number}.csv" for number in (1, 2, 3)]
    windows = [f"windows/{number:06d}.bin" for number in range(12)]
    assert sorted(found) == ["manifest.json", *names, *windows]
    assert not (place / "alignment" / "figures").exists()
    tables = [{name: files[name].decode().splitlines() for name in names} for files in (found, whole)]
    plain = [line for line in tables[1][names[0]] if ",raw," not in line]
    assert tables[0][names[0]] == plain != tables[1][names[0]]
    assert tables[0][names[1]] == tables[1][names[1]]
    assert tables[0][names[2]] == [line.rpartition(",")[0] for line in tables[1][names[2]]]
    (place / "alignment" / windows[5]).unlink()
    answer(place, *words, "--resume")
    assert contents(place / "alignment") == found
    answer(place, *WORDS[:6], "-o", "alignment", "--resume", code=2)


def test_random_windows(place: Path) -> None:
    done = run(place, *WORDS[:5], "5x48", "--sample", "random", "--seed", 4, "-o", "drawn")
    assert done.returncode == 0
    ids = np.load(place / "ids.npy").reshape(-1, 48)
    starts = []
    for path in sorted((place / "drawn" / "windows").iterdir()):
        window = np.frombuffer(path.read_bytes(), dtype="<i8", count=48, offset=64)
        starts.append(int(np.flatnonzero((ids == window).all(1))[0]))
    spec.check_true("TOT-65", starts == sorted(set(starts)) and starts != list(range(5)))
