"""The declaration of a suite: labelled methods, the paper's protocol, and its claims."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from sage_cli.config.fields import setting, settings
from sage_cli.errors import ConfigurationError
from sage_cli.settings.base import Section
from sage_cli.trials.suites.comparisons import Claim, listed, parse_claim

PAPERS_PRESET = "qwen2.5-math-7b"
"""The paper's main setting; a suite of another model names the preset that replaces it."""
BASE = "base"
"""The initial policy, as a method."""


def _method(value: Any) -> Any:
    """Expand `grpo/branch` to `{of: grpo/branch}`."""
    return {"of": value} if isinstance(value, str) else value


def _known(given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings. Raises ValueError for one that there is not."""
    if unknown := [key for key in given if setting(key) is None]:
        known = ", ".join(settings())
        raise ValueError(f"there is no setting '{unknown[0]}', known: {known}")
    return given


Settings = Annotated[dict[str, Any], AfterValidator(_known)]
"""Settings by dotted key."""


class Method(Section):
    """A labelled configuration: `of` is `base` or ALGORITHM[/GUIDE[/KL]]."""

    of: str
    settings: Settings = Field(default_factory=dict)
    """Further settings by dotted key."""
    preset: str | None = None
    """The preset that replaces the paper's main preset, and no other."""

    @field_validator("of")
    @classmethod
    def _has_three_parts_at_most(cls, of: str) -> str:
        if not 1 <= len(of.split("/")) <= 3 or not all(of.split("/")):
            raise ValueError(f"'{of}' is not base, ALGORITHM, ALGORITHM/GUIDE or .../KL")
        return of

    @property
    def is_base(self) -> bool:
        """Return True if it is the initial policy."""
        return self.of == BASE

    @property
    def choices(self) -> dict[str, str]:
        """Algorithm, guide and KL by the flags of `sage rl`."""
        names = () if self.is_base else self.of.split("/")
        return dict(zip(("algo", "guide", "kl"), names, strict=False))


class Protocol(Section):
    """The protocol of the published numbers; it holds for pretrained models.

    A model that is trained from scratch is measured as its preset says.
    """

    benchmark: str = "aime,amc23,math500-l5"
    samples: int = Field(256, ge=1)
    evaluation_seeds: int = Field(5, ge=1)
    temperature: float = Field(0.3, ge=0)
    seeds: int = Field(1, ge=1)
    """Runs of each method."""

    @property
    def settings(self) -> dict[str, Any]:
        """The protocol by dotted key."""
        return {
            "evaluation.benchmark": self.benchmark,
            "evaluation.samples": self.samples,
            "evaluation.seeds": self.evaluation_seeds,
            "sampling.temperature": self.temperature,
        }


class AnalysisOptions(Section):
    """The options of `sage analyze`."""

    base: str | None = None
    problems: Annotated[tuple[str, ...], BeforeValidator(listed)] = ()
    """Prefixes of ids."""
    delta: str | None = None
    patterns: Path | None = None


class Analysis(Section):
    """A section of the report: `sage analyze NAME` on some methods' runs."""

    name: str
    methods: Annotated[tuple[str, ...], BeforeValidator(listed)] = ()
    """Labels; () means all methods."""
    options: AnalysisOptions = AnalysisOptions()


class Suite(Section):
    """A table or a figure as a study, or several of them (`includes`)."""

    name: str
    """The file's name without its ending."""
    title: str
    published: str | None = None
    """The printed table for comparison; its rows have the methods' labels."""
    preset: str | None = None
    """The preset that replaces the paper's main preset here, and no other."""
    settings: Settings = Field(default_factory=dict)
    """Settings of all methods by dotted key, below their own."""
    methods: dict[str, Annotated[Method, BeforeValidator(_method)]] = Field(default_factory=dict)
    protocol: Protocol = Protocol()
    k: str = "1,256"
    seeds: int = Field(3, ge=1)
    """Runs of each method if the model is trained from scratch."""
    measured: bool = True
    """Sample and measure; a suite about training itself needs neither."""
    checkpoints: bool = False
    """Measure the checkpoints of a training as well."""
    sweep: str | None = None
    """A search space for `sage sweep`."""
    claims: Annotated[tuple[str, ...], BeforeValidator(listed)] = ()
    against: Annotated[tuple[str, ...], BeforeValidator(listed)] = ()
    """Methods with which every trained one is compared besides the claims; costs are compared with
    the first of them."""
    analyses: tuple[Analysis, ...] = ()
    includes: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()
    """Choices where the paper is silent, a sentence each."""

    @property
    def read_claims(self) -> tuple[Claim, ...]:
        """The claims, parsed."""
        return tuple(map(parse_claim, self.claims))

    @property
    def compared(self) -> tuple[tuple[str, str], ...]:
        """Pairs of methods whose difference is reported: those of claims, then those of `against`.

        A pair is listed once, in the order of its first occurrence.
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
        named = {
            "against": self.against,
            **{f"the claim '{one.text}'": (one.a, one.b) for one in self.read_claims},
            **{f"the analysis {one.name}": one.methods for one in self.analyses},
        }
        for what, labels in named.items():
            if unknown := [label for label in labels if label not in self.methods]:
                known = ", ".join(self.methods)
                raise ValueError(f"{what} names the method '{unknown[0]}', known: {known}")
        return self

    def only(self, labels: Sequence[str]) -> Suite:
        """Return the suite with these methods alone, and what is declared about them.

        Raises ConfigurationError for a method that it doesn't have.
        """
        if not labels:
            return self
        if unknown := [label for label in labels if label not in self.methods]:
            raise ConfigurationError(
                f"suite {self.name} has no method '{unknown[0]}'",
                f"its methods are {', '.join(self.methods)}",
            )
        left = {label: of for label, of in self.methods.items() if label in labels}
        claims = [one.text for one in self.read_claims if {one.a, one.b} <= left.keys()]
        return self.model_copy(
            update={
                "methods": left,
                "claims": tuple(claims),
                "against": tuple(label for label in self.against if label in left),
                "analyses": tuple(one for one in self.analyses if {*one.methods} <= left.keys()),
            }
        )
