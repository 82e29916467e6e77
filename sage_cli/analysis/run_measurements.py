"""Stored samples and grades of runs: counts, curves with bands, and differences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sage_cli.analysis.rows import Rows
from sage_cli.config.consent import JUDGE, own_functions, without_consent
from sage_cli.config.load import load
from sage_cli.config.specs import EvaluationSpec
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.evaluation.benchmarks import Benchmark, load_benchmarks
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.evaluation.stored import StoredAnswer, stored_answers, stored_counts
from sage_cli.metrics import (
    Comparison,
    Counts,
    Curve,
    Side,
    compare_sides,
    curve,
    curve_ks,
    parse_ks,
)
from sage_cli.models.policies.policy import Policy
from sage_cli.models.policies.prompting import stored_settings
from sage_cli.reports.figures.curves import draw_curves
from sage_cli.store.runs.run import Run


@dataclass(frozen=True)
class RunMeasurements:
    """A run's policy with an evaluation of it, and the folder of runs."""

    policy: Policy
    spec: EvaluationSpec
    root: Path

    @classmethod
    def of(
        cls,
        run: Run,
        benchmark: str | None = None,
        samples: int | None = None,
        seeds: int | None = None,
        judge: str | None = None,
    ) -> RunMeasurements:
        """Return those that the run's own settings mean, but for what is given.

        Raises ConfigurationError where they name a judge of one's own and `judge` is not given.
        """
        made_with = stored_settings(run)
        own = own_functions(made_with).get(JUDGE)
        if own is not None and judge is None:
            raise ConfigurationError(
                f"{run.id} is graded by {own}: that is Python code, and a stored configuration "
                "can't have it run",
                f"read that code, and add judge='{own}' to the call if it may be run here",
            )
        named = {"benchmark": benchmark, "samples": samples, "seeds": seeds}
        flags = {"evaluation": named, "grading": {"judge": judge}}
        config = load(flags=flags, stored=without_consent(made_with)).config
        return cls(Policy.of_run(run), EvaluationSpec.of(config), run.folder.parent)

    @property
    def benchmarks(self) -> list[Benchmark]:
        """Return the benchmarks, loaded."""
        spec = self.spec
        return load_benchmarks(spec.evaluation, spec.data, spec.grading.judge)

    def counts(self) -> Iterator[tuple[str, int, Counts]]:
        """Yield benchmark, evaluation seed, and the counts of samples with a grade."""
        n, first = self.spec.evaluation.samples, self.spec.evaluation.seed
        for one in self.benchmarks:
            found = stored_counts(self.policy, one, self.spec, self.root, [n])[n]
            for seed, counts in enumerate(found, first):
                yield one.name, seed, counts

    def answers(self) -> Iterator[tuple[str, StoredAnswer]]:
        """Yield benchmark and each stored sample that has a grade."""
        samples = PolicySamples.of_evaluation(self.policy, self.spec, self.root)
        n = self.spec.evaluation.samples
        for one in self.benchmarks:
            for answer in stored_answers(samples, one, self.spec, list(one.golds), n):
                yield one.name, answer


@dataclass(frozen=True)
class Picture:
    """A figure as PNG, which a notebook shows."""

    png: bytes

    def _repr_png_(self) -> bytes:
        return self.png

    def save(self, path: Path | str) -> None:
        """Write the PNG."""
        Path(path).write_bytes(self.png)

    @classmethod
    def of(cls, draw: Callable[[Path], None]) -> Picture:
        """Return what `draw` draws into the file that it is given."""
        with TemporaryDirectory() as folder:
            file = Path(folder) / "figure.png"
            draw(file)
            return cls(file.read_bytes())


@dataclass(frozen=True)
class RunCounts:
    """A run's counts of each evaluation seed by benchmark; `base` is True for an initial policy."""

    id: str
    base: bool
    seeds: Mapping[str, Sequence[Counts]]

    @classmethod
    def of(cls, measurements: RunMeasurements, *, base: bool) -> RunCounts:
        """Return the counts of complete measurements.

        Raises StoreError, naming the command that samples them, where samples or grades are
        missing.
        """
        id_, n = measurements.policy.label, measurements.spec.evaluation.samples
        found: defaultdict[str, list[Counts]] = defaultdict(list)
        for benchmark, _, counts in measurements.counts():
            if not len(counts) or int(counts.n_P.min()) < n:
                raise StoreError(
                    f"{id_} has fewer than {n} graded samples of a problem of {benchmark}",
                    f"sage passk {id_} --benchmark {benchmark} --n {n}; or name fewer samples",
                )
            found[benchmark].append(counts)
        return cls(id_, base, found)


def curves_picture(runs: Sequence[RunCounts]) -> Picture:
    """Return pass@k curves with 95 % bands, a panel per benchmark, a line per run."""
    panels: defaultdict[str, dict[str, Curve]] = defaultdict(dict)
    for run in runs:
        for benchmark, seeds in run.seeds.items():
            n = min(int(counts.n_P.min()) for counts in seeds)
            panels[benchmark][run.id] = curve(seeds, curve_ks(n))
    return Picture.of(lambda file: draw_curves(panels, file))


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


def _rows(benchmark: str, found: Comparison) -> list[Mapping[str, object]]:
    gap = found.difference
    return [
        {
            "benchmark": benchmark,
            "k": k,
            "a": found.a.label,
            "b": found.b.label,
            "pass@k of a": found.curves[0].at(k)[0],
            "pass@k of b": found.curves[1].at(k)[0],
            "difference": float(gap.mean_K[place]),
            "low": float(gap.low_K[place]),
            "high": float(gap.high_K[place]),
            "p": float(gap.p_K[place]),
        }
        for place, k in enumerate(gap.ks)
        if k in found.shown
    ]
