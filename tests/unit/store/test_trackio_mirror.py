"""The mirror in trackio: read back from trackio's own database."""

import pytest

from sage_cli.settings.tracking import TrackingSection
from sage_cli.store.evaluations import record_evaluation
from sage_cli.store.mirrors import mirrors_of

TRACKING = TrackingSection(wandb="off", trackio=True)


@pytest.fixture(scope="module")
def trackio(tmp_path_factory):
    """The package, which reads as it is imported where its database lies."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRACKIO_DIR", str(tmp_path_factory.mktemp("trackio")))
        yield pytest.importorskip("trackio")


@pytest.fixture
def only_run(trackio, run):
    """Return the only run of the project, and what it logged."""
    if any(earlier.name == run.id for earlier in _runs(trackio)):
        trackio.delete_project("sage", force=True)

    def read():
        (found,) = _runs(trackio)
        from trackio.sqlite_storage import SQLiteStorage

        rows = SQLiteStorage.get_logs("sage", found.name, run_id=found.id)
        return found, [{k: v for k, v in row.items() if k != "timestamp"} for row in rows]

    return read


def _runs(trackio):
    try:
        return list(trackio.Api().runs("sage"))
    except ValueError:  # no project
        return []


def test_a_run_has_every_step_once_after_a_resumption(run, train, resume_at, only_run):
    train(run, (1, 2, 3), TRACKING)
    resume_at(run, 2)
    train(run, (3, 4), TRACKING)
    found, rows = only_run()
    assert found.name == run.id
    assert found.config["rl"] == {"a": 1}
    assert (found.config["kind"], found.config["_Group"]) == ("rl", "tau-rho-1")
    assert [(row["step"], row["loss"]) for row in rows] == [(1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4)]
    assert all("clip_ratio" not in row for row in rows)  # null in metrics.jsonl
    texts = {row["step"]: row["rollouts"]["_value"] for row in rows if "rollouts" in row}
    assert list(texts) == [1, 3]
    assert texts[1] == "**right**, reward 1, gold 12\n\n    1*3=?|12|\n    so 12"


def test_evaluations_are_values_at_the_last_step_and_nothing_is_printed(
    run, train, trackio, only_run, capsys
):
    train(run, (1, 2), TRACKING)
    record_evaluation(run, "aime", {"pass@1": 0.5, "grading": "strict"})
    for mirror in mirrors_of(TRACKING, run):
        mirror.show_evaluations()
    _, rows = only_run()
    assert rows[-1] == {"step": 2, "eval/aime/pass@1": 0.5}
    assert capsys.readouterr().out == ""
    assert trackio.context_vars.current_run.get() is None  # or it would be printed about at exit


def test_whatever_trackio_does_training_goes_on(run, train, trackio, caplog):
    # a name that trackio keeps for itself
    (run.folder / "config.json").write_text('{"tracking": {"project": "registry-a", "group": ""}}')
    train(run, (1, 2), TRACKING)
    assert [record["step"] for record in run.metrics.read()] == [1, 2]
    assert "trackio stopped mirroring" in caplog.text
