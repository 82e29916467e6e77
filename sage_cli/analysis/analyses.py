"""The analyses by name."""

from __future__ import annotations

from difflib import get_close_matches

from sage_cli.analysis.analysis import Analysis
from sage_cli.analysis.measures.diversity import DIVERSITY
from sage_cli.analysis.measures.dynamics import DYNAMICS
from sage_cli.analysis.measures.entropy import ENTROPY
from sage_cli.analysis.measures.lengths import LENGTHS
from sage_cli.analysis.measures.majority import MAJORITY
from sage_cli.analysis.measures.modes import MODES
from sage_cli.analysis.measures.patterns import PATTERNS
from sage_cli.analysis.measures.perplexity import PERPLEXITY
from sage_cli.analysis.measures.reliability import RELIABILITY
from sage_cli.analysis.measures.sharpening import SHARPENING
from sage_cli.analysis.measures.support import SUPPORT
from sage_cli.analysis.measures.training import TRAINING
from sage_cli.errors import ConfigurationError

_ANALYSES = (PATTERNS, PERPLEXITY, SUPPORT, DIVERSITY, ENTROPY, MAJORITY, LENGTHS)
_LATER = (RELIABILITY, SHARPENING, DYNAMICS, TRAINING, MODES)
ANALYSES = {analysis.name: analysis for analysis in (*_ANALYSES, *_LATER)}
"""A new analysis is a file beside this one and its name here."""


def find_analysis(name: str) -> Analysis:
    """Return the analysis of that name. Raises ConfigurationError with the nearest name."""
    if name in ANALYSES:
        return ANALYSES[name]
    near = get_close_matches(name, ANALYSES, n=1, cutoff=0.5)
    raise ConfigurationError(
        f"there is no analysis '{name}'; there are {', '.join(ANALYSES)}",
        f"did you mean {near[0]}?" if near else "`sage analyze` lists what each tells",
    )
