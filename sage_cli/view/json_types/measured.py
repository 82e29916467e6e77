"""Types of the answers about curves, problems and samples."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from sage_cli.metrics.counts import FloatArray
from sage_cli.reports.passk import CurveJson
from sage_cli.view.json_types.look import Look


class PolicyCurve(CurveJson):
    """A policy's curve, its look, and how many of its samples are graded.

    `exact` is worked pass@k from the chances of the right texts, null unless they are stored.
    """

    look: Look
    exact: FloatArray | None
    samples: int
    graded: int
    wanted: int


class Absent(TypedDict):
    """A policy that has no curve, and why."""

    policy: str
    why: str


class PasskView(TypedDict):
    """Curves on one benchmark at the same ks; `benchmarks` are those that can be chosen."""

    benchmark: str | None
    benchmarks: list[str]
    k: list[int]
    confidence: float
    curves: list[PolicyCurve]
    absent: list[Absent]
    provenance: dict[str, Any]


class DifferenceView(TypedDict):
    """pass@k of `a` less that of `b`, paired by problem, with intervals and p-values."""

    a: str
    b: str
    benchmark: str
    k: list[int]
    mean: FloatArray
    low: FloatArray
    high: FloatArray
    p: FloatArray
    confidence: float
    problems: int


class SampleRow(TypedDict):
    """A stored completion with its grade.

    `text` is cut at a limit; `characters` is its whole length.
    """

    policy: str
    problem: str
    seed: int
    index: int
    grade: str | None
    extracted: str | None
    tokens: int
    truncated: bool
    text: str
    characters: int


class SamplesView(TypedDict):
    """A page of the samples that fit the filters, `total` of them.

    With a search for text `total` counts those found so far if `searched` is below `candidates`,
    the number of samples that fit the other filters.
    """

    policy: str
    benchmark: str
    benchmarks: list[str]
    total: int
    candidates: int
    searched: int
    offset: int
    grades: dict[str, int]
    longest: int
    rows: list[SampleRow]


class ProblemRow(TypedDict):
    """A problem of a benchmark, with the right samples and all samples of each policy."""

    problem: str
    question: str
    right: dict[str, int]
    samples: dict[str, int]


class ProblemsView(TypedDict):
    """The problems of a benchmark and how policies answered them."""

    benchmark: str | None
    benchmarks: list[str]
    policies: list[str]
    looks: dict[str, Look]
    problems: list[ProblemRow]
    absent: list[Absent]


class PolicyAnswers(TypedDict):
    """One policy's samples of a problem: counts by grade, answers by how often, completions."""

    policy: str
    look: Look
    samples: int
    grades: dict[str, int]
    answers: dict[str, int]
    total: int
    rows: list[SampleRow]


class ProblemView(TypedDict):
    """A problem: question, gold, what its source says of it, and what policies answered."""

    benchmark: str
    problem: str
    question: str
    gold: str
    about: dict[str, Any]
    policies: list[PolicyAnswers]
    absent: list[Absent]


class TokensView(TypedDict):
    """A completion token by token; null where no model has read it yet.

    `q` is that of the run's guide, null if it has none or reads other signals; `log_ratio` is
    log π of the policy less that of the initial policy, null without one.
    """

    policy: str
    reference: str | None
    guide: str | None
    temperature: float
    tokens: list[str] | None
    surprisal: list[float] | None
    entropy: list[float] | None
    q: list[float] | None
    log_ratio: list[float] | None
