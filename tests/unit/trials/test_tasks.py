"""The words of tasks: each names what its result is looked up by."""

from pathlib import Path

from sage_cli.trials.suites.overrides import Overrides
from sage_cli.trials.suites.planned import planned

SUITE = """\
title: Mine
methods: {anchor: grpo}
initial_policies: [41, 42]
measured: exact
temperatures: [1.2345678, 1.5]
k: 1,8
"""


def test_a_temperature_is_typed_as_it_is_looked_up(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(SUITE)
    plan = planned(str(file), Overrides(("tiny",), (), None, {"run": {"root": tmp_path}}))
    words = next(task.words for task in plan.tasks if "exact" in task.words)
    typed = words[words.index("--temperature") + 1]
    assert [float(one) for one in typed.split(",")] == [1.0, 1.2345678, 1.5]
    assert typed.startswith("1,")
