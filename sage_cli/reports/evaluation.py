"""The report of `sage eval`: a row per model, a column per benchmark and k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sage_cli.metrics import Counts
from sage_cli.metrics.counts import SeedCounts
from sage_cli.metrics.estimators import FloatArray
from sage_cli.metrics.intervals import pass_matrix
from sage_cli.reports.document import Document
from sage_cli.reports.estimate import Estimate, Scores
from sage_cli.reports.grades import grade_notes, record
from sage_cli.reports.labels import AVERAGE
from sage_cli.reports.passk import powers_of_two
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.published import evaluation_tables, published, published_scores
from sage_cli.reports.table_files import to_records
from sage_cli.reports.tables import Column, Row, Table

PROTOCOL = "paper's protocol"


def evaluation_document(
    measured: Mapping[tuple[str, str], Sequence[SeedCounts]],
    ks: Sequence[int],
    provenance: Provenance,
    paper: str | None = None,
    k_samples: Mapping[tuple[str, str], Mapping[int, Sequence[Counts]]] | None = None,
) -> Document:
    """Return the report of (benchmark, policy) -> a measurement per evaluation seed.

    `paper` names a published table to add. `k_samples` has for each k the counts of k samples per
    problem, one for each seed: their pass@k is what the paper prints, in rows of its own. Raises
    ConfigurationError if the paper has no such table.
    """
    counts: dict[str, dict[str, list[Counts]]] = {}
    for (benchmark, policy), seeds in measured.items():
        counts.setdefault(policy, {})[benchmark] = [counted.counts for counted in seeds]
    measurements = [counted for seeds in measured.values() for counted in seeds]
    notes: list[str] = []
    results = {policy: score(by_benchmark, ks) for policy, by_benchmark in counts.items()}
    beside: dict[str, dict[str, Scores]] = {}
    if k_samples:
        beside[PROTOCOL] = {
            f"{policy} ({PROTOCOL})": _scores(
                {name: _means_of_k(k_samples[name, policy], ks) for name in names}, ks
            )
            for policy, names in counts.items()
        }
        notes += _protocol_notes(measurements, ks)
    if paper:
        scores = published_scores(paper)
        model = evaluation_tables()[paper]
        beside["paper"] = {f"{name} (paper, {model})": by_k for name, by_k in scores.items()}
        notes.append(f"(paper): {paper} of {published()['source']}")
    table = evaluation_table("pass@k", results, beside, notes)
    data: dict[str, Any] = {
        "k": list(ks),
        "rows": to_records(table),
        "measurements": [
            {
                "benchmark": benchmark,
                "policy": policy,
                "seeds": [record(counted) for counted in seeds],
            }
            for (benchmark, policy), seeds in measured.items()
        ],
    }
    return Document(
        name="eval",
        title="pass@k",
        provenance=provenance,
        data=data,
        tables=(table,),
        sheets={"eval": table},
        notes=grade_notes(measurements),
    )


def score(seeds_by_benchmark: Mapping[str, Sequence[Counts]], ks: Sequence[int]) -> Scores:
    """Return mean pass@k over problems as mean and standard deviation over evaluation seeds.

    Several benchmarks with equal numbers of seeds have an unweighted average, with the deviation
    of the seeds' averages.
    """
    return _scores({name: _means(seeds, ks) for name, seeds in seeds_by_benchmark.items()}, ks)


def _scores(means_by_benchmark: Mapping[str, FloatArray], ks: Sequence[int]) -> Scores:
    """Return the same from the seeds' means, of shape (S, K)."""
    means = dict(means_by_benchmark)
    if len(means) > 1 and len({len(means_SK) for means_SK in means.values()}) == 1:
        means[AVERAGE] = np.mean(list(means.values()), axis=0)
    scores: dict[str, dict[int, Estimate]] = {}
    for name, means_SK in means.items():
        S, K = means_SK.shape
        sd_K = means_SK.std(axis=0, ddof=1) if S > 1 else np.full(K, np.nan)
        columns = zip(ks, means_SK.mean(axis=0).tolist(), sd_K.tolist(), strict=True)
        scores[name] = {int(k): Estimate(mean, sd) for k, mean, sd in columns}
    return scores


def _means(seeds: Sequence[Counts], ks: Sequence[int]) -> FloatArray:
    """Return each seed's mean pass@k over problems, shape (S, K), from all samples."""
    return np.stack([pass_matrix(seed, ks).mean(axis=0) for seed in seeds])


def _means_of_k(by_k: Mapping[int, Sequence[Counts]], ks: Sequence[int]) -> FloatArray:
    """Return the same from k samples per problem: the share of problems with a correct one."""
    return np.concatenate([_means(by_k[k], (k,)) for k in ks], axis=1)


def evaluation_table(
    title: str,
    results: Mapping[str, Scores],
    beside: Mapping[str, Mapping[str, Scores]] | None = None,
    notes: Sequence[str] = (),
) -> Table:
    """Return a row per model, a column per benchmark and k, and the unweighted averages.

    Benchmarks and ks are those of `results`; the rows of `beside` (section -> label -> scores)
    follow, with "–" for missing numbers. An average with a missing benchmark is undefined. Of many
    ks the terminal shows the powers of two.
    """
    names = dict.fromkeys(name for scores in results.values() for name in scores)
    benchmarks = [name for name in names if name != AVERAGE]
    ks = sorted({k for scores in results.values() for by_k in scores.values() for k in by_k})
    shown, groups = powers_of_two(ks), [*benchmarks, *([AVERAGE] if len(benchmarks) > 1 else [])]
    columns = [Column("model")]
    columns += [Column(f"pass@{k}", group, detail=k not in shown) for group in groups for k in ks]
    rows = [_row(label, scores, benchmarks, ks) for label, scores in results.items()]
    rows += [
        _row(label, scores, benchmarks, ks, section)
        for section, rows_of in (beside or {}).items()
        for label, scores in rows_of.items()
    ]
    return Table(title, tuple(columns), tuple(rows), tuple(notes))


def _row(
    label: str, scores: Scores, benchmarks: Sequence[str], ks: Sequence[int], section: str = ""
) -> Row:
    undefined = Estimate(float("nan"))
    by_benchmark = [[scores.get(name, {}).get(k, undefined) for k in ks] for name in benchmarks]
    cells = [measure for by_k in by_benchmark for measure in by_k]
    if len(benchmarks) > 1:
        averages = scores.get(AVERAGE, {})
        for k, column in zip(ks, zip(*by_benchmark, strict=True), strict=True):
            cells.append(averages.get(k, Estimate(float(np.mean([m.value for m in column])))))
    return Row((label, *cells), section)


def _protocol_notes(measured: Sequence[SeedCounts], ks: Sequence[int]) -> list[str]:
    """Return notes on the rows of k samples and on the deviations of the rows above."""
    n, seeds = (
        max(int(counted.counts.n_P.max()) for counted in measured),
        {counted.seed for counted in measured},
    )
    notes = [
        f"({PROTOCOL}): pass@k is computed from each problem's first k samples only (pass@1 from "
        f"one sample), as published; ± is the standard deviation over {len(seeds)} evaluation "
        "seeds, with n - 1"
    ]
    if n > min(ks):
        notes.append(
            f"± in the rows above is that of {n} samples per problem. It is smaller than a "
            "published ±, which is that of k samples: compare published deviations with the rows "
            "of the same protocol"
        )
    if len(seeds) == 1:
        notes.append("with one evaluation seed there is no ±; --protocol paper uses five")
    return notes
