"""What `sage runs prune` deletes, what it keeps, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from sage_cli.cli.runs import Wanted, carry_out, plan_prune
from sage_cli.models.folders import fingerprint
from sage_cli.store.files import write_json
from sage_cli.store.locks import writer
from sage_cli.store.run import SEAL, Run, Runs


def model(folder: Path, weights: bytes) -> None:
    """Write a folder that looks like a model."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(weights)


def checkpoint(run: Run, step: int, weights: bytes) -> Path:
    folder = run.checkpoints / f"checkpoint-{step}"
    model(folder, weights)
    (folder / "optimizer.pt").write_bytes(b"x" * 1000)
    write_json(folder / SEAL, {"run": run.id, "files": {}})
    return folder


def samples(root: Path, key: str, of: Path | str) -> Path:
    """Write a sample set of the model in a folder, or of one by its fingerprint."""
    fingerprint_ = of if isinstance(of, str) else fingerprint(str(of), None)
    write_json(root / "samples" / key / "set.json", {"model": fingerprint_})
    return root / "samples" / key


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A finished run with three checkpoints, the second measured, and one that isn't finished."""
    done, begun = (Run(tmp_path / f"rl-{name}") for name in ("done", "begun"))
    for run, status in ((done, "finished"), (begun, "interrupted")):
        write_json(run.folder / "manifest.json", {"status": status, "kind": "rl"})
        write_json(run.folder / "config.json", {})
    for step in (10, 20, 30):
        checkpoint(done, step, b"%d" % step)
    model(done.model, b"30")
    (done.folder / "completions").mkdir()
    checkpoint(begun, 10, b"other")
    samples(tmp_path, "of-20", done.checkpoints / "checkpoint-20")
    samples(tmp_path, "of-the-end", done.model)
    samples(tmp_path, "of-nobody", "f" * 16)
    return tmp_path


def deleted(root: Path, **wanted: bool) -> set[str]:
    plan = plan_prune(Runs(root), Wanted(**wanted))
    return {str(one.path.relative_to(root)) for one in plan.deleted}


def test_checkpoints_of_a_finished_run_go_unless_they_were_measured(root: Path):
    assert deleted(root) == {
        "rl-done/checkpoints/checkpoint-10",
        "rl-done/checkpoints/checkpoint-30",  # the model that the run ends with
    }
    why = {one.path.name: one.why for one in plan_prune(Runs(root), Wanted()).kept}
    assert why["checkpoint-20"] == "measured; --measured"
    assert why["completions"] == "completions of the training; --completions"
    assert why["of-nobody"] == "samples of a model that no run here has; --orphans"
    assert "of-20" not in why


def test_each_option_adds_what_it_names(root: Path):
    plain = deleted(root)
    assert deleted(root, measured=True) - plain == {"rl-done/checkpoints/checkpoint-20"}
    assert deleted(root, completions=True) - plain == {"rl-done/completions"}
    assert deleted(root, orphans=True) - plain == {"samples/of-nobody"}


def test_an_unfinished_run_keeps_what_it_resumes_from(root: Path):
    kept = {one.path.parent.parent.name: one.why for one in plan_prune(Runs(root), Wanted()).kept}
    assert kept["rl-begun"] == "the training resumes from here"


def test_a_checkpoint_from_which_an_unfinished_run_grows_is_kept(root: Path):
    child = root / "rl-child"
    write_json(child / "manifest.json", {"status": "interrupted", "parent": "rl-done@10"})
    write_json(child / "config.json", {})
    assert "rl-done/checkpoints/checkpoint-10" not in deleted(root)


def test_it_deletes_what_it_said_and_nothing_else(root: Path):
    before = {path for path in root.rglob("*") if path.is_file()}
    plan = plan_prune(Runs(root), Wanted())
    assert sum(one.size for one in plan.deleted) > 2000  # two optimizers of 1,000 bytes
    assert len(carry_out(plan)) == 2
    after = {path for path in root.rglob("*") if path.is_file()}
    gone = {path.parent.name for path in before - after}
    assert gone == {"checkpoint-10", "checkpoint-30"}
    assert not deleted(root)


def test_a_run_that_is_being_written_by_then_is_left(root: Path):
    plan = plan_prune(Runs(root), Wanted())
    with writer(root / "rl-done"):
        assert carry_out(plan) == []
    assert (root / "rl-done/checkpoints/checkpoint-10").is_dir()
