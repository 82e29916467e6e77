"""What `sage passk` and `sage eval` measure of the models that they name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.evaluation.evaluate import Evaluated, Evaluation, EvaluationStage, evaluation_folder
from sage_cli.evaluation.guess import guess_curve, guess_label
from sage_cli.evaluation.stored_grades import stored_counts
from sage_cli.evaluation.text_judges import judged_again, text_judges
from sage_cli.metrics import curve, curve_ks
from sage_cli.metrics.estimators import FloatArray
from sage_cli.metrics.intervals import Resampling, pass_matrix
from sage_cli.models.policy import Labels, Policy, chosen_policies, named_policy
from sage_cli.models.stages import Stage
from sage_cli.progress import Progress
from sage_cli.reports.document import Report, report_folder
from sage_cli.reports.evaluation import evaluation_document
from sage_cli.reports.over_temperatures import OverTemperatures, over_temperatures_document
from sage_cli.reports.passk import Line, passk_document
from sage_cli.reports.published import published_scores
from sage_cli.store.result_hash import identity_of, key_of
from sage_cli.store.run import Runs


def over_temperatures(
    evaluation: Evaluation,
    policies: Sequence[Policy],
    temperatures: Sequence[float],
    progress: Progress,
    initial: Policy | None = None,
) -> OverTemperatures:
    """Measure policies at the evaluation's temperature and at these; what is stored is kept.

    `initial` is their initial policy, measured at the evaluation's temperature alone. pass@1 is
    among the ks. Raises ConfigurationError where there is one temperature alone.
    """
    configured = evaluation.config.sampling.temperature
    grid = temperature_grid(evaluation, temperatures)
    ks = tuple(dict.fromkeys((1, *evaluation.ks)))
    evaluated = [_measured_at(temperature, evaluation, policies, progress) for temperature in grid]
    passed = {
        key: np.stack(
            [pass_matrix([seed.counts for seed in at.measured[key]], ks) for at in evaluated]
        )
        for key in evaluated[0].measured
    }
    samples = [sample_set for at in evaluated for sample_set in at.provenance.samples or ()]
    provenance = replace(evaluated[0].provenance, samples=tuple(samples))
    sampling = {k: v for k, v in (provenance.sampling or {}).items() if k != "temperature"}
    provenance = replace(provenance, sampling=sampling)
    initial_P = {} if initial is None else _accuracy(evaluation.measure([initial], progress))
    return OverTemperatures(passed, grid, grid.index(configured), ks, provenance, initial_P)


def temperature_grid(evaluation: Evaluation, temperatures: Sequence[float]) -> tuple[float, ...]:
    """Return these temperatures and the evaluation's, ascending.

    Raises ConfigurationError where that is one temperature alone.
    """
    configured = evaluation.config.sampling.temperature
    grid = tuple(sorted({configured, *temperatures}))
    if len(grid) < 2:
        raise ConfigurationError(
            f"a curve needs several temperatures, and only {configured:g} was given",
            "give at least two, for example --temperature 0.8,1,1.2; each is sampled",
        )
    return grid


def at_temperature(temperature: float, evaluation: Evaluation) -> Evaluation:
    """Return the same evaluation with completions sampled at another temperature."""
    config = evaluation.config
    sampling = config.sampling.model_copy(update={"temperature": temperature})
    return replace(evaluation, config=config.model_copy(update={"sampling": sampling}))


def _accuracy(evaluated: Evaluated) -> dict[str, FloatArray]:
    """Return the pass@1 of one policy on each problem, by benchmark."""
    return {
        benchmark: pass_matrix([seed.counts for seed in seeds], (1,))[:, 0]
        for (benchmark, _), seeds in evaluated.measured.items()
    }


def _measured_at(
    temperature: float, evaluation: Evaluation, policies: Sequence[Policy], progress: Progress
) -> Evaluated:
    """Measure at a temperature. Only figures at the configured one are recorded with runs."""
    if temperature == evaluation.config.sampling.temperature:
        return evaluation.measure(policies, progress)
    progress.say(f"at temperature {temperature:g}")
    return at_temperature(temperature, evaluation).measure(policies, progress, record=False)


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
        return self.stages_at(())

    def stages_at(self, temperatures: Sequence[float]) -> list[Stage]:
        """Return an evaluation at each temperature; without any, at the configured one.

        Raises ConfigurationError where they give one temperature alone.
        """
        is_any = self.names or Runs(self.evaluation.config.run.root).latest()
        policies = self.policies if is_any else []
        if not temperatures:
            return [EvaluationStage(self.evaluation, policies)]
        grid = temperature_grid(self.evaluation, temperatures)
        return [EvaluationStage(at_temperature(t, self.evaluation), policies) for t in grid]

    def refusal(self) -> StoreError | None:
        """Return why the command would be refused now: no run is finished; None where one is."""
        if self.names:
            return None  # they were looked for when the stages were made
        try:
            _ = self.policies
        except StoreError as error:
            return error
        return None

    def measure(self, progress: Progress) -> Evaluated:
        """Measure the policies. What is wrong with benchmarks or ks is raised before that."""
        _ = self.evaluation.ks
        with progress.doing(f"reading {self.evaluation.config.evaluation.benchmark}"):
            _ = self.evaluation.benchmarks
        policies = self.policies
        if not self.names:
            progress.say(f"measuring the latest run, [bold]{policies[0].label}[/]")
        return self.evaluation.measure(policies, progress)


def measure_passk(
    models: NamedModels,
    progress: Progress,
    second: str | None = None,
    guess: str | None = None,
) -> Report:
    """Measure every named run or model.

    Curves are computed at all ks; `evaluation.k` says which of them the table shows. `second` is
    a judge of texts: each model has a second curve, of the samples that both accept. `guess` is
    a function or a file whose guesses stand beside the models.
    """

    evaluation = models.evaluation
    judges = []
    if second is not None:
        judges = text_judges(second, evaluation.benchmarks, evaluation.config)
    evaluated = models.measure(progress)
    again = judged_again(evaluated.measured, evaluated.samples, judges, progress)
    ks, settings = evaluation.ks, evaluation.config.evaluation
    curve_at = curve_ks(settings.samples, ks)
    resampling = Resampling(settings.confidence, settings.bootstrap)
    measured = dict(evaluated.measured)
    for (benchmark, _), seeds in again.items():
        measured[benchmark, seeds[0].policy] = seeds
    with progress.doing("computing curves and writing the report"):
        lines = [
            Line(
                policy,
                benchmark,
                curve([seed.counts for seed in seeds], curve_at, resampling),
                seeds,
            )
            for (benchmark, policy), seeds in measured.items()
        ]
        if guess is not None:
            lines += [
                Line(
                    guess_label(guess),
                    b.name,
                    guess_curve(guess, b.problems, curve_at, settings.confidence),
                )
                for b in evaluation.benchmarks
            ]
        document = passk_document(lines, evaluated.provenance, ks)
        by = "".join(f"-{key_of(judge.identity)}" for _, judge in judges)
        return document.write(evaluation_folder(f"passk{by[:9]}", evaluated))


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
    if 0 in temperatures:
        raise ConfigurationError(
            f"--temperature {text}: at temperature 0 all completions of a problem are the same, so "
            "that there is no curve over k",
            "measure greedy decoding by itself: --n 1 --k 1 --set sampling.temperature=0",
        )
    if not temperatures or not all(0 < temperature < 100 for temperature in temperatures):
        raise ConfigurationError(
            f"--temperature {text}: temperatures are numbers above 0",
            "separate them with commas, for example --temperature 0.8,1,1.2",
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
    parents = {policy.run.try_manifest().get("parent") for policy in policies if policy.run} - {
        None
    }
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
