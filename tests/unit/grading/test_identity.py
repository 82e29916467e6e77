"""What grades are stored by."""

import json
from dataclasses import fields
from importlib.metadata import version

from sage_cli.grading import GRADING_VERSION, Grader, GraderIdentity


def test_every_setting_that_decides_a_grade_is_part_of_it():
    changed = {
        "mode": "math-verify", "judge": "roles", "tolerance": 0.01, "answer_open": "<A>",
        "answer_close": "</A>", "extract": "boxed", "timeout_s": 6, "memory_mb": 512,
    }  # fmt: skip
    plain = Grader().identity
    assert {*changed, "version"} == {field.name for field in fields(GraderIdentity)}
    for name, value in changed.items():
        other = Grader(**{name: value}).identity
        assert getattr(other, name) == value
        assert other != plain
    assert plain.version == str(GRADING_VERSION)


def test_how_many_workers_there_are_is_no_part_of_it():
    assert Grader(workers=1).identity == Grader(workers=7).identity


def test_it_survives_being_stored():
    stored = Grader(tolerance=0.01, boxed=True).identity.mapping()
    assert json.loads(json.dumps(stored)) == stored


def test_another_math_verify_is_another_version():
    """Whoever raises the pin raises GRADING_VERSION, and then this line."""
    assert (GRADING_VERSION, version("math-verify")) == (3, "0.9.0")
