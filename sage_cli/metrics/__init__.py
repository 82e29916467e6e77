"""pass@k from counts, with intervals: pure functions on arrays."""

from sage_cli.metrics.bands import Curve, curve
from sage_cli.metrics.counts import Counts, pooled
from sage_cli.metrics.estimator import pass_at_k
from sage_cli.metrics.ks import parse_ks

__all__ = ["Counts", "Curve", "curve", "parse_ks", "pass_at_k", "pooled"]
