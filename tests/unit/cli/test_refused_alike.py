"""What refuses a training run is said by the command, its dry run and doctor alike.

Each case is typed three ways. None of them may train, and a plan may not pass what is refused.
"""

import json

import pytest

PROSE = {"question": "2+3=?", "answer": "We add 2 and 3. The sum is 5."}
SUM = {"question": "2+3=?", "answer": "5"}
REWARDS = """
def needs_hints(completions, hint):
    return [0.0] * len(completions)
"""

CASES = {
    "no file": ([], ("--data", "absent.jsonl"), "there is no file absent.jsonl"),
    "no column": ([{"a": "2+3=?", "b": "5"}], ("--data", "rows.jsonl"), "no column 'question'"),
    "no gold": (
        [{"question": "2+3=?", "answer": ""}],
        ("--data", "rows.jsonl"),
        "no reference answer",
    ),
    "prose": ([SUM, PROSE], ("--data", "rows.jsonl"), "1 of 2 golds of rows.jsonl are prose"),
    "code": (
        [SUM, {"question": "Sort.", "answer": "5", "ability": "code"}],
        ("--data", "rows.jsonl"),
        "rows that aren't mathematics: code",
    ),
    "two boxes": (
        [{"problem": "2+3=?", "solution": r"So \boxed{5} or \boxed{6}."}],
        ("--data", "rows.jsonl"),
        "boxes of different values",
    ),
    "another solution": (
        [{**SUM, "solution": r"So \boxed{6}."}],
        ("--data", "rows.jsonl"),
        "1 of 1 worked solutions of rows.jsonl end with another answer",
    ),
    "a reward's column": (
        [SUM],
        ("--data", "rows.jsonl", "--set", "rl.rewards=[{name: rewards.py:needs_hints}]"),
        "'hint', and there is no such column",
    ),
    "no reward": (
        [SUM],
        ("--data", "rows.jsonl", "--set", "rl.rewards=[{name: rewards.py:absent}]"),
        "rewards.py defines no 'absent'",
    ),
    "validation on what is trained on": (
        [SUM],
        (
            "--data",
            "rows.jsonl",
            "--set",
            "evaluation.every=1",
            "--set",
            "evaluation.validation=rows.jsonl",
        ),
        "1 of the 1 problems of rows.jsonl are also in the training set rows.jsonl",
    ),
    "none is numeric": (
        [{"question": "a", "answer": "x"}],
        ("--data", "rows.jsonl", "--set", "data.rl.numeric_only=true"),
        "no problem of rows.jsonl has a numeric reference answer",
    ),
    "no file of demonstrations": (
        [SUM],
        ("--data", "rows.jsonl", "--set", "data.sft.name=absent.jsonl"),
        "there is no file absent.jsonl, which data.sft.name names (--set)",
    ),
    "no file of validation": (
        [SUM],
        (
            "--data",
            "rows.jsonl",
            "--set",
            "evaluation.every=1",
            "--set",
            "evaluation.validation=absent.jsonl",
        ),
        "there is no file absent.jsonl, which evaluation.validation names (--set)",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_is_refused_three_ways(sage, case):
    rows, words, complaint = CASES[case]
    folder = sage("config", "algos").folder
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "rewards.py").write_text(REWARDS)
    sage("rl", *words, "--dry-run").refused(complaint)
    sage("rl", *words, "--steps", "1").refused(complaint)
    doctor = sage("doctor", *words)
    assert doctor.code in (1, 2)  # 2 where settings can't even be read
    assert complaint in doctor.words


def test_one_row_of_prose_among_many_is_left_out_and_said(sage, caplog):
    folder = sage("config", "algos").folder
    sums = [{"question": f"{number}+1=?", "answer": str(number + 1)} for number in range(20)]
    rows = "".join(json.dumps(row) + "\n" for row in (*sums, PROSE))  # 1 of 21 is 4.8 %
    (folder / "rows.jsonl").write_text(rows)
    for words in (("rl", "--dry-run"), ("doctor",)):
        caplog.clear()
        assert sage(*words, "--data", "rows.jsonl").code == 0
        assert "left out of training: 1 of 21 golds of rows.jsonl are prose" in caplog.text


OF_ITS_OWN = (
    "no file of demonstrations",
    "validation on what is trained on",
    "no file of validation",
)
"""A sweep validates on the problems that it chooses by."""


@pytest.mark.parametrize("case", [name for name in CASES if name not in OF_ITS_OWN])
def test_a_sweep_is_refused_as_its_runs_are(sage, case):
    rows, words, complaint = CASES[case]
    folder = sage("config", "algos").folder
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "rewards.py").write_text(REWARDS)
    dev = ("--set", "sweep.benchmark=arithmetic-dev")
    sage("sweep", "--space", "tau=0.1|0.2", *words, *dev, "--dry-run").refused(complaint)
    sage("sweep", "--space", "tau=0.1|0.2", *words, *dev).refused(complaint)


def test_a_sweep_chooses_by_no_problem_that_it_trains_on(sage):
    words = (
        "sweep",
        "--space",
        "tau=0.1|0.2",
        "--data",
        "rows.jsonl",
        "--set",
        "sweep.benchmark=rows.jsonl",
    )
    folder = sage("config", "algos").folder
    (folder / "rows.jsonl").write_text(json.dumps(SUM))
    for typed in (sage(*words, "--dry-run"), sage(*words)):
        typed.refused("1 of the 1 problems of rows.jsonl are also in the training set")


def test_a_sweep_says_which_setting_names_the_file_that_it_chooses_by(sage):
    words = ("sweep", "--space", "tau=0.1|0.2", "--set", "sweep.benchmark=absent.jsonl")
    for typed in (sage(*words, "--dry-run"), sage(*words)):
        typed.refused("there is no file absent.jsonl, which sweep.benchmark names (--set)")


@pytest.mark.parametrize("command", [("rl",), ("sweep", "--space", "tau,rho")])
def test_rows_on_the_hub_are_left_unread_by_every_plan(sage, command):
    typed = sage(*command, "-p", "qwen2.5-math-7b", "--dry-run")
    assert typed.code == 0, typed.words
    assert "not read: it has no local copy" in typed.words


@pytest.mark.parametrize("command", ["rl", "doctor"])
def test_the_advice_is_in_the_flags_of_the_command(sage, command):
    folder = sage("config", "algos").folder
    (folder / "rows.jsonl").write_text(json.dumps({"a": "2+3=?", "b": "5"}))
    words = sage(command, "--data", "rows.jsonl").words
    assert "--question-field a --gold-field b" in words
    assert "evaluation.fields" not in words


@pytest.mark.parametrize("words", [("passk",), ("eval",), ("passk", "--temperature", "0.5,1")])
def test_a_plan_of_measuring_tells_the_cost_and_that_there_is_no_run_yet(sage, words):
    """The cost is asked before anything is trained, so that the plan is made, and says it."""
    cause = "contains no finished run to measure"
    sage(*words).refused(cause, "`sage rl` trains a run")
    planned = sage(*words, "--dry-run")
    assert planned.code == 0
    assert "samples" in planned.words
    assert "not ready: without --dry-run, this command is refused now, because" in planned.words
    assert cause in planned.words
    answer = sage(*words, "--dry-run", "--json").answer
    refused = json.loads(sage(*words, "--json").stdout)
    assert answer["ready"] is False
    assert answer["stages"]
    assert answer["error"]["exit_code"] == 2
    assert answer["error"]["next_step"] == refused["error"]["next_step"]
    assert cause in answer["error"]["cause"]


def test_a_plan_that_can_be_carried_out_is_ready(sage):
    assert sage("rl", "--dry-run", "--json").answer["ready"] is True
    assert "not ready" not in sage("rl", "--dry-run").words
