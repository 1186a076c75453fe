"""The playground (`./dev playground`) in a real browser: its numbers against the program's, sliders that are
dragged, points that are moved by pointer and keys, pasted scores, addresses, sizes; in silence and without
asking for any address."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from browser import Tab, needs_browser, outline
from safetensors.numpy import load_file

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("OTATTN_BUILD", ROOT / "build"))
PROGRAM = Path(os.environ.get("OTATTN", BUILD / "otattn"))
# Set by the word that builds it, whose tests these are.
PAGE = Path(os.environ.get("OTATTN_PLAYGROUND", ""))
MODEL = PAGE.parent / "wasm" / "model.gguf"
READY = "document.documentElement?.dataset.ready && playground.plans[0]"
# What the page says of a rule's plan is what the program says up to the rounding of logarithms of two C
# libraries, which rounds of Sinkhorn carry on but do not enlarge beyond their tolerance.
TOLERANCE = 1e-9

pytestmark = [
    needs_browser,
    pytest.mark.skipif(not PAGE.is_file(), reason="./dev playground test builds the page and runs these"),
]


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    opened = Tab("about:blank", tmp_path_factory.mktemp("playground"))
    yield opened
    opened.close()


def go(tab: Tab, words: str = "", *, query: str = "", phone: bool = False, dark: bool = False) -> None:
    """The page anew, at an address."""
    tab.events.clear()
    tab.show(*((390, 844) if phone else (1280, 900)), dark=dark)
    tab.call("Page.navigate", url="about:blank")
    tab.call("Page.navigate", url=f"{PAGE.as_uri()}{query}#{words}")
    tab.wait(READY)


def settled(tab: Tab) -> None:
    tab.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def program(*words: str | Path) -> str:
    run = subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=60)
    assert run.returncode in (0, 4), run.stderr
    return run.stdout


def compare(tab: Tab, side: int, tmp_path: Path) -> None:
    """One side's plan and certificate against the program's at the same scores."""
    shown = tab.evaluate(
        f"(({{ plans: {{ {side}: plan }}, source, state }}) => ({{ ...plan, curve: 0, received: 0, "
        "coupling: [...(plan.coupling ?? [])], scores: [...source.scores], "
        "causal: state.mask === 'causal' }))(playground)"
    )
    assert "error" not in shown, shown["error"]
    shape = shown["queries"], shown["keys"]
    np.save(tmp_path / "scores.npy", np.array(shown["scores"]).reshape(shape))
    words: list[str | Path] = ["--causal"] if shown["causal"] else []
    for flag, name in (("--row-mass", "rows"), ("--column-mass", "columns")):
        if shown["masses"][name] is not None:
            np.save(tmp_path / f"{name}.npy", np.array(shown["masses"][name], float))
            words += [flag, tmp_path / f"{name}.npy"]
    words += [] if shown["masses"]["sink"] is None else ["--sink", str(shown["masses"]["sink"])]
    plan = tmp_path / "plan.npy"
    words += ["-m", shown["method"], "--cpu", "portable", "--threads", "1", "--allow-partial", "-f", "--json"]
    found = json.loads(program("plan", tmp_path / "scores.npy", *words, "-o", plan))["certificate"]
    np.testing.assert_allclose(
        np.array(shown["coupling"]).reshape(shape), np.load(plan), rtol=0, atol=TOLERANCE
    )
    for ours, theirs in (("primal", "primal"), ("entropy", "entropy"), ("receiverMax", "receiver_max")):
        assert math.isclose(shown["facts"][ours], found[theirs], rel_tol=TOLERANCE, abs_tol=TOLERANCE), ours
    assert shown["facts"]["rowError"] <= TOLERANCE


SHARES = "&queryShares=" + ",".join(["2"] + ["1"] * 20) + "&keyShares=" + ",".join(["3", "0.5"] + ["1"] * 19)


@pytest.mark.parametrize(
    ("a", "b", "shares"),
    [
        ("free temperature:0 order:0 pairCap:0.3", "relaxed temperature:0 order:0 strength:0 sink:0.5", ""),
        ("capped temperature:0 order:10 cap:2 pairCap:0.4", "free temperature:0 order:20 sink:1", ""),
        ("exact temperature:0 order:0", "capped temperature:0 order:0 cap:1.5", SHARES),
        (
            "bounded temperature:0 order:0 lower:0.5 upper:2",
            "relaxed temperature:0 order:0 strength:0",
            SHARES,
        ),
        ("free temperature:0 order:0", "exact temperature:0 order:0 pairCap:0.6", SHARES),
    ],
)
def test_caps_sinks_and_masses_agree_with_the_program(
    tab: Tab, a: str, b: str, shares: str, tmp_path: Path
) -> None:
    go(tab, f"source=captured&head=0{shares}&a={a}&b={b}")
    compare(tab, 0, tmp_path)
    compare(tab, 1, tmp_path)
    command = tab.evaluate("document.getElementById('command').textContent")
    assert ("--row-mass" in command) == bool(shares) and ("entry_cap=0.3" in command) == ("0.3" in a)
    # The address keeps them.
    assert tab.evaluate("fragment().includes('keyShares')") == bool(shares)
    assert ("pairCap" in tab.evaluate("fragment()")) == ("pairCap" in a + b)
    assert tab.complaints() == []


def test_shares_that_do_not_fit_are_a_sentence(tab: Tab) -> None:
    go(tab, "source=captured&head=0&keyShares=1,2&a=exact temperature:0 order:0")
    said = tab.evaluate("document.querySelector('[data-side=\"A\"] .error').textContent")
    assert said == "shares of keys are 21 numbers of 0 or more, not all of them 0."


def test_page_is_one_file_below_three_megabytes() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(text.encode()) < 3_000_000
    found = outline(text)
    assert found.addresses == []
    assert found.handlers == []
    assert not set(found.tags) & {"link", "img", "iframe", "object", "embed", "base", "form"}
    assert "default-src 'none'" in text


@pytest.mark.parametrize("build", ["vectors", "plain"])
def test_rules_agree_with_the_program(tab: Tab, build: str, tmp_path: Path) -> None:
    sides = (
        ("free temperature:-0.5 order:10", "exact temperature:-0.3 order:0"),
        ("capped temperature:0 order:0 cap:1.5", "bounded temperature:0.2 order:0 lower:0.4 upper:1.8"),
        ("elastic temperature:0 order:0 lambda:0.7 steps:5", "relaxed temperature:0 order:0 strength:-0.4"),
        ("online temperature:0 order:0 cap:1.25", "exact temperature:0 order:61"),
        ("exact temperature:0 order:20", "capped temperature:0 order:0 cap:2 rounds:3"),
    )
    for a, b in sides:
        go(tab, f"source=captured&head=0&a={a}&b={b}", query=f"?build={build}")
        assert tab.evaluate("document.documentElement.dataset.ready") == build
        compare(tab, 0, tmp_path)
        compare(tab, 1, tmp_path)
        assert tab.complaints() == []


def test_model_reads_what_the_program_reads(tab: Tab, tmp_path: Path) -> None:
    text = "The keepers count ships, caf\u00e9s & 27 sailors."
    go(tab, f"source=sentence&text={text.replace('&', '%26')}&head=2.3&mask=causal&a=free&b=capped cap:2")
    assert tab.evaluate("playground.library.calls.play_layers()") == 4
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    ids = program("tokenize", MODEL, "--text", text, "--no-special").split()
    tokens = tab.evaluate("playground.state.tokens")
    assert len(tokens) == len(ids)
    assert "".join(tokens).replace("\ufffd", "") == text.replace("\u00e9", "")
    np.save(tmp_path / "ids.npy", np.array(ids, np.int64))
    run = tmp_path / "run.safetensors"
    points = [f"blocks.2.attn.{name}" for name in ("hook_q", "hook_k", "hook_pattern")]
    words = ["--points", ",".join(points), "--cpu", "portable"]
    program("capture", MODEL, "--ids", tmp_path / "ids.npy", *words, "-o", run)
    arrays = load_file(run)
    query, key, pattern = (arrays[point][0] for point in points)
    wanted = query[:, 3].astype(np.float64) @ key[:, 3].astype(np.float64).T / math.sqrt(32)
    scores = np.array(tab.evaluate("[...playground.source.scores]")).reshape(wanted.shape)
    # Forwards in f32: the program's products come from OpenBLAS or plain loops, in other orders.
    np.testing.assert_allclose(scores, wanted, rtol=0, atol=2e-4)
    weights = np.array(tab.evaluate("[...playground.plans[0].coupling]")).reshape(wanted.shape)
    np.testing.assert_allclose(weights, pattern[3], rtol=0, atol=2e-4)
    compare(tab, 0, tmp_path)
    compare(tab, 1, tmp_path)
    assert tab.complaints() == []


def test_sliders_move_the_plan_sixty_times_a_second(
    tab: Tab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    go(tab)
    assert tab.evaluate("playground.source.queries") == 32
    before = tab.evaluate("[...playground.plans[1].coupling]")
    tab.evaluate("playground.timings.length = 0")
    tab.drag_slider('[data-side="B"] input[data-name="temperature"]', 0.63, 0.2, steps=120)
    settled(tab)
    assert tab.evaluate("playground.state.sides[1].temperature") < -0.8
    assert tab.evaluate("playground.state.sides[0].temperature") == -0.301
    assert tab.evaluate("[...playground.plans[1].coupling]") != before
    compare(tab, 1, tmp_path)
    work = tab.evaluate("playground.timings")
    tab.drag_slider('[data-side="A"] input[data-name="order"]', 0, 0.5, steps=20)
    settled(tab)
    assert tab.evaluate("playground.plans[0].method").startswith("entmax:")
    compare(tab, 0, tmp_path)
    # How often the browser shows a new plan where a slider moves before every frame.
    shown = tab.evaluate(
        "new Promise((done) => { const slider = playground.panels[0].sliders.temperature.input;"
        "let frames = 0, begun = performance.now(); const step = () => { frames += 1;"
        "slider.value = -0.5 + 0.4 * Math.sin(frames / 9); slider.dispatchEvent(new Event('input'));"
        "if (frames < 90) requestAnimationFrame(step); else done(90000 / (performance.now() - begun)); }; "
        "step(); })"
    )
    median = statistics.median(work)
    with capsys.disabled():
        print(
            f"\nplayground: {len(work)} times two plans of 32 x 32 while dragging; to solve, judge and draw"
        )
        print(f"{min(work):.1f} ms at least, median {median:.1f}, at most {max(work):.1f};", end=" ")
        print(f"{shown:.0f} frames a second")
    assert median < 1000 / 60
    assert tab.complaints() == []


def test_points_follow_pointer_and_keys(tab: Tab, tmp_path: Path) -> None:
    go(tab, "source=points&queries=0.2,0.2,0.2,0.8&keys=0.8,0.2,0.8,0.8&a=free&b=exact")
    left, top, width, _ = tab.place('[data-side="A"] .ribbons canvas')
    size = min(width, 440)
    at = (left + (width - size) / 2 + 14 + 0.2 * (size - 28), top + 14 + 0.2 * (size - 28))
    tab.drag([at, (at[0] + 20, at[1] + 10), (at[0] + 80, at[1] + 40)])
    settled(tab)
    moved = tab.evaluate("playground.state.points.queries[0]")
    assert moved[0] == pytest.approx(0.2 + 80 / (size - 28), abs=0.02)
    assert moved[1] == pytest.approx(0.2 + 40 / (size - 28), abs=0.02)
    compare(tab, 1, tmp_path)
    for key in ("PageDown", "PageDown", "ArrowLeft", "ArrowLeft"):
        tab.key(key)
    settled(tab)
    assert tab.evaluate("playground.state.points.keys[0][0]") == pytest.approx(0.76)
    assert tab.complaints() == []


def test_plan_is_read_by_keys_and_told(tab: Tab) -> None:
    go(tab, "source=captured&head=0&a=free&b=exact")
    tab.evaluate("document.querySelector('[data-side=\"A\"] .plan canvas').focus()")
    for key in ("ArrowRight", "ArrowDown", "ArrowRight"):
        tab.key(key)
    settled(tab)
    told = tab.evaluate("document.querySelector('[data-side=\"A\"] .reading').textContent")
    weight = tab.evaluate("playground.plans[0].coupling[21 + 1]")
    assert told.startswith("\u201ca\u201d \u2192 \u201ca\u201d: ")
    assert float(told.split(": ")[1].split(";")[0]) == pytest.approx(weight, rel=1e-3)
    tab.evaluate("document.querySelector('[data-side=\"A\"] .ribbons canvas').focus()")
    for key in ("ArrowRight", "ArrowDown", "ArrowUp"):
        tab.key(key)
    settled(tab)
    told = tab.evaluate("document.querySelector('[data-side=\"A\"] .reading').textContent")
    assert told.startswith("\u201c[CLS]\u201d receives 16.11, most from ")
    tab.wait("document.getElementById('said').textContent.includes('Rule B')")
    assert "receives most, 16.11 of 21" in tab.evaluate("document.getElementById('said').textContent")
    controls = "[...document.querySelectorAll('input, select, textarea, canvas, button')]"
    named = "e.labels?.length || e.getAttribute('aria-label') || e.textContent.trim() || e.closest('button')"
    unnamed = tab.evaluate(f"{controls}.filter((e) => !({named})).map((e) => e.outerHTML)")
    assert unnamed == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "There are no scores: paste rows of numbers."),
        ("1,2\n3", "Row 2 has 1 numbers, row 1 has 2."),
        ("1,x\n3,4", "Row 1, column 2 is \u201cx\u201d, not a finite number."),
        ("[[1, 2], [3, null]]", "Row 2, column 2 is null, not a number."),
        ('{"a": 1}', "JSON must be a list of rows, each a list of numbers."),
        ("1e300,2\n3,4", "1e+300 is too large: scores lie within 1e6."),
        ("\n".join(["1,2"] * 33), "33 rows of 2 numbers are too many: at most 32 of each are shown."),
    ],
)
def test_pasted_scores_are_taken_or_refused(tab: Tab, text: str, sentence: str, tmp_path: Path) -> None:
    if not tab.evaluate("window.playground?.state.source === 'paste'"):
        go(tab, "source=paste&a=free&b=capped cap:1.5")
    paste = (
        "(() => {{ const box = document.getElementById('paste'); box.value = {}; "
        "box.dispatchEvent(new Event('input')); "
        "return document.getElementById('paste-error').textContent; }})()"
    )
    assert tab.evaluate(paste.format(json.dumps(text))) == sentence
    assert tab.evaluate(paste.format(json.dumps("a;b;c\n1;2;3\n4;5;6"))) == ""
    settled(tab)
    assert tab.evaluate("playground.source.tokens.keys") == ["a", "b", "c"]
    compare(tab, 1, tmp_path)


def test_what_the_library_refuses_is_a_sentence(tab: Tab) -> None:
    go(tab, "source=captured&head=0&a=relaxed order:61 strength:0&b=exact")
    told = tab.evaluate("document.querySelector('[data-side=\"A\"] .error').textContent")
    assert "hard" in told
    assert told.endswith(".")
    assert tab.evaluate("playground.plans[1].word") == "ok"
    assert tab.complaints() == []


def test_an_address_brings_everything_back(tab: Tab) -> None:
    points = "source=points&queries=0.1,0.2,0.3,0.4&keys=0.5,0.6,0.7,0.8,0.9,0.95"
    go(tab, f"{points}&a=capped temperature:-0.4 cap:1.3 rounds:4&b=elastic lambda:1 steps:3")
    tab.evaluate("document.getElementById('share').click()")
    shared = tab.evaluate("location.hash.slice(1)")
    everything = "JSON.stringify([playground.state.points, playground.plans.map((p) => p.method)])"
    state = tab.evaluate(everything)
    go(tab, shared)
    assert tab.evaluate(everything) == state
    # Broken addresses leave what they cannot say.
    go(tab, "source=points&queries=0.1,x&a=nothing&b=capped cap:-7 temperature:99")
    methods = tab.evaluate("playground.plans.map((p) => p.method)")
    assert methods == ["softmax/free{temperature=0.5}", "softmax/capped:2{temperature=1}"]
    assert tab.complaints() == []


@pytest.mark.parametrize("source", ["sentence", "captured", "points", "paste"])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_phone(tab: Tab, source: str, *, dark: bool) -> None:
    go(tab, f"source={source}&a=capped&b=elastic", phone=True, dark=dark)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(20, 23, 28)" if dark else "rgb(255, 255, 255)")
    assert tab.complaints() == []
