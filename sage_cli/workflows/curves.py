"""pass@k curves with their bands, their files and their picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.measurement import Measured, record
from sage_cli.metrics import Counts, Curve, curve, parse_ks, read_counts
from sage_cli.reports.curves import draw_curves
from sage_cli.store.atomic import write_json, write_text
from sage_cli.store.identity import identity_of


@dataclass(frozen=True)
class Line:
    """One policy's curve with the measurements, one a seed, that it was computed from."""

    policy: str
    curve: Curve
    measured: tuple[Measured, ...]


@dataclass(frozen=True)
class Curves:
    """The curves on every benchmark, and the folder that holds their files."""

    ks: tuple[int, ...]
    lines: Mapping[str, tuple[Line, ...]]
    folder: Path

    @property
    def picture(self) -> Path:
        """The PNG of all curves; an SVG lies beside it."""
        return self.folder / "passk.png"


def curves_of_files(config: SageConfig, files: Sequence[Path], k: str | None) -> Curves:
    """Curves from anybody's counts or samples, one file a curve; no model is needed.

    Without `k` every k up to the smallest number of samples is computed.
    """
    counts = [read_counts(path) for path in files]
    n = min(int(one.n_P.min()) for one in counts)
    ks = parse_ks(k or f"1..{n}", n)
    lines = tuple(
        Line(path.stem, curve_of(config, [one], ks), ())
        for path, one in zip(files, counts, strict=True)
    )
    identity = identity_of("passk", [path.read_text(encoding="utf-8") for path in files])
    folder = config.run.root / "reports" / f"passk-{files[0].stem}-{identity[:8]}"
    return written(Curves(ks, {"counted elsewhere": lines}, folder), config)


def curve_of(config: SageConfig, counts: Sequence[Counts], ks: Sequence[int]) -> Curve:
    """The curve of counts, one per evaluation seed, with the configured band."""
    evaluation = config.evaluation
    return curve(counts, ks, confidence=evaluation.confidence, resamples=evaluation.bootstrap)


def written(result: Curves, config: SageConfig) -> Curves:
    """The result, its files and picture beside it."""
    write_json(result.folder / "passk.json", as_json(result, config))
    write_text(result.folder / "passk.csv", _as_csv(result))
    panels = {
        benchmark: {line.policy: line.curve for line in lines}
        for benchmark, lines in result.lines.items()
    }
    draw_curves(panels, result.folder / "passk")
    return result


def as_json(result: Curves, config: SageConfig) -> dict[str, Any]:
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
                "pass@k": line.curve.mean_K,
                "low": line.curve.low_K,
                "high": line.curve.high_K,
                "seeds": [record(one) for one in line.measured],
            }
            for benchmark, lines in result.lines.items()
            for line in lines
        ],
    }


def _as_csv(result: Curves) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["policy", "benchmark", "k", "pass@k", "low", "high"])
    for benchmark, lines in result.lines.items():
        for line in lines:
            for k in result.ks:
                shown = (f"{value:.6f}" for value in line.curve.at(k))
                rows.writerow([line.policy, benchmark, k, *shown])
    return text.getvalue()
