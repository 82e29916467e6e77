"""Guided retries' hints: where they are cut, how they are put, and data that has none."""

import pytest

from sage_cli.config.load import load
from sage_cli.errors import DataError
from sage_cli.methods.guided_dpo import GuidedDpo
from sage_cli.problems.arithmetic import Arithmetic
from sage_cli.problems.load import load_problems
from sage_cli.problems.problem import Problem
from sage_cli.settings.sections.data import DataSection, SourceSection
from sage_cli.training.guided_retries import hinted

GUIDED = GuidedDpo(hint="{question}\nBegin so: {hint}", hint_lines=1)


def test_a_hint_is_the_first_lines_and_never_the_last():
    solution = "<think>\n a \n\nb\nc\n</think>"
    assert GuidedDpo(hint_lines=1).hint_of(solution) == "a \n"
    two, nine = (GuidedDpo(hint_lines=lines).hint_of(solution) for lines in (2, 9))
    assert two == nine == "a \n\nb\n"
    by_semicolon = GuidedDpo(hint_lines=2, line_end=";")
    assert by_semicolon.hint_of("3*4=12;12+1=13;13") == "3*4=12;12+1=13;"


@pytest.mark.parametrize("solution", [None, "", "a", "<think>a</think>\n"])
def test_one_line_is_no_hint_because_it_is_all(solution):
    assert GUIDED.hint_of(solution) is None
    assert hinted(Problem("1", "b", "q", "7", working=solution), GUIDED) is None


def test_a_hinted_problem_is_another_problem_with_the_same_gold():
    """What stands in the question is no place for the hint."""
    problem = Problem("1", "b", "What is {hint}?", "7", working="3+\n4")
    asked = hinted(problem, GUIDED)
    assert asked.question == "What is {hint}?\nBegin so: 3+\n"
    assert (asked.gold, asked.benchmark) == ("7", "b")
    bare = GuidedDpo(hint="{question}{hint}", hint_lines=2)
    assert asked.id not in (problem.id, hinted(problem, bare).id)


def test_a_generated_product_begins_as_it_is_demonstrated():
    """47 * 63 = 47 * 60 + 47 * 3: two of three steps, as the preset `tiny` shows them."""
    config = load(["tiny"], {"rl": {"algo": "guided-dpo"}}).config
    problem = Arithmetic.from_data(config.data).problems("training")[0]
    a, b = map(int, problem.question.removesuffix("=?").split("*"))
    tens, units = b - b % 10, b % 10
    assert hinted(problem, config.rl).question == (
        f"{a}*{b}=?<start_working_out>S:{a}*{tens}={a * tens};{a}*{units}={a * units};"
    )


def test_a_files_column_of_working_is_kept_beside_the_problem(tmp_path):
    file = tmp_path / "mine.jsonl"
    file.write_text('{"question": "1+1", "gold": 2, "steps": "one\\ntwo", "level": 3}\n')
    source = SourceSection(name=str(file), fields={"working": "steps"})
    (problem,) = load_problems(source.name, DataSection(), source.fields)
    assert problem.working == "one\ntwo"
    assert "steps" not in problem.meta
    GUIDED.require_problems([problem], source)


@pytest.mark.parametrize(
    ("working", "fields", "said"),
    [
        (None, {}, "mine.jsonl has no worked solutions, and"),
        (None, {"working": "steps"}, "no worked solutions in its column 'steps'"),
        ("7", {}, "worked solutions of a single line only"),
    ],
)
def test_data_without_hints_is_refused_by_name(working, fields, said):
    problems = [Problem(str(i), "mine.jsonl", "q", "7", working=working) for i in range(3)]
    with pytest.raises(DataError, match=said) as refused:
        GUIDED.require_problems(problems, SourceSection(name="mine.jsonl", fields=fields))
    assert "data.rl.fields.working=COLUMN" in refused.value.next_step
