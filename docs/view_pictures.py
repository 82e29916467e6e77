"""Draw the pictures of docs/tutorials/view.md: `sage view` in Chromium, on the runs of a folder.

    python docs/view_pictures.py RUNS

RUNS holds those of `sage demo`, measured, and a sweep. It needs Chromium with its driver.
"""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path

from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "integration"))
from test_view_in_chromium import Browser, chromium, view

HERE = Path(__file__).parent / "tutorials"
WIDTH, HEIGHT = 1180, 880


def main(runs: Path) -> None:
    """Serve the folder, and write a picture of each page."""
    base = next(runs.glob("sft-*")).name
    plain, branch = (sorted(runs.glob(f"rl-dapo-{name}-*"))[0].name for name in ("no-kl", "branch"))
    policies = f"policies={base},{plain},{branch}"
    with view(runs) as address, chromium() as browser:
        browser.size(WIDTH, height=HEIGHT)
        browser.open(address)
        problem = hardest(browser, f"{base},{plain},{branch}")
        save(browser, "runs", f"#/runs?policies={base},{branch}&columns=guide.tau", 560)
        save(browser, "passk", f"#/passk?{policies}")
        one = f"#/problem?{policies}&problem={problem}"
        save(browser, "problem", one)
        tokens(browser, f"#/problem?policies={branch}&problem={problem}&grade=right")
        for kind in ("sweep", "suite"):
            for folder in sorted((runs / f"{kind}s").iterdir())[:1]:
                save(browser, kind, f"#/{kind}?{kind}={folder.name}")
        browser.size(390, dark=True, height=HEIGHT)
        save(browser, "phone", f"#/passk?{policies}")


def hardest(browser: Browser, policies: str) -> str:
    """Return a problem that the policies sometimes answer correctly, in different shares."""
    found = browser.driver.execute_async_script(
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


def tokens(browser: Browser, where: str) -> None:
    """Save the first completion of a problem, token by token."""
    browser.go(where)
    browser.js("document.querySelector('[id^=tokens-]').click()")
    browser.wait(lambda: browser.all(".read button, .token"))
    browser.js("document.querySelector('.read button')?.click()")
    browser.wait(lambda: browser.all(".token"))
    browser.js(
        "const s = document.querySelector('.read select'); s.value = 'q';"
        "s.dispatchEvent(new Event('change')); document.querySelectorAll('.token')[1].click();"
        "document.querySelector('.side').scrollIntoView(); scrollBy(0, -60)"
    )
    write(browser, "tokens", 430)


def save(browser: Browser, name: str, where: str, height: int = HEIGHT) -> None:
    """Open a page and save the upper part of what the window shows."""
    browser.go(where)
    browser.js("scrollTo(0, 0)")
    write(browser, name, height)


def write(browser: Browser, name: str, height: int) -> None:
    """Write the upper part of what the window shows."""
    time.sleep(1)  # until nothing fades any more
    picture = Image.open(io.BytesIO(browser.driver.get_screenshot_as_png())).convert("RGB")
    picture = picture.crop((0, 0, picture.width, min(height, picture.height)))
    file = HERE / f"view-{name}.png"
    picture.save(file, optimize=True)
    print(f"{file}: {file.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
