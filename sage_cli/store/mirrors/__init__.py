"""Mirrors of runs in W&B and TensorBoard."""
