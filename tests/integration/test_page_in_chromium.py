"""A suite's page as a browser shows it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from chromium import DARK, dom, needs_chromium, screenshot
from suite_results import result

from sage_cli.reports.chapters import Chapter, join_chapters
from sage_cli.reports.page import Page, ShownSample, ShownToken, to_html
from sage_cli.reports.provenance import Provenance
from sage_cli.trials.suites.read import read_suite
from sage_cli.trials.suites.report import MARKS
from sage_cli.trials.suites.sections.differences import differences
from sage_cli.trials.suites.sections.measured import curves, measured
from sage_cli.trials.suites.sections.power import power
from sage_cli.trials.suites.sections.problems import problems
from sage_cli.trials.suites.sections.runs import runs

pytestmark = needs_chromium
PROBLEMS, N = 60, 32


def sample(place: int) -> ShownSample:
    tokens = tuple(ShownToken(f"{word} ", 1 + place / 50, place / 9) for word in ("so", "it", "is"))
    grade = "right" if place % 2 else "wrong"
    words = f"{place} so it is"
    return ShownSample(
        "table1", "grpo-branch" if place % 3 else "base", "arithmetic", f"p{place // 4}",
        f"{place // 4} * 3 = ?", "12", grade, "12", words, tokens if place < 3 else (),
    )  # fmt: skip


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Table 1 with made-up counts: branch better, forward KL lost."""
    suite = read_suite("table1")
    generator = np.random.default_rng(0)
    base = generator.beta(0.4, 1.2, PROBLEMS)
    right: dict[str, Any] = {}
    for place, label in enumerate(one for one in suite.methods if one != "grpo-forward-kl"):
        share = np.clip(base + (0.05 * place + 0.02) * (label != "base"), 0, 1)
        right[label] = {
            "arithmetic": [generator.binomial(N, share).tolist() for _ in range(2)],
        }
    found = result(suite, right, N)
    assert found.base is not None
    sections = [measured(found), differences(found), curves(found), problems(found, found.base),
                power(found, found.base), runs(found)]  # fmt: skip
    chapters = [Chapter("table1", suite.title, sections)]
    folder = tmp_path_factory.mktemp("page")
    report = join_chapters("table1", suite.title, chapters, Provenance(), {}).write(folder)
    made = Page(report, chapters, {"preset": "tiny"}, [sample(i) for i in range(60)], MARKS)
    made.file.write_text(to_html(made))
    return made.file


def brightness(picture: Path) -> float:
    """The median over a picture's pixels, which are mostly page."""
    return float(np.median(matplotlib.image.imread(picture)[..., :3]))


def test_light_dark_and_on_a_phone(page: Path) -> None:
    screenshot(page, page.with_name("light.png"), 1200, 3000)
    screenshot(page, page.with_name("dark.png"), 1200, 3000, DARK)
    screenshot(page, page.with_name("phone.png"), 390, 3000)
    assert brightness(page.with_name("light.png")) > 0.95
    assert brightness(page.with_name("dark.png")) < 0.15
    assert matplotlib.image.imread(page.with_name("phone.png")).shape[:2] == (3000, 390)


def test_the_viewers_script_fills_the_page(page: Path, tmp_path: Path) -> None:
    elements = dom(page, tmp_path)
    # the first twenty of sixty, and a button for more
    assert elements.count("<article") == 20
    assert "60 completions" in elements
    assert not re.search(r"<button[^>]*hidden", elements)
    assert elements.count('class="t more"') == 6  # two of three samples have q above 1
    assert re.search(r'<option value="grpo-branch">', elements)
    assert elements.count("<svg") == 4


def test_nothing_is_wider_than_a_phone_but_what_scrolls(page: Path, tmp_path: Path) -> None:
    probe = page.with_name("probe.html")
    script = (
        "<script>document.body.dataset.wide = document.documentElement.scrollWidth;"
        "document.body.dataset.window = innerWidth</script></html>"
    )
    probe.write_text(page.read_text().replace("</html>", script))
    elements = dom(probe, tmp_path)
    wide, window = (re.search(rf'data-{name}="(\d+)"', elements) for name in ("wide", "window"))
    assert wide is not None
    assert window is not None
    assert int(wide[1]) <= int(window[1])
