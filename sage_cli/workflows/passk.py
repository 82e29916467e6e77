"""`sage passk`: pass@k curves of runs on benchmarks, their bands, their files and picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sage_cli.config.schema import SageConfig
from sage_cli.metrics import Curve, curve, parse_ks
from sage_cli.reports.curves import draw_curves
from sage_cli.store.atomic import write_json, write_text
from sage_cli.workflows.measure import Measured
from sage_cli.workflows.measurements import measure_all, record, report_folder
from sage_cli.workflows.progress import Progress


@dataclass(frozen=True)
class Line:
    """One policy's curve with the measurements, one a seed, that it was computed from."""

    policy: str
    curve: Curve
    measured: tuple[Measured, ...]


@dataclass(frozen=True)
class PasskResult:
    """The curves on every benchmark, and the folder that holds their files."""

    ks: tuple[int, ...]
    lines: Mapping[str, tuple[Line, ...]]
    folder: Path

    @property
    def picture(self) -> Path:
        """The PNG of all curves; an SVG lies beside it."""
        return self.folder / "passk.png"


def passk(config: SageConfig, names: Sequence[str], progress: Progress) -> PasskResult:
    """Measure every named run or model (the latest run, or the base, when none is named)."""
    evaluation = config.evaluation
    ks = parse_ks(evaluation.k, evaluation.samples)
    measured = measure_all(config, names, progress)
    lines: dict[str, tuple[Line, ...]] = {}
    for (benchmark, policy), seeds in measured.items():
        drawn = curve(
            [one.counts for one in seeds],
            ks,
            confidence=evaluation.confidence,
            resamples=evaluation.bootstrap,
        )
        lines[benchmark] = (*lines.get(benchmark, ()), Line(policy, drawn, seeds))
    result = PasskResult(ks, lines, report_folder("passk", config, measured))
    write_json(result.folder / "passk.json", as_json(result, config))
    write_text(result.folder / "passk.csv", _as_csv(result))
    panels = {
        benchmark: {line.policy: line.curve for line in drawn} for benchmark, drawn in lines.items()
    }
    draw_curves(panels, result.folder / "passk")
    return result


def as_json(result: PasskResult, config: SageConfig) -> dict[str, Any]:
    """Everything that the numbers rest on: settings, n and c per problem, verdicts, curves."""
    return {
        "k": list(result.ks),
        "grading": config.grading.mode,
        "sampling": config.sampling.model_dump(mode="json"),
        "confidence": config.evaluation.confidence,
        "folder": str(result.folder),
        "curves": [
            {
                "policy": line.policy,
                "benchmark": benchmark,
                "pass@k": line.curve.mean_K.tolist(),
                "low": line.curve.low_K.tolist(),
                "high": line.curve.high_K.tolist(),
                "seeds": [record(one) for one in line.measured],
            }
            for benchmark, lines in result.lines.items()
            for line in lines
        ],
    }


def _as_csv(result: PasskResult) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["policy", "benchmark", "k", "pass@k", "low", "high"])
    for benchmark, lines in result.lines.items():
        for line in lines:
            for k in result.ks:
                shown = (f"{value:.6f}" for value in line.curve.at(k))
                rows.writerow([line.policy, benchmark, k, *shown])
    return text.getvalue()
