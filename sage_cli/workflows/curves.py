"""pass@k curves of counts, written as a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sage_cli.config.schema import SageConfig
from sage_cli.content import file_hash
from sage_cli.metrics import Counts, Curve, curve, parse_ks, read_counts
from sage_cli.reports.document import Report
from sage_cli.reports.passk import Line, passk_document
from sage_cli.reports.provenance import Provenance
from sage_cli.store.identity import identity_of
from sage_cli.store.surroundings import surroundings


def curves_of_files(config: SageConfig, files: Sequence[Path], k: str | None) -> Report:
    """Curves from anybody's counts or samples, one file a curve; no model is needed.

    Without `k` every k up to the smallest number of samples is computed.
    """
    counts = [read_counts(path) for path in files]
    n = min(int(one.n_P.min()) for one in counts)
    ks = parse_ks(k or f"1..{n}", n)
    lines = [
        Line(path.stem, "counted elsewhere", curve_of(config, [one], ks))
        for path, one in zip(files, counts, strict=True)
    ]
    hashes = {str(path): file_hash(path) for path in files}
    around = surroundings()
    provenance = Provenance(
        files=hashes,
        versions=around["versions"],
        commit=around["commit"],
        command=around["command"],
    )
    identity = identity_of("passk", list(hashes.values()))
    folder = config.run.root / "reports" / f"passk-{files[0].stem}-{identity[:8]}"
    return passk_document(lines, provenance).write(folder)


def curve_of(config: SageConfig, counts: Sequence[Counts], ks: Sequence[int]) -> Curve:
    """The curve of counts, one per evaluation seed, with the configured band."""
    evaluation = config.evaluation
    return curve(counts, ks, confidence=evaluation.confidence, resamples=evaluation.bootstrap)
