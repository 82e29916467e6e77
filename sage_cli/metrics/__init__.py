"""pass@k from counts, with intervals: pure functions on arrays."""

from sage_cli.metrics.comparisons.comparison import (
    About,
    Comparison,
    Crossing,
    Side,
    about,
    compare_sides,
    find_crossing,
)
from sage_cli.metrics.comparisons.differences import (
    Difference,
    method_difference,
    paired_difference,
)
from sage_cli.metrics.comparisons.support import Support, compare_support
from sage_cli.metrics.counts import Counts, pooled
from sage_cli.metrics.counts.counts_file import read_counts
from sage_cli.metrics.counts.estimator import pass_at_k
from sage_cli.metrics.intervals.bands import Curve, VarianceComponents, curve, variance_components
from sage_cli.settings.ks import curve_ks, parse_ks

__all__ = [
    "About",
    "Comparison",
    "Counts",
    "Crossing",
    "Curve",
    "Difference",
    "Side",
    "Support",
    "VarianceComponents",
    "about",
    "compare_sides",
    "compare_support",
    "curve",
    "curve_ks",
    "find_crossing",
    "method_difference",
    "paired_difference",
    "parse_ks",
    "pass_at_k",
    "pooled",
    "read_counts",
    "variance_components",
]
