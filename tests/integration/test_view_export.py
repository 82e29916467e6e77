"""`sage view --export`: the page as a file, opened from disk in a real browser without a server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, chromium, needs_driver
from shown_runs import shown_runs

pytestmark = [needs_driver, pytest.mark.timeout(900)]
BASE, BRANCH = "sft-arithmetic-aaaaaaaa", "rl-dapo-branch-bbbbbbbb"


def export(root: Path, folder: Path, *words: str) -> Path:
    program = Path(sys.executable).with_name("sage")
    typed = [program, "view", *words, "--export", folder, "--runs", root, "--json"]
    done = subprocess.run(list(map(str, typed)), capture_output=True, text=True, check=True)
    return Path(json.loads(done.stdout)["file"])


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shown_runs(tmp_path_factory.mktemp("shown") / "runs")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as window:
        window.size(1280)
        yield window


def test_every_page_opens_from_disk(browser: Browser, root: Path, tmp_path: Path) -> None:
    file = export(root, tmp_path / "page")
    browser.open(file.as_uri())
    held = json.loads(browser.js("return document.getElementById('data').textContent"))
    problem, both = held["policies"][0]["samples"][0]["problem"], f"policies={BASE},{BRANCH}"
    for where in (
        "#/runs", f"#/run?run={BRANCH}", f"#/curves?runs={BRANCH}", f"#/passk?{both}",
        f"#/problems?{both}", f"#/problem?{both}&problem={problem}",
        f"#/samples?policy={BRANCH}&grade=right", "#/sweeps", "#/sweep?sweep=tau-rho-12345678",
        "#/suites", "#/suite?suite=demo-12345678",
    ):  # fmt: skip
        browser.go(where)
        assert browser.all(".notice.bad") == [], (where, browser.text())
        assert browser.all("main script, main img, main b") == [], where
        assert browser.violations() == [], where
    assert browser.complaints() == []


def test_what_was_left_out_is_said(browser: Browser, root: Path, tmp_path: Path) -> None:
    file = export(root, tmp_path / "page", BRANCH, "--limit-mb", "1")
    browser.open(file.as_uri())
    assert browser.text("h1") == BRANCH  # begins with what was named
    assert f"of {2 * 6 * 8} samples" in browser.text("#foot")
    browser.go("#/runs")
    assert BASE in browser.text()  # the run that it grew from comes along
    assert "rl-dapo-cccccccc" not in browser.text()
