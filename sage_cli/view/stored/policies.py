"""Policies by name with the settings that they were measured under."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

from sage_cli.config.consent import without_consent
from sage_cli.config.load import load
from sage_cli.config.specs import EvaluationSpec
from sage_cli.errors import SageError, StoreError
from sage_cli.evaluation.benchmarks import Benchmark, grader_for, load_benchmarks
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.evaluation.stored import stored_grades
from sage_cli.models.policies.names import checkpoint_steps, named_policy
from sage_cli.models.policies.policy import Policy
from sage_cli.models.policies.prompting import stored_settings
from sage_cli.problems.load import benchmark_names
from sage_cli.settings.sections.judging import IMPORTED_JUDGE
from sage_cli.store.identity import key_of
from sage_cli.store.runs.evaluations import COUNTED, FOLDER, evaluation_figures
from sage_cli.store.runs.run import Run, Runs
from sage_cli.store.samples.annotations import GradeStore
from sage_cli.store.samples.sample_set import SampleSet
from sage_cli.view.stored.runs_read import Remembered, RunsRead, stamp_of

_SETTINGS = {
    "samples": "evaluation",
    "seeds": "evaluation",
    "temperature": "sampling",
    "grading": "grading",
}
"""A recorded figure that says how was measured, and the section of its setting."""


@dataclass(frozen=True)
class Measured:
    """A policy, a benchmark, and the settings of the measurement that its run recorded."""

    policy: Policy
    benchmark: Benchmark
    spec: EvaluationSpec
    root: Path

    @property
    def label(self) -> str:
        """Return the policy's name."""
        return self.policy.label

    @property
    def samples(self) -> PolicySamples:
        """Return the policy's sample sets under these settings."""
        return PolicySamples.of_evaluation(self.policy, self.spec, self.root)

    @property
    def grader_key(self) -> str:
        """Return the name of the folder of its grades in each sample set."""
        with grader_for(self.benchmark.name, self.spec.grading, self.spec.prompt) as grader:
            return key_of(grader.identity.mapping())

    def stored(self) -> Iterator[tuple[SampleSet, GradeStore]]:
        """Yield sample set and grades of each evaluation seed; nothing is written."""
        return stored_grades(self.samples, self.benchmark, self.spec)


class Policies:
    """The policies of the runs below a folder, and what they were measured on."""

    def __init__(self, runs: RunsRead) -> None:
        self.runs = runs
        self._specs: Remembered[dict[str, EvaluationSpec]] = Remembered(512)
        self._benchmarks: Remembered[Benchmark] = Remembered(200_000, lambda one: len(one.problems))

    def benchmarks(self, name: str) -> list[str]:
        """Return the benchmarks that a policy's run was measured on, or else is configured for."""
        return list(self._specs_of(self.runs.find(name.partition("@")[0]).run))

    def measured(self, name: str, benchmark: str) -> Measured:
        """Return the policy called `name` on a benchmark.

        Raises StoreError for a policy that is not there, or for which the benchmark is unknown.
        """
        run = self.runs.find(name.partition("@")[0]).run
        specs = self._specs_of(run)
        if benchmark not in specs:
            raise StoreError(
                f"{run.id} was not measured on {benchmark}",
                f"`sage passk {run.id} --benchmark {benchmark}` measures it",
            )
        spec = specs[benchmark]
        policy = self.policy(name)
        return Measured(policy, self._benchmark(spec), spec, self.runs.root)

    def policy(self, name: str) -> Policy:
        """Return the policy called RUN or RUN@step; no other run is read.

        Raises StoreError for a run that is not finished, and for a checkpoint that it lacks.
        """
        id_, at, step = name.partition("@")
        run = self.runs.find(id_).run
        return named_policy(f"{run.folder.resolve()}{at}{step}", Runs(self.runs.root))

    def _specs_of(self, run: Run) -> dict[str, EvaluationSpec]:
        folder = run.folder / FOLDER
        files = sorted(folder.glob("*.json")) if folder.is_dir() else []
        key = (run.id, stamp_of([run.folder / "config.json", *files]))
        return self._specs.get(key, lambda: _specs(run))

    def _benchmark(self, spec: EvaluationSpec) -> Benchmark:
        name = spec.evaluation.benchmark
        key = (
            name,
            stamp_of([Path(name)]),
            spec.data.model_dump_json(),
            spec.evaluation.fields.model_dump_json(),
            spec.evaluation.limit,
            spec.grading.judge,
        )

        def read() -> Benchmark:
            return load_benchmarks(spec.evaluation, spec.data, spec.grading.judge)[0]

        return self._benchmarks.get(key, read)


def policies_of(run: Run) -> list[str]:
    """Return the names of a run's policies: its checkpoints as RUN@step, and its end."""
    names = [f"{run.id}@{step}" for step in checkpoint_steps(run)]
    return [*names, run.id] if run.finished else names


def _specs(run: Run) -> dict[str, EvaluationSpec]:
    """Return benchmark -> the settings of the measurement that the run recorded, largest first.

    Without a record the run's own settings, a benchmark each.
    """
    stored = without_consent(stored_settings(run))
    by_file: dict[str, dict[str, object]] = {}
    for key, value in evaluation_figures(run).items():
        _, file, name = key.split("/", 2)
        by_file.setdefault(file, {})[name] = value
    found: dict[str, EvaluationSpec] = {}
    for file, figures in sorted(by_file.items(), key=lambda one: -_completions(one[1])):
        flags: dict[str, dict[str, object]] = {
            "evaluation": {"benchmark": str(figures.get("benchmark", file))}
        }
        for name, section in _SETTINGS.items():
            if name in figures:
                setting = "mode" if name == "grading" else name
                if figures[name] == IMPORTED_JUDGE:  # the stored judge gave it
                    continue
                flags.setdefault(section, {})[setting] = figures[name]
        try:
            spec = EvaluationSpec.of(load(flags=flags, stored=stored).config)
        except SageError:  # recorded by another version, or a file that is not there any more
            continue
        found[spec.evaluation.benchmark] = spec
    if found:
        return found
    config = load(stored=stored).config
    for name in benchmark_names(config.evaluation.benchmark):
        narrowed = load(flags={"evaluation": {"benchmark": name}}, stored=stored).config
        found[name] = EvaluationSpec.of(narrowed)
    return found


def _completions(figures: Mapping[str, object]) -> int:
    counted = (figures.get(name, 1) for name in COUNTED)
    return prod(one for one in counted if isinstance(one, int))
