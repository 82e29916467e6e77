"""The numbers of docs/results/smollm2.md are those that its script prints from its counts."""

import importlib
import re
from pathlib import Path

import numpy as np
import pytest

from sage_cli.metrics.intervals import Resampling

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "results" / "smollm2.md").read_text()
COUNTS = ROOT / "docs" / "results" / "smollm2.counts.parquet"


@pytest.fixture(scope="module")
def scripts():
    """Modules of examples/smollm2 by name, as its commands import them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "examples" / "smollm2"))
        yield importlib.import_module


@pytest.fixture(scope="module")
def tables(scripts):
    return scripts("tables")


def cells(lines):
    """What stands between the bars of a table's rows, with the page's minus."""
    rows = [line.split(" | ")[1:5] for line in lines if line.startswith("| ")]
    return [cell.strip("| ").replace("-", "−") for row in rows for cell in row]


@pytest.mark.parametrize("samples", [64, 16])
def test_the_page_has_every_difference_as_the_script_prints_it(tables, samples):
    study = tables.Study(COUNTS, samples)
    printed = [line for line in tables.differences(study, Resampling()) if "| " in line]
    if samples == 16:  # the page has k = 1, 8 and 16 by answers
        printed = [line for line in printed if line.startswith("| answers")]
    found = [cell for cell in cells(printed) if re.match(r"[+−]", cell)]
    assert len(found) == {64: 24, 16: 9}[samples]
    assert [cell for cell in found if cell not in PAGE] == []


def test_the_page_has_the_claims_as_the_script_decides_them(tables):
    for line in tables.claims(tables.Study(COUNTS, 64)):
        claim, _, outcome = line.replace("-", "−").partition(": ")
        (row,) = [row for row in PAGE.splitlines() if row.startswith(f"| {claim} |")]
        assert outcome.split(" [")[0] in row
        assert outcome.rpartition("Holm ")[2] in row
        assert re.findall(r"\[.*?\]", outcome)[0] in row


def test_the_page_has_the_change_by_answers_minus_that_by_formulas(tables):
    found = cells(tables.between_judges(tables.Study(COUNTS, 64)))
    assert len(found) == 4
    page = " ".join(PAGE.split())
    assert [cell for cell in found if cell not in page] == []


def test_the_page_has_the_means_of_the_seeds_that_both_arms_share(tables):
    printed = [line for line in tables.means(tables.Study(COUNTS, 64)) if "{1, 2}" in line]
    assert len(printed) == 6
    for line in printed:
        one, _, _, eight, sixteen, all_32 = re.findall(r"0\.\d{3}", line)
        assert f"| {one} | {eight} | {sixteen} | {all_32} |" in PAGE


def test_the_overview_has_the_intervals_of_the_page():
    index = (ROOT / "docs" / "results" / "index.md").read_text()
    rows = [row for row in index.splitlines() if "(smollm2.md)" in row]
    intervals = re.findall(r"\d \[[^]]*\d\]", " ".join(rows))
    assert len(intervals) >= 4
    assert [interval for interval in intervals if interval not in PAGE] == []


def test_the_page_has_the_line_of_temperatures_as_the_script_prints_it(scripts):
    script = scripts("temperature_line")
    study = script.Study(COUNTS, 64)
    for judge in script.JUDGES:
        line = script.read_line(COUNTS.with_name("smollm2-dose.counts.parquet"), judge)
        printed = list(script.table(study, line, judge))
        assert len(printed) == 5  # greedy, .3, .5, .7 and 1
        found = [cell for cell in cells(printed) if re.match(r"[+−]|0\.\d{3}$", cell)]
        assert [cell for cell in found if cell not in PAGE] == []
        said = script.at_equal_pass_1(study, line, judge)
        quoted = {
            "answers": ("| +0.006 |", "is 0.006 above the line"),
            "formulas": ("0.084", "0.084"),
        }
        assert quoted[judge][0] in said
        assert quoted[judge][1] in PAGE


def test_the_line_of_temperatures_by_hand(scripts):
    script = scripts("temperature_line")
    # pass@1 and another k of two temperatures: halfway between .1 and .2 the line has .4
    line_TK = np.array([[0.2, 0.3], [0.1, 0.5]])
    assert script.gaps(np.array([[0.15, 0.45]]), line_TK[None]) == pytest.approx(0.05)
    assert np.isnan(script.gaps(np.array([[0.3, 0.45]]), line_TK[None])).all()
