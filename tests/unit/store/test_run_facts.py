"""Facts of runs: a sweep's runs with torn lines, and the speed of a training."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_cli.json_value import leaves
from sage_cli.store.json_files import warn_once
from sage_cli.store.metrics_file import END_BYTES
from sage_cli.store.run import Run, Runs
from sage_cli.store.run_facts import RunFacts, replicated, speed_figures, telling_apart
from sage_cli.store.sweep_runs import SweepEntry, SweepRuns

ENTRIES = [SweepEntry({"guide.tau": 0.1 * place}, place, f"rl-{place}") for place in range(3)]


def runs(tmp_path, *entries):
    made = SweepRuns(tmp_path / "sweep")
    for entry in entries:
        made.append(entry)
    return made


def test_what_is_appended_is_read_in_order(tmp_path):
    assert runs(tmp_path).entries() == []
    assert runs(tmp_path, *ENTRIES).entries() == ENTRIES


@given(cut=st.data())
def test_a_last_line_torn_anywhere_costs_that_line_alone(tmp_path_factory, cut):
    folder = tmp_path_factory.mktemp("torn")
    torn = runs(folder, *ENTRIES[:2])
    content = torn.path.read_bytes()
    first = content.index(b"\n") + 1
    kept = cut.draw(st.integers(first, len(content)))
    torn.path.write_bytes(content[:kept])
    # a line that lacks nothing but its end is whole
    before = ENTRIES[:2] if kept >= len(content) - 1 else ENTRIES[:1]
    assert torn.entries() == before
    torn.append(ENTRIES[2])
    assert torn.entries() == [*before, ENTRIES[2]]
    torn.repair()
    assert [json.loads(line)["run"] for line in torn.path.read_text().splitlines()] == [
        entry.run for entry in torn.entries()
    ]
    assert torn.entries() == [*before, ENTRIES[2]]


def test_lines_that_are_no_entries_are_passed_over_and_taken_away(tmp_path, caplog):
    """Two glued lines, bytes that are no text, JSON of other kinds or too deep."""
    good = runs(tmp_path, *ENTRIES)
    first, *rest = good.path.read_bytes().splitlines(keepends=True)
    deep = b"[" * 100_000
    others = [
        b'{"point": {"gui' + first,
        b"\xff\xfe\n",
        b"3\n",
        b'{"run": "x"}\n',
        deep + b"\n",
        b'{"point": 1, "seed": 0, "run": "x"}\n',
        b"\n",
    ]
    good.path.write_bytes(b"".join([first, *others, *rest]))
    assert good.entries() == ENTRIES
    good.repair()
    assert good.path.read_bytes() == b"".join([first, *rest])
    assert caplog.messages == [f"{good.path} had 7 unreadable lines, which were removed"]


def record(step_s, loss_s, **more):
    phases = {"generate": 1.0, "sync": 0.0, "grade": 0.5, "reference": 0.25, "loss": loss_s}
    timed = {f"time/{phase}_s": value for phase, value in phases.items()}
    return {"time/step_s": step_s, **timed, **more}


def test_medians_shares_and_the_highest_peak():
    found = speed_figures(
        [
            record(8.0, 1.0, **{"time/generated_tokens_per_s": 10, "memory/peak_gib": 3}),
            record(4.0, 2.0, **{"time/generated_tokens_per_s": 30, "memory/peak_gib": 5}),
            record(4.0, 3.0, **{"memory/peak_gib": 4}),  # a step on completions of before
        ]
    )
    assert found["speed/step_s"] == 4
    assert found["speed/generated_tokens_per_s"] == 20
    assert found["speed/share/generate"] == pytest.approx(3 / 16)
    assert found["speed/share/loss"] == pytest.approx(6 / 16)
    assert found["memory/peak_gib"] == 5
    assert "speed/trained_tokens_per_s" not in found
    assert speed_figures([]) == {}
    assert speed_figures([{"step": 1, "loss": 0.5}]) == {}


def facts(tmp_path, *settings):
    """Facts of runs, each by `kind` and settings by dotted name."""
    for place, (kind, values) in enumerate(settings):
        config = {}
        for name, value in values.items():
            section, _, key = name.partition(".")
            config.setdefault(section, {})[key] = value
        run = Runs(tmp_path / "runs").at(kind, f"run{place}", f"{place}" * 8)
        with run.recording(config, kind=kind, parent=None, seed=1, template="0"):
            pass
    return [RunFacts.from_run(run) for run in Runs(tmp_path / "runs").all()]


BRANCH, PLAIN = {"guide.name": "branch", "guide.tau": 0.5}, {"guide.name": "none"}


@pytest.mark.parametrize(
    ("settings", "names", "groups"),
    [
        ([("rl", PLAIN)], [], [[0]]),
        # what a guide brings along tells nothing more
        ([("rl", PLAIN), ("rl", BRANCH)], ["guide.name"], [[0], [1]]),
        (
            [("rl", BRANCH), ("rl", {**BRANCH, "guide.tau": 0.9}), ("rl", PLAIN)],
            ["guide.name", "guide.tau"],
            [[0], [1], [2]],
        ),
        # seeds, the second of the first method begun last
        (
            [
                ("rl", {**PLAIN, "rl.seed": 1}),
                ("rl", {**BRANCH, "rl.seed": 1}),
                ("rl", {**PLAIN, "rl.seed": 2}),
            ],
            ["guide.name", "rl.seed"],
            [[0, 2], [1]],
        ),
        (
            [
                ("sft", {"sft.seed": 0}),
                ("rl", {"sft.seed": 0, **PLAIN}),
                ("rl", {"sft.seed": 1, **PLAIN}),
            ],
            ["sft.seed"],
            [[0], [1, 2]],
        ),
        # where and how often is measured trains nothing
        (
            [("rl", {**PLAIN, "evaluation.samples": 8}), ("rl", {**PLAIN, "run.root": "x"})],
            [],
            [[0, 1]],
        ),
        ([("rl", {"data.names": [1]}), ("rl", {"data.names": [2]})], ["data.names"], [[0], [1]]),
        ([("sft", {"model.x": 1}), ("rl", {"model.x": 2})], [], [[0], [1]]),  # of one kind alone
        ([("rl", {}), ("rl", {})], [], [[0], [1]]),  # nothing is known of them
    ],
)
def test_runs_are_told_apart_by_the_settings_that_differ(tmp_path, settings, names, groups):
    runs = facts(tmp_path, *settings)
    assert telling_apart(runs) == names
    assert [[runs.index(run) for run in group] for group in replicated(runs)] == groups


def test_columns_that_tell_apart_are_few_and_seeds_are_among_them(tmp_path):
    many = [("rl", {f"rl.s{n}": place for n in range(20)} | {"rl.seed": place}) for place in (1, 2)]
    assert telling_apart(facts(tmp_path, *many)) == [*(f"rl.s{n}" for n in range(6)), "rl.seed"]


def test_what_is_whole_is_read_once(tmp_path, monkeypatch):
    run = Run(tmp_path / "rl-dapo-01234567")
    with run.recording({"rl": {"steps": 1}}, kind="rl", parent=None, seed=1):
        run.metrics.append({"step": 1})
    names, read = [], Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: names.append(path.name) or read(path))
    assert RunFacts.listed(run).settings == {"rl.steps": 1}
    # the records are compared with the manifest's hash if they are read whole
    assert sorted(names) == ["config.json", "manifest.json", "manifest.json", "metrics.jsonl"]


def test_the_last_record_of_a_long_file_is_compared_with_what_its_training_left(tmp_path, caplog):
    """The table of the view reads the ends of 20,000 files alone."""
    run = Run(tmp_path / "rl-dapo-01234567")
    with run.recording({"rl": {"steps": 1}}, kind="rl", parent=None, seed=1):
        for step in range(1, 401):
            run.metrics.append({"step": step, "reward": 0.25})
    assert run.metrics.path.stat().st_size > 2 * END_BYTES
    assert RunFacts.listed(run).figures == {"step": 400, "reward": 0.25}
    assert caplog.messages == []
    text = run.metrics.path.read_text()
    run.metrics.path.write_text(text[:-4] + "7" + text[-3:])  # 0.25 becomes 0.75
    assert RunFacts.listed(run).figures == {"step": 400, "reward": 0.75}
    changed = f"{run.metrics.path} has been changed since its training ended"
    assert caplog.messages == [changed]
    warn_once.cache_clear()
    run.note(ends=None)  # as in a run of an earlier version
    RunFacts.listed(run)
    assert caplog.messages == [changed, changed]


CONFIG = {"rl": {"a": {"b": [1, {"c": ',\n  "x": 1'}]}, "d": None}, "guide": {}, "methods": {}}


@pytest.mark.parametrize(
    ("edit", "whole"),
    [
        (str, True),  # as sage writes it
        (lambda text: json.dumps(json.loads(text)), True),
        (lambda text: json.dumps(json.loads(text), indent=1), True),
        (lambda text: text.replace("\n", "\n\n"), True),
        (str.rstrip, True),
        (lambda text: text[: text.index(',\n  "guide"')], False),  # after a whole section
        (lambda text: text[: text.index('  "guide"')], False),
        (lambda text: text.replace('"d"', '"d'), False),
        (lambda text: text.replace(',\n  "guide": {}', ',\n  "guide": {},'), False),
        (lambda text: text.replace('{\n  "rl"', '{\n  ,\n  "rl"'), False),
        (lambda text: text.replace("null", "null}, {"), False),
        (lambda _: "[]", False),
    ],
)
def test_sections_are_those_of_the_whole_json(tmp_path, edit, whole):
    run = Run(tmp_path / "rl-dapo-01234567")
    with run.recording(CONFIG, kind="rl", parent=None, seed=1):
        pass
    path = run.folder / "config.json"
    path.write_text(edit(path.read_text()))
    listed = RunFacts.listed(run)
    assert listed.settings == (dict(leaves(CONFIG)) if whole else {})
    assert (listed.about["status"] == "corrupt") is not whole
