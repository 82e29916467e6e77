"""The paper's evaluation table as a document: methods down, benchmarks across, pass@k ± spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sage_cli.metrics import Counts
from sage_cli.metrics.bands import pass_matrix
from sage_cli.reports.document import Document
from sage_cli.reports.measurement import Measured, record, verdict_notes
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.published import evaluation_tables, published, published_scores
from sage_cli.reports.render import to_records
from sage_cli.reports.table import Column, Measure, Row, Scores, Table


def evaluation_document(
    measured: Mapping[tuple[str, str], Sequence[Measured]],
    ks: Sequence[int],
    provenance: Provenance,
    paper: str | None = None,
) -> Document:
    """(benchmark, policy) -> a measurement per seed, as a table; `paper` names one to lay beside.

    Raises ConfigurationError where the paper has no such table.
    """
    counts: dict[str, dict[str, list[Counts]]] = {}
    for (benchmark, policy), seeds in measured.items():
        counts.setdefault(policy, {})[benchmark] = [one.counts for one in seeds]
    notes = [_settings_note([one for seeds in measured.values() for one in seeds], provenance)]
    beside: dict[str, Scores] = {}
    if paper:
        scores = published_scores(paper)
        model = evaluation_tables()[paper]
        beside = {f"{method} (paper, {model})": by_k for method, by_k in scores.items()}
        notes.append(f"(paper): {paper} of {published()['source']}")
    table = evaluation_table(
        "pass@k", {policy: score(by_benchmark, ks) for policy, by_benchmark in counts.items()},
        beside, notes,
    )  # fmt: skip
    return Document(
        name="eval",
        title="pass@k",
        provenance=provenance,
        data={
            "k": list(ks),
            "rows": to_records(table),
            "measurements": [
                {"benchmark": benchmark, "policy": policy, "seeds": [record(one) for one in seeds]}
                for (benchmark, policy), seeds in measured.items()
            ],
        },
        tables=(table,),
        sheets={"eval": table},
        notes=verdict_notes([one for seeds in measured.values() for one in seeds]),
    )


def score(seeds_by_benchmark: Mapping[str, Sequence[Counts]], ks: Sequence[int]) -> Scores:
    """Mean pass@k over problems, then mean and standard deviation over the evaluation seeds."""
    scores: dict[str, dict[int, Measure]] = {}
    for benchmark, seeds in seeds_by_benchmark.items():
        means_SK = np.stack([pass_matrix(seed, ks).mean(axis=0) for seed in seeds])
        sd_K = means_SK.std(axis=0, ddof=1) if len(seeds) > 1 else np.full(len(ks), np.nan)
        mean_K = means_SK.mean(axis=0)
        scores[benchmark] = {
            int(k): Measure(float(mean_K[place]), float(sd_K[place]))
            for place, k in enumerate(ks)
        }  # fmt: skip
    return scores


def evaluation_table(
    title: str,
    results: Mapping[str, Scores],
    beside: Mapping[str, Scores] | None = None,
    notes: Sequence[str] = (),
) -> Table:
    """A row per model, two or more columns per benchmark, and the unweighted average of each k.

    Benchmarks and ks are those of `results`; the rows of `beside` stand below, with "–" where
    it has no number. An average needs every benchmark: with one missing it is undefined.
    """
    benchmarks = list(dict.fromkeys(name for scores in results.values() for name in scores))
    ks = sorted({k for scores in results.values() for by_k in scores.values() for k in by_k})
    columns = [Column("model")]
    columns += [Column(f"pass@{k}", benchmark) for benchmark in benchmarks for k in ks]
    if len(benchmarks) > 1:
        columns += [Column(f"pass@{k}", "average") for k in ks]
    rows = [_row(label, scores, benchmarks, ks) for label, scores in results.items()]
    rows += [
        _row(label, scores, benchmarks, ks, "paper") for label, scores in (beside or {}).items()
    ]
    return Table(title, tuple(columns), tuple(rows), tuple(notes))


def _row(
    label: str, scores: Scores, benchmarks: Sequence[str], ks: Sequence[int], section: str = ""
) -> Row:
    undefined = Measure(float("nan"))
    measures = [[scores.get(name, {}).get(k, undefined) for k in ks] for name in benchmarks]
    cells = [measure for by_k in measures for measure in by_k]
    if len(benchmarks) > 1:
        cells += [Measure(float(np.mean([m.value for m in column]))) for column in zip(*measures)]  # noqa: B905
    return Row((label, *cells), section)


def _settings_note(measured: Sequence[Measured], provenance: Provenance) -> str:
    """`256 samples per problem, 5 evaluation seeds, temperature 1, grading strict`."""
    fewest = min(int(one.counts.n_P.min()) for one in measured)
    most = max(int(one.counts.n_P.max()) for one in measured)
    seeds = len({one.seed for one in measured})
    parts = [
        f"{fewest if fewest == most else f'{fewest} to {most}'} samples per problem",
        f"{seeds} evaluation seed{'s' if seeds > 1 else ''}",
    ]
    if provenance.sampling and "temperature" in provenance.sampling:
        parts.append(f"temperature {provenance.sampling['temperature']:g}")
    modes = {one.grader.mode for one in provenance.benchmarks or () if one.grader}
    parts += [f"grading {mode}" for mode in sorted(modes)]
    return ", ".join(parts)
