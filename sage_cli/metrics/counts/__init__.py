"""Counts of right samples, and the statistics of single problems: pass@k, maj@k, variety."""

from sage_cli.metrics.counts.counts import (
    BoolArray,
    Counts,
    Evaluations,
    FloatArray,
    IntArray,
    SampleGrades,
    each_seed,
    pooled,
    whole,
)

__all__ = [
    "BoolArray",
    "Counts",
    "Evaluations",
    "FloatArray",
    "IntArray",
    "SampleGrades",
    "each_seed",
    "pooled",
    "whole",
]
