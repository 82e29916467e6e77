"""`data`: the problems of SFT and RL."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, NonNegativeFloat, field_validator, model_validator

from sage_cli.settings.section import COSMETIC, WHERE_SET, Section

_RANGE = re.compile(r"(\d*\.?\d+)\.\.(\d*\.?\d+)")
_SOLVED = "solved_by"


class PhaseSection(Section):
    """A stretch of generated demonstrations: its share of the whole and what it is made of."""

    share: float = Field(gt=0, le=1)
    """Share of all demonstrations that this stretch has."""
    mix: dict[Literal["S", "R", "D"], NonNegativeFloat]
    """Weight of each strategy in the mix. The weights need not add up to 1."""
    loss: Literal["completion", "text"] = "completion"
    """Tokens that the loss covers: `completion` for those of the completion, `text` for prompt and
    completion."""


class ArithmeticSection(Section):
    """Two-digit multiplication with several strategies: S splits b, R swaps and splits a, D guesses."""  # noqa: E501

    low: int = Field(11, ge=1)
    """Smallest factor that a product may have."""
    high: int = Field(99, ge=1, le=999)
    """Largest factor that a product may have."""
    familiar_share: float = Field(0.6, gt=0, le=1)
    """Share of the numbers from which demonstrations are made."""
    unfamiliar_probability: float = Field(0.02, ge=0, le=1)
    """Probability that a factor of a demonstration is one of the other numbers."""
    held_out: int = Field(200, ge=1)
    """Number of test problems that are held out."""
    validation: int = Field(100, ge=1)
    """Number of validation problems that are held out."""
    seed: int = 0
    """Seed with which the problems are generated."""
    phases: tuple[PhaseSection, ...] = (
        PhaseSection(share=0.6, mix={"S": 0.45, "R": 0.40, "D": 0.15}),
        PhaseSection(share=0.4, mix={"S": 0.62, "R": 0.08, "D": 0.30}),
    )
    """Stretches of demonstrations, in the order in which SFT reads them."""

    @model_validator(mode="after")
    def _ranges(self) -> ArithmeticSection:
        if self.low >= self.high:
            raise ValueError(f"low {self.low} is not below high {self.high}")
        if not self.phases or any(not sum(phase.mix.values()) for phase in self.phases):
            raise ValueError("phases: at least one, each with at least one strategy in its mix")
        return self


class KnightsKnavesSection(Section):
    """Knights-and-Knaves puzzles made from a seed."""

    people: tuple[Annotated[int, Field(ge=2, le=12)], ...] = (2, 3, 4, 5, 6, 7, 8)
    """Numbers of people that a puzzle may have."""
    per_size: int = Field(30, ge=1, le=700)
    """Number of puzzles for each number of people. Only 1,396 puzzles about two people exist."""
    seed: int = 0
    """Seed with which the problems are generated."""


class FieldsSection(Section):
    """Columns of a file, or dotted paths in them, for example `reward_model.ground_truth`. The
    usual names of columns are recognised without them."""

    question: str = "question"
    """Column with the question, or a dotted path in it, for example `prompt.0.content`. Of a column
    with chat turns, the user's last turn is asked."""
    gold: str = "gold"
    """Column that has the reference answer (gold)."""
    working: str | None = None
    """Column with the worked solution, which SFT learns. null means that SFT learns the reference
    answer alone."""
    any_of: bool = Field(False, json_schema_extra=WHERE_SET)
    """Whether a list of reference answers is accepted, any of which is correct. If false, a list is
    an error."""


class SourceSection(Section):
    """A registered data set by name, or a JSONL, CSV or Parquet file by path."""

    name: str
    """Data set: a name from `sage data list`, or the path of a JSONL, CSV or Parquet file.
    `FILE:dev` selects a tenth of a file's questions, and `FILE:train` the others."""
    split: str | None = None
    """Split of a Hub data set to use instead of the registered one, for example `train` of
    gsm8k."""
    limit: int | None = Field(None, ge=1)
    """Number of rows to read from the beginning; null reads all."""
    fields: FieldsSection = FieldsSection()
    numeric_only: bool = False
    """Whether to keep only rows whose answer is a number."""
    max_prompt_share: float = Field(1.0, gt=0, le=1)
    """Longest row that is kept, as a share of the maximal sequence length."""
    measured: Literal["question", "conversation"] = "question"
    """Text whose length `max_prompt_share` limits: `question` for the question alone,
    `conversation` for prompt and completion as they are trained."""


class TrainingSourceSection(SourceSection):
    """The source of RL's problems, all of them or those that a model solves so and so often.

    Pass rates are those of the model `solved_by`: of a run of RL its ledger's, of any other model
    those of its stored samples of these problems. Problems without one are left out.
    """

    solved: str | None = None
    """Range of pass rates: only problems within it are kept, ends included, for example
    `0.05..0.95`. null keeps all."""
    solved_by: str | None = None
    """Run or model whose stored pass rates `solved` uses."""

    @property
    def solved_range(self) -> tuple[float, float]:
        """Return the ends of `solved`; 0 and 1 without it."""
        match = _RANGE.fullmatch(self.solved) if self.solved is not None else None
        return (float(match[1]), float(match[2])) if match else (0.0, 1.0)

    @field_validator("solved")
    @classmethod
    def _is_a_range(cls, given: str | None) -> str | None:
        if given is None:
            return None
        ends = _RANGE.fullmatch(given)
        if ends is None or not 0 <= float(ends[1]) <= float(ends[2]) <= 1:
            raise ValueError(
                f"'{given}' is not a range of pass rates between 0 and 1, for example 0.05..0.95"
            )
        return given

    @model_validator(mode="after")
    def _reads_what_it_names(self) -> TrainingSourceSection:
        if self.solved is not None and self.solved_by is None:
            raise ValueError(
                f"solved {self.solved} needs pass rates, but {_SOLVED} is not set (add "
                f"data.rl.{_SOLVED}=RUN)"
            )
        if self.solved_by is not None and self.solved is None:
            raise ValueError(
                f"{_SOLVED} {self.solved_by} has no effect (add "
                "data.rl.solved=0.05..0.95, or leave it out)"
            )
        return self

    def determinants(self) -> dict[str, Any]:
        """Return the settings that decide a result, without those of pools where none is chosen."""
        settings = super().determinants()
        if self.solved_by is not None:
            return settings
        return {name: v for name, v in settings.items() if name in SourceSection.model_fields}


_SFT = SourceSection(name="openmathreasoning-mini", numeric_only=True, max_prompt_share=0.5)
_RL = TrainingSourceSection(name="dapo-math-17k", limit=2000)


def _or(default: SourceSection) -> BeforeValidator:
    """Complete the settings of a source that isn't named by those of the default one."""

    def complete(given: Any) -> Any:
        unnamed = isinstance(given, dict) and "name" not in given
        return {**default.model_dump(), **given} if unnamed else given

    return BeforeValidator(complete)


class DataSection(Section):
    """The problems for SFT and RL. They are read from `root` (or $SAGE_DATA), a folder with local
    copies, or from the Hub."""

    root: Path | None = Field(None, json_schema_extra=COSMETIC)
    """Folder with local copies of data sets. null means the folder in $SAGE_DATA, or the Hub if
    that is not set."""
    sft: Annotated[SourceSection, _or(_SFT)] = _SFT
    rl: Annotated[TrainingSourceSection, _or(_RL)] = _RL
    arithmetic: ArithmeticSection = ArithmeticSection()
    knights_knaves: KnightsKnavesSection = KnightsKnavesSection()
    revisions: dict[str, str] = Field(default_factory=dict)
    """Revisions of Hub data sets, by name, that replace the pinned ones: commits, tags or branches.
    A local copy is read as it is."""
