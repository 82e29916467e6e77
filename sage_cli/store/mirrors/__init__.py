"""Mirrors of runs in W&B, TensorBoard and trackio."""
