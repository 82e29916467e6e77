"""Pages in headless Chromium: what it draws, and what it makes of them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
PROGRAM = next((found for name in NAMES if (found := shutil.which(name))), None)
needs_chromium = pytest.mark.skipif(PROGRAM is None, reason="no Chromium is installed")
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
DARK = "--blink-settings=preferredColorScheme=0"


def screenshot(page: Path, target: Path, width: int, height: int, *options: str) -> None:
    """Draw a page; with `DARK` for readers whose system is dark."""
    size = f"--window-size={width},{height}"
    _run(page, f"--screenshot={target}", size, f"--user-data-dir={target}.profile", *options)


def dom(page: Path, profile: Path) -> str:
    """The page's elements once its scripts have run."""
    return _run(page, "--dump-dom", f"--user-data-dir={profile}", "--virtual-time-budget=3000")


def _run(page: Path, *options: str) -> str:
    assert PROGRAM is not None
    done = subprocess.run(
        [PROGRAM, *OPTIONS, *options, page.resolve().as_uri()],
        capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip
    return done.stdout
