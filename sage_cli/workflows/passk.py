"""`sage passk`: pass@k curves of runs, models or files of counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sage_cli.config.evaluation import EvaluationSection
from sage_cli.config.in_words import Stage
from sage_cli.config.recipe import EvaluationRecipe, SftRecipe
from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.evaluation.evaluate import evaluate, report_folder
from sage_cli.evaluation.missing import plan_measurement
from sage_cli.file_hash import file_hash
from sage_cli.metrics import Counts, Curve, curve, curve_ks, parse_ks, read_counts
from sage_cli.models.policies.names import NO_LABELS, Labels, NoRunsError, chosen_policies
from sage_cli.models.policies.planned import planned_base
from sage_cli.planning.cards import card
from sage_cli.planning.stages import memory_stages
from sage_cli.progress import Progress
from sage_cli.reports.document import Report
from sage_cli.reports.passk import Line, passk_document
from sage_cli.reports.provenance import Provenance
from sage_cli.store.identity import identity_of
from sage_cli.store.runs.run import Runs
from sage_cli.store.surroundings import surroundings
from sage_cli.workflows.sft import policies_to_measure


def passk(
    config: SageConfig,
    names: Sequence[str],
    progress: Progress,
    *,
    train: bool = False,
    labels: Labels = NO_LABELS,
) -> Report:
    """Measure every named run or model; without names the latest run, or with `train` the base.

    Curves are computed at all ks; `evaluation.k` says which of them the table shows, `labels` what
    tables and figure call a model, by the name that was typed.
    """
    recipe, root = EvaluationRecipe.of(config), config.run.root
    ks = parse_ks(recipe.evaluation.k, recipe.evaluation.samples)
    # before a base is trained, so that a broken benchmark is named at once
    with progress.doing(f"reading {recipe.evaluation.benchmark}"):
        benchmarks = load_benchmarks(recipe.evaluation, recipe.data)
    policies = policies_to_measure(config, names, progress, train=train, labels=labels)
    found = evaluate(policies, benchmarks, recipe, root, config.tracking, progress)
    every = curve_ks(recipe.evaluation.samples, ks)
    with progress.doing("computing curves and writing the report"):
        lines = [
            Line(
                policy,
                benchmark,
                _curve([one.counts for one in seeds], every, recipe.evaluation),
                seeds,
            )
            for (benchmark, policy), seeds in found.measured.items()
        ]
        return passk_document(lines, found.provenance, ks).write(
            report_folder("passk", found, recipe, root)
        )


def passk_of_files(
    files: Sequence[Path], k: str | None, evaluation: EvaluationSection, root: Path
) -> Report:
    """Curves from anybody's counts or samples, one file a curve; no model is needed.

    `k` says which ks the table shows, without it every k up to the smallest number of samples.
    """
    counts = [read_counts(path) for path in files]
    n = min(int(one.n_P.min()) for one in counts)
    ks = parse_ks(k or f"1..{n}", n)
    lines = [
        Line(path.stem, "counted elsewhere", _curve([one], curve_ks(n, ks), evaluation))
        for path, one in zip(files, counts, strict=True)
    ]
    hashes = {str(path): file_hash(path) for path in files}
    identity = identity_of("passk", list(hashes.values()))
    folder = root / "reports" / f"passk-{files[0].stem}-{identity[:8]}"
    provenance = replace(Provenance.here(surroundings()), files=hashes)
    return passk_document(lines, provenance, ks).write(folder)


def plan(config: SageConfig, names: Sequence[str], gpu: str | None = None) -> list[Stage]:
    """What `sage passk` and `sage eval` would measure, and what is stored of it.

    `gpu` names a card, against which memory is laid.
    """
    runs = Runs(config.run.root)
    try:
        policies = chosen_policies(names, runs, config.model)
    except NoRunsError:
        policies = [planned_base(SftRecipe.of(config), runs)]
    memory = memory_stages(config, card(gpu), training=False) if gpu else []
    return [plan_measurement(config, policies), *memory]


def _curve(counts: Sequence[Counts], ks: Sequence[int], evaluation: EvaluationSection) -> Curve:
    """The curve of counts, one per evaluation seed, with the configured band."""
    return curve(counts, ks, confidence=evaluation.confidence, resamples=evaluation.bootstrap)
