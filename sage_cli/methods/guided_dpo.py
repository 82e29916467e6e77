"""Guided retries: failed problems with a hint, then supervised fine-tuning, then DPO."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from sage_cli.methods.method import Beside, Method
from sage_cli.settings.sections.model import QUESTION

HINT = "{hint}"


class GuidedDpo(Method):
    """Guided retries (Da et al. 2025), pairs compared by DPO.

    Pairs of a step are `rl.prompts_per_step`, tries of a problem `rl.rollouts_per_prompt`.
    """

    algo: Literal["guided-dpo"] = "guided-dpo"
    hint: str = "{question}\n\nHere is how a solution begins:\n{hint}"
    """What a problem is asked as with a hint: {question} is its text, {hint} where its worked
    solution begins."""
    line_end: str = Field("\n", min_length=1)
    """What ends a line of the worked solutions: a line break, or as `;` in `tiny`."""
    continued: bool = False
    """The policy goes on where the hint ends, so that what `hint` adds to {question} is the
    beginning of its answer and stays in it: for models that follow no instructions."""
    hint_lines: int = Field(2, ge=1)
    """Lines of the worked solution in the hint; its last line is never shown."""
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

    source = (
        "Da et al. 2025 (arXiv 2506.11425, Agent-RLVR): failed problems are retried with a hint; "
        "right with it is preferred to wrong without"
    )
    fidelity = "reduced"
    differs = (
        "one turn, the worked solution's first lines in place of a teacher; rl.steps steps in "
        "place of one pass; DPO's beta isn't named there"
    )
    kl_without_guide = "none"
    takes_a_guide = False
    needs_whole_model = True

    @field_validator("hint")
    @classmethod
    def _has_its_places(cls, text: str) -> str:
        for place in (QUESTION, HINT):
            if place not in text:
                raise ValueError(f"must hold {place}")
        return text

    @model_validator(mode="after")
    def _answer_follows_question(self) -> GuidedDpo:
        if self.continued and not self.hint.startswith(QUESTION):
            raise ValueError(f"continued takes what follows {QUESTION}, and hint begins otherwise")
        return self

    @property
    def rates(self) -> tuple[float, float]:
        """DPO's learning rate and SFT's."""
        preference = self.preference_rate * self.learning_rate
        return preference, self.sft_rate * preference

    @property
    def pairs_at_once(self) -> int:
        """Return the pairs of a step that go through the model together, two completions each.

        The largest divisor of a step's pairs that is no more than `micro_batch` completions, one
        at least.
        """
        pairs = self.prompts_per_step
        most = pairs if self.micro_batch is None else min(pairs, max(1, self.micro_batch // 2))
        return max(size for size in range(1, most + 1) if pairs % size == 0)

    def refusals(self, beside: Beside) -> list[str]:
        """Return the conflicts with settings that pairs do not use.

        An answer that continues its hint follows the question, without text between them.
        """
        found, kl = super().refusals(beside), beside.anchor.kl
        if self.continued and beside.prompt.format != "plain":
            found.append(
                "rl.continued has the answer begin where the question ends, and prompt.format "
                f"'{beside.prompt.format}' puts more between them (use rl.continued=false)"
            )
        if beside.guide.name != "none":
            found.append(
                f"guide '{beside.guide.name}' reshapes the anchor of a policy gradient, and "
                "rl.algo 'guided-dpo' has none: what holds it is the policy as SFT leaves it (use "
                "--guide none)"
            )
        elif kl != "none":
            found.append(
                f"anchor.kl '{kl}' is a term of a policy gradient, and rl.algo 'guided-dpo' holds "
                "the policy by rl.preference_beta (use --kl none)"
            )
        if self.processes > 1 or self.accelerate is not None:
            found.append(
                "rl.algo 'guided-dpo' trains in one process (leave out --processes and "
                "--accelerate)"
            )
        return found

    def warnings(self) -> list[str]:
        """Return a sentence on the policy that DPO refers to."""
        return ["no KL anchor: DPO holds the policy to what supervised fine-tuning leaves"]

    def describe(self) -> dict[str, Any]:
        """The loss."""
        beta = self.preference_beta
        return {"loss": f"dpo, log-ratio x {beta:g}, against the policy as SFT leaves it"}
