"""`rl.guided`: guided retries, and what can't be said beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, field_validator, model_validator

from sage_cli.config.base import Section
from sage_cli.config.model import QUESTION

if TYPE_CHECKING:
    from sage_cli.config.schema import SageConfig

HINT = "{hint}"


class GuidedSection(Section):
    """Guided retries (`rl.loss=dpo`): failed problems with a hint, then SFT, then DPO.

    Pairs of a step are `rl.prompts_per_step`, tries of a problem `rl.rollouts_per_prompt`.
    """

    hint: str = "{question}\n\nHere is how a solution begins:\n{hint}"
    """What a failed problem is asked as: {question} is its text, {hint} where its worked solution
    begins."""
    hint_lines: int = Field(2, ge=1)
    """Lines of the worked solution in the hint; its last line is never shown."""
    line_end: str = Field("\n", min_length=1)
    """What ends a line of the worked solutions: a line break, or as `;` in `tiny`."""
    continued: bool = False
    """The policy goes on where the hint ends, so that what `hint` adds to {question} is the
    beginning of its answer and stays in it: for models that follow no instructions."""
    sft_share: float = Field(0.2, ge=0, le=1)
    """Share of the right completions without a hint that SFT takes; 0 leaves SFT out."""
    sft_epochs: int = Field(5, ge=1)
    """Passes over them."""
    preference_rate: float = Field(1.0, gt=0)
    """DPO's learning rate in units of `rl.learning_rate`."""
    sft_rate: float = Field(10.0, gt=0)
    """SFT's learning rate in units of DPO's."""
    preference_beta: float = Field(0.1, gt=0)
    """DPO's weight of the log-ratio; the method's authors don't name theirs."""

    def rates(self, learning_rate: float) -> tuple[float, float]:
        """DPO's learning rate and SFT's, where this is `rl.learning_rate`."""
        preference = self.preference_rate * learning_rate
        return preference, self.sft_rate * preference

    @field_validator("hint")
    @classmethod
    def _has_its_places(cls, text: str) -> str:
        for place in (QUESTION, HINT):
            if place not in text:
                raise ValueError(f"must hold {place}")
        return text

    @model_validator(mode="after")
    def _answer_follows_question(self) -> GuidedSection:
        if self.continued and not self.hint.startswith(QUESTION):
            raise ValueError(f"continued takes what follows {QUESTION}, and hint begins otherwise")
        return self


def beside_dpo(config: SageConfig) -> list[str]:
    """What of other sections has no place beside pairs."""
    rl, found = config.rl, []
    if rl.loss != "dpo":
        return []
    if config.guide.name != "none":
        found.append(
            f"guide '{config.guide.name}' reshapes the anchor of a policy gradient, and rl.loss "
            "'dpo' has none: what holds it is the policy as SFT leaves it (use --guide none)"
        )
    elif config.anchor.kl != "none":
        found.append(
            f"anchor.kl '{config.anchor.kl}' is a term of a policy gradient, and rl.loss 'dpo' "
            "holds the policy by rl.guided.preference_beta (use --kl none)"
        )
    if rl.processes > 1 or rl.accelerate is not None:
        found.append("rl.loss 'dpo' trains in one process (leave out --processes and --accelerate)")
    if rl.guided.continued and config.prompt.format != "plain":
        found.append(
            "rl.guided.continued has the answer begin where the question ends, and prompt.format "
            f"'{config.prompt.format}' puts more between them (use rl.guided.continued=false)"
        )
    return found


def pairs_at_once(pairs: int, micro_batch: int | None) -> int:
    """How many of a step's pairs go through the model together, each of two completions.

    The largest divisor of `pairs` that is no more than `micro_batch` completions, one at least.
    """
    most = pairs if micro_batch is None else min(pairs, max(1, micro_batch // 2))
    return max(size for size in range(1, most + 1) if pairs % size == 0)
