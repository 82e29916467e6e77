"""What `--fresh` refuses and leaves alone before anything is trained."""

import pytest

from sage_cli.cli.training_run import RlTraining, SftTraining
from sage_cli.config.load import load
from sage_cli.errors import StoreError
from sage_cli.models.planned import planned_base
from sage_cli.progress import Silent
from sage_cli.store.run import Runs


@pytest.fixture
def settings(tmp_path):
    return load(sets=["tracking.wandb=off", f"run.root={tmp_path}/runs"]).config


def finish(run, **fields):
    with run.recording({}, kind=run.id.partition("-")[0], **fields):
        run.model.mkdir(parents=True)
        (run.model / "model.safetensors").write_text("weights")
    return run


@pytest.fixture
def base(settings):
    """The base of `settings`, as if it were trained."""
    return finish(planned_base(settings, Runs(settings.run.root)).run)


def test_what_others_grew_from_is_refused_with_their_names(settings, base):
    child = finish(RlTraining.of(settings).planned, parent=base.id)
    with pytest.raises(StoreError, match=f"{child.id} grew from {base.id}") as caught:
        SftTraining.of(settings).carry_out(Silent(), fresh=True)
    assert "`sage runs remove`" in caught.value.next_step
    assert base.finished
    finish(Runs(settings.run.root).at("rl", "later", "1" * 16), parent=child.id)
    with pytest.raises(StoreError, match=f"rl-later-11111111 grew from {child.id}"):
        RlTraining.of(settings).carry_out(Silent(), fresh=True)


def test_what_is_refused_before_the_training_leaves_the_old_run(settings, base):
    run = finish(RlTraining.of(settings).planned, parent=base.id)
    base.note(weights="others")
    with pytest.raises(StoreError, match="has been changed"):
        RlTraining.of(settings).carry_out(Silent(), fresh=True)
    assert run.finished


def test_a_run_that_is_there_says_how_it_is_trained_again(settings, base):
    run = finish(RlTraining.of(settings).planned, parent=base.id)
    for training, found in ((RlTraining, run), (SftTraining, base)):
        said: list[str] = []
        progress = Silent()
        progress.say = said.append
        training.of(settings).found(found, progress)
        assert said == [f"[bold]{found.id}[/] is trained already; --fresh trains it again"]
