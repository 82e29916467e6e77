"""The pages of results say how every claim came out that a suite declared before its runs."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from sage_cli.trials.suites.declaration import parse_claim

ROOT = Path(__file__).parents[3]
STUDIES = ("smollm2", "neighbours", "tuned", "small-models")
HEADING = "## Declared, and outcome"


def declared(page):
    """The first cells of the rows of a page's table of declarations, and the second ones."""
    section = page.partition(f"{HEADING}\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    assert rows[0] == ["declared", "outcome"]
    return {row[0]: row[1] for row in rows[1:]}


def first_text(suite):
    """The text of a suite's file in the commit that added it; its present one without a history."""
    path = f"configs/suites/{suite}.yaml"
    git = ["git", "-C", str(ROOT)]
    added = ["log", "--diff-filter=A", "--format=%H", "--", path]
    found = subprocess.run([*git, *added], capture_output=True, text=True, check=False)
    commits = found.stdout.split()
    if not commits:
        return (ROOT / path).read_text()
    shown = subprocess.run(
        [*git, "show", f"{commits[-1]}:{path}"], capture_output=True, text=True, check=False
    )
    return shown.stdout or (ROOT / path).read_text()


def test_every_page_that_runs_a_suite_has_its_declarations():
    pages = (ROOT / "docs" / "results").glob("*.md")
    of_suites = {page.stem for page in pages if "sage suite run" in page.read_text()}
    # two pages time a suite, and kill one, and conclude nothing from it
    assert of_suites <= {*STUDIES, "speed", "faults"}


@pytest.mark.parametrize("study", STUDIES)
def test_a_page_says_how_each_declared_claim_came_out(study):
    found = declared((ROOT / "docs" / "results" / f"{study}.md").read_text())
    assert found
    if not (ROOT / "configs" / "suites" / f"{study}.yaml").is_file():
        return  # its registration is in the history, which the page names
    for text in (first_text(study), (ROOT / "configs" / "suites" / f"{study}.yaml").read_text()):
        claims = yaml.safe_load(text).get("claims") or []
        claims = [claims] if isinstance(claims, str) else claims
        assert {parse_claim(claim).text for claim in claims} <= found.keys()
    for claim, outcome in found.items():
        if re.fullmatch(r"\S+ [<>] \S+ at pass@\d+", claim):
            assert re.match(r"\**(holds|reversed|undecided)\b", outcome), claim
