"""Completion to verdict."""
