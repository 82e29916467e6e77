"""`sage passk`: pass@k curves of runs on benchmarks."""

from __future__ import annotations

from collections.abc import Sequence

from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.measurements import measure_all, report_folder
from sage_cli.metrics import parse_ks
from sage_cli.progress import Progress
from sage_cli.workflows.curves import Curves, Line, curve_of, written


def passk(config: SageConfig, names: Sequence[str], progress: Progress) -> Curves:
    """Measure every named run or model (the latest run, or the base, when none is named)."""
    ks = parse_ks(config.evaluation.k, config.evaluation.samples)
    measured = measure_all(config, names, progress)
    lines: dict[str, tuple[Line, ...]] = {}
    for (benchmark, policy), seeds in measured.items():
        drawn = curve_of(config, [one.counts for one in seeds], ks)
        lines[benchmark] = (*lines.get(benchmark, ()), Line(policy, drawn, seeds))
    return written(Curves(ks, lines, report_folder("passk", config, measured)), config)
