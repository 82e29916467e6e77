"""`sage view --export`: the page as a file, opened from disk in a real browser without a server."""

import json
from pathlib import Path

import pytest
from browser import needs_driver
from typer.testing import CliRunner

from sage_cli.cli.app import app
from sage_cli.view.page_file import write_page

pytestmark = [needs_driver, pytest.mark.timeout(900)]
BASE, BRANCH = "sft-arithmetic-aaaaaaaa", "rl-dapo-branch-bbbbbbbb"
SUITE, SWEEP = "#/suite?suite=demo-12345678", "#/sweep?sweep=tau-rho-12345678"


def export(root, folder, *words):
    typed = ["view", *words, "--export", str(folder), "--runs", str(root), "--json"]
    done = CliRunner().invoke(app, typed, catch_exceptions=False)
    return Path(json.loads(done.stdout)["file"])


@pytest.fixture(scope="module")
def exported(root, tmp_path_factory):
    """The page of all runs."""
    return export(root, tmp_path_factory.mktemp("all") / "page")


def held(browser):
    """What the page that is open holds."""
    return json.loads(browser.js("return document.getElementById('data').textContent"))


def test_every_page_opens_from_disk(browser, exported):
    browser.open(exported.as_uri())
    problem = held(browser)["policies"][0]["samples"][0]["problem"]
    both = f"policies={BASE},{BRANCH}"
    for where in (
        "#/runs", f"#/run?run={BRANCH}", f"#/curves?runs={BRANCH}", f"#/passk?{both}",
        f"#/problems?{both}", f"#/problem?{both}&problem={problem}",
        f"#/samples?policy={BRANCH}&grade=right", "#/sweeps", SWEEP,
        "#/suites", SUITE, f"#/guide?run={BRANCH}", f"#/compare?runs={BASE},{BRANCH}",
    ):  # fmt: skip
        browser.go(where)
        assert browser.all(".notice.bad") == [], (where, browser.text())
        assert browser.all("main script, main img:not(.still), main b") == [], where
        assert browser.violations() == [], where
    assert browser.complaints() == []


def test_it_begins_with_what_was_named(browser, root, tmp_path):
    file = export(root, tmp_path / "page", BRANCH)
    browser.open(file.as_uri())
    assert browser.text("h1") == BRANCH  # begins with what was named
    assert f"of {2 * 6 * 8} samples" in browser.text("#foot")
    browser.go("#/runs")
    assert BASE in browser.text()  # the run that it grew from comes along
    assert "rl-dapo-cccccccc" not in browser.text()


@pytest.fixture(scope="module")
def own(root, tmp_path_factory):
    """The pages that a suite's and a sweep's commands write."""
    folder = tmp_path_factory.mktemp("own")
    for kind, name in (("suite", "demo-12345678"), ("sweep", "tau-rho-12345678")):
        write_page(root, folder / f"{kind}.html", kind, name)
    return {file.stem: file for file in folder.iterdir()}


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("suite", ["a note with <b>markup</b>", "Where it came from", "abc"]),
        ("sweep", ["sage rl --config", "the GPU is full", "Trials"]),
    ],
)
def test_the_page_that_a_command_writes(browser, own, kind, said, width, dark):
    browser.complaints()
    browser.size(width, dark=dark)
    browser.open(own[kind].as_uri())
    browser.wait(browser.drawn)
    for words in said:
        assert words in browser.text(), words
    assert browser.js("return document.documentElement.scrollWidth") <= width
    assert browser.js("return document.title").endswith("sage view")  # no picture's script ran
    assert browser.all("main script, main img:not(.still), main b") == []
    assert browser.violations() == []
    assert browser.complaints() == []


def test_a_suites_pictures_are_shown(browser, own):
    browser.size(1280)
    browser.open(own["suite"].as_uri())
    loaded = "[...document.querySelectorAll('img.still')].map((one) => one.naturalWidth)"
    browser.wait(lambda: browser.js(f"return {loaded}") == [120])  # 90 points of 4/3 pixels
    assert len(browser.all(".plot svg")) == 1  # curves are drawn by the page itself


def test_a_difference_the_other_way_round(browser, exported):
    browser.open(exported.as_uri())
    (one, *_) = held(browser)["differences"]
    script = (
        "const [asked, done] = arguments; const data = document.getElementById('data').textContent;"
        "import('sage/held.js').then(({answer}) =>"
        "done(answer(JSON.parse(data), 'difference', asked, '')))"
    )
    asked = {"a": one["b"], "b": one["a"], "benchmark": one["benchmark"]}
    turned = browser.driver.execute_async_script(script, asked)
    assert turned["mean"] == [-value for value in one["mean"]]
    assert turned["low"] == [-value for value in one["high"]]
    assert turned["p"] == one["p"]
