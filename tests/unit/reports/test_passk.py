"""The report of pass@k curves."""

import json
from dataclasses import replace

import numpy as np
import pytest

from sage_cli.metrics import Counts, curve
from sage_cli.metrics.counts import SeedCounts
from sage_cli.reports.grades import grade_notes
from sage_cli.reports.passk import Line, passk_document, powers_of_two
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.table_files import to_csv

COUNTS = Counts(("p0", "p1"), np.array([4, 4]), np.array([1, 4]))
KS = (1, 2, 3, 4)
MEASURED = SeedCounts("base", "aime", 7, COUNTS, {"right": 5, "wrong": 3}, 2, "abc", 1)
LINES = [
    Line("base", "aime", curve(COUNTS, KS), (MEASURED,)),
    Line("rl", "aime", curve(COUNTS, KS)),
    Line("rl", "amc23", curve(COUNTS, KS)),
]


def test_of_a_hundred_thousand_ks_the_powers_of_two_are_found_in_linear_time():
    assert powers_of_two(range(1, 100_001)) == [2**power for power in range(17)]  # 2^16 = 65,536


def test_people_read_the_powers_of_two_with_a_column_per_policy():
    document = passk_document(LINES, Provenance())
    assert document.title == "pass@k on aime, amc23"
    aime, amc23 = document.tables
    assert [(column.group, column.name) for column in aime.columns] == [
        ("", "k"),
        ("base", "pass@k"),
        ("rl", "pass@k"),
    ]
    assert [row.cells[0] for row in aime.rows] == [1, 2, 4]
    # pass@1 is (1/4 + 1) / 2, pass@2 (1/2 + 1) / 2, pass@4 is 1
    assert [str(row.cells[1])[:7] for row in aime.rows] == ["0.625 [", "0.750 [", "1.000 ["]
    assert len(amc23.columns) == 2
    assert aime.notes == ("pointwise 95% bands over 2 problems",)
    assert document.notes == (
        "base on aime, evaluation seed 7: 5 correct, 3 wrong; of all, 2 are truncated, of which 1 "
        "is correct (20% of the correct ones)",
        "do not quote pass@k for k above 2, which is half of n",
    )
    assert len(passk_document(LINES, Provenance(), shown=(1, 2)).notes) == 1


def test_grades_are_in_one_order_and_powers_of_two_are_shown():
    statuses = {"wrong": 36371, "unparseable": 308, "error": 2, "right": 14521}
    measured = SeedCounts("rl", "aime", 0, COUNTS, statuses, 1158, "abc")
    assert grade_notes([measured]) == (
        "rl on aime, evaluation seed 0: 14,521 correct, 36,371 wrong, 308 unparseable, 2 error; "
        "of all, 1,158 are truncated",
    )
    (note,) = grade_notes([replace(measured, right_truncated=14520)])  # 99.993%
    assert note.endswith("of which 14,520 are correct (100% of the correct ones)")
    assert powers_of_two((1, 2, 3, 4, 5, 8)) == [1, 2, 4, 8]
    assert powers_of_two((3, 5)) == [3, 5]
    assert powers_of_two((1, 10, 100)) == [1, 10, 100]


def test_programs_get_every_k_and_every_count_whatever_is_shown():
    document = passk_document(LINES, Provenance())
    assert (document.data["k"], document.data["confidence"]) == ([1, 2, 3, 4], 0.95)
    first = document.data["curves"][0]
    assert first["pass@k"] == pytest.approx([0.625, 0.75, 0.875, 1.0], abs=1e-12)
    assert first["seeds"] == [
        {
            "seed": 7,
            "sample_set": "abc",
            "statuses": {"right": 5, "wrong": 3},
            "truncated": 2,
            "right_truncated": 1,
            "problems": [{"problem": "p0", "n": 4, "c": 1}, {"problem": "p1", "n": 4, "c": 4}],
        },
    ]
    heads, *rows = to_csv(document.sheets["passk"]).splitlines()
    assert heads == "policy,benchmark,k,pass@k,low,high"
    assert len(rows) == 12
    assert rows[1].startswith("base,aime,2,0.75,")
    document = passk_document(LINES, Provenance(), (1, 4))
    assert [row.cells[0] for row in document.tables[0].rows] == [1, 4]
    assert document.data["k"] == [1, 2, 3, 4]
    assert len(to_csv(document.sheets["passk"]).splitlines()) == 13


def test_one_problem_has_no_band(tmp_path):
    alone = Counts(("p0",), np.array([4]), np.array([1]))
    report = passk_document([Line("base", "aime", curve(alone, (1,)))], Provenance()).write(
        tmp_path
    )
    held = json.loads((tmp_path / "passk.json").read_text(), parse_constant=pytest.fail)
    assert held["curves"][0]["low"] == [None]
    assert (tmp_path / "passk.csv").read_text().splitlines()[1] == "base,aime,1,0.25,,"
    assert (tmp_path / "passk.png").read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in report.files} == {
        "passk.json",
        "passk.md",
        "passk.csv",
        "passk.tex",
        "passk.png",
        "passk.svg",
    }
