"""Facts of runs: read again where a file changed, and bounded; colours that stay."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from time import sleep

import pytest
from shown_runs import stored_run

from sage_cli.errors import SageError, StoreError
from sage_cli.reports.figures.legend import COLOURS
from sage_cli.store.run import Run
from sage_cli.view.api import Api
from sage_cli.view.stored_runs import LruCache, RunsRead, is_one_part, look_of


def test_facts_are_read_again_where_a_file_changed(tmp_path):
    run = stored_run(tmp_path, "one", "a")
    runs = RunsRead(tmp_path)
    assert "reward" not in runs.all()[0].figures
    run.metrics.append({"step": 1, "reward": 0.5})
    assert runs.all()[0].figures["reward"] == 0.5
    shutil.rmtree(run.folder)
    assert runs.all() == []
    with pytest.raises(StoreError, match="there is no run"):
        runs.find(run.id)


def test_who_comes_while_the_runs_are_read_waits_and_does_not_read_again(tmp_path, monkeypatch):
    stored_run(tmp_path, "one", "a")
    runs, looked, is_read = RunsRead(tmp_path), [], Event()

    def ids(root):
        looked.append(root)
        assert is_read.wait(60)
        return [path.name for path in root.iterdir()]

    monkeypatch.setattr("sage_cli.view.stored_runs._ids", ids)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(runs.all)
        while not looked:
            sleep(0.001)
        second = threads.submit(runs.all)
        sleep(0.1)  # until it waits
        is_read.set()
    assert [facts.run.id for facts in second.result()] == [f.run.id for f in first.result()]
    assert len(looked) == 1
    runs.all()
    assert len(looked) == 2


def test_after_a_slow_look_the_next_one_waits_as_long(tmp_path):
    stored_run(tmp_path, "one", "a")
    runs = RunsRead(tmp_path)
    version, facts = runs.versioned()
    assert runs.versioned() == (version, facts)  # nothing has changed
    stored_run(tmp_path, "two", "b")
    runs._look_s = 60.0  # as for a hundred thousand runs on a slow disk
    assert runs.versioned() == (version, facts)
    runs._look_s = 0.4  # a quick look is repeated by whoever asks
    assert runs.versioned()[0] > version
    assert len(runs.all()) == 2


def test_the_table_is_made_again_only_where_a_run_has_changed(tmp_path):
    run = stored_run(tmp_path, "one", "a")
    api = Api(tmp_path)
    table = api.encoded("runs", {})
    assert json.loads(table) == api.answer("runs", {})
    assert api.encoded("runs", {}) is table
    assert api.encoded("runs", {"columns": "rl.seed"}) != table
    run.metrics.append({"step": 1, "reward": 0.5})
    changed = json.loads(api.encoded("runs", {}))
    assert changed["runs"][0]["values"]["reward"] == 0.5
    shutil.rmtree(run.folder)
    assert json.loads(api.encoded("runs", {}))["runs"] == []


def test_for_a_page_that_is_written_at_once_they_are_read_once(tmp_path):
    run = stored_run(tmp_path, "one", "a")
    still = RunsRead(tmp_path, once=True)
    assert len(still.all()) == 1
    stored_run(tmp_path, "two", "b")
    assert len(still.all()) == 1
    assert len(RunsRead(tmp_path).all()) == 2
    assert still.find(run.id).run.id == run.id


def _bomb(width=9, depth=24):
    """YAML of 2 kB whose aliases stand for 9^24 values."""
    lines = ["a0: &a0 {x: 1}"]
    for level in range(1, depth):
        inner = ", ".join(f"k{i}: *a{level - 1}" for i in range(width))
        lines.append(f"a{level}: &a{level} {{{inner}}}")
    return "\n".join(lines)


def _measured(run, **figures):
    (run.folder / "evaluations/arithmetic.json").write_text(json.dumps(figures))


EDITS = {
    "choices": lambda run: edit(run, rl={"algo": ["dapo"]}, guide={"name": {}}),
    "no configuration": lambda run: (run.folder / "config.json").unlink(),
    "preset": lambda run: run.note(command=f"sage rl -p {run.folder / 'bomb.json'}"),
    "presets": lambda run: run.note(command=f"sage rl --preset={run.folder / 'bomb.json'}"),
    "configuration": lambda run: (run.folder / "config.json").write_text(_bomb()),
    "sections": lambda run: (run.folder / "config.json").write_text('{"rl": 3, "model": [1]}'),
    "seeds": lambda run: _measured(run, seeds=10**9, samples=8, problems=6),
    "samples": lambda run: _measured(run, seeds=1, samples=10**12, problems=6),
    "products": lambda run: edit(run, data={"arithmetic": {"low": 2, "high": 10**9}}),
    "resamples": lambda run: edit(run, evaluation={"bootstrap": 10**12}),
    "ks": lambda run: edit(run, evaluation={"k": "1..100000000000"}),
}


def edit(run, **sections):
    config = run.read_config()
    for name, values in sections.items():
        config[name] = {**config[name], **values}
    (run.folder / "config.json").write_text(json.dumps(config))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", EDITS)
def test_a_run_that_was_edited_costs_its_own_row(kind, shown, tmp_path):
    """Whoever may write a run's files could send a server on an endless way."""
    root = shutil.copytree(shown, tmp_path / "runs")
    run = Run(root / "rl-dapo-cccccccc")
    (run.folder / "bomb.json").write_text(_bomb())
    EDITS[kind](run)
    run.note(files=None)  # whoever edits a run may edit this, too
    api = Api(root)
    both = f"{run.id},sft-arithmetic-aaaaaaaa"
    assert len(api.answer("runs", {})["runs"]) == 4
    for name, asked in {
        "run": {"run": run.id},
        "passk": {"policies": both},
        "problems": {"policies": both},
        "samples": {"policy": run.id},
        "ledger": {"run": run.id},
    }.items():
        try:
            answer = api.answer(name, asked)
        except SageError:
            continue
        if name == "passk":
            assert "sft-arithmetic-aaaaaaaa" in {curve["policy"] for curve in answer["curves"]}


def test_unchanged_files_are_not_read_again_and_an_absent_folder_has_no_runs(tmp_path, monkeypatch):
    assert RunsRead(tmp_path / "nowhere").all() == []
    stored_run(tmp_path, "one", "a")
    runs = RunsRead(tmp_path)
    before = runs.all()
    monkeypatch.setattr("sage_cli.view.stored_runs.RunFacts.listed", None)
    assert runs.all() == before


def test_looks_stay_and_a_checkpoint_has_its_runs_with_other_dashes(tmp_path):
    stored_run(tmp_path, "base", "a", kind="sft")
    runs = RunsRead(tmp_path)
    for number in range(len(COLOURS) + 1):
        stored_run(tmp_path, "x", f"{number + 1:x}")
        if number == 0:
            first = dict(runs.looks())
    looks = runs.looks()
    assert first.items() <= looks.items()
    assert looks["sft-base-aaaaaaaa"] == {"colour": None, "dash": 0}
    assert looks["rl-x-11111111"] == {"colour": 0, "dash": 0}
    # six colours, so the seventh training has the first one's with other dashes
    assert looks["rl-x-77777777"] == {"colour": 0, "dash": 1}
    looks = {"rl-x": {"colour": 2, "dash": 0}}
    assert look_of("rl-x", looks) == {"colour": 2, "dash": 0}
    assert look_of("rl-x@10", looks) == {"colour": 2, "dash": 4}  # 1 + 10 % 7
    assert look_of("unknown", looks) == {"colour": None, "dash": 0}


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", ".hidden", "a\0", "a\\b/.."])
def test_what_is_not_one_part_of_a_path(name):
    assert not is_one_part(name)


def test_what_is_one():
    assert is_one_part("rl-dapo-1234abcd")


def test_results_are_made_once_and_bounded():
    made, kept = [], LruCache(10)
    for _ in range(3):
        assert kept.get("a", lambda: made.append(1) or "result") == "result"
    assert made == [1]
    kept = LruCache(10, len)
    kept.get("a", lambda: "x" * 6)
    kept.get("b", lambda: "x" * 4)
    kept.get("a", lambda: "lost")  # a is the latest now
    kept.get("c", lambda: "x" * 4)  # 6 + 4 + 4 > 10, so b, the oldest, goes
    assert kept.get("a", lambda: "lost") == "x" * 6
    assert kept.get("b", lambda: "again") == "again"
    kept = LruCache(10, len)
    kept.get("a", lambda: "x" * 6)
    assert kept.get("b", lambda: "x" * 50) == "x" * 50
    assert kept.get("b", lambda: "again") == "x" * 50
    assert kept.get("a", lambda: "again") == "again"
