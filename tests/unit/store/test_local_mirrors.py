"""The TensorBoard mirror: read back as TensorBoard reads it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from mirrored_run import resume_at, train

from sage_cli.settings.sections.records import TrackingSection
from sage_cli.store.mirrors import mirrors_of
from sage_cli.store.run import record_evaluation

accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
TRACKING = TrackingSection(wandb="off", tensorboard=True)


def events(run):
    return accumulator.EventAccumulator(str(run.folder / "tensorboard")).Reload()


def scalars(run, name):
    return [(event.step, pytest.approx(event.value)) for event in events(run).Scalars(name)]


def texts(run):
    found = events(run).Tensors("rollouts/text_summary")
    return {event.step: event.tensor_proto.string_val[0].decode() for event in found}


def test_one_folder_holds_every_step_after_a_resumption(run):
    train(run, (1, 2, 3), TRACKING)
    resume_at(run, 2)
    train(run, (3, 4), TRACKING)
    assert scalars(run, "loss") == [(1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4)]
    assert list(texts(run)) == [1, 3]
    assert "clip_ratio" not in events(run).Tags()["scalars"]  # null in metrics.jsonl


def test_a_rollout_stays_as_it_is_below_its_grade(run):
    train(run, (1,), TRACKING)
    assert texts(run)[1] == (
        "**right**, reward 1, gold 12\n\n    1*3=?|12|\n    so 12"
    )  # Markdown takes nothing of an indented block as a table


def test_evaluations_are_scalars_at_the_last_step(run):
    train(run, (1, 2), TRACKING)
    record_evaluation(run, "aime", {"pass@1": 0.5, "grading": "strict"})
    for mirror in mirrors_of(TRACKING, run):
        mirror.show_evaluations()
    assert scalars(run, "eval/aime/pass@1") == [(2, 0.5)]
    assert "eval/aime/grading" not in events(run).Tags()["scalars"]


def test_whatever_tensorboard_does_training_goes_on(run, monkeypatch, caplog):
    (run.folder / "tensorboard").write_text("a file where the folder should be")
    train(run, (1, 2), TRACKING)
    assert [record["step"] for record in run.metrics.read()] == [1, 2]
    assert "TensorBoard stopped mirroring" in caplog.text


storage = pytest.importorskip("trackio.sqlite_storage")
TRACKIO = TrackingSection(wandb="off", trackio=True)


@pytest.fixture
def database(tmp_path, monkeypatch):
    """The file of the project `sage` in a trackio folder of the test's own."""
    monkeypatch.setattr(storage, "TRACKIO_DIR", tmp_path / "trackio")
    return tmp_path / "trackio" / "sage.db"


def rows(database, table):
    with closing(sqlite3.connect(database)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY id")]


def metrics(database):
    return [(row["step"], json.loads(row["metrics"])) for row in rows(database, "metrics")]


def test_a_resumed_run_has_every_step_once(run, database):
    train(run, (1, 2, 3), TRACKIO)
    resume_at(run, 2)
    train(run, (3, 4), TRACKIO)
    found = metrics(database)
    assert [(step, values["loss"]) for step, values in found] == [
        (1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4),
    ]  # fmt: skip
    assert [step for step, values in found if "rollouts" in values] == [1, 3]
    assert {row["run_name"] for row in rows(database, "metrics")} == {run.id}


def test_completions_are_a_table(run, database):
    train(run, (1,), TRACKIO)
    ((_, values),) = metrics(database)
    assert values["rollouts"] == {
        "_type": "trackio.table",
        "_value": [
            {
                "prompt": "1*3=?", "completion": "|12|\nso 12", "gold": "12",
                "grade": "right", "reward": 1.0,
            }
        ],
    }  # fmt: skip


def test_trackio_reads_the_run_with_its_configuration_and_group(run, database):
    from trackio import Api

    train(run, (1, 2), TRACKIO)
    (shown,) = Api().runs("sage")
    assert shown.name == run.id
    assert shown.config["rl"] == {"a": 1}
    assert shown.config["_Group"] == "tau-rho-1"


def test_evaluations_are_metrics_at_the_last_step(run, database):
    train(run, (1, 2), TRACKIO)
    record_evaluation(run, "aime", {"pass@1": 0.5, "grading": "strict"})
    for mirror in mirrors_of(TRACKIO, run):
        mirror.show_evaluations()
    step, values = metrics(database)[-1]
    assert (step, values) == (2, {"eval/aime/pass@1": 0.5})


def test_other_runs_of_the_project_stay(run, database):
    storage.SQLiteStorage.bulk_log("sage", "mine", [{"loss": 1.0}], steps=[7], run_id="mine")
    train(run, (1,), TRACKIO)
    train(run, (2,), TRACKIO)
    assert [row["run_name"] for row in rows(database, "metrics")] == ["mine", run.id, run.id]


def test_a_space_of_the_surroundings_gets_nothing(run, database, monkeypatch):
    monkeypatch.setenv("TRACKIO_SPACE_ID", "somebody/space")
    monkeypatch.setenv("TRACKIO_SERVER_URL", "http://127.0.0.1:9")
    asked = []
    monkeypatch.setattr("socket.socket.connect", lambda _, address: asked.append(address))
    train(run, (1,), TRACKIO)
    assert asked == []
    assert [row["space_id"] for row in rows(database, "metrics")] == [None]


def test_whatever_trackio_does_training_goes_on(run, database, caplog):
    database.parent.write_text("a file where the folder should be")
    train(run, (1, 2), TRACKIO)
    assert [record["step"] for record in run.metrics.read()] == [1, 2]
    assert "trackio stopped mirroring" in caplog.text
