"""Policies over temperatures: `sage passk --temperature`, `sage compare --at pass@1`."""

from __future__ import annotations

from collections.abc import Sequence

from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.evaluate import Evaluation
from sage_cli.evaluation.over_temperatures import over_temperatures
from sage_cli.metrics.intervals.interval import Resampling
from sage_cli.models.policies.names import NO_LABELS, Labels
from sage_cli.progress import Progress
from sage_cli.reports.document import Report
from sage_cli.reports.over_temperatures import over_temperatures_document
from sage_cli.store.identity import identity_of


def parse_temperatures(text: str) -> tuple[float, ...]:
    """Return the temperatures of `0.8,1,1.2`. Raises ConfigurationError for anything else."""
    try:
        found = tuple(sorted({float(part) for part in text.split(",")}))
    except ValueError:
        found = ()
    if not found or not all(0 < one < 100 for one in found):
        raise ConfigurationError(
            f"--temperature {text}: temperatures are numbers above 0",
            "write them with commas, as --temperature 0.8,1,1.2",
        )
    return found


def measure_over_temperatures(
    evaluation: Evaluation,
    names: Sequence[str],
    temperatures: Sequence[float],
    progress: Progress,
    labels: Labels = NO_LABELS,
) -> Report:
    """Measure the named models at each temperature, and compare them at equal pass@1."""
    with progress.doing(f"reading {evaluation.spec.evaluation.benchmark}"):
        _ = evaluation.benchmarks
    policies = evaluation.policies(names, labels)
    found = over_temperatures(evaluation, policies, temperatures, progress)
    settings = evaluation.spec.evaluation
    with progress.doing("comparing, and writing the report"):
        how = Resampling(settings.confidence, settings.bootstrap)
        document = over_temperatures_document(found, how)
        identity = identity_of(
            "temperatures",
            {
                "policies": [one.fingerprint for one in policies],
                "settings": settings.determinants(),
                "temperatures": found.temperatures,
            },
        )
        stem = "-".join(dict.fromkeys(name for name, _ in found.passed))
        return document.write(evaluation.root / "reports" / f"temperatures-{stem}-{identity[:8]}")
