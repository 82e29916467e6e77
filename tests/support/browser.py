"""A real Chromium, driven by its own driver, and `sage view` in a process of its own.

Benchmarks and the pictures of the docs use them, too.
"""

import json
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

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
