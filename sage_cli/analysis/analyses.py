"""The analyses by name."""

from __future__ import annotations

from sage_cli.analysis.analysis import Analysis
from sage_cli.analysis.measures.diversity import DIVERSITY, MODES
from sage_cli.analysis.measures.dynamics import DYNAMICS
from sage_cli.analysis.measures.entropy import ENTROPY
from sage_cli.analysis.measures.lengths import LENGTHS
from sage_cli.analysis.measures.patterns import PATTERNS
from sage_cli.analysis.measures.perplexity import PERPLEXITY
from sage_cli.analysis.measures.reliability import MAJORITY, RELIABILITY
from sage_cli.analysis.measures.sharpening import SHARPENING
from sage_cli.analysis.measures.support import SUPPORT
from sage_cli.analysis.measures.training import TRAINING
from sage_cli.errors import ConfigurationError, did_you_mean

_ANALYSES = (PATTERNS, PERPLEXITY, SUPPORT, DIVERSITY, ENTROPY, MAJORITY, LENGTHS)
_LATER = (RELIABILITY, SHARPENING, DYNAMICS, TRAINING, MODES)
ANALYSES = {analysis.name: analysis for analysis in (*_ANALYSES, *_LATER)}
"""A new analysis is a file beside this one and its name here."""


def find_analysis(name: str) -> Analysis:
    """Return the analysis of that name. Raises ConfigurationError with the nearest name."""
    if name in ANALYSES:
        return ANALYSES[name]
    raise ConfigurationError(
        f"there is no analysis '{name}'; there are {', '.join(ANALYSES)}",
        did_you_mean(name, ANALYSES, 0.5) or "`sage analyze` lists what each tells",
    )
