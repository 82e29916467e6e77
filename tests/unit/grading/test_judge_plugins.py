"""Judges that other packages register: found here and in worker processes, refused when broken."""

import os
import subprocess
import sys

import pytest
from judge_package import PARITY, install

from sage_cli.errors import ConfigurationError
from sage_cli.grading import GRADING_VERSION, Grader
from sage_cli.grading.judges import Judge, find_judge, package_of
from sage_cli.settings.judge_names import BUILT_IN_JUDGES, MODES, judge_names


def tagged(answer):
    return f"<SOLUTION>{answer}</SOLUTION>"


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """Register judges: `plugin(module, source, entry_points)`."""
    monkeypatch.syspath_prepend(tmp_path)

    def register(module, source, entry_points):
        install(tmp_path, module, source, entry_points)

    return register


def test_every_built_in_judge_is_found_in_every_mode():
    judges = [find_judge(name, mode) for name in BUILT_IN_JUDGES for mode in MODES]
    assert all(isinstance(judge, Judge) for judge in judges)
    # math is judged differently in the two modes, roles alike
    assert [type(judge).__name__ for judge in judges] == [
        "StrictMath", "PlainMathVerify", "Roles", "Roles",
    ]  # fmt: skip
    assert [package_of(name) for name in BUILT_IN_JUDGES] == [None, None]


@pytest.mark.slow
def test_a_registered_judge_is_found_here_and_in_a_worker(plugin):
    plugin("parity_one", PARITY, "parity-one = parity_one:Parity")
    assert judge_names() == ("math", "roles", "parity-one")
    answers = ["4", "5", "even", "1234", "12345", "1000000", "1000001"]
    with Grader(workers=1, judge="parity-one", timeout_s=60) as grader:
        grades = grader.grade_many(("2", tagged(answer)) for answer in answers)
        assert len(grader.pool.pids) == 1
    # the last two: a TimeoutError, and a status that is none
    assert [grade.status for grade in grades] == [
        "right", "wrong", "unparseable", "right", "wrong", "timeout", "error",
    ]  # fmt: skip
    assert grader.identity.version == f"{GRADING_VERSION}, parity-one 0.3"


@pytest.mark.slow
def test_a_judge_on_the_environment_s_path_works_from_the_command_line(tmp_path):
    install(tmp_path / "lib", "parity_two", PARITY, "parity-two = parity_two:Parity")
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"gold": "2", "completion": "<SOLUTION>1234</SOLUTION>"}\n')
    path = os.pathsep.join([*sys.path, str(tmp_path / "lib")])
    script = "from sage_cli.cli.app import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "grade", str(rows), "--judge", "parity-two"],
        env=os.environ | {"PYTHONPATH": path}, cwd=tmp_path, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "right 1" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("name", "source", "entry", "what"),
    [
        ("absent", "", "absent = absent.nowhere:Judge", "ModuleNotFoundError: No module named"),
        ("broken", "import nothing_of_this_name", "broken = broken:Judge", "ModuleNotFoundError"),
        ("nameless", "", "nameless = nameless:Judge", "AttributeError: module 'nameless' has no"),
        ("half", PARITY.replace("def full", "def fully"), "half = half:Parity",
         "doesn't define full"),
        ("idle", PARITY.replace("def ", "def un"), "idle = idle:Parity",
         "doesn't define full and quick"),
        ("wordy", "def make(): return 'a judge'", "wordy = wordy:make",
         "makes a str and not a Judge"),
        ("greedy", PARITY + "    def __init__(self, x): ...", "greedy = greedy:Parity",
         "can't be made without arguments: TypeError"),
        ("falling", "def make(): raise OSError('no model')", "falling = falling:make",
         "can't be made without arguments: OSError: no model (__init__.py, line 1)"),
    ],
)  # fmt: skip
def test_what_is_no_judge_is_one_error_with_its_name(plugin, name, source, entry, what):
    plugin(name, source, entry)
    with pytest.raises(ConfigurationError) as caught:
        Grader(judge=name)
    target = entry.partition(" = ")[2]
    assert caught.value.cause.startswith(f"judge '{name}' ({target}, {name} 0.3) ")
    assert what in caught.value.cause
    imported = "can't be imported" not in caught.value.cause
    assert ("quick and full" if imported else "reinstall") in caught.value.next_step


def test_two_packages_with_one_name_are_refused(plugin):
    plugin("first", PARITY, "twice = first:Parity")
    plugin("second", PARITY, "twice = second:Parity")
    with pytest.raises(ConfigurationError, match=r"'twice' is registered twice, by \w+ 0.3 and by"):
        find_judge("twice", "strict")


@pytest.mark.slow
def test_a_judge_that_fails_is_named_once(plugin, caplog):
    seven = 'if answer == "7":\n            1 / 0\n        '
    broken = PARITY.replace("if not answer.isdecimal", f"{seven}if not answer.isdecimal")
    plugin("parity_three", broken, "parity-three = parity_three:Parity")
    with Grader(workers=1, judge="parity-three", timeout_s=60) as grader:
        answers = ("7", "7", "1000001", "7")
        statuses = [grader.grade("2", tagged(answer)).status for answer in answers]
        assert statuses == ["error"] * 4
    assert caplog.messages == [
        "judge 'parity-three' (parity_three) fails, and such answers count as errors; the first: "
        "ZeroDivisionError: division by zero"
    ]
    caplog.clear()
    with Grader(workers=1, judge="parity-three", timeout_s=60) as grader:  # in a worker
        assert grader.grade("2", tagged("1000001")).status == "error"
    assert "the first: 'perhaps' is no status" in caplog.text


def test_a_plug_in_does_not_replace_a_built_in_judge(plugin):
    plugin("usurper", PARITY, "math = usurper:Parity")
    assert type(find_judge("math", "strict")).__name__ == "StrictMath"
    assert package_of("math") is None
