"""The space of a search, read from files, typed lines and stored sweeps."""
