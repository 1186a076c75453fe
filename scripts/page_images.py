"""Draws docs/images/playground.png, report.png and report_heads.png by Chromium, of pages of `./dev demo`.

page_images.py [BUILD]
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Image, page, the figure that it begins with, width and height.
IMAGES = (
    ("playground", "playground.html", "", 1280, 1640),
    ("report", "demo-run/report.html", "", 1180, 1400),
    ("report_heads", "demo-run/report.html", "patterns", 1180, 825),
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


def draw(browser: str, page: Path, size: str, image: Path, profile: str) -> None:
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run")
    where = (f"--user-data-dir={profile}", f"--window-size={size}", "--virtual-time-budget=30000")
    command = [browser, *flags, *where, f"--screenshot={image}", page.as_uri()]
    subprocess.run(command, check=True, capture_output=True)


def main() -> None:
    build = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build")
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        sys.exit("page_images: no chromium: apt-get install chromium")
    for name, page, figure, width, height in IMAGES:
        image = ROOT / "docs" / "images" / f"{name}.png"
        with tempfile.TemporaryDirectory() as folder:
            text = (build / page).read_text(encoding="utf-8")
            shown = Path(folder) / "page.html"
            shown.write_text(
                text.replace("</body>", MOVE.format(figure=figure)) if figure else text, encoding="utf-8"
            )
            draw(browser, shown, f"{width},{height}", image, f"{folder}/profile")
        print(image.relative_to(ROOT))


if __name__ == "__main__":
    main()
