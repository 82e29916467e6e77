"""The declaration of a suite: methods, protocol and claims, read by name or from a file."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from sage_cli.config.schema import setting, settings
from sage_cli.errors import ConfigurationError, did_you_mean, in_short
from sage_cli.reports.published import published_rows
from sage_cli.settings.analysis import AnalysisOptions
from sage_cli.settings.section import Listed, Section
from sage_cli.settings.shipped import shipped
from sage_cli.settings.yaml_files import read_yaml

if TYPE_CHECKING:
    from sage_cli.metrics import About

ALPHA = 0.05
"""A claim is decided if Holm's p is at most this."""
_CLAIM = re.compile(
    r"(?P<a>\S+) (?P<sign>[<>]) (?P<b>\S+) at pass@(?P<k>\d+)(?: on (?P<benchmark>\S+))?"
)


class Verdict(StrEnum):
    """The verdict of measurements on a claim, about methods or about these models alone."""

    HOLDS = "holds"
    REVERSED = "reversed"
    OPEN = "indistinguishable"
    AS_CLAIMED = "these models: as claimed"
    OTHERWISE = "these models: the reverse"
    OPEN_MODELS = "these models: indistinguishable"
    UNKNOWN = "not measured"


@dataclass(frozen=True)
class Claim:
    """`a > b at pass@k`, on average over benchmarks or on one of them."""

    a: str
    b: str
    k: int
    benchmark: str | None
    text: str

    def verdict(self, difference: float, p_holm: float, about: About) -> Verdict:
        """The verdict, from the measured a less b and its p-value after Holm (NaN: unknown).

        A claim is about methods: models of methods with too few seeds neither confirm nor reverse
        it.
        """
        methods = about == "methods"
        if math.isnan(difference) or math.isnan(p_holm):
            return Verdict.UNKNOWN
        if p_holm > ALPHA or difference == 0:
            return Verdict.OPEN if methods else Verdict.OPEN_MODELS
        if difference > 0:
            return Verdict.HOLDS if methods else Verdict.AS_CLAIMED
        return Verdict.REVERSED if methods else Verdict.OTHERWISE


def parse_claim(text: str) -> Claim:
    """Parse `grpo-branch > grpo at pass@256 [on aime]`; `<` swaps the two."""
    match = _CLAIM.fullmatch(" ".join(text.split()))
    if match is None:
        raise ConfigurationError(
            f"'{text}' is not a claim",
            "write a claim as ARM > ARM at pass@256, or ... on BENCHMARK",
        )
    a, b = match["a"], match["b"]
    if match["sign"] == "<":
        a, b = b, a
    return Claim(a, b, int(match["k"]), match["benchmark"], match[0])


PAPERS_PRESET = "qwen2.5-math-7b"
"""The paper's main setting; a suite of another model names the preset that replaces it."""
BASE = "base"
"""The initial policy, as a method."""
INITIAL = "initial policy"


def shown_label(label: str) -> str:
    """Return a method's name in a report, where `base` is the initial policy."""
    return INITIAL if label == BASE else label


def _method(value: Any) -> Any:
    """Expand `grpo/branch` to `{of: grpo/branch}`."""
    return {"of": value} if isinstance(value, str) else value


def _known(given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings. Raises ValueError for one that there is not."""
    if unknown := [key for key in given if setting(key) is None]:
        names = ", ".join(settings())
        raise ValueError(f"there is no setting '{unknown[0]}', known: {names}")
    return given


_Settings = Annotated[dict[str, Any], AfterValidator(_known)]
"""Settings by dotted key."""


class Tuning(Section):
    """The search for each trained method's settings before its trainings, of one budget for all."""

    space: str
    """The space in the form that `sage sweep --space` accepts."""
    trials: int = Field(8, ge=1)
    """Points that are tried for each method."""
    steps: int | None = Field(None, ge=1)
    """RL steps of a trial; null: the preset's."""
    objective: str = "pass@1"
    """The objective on the validation problems, `sweep.benchmark`."""


class Arm(Section):
    """A labelled configuration: `of` is `base` or ALGORITHM[/GUIDE[/KL]]."""

    of: str
    settings: _Settings = Field(default_factory=dict)
    """Further settings by dotted key."""
    preset: str | None = None
    """The preset that replaces the paper's main preset, and no other."""
    control: str | None = None
    """The method that it is compared with first. null: the same method and anchor without the
    guide, where the suite has one (`with_controls`)."""
    space: str | None = None
    """Its own space in the suite's tuning."""

    @field_validator("of")
    @classmethod
    def _has_three_parts_at_most(cls, name: str) -> str:
        if len(name.split("/")) > 3 or not all(name.split("/")):
            raise ValueError(f"'{name}' is not base, ALGORITHM, ALGORITHM/GUIDE or .../KL")
        return name

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


class WantedAnalysis(Section):
    """A section of the report: `sage analyze NAME` on some methods' runs."""

    name: str
    methods: Listed = ()
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
    settings: _Settings = Field(default_factory=dict)
    """Settings of all methods by dotted key, below their own."""
    methods: dict[str, Annotated[Arm, BeforeValidator(_method)]] = Field(default_factory=dict)
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
    tune: Tuning | None = None
    """Search each trained method's settings first."""
    claims: Listed = ()
    against: Listed = ()
    """Methods with which every trained one is compared besides the claims."""
    analyses: tuple[WantedAnalysis, ...] = ()
    includes: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()
    """Choices where the paper is silent, a sentence each."""

    @property
    def read_claims(self) -> tuple[Claim, ...]:
        """The claims, parsed."""
        return tuple(map(parse_claim, self.claims))

    @property
    def compared(self) -> tuple[tuple[str, str], ...]:
        """Pairs of methods whose difference is reported: own controls, claims, then `against`.

        A pair is listed once, in the order of its first occurrence.
        """
        own = ((label, method.control) for label, method in self.methods.items() if method.control)
        trained = [label for label, method in self.methods.items() if not method.is_base]
        beside = ((a, b) for b in self.against for a in trained if a != b)
        claimed = ((claim.a, claim.b) for claim in self.read_claims)
        pairs: dict[frozenset[str], tuple[str, str]] = {}
        for pair in (*own, *claimed, *beside):
            pairs.setdefault(frozenset(pair), pair)
        return tuple(pairs.values())

    @model_validator(mode="after")
    def _names_its_own_methods(self) -> Suite:
        for label, method in self.methods.items():
            if method.control == label:
                raise ValueError(f"methods.{label}.control names the method itself")
        labels_by_user = {
            "against": self.against,
            **{
                f"methods.{label}.control": (method.control,)
                for label, method in self.methods.items()
                if method.control
            },
            **{f"the claim '{claim.text}'": (claim.a, claim.b) for claim in self.read_claims},
            **{f"the analysis {analysis.name}": analysis.methods for analysis in self.analyses},
        }
        for user, labels in labels_by_user.items():
            if unknown := [label for label in labels if label not in self.methods]:
                names = ", ".join(self.methods)
                raise ValueError(f"{user} names the method '{unknown[0]}', known: {names}")
        return self

    def only(self, labels: Sequence[str]) -> Suite:
        """Return the suite with these methods alone, and what is declared about them.

        Raises ConfigurationError for a method that it doesn't have.
        """
        if not labels:
            return self
        if unknown := [label for label in labels if label not in self.methods]:
            raise ConfigurationError(
                f"suite {self.name} has no arm '{unknown[0]}'",
                f"its arms are {', '.join(self.methods)}",
            )
        left = {label: method for label, method in self.methods.items() if label in labels}
        for label, method in left.items():
            if method.control not in left:
                left[label] = method.model_copy(update={"control": None})
        claims = [claim.text for claim in self.read_claims if {claim.a, claim.b} <= left.keys()]
        return self.model_copy(
            update={
                "methods": left,
                "claims": tuple(claims),
                "against": tuple(label for label in self.against if label in left),
                "analyses": tuple(
                    analysis for analysis in self.analyses if {*analysis.methods} <= left.keys()
                ),
            }
        )


_BELOW: Mapping[str, type[BaseModel]] = {
    "methods": Arm,
    "protocol": Protocol,
    "tune": Tuning,
    "analyses": WantedAnalysis,
    "options": AnalysisOptions,
}


def suite_names() -> list[str]:
    """Names of the shipped suites."""
    return sorted((path.stem for path in shipped("configs/suites").glob("*.yaml")), key=_by_number)


def read_suite(name: str) -> Suite:
    """The suite called `name`: a shipped one, or that of a YAML file.

    Raises ConfigurationError with all that is wrong with it.
    """
    path = _file(name)
    values = {"name": path.stem, **read_yaml(path)}
    try:
        suite = Suite.model_validate(values)
    except ValidationError as error:
        raise ConfigurationError(
            "\n".join(f"suite {path.stem}: {_sentence(complaint)}" for complaint in error.errors()),
            "docs/suites.md has every key of a suite",
        ) from None
    _require_published(suite)
    return suite


def with_included(name: str, above: Sequence[str] = ()) -> list[Suite]:
    """The suite and all that it includes, each once, the included ones first.

    Raises ConfigurationError for a cycle.
    """
    suite = read_suite(name)
    if suite.name in above:
        raise ConfigurationError(
            f"suites include each other: {' → '.join((*above, suite.name))}",
            "leave one of them out of the other's `includes`",
        )
    suites: dict[str, Suite] = {}
    for included in suite.includes:
        suites |= {inner.name: inner for inner in with_included(included, (*above, suite.name))}
    return [*suites.values(), suite]


def _file(name: str) -> Path:
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        return path
    names = suite_names()
    if name not in names:
        raise ConfigurationError(
            f"there is no suite '{name}'; there are {', '.join(names)}",
            did_you_mean(name, names) or "or give the path of a YAML file",
        )
    return shipped("configs/suites") / f"{name}.yaml"


def _require_published(suite: Suite) -> None:
    """Raise ConfigurationError for a method without a row in the published table."""
    if suite.published is None:
        return
    rows = published_rows(suite.published)
    # Table 3 repeats the base of Table 1
    if lacking := [label for label in suite.methods if label not in (*rows, BASE)]:
        raise ConfigurationError(
            f"suite {suite.name}: {suite.published} has no row '{lacking[0]}'; it has "
            f"{', '.join(rows)}",
            did_you_mean(lacking[0], rows)
            or "name the method as the table does, or leave out `published`",
        )


def _sentence(complaint: Any) -> str:
    """A complaint of pydantic as a sentence, with the nearest name for an unknown key."""
    path = [str(part) for part in complaint["loc"]]
    key = ".".join(path)
    if complaint["type"] == "extra_forbidden":
        above = [part for part in path[:-1] if not part.isdecimal()]
        section = above[-1] if above[:1] == ["analyses"] else "".join(above[:1])
        model = _BELOW.get(section, Suite)
        fields = list(model.model_fields)
        meant = did_you_mean(path[-1], fields) or f"it has {', '.join(fields)}"
        return f"{'.'.join(path[:-1]) or 'a suite'} has no '{path[-1]}': {meant}"
    if complaint["type"] != "value_error":
        return f"{key} is {in_short(complaint.get('input'))}: {complaint['msg'].lower()}"
    message = str(complaint["ctx"]["error"])
    cause, _, known_names = message.partition(", known: ")
    given = cause.rpartition(" '")[2].rstrip("'")
    meant = did_you_mean(given, known_names.split(", ")) if known_names else ""
    return f"{key}: {cause}".removeprefix(": ") + (f"; {meant}" if meant else "")


def _by_number(name: str) -> tuple[str, int]:
    """A key that sorts `table2` before `table10`."""
    letters = name.rstrip("0123456789")
    return letters, int(name[len(letters) :] or 0)
