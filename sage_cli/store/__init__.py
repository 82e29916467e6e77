"""Run directories, sample sets, locks, atomic writes."""
