"""The settings of methods that show the policy where a worked solution begins."""

from __future__ import annotations

from pydantic import Field, field_validator, model_validator

from sage_cli.methods.method import Beside, Method
from sage_cli.settings.sections.model import QUESTION

HINT = "{hint}"


class Hinting(Method):
    """Settings of a method that asks problems with the first lines of their worked solutions."""

    hint: str = "{question}\n\nHere is how a solution begins:\n{hint}"
    """What a problem is asked as with a hint: {question} is its text, {hint} where its worked
    solution begins."""
    line_end: str = Field("\n", min_length=1)
    """What ends a line of the worked solutions: a line break, or as `;` in `tiny`."""
    continued: bool = False
    """The policy goes on where the hint ends, so that what `hint` adds to {question} is the
    beginning of its answer and stays in it: for models that follow no instructions."""

    @field_validator("hint")
    @classmethod
    def _has_its_places(cls, text: str) -> str:
        for place in (QUESTION, HINT):
            if place not in text:
                raise ValueError(f"must hold {place}")
        return text

    @model_validator(mode="after")
    def _answer_follows_question(self) -> Hinting:
        if self.continued and not self.hint.startswith(QUESTION):
            raise ValueError(f"continued takes what follows {QUESTION}, and hint begins otherwise")
        return self

    def refusals(self, beside: Beside) -> list[str]:
        """Prompts that put text between a question and its answer, which continues the hint."""
        found = super().refusals(beside)
        if self.continued and beside.prompt.format != "plain":
            found.append(
                "rl.continued has the answer begin where the question ends, and prompt.format "
                f"'{beside.prompt.format}' puts more between them (use rl.continued=false)"
            )
        return found
