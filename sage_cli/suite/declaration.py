"""What a suite declares: labelled methods, how the paper measured them, what it claims."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator, model_validator

from sage_cli.config.base import Section
from sage_cli.config.fields import settings
from sage_cli.suite.claims import Claim, parse_claim

PAPERS_PRESET = "qwen2.5-math-7b"
"""The paper's main setting; a suite of another model says what takes its place."""
BASE = "base"
"""What RL begins with, as a method."""


def _method(value: Any) -> Any:
    """`grpo/branch` stands for `{of: grpo/branch}`."""
    return {"of": value} if isinstance(value, str) else value


def _is_setting(key: str) -> bool:
    """Whether the schema has the key, or leaves it open to whoever a plug-in is from."""
    inside = any(one.open and key.startswith(f"{one.key}.") for one in settings().values())
    return key in settings() or inside


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class Method(Section):
    """A labelled configuration: `of` is `base`, or algorithm/guide/KL, of which the last two may
    be left out."""

    of: str
    settings: dict[str, Any] = Field(default_factory=dict)
    """Further settings by dotted key."""
    preset: str | None = None
    """What takes the place of the paper's main preset, and of no other."""

    @field_validator("of")
    @classmethod
    def _has_three_parts_at_most(cls, of: str) -> str:
        if not 1 <= len(of.split("/")) <= 3 or not all(of.split("/")):
            raise ValueError(f"'{of}' is not base, ALGORITHM, ALGORITHM/GUIDE or .../KL")
        return of

    @field_validator("settings")
    @classmethod
    def _settings_are_known(cls, given: dict[str, Any]) -> dict[str, Any]:
        if unknown := [key for key in given if not _is_setting(key)]:
            known = ", ".join(settings())
            raise ValueError(f"there is no setting '{unknown[0]}', known: {known}")
        return given

    @property
    def is_base(self) -> bool:
        """Whether it is what RL begins with."""
        return self.of == BASE

    @property
    def choices(self) -> dict[str, str]:
        """Algorithm, guide and KL by the flags of `sage rl` that choose them."""
        names = () if self.is_base else self.of.split("/")
        return dict(zip(("algo", "guide", "kl"), names, strict=False))


class Protocol(Section):
    """How the published numbers were measured. It holds for pretrained models.

    A model that is trained from nothing is measured as its preset says: the paper's problems mean
    nothing to it.
    """

    benchmark: str = "aime,amc23,math500-l5"
    samples: int = Field(256, ge=1)
    evaluation_seeds: int = Field(5, ge=1)
    temperature: float = Field(0.3, ge=0)
    seeds: int = Field(1, ge=1)
    """Trainings of each method."""

    @property
    def settings(self) -> dict[str, Any]:
        """The same by dotted key."""
        return {
            "evaluation.benchmark": self.benchmark,
            "evaluation.samples": self.samples,
            "evaluation.seeds": self.evaluation_seeds,
            "sampling.temperature": self.temperature,
        }


class AnalysisOptions(Section):
    """What `sage analyze` takes beside its settings."""

    base: str | None = None
    problems: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    """Beginnings of ids."""
    delta: str | None = None
    patterns: Path | None = None


class Analysis(Section):
    """A section of the report that `sage analyze NAME` makes of some methods' runs."""

    name: str
    methods: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    """Labels; none: all methods."""
    options: AnalysisOptions = AnalysisOptions()


class Suite(Section):
    """A table or figure as a study, or several of them (`includes`)."""

    name: str
    """The file's, without its ending."""
    title: str
    published: str | None = None
    """The printed table that is laid beside; its rows have the methods' labels."""
    preset: str | None = None
    """What takes the place of the paper's main preset here, and of no other."""
    methods: dict[str, Annotated[Method, BeforeValidator(_method)]] = Field(default_factory=dict)
    protocol: Protocol = Protocol()
    k: str = "1,256"
    seeds: int = Field(3, ge=1)
    """Trainings of each method where the model is trained from nothing."""
    measured: bool = True
    """Whether completions are drawn; a suite about training itself needs none."""
    checkpoints: bool = False
    """Whether what a training keeps on its way is measured too."""
    sweep: str | None = None
    """A search space that `sage sweep` is to explore."""
    claims: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    against: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    """Methods with which every trained one is compared, beyond what claims say; what each costs is
    laid beside the first of them."""
    analyses: tuple[Analysis, ...] = ()
    includes: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()
    """What is taken where the paper is silent, a sentence each."""

    @property
    def read_claims(self) -> tuple[Claim, ...]:
        """`claims`, read."""
        return tuple(map(parse_claim, self.claims))

    @property
    def compared(self) -> tuple[tuple[str, str], ...]:
        """Pairs of methods whose difference is reported: the claims', then those `against`.

        Each is named once, as it is met first: the other way round it is the same difference.
        """
        trained = [label for label, method in self.methods.items() if not method.is_base]
        beside = ((a, b) for b in self.against for a in trained if a != b)
        claimed = ((claim.a, claim.b) for claim in self.read_claims)
        found: dict[frozenset[str], tuple[str, str]] = {}
        for pair in (*claimed, *beside):
            found.setdefault(frozenset(pair), pair)
        return tuple(found.values())

    @model_validator(mode="after")
    def _names_its_own_methods(self) -> Suite:
        self._require("against", *self.against)
        for claim in self.read_claims:
            self._require(f"the claim '{claim.text}'", claim.a, claim.b)
        for analysis in self.analyses:
            self._require(f"the analysis {analysis.name}", *analysis.methods)
        return self

    def _require(self, what: str, *labels: str) -> None:
        if unknown := [label for label in labels if label not in self.methods]:
            known = ", ".join(self.methods)
            raise ValueError(f"{what} names the method '{unknown[0]}', known: {known}")
