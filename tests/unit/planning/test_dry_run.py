"""The stages of a command, described."""

from __future__ import annotations

import pytest

from sage_cli.errors import ConfigurationError
from sage_cli.planning.dry_run import Described, Gpu, Stage, plan_of


class Told(Stage):
    """A stage of a name that takes some memory, or none."""

    def __init__(self, name: str, gib: float | None) -> None:
        self.name, self.gib = name, gib

    def describe(self) -> Described:
        return Described(self.name, {"state": "not begun"})

    def memory(self, gpu: Gpu) -> Described | None:
        if self.gib is None:
            return super().memory(gpu)
        return Described(f"memory of {self.name} on {gpu.name}", {"GiB": self.gib})


STAGES = [Told("start", None), Told("training", 3.0)]


def test_memory_follows_the_stages_and_is_left_out_where_nothing_is_computed() -> None:
    assert [one.title for one in plan_of(STAGES)] == ["start", "training"]
    found = plan_of(STAGES, "L4-24g")
    assert [one.title for one in found] == ["start", "training", "memory of training on l4-24g"]
    assert found[-1].facts == {"GiB": 3.0}


def test_a_card_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no GPU 'l5-24g' is known"):
        plan_of(STAGES, "l5-24g")
