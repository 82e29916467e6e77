"""`rl.replay`: right completions of earlier steps or of another run, in place of wrong ones."""

from __future__ import annotations

from pydantic import Field, model_validator

from sage_cli.settings.base import Section


class ReplaySection(Section):
    """Right completions that were sampled before, in groups that have few of their own.

    They keep the log-probabilities of the policy that sampled them, so that the usual clipped ratio
    weighs them. Runs keep these with `tracking.rollouts=all`.
    """

    share: float = Field(0.0, ge=0, lt=1)
    """Share of a group's completions that may be replaced at most; 0 replays none."""
    solved_at_most: float = Field(0.1, ge=0, lt=1)
    """A group is replayed into if at most this share of its own completions is right."""
    max_age: int | None = Field(None, ge=1)
    """Steps since a completion was sampled at most; null: any. Another run's steps count as those
    before this run's first."""
    run: str | None = None
    """Another run whose completions are taken; null: this run's own."""

    @model_validator(mode="after")
    def _does_something(self) -> ReplaySection:
        said = [name for name in sorted(self.model_fields_set - {"share"}) if self._differs(name)]
        if self.share == 0 and said:
            raise ValueError(
                f"{said[0]} {getattr(self, said[0])} would do nothing while share is 0 (add "
                "rl.replay.share=0.25, or leave it out)"
            )
        return self

    def _differs(self, name: str) -> bool:
        return bool(getattr(self, name) != type(self).model_fields[name].default)

    def most(self, rollouts: int) -> int:
        """Return how many of a group's `rollouts` completions may be replaced: never all."""
        return int(self.share * rollouts)
