"""`data.GENERATOR`: what the built-in generators make."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, NonNegativeFloat, field_validator, model_validator

from sage_cli.settings.section import COSMETIC, WHERE_SET, Section


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
    high: int = Field(99, ge=1, le=999)
    """Largest factor."""
    familiar_share: float = Field(0.6, gt=0, le=1)
    """Share of the numbers that demonstrations are made of."""
    unfamiliar_probability: float = Field(0.02, ge=0, le=1)
    """Probability that a factor of a demonstration is one of the other numbers."""
    held_out: int = Field(200, ge=1)
    """Test problems."""
    validation: int = Field(100, ge=1)
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
    """Knights-and-Knaves puzzles made from a seed."""

    people: tuple[Annotated[int, Field(ge=2, le=12)], ...] = (2, 3, 4, 5, 6, 7, 8)
    """Numbers of people in a puzzle."""
    per_size: int = Field(30, ge=1, le=700)
    """Puzzles for each number of people; about two there are 1,396 in all."""
    seed: int = 0
    """Of everything that is chosen at random."""


class FieldsSection(Section):
    """Columns of a file, or dotted paths in them, as `reward_model.ground_truth`; files of verl,
    open-instruct and TRL need none."""

    question: str = "question"
    """Column of the question, or a path in it, as `prompt.0.content`; a column of chat turns is
    asked by the user's last turn."""
    gold: str = "gold"
    """Column of the right answer."""
    working: str | None = None
    """Column of the worked solution, for SFT; null: SFT learns the gold alone."""
    any_of: bool = Field(False, json_schema_extra=WHERE_SET)
    """Lists of golds are read, and any of a list is right; false: a list is an error."""


class SourceSection(Section):
    """A registered data set by name, or a JSONL, CSV or Parquet file by path."""

    name: str
    """A name of `sage data list`, or the path of a JSONL, CSV or Parquet file; `FILE:dev` is a
    tenth of a file's questions, `FILE:train` the others."""
    split: str | None = None
    """Of a data set of the Hub another split than the declared, as `train` of gsm8k."""
    limit: int | None = Field(None, ge=1)
    """Only the first rows; null: all."""
    fields: FieldsSection = FieldsSection()
    numeric_only: bool = False
    """Keep only rows whose answer is a number."""
    max_prompt_share: float = Field(1.0, gt=0, le=1)
    """Keep only rows that are no longer than this share of the maximal sequence length."""
    measured: Literal["question", "conversation"] = "question"
    """What that length is of: the question alone, or prompt and completion as they are trained."""


_RANGE = re.compile(r"(\d*\.?\d+)\.\.(\d*\.?\d+)")
_SOLVED = "solved_by"


class TrainingSourceSection(SourceSection):
    """The source of RL's problems, all of them or those that a model solves so and so often.

    Pass rates are those of the model `solved_by`: of a run of RL its ledger's, of any other model
    those of its stored samples of these problems. Problems without one are left out.
    """

    solved: str | None = None
    """Keep only problems with a pass rate in this range, ends included, as `.05..0.95`; null:
    any."""
    solved_by: str | None = None
    """The run or model whose pass rates `solved` reads."""

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
            raise ValueError(f"'{given}' is no range of pass rates from 0 to 1, as .05..0.95")
        return given

    @model_validator(mode="after")
    def _reads_what_it_names(self) -> TrainingSourceSection:
        if self.solved is not None and self.solved_by is None:
            raise ValueError(
                f"solved {self.solved} reads pass rates, and {_SOLVED} names no model (add "
                f"data.rl.{_SOLVED}=RUN)"
            )
        if self.solved_by is not None and self.solved is None:
            raise ValueError(
                f"{_SOLVED} {self.solved_by} would do nothing (add data.rl.solved=.05..0.95, or "
                "leave it out)"
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
    """`root` (or SAGE_DATA) is a folder of local copies; without it the Hub is asked."""

    root: Path | None = Field(None, json_schema_extra=COSMETIC)
    """Folder with local copies of data sets; null: what $SAGE_DATA names, else the Hub."""
    sft: Annotated[SourceSection, _or(_SFT)] = _SFT
    rl: Annotated[TrainingSourceSection, _or(_RL)] = _RL
    arithmetic: ArithmeticSection = ArithmeticSection()
    knights_knaves: KnightsKnavesSection = KnightsKnavesSection()
    revisions: dict[str, str] = Field(default_factory=dict)
    """Commits, tags or branches of data sets of the Hub by name, over those that are pinned; a
    local copy is read as it is."""
