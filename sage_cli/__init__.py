"""SAGE: shaping anchors for guided exploration in RLVR, as an experiment suite."""

__version__ = "0.1.0"

RESULT_VERSION = 2
"""Raised whenever a change of the code changes what a run computes; part of a run's identity."""
