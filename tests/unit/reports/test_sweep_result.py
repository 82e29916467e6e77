"""What a sweep's report shows of its trials."""

from __future__ import annotations

from dataclasses import replace

from sweep_cells import GRID, PASS_1, at, done

from sage_cli.reports.provenance import Provenance
from sage_cli.reports.sweep_report import sweep_document
from sage_cli.reports.sweep_result import SweepTrial, from_data, sweep_tables
from sage_cli.store.files import read_object

POINTS = ((0.8, 0.1), (0.8, 0.3), (1.2, 0.1))


def test_a_report_that_is_read_again_without_counts_has_the_same_table(tmp_path) -> None:
    trials = [
        SweepTrial(at(GRID, 1.2, 0.3), "pruned", pruned="by asha"),
        *(done(at(GRID, *point), place, 0.4 * place) for place, point in enumerate(POINTS)),
    ]
    found = sweep_document(GRID, (PASS_1,), trials, Provenance(), base=done({}, 9, -1.0))
    replace(found, figures=()).write(tmp_path)
    again = from_data(read_object(tmp_path / "sweep.json", ""))
    assert sweep_tables(again) == found.tables
