"""What `sage analyze` was asked on its command line, checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from sage_cli.analysis.analysis import Analysis
from sage_cli.analysis.detectors import Detector, read_detectors
from sage_cli.analysis.material import Asked
from sage_cli.config.evaluation import EvaluationSection
from sage_cli.errors import ConfigurationError


@dataclass(frozen=True)
class Options:
    """What the command was asked besides its settings; None where an option wasn't typed.

    `problems` are beginnings of ids, `drawing` the words of the options with which `sage passk`
    draws the samples that this command reads.
    """

    base: str | None = None
    problems: tuple[str, ...] = ()
    delta: str | None = None
    patterns: Path | None = None
    drawing: tuple[str, ...] = ()


def asked_of(analysis: Analysis, evaluation: EvaluationSection, options: Options) -> Asked:
    """How the analysis is asked.

    Raises ConfigurationError for options that it doesn't look at, and deltas that are no shares.
    """
    typed = {"delta": options.delta, "patterns": options.patterns}
    for option, value in typed.items():
        if value is not None and option not in analysis.options:
            raise ConfigurationError(
                f"`sage analyze {analysis.name}` doesn't look at --{option}", "leave it out"
            )
    asked = Asked(evaluation.confidence, evaluation.bootstrap)
    if options.delta is not None:
        asked = replace(asked, deltas=_deltas(options.delta))
    if "patterns" in analysis.options:
        detectors: tuple[Detector, ...] = read_detectors(options.patterns)
        asked = replace(asked, detectors=detectors)
    return asked


def _deltas(text: str) -> tuple[float, ...]:
    try:
        deltas = tuple(sorted({float(one) for one in text.split(",")}))
    except ValueError:
        deltas = ()
    if not deltas or not all(0 <= delta < 1 for delta in deltas):
        raise ConfigurationError(
            f"--delta is '{text}', and takes shares from 0 to below 1", "type --delta 0,0.01,0.1"
        )
    return deltas
