"""Carry out and report suites and sweeps."""
