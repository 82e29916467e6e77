"""`sage passk`: pass@k curves of runs on a benchmark, their bands, their files and picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sage_cli.config.schema import SageConfig
from sage_cli.metrics import Counts, Curve, curve, parse_ks
from sage_cli.reports.curves import draw_curves
from sage_cli.store.atomic import write_json, write_text
from sage_cli.store.run import Runs, identity_of
from sage_cli.workflows.base import Policy, base_policy, named_policies
from sage_cli.workflows.measure import Measured, measure
from sage_cli.workflows.progress import Progress


@dataclass(frozen=True)
class Line:
    """One policy's curve with the measurements, one a seed, that it was computed from."""

    label: str
    curve: Curve
    measured: tuple[Measured, ...]


@dataclass(frozen=True)
class PasskResult:
    """The curves on one benchmark, and the folder that holds their files."""

    benchmark: str
    ks: tuple[int, ...]
    lines: tuple[Line, ...]
    folder: Path


def passk(config: SageConfig, names: Sequence[str], progress: Progress) -> PasskResult:
    """Measure every named run or model (the latest run, or the base, when none is named)."""
    evaluation = config.evaluation
    ks = parse_ks(evaluation.k, evaluation.samples)
    policies = chosen_policies(config, names, progress)
    lines = []
    for policy in policies:
        measured = tuple(
            measure(policy, config, evaluation.benchmark, evaluation.seed + offset, progress)
            for offset in range(evaluation.seeds)
        )
        lines.append(
            Line(policy.label, curve_of(config, [m.counts for m in measured], ks), measured)
        )
    result = PasskResult(evaluation.benchmark, ks, tuple(lines), _folder(config, lines))
    _write(result, config)
    return result


def curve_of(config: SageConfig, counts: Sequence[Counts], ks: Sequence[int]) -> Curve:
    """The curve of a policy over its evaluation seeds, with the configured band."""
    evaluation = config.evaluation
    return curve(counts, ks, confidence=evaluation.confidence, resamples=evaluation.bootstrap)


def chosen_policies(config: SageConfig, names: Sequence[str], progress: Progress) -> list[Policy]:
    """The policies of `names`; without names the latest run's, or the base, trained first."""
    runs = Runs(config.run.root)
    if names:
        return [policy for name in names for policy in named_policies(name, runs)]
    latest = runs.latest()
    if latest is None:
        progress.say("no run yet: the preset's base is measured")
        return [base_policy(config, progress)]
    progress.say(f"measuring the latest run, [bold]{latest.id}[/]")
    return [Policy(str(latest.model), latest)]


def _folder(config: SageConfig, lines: Sequence[Line]) -> Path:
    sets = [measured.sample_set for line in lines for measured in line.measured]
    identity = identity_of("passk", {"sets": sets, "evaluation": config.evaluation.model_dump()})
    benchmark = Path(config.evaluation.benchmark.replace(",", "-")).stem
    return config.run.root / "reports" / f"passk-{benchmark}-{identity[:8]}"


def _write(result: PasskResult, config: SageConfig) -> None:
    write_json(result.folder / "passk.json", as_json(result, config))
    write_text(result.folder / "passk.csv", _as_csv(result))
    draw_curves(
        {line.label: line.curve for line in result.lines},
        result.folder / "passk",
        title=f"pass@k on {result.benchmark}",
    )


def as_json(result: PasskResult, config: SageConfig) -> dict[str, Any]:
    """Everything that the numbers rest on: settings, n and c per problem, verdicts, curves."""
    return {
        "benchmark": result.benchmark,
        "k": list(result.ks),
        "grading": config.grading.mode,
        "sampling": config.sampling.model_dump(mode="json"),
        "confidence": config.evaluation.confidence,
        "folder": str(result.folder),
        "curves": [
            {
                "policy": line.label,
                "pass@k": line.curve.mean_K.tolist(),
                "low": line.curve.low_K.tolist(),
                "high": line.curve.high_K.tolist(),
                "seeds": [
                    {
                        "seed": measured.seed,
                        "sample_set": measured.sample_set,
                        "statuses": dict(measured.statuses),
                        "truncated": measured.truncated,
                        "problems": [
                            {"id": id_, "n": int(n), "c": int(c)}
                            for id_, n, c in zip(
                                measured.counts.problem_ids,
                                measured.counts.n_P,
                                measured.counts.c_P,
                                strict=True,
                            )
                        ],
                    }
                    for measured in line.measured
                ],
            }
            for line in result.lines
        ],
    }


def _as_csv(result: PasskResult) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["policy", "benchmark", "k", "pass@k", "low", "high"])
    for line in result.lines:
        for place, k in enumerate(result.ks):
            values = (line.curve.mean_K, line.curve.low_K, line.curve.high_K)
            rows.writerow([line.label, result.benchmark, k, *(f"{v[place]:.6f}" for v in values)])
    return text.getvalue()
