"""`sage power`: the smallest difference that a design can detect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sage_cli.cli import options
from sage_cli.cli.console import Live, show_report
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.evaluation.logs.registry import program_titles
from sage_cli.progress import Progress
from sage_cli.store.files import file_stems, identity_of, portable

if TYPE_CHECKING:
    from sage_cli.evaluation.counted_files import CountedFile
    from sage_cli.evaluation.evaluate import Evaluation
    from sage_cli.evaluation.logs.log import ReadOptions
    from sage_cli.metrics import Counts, Side
    from sage_cli.metrics.comparison import TrainingSeed
    from sage_cli.metrics.counts import FloatArray
    from sage_cli.metrics.power import Design
    from sage_cli.reports.document import Document, Provenance, Report
    from sage_cli.reports.seed_power import SeedDesigns
    from sage_cli.reports.tables import Table

    Counted = tuple[str, str, Counts]
    """A base's label, the benchmark, and its counts."""


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help=(
                f"Models to start from: logs of {program_titles()}, files of samples or counts, "
                "or runs and models with stored samples."
            )
        ),
    ] = None,
    problems: Annotated[
        str | None,
        typer.Option(
            help=(
                "Numbers of problems, for example 30,60,300 (default: the counted number, 2 and "
                "4 times as many)."
            )
        ),
    ] = None,
    samples: Annotated[
        str | None,
        typer.Option(help="Numbers n of samples per problem and seed (default: 64,256,1024)."),
    ] = None,
    seeds: Annotated[
        str, typer.Option(help="Numbers of evaluation seeds, for example 1,3,5.")
    ] = "1",
    training_seeds: Annotated[
        str | None,
        typer.Option(
            help=(
                "Numbers of training seeds of each of two methods, for example 2,4,8; needs "
                "`--from`."
            )
        ),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            help=(
                "Training runs of one method, or of two, for example A1,A2,B1,B2. How they differ "
                "says how much training seeds vary."
            ),
        ),
    ] = None,
    seed_deviation: Annotated[
        float | None,
        typer.Option(
            min=0,
            help=(
                "Standard deviation of pass@k between training seeds, for example 0.02, if "
                "`--from` names fewer than two runs of a method."
            ),
        ),
    ] = None,
    k: options.Ks = None,
    score: options.Scores = None,
    fields: options.Fields = None,
    golds: options.Golds = None,
    drop_invalidated: options.DropInvalidated = False,
    benchmark: options.BenchmarkNames = None,
    preset: options.Presets = None,
    config: options.ConfigFile = None,
    set_: options.Sets = None,
    runs: options.RunRoot = None,
    json: options.Json = False,
) -> None:
    """Estimate the smallest difference of pass@k that problems, samples and seeds can detect.

    Seeds are evaluation seeds of two models or, with `--training-seeds`, training seeds of two
    methods.
    """
    from sage_cli.evaluation.evaluate import Evaluation

    over_seeds = check_seed_options(training_seeds, from_, seed_deviation, names, samples, seeds)
    names = over_seeds or names
    models = [name for name in names or () if not options.is_file(name)]
    if models or not names:
        flags = {"benchmark": benchmark}
        settings = options.load_for_measuring(
            models, preset, config, set_, runs, "power", evaluation=flags
        )
    else:
        options.are_files(names, benchmark=benchmark)
        settings = options.load_config(preset, config, set_, "power FILE", run={"root": runs})
    with Live() as live:
        if over_seeds:
            report = power_over_seeds(
                Evaluation(settings), over_seeds, live, training_seeds=str(training_seeds),
                deviation=seed_deviation, problems=problems, k=k, scores=score or (),
                reading=options.file_reading(fields, golds, drop_invalidated),
            )  # fmt: skip
            show_report(report, json)
            return
        report = power(
            Evaluation(settings), names or [], live, problems=problems,
            samples=samples, seeds=seeds, k=k, scores=score or (),
            reading=options.file_reading(fields, golds, drop_invalidated),
        )  # fmt: skip
    show_report(report, json)


def check_seed_options(
    training_seeds: str | None,
    from_: str | None,
    deviation: float | None,
    names: Sequence[str] | None,
    samples: str | None,
    seeds: str,
) -> list[str] | None:
    """Return the runs of `--from`; None for a question about two models.

    Raises ConfigurationError for options that don't go together.
    """
    if training_seeds is None:
        for option, value in (("--from", from_), ("--seed-deviation", deviation)):
            if value is not None:
                raise ConfigurationError(
                    f"{option} {value} is about training seeds, and --training-seeds is missing",
                    f"add --training-seeds 2,4,8, or leave out {option}",
                )
        return None
    if from_ is None:
        raise ConfigurationError(
            f"--training-seeds {training_seeds} needs runs that say how much training seeds vary",
            "name training runs of one or two methods: --from A1,A2,B1,B2",
        )
    beside = [("", " ".join(names or ())), ("--samples ", samples or "")]
    beside.append(("--seeds ", "" if seeds == "1" else seeds))
    if idle := [option + value for option, value in beside if value]:
        raise ConfigurationError(
            f"'{idle[0]}' isn't read with --training-seeds",
            "the runs of --from have their problems, samples and evaluation seeds; leave it out",
        )
    return [name.strip() for name in from_.split(",")]


def power_over_seeds(
    evaluation: Evaluation,
    names: Sequence[str],
    progress: Progress,
    *,
    training_seeds: str,
    deviation: float | None = None,
    problems: str | None = None,
    k: str | None = None,
    scores: Sequence[str] = (),
    reading: ReadOptions | None = None,
) -> Report:
    """Report the smallest difference of two methods that numbers of training seeds would detect.

    `names` are runs of one method or two, or files of one method's runs. With two methods that
    share training seeds the gaps of their pairs say how much these vary; else each side's own
    runs. Of fewer than two runs of a method `deviation` says it. Nothing is sampled.
    """
    from sage_cli.metrics import Side
    from sage_cli.reports.document import report_folder
    from sage_cli.reports.seed_power import seed_power_document
    from sage_cli.settings.sampling import parse_ks

    seeds = whole_numbers("--training-seeds", training_seeds)
    p = whole_numbers("--problems", problems) if problems else None
    with progress.doing("counting what is stored of the runs"):
        counted, provenance, _ = _bases(evaluation, names, scores, reading, progress)
        methods, began = _methods(evaluation, names)
    n = min(int(counts.n_P.min()) for _, _, counts in counted)
    ks = parse_ks(k, n, "n") if k else tuple(k for k in KS if k <= max(n, 1))
    designs: list[SeedDesigns] = []
    notes: list[str] = []
    for benchmark in dict.fromkeys(benchmark for _, benchmark, _ in counted):
        runs = [counts for _, on, counts in counted if on == benchmark]
        sides = [
            Side(
                f"method {method}",
                tuple([counts] for counts, of in zip(runs, methods, strict=True) if of == method),
                seeds=tuple(seed for seed, of in zip(began, methods, strict=True) if of == method),
            )
            for method in dict.fromkeys(methods)
        ]
        asked, notes = seed_designs(benchmark, sides, seeds, p, ks, evaluation, deviation)
        designs.append(asked)
    identity = identity_of("seed power", {"runs": list(names), "asked": repr((seeds, p, ks))})
    folder = report_folder(evaluation.config.run.root, f"power-seeds-{identity[:8]}")
    with progress.doing("writing the report"):
        return seed_power_document(designs, provenance, notes).write(folder)


def _methods(
    evaluation: Evaluation, names: Sequence[str]
) -> tuple[list[int], list[TrainingSeed | None]]:
    """Return for each name the number of its method, and what its run began with.

    Files are of one method. Raises ConfigurationError for runs of three methods or more, and for
    runs beside files.
    """
    from sage_cli.models.compatibility import method_settings, training_seed
    from sage_cli.models.policy import chosen_policies
    from sage_cli.store.run import Runs

    files = [name for name in names if options.is_file(name)]
    settings: list[object] = ["files"] * len(files)
    began: list[TrainingSeed | None] = [None] * len(files)
    models = [name for name in names if name not in files]
    if files and models:
        raise ConfigurationError(
            f"--from has runs ({models[0]}) and files ({files[0]})",
            "name runs alone, or files alone",
        )
    if models:
        runs = Runs(evaluation.config.run.root)
        policies = chosen_policies(models, runs, evaluation.config.model)
        settings += [method_settings(policy, runs) for policy in policies]
        began += [training_seed(policy) for policy in policies]
    different: list[object] = []
    for made_with in settings:
        if made_with not in different:
            different.append(made_with)
    if len(different) > 2:
        raise ConfigurationError(
            f"--from has runs of {len(different)} methods (settings differ in more than seeds)",
            "name training runs of one method, or of two that are compared",
        )
    return [different.index(made_with) for made_with in settings], began


def seed_designs(
    benchmark: str,
    sides: Sequence[Side],
    seeds: Sequence[int],
    problems: Sequence[int] | None,
    ks: Sequence[int],
    evaluation: Evaluation,
    deviation: float | None,
) -> tuple[SeedDesigns, list[str]]:
    """Return what the runs of one or two methods say of training seeds, and notes on it."""
    import numpy as np

    from sage_cli.metrics.comparison import column_correlations, pair_sides
    from sage_cli.metrics.error_sources import by_run
    from sage_cli.metrics.power import (
        variation_of_deviation,
        variation_of_pairs,
        variation_of_sides,
    )
    from sage_cli.reports.seed_power import SeedDesigns

    first = sides[0].runs[0][0]
    correlation_K = np.full(len(ks), np.nan)
    variations, notes = {}, []
    few = min(len(side.runs) for side in sides)
    if deviation is not None:
        for words, correlation in ASSUMED.items():
            variations[words] = variation_of_deviation(first, ks, deviation, correlation)
        notes.append(
            f"we assume that pass@k has standard deviation {deviation:g} between training seeds "
            "and that methods differ equally on all problems; if not, more seeds are necessary"
        )
    elif few < 2:
        raise ConfigurationError(
            f"--from has {few} run of a method, and at least two are needed to see how much "
            "training seeds vary",
            "name more runs of it, or type the deviation of pass@k between training seeds: "
            "--seed-deviation 0.02",
        )
    else:
        ids = first.problem_ids
        runs = [by_run(side.runs, ids, ks) for side in sides]
        if len(sides) == 2 and (pairs := pair_sides(*sides)) is not None:
            paired = [by_run(side.runs, ids, ks) for side in pairs[:2]]
            variations["paired"] = variation_of_pairs(paired[0], paired[1])
            correlation_K = column_correlations(*(side_IPK.mean(axis=1) for side_IPK in paired))
        variations["their own"] = variation_of_sides(runs)
        if len(sides) == 1:
            notes.append(
                "all runs are of one method: we assume that the other varies as much and differs "
                "equally on all problems, so the true values may be larger; name runs of both"
            )
    confidence = evaluation.config.evaluation.confidence
    p = problems or (len(first),)
    return SeedDesigns(benchmark, variations, seeds, p, ks, confidence, correlation_K), notes


ASSUMED = {"their own": None, "paired, correlation 0.8 (assumed)": 0.8}
"""How the seeds of two methods belong together where only their deviation is known."""

SAMPLES = (64, 256, 1024)
"""Samples per problem that are tried if none are given."""
KS = (1, 16, 256, 4096)
"""The k that are shown if none are given, as far as samples are counted."""


def power(
    evaluation: Evaluation,
    names: Sequence[str],
    progress: Progress,
    *,
    problems: str | None = None,
    samples: str | None = None,
    seeds: str = "1",
    k: str | None = None,
    scores: Sequence[str] = (),
    reading: ReadOptions | None = None,
) -> Report:
    """Report the smallest gain that each design would detect on each base.

    A name is a file, whose verdicts are those of `scores`, or a run or model whose stored samples
    are counted; without names it is the latest run. Nothing is sampled. Without `problems`, as many
    as were counted, twice and four times that; without `samples`, 64, 256 and 1,024; without `k`, 1
    and the powers of 16 up to the counted samples and those of the designs.
    """
    from sage_cli.evaluation import counted_files
    from sage_cli.metrics.power import Design
    from sage_cli.reports.document import report_folder
    from sage_cli.settings.sampling import parse_ks

    n = whole_numbers("--samples", samples) if samples else SAMPLES
    s = whole_numbers("--seeds", seeds)
    p = whole_numbers("--problems", problems) if problems else None
    typed_ks = parse_ks(k, n[-1], "--samples") if k else ()
    with progress.doing("counting what is stored of the bases"):
        bases, provenance, files = _bases(evaluation, names, scores, reading, progress)
    fewest = min(n[-1], *(int(counts.n_P.min()) for _, _, counts in bases))
    ks = typed_ks or tuple(k for k in KS if k <= max(fewest, 1))
    counted = min(len(counts) for _, _, counts in bases)
    designs = tuple(
        Design(*sizes) for sizes in product(p or (counted, 2 * counted, 4 * counted), n, s)
    )
    question = Question(designs, ks, evaluation.config.evaluation.confidence)
    results = []
    for label, benchmark, counts in bases:
        with progress.doing(f"finding what could be seen of {label} on {benchmark}"):
            results.append(Base.from_counts(label, benchmark, counts, question))
    counted_bases = [
        [base.label, base.benchmark, base.counts.n_P.tolist(), base.counts.c_P.tolist()]
        for base in results
    ]
    identity = identity_of("power", {"bases": counted_bases, "asked": repr(question)})
    name = f"power-{portable(Path(results[0].label).name)}-{identity[:8]}"
    folder = report_folder(evaluation.config.run.root, name)
    with progress.doing("drawing and writing the report"):
        document = power_document(results, question, provenance)
        if files:
            data = {**document.data, "files": [file.as_json() for file in files]}
            notes = (*counted_files.file_notes(files), *document.notes)
            document = replace(document, data=data, notes=notes)
        return document.write(folder)


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """Return `30,60,300` as ascending distinct numbers. Raises ConfigurationError."""
    tokens = [token.strip() for token in text.split(",")]
    wrong = [token for token in tokens if not token.isdecimal() or not 0 < int(token) <= 100_000]
    if wrong:
        raise ConfigurationError(
            f"{option}: '{wrong[0]}' is not a whole number from 1 to 100,000",
            f"for example {option} 30,60,300",
        )
    return tuple(sorted({int(token) for token in tokens}))


def _bases(
    evaluation: Evaluation,
    names: Sequence[str],
    scores: Sequence[str],
    reading: ReadOptions | None,
    progress: Progress,
) -> tuple[list[Counted], Provenance, list[CountedFile]]:
    """Return each base's counts on each benchmark, their provenance, and the files among them."""
    from sage_cli.evaluation import counted_files
    from sage_cli.evaluation.evaluate import provenance_of
    from sage_cli.evaluation.file_judge import FileJudge
    from sage_cli.evaluation.samples import PolicySamples, stored_counts
    from sage_cli.metrics import pooled
    from sage_cli.models.policy import chosen_policies
    from sage_cli.store.run import Runs

    files = [name for name in names if options.is_file(name)]
    judge = FileJudge(evaluation.config, progress)
    counted = counted_files.read_counted_files(files, scores, reading, judge) if files else []
    bases = [
        (label, file.task or "counts", file.counts)
        for label, file in zip(counted_files.file_labels(counted), counted, strict=True)
    ]
    from_files = provenance = counted_files.provenance_of_files(counted)
    if not names or len(files) < len(names):
        config, benchmarks = evaluation.config, evaluation.benchmarks
        root, models = config.run.root, [name for name in names if name not in files]
        policies = chosen_policies(models, Runs(root), config.model)
        n = config.evaluation.samples
        for policy, benchmark in product(policies, benchmarks):
            seeds = stored_counts(policy, benchmark, config, root, (n,))[n]
            bases.append((policy.label, benchmark.name, pooled(seeds)))
        samples = [PolicySamples.from_config(policy, config, root) for policy in policies]
        provenance = provenance_of(samples, benchmarks, config)
    for label, benchmark_name, counts in bases:
        if not counts.n_P.any():
            raise StoreError(
                f"no sample of {label} on {benchmark_name} is stored and graded",
                f"run sage passk {label} --benchmark {benchmark_name} first, or give a "
                "file of counts",
            )
    return bases, replace(provenance, files=from_files.files), counted


@dataclass(frozen=True)
class Question:
    """A power analysis: designs, ks, and the confidence of the test."""

    designs: tuple[Design, ...]
    ks: tuple[int, ...]
    confidence: float


@dataclass(frozen=True, eq=False)
class Base:
    """A base on a benchmark: its counts, the Beta fitted to them, smallest gains (Q, K)."""

    label: str
    benchmark: str
    counts: Counts
    beta: tuple[float, float]
    smallest_QK: FloatArray

    @classmethod
    def from_counts(cls, label: str, benchmark: str, counts: Counts, question: Question) -> Base:
        """Return what each design would detect on problems like the counted ones."""
        from sage_cli.metrics.power import Population, smallest_changes

        population = Population.from_counts(counts)
        asked = question.designs, question.ks, question.confidence
        smallest_QK = smallest_changes(population, *asked)
        return cls(label, benchmark, counts, population.beta, smallest_QK)


def power_document(bases: Sequence[Base], question: Question, provenance: Provenance) -> Document:
    """Return the report: a table per base."""
    from sage_cli.metrics.power import POWER
    from sage_cli.reports.document import Document

    tables = tuple(power_table(base, question) for base in bases)
    models, benchmarks = (
        file_stems(names)
        for names in ([base.label for base in bases], [base.benchmark for base in bases])
    )
    data: dict[str, Any] = {
        "k": list(question.ks),
        "power": POWER,
        "confidence": question.confidence,
        "bases": [_base_json(base, question) for base in bases],
    }
    return Document(
        name="power",
        title="minimum detectable gain in pass@k",
        provenance=provenance,
        data=data,
        tables=tables,
        sheets={
            f"power-{models[base.label]}-{benchmarks[base.benchmark]}"
            if len(bases) > 1
            else "power": table
            for base, table in zip(bases, tables, strict=True)
        },
        notes=_notes(question),
    )


def power_table(base: Base, question: Question) -> Table:
    """Return a row per design: problems, samples, seeds, and the smallest gain at each k."""
    from sage_cli.reports.tables import Column, Estimate, Row, Table, columns

    gains = (Column(f"pass@{k}", "min. detectable gain") for k in question.ks)
    rows = tuple(
        Row((design.problems, design.samples, design.seeds, *map(Estimate, smallest_K.tolist())))
        for design, smallest_K in zip(question.designs, base.smallest_QK, strict=True)
    )
    passed = _pass_at_ks(base.counts, question.ks).items()
    measured = ", ".join(f"pass@{k} {value:.3f}" for k, value in passed)
    problems = f"{len(base.counts)} problem{'s' * (len(base.counts) != 1)}"
    counted = f"{problems}, {measured or 'too few samples for these k'}"
    title = f"minimum detectable gain on {base.benchmark} over {base.label}"
    notes = (f"{base.label}: {counted}", *_beyond_counts(base, question))
    return Table(title, (*columns("problems, samples, seeds"), *gains), rows, notes)


def _beyond_counts(base: Base, question: Question) -> list[str]:
    """Return a warning for the ks above the counted samples."""
    counted = int(base.counts.n_P.min())
    beyond = ", ".join(f"pass@{k}" for k in question.ks if k > counted)
    if not beyond:
        return []
    return [
        f"{beyond}: only {counted:,} samples per problem are counted, so these values rest on the "
        "Beta distribution that was fitted to the problems' success probabilities"
    ]


def _pass_at_ks(counts: Counts, ks: Sequence[int]) -> dict[int, float]:
    """Return the base's pass@k at the ks that its counts allow."""
    from sage_cli.metrics import pass_at_k

    valid = [k for k in ks if k <= counts.n_P.min()]
    values_PK = pass_at_k(counts.n_P, counts.c_P, valid) if valid else None
    return {} if values_PK is None else dict(zip(valid, map(float, values_PK.mean(0)), strict=True))


def _notes(question: Question) -> tuple[str, ...]:
    from sage_cli.metrics.power import HETEROGENEITY, POWER

    return (
        *_alone(question),
        f"a gain of this size is detected in {POWER:.0%} of repetitions by a paired test at "
        f"{1 - question.confidence:.0%} two-sided, if the initial and the trained policy answer "
        "the same problems",
        "we assume problems like these, and training that shifts the problems' log-odds by "
        f"normally distributed amounts with standard deviation {HETEROGENEITY:g}",
        "the samples of both policies are assumed to be independent; with equal evaluation seeds "
        "they share their random numbers, so that a slightly smaller gain is detected",
        "this compares two models, not two methods: variation between training seeds is not "
        "included; --training-seeds plans for it",
        "–: k exceeds the number of samples, or no gain is large enough to be detected",
    )


def _alone(question: Question) -> tuple[str, ...]:
    """Return a warning if a design's n is a k: then the estimate of a problem is 0 or 1."""
    alone = sorted(
        {design.samples for design in question.designs} & {k for k in question.ks if k > 1}
    )
    return tuple(
        f"with n = k = {k} each problem counts as 0 or 1, which is the noisiest estimate of "
        f"pass@{k}: draw more samples per problem, for example --samples {4 * k}"
        for k in alone
    )


def _base_json(base: Base, question: Question) -> dict[str, Any]:
    """Return a base with the Beta distribution fitted to its problems, and its pass@k.

    Each of `designs` has its smallest detectable gain, a value for each k.
    """
    return {
        "base": base.label,
        "benchmark": base.benchmark,
        "problems": len(base.counts),
        "beta": list(base.beta),
        "pass@k": _pass_at_ks(base.counts, question.ks),
        "designs": [
            {**asdict(design), "smallest": smallest_K}
            for design, smallest_K in zip(question.designs, base.smallest_QK, strict=True)
        ],
    }
