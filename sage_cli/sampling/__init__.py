"""Prompts to completions."""
