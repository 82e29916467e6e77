""""""

import json

import numpy as np
import pytest
from shown_runs import SETTINGS, by_chance, stored_run

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.evaluate import Evaluation
from sage_cli.evaluation.guess import guess_curve, guess_label
from sage_cli.evaluation.measure import NamedModels, measure_passk
from sage_cli.problems.problem import Problem
from sage_cli.progress import Silent

PROBLEMS = [Problem("a", "mine", "2 + 2", "4"), Problem("b", "mine", "2 + 3", "5")]


def written(folder, body):
    """A file with the function `chance`."""
    file = folder / "mine.py"
    file.write_text(f"def chance(question, gold):\n    {body}\n")
    return f"{file}:chance"


def test_guesses_are_independent(tmp_path):
    name = written(tmp_path, "return 0.5 if gold == '4' else 0")
    found = guess_curve(name, PROBLEMS, (1, 2, 3))
    # (1/2 + 0) / 2, (3/4 + 0) / 2, (7/8 + 0) / 2
    assert found.mean_K == pytest.approx([1 / 4, 3 / 8, 7 / 16], abs=1e-14)
    assert found.problems == 2
    sure = guess_curve(written(tmp_path, "return 1"), PROBLEMS, (1, 5))
    assert sure.mean_K == pytest.approx([1, 1], abs=1e-12)
    assert guess_label(name) == "guess (chance)"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return 2", "returned 2 for problem a"),
        ("return -0.1", "returned -0.1 for problem a"),
        ("return float('nan')", "returned nan for problem a"),
        ("return None", "returned None for problem a"),
        ("return 1 / (gold == '4')", "failed on problem b: ZeroDivisionError"),
    ],
)
def test_what_is_no_probability_names_the_problem(tmp_path, body, said):
    with pytest.raises(ConfigurationError, match=said):
        guess_curve(written(tmp_path, body), PROBLEMS, (1,))


def test_a_guess_is_a_function_or_a_file():
    with pytest.raises(ConfigurationError, match="--guess 'sft-model' is neither FILE"):
        guess_curve("sft-model", PROBLEMS, (1,))


def sampled(folder, correct_of):
    """A file with a row for each sampled guess of a question."""
    rows = [
        {"question": question, "completion": "4", "gold": "?", "correct": correct}
        for question, verdicts in correct_of.items()
        for correct in verdicts
    ]
    file = folder / "guesses.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def test_sampled_guesses_are_matched_by_question(tmp_path):
    name = sampled(
        tmp_path,
        {
            "2 + 3": [True, False, False, False],
            "9 + 9": [True],
            "2 + 2": [True, True, False, False],
        },
    )
    found = guess_curve(name, PROBLEMS, (1, 2, 8))
    # pass@2 of 2 in 4 is 1 - 1/6, of 1 in 4 it is 1 - 3/6; pass@8 of four samples is undefined
    assert found.mean_K[:2] == pytest.approx([(2 / 4 + 1 / 4) / 2, (5 / 6 + 1 / 2) / 2], abs=1e-14)
    assert np.isnan(found.mean_K[2])
    assert found.low_K[0] < found.mean_K[0] < found.high_K[0]
    assert guess_label(name) == "guess (guesses)"


def test_sampled_guesses_of_some_problems_are_no_baseline_of_all(tmp_path):
    with pytest.raises(ConfigurationError, match="has 1 of the 2 problems of the table"):
        guess_curve(sampled(tmp_path, {"2 + 3": [True, False]}), PROBLEMS, (1,))


def test_a_guess_stands_in_the_table_and_the_figure_of_pass_at_k(tmp_path):
    root = tmp_path / "runs"
    run = stored_run(root, "x", "1", by_chance(4))
    config = load(("tiny",), {**SETTINGS}, [f"run.root={root}"]).config
    models = NamedModels(Evaluation(config), [run.id], {})
    report = measure_passk(models, Silent(), guess=written(tmp_path, "return 0.5"))
    document = report.document
    curves = {curve["policy"]: curve["pass@k"] for curve in document.data["curves"]}
    assert curves["guess (chance)"][:2] == pytest.approx([0.5, 0.75], abs=1e-14)
    assert str(document.tables[0].rows[0].cells[-1]) == "0.500"
    assert "guess (chance)" in (report.folder / "passk.svg").read_text()
