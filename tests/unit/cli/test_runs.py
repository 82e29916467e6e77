"""What `sage runs` says of runs, and what it removes."""

import json

import pytest

from sage_cli.cli.console import console
from sage_cli.store import metrics_file
from sage_cli.store.evaluations import record_evaluation
from sage_cli.store.metrics_file import MetricsFile
from sage_cli.store.run import Runs


def trained(root, kind, label, digit, last, settings=(), parent=None):
    """A finished run of two steps, whose reward was `last` in the second."""
    run = Runs(root).at(kind, label, digit * 8)
    with run.recording(dict(settings), kind=kind, parent=parent, seed=7, template="0"):
        run.metrics.append({"step": 1, "reward": 0.125})
        run.metrics.append({"step": 2, "reward": last})
    return run


@pytest.fixture
def root(tmp_path, sage):
    """The folder of runs where `sage` is typed."""
    return tmp_path / "empty" / "runs"


@pytest.fixture
def made(root):
    """Two trainings that differ by guide and learning rate, the second one measured."""
    settings = (
        {"guide": {"name": "none"}, "rl": {"learning_rate": 1e-5, "steps": 2}},
        {"guide": {"name": "branch", "tau": 1.2}, "rl": {"learning_rate": 2e-5, "steps": 2}},
    )
    plain = trained(root, "rl", "dapo", "1", 0.25, settings[0])
    branch = trained(root, "rl", "dapo-branch", "2", 0.5, settings[1])
    record_evaluation(branch, "amc23", {"pass@1": 0.375})
    return plain, branch


def rows(sage, *words):
    return sage("runs", "list", *words, "--json").answer["runs"]


@pytest.fixture
def family(root):
    """A base and a run that grew from it."""
    base = trained(root, "sft", "arithmetic", "1", 0.5)
    return base, trained(root, "rl", "dapo-branch", "2", 0.5, parent=base.id)


def test_list_and_show(sage, family):
    base, policy = family
    assert f"{policy.id} finished 2" in sage("runs", "list").words
    parents = [(run["id"], run["parent"]) for run in rows(sage)]
    assert parents == [(base.id, None), (policy.id, base.id)]
    shown = sage("runs", "show", "rl", "--json").answer
    assert (shown["last"], shown["manifest"]["seed"]) == ({"step": 2, "reward": 0.5}, 7)
    assert "reward 0.5" in sage("runs", "show", policy.id).words
    assert "docs/reference/records.md explains the names" in sage("runs", "show", policy.id).words


def test_what_every_row_would_say_is_said_once_below_the_list(sage, root, family):
    base, policy = family
    listed = sage("runs", "list")
    assert listed.stdout.splitlines()[0].split() == ["run", "status", "steps", "time"]
    assert f"every run that has a parent started from {base.id}" in listed.words
    trained(root, "rl", "dapo", "3", 0.5, parent=policy.id)
    listed = sage("runs", "list")
    assert listed.stdout.splitlines()[0].split() == ["run", "status", "steps", "time", "parent"]
    assert "every run" not in listed.words


def test_show_begins_with_how_it_was_trained_and_its_pass_at_k(sage, family):
    _, policy = family
    settings = {
        "rl": {"algo": "dapo", "learning_rate": 2e-4, "steps": 200, "seed": 7},
        "guide": {"name": "branch", "tau": 0.5, "rho": 0.75},
        "anchor": {"kl": "reverse", "beta": 0.04},
    }
    (policy.folder / "config.json").write_text(json.dumps(settings))
    record_evaluation(policy, "amc23", {"pass@1": 0.25, "grading": "strict"})
    shown = sage("runs", "show", "rl", "--json").answer
    assert shown["method"] == {
        "rl.algo": "dapo",
        "guide.name": "branch",
        "guide.tau": 0.5,
        "guide.rho": 0.75,
        "anchor.kl": "reverse",
        "anchor.beta": 0.04,
        "rl.learning_rate": 2e-4,
        "rl.steps": 200,
    }
    assert shown["evaluations"] == {"eval/amc23/pass@1": 0.25, "eval/amc23/grading": "strict"}
    words = sage("runs", "show", "rl").words
    order = [
        "status",
        "rl.algo dapo",
        "guide.tau 0.5",
        "anchor.beta 0.04",
        "rl.learning_rate 0.0002",
        "eval/amc23/pass@1 0.25",
        "reward 0.5",
        "parent",
    ]
    assert [words.index(part) for part in order] == sorted(words.index(part) for part in order)


def test_show_says_what_the_last_look_found_and_when(sage, family):
    _, policy = family
    for step, looked in ((2, {"eval/pass@1": 0.25, "eval/pass@2": 0.5}), (3, {})):
        policy.metrics.append({"step": step, "of": 4, "reward": 0.1, **looked})
    shown = sage("runs", "show", "rl", "--json").answer
    assert shown["last"]["step"] == 3
    assert shown["validated"] == {"validated at step": 2, "eval/pass@1": 0.25, "eval/pass@2": 0.5}
    assert "validated at step 2" in sage("runs", "show", "rl").words
    policy.metrics.append({"step": 4, "entropy": float("nan")})  # undefined: null in JSON
    assert '{"step": 4, "entropy": null}' in policy.metrics.path.read_text()
    stdout = sage("runs", "show", "rl", "--json").stdout
    assert json.loads(stdout, parse_constant=pytest.fail)["last"]["entropy"] is None


@pytest.mark.parametrize(
    ("status", "reason"),
    [("pruned", "below the median at step 1"), ("failed", "KeyError: [/not] [markup]")],
)
def test_a_run_that_did_not_finish_says_why(sage, family, status, reason):
    family[1].note(status=status, reason=reason)
    assert status in sage("runs", "list").words
    words = sage("runs", "show", "rl").words
    assert f"status {status}" in words
    assert f"reason {reason}" in words


def test_remove_asks_and_refuses_parents(sage, family):
    _, policy = family
    for sure in (("--yes",), ()):  # a parent is refused before anybody is asked
        sage("runs", "remove", "sft", *sure).refused(f"is the parent of {policy.id}")
    assert sage("runs", "remove", "rl").code == 1  # stdin is empty: not confirmed
    assert policy.folder.is_dir()
    assert sage("runs", "remove", "rl", "--yes").code == 0
    assert sage("runs", "remove", "sft", "-y").code == 0
    assert rows(sage) == []


@pytest.mark.parametrize("file", ["manifest.json", "config.json"])
def test_a_torn_run_is_listed_named_and_removed(sage, family, file):
    base, policy = family
    (policy.folder / file).write_text('{"status": "fin')
    assert f"{policy.id} " in (listed := sage("runs", "list").words)
    assert "corrupt" in listed
    assert file in rows(sage)[0]["reason"]
    for words in ((), ("--columns", "status")):
        statuses = [(row["id"], row["status"]) for row in rows(sage, *words)]
        assert statuses == [(policy.id, "corrupt"), (base.id, "finished")]
    assert sage("runs", "show", base.id).code == 0
    for words in (("runs", "show"), ("passk",), ("analyze", "lengths")):
        said = f"{file} is corrupt or was edited", f"sage runs remove {policy.id}"
        sage(*words, policy.id).refused(*said)
    assert sage("runs", "remove", policy.id, "--yes").code == 0
    assert sage("runs", "show", policy.id).code == 2


def test_no_runs_yet(sage):
    assert "contains no runs yet" in sage("runs", "list").words
    assert rows(sage) == []
    assert sage("runs", "list").written == []


def test_where_chooses_and_columns_show_settings_and_figures(sage, made, root):
    plain, branch = made
    first, second = rows(sage, "--columns", "guide.tau,rl.learning_rate,pass@1,reward")
    assert first == {
        "id": plain.id,
        "guide.tau": None,
        "rl.learning_rate": 1e-5,
        "pass@1 on amc23": None,
        "reward": 0.25,
    }
    assert (second["guide.tau"], second["pass@1 on amc23"]) == (1.2, 0.375)
    for where, id_ in (("guide.name=branch", branch.id), ("rl.learning_rate=1e-5", plain.id)):
        (row,) = rows(sage, "--where", where)
        assert row["id"] == id_
    both = ("--where", "status=finished", "--where", "guide.name=none")
    assert [row["id"] for row in rows(sage, *both)] == [plain.id]
    assert "no run has these settings" in sage("runs", "list", "--where", "guide.name=token").words
    trained(root, "sft", "base", "3", 0.5, {"guide": {"name": "branch"}, "sft": {"steps": 5}})
    shown = ("--columns", "sft.steps")
    assert [row["id"] for row in rows(sage, *shown, "--where", "guide.name=branch")] == [branch.id]
    assert [row["sft.steps"] for row in rows(sage, *shown)] == [None, None, 5]


@pytest.mark.parametrize("width", [80, 100])
def test_the_list_says_how_runs_differ(sage, made, root, monkeypatch, width):
    monkeypatch.setattr(console, "width", width)
    lines = sage("runs", "list").stdout.splitlines()
    assert max(map(len, lines)) <= width
    for run, guide, rate in ((made[0], "none", "1e-05"), (made[1], "branch", "2e-05")):
        (line,) = [line for line in lines if run.id in line]
        assert f"guide.name={guide}" in line
        assert rate not in line  # the guide tells them apart
    again = {"guide": {"name": "none"}, "rl": {"learning_rate": 1e-5, "steps": 2, "seed": 2}}
    second = trained(root, "rl", "dapo", "3", 0.5, again)
    words = [line.split()[:1] for line in sage("runs", "list").stdout.splitlines()]
    known = {run.id for run in (*made, second)}
    ids = [first[0] for first in words if first and first[0] in known]
    assert ids == [made[0].id, second.id, made[1].id]  # replicates stand together


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--where", "guide.nme=branch"), "did you mean guide.name?"),
        (("--columns", "guide.taw"), "did you mean guide.tau?"),
        (("--where", "branch"), "does not have the form setting=value"),
    ],
)
def test_an_unknown_setting_is_refused(sage, made, words, said):
    sage("runs", "list", *words).refused(said)


def test_the_list_parses_the_last_record_of_each_run_alone(sage, made, monkeypatch, caplog):
    def whole(_):
        raise AssertionError("all records were parsed for one step")

    monkeypatch.setattr(MetricsFile, "read", whole)
    monkeypatch.setattr(metrics_file, "END_BYTES", 80)  # as if the file were large
    changed = made[0].metrics.path
    changed.write_text(changed.read_text().replace("0.125", "0.875"))
    typed = sage("runs", "list")
    assert f"{changed.name} has been changed since its training ended" in caplog.text
    assert typed.code == 0
    for run in made:
        (line,) = (line for line in typed.stdout.splitlines() if run.id in line)
        assert line.split()[1:3] == ["finished", "2"]


def test_a_run_without_its_configuration_costs_its_settings_alone(sage, made):
    plain, branch = made
    (plain.folder / "config.json").unlink()
    assert rows(sage, "--columns", "rl.learning_rate,reward") == [
        {"id": plain.id, "rl.learning_rate": None, "reward": 0.25},
        {"id": branch.id, "rl.learning_rate": 2e-5, "reward": 0.5},
    ]
    for words in (("list",), ("show", plain.id)):
        assert sage("runs", *words).code == 0
