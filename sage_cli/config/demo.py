"""The arms of `sage demo`: the pair of Table 3, DAPO without KL and DAPO with branch."""

from __future__ import annotations

from sage_cli.config.load import load
from sage_cli.config.schema import SageConfig

ARMS = ("none", "branch")


def demo_configs(preset: str, settings: tuple[str, ...]) -> list[SageConfig]:
    """What `sage rl --algo dapo --guide GUIDE` resolves to, for each arm."""
    return [
        load([preset], {"rl": {"algo": "dapo"}, "guide": {"name": guide}}, settings).config
        for guide in ARMS
    ]
