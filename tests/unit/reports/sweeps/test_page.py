"""The page of a sweep: every picture, table and command, in one file."""

import json
import re
from dataclasses import replace

from sweep_cells import BOTH, GRID, MEMORY, at, done

from sage_cli.reports.page import to_html
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.sweeps.data import LearningCurve, SweepTrial
from sage_cli.reports.sweeps.document import sweep_document
from sage_cli.reports.sweeps.page import sweep_page
from sage_cli.reports.sweeps.plain import from_data
from sage_cli.store.json_files import json_text

CURVE = LearningCurve("reward", ((1, 0.25), (2, 0.5)))
TRIALS = [
    replace(done(at(GRID, 0.8, 0.1), 1, objectives=BOTH), curve=CURVE),
    done(at(GRID, 1.2, 0.1), 2, 1.0, objectives=BOTH),
    replace(SweepTrial(at(GRID, 0.8, 0.3), "failed", failure=MEMORY), curve=CURVE),
]


def shown(folder):
    document = sweep_document(GRID, BOTH, TRIALS, Provenance())
    report = document.write(folder)
    result = from_data(json.loads(json_text(document.data)))
    page = sweep_page(report, result, "tau-rho-1", {0: "sage rl --guide branch <b>"})
    return result, page, to_html(page)


def test_a_page_has_every_picture_and_table_and_is_whole_in_itself(tmp_path):
    _, page, html = shown(tmp_path)
    assert page.file == tmp_path / "sweep.html"
    assert html.count("<svg ") == 4  # heat map, parallel, front, learning
    headings = re.findall(r'<h3 id="section-[^"]*">([^<]*)</h3>', html)
    assert headings == [
        "Trials", "Heat map", "Parallel coordinates", "Pareto front",
        "Learning curves", "The best trial",
        "Failed trials", "Commands",
    ]  # fmt: skip
    assert "OutOfMemoryError: 2 GiB more" in html
    assert "2 done, 1 failed" in html
    assert "sage rl --guide branch &lt;b&gt;" in html
    assert not re.search(r'(?:src|href)="https?:', html)


def test_a_curve_survives_the_stored_report(tmp_path):
    result, _, _ = shown(tmp_path)
    assert result.trials[0].curve == CURVE
    assert result.trials[1].curve is None
    assert result.trials[2].curve == CURVE


def test_a_trial_without_a_parameter_has_a_gap_and_no_error(tmp_path):
    trials = [done({"guide.tau": 0.8}, 1), done(at(GRID, 1.2, 0.3), 2)]
    report = sweep_document(GRID[::-1], BOTH[:1], trials, Provenance()).write(tmp_path)
    picture = (tmp_path / "parallel.svg").read_text()
    assert (tmp_path / "parallel.svg") in report.files
    assert all(f"<!-- {words} -->" in picture for words in ("τ", "ρ", "pass@1", "best"))
