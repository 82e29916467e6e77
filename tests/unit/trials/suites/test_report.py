"""What a suite's plan and page say of what is run."""

from unittest.mock import Mock, call

import pytest
from sweep_cells import PASS_1, at, done, sweep_document

from sage_cli.errors import DataError
from sage_cli.progress import Silent
from sage_cli.reports.document import Document
from sage_cli.reports.provenance import Provenance
from sage_cli.trials.suites import report as suite
from sage_cli.trials.suites.dry_run import plan_suite
from sage_cli.trials.suites.plan import Overrides, prepare_suite
from sage_cli.trials.suites.report import report_suite
from sage_cli.trials.suites.sweeps import sweeps_of
from sage_cli.trials.sweep.result import Axis
from sage_cli.view.page_file import write_page

AXES = (Axis("tau", "guide.tau", (0.8, 1.2, 2.0)), Axis("rho", "guide.rho", (0.1, 0.3, 0.5)))
PRINTED = "Published: table6, Qwen2.5-Math-7B-Base"


@pytest.fixture
def overrides(tmp_path):
    return Overrides(("tiny",), (), None, {"run": {"root": str(tmp_path / "runs")}})


def sweep_folder(overrides):
    (sweep,) = sweeps_of(prepare_suite("table6", overrides))
    return sweep.folder


def sections(page):
    (chapter,) = page.report.document.data["chapters"]
    return chapter["sections"]


def noted(name, root, word, *sets):
    """The notes of a plan in which a word is."""
    notes = plan_suite(name, Overrides(("tiny",), sets, 1, {"run": {"root": root}}))["notes"]
    return [note for note in notes if word in note]


def test_what_a_reader_of_a_plan_is_told_beside_its_tasks(tmp_path):
    assert noted("figure6", tmp_path, "share their runs") == [
        "figure6: under these settings base-3b equals base-1.5b, so they share their runs",
        "figure6: under these settings grpo-3b equals grpo-1.5b, so they share their runs",
        "figure6: under these settings branch-3b equals branch-1.5b, so they share their runs",
    ]
    assert noted("table1", tmp_path, "share their runs") == []
    assert noted("table1", tmp_path, "the baseline of") == [
        "table1: grpo is the baseline of grpo-random, grpo-token, grpo-branch"
    ]
    # tiny draws the 256 samples that the table asks for
    assert noted("table1", tmp_path, "are cut at") == []
    (note,) = noted("table1", tmp_path, "are cut at", "evaluation.samples=64")
    assert note.startswith("table1: the suite's values of k (1,256) are cut at 64, because")


@pytest.mark.parametrize("section", ["rl", "sft"])
def test_a_row_that_nothing_can_be_trained_on_is_named(tmp_path, section):
    rows = '{"question": "1+1=?", "gold": "2", "working": "1+1=2"}\n'
    (tmp_path / "own.jsonl").write_text(rows + '{"question": "3"}\n')
    sets = (f"data.{section}.name={tmp_path}/own.jsonl", "evaluation.benchmark=arithmetic")
    with pytest.raises(DataError, match=r"own\.jsonl, line 2"):
        noted("table1", tmp_path, "", *sets)


def test_the_page_of_table_6_shows_its_sweep_beside_the_printed_one(overrides):
    trials = [
        done(at(AXES, tau, rho), 3 * i + j)
        for i, tau in enumerate(AXES[0].values)
        for j, rho in enumerate(AXES[1].values)
    ]
    sweep_document(AXES, (PASS_1,), trials, Provenance()).write(sweep_folder(overrides))
    page = report_suite("table6", overrides, Silent(), write_page)
    found = sections(page)
    assert len(found["sweep"]["trials"]) == 9
    assert found["published"]["rows"][4]["pass@1"] == 0.433  # the paper's choice
    html = page.page.read_text(encoding="utf-8")
    for said in ("sweep over tau, rho", PRINTED, "the paper takes tau 1.2, rho 0.3"):
        assert said in html
    assert '"sweep-heatmap":"\\u003c?xml' in html  # the picture itself
    assert (page.page.parent / "sweep-heatmap.png").is_file()


def test_analyses_are_told_what_method_and_training_a_run_is(tmp_path, monkeypatch):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "title: mine\nmeasured: false\nmethods: {base: base, grpo: grpo, again: grpo}\n"
        "analyses: [{name: dynamics, methods: [grpo, again]}]\n"
    )
    overrides = Overrides(("tiny",), (), 2, {"run": {"root": str(tmp_path / "runs")}})
    replicates = prepare_suite(str(file), overrides).parts[0].replicates
    base, first, second, *_ = (one.policy for one in replicates)
    for policy in (base, first):
        with policy.run.recording({}, kind="rl"):
            pass
    heard = {}

    def answer(asked, progress):
        heard.update(names=asked.names, labels=asked.labels)
        return Document("dynamics", "", {}), tmp_path

    monkeypatch.setattr(suite, "answer", answer)
    report_suite(str(file), overrides, Silent(), write_page)
    # the second training isn't there; `again` leads to the same runs, and its label comes later
    assert set(heard["names"]) == {first.run.id}
    assert heard["labels"] == {
        base.run.id: "initial policy",
        first.run.id: "grpo, seed 1",
        second.run.id: "grpo, seed 2",
    }


def test_without_an_outcome_or_with_a_torn_one_the_page_says_so(overrides):
    progress = Mock(wraps=Silent())
    page = report_suite("table6", overrides, progress, write_page)
    assert progress.doing.call_args_list == [
        call("planning table6"),
        call("counting what is stored of table6"),
        call("computing curves and differences"),
        call("drawing and writing the report"),
        call("writing the page"),
    ]
    assert sections(page)["sweep"]["notes"] == ["the sweep has not ended yet"]
    assert PRINTED in page.page.read_text(encoding="utf-8")
    folder = sweep_folder(overrides)
    folder.mkdir(parents=True)
    (folder / "sweep.json").write_text('{"trials": [')
    (note,) = sections(report_suite("table6", overrides, Silent(), write_page))["sweep"]["notes"]
    assert "sweep.json is corrupt or was edited" in note
