"""Runs as data, for notebooks and scripts, read without loading a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sage_cli.config.consent import JUDGE, require_functions, without_consent
from sage_cli.config.load import load
from sage_cli.config.specs import EvaluationSpec
from sage_cli.errors import SageError
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.evaluation.stored import stored_counts
from sage_cli.models.policies.imported import stored_settings
from sage_cli.models.policies.policy import Policy
from sage_cli.settings.sections.records import default_root
from sage_cli.store.runs.run import Run, Runs
from sage_cli.store.runs.run_facts import RunFacts, expanded, selected


class Rows(Sequence[Mapping[str, Any]]):
    """A table as a list of dictionaries, all with the same keys."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        keys = list(dict.fromkeys(key for row in rows for key in row))
        self._rows = [{key: row.get(key) for key in keys} for row in rows]

    def __getitem__(self, place: Any) -> Any:
        return self._rows[place]

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        names = ", ".join(self._rows[0]) if self._rows else "none"
        return f"{len(self)} rows with the columns {names}"

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame. Raises SageError if pandas is not installed."""
        try:
            import pandas
        except ImportError:
            raise SageError("pandas isn't installed", "pip install pandas") from None
        return pandas.DataFrame(self._rows)


@dataclass(frozen=True)
class OpenedRun:
    """A run, read from its folder at each access."""

    run: Run

    @property
    def id(self) -> str:
        """Return the name of its folder."""
        return self.run.id

    @property
    def manifest(self) -> dict[str, Any]:
        """Return status, parent, seed, versions, commit, host, command and timings."""
        return {**self.run.manifest, "status": self.run.status}

    @property
    def settings(self) -> dict[str, Any]:
        """Return every setting by its dotted name, as `guide.tau`."""
        return dict(RunFacts.of(self.run).settings)

    @property
    def figures(self) -> dict[str, Any]:
        """Return the last step's metrics and evaluations, as `pass@1 on arithmetic`."""
        return dict(RunFacts.of(self.run).figures)

    def records(self) -> Rows:
        """Return metrics.jsonl, a row per optimiser step."""
        return Rows(self.run.metrics.read())

    def rollouts(self) -> Rows:
        """Return rollouts.jsonl, some completions of the training with their grades."""
        return Rows(self.run.rollouts.read())

    def ledger(self) -> Rows:
        """Return how each prompt of each step of RL was answered, a row each."""
        return Rows(self.run.ledger.read().to_pylist())

    def completions(self) -> Rows:
        """Return every completion of the training, if `tracking.rollouts` was `all`."""
        return Rows(self.run.completions().read().to_pylist())

    def counts(
        self, benchmark: str | None = None, samples: int | None = None, seeds: int | None = None
    ) -> Rows:
        """Return stored samples with grades, a row per benchmark, evaluation seed and problem.

        `n` samples of a problem are stored and graded, `right` of them right. The run's own
        evaluation settings are the defaults for benchmark, samples and seeds.
        """
        named = {"benchmark": benchmark, "samples": samples, "seeds": seeds}
        made_with = stored_settings(self.run)
        require_functions(made_with, {}, JUDGE)
        stored = without_consent(made_with)
        config = load(flags={"evaluation": named}, stored=stored).config
        recipe, root = EvaluationSpec.of(config), self.run.folder.parent
        n, first = recipe.evaluation.samples, recipe.evaluation.seed
        rows: list[dict[str, Any]] = []
        for one in load_benchmarks(recipe.evaluation, recipe.data, recipe.grading.judge):
            seeds_of = stored_counts(Policy.of_run(self.run), one, recipe, root, [n])[n]
            for seed, counts in enumerate(seeds_of, first):
                about = {"run": self.id, "benchmark": one.name, "seed": seed}
                columns = zip(counts.problem_ids, counts.n_P, counts.c_P, strict=True)
                rows += [
                    {**about, "problem": id_, "n": int(n_samples), "right": int(right)}
                    for id_, n_samples, right in columns
                ]
        return Rows(rows)


@dataclass(frozen=True)
class OpenedRuns:
    """All runs of a folder, oldest first, without torn ones, which are reported."""

    root: Path

    def __iter__(self) -> Iterator[OpenedRun]:
        return map(OpenedRun, Runs(self.root).whole())

    def __len__(self) -> int:
        return len(Runs(self.root).whole())

    def __getitem__(self, name: str) -> OpenedRun:
        """Return a run by its id or an unambiguous part of it."""
        return OpenedRun(Runs(self.root).find(name))

    def table(self, columns: str = "kind,status,parent", where: Sequence[str] = ()) -> Rows:
        """Return a row per run, with columns and conditions as in `sage runs list`."""
        facts = [RunFacts.of(one.run) for one in self]
        fitting = selected(facts, where)
        names = ["id", *expanded(columns, fitting or facts)]
        return Rows([{name: one.value(name) for name in names} for one in fitting])

    def records(self) -> Rows:
        """Return metrics.jsonl of all runs, with the run's id in the column `run`."""
        return Rows([{"run": one.id, **record} for one in self for record in one.records()])


def open_runs(root: Path | str | None = None) -> OpenedRuns:
    """Return the runs below `root`, by default below `$SAGE_RUNS` or `runs`."""
    return OpenedRuns(Path(root) if root is not None else default_root())
