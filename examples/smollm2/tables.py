"""Print the tables of docs/results/smollm2.md from its committed counts.

python examples/smollm2/make_rows.py smollm2
python examples/smollm2/tables.py docs/results/smollm2.counts.parquet smollm2/test.jsonl
"""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
from one_operation import chance

from sage_cli.metrics import Counts, Side
from sage_cli.metrics.comparison import TrainingSeed
from sage_cli.metrics.error_sources import ErrorSources, error_over
from sage_cli.metrics.intervals import Resampling, holm, pass_matrix
from sage_cli.problems.clusters import largest_cluster, question_clusters
from sage_cli.problems.problem import problem_id
from sage_cli.reports.comparison.contrast import Contrast, contrast_of

KS = (1, 2, 4, 8, 16, 32)
SHOWN = (1, 8, 16, 32)
ANSWERS = "smollm2/test.jsonl"
JUDGES = {"answers": ANSWERS, "formulas": f"{ANSWERS}, right by make_rows.py:right_working"}
CLASSES = ("one + * or /", "one -", "several")
Row = dict[str, str]


def operations(row: Row) -> str:
    """Return the class of a problem by the operations of its worked solution."""
    signs = re.sub(r"[\d.\s()]", "", row["working"])
    if len(signs) != 1:
        return "several"
    return "one -" if signs == "-" else "one + * or /"


class Study:
    """The counts of one study, by 64 or 16 samples a problem."""

    def __init__(self, file: Path, samples: int) -> None:
        table = parquet.read_table(file).to_pylist()
        self.rows = [row for row in table if row["n"] == samples]
        self.ks = tuple(k for k in KS if k <= samples)

    def side(self, method: str, judge: str, keep: Sequence[str] | None = None) -> Side:
        """Return the runs of a method on all problems, or those whose ids are in `keep`."""
        by_run: dict[tuple[int, str], dict[str, tuple[int, int]]] = {}
        for row in self.rows:
            if row["method"] == method and row["benchmark"] == JUDGES[judge]:
                counted = by_run.setdefault((row["seed"], row["policy"]), {})
                if keep is None or row["problem"] in keep:
                    counted[row["problem"]] = row["n"], row["c"]
        runs, seeds = [], []
        for (seed, policy), counted in sorted(by_run.items()):
            n_P, c_P = zip(*counted.values(), strict=True)
            runs.append([Counts(tuple(counted), np.array(n_P), np.array(c_P))])
            # all runs of the study began with one model and read the same rows
            seeds.append(None if method == "base" else TrainingSeed(seed, "study", policy))
        return Side(method, tuple(runs), base=method == "base", seeds=tuple(seeds))


def differences(study: Study, resampling: Resampling) -> Iterator[str]:
    """Yield the rows of the differences between the arms: difference, interval, detectable."""
    for judge in JUDGES:
        for a, b in (("anchor", "base"), ("branch", "base"), ("branch", "anchor")):
            sides = study.side(a, judge), study.side(b, judge)
            contrast = contrast_of(*sides, study.ks, resampling=resampling)
            found = contrast.difference
            cells = [shown(contrast, k) for k in SHOWN if k in study.ks]
            about = (
                f"{found.runs}"
                if found.pairing is None
                else (
                    f"seeds {found.pairing.seeds}, correlation "
                    f"{np.array2string(found.pairing.correlation_K, precision=2)}"
                )
            )
            yield f"| {judge}: {a} - {b} | {' | '.join(cells)} | {about}"
            p_holm = ", ".join(f"{p:.3f}" for p in holm(found.p_K))
            yield f"    p after Holm over k = {study.ks}: {p_holm}"


def shown(contrast: Contrast, k: int) -> str:
    """Return a difference with its interval and the smallest detectable one."""
    gap, column = contrast.difference, contrast.difference.ks.index(k)
    interval = f"[{gap.low_K[column]:.3f}, {gap.high_K[column]:.3f}]"
    return f"{gap.mean_K[column]:+.3f} {interval}, {contrast.smallest_K[column]:.3f}"


def means(study: Study) -> Iterator[str]:
    """Yield pass@k of each arm, over all its runs and over the seeds that both arms have."""
    for judge in JUDGES:
        sides = {method: study.side(method, judge) for method in ("base", "anchor", "branch")}
        common = {seed.number for seed in sides["anchor"].seeds} & {
            seed.number for seed in sides["branch"].seeds
        }
        for method, side in sides.items():
            values = np.array([pass_matrix(run, study.ks).mean(axis=0) for run in side.runs])
            chosen = [seed is None or seed.number in common for seed in side.seeds]
            for words, part in (("all seeds", values), (f"seeds {common}", values[chosen])):
                cells = " | ".join(f"{value:.3f}" for value in part.mean(axis=0))
                yield f"| {judge}: {method}, {words} | {cells} |"


def by_operation(study: Study, ids: dict[str, Sequence[str]]) -> Iterator[str]:
    """Yield the change from the initial policy by class of problem, both arms of a seed averaged.

    And the interaction: the first class minus the other two together. The problems of different
    classes are independent, and the seeds are the same.
    """
    for judge in JUDGES:
        for name, keep in ids.items():
            gap_TPK = _gaps(study, judge, keep)
            sources = error_over([(gap_TPK, np.zeros_like(gap_TPK[:1]))])
            cells = _cells(gap_TPK.mean(axis=(0, 1)), sources, study)
            yield f"| {judge}: {name} ({len(keep)}) | {cells} |"
        first, others = CLASSES[0], [id_ for name in CLASSES[1:] for id_ in ids[name]]
        parts = [_gaps(study, judge, keep) for keep in (ids[first], others)]
        contrast_TK = parts[0].mean(axis=1) - parts[1].mean(axis=1)
        variances = [contrast_TK.var(axis=0, ddof=1) / len(contrast_TK)]
        for part in parts:
            of_problems = error_over([(part, np.zeros_like(part[:1]))])
            variances.append(of_problems.variance_SK[-1])
        freedom = [len(contrast_TK) - 1.0, *(part.shape[1] - 1.0 for part in parts)]
        sources = ErrorSources(np.stack(variances), np.array(freedom))
        yield f"| {judge}: *interaction* | {_cells(contrast_TK.mean(axis=0), sources, study)} |"


def between_judges(study: Study) -> Iterator[str]:
    """Yield the baseline's change by answers minus its change by formulas, on the same runs."""
    answers_TPK, formulas_TPK = (_gaps(study, judge, None, ("anchor",)) for judge in JUDGES)
    gap_TPK = answers_TPK - formulas_TPK
    sources = error_over([(gap_TPK, np.zeros_like(gap_TPK[:1]))])
    cells = _cells(gap_TPK.mean(axis=(0, 1)), sources, study)
    yield f"| answers - formulas: anchor - base | {cells} |"


def _gaps(
    study: Study,
    judge: str,
    keep: Sequence[str] | None,
    methods: Sequence[str] = ("anchor", "branch"),
) -> np.ndarray:
    """Return pass@k minus the initial policy's by training seed, (T, P, K), over these arms."""
    base_PK = pass_matrix(study.side("base", judge, keep).runs[0], study.ks)
    by_seed: dict[int, list[np.ndarray]] = {}
    for method in methods:
        side = study.side(method, judge, keep)
        for seed, run in zip(side.seeds, side.runs, strict=True):
            by_seed.setdefault(seed.number, []).append(pass_matrix(run, study.ks) - base_PK)
    return np.stack([np.mean(gaps, axis=0) for gaps in by_seed.values()])


def _cells(mean_K: np.ndarray, sources: ErrorSources, study: Study) -> str:
    reach_K = sources.reach(0.05)
    ends = zip(study.ks, mean_K, reach_K, strict=True)
    cells = {k: f"{mean:+.3f} [{mean - reach:.3f}, {mean + reach:.3f}]" for k, mean, reach in ends}
    return " | ".join(cells[k] for k in SHOWN if k in cells)


def claims(study: Study) -> Iterator[str]:
    """Yield how the suite's claims came out, as `sage suite report` decides them.

    The difference with its interval pooled over the suite's arms where they share the seeds, p
    after Holm over the four claims, and the interval by the arm's own seeds.
    """
    arms = [study.side(method, "answers") for method in ("anchor", "branch")]
    base, found = study.side("base", "answers"), []
    for arm in arms:
        contrast = contrast_of(arm, base, study.ks, arms)
        found += [(f"{arm.label} > base at pass@{k}", contrast, study.ks.index(k)) for k in (1, 16)]
    adjusted = holm([contrast.difference.p_K[column] for _, contrast, column in found])
    for (text, contrast, column), p_holm in zip(found, adjusted, strict=True):
        pooled, own = contrast.difference, contrast.unpooled or contrast.difference
        intervals = [
            f"[{gap.low_K[column]:.3f}, {gap.high_K[column]:.3f}]" for gap in (pooled, own)
        ]
        mean, p = pooled.mean_K[column], pooled.p_K[column]
        yield f"{text}: {mean:+.3f} {', own seeds '.join(intervals)}, p {p:.3f}, Holm {p_holm:.3f}"


def main(counts: Path, test: Path) -> None:
    """Print all tables of both studies."""
    rows: list[Row] = [json.loads(line) for line in test.read_text().splitlines()]
    by_id = {problem_id(test.name, row["question"], row["gold"]): row for row in rows}
    ids = {name: [id_ for id_, row in by_id.items() if operations(row) == name] for name in CLASSES}
    guess_P = np.array([chance(row["question"], row["gold"]) for row in rows])
    clusters = question_clusters({id_: row["question"] for id_, row in by_id.items()})
    sizes = len(set(clusters.values())), largest_cluster(clusters)[1]
    print("a blind guess:", ", ".join(f"{np.mean(1 - (1 - guess_P) ** k):.3f}" for k in KS))
    print(f"{len(rows)} problems in {sizes[0]} clusters, the largest of {sizes[1]}")
    for samples, title in ((64, "60 steps, one H100"), (16, "24 steps, two CPU cores")):
        study = Study(counts, samples)
        print(f"\n## {title}: k = {study.ks}\n")
        print(*means(study), sep="\n")
        print("\nover problems:", *differences(study, Resampling()), sep="\n")
        print("\nby judge:", *between_judges(study), sep="\n")
        print("\nover clusters:", *differences(study, Resampling(clusters=clusters)), sep="\n")
        print("\nby operation:", *by_operation(study, ids), sep="\n")
        print("\nclaims of configs/suites/smollm2.yaml:", *claims(study), sep="\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
