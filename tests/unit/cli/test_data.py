"""`sage data` as typed: tables for people, JSON for programs, panels for mistakes."""

import json
import re

import pytest
from typer.testing import CliRunner

from sage_cli.cli.data import app


@pytest.fixture
def type_(monkeypatch, tmp_path):
    """Type a command with a folder that holds one benchmark."""
    (tmp_path / "benchmarks").mkdir()
    rows = [{"problem": f"What is {i} plus [one]?", "answer": float(i + 1)} for i in range(40)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "benchmarks/amc23.jsonl").write_text(text)
    monkeypatch.setenv("COLUMNS", "120")

    def run(*words):
        return CliRunner().invoke(app, [*words, "--root", str(tmp_path)])

    return run


def listed(type_):
    """The sources of `list`, by name."""
    sources = json.loads(type_("list", "--json").stdout)["sources"]
    return {source["name"]: source for source in sources}


def words(output):
    """What was printed, without frames and line breaks."""
    return " ".join(re.findall(r"[^\s│╭╮╰╯─]+", output))


def test_list_says_what_is_here_without_asking_the_hub(type_):
    found = listed(type_)
    assert (found["amc23"]["where"], found["amc23"]["problems"]) == ("local", 40)
    assert (found["math500"]["where"], found["math500"]["problems"]) == ("Hub", None)
    assert (found["arithmetic"]["where"], found["arithmetic"]["problems"]) == ("generated", 200)
    assert {name: source["expected"] for name, source in found.items() if source["expected"]} == {
        "aime24": 30, "aime25": 30, "aime": 60, "amc23": 40, "math500": 500, "math500-l5": 134,
        "minerva": 272, "gsm8k": 1319, "dapo-math-dev": 100, "aime26": 30, "hmmt25-feb": 30,
        "hmmt25-nov": 30, "hmmt25": 60, "olympiadbench": 581,
    }  # fmt: skip
    assert "amc23" in type_("list").output


def test_list_says_what_is_whole_and_goes_on_past_a_broken_copy(type_, tmp_path):
    row = json.dumps({"problem": "q", "answer": "1"}) + "\n"
    (tmp_path / "benchmarks/aime2024.jsonl").write_text(row)
    found = listed(type_)
    where = [found[name]["where"] for name in ("aime24", "aime25", "aime")]
    assert where == ["local", "Hub", "Hub"]
    assert "1 problems where 30 are expected" in found["aime24"]["trouble"]
    (tmp_path / "benchmarks/math500.jsonl").write_text("{")
    output = words(type_("list").output)
    assert "math500.jsonl, line 1, isn't JSON" in output
    assert "svamp" in output


def test_show_counts_and_first_problems_also_of_a_file(type_, tmp_path):
    shown = json.loads(type_("show", "amc23", "--limit", "2", "--json").stdout)
    assert shown["problems"] == 40
    assert [problem["gold"] for problem in shown["first"]] == ["1", "2"]
    output = type_("show", "amc23", "--limit", "1").output
    assert "amc23: 40 problems" in output
    assert "What is 0 plus [one]?" in output
    assert "What is 1" not in output
    path = str(tmp_path / "benchmarks/amc23.jsonl")
    named = ("--question-field", "problem", "--gold-field", "answer")
    assert "40 problems" in type_("show", path, *named).output
    failed = type_("show", path)
    assert failed.exit_code == 2
    assert "line 1 has no column 'question'" in words(failed.output)
    failed = type_("show", "amc32")
    assert failed.exit_code == 2
    assert "did you mean 'amc23'?" in failed.output
    assert "Traceback" not in failed.output


def test_overlap_of_a_set_with_itself(type_):
    found = json.loads(type_("overlap", "amc23", "amc23", "--json").stdout)
    assert (found["train"], found["train_problems"]) == ("amc23", 40)
    assert (found["same"], found["similar"], len(found["matches"])) == (40, 0, 40)
    output = words(type_("overlap", "amc23", "amc23", "--limit", "1").output)
    assert "of 40 problems of amc23, 40 are among the 40 of amc23" in output
    assert "39 more pairs" in output
