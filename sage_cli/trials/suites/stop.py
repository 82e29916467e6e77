"""The declaration of a suite's stopping rule over initial policies."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from sage_cli.settings.base import Section


class Stop(Section):
    """Look at the primary trade after `first` initial policies and after each `look_every` more.

    The study may stop when the always-valid interval excludes 0 or lies within ± `within`, and it
    stops at `most`.
    """

    first: int = Field(8, ge=3)
    look_every: int = Field(4, ge=1)
    most: int = Field(24, ge=3)
    within: float | None = Field(None, gt=0)
    """Differences that are too small to matter; null: only 0 is looked for."""
    alpha: float = Field(0.05, gt=0, lt=0.5)
    """The chance, at all looks together, that the interval excludes a true difference."""

    @property
    def looks(self) -> tuple[int, ...]:
        """Return the numbers of initial policies at which the trade is looked at."""
        return tuple(range(self.first, self.most + 1, self.look_every))

    @model_validator(mode="after")
    def _ends_at_a_look(self) -> Self:
        if self.most not in self.looks:
            raise ValueError(
                f"stop: no look at most = {self.most}: looks are at first = {self.first} and "
                f"every {self.look_every} further initial policies"
            )
        return self
