"""Stored runs as data: rows as dictionaries, as Arrow, as a data frame."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sage_cli.config.consent import JUDGE, own_functions, without_consent
from sage_cli.config.load import load
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, SageError, StoreError
from sage_cli.evaluation.benchmarks import Benchmark, load_benchmarks
from sage_cli.evaluation.stored import PolicySamples, StoredAnswer, stored_answers, stored_counts
from sage_cli.metrics import (
    Comparison,
    Counts,
    Side,
    compare_sides,
    parse_ks,
)
from sage_cli.models.compatibility import refuse_several_methods
from sage_cli.models.policy import Policy, stored_settings
from sage_cli.settings.sections.records import default_root
from sage_cli.store.run import Run, Runs
from sage_cli.store.run_facts import RunFacts, expanded, selected

if TYPE_CHECKING:
    import pyarrow as pa


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
        judge_of_run = own_functions(made_with).get(JUDGE)
        if judge_of_run is not None and judge is None:
            raise ConfigurationError(
                f"{run.id} is graded by {judge_of_run}: that is Python code, and a stored "
                "configuration can't have it run",
                f"read that code, and add judge='{judge_of_run}' to the call if it may be run here",
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
            by_seed = stored_counts(
                Policy.of_run(self.run), benchmark, self.config, self.run.folder.parent, [n]
            )[n]
            for seed, counts in enumerate(by_seed, first):
                yield benchmark.name, seed, counts

    def answers(self) -> Iterator[tuple[str, StoredAnswer]]:
        """Yield benchmark and each stored sample that has a grade."""
        samples = PolicySamples.from_config(
            Policy.of_run(self.run), self.config, self.run.folder.parent
        )
        n = self.config.evaluation.samples
        for benchmark in self.benchmarks:
            for answer in stored_answers(samples, benchmark, self.config, list(benchmark.golds), n):
                yield benchmark.name, answer


@dataclass(frozen=True)
class RunCounts:
    """A run's counts of each evaluation seed by benchmark; `base` is True for an initial policy."""

    id: str
    base: bool
    seeds: Mapping[str, Sequence[Counts]]

    @classmethod
    def from_run(cls, graded: GradedRun) -> RunCounts:
        """Return the counts of a run. Raises StoreError if samples or grades are missing."""
        id_, n = graded.run.id, graded.config.evaluation.samples
        by_benchmark: defaultdict[str, list[Counts]] = defaultdict(list)
        for benchmark, _, counts in graded.counts():
            if not len(counts) or int(counts.n_P.min()) < n:
                raise StoreError(
                    f"{id_} has fewer than {n} graded samples of a problem of {benchmark}",
                    f"sage passk {id_} --benchmark {benchmark} --n {n}; or name fewer samples",
                )
            by_benchmark[benchmark].append(counts)
        return cls(id_, graded.run.manifest.get("kind") != "rl", by_benchmark)


def compared(a: Sequence[RunCounts], b: Sequence[RunCounts], k: str) -> Rows:
    """Return a less b as `sage compare` has it: a row per common benchmark and k, as `1,8,64`.

    Raises StoreError if the runs have no benchmark in common.
    """
    common = [name for name in a[0].seeds if all(name in run.seeds for run in (*a, *b))]
    if not common:
        raise StoreError(
            "the runs have no benchmark in common", "name one, as in benchmark='arithmetic'"
        )
    rows: list[Mapping[str, object]] = []
    for benchmark in common:
        sides = _side(a, benchmark), _side(b, benchmark)
        n = min(int(counts.n_P.min()) for side in sides for counts in side.counts)
        rows += _rows(benchmark, compare_sides(*sides, parse_ks(k, n)))
    return Rows(rows)


def _side(runs: Sequence[RunCounts], benchmark: str) -> Side:
    label = ", ".join(run.id for run in runs)
    seeds = tuple(run.seeds[benchmark] for run in runs)
    return Side(label, seeds, base=all(run.base for run in runs))


def _rows(benchmark: str, comparison: Comparison) -> list[Mapping[str, object]]:
    gap = comparison.difference
    return [
        {
            "benchmark": benchmark,
            "k": k,
            "a": comparison.a.label,
            "b": comparison.b.label,
            "pass@k of a": comparison.curves[0].at(k)[0],
            "pass@k of b": comparison.curves[1].at(k)[0],
            "difference": float(gap.mean_K[place]),
            "low": float(gap.low_K[place]),
            "high": float(gap.high_K[place]),
            "p": float(gap.p_K[place]),
        }
        for place, k in enumerate(gap.ks)
        if k in comparison.shown
    ]


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
        return dict(RunFacts.from_run(self.run).settings)

    @property
    def figures(self) -> dict[str, Any]:
        """Return the last step's metrics and evaluations, as `pass@1 on arithmetic`."""
        return dict(RunFacts.from_run(self.run).figures)

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
        graded = GradedRun.from_run(self.run, benchmark, samples, seeds, judge)
        for name, seed, counts in graded.counts():
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
        graded = GradedRun.from_run(self.run, benchmark, samples, seeds, judge)
        for name, answer in graded.answers():
            problem, completion = answer.problem, answer.completion
            values = (
                self.id, name, answer.seed, problem.id, completion.index, problem.question,
                problem.gold, completion.text, completion.tokens, completion.finish_reason,
                answer.status, answer.extracted,
            )  # fmt: skip
            for column, value in zip(columns.values(), values, strict=True):
                column.append(value)
        return pa.table(columns)


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
        facts = [RunFacts.from_run(opened.run) for opened in self]
        fitting = selected(facts, where)
        names = ["id", *expanded(columns, fitting or facts)]
        return Rows([{name: run.value(name) for name in names} for run in fitting])

    def records(self) -> Rows:
        """Return metrics.jsonl of all runs, with the run's id in the column `run`."""
        return Rows([{"run": run.id, **record} for run in self for record in run.records()])

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

    def _counts(self, names: str | Sequence[str], **named: Any) -> list[RunCounts]:
        runs = [self[name].run for name in _names(names)]
        return [RunCounts.from_run(GradedRun.from_run(run, **named)) for run in runs]


def _names(names: str | Sequence[str]) -> Sequence[str]:
    return (names,) if isinstance(names, str) else names


def open_runs(root: Path | str | None = None) -> OpenedRuns:
    """Return the runs below `root`, by default below `$SAGE_RUNS` or `runs`."""
    return OpenedRuns(Path(root) if root is not None else default_root())
