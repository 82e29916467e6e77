"""An archived run, restored elsewhere, says what it said: its model's name and its samples."""

import pytest
from stored import completion

from sage_cli.commands.stored.archive import archive, restore
from sage_cli.errors import DataError, StoreError
from sage_cli.models.load import load_model
from sage_cli.models.policies.policy import Policy
from sage_cli.store.runs.run import Runs
from sage_cli.store.runs.training_ledger import PromptRow
from sage_cli.store.samples.sample_set import SampleIdentity, SampleSet


@pytest.fixture
def made(tmp_path):
    """A base and a run that grew from it, each with weights and a sample."""
    runs = Runs(tmp_path / "runs")
    base, trained = runs.at("sft", "base", "1" * 8), runs.at("rl", "dapo", "2" * 8)
    for run, parent in ((base, None), (trained, base.id)):
        with run.recording({}, kind=run.id.split("-")[0], parent=parent):
            run.model.mkdir()
            (run.model / "config.json").write_text("{}")
            (run.model / "model.safetensors").write_bytes(run.id.encode())
            ledger = run.ledger
            ledger.add(1, [PromptRow("p", 1, 1, 0, 0, 0, 0, 7, 7, trained=True)])
            ledger.seal()
        samples = SampleSet(runs.root, SampleIdentity(Policy.of_run(run).fingerprint, "t", {}, 0))
        with samples.writing({"engine": "test"}) as writer:
            writer.claim(["p"], 1)
            writer.add(completion(text=run.id))
    return runs, base, trained


def test_there_and_back(made, tmp_path):
    runs, base, trained = made
    packed = archive(runs.root, "rl", tmp_path / "run.tar.gz")
    assert packed.runs == (trained.id, base.id)
    assert len(packed.sample_sets) == 2
    elsewhere = Runs(tmp_path / "elsewhere")
    held, new = restore(elsewhere.root, tmp_path / "run.tar.gz")
    assert (held.digest, set(new)) == (packed.digest, {trained.id, base.id})
    for run in (base, trained):
        back = elsewhere.find(run.id)
        assert back.manifest == run.manifest
        assert back.ledger.read().to_pylist() == run.ledger.read().to_pylist() != []
        policy = Policy.of_run(back)
        assert policy.fingerprint == Policy.of_run(run).fingerprint
        identity = SampleIdentity(policy.fingerprint, "t", {}, 0)
        (sample,) = SampleSet(elsewhere.root, identity).completions()
        assert sample.text == run.id
    with pytest.raises(DataError, match="holds no weights"):
        load_model(elsewhere.find("rl").model)
    again = archive(elsewhere.root, "rl", tmp_path / "again.tar.gz")  # of what was restored
    assert again.digest == packed.digest


def test_what_is_there_already_stays(made, tmp_path):
    runs, base, _ = made
    archive(runs.root, "rl", tmp_path / "run.tar.gz")
    with pytest.raises(StoreError, match="already exists"):
        restore(runs.root, tmp_path / "run.tar.gz")
    elsewhere = Runs(tmp_path / "elsewhere")
    archive(runs.root, base.id, tmp_path / "base.tar.gz")
    restore(elsewhere.root, tmp_path / "base.tar.gz")
    elsewhere.find("sft").note(remark="mine")
    restore(elsewhere.root, tmp_path / "run.tar.gz")
    assert elsewhere.find("sft").manifest["remark"] == "mine"


def test_another_digest_is_refused(made, tmp_path):
    runs, *_ = made
    packed = archive(runs.root, "rl", tmp_path / "run.tar.gz")
    elsewhere = tmp_path / "elsewhere"
    with pytest.raises(StoreError, match=f"has the digest {packed.digest}, not abc"):
        restore(elsewhere, tmp_path / "run.tar.gz", "abc")
    restore(elsewhere, tmp_path / "run.tar.gz", packed.digest[:12])


def test_a_run_that_is_not_finished(made, tmp_path):
    runs, _, trained = made
    trained.note(status="failed")
    with pytest.raises(StoreError, match="is failed, not finished"):
        archive(runs.root, trained.id, tmp_path / "x.tar.gz")
    assert not (tmp_path / "x.tar.gz").exists()
