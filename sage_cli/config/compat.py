"""`rl.compat: official`: the settings in which the authors' code differs from ours, by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

OFFICIAL = "official"


@dataclass(frozen=True)
class Difference:
    """One setting and the authors' value of it.

    `concerns` names the choices (an algorithm, guides, a tuning) to which the setting matters;
    empty where it matters to every run.
    """

    setting: str
    value: Any
    concerns: tuple[str, ...] = ()


DIFFERENCES = (
    # older TRL switched the adapter off for the reference; TRL 1 copies it
    Difference("anchor.reference", "base", ("lora",)),
    # one counter, moved on by each call of the loss
    Difference("guide.schedule_clock", "loss_call", ("random", "token")),
    # Table 8's batch of 8 is 8 completions
    Difference("rl.prompts_per_step", 1),
    # their DAPO sets epsilon_high and nothing else of it
    Difference("rl.dynamic_sampling", False, ("dapo",)),
    Difference("rl.overlong_punishment", False, ("dapo",)),
    # Math-Verify is given the completion, not what stands between the tags
    Difference("grading.mode", "math-verify"),
    Difference("grading.extract", "text"),
)
"""What docs/fidelity.md lists under `--compat official`."""


def official_settings(choices: Iterable[str]) -> dict[str, Any]:
    """The authors' values by dotted name, for a run of these choices (algorithm, guide, tuning)."""
    chosen = set(choices)
    return {
        difference.setting: difference.value
        for difference in DIFFERENCES
        if not difference.concerns or chosen.intersection(difference.concerns)
    }
