"""Benchmarks of other packages, and what is refused of them."""

import json

import pytest
from plugged_in import plug_in

from sage_cli.errors import ConfigurationError, DataError
from sage_cli.problems.benchmark_contract import BenchmarkContract
from sage_cli.problems.load import load_problems
from sage_cli.problems.registry import BENCHMARKS_GROUP, PUBLISHED, data_set, entries
from sage_cli.problems.rows import DataSet, Group, in_last_box, whole
from sage_cli.settings.sections.data import DataSection

RIDDLES = DataSet(
    "riddles", "Riddles", "someone/riddles", ("test",), ("riddles.jsonl",),
    question=(("riddle",),), gold=(("answer", whole), ("solution", in_last_box)),
    where=("hard", True), tolerance=0.1,
)  # fmt: skip
ROWS = [
    {"riddle": "1+1?", "answer": "2", "hard": True},
    {"riddle": "1+2?", "answer": "3", "hard": False},
    {"riddle": "6*7?", "solution": r"\boxed{42}", "hard": True},
]


class TestRiddles(BenchmarkContract):
    entry = RIDDLES

    def rows(self):
        return ROWS


class TestMinerva(BenchmarkContract):
    entry = data_set("minerva")

    def rows(self):
        return [{"question": "2?", "solution": r"\boxed{2}"}, {"problem": "3?", "answer": "3"}]


@pytest.fixture
def data(tmp_path):
    (tmp_path / "riddles.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return DataSection(root=tmp_path)


@pytest.mark.parametrize("registered", [RIDDLES, [RIDDLES], (RIDDLES,)])
def test_a_plugin_s_benchmark_is_read_by_name(monkeypatch, data, registered):
    plug_in(monkeypatch, BENCHMARKS_GROUP, package=registered)
    problems = load_problems("riddles", data)
    assert [(p.question, p.gold, p.benchmark) for p in problems] == [
        ("1+1?", "2", "riddles"), ("6*7?", "42", "riddles"),
    ]  # fmt: skip
    assert len(load_problems("riddles", data)) == 2
    with pytest.raises(DataError, match="did you mean 'riddles'"):
        load_problems("ridles", data)


def test_a_group_of_a_plugin_s_and_ours(monkeypatch, data):
    group = Group("both", "Both", ("riddles", "arithmetic"))
    plug_in(monkeypatch, BENCHMARKS_GROUP, package=[group, RIDDLES])
    assert {p.benchmark for p in load_problems("both", data)} == {"both"}
    assert len(load_problems("both", data)) == 202


def named(name):
    return DataSet(name, "t", "h", ("test",), (), question=(("q",),), gold=(("a", whole),))


@pytest.mark.parametrize(
    ("registered", "complaint"),
    [
        (5, "is or holds a int"),
        ("riddles", "is or holds a str"),
        ([RIDDLES, dict], "is or holds a type"),
        (DataSet, "is or holds a type"),
        ((entry for entry in [RIDDLES]), "is or holds a generator"),
        (named("aime"), "takes the name 'aime', which another data set has"),
        ([RIDDLES, RIDDLES], "takes the name 'riddles'"),
        (named("a,b"), "names a data set 'a,b'"),
        (named("mine.csv"), "names a data set 'mine.csv'"),
        (named(" "), "names a data set ' '"),
        (Group("mine", "t", ("aime24", "riddles")), "puts 'riddles' into the group 'mine'"),
        (Group("mine", "t", ("aime",)), "puts 'aime' into the group 'mine'"),
        (Group("mine", "t", ("mine",)), "puts 'mine' into the group 'mine'"),
        (RuntimeError("broken"), "can't be imported: RuntimeError: broken"),
    ],
)
def test_what_is_no_benchmark_is_refused_by_name(monkeypatch, registered, complaint):
    plug_in(monkeypatch, BENCHMARKS_GROUP, package=registered)
    with pytest.raises(ConfigurationError) as caught:
        entries()
    who = "benchmark 'package' (package:Package)"
    assert caught.value.cause.startswith(f"{who} {complaint}")
    assert caught.value.next_step


def test_everything_shipped_is_known_by_its_own_name(monkeypatch):
    plug_in(monkeypatch, BENCHMARKS_GROUP)
    known = entries()
    assert all(name == entry.name for name, entry in known.items())
    assert set(PUBLISHED) < set(known)
    assert {"arithmetic", "arithmetic-dev", "arithmetic-train",
            "kk-generated"} == set(known) - set(PUBLISHED)  # fmt: skip
