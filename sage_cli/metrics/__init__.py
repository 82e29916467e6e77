"""pass@k from counts, with intervals: pure functions on arrays."""

from sage_cli.metrics.comparison import About, Comparison, Side, about, compare_sides
from sage_cli.metrics.counts import Counts, pooled
from sage_cli.metrics.crossing import Crossing, find_crossing
from sage_cli.metrics.differences import Difference, method_difference, paired_difference
from sage_cli.metrics.estimators import curve_ks, pass_at_k, powers_up_to
from sage_cli.metrics.intervals import Curve, curve
from sage_cli.metrics.support import Support, compare_support

__all__ = [
    "About",
    "Comparison",
    "Counts",
    "Crossing",
    "Curve",
    "Difference",
    "Side",
    "Support",
    "about",
    "compare_sides",
    "compare_support",
    "curve",
    "curve_ks",
    "find_crossing",
    "method_difference",
    "paired_difference",
    "pass_at_k",
    "pooled",
    "powers_up_to",
]
