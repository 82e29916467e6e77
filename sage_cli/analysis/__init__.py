"""Analyses of stored samples and training records: inputs, selection, scoring, tables."""
