"""The results of a suite's trials, their paired differences, and the verdicts on its claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from sage_cli.errors import ConfigurationError, SageError
from sage_cli.metrics import About, Counts, Side, pooled
from sage_cli.metrics.comparison import TrainingSeed
from sage_cli.metrics.counts import SeedCounts
from sage_cli.metrics.intervals import Resampling, holm
from sage_cli.metrics.power import POWER
from sage_cli.models.compatibility import training_seed
from sage_cli.models.facts import state
from sage_cli.models.shipped_base import shipped_source
from sage_cli.problems.registry import shown_name
from sage_cli.reports.comparison_report import (
    AVERAGE,
    AVERAGE_NOTE,
    DIFFERENCE_COLUMNS,
    NOT_BELOW,
    Contrast,
    adjusted,
    average_of,
    cells_at,
    contrast_json,
    contrast_of,
    difference_at,
    fragile_notes,
)
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.figures import draw_dot_plot
from sage_cli.reports.passk import powers_of_two
from sage_cli.reports.published import evaluation_tables, published_scores
from sage_cli.reports.tables import (
    UNDEFINED,
    Column,
    Estimate,
    Row,
    Table,
    columns,
    to_records,
)
from sage_cli.settings.sampling import parse_ks
from sage_cli.store.evaluations import evaluation_figures, name_in
from sage_cli.store.files import replacing
from sage_cli.trials.stored_results import BenchmarkCache, MeasuredSeeds, stored_results
from sage_cli.trials.suites.declaration import (
    ALPHA,
    BASE,
    INITIAL,
    Claim,
    Suite,
    Verdict,
    shown_label,
)
from sage_cli.trials.suites.plan import Part
from sage_cli.trials.trial import Replicate, Trial

_Pair = tuple[str, str]
"""The labels of two methods: the first minus the second."""


@dataclass(frozen=True, eq=False)
class MethodResult:
    """A trial with the measurement of each measured replicate; `why` says why others have none."""

    trial: Trial
    measured: Sequence[MeasuredSeeds]
    why: str | None = None
    seeds: Sequence[TrainingSeed | None] = ()
    """What each measured training run began with."""

    @property
    def label(self) -> str:
        """The method's label in the suite."""
        return self.trial.label

    @property
    def name(self) -> str:
        """The method's name in a report."""
        return shown_label(self.label)

    @property
    def shown(self) -> str:
        """The name, and what is missing."""
        if self.why is None:
            return self.name
        seeds = len(self.trial.replicates)
        counted = f"{len(self.measured)} of {seeds} seeds; " if self.measured else ""
        return f"{self.name} ({counted}{self.why})"

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """The benchmarks on which it was measured."""
        return tuple(self.measured[0]) if self.measured else ()

    @property
    def measurements(self) -> list[SeedCounts]:
        """Every measurement: by replicate, benchmark and evaluation seed."""
        return [
            measurement
            for by_benchmark in self.measured
            for seeds in by_benchmark.values()
            for measurement in seeds
        ]

    def side(self, benchmark: str) -> Side:
        """Its models on a benchmark, one for each replicate."""
        runs = tuple([measurement.counts for measurement in by[benchmark]] for by in self.measured)
        return Side(self.label, runs, base=self.trial.is_initial, seeds=tuple(self.seeds))

    def spread(self, benchmark: str) -> list[Counts]:
        """The counts over which deviations are computed: replicates, or else evaluation seeds."""
        runs = self.side(benchmark).runs
        return [pooled(run) for run in runs] if len(runs) > 1 else list(runs[0])


@dataclass(frozen=True, eq=False)
class PartResult:
    """The results of a suite's methods, without those that equal another under this model."""

    suite: Suite
    methods: Sequence[MethodResult]
    same: Mapping[str, str]
    """Label -> the method with the same policies."""

    @cached_property
    def there(self) -> list[MethodResult]:
        """The methods with measurements."""
        return [method for method in self.methods if method.measured]

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """The benchmarks on which methods were measured."""
        return self.there[0].benchmarks if self.there else ()

    @property
    def ks(self) -> tuple[int, ...]:
        """The values of k that are shown."""
        evaluation = self.methods[0].trial.config.evaluation
        return tuple(powers_of_two(parse_ks(evaluation.k, evaluation.samples)))

    @property
    def base(self) -> MethodResult | None:
        """The result of the initial policy, if it was measured."""
        return next((method for method in self.there if method.trial.is_initial), None)

    def method(self, label: str) -> MethodResult | None:
        """The measured method of that label, or the one that equals it."""
        same_label = self.same.get(label, label)
        return next((method for method in self.there if method.label == same_label), None)


def results(part: Part, benchmarks: BenchmarkCache, failures: Mapping[str, str]) -> PartResult:
    """The stored results of a suite; `failures` says by task why it was given up."""
    methods = [
        _result(trial, part.suite, benchmarks, failures)
        for trial in part.trials
        if trial.label not in part.same
    ]
    return PartResult(part.suite, methods, part.same)


def _result(
    trial: Trial, suite: Suite, benchmarks: BenchmarkCache, failures: Mapping[str, str]
) -> MethodResult:
    all_measured, missing, seeds = [], [], []
    for replicate in trial.replicates:
        try:
            measured = (
                stored_results(replicate.policy, replicate.config, benchmarks)
                if suite.measured
                else None
            )
        except SageError as error:
            missing.append(error.cause)
            continue
        if measured is not None:
            all_measured.append(measured)
            seeds.append(training_seed(replicate.policy))
        elif suite.measured or not replicate.policy.exists:
            check_suite_settings(replicate)
            missing.append(_why(replicate, failures))
    return MethodResult(trial, all_measured, missing[0] if missing else None, seeds)


def _why(replicate: Replicate, failures: Mapping[str, str]) -> str:
    policy = replicate.policy
    for name in (policy.label, replicate.initial.label):
        if name in failures and not policy.exists:
            return failures[name]
    measured = [why for name, why in failures.items() if name.startswith(f"{policy.label}-on-")]
    if measured:
        return measured[0]
    if policy.run is None or policy.run.is_finished() or shipped_source(policy.run) is not None:
        return "not measured yet"
    return state(policy.run)


def check_suite_settings(replicate: Replicate) -> None:
    """Raise ConfigurationError if a run was measured with other settings than the suite's.

    Fewer samples or seeds are not another setting: they count, and the rest is sampled.
    """
    run, config = replicate.policy.run, replicate.config
    if run is None or not run.is_finished():
        return
    figures = evaluation_figures(run)
    expected = {"temperature": config.sampling.temperature, "grading": config.grading.mode}
    for benchmark in map(str.strip, config.evaluation.benchmark.split(",")):
        name = name_in(figures, shown_name(benchmark, config.data))
        recorded = {
            key: figures.get(f"eval/{name}/{key}", value) for key, value in expected.items()
        }
        differing = [
            f"{key} {recorded[key]} instead of {value}"
            for key, value in expected.items()
            if recorded[key] != value
        ]
        if differing:
            raise ConfigurationError(
                f"the samples of {replicate.title} on {benchmark} are of other settings than the "
                f"suite's: {', '.join(differing)}",
                "`sage suite run` samples with the suite's own; or give the suite those settings "
                "with --set",
            )


def write_counts(part_results: Sequence[PartResult], file: Path) -> None:
    """Write all counts of suites as Parquet: one row per policy, evaluation seed and problem.

    `c` of `n` samples are correct; `seed` numbers the trainings of a method from 1.
    """
    import pyarrow as pa  # a dry run needs neither
    import pyarrow.parquet as pq

    texts = ("suite", "method", "policy", "benchmark", "problem")
    numbers = ("seed", "evaluation_seed", "n", "c")
    schema = pa.schema([(x, pa.string()) for x in texts] + [(x, pa.int32()) for x in numbers])
    rows = [row for result in part_results for row in _counts(result)]
    with replacing(file) as temporary:
        pq.write_table(pa.Table.from_pylist(rows, schema), temporary, compression="zstd")


def _counts(result: PartResult) -> Iterator[dict[str, str | int]]:
    for method in result.there:
        seeds = {
            replicate.policy.label: replicate.seed + 1 for replicate in method.trial.replicates
        }
        for measured in method.measurements:
            about: dict[str, str | int] = {
                "suite": result.suite.name,
                "method": method.label,
                "policy": measured.policy,
                "benchmark": measured.benchmark,
                "seed": seeds[measured.policy],
                "evaluation_seed": measured.seed,
            }
            counts = measured.counts
            for problem, n, c in zip(counts.problem_ids, counts.n_P, counts.c_P, strict=True):
                yield {**about, "problem": problem, "n": int(n), "c": int(c)}


UNMEASURED = Estimate(float("nan"))


@dataclass(frozen=True)
class Decided:
    """A claim with its measurement; `k` is the claim's, or the largest measured one.

    `about` is what the measurement is about, None without a measurement; `subject` says it in
    words. `own` is the difference of the claim's method from its own `control`, if it has one.
    `unpooled` has the interval by the seeds of the claim's two methods alone, where `difference`
    pools them over the suite.
    """

    claim: Claim
    k: int
    difference: Estimate
    detectable: float
    p_holm: float
    verdict: Verdict
    about: About | None
    subject: str
    control: str | None = None
    own: Estimate = UNMEASURED
    unpooled: Estimate = UNMEASURED
    two_seeds: bool = False

    @property
    def sentence(self) -> str:
        """Return which side is above, or that they are indistinguishable, with the difference."""
        a, b = (
            f"the {INITIAL}" if label == BASE else label for label in (self.claim.a, self.claim.b)
        )
        scope = f"at pass@{self.k}" + (
            f" on {self.claim.benchmark}" if self.claim.benchmark else ""
        )
        if self.verdict is Verdict.UNKNOWN:
            return f"{a} and {b} {scope}: {self.verdict}"
        is_open = self.verdict in (Verdict.OPEN, Verdict.OPEN_MODELS)
        sign = "above" if self.difference.value > 0 else "below"
        relation = f"{'indistinguishable from' if is_open else sign} {b} {scope}: {self.difference}"
        if self.control in (None, self.claim.a, self.claim.b):
            return f"{a} is {relation}"
        return f"{a} is {relation}; difference from its baseline {self.control}: {self.own}"


def decide(result: PartResult, by_pair: Mapping[_Pair, Mapping[str, Contrast]]) -> list[Decided]:
    """Return every claim with its verdict; Holm's p is over the suite's claims."""
    claims = result.suite.read_claims
    if not claims:
        return []
    ks = [min(claim.k, result.ks[-1]) for claim in claims]
    contrasts = [_claimed_contrast(claim, by_pair) for claim in claims]
    adjusted = holm(
        [_p_at(contrast, k) for contrast, k in zip(contrasts, ks, strict=True)]
    ).tolist()
    verdicts = [
        _decided(claim, k, contrast, p_holm, turned=(claim.a, claim.b) not in by_pair)
        for claim, k, contrast, p_holm in zip(claims, ks, contrasts, adjusted, strict=True)
    ]
    return [_beside_control(verdict, result.suite, by_pair) for verdict in verdicts]


def _beside_control(
    decided: Decided, suite: Suite, by_pair: Mapping[_Pair, Mapping[str, Contrast]]
) -> Decided:
    """Return a claim with the difference of its method from the method's own control, if any."""
    claim = decided.claim
    for label in (claim.a, claim.b):
        if control := suite.methods[label].control:
            contrast = _claimed_contrast(replace(claim, a=label, b=control), by_pair)
            own = UNMEASURED if contrast is None else difference_at(contrast, decided.k)
            return replace(decided, control=control, own=own)
    return decided


def _p_at(contrast: Contrast | None, k: int) -> float:
    """Return the unadjusted p at `k`; NaN without a measurement."""
    if contrast is None:
        return float("nan")
    return float(contrast.difference.p_K[contrast.difference.ks.index(k)])


def _decided(
    claim: Claim, k: int, contrast: Contrast | None, p_holm: float, *, turned: bool
) -> Decided:
    """Return a claim with its contrast, which may be of b less a (`turned`)."""
    if contrast is None:
        nan = float("nan")
        return Decided(claim, k, Estimate(nan), nan, nan, Verdict.UNKNOWN, None, UNDEFINED)
    gap, index = difference_at(contrast, k), contrast.difference.ks.index(k)
    gap = _turned(gap) if turned else gap
    alone = UNMEASURED
    if contrast.unpooled is not None:
        alone = difference_at(replace(contrast, difference=contrast.unpooled), k)
        alone = replace(_turned(alone) if turned else alone, value=float("nan"))
    verdict = claim.verdict(gap.value, p_holm, contrast.about)
    smallest = float(contrast.smallest_K[index])
    return Decided(
        claim,
        k,
        gap,
        smallest,
        p_holm,
        verdict,
        contrast.about,
        contrast.subject,
        unpooled=alone,
        two_seeds=contrast.difference.two_seeds,
    )


def _claimed_contrast(
    claim: Claim, by_pair: Mapping[_Pair, Mapping[str, Contrast]]
) -> Contrast | None:
    """Return the claim's contrast, of a less b or b less a; None if it is not measured."""
    pair = (claim.a, claim.b)
    by_benchmark = by_pair.get(pair) or by_pair.get(pair[::-1], {})
    if claim.benchmark is None:
        return overall_contrast(by_benchmark)
    named = (name for name in by_benchmark if claim.benchmark in (name, name.partition(":")[0]))
    return by_benchmark.get(next(named, claim.benchmark))


def _turned(gap: Estimate) -> Estimate:
    assert gap.interval is not None
    low, high = gap.interval
    return replace(gap, value=0.0 - gap.value, interval=(0.0 - high, 0.0 - low))


def claims_table(claims: Sequence[Decided], result: PartResult) -> Table:
    """Return a row per claim: verdict, subject, difference, and the published one if any is."""
    published = [_published(decided.claim, result) for decided in claims]
    on_paper = any(isinstance(printed, Estimate) for printed in published)
    beside = any(decided.control for decided in claims)
    heads = columns("claim, here, about")
    heads += columns("− its baseline") if beside else ()
    pooled_any = any(decided.unpooled.interval for decided in claims)
    heads += columns("difference")
    heads += columns("by its own seeds=without pooling") if pooled_any else ()
    heads += columns("detectable, p (Holm)")
    rows = []
    for decided, printed in zip(claims, published, strict=True):
        other_k = "" if decided.k == decided.claim.k else f" (here pass@{decided.k})"
        below = NOT_BELOW if decided.two_seeds else None
        p_holm = Estimate(decided.p_holm, digits=4, tiny=True, below=below)
        numbers = (Estimate(decided.detectable), p_holm)
        verdict = (
            " ".join(map(shown_label, decided.claim.text.split())) + other_k,
            decided.verdict.value,
            decided.subject,
            *([decided.own] if beside else []),
            decided.difference,
            *([decided.unpooled] if pooled_any else []),
        )
        rows.append(Row((*verdict, *numbers, *([printed] if on_paper else []))))
    heads += columns("paper") if on_paper else ()
    return Table("Claims", heads, tuple(rows))


def _published(claim: Claim, result: PartResult) -> Estimate | str:
    """Return the published difference, averaged over benchmarks as in the paper."""
    name = result.suite.published
    if name not in evaluation_tables():
        return UNDEFINED
    assert name is not None
    scores = published_scores(name)
    sides = []
    for label in (claim.a, claim.b):
        by = scores.get(label) or (published_scores("table1")["base"] if label == "base" else {})
        on = [claim.benchmark] if claim.benchmark else list(by)
        values = [
            by[benchmark][claim.k].value
            for benchmark in on
            if benchmark in by and claim.k in by[benchmark]
        ]
        sides.append(sum(values) / len(values) if values else float("nan"))
    return Estimate(sides[0] - sides[1], signed=True)


def claim_json(decided: Decided) -> dict[str, Any]:
    """Return a claim as JSON; `about` is null without a measurement."""
    return {
        "claim": decided.claim.text,
        "sentence": decided.sentence,
        "k": decided.k,
        "verdict": decided.verdict.value,
        "about": decided.about,
        **{
            f"difference {name}".strip(): value
            for name, value in decided.difference.parts().items()
        },
        "control": decided.control,
        **{f"less control {name}".strip(): value for name, value in decided.own.parts().items()},
        "unpooled": None if decided.unpooled.interval is None else list(decided.unpooled.interval),
        "detectable": decided.detectable,
        "p_holm": decided.p_holm,
    }


def claims_note(claims: Sequence[Decided]) -> list[str]:
    """Return notes on the meaning of the verdicts."""
    if not claims:
        return []
    many = f"{len(claims)} claim{'' if len(claims) == 1 else 's'}"
    notes = [
        "a claim holds if the difference has its sign and Holm's p over the "
        f"{many} is at most {ALPHA}; it is reversed if only the sign is the other; otherwise the "
        "two are indistinguishable"
    ]
    if any(claim.about == "models" for claim in claims):
        notes.append(
            "these models: the verdict is about trained models, because a method with one "
            "training run has none"
        )
    return notes


def overall_contrast(by_benchmark: Mapping[str, Contrast]) -> Contrast | None:
    """Return a pair's contrast on the benchmarks' average, or on the only benchmark."""
    return by_benchmark.get(AVERAGE) or next(iter(by_benchmark.values()), None)


Family = Mapping[tuple[str, str, str], Contrast]
"""(method, other method, benchmark) -> their contrast."""


def contrasts(result: PartResult) -> dict[_Pair, dict[str, Contrast]]:
    """Return pair of methods -> benchmark (and their average) -> contrast, unadjusted."""
    pairs = result.suite.compared
    if not pairs or not result.there:
        return {}
    most = result.ks[-1]
    ks = sorted({*result.ks, *(min(claim.k, most) for claim in result.suite.read_claims)})
    arms = _repeated(result)
    by_pair: dict[_Pair, dict[str, Contrast]] = {}
    for a, b in pairs:
        first, second = result.method(a), result.method(b)
        if first is not None and second is not None and first is not second:
            by_pair[a, b] = _contrast(first, second, ks, arms)
    return by_pair


def _repeated(result: PartResult) -> list[MethodResult]:
    return [
        method
        for method in result.there
        if len(method.measured) > 1 and not method.trial.is_initial
    ]


def differences(result: PartResult) -> Document:
    """Return the section of claims, if there are any, and of the pairs' differences."""
    by_pair = contrasts(result)
    claims = decide(result, by_pair)
    flat = {
        (*pair, name): contrast for pair, by in by_pair.items() for name, contrast in by.items()
    }
    family = adjusted(flat, result.ks) if flat else {}
    tests = sum(int(np.isfinite(contrast.holm_K).sum()) for contrast in family.values())
    tables = {"claims": claims_table(claims, result)} if claims else {}
    if family:
        tables["differences"] = _table(family, result)
    overall = {
        pair: contrast
        for pair, by in by_pair.items()
        if (contrast := overall_contrast(by)) is not None
    }
    if (sensitivity := _hindsight(overall, result)).rows:
        tables["hindsight"] = sensitivity
    return Document(
        name="claims",
        title="Claims and their verdicts" if claims else "Differences",
        data={
            "claims": [claim_json(claim) for claim in claims],
            "differences": [
                {"a": a, "b": b, "benchmark": name, **contrast_json(contrast)}
                | {"own_control": result.suite.methods[a].control == b}
                for (a, b, name), contrast in family.items()
            ],
            "hindsight": to_records(sensitivity),
            "rows": [record for table in [*tables.values()][:1] for record in to_records(table)],
        },
        tables=tuple(tables.values()),
        sheets=tables,
        figures=(_forest(overall, _shown(result.ks)),) if overall else (),
        notes=(
            *claims_note(claims),
            "detectable: the minimum detectable difference, which these problems, samples and "
            f"seeds show in {POWER:.0%} of repetitions",
            *([f"p (Holm) of the differences: adjusted for {tests} tests"] if family else []),
            *([f"average: {AVERAGE_NOTE}"] if len(result.benchmarks) > 1 else []),
            *_fragile_notes(family, result.ks),
            *_seeds_note(result, family),
            *_control_notes(result),
        ),
    )


def _shown(ks: Sequence[int]) -> Sequence[int]:
    """Return the values of k that fit into tables and pictures."""
    return ks if len(ks) <= 4 else (ks[0], ks[len(ks) // 2], ks[-1])


def _contrast(
    a: MethodResult, b: MethodResult, ks: Sequence[int], arms: Sequence[MethodResult]
) -> dict[str, Contrast]:
    evaluation = a.trial.config.evaluation
    resampling = Resampling(evaluation.confidence, evaluation.bootstrap)
    by_benchmark, pools = {}, []
    for name in (name for name in a.benchmarks if name in b.benchmarks):
        pools.append([arm.side(name) for arm in arms if name in arm.benchmarks])
        by_benchmark[name] = contrast_of(a.side(name), b.side(name), ks, pools[-1], resampling)
    if len(by_benchmark) > 1:
        by_benchmark[AVERAGE] = average_of(list(by_benchmark.values()), pools)
    return by_benchmark


def _forest(by_pair: Mapping[_Pair, Contrast], ks: Sequence[int]) -> Figure:
    draw = partial(draw_dot_plot, forest_panels(by_pair, ks), "difference", zero=True)
    return Figure("differences", draw)


def forest_panels(
    by_pair: Mapping[_Pair, Contrast], ks: Sequence[int]
) -> dict[str, dict[str, dict[str, Estimate]]]:
    """Return a panel for each k, a row for each method, a point for each other method."""
    panels: dict[str, dict[str, dict[str, Estimate]]] = {f"pass@{k}": {} for k in ks}
    for (a, b), contrast in by_pair.items():
        less = f"− {shown_label(b)}"
        for k in ks:
            panels[f"pass@{k}"].setdefault(a, {})[less] = difference_at(contrast, k)
    return panels


def _table(family: Family, result: PartResult) -> Table:
    differences = columns(f"a, b, {DIFFERENCE_COLUMNS}")
    heads = (
        *columns("methods=arms, about, benchmark, k"),
        *(replace(column, part=column.name) for column in differences),
    )
    table_ks = _shown(result.ks)
    rows = []
    for (a, b, benchmark), contrast in family.items():
        own = "its baseline " if result.suite.methods[a].control == b else ""
        methods = f"{shown_label(a)} − {own}{shown_label(b)}"
        for k in contrast.difference.ks:
            if k in table_ks:
                name = (methods, contrast.subject, benchmark, k)
                rows.append(Row((*name, *cells_at(contrast, k)), section=f"{a} {b}"))
    return Table("Paired differences", heads, tuple(rows))


def _hindsight(overall: Mapping[_Pair, Contrast], result: PartResult) -> Table:
    """Return each method's difference from the best of its unguided rivals, chosen afterwards."""
    plain = {
        method.label
        for method in result.there
        if not method.trial.is_initial and method.trial.config.guide.name == "none"
    }
    rows = []
    for label in (label for label, method in result.suite.methods.items() if method.control):
        rivals = {pair: {*pair} - {label} for pair in overall if label in pair}
        rivals = {pair: rival for pair, rival in rivals.items() if rival <= plain}
        for k in _shown(result.ks) if len(rivals) > 1 else ():
            gaps = {pair: difference_at(overall[pair], k) for pair in rivals}
            gaps = {pair: gap if pair[0] == label else _turned(gap) for pair, gap in gaps.items()}
            best = min(gaps, key=lambda pair: gaps[pair].value)
            rows.append(Row((label, k, *rivals[best], len(rivals), gaps[best]), section=label))
    heads = (
        *columns("method=arm, k"),
        Column("best in hindsight", label="post-hoc best"),
        *columns("of, difference"),
    )
    notes = ("a sensitivity analysis: the rival was chosen by this outcome, which favours it",)
    return Table(
        "Sensitivity analysis: difference from the post-hoc best", heads, tuple(rows), notes
    )


def _fragile_notes(family: Family, ks: Sequence[int]) -> list[str]:
    """Return warnings for pairs and benchmarks whose result rare, unseen losses could undo."""
    return [
        f"{shown_label(a)} − {shown_label(b)} on {benchmark}: {note}"
        for (a, b, benchmark), contrast in family.items()
        for note in fragile_notes(contrast.difference, ks)
    ]


def _control_notes(result: PartResult) -> list[str]:
    """Return a note on each method with a guide whose own control the suite lacks."""
    return [
        f"{method.label}: the suite has no unguided baseline (the same method and anchor without "
        "the guide), so no difference shows the effect of the guide"
        for method in result.methods
        if method.trial.config.guide.name != "none"
        and not result.suite.methods[method.label].control
    ]


def _seeds_note(result: PartResult, family: Family) -> list[str]:
    """Return notes on what is random in the differences, and on the pooled seeds."""
    repeated = _repeated(result)
    notes = []
    if len(repeated) < len([method for method in result.there if not method.trial.is_initial]):
        notes.append(
            "two models, these models: arms with one training run are compared as models, not as "
            "methods; another training seed gives another model"
        )
    if not repeated:
        return notes
    return [
        *notes,
        "methods: training seeds and problems are both random; method and this base: the initial "
        "policy is one fixed model, and another may give another difference",
        *_pairing_notes(family),
        *(
            [
                f"the variance between training seeds is pooled over {len(repeated)} arms that "
                "share their seeds, which assumes that all arms and all differences vary equally; "
                "the table of claims also has each interval without pooling"
            ]
            if any(contrast.unpooled is not None for contrast in family.values())
            else []
        ),
    ]


def _pairing_notes(family: Family) -> list[str]:
    """Return which pairs of methods are paired by training seed, and which runs that leaves out."""
    notes = []
    for (a, b, benchmark), contrast in family.items():
        pairing = contrast.difference.pairing
        if pairing is not None and pairing.left_out:
            notes.append(
                f"{shown_label(a)} − {shown_label(b)} on {benchmark}: "
                f"{', '.join(pairing.left_out)} left out, because the other arm has no run with "
                "the same training seed"
            )
    pairings = [contrast.difference.pairing for contrast in family.values()]
    if any(pairing is not None for pairing in pairings):
        notes.append(
            "arms that share training seeds, initial weights and rows are compared run by run; "
            "differences.json has the correlations"
        )
    return notes
