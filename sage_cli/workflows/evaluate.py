"""`sage eval`: the paper's table, pass@k with mean and standard deviation over evaluation seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.measurement import record
from sage_cli.evaluation.measurements import Measurements, measure_all, report_folder
from sage_cli.metrics import Counts, parse_ks
from sage_cli.progress import Progress
from sage_cli.reports.evaluation import evaluation_table, score
from sage_cli.reports.published import published_scores
from sage_cli.reports.render import to_csv, to_latex, to_markdown
from sage_cli.reports.table import Table
from sage_cli.store.atomic import write_json, write_text


@dataclass(frozen=True)
class Evaluation:
    """The table, what it was computed from, and the folder that holds its forms."""

    table: Table
    measured: Measurements
    folder: Path


def evaluate(
    config: SageConfig, names: Sequence[str], progress: Progress, *, paper: str | None = None
) -> Evaluation:
    """Measure every named policy on every benchmark; `paper` lays one of its tables beside."""
    evaluation = config.evaluation
    ks = parse_ks(evaluation.k, evaluation.samples)
    beside = published_scores(paper) if paper else None
    measured = measure_all(config, names, progress)
    counts: dict[str, dict[str, list[Counts]]] = {}
    for (benchmark, policy), seeds in measured.items():
        counts.setdefault(policy, {})[benchmark] = [one.counts for one in seeds]
    seeds_said = f"{evaluation.seeds} evaluation seed{'s' if evaluation.seeds > 1 else ''}"
    table = evaluation_table(
        "pass@k",
        {policy: score(by_benchmark, ks) for policy, by_benchmark in counts.items()},
        beside,
        notes=(
            f"{evaluation.samples} samples per problem, {seeds_said}, "
            f"temperature {config.sampling.temperature:g}, grading {config.grading.mode}",
        ),
    )
    result = Evaluation(table, measured, report_folder("eval", config, measured))
    write_json(result.folder / "eval.json", as_json(result, config))
    for name, text in (("md", to_markdown), ("csv", to_csv), ("tex", to_latex)):
        write_text(result.folder / f"eval.{name}", text(table))
    return result


def as_json(result: Evaluation, config: SageConfig) -> dict[str, Any]:
    """The table's numbers with the verdicts and counts behind them."""
    heads = [f"{column.group} {column.name}".strip() for column in result.table.columns]
    return {
        "grading": config.grading.mode,
        "sampling": config.sampling.model_dump(mode="json"),
        "folder": str(result.folder),
        "rows": [dict(zip(heads, map(str, row.cells), strict=True)) for row in result.table.rows],
        "measurements": [
            {"benchmark": benchmark, "policy": policy, "seeds": [record(one) for one in seeds]}
            for (benchmark, policy), seeds in result.measured.items()
        ],
    }
