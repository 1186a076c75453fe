"""The site (`./dev site`) in a real browser, from its folder: pages fit a telephone, are light and dark, the
search finds calls, and nothing is asked for elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Tab, needs_browser

# Set by the word that makes it, whose tests these are.
SITE = Path(os.environ.get("OTATTN_SITE", ""))
pytestmark = [
    needs_browser,
    pytest.mark.skipif(
        not (SITE / "index.html").is_file(), reason="./dev site test makes the pages and runs these"
    ),
]
DRAWN = "document.readyState === 'complete' && document.querySelector('article')"
# One of each kind, those with wide tables, formulas and long names among them.
PAGES = (
    "index",
    "docs/users/methods",
    "docs/research/mathematics",
    "docs/research/study",
    "docs/records/speed",
    "c/otattn/problem",
    "c/otattn_maxsim",
    "c/otattn_analysis/layers-and-blocks",
    "program/attend",
    "program/topics",
    "python/otattn/attention",
    "python/otattn.activations",
    "python/otattn.analysis",
    "python/otattn.analysis/distributions",
)


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    opened = Tab("about:blank", tmp_path_factory.mktemp("site"))
    yield opened
    opened.close()


def show(tab: Tab, address: str, width: int, *, dark: bool = False) -> None:
    tab.show(width, 844, dark=dark)
    tab.call("Page.navigate", url="about:blank")
    tab.call("Page.navigate", url=f"{SITE.resolve().as_uri()}/{address}")
    tab.wait(DRAWN)


@pytest.mark.parametrize("width", [390, 1280])
def test_pages_fit_the_screen(tab: Tab, width: int) -> None:
    for page in PAGES:
        show(tab, f"{page}.html", width)
        # What is wider moves within itself; the page does not.
        assert tab.evaluate("document.documentElement.scrollWidth") <= width, page
        assert tab.evaluate("document.querySelector('article h1').innerText.length") > 0, page
    assert tab.complaints() == []


def test_dark_and_light(tab: Tab) -> None:
    grounds = []
    for dark in (False, True):
        show(tab, "c/otattn/forward.html", 390, dark=dark)
        found = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        grounds.append(sum(map(int, found.strip("rgb()").split(","))))
    assert grounds[0] > 600 and grounds[1] < 150


@pytest.mark.parametrize(
    "words, found", [("ota_forward", "ota_forward"), ("linear_sum_assignment", "linear_sum_assignment")]
)
def test_search_from_a_folder(tab: Tab, words: str, found: str) -> None:
    show(tab, f"search.html?q={words}", 1280)
    tab.wait("document.querySelectorAll('ul.search li').length > 0")
    first = tab.evaluate("document.querySelector('ul.search li').innerText")
    assert found in first
    tab.evaluate("document.querySelector('ul.search li a').click()")
    tab.wait(f"{DRAWN} && !location.pathname.endsWith('search.html')")
    assert tab.evaluate("document.getElementById(location.hash.slice(1)) !== null")
    assert tab.complaints() == []
