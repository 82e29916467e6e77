"""`sage view` in a real browser: every page, narrow and wide, dark and light, by keyboard alone.

And what `--export` writes, opened from disk without a server.
"""

import json
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from shown_runs import LONG, by_chance, hostile, shown_runs, stored_run, sweep
from typer.testing import CliRunner

from sage_cli.cli.app import app
from sage_cli.store.json_files import read_object, write_object
from sage_cli.store.run import Run
from sage_cli.view.page_file import write_page

NAMES = ("chromium", "chromium-browser", "google-chrome")
PROGRAM = next((found for name in NAMES if (found := shutil.which(name))), None)
DRIVER = shutil.which("chromedriver")
needs_driver = pytest.mark.skipif(
    PROGRAM is None or DRIVER is None, reason="no Chromium with a driver is installed"
)
PATIENCE_S = 60
AXE = Path(__file__).with_name("axe.min.js")
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


class Browser:
    """A window of a browser; every wait ends when what is waited for is there."""

    def __init__(self, driver):
        self.driver = driver

    def size(self, width, *, dark=False, height=900):
        """Set the window's width in pixels, and which colours the system asks for."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})

    def open(self, address):
        """Open an address and wait until the page shows something."""
        self.driver.get(address)
        self.wait(lambda: self.all("main h1"))

    @contextmanager
    def hurried(self):
        """Pages that are opened meanwhile look for news ten times as often."""
        source = "const plain = setInterval; window.setInterval = (f, ms) => plain(f, ms / 10)"
        add, remove = (f"Page.{verb}ScriptToEvaluateOnNewDocument" for verb in ("add", "remove"))
        script = self.driver.execute_cdp_cmd(add, {"source": source})
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd(remove, script)

    def go(self, hash_):
        """Lead the page to an address of its own, and wait until it shows that."""
        mark = (
            "if (location.hash !== arguments[0]) document.querySelector('main h1').dataset.old = 1"
        )
        self.js(f"{mark}; location.hash = arguments[0]", hash_)
        self.wait(lambda: not self.all("main h1[data-old]") and self.all("main h1"))
        self.wait(self.drawn)

    def drawn(self):
        """True once every picture is drawn."""
        undrawn = "(one) => !one.firstChild && one.offsetParent"
        return not self.js(f"return [...document.querySelectorAll('.plot')].some({undrawn})")

    def js(self, script, *values):
        """Return what a script returns."""
        return self.driver.execute_script(script, *values)

    def all(self, selector):
        """Return the elements of a selector."""
        return list(self.driver.find_elements("css selector", selector))

    def text(self, selector="main"):
        """Return the text of the first element of a selector."""
        found = "document.querySelector(arguments[0])?.innerText ?? ''"
        return str(self.js(f"return {found}", selector))

    def texts(self, selector):
        """Return the texts of all elements of a selector."""
        found = "[...document.querySelectorAll(arguments[0])].map((one) => one.textContent.trim())"
        return list(self.js(f"return {found}", selector))

    def press(self, *keys):
        """Press keys where the focus is."""
        from selenium.webdriver.common.action_chains import ActionChains

        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def wait(self, true):
        """Wait until something is true."""
        ends = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < ends, f"waited in vain; the page shows {self.text()[:2000]}"
            time.sleep(0.05)

    def complaints(self):
        """Return what the page complained of in its console since the last call."""
        return [f"{one['level']} {one['message']}" for one in self.driver.get_log("browser")]

    def violations(self):
        """Return what axe finds wrong with the page, with the first place of each."""
        if not self.js("return Boolean(window.axe)"):
            # run by the driver, which no policy of the page's concerns
            source = AXE.read_text(encoding="utf-8")
            self.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": source})
        found = self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            "const said = ({id, nodes: [one]}) => `${id}: ${one.html} ${one.failureSummary}`;"
            "axe.run(document, {runOnly: arguments[0]}).then((r) => done(r.violations.map(said)))",
            TAGS,
        )
        return list(found)


@contextmanager
def chromium():
    """A headless browser, closed at the end."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = str(PROGRAM)
    words = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
    for one in (*words, "--hide-scrollbars"):
        options.add_argument(one)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


@contextmanager
def view(root):
    """Type `sage view` and yield the address that it prints, without what stands after `#`."""
    with served(root) as (address, _):
        yield address


@contextmanager
def served(root):
    """Type `sage view` and yield the address that it prints with the number of its process."""
    program = Path(sys.executable).with_name("sage")
    typed = [program, "view", "--no-open", "--json", "--runs", root]
    process = subprocess.Popen(
        list(map(str, typed)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        lines = ""
        while not lines.rstrip().endswith("}"):
            line = process.stdout.readline()
            assert line, process.communicate()[1]
            lines += line
        yield json.loads(lines)["address"].split("#")[0], process.pid
    finally:
        process.terminate()
        process.communicate(timeout=30)


pytestmark = [needs_driver, pytest.mark.timeout(900)]
BASE, BRANCH, PLAIN = "sft-arithmetic-aaaaaaaa", "rl-dapo-branch-bbbbbbbb", "rl-dapo-cccccccc"
POLICIES = f"policies={BASE},{BRANCH}"


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


@pytest.fixture(scope="module")
def address(root):
    with view(root) as printed:
        yield printed


@pytest.fixture
def page(browser, address):
    """The table of runs, 1,280 pixels wide and light."""
    browser.size(1280)
    browser.open(address)
    browser.complaints()
    return browser


@pytest.fixture
def lively(browser, address):
    """As `page`, and it looks for news every 0.3 seconds."""
    with browser.hurried():
        browser.size(1280)
        browser.open(address)
    return browser


@pytest.fixture(scope="module")
def problem(root):
    """The problem whose first completion is hostile."""
    from sage_cli.view.api import Api

    found = Api(root).answer("problems", {"policies": BRANCH})
    return str(found["problems"][0]["problem"])


def pages(problem):
    return [
        f"#/runs?{POLICIES}&sort=-reward",
        f"#/run?run={BRANCH}",
        "#/run?run=rl-torn-dddddddd",
        f"#/curves?runs={BRANCH},{PLAIN}&smooth=2",
        f"#/passk?{POLICIES}",
        f"#/problems?{POLICIES}",
        f"#/problem?{POLICIES}&problem={problem}",
        f"#/samples?policy={BRANCH}",
        "#/sweeps",
        "#/sweep?sweep=tau-rho-12345678",
        "#/suites",
        "#/suite?suite=demo-12345678",
        f"#/guide?run={BRANCH}",
        f"#/compare?runs={BRANCH},{PLAIN}",
        "#/nowhere",
    ]


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_every_page_fits_is_accessible_and_runs_no_markup(page, problem, width, dark):
    scripted = "[...document.querySelectorAll('main a')].some((a) => a.protocol === 'javascript:')"
    page.size(width, dark=dark)
    for where in pages(problem):
        page.go(where)
        assert page.js("return document.documentElement.scrollWidth") <= width, where
        assert page.violations() == [], where
        back = page.js("return getComputedStyle(document.body).backgroundColor")
        red = int(back.split("(")[1].split(",")[0])
        assert (red < 60) if dark else (red > 200), where
        assert page.js("return document.title").endswith("sage view")
        assert page.all("main script, main img:not(.still), main iframe, main b") == [], where
        assert not page.js(f"return {scripted}"), where
    assert page.complaints() == []


def test_markup_in_a_completion_is_text(page, problem):
    page.go(f"#/problem?{POLICIES}&problem={problem}")
    text = page.text()
    assert "<script>document.title = 'owned'</script>" in text
    assert "␛[31m⟨202E⟩right⟨202C⟩␀" in text
    assert page.complaints() == []


def test_a_megabyte_in_a_line_is_shown_when_asked(page, problem):
    page.go(f"#/samples?policy={BRANCH}&problem={problem}")
    button = next(one for one in page.all("button") if "1,000,000" in one.text)
    assert len(page.text("main")) < 100_000
    button.click()
    lengths = "[...document.querySelectorAll('pre')].map((one) => one.textContent.length)"
    page.wait(lambda: len(LONG) in page.js(f"return {lengths}"))
    assert page.js("return document.documentElement.scrollWidth") <= 1280


@pytest.mark.parametrize(
    "attack",
    [
        "document.body.innerHTML = '<img src=x onerror=\\'document.title = 1\\'>'",
        "const s = document.createElement('b'); s.setAttribute('onclick', 'document.title = 1')",
        "document.createElement('script').text = 'document.title = 1'",
        "document.write('<b>written</b>')",
    ],
)
def test_the_browser_refuses_what_would_be_run(page, attack):
    assert page.js(f"try {{ {attack}; return false }} catch {{ return true }}")
    assert page.js("return document.title").endswith("sage view")


def test_by_the_keyboard_alone(page, problem):
    page.press("\ue004")  # tab
    assert page.js("return document.activeElement.className") == "skip"
    page.press("\ue007")  # enter
    assert page.js("return document.activeElement.id") == "main"
    for _ in range(60):
        page.press("\ue004")
        if page.js("return document.activeElement.id") == f"pick-{BRANCH}":
            break
    page.press(" ")
    page.wait(lambda: "1 chosen" in page.text())
    assert page.js("return document.activeElement.id") == f"pick-{BRANCH}"  # focus stays
    page.press("g", "k")
    page.wait(lambda: page.text("h1") == "pass@k")
    assert BRANCH in page.js("return location.hash")  # what is chosen comes along
    page.go(f"#/problems?{POLICIES}")
    page.press("/")
    assert page.js("return document.activeElement.id") == "search"
    page.press("no such question")
    page.wait(lambda: "no question contains this text" in page.text())
    assert page.js("return document.activeElement.value") == "no such question"
    page.js("document.activeElement.blur()")
    page.press("?")
    page.wait(lambda: page.all("dialog[open]"))
    page.press("\ue00c")  # escape
    page.wait(lambda: not page.all("dialog[open]"))
    page.go(f"#/problem?{POLICIES}&problem={problem}")
    assert "1 of 6" in page.text()
    for key, place in (("j", 2), ("k", 1)):
        page.press(key)
        page.wait(lambda place=place: f"{place} of 6" in page.text())


def test_a_policy_has_one_colour_everywhere(page, problem):
    named = (
        "const of = (name) => [...document.querySelectorAll('.run, .entry')].filter((one) =>"
        "name.test(one.textContent.trim())).map((one) => one.querySelector('line'));"
    )
    found = set()
    for where in (
        f"#/runs?{POLICIES}",
        f"#/passk?{POLICIES}",
        f"#/problem?{POLICIES}&problem={problem}",
        "#/suite?suite=demo-12345678",
    ):
        page.go(where)
        look = "one.getAttribute('stroke') + ' ' + one.getAttribute('stroke-dasharray')"
        own = page.js(f"{named} return of(/^(rl-)?dapo-branch(-b+)?$/).map((one) => {look})")
        assert own, where
        found |= set(own)
        initial = page.js(f"{named} return of(/^(sft-|initial policy)/).map((one) => {look})")
        assert set(initial) == {"currentColor "}, where  # ink, on every page
    assert len(found) == 1


def test_a_point_of_the_scatter_opens_its_problem(page):
    page.go(f"#/passk?{POLICIES}")
    page.wait(lambda: page.all(".plot svg a"))
    assert len(page.all(".plot svg a")) == 6
    press = "new MouseEvent('click', {bubbles: true, cancelable: true})"
    page.js(f"document.querySelector('.plot svg a').dispatchEvent({press})")
    page.wait(lambda: page.text("h1") == "Problem")


@pytest.mark.parametrize("ticked", [f"{BASE},{BRANCH}", f"{BRANCH},{BASE}"])
def test_a_difference_is_of_a_policy_less_its_ancestor(page, ticked):
    page.go(f"#/passk?policies={ticked}")
    assert f"{BRANCH} − {BASE}" in page.text()
    page.go(f"#/problems?policies={ticked}")
    assert page.texts("#scroll-problems th[scope=col]")[-1] == f"{BRANCH} − {BASE}"
    # without a choice of sides the later of two that do not descend from each other comes first
    page.go(f"#/passk?policies={PLAIN},{ticked}")
    assert f"{PLAIN} − {BASE}" in page.text()
    # a choice of sides wins
    page.go(f"#/passk?policies={ticked}&a={BASE}&b={BRANCH}")
    assert f"{BASE} − {BRANCH}" in page.text()


def test_samples_show_question_and_gold(page, root, problem):
    from sage_cli.view.api import Api

    page.go(f"#/samples?policy={BRANCH}&problem={problem}")
    found = Api(root).answer("problem", {"policies": BRANCH, "problem": problem})
    assert set(page.texts("article .question")) == {found["question"]}
    assert f"gold {found['gold']}" in page.text("article .about")
    assert problem not in page.text()


def test_a_heat_map_has_values_on_its_axes_and_one_colour_for_the_indistinguishable(page, root):
    folder = sweep(root, [BRANCH, PLAIN], "lr-12345678")
    report = read_object(folder / "sweep.json", "")
    report["space"][0] |= {"name": "lr", "key": "rl.learning_rate", "values": [1e-4, 4e-4]}
    for trial in report["trials"]:
        tau = trial["settings"].pop("guide.tau")
        trial["settings"]["rl.learning_rate"] = 1e-4 if tau == 0.3 else 4e-4
    ranking = {"best": 3, "indistinguishable": [1, 2, 3], "error": 0.01, "confidence": 0.95}
    report["rankings"] = {"pass@1": ranking}
    write_object(folder / "sweep.json", report)
    page.go("#/sweep?sweep=lr-12345678")
    page.wait(lambda: page.all("svg rect"))
    assert {"1e-4", "4e-4"} <= set(page.texts(".plot svg text"))
    fills = page.js(
        "return [...document.querySelector('.plot svg').querySelectorAll('rect')]"
        ".map((one) => one.getAttribute('fill'))"
    )
    assert sorted(map(fills.count, set(fills))) == [1, 3]
    shutil.rmtree(folder)


def test_filters_are_in_the_address(page):
    page.go(f"#/samples?policy={BRANCH}&grade=right&longest=12")
    assert set(page.texts(".grade")) == {"✓ correct"}
    page.go("#/runs?filter=guide.name%3Dbranch&columns=guide.tau")
    assert page.texts("tbody .run") == [BRANCH]
    assert "0.465" in page.text()


def test_chosen_runs_are_laid_beside_each_other(page):
    page.go(f"#/runs?policies={BRANCH},{PLAIN}")
    next(one for one in page.all(".choice a") if one.text == "How they differ").click()
    page.wait(lambda: page.text("h1") == "Compare runs")
    names = page.texts("#scroll-settings tbody th")
    assert "guide.name" in names
    assert "rl.algo" not in names  # both are trained under DAPO
    assert "pass@1 on arithmetic" in page.texts("#scroll-figures tbody th")


def test_a_run_that_grows_is_seen_to_grow(lively, root):
    lively.go(f"#/run?run={PLAIN}")
    run = Run(root / PLAIN)
    assert "step" in lively.text()
    lively.js("document.querySelector('#numbers-reward').open = true")
    rows = len(lively.all("#scroll-reward tbody tr"))
    run.metrics.append({"step": 4, "of": 4, "reward": 0.9, "loss": 0.1})
    lively.wait(lambda: len(lively.all("#scroll-reward tbody tr")) == rows + 1)
    assert lively.js("return document.querySelector('#numbers-reward').open")  # as it was left


def test_a_run_that_is_removed_while_it_is_shown(lively, root):
    gone = stored_run(root, "gone", "e", by_chance(1), records=[{"step": 1, "reward": 1.0}])
    lively.go(f"#/run?run={gone.id}")
    shutil.rmtree(gone.folder)
    lively.wait(lambda: "there is no run" in lively.text())
    assert "may have been removed" in lively.text()
    lively.go(f"#/passk?policies={gone.id},{BASE}")
    assert "there is no run" in lively.text()
    assert lively.all(".plot svg")  # the others are still shown


def test_a_torn_run_is_named(page):
    page.go("#/run?run=rl-torn-dddddddd")
    assert "is corrupt or was edited" in page.text()
    assert "sage runs remove rl-torn-dddddddd" in page.text()


def test_an_empty_folder_says_what_to_type(browser, tmp_path):
    (tmp_path / "runs").mkdir()
    with view(tmp_path / "runs") as address, browser.hurried():
        browser.size(1280)
        browser.open(address)
        assert "No runs yet" in browser.text()
        assert "sage demo" in browser.text()
        stored_run(tmp_path / "runs", "new", "f", hostile)
        browser.wait(lambda: "rl-new-ffffffff" in browser.text())


def test_tables_and_pictures_are_saved_with_their_provenance(page):
    page.go(f"#/passk?{POLICIES}")
    page.js(
        "window.saved = []; HTMLAnchorElement.prototype.click = () => {};"
        "URL.createObjectURL = (blob) => { blob.text().then((one) => saved.push(one)); return '' };"
        "for (const one of document.querySelector('.saves').children)"
        "  if (one.textContent !== 'PNG') one.click()"
    )
    page.wait(lambda: page.js("return saved.length") == 2)
    svg, csv = sorted(page.js("return saved"), key=lambda text: not text.startswith("<svg"))
    assert svg.startswith("<svg")
    assert "<metadata>" in svg
    assert "fingerprint" in svg
    assert csv.startswith("# sage view, #/passk?")
    assert f"{BASE},8," in csv


def test_a_cell_that_a_spreadsheet_would_compute_begins_with_an_apostrophe(page):
    cells = ["=HYPERLINK(1)", "+cmd", "-1+2", "@SUM(1)", "\t=1", "-0.5", "+1e3", "-", "a=b", -2.5]
    made = "const { csv } = await import('/download.js'); return csv(['=head'], [arguments[0]]);"
    text = page.js(f"return (async function () {{ {made} }})(...arguments)", cells)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    expected = ["'=HYPERLINK(1)", "'+cmd", "'-1+2", "'@SUM(1)", "'\t=1", "-0.5", "+1e3", "-"]
    assert lines == ["'=head", ",".join([*expected, "a=b", "-2.5"])]


def test_without_a_choice_the_latest_measured_policies_are_shown(page):
    page.go("#/problems")
    chips = page.texts(".chip")
    assert [BASE in chip or BRANCH in chip or PLAIN in chip for chip in chips] == [True] * 3
    page.go("#/samples")
    assert page.js("return document.querySelector('#policy').value") in (BASE, BRANCH, PLAIN)
    assert "Choose a policy" not in page.text()
    page.go("#/passk")
    assert "Paired difference" in page.text()


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
        "#/runs",
        f"#/run?run={BRANCH}",
        f"#/curves?runs={BRANCH}",
        f"#/passk?{both}",
        f"#/problems?{both}",
        f"#/problem?{both}&problem={problem}",
        f"#/samples?policy={BRANCH}&grade=right",
        "#/sweeps",
        SWEEP,
        "#/suites",
        SUITE,
        f"#/guide?run={BRANCH}",
        f"#/compare?runs={BASE},{BRANCH}",
    ):
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
