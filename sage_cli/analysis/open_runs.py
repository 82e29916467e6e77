"""Stored runs as data: rows as dictionaries, as Arrow, as a data frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sage_cli.config.consent import JUDGE, own_files, without_consent
from sage_cli.config.load import load
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, SageError
from sage_cli.evaluation.benchmarks import Benchmark, load_benchmarks
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.evaluation.stored_grades import StoredAnswer, stored_answers, stored_counts
from sage_cli.metrics import Counts
from sage_cli.models.policy import Policy, stored_settings
from sage_cli.settings.run import default_root
from sage_cli.store.run import Run, Runs
from sage_cli.store.run_facts import RunFacts, expanded, selected

if TYPE_CHECKING:
    import pyarrow as pa
SAMPLE_COLUMNS = (
    "run",
    "benchmark",
    "seed",
    "problem",
    "index",
    "question",
    "gold",
    "text",
    "tokens",
    "finish_reason",
    "grade",
    "answer",
)


class _Rows(Sequence[Mapping[str, Any]]):
    """A table as a list of dictionaries, all with the same keys."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        keys = list(dict.fromkeys(key for row in rows for key in row))
        self._rows = [{key: row.get(key) for key in keys} for row in rows]

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        names = ", ".join(self._rows[0]) if self._rows else "none"
        return f"{len(self)} rows with the columns {names}"

    def to_arrow(self) -> pa.Table:
        """Return a pyarrow Table."""
        import pyarrow as pa

        return pa.Table.from_pylist(self._rows)

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame. Raises SageError if pandas is not installed."""
        try:
            import pandas
        except ImportError:
            raise SageError("pandas isn't installed", "pip install pandas") from None
        return pandas.DataFrame(self._rows)


@dataclass(frozen=True)
class GradedRun:
    """A run and the settings under which its stored samples and grades are read."""

    run: Run
    config: SageConfig

    @classmethod
    def from_run(
        cls,
        run: Run,
        benchmark: str | None = None,
        samples: int | None = None,
        seeds: int | None = None,
        judge: str | None = None,
    ) -> GradedRun:
        """Return the run under its own evaluation settings; what is given replaces them.

        Raises ConfigurationError if they name a judge of one's own and `judge` is not given.
        """
        made_with = stored_settings(run)
        judge_of_run = own_files(made_with).get(JUDGE)
        if judge_of_run is not None and judge is None:
            raise ConfigurationError(
                f"{run.id} is graded by {judge_of_run}, which is Python code, and a "
                "stored configuration cannot run code",
                f"read that code, and add judge='{judge_of_run}' to the call if you trust it",
            )
        evaluation = {"benchmark": benchmark, "samples": samples, "seeds": seeds}
        flags = {"evaluation": evaluation, "grading": {"judge": judge}}
        config = load(flags=flags, stored=without_consent(made_with)).config
        return cls(run, config)

    @property
    def policy(self) -> Policy:
        """Return the model that the run ends with."""
        return Policy.of_run(self.run)

    @property
    def root(self) -> Path:
        """Return the folder of runs."""
        return self.run.folder.parent

    @property
    def benchmarks(self) -> list[Benchmark]:
        """Return the benchmarks, loaded."""
        config = self.config
        return load_benchmarks(config.evaluation, config.data, config.grading.judge)

    def counts(self) -> Iterator[tuple[str, int, Counts]]:
        """Yield benchmark, evaluation seed, and the counts of samples with a grade."""
        n, first = self.config.evaluation.samples, self.config.evaluation.seed
        for benchmark in self.benchmarks:
            by_seed = stored_counts(self.policy, benchmark, self.config, self.root, [n])[n]
            for seed, counts in enumerate(by_seed, first):
                yield benchmark.name, seed, counts

    def answers(self) -> Iterator[tuple[str, StoredAnswer]]:
        """Yield benchmark and each stored sample that has a grade."""
        samples = PolicySamples.from_config(self.policy, self.config, self.root)
        n = self.config.evaluation.samples
        for benchmark in self.benchmarks:
            for answer in stored_answers(samples, benchmark, self.config, list(benchmark.golds), n):
                yield benchmark.name, answer


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
        state = self.run.read()
        if state.corruption is not None and not state.manifest:  # else the configuration is corrupt
            raise state.corruption
        return {**state.manifest, "status": state.status}

    @property
    def settings(self) -> dict[str, Any]:
        """Return every setting by its dotted name, such as `guide.tau`."""
        return dict(RunFacts.from_run(self.run).settings)

    @property
    def results(self) -> dict[str, Any]:
        """Return evaluations, for example `pass@1 on arithmetic`, and the last step's metrics."""
        return dict(RunFacts.from_run(self.run).figures)

    @property
    def figures(self) -> dict[str, Any]:
        """Return `results`, under its former name."""
        return self.results

    def records(self) -> _Rows:
        """Return metrics.jsonl, a row per optimiser step."""
        return _Rows(self.run.metrics.read())

    def rollouts(self) -> _Rows:
        """Return rollouts.jsonl, some completions of the training with their grades."""
        return _Rows(self.run.rollouts.read())

    def ledger(self) -> _Rows:
        """Return how each prompt of each step of RL was answered, a row each."""
        return _Rows(self.run.ledger.read().to_pylist())

    def completions(self) -> _Rows:
        """Return every completion of the training, if `tracking.rollouts` was `all`."""
        return _Rows(self.run.completions().read().to_pylist())

    def counts(
        self,
        benchmark: str | None = None,
        samples: int | None = None,
        seeds: int | None = None,
        judge: str | None = None,
    ) -> _Rows:
        """Return stored samples with grades, a row per benchmark, evaluation seed and problem.

        `n` samples of a problem are stored and graded, `right` of them right. The run's own
        evaluation settings are the defaults for benchmark, samples and seeds. A judge of one's own
        is code, so it is named again: `judge="file.py:function"`.
        """
        rows: list[dict[str, Any]] = []
        graded = GradedRun.from_run(self.run, benchmark, samples, seeds, judge)
        for name, seed, counts in graded.counts():
            about = {"run": self.id, "benchmark": name, "seed": seed}
            columns = zip(counts.problem_ids, counts.n_P, counts.c_P, strict=True)
            rows += [
                {**about, "problem": id_, "n": int(n_samples), "right": int(right)}
                for id_, n_samples, right in columns
            ]
        return _Rows(rows)

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
        graded = GradedRun.from_run(self.run, benchmark, samples, seeds, judge)
        for name, answer in graded.answers():
            problem, completion = answer.problem, answer.completion
            values = (
                self.id,
                name,
                answer.seed,
                problem.id,
                completion.index,
                problem.question,
                problem.gold,
                completion.text,
                completion.tokens,
                completion.finish_reason,
                answer.status,
                answer.extracted,
            )
            for column, value in zip(columns.values(), values, strict=True):
                column.append(value)
        return pa.table(columns)


@dataclass(frozen=True)
class OpenedRuns:
    """All runs of a folder, oldest first, without corrupt ones, which are reported."""

    root: Path

    def __iter__(self) -> Iterator[OpenedRun]:
        return map(OpenedRun, Runs(self.root).whole())

    def __len__(self) -> int:
        return len(Runs(self.root).whole())

    def __getitem__(self, name: str) -> OpenedRun:
        """Return a run by its id or an unambiguous part of it."""
        return OpenedRun(Runs(self.root).find(name))

    def table(self, columns: str = "kind,status,parent", where: Sequence[str] = ()) -> _Rows:
        """Return a row per run, with columns and conditions as in `sage runs list`."""
        facts = [RunFacts.from_run(opened.run) for opened in self]
        fitting = selected(facts, where)
        names = ["id", *expanded(columns, fitting or facts)]
        return _Rows([{name: run.value(name) for name in names} for run in fitting])

    def records(self) -> _Rows:
        """Return metrics.jsonl of all runs, with the run's id in the column `run`."""
        return _Rows([{"run": run.id, **record} for run in self for record in run.records()])


def open_runs(root: Path | str | None = None) -> OpenedRuns:
    """Return the runs below `root`, by default below `$SAGE_RUNS` or `runs`."""
    return OpenedRuns(Path(root) if root is not None else default_root())
