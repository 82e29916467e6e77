"""The smallest gain of one policy that numbers of problems and samples can detect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.evaluation import counted_files
from sage_cli.evaluation.counted_files import CountedFile
from sage_cli.evaluation.evaluate import Evaluation, provenance_of
from sage_cli.evaluation.file_judge import FileJudge
from sage_cli.evaluation.logs.log import ReadOptions
from sage_cli.evaluation.logs.registry import is_file
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.evaluation.stored_grades import stored_counts
from sage_cli.metrics import Counts, pass_at_k, pooled
from sage_cli.metrics.estimators import FloatArray
from sage_cli.metrics.power import HETEROGENEITY, POWER, Design, Population, smallest_changes
from sage_cli.models.policy import chosen_policies
from sage_cli.progress import Progress
from sage_cli.reports.document import Document, Report, report_folder
from sage_cli.reports.estimate import Estimate
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.tables import Column, Row, Table, columns
from sage_cli.settings.k_values import parse_ks
from sage_cli.store.file_names import file_stems, portable
from sage_cli.store.result_hash import identity_of
from sage_cli.store.run import Runs

Counted = tuple[str, str, Counts]
"""A base's label, the benchmark, and its counts."""
_SAMPLES = (64, 256, 1024)
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
    n = whole_numbers("--samples", samples) if samples else _SAMPLES
    s = whole_numbers("--seeds", seeds)
    p = whole_numbers("--problems", problems) if problems else None
    typed_ks = parse_ks(k, n[-1], "--samples") if k else ()
    with progress.doing("counting stored samples"):
        bases, provenance, files = stored_bases(evaluation, names, scores, reading, progress)
    fewest = min(n[-1], *(int(counts.n_P.min()) for _, _, counts in bases))
    ks = typed_ks or tuple(k for k in KS if k <= max(fewest, 1))
    counted = min(len(counts) for _, _, counts in bases)
    designs = tuple(
        Design(*sizes) for sizes in product(p or (counted, 2 * counted, 4 * counted), n, s)
    )
    question = Question(designs, ks, evaluation.config.evaluation.confidence)
    results = []
    for label, benchmark, counts in bases:
        with progress.doing(f"computing the smallest gain over {label} on {benchmark}"):
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


def stored_bases(
    evaluation: Evaluation,
    names: Sequence[str],
    scores: Sequence[str],
    reading: ReadOptions | None,
    progress: Progress,
) -> tuple[list[Counted], Provenance, list[CountedFile]]:
    """Return each base's counts on each benchmark, their provenance, and the files among them."""
    files = [name for name in names if is_file(name)]
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
        population = Population.from_counts(counts)
        asked = question.designs, question.ks, question.confidence
        smallest_QK = smallest_changes(population, *asked)
        return cls(label, benchmark, counts, population.beta, smallest_QK)


def power_document(bases: Sequence[Base], question: Question, provenance: Provenance) -> Document:
    """Return the report: a table per base."""
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
        notes=_notes(bases, question),
    )


def power_table(base: Base, question: Question) -> Table:
    """Return a row per design: problems, samples, seeds, and the smallest gain at each k."""
    # the title says what the columns are; files have no title beside a column
    gains = (Column(f"min. detectable gain pass@{k}", label=f"pass@{k}") for k in question.ks)
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
    return Table(title, (*columns("problems#, samples#, seeds#"), *gains), rows, notes)


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
    valid = [k for k in ks if k <= counts.n_P.min()]
    values_PK = pass_at_k(counts.n_P, counts.c_P, valid) if valid else None
    return {} if values_PK is None else dict(zip(valid, map(float, values_PK.mean(0)), strict=True))


def _notes(bases: Sequence[Base], question: Question) -> tuple[str, ...]:
    undefined = any(np.isnan(base.smallest_QK).any() for base in bases)
    return (
        *_alone(question),
        f"a paired test at {1 - question.confidence:.0%} two-sided detects a gain of this size in "
        f"{POWER:.0%} of repetitions; it compares the counted model with another, for "
        "example the one that RL makes of it, on the same problems",
        "we assume problems like these, and a difference that shifts the problems' log-odds by "
        f"normally distributed amounts with standard deviation {HETEROGENEITY:g}",
        "the samples of both policies are assumed to be independent; with equal evaluation seeds "
        "they share their random numbers, so that a slightly smaller gain is detected",
        "this compares two models, not two methods: variation between training seeds is not "
        "included; --training-seeds plans for it",
        *(["–: k exceeds the number of samples, or no gain is large enough"] if undefined else []),
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
