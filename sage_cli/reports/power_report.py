"""The report of `sage power`: the smallest detectable gains by design and k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sage_cli.metrics import Counts, pass_at_k
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.power import HETEROGENEITY, POWER, Design, Population, smallest_changes
from sage_cli.reports.document import Document
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.tables import Column, Estimate, Row, Table, columns
from sage_cli.store.files import file_stems


@dataclass(frozen=True)
class Question:
    """A power analysis: designs, ks, and the confidence of the test."""

    designs: tuple[Design, ...]
    ks: tuple[int, ...]
    confidence: float


@dataclass(frozen=True, eq=False)
class Base:
    """A base on a benchmark: its counts, the Beta fitted to them, smallest gains (Q, K)."""

    label: str
    benchmark: str
    counts: Counts
    beta: tuple[float, float]
    smallest_QK: FloatArray

    @classmethod
    def from_counts(cls, label: str, benchmark: str, counts: Counts, question: Question) -> Base:
        """Return what each design would detect on problems like the counted ones."""
        population = Population.from_counts(counts)
        asked = question.designs, question.ks, question.confidence
        smallest_QK = smallest_changes(population, *asked)
        return cls(label, benchmark, counts, population.beta, smallest_QK)


def power_document(bases: Sequence[Base], question: Question, provenance: Provenance) -> Document:
    """Return the report: a table per base."""
    tables = tuple(power_table(base, question) for base in bases)
    models, benchmarks = (
        file_stems(names)
        for names in ([base.label for base in bases], [base.benchmark for base in bases])
    )
    data: dict[str, Any] = {
        "k": list(question.ks),
        "power": POWER,
        "confidence": question.confidence,
        "bases": [_base_json(base, question) for base in bases],
    }
    return Document(
        name="power",
        title="smallest detectable gain of pass@k",
        provenance=provenance,
        data=data,
        tables=tables,
        sheets={
            f"power-{models[base.label]}-{benchmarks[base.benchmark]}"
            if len(bases) > 1
            else "power": table
            for base, table in zip(bases, tables, strict=True)
        },
        notes=_notes(question),
    )


def power_table(base: Base, question: Question) -> Table:
    """Return a row per design: problems, samples, seeds, and the smallest gain at each k."""
    gains = (Column(f"pass@{k}", "smallest gain") for k in question.ks)
    rows = tuple(
        Row((design.problems, design.samples, design.seeds, *map(Estimate, smallest_K.tolist())))
        for design, smallest_K in zip(question.designs, base.smallest_QK, strict=True)
    )
    pass_at_k = _pass_at_ks(base.counts, question.ks)
    measured = ", ".join(f"pass@{k} {value:.3f}" for k, value in pass_at_k.items())
    known = f"{len(base.counts)} problems counted, {measured or 'too few samples for k'}"
    title = f"smallest detectable gain on {base.benchmark} from {base.label}"
    notes = (f"{base.label}: {known}", *_beyond_counts(base, question))
    return Table(title, (*columns("problems, samples, seeds"), *gains), rows, notes)


def _beyond_counts(base: Base, question: Question) -> list[str]:
    """Return a warning for the ks above the counted samples."""
    counted = int(base.counts.n_P.min())
    beyond = ", ".join(f"pass@{k}" for k in question.ks if k > counted)
    if not beyond:
        return []
    return [
        f"{beyond}: {counted:,} samples a problem are counted, so this rests on the Beta "
        "distribution fitted to the problems' success probabilities"
    ]


def _pass_at_ks(counts: Counts, ks: Sequence[int]) -> dict[int, float]:
    """Return the base's pass@k at the ks that its counts allow."""
    known = [k for k in ks if k <= counts.n_P.min()]
    values_PK = pass_at_k(counts.n_P, counts.c_P, known) if known else None
    return {} if values_PK is None else dict(zip(known, map(float, values_PK.mean(0)), strict=True))


def _notes(question: Question) -> tuple[str, ...]:
    return (
        *_alone(question),
        f"detected: in {POWER:.0%} of repetitions by a paired test at "
        f"{1 - question.confidence:.0%} two-sided; initial and trained policy answer the same "
        "problems",
        "assumed: problems like these, and a training that moves the problems' log-odds by normal "
        f"amounts with standard deviation {HETEROGENEITY:g} around a common one",
        "both policies' samples are taken as independent; with equal evaluation seeds they share "
        "their random numbers, and a little less is enough",
        "about two models, not two methods: training seeds differ besides, and count as runs in "
        "`sage compare A1,A2,A3 B1,B2,B3`",
        "– : k exceeds the samples, or no gain is large enough to be seen",
    )


def _alone(question: Question) -> tuple[str, ...]:
    """Return a warning if a design's n is a k: then the estimate of a problem is 0 or 1."""
    alone = sorted(
        {design.samples for design in question.designs} & {k for k in question.ks if k > 1}
    )
    return tuple(
        f"n = k = {k} is the noisiest estimate of pass@{k}, 0 or 1 for each problem: with the same "
        f"problems sample more, as n = {4 * k:,} (--samples)"
        for k in alone
    )


def _base_json(base: Base, question: Question) -> dict[str, Any]:
    """Return a base with the Beta distribution fitted to its problems, and its pass@k.

    Each of `designs` has its smallest detectable gain, a value for each k.
    """
    return {
        "base": base.label,
        "benchmark": base.benchmark,
        "problems": len(base.counts),
        "beta": list(base.beta),
        "pass@k": _pass_at_ks(base.counts, question.ks),
        "designs": [
            {**asdict(design), "smallest": smallest_K}
            for design, smallest_K in zip(question.designs, base.smallest_QK, strict=True)
        ],
    }
