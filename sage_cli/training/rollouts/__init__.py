"""Rollouts: engines, their weights, and the order of prompts."""
