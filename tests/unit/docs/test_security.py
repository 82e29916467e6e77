"""SECURITY.md says what the code does, as far as code can tell."""

import os
import re
from pathlib import Path

import pytest
from stored import IDENTITY, completion, put

from sage_cli.store.evaluations import record_evaluation
from sage_cli.store.run import Runs
from sage_cli.store.sample_set import SampleSet

REPOSITORY = Path(__file__).parents[3]
TEXT = (REPOSITORY / "SECURITY.md").read_text(encoding="utf-8")
WORDS = " ".join(TEXT.split())


def quoted(sentence):
    """What stands in backquotes in the part of the text that a pattern finds."""
    return set(re.findall(r"`([^`]+)`", re.search(sentence, WORDS)[0]))


@pytest.mark.parametrize("promise", re.findall(r"^\| (?:[^|]+) \| (`tests/.+`) \|$", TEXT, re.M))
def test_a_promise_is_held_by_tests_that_exist(promise):
    file, *names = re.findall(r"tests/[\w/]+\.py|test_\w+(?=`)", promise)
    code = (REPOSITORY / file).read_text()
    assert names
    assert [name for name in names if f"def {name}(" not in code] == []


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A run with samples, made under a umask, with a token at hand."""
    monkeypatch.setenv("HF_TOKEN", "hf_dont_store_me")

    def make(umask):
        before = os.umask(umask)
        try:
            run = Runs(tmp_path / f"{umask:o}").at("rl", "dapo", "1" * 8)
            with run.recording({"rl": {"steps": 1}}, kind="rl", parent=None, seed=0, template="t"):
                run.metrics.append({"step": 1})
                run.rollouts.append({"text": "a"})
            record_evaluation(run, "aime", {"pass@1": 0.5})
            samples = SampleSet(run.folder.parent, IDENTITY)
            with samples.writing({"engine": "test"}):
                put(samples, completion())
            samples.inventory()
        finally:
            os.umask(before)
        return run

    return make


def files(run):
    return [path for path in run.folder.parent.rglob("*") if path.is_file()]


def test_files_have_the_rights_that_the_umask_leaves(made):
    open_, private = files(made(0o022)), files(made(0o077))
    assert {path.stat().st_mode & 0o777 for path in private} == {0o600}
    shown = {path.name for path in open_ if path.stat().st_mode & 0o777 == 0o644}
    assert {"metrics.jsonl", "rollouts.jsonl", "set.json"} <= shown


def test_every_file_of_a_run_is_named_and_none_holds_the_environment(made):
    run = made(0o022)
    named = quoted("Of a run, `config.json`.*?Beside the runs")
    written = {path.name + "/" * path.is_dir() for path in run.folder.iterdir()}
    assert {name for name in written if not name.startswith(".")} <= named
    assert {f"{path.name}/" for path in (run.model, run.checkpoints)} <= named
    assert not any(b"hf_dont_store_me" in path.read_bytes() for path in files(run))
    shown = {"host", "command", "versions", "commit", "parent", "reason"}
    assert shown <= run.read_manifest().keys()
