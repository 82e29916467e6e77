from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sage_cli.metrics import Counts, Crossing, Side, compare_sides, find_crossing
from sage_cli.reports.comparison import (
    comparison_document,
    comparison_json,
    comparison_table,
    crossing_note,
)
from sage_cli.reports.provenance import Provenance

KS = (1, 2, 4)


def counts(c_P: list[int]) -> Counts:
    return Counts(tuple(f"p{i}" for i in range(len(c_P))), np.full(len(c_P), 4), np.array(c_P))


def test_table_and_notes() -> None:
    sides = Side("grpo", ([counts([4, 0])],)), Side("base", ([counts([1, 1])],))
    table = comparison_table("aime", compare_sides(*sides, KS), (1, 4))
    assert table.title == "grpo against base on aime"
    cells = [[str(cell) for cell in row.cells] for row in table.rows]
    assert [row[:3] for row in cells] == [["1", "0.500", "0.250"], ["4", "0.500", "1.000"]]
    assert cells[0][3].startswith("+0.250 [")
    # gaps of 3/4 and -1/4: half of the resamples hold one problem alone and have no variance
    assert float(cells[0][4]) == pytest.approx(0.5, abs=0.05)
    assert "95 % intervals over 2 problems" in table.notes[0]
    assert table.notes[1].startswith("no crossing established: ")
    assert table.notes[2].startswith("solved by grpo alone: 0 problems, ")
    assert table.notes[3].startswith("solved by base alone: 1, ")
    assert table.notes[4].startswith("solved by both: 1; by neither: 0 ")


def test_curves_that_never_cross_say_so() -> None:
    crossing = find_crossing(counts([1] * 9), counts([3] * 9), KS[:2])
    assert crossing_note(("a", "b"), crossing, KS[:2]) == (
        "no crossing established: b is not below a at any k "
        "(95 % interval beyond 2 to beyond 2; 0% of resamples cross)"
    )
    equal = find_crossing(counts([1] * 9), counts([1] * 9), KS)
    assert "no crossing" in crossing_note(("a", "b"), equal, KS)


def test_only_an_established_crossing_is_told_and_the_data_has_every_estimate() -> None:
    found = Crossing("a", 4.04, 2.9, 6.1, 1.0, 0.95, established=True)
    span = "(95 % interval 2.9 to 6.1; 100% of resamples cross)"
    assert crossing_note(("rl", "sft"), found, KS) == f"rl leads up to k = 4.04, sft beyond {span}"
    assert crossing_note(("rl", "sft"), replace(found, established=False), KS) == (
        f"no crossing established: not sure that one leads before and the other after it {span}"
    )
    sides = Side("grpo", ([counts([4, 0])],)), Side("base", ([counts([1, 1])],))
    written = comparison_json(compare_sides(*sides, KS))["crossing"]
    assert (written["k"], written["established"]) == (pytest.approx(2, abs=1e-12), False)


def test_people_read_the_powers_of_two_and_programs_every_k() -> None:
    sides = Side("grpo", ([counts([4, 0])],)), Side("base", ([counts([1, 1])],))
    one = compare_sides(*sides, (1, 2, 3, 4))
    document = comparison_document({"aime": one, "data/mine.jsonl": one}, Provenance())
    assert document.title == "grpo against base"
    titles = [table.title for table in document.tables]
    assert titles == [
        "grpo against base on aime", "sources of uncertainty on aime",
        "grpo against base on data/mine.jsonl", "sources of uncertainty on data/mine.jsonl",
    ]  # fmt: skip
    assert [row.cells[0] for row in document.tables[0].rows] == [1, 2, 4]
    assert list(document.sheets) == ["compare-aime", "compare-mine"]
    assert [row.cells[0] for row in document.sheets["compare-aime"].rows] == [1, 2, 3, 4]
    assert document.data["comparisons"]["aime"]["k"] == [1, 2, 3, 4]
    assert [figure.files for figure in document.figures] == [("compare.png", "compare.svg")]
