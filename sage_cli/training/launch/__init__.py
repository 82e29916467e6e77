"""Launching several processes, and what the machine can train."""
