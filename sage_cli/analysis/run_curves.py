"""pass@k of opened runs beside each other: curves with bands, differences, and their picture."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sage_cli.analysis.rows import Rows
from sage_cli.analysis.run_measurements import RunMeasurements
from sage_cli.errors import StoreError
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
from sage_cli.reports.figures.curves import draw_curves


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
