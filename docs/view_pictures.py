"""Draw the pictures of docs/tutorials/view.md: `sage view` in Chromium, on the runs of a folder.

    python docs/view_pictures.py RUNS

RUNS holds those of `sage demo`, measured, and a sweep. It needs Chromium with its driver.
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

HERE = Path(__file__).parent / "tutorials"
WIDTH, HEIGHT = 1180, 760


def main(runs: Path) -> None:
    """Serve the folder, and write a picture of each page."""
    program = Path(sys.executable).with_name("sage")
    server = subprocess.Popen(
        [str(program), "view", "--no-open", "--json", "--runs", str(runs)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        lines = ""
        while not lines.rstrip().endswith("}"):
            lines += server.stdout.readline()
        draw(json.loads(lines)["address"].split("#")[0], runs)
    finally:
        server.terminate()
        server.wait()


def draw(address: str, runs: Path) -> None:
    """Open each page and save what it shows."""
    base = next(runs.glob("sft-*")).name
    plain, branch = (sorted(runs.glob(f"rl-dapo-{name}-*"))[0].name for name in ("no-kl", "branch"))
    policies = f"policies={base},{plain},{branch}"
    driver = window()
    try:
        driver.get(address)
        problem = hardest(driver, f"{base},{plain},{branch}")
        save(driver, "runs", f"#/runs?policies={base},{branch}&columns=guide.tau", 560)
        save(driver, "passk", f"#/passk?{policies}")
        one = f"#/problem?{policies}&problem={problem}&order=dissimilar"
        save(driver, "problem", one)
        tokens(driver, f"#/problem?policies={branch}&problem={problem}&grade=right")
        for sweep in sorted((runs / "sweeps").glob("*/sweep.json"))[:1]:
            save(driver, "sweep", f"#/sweep?sweep={sweep.parent.name}")
        scheme = [{"name": "prefers-color-scheme", "value": "dark"}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        save(driver, "phone", f"#/passk?{policies}", 760, 390)
    finally:
        driver.quit()


def window() -> Any:
    """Return a headless browser."""
    options = Options()
    options.binary_location = str(shutil.which("chromium"))
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(word)
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


def hardest(driver: Any, policies: str) -> str:
    """Return a problem that the policies answer right sometimes, in different shares."""
    found = driver.execute_async_script(
        "const done = arguments[1]; fetch('api/problems?policies=' + arguments[0])"
        ".then((r) => r.json()).then(done)",
        policies,
    )
    shares = {
        row["problem"]: [row["right"].get(one, 0) / row["samples"][one] for one in row["samples"]]
        for row in found["problems"]
        if len(row["samples"]) == len(found["policies"])
    }
    return str(max(shares, key=lambda one: max(shares[one]) - min(shares[one])))


def tokens(driver: Any, where: str) -> None:
    """Save the first completion of a problem, token by token."""
    go(driver, where, WIDTH, HEIGHT)
    driver.execute_script("document.querySelector('[id^=tokens-]').click()")
    time.sleep(2)
    driver.execute_script("document.querySelector('.read button')?.click()")
    for _ in range(60):
        time.sleep(1)
        if driver.find_elements("css selector", ".token"):
            break
    driver.execute_script(
        "const s = document.querySelector('.read select'); s.value = 'q';"
        "s.dispatchEvent(new Event('change')); document.querySelectorAll('.token')[1].click();"
        "document.querySelector('.side').scrollIntoView(); scrollBy(0, -60)"
    )
    write(driver, "tokens", 430)


def save(driver: Any, name: str, where: str, height: int = HEIGHT, width: int = WIDTH) -> None:
    """Open a page and save what a window of that size shows."""
    go(driver, where, width, height)
    write(driver, name, height)


def go(driver: Any, where: str, width: int, height: int) -> None:
    """Lead the page to an address and wait until it stands still."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.execute_script("location.hash = arguments[0]; scrollTo(0, 0)", where)
    time.sleep(3)


def write(driver: Any, name: str, height: int) -> None:
    """Write the upper part of what the window shows."""
    picture = Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")
    picture = picture.crop((0, 0, picture.width, min(height, picture.height)))
    file = HERE / f"view-{name}.png"
    picture.save(file, optimize=True)
    print(f"{file}: {file.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
