""""""

import pytest
from shown_runs import SETTINGS, by_chance, stored_run

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.evaluate import Evaluation, NamedModels, measure_passk
from sage_cli.evaluation.guess import guess_curve, guess_label
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


@pytest.mark.parametrize(("body", "said"), [
    ("return 2", "returned 2 for problem a"),
    ("return -0.1", "returned -0.1 for problem a"),
    ("return float('nan')", "returned nan for problem a"),
    ("return None", "returned None for problem a"),
    ("return 1 / (gold == '4')", "failed on problem b: ZeroDivisionError"),
])  # fmt: skip
def test_what_is_no_probability_names_the_problem(tmp_path, body, said):
    with pytest.raises(ConfigurationError, match=said):
        guess_curve(written(tmp_path, body), PROBLEMS, (1,))


def test_a_guess_is_a_function():
    with pytest.raises(ConfigurationError, match="--guess 'sft-model' is not FILE"):
        guess_curve("sft-model", PROBLEMS, (1,))


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
