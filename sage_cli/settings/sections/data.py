"""`data`: where problems and demonstrations come from."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from sage_cli.settings.base import COSMETIC, Section
from sage_cli.settings.plugins import is_to_be_checked, plugin_names
from sage_cli.settings.sections.generators import (
    ArithmeticSection,
    KnightsKnavesSection,
)

GENERATORS_GROUP = "sage_cli.generators"
"""Entry points of other packages, subclasses of `problems.generated.generator.Generator`."""


class FieldsSection(Section):
    """Columns of a file, or dotted paths in them, as `reward_model.ground_truth`; files of verl,
    open-instruct and TRL need none."""

    question: str = "question"
    """Column of the question, or a path in it: `prompt.-1.content` is the last turn's text."""
    gold: str = "gold"
    """Column of the right answer."""
    working: str | None = None
    """Column of the worked solution, for SFT; null: there is none."""


class SourceSection(Section):
    """A registered data set by name, or a JSONL, CSV or Parquet file by path."""

    name: str
    """A name of `sage data list`, or the path of a JSONL, CSV or Parquet file."""
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


Order = Literal["shuffled", "easy-first", "hard-first", "middle-first"]
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
    """The run or model whose pass rates `solved` and `order` read."""
    order: Order = "shuffled"
    """By pass rate from the highest, from the lowest, or from those nearest to a half; each pass
    over the problems has this order, and equal ones are shuffled."""

    @property
    def solved_range(self) -> tuple[float, float]:
        """Return the ends of `solved`; 0 and 1 without it."""
        found = _RANGE.fullmatch(self.solved) if self.solved is not None else None
        return (float(found[1]), float(found[2])) if found else (0.0, 1.0)

    @field_validator("solved")
    @classmethod
    def _is_a_range(cls, given: str | None) -> str | None:
        if given is None:
            return None
        found = _RANGE.fullmatch(given)
        if found is None or not 0 <= float(found[1]) <= float(found[2]) <= 1:
            raise ValueError(f"'{given}' is no range of pass rates from 0 to 1, as .05..0.95")
        return given

    @model_validator(mode="after")
    def _reads_what_it_names(self) -> TrainingSourceSection:
        needing = [
            f"{name} {value}"
            for name, value in (("solved", self.solved), ("order", self.order))
            if value not in (None, "shuffled")
        ]
        if needing and self.solved_by is None:
            raise ValueError(
                f"{' and '.join(needing)} read pass rates, and {_SOLVED} names no model (add "
                f"data.rl.{_SOLVED}=RUN)"
            )
        if self.solved_by is not None and not needing:
            raise ValueError(
                f"{_SOLVED} {self.solved_by} would do nothing (add data.rl.solved=.05..0.95 or "
                "data.rl.order=easy-first, or leave it out)"
            )
        return self

    def determinants(self) -> dict[str, Any]:
        """Return the settings that decide a result, without those of pools where none is chosen."""
        found = super().determinants()
        if self.solved_by is not None:
            return found
        return {name: v for name, v in found.items() if name in SourceSection.model_fields}


_SFT = SourceSection(name="openmathreasoning-mini", numeric_only=True, max_prompt_share=0.5)
_RL = TrainingSourceSection(name="dapo-math-17k", limit=2000)


def _or(default: SourceSection) -> BeforeValidator:
    """Settings of a source that isn't named are of the default one."""

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
    generators: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Settings of generators that other packages register, by name."""

    @field_validator("generators")
    @classmethod
    def _are_registered(
        cls, given: dict[str, dict[str, Any]], info: ValidationInfo
    ) -> dict[str, dict[str, Any]]:
        """The settings themselves are checked by their generator, which loads its package."""
        checked = given if is_to_be_checked(info, GENERATORS_GROUP) else {}
        known = plugin_names(GENERATORS_GROUP) if checked else ()
        for name in checked:
            if name not in known:
                raise ValueError(_unknown_generator(name, known))
        return given


def _unknown_generator(name: str, known: tuple[str, ...]) -> str:
    section = name.replace("-", "_")
    if section in DataSection.model_fields:
        return f"'{name}' is built in, and its settings are data.{section}"
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    return (
        f"no installed package registers a generator '{name}'"
        + (f" (did you mean {near[0]}?)" if near else "")
        + f"; registered are {', '.join(known) or 'none'}"
    )
