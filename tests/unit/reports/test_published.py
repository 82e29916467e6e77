from __future__ import annotations

import json
from pathlib import Path

import pytest

from sage_cli.errors import ConfigurationError
from sage_cli.reports.evaluation import evaluation_table
from sage_cli.reports.published import evaluation_tables, published, published_scores
from sage_cli.reports.table import Measure

PRINTED = {
    "table1": "table1_main",
    "table3": "table3_algorithms",
    "table4": "table4_long_reasoning",
}


def test_table_1_by_eye() -> None:
    scores = published_scores("table1")
    assert str(scores["grpo-branch"]["aime"][256]) == "0.427 ± 0.035"
    assert str(scores["base"]["math500-l5"][1]) == "0.294 ± 0.018"
    assert len(scores) == 7


def test_every_table_names_its_model_and_an_unknown_one_is_refused() -> None:
    assert set(evaluation_tables()) == {"table1", "table3", "table4", "table9"}
    assert evaluation_tables()["table4"] == "DeepSeek-R1-Distill-Qwen-7B"
    with pytest.raises(ConfigurationError, match="'table2'"):
        published_scores("table2")


@pytest.mark.parametrize("table", PRINTED)
def test_our_average_column_is_the_printed_one(table: str, facts: Path) -> None:
    """The paper rounds to three digits before or after averaging; one unit of the last is left."""
    sheet = json.loads((facts / "paper_tables.json").read_text())[PRINTED[table]]["rows"]
    scores = published_scores(table)
    ks = sorted(scores[next(iter(scores))]["aime"])
    rows = evaluation_table("t", scores).rows
    for row, (method, printed) in zip(rows, sheet.items(), strict=True):
        assert str(row.cells[0]).replace("-", "_") == method
        for cell, k in zip(row.cells[-2:], ks, strict=True):
            assert isinstance(cell, Measure)
            assert cell.value == pytest.approx(printed["avg"][f"pass@{k}"], abs=1.01e-3)


def test_the_other_tables_agree_with_the_sheet(facts: Path) -> None:
    sheet = json.loads((facts / "paper_tables.json").read_text())
    assert published()["sweep"]["rows"] == sheet["table6_tau_rho"]["rows"]
    assert published()["sweep"]["chosen"] == [1.2, 0.3]
    assert len(published()["patterns"]["rows"]) == len(sheet["table2_patterns"]["rows"])
    assert published()["gradient_norm"]["grpo"] == sheet["table5_grad_norm"]["rows"]["grpo"]
