"""Guided retries: failed problems with a hint, then supervised fine-tuning, then DPO."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator, model_validator

from sage_cli.errors import DataError
from sage_cli.methods.loop import Method, OtherSections, Sampled
from sage_cli.settings.prompt import QUESTION
from sage_cli.solution_text import unmarked

if TYPE_CHECKING:
    from sage_cli.settings.data import SourceSection

HINT = "{hint}"
_PLACES = re.compile(r"\{(question|hint)\}")


class GuidedDpo(Method):
    """Guided retries (Da et al. 2025), pairs compared by DPO.

    Pairs of a step are `rl.prompts_per_step`, tries of a problem `rl.rollouts_per_prompt`.
    """

    algo: Literal["guided-dpo"] = "guided-dpo"
    hint: str = "{question}\n\nHere is how a solution begins:\n{hint}"
    """Prompt for a problem with a hint, in which {question} is the problem's text and {hint} the
    beginning of its worked solution."""
    line_end: str = Field("\n", min_length=1)
    """Text that ends a line of a worked solution, for example a line break, or `;` in the preset
    `tiny`."""
    continued: bool = False
    """Whether the policy continues directly after the hint, which then is the beginning of its
    answer. This is meant for models that do not follow instructions."""
    hint_lines: int = Field(2, ge=1)
    """Number of lines of the worked solution in the hint. Its last line is never shown."""
    sft_share: float = Field(0.2, ge=0, le=1)
    """Share of the correct completions without a hint that SFT uses; 0 leaves SFT out."""
    sft_epochs: int = Field(5, ge=1)
    """Number of SFT epochs that are run over these completions."""
    preference_rate: float = Field(1.0, gt=0)
    """Learning rate that DPO has, as a multiple of `rl.learning_rate`."""
    sft_rate: float = Field(10.0, gt=0)
    """Learning rate that SFT has, as a multiple of DPO's."""
    preference_beta: float = Field(0.1, gt=0)
    """Weight of the log-ratio in DPO. The method's authors do not state theirs."""

    source = (
        "Da et al. 2025 (arXiv 2506.11425, Agent-RLVR): failed problems are retried with a hint; "
        "a correct completion with it is preferred to a wrong one without"
    )
    fidelity = "reduced"
    differs = (
        "one turn, the worked solution's first lines in place of a teacher; rl.steps steps in "
        "place of one pass; DPO's beta isn't named there"
    )
    kl_without_guide = "none"
    takes_a_guide = False
    needs_whole_model = True
    keeps_reference = True
    trains_alone = True
    trained_by = "sage_cli.training.guided_retries"

    @field_validator("hint")
    @classmethod
    def _has_its_places(cls, text: str) -> str:
        for placeholder in (QUESTION, HINT):
            if placeholder not in text:
                raise ValueError(f"must contain {placeholder}")
        return text

    @model_validator(mode="after")
    def _answer_follows_question(self) -> GuidedDpo:
        if self.continued and not self.hint.startswith(QUESTION):
            raise ValueError(f"with `continued`, rl.hint must begin with {QUESTION}")
        return self

    @property
    def rates(self) -> tuple[float, float]:
        """DPO's learning rate and SFT's."""
        preference = self.preference_rate * self.learning_rate
        return preference, self.sft_rate * preference

    @property
    def peak_rate(self) -> float:
        """DPO's learning rate."""
        return self.rates[0]

    @property
    def pairs_at_once(self) -> int:
        """Return the pairs of a step that go through the model together, two completions each.

        The largest divisor of a step's pairs that is no more than `micro_batch` completions, one
        at least.
        """
        pairs = self.prompts_per_step
        most = pairs if self.micro_batch is None else min(pairs, max(1, self.micro_batch // 2))
        return max(size for size in range(1, most + 1) if pairs % size == 0)

    @property
    def sampled(self) -> Sampled:
        """Return how many completions tries and retries are."""
        tries = super().sampled.least
        return Sampled(tries, 2 * tries, "problems without a correct try are tried again")

    def hint_of(self, working: str | None) -> str | None:
        """Return the first lines of a worked solution, never its last, which has the answer.

        Blank ones aren't counted. None without a solution of two lines.
        """
        pieces = unmarked(working or "").split(self.line_end)
        written = [line for line, piece in enumerate(pieces) if piece.strip()]
        if len(written) < 2:
            return None
        last = written[:-1][: self.hint_lines][-1]
        return self.line_end.join([*pieces[: last + 1], ""])

    def asked_with_hint(self, question: str, working: str | None) -> str | None:
        """Return the question with the beginning of its worked solution; None without one."""
        hint = self.hint_of(working)
        if hint is None:
            return None
        values = {"question": question, "hint": hint}
        return _PLACES.sub(lambda placeholder: values[placeholder[1]], self.hint)

    def require_problems(self, workings: Sequence[str | None], source: SourceSection) -> None:
        """Raise DataError where none of the worked solutions has a hint."""
        if any(map(self.hint_of, workings)):
            return
        fields = source.fields.working
        solved = any(workings)
        column = f" in its column '{fields}'" if fields else ""
        lack = (
            "worked solutions of a single line only" if solved else f"no worked solutions{column}"
        )
        raise DataError(
            f"{source.name} has {lack}, and rl.algo '{self.algo}' gives the first lines of one as "
            "its hint",
            "name problems with solutions of several lines (openmathreasoning-mini), or a file "
            "and its column: --set data.rl.name=FILE --set data.rl.fields.working=COLUMN; "
            "rl.line_end says what ends a line",
        )

    def refusals(self, beside: OtherSections) -> list[str]:
        """Return the conflicts with settings that pairs do not use.

        An answer that continues its hint follows the question, without text between them.
        """
        refusals = super().refusals(beside)
        if self.continued and beside.prompt.format != "plain":
            refusals.append(
                "rl.continued has the answer begin where the question ends, and prompt.format "
                f"'{beside.prompt.format}' puts more between them (use rl.continued=false)"
            )
        if self.processes > 1 or self.accelerate is not None:
            refusals.append(
                "rl.algo 'guided-dpo' trains in one process (leave out --processes and "
                "--accelerate)"
            )
        return refusals

    def warnings(self) -> list[str]:
        """Return a sentence on the policy that DPO refers to."""
        return ["there is no KL anchor: DPO compares the policy with the model that SFT leaves"]

    def describe(self) -> dict[str, Any]:
        """Return the loss."""
        beta = self.preference_beta
        return {"loss": f"dpo, log-ratio x {beta:g}, against the initial policy"}

    def amounts(self, longest: int) -> dict[str, Any]:
        """Return the facts: tries, retries, SFT and pairs."""
        problems, tries = self.steps * self.prompts_per_step, self.rollouts_per_prompt
        return {
            "tries": f"at most {problems:,} problems x {tries} = {problems * tries:,} completions",
            "retries": f"{tries} more of each problem without a correct one, which show the first "
            f"{self.hint_lines} lines of the worked solution",
            "tokens at most": f"{self.sampled.most * longest:,}",
            "SFT": f"on {self.sft_share:.0%} of the correct tries for {self.sft_epochs} epochs, "
            f"learning rate {self.rates[1]:g}"
            if self.sft_share
            else "none",
            "steps": f"{self.steps} of {self.prompts_per_step} pairs, {self.pairs_at_once} at once",
        }
