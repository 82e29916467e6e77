"""Run directories: what the manifest says after every kind of end, and finding one again."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from sage_cli.errors import (
    ConfigurationError,
    DataError,
    Interrupted,
    OutOfMemoryError,
    StoreError,
    TrainingError,
)
from sage_cli.store.evaluations import evaluation_figures, evaluations, name_in, record_evaluation
from sage_cli.store.file_names import portable
from sage_cli.store.locks import LAUNCHER, writer
from sage_cli.store.result_hash import identity_of, key_of
from sage_cli.store.run import Run, Runs, run_of
from sage_cli.training.checkpoints import seal


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path / "runs")


def made(runs, kind="rl", label="dapo-branch", identity="0123456789abcdef", **fields):
    run = runs.at(kind, label, identity)
    with run.recording({"rl": {"steps": 3}}, kind=kind, **({"parent": None, "seed": 1} | fields)):
        run.metrics.append({"step": 1})
    return run


def test_a_finished_run_says_what_made_it(runs):
    run = made(runs, parent="sft-x-1")
    assert run.id == "rl-dapo-branch-01234567"
    assert run.read_config() == {"rl": {"steps": 3}}
    manifest = run.read_manifest()
    assert (manifest["status"], manifest["reason"], manifest["parent"]) == (
        "finished",
        None,
        "sft-x-1",
    )
    assert manifest["seconds"] >= 0
    assert {"created", "started", "ended", "versions", "commit", "host", "command"} <= set(manifest)
    assert {"sage", "python", "torch", "trl", "math-verify"} <= set(manifest["versions"])
    run = made(runs)
    stored = json.loads((run.folder / "manifest.json").read_text())
    checksum = stored.pop("checksum")
    assert (stored, key_of(stored)) == (run.read_manifest(), checksum)
    with pytest.raises(StoreError, match=r"no config\.json"):
        _ = Run(runs.root / "nothing").read_config()


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (KeyboardInterrupt(), "interrupted", "interrupted by the user"),
        (Interrupted(signal.SIGINT), "interrupted", "interrupted by the user"),
        (Interrupted(signal.SIGTERM), "interrupted", "interrupted by SIGTERM"),
        (TrainingError("all clipped", "longer"), "failed", "all clipped"),
        (ZeroDivisionError("division by zero"), "failed", "ZeroDivisionError: division by zero"),
        (SystemExit(3), "failed", "SystemExit: 3"),
    ],
)
def test_other_ends_are_recorded_with_their_reason_and_raised(runs, error, status, reason):
    run = runs.at("rl", "a", "1" * 16)
    with pytest.raises(type(error)), run.recording({}, kind="rl"):  # noqa: PT012
        assert run.read_manifest()["status"] == "running"
        run.metrics.append({"step": 1})
        raise error
    assert (run.read_manifest()["status"], run.read_manifest()["reason"]) == (status, reason)
    assert not run.is_finished()
    with run.recording({}, kind="rl"):  # taken up again
        assert run.read_manifest()["reason"] is None
    assert run.is_finished()


@pytest.mark.parametrize("kind", [ConfigurationError, DataError, StoreError, TrainingError])
def test_a_refusal_before_anything_was_done_leaves_no_run(runs, kind):
    finished, refused = made(runs), runs.at("rl", "dapo-branch", "1" * 16)
    with pytest.raises(kind), refused.recording({}, kind="rl"):
        raise kind("not so")
    assert not refused.folder.exists()
    assert runs.find("dapo") == finished


def test_what_was_begun_before_or_tells_something_stays(runs):
    run = runs.at("rl", "a", "1" * 16)
    for error in (OutOfMemoryError("full"), ConfigurationError("not so")):
        with pytest.raises(type(error)), run.recording({}, kind="rl"):
            raise error
        assert (run.read().status, run.read_manifest()["reason"]) == ("failed", error.cause)
    run.clear()
    with pytest.raises(StoreError), run.recording({}, kind="rl"):  # noqa: PT012
        run.checkpoints.mkdir()
        raise StoreError("the disk is full")
    assert run.read().status == "failed"


def test_time_adds_up_over_resumptions_and_creation_stays(runs):
    run = made(runs)
    first = run.read_manifest()
    run.note(seconds=100.0)
    made(runs)
    assert 100.0 <= run.read_manifest()["seconds"] < 160
    assert run.read_manifest()["created"] == first["created"]
    assert run.read_manifest()["started"] > first["started"]


def test_a_run_that_is_being_written_refuses_a_second_writer(runs):
    run = runs.at("rl", "a", "1" * 16)
    with run.recording({"by": "first"}, kind="rl"):
        with pytest.raises(StoreError, match="being written"), run.recording({}, kind="rl"):
            pass
        assert run.read_config() == {"by": "first"}  # the second wrote nothing
        with pytest.raises(StoreError, match="being written"):
            run.clear()
    run.clear()
    assert not run.folder.exists()
    run.clear()  # nothing there: nothing to do


@pytest.mark.parametrize("status", ["interrupted", "finished", None])
def test_only_a_run_that_was_begun_and_has_not_finished_is_pruned(runs, status):
    run = runs.at("rl", "dapo", "1" * 8)
    if status:
        run.note(status=status)
        with writer(run.folder):
            run.prune("it lags")  # somebody goes on with it
        assert run.read_manifest() == {"status": status}
    run.prune("it lags")
    expected = {"status": "pruned", "reason": "it lags"} if status == "interrupted" else None
    assert run.read_manifest() == (expected or ({"status": status} if status else {}))
    assert run.folder.exists() == bool(status)


@pytest.mark.parametrize("file", ["manifest.json", "config.json"])
@pytest.mark.parametrize("content", [b'{"status": "fini', b"[]", b"3", b"\xff{}", b"[" * 100_000])
def test_a_torn_run_costs_itself_alone(runs, file, content, caplog):
    base = made(runs, kind="sft", label="base", identity="bbbb0000")
    run, other = made(runs), made(runs, identity="aaaa1111", parent=base.id)
    run.note(asked="9999")  # the latest, if it could be read
    (run.folder / file).write_bytes(content)
    assert runs.all() == [run, base, other]
    assert runs.whole() == [base, other]
    assert runs.latest() == other
    assert runs.children(base) == [other.id]
    (said,) = caplog.messages
    assert f"{run.folder / file} is corrupt or was edited" in said
    assert said.endswith(f"put a whole copy of the file there, or `sage runs remove {run.id}`")

    assert (run.read().status, run.is_finished(), run.has_begun()) == ("corrupt", False, True)
    with pytest.raises(StoreError, match=rf"{file} is corrupt"):
        run.require_whole()
    runs.remove(runs.find(run.id))
    assert runs.all() == [base, other]


def test_find_by_id_part_or_folder(runs):
    first = made(runs, label="dapo-branch", identity="aaaa1111")
    second = made(runs, label="dapo-none", identity="bbbb2222")
    base = made(runs, kind="sft", label="arithmetic", identity="cccc3333")
    for text, run in (
        (first.id, first),
        ("sft", base),
        ("bbbb2222", second),
        (str(second.folder), second),
        ("branch", first),
        ("none-bb", second),
    ):
        assert runs.find(text) == run
    second.model.mkdir()
    assert run_of(second.model) == second
    assert run_of(second.checkpoints) is None
    when = [run.read_manifest()["started"][:16].replace("T", " ") for run in (first, second)]
    second.note(status="failed")
    for text in ("dapo", "rl"):
        with pytest.raises(StoreError) as caught:
            runs.find(text)
        assert caught.value.cause == (
            f"'{text}' matches 2 runs: {first.id} (finished, {when[0]}), "
            f"{second.id} (failed, {when[1]})"
        )
        assert caught.value.next_step == "type more of its ID"
    with pytest.raises(StoreError, match="there is no run 'rl-dapo-brnch-aaaa1111'") as caught:
        runs.find("rl-dapo-brnch-aaaa1111")
    assert caught.value.next_step == f"did you mean {first.id}?"
    with pytest.raises(StoreError, match="there is no run 'dapo-token'"):
        runs.find("dapo-token")
    third = made(runs, kind="branch", label="grpo", identity="dddd4444")
    assert runs.find("branch") == third  # a beginning goes before what stands within


def test_latest_is_finished_and_no_trial(runs):
    assert runs.latest() is None
    base = made(runs, kind="sft", identity="1" * 8)
    assert runs.latest() == base
    trained = made(runs, identity="2" * 8)
    trial = made(runs, identity="3" * 8, sweep="tau-rho-1")
    with pytest.raises(KeyboardInterrupt), runs.at("rl", "a", "4" * 8).recording({}, kind="rl"):
        raise KeyboardInterrupt
    assert runs.latest() == trained
    assert [run.id[-8:] for run in runs.all()] == ["1" * 8, "2" * 8, "3" * 8, "4" * 8]
    base.ask()
    assert runs.latest() == base
    time.sleep(0.002)  # times are kept in milliseconds
    trial.ask()
    assert runs.latest() == trial


def test_remove_refuses_parents_and_runs_at_work(runs):
    base = made(runs, kind="sft", identity="1" * 8)
    trained = made(runs, identity="2" * 8, parent=base.id)
    with pytest.raises(
        StoreError, match=f"{base.id} cannot be removed, because it is the parent of {trained.id}"
    ):
        runs.remove(base)
    for name in (".lock", LAUNCHER):
        with writer(trained.folder, name), pytest.raises(StoreError, match="being written"):
            runs.remove(trained)
        assert trained.is_finished()
    runs.remove(trained)
    runs.remove(base)
    assert runs.all() == []


def test_identity_is_the_same_in_every_process_and_of_what_determines_a_result(monkeypatch):
    """Hash randomisation, insertion order and number types must not show."""
    program = (
        "from sage_cli.store.result_hash import identity_of;"
        "print(identity_of('rl', {'rl': {'seed': 1, 'lr': 1e-5}, 'tags': ['a'], 'beta': None}))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("0", "1")
    }
    here = identity_of("rl", {"beta": None, "tags": ("a",), "rl": {"lr": 1e-5, "seed": 1}})
    assert found == {here}
    seeded = identity_of("rl", {"seed": 1})
    assert seeded != identity_of("rl", {"seed": 2})
    assert seeded != identity_of("sft", {"seed": 1})
    monkeypatch.setattr("sage_cli.store.result_hash.RESULT_VERSION", 10**6)
    assert seeded != identity_of("rl", {"seed": 1})


def test_a_killed_run_is_interrupted_and_a_held_one_runs(tmp_path):
    run = Run(tmp_path / "rl-x-1")
    with run.recording({}, kind="rl"):
        assert run.read().status == "running"
    run.note(status="running")  # as a SIGKILL leaves it: the kernel has dropped the lock
    assert run.read().status == "interrupted"


def test_a_disk_too_full_for_the_manifest_hides_no_cause(runs, monkeypatch):
    run = runs.at("rl", "a", "1" * 16)
    with pytest.raises(TrainingError, match="the cause"), run.recording({}, kind="rl"):  # noqa: PT012
        monkeypatch.setattr(Run, "note", full)
        raise TrainingError("the cause")
    monkeypatch.undo()
    assert run.read().status == "interrupted"


def full(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("killed", ["pathlib.Path.rename", "shutil.rmtree"])
def test_a_kill_while_a_run_is_deleted_leaves_it_whole_or_gone(runs, monkeypatch, killed):
    run = made(runs)
    with monkeypatch.context() as patched, pytest.raises(KilledError):  # noqa: PT012
        # the first deletion is of what an earlier kill may have left: nothing here
        calls = iter([None, KilledError] if killed == "shutil.rmtree" else [KilledError])
        patched.setattr(killed, lambda *_, **__: kill(next(calls)))
        run.clear()
    assert runs.all() == ([run] if killed == "pathlib.Path.rename" else [])
    made(runs)
    run.clear()
    assert list(runs.root.iterdir()) == []


def kill(error):
    if error:
        raise error


def test_a_run_that_was_taken_over_is_recorded_no_further(runs):
    run = runs.at("rl", "a", "6" * 64)
    with pytest.raises(StoreError, match="taken over"), run.recording({}, kind="rl") as leased:  # noqa: PT012
        for file in (leased.metrics, leased.rollouts):
            file.append({"step": 1})
        (run.folder / ".lock.lease").unlink()  # as the end of the process that took over does
        for file in (leased.metrics, leased.rollouts):
            with pytest.raises(StoreError, match="taken over by another process"):
                file.append({"step": 2})
        with pytest.raises(StoreError, match="taken over by another process"):
            seal(run.checkpoints / "checkpoint-1", leased.lease)
        leased.metrics.append({"step": 2})
    assert [record["step"] for record in run.metrics.read()] == [1]
    assert run.read().status == "interrupted"  # which that process says otherwise


def test_a_directory_of_another_layout_is_refused_by_name(runs, caplog):
    run = made(runs)
    manifest = run.read_manifest()
    for lacking, refused in (("status", run.require_whole), ("identity", lambda: resume(run))):
        kept = {key: value for key, value in manifest.items() if key != lacking}
        (run.folder / "manifest.json").write_text(json.dumps(kept))
        with pytest.raises(StoreError, match=re.escape(str(run.folder))):
            refused()
    (run.folder / "manifest.json").write_text(json.dumps({"id": run.id, "state": "done"}))
    assert [(listed.id, listed.read().status) for listed in runs.all()] == [(run.id, "corrupt")]
    assert "has no status: it is of another layout" in caplog.text
    assert runs.whole() == []
    assert runs.latest() is None


def resume(run):
    """Train `run` again under its identity."""
    with run.recording({}, kind="rl"):
        pass


class KilledError(BaseException):
    pass


def test_removing_a_run_removes_what_a_killed_command_left_and_nothing_of_the_user(runs):
    run = made(runs)
    left, users = runs.root / ".rl-dapo-89abcdef.old", runs.root / ".config.old"
    for folder in (left, users):
        folder.mkdir()
    notes = runs.root / ".env.old"
    notes.write_text("A=1")
    for path in (left, users, notes):
        os.utime(path, (1, 1))
    runs.remove(run)
    assert not left.exists()
    assert users.is_dir()
    assert notes.read_text() == "A=1"


def test_an_evaluation_replaces_one_of_as_many_completions(run):
    assert evaluation_figures(run) == {}
    assert record_evaluation(run, "aime", {"pass@1": 0.1, "pass@8": 0.4})
    assert record_evaluation(run, "data/mine.jsonl", {"pass@1": 0.3})
    assert record_evaluation(run, "aime", {"pass@1": 1 / 3})
    # pass@8 went with the evaluation that it belonged to
    assert evaluation_figures(run) == {"eval/aime/pass@1": 1 / 3, "eval/mine/pass@1": 0.3}
    record_evaluation(run, "aime", over(60, 256))
    # 60 x 256 = 15,360 = 60 x 128 x 2; then 15,420 = 60 x 257
    for figures in (over(60, 128, seeds=2), over(60, 257)):
        assert record_evaluation(run, "aime", figures)
        assert evaluation_figures(run)["eval/aime/samples"] == figures["samples"]
    assert record_evaluation(run, "amc23", over(3, 4))  # of another benchmark


def over(problems, samples, seeds=1, value=0.5):
    return {"pass@1": value, "problems": problems, "samples": samples, "seeds": seeds}


@pytest.mark.parametrize("less", [over(3, 4), over(60, 4), over(3, 256), over(60, 1, seeds=5)])
def test_a_measurement_over_fewer_completions_is_not_kept(run, less):
    assert record_evaluation(run, "aime", over(60, 256, value=0.25))
    assert not record_evaluation(run, "aime", less)
    assert evaluation_figures(run)["eval/aime/pass@1"] == 0.25


@pytest.mark.parametrize("torn", ['{"pass@1": 0.', "[]", '"text"', '{"samples": null}', "\udc80"])
def test_a_torn_file_is_named_once_and_replaced_and_others_count(run, torn, caplog):
    record_evaluation(run, "aime", over(60, 256))
    record_evaluation(run, "amc23", over(40, 8))
    path = run.folder / "evaluations" / "aime.json"
    path.write_bytes(torn.encode(errors="surrogateescape"))
    for _ in range(2):
        assert set(evaluation_figures(run)) == {f"eval/amc23/{name}" for name in over(40, 8)}
    (said,) = caplog.messages
    assert f"{path} is corrupt or was edited" in said
    assert said.endswith("remove it, and evaluate again")
    assert record_evaluation(run, "aime", over(3, 4))
    assert evaluation_figures(run)["eval/aime/problems"] == 3


def test_records_of_one_name_are_of_their_benchmarks(run):
    one, other = "a" * 16, "b" * 16
    assert record_evaluation(run, "a/test.jsonl", over(60, 256, value=0.25), one)
    assert record_evaluation(run, "b/test.jsonl", over(3, 4, value=0.75), other)
    assert not record_evaluation(run, "a/test.jsonl", over(3, 4), one)
    assert record_evaluation(run, "b/test.jsonl", over(3, 8, value=0.5), other)
    found = evaluation_figures(run)
    for file, name, value in (
        ("a/test.jsonl", "test", 0.25),
        ("b/test.jsonl", "test-bbbbbbbb", 0.5),
    ):
        assert name_in(found, file) == name
        assert (found[f"eval/{name}/pass@1"], found[f"eval/{name}/benchmark"]) == (value, file)
    assert name_in(found, "c/test.jsonl") == "test"
    assert record_evaluation(run, "aime", {"pass@1": 0.1 + 0.2, "grading": "strict"})
    assert not record_evaluation(run, "aime", {"pass@1": 0.1 + 0.2, "grading": "strict"})
    assert record_evaluation(run, "aime", {"pass@1": 0.1 + 0.2, "grading": "math-verify"})


@pytest.mark.parametrize(
    "names",
    [
        ("arithmetic:familiar_share=0.6", "arithmetic:familiar_share=0.7"),
        ("arithmetic:familiar_share=0.6", "arithmetic:familiar_share=0"),
        ("org/set.v1", "org/set.v2"),
        ("mine.v1.jsonl", "mine.v2.jsonl"),
        ("mine.jsonl", "mine.jsonl:dev", "mine.jsonl:train"),
    ],
)
def test_every_benchmark_has_a_file_that_its_whole_name_names(run, names):
    for number, name in enumerate(names):
        record_evaluation(run, name, {"pass@1": number / 8})
    figures = evaluation_figures(run)
    stems = [portable(name.rpartition("/")[2]) for name in names]
    assert figures == {f"eval/{stem}/pass@1": i / 8 for i, stem in enumerate(stems)}
    assert [name_in(figures, name) for name in names] == stems


def test_of_two_records_of_one_benchmark_the_newest_counts(run):
    name, content = "arithmetic:problems=60", "a" * 16
    record_evaluation(run, name, over(60, 8, value=0.5), content)
    (path,) = (run.folder / "evaluations").iterdir()
    old = path.with_name(f"{name}.json")
    path.rename(old)  # as an earlier version called it
    assert list(evaluations(run)) == [path.stem]
    os.utime(old, (1, 1))
    record_evaluation(run, name, over(60, 4, value=0.25), content)
    assert list(evaluations(run)) == [path.stem]
    assert evaluation_figures(run)[f"eval/{path.stem}/pass@1"] == 0.25
    # another content under the same name: a file that was edited
    record_evaluation(run, name, over(60, 8, value=0.75), "b" * 16)
    os.utime(path, (2, 2))
    found = evaluation_figures(run)
    assert found[f"eval/{name_in(found, name)}/pass@1"] == 0.75
    assert not record_evaluation(run, name, over(60, 4, value=0.25), content)  # measured again
    found = evaluation_figures(run)
    assert found[f"eval/{name_in(found, name)}/pass@1"] == 0.25


def test_a_record_that_names_no_content_is_of_another_benchmark(run):
    record_evaluation(run, "a/test.jsonl", over(60, 256))
    assert record_evaluation(run, "a/test.jsonl", over(3, 4), "a" * 16)
    names = sorted(path.name for path in (run.folder / "evaluations").iterdir())
    assert names == ["test-aaaaaaaa.json", "test.json"]


@pytest.mark.parametrize("first", ["amc23", "mine/amc23.jsonl"])
def test_a_file_that_has_a_registered_name(run, first):
    content = {"amc23": "amc23", "mine/amc23.jsonl": "c" * 16}
    second = next(name for name in content if name != first)
    record_evaluation(run, first, over(40, 8, value=0.25), content[first])
    record_evaluation(run, second, over(40, 8, value=0.75), content[second])
    found = evaluation_figures(run)
    assert found["eval/amc23/pass@1"] == 0.25
    assert found[f"eval/amc23-{content[second][:8]}/pass@1"] == 0.75
