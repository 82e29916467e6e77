"""The models that a command names, measured: curves, tables, temperatures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sage_cli.errors import ConfigurationError
from sage_cli.evaluation import imported
from sage_cli.evaluation.evaluate import (
    Evaluated,
    Evaluation,
    EvaluationStage,
    evaluation_folder,
    over_temperatures,
)
from sage_cli.evaluation.stored import stored_counts
from sage_cli.evaluation.text_judges import judged_again, text_judges
from sage_cli.metrics import Counts, Curve, curve, curve_ks
from sage_cli.metrics.intervals import Resampling
from sage_cli.models.planned import Stage
from sage_cli.models.policy import Labels, Policy, chosen_policies, named_policy
from sage_cli.progress import Progress
from sage_cli.reports.document import Report, report_folder
from sage_cli.reports.passk import Line, over_temperatures_document, passk_document
from sage_cli.reports.published import published_scores
from sage_cli.reports.scores import evaluation_document
from sage_cli.settings.sampling import EvaluationSection
from sage_cli.store.files import identity_of, key_of
from sage_cli.store.run import Runs


@dataclass(frozen=True)
class NamedModels:
    """The models called `names`, or without names the latest run, and how they are measured.

    `labels` are what tables and figures call a model, by the name that was typed.
    """

    evaluation: Evaluation
    names: Sequence[str]
    labels: Labels = field(default_factory=dict)

    @property
    def policies(self) -> list[Policy]:
        """The policies; without names the latest run's. Raises StoreError where there is none."""
        config = self.evaluation.config
        return chosen_policies(self.names, Runs(config.run.root), config.model, self.labels)

    @property
    def stages(self) -> list[Stage]:
        """The stages of the command: an evaluation, of nothing where there is no run yet."""
        is_any = self.names or Runs(self.evaluation.config.run.root).latest()
        return [EvaluationStage(self.evaluation, self.policies if is_any else [])]

    def measure(self, progress: Progress) -> Evaluated:
        """Measure the policies. What is wrong with benchmarks or ks is raised before that."""
        _ = self.evaluation.ks
        with progress.doing(f"reading {self.evaluation.config.evaluation.benchmark}"):
            _ = self.evaluation.benchmarks
        policies = self.policies
        if not self.names:
            progress.say(f"measuring the latest run, [bold]{policies[0].label}[/]")
        return self.evaluation.measure(policies, progress)


def measure_passk(models: NamedModels, progress: Progress, second: str | None = None) -> Report:
    """Measure every named run or model.

    Curves are computed at all ks; `evaluation.k` says which of them the table shows. `second` is
    a judge of texts: each model has a second curve, of the samples that both find right.
    """
    judges = text_judges(second, models.evaluation)
    evaluated = models.measure(progress)
    ks, evaluation = models.evaluation.ks, models.evaluation.config.evaluation
    curve_at = curve_ks(evaluation.samples, ks)
    measured = dict(evaluated.measured)
    for (benchmark, _), seeds in judged_again(evaluated, judges, progress).items():
        measured[benchmark, seeds[0].policy] = seeds
    with progress.doing("computing curves and writing the report"):
        lines = [
            Line(
                policy,
                benchmark,
                _curve([seed.counts for seed in seeds], curve_at, evaluation),
                seeds,
            )
            for (benchmark, policy), seeds in measured.items()
        ]
        document = passk_document(lines, evaluated.provenance, ks)
        by = "".join(f"-{key_of(judge.identity)}" for _, judge in judges)
        return document.write(evaluation_folder(f"passk{by[:9]}", evaluated))


def passk_of_files(
    files: Sequence[imported.CountedFile],
    labels: Labels,
    k: str | None,
    evaluation: EvaluationSection,
    root: Path,
) -> Report:
    """Curves from anybody's counts or samples, one file a curve; no model is needed.

    `k` says which ks the table shows, without it every k up to the smallest number of samples.
    """
    ks = imported.ks_of_files(files, k, "1..n")
    curve_at = curve_ks(min(int(file.counts.n_P.min()) for file in files), ks)
    typed = {Path(name): label for name, label in labels.items()}
    names = [
        typed.get(file.path, own)
        for file, own in zip(files, imported.file_labels(files), strict=True)
    ]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ConfigurationError(
            f"{len(repeated)} files would be called '{repeated[0]}'",
            "name each file once, or label it as FILE=Label",
        )
    lines = [
        Line(name, file.task or "counted elsewhere", _curve([file.counts], curve_at, evaluation))
        for file, name in zip(files, names, strict=True)
    ]
    provenance = imported.provenance_of_files(files)
    identity = identity_of("passk", [*(provenance.files or {}).values()])
    folder = report_folder(root, f"passk-{files[0].path.stem}-{identity[:8]}")
    document = passk_document(lines, provenance, ks)
    return replace(document, notes=tuple(imported.file_notes(files))).write(folder)


def _curve(counts: Sequence[Counts], ks: Sequence[int], evaluation: EvaluationSection) -> Curve:
    """The curve of counts, one per evaluation seed, with the configured band."""
    return curve(counts, ks, Resampling(evaluation.confidence, evaluation.bootstrap))


def measure_table(
    models: NamedModels, progress: Progress, *, paper: str | None = None, k_samples: bool = False
) -> Report:
    """Measure every named policy on every benchmark; `paper` lays one of its tables beside.

    With `paper` or `k_samples` the same samples are also evaluated as the paper's were, pass@k from
    the first k of each problem.
    """
    evaluation = models.evaluation
    ks, config = evaluation.ks, evaluation.config
    if paper:
        published_scores(paper)  # so that a table that isn't there is named before measuring
    evaluated = models.measure(progress)
    as_published = {
        (benchmark.name, samples.policy.label): stored_counts(
            samples.policy, benchmark, config, config.run.root, ks
        )
        for benchmark in (evaluation.benchmarks if paper or k_samples else ())
        for samples in evaluated.samples
    }
    document = evaluation_document(
        evaluated.measured, ks, evaluated.provenance, paper, as_published
    )
    with progress.doing("writing the report"):
        return document.write(evaluation_folder("eval", evaluated))


def parse_temperatures(text: str) -> tuple[float, ...]:
    """Return the temperatures of `0.8,1,1.2`. Raises ConfigurationError for anything else."""
    try:
        temperatures = tuple(sorted({float(part) for part in text.split(",")}))
    except ValueError:
        temperatures = ()
    if not temperatures or not all(0 < temperature < 100 for temperature in temperatures):
        raise ConfigurationError(
            f"--temperature {text}: temperatures are numbers above 0",
            "write them with commas, as --temperature 0.8,1,1.2",
        )
    return temperatures


def measure_over_temperatures(
    models: NamedModels, temperatures: Sequence[float], progress: Progress
) -> Report:
    """Measure the named models at each temperature, and compare them at equal pass@1."""
    evaluation, policies = models.evaluation, models.policies
    with progress.doing(f"reading {evaluation.config.evaluation.benchmark}"):
        _ = evaluation.benchmarks
    config = evaluation.config
    runs = Runs(config.run.root)
    parents = {policy.run.known.get("parent") for policy in policies if policy.run} - {None}
    initial = named_policy(str(*parents), runs, config.model) if len(parents) == 1 else None
    initial = initial if initial and initial.is_here else None  # it may have been deleted
    curves = over_temperatures(evaluation, policies, temperatures, progress, initial)
    settings = config.evaluation
    with progress.doing("comparing, and writing the report"):
        resampling = Resampling(settings.confidence, settings.bootstrap)
        document = over_temperatures_document(curves, resampling)
        identity = identity_of(
            "temperatures",
            {
                "policies": [policy.fingerprint for policy in policies],
                "settings": settings.determinants(),
                "temperatures": curves.temperatures,
            },
        )
        stem = "-".join(dict.fromkeys(name for name, _ in curves.passed))
        folder = report_folder(config.run.root, f"temperatures-{stem}-{identity[:8]}")
        return document.write(folder)
