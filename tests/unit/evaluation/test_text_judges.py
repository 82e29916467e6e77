"""Second grades: of workings, by a function and by a server's model, counted with the first."""

import json
import re
from pathlib import Path

import pytest
from endpoint import Endpoint, serving
from random_model import save_scratch
from scripted import Scripted, solution
from typer.testing import CliRunner

from sage_cli.cli.app import app
from sage_cli.config.load import load
from sage_cli.evaluation import policy_sampler
from sage_cli.evaluation.text_judges import verdict_of
from sage_cli.problems.arithmetic import Arithmetic, working_out

SIZE = ["model.hidden=16", "model.layers=1", "model.heads=2", "model.feed_forward=32"]
JUDGE = """
def judge(question, completion, gold):
    return not completion.startswith("D") and gold in completion and question.endswith("=?")

def broken(question, completion):
    return True
"""


@pytest.mark.parametrize(
    ("completion", "right"),
    [
        ("S:47*60=2820;47*3=141;2820+141=2961", True),
        ("<start_working_out>R:63*40=2520;63*7=441;2520+441=2961<end_working_out>", True),
        ("S:47*3=141;47*60=2820;141+2820=2961", True),
        ("S:47*20=940;47*43=2021;940+2021=2961", True),  # other parts of the factor
        ("S:47*60=2820;47*3=141;141+2820=2961", False),  # not in the order of its steps
        ("D:47*63=2961", False),
        ("47*60=2820;47*3=141;2820+141=2961", False),  # nothing is announced
        ("S:47*60=2820;47*3=151;2820+151=2961", False),  # two wrong steps, the right result
        ("S:47*60=2820;47*3=141;2820+151=2961", False),
        ("S:47*60=2820;47*3=141;2820+141=2971", False),
        ("S:47*60=2820;47*4=188;2820+188=3008", False),  # true, and another product
        ("S:9*300=2700;9*29=261;2700+261=2961", False),  # true, and the right one by luck
        ("S:47*60=2820;63*3=189;2820+189=3009", False),
        ("S:47*60=2820;47+3=50;2820+50=2870", False),
        ("S:47*60=2820", False),
        ("S:", False),
        ("", False),
    ],
)
def test_a_working_of_arithmetic_is_checked_exactly(completion, right):
    assert Arithmetic.working_is_right("47*63=?", completion) is right


@pytest.mark.parametrize("strategy", "SRD")
def test_demonstrations_are_right_workings_but_for_guesses(strategy):
    for a, b in ((47, 63), (60, 12), (11, 11)):
        text = working_out(strategy, a, b)
        assert Arithmetic.working_is_right(f"{a}*{b}=?", text) is (strategy != "D")


class Solving(Scripted):
    """A sampler of four texts: right by a working, by two errors, by a guess; wrong.

    The model `guessing` has the same answers, all of them guesses.
    """

    def text(self, request, index):
        a, b = map(int, re.findall(r"(\d+)\*(\d+)=\?", request.prompt)[-1])
        right = working_out("S", a, b)
        guess = working_out("D", a, b)
        texts = (right, right.replace("*", "*1", 1), guess, right)
        if Path(self.setup.model).name == "guessing":
            texts = (guess,) * 4
        return f"{texts[index]}<end_working_out>{solution(a * b + (index == 3))}"


@pytest.fixture
def passk(tmp_path, monkeypatch):
    """`sage passk` of a model with four samples of three problems."""
    monkeypatch.setattr(policy_sampler, "build_sampler", Solving)
    config = load(sets=SIZE).config
    save_scratch(config.model, config.prompt.tags, [], tmp_path / "m")
    (tmp_path / "mine.py").write_text(JUDGE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def typed(*more, code=0):
        words = ["passk", "m", "--preset", "tiny", "--limit", "3", "--n", "4", *more, "--json"]
        result = CliRunner().invoke(app, [*words, "--k", "1,2"])
        assert result.exit_code == code, result.output
        return json.loads(result.stdout) if code == 0 else result.output

    return typed


def curves(report):
    return {curve["policy"]: curve["pass@k"][:2] for curve in report["curves"]}


BY_ANSWER = pytest.approx([0.75, 1.0])  # three of four; no two of four are wrong


def test_samples_are_counted_that_are_right_by_a_right_working(passk):
    # one of four: pass@2 = 1 - C(3, 2) / C(4, 2)
    expected = {"m": BY_ANSWER, "m, correct by the worked solution": pytest.approx([0.25, 0.5])}
    report = passk("--grade", "working")
    assert curves(report) == expected
    # of the nine right samples three have a right working; the wrong ones are not judged
    assert report["curves"][1]["seeds"][0]["statuses"] == {"right": 3, "wrong": 6}


def test_a_difference_is_of_the_samples_that_both_judges_find_right(passk, tmp_path):
    passk()
    config = load(sets=[*SIZE, "model.seed=2"]).config
    save_scratch(config.model, config.prompt.tags, [], tmp_path / "guessing")
    words = ["compare", "m", "guessing", "--preset", "tiny", "--limit", "3", "--n", "4", "--json"]
    for more, title, difference in (
        # both have three right answers of four
        ((), "arithmetic", [0, 0]),
        # 1/4 and 3/6 of m's samples and pairs have a right working, none of the guesses
        (("--second-judge", "working"), "arithmetic, correct by the worked solution", [0.25, 0.5]),
    ):
        result = CliRunner().invoke(app, [*words, "--k", "1,2", *more])
        assert result.exit_code == 0, result.output
        (compared,) = json.loads(result.stdout)["comparisons"].items()
        assert compared[0] == title
        assert compared[1]["difference"][:2] == pytest.approx(difference)


def test_a_function_sees_question_completion_and_gold_once(passk, monkeypatch):
    expected = {"m": BY_ANSWER, "m, correct by mine.py:judge": pytest.approx([0.5, 5 / 6])}
    assert curves(passk("--grade", "mine.py:judge")) == expected
    monkeypatch.setattr("sage_cli.grading.grader.WorkerPool.run", None)  # stored
    assert curves(passk("--grade", "mine.py:judge")) == expected
    assert curves(passk()) == {"m": BY_ANSWER}


def test_a_function_that_fails_gives_errors_and_says_why(passk, caplog):
    report = passk("--grade", "mine.py:broken")
    assert curves(report)["m, correct by mine.py:broken"] == [0, 0]
    assert report["curves"][1]["seeds"][0]["statuses"] == {"error": 9}
    assert "takes 2 positional arguments but 3 were given" in caplog.text


def test_a_servers_model_is_asked_about_right_samples(passk):
    def says(body, usual):
        question, _, text = body["messages"][-1]["content"].partition("Solution:\n")
        (asked,) = re.findall(r"\d+\*\d+=\?", question)
        right = Arithmetic.working_is_right(asked, text)
        reply = "right" if right else "wrong" if "D:" in text else "hard to say: right?"
        reply = f"Verdict: wrong?</think>It isn't wrong.\n**Verdict:** {reply}."
        choice = {"message": {"content": reply}, "finish_reason": "stop"}
        return 200, {"choices": [choice], "usage": {"completion_tokens": 3}}, {}

    judge = Endpoint(models=[{"id": "judge-8b"}], says=says)
    with serving(judge):
        report = passk("--grade", f"judge-8b@{judge.address}")
    assert curves(report)["m, correct by judge-8b"] == pytest.approx([0.25, 0.5])
    statuses = report["curves"][1]["seeds"][0]["statuses"]
    assert statuses == {"right": 3, "wrong": 3, "error": 3}
    assert judge.bodies[0]["temperature"] == 0
    assert {body["model"] for body in judge.bodies} == {"judge-8b"}


@pytest.mark.parametrize(
    ("reply", "grade"),
    [
        ("Verdict: right", "right"),
        ("Step 2 looks wrong, but is right.\n\n**Verdict: wrong**\n", "wrong"),
        ("- VERDICT: Right.\nStep 3 was the hard one.", "right"),
        ("Verdict: right\nSo much for it.\nVerdict: right", "right"),
        ("Verdict: right\nBut step 2...\nVerdict: wrong", "error"),
        ("Verdict: not right", "error"),
        ("Verdict: right or wrong", "error"),
        ("Verdict: right, but for step 2", "error"),
        ("Verdict: wrong, not right", "wrong"),
        ("It is wrong, not right", "error"),
        ("That is not right", "error"),
        ("My verdict: right", "right"),
        ("Final verdict: right", "right"),
        ("Verdict: Right!", "right"),
        ("**Verdict:** right", "right"),
        ("__Verdict:__ wrong", "wrong"),
        (r"\boxed{Verdict: right}", "right"),
        ("Verdict: right because each step holds", "right"),
        ("Final verdict: right\nVerdict: wrong", "error"),
        ("Verdict: `right` or `wrong`", "error"),
        ("Verdict: right-hand side unclear", "error"),
        ("The verdict is not right", "error"),
        ("<think>\nVerdict: right", "error"),
        ("right", "error"),
        ("", "error"),
    ],
)
def test_a_reply_is_read_by_its_verdict_line_alone(reply, grade):
    assert verdict_of(reply) == grade


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("--grade", "workings"), "there is no second judge 'workings'"),
        (("--grade", ""), "there is no second judge ''"),
        (("--grade", "working", "-b", "kk-generated"), "'working' for kk-generated"),
        (("--grade", "none.py:judge"), "there is no Python file none.py"),
        (("--grade", "mine.py:other"), "it defines judge, broken"),
        (("--grade", "working", "--temperature", "1,2"), "at one temperature"),
        (("--grade", "working", "--dry-run"), "has no plan"),
    ],
)
def test_a_judge_that_cannot_be_asked_is_refused_before_sampling(passk, more, why, tmp_path):
    assert why in " ".join(passk(*more, code=2).replace("│", " ").split())
    assert not (tmp_path / "runs" / "samples").exists()
