"""Sampling by OpenAI-compatible servers."""
