"""Policies by name: runs, checkpoints, folders, Hub names; their compatibility."""
