"""Measure, compare and analyse policies."""
