"""`sage data` as typed: tables for people, JSON for programs, panels for mistakes."""

import json

import pytest


@pytest.fixture
def data(sage, tmp_path):
    """Type `sage data ...` with a folder that holds one benchmark."""
    (tmp_path / "benchmarks").mkdir()
    rows = [{"problem": f"What is {i} plus [one]?", "answer": float(i + 1)} for i in range(40)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "benchmarks/amc23.jsonl").write_text(text)
    return lambda *words: sage("data", *words, "--root", tmp_path)


def listed(data):
    """The sources of `list`, by name."""
    return {source["name"]: source for source in data("list", "--json").answer["sources"]}


def test_list_says_what_is_here_without_asking_the_hub(data):
    found = listed(data)
    assert (found["amc23"]["where"], found["amc23"]["problems"]) == ("local", 40)
    assert (found["math500"]["where"], found["math500"]["problems"]) == ("Hub", None)
    assert (found["arithmetic"]["where"], found["arithmetic"]["problems"]) == ("generated", 200)
    assert {name: source["expected"] for name, source in found.items() if source["expected"]} == {
        "aime24": 30,
        "aime25": 30,
        "aime": 60,
        "amc23": 40,
        "math500": 500,
        "math500-l5": 134,
        "minerva": 272,
        "gsm8k": 1319,
        "dapo-math-dev": 100,
        "aime26": 30,
        "hmmt25-feb": 30,
        "hmmt25-nov": 30,
        "hmmt25": 60,
        "olympiadbench": 581,
    }


def test_a_group_is_here_when_all_its_members_are_and_a_broken_copy_is_named(data, tmp_path):
    row = json.dumps({"problem": "q", "answer": "1"}) + "\n"
    (tmp_path / "benchmarks/aime2024.jsonl").write_text(row)
    (tmp_path / "benchmarks/math500.jsonl").write_text("{")
    found = listed(data)
    where = [found[name]["where"] for name in ("aime24", "aime25", "aime")]
    assert where == ["local", "Hub", "Hub"]
    assert "1 problems, but 30 are expected" in found["aime24"]["trouble"]
    shown = data("list").words
    for words in ("amc23", "math500.jsonl, line 1, isn't JSON", "svamp"):
        assert words in shown


def test_show_counts_and_first_problems(data, tmp_path):
    shown = data("show", "amc23", "--limit", "2", "--json").answer
    assert shown["problems"] == 40
    assert [problem["gold"] for problem in shown["first"]] == ["1", "2"]
    words = data("show", "amc23", "--limit", "1").words
    assert "amc23: 40 problems" in words
    assert "What is 0 plus [one]?" in words
    assert "What is 1" not in words
    file = tmp_path / "benchmarks/amc23.jsonl"
    named = ("--question-field", "problem", "--gold-field", "answer")
    assert "40 problems" in data("show", file, *named).words
    assert data("show", file).code == 0  # its columns are recognised
    data("show", "amc32").refused("did you mean 'amc23'?")


def test_show_says_which_problems_are_known_to_be_misprinted(data, tmp_path):
    file = tmp_path / "mine.jsonl"
    question = r"Let $ABCDE$ be a convex pentagon with $\angle ZBA = 60°$."
    rows = [{"question": question, "gold": "60"}, {"question": "1 + 1?", "gold": "2"}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert "known misprint: AIME 2025 I-14" in data("show", file).words
    shown = data("show", file, "--json").answer
    assert [(m["name"], m["problem"]) for m in shown["misprints"]] == [
        ("AIME 2025 I-14", shown["first"][0]["id"])
    ]
    assert data("show", "amc23", "--json").answer["misprints"] == []


def test_overlap_of_a_set_with_itself(data):
    found = data("overlap", "amc23", "amc23", "--json").answer
    assert (found["train"], found["train_problems"]) == ("amc23", 40)
    assert (found["same"], found["similar"], len(found["matches"])) == (40, 0, 40)
    words = data("overlap", "amc23", "amc23", "--limit", "1").words
    assert "40 of the 40 problems in amc23 are also among the 40 in amc23" in words
    assert "39 more pairs" in words
