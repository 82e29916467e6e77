"""What the tests of pages in a browser share."""

import pytest
from browser import chromium
from shown_runs import shown_runs


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A folder of made-up runs with samples, a sweep and a suite."""
    return shown_runs(tmp_path_factory.mktemp("shown") / "runs")


@pytest.fixture(scope="module")
def browser():
    """A headless browser, 1,280 pixels wide."""
    with chromium() as window:
        window.size(1280)
        yield window
