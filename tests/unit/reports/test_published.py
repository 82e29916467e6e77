""""""

import json
import re
from typing import get_type_hints

import pytest

from sage_cli.cli.eval import PAPERS_SEEDS, command
from sage_cli.errors import ConfigurationError
from sage_cli.reports.estimate import Estimate
from sage_cli.reports.evaluation import evaluation_table
from sage_cli.reports.published import evaluation_tables, published, published_scores

PRINTED = {
    "table1": "table1_main",
    "table3": "table3_algorithms",
    "table4": "table4_long_reasoning",
}


def test_tables_are_there_by_eye_name_their_models_and_stand_in_the_help():
    scores = published_scores("table1")
    assert str(scores["grpo-branch"]["aime"][256]) == "0.427 ± 0.035"
    assert str(scores["base"]["math500-l5"][1]) == "0.294 ± 0.018"
    assert len(scores) == 7
    assert set(evaluation_tables()) == {"table1", "table3", "table4", "table9"}
    assert evaluation_tables()["table4"] == "DeepSeek-R1-Distill-Qwen-7B"
    with pytest.raises(ConfigurationError, match="'table2'"):
        published_scores("table2")
    option = get_type_hints(command, include_extras=True)["paper"].__metadata__[0]
    assert set(re.findall(r"table\d+", option.help)) == set(evaluation_tables())


@pytest.mark.parametrize("table", PRINTED)
def test_our_average_column_is_the_printed_one(table, facts):
    """The paper rounds to three digits before or after averaging; one unit of the last is left."""
    sheet = json.loads((facts / "paper_tables.json").read_text())[PRINTED[table]]["rows"]
    scores = published_scores(table)
    ks = sorted(scores[next(iter(scores))]["aime"])
    rows = evaluation_table("t", scores).rows
    for row, (method, printed) in zip(rows, sheet.items(), strict=True):
        assert str(row.cells[0]).replace("-", "_") == method
        for cell, k in zip(row.cells[-2:], ks, strict=True):
            assert isinstance(cell, Estimate)
            assert cell.value == pytest.approx(printed["avg"][f"pass@{k}"], abs=1.01e-3)


def test_the_other_tables_agree_with_the_sheet(facts):
    sheet = json.loads((facts / "paper_tables.json").read_text())
    assert published()["sweep"]["rows"] == sheet["table6_tau_rho"]["rows"]
    assert published()["sweep"]["chosen"] == [1.2, 0.3]
    assert len(published()["patterns"]["rows"]) == len(sheet["table2_patterns"]["rows"])
    assert published()["gradient_norm"]["grpo"] == sheet["table5_grad_norm"]["rows"]["grpo"]


PROBLEMS = {"aime": 60, "amc23": 40, "math500-l5": 134}
ROUNDING = 0.5e-3 * (1 + 1e-9)


def sums_of(seeds):
    """(sum, sum of squares) of every choice of so many whole numbers from -16 to 16."""
    found = {(0, 0)}
    for _ in range(seeds):
        found = {(a + d, q + d * d) for a, q in found for d in range(-16, 17) if q + d * d <= 400}
    return found


def fits(mean, sd, problems, seeds, sums):
    """Whether so many numbers of right problems have this mean and deviation (n - 1), as rounded.

    With d the numbers less a whole one near their mean: mean = sum(d) / seeds, and the squares
    about it add up to sum(d^2) - sum(d)^2 / seeds = sd^2 (seeds - 1).
    """
    near = round(mean * problems)
    low, high = (
        max(end, 0) ** 2 * problems**2 * (seeds - 1) for end in (sd - ROUNDING, sd + ROUNDING)
    )
    return any(
        abs((near + a / seeds) / problems - mean) <= ROUNDING
        and low - 1e-9 <= q - a * a / seeds <= high + 1e-9
        for a, q in sums
    )


@pytest.mark.parametrize(("seeds", "all_fit"), [(4, False), (5, True), (6, False)])
def test_the_papers_numbers_are_of_five_evaluations_of_whole_problems(seeds, all_fit):
    printed = [
        (mean, sd, PROBLEMS[benchmark])
        for table in ("table1", "table3")
        for by_benchmark in published()["evaluation"][table]["rows"].values()
        for benchmark, by_k in by_benchmark.items()
        for mean, sd in by_k.values()
    ]
    assert len(printed) == 66
    sums = sums_of(seeds)
    assert all(fits(*one, seeds, sums) for one in printed) is all_fit
    assert (seeds == PAPERS_SEEDS) is all_fit
