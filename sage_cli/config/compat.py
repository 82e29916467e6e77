"""`compat: official` of `rl` and of `evaluation`: where the authors' code differs from ours."""

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
)
"""What docs/fidelity.md lists under `--compat official`."""


EVALUATION_DIFFERENCES = (
    # what their evaluation asks; the wording is known in substance only
    Difference(
        "prompt.user",
        "Problem: {question}\nSolve the problem step by step and give a final numerical answer.",
    ),
    Difference("evaluation.allow_template_mismatch", True),  # they train without that turn
    Difference("sampling.top_p", 0.95),
    Difference("sampling.min_p", 0.0),
    Difference("sampling.stop_at_answer", False),
    Difference("grading.tolerance", 0.0),  # Minerva's as well
)
"""What docs/fidelity.md lists under an evaluation with `--compat official`."""


def official_evaluation_settings() -> dict[str, Any]:
    """The authors' values of an evaluation by dotted name."""
    return {difference.setting: difference.value for difference in EVALUATION_DIFFERENCES}


def official_settings(choices: Iterable[str]) -> dict[str, Any]:
    """The authors' values by dotted name, for a run of these choices (algorithm, guide, tuning)."""
    chosen = set(choices)
    return {
        difference.setting: difference.value
        for difference in DIFFERENCES
        if not difference.concerns or chosen.intersection(difference.concerns)
    }
