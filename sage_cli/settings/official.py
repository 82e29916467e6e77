"""List the settings in which `compat: official` follows the authors' code instead of the paper."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

OFFICIAL = "official"
OFFICIAL_SYSTEM_PROMPT = (
    "You are given a problem.\nThink about the problem and provide your working out.\n"
    "Place it between <start_working_out> and <end_working_out>.\n"
    "Then, provide your solution between <SOLUTION></SOLUTION>"
)
"""The wording of the authors' code; Appendix E.4 words it a little differently."""
WARM_UP = "warm-up"


@dataclass(frozen=True)
class OfficialDifference:
    """One setting and the authors' value of it.

    `concerns` names the choices (an algorithm, guides, a tuning, prompt formats, or `warm-up`: a
    published model that is first trained on demonstrations) to which the setting matters; empty
    where it matters to every run.
    """

    setting: str
    value: Any
    concerns: tuple[str, ...] = ()


_GRADING = (
    # Math-Verify is given the completion, not what stands between the tags
    OfficialDifference("grading.mode", "math-verify"),
    OfficialDifference("grading.extract", "text"),
    OfficialDifference("grading.unfinished", "graded"),
)

DIFFERENCES = (
    # older TRL switched the adapter off for the reference; TRL 1 copies it. Of a model that is
    # tuned in full it loads the reference by name: as published
    OfficialDifference("anchor.reference", "pre-sft", ("lora", WARM_UP)),
    # one counter, moved on by each call of the loss
    OfficialDifference("guide.schedule_clock", "loss_call", ("random", "token")),
    # Table 8's batch of 8 is 8 completions
    OfficialDifference("rl.prompts_per_step", 1),
    # generation batches of 16 completions, optimiser batches of 8
    OfficialDifference("rl.steps_per_generation", 2),
    # Transformers' "constant", which ignores the warm-up ratio beside it
    OfficialDifference("rl.scheduler", "constant"),
    OfficialDifference("rl.warmup_ratio", 0.0),
    OfficialDifference("data.rl.limit", None),
    OfficialDifference("prompt.system", OFFICIAL_SYSTEM_PROMPT, ("paper", "chat")),
    # what stands where their configuration names no length, as for the base model
    OfficialDifference("rollout.max_tokens", 1024, (WARM_UP,)),
    OfficialDifference("data.sft.measured", "conversation", (WARM_UP,)),
    OfficialDifference("sft.loss", "text", (WARM_UP,)),
    OfficialDifference("sft.seed", 42, (WARM_UP,)),
    # their DAPO sets epsilon_high and nothing else of it
    OfficialDifference("rl.dynamic_sampling", False, ("dapo",)),
    OfficialDifference("rl.overlong_buffer", None, ("dapo",)),
    *_GRADING,
)
"""What docs/fidelity.md lists under `--compat official`."""

EVALUATION_DIFFERENCES = (
    # what their evaluation asks; the wording is known in substance only
    OfficialDifference(
        "prompt.user",
        "Problem: {question}\nSolve the problem step by step and give a final numerical answer.",
    ),
    OfficialDifference("evaluation.allow_template_mismatch", True),  # they train without that turn
    OfficialDifference("sampling.top_p", 0.95),
    OfficialDifference("sampling.min_p", 0.0),
    OfficialDifference("sampling.stop_at_answer", False),
    OfficialDifference("grading.tolerance", 0.0),  # Minerva's as well
    *_GRADING,
)
"""What docs/fidelity.md lists under an evaluation with `--compat official`."""


def official_settings(choices: Iterable[str], section: str = "rl") -> dict[str, Any]:
    """Return the authors' values by dotted name, for a run of these choices or an evaluation."""
    chosen = set(choices)
    return {
        difference.setting: difference.value
        for difference in (DIFFERENCES if section == "rl" else EVALUATION_DIFFERENCES)
        if not difference.concerns or chosen.intersection(difference.concerns)
    }
