"""`data.GENERATOR`: what the built-in generators make."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    Field,
    NonNegativeFloat,
    model_validator,
)

from sage_cli.settings.base import Section


class PhaseSection(Section):
    """A stretch of generated demonstrations: its share of the whole and what it is made of."""

    share: float = Field(gt=0, le=1)
    """Share of all demonstrations."""
    mix: dict[Literal["S", "R", "D"], NonNegativeFloat]
    """Weight of each strategy; they need not add up to 1."""
    loss: Literal["completion", "text"] = "completion"
    """What the loss covers: the completion alone, or prompt and completion."""


class ArithmeticSection(Section):
    """Two-digit multiplication with several strategies: S splits b, R swaps and splits a, D guesses."""  # noqa: E501

    low: int = Field(11, ge=1)
    """Smallest factor."""
    high: int = Field(99, ge=1)
    """Largest factor."""
    familiar_share: float = Field(0.6, gt=0, le=1)
    """Share of the numbers that demonstrations are made of."""
    unfamiliar_probability: float = Field(0.02, ge=0, le=1)
    """Probability that a factor of a demonstration is one of the other numbers."""
    held_out: int = Field(60, ge=1)
    """Test problems."""
    validation: int = Field(60, ge=1)
    """Validation problems."""
    seed: int = 0
    """Of everything that is chosen at random."""
    phases: tuple[PhaseSection, ...] = (
        PhaseSection(share=0.6, mix={"S": 0.45, "R": 0.40, "D": 0.15}),
        PhaseSection(share=0.4, mix={"S": 0.62, "R": 0.08, "D": 0.30}),
    )
    """Stretches of demonstrations, in their order."""

    @model_validator(mode="after")
    def _ranges(self) -> ArithmeticSection:
        if self.low >= self.high:
            raise ValueError(f"low {self.low} is not below high {self.high}")
        if not self.phases or any(not sum(phase.mix.values()) for phase in self.phases):
            raise ValueError("phases: at least one, each with at least one strategy in its mix")
        return self


class KnightsKnavesSection(Section):
    """Knights-and-Knaves puzzles made from a seed; `variant` is one way of perturbing them."""

    people: tuple[Annotated[int, Field(ge=2, le=12)], ...] = (2, 3, 4, 5, 6, 7, 8)
    """Numbers of people in a puzzle."""
    per_size: int = Field(30, ge=1, le=700)
    """Puzzles for each number of people; about two there are 1,396 in all, and 728 that have a
    neighbour by one leaf."""
    seed: int = 0
    """Of everything that is chosen at random."""
    variant: Literal["none", "statement", "leaf", "names", "roles", "flip", "order"] = "none"
    """What is changed of each puzzle: a statement, one leaf of it, the names, what knights and
    knaves are called, who of them lies (`flip`), or the statements' order."""
