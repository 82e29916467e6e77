"""pass@k from counts, with intervals: pure functions on arrays."""

from sage_cli.metrics.comparison import (
    About,
    Comparison,
    Crossing,
    Difference,
    Side,
    Support,
    about,
    compare_sides,
    compare_support,
    find_crossing,
    method_difference,
    paired_difference,
)
from sage_cli.metrics.counts import Counts, pass_at_k, pooled
from sage_cli.metrics.intervals import Curve, curve
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
]
