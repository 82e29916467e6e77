"""The TensorBoard mirror: read back as TensorBoard reads it."""

import pytest

from sage_cli.settings.tracking import TrackingSection
from sage_cli.store.evaluations import record_evaluation
from sage_cli.store.mirrors import mirrors_of

accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
TRACKING = TrackingSection(wandb="off", tensorboard=True)


def events(run):
    return accumulator.EventAccumulator(str(run.folder / "tensorboard")).Reload()


def scalars(run, name):
    return [(event.step, pytest.approx(event.value)) for event in events(run).Scalars(name)]


def texts(run):
    found = events(run).Tensors("rollouts/text_summary")
    return {event.step: event.tensor_proto.string_val[0].decode() for event in found}


def test_one_folder_holds_every_step_after_a_resumption(run, train, resume_at):
    train(run, (1, 2, 3), TRACKING)
    resume_at(run, 2)
    train(run, (3, 4), TRACKING)
    assert scalars(run, "loss") == [(1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4)]
    assert list(texts(run)) == [1, 3]
    assert "clip_ratio" not in events(run).Tags()["scalars"]  # null in metrics.jsonl


def test_evaluations_are_scalars_at_the_last_step_beside_rollouts_as_they_are(run, train):
    train(run, (1, 2), TRACKING)
    record_evaluation(run, "aime", {"pass@1": 0.5, "grading": "strict"})
    # Markdown takes nothing of an indented block as a table
    assert texts(run)[1] == "**right**, reward 1, gold 12\n\n    1*3=?|12|\n    so 12"
    for mirror in mirrors_of(TRACKING, run):
        mirror.show_evaluations()
    assert scalars(run, "eval/aime/pass@1") == [(2, 0.5)]
    assert "eval/aime/grading" not in events(run).Tags()["scalars"]


def test_whatever_tensorboard_does_training_goes_on(run, train, monkeypatch, caplog):
    (run.folder / "tensorboard").write_text("a file where the folder should be")
    train(run, (1, 2), TRACKING)
    assert [record["step"] for record in run.metrics.read()] == [1, 2]
    assert "TensorBoard stopped mirroring" in caplog.text
