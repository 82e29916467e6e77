"""Runs: directories, manifests, records, evaluations."""
