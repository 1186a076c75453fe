"""The report of a run in a browser: what it draws, what keys and clicks do, its size on desk and phone."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import run_folders
from browser import Tab, browse, drawn_dom, must_have_charts, needs_browser
from program import answer
from run_pages import metrics_of, told
from safetensors.numpy import load_file


@needs_browser
@pytest.mark.parametrize(
    ("page", "dark"), [("whole", False), ("hostile", False), ("both", True)], indirect=["page"]
)
def test_browser_draws_without_requests_or_errors(page: Path, dark: bool, tmp_path: Path) -> None:
    dom = drawn_dom(page, tmp_path, dark=dark)
    maps = re.findall(r'<figure class="chart maps"[^>]* data-layers="(\d+)" data-heads="(\d+)"', dom)
    assert maps
    drawn = re.findall(r'<figure class="chart maps"[^>]* data-drawn="(\d+)"', dom)
    assert [int(count) for count in drawn] == [int(layers) * int(heads) for layers, heads in maps]
    assert dom.count('class="map"') == sum(map(int, drawn))
    assert "Save as CSV" in dom or page.name == "both.html"
    assert '<nav aria-label="Contents">' in dom


WITNESS = """<script>
window.addEventListener("error", () => { document.body.dataset.failed = "1"; });
const wait = setInterval(() => {
  const root = document.documentElement, maps = document.querySelector("figure.maps");
  if (document.getElementById("charts") && !root.dataset.drawn) return;
  if (!maps.dataset.drawn) return;
  clearInterval(wait);
  const said = {}, buttons = [...maps.querySelectorAll("button.map")];
  const press = (target, key) => target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const stops = [...document.querySelectorAll("a, button, summary, [tabindex]")]
    .filter((one) => one.tabIndex >= 0);
  said.positive = stops.filter((one) => one.tabIndex > 0).length;
  said.unnamed = stops.filter((one) => !(one.getAttribute("aria-label") || one.textContent.trim())).length;
  said.first = stops[0].id;
  said.mapStops = stops.filter((one) => one.className === "map").length;
  buttons[0].focus();
  press(document.activeElement, "ArrowRight");
  press(document.activeElement, "ArrowDown");
  said.chosen = document.activeElement.getAttribute("aria-label");
  said.title = maps.querySelector("h4").textContent;
  document.activeElement.click();
  said.enlarged = document.activeElement.tagName;
  const reading = () => maps.querySelector(".reading").textContent;
  said.before = reading();
  press(document.activeElement, "ArrowDown");
  said.after = reading();
  press(document.activeElement, "Escape");
  said.back = document.activeElement.getAttribute("aria-label");
  const ink = () => getComputedStyle(document.body).color;
  const pixel = () => {
    const canvas = buttons[0].firstChild;
    return canvas.toDataURL();
  };
  said.colours = [];
  const toggle = document.getElementById("theme-switch");
  for (let turn = 0; turn < 2; turn += 1) {
    toggle.click();
    said.colours.push([root.dataset.theme, ink(), pixel()]);
  }
  said.hit = String(window.hit);
  said.images = document.images.length;
  document.body.dataset.said = JSON.stringify(said);
}, 50);
</script></body>"""


@needs_browser
def test_keyboard_and_theme_work_and_text_stays_text(hostile: Path, tmp_path: Path) -> None:
    text = (hostile / "report.html").read_text(encoding="utf-8")
    watched = tmp_path / "watched.html"
    watched.write_text(text.replace("</body>", WITNESS), encoding="utf-8")
    dom, console, asked = browse(watched, tmp_path)
    assert console == ""
    assert asked == []
    assert "data-failed" not in dom
    said = told(dom)
    assert said["positive"] == 0
    assert said["unnamed"] == 0
    assert said["first"] == "theme-switch"
    # One stop for all maps; the arrow keys do the rest: one to the right, one down, of 4 a row.
    assert said["mapStops"] == 1
    assert said["chosen"] == said["title"] == said["back"] == "layer 1, head 1"
    assert said["enlarged"] == "CANVAS"
    assert said["before"].startswith("query 0 </script><script>window.hit=1</script> → key 0 ")
    assert said["after"].startswith("query 1 ␣of → key 0 ")
    weight = load_file(hostile / "example.safetensors")["patterns"][1, 1, 1, 0]
    assert abs(float(said["after"].rsplit(" ", 1)[1]) - weight) <= 0.026
    (light, light_ink, light_pixel), (dark, dark_ink, dark_pixel) = said["colours"]
    assert (light, dark) == ("light", "dark")
    assert light_ink != dark_ink
    assert light_pixel != dark_pixel
    assert said["hit"] == "undefined"
    assert said["images"] == 0


@needs_browser
def test_cells_of_heads_are_read_by_rows_and_chosen(hostile: Path, tmp_path: Path) -> None:
    """Arrow keys go along a layer's heads and to the next layer; Enter chooses the head that is read."""
    must_have_charts(hostile / "report.html")
    tab = Tab((hostile / "report.html").as_uri(), tmp_path)
    try:
        tab.show(1280, 900)
        tab.wait("document.documentElement?.dataset.drawn")
        tab.evaluate("document.querySelector('#first_key_mass .plot').focus()")
        reading = "document.querySelector('#first_key_mass .reading').textContent"
        mean = [
            [head["first_key_mass"]["mean"] for head in layer] for layer in metrics_of(hostile)["attention"]
        ]
        for keys, layer, head in (("Home", 0, 0), ("ArrowRight", 0, 1), ("ArrowDown", 1, 1), ("End", 1, 3)):
            tab.key(keys)
            said = re.fullmatch(
                r"layer (\d+), head (\d+), mean (\S+),.* \((\d+) of 4\)", tab.evaluate(reading)
            )
            assert said is not None, tab.evaluate(reading)
            assert [int(said[k]) for k in (1, 2, 4)] == [layer, head, head + 1]
            # A page holds six digits.
            assert float(said[3]) == float(f"{float(f'{mean[layer][head]:.6g}'):.4g}")
        tab.key("Enter")
        assert tab.evaluate("document.querySelector('figure.maps h4').textContent") == "layer 1, head 3"
        assert tab.complaints() == []
    finally:
        tab.close()


SIZES = """<script>
const wait = setInterval(() => {
  const root = document.documentElement, maps = document.querySelector("figure.maps");
  if (!root.dataset.drawn || !maps.dataset.drawn) return;
  clearInterval(wait);
  setTimeout(() => {
    const figures = [...document.querySelectorAll("figure")].filter((one) => one.checkVisibility());
    const wide = [...document.querySelectorAll("body *")].filter((one) => one.checkVisibility()
      && !one.closest(".scroll, .plot, pre") && one.getBoundingClientRect().right > innerWidth + 1);
    const said = { height: root.scrollHeight, width: root.scrollWidth, inner: innerWidth,
      figures: figures.length, wide: wide.map((one) => one.tagName + "." + one.className) };
    parent.postMessage(JSON.stringify(said), "*");
  }, 200);
}, 50);
</script></body>"""


FRAME = """<body style="margin:0"><iframe src="{page}" style="width:{width}px;height:900px;border:0"></iframe>
<script>
addEventListener("message", (event) => {{ document.body.dataset.said = event.data; }});</script></body>"""


def sizes(page: Path, folder: Path, width: int) -> dict[str, Any]:
    """What the page measures in a window of this width; the browser's own is never narrower than 500."""
    framed = folder / f"framed-{width}.html"
    framed.write_text(page.read_text(encoding="utf-8").replace("</body>", SIZES), encoding="utf-8")
    frame = folder / f"frame-{width}.html"
    frame.write_text(FRAME.format(page=framed.name, width=width), encoding="utf-8")
    dom, console, _ = browse(frame, folder, "--window-size=1400,1000", "--allow-file-access-from-files")
    assert console == ""
    return told(dom)


@needs_browser
@pytest.mark.parametrize(
    ("page", "width"), [("whole", 1280), ("both", 1280), ("deep", 1280), ("hostile", 390)], indirect=["page"]
)
def test_a_desk_and_a_phone_see_the_answer_first(page: Path, width: int, tmp_path: Path) -> None:
    must_have_charts(page)
    seen = sizes(page, tmp_path, width)
    assert seen["inner"] == width
    assert seen["width"] <= width, seen["wide"]
    assert seen["wide"] == []
    if width > 1000:
        assert seen["height"] < 6000
        assert seen["figures"] <= 12


@needs_browser
def test_a_grid_of_many_layers_scrolls_within_itself(deep: Path, tmp_path: Path) -> None:
    """By keys as well: the cell that is read is in sight, in all of the 81 rows."""
    must_have_charts(deep / "report.html")
    tab = Tab((deep / "report.html").as_uri(), tmp_path)
    rows = """(() => {
      const plot = document.querySelector("#lens .plot"), ring = plot.querySelector(".crosshair");
      return [...Array(81)].map(() => {
        plot.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true }));
        const [outer, inner] = [plot, ring].map((one) => one.getBoundingClientRect());
        const seen = inner.height > 10 && inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;
        return [plot.scrollTop, seen, plot.nextElementSibling.textContent];
      });
    })()"""
    try:
        tab.show(1280, 900)
        tab.wait("document.documentElement?.dataset.drawn")
        # Of the axes what is to be read is in sight and apart: the title of the rows, layers below the lines.
        title, plot = tab.evaluate("""(() => {
          const plot = document.querySelector("#lens .plot");
          const title = [...plot.querySelectorAll("text")].find((one) => one.textContent === "after layer");
          const ends = ({ top, bottom }) => [top, bottom];
          return [title, plot].map((one) => ends(one.getBoundingClientRect()));
        })()""")
        assert plot[0] <= title[0]
        assert title[1] <= plot[1]
        for name in ("mean_cosine", "agreement_with_final", "drift"):
            labels = tab.evaluate(
                f"[...document.querySelector('#{name} .plot .role-axis-label').querySelectorAll('text')]"
                ".filter((one) => one.textContent && getComputedStyle(one).opacity !== '0')"
                ".map((one) => [one.getBoundingClientRect().left, one.getBoundingClientRect().right])"
            )
            labels.sort()
            assert len(labels) > 3
            assert all(left[1] + 2 <= right[0] for left, right in itertools.pairwise(labels)), name
        tab.evaluate("document.querySelector('#lens .plot').focus()")
        read = tab.evaluate(rows)
        for row, (_, seen, reading) in enumerate(read):
            assert f"after layer {79 - row if row < 80 else 'emb'}," in reading
            assert seen, reading
        assert read[80][0] > 500
        tab.evaluate("document.querySelector('#lens .plot').scrollTop = 0")
        for _ in range(4):
            tab.key("PageDown")
        tab.wait("document.querySelector('#lens .plot').scrollTop > 300")
        assert tab.complaints() == []
    finally:
        tab.close()


ACTS = """<script>
window.addEventListener("error", () => { document.body.dataset.failed = "1"; });
const sleep = (ms) => new Promise((done) => { setTimeout(done, ms); });
const until = async (holds) => {
  for (let k = 0; k < 200 && !holds(); k += 1) await sleep(50);
  return holds();
};
(async () => {
  const root = document.documentElement, maps = document.querySelector("figure.maps");
  await until(() => root.dataset.drawn && maps.dataset.drawn);
  const said = {}, first = root.dataset.drawn;
  const fold = document.querySelector("details.fold figure.chart[id]");
  said.hidden = fold.checkVisibility();
  const link = document.createElement("a");
  link.href = `#${fold.id}`;
  document.querySelector("main").append(link);
  link.click();
  said.unfolds = await until(() => fold.checkVisibility() && fold.querySelector("svg") !== null);
  await sleep(500);
  said.more = Number(root.dataset.drawn) > Number(first);

  const title = () => maps.querySelector("h4").textContent;
  const cell = [...document.querySelectorAll("#heads_named .mark-rect path")]
    .find((one) => /(head: 1; layer: 2|layer: 2; head: 1);/.test(one.getAttribute("aria-label")));
  cell.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  await until(() => title().startsWith("layer 2, head 1:"));
  said.chosen = title();
  await sleep(200);
  said.marked = [...document.querySelectorAll("#first_key_mass .mark-rect path")]
    .filter((one) => one.getAttribute("aria-label") && one.getAttribute("stroke") === "#d1242f")
    .map((one) => one.getAttribute("aria-label"));

  const [sort, layer, kind] = maps.querySelectorAll("select"), least = maps.querySelector("input");
  const shown = () => [...maps.querySelectorAll("button.map")].map((one) => one.getAttribute("aria-label"));
  const set = (control, value, name = "change") => {
    control.value = value;
    control.dispatchEvent(new Event(name));
  };
  set(sort, 0);
  said.sorted = shown();
  set(least, "0.2", "input");
  said.least = shown();
  set(least, "", "input");
  set(sort, "");
  set(layer, 1);
  said.layer = shown();
  set(layer, "");
  set(kind, "induction");
  said.kind = shown();
  said.kindNames = [...maps.querySelectorAll(".column-name, .row-name")].length;
  said.kindValues = [...maps.querySelectorAll("button.map .value")].map((one) => one.textContent);
  set(kind, "");

  const plot = document.querySelector("#tv .plot svg");
  const box = plot.getBoundingClientRect();
  const area = document.querySelector("#tv .plot");
  area.scrollIntoView();
  await sleep(100);
  const tips = [];
  for (const share of [0.25, 0.6, 0.95]) {
    const at = plot.getBoundingClientRect();
    const [x, y] = [at.left + share * at.width, at.top + 0.5 * at.height];
    const target = document.elementFromPoint(x, y);
    for (const kind of ["pointerover", "pointermove"]) {
      target.dispatchEvent(new PointerEvent(kind, { bubbles: true, clientX: x, clientY: y }));
    }
    await sleep(80);
    tips.push(document.getElementById("vg-tooltip-element")?.textContent ?? "");
  }
  said.tips = tips;
  document.body.dataset.said = JSON.stringify(said);
})();
</script></body>"""


@needs_browser
def test_clicks_choose_sort_and_unfold(tmp_path: Path) -> None:
    folder = run_folders.write(tmp_path / "run", layers=4, heads=3, tokens=30, seed=5)
    answer(tmp_path, "report", "run")
    must_have_charts(folder / "report.html")
    text = (folder / "report.html").read_text(encoding="utf-8")
    acted = tmp_path / "acted.html"
    acted.write_text(text.replace("</body>", ACTS), encoding="utf-8")
    dom, console, _ = browse(acted, tmp_path, "--window-size=1280,900")
    assert console == ""
    assert "data-failed" not in dom
    said = told(dom)
    assert said["hidden"] is False
    assert said["unfolds"]
    assert said["more"]
    assert said["chosen"] == "layer 2, head 1: previous token"
    assert len(said["marked"]) == 1
    assert re.search("head: 1; layer: 2;", said["marked"][0])
    mass = [[head["first_key_mass"]["mean"] for head in layer] for layer in metrics_of(folder)["attention"]]
    ordered = sorted(
        ((mass[k // 3][k % 3], f"layer {k // 3}, head {k % 3}") for k in range(12)), reverse=True
    )
    assert said["sorted"] == [name for _, name in ordered]
    assert said["least"] == [name for value, name in ordered if value >= 0.2]
    assert said["layer"] == [f"layer 1, head {head}" for head in range(3)]
    named = [f"layer {k // 3}, head {k % 3}" for k in range(12) if (k // 3 + k % 3) % 9 == 0]
    assert said["kind"] == named
    # Between heads that are left out there are no columns: every map says its own place.
    assert said["kindNames"] == 0
    assert said["kindValues"] == [f"{k // 3}.{k % 3}" for k in range(12) if (k // 3 + k % 3) % 9 == 0]
    # The nearest point answers wherever the pointer stands.
    assert all("median" in tip for tip in said["tips"]), said["tips"]
    assert len(set(said["tips"])) == 3
    assert "undefined" not in "".join(said["tips"])
