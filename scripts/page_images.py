"""Draws docs/images/playground.png, report.png and report_heads.png by Chromium, of pages of `./dev demo`.

page_images.py [BUILD]; `./dev docs --draw` runs both.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/python/program"))
from browser import BROWSER, Tab  # noqa: E402

# Image, page, what is true of it once all is drawn, the figure that it begins with, width and height.
DRAWN = "document.documentElement?.dataset.drawn"
IMAGES = (
    ("playground", "playground.html", "document.documentElement?.dataset.ready", "", 1280, 1640),
    ("report", "demo-run/report.html", DRAWN, "", 1180, 1400),
    ("report_heads", "demo-run/report.html", DRAWN, "patterns", 1180, 825),
)
# Once all is drawn, what stands above the figure is moved out of sight.
MOVE = """<script>
const wait = setInterval(() => {{
  if (!document.documentElement.dataset.drawn) return;
  clearInterval(wait);
  const top = document.getElementById("{figure}").getBoundingClientRect().top - 16;
  document.body.style.marginTop = `-${{top}}px`;
}}, 50);
</script></body>"""


def draw(page: Path, drawn: str, size: tuple[int, int], image: Path, folder: Path) -> None:
    tab = Tab("about:blank", folder)
    try:
        tab.show(*size)
        tab.call("Emulation.setScrollbarsHidden", hidden=True)
        tab.call("Page.navigate", url=page.as_uri())
        tab.wait(drawn)
        # What a figure asks for after it was drawn, two frames later.
        tab.evaluate("new Promise((done) => setTimeout(() => requestAnimationFrame(done), 500))")
        tab.picture(image, whole=False)
    finally:
        tab.close()


def main() -> None:
    build = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build")
    if BROWSER is None:
        sys.exit("page_images: no chromium: apt-get install chromium")
    for name, page, drawn, figure, width, height in IMAGES:
        image = ROOT / "docs" / "images" / f"{name}.png"
        with tempfile.TemporaryDirectory() as folder:
            text = (build / page).read_text(encoding="utf-8")
            shown = Path(folder) / "page.html"
            shown.write_text(
                text.replace("</body>", MOVE.format(figure=figure)) if figure else text, encoding="utf-8"
            )
            draw(shown, drawn, (width, height), image, Path(folder))
        print(image.relative_to(ROOT))


if __name__ == "__main__":
    main()
