"""`sage power`: what a comparison could see, before anything is trained."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from sage_cli.content import file_hash
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.evaluation.evaluate import Evaluation
from sage_cli.evaluation.provenance import provenance_of
from sage_cli.evaluation.stored import stored_counts
from sage_cli.metrics import Counts, parse_ks, pooled, read_counts
from sage_cli.metrics.counts_file import is_counts_file
from sage_cli.metrics.power import CORRELATION, HETEROGENEITY, Design
from sage_cli.metrics.verdicts import verdict_correlation
from sage_cli.progress import Progress
from sage_cli.reports.document import Report
from sage_cli.reports.power import Base, Question, power_document
from sage_cli.reports.provenance import Provenance
from sage_cli.store.identity import identity_of
from sage_cli.store.surroundings import surroundings

Found = tuple[str, str, Counts]
"""A base's label, the benchmark, and its counts."""


def power(
    evaluation: Evaluation,
    names: Sequence[str],
    progress: Progress,
    *,
    problems: str | None = None,
    samples: str = "16,64,256",
    seeds: str = "1",
    k: str | None = None,
    loss: bool = False,
    heterogeneity: float = HETEROGENEITY,
    correlation: float | None = None,
    like: str | None = None,
) -> Report:
    """The smallest gain (or `loss`) that each design would detect on each base.

    A name is a file of counts, or a run or model whose stored samples are counted; without names
    it is the latest run. Nothing is sampled. Without `problems`, as many as were counted, twice and
    four times that; without `k`, 1 and the powers of 16 up to the samples. `like` is a run from
    whose stored verdicts the correlation with each base's is estimated.
    """
    n, s = whole_numbers("--samples", samples), whole_numbers("--seeds", seeds)
    p = whole_numbers("--problems", problems) if problems else None
    ks = parse_ks(k, n[-1]) if k else tuple(k for k in (1, 16, 256, 4096) if k <= n[-1])
    if not 0 <= heterogeneity <= 10:
        raise ConfigurationError(
            f"--heterogeneity is {heterogeneity:g}: it is a standard deviation of log-odds, from 0 "
            "to 10",
            f"use 0 where all problems change alike; the default is {HETEROGENEITY:g}",
        )
    if correlation is not None and not (0 <= correlation <= 1 and like is None):
        raise ConfigurationError(
            f"--correlation is {correlation:g}" + (f" beside --like {like}" if like else ""),
            "give a number from 0 to 1, or --like RUN to have it estimated",
        )
    with progress.doing("counting what is stored of the bases"):
        found, provenance = _bases(evaluation, names)
    counted = min(len(counts) for _, _, counts in found)
    designs = tuple(Design(*one) for one in product(p or (counted, 2 * counted, 4 * counted), n, s))
    fixed = CORRELATION if correlation is None else correlation
    bases = []
    for label, benchmark, counts in found:
        together = (
            fixed if like is None else _correlation(evaluation, like, label, benchmark, counts)
        )
        asked = Question(
            designs, ks, loss, heterogeneity, together, evaluation.spec.evaluation.confidence, like
        )
        with progress.doing(f"finding what could be seen of {label} on {benchmark}"):
            bases.append(Base.of(label, benchmark, counts, asked))
    folder = _folder(evaluation.root, bases)
    with progress.doing("drawing and writing the report"):
        return power_document(bases, provenance).write(folder)


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """The numbers of `30,60,300`, ascending, each once. Raises ConfigurationError below 1."""
    tokens = [token.strip() for token in text.split(",")]
    wrong = [token for token in tokens if not token.isdecimal() or not 0 < int(token) <= 100_000]
    if wrong:
        raise ConfigurationError(
            f"{option}: '{wrong[0]}' is not a whole number from 1 to 100,000",
            f"write it as {option} 30,60,300",
        )
    return tuple(sorted({int(token) for token in tokens}))


def _bases(evaluation: Evaluation, names: Sequence[str]) -> tuple[list[Found], Provenance]:
    """The counts of each base on each benchmark, and their provenance."""
    files = {name: Path(name) for name in names if is_counts_file(name)}
    found = [(path.stem, "counts", read_counts(path)) for path in files.values()]
    provenance = Provenance.here(surroundings())
    if not names or len(files) < len(names):
        spec, root, benchmarks = evaluation.spec, evaluation.root, evaluation.benchmarks
        policies = evaluation.policies([name for name in names if name not in files])
        found += [
            (policy.label, benchmark.name,
             pooled(stored_counts(policy, benchmark, spec, root, (n,))[n]))
            for policy in policies
            for benchmark in benchmarks
            for n in [spec.evaluation.samples]
        ]  # fmt: skip
        samples = [evaluation.samples(one) for one in policies]
        provenance = provenance_of(samples, benchmarks, spec)
    for label, benchmark, counts in found:
        if not counts.n_P.any():
            raise StoreError(
                f"no sample of {label} on {benchmark} is stored and graded",
                f"type sage passk {label} --benchmark {benchmark} first, or name a file of counts",
            )
    hashes = {name: file_hash(path) for name, path in files.items()}
    return found, replace(provenance, files=hashes or None)


def _correlation(
    evaluation: Evaluation, like: str, label: str, benchmark: str, counts: Counts
) -> float:
    """The correlation of the base's grades with those of the run `like`, where both are stored."""
    spec, root = evaluation.spec, evaluation.root
    (policy,) = evaluation.policies([like])
    n, found = spec.evaluation.samples, float("nan")
    for one in evaluation.benchmarks:
        if one.name == benchmark:
            stored = stored_counts(policy, one, spec, root, (n,))[n]
            found = verdict_correlation(counts, pooled(stored))
    if math.isnan(found):
        raise StoreError(
            f"{like} and {label} have no stored verdicts on the same samples of {benchmark}",
            f"type sage passk {label} {like} first, or give --correlation",
        )
    return max(found, 0.0)


def _folder(root: Path, bases: Sequence[Base]) -> Path:
    """Told by the counts and by what is asked of them."""
    content = [
        [base.label, base.benchmark, base.counts.n_P.tolist(), base.counts.c_P.tolist()]
        for base in bases
    ]
    asked = [repr(base.question) for base in bases]
    identity = identity_of("power", {"bases": content, "asked": asked})
    return root / "reports" / f"power-{Path(bases[0].label).stem}-{identity[:8]}"
