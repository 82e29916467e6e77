"""Runs as data, for notebooks and scripts, read without loading a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sage_cli.analysis.rows import Rows, html_table
from sage_cli.analysis.run_measurements import (
    Picture,
    RunCounts,
    RunMeasurements,
    compared,
    curves_picture,
)
from sage_cli.models.policies.one_method import refuse_several_methods
from sage_cli.models.policies.policy import Policy
from sage_cli.settings.sections.records import default_root
from sage_cli.store.runs.run import Run, Runs
from sage_cli.store.runs.run_facts import RunFacts, expanded, selected

if TYPE_CHECKING:
    import pyarrow as pa


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
        self,
        benchmark: str | None = None,
        samples: int | None = None,
        seeds: int | None = None,
        judge: str | None = None,
    ) -> Rows:
        """Return stored samples with grades, a row per benchmark, evaluation seed and problem.

        `n` samples of a problem are stored and graded, `right` of them right. The run's own
        evaluation settings are the defaults for benchmark, samples and seeds. A judge of one's own
        is code, so it is named again: `judge="file.py:function"`.
        """
        rows: list[dict[str, Any]] = []
        for name, seed, counts in self._measurements(benchmark, samples, seeds, judge).counts():
            about = {"run": self.id, "benchmark": name, "seed": seed}
            columns = zip(counts.problem_ids, counts.n_P, counts.c_P, strict=True)
            rows += [
                {**about, "problem": id_, "n": int(n_samples), "right": int(right)}
                for id_, n_samples, right in columns
            ]
        return Rows(rows)

    def samples(
        self,
        benchmark: str | None = None,
        samples: int | None = None,
        seeds: int | None = None,
        judge: str | None = None,
    ) -> pa.Table:
        """Return stored samples with grades as a pyarrow Table, a row each, with their texts."""
        import pyarrow as pa

        columns: dict[str, list[Any]] = {name: [] for name in SAMPLE_COLUMNS}
        for name, found in self._measurements(benchmark, samples, seeds, judge).answers():
            problem, completion = found.problem, found.completion
            values = (
                self.id, name, found.seed, problem.id, completion.index, problem.question,
                problem.gold, completion.text, completion.tokens, completion.finish_reason,
                found.status, found.extracted,
            )  # fmt: skip
            for column, value in zip(columns.values(), values, strict=True):
                column.append(value)
        return pa.table(columns)

    def _measurements(self, *named: Any) -> RunMeasurements:
        return RunMeasurements.of(self.run, *named)

    def _repr_html_(self) -> str:
        """Return what it is and its figures, which notebooks show."""
        figures = [{"figure": name, "value": value} for name, value in self.figures.items()]
        manifest = self.manifest
        about = f"{manifest.get('kind')}, {manifest['status']}"
        return f"<p><b>{escape(self.id)}</b> ({escape(about)})</p>" + html_table(figures)


SAMPLE_COLUMNS = (
    "run", "benchmark", "seed", "problem", "index", "question", "gold", "text", "tokens",
    "finish_reason", "grade", "answer",
)  # fmt: skip


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

    def compare(
        self, a: str | Sequence[str], b: str | Sequence[str], k: str = "1", **named: Any
    ) -> Rows:
        """Return pass@k of a less b with interval and p, a row per benchmark and k of `1,8,64`.

        Several runs a side are trainings of one method. `named` are benchmark, samples, seeds
        and judge, as in `OpenedRun.counts`. Raises StoreError where samples or grades are missing,
        and ConfigurationError for runs of a side that differ in more than seeds.
        """
        sides = [[Policy.of_run(self[name].run) for name in _names(side)] for side in (a, b)]
        for side, other in (sides, sides[::-1]):
            refuse_several_methods(side, other, Runs(self.root))
        return compared(self._counts(a, **named), self._counts(b, **named), k)

    def curves(self, *names: str, **named: Any) -> Picture:
        """Return pass@k curves of runs with bands, as a picture; `named` as in `compare`."""
        return curves_picture(self._counts(names, **named))

    def _counts(self, names: str | Sequence[str], **named: Any) -> list[RunCounts]:
        runs = [self[name].run for name in _names(names)]
        return [
            RunCounts.of(RunMeasurements.of(run, **named), base=run.manifest.get("kind") != "rl")
            for run in runs
        ]

    def _repr_html_(self) -> str:
        """Return a table of the runs, which notebooks show."""
        return self.table()._repr_html_()


def _names(names: str | Sequence[str]) -> Sequence[str]:
    return (names,) if isinstance(names, str) else names


def open_runs(root: Path | str | None = None) -> OpenedRuns:
    """Return the runs below `root`, by default below `$SAGE_RUNS` or `runs`."""
    return OpenedRuns(Path(root) if root is not None else default_root())
