"""Checkpoints, interruptions and what a training needs to resume."""
