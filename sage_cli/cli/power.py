"""`sage power`: the smallest difference that a design can detect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sage_cli.cli import options
from sage_cli.cli.console import show_report
from sage_cli.cli.live import Live
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.progress import Progress
from sage_cli.store.files import identity_of, portable

if TYPE_CHECKING:
    from sage_cli.evaluation.evaluate import Evaluation
    from sage_cli.metrics import Counts
    from sage_cli.reports.document import Report
    from sage_cli.reports.power_report import Base, Question
    from sage_cli.reports.provenance import Provenance

    Counted = tuple[str, str, Counts]
    """A base's label, the benchmark, and its counts."""


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Bases: logs of Inspect, lm-eval or lighteval, samples or counts in files, or "
            "runs and models with stored samples.",
        ),
    ] = None,
    problems: Annotated[
        str | None,
        typer.Option(help="Numbers of problems, as 30,60,300 (default: as counted, x2, x4)."),
    ] = None,
    samples: Annotated[
        str | None, typer.Option(help="Samples per problem and seed, n (default: 64,256,1024).")
    ] = None,
    seeds: Annotated[str, typer.Option(help="Evaluation seeds, as 1,3,5.")] = "1",
    k: options.Ks = None,
    score: options.Scores = None,
    benchmark: options.BenchmarkNames = None,
    preset: options.Presets = None,
    config: options.ConfigFile = None,
    set_: options.Sets = None,
    runs: options.RunRoot = None,
    json: options.Json = False,
) -> None:
    """Find the smallest difference of pass@k that problems, samples and seeds can detect."""
    from sage_cli.evaluation.evaluate import Evaluation

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
        report = power(
            Evaluation(settings), names or [], live, problems=problems,
            samples=samples, seeds=seeds, k=k, scores=score or (),
        )  # fmt: skip
    show_report(report, json)


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
) -> Report:
    """Report the smallest gain that each design would detect on each base.

    A name is a file, whose verdicts are those of `scores`, or a run or model whose stored samples
    are counted; without names it is the latest run. Nothing is sampled. Without `problems`, as many
    as were counted, twice and four times that; without `samples`, 64, 256 and 1,024; without `k`, 1
    and the powers of 16 up to the counted samples and those of the designs.
    """
    from sage_cli.metrics import parse_ks
    from sage_cli.metrics.power import Design
    from sage_cli.reports.power_report import Base, Question, power_document

    n = whole_numbers("--samples", samples) if samples else SAMPLES
    s = whole_numbers("--seeds", seeds)
    p = whole_numbers("--problems", problems) if problems else None
    typed_ks = parse_ks(k, n[-1], "--samples") if k else ()
    with progress.doing("counting what is stored of the bases"):
        bases, provenance = _bases(evaluation, names, scores)
    known = min(n[-1], *(int(counts.n_P.min()) for _, _, counts in bases))
    ks = typed_ks or tuple(k for k in KS if k <= max(known, 1))
    counted = min(len(counts) for _, _, counts in bases)
    designs = tuple(
        Design(*sizes) for sizes in product(p or (counted, 2 * counted, 4 * counted), n, s)
    )
    question = Question(designs, ks, evaluation.config.evaluation.confidence)
    results = []
    for label, benchmark, counts in bases:
        with progress.doing(f"finding what could be seen of {label} on {benchmark}"):
            results.append(Base.from_counts(label, benchmark, counts, question))
    folder = _folder(evaluation.config.run.root, results, question)
    with progress.doing("drawing and writing the report"):
        return power_document(results, question, provenance).write(folder)


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """Return `30,60,300` as ascending distinct numbers. Raises ConfigurationError."""
    tokens = [token.strip() for token in text.split(",")]
    wrong = [token for token in tokens if not token.isdecimal() or not 0 < int(token) <= 100_000]
    if wrong:
        raise ConfigurationError(
            f"{option}: '{wrong[0]}' is not a whole number from 1 to 100,000",
            f"write it as {option} 30,60,300",
        )
    return tuple(sorted({int(token) for token in tokens}))


def _bases(
    evaluation: Evaluation, names: Sequence[str], scores: Sequence[str]
) -> tuple[list[Counted], Provenance]:
    """Return each base's counts on each benchmark, and their provenance."""
    from sage_cli.evaluation import counted_files
    from sage_cli.evaluation.evaluate import provenance_of
    from sage_cli.evaluation.stored import PolicySamples, stored_counts
    from sage_cli.metrics import pooled
    from sage_cli.models.policy import chosen_policies
    from sage_cli.store.run import Runs

    files = [name for name in names if options.is_file(name)]
    counted = counted_files.read_counted_files(files, scores)
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
                f"type sage passk {label} --benchmark {benchmark_name} first, or name a file of "
                "counts",
            )
    return bases, replace(provenance, files=from_files.files)


def _folder(root: Path, bases: Sequence[Base], question: Question) -> Path:
    """Return the report's folder, named by a hash of counts and question."""
    from sage_cli.reports.document import report_folder

    content = [
        [base.label, base.benchmark, base.counts.n_P.tolist(), base.counts.c_P.tolist()]
        for base in bases
    ]
    identity = identity_of("power", {"bases": content, "asked": repr(question)})
    return report_folder(root, f"power-{portable(Path(bases[0].label).name)}-{identity[:8]}")
