"""Which model is meant: runs, checkpoints, folders, Hub names; what fits together."""
