"""Divergences and advantages: pure functions on tensors."""
