"""What an export holds: the selection, its bound on size, what it says of the rest."""

import json

from shown_runs import stored_run

from sage_cli.store.json_files import compact_json
from sage_cli.view.export import held as holding
from sage_cli.view.export.held import Selection, contents
from sage_cli.view.export.page_file import in_script
from sage_cli.view.export.selection import selection_of, with_guide

BASE, BRANCH, PLAIN = "sft-arithmetic-aaaaaaaa", "rl-dapo-branch-bbbbbbbb", "rl-dapo-cccccccc"


def test_a_run_comes_with_those_that_it_grew_from(shown):
    selection = selection_of(shown, "run", BRANCH)
    assert list(selection.runs) == [BASE, BRANCH]
    assert selection.begin == f"#/run?run={BRANCH}"


def test_a_sweep_and_a_suite_come_with_their_runs(shown):
    sweep = selection_of(shown, "sweep", "tau-rho-12345678")
    assert set(sweep.runs) == {BASE, BRANCH, PLAIN}
    assert list(sweep.sweeps) == ["tau-rho-12345678"]
    suite = selection_of(shown, "suite", "demo-12345678")
    assert list(suite.runs) == [BASE, BRANCH]
    assert list(suite.suites) == ["demo-12345678"]


def test_a_token_report_comes_with_its_run(shown):
    held = contents(shown, Selection([BASE, BRANCH]), 2**24)
    assert held["answers"][f"guide?run={BRANCH}"]["report"]["step"] == 2
    assert f"guide?run={BASE}" not in held["answers"]
    view = {"policy": "some/model", "report": {}}
    alone = with_guide(shown, "some/model", view)  # a model that no run here made
    assert alone.begin == "#/guide?run=some%2Fmodel"
    held = contents(shown, alone, 0)
    assert held["answers"]["guide?run=some%2Fmodel"] == view
    assert held["answers"]["runs"]["runs"] == []


def test_without_a_name_everything(shown):
    selection = selection_of(shown, None, "")
    assert set(selection.runs) == {BASE, BRANCH, PLAIN, "rl-torn-dddddddd"}
    assert selection.begin == "#/runs"


def test_all_samples_if_there_is_room(shown):
    held = contents(shown, Selection([BASE, PLAIN]), 2**24)
    assert [len(one["samples"]) for one in held["policies"]] == [48, 48]
    assert [row["values"]["id"] for row in held["answers"]["runs"]["runs"]] == [BASE, PLAIN]
    assert held["records"][BASE]["values"]["reward"]
    assert [(one["a"], one["b"]) for one in held["differences"]] == [(PLAIN, BASE)]
    assert held["left_out"] == []
    assert "96 of 96 samples" in held["said"]


def test_samples_take_what_is_left_of_the_bound(shown):
    whole = len(compact_json(contents(shown, Selection([BASE, PLAIN]), 2**24)))
    limit = whole - 6_000
    held = contents(shown, Selection([BASE, PLAIN]), limit)
    assert len(compact_json(held)) <= limit + 2_000  # besides what is counted: keys and the note
    there = [len(one["samples"]) for one in held["policies"]]
    assert 0 < min(there) <= max(there) < 48
    assert f"{sum(there)} of 96 samples" in held["said"]
    first = held["policies"][0]["samples"]
    assert {row["index"] for row in first} < set(range(8))  # the first ones of each problem


def test_samples_that_grow_longer_keep_to_the_bound(tmp_path):
    # by the first sample of each problem, hundreds would fit
    run = stored_run(
        tmp_path, "one", "a", lambda _, at: ("x" * (5_000 if at else 1), "right"), kind="sft"
    )
    limit = len(compact_json(contents(tmp_path, Selection([run.id]), 2**24))) - 60_000
    held = contents(tmp_path, Selection([run.id]), limit)
    assert 6 <= len(held["policies"][0]["samples"]) < 48
    assert len(compact_json(held)) <= limit + 2_000


def test_what_does_not_fit_is_named(shown):
    held = contents(shown, Selection([BASE, PLAIN]), 3_000)
    assert any(line.startswith(f"run {PLAIN}: no room") for line in held["left_out"])
    assert "Left out" in held["said"]
    json.loads(compact_json(held))


def test_the_bound_counts_bytes_as_the_page_has_them(tmp_path):
    # in the page "<" is \\u003c, six bytes, and "é" has two: eleven for three characters
    run = stored_run(tmp_path, "one", "a", lambda _, at: ("<é" * 500, "right"), kind="sft")
    assert len(in_script("<é").encode()) == 2 + 6 + 2
    whole = len(in_script(contents(tmp_path, Selection([run.id]), 2**24)).encode())
    limit = whole - 100_000
    held = contents(tmp_path, Selection([run.id]), limit)
    assert 6 <= len(held["policies"][0]["samples"]) < 48
    assert len(in_script(held).encode()) <= limit + 2_000


def test_records_curves_and_differences_without_room_are_named(shown, monkeypatch):
    ids = [BASE, PLAIN]
    whole = contents(shown, Selection(ids), 2**24)
    monkeypatch.setattr(holding, "MOST_PAIRS", 0)
    assert contents(shown, Selection(ids), 2**24)["left_out"] == ["1 of 1 paired differences"]
    monkeypatch.setattr(holding, "MOST_PAIRS", 24)
    sizes = (whole["records"][BASE], whole["records"][PLAIN], whole["differences"][0])
    told = set()
    for limit in range(2_000, 40_000, max(1, min(len(in_script(one)) for one in sizes) // 2)):
        held = contents(shown, Selection(ids), limit)
        lines = held["left_out"]
        told.update(lines)
        for id_ in ids:
            absent = id_ not in held["records"]
            assert absent == any(f"{what} {id_}: no room" in lines for what in ("run", "records"))
            absent = id_ not in [one["policy"] for one in held["policies"]]
            assert absent == (f"samples and curves of {id_}: no room" in lines)
        absent = not held["differences"]
        assert absent == (f"the difference of {PLAIN} and {BASE}: no room" in lines)
    assert f"records {PLAIN}: no room" in told
    assert f"samples and curves of {PLAIN}: no room" in told
    assert f"the difference of {PLAIN} and {BASE}: no room" in told
